//! Every exit code of docs/exec.md, each with a real run, its name, and its one closing object in both formats for programs.

use super::harness::{Done, Place};
use super::limits::limited;
use serde_json::Value;
use std::collections::BTreeSet;

/// A run for each code, made in a format.
fn run(code: i32, place: &Place, format: &str) -> Done {
    let agent = |behaviour: &str, flags: &[&str]| place.agent(behaviour, "1", flags).format(format);
    let words =
        |behaviour, flags: &[&str], words: &[&str]| limited(place, behaviour, "1", flags, words).format(format).run();
    let signalled = |name: &str| {
        let run = agent("waits", &[]).start();
        run.until_logged("session/prompt");
        run.signal(name);
        run.done()
    };
    match code {
        0 => agent("hello", &[]).run(),
        1 => agent("crash", &[]).run(),
        2 => agent("hello", &["--no-such-flag"]).run(),
        3 => agent("waits", &["--timeout", "3s"]).run(),
        4 => agent("hello", &["--resume", "nothing"]).run(),
        5 => agent("ask_once", &[]).run(),
        6 => agent("login", &[]).run(),
        7 => place.exec(&["go", "--format", format]).words(&["/no/such/program"]).run(),
        8 => {
            place.agent("hello", "1", &["-s", "mine"]).run().ends(0);
            agent("forgets", &["-s", "mine"]).run()
        }
        9 => words("calls", &["--max-tool-calls", "1"], &["2", "waits"]),
        10 => agent("refusal", &[]).run(),
        11 => agent("max_tokens", &[]).run(),
        12 => {
            place.write("schema.json", r#"{"type": "object"}"#);
            agent("hello", &["--output-schema", "schema.json"]).run()
        }
        13 => words("breaks", &["--strict"], &["line"]),
        14 => {
            std::fs::create_dir_all(place.path("config").join("tieline")).unwrap();
            std::fs::write(place.path("config").join("tieline/config.toml"), "no_such_key = 1\n").unwrap();
            agent("hello", &[]).run()
        }
        130 => signalled("INT"),
        143 => signalled("TERM"),
        _ => panic!("no run for {code}"),
    }
}

/// The codes of the table in the documentation.
fn documented() -> BTreeSet<i32> {
    let text = include_str!("../../../../docs/exec.md");
    let table = text.split("## Exit codes").nth(1).unwrap().split("\n## ").next().unwrap();
    table.lines().filter_map(|line| line.strip_prefix("| ")?.split(' ').next()?.parse().ok()).collect()
}

fn check(format: &str, closing: impl Fn(&Done) -> Value) {
    let mut names = BTreeSet::new();
    // Nobody is left to read the object of 141; tests of signals and pipes produce it.
    for code in documented().into_iter().filter(|code| *code != 141) {
        let done = run(code, &Place::new(), format);
        assert_eq!(done.code, Some(code), "{format} {done:#?}");
        let end = closing(&done);
        assert_eq!(end["exit_code"], code, "{done:#?}");
        assert_eq!(end.get("error").is_none(), matches!(code, 0 | 10 | 11), "{done:#?}");
        assert!(end.get("error").is_none_or(|error| error["code"] == end["status"]), "{done:#?}");
        assert!(names.insert(end["status"].as_str().unwrap().to_owned()), "{done:#?}");
    }
}

#[test]
fn every_code_has_one_closing_object_in_json() {
    assert_eq!(documented().len(), 18, "{:?}", documented());
    check("json", Done::object);
}

#[test]
fn every_code_has_one_closing_event_in_stream_json() {
    check("stream-json", |done| {
        let mut ends: Vec<Value> = done.events().into_iter().filter(|event| event["type"] == "end").collect();
        assert_eq!((ends.len(), done.events().last()), (1, ends.last()), "{done:#?}");
        ends.remove(0)
    });
}
