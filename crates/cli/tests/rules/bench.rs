//! Runs each row in every dialect it is for and in both framings, many of them on one process.

use crate::common::{Client, DIALECTS, FRAMINGS, Framing, Place};
use serde_json::{Value, json};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Some rules and what shows them.
pub struct Row {
    /// Which rules.
    pub ids: &'static [&'static str],
    /// In which dialects.
    pub on: &'static [&'static str],
    /// Panics if one of them does not hold.
    pub run: fn(&mut Bench),
}

pub const ALL: &[&str] = &DIALECTS;
pub const V1: &[&str] = &["1"];
pub const V2: &[&str] = &["2-seed", "2"];
pub const SEED: &[&str] = &["2-seed"];
pub const CURRENT: &[&str] = &["2"];
/// All but the seed-era draft.
pub const NOT_SEED: &[&str] = &["1", "2"];
/// Those whose prompts are answered at the end.
pub const OLDER: &[&str] = &["1", "2-seed"];

/// A row; the rules are named before it.
pub const fn row(ids: &'static [&'static str], on: &'static [&'static str], run: fn(&mut Bench)) -> Row {
    Row { ids, on, run }
}

/// A client with a fresh session of the puppet, in some dialect and framing. It offers nothing.
pub struct Bench {
    pub client: Client,
    pub place: Place,
    pub dialect: &'static str,
    pub framing: Framing,
}

impl Bench {
    fn new(dialect: &'static str, framing: Framing) -> Self {
        let place = Place::new();
        place.write("a.txt", "one\ntwo\nthree\n");
        let client = Client::able(&place, (dialect, framing), &json!({}), &["--script", "puppet"]);
        Self { client, place, dialect, framing }
    }

    /// Forgets what was, opens a session.
    fn reset(&mut self) {
        let client = &mut self.client;
        client.choose = "allow_once";
        (client.serve, client.editor) = (None, None);
        client.open_in(&self.place.project());
        if self.dialect != "2" {
            client.until_update("available_commands_update");
        }
        self.forget();
    }

    /// Forgets what was heard.
    pub fn forget(&mut self) {
        let client = &mut self.client;
        (client.asked, client.updates, client.heard) = (Vec::new(), Vec::new(), Vec::new());
    }

    /// Another agent for a client that offers this; it has a session.
    pub fn other(&self, capabilities: Value, arguments: &[&str]) -> Client {
        let mut client = Client::able(&self.place, (self.dialect, self.framing), &capabilities, arguments);
        client.open_in(&self.place.project());
        client
    }

    /// Another agent in a place, with these variables. It has no session.
    pub fn agent(&self, place: &Place, can: &Value, arguments: &[&str], variables: &[(&str, &str)]) -> Client {
        Client::able_with(place, (self.dialect, self.framing), can, arguments, variables)
    }

    /// Another agent that was told nothing yet.
    pub fn silent(&self, arguments: &[&str]) -> Client {
        Client::silent(&self.place, (self.dialect, self.framing), arguments)
    }

    pub fn is(&self, dialect: &str) -> bool {
        self.dialect == dialect
    }

    /// A number of seconds that no other process sleeps: for commands that are looked for by it.
    pub fn mark(&self, number: u8) -> String {
        let way = DIALECTS.iter().position(|dialect| self.is(dialect)).unwrap() * 2 + self.framing as usize;
        format!("9{}{way}{number}", std::process::id())
    }

    /// The session's id, as parameters.
    pub fn named(&self, more: Value) -> Value {
        let mut params = json!({"sessionId": self.client.session});
        if let Value::Object(more) = more {
            params.as_object_mut().unwrap().extend(more);
        }
        params
    }

    /// A turn from its beginning: how it stopped. What was heard is only of this turn.
    pub fn turn(&mut self, text: &str) -> String {
        self.forget();
        self.client.prompt(text)
    }

    /// A turn that must end by itself; all updates of it.
    pub fn updates(&mut self, text: &str) -> Vec<Value> {
        assert_eq!(self.turn(text), "end_turn");
        self.client.updates.clone()
    }

    /// Asks something that needs no time, so that all that was on its way is here.
    pub fn settle(&mut self) {
        let params = json!({"cwd": "/nowhere/at/all"});
        self.client.call("session/list", params);
    }

    /// The updates of tool calls, in order.
    pub fn calls(&self) -> Vec<Value> {
        calls(&self.client.updates)
    }

    /// Everything a tool call was told to be, put together.
    pub fn call(&self) -> Value {
        let mut whole = json!({});
        for update in self.calls() {
            whole.as_object_mut().unwrap().extend(update.as_object().unwrap().clone());
        }
        whole
    }
}

pub fn calls(updates: &[Value]) -> Vec<Value> {
    let is_call = |update: &&Value| update["sessionUpdate"].as_str().is_some_and(|kind| kind.starts_with("tool_call"));
    updates.iter().filter(is_call).cloned().collect()
}

/// The updates of a kind.
pub fn of<'a>(updates: &'a [Value], kind: &str) -> Vec<&'a Value> {
    updates.iter().filter(|update| update["sessionUpdate"] == kind).collect()
}

/// Runs every row in every way, the ways side by side.
pub fn check(rows: &[Row]) {
    let ways = DIALECTS.iter().flat_map(|dialect| FRAMINGS.map(|framing| (*dialect, framing)));
    let failed: Vec<String> = std::thread::scope(|scope| {
        let running: Vec<_> = ways.map(|way| scope.spawn(move || run(rows, way))).collect();
        running.into_iter().flat_map(|way| way.join().unwrap()).collect()
    });
    assert!(failed.is_empty(), "{} failed:\n{}", failed.len(), failed.join("\n"));
}

/// Runs every row in one way, and says which did not hold.
fn run(rows: &[Row], (dialect, framing): (&'static str, Framing)) -> Vec<String> {
    let (mut failed, mut bench) = (Vec::new(), None);
    for row in rows.iter().filter(|row| row.on.contains(&dialect)) {
        let done = catch_unwind(AssertUnwindSafe(|| {
            let bench = bench.get_or_insert_with(|| Bench::new(dialect, framing));
            bench.reset();
            (row.run)(bench);
        }));
        if let Err(why) = done {
            let text = why.downcast_ref::<String>().map(String::as_str).or(why.downcast_ref::<&str>().copied());
            let text: String = text.unwrap_or_default().chars().take(2000).collect();
            failed.push(format!("{:?} in {dialect}, {framing:?}: {text}", row.ids));
            // The next row does not inherit what went wrong here.
            bench = None;
        }
    }
    failed
}
