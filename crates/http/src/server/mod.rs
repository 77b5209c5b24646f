//! The server's side: it listens, lets in whom it is told to, and hands out one [`Transport`] for each client connection.

pub(crate) mod coming;
mod connection;
mod events;
mod listen;
mod request;
mod shares;
mod who;

pub use connection::Streams;
pub use listen::{Listener, Secure};
pub use who::{HALF, Tokens, cookie_name, in_cookie};

use connection::Connection;
use http::Response;
use http::request::Parts;
use hyper::body::Bytes;
use shares::{Counts, Strangers};
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tieline_rpc::Transport;
use tieline_rpc::sync::Lock;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::timeout;

/// Who a client is: the name under which [`Gate::admit`] knows it. Connections belong to their guest.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Guest(pub String);

/// What is known of somebody at the door.
#[derive(Clone, Copy)]
pub struct Visitor<'a> {
    /// The credential: of `Authorization: Bearer`, of the subprotocol `bearer.…`, or of the cookie.
    pub credential: Option<&'a str>,
    /// True if it came in a cookie, which a browser sends by itself.
    pub by_cookie: bool,
    /// True for somebody on a Unix socket, where the file's mode decides.
    pub by_file: bool,
    /// The request, whose headers may hold a credential of another kind.
    pub head: &'a Parts,
}

impl fmt::Debug for Visitor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Nothing of a credential, nothing that the peer chose.
        f.debug_struct("Visitor").field("by_file", &self.by_file).finish_non_exhaustive()
    }
}

/// What the one above decides.
pub trait Gate: Send + Sync + 'static {
    /// Lets somebody in, or not (401).
    fn admit(&self, visitor: &Visitor<'_>) -> Option<Guest>;

    /// Whether a guest may know that this session exists. To others it does not (404).
    fn may_see(&self, _guest: &Guest, _session: &str) -> bool {
        true
    }

    /// Answers a request for another path than the protocol's. Nobody has asked for a credential then.
    fn page(&self, _head: &Parts) -> Option<Response<Bytes>> {
        None
    }
}

/// What is allowed.
#[derive(Debug, Clone)]
pub struct Rules {
    /// The path of the protocol.
    pub path: String,
    /// Refuses what the draft refuses and others do: batches, messages without a session header, a second reader.
    pub strict: bool,
    /// Names under which the server may be asked for, besides those of this machine and the bound address.
    pub hosts: Vec<String>,
    /// Web pages of these origins may ask (`https://example.org:8443`), besides the server's own.
    pub origins: Vec<String>,
    /// The cookie with the [first half](in_cookie) of a credential; the port is added to its name.
    pub cookie: String,
    /// How much, how many, how long.
    pub limits: Limits,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            path: crate::PATH.to_owned(),
            strict: false,
            hosts: Vec::new(),
            origins: Vec::new(),
            cookie: "tieline".to_owned(),
            limits: Limits::default(),
        }
    }
}

/// How much, how many, how long.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Limits {
    /// The body of a request, in bytes.
    pub body_bytes: usize,
    /// A message on a WebSocket, in bytes.
    pub message_bytes: usize,
    /// What waits for a reader, of one connection, in bytes. The agent waits then.
    pub waiting_bytes: usize,
    /// What is kept of what was sent, of one connection, in bytes, so that a stream that was cut can go on.
    pub kept_bytes: usize,
    /// What waits for all readers together, in bytes. Beyond that each connection has the same share of it.
    pub all_waiting_bytes: usize,
    /// What one guest has sent of messages that are not whole yet, in bytes.
    pub guest_coming_bytes: usize,
    /// What all guests have.
    pub all_coming_bytes: usize,
    /// Sockets, of whatever kind.
    pub sockets: usize,
    /// Sockets on which nobody was let in yet. If one more comes, the oldest goes.
    pub strangers: usize,
    /// Sockets of one guest.
    pub guest_sockets: usize,
    /// Clients: connections of the protocol.
    pub connections: usize,
    /// Those of one guest.
    pub guest_connections: usize,
    /// Session streams of one connection.
    pub streams: usize,
    /// Session streams of one connection that nobody has heard of.
    pub unknown_streams: usize,
    /// Requests of one connection that have no answer yet.
    pub open_requests: usize,
    /// For the head of a request, and the handshake before it.
    pub head_time: Duration,
    /// For the body of a request, and a message on a WebSocket.
    pub body_time: Duration,
    /// For the answer to `initialize`.
    pub hello_time: Duration,
    /// For the agent to take a message.
    pub take_time: Duration,
    /// Nothing was read from full queues for so long: the connection ends.
    pub stall_time: Duration,
    /// A connection without any reader is kept for so long.
    pub grace: Duration,
    /// Something is sent on a stream at least so often.
    pub keep_alive: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            body_bytes: 16 << 20,
            message_bytes: 64 << 20,
            waiting_bytes: 64 << 20,
            kept_bytes: 4 << 20,
            all_waiting_bytes: 256 << 20,
            guest_coming_bytes: 96 << 20,
            all_coming_bytes: 256 << 20,
            sockets: 1024,
            strangers: 256,
            guest_sockets: 256,
            connections: 256,
            guest_connections: 64,
            streams: 1024,
            unknown_streams: 16,
            open_requests: 4096,
            head_time: seconds(15),
            body_time: seconds(60),
            hello_time: seconds(30),
            take_time: seconds(10),
            stall_time: seconds(60),
            grace: seconds(60),
            keep_alive: seconds(15),
        }
    }
}

