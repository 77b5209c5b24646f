//! The floor: an agent written by hand with serde and nothing else. Typed, buffered, one thread; it knows the benchmark's few
//! methods and no more, so a library can come near it but hardly below. What it can be seen to do is what ours does: wrong calls are
//! refused, and a turn can be cancelled.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::hash::{BuildHasher, Hasher};
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::time::Duration;
use tieline_bench::{Message, Prompt, Task, session_id, text};

/// Input and output are buffered by this much: the usual capacity of a pipe.
const BUFFER_BYTES: usize = 64 * 1024;

/// The one mode that every agent here has.
const MODE: &str = "code";

#[derive(Serialize)]
struct Answer<'a, T> {
    jsonrpc: &'static str,
    id: &'a RawValue,
    result: T,
}

#[derive(Serialize)]
struct Refused<'a> {
    jsonrpc: &'static str,
    id: &'a RawValue,
    error: Refusal,
}

/// Why a request is refused.
#[derive(Serialize)]
struct Refusal {
    code: i32,
    message: &'static str,
}

const UNKNOWN_METHOD: Refusal = Refusal { code: -32601, message: "Method not found" };
const BAD_PARAMS: Refusal = Refusal { code: -32602, message: "Invalid params" };
const UNKNOWN_SESSION: Refusal = Refusal { code: -32002, message: "Resource not found" };

#[derive(Serialize)]
struct Call<'a, T> {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<usize>,
    method: &'a str,
    params: T,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Initialized {
    protocol_version: u16,
    agent_info: Info,
    agent_capabilities: Empty,
    auth_methods: [Empty; 0],
}

#[derive(Serialize)]
struct Info {
    name: &'static str,
    version: &'static str,
}

