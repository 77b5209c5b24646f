//! What a person is shown and asked at a real terminal, and what the answers do.

use super::harness::{DIALECTS, Place};
use super::terminal::{ASKS, at_terminal};
use serde_json::{Value, json};

/// A run with an agent that makes these requests.
fn requests(place: &Place, steps: &Value, flags: &[&str], requests: &Value) -> (String, i64) {
    let dialect = flags.iter().skip_while(|flag| **flag != "--protocol").nth(1).copied().unwrap_or("1");
    at_terminal(place, steps, flags, &["requests", dialect, &requests.to_string()])
}

/// A question about a tool call, with all four kinds of options.
fn about(call: &Value) -> Value {
    json!(["permission", {"title": "May I?", "call": call}])
}

fn shell(line: &str) -> Value {
    json!({"toolCallId": "c1", "title": "Run", "kind": "execute", "rawInput": {"command": line}})
}

#[test]
fn nothing_that_is_decided_on_is_hidden() {
    let command = "echo a\u{1b}]0;rm -rf ~\u{7} b\u{202e}c";
    let shown = "run echo a\\u{1b}]0;rm -rf ~\\u{7} b\\u{202e}c";
    for dialect in DIALECTS {
        let place = Place::new();
        let asked = json!([about(&shell(command))]);
        let (seen, _) = requests(&place, &json!([[ASKS, 0, "n\n"]]), &["--protocol", dialect], &asked);
        assert!(seen.contains(shown), "{dialect}: {seen:?}");
        assert!(!seen.contains("\u{1b}]0;"), "{dialect}: {seen:?}");
    }
    // What it is called, what it changes, what it fetches, what a tool is given.
    let place = Place::new();
    let diff =
        json!([{"type": "diff", "path": "CWD/a\u{1b}[2Kb", "oldText": "", "newText": "x\u{1b}[8mhidden\u{1b}[0m\r\n"}]);
    let fetch = json!({"url": "https://docs.rs/a\u{200b}?token=1"});
    let asked = json!([
        about(&json!({"toolCallId": "c1", "title": "Edit\u{1b}]0;x\u{7}", "kind": "edit", "content": diff})),
        about(&json!({"toolCallId": "c2", "title": "Fetch", "kind": "fetch", "rawInput": fetch})),
        about(
            &json!({"toolCallId": "c3", "title": "Tool", "name": "mcp__db__drop", "rawInput": {"table": "users\u{1b}[8m"}})
        ),
    ]);
    let no = json!([ASKS, 0, "n\n"]);
    let (seen, _) = requests(&place, &json!([no, no, no]), &[], &asked);
    for part in [
        "│ Edit\\u{1b}]0;x\\u{7}",
        "write a\\u{1b}[2Kb",
        "+x\\u{1b}[8mhidden\\u{1b}[0m\\u{d}",
        "fetch https://docs.rs/a\\u{200b}?token=1",
        "mcp db/drop",
        "users\\u001b[8m",
    ] {
        assert!(seen.contains(part), "no {part:?}: {seen:?}");
    }
    // A command that is run for the agent: its arguments, too.
    let asked = json!([["terminal/create", {"command": "echo", "args": ["a\u{1b}[8mb"]}]]);
    let (seen, _) = requests(&place, &json!([[ASKS, 0, "n\n"]]), &[], &asked);
    assert!(seen.contains("run echo 'a\\u{1b}[8mb'"), "{seen:?}");
}

fn form(fields: &Value) -> Value {
    let schema = json!({"type": "object", "properties": fields, "required": ["name"]});
    json!(["elicitation/create", {"mode": "form", "message": "Who?", "requestedSchema": schema}])
}

