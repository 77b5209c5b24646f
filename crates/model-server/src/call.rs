//! Calls of tools, and how a call is fitted to the tools that an agent offers.

use crate::sample::sample;
use crate::talk::Tool;
use serde_json::{Map, Value, json};
use tieline_script::{Call, Facts, Wish};

/// Names that agents give to tools which write a whole file, the most exact ones first.
const WRITE: &[&str] = &["write", "write_file", "Write", "create_file", "WriteFile", "write_text_file", "create"];
const EDIT: &[&str] =
    &["edit", "edit_file", "Edit", "replace", "str_replace", "search_replace", "StrReplace", "text_editor"];
const READ: &[&str] = &["read", "read_file", "Read", "ReadFile", "view", "read_text_file"];
const RUN: &[&str] = &[
    "shell",
    "bash",
    "Bash",
    "run",
    "run_shell_command",
    "exec_command",
    "shell_command",
    "run_command",
    "execute",
    "Shell",
    "local_shell",
    "terminal",
];
const PATCH: &[&str] = &["apply_patch", "patch"];

/// Names of properties, by what they mean.
const PATHS: &[&str] =
    &["path", "file_path", "filePath", "absolute_path", "filename", "target_file", "file", "abs_path"];
const CONTENTS: &[&str] = &["content", "contents", "text", "file_text", "new_content"];
const OLDS: &[&str] = &["old_string", "oldString", "old", "old_str", "old_text", "search", "before"];
const NEWS: &[&str] = &["new_string", "newString", "new", "new_str", "new_text", "replace", "after"];
const COMMANDS: &[&str] = &["command", "cmd", "script", "commands"];

/// A call as it goes over the wire.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Made {
    pub(crate) name: String,
    /// JSON, unless the script wants it broken; the text itself if `free`.
    pub(crate) arguments: String,
    /// A tool that takes free text (`custom` in the responses format).
    pub(crate) free: bool,
}

/// The call, fitted to what is offered.
pub(crate) fn make(call: &Call, tools: &[Tool], folder: Option<&str>, facts: &Facts) -> Made {
    let (name, mut arguments) = match &call.wish {
        Wish::Raw { name, text } => {
            return Made { name: name.clone(), arguments: text.clone(), free: false };
        }
        // Most agents call the tools of MCP servers so.
        Wish::Mcp { server, tool, text } => {
            return Made { name: format!("mcp__{server}__{tool}"), arguments: text.clone(), free: false };
        }
        Wish::Named { names, arguments } => {
            let tool = names.iter().find_map(|name| tools.iter().find(|tool| &tool.name == name));
            let name = tool.map(|tool| &tool.name).or(names.first()).cloned().unwrap_or_default();
            (name, facts.fill_json(arguments))
        }
        Wish::Write { path, content } => {
            let path = absolute(path, folder);
            let values = [(PATHS, json!(path)), (CONTENTS, json!(content))];
            match find(tools, WRITE) {
                Some(tool) => (tool.name.clone(), fill(tool, &values)),
                None => return patch_or_shell(tools, &new_file(&path, content), &here_document(&path, content)),
            }
        }
        Wish::Edit { path, old, new } => {
            let path = absolute(path, folder);
            match find(tools, EDIT) {
                Some(tool) => (tool.name.clone(), replacement(tool, &path, old, new)),
                None => {
                    return patch_or_shell(tools, &changed_file(&path, old, new), &substitution(&path, old, new));
                }
            }
        }
        Wish::Read { path } => {
            let path = absolute(path, folder);
            match find(tools, READ) {
                Some(tool) => (tool.name.clone(), fill(tool, &[(PATHS, json!(path))])),
                None => return run(tools, &format!("cat {}", quoted(&path))),
            }
        }
        Wish::Run { command } => return run(tools, command),
    };
    call.swell(&mut arguments);
    Made { name, arguments: arguments.to_string(), free: false }
}

fn find<'a>(tools: &'a [Tool], names: &[&str]) -> Option<&'a Tool> {
    names.iter().find_map(|name| tools.iter().find(|tool| tool.name == *name))
}

