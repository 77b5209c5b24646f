//! The official SDKs in TypeScript and Python play the same turns with the coding agent and must see the same.

use serde_json::{Value, json};
use tieline_interop::coder::{Place, is_running};
use tieline_interop::{Outcome, RUN_DEADLINE, python, run, ts_coder};

/// What the model hears of a no of a client that does not say who decided.
const NOT_ALLOWED: &str = "Not allowed (the client said no, for the user or by its settings). Do not try it another way; tell the user if it is needed.";
/// What is shown of it.
const SHOWN: &str = "Not allowed (the client said no, for the user or by its settings).";

/// Plays all turns, looks at what does not depend on the version, and gives back the rest.
#[track_caller]
fn play(client: &[String], version: u16) -> Outcome {
    let place = Place::default();
    let turns = place.turns();
    let mut client = client.to_vec();
    client.extend([place.project().to_str().unwrap().to_owned(), turns.to_string()]);
    let outcome = run(&client, &place.puppet(), RUN_DEADLINE);
    outcome.expect_ok();
    // An SDK that does not like a message says so here and goes on.
    assert_eq!(outcome.stderr, "", "{outcome}");
    let played = turns.as_array().unwrap().iter().map(|turn| turn["step"].as_str().unwrap());
    let steps: Vec<&str> = ["initialize", "new"]
        .into_iter()
        .chain(played)
        .chain(["unknown", "terminals", "list", "initialize_again", "load_unknown", "load", "again", "done"])
        .collect();
    outcome.expect_steps(&steps);
    hello_and_words(&outcome, version);
    permission(&outcome, &place);
    cancelling(&outcome, &place);
    errors(&outcome);
    loading(&outcome);
    outcome
}

fn step<'o>(outcome: &'o Outcome, name: &str) -> &'o Value {
    outcome.step(name).unwrap_or_else(|| panic!("no {name}: {outcome}"))
}

/// The only tool call of a turn.
fn tool<'o>(outcome: &'o Outcome, name: &str) -> &'o Value {
    let tools = &step(outcome, name)["tools"];
    assert_eq!(tools.as_array().map(Vec::len), Some(1), "{name}: {outcome}");
    &tools[0]
}

fn hello_and_words(outcome: &Outcome, version: u16) {
    for name in ["initialize", "initialize_again"] {
        let hello = step(outcome, name);
        assert_eq!((&hello["protocol"], &hello["agent"]), (&json!(version), &json!("tieline")), "{outcome}");
    }
    assert_eq!(step(outcome, "new")["mode"], "ask", "{outcome}");
    let said = step(outcome, "say");
    assert_eq!((&said["text"], &said["stop"]), (&json!("Hello,größer."), &json!("end_turn")), "{outcome}");
    assert_eq!((&said["thoughts"], &said["chunks"]), (&json!("about it"), &json!(2)), "{outcome}");
    assert_eq!(said["plan"], json!(["A:completed", "B:completed"]), "{outcome}");
}

fn permission(outcome: &Outcome, place: &Place) {
    let kinds = json!(["allow_once", "allow_always", "reject_once", "reject_always"]);
    for (name, title, status, asked) in [
        ("edit", "Edit a.txt", "completed", true),
        ("edit_rejected", "Edit a.txt", "failed", true),
        ("create", "Create made.txt", "completed", true),
        ("open", "Read open.txt", "completed", false),
        ("run", "Run `echo out; echo err >&2; exit 3`", "failed", true),
        ("run_rejected", "Run `touch never.txt`", "failed", true),
    ] {
        let (turn, call) = (step(outcome, name), tool(outcome, name));
        assert_eq!((&call["title"], &call["status"]), (&json!(title), &json!(status)), "{name}: {outcome}");
        assert_eq!(turn["stop"], "end_turn", "{name}: {outcome}");
        let questions = turn["asked"].as_array().unwrap();
        assert_eq!(questions.len(), usize::from(asked), "{name}: {outcome}");
        for question in questions {
            // The question alone says what it is about, with the change that would be made.
            // A command's question says, too, whether a sandbox holds it.
            let words = question["title"].as_str().unwrap_or_default();
            let held = words.strip_prefix(title).is_some_and(|rest| rest.is_empty() || rest.contains("sandbox"));
            assert!(held && question["kinds"] == kinds, "{name}: {outcome}");
            let shown = if name.starts_with("run") { &json!([]) } else { &call["diffs"] };
            assert_eq!(&question["diffs"], shown, "{name}: {outcome}");
        }
        if name.ends_with("_rejected") {
            assert_eq!(call["content"], SHOWN, "{name}: {outcome}");
        }
    }
    assert_eq!(step(outcome, "edit_rejected")["text"], NOT_ALLOWED, "{outcome}");
    assert_eq!(step(outcome, "run")["text"], "out\nerr\n(the command exited with status 3)", "{outcome}");
    assert_eq!(place.read("a.txt").as_deref(), Some("new text\n"));
    assert_eq!(place.read("made.txt").as_deref(), Some("made\n"));
    assert_eq!(place.read("never.txt"), None);
}

