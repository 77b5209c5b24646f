//! The session store: sessions as logs of events in one `SQLite` file, where what was acknowledged stays.
//!
//! * **Acknowledged means on the disk.** [`SessionLog::append`] comes back after the commit, and commits reach the disk.
//!   After a crash at any point every acknowledged event is there, without gaps; a power cut changes nothing about that.
//! * **One thread writes.** What comes in while it commits is committed together next.
//! * **One process per session.** A lease names the process; whoever slept through a take-over can't write any more.
//! * **Damage costs the tail, not the session.** Each row has a checksum; reading stops at the first bad one and says so. What is
//!   known of a session as a whole is there twice, on different pages.
//!
//! ```
//! use tieline_host::store::{Event, NewSession, Store};
//! use tieline_schema::StopReason;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), tieline_host::store::Error> {
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("store.db");
//! let store = Store::open(&path)?;
//! let log = store.create(NewSession { agent: "coder".into(), cwd: "/work".into(), ..NewSession::default() }).await?;
//! log.begin_turn(None, vec!["Why does the build fail?".into()]).await?;
//! log.end_turn(StopReason::EndTurn).await?;
//! let events = store.load(log.id()).all().await?;
//! assert_eq!(events[1].event, Event::prompt("Why does the build fail?"));
//! # Ok(())
//! # }
//! ```

mod append;
mod card;
mod error;
mod event;
mod follow;
mod home;
mod id;
mod keep;
mod lease;
mod list;
mod log;
mod pages;
mod place;
#[cfg(feature = "postgres")]
mod postgres;
mod replay;
mod salvage;
mod schema;
mod session;
mod time;
mod wal;
mod writer;

pub use error::{Error, Result};
pub use event::{Event, Stored};
pub use follow::Follow;
pub use home::{Answer, Change, Command, Doing, Home, Log, Shared};
pub use id::new_id;
pub use keep::Retention;
pub use lease::Holder;
pub use list::{Hit, ListQuery, Page};
pub use log::{Claim, Opened, SessionLog};
#[cfg(feature = "postgres")]
pub use postgres::{NodeSettings, Postgres};
pub use replay::{Damage, Replay};
pub use salvage::{Salvaged, recover, repair, salvage};
pub use session::{NewSession, Session, State};
pub use time::Time;

use rusqlite::Connection;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use tieline_rpc::sync::Lock;
use tieline_schema::SessionId;
use writer::Queue;

/// How many connections for reading are kept ready.
const READERS: usize = 4;

/// The session store. Cloning it gives another handle on the same one.
#[derive(Debug, Clone)]
pub struct Store(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    /// The file itself, if a link leads there.
    file: PathBuf,
    queue: Queue,
    readers: Mutex<Vec<Connection>>,
}

/// Where the old contents of the files that a session changed are kept, beside the file of a store.
pub fn undo_folder(store: &Path, id: &SessionId) -> PathBuf {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let name = if !id.is_empty() && id.bytes().all(plain) {
        id.to_string()
    } else {
        crate::files::Hash::of(id.as_bytes()).to_string()
    };
    store.with_file_name("undo").join(name)
}

/// Removes what was kept to undo a session with. A link in the place of our own folder leads to what is somebody else's.
pub fn remove_undo(store: &Path, id: &SessionId) {
    let folder = undo_folder(store, id);
    if folder.parent().is_some_and(|parent| !parent.is_symlink()) {
        // A link in its own place is removed, not what it leads to.
        let _ = std::fs::remove_dir_all(folder);
    }
}

fn whole_path(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).map_err(|error| Error::open(path, error))
}

impl Store {
    /// Where the store is unless told otherwise: `$XDG_STATE_HOME/tieline/store.db`, or below `~/.local/state`.
    pub fn default_path() -> Result<PathBuf> {
        place::default_path(|name| std::env::var_os(name))
    }

    /// Opens the store of the user.
    pub fn open_default() -> Result<Self> {
        let path = Self::default_path()?;
        let store = Self::open_mended(&path)?;
        place::narrow_folder(&path);
        Ok(store)
    }

