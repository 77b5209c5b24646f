//! A client of any dialect in front of an agent of any other: an agent whose sessions are those of another agent.
//!
//! ```no_run
//! use tieline::bridge::Bridge;
//! use tieline::process::Spec;
//! use tieline::{Dialect, Protocol};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> tieline::Result<()> {
//! // A client of any version, over standard input and output, in front of an agent that is asked for current v2.
//! let bridge = Bridge::default().agent_protocol(Protocol::Only(Dialect::V2)).on_loss(|what| eprintln!("lost: {what}"));
//! bridge.serve_stdio(&Spec::new("my-agent").args(["--acp"])).await
//! # }
//! ```
//!
//! Both sides are connections of this library, so each speaks its own dialect, and what one has no words for is said as near as
//! possible (see [`schema::Projector`]). Extensions and methods that nobody knows go through as they are,
//! and so do session ids. What is lost is told once.

mod conversation;
mod desk;
mod line;

use crate::agent::{About, Agent, ClientHandle, Opened, Opening, Resuming, Server};
use crate::client::{AgentHandle, Client};
use crate::error::{Error, Result};
use crate::{meta, schema, wire};
use conversation::Conversation;
use desk::Desk;
use line::Line;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tieline_rpc::sync::Lock as _;
use tieline_rpc::{Cancel, Peer, Transport};
use tieline_schema::{
    AuthMethod, Dialect, Implementation, InitializeRequest, ListRequest, ListResponse, NewSessionRequest, Protocol,
    Raw, Replay, ResumeRequest, SessionId,
};
use tokio::sync::watch;

/// An agent may have to be fetched before it can say hello.
const DEFAULT_HELLO: Duration = Duration::from_secs(2 * 60);
/// A cancelled turn gets this long to end in its own way.
const DEFAULT_CANCEL_GRACE: Duration = Duration::from_secs(30);

/// What of the agent's can't be read is told until so much was told.
const MAX_TOLD: usize = 20;

/// Everything that can get lost between two dialects, in words for people; docs/bridge.md has the table.
mod loss {
    pub(super) const TOOLS: &str = "the files and terminals that the client offers: version 2 has no words for them";
    pub(super) const REPLAY: &str = "sessions of before: the agent can't tell them again, as version 2 promises";
    pub(super) const LOGIN: &str = "ways to log in of a kind that version 1 does not know";
    pub(super) const OPTION: &str = "options of a kind that version 1 does not know";
    pub(super) const BACKGROUND: &str = "what goes on beside the turns";
    pub(super) const TERMINAL: &str = "terminals: their output is passed on as plain text, the last of it";
    pub(super) const DIFF: &str =
        "changes of files as patches: texts are passed on as far as the patch shows them, the rest in words";
    pub(super) const PLAN: &str = "plans that are no lists";
    pub(super) const NOTICE: &str = "notices";
    pub(super) const COMPACTION: &str = "compactions of the context";
    pub(super) const STOP: &str = "why a turn ended, for reasons that version 1 does not know";
    pub(super) const UNKNOWN: &str = "updates and content of a kind that version 1 does not know";
}

/// How the agent is reached.
enum Target {
    /// Started, perhaps more than once.
    #[cfg(all(feature = "process", feature = "stdio"))]
    Command(tieline_process::Spec),
    /// There already.
    Wire(Mutex<Option<Transport>>),
}

/// A bridge with settings.
#[must_use]
pub struct Bridge {
    protocol: Protocol,
    lossless: bool,
    hello_deadline: Duration,
    cancel_grace: Duration,
    on_loss: Box<dyn Fn(&str) + Send + Sync>,
}

impl std::fmt::Debug for Bridge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bridge")
            .field("protocol", &self.protocol)
            .field("lossless", &self.lossless)
            .finish_non_exhaustive()
    }
}

impl Default for Bridge {
    fn default() -> Self {
        let (hello_deadline, cancel_grace) = (DEFAULT_HELLO, DEFAULT_CANCEL_GRACE);
        Self { protocol: Protocol::Auto, lossless: false, hello_deadline, cancel_grace, on_loss: Box::new(|_| {}) }
    }
}

