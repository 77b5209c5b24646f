//! One live session: its transcript, questions, queue of prompts, journal and limits, and the handle on it. What it does is in
//! `turn.rs`.

use super::events::{Sender, channel};
use super::journal_writer::{JournalWriter, Looked};
use super::limits::Meter;
use super::link::{Link, Result};
use super::notes::Asked;
use super::{Budget, Changed, Conversation, Ending, Event, Events, Failure, Gone, Part, Phase, Reached, When};
use crate::journal::{Journal, Recording};
use serde::Serialize;
use std::collections::BTreeMap;
use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tieline::client::Session as AgentSession;
use tieline::rpc::sync::{Lock, when};
use tieline::schema::{McpServer, SessionId, StopReason, Update};
use tokio::sync::Notify;
use tokio::time::timeout;

/// So many prompts wait in a session.
const MAX_QUEUED: usize = 100;
/// An agent that does not read is not waited for longer than this when it is asked to stop.
const CANCEL_TIMEOUT: Duration = Duration::from_millis(200);

/// Which session to open.
#[derive(Default)]
pub struct Opening {
    /// The working directory of the session; an absolute path.
    pub cwd: PathBuf,
    /// More directories that the agent may use.
    pub roots: Vec<PathBuf>,
    /// Files that are written for the user meanwhile: not the agent's doing.
    pub ours: Vec<PathBuf>,
    /// MCP servers for the agent.
    pub mcp: Vec<McpServer>,
    /// The mode to switch to first.
    pub mode: Option<String>,
    /// The model to switch to first.
    pub model: Option<String>,
    /// Options to set first.
    pub options: Vec<(String, String)>,
    /// What each turn may cost.
    pub budget: Budget,
    /// Where the session is written down.
    pub journal: Option<Journal>,
    /// The session to go on with, if it is not a new one.
    pub recording: Option<Recording>,
    /// What the user calls the session.
    pub name: Option<String>,
    /// What to do if the agent has lost the session.
    pub on_lost: OnLost,
    /// True if the agent was given by its command and has no name of its own.
    pub by_command: bool,
    /// What the journal calls the agent; sessions are told apart by it.
    pub key: String,
    /// The addresses that were named for the providers of the built-in agent's models.
    pub addresses: BTreeMap<String, String>,
    /// True if the agent is to delete the session at the end, if it can.
    pub forget: bool,
    /// True for one turn without a screen: its story ends behind the agent's, and so who runs it ends it ([`crate::run`]).
    pub once: bool,
}

/// What to do with a session that the agent has lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnLost {
    /// End, and say so.
    #[default]
    Fail,
    /// Go on in a new one.
    New,
    /// Go on in a new one, and give the agent a record of what was said.
    HandOver,
}

/// What a session is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum State {
    /// It is being opened.
    #[default]
    Opening,
    /// Nothing; a prompt is sent at once.
    Idle,
    /// The agent works.
    Running,
    /// The agent waits for an answer of a person.
    Asking,
    /// The agent was asked to stop.
    Cancelling,
    /// The agent is gone.
    Lost,
}

/// A prompt that waits.
#[derive(Debug, Clone)]
pub struct Queued {
    /// Its number.
    pub number: u64,
    /// What is said.
    pub parts: Vec<Part>,
}

/// A handle on a live session. Clones are the same. The session ends when it is closed or its [`Events`] are dropped.
#[derive(Clone)]
pub struct Session(pub(super) Arc<Seat>);

/// What is known of a session here.
pub(super) struct Seat {
    pub(super) link: Link,
    pub(super) opening: Opening,
    pub(super) conversation: Conversation,
    pub(super) writer: tokio::sync::Mutex<JournalWriter>,
    pub(super) events: Sender,
    /// The present phase, and since when nothing has happened in it.
    clock: Mutex<(Phase, Instant)>,
    pub(super) meter: Mutex<Meter>,
    /// The limit that was reached first.
    pub(super) reached: Mutex<Option<Reached>>,
    over_budget: Notify,
    pub(super) doing: Mutex<Doing>,
    pub(super) wake: Notify,
}

