//! Commands from one node to another, by way of a table: taken once, by whoever has the session then, and answered there.

use super::bell::{COMMANDS, POLL};
use super::{Postgres, find};
use crate::store::{Answer, Command, Doing, Error, Result, Shared, new_id};
use std::pin::Pin;
use std::time::Duration;
use tieline_rpc::sync::Lock as _;
use tieline_schema::SessionId;
use tokio::time::{Instant, timeout};

/// So many commands wait for one session.
const MAX_WAITING: i64 = 64;

impl Postgres {
    /// Takes a command back that nobody has taken. False if somebody has.
    async fn withdraw(&self, name: &str) -> Result<bool> {
        let sql = "DELETE FROM tieline.inbox WHERE name = $1 AND taken IS NULL RETURNING 1";
        Ok(!self.0.lanes.ask(0, sql, &[&name]).await?.is_empty())
    }

    async fn send(&self, id: &SessionId, command: &str, limit: Duration) -> Result<Answer> {
        let (name, begun) = (format!("{}-{}", new_id(), new_id()), Instant::now());
        let mut answered = self.watch(&format!("!{name}"));
        let sql = "INSERT INTO tieline.inbox (name, session, body) SELECT $1, key, $3 FROM tieline.session
            WHERE id = $2 AND (SELECT count(*) FROM tieline.inbox WHERE session = key AND taken IS NULL) < $4
            ON CONFLICT (name) DO NOTHING";
        self.0.lanes.ask(0, sql, &[&name, &id.as_str(), &command, &MAX_WAITING]).await?;
        self.0.bell.tell(COMMANDS, 1);
        loop {
            let sql = "SELECT answer, gone, taken IS NOT NULL FROM tieline.inbox WHERE name = $1";
            let Some(row) = self.0.lanes.ask(0, sql, &[&name]).await?.pop() else {
                return Ok(Answer::None("too many commands wait for the session, or it is gone"));
            };
            let (answer, gone, taken): (Option<String>, bool, bool) = (row.get(0), row.get(1), row.get(2));
            if answer.is_some() || gone {
                self.0.lanes.ask(0, "DELETE FROM tieline.inbox WHERE name = $1", &[&name]).await?;
                let none = "the node that had the session is gone; it may or may not have begun this";
                return Ok(answer.map_or(Answer::None(none), Answer::Given));
            }
            if !taken && find::session(self, id).await?.holder.is_none() && self.withdraw(&name).await? {
                return Ok(Answer::Nobody);
            }
            if begun.elapsed() > limit && (taken || self.withdraw(&name).await?) {
                return Ok(Answer::None("the node that has the session does not answer"));
            }
            let _ = timeout(POLL, answered.behind(0)).await;
        }
    }

    async fn take(&self) -> Result<Vec<Command>> {
        let mut bell = self.watch(COMMANDS);
        let mut heard = bell.now();
        loop {
            let holds = self.0.holds();
            let (keys, epochs): (Vec<i64>, Vec<i64>) = holds.iter().map(|hold| (hold.key, hold.epoch)).unzip();
            // The rows of the sessions are held meanwhile: none of them changes its owner.
            let sql = "WITH mine AS (
                    SELECT s.key, s.epoch FROM tieline.session s
                    JOIN unnest($1::bigint[], $2::bigint[]) AS m (key, epoch) ON s.key = m.key AND s.epoch = m.epoch
                    WHERE EXISTS (SELECT FROM tieline.inbox i WHERE i.session = s.key AND i.taken IS NULL) FOR SHARE OF s)
                UPDATE tieline.inbox i SET taken = mine.epoch FROM mine WHERE i.session = mine.key AND i.taken IS NULL
                RETURNING i.number, i.session, i.body";
            let rows = if keys.is_empty() { Vec::new() } else { self.0.lanes.ask(1, sql, &[&keys, &epochs]).await? };
            let mut taken: Vec<Command> = Vec::new();
            for row in rows {
                let key: i64 = row.get(1);
                let session = holds.iter().find(|hold| hold.key == key).map(|hold| hold.session.clone());
                taken.extend(session.map(|session| Command { number: row.get(0), session, body: row.get(2) }));
            }
            if !taken.is_empty() {
                taken.sort_by_key(|command| command.number);
                return Ok(taken);
            }
            let _ = timeout(POLL, bell.behind(heard)).await;
            heard = bell.now();
        }
    }
}

impl Shared for Postgres {
    fn ask<'a>(&'a self, id: &'a SessionId, command: String, limit: Duration) -> Doing<'a, Answer> {
        Box::pin(async move { self.send(id, &command, limit).await })
    }

    fn commands(&self) -> Doing<'_, Vec<Command>> {
        Box::pin(self.take())
    }

    fn answer(&self, command: i64, answer: String) -> Doing<'_, ()> {
        Box::pin(async move {
            let sql = "UPDATE tieline.inbox SET answer = $2 WHERE number = $1 AND answer IS NULL RETURNING name";
            for row in self.0.lanes.ask(1, sql, &[&command, &answer]).await? {
                self.0.bell.tell(&format!("!{}", row.get::<_, &str>(0)), 1);
            }
            Ok(())
        })
    }

    fn taken_away(&self, id: &SessionId) -> Pin<Box<dyn Future<Output = Error> + Send>> {
        let fate = self.0.holds().into_iter().find(|hold| hold.session == *id).map(|hold| hold.fate.subscribe());
        Box::pin(async move {
            let Some(mut fate) = fate else { return std::future::pending().await };
            let why = fate.wait_for(Option::is_some).await.ok().and_then(|why| why.clone());
            match why {
                Some(why) => why,
                // It was let go.
                None => std::future::pending().await,
            }
        })
    }

    fn unreachable(&self) -> Option<Duration> {
        // One renewal may be late.
        let since = self.0.reached.locked().elapsed();
        (since > self.0.lease / 3 + self.0.lanes.limit()).then_some(since)
    }
}
