//! What goes back to a provider, and what is made of streams that are not as they should be.

use crate::client::{self, Client, FORMATS};
use crate::{holds, list, status};
use serde_json::{Value, json};
use std::time::Duration;
use tieline_coder::Settings;
use tieline_coder::http::{Http, Options};
use tieline_coder::model::provider::{Provider, Secret};
use tieline_coder::model::{Event, Message, Model, Request, ToolSpec};
use tieline_model_server::{Answer, Call, Fault, Finish, Late, Marks, ModelServer, Script};

/// The types of the parts of what the model said, in one request.
fn kinds(format: &str, body: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let name = |part: &Value| {
        let keys = part.as_object().unwrap().keys().filter(|key| *key != "thoughtSignature");
        keys.cloned().collect::<String>()
    };
    match format {
        "anthropic" => {
            let message = body["messages"].as_array().unwrap().iter().find(|message| message["role"] == "assistant");
            message.unwrap()["content"].as_array().unwrap().iter().map(|block| text(&block["type"])).collect()
        }
        "openai" => {
            let own = body["input"].as_array().unwrap().iter().filter(|item| item["role"] != "user");
            own.map(|item| text(&item["type"])).filter(|kind| kind != "function_call_output").collect()
        }
        _ => {
            let content = body["contents"].as_array().unwrap().iter().find(|content| content["role"] == "model");
            content.unwrap()["parts"].as_array().unwrap().iter().map(name).collect()
        }
    }
}

#[tokio::test]
async fn parts_of_an_answer_go_back_in_their_order() {
    let rows = [
        ("anthropic", "thinking text tool_use redacted_thinking text thinking tool_use"),
        ("openai", "reasoning  function_call reasoning  reasoning function_call"),
        ("gemini", "text functionCall text functionCall"),
    ];
    for (format, expect) in rows {
        let answer = Answer::new().think("First.").say("One.").and(list()).redacted("c2VjcmV0").say("Two.");
        let answer = answer.think("Last.").and(Call::named("grep", json!({ "pattern": "x" })));
        let mut client = Client::open(format, Script::new(vec![answer, Answer::text("Done.")])).await;
        assert_eq!(client.prompt("Go.").await, "end_turn", "{format}");
        let body = client.bodies()[1].clone();
        assert_eq!(kinds(format, &body).join(" "), expect, "{format}: {body}");
        if format == "anthropic" {
            let content = body["messages"][1]["content"].as_array().unwrap();
            assert_eq!(content[3], json!({"type": "redacted_thinking", "data": "c2VjcmV0"}));
            assert_eq!((&content[1]["text"], &content[4]["text"]), (&json!("One."), &json!("Two.")));
            assert_eq!((&content[0]["thinking"], &content[5]["thinking"]), (&json!("First."), &json!("Last.")));
        }
    }
}

#[tokio::test]
async fn thoughts_in_a_chat_go_back_where_they_are_wanted() {
    let answers = || vec![Answer::new().think("I think of many things.").and(list()), Answer::text("Done.")];
    // The server refuses details that are not as they were.
    let script = Script::new(answers()).reasoning_field("reasoning_details");
    let mut client = Client::open("openai-chat", script).await;
    assert_eq!(client.prompt("Go.").await, "end_turn");
    assert_eq!(client.thought(), "I think of many things.");
    let body = client.bodies()[1].clone();
    let details = body["messages"][2]["reasoning_details"].as_array().unwrap();
    assert_eq!(details.len(), 1, "{details:?}");
    assert_eq!(details[0]["text"], "I think of many things.");
    assert!(details[0]["signature"].as_str().is_some_and(|signature| !signature.is_empty()), "{details:?}");
    for (name, field) in [("deepseek", true), ("moonshot", true), ("openai-chat", false), ("mistral", false)] {
        let server = ModelServer::start(Script::new(answers())).await.unwrap();
        let provider = client::provider(name, &server.url(), Http::new(Options::default()));
        let mut client = Client::with(Settings::new(provider.model("m")), server).await;
        assert_eq!(client.prompt("Go.").await, "end_turn", "{name}");
        let said = client.bodies()[1]["messages"][2].clone();
        let expect = if field { json!("I think of many things.") } else { Value::Null };
        assert_eq!(said["reasoning_content"], expect, "{name}: {said}");
    }
}

