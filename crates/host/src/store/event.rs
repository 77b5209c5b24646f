//! Events: what is written down of a session, one row each, with a checksum of its own.

use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;
use tieline_json::{Error as JsonError, Raw};
use tieline_schema::{
    Chunk, ContentBlock, Decode, Dialect, Encode, Patch, StopReason, TerminalOutputChunk, ToolCallUpdate, Update,
    from_base64, from_json, to_base64, to_json,
};

use super::Time;

/// One thing that happened in a session.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
// Nearly all events are updates, so a box would not save anything.
#[allow(clippy::large_enum_variant)]
pub enum Event {
    /// A turn begins.
    TurnBegin,
    /// What the user said.
    Prompt {
        /// The id of the message, if it has one.
        message_id: Option<String>,
        /// What was said.
        content: Vec<ContentBlock>,
    },
    /// What the agent reported. Kept in the form of current v2.
    Update(Update),
    /// A message to or from the model, in the form of whoever writes it.
    Model(Raw),
    /// What a tool gave back, in the form of whoever writes it.
    ToolResult {
        /// Which call.
        tool_call_id: String,
        /// What it gave back.
        result: Raw,
    },
    /// What was decided about a call. To be written before the tool starts.
    Permission {
        /// Which call.
        tool_call_id: String,
        /// What was decided, in the form of whoever writes it.
        decision: Raw,
    },
    /// A turn ended.
    TurnEnd {
        /// Why.
        stop: StopReason,
        /// True if nobody was left to end it: it was found unfinished when the session was opened.
        interrupted: bool,
    },
    /// Anything else, under a name of its own; the names of the kinds above are taken. Also what a newer Tieline wrote
    /// under one of those names and this one can't read.
    Other {
        /// Its name.
        kind: String,
        /// What it holds.
        body: Raw,
    },
}

/// An event as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Stored {
    /// Its place in the session, counted from 1 without gaps.
    pub seq: u64,
    /// The turn it belongs to; 0 before the first.
    pub turn: u64,
    /// When it was stored.
    pub time: Time,
    /// What happened.
    pub event: Event,
}

const KINDS: [&str; 7] = ["turn_begin", "prompt", "update", "model", "tool_result", "permission", "turn_end"];

/// Rows of streamed text are not made longer than this.
const LONGEST: usize = 64 << 10;
/// The same for terminal output, which has to be coded anew with each piece.
const LONGEST_OUTPUT: usize = 8 << 10;

impl Event {
    /// A prompt of plain text.
    pub fn prompt(text: impl Into<String>) -> Self {
        Self::Prompt { message_id: None, content: vec![text.into().into()] }
    }

    /// The name of its kind.
    pub fn kind(&self) -> &str {
        match self {
            Self::TurnBegin => "turn_begin",
            Self::Prompt { .. } => "prompt",
            Self::Update(_) => "update",
            Self::Model(_) => "model",
            Self::ToolResult { .. } => "tool_result",
            Self::Permission { .. } => "permission",
            Self::TurnEnd { .. } => "turn_end",
            Self::Other { kind, .. } => kind,
        }
    }

    /// What it holds, as JSON.
    pub fn body(&self) -> String {
        match self {
            Self::TurnBegin => "{}".to_owned(),
            Self::Prompt { message_id, content } => {
                let id = message_id.as_ref().map(|id| format!("\"messageId\":{},", json(id))).unwrap_or_default();
                format!("{{{id}\"prompt\":{}}}", json(content))
            }
            Self::Update(update) => json(update),
            Self::Model(body) | Self::Other { body, .. } => body.get().to_owned(),
            Self::ToolResult { tool_call_id, result } => {
                format!("{{\"toolCallId\":{},\"result\":{result}}}", json(tool_call_id))
            }
            Self::Permission { tool_call_id, decision } => {
                format!("{{\"toolCallId\":{},\"decision\":{decision}}}", json(tool_call_id))
            }
            Self::TurnEnd { stop, interrupted } => {
                let interrupted = if *interrupted { ",\"interrupted\":true" } else { "" };
                format!("{{\"stopReason\":{}{interrupted}}}", json(stop))
            }
        }
    }

    /// Reads an event back. What can't be read is kept as it is.
    pub fn read(kind: &str, body: &str) -> Self {
        Self::try_read(kind, body).unwrap_or_else(|_| {
            // Text that is no JSON is kept as a JSON string.
            let body = Raw::new(body).unwrap_or_else(|_| Raw::from(Value::from(body)));
            Self::Other { kind: kind.to_owned(), body }
        })
    }

