//! `OpenAI` responses: items that belong together come together, and thoughts are as they were.

use super::{Checked, Refusal, at_most, empty_list, missing, never_thinks, tool_count, tool_name, unknown, wrong_type};
use crate::talk::{list, string};
use crate::wire::responses::encrypted;
use serde_json::{Value, json};
use tieline_script::Script;

const FIELDS: &str = "background context_management conversation include input instructions max_output_tokens max_tool_calls \
                      metadata model parallel_tool_calls previous_response_id prompt prompt_cache_key prompt_cache_retention \
                      reasoning safety_identifier service_tier store stream stream_options temperature text tool_choice tools \
                      top_logprobs top_p truncation user";
/// What an item of each kind can have.
const ITEMS: [(&str, &str); 4] = [
    ("message", "content id phase role status type"),
    ("function_call", "arguments call_id id name namespace status type"),
    ("function_call_output", "call_id id output status type"),
    ("reasoning", "content encrypted_content id status summary type"),
];

pub(super) fn check(body: &Value, script: &Script) -> Checked {
    let Some(fields) = body.as_object() else { return Ok(()) };
    let strange = |place: &str| Refusal::of(place, Some("unknown_parameter"), format!("Unknown parameter: '{place}'."));
    if let Some(field) = unknown(body, FIELDS).filter(|_| !script.compatible) {
        return Err(strange(field));
    }
    options(body)?;
    tool_count(fields)?;
    for (at, tool) in list(body, "tools").iter().enumerate() {
        let kind = string(tool, "type");
        if kind.is_empty() {
            return Err(missing(&format!("tools[{at}].type")));
        }
        if kind == "function" {
            tool_name(&format!("tools[{at}].name"), &tool["name"])?;
        }
    }
    let input = match &body["input"] {
        Value::String(text) if !text.is_empty() => return Ok(()),
        Value::Array(input) if !input.is_empty() => input,
        other @ (Value::Bool(_) | Value::Number(_) | Value::Object(_)) => {
            return Err(wrong_type("input", "one of a string or array of input items", other));
        }
        _ if body.get("previous_response_id").is_some() => return Ok(()),
        _ => {
            return Err(Refusal::of(
                "input",
                Some("missing_required_parameter"),
                "One of \"input\" or \"previous_response_id\" or 'prompt' or 'conversation_id' must be provided.",
            ));
        }
    };
    for (at, item) in input.iter().enumerate() {
        let kind = kind_of(item);
        let known = ITEMS.iter().find(|(name, _)| *name == kind);
        if let Some(field) = known.and_then(|(_, fields)| unknown(item, fields)).filter(|_| !script.compatible) {
            return Err(strange(&format!("input[{at}].{field}")));
        }
        self::item(at, item, kind, body["store"] != false)?;
    }
    order(input, body)
}

fn kind_of(item: &Value) -> &str {
    item.get("type").and_then(Value::as_str).unwrap_or("message")
}

fn options(body: &Value) -> Checked {
    let model = string(body, "model");
    let unsupported = |param: &str| {
        let text = format!("Unsupported parameter: '{param}' is not supported with this model.");
        Refusal::of(param, Some("unsupported_parameter"), text)
    };
    if never_thinks(&model) {
        if list(body, "include").contains(&json!("reasoning.encrypted_content")) {
            return Err(Refusal::of("include", None, "Encrypted content is not supported with this model."));
        }
        if let Some(field) = body["reasoning"].as_object().and_then(|fields| fields.keys().next()) {
            return Err(unsupported(&format!("reasoning.{field}")));
        }
    }
    match body.get("max_output_tokens").and_then(Value::as_u64) {
        Some(most) if most < 16 => Err(Refusal::of(
            "max_output_tokens",
            Some("integer_below_min_value"),
            format!(
                "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but got {most} instead."
            ),
        )),
        _ => Ok(()),
    }
}