    /// The same as [`Store::open_or_mend`] for those who have nobody to tell what became of it: it is logged.
    pub fn open_mended(path: &Path) -> Result<Self> {
        let (store, mended) = Self::open_or_mend(path)?;
        if let Some(mended) = mended {
            tracing::warn!("{mended}");
        }
        Ok(store)
    }

    /// The same as [`Store::open`], but one that is damaged is [repaired](repair) first; then what became of it comes back, too.
    pub fn open_or_mend(path: &Path) -> Result<(Self, Option<String>)> {
        let emptied = salvage::emptied(path);
        // What can't be opened is named below.
        let torn = wal::mend(&place::real(path)).unwrap_or_default();
        match Self::open_telling(path) {
            Err(Error::Damaged(_)) => {
                let told = repair(path)?;
                Ok((Self::open(path)?, told.or(torn)))
            }
            opened => opened.map(|(store, mended)| (store, emptied.or(torn).or(mended))),
        }
    }

    /// Opens the store in a file, which is made if there is none. Blocks for a few milliseconds, longer if another process
    /// changes the layout of the file at this moment.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Ok(Self::open_telling(path.as_ref())?.0)
    }

    /// The same, with what was mended.
    fn open_telling(path: &Path) -> Result<(Self, Option<String>)> {
        let path = whole_path(path)?;
        let file = place::real(&path);
        let _lock = place::prepare(&file)?;
        let (db, mended) = schema::open_writer(&file)?;
        Ok((Self::start(db, path, file)?, mended))
    }

    /// Opens a store that can't be opened to write because of an error, to read it; whoever writes is told. `None` if the error is
    /// another one than that it can't be written. Comes with what is to be told of it.
    pub fn open_to_read(path: impl AsRef<Path>, error: &Error) -> Result<Option<(Self, Option<String>)>> {
        let path = whole_path(path.as_ref())?;
        let file = place::real(&path);
        let is_full = *error == Error::Full && file.is_file();
        if !is_full && !place::is_read_only(&file) {
            return Ok(None);
        }
        let unseen = std::fs::metadata(place::beside(&file, "-wal")).is_ok_and(|wal| wal.len() > 0);
        let unseen = if unseen { ", but for what was written last" } else { "" };
        let told = format!("the disk is full: {} can only be read{unseen}; free some space", path.display());
        let store = Self::start(schema::open_reader(&file)?, path, file)?;
        Ok(Some((store, is_full.then_some(told))))
    }

    fn start(db: rusqlite::Connection, path: PathBuf, file: PathBuf) -> Result<Self> {
        let queue = Queue::start(db, &file)?;
        Ok(Self(Arc::new(Inner { path, file, queue, readers: Mutex::new(Vec::new()) })))
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Where the old contents of the files that a session changed are kept, for whoever records or undoes them.
    pub fn undo_folder(&self, id: &SessionId) -> PathBuf {
        undo_folder(self.path(), id)
    }

    /// The events of a session from the first to the last, as far as they are whole. Needs no lease.
    pub fn load(&self, id: &SessionId) -> Replay {
        Replay::new(self.clone(), id.clone())
    }

    /// Waits until all that was handed over is on the disk. If this is the last handle, the file is closed as well.
    pub async fn close(self) -> Result<()> {
        self.0.queue.alone(|_| Ok(())).await?;
        if let Ok(inner) = Arc::try_unwrap(self.0) {
            drop(inner.readers);
            inner.queue.end().await;
        }
        Ok(())
    }

    fn queue(&self) -> &Queue {
        &self.0.queue
    }

    /// Reads on a connection of its own, off the threads that must not block.
    async fn read<T: Send + 'static>(&self, work: impl FnOnce(&Connection) -> Result<T> + Send + 'static) -> Result<T> {
        let inner = self.0.clone();
        let work = move || {
            let ready = inner.readers().pop();
            let db = ready.map_or_else(|| schema::open_reader(&inner.file), Ok)?;
            let answer = work(&db);
            let mut readers = inner.readers();
            if readers.len() < READERS {
                readers.push(db);
            }
            answer
        };
        tokio::task::spawn_blocking(work).await.map_err(|_| Error::Closed)?
    }
}

impl Inner {
    fn readers(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.readers.locked()
    }
}
