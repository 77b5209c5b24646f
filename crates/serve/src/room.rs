//! One live session and the clients on it: what it tells goes to all of them, each in its own time.

use crate::watch::Watch;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tieline::rpc::Cancel;
use tieline::rpc::sync::Lock as _;
use tieline::schema::{
    Chunk, ContentBlock, Items, Message, MessageKind, Patch, Severity, StateUpdate, StopReason, Update,
};
use tieline_client::elicit::{Consent, Filled};
use tieline_client::live::{
    Asked, Ending, Event, Events, Failure, Link, News, Phase, Reply, Session, SessionFacts, State, What, message_id,
};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{sleep, timeout};

/// So many events wait for one client; then the session waits for it.
const MAX_WAITING: usize = 16;
/// A client that takes nothing for this long is let go. It can come back.
pub(crate) const STALL_TIMEOUT: Duration = Duration::from_mins(1);

/// What a client on a session is told.
#[derive(Clone)]
pub(crate) enum Out {
    /// An update; of the user's own words if the second is true.
    Update(Arc<Update>, bool),
    /// A prompt is sent to the agent: its number.
    Begun(u64),
    /// Its turn is over.
    Ended(u64, std::result::Result<StopReason, Arc<Failure>>),
    /// A person is asked.
    Asked(Arc<Asked>),
    /// A question is answered, or not wanted any more.
    Settled(u64),
    /// The agent is gone, and with it the prompts up to this one.
    Lost(Arc<Failure>, u64),
    /// What there is to say.
    Notice(Severity, Arc<str>),
}

/// A client on a session.
pub(crate) struct Person {
    number: u64,
    pub(crate) name: String,
    /// What it can be asked.
    pub(crate) takes: Takes,
    out: mpsc::Sender<Out>,
    /// It knows the updates up to this one.
    after: u64,
    /// Ends its connection.
    over: Cancel,
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
    pub(crate) live: Session,
    link: Link,
    people: Mutex<People>,
    /// How many clients are on it.
    count: watch::Sender<usize>,
    ended: Cancel,
    pub(crate) watch: Arc<Watch>,
}

#[derive(Default)]
struct People {
    next: u64,
    list: Arc<Vec<Arc<Person>>>,
    /// The prompt that the agent works on.
    running: Option<u64>,
    /// The last prompt that there was when a turn failed: what comes behind it was said in spite of that.
    failed: Option<u64>,
    /// Nobody can come any more.
    closing: bool,
}

/// A client that has just come.
pub(crate) struct Arrival {
    pub(crate) person: Arc<Person>,
    pub(crate) out: mpsc::Receiver<Out>,
    /// What it is told first.
    pub(crate) before: Vec<Update>,
    /// A turn runs.
    pub(crate) running: bool,
    /// The questions that stand.
    pub(crate) questions: Vec<Arc<Asked>>,
}

