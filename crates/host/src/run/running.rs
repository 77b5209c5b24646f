//! A command that runs, and those who watch it.

use super::Request;
use super::output::{Output, Ring};
use crate::sandbox::link::{Launched, Launcher};
use crate::sandbox::temp::Temp;
use crate::sandbox::wire::{Exit, HEAD, Message, length};
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use tieline_rpc::sync::Lock;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tokio::net::{UnixStream, unix::OwnedReadHalf, unix::OwnedWriteHalf};
use tokio::sync::watch;

/// After the end of everything, the output is read on for this long if something out of reach holds it open.
const LINGER: Duration = Duration::from_millis(250);
/// A supervisor that does not do what it is told is left to die when we stop talking to it.
const OBEY: Duration = Duration::from_secs(2);

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum End {
    /// It exited with this status; zero means all went well.
    Code(i32),
    /// A signal with this number killed it.
    Signal(i32),
    /// It is gone, but nobody could tell us how.
    Lost,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exited with status {code}"),
            Self::Signal(number) => write!(f, "was killed by signal {number}"),
            Self::Lost => f.write_str("ended, but its status was lost"),
        }
    }
}

/// Why we stopped a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// Its time was over.
    TimedOut,
    /// Somebody wanted it to end.
    Cancelled,
}

/// What became of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// How it ended.
    pub end: End,
    /// Why we stopped it, if we did.
    pub stopped: Option<Stopped>,
    /// So many processes outlived it, and were killed.
    pub leftovers: u32,
    /// How long it ran.
    pub took: Duration,
}

impl Outcome {
    /// True if it ended by itself, with status zero.
    pub fn is_success(&self) -> bool {
        self.end == End::Code(0) && self.stopped.is_none()
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.stopped {
            Some(Stopped::TimedOut) => {
                write!(f, "was stopped after {:.1} s: its time was over", self.took.as_secs_f64())?;
            }
            Some(Stopped::Cancelled) => f.write_str("was stopped")?,
            None => self.end.fmt(f)?,
        }
        match self.leftovers {
            0 => Ok(()),
            1 => f.write_str("; a process that it left behind was ended"),
            more => write!(f, "; {more} processes that it left behind were ended"),
        }
    }
}

/// A command that runs. Dropping it kills it at once, with everything it started; [`View::stop`] is the friendly way.
#[derive(Debug)]
pub struct Running {
    view: View,
    /// Closed when we are dropped.
    _life: watch::Sender<()>,
}

/// Watches a command without owning it.
#[derive(Debug, Clone)]
pub struct View {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    line: String,
    started: Instant,
    ring: Mutex<Ring>,
    /// How many bytes of output there were, and what became of it.
    state: watch::Sender<State>,
    stop: watch::Sender<bool>,
}

#[derive(Debug, Clone, Copy, Default)]
struct State {
    bytes: u64,
    outcome: Option<Outcome>,
}

impl std::ops::Deref for Running {
    type Target = View;

    fn deref(&self) -> &View {
        &self.view
    }
}

impl Running {
    pub(super) fn attend(launched: Launched, output: OwnedFd, request: &Request) -> io::Result<Self> {
        let Launched { talk, launcher, group } = launched;
        talk.set_nonblocking(true)?;
        let (talk, wishes) = UnixStream::from_std(talk)?.into_split();
        // Not checked to be a pipe, because a terminal is as good.
        let output = Receiver::from_owned_fd_unchecked(output)?;
        let shared = Arc::new(Shared {
            line: request.line(),
            started: Instant::now(),
            ring: Mutex::new(Ring::new(request.keep)),
            state: watch::Sender::default(),
            stop: watch::Sender::new(false),
        });
        let (life, owner) = watch::channel(());
        let attendant = Attendant {
            shared: Arc::clone(&shared),
            wishes: Some(wishes),
            launcher,
            group,
            owner,
            time: request.time,
            grace: request.grace,
            // The private temporary folder stays as long as the command.
            temp: request.policy.temp(),
        };
        tokio::spawn(attendant.attend(talk, output));
        Ok(Self { view: View { shared }, _life: life })
    }

    /// A handle that watches it and can outlive this one.
    pub fn view(&self) -> View {
        self.view.clone()
    }
}

impl View {
    /// The command in one line.
    pub fn line(&self) -> &str {
        &self.shared.line
    }

    /// When it was started.
    pub fn started(&self) -> Instant {
        self.shared.started
    }

    /// The output from a position on, as far as it is there and kept. `output(0)` is all of it.
    pub fn output(&self, from: u64) -> Output {
        self.shared.ring().read(from)
    }

    /// Waits for more output than there was up to a position. `None` when there is no more to come.
    pub async fn more(&self, from: u64) -> Option<Output> {
        let mut state = self.shared.state.subscribe();
        loop {
            let over = state.borrow_and_update().outcome.is_some();
            let news = self.output(from);
            if !news.text.is_empty() {
                return Some(news);
            }
            if over || state.changed().await.is_err() {
                return None;
            }
        }
    }

    /// What became of it, if it has ended.
    pub fn ended(&self) -> Option<Outcome> {
        self.shared.state.borrow().outcome
    }

