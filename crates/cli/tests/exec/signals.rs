//! Ctrl-C, SIGTERM, a reader that goes away, deadlines: the turn is cancelled, the agent ended, the story closed.

use super::harness::{DIALECTS, Place, alive, mark, wait};
use super::sessions::story;
use serde_json::{Value, json};
use std::io::Read;
use std::process::Stdio;

#[test]
fn ctrl_c_cancels_the_turn_and_waits_for_its_end() {
    for dialect in DIALECTS {
        let place = Place::new();
        let run = place.agent("waits", dialect, &[]).start();
        run.until_out("working");
        run.signal("INT");
        let done = run.done().ends(130);
        done.out_has(", stopped").err_has("interrupted");
        assert_eq!(done.sent("session/cancel").len(), 1, "{dialect}: {done:#?}");
    }
}

#[test]
fn sigterm_and_hangup_end_with_their_own_code_and_one_closing_event() {
    for signal in ["TERM", "HUP"] {
        for format in ["json", "stream-json", "acp", "text"] {
            let place = Place::new();
            let run = place.agent("waits", "1", &[]).format(format).start();
            run.until_logged("session/prompt");
            run.signal(signal);
            let done = run.done().ends(143);
            if format != "text" {
                let last = done.events().pop().unwrap();
                let end = if format == "acp" { &last["params"] } else { &last };
                assert_eq!(
                    (&end["status"], &end["stop_reason"]),
                    (&json!("terminated"), &json!("cancelled")),
                    "{done:#?}"
                );
            }
        }
    }
}

#[test]
fn ctrl_c_before_the_turn_ends_at_once() {
    for behaviour in ["no_hello", "slow_session"] {
        let (place, mark) = (Place::new(), mark("early"));
        let run = place.agent(behaviour, "1", &["--format", "json"]).env("MARK", &mark).start();
        run.until_logged("initialize");
        run.signal("INT");
        let done = run.done().ends(130);
        assert_eq!(done.object()["status"], "interrupted");
        wait("the end of the agent", || !alive(&mark));
    }
}

#[test]
fn pressing_again_does_not_wait() {
    let place = Place::new();
    let run = place.agent("deaf", "1", &[]).start();
    run.until_out("working");
    run.signal("INT");
    wait("the first word", || run.err().contains("asked to stop"));
    run.signal("INT");
    run.done().ends(130).err_has("killed before it had stopped");
}

#[test]
fn an_open_question_is_cancelled_with_the_turn() {
    for dialect in DIALECTS {
        let place = Place::new();
        let run = place.agent("waits_asking", dialect, &["--allow-all"]).start();
        run.until_out("yes");
        run.signal("INT");
        run.done().ends(130);
    }
}

#[test]
fn unfinished_calls_are_told_as_cancelled_at_once() {
    for dialect in DIALECTS {
        let place = Place::new();
        let run = place.agent("unfinished", dialect, &["--format", "stream-json"]).start();
        run.until_out("working");
        run.signal("INT");
        let done = run.done().ends(130);
        let events = done.events();
        let at = |found: &dyn Fn(&Value) -> bool| events.iter().position(found);
        let cancelled = |id: &'static str| at(&|event| event["id"] == id && event["status"] == "cancelled");
        let (asked, ended) = (at(&|event| event["step"] == "asked"), at(&|event| event["step"] == "ending"));
        // The agent says nothing any more, so all of this is ours; and it does not wait for the agent's end.
        for id in ["c1", "c2"] {
            assert!(asked < cancelled(id) && cancelled(id) < ended && ended.is_some(), "{dialect} {id}: {done:#?}");
        }
        assert_eq!(cancelled("c3"), None, "{dialect}: it was over");
        // The journal says so, too.
        let story = story(&place);
        let states: Vec<String> =
            ["c1", "c2", "c3"].iter().map(|id| story.transcript.tool_call(id).unwrap().status.to_string()).collect();
        assert_eq!(states, ["cancelled", "cancelled", "completed"], "{dialect}");
        // And people read it.
        let run = place.agent("unfinished", dialect, &[]).start();
        run.until_out("working");
        run.signal("INT");
        let done = run.done().ends(130);
        done.err_has("Pending: cancelled").err_has("At work: cancelled");
        assert!(done.err.find("At work: cancelled") < done.err.find("did not heed the cancel"), "{done:#?}");
    }
}

#[test]
fn what_comes_after_the_cancel_still_counts() {
    for dialect in DIALECTS {
        let place = Place::new();
        let run = place.agent("late_cancel", dialect, &[]).start();
        run.until_out("working");
        run.signal("INT");
        run.done().ends(130).out_has(", late").err_has("Late");
    }
}

#[test]
fn a_time_out_cancels_first() {
    for dialect in ["1", "2"] {
        let place = Place::new();
        let done = place.agent("waits", dialect, &["--timeout", "10s", "--format", "json"]).run().ends(3);
        assert_eq!(done.sent("session/cancel").len(), 1, "{done:#?}");
        let object = done.object();
        assert_eq!((&object["status"], &object["error"]["phase"]), (&json!("timed_out"), &json!("turn")));
        assert!(object["error"]["message"].as_str().unwrap().contains("--timeout"), "{object}");
        assert_eq!(object["text"], "working, stopped");
    }
}

#[test]
fn a_reader_that_goes_away_ends_the_run_quietly() {
    for format in ["text", "stream-json", "acp"] {
        let (place, mark) = (Place::new(), mark("pipe"));
        let mut exec = place.agent("flood", "1", &["--format", format]).env("MARK", &mark).words(&["1000000"]);
        exec.command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut command = exec.command;
        command.args(["--", "python3", &super::harness::script("agent.py"), "flood", "1", "1000000"]);
        let mut child = command.spawn().unwrap();
        let mut some = [0; 100];
        child.stdout.take().unwrap().read_exact(&mut some).unwrap();
        let done = child.wait_with_output().unwrap();
        assert_eq!(done.status.code(), Some(141), "{format}: {}", String::from_utf8_lossy(&done.stderr));
        assert!(!String::from_utf8_lossy(&done.stderr).contains("panic"));
        wait("the end of the agent", || !alive(&mark));
    }
}

#[test]
fn a_reader_that_does_not_read_does_not_stop_ctrl_c() {
    let place = Place::new();
    let mut exec = place.agent("flood", "1", &[]);
    exec.command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    exec.command.args(["--", "python3", &super::harness::script("agent.py"), "flood", "1", "1000000"]);
    let mut child = exec.command.spawn().unwrap();
    // Nobody reads; the pipe is full soon.
    wait("the prompt", || std::fs::read_to_string(place.path("log")).is_ok_and(|log| log.contains("session/prompt")));
    std::thread::sleep(std::time::Duration::from_millis(300));
    let kill = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(kill.unwrap().success());
    let mut code = None;
    wait("the end of the run", || {
        code = child.try_wait().unwrap();
        code.is_some()
    });
    assert_eq!(code.unwrap().code(), Some(130));
}
