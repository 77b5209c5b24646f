//! The steps of a run, one after the other, up to the end of the turn.

use super::control::Live;
use super::handler_hooks::Hooks;
use super::launch::{facts, find, greet, last_lines, launch, start};
use super::session::{Got, Opened, login_needed, open, set_up, wants_login};
use super::{Ending, Event, Failure, Gone, OnLost, Parts, Phase, Plan, Reached, Watch, When};
use crate::journal::{Begin, Handover};
use crate::login::{Login, words};
use crate::services;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tieline::client::{AgentHandle, Handler, Session, Turn};
use tieline::process::Status;
use tieline::schema::{ContentBlock, Item, Patch, StopReason, ToolCallStatus, ToolCallUpdate, Update};
use tokio::time::{Instant, timeout, timeout_at};

/// An agent's process mostly ends a moment after its output does.
const EXIT_GRACE: Duration = Duration::from_millis(500);
/// An agent that tells an old session again has done so when it is silent for this long.
const REPLAY_SILENCE: Duration = Duration::from_millis(150);

/// An agent that never is silent then is not waited for.
const REPLAY_TIMEOUT: Duration = Duration::from_secs(5);

/// Why a run did not get to the end of its turn.
pub(super) enum Broken {
    Failure(Box<Failure>),
    Gone,
}

impl From<Box<Failure>> for Broken {
    fn from(failure: Box<Failure>) -> Self {
        Self::Failure(failure)
    }
}

impl From<Gone> for Broken {
    fn from(_: Gone) -> Self {
        Self::Gone
    }
}

