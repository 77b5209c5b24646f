//! Laws that need a memory: who offered what, which sessions, turns and tool calls there are.

mod agent;
mod answers;
mod client;

pub(crate) use client::OPTIONAL;

use crate::laws::Judge;
use std::collections::{HashMap, HashSet};
use tieline_schema::{
    AgentCapabilities, ClientCapabilities, ConfigKind, ConfigOption, ContentBlock, ResourceContents, SessionModes,
    from_base64, is_absolute,
};

/// So many sessions, and so many tool calls of one, are remembered.
const MAX_KNOWN: usize = 10_000;

#[derive(Debug, Default)]
pub(crate) struct State {
    client: ClientCapabilities,
    /// What the agent offers, once it has said so.
    pub agent: Option<AgentCapabilities>,
    sessions: HashMap<String, Session>,
    /// Sessions that the agent spoke of before it named them.
    early: HashSet<String>,
    released: HashSet<String>,
    /// A request came before the hello, or what may have been the answer to it could not be read.
    pub hurried: bool,
}

#[derive(Debug, Default)]
#[allow(clippy::struct_excessive_bools)]
struct Session {
    /// It is open, and not only asked for.
    ready: bool,
    prompts: usize,
    /// A replay is under way.
    replays: usize,
    /// A session is being taken up without one.
    resumes: usize,
    /// A turn or a replay is over, and the client has asked for nothing else since.
    quiet: bool,
    /// Since the prompt there was something that may end its turn with `cancelled`.
    cancelled: bool,
    /// Work was told of since the last prompt, and the state since the session is taken up.
    worked: bool,
    state_told: bool,
    /// Tool calls, and whether they have ended.
    calls: HashMap<String, bool>,
    /// Calls of the present turn.
    turn: HashSet<String>,
    users: HashSet<String>,
    /// The message that a prompt became, not reported yet.
    owed: Option<String>,
    options: Vec<ConfigOption>,
    modes: Option<SessionModes>,
}

impl State {
    /// What may end turns with `cancelled` has come: in this session, or in any.
    pub(crate) fn cancelled(&mut self, session: Option<&str>) {
        for (id, known) in &mut self.sessions {
            known.cancelled |= session.is_none_or(|session| session == id);
        }
    }
}

impl Judge {
    fn session(&mut self, id: &str) -> Option<&mut Session> {
        self.state.sessions.get_mut(id)
    }

    fn opened(&mut self, id: &str) -> &mut Session {
        // A client that opens more than we remember is not judged by what we forgot.
        if self.state.sessions.len() >= MAX_KNOWN {
            self.state.sessions.clear();
            self.whole = false;
        }
        self.state.sessions.entry(id.to_owned()).or_default()
    }

    fn path(&mut self, what: &str, path: &str) {
        self.expect("path-absolute", is_absolute(path), || format!("{what}: {path:?} is not absolute"));
    }

    fn content(&mut self, block: &ContentBlock) {
        let data = match block {
            ContentBlock::Image(image) => &image.data,
            ContentBlock::Audio(audio) => &audio.data,
            ContentBlock::Resource(resource) => match &resource.resource {
                ResourceContents::Blob(blob) => &blob.blob,
                ResourceContents::Text(_) => return,
            },
            _ => return,
        };
        self.expect("content-base64", from_base64(data).is_some(), || "content is not in base64".into());
    }

    /// The options of a session were told.
    pub(crate) fn options(&mut self, session: Option<&str>, options: &[ConfigOption]) {
        let booleans = self.state.client.boolean_options;
        for option in options {
            match &option.kind {
                ConfigKind::Select(select) => {
                    let (id, value) = (&option.config_id, &select.current_value);
                    let fine = select.options.iter().any(|one| one.value == *value);
                    self.expect("option-value", fine, || format!("{id:?} is {value:?}, which is none of its values"));
                }
                ConfigKind::Boolean(_) => {
                    self.expect("can-update", booleans, || "a boolean option, which was not offered".into());
                }
                ConfigKind::Other(_) => {}
            }
        }
        if let Some(session) = session.and_then(|id| self.session(id)) {
            session.options = options.to_vec();
        }
    }

    /// The mode that is on was told.
    fn mode(&mut self, modes: &SessionModes, id: &str) {
        let known = modes.available_modes.iter().any(|mode| mode.id == id);
        self.expect("mode-known", known, || format!("the mode {id:?} is none of the modes of the session"));
    }

    fn commands<'n>(&mut self, names: impl Iterator<Item = &'n str>) {
        let mut seen = HashSet::new();
        for name in names {
            let fine = !name.is_empty() && !name.contains(['/', ' ', '\t', '\n']) && seen.insert(name);
            self.expect("command-name", fine, || format!("the name {name:?}"));
        }
    }
}
