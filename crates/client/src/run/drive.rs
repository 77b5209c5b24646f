//! The steps of a run, one after the other, up to the end of the turn.

use super::control::Live;
use super::handler_hooks::Hooked;
use super::launch::{find, greet, launch, start};
use super::notes::Note;
use super::session::{Opened, chosen, login_needed, open, set_up};
use super::{AgentFacts, Ending, Event, Failure, Gone, OnLost, Phase, Reached, Watch, When};
use crate::journal::{Begin, Handover};
use crate::login::{Login, Next, is_needed, words};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use tieline::client::{AgentHandle, Session, Turn};
use tieline::process::Status;
use tieline::schema::{ContentBlock, Patch, StopReason, ToolCallStatus, ToolCallUpdate, Update};
use tieline_host::text::counted;
use tokio::time::{Instant, timeout, timeout_at};

/// An agent's process mostly ends a moment after its output does.
const EXIT_GRACE: Duration = Duration::from_millis(500);
/// An agent that tells an old session again has done so when it is silent for this long.
const REPLAY_SILENCE: Duration = Duration::from_millis(150);
/// An agent that never is silent then is not waited for.
const REPLAY_TIMEOUT: Duration = Duration::from_secs(5);

type Result<T> = std::result::Result<T, Box<Failure>>;

