//! Tells the user about servers: as a notice where the client shows such, otherwise at the start of the next turn.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use tieline::agent::SessionHandle;
use tieline::schema::{Dialect, Notice};
use tieline::{Severity, Update};

/// So many wait for the next turn; older ones are forgotten.
const MOST: usize = 8;

/// What the user has to know.
pub struct Notices {
    session: SessionHandle,
    waiting: Mutex<VecDeque<String>>,
}

impl Notices {
    /// The notices of a session.
    pub fn new(session: SessionHandle) -> Self {
        Self { session, waiting: Mutex::default() }
    }

    /// Tells it: one line, and more of it if there is more. Both are safe to show.
    pub async fn tell(&self, severity: Severity, title: String, more: Option<String>) {
        let client = self.session.client();
        let shows = match client.dialect() {
            Dialect::V2 => true,
            Dialect::V1 => client.capabilities().notices,
            Dialect::V2Seed => false,
        };
        if shows {
            let notice = Notice { severity, title, description: more, meta: None };
            if let Err(error) = self.session.update(Update::Notice(notice)).await {
                tracing::debug!(%error, "a notice could not be sent");
            }
            return;
        }
        let text = match more {
            Some(more) => format!("{title}\n\n````text\n{}\n````", more.replace("````", "''''")),
            None => title,
        };
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() == MOST {
            waiting.pop_front();
        }
        waiting.push_back(text);
    }

    /// What the user was not told yet.
    pub fn take(&self) -> Option<String> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let all: Vec<String> = waiting.drain(..).collect();
        (!all.is_empty()).then(|| format!("{}\n\n", all.join("\n\n")))
    }
}