#[tokio::test]
async fn calls_are_told_apart_without_ids_and_numbers() {
    for marks in [Marks::Id, Marks::Index, Marks::None, Marks::Same] {
        let read = |name: &str| Call::named("read", json!({ "path": name }));
        let three = Answer::new().and(read("a.txt")).and(read("b.txt")).and(list());
        let script = Script::new(vec![three, Answer::text("Done.")]).marks(marks);
        let mut client = Client::open("openai-chat", script).await;
        for name in ["a.txt", "b.txt"] {
            std::fs::write(client.path(name), format!("this is {name}")).unwrap();
        }
        assert_eq!(client.prompt("Go.").await, "end_turn", "{marks:?}");
        let messages = client.bodies()[1]["messages"].clone();
        let calls = messages[2]["tool_calls"].as_array().unwrap();
        assert_eq!(calls.len(), 3, "{marks:?}: {messages}");
        for (at, name) in ["a.txt", "b.txt"].iter().enumerate() {
            let result = messages.as_array().unwrap().iter().find(|message| message["tool_call_id"] == calls[at]["id"]);
            assert!(holds(result.unwrap(), &format!("this is {name}")), "{marks:?}: {messages}");
        }
    }
}

#[tokio::test]
async fn a_complete_answer_is_kept_whatever_follows_it() {
    for (format, ..) in FORMATS {
        for late in [Late::Cut, Late::Stall, Late::Error, Late::Malformed] {
            let answers =
                vec![Answer::call(list()).fault(Fault::Late(late)), Answer::text("Done.").fault(Fault::Late(late))];
            let idle = if late == Late::Stall { Duration::from_millis(1500) } else { client::SOON };
            let mut client = Client::waiting(format, Script::new(answers), idle).await;
            assert_eq!(client.prompt("Go.").await, "end_turn", "{format}, {late:?}");
            assert_eq!((client.said().as_str(), client.of("tool_call").len()), ("Done.", 1), "{format}, {late:?}");
            assert_eq!(client.server.requests().len(), 2, "{format}, {late:?}: nothing is asked twice");
        }
    }
}

#[tokio::test]
async fn a_call_that_was_cut_is_not_carried_out_and_told_so() {
    for (format, ..) in FORMATS {
        let half = Call::raw("write", "{\"path\": \"half.txt\", \"content\": \"ha");
        let whole = Call::write("whole.txt", "all of it");
        // Gemini has no words for half a call.
        let calls = if format == "gemini" { vec![whole] } else { vec![whole, half] };
        let count = calls.len();
        let cut = calls.into_iter().fold(Answer::new().say("I write."), Answer::and).finish(Finish::MaxTokens);
        let mut client = Client::open(format, Script::in_order(vec![cut, Answer::text("Smaller, then.")])).await;
        assert_eq!(client.prompt("Write.").await, "max_tokens", "{format}");
        assert!(!client.path("half.txt").exists() && !client.path("whole.txt").exists(), "{format}");
        let failed = client.updates.iter().filter(|update| update["status"] == "failed").collect::<Vec<_>>();
        assert_eq!(failed.len(), count, "{format}: {:?}", client.updates);
        assert!(client.updates.iter().any(|update| holds(update, "length limit")), "{format}: {:?}", client.updates);
        assert_eq!(client.prompt("Go on.").await, "end_turn", "{format}");
        let body = client.bodies()[1].to_string();
        assert_eq!(body.matches("reached the model's length limit").count(), count, "{format}: {body}");
        assert!(!body.contains("Cancelled by the user"), "{format}: {body}");
    }
}

#[tokio::test]
async fn an_overflow_in_the_middle_shortens_the_conversation_too() {
    for (format, ..) in FORMATS {
        for after in [0, 1] {
            let mut answers: Vec<Answer> = (1..=4).map(|n| Answer::text(format!("Answer {n}."))).collect();
            answers.push(Answer::text("It fits now, all of it.").fault_first(1, Fault::OverflowLater { after }));
            let mut client = Client::open(format, Script::in_order(answers)).await;
            for n in 1..=4 {
                assert_eq!(client.prompt(&format!("Question {n}?")).await, "end_turn", "{format}");
            }
            assert_eq!(client.prompt("The last question?").await, "end_turn", "{format}, {after}");
            assert!(client.said().ends_with("It fits now, all of it."), "{format}, {after}");
            assert!(!client.of("compaction_update").is_empty(), "{format}, {after}");
            let last = client.bodies().last().unwrap().to_string();
            assert!(last.contains("Summary of the conversation") && !last.contains("It fits"), "{format}: {last}");
        }
    }
}

