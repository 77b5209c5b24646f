//! The write end of a session: every update goes through here, in order, in the client's dialect.

use super::live_session::LiveSession;
use super::memory::{History, new_history};
use super::negotiated::Negotiated;
use super::session_handle::Recorder;
use crate::error::{Error, Result};
use crate::wire;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::time::Duration;
use tieline_rpc::sync::Lock;
use tieline_rpc::{Cancel, Peer, Responder};
use tieline_schema::{
    Background, Command, ConfigKind, ConfigOption, ConfigOptionsUpdate, ContentBlock, Dialect, Items, Message,
    MessageKind, Meta, PIECE, Patch, Projector, SessionId, SessionInfoUpdate, SessionNotification, State, StateUpdate,
    TextChunk, ToolCallStatus, ToolCallUpdate, Update,
};

/// How often older dialects, which must be told all of it each time, hear of growing tool content.
const GROWING_CONTENT_INTERVAL: Duration = Duration::from_millis(50);

pub(crate) struct SessionWriter {
    /// Made up when it is first asked for, unless the agent has given one.
    id: OnceLock<SessionId>,
    pub(crate) peer: Peer,
    pub(crate) negotiated: Arc<Negotiated>,
    inner: Mutex<Inner>,
    /// Who sees what is told before the client does.
    pub(super) recorder: OnceLock<Arc<dyn Recorder>>,
    /// Its turns, once it is open.
    pub(super) live: OnceLock<Weak<LiveSession>>,
    me: Weak<Self>,
}

pub(crate) struct Inner {
    projector: Projector,
    /// A task will tell what the projector keeps back.
    flushing: bool,
    /// Updates that wait until the client knows the session.
    held: Option<Vec<Held>>,
    /// What was said, if the engine remembers it.
    history: Option<History>,
    /// The turn that may add updates.
    turn: Option<u64>,
    /// What goes on beside the turns; `None` if the agent does not say.
    pub(super) background: Option<Vec<Background>>,
    /// How many questions to the user are open.
    asking: usize,
    /// Tool calls of the turn that have no final status yet.
    open_calls: Vec<String>,
    /// What the client may stop one by one.
    stoppable: BTreeMap<Stoppable, Cancel>,
    commands: Vec<Command>,
    pub(crate) title: Option<String>,
    closed: bool,
}

/// An update that is kept back, with the `_meta` beside it.
pub(crate) type Held = (Update, Option<Meta>);

/// Something that can be stopped on its own.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stoppable {
    ToolCall(String),
    Terminal(String),
}

impl SessionWriter {
    pub(crate) fn new(id: Option<SessionId>, peer: Peer, negotiated: Arc<Negotiated>, remember: bool) -> Arc<Self> {
        let id = id.map(OnceLock::from).unwrap_or_default();
        let inner = Inner {
            projector: negotiated.projector(),
            flushing: false,
            held: None,
            history: remember.then(new_history),
            turn: None,
            background: None,
            asking: 0,
            open_calls: Vec::new(),
            stoppable: BTreeMap::new(),
            commands: Vec::new(),
            title: None,
            closed: false,
        };
        let (inner, recorder, live) = (Mutex::new(inner), OnceLock::new(), OnceLock::new());
        Arc::new_cyclic(|me| Self { id, peer, negotiated, inner, recorder, live, me: me.clone() })
    }

    pub(crate) fn id(&self) -> &SessionId {
        self.id.get_or_init(|| wire::new_id("sess").into())
    }

    pub(super) fn set_id(&self, id: SessionId) -> bool {
        self.id.set(id).is_ok()
    }

    pub(crate) fn dialect(&self) -> Dialect {
        self.negotiated.dialect
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.locked()
    }

    /// True while this turn runs.
    pub(crate) fn is_turn(&self, number: u64) -> bool {
        self.lock().turn == Some(number)
    }

    /// Has an update recorded, then sends it when there is room; `turn` if it belongs to one.
    pub(crate) async fn send(&self, turn: Option<u64>, update: Update, meta: Option<&Meta>) -> Result<()> {
        if let Some(recorder) = self.recorder.get() {
            self.lock().admit(turn)?;
            recorder.record(&update).await?;
        }
        self.send_unrecorded(turn, update, meta).await
    }

    /// Sends an update when there is room.
    pub(crate) async fn send_unrecorded(&self, turn: Option<u64>, update: Update, meta: Option<&Meta>) -> Result<()> {
        self.peer.room().await;
        let mut inner = self.lock();
        inner.admit(turn)?;
        self.put(&mut inner, update, meta)
    }

