//! The offline model, driven as the turn loop drives it, with tools that are played.

use proptest::prelude::*;
use serde_json::{Value, json};
use tieline::ContentBlock;
use tieline::schema::ResourceLink;
use tieline_coder::model::offline::Offline;
use tieline_coder::model::{Message, Model, Request, ToolResult};

#[path = "offline/talk.rs"]
mod talk;
use talk::{Talk, Trace, link, world};

#[path = "offline/table.rs"]
mod table;

#[test]
fn prompts_become_these_calls() {
    let mut wrong = Vec::new();
    for (prompt, calls, text) in table::CASES {
        let trace = Talk::new(world).say(prompt);
        if trace.calls != *calls || !trace.text().contains(text) {
            wrong.push(format!("{prompt:?}\n  wanted {calls:#?} {text:?}\n  got {:#?} {}", trace.calls, trace.text()));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), table::CASES.len(), wrong.join("\n"));
}

#[test]
fn what_is_no_instruction_is_refused_in_one_line() {
    for prompt in table::UNKNOWN {
        let trace = Talk::new(world).say(prompt);
        let text = trace.text();
        assert!(trace.calls.is_empty() && trace.plans.is_empty(), "{prompt:?}: {trace:?}");
        assert!(trace.refused && text.lines().count() == 1, "{prompt:?}: {text}");
        assert!(text.contains("no language model") && text.contains("Nothing was done"), "{prompt:?}: {text}");
        for way in ["`tieline agent login ", "`tieline models --local`", "`tieline models`"] {
            assert!(text.contains(way), "{text}");
        }
    }
    let text = Talk::new(world).say("/gerp foo").text();
    assert!(text.contains("Did you mean `/grep`?"), "{text}");
    assert!(Talk::new(world).say("/read a b c").text().contains("used like this: `/read FILE [FIRST-LAST]`"));
    assert!(Talk::new(world).say("find the bug").text().contains("only such as `find TODO in src`"));
}

/// Also what could not be done is refused; a command that ran and failed was done.
#[test]
fn what_could_not_be_done_is_refused() {
    for (prompt, refused) in [
        ("read a.txt", false),
        ("read missing.txt", true),
        ("run `false`", false),
        ("run forbidden", true),
        ("append x to long.txt", true),
        ("read a.txt then read missing.txt", true),
        ("read a.txt then run `false`", false),
    ] {
        let trace = Talk::new(world).say(prompt);
        assert_eq!(trace.refused, refused, "{prompt}: {trace:?}");
    }
}

#[test]
fn it_says_once_what_it_is_and_beside_the_answer() {
    let mut talk = Talk::new(world);
    let first = talk.say("read a.txt then read b.txt");
    assert_eq!(first.notices.len(), 1);
    assert!(first.notices[0].starts_with("This is Tieline's offline agent: no language model"));
    assert!(!first.text().contains("Tieline's offline agent"));
    assert!(talk.say("read a.txt").notices.is_empty());
}

