//! What can go wrong with the store, in words for the person who has to mend it.

use super::Holder;
use rusqlite::ErrorCode;
use std::fmt;
use std::path::{Path, PathBuf};
use tieline_schema::SessionId;

/// Short for results of the store.
pub type Result<T> = std::result::Result<T, Error>;

/// Why the store could not do what was asked. After an error of a write, nothing of that write is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// Neither `XDG_STATE_HOME` nor `HOME` says where the store should be.
    NoHome,
    /// The file could not be made or opened.
    Open {
        /// The file.
        path: PathBuf,
        /// What the system said.
        why: String,
    },
    /// The file is on a network file system, where locks can't be trusted.
    Network(PathBuf),
    /// The file is not a session store.
    Foreign(PathBuf),
    /// A newer Tieline has written the file.
    Newer {
        /// The file.
        path: PathBuf,
        /// The version of its layout.
        found: i64,
        /// The newest version known here.
        known: i64,
    },
    /// The file is damaged.
    Damaged(String),
    /// The disk is full.
    Full,
    /// The file or its disk can't be written.
    ReadOnly,
    /// Another process kept the store locked for too long.
    Busy,
    /// There is no such session.
    NotFound(SessionId),
    /// There is a session of this id already.
    Exists(SessionId),
    /// The session is open elsewhere.
    InUse {
        /// The session.
        session: SessionId,
        /// Who has it open.
        holder: Box<Holder>,
    },
    /// The session was taken over by someone else.
    Lost {
        /// The session.
        session: SessionId,
        /// Who has it now.
        holder: Option<Box<Holder>>,
    },
    /// The cursor is not one of ours.
    Cursor,
    /// The store was closed.
    Closed,
    /// Anything else that `SQLite` or the system said.
    Failed(String),
}

impl Error {
    /// A file that could not be opened.
    pub(super) fn open(path: &Path, why: impl fmt::Display) -> Self {
        Self::Open { path: path.to_owned(), why: why.to_string() }
    }

    /// True if the same call may work later without any change here: space, a lock, a disk.
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Full | Self::ReadOnly | Self::Busy)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoHome => f.write_str(
                "no place for the session store: neither XDG_STATE_HOME nor HOME is set to an absolute path; nothing is stored",
            ),
            Self::Open { path, why } => {
                write!(f, "can't open the session store {}: {why}; nothing is stored", path.display())
            }
            Self::Network(path) => write!(
                f,
                "the session store {} would be on a network file system, where locks can't be trusted; choose a local path",
                path.display()
            ),
            Self::Foreign(path) => write!(f, "{} is not a session store; it was left alone", path.display()),
            Self::Newer { path, found, known } => write!(
                f,
                "the session store {} was written by a newer Tieline (layout {found}, known here: {known}); update Tieline or choose another path",
                path.display()
            ),
            Self::Damaged(why) => write!(
                f,
                "the session store is damaged ({why}); recover what can be read, or move the file away to start afresh"
            ),
            Self::Full => f.write_str("the disk is full: nothing was stored; free some space and try again"),
            Self::ReadOnly => f.write_str("the session store can't be written: nothing was stored"),
            Self::Busy => f.write_str("another process keeps the session store locked: nothing was stored; try again"),
            Self::NotFound(session) => write!(f, "there is no session {session}"),
            Self::Exists(session) => write!(f, "there is a session {session} already"),
            Self::InUse { session, holder } => {
                write!(f, "session {session} is open in {holder}; close it there or take it over")
            }
            Self::Lost { session, holder: Some(holder) } => {
                write!(f, "session {session} was taken over by {holder}: nothing was stored")
            }
            Self::Lost { session, holder: None } => {
                write!(f, "session {session} is no longer open here: nothing was stored")
            }
            Self::Cursor => f.write_str("the cursor is not one of this store"),
            Self::Closed => f.write_str("the session store is closed"),
            Self::Failed(why) => write!(f, "the session store failed: {why}; nothing was stored"),
        }
    }
}

impl std::error::Error for Error {}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::Full,
            Some(ErrorCode::ReadOnly) => Self::ReadOnly,
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy,
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Damaged(error.to_string()),
            _ => match error {
                // A column of another type than the layout says: only damage does that.
                rusqlite::Error::InvalidColumnType(..)
                | rusqlite::Error::FromSqlConversionFailure(..)
                | rusqlite::Error::Utf8Error(..)
                | rusqlite::Error::IntegralValueOutOfRange(..) => Self::Damaged(error.to_string()),
                _ => Self::Failed(error.to_string()),
            },
        }
    }
}
