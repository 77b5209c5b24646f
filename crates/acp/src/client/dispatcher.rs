//! The client's engine: updates go to their session's queue, requests are checked and go to the handler.

use super::budget::Budget;
use super::handle::{AgentHandle, Shared};
use super::handler::Handler;
use super::long_chunk;
use super::update_queue::UpdateQueue;
use crate::error::{Error, Result};
use crate::mailbox::Mailbox;
use crate::meta;
use crate::wire::{self, encode};
use crate::work::{self, Work};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use tieline_json::Reader;
use tieline_rpc::sync::Lock;
use tieline_rpc::{Cancel, Dropped, IdRule, Responder, Service};
use tieline_schema::{
    ClientCall, ClientCapabilities, CreateTerminalResponse, Dialect, Done, ElicitAction, ElicitMode, ElicitRequest,
    ElicitResponse, ElicitScope, ExitStatus, InitializeResponse, PART_BYTES, PermissionOutcome, PermissionRequest,
    PermissionResponse, PermissionSubject, Raw, ReadTextFileResponse, SessionId, SessionNotification,
    TerminalOutputResponse, ToolCallUpdate, Update, WriteTextFileResponse, cut_long, is_absolute, parts_bytes,
    parts_of,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tracing::Instrument;

/// Gemini CLI (0.2 to 0.61) reads a file before it writes it, and its SDK hides from it what an error says: whatever we answer,
/// it gives up and cannot make a file. It can if a missing file is an empty one.
const MISSING_IS_EMPTY: &str = "gemini-cli";
/// The ways to log in that it offers. Up to 0.30 it does not say who it is, but it has these.
const GEMINI_LOGINS: [&str; 2] = ["oauth-personal", "gemini-api-key"];

/// The name of the agent that answered the hello like this, if it is known.
pub(super) fn name_of(answer: &InitializeResponse) -> Option<String> {
    let logs_in = |id: &&str| answer.auth_methods.iter().any(|method| method.id() == *id);
    match &answer.info {
        Some(info) => Some(info.name.clone()),
        None => GEMINI_LOGINS.iter().all(logs_in).then(|| MISSING_IS_EMPTY.to_owned()),
    }
}

/// The code for a file that is not there.
const RESOURCE_NOT_FOUND: i64 = -32002;

/// A question with more parts is refused: nobody can read it, and each takes far more memory than it has text.
const MAX_QUESTION_PARTS: usize = 10_000;
/// All questions of a connection that stand take no more memory than this, in KiB.
const MAX_ASKED_KIB: u32 = 16 << 10;
/// The code for what may be tried again later.
const OVERLOADED: i64 = -32001;

/// So many sessions that nobody opened here are kept in mind while one is being opened.
const MAX_UNKNOWN_SESSIONS: usize = 64;

pub(crate) struct Dispatcher<H> {
    pub(crate) handler: Arc<H>,
    pub(crate) state: Arc<DispatcherState>,
    pub(crate) mailbox: Arc<Mailbox>,
}

/// What the dispatcher, the sessions and the handle share.
pub(crate) struct DispatcherState {
    queues: Mutex<HashMap<SessionId, Arc<UpdateQueue>>>,
    budget: Arc<Budget>,
    /// Longer updates are cut, in bytes on the wire.
    longest: usize,
    /// Room for the questions that stand, in KiB.
    questions: Arc<Semaphore>,
    capabilities: ClientCapabilities,
    pub(crate) dialect: OnceLock<Dialect>,
    /// The hello had words for files and terminals: version 2 has none, so there they are not offered.
    pub(crate) offered: AtomicBool,
    /// The agent, once it has answered the hello; the sender is gone if it does not.
    pub(crate) ready: watch::Receiver<Option<Weak<Shared>>>,
    /// The agent's name for itself.
    pub(crate) agent: OnceLock<String>,
    /// How many sessions are being opened: only then may updates come for one that is not known yet.
    expecting: AtomicUsize,
}

/// A session is being opened while this lives.
pub(crate) struct Expecting(Arc<DispatcherState>);

impl Drop for Expecting {
    fn drop(&mut self) {
        if self.0.expecting.fetch_sub(1, Ordering::SeqCst) == 1 {
            // Queues that nobody claimed belong to sessions of others.
            self.0.queues().retain(|_, queue| queue.is_claimed());
        }
    }
}

impl DispatcherState {
    pub(crate) fn new(
        capabilities: ClientCapabilities,
        budget: Arc<Budget>,
        longest: usize,
        ready: watch::Receiver<Option<Weak<Shared>>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            queues: Mutex::default(),
            budget,
            longest,
            questions: Arc::new(Semaphore::new(MAX_ASKED_KIB as usize)),
            capabilities,
            dialect: OnceLock::new(),
            offered: AtomicBool::new(false),
            ready,
            agent: OnceLock::new(),
            expecting: AtomicUsize::new(0),
        })
    }

    fn queues(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<UpdateQueue>>> {
        self.queues.locked()
    }

    /// The agent, for a handler; waits until it has answered the hello.
    async fn handle(&self) -> Result<AgentHandle> {
        let mut ready = self.ready.clone();
        let agent = ready.wait_for(Option::is_some).await.ok().and_then(|agent| agent.as_ref().and_then(Weak::upgrade));
        agent.map(AgentHandle::new).ok_or_else(|| Error::Closed("the agent is gone".into()))
    }

    pub(crate) fn expect(self: &Arc<Self>) -> Expecting {
        self.expecting.fetch_add(1, Ordering::SeqCst);
        Expecting(Arc::clone(self))
    }

    /// The queue of a session, made if needed.
    pub(crate) fn queue(&self, id: &SessionId) -> Arc<UpdateQueue> {
        let mut queues = self.queues();
        Arc::clone(queues.entry(id.clone()).or_insert_with(|| UpdateQueue::new(Arc::clone(&self.budget))))
    }

    fn find(&self, id: &SessionId) -> Option<Arc<UpdateQueue>> {
        self.queues().get(id).cloned()
    }

    /// Whether a session is open here, or may be in a moment.
    fn may_be_open(&self, id: &SessionId) -> bool {
        self.expecting.load(Ordering::SeqCst) > 0 || self.queues().contains_key(id)
    }

    /// The queue of the one session that is open; what belongs to a request of ours has to do with it.
    fn only(&self) -> Option<Arc<UpdateQueue>> {
        let queues = self.queues();
        let mut open = queues.values().filter(|queue| queue.is_claimed());
        open.next().cloned().filter(|_| open.next().is_none())
    }

    pub(crate) fn forget(&self, id: &SessionId) {
        let queue = self.queues().remove(id);
        if let Some(queue) = queue {
            queue.close(&Error::Closed("the session is closed".into()));
        }
    }

    /// The last session object of a queue is gone.
    pub(crate) fn release(&self, id: &SessionId, queue: &Arc<UpdateQueue>) {
        let mut queues = self.queues();
        if queues.get(id).is_some_and(|known| Arc::ptr_eq(known, queue)) {
            queues.remove(id);
        }
    }

    /// The connection is over.
    pub(crate) fn close(&self, error: &Error) {
        for queue in self.queues().values() {
            queue.close(error);
        }
    }

    /// Takes an update that came as so many bytes. Says what was passed over of it.
    fn update(&self, mut told: Box<SessionNotification>, bytes: usize) -> Result<(), Dropped<'static>> {
        let parts = parts_bytes(&told.update);
        let long = bytes.max(parts) > self.longest;
        if long {
            let cut = cut_long(std::mem::take(&mut told.update), self.longest);
            told.update = cut.ok_or(Dropped::Over("an update that is too long"))?;
            told.meta = None;
        }
        let queue = {
            let mut queues = self.queues();
            match queues.get(&told.session_id) {
                Some(queue) => Arc::clone(queue),
                None if self.expecting.load(Ordering::SeqCst) > 0
                    && queues.len() < MAX_UNKNOWN_SESSIONS + known(&queues) =>
                {
                    let queue = UpdateQueue::new(Arc::clone(&self.budget));
                    queues.insert(told.session_id.clone(), Arc::clone(&queue));
                    queue
                }
                // Those of a session that was closed may still come.
                None if queues.is_empty() => return Ok(()),
                None => return Err(Dropped::Bad("an update for a session that is not open here")),
            }
        };
        let is_text = matches!(told.update, Update::Chunk(_) | Update::Message(_));
        let left = parts_bytes(&told.update);
        let lessened = match &told.update {
            Update::ToolCall(call) if left < parts => Some(call.tool_call_id.clone()),
            _ => None,
        };
        queue.push(told, bytes.max(left));
        if let Some(id) = lessened {
            queue.forget_call(&id);
        }
        if long && !is_text { Err(Dropped::Over("parts of an update that is too long")) } else { Ok(()) }
    }
}