    /// True if the name says what the event is.
    pub(super) fn is_named_well(&self) -> bool {
        !matches!(self, Self::Other { kind, .. } if KINDS.contains(&kind.as_str()))
    }

    fn try_read(kind: &str, body: &str) -> Result<Self, JsonError> {
        let fields: Fields = match kind {
            "prompt" | "tool_result" | "permission" | "turn_end" => serde_json::from_str(body).unwrap_or_default(),
            _ => Fields::new(),
        };
        let raw = |name: &str| fields.get(name).cloned().ok_or_else(|| JsonError::missing(name));
        Ok(match kind {
            "turn_begin" => Self::TurnBegin,
            "prompt" => {
                Self::Prompt { message_id: optional(&fields, "messageId")?, content: from_json(raw("prompt")?.get())? }
            }
            "update" => Self::Update(from_json(body)?),
            "model" => Self::Model(Raw::new(body)?),
            "tool_result" => {
                Self::ToolResult { tool_call_id: from_json(raw("toolCallId")?.get())?, result: raw("result")? }
            }
            "permission" => {
                Self::Permission { tool_call_id: from_json(raw("toolCallId")?.get())?, decision: raw("decision")? }
            }
            "turn_end" => Self::TurnEnd {
                stop: from_json(raw("stopReason")?.get())?,
                interrupted: optional(&fields, "interrupted")?.unwrap_or(false),
            },
            other => Self::Other { kind: other.to_owned(), body: Raw::new(body)? },
        })
    }

    /// The event with its body.
    pub(super) fn with_body(self) -> (Self, String) {
        let body = self.body();
        (self, body)
    }
}

type Fields = BTreeMap<String, Raw>;

fn json(value: &impl Encode) -> String {
    to_json(value, Dialect::V2)
}

fn optional<T: Decode>(fields: &Fields, name: &str) -> Result<Option<T>, JsonError> {
    fields.get(name).filter(|raw| !raw.is_null()).map(|raw| from_json(raw.get())).transpose()
}

/// The checksum of a row. Its place is part of it, so that a row can't pass for another.
pub(super) fn checksum(seq: i64, turn: i64, kind: &str, body: &str) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&seq.to_le_bytes());
    crc.update(&turn.to_le_bytes());
    crc.update(kind.as_bytes());
    crc.update(&[0]);
    crc.update(body.as_bytes());
    crc.finalize()
}

/// How many bytes an update takes, roughly; exact for what comes in floods.
pub(super) fn weight(update: &Update) -> usize {
    match update {
        Update::Chunk(Chunk { content: ContentBlock::Text(text), .. }) => text.text.len(),
        Update::TerminalOutput(chunk) => chunk.data.len(),
        other => json(other).len(),
    }
}

/// Joins `more` to `last` if one row can say both and a reader can't tell. Otherwise gives it back.
pub(super) fn join(last: &mut Update, more: Update) -> Option<Update> {
    match (last, &more) {
        (Update::Chunk(last), Update::Chunk(next)) if can_join(last, next) => {
            if let (ContentBlock::Text(text), ContentBlock::Text(more)) = (&mut last.content, &next.content) {
                text.text.push_str(&more.text);
            }
            None
        }
        (Update::TerminalOutput(last), Update::TerminalOutput(next)) if same_terminal(last, next) => {
            let (Some(mut bytes), Some(tail)) = (from_base64(&last.data), from_base64(&next.data)) else {
                return Some(more);
            };
            bytes.extend_from_slice(&tail);
            last.data = to_base64(&bytes);
            None
        }
        _ => Some(more),
    }
}

fn can_join(last: &Chunk, next: &Chunk) -> bool {
    let plain = |chunk: &Chunk| match &chunk.content {
        ContentBlock::Text(text) => text.annotations.is_none() && text.meta.is_none() && chunk.meta.is_none(),
        _ => false,
    };
    let short = last.content.as_text().is_some_and(|text| text.len() < LONGEST);
    short && last.kind == next.kind && last.message_id == next.message_id && plain(last) && plain(next)
}

fn same_terminal(last: &TerminalOutputChunk, next: &TerminalOutputChunk) -> bool {
    last.terminal_id == next.terminal_id
        && last.meta.is_none()
        && next.meta.is_none()
        && last.data.len() < LONGEST_OUTPUT
}

