//! The configuration as a JSON Schema, for editors that complete and check TOML.

use super::keys::{BuiltIn, KEYS, Kind};
use serde_json::{Map, Value, json};

/// The JSON Schema of a configuration file.
pub fn schema() -> Value {
    let mut root = table();
    for key in KEYS {
        let mut place = &mut root;
        let depth = key.names().count();
        for (at, name) in key.names().enumerate() {
            let last = at + 1 == depth;
            let within = if name == "*" { "additionalProperties" } else { "properties" };
            let below = if name == "*" {
                if !place[within].is_object() {
                    place[within] = table();
                }
                &mut place[within]
            } else {
                if place[within].get(name).is_none() {
                    place[within][name] = if last { of(key.kind) } else { table() };
                }
                &mut place[within][name]
            };
            if last {
                below["description"] = key.about.into();
                match key.built_in {
                    Some(BuiltIn::Text(text)) => below["default"] = text.into(),
                    Some(BuiltIn::Number(number)) => below["default"] = number.into(),
                    None => {}
                }
            }
            place = below;
        }
    }
    root["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
    root["title"] = "Tieline configuration".into();
    root
}

fn table() -> Value {
    json!({"type": "object", "properties": Map::new(), "additionalProperties": false})
}

fn of(kind: Kind) -> Value {
    let words = json!({"type": "array", "items": {"type": "string"}, "minItems": 1});
    match kind {
        Kind::Name => json!({"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]*$"}),
        Kind::Text | Kind::Path => json!({"type": "string"}),
        Kind::Address => json!({"type": "string", "pattern": "^[Hh][Tt][Tt][Pp][Ss]?://."}),
        Kind::AgentAddress => json!({"type": "string", "pattern": "^([Hh][Tt][Tt][Pp]|[Ww][Ss])[Ss]?://."}),
        Kind::Headers => json!({"type": "object", "additionalProperties": {"type": "string"}}),
        Kind::Flag => json!({"type": "boolean"}),
        Kind::OneOf(words) => json!({"enum": words}),
        Kind::Words => words,
        Kind::Names | Kind::Rules => json!({"type": "array", "items": {"type": "string"}}),
        Kind::Values => json!({"type": "object", "additionalProperties": {"oneOf": [
            {"type": "string"},
            {"type": "object", "properties": {"env": {"type": "string"}}, "required": ["env"], "additionalProperties": false},
            {"type": "object", "properties": {"command": words}, "required": ["command"], "additionalProperties": false},
        ]}}),
        Kind::Count => json!({"type": "integer", "minimum": 0}),
    }
}
