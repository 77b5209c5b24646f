//! Anthropic messages: each call has its result in the next message, thoughts are signed, nothing is empty.

use super::{Checked, Refusal, is_name, unknown};
use crate::server::Recorded;
use crate::talk::{list, string};
use crate::wire::signature;
use serde_json::{Value, json};

/// The versions that the vendor has named, the newest by its own library of November 2026.
const VERSIONS: [&str; 3] = ["2023-01-01", "2023-06-01", "2026-10-21"];
const FIELDS: &str = "cache_control max_tokens messages metadata model output_config service_tier stop_sequences stream system \
                      temperature thinking tool_choice tools top_k top_p";
/// What a block of each kind can have.
const BLOCKS: [(&str, &str); 6] = [
    ("text", "cache_control citations text type"),
    ("image", "cache_control source type"),
    ("thinking", "signature thinking type"),
    ("redacted_thinking", "data type"),
    ("tool_use", "cache_control caller id input name type"),
    ("tool_result", "cache_control content is_error tool_use_id type"),
];
const TOOL: &str = "allowed_callers cache_control defer_loading description eager_input_streaming input_examples input_schema \
                    name strict type";
/// So many marks for the cache are allowed.
const MAX_CACHE_MARKS: usize = 4;

pub(super) fn headers(request: &Recorded) -> Checked {
    if request.header("x-api-key").is_none() && request.header("authorization").is_none() {
        return Err(Refusal::status(401, "x-api-key header is required"));
    }
    match request.header("anthropic-version") {
        None => Err("anthropic-version: header is required".into()),
        Some(version) if VERSIONS.contains(&version) => Ok(()),
        Some(other) => Err(Refusal::from(format!("anthropic-version: \"{other}\" is not a valid version"))),
    }
}

fn extra(place: &str) -> Refusal {
    Refusal::from(format!("{place}: Extra inputs are not permitted"))
}

pub(super) fn check(body: &Value, beta: bool) -> Checked {
    // What is tried out has fields of its own.
    if let Some(field) = unknown(body, FIELDS).filter(|_| !beta) {
        return Err(extra(field));
    }
    let Some(most) = body.get("max_tokens").and_then(Value::as_u64) else {
        return Err("max_tokens: Field required".into());
    };
    if most == 0 {
        return Err("max_tokens: Input should be greater than or equal to 1".into());
    }
    if body.get("messages").is_none() {
        return Err("messages: Field required".into());
    }
    thinking(body, most)?;
    tools(body, beta)?;
    match &body["system"] {
        Value::Array(blocks) => {
            for (at, block) in blocks.iter().enumerate() {
                if block["text"].as_str().is_none_or(str::is_empty) {
                    return Err(Refusal::from(format!("system.{at}: text content blocks must be non-empty")));
                }
            }
        }
        Value::Null | Value::String(_) => {}
        _ => return Err("system: Input should be a valid list".into()),
    }
    if marks(body) > MAX_CACHE_MARKS {
        let found = marks(body);
        return Err(Refusal::from(format!(
            "A maximum of {MAX_CACHE_MARKS} blocks with cache_control may be provided. Found {found}."
        )));
    }
    let messages = joined(list(body, "messages"), beta)?;
    if messages.is_empty() {
        return Err("messages: at least one message is required".into());
    }
    if messages[0].0 != "user" {
        return Err("messages: first message must use the \"user\" role".into());
    }
    if messages.last().is_some_and(|(role, _)| *role == "assistant") {
        return Err(
            "This model does not support assistant message prefill. The conversation must end with a user message."
                .into(),
        );
    }
    for (m, (_, blocks)) in messages.iter().enumerate() {
        if blocks.is_empty() {
            return Err(Refusal::from(format!(
                "messages.{m}: all messages must have non-empty content except for the optional final assistant message"
            )));
        }
        for (b, block) in blocks.iter().enumerate() {
            self::block(&format!("messages.{m}.content.{b}"), block, beta)?;
        }
    }
    order(&messages)?;
    open_thoughts(body, &messages)
}

fn marks(value: &Value) -> usize {
    match value {
        Value::Array(all) => all.iter().map(marks).sum(),
        Value::Object(all) => {
            usize::from(all.get("cache_control").is_some_and(Value::is_object)) + all.values().map(marks).sum::<usize>()
        }
        _ => 0,
    }
}