fn run(tools: &[Tool], command: &str) -> Made {
    let Some(tool) = find(tools, RUN) else {
        return Made { name: RUN[0].into(), arguments: json!({ "command": command }).to_string(), free: false };
    };
    let properties = tool.schema.get("properties").and_then(Value::as_object);
    let list = COMMANDS.iter().any(|name| {
        properties.and_then(|all| all.get(*name)).and_then(|p| p.get("type")).and_then(Value::as_str) == Some("array")
    });
    let value = if list { json!(["bash", "-c", command]) } else { json!(command) };
    let mut arguments = fill(tool, &[(COMMANDS, value)]);
    // Codex asks the user only if the model wants to leave the sandbox.
    if sandboxed(tool) {
        arguments["sandbox_permissions"] = json!("require_escalated");
        arguments["justification"] = json!("May I run this command?");
    }
    Made { name: tool.name.clone(), arguments: arguments.to_string(), free: false }
}

fn patch_or_shell(tools: &[Tool], patch: &str, command: &str) -> Made {
    match find(tools, PATCH) {
        Some(tool) if tool.free => Made { name: tool.name.clone(), arguments: patch.into(), free: true },
        Some(tool) => {
            let values: [(&[&str], Value); 1] = [(&["input", "patch", "patchText", "patch_text"], json!(patch))];
            Made { name: tool.name.clone(), arguments: fill(tool, &values).to_string(), free: false }
        }
        // Codex takes patches through its shell.
        None if find(tools, RUN).is_some_and(sandboxed) => {
            run(tools, &format!("apply_patch <<'END_OF_PATCH'\n{patch}END_OF_PATCH"))
        }
        None => run(tools, command),
    }
}

/// Whether a tool runs commands in a sandbox that the model can ask to leave, as Codex has it.
fn sandboxed(tool: &Tool) -> bool {
    tool.schema.pointer("/properties/sandbox_permissions").is_some()
}

/// The arguments of a tool: the values where its schema has a property for them, and something for what else it needs.
fn fill(tool: &Tool, values: &[(&[&str], Value)]) -> Value {
    let empty = Map::new();
    let properties = tool.schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
    let mut arguments = Map::new();
    for (names, value) in values {
        let name = names.iter().find(|name| properties.contains_key(**name)).or(names.first());
        if let Some(name) = name {
            arguments.insert((*name).into(), value.clone());
        }
    }
    let required = tool.schema.get("required").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    for name in required.iter().filter_map(Value::as_str) {
        if !arguments.contains_key(name) {
            arguments.insert(name.into(), sample(properties.get(name).unwrap_or(&Value::Null)));
        }
    }
    Value::Object(arguments)
}

