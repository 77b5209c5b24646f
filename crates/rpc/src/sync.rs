//! Small tools for what several tasks share: a lock that no panic spoils, and waits that miss no news.

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// A lock that is taken also after somebody panicked with it. To be used for state that is whole after every statement.
pub trait Lock<T: ?Sized> {
    /// The state, for us alone.
    fn locked(&self) -> MutexGuard<'_, T>;
}

impl<T: ?Sized> Lock<T> for Mutex<T> {
    fn locked(&self) -> MutexGuard<'_, T> {
        self.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits until `look` gives something. It is asked at once and after every `notify_waiters`; none is missed in between.
pub async fn when<T>(notify: &Notify, mut look: impl FnMut() -> Option<T>) -> T {
    loop {
        // Mostly something is there, and nothing needs to be woken for it.
        if let Some(found) = look() {
            return found;
        }
        let mut news = pin!(notify.notified());
        // Registered before the second look, so that news from between the two looks counts.
        news.as_mut().enable();
        if let Some(found) = look() {
            return found;
        }
        news.await;
    }
}

/// A condition variable for tasks. To tell of a change costs next to nothing while nobody waits.
#[derive(Debug, Default)]
pub struct Condition {
    changed: Notify,
    waiting: AtomicUsize,
}

impl Condition {
    /// What is waited for may have come: everybody looks again.
    pub fn notify_all(&self) {
        // With its like in `wait_for`: either we see who waits, or who waits sees the change.
        fence(Ordering::SeqCst);
        if self.waiting.load(Ordering::Relaxed) > 0 {
            self.changed.notify_waiters();
        }
    }

    /// Waits until `look` gives something. It is asked at once and after every change.
    pub async fn wait_for<T>(&self, mut look: impl FnMut() -> Option<T>) -> T {
        if let Some(found) = look() {
            return found;
        }
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let _waits = Waits(&self.waiting);
        fence(Ordering::SeqCst);
        when(&self.changed, look).await
    }
}

struct Waits<'c>(&'c AtomicUsize);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    /// Both sides as fast as they can, on two threads: a lost wake-up would end it in a wait without end.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn no_change_is_missed() {
        const ROUNDS: usize = 20_000;
        let (shared, turn) = (Arc::new(Condition::default()), Arc::new(AtomicUsize::new(0)));
        let play = |odd: usize| {
            let (shared, turn) = (Arc::clone(&shared), Arc::clone(&turn));
            tokio::spawn(async move {
                for round in 0..ROUNDS {
                    let mine = round * 2 + odd;
                    shared.wait_for(|| (turn.load(Ordering::Relaxed) == mine).then_some(())).await;
                    turn.store(mine + 1, Ordering::Relaxed);
                    shared.notify_all();
                }
            })
        };
        let both = async { tokio::join!(play(0), play(1)) };
        assert!(tokio::time::timeout(std::time::Duration::from_secs(60), both).await.is_ok(), "a change was missed");
        assert_eq!(turn.load(Ordering::Relaxed), ROUNDS * 2);
        assert_eq!(shared.waiting.load(Ordering::Relaxed), 0);
    }
}
