//! What is known of a session as a whole.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Deref;
use tieline::schema::{Dialect, Raw};
use tieline_host::store::Session;

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

/// A session of the journal: what the store knows of it, and what the store has no column for.
#[derive(Debug, Clone)]
pub struct Entry {
    session: Session,
    /// The id that the agent gave it.
    pub agent_session: Option<String>,
    /// The dialect that was agreed.
    pub protocol: Option<Dialect>,
    /// The command line, if the agent has no name.
    pub command: Vec<String>,
    /// The model of the built-in agent that answered last.
    pub model: Option<String>,
    /// The addresses that were named for its providers.
    pub addresses: BTreeMap<String, String>,
}

impl Deref for Entry {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.session
    }
}

/// What the store has no column for.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Meta {
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_session: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    protocol: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    command: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    addresses: BTreeMap<String, String>,
}

impl Meta {
    fn to_raw(&self) -> Raw {
        serde_json::to_value(self).unwrap_or_default().into()
    }
}

impl Begin {
    /// What the store has no column for.
    pub(super) fn meta(&self) -> Raw {
        let (agent_session, protocol) = (self.agent_session.clone(), self.protocol.map(|one| one.name().to_owned()));
        Meta { agent_session, protocol, command: self.command.clone(), ..Meta::default() }.to_raw()
    }
}

impl Entry {
    /// What the store has no column for.
    pub(super) fn meta(&self) -> Raw {
        let Self { agent_session, protocol, command, model, addresses, .. } = self.clone();
        let protocol = protocol.map(|dialect| dialect.name().to_owned());
        Meta { agent_session, protocol, command, model, addresses }.to_raw()
    }
}

impl From<Session> for Entry {
    fn from(session: Session) -> Self {
        let meta: Meta = session.meta.as_ref().and_then(|meta| meta.parse().ok()).unwrap_or_default();
        let Meta { agent_session, protocol, command, model, addresses } = meta;
        let protocol = protocol.and_then(|name| name.parse().ok());
        Self { session, agent_session, protocol, command, model, addresses }
    }
}
