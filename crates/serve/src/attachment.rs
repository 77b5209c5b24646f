//! One client on one live session: its prompts go in, what the session tells goes out, questions are asked.

use crate::hub::{Role, failed};
use crate::question;
use crate::room::{Arrival, Out, Person, Room, STALL_TIMEOUT, Takes, state};
use crate::watch::Watch;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use tieline::agent::{Opened, Session, SessionHandle, Turn};
use tieline::rpc::Cancel;
use tieline::rpc::sync::Lock as _;
use tieline::schema::{ConfigOption, ConfigValue, ContentBlock, Severity, State, StateUpdate, StopReason, Update};
use tieline::{Error, Result};
use tieline_client::live::{Asked, Part};
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::timeout;

/// The prompts of a client that are not over.
type Waiting = Arc<Mutex<Prompts>>;

#[derive(Default)]
struct Prompts {
    /// Those that the session has, by their numbers.
    known: HashMap<u64, Prompted>,
    /// Those that the engine has begun and the session does not have yet.
    coming: usize,
}

struct Prompted {
    end: oneshot::Sender<Result<StopReason>>,
    turn: Turn,
}

/// A client on a session.
pub(crate) struct Attachment {
    room: Arc<Room>,
    person: Arc<Person>,
    role: Role,
    waiting: Waiting,
    /// Passes on what the session tells.
    task: AbortHandle,
}

impl Drop for Attachment {
    fn drop(&mut self) {
        self.task.abort();
        self.room.leave(&self.person);
    }
}

impl Attachment {
    /// Puts a client on a session. With `replay` it is told first what was said before. `None` if the session is about to end.
    pub(crate) async fn open(
        room: Arc<Room>,
        session: SessionHandle,
        (name, role): (&str, Role),
        replay: bool,
        over: Cancel,
    ) -> Result<Option<Opened<Self>>> {
        let can = session.client().capabilities().clone();
        let may = role >= Role::Use;
        let takes = Takes { questions: may, forms: may && can.elicit_form, pages: may && can.elicit_url };
        let Some(arrival) = room.arrive(name, takes, over.clone()).map_err(Error::internal)? else { return Ok(None) };
        let Arrival { person, out, before, running, questions } = arrival;
        let waiting = Waiting::default();
        let line = Line {
            session: session.clone(),
            name: name.to_owned(),
            watch: Arc::clone(&room.watch),
            waiting: Arc::clone(&waiting),
            takes,
            own: None,
            open: HashSet::new(),
            asking: HashMap::new(),
        };
        let agent = room.live.agent();
        let (options, commands) = agent.map(|agent| (agent.options(), agent.commands())).unwrap_or_default();
        // It is made before anything is told: if that fails, the client has left.
        let (told, ready) = oneshot::channel();
        let task = tokio::spawn(line.run(out, running, questions, ready)).abort_handle();
        let attachment = Self { room, person, role, waiting, task };
        for update in before.into_iter().filter(|_| replay) {
            let Ok(sent) = timeout(STALL_TIMEOUT, session.update(update)).await else {
                over.cancel();
                return Err(Error::wire(-32603, "the client takes nothing"));
            };
            sent?;
        }
        let _ = told.send(());
        let mut opened = Opened::new(attachment).options(options);
        opened.commands = commands;
        Ok(Some(opened))
    }

    fn may_use(&self) -> Result<()> {
        if self.role >= Role::Use {
            return Ok(());
        }
        Err(Error::wire(-32603, "this token may only look on"))
    }
}

impl Session for Attachment {
    async fn accept(&self, _: &str, _: &[ContentBlock]) -> Result<()> {
        self.may_use()?;
        self.waiting.locked().coming += 1;
        Ok(())
    }

    async fn prompt(&self, turn: Turn, prompt: Vec<ContentBlock>) -> Result<StopReason> {
        let parts = prompt.into_iter().map(|block| Part::Block(Box::new(block))).collect();
        let (end, mut ended) = oneshot::channel();
        let number = {
            // Held until it is known whose prompt this is.
            let mut waiting = self.waiting.locked();
            waiting.coming = waiting.coming.saturating_sub(1);
            let number = self.room.live.prompt(parts);
            let number = number.ok_or_else(|| Error::wire(-32603, "too many prompts wait in this session"))?;
            waiting.known.insert(number, Prompted { end, turn: turn.clone() });
            number
        };
        let gone = || Error::wire(-32603, "the session has ended");
        tokio::select! {
            biased;
            end = &mut ended => return end.unwrap_or_else(|_| Err(gone())),
            () = turn.cancelled() => {}
        }
        let client = turn.client();
        // A client that is gone has cancelled nothing: the agent works on.
        let is_gone = tokio::select! {
            biased;
            () = client.closed() => true,
            () = std::future::ready(()) => false,
        };
        if is_gone {
            return Ok(StopReason::Cancelled);
        }
        let mut waits = false;
        self.room.live.edit_queue(|queue| {
            let before = queue.len();
            queue.retain(|queued| queued.number != number);
            waits = queue.len() < before;
        });
        if waits {
            self.waiting.locked().known.remove(&number);
            return Ok(StopReason::Cancelled);
        }
        self.room.live.cancel().await;
        ended.await.unwrap_or_else(|_| Err(gone()))
    }