#[test]
fn ctrl_c_in_a_form_cancels_it_and_the_turn() {
    for dialect in DIALECTS {
        let place = Place::new();
        let asked = json!([form(&json!({"name": {"type": "string"}, "zip": {"type": "integer"}}))]);
        let steps = json!([["» name", 100, "Ada\n"], ["» zip", 100, "\u{3}"]]);
        let (seen, code) = requests(&place, &steps, &["--protocol", dialect], &asked);
        assert_eq!(code, 130, "{dialect}: {seen}");
        let log = std::fs::read_to_string(place.path("log")).unwrap();
        assert!(log.contains(r#""action": "cancel""#) && log.contains("session/cancel"), "{dialect}: {log}");
    }
}

#[test]
fn nothing_is_printed_inside_a_form() {
    let place = Place::new();
    let asked = json!([["say", "working"], form(&json!({"name": {"type": "string"}, "zip": {"type": "integer"}}))]);
    // Long enough for the age of a wait to be told.
    let steps =
        json!([["» name", 5000, "Ada\n"], ["» zip", 0, "old\n"], ["whole number", 0, "36\n"], ["» send", 600, "Y\n"]]);
    let (seen, code) = requests(&place, &steps, &[], &asked);
    let form = &seen[seen.find("asks for something").unwrap()..seen.find("» send").unwrap()];
    assert!(!form.contains("waiting for") && !form.contains("working"), "{seen}");
    assert!(seen.contains("36") && seen.contains("\"accept\"") && code == 0, "{seen}");
}

#[test]
fn always_holds_until_the_run_ends_and_says_so() {
    let once = json!([["y", "Yes", "allow_once"], ["n", "No", "reject_once"]]);
    let all = json!([["y", "Yes", "allow_once"], ["ever", "Always", "allow_always"], ["n", "No", "reject_once"]]);
    let edit = json!({"toolCallId": "c2", "title": "Edit", "kind": "edit", "locations": [{"path": "CWD/.git/config"}]});
    for (call, rule) in [(shell("make all"), "run make all"), (edit, "write .git/config")] {
        for options in [&once, &all] {
            for typed in ["a\n", "7\n"] {
                // What a word stands for has no number; what the agent keeps has one.
                if typed == "7\n" && options == &once {
                    continue;
                }
                let place = Place::new();
                let ask = json!(["permission", {"title": "May I?", "call": call, "options": options}]);
                let (seen, code) = requests(&place, &json!([[ASKS, 600, typed]]), &[], &json!([ask, ask, ask]));
                assert!(seen.contains(&format!("a: '{rule}'; until this run ends")), "{seen}");
                assert!(seen.contains(&format!("always: '{rule}'; in this folder; ")), "{seen}");
                let numbered = "yes for this run, and the agent keeps it; the agent calls it";
                assert_eq!(seen.contains(numbered), options == &all, "{seen}");
                // Nothing is stored, and the agent is told nothing that lasts unless that very option was chosen.
                assert!(!place.path("config").join("tieline/learned.toml").exists());
                assert_eq!(seen.contains("\"ever\""), typed == "7\n", "{seen}");
                // Who keeps it is said.
                let kept = "the agent keeps it as it says, tieline until this run ends";
                assert_eq!(seen.replace("\r\n│ ", "").contains(kept), typed == "7\n", "{seen}");
                assert_eq!(
                    (seen.matches(ASKS).count(), seen.matches("\"selected\"").count(), code),
                    (1, 3, 0),
                    "{seen}"
                );
            }
        }
    }
    // What no rule can say is not offered.
    let vague = json!({"toolCallId": "c3", "title": "Something", "kind": "other"});
    let ask = json!(["permission", {"title": "May I?", "call": vague, "options": once}]);
    let steps = json!([[ASKS, 600, "a\n"], ["none of the answers", 0, "n\n"]]);
    let (seen, _) = requests(&Place::new(), &steps, &[], &json!([ask]));
    assert!(!seen.contains("a this run"), "{seen}");
}

#[test]
fn a_change_that_was_allowed_is_not_asked_again() {
    let edit = |old: &str, new: &str| {
        let diff = json!([{"type": "diff", "path": "CWD/notes.txt", "oldText": old, "newText": new}]);
        about(&json!({"toolCallId": "c1", "title": "Edit notes.txt", "kind": "edit", "content": diff}))
    };
    let write = |text: &str| json!(["fs/write_text_file", {"path": "CWD/notes.txt", "content": text}]);
    let yes = json!([ASKS, 600, "y\n"]);
    // The whole text, or only the place that changes.
    for (old, new) in [("one\ntwo\n", "one\n2\n"), ("two", "2")] {
        let place = Place::new();
        place.write("notes.txt", "one\ntwo\n");
        let (seen, code) = requests(&place, &json!([yes]), &[], &json!([edit(old, new), write("one\n2\n")]));
        assert_eq!((code, place.read("notes.txt").unwrap().as_str()), (0, "one\n2\n"), "{seen}");
        // Something else is another matter.
        place.write("notes.txt", "one\ntwo\n");
        let no = json!([ASKS, 0, "n\n"]);
        let (seen, _) = requests(&place, &json!([yes, no]), &[], &json!([edit(old, new), write("one\n2\nrm -rf ~\n")]));
        assert!(seen.contains("+rm -rf ~"), "{seen}");
        assert_eq!(place.read("notes.txt").unwrap(), "one\ntwo\n");
    }
}

#[test]
fn a_no_is_never_sent_with_the_id_of_a_yes() {
    let options = json!([["x", "Yes", "allow_once"], ["x", "No", "reject_once"]]);
    let ask = json!(["permission", {"title": "May I?", "call": shell("make all"), "options": options}]);
    for dialect in DIALECTS {
        let (seen, _) = requests(&Place::new(), &json!([[ASKS, 0, "n\n"]]), &["--protocol", dialect], &json!([ask]));
        assert!(seen.contains("\"cancelled\"") && !seen.contains("\"selected\""), "{dialect}: {seen}");
        assert!(seen.contains("note: the option") && seen.contains("the id of another"), "{dialect}: {seen}");
    }
}

#[test]
fn keys_are_forgiving_and_ctrl_d_is_a_no() {
    for (steps, answer, code) in [
        (json!([[ASKS, 600, "Y\n"]]), "\"yes\"", 0),
        (json!([[ASKS, 0, "NO\n"]]), "\"no\"", 5),
        (json!([[ASKS, 0, "\u{4}"]]), "\"no\"", 5),
        (
            json!([[ASKS, 0, "what\n"], ["(that is none of the answers; ? lists them)\r\n» y once", 0, "n\n"]]),
            "\"no\"",
            5,
        ),
        (json!([[ASKS, 0, "9\n"], ["none of the answers", 0, "\u{4}"]]), "\"no\"", 5),
    ] {
        let (seen, ended) = at_terminal(&Place::new(), &steps, &[], &["ask_once"]);
        assert!(seen.contains(answer) && ended == code, "{steps}: {seen}");
        assert_eq!(seen.contains("no answer (Ctrl-D): refused"), steps.to_string().contains("\\u0004"), "{seen}");
    }
    let asked = json!([form(&json!({"name": {"type": "string"}}))]);
    let (seen, code) = requests(&Place::new(), &json!([["» name", 0, "\u{4}"]]), &[], &asked);
    assert!(seen.contains("the form is cancelled") && seen.contains("\"cancel\"") && code == 0, "{seen}");
}

#[test]
fn only_our_own_lines_look_like_ours() {
    let words = "── The agent asks for permission ──\n  » y once, n no: \n· allowed: everything\nplain · text\n";
    let asked = json!([["say", words], about(&shell("make all"))]);
    let (seen, _) = requests(&Place::new(), &json!([["would:", 0, "n\n"]]), &[], &asked);
    let heading = "── The agent asks for permission ──";
    assert_eq!((seen.matches(heading).count(), seen.matches(&format!("│ {heading}")).count()), (2, 1), "{seen}");
    for part in ["\n│   » y once, n no:", "\n│ · allowed: everything", "\n  plain · text"] {
        assert!(seen.contains(part), "{part}: {seen}");
    }
    // What goes into a pipe is what the agent said.
    let place = Place::new();
    let quoted = json!([["say", words]]).to_string();
    let done = place.agent("requests", "1", &[]).words(&[&quoted]).run().ends(0);
    assert!(done.out.starts_with(words), "{done:#?}");
}

#[test]
fn a_long_line_does_not_put_its_end_where_ours_begin() {
    // The terminal has 97 columns.
    let command = format!("true {}would: read a.txt", " ".repeat(85));
    let title = format!("Harmless{}always: nothing", " ".repeat(87));
    let call = json!({"toolCallId": "c1", "title": title, "kind": "execute", "rawInput": {"command": command}});
    let asked = json!([["permission", {"title": title, "call": call}]]);
    let (seen, _) = requests(&Place::new(), &json!([[ASKS, 0, "n\n"]]), &[], &asked);
    let question = &seen[seen.find("── The agent asks").unwrap()..seen.find("» y once").unwrap()];
    for part in ["would: read a.txt", "always: nothing"] {
        let behind = |row: &str| row.starts_with('│') && row.trim_start_matches(['│', ' ']).starts_with(part);
        assert!(question.lines().any(behind), "{part}: {seen}");
    }
}

#[test]
fn a_wait_is_told_below_the_line_and_goes_away() {
    let asked = json!([["say", "working"], ["sleep", 8], ["say", " on"]]);
    let (seen, code) = requests(&Place::new(), &json!([]), &[], &asked);
    assert!(seen.contains("waiting for the agent") && code == 0, "{seen:?}");
    // Without what is drawn below and wiped away, the line is whole.
    let mut text = seen.replace("\u{1b}[J", "");
    while let (Some(from), Some(to)) = (text.find("\u{1b}D\u{1b}M\u{1b}7"), text.find("\u{1b}8")) {
        text.replace_range(from..to + 2, "");
    }
    assert!(text.contains("working on"), "{seen:?}");
    let last = seen.rfind("\u{1b}8").unwrap();
    assert!(seen[last..].contains("\u{1b}[J"), "{seen:?}");
}
