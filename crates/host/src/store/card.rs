//! The card of each session: a second copy of what is known of it, on other pages than its row, with a checksum; and what is looked at
//! whenever a store is opened, so that damage is mended before a run depends on it.

use super::append::{self, Head};
use super::event::checksum;
use super::session::{self, NewSession};
use super::{Error, Event, Result, Time, replay};
use rusqlite::{Connection, OptionalExtension as _, Row, Transaction, TransactionBehavior, params};
use tieline_schema::StopReason;

/// What stands on a card: that of the row which does not change with each event. Casts, for damage changes types as well.
const BODY: &str = "json_array(CAST(id AS TEXT), CAST(agent AS TEXT), CAST(cwd AS TEXT), CAST(directories AS TEXT),
    CAST(title AS TEXT), CAST(named AS INTEGER), CAST(created AS INTEGER), CAST(options AS TEXT), CAST(meta AS TEXT))";
/// What the row of a session that nothing is known of says.
const LOST: &str =
    "json_array('lost-' || ?1, 'unknown', '/', '[]', 'all that is left of a session', 0, min(time), NULL, NULL)";
/// How much is written to see whether it can be: about two pages.
const TRIAL_WORDS: usize = 1500;
/// No store has had so many sessions.
const MAX_KEY: i64 = 1 << 48;

/// Text that may be damaged.
pub(super) fn text(row: &Row<'_>, at: usize) -> Option<String> {
    row.get_ref(at).ok()?.as_bytes().ok().map(|bytes| String::from_utf8_lossy(bytes).into_owned())
}

fn sum(key: i64, body: &str) -> u32 {
    checksum(key, 0, "card", body)
}

/// Writes the card of a session anew. To be called in each transaction that changes what stands on it.
pub(super) fn seal(db: &Connection, key: i64) -> Result<()> {
    let sql = format!("SELECT {BODY} FROM session WHERE key = ?1");
    let body: String = db.prepare_cached(&sql)?.query_row([key], |row| row.get(0))?;
    let sql = "INSERT OR REPLACE INTO card (session, body, crc) VALUES (?1, ?2, ?3)";
    db.prepare_cached(sql)?.execute(params![key, body, sum(key, &body)])?;
    Ok(())
}

/// Who says what is known of a session.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// Its card, which is whole.
    Card,
    /// Its row, for there is no card that is.
    Row,
    /// Nobody: only its events are left.
    Nobody,
}

/// All that is known of a session, as its card would have it.
pub(super) fn best(db: &Connection, key: i64) -> Option<(String, Source)> {
    let card = db.prepare_cached("SELECT body, crc FROM card WHERE session = ?1").and_then(|mut find| {
        find.query_row([key], |row| Ok((row.get::<_, String>(0)?, row.get::<_, u32>(1)?))).optional()
    });
    if let Ok(Some((body, crc))) = card
        && crc == sum(key, &body)
    {
        return Some((body, Source::Card));
    }
    let read = |sql: &str| db.prepare_cached(sql).and_then(|mut find| find.query_row([key], |row| Ok(text(row, 0))));
    let row = read(&format!("SELECT {BODY} FROM session NOT INDEXED WHERE key = ?1"));
    if let Ok(Some(body)) = row {
        return Some((body, Source::Row));
    }
    let events = read(&format!("SELECT {LOST} FROM event NOT INDEXED WHERE +session = ?1 HAVING count(*) > 0"));
    Some((events.ok()??, Source::Nobody))
}

/// The id on a card.
pub(super) fn id(body: &str) -> String {
    serde_json::from_str::<Vec<serde_json::Value>>(body)
        .ok()
        .and_then(|fields| Some(fields.first()?.as_str()?.to_owned()))
        .unwrap_or_default()
}

