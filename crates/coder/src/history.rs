//! The conversation as the model sees it: how it is written down, read back, mended and shortened.

use crate::model::{Message, ToolRequest, ToolResult};
use serde::{Deserialize, Serialize};
use tieline::schema::{Dialect, ResourceContents, from_json, to_json};
use tieline::{ContentBlock, Raw};
use tieline_host::store::Event;
pub use tieline_host::text::cut_line as cut;

/// The name under which a compaction is stored.
const COMPACTION: &str = "compaction";
/// A result that is longer, in bytes, is cut when the conversation does not fit.
const MAX_KEPT_BYTES: usize = 8 * 1024;

/// The name under which it is stored that a prompt was taken back.
const TAKEN_BACK: &str = "taken_back";
/// What a call is told to have given that was cut off.
const CUT_OFF: &str = "Not finished: the turn ended before. It may have been done in part; look before you rely on it.";

/// A message as it is stored. One flat record, because raw JSON can't be read inside an enum with a tag.
#[derive(Default, Serialize, Deserialize)]
struct Line {
    role: Role,
    /// What the user said; absent if it is just what the prompt said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    content: Option<Vec<Raw>>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    text: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    thought: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    calls: Vec<ToolRequest>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kept: Option<Raw>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    results: Vec<ToolResult>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Role {
    #[default]
    User,
    Assistant,
    Results,
}

impl Line {
    fn store(&self) -> Result<Raw, Unusable> {
        Raw::of(self).map_err(unusable)
    }
}

/// A message that can't be written down or read back, and why. Going on without it would be going on with another conversation.
#[derive(Debug, thiserror::Error)]
#[error(
    "a message of this session can't be used: {0}. Begin a new session; `tieline sessions show` still shows this one to you"
)]
pub struct Unusable(String);

impl From<Unusable> for tieline::Error {
    fn from(error: Unusable) -> Self {
        Self::wire(-32603, error.to_string())
    }
}

fn unusable(error: impl std::fmt::Display) -> Unusable {
    Unusable(error.to_string())
}

fn write(blocks: &[ContentBlock]) -> Result<Vec<Raw>, Unusable> {
    blocks.iter().map(|block| Raw::new(to_json(block, Dialect::V2)).map_err(unusable)).collect()
}

fn read(blocks: &[Raw]) -> Result<Vec<ContentBlock>, Unusable> {
    blocks.iter().map(|raw| from_json(raw.get()).map_err(unusable)).collect()
}

/// The content of a result as it is stored.
pub mod blocks {
    use super::{ContentBlock, Raw, read, write};
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};

    pub fn serialize<S: Serializer>(blocks: &[ContentBlock], to: S) -> Result<S::Ok, S::Error> {
        write(blocks).map_err(ser::Error::custom)?.serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<ContentBlock>, D::Error> {
        read(&Vec::<Raw>::deserialize(from)?).map_err(de::Error::custom)
    }
}

/// The user's message as an event; `same` if it is just what the prompt said.
pub fn user_event(content: &[ContentBlock], same: bool) -> Result<Event, Unusable> {
    let content = if same { None } else { Some(write(content)?) };
    Line { content, ..Line::default() }.store().map(Event::Model)
}

/// A message as an event.
pub fn event(message: &Message) -> Result<Event, Unusable> {
    line(message)?.store().map(Event::Model)
}

fn line(message: &Message) -> Result<Line, Unusable> {
    Ok(match message {
        Message::User(content) => Line { content: Some(write(content)?), ..Line::default() },
        Message::Assistant { text, thought, calls, kept } => {
            let (text, thought, calls, kept) = (text.clone(), thought.clone(), calls.clone(), kept.clone());
            Line { role: Role::Assistant, text, thought, calls, kept, ..Line::default() }
        }
        Message::Results(results) => Line { role: Role::Results, results: results.clone(), ..Line::default() },
    })
}