fn item(at: usize, item: &Value, kind: &str, stored: bool) -> Checked {
    let place = |field: &str| format!("input[{at}].{field}");
    let needs = |field: &str| if item.get(field).is_some() { Ok(()) } else { Err(missing(&place(field))) };
    match kind {
        "message" => {
            let role = string(item, "role");
            if !matches!(role.as_str(), "user" | "assistant" | "system" | "developer") {
                return Err(Refusal::of(
                    place("role"),
                    Some("invalid_value"),
                    format!(
                        "Invalid value: '{role}'. Supported values are: 'assistant', 'system', 'developer', and 'user'."
                    ),
                ));
            }
            needs("content")?;
            if item["content"].as_array().is_some_and(Vec::is_empty) {
                return Err(empty_list(&place("content")));
            }
            for (p, part) in list(item, "content").iter().enumerate() {
                let kind = string(part, "type");
                let own = matches!(kind.as_str(), "output_text" | "refusal");
                if own != (role == "assistant") {
                    let wanted = if own {
                        "'input_text', 'input_image', and 'input_file'"
                    } else {
                        "'output_text' and 'refusal'"
                    };
                    return Err(Refusal::of(
                        format!("input[{at}].content[{p}]"),
                        Some("invalid_value"),
                        format!("Invalid value: '{kind}'. Supported values are: {wanted}."),
                    ));
                }
            }
            Ok(())
        }
        "function_call" => {
            needs("call_id")?;
            at_most(&place("call_id"), &string(item, "call_id"), 64)?;
            tool_name(&place("name"), &item["name"])?;
            match &item["arguments"] {
                Value::String(_) => Ok(()),
                other => Err(wrong_type(&place("arguments"), "a string", other)),
            }
        }
        "function_call_output" => {
            needs("call_id")?;
            needs("output")?;
            if item["output"].as_array().is_some_and(Vec::is_empty) {
                return Err(empty_list(&place("output")));
            }
            Ok(())
        }
        "reasoning" => {
            needs("summary")?;
            let id = string(item, "id");
            match &item["encrypted_content"] {
                Value::Null if stored => Ok(()),
                Value::Null => Err(Refusal {
                    status: 404,
                    ..Refusal::of(
                        "input",
                        None,
                        format!(
                            "Item with id '{id}' not found. Items are not persisted when `store` is set to false. Try again \
                             with `store` set to true, or remove this item from your input."
                        ),
                    )
                }),
                proof if *proof == encrypted(&item["summary"]) => Ok(()),
                _ => Err(Refusal::of(
                    "",
                    Some("invalid_encrypted_content"),
                    format!("The encrypted content for item {id} could not be verified."),
                )),
            }
        }
        _ => Ok(()),
    }
}

fn order(input: &[Value], body: &Value) -> Checked {
    let id = |item: &Value| string(item, "call_id");
    let is_call = |item: &&Value| kind_of(item).ends_with("_call") && item.get("call_id").is_some();
    for (at, item) in input.iter().enumerate() {
        let kind = kind_of(item);
        if kind.ends_with("_call_output") {
            let own = input[..at].iter().any(|call| is_call(&call) && id(call) == id(item));
            if !own && body.get("previous_response_id").is_none() {
                let what = kind.trim_end_matches("_output").replace('_', " ");
                let text = format!("No tool call found for {what} output with call_id {}.", id(item));
                return Err(Refusal::of("input", None, text));
            }
        }
        if is_call(&item) {
            let mut after = input[at + 1..].iter();
            if !after.any(|output| kind_of(output).ends_with("_call_output") && id(output) == id(item)) {
                let what = kind.replace('_', " ");
                let text = format!("No tool output found for {what} {}.", id(item));
                return Err(Refusal::of("input", None, text));
            }
        }
        if kind == "reasoning" {
            let own = |next: &Value| {
                kind_of(next) == "reasoning"
                    || is_call(&next)
                    || (kind_of(next) == "message" && next["role"] == "assistant")
            };
            if !input.get(at + 1).is_some_and(own) {
                let id = string(item, "id");
                let text = format!("Item '{id}' of type 'reasoning' was provided without its required following item.");
                return Err(Refusal::of("input", None, text));
            }
        }
    }
    Ok(())
}