/// Queues that a session object reads.
fn known(queues: &HashMap<SessionId, Arc<UpdateQueue>>) -> usize {
    queues.values().filter(|queue| queue.is_claimed()).count()
}

impl<H: Handler> Service for Dispatcher<H> {
    type Call = ClientCall;

    fn decode(&self, method: &str, params: &mut Reader<'_>) -> Result<Option<ClientCall>, tieline_json::Error> {
        match ClientCall::decode(method, params)? {
            None if H::RELAYS => Ok(Some(ClientCall::Extension { method: method.into(), params: params.keep()? })),
            call => Ok(call),
        }
    }

    fn request(&self, call: ClientCall, responder: Responder) {
        if let Err(error) = self.check(&call) {
            return responder.fail_now(&error.to_wire());
        }
        let dialect = self.state.dialect.get().copied().unwrap_or(Dialect::V1);
        let (handler, state) = (Arc::clone(&self.handler), Arc::clone(&self.state));
        let lenient = self.state.agent.get().is_some_and(|name| name == MISSING_IS_EMPTY);
        match call {
            // The question is registered on the reader: a cancel that comes later finds it.
            ClientCall::Permission(request) => self.permission(*request, responder, dialect),
            // A form is a question, too.
            ClientCall::Elicit(request) => self.elicit(*request, responder, dialect),
            call => {
                let call = if H::RELAYS { as_extension(call) } else { call };
                let span = tracing::debug_span!("request", method = call.wire_name(Dialect::V1));
                work::start(Box::pin(
                    async move { serve(&*handler, &state, call, responder, (dialect, lenient)).await }.instrument(span),
                ));
            }
        }
    }