impl Bridge {
    setters! {
        /// Which protocol the agent is asked for. By default that of the client, so that nothing gets lost; an agent that does not speak
        /// it is started again and asked for what it speaks.
        agent_protocol(protocol: Protocol) => protocol = protocol;
        /// Refuses what would lose something: the hello, or the turn that it happens in.
        lossless(lossless: bool) => lossless = lossless;
        /// How long the agent may take to answer the hello; 120 seconds by default, because it may have to be fetched first.
        hello_deadline(limit: Duration) => hello_deadline = limit;
        /// How long the agent may take to end a turn that the client has cancelled; 30 seconds by default. Then the bridge ends it.
        cancel_grace(limit: Duration) => cancel_grace = limit;
        /// Tells what is lost, once for each kind; and what of the agent's could not be read, the first times.
        on_loss(tell: impl Fn(&str) + Send + Sync + 'static) => on_loss = Box::new(tell);
    }

    /// Starts an agent when the client says hello over our standard input and output. The end of either, SIGTERM and SIGINT all
    /// lead to an orderly end; an agent that ends first is an error.
    #[cfg(all(feature = "process", feature = "stdio"))]
    pub async fn serve_stdio(self, agent: &tieline_process::Spec) -> Result<()> {
        let stop = crate::agent::server::signal();
        self.run(Transport::stdio().detect_framing(), Target::Command(agent.clone()), stop).await
    }

    /// Stands between a client and an agent until either ends. With [`Protocol::Auto`] the agent is asked for the newest version.
    pub async fn serve(self, client: Transport, agent: Transport) -> Result<()> {
        self.run(client, Target::Wire(Mutex::new(Some(agent))), std::future::pending()).await
    }

    /// `near` leads to the client.
    async fn run(self, near: Transport, target: Target, stop: impl Future<Output = ()> + Send + 'static) -> Result<()> {
        let (reached, client, lines, told, over, failed) = Default::default();
        let shared = Arc::new(Shared { settings: self, target, reached, client, lines, told, over, failed });
        let over = shared.over.clone();
        let stop = async move { either(over.cancelled(), stop).await };
        let front = Server::new(Front(Arc::clone(&shared))).relaying();
        // Ours comes first: the engine would drop the turn without having heard its end.
        let served = front.cancel_grace(shared.settings.cancel_grace * 2).serve_until(near, stop).await;
        let failed = shared.failed.get().cloned();
        if let Some(reached) = shared.reached.get() {
            reached.agent.close().await;
        }
        failed.map_or(served, Err)
    }
}

/// What both sides of a bridge know.
struct Shared {
    settings: Bridge,
    target: Target,
    reached: OnceLock<Reached>,
    client: watch::Sender<Option<ClientHandle>>,
    lines: Mutex<HashMap<SessionId, Arc<Line>>>,
    /// What was said to be lost.
    told: Mutex<BTreeSet<String>>,
    /// The agent is gone, or was never reached.
    over: Cancel,
    failed: OnceLock<Error>,
}

/// An agent that was reached, for this client.
struct Reached {
    agent: AgentHandle,
    /// The ways to log in that the client can be told.
    logins: Vec<AuthMethod>,
}

impl Shared {
    fn reached(&self) -> Result<&Reached> {
        self.reached.get().ok_or_else(|| Error::Closed("the agent was not reached".into()))
    }

    fn agent(&self) -> Result<AgentHandle> {
        let agent = &self.reached()?.agent;
        Ok(meta::received().map_or_else(|| agent.clone(), |meta| agent.with_meta(meta)))
    }

    /// The client; waits until it was answered.
    async fn client(&self) -> Result<ClientHandle> {
        let mut client = self.client.subscribe();
        let known = client.wait_for(Option::is_some).await;
        known.ok().and_then(|client| client.clone()).ok_or_else(|| Error::Closed("the client is gone".into()))
    }

    fn line(&self, id: &SessionId) -> Result<Arc<Line>> {
        self.lines.locked().get(id).cloned().ok_or_else(|| Error::unknown_session(id))
    }

    fn fail(&self, error: Error) {
        let _ = self.failed.set(error);
        self.over.cancel();
    }

    /// Something gets lost. An error if that is not allowed; true if it is told for the first time.
    fn lose(&self, what: &'static str) -> Result<bool> {
        if self.settings.lossless {
            return Err(Error::wire(-32603, format!("refused, because this would be lost: {what}")));
        }
        Ok(self.tell(what))
    }

    /// Tells of something that is not passed on; true for the first time.
    fn tell(&self, what: &str) -> bool {
        let first = self.told.locked().insert(what.to_owned());
        if first {
            (self.settings.on_loss)(what);
        }
        first
    }

