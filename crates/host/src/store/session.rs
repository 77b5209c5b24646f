//! What is known of a session as a whole.

use super::lease::Token;
use super::{Error, Holder, Result, Time, card};
use rusqlite::{Connection, OptionalExtension, Row};
use tieline_schema::{Dialect, Raw, SessionId, from_json, to_json};

/// A session to be made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewSession {
    /// Its id; made up if there is none.
    pub id: Option<SessionId>,
    /// The agent it belongs to.
    pub agent: String,
    /// The directory it works in.
    pub cwd: String,
    /// Its other root directories.
    pub directories: Vec<String>,
    /// What it is about.
    pub title: Option<String>,
    /// The options that were chosen, in the form of whoever writes them.
    pub options: Option<Raw>,
    /// Anything else, in the form of whoever writes it.
    pub meta: Option<Raw>,
}

/// A session as the store knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Its id.
    pub id: SessionId,
    /// The agent it belongs to.
    pub agent: String,
    /// The directory it works in.
    pub cwd: String,
    /// Its other root directories.
    pub directories: Vec<String>,
    /// What it is about.
    pub title: Option<String>,
    /// True if the user chose the title. Then no agent changes it.
    pub named: bool,
    /// When it was made.
    pub created: Time,
    /// When something last happened in it.
    pub updated: Time,
    /// What it is doing.
    pub state: State,
    /// The options that were chosen.
    pub options: Option<Raw>,
    /// Anything else.
    pub meta: Option<Raw>,
    /// How many events it has. The last one has this seq.
    pub events: u64,
    /// How many turns it has.
    pub turns: u64,
    /// How many bytes its events take.
    pub bytes: u64,
    /// Who has it open, if someone has.
    pub holder: Option<Holder>,
}

impl Session {
    /// The title, if the user chose it.
    pub fn name(&self) -> Option<&str> {
        self.title.as_deref().filter(|_| self.named)
    }
}

/// What a session is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// Nothing.
    Idle,
    /// A turn is under way.
    Running,
    /// A turn was under way when its process ended. It is closed when the session is next opened.
    Interrupted,
}

pub(super) fn select(rest: &str) -> String {
    format!(
        "SELECT id, agent, cwd, directories, title, named, created, updated, running, options, meta, head, turn, bytes,
         token, pid, start, host, boot, space, since, key, touched FROM session {rest}"
    )
}

const TOKEN: usize = 14;
const KEY: usize = 21;
pub(super) const TOUCHED: usize = 22;

/// A row of [`select`]. What is damaged in it costs itself, not the row.
pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Session> {
    let text = |at| card::text(row, at);
    let raw = |at| text(at).and_then(|text| Raw::new(text).ok());
    let number = |at| row.get::<_, i64>(at).unwrap_or(0);
    let count = |at| number(at).max(0).cast_unsigned();
    let holder = holder(row).filter(|(token, holder)| is_held(*token, holder)).map(|(_, holder)| holder);
    Ok(Session {
        id: text(0).unwrap_or_default().into(),
        agent: text(1).unwrap_or_default(),
        cwd: text(2).unwrap_or_default(),
        directories: text(3).and_then(|text| from_json(&text).ok()).unwrap_or_default(),
        title: text(4),
        named: number(5) != 0,
        created: Time(number(6)),
        updated: Time(number(7)),
        state: match (number(8) != 0, &holder) {
            (false, _) => State::Idle,
            (true, Some(_)) => State::Running,
            (true, None) => State::Interrupted,
        },
        options: raw(9),
        meta: raw(10),
        events: count(11),
        turns: count(12),
        bytes: count(13),
        holder,
    })
}

pub(super) fn key(row: &Row<'_>) -> rusqlite::Result<i64> {
    row.get(KEY)
}

/// The lease in a row of [`select`], whether its process lives or not.
pub(super) fn holder(row: &Row<'_>) -> Option<(i64, Holder)> {
    // One that is damaged is nobody's: who has it loses it, and is told.
    let holder = Holder {
        pid: row.get(TOKEN + 1).ok()?,
        start: row.get::<_, i64>(TOKEN + 2).ok()?.cast_unsigned(),
        host: row.get(TOKEN + 3).ok()?,
        boot: row.get(TOKEN + 4).ok()?,
        space: row.get(TOKEN + 5).ok()?,
        since: Time(row.get(TOKEN + 6).ok()?),
    };
    Some((row.get(TOKEN).ok()?, holder))
}

/// True unless the lease was surely left over.
pub(super) fn is_held(token: i64, holder: &Holder) -> bool {
    if holder.is(&Holder::me()) { Token::is_live(token) } else { holder.may_live() }
}

/// The row of a session. An index that is damaged is done without.
pub(super) fn find<T>(db: &Connection, id: &SessionId, read: impl Fn(&Row<'_>) -> rusqlite::Result<T>) -> Result<T> {
    let look = |rest| db.prepare_cached(&select(rest))?.query_row([id.as_str()], &read).optional().map_err(Error::from);
    let found = match look("WHERE id = ?1") {
        Err(Error::Damaged(_)) => look("NOT INDEXED WHERE id = ?1"),
        found => found,
    };
    found?.ok_or_else(|| Error::NotFound(id.clone()))
}

/// Makes a session. Gives its key and its id.
pub(super) fn create(db: &Connection, new: &NewSession) -> Result<(i64, SessionId)> {
    let id = match &new.id {
        Some(id) => id.clone(),
        None => db.query_row("SELECT 'tl-' || lower(hex(randomblob(12)))", [], |row| row.get::<_, String>(0))?.into(),
    };
    let known = db.prepare_cached("SELECT 1 FROM session WHERE id = ?1")?.exists([id.as_str()])?;
    if known {
        return Err(Error::Exists(id));
    }
    let now = Time::now().0;
    db.prepare_cached(
        "INSERT INTO session (id, agent, cwd, directories, title, created, updated, touched, options, meta)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6, (SELECT coalesce(max(touched), 0) + 1 FROM session), ?7, ?8)",
    )?
    .execute(rusqlite::params![
        id.as_str(),
        new.agent,
        new.cwd,
        to_json(&new.directories, Dialect::V2),
        new.title,
        now,
        new.options.as_ref().map(Raw::get),
        new.meta.as_ref().map(Raw::get),
    ])?;
    let key = db.last_insert_rowid();
    card::seal(db, key)?;
    Ok((key, id))
}
