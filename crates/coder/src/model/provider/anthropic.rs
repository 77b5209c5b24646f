//! Anthropic messages: thoughts are signed and go back as they came, and marks say what is worth a cache.

use super::content::{self, Growing, PICTURES, Piece};
use super::decode::{Decode, counted, json as parse, text};
use super::known::Tokens;
use super::order::{self, Order, Part};
use super::schema;
use super::trouble::Trouble;
use super::{Ask, Level};
use crate::http::sse;
use crate::model::{Event, Finish, Message, ToolResult};
use serde_json::{Value, json};

/// Room for an answer; every model we know can give as much.
const ANSWER: u64 = 16_384;

/// The path and the body of a request.
pub fn request(ask: &Ask<'_>) -> (String, Value) {
    let mut messages: Vec<Value> = Vec::new();
    for message in &ask.request.messages {
        let (role, content) = turn(message, ask);
        if content.is_empty() {
            continue;
        }
        // Two in a row by the same side are one.
        match messages.last_mut() {
            Some(last) if last["role"] == role => {
                if let Some(list) = last["content"].as_array_mut() {
                    list.extend(content);
                }
            }
            _ => messages.push(json!({ "role": role, "content": content })),
        }
    }
    mark(&mut messages);
    let tool = |tool: &crate::model::ToolSpec| json!({ "name": tool.name, "description": tool.description, "input_schema": schema::plain(tool) });
    let tools: Vec<Value> = ask.request.tools.iter().map(tool).collect();
    // One mark behind the system prompt covers the tools, too: they come before it.
    let system = json!([{ "type": "text", "text": ask.request.system, "cache_control": { "type": "ephemeral" } }]);
    let mut body = json!({ "model": ask.model, "max_tokens": ask.request.max_tokens.unwrap_or(answer(ask.model)),
                           "messages": messages, "stream": true });
    if !ask.request.system.is_empty() {
        body["system"] = system;
    }
    if !tools.is_empty() {
        body["tools"] = tools.into();
    }
    think(&mut body, ask);
    ("/v1/messages".into(), body)
}

fn answer(model: &str) -> u64 {
    if model.contains("claude-3") { 4096 } else { ANSWER }
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
            body["output_config"] = json!({ "effort": level.word() });
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
        Level::Low => 2048,
        Level::Medium => 8192,
        Level::High => 15_000,
    };
    body["thinking"] = json!({ "type": "enabled", "budget_tokens": budget });
    body["max_tokens"] = (ask.request.max_tokens.unwrap_or(ANSWER) + budget).into();
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

fn image(mime: &str, data: &str) -> Value {
    json!({ "type": "image", "source": { "type": "base64", "media_type": mime, "data": data } })
}