#[derive(Default)]
#[allow(clippy::struct_excessive_bools, reason = "each is an independent wish or fact")]
pub(super) struct Doing {
    /// The session at the agent, while there is one.
    pub(super) agent: Option<Arc<AgentSession>>,
    /// The last id that the agent gave it.
    pub(super) id: SessionId,
    pub(super) state: State,
    /// What was told of that last.
    told: State,
    pub(super) queue: VecDeque<Queued>,
    count: u64,
    /// The names of prompts that have one, until they are sent.
    pub(super) names: HashMap<u64, String>,
    /// The queue waits, because a turn was cancelled or failed, the agent is gone, or somebody wants it.
    pub(super) held: bool,
    /// An agent that is gone is to be started again.
    pub(super) restart: bool,
    /// What waits comes from the journal, behind a prompt of now: it is held when that has begun.
    pub(super) recalled: bool,
    /// The first of what waits is to be given to the agent while it works.
    pub(super) give: bool,
    /// What was given so and is not taken yet.
    pub(super) given: VecDeque<Queued>,
    /// The agent takes nothing while it works.
    pub(super) takes_none: bool,
    /// The journal does not know yet what waits.
    pub(super) unwritten: bool,
    /// The turn is to be cancelled, and it is not told yet.
    pub(super) cancel: bool,
    pub(super) cancelling: bool,
    /// The prompt of the turn is on its way: a cancel can't overtake it.
    pub(super) sent: bool,
    pub(super) closing: bool,
    /// A prompt was sent once.
    pub(super) prompted: bool,
    /// What goes before the next prompt, for an agent that has lost the session.
    pub(super) record: Option<String>,
}

impl Session {
    pub(super) fn start(link: Link, mut opening: Opening, prompt: Vec<Part>) -> (Self, Events) {
        let (conversation, (sender, mut events)) = (Conversation::default(), channel());
        let looked = Looked {
            journal: opening.journal.clone(),
            folders: std::iter::once(&opening.cwd).chain(&opening.roots).cloned().collect(),
            ours: opening.ours.clone(),
        };
        let (notes, built_in) = (link.parts().notes.clone(), link.setup().agent.is_built_in());
        let at_once = !prompt.is_empty();
        let writer =
            JournalWriter::new(opening.recording.take(), notes, looked, at_once, conversation.clone(), built_in);
        let seat = Arc::new(Seat {
            link,
            meter: Mutex::new(Meter::new(opening.budget)),
            opening,
            conversation,
            writer: tokio::sync::Mutex::new(writer),
            events: sender,
            clock: Mutex::new((Phase::Find, Instant::now())),
            reached: Mutex::default(),
            over_budget: Notify::new(),
            doing: Mutex::default(),
            wake: Notify::new(),
        });
        let session = Self(Arc::clone(&seat));
        if at_once {
            session.prompt(prompt);
        }
        events.task = Some(tokio::spawn(seat.live()));
        (session, events)
    }

    /// Says something, or puts it into the queue while the agent works. Gives its number; `None` if the queue is full. A session
    /// whose agent is gone gets it back first.
    pub fn prompt(&self, parts: Vec<Part>) -> Option<u64> {
        self.put(parts, None, VecDeque::push_back)
    }

    /// The same under a name that the journal keeps with it.
    pub fn prompt_named(&self, name: String, parts: Vec<Part>) -> Option<u64> {
        self.put(parts, Some(name), VecDeque::push_back)
    }

    /// Writes down something of whoever has the session, in its order among all else. False if nothing is written down any more.
    pub async fn note(&self, kind: &str, body: &impl Serialize) -> bool {
        self.0.writer.lock().await.note(kind, body).await
    }

    /// The same, before all that waits.
    pub fn prompt_first(&self, parts: Vec<Part>) -> Option<u64> {
        self.put(parts, None, VecDeque::push_front)
    }

    /// The same, before the first of these that still waits.
    pub fn prompt_before(&self, parts: Vec<Part>, others: &[u64]) -> Option<u64> {
        self.put(parts, None, |queue, queued| {
            let at = queue.iter().position(|other| others.contains(&other.number));
            queue.insert(at.unwrap_or(queue.len()), queued);
        })
    }

    fn put(
        &self,
        parts: Vec<Part>,
        name: Option<String>,
        put: impl FnOnce(&mut VecDeque<Queued>, Queued),
    ) -> Option<u64> {
        let number = {
            let mut doing = self.0.doing.locked();
            if doing.queue.len() >= MAX_QUEUED {
                return None;
            }
            (doing.held, doing.unwritten) = (false, true);
            doing.count += 1;
            let number = doing.count;
            doing.names.extend(name.map(|name| (number, name)));
            put(&mut doing.queue, Queued { number, parts });
            number
        };
        self.0.wake.notify_waiters();
        Some(number)
    }

