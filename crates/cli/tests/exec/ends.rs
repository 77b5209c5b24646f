//! Ends that come early or go wrong: while the prompt is read, and when the output can't be written.

use super::harness::{Place, wait};
use serde_json::Value;
use std::process::{Child, Command, Stdio};

/// A run that reads its prompt from a pipe in which nothing comes.
fn waiting(place: &Place, arguments: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tieline"));
    command.args(["exec", "-", "--format", "json"]).args(arguments).current_dir(place.project());
    place.surround(&mut command);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

/// The code and the closing object of a run whose standard input stays open.
fn closing(mut child: Child) -> (Option<i32>, Value) {
    let stdin = child.stdin.take();
    let done = child.wait_with_output().unwrap();
    drop(stdin);
    (done.status.code(), serde_json::from_slice(&done.stdout).unwrap())
}

#[test]
fn signals_and_deadlines_count_while_the_prompt_is_read() {
    let place = Place::new();
    for (signal, code, status) in [("INT", 130, "interrupted"), ("TERM", 143, "terminated"), ("HUP", 143, "terminated")]
    {
        let child = waiting(&place, &[]);
        // Before that a signal ends any program.
        let file = format!("/proc/{}/status", child.id());
        wait("somebody who hears signals", || {
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            let caught = text.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or("0").trim().to_owned();
            u64::from_str_radix(&caught, 16).is_ok_and(|caught| caught & 0b100_0000_0000_0011 == 0b100_0000_0000_0011)
        });
        assert!(
            Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status().unwrap().success()
        );
        let (ended, object) = closing(child);
        assert_eq!((ended, &object["status"]), (Some(code), &Value::from(status)), "{object}");
    }
    let (ended, object) = closing(waiting(&place, &["--timeout", "1"]));
    assert_eq!((ended, &object["status"]), (Some(3), &Value::from("timed_out")), "{object}");
}

#[test]
fn files_that_are_none_hold_up_nothing() {
    let place = Place::new();
    assert!(Command::new("mkfifo").arg(place.project().join("pipe")).status().unwrap().success());
    for flag in ["--file", "--mcp-config", "--image"] {
        place.exec(&["/help", flag, "pipe", "--timeout", "1"]).run().ends(3);
        place.exec(&["/help", flag, "/dev/zero"]).run().ends(2).err_has(flag);
    }
    let writing = Command::new("sh").args(["-c", "echo from a pipe >pipe"]).current_dir(place.project()).spawn();
    let done = place.agent("hello", "1", &["--file", "pipe"]).run().ends(0);
    assert!(done.sent("session/prompt")[0].to_string().contains("from a pipe"), "{done:#?}");
    assert!(writing.unwrap().wait().unwrap().success());
}

#[test]
fn output_that_has_no_room_is_a_failure() {
    for format in ["text", "quiet", "json", "stream-json", "acp"] {
        let place = Place::new();
        let mut run = place.exec(&["/help", "--format", format]);
        run.command.stdin(Stdio::null()).stdout(std::fs::File::create("/dev/full").unwrap()).stderr(Stdio::piped());
        let done = run.command.output().unwrap();
        let told = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(1), "{format}: {told}");
        assert!(told.contains("the output could not be written: No space left"), "{format}: {told}");
    }
}

#[test]
fn a_session_goes_on_in_its_own_folders() {
    let place = Place::new();
    let (more, other) = (place.path("home"), place.path("state"));
    place.exec(&["/help", "-s", "one", "--add-dir", more.to_str().unwrap()]).run().ends(0);
    let resume = ["/help", "--resume", "last", "--format", "json"];
    place.exec(&resume).args(&["-C", other.to_str().unwrap()]).run().ends(2).out_has("leave --cwd out");
    std::fs::write(more.join("note.txt"), "remembered").unwrap();
    let read = format!("/read {}", more.join("note.txt").display());
    place.exec(&[&read, "--resume", "last"]).run().ends(0).out_has("remembered");
}

#[test]
fn the_tables_of_the_agent_are_no_mistake() {
    let place = Place::new();
    std::fs::create_dir(place.path("config/tieline")).unwrap();
    std::fs::write(place.path("config/tieline/config.toml"), "[network]\nca_file = \"/none\"\n").unwrap();
    place.exec(&["go"]).words(&["python3", &super::harness::script("agent.py"), "hello", "1"]).run().ends(0);
}
