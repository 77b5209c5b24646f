//! Scripted models: every shipped scenario plays to its end, the puppet obeys, bad files are explained.

#[path = "script/files.rs"]
mod files;
#[path = "script/harness.rs"]
mod harness;
#[path = "script/puppet.rs"]
mod puppet;

use harness::{Played, World, file, play, works};
use std::collections::BTreeSet;
use std::time::Duration;
use tieline::Update;
use tieline::schema::{from_json, from_json_strict};
use tieline_coder::model::script::{Script, scenarios};
use tieline_coder::model::{Event, Message, Model, Report, Request, ToolRequest};

/// A prompt for each turn of a scenario.
fn prompts(name: &str) -> Vec<String> {
    if name == "puppet" {
        return vec!["say hello".into()];
    }
    let table: toml::Table = file(name).parse().expect("it is TOML");
    let turns = table.get("turn").and_then(toml::Value::as_array).cloned().unwrap_or_default();
    let fallback = table.contains_key("fallback").then(|| "something else".to_owned());
    let prompt =
        |turn: &toml::Value| turn.get("prompt").and_then(toml::Value::as_str).unwrap_or("go").replace('*', "are");
    turns.iter().map(prompt).chain(fallback).collect()
}

async fn play_all(name: &str, world: World<'_>, retries: usize) -> Vec<Played> {
    let script = Script::named(name).expect("it ships inside");
    let mut messages = Vec::new();
    let mut all = Vec::new();
    for prompt in prompts(name) {
        all.push(play(&script, &mut messages, &prompt, world, retries).await);
    }
    all
}

#[tokio::test(start_paused = true)]
async fn every_scenario_plays_to_its_end() {
    let other: &[(&str, &[&str])] = &[
        ("max-tokens", &["max_tokens"]),
        ("refusal", &["refusal"]),
        ("endless-tools", &["max_turn_requests"]),
        ("stall", &["stalled", "done"]),
        ("cut-stream", &["cut", "cut"]),
        ("fail-then-retry", &["error 429: too many requests, try again"]),
        ("overflow-then-compact", &["done", "overflow"]),
        ("login-needed", &["error Log in to use this model", "done"]),
        ("agent-error", &["fail -32603 Internal error, on purpose", "fail -31999 An error of a kind nobody knows"]),
        (
            "model-error",
            &[
                "error The provider answered 500: internal error",
                "error The provider closed the connection",
                "error The provider answered 529: overloaded",
            ],
        ),
        (
            "stop-reasons",
            &[
                "stop end_turn",
                "stop max_tokens",
                "stop max_turn_requests",
                "stop refusal",
                "stop cancelled",
                "stop _example.com/tired",
            ],
        ),
    ];
    for shipped in scenarios() {
        let ends: Vec<_> = play_all(shipped.name, &works, 0).await.into_iter().map(|played| played.end).collect();
        match other.iter().find(|(name, _)| *name == shipped.name) {
            Some((_, expected)) => assert_eq!(ends, *expected, "{}", shipped.name),
            None => assert!(ends.iter().all(|end| end == "done"), "{}: {ends:?}", shipped.name),
        }
    }
}

/// Every text of every scenario is said in one world or another, so no branch is dead.
#[tokio::test(start_paused = true)]
async fn every_branch_is_reached() {
    const TOOLS: &[&str] =
        &["read", "write", "edit", "patch", "list", "delete", "run", "fetch", "ask", "switch_mode", "run list"];
    for shipped in scenarios().iter().filter(|shipped| shipped.name != "puppet") {
        let mut said = String::new();
        for broken in TOOLS {
            for run in [None, Some("1 passed"), Some("1 failed"), Some("nothing")] {
                let world = |call: &ToolRequest, before: usize| {
                    let mut result = works(call, before);
                    if let (Some(text), "run") = (run, call.name.as_str()) {
                        result = (text.into(), false);
                    }
                    if broken.split(' ').any(|name| name == call.name) { ("no".into(), true) } else { result }
                };
                for retries in [0, 3] {
                    for played in play_all(shipped.name, &world, retries).await {
                        said.push_str(&played.text());
                    }
                }
            }
            if shipped.name.contains("flood") || shipped.name.contains("long") {
                break;
            }
        }
        for text in texts(&file(shipped.name).parse::<toml::Table>().unwrap().into()) {
            let start = text.split('{').next().unwrap_or_default();
            assert!(said.contains(start), "{} never says {start:?}", shipped.name);
        }
    }
}

