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
        /// Too much was asked of it; everything else is its own trouble.
        limited: bool,
    },
    /// The conversation is too long.
    Overflow,
    /// The key is missing or wrong; what was said about it.
    Key(String),
    /// The key is right, but may not do this.
    Access(String),
    /// There is nothing at this address.
    Address,
    /// There is no such model.
    Model,
    /// It does not want the pictures in the conversation.
    Picture {
        /// What it says.
        why: String,
        /// It never takes any.
        never: bool,
    },
    /// It does not take the request as it is.
    Refused(String),
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

/// Parts of messages that are about pictures, in requests that have some.
const PICTURE: &[&str] = &["image", "multimodal", "vision", "must be a string"];
/// Parts of messages that mean that the key is wrong or missing, whatever the status is.
const BAD_KEY: &[&str] = &[
    "api key not valid",
    "api_key_invalid",
    "invalid api key",
    "invalid_api_key",
    "incorrect api key",
    "missing api key",
    "no api key",
    "unregistered callers",
];

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
    /// It may work a little later.
    pub fn passing(why: impl Into<String>) -> Self {
        Self::Passing { why: why.into(), after: None, limited: false }
    }

    /// An answer that is an error.
    pub fn of_answer(status: u16, after: Option<Duration>, body: &str) -> Self {
        let (text, kind) = message(body);
        let all = format!("{text} {kind}").to_lowercase();
        let has = |parts: &[&str]| parts.iter().any(|part| all.contains(part));
        let told = if text.is_empty() { format!("{status}") } else { format!("{status}: {text}") };
        match status {
            401 => Self::Key(text),
            400 | 403 if has(BAD_KEY) => Self::Key(text),
            429 if has(EMPTY) => Self::Other(told),
            400 | 413 | 422 | 500 if has(OVERFLOW) => Self::Overflow,
            413 => Self::Overflow,
            404 if !text.starts_with('<') && has(&["model", "no endpoints found"]) => Self::Model,
            404 => Self::Address,
            400 | 403 | 422
                if has(&["model"]) && has(&["not exist", "not found", "unknown", "invalid model", "no access"]) =>
            {
                Self::Model
            }
            403 => Self::Access(text),
            408 | 409 | 425 | 429 | 500..=599 => Self::Passing { why: told, after, limited: status == 429 },
            400 | 422 => Self::Refused(told),
            _ => Self::Other(told),
        }
    }

    /// The same, if there were pictures in the request: they may be the reason.
    pub fn of_pictures(self, status: u16, body: &str) -> Self {
        let (why, kind) = message(body);
        let all = format!("{why} {kind}").to_lowercase();
        let has = |parts: &[&str]| parts.iter().any(|part| all.contains(part));
        let fits =
            matches!(self, Self::Other(_) | Self::Refused(_) | Self::Model | Self::Passing { .. } | Self::Address);
        if !fits || !matches!(status, 400 | 404 | 415 | 422 | 500) || !has(PICTURE) {
            return self;
        }
        let never = !has(&["exceed", "too large", "size", "dimension", "process"]);
        Self::Picture { why, never }
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
            let limited = has(&["rate_limit", "rate limit"]) || code == Some(429);
            Self::Passing { why: text.to_owned(), after: None, limited }
        } else {
            Self::Other(text.to_owned())
        }
    }

    /// The way to the provider did not work.
    pub fn of_http(error: HttpError) -> Self {
        match error.phase {
            Phase::Connect | Phase::Head | Phase::Body => Self::passing(error.to_string()),
            _ => Self::Other(error.to_string()),
        }
    }

    /// What the user is told.
    pub fn told(self, provider: &Provider, model: &str) -> ModelError {
        let name = &provider.name;
        match self {
            Self::Overflow => ModelError::Overflow,
            Self::Key(words) => ModelError::LoginNeeded(provider.login_hint(&words)),
            Self::Access(why) => {
                let why = if why.is_empty() { String::new() } else { format!(" It says: {why}") };
                ModelError::Failed(provider.clean(&format!(
                    "{name} does not let this key use `{model}` (403).{why} Type `tieline models {name}` to see other models, or \
                     `tieline agent login {name}` to use another key."
                )))
            }
            Self::Address => ModelError::Failed(provider.clean(&format!("{name}: {}", provider.wrong_address()))),
            Self::Model => ModelError::Failed(provider.clean(&format!("{name} has no model `{model}`."))),
            Self::Passing { why, after, limited: true } => {
                ModelError::RateLimited { why: provider.clean(&format!("{name}: {why}")), after }
            }
            Self::Refused(why) => ModelError::Refused(provider.clean(&format!("{name}: {why}"))),
            Self::Passing { why, .. } | Self::Picture { why, .. } | Self::Other(why) => {
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
        let passing = |why: &str| Trouble::passing(why);
        let check = |status, body: &str, expect: &Trouble| {
            assert_eq!(&Trouble::of_answer(status, None, body), expect, "{status} {body}");
        };
        check(401, "", &Trouble::Key(String::new()));
        check(
            401,
            r#"{"error":{"message":"Incorrect API key provided"}}"#,
            &Trouble::Key("Incorrect API key provided".into()),
        );
        check(
            403,
            r#"{"error":{"message":"Method doesn't allow unregistered callers."}}"#,
            &Trouble::Key("Method doesn't allow unregistered callers.".into()),
        );
        check(403, r#"{"error":{"message":"Not in your country"}}"#, &Trouble::Access("Not in your country".into()));
        check(403, r#"{"error":{"message":"The model `x` does not exist"}}"#, &Trouble::Model);
        check(404, "<html><title>Not found - our models</title>", &Trouble::Address);
        check(404, "404 page not found", &Trouble::Address);
        check(404, r#"{"error":{"message":"Invalid URL (POST /v2/chat/completions)"}}"#, &Trouble::Address);
        check(404, r#"{"error":{"message":"No endpoints found for x/y."}}"#, &Trouble::Model);
        check(
            400,
            r#"{"error":{"message":"API key not valid.","status":"INVALID_ARGUMENT"}}"#,
            &Trouble::Key("API key not valid.".into()),
        );
        check(429, "{}", &Trouble::Passing { why: "429".into(), after: None, limited: true });
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
        check(400, r#"{"error":"bad tool"}"#, &Trouble::Refused("400: bad tool".into()));
        check(502, "<html>", &passing("502: <html>"));
    }
}
