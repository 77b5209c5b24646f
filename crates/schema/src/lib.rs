//! What is said over ACP: one model, the wire codecs of the dialects, the method table, the transcript.
//!
//! There is a module for each topic; all names are also here. The model has the shape of the newest v2. Reading takes the union of all dialects; writing is exact for one.
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
pub use auth::*;
pub use base64::{from_base64, to_base64};
#[doc(no_inline)]
pub use capability::*;
#[doc(no_inline)]
pub use client_terminal::*;
pub use codec::*;
#[doc(no_inline)]
pub use command::*;
#[doc(no_inline)]
pub use config::*;
#[doc(no_inline)]
pub use content::*;
pub use dialect::{Dialect, Dialects};
#[doc(no_inline)]
pub use diff::*;
pub use downgrade::META_STATUS;
#[doc(no_inline)]
pub use elicitation::*;
#[doc(no_inline)]
pub use error_code::*;
pub use fit::{PIECE, SHORT_LINE, cut_long, fit_call, pieces};
#[doc(no_inline)]
pub use form::*;
#[doc(no_inline)]
pub use fs::*;
#[doc(no_inline)]
pub use hello::*;
pub use ids::SessionId;
#[doc(no_inline)]
pub use item::*;
#[doc(no_inline)]
pub use mcp::*;
#[doc(no_inline)]
pub use message::*;
#[doc(no_inline)]
pub use method::*;
#[doc(no_inline)]
pub use modes::*;
#[doc(no_inline)]
pub use negotiate::*;
#[doc(no_inline)]
pub use permission::*;
pub use plain::plain_text;
#[doc(no_inline)]
pub use plan::*;
pub use project::{Gates, Projector};
#[doc(no_inline)]
pub use prompt::*;
#[doc(no_inline)]
pub use report::*;
pub use sent_messages::META_REPLACES;
#[cfg(feature = "serde")]
pub use serde_codec::as_dialect;
#[doc(no_inline)]
pub use sessions::*;
#[doc(no_inline)]
pub use setup::*;
#[doc(no_inline)]
pub use state::*;
#[doc(no_inline)]
pub use terminal::*;
pub use tieline_json::{Error, Raw};
#[doc(no_inline)]
pub use tool::*;
pub use transcript::{Info, Transcript, Usage};
pub use union::Unknown;
#[doc(no_inline)]
pub use update::*;
