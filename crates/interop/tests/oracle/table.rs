//! Every request, response, notification and update of the model, through the official types and back.

use crate::samples::{CALLS, Keeps, UPDATES};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use tieline::Dialect::{self, V1, V2};
use tieline::Update;
use tieline::json::Reader;
use tieline::schema::{
    AgentCall, ClientCall, CreateTerminalResponse, Decode, Direction as Sender, Done, ElicitResponse, Encode,
    InitializeResponse, ListResponse, METHODS, MethodKind, PermissionResponse, PromptResponse, ReadTextFileResponse,
    SessionNotification, SessionSetup, SetOptionResponse, TerminalOutputResponse, WaitForTerminalExitResponse,
    WriteTextFileResponse, find, from_json, to_json,
};
use tieline_interop::oracle::{Direction, Kind, rewrite_v1, rewrite_v2};

/// The same value with the keys of all objects in one order, so that kept text can be compared.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields: BTreeMap<String, Value> = fields.into_iter().map(|(key, value)| (key, sorted(value))).collect();
            Value::Object(fields.into_iter().collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        other => other,
    }
}

fn parse(text: &str) -> Value {
    sorted(serde_json::from_str(text).unwrap_or_else(|e| panic!("{e} in {text}")))
}

/// What is checked, and what has been checked so far.
#[derive(Default)]
struct Table {
    seen: BTreeSet<(Dialect, &'static str, String)>,
    complaints: Vec<String>,
}

struct Sample<'s> {
    home: Dialect,
    text: &'s str,
    keeps: Keeps,
    direction: Direction,
    kind: Kind,
}

impl Table {
    /// Writes the sample for each dialect that has a name for it, lets the official types write it again, and reads that.
    fn judge<T: Encode + PartialEq + Debug>(
        &mut self,
        sample: &Sample<'_>,
        name: impl Fn(&T, Dialect) -> Option<String>,
        read: impl Fn(&str, &Value) -> T,
        home_name: &str,
    ) {
        let Sample { home, text, keeps, direction, kind } = *sample;
        let given = parse(text);
        let value = read(home_name, &given);
        let written = parse(&to_json(&value, home));
        if written != given {
            self.complaints.push(format!("{home_name} loses something in {home} itself:\n  {given}\n  {written}"));
        }
        for dialect in [V1, V2] {
            if keeps == Keeps::Here && dialect != home {
                continue;
            }
            let Some(name) = name(&value, dialect) else { continue };
            let ours = parse(&to_json(&value, dialect));
            let rewrite = if dialect == V1 { rewrite_v1 } else { rewrite_v2 };
            let theirs = match rewrite(direction, &name, kind, &ours) {
                Ok(theirs) => sorted(theirs),
                Err(complaint) => {
                    self.complaints.push(format!("{complaint}\n  in {ours}"));
                    continue;
                }
            };
            let (before, after) = (read(&name, &ours), read(&name, &theirs));
            let partly = matches!((keeps, dialect), (Keeps::NotInV1, V1) | (Keeps::NotInV2, V2));
            // Only what is not said in full may hold nulls, and in version 1 those mean the same as nothing.
            if !partly && before != after {
                self.complaints.push(format!(
                    "{name} in {dialect} reads differently:\n  {ours}\n  {theirs}\n  {before:?}\n  {after:?}"
                ));
            }
            if (after == value) == partly {
                let what = if partly { "survives after all" } else { "does not survive" };
                self.complaints.push(format!("{name} {what} in {dialect}:\n  {ours}\n  {value:?}\n  {after:?}"));
            }
            self.seen.insert((dialect, if kind == Kind::Response { "answer" } else { "call" }, name));
        }
    }

