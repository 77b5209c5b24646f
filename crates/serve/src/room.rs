//! One live session and the clients on it. What clients are told is its log; the session adds what only a server knows.

use crate::hub::{Hub, Inner, Started};
use crate::log::{self, ACCEPTED, ASKED, Chosen, DROPPED, Dropped, Pending, Question, SETTLED, Settled, WITHDRAWN};
use crate::nodes::Facts;
use crate::question::{self, Answered, Posed, call_id};
use crate::watch::{self as watching, Watch};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};
use std::pin::Pin;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;
use tieline::rpc::Cancel;
use tieline::rpc::sync::Lock as _;
use tieline::schema::{ConfigOption, ConfigValue, ContentBlock, StateUpdate, StopReason, Update};
use tieline::{Error, Result};
use tieline_client::elicit::{Consent, Filled};
use tieline_client::journal::{Journal, NOTICE, Said};
use tieline_client::live::{
    Asked, Ending, Event, Events, Failure, Link, Opener, Part, Phase, Reply, Session, SessionFacts, State, What,
};
use tieline_host::store::{self, Stored, new_id};
use tokio::sync::{oneshot, watch};
use tokio::time::{sleep, timeout};

/// A client on a session.
pub(crate) struct Person {
    number: u64,
    /// What it can be asked.
    takes: Takes,
    /// Who it is.
    name: String,
}

/// What a client can be asked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Takes {
    pub(crate) questions: bool,
    pub(crate) forms: bool,
    pub(crate) pages: bool,
}

/// One session and everybody on it: live here, or at another node.
pub(crate) struct Room {
    id: OnceLock<String>,
    /// The session as it lives here; nothing while another node has it.
    seat: Mutex<Option<Arc<Seat>>>,
    /// Held by who has it live here.
    pub(crate) taking: tokio::sync::Mutex<()>,
    pub(crate) hub: Weak<Inner>,
    pub(crate) journal: Journal,
    people: Mutex<People>,
    /// How many clients are on it.
    count: watch::Sender<usize>,
    /// What was read of the log last: those who are at the same place need not read it again.
    recent: tokio::sync::Mutex<Arc<[Stored]>>,
    /// How many prompts of clients here wait for their end.
    pub(crate) prompts: AtomicUsize,
    /// Why its log can't be written any more.
    broken: OnceLock<String>,
    ended: Cancel,
    watch: Arc<Watch>,
}

/// A session that lives here.
pub(crate) struct Seat {
    /// Tells the questions of this run from those of earlier ones.
    run: String,
    pub(crate) live: Session,
    link: Link,
}

impl Seat {
    /// Who opened the session.
    pub(crate) fn opener(&self) -> &Opener {
        self.link.opener()
    }

    pub(crate) fn facts(&self) -> Facts {
        self.live.agent().map(|agent| (agent.options(), agent.commands())).unwrap_or_default()
    }

    pub(crate) async fn set_option(&self, id: &str, value: ConfigValue) -> Result<Vec<ConfigOption>> {
        let agent = self.live.agent().ok_or_else(|| Error::wire(-32603, "the agent is not running"))?;
        agent.set_option(id, value).await
    }

    /// A question of the log, if it still stands.
    fn question(&self, question: &Question) -> Option<Arc<Asked>> {
        let mut questions = self.live.questions().into_iter().filter(|_| question.run == self.run);
        questions.find(|asked| asked.number == question.number)
    }
}

#[derive(Default)]
struct People {
    next: u64,
    list: Vec<Arc<Person>>,
    /// The prompt that the agent works on.
    running: Option<u64>,
    /// The last prompt that there was when a turn failed: what comes behind it was said in spite of that.
    failed: Option<u64>,
    /// The answers that counted, until that is written down.
    answers: HashMap<u64, Chosen>,
    /// Nobody can come any more.
    closing: bool,
}

impl Room {
    /// A session without an owner that is known.
    pub(crate) fn new(hub: &Hub) -> Arc<Self> {
        Arc::new(Self {
            id: OnceLock::new(),
            seat: Mutex::default(),
            taking: tokio::sync::Mutex::default(),
            hub: Arc::downgrade(&hub.0),
            journal: hub.journal().clone(),
            people: Mutex::default(),
            // Whoever had it opened is on the way.
            count: watch::Sender::new(1),
            recent: tokio::sync::Mutex::new(Arc::default()),
            prompts: AtomicUsize::new(0),
            broken: OnceLock::new(),
            ended: Cancel::default(),
            watch: Arc::clone(hub.watch()),
        })
    }

