//! Every check of clients can fail: a good client behind one edit of its frames, and exactly the named checks do.

#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use tieline_check::client::{from_line, play, to_line};
use tieline_check::table::{all, parts};
use tieline_check::{Sheet, Verdict};
use tieline_schema::Dialect;
use tieline_trace::Side;

/// A good client that offers files and terminals, or nothing. It has a terminal that is made up.
struct Client {
    dialect: Dialect,
    offers: bool,
    folder: PathBuf,
    send: Option<Sender<String>>,
    edit: fn(Value) -> Vec<String>,
    line: Vec<u8>,
    released: Vec<String>,
    commands: Vec<String>,
}

impl Client {
    fn say(&mut self, message: Value) {
        for line in (self.edit)(message) {
            if let Some(send) = &self.send {
                let _ = send.send(line);
            }
        }
    }

    /// Closes; what is edited is `"closes"`.
    fn leave(&mut self) {
        let lines = (self.edit)("closes".into());
        if lines == [Value::from("closes").to_string()] {
            self.send = None;
        } else if let Some(send) = &self.send {
            for line in lines {
                let _ = send.send(line);
            }
        }
    }

    fn hear(&mut self, message: &Value) {
        let id = &message["id"];
        let ask = |id: i64, method: &str, params: Value| json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let Some(method) = message["method"].as_str() else {
            let result = &message["result"];
            if message["error"]["code"] == -32000 {
                let method = if self.dialect == Dialect::V2 { "auth/login" } else { "authenticate" };
                return self.say(ask(2, method, json!({"methodId": "check"})));
            }
            if result["protocolVersion"].is_number() {
                if result["protocolVersion"] == 99 {
                    return self.leave();
                }
                let folder = self.folder.clone();
                return self.say(ask(1, "session/new", json!({"cwd": folder, "mcpServers": []})));
            }
            if result["sessionId"].is_string() {
                return self.say(ask(
                    3,
                    "session/prompt",
                    json!({"sessionId": "s", "prompt": [{"type": "text", "text": "go"}]}),
                ));
            }
            return;
        };
        if message["params"]["update"]["content"]["text"] == "working" {
            return self.say(json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "s"}}));
        }
        if id.is_null() {
            return;
        }
        let answer = self.answer(method, &message["params"]);
        let mut reply = json!({"jsonrpc": "2.0", "id": id});
        reply.as_object_mut().unwrap().extend(answer.as_object().unwrap().clone());
        self.say(reply);
    }

    fn answer(&mut self, method: &str, params: &Value) -> Value {
        let failed = |code: i64| json!({"error": {"code": code, "message": "no"}});
        let terminal = params["terminalId"].as_str().unwrap_or_default().to_owned();
        if method.starts_with("terminal/") && self.released.contains(&terminal) {
            return failed(-32002);
        }
        match method {
            "session/request_permission" => json!({"result": {"outcome": {"outcome": "selected", "optionId": "no"}}}),
            _ if !self.offers => failed(-32601),
            "fs/read_text_file" => {
                let path = PathBuf::from(params["path"].as_str().unwrap());
                let Ok(text) = std::fs::read_to_string(&path) else {
                    return failed(if path.is_absolute() { -32002 } else { -32602 });
                };
                let from = params["line"].as_u64().unwrap_or(1) as usize - 1;
                let lines: Vec<&str> =
                    text.lines().skip(from).take(params["limit"].as_u64().unwrap_or(9999) as usize).collect();
                json!({"result": {"content": lines.join("\n")}})
            }
            "fs/write_text_file" => {
                std::fs::write(params["path"].as_str().unwrap(), params["content"].as_str().unwrap()).unwrap();
                json!({"result": {}})
            }
            "terminal/create" => {
                self.commands.push(params["args"][1].as_str().unwrap().to_owned());
                json!({"result": {"terminalId": format!("t{}", self.commands.len())}})
            }
            "terminal/wait_for_exit" if self.commands.len() == 1 => json!({"result": {"exitCode": 3}}),
            "terminal/wait_for_exit" => json!({"result": {"signal": "SIGKILL"}}),
            "terminal/output" if self.commands.len() == 1 => {
                json!({"result": {"output": "\u{e9}\u{e9}", "truncated": true, "exitStatus": {"exitCode": 3}}})
            }
            "terminal/output" => {
                json!({"result": {"output": "", "truncated": false, "exitStatus": {"signal": "SIGKILL"}}})
            }
            "terminal/release" => {
                self.released.push(terminal);
                json!({"result": {}})
            }
            "terminal/kill" => json!({"result": {}}),
            _ => failed(-32601),
        }
    }
}

