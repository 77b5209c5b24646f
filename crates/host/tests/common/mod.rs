//! What the tests of the store share.

#![allow(dead_code, clippy::unwrap_used)]

use std::path::PathBuf;
use tieline_host::store::{Event, NewSession, SessionLog, Store};
use tieline_schema::{MessageKind, Update};

/// A store in a folder of its own.
pub struct Place {
    pub folder: tempfile::TempDir,
    pub path: PathBuf,
}

impl Place {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state/store.db");
        Self { folder, path }
    }

    pub fn store(&self) -> Store {
        Store::open(&self.path).unwrap()
    }
}

pub fn new(cwd: &str) -> NewSession {
    NewSession { agent: "coder".into(), cwd: cwd.into(), ..NewSession::default() }
}

pub fn text(text: &str) -> Update {
    Update::text(MessageKind::Agent, Some("m1".into()), text)
}

pub fn said(words: &str) -> Event {
    Event::Update(text(words))
}

/// A session with a number of whole turns of four events each.
pub async fn turns(store: &Store, cwd: &str, count: usize) -> SessionLog {
    let log = store.create(new(cwd)).await.unwrap();
    for turn in 1..=count {
        log.begin_turn(None, vec![format!("question {turn}").into()]).await.unwrap();
        log.append(vec![said(&format!("answer {turn}"))]).await.unwrap();
        log.end_turn(tieline_schema::StopReason::EndTurn).await.unwrap();
    }
    log
}
