//! What a check found: one finding for each step, and the exit code that comes of them.

use serde::{Serialize, Serializer};
use std::time::Duration;

/// A step of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// The program is looked for.
    Find,
    /// It is started.
    Start,
    /// It answers the hello.
    Initialize,
    /// It says whether login is needed.
    Login,
    /// It opens a session.
    Session,
    /// It begins to answer.
    Prompt,
    /// It ends the turn.
    End,
    /// Its process ends when its input does.
    Exit,
}

impl Step {
    /// All steps, in order.
    pub const ALL: [Self; 8] =
        [Self::Find, Self::Start, Self::Initialize, Self::Login, Self::Session, Self::Prompt, Self::End, Self::Exit];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Find => "find",
            Self::Start => "start",
            Self::Initialize => "initialize",
            Self::Login => "login",
            Self::Session => "session",
            Self::Prompt => "prompt",
            Self::End => "end",
            Self::Exit => "exit",
        }
    }
}

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
    /// Which step.
    pub step: Step,
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
}

impl Diagnosis {
    /// The step that failed, if one did.
    pub fn failure(&self) -> Option<&Finding> {
        self.steps.iter().find(|finding| finding.status == Status::Bad)
    }

    /// The exit code: 0, or 1 for a turn that failed, 3 for a time-out, 6 for login, 7 for an agent that can't be started or does not
    /// speak the protocol.
    pub fn exit_code(&self) -> u8 {
        match self.failure() {
            None => 0,
            Some(failure) if failure.detail.contains("no answer after") => 3,
            Some(failure) => match failure.step {
                Step::Find | Step::Start | Step::Initialize => 7,
                Step::Login => 6,
                _ => 1,
            },
        }
    }
}