/// How a client came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Streamable HTTP.
    Streams,
    /// A WebSocket.
    Socket,
}

/// A client's connection.
#[derive(Debug)]
pub struct Arrival {
    /// Its name, random.
    pub id: String,
    /// Who it is.
    pub guest: Guest,
    /// The way to it. Dropping it ends the connection.
    pub transport: Transport,
    /// Its streams, if it came over HTTP.
    pub streams: Option<Streams>,
}

impl Arrival {
    /// How it came.
    pub fn kind(&self) -> Kind {
        if self.streams.is_some() { Kind::Streams } else { Kind::Socket }
    }
}

/// A server. Clones are the same one.
#[derive(Clone)]
pub struct Server(Arc<Inner>);

struct Inner {
    rules: Rules,
    gate: Box<dyn Gate>,
    arrivals: mpsc::Sender<Arrival>,
    connections: Mutex<HashMap<String, Arc<Connection>>>,
    /// One for each client.
    places: Arc<Semaphore>,
    guest_places: Arc<Counts>,
    strangers: Strangers,
    guest_sockets: Arc<Counts>,
    /// The bytes of messages that are not whole yet.
    coming: Arc<Counts>,
    /// The bytes that wait for readers, of all connections.
    waiting: Arc<AtomicUsize>,
    stop: watch::Sender<bool>,
    /// Every socket holds a receiver.
    sockets: watch::Sender<()>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("rules", &self.0.rules).finish_non_exhaustive()
    }
}

impl Server {
    /// A server that does not listen yet. Clients come out of `arrivals`.
    pub fn new(rules: Rules, gate: impl Gate, arrivals: mpsc::Sender<Arrival>) -> Self {
        let places = Arc::new(Semaphore::new(rules.limits.connections));
        Self(Arc::new(Inner {
            rules,
            gate: Box::new(gate),
            arrivals,
            connections: Mutex::default(),
            places,
            guest_places: Arc::default(),
            strangers: Strangers::default(),
            guest_sockets: Arc::default(),
            coming: Arc::default(),
            waiting: Arc::default(),
            stop: watch::Sender::new(false),
            sockets: watch::Sender::new(()),
        }))
    }

    /// Takes connections until [`Self::stop`]. May be called for several listeners.
    pub async fn listen(&self, listener: Listener) {
        listen::run(self, listener).await;
    }

    /// Takes nothing new, ends every stream and socket and waits for them, at most so long.
    pub async fn stop(&self, limit: Duration) {
        self.0.stop.send_replace(true);
        let connections: Vec<_> = self.0.connections.locked().drain().map(|(_, connection)| connection).collect();
        for connection in connections {
            connection.end();
        }
        let _ = timeout(limit, self.0.sockets.closed()).await;
    }

    /// How many clients are connected.
    pub fn clients(&self) -> usize {
        self.limits().connections.saturating_sub(self.0.places.available_permits())
    }

    /// What waits for readers, of all clients, in bytes.
    pub fn waiting_bytes(&self) -> usize {
        self.0.waiting.load(Ordering::Relaxed)
    }

    fn is_stopping(&self) -> bool {
        *self.0.stop.borrow()
    }

    fn limits(&self) -> &Limits {
        &self.0.rules.limits
    }

    /// A connection that this guest has; to others it does not exist.
    fn connection(&self, id: &str, guest: &Guest) -> Option<Arc<Connection>> {
        self.0.connections.locked().get(id).filter(|connection| connection.guest == *guest).cloned()
    }

    fn forget(&self, id: &str) {
        self.0.connections.locked().remove(id);
    }
}
