//! A command where there are no supervisors: started directly, without a sandbox and without a terminal.

use super::{Job, OUTPUT_LINGER, Shared, Stopped, at};
use crate::setup::Setup;
use crate::{ChildOutput, ChildProcess, ShutdownTimeouts, Spec};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::sync::watch;

/// Starts a command, and a task that goes with it to its end.
pub(super) async fn start(
    job: Job,
    setup: impl Fn() -> io::Result<Setup> + Send + 'static,
    shared: Arc<Shared>,
    owner: watch::Receiver<()>,
) -> io::Result<()> {
    let cant = |kind, why: &str| io::Error::new(kind, format!("can't run `{}`: {why}", job.line));
    let setup = setup()?;
    if setup.sandbox.is_some() {
        return Err(cant(io::ErrorKind::Unsupported, "its sandbox: only Linux has one"));
    }
    let Some((program, arguments)) = setup.words.split_first() else {
        return Err(cant(io::ErrorKind::InvalidInput, "there is no program"));
    };
    let heard = Arc::clone(&shared);
    let mut spec = Spec::new(program)
        .args(arguments)
        .current_dir(&setup.folder)
        .env_clear()
        .shutdown(ShutdownTimeouts { eof: Duration::ZERO, term: job.grace })
        .on_stderr(move |line| heard.push(format!("{line}\n").as_bytes()));
    for (name, value) in setup.env {
        spec = spec.env(name, value);
    }
    let (pipes, child) = ChildProcess::spawn(&spec).await.map_err(|error| cant(error.kind(), &error.to_string()))?;
    drop(pipes.input);
    tokio::spawn(attend(job, shared, owner, child, pipes.output));
    Ok(())
}

async fn attend(
    job: Job,
    shared: Arc<Shared>,
    mut owner: watch::Receiver<()>,
    child: ChildProcess,
    mut output: ChildOutput,
) {
    let mut stop = shared.stop.subscribe();
    let deadline = job.time.and_then(|time| tokio::time::Instant::now().checked_add(time));
    let end = async {
        let stopped = tokio::select! {
            _ = child.exit() => None,
            _ = stop.wait_for(|stop| *stop) => Some(Stopped::Cancelled),
            () = at(deadline) => Some(Stopped::TimedOut),
            // Nobody sends anything there: this is the end of the owner.
            _ = owner.changed() => {
                child.kill();
                Some(Stopped::Cancelled)
            }
        };
        let reason = if stopped.is_some() { child.shutdown().await } else { child.exit().await };
        (stopped, reason.status)
    };
    tokio::pin!(end);
    let mut buffer = vec![0; 64 << 10];
    let mut open = true;
    let (stopped, status) = loop {
        tokio::select! {
            ended = &mut end => break ended,
            read = output.read(&mut buffer), if open => open = shared.take(read, &buffer),
        }
    };
    let linger = Some(tokio::time::Instant::now() + OUTPUT_LINGER);
    while open {
        tokio::select! {
            read = output.read(&mut buffer) => open = shared.take(read, &buffer),
            () = at(linger) => open = false,
        }
    }
    shared.close(status, stopped, 0);
}
