//! The one transcript of a live session: fed once, borrowed by the record, the questions and the watch over the files.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tieline::rpc::sync::{Lock, when};
use tieline::schema::{
    Dialect, Item, Items, Patch, PermissionRequest, PermissionSubject, ToolCallItem, ToolCallUpdate, Transcript, Update,
};
use tokio::sync::Notify;

/// So many updates of tool calls are remembered one by one.
const MAX_LAST_CALLS: usize = 32;
/// How long a question waits for what the agent reported before it and nobody has read yet.
const QUESTION_TIMEOUT: Duration = Duration::from_millis(300);

/// The conversation of a session, but for the text of messages, which may be huge. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Conversation(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    heard: Notify,
}

#[derive(Debug)]
struct State {
    transcript: Arc<Transcript>,
    /// Questions have no title but that of their call.
    untitled: bool,
    /// What was heard last of tool calls.
    last: VecDeque<ToolCallUpdate>,
}

impl Default for State {
    fn default() -> Self {
        Self { transcript: Arc::new(Transcript::new(Dialect::V2)), untitled: false, last: VecDeque::new() }
    }
}

impl Conversation {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.locked()
    }

    /// The dialect is known now; a conversation begins.
    pub fn speaks(&self, dialect: Dialect) {
        let mut state = self.state();
        (state.transcript, state.untitled) = (Arc::new(Transcript::new(dialect)), dialect != Dialect::V2);
    }

    /// Takes an update in. Gives the conversation as it is then, and the place of the item that changed.
    pub fn apply(&self, update: &Update) -> (Arc<Transcript>, Option<usize>) {
        let mut state = self.state();
        if let Update::ToolCall(call) = update {
            if state.last.len() >= MAX_LAST_CALLS {
                state.last.pop_front();
            }
            state.last.push_back((**call).clone());
        }
        let at = match update {
            Update::Chunk(_) | Update::Message(_) => None,
            // Nobody holds on to an older state while an update is taken in, so nothing is copied.
            update => Arc::make_mut(&mut state.transcript).apply(update),
        };
        let now = (Arc::clone(&state.transcript), at);
        drop(state);
        self.0.heard.notify_waiters();
        now
    }

    /// The conversation as it is now. To be let go of soon: while it is held, the next update copies it.
    pub fn now(&self) -> Arc<Transcript> {
        Arc::clone(&self.state().transcript)
    }

    /// The tool calls that are not over.
    pub fn unfinished(&self) -> Vec<String> {
        let state = self.state();
        let calls = state.transcript.items().iter().filter_map(|item| match item {
            Item::ToolCall(call) if !call.status.is_final() => Some(call.id.clone()),
            _ => None,
        });
        calls.collect()
    }

    /// Adds to a question what was told of its call before: many agents name only the id.
    pub async fn complete(&self, request: &mut PermissionRequest) {
        let asked = request.tool_call();
        let Some(PermissionSubject::ToolCall(subject)) = &mut request.subject else { return };
        // The engine has put the question's own words behind what was told before; when they are heard, all of that is.
        let heard = when(&self.0.heard, || self.state().last.contains(&asked).then_some(()));
        let _ = tokio::time::timeout(QUESTION_TIMEOUT, heard).await;
        let state = self.state();
        let Some(known) = state.transcript.tool_call(&asked.tool_call_id) else { return };
        let call = &mut subject.tool_call;
        if let (true, None, Some(title)) = (state.untitled, call.title.set(), &known.title) {
            request.title.clone_from(title);
        }
        let keep = |patch: &Patch<String>, known: &Option<String>| match (patch.set(), known) {
            (None, Some(known)) => Patch::Set(known.clone()),
            _ => patch.clone(),
        };
        (call.title, call.name) = (keep(&call.title, &known.title), keep(&call.name, &known.name));
        if call.kind.set().is_none() {
            call.kind = Patch::Set(known.kind.clone());
        }
        if call.content.set().is_none() && !known.content.is_empty() {
            call.content = Patch::Set(Items(known.content.clone()));
        }
        if call.locations.set().is_none() && !known.locations.is_empty() {
            call.locations = Patch::Set(Items(known.locations.clone()));
        }
        if let (None, Some(input)) = (call.raw_input.set(), &known.raw_input) {
            call.raw_input = Patch::Set(input.clone());
        }
    }
}

/// True if the agent says that a call was not done because it was not allowed; nothing of it ran then.
pub fn never_ran(call: &ToolCallItem) -> bool {
    let said = || call.raw_output.as_ref()?.parse::<serde_json::Value>().ok()?.get("ran")?.as_bool();
    said() == Some(false)
}
