//! Damaged files: what is whole loads, the rest is named, and there is a way out.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "common/mod.rs"]
mod common;

use common::{Place, said, turns};
use std::path::Path;
use tieline_host::store::{Claim, Damage, Error, Event, ListQuery, Session, Store, Stored, recover, repair, salvage};
use tieline_schema::{SessionId, Update};

/// A store that was closed in order, with two sessions, and what was in them.
async fn whole(place: &Place, count: usize) -> Vec<(SessionId, Vec<Stored>)> {
    let store = place.store();
    let mut all = Vec::new();
    for cwd in ["/one", "/two"] {
        let log = turns(&store, cwd, count).await;
        let id = log.id().clone();
        log.close().await.unwrap();
        all.push((id.clone(), store.load(&id).all().await.unwrap()));
    }
    store.close().await.unwrap();
    all
}

fn replace(path: &Path, from: &str, to: &str) -> usize {
    let mut bytes = std::fs::read(path).unwrap();
    let places: Vec<usize> =
        (0..bytes.len() - from.len()).filter(|at| bytes[*at..].starts_with(from.as_bytes())).collect();
    for at in &places {
        bytes[*at..*at + to.len()].copy_from_slice(to.as_bytes());
    }
    std::fs::write(path, bytes).unwrap();
    places.len()
}

#[tokio::test]
async fn a_bad_row_costs_what_comes_after_it() {
    let place = Place::new();
    let all = whole(&place, 50).await;
    // Valid JSON, but not what was written.
    assert!(replace(&place.path, "answer 33\"", "answer 3!\"") > 0);
    let store = place.store();
    for (id, events) in &all {
        let mut replay = store.load(id);
        let back = replay.all().await.unwrap();
        assert_eq!(back, events[..130]);
        let why = "event 131 does not match its checksum".to_owned();
        assert_eq!(replay.damage(), Some(&Damage { good: 130, lost: 70, why }));
    }
    let problems = store.integrity().await.unwrap();
    assert_eq!(problems.len(), 2, "{problems:?}");

    // To go on, the tail is set aside; the turn that it cut is closed.
    let (id, events) = &all[0];
    let opened = store.open_session(id, Claim::IfFree).await.unwrap();
    assert_eq!(opened.damage.map(|damage| (damage.good, damage.lost)), Some((130, 70)));
    assert!(opened.interrupted);
    opened.log.append(vec![said("and on")]).await.unwrap();
    opened.log.close().await.unwrap();
    let mut replay = store.load(id);
    let back = replay.all().await.unwrap();
    assert!(replay.damage().is_none());
    assert_eq!(back[..130], events[..130]);
    assert!(matches!(&back[130].event, Event::Update(Update::Notice(_))));
    assert!(matches!(&back[131].event, Event::TurnEnd { interrupted: true, .. }));
    assert_eq!(back[132].event, said("and on"));
    assert_eq!(store.integrity().await.unwrap().len(), 1);
    assert!(store.open_session(id, Claim::IfFree).await.unwrap().damage.is_none());
}

#[tokio::test]
async fn an_index_that_is_damaged_is_done_without() {
    let place = Place::new();
    let all = whole(&place, 100).await;
    // Overwrite the pages of one index, as the file itself says where they are.
    let db = rusqlite::Connection::open(&place.path).unwrap();
    let sql =
        "SELECT rootpage FROM sqlite_schema WHERE name IN ('sqlite_autoindex_event_1', 'sqlite_autoindex_session_1')";
    let mut find = db.prepare(sql).unwrap();
    let pages: Vec<u32> = find.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    drop(find);
    drop(db);
    assert_eq!(pages.len(), 2);
    let mut bytes = std::fs::read(&place.path).unwrap();
    for page in pages.into_iter().map(|page| page as usize) {
        bytes[(page - 1) * 4096..page * 4096].fill(0x5a);
    }
    std::fs::write(&place.path, bytes).unwrap();
    // Nobody begins to write what could not be finished; where nothing can be written, all can be read.
    let refused = Store::open(&place.path).unwrap_err();
    assert!(matches!(refused, Error::Damaged(_)), "{refused}");
    let store = Store::open_to_read(&place.path, &Error::Full).unwrap().unwrap().0;
    for (id, events) in &all {
        let mut replay = store.load(id);
        assert_eq!(&replay.all().await.unwrap(), events);
        assert!(replay.damage().is_none());
    }
    assert!(!store.integrity().await.unwrap().is_empty());
    store.close().await.unwrap();
    let new = place.folder.path().join("new.db");
    let saved = salvage(&place.path, &new).unwrap();
    assert_eq!((saved.sessions, saved.cut, saved.events, saved.lost), (2, 0, 800, 0));
    let store = Store::open(&new).unwrap();
    assert_eq!(store.integrity().await.unwrap(), [""; 0]);
    for (id, events) in &all {
        assert_eq!(&store.load(id).all().await.unwrap(), events);
    }
    assert_eq!(store.search("question 77", 9).await.unwrap().len(), 2);
}

