//! What the other processes of the crash tests do.

use super::common::{new, said, text};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{BufRead, Write};
use std::path::Path;
use tieline_host::store::{Claim, Error, Event, NewSession, SessionLog, Store};
use tieline_schema::{Raw, SessionId, StopReason, ToolCallStatus, ToolCallUpdate};

pub async fn play(role: &str, path: &Path) {
    match role {
        "writer" => writer(path).await,
        "holder" => holder(path).await,
        "fighter" => fighter(path).await,
        "crowd" => crowd(path).await,
        "full" => full(path, false).await,
        "limited" => full(path, true).await,
        "once" => drop(Store::open(path).unwrap().create(new("/w")).await.unwrap()),
        "denied" => denied(path),
        _ => panic!("{role}"),
    }
}

/// One write for each line, so that it is said whole or not at all.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{line}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

/// Writes turns to two sessions, and makes and deletes others, until it is killed. Says what was acknowledged.
async fn writer(path: &Path) {
    let store = Store::open(path).unwrap();
    tokio::join!(write(&store, "first"), write(&store, "second"), clutter(&store));
}

async fn write(store: &Store, name: &str) {
    let id: SessionId = name.into();
    let session = NewSession { id: Some(id.clone()), ..new("/w") };
    let log = match store.create(session).await {
        Ok(log) => log,
        Err(Error::Exists(_)) => {
            let opened = store.open_session(&id, Claim::IfFree).await.unwrap();
            if opened.interrupted {
                say(&format!("closed {name}"));
            }
            opened.log
        }
        Err(error) => panic!("{error}"),
    };
    let events = store.load(&id).all().await.unwrap();
    let mut number = events.iter().filter(|stored| matches!(stored.event, Event::Other { .. })).count();
    let call =
        |id: usize, status| Event::Update(ToolCallUpdate::new(format!("c{id}")).title("t").status(status).into());
    loop {
        log.begin_turn(None, vec![format!("prompt {number}").into()]).await.unwrap();
        for _ in 0..3 {
            number += 1;
            for _ in 0..5 {
                log.stream(text("some words ")).await.unwrap();
            }
            let mark = Event::Other { kind: "mark".into(), body: Raw::new(number.to_string()).unwrap() };
            log.append(vec![call(number, ToolCallStatus::InProgress), mark]).await.unwrap();
            say(&format!("ack {name} {number}"));
            log.append(vec![call(number, ToolCallStatus::Completed)]).await.unwrap();
        }
        log.end_turn(StopReason::EndTurn).await.unwrap();
    }
}

async fn clutter(store: &Store) {
    loop {
        let log = store.create(new("/clutter")).await.unwrap();
        log.append(vec![Event::prompt("x".repeat(200_000))]).await.unwrap();
        let id = log.id().clone();
        log.close().await.unwrap();
        store.delete(&id).await.unwrap();
        say(&format!("deleted {id}"));
    }
}

/// Has a session open in the middle of a turn, and writes to it when told so.
async fn holder(path: &Path) {
    let store = Store::open(path).unwrap();
    let log = store.create(new("/w")).await.unwrap();
    log.begin_turn(None, vec!["hold".into()]).await.unwrap();
    say(log.id());
    for line in std::io::stdin().lock().lines() {
        line.unwrap();
        say(&format!("{:?}", log.append(vec![said("late")]).await.map_err(|error| error.to_string())));
    }
}

/// Takes a session from whoever has it, again and again.
async fn fighter(path: &Path) {
    let store = Store::open(path).unwrap();
    for round in 0..30 {
        let log = match store.open_session(&"fought-over".into(), Claim::TakeOver).await {
            Ok(opened) => opened.log,
            // Lost again, before the session was in order.
            Err(Error::Lost { .. }) => continue,
            Err(error) => panic!("{error}"),
        };
        for at in 0..5 {
            let name = format!("{}-{round}-{at}", std::process::id());
            match log.append(vec![Event::Model(Raw::new(format!("\"{name}\"")).unwrap())]).await {
                Ok(_) => say(&name),
                Err(Error::Lost { .. }) => break,
                Err(error) => panic!("{error}"),
            }
        }
    }
}

async fn crowd(path: &Path) {
    let store = Store::open(path).unwrap();
    let mut logs: Vec<SessionLog> = Vec::new();
    for _ in 0..5 {
        logs.push(store.create(new("/w")).await.unwrap());
    }
    for at in 0..10 {
        for log in &logs {
            log.append(vec![said(&at.to_string())]).await.unwrap();
        }
    }
    say("done");
}

/// Writes until there is no space, goes on when there is.
async fn full(path: &Path, limited: bool) {
    let ballast = path.with_file_name("ballast");
    if !limited {
        std::fs::write(&ballast, vec![1; 1 << 20]).unwrap();
    }
    let store = Store::open(path).unwrap();
    let log = store.create(new("/w")).await.unwrap();
    let large = "z".repeat(50_000);
    let mut last = log.begin_turn(None, vec!["fill the disk".into()]).await.unwrap();
    let refused = loop {
        match log.append(vec![said(&format!("{last} {large}"))]).await {
            Ok(seq) => last = seq,
            Err(error) => break error,
        }
        assert!(last < 1000, "the disk does not get full");
    };
    assert!(refused.to_string().contains("nothing was stored"), "{refused}");
    assert!(limited || refused == Error::Full, "{refused:?}");
    // What was streamed and could not be stored is told with the next word; then it is told no more.
    log.stream(text(&large)).await.unwrap();
    log.append(vec![said(&large)]).await.unwrap_err();
    let again = log.append(vec![said(&large)]).await.unwrap_err();
    assert_eq!(again, refused);
    // Reading still works, and nothing half is there.
    assert_eq!(store.load(log.id()).all().await.unwrap().len() as u64, last);
    assert_eq!(store.integrity().await.unwrap(), [""; 0]);

    if limited {
        let limit = getrlimit(Resource::Fsize);
        setrlimit(Resource::Fsize, Rlimit { current: limit.maximum, ..limit }).unwrap();
    } else {
        std::fs::remove_file(&ballast).unwrap();
    }
    assert_eq!(log.append(vec![said("space again")]).await.unwrap(), last + 1);
    assert_eq!(log.end_turn(StopReason::EndTurn).await.unwrap(), last + 2);
    log.close().await.unwrap();
    assert_eq!(store.integrity().await.unwrap(), [""; 0]);
    store.close().await.unwrap();
    say("well");
}

fn denied(path: &Path) {
    let error = Store::open(path).unwrap_err();
    let shown = error.to_string();
    assert!(matches!(error, Error::Open { .. } | Error::ReadOnly), "{error:?}");
    assert!(shown.contains("Read-only file system") && shown.contains("nothing is stored"), "{shown}");
    say("well");
}
