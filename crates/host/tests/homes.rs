//! The two homes of sessions, a file and a database, held to the same promises; then what only a shared one promises.
//! `PostgreSQL` is started for it; without one this is said and only the file is tested.

#![cfg(feature = "postgres")]
#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "../../../scripts/postgres.rs"]
mod postgres;
#[path = "../../../scripts/skipped.rs"]
mod skipped;

use postgres::Cluster;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tieline_host::store::{
    Answer, Change, Claim, Error, Event, Home, ListQuery, Log, NewSession, NodeSettings, Postgres, Retention, State,
    Store,
};
use tieline_schema::{MessageKind, Raw, StopReason, ToolCallStatus, ToolCallUpdate, Update};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

/// However busy the machine is.
const LONG: Duration = Duration::from_mins(1);

/// A place where sessions are, which can be opened more than once.
enum Place {
    File(TempDir),
    Database { _cluster: Arc<Cluster>, address: String },
}

impl Place {
    fn file() -> Self {
        Self::File(tempfile::tempdir().unwrap())
    }

    fn database() -> Option<Self> {
        let cluster = Cluster::get()?;
        let address = cluster.database();
        Some(Self::Database { _cluster: cluster, address })
    }

    async fn open(&self) -> Arc<dyn Home> {
        match self {
            Self::File(folder) => Arc::new(Store::open(folder.path().join("s.db")).unwrap()),
            Self::Database { address, .. } => Arc::new(connect(address, LONG).await),
        }
    }
}

