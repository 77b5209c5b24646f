//! Updates: everything an agent can report in a session.

use crate::macros::{fields, record};
use crate::{
    Chunk, CommandsUpdate, CompactionSummaryChunk, CompactionUpdate, ConfigOptionsUpdate, ContentBlock, Decode,
    DecodeFields, Dialect, Dialects, Encode, Message, MessageKind, ModeUpdate, Notice, Patch, Plan, PlanUpdate,
    SessionId, SessionInfoUpdate, StateUpdate, TerminalOutputChunk, TerminalUpdate, ToolCallContentChunk,
    ToolCallStatus, ToolCallUpdate, ToolKind, Unknown, UsageUpdate, Writer, union,
};
use tieline_json::{Error, Reader, Sequence};

/// Something an agent reports in a session.
#[derive(Debug, Clone, PartialEq)]
pub enum Update {
    /// Appends to a message.
    Chunk(Chunk),
    /// Creates or changes a message.
    Message(Message),
    /// Creates or changes a tool call.
    ToolCall(Box<ToolCallUpdate>),
    /// Appends to what a tool call brought.
    ToolCallContent(Box<ToolCallContentChunk>),
    /// Replaces a plan.
    Plan(PlanUpdate),
    /// Replaces the commands.
    Commands(CommandsUpdate),
    /// Replaces the options.
    ConfigOptions(ConfigOptionsUpdate),
    /// Another mode is on (version 1; elsewhere a mode is an option).
    Mode(ModeUpdate),
    /// Changes what is known of the session.
    SessionInfo(SessionInfoUpdate),
    /// How full the context is and what was spent.
    Usage(UsageUpdate),
    /// What the session is doing.
    State(StateUpdate),
    /// Creates or changes a terminal.
    Terminal(Box<TerminalUpdate>),
    /// Appends output to a terminal.
    TerminalOutput(TerminalOutputChunk),
    /// Something to show in passing; not part of the history.
    Notice(Notice),
    /// Creates or changes a compaction of the context.
    Compaction(CompactionUpdate),
    /// Appends to the summary of a compaction.
    CompactionSummary(CompactionSummaryChunk),
    /// A kind we don't know, kept as it came.
    Other(Unknown),
}

/// What a tool call is called in version 1 as long as it has no title.
pub(crate) const NO_TITLE: &str = "Tool call";

record! {
    /// The params of `session/update`.
    SessionNotification {
        /// Which session.
        session_id: SessionId => "sessionId", required;
        /// What is reported.
        update: Update => "update", required;
    }
}

impl Update {
    /// One chunk of text.
    pub fn text(kind: MessageKind, message_id: Option<String>, text: impl Into<String>) -> Self {
        Self::Chunk(Chunk { kind, message_id, content: text.into().into(), ..Default::default() })
    }

    /// The dialects that have a form for this update. Writing it for another gives the form of current v2.
    pub fn dialects(&self) -> Dialects {
        match self {
            Self::Chunk(Chunk { content: ContentBlock::Other(_), .. })
            | Self::Message(_)
            | Self::ToolCallContent(_)
            | Self::Plan(PlanUpdate { plan: Plan::Other { .. }, .. })
            | Self::Other(_) => Dialects::BOTH_V2,
            Self::Mode(_) => Dialects::V1,
            Self::CompactionSummary(CompactionSummaryChunk { content: ContentBlock::Other(_), .. })
            | Self::State(_)
            | Self::Terminal(_)
            | Self::TerminalOutput(_) => Dialects::V2,
            Self::Notice(_) | Self::Compaction(_) | Self::CompactionSummary(_) => Dialects::NOT_SEED,
            _ => Dialects::ALL,
        }
    }

    /// The update as the model means it, when a peer of `dialect` sent it: in version 1 `null` in a tool call means
    /// unchanged, not unset.
    #[must_use]
    pub fn heard_from(mut self, dialect: Dialect) -> Self {
        if let (Dialect::V1, Self::ToolCall(call)) = (dialect, &mut self) {
            call.ignore_nulls();
        }
        self
    }

