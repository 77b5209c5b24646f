//! `OpenAI` chat completions.

use super::{Event, Part, Reply, now, pieces, signature};
use crate::talk::{Asked, Format, Said, Tool, list, string, texts, words};
use serde_json::{Value, json};
use tieline_script::{Finish, Marks, Usage};

/// The field in which `OpenRouter` tells thoughts with their signatures.
pub(crate) const DETAILS: &str = "reasoning_details";

pub(crate) fn read(body: &Value) -> Asked {
    let mut said = Vec::new();
    for message in list(body, "messages") {
        let content = message.get("content").unwrap_or(&Value::Null);
        match message.get("role").and_then(Value::as_str) {
            Some("user") => said.extend(words(texts(content), false)),
            Some("assistant") => {
                let ids: Vec<_> = list(message, "tool_calls").iter().map(|call| string(call, "id")).collect();
                if !ids.is_empty() {
                    said.push(Said::Calls(ids));
                }
            }
            Some("tool") => {
                said.push(Said::Result { id: string(message, "tool_call_id"), text: texts(content).join("\n") });
            }
            _ => {}
        }
    }
    let tools = list(body, "tools").iter().map(|tool| {
        let free = tool.get("custom");
        let function = tool.get("function").or(free).unwrap_or(tool);
        let schema = function.get("parameters").cloned().unwrap_or_default();
        Tool { name: string(function, "name"), schema, free: free.is_some() }
    });
    let form = body.get("response_format");
    let schema = form.and_then(|form| form.pointer("/json_schema/schema").cloned()).or_else(|| {
        let kind = form?.get("type")?.as_str()?;
        (kind == "json_object").then(|| json!({ "type": "object" }))
    });
    Asked {
        format: Format::Chat,
        model: string(body, "model"),
        stream: body.get("stream").and_then(Value::as_bool).unwrap_or(false),
        tools: tools.collect(),
        said,
        schema,
        extra: body.pointer("/stream_options/include_usage").and_then(Value::as_bool).unwrap_or(false),
        array: false,
    }
}

pub(crate) fn events(reply: &Reply) -> Vec<Event> {
    let chunk = |delta: Value, finish: Value| {
        let mut chunk = json!({
            "id": format!("chatcmpl-{}", reply.serial), "object": "chat.completion.chunk", "created": now(), "model": reply.model,
            "system_fingerprint": "fp_tieline", "choices": [{ "index": 0, "delta": delta, "logprobs": null, "finish_reason": finish }],
        });
        if reply.extra {
            chunk["usage"] = Value::Null;
        }
        chunk
    };
    let piece = |delta: Value| Event::data(&chunk(delta, Value::Null)).content();
    let mut events = vec![Event::data(&chunk(json!({ "role": "assistant", "content": "" }), Value::Null))];
    let mut index = 0;
    for part in &reply.parts {
        match part {
            Part::Thought(text) | Part::Redacted(text) => {
                let thought = |text: &str| piece(json!({ &reply.reasoning_field: told(reply, text, Value::Null) }));
                events.extend(pieces(text, reply.chunk).into_iter().map(thought));
                if reply.reasoning_field == DETAILS {
                    let end = told(reply, "", signature(text).into());
                    events.push(Event::data(&chunk(json!({ DETAILS: end }), Value::Null)));
                }
            }
            Part::Text(text) => {
                let field = if reply.stop == Finish::Refusal { "refusal" } else { "content" };
                events.extend(pieces(text, reply.chunk).into_iter().map(|text| piece(json!({ field: text }))));
            }
            Part::Call { id, name, arguments, .. } => {
                let marked = |mut delta: Value, head: bool| {
                    if head && matches!(reply.marks, Marks::Both | Marks::Id) {
                        delta["id"] = json!(id);
                    }
                    if matches!(reply.marks, Marks::Both | Marks::Index) {
                        delta["index"] = json!(index);
                    }
                    if reply.marks == Marks::Same {
                        (delta["index"], delta["id"]) = (json!(0), json!(""));
                    }
                    piece(json!({ "tool_calls": [delta] }))
                };
                let head = json!({ "type": "function", "function": { "name": name, "arguments": "" } });
                events.push(marked(head, true));
                for text in pieces(arguments, reply.chunk) {
                    events.push(marked(json!({ "function": { "arguments": text } }), false));
                }
                index += 1;
            }
        }
    }
    events.push(Event::data(&chunk(json!({}), json!(finish(reply)))).ends());
    if reply.extra {
        let mut last = chunk(json!({}), Value::Null);
        last["choices"] = json!([]);
        last["usage"] = usage(reply.usage);
        events.push(Event::data(&last));
    }
    events.push(Event::raw(None, "[DONE]"));
    events
}

pub(crate) fn whole(reply: &Reply) -> Value {
    let text = reply.text();
    let (content, refusal) = match reply.stop {
        Finish::Refusal => (Value::Null, json!(text)),
        _ if text.is_empty() => (Value::Null, Value::Null),
        _ => (json!(text), Value::Null),
    };
    let mut message = json!({ "role": "assistant", "content": content, "refusal": refusal, "annotations": [] });
    let mut calls = Vec::new();
    for part in &reply.parts {
        match part {
            Part::Thought(text) | Part::Redacted(text) => {
                message[&reply.reasoning_field] = told(reply, text, signature(text).into());
            }
            Part::Call { id, name, arguments, .. } => {
                calls.push(
                    json!({ "id": id, "type": "function", "function": { "name": name, "arguments": arguments } }),
                );
            }
            Part::Text(_) => {}
        }
    }
    if !calls.is_empty() {
        message["tool_calls"] = json!(calls);
    }
    json!({
        "id": format!("chatcmpl-{}", reply.serial), "object": "chat.completion", "created": now(), "model": reply.model,
        "choices": [{ "index": 0, "message": message, "logprobs": null, "finish_reason": finish(reply) }],
        "usage": usage(reply.usage), "system_fingerprint": "fp_tieline",
    })
}

/// A thought, or a piece of one: text, or as `OpenRouter` tells it.
fn told(reply: &Reply, text: &str, signature: Value) -> Value {
    if reply.reasoning_field != DETAILS {
        return json!(text);
    }
    json!([{ "type": "reasoning.text", "text": text, "signature": signature, "format": "anthropic-claude-v1", "index": 0 }])
}

fn finish(reply: &Reply) -> &'static str {
    match reply.stop {
        Finish::MaxTokens => "length",
        Finish::Filter => "content_filter",
        Finish::Done if reply.calls() => "tool_calls",
        Finish::Done | Finish::Refusal => "stop",
    }
}

fn usage(usage: Usage) -> Value {
    json!({
        "prompt_tokens": usage.input, "completion_tokens": usage.output, "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": { "cached_tokens": usage.cached, "audio_tokens": 0 },
        "completion_tokens_details": { "reasoning_tokens": usage.reasoning, "audio_tokens": 0 },
    })
}
