//! The built-in coding agent: turn loop, models, tools.

pub mod agent;
mod commands;
mod history;
pub mod model;
mod permission;
mod prompt;
mod report;
mod session;
mod staged;
pub mod tools;
mod turn;
mod workspace;

pub use agent::{Coder, Keep, Settings};
pub use permission::mode_named;
