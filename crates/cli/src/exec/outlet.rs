//! Everything that is printed goes through one thread, so that a reader who is slow, or gone, holds up nothing else.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use tieline_client::run::Gone;
use tokio::sync::Notify;

/// Who adds more than this many unwritten bytes waits.
const ROOM: usize = 1024 * 1024;

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
pub struct Outlet {
    inner: Arc<Inner>,
}

struct Inner {
    state: Mutex<State>,
    work: Condvar,
    written: Notify,
}

#[derive(Default)]
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
}

impl Outlet {
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
        state.bytes += bytes.len();
        let queue = if state.held > 0 { &mut state.later } else { &mut state.queue };
        match queue.back_mut() {
            Some((same, last)) if *same == to && last.len() + bytes.len() < 64 * 1024 => last.extend_from_slice(&bytes),
            _ => queue.push_back((to, bytes)),
        }
        drop(state);
        self.inner.work.notify_one();
    }

    /// Adds something that is not vital: left out when there is no room.
    pub fn push_if_room(&self, to: To, bytes: impl Into<Vec<u8>>) {
        if self.inner.lock().bytes < ROOM {
            self.push(to, bytes);
        }
    }

    /// Why standard output could not be written. That its reader went away is no trouble.
    pub fn trouble(&self) -> Option<std::io::Error> {
        self.inner.lock().trouble.take()
    }

    /// Holds everything back that is not said through the guard.
    pub fn hold(&self) -> Held {
        self.inner.lock().held += 1;
        Held { inner: Arc::clone(&self.inner) }
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
        loop {
            let written = self.inner.written.notified();
            tokio::pin!(written);
            written.as_mut().enable();
            {
                let state = self.inner.lock();
                if fits(&state) {
                    return if state.gone { Err(Gone) } else { Ok(()) };
                }
            }
            written.await;
        }
    }
}

/// A question stands on the screen while this lives.
pub struct Held {
    inner: Arc<Inner>,
}

impl Held {
    /// Prints on standard error, at once.
    pub fn say(&self, text: &str) {
        let mut state = self.inner.lock();
        state.bytes += text.len();
        state.queue.push_back((To::Err, text.as_bytes().to_vec()));
        drop(state);
        self.inner.work.notify_one();
    }
}

impl Drop for Held {
    fn drop(&mut self) {
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
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
