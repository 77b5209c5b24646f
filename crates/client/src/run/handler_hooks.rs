//! Between the agent and the services: questions are completed with what is known of their tool calls, and what is allowed and
//! written is told to the watch over the files of the turn first.

use super::Notes;
use super::journal_writer::JournalWriter;
use super::limits::IdleTimer;
use crate::live::Conversation;
use crate::undo::Watch;
use std::sync::{Arc, Mutex};
use tieline::Result;
use tieline::client::Handler;
use tieline::rpc::sync::Lock;
use tieline::schema::{
    CreateTerminalRequest, ElicitRequest, ElicitResponse, ExitStatus, PermissionOutcome, PermissionRequest, Raw,
    ReadTextFileRequest, TerminalOutputResponse, TerminalRequest, WriteTextFileRequest,
};

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

/// Who hears of what is done for the agent.
#[derive(Clone)]
pub(super) struct Hooks {
    pub(super) watching: Watching,
    pub(super) conversation: Conversation,
    pub(super) writer: Arc<tokio::sync::Mutex<JournalWriter>>,
    pub(super) notes: Notes,
    pub(super) idle: IdleTimer,
}

impl Hooks {
    /// Writes down what was decided, before the agent is told.
    async fn write_down(&self) {
        self.writer.lock().await.decisions(&self.notes).await;
    }
}

/// A handler whose doings are heard of.
#[derive(Clone)]
pub(super) struct Hooked<H> {
    pub(super) inner: H,
    pub(super) hooks: Hooks,
}

impl<H: Handler> Handler for Hooked<H> {
    async fn permission(&self, mut request: PermissionRequest) -> PermissionOutcome {
        let _waits = self.hooks.idle.waits();
        self.hooks.conversation.complete(&mut request).await;
        let (watch, question) = (self.hooks.watching.get(), self.inner.permission(request.clone()));
        let outcome = match &watch {
            Some(watch) => watch.asking(&request.tool_call().tool_call_id, question).await,
            None => question.await,
        };
        self.hooks.write_down().await;
        if outcome.chosen(&request.options).is_some_and(|option| option.kind.allows())
            && let Some(watch) = watch
        {
            watch.allowed(&request).await;
        }
        outcome
    }

    async fn read_text_file(&self, request: ReadTextFileRequest) -> Result<String> {
        let _waits = self.hooks.idle.waits();
        let read = self.inner.read_text_file(request).await;
        self.hooks.write_down().await;
        read
    }

    async fn write_text_file(&self, request: WriteTextFileRequest) -> Result<()> {
        let _waits = self.hooks.idle.waits();
        if let Some(watch) = self.hooks.watching.get() {
            watch.writing(request.path.as_ref()).await;
        }
        let written = self.inner.write_text_file(request).await;
        self.hooks.write_down().await;
        written
    }

    async fn create_terminal(&self, request: CreateTerminalRequest) -> Result<String> {
        let _waits = self.hooks.idle.waits();
        let made = self.inner.create_terminal(request).await;
        self.hooks.write_down().await;
        if let (Ok(_), Some(watch)) = (&made, self.hooks.watching.get()) {
            watch.command();
        }
        made
    }

    async fn terminal_output(&self, request: TerminalRequest) -> Result<TerminalOutputResponse> {
        let _waits = self.hooks.idle.waits();
        self.inner.terminal_output(request).await
    }

    async fn wait_for_terminal_exit(&self, request: TerminalRequest) -> Result<ExitStatus> {
        let _waits = self.hooks.idle.waits();
        self.inner.wait_for_terminal_exit(request).await
    }

    async fn kill_terminal(&self, request: TerminalRequest) -> Result<()> {
        let _waits = self.hooks.idle.waits();
        self.inner.kill_terminal(request).await
    }

    async fn release_terminal(&self, request: TerminalRequest) -> Result<()> {
        let _waits = self.hooks.idle.waits();
        self.inner.release_terminal(request).await
    }

    async fn elicit(&self, request: ElicitRequest) -> Result<ElicitResponse> {
        let _waits = self.hooks.idle.waits();
        self.inner.elicit(request).await
    }

    async fn elicitation_complete(&self, elicitation_id: String) {
        self.inner.elicitation_complete(elicitation_id).await;
    }

    async fn extension(&self, method: String, params: Raw) -> Result<Raw> {
        let _waits = self.hooks.idle.waits();
        self.inner.extension(method, params).await
    }

    async fn extension_notification(&self, method: String, params: Raw) {
        self.inner.extension_notification(method, params).await;
    }
}
