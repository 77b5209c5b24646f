//! The floor: a counting client written by hand with serde and nothing else. Typed, buffered, one thread.

#![allow(clippy::print_stdout, reason = "the report line is this program's output")]

use serde::Deserialize;
use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};
use tieline_bench::{Meter, Task};

#[derive(Deserialize)]
struct Incoming<'a> {
    id: Option<u64>,
    #[serde(borrow)]
    params: Option<Notification<'a>>,
    #[serde(borrow)]
    result: Option<Outcome<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Outcome<'a> {
    #[serde(borrow)]
    session_id: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Notification<'a> {
    #[serde(borrow)]
    session_id: Cow<'a, str>,
    #[serde(borrow)]
    update: Update<'a>,
}

// Not an enum with a tag: serde would keep a copy of every field until it has seen the tag.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Update<'a> {
    #[serde(borrow)]
    session_update: Cow<'a, str>,
    #[serde(borrow)]
    content: Option<Content<'a>>,
}

#[derive(Deserialize)]
struct Content<'a> {
    #[serde(borrow)]
    text: Cow<'a, str>,
}

#[derive(Default)]
struct Tally {
    updates: usize,
    bytes: usize,
}

impl Tally {
    fn add(&mut self, text: &str) {
        self.updates += 1;
        self.bytes += text.len();
    }
}

struct Agent<R, W> {
    input: R,
    output: W,
    last_id: u64,
    line: Vec<u8>,
    /// What came for each session and was not read yet.
    sessions: HashMap<String, Vec<String>>,
}

impl<R: BufRead, W: Write> Agent<R, W> {
    /// Calls a method and reads on until it is answered. Gives the id of a session, if the answer has one. What comes for the session
    /// that is `read` is counted at once; what comes for another one is kept until somebody asks for it.
    fn call(
        &mut self,
        method: &str,
        params: &serde_json::Value,
        read: (&str, &mut Tally),
    ) -> io::Result<Option<String>> {
        self.last_id += 1;
        let message = serde_json::json!({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params});
        writeln!(self.output, "{message}")?;
        while self.step()? {
            let message: Incoming<'_> = serde_json::from_slice(&self.line)?;
            if message.id == Some(self.last_id) {
                return Ok(message.result.and_then(|result| result.session_id).map(Cow::into_owned));
            }
            if let Some(Notification { session_id, update: Update { session_update, content: Some(content) } }) =
                message.params
                && session_update == "agent_message_chunk"
                && let Some(unread) = self.sessions.get_mut(&*session_id)
            {
                if *session_id == *read.0 {
                    read.1.add(&content.text);
                } else {
                    unread.push(content.text.into_owned());
                }
            }
        }
        Err(io::ErrorKind::UnexpectedEof.into())
    }

    fn step(&mut self) -> io::Result<bool> {
        self.line.clear();
        Ok(self.input.read_until(b'\n', &mut self.line)? > 0)
    }
}

fn run(input: impl Read, output: impl Write, prompt: &str) -> io::Result<()> {
    let sessions = match Task::parse(prompt) {
        Some(Task::Stream { .. }) => 1,
        Some(Task::Fan { sessions, .. }) => sessions,
        _ => return Err(io::ErrorKind::InvalidInput.into()),
    };
    let input = BufReader::with_capacity(64 * 1024, input);
    let mut agent = Agent { input, output, last_id: 0, line: Vec::new(), sessions: HashMap::new() };
    let mut tally = Tally::default();
    let nobody = &mut Tally::default();
    agent.call("initialize", &serde_json::json!({"protocolVersion": 1, "clientCapabilities": {}}), ("", nobody))?;
    let mut open = Vec::with_capacity(sessions);
    for _ in 0..sessions {
        let params = serde_json::json!({"cwd": "/", "mcpServers": []});
        let id = agent.call("session/new", &params, ("", nobody))?.unwrap_or_default();
        agent.sessions.insert(id.clone(), Vec::new());
        open.push(id);
    }
    let meter = Meter::start();
    let block = serde_json::json!({"type": "text", "text": prompt});
    let params = serde_json::json!({"sessionId": open[0], "prompt": [block]});
    agent.call("session/prompt", &params, (&open[0], &mut tally))?;
    for id in &open[1..] {
        let unread = agent.sessions.get_mut(id).map(std::mem::take).unwrap_or_default();
        for text in unread {
            tally.add(&text);
        }
    }
    println!("{}", meter.report(tally.updates, tally.bytes));
    Ok(())
}

fn main() -> io::Result<()> {
    let mut args = std::env::args().skip(1);
    let (Some(prompt), Some(program)) = (args.next(), args.next()) else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "usage: floor-client PROMPT AGENT COMMAND"));
    };
    let mut child = Command::new(program).args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let (Some(output), Some(input)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(io::ErrorKind::BrokenPipe.into());
    };
    run(input, output, &prompt)?;
    child.wait().map(drop)
}