/// Where the first page of a table is in the file.
fn first_page(path: &Path, table: &str) -> usize {
    let sql = "SELECT rootpage FROM sqlite_schema WHERE name = ?1";
    let first: u32 = rusqlite::Connection::open(path).unwrap().query_row(sql, [table], |row| row.get(0)).unwrap();
    usize::try_from(first - 1).unwrap() * 4096
}

#[tokio::test]
async fn a_flipped_bit_in_the_list_of_sessions_changes_nothing_and_locks_nobody_out() {
    let place = Place::new();
    let all = whole(&place, 3).await;
    let store = place.store();
    store.rename(&all[0].0, Some("a name that the user chose")).await.unwrap();
    let mut known = store.list(ListQuery::default()).await.unwrap().sessions;
    store.close().await.unwrap();
    let good = std::fs::read(&place.path).unwrap();
    for table in ["session", "card"] {
        let begin = first_page(&place.path, table);
        let used = (begin..begin + 4096).filter(|at| good[*at] != 0).step_by(5);
        for (at, bit) in used.zip((0..8).cycle()) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("store.db");
            let mut bytes = good.clone();
            bytes[at] ^= 1 << bit;
            std::fs::write(&path, bytes).unwrap();
            let what = format!("{table}, byte {} bit {bit}", at - begin);
            let (store, _) = Store::open_or_mend(&path).unwrap_or_else(|error| panic!("{what}: {error}"));
            let mut found = store.list(ListQuery::default()).await.unwrap().sessions;
            for list in [&mut known, &mut found] {
                list.sort_by_key(|session| session.id.to_string());
            }
            let essence = |session: &Session| {
                let Session { id, agent, cwd, title, named, created, .. } = session;
                (id.clone(), agent.clone(), cwd.clone(), title.clone(), *named, *created)
            };
            assert!(found.iter().map(essence).eq(known.iter().map(essence)), "{what}: {found:?}");
            for (id, events) in &all {
                assert_eq!(&store.load(id).all().await.unwrap(), events, "{what}");
            }
            turns(&store, "/new", 1).await.close().await.unwrap_or_else(|error| panic!("{what}: {error}"));
            store.close().await.unwrap();
            // How many events a session has only its rows say, when somebody reads all of them.
            repair(&path).unwrap();
            assert_eq!(repair(&path).unwrap(), None, "{what}");
        }
    }
}

#[tokio::test]
async fn a_store_of_the_layout_before_goes_on_and_is_then_as_safe() {
    let place = Place::new();
    let all = whole(&place, 3).await;
    let db = rusqlite::Connection::open(&place.path).unwrap();
    db.execute_batch("DROP TABLE card; PRAGMA user_version = 1").unwrap();
    drop(db);
    let (store, told) = Store::open_or_mend(&place.path).unwrap();
    assert_eq!(told, None);
    for (id, events) in &all {
        assert_eq!(&store.load(id).all().await.unwrap(), events);
    }
    store.close().await.unwrap();
    assert!(place.path.with_file_name("store.db.layout1").exists());
    rusqlite::Connection::open(&place.path).unwrap().execute_batch("UPDATE session SET cwd = '/three'").unwrap();
    let (store, told) = Store::open_or_mend(&place.path).unwrap();
    assert!(told.unwrap().contains(all[0].0.as_str()));
    assert_eq!(store.session(&all[0].0).await.unwrap().cwd, "/one");
}

