//! One client on one live session: its prompts go in, the log of the session goes out from where the client stands, questions are
//! asked.

use crate::hub::Role;
use crate::log::{Chosen, Dropped, Position, Question, Settled, Teller, Told, WITHDRAWN};
use crate::nodes::{Command, blocks};
use crate::question::{self, Posed};
use crate::room::{Person, Room, Takes, role_name, state};
use serde_json::json;
use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tieline::agent::{Opened, Session, SessionHandle, Turn};
use tieline::rpc::Cancel;
use tieline::rpc::sync::Lock as _;
use tieline::schema::{
    ConfigOption, ConfigValue, ContentBlock, Meta, Raw, SessionId, Severity, State, StateUpdate, StopReason, Update,
};
use tieline::{Error, Result};
use tieline_client::live::Opener;
use tieline_host::store::{Follow, Stored};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

/// A client that takes nothing for this long is let go. It can come back, and goes on where it was.
const STALL_TIMEOUT: Duration = Duration::from_mins(1);

/// A client whose session was taken away hears why before its connection ends.
const LET_GO: Duration = Duration::from_secs(1);

/// The prompts of a client that are not over.
type Waiting = Arc<Mutex<Prompts>>;

#[derive(Default)]
struct Prompts {
    /// Those that the session has, by their names.
    known: HashMap<String, Prompted>,
    /// Those that the engine has begun and the session does not have yet.
    coming: usize,
}

struct Prompted {
    end: oneshot::Sender<Result<StopReason>>,
    turn: Turn,
}

/// A prompt that has no end yet.
struct Counted<'a>(&'a Room);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.prompts.fetch_sub(1, Relaxed);
    }
}

/// Why a client comes to a session.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// It opens it: what it offers the agent of files and terminals is served there.
    Opens,
    /// It takes it up.
    TakesUp,
    /// It said `session/attach`, and is told what others don't know.
    Attaches,
}

/// How a client comes to a session.
pub(crate) struct Coming<'a> {
    pub(crate) session: SessionHandle,
    /// Who it is.
    pub(crate) name: &'a str,
    pub(crate) role: Role,
    /// It wants to be told what was said before.
    pub(crate) replay: bool,
    /// It knows everything up to this position.
    pub(crate) after: Option<&'a str>,
    pub(crate) way: Way,
    /// It wants no questions that stand already.
    pub(crate) only_new: bool,
    /// Ends its connection.
    pub(crate) over: Cancel,
}

/// A client on a session.
pub(crate) struct Attachment {
    room: Arc<Room>,
    person: Arc<Person>,
    role: Role,
    waiting: Waiting,
    /// Its files and terminals are the session's.
    opener: Option<Opener>,
    /// Passes on what the session tells.
    task: Option<AbortHandle>,
}

impl Drop for Attachment {
    fn drop(&mut self) {
        self.task.iter().for_each(AbortHandle::abort);
        self.opener.iter().for_each(Opener::left);
        self.room.leave(&self.person);
    }
}

