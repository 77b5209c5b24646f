//! What the services did, for those who record or show it.

use crate::permission::Record;
use std::path::PathBuf;
use tieline::schema::{ExitStatus, SessionId};
use tieline_host::files::Hash;

/// Something that the services did.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event {
    /// A permission was decided.
    Decided(Box<Record>),
    /// A file was read for the agent.
    Read {
        /// Which session.
        session: SessionId,
        /// The file, with all links followed.
        path: PathBuf,
        /// So many bytes were given.
        bytes: usize,
        /// The text was not saved yet.
        unsaved: bool,
    },
    /// A file was written for the agent.
    Wrote {
        /// Which session.
        session: SessionId,
        /// The file, with all links followed.
        path: PathBuf,
        /// So many bytes were written.
        bytes: usize,
        /// It was not there before.
        created: bool,
        /// The hash of what is there now.
        hash: Hash,
    },
    /// A command was started in a terminal.
    TerminalStarted {
        /// Which session.
        session: SessionId,
        /// The terminal.
        terminal: String,
        /// The command in one line. Not safe to show as it is.
        line: String,
        /// Where it runs.
        folder: PathBuf,
    },
    /// The command of a terminal has ended.
    TerminalEnded {
        /// Which session.
        session: SessionId,
        /// The terminal.
        terminal: String,
        /// How it ended.
        exit: ExitStatus,
        /// So many processes outlived it, and were ended.
        leftovers: u32,
    },
    /// A person was asked for something, or would have been.
    Elicited {
        /// Which session, if it belongs to one.
        session: Option<SessionId>,
        /// `form`, `url` or another mode.
        mode: String,
        /// `accept`, `decline` or `cancel`.
        action: &'static str,
    },
    /// Something that a person should know, safe to show.
    Notice {
        /// Which session, if it belongs to one.
        session: Option<SessionId>,
        /// In words.
        text: String,
    },
}

impl Event {
    /// Which session it is about, if it belongs to one.
    pub fn session(&self) -> Option<SessionId> {
        match self {
            Self::Decided(record) => Some(record.session.as_str().into()),
            Self::Read { session, .. }
            | Self::Wrote { session, .. }
            | Self::TerminalStarted { session, .. }
            | Self::TerminalEnded { session, .. } => Some(session.clone()),
            Self::Elicited { session, .. } | Self::Notice { session, .. } => session.clone(),
        }
    }
}

/// Hears of what the services do. It must be quick.
pub trait Observer: Send + Sync + 'static {
    /// Something was done.
    fn event(&self, event: &Event);

    /// A person is about to be asked. May wait until all is shown that came before the question.
    fn asking<'a>(&'a self, session: &'a SessionId) -> crate::Future<'a, ()> {
        let _ = session;
        Box::pin(std::future::ready(()))
    }
}

impl<F: Fn(&Event) + Send + Sync + 'static> Observer for F {
    fn event(&self, event: &Event) {
        self(event);
    }
}