    /// Says hello to the agent.
    async fn say(self: &Arc<Self>, hello: &InitializeRequest, protocol: Protocol) -> Result<AgentHandle> {
        let client = Client::default().handler(Desk(Arc::clone(self))).hello(hello.clone());
        let client = client.protocol(protocol).hello_deadline(self.settings.hello_deadline);
        match &self.target {
            #[cfg(all(feature = "process", feature = "stdio"))]
            Target::Command(spec) => client.spawn_spec(spec).await,
            Target::Wire(agent) => {
                let agent = agent.locked().take();
                client.connect(agent.ok_or_else(|| Error::Closed("the agent is gone".into()))?).await
            }
        }
    }

    /// Reaches the agent, as this client.
    async fn reach(self: &Arc<Self>, mut hello: InitializeRequest, dialect: Dialect) -> Result<Reached> {
        let takes = &mut hello.capabilities;
        match dialect {
            Dialect::V1 => {}
            Dialect::V2Seed => (takes.elicit_form, takes.elicit_url, takes.terminal_auth) = (false, false, false),
            Dialect::V2 => {
                let _ = takes.take_tools();
                (takes.boolean_options, takes.notices, takes.compaction) = (true, true, true);
            }
        }
        let agent = match (self.settings.protocol, &self.target) {
            // In the client's own words first: what need not be translated can't get lost.
            #[cfg(all(feature = "process", feature = "stdio"))]
            (Protocol::Auto, Target::Command(_)) => match self.say(&hello, Protocol::Only(dialect)).await {
                Err(error) if !matches!(error, Error::Start(_)) => {
                    tracing::info!(%error, "the agent does not speak the client's dialect");
                    self.say(&hello, Protocol::Auto).await?
                }
                agent => agent?,
            },
            (protocol, _) => self.say(&hello, protocol).await?,
        };
        let mut logins = agent.auth_methods().to_vec();
        // Version 1 takes any for one that the agent does itself.
        if dialect == Dialect::V1 && agent.dialect() != Dialect::V1 {
            logins.retain(|method| !matches!(method, AuthMethod::Other(_)));
        }
        let tools = hello.capabilities.has_tools() && !agent.hears_of_tools();
        let login = logins.len() < agent.auth_methods().len();
        let replay = dialect == Dialect::V2 && !agent.capabilities().load;
        let lost = [(tools, loss::TOOLS), (login, loss::LOGIN), (replay, loss::REPLAY)];
        let mut lost = lost.into_iter().filter_map(|(is, what)| is.then_some(what));
        if let Err(error) = lost.try_for_each(|what| self.lose(what).map(drop)) {
            agent.close().await;
            return Err(error);
        }
        Ok(Reached { agent, logins })
    }
}

/// What the client sees: an agent.
struct Front(Arc<Shared>);

impl Agent for Front {
    type Session = Conversation;

    fn about(&self) -> About {
        let Some(reached) = self.0.reached.get() else { return About::default() };
        let hello = reached.agent.about();
        About {
            info: hello.info.clone().unwrap_or_else(|| Implementation::new("unknown", "unknown")),
            capabilities: hello.capabilities.clone(),
            auth_methods: reached.logins.clone(),
            meta: hello.meta.clone(),
            ..About::default()
        }
    }

    async fn hello(&self, hello: InitializeRequest) -> Result<()> {
        // A hello that the engine refuses reaches nobody, and a second one not again.
        let (Ok(chosen), None) = (schema::choose(&hello, Protocol::Auto), self.0.reached.get()) else { return Ok(()) };
        let reached = self.0.reach(hello, chosen.dialect).await;
        let reached = reached.inspect_err(|error| self.0.fail(error.clone())).map_err(told)?;
        let (agent, shared) = (reached.agent.clone(), Arc::clone(&self.0));
        tokio::spawn(async move { shared.fail(agent.closed().await) });
        let _ = self.0.reached.set(reached);
        Ok(())
    }

    async fn initialized(&self, client: ClientHandle) {
        self.0.client.send_replace(Some(client));
    }

