//! At a real terminal: questions with the diff and the exact command, keys that are dead for a moment, nothing to be spoofed.

use super::harness::{Place, script};
use serde_json::{Value, json};
use std::process::Command;

/// What the terminal saw, and the exit code.
pub fn at_terminal(place: &Place, steps: &Value, flags: &[&str], words: &[&str]) -> (String, i64) {
    let mut command = Command::new("python3");
    place.surround(&mut command);
    command.args([&script("at_terminal.py"), &steps.to_string(), env!("CARGO_BIN_EXE_tieline"), "exec", "go"]);
    command.args(flags).args(["--", "python3", &script("agent.py")]).args(words);
    command.env("TERM", "xterm").current_dir(place.project());
    let done = command.output().unwrap();
    let done: Value = serde_json::from_slice(&done.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&done.stderr)));
    assert_eq!(done["left"], json!([]), "not everything was asked: {done:#}");
    (done["seen"].as_str().unwrap().to_owned(), done["code"].as_i64().unwrap())
}

/// The end of a question.
pub const ASKS: &str = "n no";

#[test]
fn permission_is_asked_with_the_exact_command() {
    for dialect in super::harness::DIALECTS {
        // The numbers are those of the chat's screen: our own answers first.
        for (typed, answer, code) in [
            ("y\n", "\"yes\"", 0),
            ("1\n", "\"yes\"", 0),
            ("n\n", "\"no\"", 5),
            ("4\n", "\"no\"", 5),
            ("7\n", "\"always\"", 0),
            ("8\n", "\"never\"", 5),
        ] {
            let place = Place::new();
            let steps = json!([[ASKS, 600, typed]]);
            let (seen, code_seen) = at_terminal(&place, &steps, &["--protocol", dialect], &["ask_once", dialect]);
            assert!(seen.contains("would:") && seen.contains("run make all"), "{seen}");
            assert!(seen.contains("preset allow-reads") && seen.contains(answer), "{seen}");
            assert_eq!(code_seen, code, "{seen}");
        }
    }
}

#[test]
fn an_edit_is_asked_with_its_diff() {
    for dialect in super::harness::DIALECTS {
        let place = Place::new();
        place.write("notes.txt", "old\n");
        let steps = json!([[ASKS, 600, "y\n"]]);
        let (seen, code) = at_terminal(&place, &steps, &["--protocol", dialect], &["ask_edit", dialect]);
        let question = &seen[..seen.find(ASKS).unwrap()];
        assert!(question.contains("-old") && question.contains("+new"), "{seen}");
        assert_eq!((code, place.read("notes.txt").unwrap().as_str()), (0, "new\n"), "{seen}");
    }
}

#[test]
fn a_yes_that_comes_too_soon_does_not_count() {
    let place = Place::new();
    let steps = json!([[ASKS, 0, "y\n"], ["too quick", 600, "n\n"]]);
    let (seen, code) = at_terminal(&place, &steps, &[], &["ask_once"]);
    assert!(seen.contains("\"no\""), "{seen}");
    assert_eq!(code, 5);
    // A no counts at once, and what is no answer is asked again.
    let (seen, code) =
        at_terminal(&place, &json!([[ASKS, 0, "maybe\n"], ["none of the answers", 0, "n\n"]]), &[], &["ask_once"]);
    assert_eq!(code, 5, "{seen}");
}

#[test]
fn what_the_agent_says_can_not_pose_as_a_question() {
    let place = Place::new();
    let steps = json!([["would:", 700, "n\n"]]);
    let (seen, code) = at_terminal(&place, &steps, &[], &["spoof"]);
    assert_eq!(code, 5, "{seen}");
    // The agent's own words stand behind a bar, and nothing moved the cursor or wiped the screen.
    assert!(seen.contains("│ ── The agent asks for permission ──"), "{seen}");
    assert!(!seen.contains("\u{1b}[A") && !seen.contains("\u{1b}[2J"), "{seen}");
}

#[test]
fn text_that_would_drive_the_terminal_does_not_reach_it() {
    let place = Place::new();
    let (seen, code) = at_terminal(&place, &json!([]), &[], &["escapes"]);
    assert_eq!(code, 0);
    assert!(!seen.contains("\u{1b}]") && !seen.contains("\u{1b}[2J") && !seen.contains("[31mred"), "{seen:?}");
    assert!(seen.contains("made harmless"), "{seen}");
}

