//! What a scripted model does: one step type, one file format, one directive language.
//!
//! The scripted models of the coding agent play it inside, the model server plays it over the wires of the providers.
//! `docs/scenarios.md` describes the language. Nothing here does any I/O.

mod call;
mod directive;
mod error;
mod fault;
mod file;
mod fill;
mod script;
mod step;
mod update;

pub use call::{Call, Wish};
pub use directive::{DIRECTIVES, MARK, directed, marked};
pub use error::ScriptError;
pub use fault::{Fault, Late, Planned};
pub use fill::{Facts, fits};
pub use script::{Answer, Marks, Script, Turn, When};
pub use step::{Finish, Flood, Say, Step, Usage};
pub use update::{Compaction, CompactionStatus, Offer, PlanEntry, Priority, Severity, Status, Update};
