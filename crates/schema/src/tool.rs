//! Tool calls: what the agent does besides talking.

use crate::macros::{open_enum, record};
use crate::{ContentBlock, Decode, Dialect, Dialects, Diff, Encode, Items, Marker, Patch, Unknown, Writer, union};
use std::num::NonZeroU32;
use tieline_json::{Error, Raw, Reader};

record! {
    /// Creates or changes a tool call: absent fields stay as they are, `null` unsets, lists are replaced as a whole.
    upsert ToolCallUpdate {
        /// Which call it is.
        tool_call_id: String => "toolCallId", required;
        /// What it does, for people.
        title: Patch<String> => "title", lenient;
        /// The name of the tool.
        name: Patch<String> => "name", lenient, Dialects::NOT_SEED;
        /// What kind of thing it does.
        kind: Patch<ToolKind> => "kind", lenient;
        /// How far it is.
        status: Patch<ToolCallStatus> => "status", lenient;
        /// What it brought.
        content: Patch<Items<ToolCallContent>> => "content", lenient;
        /// The files it works on.
        locations: Patch<Items<Location>> => "locations", lenient;
        /// What the tool was given.
        raw_input: Patch<Raw> => "rawInput", lenient;
        /// What the tool gave back.
        raw_output: Patch<Raw> => "rawOutput", lenient;
        /// What the client may do with it now.
        capabilities: Patch<ToolCallCapabilities> => "capabilities", lenient, Dialects::V2;
    }
    local {
        /// True if version 1 hears of this call for the first time: there the first update has a name of its own,
        /// `tool_call`. Not on the wire; the projector sets it.
        announce: bool;
    }
}

impl ToolCallUpdate {
    /// An update that changes nothing yet.
    pub fn new(id: impl Into<String>) -> Self {
        Self { tool_call_id: id.into(), ..Self::default() }
    }

    /// Makes every field that is unset stay as it is. That is how version 1 reads `null`.
    pub fn ignore_nulls(&mut self) {
        self.title.ignore_null();
        self.name.ignore_null();
        self.kind.ignore_null();
        self.status.ignore_null();
        self.content.ignore_null();
        self.locations.ignore_null();
        self.raw_input.ignore_null();
        self.raw_output.ignore_null();
        self.capabilities.ignore_null();
        self.meta.ignore_null();
    }

    /// The same update with a title.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Patch::Set(title.into());
        self
    }

    /// The same update with a kind.
    #[must_use]
    pub fn kind(mut self, kind: ToolKind) -> Self {
        self.kind = Patch::Set(kind);
        self
    }

    /// The same update with a status.
    #[must_use]
    pub fn status(mut self, status: ToolCallStatus) -> Self {
        self.status = Patch::Set(status);
        self
    }

    /// The same update with content.
    #[must_use]
    pub fn content(mut self, content: Vec<ToolCallContent>) -> Self {
        self.content = Patch::Set(Items(content));
        self
    }
}

record! {
    /// What a client may do with a tool call.
    ToolCallCapabilities {
        /// `tool_call/cancel` is possible.
        cancel: Marker => "cancel", lenient;
    }
}

open_enum! {
    /// What kind of thing a tool does. Helps to choose an icon.
    ToolKind, default Unspecified {
        /// Reads files or data.
        Read = "read";
        /// Changes files.
        Edit = "edit";
        /// Removes files.
        Delete = "delete";
        /// Moves or renames files.
        Move = "move";
        /// Looks for something.
        Search = "search";
        /// Runs a command.
        Execute = "execute";
        /// Reasons or plans.
        Think = "think";
        /// Gets something from outside.
        Fetch = "fetch";
        /// Changes the mode of the session.
        SwitchMode = "switch_mode";
        /// None of these (`other`, the default).
        Unspecified = "other";
    }
}

open_enum! {
    /// How far a tool call is.
    ToolCallStatus, default Pending, unknown InProgress {
        /// Not begun: input is still coming, or permission is asked.
        Pending = "pending";
        /// Running.
        InProgress = "in_progress";
        /// Begun, waiting. Older dialects call it running.
        Paused = "paused" @ Dialects::V2, else InProgress;
        /// Ended well.
        Completed = "completed";
        /// Ended badly.
        Failed = "failed";
        /// Stopped by the user. Older dialects call it failed.
        Cancelled = "cancelled" @ Dialects::V2, else Failed;
    }
}

