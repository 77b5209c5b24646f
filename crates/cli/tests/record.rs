//! `tieline record` passes on every byte, writes it down before that, and leaves nothing behind.
#![allow(clippy::unwrap_used, missing_docs)]

use base64::Engine as _;
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);

fn record(file: &Path, flags: &[&str], command: &[&str]) -> Command {
    let mut record = Command::new(env!("CARGO_BIN_EXE_tieline"));
    record.arg("record").arg("-o").arg(file).args(flags).arg("--").args(command);
    record.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    record
}

fn lines(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// All bytes of a side.
fn bytes(file: &Path, from: &str) -> Vec<u8> {
    let one = |line: &Value| match line["base64"].as_str() {
        Some(coded) => base64::engine::general_purpose::STANDARD.decode(coded).unwrap(),
        None => line["raw"].as_str().unwrap().as_bytes().to_vec(),
    };
    lines(file).iter().filter(|line| line["from"] == from).flat_map(one).collect()
}

fn wait(child: &mut Child) -> std::process::ExitStatus {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        assert!(start.elapsed() < PATIENCE, "it does not end");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Gives input, takes all output.
fn through(mut record: Command, input: &[u8]) -> (Vec<u8>, Vec<u8>, i32) {
    let mut child = record.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || stdin.write_all(input));
        let mut stderr = child.stderr.take().unwrap();
        let errors = scope.spawn(move || {
            let mut errors = Vec::new();
            stderr.read_to_end(&mut errors).unwrap();
            errors
        });
        let mut output = Vec::new();
        child.stdout.take().unwrap().read_to_end(&mut output).unwrap();
        (output, errors.join().unwrap(), wait(&mut child).code().unwrap())
    })
}

/// Bytes of all kinds: both framings, rubbish, half characters, lines without end, a flood.
fn everything() -> Vec<u8> {
    let mut bytes = b"{\"jsonrpc\":\"2.0\",\"id\":1}\r\n\n\nno message\nContent-Length: 7\r\n\r\n{\"a\":\n1".to_vec();
    bytes.extend_from_slice(b"\xff\xfe\x00 bad\n\x1b[31m\n");
    for number in 0..30_000 {
        bytes
            .extend_from_slice(format!("{{\"n\":{number},\"text\":\"é😀 {}\"}}\n", "x".repeat(number % 90)).as_bytes());
    }
    bytes.extend_from_slice("é".repeat(400_000).as_bytes());
    bytes
}

#[test]
fn every_byte_goes_through_and_is_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.jsonl");
    let input = everything();
    let (output, errors, code) = through(record(&file, &[], &["sh", "-c", "echo oops >&2; cat; exit 7"]), &input);
    assert_eq!((code, String::from_utf8_lossy(&errors).as_ref()), (7, "oops\n"));
    assert!(output == input && bytes(&file, "client") == input && bytes(&file, "agent") == input);
    assert_eq!(bytes(&file, "stderr"), b"oops\n");
    let lines = lines(&file);
    assert_eq!(lines[0]["command"][0], "sh");
    let last = lines.last().unwrap();
    assert_eq!((last["from"].as_str(), last["code"].as_u64()), (Some("exit"), Some(7)));
    assert!(lines.iter().any(|line| line["from"] == "client" && line["end"] == true));
    // A frame is one event, unless it came in pieces.
    assert!(lines.iter().any(|line| line["raw"] == "Content-Length: 7\r\n\r\n{\"a\":\n1" || line["more"] == true));
    let times: Vec<u64> = lines.iter().filter_map(|line| line["at"].as_u64()).collect();
    assert!(times.is_sorted());
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[test]
fn what_was_passed_on_is_in_the_file_after_a_kill_and_nobody_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.jsonl");
    let script = "echo $$ >&2; exec cat";
    let mut child = record(&file, &[], &["sh", "-c", script]).spawn().unwrap();
    let mut pid = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut pid).unwrap();
    let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
    let mut seen = String::new();
    for number in 0..200 {
        writeln!(stdin, "{{\"n\":{number}}}").unwrap();
        stdout.read_line(&mut seen).unwrap();
    }
    // The start of a frame that is never finished.
    stdin.write_all(b"{\"half\":").unwrap();
    let mut half = [0; 8];
    stdout.read_exact(&mut half).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let all = format!("{seen}{{\"half\":");
    assert_eq!(String::from_utf8(bytes(&file, "agent")).unwrap(), all);
    assert_eq!(String::from_utf8(bytes(&file, "client")).unwrap(), all);
    let process = format!("/proc/{}", pid.trim());
    let start = Instant::now();
    while cfg!(target_os = "linux") && Path::new(&process).exists() {
        assert!(start.elapsed() < PATIENCE, "the agent is still there");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn ends_and_signals_are_passed_on() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.jsonl");
    assert_eq!(through(record(&file, &[], &["sh", "-c", "kill -9 $$"]), b"").2, 137);
    assert_eq!(lines(&file).last().unwrap()["signal"], 9);
    let (_, errors, code) = through(record(&file, &[], &["/no/such/agent"]), b"");
    assert!(code == 127 && String::from_utf8_lossy(&errors).contains("/no/such/agent"), "{code}");
    // An agent that closes its input or its output, and lives on.
    let (output, _, code) =
        through(record(&file, &[], &["sh", "-c", "exec <&-; echo a; exec >&-; sleep 0.2; exit 3"]), b"x\n");
    assert_eq!((&*output, code), (&b"a\n"[..], 3));
    // A signal.
    let script = "trap 'echo got it; exit 5' TERM; echo ready; while :; do sleep 0.05; done";
    let mut child = record(&file, &[], &["sh", "-c", script]).spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    stdout.read_line(&mut line).unwrap();
    assert_eq!((line.as_str(), wait(&mut child).code()), ("ready\ngot it\n", Some(5)));
    // A client that no longer listens.
    let mut child = record(&file, &[], &["sh", "-c", "while echo x; do :; done"]).spawn().unwrap();
    drop(child.stdout.take());
    assert_ne!(wait(&mut child).code(), Some(0));
}

#[test]
fn a_standard_error_that_nobody_reads_holds_nothing_up() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.jsonl");
    // More than one pipe holds, less than two: the agent itself can end.
    let mut child =
        record(&file, &[], &["sh", "-c", "head -c 100000 /dev/zero >&2; echo done; exit 3"]).spawn().unwrap();
    let mut output = String::new();
    child.stdout.take().unwrap().read_to_string(&mut output).unwrap();
    assert_eq!((output.as_str(), wait(&mut child).code()), ("done\n", Some(3)));
    assert_eq!(lines(&file).last().unwrap()["code"], 3);
}

#[test]
fn a_shape_has_none_of_the_values() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.jsonl");
    let words = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"session/prompt\",\"params\":{\"sessionId\":\"s-confidential\",\"prompt\":[{\"type\":\"text\",\"text\":\"confidential\"}]}}\nconfidential\n";
    let script = "echo confidential >&2; cat; : confidential";
    let (output, errors, _) = through(record(&file, &["--shape"], &["sh", "-c", script]), words.as_bytes());
    assert_eq!((String::from_utf8(output).unwrap().as_str(), &*errors), (words, &b"confidential\n"[..]));
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(!text.contains("confidential") && text.contains("session/prompt") && text.contains("<12>"), "{text}");
}
