//! The official SDKs of the providers understand what the server writes: each built-in script, streamed and whole.

#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};
use std::process::Stdio;
use std::time::Duration;
use tieline_model_server::{Answer, Call, Fault, Finish, Format, ModelServer, Script, Usage};
use tokio::process::Command;

/// Node has so long for all its questions, its start included.
const PATIENCE: Duration = Duration::from_mins(1);
const FORMATS: [(Format, &str); 4] = [
    (Format::Chat, "chat"),
    (Format::Responses, "responses"),
    (Format::Messages, "messages"),
    (Format::Gemini, "gemini"),
];
const FILES: [(&str, &str); 2] =
    [("package.json", include_str!("node/package.json")), ("ask.mjs", include_str!("node/ask.mjs"))];

/// What the SDK heard in answer to each prompt.
async fn heard(server: &ModelServer, format: &str, stream: bool, prompts: &[&str]) -> Vec<Value> {
    let mode = if stream { "stream" } else { "whole" };
    let mut node = Command::new("node");
    node.arg(tieline_npm::install("model-sdks", &FILES).join("ask.mjs"))
        .args([format, &server.url(), mode])
        .args(prompts);
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"] {
        node.env_remove(name);
    }
    let output = tokio::time::timeout(PATIENCE, node.stdin(Stdio::null()).kill_on_drop(true).output());
    let output = output.await.expect("node answers in time").expect("node runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let read = |line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {text}\n{errors}"));
    let all: Vec<_> = text.lines().map(read).collect();
    assert_eq!(all.len(), prompts.len(), "{text}\n{errors}");
    all
}

const TEXT: &str = "grüß dich, 世界, 🦀";

fn script() -> Script {
    let call = |path: &str| Call::named("read", json!({ "path": path, "deep": { "list": [1, "ü🦀", null] } }));
    let usage = Usage { input: 100, output: 30, cached: 40, reasoning: 18, cost: None };
    Script::new(vec![Answer::text("no prompt fits")])
        .when("text", vec![Answer::text(TEXT).usage(usage).chunk(3)])
        .when("thought", vec![Answer::new().think("hm 🤔, so").say(TEXT)])
        .when("tool", vec![Answer::new().say(TEXT).and(call("a"))])
        .when("parallel", vec![Answer::new().think("two").and(call("a")).and(call("b")).chunk(2)])
        .when("length", vec![Answer::text(TEXT).finish(Finish::MaxTokens)])
        .when("refusal", vec![Answer::text(TEXT).finish(Finish::Refusal)])
        .when(
            "split",
            vec![Answer::new().think("ü🦀").say(TEXT).and(call("a")).fault(Fault::Split).fault(Fault::KeepAlive)],
        )
        .when(
            "retry",
            vec![
                Answer::text(TEXT)
                    .fault_first(1, Fault::Status { code: 429, retry_after: Some(0) })
                    .fault_first(2, Fault::Status { code: 500, retry_after: None }),
            ],
        )
}

fn call(path: &str) -> Value {
    json!({ "name": "read", "args": { "path": path, "deep": { "list": [1, "ü🦀", null] } } })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_official_sdks_understand_each_kind_of_answer() {
    // The stop reasons: chat, responses, messages, gemini.
    let end = ["stop", "completed", "end_turn", "STOP"];
    let tools = ["tool_calls", "completed", "tool_use", "STOP"];
    let length = ["length", "max_output_tokens", "max_tokens", "MAX_TOKENS"];
    let refusal = ["stop", "completed", "refusal", "PROHIBITED_CONTENT"];
    let rows = [
        ("text", "", TEXT, vec![], end),
        ("thought", "hm 🤔, so", TEXT, vec![], end),
        ("tool", "", TEXT, vec![call("a")], tools),
        ("parallel", "two", "", vec![call("a"), call("b")], tools),
        ("length", "", TEXT, vec![], length),
        ("refusal", "", TEXT, vec![], refusal),
        ("split", "ü🦀", TEXT, vec![call("a")], tools),
        ("retry", "", TEXT, vec![], end),
    ];
    for (at, (format, name)) in FORMATS.into_iter().enumerate() {
        for stream in [true, false] {
            let server = ModelServer::start(script()).await.unwrap();
            let prompts: Vec<_> = rows.iter().map(|row| row.0).collect();
            let all = heard(&server, name, stream, &prompts).await;
            for ((prompt, thought, text, calls, stops), heard) in rows.iter().zip(all) {
                let what = format!("{format:?} {prompt} stream={stream}: {heard}");
                let (said, refused) = (heard["text"].as_str(), heard["refusal"].as_str());
                assert_eq!(said.unwrap_or_default().to_owned() + refused.unwrap_or_default(), *text, "{what}");
                assert_eq!(heard["thought"], *thought, "{what}");
                assert_eq!(heard["calls"], json!(calls), "{what}");
                assert_eq!(heard["stop"], stops[at], "{what}");
                if *prompt == "refusal" && at < 2 {
                    assert_eq!(refused, Some(TEXT), "{what}");
                }
                if *prompt == "text" {
                    let mut usage = json!({ "input": 100, "output": 30, "cached": 40 });
                    if format != Format::Messages {
                        usage["reasoning"] = json!(18);
                    }
                    assert_eq!(heard["usage"], usage, "{what}");
                }
            }
            let retries = server.requests().iter().filter(|request| request.body.to_string().contains("retry")).count();
            assert!(retries >= 3, "{format:?} stream={stream}: {retries} attempts");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_official_sdks_see_errors_as_errors() {
    for (format, name) in FORMATS {
        let script = Script::new(vec![Answer::text(TEXT).fault(Fault::Status { code: 404, retry_after: None })])
            .when("cut", vec![Answer::text(TEXT).fault(Fault::Cut { after: 1 })])
            .when("inside", vec![Answer::text(TEXT).fault(Fault::StreamError { after: 1, code: 529 })]);
        let server = ModelServer::start(script).await.unwrap();
        let all = heard(&server, name, true, &["x", "cut", "inside"]).await;
        assert_eq!(all[0]["status"], 404, "{format:?} {}", all[0]);
        for (prompt, broken) in ["cut", "inside"].iter().zip(&all[1..]) {
            let failed = broken.get("failed").is_some() || broken["stop"].is_null() || broken["stop"] == "failed";
            assert!(failed, "{format:?} {prompt}: {broken}");
        }
    }
}