    /// True if `dialect` has a form for this update.
    pub fn speaks(&self, dialect: Dialect) -> bool {
        self.dialects().has(dialect)
    }
}

impl Default for Update {
    /// An update that changes nothing.
    fn default() -> Self {
        Self::SessionInfo(SessionInfoUpdate::default())
    }
}

impl Decode for Update {
    fn decode(json: &mut Reader<'_>) -> Result<Self, Error> {
        use MessageKind::{Agent, Thought, User};
        union::read(json, "sessionUpdate", |json, union::Open { tag, start, fields }| match &*tag {
            "agent_message_chunk" => chunk(json, fields, Agent),
            "agent_thought_chunk" => chunk(json, fields, Thought),
            "user_message_chunk" => chunk(json, fields, User),
            "tool_call_update" => Box::decode_fields(json, fields).map(Self::ToolCall),
            "tool_call_content_chunk" => Box::decode_fields(json, fields).map(Self::ToolCallContent),
            "tool_call" => announced(json, fields),
            "agent_message" => message(json, fields, Agent),
            "agent_thought" => message(json, fields, Thought),
            "user_message" => message(json, fields, User),
            "terminal_output_chunk" => DecodeFields::decode_fields(json, fields).map(Self::TerminalOutput),
            "terminal_update" => Box::decode_fields(json, fields).map(Self::Terminal),
            "plan_update" => DecodeFields::decode_fields(json, fields).map(Self::Plan),
            "plan" => PlanUpdate::decode_v1(json, fields).map(Self::Plan),
            "available_commands_update" => DecodeFields::decode_fields(json, fields).map(Self::Commands),
            "config_option_update" => DecodeFields::decode_fields(json, fields).map(Self::ConfigOptions),
            "current_mode_update" => mode(json, fields),
            "session_info_update" => DecodeFields::decode_fields(json, fields).map(Self::SessionInfo),
            "usage_update" => DecodeFields::decode_fields(json, fields).map(Self::Usage),
            "notice" => DecodeFields::decode_fields(json, fields).map(Self::Notice),
            "compaction_update" => DecodeFields::decode_fields(json, fields).map(Self::Compaction),
            "compaction_summary_chunk" => DecodeFields::decode_fields(json, fields).map(Self::CompactionSummary),
            other => {
                json.doubt();
                json.rewind(start);
                if other == "state_update" {
                    return StateUpdate::decode(json).map(Self::State);
                }
                Unknown::keep(other, json).map(Self::Other)
            }
        })
    }
}

fn chunk(json: &mut Reader<'_>, fields: Sequence, kind: MessageKind) -> Result<Update, Error> {
    let mut chunk = Chunk::decode_fields(json, fields)?;
    chunk.kind = kind;
    Ok(Update::Chunk(chunk))
}

fn message(json: &mut Reader<'_>, fields: Sequence, kind: MessageKind) -> Result<Update, Error> {
    let mut message = Message::decode_fields(json, fields)?;
    message.kind = kind;
    Ok(Update::Message(message))
}

/// Version 1's first word about a tool call. It is an upsert that names the defaults.
fn announced(json: &mut Reader<'_>, fields: Sequence) -> Result<Update, Error> {
    let mut call: Box<ToolCallUpdate> = Box::decode_fields(json, fields)?;
    if call.title.set().is_none() {
        json.forgive(Error::missing("title"));
    }
    call.announce = true;
    if call.kind.set().is_none() {
        call.kind = Patch::Set(ToolKind::default());
    }
    if call.status.set().is_none() {
        call.status = Patch::Set(ToolCallStatus::default());
    }
    Ok(Update::ToolCall(call))
}

