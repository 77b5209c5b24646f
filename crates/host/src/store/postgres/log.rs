//! A session that is open for writing in the database: its lease, its epoch, its appends.

use super::find;
use super::lanes::Pause;
use super::{Inner, Postgres, silent};
use crate::store::append::{Head, take_said};
use crate::store::event::{checksum, join, weight};
use crate::store::follow::{head_of, stored};
use crate::store::log::close;
use crate::store::{Claim, Doing, Error, Event, Holder, Log, NewSession, Opened, Result, Time};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use tieline_rpc::sync::Lock as _;
use tieline_schema::{Dialect, Raw, SessionId, StopReason, Transcript, Update, to_json};
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

/// How long streamed text may wait for more, and how much of it.
const WAIT: Duration = Duration::from_millis(20);
const ENOUGH: usize = 4 << 10;
/// A command that nobody fetched the answer of is forgotten after this time, in seconds.
const INBOX_AGE: f64 = 600.0;

/// The right to write to a session.
pub(super) struct Hold {
    pub(super) session: SessionId,
    pub(super) key: i64,
    pub(super) epoch: i64,
    /// Who follows the session here is told so.
    head: Arc<watch::Sender<u64>>,
    /// Where the log stands; held while something is written.
    state: tokio::sync::Mutex<Head>,
    pending: Mutex<Pending>,
    /// When the renewal of its lease was begun that went well last.
    renewed: Mutex<Instant>,
    /// Why the session is not ours any more.
    pub(super) fate: watch::Sender<Option<Error>>,
}

/// Updates that nobody waits for.
#[derive(Default)]
struct Pending {
    updates: Vec<Update>,
    bytes: usize,
    /// Somebody writes them soon.
    timed: bool,
    /// Why earlier ones were not stored, until someone was told.
    fault: Option<Error>,
}

impl Hold {
    /// Stopped or cut off for so long that another node may have the session soon: nothing is even tried any more.
    fn give_up_if_silent(&self, patience: Duration) -> Result<()> {
        let since = self.renewed.locked().elapsed();
        if since > patience { Err(self.lose(silent(since))) } else { Ok(()) }
    }

    fn lose(&self, why: Error) -> Error {
        let why = self.fate.borrow().clone().unwrap_or(why);
        if self.fate.send_if_modified(|fate| fate.replace(why.clone()).is_none()) {
            tracing::error!(session = %self.session, %why, "a session is not ours any more");
        }
        why
    }
}

/// A session of the database that is open for writing.
pub(super) struct PostgresLog {
    home: Postgres,
    hold: Arc<Hold>,
    released: bool,
}

impl std::fmt::Debug for PostgresLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresLog").field("session", &self.hold.session).finish_non_exhaustive()
    }
}

impl Log for PostgresLog {
    fn id(&self) -> &SessionId {
        &self.hold.session
    }

    fn append(&self, events: Vec<Event>) -> Doing<'_, u64> {
        Box::pin(async move {
            if let Some(event) = events.iter().find(|event| !event.is_named_well()) {
                return Err(Error::Failed(format!("the name `{}` is taken", event.kind())));
            }
            if let Some(fault) = self.hold.pending.locked().fault.take() {
                return Err(fault);
            }
            let (home, hold) = (self.home.clone(), Arc::clone(&self.hold));
            // What was begun is finished even if nobody waits for it any more: we must know where the log stands.
            tokio::spawn(async move { write(&home, &hold, events).await }).await.map_err(|_| Error::Closed)?
        })
    }

    fn stream(&self, update: Update) -> Doing<'_, ()> {
        Box::pin(async move {
            let (full, first) = {
                let mut pending = self.hold.pending.locked();
                pending.bytes += weight(&update);
                let rest = match pending.updates.last_mut() {
                    Some(last) => join(last, update),
                    None => Some(update),
                };
                pending.updates.extend(rest);
                (pending.bytes >= ENOUGH, !std::mem::replace(&mut pending.timed, true))
            };
            if full {
                return self.append(Vec::new()).await.map(drop);
            }
            if first {
                let (home, hold) = (self.home.clone(), Arc::clone(&self.hold));
                tokio::spawn(async move {
                    sleep(WAIT).await;
                    if let Err(error) = write(&home, &hold, Vec::new()).await {
                        hold.pending.locked().fault.get_or_insert(error);
                    }
                });
            }
            Ok(())
        })
    }

    fn close(mut self: Box<Self>) -> Doing<'static, ()> {
        Box::pin(async move {
            let written = self.append(Vec::new()).await.map(drop);
            self.released = true;
            // If that fails the lease runs out.
            let released = release(&self.home, &self.hold).await;
            written.and(released)
        })
    }
}

