//! Runs the steps, and watches over them: signals, deadlines, the ladder from a polite cancel to a kill, and the end.

use super::journal_writer::JournalWriter;
use super::limits::{IdleTimer, Meter};
use super::record::Record;
use super::{Ending, Failure, Gone, Outcome, Parts, Phase, Plan, Progress, Reached, Said, Stop, Watch, When};
use crate::answer;
use crate::live::Conversation;
use crate::login::Launch;
use crate::permission::way_out;
use crate::undo;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tieline::client::{AgentHandle, Session};
use tieline::process::{ChildProcess, Status};
use tieline::schema::{StopReason, Update};
use tokio::sync::{Mutex, Notify, mpsc};
use tokio::time::{Instant, sleep_until, timeout};

/// How long an agent gets to end a turn that was cancelled.
const CANCEL: Duration = Duration::from_secs(4);
/// How long an agent of others may be silent after a turn before we take it that nothing comes any more.
const QUIET: Duration = Duration::from_millis(25);
/// Late updates are read at most this long.
const LATE: Duration = Duration::from_secs(2);
/// How long an agent gets to end that was made to stop.
const HURRY: Duration = Duration::from_millis(700);
/// How long an agent gets to close a session.
const CLOSE: Duration = Duration::from_secs(1);
/// How often the age of a wait is told.
const TICK: Duration = Duration::from_secs(1);
/// For ever, as far as a timer is concerned.
const FAR: Duration = Duration::from_hours(24 * 365);

/// What is alive during a run.
pub(super) struct Live<'r, W> {
    pub(super) plan: &'r Plan,
    pub(super) parts: &'r Parts,
    pub(super) watch: &'r W,
    /// The present phase, and since when nothing has happened in it.
    clock: Cell<(Phase, std::time::Instant)>,
    pub(super) record: Mutex<Record>,
    pub(super) writer: Arc<Mutex<JournalWriter>>,
    pub(super) launch: RefCell<Option<Launch>>,
    pub(super) child: RefCell<Option<Rc<ChildProcess>>>,
    pub(super) agent: RefCell<Option<AgentHandle>>,
    pub(super) session: RefCell<Option<Rc<Session>>>,
    /// How the agent's process ended.
    exit: Cell<Option<Status>>,
    pub(super) conversation: Conversation,
    pub(super) idle: IdleTimer,
    pub(super) meter: RefCell<Meter>,
    /// The limit that was reached first.
    reached: RefCell<Option<Reached>>,
    over_budget: Notify,
    /// The turn is being cancelled.
    pub(super) cancelled: Notify,
    /// It was cancelled while a person was asked.
    at_question: Cell<bool>,
}

/// Runs a plan to its end. Whatever happens, one outcome comes back, and nothing that was started is left.
pub async fn run<W: Watch>(mut plan: Plan, parts: Parts, watch: &W, stops: &mut mpsc::Receiver<Stop>) -> Outcome {
    let began = std::time::Instant::now();
    // The files are looked at while the agent starts.
    let roots = || std::iter::once(&plan.cwd).chain(&plan.roots).cloned();
    let scanning = undo::scan(plan.journal.as_ref(), roots(), &plan.ours, undo::Limits::default());
    let conversation = Conversation::default();
    let writer = JournalWriter::new(
        plan.recording.take(),
        parts.notes.clone(),
        scanning,
        conversation.clone(),
        plan.cwd.clone(),
        plan.agent.is_built_in(),
    );
    let live = Live {
        plan: &plan,
        parts: &parts,
        watch,
        clock: Cell::new((Phase::Find, began)),
        record: Mutex::new(Record::new(&plan.agent.name, plan.cwd.clone())),
        writer: Arc::new(Mutex::new(writer)),
        launch: RefCell::default(),
        child: RefCell::default(),
        agent: RefCell::default(),
        session: RefCell::default(),
        exit: Cell::default(),
        conversation,
        idle: IdleTimer::default(),
        meter: RefCell::new(Meter::new(plan.budget)),
        reached: RefCell::default(),
        over_budget: Notify::new(),
        cancelled: Notify::new(),
        at_question: Cell::default(),
    };
    let (stop, failure) = live.control(stops).await;
    // Who was made to stop gets little time.
    let hurry = failure.as_ref().is_some_and(|failure| {
        matches!(
            failure.ending,
            Ending::Interrupted
                | Ending::Terminated
                | Ending::TimedOut
                | Ending::Budget
                | Ending::OutputClosed
                | Ending::Denied
        )
    });
    live.end(failure.is_none(), hurry, stops).await;
    if failure.is_none() {
        live.meter.borrow().unminded().into_iter().for_each(|warning| parts.notes.warn(warning));
    }
    live.last_notes(hurry, stops).await;
    live.outcome(stop, failure, began).await
}

