//! Following a session: what is stored is read from any place on, and whoever waits for more is told.

use super::{Result, Store};
use rusqlite::OptionalExtension as _;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, Weak};
use tieline_rpc::sync::Lock as _;
use tieline_schema::SessionId;
use tokio::sync::watch;

type Heads = HashMap<(PathBuf, SessionId), Weak<watch::Sender<u64>>>;

static HEADS: LazyLock<Mutex<Heads>> = LazyLock::new(Mutex::default);

/// Where a session stands, for those who write it and those who follow it, in whatever part of this process: a file may be open
/// several times.
pub(super) fn head_of(path: &Path, id: &SessionId) -> Arc<watch::Sender<u64>> {
    let (mut known, key) = (HEADS.locked(), (path.to_owned(), id.clone()));
    if let Some(head) = known.get(&key).and_then(Weak::upgrade) {
        return head;
    }
    known.retain(|_, head| head.strong_count() > 0);
    let head = Arc::new(watch::Sender::new(0));
    known.insert(key, Arc::downgrade(&head));
    head
}

/// Those of a place that somebody follows.
#[cfg(feature = "postgres")]
pub(super) fn followed(path: &Path) -> Vec<(SessionId, Arc<watch::Sender<u64>>)> {
    let known = HEADS.locked();
    let here = known.iter().filter(|((place, _), _)| place == path);
    here.filter_map(|((_, id), head)| Some((id.clone(), head.upgrade()?)))
        .filter(|(_, head)| head.receiver_count() > 0)
        .collect()
}

/// Says that a session is stored up to here.
pub(super) fn stored(head: &watch::Sender<u64>, seq: u64) {
    head.send_if_modified(|known| std::mem::replace(known, seq.max(*known)) < seq);
}

/// Waits for more of a session. Made by [`Store::follow`].
#[derive(Debug)]
pub struct Follow {
    head: watch::Receiver<u64>,
    _kept: Arc<watch::Sender<u64>>,
}

impl Follow {
    pub(super) fn of(head: Arc<watch::Sender<u64>>) -> Self {
        Self { head: head.subscribe(), _kept: head }
    }

    /// What was told last.
    #[cfg(feature = "postgres")]
    pub(super) fn now(&self) -> u64 {
        *self.head.borrow()
    }

    /// Waits until something is stored behind this event.
    pub async fn behind(&mut self, seq: u64) {
        // It is held here, so it does not end.
        let _ = self.head.wait_for(|head| *head > seq).await;
    }
}

impl Store {
    /// Waits for more of a session that is written in this process.
    pub fn follow(&self, id: &SessionId) -> Follow {
        Follow::of(head_of(self.path(), id))
    }

    /// The event with which the turn begins that this event belongs to; 0 before the first turn.
    pub async fn turn_start(&self, id: &SessionId, seq: u64) -> Result<u64> {
        let (id, seq) = (id.clone(), i64::try_from(seq).unwrap_or(i64::MAX));
        let find = move |db: &rusqlite::Connection| {
            let key = super::session::find(db, &id, super::session::key)?;
            let sql = "SELECT seq FROM event WHERE session = ?1 AND seq <= ?2 AND kind = 'turn_begin' ORDER BY seq DESC LIMIT 1";
            let found: Option<i64> = db.prepare_cached(sql)?.query_row([key, seq], |row| row.get(0)).optional()?;
            Ok(found.unwrap_or(0).cast_unsigned())
        };
        self.read(find).await
    }
}
