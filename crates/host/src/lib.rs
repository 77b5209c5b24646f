//! What touches the user's machine, for agent and client alike.

#[cfg(unix)]
pub mod config;
#[cfg(unix)]
pub mod files;
pub mod later;
#[cfg(unix)]
pub mod roots;
pub mod rules;
#[cfg(unix)]
pub mod run;
#[cfg(unix)]
pub mod sandbox;
pub mod secret;
#[cfg(unix)]
pub mod snapshot;
#[cfg(unix)]
pub mod store;
pub mod text;
pub mod unlogged;
#[cfg(unix)]
pub mod whole;
