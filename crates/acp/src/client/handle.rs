//! An agent that was reached: what it is, and everything that is asked of it outside a session.

use super::builder::Deadlines;
use super::dispatcher::DispatcherState;
use super::session::{Core, Session, check_paths};
use crate::error::{Error, Result};
use crate::meta::Carried;
use crate::request::{self, absolute, offered, reaches_server, takes_block, within};
use crate::wire;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tieline_rpc::{CallError, Peer};
use tieline_schema::{
    AgentCall, AgentCapabilities, AuthMethod, ContentBlock, Decode, Dialect, Done, Implementation, InitializeResponse,
    ListRequest, ListResponse, LoginRequest, McpServer, Meta, NewSessionRequest, Replay, ResumeRequest, SessionId,
    SessionRequest, SessionSetup, Update,
};
use tokio::time::timeout;

/// A handle on an agent. Clones are the same connection; it ends when the last clone and session are gone.
#[derive(Clone)]
pub struct AgentHandle {
    pub(crate) shared: Arc<Shared>,
    carried: Carried,
}

pub(crate) struct Shared {
    pub(crate) peer: Peer,
    pub(crate) about: InitializeResponse,
    pub(crate) dialect: Dialect,
    pub(crate) dispatcher: Arc<DispatcherState>,
    pub(crate) deadlines: Deadlines,
    /// What keeps the connection alive: its reader and, if we started it, the agent's process.
    pub(crate) keeper: super::builder::Keeper,
}

impl std::fmt::Debug for AgentHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AgentHandle")
            .field("info", &self.shared.about.info)
            .field("dialect", &self.shared.dialect)
            .finish_non_exhaustive()
    }
}

