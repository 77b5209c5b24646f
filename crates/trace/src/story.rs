//! What happened in a recording: every message with what it answers, turns, tool calls, times, what is wrong. No I/O.

use crate::{Frame, Side};
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use tieline_json::{cut_line, push_line};

/// What is told of a message in its line has at most so many characters.
const MAX_ABOUT_CHARS: usize = 90;
/// Where a message says what it is about; the first two that are there are told.
const ABOUT: &str = "/params/update/sessionUpdate /params/update/content/text /params/update/content/0/text \
    /params/update/title /params/update/state /params/update/stopReason /params/update/status \
    /params/prompt/0/text /params/toolCall/title /params/path /params/command /params/cwd \
    /params/methodId /params/configId /params/modeId /params/terminalId /params/message \
    /params/protocolVersion /result/protocolVersion /result/stopReason /result/outcome/outcome \
    /result/outcome/optionId /error/message /error/data";

/// What a row is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Wants an answer.
    Request,
    /// Wants none.
    Notification,
    /// A good answer.
    Answer,
    /// An answer that says what went wrong.
    Error,
    /// No message.
    Rubbish,
    /// A message of which only the length is known.
    Dropped,
    /// Standard error.
    #[default]
    Stderr,
    /// An end was closed, or the agent is gone.
    End,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// One message, or something else that happened. Its texts are as they came: make them safe before they are shown.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Row {
    /// The number of its frame.
    pub frame: usize,
    /// Microseconds since the start.
    pub at: u64,
    /// Who.
    pub from: Side,
    /// What.
    pub kind: Kind,
    /// Bytes on the wire.
    pub size: u64,
    /// The method, also of what is answered; empty if there is none.
    pub method: String,
    /// The id, as JSON.
    pub id: Option<String>,
    /// The session.
    pub session: Option<String>,
    /// How long the answer took, in microseconds.
    pub took: Option<u64>,
    /// What it is about, in a few words.
    pub about: String,
    /// How the protocol is broken here.
    pub breaches: Vec<String>,
}

impl Row {
    /// Something is wrong here.
    pub fn is_wrong(&self) -> bool {
        matches!(self.kind, Kind::Error | Kind::Rubbish) || !self.breaches.is_empty()
    }
}

/// A prompt or a tool call, and what came of it.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Span {
    /// Its session.
    pub session: String,
    /// How the prompt begins; the title of a call, or its id.
    pub name: String,
    /// The kind of a call.
    pub kind: String,
    /// Why a turn ended; the last status of a call.
    pub stop: String,
    /// When it began, in microseconds since the start.
    pub began: u64,
    /// When the agent said the first thing of a turn.
    pub first: Option<u64>,
    /// When it ended.
    pub ended: Option<u64>,
    /// How many updates a turn had.
    pub updates: usize,
}

/// Follows a recording.
#[derive(Debug, Default)]
pub struct Story {
    /// How many rows of each side, and their bytes.
    rows: BTreeMap<String, (usize, u64)>,
    errors: usize,
    breaches: usize,
    sessions: BTreeSet<String>,
    /// Prompts in their order.
    pub turns: Vec<Span>,
    /// Tool calls in their order.
    pub calls: Vec<Span>,
    known: HashMap<(String, String), usize>,
    /// Requests without an answer, and the turn that they began.
    asked: HashMap<(Side, String), (Row, Option<usize>)>,
    took: BTreeMap<String, Vec<u64>>,
}

impl Story {
    /// Takes the next frame and what is wrong with it; gives its rows: one, or one for each message of a batch.
    pub fn take(&mut self, frame: &Frame, breaches: Vec<String>) -> Vec<Row> {
        let Frame { number, at, from, size, .. } = *frame;
        let about = short(&String::from_utf8_lossy(&frame.body));
        let base = Row { frame: number, at, from, size, about, ..Row::default() };
        let messages = match &frame.message {
            Some(Value::Array(batch)) => batch,
            message => message.as_slice(),
        };
        let mut rows: Vec<Row> = messages.iter().map(|message| self.message(&base, message)).collect();
        if rows.is_empty() {
            let (kind, told) = match from {
                Side::Stderr => (Kind::Stderr, None),
                Side::Exit => (Kind::End, None),
                _ if frame.end => (Kind::End, Some("closed its end")),
                _ if frame.dropped => (Kind::Dropped, Some("left out of the recording")),
                _ => (Kind::Rubbish, None),
            };
            let about = told.map_or(base.about, str::to_owned);
            rows.push(Row { kind, about, ..base });
        }
        self.breaches += breaches.len();
        // What is wrong with a batch is told once.
        rows[0].breaches = breaches;
        self.errors += rows.iter().filter(|row| matches!(row.kind, Kind::Error | Kind::Rubbish)).count();
        let (count, bytes) = self.rows.entry(from.to_string()).or_default();
        (*count, *bytes) = (*count + rows.len(), bytes.saturating_add(size));
        rows
    }

