//! Tells the client what happens, and the store first: what is reported was written down before.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tieline::agent::{ToolCall, Turn};
use tieline::schema::{Items, ToolCallContentChunk};
use tieline::{Error, MessageKind, Patch, Raw, Result, ToolCallContent, ToolCallStatus, ToolCallUpdate, Update};
use tieline_host::store::{self, Event, SessionLog};

/// The reports of one turn.
pub struct Teller {
    /// The turn itself.
    pub turn: Turn,
    log: Option<Arc<SessionLog>>,
    now: Mutex<Now>,
}

#[derive(Default)]
struct Now {
    count: u32,
    message: Option<(MessageKind, String)>,
    /// Calls that have no final status yet.
    open: HashSet<String>,
}

/// What the client is told when the store does not work.
pub fn store_failed(error: store::Error) -> Error {
    match error {
        store::Error::NotFound(id) => Error::unknown_session(&id),
        store::Error::Cursor => Error::invalid_params("the cursor is not one of ours"),
        error => Error::wire(-32603, error.to_string()),
    }
}

impl Teller {
    /// Reports a turn, and writes it to the log if there is one.
    pub fn new(turn: Turn, log: Option<Arc<SessionLog>>) -> Arc<Self> {
        Arc::new(Self { turn, log, now: Mutex::default() })
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An id that is unique in the session.
    pub fn new_id(&self, what: &str) -> String {
        let mut now = self.now();
        now.count += 1;
        format!("{}-{what}{}", self.turn.prompt_id(), now.count)
    }

    /// The id of the message that is being said.
    fn message(&self, kind: MessageKind) -> String {
        if let Some((of, id)) = &self.now().message
            && *of == kind
        {
            return id.clone();
        }
        let id = self.new_id("m");
        self.now().message = Some((kind, id.clone()));
        id
    }

    /// Ends the message that is being said.
    pub fn end_message(&self) {
        self.now().message = None;
    }

    /// Says a piece of a message or of a thought.
    pub async fn say(&self, kind: MessageKind, text: impl Into<String>) -> Result<()> {
        let text = text.into();
        if text.is_empty() {
            return Ok(());
        }
        let id = self.message(kind);
        self.stream(Update::text(kind, Some(id), text)).await
    }

    /// Sends something that comes in floods; it reaches the disk soon.
    pub async fn stream(&self, update: Update) -> Result<()> {
        if let Some(log) = &self.log {
            log.stream(update.clone()).await.map_err(store_failed)?;
        }
        self.turn.update(update).await
    }

    /// Writes an update down, then sends it.
    pub async fn update(&self, update: impl Into<Update>) -> Result<()> {
        let update = update.into();
        self.end_message();
        self.note(vec![Event::Update(update.clone())]).await?;
        self.turn.update(update).await
    }

    /// Writes events down that the client is not told.
    pub async fn note(&self, events: Vec<Event>) -> Result<()> {
        match &self.log {
            Some(log) if !events.is_empty() => log.append(events).await.map(drop).map_err(store_failed),
            _ => Ok(()),
        }
    }

    /// Reports a new tool call; `update` has its id.
    pub async fn call(self: &Arc<Self>, update: ToolCallUpdate, stoppable: bool) -> Result<Arc<Call>> {
        self.end_message();
        let update = update.status(ToolCallStatus::Pending);
        let id = update.tool_call_id.clone();
        self.note(vec![Event::Update(update.clone().into())]).await?;
        self.now().open.insert(id.clone());
        let mut builder = self.turn.tool(update.title.set().cloned().unwrap_or_default()).id(&*id);
        if let Some(name) = update.name.set() {
            builder = builder.name(name);
        }
        if let Some(kind) = update.kind.set() {
            builder = builder.kind(kind.clone());
        }
        for place in update.locations.set().map(|Items(list)| list.as_slice()).unwrap_or_default() {
            builder = builder.at(&*place.path, place.line.map(std::num::NonZero::get));
        }
        if let Some(input) = update.raw_input.set() {
            builder = builder.input(input.clone());
        }
        if let Some(Items(content)) = update.content.set() {
            builder = builder.content(content.clone());
        }
        let builder = if stoppable { builder.stoppable() } else { builder };
        let tool = builder.start().await?;
        Ok(Arc::new(Call { teller: Arc::clone(self), tool, id, announced: update }))
    }

    /// What has to be written down for the calls that a cancel cut off. The client is told by the engine.
    pub fn cut_off(&self) -> Vec<Event> {
        let ended = |id: String| Event::Update(ToolCallUpdate::new(id).status(ToolCallStatus::Cancelled).into());
        std::mem::take(&mut self.now().open).into_iter().map(ended).collect()
    }
}

/// A tool call that was reported.
pub struct Call {
    teller: Arc<Teller>,
    tool: ToolCall,
    id: String,
    announced: ToolCallUpdate,
}

impl Call {
    /// Its id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// All that was said when it was announced, with the change that it would make.
    pub fn announced(&self) -> &ToolCallUpdate {
        &self.announced
    }

    /// The call as the engine knows it.
    pub fn tool(&self) -> &ToolCall {
        &self.tool
    }

    /// The reports of the turn.
    pub fn teller(&self) -> &Arc<Teller> {
        &self.teller
    }

    /// Changes something about it.
    pub async fn update(&self, mut change: ToolCallUpdate) -> Result<()> {
        self.teller.end_message();
        change.tool_call_id.clone_from(&self.id);
        self.teller.note(vec![Event::Update(change.clone().into())]).await?;
        if change.status.set().is_some_and(ToolCallStatus::is_final) {
            self.teller.now().open.remove(&self.id);
        }
        self.tool.update(change).await
    }

    /// It runs now.
    pub async fn running(&self) -> Result<()> {
        self.update(ToolCallUpdate::default().status(ToolCallStatus::InProgress)).await
    }

    /// Shows what there is so far in place of what was shown before; passing, so it is not written down.
    pub async fn show(&self, content: Vec<ToolCallContent>) -> Result<()> {
        self.tool.content(content).await
    }

    /// Adds a piece of content.
    pub async fn append(&self, content: impl Into<ToolCallContent>) -> Result<()> {
        let chunk = ToolCallContentChunk { tool_call_id: self.id.clone(), content: content.into(), meta: None };
        self.teller.update(chunk).await
    }

    /// Its final status, with what it brought. Content that is `None` stays as it is.
    pub async fn finish(
        &self,
        status: ToolCallStatus,
        content: Option<Vec<ToolCallContent>>,
        output: Option<Raw>,
    ) -> Result<()> {
        let mut change = ToolCallUpdate::default().status(status);
        change.content = content.map_or(Patch::Keep, |content| Patch::Set(Items(content)));
        change.raw_output = output.map_or(Patch::Keep, Patch::Set);
        self.update(change).await
    }
}