impl Room {
    /// Waits until the session is open; then what it tells is passed on until it ends.
    pub(crate) async fn start(
        live: Session,
        link: Link,
        events: Events,
        idle: Duration,
        watch: Arc<Watch>,
    ) -> std::result::Result<Arc<Self>, Arc<Failure>> {
        // Whoever had it opened is on the way.
        let (people, count) = (Mutex::default(), watch::Sender::new(1));
        let room = Arc::new(Self { id: OnceLock::new(), live, link, people, count, ended: Cancel::default(), watch });
        let (told, opened) = oneshot::channel();
        tokio::spawn(Arc::clone(&room).pass_on(events, told, idle));
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

    /// A client comes. From the snapshot on it is told everything. `None` if the session is about to end.
    pub(crate) fn arrive(&self, name: &str, takes: Takes, over: Cancel) -> std::io::Result<Option<Arrival>> {
        let (sender, out) = mpsc::channel(MAX_WAITING);
        let mut people = self.people.locked();
        if people.closing {
            return Ok(None);
        }
        // Under the lock: what is passed on behind this is behind the snapshot, too.
        let snapshot = self.live.conversation().snapshot()?;
        people.next += 1;
        let person =
            Person { number: people.next, name: name.to_owned(), takes, out: sender, after: snapshot.events, over };
        let person = Arc::new(person);
        let with = people.list.iter().cloned().chain([Arc::clone(&person)]);
        people.list = Arc::new(with.collect());
        self.count.send_replace(people.list.len());
        let (running, questions) = (people.running.is_some(), self.live.questions());
        Ok(Some(Arrival { person, out, before: snapshot.updates, running, questions }))
    }

    /// A client leaves. The session stays.
    pub(crate) fn leave(&self, person: &Person) {
        let mut people = self.people.locked();
        let without = people.list.iter().filter(|other| other.number != person.number).cloned();
        people.list = Arc::new(without.collect());
        self.count.send_replace(people.list.len());
    }

    async fn pass_on(
        self: Arc<Self>,
        mut events: Events,
        opened: oneshot::Sender<std::result::Result<(), Arc<Failure>>>,
        idle: Duration,
    ) {
        let (mut opened, mut count) = (Some(opened), 0);
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
                    let notice = taken_up(&facts);
                    if let (Some(opened), Some(id)) = (opened.take(), facts.id) {
                        let _ = self.id.set(id);
                        let _ = opened.send(Ok(()));
                    }
                    if let Some(notice) = notice {
                        self.tell(count, Out::Notice(Severity::Warning, notice.into())).await;
                    }
                }
                Some(Event::Lost(failure)) => {
                    let failure = Arc::from(failure);
                    if let Some(opened) = opened.take() {
                        let _ = opened.send(Err(failure));
                        break;
                    }
                    // Nobody waits for an answer that does not come; what waited can be said again.
                    let last = {
                        let mut people = self.people.locked();
                        people.running = None;
                        people.failed.take().unwrap_or(u64::MAX)
                    };
                    self.live.edit_queue(|queue| queue.retain(|queued| queued.number > last));
                    self.tell(count, Out::Lost(failure, last)).await;
                    if !self.live.queue().is_empty() {
                        self.live.revive();
                    }
                }
                Some(event) => {
                    count += u64::from(matches!(event, Event::Said { .. } | Event::Update { .. }));
                    if let Some(out) = self.out(event) {
                        self.tell(count, out).await;
                    }
                }
            }
        }
        *self.people.locked() = People { closing: true, ..People::default() };
        self.count.send_replace(0);
        self.ended.cancel();
    }

    /// What the clients are told of an event.
    fn out(&self, event: Event) -> Option<Out> {
        match event {
            Event::Said { kind, number, news, .. } => {
                Some(Out::Update(Arc::new(said(kind, number, news)?), kind == MessageKind::User))
            }
            // Whose turn it is and when it ends each client hears from its own engine, or from its line.
            Event::Update { update, .. } if matches!(*update, Update::State(_)) => None,
            Event::Update { update, .. } => Some(Out::Update(Arc::from(update), false)),
            Event::Begun(number) => {
                let mut people = self.people.locked();
                (people.running, people.failed) = (Some(number), None);
                drop(people);
                Some(Out::Begun(number))
            }
            Event::Ended { stop, remarks, .. } => {
                let number = {
                    let mut people = self.people.locked();
                    let number = people.running.take()?;
                    let last = self.live.queue().iter().map(|queued| queued.number).max();
                    people.failed = stop.is_err().then(|| last.unwrap_or(number).max(number));
                    number
                };
                // What others have queued is not cancelled with it.
                self.live.revive();
                if !remarks.is_empty() {
                    tracing::info!(?remarks, "a turn is over");
                }
                self.watch.ended(self.id(), stop.as_ref().ok().map(StopReason::as_str));
                Some(Out::Ended(number, stop.map_err(Arc::from)))
            }
            Event::Asked(asked) => {
                self.watch.asked(self.id(), &asked);
                let list = Arc::clone(&self.people.locked().list);
                match &asked.what {
                    // It waits for somebody who can answer, however long.
                    What::Permission(_) => {}
                    What::Form(_) if list.iter().any(|person| person.takes.forms) => {}
                    What::Page(_) if list.iter().any(|person| person.takes.pages) => {}
                    What::Form(_) => drop(asked.reply(Reply::Form(Filled::Cancel))),
                    What::Page(_) => drop(asked.reply(Reply::Page(Consent::Cancel))),
                    What::Login(_) | What::Terminal(_) => drop(asked.reply(Reply::Login(None))),
                }
                Some(Out::Asked(asked))
            }
            Event::Settled(number) => Some(Out::Settled(number)),
            Event::Warning(warning) => Some(Out::Notice(Severity::Warning, warning.into())),
            Event::GoesOn(words) => Some(Out::Notice(Severity::Info, format!("It goes on with {words}.").into())),
            // Who asks waits only for what is on its way here.
            Event::Asking(shown) => {
                let _ = shown.send(());
                None
            }
            Event::Phase(_)
            | Event::Started(_)
            | Event::Agent(_)
            | Event::Note(_)
            | Event::Given(_)
            | Event::State(_)
            | Event::Session(_)
            | Event::Lost(_)
            | Event::Closed => None,
        }
    }

    /// Tells everybody who does not know it yet. Who is slow holds up the session, and is let go in the end.
    async fn tell(&self, count: u64, out: Out) {
        let list = Arc::clone(&self.people.locked().list);
        for person in list.iter() {
            if matches!(out, Out::Update(..)) && person.after >= count {
                continue;
            }
            match timeout(STALL_TIMEOUT, person.out.send(out.clone())).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => self.leave(person),
                Err(_) => {
                    tracing::warn!(client = %person.name, "a client takes nothing and is let go");
                    self.leave(person);
                    person.over.cancel();
                }
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

/// What was said, as an update.
fn said(kind: MessageKind, number: usize, news: News) -> Option<Update> {
    let id = message_id(kind, number);
    match news {
        News::Nothing => None,
        News::More(text) | News::Fresh(text) => {
            Some(Update::Chunk(Chunk { kind, message_id: Some(id), content: text.into(), ..Default::default() }))
        }
        News::Instead(text) => {
            let content = Patch::Set(Items(vec![ContentBlock::from(text)]));
            Some(Update::Message(Message { kind, message_id: id, content, ..Message::default() }))
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
