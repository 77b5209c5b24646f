//! The real binary over standard input and output, in any dialect and framing, with a client that answers what it is asked.

#![allow(dead_code, clippy::unwrap_used, clippy::print_stderr)]

pub mod editor;

pub use editor::Editor;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How long a test waits for something that must come.
pub const SOON: Duration = Duration::from_secs(30);

/// A session bus that nobody answers on, and so no keyring.
pub const NO_BUS: &str = "unix:path=/nonexistent";

pub const DIALECTS: [&str; 3] = ["1", "2-seed", "2"];

/// How messages are told apart on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    Lines,
    Headers,
}

pub const FRAMINGS: [Framing; 2] = [Framing::Lines, Framing::Headers];

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
        self.write_bytes(name, text.as_bytes());
    }

    pub fn write_bytes(&self, name: &str, bytes: &[u8]) {
        let path = self.project().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.project().join(name)).unwrap()
    }
}

/// What a client says to a request of the agent.
pub enum Reply {
    Result(Value),
    Error(i64, &'static str),
    /// Nothing, for now or for ever.
    Silence,
}

/// Answers requests before the usual answers do; `None` leaves one to them.
pub type Serve = Box<dyn FnMut(&Value) -> Option<Reply>>;

/// A client of the binary.
pub struct Client {
    pub child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Value>,
    pub dialect: &'static str,
    pub framing: Framing,
    next: i64,
    pub session: String,
    /// What the agent answered to `initialize`.
    pub hello: Value,
    /// Which kind of option is chosen when permission is asked.
    pub choose: &'static str,
    /// The questions that were asked.
    pub asked: Vec<Value>,
    /// Every update so far.
    pub updates: Vec<Value>,
    /// How forms are answered.
    pub fill: Value,
    /// The forms that were shown.
    pub forms: Vec<Value>,
    /// Every message so far.
    pub heard: Vec<Value>,
    /// The requests that were answered.
    pub answered: Vec<i64>,
    /// Files and terminals, if the client offers them.
    pub editor: Option<Editor>,
    pub serve: Option<Serve>,
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The hello of a client with these capabilities.
pub fn hello(dialect: &str, capabilities: &Value) -> Value {
    let who = json!({"name": "c", "version": "1"});
    match dialect {
        "1" => json!({"protocolVersion": 1, "clientCapabilities": capabilities, "clientInfo": who}),
        "2-seed" => json!({"protocolVersion": 2, "capabilities": capabilities, "clientInfo": who}),
        _ => json!({"protocolVersion": 2, "info": who, "capabilities": capabilities}),
    }
}

impl Client {
    pub fn start(place: &Place, dialect: &'static str, arguments: &[&str]) -> Self {
        Self::able(place, (dialect, Framing::Lines), &json!({}), arguments)
    }

