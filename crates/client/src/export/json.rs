//! A session as JSON.

use super::{Brought, brought, text_of};
use crate::journal::{Entry, Note, Story, TurnStory};
use serde_json::{Value, json};
use tieline::schema::{Dialect, Item, MessageKind, Raw, to_json};
use tieline_host::store::State;

pub(super) fn write(story: &Story) -> String {
    super::json_text(&self::story(story)) + "\n"
}

pub(super) fn entry(entry: &Entry) -> Value {
    json!({
        "id": &*entry.id,
        "agent": entry.agent,
        "agentSession": entry.agent_session,
        "cwd": entry.cwd,
        "directories": entry.directories,
        "name": entry.name(),
        "title": entry.title,
        "protocol": entry.protocol.map(Dialect::name),
        "created": entry.created.to_string(),
        "updated": entry.updated.to_string(),
        "turns": entry.turns,
        "bytes": entry.bytes,
        "state": match entry.state {
            State::Idle => "idle",
            State::Running => "running",
            State::Interrupted => "interrupted",
        },
        "openIn": entry.holder.as_ref().map(ToString::to_string),
    })
}

pub(super) fn story(story: &Story) -> Value {
    let mut value = entry(&story.entry);
    value["damage"] = json!(story.damage);
    value["turnList"] = story.turns.iter().map(|turn| self::turn(story, turn)).collect();
    value
}

fn turn(story: &Story, turn: &TurnStory) -> Value {
    let notes = turn.notes.iter().map(|(_, note)| match note {
        Note::Decision(decision) => {
            let mut value = serde_json::to_value(decision).unwrap_or_default();
            value["type"] = "decision".into();
            value["toolCallId"] = decision.tool_call_id.clone().into();
            value
        }
        Note::Said(said) => json!({"type": "notice", "severity": said.severity, "text": said.text}),
        Note::Other(kind, body) => json!({"type": kind, "body": raw(Some(body))}),
    });
    json!({
        "turn": turn.number,
        "began": turn.began.to_string(),
        "ended": turn.ended.map(|time| time.to_string()),
        "prompt": blocks(&turn.prompt),
        "items": story.items(turn).iter().map(|one| item(story, one)).collect::<Vec<_>>(),
        "notes": notes.collect::<Vec<_>>(),
        "changes": turn.changes,
        "outcome": turn.outcome,
        "stopReason": turn.stop.as_ref().map(ToString::to_string),
        "interrupted": turn.interrupted,
    })
}

fn blocks(blocks: &[tieline::ContentBlock]) -> Value {
    blocks.iter().map(|block| serde_json::from_str::<Value>(&to_json(block, Dialect::V2)).unwrap_or_default()).collect()
}

fn raw(raw: Option<&Raw>) -> Value {
    raw.map_or(Value::Null, Value::from)
}

fn item(story: &Story, item: &Item) -> Value {
    match item {
        Item::Message(message) => json!({
            "type": "message",
            "from": match message.kind {
                MessageKind::User => "user",
                MessageKind::Agent => "agent",
                MessageKind::Thought => "thought",
            },
            "text": text_of(&message.content),
            "content": blocks(&message.content),
        }),
        Item::ToolCall(call) => json!({
            "type": "tool_call",
            "id": call.id,
            "title": call.title,
            "name": call.name,
            "kind": call.kind.to_string(),
            "status": call.status.to_string(),
            "locations": call.locations.iter().map(|location| json!({"path": location.path, "line": location.line})).collect::<Vec<_>>(),
            "input": raw(call.raw_input.as_ref()),
            "output": raw(call.raw_output.as_ref()),
            "content": brought(story, call, false).into_iter().map(|piece| match piece {
                Brought::Text(text) => json!({"type": "text", "text": text}),
                Brought::Diff(text) => json!({"type": "diff", "diff": text}),
            }).collect::<Vec<_>>(),
        }),
        Item::Compaction(compaction) => json!({"type": "compaction", "id": compaction.id}),
        Item::Other(unknown) => json!({"type": "other", "kind": unknown.tag}),
    }
}