fn cancelling(outcome: &Outcome, place: &Place) {
    for name in ["cancel", "cancel_run", "cancel_ask"] {
        assert_eq!(step(outcome, name)["stop"], "cancelled", "{name}: {outcome}");
    }
    assert_eq!(step(outcome, "cancel")["text"], "begun", "{outcome}");
    assert!(!is_running(place.mark()), "{outcome}");
}

fn errors(outcome: &Outcome) {
    assert_eq!(step(outcome, "fails")["error"], json!({"code": -32099, "message": "broken"}), "{outcome}");
    for name in ["unknown", "load_unknown"] {
        assert_eq!(step(outcome, name)["error"]["code"], -32002, "{name}: {outcome}");
    }
}

fn loading(outcome: &Outcome) {
    assert_eq!(step(outcome, "list")["known"], true, "{outcome}");
    let load = step(outcome, "load");
    assert!(load["live"].as_array().is_some_and(|entries| entries.len() > 20), "{outcome}");
    assert_eq!(load["replayed"], load["live"], "{outcome}");
    let again = step(outcome, "again");
    assert_eq!((&again["text"], &again["stop"]), (&json!("again"), &json!("end_turn")), "{outcome}");
}

/// What version 1 has and version 2 does not: the client's files and terminals, and whole texts in a change.
fn version_1(outcome: &Outcome) {
    assert_eq!(tool(outcome, "edit")["diffs"], json!([["a.txt", "old text\n", "new text\n"]]), "{outcome}");
    assert_eq!(tool(outcome, "create")["diffs"], json!([["made.txt", null, "made\n"]]), "{outcome}");
    assert_eq!(step(outcome, "edit")["wrote"], json!(["a.txt"]), "{outcome}");
    assert_eq!(step(outcome, "edit_rejected")["wrote"], json!([]), "{outcome}");
    // What the editor has not saved yet wins over what is on the disk.
    assert_eq!(step(outcome, "open")["text"], "    1  unsaved text\n", "{outcome}");
    assert_eq!(tool(outcome, "run")["terminal"], true, "{outcome}");
    assert_eq!(step(outcome, "terminals")["released"], 2, "{outcome}");
}

#[test]
fn typescript_version_1() {
    version_1(&play(&ts_coder(1), 1));
}

#[test]
fn typescript_version_2() {
    let outcome = play(&ts_coder(2), 2);
    let diff = &tool(&outcome, "edit")["diffs"][0];
    let patch = diff[2].as_str().unwrap_or_default();
    assert_eq!((&diff[0], &diff[1]), (&json!("a.txt"), &json!("modify")), "{outcome}");
    assert!(patch.contains("-old text\n+new text\n"), "{outcome}");
    assert_eq!(step(&outcome, "open")["text"], "    1  saved text\n", "{outcome}");
    assert_eq!(tool(&outcome, "run")["terminal"], true, "{outcome}");
    assert_eq!(step(&outcome, "run")["output"], "out\nerr\n", "{outcome}");
}

#[test]
fn python_version_1() {
    version_1(&play(&python::script("coder.py"), 1));
}
