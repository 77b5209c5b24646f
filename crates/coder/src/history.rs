//! The conversation as the model sees it: how it is written down, read back, mended and shortened.

use crate::model::{Message, ToolRequest, ToolResult};
use serde::{Deserialize, Serialize};
use tieline::schema::{Dialect, ResourceContents, from_json, to_json};
use tieline::{ContentBlock, Raw};
use tieline_host::store::{Event, Stored};
pub use tieline_host::text::cut_line as cut;

/// The name under which a compaction is stored.
const COMPACTION: &str = "compaction";
/// A result that is longer, in bytes, is cut when the conversation does not fit.
const LONG: usize = 8 * 1024;

#[derive(Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "lowercase")]
enum Line {
    /// Without content: what the user said last.
    User {
        content: Option<Vec<Raw>>,
    },
    Assistant {
        text: String,
        thought: String,
        calls: Vec<ToolRequest>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kept: Option<Raw>,
    },
    Results {
        results: Vec<LineResult>,
    },
}

#[derive(Serialize, Deserialize)]
struct LineResult {
    id: String,
    name: String,
    content: Vec<Raw>,
    is_error: bool,
}

fn write(blocks: &[ContentBlock]) -> Vec<Raw> {
    blocks.iter().filter_map(|block| Raw::new(to_json(block, Dialect::V2)).ok()).collect()
}

fn read(blocks: Vec<Raw>) -> Vec<ContentBlock> {
    blocks.iter().filter_map(|raw| from_json(raw.get()).ok()).collect()
}

/// The user's message as an event; `same` if it is just what the prompt said.
pub fn user_event(content: &[ContentBlock], same: bool) -> Vec<Event> {
    let content = (!same).then(|| write(content));
    Raw::of(&Line::User { content }).map(Event::Model).into_iter().collect()
}

/// A message as an event.
pub fn event(message: &Message) -> Vec<Event> {
    let line = match message {
        Message::User(content) => Line::User { content: Some(write(content)) },
        Message::Assistant { text, thought, calls, kept } => {
            Line::Assistant { text: text.clone(), thought: thought.clone(), calls: calls.clone(), kept: kept.clone() }
        }
        Message::Results(results) => {
            let result = |result: &ToolResult| LineResult {
                id: result.id.clone(),
                name: result.name.clone(),
                content: write(&result.content),
                is_error: result.is_error,
            };
            Line::Results { results: results.iter().map(result).collect() }
        }
    };
    Raw::of(&line).map(Event::Model).into_iter().collect()
}

/// The event that says that all messages before are replaced by a summary and the last `kept` ones, and what was cut.
pub fn compaction_event(summary: Option<&str>, kept: usize, cut: Cut) -> Vec<Event> {
    let (trimmed, prompts) = (cut != Cut::Nothing, cut == Cut::Everything);
    let body = serde_json::json!({ "summary": summary, "kept": kept, "trimmed": trimmed, "prompts": prompts });
    vec![Event::Other { kind: COMPACTION.into(), body: body.into() }]
}

/// Takes one stored event into the conversation. `prompt` is what the user said last.
pub fn take(messages: &mut Vec<Message>, prompt: &mut Vec<ContentBlock>, stored: &Stored) {
    match &stored.event {
        Event::Prompt { content, .. } => prompt.clone_from(content),
        Event::Model(raw) => match raw.parse() {
            Ok(Line::User { content }) => {
                mend(messages);
                messages.push(Message::User(content.map_or_else(|| prompt.clone(), read)));
            }
            Ok(Line::Assistant { text, thought, calls, kept }) => {
                messages.push(Message::Assistant { text, thought, calls, kept });
            }
            Ok(Line::Results { results }) => {
                let result = |line: LineResult| ToolResult {
                    id: line.id,
                    name: line.name,
                    content: read(line.content),
                    is_error: line.is_error,
                };
                messages.push(Message::Results(results.into_iter().map(result).collect()));
            }
            Err(error) => tracing::warn!(%error, "a stored message can't be read"),
        },
        Event::Other { kind, body } if kind == COMPACTION => {
            let body: serde_json::Value = body.parse().unwrap_or_default();
            let kept = body["kept"].as_u64().and_then(|kept| usize::try_from(kept).ok()).unwrap_or(0);
            if let Some(summary) = body["summary"].as_str() {
                replace(messages, summary, kept);
            }
            match (body["trimmed"] == true, body["prompts"] == true) {
                (_, true) => trim(messages, Cut::Everything),
                (trimmed, _) => trimmed && trim(messages, Cut::Results),
            };
        }
        _ => {}
    }
}

