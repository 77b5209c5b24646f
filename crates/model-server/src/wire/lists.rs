//! Lists of models, in the shapes of the vendors and of Ollama.

use serde_json::{Value, json};

/// The time that models give as their birth: the first of January 2026.
const BORN: u64 = 1_767_225_600;
const BORN_TEXT: &str = "2026-01-01T00:00:00Z";

pub(crate) fn openai(models: &[String]) -> Value {
    json!({ "object": "list", "data": models.iter().map(|id| openai_one(id)).collect::<Value>() })
}

pub(crate) fn openai_one(id: &str) -> Value {
    json!({ "id": id, "object": "model", "created": BORN, "owned_by": "tieline" })
}

pub(crate) fn anthropic(models: &[String]) -> Value {
    json!({
        "data": models.iter().map(|id| anthropic_one(id)).collect::<Value>(), "has_more": false,
        "first_id": models.first(), "last_id": models.last(),
    })
}

pub(crate) fn anthropic_one(id: &str) -> Value {
    json!({ "type": "model", "id": id, "display_name": id, "created_at": BORN_TEXT })
}

pub(crate) fn gemini(models: &[String]) -> Value {
    json!({ "models": models.iter().map(|id| gemini_one(id)).collect::<Value>() })
}

pub(crate) fn gemini_one(id: &str) -> Value {
    json!({
        "name": format!("models/{id}"), "version": "001", "displayName": id, "inputTokenLimit": 1_048_576, "outputTokenLimit": 65_536,
        "supportedGenerationMethods": ["generateContent", "countTokens"],
    })
}

pub(crate) fn ollama(models: &[String]) -> Value {
    let one = |id: &String| {
        json!({
            "name": id, "model": id, "modified_at": BORN_TEXT, "size": 1_000_000, "digest": "0".repeat(64),
            "details": { "format": "gguf", "family": "tieline", "parameter_size": "1B", "quantization_level": "Q4_0" },
        })
    };
    json!({ "models": models.iter().map(one).collect::<Value>() })
}
