//! Streamable HTTP and WebSocket for the Agent Client Protocol: both sides, as [`Transport`](tieline_rpc::Transport)s.
//!
//! ```text
//! client                                              server
//! Remote::connect ─▶ Transport ══ ws(s):// ════════▶ Server::listen ─▶ Arrival { transport }
//!                              ══ http(s):// ══════▶   POST in, event streams out
//! ```
//!
//! The server knows nothing of sessions beyond their names: which stream a message belongs to. What it is given by others is read
//! liberally, what it sends is exact, and [`Rules::strict`](server::Rules) refuses what the draft of the transport refuses.
//!
//! ```no_run
//! use tieline_http::server::{Listener, Rules, Tokens};
//! use tieline_http::{Remote, Server};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let (arrivals, mut clients) = tokio::sync::mpsc::channel(16);
//! let server = Server::new(Rules::default(), Tokens::default().with("me", "a long random token"), arrivals);
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:9000").await?;
//! tokio::spawn(async move { server.listen(Listener::Tcp(listener)).await });
//! tokio::spawn(async move {
//!     while let Some(client) = clients.recv().await {
//!         drop(client.transport); // `tieline::agent::serve(agent, client.transport)`
//!     }
//! });
//!
//! let remote = Remote::new("ws://127.0.0.1:9000")?.header("Authorization", "Bearer a long random token")?;
//! let transport = remote.connect().await?; // `tieline::client::connect(transport)`
//! # drop(transport);
//! # Ok(())
//! # }
//! ```

#![warn(missing_debug_implementations)]

pub mod client;
mod look;
pub mod server;
mod socket;

pub use client::Remote;
pub use server::{Arrival, Server};

use http::HeaderName;
use std::time::Duration;

/// Names the connection.
pub const CONNECTION: HeaderName = HeaderName::from_static("acp-connection-id");
/// Names the session that a message or a stream belongs to.
pub const SESSION: HeaderName = HeaderName::from_static("acp-session-id");
/// The last event that came whole.
pub const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");
/// The one subprotocol of a `WebSocket`.
pub const SUBPROTOCOL: &str = "acp.v1";
/// The path of the protocol, if nobody says otherwise.
pub const PATH: &str = "/acp";

/// How often something is sent when there is nothing to say, on a WebSocket.
const PING_EVERY: Duration = Duration::from_secs(20);
/// A socket that was silent for so long is dead: three pings had no answer.
const SILENCE: Duration = Duration::from_mins(1);

/// Random bytes as text, for names that nobody can guess.
fn random_name<const BYTES: usize>() -> String {
    use ring::rand::SecureRandom as _;
    let mut bytes = [0; BYTES];
    // The system's source does not fail once it is set up; a name that can be guessed would be worse than none.
    if ring::rand::SystemRandom::new().fill(&mut bytes).is_err() {
        tracing::error!("the system gives no random bytes");
        std::process::abort();
    }
    bytes.iter().fold(String::new(), |name, byte| format!("{name}{byte:02x}"))
}
