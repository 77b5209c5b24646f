//! What can go wrong with an answer.

use serde_json::Value;
use std::time::Duration;

/// Something that goes wrong. `after` counts pieces of content, so that it means the same in each format.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Fault {
    /// The bytes come in odd splits: inside characters, inside lines, inside line ends.
    Split,
    /// The connection is closed in the middle of a line, after so many pieces of content.
    Cut {
        /// How many whole pieces come before.
        after: usize,
    },
    /// Nothing comes for a while.
    Stall {
        /// How many pieces come before.
        after: usize,
        /// How long; `None` is until the client goes away (an hour at most).
        time: Option<Duration>,
    },
    /// Nothing at all comes for a while, not even the head of the answer.
    Slow(Duration),
    /// The request is answered with an error in the vendor's shape.
    Status {
        /// The HTTP status: 400, 401, 403, 404 (unknown model), 413, 429, 500, 503, 529 …
        code: u16,
        /// Seconds, for the `Retry-After` header.
        retry_after: Option<u64>,
    },
    /// The conversation does not fit, told in the vendor's shape.
    Overflow,
    /// The same, told in the middle of a stream.
    OverflowLater {
        /// How many pieces come before.
        after: usize,
    },
    /// The stream starts well and then carries the vendor's error for this status.
    StreamError {
        /// How many pieces come before.
        after: usize,
        /// The HTTP status that the error stands for: 500, 529 …
        code: u16,
    },
    /// One event of the stream is not JSON; the rest follows.
    Malformed {
        /// How many pieces come before.
        after: usize,
    },
    /// The stream ends in good order, but without its closing events.
    Unfinished,
    /// The answer is complete, with the reason for its end, and then something goes wrong.
    Late(Late),
    /// Every count of tokens is this value instead.
    Figures(Value),
    /// Comments (and Anthropic's pings) between the events.
    KeepAlive,
}

/// What goes wrong behind the end of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Late {
    /// The connection is closed in the middle of a line.
    Cut,
    /// The connection stays open, and nothing comes.
    Stall,
    /// The vendor's error for status 500.
    Error,
    /// An event that is not JSON.
    Malformed,
}

/// A fault and when it happens.
#[derive(Debug, Clone, PartialEq)]
pub struct Planned {
    /// What goes wrong.
    pub fault: Fault,
    /// Only at so many first attempts; `None` is always.
    pub first: Option<u32>,
}

impl Planned {
    /// Whether it happens at this attempt, counted from 0.
    pub fn happens(&self, attempt: u32) -> bool {
        self.first.is_none_or(|first| attempt < first)
    }
}
