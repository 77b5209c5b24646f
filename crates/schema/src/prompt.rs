//! A prompt, its answer, and how work is stopped.

use crate::macros::{fields, record};
use crate::{ContentBlock, Decode, Dialect, Encode, Meta, SessionId, StopReason, Writer};
use tieline_json::{Error, Raw, Reader};

record! {
    /// What the user says (`session/prompt`).
    PromptRequest {
        /// Which session.
        session_id: SessionId => "sessionId", required;
        /// The message. A malformed block fails the request.
        prompt: Vec<ContentBlock> => "prompt", required;
    }
}

/// The answer to a prompt: the end of the turn in the older dialects, the id of the accepted message in current v2.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PromptResponse {
    /// Why the turn ended. If it is there, the turn is over.
    pub stop_reason: Option<StopReason>,
    /// The message that the prompt became. Without a stop reason, the work goes on and updates tell how.
    pub message_id: Option<String>,
    /// What the turn used, if the agent tells (not in the published dialects), kept.
    pub usage: Option<Raw>,
    /// Extensions (`_meta`).
    pub meta: Option<Meta>,
}

impl PromptResponse {
    /// The turn is over.
    pub fn ended(reason: StopReason) -> Self {
        Self { stop_reason: Some(reason), ..Self::default() }
    }

    /// The prompt is accepted as this message.
    pub fn accepted(message_id: impl Into<String>) -> Self {
        Self { message_id: Some(message_id.into()), ..Self::default() }
    }
}

impl Decode for PromptResponse {
    fn decode(json: &mut Reader<'_>) -> Result<Self, Error> {
        fields!(json {
            "stopReason" => stop_reason, strict;
            "messageId" => message_id, strict;
            "usage" => usage, keep;
            "_meta" => meta, lenient;
        });
        Ok(Self { stop_reason, message_id, usage, meta })
    }
}

impl Encode for PromptResponse {
    /// Writes the one key that the dialect wants; a missing reason is the end of the turn, a missing id is empty.
    fn encode(&self, out: &mut Writer<'_>) {
        out.open();
        if out.dialect == Dialect::V2 {
            out.field("\"messageId\":", self.message_id.as_deref().unwrap_or_default());
        } else {
            out.field("\"stopReason\":", self.stop_reason.as_ref().unwrap_or(&StopReason::EndTurn));
            out.field("\"usage\":", &self.usage);
        }
        out.field("\"_meta\":", &self.meta);
        out.close();
    }
}

record! {
    /// Stops one tool call (`tool_call/cancel`, current v2).
    CancelToolCallRequest {
        /// Which session.
        session_id: SessionId => "sessionId", required;
        /// Which call.
        tool_call_id: String => "toolCallId", required;
    }
}
