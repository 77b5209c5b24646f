//! The program: its first line is the address, its log has no keys, its mistakes are told.

#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

const BIN: &str = env!("CARGO_BIN_EXE_tieline-model-server");

/// Ends the program with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the program with these options.
fn start(options: &[&str]) -> (Running, String) {
    let mut child = Command::new(BIN).args(options).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let running = Running(child);
    (running, lines.next().unwrap().unwrap())
}

/// Asks for a completion, with these fields beside the others; gives the answer with its head.
fn ask(url: &str, fields: &str) -> String {
    let mut stream = TcpStream::connect(url.strip_prefix("http://").unwrap()).unwrap();
    let tools = r#"[{"type":"function","function":{"name":"t"}}]"#;
    let body = format!(r#"{{"model":"m","messages":[{{"role":"user","content":"x"}}],"tools":{tools}{fields}}}"#);
    let head = format!("authorization: Bearer s3cret\r\nconnection: close\r\ncontent-length: {}", body.len());
    let head = format!("host: x\r\ncontent-type: application/json\r\n{head}");
    write!(stream, "POST /chat/completions?key=s3cret HTTP/1.1\r\n{head}\r\n\r\n{body}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn it_prints_its_address_and_logs_without_keys() {
    let folder = tempfile::tempdir().unwrap();
    let (script, log) = (folder.path().join("s.toml"), folder.path().join("log"));
    std::fs::write(&script, "[[answer]]\nsteps = [{ text = \"from a file\" }]\n").unwrap();
    let (script, log) = (script.to_str().unwrap(), log.to_str().unwrap());
    let (_running, url) = start(&["--script", script, "--key", "s3cret", "--log", log]);
    let answer = ask(&url, "");
    assert!(answer.contains("from a file"), "{answer}");
    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.contains("/chat/completions") && log.contains("\"Chat\""), "{log}");
    assert!(!log.contains("s3cret"), "{log}");
}

#[test]
fn it_is_as_strict_as_the_providers_unless_it_is_told_not_to_be() {
    for (options, words) in
        [(&["--script", "text"][..], "HTTP/1.1 400"), (&["--script", "text", "--compatible"], "HTTP/1.1 200")]
    {
        let (_running, url) = start(options);
        let answer = ask(&url, r#","client_metadata":{}"#);
        assert!(answer.starts_with(words), "{options:?}: {answer}");
    }
}

#[test]
fn mistakes_say_what_to_type() {
    for (args, part) in [
        (&["--script", "nothing"][..], "give a TOML file or one of: directives, text"),
        (&["--port", "70000"], "`70000` is no port"),
        (&["--port"], "`--port` needs a value"),
        (&["--what"], "`--what` is not an option"),
    ] {
        let output = Command::new(BIN).args(args).output().unwrap();
        assert!(!output.status.success());
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(errors.contains(part), "{errors}");
    }
    let help = Command::new(BIN).arg("--help").output().unwrap();
    assert!(String::from_utf8_lossy(&help.stdout).contains("repair"));
}
