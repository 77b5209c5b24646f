//! What a provider says when something is wrong, sorted by what has to be done about it.

use super::Provider;
use crate::http::{HttpError, Phase};
use crate::model::ModelError;
use serde_json::Value;
use std::time::Duration;

/// What is wrong.
#[derive(Debug, Clone, PartialEq)]
pub enum Trouble {
    /// It may work a little later.
    Passing {
        /// What happened.
        why: String,
        /// When to try again, if the provider said so.
        after: Option<Duration>,
    },
    /// The conversation is too long.
    Overflow,
    /// The key is missing, wrong or may not do this.
    Key,
    /// There is no such model.
    Model,
    /// Anything else.
    Other(String),
}

/// Parts of messages that mean that the conversation is too long.
const OVERFLOW: &[&str] = &[
    "context_length_exceeded",
    "context length",
    "context window",
    "context size",
    "context limit",
    "prompt is too long",
    "input is too long",
    "too many tokens",
    "maximum number of tokens",
    "exceeds the maximum number of tokens",
    "token count exceeds",
    "token count (",
    "reduce the length",
    "request_too_large",
    "model_max_prompt_tokens_exceeded",
];
/// Parts of messages that mean that there is no more money, which waiting does not help.
const EMPTY: &[&str] = &["insufficient_quota", "credit balance", "insufficient balance"];

/// The text of an error in any of the formats, and its kind.
fn message(body: &str) -> (String, String) {
    let Ok(value) = serde_json::from_str::<Value>(body) else { return (body.trim().to_owned(), String::new()) };
    // Gemini puts an array around it, and some servers have no `error` around theirs.
    let value = value.get(0).unwrap_or(&value);
    let error = value.get("error").unwrap_or(value);
    let text = error.as_str().or_else(|| error["message"].as_str()).or_else(|| value["detail"].as_str());
    let kinds = ["type", "code", "status"].iter().filter_map(|key| error[*key].as_str());
    (text.unwrap_or_default().to_owned(), kinds.collect::<Vec<_>>().join(" "))
}

impl Trouble {
    /// An answer that is an error.
    pub fn of_answer(status: u16, after: Option<Duration>, body: &str) -> Self {
        let (text, kind) = message(body);
        let all = format!("{text} {kind}").to_lowercase();
        let has = |parts: &[&str]| parts.iter().any(|part| all.contains(part));
        let told = if text.is_empty() { format!("{status}") } else { format!("{status}: {text}") };
        match status {
            401 => Self::Key,
            403 if !has(&["model"]) => Self::Key,
            400 if has(&["api key not valid", "api_key_invalid", "invalid api key", "incorrect api key"]) => Self::Key,
            429 if has(EMPTY) => Self::Other(told),
            400 | 413 | 422 | 500 if has(OVERFLOW) => Self::Overflow,
            413 => Self::Overflow,
            404 => Self::Model,
            400 | 403 | 422
                if has(&["model"]) && has(&["not exist", "not found", "unknown", "invalid model", "no access"]) =>
            {
                Self::Model
            }
            408 | 409 | 425 | 429 | 500..=599 => Self::Passing { why: told, after },
            _ => Self::Other(told),
        }
    }

    /// An error in the middle of an answer.
    pub fn of_event(error: &Value) -> Self {
        let text = error["message"].as_str().or_else(|| error.as_str()).unwrap_or("an error without words");
        let kinds = ["type", "code", "status"].iter().filter_map(|key| error[*key].as_str());
        let all = format!("{text} {}", kinds.collect::<Vec<_>>().join(" ")).to_lowercase();
        let has = |parts: &[&str]| parts.iter().any(|part| all.contains(part));
        let code = error["code"].as_u64();
        if has(OVERFLOW) {
            Self::Overflow
        } else if has(EMPTY) {
            Self::Other(text.to_owned())
        } else if has(&[
            "overloaded",
            "rate_limit",
            "rate limit",
            "server_error",
            "api_error",
            "unavailable",
            "internal",
            "timeout",
        ]) || code.is_some_and(|code| code == 429 || code >= 500)
        {
            Self::Passing { why: text.to_owned(), after: None }
        } else {
            Self::Other(text.to_owned())
        }
    }

    /// The way to the provider did not work.
    pub fn of_http(error: HttpError) -> Self {
        match error.phase {
            Phase::Connect | Phase::Head | Phase::Body => Self::Passing { why: error.to_string(), after: None },
            _ => Self::Other(error.to_string()),
        }
    }

    /// What the user is told.
    pub fn told(self, provider: &Provider, model: &str) -> ModelError {
        let name = &provider.name;
        match self {
            Self::Overflow => ModelError::Overflow,
            Self::Key => ModelError::LoginNeeded(provider.login_hint()),
            Self::Model => ModelError::Failed(format!(
                "{name} has no model `{model}`. Type `tieline models {name}` to see what it has, then start with \
                 `--model {name}/NAME`."
            )),
            Self::Passing { why, .. } | Self::Other(why) => {
                ModelError::Failed(provider.clean(&format!("{name}: {why}")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_sorted() {
        let passing = |why: &str| Trouble::Passing { why: why.into(), after: None };
        let check = |status, body: &str, expect: &Trouble| {
            assert_eq!(&Trouble::of_answer(status, None, body), expect, "{status} {body}");
        };
        check(401, "", &Trouble::Key);
        check(400, r#"{"error":{"message":"API key not valid.","status":"INVALID_ARGUMENT"}}"#, &Trouble::Key);
        check(429, "{}", &passing("429"));
        check(
            529,
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
            &passing("529: Overloaded"),
        );
        check(429, r#"{"error":{"message":"no","code":"insufficient_quota"}}"#, &Trouble::Other("429: no".into()));
        check(400, r#"{"error":{"message":"x","code":"context_length_exceeded"}}"#, &Trouble::Overflow);
        check(
            400,
            r#"{"error":{"type":"invalid_request_error","message":"prompt is too long: 9 tokens"}}"#,
            &Trouble::Overflow,
        );
        check(400, r#"[{"error":{"message":"The input token count (9) exceeds the maximum"}}]"#, &Trouble::Overflow);
        check(
            400,
            r#"{"error":{"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}"#,
            &Trouble::Overflow,
        );
        check(404, r#"{"error":{"message":"model: nope","type":"not_found_error"}}"#, &Trouble::Model);
        check(400, r#"{"error":{"message":"The model `x` does not exist"}}"#, &Trouble::Model);
        check(400, r#"{"error":"bad tool"}"#, &Trouble::Other("400: bad tool".into()));
        check(502, "<html>", &passing("502: <html>"));
    }
}