/// All steps that say something.
fn texts(value: &toml::Value) -> Vec<String> {
    match value {
        toml::Value::Array(items) => items.iter().flat_map(texts).collect(),
        toml::Value::Table(table) => {
            let own = table.get("text").filter(|_| !table.contains_key("type")).and_then(toml::Value::as_str);
            let below = table.iter().filter(|(key, _)| *key != "update").flat_map(|(_, value)| texts(value));
            own.map(str::to_owned).into_iter().chain(below).collect()
        }
        _ => Vec::new(),
    }
}

#[tokio::test(start_paused = true)]
async fn there_is_a_scenario_for_every_kind_of_update() {
    let mut kinds = BTreeSet::new();
    for shipped in scenarios().iter().filter(|shipped| shipped.name != "flood") {
        for event in play_all(shipped.name, &works, 0).await.into_iter().flat_map(|played| played.events) {
            kinds.insert(match event {
                Event::Text(_) => "text",
                Event::Thought(_) => "thought",
                Event::Call(_) => "call",
                Event::Usage(_) => "usage",
                Event::Keep(_) => "keep",
                Event::Finish(_) => "finish",
                Event::Report(report) => kind(&report),
            });
        }
    }
    let wanted = "text thought call usage finish title notice commands mode context plan compaction stop fail chunk message \
                  tool_call tool_call_content config_options state terminal terminal_output compaction_summary other";
    assert_eq!(kinds, wanted.split_whitespace().collect());
}

fn kind(report: &Report) -> &'static str {
    match report {
        Report::Title(_) => "title",
        Report::Notice { .. } => "notice",
        Report::Commands(_) => "commands",
        Report::Mode(_) => "mode",
        Report::Context { .. } => "context",
        Report::Plan(_) => "plan",
        Report::Compaction(_) => "compaction",
        Report::Later { .. } => "later",
        Report::Stop(_) => "stop",
        Report::Fail { .. } => "fail",
        Report::Raw(raw) => match &from_json::<Update>(&raw.to_string()).expect("it was checked") {
            Update::Chunk(_) => "chunk",
            Update::Message(_) => "message",
            Update::ToolCall(_) => "tool_call",
            Update::ToolCallContent(_) => "tool_call_content",
            Update::ConfigOptions(_) => "config_options",
            Update::State(_) => "state",
            Update::Terminal(_) => "terminal",
            Update::TerminalOutput(_) => "terminal_output",
            Update::CompactionSummary(_) => "compaction_summary",
            Update::Other(_) => "other",
            update => panic!("there is a step for {update:?}"),
        },
    }
}

#[test]
fn raw_updates_are_flawless() {
    fn raws(value: &toml::Value) -> Vec<String> {
        match value {
            toml::Value::Array(items) => items.iter().flat_map(raws).collect(),
            toml::Value::Table(table) if table.contains_key("sessionUpdate") => {
                vec![serde_json::to_string(table).unwrap()]
            }
            toml::Value::Table(table) => table.iter().flat_map(|(_, value)| raws(value)).collect(),
            _ => Vec::new(),
        }
    }
    for shipped in scenarios().iter().filter(|shipped| shipped.name != "puppet") {
        for raw in raws(&file(shipped.name).parse::<toml::Table>().unwrap().into()) {
            let (_, flaws) = from_json_strict::<Update>(&raw, None).unwrap();
            assert!(flaws.is_empty(), "{}: {raw}: {flaws:?}", shipped.name);
        }
    }
}

