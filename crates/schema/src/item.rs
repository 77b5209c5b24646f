//! What a conversation is made of: messages, tool calls, compactions, terminals, and how updates change them.

use crate::meta::patch_meta;
use crate::{
    CompactionStatus, CompactionUpdate, ContentBlock, Dialect, ExitStatus, Items, Location, Message, MessageKind, Meta,
    Patch, TerminalCapabilities, TerminalOutput, TerminalSize, TerminalUpdate, ToolCallCapabilities, ToolCallContent,
    ToolCallStatus, ToolCallUpdate, ToolKind, Unknown, from_base64, to_base64,
};
use tieline_json::Raw;

/// One item of the conversation. Its place is where it was first seen.
#[derive(Debug, Clone, PartialEq)]
pub enum Item {
    /// Somebody said something.
    Message(MessageItem),
    /// A tool was called.
    ToolCall(Box<ToolCallItem>),
    /// The context was replaced by a summary.
    Compaction(CompactionItem),
    /// An update we don't know.
    Other(Unknown),
}

/// A message as it is now.
#[derive(Debug, Clone, Default)]
pub struct MessageItem {
    /// Who speaks.
    pub kind: MessageKind,
    /// Its id; made up (`~1`) if the agent gave none.
    pub id: String,
    /// What was said.
    pub content: Vec<ContentBlock>,
    /// Extensions (`_meta`).
    pub meta: Option<Meta>,
    /// The last block came in chunks, so that more text belongs to it.
    open: bool,
}

/// Two messages are the same if they say the same; how it came does not matter.
impl PartialEq for MessageItem {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind && self.id == other.id && self.content == other.content && self.meta == other.meta
    }
}

impl MessageItem {
    pub(crate) fn new(kind: MessageKind, id: String) -> Self {
        Self { kind, id, ..Self::default() }
    }

    /// All text of the message.
    pub fn text(&self) -> String {
        self.content.iter().filter_map(ContentBlock::as_text).collect()
    }

    /// Appends a block. Text that comes in chunks grows into one block.
    pub(crate) fn append(&mut self, block: &ContentBlock) {
        let plain = matches!(block, ContentBlock::Text(text) if text.annotations.is_none() && text.meta.is_none());
        match (self.content.last_mut(), block) {
            (Some(ContentBlock::Text(last)), ContentBlock::Text(more)) if self.open && plain => {
                last.text.push_str(&more.text);
            }
            _ => {
                self.content.push(block.clone());
                self.open = plain;
            }
        }
    }

    pub(crate) fn apply(&mut self, update: &Message, dialect: Dialect) {
        if !update.content.is_keep() {
            replace(&mut self.content, &update.content);
            self.open = false;
        }
        patch_meta(&mut self.meta, &update.meta, dialect);
    }

    pub(crate) fn to_update(&self) -> Message {
        Message {
            kind: self.kind,
            message_id: self.id.clone(),
            content: Patch::Set(Items(self.content.clone())),
            meta: set(self.meta.as_ref()),
            ..Default::default()
        }
    }
}

/// A tool call as it is now.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ToolCallItem {
    /// Which call it is.
    pub id: String,
    /// What it does, for people.
    pub title: Option<String>,
    /// The name of the tool.
    pub name: Option<String>,
    /// What kind of thing it does.
    pub kind: ToolKind,
    /// How far it is.
    pub status: ToolCallStatus,
    /// What it brought.
    pub content: Vec<ToolCallContent>,
    /// The files it works on.
    pub locations: Vec<Location>,
    /// What the tool was given.
    pub raw_input: Option<Raw>,
    /// What the tool gave back.
    pub raw_output: Option<Raw>,
    /// What the client may do with it now.
    pub capabilities: Option<ToolCallCapabilities>,
    /// Extensions (`_meta`).
    pub meta: Option<Meta>,
}

impl ToolCallItem {
    /// A call of which nothing is known.
    pub fn new(id: String) -> Self {
        Self { id, ..Self::default() }
    }

    /// Changes the call. In version 1 `null` means unchanged, not unset.
    pub fn apply(&mut self, update: &ToolCallUpdate, dialect: Dialect) {
        let null_clears = dialect != Dialect::V1;
        put(&mut self.title, &update.title, null_clears);
        put(&mut self.name, &update.name, null_clears);
        put(&mut self.raw_input, &update.raw_input, null_clears);
        put(&mut self.raw_output, &update.raw_output, null_clears);
        put(&mut self.capabilities, &update.capabilities, null_clears);
        match &update.kind {
            Patch::Clear if null_clears => self.kind = ToolKind::default(),
            Patch::Set(kind) => self.kind = kind.clone(),
            _ => {}
        }
        match &update.status {
            Patch::Clear if null_clears => self.status = ToolCallStatus::default(),
            Patch::Set(status) => self.status = status.clone(),
            _ => {}
        }
        if null_clears || update.content.set().is_some() {
            replace(&mut self.content, &update.content);
        }
        if null_clears || update.locations.set().is_some() {
            replace(&mut self.locations, &update.locations);
        }
        if null_clears || update.meta.set().is_some() {
            patch_meta(&mut self.meta, &update.meta, dialect);
        }
    }