    /// Sends a piece of text. The hot path: unless it is recorded, nothing is built, the text goes straight into the buffer.
    pub(crate) async fn send_text(
        &self,
        turn: u64,
        kind: MessageKind,
        message_id: &str,
        text: &str,
        meta: Option<&Meta>,
    ) -> Result<()> {
        if let Some(recorder) = self.recorder.get() {
            self.lock().admit(Some(turn))?;
            recorder.record(&Update::text(kind, Some(message_id.to_owned()), text)).await?;
        }
        self.peer.room().await;
        let mut inner = self.lock();
        inner.admit(Some(turn))?;
        let long = text.len() > PIECE && self.negotiated.longest().is_some();
        if inner.history.is_some() || inner.held.is_some() || long || meta.is_some() {
            return self.put(&mut inner, Update::text(kind, Some(message_id.to_owned()), text), meta);
        }
        inner.projector.end_run();
        let chunk = TextChunk { session_id: self.id(), kind, message_id: Some(message_id), text };
        Ok(self.peer.notify_now("session/update", wire::write(&chunk, self.dialect()))?)
    }

    /// Queues an update behind those before it, with the `_meta` beside it. The caller holds the lock, so nothing can get in
    /// between.
    pub(crate) fn put(&self, inner: &mut Inner, update: Update, meta: Option<&Meta>) -> Result<()> {
        if let Some(held) = &mut inner.held {
            held.push((update, meta.cloned()));
            return Ok(());
        }
        inner.note(&update);
        let mut result = Ok(());
        inner.projector.update(update, &mut |update| result = self.tell(update, meta));
        if inner.projector.is_stale() && !std::mem::replace(&mut inner.flushing, true) {
            let writer = Weak::clone(&self.me);
            tokio::spawn(async move {
                tokio::time::sleep(GROWING_CONTENT_INTERVAL).await;
                if let Some(writer) = writer.upgrade() {
                    writer.peer.room().await;
                    let mut inner = writer.lock();
                    inner.flushing = false;
                    writer.flush(&mut inner);
                }
            });
        }
        result
    }

    fn tell(&self, update: Update, meta: Option<&Meta>) -> Result<()> {
        let notification =
            SessionNotification { session_id: self.id().clone(), update, meta: meta.cloned(), ..Default::default() };
        Ok(self.peer.notify_now("session/update", wire::write(&notification, self.negotiated.dialect))?)
    }

    /// Tells what the projector kept back.
    fn flush(&self, inner: &mut Inner) {
        if !inner.closed {
            inner.projector.flush(&mut |update| drop(self.tell(update, None)));
        }
    }

    /// Takes note of an update that the client knows.
    pub(crate) fn knows(&self, update: Update) {
        let mut inner = self.lock();
        inner.note(&update);
        let before = inner.projector.set_replaying(true);
        inner.projector.update(update, &mut drop);
        inner.projector.set_replaying(before);
    }

    /// Sends what the user of another client said.
    pub(crate) async fn send_of_other(&self, update: Update, meta: Option<&Meta>) -> Result<()> {
        self.peer.room().await;
        let mut inner = self.lock();
        inner.admit(None)?;
        let before = inner.projector.set_replaying(true);
        let sent = self.put(&mut inner, update, meta);
        inner.projector.set_replaying(before);
        sent
    }

    /// Whether what is sent now is an earlier conversation.
    pub(crate) fn set_replaying(&self, replaying: bool) {
        self.lock().projector.set_replaying(replaying);
    }

    /// Keeps updates back until [`Self::release`].
    pub(crate) fn hold(&self) {
        self.lock().held.get_or_insert_default();
    }

    /// Gives what was kept back; nothing is kept back any more.
    pub(crate) fn unhold(&self) -> Vec<Held> {
        self.lock().held.take().unwrap_or_default()
    }

    /// Keeps updates back, these first.
    pub(crate) fn hold_again(&self, updates: Vec<Held>) {
        self.lock().held = Some(updates);
    }

    /// Tells the state at once, before anything that is kept back.
    pub(crate) fn state_now(&self, state: State) {
        let mut inner = self.lock();
        let held = inner.held.take();
        self.state(&mut inner, state);
        inner.held = held;
    }

    /// Answers, then sends what was kept back.
    pub(crate) fn release(&self, answer: impl FnOnce()) {
        let mut inner = self.lock();
        answer();
        for (update, meta) in inner.held.take().unwrap_or_default() {
            let _ = self.put(&mut inner, update, meta.as_ref());
        }
    }

