//! A client for one agent process: speaks raw messages, keeps everything that was said, and lets the laws look at it.

use crate::sheet::Line;
use crate::state::OPTIONAL;
use crate::witness::Witness;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tieline_json::cut;
use tieline_process::{ChildInput, ChildOutput, ChildProcess, Guard, Spec, Status};
use tieline_schema::Dialect;
use tieline_trace::Side;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::time::{Instant, timeout, timeout_at};

/// A longer line is no message to us.
const MAX_LINE_BYTES: u64 = 64 * 1024 * 1024;
/// A turn that is to go on is known to after this time.
const SOON: Duration = Duration::from_millis(500);
/// As much of a line as is told where it is the reason for something.
const MAX_TOLD_CHARS: usize = 100;
/// Why something can't be looked at where unknown requests are not answered.
pub const MUTE: &str =
    "the agent does not answer unknown requests, so nobody can tell when it has read what was sent before";
/// So long an agent may take to end after the end of its input; its own children included.
pub const END: Duration = Duration::from_secs(10);

/// Changes what an agent says, line by line, before anybody sees it: a broken agent is a good one behind this.
pub type Edit = Arc<dyn Fn() -> Editor + Send + Sync>;

/// The same for one process.
type Editor = Box<dyn FnMut(Vec<u8>) -> Vec<Vec<u8>> + Send>;

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

/// What makes an agent do things, by names:
///
/// | name | what it does |
/// |---|---|
/// | `say` | says something, and uses no tool |
/// | `read` | reads `a.txt` |
/// | `write` | writes `made.txt`, and asks before |
/// | `wait` | says something, or starts a tool, and goes on until it is cancelled |
/// | `fail` | uses a tool that fails, and says something then |
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Prompts(BTreeMap<String, String>);

impl Prompts {
    /// The names of the prompts, as in a file.
    pub const NAMES: [&str; 5] = ["say", "read", "write", "wait", "fail"];

    /// Reads an object of texts.
    pub fn parse(text: &str) -> Result<Self, String> {
        let prompts: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        match prompts.0.keys().find(|name| !Self::NAMES.contains(&name.as_str())) {
            Some(name) => Err(format!("`{name}` is none of {}", Self::NAMES.join(", "))),
            None => Ok(prompts),
        }
    }

    /// For an agent that calls itself so, as far as we know one; or `directives`, for a scripted model: lines that start with `model:`. More
    /// than one piece of a stream is said before a wait, because a server may keep back the last.
    pub fn of(name: &str) -> Self {
        let known = include_str!("../rules/prompts.json");
        let mut known: BTreeMap<String, Self> = serde_json::from_str(known).unwrap_or_default();
        known.remove(name).or_else(|| known.remove("others")).unwrap_or_default()
    }

    /// The prompt of this name for an agent that works in this folder.
    pub(crate) fn get(&self, name: &str, folder: &Path) -> Option<String> {
        self.0.get(name).map(|text| text.replace("{cwd}", &folder.to_string_lossy()))
    }
}

/// Why a scenario can't go on: what it is, and in words.
#[derive(Debug, Clone)]
pub struct Stop(pub Why, pub String);

/// What keeps a scenario from going on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// The agent has ended.
    Gone,
    /// Something was not answered in time.
    Late,
    /// A turn was answered, and is not over in time.
    Endless,
    /// No session is opened, although none of the reasons that are fine is given.
    Barred,
    /// No session is opened without a login.
    Login,
    /// It can't be looked at.
    Skip,
    /// The agent speaks another dialect.
    Unspoken,
    /// It is not for this agent.
    NotFor,
}

/// How a turn went.
#[derive(Debug, Clone, Default)]
pub struct Turn {
    /// Why it stopped; `error` if the prompt was refused, `withdrawn` if that was for a cancel (in current version 2, where it was not taken yet).
    pub stop: String,
    /// What was reported.
    pub updates: Vec<Value>,
    /// Under which session each of them came.
    sessions: Vec<Value>,
    /// What the agent asked.
    pub asked: Vec<Value>,
}