/// Gives calls that were cut off a result, so that each call has one.
pub fn mend(messages: &mut Vec<Message>) -> Option<&Message> {
    let Some(Message::Assistant { calls, .. }) = messages.last() else { return None };
    if calls.is_empty() {
        return None;
    }
    let result = |call: &ToolRequest| ToolResult {
        id: call.id.clone(),
        name: call.name.clone(),
        content: vec!["Cancelled by the user. It may have been done in part; look before you rely on it.".into()],
        is_error: true,
    };
    let results = calls.iter().map(result).collect();
    messages.push(Message::Results(results));
    messages.last()
}

/// How many tokens a conversation takes, roughly: four bytes each.
pub fn tokens(messages: &[Message]) -> u64 {
    let blocks = |blocks: &[ContentBlock]| blocks.iter().map(|block| text_of(block).len()).sum::<usize>();
    let bytes: usize = messages
        .iter()
        .map(|message| match message {
            Message::User(content) => blocks(content),
            Message::Assistant { text, thought, calls, .. } => {
                text.len() + thought.len() + calls.iter().map(|call| call.arguments.len() + 16).sum::<usize>()
            }
            Message::Results(results) => results.iter().map(|result| blocks(&result.content)).sum(),
        })
        .sum();
    bytes as u64 / 4
}

/// The text of a block, or what stands for it.
pub fn text_of(block: &ContentBlock) -> &str {
    match block {
        ContentBlock::Text(text) => &text.text,
        ContentBlock::ResourceLink(link) => &link.uri,
        ContentBlock::Resource(resource) => match &resource.resource {
            ResourceContents::Text(text) => &text.text,
            ResourceContents::Blob(blob) => &blob.uri,
        },
        _ => "",
    }
}

/// Puts a summary in place of all but the last messages.
pub fn replace(messages: &mut Vec<Message>, summary: &str, kept: usize) {
    let start = messages.len().saturating_sub(kept);
    let summary = Message::User(vec![summary.into()]);
    // The sides take turns, and the model has the last word in no request.
    if !matches!(messages.get(start), Some(Message::User(_))) {
        messages.splice(..start, [summary]);
        return;
    }
    let noted = Message::Assistant { text: "Noted.".into(), thought: String::new(), calls: Vec::new(), kept: None };
    messages.splice(..start, [summary, noted]);
}

/// What may be cut to make room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// Nothing.
    Nothing,
    /// Long results of tools.
    Results,
    /// What the user said, too.
    Everything,
}

/// Cuts the middle out of long texts and drops pictures. False if there was nothing to cut.
pub fn trim(messages: &mut [Message], cut: Cut) -> bool {
    let mut done = false;
    for message in messages {
        match message {
            Message::Results(results) if cut != Cut::Nothing => {
                for block in results.iter_mut().flat_map(|result| &mut result.content) {
                    done |= trim_block(block);
                }
            }
            Message::User(blocks) if cut == Cut::Everything => {
                for block in blocks {
                    done |= trim_block(block);
                }
            }
            _ => {}
        }
    }
    done
}

fn trim_block(block: &mut ContentBlock) -> bool {
    let text = match block {
        ContentBlock::Text(text) => &mut text.text,
        ContentBlock::Resource(resource) => match &mut resource.resource {
            ResourceContents::Text(file) => &mut file.text,
            ResourceContents::Blob(_) => return false,
        },
        ContentBlock::Image(_) => {
            *block = "(a picture that did not fit)".into();
            return true;
        }
        _ => return false,
    };
    let long = text.len() > LONG;
    if long {
        *text = middle_cut(text);
    }
    long
}

fn middle_cut(text: &str) -> String {
    let (mut head, mut tail) = (LONG / 2, text.len() - LONG / 4);
    while !text.is_char_boundary(head) {
        head -= 1;
    }
    while !text.is_char_boundary(tail) {
        tail += 1;
    }
    format!("{}\n(… cut to fit …)\n{}", &text[..head], &text[tail..])
}