    fn notification(&self, call: ClientCall, bytes: usize) {
        match call {
            ClientCall::Update(notification) => {
                if let Err(what) = self.state.update(notification, bytes) {
                    self.dropped(what);
                }
            }
            ClientCall::ElicitationComplete(complete) => {
                let handler = Arc::clone(&self.handler);
                let heard = async move { handler.elicitation_complete(complete.elicitation_id).await };
                self.mailbox.put(bytes, meta::scope(complete.meta, heard));
            }
            ClientCall::Extension { method, params } => {
                let (handler, state) = (Arc::clone(&self.handler), Arc::clone(&self.state));
                self.mailbox.put(bytes, async move {
                    if let Ok(agent) = state.handle().await {
                        handler.extension_notification(method.into(), params, agent).await;
                    }
                });
            }
            _ => self.dropped(Dropped::Bad("a request without an id")),
        }
    }

    fn dropped(&self, what: Dropped<'_>) {
        self.handler.dropped(what);
    }

    fn parted(&self, message: &str) -> Option<Range<usize>> {
        long_chunk::text_of(message)
    }

    fn id_rule(&self) -> IdRule {
        match self.state.dialect.get() {
            Some(Dialect::V2) => IdRule::Exact,
            _ => IdRule::Liberal,
        }
    }

    fn pause(&self) -> Option<Work<'static, ()>> {
        if !self.state.budget.is_spent() {
            return self.mailbox.pause();
        }
        let budget = Arc::clone(&self.state.budget);
        Some(Box::pin(async move { budget.freed().await }))
    }
}

impl<H: Handler> Dispatcher<H> {
    /// Refuses what was not offered or makes no sense.
    fn check(&self, call: &ClientCall) -> Result<()> {
        let can = &self.state.capabilities;
        let tools = self.state.offered.load(Ordering::SeqCst);
        let (offered, session, path) = match call {
            ClientCall::ReadTextFile(request) => {
                if request.line == Some(0) {
                    return Err(Error::invalid_params("lines count from 1"));
                }
                (can.fs_read && tools, Some(&request.session_id), Some(&request.path))
            }
            ClientCall::WriteTextFile(request) => {
                (can.fs_write && tools, Some(&request.session_id), Some(&request.path))
            }
            ClientCall::CreateTerminal(request) => {
                (can.terminal && tools, Some(&request.session_id), request.cwd.as_ref())
            }
            ClientCall::TerminalOutput(request)
            | ClientCall::WaitForTerminalExit(request)
            | ClientCall::KillTerminal(request)
            | ClientCall::ReleaseTerminal(request) => (can.terminal && tools, Some(&request.session_id), None),
            ClientCall::Elicit(request) => {
                let mode = &request.mode;
                match mode {
                    ElicitMode::Form(_) if can.elicit_form => {}
                    ElicitMode::Url { .. } if can.elicit_url => {}
                    _ => return Err(Error::invalid_params(format!("elicitation by `{}` is not offered", mode.name()))),
                }
                (true, None, None)
            }
            _ => (true, None, None),
        };
        if !offered {
            return Err(Error::method_not_found(call.wire_name(Dialect::V1).unwrap_or_default()));
        }
        // Nobody here works in such a session; what is served here is not served there.
        if let Some(session) = session.filter(|session| !self.state.may_be_open(session)) {
            return Err(Error::unknown_session(session.as_str()));
        }
        match path {
            Some(path) if !is_absolute(path) => Err(Error::invalid_params("the path is not absolute")),
            _ => Ok(()),
        }
    }