/// The text of what was said, for the search.
pub(super) fn said(update: &Update) -> Option<(Option<&str>, Cow<'_, str>)> {
    use tieline_schema::MessageKind::{Agent, User};
    match update {
        Update::Chunk(chunk) if matches!(chunk.kind, Agent | User) => {
            Some((chunk.message_id.as_deref(), chunk.content.as_text()?.into()))
        }
        Update::Message(message) if matches!(message.kind, Agent | User) => match &message.content {
            Patch::Set(items) => Some((Some(&message.message_id), text_of(&items.0).into())),
            _ => None,
        },
        Update::ToolCall(call) => Some((Some(&call.tool_call_id), done(call).into())),
        Update::ToolCallContent(chunk) => Some((Some(&chunk.tool_call_id), chunk.content.as_text()?.into())),
        Update::Terminal(terminal) => {
            let output = terminal.output.set().and_then(|output| from_base64(&output.data)).unwrap_or_default();
            let command = terminal.command.set().map(String::as_str).unwrap_or_default();
            Some((Some(&terminal.terminal_id), format!("{command}\n{}", String::from_utf8_lossy(&output)).into()))
        }
        Update::TerminalOutput(chunk) => {
            let bytes = from_base64(&chunk.data)?;
            Some((Some(&chunk.terminal_id), String::from_utf8_lossy(&bytes).into_owned().into()))
        }
        _ => None,
    }
}

/// What a tool call says of itself: its title, its files, what it was given and what it brought, a line each.
fn done(call: &ToolCallUpdate) -> String {
    let title = call.title.set().into_iter().cloned();
    let files = call.locations.set().into_iter().flat_map(|list| list.iter().map(|location| location.path.clone()));
    let input = call.raw_input.set().into_iter().map(|input| input.get().to_owned());
    let content = call.content.set().into_iter().flat_map(|list| list.iter());
    let content = content.filter_map(|content| content.as_text().map(str::to_owned));
    title.chain(files).chain(input).chain(content).map(|line| line + "\n").collect()
}

/// All text of some blocks, a line each.
pub(super) fn text_of(blocks: &[ContentBlock]) -> String {
    blocks.iter().filter_map(ContentBlock::as_text).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tieline_schema::Message;
    use tieline_schema::MessageKind::{Agent, Thought};

    #[test]
    fn what_is_joined() {
        let text = |kind, id: &str, text: &str| Update::text(kind, Some(id.to_owned()), text);
        let output = |id: &str, bytes: &[u8]| {
            Update::TerminalOutput(TerminalOutputChunk {
                terminal_id: id.into(),
                data: to_base64(bytes),
                ..Default::default()
            })
        };
        let long = "x".repeat(LONGEST);
        for (last, more, want) in [
            (text(Agent, "1", "a"), text(Agent, "1", "b"), Some(text(Agent, "1", "ab"))),
            (text(Agent, "1", "a"), text(Agent, "2", "b"), None),
            (text(Agent, "1", "a"), text(Thought, "1", "b"), None),
            (text(Agent, "1", &long), text(Agent, "1", "b"), None),
            (Update::text(Agent, None, "a"), Update::text(Agent, None, "b"), Some(Update::text(Agent, None, "ab"))),
            (text(Agent, "1", "a"), Update::Message(Message::default()), None),
            (output("t", b"a"), output("t", b"bc"), Some(output("t", b"abc"))),
            (output("t", b"a"), output("u", b"b"), None),
            (output("t", &[7; LONGEST_OUTPUT]), output("t", b"b"), None),
        ] {
            let mut joined = last.clone();
            match (join(&mut joined, more.clone()), want) {
                (None, Some(want)) => assert_eq!(joined, want),
                (Some(rest), None) => assert_eq!((joined, rest), (last, more)),
                (rest, want) => panic!("{last:?} {more:?}: {rest:?}, not {want:?}"),
            }
        }
    }

    #[test]
    fn what_cannot_be_read_is_kept() {
        for (kind, body, kept) in [
            ("update", r#"{"new":"shape"}"#, r#"{"new":"shape"}"#),
            ("turn_end", "{}", "{}"),
            ("tool_result", r#"{"toolCallId":"x"}"#, r#"{"toolCallId":"x"}"#),
            ("later", "[1]", "[1]"),
            ("model", "not \"JSON", r#""not \"JSON""#),
        ] {
            let event = Event::read(kind, body);
            assert_eq!(event, Event::Other { kind: kind.to_owned(), body: Raw::new(kept).unwrap() });
        }
    }

    #[test]
    fn a_row_cannot_pass_for_another() {
        let sum = checksum(7, 2, "update", "{}");
        for other in [(8, 2, "update", "{}"), (7, 3, "update", "{}"), (7, 2, "updat", "e{}"), (7, 2, "update", "[]")] {
            assert_ne!(checksum(other.0, other.1, other.2, other.3), sum);
        }
    }
}
