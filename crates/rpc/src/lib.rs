//! JSON-RPC 2.0 between equals: framing, messages, batches, cancellation, transports.
//!
//! Knows nothing of ACP: the decoder of parameters, the rule for ids and the order of batch entries come from above.
//!
//! ```text
//! bytes ─framing─▶ frame ─message─▶ message ─machine─▶ call ─▶ Service
//! bytes ◀─framing─ frame ◀─outbox── message ◀─machine─ reply ◀─ Responder
//! ```

#![warn(missing_debug_implementations)]

mod cancel;
mod connection;
mod dispatcher;
mod error;
pub mod framing;
mod id;
pub mod machine;
pub mod message;
mod messages;
mod outbox;
mod peer;
mod responder;
mod service;
#[cfg(feature = "stdio")]
mod stdio;
pub mod sync;
mod transport;

pub use cancel::Cancel;
pub use connection::{CANCEL_METHOD, Connection, End, Limits};
pub use error::{CallError, Error};
pub use id::{Id, IdRule};
pub use messages::{ReadMessages, WriteMessages};
pub use outbox::Closed;
pub use peer::{Batch, Peer, Pending};
pub use responder::Responder;
pub use service::{Dropped, Service};
#[cfg(feature = "stdio")]
pub use stdio::{ByteInput, ByteOutput, streams as stdio_streams};
pub use transport::{
    DEFAULT_LIMIT, Direction, Event, FrameReader, FrameWriter, Relay, Side, Tap, Transport, join, relay,
};

/// What these hold says nothing to people.
macro_rules! opaque {
    ($($name:ident)*) => {$(
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        }
    )*};
}

opaque! { Batch Connection FrameReader FrameWriter Relay Responder }

impl<T> std::fmt::Debug for Pending<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pending").finish_non_exhaustive()
    }
}