    /// Tells the state, in the dialect that has states, and with it what goes on in the background.
    pub(crate) fn state(&self, inner: &mut Inner, state: State) {
        self.state_with(inner, state, None);
    }

    fn state_with(&self, inner: &mut Inner, state: State, meta: Option<Meta>) {
        if self.dialect() == Dialect::V2 {
            let _ = self.put(inner, StateUpdate { state, background: inner.background.clone(), meta }.into(), None);
        }
    }

    /// Begins a turn. In current v2 this answers the prompt; in both v2 it echoes it, if there is one.
    pub(crate) fn begin(&self, turn: u64, answer: impl FnOnce(), prompt: Option<(&str, &[ContentBlock])>) {
        let mut inner = self.lock();
        inner.turn = Some(turn);
        answer();
        let live = self.dialect() != Dialect::V1;
        if let Some((message_id, prompt)) = prompt.filter(|_| live || inner.history.is_some()) {
            let content = Patch::Set(Items(prompt.to_vec()));
            let echo =
                Message { kind: MessageKind::User, message_id: message_id.into(), content, ..Message::default() }
                    .into();
            if live {
                let _ = self.put(&mut inner, echo, None);
            } else {
                // Not told live, but part of what a later load replays.
                inner.note(&echo);
            }
        }
        self.state(&mut inner, State::Running);
    }

    /// Ends a turn: final statuses, then the answer or the idle state, and nothing after that. `free` makes way for the next
    /// turn before the client can know; that turn says nothing before this is done.
    pub(crate) fn end(
        &self,
        cancelled: bool,
        (idle, meta): (State, Option<Meta>),
        free: impl FnOnce(),
        answer: Option<impl FnOnce()>,
    ) {
        let mut inner = self.lock();
        let status = status_of_left(cancelled);
        for call in std::mem::take(&mut inner.open_calls) {
            let _ = self.put(&mut inner, ToolCallUpdate::new(call).status(status.clone()).into(), None);
        }
        self.flush(&mut inner);
        inner.turn = None;
        inner.asking = 0;
        inner.stoppable.clear();
        free();
        self.state_with(&mut inner, idle, meta);
        if let Some(answer) = answer {
            answer();
        }
    }

    /// Counts an open question, so that the client is told that the turn waits for the user.
    pub(crate) fn asking(&self, turn: u64, open: bool) {
        let mut inner = self.lock();
        if inner.turn != Some(turn) {
            return;
        }
        if open {
            inner.asking += 1;
        } else {
            inner.asking = inner.asking.saturating_sub(1);
        }
        match (inner.asking, open) {
            (1, true) => self.state(&mut inner, State::RequiresAction),
            (0, false) => self.state(&mut inner, State::Running),
            _ => {}
        }
    }

    /// The session is over: nothing more is sent.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// What was said, if the engine remembers it.
    pub(super) fn history(&self) -> Option<History> {
        self.lock().history.clone()
    }

    /// Goes on from an earlier conversation.
    pub(super) fn restore(&self, history: History) {
        let mut inner = self.lock();
        inner.title.clone_from(&history.locked().info().title);
        inner.history = Some(history);
    }

    /// Forgets what the client was told, so that it can be told again. Gives the options and commands as they are.
    pub(crate) fn restart(&self) -> (Vec<ConfigOption>, Vec<Command>) {
        let mut inner = self.lock();
        let before = std::mem::replace(&mut inner.projector, self.negotiated.projector());
        (before.options().to_vec(), inner.commands.clone())
    }

    /// Everything that was said, as updates.
    pub(crate) fn replay(&self) -> Vec<Update> {
        self.history().map(|history| history.locked().to_updates()).unwrap_or_default()
    }

    /// Sends what was said already, without saying it again.
    pub(crate) async fn send_replay(&self, updates: Vec<Update>) -> Result<()> {
        let history = {
            let mut inner = self.lock();
            inner.projector.set_replaying(true);
            inner.history.take()
        };
        let mut result = Ok(());
        for update in updates {
            result = self.send_unrecorded(None, update, None).await;
            if result.is_err() {
                break;
            }
        }
        let mut inner = self.lock();
        inner.projector.set_replaying(false);
        inner.history = history;
        result
    }

    pub(crate) fn options(&self) -> Vec<ConfigOption> {
        self.look_at_options(<[_]>::to_vec)
    }

    pub(crate) fn look_at_options<T>(&self, look: impl FnOnce(&[ConfigOption]) -> T) -> T {
        look(self.lock().projector.options())
    }

