//! The way out of a damaged file: what can still be read is copied into a new one.

use super::append::{self, Head};
use super::card::{self, Source};
use super::replay::{self, Walk, decode, one};
use super::{Error, Event, Result, Stored, Time, keep, pages, place, schema, wal};
use rusqlite::{Connection, TransactionBehavior};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What was saved from a damaged store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Salvaged {
    /// Sessions that were copied, whole or in part.
    pub sessions: u64,
    /// Sessions of which something is missing.
    pub cut: u64,
    /// Events that were copied.
    pub events: u64,
    /// Events that are known to be lost.
    pub lost: u64,
    /// What is missing of each session, in words.
    pub gaps: Vec<String>,
}

/// Puts a salvaged copy in the place of a damaged store. The old file stays beside it, under the name that comes back.
/// To be called when [`Store::open`](super::Store::open) says that the file is damaged, and no process has it open.
pub fn recover(path: &Path) -> Result<(Salvaged, PathBuf)> {
    let path = &place::real(path);
    let _lock = place::lock(path)?;
    recover_alone(path)
}

fn recover_alone(path: &Path) -> Result<(Salvaged, PathBuf)> {
    let failed = |error: std::io::Error| Error::open(path, error);
    let new = place::beside(path, ".salvaged");
    // What an earlier attempt left, when it was cut short.
    clean(&new)?;
    // A copy is looked at page by page: what is in the file may be whole, and only its head or what leads to it is not.
    let old = with_head(path).map_err(failed)?;
    let (mut saved, by_pages) = (salvage(path, &new), place::beside(path, ".pages"));
    let others = [Ok(old.clone()), pages::collect(&old, &by_pages).map(|()| by_pages.clone())];
    let tried = place::beside(path, ".tried");
    for other in others.into_iter().flatten() {
        let found = clean(&tried).and_then(|()| salvage(&other, &tried));
        let count = |saved: &Result<Salvaged>| saved.as_ref().map_or((0, 0), |saved| (saved.events, saved.sessions));
        let is_fatal = matches!(&saved, Err(error) if !matches!(error, Error::Damaged(_) | Error::Failed(_)));
        if !is_fatal && count(&found) > count(&saved) {
            clean(&new)?;
            std::fs::rename(&tried, &new).map_err(failed)?;
            saved = found;
        }
    }
    for left in [&old, &by_pages, &tried] {
        clean(left)?;
        let _ = std::fs::remove_file(place::beside(left, ".lock"));
    }
    let saved = saved?;
    let _ = std::fs::remove_file(place::beside(&new, ".lock"));
    let aside = set_aside(path).map_err(failed)?;
    std::fs::rename(&new, path).map_err(failed)?;
    Ok((saved, aside))
}

fn clean(path: &Path) -> Result<()> {
    for end in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(place::beside(path, end));
    }
    Ok(())
}

/// A copy of a damaged store whose head is as every store's is.
fn with_head(path: &Path) -> std::io::Result<PathBuf> {
    use std::os::unix::fs::FileExt as _;
    let copy = place::beside(path, ".head");
    std::fs::copy(path, &copy)?;
    let _ = std::fs::copy(place::beside(path, "-wal"), place::beside(&copy, "-wal"));
    let file = std::fs::OpenOptions::new().write(true).open(&copy)?;
    let pages = u32::try_from(file.metadata()?.len() / schema::PAGE_BYTES).unwrap_or(u32::MAX);
    // The name of the format, pages of 4096 bytes, with a log beside, none of them reserved, and the three shares that never differ.
    file.write_all_at(b"SQLite format 3\0\x10\x00\x02\x02\x00\x40\x20\x20", 0)?;
    file.write_all_at(&pages.to_be_bytes(), 28)?;
    // The fourth form of tables; texts are UTF-8.
    file.write_all_at(&[0, 0, 0, 4], 44)?;
    file.write_all_at(&[0, 0, 0, 1], 56)?;
    drop(file);
    // What is in the log goes into the file, as far as it can.
    let settled = rusqlite::Connection::open(&copy);
    let _ = settled.and_then(|db| db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())));
    Ok(copy)
}

