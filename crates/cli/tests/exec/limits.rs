//! Limits that the user sets: budgets, and how long the agent may be silent.

use super::harness::{DIALECTS, Done, Exec, Place};
use serde_json::{Value, json};

/// A run with the agent that spends.
pub fn limited(place: &Place, behaviour: &str, dialect: &str, arguments: &[&str], words: &[&str]) -> Exec {
    place.scripted("limits.py", behaviour, dialect, arguments).words(words)
}

fn closing(place: &Place, behaviour: &str, dialect: &str, arguments: &[&str], words: &[&str]) -> (Done, Value) {
    let done = limited(place, behaviour, dialect, arguments, words).format("json").run();
    let object = done.object();
    (done, object)
}

#[test]
fn a_budget_that_is_used_up_ends_the_turn_and_is_named() {
    let rows = [
        ("spends", &["10,20,30", "waits"][..], &["--max-tokens", "25"][..], json!(["max-tokens", 25, 30, "tokens"])),
        ("spends", &["1:0.25,1:0.75", "waits"], &["--max-cost", "0.5"], json!(["max-cost", 0.5, 0.75, "USD"])),
        ("spends", &["1:0.25", "waits"], &["--max-cost", "0"], json!(["max-cost", 0.0, 0.25, "USD"])),
        ("calls", &["3", "waits"], &["--max-tool-calls", "2"], json!(["max-tool-calls", 2, 3, "tool calls"])),
        ("calls", &["1", "waits"], &["--max-tool-calls", "0"], json!(["max-tool-calls", 0, 1, "tool calls"])),
        // The first one that is reached counts.
        (
            "spends",
            &["10:1,30:9", "waits"],
            &["--max-tokens", "25", "--max-cost", "5"],
            json!(["max-cost", 5.0, 9.0, "USD"]),
        ),
    ];
    for dialect in DIALECTS {
        for (behaviour, words, flags, expect) in &rows {
            let (done, object) = closing(&Place::new(), behaviour, dialect, flags, words);
            let limit = &object["error"]["limit"];
            let told = json!([limit["name"], limit["limit"], limit["used"], limit["unit"]]);
            assert_eq!((done.code, &told), (Some(9), expect), "{dialect} {done:#?}");
            assert_eq!(
                (&object["status"], &object["stop_reason"]),
                (&json!("budget"), &json!("cancelled")),
                "{object}"
            );
            // The agent was asked to stop, and what it said then is there.
            assert_eq!(done.sent("session/cancel").len(), 1, "{done:#?}");
            assert!(object["text"].as_str().unwrap().ends_with(", stopped"), "{object}");
        }
    }
}

#[test]
fn what_is_within_the_budget_goes_on() {
    let place = Place::new();
    let flags = ["--max-tokens", "30", "--max-cost", "0.75", "--max-tool-calls", "2"];
    limited(&place, "spends", "1", &flags, &["10,30:0.75"]).run().ends(0);
    limited(&place, "calls", "1", &["--max-tool-calls", "2"], &["2"]).run().ends(0);
}

#[test]
fn a_budget_told_at_the_end_counts_and_the_answer_is_whole() {
    for flags in [["--max-cost", "0.5"], ["--max-tokens", "899"]] {
        let (done, object) = closing(&Place::new(), "spends_late", "1", &flags, &[]);
        assert_eq!((done.code, &object["text"]), (Some(9), &json!("all of it")), "{done:#?}");
        assert!(object["error"]["message"].as_str().unwrap().contains("at the end of the turn"), "{object}");
        assert_eq!(object["stop_reason"], "end_turn", "{object}");
    }
}

#[test]
fn a_turn_is_not_charged_for_those_before_it() {
    let place = Place::new();
    limited(&place, "spends", "1", &["-s", "mine"], &["10:5"]).run().ends(0);
    let flags = ["-s", "mine", "--max-cost", "1"];
    limited(&place, "spends", "1", &flags, &["10:5.5,11:6"]).run().ends(0);
    let (done, object) = closing(&place, "spends", "1", &flags, &["11:6.5,12:7.25"]);
    assert_eq!((done.code, &object["error"]["limit"]["used"]), (Some(9), &json!(1.25)), "{done:#?}");
    // An agent that counts anew is charged for what it tells.
    let (done, object) = closing(&place, "spends", "1", &flags, &["1:1.5"]);
    assert_eq!((done.code, &object["error"]["limit"]["used"]), (Some(9), &json!(1.5)), "{done:#?}");
}

#[test]
fn a_budget_that_can_not_be_minded_is_said() {
    let (done, object) = closing(&Place::new(), "calls", "1", &["--max-cost", "1", "--max-tokens", "9"], &["1"]);
    assert_eq!(done.code, Some(0), "{done:#?}");
    let warnings = object["warnings"].to_string();
    assert!(warnings.contains("--max-cost was not minded") && warnings.contains("--max-tokens was not"), "{object}");
    let (_, object) = closing(&Place::new(), "spends", "1", &["--max-cost", "1", "--max-tokens", "9"], &["1"]);
    let warnings = object["warnings"].to_string();
    assert!(warnings.contains("--max-cost was not minded") && !warnings.contains("--max-tokens"), "{object}");
}

#[test]
fn an_agent_that_falls_silent_is_stopped() {
    for dialect in DIALECTS {
        let (done, object) = closing(&Place::new(), "silent", dialect, &["--idle-timeout", "3.5s"], &[]);
        let error = &object["error"];
        assert_eq!((done.code, &error["limit"]["name"]), (Some(3), &json!("idle-timeout")), "{done:#?}");
        assert_eq!((&error["limit"]["limit"], &object["text"]), (&json!(3.5), &json!("thinking, stopped")), "{object}");
        assert!(error["message"].as_str().unwrap().contains("(--idle-timeout)"), "{object}");
    }
}

#[test]
fn signs_of_life_and_work_of_ours_are_not_silence() {
    let place = Place::new();
    // Each pause is short, all together are long.
    limited(&place, "slow", "1", &["--idle-timeout", "6s"], &[]).run().ends(0).out_has("7");
    // The agent waits for a command of ours, and not we for it.
    let flags = ["--idle-timeout", "5s", "--allow-all"];
    limited(&place, "long_command", "1", &flags, &[]).run().ends(0).out_has("\"exitCode\": 0");
}

#[test]
fn every_time_out_has_a_name() {
    let place = Place::new();
    let (_, object) = closing(&place, "silent", "1", &["--timeout", "2s"], &[]);
    assert_eq!(object["error"]["limit"], json!({"name": "timeout", "limit": 2, "used": 2, "unit": "s"}), "{object}");
    let object = place.agent("no_hello", "1", &["--start-timeout", "500ms"]).format("json").run().ends(3).object();
    assert_eq!(object["error"]["limit"]["name"], "start-timeout", "{object}");
    assert_eq!(object["error"]["limit"]["limit"], 0.5, "{object}");
}

#[test]
fn limits_that_make_no_sense_are_refused() {
    let place = Place::new();
    for flags in [["--max-cost", "-1"], ["--max-cost", "much"], ["--max-tokens", "1.5"], ["--idle-timeout", "0"]] {
        let run = place.exec(&["go"]).args(&[&format!("{}={}", flags[0], flags[1])]);
        run.run().ends(2).err_has(flags[0]);
    }
}
