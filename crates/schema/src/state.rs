//! What a session is doing, and why it stopped.

use crate::macros::{fields, open_enum, record, tagged};
use crate::{Decode, Dialects, Encode, Meta, Terminal, Unknown, Writer, union};
use tieline_json::{Error, Raw, Reader};

open_enum! {
    /// Why foreground work stopped. Version 1 knows five reasons; there any other is written as the end of the turn.
    StopReason, default EndTurn {
        /// The work is done.
        EndTurn = "end_turn";
        /// The model may write no more.
        MaxTokens = "max_tokens";
        /// The model may be asked no more.
        MaxTurnRequests = "max_turn_requests";
        /// The agent refuses to go on.
        Refusal = "refusal";
        /// The user stopped it.
        Cancelled = "cancelled";
        /// Something failed. Older dialects answer the prompt with an error instead; they have no such reason.
        Error = "error" @ Dialects::V2, else EndTurn;
    }
}

/// A snapshot of the foreground work of a session.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StateUpdate {
    /// What the session is doing.
    pub state: State,
    /// What goes on beside it; `None` if the agent does not report that.
    pub background: Option<Vec<Background>>,
    /// Extensions (`_meta`).
    pub meta: Option<Meta>,
}

/// What a session is doing.
#[derive(Debug, Clone, PartialEq)]
pub enum State {
    /// Foreground work is under way.
    Running,
    /// No foreground work.
    Idle {
        /// Why the last work stopped.
        stop_reason: Option<StopReason>,
        /// What failed, with the reason `error`.
        error: Option<Failure>,
    },
    /// Foreground work waits for the user.
    RequiresAction,
    /// A state we don't know: the whole update, kept as it came. It is not idle; show it as busy.
    Other(Unknown),
}

impl State {
    /// True only if the session is known to be idle.
    pub fn is_idle(&self) -> bool {
        matches!(self, Self::Idle { .. })
    }

    /// Idle, because of `reason`.
    pub fn idle(reason: StopReason) -> Self {
        Self::Idle { stop_reason: Some(reason), error: None }
    }
}

impl Default for State {
    fn default() -> Self {
        Self::Idle { stop_reason: None, error: None }
    }
}

impl From<State> for StateUpdate {
    fn from(state: State) -> Self {
        Self { state, ..Self::default() }
    }
}

record! {
    /// What failed, in the shape of a JSON-RPC error.
    Failure {
        /// The error code.
        code: i64 => "code", required;
        /// One sentence.
        message: String => "message", required;
        /// Details.
        data: Option<Raw> => "data", lenient;
    }
}

tagged! {
    /// Something that goes on beside the foreground work.
    Background by "type" {
        /// A process.
        Terminal(Terminal) = "terminal";
        /// A tool call without a process of its own.
        ToolCall(ToolCallRef) = "tool_call";
    }
}

record! {
    /// Names a tool call.
    ToolCallRef {
        /// Which call.
        tool_call_id: String => "toolCallId", required;
    }
}

impl Decode for StateUpdate {
    fn decode(json: &mut Reader<'_>) -> Result<Self, Error> {
        let tag = union::tag(json, "state")?.ok_or_else(|| Error::missing("state"))?;
        let start = json.mark();
        // No item is skipped in the background: a malformed list counts as not reported.
        fields!(json {
            "background" => background, lenient;
            "stopReason" => stop_reason, lenient;
            "error" => error, lenient;
            "_meta" => meta, lenient;
        });
        let (stop_reason, error): (_, Option<Failure>) = (stop_reason, error);
        let state = match &*tag {
            "running" => State::Running,
            "idle" => State::Idle { error: error.filter(|_| stop_reason == Some(StopReason::Error)), stop_reason },
            "requires_action" => State::RequiresAction,
            other => {
                json.rewind(start);
                State::Other(Unknown::keep(other, json)?)
            }
        };
        Ok(Self { state, background, meta })
    }
}

impl Encode for StateUpdate {
    fn encode(&self, out: &mut Writer<'_>) {
        let name = match &self.state {
            State::Running => "running",
            State::Idle { .. } => "idle",
            State::RequiresAction => "requires_action",
            State::Other(unknown) => return unknown.encode(out),
        };
        out.key("{\"sessionUpdate\":\"state_update\",");
        out.field("\"state\":", name);
        if let State::Idle { stop_reason, error } = &self.state {
            out.field("\"stopReason\":", stop_reason);
            out.field("\"error\":", error);
        }
        out.field("\"background\":", &self.background);
        out.field("\"_meta\":", &self.meta);
        out.close();
    }
}
