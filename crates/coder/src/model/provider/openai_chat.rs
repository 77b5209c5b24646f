//! `OpenAI` chat completions, and the many servers that speak them in their own ways.

use super::content::{self, Growing, Piece, data_url};
use super::decode::{Decode, count, json as parse, text};
use super::known::Tokens;
use super::trouble::Trouble;
use super::{Ask, Level};
use crate::http::sse;
use crate::model::{Event, Finish, Message};
use serde_json::{Value, json};

/// The path and the body of a request.
pub fn request(ask: &Ask<'_>) -> (String, Value) {
    let mut messages = vec![json!({ "role": "system", "content": ask.request.system })];
    for message in &ask.request.messages {
        add(&mut messages, message, ask);
    }
    let tool = |tool: &crate::model::ToolSpec| {
        let parameters: Value = tool.parameters.parse().unwrap_or_default();
        let function = json!({ "name": tool.name, "description": tool.description, "parameters": parameters });
        json!({ "type": "function", "function": function })
    };
    let mut body = json!({ "model": ask.model, "messages": messages, "stream": true });
    let tools: Vec<Value> = ask.request.tools.iter().map(tool).collect();
    if !tools.is_empty() {
        body["tools"] = tools.into();
    }
    // Mistral tells it unasked, and refuses what it does not know.
    if ask.provider.name != "mistral" {
        body["stream_options"] = json!({ "include_usage": true });
    }
    if let Some(most) = ask.request.max_tokens {
        let name = if ask.provider.name == "openai-chat" { "max_completion_tokens" } else { "max_tokens" };
        body[name] = most.into();
    }
    if let Some(level) = ask.level {
        body["reasoning_effort"] = level.word().into();
    }
    ("/chat/completions".into(), body)
}

fn add(messages: &mut Vec<Value>, message: &Message, ask: &Ask<'_>) {
    match message {
        Message::User(blocks) => messages.push(json!({ "role": "user", "content": user(blocks) })),
        Message::Assistant { text, thought, calls, .. } => {
            if text.is_empty() && calls.is_empty() {
                return;
            }
            let mut said = json!({ "role": "assistant", "content": text });
            if !calls.is_empty() {
                let call = |call: &crate::model::ToolRequest| {
                    let function = json!({ "name": call.name, "arguments": content::arguments(call).to_string() });
                    json!({ "id": id(ask, &call.id), "type": "function", "function": function })
                };
                said["tool_calls"] = calls.iter().map(call).collect();
                // DeepSeek wants its thoughts back as long as its calls go on.
                if ask.provider.name == "deepseek" && !thought.is_empty() {
                    said["reasoning_content"] = thought.as_str().into();
                }
            }
            messages.push(said);
        }
        Message::Results(results) => {
            let mut pictures = Vec::new();
            for result in results {
                let (text, images) = content::result(result);
                let text = if result.is_error { format!("Error: {text}") } else { text };
                messages.push(json!({ "role": "tool", "tool_call_id": id(ask, &result.id), "content": text }));
                pictures.extend(images.into_iter().map(|(mime, data)| image(mime, data)));
            }
            // A tool can't give a picture back here, so the user shows it.
            if !pictures.is_empty() {
                messages.push(json!({ "role": "user", "content": pictures }));
            }
        }
    }
}

fn id(ask: &Ask<'_>, raw: &str) -> String {
    if ask.provider.name == "mistral" { content::nine(raw) } else { content::id(raw) }
}

fn image(mime: &str, data: &str) -> Value {
    json!({ "type": "image_url", "image_url": { "url": data_url(mime, data) } })
}

/// Plain text where that is enough, because small servers know nothing else.
fn user(blocks: &[tieline::ContentBlock]) -> Value {
    let pieces = content::pieces(blocks);
    if pieces.iter().all(|piece| matches!(piece, Piece::Text(_))) {
        return content::split(blocks).0.into();
    }
    let part = |piece| match piece {
        Piece::Text(text) => json!({ "type": "text", "text": text }),
        Piece::Image(mime, data) => image(mime, data),
    };
    pieces.into_iter().map(part).collect()
}

