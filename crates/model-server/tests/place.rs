//! The place in a script is read from the request; side requests, lists of models, keys and directives.

#![allow(clippy::unwrap_used)]

mod common;

use common::{FORMATS, ask, path, question, said, send};
use serde_json::{Value, json};
use tieline_model_server::{Answer, Call, Format, ModelServer, Script};

fn script() -> Script {
    let first = Answer::new().think("hm").and(Call::read("a")).and(Call::read("b"));
    Script::new(vec![first, Answer::text("got {result}")]).when("other", vec![Answer::text("another")])
}

/// The question with what the server answered, and with results for its calls.
fn continued(format: Format, mut body: Value, answer: &Value) -> Value {
    let (key, more) = match format {
        Format::Chat => {
            let message = answer["choices"][0]["message"].clone();
            let calls = message["tool_calls"].as_array().cloned().unwrap_or_default();
            let result = |call: &Value| json!({ "role": "tool", "tool_call_id": call["id"], "content": "R" });
            ("messages", [vec![message], calls.iter().map(result).collect()].concat())
        }
        Format::Responses => {
            let output = answer["output"].as_array().cloned().unwrap_or_default();
            let calls = output.iter().filter(|item| item["type"] == "function_call");
            let results =
                calls.map(|call| json!({ "type": "function_call_output", "call_id": call["call_id"], "output": "R" }));
            ("input", [output.clone(), results.collect()].concat())
        }
        Format::Messages => {
            let content = answer["content"].as_array().cloned().unwrap_or_default();
            let calls = content.iter().filter(|block| block["type"] == "tool_use");
            let mut results: Vec<_> =
                calls.map(|call| json!({ "type": "tool_result", "tool_use_id": call["id"], "content": "R" })).collect();
            results.push(json!({ "type": "text", "text": "be careful" }));
            (
                "messages",
                vec![json!({ "role": "assistant", "content": content }), json!({ "role": "user", "content": results })],
            )
        }
        _ => {
            let content = answer["candidates"][0]["content"].clone();
            let calls = content["parts"].as_array().cloned().unwrap_or_default();
            let calls = calls.iter().filter_map(|part| part.get("functionCall"));
            let result =
                |call: &Value| json!({ "functionResponse": { "name": call["name"], "response": { "output": "R" } } });
            let results: Vec<_> = calls.map(result).collect();
            ("contents", vec![content, json!({ "role": "user", "parts": results })])
        }
    };
    body[key].as_array_mut().unwrap().extend(more);
    body
}

#[tokio::test]
async fn a_conversation_goes_through_the_answers() {
    for format in FORMATS {
        let server = ModelServer::start(script()).await.unwrap();
        let body = question(format, false, "do it", &["read"]);
        // Asked twice: the place does not depend on how often one asks.
        for _ in 0..2 {
            let first = ask(&server, format, false, "do it", &["read"]).await;
            assert_eq!(first.text().matches("\"read\"").count(), 2, "{}", first.text());
            let body = continued(format, body.clone(), &first.json());
            let second = send(&server, "POST", path(format, false), "", &body.to_string()).await;
            assert!(second.text().contains("got R\\nR"), "{format:?} {}", second.text());
        }
        let other = ask(&server, format, true, "the other one", &["read"]).await;
        assert_eq!(said(format, &other.events()), "another");
        let recorded = server.requests();
        assert_eq!(recorded.len(), 5);
        assert!(recorded.iter().all(|request| request.format == format));
        assert_eq!(recorded[0].body, body);
    }
}

#[tokio::test]
async fn a_request_without_tools_is_a_side_request() {
    for format in FORMATS {
        let server = ModelServer::start(script().side("A title")).await.unwrap();
        let heard = ask(&server, format, true, "do it", &[]).await;
        assert_eq!(said(format, &heard.events()), "A title", "{format:?}");
    }
}

