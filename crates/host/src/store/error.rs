//! What can go wrong with the store, in words for the person who has to mend it.

use super::Holder;
use rusqlite::ErrorCode;
use rusqlite::ffi::{SQLITE_IOERR_SHMSIZE, SQLITE_IOERR_SHORT_READ};
use std::fmt;
use std::path::{Path, PathBuf};
use tieline_schema::SessionId;

/// Short for results of the store.
pub type Result<T> = std::result::Result<T, Error>;

/// Why the store could not do what was asked. After an error of a write, nothing of that write is stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Neither `XDG_STATE_HOME` nor `HOME` says where the store should be.
    #[error(
        "no place for the session store: neither XDG_STATE_HOME nor HOME is set to an absolute path; nothing is stored"
    )]
    NoHome,
    /// The file could not be made or opened.
    #[error("can't open the session store {}: {why}; nothing is stored", .path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system said.
        why: String,
    },
    /// The file is on a network file system, where locks can't be trusted.
    #[error("the session store {} would be on a network file system, where locks can't be trusted; choose a local path", .0.display())]
    Network(PathBuf),
    /// The file is not a session store.
    #[error("{} is not a session store; it was left alone", .0.display())]
    Foreign(PathBuf),
    /// A newer Tieline has written the file.
    #[error("the session store {} was written by a newer Tieline (layout {found}, known here: {known}); update Tieline or choose another path", .path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// The version of its layout.
        found: i64,
        /// The newest version known here.
        known: i64,
    },
    /// The file is damaged.
    #[error("the session store is damaged ({0}); `tieline sessions repair` saves what can be read")]
    Damaged(String),
    /// The file is not where it was when it was opened.
    #[error("the session store {} was moved or removed while it was open: what was said since is kept nowhere", .0.display())]
    Moved(PathBuf),
    /// The disk is full.
    #[error("the disk is full: nothing was stored; free some space and try again")]
    Full,
    /// The file or its disk can't be written.
    #[error("the session store can't be written: nothing was stored")]
    ReadOnly,
    /// Another process kept the store locked for too long.
    #[error("another process keeps the session store locked: nothing was stored; try again")]
    Busy,
    /// There is no such session.
    #[error("there is no session {0}")]
    NotFound(SessionId),
    /// There is a session of this id already.
    #[error("there is a session {0} already")]
    Exists(SessionId),
    /// The session is open elsewhere.
    #[error("session {session} is open in {holder}; wait until it ends there, or end that process")]
    InUse {
        /// The session.
        session: SessionId,
        /// Who has it open.
        holder: Box<Holder>,
    },
    /// The session was taken over by someone else.
    #[error("session {session} {}: nothing was stored", .holder.as_ref().map_or_else(|| "is no longer open here".into(), |holder| format!("was taken over by {holder}")))]
    Lost {
        /// The session.
        session: SessionId,
        /// Who has it now.
        holder: Option<Box<Holder>>,
    },
    /// A database that several machines share can't be reached. Whether what was asked for was done is not known.
    #[error("the database of the sessions can't be reached: {0}")]
    Away(String),
    /// The cursor is not one of ours.
    #[error("the cursor is not one of this store")]
    Cursor,
    /// The store was closed.
    #[error("the session store is closed")]
    Closed,
    /// Anything else that `SQLite` or the system said.
    #[error("the session store failed: {0}; nothing was stored")]
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

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        // What only readers need is made larger first, and where there is no room for that SQLite does not say so.
        let no_room = error.sqlite_error().is_some_and(|error| error.extended_code == SQLITE_IOERR_SHMSIZE);
        // The file ends before a page that it is said to have.
        let cut = error.sqlite_error().is_some_and(|error| error.extended_code == SQLITE_IOERR_SHORT_READ);
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::Full,
            Some(ErrorCode::SystemIoFailure) if cut => Self::Damaged("the file is cut short".into()),
            Some(ErrorCode::SystemIoFailure) if no_room => Self::Full,
            Some(ErrorCode::ReadOnly) => Self::ReadOnly,
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy,
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Damaged(error.to_string()),
            _ => match error {
                // A column of another type than the layout says: only damage does that.
                rusqlite::Error::InvalidColumnType(..)
                | rusqlite::Error::FromSqlConversionFailure(..)
                | rusqlite::Error::Utf8Error(..)
                | rusqlite::Error::IntegralValueOutOfRange(..) => Self::Damaged(error.to_string()),
                // So it calls a number in the head that no version has.
                _ if error.to_string().contains("unsupported file format") => Self::Damaged(error.to_string()),
                _ => Self::Failed(error.to_string()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::ffi;

    #[test]
    fn a_full_disk_is_called_that() {
        for code in [ffi::SQLITE_FULL, ffi::SQLITE_IOERR_SHMSIZE] {
            assert_eq!(Error::from(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)), Error::Full);
        }
        let broken = Error::from(rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_IOERR_READ), None));
        assert!(matches!(broken, Error::Failed(_)), "{broken}");
    }
}