    /// An answer: the names of its method in version 1 and in current v2.
    fn answer<T: Decode + Encode + PartialEq + Debug>(
        &mut self,
        names: [&str; 2],
        home: Dialect,
        text: &str,
        keeps: Keeps,
    ) {
        let of = |dialect| Some(names[usize::from(dialect == V2)]).filter(|name| !name.is_empty());
        let asked = of(home).and_then(find).unwrap_or_else(|| panic!("no method {names:?}")).direction;
        let direction = if asked == Sender::ToAgent { Direction::ToClient } else { Direction::ToAgent };
        let sample = Sample { home, text, keeps, direction, kind: Kind::Response };
        let read = |name: &str, json: &Value| {
            from_json::<T>(&json.to_string()).unwrap_or_else(|e| panic!("the answer to {name}: {e} in {json}"))
        };
        self.judge(&sample, |_: &T, dialect| of(dialect).map(String::from), read, of(home).unwrap_or_default());
    }

    #[track_caller]
    fn finish(&self) {
        assert!(self.complaints.is_empty(), "{}", self.complaints.join("\n"));
    }
}

fn read_agent(name: &str, json: &Value) -> AgentCall {
    let text = json.to_string();
    AgentCall::decode(name, &mut Reader::new(&text)).ok().flatten().unwrap_or_else(|| panic!("{name}: {json}"))
}

fn read_client(name: &str, json: &Value) -> ClientCall {
    let text = json.to_string();
    ClientCall::decode(name, &mut Reader::new(&text)).ok().flatten().unwrap_or_else(|| panic!("{name}: {json}"))
}

fn calls() -> Table {
    let mut table = Table::default();
    for &(method, home, text, keeps) in CALLS {
        let row = find(method).unwrap_or_else(|| panic!("no method {method}"));
        let kind = if row.kind == MethodKind::Request { Kind::Request } else { Kind::Notification };
        if row.direction == Sender::ToAgent {
            let sample = Sample { home, text, keeps, direction: Direction::ToAgent, kind };
            table.judge(
                &sample,
                |call: &AgentCall, dialect| call.wire_name(dialect).map(String::from),
                read_agent,
                method,
            );
        } else {
            let sample = Sample { home, text, keeps, direction: Direction::ToClient, kind };
            table.judge(
                &sample,
                |call: &ClientCall, dialect| call.wire_name(dialect).map(String::from),
                read_client,
                method,
            );
        }
    }
    table
}

