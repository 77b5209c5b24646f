//! The built-in coding agent: turn loop, models, tools.

pub mod agent;
mod commands;
mod config;
mod history;
pub mod http;
pub mod mcp;
pub mod model;
mod permission;
mod prompt;
mod report;
mod retention;
mod session;
mod staged;
pub mod tools;
mod turn;
mod workspace;

pub use agent::{Coder, Keep, Settings, config_folder};
pub use permission::mode_named;
pub use retention::KeepFor;
