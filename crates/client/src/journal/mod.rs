//! The journal: every session with every agent, under our own ids, in one `SQLite` file that survives `kill -9`.
//!
//! It is a [session store](tieline_host::store) of its own, beside that of the built-in agent. What was acknowledged is on
//! the disk before it is shown; only in a burst of pieces of text the later ones take about 20 ms more, and never longer than
//! what comes next. One process at a time can go on with a session.

mod entry;
mod error;
mod handover;
mod record;
mod resume;
mod story;

pub use entry::{Begin, Entry};
pub use error::{Error, Result};
pub use handover::Handover;
pub use record::{Changed, Decision, HowAsked, HowChanged, HowUndone, Kept, NOTICE, OUTCOME, Outcome, Recording, Said};
pub use resume::{Taken, Way, take_up, way};
pub use story::{Note, Story, TurnStory};

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tieline::rpc::sync::Lock as _;
use tieline::schema::SessionId;
use tieline_host::files::Hash;
use tieline_host::store::{
    self, Change, Claim, Follow, Hit, Home, ListQuery, NewSession, Retention, Shared, Store, Stored,
};
use tieline_host::whole;

/// The file name of the journal, beside the store of the built-in agent.
pub const FILE: &str = "journal.db";
/// What stands for the session used last. No session can have this name.
pub const LAST: &str = "last";
/// How many sessions a name or short id may fit before we stop looking.
const FITTING: usize = 5;
/// How many sessions with changes are looked at.
const CHANGED: usize = 100;

/// How long another run may take to begin a session of the same name.
const NAMING_TIMEOUT: Duration = Duration::from_secs(30);

/// How often old sessions are looked for.
const DAY: Duration = Duration::from_hours(24);

/// The journal. Cloning it gives another handle on the same one.
#[derive(Debug, Clone)]
pub struct Journal {
    store: Arc<dyn Home>,
    /// The file; what is kept beside the sessions, such as what undoes them, is in its folder.
    path: PathBuf,
    /// Held from when nobody had a name until a session has it.
    naming: Arc<Mutex<Option<File>>>,
}

impl Journal {
    /// Where the journal is: `$XDG_STATE_HOME/tieline/journal.db`, or below `~/.local/state`.
    pub fn default_path() -> Result<PathBuf> {
        Ok(Store::default_path()?.with_file_name(FILE))
    }

    /// Opens the journal of the user. Blocks for a few milliseconds. One that is damaged is repaired first; then what became of
    /// it comes back, too.
    pub fn open_default() -> Result<(Self, Option<String>)> {
        let (store, mended) = Store::open_or_mend(&Self::default_path()?)?;
        Ok((store.into(), mended))
    }

    /// The same for one that is looked at: a journal that can't be written can be read.
    pub fn open_to_read() -> Result<(Self, Option<String>)> {
        let path = Self::default_path()?;
        let (store, told) = Store::open_or_mend(&path).or_else(|error| match Store::open_to_read(&path, &error) {
            Ok(Some(opened)) => Ok(opened),
            _ => Err(error),
        })?;
        Ok((store.into(), told))
    }

