//! The write end of a session: every update goes through here, in order, in the client's dialect.

use super::client::ClientHandle;
use super::slot::Slot;
use crate::error::{Error, Result};
use crate::options::set_value;
use crate::wire;
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::time::Duration;
use tieline_rpc::sync::Lock;
use tieline_rpc::{Cancel, Peer, Responder};
use tieline_schema::{
    AuthMethod, Background, ClientCapabilities, Command, CommandsUpdate, ConfigOption, ConfigOptionsUpdate,
    ConfigValue, ContentBlock, Dialect, ErrorCode, ErrorData, Gates, Implementation, Items, Message, MessageKind,
    Notice, PIECE, Patch, Projector, SHORT_LINE, SessionId, SessionInfoUpdate, SessionNotification, Severity, State,
    StateUpdate, TextChunk, ToolCallStatus, ToolCallUpdate, Transcript, Update,
};

/// How often older dialects, which must be told all of it each time, hear of growing tool content.
const OFTEN: Duration = Duration::from_millis(50);

/// What was agreed at `initialize`.
#[derive(Debug, Clone)]
pub(crate) struct Hello {
    pub(crate) dialect: Dialect,
    pub(crate) capabilities: ClientCapabilities,
    pub(crate) info: Option<Implementation>,
    /// The ways to log in that the client was told.
    pub(crate) auth_methods: Vec<AuthMethod>,
}

/// Clients of version 1 that are known to read lines of any length.
const READ_LONG_LINES: [&str; 4] = ["tieline", "zed", "CodeCompanion.nvim", "acpx"];

impl Hello {
    /// How long an update may be, in bytes of JSON; `None` if that does not matter.
    pub(crate) fn longest(&self) -> Option<usize> {
        let knows = |info: &Implementation| READ_LONG_LINES.contains(&info.name.as_str());
        (self.dialect == Dialect::V1 && !self.info.as_ref().is_some_and(knows)).then_some(SHORT_LINE)
    }

    /// What the client is told of an error. One that asks for a login says how.
    pub(crate) fn to_wire(&self, error: &Error) -> tieline_rpc::Error {
        let mut wire = error.to_wire();
        if wire.code != ErrorCode::AUTH_REQUIRED.0 {
            return wire;
        }
        let ids: Option<Vec<String>> = wire.data.as_ref().and_then(|data| data.parse().ok());
        if let Some(ids) = ids {
            let named = |method: &&AuthMethod| ids.iter().any(|id| id == method.id());
            let methods: Vec<AuthMethod> = self.auth_methods.iter().filter(named).cloned().collect();
            wire.data = ErrorData::AuthRequired(&methods).to_raw(self.dialect);
        } else if *error == Error::AuthRequired || wire.data.is_none() {
            wire.data = ErrorData::AuthRequired(&self.auth_methods).to_raw(self.dialect);
        }
        wire
    }
}

/// Sees everything that a session tells, so that it can be stored: [`SessionHandle::record_to`].
pub trait Recorder: Send + Sync {
    /// Takes an update. The client is told it when this is done, and not at all if it fails.
    fn record<'r>(&'r self, update: &'r Update) -> Pin<Box<dyn Future<Output = Result<()>> + Send + 'r>>;
}

pub(crate) struct Outlet {
    pub(crate) id: SessionId,
    pub(crate) peer: Peer,
    pub(crate) hello: Arc<Hello>,
    inner: Mutex<Inner>,
    /// Who sees what is told before the client does.
    recorder: OnceLock<Arc<dyn Recorder>>,
    /// Its turns, once it is open.
    pub(super) slot: OnceLock<Weak<Slot>>,
    me: Weak<Self>,
}

pub(crate) struct Inner {
    projector: Projector,
    /// A task will tell what the projector keeps back.
    flushing: bool,
    /// Updates that wait until the client knows the session.
    held: Option<Vec<Update>>,
    /// What was said, if the engine remembers it.
    history: Option<Box<Transcript>>,
    /// The turn that may add updates.
    turn: Option<u64>,
    /// What the session is doing, as it was told last; without why it stopped.
    state: State,
    /// What goes on beside the turns; `None` if the agent does not say.
    background: Option<Vec<Background>>,
    /// How many questions to the user are open.
    asking: usize,
    /// Tool calls of the turn that have no final status yet.
    open_calls: Vec<String>,
    /// What the client may stop one by one.
    stoppable: HashMap<Stoppable, Cancel>,
    commands: Vec<Command>,
    pub(crate) title: Option<String>,
    closed: bool,
}

