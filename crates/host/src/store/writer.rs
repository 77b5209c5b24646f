//! The one thread that writes: it takes what has come in, commits it together, and only then says so.

use super::event::{join, weight};
use super::log::Hold;
use super::{Error, Event, Result, append, follow};
use rusqlite::Connection;
use rusqlite::config::DbConfig;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tieline_rpc::sync::Lock as _;
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

/// It may be run twice: with others, and again alone if one of them failed.
type Work = Box<dyn FnMut(&Connection) -> Result<()> + Send>;

/// Something to be done inside a transaction, and what hears how it went.
struct Job {
    work: Work,
    done: Box<dyn FnOnce(Result<()>) + Send>,
}

/// Updates of one session that nobody waits for.
struct Stream {
    hold: Arc<Hold>,
    updates: Vec<Update>,
}

impl From<Stream> for Job {
    fn from(Stream { hold, updates }: Stream) -> Self {
        let events: Vec<_> = updates.into_iter().map(|update| Event::Update(update).with_body()).collect();
        let (told, upto) = (Arc::clone(&hold), Arc::new(AtomicU64::new(0)));
        let stored = Arc::clone(&upto);
        Self {
            work: Box::new(move |db| {
                upto.store(append::append(db, &hold, &events)?, Ordering::Relaxed);
                Ok(())
            }),
            done: Box::new(move |outcome| match outcome {
                Ok(()) => follow::stored(&told.head, stored.load(Ordering::Relaxed)),
                Err(error) => told.set_fault(error),
            }),
        }
    }
}

