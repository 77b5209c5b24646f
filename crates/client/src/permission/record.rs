//! What was decided, by whom, when, about what: for the journal.

use super::Policy;
use serde::Serialize;
use std::fmt;
use std::time::SystemTime;
use tieline_host::files::Hash;

/// Who decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "who", content = "what")]
pub enum By {
    /// A rule, or several that each cover a part; as they are written, with `allow`, `ask` or `deny` before them.
    Rule(String),
    /// No rule; the policy.
    Policy(Policy),
    /// Rules hold commands back, and this one is not clear enough to tell whether they apply.
    Unclear(String),
    /// Nothing was asked: the path is outside the roots.
    Roots,
    /// The [`Decider`](super::Decider) of this name.
    Decider(String),
    /// The same change was allowed before in this turn, with the tool call that it belongs to; its title.
    Before(String),
    /// The turn was cancelled, or the agent withdrew the question.
    Cancel,
}

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule(rule) => write!(f, "rule: {rule}"),
            Self::Policy(policy) => write!(f, "policy {policy}"),
            Self::Unclear(why) => write!(f, "the command can't be checked against the rules: {why}"),
            Self::Roots => f.write_str("outside the workspace"),
            Self::Decider(name) => f.write_str(name),
            Self::Before(title) => write!(f, "allowed with \"{title}\""),
            Self::Cancel => f.write_str("the turn was cancelled"),
        }
    }
}

/// What came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ruling {
    /// It was allowed.
    Allowed,
    /// It was refused.
    Refused,
    /// The question was answered with `cancelled`, because the turn was, or the agent withdrew it.
    Cancelled,
}

/// One decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Record {
    /// The session, by the agent's id.
    pub session: String,
    /// The method that asked.
    pub method: &'static str,
    /// What was asked, perhaps in the agent's own words, in one line that is safe to show.
    pub title: String,
    /// The tool call that it is about.
    pub call: Option<String>,
    /// What it was about, one line each, safe to show.
    pub facts: Vec<String>,
    /// The SHA-256 of the request as it came.
    #[serde(serialize_with = "as_text")]
    pub digest: Hash,
    /// What came out.
    pub ruling: Ruling,
    /// Who decided.
    pub by: By,
    /// The option that was picked.
    pub option: Option<String>,
    /// Something to know about it, in words.
    pub note: Option<String>,
    /// Why a rule that seems to allow it does not, in words.
    pub hint: Option<String>,
    /// The rules that would have allowed it; only for what nobody could be asked about.
    pub wanted: Vec<String>,
    /// Rules that were added because the answer was for always.
    pub learned: Vec<String>,
    /// Nobody could be asked, and the run should end for it.
    pub nobody: bool,
    /// When.
    #[serde(serialize_with = "as_seconds")]
    pub at: SystemTime,
}

fn as_text<S: serde::Serializer>(hash: &Hash, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(hash)
}

/// Seconds since 1970.
fn as_seconds<S: serde::Serializer>(time: &SystemTime, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64())
}
