//! The place in a script is read from the request; side requests, lists of models, keys and directives.

#![allow(clippy::unwrap_used)]

mod common;

use common::{FORMATS, HEADERS, ask, continued, path, question, said, send};
use serde_json::json;
use tieline_model_server::{Answer, Call, Format, ModelServer, Script};

fn script() -> Script {
    let first = Answer::new().think("hm").and(Call::read("a")).and(Call::read("b"));
    Script::new(vec![first, Answer::text("got {result}")]).when("other", vec![Answer::text("another")])
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
            let second = send(&server, "POST", path(format, false), HEADERS, &body.to_string()).await;
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
    let heard = send(&server, "POST", path(Format::Gemini, false), HEADERS, &body.to_string()).await;
    assert_eq!(heard.json()["candidates"][0]["content"]["parts"][0]["text"], r#"{"next":"user"}"#);
}

/// Codex lets the model review its own commands, with tools and a schema; and it offers tools inside the conversation.
#[tokio::test]
async fn the_ways_of_codex_are_understood() {
    let server = ModelServer::start(script()).await.unwrap();
    let mut body = question(Format::Responses, false, "is this safe?", &["read"]);
    let schema = json!({ "type": "object", "properties": { "outcome": { "enum": ["allow", "deny"] } } });
    body["text"] = json!({ "format": { "type": "json_schema", "name": "x", "schema": schema } });
    let heard = send(&server, "POST", path(Format::Responses, false), HEADERS, &body.to_string()).await;
    assert_eq!(heard.json()["output"][0]["content"][0]["text"], r#"{"outcome":"allow"}"#);

    let mut body = question(Format::Responses, false, "do it", &[]);
    let tool =
        json!({ "type": "function", "name": "read", "parameters": { "type": "object", "properties": { "path": {} } } });
    let inside = json!([{ "type": "namespace", "name": "functions", "tools": [tool] }]);
    body["input"].as_array_mut().unwrap().insert(0, json!({ "type": "additional_tools", "tools": inside }));
    let heard = send(&server, "POST", path(Format::Responses, false), HEADERS, &body.to_string()).await;
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
        let second = send(&server, "POST", path(format, false), HEADERS, &body.to_string()).await;
        assert!(second.text().contains("then R"), "{}", second.text());
    }
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
