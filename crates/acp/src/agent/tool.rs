//! A tool call as the agent reports it: pending, running, then one final status.

use super::permission::{Ask, Decision};
use super::session_writer::Stoppable;
use super::turn::Turn;
use crate::error::Result;
use crate::wire::new_id;
use tieline_rpc::Cancel;
use tieline_schema::{
    Items, Location, Marker, Patch, PermissionOption, Raw, ToolCallCapabilities, ToolCallContent, ToolCallContentChunk,
    ToolCallStatus, ToolCallUpdate, ToolKind,
};

/// A tool call that is not reported yet.
#[derive(Debug)]
#[must_use]
pub struct ToolCallBuilder {
    turn: Turn,
    call: ToolCallUpdate,
    stoppable: bool,
}

impl ToolCallBuilder {
    pub(crate) fn new(turn: Turn, title: String) -> Self {
        Self::of(turn, ToolCallUpdate::new(new_id("call")).title(title))
    }

    pub(crate) fn of(turn: Turn, call: ToolCallUpdate) -> Self {
        Self { turn, call: call.status(ToolCallStatus::Pending), stoppable: false }
    }

    setters! {
        /// Uses this id instead of a new one. It must be unique in the session.
        id(id: impl Into<String>) => call.tool_call_id = id.into();
        /// The name the model uses for the tool.
        name(name: impl Into<String>) => call.name = Patch::Set(name.into());
        /// What kind of tool it is.
        kind(kind: ToolKind) => call.kind = Patch::Set(kind);
    }

    /// A file it works on; `line` counts from 1.
    pub fn at(mut self, path: impl Into<String>, line: Option<u32>) -> Self {
        let line = line.and_then(std::num::NonZero::new);
        let location = Location { path: path.into(), line, ..Location::default() };
        match &mut self.call.locations {
            Patch::Set(Items(list)) => list.push(location),
            other => *other = Patch::Set(Items(vec![location])),
        }
        self
    }

    setters! {
        /// The raw input.
        input(input: impl Into<Raw>) => call.raw_input = Patch::Set(input.into());
        /// What is known of the result already, such as a diff that is going to be made.
        content(content: Vec<ToolCallContent>) => call.content = Patch::Set(Items(content));
    }

    /// The client may stop this call alone (where its dialect can). Watch [`ToolCall::stopped`].
    pub fn stoppable(mut self) -> Self {
        self.stoppable = true;
        self.call.capabilities = Patch::Set(ToolCallCapabilities { cancel: Marker::Yes, ..Default::default() });
        self
    }

    /// Reports the call as pending.
    pub async fn start(self) -> Result<ToolCall> {
        let Self { turn, call, stoppable } = self;
        let id = call.tool_call_id.clone();
        let title = call.title.set().cloned().unwrap_or_default();
        let writer = &turn.shared.writer;
        let stop = if stoppable { writer.make_stoppable(Stoppable::ToolCall(id.clone())) } else { Cancel::default() };
        turn.update(call).await?;
        writer.track_call(&id);
        Ok(ToolCall { turn, id, title, stop })
    }
}

/// A tool call that was reported. If it has no final status when the turn ends, the engine gives it one.
#[derive(Debug)]
pub struct ToolCall {
    turn: Turn,
    id: String,
    title: String,
    stop: Cancel,
}

impl ToolCall {
    /// Its id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The turn that it belongs to.
    pub fn turn(&self) -> &Turn {
        &self.turn
    }

    /// Changes anything about it. The id is filled in.
    pub async fn update(&self, mut change: ToolCallUpdate) -> Result<()> {
        change.tool_call_id.clone_from(&self.id);
        let is_final = change.status.set().is_some_and(ToolCallStatus::is_final);
        self.turn.update(change).await?;
        // Only now: a call that is dropped while it waits for room still gets its end from the engine.
        if is_final {
            self.turn.shared.writer.untrack_call(&self.id);
        }
        Ok(())
    }

    /// It runs now.
    pub async fn running(&self) -> Result<()> {
        self.update(ToolCallUpdate::default().status(ToolCallStatus::InProgress)).await
    }

    /// Adds a piece of output.
    pub async fn append(&self, content: impl Into<ToolCallContent>) -> Result<()> {
        let chunk =
            ToolCallContentChunk { tool_call_id: self.id.clone(), content: content.into(), ..Default::default() };
        self.turn.update(chunk).await
    }

    /// Replaces all output.
    pub async fn content(&self, content: Vec<ToolCallContent>) -> Result<()> {
        self.update(ToolCallUpdate::default().content(content)).await
    }

    /// Asks the user whether it may run.
    pub async fn ask(&self, options: Vec<PermissionOption>) -> Result<Decision> {
        self.turn.ask(Ask::about(ToolCallUpdate::new(&*self.id)).title(&*self.title).options(options)).await
    }

    /// It is done.
    pub async fn complete(self) -> Result<()> {
        self.finish(ToolCallStatus::Completed, Patch::Keep, Patch::Keep).await
    }

    /// It is done, with this result.
    pub async fn complete_with(self, content: Vec<ToolCallContent>, output: Option<Raw>) -> Result<()> {
        let output = output.map_or(Patch::Keep, Patch::Set);
        self.finish(ToolCallStatus::Completed, Patch::Set(Items(content)), output).await
    }

    /// It did not work, and this is why. The turn goes on.
    pub async fn fail(self, why: impl Into<String>) -> Result<()> {
        let content = vec![ToolCallContent::from(why.into())];
        self.finish(ToolCallStatus::Failed, Patch::Set(Items(content)), Patch::Keep).await
    }

    async fn finish(
        self,
        status: ToolCallStatus,
        content: Patch<Items<ToolCallContent>>,
        raw_output: Patch<Raw>,
    ) -> Result<()> {
        let change = ToolCallUpdate { content, raw_output, ..ToolCallUpdate::default() };
        self.update(change.status(status)).await
    }

    /// Waits until the client wants this call stopped, alone or with the turn.
    pub async fn stopped(&self) {
        tokio::select! {
            () = self.stop.cancelled() => {}
            () = self.turn.cancelled() => {}
        }
    }
}
