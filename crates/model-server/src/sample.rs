//! A value that fits a JSON schema: for arguments that a script does not name, and for answers that must be JSON.

use serde_json::{Map, Value, json};

/// Deeper schemas are not followed.
const DEPTH: usize = 8;

/// The plainest value that fits.
pub(crate) fn sample(schema: &Value) -> Value {
    at(schema, DEPTH)
}

fn at(schema: &Value, depth: usize) -> Value {
    if depth == 0 {
        return Value::Null;
    }
    for key in ["const", "default"] {
        if let Some(value) = schema.get(key) {
            return value.clone();
        }
    }
    if let Some(first) = schema.get("enum").and_then(Value::as_array).and_then(|all| all.first()) {
        return first.clone();
    }
    for key in ["anyOf", "oneOf", "allOf"] {
        if let Some(first) = schema.get(key).and_then(Value::as_array).and_then(|all| all.first()) {
            return at(first, depth - 1);
        }
    }
    match kind(schema).as_deref() {
        Some("boolean") => json!(false),
        Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or(json!(1)),
        Some("array") => {
            let least = schema.get("minItems").and_then(Value::as_u64).unwrap_or(0).min(4);
            let item = schema.get("items").map_or(Value::Null, |items| at(items, depth - 1));
            (0..least).map(|_| item.clone()).collect()
        }
        Some("object") => object(schema, depth),
        Some("null") => Value::Null,
        None if schema.get("properties").is_some() => object(schema, depth),
        _ => json!("text"),
    }
}

/// Gemini writes the types in capitals; some schemas give a list of types.
fn kind(schema: &Value) -> Option<String> {
    let kind = schema.get("type")?;
    let one = kind.as_str().or_else(|| kind.as_array()?.iter().find_map(Value::as_str))?;
    Some(one.to_ascii_lowercase())
}

fn object(schema: &Value, depth: usize) -> Value {
    let empty = Map::new();
    let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
    let required = schema.get("required").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let needed = |name: &String| required.is_empty() || required.iter().any(|r| r.as_str() == Some(name));
    properties
        .iter()
        .filter(|(name, _)| needed(name))
        .map(|(name, schema)| (name.clone(), at(schema, depth - 1)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_fit_their_schemas() {
        for (schema, expect) in [
            (json!({ "type": "string" }), json!("text")),
            (json!({ "type": "STRING", "enum": ["user", "model"] }), json!("user")),
            (json!({ "anyOf": [{ "type": "integer", "minimum": 3 }, { "type": "null" }] }), json!(3)),
            (json!({ "type": "array", "minItems": 1, "items": { "type": "boolean" } }), json!([false])),
            (
                json!({ "type": "object", "properties": { "a": { "type": "number" }, "b": {} }, "required": ["a"] }),
                json!({ "a": 1 }),
            ),
        ] {
            assert_eq!(sample(&schema), expect, "{schema}");
        }
    }
}
