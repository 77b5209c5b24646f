//! What the services did for the agent, on its way to whoever watches the run.

use super::Permissions;
use crate::permission::{Record, Ruling};
use crate::services::{Event, Observer};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use tieline::rpc::sync::Lock;
use tokio::sync::Notify;

/// So many wait to be shown; what comes on top is only counted.
const WAITING: usize = 1000;

/// Hears what the services do. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Notes {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    state: Mutex<State>,
    wake: Notify,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Event>,
    /// What is not written down yet.
    decisions: VecDeque<Record>,
    permissions: Permissions,
    /// What nobody could be asked about, and should have been.
    nobody: Option<String>,
}

impl Notes {
    fn state(&self) -> MutexGuard<'_, State> {
        self.inner.state.locked()
    }

    /// The next one if it is there already.
    pub(super) fn take(&self) -> Option<Event> {
        self.state().waiting.pop_front()
    }

    /// Waits for the next one.
    pub(super) async fn next(&self) -> Event {
        loop {
            if let Some(event) = self.take() {
                return event;
            }
            self.inner.wake.notified().await;
        }
    }

    /// The next decision that is not written down yet.
    pub(super) fn decision(&self) -> Option<Record> {
        self.state().decisions.pop_front()
    }

    pub(super) fn permissions(&self) -> Permissions {
        self.state().permissions
    }

    pub(super) fn nobody(&self) -> Option<String> {
        self.state().nobody.clone()
    }
}

impl Observer for Notes {
    fn event(&self, event: &Event) {
        let mut state = self.state();
        if let Event::Decided(record) = event {
            let permissions = &mut state.permissions;
            match record.ruling {
                // Reading is allowed as a matter of course and makes nothing good.
                Ruling::Allowed if record.method == "fs/read_text_file" => {}
                Ruling::Allowed => permissions.allowed += 1,
                Ruling::Refused => permissions.denied += 1,
                Ruling::Cancelled => permissions.cancelled += 1,
            }
            // They are written down as they are made; only those that were dropped wait for the next one.
            if state.decisions.len() < WAITING {
                state.decisions.push_back((**record).clone());
            }
            if record.nobody {
                let what = if record.facts.is_empty() { record.title.clone() } else { record.facts.join(", ") };
                state.nobody = Some(what);
            }
        }
        if state.waiting.len() < WAITING {
            state.waiting.push_back(event.clone());
        }
        drop(state);
        self.inner.wake.notify_one();
    }
}
