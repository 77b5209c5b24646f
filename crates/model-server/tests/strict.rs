//! The server refuses what the real providers refuse, in each format: one table of what may be wrong with a good conversation.

#![allow(clippy::unwrap_used)]

mod common;

use common::{FORMATS, HEADERS, ask, continued, path, question, send};
use serde_json::{Value, json};
use tieline_model_server::{Answer, Call, Format, ModelServer, Script};

/// What is done to a good request.
enum Change {
    /// Sets what is at this place.
    Set(&'static str, Value),
    /// Takes away what is at this place.
    Cut(&'static str),
    /// Puts something before what is at this place of a list.
    Put(&'static str, Value),
}
use Change::{Cut, Put, Set};

fn apply(body: &mut Value, change: &Change) {
    let (Set(at, _) | Cut(at) | Put(at, _)) = change;
    let (parent, key) = at.rsplit_once('/').unwrap();
    let parent = body.pointer_mut(parent).unwrap_or_else(|| panic!("nothing at {at}"));
    match (change, parent) {
        (Set(_, value), Value::Object(all)) => drop(all.insert(key.into(), value.clone())),
        (Set(_, value), Value::Array(all)) => all[key.parse::<usize>().unwrap()] = value.clone(),
        (Cut(_), Value::Object(all)) => drop(all.remove(key).unwrap_or_else(|| panic!("nothing at {at}"))),
        (Cut(_), Value::Array(all)) => drop(all.remove(key.parse().unwrap())),
        (Put(_, value), Value::Array(all)) => all.insert(key.parse().unwrap(), value.clone()),
        (_, other) => panic!("{at}: {other}"),
    }
}

/// A thought and two calls, their results, an answer, and another question.
async fn conversation(server: &ModelServer, format: Format) -> Value {
    let mut body = question(format, false, "do it", &["read"]);
    if format == Format::Responses {
        body["include"] = json!(["reasoning.encrypted_content"]);
        body["store"] = json!(false);
    }
    for _ in 0..2 {
        let heard = send(server, "POST", path(format, false), HEADERS, &body.to_string()).await;
        assert_eq!(heard.status, 200, "{format:?} {}", heard.text());
        body = continued(format, body, &heard.json());
    }
    let (key, next) = match format {
        Format::Gemini => ("contents", json!({ "role": "user", "parts": [{ "text": "more" }] })),
        Format::Responses => ("input", json!({ "role": "user", "content": "more" })),
        _ => ("messages", json!({ "role": "user", "content": "more" })),
    };
    let list = body[key].as_array_mut().unwrap();
    // Nothing is to be told behind an answer without calls.
    list.retain(|one| one["content"] != json!([]) && one["parts"] != json!([]));
    list.push(next);
    body
}

#[expect(clippy::too_many_lines, reason = "a table")]
fn rows(format: Format) -> Vec<(Change, &'static str)> {
    let text = |text: &str| json!({ "role": "user", "content": text });
    match format {
        // 0 user, 1 calls, 2 and 3 results, 4 answer, 5 user
        Format::Chat => vec![
            (Cut("/messages/2"), "did not have response messages: call_"),
            (Cut("/messages/1"), "must be a response to a preceeding message with 'tool_calls'"),
            (Set("/messages/2/tool_call_id", json!("x")), "not found in 'tool_calls' of previous message"),
            (Put("/messages/3", text("in between")), "must be followed by tool messages"),
            (Put("/messages/5", text("twice")), "Conversation roles must alternate"),
            (Set("/messages/0/content", json!(null)), "expected a string, got null"),
            (Set("/messages/0/content", json!([])), "empty array"),
            (Set("/messages/0/role", json!("human")), "Supported values are: 'system'"),
            (Set("/messages/1/strange", json!(1)), "'strange' was unexpected"),
            (Set("/messages/1/tool_calls/0/function/arguments", json!({})), "expected a string, but got an object"),
            (Set("/messages/1/tool_calls/0/function/arguments", json!("{")), "is not valid JSON"),
            (Set("/messages/1/tool_calls/0/function/name", json!("a b")), "does not match pattern"),
            (Set("/messages/1/tool_calls/0/id", json!("x".repeat(41))), "maximum length 40"),
            (Set("/messages", json!([])), "Invalid 'messages': empty array"),
            (Cut("/messages"), "Missing required parameter: 'messages'"),
            (Cut("/model"), "you must provide a model parameter"),
            (Set("/strange", json!(1)), "Unrecognized request argument supplied: strange"),
            (Set("/tools", json!([])), "Invalid 'tools': empty array"),
            (Set("/tools/0/function/name", json!("a.b")), "does not match pattern"),
            (Set("/tools/0/function/parameters/type", json!("array")), "schema must be a JSON Schema"),
            (Set("/stream_options", json!({})), "only allowed when 'stream' is enabled"),
        ],
        // 0 user, 1 thought, 2 and 3 calls, 4 and 5 results, 6 answer, 7 user
        Format::Responses => vec![
            (Cut("/input/4"), "No tool output found for function call call_"),
            (Cut("/input/2"), "No tool call found for function call output with call_id call_"),
            (Put("/input/2", text("in between")), "without its required following item"),
            (Cut("/input/1/encrypted_content"), "Items are not persisted when `store` is set to false"),
            (Set("/input/1/summary/0/text", json!("other")), "could not be verified"),
            (Set("/input/0/content", json!([])), "empty array"),
            (
                Set("/input/0/content", json!([{ "type": "output_text", "text": "x" }])),
                "Supported values are: 'input_text'",
            ),
            (Set("/input/6/content/0/type", json!("input_text")), "Supported values are: 'output_text'"),
            (Set("/input/0/strange", json!(1)), "Unknown parameter: 'input[0].strange'"),
            (Set("/input/2/arguments", json!({})), "expected a string, but got an object"),
            (Set("/input/2/name", json!("a b")), "does not match pattern"),
            (Set("/input", json!([])), "must be provided"),
            (Cut("/input"), "must be provided"),
            (Cut("/model"), "Missing required parameter: 'model'"),
            (Set("/strange", json!(1)), "Unknown parameter: 'strange'"),
            (Set("/max_output_tokens", json!(9)), "Expected a value >= 16"),
            (Set("/tools/0/name", json!("a.b")), "does not match pattern"),
            (Set("/tools/0/parameters/anyOf", json!([])), "at the top level"),
        ],
        // 0 user, 1 thought and calls, 2 results and a text, 3 answer, 4 text, and user
        Format::Messages => vec![
            (Cut("/messages/2"), "`tool_use` ids were found without `tool_result` blocks immediately after: toolu_"),
            (Cut("/messages/1"), "unexpected `tool_use_id` found in `tool_result` blocks: toolu_"),
            (Cut("/messages/2/content/0"), "without `tool_result` blocks immediately after"),
            (Put("/messages/2/content/0", json!({ "type": "text", "text": "first" })), "immediately after"),
            (Set("/messages/1/content/0/thinking", json!("else")), "Invalid `signature` in `thinking` block"),
            (Cut("/messages/1/content/0/signature"), "thinking.signature: Field required"),
            (Set("/messages/0/content", json!([])), "all messages must have non-empty content"),
            (Set("/messages/0/content", json!("")), "all messages must have non-empty content"),
            (Set("/messages/2/content/2/text", json!("")), "text content blocks must be non-empty"),
            (Set("/messages/2/content/2/text", json!(" ")), "must contain non-whitespace text"),
            (Set("/messages/0/role", json!("system")), "Unexpected role"),
            (Put("/messages/0", json!({ "role": "assistant", "content": "x" })), "first message must use"),
            (
                Put("/messages/6", json!({ "role": "assistant", "content": "x" })),
                "does not support assistant message prefill",
            ),
            (Set("/messages/1/content/1/strange", json!(1)), "messages.1.content.1.tool_use.strange: Extra inputs"),
            (Set("/messages/0/strange", json!(1)), "messages.0.strange: Extra inputs are not permitted"),
            (Set("/messages/1/content/1/input", json!("{}")), "Input should be a valid dictionary"),
            (Set("/messages/1/content/1/name", json!("a b")), "tool_use.name: String should match pattern"),
            (Set("/messages", json!([])), "at least one message is required"),
            (Cut("/messages"), "messages: Field required"),
            (Cut("/max_tokens"), "max_tokens: Field required"),
            (Cut("/model"), "model: Field required"),
            (Set("/strange", json!(1)), "strange: Extra inputs are not permitted"),
            (
                Set("/system", json!([{ "type": "text", "text": "" }])),
                "system.0: text content blocks must be non-empty",
            ),
            (Set("/tools/0/name", json!("a.b")), "tools.0.custom.name: String should match pattern"),
            (Set("/tools/0/input_schema/properties", json!({ "a b": {} })), "Property keys should match pattern"),
            (Cut("/tools/0/input_schema/type"), "input_schema.type: Field required"),
            (Set("/thinking", json!({ "type": "enabled", "budget_tokens": 9 })), "greater than or equal to 1024"),
        ],
        // 0 user, 1 thought and calls, 2 results, 3 answer, 4 user
        _ => vec![
            (Cut("/contents/2/parts/0"), "number of function response parts is equal"),
            (Cut("/contents/1"), "function response turn comes immediately after a function call turn"),
            (Cut("/contents/2"), "number of function response parts is equal"),
            (Cut("/contents/0"), "function call turn comes immediately after a user turn"),
            (Set("/contents/2/parts/0/functionResponse/name", json!("other")), "number of function response parts"),
            (Set("/contents/2/parts/0/functionResponse/name", json!("")), "Name cannot be empty"),
            (Set("/contents/2/parts/0/functionResponse/response", json!("R")), "google.protobuf.Struct"),
            (Set("/contents/1/parts/1/thoughtSignature", json!("x")), "Corrupted thought signature"),
            (Set("/contents/0/parts", json!([])), "contents.parts must not be empty"),
            (Set("/contents/0/parts/0/text", json!("")), "must have one initialized field"),
            (Set("/contents/0/role", json!("assistant")), "Please use a valid role: user, model."),
            (Cut("/contents/4"), "ends with a user role or a function response"),
            (Set("/contents", json!([])), "contents is not specified"),
            (Set("/strange", json!(1)), "Unknown name \\\"strange\\\": Cannot find field"),
            (Set("/contents/0/parts/0/strange", json!(1)), "at 'contents[0].parts[0]'"),
            (Set("/generationConfig", json!({ "strange": 1 })), "at 'generation_config'"),
            (Set("/tools/0/functionDeclarations/0/name", json!("a b")), "Invalid function name"),
            (
                Set("/tools/0/functionDeclarations/0/parameters", json!({ "type": "object" })),
                "should be non-empty for OBJECT type",
            ),
        ],
    }
}

#[tokio::test]
async fn what_the_real_ones_refuse_is_refused() {
    for format in FORMATS {
        let first = Answer::new().think("hm").and(Call::read("a")).and(Call::read("b"));
        let server = ModelServer::start(Script::new(vec![first, Answer::text("got {result}")])).await.unwrap();
        let good = conversation(&server, format).await;
        let heard = send(&server, "POST", path(format, false), HEADERS, &good.to_string()).await;
        assert_eq!(heard.status, 200, "{format:?} {}\n{good}", heard.text());
        for (change, words) in rows(format) {
            let mut body = good.clone();
            apply(&mut body, &change);
            let heard = send(&server, "POST", path(format, false), HEADERS, &body.to_string()).await;
            let status = if words.contains("persisted") { 404 } else { 400 };
            assert_eq!(heard.status, status, "{format:?}: not refused: {words}: {body}");
            assert!(heard.text().contains(words), "{format:?}: {words}: {}", heard.text());
            let kind = if format == Format::Gemini {
                ("/error/status", "INVALID_ARGUMENT")
            } else {
                ("/error/type", "invalid_request_error")
            };
            assert_eq!(heard.json().pointer(kind.0), Some(&json!(kind.1)), "{}", heard.text());
        }
        let heard = send(&server, "POST", path(format, false), HEADERS, "{no json").await;
        assert_eq!(heard.status, 400);
    }
}

/// The turn that goes on needs its proofs: Gemini the signature of the first call, Anthropic the thought before it.
#[tokio::test]
async fn a_step_without_its_proof_is_refused() {
    for (format, cut, words) in [
        (Format::Gemini, "/contents/1/parts/1/thoughtSignature", "missing a thought_signature in functionCall parts"),
        (Format::Messages, "/messages/1/content/0", "must start with a thinking block"),
    ] {
        let first = Answer::new().think("hm").and(Call::read("a"));
        let server = ModelServer::start(Script::new(vec![first, Answer::text("done")])).await.unwrap();
        let first = ask(&server, format, false, "do it", &["read"]).await;
        let mut body = continued(format, question(format, false, "do it", &["read"]), &first.json());
        if format == Format::Messages {
            body["thinking"] = json!({ "type": "enabled", "budget_tokens": 2000 });
            body["max_tokens"] = json!(4000);
        }
        assert_eq!(send(&server, "POST", path(format, false), HEADERS, &body.to_string()).await.status, 200);
        apply(&mut body, &Cut(cut));
        let heard = send(&server, "POST", path(format, false), HEADERS, &body.to_string()).await;
        assert!(heard.status == 400 && heard.text().contains(words), "{}", heard.text());
    }
}

#[tokio::test]
async fn headers_count() {
    let server = ModelServer::start(Script::new(vec![Answer::text("x")])).await.unwrap();
    for (format, without, status, words) in [
        (Format::Messages, "anthropic-version", 400, "anthropic-version: header is required"),
        (Format::Messages, "x-api-key", 401, "x-api-key header is required"),
        (Format::Gemini, "x-goog-api-key", 403, "unregistered callers"),
        (Format::Chat, "content-type", 400, "Unsupported content type"),
        (Format::Responses, "content-type", 400, "Unsupported content type"),
    ] {
        let headers: String = HEADERS.split_inclusive("\r\n").filter(|line| !line.starts_with(without)).collect();
        let body = question(format, false, "x", &[]).to_string();
        let heard = send(&server, "POST", path(format, false), &headers, &body).await;
        assert!(heard.status == status && heard.text().contains(words), "{without}: {}", heard.text());
    }
    let body = question(Format::Messages, false, "x", &[]).to_string();
    let headers = HEADERS.replace("2023-06-01", "2020-01-01");
    let heard = send(&server, "POST", "/v1/messages", &headers, &body).await;
    assert!(heard.status == 400 && heard.text().contains("is not a valid version"), "{}", heard.text());
}

#[tokio::test]
async fn a_compatible_server_ignores_what_it_does_not_know() {
    let server = ModelServer::start(Script::new(vec![Answer::text("x")]).compatible()).await.unwrap();
    for format in [Format::Chat, Format::Responses] {
        let mut body = question(format, false, "x", &[]);
        body["strange"] = json!(1);
        let heard = send(&server, "POST", path(format, false), HEADERS, &body.to_string()).await;
        assert_eq!(heard.status, 200, "{}", heard.text());
    }
}