/// The roles with their blocks. Two messages of a side in a row are one, for the vendor, too.
fn joined(messages: &[Value], beta: bool) -> Result<Vec<(&str, Vec<Value>)>, Refusal> {
    let mut all: Vec<(&str, Vec<Value>)> = Vec::new();
    for (m, message) in messages.iter().enumerate() {
        if let Some(field) = unknown(message, "content role") {
            return Err(extra(&format!("messages.{m}.{field}")));
        }
        let role = message["role"].as_str().unwrap_or_default();
        // Tried out: a word of the system in the middle of a conversation, as Claude's own agent sends it.
        if beta && role == "system" {
            continue;
        }
        if !matches!(role, "user" | "assistant") {
            return Err(Refusal::from(format!(
                "messages: Unexpected role \"{role}\". The Messages API accepts a top-level `system` parameter, not \"system\" \
                 as an input message role."
            )));
        }
        let blocks = match &message["content"] {
            Value::String(text) if text.is_empty() => Vec::new(),
            Value::String(text) => vec![json!({ "type": "text", "text": text })],
            Value::Array(blocks) => blocks.clone(),
            _ => return Err(Refusal::from(format!("messages.{m}.content: Input should be a valid list"))),
        };
        match all.last_mut() {
            Some((before, has)) if *before == role && !blocks.is_empty() => has.extend(blocks),
            _ => all.push((role, blocks)),
        }
    }
    Ok(all)
}

