//! What an agent reports in one session, on its way to the client: in order, one at a time.

use super::{Shared, loss};
use crate::agent::{SessionHandle, Turn};
use crate::client::update_queue::UpdateQueue;
use crate::error::{Error, Result};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use tieline_rpc::Cancel;
use tieline_rpc::sync::Lock as _;
use tieline_schema::{
    Chunk, ClientCapabilities, ConfigKind, ConfigOption, Content, ContentBlock, Dialect, Message, MessageKind, Plan,
    PlanUpdate, Severity, State, StateUpdate, ToolCallContent, ToolCallStatus, ToolCallUpdate, Update,
};

/// So many unfinished calls of a turn are known by their id.
const MAX_OPEN_CALLS: usize = 1024;

/// The way from an agent's session to the client's.
pub(super) struct Line {
    pub(super) shared: Arc<Shared>,
    pub(super) session: SessionHandle,
    pub(super) queue: Arc<UpdateQueue>,
    pub(super) turn: Mutex<Option<OpenTurn>>,
    /// What comes now is an earlier conversation that nobody asked for.
    swallows: AtomicBool,
}

/// The client's prompt that the agent works on.
pub(super) struct OpenTurn {
    pub(super) turn: Turn,
    /// The agent's id of the prompt: the client has heard it from us already.
    echo: Option<String>,
    /// Calls that are not finished.
    pub(super) calls: BTreeSet<String>,
    /// Why the turn can't go on.
    pub(super) refused: Option<Error>,
    /// Raised when it can't.
    pub(super) stop: Cancel,
}

/// Reads a line while this lives.
pub(super) struct Reading {
    pub(super) line: Arc<Line>,
    task: tokio::task::AbortHandle,
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.task.abort();
        // Another one may have taken its place.
        self.line.shared.lines.locked().retain(|_, line| !Arc::ptr_eq(line, &self.line));
    }
}

impl Line {
    pub(super) fn new(shared: Arc<Shared>, session: SessionHandle, queue: Arc<UpdateQueue>) -> Arc<Self> {
        let (turn, swallows) = Default::default();
        let line = Arc::new(Self { shared, session, queue, turn, swallows });
        line.shared.lines.locked().insert(line.session.id().clone(), Arc::clone(&line));
        line
    }

    /// Begins to pass on.
    pub(super) fn read(self: Arc<Self>) -> Reading {
        let line = Arc::clone(&self);
        let task = tokio::spawn(async move {
            while let Some(update) = line.queue.next().await {
                // A client that is gone ends the bridge, not the line.
                let _ = line.pass(update).await;
            }
        });
        Reading { line: self, task: task.abort_handle() }
    }

    pub(super) fn swallow(&self, swallows: bool) {
        self.swallows.store(swallows, Ordering::Relaxed);
    }

    pub(super) fn begin(&self, turn: Turn) -> Cancel {
        let stop = Cancel::default();
        let calls = BTreeSet::new();
        *self.turn.locked() = Some(OpenTurn { turn, echo: None, calls, refused: None, stop: stop.clone() });
        stop
    }

    async fn pass(&self, update: Update) -> Result<()> {
        let meta = self.queue.update_meta();
        let update = update.heard_from(self.shared.reached()?.agent.dialect());
        if self.swallows.load(Ordering::Relaxed) || !self.note(&update) {
            return Ok(());
        }
        if let Some(what) = lost(&update, self.session.dialect(), self.session.client().capabilities()) {
            self.lose(what).await?;
        }
        let session = meta.map_or_else(|| self.session.clone(), |meta| self.session.with_meta(meta));
        match update {
            Update::State(update) => self.state(&session, update).await,
            update => session.update(update).await,
        }
    }

