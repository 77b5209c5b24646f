//! What a live session does, in a task of its own: it is opened, its prompts are sent one after the other, what comes is written
//! down and told; an agent that is gone is started again.

use super::link::Result;
use super::notes::Note;
use super::now::{Reading, answer};
use super::open::{Known, Opened, chosen, login_needed, model, open, set_up};
use super::session::{Queued, Seat};
use super::{Ending, Event, Failure, OnLost, Part, Parts, Phase, SessionFacts, State, When};
use crate::journal::{Begin, Handover, Kept, Recording};
use crate::login::{Next, is_needed, words};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tieline::client::{AgentHandle, Session, Turn};
use tieline::rpc::sync::{Lock, when};
use tieline::schema::{ContentBlock, Patch, StopReason, ToolCallStatus, ToolCallUpdate, Update};
use tieline_host::text::counted;
use tokio::time::{Instant, timeout, timeout_at};

/// An agent that tells an old session again has done so when it is silent for this long.
const REPLAY_SILENCE: Duration = Duration::from_millis(150);
/// An agent that never is silent then is not waited for.
const REPLAY_TIMEOUT: Duration = Duration::from_secs(5);
/// How long an agent of others may be silent after a turn before we take it that nothing comes any more.
const QUIET: Duration = Duration::from_millis(25);
/// Late updates are read at most this long.
const LATE: Duration = Duration::from_secs(2);
/// How long an agent gets to close a session.
const CLOSE: Duration = Duration::from_secs(1);

impl Seat {
    /// From the first step until the session is closed, or nobody reads its events.
    pub(super) async fn live(self: Arc<Self>) {
        let done = tokio::select! {
            biased;
            () = self.events.closed() => false,
            done = self.lives() => done.is_ok(),
        };
        let id = {
            let mut doing = self.doing.locked();
            (doing.agent, doing.state) = (None, State::Lost);
            doing.id.clone()
        };
        if !self.opening.once {
            let Parts { services, notes, .. } = self.link.parts();
            self.link.seats().locked().remove(&id);
            services.end_session(&id);
            notes.remove_session(&id);
            self.writer.lock().await.close().await;
        }
        if done {
            // Whoever hears it may go on with the session at once, so nothing holds it any more.
            let _ = self.tell(Event::Closed).await;
        }
    }

    async fn lives(self: &Arc<Self>) -> Result<()> {
        self.recall().await;
        loop {
            let served = match self.opened().await {
                Ok(session) => self.serve(session).await,
                Err(failure) => Err(failure),
            };
            let failure = match served {
                Ok(()) => break,
                Err(failure) if failure.ending == Ending::OutputClosed => return Err(failure),
                Err(failure) => failure,
            };
            {
                let mut doing = self.doing.locked();
                (doing.state, doing.held, doing.agent) = (State::Lost, true, None);
            }
            self.tell(Event::Lost(failure)).await?;
            self.tell_state().await?;
            let wanted = || {
                let mut doing = self.doing.locked();
                let restart = std::mem::take(&mut doing.restart);
                (doing.closing || !doing.held || restart).then_some(doing.closing)
            };
            let closing = loop {
                self.keep_queue().await;
                tokio::select! {
                    biased;
                    closing = when(&self.wake, wanted) => break closing,
                    () = self.queue_changed() => {}
                }
            };
            if closing {
                break;
            }
            self.doing.locked().state = State::Opening;
            self.tell_state().await?;
        }
        Ok(())
    }

    /// What the journal knows of a session that goes on is its view; a run shows only what is new.
    async fn recall(&self) {
        let writer = self.writer.lock().await;
        let Some(recording) = writer.recording().filter(|_| !self.opening.once) else { return };
        match recording.journal().story(recording.id()).await {
            Ok(story) => {
                self.conversation.recall(&story);
                // Whoever ran them is gone.
                for call in self.unfinished(&ToolCallStatus::Cancelled) {
                    self.conversation.apply(&call);
                }
                let count = self.recall_queue(story.waiting.into_iter().map(Kept::prompt).collect());
                if count > 0 {
                    let told = format!(
                        "{} of before still in the queue: nothing of it is sent by itself",
                        counted(count, "prompt")
                    );
                    self.link.parts().notes.warn(told);
                }
            }
            Err(error) => self.link.parts().notes.warn(format!("what was said before can't be shown: {error}")),
        }
    }