impl Turn {
    /// True if an update was reported whose kind starts like this.
    pub fn has(&self, kind: &str) -> bool {
        self.updates.iter().any(|update| is_kind(update, kind))
    }

    /// Where its work was reported, if that is only under other sessions, in words.
    pub fn astray(&self, session: &str) -> Option<String> {
        let mut work = self.updates.iter().zip(&self.sessions).filter(|(update, _)| is_work(update));
        let (_, first) = work.next()?;
        let astray = first != session && work.all(|(_, place)| place != session);
        astray.then(|| format!("what was said in the turn of {session:?} came under {first}"))
    }
}

/// True for an update whose kind starts like this.
pub fn is_kind(update: &Value, start: &str) -> bool {
    update["sessionUpdate"].as_str().is_some_and(|kind| kind.starts_with(start))
}

/// True for an update that shows that a turn is under way.
pub fn is_work(update: &Value) -> bool {
    is_kind(update, "agent_message") || is_kind(update, "tool_call")
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
    /// It does not answer what it does not know, so that nobody can tell when it has read something.
    pub mute: bool,
    /// The answer to permission requests.
    pub choice: Choice,
    /// What makes it do things.
    pub prompts: Prompts,
    settings: Settings,
    child: ChildProcess,
    input: Option<ChildInput>,
    output: BufReader<ChildOutput>,
    /// The start of a line whose end has not come yet.
    partial: Vec<u8>,
    edit: Editor,
    /// Lines that were not looked at yet.
    ready: VecDeque<Vec<u8>>,
    /// What was said so far.
    pub witness: Witness,
    /// What has been reported and asked since the last prompt.
    pub turn: Turn,
    /// The frame of that prompt.
    begun: usize,
    next: i64,
}

impl Peer {
    /// Starts the agent.
    pub async fn start(settings: &Settings, dialect: Dialect, folder: &Path) -> Result<Self, Stop> {
        let mut words = settings.command.iter();
        let mut spec =
            Spec::new(words.next().cloned().unwrap_or_default()).args(words.cloned()).guard(Guard::IfPossible);
        if let Some(env) = &settings.env {
            spec = env.iter().fold(spec.env_clear(), |spec, (name, value)| spec.env(name, value));
        }
        let spawned = ChildProcess::spawn(&spec).await;
        let (pipes, child) = spawned.map_err(|error| Stop(Why::Gone, format!("it can't be started: {error}")))?;
        let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        let mut witness = Witness::default();
        witness.judge.alone = true;
        Ok(Self {
            dialect,
            folder,
            session: String::new(),
            hello: Value::Null,
            mute: false,
            choice: Choice::Allow,
            prompts: settings.prompts.clone().unwrap_or_default(),
            settings: settings.clone(),
            child,
            input: Some(pipes.input),
            output: BufReader::new(pipes.output),
            partial: Vec::new(),
            edit: settings.edit.as_ref().map_or_else(|| Box::new(|line| vec![line]) as Editor, |edit| edit()),
            ready: VecDeque::new(),
            witness,
            next: 1,
            begun: 0,
            turn: Turn::default(),
        })
    }

    /// Says hello, and offers what is given.
    pub async fn greet(&mut self, offers: &Value) -> Result<(), Stop> {
        let (dialect, mut asked) = (self.dialect, hello(Side::Client, self.dialect));
        if dialect == Dialect::V1 {
            asked["clientCapabilities"] = offers.clone();
        }
        // How long a program takes to start is not the protocol's business.
        let reply = self.call("initialize", asked).await.map_err(late)?;
        let (version, spoken) = (reply["result"]["protocolVersion"].as_u64(), self.witness.judge.dialect);
        if version != Some(dialect.version().into()) || spoken != Some(dialect) {
            let name = spoken.map_or("nothing that we know", Dialect::name);
            // One that answers with a version and does not speak it has no dialect at all.
            let clean = spoken.is_none_or(|spoken| version == Some(spoken.version().into()));
            let why = if clean && (version.is_some() || !is_ok(&reply)) { Why::Unspoken } else { Why::Skip };
            return Err(Stop(why, format!("the agent does not speak {dialect}: it answers with {name}")));
        }
        self.hello = reply["result"].clone();
        if self.settings.prompts.is_none() {
            let name = self.hello.pointer("/agentInfo/name").or(self.hello.pointer("/info/name"));
            self.prompts = Prompts::of(name.and_then(Value::as_str).unwrap_or_default());
        }
        Ok(())
    }

