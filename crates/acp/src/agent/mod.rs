//! Writing an agent: the traits to implement, and how to serve them.
//!
//! An agent implements [`Agent`] and its [`Session`]; the smallest one is a function (see [`from_fn`]). The engine does the
//! rest: it negotiates the dialect, keeps the sessions, refuses what the protocol forbids, and ends every turn as its
//! dialect wants it.

mod attach;
mod client;
mod dispatcher;
mod erased;
mod function;
mod hello;
mod live_session;
mod memory;
mod negotiated;
pub(crate) mod permission;
pub(crate) mod server;
mod session_handle;
mod session_writer;
mod setup;
mod terminal;
mod tool;
mod turn;

pub use client::ClientHandle;
pub use function::{FnAgent, from_fn};
pub use memory::Memory;
pub use permission::{Ask, Decision};
#[cfg(feature = "stdio")]
pub use server::serve_stdio;
pub use server::{Server, serve};
pub use session_handle::{Recorder, SessionHandle};
pub use terminal::{Finished, Terminal};
pub use tool::{ToolCall, ToolCallBuilder};
pub use turn::{Say, Turn};

use crate::error::{Error, Result};
use std::future::Future;
use std::sync::Arc;
use tieline_schema::{
    AgentCapabilities, AuthMethod, Command, ConfigOption, ConfigValue, ContentBlock, Implementation, InitializeRequest,
    ListRequest, ListResponse, McpServer, Meta, Raw, SessionId, StopReason,
};

/// A program that changes code (or does anything else) on behalf of a user.
///
/// Only [`about`](Self::about) and [`open`](Self::open) are needed. Everything else answers as the protocol says for an
/// agent that does not have it. What an agent does have, it also says in [`About::capabilities`]: the engine lets no call
/// through that was not offered.
pub trait Agent: Send + Sync + 'static {
    /// One conversation.
    type Session: Session;

    /// Who the agent is and what it can do.
    fn about(&self) -> About;

    /// The client says hello. [`about`](Self::about) is asked afterwards, and nothing else of the client is read before: an agent that
    /// has to reach something first, as the client is, does it here. An error is the answer to the hello.
    fn hello(&self, hello: InitializeRequest) -> impl Future<Output = Result<()>> + Send {
        let _ = hello;
        async { Ok(()) }
    }

    /// Opens a session. Updates that are sent through [`Opening::session`] meanwhile reach the client after the answer.
    fn open(&self, opening: Opening) -> impl Future<Output = Result<Opened<Self::Session>>> + Send;

    /// Takes up a session from an earlier time. With [`Resuming::replay`], everything sent through
    /// [`Resuming::session`] before this returns is the replay.
    fn resume(&self, resuming: Resuming) -> impl Future<Output = Result<Opened<Self::Session>>> + Send {
        async move { Err(Error::unknown_session(resuming.session.id())) }
    }

    /// Lists sessions. `None` leaves it to the engine, which lists those it knows.
    fn list(&self, request: ListRequest) -> impl Future<Output = Result<Option<ListResponse>>> + Send {
        let _ = request;
        async { Ok(None) }
    }

    /// Deletes a session that is not open. An unknown one is no error.
    fn delete(&self, id: SessionId) -> impl Future<Output = Result<()>> + Send {
        let _ = id;
        async { Ok(()) }
    }

    /// The client has said hello and was answered: who it is and what it offers is known from now on. Requests don't wait for
    /// this. A client of current v2 may say hello again before it asks for anything; then this is called again.
    fn initialized(&self, client: ClientHandle) -> impl Future<Output = ()> + Send {
        let _ = client;
        async {}
    }

    /// Logs in with one of the methods in [`About::auth_methods`].
    fn login(&self, method_id: String, client: ClientHandle) -> impl Future<Output = Result<()>> + Send {
        let _ = (method_id, client);
        async { Ok(()) }
    }

    /// Logs out.
    fn logout(&self, client: ClientHandle) -> impl Future<Output = Result<()>> + Send {
        let _ = client;
        async { Ok(()) }
    }

    /// Answers a request whose name starts with `_`.
    fn extension(&self, method: String, params: Raw, client: ClientHandle) -> impl Future<Output = Result<Raw>> + Send {
        let _ = (params, client);
        async move { Err(Error::method_not_found(&method)) }
    }

    /// Hears a notification whose name starts with `_`.
    fn extension_notification(
        &self,
        method: String,
        params: Raw,
        client: ClientHandle,
    ) -> impl Future<Output = ()> + Send {
        let _ = (method, params, client);
        async {}
    }
}

