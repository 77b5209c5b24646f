//! A conversation with the offline model whose tools are played.

use serde_json::Value;
use tieline::schema::ResourceLink;
use tieline::{ContentBlock, Raw};
use tieline_coder::model::offline::Offline;
use tieline_coder::model::{Event, Finish, Message, Report, Request, ToolRequest, ToolResult, ToolSpec};

const TOOLS: &[&str] =
    &["read", "write", "edit", "patch", "list", "glob", "grep", "move", "delete", "run", "fetch", "todo"];

/// One conversation with played tools.
pub struct Talk {
    pub messages: Vec<Message>,
    tools: Vec<ToolSpec>,
    world: fn(&str, &Value) -> (String, bool),
}

/// What happened in a turn.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Trace {
    pub calls: Vec<String>,
    pub texts: Vec<String>,
    pub plans: Vec<String>,
    /// The turn ended with a refusal.
    pub refused: bool,
    pub notices: Vec<String>,
}

impl Trace {
    pub fn text(&self) -> String {
        self.texts.join("\n---\n")
    }
}

impl Talk {
    pub fn new(world: fn(&str, &Value) -> (String, bool)) -> Self {
        let spec = |name: &&str| ToolSpec {
            name: (*name).to_owned(),
            description: String::new(),
            parameters: Raw::new("{}").expect("JSON"),
        };
        Self { messages: Vec::new(), tools: TOOLS.iter().map(spec).collect(), world }
    }

    pub fn without(mut self, tool: &str) -> Self {
        self.tools.retain(|spec| spec.name != tool);
        self
    }

    fn request(&self) -> Request {
        Request { messages: self.messages.clone(), tools: self.tools.clone(), ..Request::default() }
    }

    pub fn say(&mut self, prompt: &str) -> Trace {
        self.send(vec![prompt.into()])
    }

    pub fn send(&mut self, blocks: Vec<ContentBlock>) -> Trace {
        self.messages.push(Message::User(blocks));
        let mut trace = Trace::default();
        for _ in 0..400 {
            if !self.round(&mut trace) {
                return trace;
            }
        }
        panic!("the turn does not end: {trace:?}");
    }

    /// One answer and its tools; whether it goes on.
    pub fn round(&mut self, trace: &mut Trace) -> bool {
        let events = Offline::new().answer(&self.request());
        assert_eq!(events, Offline::new().answer(&self.request()), "the same conversation has the same answer");
        let Some(Event::Finish(finish)) = events.last() else { panic!("{events:?}") };
        trace.refused = *finish == Finish::Refusal;
        let (mut said, mut calls) = (String::new(), Vec::new());
        for event in events {
            match event {
                Event::Text(text) => said.push_str(&text),
                Event::Call(call) => calls.push(call),
                Event::Finish(_) => {}
                Event::Report(Report::Notice { title, .. }) => trace.notices.push(title),
                other => panic!("it has no reason for {other:?}"),
            }
        }
        if !said.is_empty() {
            trace.texts.push(said.clone());
        }
        let results: Vec<ToolResult> = calls.iter().map(|call| self.play(call, trace)).collect();
        let goes_on = !calls.is_empty();
        assert!(goes_on || !said.is_empty(), "the last answer says something");
        self.messages.push(Message::Assistant { text: said, thought: String::new(), calls, kept: None });
        if goes_on {
            self.messages.push(Message::Results(results));
        }
        goes_on
    }

    fn play(&self, call: &ToolRequest, trace: &mut Trace) -> ToolResult {
        assert!(self.tools.iter().any(|spec| spec.name == call.name), "{} is not there", call.name);
        let used = self.messages.iter().any(|message| match message {
            Message::Assistant { calls, .. } => calls.iter().any(|old| old.id == call.id),
            _ => false,
        });
        assert!(!used, "ids are not used twice");
        let arguments: Value = serde_json::from_str(&call.arguments).expect("JSON");
        let plan = call.name == "todo" && trace_plan(&arguments, trace);
        if !plan {
            trace.calls.push(format!("{} {}", call.name, sorted(&arguments)));
        }
        let (text, is_error) =
            if call.name == "todo" { ("ok".to_owned(), false) } else { (self.world)(&call.name, &arguments) };
        ToolResult { id: call.id.clone(), name: call.name.clone(), content: vec![text.into()], is_error }
    }
}

/// The same value with its keys in order: how `serde_json` orders them depends on what else is built.
fn sorted(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let map: std::collections::BTreeMap<_, _> = map.iter().collect();
            let fields: Vec<String> =
                map.into_iter().map(|(key, value)| format!("{key:?}:{}", sorted(value))).collect();
            format!("{{{}}}", fields.join(","))
        }
        Value::Array(list) => format!("[{}]", list.iter().map(sorted).collect::<Vec<_>>().join(",")),
        other => other.to_string(),
    }
}

/// Notes a plan as one letter for each entry: pending, in progress, completed, failed.
fn trace_plan(arguments: &Value, trace: &mut Trace) -> bool {
    let Some(entries) = arguments["entries"].as_array() else { return false };
    let letter = |entry: &Value| match entry["status"].as_str() {
        Some("in_progress") => 'i',
        Some("completed") => 'c',
        _ if entry["content"].as_str().is_some_and(|text| text.ends_with("(failed)")) => 'f',
        _ => 'p',
    };
    trace.plans.push(entries.iter().map(letter).collect());
    true
}

/// A small project.
pub fn world(tool: &str, arguments: &Value) -> (String, bool) {
    let path = arguments["path"].as_str().unwrap_or_default();
    let fine = |text: &str| (text.to_owned(), false);
    match (tool, path) {
        (_, "missing.txt") => ("missing.txt: no such file".to_owned(), true),
        ("read", "README.md") => fine("    1  # Title\n    2  \n    3  text\n"),
        ("read", "src/lib.rs") => fine("    1  pub fn old() {}\n    2  old();\n    3  old();\n"),
        ("read", "empty.txt") => fine("(the file is empty)\n"),
        ("read", "long.txt") => fine("    1  a\n(lines 1 to 1 of 9; go on with `line`: 2)\n"),
        ("read", _) => fine("    1  one two\n    2  three\n"),
        ("list", _) => fine("Cargo.toml  10 bytes\nsrc/\nREADME.md  9 bytes\n"),
        ("glob", _) => fine("src/lib.rs\n"),
        ("grep", _) => fine("src/lib.rs:1:pub fn old() {}\n"),
        ("run", _) if arguments["command"] == "false" => {
            ("error: it broke\n(the command exited with status 1)".into(), true)
        }
        ("run", _) if arguments["command"] == "forbidden" => ("The rules refuse it.".into(), true),
        ("run", _) => fine("done\n"),
        ("fetch", _) => fine("<html>\n"),
        _ => fine("ok"),
    }
}

pub fn link(path: &str) -> ContentBlock {
    ContentBlock::from(ResourceLink {
        uri: format!("file:///w/{path}"),
        name: path.to_owned(),
        ..ResourceLink::default()
    })
}
