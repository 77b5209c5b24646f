//! Writing a client: start or reach an agent, open sessions, prompt, and read what comes back.
//!
//! ```no_run
//! # async fn example() -> tieline::Result<()> {
//! let agent = tieline::client::spawn(["my-agent", "--acp"]).await?;
//! let session = agent.open("/home/me/project").await?;
//! let mut turn = session.prompt("Why does the build fail?").await?;
//! while let Some(update) = turn.next().await {
//!     println!("{update:?}");
//! }
//! println!("{:?}", turn.stop()?);
//! # Ok(())
//! # }
//! ```

mod budget;
mod builder;
mod dispatcher;
mod handle;
mod handler;
mod long_chunk;
mod open_calls;
mod session;
mod turn;
mod turn_state;
pub(crate) mod update_queue;

#[cfg(feature = "process")]
pub use builder::spawn;
#[cfg(all(feature = "process", feature = "stdio"))]
pub(crate) use builder::spec;
pub use builder::{Client, connect};
pub use handle::AgentHandle;
pub use handler::{Handler, Refuse, refuse};
pub use session::{Prompt, Session};
pub use turn::Turn;