/// Something that can be stopped on its own.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Stoppable {
    ToolCall(String),
    Terminal(String),
}

impl Outlet {
    pub(crate) fn new(id: SessionId, peer: Peer, hello: Arc<Hello>, remember: bool) -> Arc<Self> {
        let inner = Inner {
            projector: projector(&hello),
            flushing: false,
            held: None,
            history: remember.then(|| Box::new(Transcript::new(Dialect::V2))),
            turn: None,
            state: State::default(),
            background: None,
            asking: 0,
            open_calls: Vec::new(),
            stoppable: HashMap::new(),
            commands: Vec::new(),
            title: None,
            closed: false,
        };
        let (inner, recorder, slot) = (Mutex::new(inner), OnceLock::new(), OnceLock::new());
        Arc::new_cyclic(|me| Self { id, peer, hello, inner, recorder, slot, me: me.clone() })
    }

    pub(crate) fn dialect(&self) -> Dialect {
        self.hello.dialect
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.locked()
    }

    /// Has an update recorded, then sends it when there is room; `turn` if it belongs to one.
    pub(crate) async fn send(&self, turn: Option<u64>, update: Update) -> Result<()> {
        if let Some(recorder) = self.recorder.get() {
            self.lock().admit(turn)?;
            recorder.record(&update).await?;
        }
        self.send_unrecorded(turn, update).await
    }

    /// Sends an update when there is room.
    pub(crate) async fn send_unrecorded(&self, turn: Option<u64>, update: Update) -> Result<()> {
        self.peer.room().await;
        let mut inner = self.lock();
        inner.admit(turn)?;
        self.put(&mut inner, update)
    }

    /// Sends a piece of text. The hot path: unless it is recorded, nothing is built, the text goes straight into the buffer.
    pub(crate) async fn send_text(&self, turn: u64, kind: MessageKind, message_id: &str, text: &str) -> Result<()> {
        if let Some(recorder) = self.recorder.get() {
            self.lock().admit(Some(turn))?;
            recorder.record(&Update::text(kind, Some(message_id.to_owned()), text)).await?;
        }
        self.peer.room().await;
        let mut inner = self.lock();
        inner.admit(Some(turn))?;
        let long = text.len() > PIECE && self.hello.longest().is_some();
        if inner.history.is_some() || inner.held.is_some() || long {
            return self.put(&mut inner, Update::text(kind, Some(message_id.to_owned()), text));
        }
        inner.projector.end_run();
        let chunk = TextChunk { session_id: &self.id, kind, message_id: Some(message_id), text };
        Ok(self.peer.notify_now("session/update", wire::write(&chunk, self.dialect()))?)
    }

    /// Queues an update behind those before it. The caller holds the lock, so nothing can get in between.
    pub(crate) fn put(&self, inner: &mut Inner, update: Update) -> Result<()> {
        if let Some(held) = &mut inner.held {
            held.push(update);
            return Ok(());
        }
        inner.note(&update);
        let mut result = Ok(());
        inner.projector.update(update, &mut |update| result = self.tell(update));
        if inner.projector.is_stale() && !std::mem::replace(&mut inner.flushing, true) {
            let outlet = Weak::clone(&self.me);
            tokio::spawn(async move {
                tokio::time::sleep(OFTEN).await;
                if let Some(outlet) = outlet.upgrade() {
                    outlet.peer.room().await;
                    let mut inner = outlet.lock();
                    inner.flushing = false;
                    outlet.flush(&mut inner);
                }
            });
        }
        result
    }

    fn tell(&self, update: Update) -> Result<()> {
        let notification = SessionNotification { session_id: self.id.clone(), update, meta: None };
        Ok(self.peer.notify_now("session/update", wire::write(&notification, self.hello.dialect))?)
    }

    /// Tells what the projector kept back.
    fn flush(&self, inner: &mut Inner) {
        if !inner.closed {
            inner.projector.flush(&mut |update| drop(self.tell(update)));
        }
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
    pub(crate) fn unhold(&self) -> Vec<Update> {
        self.lock().held.take().unwrap_or_default()
    }

    /// Keeps updates back, these first.
    pub(crate) fn hold_again(&self, updates: Vec<Update>) {
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
        for update in inner.held.take().unwrap_or_default() {
            let _ = self.put(&mut inner, update);
        }
    }

    /// Tells the state, in the dialect that has states, and with it what goes on in the background.
    pub(crate) fn state(&self, inner: &mut Inner, state: State) {
        // Told again, it is no new end.
        inner.state = if state.is_idle() { State::default() } else { state.clone() };
        if self.dialect() == Dialect::V2 {
            let _ = self.put(inner, StateUpdate { state, background: inner.background.clone(), meta: None }.into());
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
                let _ = self.put(&mut inner, echo);
            } else {
                // Not told live, but part of what a later load replays.
                inner.note(&echo);
            }
        }
        self.state(&mut inner, State::Running);
    }

