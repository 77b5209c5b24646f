//! Scenarios for clients: scripted agents that a client starts, and what they make of its answers.

use crate::laws::{Breach, Judge, LAWS};
use crate::sheet::{Finding, Line, Log, Sheet, Verdict};
use crate::table::{self, Check, Kind, Level};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use tieline_process::{ChildProcess, Guard, Spec};
use tieline_schema::{Dialect, Dialects};
use tieline_trace::Side;

const fn check(
    id: &'static str,
    level: Level,
    dialects: Dialects,
    rules: &'static str,
    says: &'static str,
    source: &'static str,
    fix: &'static str,
) -> Check {
    Check { id, side: Some(Side::Client), kind: Kind::Scenario, level, dialects, rules, says, source, fix }
}

use Level::{Must, Note, Should};
const ALL: Dialects = Dialects::ALL;
const FILES: &str = "ACP: file system";
const TERMINALS: &str = "ACP: terminals";

/// What the scenarios for clients assert.
#[rustfmt::skip]
pub const CHECKS: &[Check] = &[
    check("client-answers", Must, ALL, "V1-RPC-02 V1-RPC-06", "Every request of the agent is answered, also while a turn runs.", "JSON-RPC 2.0", "Answer each request; don't wait for the end of the turn first."),
    check("client-prompts", Must, ALL, "V1-INIT-01 V1-PROMPT-01", "The client says hello, opens a session and sends its prompt.", "ACP: initialization", "Initialize, `session/new`, `session/prompt`, in this order."),
    check("client-permission", Must, ALL, "V1-INIT-12 V1-PERM-02", "A question is answered with an outcome.", "ACP: requesting permission", "Answer `{\"outcome\":{\"outcome\":…}}`, also if nobody can be asked."),
    check("client-unknown-request", Must, ALL, "V1-EXT-03 V1-ERR-02", "Requests that nobody knows are refused with -32601.", "ACP: extensibility", "Answer -32601."),
    check("client-unknown-told", Must, ALL, "V1-RPC-03 V1-EXT-04", "Notifications that nobody knows are passed over in silence.", "ACP: extensibility", "Don't answer what has no `id`."),
    check("client-unknown-update", Should, ALL, "V1-RPC-11 V2-EXT-02", "Updates of an unknown kind end nothing.", "ACP: schema", "Pass over what you don't know, or show it generically."),
    check("client-rubbish", Should, ALL, "TR-STDIO-11", "A line that is no JSON ends nothing.", "ACP: transports", "Pass over it, and read the next line."),
    check("client-flood", Should, ALL, "TR-STDIO-16", "Thousands of updates are taken.", "ACP: prompt turn", "Read while you show."),
    check("client-late", Should, ALL, "V1-CANCEL-08", "Updates after the end of a turn end nothing.", "ACP: prompt turn", "Take them, or pass over them."),
    check("client-read", Must, Dialects::V1, "V1-FS-03", "A part of a file is read by line and limit.", FILES, "`line` counts from 1, `limit` is the number of lines."),
    check("client-write", Must, Dialects::V1, "V1-FS-04", "A file that is not there is made.", FILES, "Create it."),
    check("client-relative", Must, Dialects::V1, "V1-FS-05", "Paths that are not absolute are refused.", FILES, "Answer -32602."),
    check("client-missing", Note, Dialects::V1, "V1-FS-06", "A file that is not there is refused with -32002.", FILES, "Answer -32002."),
    check("client-unoffered", Must, Dialects::V1, "V1-FS-09 V1-ERR-02", "What the client does not offer is refused with -32601.", FILES, "Answer -32601."),
    check("client-terminal", Must, Dialects::V1, "V1-TERM-02 V1-TERM-04 V1-TERM-06", "A command runs in a terminal; its output and its end are told.", TERMINALS, "Answer `create` at once, `output` with what is there, `wait_for_exit` at the end."),
    check("client-terminal-limit", Must, Dialects::V1, "V1-TERM-05", "Output beyond the limit is dropped from the front, on a whole character, and said to be cut.", TERMINALS, "Keep the last `outputByteLimit` bytes, and set `truncated`."),
    check("client-terminal-kill", Must, Dialects::V1, "V1-TERM-07", "A killed command keeps its terminal.", TERMINALS, "Keep the id until `release`."),
    check("client-terminal-release", Must, Dialects::V1, "V1-TERM-08", "A released terminal is gone.", TERMINALS, "Answer an error to its id."),
    check("client-version", Should, ALL, "V1-INIT-05 V2-INIT-05", "A version that the client does not speak ends the connection.", "ACP: initialization", "Close, and tell the user."),
    check("client-login", Must, ALL, "V1-AUTH-02 V2-AUTH-02", "Only ways to log in that the agent named are used.", "ACP: authentication", "Send the id as it came."),
    check("client-crash", Should, ALL, "TR-END-07", "An agent that ends in the middle of a turn ends the wait.", "ACP: transports", "Fail what is pending, and tell the user."),
    check("client-closes", Must, ALL, "TR-END-01", "The client ends an agent by closing its input.", "ACP: transports", "Close the agent's input, wait, and only then kill it."),
];

