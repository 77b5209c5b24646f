//! A JSON cursor that can rewind, and an escaper that writes straight into a buffer.
//!
//! ACP needs three things from JSON that a general library does not give at once: read a message in one pass when its
//! shape is known, fall back to "this field is malformed, take its default" without buffering every field first, and keep
//! unknown parts byte for byte. All three become simple when the reader is a cursor over text that can go back.
//!
//! ```
//! use tieline_json::Reader;
//!
//! let mut json = Reader::new(r#"{"line": 7, "note": "a\tb"}"#);
//! let mut object = json.object()?;
//! assert_eq!(object.key(&mut json)?.as_deref(), Some("line"));
//! assert_eq!(json.integer::<u32>()?, 7);
//! assert_eq!(object.key(&mut json)?.as_deref(), Some("note"));
//! assert_eq!(json.string()?, "a\tb");
//! assert_eq!(object.key(&mut json)?, None);
//! json.end()?;
//! # Ok::<(), tieline_json::Error>(())
//! ```

#![warn(missing_debug_implementations)]

mod error;
mod raw;
mod reader;
mod serde_raw;
mod terminal;
mod text;
mod write;

pub use error::Error;
pub use raw::{Raw, whole_pairs};
pub use reader::{Kind, MAX_DEPTH, MAX_ENTRIES, Mark, Names, Reader, Sequence, Watch};
pub use serde_raw::Portable;
pub use terminal::{Seen, Sequences, push_line};
pub use text::{cut, cut_line};
pub use write::{char_floor, write_f64, write_i64, write_raw, write_str, write_u64};
