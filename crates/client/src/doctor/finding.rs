//! What a check found: one finding for each step, and the exit code that comes of them.

use crate::live::Phase;
use serde::{Serialize, Serializer};
use std::time::Duration;

/// All steps, in order.
pub(super) const STEPS: [Phase; 8] = [
    Phase::Find,
    Phase::Start,
    Phase::Initialize,
    Phase::Login,
    Phase::Session,
    Phase::Prompt,
    Phase::Turn,
    Phase::End,
];

/// How a step went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// As it should.
    Good,
    /// It went, but something is odd.
    Odd,
    /// It did not.
    Bad,
    /// It was not tried.
    Skipped,
}

/// What a step found.
#[derive(Debug, Clone, Serialize)]
pub struct Finding {
    /// Which step of a run.
    #[serde(skip)]
    pub phase: Phase,
    /// Its name: what a check sees of the turn is its end, and of the end the exit.
    pub step: &'static str,
    /// How it went.
    pub status: Status,
    /// How long it took.
    #[serde(rename = "ms", serialize_with = "as_millis")]
    pub took: Duration,
    /// What was found, safe to show.
    pub detail: String,
    /// What to type, if something is to be mended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

pub(super) fn name(step: Phase) -> &'static str {
    match step {
        Phase::Turn => "end",
        Phase::End => "exit",
        step => step.name(),
    }
}

fn as_millis<S: Serializer>(took: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(u64::try_from(took.as_millis()).unwrap_or(u64::MAX))
}

/// What a check found.
#[derive(Debug, Clone, Serialize)]
pub struct Diagnosis {
    /// The agent's name.
    pub agent: String,
    /// Its command.
    pub command: Vec<String>,
    /// One finding for each step.
    pub steps: Vec<Finding>,
    /// 0, or 1 for a turn that failed, 3 for a time-out, 6 for login, 7 for an agent that can't be started or does not speak the
    /// protocol.
    #[serde(skip)]
    pub exit_code: u8,
}
