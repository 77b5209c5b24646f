//! How a client reaches an agent: start it or take any transport, say hello, settle on a dialect.

use super::budget::Budget;
use super::dispatcher::{Dispatcher, DispatcherState, name_of};
use super::handle::{AgentHandle, Shared};
use super::handler::{Handler, Refuse};
use crate::error::{Error, Result};
use crate::mailbox::Mailbox;
use crate::wire;
#[cfg(feature = "process")]
use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
#[cfg(feature = "process")]
use tieline_process::{ChildProcess, Spec};
use tieline_rpc::framing::Framing;
use tieline_rpc::{CallError, Connection, Direction, End, Limits, Peer, Tap, Transport};
use tieline_schema::{
    ClientCapabilities, Decode, Dialect, ErrorCode, HelloAs, HelloForm, Implementation, InitializeRequest,
    InitializeResponse, Meta, Protocol, Settled, first_hello, next_hello, settle,
};
use tokio::sync::watch;

/// Unread updates of all sessions together may take this many bytes before the agent is made to wait.
const DEFAULT_BUDGET_BYTES: usize = 8 * 1024 * 1024;

/// Who tells of offers that the agent can't use. A target of its own, because a program may know and not mind.
const OFFER: &str = "tieline::offer";

/// Starts an agent and says hello to it, as a client that offers nothing. The command and its arguments; no shell.
#[cfg(feature = "process")]
pub async fn spawn(command: impl IntoIterator<Item = impl Into<OsString>>) -> Result<AgentHandle> {
    Client::default().spawn(command).await
}

/// Says hello to an agent on the other end of `transport`, as a client that offers nothing.
pub async fn connect(transport: Transport) -> Result<AgentHandle> {
    Client::default().connect(transport).await
}

/// What to start, from a program and its arguments.
#[cfg(feature = "process")]
pub(crate) fn spec(command: impl IntoIterator<Item = impl Into<OsString>>) -> Result<Spec> {
    let mut command = command.into_iter();
    let program = command.next().ok_or_else(|| Error::Start("no command was given".into()))?;
    Ok(Spec::new(program).args(command))
}

/// What stands for an agent's process where none can be started.
#[cfg(not(feature = "process"))]
#[derive(Debug)]
enum ChildProcess {}

#[cfg(not(feature = "process"))]
impl ChildProcess {
    fn exit(&self) -> std::future::Ready<String> {
        match *self {}
    }

    fn shutdown(&self) -> std::future::Ready<()> {
        match *self {}
    }
}

/// How long an agent may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadlines {
    pub(crate) hello: Duration,
    pub(crate) set_up: Duration,
    pub(crate) quick: Duration,
    /// A cancelled turn that nobody reads gets this long to end before the next prompt is refused.
    pub(crate) cancel: Duration,
    /// For what is left to be written at the end.
    pub(crate) close: Duration,
}

/// A client with settings, ready to reach an agent.
#[must_use]
pub struct Client<H = Refuse> {
    handler: H,
    request: InitializeRequest,
    protocol: Protocol,
    framing: Framing,
    limits: Limits,
    budget: usize,
    joins: usize,
    longest: usize,
    deadlines: Deadlines,
    tap: Option<Tap>,
}

impl<H> std::fmt::Debug for Client<H> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client")
            .field("request", &self.request)
            .field("protocol", &self.protocol)
            .finish_non_exhaustive()
    }
}

impl Default for Client<Refuse> {
    fn default() -> Self {
        Self::new("tieline", env!("CARGO_PKG_VERSION"))
    }
}

impl Client<Refuse> {
    /// A client with a name and a version that offers nothing and refuses everything.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self {
            handler: Refuse,
            request: InitializeRequest {
                info: Some(Implementation::new(name, version)),
                ..InitializeRequest::default()
            },
            protocol: Protocol::Auto,
            framing: Framing::Lines,
            limits: Limits::default(),
            tap: None,
            budget: DEFAULT_BUDGET_BYTES,
            joins: usize::MAX,
            longest: usize::MAX,
            deadlines: Deadlines {
                hello: Duration::from_secs(30),
                set_up: Duration::from_secs(2 * 60),
                quick: Duration::from_secs(30),
                cancel: Duration::from_secs(10),
                close: Duration::from_secs(5),
            },
        }
    }
}

impl<H: Handler> Client<H> {
    /// Lets `handler` serve the agent's requests. Say with [`Self::offer`] which ones.
    pub fn handler<N: Handler>(self, handler: N) -> Client<N> {
        let Self { request, protocol, framing, limits, budget, joins, longest, deadlines, tap, .. } = self;
        Client { handler, request, protocol, framing, limits, budget, joins, longest, deadlines, tap }
    }

    /// Says this hello.
    pub(crate) fn hello(mut self, hello: InitializeRequest) -> Self {
        self.request = hello;
        self
    }

