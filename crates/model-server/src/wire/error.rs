//! Errors, each in the shape and words of its vendor.

use super::Event;
use crate::refuse::Refusal;
use crate::talk::Format;
use serde_json::{Value, json};

/// Why a request fails.
#[derive(Debug, Clone)]
pub(crate) enum Wrong {
    /// As the status says.
    Status(u16),
    /// The conversation does not fit.
    Overflow,
    /// The request is not as it has to be.
    Request(Refusal),
}

impl Wrong {
    /// The HTTP status that goes with it.
    pub(crate) fn status(&self, format: Format) -> u16 {
        match self {
            // Gemini calls a bad key a bad argument.
            Self::Status(401) if format == Format::Gemini => 400,
            Self::Status(code) => *code,
            Self::Overflow => 400,
            Self::Request(refusal) => refusal.status,
        }
    }

    /// The body of the answer.
    pub(crate) fn body(&self, format: Format, model: &str, retry_after: Option<u64>) -> Value {
        match format {
            Format::Chat | Format::Responses | Format::Other => openai(self, format, model),
            Format::Messages => anthropic(self, model),
            Format::Gemini => gemini(self, model, retry_after),
        }
    }

    /// The event that carries it in the middle of a stream.
    pub(crate) fn event(&self, format: Format, model: &str, number: usize) -> Event {
        match format {
            Format::Messages => Event::typed("error", anthropic(self, model)),
            Format::Responses => {
                let error = openai(self, format, model);
                let code = match error["error"]["code"].as_str() {
                    Some(code) => code.to_owned(),
                    None => "server_error".into(),
                };
                let error = json!({ "code": code, "message": error["error"]["message"] });
                let response = json!({
                    "id": "resp_failed", "object": "response", "status": "failed", "error": error, "output": [], "model": model,
                    "incomplete_details": null, "usage": null,
                });
                let data = json!({ "type": "response.failed", "sequence_number": number, "response": response });
                Event::typed("response.failed", data)
            }
            Format::Chat | Format::Gemini | Format::Other => Event::data(&self.body(format, model, None)),
        }
    }
}

fn openai(wrong: &Wrong, format: Format, model: &str) -> Value {
    let (message, kind, param, code) = match wrong {
        Wrong::Overflow if format == Format::Responses => (
            "Your input exceeds the context window of this model. Please adjust your input and try again.".into(),
            "invalid_request_error",
            json!("input"),
            json!("context_length_exceeded"),
        ),
        Wrong::Overflow => (
            "This model's maximum context length is 128000 tokens. However, your messages resulted in 131072 tokens. Please reduce \
             the length of the messages."
                .into(),
            "invalid_request_error",
            json!("messages"),
            json!("context_length_exceeded"),
        ),
        Wrong::Request(refusal) => {
            let param = refusal.param.as_ref().filter(|param| !param.is_empty());
            (refusal.message.clone(), "invalid_request_error", json!(param), json!(refusal.code))
        }
        Wrong::Status(401) => (
            "Incorrect API key provided. You can find your API key in your account settings.".into(),
            "invalid_request_error",
            Value::Null,
            json!("invalid_api_key"),
        ),
        Wrong::Status(404) => (
            format!("The model `{model}` does not exist or you do not have access to it."),
            "invalid_request_error",
            Value::Null,
            json!("model_not_found"),
        ),
        Wrong::Status(429) => (
            format!("Rate limit reached for {model} on requests per min. Please try again later."),
            "requests",
            Value::Null,
            json!("rate_limit_exceeded"),
        ),
        Wrong::Status(code) if *code < 500 => {
            (format!("The request was refused ({code})."), "invalid_request_error", Value::Null, Value::Null)
        }
        Wrong::Status(_) => (
            "The server had an error while processing your request. Sorry about that!".into(),
            "server_error",
            Value::Null,
            Value::Null,
        ),
    };
    json!({ "error": { "message": message, "type": kind, "param": param, "code": code } })
}

fn anthropic(wrong: &Wrong, model: &str) -> Value {
    let (kind, message) = match wrong {
        Wrong::Overflow => ("invalid_request_error", "prompt is too long: 205000 tokens > 200000 maximum".into()),
        Wrong::Request(refusal) => {
            let kind = if refusal.status == 401 { "authentication_error" } else { "invalid_request_error" };
            (kind, refusal.message.clone())
        }
        Wrong::Status(400) => ("invalid_request_error", "The request was refused.".into()),
        Wrong::Status(401) => ("authentication_error", "invalid x-api-key".into()),
        Wrong::Status(403) => ("permission_error", "Your API key does not have permission to use this model.".into()),
        Wrong::Status(404) => ("not_found_error", format!("model: {model}")),
        Wrong::Status(413) => ("request_too_large", "Request exceeds the maximum size".into()),
        Wrong::Status(429) => ("rate_limit_error", "This request would exceed your account's rate limit.".into()),
        Wrong::Status(529) => ("overloaded_error", "Overloaded".into()),
        Wrong::Status(_) => ("api_error", "Internal server error".into()),
    };
    json!({ "type": "error", "error": { "type": kind, "message": message }, "request_id": "req_tieline" })
}

fn gemini(wrong: &Wrong, model: &str, retry_after: Option<u64>) -> Value {
    let code = wrong.status(Format::Gemini);
    let info = |kind: &str, more: Value| {
        let mut info = more;
        info["@type"] = json!(format!("type.googleapis.com/google.rpc.{kind}"));
        json!([info])
    };
    let (status, message, details) = match wrong {
        Wrong::Overflow => (
            "INVALID_ARGUMENT",
            "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).".into(),
            Value::Null,
        ),
        Wrong::Request(refusal) => {
            let status = if refusal.status == 403 { "PERMISSION_DENIED" } else { "INVALID_ARGUMENT" };
            (status, refusal.message.clone(), Value::Null)
        }
        Wrong::Status(401) => (
            "INVALID_ARGUMENT",
            "API key not valid. Please pass a valid API key.".into(),
            info("ErrorInfo", json!({ "reason": "API_KEY_INVALID", "domain": "googleapis.com" })),
        ),
        Wrong::Status(400 | 413) => ("INVALID_ARGUMENT", "Request contains an invalid argument.".into(), Value::Null),
        Wrong::Status(403) => ("PERMISSION_DENIED", "The caller does not have permission".into(), Value::Null),
        Wrong::Status(404) => (
            "NOT_FOUND",
            format!("models/{model} is not found for API version v1beta, or is not supported for generateContent."),
            Value::Null,
        ),
        Wrong::Status(429) => (
            "RESOURCE_EXHAUSTED",
            "You exceeded your current quota, please check your plan and billing details.".into(),
            retry_after
                .map_or(Value::Null, |seconds| info("RetryInfo", json!({ "retryDelay": format!("{seconds}s") }))),
        ),
        Wrong::Status(503 | 529) => {
            ("UNAVAILABLE", "The model is overloaded. Please try again later.".into(), Value::Null)
        }
        Wrong::Status(_) => ("INTERNAL", "An internal error has occurred. Please retry.".into(), Value::Null),
    };
    let mut error = json!({ "code": code, "message": message, "status": status });
    if !details.is_null() {
        error["details"] = details;
    }
    json!({ "error": error })
}
