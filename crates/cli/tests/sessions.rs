//! `tieline sessions`: turns of real agents are listed, read, searched, exported and deleted.
#![allow(clippy::unwrap_used)]

mod command;

use command::User;

#[test]
fn a_session_is_listed_read_searched_exported_and_deleted() {
    let user = User::new();
    assert_eq!(user.run(&["sessions", "list"]).good().out, "");
    user.run(&["sessions", "show", "last"]).bad(4, "there are no sessions yet");
    user.run(&["sessions", "show"]).bad(4, "there is no session of this folder");
    user.puppet("say A rare word: quokka\nwrite a.txt hello\ntitle About quokkas\n").good();
    user.puppet("say Nothing here").good();
    let sessions = user.sessions();
    assert_eq!(sessions.len(), 2);
    let id = sessions[1]["id"].as_str().unwrap();
    assert_eq!((sessions[1]["title"].as_str(), sessions[1]["turns"].as_u64()), (Some("About quokkas"), Some(1)));
    assert_eq!(sessions[1]["cwd"], user.path("project").to_string_lossy().as_ref());
    assert!(sessions[1]["agentSession"].is_string());
    let table = user.run(&["sessions", "list", "--here"]).good().out;
    assert!(table.lines().count() == 3 && table.contains("About quokkas"), "{table}");
    let one = user.run(&["sessions", "list", "--limit", "1"]).good();
    assert!(one.out.lines().count() == 2 && one.err.contains("--limit N shows more"), "{one:?}");
    user.run(&["sessions", "list", "--limit", "0"]).bad(2, "a number from 1 up");
    assert!(user.run(&["sessions", "list", "--agent", "none"]).good().err.contains("no session fits"));
    let found = user.run(&["sessions", "search", "quok"]).good().out;
    assert!(found.lines().all(|line| line.starts_with(id)) && found.contains("turn 1"), "{found}");
    assert_eq!(user.run(&["sessions", "search", "xyzzy", "-F", "json"]).good().json(), serde_json::json!([]));
    let shown = user.run(&["sessions", "show", id]).good().out;
    assert!(shown.contains("A rare word: quokka") && shown.contains("added a.txt"), "{shown}");
    // The built-in agent says back what the user said; it is shown once.
    assert_eq!(shown.matches("say A rare word: quokka").count(), 1, "{shown}");
    user.run(&["sessions", "show", id, "--turn", "7"]).bad(1, "has no turn 7; it has 1");
    // By the end of the id as well, and the ending of the file says the form.
    let page = user.path("page.html");
    user.run(&["sessions", "export", &id[8..], "-o", page.to_str().unwrap()]).good();
    let html = user.read("page.html").unwrap();
    assert!(html.starts_with("<!doctype html>") && html.contains("quokka") && html.contains("+hello"), "{html}");
    user.run(&["sessions", "export", id, "-o", "page.pdf"]).bad(2, "no form goes by the ending .pdf");
    let json = user.run(&["sessions", "export", id, "--format", "json"]).good().json();
    assert_eq!(json["turnList"].as_array().unwrap().last().unwrap()["changes"][0]["how"], "added");
    user.run(&["sessions", "delete", id, "nothing"]).bad(4, "there is no session \"nothing\"");
    assert_eq!(user.sessions().len(), 2);
    user.run(&["sessions", "delete", id]).good();
    assert_eq!(user.sessions().len(), 1);
    assert!(!user.path("home/.local/state/tieline/undo").join(id).exists());
}

#[test]
fn what_is_too_much_goes() {
    let user = User::new();
    user.puppet("say one").good();
    user.puppet("say two").good();
    user.run(&["sessions", "prune"]).good();
    assert_eq!(user.sessions().len(), 2);
    user.write("home/.config/tieline/config.toml", "[sessions]\nkeep_count = 1\n");
    user.run(&["sessions", "prune"]).good();
    assert_eq!(user.sessions().len(), 1);
}

#[test]
fn without_a_home_it_is_said_what_is_missing() {
    let user = User::new();
    let run = |arguments: &[&str]| command::finish(user.command(arguments).env_remove("HOME").spawn().unwrap());
    run(&["sessions", "list"]).bad(1, "neither XDG_STATE_HOME nor HOME is set");
    run(&["config", "show"]).good();
    run(&["agents", "list"]).good();
    // A home that can't be written: a file is in the way, which stops even root.
    user.write("home/.local", "");
    user.run(&["sessions", "list"]).bad(1, "can't open the session store");
}

#[test]
fn a_reader_that_goes_away_is_no_trouble() {
    use std::process::Stdio;
    let user = User::new();
    user.puppet("flood 2000 200").good();
    let mut child = user.command(&["sessions", "show", "last"]).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let done = command::finish(child);
    assert_eq!((done.code, done.err.as_str()), (0, ""));
}