#[tokio::test]
async fn a_prompt_that_does_not_fit_is_cut_and_the_session_lives() {
    for (format, ..) in FORMATS {
        let answers = vec![Answer::text("I see its ends.").fault_first(1, Fault::Overflow), Answer::text("Alive.")];
        let mut client = Client::open(format, Script::in_order(answers)).await;
        let long = format!("Begin.{}End.", "a line of the prompt\n".repeat(3000));
        assert_eq!(client.prompt(&long).await, "end_turn", "{format}");
        assert_eq!(client.prompt("Still there?").await, "end_turn", "{format}");
        let bodies = client.bodies();
        let sizes: Vec<usize> = bodies.iter().map(|body| body.to_string().len()).collect();
        // Nothing else could be cut, so nothing is asked in between.
        assert!(sizes[0] > 60_000 && sizes[1] < 20_000 && sizes[2] < 20_000 && sizes.len() == 3, "{format}: {sizes:?}");
        assert!(holds(&bodies[1], "Begin.") && holds(&bodies[1], "End."), "{format}");
        assert!(!client.of("compaction_update").is_empty(), "{format}");
    }
}

#[tokio::test]
async fn figures_that_can_not_be_are_not_told() {
    for (format, ..) in FORMATS {
        for figure in [json!(-5), json!(1e300), json!("many"), json!(u64::MAX), json!({}), Value::Null] {
            let answer = Answer::text("Well.").fault(Fault::Figures(figure.clone()));
            let mut client = Client::open(format, Script::new(vec![answer])).await;
            assert_eq!(client.prompt("Go.").await, "end_turn", "{format}, {figure}");
            let told = client.of("usage_update");
            assert!(told.is_empty(), "{format}, {figure}: {told:?}");
        }
        let answer = Answer::text("Well.").fault(Fault::Figures(json!("12")));
        let mut client = Client::open(format, Script::new(vec![answer])).await;
        client.prompt("Go.").await;
        assert!(client.of("usage_update")[0]["used"].as_u64().unwrap() >= 12, "{format}");
    }
}

#[tokio::test]
async fn pictures_of_other_types_are_told_in_words() {
    const GIF: &str = "R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7";
    for (format, ..) in FORMATS {
        // What it says it is, and what becomes of it. The server refuses what its vendor refuses.
        let gif = if format == "gemini" { "type image/gif" } else { GIF };
        let rows = [
            ("image/svg+xml", "PHN2Zy8+AAAAAAAAAAAAAAAA", "type image/svg+xml"),
            ("image/tiff", "SUkqAAAAAAAAAAAAAAAAAAAA", "type image/tiff"),
            ("image/jpg", "/9j/4AAQSkZJRgABAQAAAQAB", "image/jpeg"),
            ("IMAGE/PNG; x=y", "iVBORw0KGgoAAAANSUhEUgAA", "image/png"),
            ("image/png", GIF, gif),
            ("image/png", "", "type image/png"),
        ];
        for (mime, data, expect) in rows {
            let mut client = Client::open(format, Script::new(vec![Answer::text("Seen.")])).await;
            let image = json!({"type": "image", "data": data, "mimeType": mime});
            let id = client.begin(json!([{"type": "text", "text": "Look."}, image])).await;
            let end = client.answer(id).await;
            assert_eq!(end["result"]["stopReason"], "end_turn", "{format}, {mime}: {end}");
            let body = client.bodies()[0].clone();
            assert!(holds(&body, expect), "{format}, {mime}: {body}");
            assert!(data.is_empty() || holds(&body, data) != expect.starts_with("type"), "{format}, {mime}: {body}");
        }
    }
}

#[tokio::test]
async fn a_model_that_takes_no_pictures_is_told_of_them() {
    for (format, ..) in FORMATS {
        let script = Script::new(vec![Answer::call(list()), Answer::text("Told.")]).blind();
        let mut client = Client::open(format, script).await;
        let image = json!({"type": "image", "data": "iVBORw0KGgoAAAANSUhEUgAA", "mimeType": "image/png"});
        let id = client.begin(json!([{"type": "text", "text": "Look."}, image])).await;
        let end = client.answer(id).await;
        assert_eq!(end["result"]["stopReason"], "end_turn", "{format}: {end}");
        assert_eq!(client.prompt("And now?").await, "end_turn", "{format}");
        let bodies = client.bodies();
        let seen: Vec<bool> = bodies.iter().map(|body| holds(body, "iVBORw0KGgo")).collect();
        // It is tried once, not each time.
        assert_eq!(seen, [true, false, false, false, false], "{format}");
        assert!(holds(&bodies[1], "which you can't see"), "{format}: {}", bodies[1]);
        assert_eq!(client.of("notice").len(), 1, "{format}");
    }
}

