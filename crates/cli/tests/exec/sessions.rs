//! Sessions that go on: by name, by id, the last one; and what happens when the agent has forgotten.

use super::harness::{Place, journal};
use serde_json::{Value, json};
use tieline_client::journal::{Journal, Query};

/// All sessions of the journal.
pub fn recorded(place: &Place) -> Vec<tieline_client::journal::Entry> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let journal = Journal::open(journal(place)).unwrap();
        let page = journal.list(Query { limit: 1000, ..Query::default() }).await.unwrap();
        journal.close().await.unwrap();
        page.entries
    })
}

#[test]
fn every_session_is_recorded_under_an_id_of_our_own() {
    let place = Place::new();
    // Two agents that hand out the same id.
    let first = place.agent("hello", "1", &["--format", "json"]).run().ends(0).object();
    let second = place.agent("echo", "1", &["--format", "json"]).run().ends(0).object();
    assert_eq!((&first["session"]["agent_session"], &second["session"]["agent_session"]), (&json!("s1"), &json!("s1")));
    assert_ne!(first["session"]["id"], second["session"]["id"]);
    let entries = recorded(&place);
    assert_eq!(entries.len(), 2);
    assert!(entries.iter().all(|entry| entry.turns == 1 && entry.title.as_deref() == Some("go")), "{entries:?}");
    place.agent("hello", "1", &["--no-record"]).run().ends(0);
    assert_eq!(recorded(&place).len(), 2);
}

#[test]
fn a_session_goes_on_by_name_by_id_and_as_the_last_one() {
    for dialect in ["1", "2-seed", "2"] {
        let place = Place::new();
        let first = place.agent("hello", dialect, &["-s", "mine", "--format", "json"]).run().ends(0).object();
        let id = first["session"]["id"].as_str().unwrap().to_owned();
        assert_eq!(first["session"]["resumed"], false);
        for flags in [&["-s", "mine"][..], &["--resume", &id], &["--resume", "last"], &["--continue"]] {
            let done = place.agent("hello", dialect, flags).format("json").run().ends(0);
            let object = done.object();
            assert_eq!(
                (&object["session"]["id"], &object["session"]["resumed"]),
                (&json!(id), &json!(true)),
                "{done:#?}"
            );
            // What was said long ago is not said again.
            assert_eq!(object["text"], "Hello, world.", "{done:#?}");
            let method = if dialect == "2" { "session/resume" } else { "session/load" };
            assert!(!done.sent(method).is_empty(), "{done:#?}");
        }
        // The agent and the folder are known from the session.
        let elsewhere = tempfile::tempdir().unwrap();
        let mut exec = place.exec(&["go", "--resume", &id, "--format", "json", "--protocol", dialect]);
        exec.command.current_dir(elsewhere.path());
        assert_eq!(exec.run().ends(0).object()["session"]["cwd"], json!(place.project()));
        assert_eq!(recorded(&place).len(), 1);
        assert_eq!(recorded(&place)[0].turns, 6);
    }
}

#[test]
fn a_lost_session_is_said_and_never_silently_replaced() {
    for (dialect, words) in [("1", &[][..]), ("1", &["no-load"]), ("2-seed", &[]), ("2", &[])] {
        let place = Place::new();
        place.agent("hello", dialect, &["-s", "mine"]).run().ends(0);
        let behaviour = if words.is_empty() { "forgets" } else { "hello" };
        let done = place.agent(behaviour, dialect, &["-s", "mine"]).words(words).run();
        let done = done.ends(8);
        done.err_has("does not have the session").err_has("--on-lost new");
        assert!(done.sent("session/prompt").len() == 1 && done.out.is_empty(), "{done:#?}");
        let done =
            place.agent(behaviour, dialect, &["-s", "mine", "--on-lost", "new", "--format", "json"]).words(words).run();
        let object = done.ends(0).object();
        assert_eq!(object["session"]["resumed"], false, "{object}");
        assert_eq!(recorded(&place).len(), 1);
    }
}

#[test]
fn sessions_that_are_not_there() {
    let place = Place::new();
    place.agent("hello", "1", &["--continue"]).run().ends(4).err_has("no session");
    place.agent("hello", "1", &["--resume", "last"]).run().ends(4);
    place.agent("hello", "1", &["--resume", "xyz"]).run().ends(4).err_has("tieline sessions list");
    // A name that is new begins a session.
    place.agent("hello", "1", &["-s", "new"]).run().ends(0);
}

#[test]
fn a_session_that_is_open_elsewhere_is_left_alone() {
    let place = Place::new();
    place.agent("hello", "1", &["-s", "mine"]).run().ends(0);
    let run = place.agent("waits", "1", &["-s", "mine"]).start();
    run.until_out("working");
    place.agent("hello", "1", &["-s", "mine"]).run().ends(1).err_has("is open in");
    run.signal("INT");
    run.done().ends(130);
    place.agent("hello", "1", &["-s", "mine"]).run().ends(0);
}

#[test]
fn the_built_in_agent_remembers() {
    let place = Place::new();
    place.write("a.txt", "hello\n");
    let first = place.exec(&["read a.txt", "--format", "json"]).run().ends(0).object();
    let second = place.exec(&["list the files", "-c", "--format", "json"]).run().ends(0).object();
    assert_eq!(first["session"]["id"], second["session"]["id"]);
    assert_eq!(second["session"]["resumed"], true);
}

#[test]
fn the_journal_tells_the_whole_turn() {
    let place = Place::new();
    place.write("notes.txt", "old\n");
    place.agent("ask_edit", "1", &["--allow-edits"]).run().ends(0);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let id = recorded(&place)[0].id.clone();
    let story = runtime.block_on(async { Journal::open(journal(&place)).unwrap().story(&id).await.unwrap() });
    let turn = story.turns.last().unwrap();
    assert_eq!(turn.changes.len(), 1, "{turn:?}");
    assert!(turn.changes[0].path.ends_with("notes.txt") && turn.changes[0].kept, "{turn:?}");
    assert_eq!(turn.prompt[0].as_text(), Some("go"));
    assert!(
        turn.notes.iter().any(|(_, note)| matches!(note, tieline_client::journal::Note::Decision(decision)
        if decision.decision == "allowed" && decision.option.as_deref() == Some("yes"))),
        "{turn:?}"
    );
    assert_eq!(turn.stop.as_ref().map(ToString::to_string).as_deref(), Some("end_turn"));
    assert!(!turn.interrupted);
}

#[test]
fn a_journal_that_can_not_be_written_is_told_of_and_does_not_stop_the_run() {
    let place = Place::new();
    std::fs::create_dir(place.path("state").join("tieline")).unwrap();
    std::fs::write(journal(&place), "this is no database").unwrap();
    let done = place.agent("hello", "1", &["--format", "json"]).run().ends(0);
    let warnings: Vec<Value> = done.object()["warnings"].as_array().unwrap().clone();
    assert!(warnings.iter().any(|warning| warning.as_str().unwrap().contains("not recorded")), "{done:#?}");
    place.agent("hello", "1", &["--continue"]).run().ends(14);
}