macro_rules! forwarded {
    ($( $name:ident($($arg:ident: $type:ty),*) -> $out:ty; )*) => {$(
        fn $name(&self, $($arg: $type),*) -> impl Future<Output = $out> + Send {
            T::$name(self, $($arg),*)
        }
    )*};
}

/// One agent for several connections: serve clones of the `Arc`.
impl<T: Agent> Agent for Arc<T> {
    type Session = T::Session;

    fn about(&self) -> About {
        T::about(self)
    }

    fn open(&self, opening: Opening) -> impl Future<Output = Result<Opened<Self::Session>>> + Send {
        T::open(self, opening)
    }

    fn resume(&self, resuming: Resuming) -> impl Future<Output = Result<Opened<Self::Session>>> + Send {
        T::resume(self, resuming)
    }

    agent_methods!(forwarded);
}

/// One conversation.
pub trait Session: Send + Sync + 'static {
    /// Takes a prompt in, before the client is told anything about it: the place to store it. An error refuses the prompt,
    /// and [`prompt`](Self::prompt) is not called.
    fn accept(&self, message_id: &str, prompt: &[ContentBlock]) -> impl Future<Output = Result<()>> + Send {
        let _ = (message_id, prompt);
        async { Ok(()) }
    }

    /// Works on a prompt. What it returns ends the turn; if the turn was cancelled, the client is told `cancelled` whatever
    /// that is. A handler that does not return soon after a cancel is dropped.
    fn prompt(&self, turn: Turn, prompt: Vec<ContentBlock>) -> impl Future<Output = Result<StopReason>> + Send;

    /// Changes an option. The engine has checked that the option and the value exist. `None` means that only this value
    /// changes; otherwise the new list of all options.
    fn set_option(
        &self,
        id: String,
        value: ConfigValue,
    ) -> impl Future<Output = Result<Option<Vec<ConfigOption>>>> + Send {
        let _ = (id, value);
        async { Ok(None) }
    }

    /// The client cancels, and no turn of its own runs. Nothing for most; where several clients share a session, one of them may stop
    /// what another began.
    fn cancel_others(&self) -> impl Future<Output = ()> + Send {
        async {}
    }

    /// The session is closed; its turn has ended.
    fn close(&self) -> impl Future<Output = ()> + Send {
        async {}
    }

    /// Nobody uses the session any more, but it was not closed: the client is gone or takes it up anew. The same as
    /// [`close`](Self::close) for most.
    fn leave(&self) -> impl Future<Output = ()> + Send {
        self.close()
    }
}

/// Who an agent is and what it can do.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct About {
    /// Its name and version.
    pub info: Implementation,
    /// What it offers. [`About::new`] starts with sessions and nothing else.
    pub capabilities: AgentCapabilities,
    /// The ways to log in. A non-empty list does not mean that login is needed: answer [`Error::auth_required`] for that.
    pub auth_methods: Vec<AuthMethod>,
    /// Extensions (`_meta`) of the answer to the hello.
    pub meta: Option<Meta>,
    /// The engine keeps what was said here, and with it lists, loads, resumes, closes and deletes sessions by itself.
    pub memory: Option<Memory>,
    /// Where the client offers files or terminals, speak the version of the protocol that has words for them: version 1. Without
    /// this the newest version that both speak is chosen, and current v2 has no such words.
    pub prefer_client_tools: bool,
}

