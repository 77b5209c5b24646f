//! The way out: messages are encoded into one shared buffer, bounded in bytes, and written in bursts.

use crate::framing::Framing;
use crate::messages::Output;
use crate::sync::{Condition, Lock, when};
use crate::transport::{Direction, Tap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::timeout;

/// Senders wait while this much is queued, unless another limit was set. One pipe takes as much in one write.
pub(crate) const DEFAULT_QUEUE: usize = 64 * 1024;
/// The reader waits while this much is queued. Only answers that it gives itself (to rubbish) can get here, so a peer that
/// floods us and never reads is held off, while one that merely reads slowly never stops our reading.
const MAX_BYTES: usize = 8 * 1024 * 1024;
/// So long the reader waits for a peer that does not take what we say, once for each burst: mostly it does in a moment, and what is
/// read after that needs not wait for room. A peer that reads only when we have read does not wait longer for us.
const READER_PATIENCE: Duration = Duration::from_millis(5);

/// The connection takes no more messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closed;

impl std::fmt::Display for Closed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the connection is closed")
    }
}

impl std::error::Error for Closed {}

/// Writes a message and says whether it did. Not generic, so that the way out is compiled once.
type Body<'a> = &'a mut dyn FnMut(&mut Vec<u8>) -> bool;

fn once(body: impl FnOnce(&mut Vec<u8>) -> bool) -> impl FnMut(&mut Vec<u8>) -> bool {
    let mut body = Some(body);
    move |out| body.take().is_some_and(|body| body(out))
}

pub(crate) struct Outbox {
    queue: Mutex<Queue>,
    /// How many bytes are queued, for those who only want to know that.
    fill: AtomicUsize,
    /// Senders wait while so many bytes are queued.
    limit: usize,
    filled: Notify,
    /// Senders wait here. One is woken when there is room, and wakes the next if there still is: cost does not grow with the
    /// number of those that wait.
    room: Notify,
    /// The reader waits here.
    drained: Notify,
    ended: Condition,
}

struct Queue {
    bytes: Vec<u8>,
    framing: Framing,
    taps: Vec<Tap>,
    state: State,
    /// How many bursts were begun to be written.
    begun: u64,
    /// How many of them the peer has taken.
    bursts: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// Takes nothing more, writes what is queued.
    Closing,
    /// Everything is written, or can't be any more.
    Ended,
}