impl Drop for PostgresLog {
    fn drop(&mut self) {
        let (home, hold) = (self.home.clone(), Arc::clone(&self.hold));
        if let (false, Ok(runtime)) = (self.released, tokio::runtime::Handle::try_current()) {
            runtime.spawn(async move {
                let _ = write(&home, &hold, Vec::new()).await;
                let _ = release(&home, &hold).await;
            });
        }
    }
}

async fn release(home: &Postgres, hold: &Hold) -> Result<()> {
    home.0.leaving.send_modify(|leaving| *leaving += 1);
    home.0.holds.locked().remove(&hold.key);
    let sql = "UPDATE tieline.session SET until = NULL WHERE key = $1 AND epoch = $2";
    let released = home.0.lanes.ask(hold.key, sql, &[&hold.key, &hold.epoch]).await;
    home.0.leaving.send_modify(|leaving| *leaving -= 1);
    released?;
    home.0.bell.tell(&hold.session, hold.head.borrow().cast_signed());
    Ok(())
}

const APPEND: &str = "
WITH mine AS (
    UPDATE tieline.session SET head = head + cardinality($4::bigint[]), turn = $5, running = $6, bytes = bytes + $7, updated = $8,
        touched = CASE WHEN $9 THEN nextval('tieline.touch') ELSE touched END
    WHERE key = $1 AND epoch = $2 AND head = $3 RETURNING key)
INSERT INTO tieline.event (session, seq, turn, time, kind, body, crc)
SELECT mine.key, e.seq, e.turn, $8, e.kind, e.body, e.crc FROM mine,
    unnest($4::bigint[], $10::bigint[], $11::text[], $12::text[], $13::bigint[]) AS e (seq, turn, kind, body, crc)
RETURNING seq";

