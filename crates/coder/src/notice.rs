//! Tells the user what is no part of the conversation, so that every client shows it: as a notice where it knows such,
//! elsewhere as a message of its own, at once in a turn and otherwise at the start of the next one.

use std::collections::VecDeque;
use tieline::agent::{ClientHandle, SessionHandle, Turn};
use tieline::schema::{Dialect, Notice};
use tieline::{MessageKind, Result, Severity, Update};
use tieline_host::store::new_id;
use tokio::sync::Mutex;

/// So many wait for the next turn; older ones are forgotten.
const MAX_WAITING: usize = 8;

/// What the user of a session has to know.
pub struct Notices {
    session: SessionHandle,
    /// Held while something is said, so that they are said in order.
    now: Mutex<Now>,
}

#[derive(Default)]
struct Now {
    /// The last turn.
    turn: Option<Turn>,
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
    pub async fn begin(&self, turn: &Turn) -> Result<()> {
        let mut now = self.now.lock().await;
        while let Some(text) = now.waiting.front() {
            remark(turn, "", text).await?;
            now.waiting.pop_front();
        }
        now.turn = Some(turn.clone());
        Ok(())
    }

    /// Tells it: one line, and more of it if there is more. Both are safe to show.
    pub async fn tell(&self, severity: Severity, title: String, more: Option<String>) {
        if shows(&self.session.client()) {
            let notice = Notice { severity, title, description: more, ..Default::default() };
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
        // A turn that is over says nothing.
        if let Some(turn) = &now.turn
            && remark(turn, "\n\n", &text).await.is_ok()
        {
            return;
        }
        if now.waiting.len() == MAX_WAITING {
            now.waiting.pop_front();
        }
        now.waiting.push_back(text);
    }
}

/// Says what is no part of the conversation, as a message of its own; it is not written down. Where messages may not be told apart,
/// which is so in version 1, it is kept apart from what was said before and what comes next by empty lines.
async fn remark(turn: &Turn, gap: &str, text: &str) -> Result<()> {
    let apart = turn.client().dialect() != Dialect::V1;
    let text = if apart { text.to_owned() } else { format!("{gap}{text}\n\n") };
    turn.update_unrecorded(Update::text(MessageKind::Agent, Some(new_id()), text)).await
}