    fn message(&mut self, base: &Row, message: &Value) -> Row {
        let id = message.get("id").filter(|id| !id.is_null()).map(Value::to_string);
        let session = message["params"]["sessionId"].as_str().map(str::to_owned);
        let method = message["method"].as_str().unwrap_or_default().to_owned();
        let kind = match (method.as_str(), &id) {
            ("", None) if message.get("error").or(message.get("result")).is_none() => Kind::Rubbish,
            ("", _) if message.get("error").is_some() => Kind::Error,
            ("", _) => Kind::Answer,
            (_, Some(_)) => Kind::Request,
            (_, None) => Kind::Notification,
        };
        let mut row = Row { kind, id, session, method, about: about(message), ..base.clone() };
        if row.id.is_none() && row.method.is_empty() && row.about.is_empty() {
            row.about.clone_from(&base.about);
        }
        if !row.method.is_empty() {
            self.called(&row, message);
        } else if let Some(asked) = row.id.clone().and_then(|id| self.asked.remove(&(base.from.other(), id))) {
            self.answered(&mut row, asked, message);
        }
        self.sessions.extend(row.session.clone());
        row
    }

    fn called(&mut self, row: &Row, message: &Value) {
        let mut turn = None;
        if row.method == "session/prompt" {
            turn = Some(self.turns.len());
            let mut blocks = message["params"]["prompt"].as_array().into_iter().flatten();
            let prompt = blocks.find_map(|block| block["text"].as_str());
            let (session, name) = (row.session.clone().unwrap_or_default(), short(prompt.unwrap_or_default()));
            self.turns.push(Span { session, name, began: row.at, ..Span::default() });
        }
        if let Some(id) = &row.id {
            self.asked.insert((row.from, id.clone()), (row.clone(), turn));
        }
        if row.method == "session/update" {
            self.updated(row, &message["params"]["update"]);
        }
    }

    fn answered(&mut self, row: &mut Row, (asked, turn): (Row, Option<usize>), message: &Value) {
        let took = row.at.saturating_sub(asked.at);
        self.took.entry(asked.method.clone()).or_default().push(took);
        row.took = Some(took);
        row.session = message["result"]["sessionId"].as_str().map(str::to_owned).or(asked.session);
        row.method = asked.method;
        let stop = if row.kind == Kind::Error { Some("error") } else { message["result"]["stopReason"].as_str() };
        // In version 2 the prompt is answered at once, and the end of the turn is told later.
        if let (Some(turn), Some(stop)) = (turn, stop) {
            let turn = &mut self.turns[turn];
            (turn.ended, turn.stop) = (Some(row.at), stop.to_owned());
        }
    }

    fn updated(&mut self, row: &Row, update: &Value) {
        let word = |key: &str| update[key].as_str().unwrap_or_default();
        let session = row.session.clone().unwrap_or_default();
        if let Some(turn) = self.turns.iter_mut().rev().find(|turn| turn.session == session && turn.ended.is_none()) {
            turn.updates += 1;
            if word("sessionUpdate").starts_with("agent_") {
                turn.first.get_or_insert(row.at);
            }
            if word("state") == "idle" {
                (turn.ended, turn.stop) = (Some(row.at), word("stopReason").to_owned());
            }
        }
        let id = word("toolCallId");
        if id.is_empty() {
            return;
        }
        let next = self.calls.len();
        let at = *self.known.entry((session, id.to_owned())).or_insert(next);
        if at == next {
            self.calls.push(Span { name: id.to_owned(), began: row.at, ..Span::default() });
        }
        let call = &mut self.calls[at];
        for (key, field) in [("title", &mut call.name), ("kind", &mut call.kind), ("status", &mut call.stop)] {
            if let Some(text) = update[key].as_str() {
                *field = short(text);
            }
        }
        if matches!(word("status"), "completed" | "failed" | "cancelled") {
            call.ended.get_or_insert(row.at);
        }
    }

