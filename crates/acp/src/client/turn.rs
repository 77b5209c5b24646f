//! One prompt, seen from the client: its updates, and how it ended.

use super::session::Core;
use super::turn_state::{Abandoned, TurnState};
use super::update_queue::UpdateQueue;
use crate::error::{Error, Result};
use crate::meta::Carried;
use std::sync::Arc;
use tieline_rpc::sync::Lock;
use tieline_schema::{ContentBlock, MessageKind, Meta, StopReason, Update};

/// A prompt at work. Dropping it before its end cancels it.
#[must_use = "a turn that is dropped is cancelled"]
pub struct Turn {
    core: Arc<Core>,
    state: Arc<TurnState>,
    carried: Carried,
}

impl std::fmt::Debug for Turn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Turn")
            .field("session", &self.core.id)
            .field("result", &self.state.result())
            .finish_non_exhaustive()
    }
}

impl Turn {
    pub(crate) fn new(core: Arc<Core>, state: Arc<TurnState>, carried: Carried) -> Self {
        Self { core, state, carried }
    }

    pub(crate) fn sent_as(&self, request: u64) {
        self.state.sent_as(request);
    }

    fn queue(&self) -> &UpdateQueue {
        &self.core.queue
    }

    /// The next update; `None` once the turn has ended, in every dialect. Unread updates from before the turn come first, then the
    /// user's own message with its id, then what the agent does. In version 1, where agents don't say it back, the message is made
    /// here (and left out if an agent says it all the same), so one transcript serves all.
    pub async fn next(&mut self) -> Option<Update> {
        self.queue().next_of(&self.state).await
    }

    /// Waits for the end of the turn, while somebody else reads its updates.
    pub(crate) async fn ended(&self) {
        self.queue().ended(&self.state).await;
    }

    /// Waits until the agent has taken the prompt in. In current v2, where a prompt may be sent while another one is worked on, it is
    /// answered then; an error means that it was not taken. Somebody has to read the updates of the session meanwhile.
    pub async fn taken(&self) -> Result<()> {
        self.queue().accepted(&self.state).await.map_err(|error| error.of_agent(&self.core.shared.about.auth_methods))
    }

    /// The id of the user's message: in current v2 the one that the agent gave it, once it has told; in version 1 our own.
    pub fn message_id(&self) -> Option<&str> {
        self.state.message_id()
    }

    /// The `_meta` of the agent's answer to the prompt, once the turn has ended. In current v2, where prompts are answered at once,
    /// that of the state that ends the turn, or else of the answer.
    pub fn meta(&self) -> Option<Meta> {
        self.state.meta.locked().clone()
    }

    /// The `_meta` beside the update that was read last.
    pub fn update_meta(&self) -> Option<Meta> {
        self.queue().update_meta()
    }

    /// How the turn ended. An error until [`Self::next`] has returned `None`.
    pub fn stop(&self) -> Result<StopReason> {
        let result = self.state.result().unwrap_or_else(|| Err(Error::Invalid("the turn has not ended".into())));
        result.map_err(|error| error.of_agent(&self.core.shared.about.auth_methods))
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

    /// Asks the agent to stop, with the `_meta` of the prompt. Open questions to the user are answered with `cancelled`; go on reading until the end.
    pub async fn cancel(&self) -> Result<()> {
        self.core.cancel(&self.carried).await
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