    /// The update that makes this call from nothing.
    pub fn to_update(&self) -> ToolCallUpdate {
        ToolCallUpdate {
            tool_call_id: self.id.clone(),
            title: set(self.title.as_ref()),
            name: set(self.name.as_ref()),
            kind: Patch::Set(self.kind.clone()),
            status: Patch::Set(self.status.clone()),
            content: set_list(&self.content),
            locations: set_list(&self.locations),
            raw_input: set(self.raw_input.as_ref()),
            raw_output: set(self.raw_output.as_ref()),
            capabilities: set(self.capabilities.as_ref()),
            meta: set(self.meta.as_ref()),
            announce: false,
            ..Default::default()
        }
    }
}

/// A compaction as it is now.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CompactionItem {
    /// Which compaction it is.
    pub id: String,
    /// How far it is.
    pub status: CompactionStatus,
    /// What stands for the context now.
    pub summary: Vec<ContentBlock>,
    /// What failed.
    pub error: Option<String>,
    /// Extensions (`_meta`).
    pub meta: Option<Meta>,
}

impl CompactionItem {
    pub(crate) fn new(id: String) -> Self {
        Self { id, ..Self::default() }
    }

    pub(crate) fn apply(&mut self, update: &CompactionUpdate, dialect: Dialect) {
        self.status = update.status.clone();
        replace(&mut self.summary, &update.summary);
        put(&mut self.error, &update.error, true);
        patch_meta(&mut self.meta, &update.meta, dialect);
    }

    pub(crate) fn to_update(&self) -> CompactionUpdate {
        CompactionUpdate {
            compaction_id: self.id.clone(),
            status: self.status.clone(),
            summary: set_list(&self.summary),
            error: set(self.error.as_ref()),
            meta: set(self.meta.as_ref()),
            ..Default::default()
        }
    }
}

/// A display terminal as it is now.
#[derive(Debug, Clone, Default)]
pub struct TerminalItem {
    /// Which terminal it is.
    pub id: String,
    /// The command line.
    pub command: Option<String>,
    /// The directory it runs in.
    pub cwd: Option<String>,
    /// How it ended; the value alone says that it ended.
    pub exit_status: Option<ExitStatus>,
    /// The size of the screen it writes to.
    pub size: Option<TerminalSize>,
    /// What the client may do with it now.
    pub capabilities: Option<TerminalCapabilities>,
    /// Extensions (`_meta`).
    pub meta: Option<Meta>,
    bytes: Vec<u8>,
    limit: usize,
}

/// Two terminals are the same if they show the same.
impl PartialEq for TerminalItem {
    fn eq(&self, other: &Self) -> bool {
        self.output() == other.output() && self.to_update() == other.to_update()
    }
}

impl TerminalItem {
    pub(crate) fn new(id: String, limit: usize) -> Self {
        Self { id, limit, ..Self::default() }
    }

    /// The last output. Bytes, because a character or an escape sequence may be cut at either end.
    pub fn output(&self) -> &[u8] {
        &self.bytes[self.bytes.len().saturating_sub(self.limit)..]
    }

    /// Appends bytes that are base64 of their own; what is not base64 is passed over.
    pub(crate) fn append(&mut self, data: &str) {
        let Some(bytes) = from_base64(data) else { return };
        self.bytes.extend_from_slice(&bytes);
        // Cut only when twice the limit is there, so that long output is not moved with every chunk.
        if self.bytes.len() > self.limit.saturating_mul(2) {
            self.bytes.drain(..self.bytes.len() - self.limit);
        }
    }

    pub(crate) fn apply(&mut self, update: &TerminalUpdate, dialect: Dialect) {
        put(&mut self.command, &update.command, true);
        put(&mut self.cwd, &update.cwd, true);
        put(&mut self.exit_status, &update.exit_status, true);
        put(&mut self.size, &update.size, true);
        put(&mut self.capabilities, &update.capabilities, true);
        patch_meta(&mut self.meta, &update.meta, dialect);
        match &update.output {
            Patch::Keep => {}
            Patch::Clear => self.bytes.clear(),
            Patch::Set(output) => {
                if from_base64(&output.data).is_some() {
                    self.bytes.clear();
                    self.append(&output.data);
                }
            }
        }
    }

    pub(crate) fn to_update(&self) -> TerminalUpdate {
        let output = TerminalOutput { data: to_base64(self.output()), ..Default::default() };
        TerminalUpdate {
            terminal_id: self.id.clone(),
            command: set(self.command.as_ref()),
            cwd: set(self.cwd.as_ref()),
            output: if output.data.is_empty() { Patch::Keep } else { Patch::Set(output) },
            exit_status: set(self.exit_status.as_ref()),
            size: set(self.size.as_ref()),
            capabilities: set(self.capabilities.as_ref()),
            meta: set(self.meta.as_ref()),
            ..Default::default()
        }
    }
}

pub(crate) fn put<T: Clone>(field: &mut Option<T>, patch: &Patch<T>, null_clears: bool) {
    match patch {
        Patch::Set(value) => *field = Some(value.clone()),
        Patch::Clear if null_clears => *field = None,
        _ => {}
    }
}

pub(crate) fn replace<T: Clone>(list: &mut Vec<T>, patch: &Patch<Items<T>>) {
    match patch {
        Patch::Keep => {}
        Patch::Clear => list.clear(),
        Patch::Set(items) => list.clone_from(&items.0),
    }
}

/// The patch that makes an unset field this value.
pub(crate) fn set<T: Clone>(value: Option<&T>) -> Patch<T> {
    value.cloned().map_or(Patch::Keep, Patch::Set)
}

fn set_list<T: Clone>(list: &[T]) -> Patch<Items<T>> {
    if list.is_empty() { Patch::Keep } else { Patch::Set(Items(list.to_vec())) }
}
