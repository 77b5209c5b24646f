//! acpx, the headless client, with its own commands.

use crate::snippets::{blocks, path};
use serde_json::Value;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tieline_interop::acpx;
use tieline_interop::coder::{Place, is_running};

const AGENT: &str = "tieline agent --script puppet";
/// How long acpx waits for an answer, and a test for the end of what acpx started.
const PATIENCE: Duration = Duration::from_mins(1);

/// What one call of acpx came to.
#[derive(Debug)]
struct Said {
    code: Option<i32>,
    out: String,
    err: String,
}

/// acpx at home in a place of its own.
struct Acpx {
    place: Place,
    line: Vec<String>,
    agent: &'static str,
}

impl Acpx {
    fn new() -> Self {
        Self::with(AGENT)
    }

    fn with(agent: &'static str) -> Self {
        Self { place: Place::default(), line: acpx(), agent }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.line[0]);
        command.args(&self.line[1..]).args(["--agent", self.agent, "--timeout", "60"]).args(args);
        command.env("PATH", path()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        self.place.at_home(command)
    }

    fn run(&self, args: &[&str]) -> Said {
        said(self.command(args).output().unwrap())
    }

    /// The output of a call that must work.
    #[track_caller]
    fn good(&self, args: &[&str]) -> String {
        let said = self.run(args);
        assert_eq!(said.code, Some(0), "{args:?}: {said:?}");
        said.out
    }

