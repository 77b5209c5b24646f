//! The one thread that writes: it takes what has come in, commits it together, and only then says so.

use super::event::{join, weight};
use super::log::Hold;
use super::{Error, Event, Result, append};
use rusqlite::Connection;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::time::{Duration, Instant};
use tieline_schema::Update;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// How long streamed text may wait for more.
const WAIT: Duration = Duration::from_millis(20);
/// How much streamed text may wait.
const ENOUGH: usize = 4 << 10;
/// How many jobs are committed together at most.
const GROUP: usize = 1024;
/// What may be on its way to the disk, in units: 8 MiB. Whoever wants more waits.
const BUDGET: u32 = 2 << 10;
const UNIT: usize = 4 << 10;
/// Places in the queue for those who can't wait. Each of the others holds at least one unit of the budget.
const SPARE: usize = 256;

/// Something to be done inside a transaction. It may be run twice: with others, and again alone if one of them failed.
trait Job: Send {
    fn run(&mut self, db: &Connection) -> Result<()>;
    fn done(self: Box<Self>, outcome: Result<()>);
}

struct Write<F, T> {
    work: F,
    answer: Option<T>,
    reply: oneshot::Sender<Result<T>>,
}

impl<T: Send, F: FnMut(&Connection) -> Result<T> + Send> Job for Write<F, T> {
    fn run(&mut self, db: &Connection) -> Result<()> {
        self.answer = Some((self.work)(db)?);
        Ok(())
    }

    fn done(self: Box<Self>, outcome: Result<()>) {
        let answer = self.answer;
        // Whoever asked may have left.
        let _ = self.reply.send(outcome.and_then(|()| answer.ok_or(Error::Closed)));
    }
}

/// Updates of one session that nobody waits for.
struct Stream {
    hold: Arc<Hold>,
    updates: Vec<Update>,
}

impl Job for Stream {
    fn run(&mut self, db: &Connection) -> Result<()> {
        // The copy is kept for a second try.
        let events: Vec<_> = self.updates.iter().cloned().map(|update| Event::Update(update).with_body()).collect();
        append::append(db, &self.hold, &events).map(drop)
    }

    fn done(self: Box<Self>, outcome: Result<()>) {
        if let Err(error) = outcome {
            self.hold.set_fault(error);
        }
    }
}

enum Message {
    Write(Box<dyn Job>, Option<OwnedSemaphorePermit>),
    Stream(Arc<Hold>, Box<Update>, OwnedSemaphorePermit),
    Alone(Box<dyn FnOnce(&Connection) + Send>),
}

/// A handle on the thread. The thread ends when the last one is gone and all is written.
#[derive(Debug)]
pub(super) struct Queue {
    sender: SyncSender<Message>,
    budget: Arc<Semaphore>,
    /// Ends when the thread has closed the file.
    ended: oneshot::Receiver<()>,
}

impl Queue {
    /// Starts the thread.
    pub(super) fn start(db: Connection) -> Result<Self> {
        let (sender, receiver) = sync_channel(BUDGET as usize + SPARE);
        let (end, ended) = oneshot::channel();
        std::thread::Builder::new()
            .name("tieline-store".to_owned())
            .spawn(move || {
                serve(&db, &receiver);
                drop(db);
                let _ = end.send(());
            })
            .map_err(|error| Error::Failed(error.to_string()))?;
        Ok(Self { sender, budget: Arc::new(Semaphore::new(BUDGET as usize)), ended })
    }

    /// Lets the thread finish and waits until it has.
    pub(super) async fn end(self) {
        drop(self.sender);
        let _ = self.ended.await;
    }

    async fn permit(&self, bytes: usize) -> Result<OwnedSemaphorePermit> {
        let units = u32::try_from(bytes / UNIT).unwrap_or(BUDGET).saturating_add(1).min(BUDGET);
        self.budget.clone().acquire_many_owned(units).await.map_err(|_| Error::Closed)
    }

    // The budget is smaller than the queue, so there is always a place.
    fn send(&self, message: Message) -> Result<()> {
        self.sender.try_send(message).map_err(|_| Error::Closed)
    }

    /// Does some work in a transaction; the answer comes when it is on the disk. Work that was begun is finished even if
    /// nobody waits for it any more.
    pub(super) async fn write<T, F>(&self, bytes: usize, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnMut(&Connection) -> Result<T> + Send + 'static,
    {
        let permit = self.permit(bytes).await?;
        let (reply, answer) = oneshot::channel();
        self.send(Message::Write(Box::new(Write { work, answer: None, reply }), Some(permit)))?;
        answer.await.map_err(|_| Error::Closed)?
    }

    /// The same for those who can't wait and don't want to know.
    pub(super) fn write_later(&self, work: impl FnMut(&Connection) -> Result<()> + Send + 'static) {
        let (reply, _) = oneshot::channel();
        let _ = self.send(Message::Write(Box::new(Write { work, answer: None, reply }), None));
    }

    /// Hands over an update; it is written soon, with its neighbours.
    pub(super) async fn stream(&self, hold: Arc<Hold>, update: Update) -> Result<()> {
        let permit = self.permit(weight(&update)).await?;
        self.send(Message::Stream(hold, Box::new(update), permit))
    }

    /// Does some work outside of any transaction, after all that was handed over before.
    pub(super) async fn alone<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let permit = self.permit(0).await?;
        let (reply, answer) = oneshot::channel();
        self.send(Message::Alone(Box::new(move |db| {
            let _ = reply.send(work(db));
            drop(permit);
        })))?;
        answer.await.map_err(|_| Error::Closed)?
    }
}

