//! Two small tools for what several tasks share: a lock that no panic spoils, and a wait that misses no news.

use std::pin::pin;
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