impl Attachment {
    /// Puts a client on a session. With [`Coming::replay`] it is told first what was said before, behind what it knows. `None` if the
    /// session is about to end.
    pub(crate) async fn open(room: Arc<Room>, coming: Coming<'_>) -> Result<Option<Opened<Self>>> {
        let Coming { session, name, role, replay, after, way, only_new, over } = coming;
        let can = session.client().capabilities().clone();
        let may = role >= Role::Use;
        let takes = Takes { questions: may, forms: may && can.elicit_form, pages: may && can.elicit_url };
        let Some(person) = room.arrive(takes, name) else { return Ok(None) };
        let waiting = Waiting::default();
        // It is made before anything is told: if that fails, the client has left.
        let mut attachment =
            Self { room: Arc::clone(&room), person, role, waiting: Arc::clone(&waiting), opener: None, task: None };
        if let (Way::Opens, Some(seat)) = (way, room.seat()) {
            seat.opener().is(session.client());
            attachment.opener = Some(seat.opener().clone());
        }
        let (options, commands) = room.facts().await?;
        let log = Log::open(Arc::clone(&room), after, replay).await?;
        let (head, upto) = (log.head, if replay { log.head } else { log.known.seq.min(log.head) });
        let mut line = Line {
            session,
            name: name.to_owned(),
            room,
            over,
            waiting,
            takes,
            log,
            teller: Teller::default(),
            way,
            old: true,
            running: false,
            stop: None,
            failed: None,
            own: None,
            open: Vec::new(),
            goes_on: false,
            asking: HashMap::new(),
        };
        line.catch_up(upto).await?;
        let stands = json!({ "event": Position::behind(upto).to_string(), "head": head, "running": line.running,
            "stopReason": line.stop.as_ref().map(ToString::to_string), "failed": line.failed });
        let meta = Some(Meta(json!({ "tieline": stands }).into()));
        attachment.task = Some(tokio::spawn(line.run(only_new)).abort_handle());
        let (id, others) = (attachment.room.id().to_owned(), attachment.room.others(&attachment.person));
        let joined = json!({ "sessionId": id, "role": role_name(may), "connectedClients": others });
        let mut opened = Opened::new(attachment).options(options);
        (opened.commands, opened.meta) = (commands, meta);
        opened.more = (way == Way::Attaches).then(|| joined.into());
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
    async fn accept(&self, name: &str, _: &[ContentBlock]) -> Result<()> {
        self.may_use()?;
        self.room.call(Command::Accept { name: name.to_owned() }).await?;
        self.waiting.locked().coming += 1;
        Ok(())
    }

    async fn prompt(&self, turn: Turn, prompt: Vec<ContentBlock>) -> Result<StopReason> {
        let (name, (end, mut ended)) = (turn.prompt_id().to_owned(), oneshot::channel());
        {
            // Before anything is told of it: it must be known whose prompt this is.
            let mut waiting = self.waiting.locked();
            waiting.coming = waiting.coming.saturating_sub(1);
            waiting.known.insert(name.clone(), Prompted { end, turn: turn.clone() });
        }
        self.room.prompts.fetch_add(1, Relaxed);
        let _counted = Counted(&self.room);
        let queued = match self.room.seat() {
            Some(seat) => self.room.prompt(&seat, name.clone(), prompt).await,
            None => self.room.call(Command::Prompt { name: name.clone(), content: blocks(&prompt) }).await.map(drop),
        };
        if let Err(error) = queued {
            self.waiting.locked().known.remove(&name);
            return Err(error);
        }
        let gone = || Error::wire(-32603, self.room.why());
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
        self.room.call(Command::Withdraw { name }).await?;
        ended.await.unwrap_or_else(|_| Err(gone()))
    }

    async fn cancel_others(&self) {
        if self.role >= Role::Use
            && let Err(error) = self.room.call(Command::Cancel).await
        {
            tracing::warn!(%error, "a turn is not cancelled");
        }
    }

    async fn set_option(&self, id: String, value: ConfigValue) -> Result<Option<Vec<ConfigOption>>> {
        self.may_use()?;
        self.room.set_option(id, value).await.map(Some)
    }

    async fn close(&self) {
        let here = self.room.seat();
        // The last one takes the light with it; at another node somebody may be on it.
        if let (true, Some(seat)) = (self.role >= Role::Use, here)
            && self.room.close_behind(Some(&self.person))
        {
            seat.live.cancel().await;
            self.room.ended().await;
        }
    }

    async fn leave(&self) {}
}

/// The log of a session, read from some place on.
struct Log {
    room: Arc<Room>,
    follow: Follow,
    /// What was read.
    seq: u64,
    /// What the client knows.
    known: Position,
    /// It knows that from an earlier connection.
    from_before: bool,
    /// Where the log stood when the client came.
    head: u64,
}

impl Log {
    async fn open(room: Arc<Room>, after: Option<&str>, replay: bool) -> Result<Self> {
        let id = SessionId::from(room.id());
        // In this order: what is stored in between is waited for.
        let follow = room.journal.follow(&id);
        let head = room.journal.entry(&id).await.map_err(Error::internal)?.events;
        let after: Option<Position> = after.and_then(|after| after.parse().ok());
        let after = after.filter(|after| after.seq <= head);
        let known = after.unwrap_or(if replay { Position::default() } else { Position::behind(head) });
        let mut seq = 0;
        // What is told of a turn depends on its beginning.
        if known != Position::default() {
            let start = room.journal.turn_start(&id, known.seq).await.map_err(Error::internal)?;
            seq = start.saturating_sub(1);
        }
        Ok(Self { room, follow, seq, known, from_before: after.is_some(), head })
    }

    /// What is stored behind what was read, if there is something.
    async fn page(&mut self) -> Result<Arc<[Stored]>> {
        let page = self.room.stored(self.seq).await?;
        self.seq = page.last().map_or(self.seq, |last| last.seq);
        Ok(page)
    }

