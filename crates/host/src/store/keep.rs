//! Changing, deleting and checking what is stored.

use super::replay::Walk;
use super::session::{self, is_held};
use super::{Error, Holder, Result, Store, Time, card};
use rusqlite::{Connection, Row, params};
use std::time::Duration;
use tieline_schema::{Raw, SessionId};

/// How long the store is kept. What is not limited is kept; what is open is always kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Retention {
    /// Only sessions of this agent are looked at; `None` is all.
    pub agent: Option<&'static str>,
    /// Sessions that were not used for longer than this are deleted.
    pub max_age: Option<Duration>,
    /// Only this many are kept: those used last.
    pub max_count: Option<usize>,
}

/// One day.
const DAY: Duration = Duration::from_hours(24);

impl Retention {
    /// Sessions that were not used for so many days are deleted; 0 is no limit.
    #[must_use]
    pub fn days(mut self, days: u64) -> Self {
        let age = DAY.checked_mul(u32::try_from(days).unwrap_or(u32::MAX));
        self.max_age = age.filter(|age| !age.is_zero());
        self
    }

    /// Only so many sessions are kept; 0 is no limit.
    #[must_use]
    pub fn count(mut self, count: u64) -> Self {
        self.max_count = usize::try_from(count).ok().filter(|count| *count > 0);
        self
    }
}

/// How many old sessions are deleted in one step.
const RETAIN_STEP: usize = 50;

/// How many free pages the file may have before it is made smaller: 1 MiB.
const FREE_PAGES: i64 = 256;

impl Store {
    /// Gives a session the title that its agent proposes. False if the user chose one: then that one stays.
    pub async fn set_title(&self, id: &SessionId, title: Option<&str>) -> Result<bool> {
        let title = title.map(str::to_owned);
        self.change(id, move |db, key| {
            let sql = "UPDATE session SET title = ?2 WHERE key = ?1 AND NOT named";
            Ok(db.prepare_cached(sql)?.execute(params![key, title])? > 0)
        })
        .await
    }

    /// Gives a session the title that the user chose. `None` leaves the choice to the agent again.
    pub async fn rename(&self, id: &SessionId, title: Option<&str>) -> Result<()> {
        let title = title.map(str::to_owned);
        self.change(id, move |db, key| {
            let sql = "UPDATE session SET title = ?2, named = ?2 IS NOT NULL WHERE key = ?1";
            db.prepare_cached(sql)?.execute(params![key, title])?;
            Ok(())
        })
        .await
    }

    /// Stores the options that were chosen.
    pub async fn set_options(&self, id: &SessionId, options: Raw) -> Result<()> {
        self.set(id, "UPDATE session SET options = ?2 WHERE key = ?1", options).await
    }

    /// Stores whatever else the caller wants to know of a session.
    pub async fn set_meta(&self, id: &SessionId, meta: Raw) -> Result<()> {
        self.set(id, "UPDATE session SET meta = ?2 WHERE key = ?1", meta).await
    }

    async fn set(&self, id: &SessionId, sql: &'static str, value: Raw) -> Result<()> {
        self.change(id, move |db, key| {
            db.prepare_cached(sql)?.execute(params![key, value.get()])?;
            Ok(())
        })
        .await
    }

    async fn change<T: Send + 'static>(
        &self,
        id: &SessionId,
        work: impl Fn(&Connection, i64) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let id = id.clone();
        let work = move |db: &Connection| {
            let key = session::find(db, &id, session::key)?;
            let done = work(db, key)?;
            card::seal(db, key)?;
            Ok(done)
        };
        self.queue().write(0, work).await
    }

    /// Deletes a session and all that was said in it, also from the search and from the free space of the file. One that
    /// is open in another process is refused; one that is open here is deleted, and its log can't be written any more.
    pub async fn delete(&self, id: &SessionId) -> Result<()> {
        let id = id.clone();
        let work = move |db: &Connection| {
            let (key, held) = session::find(db, &id, |row| Ok((session::key(row)?, session::holder(row))))?;
            if let Some((token, holder)) = held
                && is_held(token, &holder)
                && !holder.is(&Holder::me())
            {
                return Err(Error::InUse { session: id.clone(), holder: Box::new(holder) });
            }
            erase(db, key)
        };
        self.queue().write(0, work).await?;
        self.queue().alone(tidy).await
    }

    /// Deletes what is older or more than wanted, with the old contents of the files that it changed. Says which sessions are gone.
    pub async fn retain(&self, keep: Retention) -> Result<Vec<SessionId>> {
        self.retain_at(keep, Time::now()).await
    }

    /// The same, as if it were another time.
    pub async fn retain_at(&self, keep: Retention, now: Time) -> Result<Vec<SessionId>> {
        let mut gone = Vec::new();
        loop {
            // A few at a time: others write in between.
            let store = self.clone();
            let work = move |db: &Connection| {
                let gone = retain(db, keep, now)?;
                // The old contents of files go first: if we end now, the session is still there, and goes next time.
                for id in &gone {
                    super::remove_undo(store.path(), id);
                }
                Ok(gone)
            };
            let some = self.queue().write(0, work).await?;
            let done = some.len() < RETAIN_STEP;
            gone.extend(some);
            if done {
                break;
            }
        }
        if !gone.is_empty() {
            self.queue().alone(tidy).await?;
        }
        Ok(gone)
    }

    /// Reads the whole store and says all that is wrong with it. Takes as long as the store is large.
    pub async fn integrity(&self) -> Result<Vec<String>> {
        self.read(|db| Ok(problems(db).unwrap_or_else(|error| vec![error.to_string()]))).await
    }
}