fn updates() -> Table {
    let mut table = Table::default();
    for &(home, text, keeps) in UPDATES {
        let text = format!(r#"{{"sessionId":"s","update":{text},"_meta":{{"n":1}}}}"#);
        let sample = Sample { home, text: &text, keeps, direction: Direction::ToClient, kind: Kind::Notification };
        let name = |call: &Announced, dialect| call.0.update.speaks(dialect).then(|| "session/update".to_owned());
        let read =
            |_: &str, json: &Value| Announced(from_json(&json.to_string()).unwrap_or_else(|e| panic!("{e} in {json}")));
        table.judge(&sample, name, read, "session/update");
    }
    table
}

/// A notification that is compared without the mark that only the writing to version 1 looks at.
#[derive(Debug)]
struct Announced(SessionNotification);

impl PartialEq for Announced {
    fn eq(&self, other: &Self) -> bool {
        let plain = |it: &Self| {
            let mut it = it.0.clone();
            if let Update::ToolCall(call) = &mut it.update {
                call.announce = false;
            }
            it
        };
        plain(self) == plain(other)
    }
}

impl Encode for Announced {
    fn encode(&self, out: &mut tieline::schema::Writer<'_>) {
        self.0.encode(out);
    }
}

fn answers() -> Table {
    use Keeps::{All, Here, NotInV1, NotInV2};
    let mut table = Table::default();
    let t = &mut table;
    t.answer::<InitializeResponse>(
        ["initialize"; 2],
        V1,
        r#"{"protocolVersion":1,"agentInfo":{"name":"a","version":"1","title":"A","_meta":{"i":1}},"agentCapabilities":{"loadSession":true,
            "promptCapabilities":{"image":true,"audio":true,"embeddedContext":true,"_meta":{"p":1}},"mcpCapabilities":{"http":true,"sse":true},
            "sessionCapabilities":{"list":{},"resume":{},"close":{},"delete":{},"additionalDirectories":{}},"auth":{"logout":{}},"_meta":{"k":1}},
            "authMethods":[{"id":"m","name":"M","description":"d","_meta":{"a":1}},{"type":"terminal","id":"t","name":"T","args":["-x"],"env":{"K":"v"}}],"_meta":{"x":1}}"#,
        Here,
    );
    t.answer::<InitializeResponse>(
        ["initialize"; 2],
        V2,
        r#"{"protocolVersion":2,"info":{"name":"a","version":"1","title":"A"},"capabilities":{"session":{"prompt":{"image":{},"audio":{},"embeddedContext":{}},
            "mcp":{"stdio":{},"http":{"_meta":{"h":1}}},"delete":{},"additionalDirectories":{},"_meta":{"s":1}},"_meta":{"k":1}},
            "authMethods":[{"type":"agent","methodId":"m","name":"M","description":"d"},
                {"type":"terminal","methodId":"t","name":"T","args":["-x"],"env":[{"name":"K","value":"v"}]},
                {"type":"_token","methodId":"o","name":"O","scope":[1]}],"_meta":{"x":1}}"#,
        Here,
    );
    for names in [
        ["authenticate", "auth/login"],
        ["logout", "auth/logout"],
        ["session/close"; 2],
        ["session/delete"; 2],
        ["", "tool_call/cancel"],
        ["", "terminal/cancel"],
    ] {
        t.answer::<Done>(names, V2, "{}", All);
        t.answer::<Done>(names, V2, r#"{"_meta":{"a":1}}"#, All);
    }
    for name in ["session/set_mode", "terminal/kill", "terminal/release"] {
        t.answer::<Done>([name, ""], V1, r#"{"_meta":{"a":1}}"#, All);
    }
    let option = r#"{"configId":"m","name":"M","category":"mode","type":"select","currentValue":"a","options":[{"value":"a","name":"A"}]}"#;
    let switch = r#"{"configId":"b","name":"B","description":"d","type":"boolean","currentValue":false}"#;
    for names in [["session/new"; 2], ["session/load", "session/resume"], ["session/resume"; 2]] {
        let id = if names[0] == "session/new" { r#""sessionId":"s","# } else { "" };
        let commands = r#""availableCommands":[{"type":"command","name":"n","description":"d","input":{"type":"text","hint":"h"}}]"#;
        t.answer::<SessionSetup>(names, V2, &format!(r#"{{{id}"configOptions":[{switch}],"_meta":{{"a":1}}}}"#), All);
        t.answer::<SessionSetup>(names, V2, &format!(r#"{{{id}"configOptions":[{option}],{commands}}}"#), NotInV1);
        let modes = r#""modes":{"currentModeId":"a","availableModes":[{"id":"a","name":"A","description":"d","_meta":{"m":1}}],"_meta":{"s":1}}"#;
        t.answer::<SessionSetup>(names, V1, &format!("{{{id}{modes}}}"), NotInV2);
    }
    t.answer::<ListResponse>(
        ["session/list"; 2],
        V2,
        r#"{"sessions":[{"sessionId":"s","cwd":"/w","additionalDirectories":["/x"],"title":"T","updatedAt":"2026-11-01T00:00:00Z","_meta":{"i":1}},
            {"sessionId":"t","cwd":"/v"}],"nextCursor":"c","_meta":{"a":1}}"#,
        All,
    );
    t.answer::<SetOptionResponse>(
        ["session/set_config_option"; 2],
        V2,
        &format!(r#"{{"configOptions":[{option},{switch}],"_meta":{{"a":1}}}}"#),
        All,
    );
    for reason in ["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"] {
        let text = format!(r#"{{"stopReason":"{reason}","_meta":{{"a":1}}}}"#);
        t.answer::<PromptResponse>(["session/prompt"; 2], V1, &text, Here);
    }
    t.answer::<PromptResponse>(["session/prompt"; 2], V2, r#"{"messageId":"m","_meta":{"a":1}}"#, Here);
    for (outcome, keeps) in [
        (r#"{"outcome":"selected","optionId":"a","_meta":{"o":1}}"#, All),
        (r#"{"outcome":"cancelled"}"#, All),
        (r#"{"outcome":"_later","when":[1]}"#, NotInV1),
    ] {
        let text = format!(r#"{{"outcome":{outcome},"_meta":{{"a":1}}}}"#);
        t.answer::<PermissionResponse>(["session/request_permission"; 2], V2, &text, keeps);
    }
    t.answer::<ReadTextFileResponse>(["fs/read_text_file", ""], V1, r#"{"content":"x\n","_meta":{"a":1}}"#, All);
    t.answer::<WriteTextFileResponse>(["fs/write_text_file", ""], V1, "null", All);
    t.answer::<WriteTextFileResponse>(["fs/write_text_file", ""], V1, r#"{"_meta":{"a":1}}"#, All);
    t.answer::<CreateTerminalResponse>(["terminal/create", ""], V1, r#"{"terminalId":"t","_meta":{"a":1}}"#, All);
    t.answer::<TerminalOutputResponse>(
        ["terminal/output", ""],
        V1,
        r#"{"output":"x","truncated":true,"exitStatus":{"exitCode":1,"_meta":{"e":1}},"_meta":{"a":1}}"#,
        All,
    );
    for text in [r#"{"exitCode":0}"#, r#"{"signal":"SIGKILL","_meta":{"a":1}}"#, "{}"] {
        t.answer::<WaitForTerminalExitResponse>(["terminal/wait_for_exit", ""], V1, text, All);
    }
    for (text, keeps) in [
        (r#"{"action":"accept","content":{"a":"x","b":1,"c":1.5,"d":true,"e":["x","y"]},"_meta":{"a":1}}"#, All),
        (r#"{"action":"accept","content":{"a":{"deep":null}}}"#, NotInV1),
        (r#"{"action":"decline"}"#, All),
        (r#"{"action":"cancel"}"#, All),
        (r#"{"action":"_later","when":1}"#, Here),
    ] {
        t.answer::<ElicitResponse>(["elicitation/create"; 2], V2, text, keeps);
    }
    table
}

#[test]
fn every_call_passes() {
    calls().finish();
}

#[test]
fn every_answer_passes() {
    answers().finish();
}

#[test]
fn every_update_passes() {
    updates().finish();
}

/// Every method that a dialect has is in the table, as a call and as an answer.
#[test]
fn the_table_is_complete() {
    let mut seen = calls().seen;
    seen.extend(updates().seen);
    seen.extend(answers().seen);
    for method in METHODS.iter().filter(|method| method.direction != Sender::Both) {
        for dialect in [V1, V2].into_iter().filter(|dialect| method.dialects.has(*dialect)) {
            assert!(seen.contains(&(dialect, "call", method.name.into())), "{} in {dialect}", method.name);
            let answered = seen.contains(&(dialect, "answer", method.name.into()));
            assert_eq!(answered, method.kind == MethodKind::Request, "the answer of {} in {dialect}", method.name);
        }
    }
    let told: BTreeSet<usize> = UPDATES.iter().map(|(_, text, _)| place(&from_json(text).expect(text))).collect();
    assert_eq!(told, (0..17).collect());
}

/// Stops compiling when the model learns to say something new.
fn place(update: &Update) -> usize {
    match update {
        Update::Chunk(_) => 0,
        Update::Message(_) => 1,
        Update::ToolCall(_) => 2,
        Update::ToolCallContent(_) => 3,
        Update::Plan(_) => 4,
        Update::Commands(_) => 5,
        Update::ConfigOptions(_) => 6,
        Update::Mode(_) => 7,
        Update::SessionInfo(_) => 8,
        Update::Usage(_) => 9,
        Update::State(_) => 10,
        Update::Terminal(_) => 11,
        Update::TerminalOutput(_) => 12,
        Update::Notice(_) => 13,
        Update::Compaction(_) => 14,
        Update::CompactionSummary(_) => 15,
        Update::Other(_) => 16,
    }
}