impl ToolCallStatus {
    /// True if nothing more will happen. An unknown status counts as still running.
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// One piece of what a tool call brought.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolCallContent {
    /// A content block.
    Content(Content),
    /// Changes of files.
    Diff(Diff),
    /// A terminal whose output is shown in place.
    Terminal(Terminal),
    /// A kind we don't know, kept as it came. Version 1 has no form for it and is not told.
    Other(Unknown),
}

record! {
    /// A content block that a tool call brought.
    Content {
        /// The block.
        content: ContentBlock => "content", required;
    }
}

record! {
    /// A terminal whose output is shown in place.
    Terminal {
        /// Which terminal.
        terminal_id: String => "terminalId", required;
    }
}

impl Default for ContentBlock {
    fn default() -> Self {
        Self::from("")
    }
}

impl Default for ToolCallContent {
    fn default() -> Self {
        Self::from("")
    }
}

impl<T: Into<ContentBlock>> From<T> for ToolCallContent {
    fn from(block: T) -> Self {
        Self::Content(Content { content: block.into(), ..Default::default() })
    }
}

impl ToolCallContent {
    /// The text, if it is a text block.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Content(content) => content.content.as_text(),
            _ => None,
        }
    }
}

impl Decode for ToolCallContent {
    fn decode(json: &mut Reader<'_>) -> Result<Self, Error> {
        let tag = union::tag(json, "type")?.ok_or_else(|| Error::missing("type"))?;
        match &*tag {
            "content" => Content::decode(json).map(Self::Content),
            "diff" => Diff::decode(json).map(Self::Diff),
            "terminal" => Terminal::decode(json).map(Self::Terminal),
            // Some agents leave the wrapper out.
            "text" | "image" | "audio" | "resource_link" | "resource" => {
                let block = ContentBlock::decode(json)?;
                json.forgive(Error::data("expected a content block inside `content`"));
                Ok(block.into())
            }
            other => {
                union::stray(json, "type", other, &["content", "diff", "terminal"]);
                Unknown::keep(other, json).map(Self::Other)
            }
        }
    }
}

impl Encode for ToolCallContent {
    fn encode(&self, out: &mut Writer<'_>) {
        match self {
            Self::Content(content) => out.tagged("{\"type\":\"content\",", content),
            Self::Diff(diff) if out.dialect == Dialect::V2 => out.tagged("{\"type\":\"diff\",", diff),
            Self::Diff(diff) => match diff.texts() {
                Some(texts) => diff.encode_texts(texts, out),
                None => diff.summary().encode(out),
            },
            // Seed-era v2 has no terminals.
            Self::Terminal(terminal) if out.dialect == Dialect::V2Seed => {
                Self::from(format!("[terminal {}]", terminal.terminal_id)).encode(out);
            }
            Self::Terminal(terminal) => out.tagged("{\"type\":\"terminal\",", terminal),
            Self::Other(unknown) => unknown.encode(out),
        }
    }

    fn encode_item(&self, out: &mut Writer<'_>) {
        match self {
            Self::Other(_) | Self::Content(Content { content: ContentBlock::Other(_), .. })
                if out.dialect == Dialect::V1 =>
            {
                return;
            }
            Self::Diff(diff) if out.dialect != Dialect::V2 && diff.texts().is_none() => {
                return diff.lower().iter().for_each(|item| item.encode_item(out));
            }
            item => item.encode(out),
        }
        out.out.push(b',');
    }
}

record! {
    /// A file that a tool call works on, so that a client can follow.
    Location {
        /// An absolute path.
        path: String => "path", required;
        /// The line, counted from 1.
        line: Option<NonZeroU32> => "line", lenient;
    }
}

impl Location {
    /// A place in a file; line 0 means the whole file.
    pub fn new(path: impl Into<String>, line: u32) -> Self {
        Self { path: path.into(), line: NonZeroU32::new(line), ..Default::default() }
    }
}

record! {
    /// Appends one piece to what a tool call brought.
    ToolCallContentChunk {
        /// Which call.
        tool_call_id: String => "toolCallId", required;
        /// The piece.
        content: ToolCallContent => "content", required;
    }
}
