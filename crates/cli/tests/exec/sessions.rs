//! Sessions that go on: by name, by id, the last one; and what happens when the agent has forgotten.

use super::harness::{Place, journal, wait};
use serde_json::{Value, json};
use std::process::Stdio;
use tieline_client::journal::Journal;
use tieline_host::store::ListQuery;

/// All sessions of the journal.
pub fn recorded(place: &Place) -> Vec<tieline_client::journal::Entry> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let journal = Journal::open(journal(place)).unwrap();
        let (entries, _) = journal.list(ListQuery { limit: 1000, ..ListQuery::default() }).await.unwrap();
        journal.close().await.unwrap();
        entries
    })
}

/// All that happened in the session used last.
pub fn story(place: &Place) -> tieline_client::journal::Story {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let id = recorded(place)[0].id.clone();
    runtime.block_on(async { Journal::open(journal(place)).unwrap().story(&id).await.unwrap() })
}

#[test]
fn every_session_is_recorded_under_an_id_of_our_own() {
    let place = Place::new();
    // Two agents that hand out the same id.
    let run = |behaviour| {
        let words = ["python3", &super::harness::script("agent.py"), behaviour, "1"];
        place.exec(&["go", "--format", "json"]).words(&words).run().ends(0).object()
    };
    let (first, second) = (run("hello"), run("echo"));
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
        exec = exec.env("AGENT_BEHAVIOUR", "hello").env("AGENT_DIALECT", dialect).env("AGENT_WORDS", "[]");
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
        assert!(object["warnings"].to_string().contains("has lost the session, so a new one was started"), "{object}");
        assert_eq!(recorded(&place).len(), 1);
    }
}

#[test]
fn that_a_session_was_begun_anew_is_said_in_words() {
    for format in ["text", "quiet", "stream-json", "acp"] {
        let place = Place::new();
        place.agent("hello", "1", &["-s", "mine"]).run().ends(0);
        let flags = ["-s", "mine", "--on-lost", "new", "--format", format];
        let done = place.agent("forgets", "1", &flags).run().ends(0);
        let (out, err) = (&done.out, &done.err);
        let told = if matches!(format, "text" | "quiet") { err } else { out };
        assert!(told.contains("a new one was started without what was said before"), "{format}: {done:#?}");
    }
}

#[test]
fn agents_are_told_apart_by_their_whole_command_line() {
    let (place, script) = (Place::new(), super::harness::script("agent.py"));
    let run = |flags: &[&str], behaviour: &str| {
        place.exec(&["go"]).args(flags).words(&["python3", &script, behaviour, "1"]).run()
    };
    let first = run(&["--format", "json"], "hello").ends(0).object();
    let id = first["session"]["id"].as_str().unwrap();
    // Another agent does not get it: not as the last one, not by its name, not by its id.
    let done = run(&["-c"], "echo").ends(4);
    done.err_has("there is no session with `python3").err_has("echo 1` in").err_has("is one with `python3").err_has(id);
    let done = run(&["--resume", id], "echo").ends(2);
    done.err_has("hello 1`, not with `python3").err_has("echo 1`").err_has("leave the agent out");
    assert_eq!(done.sent("session/load").len(), 0, "{done:#?}");
    let named = run(&["-s", "x", "--format", "json"], "echo").ends(0).object();
    assert_eq!(named["session"]["resumed"], false);
    let again = run(&["-s", "x", "--format", "json"], "hello").ends(0).object();
    assert_ne!(again["session"]["id"], named["session"]["id"], "the same name with another agent is another session");
    place.exec(&["go", "--agent", "tieline", "--resume", id]).run().ends(2).err_has("not with `tieline`");
    // Its own agent does.
    run(&["--resume", id], "hello").ends(0);
    let listed = place.tieline(&["sessions", "list", "-F", "json", "--agent", &format!("python3 {script} echo 1")]);
    assert_eq!(serde_json::from_str::<Value>(&listed.run().ends(0).out).unwrap().as_array().unwrap().len(), 1);
}