#[tokio::test]
async fn schemas_of_tools_are_sent_as_each_provider_takes_them() {
    let schemas = [
        json!({}),
        json!({"properties": {"a": {"type": "array"}}}),
        json!({"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "additionalProperties": false,
               "properties": {"u": {"type": "string", "format": "uri", "pattern": "^x"}, "n": {"type": ["number", "null"]}}}),
        json!({"anyOf": [{"type": "object", "properties": {"a": {"const": 1}}}, {"type": "object", "properties": {}}]}),
        json!({"$ref": "#/definitions/T", "definitions": {"T": {"properties": {"t": {"$ref": "#/definitions/T"}}}}}),
        json!(true),
    ];
    for (format, _, model) in FORMATS {
        let server = ModelServer::start(Script::in_order(vec![Answer::text("Taken.")])).await.unwrap();
        let provider = client::provider(format, &server.url(), Http::new(Options::default()));
        let tool = |(at, schema): (usize, &Value)| ToolSpec {
            name: format!("t{at}"),
            description: "x".into(),
            parameters: schema.clone().into(),
        };
        let request = Request {
            messages: vec![Message::User(vec!["Go.".into()])],
            tools: schemas.iter().enumerate().map(tool).collect(),
            ..Request::default()
        };
        let mut reply = provider.model(model).reply(request);
        let mut said = String::new();
        while let Some(event) = reply.next().await {
            if let Event::Text(text) = event.unwrap_or_else(|error| panic!("{format}: {error}")) {
                said += &text;
            }
        }
        assert_eq!(said, "Taken.", "{format}");
        let body = server.requests()[0].body["tools"].to_string();
        if format == "gemini" {
            for word in ["$schema", "additionalProperties", "pattern", "const", "definitions", "uri", "null"] {
                assert!(!body.contains(&format!("\"{word}\"")), "{word}: {body}");
            }
        }
    }
}

#[tokio::test]
async fn what_is_not_there_or_not_allowed_is_told_with_what_to_type() {
    for (format, suffix, model) in FORMATS {
        let open = async |script: Script, path: &str, model: &str| {
            let server = ModelServer::start(script).await.unwrap();
            let provider = client::provider(format, &format!("{}{path}", server.url()), Http::new(Options::default()));
            Client::with(Settings::new(provider.model(model)), server).await
        };
        let answer = || vec![Answer::text("x")];
        let near = format!("{model}-large");
        let script = Script::new(answer()).models([near.as_str(), "other\u{202e}\u{1b}[2J"]);
        let end = open(script, "", model).await.prompt("Go.").await;
        let expect = format!("Did you mean `{near}`? Type: tieline exec --model {format}/{near} --base-url http://");
        assert!(end.contains(&format!("has no model `{model}`")) && end.contains(&expect), "{format}: {end}");
        assert!(end.ends_with(" \"what to do\""), "{format}: {end}");
        let refused = vec![Answer::text("x").fault(status(403, None))];
        let end = open(Script::new(refused), "", model).await.prompt("Go.").await;
        let expect = format!("does not let this key use `{model}` (403)");
        assert!(end.contains(&expect) && end.contains("tieline models"), "{format}: {end}");
        let end = open(Script::new(answer()), "/nowhere?x=", model).await.prompt("Go.").await;
        assert!(end.contains("there is no model server at") && end.contains("--base-url"), "{format}{suffix}: {end}");
    }
}

#[tokio::test]
async fn secrets_go_over_plain_http_to_this_machine_only() {
    let settings = |text: &str| tieline_host::config::Config::parse(text, std::path::Path::new("config.toml")).unwrap();
    let http = || Http::new(Options::default());
    let check = async |name: &str, text: &str, key: bool, expect: bool| {
        let provider = Provider::resolve(name, None, &settings(text), http()).unwrap();
        if key {
            provider.use_key(Secret::new("sk-test-key").unwrap());
        }
        let ready = provider.model("m").ready().await;
        assert_eq!(ready.is_ok(), expect, "{text}: {ready:?}");
        if let Err(why) = ready {
            assert!(why.to_string().contains("unprotected") && !why.to_string().contains("hush"), "{why}");
        }
    };
    let far = "http://localhost.evil.example/v1";
    let own = |rest: &str| format!("[providers.own]\n{rest}");
    check("own", &own(&format!("base_url = '{far}'")), false, true).await;
    check("own", &own(&format!("base_url = '{far}'")), true, false).await;
    check("own", &own("base_url = 'HTTP://far.example/v1'"), true, false).await;
    check("own", &own(&format!("base_url = '{far}'\ninsecure = true")), true, true).await;
    check("own", &own(&format!("base_url = '{far}'\nheaders = {{ Authorization = 'hush' }}")), false, false).await;
    check("own", &own(&format!("base_url = '{far}'\nheaders = {{ x-team = 'blue' }}")), false, true).await;
    check("own", &own("base_url = 'http://me:hush@far.example/v1'"), false, false).await;
    for near in ["http://127.0.0.9/v1", "http://[::1]/v1", "http://LOCALHOST:1/v1", "https://far.example/v1"] {
        check("own", &own(&format!("base_url = '{near}'")), true, true).await;
    }
}
