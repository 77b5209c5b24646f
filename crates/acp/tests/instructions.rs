//! How many instructions one chunk of text costs, out of an agent and into a client, against the numbers in
//! `docs/instructions.txt`. Fails when they grow by more than a tenth.
//!
//! `cargo test --profile dist -p tieline --test instructions` counts with valgrind. In an unoptimised build the numbers mean
//! nothing, so there it does nothing. `TIELINE_BLESS=1` writes the new numbers down.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs, reason = "a test with its own main")]

use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::process::{Command, ExitCode};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use tieline::agent::{About, Agent, Opened, Opening, Session, Turn};
use tieline::{ContentBlock, Result, StopReason, Transport, agent, client};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Each count is the difference between this many chunks and twice as many, so that the start does not matter.
const CHUNKS: u64 = 2000;
/// How much more than the written number is too much, in percent.
const TOLERANCE: u64 = 10;
const TEXT: &str = "Sixty-four bytes of text, as a model may send them in one piece.";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, role, count] = &arguments[..]
        && let Ok(count) = count.parse()
    {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        match &**role {
            "out" => runtime.block_on(chunks_out(count)),
            _ => runtime.block_on(chunks_in(count)),
        }
        return ExitCode::SUCCESS;
    }
    if cfg!(debug_assertions) {
        println!("instructions: not counted in an unoptimised build; use cargo test --profile dist");
        return ExitCode::SUCCESS;
    }
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("instructions: NOT COUNTED, because valgrind is not installed");
        // Whoever set valgrind up does not want to hear that it is missing.
        let wanted = std::env::var_os("TIELINE_NEED_VALGRIND").is_some();
        return if wanted { ExitCode::FAILURE } else { ExitCode::SUCCESS };
    }
    compare()
}

fn compare() -> ExitCode {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/instructions.txt");
    let written = std::fs::read_to_string(&file).unwrap_or_default();
    let bless = std::env::var_os("TIELINE_BLESS").is_some();
    let mut fresh: String =
        written.lines().filter(|line| line.starts_with('#')).fold(String::new(), |all, line| all + line + "\n");
    let mut failed = false;
    for role in ["out", "in"] {
        let count = (instructions(role, 2 * CHUNKS) - instructions(role, CHUNKS)) / CHUNKS;
        let _ = writeln!(fresh, "{role} {count}");
        let known = written.lines().find_map(|line| line.strip_prefix(role)?.trim().parse::<u64>().ok());
        let verdict = match known {
            _ if bless => "written down",
            None => "no number to compare with; set TIELINE_BLESS=1",
            Some(known) if count * 100 > known * (100 + TOLERANCE) => "TOO MANY",
            Some(known) if count * (100 + TOLERANCE) < known * 100 => "far fewer: write it down with TIELINE_BLESS=1",
            Some(_) => "ok",
        };
        failed |= !bless && known.is_none_or(|known| count * 100 > known * (100 + TOLERANCE));
        println!("instructions for one chunk {role}: {count}, known {known:?}: {verdict}");
    }
    if bless {
        std::fs::write(file, fresh).unwrap();
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Runs this program under valgrind in one of its roles.
fn instructions(role: &str, count: u64) -> u64 {
    let output = Command::new("valgrind")
        .args(["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"])
        .arg(std::env::current_exe().unwrap())
        .args([role, &count.to_string()])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let line = said
        .lines()
        .find(|line| line.contains("I refs") || line.contains("I   refs"))
        .unwrap_or_else(|| panic!("{said}"));
    line.rsplit(' ').next().unwrap().replace(',', "").parse().unwrap()
}

/// An agent that says so many chunks and nothing else.
struct Talker(u64);

impl Agent for Talker {
    type Session = Self;

    fn about(&self) -> About {
        About::new("talker", "1")
    }

    async fn open(&self, opening: Opening) -> Result<Opened<Self>> {
        opening.session.set_id("s".into());
        Ok(Opened::new(Self(self.0)))
    }
}

impl Session for Talker {
    async fn prompt(&self, turn: Turn, _: Vec<ContentBlock>) -> Result<StopReason> {
        for _ in 0..self.0 {
            turn.say(TEXT).await?;
        }
        Ok(StopReason::EndTurn)
    }
}

const HELLO: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}"#;
const NEW: &str = r#"{"jsonrpc":"2.0","id":2,"method":"session/new","params":{"cwd":"/","mcpServers":[]}}"#;
const PROMPT: &str = r#"{"jsonrpc":"2.0","id":3,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}"#;

async fn chunks_out(count: u64) {
    // The answers to the three requests, and the chunks.
    let script = Script::new(vec![line(HELLO), line(NEW), line(PROMPT)], 1, count + 3);
    let seen = Arc::clone(&script.0);
    agent::serve(Talker(count), Transport::new(script.clone(), script)).await.unwrap();
    assert_eq!(seen.lock().unwrap().lines, count + 3);
}

async fn chunks_in(count: u64) {
    let chunk = format!(
        r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s","update":{{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{{"type":"text","text":"{TEXT}"}}}}}}}}"#
    );
    let mut turn = line(&chunk).repeat(usize::try_from(count).unwrap());
    turn.extend(line(r#"{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}"#));
    let hello = line(r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentCapabilities":{}}}"#);
    let new = line(r#"{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s"}}"#);
    let script = Script::new(vec![hello, new, turn], 0, u64::MAX);
    let agent = client::connect(Transport::new(script.clone(), script)).await.unwrap();
    let session = agent.open("/").await.unwrap();
    let mut turn = session.prompt("go").await.unwrap();
    let mut heard = 0;
    while turn.next().await.is_some() {
        heard += 1;
    }
    // And the user's own message.
    assert_eq!(heard, count + 1);
}

fn line(text: &str) -> Vec<u8> {
    format!("{text}\n").into_bytes()
}

/// A peer made of bytes: gives its next part once so many lines were written to it. It costs next to nothing.
#[derive(Clone)]
struct Script(Arc<Mutex<State>>);

struct State {
    parts: Vec<Vec<u8>>,
    part: usize,
    at: usize,
    /// Lines written to us.
    lines: u64,
    /// How many parts it is ahead of the lines.
    ahead: u64,
    /// It ends after so many lines.
    end: u64,
    waker: Option<Waker>,
}

impl Script {
    fn new(parts: Vec<Vec<u8>>, ahead: u64, end: u64) -> Self {
        Self(Arc::new(Mutex::new(State { parts, part: 0, at: 0, lines: 0, ahead, end, waker: None })))
    }
}

impl AsyncRead for Script {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut state = self.0.lock().unwrap();
        let State { parts, part, at, lines, ahead, end, waker } = &mut *state;
        let due = if *part < parts.len() { *lines + *ahead > *part as u64 } else { lines >= end };
        if !due {
            *waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        if let Some(bytes) = parts.get(*part) {
            let count = into.remaining().min(bytes.len() - *at);
            into.put_slice(&bytes[*at..*at + count]);
            *at += count;
            if *at == bytes.len() {
                (*part, *at) = (*part + 1, 0);
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Script {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut state = self.0.lock().unwrap();
        state.lines += bytes.iter().map(|byte| u64::from(*byte == b'\n')).sum::<u64>();
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
