//! The log of a session as clients are told it: each event of the journal becomes what is sent, with its position.

use crate::question::Posed;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use tieline::schema::{Chunk, Items, Message, MessageKind, Meta, Patch, Raw, Severity, StopReason, Update, data_field};
use tieline_client::journal::{NOTICE, OUTCOME, Outcome, Said};
use tieline_host::store::{Event, Stored};

/// The kinds of the events that a server adds to a session: a person is asked, is not asked any more, a prompt is taken in, prompts are
/// not sent.
pub(crate) const ASKED: &str = "asked";
pub(crate) const SETTLED: &str = "settled";
pub(crate) const ACCEPTED: &str = "accepted";
pub(crate) const DROPPED: &str = "dropped";

/// A place in the log: an event, and which of the updates that it became.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Position {
    pub(crate) seq: u64,
    part: u32,
}

impl Position {
    /// All of an event.
    pub(crate) fn behind(seq: u64) -> Self {
        Self { seq, part: u32::MAX }
    }

    /// The `_meta` that tells it, beside what is sent.
    pub(crate) fn meta(self) -> Meta {
        Meta(json!({ "tieline": { "event": self.to_string() } }).into())
    }

    /// The place behind which a client wants to go on, if it says one.
    pub(crate) fn wanted(meta: Option<&Meta>) -> Option<String> {
        let ours: Raw = data_field(&meta?.0, "tieline")?;
        data_field(&ours, "after")
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.part {
            u32::MAX => write!(f, "{}.end", self.seq),
            part => write!(f, "{}.{part}", self.seq),
        }
    }
}

impl FromStr for Position {
    type Err = ();

    /// What a transport counted behind a place (`12.0~3`) is no part of it.
    fn from_str(text: &str) -> Result<Self, ()> {
        let (seq, part) = text.split('~').next().and_then(|place| place.split_once('.')).ok_or(())?;
        let part = if part == "end" { u32::MAX } else { part.parse().map_err(drop)? };
        Ok(Self { seq: seq.parse().map_err(drop)?, part })
    }
}

/// A question of the log.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Question {
    /// Which run of the session it belongs to: the numbers begin anew with each.
    pub(crate) run: String,
    pub(crate) number: u64,
}

/// A question is answered, or not wanted any more.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Settled {
    #[serde(flatten)]
    pub(crate) question: Question,
    /// Older logs don't have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) answer: Option<Chosen>,
}

/// Who answered a permission question, and what.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Chosen {
    pub(crate) by: String,
    pub(crate) option: String,
    pub(crate) tool_call: String,
}

/// A person is asked: which question it is, and the whole of it, so that any node can put it. Older logs don't have that.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Asked {
    pub(crate) question: Question,
    pub(crate) posed: Posed,
}

/// Why a prompt is not sent that its client has withdrawn.
pub(crate) const WITHDRAWN: &str = "cancelled";

/// Prompts that are not sent, and why.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Dropped {
    pub(crate) prompts: Vec<String>,
    pub(crate) why: String,
}

/// The prompts that were taken in and neither begun nor dropped.
#[derive(Default)]
pub(crate) struct Pending(pub(crate) Vec<String>);

impl Pending {
    pub(crate) fn take(&mut self, event: &Event) {
        match event {
            Event::Prompt { message_id: Some(name), .. } => self.0.retain(|pending| pending != name),
            Event::Other { kind, body } if kind == ACCEPTED => self.0.extend(body.parse::<String>()),
            Event::Other { kind, body } if kind == DROPPED => {
                let gone = body.parse::<Dropped>().map(|dropped| dropped.prompts).unwrap_or_default();
                self.0.retain(|pending| !gone.contains(pending));
            }
            _ => {}
        }
    }
}

/// What an event means to a client.
pub(crate) enum Told {
    /// A prompt has begun its turn: its name, and its words for those who did not say them.
    Prompt(Option<String>, Update),
    /// Anything that the agent reported.
    Update(Update),
    /// A person is asked.
    Asked(Question, Arc<Posed>),
    /// A question is answered, or not wanted any more.
    Settled(Settled),
    Dropped(Dropped),
    Notice(Severity, String),
    /// The turn is over; in words if it failed.
    Ended(StopReason, Option<String>),
}