impl AgentHandle {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, carried: Carried::default() }
    }

    /// The same agent; what is asked or told through this handle carries this `_meta`.
    #[must_use]
    pub fn with_meta(&self, meta: Meta) -> Self {
        Self { shared: Arc::clone(&self.shared), carried: Carried::new(meta) }
    }

    /// The `_meta` of the last answer to what was asked through this handle; only of one that [`Self::with_meta`] gave.
    pub fn answer_meta(&self) -> Option<Meta> {
        self.carried.answered()
    }

    /// The dialect that was agreed.
    pub fn dialect(&self) -> Dialect {
        self.shared.dialect
    }

    /// Who the agent is, if it said so.
    pub fn info(&self) -> Option<&Implementation> {
        self.shared.about.info.as_ref()
    }

    /// What the agent offers, with what its dialect takes for granted.
    pub fn capabilities(&self) -> &AgentCapabilities {
        &self.shared.about.capabilities
    }

    /// The ways to log in. That there are some does not mean that login is needed: [`Error::AuthRequired`] does.
    pub fn auth_methods(&self) -> &[AuthMethod] {
        &self.shared.about.auth_methods
    }

    /// The whole answer to the hello.
    pub fn about(&self) -> &InitializeResponse {
        &self.shared.about
    }

    /// Opens a session in a directory; an absolute path.
    pub async fn open(&self, cwd: impl Into<String>) -> Result<Session> {
        self.open_with(NewSessionRequest { cwd: cwd.into(), ..NewSessionRequest::default() }).await
    }

    /// Opens a session with more roots, MCP servers or `_meta`.
    pub async fn open_with(&self, request: NewSessionRequest) -> Result<Session> {
        self.check_setup(&request.cwd, &request.additional_directories, request.mcp_servers.as_deref())?;
        self.set_up(AgentCall::NewSession(request), None, None).await
    }

    /// Takes up a session and has its conversation told again: read it with [`Session::next`].
    pub async fn load(&self, id: impl Into<SessionId>, cwd: impl Into<String>) -> Result<Session> {
        let (session_id, cwd) = (id.into(), cwd.into());
        self.resume_with(ResumeRequest { session_id, cwd, replay: Replay::Start, ..ResumeRequest::default() }).await
    }

    /// Takes up a session without its conversation.
    pub async fn resume(&self, id: impl Into<SessionId>, cwd: impl Into<String>) -> Result<Session> {
        let (session_id, cwd) = (id.into(), cwd.into());
        self.resume_with(ResumeRequest { session_id, cwd, ..ResumeRequest::default() }).await
    }

    /// Takes up a session with more roots, MCP servers or `_meta`.
    ///
    /// What is told again waits to be read with [`Session::next`], within the byte budget of the client. A conversation may be
    /// longer than that: [`AgentHandle::resume_telling`] takes any.
    pub async fn resume_with(&self, request: ResumeRequest) -> Result<Session> {
        let id = self.check_resume(&request)?;
        self.set_up(AgentCall::Resume(Box::new(request)), Some(id), None).await
    }

    /// Takes up a session and calls `hear` with what is told again before the agent answers, however much that is.
    pub async fn resume_telling(&self, request: ResumeRequest, mut hear: impl FnMut(Update) + Send) -> Result<Session> {
        let id = self.check_resume(&request)?;
        self.set_up(AgentCall::Resume(Box::new(request)), Some(id), Some(&mut hear)).await
    }

    fn check_resume(&self, request: &ResumeRequest) -> Result<SessionId> {
        let can = self.capabilities();
        let (can, what) = match request.replay {
            Replay::None => (can.resume, "resuming sessions"),
            _ => (can.load, "loading sessions"),
        };
        offered(can, what)?;
        self.check_setup(&request.cwd, &request.additional_directories, request.mcp_servers.as_deref())?;
        Ok(request.session_id.clone())
    }

    fn check_setup(&self, cwd: &String, roots: &[String], servers: Option<&[McpServer]>) -> Result<()> {
        let can = self.capabilities();
        offered(can.session, "sessions")?;
        check_paths(std::iter::once(cwd).chain(roots))?;
        offered(roots.is_empty() || can.additional_directories, "additional directories")?;
        for server in servers.unwrap_or_default() {
            let unknown = matches!(server, McpServer::Other(_)) && self.dialect() != Dialect::V1;
            offered(unknown || reaches_server(can, server), &format!("MCP servers of the kind `{}`", server.kind()))?;
        }
        Ok(())
    }

    /// Opens or takes up a session. Its queue is there before the answer is handled, so no update is lost: neither one that
    /// comes before the answer (some agents do that) nor one right behind it.
    async fn set_up(
        &self,
        mut call: AgentCall,
        known: Option<SessionId>,
        mut hear: Option<&mut (dyn FnMut(Update) + Send)>,
    ) -> Result<Session> {
        let shared = &self.shared;
        self.carried.fill(call.meta_mut());
        let dispatcher = Arc::clone(&shared.dispatcher);
        let expecting = dispatcher.expect();
        let early = known.clone().map(|id| dispatcher.queue(&id));
        let method = shared.method(&call)?;
        let registered = Arc::clone(&dispatcher);
        let id = known.clone();
        let hears = hear.is_some();
        let read = move |json: &mut tieline_json::Reader<'_>| {
            let setup = SessionSetup::decode(json)?;
            let id = id.or(setup.session_id.clone()).ok_or_else(|| tieline_json::Error::missing("sessionId"))?;
            let queue = registered.queue(&id);
            queue.set_up(setup.config_options.clone(), setup.commands.clone());
            // Taken here, on the reader: what comes behind the answer is not told again.
            let told = if hears { queue.take_all() } else { Vec::new() };
            Ok((id, queue, setup, told))
        };
        let limit = shared.deadlines.set_up;
        let work = async {
            shared.peer.call(method, wire::write(&call, shared.dialect), self.carried.reading(read)).await.await
        };
        let work = timeout(limit, work);
        tokio::pin!(work);
        let answer = loop {
            let (Some(hear), Some(queue)) = (&mut hear, &early) else { break (&mut work).await };
            tokio::select! {
                biased;
                answer = &mut work => break answer,
                Some(update) = queue.next() => hear(update),
            }
        };
        let opened = answer.unwrap_or(Err(CallError::TimedOut)).map(|(id, queue, setup, told)| {
            if let Some(hear) = &mut hear {
                told.into_iter().for_each(hear);
            }
            queue.claim();
            let (modes_only, meta) = (setup.mode_from_modes, setup.meta);
            Session::new(Core { id, queue, shared: Arc::clone(shared), modes_only, meta })
        });
        // Behind the claim: a queue that nobody claimed is swept, one of an open session stays.
        drop(early);
        drop(expecting);
        match opened {
            Ok(session) => Ok(session),
            Err(error) => Err(shared.explain(Error::of_call(error, method, limit)).await),
        }
    }

    /// Lists sessions, one page.
    pub async fn list(&self, request: ListRequest) -> Result<ListResponse> {
        offered(self.capabilities().list, "listing sessions")?;
        if let Some(cwd) = &request.cwd {
            absolute(cwd)?;
        }
        self.shared.ask(AgentCall::List(request), &self.carried).await
    }

    /// Deletes a session.
    pub async fn delete(&self, id: impl Into<SessionId>) -> Result<()> {
        offered(self.capabilities().delete, "deleting sessions")?;
        let call = AgentCall::Delete(SessionRequest::from(id.into()));
        self.shared.ask::<Done>(call, &self.carried).await.map(drop)
    }

    /// Logs in with an advertised method that the agent handles itself. Terminal methods are run as a program instead.
    pub async fn login(&self, method_id: &str) -> Result<()> {
        match self.auth_methods().iter().find(|method| method.id() == method_id) {
            Some(AuthMethod::Terminal(_)) => Err(Error::Invalid("this method is run in a terminal".into())),
            Some(_) => {
                let call = AgentCall::Login(LoginRequest { method_id: method_id.into(), ..Default::default() });
                // A person may have to act, so there is no deadline.
                self.shared.ask_reading(call, None, &self.carried, Done::decode).await.map(drop)
            }
            None => Err(Error::Invalid(format!("the agent has no login method `{method_id}`"))),
        }
    }

    /// Logs out.
    pub async fn logout(&self) -> Result<()> {
        offered(self.capabilities().logout, "logging out")?;
        self.shared.ask::<Done>(AgentCall::Logout(Done::default()), &self.carried).await.map(drop)
    }

    /// Calls an extension method of the agent; its name starts with `_`.
    pub async fn call<T: DeserializeOwned>(&self, method: &str, params: &(impl Serialize + ?Sized)) -> Result<T> {
        let how = (self.dialect(), &self.carried);
        let answer = request::call_extension(&self.shared.peer, how, method, params).await;
        answer.map_err(|error| error.of_agent(self.auth_methods()))
    }

    /// Sends an extension notification to the agent; its name starts with `_`.
    pub async fn notify(&self, method: &str, params: &(impl Serialize + ?Sized)) -> Result<()> {
        request::notify_extension(&self.shared.peer, self.dialect(), method, params).await
    }

    /// Whether the agent was told of the files and terminals that are offered, and can ask for them.
    pub(crate) fn hears_of_tools(&self) -> bool {
        self.dialect() != Dialect::V2 && self.shared.dispatcher.offered.load(Ordering::SeqCst)
    }

    /// The connection itself, for what has no method here (batches, say).
    pub fn peer(&self) -> &Peer {
        &self.shared.peer
    }

    /// Waits until the agent is gone, and says why.
    pub async fn closed(&self) -> Error {
        self.shared.peer.closed().await;
        self.shared.explain(Error::Closed("the agent closed the connection".into())).await
    }

    /// Ends the connection in good order: our end is closed, and an agent that we started gets time to end before it is
    /// made to.
    pub async fn close(&self) {
        self.shared.keeper.close(&self.shared.peer).await;
    }
}

