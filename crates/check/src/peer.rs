//! A client for one agent process: speaks raw messages, keeps everything that was said, and lets the laws look at it.

use crate::sheet::Line;
use crate::witness::Witness;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tieline_process::{ChildInput, ChildOutput, ChildProcess, Guard, ShutdownTimeouts, Spec, Status};
use tieline_schema::Dialect;
use tieline_trace::Side;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

/// A longer line is no message to us.
const MAX_LINE_BYTES: usize = 64 * 1024 * 1024;
/// So long an agent may take to end after the end of its input; its own children included.
const END: Duration = Duration::from_secs(10);

/// Changes what an agent says, line by line, before anybody sees it: a broken agent is a good one behind this.
pub type Edit = Arc<dyn Fn() -> Box<dyn FnMut(String) -> Vec<String> + Send> + Send + Sync>;

/// How to reach the agent, and what to say to it.
#[derive(Clone)]
pub struct Settings {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// Its environment, all of it; none: ours.
    pub env: Option<Vec<(OsString, OsString)>>,
    /// What makes it do things.
    pub prompts: Option<Prompts>,
    /// How long an answer may take.
    pub patience: Duration,
    /// What stands between it and us, in tests.
    pub edit: Option<Edit>,
}

/// What makes an agent do things.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prompts {
    /// It says something, and no tool is used.
    pub say: Option<String>,
    /// It reads `a.txt`.
    pub read: Option<String>,
    /// It writes `made.txt`, and asks before.
    pub write: Option<String>,
    /// It says something, or starts a tool, and goes on until it is cancelled.
    pub wait: Option<String>,
    /// It uses a tool that fails, and says something then.
    pub fail: Option<String>,
}

impl Prompts {
    /// The names of the prompts, as in a file.
    pub const NAMES: [&str; 5] = ["say", "read", "write", "wait", "fail"];

    fn slot(&mut self, name: &str) -> Option<&mut Option<String>> {
        match name {
            "say" => Some(&mut self.say),
            "read" => Some(&mut self.read),
            "write" => Some(&mut self.write),
            "wait" => Some(&mut self.wait),
            "fail" => Some(&mut self.fail),
            _ => None,
        }
    }

    /// Reads an object of texts.
    pub fn parse(text: &str) -> Result<Self, String> {
        let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let Value::Object(fields) = value else { return Err("it is no object".into()) };
        let mut prompts = Self::default();
        for (name, text) in fields {
            let slot = prompts.slot(&name).ok_or_else(|| format!("`{name}` is none of {}", Self::NAMES.join(", ")))?;
            *slot = Some(text.as_str().ok_or_else(|| format!("`{name}` is no text"))?.to_owned());
        }
        Ok(prompts)
    }

    /// For a scripted model: lines that start with `model:`.
    pub fn directives() -> Self {
        let text = |text: &str| Some(text.to_owned());
        Self {
            say: text("model: say hello"),
            read: text("model: read {cwd}/a.txt\nmodel: say done"),
            write: text("model: write {cwd}/made.txt made\nmodel: say done"),
            // More than one piece of a stream, of which a server may keep back the last.
            wait: text("model: say It has started, and goes on until it is cancelled.\nmodel: wait"),
            fail: text("model: read {cwd}/nowhere.txt\nmodel: say done"),
        }
    }

    /// For an agent that calls itself so, as far as we know one.
    pub fn of(name: &str) -> Self {
        let text = |text: &str| Some(text.to_owned());
        match name {
            "tieline" => Self {
                say: text("/help"),
                read: text("show a.txt"),
                write: text("create made.txt with made"),
                wait: text("run sleep 60"),
                fail: text("show nowhere.txt"),
            },
            _ => Self { say: text("Say hello, and nothing else."), ..Self::default() },
        }
    }
}

/// Why a scenario can't go on.
#[derive(Debug, Clone)]
pub enum Stop {
    /// The agent has ended.
    Gone(String),
    /// Something did not come in time.
    Late(String),
    /// It can't be looked at, and why.
    Skip(String),
}

