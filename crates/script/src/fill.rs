//! Placeholders in texts, and patterns for them.

use serde_json::Value;

/// What placeholders stand for.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// The user's last words.
    pub prompt: String,
    /// What the last tools gave back.
    pub result: String,
    /// What the model was told: the words before the conversation and its last message.
    pub told: String,
}

impl Facts {
    /// Fills in `{prompt}`, `{result}`, `{told}` and `{after WORDS}`: the word behind these words in the result.
    pub fn fill(&self, text: &str) -> String {
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, behind)) = rest.split_once('{') {
            filled.push_str(before);
            let found = behind.split_once('}').and_then(|(name, behind)| Some((self.value(name)?, behind)));
            if let Some((value, behind)) = found {
                filled.push_str(value);
                rest = behind;
            } else {
                filled.push('{');
                rest = behind;
            }
        }
        filled.push_str(rest);
        filled
    }

    /// The same for all texts in a value.
    pub fn fill_json(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.fill(text)),
            Value::Array(items) => items.iter().map(|item| self.fill_json(item)).collect(),
            Value::Object(fields) => {
                Value::Object(fields.iter().map(|(key, value)| (key.clone(), self.fill_json(value))).collect())
            }
            other => other.clone(),
        }
    }

    fn value(&self, name: &str) -> Option<&str> {
        match name {
            "prompt" => Some(&self.prompt),
            "result" => Some(&self.result),
            "told" => Some(&self.told),
            other => {
                let behind = self.result.split_once(other.strip_prefix("after ")?).map_or("", |(_, behind)| behind);
                let part_of_word = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
                let word = behind.trim_start_matches(|c| !part_of_word(c));
                Some(word.split(|c| !part_of_word(c)).next().unwrap_or_default())
            }
        }
    }
}

/// True if the pieces of the pattern between its `*` stand in the text, in this order. Case does not matter.
pub fn fits(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.to_lowercase(), text.to_lowercase());
    let mut rest = text.as_str();
    pattern.split('*').all(|piece| match rest.split_once(piece) {
        Some((_, behind)) => {
            rest = behind;
            true
        }
        None => piece.is_empty(),
    })
}