impl<W: Watch> Live<'_, W> {
    pub(super) fn enter(&self, phase: Phase) {
        self.clock.set((phase, std::time::Instant::now()));
        self.watch.hear(Progress::Phase(phase));
    }

    pub(super) fn phase(&self) -> Phase {
        self.clock.get().0
    }

    /// Something happened: the wait begins anew.
    pub(super) fn stir(&self) {
        self.clock.set((self.phase(), std::time::Instant::now()));
    }

    fn tell_age(&self) {
        let (phase, since) = self.clock.get();
        self.watch.hear(Progress::Waiting(phase, since.elapsed()));
    }

    pub(super) fn child(&self) -> Option<Rc<ChildProcess>> {
        self.child.borrow().clone()
    }

    fn session(&self) -> Option<Rc<Session>> {
        self.session.borrow().clone()
    }

    /// Counts what an update costs.
    pub(super) fn count(&self, update: &Update, when: When) {
        let mut meter = self.meter.borrow_mut();
        if when == When::Before {
            return meter.before(update);
        }
        if let Some(reached) = meter.take(update)
            && self.reached.borrow().is_none()
        {
            self.reached.replace(Some(reached));
            self.over_budget.notify_one();
        }
    }

    /// Runs the steps until they end, or have to. Gives why the turn stopped, if it did, and what went wrong.
    async fn control(&self, stops: &mut mpsc::Receiver<Stop>) -> (Option<StopReason>, Option<Box<Failure>>) {
        let drive = self.drive();
        tokio::pin!(drive);
        let limit = Instant::now() + self.plan.limit.unwrap_or(FAR);
        let idle = self.plan.idle_limit.unwrap_or(FAR);
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        // Why we stop, and how long the agent has for it.
        let mut stopping: Option<(Ending, Instant)> = None;
        loop {
            let patience = stopping.map_or(limit, |(_, until)| until);
            let ending = tokio::select! {
                biased;
                driven = &mut drive => return match (driven, stopping) {
                    (Ok(stop), None) => (stop, None),
                    (Err(mut failure), None) => {
                        if failure.ending == Ending::OutputClosed {
                            failure.phase = self.phase();
                        }
                        (None, Some(failure))
                    }
                    // The agent finished in spite of the cancel, or because of it.
                    (driven, Some((ending, _))) => (driven.ok().flatten(), Some(self.stopped(ending, false))),
                },
                Some(stop) = stops.recv() => match stop {
                    Stop::Interrupt => Ending::Interrupted,
                    Stop::Terminate => Ending::Terminated,
                },
                () = sleep_until(patience) => self.out_of_time("timeout", self.plan.limit.unwrap_or_default()),
                () = self.over_budget.notified(), if stopping.is_none() => Ending::Budget,
                () = self.idle.silent(idle), if stopping.is_none() && self.phase() == Phase::Turn => {
                    self.out_of_time("idle-timeout", idle)
                }
                _ = tick.tick() => {
                    self.tell_age();
                    continue;
                }
            };
            match stopping {
                // The first time, if there is a turn: ask.
                None if self.phase() == Phase::Turn => {
                    self.at_question.set(self.parts.services.is_asking());
                    stopping = Some((ending, Instant::now() + CANCEL));
                    self.watch.hear(Progress::Cancelling(ending));
                    self.cancelled.notify_one();
                    if let Some(session) = self.session() {
                        // An agent that does not read is not waited for.
                        let _ = timeout(Duration::from_millis(200), session.cancel()).await;
                    }
                }
                // There is nothing to cancel.
                None => return (None, Some(self.stopped(ending, false))),
                // The agent did not listen, or the user insists.
                Some((first, _)) => {
                    self.watch.hear(Progress::Ending);
                    if let Some(child) = self.child() {
                        child.kill();
                    }
                    return (None, Some(self.stopped(first, true)));
                }
            }
        }
    }

    fn out_of_time(&self, name: &'static str, limit: Duration) -> Ending {
        self.reached.borrow_mut().get_or_insert_with(|| Reached::time(name, limit));
        Ending::TimedOut
    }

    fn stopped(&self, ending: Ending, deaf: bool) -> Box<Failure> {
        let phase = self.phase();
        let reached = self.reached.borrow().clone().filter(|_| matches!(ending, Ending::TimedOut | Ending::Budget));
        let what = match (&reached, ending) {
            (Some(reached), _) => reached.to_string(),
            (None, Ending::Interrupted) => "interrupted".to_owned(),
            (None, _) => "told to end".to_owned(),
        };
        let when =
            if self.at_question.get() { "at a question".to_owned() } else { format!("while {}", phase.waits_for()) };
        let how = if deaf { "; the agent did not heed the cancel and was killed" } else { "" };
        let mut failure = Failure::new(ending, phase, format!("{what} {when}{how}"));
        if ending == Ending::TimedOut {
            failure.stderr = self.last_words();
        }
        failure.limit = reached;
        failure
    }

    /// Reads what comes late, closes the session, and ends the agent with everything it started.
    async fn end(&self, turned: bool, hurry: bool, stops: &mut mpsc::Receiver<Stop>) {
        self.enter(Phase::End);
        let work = async {
            if turned || (self.plan.forget && !hurry) {
                self.late().await;
                self.close_session().await;
            }
            let Some(child) = self.child() else { return };
            let agent = self.agent.borrow().clone();
            let close = async {
                if let Some(agent) = &agent {
                    agent.peer().close().await;
                }
            };
            let gone = async { tokio::join!(close, child.shutdown()).1 };
            tokio::pin!(gone);
            let reason = match timeout(if hurry { HURRY } else { FAR }, &mut gone).await {
                Ok(reason) => reason,
                Err(_) => {
                    child.kill();
                    gone.await
                }
            };
            self.exit.set(Some(reason.status));
        };
        tokio::pin!(work);
        let mut tick = tokio::time::interval(TICK);
        // A reader that does not read may hold this up, until we are told to stop.
        let mut until = Instant::now() + FAR;
        loop {
            tokio::select! {
                biased;
                () = &mut work => return,
                () = sleep_until(until) => return,
                Some(_) = stops.recv() => {
                    until = until.min(Instant::now() + LATE);
                    self.watch.hear(Progress::Killing);
                    if let Some(child) = self.child() {
                        child.kill();
                    }
                }
                _ = tick.tick() => self.tell_age(),
            }
        }
    }

    /// Writes down what is still to be told, and tells it. A reader that does not read is waited for until we are told to stop.
    async fn last_notes(&self, hurry: bool, stops: &mut mpsc::Receiver<Stop>) {
        let notes: Vec<_> = std::iter::from_fn(|| self.parts.notes.take()).collect();
        for note in &notes {
            self.record.lock().await.note(note);
        }
        let tell = async {
            for note in notes {
                self.show(note).await?;
            }
            Ok::<_, Gone>(())
        };
        tokio::select! {
            biased;
            _ = tell => {}
            _ = stops.recv() => {}
            () = tokio::time::sleep(LATE), if hurry => {}
        }
    }

    /// Updates that come behind the end of the turn.
    async fn late(&self) {
        let Some(session) = self.session() else { return };
        let (own, until) = (self.plan.agent.is_built_in(), Instant::now() + LATE);
        while Instant::now() < until {
            let next = if own { session.try_next() } else { timeout(QUIET, session.next()).await.ok().flatten() };
            let Some(update) = next else { return };
            if self.take(&update, When::Late).await.is_err() {
                return;
            }
        }
    }

    /// Lets go of the session, so that another process can take it up. That it is closed is not vital.
    async fn close_session(&self) {
        let (agent, session) = (self.agent.borrow().clone(), self.session.take().and_then(Rc::into_inner));
        let (Some(agent), Some(session)) = (agent, session) else { return };
        let id = session.id().clone();
        if agent.capabilities().close {
            let _ = timeout(CLOSE, session.close()).await;
        }
        if agent.capabilities().delete && self.plan.forget {
            let _ = timeout(CLOSE, agent.delete(id)).await;
        }
    }

    async fn outcome(
        self,
        stop: Option<StopReason>,
        mut failure: Option<Box<Failure>>,
        began: std::time::Instant,
    ) -> Outcome {
        if let (None, Some(reached)) = (&failure, self.reached.take()) {
            // Some agents tell the cost only when all is said.
            let why = format!("{reached}, told at the end of the turn");
            let mut over = Failure::new(Ending::Budget, Phase::Turn, why);
            over.limit = Some(reached);
            failure = Some(over);
        }
        // What could not be read is one of them; a process that died or an error that was told is not.
        let plain = |failure: &Failure| {
            failure.ending == Ending::Failed && failure.exit.is_none() && failure.rpc_code.is_none()
        };
        if let (violations @ [first, ..], count) =
            (&*self.parts.frames.violations().0, self.parts.frames.violations().1)
            && failure.as_deref().is_none_or(plain)
        {
            let times = if count == 1 { "once".to_owned() } else { format!("{count} times") };
            let phase = failure.as_ref().map_or(Phase::Turn, |failure| failure.phase);
            let mut broken =
                Failure::new(Ending::Violation, phase, format!("the agent broke the protocol {times}: {first}"));
            broken.violations = violations.to_vec();
            failure = Some(broken);
        }
        let record = self.record.into_inner();
        let permissions = self.parts.notes.permissions();
        if let (None, Some(stop)) = (&failure, &stop) {
            failure = unasked(stop, permissions.denied > 0);
        }
        let mut ending = match (&stop, &failure) {
            (_, Some(failure)) => failure.ending,
            (Some(stop), None) => Ending::of(stop),
            (None, None) => Ending::Done,
        };
        let ours = self.plan.agent.is_built_in();
        if permissions.allowed == 0 && record.deeds.were_refused(ending, permissions.denied > 0, ours) {
            ending = Ending::Denied;
        }
        let mut answer = None;
        if let (Ending::Done, Some(schema)) = (ending, &self.plan.schema) {
            match last_message(&record.said).and_then(|text| schema.check_message(&text)) {
                Ok(value) => answer = Some(value),
                Err(why) => {
                    ending = Ending::Misfit;
                    failure = Some(Failure::new(ending, Phase::Turn, why));
                }
            }
        }
        let mut remarks = Vec::new();
        if record.said.is_cut() {
            remarks.push("some of the text could not be kept: there is no room for it on the disk".to_owned());
        }
        match &stop {
            Some(StopReason::Other(name)) => {
                remarks.push(format!("the agent stopped for a reason that is not known here: {name}"));
            }
            // Our own agent remembers what it could not do.
            Some(StopReason::Refusal) if ending == Ending::Refused && !self.plan.agent.is_built_in() => {
                remarks.push("what was said in this turn is no part of the conversation any more".to_owned());
            }
            Some(StopReason::Cancelled) if failure.is_none() => {
                remarks.push("the agent ended the turn as cancelled after something was refused".to_owned());
            }
            Some(StopReason::EndTurn) if ending == Ending::Done && record.is_silent() => {
                remarks.push("the agent ended the turn without a word; perhaps its model can't be reached".to_owned());
            }
            _ => {}
        }
        let mut writer = self.writer.lock().await;
        // Questions that were dropped are decided, too.
        writer.decisions(&self.parts.notes).await;
        let changed = match writer.changes(&mut remarks).await {
            Some(changed) => changed,
            None => record.changed(),
        };
        // What we demand of a turn that ended is no part of its story.
        let told = failure.as_deref().filter(|told| !matches!(told.ending, Ending::Misfit | Ending::Violation));
        writer.end(ending, stop.as_ref(), told).await;
        if ending == Ending::Denied && failure.is_none() {
            failure = Some(all_refused(permissions.denied > 0, self.parts.notes.way(), record.deeds.held.as_deref()));
        }
        let usage = self.conversation.usage();
        Outcome {
            ending,
            stop,
            said: record.said,
            agent: record.agent,
            session: record.session,
            usage: usage.as_ref().map(|usage| (usage.used, usage.size)),
            cost: usage.and_then(|usage| usage.cost),
            changed,
            permissions,
            warnings: self.parts.notes.warnings().into_iter().chain(remarks.iter().cloned()).collect(),
            remarks,
            answer,
            failure,
            exit: self.exit.get(),
            took: began.elapsed(),
        }
    }
}