#[tokio::test]
async fn a_file_that_is_moved_or_removed_stores_nothing_any_more() {
    for how in ["removed", "moved", "replaced"] {
        let place = Place::new();
        let store = place.store();
        let log = turns(&store, "/w", 1).await;
        let aside = place.path.with_file_name("aside.db");
        match how {
            "removed" => std::fs::remove_file(&place.path).unwrap(),
            _ => std::fs::rename(&place.path, &aside).unwrap(),
        }
        let other = (how == "replaced").then(|| place.store());
        let refused = log.append(vec![said("more")]).await.unwrap_err();
        assert_eq!(refused, Error::Moved(place.path.clone()), "{how}");
        log.stream(common::text("streamed")).await.unwrap();
        assert_eq!(log.append(Vec::new()).await.unwrap_err(), Error::Moved(place.path.clone()), "{how}");
        assert!(log.close().await.is_err(), "{how}");
        store.close().await.unwrap();
        // What is in its place now has its own log, and keeps it.
        if let Some(other) = other {
            let id = turns(&other, "/new", 3).await.id().clone();
            drop(other);
            let store = place.store();
            assert_eq!(store.load(&id).all().await.unwrap().len(), 12);
        }
    }
}

#[tokio::test]
async fn a_lost_first_page_of_a_table_costs_only_itself() {
    for table in ["event", "session", "card"] {
        let place = Place::new();
        let all = whole(&place, 100).await;
        let at = first_page(&place.path, table);
        let mut bytes = std::fs::read(&place.path).unwrap();
        bytes[at..at + 4096].fill(0);
        std::fs::write(&place.path, bytes).unwrap();
        let (saved, _) = recover(&place.path).unwrap();
        assert_eq!((saved.sessions, saved.events, saved.lost), (2, 800, 0), "{table}: {saved:?}");
        let store = place.store();
        for (id, events) in &all {
            let back = store.load(id).all().await.unwrap();
            assert!(back.iter().map(|one| &one.event).eq(events.iter().map(|one| &one.event)), "{table}");
        }
        let beside = std::fs::read_dir(place.path.parent().unwrap()).unwrap().map(|entry| entry.unwrap().file_name());
        let left: Vec<_> = beside
            .filter(|name| [".pages", ".head", ".tried"].iter().any(|end| name.to_string_lossy().contains(end)))
            .collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

#[tokio::test]
async fn a_lost_page_costs_only_its_own_events() {
    let place = Place::new();
    let all = whole(&place, 100).await;
    let mut bytes = std::fs::read(&place.path).unwrap();
    let is_leaf = |page: &[u8]| page[0] == 13 && page.windows(10).any(|part| part == b"answer 50\"");
    let lost = bytes.chunks(4096).position(is_leaf).unwrap();
    bytes[lost * 4096..(lost + 1) * 4096].fill(0);
    std::fs::write(&place.path, bytes).unwrap();
    let (saved, _) = recover(&place.path).unwrap();
    assert!(saved.sessions == 2 && saved.events > 700 && saved.events + saved.lost == 800, "{saved:?}");
    assert!(saved.gaps[0].contains("events are lost"), "{saved:?}");
    let store = place.store();
    for (id, events) in &all {
        let back = store.load(id).all().await.unwrap();
        assert_eq!(
            back.last().map(|last| (last.turn, &last.event)),
            events.last().map(|last| (last.turn, &last.event))
        );
    }
}

#[tokio::test]
async fn a_head_that_was_overwritten_locks_nobody_out() {
    for (at, what) in [(68, [7; 4]), (60, [127; 4]), (60, [0; 4]), (44, [9; 4]), (18, [5; 4]), (0, [0; 4])] {
        let place = Place::new();
        let all = whole(&place, 5).await;
        let mut bytes = std::fs::read(&place.path).unwrap();
        bytes[at..at + 4].copy_from_slice(&what);
        std::fs::write(&place.path, bytes).unwrap();
        let told = repair(&place.path).unwrap();
        let store = place.store();
        for (id, events) in &all {
            assert_eq!(&store.load(id).all().await.unwrap(), events, "{at}: {told:?}");
        }
    }
}

/// Opens what is left and reads it. Everything that comes must be what was written; the rest must be a clear error.
async fn survey(path: &Path, all: &[(SessionId, Vec<Stored>)], told: bool, what: &str) -> (usize, usize) {
    let clear = |error: Error| {
        let known = matches!(
            error,
            Error::Damaged(_) | Error::Foreign(_) | Error::Newer { .. } | Error::NotFound(_) | Error::Failed(_)
        );
        assert!(known, "{what}: {error:?}");
    };
    let (mut read, mut failed) = (0, 0);
    match Store::open(path) {
        Err(error) => {
            clear(error);
            failed += 1;
        }
        Ok(store) => {
            for (id, events) in all {
                let mut replay = store.load(id);
                match replay.all().await {
                    Ok(back) => {
                        assert_eq!(back[..], events[..back.len()], "{what}");
                        assert!(
                            !told || back.len() == events.len() || replay.damage().is_some(),
                            "{what}: a silent end"
                        );
                        read += back.len();
                    }
                    Err(error) => clear(error),
                }
            }
            let _ = store.list(ListQuery::default()).await.map_err(clear);
            let _ = store.search("question", 9).await.map_err(clear);
            let _ = store.integrity().await.map_err(clear);
            for (id, _) in all {
                if let Ok(opened) = store.open_session(id, Claim::IfFree).await {
                    let _ = opened.log.append(vec![said("on")]).await.map_err(clear);
                }
            }
            store.close().await.unwrap();
        }
    }
    (read, failed)
}

/// The same numbers each time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % below as u64) as usize
    }
}

