//! What vendors refuse in a request whatever the conversation is: schemas of tools and pictures that they don't take.

use crate::talk::{Format, list, string};
use serde_json::{Value, json};

/// What only Gemini's own form of schemas knows; anything else in it is refused.
const GEMINI: &str = "anyOf default description enum example format items maxItems maxLength maxProperties maximum minItems \
                      minLength minProperties minimum nullable pattern properties propertyOrdering required title type";

/// What is wrong with the schema of a tool.
pub(crate) fn schemas(format: Format, body: &Value) -> Result<(), String> {
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

fn openai(name: &str, schema: &Value) -> Result<(), String> {
    if schema.is_null() {
        return Ok(());
    }
    if schema["type"] != "object" {
        let found = schema["type"].as_str().unwrap_or("None");
        return Err(format!(
            "Invalid schema for function '{name}': schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{found}\"'."
        ));
    }
    if ["oneOf", "anyOf", "allOf", "enum", "not"].iter().any(|key| schema.get(*key).is_some()) {
        return Err(format!(
            "Invalid schema for function '{name}': schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at \
             the top level."
        ));
    }
    if bare_array(schema) {
        return Err(format!("Invalid schema for function '{name}': array schema missing items."));
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

fn anthropic(at: usize, schema: &Value) -> Result<(), String> {
    match &schema["type"] {
        Value::Null => return Err(format!("tools.{at}.custom.input_schema.type: Field required")),
        kind if kind != "object" => {
            return Err(format!("tools.{at}.custom.input_schema.type: Input should be 'object'"));
        }
        _ => {}
    }
    if ["oneOf", "anyOf", "allOf"].iter().any(|key| schema.get(*key).is_some()) {
        return Err(format!(
            "tools.{at}.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level"
        ));
    }
    Ok(())
}

fn gemini(place: &str, schema: &Value) -> Result<(), String> {
    let Some(all) = schema.as_object() else { return Ok(()) };
    for (key, value) in all {
        if !GEMINI.split(' ').any(|known| known == key) {
            return Err(format!(
                "Invalid JSON payload received. Unknown name \"{key}\" at '{place}': Cannot find field."
            ));
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
                return Err(format!(
                    "{place}: only 'enum' and 'date-time' are supported for STRING type, found {format}"
                ));
            }
            _ => {}
        }
    }
    Ok(())
}

/// What is wrong with a picture.
pub(crate) fn pictures(format: Format, body: &Value, blind: bool) -> Result<(), String> {
    match body {
        Value::Array(all) => all.iter().try_for_each(|value| pictures(format, value, blind)),
        Value::Object(all) => {
            if let Some(mime) = picture(format, body)
                && (blind || !taken(format, &mime))
            {
                return Err(match format {
                    _ if blind => "This model does not support image input.".into(),
                    Format::Messages => format!(
                        "image.source.base64.media_type: Input should be 'image/jpeg', 'image/png', 'image/gif' or 'image/webp', \
                         not {mime}"
                    ),
                    Format::Gemini => format!("Unsupported MIME type: {mime}"),
                    _ => "You uploaded an unsupported image. Please make sure your image has of one the following formats: \
                          ['png', 'jpeg', 'gif', 'webp']."
                        .into(),
                });
            }
            all.values().try_for_each(|value| pictures(format, value, blind))
        }
        _ => Ok(()),
    }
}

/// The media type of a picture, if this is one with its data in it.
fn picture(format: Format, value: &Value) -> Option<String> {
    match format {
        Format::Messages if value["type"] == "image" && value["source"]["type"] == "base64" => {
            Some(string(&value["source"], "media_type"))
        }
        Format::Gemini => Some(string(value.get("inlineData")?, "mimeType")),
        Format::Chat | Format::Responses => {
            let address = &value["image_url"];
            let address = address.as_str().or_else(|| address["url"].as_str())?;
            Some(address.strip_prefix("data:")?.split([';', ',']).next()?.to_owned())
        }
        _ => None,
    }
}

fn taken(format: Format, mime: &str) -> bool {
    match format {
        // It takes sounds, films and papers, too.
        Format::Gemini => {
            !mime.starts_with("image/")
                || matches!(mime, "image/png" | "image/jpeg" | "image/webp" | "image/heic" | "image/heif")
        }
        _ => matches!(mime, "image/png" | "image/jpeg" | "image/gif" | "image/webp"),
    }
}
