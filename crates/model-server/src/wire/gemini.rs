//! Gemini.

use super::{Event, Part, Reply, pieces, signature};
use crate::talk::{Asked, Format, Said, Tool, list, string, words};
use serde_json::{Value, json};
use tieline_script::{Finish, Usage};

pub(crate) fn read(body: &Value, model: &str, stream: bool, sse: bool) -> Asked {
    let mut said = Vec::new();
    for content in list(body, "contents") {
        let parts = list(content, "parts");
        if content.get("role").and_then(Value::as_str) == Some("model") {
            let calls = parts.iter().filter_map(|part| part.get("functionCall"));
            let ids: Vec<_> = calls.map(|call| string(call, "id")).collect();
            if !ids.is_empty() {
                said.push(Said::Calls(ids));
            }
            continue;
        }
        let results: Vec<_> = parts.iter().filter_map(|part| part.get("functionResponse")).collect();
        let beside = !results.is_empty();
        said.extend(results.into_iter().map(|result| Said::Result {
            id: string(result, "id"),
            text: result.get("response").map(readable).unwrap_or_default(),
        }));
        said.extend(words(parts.iter().filter_map(|part| part.get("text")?.as_str()), beside));
    }
    let declared = list(body, "tools").iter().flat_map(|tool| list(tool, "functionDeclarations"));
    let tools = declared.map(|tool| {
        let schema = tool.get("parametersJsonSchema").or_else(|| tool.get("parameters"));
        Tool { name: string(tool, "name"), schema: schema.cloned().unwrap_or_default(), free: false }
    });
    let config = body.get("generationConfig").unwrap_or(&Value::Null);
    let schema = config.get("responseJsonSchema").or_else(|| config.get("responseSchema")).cloned();
    let json_wanted = config.get("responseMimeType") == Some(&json!("application/json"));
    Asked {
        format: Format::Gemini,
        model: model.into(),
        stream,
        tools: tools.collect(),
        said,
        schema: schema.or_else(|| json_wanted.then(|| json!({ "type": "object" }))),
        extra: false,
        array: !sse,
    }
}

/// A tool's answer is an object, mostly with one text in it.
fn readable(response: &Value) -> String {
    let text = ["output", "result", "error", "content"].iter().find_map(|key| response.get(*key)?.as_str());
    text.map_or_else(|| response.to_string(), str::to_owned)
}

pub(crate) fn events(reply: &Reply) -> Vec<Event> {
    let mut events = Vec::new();
    let mut signed = false;
    for part in &reply.parts {
        let wire: Vec<Value> = match part {
            Part::Thought(text) | Part::Redacted(text) => {
                pieces(text, reply.chunk).into_iter().map(|text| json!({ "text": text, "thought": true })).collect()
            }
            Part::Text(text) => pieces(text, reply.chunk).into_iter().map(|text| json!({ "text": text })).collect(),
            Part::Call { .. } => call(part, &mut signed).into_iter().collect(),
        };
        events.extend(wire.into_iter().map(|part| Event::data(&chunk(reply, json!([part]), None)).content()));
    }
    events.push(Event::data(&chunk(reply, json!([{ "text": "" }]), Some(finish(reply)))).ends());
    events
}

pub(crate) fn whole(reply: &Reply) -> Value {
    let mut signed = false;
    let parts = reply.parts.iter().filter_map(|part| match part {
        Part::Thought(text) | Part::Redacted(text) => Some(json!({ "text": text, "thought": true })),
        Part::Text(text) => Some(json!({ "text": text })),
        Part::Call { .. } => call(part, &mut signed),
    });
    chunk(reply, parts.collect(), Some(finish(reply)))
}

/// Arguments are an object here: broken ones cannot be said, the vendor leaves out the call. Only the first of several calls
/// is `signed`.
fn call(part: &Part, signed: &mut bool) -> Option<Value> {
    let Part::Call { id, name, arguments, .. } = part else { return None };
    let args: Value = serde_json::from_str(arguments).ok()?;
    let mut part = json!({ "functionCall": { "id": id, "name": name, "args": args } });
    if !std::mem::replace(signed, true) {
        part["thoughtSignature"] = json!(signature(name));
    }
    Some(part)
}

fn chunk(reply: &Reply, parts: Value, finish: Option<&str>) -> Value {
    let mut candidate = json!({ "content": { "parts": parts, "role": "model" }, "index": 0 });
    if let Some(finish) = finish {
        candidate["finishReason"] = json!(finish);
    }
    json!({
        "candidates": [candidate], "usageMetadata": usage(reply.usage), "modelVersion": reply.model,
        "responseId": format!("response-{:06}", reply.serial),
    })
}

fn finish(reply: &Reply) -> &'static str {
    let broken = reply.parts.iter().any(|part| matches!(part, Part::Call { .. }) && call(part, &mut false).is_none());
    match reply.stop {
        Finish::MaxTokens => "MAX_TOKENS",
        Finish::Refusal => "PROHIBITED_CONTENT",
        Finish::Filter => "SAFETY",
        Finish::Done if broken => "MALFORMED_FUNCTION_CALL",
        Finish::Done => "STOP",
    }
}

fn usage(usage: Usage) -> Value {
    let mut value = json!({
        "promptTokenCount": usage.input, "candidatesTokenCount": usage.output.saturating_sub(usage.reasoning),
        "totalTokenCount": usage.input + usage.output,
    });
    for (key, count) in [("cachedContentTokenCount", usage.cached), ("thoughtsTokenCount", usage.reasoning)] {
        if count > 0 {
            value[key] = json!(count);
        }
    }
    value
}
