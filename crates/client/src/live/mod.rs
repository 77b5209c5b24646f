//! Live sessions: one agent process that can be started again ([`Link`]), sessions on it ([`Session`]), turns in them.
//!
//! Each session has one transcript ([`Conversation`]), its questions, its queue of prompts and its [`State`] in one place, and
//! tells what happens as owned [`Event`]s in a bounded channel. The journal, the undo, the limits and the permission engine are
//! attached here. A run stands on it; so can a screen or a server.

mod conversation;
mod events;
mod failure;
mod frames;
mod hooks;
mod journal_writer;
mod limits;
mod link;
mod notes;
mod now;
mod open;
mod opener;
mod phase;
mod prompt;
mod said;
mod session;
mod turn;

pub use conversation::{Conversation, Item, allowed_by, never_ran, paths_of};
pub(crate) use conversation::{is_command, refused_by};
pub use events::{Event, Events, Gone, When};
pub use failure::{AgentFacts, Changed, Ending, Failure, Permissions, SessionFacts};
pub use frames::Frames;
pub(crate) use frames::{NO_MESSAGE, PASSED_OVER};
pub use limits::{Budget, Reached};
pub use link::{Link, OnLine, Parts, Setup, find};
pub(crate) use notes::Note;
pub use notes::{Asked, Desk, Notes, Reply, What};
pub use now::Now;
pub(crate) use open::LOG_IN_FIRST;
pub use opener::Opener;
pub use phase::Phase;
pub use prompt::{Part, read};
pub use said::{News, Said};
pub use session::{OnLost, Opening, Queued, Session, State};