    async fn open(&self, opening: Opening) -> Result<Opened<Conversation>> {
        let Opening { session, cwd, additional_directories, mcp_servers, meta } = opening;
        let mcp_servers = Some(mcp_servers);
        let request = NewSessionRequest { cwd, additional_directories, mcp_servers, meta, ..Default::default() };
        let theirs = self.0.reached()?.agent.open_with(request).await.map_err(told)?;
        session.set_id(theirs.id().clone());
        let line = Line::new(Arc::clone(&self.0), session, Arc::clone(&theirs.core.queue));
        Conversation::begin(line.read(), theirs)
    }

    async fn resume(&self, resuming: Resuming) -> Result<Opened<Conversation>> {
        let Resuming { session, cwd, additional_directories, mcp_servers, replay, meta } = resuming;
        let agent = &self.0.reached()?.agent;
        let session_id = session.id().clone();
        let line = Line::new(Arc::clone(&self.0), session, agent.shared.dispatcher.queue(&session_id));
        // An agent that can't take up a session in silence tells it again to nobody.
        let can = agent.capabilities();
        let in_silence = !replay && (can.resume || !can.load);
        line.swallow(!replay && !in_silence);
        let replay = if in_silence { Replay::None } else { Replay::Start };
        let mcp_servers = Some(mcp_servers);
        let request =
            ResumeRequest { session_id, cwd, additional_directories, mcp_servers, replay, meta, ..Default::default() };
        // It is read while it is told, however long it is.
        let reading = line.read();
        let theirs = agent.resume_with(request).await.map_err(told)?;
        reading.line.queue.reached().await;
        Conversation::begin(reading, theirs)
    }

    async fn list(&self, request: ListRequest) -> Result<Option<ListResponse>> {
        let agent = self.0.agent()?;
        // The engine then lists those that are open.
        if !agent.capabilities().list {
            return Ok(None);
        }
        agent.list(request).await.map(Some).map_err(told)
    }

    async fn delete(&self, id: SessionId) -> Result<()> {
        let agent = self.0.agent()?;
        noted(agent.delete(id).await, agent.answer_meta())
    }

    async fn login(&self, method_id: String, _: ClientHandle) -> Result<()> {
        let agent = self.0.agent()?;
        noted(agent.login(&method_id).await, agent.answer_meta())
    }

    async fn logout(&self, _: ClientHandle) -> Result<()> {
        let agent = self.0.agent()?;
        if !agent.capabilities().logout {
            return Err(Error::method_not_found("logout"));
        }
        noted(agent.logout().await, agent.answer_meta())
    }

    async fn extension(&self, method: String, params: Raw, _: ClientHandle) -> Result<Raw> {
        let agent = self.0.agent()?;
        // One thing can be stopped only where that was offered.
        if matches!(&*method, "tool_call/cancel" | "terminal/cancel") && agent.dialect() != Dialect::V2 {
            return Err(Error::invalid_params("this can't be stopped"));
        }
        pass(agent.peer(), &method, params).await
    }

    async fn extension_notification(&self, method: String, params: Raw, _: ClientHandle) {
        if let Ok(agent) = self.0.agent() {
            let _ = agent.peer().notify(&method, wire::write(&params, agent.dialect())).await;
        }
    }
}

/// Until one of both is done.
async fn either(one: impl Future<Output = ()>, other: impl Future<Output = ()>) {
    tokio::select! {
        () = one => {}
        () = other => {}
    }
}

/// Passes a request on as it came.
async fn pass(to: &Peer, method: &str, params: Raw) -> Result<Raw> {
    let pending = to.call(method, wire::write(&params, Dialect::V2), wire::keep).await;
    pending.await.map_err(|error| Error::of_call(error, method, Duration::ZERO))
}

/// The `_meta` of the agent's answer goes with ours.
fn noted<T>(result: Result<T>, answer: Option<schema::Meta>) -> Result<T> {
    answer.into_iter().for_each(meta::answer);
    result.map_err(told)
}

/// An error of the agent as the client is told it.
fn told(error: Error) -> Error {
    match error {
        Error::AuthRequired { error, methods } => {
            let ids: Vec<String> = methods.iter().map(|method| method.id().to_owned()).collect();
            Error::login_needed(error.message, &ids)
        }
        error @ (Error::Unsupported(_) | Error::NotInDialect { .. }) => Error::invalid_params(error.to_string()),
        // What happened to the agent is no secret of ours.
        error @ (Error::Start(_)
        | Error::Closed(_)
        | Error::TimedOut { .. }
        | Error::Version(_)
        | Error::Unreadable(_)) => Error::wire(-32603, error.to_string()),
        error => error,
    }
}