/// One result of a tool as an event, written down before the others are there.
pub fn result_event(tool_call_id: &str, result: &ToolResult) -> Result<Event, Unusable> {
    let result = line(&Message::Results(vec![result.clone()]))?.store()?;
    Ok(Event::ToolResult { tool_call_id: tool_call_id.to_owned(), result })
}

/// The event that says that all messages before are replaced by a summary and the last `kept` ones, and what was cut.
pub fn compaction_event(summary: Option<&str>, kept: usize, cut: Cut) -> Event {
    let (trimmed, prompts) = (cut != Cut::Nothing, cut == Cut::Everything);
    let body = serde_json::json!({ "summary": summary, "kept": kept, "trimmed": trimmed, "prompts": prompts });
    Event::Other { kind: COMPACTION.into(), body: body.into() }
}

/// Takes the last prompt out of the conversation if nothing followed it; the event that says so.
pub fn take_back(messages: &mut Vec<Message>) -> Option<Event> {
    messages.pop_if(|last| matches!(last, Message::User(_)))?;
    Some(Event::Other { kind: TAKEN_BACK.into(), body: serde_json::json!({}).into() })
}

/// A conversation that is read back, event by event.
#[derive(Default)]
pub struct History {
    messages: Vec<Message>,
    /// What the user said last.
    prompt: Vec<ContentBlock>,
    /// Results of the calls that are open.
    done: Vec<ToolResult>,
}

impl History {
    /// Takes the next event in.
    pub fn take(&mut self, event: &Event) -> Result<(), Unusable> {
        match event {
            Event::Prompt { content, .. } => self.prompt.clone_from(content),
            Event::Model(raw) => self.message(raw)?,
            Event::ToolResult { result, .. } => self.done.extend(parse(result)?.results),
            Event::Other { kind, .. } if kind == TAKEN_BACK => drop(take_back(&mut self.messages)),
            Event::Other { kind, body } if kind == COMPACTION => {
                let body: serde_json::Value = body.parse().map_err(unusable)?;
                let kept = body["kept"].as_u64().and_then(|kept| usize::try_from(kept).ok()).unwrap_or(0);
                if let Some(summary) = body["summary"].as_str() {
                    replace(&mut self.messages, summary, kept);
                }
                match (body["trimmed"] == true, body["prompts"] == true) {
                    (_, true) => trim(&mut self.messages, Cut::Everything),
                    (trimmed, _) => trimmed && trim(&mut self.messages, Cut::Results),
                };
            }
            _ => {}
        }
        Ok(())
    }

    fn message(&mut self, raw: &Raw) -> Result<(), Unusable> {
        let line = parse(raw)?;
        let message = match line.role {
            Role::User => {
                mend(&mut self.messages, std::mem::take(&mut self.done));
                let said = line.content.as_deref().map(read).transpose()?;
                Message::User(said.unwrap_or_else(|| self.prompt.clone()))
            }
            Role::Assistant => {
                Message::Assistant { text: line.text, thought: line.thought, calls: line.calls, kept: line.kept }
            }
            Role::Results => Message::Results(line.results),
        };
        self.done.clear();
        self.messages.push(message);
        Ok(())
    }

    /// The conversation, fit to go on with: each call has its result.
    pub fn end(mut self) -> Vec<Message> {
        mend(&mut self.messages, self.done);
        self.messages
    }
}

fn parse(raw: &Raw) -> Result<Line, Unusable> {
    raw.parse().map_err(unusable)
}