/// The names of the scenarios.
pub const SCENARIOS: [&str; 11] =
    ["talk", "permission", "unknown", "rubbish", "flood", "late", "files", "terminals", "version", "login", "crash"];

/// What a scripted agent found out, as one line for whoever started the client.
pub fn to_line(sheet: &Sheet) -> String {
    let findings: Vec<Value> = sheet
        .findings
        .values()
        .map(|finding| {
            let end = (finding.frame + 1).min(finding.log.len());
            let lines =
                if finding.verdict == Verdict::Broken { &finding.log[end.saturating_sub(12)..end] } else { &[] };
            let lines: Vec<Value> = lines.iter().map(|line| json!([line.at, line.from.name(), line.text])).collect();
            json!({"id": finding.check.id, "verdict": finding.verdict.name(), "said": finding.said, "lines": lines})
        })
        .collect();
    json!({"findings": findings}).to_string()
}

/// The same, read again.
pub fn from_line(line: &str, part: &str, sheet: &mut Sheet) {
    let Ok(value) = serde_json::from_str::<Value>(line) else { return };
    for one in value["findings"].as_array().into_iter().flatten() {
        let Some(check) = one["id"].as_str().and_then(table::find) else { continue };
        let verdicts = [Verdict::Holds, Verdict::Broken, Verdict::NotExercised, Verdict::NotApplicable];
        let Some(verdict) = verdicts.into_iter().find(|verdict| one["verdict"] == verdict.name()) else { continue };
        let lines = one["lines"].as_array().into_iter().flatten().map(|line| Line {
            at: line[0].as_u64().unwrap_or_default(),
            from: line[1].as_str().and_then(Side::named).unwrap_or_default(),
            text: line[2].as_str().unwrap_or_default().to_owned(),
        });
        let log: Vec<Line> = lines.collect();
        let frame = log.len().saturating_sub(1);
        let said = one["said"].as_str().unwrap_or_default().to_owned();
        sheet.add(Finding { check, verdict, said, part: part.to_owned(), log: Arc::new(log), frame });
    }
}

/// A client to be judged.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The program and its arguments; `{agent}` stands for the agent it is to start.
    pub command: Vec<OsString>,
    /// Ourselves: the program, and what comes before the name of a scenario, the dialect and the file of findings.
    pub player: Vec<OsString>,
    /// How long a scenario may take.
    pub patience: Duration,
}

