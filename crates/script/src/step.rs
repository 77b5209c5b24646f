//! The steps of an answer.

use crate::call::Call;
use crate::update::Update;
use serde::Deserialize;
use std::time::Duration;

/// More than this in one text or piece is a slip of the pen, in bytes.
pub(crate) const MAX_BYTES: usize = 64 << 20;
/// More pieces than this as well.
pub(crate) const MAX_PIECES: u64 = 10_000_000;

/// One thing that a model does.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Says or thinks something.
    Say(Say),
    /// Thinks something that nobody can read.
    Redacted(String),
    /// Wants to use a tool.
    Call(Call),
    /// Tells how much was used.
    Usage(Usage),
    /// Waits.
    Pause(Duration),
    /// Says very much.
    Flood(Flood),
    /// Makes the agent report something.
    Update(Update),
    /// Waits until nobody wants the answer any more.
    Stall,
    /// Ends without being complete.
    Cut,
    /// Fails: the conversation does not fit.
    Overflow,
    /// Fails.
    Error(String),
    /// Fails: the user has to log in.
    Login(String),
    /// Is complete.
    Finish(Finish),
}

impl Step {
    /// Says a text as it stands.
    pub fn say(text: impl Into<String>) -> Self {
        Self::Say(Say { text: text.into(), times: 1, ..Say::default() })
    }

    /// True if nothing can come after it.
    pub fn is_last(&self) -> bool {
        matches!(self, Self::Finish(_) | Self::Update(Update::Stop(_) | Update::Fail { .. })) || self.fails()
    }

    /// True if the answer is never complete.
    pub fn fails(&self) -> bool {
        matches!(self, Self::Stall | Self::Cut | Self::Overflow | Self::Error(_) | Self::Login(_))
    }
}

/// Something that is said or thought.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Say {
    /// What.
    pub text: String,
    /// It is a thought.
    pub thought: bool,
    /// How many characters come at once; 0 means all.
    pub chunk: usize,
    /// How often the text is said.
    pub times: u64,
    /// Waits so long before each piece.
    pub pause: Duration,
    /// Fill in placeholders.
    pub fill: bool,
}

/// Numbered pieces of the same size.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flood {
    /// How many.
    pub pieces: u64,
    /// How many bytes each.
    pub size: usize,
}

impl Flood {
    pub(crate) fn check(self) -> Result<Self, String> {
        if self.pieces > MAX_PIECES || self.size > MAX_BYTES {
            return Err(format!("`flood` can have {MAX_PIECES} `pieces` of `size` {MAX_BYTES} at most"));
        }
        Ok(self)
    }
}

/// How many tokens an answer took, and what it cost.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Usage {
    /// Tokens of the request, all of them.
    pub input: u64,
    /// Tokens of the answer, thoughts included.
    #[serde(default)]
    pub output: u64,
    /// How many of the input came from a cache.
    #[serde(default)]
    pub cached: u64,
    /// How many of the output were thoughts.
    #[serde(default)]
    pub reasoning: u64,
    /// US dollars.
    pub cost: Option<f64>,
}

impl Default for Usage {
    fn default() -> Self {
        Self { input: 120, output: 24, cached: 0, reasoning: 0, cost: None }
    }
}

/// Why an answer is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// It said all it wanted, or wants its calls carried out.
    #[default]
    Done,
    /// The limit of tokens is reached.
    MaxTokens,
    /// The model refuses. `OpenAI` formats carry the text as a refusal.
    Refusal,
    /// A filter of the provider took the rest away.
    Filter,
}
