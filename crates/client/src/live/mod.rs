//! A live session: what its agent and everybody who looks at it share. A run stands on it; a screen or a server can, too.

mod conversation;

pub use conversation::{Conversation, allowed_by, never_ran, paths_of};
pub(crate) use conversation::{is_command, refused_by};