    /// A session that another node has.
    pub(crate) fn elsewhere(hub: &Hub, id: &str) -> Arc<Self> {
        let room = Self::new(hub);
        let _ = room.id.set(id.to_owned());
        tokio::spawn(Arc::clone(&room).look_after());
        room
    }

    /// The session is here. Waits until it is open; then what happens is seen to until it ends.
    pub(crate) async fn sit(
        self: &Arc<Self>,
        started: Started,
        idle: Duration,
    ) -> std::result::Result<(), Arc<Failure>> {
        let Started { live, link, events, place } = started;
        let seat = Arc::new(Seat { run: new_id(), live, link });
        let (told, opened) = oneshot::channel();
        let seeing = Arc::clone(self).see_to(Arc::clone(&seat), events, told, idle);
        tokio::spawn(async move {
            seeing.await;
            drop(place);
        });
        match opened.await {
            Ok(opened) => opened,
            // The task can end without a word only with the runtime.
            Err(_) => Err(Failure::new(Ending::Failed, Phase::Session, "the session ended").into()),
        }
    }

    /// The session as it lives here.
    pub(crate) fn seat(&self) -> Option<Arc<Seat>> {
        self.seat.locked().clone()
    }

    /// What it is doing, if it lives here.
    pub(crate) fn state(&self) -> Option<State> {
        self.seat().map(|seat| seat.live.state())
    }

    pub(crate) fn id(&self) -> &str {
        self.id.get().map_or("", String::as_str)
    }

    /// Waits until the session is over.
    pub(crate) async fn ended(&self) {
        self.ended.cancelled().await;
    }

    /// Why the session is over, for whoever waits for something of it.
    pub(crate) fn why(&self) -> String {
        let why = self.broken.get().map(|why| format!(": {why}")).unwrap_or_default();
        format!("the session has ended{why}")
    }

    /// Ends the session, behind a turn that runs.
    pub(crate) fn close(&self) {
        self.people.locked().closing = true;
        if let Some(seat) = self.seat() {
            seat.live.close();
        }
    }

    /// Nobody can come any more, and nothing is told.
    pub(crate) fn end_here(&self) {
        *self.people.locked() = People { closing: true, ..People::default() };
        self.count.send_replace(0);
        self.ended.cancel();
    }