    /// What waits is not sent by itself, also behind the turn that runs, until somebody says something or [`Self::revive`]s it.
    pub fn hold(&self) {
        self.0.doing.locked().held = true;
    }

    /// What waits, in its order.
    pub fn queue(&self) -> Vec<Queued> {
        self.0.doing.locked().queue.iter().cloned().collect()
    }

    /// The names of what waits, by their numbers.
    pub fn names(&self) -> HashMap<u64, String> {
        self.0.doing.locked().names.clone()
    }

    /// Edits, reorders or drops what waits.
    pub fn edit_queue(&self, edit: impl FnOnce(&mut VecDeque<Queued>)) {
        {
            let doing = &mut *self.0.doing.locked();
            let before: Vec<u64> = doing.queue.iter().map(|queued| queued.number).collect();
            edit(&mut doing.queue);
            for gone in before.iter().filter(|number| doing.queue.iter().all(|queued| queued.number != **number)) {
                doing.names.remove(gone);
            }
            doing.unwritten = true;
        }
        self.0.wake.notify_waiters();
    }

    /// Starts the agent again if it is gone, with this session. What waits in the queue waits on.
    pub fn restart(&self) {
        self.0.doing.locked().restart = true;
        self.0.wake.notify_waiters();
    }

    /// Goes on: with the queue after a cancel or a failure, with the agent started again if it is gone.
    pub fn revive(&self) {
        self.0.doing.locked().held = false;
        self.0.wake.notify_waiters();
    }

    /// Asks the agent to stop the turn that runs, if one does. What waits in the queue waits on; see [`Self::revive`].
    pub async fn cancel(&self) {
        if !self.0.begins_to_cancel() {
            return;
        }
        let sent = self.0.doing.locked().sent;
        if let Some(agent) = self.agent().filter(|_| sent) {
            let _ = timeout(CANCEL_TIMEOUT, agent.cancel()).await;
        }
    }

    /// Closes the session, behind the turn that runs. [`Event::Closed`] comes last.
    pub fn close(&self) {
        self.0.doing.locked().closing = true;
        self.0.wake.notify_waiters();
    }

    /// What it is doing.
    pub fn state(&self) -> State {
        self.0.state()
    }

    /// The transcript.
    pub fn conversation(&self) -> &Conversation {
        &self.0.conversation
    }

    /// The questions that stand, the oldest first.
    pub fn questions(&self) -> Vec<Arc<Asked>> {
        self.0.questions()
    }

    /// The session at the agent, while there is one: its options, commands, and what else can be asked of it.
    pub fn agent(&self) -> Option<Arc<AgentSession>> {
        self.0.doing.locked().agent.clone()
    }

    /// The present phase, and since when nothing has happened in it.
    pub fn clock(&self) -> (Phase, Instant) {
        *self.0.clock.locked()
    }

    /// Waits until a limit is reached.
    pub(crate) async fn over_budget(&self) {
        self.0.over_budget.notified().await;
    }

    /// Enters a phase that a run sees to itself.
    pub(crate) fn set_phase(&self, phase: Phase) {
        *self.0.clock.locked() = (phase, Instant::now());
    }

    /// The limit that was reached, or a time that was.
    pub(crate) fn reached(&self) -> &Mutex<Option<Reached>> {
        &self.0.reached
    }

    /// The limits that could not be minded, because the agent never told.
    pub(crate) fn unminded(&self) -> Vec<String> {
        self.0.meter.locked().unminded()
    }

    /// The id that the agent gave it.
    pub fn id(&self) -> SessionId {
        self.0.doing.locked().id.clone()
    }

    /// The files that the turn changed, if that was watched.
    pub(crate) async fn changes(&self, remarks: &mut Vec<String>) -> Option<Vec<Changed>> {
        let mut writer = self.0.writer.lock().await;
        // Questions that were dropped are decided, too.
        writer.decisions(&self.id()).await;
        writer.changes(remarks, false).await
    }

    /// Ends the story of the turn, and of the session here.
    pub(crate) async fn end(&self, ending: Ending, stop: Option<&StopReason>, failure: Option<&Failure>) {
        let mut writer = self.0.writer.lock().await;
        writer.end(ending, stop, failure).await;
        writer.close().await;
    }
}

