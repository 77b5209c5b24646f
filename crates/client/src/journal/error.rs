//! What can go wrong with the journal, with what to type next.

use std::fmt;
use tieline_host::store;

/// Short for results of the journal.
pub type Result<T> = std::result::Result<T, Error>;

/// Why the journal could not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// No session fits.
    NotFound(String),
    /// Several sessions fit: these, and perhaps more.
    Ambiguous(String, Vec<String>),
    /// Another session has this name already: that one.
    NameTaken(String, String),
    /// There are no sessions yet.
    Empty,
    /// The system gave no random numbers.
    Chance(String),
    /// The file.
    Store(store::Error),
}

impl Error {
    /// True if there is no such session; scripts get another exit code for that.
    pub fn is_no_session(&self) -> bool {
        matches!(self, Self::NotFound(_) | Self::Ambiguous(..) | Self::Empty | Self::Store(store::Error::NotFound(_)))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound(text) => {
                write!(f, "there is no session {text:?}; `tieline sessions list` shows those there are")
            }
            Self::Ambiguous(text, ids) => {
                write!(f, "several sessions fit {text:?}: {}; type the id of one", ids.join(", "))
            }
            Self::NameTaken(name, id) => write!(f, "session {id} is called {name:?} already"),
            Self::Empty => f.write_str("there are no sessions yet"),
            Self::Chance(why) => write!(f, "the system gives no random numbers: {why}"),
            Self::Store(store::Error::InUse { session, holder }) => {
                write!(f, "session {session} is open in {holder}; wait until it ends there, or end that process")
            }
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {}

impl From<store::Error> for Error {
    fn from(error: store::Error) -> Self {
        match error {
            store::Error::NotFound(id) => Self::NotFound(id.to_string()),
            error => Self::Store(error),
        }
    }
}