    /// The session was taken away from under its clients.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.get().is_some()
    }

    /// Ends the session whatever it is doing: its turn is cancelled, and an agent that does not end is killed.
    pub(crate) async fn end(&self, limit: Duration) {
        self.close();
        let Some(seat) = self.seat() else { return self.end_here() };
        seat.live.cancel().await;
        if timeout(limit, self.ended()).await.is_err() {
            tracing::warn!(session = self.id(), "an agent did not end in time and is killed");
            seat.link.kill();
        }
    }

    /// Ends the session if nobody is on it but this one.
    pub(crate) fn close_behind(&self, last: Option<&Person>) -> bool {
        let mut people = self.people.locked();
        let others = people.list.iter().any(|person| last.is_none_or(|last| person.number != last.number));
        people.closing |= !others;
        drop(people);
        if let (false, Some(seat)) = (others, self.seat()) {
            seat.live.close();
        }
        !others
    }

    /// How many clients are on it.
    pub(crate) fn people(&self) -> usize {
        *self.count.borrow()
    }

    /// A client comes. `None` if the session is about to end.
    pub(crate) fn arrive(&self, takes: Takes, name: &str) -> Option<Arc<Person>> {
        let mut people = self.people.locked();
        if people.closing {
            return None;
        }
        people.next += 1;
        let person = Arc::new(Person { number: people.next, takes, name: name.to_owned() });
        people.list.push(Arc::clone(&person));
        self.count.send_replace(people.list.len());
        Some(person)
    }

    /// The others on it, as `session/attach` tells them.
    pub(crate) fn others(&self, than: &Person) -> Vec<Value> {
        let people = self.people.locked();
        let others = people.list.iter().filter(|person| person.number != than.number);
        others.map(|person| json!({ "name": person.name, "role": role_name(person.takes.questions) })).collect()
    }

    /// A client leaves. The session stays.
    pub(crate) fn leave(&self, person: &Person) {
        let mut people = self.people.locked();
        people.list.retain(|other| other.number != person.number);
        self.count.send_replace(people.list.len());
    }

    /// A page of what is stored behind an event; empty if there is nothing.
    pub(crate) async fn stored(&self, after: u64) -> Result<Arc<[Stored]>> {
        // Held while it is read: who comes meanwhile finds it here.
        let mut recent = self.recent.lock().await;
        if recent.first().is_some_and(|first| first.seq == after + 1) {
            return Ok(Arc::clone(&recent));
        }
        let page = self.journal.events(&self.id().into(), after).await.map_err(Error::internal)?;
        let page: Arc<[Stored]> = page.into();
        // Who reads what was said long ago reads alone.
        if page.last().is_some_and(|last| recent.last().is_none_or(|known| known.seq < last.seq)) && self.people() > 1 {
            *recent = Arc::clone(&page);
        }
        Ok(page)
    }

    async fn see_to(
        self: Arc<Self>,
        seat: Arc<Seat>,
        mut events: Events,
        opened: oneshot::Sender<std::result::Result<(), Arc<Failure>>>,
        idle: Duration,
    ) {
        let (mut opened, mut early, mut asked) = (Some(opened), Vec::new(), HashSet::new());
        let mut taken_away: Pin<Box<dyn Future<Output = store::Error> + Send>> = Box::pin(std::future::pending());
        loop {
            let event = tokio::select! {
                event = events.next() => event,
                why = &mut taken_away => {
                    taken_away = Box::pin(std::future::pending());
                    self.give_up(why.to_string());
                    continue;
                }
                () = self.unused(idle) => {
                    self.close_behind(None);
                    continue;
                }
            };
            match event {
                None | Some(Event::Closed) => break,
                Some(Event::Session(facts)) => {
                    early.extend(taken_up(&facts));
                    if let (Some(opened), Some(id)) = (opened.take(), facts.id) {
                        let _ = self.id.set(id);
                        *self.seat.locked() = Some(Arc::clone(&seat));
                        if let Some(shared) = self.journal.shared() {
                            taken_away = shared.taken_away(&self.id().into());
                        }
                        self.drop_pending().await;
                        let _ = opened.send(Ok(()));
                    }
                    for words in early.drain(..) {
                        self.notice("warning", words).await;
                    }
                }
                Some(Event::Lost(failure)) => {
                    if let Some(opened) = opened.take() {
                        let _ = opened.send(Err(Arc::from(failure)));
                        // Who is on it already waits for another node, or for the next attempt.
                        return;
                    }
                    self.lost(&seat, &failure).await;
                }
                // There is no log before the session is open.
                Some(Event::Warning(warning)) if opened.is_some() => early.push(warning),
                Some(Event::Warning(warning)) => self.notice("warning", warning).await,
                Some(Event::GoesOn(words)) => self.notice("info", format!("It goes on with {words}.")).await,
                Some(Event::Asked(question)) => {
                    self.watch.asked(self.id(), &question);
                    let posed = Posed::of(&question).filter(|_| self.waits_for_somebody(&question));
                    if let Some(posed) = posed {
                        asked.insert(question.number);
                        let question = Question { run: seat.run.clone(), number: question.number };
                        self.note(ASKED, &log::Asked { question, posed }).await;
                    }
                }
                Some(Event::Settled(number)) => {
                    if asked.remove(&number) {
                        let answer = self.people.locked().answers.remove(&number);
                        self.note(SETTLED, &Settled { question: Question { run: seat.run.clone(), number }, answer })
                            .await;
                    }
                }
                Some(event) => self.take(&seat, event),
            }
        }
        self.end_here();
    }

    /// Whose turn it is. All else is in the log.
    fn take(&self, seat: &Seat, event: Event) {
        match event {
            Event::Begun(number) => {
                let mut people = self.people.locked();
                (people.running, people.failed) = (Some(number), None);
                people.answers.clear();
            }
            Event::Ended { stop, remarks, .. } => {
                {
                    let mut people = self.people.locked();
                    let Some(number) = people.running.take() else { return };
                    let last = seat.live.queue().iter().map(|queued| queued.number).max();
                    people.failed = stop.is_err().then(|| last.unwrap_or(number).max(number));
                }
                // What others have queued is not cancelled with it.
                seat.live.revive();
                if !remarks.is_empty() {
                    tracing::info!(?remarks, "a turn is over");
                }
                self.watch.ended(self.id(), stop.as_ref().ok().map(StopReason::as_str));
            }
            // Who asks waits only for what is on its way here.
            Event::Asking(shown) => drop(shown.send(())),
            _ => {}
        }
    }

    /// The agent is gone. Nobody waits for an answer that does not come; what waited can be said again.
    async fn lost(&self, seat: &Seat, failure: &Failure) {
        let last = {
            let mut people = self.people.locked();
            people.running = None;
            people.failed.take().unwrap_or(u64::MAX)
        };
        let names = seat.live.names();
        let mut gone = Vec::new();
        seat.live.edit_queue(|queue| {
            queue.retain(|queued| {
                let stays = queued.number > last;
                gone.extend(names.get(&queued.number).filter(|_| !stays).cloned());
                stays
            });
        });
        let hint = failure.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
        self.note(DROPPED, &Dropped { prompts: gone, why: format!("{}{hint}", failure.message) }).await;
        self.notice("error", format!("{}. The next prompt starts the agent again.", failure.message)).await;
        if !seat.live.queue().is_empty() {
            seat.live.revive();
        }
    }

    /// Takes a prompt in. When this comes back, it is on the disk.
    pub(crate) async fn accept(&self, name: &str) -> Result<()> {
        if self.hub.upgrade().is_none_or(|hub| Hub(hub).is_draining()) {
            return Err(Error::wire(-32603, "this server is about to end; try again in a moment"));
        }
        if self.note(ACCEPTED, &name).await {
            return Ok(());
        }
        let why = if self.is_broken() { self.why() } else { "the session can't be written down any more".to_owned() };
        Err(Error::wire(-32603, why))
    }

    /// Puts a prompt that was taken in into the queue.
    pub(crate) async fn prompt(&self, seat: &Seat, name: String, content: Vec<ContentBlock>) -> Result<()> {
        let parts = content.into_iter().map(|block| Part::Block(Box::new(block))).collect();
        if seat.live.prompt_named(name.clone(), parts).is_some() {
            return Ok(());
        }
        let why = "too many prompts wait in this session";
        self.drop_prompt(name, why).await;
        Err(Error::wire(-32603, why))
    }

    /// A prompt is not wanted any more: it leaves the queue, or its turn is cancelled.
    pub(crate) async fn withdraw(&self, seat: &Seat, name: String) {
        let number = seat.live.names().into_iter().find(|(_, known)| *known == name).map(|(number, _)| number);
        let mut waits = false;
        seat.live.edit_queue(|queue| {
            let before = queue.len();
            queue.retain(|queued| Some(queued.number) != number);
            waits = queue.len() < before;
        });
        if waits {
            self.drop_prompt(name, WITHDRAWN).await;
        } else {
            seat.live.cancel().await;
        }
    }

    /// Somebody answers a question. The first answer counts, and who gave it is written down.
    pub(crate) fn answer(&self, seat: &Seat, question: &Question, answer: &Answered, by: &str) {
        let Some(asked) = seat.question(question) else { return };
        let Some(reply) = question::reply(&asked, answer) else { return };
        let word = watching::word(&asked.what, &reply);
        if let What::Permission(question) = &asked.what {
            let option = word.option.clone().unwrap_or_else(|| word.ours.clone());
            let chosen = || Chosen { by: by.to_owned(), option, tool_call: call_id(question, asked.number) };
            // The first one's stays.
            self.people.locked().answers.entry(asked.number).or_insert_with(chosen);
        }
        if asked.reply(reply) {
            self.watch.answered(by, self.id(), &asked, &word);
        }
    }

    /// A prompt that was taken in is not sent.
    pub(crate) async fn drop_prompt(&self, name: String, why: &str) {
        self.note(DROPPED, &Dropped { prompts: vec![name], why: why.to_owned() }).await;
    }

    /// What was taken in by a server that is gone, and not begun there, is not run now: nobody may want it any more. It is told.
    async fn drop_pending(&self) {
        let (id, mut seq, mut pending) = (self.id().into(), 0, Pending::default());
        while let Ok(page) = self.journal.events(&id, seq).await
            && let Some(last) = page.last()
        {
            seq = last.seq;
            for stored in &page {
                pending.take(&stored.event);
            }
        }
        if !pending.0.is_empty() {
            let why = "the server ended before this prompt was begun; it was not run";
            self.note(DROPPED, &Dropped { prompts: pending.0, why: why.to_owned() }).await;
            self.notice("error", format!("A prompt was lost: {why}.")).await;
        }
    }

    /// Whether a question waits for a client; what none of them can answer is answered at once.
    fn waits_for_somebody(&self, asked: &Asked) -> bool {
        let can = |takes: fn(&Takes) -> bool| self.people.locked().list.iter().any(|person| takes(&person.takes));
        let reply = match &asked.what {
            // It waits for somebody who can answer, however long.
            What::Permission(_) => return true,
            // Who is on it at other nodes is not known here.
            What::Form(_) | What::Page(_) if self.journal.shared().is_some() => return true,
            What::Form(_) if can(|takes| takes.forms) => return true,
            What::Page(_) if can(|takes| takes.pages) => return true,
            What::Form(_) => Reply::Form(Filled::Cancel),
            What::Page(_) => Reply::Page(Consent::Cancel),
            What::Login(_) | What::Terminal(_) => Reply::Login(None),
        };
        asked.reply(reply);
        false
    }

    /// Says something to everybody who is on the session.
    async fn notice(&self, severity: &str, text: impl Into<String>) {
        let text = text.into();
        let said = Said { severity: severity.to_owned(), text: text.clone() };
        let written = match self.seat() {
            Some(seat) => seat.live.note(NOTICE, &said).await,
            None => true,
        };
        if !written {
            self.give_up(text);
        }
    }

    /// Writes something down. False if that can't be done any more.
    async fn note(&self, kind: &str, body: &impl Serialize) -> bool {
        let Some(seat) = self.seat() else { return false };
        let written = seat.live.note(kind, body).await;
        // Where several nodes share the log, why it is not ours any more is about to be said.
        if !written && self.journal.shared().is_none() {
            self.give_up("its log can't be written".to_owned());
        }
        written
    }

    /// A session that is not written down any more is told to nobody, so it ends: its agent must not work on unseen.
    fn give_up(&self, why: String) {
        if self.broken.set(why).is_ok() {
            tracing::error!(session = self.id(), why = self.why(), "the log of a session can't be written; it ends");
            self.close();
            if let Some(seat) = self.seat() {
                seat.link.kill();
            }
        }
    }

    /// Waits until nobody has been on the session for this long, and nothing happened in it.
    async fn unused(&self, idle: Duration) {
        if self.people.locked().closing {
            return std::future::pending().await;
        }
        let mut count = self.count.subscribe();
        loop {
            if count.wait_for(|count| *count == 0).await.is_err() {
                return std::future::pending().await;
            }
            let Some(seat) = self.seat() else { return std::future::pending().await };
            // One in which nothing was ever said is missed by nobody.
            let idle = if seat.live.conversation().items(0, 0).1 == 0 { Duration::ZERO } else { idle };
            tokio::select! {
                () = sleep(idle) => {
                    if matches!(seat.live.state(), State::Idle | State::Lost) {
                        return;
                    }
                }
                _ = count.changed() => {}
            }
        }
    }
}

/// What to say about a session that goes on otherwise than it was.
fn taken_up(facts: &SessionFacts) -> Option<String> {
    let anew = facts.anew.as_ref()?;
    let record = if facts.handed_over { "; it was given a record of what was said" } else { "" };
    Some(format!("The agent has lost the session and goes on in a new one ({anew}){record}."))
}

/// What a client may do, in the words of `session/attach`.
pub(crate) fn role_name(may: bool) -> &'static str {
    if may { "controller" } else { "observer" }
}

/// The state of a session for a client that did not ask for the turn.
pub(crate) fn state(running: bool, stop: Option<StopReason>) -> Update {
    use tieline::schema::State;
    let state = if running { State::Running } else { State::Idle { stop_reason: stop, error: None } };
    Update::State(StateUpdate { state, background: None, meta: None })
}