    /// A client that offers something.
    pub fn able(place: &Place, way: (&'static str, Framing), capabilities: &Value, arguments: &[&str]) -> Self {
        let mut client = Self::silent(place, way, arguments);
        client.hello = client.call("initialize", hello(way.0, capabilities));
        client
    }

    /// A client that offers something, and changes the command.
    pub fn start_as(
        place: &Place,
        dialect: &'static str,
        arguments: &[&str],
        capabilities: &Value,
        change: impl FnOnce(&mut Command),
    ) -> Self {
        let mut client = Self::spawn(place, (dialect, Framing::Lines), arguments, change);
        client.call("initialize", hello(dialect, capabilities));
        client
    }

    /// A client that offers something, of an agent with these variables and a state folder of its own.
    pub fn start_with(
        place: &Place,
        dialect: &'static str,
        arguments: &[&str],
        variables: &[(&str, &str)],
        can: Value,
    ) -> Self {
        Self::able_with(place, (dialect, Framing::Lines), &can, arguments, variables)
    }

    /// The same in any framing.
    pub fn able_with(
        place: &Place,
        way: (&'static str, Framing),
        capabilities: &Value,
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> Self {
        let state = place.folder.path().join("state");
        let mut client = Self::spawn(place, way, arguments, |command| {
            command.env("XDG_STATE_HOME", state).envs(variables.iter().copied());
        });
        client.hello = client.call("initialize", hello(way.0, capabilities));
        client
    }

    /// A client that has not said anything yet.
    pub fn silent(place: &Place, way: (&'static str, Framing), arguments: &[&str]) -> Self {
        Self::spawn(place, way, arguments, |_| ())
    }

    fn spawn(
        place: &Place,
        (dialect, framing): (&'static str, Framing),
        arguments: &[&str],
        change: impl FnOnce(&mut Command),
    ) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tieline"));
        command.arg("agent").args(arguments);
        if !arguments.contains(&"--no-store") {
            command.arg("--store").arg(place.folder.path().join("state/store.db"));
        }
        command.env("XDG_CONFIG_HOME", place.folder.path().join("config"));
        // The keyring of whoever runs the tests is none of ours.
        command.env("DBUS_SESSION_BUS_ADDRESS", NO_BUS);
        change(&mut command);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = channel();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            while let Some(text) = frame(&mut stdout, framing) {
                let message = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let stdin = child.stdin.take();
        Self {
            child,
            stdin,
            lines,
            dialect,
            framing,
            next: 0,
            session: String::new(),
            hello: Value::Null,
            choose: "allow_once",
            asked: Vec::new(),
            updates: Vec::new(),
            fill: json!({"action": "decline"}),
            forms: Vec::new(),
            heard: Vec::new(),
            answered: Vec::new(),
            editor: None,
            serve: None,
        }
    }

    pub fn open(place: &Place, dialect: &'static str, arguments: &[&str]) -> Self {
        let mut client = Self::start(place, dialect, arguments);
        client.open_in(&place.project());
        client
    }

    /// Opens a session with these MCP servers.
    pub fn new_session(&mut self, place: &Place, servers: &Value) {
        let params = json!({"cwd": place.project(), "mcpServers": servers});
        self.session = self.call("session/new", params)["sessionId"].as_str().unwrap().into();
    }

    /// Opens a session in a folder.
    pub fn open_in(&mut self, cwd: &Path) -> Value {
        let answer = self.call("session/new", json!({"cwd": cwd, "mcpServers": []}));
        self.session = answer["sessionId"].as_str().unwrap().into();
        answer
    }

    pub fn send(&mut self, message: &Value) {
        self.send_text(&message.to_string());
    }

    /// Sends a frame with this text, whatever it is.
    pub fn send_text(&mut self, text: &str) {
        let frame = match self.framing {
            Framing::Lines => format!("{text}\n"),
            Framing::Headers => format!("Content-Length: {}\r\n\r\n{text}", text.len()),
        };
        self.stdin.as_mut().unwrap().write_all(frame.as_bytes()).unwrap();
    }

    pub fn ask(&mut self, method: &str, params: Value) -> i64 {
        self.next += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params}));
        self.next
    }

    pub fn notify(&mut self, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    fn next_message(&mut self) -> Value {
        let start = Instant::now();
        loop {
            match self.lines.recv_timeout(Duration::from_millis(20)) {
                Ok(message) => return message,
                Err(RecvTimeoutError::Disconnected) => panic!("the agent is gone; last: {:?}", self.heard.last()),
                Err(RecvTimeoutError::Timeout) => {
                    assert!(start.elapsed() < SOON, "a message in time; last: {:?}", self.heard.last());
                }
            }
            let due = self.editor.as_mut().map(Editor::due).unwrap_or_default();
            for (id, result) in due {
                self.send(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
            }
        }
    }

    /// Answers a request of the agent.
    fn reply(&mut self, message: &Value) {
        if message["method"] == "elicitation/create" && self.serve.is_none() {
            self.forms.push(message["params"].clone());
            let fill = self.fill.clone();
            return self.send(&json!({"jsonrpc": "2.0", "id": message["id"], "result": fill}));
        }
        let asks = message["method"] == "session/request_permission";
        if asks {
            self.asked.push(message["params"].clone());
            if let Some(editor) = &mut self.editor {
                editor.see(&message["params"]["toolCall"]);
            }
        }
        let own = self.serve.as_mut().and_then(|serve| serve(message));
        let silence = (asks && self.choose.is_empty()).then_some(Reply::Silence);
        let reply = own.or(silence).or_else(|| self.editor.as_mut()?.take(message)).unwrap_or_else(|| {
            if !asks {
                return Reply::Error(-32601, "Method not found");
            }
            let options = message["params"]["options"].as_array().unwrap();
            Reply::Result(match options.iter().find(|option| option["kind"] == self.choose) {
                Some(option) => json!({"outcome": {"outcome": "selected", "optionId": option["optionId"]}}),
                None => json!({"outcome": {"outcome": "cancelled"}}),
            })
        });
        let id = &message["id"];
        match reply {
            Reply::Result(result) => self.send(&json!({"jsonrpc": "2.0", "id": id, "result": result})),
            Reply::Error(code, text) => {
                self.send(&json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": text}}));
            }
            Reply::Silence => {}
        }
    }

    /// Handles messages until one fits.
    pub fn until(&mut self, mut fits: impl FnMut(&Value) -> bool) -> Value {
        loop {
            let message = self.next_message();
            self.handle(&message);
            if fits(&message) {
                return message;
            }
        }
    }

    fn handle(&mut self, message: &Value) {
        self.heard.push(message.clone());
        self.answered.extend(message["id"].as_i64().filter(|_| message.get("method").is_none()));
        if message["method"] == "session/update" {
            self.updates.push(message["params"]["update"].clone());
            if let Some(editor) = &mut self.editor {
                editor.see(&message["params"]["update"]);
            }
        } else if message.get("method").is_some() && message.get("id").is_some() {
            self.reply(message);
        }
    }

    /// Handles the next message, if there is one in time.
    pub fn next(&mut self, wait: Duration) -> Option<Value> {
        let message = self.lines.recv_timeout(wait).ok()?;
        self.handle(&message);
        Some(message)
    }

    /// Kills the agent as hard as it goes, and hears what it had said by then.
    pub fn kill(&mut self) -> Vec<Value> {
        self.serve = Some(Box::new(|_| Some(Reply::Silence)));
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        std::iter::from_fn(|| self.next(SOON)).collect()
    }

    /// Handles messages until an update of this kind has come.
    pub fn until_update(&mut self, kind: &str) -> Value {
        self.until(|message| message["params"]["update"]["sessionUpdate"] == kind)["params"]["update"].clone()
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

    /// The error of a request that must fail.
    pub fn fail(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params);
        let answer = self.answer(id);
        assert!(answer.get("result").is_none() && answer["error"]["code"].is_i64(), "{method}: {answer}");
        answer["error"].clone()
    }

    pub fn begin(&mut self, text: &str) -> i64 {
        self.begin_with(json!([{"type": "text", "text": text}]))
    }

    pub fn begin_with(&mut self, prompt: Value) -> i64 {
        let session = self.session.clone();
        self.ask("session/prompt", json!({"sessionId": session, "prompt": prompt}))
    }

    /// How a turn stopped.
    pub fn end(&mut self, id: i64) -> String {
        let stop = if self.dialect == "2" {
            let idle = |message: &Value| {
                let update = &message["params"]["update"];
                update["sessionUpdate"] == "state_update" && update["state"] == "idle"
            };
            // What ended in the background before makes the session say once more that it is idle.
            let answers = |message: &Value| message["id"] == id && message.get("method").is_none();
            let mut taken = self.answered.contains(&id);
            let last = self.until(|message| {
                taken |= answers(message);
                taken && idle(message) || answers(message) && message.get("error").is_some()
            });
            let words = last["error"].get("message").cloned();
            words.unwrap_or_else(|| last["params"]["update"]["stopReason"].clone())
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
        self.notify("session/cancel", json!({"sessionId": session}));
    }

    /// Takes a session up again with its whole conversation.
    pub fn load(&mut self, session: &str, cwd: &Path) -> Value {
        let answer = self.try_load(session, cwd);
        assert!(answer.get("result").is_some(), "{answer}");
        answer["result"].clone()
    }

    /// The same; gives the whole answer, good or bad.
    pub fn try_load(&mut self, session: &str, cwd: &Path) -> Value {
        let mut params = json!({"sessionId": session, "cwd": cwd, "mcpServers": []});
        let method = if self.dialect == "2" {
            params["replayFrom"] = json!({"type": "start"});
            "session/resume"
        } else {
            "session/load"
        };
        session.clone_into(&mut self.session);
        let id = self.ask(method, params);
        self.answer(id)
    }

    /// All that the agent said.
    pub fn said(&self) -> String {
        let chunks = self.updates.iter().filter(|update| update["sessionUpdate"] == "agent_message_chunk");
        chunks.filter_map(|update| update["content"]["text"].as_str()).collect()
    }

    pub fn kinds(&self) -> Vec<String> {
        self.updates.iter().map(|update| update["sessionUpdate"].as_str().unwrap().to_owned()).collect()
    }

    /// The methods that the agent called or told, in order.
    pub fn methods(&self) -> Vec<String> {
        self.heard.iter().filter_map(|message| message["method"].as_str()).map(str::to_owned).collect()
    }

    /// The most memory that the agent had so far, in KiB.
    pub fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let field = |name: &str| -> u64 {
            let line = status.lines().find(|line| line.starts_with(name)).unwrap();
            line.split_whitespace().nth(1).unwrap().parse().unwrap()
        };
        // The program itself is mapped, and in a debug build it is large.
        field("VmHWM:").saturating_sub(field("RssFile:"))
    }

    /// Ends the input and waits for the end of the process.
    pub fn hang_up(mut self) -> std::process::ExitStatus {
        self.stdin = None;
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(start.elapsed() < SOON, "the agent does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// The next frame, or `None` at the end.
fn frame(input: &mut BufReader<ChildStdout>, framing: Framing) -> Option<String> {
    let mut line = String::new();
    if framing == Framing::Lines {
        // A last line without an end was cut off: it was not said.
        input.read_line(&mut line).ok()?;
        return line.ends_with('\n').then_some(line);
    }
    let mut size = None;
    loop {
        line.clear();
        if input.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match (line.trim_end().split_once(": "), size) {
            (Some(("Content-Length", number)), _) => size = number.parse().ok(),
            (Some(_), _) => {}
            (None, Some(size)) if line == "\r\n" => {
                let mut body = vec![0; size];
                input.read_exact(&mut body).ok()?;
                return String::from_utf8(body).ok();
            }
            _ => panic!("no header: {line:?}"),
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

/// Waits until no such process runs any more.
pub fn gone(line: &str) {
    let start = Instant::now();
    while runs(line) {
        assert!(start.elapsed() < SOON, "`{line}` still runs");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// True if a process has this in its command line or in its environment.
pub fn is_marked(mark: &str) -> bool {
    let me = std::process::id().to_string();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let numbers = processes.filter(|entry| {
        entry.file_name().to_str().is_some_and(|name| name != me && name.bytes().all(|byte| byte.is_ascii_digit()))
    });
    numbers
        .flat_map(|entry| ["cmdline", "environ"].map(|name| std::fs::read(entry.path().join(name))))
        .any(|bytes| bytes.is_ok_and(|bytes| bytes.windows(mark.len()).any(|window| window == mark.as_bytes())))
}

/// Waits until this is so.
pub fn soon(what: &str, mut so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !so() {
        assert!(start.elapsed() < SOON, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A number from the environment, for tests that can be made longer.
pub fn number<T: std::str::FromStr>(name: &str, usual: T) -> T {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// Random numbers. The seed is printed; `TIELINE_SEED` plays them again.
pub struct Dice(u64);

impl Dice {
    pub fn new() -> Self {
        let seed = number("TIELINE_SEED", u64::from(std::process::id()) << 20 | 1);
        eprintln!("TIELINE_SEED={seed}");
        Self(seed)
    }

    pub fn roll(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }
}