#[tokio::test]
async fn an_answer_that_must_be_json_is_json() {
    let schema = json!({ "type": "object", "properties": { "next": { "type": "string", "enum": ["user", "model"] } } });
    let server = ModelServer::start(script()).await.unwrap();
    let mut body = question(Format::Gemini, false, "who is next", &[]);
    body["generationConfig"] = json!({ "responseMimeType": "application/json", "responseJsonSchema": schema });
    let heard = send(&server, "POST", path(Format::Gemini, false), "", &body.to_string()).await;
    assert_eq!(heard.json()["candidates"][0]["content"]["parts"][0]["text"], r#"{"next":"user"}"#);
}

/// Codex lets the model review its own commands, with tools and a schema; and it offers tools inside the conversation.
#[tokio::test]
async fn the_ways_of_codex_are_understood() {
    let server = ModelServer::start(script()).await.unwrap();
    let mut body = question(Format::Responses, false, "is this safe?", &["read"]);
    let schema = json!({ "type": "object", "properties": { "outcome": { "enum": ["allow", "deny"] } } });
    body["text"] = json!({ "format": { "type": "json_schema", "name": "x", "schema": schema } });
    let heard = send(&server, "POST", path(Format::Responses, false), "", &body.to_string()).await;
    assert_eq!(heard.json()["output"][0]["content"][0]["text"], r#"{"outcome":"allow"}"#);

    let mut body = question(Format::Responses, false, "do it", &[]);
    let tool = json!({ "type": "function", "name": "read", "parameters": { "properties": { "path": {} } } });
    let inside = json!([{ "type": "namespace", "name": "functions", "tools": [tool] }]);
    body["input"].as_array_mut().unwrap().insert(0, json!({ "type": "additional_tools", "tools": inside }));
    let heard = send(&server, "POST", path(Format::Responses, false), "", &body.to_string()).await;
    assert_eq!(heard.json()["output"][1]["name"], "read", "{}", heard.text());
}

#[tokio::test]
async fn directives_in_the_prompt_are_followed() {
    for format in FORMATS {
        let server = ModelServer::start(script()).await.unwrap();
        let prompt = "please\nmodel: say first\nmodel: call read {\"path\": \"x\"}\nmodel: say then {result}";
        let first = ask(&server, format, false, prompt, &["read"]).await;
        assert!(first.text().contains("first") && first.text().contains("\"read\""), "{}", first.text());
        let body = continued(format, question(format, false, prompt, &["read"]), &first.json());
        let second = send(&server, "POST", path(format, false), "", &body.to_string()).await;
        assert!(second.text().contains("then R"), "{}", second.text());
    }
}

#[tokio::test]
async fn bad_histories_are_refused() {
    let server = ModelServer::start(script()).await.unwrap();
    let first = ask(&server, Format::Messages, false, "do it", &["read"]).await;
    let question = question(Format::Messages, false, "do it", &["read"]);
    let good = continued(Format::Messages, question, &first.json());
    let mut forged = good.clone();
    forged["messages"][1]["content"][0]["thinking"] = json!("something else");
    let mut lost = good.clone();
    lost["messages"][2]["content"].as_array_mut().unwrap().remove(0);
    let stray = json!({ "model": "m", "messages": [{ "role": "tool", "tool_call_id": "x", "content": "" }] });
    let nameless = json!({ "messages": [{ "role": "user", "content": "x" }] });
    for (format, body, status, part) in [
        (Format::Messages, good, 200, "got R"),
        (Format::Messages, forged, 400, "Invalid `signature` in `thinking` block"),
        (Format::Messages, lost, 400, "without `tool_result` blocks"),
        (Format::Chat, stray, 400, "No tool call found"),
        (Format::Chat, nameless, 400, "you must provide a model parameter"),
    ] {
        let heard = send(&server, "POST", path(format, false), "", &body.to_string()).await;
        assert_eq!(heard.status, status, "{}", heard.text());
        assert!(heard.text().contains(part), "{}", heard.text());
    }
    let heard = send(&server, "POST", "/v1/chat/completions", "", "{no json").await;
    assert_eq!(heard.status, 400);
}

#[tokio::test]
async fn models_are_listed_in_each_shape() {
    let server = ModelServer::start(script().models(["one", "two"])).await.unwrap();
    for (path, headers, pointer, expect) in [
        ("/v1/models", "", "/data/1/id", json!("two")),
        ("/models", "", "/object", json!("list")),
        ("/v1/models", "anthropic-version: 2023-06-01\r\n", "/data/0/type", json!("model")),
        ("/v1beta/models", "", "/models/0/name", json!("models/one")),
        ("/api/tags", "", "/models/1/name", json!("two")),
        ("/v1/models/two", "", "/id", json!("two")),
        ("/v1/models/three", "", "/error/code", json!("model_not_found")),
    ] {
        let heard = send(&server, "GET", path, headers, "").await;
        assert_eq!(heard.json().pointer(pointer), Some(&expect), "{path} {}", heard.text());
    }
    for format in FORMATS {
        assert_eq!(ask(&server, format, true, "x", &[]).await.status, 404, "{format:?}");
    }
}

#[tokio::test]
async fn a_key_is_asked_for() {
    let server = ModelServer::start(script().key("k")).await.unwrap();
    for (headers, path, status) in [
        ("", "/v1/models", 401),
        ("authorization: Bearer wrong\r\n", "/v1/models", 401),
        ("authorization: Bearer k\r\n", "/v1/models", 200),
        ("x-api-key: k\r\n", "/v1/models", 200),
        ("x-goog-api-key: k\r\n", "/v1beta/models", 200),
        ("", "/v1beta/models?key=k", 200),
        ("", "/v1beta/models", 400),
    ] {
        assert_eq!(send(&server, "GET", path, headers, "").await.status, status, "{headers} {path}");
    }
}

#[tokio::test]
async fn it_ends_when_it_is_dropped() {
    let server = ModelServer::start(script()).await.unwrap();
    let address = server.url().trim_start_matches("http://").to_owned();
    drop(server);
    for _ in 0..200 {
        if tokio::net::TcpStream::connect(&address).await.is_err() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("it still listens");
}
