//! The store as its users see it: what is written can be read, listed, found and deleted.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "common/mod.rs"]
mod common;

use common::{Place, new, said, text, turns};
use std::time::Duration;
use tieline_host::store::{Claim, Error, Event, NewSession, State, Store};
use tieline_schema::{
    Dialect, MessageKind, Raw, SessionId, StopReason, TerminalOutputChunk, ToolCallStatus, ToolCallUpdate, Transcript,
    Update, to_base64,
};

fn raw(text: &str) -> Raw {
    Raw::new(text).unwrap()
}

#[tokio::test]
async fn every_kind_of_event_comes_back() {
    let place = Place::new();
    let store = place.store();
    let log = store.create(new("/w")).await.unwrap();
    let events = vec![
        Event::Model(raw(r#"{"role":"system"}"#)),
        Event::TurnBegin,
        Event::Prompt { message_id: Some("u1".into()), content: vec!["hello \u{1F980}\0\n".into()] },
        Event::Prompt { message_id: None, content: vec![] },
        said("hi"),
        Event::Update(ToolCallUpdate::new("c1").title("Read").status(ToolCallStatus::Completed).into()),
        Event::Permission { tool_call_id: "c\"1".into(), decision: raw(r#"{"optionId":"allow"}"#) },
        Event::ToolResult { tool_call_id: "c1".into(), result: raw("null") },
        Event::Other { kind: "compaction".into(), body: raw("[1, 2]") },
        Event::TurnEnd { stop: StopReason::MaxTokens, interrupted: false },
    ];
    assert_eq!(log.append(events.clone()).await.unwrap(), 10);
    let taken = Event::Other { kind: "update".into(), body: raw("{}") };
    assert!(matches!(log.append(vec![taken]).await, Err(Error::Failed(_))));
    assert_eq!(log.append(vec![Event::TurnBegin]).await.unwrap(), 11);
    let mut replay = store.load(log.id());
    let back = replay.all().await.unwrap();
    assert!(replay.damage().is_none());
    assert_eq!(back.iter().map(|stored| stored.seq).collect::<Vec<_>>(), (1..=11).collect::<Vec<_>>());
    assert_eq!(back.iter().map(|stored| stored.turn).collect::<Vec<_>>(), [0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2]);
    for (back, event) in back.iter().zip(&events) {
        assert_eq!(&back.event, event);
    }
    let session = store.session(log.id()).await.unwrap();
    assert_eq!((session.events, session.turns, session.state), (11, 2, State::Running));
    assert_eq!(session.holder.unwrap().pid, std::process::id());
    assert_eq!(store.integrity().await.unwrap(), [""; 0]);
}

#[tokio::test]
async fn a_long_session_comes_in_pages_and_order() {
    let place = Place::new();
    let store = place.store();
    let log = store.create(new("/w")).await.unwrap();
    let large = "x".repeat(300_000);
    for batch in 0..20 {
        let mut events: Vec<Event> = (0..100).map(|at| said(&format!("{batch} {at}"))).collect();
        events.push(said(&large));
        log.append(events).await.unwrap();
    }
    let mut replay = store.load(log.id());
    let (mut pages, mut seq) = (0, 0);
    while let Some(page) = replay.next().await.unwrap() {
        pages += 1;
        assert!(page.len() <= 512);
        for stored in page {
            seq += 1;
            assert_eq!(stored.seq, seq);
        }
        // What comes later is not part of this replay.
        log.append(vec![said("later")]).await.unwrap();
    }
    assert!(pages > 4);
    assert_eq!(seq, 20 * 101);
    assert_eq!(store.load(&"nobody".into()).next().await.unwrap_err(), Error::NotFound("nobody".into()));
}

#[tokio::test]
async fn streamed_text_shares_rows_and_says_the_same() {
    let place = Place::new();
    let store = place.store();
    let log = store.create(new("/w")).await.unwrap();
    let mut talk = Transcript::new(Dialect::V2);
    log.append(vec![Event::TurnBegin]).await.unwrap();
    for at in 0..3000 {
        let update = match at % 1000 {
            999 => ToolCallUpdate::new(format!("c{at}")).title("t").into(),
            500..700 => {
                let data = to_base64(&vec![b'a'; at % 7]);
                Update::TerminalOutput(TerminalOutputChunk { terminal_id: "t".into(), data, ..Default::default() })
            }
            at if at < 300 => Update::text(MessageKind::Thought, None, format!("{at} ")),
            _ => text(&format!("{at} ")),
        };
        talk.apply(&update);
        log.stream(update).await.unwrap();
    }
    let end = log.end_turn(StopReason::EndTurn).await.unwrap();
    assert!(end < 300, "3000 updates became {end} rows");
    let mut back = Transcript::new(Dialect::V2);
    for stored in store.load(log.id()).all().await.unwrap() {
        if let Event::Update(update) = stored.event {
            back.apply(&update);
        }
    }
    assert_eq!(back, talk);
}

#[tokio::test]
async fn streamed_text_is_stored_soon_without_another_word() {
    let place = Place::new();
    let store = place.store();
    let log = store.create(new("/w")).await.unwrap();
    log.stream(text("soon")).await.unwrap();
    let deadline = std::time::Instant::now() + Duration::from_secs(10);
    while store.session(log.id()).await.unwrap().events == 0 {
        assert!(std::time::Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_write_at_once() {
    let place = Place::new();
    let store = place.store();
    let mut tasks = tokio::task::JoinSet::new();
    for writer in 0..32 {
        let store = store.clone();
        tasks.spawn(async move {
            let log = store.create(new("/w")).await.unwrap();
            for at in 0..50 {
                if at % 3 == 0 {
                    log.stream(text("piece ")).await.unwrap();
                }
                log.append(vec![said(&format!("{writer} {at}"))]).await.unwrap();
            }
            let id = log.id().clone();
            log.close().await.unwrap();
            let events = store.load(&id).all().await.unwrap();
            (id, events)
        });
    }
    while let Some(done) = tasks.join_next().await {
        let (id, events) = done.unwrap();
        assert_eq!(events.len(), 50 + 17, "{id}");
        assert!(events.iter().zip(1..).all(|(stored, seq)| stored.seq == seq));
    }
    assert_eq!(store.integrity().await.unwrap(), [""; 0]);
}

#[tokio::test]
async fn sessions_are_made_once_and_known_by_all_they_were_given() {
    let place = Place::new();
    let store = place.store();
    let given = NewSession {
        id: Some("mine".into()),
        agent: "claude".into(),
        cwd: "/w".into(),
        directories: vec!["/a b".into(), "/ö\"".into()],
        title: Some("Title".into()),
        options: Some(raw(r#"{"mode":"ask"}"#)),
        meta: Some(raw(r#"{"x":1}"#)),
    };
    let log = store.create(given.clone()).await.unwrap();
    assert_eq!(store.create(given.clone()).await.unwrap_err(), Error::Exists("mine".into()));
    let id: SessionId = "mine".into();
    let session = store.session(&id).await.unwrap();
    assert_eq!(session.directories, given.directories);
    assert_eq!((session.agent.as_str(), session.cwd.as_str()), ("claude", "/w"));
    assert_eq!((session.options, session.meta), (given.options, given.meta));
    assert!(session.created.to_string().ends_with('Z') && session.updated >= session.created);
    assert_eq!(session.state, State::Idle);

    store.set_options(&id, raw(r#"{"mode":"plan"}"#)).await.unwrap();
    store.set_meta(&id, raw("[]")).await.unwrap();
    assert!(store.set_title(&id, Some("From the agent")).await.unwrap());
    store.rename(&id, Some("From the user")).await.unwrap();
    assert!(!store.set_title(&id, Some("From the agent")).await.unwrap());
    let session = store.session(&id).await.unwrap();
    assert_eq!((session.title.as_deref(), session.named), (Some("From the user"), true));
    assert_eq!((session.options, session.meta), (Some(raw(r#"{"mode":"plan"}"#)), Some(raw("[]"))));
    store.rename(&id, None).await.unwrap();
    assert!(store.set_title(&id, Some("Again")).await.unwrap());
    assert_eq!(store.rename(&"nobody".into(), None).await, Err(Error::NotFound("nobody".into())));

    // All of it is still there when the file is opened again.
    log.close().await.unwrap();
    store.close().await.unwrap();
    assert_eq!(place.store().session(&id).await.unwrap().title.as_deref(), Some("Again"));
}

#[tokio::test]
async fn a_lease_keeps_others_out_until_it_is_given_up_or_taken() {
    let place = Place::new();
    let store = place.store();
    let log = turns(&store, "/w", 1).await;
    let id = log.id().clone();
    let refused = store.open_session(&id, Claim::IfFree).await.unwrap_err();
    assert!(matches!(&refused, Error::InUse { session, holder } if *session == id && holder.pid == std::process::id()));
    assert!(refused.to_string().contains("is open in process"), "{refused}");
    // A second handle on the file is no way around.
    let other = place.store();
    assert!(matches!(other.open_session(&id, Claim::IfFree).await, Err(Error::InUse { .. })));

    let taken = other.open_session(&id, Claim::TakeOver).await.unwrap();
    assert!(!taken.interrupted && taken.damage.is_none());
    let lost = log.append(vec![said("late")]).await.unwrap_err();
    assert!(matches!(lost, Error::Lost { .. }), "{lost}");
    log.stream(text("late")).await.unwrap();
    assert!(matches!(log.end_turn(StopReason::EndTurn).await, Err(Error::Lost { .. })));
    taken.log.append(vec![said("mine")]).await.unwrap();
    // Letting go of what is no longer held takes it from nobody.
    drop(log);
    store.clone().close().await.unwrap();
    taken.log.append(vec![said("mine")]).await.unwrap();
    taken.log.close().await.unwrap();

    let log = store.open_session(&id, Claim::IfFree).await.unwrap().log;
    drop(log);
    store.clone().close().await.unwrap();
    assert!(store.session(&id).await.unwrap().holder.is_none());
    assert_eq!(store.load(&id).all().await.unwrap().len(), 6);
}

#[tokio::test]
async fn who_leaves_while_opening_leaves_no_lease() {
    let place = Place::new();
    let store = place.store();
    let log = turns(&store, "/w", 1).await;
    let id = log.id().clone();
    log.close().await.unwrap();
    for wait in 0..200 {
        // Given up at any moment: before it is asked for, while it waits, when it is there.
        let _ = tokio::time::timeout(Duration::from_micros(wait * 20), store.open_session(&id, Claim::IfFree)).await;
        // Whoever comes next finds it free, and need not try again.
        let next = store.open_session(&id, Claim::IfFree).await;
        next.unwrap_or_else(|error| panic!("given up after {wait}: {error}")).log.close().await.unwrap();
    }
}

#[tokio::test]
async fn an_unfinished_turn_is_closed_as_interrupted() {
    let place = Place::new();
    let store = place.store();
    let log = turns(&store, "/w", 1).await;
    let id = log.id().clone();
    log.begin_turn(None, vec!["more".into()]).await.unwrap();
    let call = |id: &str, status| Event::Update(ToolCallUpdate::new(id).title(id).status(status).into());
    log.append(vec![
        call("done", ToolCallStatus::Completed),
        call("asked", ToolCallStatus::Pending),
        call("running", ToolCallStatus::InProgress),
        said("half a sen"),
    ])
    .await
    .unwrap();
    drop(log);
    let opened = store.open_session(&id, Claim::IfFree).await.unwrap();
    assert!(opened.interrupted);
    let events = store.load(&id).all().await.unwrap();
    let mut talk = Transcript::new(Dialect::V2);
    for stored in &events {
        if let Event::Update(update) = &stored.event {
            talk.apply(update);
        }
    }
    let status = |id: &str| talk.tool_call(id).unwrap().status.clone();
    assert_eq!(status("done"), ToolCallStatus::Completed);
    for id in ["asked", "running"] {
        assert_eq!(status(id), ToolCallStatus::Failed);
        assert_eq!(talk.tool_call(id).unwrap().content[0].as_text(), Some("interrupted"));
    }
    let last = events.last().unwrap();
    assert_eq!((&last.event, last.turn), (&Event::TurnEnd { stop: StopReason::Error, interrupted: true }, 2));
    // Once is enough, and half a sentence can be found.
    opened.log.close().await.unwrap();
    assert!(!store.open_session(&id, Claim::IfFree).await.unwrap().interrupted);
    assert_eq!(store.load(&id).all().await.unwrap().len(), events.len());
    assert_eq!(store.search("half a sen", 5).await.unwrap()[0].turn, 2);
}

#[test]
#[cfg(unix)]
fn only_the_user_may_read_it() {
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let place = Place::new();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let store = place.store();
        let _log = turns(&store, "/w", 1).await;
        let folder = place.path.parent().unwrap();
        assert_eq!(mode(folder), 0o700);
        let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
        files.sort();
        assert_eq!(files.len(), 4, "{files:?}");
        for file in files {
            assert_eq!(mode(&file), 0o600, "{}", file.display());
        }
    });
    std::fs::set_permissions(&place.path, std::fs::Permissions::from_mode(0o644)).unwrap();
    drop(place.store());
    assert_eq!(mode(&place.path), 0o600);
}

#[test]
fn what_cannot_be_opened_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "x").unwrap();
    for path in [file.join("store.db"), folder.path().to_owned(), "/proc/tieline/store.db".into()] {
        let error = Store::open(&path).unwrap_err();
        let shown = error.to_string();
        assert!(matches!(error, Error::Open { .. }), "{error:?}");
        assert!(shown.contains(&path.display().to_string()) && shown.contains("nothing is stored"), "{shown}");
    }
}

/// Not a test of speed: it prints figures.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn figures() {
    let place = Place::new();
    let time = std::time::Instant::now();
    place.store().close().await.unwrap();
    let made = time.elapsed();
    let time = std::time::Instant::now();
    let store = place.store();
    println!("store made in {made:?}, opened in {:?}", time.elapsed());
    let log = store.create(new("/w")).await.unwrap();
    let line = "a line of text as a model writes it, about eighty bytes long, more or less so. ";
    let time = std::time::Instant::now();
    for _ in 0..200 {
        log.append(vec![said(line)]).await.unwrap();
    }
    let each = time.elapsed() / 200;
    let time = std::time::Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..64 {
        let store = store.clone();
        tasks.spawn(async move {
            let log = store.create(new("/w")).await.unwrap();
            for _ in 0..100 {
                log.append(vec![said(line)]).await.unwrap();
            }
        });
    }
    while tasks.join_next().await.is_some() {}
    let group = 6400.0 / time.elapsed().as_secs_f64();
    let time = std::time::Instant::now();
    for at in 0..20_000 {
        log.stream(text(&format!("{line}{at}"))).await.unwrap();
    }
    log.end_turn(StopReason::EndTurn).await.unwrap();
    let stream = 20_000.0 / time.elapsed().as_secs_f64();
    let time = std::time::Instant::now();
    for _ in 0..10 {
        log.append((0..1000).map(|_| said(line)).collect()).await.unwrap();
    }
    let batch = 10_000.0 / time.elapsed().as_secs_f64();
    let time = std::time::Instant::now();
    let events = store.load(log.id()).all().await.unwrap().len();
    let load = time.elapsed();
    println!(
        "one durable append {each:?}; 64 writers {group:.0} events/s; streamed {stream:.0} updates/s; \
         batches of 1000 {batch:.0} events/s; {events} events loaded in {load:?}"
    );
}
