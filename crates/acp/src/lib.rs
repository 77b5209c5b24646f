//! The Agent Client Protocol: write an agent or a client once, speak v1 and both drafts of v2.
//!
//! ```toml
//! [dependencies]
//! tieline = "0.1"
//! tokio = { version = "1", features = ["rt", "macros"] }
//! ```
//!
//! The [`guide`] goes through all of it, chapter by chapter.
//!
//! | feature | is there by default | what it adds |
//! |---|---|---|
//! | `stdio` | yes | agents and proxies over standard input and output |
//! | `process` | yes | agents that a client or a proxy starts itself |
//! | `signal` | yes | SIGTERM and SIGINT lead [`agent::serve_stdio`] to an orderly end |
//! | `serde` | | `Serialize` and `Deserialize` for everything in [`schema`], to be kept in structs of your own |
//! | `anyhow` | | `?` on errors of anyhow, in handlers |
//! | `supervisor` | | an agent that was started ends with us also when we are killed (Linux) |
//!
//! # An agent
//!
//! ```no_run
//! use tieline::{Result, StopReason, agent};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<()> {
//! agent::serve_stdio(agent::from_fn("echo", |turn, prompt| async move {
//!     for block in prompt {
//!         turn.say(block).await?;
//!     }
//!     Ok(StopReason::EndTurn)
//! }))
//! .await
//! # }
//! ```
//!
//! # An agent with a tool that asks first
//!
//! ```
//! use tieline::agent::{About, Agent, Opened, Opening, Session, Turn};
//! use tieline::{ContentBlock, Result, StopReason, ToolKind};
//!
//! struct Careful;
//! struct Conversation;
//!
//! impl Agent for Careful {
//!     type Session = Conversation;
//!
//!     fn about(&self) -> About {
//!         // The engine keeps the sessions: list, load, resume, close and delete work.
//!         About::new("careful", "1.0.0").remember()
//!     }
//!
//!     async fn open(&self, _: Opening) -> Result<Opened<Conversation>> {
//!         Ok(Opened::new(Conversation))
//!     }
//! }
//!
//! impl Session for Conversation {
//!     async fn prompt(&self, turn: Turn, _: Vec<ContentBlock>) -> Result<StopReason> {
//!         let tool = turn.tool("Tidy up").kind(ToolKind::Edit).at("/tmp/notes", None);
//!         let tool = tool.start().await?;
//!         if tool.ask(Vec::new()).await?.is_allowed() {
//!             tool.running().await?;
//!             tool.complete().await?;
//!         } else {
//!             tool.fail("The user said no.").await?;
//!         }
//!         Ok(StopReason::EndTurn)
//!     }
//! }
//! ```
//!
//! # A client
//!
//! ```no_run
//! # async fn example() -> tieline::Result<()> {
//! let agent = tieline::client::spawn(["my-agent", "--acp"]).await?;
//! let session = agent.open("/home/me/project").await?;
//! let mut turn = session.prompt("Why does the build fail?").await?;
//! while let Some(update) = turn.next().await {
//!     println!("{update:?}");
//! }
//! println!("{}", turn.stop()?);
//! # Ok(())
//! # }
//! ```
//!
//! # A test that joins the two in memory
//!
//! ```
//! use tieline::{StopReason, Transport, agent, client};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> tieline::Result<()> {
//! let (near, far) = Transport::memory();
//! tokio::spawn(agent::serve(
//!     agent::from_fn("greeter", |turn, _| async move {
//!         turn.say("Hello!").await?;
//!         Ok(StopReason::EndTurn)
//!     }),
//!     far,
//! ));
//! let agent = client::connect(near).await?;
//! let session = agent.open("/").await?;
//! let (said, why) = session.prompt("Hi").await?.text().await?;
//! assert_eq!((said.as_str(), why), ("Hello!", StopReason::EndTurn));
//! # Ok(())
//! # }
//! ```

#![warn(missing_debug_implementations)]

#[macro_use]
mod macros;

pub mod agent;
pub mod bridge;
pub mod client;
pub mod error;
pub mod guide;
mod mailbox;
pub mod meta;
mod options;
pub mod proxy;
mod request;
mod wire;
mod work;

pub use error::{Error, Result, WireError};
pub use tieline_json as json;
#[cfg(feature = "process")]
pub use tieline_process as process;
pub use tieline_rpc as rpc;
pub use tieline_rpc::{Cancel, Transport};
pub use tieline_schema as schema;
pub use tieline_schema::{
    AgentCapabilities, AuthMethod, ClientCapabilities, Command, ConfigOption, ConfigValue, ContentBlock, Cost, Dialect,
    Diff, Implementation, Item, Location, McpServer, MessageKind, Meta, Patch, PermissionOption, PermissionOptionKind,
    PermissionOutcome, PermissionRequest, PlanEntry, PlanPriority, PlanStatus, Protocol, Raw, SessionId, Severity,
    StopReason, ToolCallContent, ToolCallStatus, ToolCallUpdate, ToolKind, Transcript, Update,
};
