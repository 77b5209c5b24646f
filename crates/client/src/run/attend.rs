//! Between the agent and the services: questions are completed with what is known of their tool calls, and what is allowed and
//! written is told to the watch over the files of the turn first.

use super::Notes;
use super::keep::Keep;
use super::limits::Signs;
use crate::undo::Watch;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tieline::Result;
use tieline::client::Handler;
use tieline::rpc::sync::{Lock, when};
use tieline::schema::{
    CreateTerminalRequest, Dialect, ElicitRequest, ElicitResponse, ExitStatus, Items, Patch, PermissionOutcome,
    PermissionRequest, PermissionSubject, Raw, ReadTextFileRequest, TerminalOutputResponse, TerminalRequest,
    ToolCallUpdate, Transcript, Update, WriteTextFileRequest,
};
use tokio::sync::Notify;

/// So many updates of tool calls are remembered one by one.
const LAST: usize = 32;
/// How long a question waits for what was told before it.
const PATIENCE: Duration = Duration::from_millis(300);

/// The watch over the turn that runs, if there is one. Clones are the same place.
#[derive(Debug, Clone, Default)]
pub(super) struct Watching(Arc<Mutex<Option<Arc<Watch>>>>);

impl Watching {
    pub(super) fn set(&self, watch: Option<Watch>) {
        *self.0.locked() = watch.map(Arc::new);
    }

    pub(super) fn get(&self) -> Option<Arc<Watch>> {
        self.0.locked().clone()
    }
}

/// What is known of the tool calls of the session. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(super) struct Calls(Arc<Known>);

#[derive(Debug, Default)]
struct Known {
    state: Mutex<State>,
    heard: Notify,
}

#[derive(Debug)]
struct State {
    transcript: Transcript,
    /// Questions have no title but that of their call.
    untitled: bool,
    /// What was heard last.
    last: VecDeque<ToolCallUpdate>,
}

impl Default for State {
    fn default() -> Self {
        Self { transcript: Transcript::new(Dialect::V2), untitled: false, last: VecDeque::new() }
    }
}

impl Calls {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.locked()
    }

    /// The dialect is known now.
    pub(super) fn speaks(&self, dialect: Dialect) {
        let mut state = self.state();
        (state.transcript, state.untitled) = (Transcript::new(dialect), dialect != Dialect::V2);
    }

    /// Hears an update; only tool calls matter.
    pub(super) fn hear(&self, update: &Update) {
        let mut state = self.state();
        match update {
            Update::ToolCall(call) => {
                if state.last.len() >= LAST {
                    state.last.pop_front();
                }
                state.last.push_back((**call).clone());
            }
            Update::ToolCallContent(_) => {}
            _ => return,
        }
        state.transcript.apply(update);
        drop(state);
        self.0.heard.notify_waiters();
    }

    /// Adds to a question what was told of its call before: many agents name only the id.
    async fn complete(&self, request: &mut PermissionRequest) {
        let asked = request.tool_call();
        let Some(PermissionSubject::ToolCall(subject)) = &mut request.subject else { return };
        // The engine has put the question's own words behind what was told before; when they are heard, all of that is.
        let heard = when(&self.0.heard, || self.state().last.contains(&asked).then_some(()));
        let _ = tokio::time::timeout(PATIENCE, heard).await;
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

/// Who hears of what is done for the agent.
#[derive(Clone)]
pub(super) struct Attending {
    pub(super) watching: Watching,
    pub(super) calls: Calls,
    pub(super) keep: Arc<tokio::sync::Mutex<Keep>>,
    pub(super) notes: Notes,
    pub(super) signs: Signs,
}

impl Attending {
    /// Writes down what was decided, before the agent is told.
    async fn write_down(&self) {
        self.keep.lock().await.decisions(&self.notes).await;
    }
}

/// A handler whose doings are heard of.
#[derive(Clone)]
pub(super) struct Attended<H> {
    pub(super) inner: H,
    pub(super) attending: Attending,
}

impl<H: Handler> Handler for Attended<H> {
    async fn permission(&self, mut request: PermissionRequest) -> PermissionOutcome {
        let _waits = self.attending.signs.waits();
        self.attending.calls.complete(&mut request).await;
        let outcome = self.inner.permission(request.clone()).await;
        self.attending.write_down().await;
        if outcome.chosen(&request.options).is_some_and(|option| option.kind.allows())
            && let Some(watch) = self.attending.watching.get()
        {
            watch.allowed(&request).await;
        }
        outcome
    }

    async fn read_text_file(&self, request: ReadTextFileRequest) -> Result<String> {
        let _waits = self.attending.signs.waits();
        let read = self.inner.read_text_file(request).await;
        self.attending.write_down().await;
        read
    }

    async fn write_text_file(&self, request: WriteTextFileRequest) -> Result<()> {
        let _waits = self.attending.signs.waits();
        if let Some(watch) = self.attending.watching.get() {
            watch.writing(request.path.as_ref()).await;
        }
        let written = self.inner.write_text_file(request).await;
        self.attending.write_down().await;
        written
    }

    async fn create_terminal(&self, request: CreateTerminalRequest) -> Result<String> {
        let _waits = self.attending.signs.waits();
        let made = self.inner.create_terminal(request).await;
        self.attending.write_down().await;
        if let (Ok(_), Some(watch)) = (&made, self.attending.watching.get()) {
            watch.command();
        }
        made
    }

    async fn terminal_output(&self, request: TerminalRequest) -> Result<TerminalOutputResponse> {
        let _waits = self.attending.signs.waits();
        self.inner.terminal_output(request).await
    }

    async fn wait_for_terminal_exit(&self, request: TerminalRequest) -> Result<ExitStatus> {
        let _waits = self.attending.signs.waits();
        self.inner.wait_for_terminal_exit(request).await
    }

    async fn kill_terminal(&self, request: TerminalRequest) -> Result<()> {
        let _waits = self.attending.signs.waits();
        self.inner.kill_terminal(request).await
    }

    async fn release_terminal(&self, request: TerminalRequest) -> Result<()> {
        let _waits = self.attending.signs.waits();
        self.inner.release_terminal(request).await
    }

    async fn elicit(&self, request: ElicitRequest) -> Result<ElicitResponse> {
        let _waits = self.attending.signs.waits();
        self.inner.elicit(request).await
    }

    async fn elicitation_complete(&self, elicitation_id: String) {
        self.inner.elicitation_complete(elicitation_id).await;
    }

    async fn extension(&self, method: String, params: Raw) -> Result<Raw> {
        let _waits = self.attending.signs.waits();
        self.inner.extension(method, params).await
    }

    async fn extension_notification(&self, method: String, params: Raw) {
        self.inner.extension_notification(method, params).await;
    }
}
