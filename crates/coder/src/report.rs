//! What a session tells is written down first: its log, and a tool call as it is reported.

use crate::tools::ToolContext;
use std::fmt::Write as _;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use tieline::agent::{Recorder, ToolCall};
use tieline::schema::Meta;
use tieline::{Error, Patch, Result, ToolCallContent, ToolCallStatus, ToolCallUpdate, Update};
use tieline_host::rules::hidden;
use tieline_host::store::{self, Event, SessionLog};
use tieline_rpc::sync::Lock;

/// No title is longer, in bytes.
const MAX_TITLE_BYTES: usize = 5 * 1024;

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
        if out.len() > MAX_TITLE_BYTES {
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

/// Where a session is written down, until it is closed; nowhere if nothing is to be kept.
#[derive(Default)]
pub struct Log(Mutex<Option<Arc<SessionLog>>>);

impl Log {
    /// Writes to this log.
    pub fn new(log: SessionLog) -> Self {
        Self(Mutex::new(Some(Arc::new(log))))
    }

    /// The log, if there is one.
    pub fn open(&self) -> Option<Arc<SessionLog>> {
        self.0.locked().clone()
    }

    /// Writes an event down that the client is not told.
    pub async fn note(&self, event: Event) -> Result<()> {
        match self.open() {
            Some(log) => log.append(vec![event]).await.map(drop).map_err(store_failed),
            None => Ok(()),
        }
    }

    /// Lets the session go.
    pub async fn close(&self) {
        let log = self.0.locked().take();
        if let Some(log) = log.and_then(Arc::into_inner)
            && let Err(error) = log.close().await
        {
            tracing::warn!(%error, "a session could not be closed in the store");
        }
    }
}

/// Has what a session tells written down. The session's handle may outlive the session, which the log must not.
pub struct Recording(pub Weak<Log>);

impl Recorder for Recording {
    fn record<'r>(&'r self, update: &'r Update) -> Pin<Box<dyn Future<Output = Result<()>> + Send + 'r>> {
        Box::pin(async move {
            let Some(log) = self.0.upgrade().and_then(|log| log.open()) else { return Ok(()) };
            let written = match update {
                // They pass, or are kept elsewhere.
                Update::Notice(_) | Update::SessionInfo(_) | Update::Commands(_) | Update::ConfigOptions(_) => Ok(()),
                // They come in floods, and reach the disk soon.
                Update::Chunk(_) | Update::TerminalOutput(_) => log.stream(update.clone()).await,
                _ => log.append(vec![Event::Update(update.clone())]).await.map(drop),
            };
            written.map_err(store_failed)
        })
    }
}

/// A tool call that was reported.
pub struct Call {
    tool: ToolCall,
    log: Arc<Log>,
    /// All that was said when it was announced, with the change that it would make.
    pub announced: ToolCallUpdate,
    asked: AtomicBool,
}

impl Call {
    /// Reports a new call.
    pub async fn announce(ctx: &ToolContext, mut call: ToolCallUpdate, stoppable: bool) -> Result<Arc<Self>> {
        for words in [&mut call.title, &mut call.name] {
            if let Patch::Set(text) = words {
                *text = one_line(text);
            }
        }
        let tool = ctx.turn.tool_from(call.clone());
        let tool = if stoppable { tool.stoppable() } else { tool }.start().await?;
        Ok(Arc::new(Self { tool, log: Arc::clone(&ctx.log), announced: call, asked: AtomicBool::new(false) }))
    }

    /// Notes that the user was asked about it, which takes as long as it takes.
    pub fn was_asked(&self) {
        self.asked.store(true, Ordering::Relaxed);
    }

    /// True if the user was asked about it: what was known before may have changed meanwhile.
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// It runs now; by what it was allowed, if nobody was asked.
    pub async fn runs(&self, by: Option<String>) -> Result<()> {
        let meta = by.map(|by| Meta(serde_json::json!({ "allowedBy": one_line(&by) }).into()));
        let meta = meta.map_or(Patch::Keep, Patch::Set);
        self.update(ToolCallUpdate { meta, ..ToolCallUpdate::default().status(ToolCallStatus::InProgress) }).await
    }

    /// Writes down what the client is not told of it.
    pub async fn note(&self, event: Event) -> Result<()> {
        self.log.note(event).await
    }

    /// Shows what there is so far in place of what was shown before; passing, so it is not written down.
    pub async fn show(&self, content: Vec<ToolCallContent>) -> Result<()> {
        self.turn().update_unrecorded(ToolCallUpdate::new(self.id()).content(content)).await
    }
}

impl Deref for Call {
    type Target = ToolCall;

    fn deref(&self) -> &ToolCall {
        &self.tool
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
        assert!(one_line(&"é\n".repeat(1 << 20)).len() < MAX_TITLE_BYTES + 16);
    }
}