/// What the agent writes is heard at once. Idle or answered, the client has had enough and closes.
impl Write for Client {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.line.extend_from_slice(bytes);
        while let Some(at) = self.line.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.line.drain(..=at).collect();
            let Ok(message) = serde_json::from_slice::<Value>(&line) else { continue };
            // What it hears is edited, too.
            let Some(message) = (self.edit)(message).pop() else { continue };
            let message: Value = serde_json::from_str(&message).unwrap();
            let over = message["id"] == 3 && message["result"]["stopReason"].is_string()
                || message["params"]["update"]["state"] == "idle";
            self.hear(&message);
            let late = message["id"].as_str().is_some_and(|id| id.starts_with("check-"));
            if over && !late && !LATE.with(std::cell::Cell::get) {
                self.leave();
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

thread_local! {
    /// In this scenario the client stays after its turn.
    static LATE: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

fn played(part: &str, dialect: Dialect, offers: bool, edit: fn(Value) -> Vec<String>) -> Sheet {
    let folder = tempfile::tempdir().unwrap();
    let (send, input): (Sender<String>, Receiver<String>) = channel();
    LATE.with(|late| late.set(part == "late"));
    let (line, released, commands) = Default::default();
    let mut client =
        Client { dialect, offers, folder: folder.path().to_owned(), send: Some(send), edit, line, released, commands };
    let offered = json!({"fs": {"readTextFile": offers, "writeTextFile": offers}, "terminal": offers});
    let info = json!({"name": "c", "version": "1"});
    let hello = match dialect {
        Dialect::V1 => json!({"protocolVersion": 1, "clientCapabilities": offered, "clientInfo": info}),
        Dialect::V2Seed => json!({"protocolVersion": 2, "capabilities": {}, "clientInfo": info}),
        Dialect::V2 => json!({"protocolVersion": 2, "capabilities": {}, "info": info}),
    };
    client.say(json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}));
    play(part, dialect, input, &mut client, Duration::from_millis(300), &mut |_| {})
}

fn broken(sheet: &Sheet) -> BTreeSet<&'static str> {
    let found = sheet.findings.values().filter(|finding| finding.verdict == Verdict::Broken);
    found.map(|finding| finding.check.id).collect()
}

fn good(message: Value) -> Vec<String> {
    vec![message.to_string()]
}

#[test]
fn a_good_client_breaks_nothing() {
    for dialect in Dialect::ALL {
        for part in parts(Side::Client) {
            for offers in [true, false] {
                // It would wait for the one who interrupts it.
                if part == "hang" {
                    continue;
                }
                let sheet = played(part, dialect, offers && dialect == Dialect::V1, good);
                assert_eq!(
                    broken(&sheet),
                    BTreeSet::new(),
                    "{part} {dialect} {:?}",
                    sheet
                        .findings
                        .values()
                        .filter(|one| one.verdict == Verdict::Broken)
                        .map(|one| &one.said)
                        .collect::<Vec<_>>()
                );
            }
        }
    }
}

type Row = (&'static str, &'static str, bool, fn(Value) -> Vec<String>);

fn failed(m: &Value, code: i64) -> Vec<String> {
    vec![json!({"jsonrpc": "2.0", "id": m["id"], "error": {"code": code, "message": "broken on purpose"}}).to_string()]
}

fn is(m: &Value, number: usize) -> bool {
    m["id"] == format!("check-{number}") && m.get("method").is_none()
}

