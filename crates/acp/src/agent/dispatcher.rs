//! The agent's engine: every call of the client arrives here, is checked against the protocol, and goes to its handler.

use super::About;
use super::attach;
use super::client::ClientHandle;
use super::erased::AnyAgent;
use super::live_session::{LiveSession, Place, Prompt};
use super::memory::Memory;
use super::negotiated::Negotiated;
use super::server::Settings;
use super::session_writer::{Stoppable, reply};
use super::setup::Loading;
use crate::error::{Error, Result};
use crate::mailbox::Mailbox;
use crate::meta;
use crate::options::{fitted, set_value};
use crate::request::takes_block;
use crate::wire;
use crate::work::{self, Work};
use std::collections::HashMap;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use tieline_json::Reader;
use tieline_rpc::sync::{Condition, Lock};
use tieline_rpc::{IdRule, Peer, Responder, Service};
use tieline_schema::{
    AgentCall, AuthMethod, ConfigOption, ConfigValue, ContentBlock, Dialect, Done, ListResponse, ModeUpdate, Replay,
    SessionId, SessionInfo, SetOptionRequest, SetOptionResponse, mode_option,
};
use tracing::Instrument;

pub(crate) struct Dispatcher(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(super) agent: Box<dyn AnyAgent>,
    about: OnceLock<About>,
    pub(super) peer: Peer,
    pub(super) settings: Settings,
    pub(super) exact_ids: AtomicBool,
    mailbox: Arc<Mailbox>,
    /// A hello is being answered: nothing else is read meanwhile.
    greeting: AtomicBool,
    greeted: Condition,
    state: Mutex<Known>,
    /// What was negotiated, once a request other than `initialize` has come: then it stands.
    pub(super) settled: OnceLock<Arc<Negotiated>>,
}

pub(super) struct Known {
    pub(super) negotiated: Option<Arc<Negotiated>>,
    pub(super) sessions: HashMap<SessionId, Arc<LiveSession>>,
    /// Sessions that are being taken up.
    pub(super) loading: Vec<Loading>,
}

impl Dispatcher {
    pub(crate) fn new(agent: Box<dyn AnyAgent>, peer: Peer, settings: &Settings) -> Self {
        let (about, settings) = (OnceLock::new(), settings.clone());
        let (greeting, greeted) = (AtomicBool::new(false), Condition::default());
        let state = Known { negotiated: None, sessions: HashMap::new(), loading: Vec::new() };
        let (exact_ids, mailbox) = (AtomicBool::new(false), Mailbox::new(settings.deadline, &settings.limits));
        let (state, settled) = (Mutex::new(state), OnceLock::new());
        Self(Arc::new(Inner { agent, about, peer, settings, exact_ids, mailbox, greeting, greeted, state, settled }))
    }

    /// Waits until no turn runs.
    pub(crate) async fn idle(&self) {
        for live in self.0.live_sessions() {
            live.idle().await;
        }
    }

    /// Cancels every turn.
    pub(crate) fn cancel_all(&self) {
        for live in self.0.live_sessions() {
            live.cancel(None);
        }
    }

    /// Lets every session go.
    pub(crate) async fn close_all(&self) {
        for live in self.0.live_sessions() {
            live.leave().await;
            self.0.let_go(&live);
        }
    }
}

impl Service for Dispatcher {
    type Call = AgentCall;

    fn decode(&self, method: &str, params: &mut Reader<'_>) -> Result<Option<AgentCall>, tieline_json::Error> {
        match AgentCall::decode(method, params)? {
            // Who stands for another agent takes what it does not know itself, and what that one keeps the book of.
            None | Some(AgentCall::CancelToolCall(_) | AgentCall::CancelTerminal(_)) if self.0.settings.relays => {
                Ok(Some(AgentCall::Extension { method: method.into(), params: params.keep()? }))
            }
            None if self.0.about().capabilities.attach => attach::read(method, params),
            call => Ok(call),
        }
    }