#[tokio::test]
async fn whatever_is_damaged_what_loads_is_true() {
    let place = Place::new();
    let all = whole(&place, 60).await;
    let good = std::fs::read(&place.path).unwrap();
    let total: usize = all.iter().map(|(_, events)| events.len()).sum();
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let (mut read, mut failed, rounds) = (0, 0, 48);
    for round in 0..rounds {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        let mut bytes = good.clone();
        let at = dice.roll(bytes.len());
        match round % 4 {
            0 => bytes[at] ^= 1 << dice.roll(8),
            1 => {
                let end = (at + 1 + dice.roll(600)).min(bytes.len());
                bytes[at..end].fill_with(|| dice.roll(256) as u8);
            }
            2 => bytes.truncate(at),
            _ => {
                let page = at / 4096 * 4096;
                bytes[page..page + 4096].fill(0);
            }
        }
        std::fs::write(&path, &bytes).unwrap();
        // The way out never makes it worse, and it only reads.
        let saved = salvage(&path, &folder.path().join("saved.db"));
        if let Ok(saved) = saved {
            assert!(saved.events as usize <= total);
            assert_eq!(std::fs::read(&path).unwrap(), bytes);
            let store = Store::open(folder.path().join("saved.db")).unwrap();
            assert_eq!(store.integrity().await.unwrap(), [""; 0], "round {round}");
            store.close().await.unwrap();
        }
        let (some, none) = survey(&path, &all, true, &format!("round {round} at {at}")).await;
        read += some;
        failed += none;
    }
    println!("{rounds} damaged files: {failed} refused, {}% of all events read", read * 100 / (rounds * total));
}

#[tokio::test]
async fn a_file_that_was_cut_is_recovered_in_place() {
    let place = Place::new();
    let all = whole(&place, 100).await;
    let bytes = std::fs::read(&place.path).unwrap();
    std::fs::write(&place.path, &bytes[..bytes.len() * 4 / 5]).unwrap();
    assert!(matches!(Store::open(&place.path), Err(Error::Damaged(_))));
    let (saved, aside) = recover(&place.path).unwrap();
    println!("cut at 80%: {saved:?}");
    assert!(saved.events > 100, "{saved:?}");
    assert_eq!(std::fs::read(&aside).unwrap().len(), bytes.len() * 4 / 5);
    let store = place.store();
    assert_eq!(store.integrity().await.unwrap(), [""; 0]);
    let mut count = 0;
    for (id, events) in &all {
        let back = store.load(id).all().await.unwrap_or_default();
        assert_eq!(back[..], events[..back.len()]);
        count += back.len() as u64;
    }
    assert_eq!(count, saved.events);
}