    /// The same when there is something; empty when the session is over and all is read.
    async fn next(&mut self) -> Result<Arc<[Stored]>> {
        loop {
            let over = tokio::select! {
                biased;
                () = self.room.ended() => true,
                () = std::future::ready(()) => false,
            };
            let page = match self.page().await {
                // It may be deleted.
                Err(_) if over => return Ok(Arc::default()),
                page => page?,
            };
            if over || !page.is_empty() {
                return Ok(page);
            }
            tokio::select! {
                () = self.follow.behind(self.seq) => {}
                () = self.room.ended() => {}
            }
        }
    }
}

/// The way from a session to one client.
struct Line {
    session: SessionHandle,
    name: String,
    room: Arc<Room>,
    /// Ends the connection.
    over: Cancel,
    waiting: Waiting,
    takes: Takes,
    way: Way,
    log: Log,
    teller: Teller,
    /// What is read is told again: it was over before the client came.
    old: bool,
    /// A turn runs, or why the last one stopped, as far as was read.
    running: bool,
    stop: Option<StopReason>,
    /// Why it failed, if it did.
    failed: Option<String>,
    /// The turn that runs is this client's.
    own: Option<String>,
    /// The questions that stand, and those of them that the client is asked.
    open: Vec<(Question, Arc<Posed>)>,
    /// The last of them was just answered.
    goes_on: bool,
    asking: HashMap<Question, AbortHandle>,
}

impl Drop for Line {
    fn drop(&mut self) {
        self.asking.values().for_each(AbortHandle::abort);
        // Their prompts end with an error.
        self.waiting.locked().known.clear();
    }
}

impl Line {
    /// Reads the log up to this event.
    async fn catch_up(&mut self, upto: u64) -> Result<()> {
        while self.log.seq < upto {
            let page = self.log.page().await?;
            if page.is_empty() {
                return Err(Error::internal("the log of the session has a gap"));
            }
            for stored in page.iter() {
                // What came since is read again, as news.
                if stored.seq > upto {
                    self.log.seq = upto;
                    break;
                }
                self.take(stored.clone()).await?;
            }
        }
        Ok(())
    }

    async fn run(mut self, only_new: bool) {
        self.old = false;
        if self.running && self.session.update(state(true, None)).await.is_err() {
            return;
        }
        let standing = if only_new { Vec::new() } else { self.open.clone() };
        for (question, posed) in standing {
            self.ask(question, posed);
        }
        if !self.open.is_empty() && self.tell_asking(true).await.is_err() {
            return;
        }
        let told = async {
            loop {
                let page = self.log.next().await?;
                if page.is_empty() {
                    return Ok::<_, Error>(());
                }
                for stored in page.iter() {
                    self.take(stored.clone()).await?;
                }
            }
        };
        if let Err(error) = told.await {
            tracing::debug!(%error, "a client is told nothing more");
            // It would take silence for peace. It can come back.
            self.over.cancel();
        } else if self.room.is_broken() && self.room.journal.shared().is_some() {
            // The session goes on elsewhere: who comes back finds it there. First its prompts hear why they ended.
            let over = self.over.clone();
            drop(self);
            sleep(LET_GO).await;
            over.cancel();
        }
    }

    async fn take(&mut self, stored: Stored) -> Result<()> {
        let told: Vec<_> = self.teller.take(stored).collect();
        for (position, told) in told {
            self.note(&told);
            if position <= self.log.known {
                if let (true, Told::Prompt(_, update) | Told::Update(update)) = (self.log.from_before, told) {
                    self.session.knows(update);
                }
                continue;
            }
            let over = self.over.clone();
            let Ok(sent) = timeout(STALL_TIMEOUT, self.tell(position, told)).await else {
                tracing::warn!("a client takes nothing and is let go");
                over.cancel();
                return Err(Error::wire(-32603, "the client takes nothing"));
            };
            sent?;
        }
        Ok(())
    }

    /// What is known of the session whether it is told or not.
    fn note(&mut self, told: &Told) {
        match told {
            Told::Prompt(..) => (self.running, self.stop, self.failed) = (true, None, None),
            Told::Ended(stop, failed) => {
                (self.running, self.stop) = (false, Some(stop.clone()));
                self.failed.clone_from(failed);
                self.open.clear();
            }
            // The session's task and the turn's write beside each other: what comes behind the end of the turn is over with it.
            Told::Asked(question, posed) if self.running => self.open.push((question.clone(), Arc::clone(posed))),
            Told::Settled(settled) => {
                let before = self.open.len();
                self.open.retain(|(open, _)| *open != settled.question);
                self.goes_on = self.open.is_empty() && before > 0;
            }
            _ => {}
        }
    }

