//! `tieline diff` and `tieline undo` after turns of real agents, with and without git, also after `kill -9`.
#![allow(clippy::unwrap_used)]

mod command;

use command::User;
use std::io::BufRead as _;
use std::process::Stdio;

/// An agent of someone else: writes files itself and asks nobody.
const SNEAKY: &str = r#"#!/usr/bin/env python3
import json, os, sys
cwd = None
for line in sys.stdin:
    message = json.loads(line)
    def answer(result): print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
    method = message.get("method")
    if method == "initialize": answer({"protocolVersion": 1, "agentCapabilities": {}})
    elif method == "session/new":
        cwd = message["params"]["cwd"]
        answer({"sessionId": "s1"})
    elif method == "session/prompt":
        open(os.path.join(cwd, "a.txt"), "w").write("one\nTWO\nthree\nfour\nFIVE\n")
        if "hide" in json.dumps(message["params"]): open(os.path.join(cwd, "c.sh"), "w").write("ok\x1b[8m; rm -rf ~\x1b[0m\n")
        os.makedirs(os.path.join(cwd, "new"), exist_ok=True)
        open(os.path.join(cwd, "new/b.txt"), "w").write("hello\n")
        if "die" in json.dumps(message["params"]):
            print(json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s1", "update": {
                "sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "written\n"}}}}), flush=True)
            continue
        answer({"stopReason": "end_turn"})
"#;
const BEFORE: &str = "one\ntwo\nthree\nfour\nfive\n";

fn sneaky() -> (User, String) {
    let user = User::new();
    user.write("project/a.txt", BEFORE);
    let agent = user.program("sneaky", SNEAKY);
    (user, agent)
}

#[test]
fn a_diff_hides_nothing() {
    let (user, agent) = sneaky();
    user.run(&["exec", "hide", "--", &agent]).good();
    let hidden = "+ok\\u{1b}[8m; rm -rf ~\\u{1b}[0m";
    for command in [&["diff"][..], &["diff", "last", "c.sh", "--hunks"], &["sessions", "show"]] {
        let diff = user.run(command).good().out;
        assert!(diff.contains(hidden) && !diff.contains('\u{1b}'), "{command:?}: {diff:?}");
    }
}

#[test]
fn changes_of_a_strange_agent_are_shown_and_put_back() {
    let (user, agent) = sneaky();
    user.run(&["exec", "go", "--", &agent]).good();
    let diff = user.run(&["diff"]).good().out;
    for part in [
        "# turn 1: modified a.txt, nobody was asked\n",
        "--- a/a.txt\n",
        "-two\n",
        "+TWO\n",
        "# turn 1: added new/b.txt, nobody was asked\n",
    ] {
        assert!(diff.contains(part), "{part}: {diff}");
    }
    assert!(!diff.contains('\u{1b}'));
    assert_eq!(user.run(&["diff", "new/b.txt", "--names"]).good().out, "new/b.txt\n");
    user.run(&["diff", "last", "--turn", "9"]).bad(1, "has no turn 9; it has 1");
    assert!(user.run(&["diff", "none.txt"]).good().err.contains("changed no file"));
    // One place of one file.
    let places = user.run(&["diff", "last", "a.txt", "--hunks"]).good().out;
    assert!(places.contains("# hunk 1 of turn 1: lines 2-2 were 2-2\n-two\n+TWO\n# hunk 2 of turn 1"), "{places}");
    user.run(&["undo", "--file", "a.txt", "--hunk", "3"]).bad(2, "has 2 places that differ, no 3");
    let said = user.run(&["undo", "--file", "a.txt", "--hunk", "1", "--dry-run"]).good().out;
    assert!(said.starts_with("would take back place 1"), "{said}");
    user.run(&["undo", "--file", "a.txt", "--hunk", "1"]).good();
    assert_eq!(user.read("project/a.txt").unwrap(), "one\ntwo\nthree\nfour\nFIVE\n");
    // Someone works on it: it is left alone, the rest is put back.
    user.write("project/a.txt", "mine\n");
    let now = user.run(&["diff", "--now"]).good().out;
    assert!(now.contains("# now: a.txt\n") && now.contains("-five\n+mine\n") && now.contains("+hello\n"), "{now}");
    assert_eq!(user.run(&["diff", "--now", "--names", "a.txt"]).good().out, "a.txt\n");
    let would = user.run(&["undo", "--dry-run"]).bad(1, "left alone: ").out;
    assert!(would.starts_with("would remove ") && would.ends_with("b.txt\n"), "{would}");
    let done = user.run(&["undo"]).bad(1, "left alone: ");
    assert!(done.err.contains("changed again since that turn") && done.err.contains("--force"), "{}", done.err);
    assert!(done.out.starts_with("removed "), "{}", done.out);
    assert_eq!((user.read("project/a.txt").as_deref(), user.read("project/new/b.txt")), (Some("mine\n"), None));
    assert!(!user.path("project/new").exists());
    user.run(&["undo", "--force"]).good();
    assert_eq!(user.read("project/a.txt").as_deref(), Some(BEFORE));
    assert!(user.run(&["diff", "--now"]).good().err.contains("left a change in no file"));
    user.run(&["undo"]).bad(1, "no session of this folder has anything to undo");
    user.run(&["undo", "--turn", "5"]).bad(1, "has no turn 5 that can be undone");
    let shown = user.run(&["sessions", "show", "last"]).good().out;
    assert!(shown.contains("undo: put back"), "{shown}");
}

#[test]
fn behind_what_cannot_be_put_back_the_way_to_what_came_before_is_said() {
    let (user, agent) = sneaky();
    user.run(&["exec", "go", "--", &agent]).good();
    user.run(&["exec", "hide", "--", &agent]).good();
    user.write("project/c.sh", "mine\n");
    let stuck = user.run(&["undo"]).bad(1, "left alone: ").err;
    let line = stuck.lines().find_map(|line| line.strip_prefix("what was changed before that: tieline ")).unwrap();
    user.run(&line.split(' ').collect::<Vec<_>>()).good();
    assert_eq!(
        (user.read("project/a.txt").as_deref(), user.read("project/c.sh").as_deref()),
        (Some(BEFORE), Some("mine\n"))
    );
}

#[test]
fn an_undo_can_be_undone_and_git_is_not_touched() {
    let (user, agent) = sneaky();
    let git = |arguments: &[&str]| {
        let done =
            std::process::Command::new("git").args(arguments).current_dir(user.path("project")).output().unwrap();
        String::from_utf8(done.stdout).unwrap()
    };
    git(&["init", "-q"]);
    let state = || git(&["status", "--porcelain"]) + &git(&["stash", "list"]);
    let before = state();
    user.run(&["exec", "go", "--", &agent]).good();
    let done = user.run(&["undo"]).good().out;
    assert_eq!((user.read("project/a.txt").as_deref(), state()), (Some(BEFORE), before));
    let again = done.lines().find_map(|line| line.strip_prefix("to have it again: tieline ")).unwrap();
    user.run(&again.split(' ').collect::<Vec<_>>()).good();
    assert_eq!(user.read("project/new/b.txt").as_deref(), Some("hello\n"));
}

#[test]
fn what_a_killed_turn_changed_can_be_undone() {
    let (user, agent) = sneaky();
    let mut child = user.command(&["exec", "die", "--", &agent]).stdout(Stdio::piped()).spawn().unwrap();
    // When the words come, the files are written.
    let mut line = String::new();
    std::io::BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "written\n");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(user.sessions()[0]["state"], "interrupted");
    let seen = user.run(&["diff"]).good();
    assert!(seen.err.contains("was cut off") && seen.out.contains("+TWO\n"), "{seen:?}");
    assert!(!user.run(&["diff"]).good().err.contains("cut off"));
    user.run(&["undo"]).good();
    assert_eq!((user.read("project/a.txt").as_deref(), user.read("project/new/b.txt")), (Some(BEFORE), None));
    let shown = user.run(&["sessions", "show", "last"]).good().out;
    assert!(shown.contains("The turn was cut off") && shown.contains("written"), "{shown}");
}

