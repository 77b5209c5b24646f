//! JSON-RPC 2.0 between equals: framing, messages, batches, cancellation, transports.
//!
//! Knows nothing of ACP: the decoder of parameters, the rule for ids and the order of batch entries come from above.
//!
//! ```text
//! bytes ─framing─▶ frame ─message─▶ message ─machine─▶ call ─▶ Service
//! bytes ◀─framing─ frame ◀─outbox── message ◀─machine─ reply ◀─ Responder
//! ```
//!
//! Both sides serve, and both can call; here only one does. [`Transport::stdio`], [`Transport::stream`] and [`Transport::messages`] lead
//! to other processes.
//!
//! ```
//! use std::sync::Arc;
//! use tieline_json::{Error, Reader};
//! use tieline_rpc::{Connection, Limits, Responder, Service, Transport};
//!
//! struct Adder;
//!
//! impl Service for Adder {
//!     type Call = i64;
//!
//!     fn decode(&self, method: &str, params: &mut Reader<'_>) -> Result<Option<i64>, Error> {
//!         if method != "sum" {
//!             return Ok(None);
//!         }
//!         let (mut numbers, mut sum) = (params.object()?, 0);
//!         while numbers.key(params)?.is_some() {
//!             sum += params.integer::<i64>()?;
//!         }
//!         Ok(Some(sum))
//!     }
//!
//!     fn request(&self, sum: i64, responder: Responder) {
//!         responder.reply_now(|out| out.extend_from_slice(sum.to_string().as_bytes()));
//!     }
//!
//!     fn notification(&self, _: i64, _: usize) {}
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let (one, other) = Transport::memory();
//! let (_, adder) = Connection::open(other, Limits::default());
//! tokio::spawn(adder.run(Arc::new(Adder)));
//! let (peer, connection) = Connection::open(one, Limits::default());
//! tokio::spawn(connection.run(Arc::new(Adder)));
//!
//! let params = |out: &mut Vec<u8>| out.extend_from_slice(br#"{"a":2,"b":3}"#);
//! let sum = peer.call("sum", params, |result| result.integer::<i64>()).await;
//! assert_eq!(sum.await?, 5);
//! # Ok::<(), Box<dyn std::error::Error>>(()) })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
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
mod parts;
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
