//! What is said over ACP: one model, the wire codecs of the dialects, the method table, the transcript.
//!
//! The model has the shape of the newest v2. Reading takes the union of all dialects; writing is exact for one.
//!
//! ```
//! use tieline_schema::{ContentBlock, Dialect, from_json, to_json};
//!
//! let block: ContentBlock = from_json(r#"{"type":"text","text":"hi","annotations":7}"#)?;
//! assert_eq!(block.as_text(), Some("hi"));
//! assert_eq!(to_json(&block, Dialect::V1), r#"{"type":"text","text":"hi"}"#);
//! # Ok::<(), tieline_json::Error>(())
//! ```

mod auth;
mod base64;
mod capability;
mod client_terminal;
mod codec;
mod command;
mod config;
mod content;
mod dialect;
mod diff;
mod downgrade;
mod elicitation;
mod error_code;
mod fit;
mod fnv;
mod form;
mod fs;
mod hello;
mod ids;
mod item;
mod macros;
mod mcp;
mod message;
mod meta;
mod method;
mod modes;
mod negotiate;
mod patch;
mod permission;
mod plain;
mod plan;
mod project;
mod prompt;
mod report;
mod sent_messages;
mod serde_codec;
mod sessions;
mod setup;
mod state;
mod terminal;
mod tool;
mod transcript;
mod union;
mod update;

pub use auth::*;
pub use base64::{from_base64, to_base64};
pub use capability::*;
pub use client_terminal::*;
pub use codec::*;
pub use command::*;
pub use config::*;
pub use content::*;
pub use dialect::{Dialect, Dialects};
pub use diff::*;
pub use downgrade::META_STATUS;
pub use elicitation::*;
pub use error_code::*;
pub use fit::{PIECE, SHORT_LINE, cut_long, fit_call, pieces};
pub use form::*;
pub use fs::*;
pub use hello::*;
pub use ids::SessionId;
pub use item::*;
pub use mcp::*;
pub use message::*;
pub use method::*;
pub use modes::*;
pub use negotiate::*;
pub use permission::*;
pub use plain::plain_text;
pub use plan::*;
pub use project::{Gates, Projector};
pub use prompt::*;
pub use report::*;
pub use sent_messages::META_REPLACES;
#[cfg(feature = "serde")]
pub use serde_codec::as_dialect;
pub use sessions::*;
pub use setup::*;
pub use state::*;
pub use terminal::*;
pub use tieline_json::{Error, Raw};
pub use tool::*;
pub use transcript::{Info, Transcript, Usage};
pub use union::Unknown;
pub use update::*;
