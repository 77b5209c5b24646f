//! Client services on a real machine: what an agent may ask of its client, answered with files, terminals and a person.
//!
//! ```no_run
//! use std::sync::Arc;
//! use tieline::client::Client;
//! use tieline_client::{permission::Headless, services::Services};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let services = Services::builder("/home/me/project", ["/home/me/notes"])?
//!     .decider(Arc::new(Headless::default()))
//!     .build();
//! let offered = services.clone();
//! let agent = Client::new("mine", "1.0.0")
//!     .offer(|can| offered.offer(can))
//!     .handler(services.clone())
//!     .spawn(["my-agent", "--acp"])
//!     .await?;
//! # Ok(()) }
//! ```
//!
//! Terminals need `tieline::process::init()` first thing in `main`. The crate is for Linux, like the commands below it.

pub mod agents;
pub mod answer;
pub mod doctor;
pub mod elicit;
pub mod export;
pub mod files;
pub mod journal;
pub mod live;
pub mod login;
pub mod permission;
pub mod run;
pub mod sanitize;
pub mod services;
pub mod terminal;
pub mod undo;

pub use tieline_host::config;

use std::pin::Pin;

/// What the traits here give, so that they can be trait objects.
pub type Future<'a, T> = Pin<Box<dyn std::future::Future<Output = T> + Send + 'a>>;
