//! The floor: an agent written by hand with serde and nothing else. Typed, buffered, one thread; it knows the benchmark's few
//! methods and no more, so a library can come near it but hardly below.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read, Write};
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
    agent_capabilities: Empty,
    auth_methods: [Empty; 0],
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
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SetMode<'a> {
    #[serde(borrow)]
    session_id: Cow<'a, str>,
    #[serde(borrow)]
    mode_id: Cow<'a, str>,
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

/// What is queued goes out when the buffer is full, and before anything is waited for.
struct Output<W> {
    to: W,
    queued: Vec<u8>,
}

impl<W: Write> Output<W> {
    fn say(&mut self, message: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer(&mut self.queued, message)?;
        self.queued.push(b'\n');
        if self.queued.len() >= BUFFER_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.write_all(&self.queued)?;
        self.queued.clear();
        Ok(())
    }

    fn update(&mut self, session_id: &str, text: &str) -> io::Result<()> {
        let update = Chunk { session_update: "agent_message_chunk", content: Content { r#type: "text", text } };
        let params = Notification { session_id, update };
        self.say(&Call { jsonrpc: "2.0", id: None, method: "session/update", params })
    }
}

/// Plays one turn.
fn turn(input: &mut impl BufRead, out: &mut Output<impl Write>, params: &str) -> io::Result<()> {
    let Prompt { session_id, prompt } = serde_json::from_str(params)?;
    match prompt.first().and_then(|block| Task::parse(&block.text)) {
        Some(Task::Stream { count, size }) => {
            let text = text(size);
            (0..count).try_for_each(|_| out.update(&session_id, &text))
        }
        Some(Task::Drip { count, size, pause }) => {
            let text = text(size);
            for _ in 0..count {
                out.update(&session_id, &text)?;
                out.flush()?;
                std::thread::sleep(pause);
            }
            Ok(())
        }
        Some(Task::Perm { count }) => {
            let mut answer = Vec::new();
            for id in 1..=count {
                let params = Question {
                    session_id: &session_id,
                    tool_call: ToolCall { tool_call_id: "call-1", title: "Edit file" },
                    options: [
                        Choice { option_id: "allow", name: "Allow", kind: "allow_once" },
                        Choice { option_id: "reject", name: "Reject", kind: "reject_once" },
                    ],
                };
                out.say(&Call { jsonrpc: "2.0", id: Some(id), method: "session/request_permission", params })?;
                out.flush()?;
                answer.clear();
                input.read_until(b'\n', &mut answer)?;
                serde_json::from_slice::<Message<'_>>(&answer)?;
            }
            Ok(())
        }
        Some(Task::Len(length)) => out.update(&session_id, &length.to_string()),
        Some(Task::Fan { .. }) | None => Err(io::ErrorKind::InvalidInput.into()),
    }
}

fn serve(input: impl Read, to: impl Write) -> io::Result<()> {
    let mut input = BufReader::with_capacity(BUFFER_BYTES, input);
    let mut out = Output { to, queued: Vec::with_capacity(BUFFER_BYTES) };
    // Where each session works. A request for one that is not open is refused, and so is a mode that is none.
    let mut sessions: HashMap<String, String> = HashMap::new();
    let mut line = Vec::new();
    loop {
        line.clear();
        if input.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let Message { id: Some(id), method: Some(method), params } = serde_json::from_slice(&line)? else { continue };
        match &*method {
            "initialize" => {
                let result = Initialized { protocol_version: 1, agent_capabilities: Empty {}, auth_methods: [] };
                out.say(&Answer { jsonrpc: "2.0", id, result })?;
            }
            "session/new" => {
                let New { cwd } = serde_json::from_str(params.map_or("null", RawValue::get))?;
                let name = session_id(sessions.len() + 1);
                out.say(&Answer { jsonrpc: "2.0", id, result: Opened::new(&name) })?;
                sessions.insert(name, cwd);
            }
            "session/set_mode" => {
                let wanted: SetMode<'_> = serde_json::from_str(params.map_or("null", RawValue::get))?;
                if !sessions.contains_key(&*wanted.session_id) || wanted.mode_id != MODE {
                    return Err(io::ErrorKind::InvalidInput.into());
                }
                out.say(&Answer { jsonrpc: "2.0", id, result: Empty {} })?;
            }
            "session/prompt" => {
                turn(&mut input, &mut out, params.map_or("null", RawValue::get))?;
                out.say(&Answer { jsonrpc: "2.0", id, result: Ended { stop_reason: "end_turn" } })?;
            }
            _ => {}
        }
        if !input.buffer().contains(&b'\n') {
            out.flush()?;
        }
    }
}

fn main() -> io::Result<()> {
    let out = std::fs::File::from(std::os::fd::AsFd::as_fd(&io::stdout()).try_clone_to_owned()?);
    match serve(io::stdin().lock(), out) {
        // A client that has seen enough may leave first.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}