fn words(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn turn(message: &Message, ask: &Ask<'_>) -> (&'static str, Vec<Value>) {
    match message {
        Message::User(blocks) => {
            let part = |piece| match piece {
                Piece::Text(text) => words(&text),
                Piece::Image(mime, data) => image(mime, data),
            };
            ("user", content::pieces(blocks, ask.seen(PICTURES)).into_iter().map(part).collect())
        }
        Message::Assistant { text, calls, .. } => {
            if text.trim().is_empty() && calls.is_empty() {
                return ("assistant", Vec::new());
            }
            let block = |part| match part {
                // A text without words is refused.
                Part::Text(text, _) => (!text.trim().is_empty()).then(|| words(text)),
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
                let (text, images) = content::result(result, ask.seen(PICTURES));
                let images = images.into_iter().map(|(mime, data)| image(mime, data));
                let parts: Vec<Value> = std::iter::once(words(&text)).chain(images).collect();
                json!({ "type": "tool_result", "tool_use_id": content::id(&result.id), "content": parts, "is_error": result.is_error })
            };
            ("user", results.iter().map(result).collect())
        }
    }
}

/// Reads an answer.
pub struct Decoder {
    by: String,
    call: Option<Growing>,
    calls: Vec<Growing>,
    thought: Option<Value>,
    order: Order,
    finish: Option<Finish>,
    tokens: Tokens,
}

impl Decoder {
    pub fn new(by: &str) -> Self {
        Self {
            by: by.to_owned(),
            call: None,
            calls: Vec::new(),
            thought: None,
            order: Order::default(),
            finish: None,
            tokens: Tokens::default(),
        }
    }

    fn say(&mut self, value: &Value, out: &mut Vec<Event>) {
        if let Some(more) = text(value) {
            self.order.text(&more);
            out.push(Event::Text(more));
        }
    }

    /// The end of a block.
    fn stop(&mut self) {
        if let Some(call) = self.call.take() {
            self.calls.push(call);
            self.order.call(Value::Null);
        }
        // A thought that was cut has no signature yet, and would be refused.
        let signed = |thought: &Value| thought["signature"].as_str().is_some_and(|signature| !signature.is_empty());
        if let Some(thought) = self.thought.take().filter(signed) {
            self.order.own(thought);
        }
    }

    fn start(&mut self, block: &Value, out: &mut Vec<Event>) {
        self.stop();
        match block["type"].as_str() {
            Some("text") => {
                self.order.begin_text();
                self.say(&block["text"], out);
            }
            Some("thinking") => {
                out.extend(text(&block["thinking"]).map(Event::Thought));
                let mut thought = block.clone();
                for key in ["thinking", "signature"] {
                    if !thought[key].is_string() {
                        thought[key] = "".into();
                    }
                }
                self.thought = Some(thought);
            }
            Some("redacted_thinking") => self.order.own(block.clone()),
            Some("tool_use") => {
                let said = |key: &str| block[key].as_str().unwrap_or_default().to_owned();
                self.call = Some(Growing { id: said("id"), name: said("name"), arguments: String::new() });
            }
            _ => {}
        }
    }

    fn grow(&mut self, key: &str, more: &Value) {
        if let Some(Value::String(text)) = self.thought.as_mut().and_then(|thought| thought.get_mut(key)) {
            text.push_str(more.as_str().unwrap_or_default());
        }
    }

    fn delta(&mut self, delta: &Value, out: &mut Vec<Event>) {
        match delta["type"].as_str() {
            Some("text_delta") => self.say(&delta["text"], out),
            Some("thinking_delta") => {
                self.grow("thinking", &delta["thinking"]);
                out.extend(text(&delta["thinking"]).map(Event::Thought));
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

    fn usage(&mut self, usage: &Value) {
        let mut set = |key: &str, to: fn(&mut Tokens) -> &mut u64| {
            if let Some(count) = counted(&usage[key]) {
                *to(&mut self.tokens) = count;
            }
        };
        set("input_tokens", |tokens| &mut tokens.input);
        set("cache_read_input_tokens", |tokens| &mut tokens.cached);
        set("cache_creation_input_tokens", |tokens| &mut tokens.written);
        set("output_tokens", |tokens| &mut tokens.output);
    }
}

impl Decode for Decoder {
    fn take(&mut self, event: &sse::Event, out: &mut Vec<Event>) -> Result<bool, Trouble> {
        let data = parse(event)?;
        match data["type"].as_str().unwrap_or(&event.name) {
            "message_start" => self.usage(&data["message"]["usage"]),
            "content_block_start" => self.start(&data["content_block"], out),
            "content_block_delta" => self.delta(&data["delta"], out),
            "content_block_stop" => self.stop(),
            "message_delta" => {
                self.usage(&data["usage"]);
                self.finish = match data["delta"]["stop_reason"].as_str() {
                    None => self.finish,
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

    fn finished(&self) -> bool {
        self.finish.is_some()
    }

    fn close(&mut self, out: &mut Vec<Event>) -> Option<(Finish, Option<Tokens>)> {
        let finish = self.finish?;
        self.stop();
        out.extend(content::calls(&mut self.calls));
        out.extend(self.order.keep(&self.by));
        Some((finish, Some(self.tokens)))
    }
}