    /// Takes note of what happens in the turn. False for what the client has heard from us: its own prompt.
    fn note(&self, update: &Update) -> bool {
        let mut turn = self.turn.locked();
        let Some(turn) = &mut *turn else { return true };
        let said = match update {
            Update::Message(Message { kind: MessageKind::User, message_id, .. })
            | Update::Chunk(Chunk { kind: MessageKind::User, message_id: Some(message_id), .. }) => message_id,
            Update::ToolCall(call) => {
                if call.status.set().is_some_and(ToolCallStatus::is_final) {
                    turn.calls.remove(&call.tool_call_id);
                } else if turn.calls.len() < MAX_OPEN_CALLS && (call.announce || call.status.set().is_some()) {
                    turn.calls.insert(call.tool_call_id.clone());
                }
                return true;
            }
            _ => return true,
        };
        turn.echo.get_or_insert_with(|| said.clone()) != said
    }

    /// The states of a turn that the client began are told by the engine; here are all others.
    async fn state(&self, session: &SessionHandle, update: StateUpdate) -> Result<()> {
        if let Some(background) = &update.background {
            session.background(background.clone()).await?;
        }
        let again = update.state == State::default();
        if self.turn.locked().is_some() || again { Ok(()) } else { session.update(update).await }
    }

    /// Something is lost: the client is told, or its turn ends.
    pub(super) async fn lose(&self, what: &'static str) -> Result<()> {
        match self.shared.lose(what) {
            Ok(true) => self.session.notice(Severity::Warning, format!("Not passed on: {what}")).await,
            Ok(false) => Ok(()),
            Err(error) => {
                if let Some(turn) = &mut *self.turn.locked() {
                    turn.refused.get_or_insert_with(|| error.clone());
                    turn.stop.cancel();
                }
                Err(error)
            }
        }
    }

    /// The turn is over: what the agent left open is told to have ended with it, if the user stopped it.
    pub(super) async fn end(&self, cancelled: bool) -> Option<Error> {
        let open = self.turn.locked().take()?;
        for call in open.calls.into_iter().filter(|_| cancelled) {
            let update = ToolCallUpdate::new(call).status(ToolCallStatus::Cancelled);
            let _ = self.session.update(update).await;
        }
        open.refused
    }
}

/// What of an update a client of this dialect will not see.
fn lost(update: &Update, dialect: Dialect, takes: &ClientCapabilities) -> Option<&'static str> {
    let v1 = dialect == Dialect::V1;
    match update {
        _ if dialect == Dialect::V2 => None,
        Update::State(StateUpdate { background: Some(list), .. }) if !list.is_empty() => Some(loss::BACKGROUND),
        Update::Terminal(_) | Update::TerminalOutput(_) => Some(loss::TERMINAL),
        Update::Notice(_) if !(v1 && takes.notices) => Some(loss::NOTICE),
        Update::Compaction(_) | Update::CompactionSummary(_) if !(v1 && takes.compaction) => Some(loss::COMPACTION),
        Update::Plan(PlanUpdate { plan: Plan::Other { .. }, .. }) if v1 => Some(loss::PLAN),
        Update::ConfigOptions(list) if v1 && has_other(&list.options) => Some(loss::OPTION),
        Update::Other(_) | Update::Chunk(Chunk { content: ContentBlock::Other(_), .. }) if v1 => Some(loss::UNKNOWN),
        Update::ToolCall(call) => call.content.set()?.iter().find_map(|item| lost_content(item, v1)),
        Update::ToolCallContent(chunk) => lost_content(&chunk.content, v1),
        _ => None,
    }
}

fn lost_content(item: &ToolCallContent, v1: bool) -> Option<&'static str> {
    match item {
        ToolCallContent::Diff(diff) if diff.texts().is_none() => Some(loss::DIFF),
        ToolCallContent::Other(_) | ToolCallContent::Content(Content { content: ContentBlock::Other(_), .. }) if v1 => {
            Some(loss::UNKNOWN)
        }
        _ => None,
    }
}

pub(super) fn has_other(options: &[ConfigOption]) -> bool {
    options.iter().any(|option| matches!(option.kind, ConfigKind::Other(_)))
}