    /// The messages of a call that must work, as on the wire.
    #[track_caller]
    fn wire(&self, args: &[&str]) -> Vec<Value> {
        let out = self.good(&[&["--format", "json"], args].concat());
        out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Ends a session and waits until nothing of it runs.
    #[track_caller]
    fn close(&self, name: &str) {
        self.good(&["sessions", "close", name]);
        self.gone();
    }

    /// Waits until nothing runs any more that acpx started.
    #[track_caller]
    fn gone(&self) {
        let start = Instant::now();
        let home = self.place.environment()[0].1.clone();
        while is_running(&format!("HOME={home}")) {
            assert!(start.elapsed() < PATIENCE, "acpx or the agent still runs");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn said(output: std::process::Output) -> Said {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Said { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

/// Reads what a call says until it has said this.
fn hears(child: &mut Child, words: &str) {
    let out = child.stdout.as_mut().unwrap();
    let (mut heard, mut piece) = (Vec::new(), [0; 1024]);
    while !String::from_utf8_lossy(&heard).contains(words) {
        let count = out.read(&mut piece).unwrap();
        assert!(count > 0, "{words} was not said, but {}", String::from_utf8_lossy(&heard));
        heard.extend_from_slice(&piece[..count]);
    }
}

#[test]
fn the_lines_of_the_documentation() {
    let acpx = Acpx::new();
    // The page says `acpx`; here that is the pinned one.
    let name = acpx.place.home().join("acpx");
    std::fs::write(&name, format!("#!/bin/sh\nexec '{}' '{}' \"$@\"\n", acpx.line[0], acpx.line[1])).unwrap();
    let make = Command::new("chmod").arg("+x").arg(&name).status().unwrap();
    assert!(make.success());
    let [text] = blocks("sh").into_iter().filter(|text| text.contains("acpx")).collect::<Vec<_>>()[..] else {
        panic!("one block has the lines of acpx")
    };
    let mut shell = Command::new("sh");
    shell.args(["-e", "-c", text]).env("PATH", format!("{}:{}", acpx.place.home().display(), path()));
    let said = said(acpx.place.at_home(shell).stdin(Stdio::null()).output().unwrap());
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.out.contains("a.txt") && said.out.contains("open.txt"), "{said:?}");
    assert!(said.out.contains("hello") && said.out.contains("[done] end_turn"), "{said:?}");
    acpx.gone();
}

#[test]
fn permission() {
    let acpx = Acpx::new();
    acpx.good(&["--approve-all", "exec", "write yes.txt made\\n"]);
    assert_eq!(acpx.place.read("yes.txt").as_deref(), Some("made\n"));
    let said = acpx.run(&["--deny-all", "exec", "write no.txt made\\n"]);
    assert_eq!((said.code, acpx.place.read("no.txt")), (Some(5), None), "{said:?}");
    // It refuses to tell what is there already, and that is final.
    assert!(said.out.contains("Permission denied for fs/read_text_file"), "{said:?}");
    // Its policies go by what the question itself says about the call. They say nothing about its own files.
    let policy = r#"{"autoApprove": ["edit"], "defaultAction": "deny"}"#;
    let said =
        acpx.run(&["--no-fs", "--permission-policy", policy, "exec", "write edit.txt made\\n\nrun touch run.txt"]);
    assert_eq!(acpx.place.read("edit.txt").as_deref(), Some("made\n"), "{said:?}");
    assert_eq!(acpx.place.read("run.txt"), None, "{said:?}");
    acpx.gone();
}

#[test]
fn a_session_with_a_name() {
    let acpx = Acpx::new();
    let id = acpx.good(&["--format", "quiet", "sessions", "new", "--name", "work"]).trim().to_owned();
    assert_eq!(acpx.good(&["--format", "quiet", "prompt", "-s", "work", "say größer"]).trim(), "größer");

    let edit = r#"call edit {"path": "a.txt", "edits": [{"old": "old", "new": "new"}]}"#;
    let wire = acpx.wire(&["--approve-all", "prompt", "-s", "work", edit]);
    let diff = |content: &Value| content["type"] == "diff" && content["newText"] == "new text\n";
    let shown =
        |message: &Value| message["params"]["update"]["content"].as_array().is_some_and(|all| all.iter().any(diff));
    assert!(wire.iter().any(shown), "{wire:?}");
    assert_eq!(acpx.place.read("a.txt").as_deref(), Some("new text\n"));

    let wire = acpx.wire(&["--approve-all", "prompt", "-s", "work", "run echo from the command\nresult"]);
    assert!(wire.iter().any(|message| message["method"] == "terminal/create"), "{wire:?}");
    assert!(wire.iter().any(|message| message["method"] == "terminal/release"), "{wire:?}");
    let text = Value::from(wire).to_string();
    assert!(text.contains("(the command exited with status 0)"), "{text}");

    let mut waiting = acpx.command(&["prompt", "-s", "work", "say begun\nwait"]).spawn().unwrap();
    hears(&mut waiting, "begun");
    acpx.good(&["cancel", "-s", "work"]);
    let said = said(waiting.wait_with_output().unwrap());
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.out.contains("[done] cancelled"), "{said:?}");

    let said = acpx.run(&["prompt", "-s", "work", "error -32099 broken"]);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(format!("{said:?}").contains("broken"), "{said:?}");
    acpx.close("work");

    // Another process goes on with the session: it knows what the first one changed.
    let listed = acpx.good(&["sessions", "list"]);
    assert!(listed.lines().any(|line| line.starts_with(&id) && line.contains("größer")), "{listed}");
    acpx.good(&["sessions", "new", "--name", "again", "--resume-session", &id]);
    let undone = acpx.good(&["--approve-all", "prompt", "-s", "again", "/undo"]);
    assert_eq!(acpx.place.read("a.txt").as_deref(), Some("old text\n"), "{undone}");
    acpx.close("again");

    let said = acpx.run(&["sessions", "new", "--name", "lost", "--resume-session", "nobody-knows-it"]);
    assert_eq!(said.code, Some(4), "{said:?}");
    assert!(said.err.contains("Resource not found"), "{said:?}");
}

#[test]
fn agents_of_other_versions_behind_a_bridge() {
    for agent in [
        "tieline bridge --agent-protocol 2 -- tieline agent --script puppet",
        "tieline bridge --agent-protocol 2-seed -- tieline agent --script puppet",
    ] {
        let acpx = Acpx::with(agent);
        acpx.good(&["--approve-all", "exec", "write yes.txt made\\n"]);
        assert_eq!(acpx.place.read("yes.txt").as_deref(), Some("made\n"), "{agent}");
        let said = acpx.run(&["--deny-all", "exec", "write no.txt made\\n"]);
        assert_eq!((said.code, acpx.place.read("no.txt")), (Some(5), None), "{agent}: {said:?}");

        let id = acpx.good(&["--format", "quiet", "sessions", "new", "--name", "work"]).trim().to_owned();
        assert_eq!(acpx.good(&["--format", "quiet", "prompt", "-s", "work", "say größer"]).trim(), "größer");
        let edit = r#"call edit {"path": "a.txt", "edits": [{"old": "old", "new": "new"}]}"#;
        let wire = acpx.wire(&["--approve-all", "prompt", "-s", "work", edit]);
        let diff = |content: &Value| content["type"] == "diff" && content["newText"] == "new text\n";
        let shown =
            |message: &Value| message["params"]["update"]["content"].as_array().is_some_and(|all| all.iter().any(diff));
        assert!(wire.iter().any(shown), "{agent}: {wire:?}");
        let mut waiting = acpx.command(&["prompt", "-s", "work", "say begun\nwait"]).spawn().unwrap();
        hears(&mut waiting, "begun");
        acpx.good(&["cancel", "-s", "work"]);
        let ended = said_of(waiting);
        assert!(ended.code == Some(0) && ended.out.contains("[done] cancelled"), "{agent}: {ended:?}");
        let failed = acpx.run(&["prompt", "-s", "work", "error -32099 broken"]);
        assert!(failed.code == Some(1) && format!("{failed:?}").contains("broken"), "{agent}: {failed:?}");
        acpx.close("work");
        // Another process goes on with it, through another bridge.
        acpx.good(&["sessions", "new", "--name", "again", "--resume-session", &id]);
        let undone = acpx.good(&["--approve-all", "prompt", "-s", "again", "/undo"]);
        assert_eq!(acpx.place.read("a.txt").as_deref(), Some("old text\n"), "{agent}: {undone}");
        acpx.close("again");
    }
}

fn said_of(child: Child) -> Said {
    said(child.wait_with_output().unwrap())
}
