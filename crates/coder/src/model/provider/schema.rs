//! The schemas of tools in forms that the providers take. Those of MCP servers can be anything.

use crate::model::ToolSpec;
use serde_json::{Map, Value, json};

/// So many references are followed at the top of a schema, which may refer to itself.
const MAX_REFERENCES: usize = 8;
/// What Gemini understands of JSON schema, and we have a use for.
const GEMINI: &[&str] = &[
    "$defs",
    "$ref",
    "anyOf",
    "description",
    "enum",
    "format",
    "items",
    "maxItems",
    "maximum",
    "minItems",
    "minimum",
    "prefixItems",
    "properties",
    "required",
    "title",
    "type",
];

/// The schema of a tool's arguments: an object at the top and nothing to choose from there, which all providers demand.
pub fn plain(tool: &ToolSpec) -> Value {
    let whole: Value = tool.parameters.parse().unwrap_or_default();
    let mut top = whole.as_object().cloned().unwrap_or_default();
    for _ in 0..MAX_REFERENCES {
        let Some(Value::String(path)) = top.remove("$ref") else { break };
        let target = path.strip_prefix('#').and_then(|path| whole.pointer(path)).and_then(Value::as_object);
        for (key, value) in target.into_iter().flatten() {
            top.entry(key).or_insert_with(|| value.clone());
        }
    }
    for key in ["allOf", "anyOf", "oneOf"] {
        let Some(Value::Array(branches)) = top.remove(key) else { continue };
        for branch in branches.iter().filter_map(Value::as_object) {
            fold(&mut top, branch, key == "allOf");
        }
    }
    for key in ["$schema", "$ref", "not", "enum", "const", "if", "then", "else"] {
        top.remove(key);
    }
    top.insert("type".into(), "object".into());
    if !top.get("properties").is_some_and(Value::is_object) {
        top.insert("properties".into(), json!({}));
    }
    // Anthropic refuses the whole request for another name; a tool that can't do without it fails alone.
    let named = |name: &str| {
        (1..=64).contains(&name.len()) && name.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c))
    };
    if let Some(Value::Object(all)) = top.get_mut("properties") {
        all.retain(|name, _| named(name));
    }
    if let Some(Value::Array(names)) = top.get_mut("required") {
        names.retain(|name| name.as_str().is_some_and(named));
    }
    let mut schema = Value::Object(top);
    each(&mut schema, &mut mend);
    schema
}

/// The same in what Gemini understands; nothing if the tool takes no arguments, because it takes no empty object.
pub fn gemini(tool: &ToolSpec) -> Option<Value> {
    let mut schema = plain(tool);
    each(&mut schema, &mut narrow);
    let some = schema["properties"].as_object().is_some_and(|all| !all.is_empty());
    some.then_some(schema)
}

/// Takes the properties of a branch in. Only where all branches hold, what they require is required.
fn fold(top: &mut Map<String, Value>, branch: &Map<String, Value>, all: bool) {
    for (key, join) in [("properties", true), ("required", all)] {
        match (top.get_mut(key), branch.get(key).filter(|_| join)) {
            (Some(Value::Object(has)), Some(Value::Object(more))) => {
                for (name, value) in more {
                    has.entry(name).or_insert_with(|| value.clone());
                }
            }
            (Some(Value::Array(has)), Some(Value::Array(more))) => {
                let new: Vec<Value> = more.iter().filter(|name| !has.contains(name)).cloned().collect();
                has.extend(new);
            }
            (None, Some(more)) => {
                top.insert(key.into(), more.clone());
            }
            _ => {}
        }
    }
}

/// Does something to each schema in a schema, the inner ones first.
fn each(schema: &mut Value, change: &mut dyn FnMut(&mut Value)) {
    for (key, value) in schema.as_object_mut().into_iter().flatten() {
        match (key.as_str(), value) {
            ("properties" | "$defs" | "definitions" | "patternProperties", Value::Object(all)) => {
                for value in all.values_mut() {
                    each(value, change);
                }
            }
            ("anyOf" | "oneOf" | "allOf" | "prefixItems" | "items", Value::Array(all)) => {
                for value in all {
                    each(value, change);
                }
            }
            ("items" | "not", value) | ("additionalProperties", value @ Value::Object(_)) => each(value, change),
            _ => {}
        }
    }
    change(schema);
}

/// What `OpenAI` stumbles over anywhere: a schema that is just true or false, and an array of nobody knows what.
fn mend(schema: &mut Value) {
    let Some(all) = schema.as_object_mut() else {
        *schema = json!({});
        return;
    };
    if all.get("type").is_some_and(|kind| *kind == "array") && !all.contains_key("items") {
        all.insert("items".into(), json!({}));
    }
}