/// The last message, unless it is longer than anything that is checked.
fn last_message(said: &Said) -> Result<String, String> {
    let mut text = String::new();
    let read = said.last(|piece| {
        text.push_str(piece);
        if text.len() > answer::LONGEST { Err(std::io::ErrorKind::FileTooLarge.into()) } else { Ok(()) }
    });
    read.map(|()| text).map_err(|error| format!("the answer can't be checked: {error}"))
}

/// An end that the agent says somebody wanted, or that it knows to be bad.
fn unasked(stop: &StopReason, refused: bool) -> Option<Box<Failure>> {
    let why = match stop {
        // Some say so when they were refused something.
        StopReason::Cancelled if !refused => "the agent says that the turn was cancelled, but nobody asked for that",
        StopReason::Error => "the agent says that the turn ended with an error, and not with which",
        _ => return None,
    };
    Some(Failure::new(Ending::Failed, Phase::Turn, why).hint("say it again; -c goes on with the session"))
}

/// What is said where nothing was allowed: by those who were asked, or by what our own agent is `held` back by.
fn all_refused(asked: bool, way: Option<String>, held: Option<&str>) -> Box<Failure> {
    let why =
        if asked { "every permission that was asked for was refused" } else { "what the agent wanted is not allowed" };
    let mut failure = Failure::new(Ending::Denied, Phase::Turn, why);
    // Who said no knows how to say yes.
    failure.hint = way.or_else(|| held.filter(|_| !asked).map(way_out));
    failure
}
