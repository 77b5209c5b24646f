//! One live session and the clients on it. What clients are told is its log; the session adds what only a server knows.

use crate::log::{ACCEPTED, ASKED, DROPPED, Dropped, Pending, Question, SETTLED};
use crate::watch::Watch;
use serde::Serialize;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tieline::rpc::Cancel;
use tieline::rpc::sync::Lock as _;
use tieline::schema::{StateUpdate, StopReason, Update};
use tieline::{Error, Result};
use tieline_client::elicit::{Consent, Filled};
use tieline_client::journal::{Journal, NOTICE, Said};
use tieline_client::live::{
    Asked, Ending, Event, Events, Failure, Link, Phase, Reply, Session, SessionFacts, State, What,
};
use tieline_host::store::{Stored, new_id};
use tokio::sync::{oneshot, watch};
use tokio::time::{sleep, timeout};

/// A client on a session.
pub(crate) struct Person {
    number: u64,
    /// What it can be asked.
    takes: Takes,
}

/// What a client can be asked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Takes {
    pub(crate) questions: bool,
    pub(crate) forms: bool,
    pub(crate) pages: bool,
}

/// One live session.
pub(crate) struct Room {
    id: OnceLock<String>,
    /// Tells the questions of this run from those of earlier ones.
    run: String,
    pub(crate) live: Session,
    pub(crate) journal: Journal,
    link: Link,
    people: Mutex<People>,
    /// How many clients are on it.
    count: watch::Sender<usize>,
    /// What was read of the log last: those who are at the same place need not read it again.
    recent: tokio::sync::Mutex<Arc<[Stored]>>,
    /// Why its log can't be written any more.
    broken: OnceLock<String>,
    ended: Cancel,
    pub(crate) watch: Arc<Watch>,
}

#[derive(Default)]
struct People {
    next: u64,
    list: Vec<Arc<Person>>,
    /// The prompt that the agent works on.
    running: Option<u64>,
    /// The last prompt that there was when a turn failed: what comes behind it was said in spite of that.
    failed: Option<u64>,
    /// Nobody can come any more.
    closing: bool,
}

impl Room {
    /// Waits until the session is open; then what happens is seen to until it ends.
    pub(crate) async fn start(
        live: Session,
        link: Link,
        events: Events,
        (journal, watch): (Journal, Arc<Watch>),
        idle: Duration,
    ) -> std::result::Result<Arc<Self>, Arc<Failure>> {
        let room = Arc::new(Self {
            id: OnceLock::new(),
            run: new_id(),
            live,
            journal,
            link,
            people: Mutex::default(),
            // Whoever had it opened is on the way.
            count: watch::Sender::new(1),
            recent: tokio::sync::Mutex::new(Arc::default()),
            broken: OnceLock::new(),
            ended: Cancel::default(),
            watch,
        });
        let (told, opened) = oneshot::channel();
        tokio::spawn(Arc::clone(&room).see_to(events, told, idle));
        match opened.await {
            Ok(Ok(())) => Ok(room),
            Ok(Err(failure)) => Err(failure),
            // The task can end without a word only with the runtime.
            Err(_) => Err(Failure::new(Ending::Failed, Phase::Session, "the session ended").into()),
        }
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
        self.live.close();
    }

    /// Ends the session whatever it is doing: its turn is cancelled, and an agent that does not end is killed.
    pub(crate) async fn end(&self, limit: Duration) {
        self.close();
        self.live.cancel().await;
        if timeout(limit, self.ended()).await.is_err() {
            tracing::warn!(session = self.id(), "an agent did not end in time and is killed");
            self.link.kill();
        }
    }

    /// Ends the session if nobody is on it but this one.
    pub(crate) fn close_behind(&self, last: Option<&Person>) -> bool {
        let mut people = self.people.locked();
        let others = people.list.iter().any(|person| last.is_none_or(|last| person.number != last.number));
        people.closing |= !others;
        drop(people);
        if !others {
            self.live.close();
        }
        !others
    }

    /// How many clients are on it.
    pub(crate) fn people(&self) -> usize {
        *self.count.borrow()
    }

