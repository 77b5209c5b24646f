//! The layout of the file: its settings, its version, and the steps that lead from one version to the next.

use super::place::{self, beside, make_file};
use super::{Error, Result, card};
use rusqlite::{Connection, OpenFlags, TransactionBehavior};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::Duration;

/// Marks the file as ours: `TieL`.
const APPLICATION: i64 = 0x5469_654c;
/// How long one process waits for another.
pub(super) const LOCK_TIMEOUT: Duration = Duration::from_secs(30);

/// Each step makes the next version of the layout. Steps are only ever added at the end.
const STEPS: &[&str] = &[V1, V2];

/// Sessions, their events, what could not be read any more, and the text that is searched.
///
/// `touched` orders the list: the session used last has the highest number. Wall clocks jump, numbers don't.
/// `head` is the seq of the last event, `indexed` that of the last one in the search. `token` and what follows is the lease.
/// Deletes go through `store::keep`, because the search index has to hear of them.
const V1: &str = "
CREATE TABLE session (
    key INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    agent TEXT NOT NULL,
    cwd TEXT NOT NULL,
    directories TEXT NOT NULL,
    title TEXT,
    named INTEGER NOT NULL DEFAULT 0,
    created INTEGER NOT NULL,
    updated INTEGER NOT NULL,
    touched INTEGER NOT NULL UNIQUE,
    options TEXT,
    meta TEXT,
    head INTEGER NOT NULL DEFAULT 0,
    turn INTEGER NOT NULL DEFAULT 0,
    indexed INTEGER NOT NULL DEFAULT 0,
    running INTEGER NOT NULL DEFAULT 0,
    bytes INTEGER NOT NULL DEFAULT 0,
    token INTEGER,
    pid INTEGER,
    start INTEGER,
    host TEXT,
    boot TEXT,
    space TEXT,
    since INTEGER
) STRICT;
CREATE INDEX session_cwd ON session (cwd, touched);
CREATE TABLE event (
    id INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES session (key),
    seq INTEGER NOT NULL,
    turn INTEGER NOT NULL,
    time INTEGER NOT NULL,
    kind TEXT NOT NULL,
    body TEXT NOT NULL,
    crc INTEGER NOT NULL,
    UNIQUE (session, seq)
) STRICT;
CREATE TABLE quarantine (
    session INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    turn INTEGER NOT NULL,
    time INTEGER NOT NULL,
    kind ANY,
    body ANY,
    crc INTEGER NOT NULL
) STRICT;
CREATE TABLE passage (
    id INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES session (key),
    turn INTEGER NOT NULL,
    text TEXT NOT NULL
) STRICT;
CREATE INDEX passage_session ON passage (session);
CREATE VIRTUAL TABLE words USING fts5 (text, content = 'passage', content_rowid = 'id', tokenize = 'unicode61 remove_diacritics 2');
INSERT INTO words (words, rank) VALUES ('secure-delete', 1);
";

/// The [cards](super::card) of sessions. Those of sessions that are older are made when the store is opened.
const V2: &str = "
CREATE TABLE card (
    session INTEGER PRIMARY KEY,
    body TEXT NOT NULL,
    crc INTEGER NOT NULL
) STRICT;
";

/// What a page of the file has, unless told otherwise.
pub(super) const PAGE_BYTES: u64 = 4096;

/// Opens the file for the one that writes, brings its layout up to date, and mends what it can; says what that was.
pub(super) fn open_writer(path: &Path) -> Result<(Connection, Option<String>)> {
    let opened = open_with(path, STEPS).and_then(|db| Ok((card::inspect(&db)?, db)));
    // A number in the head makes it a file that is only read, for whoever has all rights, too.
    if let Err(Error::ReadOnly) = opened
        && !place::is_read_only(path)
    {
        return Err(Error::Damaged("its head was changed".into()));
    }
    let (told, db) = opened?;
    let told = (!told.is_empty()).then(|| format!("{}: {}", path.display(), cut(&told)));
    Ok((db, told))
}

/// Of so many sessions it is said what was damaged.
const MAX_TOLD: usize = 20;

/// Some of many lines, as one.
pub(super) fn cut(lines: &[String]) -> String {
    let more = lines.len().saturating_sub(MAX_TOLD);
    let told = lines[..lines.len() - more].join("; ");
    if more > 0 { format!("{told}; and {more} more") } else { told }
}

