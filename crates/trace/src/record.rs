//! Stands between a client and an agent and writes down what it passes on: first into the file, then onward, byte for byte.

use crate::{Side, Writer};
use rustix::process::{Pid, Signal, kill_process};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tieline_process::{ChildProcess, Guard, Spec, Status};
use tieline_rpc::stdio_streams;
use tieline_rpc::sync::Lock as _;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::unix::pipe;
use tokio::signal::unix::{SignalKind, signal};

/// So much is passed on at once.
const CHUNK_BYTES: usize = 64 * 1024;
/// What the agent said last on its standard error is waited for, if nobody takes it, for this long.
const STDERR_LINGER: Duration = Duration::from_secs(5);

/// What others send to us and mean for the agent.
const PASSED_ON: [Signal; 4] = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT];

/// The recording, until it can't be written any more. What goes on between client and agent does not depend on it.
struct Tape {
    writer: Mutex<Option<Writer>>,
    trouble: Box<dyn Fn(io::Error) + Send + Sync>,
}

impl Tape {
    fn write(&self, write: impl FnOnce(&mut Writer) -> io::Result<()>) {
        let mut writer = self.writer.locked();
        if let Some(Err(error)) = writer.as_mut().map(write) {
            *writer = None;
            (self.trouble)(error);
        }
    }
}

/// Runs an agent between this process's own standard streams and a recording, until it ends. Signals go to the agent. When
/// we are killed, so is the agent with all that it started. `trouble` is told once if the recording can't be written; without a writer
/// everything is only passed on.
pub async fn record(
    spec: Spec,
    writer: Option<Writer>,
    trouble: impl Fn(io::Error) + Send + Sync + 'static,
) -> io::Result<Status> {
    // Heard from the start, so that none is lost.
    let signals = PASSED_ON.map(|number| (signal(SignalKind::from_raw(number.as_raw())), number));
    let (errors, their_errors) = io::pipe()?;
    let spec = spec.guard(Guard::IfPossible).stderr(OwnedFd::from(their_errors));
    let (pipes, child) = ChildProcess::spawn(&spec).await?;
    // It holds the other end of the pipe, whose end we wait for.
    drop(spec);
    let pid = Pid::from_raw(child.id().cast_signed());
    for (stream, number) in signals {
        let mut stream = stream?;
        tokio::spawn(async move {
            while let (Some(()), Some(pid)) = (stream.recv().await, pid) {
                let _ = kill_process(pid, number);
            }
        });
    }
    let tape = Arc::new(Tape { writer: Mutex::new(writer), trouble: Box::new(trouble) });
    let errors = pipe::Receiver::from_owned_fd(errors.into())?;
    let errors_tape = Arc::clone(&tape);
    // A task, because standard error may block, and that is nobody's business but the agent's.
    let errors_end = tokio::spawn(async move { pass(Side::Stderr, errors, tokio::io::stderr(), &errors_tape).await });
    let (input, output) = stdio_streams();
    let null = std::fs::File::options().read(true).write(true).open("/dev/null")?;
    let to_agent = async {
        pass(Side::Client, input, pipes.input, &tape).await;
        let _ = rustix::stdio::dup2_stdin(&null);
        std::future::pending().await
    };
    let to_client = async {
        pass(Side::Agent, pipes.output, output, &tape).await;
        let _ = rustix::stdio::dup2_stdout(&null);
    };
    // What the agent has said is passed on, also if it has ended meanwhile.
    let (reason, ()) = tokio::select! {
        ended = async { tokio::join!(child.exit(), to_client) } => ended,
        never = to_agent => never,
    };
    let _ = tokio::time::timeout(STDERR_LINGER, errors_end).await;
    tape.write(|writer| writer.exit(reason.status));
    Ok(reason.status)
}

/// Until one side has closed its end or the other no longer listens; both then learn it, because the streams are dropped.
async fn pass(from: Side, mut input: impl AsyncRead + Unpin, mut output: impl AsyncWrite + Unpin, tape: &Tape) {
    let mut chunk = vec![0; CHUNK_BYTES];
    while let Ok(size @ 1..) = input.read(&mut chunk).await {
        tape.write(|writer| writer.bytes(from, &chunk[..size]));
        if output.write_all(&chunk[..size]).await.is_err() || output.flush().await.is_err() {
            return;
        }
    }
    tape.write(|writer| if from.talks() { writer.end(from) } else { Ok(()) });
}