    /// A client comes. `None` if the session is about to end.
    pub(crate) fn arrive(&self, takes: Takes) -> Option<Arc<Person>> {
        let mut people = self.people.locked();
        if people.closing {
            return None;
        }
        people.next += 1;
        let person = Arc::new(Person { number: people.next, takes });
        people.list.push(Arc::clone(&person));
        self.count.send_replace(people.list.len());
        Some(person)
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

    /// A question of the log, if it still stands.
    pub(crate) fn question(&self, question: &Question) -> Option<Arc<Asked>> {
        let mut questions = self.live.questions().into_iter().filter(|_| question.run == self.run);
        questions.find(|asked| asked.number == question.number)
    }

    async fn see_to(
        self: Arc<Self>,
        mut events: Events,
        opened: oneshot::Sender<std::result::Result<(), Arc<Failure>>>,
        idle: Duration,
    ) {
        let (mut opened, mut early, mut asked) = (Some(opened), Vec::new(), HashSet::new());
        loop {
            let event = tokio::select! {
                event = events.next() => event,
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
                        break;
                    }
                    self.lost(&failure).await;
                }
                // There is no log before the session is open.
                Some(Event::Warning(warning)) if opened.is_some() => early.push(warning),
                Some(Event::Warning(warning)) => self.notice("warning", warning).await,
                Some(Event::GoesOn(words)) => self.notice("info", format!("It goes on with {words}.")).await,
                Some(Event::Asked(question)) => {
                    self.watch.asked(self.id(), &question);
                    if self.waits_for_somebody(&question) {
                        asked.insert(question.number);
                        self.note(ASKED, &Question { run: self.run.clone(), number: question.number }).await;
                    }
                }
                Some(Event::Settled(number)) => {
                    if asked.remove(&number) {
                        self.note(SETTLED, &Question { run: self.run.clone(), number }).await;
                    }
                }
                Some(event) => self.take(event),
            }
        }
        *self.people.locked() = People { closing: true, ..People::default() };
        self.count.send_replace(0);
        self.ended.cancel();
    }

    /// Whose turn it is. All else is in the log.
    fn take(&self, event: Event) {
        match event {
            Event::Begun(number) => {
                let mut people = self.people.locked();
                (people.running, people.failed) = (Some(number), None);
            }
            Event::Ended { stop, remarks, .. } => {
                {
                    let mut people = self.people.locked();
                    let Some(number) = people.running.take() else { return };
                    let last = self.live.queue().iter().map(|queued| queued.number).max();
                    people.failed = stop.is_err().then(|| last.unwrap_or(number).max(number));
                }
                // What others have queued is not cancelled with it.
                self.live.revive();
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
    async fn lost(&self, failure: &Failure) {
        let last = {
            let mut people = self.people.locked();
            people.running = None;
            people.failed.take().unwrap_or(u64::MAX)
        };
        let names = self.live.names();
        let mut gone = Vec::new();
        self.live.edit_queue(|queue| {
            queue.retain(|queued| {
                let stays = queued.number > last;
                gone.extend(names.get(&queued.number).filter(|_| !stays).cloned());
                stays
            });
        });
        let hint = failure.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
        self.note(DROPPED, &Dropped { prompts: gone, why: format!("{}{hint}", failure.message) }).await;
        self.notice("error", format!("{}. The next prompt starts the agent again.", failure.message)).await;
        if !self.live.queue().is_empty() {
            self.live.revive();
        }
    }

    /// Takes a prompt in. When this comes back, it is on the disk.
    pub(crate) async fn accept(&self, name: &str) -> Result<()> {
        if self.live.note(ACCEPTED, &name).await {
            return Ok(());
        }
        self.give_up("its log can't be written".to_owned());
        Err(Error::wire(-32603, self.why()))
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
        if !self.live.note(NOTICE, &said).await {
            self.give_up(text);
        }
    }

    async fn note(&self, kind: &str, body: &impl Serialize) {
        if !self.live.note(kind, body).await {
            self.give_up("its log can't be written".to_owned());
        }
    }

    /// A session that is not written down any more is told to nobody, so it ends: its agent must not work on unseen.
    fn give_up(&self, why: String) {
        if self.broken.set(why).is_ok() {
            tracing::error!(session = self.id(), "the log of a session can't be written; it ends");
            self.close();
            self.link.kill();
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
            // One in which nothing was ever said is missed by nobody.
            let idle = if self.live.conversation().items(0, 0).1 == 0 { Duration::ZERO } else { idle };
            tokio::select! {
                () = sleep(idle) => {
                    if matches!(self.live.state(), State::Idle | State::Lost) {
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

/// The state of a session for a client that did not ask for the turn.
pub(crate) fn state(running: bool, stop: Option<StopReason>) -> Update {
    use tieline::schema::State;
    let state = if running { State::Running } else { State::Idle { stop_reason: stop, error: None } };
    Update::State(StateUpdate { state, background: None, meta: None })
}