/// Reads an answer.
#[derive(Default)]
pub struct Decoder {
    calls: Vec<(Option<u64>, Growing)>,
    finish: Option<Finish>,
    refused: bool,
    tokens: Option<Tokens>,
}

impl Decoder {
    fn call(&mut self, delta: &Value) {
        let index = delta["index"].as_u64();
        let id = delta["id"].as_str().unwrap_or_default();
        // Some servers leave the index out, or give every call the same one; then a new id is a new call.
        let known = self
            .calls
            .iter()
            .rposition(|(at, call)| *at == index && (id.is_empty() || call.id.is_empty() || call.id == id));
        let at = known.unwrap_or_else(|| {
            self.calls.push((index, Growing::default()));
            self.calls.len() - 1
        });
        let call = &mut self.calls[at].1;
        if call.id.is_empty() {
            id.clone_into(&mut call.id);
        }
        let function = &delta["function"];
        if call.name.is_empty() {
            function["name"].as_str().unwrap_or_default().clone_into(&mut call.name);
        }
        match &function["arguments"] {
            Value::String(more) => call.arguments.push_str(more),
            Value::Null => {}
            whole => call.arguments = whole.to_string(),
        }
    }
}

impl Decode for Decoder {
    fn take(&mut self, event: &sse::Event, out: &mut Vec<Event>) -> Result<bool, Trouble> {
        if event.data.trim() == "[DONE]" {
            return Ok(true);
        }
        let chunk = parse(event)?;
        if let Some(error) = chunk.get("error").filter(|error| !error.is_null()) {
            return Err(Trouble::of_event(error));
        }
        // Groq has it elsewhere.
        let usage = chunk.get("usage").filter(|usage| usage.is_object()).or_else(|| chunk["x_groq"].get("usage"));
        if let Some(usage) = usage {
            let cached = count(&usage["prompt_tokens_details"]["cached_tokens"]);
            let cached = cached.max(count(&usage["prompt_cache_hit_tokens"]));
            let input = count(&usage["prompt_tokens"]).saturating_sub(cached);
            self.tokens = Some(Tokens { input, cached, written: 0, output: count(&usage["completion_tokens"]) });
        }
        let choice = &chunk["choices"][0];
        let delta = &choice["delta"];
        let thought = text(&delta["reasoning_content"]).or_else(|| text(&delta["reasoning"]));
        out.extend(thought.map(Event::Thought));
        match &delta["content"] {
            // Mistral's thinking models send a list.
            Value::Array(parts) => {
                for part in parts {
                    out.extend(text(&part["text"]).map(Event::Text));
                    for thought in part["thinking"].as_array().into_iter().flatten() {
                        out.extend(text(&thought["text"]).map(Event::Thought));
                    }
                }
            }
            plain => out.extend(text(plain).map(Event::Text)),
        }
        if let Some(refusal) = text(&delta["refusal"]) {
            self.refused = true;
            out.push(Event::Text(refusal));
        }
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            self.call(call);
        }
        match choice["finish_reason"].as_str() {
            None => {}
            Some("length" | "model_length") => self.finish = Some(Finish::MaxTokens),
            Some("content_filter") => self.finish = Some(Finish::Refusal),
            Some("error") => {
                return Err(Trouble::Passing { why: "the answer ended with an error".into(), after: None });
            }
            Some(_) => self.finish = Some(Finish::Done),
        }
        Ok(false)
    }

    fn close(&mut self, out: &mut Vec<Event>) -> Option<(Finish, Option<Tokens>)> {
        let finish = if self.refused { Finish::Refusal } else { self.finish? };
        let calls = std::mem::take(&mut self.calls).into_iter().enumerate();
        out.extend(calls.map(|(at, (_, call))| Event::Call(call.done(at))));
        Some((finish, self.tokens))
    }
}

/// The words for levels.
impl Level {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}