/// Writes what was streamed, and these events behind it.
async fn write(home: &Postgres, hold: &Hold, events: Vec<Event>) -> Result<u64> {
    let mut state = hold.state.lock().await;
    let streamed = {
        let mut pending = hold.pending.locked();
        (pending.bytes, pending.timed) = (0, false);
        std::mem::take(&mut pending.updates)
    };
    let ends = events.iter().any(|event| matches!(event, Event::TurnEnd { .. }));
    let begins = events.iter().any(|event| matches!(event, Event::TurnBegin));
    let (mut head, mut seqs, mut turns, mut kinds, mut bodies, mut crcs) =
        (*state, Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (event, body) in streamed.into_iter().map(Event::Update).chain(events).map(Event::with_body) {
        head.step(&event, &body);
        seqs.push(head.seq);
        turns.push(head.turn);
        crcs.push(i64::from(checksum(head.seq, head.turn, event.kind(), &body)));
        kinds.push(event.kind().to_owned());
        bodies.push(body);
    }
    if seqs.is_empty() {
        let fate = hold.fate.borrow().clone();
        return fate.map_or(Ok(state.seq.cast_unsigned()), Err);
    }
    let (now, more, mut pause) = (Time::now().0, head.bytes - state.bytes, Pause::default());
    loop {
        if let Some(why) = hold.fate.borrow().clone() {
            return Err(why);
        }
        hold.give_up_if_silent(home.0.patience())?;
        let done = home
            .0
            .lanes
            .once(
                hold.key,
                APPEND,
                &[
                    &hold.key,
                    &hold.epoch,
                    &state.seq,
                    &seqs,
                    &head.turn,
                    &head.running,
                    &more,
                    &now,
                    &begins,
                    &turns,
                    &kinds,
                    &bodies,
                    &crcs,
                ],
            )
            .await;
        match done {
            Ok(rows) if rows.len() == seqs.len() => break,
            Ok(_) if is_there(home, hold, head.seq).await? => break,
            Ok(_) => {
                let holder = find::session(home, &hold.session).await?.holder;
                return Err(hold.lose(Error::Lost { session: hold.session.clone(), holder: holder.map(Box::new) }));
            }
            Err(Error::Away(why)) => {
                tracing::warn!(session = %hold.session, %why, "the database is away; an append waits");
                pause.wait().await;
            }
            Err(error) => return Err(error),
        }
    }
    *state = head;
    stored(&hold.head, head.seq.cast_unsigned());
    home.0.bell.tell(&hold.session, head.seq);
    if ends {
        let (home, key, turn) = (home.clone(), hold.key, head.turn);
        tokio::spawn(async move {
            if let Err(error) = index(&home, key, turn).await {
                tracing::warn!(%error, "a turn can't be searched");
            }
        });
    }
    Ok(head.seq.cast_unsigned())
}

/// Whether an append whose answer was lost was done: nobody but us writes under our epoch.
async fn is_there(home: &Postgres, hold: &Hold, upto: i64) -> Result<bool> {
    let sql = "SELECT 1 FROM tieline.session WHERE key = $1 AND epoch = $2 AND head = $3";
    Ok(!home.0.lanes.ask(hold.key, sql, &[&hold.key, &hold.epoch, &upto]).await?.is_empty())
}

/// Puts what was said in a turn into the search.
async fn index(home: &Postgres, key: i64, turn: i64) -> Result<()> {
    let sql = "SELECT kind, body FROM tieline.event WHERE session = $1 AND turn = $2 AND kind IN ('prompt', 'update') ORDER BY seq";
    let (mut text, mut message) = (String::new(), None);
    for row in home.0.lanes.ask(key, sql, &[&key, &turn]).await? {
        take_said(&mut text, &mut message, &Event::read(row.get(0), row.get(1)));
    }
    let text = text.trim().replace('\0', " ");
    if !text.is_empty() {
        let sql = "INSERT INTO tieline.passage (session, turn, text) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
        home.0.lanes.ask(key, sql, &[&key, &turn, &text]).await?;
    }
    Ok(())
}

/// What another attempt of the same lease is known by.
fn token() -> i64 {
    use std::hash::{BuildHasher as _, Hasher as _, RandomState};
    RandomState::new().build_hasher().finish().cast_signed()
}

impl Postgres {
    pub(super) async fn make(&self, new: NewSession) -> Result<Box<dyn Log>> {
        let id = new.id.clone().unwrap_or_else(|| crate::store::new_id().into());
        let (me, token, lease, begun) = (Holder::me(), token(), self.0.lease.as_secs_f64(), Instant::now());
        let sql = "INSERT INTO tieline.session (id, agent, cwd, directories, title, created, updated, touched, options, meta, token, until,
                pid, start, host, boot, space, since)
            VALUES ($1, $2, $3, $4, $5, $6, $6, nextval('tieline.touch'), $7, $8, $9, now() + $10 * interval '1 second',
                $11, $12, $13, $14, $15, $16)
            ON CONFLICT (id) DO UPDATE SET token = excluded.token WHERE session.token = excluded.token
            RETURNING key, epoch";
        let directories = to_json(&new.directories, Dialect::V2);
        let (title, options, meta) =
            (plain(new.title), new.options.as_ref().map(Raw::get), new.meta.as_ref().map(Raw::get));
        let rows = self
            .0
            .lanes
            .ask(
                0,
                sql,
                &[
                    &id.as_str(),
                    &new.agent,
                    &new.cwd,
                    &directories,
                    &title,
                    &Time::now().0,
                    &options,
                    &meta,
                    &token,
                    &lease,
                    &i64::from(me.pid),
                    &me.start.cast_signed(),
                    &me.host,
                    &me.boot,
                    &me.space,
                    &me.since.0,
                ],
            )
            .await?;
        let row = rows.first().ok_or_else(|| Error::Exists(id.clone()))?;
        Ok(Box::new(self.hold(id, (row.get(0), row.get(1)), Head::default(), begun)))
    }

    pub(super) async fn reopen(&self, id: &SessionId, claim: Claim) -> Result<Opened<Box<dyn Log>>> {
        let (me, token, lease) = (Holder::me(), token(), self.0.lease.as_secs_f64());
        let (mut dead, take) = (None::<i64>, claim == Claim::TakeOver);
        let sql = "WITH old AS (SELECT key, until FROM tieline.session WHERE id = $1 FOR UPDATE)
            UPDATE tieline.session s SET epoch = s.epoch + 1, token = $2, until = now() + $3 * interval '1 second',
                pid = $4, start = $5, host = $6, boot = $7, space = $8, since = $9
            FROM old WHERE s.key = old.key
                AND (old.until IS NULL OR old.until < now() OR $10 OR s.epoch = $11 OR s.token = $2)
            RETURNING s.key, s.epoch, s.head, s.turn, s.running, s.bytes, old.until IS NOT NULL";
        let (row, begun) = loop {
            let begun = Instant::now();
            let rows = self
                .0
                .lanes
                .ask(
                    0,
                    sql,
                    &[
                        &id.as_str(),
                        &token,
                        &lease,
                        &i64::from(me.pid),
                        &me.start.cast_signed(),
                        &me.host,
                        &me.boot,
                        &me.space,
                        &me.since.0,
                        &take,
                        &dead,
                    ],
                )
                .await?;
            if let Some(row) = rows.into_iter().next() {
                break (row, begun);
            }
            let (session, epoch) = find::with_epoch(self, id).await?;
            match session.holder {
                Some(holder) => return Err(Error::InUse { session: id.clone(), holder: Box::new(holder) }),
                // Its process is surely gone: nobody has to wait for its lease.
                None if dead.replace(epoch) != Some(epoch) => {}
                None => return Err(Error::Busy),
            }
        };
        let (running, unclean): (bool, bool) = (row.get(4), row.get(6));
        let head = Head { seq: row.get(2), turn: row.get(3), running, bytes: row.get(5) };
        let log = self.hold(id.clone(), (row.get(0), row.get(1)), head, begun);
        let gone =
            "UPDATE tieline.inbox SET gone = true WHERE session = $1 AND taken < $2 AND answer IS NULL RETURNING name";
        for row in self.0.lanes.ask(0, gone, &[&log.hold.key, &log.hold.epoch]).await? {
            self.0.bell.tell(&format!("!{}", row.get::<_, &str>(0)), 1);
        }
        let mut unfinished = Vec::new();
        if running || unclean {
            let (mut story, mut seq) = (Transcript::new(Dialect::V2), 0);
            while let page @ [.., last] = &*find::page(self, id, seq).await? {
                seq = last.seq;
                for stored in page {
                    if let Event::Update(update) = &stored.event {
                        story.apply(update);
                    }
                }
            }
            unfinished = close(&story, running);
        }
        let interrupted = running || !unfinished.is_empty();
        if running {
            unfinished.push(Event::TurnEnd { stop: StopReason::Error, interrupted: true });
        }
        if interrupted {
            log.append(unfinished).await?;
        }
        Ok(Opened { log: Box::new(log), damage: None, lost: None, interrupted })
    }

    fn hold(&self, session: SessionId, (key, epoch): (i64, i64), head: Head, begun: Instant) -> PostgresLog {
        let hold = Arc::new(Hold {
            key,
            epoch,
            head: head_of(&self.0.name, &session),
            session,
            state: tokio::sync::Mutex::new(head),
            pending: Mutex::default(),
            renewed: Mutex::new(begun),
            fate: watch::Sender::new(None),
        });
        stored(&hold.head, head.seq.cast_unsigned());
        self.0.holds.locked().insert(key, Arc::downgrade(&hold));
        PostgresLog { home: self.clone(), hold, released: false }
    }
}