/// Opens the file for one that reads.
pub(super) fn open_reader(path: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut db = Connection::open_with_flags(path, flags)?;
    // In a folder that can't be written, or on a disk that is full, the file beside it that readers share can't be made, and nobody
    // writes either.
    let opened = db.query_row("PRAGMA schema_version", [], |_| Ok(())).map_err(Error::from);
    if opened.is_err_and(|error| error == Error::Full || place::is_read_only(path)) {
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/-_.~".contains(byte);
        let name = path.as_os_str().as_bytes().iter();
        let name: String =
            name.map(|byte| if plain(byte) { char::from(*byte).to_string() } else { format!("%{byte:02X}") }).collect();
        let uri = format!("file:{name}?immutable=1");
        db = Connection::open_with_flags(uri, flags | OpenFlags::SQLITE_OPEN_URI)?;
    }
    db.busy_timeout(LOCK_TIMEOUT)?;
    db.execute_batch("PRAGMA cell_size_check = ON")?;
    Ok(db)
}

fn open_with(path: &Path, steps: &[&str]) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut db = Connection::open_with_flags(path, flags).map_err(|error| Error::open(path, error))?;
    db.busy_timeout(LOCK_TIMEOUT)?;
    check(&db, path, steps)?;
    // The first setting only counts in a new file; freed pages can then be given back without rewriting everything.
    db.execute_batch(
        "PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
         PRAGMA foreign_keys = ON; PRAGMA secure_delete = ON; PRAGMA cell_size_check = ON;
         PRAGMA journal_size_limit = 67108864;",
    )
    .map_err(|error| match Error::from(error) {
        Error::Failed(why) => Error::open(path, why),
        error => error,
    })?;
    migrate(&mut db, path, steps)?;
    Ok(db)
}

fn newest(steps: &[&str]) -> i64 {
    i64::try_from(steps.len()).unwrap_or(i64::MAX)
}

fn number(db: &Connection, pragma: &str) -> Result<i64> {
    Ok(db.query_row(&format!("PRAGMA {pragma}"), [], |row| row.get(0))?)
}

/// No version will ever be so many steps ahead of this one.
const MAX_AHEAD: i64 = 1000;

/// The version whose tables these are, whatever the head of the file says.
fn layout(db: &Connection, steps: &[&str]) -> Result<Option<i64>> {
    let tables = |db: &Connection| {
        let own = "sql IS NOT NULL AND name NOT LIKE 'words%' AND name NOT LIKE 'sqlite%'";
        let mut find = db.prepare(&format!("SELECT CAST(sql AS BLOB) FROM sqlite_schema WHERE {own} ORDER BY name"))?;
        find.query_map([], |row| row.get::<_, Vec<u8>>(0))?.collect::<rusqlite::Result<Vec<_>>>()
    };
    let (found, made) = (tables(db)?, Connection::open_in_memory()?);
    for (version, step) in (1..).zip(steps) {
        if made.execute_batch(step).is_err() {
            break;
        }
        if tables(&made)? == found {
            return Ok(Some(version));
        }
    }
    Ok(None)
}

/// The version of the layout. Refuses what is not ours or too new, before anything is changed.
fn check(db: &Connection, path: &Path, steps: &[&str]) -> Result<i64> {
    let found = number(db, "user_version")?;
    let tables: i64 = db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    let (known, is_marked) = (newest(steps), number(db, "application_id")? == APPLICATION);
    if tables == 0 {
        // A file that was just made is empty, or one page without a table; any other without its tables was cut off or overwritten.
        let length = std::fs::metadata(path).map_or(0, |meta| meta.len());
        let is_new = length == 0 || length == PAGE_BYTES;
        return if is_new { Ok(0) } else { Err(Error::Damaged("its tables are gone".into())) };
    }
    if is_marked && found == known {
        return Ok(found);
    }
    match layout(db, steps)? {
        Some(version) => Ok(version),
        None if !is_marked => Err(Error::Foreign(path.to_owned())),
        None if (known + 1..=known + MAX_AHEAD).contains(&found) => {
            Err(Error::Newer { path: path.to_owned(), found, known })
        }
        None => Err(Error::Damaged("its head was changed".into())),
    }
}

