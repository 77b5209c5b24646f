//! The real binary over standard input and output, in any dialect, with a client that answers what it is asked.

#![allow(dead_code, clippy::unwrap_used)]

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// How long a test waits for something that must come.
pub const SOON: Duration = Duration::from_secs(30);

pub const DIALECTS: [&str; 3] = ["1", "2-seed", "2"];

/// A folder with a project in it, a store and a home beside it.
pub struct Place {
    pub folder: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("project")).unwrap();
        Self { folder }
    }

    pub fn project(&self) -> PathBuf {
        self.folder.path().join("project")
    }

    pub fn write(&self, name: &str, text: &str) {
        let path = self.project().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.project().join(name)).unwrap()
    }
}

/// A client of the binary.
pub struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Value>,
    dialect: &'static str,
    next: i64,
    pub session: String,
    /// Which kind of option is chosen when permission is asked.
    pub choose: &'static str,
    /// The questions that were asked.
    pub asked: Vec<Value>,
    /// Every update so far.
    pub updates: Vec<Value>,
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Client {
    pub fn start(place: &Place, dialect: &'static str, arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tieline"));
        command.arg("agent").args(arguments);
        if !arguments.contains(&"--no-store") {
            command.arg("--store").arg(place.folder.path().join("state/store.db"));
        }
        command.env("XDG_CONFIG_HOME", place.folder.path().join("config"));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let message = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let stdin = child.stdin.take();
        let mut client = Self {
            child,
            stdin,
            lines,
            dialect,
            next: 0,
            session: String::new(),
            choose: "allow_once",
            asked: Vec::new(),
            updates: Vec::new(),
        };
        let hello = match dialect {
            "1" => json!({"protocolVersion": 1, "clientCapabilities": {}}),
            "2-seed" => json!({"protocolVersion": 2, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}),
            _ => json!({"protocolVersion": 2, "info": {"name": "c", "version": "1"}, "capabilities": {}}),
        };
        client.call("initialize", hello);
        client
    }

    pub fn open(place: &Place, dialect: &'static str, arguments: &[&str]) -> Self {
        let mut client = Self::start(place, dialect, arguments);
        let params = json!({"cwd": place.project(), "mcpServers": []});
        client.session = client.call("session/new", params)["sessionId"].as_str().unwrap().into();
        client
    }

    pub fn send(&mut self, message: &Value) {
        let mut line = message.to_string();
        line.push('\n');
        self.stdin.as_mut().unwrap().write_all(line.as_bytes()).unwrap();
    }

    pub fn ask(&mut self, method: &str, params: Value) -> i64 {
        self.next += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params}));
        self.next
    }

    /// Handles messages until one fits.
    pub fn until(&mut self, mut fits: impl FnMut(&Value) -> bool) -> Value {
        loop {
            let message = self.lines.recv_timeout(SOON).expect("a message in time");
            match message["method"].as_str() {
                Some("session/update") => self.updates.push(message["params"]["update"].clone()),
                Some("session/request_permission") => {
                    let options = message["params"]["options"].as_array().unwrap().clone();
                    let chosen = options.iter().find(|option| option["kind"] == self.choose);
                    let outcome = match chosen {
                        Some(option) => json!({"outcome": "selected", "optionId": option["optionId"]}),
                        None => json!({"outcome": "cancelled"}),
                    };
                    self.asked.push(message["params"].clone());
                    self.send(&json!({"jsonrpc": "2.0", "id": message["id"], "result": {"outcome": outcome}}));
                }
                _ => {}
            }
            if fits(&message) {
                return message;
            }
        }
    }

    pub fn answer(&mut self, id: i64) -> Value {
        self.until(|message| message.get("method").is_none() && message["id"] == id)
    }

    /// The result of a request that must work.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params);
        let answer = self.answer(id);
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }

    pub fn begin(&mut self, text: &str) -> i64 {
        let session = self.session.clone();
        self.ask("session/prompt", json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]}))
    }

    /// How a turn stopped.
    pub fn end(&mut self, id: i64) -> String {
        let stop = if self.dialect == "2" {
            let idle = |message: &Value| {
                message["params"]["update"]["sessionUpdate"] == "state_update"
                    && message["params"]["update"]["state"] == "idle"
            };
            let mut answered = false;
            self.until(|message| {
                answered |= message.get("method").is_none() && message["id"] == id;
                idle(message)
            })["params"]["update"]["stopReason"]
                .clone()
        } else {
            let answer = self.answer(id);
            answer["result"]["stopReason"].as_str().map_or(answer["error"]["message"].clone(), Value::from)
        };
        stop.as_str().unwrap_or_default().to_owned()
    }

    pub fn prompt(&mut self, text: &str) -> String {
        let id = self.begin(text);
        self.end(id)
    }

    pub fn cancel(&mut self) {
        let session = self.session.clone();
        self.send(&json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}}));
    }

    /// All that the agent said.
    pub fn said(&self) -> String {
        let chunks = self.updates.iter().filter(|update| update["sessionUpdate"] == "agent_message_chunk");
        chunks.filter_map(|update| update["content"]["text"].as_str()).collect()
    }

    pub fn kinds(&self) -> Vec<String> {
        self.updates.iter().map(|update| update["sessionUpdate"].as_str().unwrap().to_owned()).collect()
    }

    /// Ends the input and waits for the end of the process.
    pub fn hang_up(mut self) -> std::process::ExitStatus {
        self.stdin = None;
        let start = std::time::Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(start.elapsed() < SOON, "the agent does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

pub fn exists(path: &Path) -> bool {
    path.exists()
}

/// True if a process with this in its command line runs; words are separated by zero bytes.
pub fn runs(line: &str) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
        .any(|words| String::from_utf8_lossy(&words).starts_with(line))
}
