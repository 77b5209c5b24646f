//! Anthropic messages: thoughts are signed and go back as they came, and marks say what is worth a cache.

use super::Ask;
use super::content::{self, Forms};
use super::decode::{Answer, Decode, counted, field, json as parse};
use super::known::Tokens;
use super::order::{self, Part};
use super::schema;
use super::trouble::Trouble;
use crate::http::sse;
use crate::model::{Finish, Message, ToolRequest, ToolResult};
use serde_json::{Value, json};

/// Room for an answer, in tokens; every model we know can give as much.
const ANSWER_TOKENS: u64 = 16_384;
const FORMS: Forms = Forms {
    text: |text| json!({ "type": "text", "text": text }),
    image: |mime, data| json!({ "type": "image", "source": { "type": "base64", "media_type": mime, "data": data } }),
};

/// The path and the body of a request.
pub fn request(ask: &Ask<'_>) -> (String, Value) {
    let mut messages: Vec<Value> = Vec::new();
    for message in &ask.request.messages {
        let (role, parts) = turn(message, ask);
        content::add(&mut messages, role, "content", parts);
    }
    mark(&mut messages);
    // One mark behind the system prompt covers the tools, too: they come before it.
    let system = |text| json!([{ "type": "text", "text": text, "cache_control": { "type": "ephemeral" } }]);
    let tools = ask.tools(
        |tool| json!({ "name": tool.name, "description": tool.description, "input_schema": schema::plain(tool) }),
    );
    let room = if ask.model.contains("claude-3") { 4096 } else { ANSWER_TOKENS };
    let mut body = json!({
        "model": ask.model,
        "max_tokens": ask.request.max_tokens.unwrap_or(room),
        "messages": messages,
        "system": ask.system().map(system),
        "tools": tools,
        "stream": true,
    });
    think(&mut body, ask);
    ("/v1/messages".into(), body)
}

/// True for models that are given a number of tokens to think; newer ones decide for themselves.
fn counts(model: &str) -> bool {
    ["claude-3", "-4-0", "-4-1", "-4-2025", "-4-5"].iter().any(|part| model.contains(part))
}

fn think(body: &mut Value, ask: &Ask<'_>) {
    if !ask.model.starts_with("claude") && ask.level.is_none() {
        return;
    }
    if !counts(ask.model) {
        body["thinking"] = json!({ "type": "adaptive", "display": "summarized" });
        if let Some(level) = ask.level {
            body["output_config"] = json!({ "effort": level });
        }
        return;
    }
    let Some(level) = ask.level else { return };
    // Calls without the thoughts before them are refused while thinking is on.
    let open = ask.request.messages.iter().rev().take_while(|message| !matches!(message, Message::User(_)));
    let bare = |message: &Message| {
        matches!(message, Message::Assistant { calls, .. } if !calls.is_empty()) && !order::has_own(message, ask.by)
    };
    if open.into_iter().any(bare) {
        return;
    }
    let budget: u64 = match level {
        "low" => 2048,
        "medium" => 8192,
        _ => 15_000,
    };
    body["thinking"] = json!({ "type": "enabled", "budget_tokens": budget });
    body["max_tokens"] = (ask.request.max_tokens.unwrap_or(ANSWER_TOKENS) + budget).into();
}

/// The last blocks of the last two messages of the user: what comes before them will come again.
fn mark(messages: &mut [Value]) {
    let users = messages.iter_mut().rev().filter(|message| message["role"] == "user");
    for message in users.take(2) {
        if let Some(last) = message["content"].as_array_mut().and_then(|list| list.last_mut()) {
            last["cache_control"] = json!({ "type": "ephemeral" });
        }
    }
}

fn turn(message: &Message, ask: &Ask<'_>) -> (&'static str, Vec<Value>) {
    match message {
        Message::User(blocks) => ("user", ask.parts(blocks, &FORMS)),
        Message::Assistant { text, calls, .. } => {
            if text.trim().is_empty() && calls.is_empty() {
                return ("assistant", Vec::new());
            }
            let block = |part| match part {
                // A text without words is refused.
                Part::Text(text, _) => (!text.trim().is_empty()).then(|| (FORMS.text)(text)),
                Part::Call(call, _) => {
                    let (id, input) = (content::id(&call.id), content::arguments(call));
                    Some(json!({ "type": "tool_use", "id": id, "name": call.name, "input": input }))
                }
                Part::Own(thought) => Some(thought),
            };
            ("assistant", order::parts(message, ask.by).into_iter().filter_map(block).collect())
        }
        Message::Results(results) => {
            let result = |result: &ToolResult| {
                let (text, mut parts) = ask.result(result, &FORMS);
                parts.insert(0, (FORMS.text)(&text));
                json!({ "type": "tool_result", "tool_use_id": content::id(&result.id), "content": parts, "is_error": result.is_error })
            };
            ("user", results.iter().map(result).collect())
        }
    }
}

