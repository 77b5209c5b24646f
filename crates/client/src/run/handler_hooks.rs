//! Between the agent and the services: what was decided is written down before the agent is told, and the watch over the
//! files of the turn hears what is allowed and written.

use super::journal_writer::JournalWriter;
use super::limits::IdleTimer;
use super::{Frames, Notes};
use crate::services::Services;
use crate::undo::Watch;
use std::sync::Arc;
use tieline::Result;
use tieline::client::Handler;
use tieline::rpc::Dropped;
use tieline::schema::{
    CreateTerminalRequest, ElicitRequest, ElicitResponse, ElicitScope, ExitStatus, PermissionOutcome,
    PermissionRequest, ReadTextFileRequest, TerminalOutputResponse, TerminalRequest, WriteTextFileRequest,
};
use tokio::sync::Mutex;

/// Services whose doings are heard of.
pub(super) struct Hooked {
    pub(super) services: Services,
    pub(super) writer: Arc<Mutex<JournalWriter>>,
    pub(super) notes: Notes,
    pub(super) idle: IdleTimer,
    pub(super) frames: Arc<Frames>,
}

impl Hooked {
    /// Writes down what was decided. Gives the watch over the turn that runs, if there is one.
    async fn write_down(&self) -> Option<Arc<Watch>> {
        let mut writer = self.writer.lock().await;
        writer.decisions(&self.notes).await;
        writer.watch.clone()
    }
}

impl Handler for Hooked {
    async fn permission(&self, request: PermissionRequest) -> PermissionOutcome {
        let _waits = self.idle.waits();
        let (watch, question) = (self.write_down().await, self.services.permission(request.clone()));
        let outcome = match &watch {
            Some(watch) => watch.asking(&request.tool_call().tool_call_id, question).await,
            None => question.await,
        };
        self.write_down().await;
        let allowed = outcome.chosen(&request.options).is_some_and(|option| option.kind.allows());
        if let Some(watch) = watch.filter(|_| allowed) {
            watch.allowed(&request).await;
        }
        outcome
    }

    async fn read_text_file(&self, request: ReadTextFileRequest) -> Result<String> {
        let _waits = self.idle.waits();
        let read = self.services.read_text_file(request).await;
        self.write_down().await;
        read
    }

    async fn write_text_file(&self, request: WriteTextFileRequest) -> Result<()> {
        let _waits = self.idle.waits();
        if let Some(watch) = self.write_down().await {
            watch.writing(request.path.as_ref()).await;
        }
        let written = self.services.write_text_file(request).await;
        self.write_down().await;
        written
    }

    async fn create_terminal(&self, request: CreateTerminalRequest) -> Result<String> {
        let _waits = self.idle.waits();
        let made = self.services.create_terminal(request).await;
        if let Some(watch) = self.write_down().await.filter(|_| made.is_ok()) {
            watch.command();
        }
        made
    }

    async fn terminal_output(&self, request: TerminalRequest) -> Result<TerminalOutputResponse> {
        let _waits = self.idle.waits();
        self.services.terminal_output(request).await
    }

    async fn wait_for_terminal_exit(&self, request: TerminalRequest) -> Result<ExitStatus> {
        let _waits = self.idle.waits();
        self.services.wait_for_terminal_exit(request).await
    }

    async fn kill_terminal(&self, request: TerminalRequest) -> Result<()> {
        let _waits = self.idle.waits();
        self.services.kill_terminal(request).await
    }

    async fn release_terminal(&self, request: TerminalRequest) -> Result<()> {
        let _waits = self.idle.waits();
        self.services.release_terminal(request).await
    }

    async fn elicit(&self, request: ElicitRequest) -> Result<ElicitResponse> {
        let _waits = self.idle.waits();
        let call = match &request.scope {
            ElicitScope::Session { tool_call_id, .. } => tool_call_id.clone().unwrap_or_default(),
            ElicitScope::Request(_) => String::new(),
        };
        let (watch, question) = (self.write_down().await, self.services.elicit(request));
        match watch {
            Some(watch) => watch.asking(&call, question).await,
            None => question.await,
        }
    }

    fn dropped(&self, what: Dropped<'_>) {
        self.frames.dropped(what);
    }

    async fn elicitation_complete(&self, elicitation_id: String) {
        self.services.elicitation_complete(elicitation_id).await;
    }
}
