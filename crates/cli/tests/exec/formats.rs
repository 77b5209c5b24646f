//! Behaviour × format × exit code: whatever happens, there is exactly one closing object or event, and the right code.

use super::harness::{Done, Place};
use serde_json::Value;

/// Behaviour, flags, words behind it, exit code.
type Row = (&'static str, &'static [&'static str], &'static [&'static str], i32);

const ROWS: &[Row] = &[
    ("hello", &[], &[], 0),
    ("nothing", &[], &[], 0),
    ("odd_stop", &[], &[], 0),
    ("unknown_updates", &[], &[], 0),
    ("unknown_content", &[], &[], 0),
    ("batch", &[], &[], 0),
    ("rubbish", &[], &[], 0),
    ("broken_update", &[], &[], 0),
    ("late", &[], &[], 0),
    ("plan", &[], &[], 0),
    ("big_tool", &[], &[], 0),
    ("crash", &[], &[], 1),
    ("killed", &[], &[], 1),
    ("error", &[], &["-32603"], 1),
    ("error", &[], &["400"], 1),
    ("error", &[], &["-31002"], 1),
    ("error", &[], &["-32000"], 6),
    ("session_error", &[], &[], 1),
    ("dies_at_session", &[], &[], 1),
    ("dies_at_start", &[], &[], 7),
    ("no_hello", &["--start-timeout", "1s"], &[], 3),
    ("slow_session", &["--start-timeout", "1s"], &[], 3),
    ("waits", &["--timeout", "2s"], &[], 3),
    ("login", &[], &[], 6),
    ("ask_once", &[], &[], 5),
    ("ask_once", &["--on-ask", "fail"], &[], 5),
    ("ask_once", &["--allow-all"], &[], 0),
    ("refusal", &[], &[], 10),
    ("max_tokens", &[], &[], 11),
    ("max_turn_requests", &[], &[], 11),
    ("hello", &["--mode", "nope"], &[], 2),
    ("hello", &["--resume", "nope"], &[], 4),
    ("hello", &["--cwd", "/no/such/folder"], &[], 2),
];

fn check(format: &str, closed: impl Fn(&Done, i32)) {
    for (behaviour, flags, words, code) in ROWS {
        let place = Place::new();
        let done = place.agent(behaviour, "1", flags).format(format).words(words).run();
        assert_eq!(done.code, Some(*code), "{format} {behaviour} {flags:?}: {done:#?}");
        closed(&done, *code);
    }
}

fn is_closing(end: &Value, code: i32, done: &Done) {
    assert_eq!(end["exit_code"], code, "{done:#?}");
    // Everything but a turn that ended says what went wrong.
    let ended = matches!(code, 0 | 10 | 11);
    assert_eq!(end.get("error").is_none(), ended, "{done:#?}");
    for key in ["status", "session", "agent", "changed_files", "permissions", "warnings", "duration_ms"] {
        assert!(end.get(key).is_some_and(|value| !value.is_null()), "{key}: {done:#?}");
    }
}

#[test]
fn text() {
    check("text", |done, code| {
        assert_eq!(done.err.contains("tieline exec:"), code != 0, "{done:#?}");
        assert!(done.out.is_empty() || done.out.ends_with('\n'), "{done:#?}");
    });
}

#[test]
fn quiet() {
    // What there is to say about a good end is said, too.
    let good = |done: &Done| done.err.lines().all(|line| line.starts_with("· note: the agent "));
    check("quiet", |done, code| assert_eq!(good(done), code == 0, "{done:#?}"));
}

#[test]
fn json() {
    check("json", |done, code| {
        is_closing(&done.object(), code, done);
        assert!(done.object()["text"].is_string() && done.err.is_empty(), "{done:#?}");
    });
}

#[test]
fn stream_json() {
    check("stream-json", |done, code| {
        let events = done.events();
        assert_eq!(events[0]["type"], "start", "{done:#?}");
        assert_eq!(events.iter().filter(|event| event["type"] == "end").count(), 1, "{done:#?}");
        for (at, event) in events.iter().enumerate() {
            assert_eq!((event["v"].as_u64(), event["seq"].as_u64()), (Some(1), Some(at as u64)), "{done:#?}");
            assert!(event["ts"].as_str().is_some_and(|time| time.ends_with('Z')), "{event}");
        }
        is_closing(events.last().unwrap(), code, done);
        // The pieces of text are the text at the end.
        let pieces = events.iter().filter(|event| event["type"] == "text").filter_map(|event| event["text"].as_str());
        let end = events.last().unwrap()["text"].as_str().unwrap();
        assert_eq!(pieces.collect::<String>(), end.replace("\n\n", ""), "{done:#?}");
    });
}

#[test]
fn acp() {
    check("acp", |done, code| {
        let frames = done.events();
        assert!(frames.iter().all(|frame| frame["jsonrpc"] == "2.0" || frame.is_array()), "{done:#?}");
        assert_eq!(frames.iter().filter(|frame| frame["method"] == "_tieline/end").count(), 1, "{done:#?}");
        is_closing(&frames.last().unwrap()["params"], code, done);
    });
}

#[test]
fn quiet_is_the_last_message_only() {
    let place = Place::new();
    place.write("a.txt", "hello\n");
    let done = place.exec(&["read a.txt", "-q"]).run().ends(0);
    assert!(done.out.starts_with("Read `a.txt`") && done.out.contains("hello"), "{done:#?}");
    let done = place.exec(&["read a.txt"]).run().ends(0);
    assert!(done.out.starts_with("Read `a.txt`") && done.err.contains("offline agent"), "{done:#?}");
}

#[test]
fn the_frames_of_acp_are_those_of_the_wire() {
    for dialect in super::harness::DIALECTS {
        let place = Place::new();
        let done = place.agent("hello", dialect, &["--format", "acp"]).run().ends(0);
        let frames = done.events();
        let sent: Vec<&Value> = frames.iter().filter(|frame| done.log.contains(frame)).collect();
        assert_eq!(sent.len(), done.log.len(), "{done:#?}");
        assert!(frames.iter().any(|frame| frame["params"]["update"]["content"]["text"] == "Hello, "), "{done:#?}");
    }
}