    /// Takes note of what the answer to opening a session tells the client.
    pub(crate) fn set_up(&self, options: Vec<ConfigOption>, commands: Vec<Command>) {
        let mut inner = self.lock();
        inner.projector.set_options(options);
        inner.commands = commands;
    }

    /// Takes note of options that an answer tells the client.
    pub(crate) fn set_options(&self, options: Vec<ConfigOption>) {
        self.lock().projector.set_options(options);
    }

    /// The options as this client may see them; and as they are, where that is not the same.
    pub(crate) fn shown(&self, options: Vec<ConfigOption>) -> (Vec<ConfigOption>, Option<Vec<ConfigOption>>) {
        let knows_switches = self.dialect() == Dialect::V2 || self.negotiated.capabilities.boolean_options;
        if knows_switches || !options.iter().any(|option| matches!(option.kind, ConfigKind::Boolean(_))) {
            return (options, None);
        }
        (options.iter().cloned().map(ConfigOption::without_boolean).collect(), Some(options))
    }

    /// Tells the client about options that changed. For version 1 the projector tells the mode too.
    pub(crate) async fn options_changed(&self, options: Vec<ConfigOption>) -> Result<()> {
        self.lock().projector.expect_options(options.clone());
        self.send(None, ConfigOptionsUpdate { options, ..Default::default() }.into(), None).await
    }

    /// Ends the tool calls that have no final status yet. Each is recorded, also if the client is gone.
    pub(crate) async fn end_calls(&self, turn: u64, status: ToolCallStatus) -> Result<()> {
        let open = std::mem::take(&mut self.lock().open_calls);
        let mut result = Ok(());
        for call in open {
            let update = ToolCallUpdate::new(call).status(status.clone());
            result = result.and(self.send(Some(turn), update.into(), None).await);
        }
        result
    }

    /// Has the ends of the tool calls recorded that the turn leaves open; [`Self::end`] tells them. It can't be undone any more, so what
    /// fails is logged.
    pub(super) async fn record_left_calls(&self, cancelled: bool) {
        let Some(recorder) = self.recorder.get() else { return };
        let left = self.lock().open_calls.clone();
        for call in left {
            let update = ToolCallUpdate::new(call).status(status_of_left(cancelled)).into();
            if let Err(error) = recorder.record(&update).await {
                tracing::warn!(session = %self.id(), %error, "the end of a tool call was not recorded");
            }
        }
    }

    pub(crate) fn track_call(&self, id: &str) {
        self.lock().open_calls.push(id.to_owned());
    }

    pub(crate) fn untrack_call(&self, id: &str) {
        let mut inner = self.lock();
        inner.open_calls.retain(|open| open != id);
        inner.stoppable.remove(&Stoppable::ToolCall(id.to_owned()));
    }

    pub(crate) fn make_stoppable(&self, item: Stoppable) -> Cancel {
        self.lock().stoppable.entry(item).or_default().clone()
    }

    /// Stops one item; false if it can't be stopped.
    pub(crate) fn stop(&self, item: &Stoppable) -> bool {
        self.lock().stoppable.get(item).map(Cancel::cancel).is_some()
    }
}

impl Inner {
    pub(super) fn admit(&self, turn: Option<u64>) -> Result<()> {
        if self.closed {
            return Err(Error::Closed("the session is closed".into()));
        }
        if turn.is_some() && self.turn != turn {
            return Err(Error::TurnOver);
        }
        Ok(())
    }

    /// What the session is doing; without why it stopped.
    pub(super) fn state(&self) -> State {
        match (self.turn, self.asking) {
            (None, _) => State::default(),
            (Some(_), 0) => State::Running,
            (Some(_), _) => State::RequiresAction,
        }
    }

    fn note(&mut self, update: &Update) {
        if let Some(history) = &self.history {
            history.locked().apply(update);
        }
        match update {
            Update::SessionInfo(SessionInfoUpdate { title: Patch::Set(title), .. }) => self.title = Some(title.clone()),
            Update::SessionInfo(SessionInfoUpdate { title: Patch::Clear, .. }) => self.title = None,
            Update::Commands(list) => self.commands.clone_from(&list.commands),
            _ => {}
        }
    }
}

/// What becomes of the tool calls that a turn leaves open.
fn status_of_left(cancelled: bool) -> ToolCallStatus {
    if cancelled { ToolCallStatus::Cancelled } else { ToolCallStatus::Failed }
}

/// Answers a request at once.
pub(crate) fn reply<T: tieline_schema::Encode>(responder: Responder, value: &T, dialect: Dialect) {
    responder.reply_now(wire::write(value, dialect));
}