/// Takes the steps that are missing, all or none. The file as it was is kept beside.
fn migrate(db: &mut Connection, path: &Path, steps: &[&str]) -> Result<()> {
    let (found, newest) = (check(db, path, steps)?, newest(steps));
    if (number(db, "user_version")?, number(db, "application_id")?) == (newest, APPLICATION) {
        return Ok(());
    }
    if (1..newest).contains(&found) {
        back_up(db, &beside(path, &format!(".layout{found}")))?;
    }
    let step = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for sql in steps.iter().skip(usize::try_from(found).unwrap_or(0)) {
        step.execute_batch(sql)?;
    }
    step.execute_batch(&format!("PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {}", steps.len()))?;
    Ok(step.commit()?)
}

/// Copies the whole store into a new file. A copy that is there already stays: it is the older one.
fn back_up(db: &Connection, to: &Path) -> Result<()> {
    match make_file(to) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => return Ok(()),
        Err(error) => return Err(Error::open(to, error)),
        Ok(()) => {}
    }
    let copied = db.execute("VACUUM INTO ?1", [to.to_string_lossy()]);
    if copied.is_err() {
        // Half a copy would be taken for a whole one.
        let _ = std::fs::remove_file(to);
    }
    copied?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(folder: &Path, steps: &[&str]) -> Result<Connection> {
        let path = folder.join("s.db");
        let lock = super::super::place::prepare(&path)?;
        let db = open_with(&path, steps);
        drop(lock);
        db
    }

    #[test]
    fn settings_hold() {
        let folder = tempfile::tempdir().unwrap();
        let db = new(folder.path(), STEPS).unwrap();
        for (pragma, want) in [("auto_vacuum", 2), ("synchronous", 2), ("foreign_keys", 1), ("secure_delete", 1)] {
            assert_eq!(number(&db, pragma).unwrap(), want, "{pragma}");
        }
        let mode: String = db.query_row("PRAGMA journal_mode", [], |row| row.get(0)).unwrap();
        assert_eq!(mode, "wal");
    }

    #[test]
    fn steps_are_taken_once_and_the_old_file_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let one: &[&str] = &["CREATE TABLE a (x)"];
        let two: &[&str] = &[one[0], "CREATE TABLE b (x); INSERT INTO b SELECT x FROM a"];
        new(folder.path(), one).unwrap().execute_batch("INSERT INTO a VALUES (7)").unwrap();
        for _ in 0..2 {
            let db = new(folder.path(), two).unwrap();
            let count: i64 = db.query_row("SELECT count(*) FROM b WHERE x = 7", [], |row| row.get(0)).unwrap();
            assert_eq!((count, number(&db, "user_version").unwrap()), (1, 2));
        }
        let old = Connection::open(folder.path().join("s.db.layout1")).unwrap();
        assert_eq!(number(&old, "user_version").unwrap(), 1);
        // The older program leaves the newer file alone.
        let refused = new(folder.path(), one).unwrap_err();
        assert!(matches!(refused, Error::Newer { found: 2, known: 1, .. }), "{refused}");
    }

    #[test]
    fn a_step_that_fails_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let one: &[&str] = &["CREATE TABLE a (x)"];
        drop(new(folder.path(), one).unwrap());
        let bad: &[&str] = &[one[0], "CREATE TABLE b (x)", "CREATE TABLE a (again)"];
        new(folder.path(), bad).unwrap_err();
        let db = new(folder.path(), one).unwrap();
        let tables: i64 = db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).unwrap();
        assert_eq!((tables, number(&db, "user_version").unwrap()), (1, 1));
    }

    #[test]
    fn files_of_others_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.db");
        Connection::open(&path).unwrap().execute_batch("CREATE TABLE theirs (x)").unwrap();
        let before = std::fs::read(&path).unwrap();
        assert!(matches!(new(folder.path(), STEPS).unwrap_err(), Error::Foreign(_)));
        assert_eq!(std::fs::read(&path).unwrap(), before);
        std::fs::write(&path, "a text that someone wrote, longer than the head of a database file is. ".repeat(9))
            .unwrap();
        assert!(matches!(new(folder.path(), STEPS).unwrap_err(), Error::Damaged(_)));
    }
}