/// What is said of a store that is there and holds nothing, although something was kept beside it.
pub(super) fn emptied(path: &Path) -> Option<String> {
    let is_empty = |path: &Path| std::fs::metadata(path).map_or(0, |meta| meta.len()) == 0;
    let beside = std::fs::read_dir(path.with_file_name("undo")).is_ok_and(|mut undo| undo.next().is_some());
    let rest = if is_empty(&place::beside(path, "-wal")) { "" } else { ", but for what was written last" };
    let lost = path.exists() && is_empty(path) && beside;
    lost.then(|| format!("{} was empty: the sessions in it are lost{rest}", path.display()))
}

/// Brings a store that is damaged in order, and says what became of it; `None` if nothing is wrong with it. What can be read is
/// [copied](recover); if that is nothing, the file is moved aside.
pub fn repair(path: &Path) -> Result<Option<String>> {
    let failed = |error: std::io::Error| Error::open(path, error);
    if !path.try_exists().map_err(failed)? {
        return Ok(None);
    }
    let emptied = emptied(path);
    let path = &place::real(path);
    // Another one may have done it meanwhile.
    let _lock = place::lock(path)?;
    if emptied.is_some() {
        return Ok(emptied);
    }
    let torn = wal::mend(path).unwrap_or_default();
    let looked =
        schema::open_writer(path).and_then(|(_, mended)| Ok((mended, keep::problems(&schema::open_reader(path)?)?)));
    match looked {
        Ok((mended, found)) if found.is_empty() => return Ok(torn.or(mended)),
        // Not ours, or not of our time: that is no damage.
        Err(error @ (Error::Foreign(_) | Error::Newer { .. } | Error::Full | Error::Busy)) => return Err(error),
        Err(error) if place::is_read_only(path) => return Err(error),
        _ => {}
    }
    let name = path.display();
    match recover_alone(path) {
        Ok((saved, aside)) => {
            let Salvaged { sessions, cut, events, lost, gaps } = saved;
            let gaps = if gaps.is_empty() { String::new() } else { format!("; {}", schema::cut(&gaps)) };
            Ok(Some(format!(
                "{name} was damaged: {sessions} sessions with {events} events were saved, {cut} of them not whole ({lost} events \
                 are known to be lost); the damaged file is {}{gaps}",
                aside.display()
            )))
        }
        Err(Error::Damaged(why) | Error::Failed(why)) => {
            let aside = set_aside(path).map_err(failed)?;
            Ok(Some(format!("nothing in {name} could be read ({why}); the damaged file is {}", aside.display())))
        }
        Err(error) => Err(error),
    }
}

