//! Tells the client what happens, and the store first: what is reported was written down before.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use tieline::agent::{ToolCall, Turn};
use tieline::schema::{Items, ToolCallContentChunk};
use tieline::{Error, MessageKind, Patch, Raw, Result, ToolCallContent, ToolCallStatus, ToolCallUpdate, Update};
use tieline_host::rules::hidden;
use tieline_host::store::{self, Event, SessionLog};
use tieline_rpc::sync::Lock;

/// No title is longer, in bytes.
const TITLE: usize = 5 * 1024;

/// The reports of one turn.
pub struct Reporter {
    /// The turn itself.
    pub turn: Turn,
    log: Option<Arc<SessionLog>>,
    now: Mutex<Now>,
}

#[derive(Default)]
struct Now {
    count: u32,
    message: Option<(MessageKind, String)>,
    /// Something was said that a remark must not run into.
    spoke: bool,
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

/// Text from a model or a file name as a title: on one line, with every character to be seen and none to be obeyed.
pub fn one_line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if out.len() > TITLE {
            out.push('…');
            break;
        }
        match c {
            '\n' | '\t' => out.push(' '),
            c if hidden(c) => _ = write!(out, "\\u{{{:x}}}", u32::from(c)),
            c => out.push(c),
        }
    }
    out
}

impl Reporter {
    /// Reports a turn, and writes it to the log if there is one.
    pub fn new(turn: Turn, log: Option<Arc<SessionLog>>) -> Arc<Self> {
        Arc::new(Self { turn, log, now: Mutex::default() })
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.locked()
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
        self.now().spoke = kind == MessageKind::Agent;
        self.stream(Update::text(kind, Some(id), text)).await
    }

    /// Says what is no part of the conversation, as a message of its own; it is not written down.
    pub async fn remark(&self, text: &str) -> Result<()> {
        // A client that does not tell messages apart puts it behind what was said last.
        let before = if std::mem::take(&mut self.now().spoke) { "\n\n" } else { "" };
        let id = self.new_id("n");
        self.turn.update(Update::text(MessageKind::Agent, Some(id), format!("{before}{text}\n\n"))).await
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
        let mut update = update.status(ToolCallStatus::Pending);
        for words in [&mut update.title, &mut update.name] {
            if let Patch::Set(text) = words {
                *text = one_line(text);
            }
        }
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
        Ok(Arc::new(Call { reporter: Arc::clone(self), tool, id, announced: update, asked: AtomicBool::new(false) }))
    }

    /// What has to be written down for the calls that a cancel cut off. The client is told by the engine.
    pub fn cut_off(&self) -> Vec<Event> {
        let ended = |id: String| Event::Update(ToolCallUpdate::new(id).status(ToolCallStatus::Cancelled).into());
        std::mem::take(&mut self.now().open).into_iter().map(ended).collect()
    }
}

/// A tool call that was reported.
pub struct Call {
    reporter: Arc<Reporter>,
    tool: ToolCall,
    id: String,
    announced: ToolCallUpdate,
    asked: AtomicBool,
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

    /// Notes that the user was asked about it, which takes as long as it takes.
    pub fn was_asked(&self) {
        self.asked.store(true, Ordering::Relaxed);
    }

    /// True if the user was asked about it: what was known before may have changed meanwhile.
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// The call as the engine knows it.
    pub fn tool(&self) -> &ToolCall {
        &self.tool
    }

    /// The reports of the turn.
    pub fn reporter(&self) -> &Arc<Reporter> {
        &self.reporter
    }

    /// Changes something about it.
    pub async fn update(&self, mut change: ToolCallUpdate) -> Result<()> {
        self.reporter.end_message();
        change.tool_call_id.clone_from(&self.id);
        self.reporter.note(vec![Event::Update(change.clone().into())]).await?;
        if change.status.set().is_some_and(ToolCallStatus::is_final) {
            self.reporter.now().open.remove(&self.id);
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
        self.reporter.update(chunk).await
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_are_one_line_and_harmless() {
        for (text, expect) in [
            ("Read a b.txt", "Read a b.txt"),
            ("one\ntwo\tthree", "one two three"),
            ("\u{1b}]52;c;AA\u{7}", "\\u{1b}]52;c;AA\\u{7}"),
            ("gpj.\u{202e}exe", "gpj.\\u{202e}exe"),
            ("a\u{2028}b\r\u{200b}", "a\\u{2028}b\\u{d}\\u{200b}"),
        ] {
            assert_eq!(one_line(text), expect);
        }
        assert!(one_line(&"é\n".repeat(1 << 20)).len() < TITLE + 16);
    }
}