#[test]
fn the_list_is_complete() {
    let names: BTreeSet<_> = scenarios().iter().map(|shipped| shipped.name.to_owned()).collect();
    let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios")).unwrap();
    let mut expected: BTreeSet<_> =
        files.map(|file| file.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned()).collect();
    expected.insert("puppet".into());
    assert_eq!(names, expected);
    let docs = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/scenarios.md")).unwrap();
    for shipped in scenarios() {
        assert!(shipped.description.ends_with('.') && shipped.description.len() < 120, "{shipped:?}");
        assert!(docs.contains(&format!("| `{}` | {} |", shipped.name, shipped.description)), "docs: {shipped:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_scenario_goes_on_where_the_conversation_is() {
    let mut messages = Vec::new();
    let all = play(&Script::named("repair").unwrap(), &mut messages, "fix it", &works, 0).await;
    assert!(all.text().ends_with("the tests pass."), "{}", all.text());
    let mut ids = BTreeSet::new();
    for (place, message) in messages.iter().enumerate() {
        let Message::Assistant { text, calls, .. } = message else { continue };
        assert!(calls.iter().all(|call| ids.insert(call.id.clone())), "ids are used once");
        // Another process that only has the conversation says the same.
        let fresh = Script::named("repair").unwrap();
        let mut reply = fresh.reply(Request { messages: messages[..place].to_vec(), ..Request::default() });
        let (mut said, mut called) = (String::new(), Vec::new());
        while let Some(event) = reply.next().await {
            match event.unwrap() {
                Event::Text(piece) => said.push_str(&piece),
                Event::Call(call) => called.push(call),
                _ => {}
            }
        }
        assert_eq!((&said, &called), (text, calls));
    }
}

#[tokio::test(start_paused = true)]
async fn turns_are_chosen_by_prompt_and_start_over() {
    let script = Script::named("conversation").unwrap();
    let mut messages = Vec::new();
    let expected = [
        ("How are you?", "I follow a script"),
        ("HELLO there", "Hello."),
        ("hello again", "I have nothing left to say to: hello again"),
        ("ok bye", "Goodbye."),
    ];
    for (prompt, said) in expected {
        let played = play(&script, &mut messages, prompt, &works, 0).await;
        assert!(played.text().starts_with(said), "{prompt}: {}", played.text());
    }
    let script = Script::from_toml("two", "[[turn]]\nsteps=[{text='1'}]\n[[turn]]\nsteps=[{text='2'}]").unwrap();
    let mut said = String::new();
    for _ in 0..5 {
        said += &play(&script, &mut messages, "go", &works, 0).await.text();
    }
    assert_eq!(said.len(), 5);
    assert!(said.contains("121"), "{said}");
    let script = Script::from_toml("strict", "[[turn]]\nprompt='x'\nsteps=[]").unwrap();
    let played = play(&script, &mut messages, "go", &works, 0).await;
    assert_eq!(played.text(), "Script strict has no turn for this prompt.");
}

#[tokio::test(start_paused = true)]
async fn a_failed_answer_is_followed_by_its_retry() {
    let script = Script::named("fail-then-retry").unwrap();
    for _ in 0..2 {
        let played = play(&script, &mut Vec::new(), "go", &works, 2).await;
        assert_eq!((played.text().as_str(), played.end.as_str()), ("This time it This time it works.", "done"));
    }
    let script = Script::named("overflow-then-compact").unwrap();
    let mut messages = Vec::new();
    assert_eq!(play(&script, &mut messages, "go", &works, 0).await.end, "overflow");
    // The agent lets the model write a summary, and starts anew with it.
    let summary = play(&script, &mut messages, "Summarise the conversation", &works, 0).await.text();
    let mut messages = vec![Message::User(vec![format!("Summary: {summary}").into()])];
    assert_eq!(play(&script, &mut messages, "go", &works, 0).await.text(), "Now it fits.");
}

#[tokio::test(start_paused = true)]
async fn placeholders_and_pauses() {
    let text = r#"
        [[turn]]
        [[turn.answer]]
        steps = [{ call = "run", id = "mine", args = { command = "{prompt}", deep = [{ x = "{ {unknown} }" }], day = 2026-01-02 } }]
        [[turn.answer]]
        steps = [
            { text = "{{result}} {after id}|{after nothing}|", chunk = 4, pause_ms = 100 },
            { pause_ms = 500 },
        ]"#;
    let script = Script::from_toml("test", text).unwrap();
    let begin = tokio::time::Instant::now();
    let played = play(&script, &mut Vec::new(), "a \"b\"", &|_, _| ("has id: x-1, ok".into(), false), 0).await;
    assert_eq!(played.calls(), [("run", r#"{"command":"a \"b\"","day":"2026-01-02","deep":[{"x":"{ {unknown} }"}]}"#)]);
    assert!(matches!(&played.events[0], Event::Call(call) if call.id == "mine"));
    assert_eq!(played.text(), "{has id: x-1, ok} x-1||");
    assert_eq!(begin.elapsed(), Duration::from_millis(600 + 500));
}

#[tokio::test(start_paused = true)]
async fn dropping_a_reply_ends_it() {
    let script = Script::named("flood").unwrap();
    let mut reply = script.reply(Request { messages: vec![Message::User(vec!["go".into()])], ..Request::default() });
    assert!(matches!(reply.next().await, Some(Ok(Event::Text(text))) if text.len() == 100 && text.starts_with("1 ")));
    drop(reply);
    // Without a conversation there is still an answer.
    let mut reply = Script::named("hello").unwrap().reply(Request::default());
    assert!(reply.next().await.is_some());
}