    /// Ends a turn: final statuses, then the answer or the idle state, and nothing after that. `free` makes way for the next
    /// turn before the client can know; that turn says nothing before this is done.
    pub(crate) fn end(&self, cancelled: bool, idle: State, free: impl FnOnce(), answer: Option<impl FnOnce()>) {
        let mut inner = self.lock();
        let status = if cancelled { ToolCallStatus::Cancelled } else { ToolCallStatus::Failed };
        for call in std::mem::take(&mut inner.open_calls) {
            let _ = self.put(&mut inner, ToolCallUpdate::new(call).status(status.clone()).into());
        }
        self.flush(&mut inner);
        inner.turn = None;
        inner.asking = 0;
        inner.stoppable.clear();
        free();
        self.state(&mut inner, idle);
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
    pub(crate) fn close(&self) -> Option<Box<Transcript>> {
        let mut inner = self.lock();
        inner.closed = true;
        inner.history.take()
    }

    /// Goes on from an earlier conversation.
    pub(crate) fn restore(&self, history: Box<Transcript>) {
        let mut inner = self.lock();
        inner.title.clone_from(&history.info().title);
        inner.history = Some(history);
    }

    /// Forgets what the client was told, so that it can be told again. Gives the options and commands as they are.
    pub(crate) fn restart(&self) -> (Vec<ConfigOption>, Vec<Command>) {
        let mut inner = self.lock();
        let before = std::mem::replace(&mut inner.projector, projector(&self.hello));
        (before.options().to_vec(), inner.commands.clone())
    }

    /// Everything that was said, as updates.
    pub(crate) fn replay(&self) -> Vec<Update> {
        self.lock().history.as_ref().map(|history| history.to_updates()).unwrap_or_default()
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
            result = self.send_unrecorded(None, update).await;
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
        self.lock().projector.options().to_vec()
    }

    /// Takes note of what the answer to opening a session tells the client.
    pub(crate) fn set_up(&self, options: Vec<ConfigOption>, commands: Vec<Command>) {
        self.set_options(options);
        self.lock().commands = commands;
    }

    /// Takes note of options that an answer tells the client.
    pub(crate) fn set_options(&self, options: Vec<ConfigOption>) {
        self.lock().projector.set_options(options);
    }

    /// The options as this client may see them.
    pub(crate) fn visible(&self, options: Vec<ConfigOption>) -> Vec<ConfigOption> {
        if self.dialect() == Dialect::V2 || self.hello.capabilities.boolean_options {
            return options;
        }
        options.into_iter().map(ConfigOption::without_boolean).collect()
    }

    /// Tells the client about options that changed. For version 1 the projector tells the mode too.
    pub(crate) async fn options_changed(&self, options: Vec<ConfigOption>) -> Result<()> {
        self.lock().projector.expect_options(options.clone());
        self.send(None, ConfigOptionsUpdate { options, meta: None }.into()).await
    }

    /// Ends the tool calls that have no final status yet. Each is recorded, also if the client is gone.
    pub(crate) async fn end_calls(&self, turn: u64, status: ToolCallStatus) -> Result<()> {
        let open = std::mem::take(&mut self.lock().open_calls);
        let mut result = Ok(());
        for call in open {
            let update = ToolCallUpdate::new(call).status(status.clone());
            result = result.and(self.send(Some(turn), update.into()).await);
        }
        result
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

    fn note(&mut self, update: &Update) {
        if let Some(history) = &mut self.history {
            history.apply(update);
        }
        match update {
            Update::SessionInfo(SessionInfoUpdate { title: Patch::Set(title), .. }) => self.title = Some(title.clone()),
            Update::SessionInfo(SessionInfoUpdate { title: Patch::Clear, .. }) => self.title = None,
            Update::Commands(list) => self.commands.clone_from(&list.commands),
            _ => {}
        }
    }
}

fn projector(hello: &Hello) -> Projector {
    let can = &hello.capabilities;
    let gates = Gates {
        boolean_options: can.boolean_options,
        notices: can.notices,
        compaction: can.compaction,
        // The first clients did not say who they are.
        first_kinds: hello.dialect == Dialect::V1 && hello.info.is_none(),
        longest: hello.longest(),
    };
    Projector::new(hello.dialect).with_gates(gates).throttled()
}

/// The way to tell the client something about a session, in or outside a turn. Clones share the session.
#[derive(Clone)]
pub struct SessionHandle {
    pub(crate) outlet: Arc<Outlet>,
}

impl std::fmt::Debug for SessionHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("SessionHandle").field(&self.outlet.id).finish()
    }
}

