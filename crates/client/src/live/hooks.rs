//! Between the agent and the services: what was decided is written down before the agent is told, and the watch over the
//! files of the turn hears what is allowed and written.

use super::limits::IdleTimer;
use super::session::Seat;
use super::{Frames, Opener};
use crate::Future;
use crate::services::{Services, Watching};
use crate::undo::Watch;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use tieline::Result;
use tieline::client::Handler;
use tieline::rpc::Dropped;
use tieline::rpc::sync::Lock;
use tieline::schema::{
    CreateTerminalRequest, ElicitRequest, ElicitResponse, ExitStatus, PermissionOutcome, PermissionRequest,
    ReadTextFileRequest, SessionId, TerminalOutputResponse, TerminalRequest, WriteTextFileRequest,
};

/// The sessions of an agent that are open here, by its ids.
pub(super) type Seats = Arc<Mutex<HashMap<SessionId, Weak<Seat>>>>;

/// The watches over the turns of sessions.
#[derive(Clone)]
pub(super) struct Watched(pub(super) Seats);

impl Watched {
    /// Writes down what was decided. Gives the watch over the turn that runs, if there is one.
    async fn write_down(&self, session: &SessionId) -> Option<Arc<Watch>> {
        let seat = self.0.locked().get(session).and_then(Weak::upgrade)?;
        let mut writer = seat.writer.lock().await;
        writer.decisions(session).await;
        writer.watch.clone()
    }
}

impl Watching for Watched {
    fn watch<'a>(&'a self, session: Option<&'a SessionId>) -> Future<'a, Option<Arc<Watch>>> {
        // Whose it is can be told if there is only one.
        let only = || {
            let seats = self.0.locked();
            seats.keys().next().filter(|_| seats.len() == 1).cloned()
        };
        let session = session.cloned().or_else(only);
        Box::pin(async move { self.write_down(&session?).await })
    }
}

/// Services whose doings are heard of.
pub(super) struct Hooked {
    pub(super) services: Services,
    pub(super) idle: IdleTimer,
    pub(super) frames: Arc<Frames>,
    pub(super) seats: Watched,
    /// What it serves is none of ours: neither our rules nor undo are about its machine.
    pub(super) opener: Opener,
    /// How many terminals were begun.
    pub(super) started: AtomicU64,
}

impl Hooked {
    async fn write_down(&self, session: &SessionId) -> Option<Arc<Watch>> {
        self.seats.write_down(session).await
    }

    /// Before the agent hears that a command is over, what it changed is noted: what changes from now on is something else.
    async fn command_ended(&self, request: &TerminalRequest) {
        if let Some(watch) = self.write_down(&request.session_id).await {
            watch.ended(&request.terminal_id).await;
        }
    }
}

impl Handler for Hooked {
    async fn permission(&self, request: PermissionRequest) -> PermissionOutcome {
        let (_waits, session) = (self.idle.waits(), &request.session_id);
        let outcome = self.services.permission(request.clone()).await;
        let watch = self.write_down(session).await;
        let allowed = outcome.chosen(&request.options).is_some_and(|option| option.kind.allows());
        if let Some(watch) = watch.filter(|_| allowed) {
            watch.allowed(&request).await;
        }
        outcome
    }

    async fn read_text_file(&self, request: ReadTextFileRequest) -> Result<String> {
        let (_waits, session) = (self.idle.waits(), request.session_id.clone());
        if let Some(read) = self.opener.read(&request).await {
            return read;
        }
        let read = self.services.read_text_file(request).await;
        self.write_down(&session).await;
        read
    }

    async fn write_text_file(&self, request: WriteTextFileRequest) -> Result<()> {
        let (_waits, session, path) = (self.idle.waits(), request.session_id.clone(), request.path.clone());
        if let Some(written) = self.opener.write(&request).await {
            return written;
        }
        let allowed = self.services.allow_write(request).await;
        let watch = self.write_down(&session).await;
        // Nothing is remembered of what was refused: it would cost more with each refusal.
        let allowed = allowed?;
        if let Some(watch) = watch {
            watch.writing(path.as_ref()).await;
        }
        self.services.write_allowed(allowed).await
    }

    async fn create_terminal(&self, request: CreateTerminalRequest) -> Result<String> {
        let _waits = self.idle.waits();
        if let Some(started) = self.opener.start(&request).await {
            return started;
        }
        let allowed = self.services.allow_terminal(&request).await;
        let watch = self.write_down(&request.session_id).await;
        let allowed = allowed?;
        let Some(watch) = watch else { return self.services.start_terminal(&request, allowed).await };
        // It has no name yet, and may have changed something before it has one.
        let starting = format!("starting {}", self.started.fetch_add(1, Ordering::Relaxed));
        watch.command(&starting).await;
        let made = self.services.start_terminal(&request, allowed).await;
        if let Ok(id) = &made
            && let Some(view) = self.services.terminals().watch(id)
        {
            watch.command(id).await;
            let (watch, id) = (Arc::clone(&watch), id.clone());
            tokio::spawn(async move {
                view.outcome().await;
                watch.ended(&id).await;
            });
        }
        watch.ended(&starting).await;
        made
    }

    async fn terminal_output(&self, request: TerminalRequest) -> Result<TerminalOutputResponse> {
        let _waits = self.idle.waits();
        if let Some(terminal) = self.opener.terminal(&request) {
            return terminal.output().await;
        }
        let output = self.services.terminal_output(request.clone()).await?;
        if output.exit_status.is_some() {
            self.command_ended(&request).await;
        }
        Ok(output)
    }

    async fn wait_for_terminal_exit(&self, request: TerminalRequest) -> Result<ExitStatus> {
        let _waits = self.idle.waits();
        if let Some(terminal) = self.opener.terminal(&request) {
            return terminal.wait().await;
        }
        let exit = self.services.wait_for_terminal_exit(request.clone()).await?;
        self.command_ended(&request).await;
        Ok(exit)
    }

    async fn kill_terminal(&self, request: TerminalRequest) -> Result<()> {
        let _waits = self.idle.waits();
        if let Some(terminal) = self.opener.terminal(&request) {
            return terminal.kill().await;
        }
        self.services.kill_terminal(request.clone()).await?;
        self.command_ended(&request).await;
        Ok(())
    }

    async fn release_terminal(&self, request: TerminalRequest) -> Result<()> {
        let _waits = self.idle.waits();
        if let Some(released) = self.opener.release(&request).await {
            return released;
        }
        self.services.release_terminal(request).await
    }

    async fn elicit(&self, request: ElicitRequest) -> Result<ElicitResponse> {
        let _waits = self.idle.waits();
        self.services.elicit(request).await
    }

    fn dropped(&self, what: Dropped<'_>) {
        self.frames.dropped(what);
    }

    async fn elicitation_complete(&self, elicitation_id: String) {
        self.services.elicitation_complete(elicitation_id).await;
    }
}