    /// Opens the session. Questions that come with that are told.
    async fn opened(self: &Arc<Self>) -> Result<Arc<Session>> {
        let notes = &self.link.parts().notes;
        let mut opening = pin!(self.open());
        loop {
            let note = tokio::select! {
                biased;
                opened = &mut opening => return opened,
                note = notes.next_asked() => note,
            };
            self.show(note).await?;
        }
    }

    async fn open(self: &Arc<Self>) -> Result<Arc<Session>> {
        let (link, notes, limit) = (&self.link, &self.link.parts().notes, self.link.setup().start_limit);
        let mut deadline = Instant::now() + limit;
        let mut logged_in = false;
        let (agent, Opened { session, resumed, lost }) = 'started: loop {
            let agent = link.reach(self, deadline).await?;
            self.conversation.speaks(agent.dialect());
            if !agent.capabilities().additional_directories {
                for root in &self.opening.roots {
                    notes.warn(format!("the agent takes no more folders: {} is left out", root.display()));
                }
            }
            loop {
                self.enter(Phase::Session).await?;
                let known = self.known().await;
                let error = match timeout_at(deadline, open(&self.opening, &agent, known.as_ref())).await {
                    Ok(Ok(opened)) => break 'started (agent, opened?),
                    Ok(Err(error)) if is_needed(&error) => error,
                    Ok(Err(error)) => return Err(link.failed(self.phase(), error).await),
                    Err(_) => return Err(link.too_slow(self.phase())),
                };
                if std::mem::replace(&mut logged_in, true) {
                    return Err(login_needed(&agent, self.phase(), &words(&error)));
                }
                let next = link.log_in(self, &agent, &error).await?;
                // The login may have taken a while; that is not the agent's fault.
                deadline = Instant::now() + limit;
                if next == Next::Reconnect {
                    continue 'started;
                }
            }
        };
        let session = Arc::new(session);
        self.register(&session);
        let anew = match lost {
            Some(why) => Some(self.lost(&why).await),
            None => None,
        };
        let goes_on = resumed || anew.is_some();
        self.begun(&agent, &session, resumed, anew).await?;
        self.enter(Phase::Prompt).await?;
        let set_up = timeout_at(deadline, set_up(&self.opening, &session)).await;
        set_up.unwrap_or_else(|_| Err(link.too_slow(self.phase())))?;
        let chosen = chosen(&session);
        if goes_on && !chosen.is_empty() {
            self.tell(Event::GoesOn(chosen)).await?;
        }
        if resumed {
            self.doing.locked().prompted = true;
            // What an old session is told of again is no news.
            self.cost_before().await;
            let told = async {
                while let Ok(Some(update)) = timeout(REPLAY_SILENCE, session.next()).await {
                    self.count(&update, When::Before);
                }
            };
            let _ = timeout(REPLAY_TIMEOUT, told).await;
        }
        Ok(session)
    }

    /// The session is there: what is about it comes here from now on.
    fn register(self: &Arc<Self>, session: &Arc<Session>) {
        let id = session.id().clone();
        self.link.parts().notes.add_session(&id);
        let before = {
            let mut doing = self.doing.locked();
            (doing.agent, doing.state) = (Some(Arc::clone(session)), State::Idle);
            std::mem::replace(&mut doing.id, id.clone())
        };
        let mut seats = self.link.seats().locked();
        seats.remove(&before);
        seats.insert(id, Arc::downgrade(self));
    }

    /// The session to take up again, if there was one.
    async fn known(&self) -> Option<Known> {
        let writer = self.writer.lock().await;
        if let Some(entry) = writer.recording().map(Recording::entry) {
            let (id, agent_id, cwd) = (entry.id.to_string(), entry.agent_session.clone(), entry.cwd.clone());
            return Some(Known { id, agent_id, cwd });
        }
        let (id, cwd) = (self.doing.locked().id.to_string(), self.opening.cwd.to_string_lossy().into_owned());
        (!id.is_empty()).then(|| Known { agent_id: Some(id.clone()), id, cwd })
    }

    /// The agent has lost the session, and the user wants to go on: says so, and keeps the record for the next prompt.
    async fn lost(&self, why: &str) -> String {
        let (how, record) = self.record_of_before().await;
        self.doing.locked().record = record;
        let anew = format!("the agent has lost the session, so a new one was started {how}: {why}");
        self.link.parts().notes.warn(anew.clone());
        anew
    }

    async fn record_of_before(&self) -> (String, Option<String>) {
        let writer = self.writer.lock().await;
        let Some(recording) = writer.recording().filter(|_| self.opening.on_lost == OnLost::HandOver) else {
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
        let minds = self.meter.locked().minds_cost();
        let writer = self.writer.lock().await;
        let Some(recording) = writer.recording().filter(|_| minds) else { return };
        match recording.journal().story(recording.id()).await {
            Ok(story) => {
                let cost = story.transcript.usage().and_then(|usage| usage.cost.as_ref());
                self.meter.locked().had_cost(cost.map_or(0.0, |cost| cost.amount));
            }
            Err(error) => {
                self.link.parts().notes.warn(format!("it is not known what the session had cost before: {error}"));
            }
        }
    }

    /// The session is there: it is written down, and told of.
    async fn begun(&self, agent: &AgentHandle, session: &Session, resumed: bool, anew: Option<String>) -> Result<()> {
        let (opening, setup) = (&self.opening, self.link.setup());
        let begin = Begin {
            id: setup.agent.is_built_in().then(|| session.id().to_string()),
            agent: opening.key.clone(),
            agent_session: Some(session.id().to_string()),
            cwd: opening.cwd.to_string_lossy().into_owned(),
            directories: opening.roots.iter().map(|root| root.to_string_lossy().into_owned()).collect(),
            name: opening.name.clone(),
            protocol: Some(agent.dialect()),
            command: if opening.by_command { setup.agent.command.clone() } else { Vec::new() },
        };
        let handed_over = self.doing.locked().record.is_some();
        let mut writer = self.writer.lock().await;
        writer.begin(begin, handed_over).await;
        self.rewrite_queue();
        let (id, agent_id) = (writer.id(), Some(session.id().to_string()));
        drop(writer);
        let cwd = opening.cwd.clone();
        self.tell(Event::Session(SessionFacts { id, agent_id, cwd, resumed, handed_over, anew })).await
    }

    /// Sends one prompt after the other, and tells what comes beside them. Comes back when the session is closed; an error is the
    /// end of the agent.
    async fn serve(&self, session: Arc<Session>) -> Result<()> {
        let (notes, id) = (&self.link.parts().notes, session.id().clone());
        loop {
            let waits = {
                let doing = self.doing.locked();
                doing.held || doing.queue.is_empty()
            };
            if waits {
                self.tell_state().await?;
            }
            let time = if self.doing.locked().prompted { When::Late } else { When::Before };
            tokio::select! {
                biased;
                next = self.next_prompt() => match next {
                    Some(next) => self.whole_turn(&session, next).await?,
                    None => {
                        self.late(&session).await?;
                        self.close(session).await;
                        return Ok(());
                    }
                },
                update = session.next() => match update {
                    Some(update) => self.take(update, time).await?,
                    None => return Err(self.gone().await),
                },
                note = notes.next(&id) => self.show(note).await?,
                () = self.queue_changed() => self.keep_queue().await,
            }
        }
    }

    async fn gone(&self) -> Box<Failure> {
        let error = tieline::Error::Closed("the agent closed the connection".into());
        self.link.failed(self.phase(), error).await
    }

    /// One turn, and what is told of its end.
    async fn whole_turn(&self, session: &Session, next: Queued) -> Result<()> {
        self.tell(Event::Begun(next.number)).await?;
        self.tell_state().await?;
        let mut stop = self.turn(session, next).await;
        if matches!(&stop, Err(failure) if failure.ending == Ending::OutputClosed) {
            return stop.map(drop);
        }
        if stop.is_err() && !self.opening.once {
            self.end_calls(&ToolCallStatus::Failed).await?;
        }
        self.link.parts().services.end_turn(session.id());
        let (mut changed, mut remarks) = (Vec::new(), Vec::new());
        if !self.opening.once {
            if let Some(reached) = self.reached.locked().take() {
                let mut failure = Failure::new(Ending::Budget, Phase::Turn, reached.to_string());
                failure.limit = Some(reached);
                stop = Err(failure);
            }
            self.meter.locked().next_turn();
            let mut writer = self.writer.lock().await;
            writer.decisions(session.id()).await;
            changed = writer.changes(&mut remarks, true).await.unwrap_or_default();
            let ending = stop.as_ref().map_or_else(|failure| failure.ending, Ending::of);
            writer.end(ending, stop.as_ref().ok(), stop.as_ref().err().map(|failure| &**failure)).await;
        }
        {
            let mut doing = self.doing.locked();
            (doing.state, doing.sent, doing.cancelling) = (State::Idle, false, false);
            // What failed would fail again for what waits, one prompt after the other.
            doing.held |= stop.is_err();
        }
        let is_gone = matches!(&stop, Err(failure) if failure.exit.is_some());
        self.tell(Event::Ended { stop, changed, remarks }).await?;
        // Nothing of the queue is thrown after an agent that has ended.
        if is_gone && !self.opening.once { Err(self.gone().await) } else { Ok(()) }
    }

    /// Sends a prompt and reads the turn to its end.
    async fn turn(&self, session: &Session, Queued { number, parts }: Queued) -> Result<StopReason> {
        let (link, notes, id) = (&self.link, &self.link.parts().notes, session.id());
        if self.phase() != Phase::Prompt {
            self.enter(Phase::Prompt).await?;
        }
        let Some(agent) = link.agent() else { return Err(self.gone().await) };
        let mut prompt = self.blocks(&agent, &parts);
        let first = !self.doing.locked().prompted;
        while let Some(update) = session.try_next().filter(|_| first) {
            self.take(update, When::Before).await?;
        }
        self.conversation.begin_turn();
        if link.setup().agent.is_built_in() {
            self.writer.lock().await.answers(model(session), &self.opening.addresses).await;
        }
        let name = self.doing.locked().names.remove(&number);
        self.writer.lock().await.prompt(name, &prompt).await;
        // In this order: what is killed in between stands twice, not nowhere.
        self.keep_queue().await;
        // The journal keeps what the user said; the record is made of it.
        let record = self.doing.locked().record.take();
        prompt.splice(0..0, record.map(ContentBlock::from));
        let turn = match timeout(link.setup().start_limit, session.prompt(prompt)).await {
            Ok(Ok(turn)) => turn,
            Ok(Err(error)) => return Err(link.failed(self.phase(), error).await),
            Err(_) => return Err(link.too_slow(self.phase())),
        };
        let cancelled = {
            let mut doing = self.doing.locked();
            (doing.sent, doing.prompted) = (true, true);
            doing.cancel
        };
        if cancelled {
            let _ = turn.cancel().await;
        }
        self.enter(Phase::Turn).await?;
        link.idle().seen();
        notes.turn(id, true);
        let read = self.read(session, turn).await;
        notes.turn(id, false);
        while let (Ok(_), Some(note)) = (&read, notes.take(id)) {
            self.show(note).await?;
        }
        match read? {
            Ok(reason) => Ok(reason),
            Err(error) => Err(link.failed(self.phase(), error).await),
        }
    }

    /// What is said, as the agent can take it.
    pub(super) fn blocks(&self, agent: &AgentHandle, parts: &[Part]) -> Vec<ContentBlock> {
        let mut blocks = Vec::new();
        for part in parts {
            let (block, lost) = part.block(agent.capabilities());
            blocks.push(block);
            if let Some(lost) = lost {
                self.link.parts().notes.warn(lost);
            }
        }
        blocks
    }

    /// Reads a turn to its end, and what was given to the agent meanwhile to the end of that. Gives why it stopped.
    async fn read(&self, session: &Session, turn: Turn) -> Result<tieline::Result<StopReason>> {
        let (notes, id) = (&self.link.parts().notes, session.id());
        let cancel = || std::mem::take(&mut self.doing.locked().cancel).then_some(());
        let give = || std::mem::take(&mut self.doing.locked().give).then_some(());
        let mut reading = Reading::new(turn);
        loop {
            tokio::select! {
                biased;
                // What is unfinished is told as cancelled at once. The agent may know better later.
                () = when(&self.wake, cancel) => {
                    self.tell_state().await?;
                    self.end_calls(&ToolCallStatus::Cancelled).await?;
                }
                () = when(&self.wake, give) => self.give(session, &mut reading).await?,
                // What the agent said before a question comes before the question and what was answered.
                update = reading.turn.next() => match update {
                    Some(update) => {
                        // What was decided about a call comes before what became of it.
                        let is_end = |call: &ToolCallUpdate| call.status.set().is_some_and(ToolCallStatus::is_final);
                        while matches!(&update, Update::ToolCall(call) if is_end(call))
                            && let Some(note) = notes.take_told(id)
                        {
                            self.show(note).await?;
                        }
                        self.take(update, When::Turn).await?;
                    }
                    None => {
                        if let Some(stop) = self.over(&mut reading).await? {
                            return Ok(stop);
                        }
                    }
                },
                answer = answer(&mut reading.given) => self.taken(answer).await?,
                note = notes.next(id) => self.show(note).await?,
                () = self.queue_changed() => {
                    self.keep_queue().await;
                    continue;
                }
            }
            self.stir();
            if !self.opening.once && self.reached.locked().is_some() && self.begins_to_cancel() {
                let _ = reading.turn.cancel().await;
            }
            // A run ends with that; where others may answer the next question the turn goes on.
            if let Some(what) = notes.nobody(id).filter(|_| self.opening.once) {
                let why = format!("nobody could be asked for permission: {what}");
                let failure = Failure::new(Ending::Denied, Phase::Turn, why);
                return Err(failure.hint("allow it with --allow RULE, or run in a terminal"));
            }
        }
    }

    /// Updates that end the calls that are not over.
    fn unfinished(&self, status: &ToolCallStatus) -> impl Iterator<Item = Update> {
        let status = status.clone();
        self.conversation.unfinished().into_iter().map(move |tool_call_id| {
            let status = Patch::Set(status.clone());
            Update::ToolCall(Box::new(ToolCallUpdate { tool_call_id, status, ..ToolCallUpdate::default() }))
        })
    }

    async fn end_calls(&self, status: &ToolCallStatus) -> Result<()> {
        for call in self.unfinished(status) {
            self.take(call, When::Turn).await?;
        }
        Ok(())
    }

    /// Takes in an update: written down, then told.
    pub(super) async fn take(&self, update: Update, time: When) -> Result<()> {
        self.count(&update, time);
        {
            let _waits = self.link.idle().waits();
            self.writer.lock().await.update(&update).await;
        }
        for event in self.conversation.take(update, time) {
            self.tell(event).await?;
        }
        Ok(())
    }

    /// Tells what was heard beside the updates.
    async fn show(&self, note: Note) -> Result<()> {
        match note {
            Note::Done(event) => self.tell(Event::Note(event)).await,
            Note::Warning(warning) => self.tell(Event::Warning(warning)).await,
            Note::Question(shown) => self.tell(Event::Asking(shown)).await,
            Note::Asked(asked) => {
                self.tell(Event::Asked(asked)).await?;
                self.tell_state().await
            }
            Note::Settled(number) => {
                self.tell(Event::Settled(number)).await?;
                self.tell_state().await
            }
        }
    }

    /// Updates that come behind the end of the turn.
    async fn late(&self, session: &Session) -> Result<()> {
        let (own, until) = (self.link.setup().agent.is_built_in(), Instant::now() + LATE);
        while Instant::now() < until {
            let next = if own { session.try_next() } else { timeout(QUIET, session.next()).await.ok().flatten() };
            let Some(update) = next else { break };
            self.take(update, When::Late).await?;
        }
        Ok(())
    }

    /// Lets go of the session at the agent, so that another process can take it up. That it is closed is not vital.
    async fn close(&self, session: Arc<Session>) {
        self.doing.locked().agent = None;
        let (Some(agent), Some(session)) = (self.link.agent(), Arc::into_inner(session)) else { return };
        let id = session.id().clone();
        if agent.capabilities().close {
            let _ = timeout(CLOSE, session.close()).await;
        }
        if agent.capabilities().delete && self.opening.forget {
            let _ = timeout(CLOSE, agent.delete(id)).await;
        }
    }
}
