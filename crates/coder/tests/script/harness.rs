//! A tiny turn loop with canned tools.

use std::time::Duration;
use tieline_coder::model::script::Script;
use tieline_coder::model::{Event, Finish, Message, Model, ModelError, Report, Request, ToolRequest, ToolResult};
use tokio::time::timeout;

/// More answers than this in a turn, and the agent has had enough.
const ROUNDS: usize = 25;

/// What came of one turn.
#[derive(Debug, Default)]
pub struct Played {
    pub events: Vec<Event>,
    pub end: String,
}

impl Played {
    pub fn text(&self) -> String {
        let pieces = self.events.iter().filter_map(|event| match event {
            Event::Text(text) | Event::Thought(text) => Some(text.as_str()),
            _ => None,
        });
        pieces.collect()
    }

    pub fn reports(&self) -> Vec<&Report> {
        self.events
            .iter()
            .filter_map(|event| if let Event::Report(report) = event { Some(report) } else { None })
            .collect()
    }

    pub fn calls(&self) -> Vec<(&str, &str)> {
        let calls = self.events.iter().filter_map(|event| match event {
            Event::Call(call) => Some((call.name.as_str(), call.arguments.as_str())),
            _ => None,
        });
        calls.collect()
    }
}

/// What tools give back: text and whether it failed. Gets the call and how many came before it.
pub type World<'a> = &'a dyn Fn(&ToolRequest, usize) -> (String, bool);

/// A tiny turn loop. It asks once more after a failure if `retries` allows it.
pub async fn play(
    script: &Script,
    messages: &mut Vec<Message>,
    prompt: &str,
    world: World<'_>,
    mut retries: usize,
) -> Played {
    messages.push(Message::User(vec![prompt.into()]));
    let mut played = Played::default();
    let mut made = 0;
    for _ in 0..ROUNDS {
        let (mut text, mut calls) = (String::new(), Vec::new());
        let mut reply = script.reply(Request { messages: messages.clone(), ..Request::default() });
        let end = loop {
            match timeout(Duration::from_hours(1), reply.next()).await {
                Err(_) => break "stalled".to_owned(),
                Ok(None) => break "cut".to_owned(),
                Ok(Some(Err(ModelError::Overflow))) => break "overflow".to_owned(),
                Ok(Some(Err(error))) => break format!("error {error}"),
                Ok(Some(Ok(event))) => {
                    played.events.push(event.clone());
                    match event {
                        Event::Text(piece) => text.push_str(&piece),
                        Event::Call(call) => calls.push(call),
                        Event::Finish(Finish::Done) => break "done".to_owned(),
                        Event::Finish(Finish::MaxTokens) => break "max_tokens".to_owned(),
                        Event::Finish(Finish::Refusal) => break "refusal".to_owned(),
                        Event::Report(Report::Stop(reason)) => break format!("stop {reason}"),
                        Event::Report(Report::Fail { code, message }) => break format!("fail {code} {message}"),
                        Event::Thought(_) | Event::Usage(_) | Event::Keep(_) | Event::Report(_) => {}
                    }
                }
            }
        };
        if end != "done" {
            if retries > 0 {
                retries -= 1;
                continue;
            }
            played.end = end;
            return played;
        }
        messages.push(Message::Assistant { text, thought: String::new(), calls: calls.clone(), kept: None });
        if calls.is_empty() {
            played.end = end;
            return played;
        }
        let results = calls.into_iter().map(|call| {
            let (text, is_error) = world(&call, made);
            made += 1;
            ToolResult { id: call.id, name: call.name, content: vec![text.into()], is_error }
        });
        messages.push(Message::Results(results.collect()));
    }
    played.end = "max_turn_requests".into();
    played
}

/// Tools that all work.
pub fn works(call: &ToolRequest, before: usize) -> (String, bool) {
    match call.name.as_str() {
        "run" if call.arguments.contains("test.sh") && before < 8 => ("1 failed: 2 + 3 is not 5".into(), true),
        "run" if call.arguments.contains("test.sh") => ("1 passed".into(), false),
        "run" if call.arguments.contains("background") => ("Started in the background, id bg-7.".into(), false),
        "run" => ("line 1\nline 2\nline 3\n".into(), false),
        "list" => ("README.md\nsrc/".into(), false),
        other => (format!("{other} done"), false),
    }
}

/// The text of a shipped scenario.
pub fn file(name: &str) -> String {
    let path = format!("{}/scenarios/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).expect("the scenario is there")
}
