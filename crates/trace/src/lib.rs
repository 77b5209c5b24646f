//! Recordings of what a client and an agent say to each other: written, read, looked at, played.
//!
//! A recording is a text file. Its first line is a header, every other line one event:
//!
//! ```json
//! {"tieline-trace":1,"started":1763344800000000,"kept":"exact","command":["my-agent","--acp"]}
//! {"at":412,"from":"client","raw":"{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",…}\n"}
//! {"at":2210,"from":"stderr","raw":"starting\n"}
//! {"at":2544,"from":"agent","raw":"{\"jsonrpc\":\"2.0\",\"id\":0,","more":true}
//! {"at":2561,"from":"agent","raw":"\"result\":{…}}\n"}
//! {"at":9120,"from":"client","raw":"","end":true}
//! {"at":9900,"from":"exit","raw":"exited with status 0","code":0}
//! ```
//!
//! | key | means |
//! |---|---|
//! | `at` | microseconds since the start |
//! | `from` | `client`, `agent`, `stderr` (the agent's standard error), `exit` (the end of the agent) |
//! | `raw` | the bytes as they were passed on, with line ends and `Content-Length` headers |
//! | `base64` | the same bytes where they are no UTF-8; `raw` then only resembles them |
//! | `more` | the frame goes on in the next event of the same side |
//! | `end` | the side has closed its end |
//! | `dropped` | so many bytes are left out of `raw`: they could not be redacted |
//! | `code`, `signal` | how the agent ended |
//!
//! The `raw` of one side, one after the other, is exactly the stream that was passed on, if the header says `"kept":"exact"`.

mod filter;
mod foreign;
mod likeness;
mod page;
mod pieces;
mod read;
#[cfg(unix)]
mod record;
mod replay;
mod story;
mod write;

pub use filter::{Kept, parse, redact};
pub use page::Page;
pub use read::{Frame, Frames, Header};
#[cfg(unix)]
pub use record::record;
pub use replay::{Extra, Options, Player};
pub use story::{Kind, Row, Span, Story, bytes, time};
pub use write::Writer;

use serde::{Deserialize, Serialize};
use std::fmt;

/// Who an event comes from. Shown as it is named in a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The client.
    #[default]
    Client,
    /// The agent.
    Agent,
    /// The agent's standard error.
    Stderr,
    /// The end of the agent's process.
    Exit,
}

impl Side {
    /// What comes from here are messages.
    pub fn talks(self) -> bool {
        matches!(self, Self::Client | Self::Agent)
    }

    /// Who talks to this side.
    #[must_use]
    pub fn other(self) -> Self {
        if self == Self::Client { Self::Agent } else { Self::Client }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// One line of a recording, with the keys of the table above.
#[derive(Debug, Default, Deserialize)]
struct Event {
    at: u64,
    from: Side,
    raw: String,
    base64: Option<String>,
    more: Option<bool>,
    end: Option<bool>,
    dropped: Option<u64>,
}
