//! A child process: started, drained, watched, and ended with everything it started.

use crate::exit::last_lines;
use crate::output::Ring;
use crate::stderr::{MAX_KEPT_BYTES, drain};
use crate::supervisor::{self, Link};
use crate::tree::{self, Tree};
use crate::{ExitReason, Guard, ShutdownTimeouts, Spec, Status, locked};
use std::ffi::OsString;
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::process::Child;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::watch;

/// After the end of a process, its streams are read on for this long if something else holds them open.
const OUTPUT_LINGER: Duration = Duration::from_millis(250);
/// How often we look for new descendants while we wait for the end: soon at first, then less and less.
const LOOK_INTERVALS: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(200));
/// What is not gone so long after it was killed is not waited for.
const STUCK_AFTER: Duration = Duration::from_secs(5);

/// A child process. Dropping it kills it at once, with everything it started; [`Self::shutdown`] is the friendly way.
///
/// What "everything" is depends on the system. On Linux: its process group and every descendant, whatever session it moved
/// to; with a guardian ([`Guard`]) also daemons that forked twice. On other Unix systems: the process group. On Windows: only the
/// child itself.
#[derive(Debug)]
pub struct ChildProcess {
    shared: Arc<Shared>,
}

/// A child that runs, before anybody attends to it.
pub(crate) struct Started {
    pub(crate) child: Child,
    /// It has a supervisor, which is `child` then.
    pub(crate) link: Option<Link>,
    pub(crate) input: std::process::ChildStdin,
    pub(crate) output: std::process::ChildStdout,
    /// Not there if somebody else reads it.
    pub(crate) errors: Option<std::process::ChildStderr>,
}

struct Shared {
    id: u32,
    program: OsString,
    tree: Mutex<Tree>,
    link: Option<Link>,
    state: watch::Sender<State>,
    /// The end of its standard error.
    tail: Mutex<Ring>,
    shutdown: ShutdownTimeouts,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Child").field("program", &self.program).field("id", &self.id).finish_non_exhaustive()
    }
}

/// The two ends of a child's standard input and output that are ours.
#[derive(Debug)]
pub struct Pipes {
    /// What it reads.
    pub input: ChildInput,
    /// What it writes.
    pub output: ChildOutput,
}

#[derive(Debug, Clone, Copy, Default)]
struct State {
    /// How it ended.
    status: Option<Status>,
    /// Its standard error has ended.
    silent: bool,
    /// What it started has ended, too.
    over: bool,
}

impl ChildProcess {
    /// Starts a program. What is said through its pipes is the caller's to know.
    ///
    /// Needs a runtime with time and I/O. Fails with an error that names the program and says what is wrong.
    pub async fn spawn(spec: &Spec) -> io::Result<(Pipes, Self)> {
        spec.check()?;
        let guarded = spec.guard != Guard::Off && supervisor::is_ready();
        let started = if guarded { supervisor::guard(spec).await? } else { None };
        let started = match started {
            Some(started) => started,
            None => spec.start()?,
        };
        Self::attach(spec, started)
    }

    fn attach(spec: &Spec, started: Started) -> io::Result<(Pipes, Self)> {
        let Started { child, link, input, output, errors } = started;
        let program = link.as_ref().map(Link::program);
        let id = program.map_or(child.id(), i32::cast_unsigned);
        let mut tree = Tree::of(child, link.is_some());
        if let Some(program) = program {
            // Known by name, so that it is found also when its guardian is gone.
            tree.add(program);
        }
        let shared = Arc::new(Shared {
            id,
            program: spec.program.clone(),
            tree: Mutex::new(tree),
            link,
            state: watch::Sender::default(),
            tail: Mutex::new(Ring::new(MAX_KEPT_BYTES)),
            shutdown: spec.shutdown,
        });
        // From here on, an early return kills it.
        let child = Self { shared: Arc::clone(&shared) };
        // A thread of its own, so that the process is reaped also when no runtime runs any more.
        let attendant = Arc::clone(&shared);
        if let Err(error) = std::thread::Builder::new().name("child".into()).spawn(move || attendant.attend()) {
            drop(child);
            let _ = tree::wait(&shared.tree);
            return Err(error);
        }
        let errors = errors.map(ChildStderr::from_std).transpose()?;
        let on_line = spec.on_stderr.clone();
        let drained = Arc::clone(&shared);
        tokio::spawn(async move {
            if let Some(errors) = errors {
                drain(errors, &drained.tail, on_line).await;
            }
            drained.state.send_modify(|state| state.silent = true);
        });
        let output = ChildOutput::new(ChildStdout::from_std(output)?, &shared);
        let input = ChildInput { input: ChildStdin::from_std(input)?, shared };
        Ok((Pipes { input, output }, child))
    }

    /// The number of the program's process.
    pub fn id(&self) -> u32 {
        self.shared.id
    }

    /// The end of its standard error, at most 64 KiB.
    pub fn stderr_tail(&self) -> String {
        locked(&self.shared.tail).read(0).text
    }

