//! Sessions that the engine keeps in memory: shared by the connections of one agent, to be read and filled by its author.

use super::live_session::Place;
use super::session_writer::SessionWriter;
use crate::error::{Error, Result};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use tieline_rpc::sync::Lock;
use tieline_schema::{ConfigOption, Dialect, Patch, SessionId, SessionInfo, SessionInfoUpdate, Transcript};

/// What was said in one session; the session writes to it while it is open.
pub(super) type History = Arc<Mutex<Transcript>>;

/// An empty one.
pub(super) fn new_history() -> History {
    Arc::new(Mutex::new(Transcript::new(Dialect::V2)))
}

/// Sessions that the engine remembers: [`About::remember_in`](super::About::remember_in). Clones share them, so what was said over one
/// connection can be listed, loaded and resumed over the next. A session that is open over one connection is not given to another.
///
/// It grows until sessions are deleted, by clients or by [`Self::forget`].
///
/// ```
/// use tieline::agent::Memory;
/// use tieline::schema::SessionInfo;
/// use tieline::{Dialect, Transcript};
///
/// let memory = Memory::default();
/// // What is stored elsewhere is put in…
/// let info = SessionInfo { session_id: "s1".into(), cwd: "/home/me".into(), ..SessionInfo::default() };
/// assert!(memory.keep(info, Transcript::new(Dialect::V2)));
/// // …and what is remembered is read out, to be stored.
/// for session in memory.sessions() {
///     let updates = memory.transcript(&session.session_id).map(|said| said.to_updates());
///     println!("{} in {}: {updates:?}", session.session_id, session.cwd);
/// }
/// ```
#[derive(Clone, Default)]
pub struct Memory(Arc<Mutex<HashMap<SessionId, Entry>>>);

struct Entry {
    place: Place,
    options: Vec<ConfigOption>,
    history: History,
    /// Who writes to it.
    open: Weak<SessionWriter>,
}

/// A session that somebody has just begun to take up.
pub(super) struct Remembered {
    pub(super) options: Vec<ConfigOption>,
    pub(super) history: History,
}

impl Entry {
    fn writer(&self) -> Option<Arc<SessionWriter>> {
        self.open.upgrade().filter(|writer| !writer.is_closed())
    }

    fn info(&self, id: &SessionId) -> SessionInfo {
        let history = self.history.locked();
        SessionInfo {
            session_id: id.clone(),
            cwd: self.place.cwd.clone(),
            additional_directories: self.place.additional_directories.clone(),
            title: history.info().title.clone(),
            updated_at: history.info().updated_at.clone(),
            ..SessionInfo::default()
        }
    }
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Memory").field(&self.0.locked().len()).finish()
    }
}

impl Memory {
    /// All sessions, also those that are open, in the order of their ids.
    pub fn sessions(&self) -> Vec<SessionInfo> {
        let mut sessions: Vec<SessionInfo> = self.entries().iter().map(|(id, entry)| entry.info(id)).collect();
        sessions.sort_unstable_by(|a, b| a.session_id.cmp(&b.session_id));
        sessions
    }

    /// What was said in a session so far, with its options as they are now. `None` if it is not known.
    pub fn transcript(&self, id: &SessionId) -> Option<Transcript> {
        let (history, options) = {
            let entries = self.entries();
            let entry = entries.get(id)?;
            let options = entry.writer().map_or_else(|| entry.options.clone(), |writer| writer.options());
            (Arc::clone(&entry.history), options)
        };
        let mut transcript = history.locked().clone();
        transcript.set_options(&options);
        Some(transcript)
    }

    /// Puts a session in that was stored elsewhere. False, and nothing happens, if it is open.
    pub fn keep(&self, info: SessionInfo, mut said: Transcript) -> bool {
        let SessionInfo { session_id, cwd, additional_directories, title, .. } = info;
        if let (Some(title), None) = (title, &said.info().title) {
            said.apply(&SessionInfoUpdate { title: Patch::Set(title), ..SessionInfoUpdate::default() }.into());
        }
        let mut entries = self.entries();
        if entries.get(&session_id).is_some_and(|entry| entry.writer().is_some()) {
            return false;
        }
        let place = Place { cwd, additional_directories };
        let (options, history) = (said.options().to_vec(), Arc::new(Mutex::new(said)));
        entries.insert(session_id, Entry { place, options, history, open: Weak::new() });
        true
    }

    /// Forgets a session. False if it is open or not known.
    pub fn forget(&self, id: &SessionId) -> bool {
        let mut entries = self.entries();
        let free = entries.get(id).is_some_and(|entry| entry.writer().is_none());
        free && entries.remove(id).is_some()
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<SessionId, Entry>> {
        self.0.locked()
    }

    /// Gives a session to whom `writer` belongs, unless it is open elsewhere. It is free again when the writer is closed or gone.
    pub(super) fn take_up(&self, id: &SessionId, writer: &Arc<SessionWriter>) -> Result<Remembered> {
        let mut entries = self.entries();
        let entry = entries.get_mut(id).ok_or_else(|| Error::unknown_session(id))?;
        if entry.writer().is_some() {
            return Err(Error::invalid_request("open_elsewhere"));
        }
        entry.open = Arc::downgrade(writer);
        Ok(Remembered { options: entry.options.clone(), history: Arc::clone(&entry.history) })
    }

    /// A session is open.
    pub(super) fn opened(&self, writer: &Arc<SessionWriter>, place: Place) {
        let Some(history) = writer.history() else { return };
        let (options, open) = (writer.options(), Arc::downgrade(writer));
        self.entries().insert(writer.id().clone(), Entry { place, options, history, open });
    }

    /// A session is open no more.
    pub(super) fn closed(&self, writer: &SessionWriter) {
        if let Some(entry) = self.entries().get_mut(writer.id()) {
            entry.options = writer.options();
        }
    }

    /// Whether somebody else has it open.
    pub(super) fn is_open(&self, id: &SessionId) -> bool {
        self.entries().get(id).is_some_and(|entry| entry.writer().is_some())
    }
}
