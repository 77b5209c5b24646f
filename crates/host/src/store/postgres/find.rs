//! What is read of the database, and changed beside the logs.

use super::Postgres;
use super::log::plain;
use crate::store::event::checksum;
use crate::store::list::{DEFAULT_LIMIT, MAX_LIMIT, around, cursor};
use crate::store::{
    Change, Claim, Damage, Doing, Error, Event, Follow, Hit, Holder, Home, ListQuery, Log, NewSession, Opened, Page,
    Result, Retention, Session, Shared, State, Stored, Time,
};
use std::sync::Arc;
use tieline_schema::{Raw, SessionId, from_json};
use tokio::time::timeout;
use tokio_postgres::Row;

/// How much of a log is read at once, in rows and bytes.
const PAGE_ROWS: i64 = 512;
const PAGE_BYTES: i64 = 1 << 20;

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT id, agent, cwd, directories, title, named, created, updated, running, options, meta, head, turn, bytes,
             coalesce(until >= now(), false), pid, start, host, boot, space, since, touched, epoch FROM tieline.session ",
            $rest
        )
    };
}

const HELD: usize = 14;
const TOUCHED: usize = 21;
const EPOCH: usize = 22;

fn read(row: &Row) -> Session {
    let raw = |at| row.get::<_, Option<String>>(at).and_then(|text| Raw::new(text).ok());
    let count = |at| row.get::<_, i64>(at).max(0).cast_unsigned();
    let holder = row.get::<_, bool>(HELD).then(|| Holder {
        pid: u32::try_from(row.get::<_, i64>(HELD + 1)).unwrap_or(0),
        start: row.get::<_, i64>(HELD + 2).cast_unsigned(),
        host: row.get(HELD + 3),
        boot: row.get(HELD + 4),
        space: row.get(HELD + 5),
        since: Time(row.get(HELD + 6)),
    });
    let holder = holder.filter(Holder::may_live);
    Session {
        id: row.get::<_, String>(0).into(),
        agent: row.get(1),
        cwd: row.get(2),
        directories: from_json(row.get(3)).unwrap_or_default(),
        title: row.get(4),
        named: row.get(5),
        created: Time(row.get(6)),
        updated: Time(row.get(7)),
        state: match (row.get(8), &holder) {
            (false, _) => State::Idle,
            (true, Some(_)) => State::Running,
            (true, None) => State::Interrupted,
        },
        options: raw(9),
        meta: raw(10),
        events: count(11),
        turns: count(12),
        bytes: count(13),
        holder,
    }
}

pub(super) async fn with_epoch(home: &Postgres, id: &SessionId) -> Result<(Session, i64)> {
    let rows = home.0.lanes.ask(2, select!("WHERE id = $1"), &[&id.as_str()]).await?;
    rows.first().map(|row| (read(row), row.get(EPOCH))).ok_or_else(|| Error::NotFound(id.clone()))
}

pub(super) async fn session(home: &Postgres, id: &SessionId) -> Result<Session> {
    Ok(with_epoch(home, id).await?.0)
}

/// A page of the events behind this one. One that is damaged is an error: nobody but the database writes its files.
pub(super) async fn page(home: &Postgres, id: &SessionId, after: u64) -> Result<Vec<Stored>> {
    let sql = "SELECT seq, turn, time, kind, body, crc FROM (
            SELECT *, sum(octet_length(body)) OVER (ORDER BY seq) - octet_length(body) AS before FROM (
                SELECT * FROM tieline.event WHERE session = (SELECT key FROM tieline.session WHERE id = $1) AND seq > $2
                ORDER BY seq LIMIT $3) AS rows) AS sums
        WHERE before < $4 ORDER BY seq";
    let after = i64::try_from(after).unwrap_or(i64::MAX);
    let rows = home.0.lanes.ask(3, sql, &[&id.as_str(), &after, &PAGE_ROWS, &PAGE_BYTES]).await?;
    if rows.is_empty() {
        session(home, id).await?;
    }
    let mut page = Vec::with_capacity(rows.len());
    for (row, want) in rows.iter().zip(after + 1..) {
        let (seq, turn, kind, body): (i64, i64, &str, &str) = (row.get(0), row.get(1), row.get(3), row.get(4));
        if seq != want || row.get::<_, i64>(5) != i64::from(checksum(seq, turn, kind, body)) {
            return Err(Error::Failed(format!("event {want} of session {id} is damaged in the database")));
        }
        let event = Event::read(kind, body);
        page.push(Stored { seq: seq.cast_unsigned(), turn: turn.cast_unsigned(), time: Time(row.get(2)), event });
    }
    Ok(page)
}

fn limited(limit: usize) -> i64 {
    i64::try_from(limit.clamp(1, MAX_LIMIT)).unwrap_or(1)
}

