//! A tiny agent without any SDK: it feeds clients from prebuilt bytes, as fast as the pipe goes.

use std::borrow::Cow;
use std::io::{self, BufRead, BufReader, Read, Write};

use serde_json::value::RawValue;
use tieline_bench::{Message, Prompt, Task, session_id, text};

/// Output goes out in blocks of about this size: the usual capacity of a pipe.
const BLOCK: usize = 64 * 1024;

/// One `session/update` line; `body` is JSON already, with its quotes.
fn update(session: &str, body: &str) -> String {
    format!(
        concat!(
            r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"{}","#,
            r#""update":{{"sessionUpdate":"agent_message_chunk","content":{{"type":"text","text":{}}}}}}}}}"#,
            "\n"
        ),
        session, body
    )
}

/// Writes `count` updates, dealt out over the sessions in turn, from one prebuilt block.
fn flood(out: &mut impl Write, sessions: &[String], count: usize, size: usize) -> io::Result<()> {
    let body = serde_json::to_string(&text(size))?;
    let cycle: Vec<String> = sessions.iter().map(|session| update(session, &body)).collect();
    let round = cycle.concat();
    let rounds = (BLOCK / round.len()).max(1);
    let block = round.repeat(rounds);
    let per_block = rounds * sessions.len();
    for _ in 0..count / per_block {
        out.write_all(block.as_bytes())?;
    }
    let rest: String = cycle.iter().cycle().take(count % per_block).map(String::as_str).collect();
    out.write_all(rest.as_bytes())
}

/// Asks for permission and waits for the answer, `count` times.
fn ask(input: &mut impl BufRead, out: &mut impl Write, session: &str, count: usize) -> io::Result<()> {
    let mut answer = String::new();
    for id in 1..=count {
        let line = format!(
            concat!(
                r#"{{"jsonrpc":"2.0","id":{},"method":"session/request_permission","params":{{"sessionId":"{}","#,
                r#""toolCall":{{"toolCallId":"call-1","title":"Edit file"}},"#,
                r#""options":[{{"optionId":"allow","name":"Allow","kind":"allow_once"}},"#,
                r#"{{"optionId":"reject","name":"Reject","kind":"reject_once"}}]}}}}"#,
                "\n"
            ),
            id, session
        );
        out.write_all(line.as_bytes())?;
        answer.clear();
        if input.read_line(&mut answer)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(())
}

/// Plays one turn.
fn turn(input: &mut impl BufRead, out: &mut impl Write, params: &str) -> io::Result<()> {
    let prompt: Prompt = serde_json::from_str(params)?;
    let session = prompt.session_id;
    match prompt.prompt.first().and_then(|block| Task::parse(&block.text)) {
        Some(Task::Stream { count, size }) => flood(out, &[session], count, size),
        Some(Task::Fan { count, size, sessions }) => {
            let sessions: Vec<String> = (1..=sessions).map(session_id).collect();
            flood(out, &sessions, count, size)
        }
        Some(Task::Drip { count, size, pause }) => {
            let line = update(&session, &serde_json::to_string(&text(size))?);
            for _ in 0..count {
                out.write_all(line.as_bytes())?;
                std::thread::sleep(pause);
            }
            Ok(())
        }
        Some(Task::Perm { count }) => ask(input, out, &session, count),
        Some(Task::Len(length)) => out.write_all(update(&session, &format!("\"{length}\"")).as_bytes()),
        None => Err(io::Error::new(io::ErrorKind::InvalidInput, "unknown prompt")),
    }
}

/// Serves until the input ends.
fn serve(input: impl Read, mut out: impl Write) -> io::Result<()> {
    let mut input = BufReader::with_capacity(BLOCK, input);
    let mut opened = 0;
    let mut line = Vec::new();
    let mut answers = Vec::new();
    loop {
        line.clear();
        if input.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let message: Message<'_> = serde_json::from_slice(&line)?;
        let (Some(method), Some(id)) = (message.method.as_deref(), message.id) else { continue };
        let result = match method {
            "initialize" => Cow::from(r#"{"protocolVersion":1,"agentCapabilities":{},"authMethods":[]}"#),
            "session/new" => {
                opened += 1;
                Cow::from(format!(r#"{{"sessionId":"{}"}}"#, session_id(opened)))
            }
            "session/set_mode" => Cow::from("{}"),
            "session/prompt" => {
                out.write_all(&std::mem::take(&mut answers))?;
                turn(&mut input, &mut out, message.params.map_or("null", RawValue::get))?;
                Cow::from(r#"{"stopReason":"end_turn"}"#)
            }
            _ => continue,
        };
        writeln!(answers, r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)?;
        // Requests that came in one read get their answers in one write.
        if !input.buffer().contains(&b'\n') {
            out.write_all(&answers)?;
            answers.clear();
        }
    }
}

fn main() -> io::Result<()> {
    // `File` has no buffer of its own; `Stdout` would look for newlines in every block.
    let out = std::fs::File::from(std::os::fd::AsFd::as_fd(&io::stdout()).try_clone_to_owned()?);
    match serve(io::stdin().lock(), out) {
        // A client that has seen enough may leave first.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}
