//! What the scripted agents do in the middle of a turn, scenario by scenario.

use super::actor::{Actor, End};
use crate::sheet::Verdict;
use crate::table;
use serde_json::{Value, json};
use tieline_schema::Dialect;
use tieline_trace::Side;

/// What no client should print as it came: it sets the title of a terminal.
pub(super) const HOSTILE: &str = "\u{1b}]0;tieline-check\u{7}";

impl Actor<'_> {
    pub(super) fn permission(&mut self) -> Result<(), End> {
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

    pub(super) fn unknown(&mut self) -> Result<(), End> {
        for method in ["_tieline.check/nothing", "session/tieline_check_nothing"] {
            let answer = self.ask(method, json!({}))?;
            let refused = answer["error"]["code"] == -32601;
            self.expect("client-unknown-request", refused, || format!("`{method}`: {answer}"));
        }
        let before = self.witness.log.len();
        self.say(&json!({"jsonrpc": "2.0", "method": "_tieline.check/told", "params": {}}))?;
        self.say(&json!({"jsonrpc": "2.0", "method": "$/tieline_check", "params": {}}))?;
        let canary = self.ask("_tieline.check/canary", json!({}))?;
        let extra = self.witness.log[before..].iter().find(|line| {
            let message = line.value();
            line.from == Side::Client && message.get("method").is_none() && message["id"] != canary["id"]
        });
        let extra = extra.map(|line| line.text.clone());
        self.expect("client-unknown-told", extra.is_none(), || extra.unwrap_or_default());
        self.update(json!({"sessionUpdate": "_tieline.check_weather", "sky": [1, {"clouds": null}]}))?;
        self.lives("client-unknown-update")
    }

    pub(super) fn files(&mut self) -> Result<(), End> {
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
            let said = || format!("a relative path was read: {answer}");
            self.expect("client-relative", answer["error"].is_object(), said);
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

    pub(super) fn terminals(&mut self) -> Result<(), End> {
        if self.offers["terminal"] != true {
            for check in table::all().filter(|check| check.id.starts_with("client-terminal")) {
                self.add(check.id, Verdict::NotApplicable, "the client has no terminals");
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
        let Some(named) = terminal(&answer) else {
            self.add("client-terminal", Verdict::NotExercised, &refused(&answer));
            return Ok(());
        };
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
        let Some(named) = terminal(&answer) else { return Ok(()) };
        let _ = self.ask("terminal/kill", named.clone())?;
        let exit = self.ask("terminal/wait_for_exit", named.clone())?;
        let output = self.ask("terminal/output", named.clone())?;
        let kept = exit.get("result").is_some() && output["result"]["exitStatus"].is_object();
        self.expect("client-terminal-kill", kept, || format!("wait: {exit}, output: {output}"));
        let _ = self.ask("terminal/release", named)?;
        Ok(())
    }

    /// The user interrupts the client, which cancels the turn, or leaves.
    pub(super) fn cancel(&mut self) -> Result<(), End> {
        self.text("working")?;
        (self.tell)("interrupt");
        if let Err(end) = self.hear_call("session/cancel") {
            let how = if end == End::Closed { "leaves" } else { "does not cancel" };
            self.add("client-cancel", Verdict::NotExercised, &format!("the client {how} when it is interrupted"));
            return Err(end);
        }
        self.text("late")?;
        match self.ask("_tieline.check/canary", json!({})) {
            Ok(_) => self.expect("client-cancel", true, String::new),
            // It may have had enough; that is no breach.
            Err(End::Closed) => {
                self.add("client-cancel", Verdict::NotExercised, "the client left right after its cancel");
            }
            Err(End::Late) => self.expect("client-cancel", false, || "nothing was answered after the cancel".into()),
        }
        self.stop = "cancelled";
        Ok(())
    }

    /// The user interrupts the client, and the agent does not care.
    pub(super) fn hang(&mut self) -> Result<(), End> {
        self.text("working")?;
        (self.tell)("interrupt");
        while self.hear() != Err(End::Closed) {}
        Err(End::Closed)
    }

    /// Text that would drive a terminal.
    pub(super) fn hostile(&mut self) -> Result<(), End> {
        self.text(&format!("{HOSTILE}\u{1b}[8mhidden\r\n"))?;
        let kind = if self.dialect == Dialect::V1 { "tool_call" } else { "tool_call_update" };
        let title = format!("Read {HOSTILE}a.txt");
        self.update(
            json!({"sessionUpdate": kind, "toolCallId": "c1", "title": title, "kind": "read", "status": "pending"}),
        )?;
        self.update(json!({"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "completed"}))?;
        self.text("done")
    }
}

/// How a terminal that was made is named.
fn terminal(answer: &Value) -> Option<Value> {
    let id = answer["result"]["terminalId"].as_str()?;
    Some(json!({"sessionId": "s", "terminalId": id}))
}

fn refused(answer: &Value) -> String {
    format!("the client refused it: {}", answer["error"]["message"])
}
