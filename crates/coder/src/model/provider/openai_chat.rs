//! `OpenAI` chat completions, and the many servers that speak them in their own ways.

use super::content::{self, Growing, PICTURES, Piece, data_url};
use super::decode::{Decode, count, json as parse, text};
use super::known::Tokens;
use super::schema;
use super::trouble::Trouble;
use super::{Ask, Level};
use crate::http::sse;
use crate::model::{Event, Finish, Message};
use serde_json::{Value, json};

/// Where `OpenRouter` has thoughts with what proves them; they go back unchanged.
const DETAILS: &str = "reasoning_details";

/// The path and the body of a request.
pub fn request(ask: &Ask<'_>) -> (String, Value) {
    let mut messages = vec![json!({ "role": "system", "content": ask.request.system })];
    for message in &ask.request.messages {
        add(&mut messages, message, ask);
    }
    let tool = |tool: &crate::model::ToolSpec| {
        let parameters = schema::plain(tool);
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
        Message::User(blocks) => say(messages, user(blocks, ask)),
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
                if wants_thoughts(ask) && !thought.is_empty() {
                    said["reasoning_content"] = thought.as_str().into();
                }
            }
            if let Some(details) = content::kept(message, ask.by) {
                said[DETAILS] = details;
            }
            messages.push(said);
        }
        Message::Results(results) => {
            let mut pictures = Vec::new();
            for result in results {
                let (text, images) = content::result(result, ask.seen(PICTURES));
                let text = if result.is_error { format!("Error: {text}") } else { text };
                messages.push(json!({ "role": "tool", "tool_call_id": id(ask, &result.id), "content": text }));
                pictures.extend(images.into_iter().map(|(mime, data)| image(mime, data)));
            }
            // A tool can't give a picture back here, so the user shows it.
            if !pictures.is_empty() {
                say(messages, pictures.into());
            }
        }
    }
}

/// Words of the user. Two messages in a row become one, because the templates of many models want the sides to take turns.
fn say(messages: &mut Vec<Value>, content: Value) {
    let part = |content: Value| match content {
        Value::Array(parts) => parts,
        text => vec![json!({ "type": "text", "text": text })],
    };
    match messages.last_mut().filter(|last| last["role"] == "user").map(|last| &mut last["content"]) {
        None => messages.push(json!({ "role": "user", "content": content })),
        Some(before) => {
            *before = match (before.take(), content) {
                (Value::String(one), Value::String(two)) => format!("{one}\n\n{two}").into(),
                (one, two) => [part(one), part(two)].concat().into(),
            };
        }
    }
}

/// These want the thoughts before a call back, or refuse the call; others refuse the field.
fn wants_thoughts(ask: &Ask<'_>) -> bool {
    const OF: [(&str, &[&str]); 3] = [
        ("deepseek", &["deepseek.com"]),
        ("moonshot", &["moonshot.ai", "moonshot.cn"]),
        ("zai", &["z.ai", "bigmodel.cn"]),
    ];
    let host = ask.provider.host().to_ascii_lowercase();
    let at = |end: &&str| host.strip_suffix(end).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    OF.iter().any(|(name, ends)| ask.provider.name == *name || ends.iter().any(at))
}

fn id(ask: &Ask<'_>, raw: &str) -> String {
    if ask.provider.name == "mistral" { content::nine(raw) } else { content::id(raw) }
}

fn image(mime: &str, data: &str) -> Value {
    json!({ "type": "image_url", "image_url": { "url": data_url(mime, data) } })
}

/// Plain text where that is enough, because small servers know nothing else.
fn user(blocks: &[tieline::ContentBlock], ask: &Ask<'_>) -> Value {
    let pieces = content::pieces(blocks, ask.seen(PICTURES));
    if pieces.iter().all(|piece| matches!(piece, Piece::Text(_))) {
        return content::split(blocks, ask.seen(PICTURES)).0.into();
    }
    let part = |piece| match piece {
        Piece::Text(text) => json!({ "type": "text", "text": text }),
        Piece::Image(mime, data) => image(mime, data),
    };
    pieces.into_iter().map(part).collect()
}