impl Stop {
    /// In words.
    pub fn said(&self) -> String {
        match self {
            Self::Gone(why) | Self::Late(why) | Self::Skip(why) => why.clone(),
        }
    }
}

/// What was answered.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The whole message.
    pub message: Value,
}

impl Reply {
    /// The code of the error, if it is one.
    pub fn code(&self) -> Option<i64> {
        self.message["error"]["code"].as_i64()
    }

    /// The result; null if it is an error.
    pub fn result(&self) -> &Value {
        &self.message["result"]
    }

    /// True if it has a result.
    pub fn is_ok(&self) -> bool {
        self.message.get("result").is_some()
    }
}

/// How a turn went.
#[derive(Debug, Clone, Default)]
pub struct Turn {
    /// Why it stopped; `error` if the prompt was refused.
    pub stop: String,
    /// What was reported.
    pub updates: Vec<Value>,
    /// What the agent asked.
    pub asked: Vec<Value>,
}

/// What to answer when the agent asks for permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// Yes.
    Allow,
    /// No.
    Reject,
    /// An option that was never offered.
    Unknown,
    /// Nothing.
    Silence,
}

/// A client for one agent process.
pub struct Peer {
    /// What is spoken.
    pub dialect: Dialect,
    /// The folder of the sessions.
    pub folder: PathBuf,
    /// The session that was opened last.
    pub session: String,
    /// What the agent answered to the hello.
    pub hello: Value,
    /// The answer to permission requests.
    pub choice: Choice,
    /// What makes it do things.
    pub prompts: Prompts,
    settings: Settings,
    child: ChildProcess,
    input: Option<ChildInput>,
    output: ChildOutput,
    edit: Option<Box<dyn FnMut(String) -> Vec<String> + Send>>,
    ready: std::collections::VecDeque<String>,
    buffer: Vec<u8>,
    searched: usize,
    /// What was said so far.
    pub witness: Witness,
    next: i64,
    turn: Turn,
    /// The state that was told last.
    state: String,
}

impl Peer {
    /// Starts the agent.
    pub async fn start(settings: &Settings, dialect: Dialect, folder: &Path) -> Result<Self, Stop> {
        let mut words = settings.command.iter();
        let shutdown = ShutdownTimeouts { eof: Duration::from_secs(5), term: Duration::from_secs(1) };
        let mut spec = Spec::new(words.next().cloned().unwrap_or_default()).args(words.cloned());
        spec = spec.guard(Guard::IfPossible).shutdown(shutdown);
        if let Some(env) = &settings.env {
            spec = env.iter().fold(spec.env_clear(), |spec, (name, value)| spec.env(name, value));
        }
        let spawned = ChildProcess::spawn(&spec).await;
        let (pipes, child) = spawned.map_err(|error| Stop::Gone(format!("it can't be started: {error}")))?;
        let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        Ok(Self {
            dialect,
            folder,
            session: String::new(),
            hello: Value::Null,
            choice: Choice::Allow,
            prompts: settings.prompts.clone().unwrap_or_default(),
            settings: settings.clone(),
            child,
            input: Some(pipes.input),
            output: pipes.output,
            edit: settings.edit.as_ref().map(|edit| edit()),
            ready: std::collections::VecDeque::new(),
            buffer: Vec::new(),
            searched: 0,
            witness: Witness::default(),
            next: 1,
            turn: Turn::default(),
            state: String::new(),
        })
    }

    /// A fresh agent that knows us; offers what is given.
    pub async fn greeted(settings: &Settings, dialect: Dialect, folder: &Path, offers: Value) -> Result<Self, Stop> {
        let mut peer = Self::start(settings, dialect, folder).await?;
        let params = hello(dialect, &offers);
        // How long a program takes to start is not the protocol's business.
        let reply = peer.call("initialize", params).await.map_err(late)?;
        let version = reply.result()["protocolVersion"].as_u64();
        if version != Some(dialect.version().into()) || peer.witness.judge.dialect() != Some(dialect) {
            let name = peer.witness.judge.dialect().map_or("nothing that we know", Dialect::name);
            return Err(Stop::Skip(format!("the agent does not speak {dialect}: it answers with {name}")));
        }
        peer.hello = reply.result().clone();
        if peer.settings.prompts.is_none() {
            let name = peer.hello.pointer("/agentInfo/name").or(peer.hello.pointer("/info/name"));
            peer.prompts = Prompts::of(name.and_then(Value::as_str).unwrap_or_default());
        }
        Ok(peer)
    }

