//! `OpenAI` chat completions: each call is answered directly behind it.

use super::{Checked, Refusal, at_most, empty_list, missing, never_thinks, tool_count, tool_name, unknown, wrong_type};
use crate::talk::{list, string};
use crate::wire::signature;
use serde_json::Value;
use tieline_script::Script;

const FIELDS: &str = "audio frequency_penalty function_call functions logit_bias logprobs max_completion_tokens max_tokens \
                      messages metadata modalities model n parallel_tool_calls prediction presence_penalty prompt_cache_key \
                      prompt_cache_retention reasoning_effort response_format safety_identifier seed service_tier stop store \
                      stream stream_options temperature tool_choice tools top_logprobs top_p user verbosity web_search_options";
const MESSAGE: &str = "annotations audio content function_call name refusal role tool_call_id tool_calls";
const ROLES: &str = "'system', 'assistant', 'user', 'function', 'tool', and 'developer'";

pub(super) fn check(body: &Value, script: &Script) -> Checked {
    let Some(fields) = body.as_object() else { return Ok(()) };
    if let Some(field) = unknown(body, FIELDS).filter(|_| !script.compatible) {
        return Err(Refusal::from(format!("Unrecognized request argument supplied: {field}")));
    }
    options(body)?;
    tool_count(fields)?;
    for (at, tool) in list(body, "tools").iter().enumerate() {
        let kind = string(tool, "type");
        if !matches!(kind.as_str(), "function" | "custom") {
            return Err(missing(&format!("tools[{at}].type")));
        }
        tool_name(&format!("tools[{at}].{kind}.name"), &tool[&kind]["name"])?;
    }
    let Some(messages) = body.get("messages") else { return Err(missing("messages")) };
    let Some(messages) = messages.as_array() else {
        return Err(wrong_type("messages", "an array of objects", messages));
    };
    if messages.is_empty() {
        return Err(empty_list("messages"));
    }
    for (at, message) in messages.iter().enumerate() {
        self::message(at, message, script)?;
    }
    order(messages, script)
}

fn options(body: &Value) -> Checked {
    let model = string(body, "model");
    if body.get("stream_options").is_some_and(|options| !options.is_null()) && body["stream"] != true {
        return Err(Refusal::of(
            "stream_options",
            None,
            "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
        ));
    }
    let newer = ["o1", "o3", "o4", "gpt-5"].iter().any(|start| model.starts_with(start));
    if newer && body.get("max_tokens").is_some() {
        return Err(Refusal::of(
            "max_tokens",
            Some("unsupported_parameter"),
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
        ));
    }
    if never_thinks(&model) && body.get("reasoning_effort").is_some() {
        return Err(Refusal::from("Unrecognized request argument supplied: reasoning_effort"));
    }
    Ok(())
}

fn message(at: usize, message: &Value, script: &Script) -> Checked {
    let role = string(message, "role");
    let place = |field: &str| format!("messages[{at}].{field}");
    if !matches!(role.as_str(), "system" | "developer" | "user" | "assistant" | "tool" | "function") {
        return Err(Refusal::of(
            place("role"),
            Some("invalid_value"),
            format!("Invalid value: '{role}'. Supported values are: {ROLES}."),
        ));
    }
    // Thoughts come back in the field in which they were told, and in no other.
    let strange = unknown(message, &format!("{MESSAGE} {}", script.reasoning_field));
    if let Some(field) = strange.filter(|_| !script.compatible) {
        return Err(Refusal::from(format!(
            "Additional properties are not allowed ('{field}' was unexpected) - 'messages.{at}'"
        )));
    }
    let calls = list(message, "tool_calls");
    match &message["content"] {
        Value::Array(parts) if parts.is_empty() => return Err(empty_list(&place("content"))),
        Value::String(_) | Value::Array(_) => {}
        Value::Null if role == "assistant" && (!calls.is_empty() || message["refusal"].is_string()) => {}
        Value::Null => {
            let text = "Invalid value for 'content': expected a string, got null.";
            return Err(Refusal::of(format!("messages.[{at}].content"), None, text));
        }
        other => return Err(wrong_type(&place("content"), "one of a string or array of objects", other)),
    }
    if message.get("tool_calls").is_some_and(|calls| calls.as_array().is_some_and(Vec::is_empty)) {
        return Err(empty_list(&place("tool_calls")));
    }
    for (c, call) in calls.iter().enumerate() {
        let place = |field: &str| format!("messages[{at}].tool_calls[{c}].{field}");
        at_most(&place("id"), &string(call, "id"), 40)?;
        if call["type"] == "custom" {
            continue;
        }
        if call["type"] != "function" {
            return Err(missing(&place("type")));
        }
        tool_name(&place("function.name"), &call["function"]["name"])?;
        let arguments = &call["function"]["arguments"];
        let Some(arguments) = arguments.as_str() else {
            return Err(wrong_type(&place("function.arguments"), "a string", arguments));
        };
        // OpenAI itself takes any text; the servers that speak its format parse it and fail.
        if serde_json::from_str::<Value>(arguments).is_err() {
            return Err(Refusal::from(format!("{} is not valid JSON", place("function.arguments"))));
        }
    }
    for detail in list(message, crate::wire::chat::DETAILS) {
        if string(detail, "signature") != signature(&string(detail, "text")) {
            return Err(Refusal::from(format!("messages.{at}: Invalid `signature` in `reasoning_details`")));
        }
    }
    Ok(())
}

/// Calls and results belong together, and the sides take turns.
fn order(messages: &[Value], script: &Script) -> Checked {
    let mut open: Vec<String> = Vec::new();
    let mut answered = false;
    let mut before = "";
    for (at, message) in messages.iter().enumerate() {
        let role = message["role"].as_str().unwrap_or_default();
        if role == "tool" {
            let id = string(message, "tool_call_id");
            let known = open.iter().position(|call| *call == id);
            let Some(known) = known else {
                let text = if answered || !open.is_empty() {
                    format!(
                        "Invalid parameter: 'tool_call_id' of '{id}' not found in 'tool_calls' of previous message."
                    )
                } else {
                    "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with \
                     'tool_calls'."
                        .into()
                };
                return Err(Refusal::of(format!("messages.[{at}].role"), None, text));
            };
            open.remove(known);
            answered = true;
            before = role;
            continue;
        }
        all_answered(&open, at)?;
        // The templates of many open models demand it.
        if role == before && matches!(role, "user" | "assistant") && !script.compatible {
            return Err("Conversation roles must alternate user/assistant/user/assistant/...".into());
        }
        open = list(message, "tool_calls").iter().map(|call| string(call, "id")).collect();
        answered = false;
        before = role;
    }
    all_answered(&open, messages.len())
}

fn all_answered(open: &[String], at: usize) -> Checked {
    if open.is_empty() {
        return Ok(());
    }
    Err(Refusal::of(
        format!("messages.[{at}].role"),
        None,
        format!(
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The \
             following tool_call_ids did not have response messages: {}",
            open.join(", ")
        ),
    ))
}
