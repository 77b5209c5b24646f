//! Runs one prompt, and watches over it: signals, deadlines, the ladder from a polite cancel to a kill, and the end.

use super::record::Record;
use super::{Outcome, Plan, Progress, Stop, Watch};
use crate::answer::{self, Schema};
use crate::live::{Ending, Event, Events, Failure, Link, Note, Parts, Phase, Reached, Said, Session, State};
use crate::permission::way_out;
use std::cell::{Cell, RefCell};
use std::time::Duration;
use tieline::process::Status;
use tieline::rpc::sync::Lock;
use tieline::schema::{MessageKind, StopReason};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

/// How long an agent gets to end a turn that was cancelled.
const CANCEL: Duration = Duration::from_secs(4);
/// How long last words may take when we were told to stop.
const LATE: Duration = Duration::from_secs(2);
/// How long an agent gets to end that was made to stop.
const HURRY: Duration = Duration::from_millis(700);
/// So many breaches of the protocol are named in the error.
const MAX_NAMED: usize = 3;
/// How often the age of a wait is told.
const TICK: Duration = Duration::from_secs(1);
/// For ever, as far as a timer is concerned.
const FAR: Duration = Duration::from_hours(24 * 365);
/// What became of an agent that had its time to stop, and of one that nobody gave it.
const DID_NOT_HEED: &str = "; the agent did not heed the cancel and was killed";
const WAS_NOT_WAITED_FOR: &str = "; the agent was killed before it had stopped";

/// What is alive during a run.
struct Run<'r, W> {
    watch: &'r W,
    link: Link,
    session: Session,
    events: RefCell<Option<Events>>,
    record: RefCell<Record>,
    limit: Option<Duration>,
    idle_limit: Option<Duration>,
    /// Nothing is said: the run ends when the session is open.
    only_opens: bool,
    forget: bool,
    /// It was cancelled while a person was asked.
    at_question: Cell<bool>,
}

/// Runs a plan to its end. Whatever happens, one outcome comes back, and nothing that was started is left.
pub async fn run<W: Watch>(plan: Plan, parts: Parts, watch: &W, stops: &mut mpsc::Receiver<Stop>) -> Outcome {
    let began = std::time::Instant::now();
    let Plan { setup, mut opening, prompt, limit, idle_limit, schema } = plan;
    opening.once = true;
    let record = RefCell::new(Record::new(&setup.agent.name, opening.cwd.clone()));
    let (only_opens, forget) = (prompt.is_empty(), opening.forget);
    let link = Link::new(setup, parts);
    let (session, events) = link.open(opening, prompt);
    let events = RefCell::new(Some(events));
    let run = Run {
        watch,
        link,
        session,
        events,
        record,
        limit,
        idle_limit,
        only_opens,
        forget,
        at_question: Cell::default(),
    };
    let (stop, failure) = run.control(stops).await;
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
    let exit = run.end(failure.is_none(), hurry, stops).await;
    if failure.is_none() {
        run.session.unminded().into_iter().for_each(|warning| run.link.parts().notes.warn(warning));
    }
    run.last_notes(hurry, stops).await;
    let outcome = run.outcome(stop, failure, schema.as_ref()).await;
    Outcome { exit, took: began.elapsed(), ..outcome }
}

