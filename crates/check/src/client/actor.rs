//! A scripted agent: what it says to a client, what it hears, and what it makes of that.

use crate::peer::hello;
use crate::sheet::{Sheet, Verdict};
use crate::witness::Witness;
use serde_json::{Value, json};
use std::io::Write;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;
use tieline_schema::Dialect;
use tieline_trace::Side;

/// A client that asks nobody has answered after this time.
const ANSWER: Duration = Duration::from_secs(1);

/// Why an agent stops playing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The client has closed our input.
    Closed,
    /// Something did not come.
    Late,
}

/// A scripted agent: what it hears, what it says, what it makes of it.
pub(super) struct Actor<'a> {
    pub(super) dialect: Dialect,
    /// The scenario.
    name: String,
    input: Receiver<String>,
    output: &'a mut dyn Write,
    patience: Duration,
    pub(super) tell: &'a mut dyn FnMut(&str),
    pub(super) witness: Witness,
    pub(super) offers: Value,
    pub(super) cwd: PathBuf,
    /// Why the turn ends.
    pub(super) stop: &'static str,
    prompt: Value,
    next: i64,
    sheet: Sheet,
}

/// Plays a scenario to a client over these streams, until the client closes them. Gives what was found out. `tell` hears what the one
/// who started the client has to know: `open` (a prompt can be typed), `asked`, `interrupt`, `over`.
pub fn play(
    part: &str,
    dialect: Dialect,
    input: Receiver<String>,
    output: &mut dyn Write,
    patience: Duration,
    tell: &mut dyn FnMut(&str),
) -> Sheet {
    let (witness, offers, cwd, prompt) = Default::default();
    let (name, sheet, stop, next) = (part.to_owned(), Sheet::new(Side::Client, dialect), "end_turn", 1);
    let mut actor =
        Actor { dialect, name, input, output, patience, tell, witness, offers, cwd, stop, prompt, next, sheet };
    match std::panic::catch_unwind(AssertUnwindSafe(|| actor.play())) {
        Ok(Err(End::Closed)) => actor.expect("client-closes", true, String::new),
        Ok(_) => {}
        Err(panic) => {
            let why = panic.downcast_ref::<&str>().copied().or(panic.downcast_ref::<String>().map(String::as_str));
            actor.sheet.leave(part, Verdict::KitAtFault, &format!("the agent panicked: {}", why.unwrap_or_default()));
        }
    }
    (actor.tell)("over");
    actor.witness.judged(part, &mut actor.sheet);
    actor.sheet
}

