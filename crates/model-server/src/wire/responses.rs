//! `OpenAI` responses.

use super::{Event, Part, Reply, now, pieces, signature};
use crate::talk::{Asked, Format, Said, Tool, list, string, texts, words};
use serde_json::{Value, json};
use tieline_script::{Finish, Usage};

pub(crate) fn read(body: &Value) -> Asked {
    let mut said = Vec::new();
    let mut tools = offered(list(body, "tools"));
    if let Some(text) = body.get("input").and_then(Value::as_str) {
        said.extend(words([text], false));
    }
    for item in list(body, "input") {
        let kind = item.get("type").and_then(Value::as_str).unwrap_or("message");
        if kind == "message" && item.get("role").and_then(Value::as_str) == Some("user") {
            said.extend(words(texts(item.get("content").unwrap_or(&Value::Null)), false));
        } else if kind == "additional_tools" {
            tools.extend(offered(list(item, "tools")));
        } else if kind.ends_with("_call_output") {
            let output = item.get("output").unwrap_or(&Value::Null);
            said.push(Said::Result { id: string(item, "call_id"), text: texts(output).join("\n") });
        } else if kind.ends_with("_call") && item.get("call_id").is_some() {
            said.push(Said::Calls(vec![string(item, "call_id")]));
        }
    }
    Asked {
        format: Format::Responses,
        model: string(body, "model"),
        stream: body.get("stream").and_then(Value::as_bool).unwrap_or(false),
        tools,
        said,
        schema: body.pointer("/text/format/schema").cloned(),
        extra: list(body, "include").contains(&json!("reasoning.encrypted_content")),
        array: false,
    }
}

/// The tools in a list, and those in its namespaces.
fn offered(tools: &[Value]) -> Vec<Tool> {
    let namespaces = tools.iter().filter(|tool| tool.get("type") == Some(&json!("namespace")));
    let inside = namespaces.flat_map(|space| list(space, "tools"));
    let callable = |tool: &&Value| matches!(tool.get("type").and_then(Value::as_str), Some("function" | "custom"));
    let read = |tool: &Value| Tool {
        name: string(tool, "name"),
        schema: tool.get("parameters").cloned().unwrap_or_default(),
        free: tool.get("type") == Some(&json!("custom")),
    };
    tools.iter().chain(inside).filter(callable).map(read).collect()
}

/// Numbers the events while they are written.
struct Stream {
    events: Vec<Event>,
}

impl Stream {
    fn push(&mut self, name: &'static str, mut data: Value) {
        data["type"] = json!(name);
        data["sequence_number"] = json!(self.events.len());
        self.events.push(Event::typed(name, data));
    }

    /// The pieces of a text, then the whole.
    fn text(&mut self, names: (&'static str, &'static str), base: &Value, (text, key): (&str, &str), chunk: usize) {
        for piece in pieces(text, chunk) {
            let mut data = base.clone();
            data["delta"] = json!(piece);
            self.push(names.0, data);
            if let Some(event) = self.events.last_mut() {
                event.content = true;
            }
        }
        let mut data = base.clone();
        data[key] = json!(text);
        self.push(names.1, data);
    }
}

pub(crate) fn events(reply: &Reply) -> Vec<Event> {
    let mut stream = Stream { events: Vec::new() };
    let started = frame(reply, "in_progress", json!([]));
    stream.push("response.created", json!({ "response": started }));
    stream.push("response.in_progress", json!({ "response": started }));
    for (at, part) in reply.parts.iter().enumerate() {
        let item = item(reply, at, part, true);
        let base = json!({ "item_id": item["id"], "output_index": at });
        stream.push(
            "response.output_item.added",
            json!({ "output_index": at, "item": self::item(reply, at, part, false) }),
        );
        match part {
            Part::Thought(text) | Part::Redacted(text) => thought(&mut stream, &base, text, reply.chunk),
            Part::Text(text) => said(&mut stream, &base, text, reply),
            Part::Call { arguments, free, .. } => {
                let (names, key) = if *free {
                    (("response.custom_tool_call_input.delta", "response.custom_tool_call_input.done"), "input")
                } else {
                    (("response.function_call_arguments.delta", "response.function_call_arguments.done"), "arguments")
                };
                stream.text(names, &base, (arguments, key), reply.chunk);
            }
        }
        stream.push("response.output_item.done", json!({ "output_index": at, "item": item }));
    }
    let end = if status(reply) == "completed" { "response.completed" } else { "response.incomplete" };
    stream.push(end, json!({ "response": whole(reply) }));
    if let Some(event) = stream.events.last_mut() {
        event.ends = true;
    }
    stream.events
}

