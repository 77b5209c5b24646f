//! `OpenAI` chat completions, and the many servers that speak them in their own ways.

use super::Ask;
use super::content::{self, Forms, data_url};
use super::decode::{Answer, Decode, count, field, json as parse, text};
use super::known::Tokens;
use super::schema;
use super::trouble::Trouble;
use crate::http::sse;
use crate::model::{Event, Finish, Message, ToolRequest};
use serde_json::{Value, json};

/// Where `OpenRouter` has thoughts with what proves them; they go back unchanged.
const DETAILS: &str = "reasoning_details";
const FORMS: Forms = Forms {
    text: |text| json!({ "type": "text", "text": text }),
    image: |mime, data| json!({ "type": "image_url", "image_url": { "url": data_url(mime, data) } }),
};

/// The path and the body of a request.
pub fn request(ask: &Ask<'_>) -> (String, Value) {
    let mut messages = vec![json!({ "role": "system", "content": ask.request.system })];
    for message in &ask.request.messages {
        add(&mut messages, message, ask);
    }
    let tools = ask.tools(|tool| {
        let parameters = schema::plain(tool);
        let function = json!({ "name": tool.name, "description": tool.description, "parameters": parameters });
        json!({ "type": "function", "function": function })
    });
    let max_tokens = if ask.provider.name == "openai-chat" { "max_completion_tokens" } else { "max_tokens" };
    // Mistral tells it unasked, and refuses what it does not know.
    let usage = (ask.provider.name != "mistral").then(|| json!({ "include_usage": true }));
    let body = json!({
        "model": ask.model,
        "messages": messages,
        "tools": tools,
        "stream": true,
        "stream_options": usage,
        max_tokens: ask.request.max_tokens,
        "reasoning_effort": ask.level,
    });
    ("/chat/completions".into(), body)
}

fn add(messages: &mut Vec<Value>, message: &Message, ask: &Ask<'_>) {
    match message {
        Message::User(blocks) => {
            // Plain text where that is enough, because small servers know nothing else.
            let (text, images) = ask.split(blocks, &FORMS);
            say(messages, if images.is_empty() { text.into() } else { ask.parts(blocks, &FORMS).into() });
        }
        Message::Assistant { text, thought, calls, .. } => {
            if text.is_empty() && calls.is_empty() {
                return;
            }
            let mut said = json!({ "role": "assistant", "content": text });
            if !calls.is_empty() {
                let call = |call: &ToolRequest| {
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
                let (text, mut images) = ask.result(result, &FORMS);
                let text = if result.is_error { format!("Error: {text}") } else { text };
                messages.push(json!({ "role": "tool", "tool_call_id": id(ask, &result.id), "content": text }));
                pictures.append(&mut images);
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
        text => vec![(FORMS.text)(text.as_str().unwrap_or_default())],
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

/// Reads an answer.
#[derive(Default)]
pub struct Decoder {
    /// The number that the server gave to each of the calls.
    numbers: Vec<Option<u64>>,
    details: Vec<Value>,
}

impl Decoder {
    /// A piece of a call. `beside`: another call is in the same list, before it.
    fn call(&mut self, delta: &Value, beside: bool, calls: &mut Vec<ToolRequest>) {
        let number = delta["index"].as_u64();
        let (id, name) = (field(delta, "id"), field(&delta["function"], "name"));
        let known = self.numbers.iter().rposition(|known| *known == number).filter(|&at| {
            let call = &calls[at];
            // Some servers leave the number out, or give every call the same one, or have no ids. Then another id is another
            // call, and so is a name behind arguments that are whole, or in a list of calls.
            let other = !id.is_empty() && !call.id.is_empty() && id != call.id;
            let again = !name.is_empty() && !call.name.is_empty();
            let whole = || serde_json::from_str::<serde::de::IgnoredAny>(&call.arguments).is_ok();
            let next = again && (name != call.name || (number.is_none() && beside) || whole());
            !other && !next
        });
        let at = known.unwrap_or_else(|| {
            calls.push(ToolRequest::default());
            self.numbers.push(number);
            calls.len() - 1
        });
        let call = &mut calls[at];
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
    fn take(&mut self, event: &sse::Event, answer: &mut Answer) -> Result<bool, Trouble> {
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
            answer.tokens = Some(Tokens { input, cached, written: 0, output: count(&usage["completion_tokens"]) });
        }
        let choice = &chunk["choices"][0];
        let delta = &choice["delta"];
        let details = delta[DETAILS].as_array().into_iter().flatten();
        let told: String =
            details.clone().filter_map(|detail| text(&detail["text"]).or_else(|| text(&detail["summary"]))).collect();
        details.for_each(|detail| self.detail(detail));
        let thought = text(&delta["reasoning_content"]).or_else(|| text(&delta["reasoning"]));
        answer.out.extend(thought.or((!told.is_empty()).then_some(told)).map(Event::Thought));
        match &delta["content"] {
            // Mistral's thinking models send a list.
            Value::Array(parts) => {
                for part in parts {
                    answer.out.extend(text(&part["text"]).map(Event::Text));
                    let thoughts = part["thinking"].as_array().into_iter().flatten();
                    thoughts.for_each(|thought| answer.think(&thought["text"]));
                }
            }
            plain => answer.out.extend(text(plain).map(Event::Text)),
        }
        if let Some(refusal) = text(&delta["refusal"]) {
            answer.refused = true;
            answer.out.push(Event::Text(refusal));
        }
        for (at, call) in delta["tool_calls"].as_array().into_iter().flatten().enumerate() {
            self.call(call, at > 0, &mut answer.calls);
        }
        match choice["finish_reason"].as_str() {
            None => {}
            Some("length" | "model_length") => answer.finish = Some(Finish::MaxTokens),
            Some("content_filter") => answer.finish = Some(Finish::Refusal),
            Some("error") => return Err(Trouble::passing("the answer ended with an error")),
            Some(_) => answer.finish = Some(Finish::Done),
        }
        Ok(false)
    }

    fn end(&mut self, answer: &mut Answer) {
        let details = std::mem::take(&mut self.details);
        answer.kept = (!details.is_empty()).then(|| details.into());
    }
}
