//! Messages: what user and agent say, whole or in chunks.

use crate::macros::record;
use crate::{ContentBlock, Encode, Items, Patch, Writer};
use tieline_json::write_str;

/// Who speaks in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum MessageKind {
    /// The user.
    User,
    /// The agent.
    #[default]
    Agent,
    /// The agent, to itself.
    Thought,
}

record! {
    /// Appends one block to a message.
    Chunk {
        /// Which message. Version 1 may leave it out: then a run of chunks of one kind is one message.
        message_id: Option<String> => "messageId", lenient;
        /// The block.
        content: ContentBlock => "content", required;
    }
    local {
        /// Who speaks. On the wire this is in the name of the update.
        kind: MessageKind;
    }
}

record! {
    /// Creates or changes a message: absent content stays, `null` and `[]` clear it, a list replaces it.
    upsert Message {
        /// Which message. Users, agents and thoughts have ids of their own.
        message_id: String => "messageId", required;
        /// All of its content.
        content: Patch<Items<ContentBlock>> => "content", lenient;
    }
    local {
        /// Who speaks. On the wire this is in the name of the update.
        kind: MessageKind;
    }
}

/// The params of `session/update` for one chunk of text, written straight from borrowed parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextChunk<'a> {
    /// Which session.
    pub session_id: &'a str,
    /// Who speaks.
    pub kind: MessageKind,
    /// Which message.
    pub message_id: Option<&'a str>,
    /// The text to append.
    pub text: &'a str,
}

impl Encode for TextChunk<'_> {
    fn encode(&self, out: &mut Writer<'_>) {
        out.out.reserve(self.session_id.len() + self.text.len() + 192);
        out.key("{\"sessionId\":");
        write_str(out.out, self.session_id);
        out.key(",\"update\":");
        out.key(self.kind.chunk_tag());
        if let Some(id) = self.message_id {
            out.key("\"messageId\":");
            write_str(out.out, id);
            out.key(",");
        }
        out.key("\"content\":{\"type\":\"text\",\"text\":");
        write_str(out.out, self.text);
        out.key("}}}");
    }
}

impl std::fmt::Display for MessageKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::User => "user",
            Self::Agent => "agent",
            Self::Thought => "thought",
        })
    }
}

impl std::str::FromStr for MessageKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = [Self::User, Self::Agent, Self::Thought];
        all.into_iter().find(|kind| kind.to_string() == text).ok_or_else(|| format!("`{text}` is nobody who speaks"))
    }
}

impl MessageKind {
    /// How an update that appends to such a message begins.
    pub(crate) fn chunk_tag(self) -> &'static str {
        match self {
            Self::User => "{\"sessionUpdate\":\"user_message_chunk\",",
            Self::Agent => "{\"sessionUpdate\":\"agent_message_chunk\",",
            Self::Thought => "{\"sessionUpdate\":\"agent_thought_chunk\",",
        }
    }

    /// How an update that changes such a message begins.
    pub(crate) fn message_tag(self) -> &'static str {
        match self {
            Self::User => "{\"sessionUpdate\":\"user_message\",",
            Self::Agent => "{\"sessionUpdate\":\"agent_message\",",
            Self::Thought => "{\"sessionUpdate\":\"agent_thought\",",
        }
    }
}
