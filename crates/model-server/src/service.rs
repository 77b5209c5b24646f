//! One request and its answer: which format it is, who may ask, what goes back.

use crate::body::Played;
use crate::choose::choose;
use crate::play::{self, Act};
use crate::refuse;
use crate::server::{Recorded, Shared};
use crate::talk::{Asked, Format};
use crate::wire::error::Wrong;
use crate::wire::{self, chat, gemini, lists, messages, responses};
use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::{Method, Request, Response, StatusCode};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tieline_script::Fault;

/// The largest request.
const MAX_BODY: usize = 64 << 20;
/// The client has so long to send its request.
const BODY_PATIENCE: Duration = Duration::from_mins(1);
/// What a server without a list of models calls its own.
const MODEL: &str = "tieline-scripted";

type Answered = Response<Played>;

/// What a path asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Wanted {
    Ask(Format),
    AskGemini { model: String, stream: bool, sse: bool },
    Count(Format),
    Models,
    Model(String),
    GeminiModels,
    GeminiModel(String),
    Tags,
    Version,
    Root,
    Unknown,
}

/// Answers one request.
pub(crate) async fn answer(shared: Arc<Shared>, request: Request<Incoming>) -> Result<Answered, Infallible> {
    let (head, body) = request.into_parts();
    let path = head.uri.path_and_query().map_or_else(|| "/".into(), ToString::to_string);
    let wanted = wanted(&head.method, head.uri.path(), head.uri.query().unwrap_or_default());
    let headers: Vec<(String, String)> = head
        .headers
        .iter()
        .map(|(name, value)| (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
        .collect();
    let read = tokio::time::timeout(BODY_PATIENCE, Limited::new(body, MAX_BODY).collect()).await;
    let Ok(Ok(body)) = read else {
        return Ok(json_answer(
            413,
            &json!({ "error": { "message": "The request is too large, too slow or broken off." } }),
        ));
    };
    let body: Value = serde_json::from_slice(&body.to_bytes()).unwrap_or_default();
    let format = match &wanted {
        Wanted::Ask(format) => *format,
        Wanted::AskGemini { .. } => Format::Gemini,
        _ => Format::Other,
    };
    let recorded = Recorded { format, path, headers, body };
    shared.record(recorded.clone());
    Ok(respond(&shared, &wanted, &recorded).await)
}

/// Base addresses differ: with `/v1`, without, with more before it. So only the end of the path counts.
fn wanted(method: &Method, path: &str, query: &str) -> Wanted {
    let path = path.trim_end_matches('/');
    if let Some((_, tail)) = path.rsplit_once("/models/") {
        if let Some((model, verb)) = tail.rsplit_once(':') {
            let model = model.to_owned();
            return match verb {
                "streamGenerateContent" => Wanted::AskGemini { model, stream: true, sse: query.contains("alt=sse") },
                "generateContent" => Wanted::AskGemini { model, stream: false, sse: false },
                "countTokens" => Wanted::Count(Format::Gemini),
                _ => Wanted::Unknown,
            };
        }
        let model = tail.to_owned();
        return if path.contains("/v1beta/") { Wanted::GeminiModel(model) } else { Wanted::Model(model) };
    }
    let ends = |end: &str| path.ends_with(end);
    match *method {
        Method::POST if ends("/chat/completions") => Wanted::Ask(Format::Chat),
        Method::POST if ends("/responses") => Wanted::Ask(Format::Responses),
        Method::POST if ends("/messages/count_tokens") => Wanted::Count(Format::Messages),
        Method::POST if ends("/messages") => Wanted::Ask(Format::Messages),
        Method::GET if ends("/v1beta/models") => Wanted::GeminiModels,
        Method::GET if ends("/models") => Wanted::Models,
        Method::GET if ends("/api/tags") => Wanted::Tags,
        Method::GET if ends("/api/version") => Wanted::Version,
        Method::GET | Method::HEAD if path.is_empty() || path == "/v1" => Wanted::Root,
        _ => Wanted::Unknown,
    }
}

async fn respond(shared: &Shared, wanted: &Wanted, recorded: &Recorded) -> Answered {
    let own = [MODEL.to_owned()];
    let models = shared.script.models.as_deref().unwrap_or(&own);
    let anthropic = recorded.header("anthropic-version").is_some() || recorded.header("x-api-key").is_some();
    let vendor = match wanted {
        Wanted::Count(format) => *format,
        Wanted::GeminiModels | Wanted::GeminiModel(_) => Format::Gemini,
        Wanted::Models | Wanted::Model(_) if anthropic => Format::Messages,
        _ => recorded.format,
    };
    let open = matches!(wanted, Wanted::Root | Wanted::Unknown | Wanted::Tags | Wanted::Version);
    if !open && !has_key(shared, recorded) {
        return wrong(&Wrong::Status(401), vendor, "", None);
    }
    let known = |id: &String| shared.script.models.is_none() || models.contains(id);
    match wanted {
        Wanted::Models if anthropic => json_answer(200, &lists::anthropic(models)),
        Wanted::Models => json_answer(200, &lists::openai(models)),
        Wanted::GeminiModels => json_answer(200, &lists::gemini(models)),
        Wanted::Tags => json_answer(200, &lists::ollama(models)),
        Wanted::Version => json_answer(200, &json!({ "version": "0.0.0" })),
        Wanted::Root => json_answer(200, &json!({ "server": "tieline-model-server" })),
        Wanted::Model(id) | Wanted::GeminiModel(id) if !known(id) => wrong(&Wrong::Status(404), vendor, id, None),
        Wanted::Model(id) if anthropic => json_answer(200, &lists::anthropic_one(id)),
        Wanted::Model(id) => json_answer(200, &lists::openai_one(id)),
        Wanted::GeminiModel(id) => json_answer(200, &lists::gemini_one(id)),
        // About four bytes make a token.
        Wanted::Count(Format::Gemini) => {
            json_answer(200, &json!({ "totalTokens": recorded.body.to_string().len() / 4 }))
        }
        Wanted::Count(_) => json_answer(200, &json!({ "input_tokens": recorded.body.to_string().len() / 4 })),
        Wanted::Unknown => {
            let message = format!("There is nothing at {}.", recorded.path);
            json_answer(404, &json!({ "error": { "message": message, "type": "invalid_request_error" } }))
        }
        Wanted::Ask(_) | Wanted::AskGemini { .. } => {
            let asked = read(wanted, &recorded.body);
            if !known(&asked.model) {
                return wrong(&Wrong::Status(404), asked.format, &asked.model, None);
            }
            match refuse::check(&asked, recorded, &shared.script) {
                Err(refusal) => wrong(&Wrong::Request(refusal), asked.format, &asked.model, None),
                Ok(()) => ask(shared, &asked).await,
            }
        }
    }
}

fn read(wanted: &Wanted, body: &Value) -> Asked {
    match wanted {
        Wanted::AskGemini { model, stream, sse } => gemini::read(body, model, *stream, *sse || !*stream),
        Wanted::Ask(Format::Responses) => responses::read(body),
        Wanted::Ask(Format::Messages) => messages::read(body),
        _ => chat::read(body),
    }
}

fn has_key(shared: &Shared, recorded: &Recorded) -> bool {
    let Some(key) = &shared.script.key else { return true };
    let bearer = recorded.header("authorization").and_then(|value| value.strip_prefix("Bearer "));
    let query = recorded.path.split_once('?').map_or("", |(_, query)| query);
    let in_query = query.split('&').find_map(|pair| pair.strip_prefix("key="));
    let given = [bearer, recorded.header("x-api-key"), recorded.header("x-goog-api-key"), in_query];
    given.into_iter().flatten().any(|given| given == key)
}

async fn ask(shared: &Shared, asked: &Asked) -> Answered {
    let chosen = choose(&shared.script, &mut shared.memory(), asked);
    for fault in &chosen.faults {
        if let Fault::Slow(time) = fault {
            tokio::time::sleep(*time).await;
        }
    }
    for fault in &chosen.faults {
        match fault {
            Fault::Status { code, retry_after } => {
                return wrong(&Wrong::Status(*code), asked.format, &asked.model, *retry_after);
            }
            // This vendor tells it in the stream.
            Fault::Overflow if asked.format == Format::Responses && asked.stream => {
                let event = Wrong::Overflow.event(asked.format, &asked.model, 0);
                return streamed(play::stream(asked, vec![event], &[], Duration::ZERO), "text/event-stream");
            }
            Fault::Overflow => return wrong(&Wrong::Overflow, asked.format, &asked.model, None),
            _ => {}
        }
    }
    if !asked.stream {
        let body = wire::whole(asked, &chosen.reply).to_string().into_bytes();
        return streamed(play::whole(body, &chosen.faults), "application/json");
    }
    let events = wire::events(asked, &chosen.reply);
    let kind = if asked.array { "application/json" } else { "text/event-stream" };
    streamed(play::stream(asked, events, &chosen.faults, chosen.pace), kind)
}

fn streamed(acts: VecDeque<Act>, kind: &'static str) -> Answered {
    let mut answer = Response::new(Played::new(acts));
    answer.headers_mut().insert("content-type", hyper::header::HeaderValue::from_static(kind));
    answer
}

fn json_answer(status: u16, body: &Value) -> Answered {
    let mut answer = streamed(VecDeque::from([Act::Write(Bytes::from(body.to_string()))]), "application/json");
    *answer.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    answer
}

fn wrong(wrong: &Wrong, format: Format, model: &str, retry_after: Option<u64>) -> Answered {
    let mut answer = json_answer(wrong.status(format), &wrong.body(format, model, retry_after));
    if let Some(seconds) = retry_after {
        answer.headers_mut().insert("retry-after", seconds.into());
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_recognised_with_any_base() {
        let gemini = |stream, sse| Wanted::AskGemini { model: "m".into(), stream, sse };
        for (method, path, query, expect) in [
            (Method::POST, "/v1/chat/completions", "", Wanted::Ask(Format::Chat)),
            (Method::POST, "/chat/completions", "", Wanted::Ask(Format::Chat)),
            (Method::POST, "/openai/v1/chat/completions", "", Wanted::Ask(Format::Chat)),
            (Method::POST, "/v1/responses", "", Wanted::Ask(Format::Responses)),
            (Method::POST, "/v1/messages", "beta=true", Wanted::Ask(Format::Messages)),
            (Method::POST, "/v1/messages/count_tokens", "", Wanted::Count(Format::Messages)),
            (Method::POST, "/v1beta/models/m:streamGenerateContent", "alt=sse", gemini(true, true)),
            (Method::POST, "/models/m:streamGenerateContent", "", gemini(true, false)),
            (Method::POST, "/v1beta/models/m:generateContent", "", gemini(false, false)),
            (Method::POST, "/v1beta/models/m:countTokens", "", Wanted::Count(Format::Gemini)),
            (Method::GET, "/v1/models", "", Wanted::Models),
            (Method::GET, "/models/", "", Wanted::Models),
            (Method::GET, "/v1/models/m", "", Wanted::Model("m".into())),
            (Method::GET, "/v1beta/models", "", Wanted::GeminiModels),
            (Method::GET, "/api/tags", "", Wanted::Tags),
            (Method::HEAD, "/", "", Wanted::Root),
            (Method::GET, "/v1/messages", "", Wanted::Unknown),
        ] {
            assert_eq!(wanted(&method, path, query), expect, "{method} {path}");
        }
    }
}
