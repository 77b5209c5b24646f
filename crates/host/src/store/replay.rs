//! Reading a session back: event by event, as far as it is whole.

use super::event::checksum;
use super::{Error, Event, Result, Store, Stored, Time};
use rusqlite::{Connection, Row};
use tieline_schema::SessionId;

/// How much is read at once: rows, and bytes.
const PAGE: (i64, usize) = (512, 1 << 20);

/// What could not be read any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The last event that is whole. All before it are whole, too.
    pub good: u64,
    /// How many events come after it, as far as that is known.
    pub lost: u64,
    /// What is wrong with the first of them.
    pub why: String,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} events after the first {} can't be read: {}", self.lost, self.good, self.why)
    }
}

/// The events of a session, page by page. Made by [`Store::load`].
#[derive(Debug)]
pub struct Replay {
    store: Store,
    session: SessionId,
    /// Behind which event it begins.
    after: u64,
    /// Absent before the first page.
    walk: Option<Walk>,
}

impl Replay {
    pub(super) fn new(store: Store, session: SessionId) -> Self {
        Self { store, session, after: 0, walk: None }
    }

    /// The same, but only what comes behind this event.
    #[must_use]
    pub fn after(mut self, seq: u64) -> Self {
        self.after = seq;
        self
    }

    /// The next events, in order; `None` after the last. Events that are stored after the first call don't come.
    pub async fn next(&mut self) -> Result<Option<Vec<Stored>>> {
        let mut walk = self.walk.take();
        let (session, after) = (self.session.clone(), self.after);
        let (walk, page) = self
            .store
            .read(move |db| {
                let mut walk = match walk.take() {
                    Some(walk) => walk,
                    None => Walk::begin(db, &session, after)?,
                };
                let page = walk.page(db, decode)?;
                if walk.damage.is_some() {
                    // One that was deleted meanwhile is not damaged.
                    super::session::find(db, &session, super::session::key)?;
                }
                Ok((walk, page))
            })
            .await?;
        self.walk = Some(walk);
        Ok(if page.is_empty() { None } else { Some(page) })
    }

    /// All events that are left.
    pub async fn all(&mut self) -> Result<Vec<Stored>> {
        let mut all = Vec::new();
        while let Some(page) = self.next().await? {
            all.extend(page);
        }
        Ok(all)
    }

    /// What can't be read, once the events before it have come.
    pub fn damage(&self) -> Option<&Damage> {
        self.walk.as_ref()?.damage.as_ref()
    }
}

/// The parts of a row.
pub(super) struct Parts<'a> {
    pub(super) seq: i64,
    pub(super) turn: i64,
    pub(super) time: Time,
    pub(super) kind: &'a str,
    pub(super) body: &'a str,
}

/// Reads the event of a row.
pub(super) fn decode(parts: &Parts<'_>) -> Stored {
    let event = Event::read(parts.kind, parts.body);
    Stored { seq: parts.seq.cast_unsigned(), turn: parts.turn.cast_unsigned(), time: parts.time, event }
}

/// A way through the events of a session that stops at the first bad one.
#[derive(Debug)]
pub(super) struct Walk {
    key: i64,
    /// The last event that was read.
    seq: i64,
    id: i64,
    /// Where the session ends.
    upto: i64,
    /// False once the index turned out to be damaged: then the table itself is read.
    indexed: bool,
    done: bool,
    pub(super) damage: Option<Damage>,
}

impl Walk {
    fn begin(db: &Connection, session: &SessionId, after: u64) -> Result<Self> {
        let (key, head) = super::session::find(db, session, |row| {
            Ok((super::session::key(row)?, super::session::read(row)?.events.cast_signed()))
        })?;
        let upto = last(db, key).max(head);
        Ok(Self { seq: i64::try_from(after).unwrap_or(i64::MAX), ..Self::new(key, upto) })
    }

    pub(super) fn new(key: i64, upto: i64) -> Self {
        Self { key, seq: 0, id: 0, upto, indexed: true, done: false, damage: None }
    }

