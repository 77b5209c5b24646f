//! Tells the user what is no part of the conversation, so that every client shows it: as a notice where it knows such,
//! elsewhere as a message of its own, at once in a turn and otherwise at the start of the next one.

use crate::report::Reporter;
use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use tieline::agent::{ClientHandle, SessionHandle};
use tieline::schema::{Dialect, Notice};
use tieline::{Result, Severity, Update};
use tokio::sync::Mutex;

/// So many wait for the next turn; older ones are forgotten.
const MOST: usize = 8;

/// What the user of a session has to know.
pub struct Notices {
    session: SessionHandle,
    /// Held while something is said, so that nothing is said after the end of a turn.
    now: Mutex<Now>,
}

#[derive(Default)]
struct Now {
    turn: Weak<Reporter>,
    waiting: VecDeque<String>,
}

/// Whether a client shows notices.
pub fn shows(client: &ClientHandle) -> bool {
    match client.dialect() {
        Dialect::V2 => true,
        Dialect::V1 => client.capabilities().notices,
        Dialect::V2Seed => false,
    }
}

impl Notices {
    /// The notices of a session.
    pub fn new(session: SessionHandle) -> Self {
        Self { session, now: Mutex::default() }
    }

    /// A turn begins: what waits is said, and what comes is said in it.
    pub async fn begin(&self, reporter: &Arc<Reporter>) -> Result<()> {
        let mut now = self.now.lock().await;
        while let Some(text) = now.waiting.front() {
            reporter.remark(text).await?;
            now.waiting.pop_front();
        }
        now.turn = Arc::downgrade(reporter);
        Ok(())
    }

    /// The turn is over.
    pub async fn end(&self) {
        self.now.lock().await.turn = Weak::new();
    }

    /// Tells it: one line, and more of it if there is more. Both are safe to show.
    pub async fn tell(&self, severity: Severity, title: String, more: Option<String>) {
        if shows(&self.session.client()) {
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
        let mut now = self.now.lock().await;
        if let Some(reporter) = now.turn.upgrade()
            && reporter.remark(&text).await.is_ok()
        {
            return;
        }
        if now.waiting.len() == MOST {
            now.waiting.pop_front();
        }
        now.waiting.push_back(text);
    }
}
