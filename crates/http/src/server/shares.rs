//! Who has how much of the server: no guest takes what is there for all, and strangers make room for each other.

use super::Guest;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use tieline_rpc::Cancel;
use tieline_rpc::sync::Lock;

/// How many of something each guest has.
#[derive(Default)]
pub(super) struct Counts(Mutex<HashMap<Guest, usize>>);

/// Some of them, until it is dropped.
pub(super) struct Share {
    counts: Arc<Counts>,
    guest: Guest,
    amount: usize,
}

impl Counts {
    /// So many more for this guest; `None` if that would be more than its share, or than there is for all.
    pub fn take(self: &Arc<Self>, guest: &Guest, amount: usize, (each, all): (usize, usize)) -> Option<Share> {
        let mut counts = self.0.locked();
        let fits = |used: usize, most: usize| used.saturating_add(amount) <= most.max(amount);
        if !fits(counts.get(guest).copied().unwrap_or(0), each) || !fits(counts.values().sum(), all) {
            return None;
        }
        *counts.entry(guest.clone()).or_default() += amount;
        Some(Share { counts: Arc::clone(self), guest: guest.clone(), amount })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut counts = self.counts.0.locked();
        if let Some(count) = counts.get_mut(&self.guest) {
            *count -= self.amount;
            if *count == 0 {
                counts.remove(&self.guest);
            }
        }
    }
}

/// The sockets on which nobody was let in yet, the oldest first.
#[derive(Default)]
pub(super) struct Strangers(Mutex<VecDeque<Arc<Caller>>>);

/// One socket.
#[derive(Default)]
pub(super) struct Caller {
    /// It has to go: others knock.
    pub over: Cancel,
    share: Mutex<Option<Share>>,
}

impl Strangers {
    /// Somebody knocks. Whoever has stood there longest goes, if they are too many: who has something to say has said it.
    pub fn come(&self, most: usize) -> Arc<Caller> {
        let caller = Arc::new(Caller::default());
        let mut all = self.0.locked();
        all.push_back(Arc::clone(&caller));
        while all.len() > most.max(1)
            && let Some(oldest) = all.pop_front()
        {
            oldest.over.cancel();
        }
        caller
    }

    /// It went, or is no stranger any more.
    pub fn leave(&self, caller: &Arc<Caller>) {
        self.0.locked().retain(|other| !Arc::ptr_eq(other, caller));
    }
}

impl Caller {
    /// The socket belongs to its first guest from now on. False if the guest has too many.
    pub fn belongs(self: &Arc<Self>, guest: &Guest, counts: &Arc<Counts>, most: usize, strangers: &Strangers) -> bool {
        let mut share = self.share.locked();
        if share.is_none() {
            *share = counts.take(guest, 1, (most, usize::MAX));
            if share.is_some() {
                strangers.leave(self);
            }
        }
        share.is_some()
    }
}