impl Shared {
    pub(crate) async fn ask<T: Decode + Send + 'static>(&self, call: AgentCall, carried: &Carried) -> Result<T> {
        self.ask_reading(call, Some(self.deadlines.quick), carried, |json| T::decode(json)).await
    }

    /// `read` runs on the connection's reader, before the next message is looked at.
    pub(crate) async fn ask_reading<T: Send + 'static>(
        &self,
        mut call: AgentCall,
        limit: Option<Duration>,
        carried: &Carried,
        read: impl FnOnce(&mut tieline_json::Reader<'_>) -> std::result::Result<T, tieline_json::Error> + Send + 'static,
    ) -> Result<T> {
        carried.fill(call.meta_mut());
        let method = self.method(&call)?;
        let read = carried.reading(read);
        let work = async { self.peer.call(method, wire::write(&call, self.dialect), read).await.await };
        match within(limit, work).await {
            Ok(answer) => Ok(answer),
            Err(error) => Err(self.explain(Error::of_call(error, method, limit.unwrap_or_default())).await),
        }
    }

    fn method<'c>(&self, call: &'c AgentCall) -> Result<&'c str> {
        let dialect = self.dialect;
        let way_out = "ask only where `AgentHandle::dialect` says that it can be said";
        call.wire_name(dialect).ok_or(Error::NotInDialect { what: "what was asked", dialect, way_out })
    }

    /// If the agent's process has ended, that is the better story.
    pub(crate) async fn explain(&self, error: Error) -> Error {
        match error {
            Error::Closed(what) => self.keeper.explain(what).await,
            other => other.of_agent(&self.about.auth_methods),
        }
    }

    pub(crate) fn check_prompt(&self, prompt: &[ContentBlock]) -> Result<()> {
        let can = &self.about.capabilities;
        offered(can.session, "sessions")?;
        if prompt.is_empty() {
            return Err(Error::Invalid("a prompt needs at least one block".into()));
        }
        for block in prompt {
            let unknown = matches!(block, ContentBlock::Other(_)) && self.dialect != Dialect::V1;
            offered(unknown || takes_block(can, block), &format!("`{}` blocks in prompts", block.tag()))?;
        }
        Ok(())
    }
}