    /// Offers capabilities to the agent.
    ///
    /// Files and terminals (`fs_read`, `fs_write`, `terminal`) exist in version 1 and in seed-era v2. Where the agent chooses current v2 they
    /// are not asked for, and a warning (target `tieline::offer`) says so; [`Self::protocol`] with `Protocol::Only(Dialect::V1)` keeps
    /// them, at the price of what only version 2 has.
    pub fn offer(mut self, change: impl FnOnce(&mut ClientCapabilities)) -> Self {
        change(&mut self.request.capabilities);
        self
    }

    setters! {
        /// Extensions (`_meta`) of the hello.
        meta(meta: Meta) => request.meta = Some(meta);
        /// Which protocol to ask for. The default asks for the newest and takes what the agent speaks.
        protocol(protocol: Protocol) => protocol = protocol;
        /// How messages are framed. The agent has to understand it; every agent understands lines.
        framing(framing: Framing) => framing = framing;
        /// Limits of the connection.
        limits(limits: Limits) => limits = limits;
        /// Unread updates of all sessions together may take this many bytes, 8 MiB by default, before the agent is made to wait. A session that
        /// nobody reads can use up the budget of the others: read it, or drop it.
        budget(bytes: usize) => budget = bytes;
        /// From so many unread bytes on, pieces of a message that nobody has read yet are joined to longer ones: whoever is behind has less to
        /// do for the same text. Half of the budget by default, and at most.
        join_text_after(bytes: usize) => joins = bytes;
        /// Updates that come as more than this many bytes are cut to about that, but for the words of messages; what can't be cut
        /// is passed over, and [`Handler::dropped`] hears of it. Without this an update is as long as a message may be.
        longest_update(bytes: usize) => longest = bytes;
        /// Lets `tap` see every message in both directions. It must be quick, and must not use the connection itself.
        tap(tap: impl Fn(Direction, &[u8]) + Send + Sync + 'static) => tap = Some(Arc::new(tap));
        /// How long the agent may take to answer the hello; 30 seconds by default.
        hello_deadline(limit: Duration) => deadlines.hello = limit;
        /// How long the agent may take to open or load a session; 120 seconds by default.
        set_up_deadline(limit: Duration) => deadlines.set_up = limit;
        /// How long the agent may take for anything else but a prompt or a login, and a handler for a notification; 30 seconds by
        /// default.
        deadline(limit: Duration) => deadlines.quick = limit;
        /// How long a cancelled turn that nobody reads may take to end before the next prompt of its session is refused; 10 seconds by
        /// default.
        cancel_deadline(limit: Duration) => deadlines.cancel = limit;
        /// How long what is left to be said may take to be written when the connection is closed; 5 seconds by default. An agent that was
        /// started has the time that its [`Spec`](tieline_process::Spec::shutdown) gives it.
        close_deadline(limit: Duration) => deadlines.close = limit;
    }

    /// Starts an agent and says hello to it. The command and its arguments; no shell.
    #[cfg(feature = "process")]
    pub async fn spawn(self, command: impl IntoIterator<Item = impl Into<OsString>>) -> Result<AgentHandle> {
        self.spawn_spec(&spec(command)?).await
    }

    /// Starts an agent as `spec` says (folder, environment, guardian) and says hello to it.
    #[cfg(feature = "process")]
    pub async fn spawn_spec(self, spec: &Spec) -> Result<AgentHandle> {
        let (pipes, child) = ChildProcess::spawn(spec).await.map_err(|error| Error::Start(error.to_string()))?;
        self.start(Transport::new(pipes.output, pipes.input), Some(child)).await
    }

    /// Says hello to an agent on the other end of `transport`.
    pub async fn connect(self, transport: Transport) -> Result<AgentHandle> {
        self.start(transport, None).await
    }

    async fn start(self, transport: Transport, child: Option<ChildProcess>) -> Result<AgentHandle> {
        let (ready, agent) = watch::channel(None);
        let capabilities = self.request.capabilities.clone();
        let dispatcher = DispatcherState::new(capabilities, Budget::new(self.budget, self.joins), self.longest, agent);
        let transport = transport.framing(self.framing);
        let transport = match self.tap {
            Some(tap) => transport.tap(move |direction, frame| tap(direction, frame)),
            None => transport,
        };
        let (peer, connection) = Connection::open(transport, self.limits.clone());
        let service = Arc::new(Dispatcher {
            handler: Arc::new(self.handler),
            state: Arc::clone(&dispatcher),
            mailbox: Mailbox::new(self.deadlines.quick, &self.limits),
        });
        let ending = Ending {
            dispatcher: Arc::clone(&dispatcher),
            peer: peer.clone(),
            why: Error::Closed("the connection was closed".into()),
        };
        let reader = tokio::spawn(async move {
            // The whole of it, so that its drop comes with the end of this task.
            let mut ending = ending;
            let end = connection.run(service).await;
            ending.why = end_of(&end);
        });
        let keeper = Keeper { reader: reader.abort_handle(), child, limit: self.deadlines.close };
        let hello = Handshake {
            request: &self.request,
            protocol: self.protocol,
            dispatcher: &dispatcher,
            limit: self.deadlines.hello,
        };
        match hello.say(&peer).await {
            Ok((about, dialect)) => {
                if dialect == Dialect::V2 && self.request.capabilities.has_tools() {
                    // Version 2 has no words for them.
                    tracing::warn!(target: OFFER, "files or terminals are offered to no avail: use Protocol::Only(Dialect::V1)");
                }
                let deadlines = self.deadlines;
                let shared = Arc::new(Shared { peer, about, dialect, dispatcher, deadlines, keeper });
                let _ = ready.send(Some(Arc::downgrade(&shared)));
                Ok(AgentHandle::new(shared))
            }
            Err(Error::Closed(what)) => Err(keeper.explain(what).await),
            Err(error) => {
                keeper.close(&peer).await;
                Err(error)
            }
        }
    }
}

/// However the reader ends, also by a panic or by being dropped: nobody waits for the agent any more, and nothing is worked
/// on for it.
struct Ending {
    dispatcher: Arc<DispatcherState>,
    peer: Peer,
    why: Error,
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.dispatcher.close(&self.why);
        self.peer.withdraw_all();
    }
}

