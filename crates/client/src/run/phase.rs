//! Where a run is: every wait has a name, and its age can be told.

use std::fmt;
use std::time::{Duration, Instant};

/// A step of a run, from looking for the agent to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// The program is looked for.
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
    /// Its name, one word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Find => "find",
            Self::Start => "start",
            Self::Initialize => "initialize",
            Self::Login => "login",
            Self::Session => "session",
            Self::Prompt => "prompt",
            Self::Turn => "turn",
            Self::End => "end",
        }
    }

    /// What is waited for, for people.
    pub fn waits_for(self) -> &'static str {
        match self {
            Self::Find => "looking for the agent",
            Self::Start => "starting the agent",
            Self::Initialize => "waiting for the agent's first answer (initialize)",
            Self::Login => "waiting for the login",
            Self::Session => "waiting for the session",
            Self::Prompt => "setting up the prompt",
            Self::Turn => "waiting for the agent",
            Self::End => "waiting for the agent to end",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The present phase, and since when nothing has happened in it.
#[derive(Debug, Clone, Copy)]
pub struct PhaseClock {
    phase: Phase,
    since: Instant,
}

impl PhaseClock {
    /// At the start.
    pub fn new() -> Self {
        Self { phase: Phase::Find, since: Instant::now() }
    }

    /// Another phase begins.
    pub fn enter(&mut self, phase: Phase) {
        *self = Self { phase, since: Instant::now() };
    }

    /// Something happened: the wait begins anew.
    pub fn stir(&mut self) {
        self.since = Instant::now();
    }

    /// Where we are.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// How long nothing has happened.
    pub fn age(&self) -> Duration {
        self.since.elapsed()
    }
}

impl Default for PhaseClock {
    fn default() -> Self {
        Self::new()
    }
}