impl SessionHandle {
    /// The id of the session.
    pub fn id(&self) -> &SessionId {
        &self.outlet.id
    }

    /// The dialect the client speaks.
    pub fn dialect(&self) -> Dialect {
        self.outlet.dialect()
    }

    /// The client itself.
    pub fn client(&self) -> ClientHandle {
        ClientHandle::new(self.outlet.peer.clone(), Arc::clone(&self.outlet.hello), Some(self.outlet.id.clone()))
    }

    /// Has all that is told from now on recorded, by turns, too; the first recorder stays. What the engine tells of itself (the
    /// prompt, states, answers) is not, nor is what goes out by [`super::Turn::update_unrecorded`]. A turn that ends by itself has
    /// its open calls recorded by [`super::Turn::end_calls`].
    pub fn record_to(&self, recorder: Arc<dyn Recorder>) {
        let _ = self.outlet.recorder.set(recorder);
    }

    /// Sends any update. What the client's dialect can't say is said as near as possible, or left out.
    pub async fn update(&self, update: impl Into<Update>) -> Result<()> {
        match update.into() {
            Update::ConfigOptions(list) => self.outlet.options_changed(list.options).await,
            update => self.outlet.send(None, update).await,
        }
    }

    /// Replaces the list of commands.
    pub async fn commands(&self, commands: Vec<Command>) -> Result<()> {
        self.update(CommandsUpdate { commands, meta: None }).await
    }

    /// The options as they are now.
    pub fn options(&self) -> Vec<ConfigOption> {
        self.outlet.options()
    }

    /// Replaces the list of options.
    pub async fn set_options(&self, options: Vec<ConfigOption>) -> Result<()> {
        self.outlet.options_changed(options).await
    }

    /// Changes the value of one option. This is also how a mode is changed.
    pub async fn set_option(&self, id: &str, value: ConfigValue) -> Result<()> {
        let mut options = self.outlet.options();
        if !set_value(&mut options, id, &value) {
            return Err(Error::Invalid(format!("no option `{id}` with this value")));
        }
        self.outlet.options_changed(options).await
    }

    /// Gives the session a title.
    pub async fn title(&self, title: impl Into<String>) -> Result<()> {
        self.update(SessionInfoUpdate { title: Patch::Set(title.into()), ..SessionInfoUpdate::default() }).await
    }

    /// Tells what goes on beside the turns: all of it, each time (current v2). An agent that tells this does so from the
    /// beginning, if only that there is nothing. What is on the list was announced before, by an update of its terminal or
    /// tool call; its end is told before it is taken off.
    pub async fn background(&self, work: Vec<Background>) -> Result<()> {
        self.outlet.peer.room().await;
        let mut inner = self.outlet.lock();
        inner.admit(None)?;
        let before = inner.background.replace(work).unwrap_or_default();
        if inner.background.as_ref() != Some(&before) {
            let state = inner.state.clone();
            self.outlet.state(&mut inner, state);
        }
        Ok(())
    }

    /// Starts work that no prompt asked for: a turn with this as its prompt, which the client is not shown
    /// ([`super::Turn::is_own`]). It waits for turns before it. Only current v2 can tell of such work.
    pub fn start(&self, prompt: Vec<ContentBlock>) -> Result<()> {
        let slot = self.outlet.slot.get().and_then(Weak::upgrade);
        slot.ok_or_else(|| Error::Closed("the session is not open".into()))?.start(prompt)
    }

    /// Shows a passing message, if the client shows such.
    pub async fn notice(&self, severity: Severity, title: impl Into<String>) -> Result<()> {
        self.update(Notice { severity, title: title.into(), ..Notice::default() }).await
    }
}

/// Answers a request at once.
pub(crate) fn reply<T: tieline_schema::Encode>(responder: Responder, value: &T, dialect: Dialect) {
    responder.reply_now(wire::write(value, dialect));
}