    /// Some more events; none after the last one that is whole.
    pub(super) fn page<T>(&mut self, db: &Connection, read: impl Fn(&Parts<'_>) -> T) -> Result<Vec<T>> {
        let mut page = Vec::new();
        while page.is_empty() && !self.done {
            match self.fill(db, &read, &mut page) {
                Ok(None) => {}
                Ok(Some(why)) | Err(Error::Damaged(why)) => self.stumble(why),
                Err(error) => return Err(error),
            }
        }
        Ok(page)
    }

    /// Tries the table instead of its index, and then gives up.
    fn stumble(&mut self, why: String) {
        if self.indexed {
            self.indexed = false;
            return;
        }
        self.done = true;
        let (good, lost) = (self.seq.cast_unsigned(), self.upto.saturating_sub(self.seq).max(0).cast_unsigned());
        self.damage = Some(Damage { good, lost, why });
    }

    fn fill<T>(
        &mut self,
        db: &Connection,
        read: &impl Fn(&Parts<'_>) -> T,
        page: &mut Vec<T>,
    ) -> Result<Option<String>> {
        let (after, sql) = if self.indexed {
            (
                self.seq,
                "SELECT id, seq, turn, time, kind, body, crc FROM event WHERE session = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3",
            )
        } else {
            // Rows of a session are stored in the order of their seq.
            (
                self.id,
                "SELECT id, seq, turn, time, kind, body, crc FROM event NOT INDEXED WHERE +session = ?1 AND id > ?2 ORDER BY id LIMIT ?3",
            )
        };
        let mut find = db.prepare_cached(sql)?;
        let mut rows = find.query([self.key, after, PAGE.0])?;
        let mut bytes = 0;
        let mut count = 0;
        while self.seq < self.upto && bytes < PAGE.1 {
            let Some(row) = rows.next()? else { break };
            count += 1;
            let id: i64 = row.get(0)?;
            match check(row, self.seq + 1) {
                Ok(parts) => {
                    page.push(read(&parts));
                    bytes += parts.body.len();
                }
                Err(why) => return Ok(Some(why)),
            }
            (self.seq, self.id) = (self.seq + 1, id);
        }
        if self.seq >= self.upto {
            self.done = true;
        } else if count < PAGE.0 && bytes < PAGE.1 {
            return Ok(Some(format!("event {} is missing", self.seq + 1)));
        }
        Ok(None)
    }
}

/// The number of the last event of a session: its rows know better than their count. 0 if they can't be asked.
pub(super) fn last(db: &Connection, key: i64) -> i64 {
    let find = db.prepare_cached("SELECT max(seq) FROM event WHERE session = ?1");
    let last = find.and_then(|mut find| find.query_row([key], |row| row.get::<_, Option<i64>>(0)));
    last.ok().flatten().unwrap_or(0)
}

/// One event of a session, if it is whole; for what comes behind a damaged one.
pub(super) fn one(db: &Connection, key: i64, seq: i64) -> Option<Stored> {
    let sql = "SELECT id, seq, turn, time, kind, body, crc FROM event WHERE session = ?1 AND seq = ?2";
    let mut find = db.prepare_cached(sql).ok()?;
    let mut rows = find.query([key, seq]).ok()?;
    Some(decode(&check(rows.next().ok()??, seq).ok()?))
}

/// A row that is whole and has the seq that it should have.
fn check<'a>(row: &'a Row<'_>, want: i64) -> std::result::Result<Parts<'a>, String> {
    let parts = || {
        let text = |at| row.get_ref(at)?.as_str().map_err(rusqlite::Error::from);
        let parts =
            Parts { seq: row.get(1)?, turn: row.get(2)?, time: Time(row.get(3)?), kind: text(4)?, body: text(5)? };
        Ok::<_, rusqlite::Error>((parts, row.get::<_, u32>(6)?))
    };
    let (parts, crc) = parts().map_err(|error| format!("event {want}: {error}"))?;
    if parts.seq != want {
        return Err(format!("event {want} is missing"));
    }
    if crc != checksum(parts.seq, parts.turn, parts.kind, parts.body) {
        return Err(format!("event {want} does not match its checksum"));
    }
    Ok(parts)
}

/// What an entry among what was set aside is called that says, in words, what is lost.
const LOST: &str = "lost";
/// So many of them are told.
const MAX_TOLD: usize = 5;

/// Notes what is lost of a session, for all who open it from now on.
pub(super) fn note_lost(db: &Connection, key: i64, seq: i64, words: &str) -> Result<()> {
    let sql = "INSERT INTO quarantine (session, seq, turn, time, kind, body, crc) VALUES (?1, ?2, 0, ?3, ?4, ?5, 0)";
    db.execute(sql, rusqlite::params![key, seq, Time::now().0, LOST, words])?;
    Ok(())
}

/// What is known to be lost of a session, in words.
pub(super) fn lost(db: &Connection, key: i64) -> Result<Vec<String>> {
    let mut find = db.prepare_cached("SELECT body FROM quarantine WHERE session = ?1 AND kind = ?2 ORDER BY time")?;
    let told = find.query_map(rusqlite::params![key, LOST], |row| row.get(0))?;
    Ok(told.collect::<rusqlite::Result<_>>()?)
}

impl Store {
    /// What is lost of a session because the file was damaged once, in words. Needs no lease.
    pub async fn lost(&self, id: &SessionId) -> Result<Option<String>> {
        let id = id.clone();
        let told = self.read(move |db| lost(db, super::session::find(db, &id, super::session::key)?)).await?;
        let more = told.len().saturating_sub(MAX_TOLD);
        let told: Vec<String> = told.into_iter().take(MAX_TOLD).collect();
        let more = if more > 0 { format!("; and {more} times more") } else { String::new() };
        Ok((!told.is_empty()).then(|| told.join("; ") + &more))
    }
}