impl Postgres {
    async fn listed(&self, query: ListQuery) -> Result<Page> {
        let before = cursor(query.cursor.as_deref())?;
        let limit = if query.limit == 0 { DEFAULT_LIMIT } else { query.limit.min(MAX_LIMIT) };
        let sql = select!(
            "WHERE touched < $1 AND ($2::text IS NULL OR cwd = $2) AND ($3::text IS NULL OR agent = $3) AND turn >= $4
             ORDER BY touched DESC LIMIT $5"
        );
        let most = i64::try_from(limit + 1).unwrap_or(i64::MAX);
        let rows =
            self.0.lanes.ask(2, sql, &[&before, &query.cwd, &query.agent, &i64::from(query.begun), &most]).await?;
        let next = rows.get(limit).and(rows.get(limit - 1)).map(|row| format!("c{}", row.get::<_, i64>(TOUCHED)));
        Ok(Page { sessions: rows.iter().take(limit).map(read).collect(), next })
    }

    async fn fitting(&self, text: &str, here: &str, limit: usize) -> Result<Vec<Session>> {
        if text.is_empty() {
            return Ok(Vec::new());
        }
        for sql in [
            select!("WHERE id = $1 ORDER BY cwd = $2 DESC, touched DESC LIMIT $3"),
            select!("WHERE named AND title = $1 ORDER BY cwd = $2 DESC, touched DESC LIMIT $3"),
            select!(
                "WHERE left(id, length($1)) = $1 OR right(id, length($1)) = $1 ORDER BY cwd = $2 DESC, touched DESC LIMIT $3"
            ),
        ] {
            let rows = self.0.lanes.ask(2, sql, &[&text, &here, &limited(limit)]).await?;
            if !rows.is_empty() {
                return Ok(rows.iter().map(read).collect());
            }
        }
        Ok(Vec::new())
    }

    async fn found(&self, text: &str, limit: usize) -> Result<Vec<Hit>> {
        let text = text.trim().replace('\0', " ");
        if text.is_empty() {
            return Ok(Vec::new());
        }
        let words: Vec<String> =
            text.split_whitespace().map(|word| format!("'{}'", word.replace('\\', " ").replace('\'', "''"))).collect();
        let words = words.join(" & ") + ":*";
        let like = format!("%{}%", text.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_"));
        let titles =
            "SELECT id, 0::bigint, title FROM tieline.session WHERE title ILIKE $1 ORDER BY touched DESC LIMIT $2";
        let by_words = "SELECT s.id, p.turn, ts_headline('simple', p.text, q, 'MaxWords=24, MinWords=8, StartSel=\"\", StopSel=\"\"')
            FROM tieline.passage p JOIN tieline.session s ON s.key = p.session, to_tsquery('simple', $1) q
            WHERE p.words @@ q ORDER BY ts_rank(p.words, q) DESC LIMIT $2";
        let parts = "SELECT s.id, p.turn, p.text FROM tieline.passage p JOIN tieline.session s ON s.key = p.session
            WHERE p.text ILIKE $1 ORDER BY s.touched DESC, p.turn DESC LIMIT $2";
        let most = limited(limit);
        let mut found = self.0.lanes.ask(2, by_words, &[&words, &most]).await?;
        let by_parts = found.is_empty();
        if by_parts {
            found = self.0.lanes.ask(2, parts, &[&like, &most]).await?;
        }
        let mut hits = Vec::new();
        for (row, title) in self
            .0
            .lanes
            .ask(2, titles, &[&like, &most])
            .await?
            .iter()
            .map(|row| (row, true))
            .chain(found.iter().map(|row| (row, false)))
        {
            let id: &str = row.get(0);
            // A title is mostly made of the first words: where these are found, it says nothing more.
            if title && found.iter().any(|row| row.get::<_, &str>(0) == id) {
                continue;
            }
            let Ok(session) = session(self, &id.into()).await else { continue };
            let snippet: String = row.get(2);
            let snippet = if by_parts && !title { around(&snippet, &text) } else { snippet };
            hits.push(Hit { session, turn: row.get::<_, i64>(1).cast_unsigned(), snippet });
        }
        hits.truncate(limit);
        Ok(hits)
    }

    async fn changed(&self, id: &SessionId, change: Change) -> Result<bool> {
        let lanes = &self.0.lanes;
        let id_text = id.as_str();
        let rows = match change {
            Change::Title(title) => {
                let sql = "UPDATE tieline.session SET title = $2 WHERE id = $1 AND NOT named RETURNING 1";
                lanes.ask(2, sql, &[&id_text, &plain(title)]).await
            }
            Change::Name(title) => {
                let sql =
                    "UPDATE tieline.session SET title = $2, named = $2::text IS NOT NULL WHERE id = $1 RETURNING 1";
                lanes.ask(2, sql, &[&id_text, &plain(title)]).await
            }
            Change::Meta(meta) => {
                lanes
                    .ask(2, "UPDATE tieline.session SET meta = $2 WHERE id = $1 RETURNING 1", &[&id_text, &meta.get()])
                    .await
            }
        }?;
        if rows.is_empty() {
            session(self, id).await?;
        }
        Ok(!rows.is_empty())
    }

    async fn deleted(&self, id: &SessionId) -> Result<()> {
        let (found, epoch) = with_epoch(self, id).await?;
        if let Some(holder) = found.holder.filter(|holder| !holder.is(&Holder::me())) {
            return Err(Error::InUse { session: id.clone(), holder: Box::new(holder) });
        }
        // If somebody else opens it now, the epoch is another one.
        let sql = "DELETE FROM tieline.session WHERE id = $1 AND epoch = $2 RETURNING 1";
        if self.0.lanes.ask(2, sql, &[&id.as_str(), &epoch]).await?.is_empty() {
            let holder = session(self, id).await?.holder.ok_or(Error::Busy)?;
            return Err(Error::InUse { session: id.clone(), holder: Box::new(holder) });
        }
        Ok(())
    }

    async fn retained(&self, keep: Retention) -> Result<Vec<SessionId>> {
        let oldest = keep.max_age.map(|age| Time::now().before(age).0);
        let most = keep.max_count.map(|most| i64::try_from(most).unwrap_or(i64::MAX));
        let sql = "DELETE FROM tieline.session WHERE (until IS NULL OR until < now()) AND key IN (
                SELECT key FROM (SELECT key, updated, row_number() OVER (ORDER BY touched DESC) AS place FROM tieline.session
                    WHERE $1::text IS NULL OR agent = $1) AS ranked
                WHERE updated < $2::bigint OR place > $3::bigint) RETURNING id";
        let rows = self.0.lanes.ask(2, sql, &[&keep.agent, &oldest, &most]).await?;
        Ok(rows.iter().map(|row| row.get::<_, String>(0).into()).collect())
    }
}

