//! What is known of a session as a whole.

use serde::{Deserialize, Serialize};
use tieline::schema::{Dialect, Raw};
use tieline_host::store::{Holder, Session, State, Time};

/// A session to begin.
#[derive(Debug, Clone, Default)]
pub struct Begin {
    /// The id that it shall have if it is free; without it a new one. Sessions of the built-in agent have one name in both stores.
    pub id: Option<String>,
    /// The agent's name; its whole command line if it has none.
    pub agent: String,
    /// The id that the agent gave it.
    pub agent_session: Option<String>,
    /// The folder it works in.
    pub cwd: String,
    /// Its other folders.
    pub directories: Vec<String>,
    /// What the user calls it, if anything.
    pub name: Option<String>,
    /// The dialect that was agreed.
    pub protocol: Option<Dialect>,
    /// The command line, if the agent has no name in the configuration.
    pub command: Vec<String>,
}

/// A session of the journal.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Our id.
    pub id: String,
    /// The agent's name; its whole command line if it has none.
    pub agent: String,
    /// The id that the agent gave it.
    pub agent_session: Option<String>,
    /// The folder it works in.
    pub cwd: String,
    /// Its other folders.
    pub directories: Vec<String>,
    /// What the user calls it.
    pub name: Option<String>,
    /// What it is about, not yet safe to show: the agent's words, or the first ones of the user.
    pub title: Option<String>,
    /// The dialect that was agreed.
    pub protocol: Option<Dialect>,
    /// The command line, if the agent has no name.
    pub command: Vec<String>,
    /// When it was begun.
    pub created: Time,
    /// When something last happened in it.
    pub updated: Time,
    /// How many turns it has.
    pub turns: u64,
    /// How many bytes it takes.
    pub bytes: u64,
    /// What it is doing.
    pub state: State,
    /// Who has it open.
    pub holder: Option<Holder>,
}

/// What the store has no column for.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Meta {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) agent_session: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) protocol: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) command: Vec<String>,
}

impl Meta {
    fn of(session: Option<&String>, protocol: Option<Dialect>, command: &[String]) -> Raw {
        let meta = Self {
            agent_session: session.cloned(),
            protocol: protocol.map(|dialect| dialect.name().to_owned()),
            command: command.to_vec(),
        };
        serde_json::to_value(meta).unwrap_or_default().into()
    }
}

impl Begin {
    pub(super) fn meta(&self) -> Raw {
        Meta::of(self.agent_session.as_ref(), self.protocol, &self.command)
    }
}

impl Entry {
    pub(super) fn of(session: &Session) -> Self {
        let meta: Meta = session.meta.as_ref().and_then(|meta| meta.parse().ok()).unwrap_or_default();
        Self {
            id: session.id.to_string(),
            agent: session.agent.clone(),
            agent_session: meta.agent_session,
            cwd: session.cwd.clone(),
            directories: session.directories.clone(),
            name: session.title.clone().filter(|_| session.named),
            title: session.title.clone(),
            protocol: meta.protocol.and_then(|name| name.parse().ok()),
            command: meta.command,
            created: session.created,
            updated: session.updated,
            turns: session.turns,
            bytes: session.bytes,
            state: session.state,
            holder: session.holder.clone(),
        }
    }

    pub(super) fn meta(&self) -> Raw {
        Meta::of(self.agent_session.as_ref(), self.protocol, &self.command)
    }
}