    /// The last lines of its standard error, few and safe to show.
    pub fn last_lines(&self) -> Vec<String> {
        last_lines(&self.stderr_tail())
    }

    /// Waits until it has ended, for whatever reason. Any number of tasks can wait.
    pub async fn exit(&self) -> ExitReason {
        self.shared.exit().await
    }

    /// Ends it step by step: patience, SIGTERM, patience, SIGKILL, for the child and everything it started.
    ///
    /// The first step is the caller's: to close its input, which dropping it does. If something has to be written before, a
    /// child that has stopped reading can hold that up, so do both at the same time, with [`tokio::join`].
    pub async fn shutdown(&self) -> ExitReason {
        let shared = &self.shared;
        if !shared.over_within(shared.shutdown.eof, Tree::remember).await
            && !shared.over_within(shared.shutdown.term, Tree::ask_to_end).await
        {
            shared.over_within(STUCK_AFTER, Tree::kill).await;
        }
        if shared.state.borrow().status.is_none() {
            return ExitReason { status: Status::Stuck, stderr: self.stderr_tail() };
        }
        self.exit().await
    }

    /// Kills it at once, with everything it started.
    pub fn kill(&self) {
        if !self.shared.state.borrow().over {
            locked(&self.shared.tree).kill();
        }
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        self.kill();
        if let Some(link) = &self.shared.link {
            link.release();
        }
    }
}

impl Shared {
    /// Waits for the end, and sees to it that nothing is left. Blocks.
    fn attend(&self) {
        let guarded = self.link.as_ref().map(|link| {
            let status = link.last_word();
            if status.is_some() {
                self.state.send_modify(|state| state.status = status);
            }
            status.unwrap_or(Status::Unknown)
        });
        let status = tree::wait(&self.tree).map_or(Status::Unknown, Status::from);
        self.state.send_modify(|state| state.status = Some(guarded.unwrap_or(status)));
        let start = Instant::now();
        while locked(&self.tree).lives() && start.elapsed() < self.shutdown.term + STUCK_AFTER {
            if start.elapsed() < self.shutdown.term {
                locked(&self.tree).ask_to_end();
            } else {
                locked(&self.tree).kill();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        self.link.iter().for_each(Link::is_over);
        self.state.send_modify(|state| state.over = true);
    }

    async fn exit(&self) -> ExitReason {
        let mut state = self.state.subscribe();
        let status = state.wait_for(|state| state.status.is_some()).await.ok().and_then(|state| state.status);
        // What it said last may still be in the pipe.
        let _ = tokio::time::timeout(OUTPUT_LINGER, state.wait_for(|state| state.silent)).await;
        ExitReason { status: status.unwrap_or(Status::Unknown), stderr: locked(&self.tail).read(0).text }
    }

    /// Waits until nothing is left, and does something about it again and again.
    async fn over_within(&self, limit: Duration, step: impl Fn(&mut Tree)) -> bool {
        let mut state = self.state.subscribe();
        let over = state.wait_for(|state| state.over);
        tokio::pin!(over);
        let deadline = tokio::time::Instant::now() + limit;
        let mut pause = LOOK_INTERVALS.0;
        loop {
            if self.state.borrow().over {
                return true;
            }
            step(&mut locked(&self.tree));
            let next = deadline.min(tokio::time::Instant::now() + pause);
            pause = LOOK_INTERVALS.1.min(pause * 2);
            tokio::select! {
                _ = &mut over => return true,
                () = tokio::time::sleep_until(next) => {}
            }
            if next == deadline {
                return false;
            }
        }
    }
}

/// Standard input. Its end makes most programs end, and then nobody knows any more whom they started: so we look before.
#[derive(Debug)]
pub struct ChildInput {
    input: ChildStdin,
    shared: Arc<Shared>,
}

impl Drop for ChildInput {
    fn drop(&mut self) {
        if self.shared.state.borrow().status.is_none() {
            locked(&self.shared.tree).remember();
        }
    }
}

impl AsyncWrite for ChildInput {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.input).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.input).poll_flush(context)
    }

    /// Nothing yet: dropping it is what closes the pipe.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Standard output that ends with the process, also if something that it left behind holds the pipe open.
pub struct ChildOutput {
    output: ChildStdout,
    over: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl ChildOutput {
    fn new(output: ChildStdout, shared: &Shared) -> Self {
        let mut state = shared.state.subscribe();
        let over = async move {
            let _ = state.wait_for(|state| state.status.is_some()).await;
            tokio::time::sleep(OUTPUT_LINGER).await;
        };
        Self { output, over: Some(Box::pin(over)) }
    }
}

impl fmt::Debug for ChildOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.output.fmt(f)
    }
}

impl AsyncRead for ChildOutput {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if let Poll::Ready(read) = Pin::new(&mut self.output).poll_read(context, into) {
            return Poll::Ready(read);
        }
        // Nothing to read at the moment.
        if let Some(over) = &mut self.over {
            std::task::ready!(over.as_mut().poll(context));
            self.over = None;
        }
        Poll::Ready(Ok(()))
    }
}