#[derive(Serialize)]
struct Empty {}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Opened<'a> {
    session_id: &'a str,
    modes: Modes,
    config_options: [ModeOption; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Modes {
    current_mode_id: &'static str,
    available_modes: [Mode; 1],
}

#[derive(Serialize)]
struct Mode {
    id: &'static str,
    name: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ModeOption {
    id: &'static str,
    name: &'static str,
    category: &'static str,
    r#type: &'static str,
    current_value: &'static str,
    options: [ModeValue; 1],
}

#[derive(Serialize)]
struct ModeValue {
    value: &'static str,
    name: &'static str,
}

impl<'a> Opened<'a> {
    fn new(session_id: &'a str) -> Self {
        let option = ModeOption {
            id: "mode",
            name: "Mode",
            category: "mode",
            r#type: "select",
            current_value: MODE,
            options: [ModeValue { value: MODE, name: "Code" }],
        };
        let modes = Modes { current_mode_id: MODE, available_modes: [Mode { id: MODE, name: "Code" }] };
        Self { session_id, modes, config_options: [option] }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct New {
    cwd: String,
    // Needed, but there is nothing to be done with them.
    #[serde(rename = "mcpServers")]
    _mcp_servers: Vec<Server>,
}

#[derive(Deserialize)]
struct Server {
    #[serde(rename = "name")]
    _name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SetMode<'a> {
    #[serde(borrow)]
    session_id: Cow<'a, str>,
    #[serde(borrow)]
    mode_id: Cow<'a, str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Cancel<'a> {
    #[serde(borrow)]
    session_id: Cow<'a, str>,
}

/// The answer to a question.
#[derive(Deserialize)]
struct Decided<'a> {
    id: usize,
    #[serde(borrow)]
    result: Decision<'a>,
}

#[derive(Deserialize)]
struct Decision<'a> {
    #[serde(borrow)]
    outcome: Chosen<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Chosen<'a> {
    #[serde(borrow)]
    outcome: Cow<'a, str>,
    #[serde(borrow)]
    option_id: Option<Cow<'a, str>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Ended {
    stop_reason: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Notification<'a> {
    session_id: &'a str,
    update: Chunk<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Chunk<'a> {
    session_update: &'static str,
    message_id: &'a str,
    content: Content<'a>,
}

#[derive(Serialize)]
struct Content<'a> {
    r#type: &'static str,
    text: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Question<'a> {
    session_id: &'a str,
    tool_call: ToolCall,
    options: [Choice; 2],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolCall {
    tool_call_id: &'static str,
    title: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Choice {
    option_id: &'static str,
    name: &'static str,
    kind: &'static str,
}

/// Standard input, line by line, with those lines that came while a turn waited for another.
struct Input {
    from: BufReader<File>,
    waiting: VecDeque<Vec<u8>>,
}

impl Input {
    /// The next line; false at the end of the input.
    fn line(&mut self, line: &mut Vec<u8>) -> io::Result<bool> {
        line.clear();
        if let Some(next) = self.waiting.pop_front() {
            *line = next;
            return Ok(true);
        }
        Ok(self.from.read_until(b'\n', line)? > 0)
    }

    /// Whether there is a line that can be read without waiting.
    fn has_line(&self) -> bool {
        !self.waiting.is_empty() || self.from.buffer().contains(&b'\n')
    }

    /// Looks for a cancel of this session, for so long. What else comes is kept.
    fn cancelled(&mut self, session_id: &str, within: Duration) -> io::Result<bool> {
        let limit = Timespec::try_from(within).map_err(io::Error::other)?;
        let file = self.from.get_ref();
        if self.from.buffer().is_empty() && poll(&mut [PollFd::new(file, PollFlags::IN)], Some(&limit))? == 0 {
            return Ok(false);
        }
        let mut line = Vec::new();
        if self.from.read_until(b'\n', &mut line)? == 0 {
            return Ok(false);
        }
        if is_cancel(&line, session_id) {
            return Ok(true);
        }
        self.waiting.push_back(line);
        Ok(false)
    }
}

fn is_cancel(line: &[u8], session_id: &str) -> bool {
    let Ok(Message { method: Some(method), params: Some(params), .. }) = serde_json::from_slice(line) else {
        return false;
    };
    let of = |cancel: Cancel<'_>| cancel.session_id == session_id;
    method == "session/cancel" && serde_json::from_str(params.get()).is_ok_and(of)
}

/// What is queued goes out when the buffer is full, and before anything is waited for.
struct Output {
    to: File,
    queued: Vec<u8>,
}

impl Output {
    fn say(&mut self, message: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer(&mut self.queued, message)?;
        self.queued.push(b'\n');
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.queued.len() >= BUFFER_BYTES
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.write_all(&self.queued)?;
        self.queued.clear();
        Ok(())
    }

    fn answer(&mut self, id: &RawValue, result: impl Serialize) -> io::Result<()> {
        self.say(&Answer { jsonrpc: "2.0", id, result })
    }

    fn update(&mut self, session_id: &str, message_id: &str, text: &str) -> io::Result<()> {
        let content = Content { r#type: "text", text };
        let update = Chunk { session_update: "agent_message_chunk", message_id, content };
        let params = Notification { session_id, update };
        self.say(&Call { jsonrpc: "2.0", id: None, method: "session/update", params })
    }
}

/// Why a request has no answer.
enum Trouble {
    Refused(Refusal),
    Broken(io::Error),
}

impl From<Refusal> for Trouble {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self::Broken(error)
    }
}

struct Session {
    // Where it works: what a tool would need.
    _cwd: String,
    mode: String,
}

struct Agent {
    input: Input,
    out: Output,
    sessions: HashMap<String, Session>,
    questions: usize,
    messages: usize,
    /// Makes the ids of messages differ from those of other runs.
    seed: u64,
}

impl Agent {
    fn serve(&mut self) -> io::Result<()> {
        let mut line = Vec::new();
        while self.input.line(&mut line)? {
            // What is no request is passed over: a cancel that comes when nothing runs, or rubbish.
            if let Ok(Message { jsonrpc: "2.0", id: Some(id), method: Some(method), params }) =
                serde_json::from_slice(&line)
            {
                match self.request(id, &method, params.map_or("null", RawValue::get)) {
                    Ok(()) => {}
                    Err(Trouble::Refused(error)) => self.out.say(&Refused { jsonrpc: "2.0", id, error })?,
                    Err(Trouble::Broken(error)) => return Err(error),
                }
            }
            if self.out.is_full() || !self.input.has_line() {
                self.out.flush()?;
            }
        }
        Ok(())
    }

    fn request(&mut self, id: &RawValue, method: &str, params: &str) -> Result<(), Trouble> {
        match method {
            "initialize" => {
                let agent_info = Info { name: "floor-agent", version: env!("CARGO_PKG_VERSION") };
                let agent_capabilities = Empty {};
                let result = Initialized { protocol_version: 1, agent_info, agent_capabilities, auth_methods: [] };
                self.out.answer(id, result)?;
            }
            "session/new" => {
                let New { cwd, .. } = read(params)?;
                if !cwd.starts_with('/') {
                    return Err(BAD_PARAMS.into());
                }
                let name = session_id(self.sessions.len() + 1);
                self.out.answer(id, Opened::new(&name))?;
                self.sessions.insert(name, Session { _cwd: cwd, mode: MODE.into() });
            }
            "session/set_mode" => {
                let wanted: SetMode<'_> = read(params)?;
                let session = self.sessions.get_mut(&*wanted.session_id).ok_or(UNKNOWN_SESSION)?;
                if wanted.mode_id != MODE {
                    return Err(BAD_PARAMS.into());
                }
                if session.mode != wanted.mode_id {
                    session.mode = wanted.mode_id.into_owned();
                }
                self.out.answer(id, Empty {})?;
            }
            "session/prompt" => {
                let Prompt { session_id, prompt } = read(params)?;
                if !self.sessions.contains_key(&session_id) {
                    return Err(UNKNOWN_SESSION.into());
                }
                let task = prompt.first().and_then(|block| Task::parse(&block.text)).ok_or(BAD_PARAMS)?;
                let cancelled = self.turn(&session_id, task)?;
                self.out.answer(id, Ended { stop_reason: if cancelled { "cancelled" } else { "end_turn" } })?;
            }
            _ => return Err(UNKNOWN_METHOD.into()),
        }
        Ok(())
    }

    /// Plays one turn; true if it was cancelled.
    fn turn(&mut self, session_id: &str, task: Task) -> Result<bool, Trouble> {
        self.messages += 1;
        let message_id = format!("msg_{:016x}{:x}", self.seed, self.messages);
        match task {
            Task::Stream { count, size } => {
                let text = text(size);
                for _ in 0..count {
                    self.out.update(session_id, &message_id, &text)?;
                    if self.out.is_full() {
                        self.out.flush()?;
                        if self.input.cancelled(session_id, Duration::ZERO)? {
                            return Ok(true);
                        }
                    }
                }
            }
            Task::Drip { count, size, pause } => {
                let text = text(size);
                for _ in 0..count {
                    self.out.update(session_id, &message_id, &text)?;
                    self.out.flush()?;
                    if self.input.cancelled(session_id, pause)? {
                        return Ok(true);
                    }
                }
            }
            Task::Perm { count } => {
                for _ in 0..count {
                    if !self.ask(session_id)? {
                        return Ok(true);
                    }
                }
            }
            Task::Len(length) => self.out.update(session_id, &message_id, &length.to_string())?,
            Task::Fan { .. } => return Err(BAD_PARAMS.into()),
        }
        Ok(false)
    }

    /// Asks once; false if the turn was cancelled meanwhile.
    fn ask(&mut self, session_id: &str) -> io::Result<bool> {
        self.questions += 1;
        let params = Question {
            session_id,
            tool_call: ToolCall { tool_call_id: "call-1", title: "Edit file" },
            options: [
                Choice { option_id: "allow", name: "Allow", kind: "allow_once" },
                Choice { option_id: "reject", name: "Reject", kind: "reject_once" },
            ],
        };
        let id = Some(self.questions);
        self.out.say(&Call { jsonrpc: "2.0", id, method: "session/request_permission", params })?;
        self.out.flush()?;
        let mut line = Vec::new();
        while self.input.from.read_until(b'\n', &mut line)? > 0 {
            match serde_json::from_slice::<Decided<'_>>(&line) {
                Ok(Decided { id, result }) if id == self.questions => {
                    let Chosen { outcome, option_id } = result.outcome;
                    return Ok(outcome == "selected" && option_id.is_some());
                }
                _ if is_cancel(&line, session_id) => return Ok(false),
                _ => self.input.waiting.push_back(std::mem::take(&mut line)),
            }
            line.clear();
        }
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

fn read<'a, T: Deserialize<'a>>(params: &'a str) -> Result<T, Refusal> {
    serde_json::from_str(params).map_err(|_| BAD_PARAMS)
}

fn main() -> io::Result<()> {
    let own = |stream: std::os::fd::BorrowedFd<'_>| stream.try_clone_to_owned().map(File::from);
    let from = BufReader::with_capacity(BUFFER_BYTES, own(io::stdin().as_fd())?);
    let input = Input { from, waiting: VecDeque::new() };
    let out = Output { to: own(io::stdout().as_fd())?, queued: Vec::with_capacity(BUFFER_BYTES) };
    let sessions: HashMap<String, Session> = HashMap::new();
    let seed = sessions.hasher().build_hasher().finish();
    match (Agent { input, out, sessions, questions: 0, messages: 0, seed }).serve() {
        // A client that has seen enough may leave first.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}
