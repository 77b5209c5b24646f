//! The rows behind an append: events, the head of the session, and later the text to be searched.

use super::event::{checksum, said, text_of};
use super::log::Hold;
use super::session::{self, holder};
use super::{Error, Event, Result, Time};
use rusqlite::{Connection, OptionalExtension, params};
use tieline_schema::SessionId;

/// How much text of one turn is searched.
const SEARCHED: usize = 256 << 10;

/// Where the log of a session stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Head {
    pub(super) seq: i64,
    pub(super) turn: i64,
    pub(super) running: bool,
    pub(super) bytes: i64,
}

impl Head {
    /// Goes on behind an event. The end of a turn is still in it.
    pub(super) fn step(&mut self, event: &Event, body: &str) {
        self.seq += 1;
        self.bytes += i64::try_from(body.len()).unwrap_or(i64::MAX);
        match event {
            Event::TurnBegin => (self.turn, self.running) = (self.turn + 1, true),
            Event::TurnEnd { .. } => self.running = false,
            _ => {}
        }
    }
}

/// Writes events with their bodies behind the last one, if the session is still ours. Gives the seq of the last.
pub(super) fn append(db: &Connection, hold: &Hold, events: &[(Event, String)]) -> Result<u64> {
    let mut head = check_lease(db, hold)?;
    let now = Time::now();
    for (event, body) in events {
        head = put(db, hold.key, head, now, event, body)?;
    }
    store_head(db, hold.key, head, now)?;
    // Only what a person says brings a session to the front, not what is noted or mended afterwards.
    if events.iter().any(|(event, _)| matches!(event, Event::TurnBegin)) {
        touch(db, hold.key)?;
    }
    Ok(head.seq.cast_unsigned())
}

/// Where the log stands, if the session is still ours. Every write to a log asks this first, in the same transaction.
pub(super) fn check_lease(db: &Connection, hold: &Hold) -> Result<Head> {
    let mut find = db.prepare_cached("SELECT head, turn, running, bytes FROM session WHERE key = ?1 AND token = ?2")?;
    let head = find.query_row(params![hold.key, hold.token.get()], |row| {
        Ok(Head { seq: row.get(0)?, turn: row.get(1)?, running: row.get(2)?, bytes: row.get(3)? })
    });
    head.optional()?.ok_or_else(|| lost(db, &hold.session))
}

/// Writes one event behind `head` and says where the log stands then. The caller stores that.
pub(super) fn put(db: &Connection, key: i64, mut head: Head, now: Time, event: &Event, body: &str) -> Result<Head> {
    head.step(event, body);
    let kind = event.kind();
    let crc = checksum(head.seq, head.turn, kind, body);
    db.prepare_cached(
        "INSERT INTO event (session, seq, turn, time, kind, body, crc) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?
    .execute(params![key, head.seq, head.turn, now.0, kind, body, crc])?;
    Ok(head)
}

/// Stores where the log stands.
pub(super) fn store_head(db: &Connection, key: i64, head: Head, now: Time) -> Result<()> {
    db.prepare_cached(
        "UPDATE session SET head = ?2, turn = ?3, running = ?4, bytes = ?5, updated = ?6 WHERE key = ?1",
    )?
    .execute(params![key, head.seq, head.turn, head.running, head.bytes, now.0])?;
    Ok(())
}

/// Puts a session at the front of the list.
fn touch(db: &Connection, key: i64) -> Result<()> {
    let last: (i64, i64) = db
        .prepare_cached("SELECT key, touched FROM session ORDER BY touched DESC LIMIT 1")?
        .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if last.0 != key {
        db.prepare_cached("UPDATE session SET touched = ?2 WHERE key = ?1")?
            .execute([key, last.1.saturating_add(1)])?;
    }
    Ok(())
}

/// Puts what was said in the turns that have ended into the search, a passage for each turn. Not part of the append: the
/// record must not fail because the search has no space. What is missing is made up for at the end of the next turn.
pub(super) fn index(db: &Connection, key: i64) -> Result<()> {
    let Some(start) = db
        .prepare_cached("SELECT indexed FROM session WHERE key = ?1")?
        .query_row([key], |row| row.get::<_, i64>(0))
        .optional()?
    else {
        return Ok(());
    };
    let mut find = db.prepare_cached(
        "SELECT seq, turn, kind, body FROM event WHERE session = ?1 AND seq > ?2 AND (kind IN ('prompt', 'turn_end')
         OR kind = 'update' AND substr(body, 1, 31) IN ('{\"sessionUpdate\":\"agent_message', '{\"sessionUpdate\":\"user_message\"',
         '{\"sessionUpdate\":\"user_message_', '{\"sessionUpdate\":\"tool_call_upd', '{\"sessionUpdate\":\"tool_call_con',
         '{\"sessionUpdate\":\"terminal_upda', '{\"sessionUpdate\":\"terminal_outp')) ORDER BY seq",
    )?;
    let mut rows = find.query([key, start])?;
    let (mut text, mut message, mut done) = (String::new(), None, start);
    while let Some(row) = rows.next()? {
        let part = |at| Ok::<_, Error>(row.get_ref(at)?.as_str().unwrap_or_default());
        let event = Event::read(part(2)?, part(3)?);
        take_said(&mut text, &mut message, &event);
        if matches!(event, Event::TurnEnd { .. }) {
            passage(db, key, row.get(1)?, &std::mem::take(&mut text))?;
            done = row.get(0)?;
        }
    }
    db.prepare_cached("UPDATE session SET indexed = ?2 WHERE key = ?1")?.execute([key, done])?;
    Ok(())
}

/// Adds what an event says to the text that is searched.
pub(super) fn take_said(text: &mut String, message: &mut Option<String>, event: &Event) {
    match event {
        Event::Prompt { content, .. } => say(text, message, None, &text_of(content)),
        Event::Update(update) => {
            if let Some((id, more)) = said(update) {
                say(text, message, Some(id.unwrap_or_default()), &more);
            }
        }
        _ => {}
    }
}

/// Adds to what was said. Each message begins on a line of its own.
fn say(text: &mut String, last: &mut Option<String>, id: Option<&str>, more: &str) {
    if last.as_deref() != id || id.is_none() {
        *last = id.map(str::to_owned);
        text.push('\n');
    }
    let space = SEARCHED.saturating_sub(text.len());
    text.push_str(&more[..more.floor_char_boundary(space)]);
}

fn passage(db: &Connection, key: i64, turn: i64, text: &str) -> Result<()> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(());
    }
    db.prepare_cached("INSERT INTO passage (session, turn, text) VALUES (?1, ?2, ?3)")?
        .execute(params![key, turn, text])?;
    db.prepare_cached("INSERT INTO words (rowid, text) VALUES (?1, ?2)")?
        .execute(params![db.last_insert_rowid(), text])?;
    Ok(())
}

/// Why a session is not ours (any more).
fn lost(db: &Connection, id: &SessionId) -> Error {
    let who = db
        .prepare_cached(&session::select("WHERE id = ?1"))
        .and_then(|mut find| find.query_row([id.as_str()], |row| Ok(holder(row).map(|(_, holder)| holder))).optional());
    match who {
        Ok(Some(holder)) => Error::Lost { session: id.clone(), holder: holder.map(Box::new) },
        Ok(None) => Error::NotFound(id.clone()),
        Err(error) => error.into(),
    }
}
