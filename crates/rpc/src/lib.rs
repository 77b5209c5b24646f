//! JSON-RPC 2.0 between equals: framing, messages, batches, cancellation, transports, child processes.
//!
//! Knows nothing of ACP: the decoder of parameters, the rule for ids and the order of batch entries come from above.
//!
//! ```text
//! bytes ─framing─▶ frame ─message─▶ message ─machine─▶ call ─▶ Service
//! bytes ◀─framing─ frame ◀─outbox── message ◀─machine─ reply ◀─ Responder
//! ```

mod cancel;
mod child;
mod connection;
mod error;
mod exit;
pub mod framing;
pub mod guardian;
mod id;
pub mod machine;
pub mod message;
mod outbox;
mod peer;
mod spec;
mod stderr;
mod stdio;
pub mod sync;
mod transport;
#[cfg_attr(not(unix), path = "tree_other.rs")]
mod tree;

pub use cancel::Cancel;
pub use child::{ChildProcess, ExitWatch};
pub use connection::{CANCEL_METHOD, Connection, End, Limits, Responder, Service};
pub use error::{CallError, Error};
pub use exit::{ExitReason, Status};
pub use id::{Id, IdRule};
pub use outbox::Closed;
pub use peer::{Batch, Peer, Pending};
pub use spec::{Guard, Ladder, Spec};
pub use transport::{DEFAULT_LIMIT, Direction, Event, FrameReader, FrameWriter, Tap, Transport, join};
#[cfg(target_os = "linux")]
pub use tree::Tree;
