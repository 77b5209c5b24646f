//! One prompt to a result, without a screen: a live session is opened, the prompt is sent, and whatever happens there is exactly
//! one [`Outcome`].
//!
//! Nothing is printed here. A [`Watch`] sees what comes, in order; it decides what people and programs are shown.

mod control;
mod outcome;
mod record;

pub use control::run;
pub use outcome::Outcome;

use crate::answer::Schema;
use crate::live::{Ending, Event, Gone, Opening, Part, Phase, Setup};
use std::future::Future;
use std::time::Duration;

/// What to run.
#[derive(Default)]
pub struct Plan {
    /// The agent.
    pub setup: Setup,
    /// The session.
    pub opening: Opening,
    /// What to say. Nothing: the run ends when the session is open.
    pub prompt: Vec<Part>,
    /// How long the whole run may take.
    pub limit: Option<Duration>,
    /// How long the agent may be silent in the turn.
    pub idle_limit: Option<Duration>,
    /// What the last message must fit.
    pub schema: Option<Schema>,
}

/// Why a run has to stop early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The user pressed Ctrl-C.
    Interrupt,
    /// We were told to end.
    Terminate,
}

/// News that can't wait: where the run is, and how it is being stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// A phase begins.
    Phase(Phase),
    /// Nothing has happened for so long.
    Waiting(Phase, Duration),
    /// The agent was asked to stop.
    Cancelling(Ending),
    /// The agent did not stop in time (or the user insists), so its process is ended.
    Ending,
    /// The process is killed.
    Killing,
}

/// Sees a run.
pub trait Watch {
    /// Takes the next event. May wait until there is room for what it makes of it.
    fn see(&self, event: Event) -> impl Future<Output = Result<(), Gone>>;

    /// Hears news at once, also while [`Self::see`] waits. Must not wait itself.
    fn hear(&self, progress: Progress);
}