    /// Waits until it has ended, and everything that it started, and all its output is there.
    pub async fn outcome(&self) -> Outcome {
        let mut state = self.shared.state.subscribe();
        // We hold the sender ourselves, so it can't be gone.
        let found = state.wait_for(|state| state.outcome.is_some()).await.ok().and_then(|state| state.outcome);
        let took = self.shared.started.elapsed();
        found.unwrap_or(Outcome { end: End::Lost, stopped: None, leftovers: 0, took })
    }

    /// Asks it and everything it started to end, and kills what does not within the time of grace.
    pub fn stop(&self) {
        self.shared.stop.send_replace(true);
    }
}

impl Shared {
    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.locked()
    }
}

/// The task that goes with a command to its end.
struct Attendant {
    shared: Arc<Shared>,
    /// Dropped, it ends everything.
    wishes: Option<OwnedWriteHalf>,
    launcher: Launcher,
    group: Option<i32>,
    owner: watch::Receiver<()>,
    time: Option<Duration>,
    grace: Duration,
    temp: Option<Arc<Temp>>,
}

impl Attendant {
    async fn attend(mut self, mut talk: OwnedReadHalf, mut output: Receiver) {
        let shared = Arc::clone(&self.shared);
        let mut stop = shared.stop.subscribe();
        let mut stopped = None;
        let deadline = self.time.and_then(|time| tokio::time::Instant::now().checked_add(time));
        let mut killed = None;
        let mut buffer = vec![0; 64 << 10];
        let mut open = true;
        let exit = last_word(&mut talk);
        tokio::pin!(exit);
        let exit = loop {
            tokio::select! {
                exit = &mut exit => break exit,
                read = output.read(&mut buffer), if open => open = shared.take(read, &buffer),
                _ = stop.wait_for(|stop| *stop), if stopped.is_none() => {
                    stopped = Some(Stopped::Cancelled);
                    killed = self.wish_the_end();
                }
                () = at(deadline), if stopped.is_none() => {
                    stopped = Some(Stopped::TimedOut);
                    killed = self.wish_the_end();
                }
                // Nobody sends anything there: this is the end of the owner.
                _ = self.owner.changed(), if self.wishes.is_some() => {
                    stopped.get_or_insert(Stopped::Cancelled);
                    self.wishes = None;
                }
                () = at(killed), if self.wishes.is_some() => self.wishes = None,
            }
        };
        self.wishes = None;
        if exit.is_none()
            && let Some(group) = self.group.and_then(rustix::process::Pid::from_raw)
        {
            // The supervisor was killed. What it held together is loose, but the first of them has a known number.
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        // When the launcher is gone, so is everything else.
        let launcher = self.launcher;
        let gone = tokio::task::spawn_blocking(move || launcher.wait());
        tokio::pin!(gone);
        let mut linger = None;
        while open {
            tokio::select! {
                read = output.read(&mut buffer) => open = shared.take(read, &buffer),
                _ = &mut gone, if linger.is_none() => linger = Some(tokio::time::Instant::now() + LINGER),
                () = at(linger) => open = false,
            }
        }
        if linger.is_none() {
            let _ = gone.await;
        }
        drop(self.temp);
        shared.ring().close();
        let (end, leftovers) = match exit {
            Some(Exit { signal: true, number, leftovers }) => (End::Signal(number), leftovers),
            Some(Exit { signal: false, number, leftovers }) => (End::Code(number), leftovers),
            None => (End::Lost, 0),
        };
        let leftovers = if stopped.is_some() { 0 } else { leftovers };
        let outcome = Outcome { end, stopped, leftovers, took: shared.started.elapsed() };
        shared.state.send_modify(|state| state.outcome = Some(outcome));
    }

    /// Gives the time by which it must have happened.
    fn wish_the_end(&self) -> Option<tokio::time::Instant> {
        let grace = u32::try_from(self.grace.as_millis()).unwrap_or(u32::MAX);
        if let (Some(wishes), Ok(bytes)) = (&self.wishes, Message::Stop(grace).encode()) {
            // There is room: it is the first that we say.
            let _ = wishes.try_write(&bytes);
        }
        Some(tokio::time::Instant::now() + self.grace + OBEY)
    }
}

impl Shared {
    /// Keeps what was read. False at the end.
    fn take(&self, read: io::Result<usize>, buffer: &[u8]) -> bool {
        let Ok(length @ 1..) = read else { return false };
        let total = {
            let mut ring = self.ring();
            ring.push(&buffer[..length]);
            ring.total()
        };
        self.state.send_modify(|state| state.bytes = total);
        true
    }
}

/// Waits until the supervisor tells how the command ended. `None` if it is gone without a word.
async fn last_word(talk: &mut OwnedReadHalf) -> Option<Exit> {
    loop {
        let mut head = [0; HEAD];
        talk.read_exact(&mut head).await.ok()?;
        let mut bytes = vec![0; length(head).ok()?];
        talk.read_exact(&mut bytes).await.ok()?;
        if let Message::Ended(exit) = Message::decode(&bytes).ok()? {
            return Some(exit);
        }
    }
}

async fn at(time: Option<tokio::time::Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}