#[test]
fn an_agent_by_a_path_is_the_same_from_everywhere() {
    let place = Place::new();
    let text = format!("#!/bin/sh\nexec python3 {} hello 1\n", super::harness::script("agent.py"));
    for folder in ["one", "two"] {
        place.write(&format!("{folder}/agent"), &text);
        let path = place.project().join(folder).join("agent");
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    let run = |folder: &str, flags: &[&str]| {
        let mut exec = place.exec(&["go", "-F", "json"]).args(flags);
        exec.command.current_dir(place.project().join(folder));
        exec
    };
    let first = run("one", &["--agent", "./agent"]).run().ends(0).object();
    let id = first["session"]["id"].as_str().unwrap();
    run("two", &["--resume", id, "--agent", "./agent"]).run().ends(2);
    assert_eq!(run("two", &["--resume", id]).run().ends(0).object()["session"]["resumed"], true);
    run("two", &["--resume", id, "--agent", "../one/agent"]).run().ends(0);
    run(".", &["--resume", id, "--agent", "./one/agent"]).run().ends(0);
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
    let story = story(&place);
    let turn = story.turns.last().unwrap();
    assert_eq!(turn.changes.len(), 1, "{turn:?}");
    assert!(turn.changes[0].path.ends_with("notes.txt") && turn.changes[0].unkept.is_none(), "{turn:?}");
    assert_eq!(turn.prompt[0].as_text(), Some("go"));
    assert!(
        turn.notes.iter().any(|(_, note)| matches!(note, tieline_client::journal::Note::Decision(decision)
        if decision.decision == "allowed" && decision.option.as_deref() == Some("yes"))),
        "{turn:?}"
    );
    assert_eq!(turn.stop.as_ref().map(ToString::to_string).as_deref(), Some("end_turn"));
    assert!(!turn.interrupted);
}

/// The decisions of the last turn.
fn decisions(place: &Place) -> Vec<tieline_client::journal::Decision> {
    let notes = story(place).turns.pop().unwrap().notes;
    let decisions = notes.into_iter().filter_map(|(_, note)| match note {
        tieline_client::journal::Note::Decision(decision) => Some(decision),
        _ => None,
    });
    decisions.collect()
}

#[test]
fn decisions_say_what_was_decided_and_by_whom() {
    for dialect in ["1", "2-seed", "2"] {
        for (flags, decision, by) in [
            (&[][..], "refused", "nobody"),
            (&["--allow-all"], "allowed", "default"),
            (&["--allow", "run make *"], "allowed", "rule"),
        ] {
            let place = Place::new();
            place.agent("ask_once", dialect, flags).run();
            let made = decisions(&place);
            assert_eq!(made.len(), 1, "{dialect} {flags:?}: {made:?}");
            let made = &made[0];
            assert_eq!((&*made.decision, &*made.by), (decision, by), "{dialect} {flags:?}: {made:?}");
            assert_eq!((&*made.title, &*made.tool_call_id), ("Do it", "c1"), "{made:?}");
            assert!(made.about[0].contains("make all"), "{made:?}");
        }
    }
    let place = Place::new();
    place.agent("read_file", "1", &[]).words(&["/etc/passwd"]).run();
    assert_eq!(decisions(&place)[0].title, "Read /etc/passwd");
    place.agent("write_file", "1", &[]).words(&["new.txt"]).run();
    assert!(decisions(&place)[0].title.ends_with("/new.txt"));
}

#[test]
fn a_decision_is_written_down_before_the_agent_is_told() {
    for dialect in ["1", "2-seed", "2"] {
        // Nobody reads the output, so nothing more is shown; the question is answered all the same.
        let place = Place::new();
        let mut exec = place.exec(&["go", "--protocol", dialect, "--allow-all"]);
        exec.command.args(["--", "python3", &super::harness::script("agent.py"), "flood_and_ask", dialect]);
        exec.command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = exec.command.spawn().unwrap();
        let answered = || std::fs::read_to_string(place.path("log")).is_ok_and(|log| log.contains("\"optionId\""));
        wait("the answer", answered);
        child.kill().unwrap();
        child.wait().unwrap();
        let made = decisions(&place);
        assert_eq!(made.len(), 1, "{dialect}: {made:?}");
        assert_eq!((&*made[0].decision, &*made[0].tool_call_id), ("allowed", "c1"), "{dialect}");
    }
}

#[test]
fn a_journal_that_can_not_be_written_is_told_of_and_does_not_stop_the_run() {
    let place = Place::new();
    let warned = |words: &str| {
        let done = place.agent("hello", "1", &["--format", "json"]).run().ends(0);
        let warnings: Vec<Value> = done.object()["warnings"].as_array().unwrap().clone();
        assert!(warnings.iter().any(|warning| warning.as_str().unwrap().contains(words)), "{done:#?}");
    };
    std::fs::create_dir(place.path("state").join("tieline")).unwrap();
    std::fs::create_dir(journal(&place)).unwrap();
    warned("not recorded");
    place.agent("hello", "1", &["--continue"]).run().ends(1);
    // What is no database makes way for one, and is kept.
    std::fs::remove_dir(journal(&place)).unwrap();
    std::fs::write(journal(&place), "this is no database").unwrap();
    warned("the damaged file is ");
    place.agent("hello", "1", &["--continue"]).run().ends(0);
}
