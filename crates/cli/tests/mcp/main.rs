//! MCP servers behind the real agent: real servers over every transport, and servers that behave badly.

#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;
mod configured;
mod hostile;
#[path = "../common/server.rs"]
mod model;
mod notices;
mod real;
mod rules;
mod servers;