/// Reads an answer.
pub struct Decoder {
    by: String,
    calls: Vec<Growing>,
    /// The number that the server gave to each of them.
    numbers: Vec<Option<u64>>,
    details: Vec<Value>,
    finish: Option<Finish>,
    refused: bool,
    tokens: Option<Tokens>,
}

impl Decoder {
    pub fn new(by: &str) -> Self {
        Self {
            by: by.to_owned(),
            calls: Vec::new(),
            numbers: Vec::new(),
            details: Vec::new(),
            finish: None,
            refused: false,
            tokens: None,
        }
    }

    /// A piece of a call. `beside`: another call is in the same list, before it.
    fn call(&mut self, delta: &Value, beside: bool) {
        let number = delta["index"].as_u64();
        let said = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (id, name) = (said(&delta["id"]), said(&delta["function"]["name"]));
        let known = self.numbers.iter().rposition(|known| *known == number).filter(|&at| {
            let call = &self.calls[at];
            // Some servers leave the number out, or give every call the same one, or have no ids. Then another id is another
            // call, and so is a name behind arguments that are whole, or in a list of calls.
            let other = !id.is_empty() && !call.id.is_empty() && id != call.id;
            let again = !name.is_empty() && !call.name.is_empty();
            let whole = || serde_json::from_str::<serde::de::IgnoredAny>(&call.arguments).is_ok();
            let next = again && (name != call.name || (number.is_none() && beside) || whole());
            !other && !next
        });
        let at = known.unwrap_or_else(|| {
            self.calls.push(Growing::default());
            self.numbers.push(number);
            self.calls.len() - 1
        });
        let call = &mut self.calls[at];
        if call.id.is_empty() {
            call.id = id;
        }
        if call.name.is_empty() {
            call.name = name;
        }
        match &delta["function"]["arguments"] {
            Value::String(more) => call.arguments.push_str(more),
            Value::Null => {}
            whole => call.arguments = whole.to_string(),
        }
    }

    /// Thoughts with what proves them. They come in pieces and go back whole.
    fn detail(&mut self, detail: &Value) {
        let same = |last: &&mut Value| {
            last["type"] == detail["type"] && last["index"] == detail["index"] && last["id"] == detail["id"]
        };
        let grows = ["reasoning.text", "reasoning.summary"].iter().any(|kind| detail["type"] == **kind);
        let Some(last) = self.details.last_mut().filter(|last| grows && same(last)) else {
            self.details.push(detail.clone());
            return;
        };
        for (key, value) in detail.as_object().into_iter().flatten() {
            match (key.as_str(), &mut last[key], value) {
                ("text" | "summary", Value::String(text), Value::String(more)) => text.push_str(more),
                (_, has @ Value::Null, value) => has.clone_from(value),
                _ => {}
            }
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
        // An older vLLM has nothing around it.
        if chunk["object"] == "error" {
            return Err(Trouble::of_event(&chunk));
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
        let details = delta[DETAILS].as_array().into_iter().flatten();
        let told: String =
            details.clone().filter_map(|detail| text(&detail["text"]).or_else(|| text(&detail["summary"]))).collect();
        details.for_each(|detail| self.detail(detail));
        let thought = text(&delta["reasoning_content"]).or_else(|| text(&delta["reasoning"]));
        out.extend(thought.or((!told.is_empty()).then_some(told)).map(Event::Thought));
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
        for (at, call) in delta["tool_calls"].as_array().into_iter().flatten().enumerate() {
            self.call(call, at > 0);
        }
        match choice["finish_reason"].as_str() {
            None => {}
            Some("length" | "model_length") => self.finish = Some(Finish::MaxTokens),
            Some("content_filter") => self.finish = Some(Finish::Refusal),
            Some("error") => {
                return Err(Trouble::passing("the answer ended with an error"));
            }
            Some(_) => self.finish = Some(Finish::Done),
        }
        Ok(false)
    }

    fn finished(&self) -> bool {
        self.finish.is_some()
    }

    fn close(&mut self, out: &mut Vec<Event>) -> Option<(Finish, Option<Tokens>)> {
        let finish = if self.refused { Finish::Refusal } else { self.finish? };
        out.extend(content::calls(&mut self.calls));
        if !self.details.is_empty() {
            let details = Value::Array(std::mem::take(&mut self.details));
            out.push(Event::Keep(content::keep(&self.by, &details)));
        }
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