    /// Opens a session.
    pub async fn open(&mut self) -> Result<Value, Stop> {
        let reply = self.call("session/new", json!({"cwd": self.folder, "mcpServers": []})).await?;
        if reply["error"]["code"] == -32000 {
            return Err(Stop(Why::Login, "the agent wants a login before it opens a session".into()));
        }
        let Some(id) = reply["result"]["sessionId"].as_str() else {
            let answer = reply.get("error").unwrap_or(&reply["result"]);
            let why = format!("no session is opened: `session/new` is answered with {answer}");
            return Err(Stop(Why::Barred, why));
        };
        id.clone_into(&mut self.session);
        Ok(reply["result"].clone())
    }

    /// Whether the agent offers a method.
    pub fn offers(&self, method: &str) -> bool {
        let row = OPTIONAL.iter().find(|(name, _)| *name == method);
        row.is_some_and(|(_, offers)| self.witness.judge.state.agent.as_ref().is_some_and(offers))
    }

    /// Sends bytes as they are, and a line end.
    pub async fn send(&mut self, text: &str) -> Result<(), Stop> {
        // What we send wrong on purpose is nobody's breach; the laws only need to know what was asked.
        let _ = self.witness.hear(Side::Client, text.as_bytes());
        let Some(input) = &mut self.input else { return Err(Stop(Why::Gone, "its input is closed".into())) };
        let line = format!("{text}\n");
        let write = async {
            input.write_all(line.as_bytes()).await?;
            input.flush().await
        };
        match timeout(self.settings.patience, write).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(self.gone().await),
            Err(_) => Err(Stop(Why::Late, "the agent has stopped reading".into())),
        }
    }

    /// Asks, and gives the id.
    pub async fn ask(&mut self, method: &str, params: Value) -> Result<i64, Stop> {
        let id = self.next;
        self.next += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()).await?;
        Ok(id)
    }

    /// Asks, and waits for the answer.
    pub async fn call(&mut self, method: &str, params: Value) -> Result<Value, Stop> {
        let id = self.ask(method, params).await?;
        let what = format!("no answer to `{method}`");
        self.until(&what, |message| is_answer(message) && message["id"] == id).await
    }

    /// The same for a request of the open session.
    pub async fn call_in(&mut self, method: &str, mut params: Value) -> Result<Value, Stop> {
        params["sessionId"] = self.session.clone().into();
        self.call(method, params).await
    }

    /// Waits for a message; others are served and kept.
    pub async fn until(&mut self, what: &str, found: impl Fn(&Value) -> bool) -> Result<Value, Stop> {
        self.within(Duration::MAX, what, found).await
    }

    /// The same, within a shorter time.
    pub async fn within(&mut self, time: Duration, what: &str, found: impl Fn(&Value) -> bool) -> Result<Value, Stop> {
        let patience = time.min(self.settings.patience);
        let deadline = Instant::now() + patience;
        loop {
            let Ok(next) = timeout_at(deadline, self.next_message()).await else {
                return Err(Stop(Why::Late, format!("{what} within {} s{}", patience.as_secs(), self.why_late())));
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

    /// What may be the reason that something does not come.
    fn why_late(&self) -> String {
        let rubbish =
            self.witness.rubbish().map(|line| format!("; what came is no message: “{}”", cut(line, MAX_TOLD_CHARS)));
        let last = self.child.last_lines().pop().map(|line| format!("; its standard error ends with: {line}"));
        rubbish.unwrap_or_default() + &last.unwrap_or_default()
    }

    /// The next message of the agent.
    async fn next_message(&mut self) -> Result<Value, Stop> {
        loop {
            let Some(line) = self.ready.pop_front() else {
                let Some(line) = self.line().await else { return Err(self.gone().await) };
                self.ready.extend((self.edit)(line));
                continue;
            };
            if !line.trim_ascii().is_empty()
                && let Some(message) = self.witness.hear(Side::Agent, &line)
            {
                return Ok(message);
            }
        }
    }

    /// A line, without its end; `None` at the end.
    async fn line(&mut self) -> Option<Vec<u8>> {
        let room = MAX_LINE_BYTES - self.partial.len() as u64;
        // What was read stays in `partial` if nobody waits for the rest.
        (&mut self.output).take(room).read_until(b'\n', &mut self.partial).await.ok()?;
        let mut line = std::mem::take(&mut self.partial);
        (line.pop() == Some(b'\n')).then_some(line)
    }

    async fn gone(&mut self) -> Stop {
        let reason = timeout(Duration::from_secs(2), self.child.exit()).await;
        let how = reason.map_or("closed its output".to_owned(), |reason| reason.status.to_string());
        let last = self.child.last_lines().join("; ");
        Stop(Why::Gone, if last.is_empty() { format!("the agent {how}") } else { format!("the agent {how}: {last}") })
    }

    /// What the agent says and asks is kept; what it asks is answered.
    async fn serve(&mut self, message: &Value) -> Result<(), Stop> {
        let Some(method) = message["method"].as_str() else { return Ok(()) };
        let params = &message["params"];
        if method == "session/update" {
            self.turn.updates.push(params["update"].clone());
            self.turn.sessions.push(params["sessionId"].clone());
            return Ok(());
        }
        let Some(id) = message.get("id") else { return Ok(()) };
        self.turn.asked.push(message.clone());
        let [path, text] = ["path", "content"].map(|key| params[key].as_str().unwrap_or_default());
        let path = Path::new(path);
        let inside = path.starts_with(&self.folder) && !path.components().any(|part| part.as_os_str() == "..");
        let (kind, answer) = match method {
            "session/request_permission" => match self.permission(params) {
                Some(outcome) => ("result", json!({"outcome": outcome})),
                None => return Ok(()),
            },
            "fs/read_text_file" => match std::fs::read_to_string(path) {
                Ok(content) => ("result", json!({"content": content})),
                Err(_) => ("error", json!({"code": -32002, "message": "Resource not found"})),
            },
            "fs/write_text_file" if inside && std::fs::write(path, text).is_ok() => ("result", json!({})),
            "fs/write_text_file" => ("error", json!({"code": -32001, "message": "not here"})),
            _ => ("error", json!({"code": -32601, "message": "Method not found"})),
        };
        self.send(&json!({"jsonrpc": "2.0", "id": id, kind: answer}).to_string()).await
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
        self.forget();
        self.begun = self.witness.log.len();
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
            None => self.until("no answer to `session/prompt`", answered).await?,
        };
        let withdrawn = self.dialect == Dialect::V2 && message["error"]["code"] == -32800;
        let refused = if withdrawn { "withdrawn" } else { "error" };
        if self.dialect != Dialect::V2 && is_ok(&message) && !message["result"]["stopReason"].is_string() {
            return Err(Stop(Why::Skip, "the answer to `session/prompt` has no `stopReason` that can be read".into()));
        }
        let mut stop = message["result"]["stopReason"].as_str().unwrap_or(refused).to_owned();
        if self.dialect == Dialect::V2 && message.get("result").is_some() {
            let is_idle = |update: &Value| is_kind(update, "state_update") && update["state"] == "idle";
            let told = self.turn.updates.iter().rfind(|update| is_kind(update, "state_update"));
            if !told.is_some_and(is_idle) {
                let idle = |message: &Value| is_idle(&message["params"]["update"]);
                let told = self.until("the session is not told to be idle", idle).await;
                told.map_err(|stop| if let Stop(Why::Late, why) = stop { Stop(Why::Endless, why) } else { stop })?;
            }
            let idle = self.turn.updates.iter().rfind(|update| is_idle(update));
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

    /// Forgets what has been reported.
    pub fn forget(&mut self) {
        self.turn = Turn::default();
    }

    /// Cancels the turn.
    pub async fn cancel(&mut self) -> Result<(), Stop> {
        let params = json!({"sessionId": self.session});
        self.send(&json!({"jsonrpc": "2.0", "method": "session/cancel", "params": params}).to_string()).await
    }

    /// Asks something that nobody knows: when it is answered, what was sent before has been read.
    pub async fn canary(&mut self) -> Result<Value, Stop> {
        if self.mute {
            return Err(Stop(Why::Skip, MUTE.into()));
        }
        self.call("_tieline.check/canary", json!({})).await
    }

    /// The same where nothing hangs on it.
    pub async fn pause(&mut self) -> Result<(), Stop> {
        if self.mute { Ok(()) } else { self.canary().await.map(drop) }
    }

    /// True if the turn of a prompt is over by itself, soon.
    pub async fn is_over(&mut self, id: i64) -> Result<bool, Stop> {
        let (current, session) = (self.dialect == Dialect::V2, self.session.clone());
        let ends = |message: &Value| {
            let (update, place) = (&message["params"]["update"], &message["params"]["sessionId"]);
            let idle = current && update["state"] == "idle" && *place == *session;
            idle || (!current || message.get("error").is_some()) && is_answer(message) && message["id"] == id
        };
        let since = self.witness.log.iter().skip(self.begun).filter(|line| line.from == Side::Agent);
        if since.map(Line::value).any(|message| ends(&message)) {
            return Ok(true);
        }
        match self.within(SOON, "it goes on", ends).await {
            Err(Stop(Why::Late, _)) => Ok(false),
            over => over.map(|_| true),
        }
    }

    /// Closes the agent's input and waits for its end; what it still says is looked at, too. `None`: it had to be killed, after so long.
    pub async fn finish(&mut self, patience: Duration) -> Option<Status> {
        self.input = None;
        // The end of its input may cancel what it is at.
        self.witness.judge.alone = false;
        let in_time = timeout(patience, async { while self.next_message().await.is_ok() {} }).await.is_ok();
        let status = timeout(Duration::from_secs(u64::from(in_time)), self.child.exit()).await;
        if status.is_err() {
            self.child.kill();
        }
        self.child.shutdown().await;
        status.ok().filter(|_| in_time).map(|reason| reason.status)
    }
}

impl Line {
    /// The message in it.
    pub fn value(&self) -> Value {
        tieline_trace::parse(&self.text).unwrap_or_default()
    }
}

/// What is not surely the agent's fault.
pub fn late(stop: Stop) -> Stop {
    if stop.0 == Why::Late { Stop(Why::Skip, stop.1) } else { stop }
}

/// However it went, the agent is still there.
pub fn survived<T>(done: Result<T, Stop>) -> Result<(), Stop> {
    if let Err(stop @ Stop(Why::Gone, _)) = done { Err(stop) } else { Ok(()) }
}

/// True for an answer that grants what was asked.
pub fn is_ok(answer: &Value) -> bool {
    answer.get("result").is_some()
}

/// True for what answers something.
pub fn is_answer(message: &Value) -> bool {
    message.get("method").is_none() && message.get("id").is_some()
}

/// What the kit says of itself as the hello of a side.
pub fn hello(side: Side, dialect: Dialect) -> Value {
    let text = include_str!("../rules/hellos.json").replace("$VERSION", env!("CARGO_PKG_VERSION"));
    let mut hellos: Value = serde_json::from_str(&text).unwrap_or_default();
    hellos[side.to_string()][dialect.name()].take()
}
