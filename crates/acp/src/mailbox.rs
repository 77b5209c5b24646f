//! Notifications for user code: heard one at a time, in the order they came. While too many are unheard, the reader waits.

use crate::work::Work;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tieline_rpc::Limits;
use tieline_rpc::sync::{Condition, Lock};

/// What a small notification counts at least, so that many empty ones are bounded too.
const MIN_MESSAGE_BYTES: usize = 256;

pub(crate) struct Mailbox {
    queue: Mutex<Queue>,
    /// How many bytes are unheard.
    bytes: AtomicUsize,
    heard: Condition,
    /// A handler that takes longer is dropped: it may wait for a message that can't be read because of it.
    deadline: Duration,
    /// The reader waits while this many bytes are unheard.
    max_bytes: usize,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<(usize, Work<'static, ()>)>,
    /// A task works on it.
    busy: bool,
}

impl Mailbox {
    pub(crate) fn new(deadline: Duration, limits: &Limits) -> Arc<Self> {
        let max_bytes = limits.unheard_bytes.max(1);
        Arc::new(Self {
            queue: Mutex::default(),
            bytes: AtomicUsize::new(0),
            heard: Condition::default(),
            deadline,
            max_bytes,
        })
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.locked()
    }

    /// Puts one behind the others; it came as so many bytes.
    pub(crate) fn put(self: &Arc<Self>, bytes: usize, work: impl Future<Output = ()> + Send + 'static) {
        let bytes = bytes.max(MIN_MESSAGE_BYTES);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let mut queue = self.queue();
        queue.waiting.push_back((bytes, Box::pin(work)));
        if !std::mem::replace(&mut queue.busy, true) {
            drop(queue);
            let mailbox = Arc::clone(self);
            tokio::spawn(async move { while mailbox.hear().await {} });
        }
    }

    /// Works on the next one; false if there is none.
    async fn hear(&self) -> bool {
        let next = {
            let mut queue = self.queue();
            let next = queue.waiting.pop_front();
            queue.busy = next.is_some();
            next
        };
        let Some((bytes, work)) = next else { return false };
        // In a task of its own: a panic ends this one and not those behind it.
        let mut task = tokio::spawn(work);
        if tokio::time::timeout(self.deadline, &mut task).await.is_err() {
            task.abort();
            tracing::warn!("the handler of a notification took too long and was dropped");
        }
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.heard.notify_all();
        true
    }

    fn is_full(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) >= self.max_bytes
    }

    /// Something to wait for before more is read, if too much is unheard.
    pub(crate) fn pause(self: &Arc<Self>) -> Option<Work<'static, ()>> {
        if !self.is_full() {
            return None;
        }
        let mailbox = Arc::clone(self);
        Some(Box::pin(async move { mailbox.heard.wait_for(|| (!mailbox.is_full()).then_some(())).await }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn heard_in_order_one_at_a_time_whatever_panics() {
        let mailbox = Mailbox::new(Duration::from_secs(30), &Limits::default());
        let heard = Arc::new(Mutex::new(Vec::new()));
        for number in 0..100 {
            let heard = Arc::clone(&heard);
            mailbox.put(0, async move {
                tokio::task::yield_now().await;
                heard.locked().push(number);
                assert!(number % 10 != 3, "a handler's own fault");
            });
        }
        assert!(mailbox.pause().is_none());
        mailbox.put(mailbox.max_bytes, async {});
        let pause = mailbox.pause();
        assert!(pause.is_some(), "a megabyte is unheard");
        if let Some(pause) = pause {
            pause.await;
        }
        let heard = heard.locked().clone();
        assert_eq!(heard, (0..100).collect::<Vec<_>>());
    }

    #[tokio::test(start_paused = true)]
    async fn a_handler_that_hangs_is_dropped() {
        let mailbox = Mailbox::new(Duration::from_secs(30), &Limits::default());
        mailbox.put(mailbox.max_bytes, std::future::pending());
        if let Some(pause) = mailbox.pause() {
            pause.await;
        }
        assert!(mailbox.pause().is_none());
    }
}
