//! The built-in coding agent: turn loop, models, tools.

pub mod agent;
mod busy;
mod commands;
mod compaction;
mod editor_files;
mod editor_prompts;
mod history;
pub use tieline_web as http;
mod jobs;
pub mod mcp;
pub mod model;
mod notice;
mod permission;
mod prompt;
mod report;
mod script_reports;
mod session;
pub mod text;
mod tools;
mod turn;
mod workspace;

pub use agent::{Coder, Keep, Settings};
pub use permission::Configure as ConfigurePermissions;
