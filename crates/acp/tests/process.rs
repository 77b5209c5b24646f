//! The agent as a real process: pipes, signals, the end of input, a client that stops listening, both framings.

#![allow(clippy::unwrap_used)]
#![cfg(unix)]

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// An example that cargo built next to this test.
fn example(name: &str) -> PathBuf {
    let mut path = std::env::current_exe().unwrap();
    path.pop();
    path.pop();
    path.push("examples");
    path.push(name);
    assert!(path.exists(), "build the examples first: cargo build -p tieline --examples");
    path
}

struct Agent {
    child: Child,
    input: Option<ChildStdin>,
    lines: mpsc::Receiver<String>,
    errors: mpsc::Receiver<String>,
}

fn start(name: &str) -> Agent {
    let mut child = Command::new(example(name))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (send, lines) = mpsc::channel();
    let output = BufReader::new(child.stdout.take().unwrap());
    std::thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| send.send(line)));
    let (send, errors) = mpsc::channel();
    let mut output = child.stderr.take().unwrap();
    std::thread::spawn(move || {
        let mut text = String::new();
        let _ = output.read_to_string(&mut text);
        let _ = send.send(text);
    });
    let input = child.stdin.take();
    Agent { child, input, lines, errors }
}

impl Agent {
    fn send(&mut self, message: &Value) {
        writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
    }

    fn get(&self) -> Value {
        serde_json::from_str(&self.lines.recv_timeout(Duration::from_secs(10)).expect("a line in time")).unwrap()
    }

    fn open(&mut self) -> String {
        self.send(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}}));
        self.get();
        self.send(
            &json!({"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": {"cwd": "/tmp", "mcpServers": []}}),
        );
        self.get()["result"]["sessionId"].as_str().unwrap().to_owned()
    }

    /// The exit code, which must come within the time a client gives.
    fn exit(&mut self) -> Option<i32> {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(start.elapsed() < Duration::from_secs(4), "TR-END-04: the process outlives its client");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn prompt(id: i64, session: &str, text: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "session/prompt", "params": {"sessionId": session, "prompt": [{"type": "text", "text": text}]}})
}

#[test]
fn tr_stdio_01_08_tr_end_03_a_piped_script_gets_every_answer() {
    let mut agent = start("echo");
    for id in 0..20 {
        agent.send(&json!({"jsonrpc": "2.0", "id": id, "method": if id == 0 { "initialize" } else { "session/new" }, "params": {"protocolVersion": 1, "cwd": "/tmp", "mcpServers": []}}));
    }
    agent.input = None;
    let answers: Vec<Value> = agent.lines.iter().map(|line| serde_json::from_str(&line).unwrap()).collect();
    assert_eq!(answers.len(), 20);
    assert!(answers.iter().all(|answer| answer.get("result").is_some()), "{answers:?}");
    assert_eq!(agent.exit(), Some(0));
    assert_eq!(agent.errors.recv().unwrap(), "", "TR-STDIO-04, TR-STDIO-06");
}

#[test]
fn tr_end_06_a_signal_ends_it_in_order() {
    for signal in ["TERM", "INT"] {
        let mut agent = start("tools");
        let session = agent.open();
        agent.send(&prompt(2, &session, "a note"));
        while agent.get()["method"] != "session/request_permission" {}
        let pid = agent.child.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &pid]).status().unwrap().success());
        let rest: Vec<Value> = agent.lines.iter().map(|line| serde_json::from_str(&line).unwrap()).collect();
        let stop = rest.iter().find(|m| m["id"] == 2).map(|m| m["result"]["stopReason"].clone());
        assert!(stop == Some(json!("end_turn")) || stop == Some(json!("cancelled")), "{signal}: {rest:?}");
        assert_eq!(agent.exit(), Some(0), "{signal}");
    }
}

#[test]
fn tr_end_05_a_client_that_stops_listening_is_no_panic() {
    let mut child = Command::new(example("echo"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut input = child.stdin.take().unwrap();
    for id in 0..50 {
        let line = json!({"jsonrpc": "2.0", "id": id, "method": "initialize", "params": {"protocolVersion": 1}});
        if writeln!(input, "{line}").is_err() {
            break;
        }
    }
    let (send, errors) = mpsc::channel();
    let mut output = child.stderr.take().unwrap();
    std::thread::spawn(move || {
        let mut text = String::new();
        let _ = output.read_to_string(&mut text);
        let _ = send.send(text);
    });
    let mut agent = Agent { child, input: Some(input), lines: mpsc::channel().1, errors };
    assert_ne!(agent.exit(), Some(0));
    let errors = agent.errors.recv().unwrap();
    assert!(!errors.contains("panicked"), "{errors}");
}

#[test]
fn tr_cl_03_header_framing_is_answered_in_kind() {
    let mut agent = start("echo");
    let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 2, "info": {"name": "é", "version": "1"}}}).to_string();
    write!(agent.input.as_mut().unwrap(), "Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
    let header = agent.lines.recv_timeout(Duration::from_secs(10)).unwrap();
    assert!(header.starts_with("Content-Length: "), "{header}");
    agent.input = None;
    assert_eq!(agent.exit(), Some(0));
}

#[test]
fn a_client_and_an_agent_over_a_real_pipe() {
    let output = Command::new(example("ask")).arg("hello").arg(example("echo")).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "hello\n(end_turn)\n");
    assert!(output.status.success());
    let output = Command::new(example("ask")).args(["hello", "sh", "-c", "echo no key >&2; exit 3"]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("status 3") && errors.contains("no key"), "TR-END-07: {errors}");
    let output = Command::new(example("ask")).args(["hello", "no-such-program"]).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("no-such-program"));
}