    fn request(&self, call: AgentCall, responder: Responder) {
        let allowed = match &call {
            AgentCall::Initialize(_) => Ok(()),
            call => self.0.settle().and_then(|negotiated| self.0.gate(call, negotiated)),
        };
        if let Err(error) = allowed {
            return responder.fail_now(&error.to_wire());
        }
        // Bookkeeping that depends on the order of messages is done here, on the reader.
        match call {
            AgentCall::Initialize(request) => {
                self.0.greeting.store(true, Ordering::SeqCst);
                let (dispatcher, received) = (Arc::clone(&self.0), request.meta.clone());
                tokio::spawn(meta::scope(received, async move {
                    let greeted = Greeted(&dispatcher);
                    let client = dispatcher.greet(*request, responder).await;
                    drop(greeted);
                    if let Some(client) = client {
                        dispatcher.agent.initialized(client).await;
                    }
                }));
            }
            AgentCall::Prompt(request) => match self.0.live(&request.session_id) {
                Err(error) => responder.fail_now(&error.to_wire()),
                Ok(live) => live.accept(Prompt::new(request, responder)),
            },
            AgentCall::Resume(request) => {
                // A close that comes right behind it finds it.
                let loading = self.0.begin_loading(&request.session_id, responder.cancel());
                let span = tracing::debug_span!("call", method = "resume");
                let received = request.meta.clone();
                let resume = Arc::clone(&self.0).resume(*request, responder, loading);
                work::start(Box::pin(meta::scope(received, resume).instrument(span)));
            }
            call => work::start(Arc::clone(&self.0).work(call, responder)),
        }
    }

    fn notification(&self, call: AgentCall, bytes: usize) {
        // Nothing counts before the hello.
        let Ok(negotiated) = self.0.settle() else { return };
        match call {
            AgentCall::Cancel(request) => {
                if let Ok(live) = self.0.live(&request.session_id) {
                    live.client_cancels(request.meta);
                }
            }
            AgentCall::Extension { method, params } => {
                let (dispatcher, client) = (Arc::clone(&self.0), self.0.client(Arc::clone(negotiated)));
                let heard = async move { dispatcher.agent.extension_notification(method.into(), params, client).await };
                self.0.mailbox.put(bytes, heard);
            }
            _ => tracing::debug!("a request without an id"),
        }
    }

    fn pause(&self) -> Option<Work<'static, ()>> {
        if !self.0.is_greeting() {
            return self.0.mailbox.pause();
        }
        let inner = Arc::clone(&self.0);
        Some(Box::pin(async move { inner.greeted.wait_for(|| (!inner.is_greeting()).then_some(())).await }))
    }

    fn id_rule(&self) -> IdRule {
        if self.0.exact_ids.load(Ordering::Relaxed) { IdRule::Exact } else { IdRule::Liberal }
    }

    fn refusal(&self, method: &str) -> Option<tieline_rpc::Error> {
        let early = method != "initialize" && self.0.state().negotiated.is_none();
        early.then(|| Error::invalid_request("not_initialized").to_wire())
    }

    fn is_lifecycle(&self, method: &str) -> bool {
        matches!(
            method,
            "initialize"
                | "authenticate"
                | "auth/login"
                | "session/new"
                | "session/load"
                | attach::ATTACH
                | "session/resume"
                | "session/prompt"
        )
    }
}

/// All options after a change, if there was one.
type Changed = Result<Option<Vec<ConfigOption>>>;

/// A hello is answered when this goes, also by a panic.
struct Greeted<'d>(&'d Inner);

impl Drop for Greeted<'_> {
    fn drop(&mut self) {
        self.0.greeting.store(false, Ordering::SeqCst);
        self.0.greeted.notify_all();
    }
}

impl Inner {
    fn is_greeting(&self) -> bool {
        self.greeting.load(Ordering::SeqCst)
    }

    pub(super) fn about(&self) -> &About {
        self.about.get_or_init(|| self.agent.about())
    }