/// The arguments of a tool that replaces one text by another, or each text of a list.
fn replacement(tool: &Tool, path: &str, old: &str, new: &str) -> Value {
    let known =
        |properties: &Value, names: &[&'static str]| names.iter().copied().find(|name| properties.get(name).is_some());
    let properties = tool.schema.get("properties").and_then(Value::as_object);
    let list = properties.into_iter().flatten().find_map(|(name, property)| {
        let item = property.pointer("/items/properties")?;
        Some((name, known(item, OLDS)?, known(item, NEWS)?))
    });
    let Some((list, old_name, new_name)) = list else {
        return fill(tool, &[(PATHS, json!(path)), (OLDS, json!(old)), (NEWS, json!(new))]);
    };
    let mut arguments = fill(tool, &[(PATHS, json!(path))]);
    arguments[list] = json!([{ old_name: old, new_name: new }]);
    arguments
}

fn absolute(path: &str, folder: Option<&str>) -> String {
    match folder {
        Some(folder) if !path.starts_with('/') => format!("{}/{path}", folder.trim_end_matches('/')),
        _ => path.into(),
    }
}

fn new_file(path: &str, content: &str) -> String {
    format!("*** Begin Patch\n*** Add File: {path}\n{}*** End Patch\n", marked('+', content))
}

fn changed_file(path: &str, old: &str, new: &str) -> String {
    let (removed, added) = (marked('-', old), marked('+', new));
    format!("*** Begin Patch\n*** Update File: {path}\n@@\n{removed}{added}*** End Patch\n")
}

/// The lines of a text, each with a mark before it.
fn marked(mark: char, text: &str) -> String {
    text.lines().flat_map(|line| [mark.to_string(), line.to_owned(), "\n".into()]).collect()
}

fn here_document(path: &str, content: &str) -> String {
    format!("cat > {} <<'END_OF_FILE'\n{}\nEND_OF_FILE", quoted(path), content.trim_end_matches('\n'))
}

fn substitution(path: &str, old: &str, new: &str) -> String {
    let program = "import sys; p, a, b = sys.argv[1:]; t = open(p).read(); open(p, 'w').write(t.replace(a, b, 1))";
    format!("python3 -c {} {} {} {}", quoted(program), quoted(path), quoted(old), quoted(new))
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str, properties: &Value, required: &Value) -> Tool {
        Tool { name: name.into(), schema: json!({ "properties": properties, "required": required }), free: false }
    }

    fn check(call: &Call, tools: &[Tool], name: &str, arguments: &Value) {
        let made = make(call, tools, Some("/w"), &Facts::default());
        assert_eq!(made.name, name);
        assert_eq!(&serde_json::from_str::<Value>(&made.arguments).unwrap(), arguments);
    }

    #[test]
    fn a_wish_is_fitted_to_the_tools_on_offer() {
        let string = json!({ "type": "string" });
        let write = tool("write_file", &json!({ "file_path": string, "content": string }), &json!(["file_path"]));
        check(
            &Call::write("a", "b"),
            std::slice::from_ref(&write),
            "write_file",
            &json!({ "file_path": "/w/a", "content": "b" }),
        );
        let item = json!({ "properties": { "old": string, "new": string } });
        let edit = [tool("edit", &json!({ "path": string, "edits": { "type": "array", "items": item } }), &json!([]))];
        let edits = json!([{ "old": "x", "new": "y" }]);
        check(&Call::edit("a", "x", "y"), &edit, "edit", &json!({ "path": "/w/a", "edits": edits }));
        let shell =
            tool("bash", &json!({ "command": string, "description": string }), &json!(["command", "description"]));
        let tools = [write, shell];
        check(&Call::run("ls"), &tools, "bash", &json!({ "command": "ls", "description": "text" }));
        check(&Call::read("a"), &tools, "bash", &json!({ "command": "cat '/w/a'", "description": "text" }));
        let list = [tool("shell", &json!({ "command": { "type": "array" } }), &json!([]))];
        check(&Call::run("ls"), &list, "shell", &json!({ "command": ["bash", "-c", "ls"] }));
    }

    #[test]
    fn a_patch_is_made_where_there_is_nothing_else() {
        let patch = [Tool { name: "apply_patch".into(), schema: Value::Null, free: true }];
        let made = make(&Call::write("/a", "x\ny"), &patch, None, &Facts::default());
        assert_eq!(made.arguments, "*** Begin Patch\n*** Add File: /a\n+x\n+y\n*** End Patch\n");
        assert!(made.free);
    }

    #[test]
    fn codex_takes_patches_and_questions_through_its_shell() {
        let string = json!({ "type": "string" });
        let shell = [tool("exec_command", &json!({ "cmd": string, "sandbox_permissions": string }), &json!(["cmd"]))];
        let question = json!("May I run this command?");
        let expect = json!({ "cmd": "ls", "sandbox_permissions": "require_escalated", "justification": question });
        check(&Call::run("ls"), &shell, "exec_command", &expect);
        let made = make(&Call::edit("/a", "x", "y"), &shell, None, &Facts::default());
        assert!(
            made.arguments.contains("apply_patch <<") && made.arguments.contains("-x\\n+y\\n"),
            "{}",
            made.arguments
        );
    }

    #[test]
    fn the_first_offered_of_some_names_is_called() {
        let tools = [tool("b", &json!({}), &json!([])), tool("c", &json!({}), &json!([]))];
        check(&Call::any(["a", "c", "b"], json!({ "x": 1 })), &tools, "c", &json!({ "x": 1 }));
        check(&Call::any(["q", "r"], json!({})), &tools, "q", &json!({}));
    }

    #[test]
    fn arguments_can_be_huge() {
        let made =
            make(&Call::named("t", json!({ "a": "x", "b": "long" })).huge(1 << 20), &[], None, &Facts::default());
        assert!(made.arguments.len() > 1 << 20);
        assert_eq!(serde_json::from_str::<Value>(&made.arguments).unwrap()["a"], "x");
    }
}
