//! The one transcript of a live session: fed once, borrowed by the record and the watch over the files.

use std::sync::{Arc, Mutex, MutexGuard};
use tieline::rpc::sync::Lock;
use tieline::schema::{Dialect, Item, ToolCallItem, Transcript, Update};

/// The conversation of a session, but for the text of messages, which may be huge. Clones are the same.
#[derive(Debug, Clone)]
pub struct Conversation(Arc<Mutex<Arc<Transcript>>>);

impl Default for Conversation {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Arc::new(Transcript::new(Dialect::V2)))))
    }
}

impl Conversation {
    fn transcript(&self) -> MutexGuard<'_, Arc<Transcript>> {
        self.0.locked()
    }

    /// The dialect is known now; a conversation begins.
    pub fn speaks(&self, dialect: Dialect) {
        *self.transcript() = Arc::new(Transcript::new(dialect));
    }

    /// Takes an update in. Gives the conversation as it is then, and the place of the item that changed.
    pub fn apply(&self, update: &Update) -> (Arc<Transcript>, Option<usize>) {
        let mut transcript = self.transcript();
        let at = match update {
            Update::Chunk(_) | Update::Message(_) => None,
            // Nobody holds on to an older state while an update is taken in, so nothing is copied.
            update => Arc::make_mut(&mut transcript).apply(update),
        };
        (Arc::clone(&transcript), at)
    }

    /// The conversation as it is now. To be let go of soon: while it is held, the next update copies it.
    pub fn now(&self) -> Arc<Transcript> {
        Arc::clone(&self.transcript())
    }

    /// The tool calls that are not over.
    pub fn unfinished(&self) -> Vec<String> {
        let transcript = self.transcript();
        let calls = transcript.items().iter().filter_map(|item| match item {
            Item::ToolCall(call) if !call.status.is_final() => Some(call.id.clone()),
            _ => None,
        });
        calls.collect()
    }
}

/// True if the agent says that a call was not even begun.
pub fn never_ran(call: &ToolCallItem) -> bool {
    says(call, "ran") == Some(false)
}

/// True if the agent says that this is because a rule or its mode does not allow it.
pub(crate) fn was_refused(call: &ToolCallItem) -> bool {
    says(call, "refused") == Some(true)
}

fn says(call: &ToolCallItem, what: &str) -> Option<bool> {
    call.raw_output.as_ref()?.parse::<serde_json::Value>().ok()?.get(what)?.as_bool()
}
