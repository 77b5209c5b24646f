//! Everything that is printed goes through one thread, so that a reader who is slow, or gone, holds up nothing else.

use std::collections::{HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use tieline_client::live::Gone;
use tieline_rpc::sync::{Lock, when};
use tokio::sync::Notify;

/// Who adds more than this many unwritten bytes waits.
const ROOM: usize = 1024 * 1024;

/// So many diffs are remembered as shown.
const MAX_DIFFS: usize = 1000;

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// Where it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum To {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// The way out. Clones are the same.
#[derive(Clone)]
pub struct Printer {
    inner: Arc<Inner>,
}

struct Inner {
    state: Mutex<State>,
    work: Condvar,
    written: Notify,
}

#[derive(Default)]
#[allow(clippy::struct_excessive_bools, reason = "each is an independent fact about the output")]
struct State {
    queue: VecDeque<(To, Vec<u8>)>,
    bytes: usize,
    /// Something is being written.
    busy: bool,
    /// Standard output is closed.
    gone: bool,
    /// Why it could not be written, unless its reader went away.
    trouble: Option<std::io::Error>,
    /// A question stands on the screen: everything else waits here.
    held: u32,
    later: VecDeque<(To, Vec<u8>)>,
    /// A line that tells of a wait stands on the terminal; this takes it away.
    status: Option<&'static str>,
    /// The last text on standard output has no end of line.
    middle: bool,
    /// The cursor was brought to the beginning of a line since somebody asked for this.
    moved: bool,
    /// Diffs that were shown with a question.
    diffs: HashSet<u64>,
}

impl State {
    fn wipe(&mut self) {
        if let Some(wipe) = self.status.take() {
            self.bytes += wipe.len();
            self.queue.push_back((To::Err, wipe.into()));
        }
    }
}

impl Printer {
    /// Starts the thread.
    pub fn start() -> std::io::Result<Self> {
        let inner = Arc::new(Inner { state: Mutex::default(), work: Condvar::new(), written: Notify::new() });
        let writer = Arc::clone(&inner);
        std::thread::Builder::new().name("output".into()).spawn(move || writer.write())?;
        Ok(Self { inner })
    }

    /// Adds something; never waits.
    pub fn push(&self, to: To, bytes: impl Into<Vec<u8>>) {
        let bytes = bytes.into();
        if bytes.is_empty() {
            return;
        }
        let mut state = self.inner.lock();
        if to == To::Out && state.gone {
            return;
        }
        if state.held == 0 {
            state.wipe();
        }
        if to == To::Out {
            state.middle = !bytes.ends_with(b"\n");
        }
        state.bytes += bytes.len();
        let queue = if state.held > 0 { &mut state.later } else { &mut state.queue };
        match queue.back_mut() {
            Some((same, last)) if *same == to && last.len() + bytes.len() < 64 * 1024 => last.extend_from_slice(&bytes),
            _ => queue.push_back((to, bytes)),
        }
        drop(state);
        self.inner.work.notify_one();
    }

    /// Adds a line on standard error that is not vital: left out when there is no room. If standard output is on the same screen,
    /// the line begins below it.
    pub fn line_if_room(&self, line: &str, same_screen: bool) {
        let mut state = self.inner.lock();
        if state.bytes >= ROOM {
            return;
        }
        let end = if same_screen && std::mem::take(&mut state.middle) { "\n" } else { "" };
        state.moved |= !end.is_empty();
        drop(state);
        self.push(To::Err, format!("{end}{line}\n"));
    }

    /// Shows a line on the terminal that goes away with whatever is printed next. Nothing of the kind comes between a person and a
    /// question. `below`: the cursor stands in the middle of a line and stays there.
    pub fn status(&self, line: &str, below: bool) {
        let mut state = self.inner.lock();
        if state.held > 0 || state.bytes >= ROOM {
            return;
        }
        // Down and up again first, so that there is a line below at the bottom of the screen, too.
        let (bytes, wipe) = if below {
            (format!("\x1bD\x1bM\x1b7\r\n{line}\x1b[K\x1b8"), "\x1b[J")
        } else {
            (format!("\r\x1b[K{line}"), "\r\x1b[K")
        };
        state.status = Some(wipe);
        state.bytes += bytes.len();
        state.queue.push_back((To::Err, bytes.into_bytes()));
        drop(state);
        self.inner.work.notify_one();
    }

    /// Takes that line away.
    pub fn no_status(&self) {
        self.inner.lock().wipe();
        self.inner.work.notify_one();
    }

    /// Whether the cursor was brought to the beginning of a line since this was asked last, by a question for example.
    pub fn was_moved(&self) -> bool {
        std::mem::take(&mut self.inner.lock().moved)
    }

    /// A diff was shown with a question.
    pub fn diff_shown(&self, patch: &str) {
        let mut state = self.inner.lock();
        if state.diffs.len() < MAX_DIFFS {
            state.diffs.insert(hash(patch));
        }
    }

    /// Whether this diff was shown with a question.
    pub fn was_shown(&self, patch: &str) -> bool {
        self.inner.lock().diffs.contains(&hash(patch))
    }

    /// Why standard output could not be written. That its reader went away is no trouble.
    pub fn trouble(&self) -> Option<std::io::Error> {
        self.inner.lock().trouble.take()
    }

    /// Whether standard output is closed.
    pub fn is_gone(&self) -> bool {
        self.inner.lock().gone
    }

    /// Holds everything back that is not said through the guard.
    pub fn hold(&self) -> Held {
        let mut state = self.inner.lock();
        state.wipe();
        state.held += 1;
        (state.moved, state.middle) = (true, false);
        drop(state);
        Held { inner: Arc::clone(&self.inner), open: false }
    }

    /// Waits until there is room for more.
    pub async fn room(&self) -> Result<(), Gone> {
        self.when(|state| state.bytes < ROOM).await
    }

    /// Waits until everything is written.
    pub async fn written(&self) -> Result<(), Gone> {
        self.when(|state| state.queue.is_empty() && state.later.is_empty() && !state.busy).await
    }

    async fn when(&self, fits: impl Fn(&State) -> bool) -> Result<(), Gone> {
        when(&self.inner.written, || {
            let state = self.inner.lock();
            fits(&state).then(|| if state.gone { Err(Gone) } else { Ok(()) })
        })
        .await
    }
}

/// A question stands on the screen while this lives.
pub struct Held {
    inner: Arc<Inner>,
    /// The cursor stands behind a question that has no answer yet.
    open: bool,
}

impl Held {
    /// Prints on standard error, at once.
    pub fn say(&mut self, text: &str) {
        self.open = !text.ends_with('\n');
        let mut state = self.inner.lock();
        state.bytes += text.len();
        state.queue.push_back((To::Err, text.as_bytes().to_vec()));
        drop(state);
        self.inner.work.notify_one();
    }

    /// The person ended the line that the question stood in.
    pub fn answered(&mut self) {
        self.open = false;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.open {
            self.say("\n");
        }
        let mut state = self.inner.lock();
        state.held -= 1;
        if state.held == 0 {
            let later = std::mem::take(&mut state.later);
            state.queue.extend(later);
        }
        drop(state);
        self.inner.work.notify_one();
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.locked()
    }

    fn write(&self) {
        let mut state = self.lock();
        loop {
            let Some((to, bytes)) = state.queue.pop_front() else {
                state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            state.busy = true;
            let skip = to == To::Out && state.gone;
            drop(state);
            let done = match to {
                To::Out if skip => Ok(()),
                To::Out => {
                    let mut out = std::io::stdout().lock();
                    out.write_all(&bytes).and_then(|()| out.flush())
                }
                To::Err => {
                    // Whoever closed standard error does not want to know.
                    let _ = std::io::stderr().write_all(&bytes);
                    Ok(())
                }
            };
            state = self.lock();
            state.busy = false;
            state.bytes = state.bytes.saturating_sub(bytes.len());
            if let Err(error) = done {
                state.gone = true;
                state.trouble = Some(error).filter(|error| error.kind() != std::io::ErrorKind::BrokenPipe);
            }
            self.written.notify_waiters();
        }
    }
}
