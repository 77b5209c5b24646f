//! Live sessions for many clients of the Agent Client Protocol.
//!
//! A session belongs to the [`Hub`], not to a connection. A client that goes away cancels nothing; whoever comes is told what was
//! said before, and then hears what everybody else hears. A question goes to all who may answer; the first answer counts, and
//! it is withdrawn from the others.
//!
//! The hub knows no sockets: it serves transports, wherever they come from ([`Hub::serve`]). [`serve`] puts it behind HTTP and WebSocket,
//! with a [`Door`] that asks for tokens and has the web page for people.

mod attachment;
mod extras;
mod front;
mod gate;
mod hub;
mod log;
mod nodes;
mod question;
mod room;
mod server;
mod site;
mod tokens;
mod watch;

pub use gate::Door;
pub use hub::{Hub, Launched, Launcher, Role, Settings, Visitor, Wanted};
pub use server::serve;
pub use tieline_http::server::{Listener, Rules, Secure};
pub use tokens::{Codes, Token, TokenError, Tokens};
pub use watch::Watch;