fn thought(stream: &mut Stream, base: &Value, text: &str, chunk: usize) {
    let mut base = base.clone();
    base["summary_index"] = json!(0);
    let part = |text: &str| {
        let mut data = base.clone();
        data["part"] = json!({ "type": "summary_text", "text": text });
        data
    };
    stream.push("response.reasoning_summary_part.added", part(""));
    let names = ("response.reasoning_summary_text.delta", "response.reasoning_summary_text.done");
    stream.text(names, &base, (text, "text"), chunk);
    stream.push("response.reasoning_summary_part.done", part(text));
}

fn said(stream: &mut Stream, base: &Value, text: &str, reply: &Reply) {
    let mut base = base.clone();
    base["content_index"] = json!(0);
    let part = |text: &str| {
        let mut data = base.clone();
        data["part"] = content(reply, text);
        data
    };
    stream.push("response.content_part.added", part(""));
    if reply.stop == Finish::Refusal {
        stream.text(("response.refusal.delta", "response.refusal.done"), &base, (text, "refusal"), reply.chunk);
    } else {
        let mut base = base.clone();
        base["logprobs"] = json!([]);
        stream.text(("response.output_text.delta", "response.output_text.done"), &base, (text, "text"), reply.chunk);
    }
    stream.push("response.content_part.done", part(text));
}

pub(crate) fn whole(reply: &Reply) -> Value {
    let items = reply.parts.iter().enumerate().map(|(at, part)| item(reply, at, part, true));
    frame(reply, status(reply), items.collect())
}

/// An item of the output: empty when it is announced, and in full.
fn item(reply: &Reply, at: usize, part: &Part, full: bool) -> Value {
    let id = |prefix: &str| format!("{prefix}_{:06}_{at}", reply.serial);
    let status = if full { "completed" } else { "in_progress" };
    match part {
        Part::Thought(text) | Part::Redacted(text) => {
            let summary = if full { json!([{ "type": "summary_text", "text": text }]) } else { json!([]) };
            let mut item = json!({ "type": "reasoning", "id": id("rs"), "summary": summary });
            if reply.extra {
                item["encrypted_content"] = if full { encrypted(&item["summary"]) } else { json!("") };
            }
            item
        }
        Part::Text(text) => {
            let content = if full { json!([content(reply, text)]) } else { json!([]) };
            json!({ "type": "message", "id": id("msg"), "status": status, "role": "assistant", "content": content })
        }
        Part::Call { id: call, name, arguments, free } => {
            let (kind, prefix, key) =
                if *free { ("custom_tool_call", "ctc", "input") } else { ("function_call", "fc", "arguments") };
            let text = if full { arguments.as_str() } else { "" };
            json!({ "type": kind, "id": id(prefix), "status": status, "call_id": call, "name": name, key: text })
        }
    }
}

/// Stands for the whole thought, which only the vendor can read.
pub(crate) fn encrypted(summary: &Value) -> Value {
    signature(&summary.to_string()).into()
}

fn content(reply: &Reply, text: &str) -> Value {
    match reply.stop {
        Finish::Refusal => json!({ "type": "refusal", "refusal": text }),
        _ => json!({ "type": "output_text", "text": text, "annotations": [], "logprobs": [] }),
    }
}

fn status(reply: &Reply) -> &'static str {
    match reply.stop {
        Finish::Done | Finish::Refusal => "completed",
        Finish::MaxTokens | Finish::Filter => "incomplete",
    }
}

fn frame(reply: &Reply, status: &str, output: Value) -> Value {
    let (details, usage) = match (status, reply.stop) {
        ("in_progress", _) => (Value::Null, Value::Null),
        (_, Finish::MaxTokens) => (json!({ "reason": "max_output_tokens" }), usage(reply.usage)),
        (_, Finish::Filter) => (json!({ "reason": "content_filter" }), usage(reply.usage)),
        _ => (Value::Null, usage(reply.usage)),
    };
    json!({
        "id": format!("resp_{:06}", reply.serial), "object": "response", "created_at": now(), "status": status, "error": null,
        "incomplete_details": details, "instructions": null, "metadata": {}, "model": reply.model, "output": output,
        "parallel_tool_calls": true, "previous_response_id": null, "store": false, "temperature": 1.0, "tool_choice": "auto",
        "tools": [], "top_p": 1.0, "truncation": "disabled", "usage": usage,
    })
}

fn usage(usage: Usage) -> Value {
    json!({
        "input_tokens": usage.input, "input_tokens_details": { "cached_tokens": usage.cached }, "output_tokens": usage.output,
        "output_tokens_details": { "reasoning_tokens": usage.reasoning }, "total_tokens": usage.input + usage.output,
    })
}
