//! A command that runs, and those who watch it.

use crate::output::{Output, Ring};
use crate::supervisor::{Launched, Message, Setup, Streams, Supervisor, Temp, Trouble, hear, launch};
use crate::tree::Tree;
use crate::tty::{self, Size};
use crate::{Status, locked};
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tokio::net::{UnixStream, unix::OwnedReadHalf, unix::OwnedWriteHalf};
use tokio::sync::watch;

/// After the end of everything, the output is read on for this long if something out of reach holds it open.
const OUTPUT_LINGER: Duration = Duration::from_millis(250);
/// A supervisor that does not do what it is told is left to die when we stop talking to it.
const OBEY_TIMEOUT: Duration = Duration::from_secs(2);

/// So often what a command needs is looked at before it is given up because something there moves all the time.
const MAX_LOOKS: u32 = 8;

/// What there is to know of a command besides what is run.
#[derive(Debug, Clone)]
pub struct Job {
    /// It in one line, for people.
    pub line: String,
    /// Keeps so many bytes of the end of its output.
    pub keep: usize,
    /// Stops it after this time.
    pub time: Option<Duration>,
    /// How long it has between being asked to end and being killed.
    pub grace: Duration,
    /// Gives it a terminal of this size.
    pub tty: Option<Size>,
    /// Its private temporary folder, which stays as long as the command.
    pub temp: Option<Arc<Temp>>,
}

/// Why we stopped a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// Its time was over.
    TimedOut,
    /// Somebody wanted it to end.
    Cancelled,
    /// It took more memory than it has.
    Full,
}

/// What became of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// How it ended.
    pub end: Status,
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
        self.end == Status::Code(0) && self.stopped.is_none()
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.stopped {
            Some(Stopped::TimedOut) => {
                write!(f, "was stopped after {:.1} s: its time was over", self.took.as_secs_f64())?;
            }
            Some(Stopped::Cancelled) => f.write_str("was stopped")?,
            Some(Stopped::Full) => {
                f.write_str("was killed: with what it started it took more memory than it may have")?;
            }
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
    /// Starts a command. Needs a runtime with time and I/O.
    ///
    /// `setup` is asked anew if something that it names has moved before the command runs. Fails with an error that says what
    /// is wrong: with the program, with its folder, or with the sandbox, which is never weaker than asked for.
    pub async fn start(job: Job, setup: impl Fn() -> io::Result<Setup> + Send + 'static) -> io::Result<Self> {
        let (output, writer) = tty::open(job.tty)?;
        let launched = tokio::task::spawn_blocking(move || try_to_launch(setup, &writer)).await;
        let launched = launched.map_err(io::Error::other)??.map_err(|trouble| {
            let kind = trouble.kind();
            let what = if trouble.program { trouble.text } else { format!("its sandbox: {}", trouble.text) };
            io::Error::new(kind, format!("can't run `{}`: {what}", job.line))
        })?;
        Self::attend(launched, output, job)
    }

    fn attend(launched: Launched, output: OwnedFd, job: Job) -> io::Result<Self> {
        let Launched { talk, supervisor, program } = launched;
        talk.set_nonblocking(true)?;
        let (talk, wishes) = UnixStream::from_std(talk)?.into_split();
        // Not checked to be a pipe, because a terminal is as good.
        let output = Receiver::from_owned_fd_unchecked(output)?;
        let shared = Arc::new(Shared {
            line: job.line,
            started: Instant::now(),
            ring: Mutex::new(Ring::new(job.keep)),
            state: watch::Sender::default(),
            stop: watch::Sender::new(false),
        });
        let (life, owner) = watch::channel(());
        let attendant = Attendant {
            shared: Arc::clone(&shared),
            wishes: Some(wishes),
            supervisor,
            tree: program.and_then(Tree::of_program),
            owner,
            time: job.time,
            grace: job.grace,
            temp: job.temp,
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
        locked(&self.shared.ring).read(from)
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
        found.unwrap_or(Outcome { end: Status::Unknown, stopped: None, leftovers: 0, took })
    }

    /// Asks it and everything it started to end, and kills what does not within the time of grace.
    pub fn stop(&self) {
        self.shared.stop.send_replace(true);
    }
}

/// The task that goes with a command to its end.
struct Attendant {
    shared: Arc<Shared>,
    /// Dropped, it ends everything.
    wishes: Option<OwnedWriteHalf>,
    supervisor: Supervisor,
    /// What is below the supervisor, if that is in our namespace.
    tree: Option<Tree>,
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
        // When the supervisor is gone, so is everything else; unless it was killed. Then what it held together is loose, but the
        // first of them is known.
        let (supervisor, loose) = (self.supervisor, self.tree.filter(|_| exit.is_none()));
        let gone = tokio::task::spawn_blocking(move || {
            if let Some(mut tree) = loose {
                tree.kill();
            }
            supervisor.wait();
        });
        tokio::pin!(gone);
        let mut linger = None;
        while open {
            tokio::select! {
                read = output.read(&mut buffer) => open = shared.take(read, &buffer),
                _ = &mut gone, if linger.is_none() => linger = Some(tokio::time::Instant::now() + OUTPUT_LINGER),
                () = at(linger) => open = false,
            }
        }
        if linger.is_none() {
            let _ = gone.await;
        }
        drop(self.temp);
        locked(&shared.ring).close();
        let (end, leftovers, full) = exit.unwrap_or((Status::Unknown, 0, false));
        let stopped = stopped.or(full.then_some(Stopped::Full));
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
        Some(tokio::time::Instant::now() + self.grace + OBEY_TIMEOUT)
    }
}

impl Shared {
    /// Keeps what was read. False at the end.
    fn take(&self, read: io::Result<usize>, buffer: &[u8]) -> bool {
        let Ok(length @ 1..) = read else { return false };
        let total = {
            let mut ring = locked(&self.ring);
            ring.push(&buffer[..length]);
            ring.total()
        };
        self.state.send_modify(|state| state.bytes = total);
        true
    }
}

/// Starts a command, whose output goes there. What it names may move in between; then it is looked at again.
fn try_to_launch(setup: impl Fn() -> io::Result<Setup>, output: &OwnedFd) -> io::Result<Result<Launched, Trouble>> {
    let mut looks = 1;
    loop {
        let streams = Streams { input: None, output: output.try_clone()?, errors: output.try_clone()? };
        match launch(&setup()?, streams) {
            Err(trouble) if trouble.is_stale() && looks < MAX_LOOKS => looks += 1,
            launched => return Ok(launched),
        }
    }
}

/// Waits until the supervisor tells how the command ended, how many outlived it, and whether it took too much memory. `None` if it
/// is gone without a word.
async fn last_word(talk: &mut OwnedReadHalf) -> Option<(Status, u32, bool)> {
    let mut full = false;
    let mut status = None;
    loop {
        match hear(talk).await {
            Ok(Message::Full) => full = true,
            Ok(Message::Exited(end)) => status = Some(end),
            Ok(Message::Left(left)) => return status.map(|status| (status, left, full)),
            _ => return status.map(|status| (status, 0, full)),
        }
    }
}

async fn at(time: Option<tokio::time::Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}
