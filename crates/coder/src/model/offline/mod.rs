//! The offline agent: no language model, but slash commands and plain verbs that it really understands.
//!
//! It drives the same turn loop as a model on the network. It keeps no state: each answer plays the whole turn again
//! from the user's message, takes the tool results that are already there, and stops at the first one that is not. So it
//! also goes on after a session was loaded.

mod action;
mod memory;
pub(crate) mod parse;
mod player;
mod show;
mod words;
mod work;

pub(crate) use parse::Parse;

use super::{Event, Finish, Message, Model, Reply, Report, Request, ToolRequest, ToolResult, ways};
use memory::Memory;
use player::Player;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use tieline_script::Severity;

/// The id under which users choose it.
pub const ID: &str = "offline";

/// What is told at the start of a conversation, beside it.
const INTRO: &str = "This is Tieline's offline agent: no language model, but a fixed set of instructions. `/help` lists them; `tieline models` leads to a model.";

/// The model that is always there: it needs no key and no network.
#[derive(Debug, Clone, Copy, Default)]
pub struct Offline;

impl Offline {
    /// The interpreter. It has no settings.
    pub fn new() -> Self {
        Self
    }

    /// The whole answer at once, as [`Model::reply`] streams it.
    pub fn answer(&self, request: &Request) -> Vec<Event> {
        let messages = &request.messages;
        let start = messages.iter().rposition(|message| matches!(message, Message::User(_))).unwrap_or(0);
        let (before, turn) = messages.split_at(start);
        let (prompt, attached) = match turn.first() {
            Some(Message::User(blocks)) => memory::prompt(blocks),
            _ => (String::new(), None),
        };
        let mut memory = Memory::of(before);
        memory.file = attached.or(memory.file);
        let mut player = Player::new(&request.tools, turn.iter().flat_map(results));
        match parse::steps(&prompt, &memory) {
            Ok(steps) => work::all(&steps, &mut player),
            Err(why) => {
                player.say(&format!(
                    "{why} Nothing was done: I am no language model, and `/help` lists what I know. {}",
                    ways()
                ));
                player.refused = true;
            }
        }
        let mut events = Vec::new();
        // Who types a command knows whom they talk to.
        if before.is_empty() && turn.len() == 1 && !prompt.trim_start().starts_with('/') {
            events.push(Event::Report(Report::Notice { severity: Severity::Info, title: INTRO.to_owned() }));
        }
        if !player.said.is_empty() {
            events.push(Event::Text(player.said));
        }
        // While calls are open nothing is refused yet.
        let refused = player.refused && player.wanted.is_empty();
        // Another one for each conversation, so that ids of calls are not used twice.
        let mut print = DefaultHasher::new();
        format!("{messages:?}").hash(&mut print);
        for (number, (name, arguments)) in player.wanted.into_iter().enumerate() {
            let id = format!("offline-{:016x}-{number}", print.finish());
            events.push(Event::Call(ToolRequest { id, name: name.to_owned(), arguments: arguments.to_string() }));
        }
        events.push(Event::Finish(if refused { Finish::Refusal } else { Finish::Done }));
        events
    }
}

impl Model for Offline {
    fn id(&self) -> &'static str {
        ID
    }

    fn name(&self) -> &'static str {
        "Offline (no language model)"
    }

    fn reply(&self, request: Request) -> Reply {
        Reply::of(self.answer(&request).into_iter().map(Ok).collect())
    }
}

fn results(message: &Message) -> &[ToolResult] {
    match message {
        Message::Results(results) => results,
        _ => &[],
    }
}
