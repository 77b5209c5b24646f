//! One prompt, seen from the agent: what it says, asks and does until the turn ends.

use super::client::ClientHandle;
use super::permission::{Ask, Decision};
use super::session_handle::SessionHandle;
use super::session_writer::{SessionWriter, Stoppable};
use super::tool::ToolCallBuilder;
use crate::error::{Error, Result};
use crate::meta::Carried;
use crate::wire::new_id;
use std::borrow::Cow;
use std::sync::{Arc, Mutex};
use tieline_rpc::Cancel;
use tieline_rpc::sync::Lock;
use tieline_schema::{
    Chunk, ContentBlock, Cost, Dialect, MessageKind, Meta, Patch, Plan, PlanEntry, PlanUpdate, SessionId,
    ToolCallStatus, ToolCallUpdate, Update, UsageUpdate,
};

/// One prompt at work. Clones are the same turn.
#[derive(Clone)]
pub struct Turn {
    pub(crate) shared: Arc<Shared>,
    carried: Carried,
}

pub(crate) struct Shared {
    pub(crate) writer: Arc<SessionWriter>,
    pub(crate) number: u64,
    pub(crate) cancel: Cancel,
    pub(super) message_id: String,
    own: bool,
    /// The message that is being said: its kind and id.
    current: Mutex<Option<(MessageKind, Arc<str>)>>,
}

impl std::fmt::Debug for Turn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Turn")
            .field("session", self.shared.writer.id())
            .field("number", &self.shared.number)
            .finish_non_exhaustive()
    }
}

/// Something to say: text, borrowed or owned, or any content block.
#[derive(Debug, Clone)]
pub enum Say<'a> {
    /// Text.
    Text(Cow<'a, str>),
    /// Anything else.
    Block(Box<ContentBlock>),
}

impl<'a> From<&'a str> for Say<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl<'a> From<&'a String> for Say<'a> {
    fn from(text: &'a String) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl From<String> for Say<'_> {
    fn from(text: String) -> Self {
        Self::Text(Cow::Owned(text))
    }
}

impl From<ContentBlock> for Say<'_> {
    fn from(block: ContentBlock) -> Self {
        Self::Block(Box::new(block))
    }
}

impl Turn {
    pub(crate) fn new(writer: Arc<SessionWriter>, number: u64, cancel: Cancel, message_id: String, own: bool) -> Self {
        let shared = Arc::new(Shared { writer, number, cancel, message_id, own, current: Mutex::new(None) });
        Self { shared, carried: Carried::default() }
    }

    /// The same turn; what is told or asked through this handle carries this `_meta`, also by its tool calls, its client and its
    /// session.
    #[must_use]
    pub fn with_meta(&self, meta: Meta) -> Self {
        Self { shared: Arc::clone(&self.shared), carried: Carried::new(meta) }
    }

    /// The `_meta` of the last answer to what was asked through this handle; only of one that [`Self::with_meta`] gave.
    pub fn answer_meta(&self) -> Option<Meta> {
        self.carried.answered()
    }

    /// The `_meta` of the cancel, once the client has cancelled the turn.
    pub fn cancel_meta(&self) -> Option<Meta> {
        let live = self.shared.writer.live.get().and_then(std::sync::Weak::upgrade)?;
        live.cancel_meta().filter(|_| self.is_cancelled())
    }

    /// The id of the session.
    pub fn session_id(&self) -> &SessionId {
        self.shared.writer.id()
    }

    /// The session, for updates that outlive the turn.
    pub fn session(&self) -> SessionHandle {
        SessionHandle { writer: Arc::clone(&self.shared.writer), carried: self.carried.clone() }
    }

    /// The client.
    pub fn client(&self) -> ClientHandle {
        self.session().client().during(&self.shared.cancel)
    }

    /// The dialect the client speaks. Most handlers never ask.
    pub fn dialect(&self) -> Dialect {
        self.shared.writer.dialect()
    }

    /// True if no prompt of the client started this turn, but [`SessionHandle::start`].
    pub fn is_own(&self) -> bool {
        self.shared.own
    }

    /// The id of the user's message that started this turn; unique also if there is no such message.
    pub fn prompt_id(&self) -> &str {
        &self.shared.message_id
    }

    /// Says something to the user: streams it as it comes.
    pub async fn say(&self, content: impl Into<Say<'_>>) -> Result<()> {
        self.speak(MessageKind::Agent, content.into()).await
    }

    /// Shows a thought: streams it as it comes.
    pub async fn think(&self, content: impl Into<Say<'_>>) -> Result<()> {
        self.speak(MessageKind::Thought, content.into()).await
    }

