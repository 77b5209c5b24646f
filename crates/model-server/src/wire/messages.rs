//! Anthropic messages.

use super::{Event, Part, Reply, pieces, signature};
use crate::talk::{Asked, Format, Said, Tool, list, string, texts, words};
use serde_json::{Value, json};
use tieline_script::{Finish, Usage};

pub(crate) fn read(body: &Value) -> Asked {
    let mut said = Vec::new();
    for message in list(body, "messages") {
        let blocks = list(message, "content");
        let of = |kind: &'static str| blocks.iter().filter(move |block| block.get("type") == Some(&json!(kind)));
        match message.get("role").and_then(Value::as_str) {
            Some("assistant") => {
                let ids: Vec<_> = of("tool_use").map(|call| string(call, "id")).collect();
                if !ids.is_empty() {
                    said.push(Said::Calls(ids));
                }
            }
            Some("user") => {
                let results: Vec<_> = of("tool_result").collect();
                let beside = !results.is_empty();
                said.extend(results.into_iter().map(|result| Said::Result {
                    id: string(result, "tool_use_id"),
                    text: texts(result.get("content").unwrap_or(&Value::Null)).join("\n"),
                }));
                said.extend(words(texts(message.get("content").unwrap_or(&Value::Null)), beside));
            }
            _ => {}
        }
    }
    let tools = list(body, "tools").iter().map(|tool| Tool {
        name: string(tool, "name"),
        schema: tool.get("input_schema").cloned().unwrap_or_default(),
        free: false,
    });
    let form = body.pointer("/output_config/format/schema").or_else(|| body.pointer("/output_format/schema"));
    Asked {
        format: Format::Messages,
        model: string(body, "model"),
        stream: body.get("stream").and_then(Value::as_bool).unwrap_or(false),
        tools: tools.collect(),
        said,
        schema: form.cloned(),
        extra: false,
        array: false,
    }
}

pub(crate) fn events(reply: &Reply) -> Vec<Event> {
    let mut start = frame(reply, json!([]), Value::Null);
    start["usage"]["output_tokens"] = json!(1);
    let mut events = vec![Event::typed("message_start", json!({ "type": "message_start", "message": start }))];
    for (index, part) in reply.parts.iter().enumerate() {
        let delta = |delta: Value| {
            let data = json!({ "type": "content_block_delta", "index": index, "delta": delta });
            Event::typed("content_block_delta", data).content()
        };
        let (empty, deltas): (Value, Vec<Event>) = match part {
            Part::Thought(text) => {
                let thought = |text| delta(json!({ "type": "thinking_delta", "thinking": text }));
                let mut deltas: Vec<_> = pieces(text, reply.chunk).into_iter().map(thought).collect();
                deltas.push(delta(json!({ "type": "signature_delta", "signature": signature(text) })));
                (json!({ "type": "thinking", "thinking": "", "signature": "" }), deltas)
            }
            Part::Redacted(data) => (json!({ "type": "redacted_thinking", "data": data }), Vec::new()),
            Part::Text(text) => {
                let said = |text| delta(json!({ "type": "text_delta", "text": text }));
                (json!({ "type": "text", "text": "" }), pieces(text, reply.chunk).into_iter().map(said).collect())
            }
            Part::Call { id, name, arguments, .. } => {
                let json = |text| delta(json!({ "type": "input_json_delta", "partial_json": text }));
                let empty = json!({ "type": "tool_use", "id": id, "name": name, "input": {} });
                (empty, std::iter::once("").chain(pieces(arguments, reply.chunk)).map(json).collect())
            }
        };
        let data = json!({ "type": "content_block_start", "index": index, "content_block": empty });
        events.push(Event::typed("content_block_start", data));
        if index == 0 {
            events.push(ping());
        }
        events.extend(deltas);
        events.push(Event::typed("content_block_stop", json!({ "type": "content_block_stop", "index": index })));
    }
    let delta = json!({ "stop_reason": stop(reply), "stop_sequence": null });
    let data = json!({ "type": "message_delta", "delta": delta, "usage": usage(reply.usage) });
    events.push(Event::typed("message_delta", data).ends());
    events.push(Event::typed("message_stop", json!({ "type": "message_stop" })));
    events
}

pub(crate) fn ping() -> Event {
    Event::typed("ping", json!({ "type": "ping" }))
}

pub(crate) fn whole(reply: &Reply) -> Value {
    let blocks = reply.parts.iter().map(|part| match part {
        Part::Thought(text) => json!({ "type": "thinking", "thinking": text, "signature": signature(text) }),
        Part::Redacted(data) => json!({ "type": "redacted_thinking", "data": data }),
        Part::Text(text) => json!({ "type": "text", "text": text }),
        Part::Call { id, name, arguments, .. } => {
            // Without a stream the vendor never shows broken JSON.
            let input: Value = serde_json::from_str(arguments).unwrap_or_else(|_| json!({}));
            json!({ "type": "tool_use", "id": id, "name": name, "input": input })
        }
    });
    frame(reply, blocks.collect(), json!(stop(reply)))
}

fn frame(reply: &Reply, content: Value, stop: Value) -> Value {
    json!({
        "id": format!("msg_{:06}", reply.serial), "type": "message", "role": "assistant", "model": reply.model, "content": content,
        "stop_reason": stop, "stop_sequence": null, "usage": usage(reply.usage),
    })
}

fn stop(reply: &Reply) -> &'static str {
    match reply.stop {
        Finish::MaxTokens => "max_tokens",
        Finish::Refusal | Finish::Filter => "refusal",
        Finish::Done if reply.calls() => "tool_use",
        Finish::Done => "end_turn",
    }
}

fn usage(usage: Usage) -> Value {
    json!({
        "input_tokens": usage.input.saturating_sub(usage.cached), "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached, "output_tokens": usage.output, "service_tier": "standard",
    })
}