/// Reads a log from some place on. It begins where a turn does.
#[derive(Default)]
pub(crate) struct Teller {
    /// Who speaks in chunks that name no message, and the event with which that message began.
    run: Option<(MessageKind, u64)>,
    /// The agent may say the prompt back.
    echo: bool,
    failed: Option<String>,
}

impl Teller {
    /// What an event means, with the positions of its parts.
    pub(crate) fn take(&mut self, Stored { seq, turn, event, .. }: Stored) -> impl Iterator<Item = (Position, Told)> {
        let told = match event {
            Event::Prompt { message_id, content } => {
                (self.run, self.echo, self.failed) = (None, true, None);
                let id = message_id.clone().unwrap_or_else(|| format!("user-{seq}"));
                let content = Patch::Set(Items(content));
                let said = Message { kind: MessageKind::User, message_id: id, content, ..Message::default() };
                vec![Told::Prompt(message_id, said.into())]
            }
            Event::Update(update) => self.update(seq, turn, update).into_iter().map(Told::Update).collect(),
            Event::TurnEnd { stop, interrupted } => {
                self.run = None;
                let cut = interrupted.then(|| "the turn was cut off: the server that ran it is gone".to_owned());
                vec![Told::Ended(stop, self.failed.take().or(cut))]
            }
            Event::Other { kind, body } => self.other(&kind, &body).into_iter().collect(),
            _ => Vec::new(),
        };
        told.into_iter().zip(0..).map(move |(told, part)| (Position { seq, part }, told))
    }

    fn other(&mut self, kind: &str, body: &Raw) -> Option<Told> {
        match kind {
            ASKED => body.parse().ok().map(|Asked { question, posed }| Told::Asked(question, Arc::new(posed))),
            SETTLED => body.parse().ok().map(Told::Settled),
            DROPPED => body.parse().ok().map(Told::Dropped),
            NOTICE => {
                let Said { severity, text } = body.parse().ok()?;
                let severity = match &*severity {
                    "error" => Severity::Error,
                    "warning" => Severity::Warning,
                    _ => Severity::Info,
                };
                Some(Told::Notice(severity, text))
            }
            OUTCOME => {
                if let Ok(Outcome::Failed { message, .. }) = body.parse() {
                    let hint = data_field::<String>(body, "hint").map(|hint| format!(" ({hint})")).unwrap_or_default();
                    self.failed = Some(message + &hint);
                }
                None
            }
            _ => None,
        }
    }

    /// Messages get names that are theirs alone: agents use one again in the next turn, or have none.
    fn update(&mut self, seq: u64, turn: u64, update: Update) -> Vec<Update> {
        match update {
            // What the user said is told from the prompt; whose turn it is each client hears from its own line.
            Update::Chunk(Chunk { kind: MessageKind::User, .. })
            | Update::Message(Message { kind: MessageKind::User, .. })
                if self.echo =>
            {
                Vec::new()
            }
            Update::State(_) => Vec::new(),
            Update::Chunk(mut chunk) => {
                self.echo = false;
                chunk.message_id = Some(match chunk.message_id.take() {
                    Some(id) => {
                        self.run = None;
                        format!("{turn}.{id}")
                    }
                    None => {
                        let run = self.run.filter(|(kind, _)| *kind == chunk.kind).unwrap_or((chunk.kind, seq));
                        self.run = Some(run);
                        format!("{}-{}", who(run.0), run.1)
                    }
                });
                vec![Update::Chunk(chunk)]
            }
            Update::Message(mut message) => {
                (self.echo, self.run) = (false, None);
                message.message_id = format!("{turn}.{}", message.message_id);
                // One block each, so that a client which has some of them can have the rest.
                let mut rest = match &mut message.content {
                    Patch::Set(blocks) if blocks.len() > 1 => blocks.0.split_off(1),
                    _ => Vec::new(),
                };
                let (kind, id) = (message.kind, message.message_id.clone());
                let chunk = |content| Chunk { kind, message_id: Some(id.clone()), content, ..Chunk::default() };
                let rest: Vec<_> = rest.drain(..).map(|block| Update::Chunk(chunk(block))).collect();
                std::iter::once(Update::Message(message)).chain(rest).collect()
            }
            update => {
                if matches!(update, Update::ToolCall(_) | Update::ToolCallContent(_) | Update::Plan(_)) {
                    (self.echo, self.run) = (false, None);
                }
                vec![update]
            }
        }
    }
}