    /// The whole in a few lines, as they came: make them safe before they are shown.
    pub fn summary(&self) -> String {
        let counted = |count: usize, what: &str| match count {
            1 => format!("1 {what}"),
            _ => format!("{count} {what}{}", if what.ends_with("ch") { "es" } else { "s" }),
        };
        let counts = [
            counted(self.sessions.len(), "session"),
            counted(self.turns.len(), "turn"),
            counted(self.calls.len(), "tool call"),
            counted(self.errors, "error"),
            counted(self.breaches, "breach"),
        ];
        let sizes: Vec<String> =
            self.rows.iter().map(|(from, (count, size))| format!("{from} {count} ({})", bytes(*size))).collect();
        let mut text = String::new();
        push_line(&mut text, format_args!("{}; {}", counts.join(", "), sizes.join(", ")));
        for (number, turn) in (1..).zip(&self.turns) {
            let after = |at: u64| format!("after {}", time(at.saturating_sub(turn.began)));
            let end = turn.ended.map_or("without an end".to_owned(), |at| format!("{} {}", turn.stop, after(at)));
            let first = turn.first.map(|at| format!(", first words {}", after(at))).unwrap_or_default();
            let updates = counted(turn.updates, "update");
            push_line(&mut text, format_args!("turn {number}: “{}”: {end}{first}, {updates}", turn.name));
        }
        for call in &self.calls {
            let took = call.ended.map_or("no end".to_owned(), |at| time(at.saturating_sub(call.began)));
            push_line(&mut text, format_args!("tool call: “{}” {} {}, {took}", call.name, call.kind, call.stop));
        }
        for (method, took) in &self.took {
            let mut took = took.clone();
            took.sort_unstable();
            let (count, median, worst) = (took.len(), time(took[took.len() / 2]), time(took[took.len() - 1]));
            push_line(&mut text, format_args!("answers to {method}: {count}, median {median}, longest {worst}"));
        }
        let mut open: Vec<_> = self.asked.iter().collect();
        open.sort_unstable_by_key(|&((from, id), (asked, _))| (asked.at, from.to_string(), id));
        for ((from, id), (asked, _)) in open {
            let at = time(asked.at);
            push_line(&mut text, format_args!("no answer: {} #{id} of the {from} at {at}", asked.method));
        }
        text
    }
}

/// A time for people.
pub fn time(micros: u64) -> String {
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..1_000_000 => format!("{}.{} ms", micros / 1_000, micros % 1_000 / 100),
        _ => format!("{}.{:02} s", micros / 1_000_000, micros % 1_000_000 / 10_000),
    }
}

/// A size for people.
pub fn bytes(size: u64) -> String {
    match size {
        0..10_000 => format!("{size} B"),
        10_000..10_000_000 => format!("{} kB", size / 1_000),
        _ => format!("{} MB", size / 1_000_000),
    }
}

fn about(message: &Value) -> String {
    let found = ABOUT.split(' ').filter_map(|place| message.pointer(place)).filter(|value| !value.is_null());
    let tell = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let code = message.pointer("/error/code").map(|code| format!("{code} "));
    let told: Vec<String> = found.take(2).map(tell).collect();
    short(&(code.unwrap_or_default() + &told.join(" ")))
}

/// In one line, and not too long.
fn short(text: &str) -> String {
    cut_line(text, MAX_ABOUT_CHARS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn sizes_that_nobody_can_add_are_the_largest_that_can_be_told() {
        let line = format!(r#"{{"at":1,"from":"agent","raw":"","dropped":{}}}"#, u64::MAX);
        let recording = format!("{line}\n{line}\n");
        let mut frames = crate::Frames::new(recording.as_bytes(), crate::Kept::Exact);
        let mut story = Story::default();
        while let Ok(Some(frame)) = frames.next_frame() {
            story.take(&frame, Vec::new());
        }
        assert!(story.summary().contains("agent 2 (18446744073709 MB)"), "{}", story.summary());
    }

    #[test]
    fn times_that_go_back_take_no_time() {
        let mut story = Story::default();
        let mut hear = |at, from, message: Value| {
            let frame = Frame { at, from, size: 1, message: Some(message), ..Frame::default() };
            story.take(&frame, Vec::new());
        };
        let update =
            |update: Value| json!({"method": "session/update", "params": {"sessionId": "s", "update": update}});
        let prompt = json!({"sessionId": "s", "prompt": [{"type": "text", "text": "hi"}]});
        hear(9, Side::Client, json!({"id": 1, "method": "session/prompt", "params": prompt}));
        hear(8, Side::Agent, update(json!({"sessionUpdate": "agent_message_chunk"})));
        hear(7, Side::Agent, update(json!({"sessionUpdate": "tool_call", "toolCallId": "c"})));
        hear(
            6,
            Side::Agent,
            update(json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "failed"})),
        );
        hear(5, Side::Agent, json!({"id": 1, "result": {"stopReason": "end_turn"}}));
        let summary = story.summary();
        assert!(
            summary.contains("turn 1: “hi”: end_turn after 0 µs, first words after 0 µs, 3 updates\n"),
            "{summary}"
        );
        assert!(summary.contains("tool call: “c”  failed, 0 µs\n"), "{summary}");
    }
}
