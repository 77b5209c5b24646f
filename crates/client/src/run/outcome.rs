//! The one thing that comes back from a run.

use crate::live::{AgentFacts, Changed, Ending, Failure, Permissions, Said, SessionFacts};
use std::path::PathBuf;
use std::time::Duration;
use tieline::process::Status;
use tieline::schema::{Cost, StopReason};

/// Everything about a run that is over.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The kind of ending.
    pub ending: Ending,
    /// Why the turn stopped, if it did.
    pub stop: Option<StopReason>,
    /// What the agent said.
    pub said: Said,
    /// The agent.
    pub agent: AgentFacts,
    /// The session.
    pub session: SessionFacts,
    /// Tokens in the context, and how many fit.
    pub usage: Option<(u64, u64)>,
    /// What the session cost so far.
    pub cost: Option<Cost>,
    /// Files that were changed.
    pub changed: Vec<Changed>,
    /// Permissions.
    pub permissions: Permissions,
    /// What was odd.
    pub warnings: Vec<String>,
    /// The last message as JSON, if it had to be and is.
    pub answer: Option<serde_json::Value>,
    /// What there is to say about an end that looks good; also among the warnings.
    pub remarks: Vec<String>,
    /// What went wrong.
    pub failure: Option<Box<Failure>>,
    /// How the agent's process ended.
    pub exit: Option<Status>,
    /// From the start of the run.
    pub took: Duration,
}

impl Outcome {
    /// The outcome of a run that never began.
    pub fn not_begun(failure: Box<Failure>, label: String, cwd: PathBuf) -> Self {
        Self {
            ending: failure.ending,
            agent: AgentFacts { label, ..AgentFacts::default() },
            session: SessionFacts { cwd, ..SessionFacts::default() },
            failure: Some(failure),
            ..Self::default()
        }
    }
}
