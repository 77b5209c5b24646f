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

/// Parts of messages that mean that it is the provider's own trouble, or too much was asked of it.
const PASSING: &[&str] =
    &["overloaded", "rate_limit", "rate limit", "server_error", "api_error", "unavailable", "internal", "timeout"];

/// The words of an error in any of the formats.
struct Said {
    text: String,
    /// With its kind, in small letters.
    all: String,
    code: Option<u64>,
}

impl Said {
    fn of_body(body: &str) -> Self {
        let Ok(value) = serde_json::from_str::<Value>(body) else { return Self::of(&Value::from(body.trim())) };
        // Gemini puts an array around it, and some servers have no `error` around theirs.
        let value = value.get(0).unwrap_or(&value);
        let said = Self::of(value.get("error").unwrap_or(value));
        match value["detail"].as_str() {
            Some(detail) if said.text.is_empty() => Self::of(&Value::from(detail)),
            _ => said,
        }
    }

    fn of(error: &Value) -> Self {
        let text = error.as_str().or_else(|| error["message"].as_str()).unwrap_or_default().to_owned();
        let kinds = ["type", "code", "status"].map(|key| error[key].as_str().unwrap_or_default());
        let all = format!("{text} {}", kinds.join(" ")).to_lowercase();
        Self { text, all, code: error["code"].as_u64() }
    }

    fn has(&self, parts: &[&str]) -> bool {
        parts.iter().any(|part| self.all.contains(part))
    }
}

impl Trouble {
    /// It may work a little later.
    pub fn passing(why: impl Into<String>) -> Self {
        Self::Passing { why: why.into(), after: None, limited: false }
    }

    /// An answer that is an error.
    pub fn of_answer(status: u16, after: Option<Duration>, body: &str) -> Self {
        let said = Said::of_body(body);
        let has = |parts: &[&str]| said.has(parts);
        let told = if said.text.is_empty() { format!("{status}") } else { format!("{status}: {}", said.text) };
        match status {
            401 => Self::Key(said.text),
            400 | 403 if has(BAD_KEY) => Self::Key(said.text),
            429 if has(EMPTY) => Self::Other(told),
            400 | 413 | 422 | 500 if has(OVERFLOW) => Self::Overflow,
            413 => Self::Overflow,
            404 if !said.text.starts_with('<') && has(&["model", "no endpoints found"]) => Self::Model,
            404 => Self::Address,
            400 | 403 | 422
                if has(&["model"]) && has(&["not exist", "not found", "unknown", "invalid model", "no access"]) =>
            {
                Self::Model
            }
            403 => Self::Access(said.text),
            408 | 409 | 425 | 429 | 500..=599 => Self::Passing { why: told, after, limited: status == 429 },
            400 | 422 => Self::Refused(told),
            _ => Self::Other(told),
        }
    }

    /// The same, if there were pictures in the request: they may be the reason.
    pub fn of_pictures(self, status: u16, body: &str) -> Self {
        let said = Said::of_body(body);
        let fits =
            matches!(self, Self::Other(_) | Self::Refused(_) | Self::Model | Self::Passing { .. } | Self::Address);
        if !fits || !matches!(status, 400 | 404 | 415 | 422 | 500) || !said.has(PICTURE) {
            return self;
        }
        let never = !said.has(&["exceed", "too large", "size", "dimension", "process"]);
        Self::Picture { why: said.text, never }
    }

    /// An error in the middle of an answer.
    pub fn of_event(error: &Value) -> Self {
        let said = Said::of(error);
        let limited = said.has(&["rate_limit", "rate limit"]) || said.code == Some(429);
        let passing = limited || said.has(PASSING) || said.code.is_some_and(|code| code >= 500);
        let (overflow, empty) = (said.has(OVERFLOW), said.has(EMPTY));
        let why = if said.text.is_empty() { "an error without words".to_owned() } else { said.text };
        match (overflow, empty, passing) {
            (true, ..) => Self::Overflow,
            (false, false, true) => Self::Passing { why, after: None, limited },
            _ => Self::Other(why),
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
        let place = provider.place_flag();
        let (name, say) = (&provider.name, |text: String| provider.clean(&text));
        match self {
            Self::Overflow => ModelError::Overflow,
            Self::Key(words) => ModelError::LoginNeeded(provider.login_hint(&words)),
            Self::Model => ModelError::Failed(say(format!("{name} has no model `{model}`."))),
            Self::Address => ModelError::Failed(say(format!("{name}: {}", provider.wrong_address()))),
            Self::Access(why) => {
                let why = if why.is_empty() { String::new() } else { format!(" It says: {why}") };
                ModelError::Failed(say(format!(
                    "{name} does not let this key use `{model}` (403).{why} Type `tieline models {name}{place}` to see other models, or \
                     `tieline agent login {name}{place}` to use another key."
                )))
            }
            Self::Refused(why) => ModelError::Refused(say(format!("{name}: {why}"))),
            Self::Passing { why, after, limited: true } => {
                ModelError::RateLimited { why: say(format!("{name}: {why}")), after }
            }
            Self::Passing { why, .. } | Self::Picture { why, .. } | Self::Other(why) => {
                ModelError::Failed(say(format!("{name}: {why}")))
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
