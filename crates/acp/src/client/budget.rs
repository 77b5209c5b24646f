//! The byte budget that the unread updates of a connection share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tieline_rpc::sync::Condition;

/// How many unread bytes all sessions of a connection may have together.
#[derive(Debug)]
pub(crate) struct Budget {
    used: AtomicUsize,
    limit: usize,
    /// From so many unread bytes on text is joined.
    joins: usize,
    freed: Condition,
}

impl Budget {
    pub(crate) fn new(limit: usize, joins: usize) -> Arc<Self> {
        let joins = joins.min(limit / 2);
        Arc::new(Self { used: AtomicUsize::new(0), limit, joins, freed: Condition::default() })
    }

    pub(super) fn take(&self, bytes: usize) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn give(&self, bytes: usize) {
        let before = self.used.fetch_sub(bytes, Ordering::Relaxed);
        if before >= self.limit && before - bytes < self.limit {
            self.freed.notify_all();
        }
    }

    pub(super) fn is_tight(&self) -> bool {
        self.used.load(Ordering::Relaxed) >= self.joins
    }

    pub(crate) fn is_spent(&self) -> bool {
        self.used.load(Ordering::Relaxed) >= self.limit
    }

    pub(crate) async fn freed(&self) {
        self.freed.wait_for(|| (!self.is_spent()).then_some(())).await;
    }
}
