//! Finding and keeping sessions: search, list, cursors, deletion, retention.

#![allow(clippy::unwrap_used)]

#[path = "common/mod.rs"]
mod common;

use common::{Place, new, said, text, turns};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::time::Duration;
use tieline_host::store::{Claim, Error, ListQuery, NewSession, Retention, Store, Time};
use tieline_schema::{SessionId, StopReason};

/// Somebody says something in a session that may be gone.
async fn use_again(store: &Store, id: &SessionId) {
    if let Ok(opened) = store.open_session(id, Claim::IfFree).await {
        opened.log.begin_turn(None, vec!["again".into()]).await.unwrap();
    }
}

#[tokio::test]
async fn words_are_found_until_their_session_is_deleted() {
    let place = Place::new();
    let store = place.store();
    let one = turns(&store, "/one", 2).await;
    one.begin_turn(None, vec!["Where is parse_config?".into()]).await.unwrap();
    for piece in ["It is in the ", "Zwie", "bel", "kuchen module. ", "設定ファイルはここ"] {
        one.stream(text(piece)).await.unwrap();
    }
    one.end_turn(StopReason::EndTurn).await.unwrap();
    let two = turns(&store, "/two", 1).await;
    store.rename(two.id(), Some("100% Zwiebeln")).await.unwrap();
    for (query, want) in [
        ("zwiebelkuchen", vec![(one.id(), 3)]),
        ("zwiebel", vec![(two.id(), 0), (one.id(), 3)]),
        ("module zwiebelkuchen", vec![(one.id(), 3)]),
        ("parse_config", vec![(one.id(), 3)]),
        ("belkuch", vec![(one.id(), 3)]),
        ("ファイル", vec![(one.id(), 3)]),
        ("100%", vec![(two.id(), 0)]),
        ("0% zwie", vec![(two.id(), 0)]),
        ("question 1", vec![(one.id(), 1), (two.id(), 1)]),
        ("\"unclosed OR (", vec![]),
        ("%", vec![(two.id(), 0)]),
        ("nowhere", vec![]),
        ("  ", vec![]),
    ] {
        let hits = store.search(query, 10).await.unwrap();
        let found: Vec<_> = hits.iter().map(|hit| (&hit.session.id, hit.turn)).collect();
        assert_eq!(found, want, "{query}");
    }
    assert!(store.search("zwiebelkuchen", 10).await.unwrap()[0].snippet.contains("Zwiebelkuchen module"));
    assert_eq!(store.search("question", 2).await.unwrap().len(), 2);

    let id = one.id().clone();
    store.delete(&id).await.unwrap();
    assert_eq!(one.append(vec![said("x")]).await.unwrap_err(), Error::NotFound(id.clone()));
    drop(one);
    assert_eq!(store.delete(&id).await.unwrap_err(), Error::NotFound(id.clone()));
    assert!(store.search("zwiebelkuchen", 10).await.unwrap().is_empty());
    assert_eq!(store.session(&id).await.unwrap_err(), Error::NotFound(id));
    assert_eq!(store.integrity().await.unwrap(), [""; 0]);
    // Really gone: not a trace in any file.
    store.clone().close().await.unwrap();
    for file in std::fs::read_dir(place.path.parent().unwrap()).unwrap() {
        let path = file.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        for trace in ["wiebelkuchen", "zwiebelkuchen", "parse_config"] {
            assert!(!bytes.windows(trace.len()).any(|part| part == trace.as_bytes()), "{trace} in {}", path.display());
        }
    }
}

#[tokio::test]
async fn a_large_session_gives_its_space_back() {
    let place = Place::new();
    let store = place.store();
    let small = turns(&store, "/small", 1).await;
    let log = store.create(new("/large")).await.unwrap();
    for _ in 0..20 {
        log.append(vec![said(&"y".repeat(500_000))]).await.unwrap();
    }
    let id = log.id().clone();
    log.close().await.unwrap();
    store.delete(&id).await.unwrap();
    let size = std::fs::metadata(&place.path).unwrap().len();
    assert!(size < 1_000_000, "{size}");
    assert_eq!(store.load(small.id()).all().await.unwrap().len(), 4);
}