#[tokio::test]
async fn a_damaged_store_is_mended_once_and_what_is_lost_is_said() {
    let place = Place::new();
    let all = whole(&place, 100).await;
    assert_eq!(repair(&place.path).unwrap(), None);
    let bytes = std::fs::read(&place.path).unwrap();
    std::fs::write(&place.path, &bytes[..bytes.len() * 4 / 5]).unwrap();
    let (store, told) = Store::open_or_mend(&place.path).unwrap();
    let told = told.unwrap();
    assert!(told.contains("2 sessions") && told.contains("known to be lost") && told.contains(".damaged-"), "{told}");
    assert!(!store.load(&all[0].0).all().await.unwrap().is_empty());
    store.close().await.unwrap();
    // Whoever comes later finds nothing to do.
    assert_eq!(repair(&place.path).unwrap(), None);
    let (store, told) = Store::open_or_mend(&place.path).unwrap();
    assert_eq!(told, None);
    store.close().await.unwrap();
    // Where nothing can be read, work goes on with a new one, and the old one is kept.
    std::fs::write(&place.path, [0x41; 9000]).unwrap();
    let (store, told) = Store::open_or_mend(&place.path).unwrap();
    assert!(told.unwrap().contains("could be read"));
    assert!(store.list(ListQuery::default()).await.unwrap().sessions.is_empty());
    let files = std::fs::read_dir(place.path.parent().unwrap()).unwrap().flatten();
    let kept = files.filter(|file| std::fs::read(file.path()).is_ok_and(|bytes| bytes == [0x41; 9000])).count();
    assert_eq!(kept, 1);
}

// A page in the middle of the list of sessions is bad: those on the pages after it are still found.
#[tokio::test]
async fn a_hole_in_the_list_costs_the_sessions_in_it() {
    let place = Place::new();
    let store = place.store();
    for number in 0..300 {
        turns(&store, &format!("/folder-{number:03}/{}", "x".repeat(100)), 1).await.close().await.unwrap();
    }
    store.close().await.unwrap();
    let mut bytes = std::fs::read(&place.path).unwrap();
    let at = |text: &str| (0..bytes.len()).rfind(|at| bytes[*at..].starts_with(text.as_bytes())).unwrap() / 4096;
    let page =
        bytes.chunks(4096).position(|page| page[0] == 13 && page.windows(12).any(|part| part == b"/folder-150/"));
    let (page, last) = (page.unwrap(), at("/folder-299/"));
    assert_ne!(page, last);
    bytes[page * 4096..(page + 1) * 4096].fill(0xee);
    std::fs::write(&place.path, &bytes).unwrap();
    repair(&place.path).unwrap().unwrap();
    let store = place.store();
    let query = |cwd: &str| ListQuery { cwd: Some(format!("{cwd}/{}", "x".repeat(100))), ..ListQuery::default() };
    for folder in ["/folder-000", "/folder-299"] {
        assert_eq!(store.list(query(folder)).await.unwrap().sessions.len(), 1, "{folder}");
    }
}

#[tokio::test]
async fn a_journal_that_is_cut_or_gone_costs_its_end() {
    let place = Place::new();
    let store = place.store();
    let log = turns(&store, "/w", 100).await;
    let id = log.id().clone();
    store.clone().close().await.unwrap();
    let all = vec![(id.clone(), store.load(&id).all().await.unwrap())];
    // As a crash leaves them: nothing was closed.
    let wal = place.path.with_file_name("store.db-wal");
    let (good, journal) = (std::fs::read(&place.path).unwrap(), std::fs::read(&wal).unwrap());
    let mut dice = Dice(7);
    let mut counts = Vec::new();
    for round in 0..24 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        std::fs::write(&path, &good).unwrap();
        let mut bytes = journal.clone();
        match round {
            0 => {}
            1 => bytes.clear(),
            _ if round % 2 == 0 => bytes.truncate(dice.roll(journal.len())),
            _ => bytes[dice.roll(journal.len())] ^= 0x10,
        }
        if round != 1 {
            std::fs::write(folder.path().join("store.db-wal"), &bytes).unwrap();
        }
        // A journal that is gone can't be told from one that never was.
        let (read, _) = survey(&path, &all, false, &format!("journal {round}")).await;
        counts.push(read);
    }
    assert_eq!(counts[0], 400, "an undamaged journal is all there");
    println!("events after damage to the journal: {counts:?}");
    // In the head of the journal, and in each part of a piece of it: the salt, the sums, the page.
    let flips = [0, 9, 17, 25].into_iter().chain([0, 5, 9, 17, 24, 4000].map(|at| 32 + 4120 * 20 + at));
    // The index of the log, which a killed process leaves, says how long it was.
    let index = std::fs::read(place.path.with_file_name("store.db-shm")).unwrap();
    for length in [Some(0), Some(20), Some(32 + 4120 * 5), Some(32 + 4120 * 20 + 7), None] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        std::fs::write(&path, &good).unwrap();
        std::fs::write(folder.path().join("store.db-wal"), &journal[..length.unwrap_or(journal.len())]).unwrap();
        std::fs::write(folder.path().join("store.db-shm"), &index).unwrap();
        let (store, told) = Store::open_or_mend(&path).unwrap();
        let read = store.load(&id).all().await.map_or(0, |events| events.len());
        assert_eq!((read < 400, told.is_some()), (length.is_some(), length.is_some()), "{length:?}: {told:?}");
    }
    let wiped = 32 + 4120 * 20;
    for (at, is_wiped) in flips.map(|at| (Some(at), false)).chain([(None, false), (Some(wiped), true)]) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        let mut bytes = journal.clone();
        match at {
            Some(at) if is_wiped => bytes[at..].fill(0),
            Some(at) => bytes[at] ^= 0x10,
            None => {}
        }
        std::fs::write(&path, &good).unwrap();
        std::fs::write(folder.path().join("store.db-wal"), &bytes).unwrap();
        let (store, told) = Store::open_or_mend(&path).unwrap();
        let read = store.load(&id).all().await.map_or(0, |events| events.len());
        assert_eq!((read < 400, told.is_some()), (at.is_some(), at.is_some()), "byte {at:?}: {told:?}");
        drop(store);
        let aside = std::fs::read_dir(folder.path()).unwrap().flatten().map(|file| file.path());
        let aside = aside
            .filter(|file| file.to_string_lossy().contains("-wal.damaged-"))
            .map(|file| std::fs::read(file).unwrap());
        assert_eq!(aside.collect::<Vec<_>>(), at.map(|_| bytes).into_iter().collect::<Vec<_>>(), "byte {at:?}");
        assert_eq!(Store::open_or_mend(&path).unwrap().1, None, "byte {at:?}: it is said once");
    }
}