impl About {
    /// An agent with a name and a version.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        let capabilities = AgentCapabilities { session: true, ..AgentCapabilities::default() };
        Self { info: Implementation::new(name, version), capabilities, ..Self::default() }
    }

    /// Lets the engine keep the sessions in memory, as long as the connection lasts: [`Agent::about`] is asked anew for the next one. To
    /// have sessions span connections, or to read and store what is kept, see [`About::remember_in`].
    #[must_use]
    pub fn remember(self) -> Self {
        self.remember_in(&Memory::default())
    }

    /// Lets the engine keep the sessions in a memory of yours, which outlives the connection and can be read.
    ///
    /// ```
    /// use tieline::agent::{About, Memory};
    ///
    /// struct MyAgent {
    ///     memory: Memory,
    /// }
    ///
    /// impl MyAgent {
    ///     fn about(&self) -> About {
    ///         About::new("my-agent", "1.0").remember_in(&self.memory)
    ///     }
    /// }
    /// # let _ = MyAgent { memory: Memory::default() }.about();
    /// ```
    #[must_use]
    pub fn remember_in(mut self, memory: &Memory) -> Self {
        self.memory = Some(memory.clone());
        let offered = &mut self.capabilities;
        (offered.load, offered.list, offered.resume, offered.close, offered.delete) = (true, true, true, true, true);
        self
    }

    /// Lets files and terminals of the client decide on the version of the protocol. See [`About::prefer_client_tools`].
    #[must_use]
    pub fn prefer_client_tools(mut self) -> Self {
        self.prefer_client_tools = true;
        self
    }
}

/// A session that is being opened.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Opening {
    /// The way to tell the client something outside a turn; also has the id.
    pub session: SessionHandle,
    /// The working directory; absolute.
    pub cwd: String,
    /// More root directories; absolute, and only if [`AgentCapabilities::additional_directories`] was offered.
    pub additional_directories: Vec<String>,
    /// MCP servers to connect to; only of offered kinds.
    pub mcp_servers: Vec<McpServer>,
    /// Extensions (`_meta`).
    pub meta: Option<Meta>,
}

/// A session that is being taken up again.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Resuming {
    /// The way to tell the client something; also has the id.
    pub session: SessionHandle,
    /// The working directory; absolute.
    pub cwd: String,
    /// More root directories; the complete list.
    pub additional_directories: Vec<String>,
    /// MCP servers to connect to; the complete list.
    pub mcp_servers: Vec<McpServer>,
    /// The client wants the whole conversation again, before this call returns.
    pub replay: bool,
    /// Extensions (`_meta`).
    pub meta: Option<Meta>,
}

impl From<Resuming> for Opening {
    fn from(resuming: Resuming) -> Self {
        let Resuming { session, cwd, additional_directories, mcp_servers, meta, .. } = resuming;
        Self { session, cwd, additional_directories, mcp_servers, meta }
    }
}

/// A session that is ready.
#[derive(Debug)]
#[non_exhaustive]
#[must_use]
pub struct Opened<S: ?Sized> {
    /// Takes the prompts.
    pub session: Arc<S>,
    /// Its options, the most important first. One of the category `mode` is also what version 1 calls modes.
    pub options: Vec<ConfigOption>,
    /// Its commands.
    pub commands: Vec<Command>,
    /// Extensions (`_meta`).
    pub meta: Option<Meta>,
    /// Fields of the answer that the protocol does not have: an object. For `session/attach`.
    pub more: Option<Raw>,
}

impl<S> Opened<S> {
    /// A session without options and commands.
    pub fn new(session: S) -> Self {
        Self { session: Arc::new(session), options: Vec::new(), commands: Vec::new(), meta: None, more: None }
    }

    setters! {
        /// Gives it options.
        options(options: Vec<ConfigOption>) => options = options;
        /// Gives it commands.
        commands(commands: Vec<Command>) => commands = commands;
    }
}