    /// Opens the journal in a file, made if there is none.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Ok(Store::open(path)?.into())
    }

    /// A journal in a home that several machines share. What is of this machine alone is kept beside where the user's own journal is.
    pub fn shared_in(home: Arc<dyn Home>) -> Result<Self> {
        let path = Self::default_path()?;
        let folder = path.parent().unwrap_or(Path::new("/"));
        std::fs::create_dir_all(folder)
            .map_err(|error| store::Error::Open { path: path.clone(), why: error.to_string() })?;
        Ok(Self { store: home, path, naming: Arc::default() })
    }

    /// What several nodes need of a home that they share; `None` where it is a file of this machine.
    pub fn shared(&self) -> Option<&dyn Shared> {
        self.store.shared()
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the old contents of the files that a session changed are kept.
    pub fn undo_folder(&self, id: &SessionId) -> PathBuf {
        store::undo_folder(&self.path, id)
    }

    /// Begins a session. When this comes back, it is on the disk and ours.
    pub async fn begin(&self, mut begin: Begin) -> Result<Recording> {
        loop {
            let new = NewSession {
                id: Some(begin.id.take().unwrap_or_else(store::new_id).into()),
                agent: begin.agent.clone(),
                cwd: begin.cwd.clone(),
                directories: begin.directories.clone(),
                title: begin.name.clone(),
                options: None,
                meta: Some(begin.meta()),
            };
            match self.store.create(new).await {
                // The id is taken: another one will do.
                Err(store::Error::Exists(_)) => {}
                Err(error) => return Err(error.into()),
                Ok(log) => {
                    let entry = self.entry(log.id()).await?;
                    if begin.name.is_some() {
                        self.store.change(log.id(), Change::Name(begin.name)).await?;
                        self.naming.locked().take();
                    }
                    return Ok(Recording::new(self.clone(), log, entry));
                }
            }
        }
    }

    /// Goes on with a session. Refused while another process has it, unless it is taken over. A turn that a crash left
    /// open is closed; [`Recording::interrupted`] says so.
    pub async fn reopen(&self, id: &str, claim: Claim) -> Result<Recording> {
        let opened = self.store.open(&id.into(), claim).await?;
        let entry = self.entry(id).await?;
        let mut recording = Recording::new(self.clone(), opened.log, entry);
        recording.interrupted = opened.interrupted;
        recording.lost = opened.lost;
        Ok(recording)
    }

    /// A session by its whole id, by the name that the user gave it, by enough of the beginning or end of its id, or `last`.
    /// Of several with the same name the one of the folder `here` is meant.
    pub async fn find(&self, text: &str, here: &Path) -> Result<Entry> {
        if text == LAST {
            return self.last(None, None).await?.ok_or(Error::Empty);
        }
        let here = here.to_string_lossy();
        let fitting = self.store.matching(text, &here, FITTING).await?;
        match &fitting[..] {
            [] => Err(Error::NotFound(text.to_owned())),
            [one] => Ok(one.clone().into()),
            [one, next, ..] if one.name() == Some(text) && one.cwd == here && next.cwd != here => {
                Ok(one.clone().into())
            }
            many => {
                let told = many.iter().map(|one| format!("{} ({} in {})", one.id, one.agent, one.cwd));
                let told = told.map(|one| crate::sanitize::exact_line(&one)).collect();
                Err(Error::Ambiguous(text.to_owned(), told))
            }
        }
    }

    /// A session by its whole id.
    pub async fn entry(&self, id: &str) -> Result<Entry> {
        Ok(self.store.session(&id.into()).await?.into())
    }

    /// The session that somebody last spoke in, of an agent and a folder if they are given.
    pub async fn last(&self, agent: Option<&str>, cwd: Option<&Path>) -> Result<Option<Entry>> {
        let (agent, cwd) = (agent.map(str::to_owned), cwd.map(|cwd| cwd.to_string_lossy().into_owned()));
        Ok(self.list(ListQuery { agent, cwd, begun: true, limit: 1, ..ListQuery::default() }).await?.0.pop())
    }

    /// The session that the user called `name`, with this agent in this folder.
    pub async fn named(&self, agent: &str, cwd: &Path, name: &str) -> Result<Option<Entry>> {
        let cwd = cwd.to_string_lossy();
        let fitting = self.store.matching(name, &cwd, usize::MAX).await?;
        let fits = |entry: &Entry| entry.name() == Some(name) && entry.agent == agent && entry.cwd == cwd;
        Ok(fitting.into_iter().map(Entry::from).find(fits))
    }

    /// The same for one who begins a session of this name if there is none: until then others wait here.
    pub async fn named_or_free(&self, agent: &str, cwd: &Path, name: &str) -> Result<Option<Entry>> {
        if let Some(known) = self.named(agent, cwd, name).await? {
            return Ok(Some(known));
        }
        let file = &Hash::of(name.as_bytes()).to_string()[..1];
        let file = self.path().with_file_name(format!("journal.naming-{file}"));
        let held = tokio::task::spawn_blocking(move || whole::lock(&file, NAMING_TIMEOUT)).await;
        let held = held.ok().and_then(std::result::Result::ok).ok_or(store::Error::Busy)?;
        let known = self.named(agent, cwd, name).await?;
        *self.naming.locked() = known.is_none().then_some(held);
        Ok(known)
    }

    /// Gives a session a name. Refused if another one with the same agent in the same folder has it.
    pub async fn rename(&self, entry: &Entry, name: &str) -> Result<()> {
        match self.named(&entry.agent, Path::new(&entry.cwd), name).await? {
            Some(other) if other.id != entry.id => Err(Error::NameTaken(name.to_owned(), other.id.to_string())),
            _ => Ok(self.store.change(&entry.id, Change::Name(Some(name.to_owned()))).await.map(drop)?),
        }
    }

    /// Sessions that changed files, of a folder if it is given; the one with the last change comes first.
    pub async fn changed(&self, cwd: Option<&Path>) -> Result<Vec<Entry>> {
        let cwd = cwd.map(Path::to_string_lossy);
        let found = self.store.with_event(record::CHANGES, cwd.as_deref(), CHANGED).await?;
        Ok(found.into_iter().map(Entry::from).collect())
    }

    /// A page of sessions, the one used last first, and where the next page begins.
    pub async fn list(&self, query: ListQuery) -> Result<(Vec<Entry>, Option<String>)> {
        let page = self.store.list(query).await?;
        Ok((page.sessions.into_iter().map(Entry::from).collect(), page.next))
    }

    /// Sessions in whose title or turns all words of `text` are found, the best first.
    pub async fn search(&self, text: &str, limit: usize) -> Result<Vec<Hit>> {
        Ok(self.store.search(text, limit).await?)
    }

    /// Deletes a session, with what is kept to undo it. Refused while another process has it open.
    pub async fn delete(&self, id: &str) -> Result<()> {
        let id = id.into();
        self.store.delete(&id).await?;
        self.forget(&[id]).await;
        Ok(())
    }

    /// Deletes what is older or more than wanted. Says which sessions are gone.
    pub async fn retain(&self, keep: Retention) -> Result<Vec<SessionId>> {
        if keep == Retention::default() {
            return Ok(Vec::new());
        }
        let gone = self.store.retain(keep).await?;
        self.forget(&gone).await;
        Ok(gone)
    }

    /// The same at most once a day; for those who come by often.
    pub async fn tidy(&self, keep: Retention) -> Result<Vec<SessionId>> {
        let mark = self.path.with_file_name("journal.tidied");
        let last = std::fs::metadata(&mark).and_then(|mark| mark.modified()).ok();
        if last.and_then(|last| last.elapsed().ok()).is_some_and(|ago| ago < DAY) {
            return Ok(Vec::new());
        }
        let gone = self.retain(keep).await?;
        // Without the mark it is only done once more.
        let _ = std::fs::write(mark, "");
        Ok(gone)
    }

    /// All that happened in a session.
    pub async fn story(&self, id: &str) -> Result<Story> {
        Story::load(&*self.store, self.entry(id).await?).await
    }

    /// What is stored of a session behind this event, a page of it; none if there is no more yet.
    pub async fn events(&self, id: &SessionId, after: u64) -> Result<Vec<Stored>> {
        Ok(self.store.page(id, after).await?.0)
    }

    /// Waits for more of a session.
    pub fn follow(&self, id: &SessionId) -> Follow {
        self.store.follow(id)
    }

    /// The event with which the turn begins that this event belongs to; 0 before the first turn.
    pub async fn turn_start(&self, id: &SessionId, seq: u64) -> Result<u64> {
        Ok(self.store.turn_start(id, seq).await?)
    }

    /// Waits until all that was handed over is on the disk.
    pub async fn close(self) -> Result<()> {
        Ok(self.store.close().await?)
    }

    async fn forget(&self, ids: &[SessionId]) {
        let (path, ids) = (self.path.clone(), ids.to_vec());
        let work = move || {
            for id in &ids {
                store::remove_undo(&path, id);
            }
        };
        let _ = tokio::task::spawn_blocking(work).await;
    }
}

impl From<Store> for Journal {
    fn from(store: Store) -> Self {
        let path = store.path().to_owned();
        Self { store: Arc::new(store), path, naming: Arc::default() }
    }
}
