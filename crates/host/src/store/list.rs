//! Finding sessions: the list, newest first, and the search in what was said.

use super::session::{self, Session, TOUCHED};
use super::{Error, Result, Store};
use rusqlite::{Connection, OptionalExtension, named_params};
use tieline_schema::SessionId;

/// Which sessions to list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListQuery {
    /// Only those of this directory, compared exactly.
    pub cwd: Option<String>,
    /// Only those of this agent.
    pub agent: Option<String>,
    /// Only those that had a turn.
    pub begun: bool,
    /// Where the last page ended.
    pub cursor: Option<String>,
    /// How many at most; 0 stands for 50.
    pub limit: usize,
}

/// A page of sessions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Page {
    /// The sessions. The one used last comes first.
    pub sessions: Vec<Session>,
    /// Where the next page begins; `None` on the last one.
    pub next: Option<String>,
}

/// A place where a text was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    /// The session.
    pub session: Session,
    /// The turn; 0 if it is in the title.
    pub turn: u64,
    /// The text around it, as it was said: not safe to show on a terminal as it is.
    pub snippet: String,
}

pub(super) const DEFAULT_LIMIT: usize = 50;
pub(super) const MAX_LIMIT: usize = 1000;

impl Store {
    /// A page of sessions. A cursor stays good whatever happens to sessions meanwhile: none comes twice, and each one that
    /// is left alone comes once. One that is used moves to the front, before the pages that are still to come.
    pub async fn list(&self, query: ListQuery) -> Result<Page> {
        self.read(move |db| list(db, &query)).await
    }

    /// What is known of a session.
    pub async fn session(&self, id: &SessionId) -> Result<Session> {
        let id = id.clone();
        self.read(move |db| session::find(db, &id, session::read)).await
    }

    /// Sessions that `text` may mean: the one with this id; or else those that the user gave this name; or else those whose
    /// id begins or ends so. Those of the directory `here` come first, then those used last.
    pub async fn matching(&self, text: &str, here: &str, limit: usize) -> Result<Vec<Session>> {
        let (text, here) = (text.to_owned(), here.to_owned());
        self.read(move |db| matching(db, &text, &here, limit.clamp(1, MAX_LIMIT))).await
    }

    /// Sessions in which an event of this kind happened, of the directory `cwd` if it is given; the one where it happened last
    /// comes first.
    pub async fn with_event(&self, kind: &str, cwd: Option<&str>, limit: usize) -> Result<Vec<Session>> {
        let (kind, cwd) = (kind.to_owned(), cwd.map(str::to_owned));
        self.read(move |db| with_event(db, &kind, cwd.as_deref(), limit.clamp(1, MAX_LIMIT))).await
    }

    /// Sessions in whose title or turns all words of `text` are found, the last one as a beginning; the best first.
    /// If no words are, the text itself is looked for. What is said in a turn can be found when the turn has ended.
    pub async fn search(&self, text: &str, limit: usize) -> Result<Vec<Hit>> {
        let text = text.trim().to_owned();
        // What was said just now may still be on its way.
        self.queue().alone(|_| Ok(())).await?;
        self.read(move |db| search(db, &text, limit.clamp(1, MAX_LIMIT))).await
    }
}

/// The place in the order of sessions that a cursor stands for.
pub(super) fn cursor(cursor: Option<&str>) -> Result<i64> {
    let Some(cursor) = cursor else { return Ok(i64::MAX) };
    let number = cursor.strip_prefix('c').and_then(|number| number.parse().ok());
    number.filter(|number| *number > 0).ok_or(Error::Cursor)
}

fn list(db: &Connection, query: &ListQuery) -> Result<Page> {
    let before = cursor(query.cursor.as_deref())?;
    let limit = if query.limit == 0 { DEFAULT_LIMIT } else { query.limit.min(MAX_LIMIT) };
    let cwd = if query.cwd.is_some() { "AND cwd = :cwd" } else { "AND :cwd IS NULL" };
    let rest = format!(
        "WHERE touched < :before {cwd} AND (:agent IS NULL OR agent = :agent) AND turn >= :turns ORDER BY touched DESC LIMIT :limit"
    );
    let mut find = db.prepare_cached(&session::select(&rest))?;
    let params = named_params! {
        ":before": before, ":cwd": query.cwd, ":agent": query.agent, ":turns": i64::from(query.begun), ":limit": i64::try_from(limit + 1).unwrap_or(i64::MAX),
    };
    let mut rows = find.query(params)?;
    let mut page = Page::default();
    let mut last = 0;
    while let Some(row) = rows.next()? {
        if page.sessions.len() == limit {
            page.next = Some(format!("c{last}"));
            break;
        }
        last = row.get(TOUCHED)?;
        page.sessions.push(session::read(row)?);
    }
    Ok(page)
}

