//! A flag that is raised once and can be waited for.

use crate::sync::Condition;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Says that work is no longer wanted. Clones share one flag.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<Flag>);

#[derive(Debug, Default)]
struct Flag {
    raised: AtomicBool,
    wake: Condition,
}

impl Cancel {
    /// Raises the flag.
    pub fn cancel(&self) {
        self.0.raised.store(true, Ordering::SeqCst);
        self.0.wake.notify_all();
    }

    /// True once the flag is up.
    pub fn is_cancelled(&self) -> bool {
        self.0.raised.load(Ordering::SeqCst)
    }

    /// Waits until the flag is up.
    pub async fn cancelled(&self) {
        self.0.wake.wait_for(|| self.is_cancelled().then_some(())).await;
    }
}