    /// Room for a question until it is answered, or what it is that can't be asked.
    fn room_for(&self, request: &PermissionRequest) -> Result<OwnedSemaphorePermit, (&'static str, Error)> {
        let call = match &request.subject {
            Some(PermissionSubject::ToolCall(subject)) => Some(&subject.tool_call),
            Some(PermissionSubject::Command(subject)) => subject.call.as_deref(),
            _ => None,
        };
        let parts = request.options.len() + call.map_or(0, parts_of);
        let bytes = encode(request, Dialect::V2).len() + parts * PART_BYTES;
        let kib = u32::try_from(bytes >> 10).unwrap_or(u32::MAX).max(1);
        if parts > MAX_QUESTION_PARTS || kib > MAX_ASKED_KIB {
            let why =
                format!("the question is too long: {MAX_QUESTION_PARTS} parts or {MAX_ASKED_KIB} KiB can be asked");
            return Err(("a question that is too long to be asked", Error::invalid_params(why)));
        }
        Arc::clone(&self.state.questions).try_acquire_many_owned(kib).map_err(|_| {
            ("a question while too much is asked already", Error::wire(OVERLOADED, "Too much is asked at once"))
        })
    }

    fn permission(&self, mut request: PermissionRequest, responder: Responder, dialect: Dialect) {
        let queue = self.state.find(&request.session_id);
        // Nobody here works in such a session; what is allowed here is not allowed there.
        if !self.state.may_be_open(&request.session_id) {
            return responder.fail_now(&Error::unknown_session(request.session_id.as_str()).to_wire());
        }
        if let (Some(_), Some(PermissionSubject::ToolCall(_))) = (&queue, &request.subject) {
            // What the question says about the call counts like an update.
            let update = Update::from(request.tool_call());
            let bytes = encode(&update, Dialect::V2).len();
            let told = SessionNotification { update, session_id: request.session_id.clone(), ..Default::default() };
            if let Err(what) = self.state.update(Box::new(told), bytes) {
                self.dropped(what);
            }
        }
        if let (Some(queue), Some(PermissionSubject::ToolCall(subject))) = (&queue, &mut request.subject) {
            let untitled = subject.tool_call.title.set().is_none();
            queue.fill_in(&mut subject.tool_call);
            // In the older dialects a question has no title but that of its call.
            if let (Some(title), true) = (subject.tool_call.title.set(), untitled && dialect != Dialect::V2) {
                request.title.clone_from(title);
            }
        }
        // What the call of a command was told to do belongs to the question, too.
        if let (Some(queue), Some(PermissionSubject::Command(subject))) = (&queue, &mut request.subject)
            && let Some(id) = &subject.tool_call_id
        {
            let mut call = ToolCallUpdate::new(&**id);
            queue.fill_in(&mut call);
            subject.call = Some(Box::new(call));
        }
        let room = match self.room_for(&request) {
            Ok(room) => room,
            Err((what, error)) => {
                self.dropped(Dropped::Over(what));
                return responder.fail_now(&error.to_wire());
            }
        };
        let ask = Asking::new(queue);
        let withdrawn = responder.cancel().clone();
        let handler = Arc::clone(&self.handler);
        work::start(Box::pin(async move {
            let _room = room;
            let asked = meta::scope(request.meta.clone(), async {
                PermissionResponse {
                    outcome: handler.permission(request).await,
                    meta: meta::taken(),
                    ..Default::default()
                }
            });
            let nobody = || PermissionResponse { outcome: PermissionOutcome::cancelled(), ..Default::default() };
            let answer = tokio::select! {
                biased;
                () = ask.cancel.cancelled() => nobody(),
                () = withdrawn.cancelled() => nobody(),
                answer = asked => answer,
            };
            drop(ask);
            responder.reply(wire::write(&answer, dialect)).await;
        }));
    }
}