fn matching(db: &Connection, text: &str, here: &str, limit: usize) -> Result<Vec<Session>> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    for condition in
        ["id = ?1", "named AND title = ?1", "substr(id, 1, length(?1)) = ?1 OR substr(id, -length(?1)) = ?1"]
    {
        let rest = format!("WHERE {condition} ORDER BY cwd = ?2 DESC, touched DESC LIMIT ?3");
        let params = rusqlite::params![text, here, i64::try_from(limit).unwrap_or(i64::MAX)];
        let found = sessions(db, &rest, params)?;
        if !found.is_empty() {
            return Ok(found);
        }
    }
    Ok(Vec::new())
}

fn with_event(db: &Connection, kind: &str, cwd: Option<&str>, limit: usize) -> Result<Vec<Session>> {
    let cwd_fits = if cwd.is_some() { "cwd = ?2" } else { "?2 IS NULL" };
    let last = "(SELECT max(id) FROM event WHERE event.session = session.key AND kind = ?1)";
    let rest = format!("WHERE {cwd_fits} AND {last} IS NOT NULL ORDER BY {last} DESC LIMIT ?3");
    sessions(db, &rest, rusqlite::params![kind, cwd, i64::try_from(limit).unwrap_or(i64::MAX)])
}

fn sessions(db: &Connection, rest: &str, params: impl rusqlite::Params) -> Result<Vec<Session>> {
    let mut find = db.prepare_cached(&session::select(rest))?;
    let rows = find.query_map(params, session::read)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

fn search(db: &Connection, text: &str, limit: usize) -> Result<Vec<Hit>> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let count = i64::try_from(limit).unwrap_or(i64::MAX);
    let like = format!("%{}%", text.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_"));
    let titles = "SELECT key, 0, title FROM session WHERE title LIKE ?1 ESCAPE '\\' ORDER BY touched DESC LIMIT ?2";
    let words = "SELECT passage.session, passage.turn, snippet(words, 0, '', '', '…', 24) FROM words
         JOIN passage ON passage.id = words.rowid WHERE words MATCH ?1 ORDER BY rank LIMIT ?2";
    // Some scripts have no spaces between words, and some words are searched by their middle.
    let parts = "SELECT session, turn, text FROM passage WHERE text LIKE ?1 ESCAPE '\\' ORDER BY id DESC LIMIT ?2";
    let mut found = collect(db, words, &phrase(text), count, str::to_owned)?;
    if found.is_empty() {
        found = collect(db, parts, &like, count, |whole| around(whole, text))?;
    }
    let mut hits = collect(db, titles, &like, count, str::to_owned)?;
    // A title is mostly made of the first words: where these are found, it says nothing more.
    hits.retain(|title| found.iter().all(|hit| hit.session.id != title.session.id));
    hits.append(&mut found);
    hits.truncate(limit);
    Ok(hits)
}

fn collect(db: &Connection, sql: &str, text: &str, count: i64, cut: impl Fn(&str) -> String) -> Result<Vec<Hit>> {
    let mut find = db.prepare_cached(sql)?;
    let mut rows = find.query(rusqlite::params![text, count])?;
    let mut session = db.prepare_cached(&session::select("WHERE key = ?1"))?;
    let mut hits = Vec::new();
    while let Some(row) = rows.next()? {
        let key: i64 = row.get(0)?;
        let Some(session) = session.query_row([key], session::read).optional()? else { continue };
        let snippet = cut(&row.get::<_, String>(2)?);
        hits.push(Hit { session, turn: row.get::<_, i64>(1)?.cast_unsigned(), snippet });
    }
    Ok(hits)
}

/// All words, quoted, so that nothing in them is taken for an operator.
fn phrase(text: &str) -> String {
    let words: Vec<String> = text.split_whitespace().map(|word| format!("\"{}\"", word.replace('"', "\"\""))).collect();
    words.join(" ") + "*"
}

/// Some text around the first place where `part` is.
pub(super) fn around(whole: &str, part: &str) -> String {
    const SIDE: usize = 60;
    let at = whole.find(part).unwrap_or(0);
    let start = whole[..at].char_indices().rev().nth(SIDE - 1).map_or(0, |(at, _)| at);
    let end = whole[at..].char_indices().nth(part.chars().count() + SIDE).map_or(whole.len(), |(end, _)| at + end);
    let mark = |is: bool| if is { "…" } else { "" };
    format!("{}{}{}", mark(start > 0), &whole[start..end], mark(end < whole.len()))
}