#[rustfmt::skip]
const ROWS: &[Row] = &[
    ("client-answers client-unknown-update", "unknown", true, |m| if is(&m, 4) { vec![] } else { good(m) }),
    ("client-permission result-shape", "permission", true, |mut m| { if m["result"]["outcome"].is_object() { m["result"] = json!({"outcome": "selected", "optionId": "no"}); } good(m) }),
    ("client-unknown-request", "unknown", true, |m| if is(&m, 1) { failed(&m, -32603) } else { good(m) }),
    ("client-unknown-told", "unknown", true, |m| if is(&m, 3) { vec![json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32601, "message": "m"}}).to_string(), m.to_string()] } else { good(m) }),
    ("client-answers client-rubbish", "rubbish", true, |m| if is(&m, 1) { vec![] } else { good(m) }),
    ("client-answers client-flood", "flood", true, |m| if is(&m, 1) { vec![] } else { good(m) }),
    ("client-answers client-late", "late", true, |m| if is(&m, 1) { vec![] } else { good(m) }),
    ("client-read", "files", true, |mut m| { if is(&m, 1) { m["result"]["content"] = "line 11".into(); } good(m) }),
    ("client-relative", "files", true, |m| if is(&m, 2) { vec![json!({"jsonrpc": "2.0", "id": m["id"], "result": {"content": "x"}}).to_string()] } else { good(m) }),
    ("client-missing", "files", true, |m| if is(&m, 3) { failed(&m, -32603) } else { good(m) }),
    ("client-unoffered", "files", false, |m| if is(&m, 1) { failed(&m, -32603) } else { good(m) }),
    ("client-terminal", "terminals", true, |mut m| { if is(&m, 2) { m["result"]["exitCode"] = 0.into(); } good(m) }),
    ("client-terminal-limit", "terminals", true, |mut m| { if is(&m, 3) { m["result"]["output"] = "aaaa\u{e9}\u{e9}\u{e9}\u{e9}".into(); } good(m) }),
    ("client-terminal-release", "terminals", true, |m| if is(&m, 5) { vec![json!({"jsonrpc": "2.0", "id": m["id"], "result": {"output": "", "truncated": false}}).to_string()] } else { good(m) }),
    ("client-terminal-kill", "terminals", true, |m| if is(&m, 9) { failed(&m, -32002) } else { good(m) }),
    ("client-prompts", "talk", true, |m| if m["method"] == "session/prompt" { vec![] } else { good(m) }),
    ("client-write", "files", true, |mut m| { if m["method"] == "fs/write_text_file" { m["params"]["content"] = "other".into(); } good(m) }),
    ("client-version", "version", true, |m| if m == "closes" { vec![json!({"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": {"cwd": "/w", "mcpServers": []}}).to_string()] } else { good(m) }),
    ("client-answers client-cancel", "cancel", true, |m| if is(&m, 1) { vec![] } else { good(m) }),
    ("client-login", "login", true, |mut m| { if m["method"] == "authenticate" { m["params"]["methodId"] = "other".into(); } good(m) }),
];

#[test]
fn each_defect_fails_exactly_its_checks() {
    let mut wrong = Vec::new();
    for (ids, part, offers, edit) in ROWS {
        let found = broken(&played(part, Dialect::V1, *offers, *edit));
        if found != ids.split(' ').collect() {
            wrong.push(format!("{ids} in {part}: {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn an_agent_of_ours_that_dies_is_no_fault_of_the_client() {
    let edit = |m: Value| if m["method"] == "session/prompt" { panic!("broken on purpose") } else { good(m) };
    let sheet = played("talk", Dialect::V1, true, edit);
    assert_eq!(broken(&sheet), BTreeSet::new());
    // It is told to the one who started the client.
    let mut heard = Sheet::new(Side::Client, Dialect::V1);
    from_line(&to_line(&sheet), "talk", &mut heard);
    let finding = &heard.findings["client-prompts"];
    assert_eq!((finding.verdict, finding.fails()), (Verdict::KitAtFault, true));
    assert!(finding.said.contains("broken on purpose"), "{}", finding.said);
}

#[test]
fn every_check_of_clients_can_fail() {
    // These are about processes and what they print: a test of the command has their rows (`crates/cli/tests/check.rs`).
    let mut shown: BTreeSet<&str> = ["client-crash", "client-closes", "client-hang", "client-hostile"].into();
    shown.extend(ROWS.iter().flat_map(|(ids, ..)| ids.split(' ')));
    let checks = all().filter(|check| check.kind.name() == "scenario" && check.side == Some(Side::Client));
    let missing: Vec<&str> = checks.map(|check| check.id).filter(|id| !shown.contains(id)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