impl<W: Watch> Run<'_, W> {
    fn phase(&self) -> Phase {
        self.session.clock().0
    }

    fn tell_age(&self) {
        let (phase, since) = self.session.clock();
        self.watch.hear(Progress::Waiting(phase, since.elapsed()));
    }

    /// Shows what comes until the turn is over, or the session open if nothing is said. Behind that: until it is closed.
    async fn show(&self, events: &mut Events) -> Result<Option<StopReason>, Box<Failure>> {
        while let Some(event) = events.next().await {
            self.record.borrow_mut().take(&event);
            match event {
                Event::Phase(phase) => self.watch.hear(Progress::Phase(phase)),
                Event::Ended { stop, .. } => return stop.map(Some),
                Event::State(State::Idle) if self.only_opens => return Ok(None),
                Event::Lost(failure) => return Err(failure),
                Event::Closed => break,
                // What comes before a question is shown by now; what the user said is known; the rest is for screens.
                Event::Asking(_)
                | Event::Said { kind: MessageKind::User, .. }
                | Event::State(_)
                | Event::Begun(_)
                | Event::Asked(_)
                | Event::Settled(_) => {}
                event => self.watch.see(event).await?,
            }
        }
        Ok(None)
    }

    /// Shows what comes until the turn ends, or has to. Gives why it stopped, if it did, and what went wrong.
    async fn control(&self, stops: &mut mpsc::Receiver<Stop>) -> (Option<StopReason>, Option<Box<Failure>>) {
        let Some(mut events) = self.events.take() else { return (None, None) };
        let (stop, failure) = self.controlled(&mut events, stops).await;
        if failure.is_none() || self.forget {
            self.events.replace(Some(events));
        } else {
            events.end().await;
        }
        (stop, failure)
    }

    async fn controlled(
        &self,
        events: &mut Events,
        stops: &mut mpsc::Receiver<Stop>,
    ) -> (Option<StopReason>, Option<Box<Failure>>) {
        let show = self.show(events);
        tokio::pin!(show);
        let limit = Instant::now() + self.limit.unwrap_or(FAR);
        let idle = self.idle_limit.unwrap_or(FAR);
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        // Why we stop, and how long the agent has for it.
        let mut stopping: Option<(Ending, Instant)> = None;
        loop {
            let patience = stopping.map_or(limit, |(_, until)| until);
            let ending = tokio::select! {
                biased;
                shown = &mut show => return match (shown, stopping) {
                    (Ok(stop), None) => (stop, None),
                    (Err(mut failure), None) => {
                        if failure.ending == Ending::OutputClosed {
                            failure.phase = self.phase();
                        }
                        (None, Some(failure))
                    }
                    // The agent finished in spite of the cancel, or because of it.
                    (shown, Some((ending, _))) => (shown.ok().flatten(), Some(self.stopped(ending, ""))),
                },
                Some(stop) = stops.recv() => match stop {
                    Stop::Interrupt => Ending::Interrupted,
                    Stop::Terminate => Ending::Terminated,
                },
                () = sleep_until(patience) => self.out_of_time("timeout", self.limit.unwrap_or_default()),
                () = self.session.over_budget(), if stopping.is_none() => Ending::Budget,
                () = self.link.idle().silent(idle), if stopping.is_none() && self.phase() == Phase::Turn => {
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
                    self.at_question.set(self.link.parts().services.is_asking());
                    stopping = Some((ending, Instant::now() + CANCEL));
                    self.watch.hear(Progress::Cancelling(ending));
                    self.session.cancel().await;
                }
                // There is nothing to cancel.
                None => return (None, Some(self.stopped(ending, ""))),
                // The agent did not listen, or the user insists.
                Some((first, deadline)) => {
                    let had_time = Instant::now() >= deadline;
                    self.watch.hear(Progress::Ending);
                    self.link.kill();
                    let how = if had_time { DID_NOT_HEED } else { WAS_NOT_WAITED_FOR };
                    return (None, Some(self.stopped(first, how)));
                }
            }
        }
    }

    fn out_of_time(&self, name: &'static str, limit: Duration) -> Ending {
        self.session.reached().locked().get_or_insert_with(|| Reached::time(name, limit));
        Ending::TimedOut
    }

    /// Why it was stopped, and what became of the agent, if there is more to say.
    fn stopped(&self, ending: Ending, how: &str) -> Box<Failure> {
        let phase = self.phase();
        let reached = self.session.reached().locked().clone();
        let reached = reached.filter(|_| matches!(ending, Ending::TimedOut | Ending::Budget));
        let what = match (&reached, ending) {
            (Some(reached), _) => reached.to_string(),
            (None, Ending::Interrupted) => "interrupted".to_owned(),
            (None, _) => "told to end".to_owned(),
        };
        let when =
            if self.at_question.get() { "at a question".to_owned() } else { format!("while {}", phase.waits_for()) };
        let mut failure = Failure::new(ending, phase, format!("{what} {when}{how}"));
        if ending == Ending::TimedOut {
            failure.stderr = self.link.last_words();
        }
        failure.limit = reached;
        failure
    }

    /// Shows what comes late, closes the session, and ends the agent with everything it started. Says how its process ended.
    async fn end(&self, turned: bool, hurry: bool, stops: &mut mpsc::Receiver<Stop>) -> Option<Status> {
        self.session.set_phase(Phase::End);
        self.watch.hear(Progress::Phase(Phase::End));
        let work = async {
            let events = self.events.take();
            if let Some(mut events) = events {
                if turned || !hurry {
                    self.session.close();
                    // A session whose agent is gone is closed behind that.
                    while matches!(self.show(&mut events).await, Err(failure) if failure.ending != Ending::OutputClosed)
                    {
                    }
                }
                events.end().await;
            }
            self.link.end(if hurry { HURRY } else { FAR }).await
        };
        tokio::pin!(work);
        let mut tick = tokio::time::interval(TICK);
        // A reader that does not read may hold this up, until we are told to stop.
        let mut until = Instant::now() + FAR;
        loop {
            tokio::select! {
                biased;
                exit = &mut work => return exit,
                () = sleep_until(until) => return None,
                Some(_) = stops.recv() => {
                    until = until.min(Instant::now() + LATE);
                    self.watch.hear(Progress::Killing);
                    self.link.kill();
                }
                _ = tick.tick() => self.tell_age(),
            }
        }
    }

    /// Writes down what is still to be told, and tells it. A reader that does not read is waited for until we are told to stop.
    async fn last_notes(&self, hurry: bool, stops: &mut mpsc::Receiver<Stop>) {
        let (notes, id) = (&self.link.parts().notes, self.session.id());
        let told = |note| match note {
            Note::Done(event) => Some(Event::Note(event)),
            Note::Warning(warning) => Some(Event::Warning(warning)),
            _ => None,
        };
        let events: Vec<Event> = std::iter::from_fn(|| notes.take(&id)).filter_map(told).collect();
        for event in &events {
            self.record.borrow_mut().take(event);
        }
        let tell = async {
            for event in events {
                if self.watch.see(event).await.is_err() {
                    break;
                }
            }
        };
        tokio::select! {
            biased;
            () = tell => {}
            _ = stops.recv() => {}
            () = tokio::time::sleep(LATE), if hurry => {}
        }
    }

    async fn outcome(
        self,
        stop: Option<StopReason>,
        mut failure: Option<Box<Failure>>,
        schema: Option<&Schema>,
    ) -> Outcome {
        let parts = self.link.parts();
        let reached = self.session.reached().locked().take();
        if let (None, Some(reached)) = (&failure, reached) {
            // Some agents tell the cost only when all is said.
            let why = format!("{reached}, told at the end of the turn");
            let mut over = Failure::new(Ending::Budget, Phase::Turn, why);
            over.limit = Some(reached);
            failure = Some(over);
        }
        let (violations, count) = parts.frames.violations();
        if count > 0 {
            failure = Some(violated(failure, violations, count));
        }
        let (record, said) = (self.record.into_inner(), self.session.conversation().take_said());
        let permissions = parts.notes.permissions();
        if let (None, Some(stop)) = (&failure, &stop) {
            failure = unasked(stop, permissions.denied > 0);
        }
        let mut ending = match (&stop, &failure) {
            (_, Some(failure)) => failure.ending,
            (Some(stop), None) => Ending::of(stop),
            (None, None) => Ending::Done,
        };
        let ours = self.link.setup().agent.is_built_in();
        if record.deeds.were_refused(ending, &permissions, ours) {
            ending = Ending::Denied;
        }
        let mut answer = None;
        if let (Ending::Done, Some(schema)) = (ending, schema) {
            match last_message(&said).and_then(|text| schema.check_message(&text)) {
                Ok(value) => answer = Some(value),
                Err(why) => {
                    ending = Ending::Misfit;
                    failure = Some(Failure::new(ending, Phase::Turn, why));
                }
            }
        }
        let mut remarks = Vec::new();
        if said.is_cut() {
            remarks.push("some of the text could not be kept: there is no room for it on the disk".to_owned());
        }
        match &stop {
            Some(StopReason::Other(name)) => {
                remarks.push(format!("the agent stopped for a reason that is not known here: {name}"));
            }
            // Our own agent remembers what it could not do.
            Some(StopReason::Refusal) if ending == Ending::Refused && !ours => {
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
        let changed = match self.session.changes(&mut remarks).await {
            Some(changed) => changed,
            None => record.changed(),
        };
        // What we demand of a turn that ended is no part of its story.
        let told = failure.as_deref().filter(|told| !matches!(told.ending, Ending::Misfit | Ending::Violation));
        self.session.end(ending, stop.as_ref(), told).await;
        if ending == Ending::Denied && failure.is_none() {
            failure = Some(all_refused(permissions.denied > 0, parts.notes.way(), record.deeds.held.as_deref()));
        }
        let usage = self.session.conversation().usage();
        Outcome {
            ending,
            stop,
            said,
            agent: record.agent,
            session: record.session,
            usage: usage.as_ref().map(|usage| (usage.used, usage.size)),
            cost: usage.and_then(|usage| usage.cost),
            changed,
            permissions,
            warnings: parts.notes.warnings().into_iter().chain(remarks.iter().cloned()).collect(),
            remarks,
            answer,
            failure,
            ..Outcome::default()
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

/// The failure of a run in which the agent broke the protocol.
fn violated(failure: Option<Box<Failure>>, violations: Vec<String>, count: u64) -> Box<Failure> {
    let times = if count == 1 { "once".to_owned() } else { format!("{count} times") };
    let first = violations[..violations.len().min(MAX_NAMED)].join("; ");
    let more = if violations.len() > MAX_NAMED { "; and more" } else { "" };
    let why = format!("the agent broke the protocol {times}: {first}{more}");
    // What could not be read is one of them; a process that died or an error that was told is not.
    let plain =
        |failure: &Failure| failure.ending == Ending::Failed && failure.exit.is_none() && failure.rpc_code.is_none();
    let mut broken = match failure {
        // It may well be why it failed.
        Some(mut failure) if !plain(&failure) => {
            failure.message = format!("{}; {why}", failure.message);
            failure
        }
        failure => {
            let phase = failure.map_or(Phase::Turn, |failure| failure.phase);
            Failure::new(Ending::Violation, phase, why)
        }
    };
    broken.violations = violations;
    broken
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
