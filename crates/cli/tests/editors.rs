//! Editors that people use, each habit of theirs a row: how they send prompts, how they serve files, what they can't bear.
//! Taken from wires of Neovim with `CodeCompanion` and avante that were recorded against the real binary.

#![allow(clippy::unwrap_used)]

mod common;

use common::editor::Habit;
use common::{Client, Editor, Framing, Place, Reply};
use serde_json::{Value, json};

/// An editor as it says hello: `CodeCompanion` by its name, avante without one.
fn editor(place: &Place, habit: Habit, arguments: &[&str]) -> Client {
    let mut client = Client::silent(place, ("1", Framing::Lines), arguments);
    let files = json!({"fs": {"readTextFile": true, "writeTextFile": true}});
    let mut hello = json!({"protocolVersion": 1, "clientCapabilities": files});
    if habit == Habit::CodeCompanion {
        hello["clientInfo"] = json!({"name": "CodeCompanion.nvim", "version": "1.0.0"});
    }
    client.hello = client.call("initialize", hello);
    client.editor = Some(Editor::with(habit));
    client.open_in(&place.project());
    client
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// A prompt as avante sends it: what is open, the new words, those of before, a remark.
fn avante(words: &[&str]) -> Value {
    let link = json!({"type": "resource_link", "name": "main.rs", "uri": "file:///p/main.rs"});
    let wrapped = words.iter().map(|words| text(&format!("<previous_user_message>{words}</previous_user_message>")));
    let remark = format!("Continuing from previous session with {} recent user messages", words.len());
    let remark = text(&format!("<system_context>{remark}</system_context>"));
    std::iter::once(link).chain(wrapped).chain([remark]).collect()
}

/// What comes before is a prompt that is cancelled while it asks for permission.
const CANCELLED: bool = true;
/// It comes to its end.
const DONE: bool = false;

/// Prompts, the old ones with how they end; the title, and how often something was asked in all of them.
type Prompts =
    (&'static str, Habit, fn() -> Vec<(Value, bool)>, &'static str, usize, &'static [(&'static str, &'static str)]);

const PROMPTS: &[Prompts] = &[
    (
        "rules in a block of their own",
        Habit::CodeCompanion,
        || {
            let rules = text("Sharing `AGENTS.md`:\n\n---\n# Rules\nBe brief.\n\n---");
            vec![(json!([rules, text("/write hello.txt hi")]), DONE)]
        },
        "/write hello.txt hi",
        1,
        &[("hello.txt", "hi")],
    ),
    (
        "a file that is mentioned in words",
        Habit::CodeCompanion,
        || {
            let file = text("Sharing the following file as context: notes.md");
            vec![(json!([file, text("/write hello.txt hi")]), DONE)]
        },
        "/write hello.txt hi",
        1,
        &[("hello.txt", "hi")],
    ),
    (
        "a cancelled prompt again before the next one",
        Habit::CodeCompanion,
        || {
            vec![
                (json!([text("/write one.txt 1")]), CANCELLED),
                (json!([text("/write one.txt 1"), text("/write two.txt 2")]), DONE),
            ]
        },
        "/write one.txt 1",
        2,
        &[("two.txt", "2")],
    ),
    (
        "wrapped, with what is open",
        Habit::Avante,
        || vec![(avante(&["/write hello.txt hi"]), DONE)],
        "/write hello.txt hi",
        1,
        &[("hello.txt", "hi")],
    ),
    (
        "all prompts again, the newest first",
        Habit::Avante,
        || {
            vec![
                (avante(&["/write one.txt 1"]), DONE),
                (avante(&["/write two.txt 2", "/write one.txt 1"]), DONE),
                (avante(&["/help", "/write two.txt 2", "/write one.txt 1"]), DONE),
            ]
        },
        "/write one.txt 1",
        2,
        &[("one.txt", "1"), ("two.txt", "2")],
    ),
    (
        "a new session that is told the old prompts",
        Habit::Avante,
        || vec![(avante(&["/write two.txt 2", "/write one.txt 1"]), DONE)],
        "/write two.txt 2",
        1,
        &[("two.txt", "2")],
    ),
];

#[test]
fn prompts_as_editors_send_them() {
    for (name, habit, prompts, title, asked, files) in PROMPTS {
        let place = Place::new();
        let mut client = editor(&place, *habit, &[]);
        for (prompt, cancelled) in prompts() {
            client.choose = if cancelled { "" } else { "allow_once" };
            let id = client.begin_with(prompt);
            if cancelled {
                client.until(|message| message["method"] == "session/request_permission");
                client.cancel();
            }
            let stop = if cancelled { "cancelled" } else { "end_turn" };
            assert_eq!(client.end(id), stop, "{name}: {}", client.said());
        }
        assert_eq!(client.asked.len(), *asked, "{name}: {}", client.said());
        let mut found: Vec<String> = std::fs::read_dir(place.project())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        found.sort();
        assert_eq!(found, files.iter().map(|(name, _)| *name).collect::<Vec<_>>(), "{name}");
        for (file, text) in *files {
            assert_eq!(place.read(file).trim_end(), *text, "{name}");
        }
        let listed = client.call("session/list", json!({"cwd": place.project()}));
        assert_eq!(listed["sessions"][0]["title"], *title, "{name}: {listed}");
    }
}

/// Files as they are, those that are open, what the model wants, and the files as they are then.
type Files = (
    &'static str,
    &'static [Habit],
    &'static [(&'static str, &'static str)],
    &'static [&'static str],
    &'static [&'static str],
    &'static [(&'static str, &'static str)],
);