fn narrow(schema: &mut Value) {
    let Some(all) = schema.as_object_mut() else { return };
    if let Some(Value::String(path)) = all.get("$ref") {
        // Nothing may stand beside it.
        let path = path.replacen("#/definitions/", "#/$defs/", 1);
        let defs = all.remove("$defs").or_else(|| all.remove("definitions"));
        all.clear();
        all.insert("$ref".into(), path.into());
        all.extend(defs.map(|defs| ("$defs".to_owned(), defs)));
        return;
    }
    for (old, new) in [("definitions", "$defs"), ("oneOf", "anyOf")] {
        if let Some(value) = all.remove(old) {
            all.entry(new).or_insert(value);
        }
    }
    if let Some(value) = all.remove("const") {
        all.entry("enum").or_insert(json!([value]));
    }
    if let Some(Value::Array(branches)) = all.remove("allOf") {
        for branch in branches.iter().filter_map(Value::as_object) {
            fold(all, branch, true);
            for (key, value) in branch.iter().filter(|(key, _)| GEMINI.contains(&key.as_str())) {
                all.entry(key).or_insert_with(|| value.clone());
            }
        }
    }
    kinds(all);
    if let Some(Value::Array(values)) = all.get_mut("enum") {
        values.retain(|value| value.is_number() || value.as_str().is_some_and(|text| !text.is_empty()));
        // A choice of values needs their type beside it.
        let kind = if values.iter().all(Value::is_string) { Some("string") } else { None };
        let kind = kind.or_else(|| values.iter().all(Value::is_number).then_some("number"));
        if values.is_empty() {
            all.remove("enum");
        } else if let Some(kind) = kind {
            all.entry("type").or_insert_with(|| kind.into());
        }
    }
    // It takes one of these for texts, and refuses the whole request for any other.
    let texts = all.get("type").is_some_and(|kind| *kind == "string");
    if all.get("format").is_some_and(|format| texts && *format != "date-time") {
        all.remove("format");
    }
    if let Some(Value::Array(items)) = all.get_mut("items") {
        let items = std::mem::take(items);
        all.insert("items".into(), items.into_iter().next().unwrap_or_else(|| json!({})));
    }
    all.retain(|key, _| GEMINI.contains(&key.as_str()));
}

/// Several types at once become a choice; that there may be nothing needs no word.
fn kinds(all: &mut Map<String, Value>) {
    let Some(Value::Array(kinds)) = all.get("type") else { return };
    let mut kinds: Vec<Value> = kinds.iter().filter(|kind| **kind != "null").cloned().collect();
    match (kinds.len(), all.contains_key("anyOf")) {
        (1, _) => {
            all.insert("type".into(), kinds.remove(0));
        }
        (2.., false) => {
            all.remove("type");
            all.insert("anyOf".into(), kinds.into_iter().map(|kind| json!({ "type": kind })).collect());
        }
        _ => {
            all.remove("type");
        }
    }
    // A choice of types says nothing about what is in an array.
    if let Some(Value::Array(choices)) = all.get_mut("anyOf") {
        choices.iter_mut().for_each(mend);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(schema: &Value) -> ToolSpec {
        ToolSpec { name: "t".into(), description: String::new(), parameters: schema.clone().into() }
    }

    #[test]
    fn every_schema_becomes_an_object() {
        let check = |schema: Value, expect: Value| assert_eq!(plain(&spec(&schema)), expect, "{schema}");
        let empty = json!({"type": "object", "properties": {}});
        for schema in [json!({}), json!(null), json!(true), json!([1]), json!({"type": ["object", "null"]})] {
            check(schema, empty.clone());
        }
        check(json!({"$schema": "x", "properties": {"a": {"type": "array"}, "b": true}}), {
            json!({"type": "object", "properties": {"a": {"type": "array", "items": {}}, "b": {}}})
        });
        // A property may be called like a keyword.
        let odd = json!({"type": "object", "properties": {"type": {"type": "string"}, "anyOf": {"type": "string"}}});
        check(odd.clone(), odd);
        let (a, b) = (json!({"type": "string"}), json!({"type": "number"}));
        check(
            json!({"required": ["a"], "anyOf": [{"properties": {"a": a}, "required": ["a"]}, {"properties": {"b": b}, "required": ["b"]}]}),
            json!({"type": "object", "properties": {"a": a, "b": b}, "required": ["a"]}),
        );
        check(
            json!({"allOf": [{"properties": {"a": a}, "required": ["a"]}, {"properties": {"b": b}, "required": ["b"]}]}),
            json!({"type": "object", "properties": {"a": a, "b": b}, "required": ["a", "b"]}),
        );
        let defs = json!({"T": {"type": "object", "properties": {"a": a}}});
        check(
            json!({"$ref": "#/$defs/T", "$defs": defs}),
            json!({"type": "object", "properties": {"a": a}, "$defs": defs}),
        );
        check(json!({"$ref": "#"}), empty);
        check(json!({"properties": {"a b": a}, "required": ["a b"]}), {
            json!({"type": "object", "properties": {}, "required": []})
        });
    }

    #[test]
    fn gemini_gets_only_what_it_knows() {
        let check = |schema: Value, expect: Value| {
            let schema = json!({"properties": {"x": schema}});
            let expect = json!({"type": "object", "properties": {"x": expect}});
            assert_eq!(gemini(&spec(&schema)), Some(expect), "{schema}");
        };
        check(json!({"type": "string", "format": "uri", "pattern": "a", "minLength": 1}), json!({"type": "string"}));
        check(json!({"type": "string", "format": "date-time"}), json!({"type": "string", "format": "date-time"}));
        check(json!({"const": "a"}), json!({"enum": ["a"], "type": "string"}));
        check(json!({"enum": [1, 2.5]}), json!({"enum": [1, 2.5], "type": "number"}));
        check(json!({"type": "string", "enum": ["", null, "a"]}), json!({"type": "string", "enum": ["a"]}));
        check(json!({"type": ["string", "null"]}), json!({"type": "string"}));
        check(
            json!({"type": ["string", "array"]}),
            json!({"anyOf": [{"type": "string"}, {"type": "array", "items": {}}]}),
        );
        check(
            json!({"oneOf": [{"type": "object", "additionalProperties": false}]}),
            json!({"anyOf": [{"type": "object"}]}),
        );
        check(json!({"allOf": [{"type": "string", "default": 1}]}), json!({"type": "string"}));
        check(json!({"$ref": "#/definitions/T", "description": "d"}), json!({"$ref": "#/$defs/T"}));
        // Names are not keywords.
        let odd = json!({"type": "object", "properties": {"default": {"type": "string"}}});
        check(odd.clone(), odd);
        assert_eq!(gemini(&spec(&json!({"type": "object"}))), None);
    }
}
