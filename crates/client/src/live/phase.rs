//! Where a run is: every wait has a name.

use serde::{Serialize, Serializer};
use std::fmt;

/// A step of a run, from looking for the agent to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Phase {
    /// The program is looked for.
    #[default]
    Find,
    /// The program is started.
    Start,
    /// The agent is greeted.
    Initialize,
    /// The user logs in.
    Login,
    /// The session is opened or taken up.
    Session,
    /// Options are set and the prompt is sent.
    Prompt,
    /// The agent works.
    Turn,
    /// The agent is made to end.
    End,
}

impl Phase {
    /// Its name, one word, and what is waited for, for people.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Find => ("find", "looking for the agent"),
            Self::Start => ("start", "starting the agent"),
            Self::Initialize => ("initialize", "waiting for the agent's first answer (initialize)"),
            Self::Login => ("login", "waiting for the login"),
            Self::Session => ("session", "waiting for the session"),
            Self::Prompt => ("prompt", "setting up the prompt"),
            Self::Turn => ("turn", "waiting for the agent"),
            Self::End => ("end", "waiting for the agent to end"),
        }
    }

    /// Its name, one word.
    pub fn name(self) -> &'static str {
        self.words().0
    }

    /// What is waited for, for people.
    pub fn waits_for(self) -> &'static str {
        self.words().1
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Phase {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name())
    }
}
