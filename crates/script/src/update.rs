//! The `update` step: things that are no model output.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

/// What an agent is made to report.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Update {
    /// The session has a new title.
    Title(String),
    /// Something to show in passing.
    Notice {
        /// How bad it is.
        severity: Severity,
        /// One line.
        title: String,
    },
    /// These are the commands now.
    Commands(Vec<Offer>),
    /// Another mode is on: its id.
    Mode(String),
    /// How full the context is.
    Context {
        /// Tokens in the context.
        used: u64,
        /// Tokens that fit.
        size: u64,
    },
    /// The whole plan as it is now.
    Plan(Vec<PlanEntry>),
    /// A compaction of the context began, went on or ended.
    Compaction(Compaction),
    /// The turn ends with this stop reason, whatever it is.
    Stop(String),
    /// The prompt is answered with this JSON-RPC error.
    Fail {
        /// The error code.
        code: i64,
        /// One sentence.
        message: String,
    },
    /// Any update as it is on the wire.
    Raw(serde_json::Value),
    /// Work starts by itself later, with this as what the model is told.
    Later {
        /// Milliseconds from now.
        after_ms: u64,
        /// What the model is told then.
        prompt: String,
    },
}

/// What can be reported, as it stands in a file.
const KINDS: &str =
    "`title`, `notice`, `commands`, `mode`, `context`, `plan`, `compaction`, `stop`, `fail`, `raw` or `later`";

/// Reads what is reported: exactly one thing.
pub(crate) fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Update>, D::Error> {
    let wrong = |why: &str| D::Error::custom(format!("`update` reports one of {KINDS}, but {why}"));
    let value = toml::Value::deserialize(from)?;
    let keys: Vec<&str> = value.as_table().into_iter().flat_map(toml::Table::keys).map(String::as_str).collect();
    match keys[..] {
        [] => return Err(wrong("this one nothing")),
        [_] => {}
        _ => return Err(wrong(&format!("this one has `{}`", keys.join("`, `")))),
    }
    Update::deserialize(value).map(Some).map_err(|error| wrong(error.to_string().trim_end()))
}

/// How bad something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the words as they stand in a file")]
pub enum Severity {
    Info,
    Warning,
    Error,
}

/// A command that a client can offer.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Offer {
    /// Behind the slash.
    pub name: String,
    /// What it does.
    pub description: String,
}

/// One entry of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PlanEntry {
    /// What is to be done.
    pub content: String,
    /// How far it is.
    #[serde(default)]
    pub status: Status,
    /// How much it matters.
    #[serde(default)]
    pub priority: Priority,
}

/// How far an entry of a plan is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the words as they stand in a file")]
pub enum Status {
    #[default]
    Pending,
    InProgress,
    Completed,
}

/// How much an entry of a plan matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the words as they stand in a file")]
pub enum Priority {
    Low,
    #[default]
    Medium,
    High,
}

/// A compaction of the context.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Compaction {
    /// Which one.
    pub id: String,
    /// How far it is.
    pub status: CompactionStatus,
    /// The whole summary.
    pub summary: Option<String>,
    /// What failed.
    pub error: Option<String>,
}

/// How far a compaction is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the words as they stand in a file")]
pub enum CompactionStatus {
    InProgress,
    Completed,
    Failed,
    Cancelled,
}
