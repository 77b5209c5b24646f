//! The built-in agent as a client sees it, in the three dialects.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Client, DIALECTS, Place};
use serde_json::{Value, json};
use std::process::Command;
use std::time::{Duration, Instant};

fn tieline(arguments: &[&str]) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_tieline")).args(arguments).output().unwrap()
}

#[test]
fn flags() {
    assert_eq!(tieline(&["agent", "--bogus"]).status.code(), Some(2));
    assert_eq!(tieline(&["agent", "--mode", "wild"]).status.code(), Some(2));
    assert_eq!(tieline(&["agent", "--sandbox", "wild"]).status.code(), Some(2));
    assert_eq!(tieline(&["agent", "--protocol", "7"]).status.code(), Some(2));
    assert_eq!(tieline(&["agent", "--script", "nobody-knows-it"]).status.code(), Some(2));
    assert!(String::from_utf8_lossy(&tieline(&["--version"]).stdout).starts_with("tieline "));
    assert!(String::from_utf8_lossy(&tieline(&["agent", "--script", "list"]).stdout).contains("plan-and-edit"));
    assert!(String::from_utf8_lossy(&tieline(&["agent", "--help"]).stdout).contains("--max-requests"));
}

#[test]
fn a_small_failing_project_is_repaired() {
    for dialect in DIALECTS {
        let place = Place::new();
        place.write("sum.sh", "echo $(($1 - $2))\n");
        place.write(
            "test.sh",
            "if [ \"$(sh sum.sh 2 3)\" = 5 ]; then echo '1 passed'; else echo '1 failed: 2 + 3 is not 5'; exit 1; fi\n",
        );
        let mut client = Client::open(&place, dialect, &["--script", "repair"]);
        assert_eq!(client.prompt("Repair it."), "end_turn", "{dialect}");
        assert_eq!(place.read("sum.sh"), "echo $(($1 + $2))\n", "{dialect}: {}", client.said());
        assert!(client.said().contains("the tests pass"), "{dialect}: {}", client.said());
        // Two commands and one edit were asked for; the edit showed its diff, the commands their sandbox.
        assert_eq!(client.asked.len(), 3, "{dialect}");
        let all = Value::from(client.asked.clone()).to_string();
        assert!(all.contains("sandbox workspace"), "{dialect}: {all}");
        let shown = Value::from(client.updates.clone()).to_string();
        assert!(shown.contains("$1 + $2") && shown.contains("diff"), "{dialect}");
        let kinds = client.kinds();
        assert!(kinds.iter().any(|kind| kind.starts_with("plan")), "{dialect}: {kinds:?}");
        assert!(kinds.iter().any(|kind| kind == "usage_update"), "{dialect}: {kinds:?}");
        assert_eq!(kinds.iter().any(|kind| kind == "terminal_output_chunk"), dialect == "2", "{dialect}: {kinds:?}");
        assert!(client.hang_up().success());
    }
}

#[test]
fn every_stop_reason() {
    for dialect in DIALECTS {
        for (script, stop) in [
            ("hello", "end_turn"),
            ("max-tokens", "max_tokens"),
            ("refusal", "refusal"),
            ("endless-tools", "max_turn_requests"),
        ] {
            let place = Place::new();
            let mut client = Client::open(&place, dialect, &["--script", script, "--no-store", "--max-requests", "5"]);
            assert_eq!(client.prompt("go"), stop, "{dialect}");
        }
        let place = Place::new();
        let mut client = Client::open(&place, dialect, &["--script", "stall"]);
        let id = client.begin("go");
        client.until(|message| message["params"]["update"]["sessionUpdate"] == "agent_message_chunk");
        let start = Instant::now();
        client.cancel();
        assert_eq!(client.end(id), "cancelled", "{dialect}");
        assert!(start.elapsed() < Duration::from_secs(1), "{dialect}: {:?}", start.elapsed());
    }
}

