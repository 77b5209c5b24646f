//! One prompt, seen from the client: its updates, and how it ended.

use super::session::Core;
use super::turn_state::{Abandoned, TurnState};
use super::update_queue::UpdateQueue;
use crate::error::{Error, Result};
use std::sync::Arc;
use tieline_schema::{ContentBlock, MessageKind, StopReason, Update};

/// A prompt at work. Dropping it before its end cancels it.
#[must_use = "a turn that is dropped is cancelled"]
pub struct Turn {
    core: Arc<Core>,
    state: Arc<TurnState>,
}

impl std::fmt::Debug for Turn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Turn").field("session", &self.core.id).field("result", &self.state.result()).finish()
    }
}

impl Turn {
    pub(crate) fn new(core: Arc<Core>, state: Arc<TurnState>) -> Self {
        Self { core, state }
    }

    pub(crate) fn sent_as(&self, request: u64) {
        self.state.sent_as(request);
    }

    fn queue(&self) -> &UpdateQueue {
        &self.core.queue
    }

    /// The next update; `None` once the turn has ended, in every dialect. Unread updates from before the turn come first.
    pub async fn next(&mut self) -> Option<Update> {
        self.queue().next_of(&self.state).await
    }

    /// The id that the agent gave the prompt, once it has told (current v2).
    pub fn message_id(&self) -> Option<&str> {
        self.state.message_id()
    }

    /// How the turn ended. An error until [`Self::next`] has returned `None`.
    pub fn stop(&self) -> Result<StopReason> {
        self.state.result().unwrap_or_else(|| Err(Error::Invalid("the turn has not ended".into())))
    }

    /// Reads to the end and gives what the agent said, as text, and why it stopped.
    pub async fn text(mut self) -> Result<(String, StopReason)> {
        let mut said = String::new();
        while let Some(update) = self.next().await {
            match update {
                Update::Chunk(chunk) if chunk.kind == MessageKind::Agent => {
                    said.push_str(chunk.content.as_text().unwrap_or_default());
                }
                Update::Message(message) if message.kind == MessageKind::Agent => {
                    let blocks = message.content.set().map(|items| &items[..]).unwrap_or_default();
                    said.extend(blocks.iter().filter_map(ContentBlock::as_text));
                }
                _ => {}
            }
        }
        Ok((said, self.stop()?))
    }

    /// Asks the agent to stop. Open questions to the user are answered with `cancelled`; go on reading until the end.
    pub async fn cancel(&self) -> Result<()> {
        self.core.cancel().await
    }

    /// Lets the turn go on without reading it here; its updates come from [`super::Session::next`].
    pub fn detach(mut self) {
        self.state = TurnState::detached();
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.state.result().is_none() {
            match self.queue().abandon(&self.state) {
                Abandoned::Over => {}
                Abandoned::Running => self.core.cancel_now(),
                // Only this prompt: the turn before it belongs to someone else.
                Abandoned::Waiting => {
                    if let Some(request) = self.state.request() {
                        self.core.shared.peer.tell_cancelled(request);
                    }
                }
            }
        }
    }
}