    /// Opens a session.
    pub async fn open(&mut self) -> Result<Value, Stop> {
        let reply = self.call("session/new", json!({"cwd": self.folder, "mcpServers": []})).await?;
        if reply.code() == Some(-32000) {
            return Err(Stop::Skip("the agent wants a login before it opens a session".into()));
        }
        match reply.result()["sessionId"].as_str() {
            Some(id) => id.clone_into(&mut self.session),
            None => return Err(Stop::Skip(format!("no session could be opened: {}", reply.message["error"]))),
        }
        Ok(reply.result().clone())
    }

    /// Whether the agent offers something: a path into its capabilities as version 2 has it, and as version 1 has it.
    pub fn offers(&self, v2: &str, v1: &str) -> bool {
        let path = if self.dialect == Dialect::V1 {
            format!("/agentCapabilities/{v1}")
        } else {
            format!("/capabilities/{v2}")
        };
        self.hello.pointer(&path).is_some_and(|value| value == true || value.is_object())
    }

    /// Sends bytes as they are, and a line end.
    pub async fn send(&mut self, text: &str) -> Result<(), Stop> {
        // What we send wrong on purpose is nobody's breach; the laws only need to know what was asked.
        let _ = self.witness.hear(Side::Client, text);
        let Some(input) = &mut self.input else { return Err(Stop::Gone("its input is closed".into())) };
        let line = format!("{text}\n");
        let write = async {
            input.write_all(line.as_bytes()).await?;
            input.flush().await
        };
        match timeout(self.settings.patience, write).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(self.gone().await),
            Err(_) => Err(Stop::Late("the agent has stopped reading".into())),
        }
    }

    /// Tells something.
    pub async fn notify(&mut self, method: &str, params: Value) -> Result<(), Stop> {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string()).await
    }

    /// Asks, and gives the id.
    pub async fn ask(&mut self, method: &str, params: Value) -> Result<i64, Stop> {
        let id = self.next;
        self.next += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()).await?;
        Ok(id)
    }

    /// Asks, and waits for the answer.
    pub async fn call(&mut self, method: &str, params: Value) -> Result<Reply, Stop> {
        let id = self.ask(method, params).await?;
        let what = format!("no answer to `{method}`");
        let message = self.until(&what, |message| is_answer(message) && message["id"] == id).await?;
        Ok(Reply { message })
    }

    /// The same for a request of the open session.
    pub async fn call_in(&mut self, method: &str, mut params: Value) -> Result<Reply, Stop> {
        params["sessionId"] = self.session.clone().into();
        self.call(method, params).await
    }

    /// Waits for a message; others are served and kept.
    pub async fn until(&mut self, what: &str, found: impl Fn(&Value) -> bool) -> Result<Value, Stop> {
        self.within(None, what, found).await
    }

    /// The same, within a shorter time.
    pub async fn within(
        &mut self,
        time: Option<Duration>,
        what: &str,
        found: impl Fn(&Value) -> bool,
    ) -> Result<Value, Stop> {
        let patience = time.unwrap_or(self.settings.patience).min(self.settings.patience);
        let deadline = Instant::now() + patience;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(next) = timeout(left, self.next_message()).await else {
                return Err(Stop::Late(format!("{what} within {} s", patience.as_secs())));
            };
            let message = next?;
            let messages = message.as_array().cloned().unwrap_or_else(|| vec![message.clone()]);
            for message in &messages {
                self.serve(message).await?;
            }
            if found(&message) {
                return Ok(message);
            }
        }
    }

    /// The next message of the agent.
    async fn next_message(&mut self) -> Result<Value, Stop> {
        loop {
            let line = match self.ready.pop_front() {
                Some(line) => line,
                None => {
                    let Some(line) = self.line().await else { return Err(self.gone().await) };
                    match &mut self.edit {
                        Some(edit) => {
                            self.ready.extend(edit(line));
                            continue;
                        }
                        None => line,
                    }
                }
            };
            if !line.trim().is_empty()
                && let Some(message) = self.witness.hear(Side::Agent, &line)
            {
                return Ok(message);
            }
        }
    }

    /// A line, without its end; `None` at the end.
    async fn line(&mut self) -> Option<String> {
        loop {
            if let Some(at) = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=self.searched + at).collect();
                self.searched = 0;
                return Some(String::from_utf8_lossy(&line[..line.len() - 1]).into_owned());
            }
            self.searched = self.buffer.len();
            if self.buffer.len() > MAX_LINE_BYTES {
                return None;
            }
            self.buffer.reserve(16 * 1024);
            match self.output.read_buf(&mut self.buffer).await {
                Ok(size) if size > 0 => {}
                _ => return None,
            }
        }
    }

    async fn gone(&mut self) -> Stop {
        let reason = timeout(Duration::from_secs(2), self.child.exit()).await;
        let how = reason.map_or("closed its output".to_owned(), |reason| reason.status.to_string());
        let last = self.child.last_lines().join("; ");
        Stop::Gone(if last.is_empty() { format!("the agent {how}") } else { format!("the agent {how}: {last}") })
    }

    /// What the agent says and asks is kept; what it asks is answered.
    async fn serve(&mut self, message: &Value) -> Result<(), Stop> {
        let Some(method) = message["method"].as_str() else { return Ok(()) };
        let params = &message["params"];
        if method == "session/update" {
            let update = &params["update"];
            if update["sessionUpdate"] == "state_update" {
                self.state = update["state"].as_str().unwrap_or_default().to_owned();
            }
            self.turn.updates.push(update.clone());
            return Ok(());
        }
        let Some(id) = message.get("id") else { return Ok(()) };
        self.turn.asked.push(message.clone());
        let answer = match method {
            "session/request_permission" => match self.permission(params) {
                Some(outcome) => json!({"result": {"outcome": outcome}}),
                None => return Ok(()),
            },
            "fs/read_text_file" => match std::fs::read_to_string(params["path"].as_str().unwrap_or_default()) {
                Ok(content) => json!({"result": {"content": content}}),
                Err(_) => json!({"error": {"code": -32002, "message": "Resource not found"}}),
            },
            "fs/write_text_file" => {
                let path = Path::new(params["path"].as_str().unwrap_or_default());
                let inside = path.starts_with(&self.folder) && !path.components().any(|part| part.as_os_str() == "..");
                let text = params["content"].as_str().unwrap_or_default();
                if inside && std::fs::write(path, text).is_ok() {
                    json!({"result": {}})
                } else {
                    json!({"error": {"code": -32001, "message": "not here"}})
                }
            }
            _ => json!({"error": {"code": -32601, "message": "Method not found"}}),
        };
        let mut reply = json!({"jsonrpc": "2.0", "id": id});
        if let (Some(reply), Value::Object(answer)) = (reply.as_object_mut(), answer) {
            reply.extend(answer);
        }
        self.send(&reply.to_string()).await
    }

    fn permission(&self, params: &Value) -> Option<Value> {
        let kinds: &[&str] = match self.choice {
            Choice::Allow => &["allow_once", "allow_always"],
            Choice::Reject => &["reject_once", "reject_always"],
            Choice::Unknown => return Some(json!({"outcome": "selected", "optionId": "tieline-check-no-such-option"})),
            Choice::Silence => return None,
        };
        let options = params["options"].as_array()?;
        let pick = kinds.iter().find_map(|kind| options.iter().find(|option| option["kind"] == *kind));
        Some(match pick {
            Some(option) => json!({"outcome": "selected", "optionId": option["optionId"]}),
            None => json!({"outcome": "cancelled"}),
        })
    }

    /// Sends a prompt, and gives its id. What is reported from here on belongs to it.
    pub async fn begin(&mut self, text: &str) -> Result<i64, Stop> {
        self.turn = Turn::default();
        self.state.clear();
        let session = self.session.clone();
        self.ask("session/prompt", json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]})).await
    }

    /// Waits until the turn of a prompt is over.
    pub async fn end(&mut self, id: i64) -> Result<Turn, Stop> {
        let answered = |message: &Value| is_answer(message) && message["id"] == id;
        // In current version 2 the answer may come before the work and after it.
        let had = self.witness.log.iter().rev().find(|line| line.from == Side::Agent && answered(&line.value()));
        let message = match had.map(Line::value) {
            Some(message) => message,
            None => self.until("no answer to `session/prompt`", answered).await.map_err(late)?,
        };
        let mut stop = message["result"]["stopReason"].as_str().unwrap_or("error").to_owned();
        if self.dialect == Dialect::V2 && message.get("result").is_some() {
            if self.state != "idle" {
                self.until("the session is not told to be idle", |message| {
                    let update = &message["params"]["update"];
                    update["sessionUpdate"] == "state_update" && update["state"] == "idle"
                })
                .await
                .map_err(late)?;
            }
            let idle = self.turn.updates.iter().rev().find(|update| update["state"] == "idle");
            stop = idle.and_then(|idle| idle["stopReason"].as_str()).unwrap_or_default().to_owned();
        }
        self.turn.stop = stop;
        Ok(self.turn.clone())
    }

    /// A whole turn.
    pub async fn prompt(&mut self, text: &str) -> Result<Turn, Stop> {
        let id = self.begin(text).await?;
        self.end(id).await
    }

    /// What has been reported since the last prompt.
    pub fn turn(&self) -> &Turn {
        &self.turn
    }

    /// Forgets what has been reported.
    pub fn forget(&mut self) {
        self.turn = Turn::default();
    }

    /// Cancels the turn.
    pub async fn cancel(&mut self) -> Result<(), Stop> {
        self.notify("session/cancel", json!({"sessionId": self.session})).await
    }

    /// Asks something that nobody knows: when it is answered, what was sent before has been read.
    pub async fn canary(&mut self) -> Result<Reply, Stop> {
        self.call("_tieline.check/canary", json!({})).await
    }

    /// Closes the agent's input and waits for its end; what it still says is looked at, too. `None`: it had to be killed.
    pub async fn finish(&mut self) -> Option<Status> {
        self.input = None;
        let drained = timeout(END, async {
            while let Ok(message) = self.next_message().await {
                if message["method"] == "session/update" {
                    self.turn.updates.push(message["params"]["update"].clone());
                }
            }
        });
        let in_time = drained.await.is_ok();
        let status = timeout(Duration::from_secs(1), self.child.exit()).await;
        self.child.shutdown().await;
        status.ok().filter(|_| in_time).map(|reason| reason.status)
    }
}

impl Line {
    /// The message in it.
    pub fn value(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_default()
    }
}

/// How long a turn takes is the model's business.
pub fn late(stop: Stop) -> Stop {
    match stop {
        Stop::Late(why) => Stop::Skip(why),
        stop => stop,
    }
}

/// True for what answers something.
pub fn is_answer(message: &Value) -> bool {
    message.get("method").is_none() && message.get("id").is_some()
}

/// The hello of a client that offers this (in the shape of version 1).
pub fn hello(dialect: Dialect, offers: &Value) -> Value {
    let info = json!({"name": "tieline-check", "title": "Tieline check", "version": env!("CARGO_PKG_VERSION")});
    match dialect {
        Dialect::V1 => json!({"protocolVersion": 1, "clientCapabilities": offers, "clientInfo": info}),
        Dialect::V2Seed => json!({"protocolVersion": 2, "capabilities": {}, "clientInfo": info}),
        Dialect::V2 => json!({"protocolVersion": 2, "capabilities": {}, "info": info}),
    }
}
