//! What is demanded of an answer: a schema, the protocol to the letter, a file of its own, and what is shown beside it.

use super::harness::{DIALECTS, Place, harmless, journal};
use super::limits::limited;
use super::sessions::recorded;
use super::terminal::at_terminal;
use serde_json::{Value, json};
use tieline_client::journal::Journal;

const SCHEMA: &str = r#"{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}"#;

#[test]
fn an_answer_fits_the_schema_or_the_code_is_12() {
    for dialect in DIALECTS {
        let place = Place::new();
        place.write("schema.json", SCHEMA);
        let flags = ["--output-schema", "schema.json", "--format", "json"];
        for answer in [r#"{"n": 1}"#, "```json\n{\"n\": 1}\n```"] {
            let done = limited(&place, "answers", dialect, &flags, &["First I look.", answer]).run().ends(0);
            assert_eq!(done.object()["answer"], json!({"n": 1}), "{done:#?}");
        }
        for (answer, why) in [
            (r#"{"n": "x"}"#, "/n is of the type string"),
            ("{}", "the whole lacks `n`"),
            ("It is {\"n\": 1}", "the answer is no JSON"),
            ("```json\n{}\n```", "lacks `n`"),
        ] {
            let done = limited(&place, "answers", dialect, &flags, &[answer]).run().ends(12);
            let object = done.object();
            assert_eq!((&object["status"], object.get("answer")), (&json!("misfit"), None), "{done:#?}");
            assert!(object["error"]["message"].as_str().unwrap().contains(why), "{done:#?}");
            assert_eq!((&object["text"], &object["stop_reason"]), (&json!(answer), &json!("end_turn")), "{done:#?}");
        }
    }
}

#[test]
fn an_answer_that_never_came_does_not_fit_and_other_ends_go_first() {
    let place = Place::new();
    place.write("schema.json", SCHEMA);
    let flags = ["--output-schema", "schema.json"];
    limited(&place, "answers", "1", &flags, &[]).run().ends(12).err_has("it is empty");
    // The turn itself went well, and the journal says so.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let id = recorded(&place)[0].id.clone();
    let story = runtime.block_on(async { Journal::open(journal(&place)).unwrap().story(&id).await.unwrap() });
    assert_eq!(story.turns[0].stop.as_ref().map(ToString::to_string).as_deref(), Some("end_turn"), "{story:?}");
    place.agent("refusal", "1", &flags).run().ends(10);
    place.agent("crash", "1", &flags).run().ends(1);
}

#[test]
fn the_last_message_of_quiet_is_the_json_itself() {
    let place = Place::new();
    place.write("schema.json", SCHEMA);
    let flags = ["--output-schema", "schema.json", "-q"];
    let done =
        limited(&place, "answers", "1", &flags, &["```json\n{\"n\": 1, \"s\": \"\u{202e}\"}\n```"]).run().ends(0);
    assert_eq!(done.out, "{\"n\":1,\"s\":\"\\u202e\"}\n", "{done:#?}");
}

#[test]
fn a_schema_that_can_not_be_used_is_refused_before_the_agent_starts() {
    let place = Place::new();
    place.write("odd.json", r#"{"unevaluatedItems": false}"#);
    place.write("broken.json", "{");
    place.write("dated.json", r#"{"format": "date"}"#);
    for (file, why) in
        [("odd.json", "`unevaluatedItems`"), ("broken.json", "no JSON"), ("missing.json", "No such file")]
    {
        let done = limited(&place, "answers", "1", &["--output-schema", file], &["1"]).run().ends(2);
        done.err_has(why).err_has(file);
        assert!(done.log.is_empty(), "{done:#?}");
    }
    limited(&place, "answers", "1", &["--output-schema", "dated.json"], &["1"]).run().ends(0).err_has("is not checked");
}

#[test]
fn violations_of_the_protocol_count_only_with_strict() {
    let ways = [
        ("line", "no message"),
        ("kind", "`weather_report` does not exist"),
        ("field", "title"),
        ("params", "sessionUpdate"),
        ("method", "`session/no_such_thing` does not exist"),
        ("version", "jsonrpc"),
        ("answer", "nothing that was asked"),
        ("id", "is a notification and has an `id`"),
    ];
    for dialect in DIALECTS {
        for (way, named) in ways {
            let place = Place::new();
            limited(&place, "breaks", dialect, &[], &[way]).run().ends(0).out_has("after");
            let done = limited(&place, "breaks", dialect, &["--strict", "--format", "json"], &[way]).run().ends(13);
            let object = done.object();
            let violations = object["error"]["violations"].as_array().unwrap();
            assert!(violations.iter().any(|one| one.as_str().unwrap().contains(named)), "{way} {dialect} {done:#?}");
            assert!(object["text"].as_str().unwrap().contains("after"), "{done:#?}");
        }
    }
}

#[test]
fn good_agents_pass_strict() {
    for dialect in DIALECTS {
        let place = Place::new();
        place.write("a.txt", "hello\n");
        limited(&place, "breaks", dialect, &["--strict"], &["extension"]).run().ends(0);
        for behaviour in ["hello", "plan", "ask_once"] {
            place.agent(behaviour, dialect, &["--strict", "--allow-all", "--format", "json"]).run().ends(0);
        }
        place.exec(&["read a.txt", "--strict", "--protocol", dialect]).run().ends(0);
    }
}

#[test]
fn many_violations_are_counted_and_told_once() {
    let flags = ["--strict", "--format", "json"];
    let object = limited(&Place::new(), "breaks", "1", &flags, &["many"]).run().ends(13).object();
    assert_eq!(object["error"]["violations"].as_array().unwrap().len(), 1, "{object}");
    assert!(object["error"]["message"].as_str().unwrap().contains("100 times"), "{object}");
}

#[test]
fn the_last_message_is_saved_as_it_was_said() {
    let place = Place::new();
    let last = "two\n\u{1b}[31m";
    limited(&place, "answers", "1", &["--save-last", "last.txt"], &["one", last]).run().ends(0);
    assert_eq!(place.read("last.txt").as_deref(), Some(last));
    // What stood there before is not taken for an answer.
    place.agent("refusal", "1", &["--save-last", "last.txt"]).run().ends(10);
    assert_eq!(place.read("last.txt").as_deref(), Some(""));
    for wrong in ["no/such/folder.txt", "."] {
        place.agent("hello", "1", &["--save-last", wrong]).run().ends(2).err_has("no place for a file");
    }
    let object = place.agent("hello", "1", &["--save-last", "/dev/full"]).format("json").run().ends(1).object();
    assert!(object["error"]["message"].as_str().unwrap().contains("--save-last"), "{object}");
}

#[test]
fn what_is_shown_beside_the_answer_can_be_chosen() {
    let place = Place::new();
    let marks = [
        ("thoughts", "~ first thought"),
        ("tools", "· edit Edit it"),
        ("diffs", "+new"),
        ("plan", "[x] Look"),
        ("usage", "5 of"),
    ];
    let shown = |list: &[&str]| {
        let done = limited(&place, "thinks", "1", list, &[]).run().ends(0);
        assert!(harmless(&done.err) && done.out.ends_with("the answer\n"), "{done:#?}");
        marks.iter().filter(|(_, mark)| done.err.contains(mark)).map(|(name, _)| *name).collect::<Vec<_>>()
    };
    assert_eq!(shown(&[]), ["tools", "diffs", "plan"]);
    assert_eq!(shown(&["--show", "none"]), [""; 0]);
    assert_eq!(shown(&["--show", "thoughts,usage"]), ["thoughts", "usage"]);
    assert_eq!(shown(&["--show", "thoughts,tools,diffs,plan,usage"]), ["thoughts", "tools", "diffs", "plan", "usage"]);
    place.agent("hello", "1", &["--show", "everything"]).run().ends(2).err_has("everything");
}

#[test]
fn a_wrong_command_line_has_a_closing_object_too() {
    let place = Place::new();
    for flags in [&["--format", "json"][..], &["-F", "json"], &["-Fjson"], &["--output-format=json"]] {
        let done = place.exec(&["go", "--no-such-flag"]).args(flags).run().ends(2);
        let object = done.object();
        assert_eq!((&object["status"], object["exit_code"].as_u64()), (&json!("usage"), Some(2)), "{done:#?}");
        assert!(object["error"]["message"].as_str().unwrap().contains("--no-such-flag"), "{done:#?}");
        assert!(done.err.is_empty(), "{done:#?}");
    }
    let done = place.exec(&["--json", "--timeout", "soon"]).run().ends(2);
    let events: Vec<Value> = done.events();
    assert_eq!(
        (events.len(), &events[0]["type"], &events[1]["type"]),
        (2, &json!("start"), &json!("end")),
        "{done:#?}"
    );
    // In words for people, and where the words are those of the agent.
    for words in [&["--no-such-flag"][..], &["--no-such-flag", "--", "agent", "-F", "json"]] {
        let done = place.exec(words).run().ends(2);
        assert!(done.out.is_empty() && done.err.contains("--no-such-flag"), "{done:#?}");
    }
    place.exec(&["--help", "-F", "json"]).run().ends(0).out_has("Exit codes");
}

#[test]
fn json_is_short_for_stream_json() {
    let events = Place::new().agent("hello", "1", &["--json"]).run().ends(0).events();
    assert_eq!(events.last().unwrap()["type"], "end");
    Place::new().agent("hello", "1", &["--json", "--format", "text"]).run().ends(2);
}

#[test]
fn that_nobody_is_asked_in_a_format_for_programs_is_said_at_a_terminal() {
    let place = Place::new();
    let (seen, code) = at_terminal(&place, &json!([]), &["--format", "json"], &["ask_once"]);
    assert!(seen.contains("nobody is asked, not even at a terminal"), "{seen}");
    assert_eq!(code, 5);
    let (seen, _) = at_terminal(&place, &json!([]), &["--format", "json"], &["hello"]);
    assert!(!seen.contains("nobody is asked"), "{seen}");
    // Elsewhere that goes without saying.
    let done = place.agent("ask_once", "1", &["--format", "json"]).run().ends(5);
    assert!(!done.out.contains("nobody is asked"), "{done:#?}");
}
