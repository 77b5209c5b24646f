//! What went wrong in a live session or a run, where, and what to do about it; who the agent and the session are.

use super::{Phase, Reached};
use crate::journal::HowAsked;
use serde::{Serialize, Serializer};
use serde_json::json;
use std::path::{Path, PathBuf};
use tieline::schema::{AuthMethod, StopReason};

/// The kinds of ending. The codes 0 to 5 and 130 mean the same as in acpx.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ending {
    /// The turn ended as it should.
    #[default]
    Done,
    /// The agent answered with an error, broke the protocol or died.
    Failed,
    /// The command line or a file that it names makes no sense.
    Usage,
    /// A deadline passed.
    TimedOut,
    /// There is no such session.
    NoSuchSession,
    /// Permission was asked for and never given.
    Denied,
    /// The user has to log in first.
    LoginNeeded,
    /// The agent could not be started.
    NotStarted,
    /// The agent has lost the conversation.
    ContextLost,
    /// A budget of the user is used up.
    Budget,
    /// The model refused.
    Refused,
    /// The answer does not fit the schema.
    Misfit,
    /// The agent broke the protocol, and that matters.
    Violation,
    /// Stopped at a limit of tokens or requests.
    Limit,
    /// The configuration is invalid or not trusted.
    Config,
    /// The user interrupted.
    Interrupted,
    /// Nobody reads our output any more.
    OutputClosed,
    /// We were told to end.
    Terminated,
}

impl Ending {
    /// The exit code, and the name for programs.
    fn row(self) -> (u8, &'static str) {
        match self {
            Self::Done => (0, "done"),
            Self::Failed => (1, "failed"),
            Self::Usage => (2, "usage"),
            Self::TimedOut => (3, "timed_out"),
            Self::NoSuchSession => (4, "no_such_session"),
            Self::Denied => (5, "denied"),
            Self::LoginNeeded => (6, "login_needed"),
            Self::NotStarted => (7, "not_started"),
            Self::ContextLost => (8, "context_lost"),
            Self::Budget => (9, "budget"),
            Self::Refused => (10, "refused"),
            Self::Limit => (11, "limit"),
            Self::Misfit => (12, "misfit"),
            Self::Violation => (13, "protocol_violation"),
            Self::Config => (14, "config"),
            Self::Interrupted => (130, "interrupted"),
            Self::OutputClosed => (141, "output_closed"),
            Self::Terminated => (143, "terminated"),
        }
    }

    /// The exit code.
    pub fn code(self) -> u8 {
        self.row().0
    }

    /// Its name for programs.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// How a turn that stopped for `reason` ended.
    pub fn of(reason: &StopReason) -> Self {
        match reason {
            StopReason::Refusal => Self::Refused,
            StopReason::MaxTokens | StopReason::MaxTurnRequests => Self::Limit,
            _ => Self::Done,
        }
    }
}

impl Serialize for Ending {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name())
    }
}

/// What went wrong, and where.
#[derive(Debug, Clone, Serialize)]
pub struct Failure {
    /// The kind.
    #[serde(rename = "code")]
    pub ending: Ending,
    /// Where.
    pub phase: Phase,
    /// What, for people. May quote the agent.
    pub message: String,
    /// The code of the agent's error answer.
    pub rpc_code: Option<i64>,
    /// How the agent's process ended, if it did by itself.
    pub exit: Option<String>,
    /// The last lines that the agent wrote on its standard error.
    #[serde(rename = "stderr_tail")]
    pub stderr: Vec<String>,
    /// What to do about it.
    pub hint: Option<String>,
    /// The ways to log in.
    #[serde(rename = "login_methods", serialize_with = "by_name")]
    pub logins: Vec<AuthMethod>,
    /// The limit that was reached.
    pub limit: Option<Reached>,
    /// How the agent broke the protocol, if that matters.
    pub violations: Vec<String>,
}

impl Failure {
    /// A failure with nothing known but where and what.
    pub fn new(ending: Ending, phase: Phase, message: impl Into<String>) -> Box<Self> {
        Box::new(Self {
            ending,
            phase,
            message: message.into(),
            rpc_code: None,
            exit: None,
            stderr: Vec::new(),
            hint: None,
            logins: Vec::new(),
            limit: None,
            violations: Vec::new(),
        })
    }

    /// With something to do about it.
    #[must_use]
    pub fn hint(mut self: Box<Self>, hint: impl Into<String>) -> Box<Self> {
        self.hint = Some(hint.into());
        self
    }
}

fn by_name<S: Serializer>(logins: &[AuthMethod], to: S) -> Result<S::Ok, S::Error> {
    let login = |method: &AuthMethod| json!({"id": method.id(), "name": method.name(), "kind": method.kind()});
    to.collect_seq(logins.iter().map(login))
}

/// Who the agent is.
#[derive(Debug, Clone, Default, Serialize)]
pub struct AgentFacts {
    /// What the user calls it.
    pub label: String,
    /// What it calls itself.
    pub name: Option<String>,
    /// Its version.
    pub version: Option<String>,
    /// The dialect that was agreed.
    pub protocol: Option<String>,
    /// How many ways to log in it offers.
    #[serde(skip)]
    pub logins: usize,
}

/// Which session it was.
#[derive(Debug, Clone, Default, Serialize)]
pub struct SessionFacts {
    /// Our own id, if the session is recorded.
    pub id: Option<String>,
    /// The agent's id.
    #[serde(rename = "agent_session")]
    pub agent_id: Option<String>,
    /// Its working directory.
    #[serde(serialize_with = "lossy")]
    pub cwd: PathBuf,
    /// True if it was there before.
    pub resumed: bool,
    /// True if the agent had lost it and was given a record of it.
    pub handed_over: bool,
    /// It was begun anew because the agent had lost the one to go on with: what to say about that.
    #[serde(skip)]
    pub anew: Option<String>,
}

fn lossy<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&path.to_string_lossy())
}

/// How often permission was asked for, and what came of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Permissions {
    /// Given.
    pub allowed: u64,
    /// Not given.
    pub denied: u64,
    /// Withdrawn, or the turn was cancelled.
    pub cancelled: u64,
    /// Of those given, to do more than to read.
    #[serde(skip)]
    pub(crate) allowed_deeds: u64,
    /// Of those not given, to do more than to read.
    #[serde(skip)]
    pub(crate) denied_deeds: u64,
}

/// A file that was changed during the turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// Which.
    pub path: String,
    /// Whether anyone was asked.
    pub asked: HowAsked,
}