impl<W: Watch> Live<'_, W> {
    /// Everything up to the end of the turn.
    pub(super) async fn drive<H: Handler + Clone>(&self, plan: &Plan, parts: &Parts<H>) -> Result<StopReason, Broken> {
        let mut deadline = Instant::now() + plan.start_limit;
        let mut agent = self.reach(plan, parts, deadline).await?;
        let mut got = self.open(plan, parts, &agent, &mut deadline, true).await?;
        if let Got::Reconnect = got {
            deadline = Instant::now() + plan.start_limit;
            agent = self.reach(plan, parts, deadline).await?;
            got = self.open(plan, parts, &agent, &mut deadline, false).await?;
        }
        let Got::Session(Opened { session, resumed, lost }) = got else {
            return Err(login_needed(&agent, Phase::Login, "the login did not help").into());
        };
        let session = Rc::new(session);
        *self.session.borrow_mut() = Some(Rc::clone(&session));
        let (anew, record) = match lost {
            Some(why) => self.lost(plan, parts, &why).await,
            None => (None, None),
        };
        self.opened(plan, &agent, &session, resumed, (anew, record.is_some())).await?;
        self.enter(Phase::Prompt);
        timeout_at(deadline, set_up(plan, &session)).await.unwrap_or_else(|_| Err(self.too_slow(plan)))?;
        let mut prompt = Vec::new();
        for part in &plan.prompt {
            let (block, lost) = part.block(agent.capabilities());
            prompt.push(block);
            if let Some(lost) = lost {
                parts.warnings.push(lost);
            }
        }
        if resumed {
            // What an old session is told of again is not part of the answer.
            self.cost_before(parts).await;
            let told = async {
                while let Ok(Some(update)) = timeout(REPLAY_SILENCE, session.next()).await {
                    self.count(&update, When::Before);
                }
            };
            let _ = timeout(REPLAY_TIMEOUT, told).await;
        }
        while let Some(update) = session.try_next().filter(|_| !resumed) {
            self.take(&update, When::Before).await?;
        }
        self.writer.lock().await.prompt(&prompt).await;
        // The journal keeps what the user said; the record is made of it.
        prompt.splice(0..0, record.map(ContentBlock::from));
        let sent = timeout_at(deadline, session.prompt(prompt)).await;
        let turn = match sent {
            Ok(Ok(turn)) => turn,
            Ok(Err(error)) => return Err(self.failed(error).await.into()),
            Err(_) => return Err(self.too_slow(plan).into()),
        };
        self.enter(Phase::Turn);
        self.idle.seen();
        self.turn(turn, parts).await
    }

    /// The agent has lost the session, and the user wants to go on: says so, and gives the record for the new one.
    async fn lost<H>(&self, plan: &Plan, parts: &Parts<H>, why: &str) -> (Option<String>, Option<String>) {
        let (how, record) = self.record_of_before(plan).await;
        let anew = format!("the agent has lost the session, so a new one was started {how}: {why}");
        parts.warnings.push(anew.clone());
        (Some(anew), record)
    }

    async fn record_of_before(&self, plan: &Plan) -> (String, Option<String>) {
        let writer = self.writer.lock().await;
        let Some(recording) = writer.recording().filter(|_| plan.on_lost == OnLost::HandOver) else {
            return ("without what was said before".to_owned(), None);
        };
        let record = match recording.journal().story(recording.id()).await {
            Ok(story) => Handover::of(&story).ok_or_else(|| "nothing was said in it".to_owned()),
            Err(error) => Err(error.to_string()),
        };
        match record {
            Ok(Handover { text, turns, left_out }) => {
                let told = format!("{turns} turns, {left_out} older ones left out, {} bytes", text.len());
                (format!("and given a record of what was said before ({told})"), Some(text))
            }
            Err(error) => (format!("without a record of what was said before ({error})"), None),
        }
    }

    /// What an old session had cost, so that the turn is not charged for it.
    async fn cost_before<H>(&self, parts: &Parts<H>) {
        let minds = self.meter.borrow().minds_cost();
        let writer = self.writer.lock().await;
        let Some(recording) = writer.recording().filter(|_| minds) else { return };
        match recording.journal().story(recording.id()).await {
            Ok(story) => {
                let cost = story.transcript.usage().and_then(|usage| usage.cost.as_ref());
                self.meter.borrow_mut().had_cost(cost.map_or(0.0, |cost| cost.amount));
            }
            Err(error) => parts.warnings.push(format!("it is not known what the session had cost before: {error}")),
        }
    }

    /// From nothing to an agent that has answered.
    async fn reach<H: Handler + Clone>(
        &self,
        plan: &Plan,
        parts: &Parts<H>,
        deadline: Instant,
    ) -> Result<AgentHandle, Broken> {
        self.enter(Phase::Find);
        let program = find(&plan.agent)?;
        self.enter(Phase::Start);
        let launch = launch(plan, program).await?;
        let (transport, child) = start(plan, &launch).await?;
        self.launch.replace(plan.terminal_login.then_some(launch));
        *self.child.borrow_mut() = Some(Rc::new(child));
        self.enter(Phase::Initialize);
        let hooks = Hooks {
            watching: self.writer.lock().await.watching(),
            conversation: self.conversation.clone(),
            writer: Arc::clone(&self.writer),
            notes: parts.notes.clone(),
            idle: self.idle.clone(),
        };
        let hello = timeout_at(deadline, greet(plan, parts, hooks, transport)).await;
        let agent = match hello {
            Ok(Ok(agent)) => agent,
            Ok(Err(error)) => return Err(self.failed(error).await.into()),
            Err(_) => return Err(self.too_slow(plan).into()),
        };
        let about = facts(&plan.agent.name, &agent);
        {
            let mut record = self.record.lock().await;
            self.conversation.speaks(agent.dialect());
            parts.frames.speaks(agent.dialect());
            record.agent = about.clone();
        }
        *self.agent.borrow_mut() = Some(agent.clone());
        if !agent.capabilities().additional_directories {
            for root in &plan.roots {
                parts.warnings.push(format!("the agent takes no more folders: {} is left out", root.display()));
            }
        }
        self.watch.see(Event::Agent(&about)).await?;
        Ok(agent)
    }

    async fn open<H: Handler + Clone>(
        &self,
        plan: &Plan,
        parts: &Parts<H>,
        agent: &AgentHandle,
        deadline: &mut Instant,
        may_log_in: bool,
    ) -> Result<Got, Box<Failure>> {
        self.enter(Phase::Session);
        // Not held on to: the agent may ask for something before the session is there.
        let entry = self.writer.lock().await.recording().map(|recording| recording.entry().clone());
        for attempt in 0..2 {
            let error = match timeout_at(*deadline, open(plan, agent, entry.as_ref())).await {
                Ok(Ok(opened)) => return opened.map(Got::Session),
                Ok(Err(error)) => error,
                Err(_) => return Err(self.too_slow(plan)),
            };
            if !wants_login(&error) {
                return Err(self.failed(error).await);
            }
            let launch = self.launch.borrow().clone();
            let chooser = parts.chooser.as_deref();
            let login = Login { method: plan.login.as_deref(), chooser, launch: launch.as_ref() };
            if attempt > 0 || !may_log_in || (login.method.is_none() && login.chooser.is_none()) {
                return Err(login_needed(agent, self.phase(), &words(&error)));
            }
            self.enter(Phase::Login);
            match login.run(agent).await {
                Ok(crate::login::Next::Retry) => {}
                Ok(crate::login::Next::Reconnect) => {
                    agent.close().await;
                    if let Some(child) = self.child() {
                        child.shutdown().await;
                    }
                    return Ok(Got::Reconnect);
                }
                Err(failed) => {
                    let mut failure = login_needed(agent, Phase::Login, &words(&error));
                    // The methods are told on their own.
                    failure.message = failed.to_string().lines().take(1).collect();
                    return Err(failure);
                }
            }
            self.enter(Phase::Session);
            // The login may have taken a while; that is not the agent's fault.
            *deadline = Instant::now() + plan.start_limit;
        }
        Err(login_needed(agent, Phase::Login, "the login did not help"))
    }

    /// The session is there: it is written down, and told of.
    async fn opened(
        &self,
        plan: &Plan,
        agent: &AgentHandle,
        session: &Session,
        resumed: bool,
        (anew, handed_over): (Option<String>, bool),
    ) -> Result<(), Gone> {
        let begin = Begin {
            id: plan.agent.is_built_in().then(|| session.id().to_string()),
            agent: plan.key.clone(),
            agent_session: Some(session.id().to_string()),
            cwd: plan.cwd.to_string_lossy().into_owned(),
            directories: plan.roots.iter().map(|root| root.to_string_lossy().into_owned()).collect(),
            name: plan.name.clone(),
            protocol: Some(agent.dialect()),
            command: if plan.by_command { plan.agent.command.clone() } else { Vec::new() },
        };
        let mut writer = self.writer.lock().await;
        writer.begin(plan.journal.as_ref(), begin, handed_over).await;
        let facts = {
            let mut record = self.record.lock().await;
            record.session.agent_id = Some(session.id().to_string());
            record.session.id = writer.id();
            record.session.resumed = resumed;
            record.session.handed_over = handed_over;
            record.session.anew = anew;
            record.session.clone()
        };
        self.watch.see(Event::Session(&facts)).await
    }

    /// Reads the turn to its end.
    async fn turn<H>(&self, mut turn: Turn, parts: &Parts<H>) -> Result<StopReason, Broken> {
        loop {
            let mut more = true;
            tokio::select! {
                biased;
                () = self.cancelled.notified() => self.cancel_calls().await?,
                // What the agent said before a question comes before what was answered.
                update = turn.next() => match update {
                    Some(update) => self.take(&update, When::Turn).await?,
                    None => more = false,
                },
                note = parts.notes.next() => self.note(&note).await?,
                warning = parts.warnings.next() => self.watch.see(Event::Warning(&warning)).await?,
            }
            self.clock.borrow_mut().stir();
            if let Some(what) = parts.notes.nobody() {
                let why = format!("nobody could be asked for permission: {what}");
                let failure = Failure::new(Ending::Denied, Phase::Turn, why);
                return Err(failure.hint("allow it with --allow RULE, or run in a terminal").into());
            }
            if !more {
                break;
            }
        }
        while let Some(note) = parts.notes.take() {
            self.note(&note).await?;
        }
        match turn.stop() {
            Ok(reason) => Ok(reason),
            Err(error) => Err(self.failed(error).await.into()),
        }
    }

    /// The turn is being cancelled: what is unfinished is told as cancelled at once. The agent may know better later.
    async fn cancel_calls(&self) -> Result<(), Gone> {
        let unfinished = self.conversation.unfinished();
        for tool_call_id in unfinished {
            let status = Patch::Set(ToolCallStatus::Cancelled);
            let call = ToolCallUpdate { tool_call_id, status, ..ToolCallUpdate::default() };
            self.take(&Update::ToolCall(Box::new(call)), When::Turn).await?;
        }
        Ok(())
    }

    /// Takes in an update: written down, then shown.
    pub(super) async fn take(&self, update: &Update, when: When) -> Result<(), Gone> {
        // A reader of ours that is slow is not the silence of the agent.
        let _waits = self.idle.waits();
        self.count(update, when);
        self.writer.lock().await.update(update).await;
        let (transcript, at) = self.conversation.apply(update);
        let tool = at.and_then(|at| match &transcript.items()[at] {
            Item::ToolCall(call) => Some(&**call),
            _ => None,
        });
        let mut record = self.record.lock().await;
        let mut events = Vec::new();
        record.take(update, tool, when, &mut events);
        for event in events {
            self.watch.see(event).await?;
        }
        Ok(())
    }

    pub(super) async fn note(&self, note: &services::Event) -> Result<(), Gone> {
        let _waits = self.idle.waits();
        self.record.lock().await.note(note);
        self.watch.see(Event::Note(note)).await
    }

    pub(super) fn too_slow(&self, plan: &Plan) -> Box<Failure> {
        let phase = self.phase();
        let reached = Reached::time("start-timeout", plan.start_limit);
        let limit = &reached.limit;
        let why = format!("{} took longer than {limit} s", phase.waits_for());
        let mut failure = Failure::new(Ending::TimedOut, phase, why);
        failure.stderr = self.last_words();
        failure.limit = Some(reached);
        failure.hint("give it more time with --start-timeout, or look closer with `tieline doctor`")
    }

    /// The last lines of the agent's standard error.
    pub(super) fn last_words(&self) -> Vec<String> {
        self.child().map(|child| last_lines(&child.stderr_tail())).unwrap_or_default()
    }

    /// What an error means, told with the end of the agent's process if that has ended.
    pub(super) async fn failed(&self, error: tieline::Error) -> Box<Failure> {
        let phase = self.phase();
        let agent = self.agent.borrow().clone();
        if let (true, Some(agent)) = (wants_login(&error), agent) {
            return login_needed(&agent, phase, &words(&error));
        }
        let mut failure = Failure::new(Ending::Failed, phase, error.to_string());
        failure.rpc_code = error.code();
        match (&error, self.child()) {
            (tieline::Error::Closed(_), Some(child)) => {
                if let Ok(reason) = timeout(EXIT_GRACE, child.exit()).await {
                    failure.message = format!("the agent {}", reason.status);
                    failure.exit = Some(reason.status.to_string());
                    failure.ending = if phase <= Phase::Initialize { Ending::NotStarted } else { Ending::Failed };
                    failure.hint = Some(hint(phase, reason.status).to_owned());
                }
            }
            (tieline::Error::Version(_), _) => {
                failure.hint = Some("ask for another version with --protocol".to_owned());
            }
            _ => {}
        }
        failure.stderr = self.last_words();
        failure
    }
}

/// What to do about an agent that ended.
fn hint(phase: Phase, status: Status) -> &'static str {
    match (phase, status) {
        (Phase::Initialize, Status::Code(0)) => "is this program an ACP agent? Some need an argument such as --acp",
        (Phase::Initialize, _) => "run the command by hand to see what it wants",
        (_, Status::Signal(9)) => "it was killed; perhaps memory ran out",
        _ => "start it again with the same command; what was said so far is in the journal",
    }
}