impl Outbox {
    pub(crate) fn new(framing: Framing, taps: Vec<Tap>, limit: usize) -> Self {
        let queue = Queue { bytes: Vec::new(), framing, taps, state: State::Open, begun: 0, bursts: 0 };
        Self {
            queue: Mutex::new(queue),
            fill: AtomicUsize::new(0),
            limit,
            filled: Notify::new(),
            room: Notify::new(),
            drained: Notify::new(),
            ended: Condition::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.locked()
    }

    /// Answers in the framing that the peer was found to use.
    pub(crate) fn set_framing(&self, framing: Framing) {
        self.lock().framing = framing;
    }

    /// Queues one message at once, whatever the fill. `body` says whether it wrote a message at all.
    pub(crate) fn push_if(&self, body: impl FnOnce(&mut Vec<u8>) -> bool) -> Result<(), Closed> {
        self.push_body(&mut once(body))
    }

    fn push_body(&self, body: Body<'_>) -> Result<(), Closed> {
        self.put(&mut self.lock(), body)
    }

    /// Queues one message at once, whatever the fill.
    pub(crate) fn push(&self, body: impl FnOnce(&mut Vec<u8>)) -> Result<(), Closed> {
        self.push_if(|out| {
            body(out);
            true
        })
    }

    /// Queues one message when there is room for it.
    pub(crate) async fn send(&self, body: impl FnOnce(&mut Vec<u8>)) -> Result<(), Closed> {
        let mut body = once(|out: &mut Vec<u8>| {
            body(out);
            true
        });
        loop {
            {
                let mut queue = self.lock();
                if queue.bytes.len() < self.limit || queue.state != State::Open {
                    return self.put(&mut queue, &mut body);
                }
            }
            self.room().await;
        }
    }

    fn put(&self, queue: &mut Queue, body: Body<'_>) -> Result<(), Closed> {
        let pushed = queue.push(body, &self.filled);
        self.fill.store(queue.bytes.len(), Ordering::Relaxed);
        pushed
    }

    fn is_full(&self) -> bool {
        self.fill.load(Ordering::Relaxed) >= self.limit
    }

    /// Waits until there is room to send. Mostly there is, so the waiting is boxed: whoever may have to wait stays small.
    pub(crate) async fn room(&self) {
        if self.is_full() {
            Box::pin(self.below(self.limit, &self.room)).await;
            // Perhaps there is room for another one.
            self.room.notify_one();
        }
    }

    /// Holds the reader while the peer makes us answer without taking the answers; before that, where senders have to wait, for a moment.
    /// `waited_for` is the burst that it last waited for.
    pub(crate) async fn hold_reader(&self, waited_for: &mut Option<u64>) {
        if self.is_full() {
            let burst = self.lock().begun;
            if waited_for.replace(burst) != Some(burst) {
                let _ = timeout(READER_PATIENCE, self.below(self.limit, &self.drained)).await;
            }
            self.below(MAX_BYTES.max(self.limit), &self.drained).await;
        }
    }

    /// Waits until senders have waited this long for a peer that takes nothing.
    pub(crate) async fn stalled(&self, limit: Duration) {
        loop {
            let before = self.lock().bursts;
            tokio::time::sleep(limit).await;
            let queue = self.lock();
            if queue.bursts == before && queue.bytes.len() >= self.limit {
                return;
            }
        }
    }

    async fn below(&self, mark: usize, emptied: &Notify) {
        when(emptied, || {
            let queue = self.lock();
            (queue.bytes.len() < mark || queue.state == State::Ended).then_some(())
        })
        .await;
    }

    /// Takes nothing more; what is queued still goes out.
    pub(crate) fn close(&self) {
        let mut queue = self.lock();
        if queue.state == State::Open {
            queue.state = State::Closing;
        }
        self.filled.notify_one();
    }

    /// True while messages are taken.
    pub(crate) fn is_open(&self) -> bool {
        self.lock().state == State::Open
    }

    /// Waits until everything is written, or can't be any more.
    pub(crate) async fn ended(&self) {
        self.ended.wait_for(|| (self.lock().state == State::Ended).then_some(())).await;
    }

    /// The writer: one write for everything that was queued since the last one.
    pub(crate) async fn run(&self, mut io: Output) {
        let mut burst = Vec::new();
        loop {
            {
                let mut queue = self.lock();
                std::mem::swap(&mut burst, &mut queue.bytes);
                queue.begun += u64::from(!burst.is_empty());
                self.fill.store(0, Ordering::Relaxed);
            }
            if burst.is_empty() {
                if self.lock().state != State::Open {
                    break;
                }
                self.filled.notified().await;
                continue;
            }
            self.room.notify_one();
            self.drained.notify_waiters();
            if io.put(&burst).await.is_err() {
                break;
            }
            burst.clear();
            self.lock().bursts += 1;
            // One huge message must not hold its memory for ever.
            if burst.capacity() > 16 * DEFAULT_QUEUE {
                burst = Vec::new();
            }
        }
        {
            let mut queue = self.lock();
            queue.state = State::Ended;
            queue.bytes = Vec::new();
            self.fill.store(0, Ordering::Relaxed);
        }
        self.room.notify_waiters();
        self.drained.notify_waiters();
        self.ended.notify_all();
        io.end().await;
    }
}

impl Queue {
    fn push(&mut self, body: Body<'_>, filled: &Notify) -> Result<(), Closed> {
        if self.state != State::Open {
            return Err(Closed);
        }
        let was_empty = self.bytes.is_empty();
        // If `body` panics or writes nothing, nothing of the message stays behind.
        let mut undo = Undo { start: self.bytes.len(), bytes: &mut self.bytes, keep: false };
        let mut wrote = false;
        self.framing.write(undo.bytes, |out| wrote = body(out));
        undo.keep = wrote;
        if !self.taps.is_empty() && wrote {
            let body = body_of(&undo.bytes[undo.start..], self.framing);
            for tap in &self.taps {
                tap(Direction::Out, body);
            }
        }
        drop(undo);
        if was_empty && wrote {
            filled.notify_one();
        }
        Ok(())
    }
}

fn body_of(frame: &[u8], framing: Framing) -> &[u8] {
    match framing {
        Framing::Lines => &frame[..frame.len() - 1],
        // The body has no raw line break, so the empty line is the last one.
        Framing::Headers => frame.iter().rposition(|byte| *byte == b'\n').map_or(frame, |at| &frame[at + 1..]),
    }
}

struct Undo<'a> {
    bytes: &'a mut Vec<u8>,
    start: usize,
    keep: bool,
}

impl Drop for Undo<'_> {
    fn drop(&mut self) {
        if !self.keep {
            self.bytes.truncate(self.start);
        }
    }
}
