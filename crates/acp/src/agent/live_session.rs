//! One open session in the engine: its turns, one at a time, and how they begin, are cancelled and end.

use super::erased::AnySession;
use super::server::Settings;
use super::session_writer::{SessionWriter, reply};
use super::turn::Turn;
use crate::error::{Error, Result};
use crate::meta;
use crate::wire::new_id;
use crate::work::{self, Caught, Panicked, Work};
use std::collections::VecDeque;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tieline_rpc::sync::{Condition, Lock};
use tieline_rpc::{Cancel, Responder};
use tieline_schema::{ContentBlock, Dialect, Failure, Meta, PromptRequest, PromptResponse, State, StopReason};
use tracing::Instrument;

pub(crate) struct LiveSession {
    pub(crate) writer: Arc<SessionWriter>,
    pub(crate) session: Arc<dyn AnySession>,
    place: Mutex<Place>,
    turns: Mutex<Turns>,
    /// Options are changed one at a time.
    changing: AtomicBool,
    /// Something came to its end: a turn, the work on all prompts, a change of options.
    ended: Condition,
    /// A handler that ignores a cancel is dropped after this time.
    grace: Duration,
    /// So many prompts may wait for their turn (current v2).
    max_waiting: usize,
}

/// Where a session works.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) cwd: String,
    pub(crate) additional_directories: Vec<String>,
}

#[derive(Default)]
struct Turns {
    /// The turn that runs. Free before the client hears of the end, because its next prompt may come at once.
    current: Option<Cancel>,
    /// Tasks that work on prompts; the last words of one may still be on their way when the next one starts.
    workers: usize,
    queue: VecDeque<Prompt>,
    /// The `_meta` of the cancel of the turn that runs.
    cancel_meta: Option<Meta>,
    closing: bool,
}

pub(crate) struct Prompt {
    content: Vec<ContentBlock>,
    /// `None` if nobody asked: the agent itself wants to work.
    responder: Option<Responder>,
    cancel: Cancel,
    meta: Option<Meta>,
}

impl Prompt {
    pub(crate) fn new(request: PromptRequest, responder: Responder) -> Self {
        let cancel = responder.cancel().clone();
        Self { content: request.prompt, responder: Some(responder), cancel, meta: request.meta }
    }

    fn refuse(self, error: &Error) {
        if let Some(responder) = self.responder {
            responder.fail_now(&error.to_wire());
        }
    }
}

/// The options of a session are being changed.
pub(crate) struct Changing<'s>(&'s LiveSession);

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        self.0.changing.store(false, Ordering::Release);
        self.0.ended.notify_all();
    }
}

impl LiveSession {
    pub(crate) fn new(
        writer: Arc<SessionWriter>,
        session: Arc<dyn AnySession>,
        place: Place,
        settings: &Settings,
    ) -> Arc<Self> {
        let (place, grace, max_waiting) = (Mutex::new(place), settings.cancel_grace, settings.waiting_prompts);
        let (turns, changing, ended) = (Mutex::default(), AtomicBool::new(false), Condition::default());
        let live = Arc::new(Self { writer, session, place, turns, changing, ended, grace, max_waiting });
        let _ = live.writer.live.set(Arc::downgrade(&live));
        live
    }

