//! What can go wrong with the journal, with what to type next.

use tieline_host::store;

/// Short for results of the journal.
pub type Result<T> = std::result::Result<T, Error>;

/// Why the journal could not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No session fits.
    #[error("there is no session {0:?}; `tieline sessions list` shows those there are")]
    NotFound(String),
    /// Several sessions fit: these, and perhaps more.
    #[error("several sessions fit {0:?}: {list}; type the id of one", list = .1.join(", "))]
    Ambiguous(String, Vec<String>),
    /// Another session has this name already: that one.
    #[error("session {1} is called {0:?} already")]
    NameTaken(String, String),
    /// There are no sessions yet.
    #[error("there are no sessions yet")]
    Empty,
    /// The file.
    #[error("{0}")]
    Store(store::Error),
}

impl Error {
    /// True if there is no such session; scripts get another exit code for that.
    pub fn is_no_session(&self) -> bool {
        matches!(self, Self::NotFound(_) | Self::Ambiguous(..) | Self::Empty | Self::Store(store::Error::NotFound(_)))
    }
}

impl From<store::Error> for Error {
    fn from(error: store::Error) -> Self {
        match error {
            store::Error::NotFound(id) => Self::NotFound(id.to_string()),
            error => Self::Store(error),
        }
    }
}