    async fn speak(&self, kind: MessageKind, content: Say<'_>) -> Result<()> {
        // Nothing begins no message.
        if matches!(&content, Say::Text(text) if text.is_empty()) {
            return Ok(());
        }
        let id = self.message(kind);
        match content {
            Say::Text(text) => {
                let (writer, meta) = (&self.shared.writer, self.carried.sent());
                writer.send_text(self.shared.number, kind, &id, &text, meta).await
            }
            Say::Block(content) => {
                let message_id = Some(id.as_ref().to_owned());
                Box::pin(self.update(Chunk { kind, message_id, content: *content, ..Default::default() })).await
            }
        }
    }

    /// The id of the message that is being said. A new one starts when the kind changes or something else came between.
    fn message(&self, kind: MessageKind) -> Arc<str> {
        let mut current = self.shared.current.locked();
        match &*current {
            Some((of, id)) if *of == kind => Arc::clone(id),
            _ => {
                let id: Arc<str> = new_id("msg").into();
                *current = Some((kind, Arc::clone(&id)));
                id
            }
        }
    }

    /// Ends the message that is being said; the next words start a new one.
    pub fn end_message(&self) {
        *self.shared.current.locked() = None;
    }

    /// Shows what is to be done. The whole plan each time.
    pub async fn plan(&self, entries: Vec<PlanEntry>) -> Result<()> {
        self.update(PlanUpdate::from(Plan::main(entries))).await
    }

    /// Starts to report a tool call. Nothing is sent before [`ToolCallBuilder::start`].
    pub fn tool(&self, title: impl Into<String>) -> ToolCallBuilder {
        ToolCallBuilder::new(self.clone(), title.into())
    }

    /// The same with all that is known of it already. Its id must be unique in the session.
    pub fn tool_from(&self, call: ToolCallUpdate) -> ToolCallBuilder {
        ToolCallBuilder::of(self.clone(), call)
    }

    /// Asks the user for permission and waits for the decision. A cancelled turn is a decision too.
    pub async fn ask(&self, question: Ask) -> Result<Decision> {
        // Boxed, like everything large that is rare: a handler's future has room for all that it may ever await.
        Box::pin(super::permission::ask(self, question)).await
    }

    /// Reports how full the context is.
    pub async fn usage(&self, used: u64, size: u64, cost: Option<Cost>) -> Result<()> {
        self.update(UsageUpdate { used, size, cost: cost.map_or(Patch::Keep, Patch::Set), ..Default::default() }).await
    }

    /// Lets the client stop a display terminal on its own, until the turn ends: say so in the terminal's capabilities, and
    /// watch the flag.
    pub fn stoppable_terminal(&self, terminal_id: impl Into<String>) -> Cancel {
        self.shared.writer.make_stoppable(Stoppable::Terminal(terminal_id.into()))
    }

    /// Sends any update as part of this turn. What the client's dialect can't say is said as near as possible.
    pub async fn update(&self, update: impl Into<Update>) -> Result<()> {
        let update = update.into();
        if !matches!(update, Update::Chunk(_) | Update::Usage(_) | Update::SessionInfo(_)) {
            self.end_message();
        }
        self.shared.writer.send(Some(self.shared.number), update, self.carried.sent()).await
    }

    /// The same for what passes, such as how far something is: a [`super::Recorder`] does not see it.
    pub async fn update_unrecorded(&self, update: impl Into<Update>) -> Result<()> {
        let (writer, meta) = (&self.shared.writer, self.carried.sent());
        writer.send_unrecorded(Some(self.shared.number), update.into(), meta).await
    }

    /// Gives all tool calls of the turn that have no final status this one. The engine does so when the turn ends, with
    /// `failed`, or `cancelled` if it was; both are recorded.
    pub async fn end_calls(&self, status: ToolCallStatus) -> Result<()> {
        self.shared.writer.end_calls(self.shared.number, status).await
    }

    /// True once the client does not want the turn any more.
    pub fn is_cancelled(&self) -> bool {
        self.shared.cancel.is_cancelled()
    }

    /// Waits until the turn is over for the client, too: what is told from then on comes behind its end. Not for the turn's own
    /// handler, which would wait for itself.
    pub async fn over(&self) {
        let live = self.shared.writer.live.get().and_then(std::sync::Weak::upgrade);
        if let Some(live) = live {
            live.turn_over(self.shared.number).await;
        }
    }

    /// Waits until the client does not want the turn any more.
    pub async fn cancelled(&self) {
        self.shared.cancel.cancelled().await;
    }

    /// Works until it is done or the turn is cancelled, whichever comes first.
    pub async fn unless_cancelled<T>(&self, work: impl Future<Output = T>) -> Result<T> {
        tokio::select! {
            biased;
            () = self.cancelled() => Err(Error::Cancelled),
            done = work => Ok(done),
        }
    }
}
