//! Schemas of tools that a vendor does not take.

use super::{Checked, Refusal, is_name};
use crate::talk::{Format, list, string};
use serde_json::{Value, json};

/// What only Gemini's own form of schemas knows; anything else in it is refused.
const GEMINI: &str = "anyOf default description enum example format items maxItems maxLength maxProperties maximum minItems \
                      minLength minProperties minimum nullable pattern properties propertyOrdering required title type";

/// What is wrong with the schema of a tool.
pub(super) fn check(format: Format, body: &Value) -> Checked {
    let tools = list(body, "tools").iter();
    let tools: Vec<&Value> = match format {
        Format::Gemini => tools.flat_map(|tool| list(tool, "functionDeclarations")).collect(),
        _ => tools.collect(),
    };
    for (at, tool) in tools.into_iter().enumerate() {
        let typed = tool.get("type").and_then(Value::as_str);
        match format {
            Format::Chat if typed == Some("function") => {
                let function = &tool["function"];
                openai(&string(function, "name"), &function["parameters"])?;
            }
            Format::Responses if typed == Some("function") => openai(&string(tool, "name"), &tool["parameters"])?,
            // A tool with another type is one of the vendor's own.
            Format::Messages if matches!(typed, None | Some("custom")) => anthropic(at, &tool["input_schema"])?,
            Format::Gemini => {
                let place = format!("tools[0].function_declarations[{at}].parameters");
                gemini(&place, &tool["parameters"])?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn openai(name: &str, schema: &Value) -> Checked {
    if schema.is_null() {
        return Ok(());
    }
    if schema["type"] != "object" {
        let found = schema["type"].as_str().unwrap_or("None");
        return Err(Refusal::from(format!(
            "Invalid schema for function '{name}': schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{found}\"'."
        )));
    }
    if ["oneOf", "anyOf", "allOf", "enum", "not"].iter().any(|key| schema.get(*key).is_some()) {
        return Err(Refusal::from(format!(
            "Invalid schema for function '{name}': schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at \
             the top level."
        )));
    }
    if bare_array(schema) {
        return Err(Refusal::from(format!("Invalid schema for function '{name}': array schema missing items.")));
    }
    Ok(())
}

/// Whether there is an array of nothing anywhere in a schema.
fn bare_array(schema: &Value) -> bool {
    match schema {
        Value::Object(all) => (schema["type"] == "array" && !all.contains_key("items")) || all.values().any(bare_array),
        Value::Array(all) => all.iter().any(bare_array),
        _ => false,
    }
}

fn anthropic(at: usize, schema: &Value) -> Checked {
    match &schema["type"] {
        Value::Null => return Err(format!("tools.{at}.custom.input_schema.type: Field required").into()),
        kind if kind != "object" => {
            return Err(format!("tools.{at}.custom.input_schema.type: Input should be 'object'").into());
        }
        _ => {}
    }
    if schema["properties"].as_object().is_some_and(|all| all.keys().any(|key| !is_name(key, "_.-", 64))) {
        return Err(Refusal::from(format!(
            "tools.{at}.custom.input_schema.properties: Property keys should match pattern '^[a-zA-Z0-9_.-]{{1,64}}$'"
        )));
    }
    if ["oneOf", "anyOf", "allOf"].iter().any(|key| schema.get(*key).is_some()) {
        return Err(Refusal::from(format!(
            "tools.{at}.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level"
        )));
    }
    Ok(())
}

fn gemini(place: &str, schema: &Value) -> Checked {
    let Some(all) = schema.as_object() else { return Ok(()) };
    let kind = string(schema, "type").to_lowercase();
    let properties = schema["properties"].as_object();
    let wrong = |text: &str| Err(Refusal::from(format!("* GenerateContentRequest.{place}.{text}\n")));
    if kind == "object" && properties.is_none_or(serde_json::Map::is_empty) {
        return wrong("properties: should be non-empty for OBJECT type");
    }
    if kind == "array" && !all.contains_key("items") {
        return wrong("items: missing field.");
    }
    if list(schema, "enum").iter().any(|value| value.as_str().is_none_or(str::is_empty)) {
        return wrong("enum[0]: cannot be empty");
    }
    let undefined =
        |name: &Value| !properties.is_some_and(|all| name.as_str().is_some_and(|name| all.contains_key(name)));
    if list(schema, "required").iter().any(undefined) {
        return wrong("required[0]: property is not defined");
    }
    for (key, value) in all {
        if !GEMINI.split(' ').any(|known| known == key) {
            return Err(Refusal::from(format!(
                "Invalid JSON payload received. Unknown name \"{key}\" at '{place}': Cannot find field."
            )));
        }
        match (key.as_str(), value) {
            ("properties", Value::Object(inner)) => {
                for (name, schema) in inner {
                    gemini(&format!("{place}.properties[{name}]"), schema)?;
                }
            }
            ("items", schema) => gemini(&format!("{place}.items"), schema)?,
            ("anyOf", Value::Array(inner)) => {
                for (at, schema) in inner.iter().enumerate() {
                    gemini(&format!("{place}.any_of[{at}]"), schema)?;
                }
            }
            ("format", Value::String(format))
                if all.get("type") == Some(&json!("string")) && !matches!(format.as_str(), "enum" | "date-time") =>
            {
                return Err(Refusal::from(format!(
                    "{place}: only 'enum' and 'date-time' are supported for STRING type, found {format}"
                )));
            }
            _ => {}
        }
    }
    Ok(())
}