/// What is to be committed together.
#[derive(Default)]
struct Group {
    jobs: Vec<Box<dyn Job>>,
    /// Given back when all is written, so that what waits counts as well.
    permits: Vec<OwnedSemaphorePermit>,
    /// Streams that more text can still join, by session.
    open: HashMap<i64, Stream>,
    /// Their order.
    order: Vec<i64>,
    bytes: usize,
    /// When the oldest of them has waited long enough.
    until: Option<Instant>,
}

impl Group {
    fn stream(&mut self, hold: Arc<Hold>, update: Update, permit: OwnedSemaphorePermit) {
        self.until.get_or_insert_with(|| Instant::now() + WAIT);
        self.bytes += weight(&update);
        self.permits.push(permit);
        let key = hold.key;
        let stream = self.open.entry(key).or_insert_with(|| {
            self.order.push(key);
            Stream { hold, updates: Vec::new() }
        });
        let rest = match stream.updates.last_mut() {
            Some(last) => join(last, update),
            None => Some(update),
        };
        stream.updates.extend(rest);
    }

    /// Nothing joins what came before any more.
    fn seal(&mut self) {
        for key in self.order.drain(..) {
            if let Some(stream) = self.open.remove(&key) {
                self.jobs.push(Box::new(stream));
            }
        }
    }

    fn write(&mut self, job: Box<dyn Job>, permit: Option<OwnedSemaphorePermit>) {
        self.seal();
        self.jobs.push(job);
        self.permits.extend(permit);
    }

    /// Someone waits, or enough has come together.
    fn is_due(&self) -> bool {
        !self.jobs.is_empty() || self.bytes >= ENOUGH || self.until.is_some_and(|until| Instant::now() >= until)
    }
}

fn serve(db: &Connection, queue: &Receiver<Message>) {
    let mut open = true;
    while open {
        let mut group = Group::default();
        let mut alone = None;
        while open && group.permits.len() < GROUP {
            match next(queue, &group) {
                Next::Message(Message::Write(job, permit)) => group.write(job, permit),
                Next::Message(Message::Stream(hold, update, permit)) => group.stream(hold, *update, permit),
                Next::Message(Message::Alone(work)) => {
                    alone = Some(work);
                    break;
                }
                Next::Nothing => break,
                Next::End => open = false,
            }
        }
        group.seal();
        commit(db, group.jobs);
        drop(group.permits);
        if let Some(work) = alone {
            work(db);
        }
    }
}

enum Next {
    Message(Message),
    Nothing,
    End,
}

/// Waits for as long as the group may wait.
fn next(queue: &Receiver<Message>, group: &Group) -> Next {
    let end = |error| match error {
        RecvTimeoutError::Timeout => Next::Nothing,
        RecvTimeoutError::Disconnected => Next::End,
    };
    match group.until {
        _ if group.is_due() => match queue.try_recv() {
            Ok(message) => Next::Message(message),
            Err(TryRecvError::Empty) => Next::Nothing,
            Err(TryRecvError::Disconnected) => Next::End,
        },
        Some(until) => {
            queue.recv_timeout(until.saturating_duration_since(Instant::now())).map_or_else(end, Next::Message)
        }
        None => queue.recv().map_or(Next::End, Next::Message),
    }
}

/// Why a group was not committed.
enum Trouble {
    /// It could not even begin.
    Begin(Error),
    /// One of them, or the disk, spoilt it for all.
    Spoilt(Error),
}

fn commit(db: &Connection, mut jobs: Vec<Box<dyn Job>>) {
    if jobs.is_empty() {
        return;
    }
    match together(db, &mut jobs) {
        Ok(outcomes) => jobs.into_iter().zip(outcomes).for_each(|(job, outcome)| job.done(outcome)),
        Err(Trouble::Begin(error)) => fail(jobs, &error),
        Err(Trouble::Spoilt(error)) if jobs.len() == 1 => fail(jobs, &error),
        // One large job must not fail the small ones beside it.
        Err(Trouble::Spoilt(_)) => jobs.into_iter().for_each(|job| commit(db, vec![job])),
    }
}

fn fail(jobs: Vec<Box<dyn Job>>, error: &Error) {
    tracing::warn!(%error, "a write to the session store failed");
    for job in jobs {
        job.done(Err(error.clone()));
    }
}

/// Runs all jobs in one transaction. A job that fails by itself leaves the others alone.
fn together(db: &Connection, jobs: &mut [Box<dyn Job>]) -> std::result::Result<Vec<Result<()>>, Trouble> {
    let say = |sql: &str| db.prepare_cached(sql).and_then(|mut sql| sql.execute([])).map_err(Error::from);
    let back = |error: Error| {
        if !db.is_autocommit() {
            let _ = db.execute_batch("ROLLBACK");
        }
        Trouble::Spoilt(error)
    };
    say("BEGIN IMMEDIATE").map_err(Trouble::Begin)?;
    let mut outcomes = Vec::with_capacity(jobs.len());
    for job in jobs {
        say("SAVEPOINT job").map_err(back)?;
        let outcome = job.run(db);
        match &outcome {
            Err(error) if db.is_autocommit() || error.is_passing() => return Err(back(error.clone())),
            Err(_) => say("ROLLBACK TO job").map_err(back)?,
            Ok(()) => 0,
        };
        say("RELEASE job").map_err(back)?;
        outcomes.push(outcome);
    }
    say("COMMIT").map_err(back)?;
    Ok(outcomes)
}