const EVERY: &[Habit] = &[Habit::Exact, Habit::Avante, Habit::CodeCompanion];

const FILES: &[Files] = &[
    (
        "a new file",
        EVERY,
        &[],
        &[],
        &[r#"call write {"path": "made.txt", "content": "one\n"}"#],
        &[("made.txt", "one\n")],
    ),
    (
        "a new file that is open already",
        EVERY,
        &[],
        &["made.txt"],
        &[r#"call write {"path": "made.txt", "content": "one\n"}"#],
        &[("made.txt", "one\n")],
    ),
    (
        "a new file in a new folder",
        &[Habit::Avante, Habit::CodeCompanion],
        &[],
        &[],
        &[r#"call write {"path": "a/b/made.txt", "content": "one\n"}"#],
        &[("a/b/made.txt", "one\n")],
    ),
    (
        "the first edit of a file",
        EVERY,
        &[("notes.md", "# Notes\n")],
        &[],
        &[r#"call edit {"path": "notes.md", "edits": [{"old": "Notes", "new": "Book"}]}"#],
        &[("notes.md", "# Book\n")],
    ),
    (
        "an edit of a file that is open",
        EVERY,
        &[("notes.md", "# Notes\n")],
        &["notes.md"],
        &[r#"call edit {"path": "notes.md", "edits": [{"old": "Notes", "new": "Book"}]}"#],
        &[("notes.md", "# Book\n")],
    ),
    (
        "two edits of a file that is open, in two turns",
        EVERY,
        &[("notes.md", "# Notes\n")],
        &["notes.md"],
        &[
            "read notes.md",
            r#"call edit {"path": "notes.md", "edits": [{"old": "Notes", "new": "Book"}]}"#,
            r#"call edit {"path": "notes.md", "edits": [{"old": "Book", "new": "Page"}]}"#,
        ],
        &[("notes.md", "# Page\n")],
    ),
    (
        "a file without a newline at its end",
        &[Habit::Exact, Habit::Avante],
        &[("notes.md", "# Notes")],
        &["notes.md"],
        &[r#"call edit {"path": "notes.md", "edits": [{"old": "Notes", "new": "Book"}]}"#],
        &[("notes.md", "# Book")],
    ),
    (
        "a file with the line ends of another system",
        EVERY,
        &[("notes.md", "one\r\ntwo\r\n")],
        &[],
        &[r#"call edit {"path": "notes.md", "edits": [{"old": "one\ntwo", "new": "one\n2"}]}"#],
        &[("notes.md", "one\r\n2\r\n")],
    ),
    (
        "a file that is formatted when it is saved",
        &[Habit::Formats],
        &[("a.py", "if x:\n\ty\n")],
        &[],
        &[
            r#"call edit {"path": "a.py", "edits": [{"old": "y", "new": "z"}]}"#,
            r#"call edit {"path": "a.py", "edits": [{"old": "    z", "new": "    w"}]}"#,
        ],
        &[("a.py", "if x:\n    w\n")],
    ),
    (
        "an undo goes the same way",
        EVERY,
        &[("notes.md", "# Notes\n")],
        &["notes.md"],
        &[r#"call edit {"path": "notes.md", "edits": [{"old": "Notes", "new": "Book"}]}"#, "/undo"],
        &[("notes.md", "# Notes\n")],
    ),
    (
        "an undo of a new file",
        EVERY,
        &[],
        &[],
        &[r#"call write {"path": "made.txt", "content": "one\n"}"#, "/undo"],
        &[],
    ),
];

#[test]
fn files_as_editors_serve_them() {
    for (name, habits, before, open, prompts, after) in FILES {
        for habit in *habits {
            // Asked or not: time may pass between a look and a write.
            for mode in ["ask", "edit"] {
                let place = Place::new();
                for (file, text) in *before {
                    place.write(file, text);
                }
                let mut client = editor(&place, *habit, &["--script", "puppet", "--mode", mode]);
                for file in *open {
                    client.editor.as_mut().unwrap().open_file(&place.project().canonicalize().unwrap().join(file));
                }
                for prompt in *prompts {
                    assert_eq!(client.prompt(prompt), "end_turn", "{name}, {habit:?}, {mode}");
                }
                let failed = client.updates.iter().find(|update| update["status"] == "failed");
                assert_eq!(failed, None, "{name}, {habit:?}, {mode}");
                for (file, text) in *after {
                    assert_eq!(place.read(file), *text, "{name}, {habit:?}, {mode}: {file}");
                }
                if after.is_empty() {
                    assert_eq!(std::fs::read_dir(place.project()).unwrap().count(), 0, "{name}, {habit:?}, {mode}");
                }
                let editor = client.editor.as_ref().unwrap();
                if prompts.contains(&"/undo") && !after.is_empty() {
                    let last = editor.asked.iter().rfind(|(method, _)| method == "fs/write_text_file");
                    let (_, last) = last.expect("the editor is told");
                    assert!(last["content"].as_str().unwrap().starts_with("# Notes"), "{name}, {habit:?}: {last}");
                }
            }
        }
    }
}

#[test]
fn a_write_that_the_editor_did_not_do_is_no_success() {
    let place = Place::new();
    place.write("locked", "");
    let mut client = editor(&place, Habit::Avante, &["--script", "puppet", "--mode", "edit"]);
    // Where a folder should be is a file: the editor can't write, and says so in a result.
    client.serve = Some(Box::new(|message| {
        (message["method"] == "fs/write_text_file").then(|| Reply::Result(json!("Failed to write file")))
    }));
    assert_eq!(client.prompt(r#"call write {"path": "a.txt", "content": "one\n"}"#), "end_turn");
    let failed = client.updates.iter().find(|update| update["status"] == "failed").expect("it is told as it is");
    assert!(failed.to_string().contains("a.txt"), "{failed}");
}

#[test]
fn a_text_that_is_not_saved_keeps_its_end_and_is_not_lost() {
    let place = Place::new();
    place.write("notes.md", "# Notes\n");
    let mut client = editor(&place, Habit::Avante, &["--script", "puppet", "--mode", "edit"]);
    let path = place.project().canonicalize().unwrap().join("notes.md");
    client.editor.as_mut().unwrap().open.insert(path.clone(), vec!["# Notes".into(), "not saved".into()]);
    assert_eq!(
        client.prompt(r#"call edit {"path": "notes.md", "edits": [{"old": "Notes", "new": "Book"}]}"#),
        "end_turn"
    );
    assert_eq!(place.read("notes.md"), "# Book\nnot saved\n");
    // Somebody types while the question is open: that is a change.
    let mut asking = editor(&place, Habit::Exact, &["--script", "puppet", "--mode", "ask"]);
    let typed = path.clone();
    asking.serve = Some(Box::new(move |message| {
        if message["method"] == "session/request_permission" {
            std::fs::write(&typed, "# Other\n").unwrap();
        }
        None
    }));
    asking.prompt(r#"call edit {"path": "notes.md", "edits": [{"old": "Book", "new": "Page"}]}"#);
    assert_eq!(place.read("notes.md"), "# Other\n");
    assert!(asking.updates.iter().any(|update| update["status"] == "failed"));
}

#[test]
fn sessions_without_a_prompt_are_not_listed() {
    let place = Place::new();
    let mut client = editor(&place, Habit::CodeCompanion, &[]);
    let empty = client.session.clone();
    client.open_in(&place.project());
    assert_eq!(client.call("session/list", json!({"cwd": place.project()}))["sessions"], json!([]));
    client.prompt("/help");
    let listed = client.call("session/list", json!({"cwd": place.project()}))["sessions"].clone();
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");
    assert_eq!(listed[0]["sessionId"], *client.session);
    // It is there all the same: some clients open a session in one process and go on in another.
    client.call("session/close", json!({"sessionId": empty}));
    client.call("session/load", json!({"sessionId": empty, "cwd": place.project(), "mcpServers": []}));
}

#[test]
fn a_question_of_a_turn_that_the_editor_cancelled_is_not_withdrawn() {
    let place = Place::new();
    for habit in [Habit::Avante, Habit::CodeCompanion] {
        let mut client = editor(&place, habit, &["--script", "puppet"]);
        client.choose = "";
        let id = client.begin("write a.txt x");
        let asked = client.until(|message| message["method"] == "session/request_permission");
        client.cancel();
        assert_eq!(client.end(id), "cancelled");
        let outcome = json!({"outcome": {"outcome": "cancelled"}});
        client.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": outcome}));
        client.choose = "allow_once";
        assert_eq!(client.prompt("say on"), "end_turn");
        assert!(!client.methods().iter().any(|method| method.starts_with("$/")), "{:?}", client.methods());
    }
}

#[test]
fn a_question_says_in_its_title_how_a_command_is_held() {
    let place = Place::new();
    let mut client = editor(&place, Habit::CodeCompanion, &["--script", "puppet"]);
    client.choose = "reject_once";
    client.prompt("run sleep 31");
    let call = &client.asked[0]["toolCall"];
    let title = call["title"].as_str().unwrap();
    assert!(title.starts_with("Run `sleep 31`") && title.to_lowercase().contains("sandbox"), "{call}");
    let content = call["content"].to_string();
    assert!(content.to_lowercase().contains("sandbox"), "{call}");
}

#[test]
fn an_edit_that_fails_names_its_file() {
    let place = Place::new();
    place.write("main.rs", "fn main() {}\n");
    let mut client = editor(&place, Habit::CodeCompanion, &["--script", "puppet", "--mode", "edit"]);
    client.prompt(r#"call edit {"path": "main.rs", "edits": [{"old": "nothing like it", "new": "x"}]}"#);
    let call = client.updates.iter().find(|update| update["sessionUpdate"] == "tool_call").unwrap();
    assert_eq!(call["title"], "Edit main.rs", "{call}");
    assert!(call["locations"][0]["path"].as_str().unwrap().ends_with("/main.rs"), "{call}");
}

#[test]
fn a_size_is_told_only_where_it_is_known_and_the_title_is_plain() {
    let place = Place::new();
    let mut client = editor(&place, Habit::CodeCompanion, &[]);
    client.prompt("/help");
    let sizes = client.updates.iter().filter(|update| update["sessionUpdate"] == "usage_update");
    assert_eq!(sizes.count(), 0, "nobody knows how much the offline agent can hold: {:?}", client.updates);
    let title = client.hello["agentInfo"]["title"].as_str().unwrap();
    assert!(title.matches('(').count() <= 1 && !title.contains("))"), "{title}");
}