enum Message {
    Write(Job, Option<OwnedSemaphorePermit>),
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
    pub(super) fn start(db: Connection, file: &Path) -> Result<Self> {
        let file = Place { file: file.to_owned(), is: Place::at(file) };
        let (sender, receiver) = sync_channel(BUDGET as usize + SPARE);
        let (end, ended) = oneshot::channel();
        std::thread::Builder::new()
            .name("tieline-store".to_owned())
            .spawn(move || {
                serve(&db, &file, &receiver);
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
    pub(super) async fn write<T: Send + 'static>(
        &self,
        bytes: usize,
        mut work: impl FnMut(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let permit = self.permit(bytes).await?;
        let (reply, answer) = oneshot::channel();
        let made = Arc::new(Mutex::new(None));
        let found = Arc::clone(&made);
        let job = Job {
            work: Box::new(move |db| {
                *made.locked() = Some(work(db)?);
                Ok(())
            }),
            // Whoever asked may have left.
            done: Box::new(move |outcome| {
                let _ = reply.send(outcome.and_then(|()| found.locked().take().ok_or(Error::Closed)));
            }),
        };
        self.send(Message::Write(job, Some(permit)))?;
        answer.await.map_err(|_| Error::Closed)?
    }

    /// The same for those who can't wait and don't want to know.
    pub(super) fn write_later(&self, work: impl FnMut(&Connection) -> Result<()> + Send + 'static) {
        let _ = self.send(Message::Write(Job { work: Box::new(work), done: Box::new(drop) }, None));
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

/// The file that is open, which somebody may move or remove.
struct Place {
    file: PathBuf,
    is: Option<(u64, u64)>,
}

impl Place {
    fn at(file: &Path) -> Option<(u64, u64)> {
        std::fs::metadata(file).ok().map(|meta| (meta.dev(), meta.ino()))
    }

    /// Refuses to call stored what is in a file that nobody finds.
    fn check(&self, db: &Connection) -> Result<()> {
        if Self::at(&self.file) == self.is {
            return Ok(());
        }
        // The log of whatever is in its place now is not ours: whoever closes last removes it, by its name.
        let _ = db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
        Err(Error::Moved(self.file.clone()))
    }
}

/// What is to be committed together.
#[derive(Default)]
struct Group {
    jobs: Vec<Job>,
    /// Given back when all is written, so that what waits counts as well.
    permits: Vec<OwnedSemaphorePermit>,
    /// Streams that more text can still join, one for each session.
    open: Vec<Stream>,
    bytes: usize,
    /// When the oldest of them has waited long enough.
    until: Option<Instant>,
}

impl Group {
    fn stream(&mut self, hold: Arc<Hold>, update: Update, permit: OwnedSemaphorePermit) {
        self.until.get_or_insert_with(|| Instant::now() + WAIT);
        self.bytes += weight(&update);
        self.permits.push(permit);
        let at = self.open.iter().position(|stream| stream.hold.key == hold.key).unwrap_or_else(|| {
            self.open.push(Stream { hold, updates: Vec::new() });
            self.open.len() - 1
        });
        let updates = &mut self.open[at].updates;
        let rest = match updates.last_mut() {
            Some(last) => join(last, update),
            None => Some(update),
        };
        updates.extend(rest);
    }

    /// Nothing joins what came before any more.
    fn seal(&mut self) {
        self.jobs.extend(self.open.drain(..).map(Job::from));
    }

    fn write(&mut self, job: Job, permit: Option<OwnedSemaphorePermit>) {
        self.seal();
        self.jobs.push(job);
        self.permits.extend(permit);
    }

    /// How long it may wait for more: not if someone waits for it, or enough has come together. `None` if it is empty.
    fn patience(&self) -> Option<Duration> {
        if !self.jobs.is_empty() || self.bytes >= ENOUGH {
            return Some(Duration::ZERO);
        }
        self.until.map(|until| until.saturating_duration_since(Instant::now()))
    }
}

fn serve(db: &Connection, file: &Place, queue: &Receiver<Message>) {
    let mut open = true;
    while open {
        let mut group = Group::default();
        let mut alone = None;
        while open && group.permits.len() < GROUP {
            let next = match group.patience() {
                Some(wait) => queue.recv_timeout(wait),
                None => queue.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match next {
                Ok(Message::Write(job, permit)) => group.write(job, permit),
                Ok(Message::Stream(hold, update, permit)) => group.stream(hold, *update, permit),
                Ok(Message::Alone(work)) => {
                    alone = Some(work);
                    break;
                }
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => open = false,
            }
        }
        group.seal();
        commit(db, file, group.jobs);
        drop(group.permits);
        if let Some(work) = alone {
            work(db);
        }
    }
}

fn commit(db: &Connection, file: &Place, mut jobs: Vec<Job>) {
    if jobs.is_empty() {
        return;
    }
    if let Err(error) = say(db, "BEGIN IMMEDIATE") {
        return fail(jobs, &error);
    }
    match together(db, &mut jobs) {
        Ok(outcomes) => match file.check(db) {
            Ok(()) => jobs.into_iter().zip(outcomes).for_each(|(job, outcome)| (job.done)(outcome)),
            Err(error) => fail(jobs, &error),
        },
        Err(error) => {
            if !db.is_autocommit() {
                let _ = db.execute_batch("ROLLBACK");
            }
            if jobs.len() == 1 {
                return fail(jobs, &error);
            }
            // One large job must not fail the small ones beside it.
            for job in jobs {
                commit(db, file, vec![job]);
            }
        }
    }
}

fn fail(jobs: Vec<Job>, error: &Error) {
    tracing::warn!(%error, "a write to the session store failed");
    for job in jobs {
        (job.done)(Err(error.clone()));
    }
}

fn say(db: &Connection, sql: &str) -> Result<usize> {
    Ok(db.prepare_cached(sql)?.execute([])?)
}

/// Runs all jobs in the transaction that is open, and commits. A job that fails by itself leaves the others alone.
fn together(db: &Connection, jobs: &mut [Job]) -> Result<Vec<Result<()>>> {
    let mut outcomes = Vec::with_capacity(jobs.len());
    for job in jobs {
        say(db, "SAVEPOINT job")?;
        let outcome = (job.work)(db);
        if let Err(error) = &outcome {
            if db.is_autocommit() || error.is_passing() {
                return Err(error.clone());
            }
            say(db, "ROLLBACK TO job")?;
        }
        say(db, "RELEASE job")?;
        outcomes.push(outcome);
    }
    say(db, "COMMIT")?;
    Ok(outcomes)
}
