//! What was odd during a run: told once each, counted when there is more of it, never without bound.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use tieline::rpc::sync::Lock;
use tokio::sync::Notify;

/// So many are told; the rest is counted.
const TOLD: usize = 50;
/// A warning is cut here.
const LENGTH: usize = 500;

/// A place to put warnings. Clones are the same place.
#[derive(Debug, Clone, Default)]
pub struct Warnings {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    list: Mutex<List>,
    wake: Notify,
}

#[derive(Debug, Default)]
struct List {
    waiting: VecDeque<String>,
    told: Vec<String>,
    more: u64,
}

impl Warnings {
    fn list(&self) -> MutexGuard<'_, List> {
        self.inner.list.locked()
    }

    /// Adds one. The same words are told once.
    pub fn push(&self, warning: impl Into<String>) {
        let mut warning = warning.into();
        if warning.len() > LENGTH {
            warning.truncate(warning.floor_char_boundary(LENGTH));
            warning.push('…');
        }
        let mut list = self.list();
        if list.told.contains(&warning) {
            return;
        }
        if list.told.len() >= TOLD {
            list.more += 1;
            return;
        }
        list.told.push(warning.clone());
        list.waiting.push_back(warning);
        drop(list);
        self.inner.wake.notify_one();
    }

    /// The next one that nobody has taken yet.
    pub fn take(&self) -> Option<String> {
        self.list().waiting.pop_front()
    }

    /// Waits for the next one.
    pub async fn next(&self) -> String {
        loop {
            if let Some(warning) = self.take() {
                return warning;
            }
            self.inner.wake.notified().await;
        }
    }

    /// All of them, and how many were not told.
    pub fn all(&self) -> Vec<String> {
        let list = self.list();
        let mut all = list.told.clone();
        if list.more > 0 {
            all.push(format!("{} more warnings", list.more));
        }
        all
    }
}