/// Judges a client in one dialect: it is started once for each scenario, and starts the scripted agent itself.
pub async fn check_client(plan: &Plan, dialect: Dialect, progress: &dyn Fn(Dialect, &str)) -> std::io::Result<Sheet> {
    let mut sheet = Sheet::new(Side::Client, dialect);
    for part in SCENARIOS {
        let folder = tempfile::Builder::new().prefix("tieline-check-").tempdir()?;
        let (agent, found) = (folder.path().join("agent"), folder.path().join("found"));
        let work = folder.path().join("work");
        std::fs::create_dir(&work)?;
        let words = plan.player.iter().map(|word| quoted(&word.to_string_lossy())).collect::<Vec<_>>().join(" ");
        let script = format!("#!/bin/sh\nexec {words} {part} {dialect} {}\n", quoted(&found.to_string_lossy()));
        std::fs::write(&agent, script)?;
        #[cfg(unix)]
        std::fs::set_permissions(&agent, std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
        let ended = run(plan, &agent, &work).await?;
        let found = std::fs::read_to_string(&found).unwrap_or_default();
        from_line(&found, part, &mut sheet);
        if part == "crash" && !found.is_empty() {
            let verdict = if ended { Verdict::Holds } else { Verdict::Broken };
            let said = if ended { "" } else { "the client had not ended when the time was over" };
            let log = Log::default();
            if let Some(check) = table::find("client-crash") {
                sheet.add(Finding { check, verdict, said: said.into(), part: part.into(), log, frame: 0 });
            }
        }
        if part == "talk" && found.is_empty() {
            sheet.dead = Some("the client did not start the agent, or killed it before it could say anything".into());
            break;
        }
        progress(dialect, part);
    }
    Ok(sheet)
}

fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// Runs the client; true if it ended by itself.
async fn run(plan: &Plan, agent: &Path, folder: &Path) -> std::io::Result<bool> {
    let agent = agent.to_string_lossy();
    let mut words = plan.command.iter().map(|word| OsString::from(word.to_string_lossy().replace("{agent}", &agent)));
    let spec = Spec::new(words.next().unwrap_or_default()).args(words).current_dir(folder).guard(Guard::IfPossible);
    let (pipes, child) = ChildProcess::spawn(&spec).await?;
    // What it prints is read, so that it is not held up, and is nobody's business.
    let mut output = pipes.output;
    drop(pipes.input);
    tokio::spawn(async move { tokio::io::copy(&mut output, &mut tokio::io::sink()).await });
    let ended = tokio::time::timeout(plan.patience, child.exit()).await.is_ok();
    if !ended {
        child.kill();
    }
    child.shutdown().await;
    Ok(ended)
}

/// Why an agent stops playing.
enum End {
    /// The client has closed our input.
    Closed,
    /// Something did not come.
    Late,
}

/// A scripted agent: what it hears, what it says, what it makes of it.
pub struct Actor<'a> {
    dialect: Dialect,
    part: String,
    input: Receiver<String>,
    output: &'a mut dyn Write,
    patience: Duration,
    start: Instant,
    log: Vec<Line>,
    judge: Judge,
    breaches: Vec<Breach>,
    offers: Value,
    cwd: PathBuf,
    prompt: Value,
    next: i64,
    sheet: Sheet,
}

/// Plays a scenario to a client over these streams, until the client closes them. Gives what was found out.
pub fn play(
    part: &str,
    dialect: Dialect,
    input: Receiver<String>,
    output: &mut dyn Write,
    patience: Duration,
) -> Sheet {
    let mut actor = Actor {
        dialect,
        part: part.to_owned(),
        input,
        output,
        patience,
        start: Instant::now(),
        log: Vec::new(),
        judge: Judge::default(),
        breaches: Vec::new(),
        offers: Value::Null,
        cwd: PathBuf::new(),
        prompt: Value::Null,
        next: 1,
        sheet: Sheet::new(Side::Client, dialect),
    };
    let ended = actor.play();
    actor.finish(&ended)
}