/// Moves a store out of the way, with what belongs to it.
fn set_aside(path: &Path) -> std::io::Result<PathBuf> {
    let aside = place::beside(path, &format!(".damaged-{}", Time::now().to_string().replace(':', "")));
    // The journal goes first: a journal without its file is nothing, but beside another file it would be poison.
    for end in ["-wal", "-shm", ""] {
        match std::fs::rename(place::beside(path, end), place::beside(&aside, end)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(aside)
}

/// Copies every session of `from`, as far as it is whole, into the new file `to`. The old file is only read. Blocks for as
/// long as that takes.
pub fn salvage(from: &Path, to: &Path) -> Result<Salvaged> {
    if !from.exists() {
        return Err(Error::open(from, "there is no such file"));
    }
    if to.exists() {
        return Err(Error::open(to, "there is a file already"));
    }
    let old = schema::open_reader(from)?;
    // Also a file that was cut short is read, as far as it goes.
    old.execute_batch("PRAGMA writable_schema = ON")?;
    let lock = place::prepare(to)?;
    let (mut new, _) = schema::open_writer(to)?;
    let copy = new.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let (mut saved, keys) = (Salvaged::default(), keys(&old));
    if keys.is_empty() {
        old.query_row("SELECT count(*) FROM session", [], |_| Ok(()))?;
    }
    for key in keys {
        let restored = card::best(&old, key).filter(|(body, _)| card::restore(&copy, key, body).is_ok());
        let Some((body, source)) = restored else {
            saved.gaps.push(format!("session number {key}: nothing of it could be read"));
            continue;
        };
        let row = |row: &rusqlite::Row<'_>| Ok((row.get(0).unwrap_or(0), row.get(1).unwrap_or(0)));
        let known = old.query_row("SELECT head, updated FROM session NOT INDEXED WHERE key = ?1", [key], row);
        let (known, updated): (i64, i64) = known.unwrap_or((0, 0));
        // A number that makes no sense says nothing of what is lost.
        let end = replay::last(&old, key).clamp(0, MAX_EVENTS);
        let events = if (end..=end + MAX_EVENTS).contains(&known) { known } else { end };
        let (mut walk, mut head, mut latest) = (Walk::new(key, events), Head::default(), Time(updated));
        loop {
            let page = walk.page(&old, decode)?;
            if page.is_empty() {
                break;
            }
            for stored in page {
                (head, latest) = (put(&copy, key, head, &stored)?, latest.max(stored.time));
            }
        }
        // One that is lost does not take with it what comes behind.
        let mut lost = 0;
        let behind = walk.damage.as_ref().map_or(0..0, |damage| damage.good.cast_signed() + 1..events + 1);
        for seq in behind {
            match one(&old, key, seq) {
                Some(stored) => (head, latest) = (put(&copy, key, head, &stored)?, latest.max(stored.time)),
                None => lost += 1,
            }
        }
        append::store_head(&copy, key, head, if updated > 0 { Time(updated) } else { latest })?;
        append::index(&copy, key)?;
        saved.sessions += 1;
        saved.events += head.seq.cast_unsigned();
        saved.cut += u64::from(walk.damage.is_some());
        saved.lost += lost;
        // What is lost stays with the session, and so does what was lost before.
        let known = replay::lost(&old, key).unwrap_or_default();
        let mut words = Vec::new();
        if source == Source::Nobody {
            words.push("its name, its folder and its agent are lost".to_owned());
        }
        words.extend(walk.damage.map(|damage| format!("{lost} of {events} events are lost ({})", damage.why)));
        for words in known.iter().chain(&words) {
            replay::note_lost(&copy, key, head.seq, words)?;
        }
        saved.gaps.extend(words.into_iter().map(|words| format!("session {}: {words}", card::id(&body))));
    }
    copy.commit()?;
    drop(lock);
    Ok(saved)
}

/// Copies one event behind the others; the turns keep their numbers.
fn put(copy: &Connection, target: i64, head: Head, stored: &Stored) -> Result<Head> {
    let turn = stored.turn.cast_signed() - i64::from(matches!(stored.event, Event::TurnBegin));
    append::put(copy, target, Head { turn, ..head }, stored.time, &stored.event, &stored.event.body())
}

/// More events than any session has.
const MAX_EVENTS: i64 = 1 << 24;

/// How many keys behind a damaged part of the list are tried.
const MAX_TRIED_KEYS: i64 = 100_000;

/// The sessions that can be found, the one used last at the end: by their rows, their cards, or their events alone. Where the list is
/// damaged, each key behind is tried alone.
fn keys(db: &Connection) -> Vec<i64> {
    let mut keys = BTreeMap::new();
    // As far as it goes; there are no cards in an old store.
    let take = |keys: &mut BTreeMap<i64, i64>, sql: &str| {
        let mut find = db.prepare(sql)?;
        let mut rows = find.query([])?;
        while let Some(row) = rows.next()? {
            keys.entry(row.get(0)?).or_insert(row.get(1).unwrap_or(0));
        }
        Ok::<_, rusqlite::Error>(())
    };
    if take(&mut keys, "SELECT key, touched FROM session NOT INDEXED ORDER BY key").is_err() {
        let next = keys.keys().next_back().map_or(1, |key: &i64| key.saturating_add(1));
        let last = db.query_row("SELECT max(key) FROM session", [], |row| row.get(0));
        let last: i64 = last.unwrap_or(i64::MAX).min(next.saturating_add(MAX_TRIED_KEYS));
        if let Ok(mut one) = db.prepare("SELECT touched FROM session NOT INDEXED WHERE key = ?1") {
            let found = (next..=last).filter_map(|key| Some((key, one.query_row([key], |row| row.get(0)).ok()?)));
            keys.extend(found);
        }
    }
    // Those without a row come last, for they are news.
    let _ = take(&mut keys, &format!("SELECT session, {} FROM card ORDER BY session", i64::MAX));
    let _ = take(&mut keys, &format!("SELECT DISTINCT session, {} FROM event NOT INDEXED", i64::MAX));
    let mut keys: Vec<(i64, i64)> = keys.into_iter().map(|(key, touched)| (touched, key)).collect();
    keys.sort_unstable();
    keys.into_iter().map(|(_, key)| key).collect()
}