#[test]
fn terminals_for_the_agent_are_as_large_as_ours() {
    let place = Place::new();
    let command = r#"{"command": "stty", "args": ["size"]}"#;
    let (seen, _) = at_terminal(&place, &json!([]), &["--allow-all"], &["terminal", "1", command]);
    assert!(seen.contains("31 97"), "{seen}");
}

#[test]
fn v1_elic_05_06_07_14_v2_elic_01_forms_and_pages() {
    for dialect in ["1", "2"] {
        let place = Place::new();
        let steps = json!([["name", 100, "Ada\n"], ["send this?", 600, "y\n"]]);
        let (seen, code) = at_terminal(&place, &steps, &["--protocol", dialect], &["elicit", dialect]);
        assert!(seen.contains("scripted asks for something") && seen.contains("│ Who?"), "{seen}");
        assert!(seen.contains("\"accept\"") && seen.contains("Ada") && code == 0, "{seen}");
        let steps = json!([["name", 100, "/decline\n"]]);
        let (seen, _) = at_terminal(&place, &steps, &["--protocol", dialect], &["elicit", dialect]);
        assert!(seen.contains("\"decline\"") && !seen.contains("\"content\""), "{seen}");
        let steps = json!([["address:", 600, "y\n"]]);
        let (seen, _) = at_terminal(&place, &steps, &["--protocol", dialect], &["page", dialect]);
        assert!(seen.contains("https://xn--e1awd7f.example/login") && seen.contains("host:"), "{seen}");
        assert!(seen.contains("\"accept\""), "{seen}");
    }
}

#[test]
fn a_login_is_chosen_by_number() {
    for dialect in super::harness::DIALECTS {
        let place = Place::new();
        let (seen, code) =
            at_terminal(&place, &json!([["a number", 600, "2\n"]]), &["--protocol", dialect], &["login", dialect]);
        assert!(seen.contains("In the browser") && seen.contains("Hello, world.") && code == 0, "{seen}");
        let (seen, code) =
            at_terminal(&place, &json!([["a number", 0, "n\n"]]), &["--protocol", dialect], &["login", dialect]);
        assert_eq!(code, 6, "{seen}");
    }
}

#[test]
fn v1_auth_12_v2_auth_07_a_login_in_the_terminal_starts_the_agent_anew() {
    for dialect in ["1", "2"] {
        let place = Place::new();
        let steps = json!([["a number", 600, "1\n"], ["password?", 100, "open sesame\n"]]);
        let words = ["terminal_login", dialect, &place.path("token").display().to_string()];
        let (seen, code) = at_terminal(&place, &steps, &["--protocol", dialect], &words);
        assert!(seen.contains("Hello, world.") && code == 0, "{seen}");
        let log = std::fs::read_to_string(place.path("log")).unwrap();
        assert_eq!(log.matches("\"initialize\"").count(), 2, "{log}");
        assert!(!log.contains("authenticate") && !log.contains("auth/login"), "{log}");
    }
}

#[test]
fn a_login_in_the_terminal_that_does_not_help_is_done_once() {
    let place = Place::new();
    let steps = json!([["a number", 600, "1\n"], ["password?", 100, "open sesame\n"]]);
    let (seen, code) = at_terminal(&place, &steps, &[], &["terminal_login_in_vain", "1", "none"]);
    assert_eq!(code, 6, "{seen}");
    let log = std::fs::read_to_string(place.path("log")).unwrap();
    assert_eq!(log.matches("\"initialize\"").count(), 2, "{log}");
}

#[test]
fn ctrl_c_at_a_question_ends_the_run() {
    let place = Place::new();
    let (seen, code) = at_terminal(&place, &json!([[ASKS, 300, "\u{3}"]]), &[], &["waits_asking"]);
    assert_eq!(code, 130, "{seen}");
    let log = std::fs::read_to_string(place.path("log")).unwrap();
    assert!(log.contains("\"cancelled\"") && log.contains("session/cancel"), "{log}");
}