    async fn cancel_others(&self) {
        if self.role >= Role::Use {
            self.room.live.cancel().await;
        }
    }

    async fn set_option(&self, id: String, value: ConfigValue) -> Result<Option<Vec<ConfigOption>>> {
        self.may_use()?;
        let agent = self.room.live.agent().ok_or_else(|| Error::wire(-32603, "the agent is not running"))?;
        agent.set_option(&id, value).await.map(Some)
    }

    async fn close(&self) {
        // The last one takes the light with it.
        if self.role >= Role::Use && self.room.close_behind(Some(&self.person)) {
            self.room.live.cancel().await;
            self.room.ended().await;
        }
    }

    async fn leave(&self) {}
}

/// The way from a session to one client.
struct Line {
    session: SessionHandle,
    name: String,
    watch: Arc<Watch>,
    waiting: Waiting,
    takes: Takes,
    /// The turn that runs is this client's.
    own: Option<u64>,
    /// The questions that wait, whoever is asked.
    open: HashSet<u64>,
    /// Those that it is asked.
    asking: HashMap<u64, AbortHandle>,
}

impl Drop for Line {
    fn drop(&mut self) {
        self.asking.values().for_each(AbortHandle::abort);
        // Their prompts end with an error.
        self.waiting.locked().known.clear();
    }
}

impl Line {
    async fn run(
        mut self,
        mut out: mpsc::Receiver<Out>,
        running: bool,
        questions: Vec<Arc<Asked>>,
        ready: oneshot::Receiver<()>,
    ) {
        if ready.await.is_err() {
            return;
        }
        if running {
            let _ = self.session.update(state(true, None)).await;
        }
        for asked in questions {
            let _ = self.pass(Out::Asked(asked)).await;
        }
        while let Some(next) = out.recv().await {
            if self.pass(next).await.is_err() {
                return;
            }
        }
    }

    async fn pass(&mut self, out: Out) -> Result<()> {
        match out {
            // Its own words it has heard from the engine.
            Out::Update(_, true) if self.own.is_some() => Ok(()),
            Out::Update(update, true) => self.session.said_by_other((*update).clone()).await,
            Out::Update(update, false) => self.session.update((*update).clone()).await,
            Out::Begun(number) => {
                self.own = Some(number).filter(|number| self.waiting.locked().known.contains_key(number));
                self.tell_state(state(true, None)).await
            }
            Out::Ended(number, stop) => {
                self.own = None;
                let prompted = self.waiting.locked().known.remove(&number);
                if let Some(Prompted { end, turn }) = prompted {
                    let _ = end.send(stop.map_err(|failure| failed(&failure)));
                    // What others do next comes behind the end of this turn.
                    turn.over().await;
                    return Ok(());
                }
                if let Err(failure) = &stop {
                    self.session.notice(Severity::Error, failure.message.clone()).await?;
                }
                self.tell_state(state(false, stop.ok())).await
            }
            Out::Asked(asked) => {
                let first = self.open.is_empty();
                self.open.insert(asked.number);
                self.ask(asked);
                if first { self.tell_asking(true).await } else { Ok(()) }
            }
            Out::Settled(number) => {
                if let Some(asking) = self.asking.remove(&number) {
                    asking.abort();
                }
                let last = self.open.remove(&number) && self.open.is_empty();
                if last { self.tell_asking(false).await } else { Ok(()) }
            }
            Out::Lost(failure, last) => {
                self.own = None;
                for (_, Prompted { end, .. }) in self.waiting.locked().known.extract_if(|number, _| *number <= last) {
                    let _ = end.send(Err(failed(&failure)));
                }
                let words = format!("{}. The next prompt starts the agent again.", failure.message);
                self.session.notice(Severity::Error, words).await?;
                self.tell_state(state(false, None)).await
            }
            Out::Notice(severity, words) => self.session.notice(severity, &*words).await,
        }
    }

    /// Tells what the session does for others. A client that waits for its own prompt knows that it is at work, and would take the
    /// end of another turn for that of its own.
    async fn tell_state(&self, state: Update) -> Result<()> {
        if self.waits() { Ok(()) } else { self.session.update(state).await }
    }

    /// Tells that the turn waits for somebody, or goes on. Of its own turn the engine knows no questions: they are asked beside it.
    async fn tell_asking(&self, open: bool) -> Result<()> {
        if self.waits() && self.own.is_none() {
            return Ok(());
        }
        let state = if open { State::RequiresAction } else { State::Running };
        self.session.update(Update::State(StateUpdate { state, background: None, meta: None })).await
    }

    /// A prompt of this client has no end yet.
    fn waits(&self) -> bool {
        let waiting = self.waiting.locked();
        waiting.coming > 0 || !waiting.known.is_empty()
    }

    /// Asks the client beside what else it is told; once for each question.
    fn ask(&mut self, asked: Arc<Asked>) {
        if !self.takes.questions || self.asking.contains_key(&asked.number) {
            return;
        }
        let (number, session) = (asked.number, self.session.clone());
        let task = tokio::spawn(question::ask(asked, session, self.name.clone(), Arc::clone(&self.watch)));
        self.asking.insert(number, task.abort_handle());
    }
}