impl Home for Postgres {
    fn create(&self, new: NewSession) -> Doing<'_, Box<dyn Log>> {
        Box::pin(self.make(new))
    }

    fn open<'a>(&'a self, id: &'a SessionId, claim: Claim) -> Doing<'a, Opened<Box<dyn Log>>> {
        Box::pin(self.reopen(id, claim))
    }

    fn session<'a>(&'a self, id: &'a SessionId) -> Doing<'a, Session> {
        Box::pin(session(self, id))
    }

    fn list(&self, query: ListQuery) -> Doing<'_, Page> {
        Box::pin(self.listed(query))
    }

    fn matching<'a>(&'a self, text: &'a str, here: &'a str, limit: usize) -> Doing<'a, Vec<Session>> {
        Box::pin(self.fitting(text, here, limit))
    }

    fn with_event<'a>(&'a self, kind: &'a str, cwd: Option<&'a str>, limit: usize) -> Doing<'a, Vec<Session>> {
        Box::pin(async move {
            let sql = select!(
                "WHERE ($2::text IS NULL OR cwd = $2) AND EXISTS (SELECT FROM tieline.event e WHERE e.session = key AND e.kind = $1)
                 ORDER BY (SELECT max(e.time) FROM tieline.event e WHERE e.session = key AND e.kind = $1) DESC, touched DESC LIMIT $3"
            );
            Ok(self.0.lanes.ask(2, sql, &[&kind, &cwd, &limited(limit)]).await?.iter().map(read).collect())
        })
    }

    fn search<'a>(&'a self, text: &'a str, limit: usize) -> Doing<'a, Vec<Hit>> {
        Box::pin(self.found(text, limit))
    }

    fn change<'a>(&'a self, id: &'a SessionId, change: Change) -> Doing<'a, bool> {
        Box::pin(self.changed(id, change))
    }

    fn delete<'a>(&'a self, id: &'a SessionId) -> Doing<'a, ()> {
        Box::pin(self.deleted(id))
    }

    fn retain(&self, keep: Retention) -> Doing<'_, Vec<SessionId>> {
        Box::pin(self.retained(keep))
    }

    fn page<'a>(&'a self, id: &'a SessionId, after: u64) -> Doing<'a, (Vec<Stored>, Option<Damage>)> {
        Box::pin(async move { Ok((page(self, id, after).await?, None)) })
    }

    fn turn_start<'a>(&'a self, id: &'a SessionId, seq: u64) -> Doing<'a, u64> {
        Box::pin(async move {
            let sql = "SELECT coalesce(max(e.seq), 0) FROM tieline.session s LEFT JOIN tieline.event e
                ON e.session = s.key AND e.seq <= $2 AND e.kind = 'turn_begin' WHERE s.id = $1 GROUP BY s.key";
            let rows = self.0.lanes.ask(2, sql, &[&id.as_str(), &i64::try_from(seq).unwrap_or(i64::MAX)]).await?;
            let row = rows.first().ok_or_else(|| Error::NotFound(id.clone()))?;
            Ok(row.get::<_, i64>(0).cast_unsigned())
        })
    }

    fn lost<'a>(&'a self, _: &'a SessionId) -> Doing<'a, Option<String>> {
        Box::pin(async { Ok(None) })
    }

    fn follow(&self, id: &SessionId) -> Follow {
        self.watch(id)
    }

    fn close(self: Arc<Self>) -> Doing<'static, ()> {
        Box::pin(async move {
            // What is not let go in time runs out.
            let mut leaving = self.0.leaving.subscribe();
            let gone = leaving.wait_for(|leaving| *leaving == 0 && self.0.holds().is_empty());
            let _ = timeout(self.0.lease, gone).await;
            Ok(())
        })
    }

    fn shared(&self) -> Option<&dyn Shared> {
        Some(self)
    }
}