fn end_of(end: &End) -> Error {
    Error::Closed(match end {
        End::Eof => "the agent closed the connection".into(),
        End::Failed(error) => format!("reading from the agent failed: {error}"),
        End::Broken(why) => format!("the agent's messages can't be followed: {why}"),
        End::Stopped => "the connection was closed".into(),
    })
}

/// The first exchange.
struct Handshake<'h> {
    request: &'h InitializeRequest,
    protocol: Protocol,
    dispatcher: &'h Arc<DispatcherState>,
    limit: Duration,
}

impl Handshake<'_> {
    /// Says hello until the agent takes one of our forms.
    async fn say(&self, peer: &Peer) -> Result<(InitializeResponse, Dialect)> {
        let mut form = first_hello(self.protocol);
        loop {
            match self.ask(peer, form).await {
                Ok((about, Settled::Dialect(dialect))) => return Ok((about, dialect)),
                Ok((_, Settled::Unsupported(version))) => {
                    let wanted = self.protocol;
                    let why = format!("the agent answered with protocol version {version}, but {wanted} was asked for");
                    return Err(Error::Version(why));
                }
                Err(CallError::Answered(error)) => {
                    let code = ErrorCode(error.code);
                    match next_hello(self.protocol, form, code, error.data.as_ref()) {
                        Some(next) => form = next,
                        None if code == ErrorCode::UNSUPPORTED_VERSION => {
                            return Err(Error::Version(format!("the agent speaks no version that we do: {error}")));
                        }
                        None => return Err(Error::Wire(error).of_agent(&[])),
                    }
                }
                Err(error) => return Err(Error::of_call(error, "initialize", self.limit)),
            }
        }
    }

    async fn ask(&self, peer: &Peer, form: HelloForm) -> std::result::Result<(InitializeResponse, Settled), CallError> {
        let (protocol, dispatcher) = (self.protocol, Arc::clone(self.dispatcher));
        let hello = HelloAs(self.request, form);
        dispatcher.offered.store(matches!(form, HelloForm::Superset | HelloForm::Only(Dialect::V1)), Ordering::SeqCst);
        let pending = peer
            .call("initialize", wire::write(&hello, Dialect::V2), move |json| {
                let answer = InitializeResponse::decode(json)?;
                let settled = settle(&answer, protocol);
                // On the reader: the next message is already judged by the dialect.
                if let Settled::Dialect(dialect) = settled {
                    let _ = dispatcher.dialect.set(dialect);
                }
                if let Some(name) = name_of(&answer) {
                    let _ = dispatcher.agent.set(name);
                }
                Ok((answer, settled))
            })
            .await;
        pending.within(self.limit).await
    }
}

/// Keeps a connection alive, and ends what belongs to it.
pub(crate) struct Keeper {
    reader: tokio::task::AbortHandle,
    child: Option<ChildProcess>,
    limit: Duration,
}

impl Keeper {
    /// If the agent's process has ended, says so; it mostly ends a moment after its output does.
    pub(crate) async fn explain(&self, what: String) -> Error {
        let Some(child) = &self.child else { return Error::Closed(what) };
        match tokio::time::timeout(Duration::from_millis(500), child.exit()).await {
            Ok(reason) => Error::Closed(format!("{what}; the agent {reason}")),
            Err(_) => Error::Closed(what),
        }
    }

    pub(crate) async fn close(&self, peer: &Peer) {
        match &self.child {
            // Side by side: an agent that does not read must not hold up its own end.
            Some(child) => drop(tokio::join!(peer.close(), child.shutdown())),
            None => drop(tokio::time::timeout(self.limit, peer.close()).await),
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.reader.abort();
    }
}