    async fn tell(&mut self, position: Position, told: Told) -> Result<()> {
        let session = self.session.with_meta(position.meta());
        match told {
            Told::Prompt(name, said) => {
                self.own = name.filter(|name| self.waiting.locked().known.contains_key(name));
                if !self.old {
                    self.tell_state(state(true, None)).await?;
                }
                // Its own words it has heard from the engine.
                if self.own.is_some() { Ok(()) } else { session.said_by_other(said).await }
            }
            Told::Update(update @ (Update::Chunk(_) | Update::Message(_))) if is_users(&update) => {
                session.said_by_other(update).await
            }
            Told::Update(update) => session.update(update).await,
            Told::Ended(stop, failed) => self.ended(&session, stop, failed).await,
            // What was said to others before it came is no news.
            Told::Notice(..) if self.old && !self.log.from_before => Ok(()),
            Told::Notice(severity, words) => session.notice(severity, words).await,
            Told::Settled(_) | Told::Dropped(_) if self.old => Ok(()),
            Told::Asked(..) if self.old || !self.running => Ok(()),
            Told::Asked(question, posed) => {
                self.ask(question, posed);
                // The first that stands: it is counted already.
                if self.open.len() == 1 { self.tell_asking(true).await } else { Ok(()) }
            }
            Told::Settled(Settled { question, answer }) => {
                if let Some(asking) = self.asking.remove(&question) {
                    asking.abort();
                }
                if let (Way::Attaches, Some(answer)) = (self.way, answer) {
                    session.client().update_of_proposal(&resolved(answer)).await?;
                }
                if self.goes_on { self.tell_asking(false).await } else { Ok(()) }
            }
            Told::Dropped(Dropped { prompts, why }) => {
                self.own.take_if(|own| prompts.contains(own));
                for name in prompts {
                    let prompted = self.waiting.locked().known.remove(&name);
                    if let Some(Prompted { end, turn }) = prompted {
                        let withdrawn = why == WITHDRAWN;
                        let failed = || Err(Error::wire(-32603, why.clone()));
                        let _ = end.send(if withdrawn { Ok(StopReason::Cancelled) } else { failed() });
                        turn.over().await;
                    }
                }
                // Behind the end of its own, and not while others work.
                if self.running { Ok(()) } else { self.tell_state(state(false, None)).await }
            }
        }
    }

    async fn ended(&mut self, session: &SessionHandle, stop: StopReason, failed: Option<String>) -> Result<()> {
        let own = self.own.take();
        self.asking.drain().for_each(|(_, asking)| asking.abort());
        let prompted = own.and_then(|own| self.waiting.locked().known.remove(&own));
        if let Some(Prompted { end, turn }) = prompted {
            let _ = end.send(failed.map_or(Ok(stop), |why| Err(Error::wire(-32603, why))));
            // What others do next comes behind the end of this turn.
            turn.over().await;
            return Ok(());
        }
        if self.old && !self.log.from_before {
            return Ok(());
        }
        let stop = Some(stop).filter(|_| failed.is_none());
        if let Some(failed) = failed {
            session.notice(Severity::Error, failed).await?;
        }
        self.tell_state(state(false, stop)).await
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
    fn ask(&mut self, question: Question, posed: Arc<Posed>) {
        if !self.takes.questions || self.asking.contains_key(&question) {
            return;
        }
        let (room, session, name) = (Arc::clone(&self.room), self.session.clone(), self.name.clone());
        let task = tokio::spawn(question::ask(room, question.clone(), posed, session, name));
        self.asking.insert(question, task.abort_handle());
    }
}

/// Tells who answered a question, as the proposal of `session/attach` has it.
fn resolved(Chosen { by, option, tool_call }: Chosen) -> Raw {
    let (kind, by) = ("permission_resolved", json!({ "name": by }));
    json!({ "sessionUpdate": kind, "toolCallId": tool_call, "chosenOptionId": option, "resolvedBy": by }).into()
}

fn is_users(update: &Update) -> bool {
    use tieline::schema::{Chunk, Message, MessageKind::User};
    matches!(update, Update::Chunk(Chunk { kind: User, .. }) | Update::Message(Message { kind: User, .. }))
}