#[test]
fn a_cancel_ends_a_command_and_all_that_it_started() {
    for dialect in DIALECTS {
        let place = Place::new();
        let mut client = Client::open(&place, dialect, &["--script", "puppet"]);
        let id = client.begin("run sh -c 'echo started; sleep 4242 & sleep 4242'");
        client.until(|message| message["params"].to_string().contains("in_progress"));
        std::thread::sleep(Duration::from_millis(300));
        let start = Instant::now();
        client.cancel();
        assert_eq!(client.end(id), "cancelled", "{dialect}");
        assert!(start.elapsed() < Duration::from_secs(1), "{dialect}: {:?}", start.elapsed());
        let last = client.updates.iter().rev().find(|update| update.get("status").is_some()).unwrap().clone();
        assert_eq!(last["status"], if dialect == "2" { "cancelled" } else { "failed" }, "{dialect}");
        let start = Instant::now();
        while common::runs("sleep\x004242") {
            assert!(start.elapsed() < Duration::from_secs(3), "{dialect}: something still runs");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn rejections_reach_the_model_and_change_nothing() {
    for dialect in DIALECTS {
        let place = Place::new();
        let mut client = Client::open(&place, dialect, &["--script", "puppet"]);
        client.choose = "reject_once";
        assert_eq!(client.prompt("write a.txt hello"), "end_turn", "{dialect}");
        assert!(!common::exists(&place.project().join("a.txt")));
        assert_eq!(client.asked.len(), 1);
        assert_eq!(client.asked[0]["options"].as_array().unwrap().len(), 4, "{}", client.asked[0]);
        let shown = Value::from(client.updates.clone()).to_string();
        assert!(shown.contains("Not allowed (the client said no"), "{dialect}");
    }
}

#[test]
fn always_is_remembered_for_this_folder_and_can_be_removed() {
    let place = Place::new();
    let mut client = Client::open(&place, "1", &["--script", "puppet"]);
    client.choose = "allow_always";
    client.prompt("write a.txt one");
    client.prompt("write a.txt two");
    assert_eq!(client.asked.len(), 1, "the second time nobody is asked");
    assert!(client.asked[0].to_string().contains("(`/rules` takes it back): write a.txt"));
    client.prompt("write b.txt one");
    assert_eq!(client.asked.len(), 2, "the rule is no broader than shown");
    drop(client);
    let mut client = Client::open(&place, "1", &["--script", "puppet"]);
    client.prompt("write a.txt three");
    assert_eq!((client.asked.len(), place.read("a.txt")), (0, "three".into()));
    client.prompt("/rules");
    assert!(client.said().contains("allow `write a.txt`"), "{}", client.said());
    client.prompt("/rules remove 1");
    client.prompt("write a.txt four");
    assert_eq!(client.asked.len(), 1);
}

#[test]
fn modes() {
    let place = Place::new();
    let mut client = Client::open(&place, "1", &["--script", "puppet", "--mode", "plan"]);
    client.prompt("write a.txt one");
    assert!(!common::exists(&place.project().join("a.txt")) && client.asked.is_empty());
    let session = client.session.clone();
    client.call("session/set_mode", json!({"sessionId": session, "modeId": "edit"}));
    client.prompt("write a.txt one");
    assert_eq!((place.read("a.txt"), client.asked.len()), ("one".into(), 0));
    client.call("session/set_config_option", json!({"sessionId": session, "configId": "mode", "value": "auto"}));
    client.prompt("run echo hi > b.txt");
    assert_eq!((place.read("b.txt"), client.asked.len()), ("hi\n".into(), 0));
}

#[test]
fn sessions_are_listed_loaded_and_deleted() {
    for dialect in DIALECTS {
        let place = Place::new();
        let mut client = Client::open(&place, dialect, &["--script", "puppet", "--mode", "edit"]);
        let id = client.session.clone();
        assert_eq!(client.prompt("say first\nwrite a.txt one"), "end_turn");
        let said = client.said();
        drop(client);
        let mut client = Client::start(&place, dialect, &["--script", "puppet"]);
        let list = client.call("session/list", json!({"cwd": place.project()}));
        assert_eq!(list["sessions"][0]["sessionId"], id, "{dialect}: {list}");
        assert_eq!(list["sessions"][0]["title"], "say first");
        let mut params = json!({"sessionId": id, "cwd": place.project(), "mcpServers": []});
        let load = if dialect == "1" || dialect == "2-seed" {
            "session/load"
        } else {
            params["replayFrom"] = json!({"type": "start"});
            "session/resume"
        };
        client.session.clone_from(&id);
        let answer = client.call(load, params);
        assert_eq!(client.said(), said, "{dialect}");
        let all = Value::from(client.updates.clone()).to_string();
        assert!(all.contains("write a.txt one") && all.contains("completed"), "{dialect}: {all}");
        assert!(answer.to_string().contains("edit"), "{dialect}: the mode is back: {answer}");
        assert_eq!(client.prompt("say again"), "end_turn", "{dialect}");
        client.call("session/close", json!({"sessionId": id}));
        client.call("session/delete", json!({"sessionId": id}));
        assert_eq!(client.call("session/list", json!({}))["sessions"], json!([]), "{dialect}");
    }
}

#[test]
fn a_session_that_is_open_elsewhere_is_refused() {
    let place = Place::new();
    let first = Client::open(&place, "1", &["--script", "hello"]);
    let mut second = Client::start(&place, "1", &["--script", "hello"]);
    let params = json!({"sessionId": first.session, "cwd": place.project(), "mcpServers": []});
    let id = second.ask("session/load", params);
    let answer = second.answer(id);
    assert!(answer["error"]["message"].as_str().is_some_and(|text| text.contains("open in")), "{answer}");
}

#[test]
fn undo_restores_the_files_of_a_turn() {
    for dialect in DIALECTS {
        let place = Place::new();
        place.write("a.txt", "old\n");
        let mut client = Client::open(&place, dialect, &["--script", "puppet", "--mode", "edit"]);
        client.prompt("write a.txt new");
        client.prompt("write b.txt new");
        client.prompt("/diff");
        assert!(client.said().contains("+new"), "{dialect}: {}", client.said());
        client.prompt("/undo");
        assert!(!common::exists(&place.project().join("b.txt")), "{dialect}: {}", client.said());
        client.prompt("/undo");
        assert_eq!(place.read("a.txt"), "old\n", "{dialect}: {}", client.said());
    }
}

// The kernel lets go of a mount when its name comes to mean another file.
#[test]
fn undo_sets_no_command_in_the_background_free() {
    let place = Place::new();
    let mut client = Client::open(&place, "2", &["--script", "puppet", "--mode", "auto"]);
    client.prompt("run echo mine > .npmrc");
    assert_eq!(place.read(".npmrc"), "mine\n", "{}", client.said());
    let line = "while :; do echo evil > .npmrc; sleep 0.05; done";
    client.prompt(&format!("call run {}", json!({"command": line, "background": true})));
    client.prompt("/undo");
    assert!(client.said().contains("stop it first"), "{}", client.said());
    // Several rounds of the loop: that it writes nothing can only be seen by waiting.
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(place.read(".npmrc"), "mine\n", "{}", client.said());
    client.prompt("call stop {\"id\": 1}");
    client.prompt("/undo");
    assert!(!common::exists(&place.project().join(".npmrc")), "{}", client.said());
}

// In an editor nobody watches the turn from outside.
#[test]
fn undo_restores_what_commands_of_a_turn_changed() {
    for dialect in DIALECTS {
        let place = Place::new();
        for name in ["changed.txt", "gone.txt", "mine.txt"] {
            place.write(name, "old\n");
        }
        let mut client = Client::open(&place, dialect, &["--script", "puppet", "--mode", "auto"]);
        client.prompt("write changed.txt early");
        place.write("mine.txt", "by hand\n");
        client.prompt("run echo new > changed.txt; rm gone.txt; mkdir deep; echo made > deep/made.txt");
        assert_eq!(place.read("changed.txt"), "new\n", "{dialect}: {}", client.said());
        client.prompt("/undo");
        let said = client.said();
        assert_eq!((place.read("changed.txt"), place.read("gone.txt")), ("early".into(), "old\n".into()), "{said}");
        assert!(!common::exists(&place.project().join("deep")), "{dialect}: {said}");
        assert_eq!(place.read("mine.txt"), "by hand\n");
        client.prompt("/undo");
        assert_eq!(place.read("changed.txt"), "old\n", "{dialect}: {}", client.said());
    }
}

#[test]
fn nothing_outside_the_folder_is_touched() {
    let place = Place::new();
    std::fs::write(place.folder.path().join("secret"), "s3cret").unwrap();
    std::os::unix::fs::symlink(place.folder.path(), place.project().join("out")).unwrap();
    let mut client = Client::open(&place, "1", &["--script", "puppet", "--mode", "auto"]);
    let outside = place.folder.path().join("secret");
    for path in ["../secret", "out/secret", outside.to_str().unwrap()] {
        client.prompt(&format!("read {path}\nwrite {path} changed"));
    }
    client.prompt("run echo changed > ../secret");
    assert_eq!(std::fs::read_to_string(&outside).unwrap(), "s3cret");
    assert!(!Value::from(client.updates.clone()).to_string().contains("s3cret"));
}

#[test]
fn a_store_that_cannot_be_opened_is_said() {
    let place = Place::new();
    std::fs::write(place.folder.path().join("state"), "a file where a folder should be").unwrap();
    let mut client = Client::start(&place, "1", &["--script", "hello"]);
    let id = client.ask("session/new", json!({"cwd": place.project(), "mcpServers": []}));
    let answer = client.answer(id);
    assert!(answer["error"]["message"].as_str().is_some_and(|text| text.contains("--no-store")), "{answer}");
}

#[test]
fn commands_of_a_project() {
    let place = Place::new();
    place.write(".tieline/commands/greet.md", "# Greets someone\n");
    place.write(".tieline/commands/twice.md", "say $ARGUMENTS\nsay $ARGUMENTS\n");
    let mut client = Client::open(&place, "1", &["--script", "puppet"]);
    client.until(|message| message.to_string().contains("available_commands_update"));
    assert!(Value::from(client.updates.clone()).to_string().contains("Greets someone"));
    client.prompt("/twice wow");
    assert!(client.said().matches("wow").count() == 2, "{}", client.said());
}

#[test]
fn the_default_model_needs_no_set_up() {
    for dialect in DIALECTS {
        let place = Place::new();
        place.write("a.txt", "hello world\n");
        let mut client = Client::open(&place, dialect, &[]);
        assert_eq!(client.prompt("Replace hello with goodbye in a.txt, then run cat a.txt"), "end_turn", "{dialect}");
        assert_eq!(place.read("a.txt"), "goodbye world\n", "{dialect}: {}", client.said());
        assert_eq!(client.asked.len(), 2, "{dialect}");
        assert_eq!(client.prompt("/help"), "end_turn", "{dialect}");
        assert!(client.said().contains("/undo") && client.said().contains("no language model"), "{dialect}");
    }
}

#[test]
fn every_scenario_ends() {
    let list = String::from_utf8(tieline(&["agent", "--script", "list"]).stdout).unwrap();
    for (at, line) in list.lines().enumerate() {
        let name = line.split_whitespace().next().unwrap();
        // Each in one dialect; which one changes with the place in the list.
        let dialect = DIALECTS[at % 3];
        let place = Place::new();
        let mut client = Client::open(&place, dialect, &["--script", name, "--no-store", "--max-requests", "9"]);
        let id = client.begin("go");
        if ["stall", "slow-stream", "run-command", "failing-command", "background-command", "puppet"].contains(&name) {
            client.cancel();
        }
        let stop = client.end(id);
        assert!(!stop.is_empty(), "{name} in {dialect}");
        assert!(client.hang_up().success(), "{name} in {dialect}");
    }
}
