//! Holds agents, clients and recordings of the Agent Client Protocol against its rules.
//!
//! There are three kinds of checks, all in one table ([`table`]): laws, which are true of any recording ([`Judge`]); probes, which send
//! one thing and look at what comes back; scenarios, which play a part.

pub mod agent;
mod baseline;
pub mod client;
mod laws;
mod peer;
mod probes;
mod report;
mod shapes;
mod sheet;
mod state;
pub mod table;
pub mod trace;
mod witness;

pub use baseline::Baseline;
pub use laws::{Breach, Judge};
pub use peer::{Edit, Prompts, Settings};
pub use report::{Report, matrix, page};
pub use sheet::{Finding, Line, Log, Sheet, Verdict};