impl<W: Watch> Live<'_, W> {
    /// Everything up to the end of the turn. Without a prompt there is none.
    pub(super) async fn drive(&self) -> Result<Option<StopReason>> {
        let (plan, notes) = (self.plan, &self.parts.notes);
        let mut deadline = Instant::now() + plan.start_limit;
        let mut logged_in = false;
        let (agent, Opened { session, resumed, lost }) = 'started: loop {
            let agent = self.reach(deadline).await?;
            loop {
                self.enter(Phase::Session);
                // Not held on to: the agent may ask for something before the session is there.
                let entry = self.writer.lock().await.recording().map(|recording| recording.entry().clone());
                let error = match timeout_at(deadline, open(plan, &agent, entry.as_ref())).await {
                    Ok(Ok(opened)) => break 'started (agent, opened?),
                    Ok(Err(error)) if is_needed(&error) => error,
                    Ok(Err(error)) => return Err(self.failed(error).await),
                    Err(_) => return Err(self.too_slow()),
                };
                if std::mem::replace(&mut logged_in, true) {
                    return Err(login_needed(&agent, self.phase(), &words(&error)));
                }
                let next = self.log_in(&agent, &error).await?;
                // The login may have taken a while; that is not the agent's fault.
                deadline = Instant::now() + plan.start_limit;
                if next == Next::Reconnect {
                    agent.close().await;
                    if let Some(child) = self.child() {
                        child.shutdown().await;
                    }
                    continue 'started;
                }
            }
        };
        let session = Rc::new(session);
        *self.session.borrow_mut() = Some(Rc::clone(&session));
        let (anew, record) = match lost {
            Some(why) => self.lost(&why).await,
            None => (None, None),
        };
        self.opened(&agent, &session, resumed, (anew, record.is_some())).await?;
        self.enter(Phase::Prompt);
        timeout_at(deadline, set_up(plan, &session)).await.unwrap_or_else(|_| Err(self.too_slow()))?;
        let chosen = chosen(&session);
        if resumed && !chosen.is_empty() {
            self.watch.see(Event::GoesOn(&chosen)).await?;
        }
        if plan.prompt.is_empty() {
            return Ok(None);
        }
        let mut prompt = Vec::new();
        for part in &plan.prompt {
            let (block, lost) = part.block(agent.capabilities());
            prompt.push(block);
            if let Some(lost) = lost {
                notes.warn(lost);
            }
        }
        if resumed {
            // What an old session is told of again is not part of the answer.
            self.cost_before().await;
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
        let turn = match timeout_at(deadline, session.prompt(prompt)).await {
            Ok(Ok(turn)) => turn,
            Ok(Err(error)) => return Err(self.failed(error).await),
            Err(_) => return Err(self.too_slow()),
        };
        self.enter(Phase::Turn);
        self.idle.seen();
        self.turn(turn).await.map(Some)
    }

    /// The agent has lost the session, and the user wants to go on: says so, and gives the record for the new one.
    async fn lost(&self, why: &str) -> (Option<String>, Option<String>) {
        let (how, record) = self.record_of_before().await;
        let anew = format!("the agent has lost the session, so a new one was started {how}: {why}");
        self.parts.notes.warn(anew.clone());
        (Some(anew), record)
    }

    async fn record_of_before(&self) -> (String, Option<String>) {
        let writer = self.writer.lock().await;
        let Some(recording) = writer.recording().filter(|_| self.plan.on_lost == OnLost::HandOver) else {
            return ("without what was said before".to_owned(), None);
        };
        let record = match recording.journal().story(recording.id()).await {
            Ok(story) => Handover::of(&story).ok_or_else(|| "nothing was said in it".to_owned()),
            Err(error) => Err(error.to_string()),
        };
        match record {
            Ok(Handover { text, turns, left_out }) => {
                let told = format!("{}, {left_out} older ones left out, {} bytes", counted(turns, "turn"), text.len());
                (format!("and given a record of what was said before ({told})"), Some(text))
            }
            Err(error) => (format!("without a record of what was said before ({error})"), None),
        }
    }

    /// What an old session had cost, so that the turn is not charged for it.
    async fn cost_before(&self) {
        let minds = self.meter.borrow().minds_cost();
        let writer = self.writer.lock().await;
        let Some(recording) = writer.recording().filter(|_| minds) else { return };
        match recording.journal().story(recording.id()).await {
            Ok(story) => {
                let cost = story.transcript.usage().and_then(|usage| usage.cost.as_ref());
                self.meter.borrow_mut().had_cost(cost.map_or(0.0, |cost| cost.amount));
            }
            Err(error) => self.parts.notes.warn(format!("it is not known what the session had cost before: {error}")),
        }
    }

    /// From nothing to an agent that has answered.
    async fn reach(&self, deadline: Instant) -> Result<AgentHandle> {
        let (plan, parts) = (self.plan, self.parts);
        self.enter(Phase::Find);
        let program = find(&plan.agent)?;
        self.enter(Phase::Start);
        let launch = launch(plan, program).await?;
        let (transport, child) = start(plan, &launch).await?;
        let pid = child.id();
        self.launch.replace(plan.terminal_login.then_some(launch));
        *self.child.borrow_mut() = Some(Rc::new(child));
        self.watch.see(Event::Started(pid)).await?;
        self.enter(Phase::Initialize);
        let hooked = Hooked {
            services: parts.services.clone(),
            writer: Arc::clone(&self.writer),
            notes: parts.notes.clone(),
            idle: self.idle.clone(),
            frames: Arc::clone(&parts.frames),
            started: AtomicU64::new(0),
        };
        let hello = timeout_at(deadline, greet(plan, hooked, transport)).await;
        let agent = match hello {
            Ok(Ok(agent)) => agent,
            Ok(Err(error)) => return Err(self.failed(error).await),
            Err(_) => return Err(self.too_slow()),
        };
        let about = AgentFacts {
            label: plan.agent.name.clone(),
            name: agent.info().map(|info| info.title.clone().unwrap_or_else(|| info.name.clone())),
            version: agent.info().map(|info| info.version.clone()),
            protocol: Some(agent.dialect().to_string()),
            logins: agent.auth_methods().len(),
        };
        self.conversation.speaks(agent.dialect());
        parts.frames.speaks(agent.dialect());
        self.record.lock().await.agent = about.clone();
        *self.agent.borrow_mut() = Some(agent.clone());
        if !agent.capabilities().additional_directories {
            for root in &plan.roots {
                parts.notes.warn(format!("the agent takes no more folders: {} is left out", root.display()));
            }
        }
        self.watch.see(Event::Agent(&about)).await?;
        Ok(agent)
    }

    /// Logs in, if the user said how or can be asked.
    async fn log_in(&self, agent: &AgentHandle, error: &tieline::Error) -> Result<Next> {
        let launch = self.launch.borrow().clone();
        let chooser = self.parts.chooser.as_deref();
        let login = Login { method: self.plan.login.as_deref(), chooser, launch: launch.as_ref() };
        if login.method.is_none() && login.chooser.is_none() {
            return Err(login_needed(agent, self.phase(), &words(error)));
        }
        self.enter(Phase::Login);
        login.run(agent).await.map_err(|failed| {
            let mut failure = login_needed(agent, Phase::Login, &words(error));
            // The methods are told on their own.
            failure.message = failed.to_string().lines().take(1).collect();
            failure
        })
    }

    /// The session is there: it is written down, and told of.
    async fn opened(
        &self,
        agent: &AgentHandle,
        session: &Session,
        resumed: bool,
        (anew, handed_over): (Option<String>, bool),
    ) -> std::result::Result<(), Gone> {
        let plan = self.plan;
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
    async fn turn(&self, mut turn: Turn) -> Result<StopReason> {
        let notes = &self.parts.notes;
        notes.turn(true);
        loop {
            let mut more = true;
            tokio::select! {
                biased;
                () = self.cancelled.notified() => self.cancel_calls().await?,
                // What the agent said before a question comes before the question and what was answered.
                update = turn.next() => match update {
                    Some(update) => {
                        // What was decided about a call comes before what became of it.
                        let is_end = |call: &ToolCallUpdate| call.status.set().is_some_and(ToolCallStatus::is_final);
                        while matches!(&update, Update::ToolCall(call) if is_end(call))
                            && let Some(note) = notes.take_told()
                        {
                            self.note(note).await?;
                        }
                        self.take(&update, When::Turn).await?;
                    }
                    None => more = false,
                },
                note = notes.next() => self.note(note).await?,
            }
            self.stir();
            if let Some(what) = notes.nobody() {
                let why = format!("nobody could be asked for permission: {what}");
                let failure = Failure::new(Ending::Denied, Phase::Turn, why);
                return Err(failure.hint("allow it with --allow RULE, or run in a terminal"));
            }
            if !more {
                break;
            }
        }
        notes.turn(false);
        while let Some(note) = notes.take() {
            self.note(note).await?;
        }
        match turn.stop() {
            Ok(reason) => Ok(reason),
            Err(error) => Err(self.failed(error).await),
        }
    }

    /// The turn is being cancelled: what is unfinished is told as cancelled at once. The agent may know better later.
    async fn cancel_calls(&self) -> std::result::Result<(), Gone> {
        for tool_call_id in self.conversation.unfinished() {
            let status = Patch::Set(ToolCallStatus::Cancelled);
            let call = ToolCallUpdate { tool_call_id, status, ..ToolCallUpdate::default() };
            self.take(&Update::ToolCall(Box::new(call)), When::Turn).await?;
        }
        Ok(())
    }

    /// Takes in an update: written down, then shown.
    pub(super) async fn take(&self, update: &Update, when: When) -> std::result::Result<(), Gone> {
        // A reader of ours that is slow is not the silence of the agent.
        let _waits = self.idle.waits();
        self.count(update, when);
        self.writer.lock().await.update(update).await;
        let tool = self.conversation.apply(update);
        let mut record = self.record.lock().await;
        let mut events = Vec::new();
        record.take(update, tool.as_deref(), when, &mut events);
        for event in events {
            self.watch.see(event).await?;
        }
        Ok(())
    }

    /// Takes in what was heard beside the updates.
    async fn note(&self, note: Note) -> std::result::Result<(), Gone> {
        let _waits = self.idle.waits();
        self.record.lock().await.note(&note);
        self.show(note).await
    }

    pub(super) async fn show(&self, note: Note) -> std::result::Result<(), Gone> {
        match note {
            Note::Done(event) => self.watch.see(Event::Note(&event)).await,
            Note::Warning(warning) => self.watch.see(Event::Warning(&warning)).await,
            Note::Question(shown) => {
                let _ = shown.send(());
                Ok(())
            }
        }
    }

    fn too_slow(&self) -> Box<Failure> {
        let phase = self.phase();
        let reached = Reached::time("start-timeout", self.plan.start_limit);
        let limit = &reached.limit;
        let why = format!("{} took longer than {limit} s", phase.waits_for());
        let mut failure = Failure::new(Ending::TimedOut, phase, why);
        failure.stderr = self.last_words();
        failure.limit = Some(reached);
        failure.hint("give it more time with --start-timeout, or look closer with `tieline doctor`")
    }

    /// The last lines of the agent's standard error.
    pub(super) fn last_words(&self) -> Vec<String> {
        self.child().map(|child| child.last_lines()).unwrap_or_default()
    }

    /// What an error means, told with the end of the agent's process if that has ended.
    async fn failed(&self, error: tieline::Error) -> Box<Failure> {
        let phase = self.phase();
        let agent = self.agent.borrow().clone();
        if let (true, Some(agent)) = (is_needed(&error), agent) {
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
