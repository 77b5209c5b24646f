//! The doorbell between nodes: what was stored is told by `NOTIFY`, many in one and beside the appends; what was missed is looked for.

use super::{Inner, Postgres};
use crate::store::Result;
use crate::store::follow::{followed, stored};
use std::collections::HashMap;
use std::future::poll_fn;
use std::path::Path;
use std::sync::{Mutex, Weak};
use std::time::Duration;
use tieline_rpc::sync::Lock as _;
use tieline_schema::SessionId;
use tokio::sync::Notify;
use tokio::time::{MissedTickBehavior, interval, sleep};
use tokio_postgres::{AsyncMessage, Client};

/// It rings at most this often.
const EVERY: Duration = Duration::from_millis(5);
/// How often it is looked for what was not heard.
pub(super) const POLL: Duration = Duration::from_secs(1);
/// A notification takes less than 8,000 bytes.
const MAX_BYTES: usize = 7000;
/// What stands for commands, in the place of a session.
pub(super) const COMMANDS: &str = "?";

/// What is to be told, and who tells it.
#[derive(Default)]
pub(super) struct Bell {
    rings: Mutex<HashMap<String, i64>>,
    wake: Notify,
}

impl Bell {
    /// Something has come to this place: a session, a command, an answer.
    pub(super) fn tell(&self, what: &str, upto: i64) {
        if !what.contains('\n') && what.len() < MAX_BYTES / 2 {
            self.rings.locked().insert(what.to_owned(), upto);
            self.wake.notify_one();
        }
    }

    /// What is to be told, in pieces that fit.
    fn payloads(&self) -> Vec<String> {
        let mut pieces = vec![String::new()];
        for (what, upto) in self.rings.locked().drain() {
            let line = format!("{upto} {what}\n");
            match pieces.last_mut() {
                Some(last) if last.len() + line.len() <= MAX_BYTES => last.push_str(&line),
                _ => pieces.push(line),
            }
        }
        pieces.retain(|piece| !piece.is_empty());
        pieces
    }
}

/// Passes on what a notification tells to those who follow it here.
fn hear(name: &Path, payload: &str) {
    let told: HashMap<&str, u64> = payload
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(upto, what)| Some((what, upto.parse().ok()?)))
        .collect();
    for (what, head) in followed(name) {
        match told.get(what.as_str()) {
            Some(_) if what.as_str() == COMMANDS => head.send_modify(|count| *count += 1),
            Some(upto) => stored(&head, *upto),
            None => {}
        }
    }
}

/// Rings and listens, on a connection of its own, for as long as the home is there.
pub(super) async fn ring(inner: Weak<Inner>) {
    while let Some(home) = inner.upgrade().map(Postgres) {
        let connected = home.0.lanes.connect().await;
        drop(home);
        if let Ok((client, mut connection)) = connected {
            let Some(name) = inner.upgrade().map(|inner| inner.name.clone()) else { return };
            let listening = async {
                while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
                    if let AsyncMessage::Notification(told) = message {
                        hear(&name, told.payload());
                    }
                }
            };
            tokio::select! {
                () = listening => {}
                done = work(&inner, &client) => if let Err(error) = done {
                    tracing::debug!(%error, "the doorbell is silent");
                },
            }
        }
        sleep(POLL / 2).await;
    }
}

async fn work(inner: &Weak<Inner>, client: &Client) -> Result<()> {
    let failed = |error: tokio_postgres::Error| super::failed(&error);
    // A bell that is lost in a crash of the database is heard by nobody anyway.
    client.batch_execute("SET synchronous_commit = off; LISTEN tieline").await.map_err(failed)?;
    let mut polls = interval(POLL);
    polls.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let Some(bell) = inner.upgrade().map(|inner| inner.bell.clone()) else { return Ok(()) };
    loop {
        let poll = tokio::select! {
            _ = polls.tick() => true,
            () = bell.wake.notified() => false,
        };
        // Not held while nothing is to be done: it ends with its last handle.
        let Some(home) = inner.upgrade() else { return Ok(()) };
        if poll {
            let (ids, heads): (Vec<_>, Vec<_>) = followed(&home.name).into_iter().unzip();
            let ids: Vec<&str> = ids.iter().map(SessionId::as_str).collect();
            let sql = "SELECT id, head FROM tieline.session WHERE id = ANY ($1)";
            for row in client.query(sql, &[&ids]).await.map_err(failed)? {
                if let Some(at) = ids.iter().position(|id| *id == row.get::<_, &str>(0)) {
                    stored(&heads[at], row.get::<_, i64>(1).cast_unsigned());
                }
            }
        } else {
            sleep(EVERY).await;
            for payload in bell.payloads() {
                client.execute("SELECT pg_notify('tieline', $1)", &[&payload]).await.map_err(failed)?;
            }
        }
    }
}