/// Reads an answer.
#[derive(Default)]
pub struct Decoder {
    call: Option<ToolRequest>,
    thought: Option<Value>,
}

impl Decoder {
    /// The end of a block.
    fn stop(&mut self, answer: &mut Answer) {
        if let Some(call) = self.call.take() {
            answer.call(call, Value::Null);
        }
        // A thought that was cut has no signature yet, and would be refused.
        let signed = |thought: &Value| thought["signature"].as_str().is_some_and(|signature| !signature.is_empty());
        if let Some(thought) = self.thought.take().filter(signed) {
            answer.order.own(thought);
        }
    }

    fn start(&mut self, block: &Value, answer: &mut Answer) {
        self.stop(answer);
        match block["type"].as_str() {
            Some("text") => {
                answer.order.begin_text();
                answer.say(&block["text"]);
            }
            Some("thinking") => {
                answer.think(&block["thinking"]);
                let mut thought = block.clone();
                for key in ["thinking", "signature"] {
                    thought[key] = field(block, key).into();
                }
                self.thought = Some(thought);
            }
            Some("redacted_thinking") => answer.order.own(block.clone()),
            Some("tool_use") => {
                let (id, name) = (field(block, "id"), field(block, "name"));
                self.call = Some(ToolRequest { id, name, arguments: String::new() });
            }
            _ => {}
        }
    }

    fn grow(&mut self, key: &str, more: &Value) {
        if let Some(Value::String(text)) = self.thought.as_mut().and_then(|thought| thought.get_mut(key)) {
            text.push_str(more.as_str().unwrap_or_default());
        }
    }

    fn delta(&mut self, delta: &Value, answer: &mut Answer) {
        match delta["type"].as_str() {
            Some("text_delta") => answer.say(&delta["text"]),
            Some("thinking_delta") => {
                self.grow("thinking", &delta["thinking"]);
                answer.think(&delta["thinking"]);
            }
            Some("signature_delta") => self.grow("signature", &delta["signature"]),
            Some("input_json_delta") => {
                if let Some(call) = &mut self.call {
                    call.arguments.push_str(delta["partial_json"].as_str().unwrap_or_default());
                }
            }
            _ => {}
        }
    }
}

/// Takes in the figures that are there; others stay as they were.
fn usage(usage: &Value, answer: &mut Answer) {
    let Tokens { input, cached, written, output } = answer.tokens.get_or_insert_default();
    for (key, figure) in [
        ("input_tokens", input),
        ("cache_read_input_tokens", cached),
        ("cache_creation_input_tokens", written),
        ("output_tokens", output),
    ] {
        *figure = counted(&usage[key]).unwrap_or(*figure);
    }
}

impl Decode for Decoder {
    fn take(&mut self, event: &sse::Event, answer: &mut Answer) -> Result<bool, Trouble> {
        let data = parse(event)?;
        match data["type"].as_str().unwrap_or(&event.name) {
            "message_start" => usage(&data["message"]["usage"], answer),
            "content_block_start" => self.start(&data["content_block"], answer),
            "content_block_delta" => self.delta(&data["delta"], answer),
            "content_block_stop" => self.stop(answer),
            "message_delta" => {
                usage(&data["usage"], answer);
                answer.finish = match data["delta"]["stop_reason"].as_str() {
                    None => answer.finish,
                    Some("max_tokens" | "model_context_window_exceeded") => Some(Finish::MaxTokens),
                    Some("refusal") => Some(Finish::Refusal),
                    Some(_) => Some(Finish::Done),
                };
            }
            "message_stop" => return Ok(true),
            "error" => return Err(Trouble::of_event(&data["error"])),
            _ => {}
        }
        Ok(false)
    }

    fn end(&mut self, answer: &mut Answer) {
        self.stop(answer);
    }
}