#[tokio::test]
async fn retention_takes_the_oldest_and_leaves_what_is_open() {
    let place = Place::new();
    let store = place.store();
    let mut ids = Vec::new();
    let mut open = None;
    for at in 0..6 {
        let log = turns(&store, &format!("/{at}"), 1).await;
        ids.push(log.id().clone());
        if at == 0 {
            open = Some(log);
        } else {
            log.close().await.unwrap();
        }
    }
    let none = store.retain(Retention::default()).await.unwrap();
    assert!(none.is_empty());
    let gone = store.retain(Retention { max_count: Some(4), ..Retention::default() }).await.unwrap();
    assert_eq!(gone, [ids[1].clone()], "the four used last, and the one that is open");
    let old = Retention { max_age: Some(Duration::from_hours(1)), ..Retention::default() };
    assert!(store.retain(old).await.unwrap().is_empty());
    let later = Time(Time::now().0 + 7_200_000);
    assert_eq!(store.retain_at(old, later).await.unwrap().len(), 4);
    let left = store.list(ListQuery::default()).await.unwrap();
    assert_eq!(left.sessions.iter().map(|session| &session.id).collect::<Vec<_>>(), [&ids[0]]);
    drop(open);
}

#[tokio::test]
async fn the_list_is_filtered_and_paged() {
    let place = Place::new();
    let store = place.store();
    let mut ids = Vec::new();
    for at in 0..10 {
        let agent = if at % 2 == 0 { "a" } else { "b" };
        let cwd = if at < 5 { "/x" } else { "/y" };
        let log = store.create(NewSession { agent: agent.into(), ..new(cwd) }).await.unwrap();
        ids.push(log.id().clone());
        log.close().await.unwrap();
    }
    let list = async |query: ListQuery| {
        let page = store.list(query).await.unwrap();
        let at = |id: &SessionId| ids.iter().position(|known| known == id).unwrap();
        (page.sessions.iter().map(|session| at(&session.id)).collect::<Vec<_>>(), page.next)
    };
    let all = ListQuery::default();
    assert_eq!(list(all.clone()).await, ((0..10).rev().collect(), None));
    assert_eq!(list(ListQuery { cwd: Some("/x".into()), ..all.clone() }).await.0, [4, 3, 2, 1, 0]);
    assert_eq!(list(ListQuery { cwd: Some("/x/".into()), ..all.clone() }).await.0, [0; 0]);
    let both = ListQuery { cwd: Some("/x".into()), agent: Some("a".into()), limit: 2, ..all.clone() };
    let (first, next) = list(both.clone()).await;
    assert_eq!(first, [4, 2]);
    assert_eq!(list(ListQuery { cursor: next, ..both }).await, (vec![0], None));
    // Used again, it comes first.
    use_again(&store, &ids[3]).await;
    assert_eq!(list(ListQuery { limit: 2, ..all.clone() }).await.0, [3, 9]);
    for cursor in ["", "c", "c-1", "c0", "x1", "c1 ", "cZZZZZZZZZZZZZZZZZZZZZ", "\u{1F980}"] {
        let query = ListQuery { cursor: Some(cursor.into()), ..all.clone() };
        assert_eq!(store.list(query).await, Err(Error::Cursor), "{cursor:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// While pages are read, sessions are made, used and deleted: none comes twice, and each that was left alone comes.
    #[test]
    fn cursors_stay_good(before in 1_usize..30, limit in 1_usize..7, deeds in proptest::collection::vec((0_u8..3, any::<usize>()), 0..24)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let place = Place::new();
            let store = place.store();
            let mut ids = Vec::new();
            for _ in 0..before {
                ids.push(store.create(new("/w")).await.unwrap().id().clone());
            }
            let mut alone: BTreeSet<SessionId> = ids.iter().cloned().collect();
            let mut seen = Vec::new();
            let mut deeds = deeds.into_iter();
            let mut cursor = None;
            loop {
                let page = store.list(ListQuery { cursor, limit, ..ListQuery::default() }).await.unwrap();
                assert!(page.sessions.len() <= limit);
                seen.extend(page.sessions.into_iter().map(|session| session.id));
                cursor = page.next;
                if cursor.is_none() {
                    break;
                }
                for (deed, which) in deeds.by_ref().take(3) {
                    let id = ids[which % ids.len()].clone();
                    match deed {
                        0 => ids.push(store.create(new("/w")).await.unwrap().id().clone()),
                        1 => {
                            alone.remove(&id);
                            use_again(&store, &id).await;
                        }
                        _ => {
                            alone.remove(&id);
                            let _ = store.delete(&id).await;
                        }
                    }
                }
            }
            let once: BTreeSet<SessionId> = seen.iter().cloned().collect();
            assert_eq!(once.len(), seen.len());
            assert!(alone.is_subset(&once));
        });
    }
}