    pub(super) fn state(&self) -> MutexGuard<'_, Known> {
        self.state.locked()
    }

    pub(crate) fn live_sessions(&self) -> Vec<Arc<LiveSession>> {
        self.state().sessions.values().cloned().collect()
    }

    pub(super) fn live(&self, id: &SessionId) -> Result<Arc<LiveSession>> {
        self.state().sessions.get(id).cloned().ok_or_else(|| Error::unknown_session(id))
    }

    /// Where the engine remembers sessions, if it does.
    pub(super) fn memory(&self) -> Option<&Memory> {
        self.about().memory.as_ref()
    }

    /// A session is over on this connection.
    pub(super) fn let_go(&self, live: &LiveSession) {
        if let Some(memory) = self.memory() {
            memory.closed(&live.writer);
        }
        live.writer.close();
    }

    /// What the client is told of an error.
    pub(super) fn to_wire(&self, error: &Error) -> tieline_rpc::Error {
        self.settle().map_or_else(|_| error.to_wire(), |negotiated| negotiated.to_wire(error))
    }

    /// The client, outside any session.
    pub(super) fn client(&self, negotiated: Arc<Negotiated>) -> ClientHandle {
        ClientHandle::new(self.peer.clone(), negotiated, None)
    }

    /// What was negotiated. From now on it stands.
    pub(super) fn settle(&self) -> Result<&Arc<Negotiated>> {
        if let Some(settled) = self.settled.get() {
            return Ok(settled);
        }
        let negotiated = self.state().negotiated.clone();
        let negotiated = negotiated.ok_or_else(|| Error::invalid_request("not_initialized"))?;
        Ok(self.settled.get_or_init(|| negotiated))
    }

    /// Refuses what was not offered.
    fn gate(&self, call: &AgentCall, negotiated: &Negotiated) -> Result<()> {
        let can = &self.about().capabilities;
        let newest = negotiated.dialect == Dialect::V2;
        let login = !self.about().auth_methods.is_empty();
        let offered = match call {
            AgentCall::Login(_) => login,
            AgentCall::Logout(_) => login && (newest || can.logout),
            AgentCall::Resume(request) if request.replay == Replay::None => newest || can.resume,
            AgentCall::Resume(_) => newest || can.load,
            AgentCall::List(_) => newest || can.list,
            AgentCall::Close(_) => newest || can.close,
            AgentCall::Delete(_) => can.delete,
            AgentCall::Prompt(request) if can.session => return self.check_prompt(&request.prompt, negotiated),
            _ => true,
        };
        let is_session = !matches!(call, AgentCall::Login(_) | AgentCall::Logout(_) | AgentCall::Extension { .. });
        if offered && (can.session || !is_session) {
            return Ok(());
        }
        Err(Error::method_not_found(call.wire_name(negotiated.dialect).unwrap_or_default()))
    }

    fn check_prompt(&self, prompt: &[ContentBlock], negotiated: &Negotiated) -> Result<()> {
        let can = &self.about().capabilities;
        if prompt.is_empty() && negotiated.dialect == Dialect::V2 {
            return Err(Error::invalid_params("a prompt needs at least one block"));
        }
        for (index, block) in prompt.iter().enumerate() {
            if !takes_block(can, block) {
                let kind = block.tag();
                return Err(Error::invalid_params(format!("prompt.{index}: this agent takes no `{kind}` blocks")));
            }
        }
        Ok(())
    }

    /// Everything that may take its time, to be run in a task of its own. Boxed one by one: opening a session is small, and
    /// should not have the size of the largest of them.
    fn work(self: Arc<Self>, call: AgentCall, responder: Responder) -> Work<'static, ()> {
        let dialect = self.settle().map_or(Dialect::V1, |negotiated| negotiated.dialect);
        let span = tracing::debug_span!("call", method = call.wire_name(dialect));
        let received = call.meta().cloned();
        match call {
            AgentCall::NewSession(request) => {
                Box::pin(meta::scope(received, self.open(request, responder)).instrument(span))
            }
            call => {
                let answered = async move {
                    let done = {
                        let work = pin!(self.perform(call, dialect));
                        self.unless_withdrawn(&responder, work).await
                    };
                    self.peer.room().await;
                    match done {
                        Ok(Some(json)) => responder.reply_now(|out| out.extend_from_slice(&json)),
                        Ok(None) => reply(responder, &Done { meta: meta::taken() }, dialect),
                        Err(error) => responder.fail_now(&self.to_wire(&error)),
                    }
                };
                Box::pin(meta::scope(received, answered).instrument(span))
            }
        }
    }

    /// Who stands for another agent lets go what the client does not want any more; others do it to its end.
    pub(super) async fn unless_withdrawn<T>(
        &self,
        responder: &Responder,
        work: Pin<&mut (dyn Future<Output = Result<T>> + Send)>,
    ) -> Result<T> {
        if !self.settings.relays {
            return work.await;
        }
        Box::pin(async {
            tokio::select! {
                biased;
                () = responder.cancel().cancelled() => Err(Error::Cancelled),
                done = work => done,
            }
        })
        .await
    }

    /// Does what is asked and gives the answer, if there is more to say than that it is done. What is seldom asked is
    /// boxed, so that all of it together is small; an `async fn` would keep the call twice.
    fn perform(&self, call: AgentCall, dialect: Dialect) -> impl Future<Output = Result<Option<Vec<u8>>>> + Send + '_ {
        let client = || self.settle().map(|negotiated| self.client(Arc::clone(negotiated)));
        async move {
            match call {
                AgentCall::List(request) => {
                    let list = Box::pin(self.list(request)).await?;
                    let meta = list.meta.or_else(meta::taken);
                    return Ok(Some(wire::encode(&ListResponse { meta, ..list }, dialect)));
                }
                AgentCall::SetOption(request) => {
                    return Ok(Some(wire::encode(&Box::pin(self.set_option(request)).await?, dialect)));
                }
                AgentCall::Extension { method, params } if &*method == attach::DETACH => {
                    return Box::pin(self.detach(&params)).await.map(Some);
                }
                AgentCall::Extension { method, params } => {
                    let answer = self.agent.extension(method.into(), params, client()?).await?;
                    return Ok(Some(wire::encode(&answer, dialect)));
                }
                AgentCall::SetMode(request) => self.set_mode(&request.session_id, request.mode_id).await?,
                AgentCall::Login(request) => self.login(request.method_id, client()?).await?,
                AgentCall::Logout(_) => self.agent.logout(client()?).await?,
                AgentCall::Close(request) => Box::pin(self.close(&request.session_id, dialect)).await?,
                AgentCall::Delete(request) => Box::pin(self.delete(request.session_id)).await?,
                AgentCall::CancelToolCall(request) => {
                    self.stop(&request.session_id, &Stoppable::ToolCall(request.tool_call_id))?;
                }
                AgentCall::CancelTerminal(request) => {
                    self.stop(&request.session_id, &Stoppable::Terminal(request.terminal_id))?;
                }
                // Handled on the reader; `session/cancel` with an id is answered like what it does.
                AgentCall::Cancel(request) => self.live(&request.session_id)?.client_cancels(request.meta),
                AgentCall::Initialize(_) | AgentCall::Prompt(_) | AgentCall::NewSession(_) | AgentCall::Resume(_) => {}
            }
            Ok(None)
        }
    }

    async fn login(&self, method_id: String, client: ClientHandle) -> Result<()> {
        let known = self.about().auth_methods.iter().find(|method| method.id() == method_id);
        match known {
            Some(AuthMethod::Terminal(_)) => Err(Error::invalid_params("this method is run in a terminal")),
            Some(_) => self.agent.login(method_id, client).await,
            None => Err(Error::invalid_params("unknown methodId")),
        }
    }

    async fn set_mode(&self, id: &SessionId, mode_id: String) -> Result<()> {
        let live = self.live(id)?;
        let _one_at_a_time = live.change().await;
        let mode = |options: &[ConfigOption]| mode_option(options).map(|mode| mode.config_id.clone());
        let mode = |options: &[ConfigOption]| mode(options).ok_or_else(|| Error::method_not_found("session/set_mode"));
        if let Some(after) = Self::change(&live, mode, ConfigValue::Id(mode_id))?.await? {
            // Modes and options are two views of one thing: the other view is told.
            Box::pin(live.writer.options_changed(after)).await?;
        }
        Ok(())
    }

    async fn set_option(&self, request: SetOptionRequest) -> Result<SetOptionResponse> {
        let live = self.live(&request.session_id)?;
        let _one_at_a_time = live.change().await;
        let mode = |list: &[ConfigOption]| mode_option(list).and_then(ConfigOption::value);
        let mode_before = live.writer.look_at_options(mode);
        let after = Self::change(&live, |_| Ok(request.config_id), request.value)?.await?;
        let after = after.unwrap_or_else(|| live.writer.options());
        let mode_after = mode(&after).filter(|after| mode_before.as_ref() != Some(after));
        if let (Dialect::V1, Some(ConfigValue::Id(mode_id))) = (live.writer.dialect(), mode_after) {
            live.writer.send(None, ModeUpdate { mode_id, ..Default::default() }.into(), None).await?;
        }
        Ok(SetOptionResponse { config_options: live.writer.shown(after).0, meta: meta::taken(), ..Default::default() })
    }

    /// Changes one option: checked at once, done by the session when it is waited for. Gives all options if any of them changed.
    fn change(
        live: &LiveSession,
        which: impl FnOnce(&[ConfigOption]) -> Result<String>,
        value: ConfigValue,
    ) -> Result<impl Future<Output = Changed> + Send> {
        let (id, value, moved) = live.writer.look_at_options(|options| {
            let id = which(options)?;
            let value = fitted(options, &id, value);
            if options.iter().any(|option| option.config_id == id && option.has_value(&value)) {
                return Ok((id, value, None));
            }
            let mut options = options.to_vec();
            if set_value(&mut options, &id, &value) {
                return Ok((id, value, Some(options)));
            }
            Err(Error::invalid_params(format!("no option `{id}` with this value")))
        })?;
        let work = live.session.set_option(id, value);
        Ok(async move {
            let changed = work.await?.or(moved);
            if let Some(options) = &changed {
                live.writer.set_options(options.clone());
            }
            Ok(changed)
        })
    }

    fn stop(&self, id: &SessionId, item: &Stoppable) -> Result<()> {
        if self.live(id)?.writer.stop(item) { Ok(()) } else { Err(Error::invalid_params("this can't be stopped")) }
    }
}

pub(super) fn live_info(live: &LiveSession) -> SessionInfo {
    let Place { cwd, additional_directories } = live.place().clone();
    SessionInfo {
        session_id: live.writer.id().clone(),
        cwd,
        additional_directories,
        title: live.writer.lock().title.clone(),
        ..SessionInfo::default()
    }
}