fn block(place: &str, block: &Value, beta: bool) -> Checked {
    let kind = string(block, "type");
    let wrong = |text: &str| Err(Refusal::from(format!("{place}.{text}")));
    let known = BLOCKS.iter().find(|(name, _)| *name == kind);
    if let Some(field) = known.and_then(|(_, fields)| unknown(block, fields)).filter(|_| !beta) {
        return Err(extra(&format!("{place}.{kind}.{field}")));
    }
    match kind.as_str() {
        "" => wrong("type: Field required"),
        "text" => match block["text"].as_str() {
            None => wrong("text.text: Field required"),
            Some("") if block.get("cache_control").is_some() => {
                wrong("text: cache_control cannot be set for empty text blocks")
            }
            Some("") => Err("messages: text content blocks must be non-empty".into()),
            Some(text) if text.trim().is_empty() => {
                Err("messages: text content blocks must contain non-whitespace text".into())
            }
            Some(_) => Ok(()),
        },
        "thinking" if block.get("signature").is_none() => wrong("thinking.signature: Field required"),
        "thinking" if string(block, "signature") != signature(&string(block, "thinking")) => {
            Err(Refusal::from(format!("{place}: Invalid `signature` in `thinking` block")))
        }
        "redacted_thinking" if string(block, "data").is_empty() => {
            Err(Refusal::from(format!("{place}: Invalid `data` in `redacted_thinking` block")))
        }
        "tool_use" if !is_name(&string(block, "id"), "_-", usize::MAX) => {
            wrong("tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
        }
        "tool_use" if !is_name(&string(block, "name"), "_-", 200) => {
            wrong("tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{1,200}$'")
        }
        "tool_use" if !block["input"].is_object() => wrong("tool_use.input: Input should be a valid dictionary"),
        "tool_result" => {
            for (at, part) in list(block, "content").iter().enumerate() {
                self::block(&format!("{place}.tool_result.content.{at}"), part, beta)?;
            }
            let nothing = match &block["content"] {
                Value::Null => true,
                Value::String(text) => text.is_empty(),
                Value::Array(parts) => parts.is_empty(),
                _ => return wrong("tool_result.content: Input should be a valid list"),
            };
            if nothing && block["is_error"] == true {
                return wrong("tool_result: content cannot be empty if `is_error` is true");
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Calls and results belong together: results directly behind, and before anything else.
fn order(messages: &[(&str, Vec<Value>)]) -> Checked {
    let of = |blocks: &[Value], kind: &str, key: &str| -> Vec<String> {
        blocks.iter().filter(|block| block["type"] == kind).map(|block| string(block, key)).collect()
    };
    let mut seen: Vec<String> = Vec::new();
    for (m, (role, blocks)) in messages.iter().enumerate() {
        let before = m.checked_sub(1).map(|at| of(&messages[at].1, "tool_use", "id")).unwrap_or_default();
        let results = of(blocks, "tool_result", "tool_use_id");
        for (b, block) in blocks.iter().enumerate().filter(|(_, block)| block["type"] == "tool_result") {
            let id = string(block, "tool_use_id");
            if *role == "assistant" || !before.contains(&id) {
                return Err(Refusal::from(format!(
                    "messages.{m}.content.{b}: unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each `tool_result` \
                     block must have a corresponding `tool_use` block in the previous message."
                )));
            }
            if results.iter().filter(|other| **other == id).count() > 1 {
                return Err(Refusal::from(format!(
                    "messages.{m}.content.{b}: each tool_use must have a single result. Found multiple `tool_result` blocks with \
                     id: {id}"
                )));
            }
        }
        // What stands before the results hides them.
        let first: Vec<String> = blocks
            .iter()
            .take_while(|block| block["type"] == "tool_result")
            .map(|block| string(block, "tool_use_id"))
            .collect();
        let lost: Vec<&str> = before.iter().filter(|id| !first.contains(id)).map(String::as_str).collect();
        if !lost.is_empty() {
            return Err(Refusal::from(format!(
                "messages.{}: `tool_use` ids were found without `tool_result` blocks immediately after: {}. Each `tool_use` block \
                 must have a corresponding `tool_result` block in the next message.",
                m - 1,
                lost.join(", ")
            )));
        }
        for id in of(blocks, "tool_use", "id") {
            if *role == "user" {
                return Err(Refusal::from(format!(
                    "messages.{m}: `tool_use` blocks can only be in `assistant` messages"
                )));
            }
            if seen.contains(&id) {
                return Err("messages: `tool_use` ids must be unique".into());
            }
            seen.push(id);
        }
    }
    Ok(())
}

fn thinking(body: &Value, most: u64) -> Checked {
    let thinking = &body["thinking"];
    let model = string(body, "model");
    let older = ["claude-3", "-4-0", "-4-1", "-4-2025", "-4-5"].iter().any(|part| model.contains(part));
    match thinking["type"].as_str() {
        Some("adaptive") if older => Err("adaptive thinking is not supported on this model".into()),
        Some("enabled") => {
            let budget = thinking["budget_tokens"].as_u64().unwrap_or(0);
            if budget < 1024 {
                return Err("thinking.enabled.budget_tokens: Input should be greater than or equal to 1024".into());
            }
            if most <= budget {
                return Err("`max_tokens` must be greater than `thinking.budget_tokens`.".into());
            }
            if body.get("temperature").is_some_and(|value| *value != json!(1) && *value != json!(1.0)) {
                return Err("`temperature` may only be set to 1 when thinking is enabled.".into());
            }
            Ok(())
        }
        Some("adaptive" | "disabled") | None => Ok(()),
        Some(other) => Err(Refusal::from(format!(
            "thinking: Input tag '{other}' found using 'type' does not match any of the expected tags: 'adaptive', 'disabled', \
             'enabled'"
        ))),
    }
}

/// A model that was told how long to think begins the steps of its turn with its thoughts.
fn open_thoughts(body: &Value, messages: &[(&str, Vec<Value>)]) -> Checked {
    if body["thinking"]["type"] != "enabled" {
        return Ok(());
    }
    let goes_on = |blocks: &[Value]| blocks.iter().any(|block| block["type"] == "tool_result");
    let is_thought = |block: &Value| block["type"] == "thinking" || block["type"] == "redacted_thinking";
    let last = messages.len() - 1;
    let open = goes_on(&messages[last].1) && last > 0;
    let Some(first) = messages.get(last.wrapping_sub(1)).filter(|_| open).and_then(|(_, blocks)| blocks.first()) else {
        return Ok(());
    };
    if is_thought(first) {
        return Ok(());
    }
    Err(Refusal::from(format!(
        "messages.{}.content.0.type: Expected `thinking` or `redacted_thinking`, but found `{}`. When `thinking` is enabled, a final \
         `assistant` message must start with a thinking block (preceeding the lastmost set of `tool_use` and `tool_result` \
         blocks).",
        last - 1,
        string(first, "type")
    )))
}

fn tools(body: &Value, beta: bool) -> Checked {
    let tools = list(body, "tools");
    let mut names = Vec::new();
    for (at, tool) in tools.iter().enumerate() {
        let name = string(tool, "name");
        // A tool with another type is one of the vendor's own.
        if matches!(tool.get("type").and_then(Value::as_str), None | Some("custom")) {
            if let Some(field) = unknown(tool, TOOL).filter(|_| !beta) {
                return Err(extra(&format!("tools.{at}.custom.{field}")));
            }
            if !is_name(&name, "_-", 128) {
                return Err(Refusal::from(format!(
                    "tools.{at}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
                )));
            }
        }
        if names.contains(&name) {
            return Err("tools: Tool names must be unique.".into());
        }
        names.push(name);
    }
    Ok(())
}