#[test]
fn a_session_at_work_is_not_undone_by_others() {
    let (user, agent) = sneaky();
    let mut child = user.command(&["exec", "die", "--", &agent]).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    std::io::BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    user.run(&["undo"]).bad(1, "is open in process");
    user.run(&["sessions", "delete", "last"]).bad(1, "is open in process");
    assert_eq!(user.sessions()[0]["state"], "running");
    child.kill().unwrap();
    child.wait().unwrap();
}

/// What is no plain text, and names that are none.
const ODD: &str = r#"
        os.chdir(cwd)
        open("latin.txt", "wb").write(b"caf\xe9\n")
        open("binary.bin", "wb").write(b"a\0b")
        open("two\nlines", "w").write("x\n")
        open("dos.txt", "wb").write(b"one\r\n")
        answer({"stopReason": "end_turn"})
"#;

#[test]
fn odd_files_are_shown_and_what_we_write_is_not_blamed_on_the_agent() {
    let user = User::new();
    user.write("project/latin.txt", "");
    std::fs::write(user.path("project/latin.txt"), b"caf\xe8\n").unwrap();
    user.write("project/dos.txt", "one\n");
    let (head, _) = SNEAKY.split_once("        open(").unwrap();
    let agent = user.program("odd", &format!("{head}{}", ODD.trim_start_matches('\n')));
    let out = std::fs::File::create(user.path("project/out.txt")).unwrap();
    let mut exec = user.command(&["exec", "go", "--trace", "trace.jsonl", "--", &agent]);
    assert!(exec.stdout(out).status().unwrap().success());
    let diff = user.run(&["diff"]).good().out;
    for part in
        ["-caf\u{e8}\n+caf\u{e9}\n", "added binary.bin, nobody was asked\n(nothing to show: ", "+++ b/two⏎lines\n"]
    {
        assert!(diff.contains(part), "{part}: {diff}");
    }
    assert!(!diff.contains("out.txt") && !diff.contains("trace.jsonl"), "{diff}");
    user.run(&["undo"]).good();
    assert_eq!(std::fs::read(user.path("project/latin.txt")).unwrap(), b"caf\xe8\n");
}