/// Makes the row of a session as its card says, or changes one that is there.
pub(super) fn restore(db: &Connection, key: i64, body: &str) -> Result<()> {
    let text = |at: usize| format!("CAST(json_extract(?2, '$[{at}]') AS TEXT)");
    let number = |at: usize| format!("coalesce(CAST(json_extract(?2, '$[{at}]') AS INTEGER), 0)");
    let whole = |at: usize| format!("coalesce({}, '')", text(at));
    db.execute(
        &format!(
            "INSERT INTO session (key, id, agent, cwd, directories, title, named, created, options, meta, updated, touched, head,
                turn, bytes)
             SELECT ?1, {}, {}, {}, {}, {}, {}, {}, {}, {}, coalesce(max(time), {}),
                (SELECT coalesce(max(touched), 0) + 1 FROM session), coalesce(max(seq), 0), coalesce(max(turn), 0),
                coalesce(sum(length(body)), 0) FROM event WHERE session = ?1
             ON CONFLICT (key) DO UPDATE SET id = excluded.id, agent = excluded.agent, cwd = excluded.cwd,
                directories = excluded.directories, title = excluded.title, named = excluded.named, created = excluded.created,
                options = excluded.options, meta = excluded.meta",
            whole(0), whole(1), whole(2), whole(3), text(4), number(5), number(6), text(7), text(8), number(6)
        ),
        params![key, body],
    )?;
    seal(db, key)
}

/// Looks at what every run depends on, and mends what it can; says what was damaged. What it can't mend is an error, for which there is
/// [`repair`](super::repair).
pub(super) fn inspect(db: &Connection) -> Result<Vec<String>> {
    let work = Transaction::new_unchecked(db, TransactionBehavior::Immediate)?;
    let looked = mend(&work).and_then(|told| {
        try_out(&work)?;
        Ok(told)
    });
    match looked {
        Ok(told) => {
            work.commit()?;
            Ok(told)
        }
        Err(Error::Failed(why)) => Err(Error::Damaged(why)),
        Err(error) => Err(error),
    }
}

/// Brings rows and cards together again.
fn mend(db: &Connection) -> Result<Vec<String>> {
    let mut find = db.prepare("PRAGMA integrity_check(session)")?;
    let wrong = find.query_map([], |row| row.get::<_, String>(0))?.find(|line| line.as_deref() != Ok("ok"));
    if let Some(line) = wrong {
        return Err(Error::Damaged(line?));
    }
    let mut find = db.prepare(&format!(
        "SELECT key FROM session NOT INDEXED LEFT JOIN card ON card.session = key WHERE card.body IS NOT {BODY}
         UNION SELECT session FROM card WHERE session NOT IN (SELECT key FROM session)"
    ))?;
    let mut told = Vec::new();
    for key in find.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<Vec<i64>>>()? {
        match best(db, key) {
            Some((body, Source::Card)) => {
                restore(db, key, &body)?;
                told.push(format!("session {}: what is known of it was damaged, and is as it was again", id(&body)));
            }
            Some((body, source)) => {
                if source == Source::Row && !body.contains(char::REPLACEMENT_CHARACTER) {
                    seal(db, key)?;
                } else {
                    restore(db, key, &body)?;
                    let words = "its name, its folder or its agent can't be read any more";
                    replay::note_lost(db, key, 0, words)?;
                    told.push(format!("session {}: {words}", id(&body)));
                }
            }
            None => drop(db.execute("DELETE FROM card WHERE session = ?1", [key])?),
        }
    }
    Ok(told)
}

/// Writes all that a turn writes, and takes it back: a run whose first event can't be stored should know before it begins.
fn try_out(db: &Connection) -> Result<()> {
    let last: Option<i64> = db.query_row("SELECT max(seq) FROM sqlite_sequence", [], |row| row.get(0))?;
    if last.is_some_and(|last| last > MAX_KEY) {
        return Err(Error::Damaged("the number of its sessions makes no sense".into()));
    }
    db.execute_batch("SAVEPOINT trial")?;
    let (key, _) = session::create(db, &NewSession::default())?;
    let (mut head, now) = (Head::default(), Time::now());
    let end = Event::TurnEnd { stop: StopReason::EndTurn, interrupted: false };
    // So long that it takes pages of its own, which come from among those that are free.
    let prompt = Event::prompt("trial ".repeat(TRIAL_WORDS));
    for (event, body) in [Event::TurnBegin, prompt, end].map(Event::with_body) {
        head = append::put(db, key, head, now, &event, &body)?;
    }
    append::store_head(db, key, head, now)?;
    append::index(db, key)?;
    replay::note_lost(db, key, 0, "")?;
    Ok(db.execute_batch("ROLLBACK TO trial; RELEASE trial")?)
}