impl Actor<'_> {
    fn play(&mut self) -> Result<(), End> {
        let hello = self.hear_call("initialize")?;
        let part = self.part.clone();
        let version = if part == "version" { 99 } else { self.dialect.version() };
        let key = if self.dialect == Dialect::V1 { "clientCapabilities" } else { "capabilities" };
        self.offers = hello["params"][key].clone();
        let answer = self.hello(version, part == "login");
        self.answer(&hello["id"], answer)?;
        if part == "version" {
            let next = self.hear();
            let said = |message: &Value| format!("it goes on with {}", message["method"]);
            self.expect("client-version", next.is_err(), || next.as_ref().map_or(String::new(), said));
            return next.map(|_| ());
        }
        let new = self.hear_call("session/new")?;
        if part == "login" {
            let error = json!({"code": -32000, "message": "Authentication required"});
            self.say(&json!({"jsonrpc": "2.0", "id": new["id"], "error": error}))?;
            let login = self.hear_call(if self.dialect == Dialect::V2 { "auth/login" } else { "authenticate" })?;
            let known = login["params"]["methodId"] == "check";
            self.expect("client-login", known, || format!("it logs in with {}", login["params"]["methodId"]));
            self.answer(&login["id"], json!({}))?;
            return self.rest();
        }
        self.cwd = new["params"]["cwd"].as_str().unwrap_or_default().into();
        self.answer(&new["id"], json!({"sessionId": "s"}))?;
        self.prompt = self.hear_call("session/prompt")?;
        self.expect("client-prompts", true, String::new);
        if self.dialect == Dialect::V2 {
            let id = self.prompt["id"].clone();
            self.answer(&id, json!({"messageId": "u1"}))?;
            let content = self.prompt["params"]["prompt"].clone();
            self.update(json!({"sessionUpdate": "user_message", "messageId": "u1", "content": content}))?;
            self.update(json!({"sessionUpdate": "state_update", "state": "running"}))?;
        }
        match &*part {
            "permission" => self.permission()?,
            "unknown" => self.unknown()?,
            "rubbish" => {
                self.raw("npm WARN this is no message")?;
                self.lives("client-rubbish")?;
            }
            "flood" => {
                for number in 0..5000 {
                    self.text(&format!("{number} "))?;
                }
                self.lives("client-flood")?;
            }
            "files" => self.files()?,
            "terminals" => self.terminals()?,
            "crash" => return Ok(()),
            _ => self.text("hello")?,
        }
        self.turn_ends()?;
        if part == "late" {
            self.text("late")?;
            self.lives("client-late")?;
        }
        self.rest()
    }

    fn hello(&self, version: u16, login: bool) -> Value {
        let info = json!({"name": "tieline-check", "version": env!("CARGO_PKG_VERSION")});
        let methods = match (login, self.dialect) {
            (false, _) => json!([]),
            (true, Dialect::V1) => json!([{"id": "check", "name": "Check"}]),
            (true, Dialect::V2Seed) => json!([{"type": "agent", "id": "check", "name": "Check"}]),
            (true, Dialect::V2) => json!([{"type": "agent", "methodId": "check", "name": "Check"}]),
        };
        match self.dialect {
            Dialect::V1 => {
                json!({"protocolVersion": version, "agentCapabilities": {}, "agentInfo": info, "authMethods": methods})
            }
            Dialect::V2Seed => {
                json!({"protocolVersion": version, "capabilities": {"session": {}}, "agentInfo": info, "authMethods": methods})
            }
            Dialect::V2 => {
                json!({"protocolVersion": version, "capabilities": {"session": {}}, "info": info, "authMethods": methods})
            }
        }
    }

    fn permission(&mut self) -> Result<(), End> {
        let options = json!([{"optionId": "yes", "name": "Yes", "kind": "allow_once"}, {"optionId": "no", "name": "No", "kind": "reject_once"}]);
        let call = json!({"toolCallId": "c1", "title": "Edit a.txt", "kind": "edit", "status": "pending"});
        let mut announced = call.clone();
        announced["sessionUpdate"] = if self.dialect == Dialect::V1 { "tool_call" } else { "tool_call_update" }.into();
        self.update(announced)?;
        let params = match self.dialect {
            Dialect::V2 => {
                json!({"sessionId": "s", "title": "Edit a.txt?", "subject": {"type": "tool_call", "toolCall": call}, "options": options})
            }
            _ => json!({"sessionId": "s", "toolCall": call, "options": options}),
        };
        let answer = self.ask("session/request_permission", params)?;
        let outcome = answer["result"]["outcome"]["outcome"].is_string();
        self.expect("client-permission", outcome, || format!("this came back: {answer}"));
        self.update(json!({"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "failed"}))
    }

    fn unknown(&mut self) -> Result<(), End> {
        let mut wrong = None;
        for method in ["_tieline.check/nothing", "session/tieline_check_nothing"] {
            let answer = self.ask(method, json!({}))?;
            if answer["error"]["code"] != -32601 {
                wrong = Some(format!("`{method}`: {answer}"));
            }
        }
        self.expect("client-unknown-request", wrong.is_none(), || wrong.unwrap_or_default());
        let before = self.log.len();
        self.say(&json!({"jsonrpc": "2.0", "method": "_tieline.check/told", "params": {}}))?;
        self.say(&json!({"jsonrpc": "2.0", "method": "$/tieline_check", "params": {}}))?;
        let canary = self.ask("_tieline.check/canary", json!({}))?;
        let extra = self.log[before..].iter().find(|line| {
            let message = line.value();
            line.from == Side::Client && message.get("method").is_none() && message["id"] != canary["id"]
        });
        let extra = extra.map(|line| line.text.clone());
        self.expect("client-unknown-told", extra.is_none(), || extra.unwrap_or_default());
        self.update(json!({"sessionUpdate": "_tieline.check_weather", "sky": [1, {"clouds": null}]}))?;
        self.lives("client-unknown-update")
    }

    fn files(&mut self) -> Result<(), End> {
        let (reads, writes) = (self.offers["fs"]["readTextFile"] == true, self.offers["fs"]["writeTextFile"] == true);
        let path = self.cwd.join("tieline-check-lines.txt");
        let lines: Vec<String> = (1..=100).map(|number| format!("line {number}")).collect();
        if reads && std::fs::write(&path, lines.join("\n")).is_ok() {
            let answer =
                self.ask("fs/read_text_file", json!({"sessionId": "s", "path": path, "line": 10, "limit": 3}))?;
            let right = "line 10\nline 11\nline 12";
            match answer["result"]["content"].as_str() {
                Some(text) => {
                    self.expect("client-read", text.trim_end() == right, || format!("lines 10 to 12 are {text:?}"));
                }
                None => self.add("client-read", Verdict::NotExercised, &refused(&answer)),
            }
            let answer = self.ask("fs/read_text_file", json!({"sessionId": "s", "path": "tieline-check-lines.txt"}))?;
            self.expect("client-relative", answer["error"].is_object(), || {
                format!("a relative path was read: {answer}")
            });
            let none = self.cwd.join("tieline-check-none.txt");
            let answer = self.ask("fs/read_text_file", json!({"sessionId": "s", "path": none}))?;
            self.expect("client-missing", answer["error"]["code"] == -32002, || answer.to_string());
        }
        let _ = std::fs::remove_file(&path);
        if writes {
            let path = self.cwd.join("tieline-check-made.txt");
            let answer = self.ask("fs/write_text_file", json!({"sessionId": "s", "path": path, "content": "made"}))?;
            if answer.get("result").is_some() {
                let made = std::fs::read_to_string(&path).is_ok_and(|text| text == "made");
                self.expect("client-write", made, || "it was said to be written, and is not there".into());
            } else {
                self.add("client-write", Verdict::NotExercised, &refused(&answer));
            }
            let _ = std::fs::remove_file(&path);
        }
        if !reads && self.dialect == Dialect::V1 {
            let answer = self.ask("fs/read_text_file", json!({"sessionId": "s", "path": path}))?;
            self.expect("client-unoffered", answer["error"]["code"] == -32601, || answer.to_string());
        }
        Ok(())
    }

    fn terminals(&mut self) -> Result<(), End> {
        if self.offers["terminal"] != true {
            for id in ["client-terminal", "client-terminal-limit", "client-terminal-kill", "client-terminal-release"] {
                self.add(id, Verdict::NotApplicable, "the client has no terminals");
            }
            if self.dialect == Dialect::V1 {
                let answer = self.ask("terminal/create", json!({"sessionId": "s", "command": "true"}))?;
                self.expect("client-unoffered", answer["error"]["code"] == -32601, || answer.to_string());
            }
            return Ok(());
        }
        let run = |text: &str| json!({"sessionId": "s", "command": "sh", "args": ["-c", text]});
        let mut create = run("printf 'aaaa\u{e9}\u{e9}\u{e9}\u{e9}'; exit 3");
        create["outputByteLimit"] = 5.into();
        let answer = self.ask("terminal/create", create)?;
        let Some(id) = answer["result"]["terminalId"].as_str().map(str::to_owned) else {
            self.add("client-terminal", Verdict::NotExercised, &refused(&answer));
            return Ok(());
        };
        let named = json!({"sessionId": "s", "terminalId": id});
        let exit = self.ask("terminal/wait_for_exit", named.clone())?;
        let output = self.ask("terminal/output", named.clone())?;
        let told = exit["result"]["exitCode"] == 3 && output["result"]["exitStatus"]["exitCode"] == 3;
        self.expect("client-terminal", told, || format!("wait: {exit}, output: {output}"));
        let text = output["result"]["output"].as_str().unwrap_or_default();
        let cut = text.len() <= 5
            && text.ends_with('\u{e9}')
            && !text.contains('\u{fffd}')
            && output["result"]["truncated"] == true;
        self.expect("client-terminal-limit", cut, || format!("of 12 bytes at most 5 were wanted: {output}"));
        let _ = self.ask("terminal/release", named.clone())?;
        let gone = self.ask("terminal/output", named)?;
        self.expect("client-terminal-release", gone["error"].is_object(), || gone.to_string());
        let answer = self.ask("terminal/create", run("sleep 300"))?;
        let Some(id) = answer["result"]["terminalId"].as_str().map(str::to_owned) else { return Ok(()) };
        let named = json!({"sessionId": "s", "terminalId": id});
        let _ = self.ask("terminal/kill", named.clone())?;
        let exit = self.ask("terminal/wait_for_exit", named.clone())?;
        let output = self.ask("terminal/output", named.clone())?;
        let kept = exit.get("result").is_some() && output["result"]["exitStatus"].is_object();
        self.expect("client-terminal-kill", kept, || format!("wait: {exit}, output: {output}"));
        let _ = self.ask("terminal/release", named)?;
        Ok(())
    }

    /// Something answers after what came before.
    fn lives(&mut self, id: &'static str) -> Result<(), End> {
        let canary = self.ask("_tieline.check/canary", json!({}));
        self.expect(id, canary.is_ok(), || "nothing was answered after it".into());
        canary.map(|_| ())
    }

    fn turn_ends(&mut self) -> Result<(), End> {
        if self.dialect == Dialect::V2 {
            return self.update(json!({"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"}));
        }
        let id = self.prompt["id"].clone();
        self.answer(&id, json!({"stopReason": "end_turn"}))
    }

    /// Answers until the client has had enough.
    fn rest(&mut self) -> Result<(), End> {
        loop {
            let message = self.hear()?;
            if message["method"].is_string() && message.get("id").is_some() {
                let result = match message["method"].as_str() {
                    Some("session/new") => json!({"sessionId": "s"}),
                    Some("session/prompt") => {
                        self.prompt = message;
                        self.turn_ends()?;
                        continue;
                    }
                    Some("session/close" | "session/delete") => json!({}),
                    _ => {
                        self.say(&json!({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "Method not found"}}))?;
                        continue;
                    }
                };
                self.answer(&message["id"], result)?;
            }
        }
    }

    fn text(&mut self, text: &str) -> Result<(), End> {
        self.update(json!({"sessionUpdate": "agent_message_chunk", "messageId": "a1", "content": {"type": "text", "text": text}}))
    }

    fn update(&mut self, update: Value) -> Result<(), End> {
        self.say(&json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}}))
    }

    fn answer(&mut self, id: &Value, result: Value) -> Result<(), End> {
        self.say(&json!({"jsonrpc": "2.0", "id": id, "result": result}))
    }

    fn say(&mut self, message: &Value) -> Result<(), End> {
        self.raw(&message.to_string())
    }

    fn raw(&mut self, line: &str) -> Result<(), End> {
        self.note(Side::Agent, line);
        let json = serde_json::from_str::<Value>(line).is_ok();
        let _ = self.judge.frame(Side::Agent, json.then_some(line));
        let written = writeln!(self.output, "{line}").and_then(|()| self.output.flush());
        written.map_err(|_| End::Closed)
    }

    fn note(&mut self, from: Side, text: &str) {
        // A flood is no evidence.
        if self.log.len() < 2000 {
            let cut = text.chars().take(4000).collect();
            self.log.push(Line { at: self.start.elapsed().as_micros() as u64, from, text: cut });
        }
    }

    /// The next message of the client.
    fn hear(&mut self) -> Result<Value, End> {
        loop {
            let line = self.input.recv_timeout(self.patience).map_err(|error| match error {
                RecvTimeoutError::Timeout => End::Late,
                RecvTimeoutError::Disconnected => End::Closed,
            })?;
            if line.trim().is_empty() {
                continue;
            }
            self.note(Side::Client, &line);
            let message = serde_json::from_str::<Value>(&line).ok();
            let frame = self.log.len();
            let found = self.judge.frame(Side::Client, message.is_some().then_some(&line));
            self.breaches.extend(
                found.into_iter().filter(|breach| breach.side == Side::Client).map(|breach| Breach { frame, ..breach }),
            );
            if let Some(message) = message {
                return Ok(message);
            }
        }
    }

    /// The next request of this name; others are refused, notifications are taken.
    fn hear_call(&mut self, method: &str) -> Result<Value, End> {
        loop {
            let message = self.hear()?;
            if message["method"] == method {
                return Ok(message);
            }
            if message["method"].is_string() && message.get("id").is_some() {
                self.say(&json!({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "Method not found"}}))?;
            }
        }
    }

    /// Asks, and waits for the answer.
    fn ask(&mut self, method: &str, params: Value) -> Result<Value, End> {
        let id = format!("check-{}", self.next);
        self.next += 1;
        self.say(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))?;
        loop {
            match self.hear() {
                Ok(message) if message.get("method").is_none() && message["id"] == *id => {
                    self.expect("client-answers", true, String::new);
                    return Ok(message);
                }
                Ok(_) => {}
                Err(end) => {
                    self.expect("client-answers", false, || format!("no answer to `{method}`"));
                    return Err(end);
                }
            }
        }
    }

    fn expect(&mut self, id: &'static str, holds: bool, said: impl FnOnce() -> String) {
        let said = if holds { String::new() } else { said() };
        self.add(id, if holds { Verdict::Holds } else { Verdict::Broken }, &said);
    }

    fn add(&mut self, id: &'static str, verdict: Verdict, said: &str) {
        if let Some(check) = table::find(id) {
            let frame = self.log.len().saturating_sub(1);
            let log: Log = Arc::new(self.log.clone());
            self.sheet.add(Finding { check, verdict, said: said.to_owned(), part: self.part.clone(), log, frame });
        }
    }

    fn finish(mut self, ended: &Result<(), End>) -> Sheet {
        if matches!(ended, Err(End::Closed)) {
            self.expect("client-closes", true, String::new);
        }
        let log: Log = Arc::new(self.log.clone());
        for law in LAWS.iter().filter(|law| law.applies(Side::Client, self.dialect)) {
            let breach = self.breaches.iter().find(|breach| breach.law == law.id);
            let verdict = match (breach, self.judge.tally(law.id, Side::Client).0) {
                (Some(_), _) => Verdict::Broken,
                (None, 0) => continue,
                (None, _) => Verdict::Holds,
            };
            let (said, frame) =
                breach.map_or((String::new(), 0), |breach| (breach.said.clone(), breach.frame.max(1) - 1));
            self.sheet.add(Finding { check: law, verdict, said, part: self.part.clone(), log: log.clone(), frame });
        }
        self.sheet
    }
}

fn refused(answer: &Value) -> String {
    format!("the client refused it: {}", answer["error"]["message"])
}