#[tokio::test]
async fn what_is_no_store_is_refused_and_left_alone() {
    for bytes in [&b"SQLite format 3\0 and then nothing that makes sense at all"[..], &[0x41; 9000]] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        std::fs::write(&path, bytes).unwrap();
        let error = Store::open(&path).unwrap_err();
        assert!(matches!(error, Error::Damaged(_)), "{error:?}");
        assert!(error.to_string().contains("`tieline sessions repair` saves what can be read"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
        assert!(salvage(&path, &folder.path().join("new.db")).is_err());
    }
}

/// Cut at any length, or with a wrong byte in its head: it is mended, or it is said what it is taken for. Never is a file that can't be
/// used said to be in order.
#[tokio::test]
async fn cut_and_flipped_files_are_mended_or_named() {
    let place = Place::new();
    whole(&place, 50).await;
    let good = std::fs::read(&place.path).unwrap();
    let cuts = (1..good.len()).step_by(good.len() / 40).chain([50, 99, 100, 512, 3000, 4095, 4096, 5000]);
    let mut cases: Vec<(String, Vec<u8>)> =
        cuts.map(|length| (format!("cut to {length}"), good[..length].to_vec())).collect();
    for at in 0..110 {
        let mut bytes = good.clone();
        bytes[at] ^= 0xff;
        cases.push((format!("byte {at}"), bytes));
    }
    let (mut mended, mut named, mut whole) = (0, 0, 0);
    for (what, bytes) in cases {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        // Whoever works on is not sent elsewhere, either.
        if ["byte 18", "byte 19", "byte 47"].contains(&&*what) {
            let beside = folder.path().join("beside.db");
            std::fs::write(&beside, &bytes).unwrap();
            assert!(matches!(Store::open_or_mend(&beside), Ok((_, Some(_)))), "{what}");
        }
        std::fs::write(&path, bytes).unwrap();
        let repaired = repair(&path);
        match &repaired {
            Err(Error::Newer { .. } | Error::Foreign(_)) => {
                named += 1;
                continue;
            }
            Err(error) => panic!("{what}: {error}"),
            Ok(Some(_)) => mended += 1,
            Ok(None) => whole += 1,
        }
        let store = Store::open(&path).unwrap_or_else(|error| panic!("{what}, {repaired:?}: {error}"));
        store.list(ListQuery::default()).await.unwrap_or_else(|error| panic!("{what}, {repaired:?}: {error}"));
        turns(&store, "/new", 1).await.close().await.unwrap_or_else(|error| panic!("{what}, {repaired:?}: {error}"));
    }
    println!("{mended} mended, {named} named, {whole} in order");
}
