//! What an agent can do with a session, in or outside a turn, and who sees it first.

use super::client::ClientHandle;
use super::session_writer::SessionWriter;
use crate::error::{Error, Result};
use crate::meta::Carried;
use crate::options::set_value;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use tieline_schema::{
    Background, Command, CommandsUpdate, ConfigOption, ConfigValue, ContentBlock, Dialect, Meta, Notice, Patch,
    SessionId, SessionInfoUpdate, Severity, Update,
};

/// Sees everything that a session tells, so that it can be stored: [`SessionHandle::record_to`].
pub trait Recorder: Send + Sync {
    /// Takes an update. The client is told it when this is done, and not at all if it fails.
    fn record<'r>(&'r self, update: &'r Update) -> Pin<Box<dyn Future<Output = Result<()>> + Send + 'r>>;
}

/// The way to tell the client something about a session, in or outside a turn. Clones share the session.
#[derive(Clone)]
pub struct SessionHandle {
    pub(crate) writer: Arc<SessionWriter>,
    pub(super) carried: Carried,
}

impl std::fmt::Debug for SessionHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("SessionHandle").field(self.writer.id()).finish()
    }
}

impl SessionHandle {
    pub(crate) fn new(writer: Arc<SessionWriter>) -> Self {
        Self { writer, carried: Carried::default() }
    }

    /// The same session; what is told through this handle has this `_meta` beside it.
    #[must_use]
    pub fn with_meta(&self, meta: Meta) -> Self {
        Self { writer: Arc::clone(&self.writer), carried: Carried::new(meta) }
    }

    /// The id of the session.
    pub fn id(&self) -> &SessionId {
        self.writer.id()
    }

    /// Gives a new session this id, for agents whose ids come from elsewhere. False if it has one already: it gets its own
    /// when it is first asked for it.
    pub fn set_id(&self, id: SessionId) -> bool {
        self.writer.set_id(id)
    }

    /// The dialect the client speaks.
    pub fn dialect(&self) -> Dialect {
        self.writer.dialect()
    }

    /// The client itself.
    pub fn client(&self) -> ClientHandle {
        let (peer, negotiated) = (self.writer.peer.clone(), Arc::clone(&self.writer.negotiated));
        ClientHandle::new(peer, negotiated, Some(self.writer.id().clone())).carrying(self.carried.clone())
    }

    /// Has all that is told from now on recorded, by turns, too; the first recorder stays. What the engine tells of itself (the
    /// prompt, states, answers) is not, nor is what goes out by [`super::Turn::update_unrecorded`]. The ends of tool calls that a turn
    /// leaves open are. The prompt is taken in by [`super::Session::accept`], options by [`super::Session::set_option`].
    pub fn record_to(&self, recorder: Arc<dyn Recorder>) {
        let _ = self.writer.recorder.set(recorder);
    }

    /// Sends any update. What the client's dialect can't say is said as near as possible, or left out.
    pub async fn update(&self, update: impl Into<Update>) -> Result<()> {
        match update.into() {
            Update::ConfigOptions(list) => self.writer.options_changed(list.options).await,
            update => self.writer.send(None, update, self.carried.sent()).await,
        }
    }

    /// Tells what the user of another client said, for agents that several clients share. By [`Self::update`] a client of version 1
    /// hears of no user's words: it knows its own.
    pub async fn said_by_other(&self, update: impl Into<Update>) -> Result<()> {
        self.writer.send_of_other(update.into(), self.carried.sent()).await
    }

    /// Takes note of an update that the client had from an earlier connection, without sending it: what is told next goes on from
    /// there.
    pub fn knows(&self, update: impl Into<Update>) {
        self.writer.knows(update.into());
    }

    /// Replaces the list of commands.
    pub async fn commands(&self, commands: Vec<Command>) -> Result<()> {
        self.update(CommandsUpdate { commands, ..Default::default() }).await
    }

    /// The options as they are now.
    pub fn options(&self) -> Vec<ConfigOption> {
        self.writer.options()
    }

    /// Replaces the list of options.
    pub async fn set_options(&self, options: Vec<ConfigOption>) -> Result<()> {
        self.writer.options_changed(options).await
    }

    /// Changes the value of one option. This is also how a mode is changed.
    pub async fn set_option(&self, id: &str, value: ConfigValue) -> Result<()> {
        let mut options = self.writer.options();
        if !set_value(&mut options, id, &value) {
            return Err(Error::Invalid(format!("no option `{id}` with this value")));
        }
        self.writer.options_changed(options).await
    }

    /// Gives the session a title.
    pub async fn title(&self, title: impl Into<String>) -> Result<()> {
        self.update(SessionInfoUpdate { title: Patch::Set(title.into()), ..SessionInfoUpdate::default() }).await
    }

    /// Tells what goes on beside the turns: all of it, each time (current v2). An agent that tells this does so from the
    /// beginning, if only that there is nothing. What is on the list was announced before, by an update of its terminal or
    /// tool call; its end is told before it is taken off.
    pub async fn background(&self, work: Vec<Background>) -> Result<()> {
        self.writer.peer.room().await;
        let mut inner = self.writer.lock();
        inner.admit(None)?;
        let before = inner.background.replace(work).unwrap_or_default();
        if inner.background.as_ref() != Some(&before) {
            let state = inner.state();
            self.writer.state(&mut inner, state);
        }
        Ok(())
    }

    /// Starts work that no prompt asked for: a turn with this as its prompt, which the client is not shown
    /// ([`super::Turn::is_own`]). It waits for turns before it. Only current v2 can tell of such work.
    pub fn start(&self, prompt: Vec<ContentBlock>) -> Result<()> {
        let live = self.writer.live.get().and_then(Weak::upgrade);
        live.ok_or_else(|| Error::Closed("the session is not open".into()))?.start(prompt)
    }

    /// Shows a passing message, if the client shows such.
    pub async fn notice(&self, severity: Severity, title: impl Into<String>) -> Result<()> {
        self.update(Notice { severity, title: title.into(), ..Notice::default() }).await
    }
}
