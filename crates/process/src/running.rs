//! A command that runs, and those who watch it.

// Who goes with a command to its end.
#[cfg_attr(target_os = "linux", path = "running/supervised.rs")]
#[cfg_attr(not(target_os = "linux"), path = "running/plain.rs")]
mod attend;

use crate::output::{Output, Ring};
use crate::setup::Setup;
use crate::temp::Temp;
use crate::{Status, locked};
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// After the end of everything, the output is read on for this long if something out of reach holds it open.
const OUTPUT_LINGER: Duration = Duration::from_millis(250);

/// The size of a terminal in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Columns.
    pub columns: u16,
    /// Rows.
    pub rows: u16,
}

impl Default for Size {
    fn default() -> Self {
        Self { columns: 80, rows: 24 }
    }
}

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
                f.write_str(
                    "was killed: with what it started it took more memory than it may have, or was too many processes",
                )?;
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
    /// Its terminal, if it has one.
    keyboard: Mutex<Option<std::fs::File>>,
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
        let shared = Arc::new(Shared {
            line: job.line.clone(),
            started: Instant::now(),
            ring: Mutex::new(Ring::new(job.keep)),
            state: watch::Sender::default(),
            stop: watch::Sender::new(false),
            keyboard: Mutex::default(),
        });
        let (life, owner) = watch::channel(());
        attend::start(job, setup, Arc::clone(&shared), owner).await?;
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

    /// Types something into its terminal. Fails if it has none, or does not read what was typed before.
    pub fn type_in(&self, keys: &[u8]) -> io::Result<()> {
        match &mut *locked(&self.shared.keyboard) {
            Some(keyboard) => io::Write::write_all(keyboard, keys),
            None => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Gives its terminal another size, if it has one; the command hears of it.
    pub fn resize(&self, size: Size) {
        #[cfg(target_os = "linux")]
        if let Some(terminal) = &*locked(&self.shared.keyboard) {
            // One that is just ending has none any more.
            let _ = crate::tty::resize(terminal, size);
        }
        #[cfg(not(target_os = "linux"))]
        let _ = size;
    }

    /// Asks it and everything it started to end, and kills what does not within the time of grace.
    pub fn stop(&self) {
        self.shared.stop.send_replace(true);
    }
}

impl Shared {
    /// Keeps what was read. False at the end.
    fn take(&self, read: io::Result<usize>, buffer: &[u8]) -> bool {
        let Ok(length @ 1..) = read else { return false };
        self.push(&buffer[..length]);
        true
    }

    fn push(&self, bytes: &[u8]) {
        let total = {
            let mut ring = locked(&self.ring);
            ring.push(bytes);
            ring.total()
        };
        self.state.send_modify(|state| state.bytes = total);
    }

    /// It is over.
    fn close(&self, end: Status, stopped: Option<Stopped>, leftovers: u32) {
        locked(&self.ring).close();
        *locked(&self.keyboard) = None;
        let outcome = Outcome { end, stopped, leftovers, took: self.started.elapsed() };
        self.state.send_modify(|state| state.outcome = Some(outcome));
    }
}

async fn at(time: Option<tokio::time::Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}