impl<H: Handler> Dispatcher<H> {
    /// A form or a page. With the turn it is cancelled.
    fn elicit(&self, request: ElicitRequest, responder: Responder, dialect: Dialect) {
        let queue = match &request.scope {
            ElicitScope::Session { session_id, .. } => self.state.find(session_id),
            ElicitScope::Request(_) => self.state.only(),
        };
        let ask = Asking::new(queue);
        let withdrawn = responder.cancel().clone();
        let handler = Arc::clone(&self.handler);
        work::start(Box::pin(async move {
            let asked = meta::scope(request.meta.clone(), async {
                let answer = handler.elicit(request).await;
                answer.map(|answer| ElicitResponse { meta: answer.meta.or_else(meta::taken), ..answer })
            });
            let answer = tokio::select! {
                biased;
                () = ask.cancel.cancelled() => Ok(ElicitResponse { action: ElicitAction::Cancel, meta: None }),
                () = withdrawn.cancelled() => Err(Error::Cancelled),
                answer = asked => answer,
            };
            drop(ask);
            match answer {
                Ok(answer) => responder.reply(wire::write(&answer, dialect)).await,
                Err(error) => responder.fail(&error.to_wire()).await,
            }
        }));
    }
}

/// A request as it is on the wire.
fn as_extension(call: ClientCall) -> ClientCall {
    let params = String::from_utf8(encode(&call, Dialect::V1)).ok().and_then(|text| Raw::new(text).ok());
    match (call.wire_name(Dialect::V1), params) {
        (Some(method), Some(params)) => ClientCall::Extension { method: method.into(), params },
        _ => call,
    }
}

/// A question to the user is open while this lives, also if its handler panics.
struct Asking {
    queue: Option<Arc<UpdateQueue>>,
    cancel: Cancel,
}

impl Asking {
    fn new(queue: Option<Arc<UpdateQueue>>) -> Self {
        let cancel = queue.as_ref().map(|queue| queue.ask()).unwrap_or_default();
        Self { queue, cancel }
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.cancel.cancel();
        if let Some(queue) = &self.queue {
            queue.asked();
        }
    }
}

/// Runs a handler, unless the agent withdraws the request first, and answers.
async fn serve<H: Handler>(
    handler: &H,
    state: &DispatcherState,
    call: ClientCall,
    responder: Responder,
    how: (Dialect, bool),
) {
    let withdrawn = responder.cancel().clone();
    let answer = async |call| (handle(handler, state, call, how).await, meta::kept());
    let (answer, _kept) = tokio::select! {
        biased;
        () = withdrawn.cancelled() => (Err(Error::Cancelled), None),
        answer = meta::scope(call.meta().cloned(), answer(call)) => answer,
    };
    match answer {
        Ok(json) => responder.reply(|out| out.extend_from_slice(&json)).await,
        Err(error) => responder.fail(&error.to_wire()).await,
    }
}

async fn handle<H: Handler>(
    handler: &H,
    state: &DispatcherState,
    call: ClientCall,
    (dialect, lenient): (Dialect, bool),
) -> Result<Vec<u8>> {
    let done = |()| encode(&Done { meta: meta::taken() }, dialect);
    match call {
        ClientCall::ReadTextFile(request) => {
            let content = match handler.read_text_file(request).await {
                Err(error) if lenient && error.to_wire().code == RESOURCE_NOT_FOUND => String::new(),
                read => read?,
            };
            Ok(encode(&ReadTextFileResponse { content, meta: meta::taken(), ..Default::default() }, dialect))
        }
        ClientCall::WriteTextFile(request) => {
            handler.write_text_file(request).await?;
            Ok(encode(&WriteTextFileResponse { meta: meta::taken() }, dialect))
        }
        ClientCall::CreateTerminal(request) => {
            let terminal_id = handler.create_terminal(*request).await?;
            Ok(encode(&CreateTerminalResponse { terminal_id, meta: meta::taken(), ..Default::default() }, dialect))
        }
        ClientCall::TerminalOutput(request) => {
            let shown = handler.terminal_output(request).await?;
            Ok(encode(&TerminalOutputResponse { meta: shown.meta.or_else(meta::taken), ..shown }, dialect))
        }
        ClientCall::WaitForTerminalExit(request) => {
            let exit = handler.wait_for_terminal_exit(request).await?;
            Ok(encode(&ExitStatus { meta: exit.meta.or_else(meta::taken), ..exit }, dialect))
        }
        ClientCall::KillTerminal(request) => handler.kill_terminal(request).await.map(done),
        ClientCall::ReleaseTerminal(request) => handler.release_terminal(request).await.map(done),
        ClientCall::Extension { method, params } => {
            let agent = state.handle().await?;
            handler.extension(method.into(), params, agent).await.map(|raw| encode(&raw, dialect))
        }
        // Notifications that came with an id, and questions, which are handled elsewhere.
        ClientCall::Update(_)
        | ClientCall::ElicitationComplete(_)
        | ClientCall::Permission(_)
        | ClientCall::Elicit(_) => Err(Error::Wire(crate::WireError::invalid_request())),
    }
}
