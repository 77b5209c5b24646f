//! The puppet obeys, reports, ends and explains itself.

use crate::harness::{Played, play};
use proptest::prelude::*;
use tieline_coder::model::script::Script;
use tieline_coder::model::{Report, ToolRequest};
use tieline_script::Status;

async fn puppet(prompt: &str) -> Played {
    let echo = |call: &ToolRequest, _: usize| (format!("{} gave this", call.name), false);
    play(&Script::named("puppet").expect("it ships inside"), &mut Vec::new(), prompt, &echo, 0).await
}

#[tokio::test(start_paused = true)]
async fn the_puppet_says_and_calls() {
    let texts = [
        ("say hello", "hello"),
        ("say a\\nb\\tc\\\\n \\x", "a\nb\tc\\n \\x"),
        ("say I heard: {prompt} {odd}", "I heard: say I heard: {prompt} {odd} {odd}"),
        ("  say one  \n\n say two", "onetwo"),
        ("think so", "so"),
        ("flood 3 4", "1 .\n2 .\n3 .\n"),
        ("flood 2 1", "12"),
        ("/say hi", "hi"),
        ("read a\nresult\nsay .", "read gave this."),
        ("pause 10\nsay x", "x"),
        ("told", "\n{\"type\":\"text\",\"text\":\"told\"}"),
    ];
    for (prompt, expected) in texts {
        let played = puppet(prompt).await;
        assert_eq!((played.text().as_str(), played.end.as_str()), (expected, "done"), "{prompt}");
    }
    let calls = [
        ("read a b.txt", "read", r#"{"path":"a b.txt"}"#),
        ("write a.txt x\\ny", "write", r#"{"content":"x\ny","path":"a.txt"}"#),
        ("write \"a b.txt\" x", "write", r#"{"content":"x","path":"a b.txt"}"#),
        ("write a.txt", "write", r#"{"content":"","path":"a.txt"}"#),
        ("run printf 'a\\n'", "run", r#"{"command":"printf 'a\\n'"}"#),
        ("mcp files list {\"a\": 1}", "mcp__files__list", "{\"a\": 1}"),
        ("mcp files list", "mcp__files__list", "{}"),
        ("call output {\"id\": 1}", "output", "{\"id\": 1}"),
        ("call list", "list", "{}"),
    ];
    for (prompt, name, arguments) in calls {
        assert_eq!(puppet(prompt).await.calls(), [(name, arguments)], "{prompt}");
    }
    assert_eq!(puppet("read a\nsay x\nread b\nread c").await.calls().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn the_puppet_reports_and_ends() {
    let reports = [
        ("context 5 10", Report::Context { used: 5, size: 10 }),
        ("title My title", Report::Title("My title".into())),
        ("mode plan", Report::Mode("plan".into())),
    ];
    for (prompt, report) in reports {
        assert_eq!(puppet(prompt).await.reports(), [&report], "{prompt}");
    }
    assert!(matches!(puppet("commands").await.reports()[..], [Report::Commands(all)] if all.len() > 10));
    let played = puppet("plan A; B ;C").await;
    let marks: Vec<String> = played
        .reports()
        .iter()
        .map(|report| {
            let Report::Plan(entries) = report else { panic!("{report:?}") };
            assert_eq!(entries.iter().map(|entry| entry.content.as_str()).collect::<Vec<_>>(), ["A", "B", "C"]);
            entries.iter().map(|entry| if entry.status == Status::Completed { 'x' } else { '-' }).collect()
        })
        .collect();
    assert_eq!(marks, ["---", "x--", "xx-", "xxx"]);
    let ends = [
        ("stop refusal\nsay never", "stop refusal"),
        ("stop _odd", "stop _odd"),
        ("error -32000 No luck\nsay never", "fail -32000 No luck"),
        ("say a\nwait\nsay never", "stalled"),
    ];
    for (prompt, end) in ends {
        let played = puppet(prompt).await;
        assert_eq!(played.end, end, "{prompt}");
        assert!(!played.text().contains("never"));
    }
}

#[tokio::test(start_paused = true)]
async fn the_puppet_explains_itself() {
    for prompt in ["dance", "", "say x\nDance now"] {
        let text = puppet(prompt).await.text();
        assert!(text.contains("`say TEXT`") && text.contains("`error CODE TEXT`"), "{prompt}: {text}");
    }
    let wrong =
        ["say", "plan ;;", "read", "write", "run", "mcp a", "wait a bit", "pause soon", "flood 1", "flood 1 -1"];
    for prompt in
        wrong.into_iter().chain(["flood 1 99999999999", "context 1", "title", "mode", "stop", "error x y", "error 1"])
    {
        let played = puppet(&format!("{prompt}\nsay on")).await;
        let text = played.text();
        assert!(text.contains("is written `") && text.ends_with("on"), "{prompt}: {text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn any_prompt_is_an_answer_of_the_puppet(prompt in "((say|plan|write|mcp|error|/|\\\\|\"|;|[ -~]|\\PC){0,9}\n){0,5}") {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let played = runtime.block_on(puppet(&prompt));
        prop_assert!(!played.end.is_empty());
    }
}