    /// Options are changed one at a time.
    pub(crate) async fn change(&self) -> Changing<'_> {
        let begin = || (!self.changing.swap(true, Ordering::Acquire)).then_some(Changing(self));
        match begin() {
            Some(change) => change,
            // Boxed: it is rare, and everybody else would have its size.
            None => Box::pin(self.ended.wait_for(begin)).await,
        }
    }

    pub(crate) fn place(&self) -> MutexGuard<'_, Place> {
        self.place.locked()
    }

    fn turns(&self) -> MutexGuard<'_, Turns> {
        self.turns.locked()
    }

    /// Takes a prompt, on the reader: a cancel that comes right behind it finds its turn.
    pub(crate) fn accept(self: &Arc<Self>, prompt: Prompt) {
        if let Some(prompt) = self.enter(prompt) {
            work::start(Box::pin(Arc::clone(self).work(prompt)));
        }
    }

    /// Gives the prompt back if it is its turn now; otherwise it waits, or is refused.
    fn enter(&self, prompt: Prompt) -> Option<Prompt> {
        let mut turns = self.turns();
        if turns.closing {
            prompt.refuse(&Error::unknown_session(self.writer.id()));
        } else if turns.current.is_none() {
            turns.current = Some(prompt.cancel.clone());
            turns.workers += 1;
            return Some(prompt);
        } else if self.writer.dialect() == Dialect::V2 && turns.queue.len() < self.max_waiting {
            turns.queue.push_back(prompt);
        } else {
            prompt.refuse(&Error::invalid_request("turn_in_progress"));
        }
        None
    }

    /// Work that the agent itself wants to do, now or after what runs.
    pub(crate) fn start(self: &Arc<Self>, content: Vec<ContentBlock>) -> Result<()> {
        if self.writer.dialect() != Dialect::V2 {
            let (what, dialect) = ("work that nobody asked for", self.writer.dialect());
            let way_out = "do it in the next turn, or let the user ask for it";
            return Err(Error::NotInDialect { what, dialect, way_out });
        }
        let waiting = self.turns().queue.len();
        if waiting >= self.max_waiting {
            return Err(Error::Invalid("too much work waits already".into()));
        }
        let prompt = Prompt { content, responder: None, cancel: Cancel::default(), meta: None };
        if let Some(prompt) = self.enter(prompt) {
            // Not at once: whoever asks for it is at work himself.
            tokio::spawn(Arc::clone(self).work(prompt));
        }
        Ok(())
    }

    /// Cancels the running turn and every prompt that waits. Nothing happens if there is none.
    pub(crate) fn cancel(&self, meta: Option<Meta>) {
        let mut turns = self.turns();
        if let Some(current) = turns.current.clone() {
            turns.cancel_meta = meta;
            current.cancel();
        }
        for prompt in std::mem::take(&mut turns.queue) {
            prompt.refuse(&Error::Cancelled);
        }
    }

    /// The client cancels.
    pub(crate) fn client_cancels(self: &Arc<Self>, meta: Option<Meta>) {
        if self.is_running() {
            return self.cancel(meta);
        }
        let live = Arc::clone(self);
        tokio::spawn(async move { live.session.cancel_others().await });
    }

    pub(crate) fn cancel_meta(&self) -> Option<Meta> {
        self.turns().cancel_meta.clone()
    }

    pub(crate) fn is_running(&self) -> bool {
        self.turns().current.is_some()
    }

    /// Takes no more prompts, cancels what runs, and waits until it has ended.
    pub(crate) async fn close(&self) {
        self.stop().await;
        self.session.close().await;
    }

    /// The same, if the client did not close it.
    pub(crate) async fn leave(&self) {
        self.stop().await;
        self.session.leave().await;
    }

    async fn stop(&self) {
        self.turns().closing = true;
        self.cancel(None);
        self.idle().await;
    }

    /// Waits until no turn runs and everything about the last one is said.
    pub(crate) async fn idle(&self) {
        self.ended.wait_for(|| (self.turns().workers == 0).then_some(())).await;
    }

    /// Waits until a turn is over and its end is said.
    pub(crate) async fn turn_over(&self, number: u64) {
        self.ended.wait_for(|| (!self.writer.is_turn(number)).then_some(())).await;
    }

    /// Works on a prompt, and then on those that came meanwhile. The prompt has one place in here: each argument of an `async fn`
    /// would be another.
    fn work(self: Arc<Self>, first: Prompt) -> impl Future<Output = ()> + Send {
        let mut next = Some(first);
        async move {
            while next.is_some() {
                // Never the same twice, whatever becomes of the session: a turn that is over must not be taken for another.
                static LAST: AtomicU64 = AtomicU64::new(0);
                let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
                self.turn(number, &mut next).await;
                self.ended.notify_all();
            }
            self.turns().workers -= 1;
            self.ended.notify_all();
        }
    }

    /// Makes way for the next turn, and gives its prompt if it waits already.
    fn advance(&self) -> Option<Prompt> {
        let mut turns = self.turns();
        let mut next = turns.queue.pop_front();
        // Withdrawn while they waited: never inserted.
        while let Some(gone) = next.take_if(|prompt| prompt.cancel.is_cancelled()) {
            gone.refuse(&Error::Cancelled);
            next = turns.queue.pop_front();
        }
        turns.cancel_meta = None;
        turns.current = next.as_ref().map(|prompt| prompt.cancel.clone());
        next
    }

    /// One turn: takes its prompt, and leaves the next one there.
    async fn turn(&self, number: u64, next: &mut Option<Prompt>) {
        let Some(Prompt { content, mut responder, cancel, meta }) = next.take() else { return };
        let writer = &self.writer;
        let own = responder.is_none();
        let turn = Turn::new(Arc::clone(writer), number, cancel.clone(), new_id("user"), own);
        let shared = Arc::clone(&turn.shared);
        let message_id = shared.message_id.as_str();
        let span = tracing::info_span!("turn", session = %writer.id(), number);
        let mut answer_meta = None;
        if !own {
            let taken_in = self.session.accept(message_id, &content);
            let result;
            (result, answer_meta) = self.supervise(&cancel, span.clone(), meta.clone(), taken_in).await;
            if let Err(error) = result {
                *next = Box::pin(self.not_taken_in(responder, error, cancel.is_cancelled())).await;
                return;
            }
        }
        writer.peer.room().await;
        // Current v2 is answered now, the others when the turn ends.
        let at_once = if writer.dialect() == Dialect::V2 { responder.take() } else { None };
        writer.begin(
            number,
            || {
                if let Some(responder) = at_once {
                    let meta = answer_meta.clone();
                    reply(responder, &PromptResponse { meta, ..PromptResponse::accepted(message_id) }, Dialect::V2);
                }
            },
            (!own).then_some((message_id, &*content)),
        );
        let work = self.session.prompt(turn, content);
        let (result, end_meta) = self.supervise(&cancel, span, meta, work).await;
        if writer.recorder.get().is_some() {
            let recorded = writer.record_left_calls(cancel.is_cancelled());
            if Box::pin(tokio::time::timeout(self.grace, recorded)).await.is_err() {
                tracing::warn!(session = %writer.id(), "the recorder took too long and was dropped");
            }
        }
        writer.peer.room().await;
        let cancelled = cancel.is_cancelled();
        let result = if cancelled { Ok(StopReason::Cancelled) } else { result };
        let idle = match &result {
            Ok(reason) => State::idle(reason.clone()),
            Err(error) => {
                let wire = writer.negotiated.to_wire(error);
                let error = Failure { code: wire.code, message: wire.message, data: wire.data, ..Default::default() };
                State::Idle { stop_reason: Some(StopReason::Error), error: Some(error) }
            }
        };
        let dialect = writer.dialect();
        let meta = end_meta.clone().or(answer_meta);
        let answer = responder.map(|responder| {
            move || match result {
                Ok(reason) => reply(responder, &PromptResponse { meta, ..PromptResponse::ended(reason) }, dialect),
                Err(error) => responder.fail_now(&writer.negotiated.to_wire(&error)),
            }
        });
        writer.end(cancelled, (idle, end_meta), || *next = self.advance(), answer);
    }

    /// Answers a prompt that the session did not take in.
    async fn not_taken_in(&self, responder: Option<Responder>, error: Error, cancelled: bool) -> Option<Prompt> {
        let next = self.advance();
        let dialect = self.writer.dialect();
        let Some(responder) = responder else { return next };
        if cancelled && dialect != Dialect::V2 {
            reply(responder, &PromptResponse::ended(StopReason::Cancelled), dialect);
        } else {
            responder.fail(&self.writer.negotiated.to_wire(&error)).await;
        }
        next
    }

    /// Runs a handler so that its panic is one failed turn, and drops it if it ignores a cancel. Gives also the `_meta` that the
    /// handler set.
    async fn supervise<T>(
        &self,
        cancel: &Cancel,
        span: tracing::Span,
        received: Option<Meta>,
        work: Work<'_, Result<T>>,
    ) -> (Result<T>, Option<Meta>) {
        let mut work = pin!(meta::scope(received, work.instrument(span)));
        let done = tokio::select! {
            // Mostly it is done at once, and nobody needs to wait for a cancel.
            biased;
            done = Caught(work.as_mut()) => Some(done),
            () = cancel.cancelled() => Box::pin(tokio::time::timeout(self.grace, Caught(work.as_mut()))).await.ok(),
        };
        match done {
            Some(Ok(result)) => (result, meta::answer_of(work)),
            Some(Err(Panicked)) => (Err(Error::internal("the handler of a prompt panicked")), None),
            None => {
                tracing::warn!(session = %self.writer.id(), "the handler ignored a cancel and was dropped");
                (Err(Error::Cancelled), None)
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use crate::agent::dispatcher::Dispatcher;
    use crate::agent::server::Settings;
    use crate::{StopReason, Transport, agent};
    use std::sync::{Arc, OnceLock};
    use std::time::Duration;
    use tieline_rpc::{Connection, Direction, Limits};
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

    /// A client may send its next prompt the moment it hears that the last turn is over, so the session is free by then.
    #[tokio::test]
    async fn the_session_is_free_when_the_end_is_told() {
        for (negotiated, end) in [
            (r#"{"protocolVersion":1}"#, "stopReason"),
            (r#"{"protocolVersion":2}"#, "stopReason"),
            (r#"{"protocolVersion":2,"info":{"name":"c","version":"1"}}"#, r#""state":"idle""#),
        ] {
            let dispatcher = Arc::new(OnceLock::<Arc<Dispatcher>>::new());
            let watched = Arc::clone(&dispatcher);
            let (near, far) = tokio::io::duplex(4096);
            let transport = Transport::stream(near).tap(move |way, frame| {
                if way == Direction::Out && String::from_utf8_lossy(frame).contains(end) {
                    let busy = watched.get().unwrap().0.live_sessions().iter().any(|live| live.is_running());
                    assert!(!busy, "still busy while the client is told {end}");
                }
            });
            let agent = agent::from_fn("quick", |_, _| async { Ok(StopReason::EndTurn) });
            let (peer, connection) = Connection::open(transport, Limits::default());
            let made =
                dispatcher.get_or_init(|| Arc::new(Dispatcher::new(Box::new(agent), peer, &Settings::default())));
            tokio::spawn(connection.run(Arc::clone(made)));
            let (from, mut to) = tokio::io::split(far);
            let mut lines = BufReader::new(from).lines();
            let mut say = async |id: u8, method: &str, params: &str| {
                let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{params}}}\n");
                to.write_all(line.as_bytes()).await.unwrap();
            };
            say(0, "initialize", negotiated).await;
            lines.next_line().await.unwrap().unwrap();
            say(1, "session/new", r#"{"cwd":"/w","mcpServers":[]}"#).await;
            let opened = lines.next_line().await.unwrap().unwrap();
            let id = opened.split("\"sessionId\":\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
            let prompt = r#"{"sessionId":"ID","prompt":[{"type":"text","text":"x"}]}"#.replace("ID", id);
            say(2, "session/prompt", &prompt).await;
            // A panic in the tap would keep the end from coming.
            let told = async { while !lines.next_line().await.unwrap().unwrap().contains(end) {} };
            tokio::time::timeout(Duration::from_secs(5), told).await.unwrap();
        }
    }
}