/// Deletes all rows of a session.
fn erase(db: &Connection, key: i64) -> Result<()> {
    for sql in [
        "INSERT INTO words (words, rowid, text) SELECT 'delete', id, text FROM passage WHERE session = ?1",
        "DELETE FROM passage WHERE session = ?1",
        "DELETE FROM event WHERE session = ?1",
        "DELETE FROM quarantine WHERE session = ?1",
        "DELETE FROM card WHERE session = ?1",
        "DELETE FROM session WHERE key = ?1",
    ] {
        db.prepare_cached(sql)?.execute([key])?;
    }
    Ok(())
}

/// Gives free pages back, and empties the journal, where deleted rows can still be read. Someone who reads at this moment
/// may be in the way; then the next one who writes does it.
fn tidy(db: &Connection) -> Result<()> {
    let free: i64 = db.query_row("PRAGMA freelist_count", [], |row| row.get(0))?;
    if free > FREE_PAGES {
        step(db, "PRAGMA incremental_vacuum")?;
    }
    db.busy_timeout(Duration::from_secs(1))?;
    let emptied = step(db, "PRAGMA wal_checkpoint(TRUNCATE)");
    db.busy_timeout(super::schema::LOCK_TIMEOUT)?;
    match emptied {
        Err(Error::Busy) => Ok(()),
        done => done,
    }
}

/// Brings the log into the file and empties it, if nobody is in the way: a log that stays can be damaged, and one that is cut off lays older
/// pages over newer ones. Without room on the disk it stays.
pub(super) fn settle(db: &Connection) {
    let settled =
        db.busy_timeout(Duration::ZERO).map_err(Error::from).and_then(|()| step(db, "PRAGMA wal_checkpoint(TRUNCATE)"));
    if let Err(error) = settled.and(db.busy_timeout(super::schema::LOCK_TIMEOUT).map_err(Error::from)) {
        tracing::debug!(%error, "the log of the store stays");
    }
}

/// Runs a pragma to its end.
fn step(db: &Connection, pragma: &str) -> Result<()> {
    let mut pragma = db.prepare(pragma)?;
    let mut rows = pragma.query([])?;
    while rows.next()?.is_some() {}
    Ok(())
}

fn retain(db: &Connection, keep: Retention, now: Time) -> Result<Vec<SessionId>> {
    let oldest = keep.max_age.map(|age| now.before(age));
    let mut count = 0;
    let mut gone = Vec::new();
    let mut find = db.prepare(&session::select("ORDER BY touched DESC"))?;
    let read = |row: &Row<'_>| Ok((session::key(row)?, session::read(row)?));
    for row in find.query_map([], read)?.collect::<rusqlite::Result<Vec<_>>>()? {
        let (key, session) = row;
        if keep.agent.is_some_and(|agent| agent != session.agent) {
            continue;
        }
        count += 1;
        let old = oldest.is_some_and(|oldest| session.updated < oldest);
        let many = keep.max_count.is_some_and(|most| count > most);
        if (old || many) && session.holder.is_none() {
            erase(db, key)?;
            gone.push(session.id);
            count -= 1;
            if gone.len() == RETAIN_STEP {
                break;
            }
        }
    }
    Ok(gone)
}

pub(super) fn problems(db: &Connection) -> Result<Vec<String>> {
    let mut check = db.prepare("PRAGMA integrity_check")?;
    let found = check.query_map([], |row| row.get::<_, String>(0))?;
    let mut problems: Vec<String> =
        found.collect::<rusqlite::Result<Vec<_>>>()?.into_iter().filter(|line| line != "ok").collect();
    let mut find = db.prepare("SELECT key, id, head, (SELECT max(seq) FROM event WHERE session = key) FROM session")?;
    let mut rows = find.query([])?;
    while let Some(row) = rows.next()? {
        let (key, id, head): (i64, _, i64) = (row.get(0)?, card::text(row, 1).unwrap_or_default(), row.get(2)?);
        let last: Option<i64> = row.get(3)?;
        let mut walk = Walk::new(key, last.unwrap_or(0).max(head));
        while !walk.page(db, |_| ())?.is_empty() {}
        problems.extend(walk.damage.map(|damage| format!("session {id}: {damage}")));
        if last.unwrap_or(0) > head {
            problems.push(format!("session {id}: there are events after its last one, {head}"));
        }
    }
    Ok(problems)
}