/// Text as the database takes it.
pub(super) fn plain(text: Option<String>) -> Option<String> {
    text.map(|text| text.replace('\0', " "))
}

/// Renews the leases of all sessions that are open here, and gives them up if that fails for too long.
pub(super) async fn renew(inner: Weak<Inner>) {
    let Some(every) = inner.upgrade().map(|inner| inner.lease / 3) else { return };
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut away = false;
    loop {
        ticks.tick().await;
        let Some(home) = inner.upgrade().map(Postgres) else { return };
        let begun = Instant::now();
        let mut holds = home.0.holds();
        // We slept, or the database did: what was ours may be somebody else's, and is not renewed.
        holds.retain(|hold| hold.give_up_if_silent(home.0.patience()).is_ok());
        let (keys, epochs): (Vec<i64>, Vec<i64>) = holds.iter().map(|hold| (hold.key, hold.epoch)).unzip();
        let sql = "UPDATE tieline.session s SET until = now() + $3 * interval '1 second'
            FROM unnest($1::bigint[], $2::bigint[]) AS mine (key, epoch) WHERE s.key = mine.key AND s.epoch = mine.epoch AND s.until IS NOT NULL RETURNING s.key";
        match home.0.lanes.once(0, sql, &[&keys, &epochs, &home.0.lease.as_secs_f64()]).await {
            Ok(rows) => {
                if std::mem::take(&mut away) {
                    tracing::info!("the database is back");
                }
                *home.0.reached.locked() = begun;
                let renewed: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
                for hold in &holds {
                    if renewed.contains(&hold.key) {
                        *hold.renewed.locked() = begun;
                        continue;
                    }
                    // One that was let go meanwhile is missed by nobody.
                    if home.0.holds.locked().contains_key(&hold.key) {
                        let holder = find::session(&home, &hold.session).await.ok().and_then(|found| found.holder);
                        hold.lose(Error::Lost { session: hold.session.clone(), holder: holder.map(Box::new) });
                        home.0.holds.locked().remove(&hold.key);
                    }
                }
                let sql = "DELETE FROM tieline.inbox WHERE made < now() - $1 * interval '1 second'";
                let _ = home.0.lanes.once(0, sql, &[&INBOX_AGE]).await;
            }
            Err(why) => {
                if !std::mem::replace(&mut away, true) {
                    tracing::error!(%why, "the database can't be reached");
                }
                for hold in home.0.holds() {
                    let _ = hold.give_up_if_silent(home.0.patience());
                }
            }
        }
    }
}