#[test]
fn it_and_again_are_what_was_spoken_of() {
    let mut talk = Talk::new(world);
    talk.say("run `make x`");
    talk.say("create a.txt with b");
    assert_eq!(talk.say("run it again").calls, [r#"run {"command":"make x"}"#]);
    assert_eq!(talk.say("again").calls, [r#"run {"command":"make x"}"#]);
    assert_eq!(talk.say("show that file").calls, [r#"read {"path":"a.txt"}"#]);
    talk.say("rename it to b.txt");
    assert_eq!(talk.say("show it").calls, [r#"read {"path":"b.txt"}"#]);
    let edit = r#"edit {"edits":[{"all":true,"new":"two","old":"one"}],"path":"b.txt"}"#;
    assert_eq!(talk.say("replace one with two").calls, [edit]);
    talk.say("delete it");
    assert!(talk.say("show it").refused);
}

#[test]
fn a_plan_is_told_before_and_after_each_step() {
    let trace = Talk::new(world).say("Read a.txt, then run `make x` and then delete b.txt");
    assert_eq!(trace.plans, ["ipp", "cip", "cci", "ccc"]);
    assert_eq!(trace.calls.len(), 3);
    assert_eq!(trace.texts.last().map(String::as_str), Some("All 3 steps are done."));
}

#[test]
fn a_failed_step_stops_the_plan() {
    let trace = Talk::new(world).say("1. Read a.txt\n2. Run `false`\n3. Delete b.txt\n");
    assert_eq!(trace.plans, ["ipp", "cip", "cfp"]);
    assert_eq!(trace.calls.len(), 2);
    assert!(trace.text().contains("`false` failed."), "{}", trace.text());
    let last = trace.texts.last().expect("a text");
    assert!(last.contains("Stopped at step 2 of 3") && last.contains("One step was not begun"), "{last}");
    assert!(Talk::new(world).say("read missing.txt").text().contains("That did not work: missing.txt: no such file"));
}

#[test]
fn missing_tools_are_said() {
    let trace = Talk::new(world).without("run").say("run `ls`");
    assert!(trace.calls.is_empty() && trace.text().contains("The tool `run` is not available here"));
    let trace = Talk::new(world).without("todo").say("read a.txt then read b.txt");
    assert!(trace.plans.is_empty() && trace.calls.len() == 2 && trace.text().contains("All 2 steps are done."));
}

#[test]
fn attachments_supply_arguments() {
    let calls = |blocks: Vec<ContentBlock>| Talk::new(world).send(blocks).calls;
    assert_eq!(calls(vec!["read it".into(), link("a.rs")]), [r#"read {"path":"/w/a.rs"}"#]);
    assert_eq!(calls(vec!["/read".into(), link("a%20b.rs#L3")]), [r#"read {"path":"/w/a b.rs"}"#]);
    let edit = [r#"edit {"edits":[{"all":true,"new":"B","old":"A"}],"path":"/w/a.rs"}"#];
    assert_eq!(calls(vec!["replace `A` with `B`".into(), link("a.rs")]), edit);
    assert_eq!(calls(vec!["replace `A` with `B` in ".into(), link("a.rs")]), edit);
    assert_eq!(calls(vec![link("a.rs"), "replace `A` with `B` in this file".into()]), edit);
    let mention = calls(vec!["read ".into(), link("a.rs"), " and then delete ".into(), link("b.rs")]);
    assert_eq!(mention, [r#"read {"path":"/w/a.rs"}"#, r#"delete {"path":"/w/b.rs"}"#]);
    // Of two nobody knows which one is meant.
    assert!(calls(vec!["delete it".into(), link("a.rs"), link("b.rs")]).is_empty());
    let web = ResourceLink { uri: "https://x.example/".into(), name: "x".into(), ..ResourceLink::default() };
    assert_eq!(calls(vec!["open it".into(), web.into()]), [r#"fetch {"url":"https://x.example/"}"#]);
}

#[test]
fn projects_are_recognised() {
    fn go(listing: &'static str, command: &str) {
        thread_local!(static LISTING: std::cell::Cell<&'static str> = const { std::cell::Cell::new("") });
        fn played(tool: &str, arguments: &Value) -> (String, bool) {
            match tool {
                "list" => (LISTING.get().to_owned(), false),
                _ => world(tool, arguments),
            }
        }
        LISTING.set(listing);
        let trace = Talk::new(played).say("run the tests");
        match command {
            "" => assert!(trace.refused && trace.text().contains("No file here says how"), "{trace:?}"),
            _ => assert_eq!(trace.calls.last(), Some(&format!("run {}", json!({ "command": command })))),
        }
    }
    go("Cargo.toml\npackage.json\n", "cargo test");
    go("node_modules/\npackage.json  2 bytes\n", "npm test");
    go("a.py\npyproject.toml\n", "python -m pytest");
    go("Makefile  3 bytes\nx.c  1 bytes\n", "make test");
    go("main.go\ngo.mod\n", "go test ./...");
    go("notes.txt\n", "");
}

#[test]
fn it_goes_on_after_a_load_and_notices_foreign_results() {
    let mut talk = Talk::new(world);
    talk.messages.push(Message::User(vec!["read a.txt then delete it".into()]));
    let mut trace = Trace::default();
    assert!(talk.round(&mut trace));
    let mut loaded = Talk::new(world);
    loaded.messages.clone_from(&talk.messages);
    while loaded.round(&mut trace) {}
    assert_eq!(trace.calls, [r#"read {"path":"a.txt"}"#, r#"delete {"path":"a.txt"}"#]);

    let mut foreign = Talk::new(world);
    foreign.messages.push(Message::User(vec!["read a.txt".into()]));
    let result = ToolResult { id: "1".into(), name: "other".into(), content: Vec::new(), is_error: false };
    foreign.messages.push(Message::Results(vec![result]));
    let mut trace = Trace::default();
    assert!(!foreign.round(&mut trace));
    assert!(trace.text().contains("do not fit"), "{trace:?}");
}

#[test]
fn long_and_odd_results_are_shown_safely() {
    fn long(_: &str, _: &Value) -> (String, bool) {
        ("````\nä\n".repeat(5000), false)
    }
    fn wide(_: &str, _: &Value) -> (String, bool) {
        ("ä".repeat(50_000), false)
    }
    let text = Talk::new(long).say("read x.md").text();
    assert!(text.len() < 20_000 && text.contains("more lines are not shown") && text.contains("`````markdown\n"));
    let text = Talk::new(long).say("run `x`").text();
    assert!(text.len() < 20_000 && text.contains("before these are not shown"));
    assert!(Talk::new(wide).say("run `x`").text().len() < 20_000);
    let text = Talk::new(world).say(&format!("hm `\u{202e}``x {}", "y ".repeat(500))).text();
    assert!(!text.contains('\u{202e}') && text.len() < 1500, "{text}");
    let many = "read a.txt\n".repeat(60);
    assert!(Talk::new(world).say(&many).text().contains("I take 50 at once"));
}

#[tokio::test]
async fn the_answer_streams() {
    let request = Request { messages: vec![Message::User(vec!["dance".into()])], ..Request::default() };
    let model = Offline::new();
    assert_eq!((model.id(), model.context_size()), ("offline", 0));
    let mut reply = model.reply(request.clone());
    let mut events = Vec::new();
    while let Some(event) = reply.next().await {
        events.push(event.expect("an event"));
    }
    assert_eq!(events, model.answer(&request));
}

fn prompts() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        Just("read"),
        Just("run"),
        Just("then"),
        Just("and"),
        Just("it"),
        Just("with"),
        Just("in"),
        Just("to"),
        Just("create"),
        Just("replace"),
        Just("a.rs"),
        Just("`a b`"),
        Just("\"x"),
        Just("'"),
        Just("`"),
        Just("the tests"),
        Just("lines"),
        Just("1."),
        Just("\n- "),
        Just("\n2) "),
        Just("\n```sh\n"),
        Just("\n```\n"),
        Just("\n~~~diff\n"),
        Just("$ ls"),
        Just("/read"),
        Just("\n/write"),
        Just("x.rs:\n"),
        Just("with:\n"),
        Just("ä€\u{202e}"),
        Just(". "),
        Just("; "),
        Just(", "),
        Just(":"),
        Just("find"),
        Just("list"),
        Just("rename"),
        Just("in the background"),
        Just("count"),
        Just("timeout of 5"),
        Just("# "),
        Just("\r\n"),
        Just("\t"),
        Just("9999999999999999999999"),
        Just("first 3 lines of"),
        Just("file:///%ff%"),
        Just("delete"),
        Just("explain the error"),
        Just("\0"),
    ];
    prop_oneof![
        ".{0,200}",
        "(?s)/[a-z]{0,8}.{0,100}",
        proptest::collection::vec(word, 0..30).prop_map(|words| words.join(" ")),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn any_prompt_ends(prompt in prompts(), uri in ".{0,40}", fails in any::<bool>()) {
        fn broken(_: &str, _: &Value) -> (String, bool) {
            ("no".to_owned(), true)
        }
        let mut talk = Talk::new(if fails { broken } else { world });
        let link = ResourceLink { uri, name: "x".into(), ..ResourceLink::default() };
        talk.send(vec![prompt.as_str().into(), link.into()]);
        talk.say(&prompt);
    }
}