impl Seat {
    pub(super) async fn enter(&self, phase: Phase) -> Result<()> {
        *self.clock.locked() = (phase, Instant::now());
        self.tell(Event::Phase(phase)).await
    }

    pub(super) fn phase(&self) -> Phase {
        self.clock.locked().0
    }

    /// Something happened: the wait begins anew.
    pub(super) fn stir(&self) {
        self.clock.locked().1 = Instant::now();
    }

    pub(super) async fn tell(&self, event: Event) -> Result<()> {
        // A reader of ours that is slow is not the silence of the agent.
        let _waits = self.link.idle().waits();
        Ok(self.events.send(event).await?)
    }

    fn questions(&self) -> Vec<Arc<Asked>> {
        let id = self.doing.locked().id.clone();
        self.link.parts().notes.questions(&id)
    }

    pub(super) fn state(&self) -> State {
        let asked = !self.questions().is_empty();
        let doing = self.doing.locked();
        match doing.state {
            State::Running if doing.cancelling => State::Cancelling,
            State::Running if asked => State::Asking,
            state => state,
        }
    }

    /// Tells what the session is doing, if that is another thing now.
    pub(super) async fn tell_state(&self) -> Result<()> {
        let now = self.state();
        let before = std::mem::replace(&mut self.doing.locked().told, now);
        if before == now { Ok(()) } else { self.tell(Event::State(now)).await }
    }

    /// Waits until the session is to be closed (`None`) or the next prompt to be sent.
    pub(super) async fn next_prompt(&self) -> Option<Queued> {
        when(&self.wake, || {
            let mut doing = self.doing.locked();
            if doing.closing {
                return Some(None);
            }
            let next = if doing.held { None } else { doing.queue.pop_front() }?;
            (doing.held, doing.unwritten) = (std::mem::take(&mut doing.recalled), true);
            (doing.state, doing.cancel, doing.cancelling, doing.sent) = (State::Running, false, false, false);
            doing.give = false;
            Some(Some(next))
        })
        .await
    }

    /// What waited when the session was last open waits again, and is not sent by itself. Gives how many there are.
    pub(super) fn recall_queue(&self, waited: Vec<Vec<Part>>) -> usize {
        let mut doing = self.doing.locked();
        let waits = !waited.is_empty();
        (doing.held, doing.recalled) = (waits && doing.queue.is_empty(), waits && !doing.queue.is_empty());
        let waited: Vec<_> = waited.into_iter().take(MAX_QUEUED).collect();
        let count = waited.len();
        for parts in waited {
            doing.count += 1;
            let number = doing.count;
            doing.queue.push_back(Queued { number, parts });
        }
        count
    }

    /// The journal is told again what waits: it did not know the session before.
    pub(super) fn rewrite_queue(&self) {
        self.doing.locked().unwritten = true;
    }

    /// Waits until the journal does not know what waits.
    pub(super) async fn queue_changed(&self) {
        when(&self.wake, || self.doing.locked().unwritten.then_some(())).await;
    }

    /// Writes down what waits, if that is another thing now.
    pub(super) async fn keep_queue(&self) {
        let queue = {
            let mut doing = self.doing.locked();
            if !std::mem::take(&mut doing.unwritten) || self.opening.once {
                return;
            }
            // What is not taken yet may have to be said again.
            doing.given.iter().chain(&doing.queue).cloned().collect::<Vec<_>>()
        };
        self.writer.lock().await.queue(queue.iter().map(|queued| &queued.parts[..])).await;
    }

    /// The turn that runs is to be cancelled. False if there is none, or it is being cancelled.
    pub(super) fn begins_to_cancel(&self) -> bool {
        let mut doing = self.doing.locked();
        if doing.state != State::Running || doing.cancelling {
            return false;
        }
        (doing.held, doing.cancel, doing.cancelling) = (true, true, true);
        drop(doing);
        self.wake.notify_waiters();
        true
    }

    /// Counts what an update costs.
    pub(super) fn count(&self, update: &Update, time: When) {
        let mut meter = self.meter.locked();
        if time == When::Before {
            return meter.before(update);
        }
        if let Some(reached) = meter.take(update)
            && self.reached.locked().is_none()
        {
            *self.reached.locked() = Some(reached);
            self.over_budget.notify_one();
        }
    }
}

impl From<Gone> for Box<Failure> {
    fn from(_: Gone) -> Self {
        Failure::new(Ending::OutputClosed, Phase::Turn, "nobody reads the output any more")
    }
}