fn settings(lease: Duration) -> NodeSettings {
    let provider = Arc::new(crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(RootCertStore::empty()).with_no_client_auth();
    NodeSettings { lease, tls: TlsConnector::from(Arc::new(config)) }
}

async fn connect(address: &str, lease: Duration) -> Postgres {
    Postgres::connect(address, settings(lease)).await.unwrap()
}

/// Runs a test in each home.
macro_rules! in_both {
    ($($(#[$more:meta])* async fn $name:ident($place:ident) $body:block)*) => { $(
        mod $name {
            use super::*;

            async fn body($place: Place) $body

            #[tokio::test(flavor = "multi_thread")]
            async fn in_a_file() {
                body(Place::file()).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn in_a_database() {
                if let Some(place) = Place::database() {
                    body(place).await;
                }
            }
        }
    )* };
}

fn raw(text: &str) -> Raw {
    Raw::new(text).unwrap()
}

fn new(cwd: &str) -> NewSession {
    NewSession { agent: "coder".into(), cwd: cwd.into(), ..NewSession::default() }
}

fn said(text: &str) -> Event {
    Event::Update(piece(text))
}

fn piece(text: &str) -> Update {
    Update::text(MessageKind::Agent, Some("m".into()), text)
}

fn ended() -> Event {
    Event::TurnEnd { stop: StopReason::EndTurn, interrupted: false }
}

async fn turn(log: &dyn Log, words: &str, answer: &str) {
    log.append(vec![Event::TurnBegin, Event::prompt(words), said(answer), ended()]).await.unwrap();
}

async fn all(home: &dyn Home, id: &str) -> Vec<(u64, Event)> {
    let (mut events, mut seq) = (Vec::new(), 0);
    loop {
        let (page, damage) = home.page(&id.into(), seq).await.unwrap();
        assert_eq!(damage, None);
        let Some(last) = page.last() else { return events };
        seq = last.seq;
        events.extend(page.into_iter().map(|stored| (stored.seq, stored.event)));
    }
}

/// Waits until something is so.
async fn until<T, F: Future<Output = Option<T>>>(mut look: impl FnMut() -> F) -> T {
    let deadline = Instant::now() + LONG;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < deadline, "it never came");
        sleep(Duration::from_millis(20)).await;
    }
}

in_both! {
    async fn every_kind_of_event_comes_back(place) {
        let home = place.open().await;
        let log = home.create(new("/w")).await.unwrap();
        let events = vec![
            Event::Model(raw(r#"{"role":"system"}"#)),
            Event::TurnBegin,
            Event::Prompt { message_id: Some("u1".into()), content: vec!["hello \u{1F980}\0\n".into()] },
            said("hi"),
            Event::Update(ToolCallUpdate::new("c1").title("Read").status(ToolCallStatus::Completed).into()),
            Event::Permission { tool_call_id: "c\"1".into(), decision: raw(r#"{"optionId":"allow"}"#) },
            Event::ToolResult { tool_call_id: "c1".into(), result: raw("null") },
            Event::Other { kind: "compaction".into(), body: raw("[1, 2]") },
            Event::TurnEnd { stop: StopReason::MaxTokens, interrupted: false },
        ];
        assert_eq!(log.append(events.clone()).await.unwrap(), 9);
        let taken = Event::Other { kind: "update".into(), body: raw("{}") };
        assert!(matches!(log.append(vec![taken]).await, Err(Error::Failed(_))));
        assert_eq!(log.append(vec![Event::TurnBegin, said("x")]).await.unwrap(), 11);
        let stored = all(&*home, log.id()).await;
        assert_eq!(stored.iter().map(|(seq, _)| *seq).collect::<Vec<_>>(), (1..=11).collect::<Vec<_>>());
        assert_eq!(stored.into_iter().map(|(_, event)| event).take(9).collect::<Vec<_>>(), events);
        for (seq, start) in [(0, 0), (1, 0), (2, 2), (9, 2), (11, 10)] {
            assert_eq!(home.turn_start(log.id(), seq).await.unwrap(), start, "{seq}");
        }
        let session = home.session(log.id()).await.unwrap();
        assert_eq!((session.events, session.turns, session.state), (11, 2, State::Running));
        assert!(session.holder.is_some());
        assert_eq!(home.page(&"none".into(), 0).await.unwrap_err(), Error::NotFound("none".into()));
    }

    async fn pieces_share_rows_and_come_before_what_is_appended_next(place) {
        let home = place.open().await;
        let log = home.create(new("/w")).await.unwrap();
        for number in 0..100 {
            log.stream(piece(&format!("{number} "))).await.unwrap();
        }
        let seq = log.append(vec![ended()]).await.unwrap();
        assert!(seq < 20, "{seq} rows");
        let stored = all(&*home, log.id()).await;
        let text: String = stored
            .iter()
            .filter_map(|(_, event)| match event {
                Event::Update(Update::Chunk(chunk)) => chunk.content.as_text().map(str::to_owned),
                _ => None,
            })
            .collect();
        let words: Vec<String> = (0..100).map(|number| format!("{number} ")).collect();
        assert_eq!(text, words.concat());
        // What nobody waits for is written all the same.
        log.stream(piece("late")).await.unwrap();
        until(async || (all(&*home, log.id()).await.len() as u64 > seq).then_some(())).await;
    }

    async fn one_has_a_session_until_it_is_let_go_or_taken_over(place) {
        let (home, other) = (place.open().await, place.open().await);
        let log = home.create(new("/w")).await.unwrap();
        let id = log.id().clone();
        turn(&*log, "one", "1").await;
        // At rest: who takes it over stores nothing, and still who had it can't any more.
        let taken = other.open(&id, Claim::TakeOver).await.unwrap();
        assert!(!taken.interrupted);
        assert!(matches!(log.append(vec![said("late")]).await.unwrap_err(), Error::Lost { .. }));
        assert_eq!(all(&*home, &id).await.len(), 4);
        drop(log);
        taken.log.close().await.unwrap();
        let log = home.open(&id, Claim::IfFree).await.unwrap().log;
        log.append(vec![Event::TurnBegin, said("half")]).await.unwrap();
        log.append(vec![Event::Update(ToolCallUpdate::new("c").title("Make").status(ToolCallStatus::InProgress).into())]).await.unwrap();
        assert!(matches!(other.open(&id, Claim::IfFree).await.unwrap_err(), Error::InUse { .. }));
        let taken = other.open(&id, Claim::TakeOver).await.unwrap();
        assert!(taken.interrupted);
        let before = all(&*home, &id).await;
        assert!(matches!(before.last(), Some((_, Event::TurnEnd { interrupted: true, .. }))), "{before:?}");
        assert!(before.iter().any(|(_, event)| matches!(event, Event::Update(Update::ToolCall(call)) if call.status.set() == Some(&ToolCallStatus::Failed))));
        // Who was replaced stores nothing, in whatever way.
        let refused = log.append(vec![said("late")]).await.unwrap_err();
        assert!(matches!(refused, Error::Lost { .. }) && refused.to_string().contains("taken over"), "{refused}");
        let _ = log.stream(piece("later")).await;
        log.append(Vec::new()).await.unwrap_err();
        drop(log);
        assert_eq!(all(&*home, &id).await, before);
        taken.log.append(vec![said("on")]).await.unwrap();
        taken.log.close().await.unwrap();
        let again = home.open(&id, Claim::IfFree).await.unwrap();
        assert!(!again.interrupted);
        assert_eq!(again.log.append(vec![said("more")]).await.unwrap(), before.len() as u64 + 2);
    }

    async fn sessions_are_listed_found_changed_and_deleted(place) {
        let home = place.open().await;
        let one = home.create(new("/one")).await.unwrap();
        let two = home.create(NewSession { id: Some("mine".into()), ..new("/two") }).await.unwrap();
        assert_eq!(home.create(NewSession { id: Some("mine".into()), ..new("/x") }).await.unwrap_err(), Error::Exists("mine".into()));
        turn(&*two, "where is the Zwiebelkuchen", "in the oven_rack").await;
        turn(&*one, "what is it", "50% of a thing").await;
        let ids = |page: tieline_host::store::Page| page.sessions.into_iter().map(|session| session.id.to_string()).collect::<Vec<_>>();
        let query = ListQuery { begun: true, limit: 1, ..ListQuery::default() };
        let first = home.list(query.clone()).await.unwrap();
        let next = first.next.clone();
        assert_eq!(ids(first), [one.id().to_string()]);
        let second = home.list(ListQuery { cursor: next, ..query }).await.unwrap();
        assert_eq!((second.next.clone(), ids(second)), (None, vec!["mine".to_owned()]));
        assert_eq!(ids(home.list(ListQuery { cwd: Some("/two".into()), ..ListQuery::default() }).await.unwrap()), ["mine"]);
        assert_eq!(home.list(ListQuery { cursor: Some("x".into()), ..ListQuery::default() }).await.unwrap_err(), Error::Cursor);

        assert!(home.change(two.id(), Change::Title(Some("by the agent".into()))).await.unwrap());
        assert!(home.change(two.id(), Change::Name(Some("cake".into()))).await.unwrap());
        assert!(!home.change(two.id(), Change::Title(Some("again".into()))).await.unwrap());
        assert!(home.change(two.id(), Change::Meta(raw(r#"{"a":1}"#))).await.unwrap());
        let session = home.session(two.id()).await.unwrap();
        assert_eq!((session.name(), session.meta.clone()), (Some("cake"), Some(raw(r#"{"a":1}"#))));
        for (text, want) in [("mine", 1), ("cake", 1), ("min", 1), ("ine", 1), ("nothing", 0), ("", 0)] {
            assert_eq!(home.matching(text, "/two", 5).await.unwrap().len(), want, "{text}");
        }
        for (text, want) in [("zwiebelkuchen", Some("mine")), ("zwieb", Some("mine")), ("oven_rack", Some("mine")), ("belkuch", Some("mine")),
            ("0% of", Some(one.id().as_str())), ("cake", Some("mine")), ("nowhere", None), ("\"un'closed | (", None), ("  ", None)]
        {
            // What was said is put into the search beside the turn.
            let found = async || {
                let hits = home.search(text, 10).await.unwrap();
                let found = hits.first().map(|hit| hit.session.id.to_string());
                (found.as_deref() == want).then_some(())
            };
            timeout(LONG, until(found)).await.unwrap_or_else(|_| panic!("{text}"));
        }
        assert_eq!(home.with_event("turn_end", Some("/two"), 5).await.unwrap().len(), 1);
        assert_eq!(home.with_event("changes", None, 5).await.unwrap().len(), 0);

        one.close().await.unwrap();
        let gone = home.retain(Retention { max_count: Some(1), ..Retention::default() }).await.unwrap();
        // What is open is kept, however old.
        assert!(gone.len() <= 1 && !gone.contains(&"mine".into()), "{gone:?}");
        home.delete(two.id()).await.unwrap();
        assert_eq!(two.append(vec![said("x")]).await.unwrap_err(), Error::NotFound("mine".into()));
        assert_eq!(home.delete(&"mine".into()).await.unwrap_err(), Error::NotFound("mine".into()));
    }

    async fn who_follows_is_told_whoever_writes(place) {
        let (home, other) = (place.open().await, place.open().await);
        let log = home.create(new("/w")).await.unwrap();
        let mut follow = other.follow(log.id());
        for seq in 1..20 {
            log.append(vec![said("x")]).await.unwrap();
            timeout(LONG, follow.behind(seq - 1)).await.unwrap();
            assert_eq!(other.page(log.id(), seq - 1).await.unwrap().0.len(), 1);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tables_are_made_once_and_newer_ones_are_left_alone() {
    let Some(cluster) = Cluster::get() else { return };
    let address = cluster.database();
    let (one, two) = tokio::join!(connect(&address, LONG), connect(&address, LONG));
    drop((one, two));
    assert_eq!(cluster.sql(&address, "SELECT version FROM tieline.layout"), "1");
    cluster.sql(&address, "INSERT INTO tieline.layout VALUES (99)");
    let refused = Postgres::connect(&address, settings(LONG)).await.unwrap_err().to_string();
    assert!(refused.contains("newer Tieline (layout 99"), "{refused}");
    let refused =
        Postgres::connect("postgres://nobody:s3cret@127.0.0.1:1/x", settings(LONG)).await.unwrap_err().to_string();
    assert!(!refused.contains("s3cret"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_is_not_renewed_runs_out() {
    let Some(cluster) = Cluster::get() else { return };
    let address = cluster.database();
    let (home, other) = (connect(&address, Duration::from_secs(3)).await, connect(&address, LONG).await);
    let log = home.create(new("/w")).await.unwrap();
    let id = log.id().clone();
    log.append(vec![said("a")]).await.unwrap();
    let fate = home.shared().unwrap().taken_away(&id);
    // Renewed for longer than it lasts: it stays.
    sleep(Duration::from_secs(4)).await;
    assert!(matches!(other.open(&id, Claim::IfFree).await.unwrap_err(), Error::InUse { .. }));
    // As if its owner had been silent for that long.
    cluster.sql(&address, "UPDATE tieline.session SET until = now() - interval '1 second'");
    let taken = until(async || match other.open(&id, Claim::IfFree).await {
        Ok(taken) => Some(taken),
        // It was renewed in between.
        Err(_) => {
            cluster.sql(&address, "UPDATE tieline.session SET until = now() - interval '1 second'");
            None
        }
    });
    let taken = taken.await;
    assert!(matches!(timeout(LONG, fate).await.unwrap(), Error::Lost { .. }));
    log.append(vec![said("b")]).await.unwrap_err();
    taken.log.append(vec![said("c")]).await.unwrap();
    assert_eq!(all(&other, &id).await, [(1, said("a")), (2, said("c"))]);
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_are_taken_once_by_whoever_has_the_session() {
    let Some(cluster) = Cluster::get() else { return };
    let address = cluster.database();
    let (home, other) = (connect(&address, LONG).await, connect(&address, LONG).await);
    let log = home.create(new("/w")).await.unwrap();
    let id = log.id().clone();
    let (asking, answering) = (other.shared().unwrap(), home.shared().unwrap());
    let answer = async {
        let commands = answering.commands().await.unwrap();
        assert_eq!((commands.len(), &*commands[0].body, &commands[0].session), (1, "do", &id));
        answering.answer(commands[0].number, "done".into()).await.unwrap();
    };
    let (asked, ()) = tokio::join!(asking.ask(&id, "do".into(), LONG), answer);
    assert_eq!(asked.unwrap(), Answer::Given("done".into()));

    // Taken by one who is replaced before it answers: nobody does it again.
    let lost = async {
        answering.commands().await.unwrap();
        other.open(&id, Claim::TakeOver).await.unwrap()
    };
    let (asked, opened) = tokio::join!(asking.ask(&id, "do".into(), LONG), lost);
    assert!(matches!(asked.unwrap(), Answer::None(why) if why.contains("is gone")));
    timeout(Duration::from_millis(1500), asking.commands()).await.unwrap_err();
    // Nobody takes it in time.
    let asked = asking.ask(&id, "do".into(), Duration::from_millis(10)).await.unwrap();
    assert!(matches!(asked, Answer::None(why) if why.contains("does not answer")));
    opened.log.close().await.unwrap();
    assert_eq!(asking.ask(&id, "do".into(), LONG).await.unwrap(), Answer::Nobody);
    assert_eq!(cluster.sql(&address, "SELECT count(*) FROM tieline.inbox"), "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_survives_the_database_and_is_there_once() {
    let Some(cluster) = Cluster::start() else { return };
    let address = cluster.database();
    let home = connect(&address, Duration::from_secs(40)).await;
    let log = home.create(new("/w")).await.unwrap();
    let id = log.id().clone();
    let writing = tokio::spawn(async move {
        let mut last = 0;
        for number in 0..400 {
            last = log.append(vec![said(&number.to_string())]).await.unwrap();
        }
        (log, last)
    });
    for at in [30, 150] {
        until(async || home.session(&id).await.is_ok_and(|session| session.events > at).then_some(())).await;
        cluster.stop();
        cluster.start_again();
    }
    let (log, last) = timeout(LONG, writing).await.unwrap().unwrap();
    assert_eq!(last, 400);
    let stored: Vec<Event> = all(&home, &id).await.into_iter().map(|(_, event)| event).collect();
    assert_eq!(stored, (0..400).map(|number| said(&number.to_string())).collect::<Vec<_>>());
    drop(log);
}

/// Stands between a node and the database; can swallow what the database says, and cut all connections.
struct Between {
    address: String,
    mute: Arc<AtomicBool>,
    cut: watch::Sender<u32>,
}

impl Between {
    async fn of(address: &str) -> Self {
        let place = address.split(['@', '/']).find(|part| part.starts_with("127.0.0.1:")).unwrap().to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let here = listener.local_addr().unwrap().to_string();
        let (mute, cut) = (Arc::new(AtomicBool::new(false)), watch::Sender::new(0));
        let (address, muted, cuts) = (address.replace(&place, &here), Arc::clone(&mute), cut.clone());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (muted, mut cut, server) = (Arc::clone(&muted), cuts.subscribe(), TcpStream::connect(&place).await);
                let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
                    (client.into_split(), server.unwrap().into_split());
                tokio::spawn(async move {
                    let back = async {
                        let mut buffer = [0; 4096];
                        while let Ok(count @ 1..) = from_server.read(&mut buffer).await {
                            if !muted.load(Ordering::Relaxed) && to_client.write_all(&buffer[..count]).await.is_err() {
                                break;
                            }
                        }
                    };
                    tokio::select! {
                        _ = tokio::io::copy(&mut from_client, &mut to_server) => {}
                        () = back => {}
                        _ = cut.changed() => {}
                    }
                });
            }
        });
        Self { address, mute, cut }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_append_whose_answer_is_lost_is_there_once() {
    let Some(cluster) = Cluster::get() else { return };
    let direct = cluster.database();
    let between = Between::of(&direct).await;
    let home = connect(&between.address, LONG).await;
    let log: Arc<dyn Log> = home.create(new("/w")).await.unwrap().into();
    log.append(vec![said("a")]).await.unwrap();
    between.mute.store(true, Ordering::Relaxed);
    let writing = tokio::spawn({
        let log = Arc::clone(&log);
        async move { log.append(vec![said("b"), said("c")]).await }
    });
    until(async || (cluster.sql(&direct, "SELECT head FROM tieline.session") == "3").then_some(())).await;
    assert!(!writing.is_finished());
    between.mute.store(false, Ordering::Relaxed);
    between.cut.send_modify(|cuts| *cuts += 1);
    assert_eq!(timeout(LONG, writing).await.unwrap().unwrap(), Ok(3));
    assert_eq!(log.append(vec![said("d")]).await, Ok(4));
    let texts: Vec<Event> = all(&home, log.id()).await.into_iter().map(|(_, event)| event).collect();
    assert_eq!(texts, ["a", "b", "c", "d"].map(said));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_its_database_gives_its_sessions_up_and_says_so() {
    let Some(cluster) = Cluster::start() else { return };
    let address = cluster.database();
    let home = connect(&address, Duration::from_secs(3)).await;
    let log = home.create(new("/w")).await.unwrap();
    let id = log.id().clone();
    log.append(vec![said("a")]).await.unwrap();
    let fate = home.shared().unwrap().taken_away(&id);
    assert_eq!(home.shared().unwrap().unreachable(), None);
    cluster.stop();
    let why = timeout(LONG, fate).await.unwrap().to_string();
    assert!(why.contains("has not answered for"), "{why}");
    until(async || home.shared().unwrap().unreachable()).await;
    cluster.start_again();
    // Nobody else has it, and still: who gave it up stores nothing.
    log.append(vec![said("b")]).await.unwrap_err();
    let again = until(async || home.open(&id, Claim::TakeOver).await.ok()).await;
    again.log.append(vec![said("c")]).await.unwrap();
    assert_eq!(all(&home, &id).await, [(1, said("a")), (2, said("c"))]);
}