/// Gives calls that were cut off a result, so that each call has one: what is known of it, or that nothing is.
pub fn mend(messages: &mut Vec<Message>, mut done: Vec<ToolResult>) -> Option<&Message> {
    let Some(Message::Assistant { calls, .. }) = messages.last() else { return None };
    if calls.is_empty() {
        return None;
    }
    let result = |call: &ToolRequest| {
        // An id may come twice, so each result is used once.
        let known = done.iter().position(|result| result.id == call.id);
        match known {
            Some(at) => done.remove(at),
            None => ToolResult {
                id: call.id.clone(),
                name: call.name.clone(),
                content: vec![CUT_OFF.into()],
                is_error: true,
            },
        }
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
    let blocks = messages.iter_mut().flat_map(|message| match message {
        Message::Results(results) if cut != Cut::Nothing => {
            results.iter_mut().flat_map(|result| &mut result.content).collect()
        }
        Message::User(blocks) if cut == Cut::Everything => blocks.iter_mut().collect(),
        _ => Vec::new(),
    });
    blocks.map(trim_block).fold(false, |done, now| done | now)
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
    let long = text.len() > MAX_KEPT_BYTES;
    if long {
        *text = middle_cut(text);
    }
    long
}

fn middle_cut(text: &str) -> String {
    let head = text.floor_char_boundary(MAX_KEPT_BYTES / 2);
    let tail = text.ceil_char_boundary(text.len() - MAX_KEPT_BYTES / 4);
    format!("{}\n(… cut to fit …)\n{}", &text[..head], &text[tail..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn call(id: &str) -> ToolRequest {
        ToolRequest { id: id.into(), name: "read".into(), arguments: "{}".into() }
    }

    fn result(id: &str, text: &str) -> ToolResult {
        ToolResult { id: id.into(), name: "read".into(), content: vec![text.into()], is_error: false }
    }

    fn said(calls: Vec<ToolRequest>) -> Message {
        let kept = Some(json!({"by": "m", "data": [{"own": {"signature": "s", "n": 1.50}}]}).into());
        Message::Assistant { text: "t".into(), thought: "h".into(), calls, kept }
    }

    fn read_back(events: &[Event]) -> Result<Vec<Message>, Unusable> {
        let mut history = History::default();
        for event in events {
            history.take(event)?;
        }
        Ok(history.end())
    }

    #[test]
    fn every_shape_is_read_back_as_it_was() {
        let picture = from_json(r#"{"type":"image","mimeType":"image/png","data":"iVBORw0KGgo="}"#).unwrap();
        let messages = vec![
            Message::User(vec!["look".into(), picture]),
            said(vec![call("1"), call("2")]),
            Message::Results(vec![result("1", "one"), result("2", "two")]),
            said(Vec::new()),
        ];
        let events: Vec<Event> = messages.iter().map(|message| event(message).unwrap()).collect();
        assert_eq!(read_back(&events).unwrap(), messages);
    }

    /// As the first version wrote it.
    #[test]
    fn an_older_store_is_read() {
        let line = |value: serde_json::Value| Event::Model(value.into());
        let text = json!({"type": "text", "text": "one"});
        let events = [
            line(json!({"role": "user", "content": [{"type": "text", "text": "look"}]})),
            line(
                json!({"role": "assistant", "text": "t", "thought": "h", "calls": [{"id": "1", "name": "read", "arguments": "{}"}],
                        "kept": {"by": "m", "data": [{"own": {"signature": "s", "n": 1.50}}]}}),
            ),
            line(
                json!({"role": "results", "results": [{"id": "1", "name": "read", "content": [text], "is_error": false}]}),
            ),
        ];
        let expect =
            [Message::User(vec!["look".into()]), said(vec![call("1")]), Message::Results(vec![result("1", "one")])];
        assert_eq!(read_back(&events).unwrap(), expect);
    }

    #[test]
    fn what_was_cut_off_has_a_result() {
        let user = user_event(&["go".into()], false).unwrap();
        let calls = event(&said(vec![call("1"), call("2")])).unwrap();
        let done = result_event("c1", &result("1", "one")).unwrap();
        let Some(Message::Results(results)) = read_back(&[user, calls, done]).unwrap().pop() else { panic!() };
        assert_eq!(results[0], result("1", "one"));
        assert!(results[1].is_error && text_of(&results[1].content[0]) == CUT_OFF);
    }

    #[test]
    fn what_can_not_be_read_is_an_error() {
        for body in [json!({"role": "nobody"}), json!({"role": "results", "results": [{"id": 1}]}), json!([1])] {
            let error = read_back(&[Event::Model(body.clone().into())]).unwrap_err().to_string();
            assert!(error.contains("Begin a new session"), "{body}: {error}");
        }
    }
}
