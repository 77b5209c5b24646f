//! What is said over ACP: one model, the wire codecs of the dialects, the method table, the transcript.
//!
//! There is a module for each topic; all names are also here. The model has the shape of the newest v2. Reading takes the union of all dialects; writing is exact for one.
//!
//! Records get new fields as the protocol grows, in any version of this crate. So a literal ends with `..T::default()`, and a pattern with `..`:
//!
//! ```
//! use tieline_schema::{PlanEntry, PlanStatus};
//!
//! let status = PlanStatus::InProgress;
//! let entry = PlanEntry { content: "Look".into(), status, ..PlanEntry::default() };
//! let PlanEntry { content, .. } = entry;
//! assert_eq!(content, "Look");
//! ```
//!
//! ```
//! use tieline_schema::{ContentBlock, Dialect, from_json, to_json};
//!
//! let block: ContentBlock = from_json(r#"{"type":"text","text":"hi","annotations":7}"#)?;
//! assert_eq!(block.as_text(), Some("hi"));
//! assert_eq!(to_json(&block, Dialect::V1), r#"{"type":"text","text":"hi"}"#);
//! # Ok::<(), tieline_json::Error>(())
//! ```

#![warn(missing_debug_implementations)]

pub mod auth;
mod base64;
pub mod capability;
pub mod client_terminal;
mod codec;
pub mod command;
pub mod config;
pub mod content;
mod dialect;
pub mod diff;
mod downgrade;
pub mod elicitation;
pub mod error_code;
mod fit;
mod fnv;
pub mod form;
pub mod fs;
pub mod hello;
mod ids;
pub mod item;
mod macros;
pub mod mcp;
pub mod message;
mod meta;
pub mod method;
pub mod modes;
pub mod negotiate;
mod patch;
pub mod permission;
mod plain;
pub mod plan;
mod project;
pub mod prompt;
pub mod report;
mod sent_messages;
mod serde_codec;
pub mod sessions;
pub mod setup;
pub mod state;
pub mod terminal;
pub mod tool;
mod transcript;
mod union;
pub mod update;

#[doc(no_inline)]
pub use self::{
    auth::*, capability::*, client_terminal::*, command::*, config::*, content::*, diff::*, elicitation::*,
    error_code::*, form::*, fs::*, hello::*, item::*, mcp::*, message::*, method::*, modes::*, negotiate::*,
    permission::*, plan::*, prompt::*, report::*, sessions::*, setup::*, state::*, terminal::*, tool::*, update::*,
};
pub use base64::{from_base64, to_base64};
pub use codec::*;
pub use dialect::{Dialect, Dialects};
pub use downgrade::META_STATUS;
pub use fit::{PART_BYTES, PIECE, SHORT_LINE, cut_long, fit_call, parts_bytes, parts_of, pieces};
pub use ids::SessionId;
pub use plain::plain_text;
pub use project::{Gates, Projector};
pub use sent_messages::META_REPLACES;
#[cfg(feature = "serde")]
pub use serde_codec::as_dialect;
pub use tieline_json::{Error, Raw};
pub use transcript::{Info, Transcript, Usage};
pub use union::Unknown;