fn who(kind: MessageKind) -> &'static str {
    match kind {
        MessageKind::User => "user",
        MessageKind::Agent => "agent",
        MessageKind::Thought => "thought",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tieline::schema::{ContentBlock, ToolCallUpdate};
    use tieline_host::store::Time;

    fn tell(teller: &mut Teller, seq: u64, event: Event) -> Vec<String> {
        let stored = Stored { seq, turn: 1, time: Time::now(), event };
        let line = |(position, told): (Position, Told)| {
            let what = match told {
                Told::Update(Update::Chunk(chunk)) => {
                    format!("{} + {:?}", chunk.message_id.unwrap(), chunk.content.as_text())
                }
                Told::Update(Update::Message(message)) => format!("{} = {:?}", message.message_id, message.content),
                Told::Update(_) => "update".to_owned(),
                Told::Prompt(id, _) => format!("prompt {id:?}"),
                Told::Ended(stop, why) => format!("ended {stop} {why:?}"),
                _ => "other".to_owned(),
            };
            format!("{position} {what}")
        };
        teller.take(stored).map(line).collect()
    }

    #[test]
    fn positions_are_read_back() {
        for (text, position) in [
            ("12.0", Position { seq: 12, part: 0 }),
            ("12.3~7", Position { seq: 12, part: 3 }),
            ("0.end", Position::behind(0)),
        ] {
            assert_eq!(text.parse(), Ok(position));
            assert!(text.starts_with(&position.to_string()));
        }
        for text in ["", "12", "x.1", "1.x", "a1b2.7", "-1.0", "1.5000000000"] {
            assert!(text.parse::<Position>().is_err(), "{text}");
        }
    }

    #[test]
    fn messages_have_names_of_their_own_and_the_prompt_is_said_once() {
        let mut teller = Teller::default();
        let text = |kind, id: Option<&str>, text: &str| Event::Update(Update::text(kind, id.map(str::to_owned), text));
        let prompt = Event::Prompt { message_id: Some("m".into()), content: vec!["hello".into()] };
        assert_eq!(tell(&mut teller, 2, prompt), ["2.0 prompt Some(\"m\")"]);
        assert!(tell(&mut teller, 3, text(MessageKind::User, Some("x"), "hello")).is_empty());
        assert_eq!(tell(&mut teller, 4, text(MessageKind::Agent, None, "a")), ["4.0 agent-4 + Some(\"a\")"]);
        assert_eq!(tell(&mut teller, 5, text(MessageKind::Agent, None, "b")), ["5.0 agent-4 + Some(\"b\")"]);
        let call = Event::Update(ToolCallUpdate::new("c").into());
        assert_eq!(tell(&mut teller, 6, call), ["6.0 update"]);
        assert_eq!(tell(&mut teller, 7, text(MessageKind::Agent, None, "c")), ["7.0 agent-7 + Some(\"c\")"]);
        assert_eq!(tell(&mut teller, 8, text(MessageKind::Agent, Some("x"), "d")), ["8.0 1.x + Some(\"d\")"]);
        let blocks: Vec<ContentBlock> = vec!["one".into(), "two".into()];
        let whole = Message {
            kind: MessageKind::Agent,
            message_id: "y".into(),
            content: Patch::Set(Items(blocks)),
            ..Message::default()
        };
        let told = tell(&mut teller, 9, Event::Update(whole.into()));
        assert!(
            told.len() == 2 && told[0].starts_with("9.0 1.y = ") && told[1] == "9.1 1.y + Some(\"two\")",
            "{told:?}"
        );
        let end = Event::TurnEnd { stop: StopReason::EndTurn, interrupted: false };
        assert_eq!(tell(&mut teller, 10, end), ["10.0 ended end_turn None"]);
    }
}