impl Actor<'_> {
    fn play(&mut self) -> Result<(), End> {
        let part = self.name.clone();
        match self.open(&part) {
            Ok(true) => self.expect("client-prompts", true, String::new),
            Ok(false) => return self.rest(),
            Err(end) => {
                // Elsewhere there is a reason to leave.
                if part == "talk" {
                    let how = if end == End::Closed { "it leaves" } else { "nothing more comes" };
                    self.expect("client-prompts", false, || format!("{how} before it has sent a prompt"));
                }
                return Err(end);
            }
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
            "cancel" => self.cancel()?,
            "hang" => self.hang()?,
            "hostile" => self.hostile()?,
            _ => self.text("hello")?,
        }
        self.turn_ends()?;
        if part == "late" {
            self.text("late")?;
            self.lives("client-late")?;
        }
        self.rest()
    }

    /// From the hello to the prompt; false if this scenario has none.
    fn open(&mut self, part: &str) -> Result<bool, End> {
        let theirs = self.hear_call("initialize")?;
        let mut ours = hello(Side::Agent, self.dialect);
        match part {
            "version" => ours["protocolVersion"] = 99.into(),
            "login" => {}
            _ => ours["authMethods"] = json!([]),
        }
        let key = if self.dialect == Dialect::V1 { "clientCapabilities" } else { "capabilities" };
        self.offers = theirs["params"][key].clone();
        self.answer(&theirs["id"], ours)?;
        if part == "version" {
            let next = self.hear();
            let said = |message: &Value| format!("it goes on with {}", message["method"]);
            self.expect("client-version", next.is_err(), || next.as_ref().map_or(String::new(), said));
            return next.map(|_| false);
        }
        let new = self.hear_call("session/new")?;
        if part == "login" {
            let error = json!({"code": -32000, "message": "Authentication required"});
            self.say(&json!({"jsonrpc": "2.0", "id": new["id"], "error": error}))?;
            let login = self.hear_call(if self.dialect == Dialect::V2 { "auth/login" } else { "authenticate" })?;
            let known = login["params"]["methodId"] == "check";
            self.expect("client-login", known, || format!("it logs in with {}", login["params"]["methodId"]));
            self.answer(&login["id"], json!({}))?;
            return Ok(false);
        }
        self.cwd = new["params"]["cwd"].as_str().unwrap_or_default().into();
        self.answer(&new["id"], json!({"sessionId": "s"}))?;
        (self.tell)("open");
        self.prompt = self.hear_call("session/prompt")?;
        if self.dialect == Dialect::V2 {
            self.answer(&self.prompt["id"].clone(), json!({"messageId": "u1"}))?;
            let content = &self.prompt["params"]["prompt"];
            self.update(json!({"sessionUpdate": "user_message", "messageId": "u1", "content": content}))?;
            self.update(json!({"sessionUpdate": "state_update", "state": "running"}))?;
        }
        Ok(true)
    }

    /// Something answers after what came before.
    pub(super) fn lives(&mut self, id: &str) -> Result<(), End> {
        let canary = self.ask("_tieline.check/canary", json!({}));
        self.expect(id, canary.is_ok(), || "nothing was answered after it".into());
        canary.map(|_| ())
    }

    fn turn_ends(&mut self) -> Result<(), End> {
        if self.dialect == Dialect::V2 {
            return self.update(json!({"sessionUpdate": "state_update", "state": "idle", "stopReason": self.stop}));
        }
        self.answer(&self.prompt["id"].clone(), json!({"stopReason": self.stop}))
    }

    /// Answers until the client has had enough.
    fn rest(&mut self) -> Result<(), End> {
        (self.tell)("over");
        loop {
            let message = self.hear()?;
            match message["method"].as_str().filter(|_| message.get("id").is_some()) {
                None => {}
                Some("session/new") => self.answer(&message["id"], json!({"sessionId": "s"}))?,
                Some("session/close" | "session/delete") => self.answer(&message["id"], json!({}))?,
                Some("session/prompt") => {
                    self.prompt = message;
                    self.turn_ends()?;
                }
                Some(_) => self.refuse(&message)?,
            }
        }
    }

    pub(super) fn text(&mut self, text: &str) -> Result<(), End> {
        self.update(json!({"sessionUpdate": "agent_message_chunk", "messageId": "a1", "content": {"type": "text", "text": text}}))
    }

    pub(super) fn update(&mut self, update: Value) -> Result<(), End> {
        self.say(&json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}}))
    }

    fn answer(&mut self, id: &Value, result: Value) -> Result<(), End> {
        self.say(&json!({"jsonrpc": "2.0", "id": id, "result": result}))
    }

    fn refuse(&mut self, message: &Value) -> Result<(), End> {
        let error = json!({"code": -32601, "message": "Method not found"});
        self.say(&json!({"jsonrpc": "2.0", "id": message["id"], "error": error}))
    }

    pub(super) fn say(&mut self, message: &Value) -> Result<(), End> {
        self.raw(&message.to_string())
    }

    fn raw(&mut self, line: &str) -> Result<(), End> {
        let _ = self.witness.hear(Side::Agent, line.as_bytes());
        let written = writeln!(self.output, "{line}").and_then(|()| self.output.flush());
        written.map_err(|_| End::Closed)
    }

    /// The next message of the client.
    pub(super) fn hear(&mut self) -> Result<Value, End> {
        self.hear_within(self.patience)
    }

    fn hear_within(&mut self, patience: Duration) -> Result<Value, End> {
        loop {
            let line = self.input.recv_timeout(patience);
            let line = line.map_err(|why| if why == RecvTimeoutError::Timeout { End::Late } else { End::Closed })?;
            if !line.trim().is_empty()
                && let Some(message) = self.witness.hear(Side::Client, line.as_bytes())
            {
                return Ok(message);
            }
        }
    }

    /// The next request of this name; others are refused, notifications are taken.
    pub(super) fn hear_call(&mut self, method: &str) -> Result<Value, End> {
        loop {
            let message = self.hear()?;
            if message["method"] == method {
                return Ok(message);
            }
            if message["method"].is_string() && message.get("id").is_some() {
                self.refuse(&message)?;
            }
        }
    }

    /// Asks, and waits for the answer.
    pub(super) fn ask(&mut self, method: &str, params: Value) -> Result<Value, End> {
        let id = format!("check-{}", self.next);
        self.next += 1;
        self.say(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))?;
        let mut told = false;
        loop {
            match self.hear_within(if told { self.patience } else { self.patience.min(ANSWER) }) {
                // It may be waiting for its user.
                Err(End::Late) if !told => {
                    told = true;
                    (self.tell)("asked");
                }
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

    pub(super) fn expect(&mut self, id: &str, holds: bool, said: impl FnOnce() -> String) {
        let (verdict, said) = Verdict::of(holds, said);
        self.add(id, verdict, &said);
    }

    pub(super) fn add(&mut self, id: &str, verdict: Verdict, said: &str) {
        self.witness.found(id, verdict, said, &self.name, &mut self.sheet);
    }
}