fn mode(json: &mut Reader<'_>, mut fields: Sequence) -> Result<Update, Error> {
    // An official example calls it `modeId`.
    fields!(json, fields {
        "currentModeId" => mode_id, strict;
        "modeId" => alias, strict;
        "_meta" => meta, lenient;
    });
    if mode_id.is_none() {
        json.forgive(Error::missing("currentModeId"));
    }
    let mode_id = mode_id.or(alias).ok_or_else(|| Error::missing("currentModeId"))?;
    Ok(Update::Mode(ModeUpdate { mode_id, meta, ..Default::default() }))
}

impl Encode for Update {
    fn encode(&self, out: &mut Writer<'_>) {
        match self {
            Self::Chunk(chunk) => out.tagged(chunk.kind.chunk_tag(), chunk),
            Self::Message(message) => out.tagged(message.kind.message_tag(), message),
            Self::ToolCall(call) if call.announce && out.dialect == Dialect::V1 => {
                let tag = "{\"sessionUpdate\":\"tool_call\",";
                if call.title.set().is_some() {
                    return out.tagged(tag, &**call);
                }
                let title = Patch::Set(NO_TITLE.to_owned());
                out.tagged(tag, &ToolCallUpdate { title, ..(**call).clone() });
            }
            Self::ToolCall(call) => out.tagged("{\"sessionUpdate\":\"tool_call_update\",", &**call),
            Self::ToolCallContent(chunk) => out.tagged("{\"sessionUpdate\":\"tool_call_content_chunk\",", &**chunk),
            Self::Plan(plan) if out.dialect == Dialect::V1 && self.speaks(Dialect::V1) => plan.encode_v1(out),
            Self::Plan(plan) => out.tagged("{\"sessionUpdate\":\"plan_update\",", plan),
            Self::Commands(list) => out.tagged("{\"sessionUpdate\":\"available_commands_update\",", list),
            Self::ConfigOptions(list) => out.tagged("{\"sessionUpdate\":\"config_option_update\",", list),
            Self::Mode(mode) => out.tagged("{\"sessionUpdate\":\"current_mode_update\",", mode),
            Self::SessionInfo(info) => out.tagged("{\"sessionUpdate\":\"session_info_update\",", info),
            Self::Usage(usage) => out.tagged("{\"sessionUpdate\":\"usage_update\",", usage),
            Self::State(state) => state.encode(out),
            Self::Terminal(terminal) => out.tagged("{\"sessionUpdate\":\"terminal_update\",", &**terminal),
            Self::TerminalOutput(chunk) => out.tagged("{\"sessionUpdate\":\"terminal_output_chunk\",", chunk),
            Self::Notice(notice) => out.tagged("{\"sessionUpdate\":\"notice\",", notice),
            Self::Compaction(update) => out.tagged("{\"sessionUpdate\":\"compaction_update\",", update),
            Self::CompactionSummary(chunk) => out.tagged("{\"sessionUpdate\":\"compaction_summary_chunk\",", chunk),
            Self::Other(unknown) => unknown.encode(out),
        }
    }
}

macro_rules! into_update {
    ($($from:ty => $variant:ident $($boxed:ident)?),* $(,)?) => {$(
        impl From<$from> for Update {
            fn from(value: $from) -> Self {
                Self::$variant(into_update!(value $($boxed)?))
            }
        }
    )*};
    ($value:ident) => { $value };
    ($value:ident boxed) => { Box::new($value) };
}

into_update!(
    Chunk => Chunk, Message => Message, ToolCallUpdate => ToolCall boxed, ToolCallContentChunk => ToolCallContent boxed,
    PlanUpdate => Plan, CommandsUpdate => Commands, ConfigOptionsUpdate => ConfigOptions, ModeUpdate => Mode,
    SessionInfoUpdate => SessionInfo, UsageUpdate => Usage, StateUpdate => State, TerminalUpdate => Terminal boxed,
    TerminalOutputChunk => TerminalOutput, Notice => Notice, CompactionUpdate => Compaction,
    CompactionSummaryChunk => CompactionSummary,
);
