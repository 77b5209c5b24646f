//! A session that is open for writing: the lease, the appends, and what is mended when it is opened.

use super::append::{self, Head};
use super::follow;
use super::lease::Token;
use super::replay::{Walk, decode};
use super::session::{self, NewSession};
use super::{Damage, Error, Event, Holder, Result, Store, Time, keep};
use rusqlite::{Connection, OptionalExtension, params};
use std::sync::{Arc, Mutex, MutexGuard};
use tieline_rpc::sync::Lock;
use tieline_schema::{
    CompactionStatus, CompactionUpdate, ContentBlock, Dialect, ExitStatus, Item, Notice, Patch, SessionId, Severity,
    State, StateUpdate, StopReason, TerminalUpdate, ToolCallContentChunk, ToolCallStatus, ToolCallUpdate, Transcript,
    Update,
};
use tokio::sync::watch;

/// The right to write to a session.
#[derive(Debug)]
pub(super) struct Hold {
    pub(super) session: SessionId,
    pub(super) key: i64,
    pub(super) token: Token,
    /// Who follows the session hears here how far it is stored.
    pub(super) head: Arc<watch::Sender<u64>>,
    /// Why streamed updates were not stored, until someone was told.
    fault: Mutex<Option<Error>>,
}

impl Hold {
    fn fault(&self) -> MutexGuard<'_, Option<Error>> {
        self.fault.locked()
    }

    pub(super) fn set_fault(&self, error: Error) {
        self.fault().get_or_insert(error);
    }
}

/// What to do when a session is open elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Claim {
    /// Refuse, unless the process that has it is gone.
    #[default]
    IfFree,
    /// Take it. Whoever has it can't write to it any more and is told so when it tries.
    TakeOver,
}

/// A session that was opened again.
#[derive(Debug)]
pub struct Opened<L = SessionLog> {
    /// To go on with it.
    pub log: L,
    /// What was damaged. It is set aside; the session goes on after the last whole event.
    pub damage: Option<Damage>,
    /// What is lost of it, in words, now or because of a damage of earlier days.
    pub lost: Option<String>,
    /// True if a turn was found unfinished. It is closed now, and so is all that ran in it.
    pub interrupted: bool,
}

/// A session that is open for writing. Nobody else can write to it until this is dropped.
#[derive(Debug)]
pub struct SessionLog {
    store: Store,
    hold: Arc<Hold>,
    released: bool,
}

impl SessionLog {
    /// The id of the session.
    pub fn id(&self) -> &SessionId {
        &self.hold.session
    }

    /// Stores events, all or none. Comes back with the seq of the last one when they are on the disk, together with all
    /// that was streamed before. If streamed updates could not be stored, this says so and stores nothing.
    ///
    /// An empty list only waits for what was streamed. If the future is dropped, the events may be stored or not.
    pub async fn append(&self, events: Vec<Event>) -> Result<u64> {
        if let Some(event) = events.iter().find(|event| !event.is_named_well()) {
            return Err(Error::Failed(format!("the name `{}` is taken", event.kind())));
        }
        let hold = self.hold.clone();
        // Written out here, so that the one thread that writes need not do it for all.
        let events: Vec<_> = events.into_iter().map(Event::with_body).collect();
        let bytes = events.iter().map(|(_, body)| body.len()).sum();
        let ends = events.iter().any(|(event, _)| matches!(event, Event::TurnEnd { .. }));
        let stored = self.store.queue().write(bytes, move |db| {
            if let Some(fault) = &*hold.fault() {
                return Err(fault.clone());
            }
            append::append(db, &hold, &events)
        });
        let stored = stored.await;
        if let Ok(seq) = stored {
            follow::stored(&self.hold.head, seq);
        }
        if stored.is_err() {
            // Now it was said.
            self.hold.fault().take();
        } else if ends {
            let key = self.hold.key;
            self.store.queue().write_later(move |db| append::index(db, key));
        }
        stored
    }

    /// Hands over an update that nobody has to wait for: a piece of a message, of output. It is on the disk within about
    /// 20 ms, or when 4 KiB have come together, and in any case before what is appended next. Neighbours share a row.
    /// Waits only if the disk can't follow.
    pub async fn stream(&self, update: Update) -> Result<()> {
        self.store.queue().stream(self.hold.clone(), update).await
    }

    /// Stores the begin of a turn and what the user said.
    pub async fn begin_turn(&self, message_id: Option<String>, content: Vec<ContentBlock>) -> Result<u64> {
        self.append(vec![Event::TurnBegin, Event::Prompt { message_id, content }]).await
    }

    /// Stores the end of a turn. When it comes back, the whole turn is on the disk.
    pub async fn end_turn(&self, stop: StopReason) -> Result<u64> {
        self.append(vec![Event::TurnEnd { stop, interrupted: false }]).await
    }

    /// Lets the session go, once all of it is on the disk.
    pub async fn close(mut self) -> Result<()> {
        self.released = true;
        let hold = self.hold.clone();
        self.store.queue().write(0, move |db| release(db, hold.key, hold.token.get())).await?;
        let settle = |db: &Connection| {
            keep::settle(db);
            Ok(())
        };
        self.store.queue().alone(settle).await?;
        let fault = self.hold.fault().take();
        fault.map_or(Ok(()), Err)
    }
}

impl Drop for SessionLog {
    fn drop(&mut self) {
        if !self.released {
            let hold = self.hold.clone();
            self.store.queue().write_later(move |db| release(db, hold.key, hold.token.get()));
        }
    }
}

fn release(db: &Connection, key: i64, token: i64) -> Result<()> {
    db.prepare_cached(
        "UPDATE session SET token = NULL, pid = NULL, start = NULL, host = NULL, boot = NULL, space = NULL, since = NULL
         WHERE key = ?1 AND token = ?2",
    )?
    .execute([key, token])?;
    Ok(())
}

fn lease(db: &Connection, key: i64, token: i64) -> Result<()> {
    let me = Holder::me();
    db.prepare_cached(
        "UPDATE session SET token = ?2, pid = ?3, start = ?4, host = ?5, boot = ?6, space = ?7, since = ?8 WHERE key = ?1",
    )?
    .execute(params![key, token, me.pid, me.start.cast_signed(), me.host, me.boot, me.space, me.since.0])?;
    Ok(())
}

impl Store {
    /// Makes a session and opens it. When this comes back, the session is on the disk.
    pub async fn create(&self, new: NewSession) -> Result<SessionLog> {
        let claim = self.claim(move |db| session::create(db, &new).map(|(key, id)| (key, id, ())));
        Ok(claim.await?.0)
    }

    /// Opens a session to go on with it. A turn that was never ended is ended now, as interrupted.
    pub async fn open_session(&self, id: &SessionId, claim: Claim) -> Result<Opened> {
        let session = id.clone();
        let work = move |db: &Connection| {
            let (key, held) = session::find(db, &session, |row| Ok((session::key(row)?, session::holder(row))))?;
            if let Some((token, holder)) = &held
                && claim == Claim::IfFree
                && session::is_held(*token, holder)
            {
                return Err(Error::InUse { session: session.clone(), holder: Box::new(holder.clone()) });
            }
            Ok((key, session.clone(), held.is_some()))
        };
        let (log, unclean) = self.claim(work).await?;
        // Nobody else writes from here on, unless the session is taken over. Then whatever we write is refused.
        let session = id.clone();
        let found = self.read(move |db| examine(db, &session, unclean)).await?;
        let damage = found.damage.clone();
        if damage.is_some() || found.head != found.known {
            log.set_aside(found.head, damage.clone()).await?;
        }
        let interrupted = found.head.running || !found.unfinished.is_empty();
        if interrupted {
            let mut events = found.unfinished;
            if found.head.running {
                events.push(Event::TurnEnd { stop: StopReason::Error, interrupted: true });
            }
            log.append(events).await?;
        }
        let lost = self.lost(id).await?;
        Ok(Opened { log, damage, lost, interrupted })
    }

    /// Takes the lease of the session that `work` finds.
    async fn claim<T: Send + 'static>(
        &self,
        mut work: impl FnMut(&Connection) -> Result<(i64, SessionId, T)> + Send + 'static,
    ) -> Result<(SessionLog, T)> {
        let mut claiming = Claiming { store: self.clone(), token: Some(Token::new()) };
        let number = claiming.token.as_ref().map_or(0, Token::get);
        let work = move |db: &Connection| {
            let found = work(db)?;
            lease(db, found.0, number)?;
            Ok(found)
        };
        let (key, session, more) = self.queue().write(0, work).await?;
        let token = claiming.token.take().ok_or(Error::Closed)?;
        let head = follow::head_of(self.path(), &session);
        let hold = Hold { session, key, token, head, fault: Mutex::new(None) };
        Ok((SessionLog { store: self.clone(), hold: Arc::new(hold), released: false }, more))
    }
}

/// A lease that is being taken. If nobody waits for it any more, it is given back, and at once: whoever claims the
/// session next stands behind that in the queue.
struct Claiming {
    store: Store,
    token: Option<Token>,
}

impl Drop for Claiming {
    fn drop(&mut self) {
        if let Some(token) = self.token.take() {
            let number = token.get();
            self.store.queue().write_later(move |db| {
                let mut held = db.prepare_cached("SELECT key FROM session WHERE token = ?1")?;
                let key: Option<i64> = held.query_row([number], |row| row.get(0)).optional()?;
                key.map_or(Ok(()), |key| release(db, key, number))
            });
        }
    }
}

impl SessionLog {
    /// Moves what comes after the last whole event out of the way. It is kept, but no longer part of the session.
    async fn set_aside(&self, head: Head, damage: Option<Damage>) -> Result<()> {
        let hold = self.hold.clone();
        let moved = self.store.queue().write(0, move |db| {
            let now = Time::now();
            // What others appended since they took the session over is none of our business.
            append::check_lease(db, &hold)?;
            db.execute(
                "INSERT INTO quarantine (session, seq, turn, time, kind, body, crc)
                 SELECT session, seq, turn, time, kind, body, crc FROM event WHERE session = ?1 AND seq > ?2",
                [hold.key, head.seq],
            )?;
            db.execute("DELETE FROM event WHERE session = ?1 AND seq > ?2", [hold.key, head.seq])?;
            let mut head = head;
            if let Some(damage) = &damage {
                let title = "Some events of this session are damaged and were set aside".to_owned();
                let notice = Notice {
                    severity: Severity::Warning,
                    title,
                    description: Some(damage.to_string()),
                    ..Default::default()
                };
                let (event, body) = Event::Update(notice.into()).with_body();
                super::replay::note_lost(db, hold.key, head.seq, &damage.to_string())?;
                head = append::put(db, hold.key, head, now, &event, &body)?;
            }
            db.execute("UPDATE session SET indexed = min(indexed, ?2) WHERE key = ?1", [hold.key, head.seq])?;
            append::store_head(db, hold.key, head, now)
        });
        moved.await.map_err(|error| match error {
            Error::Damaged(why) => {
                Error::Damaged(format!("{why}; {} events of session {} are whole", head.seq, self.id()))
            }
            error => error,
        })
    }
}

/// What a session looks like when it is opened.
struct Found {
    /// Where its row says that it ends.
    known: Head,
    /// Where it really ends.
    head: Head,
    damage: Option<Damage>,
    /// What has to be said so that nothing is left running.
    unfinished: Vec<Event>,
}

fn examine(db: &Connection, id: &SessionId, unclean: bool) -> Result<Found> {
    // One view of everything, whatever others write meanwhile.
    let _view = db.unchecked_transaction()?;
    let (key, stored, running) = session::find(db, id, |row| {
        let session = session::read(row)?;
        Ok((session::key(row)?, session.events.cast_signed(), session.state != super::State::Idle))
    })?;
    let mut walk = Walk::new(key, super::replay::last(db, key).max(stored));
    let deep = unclean || running;
    let mut head = Head::default();
    let mut story = Transcript::new(Dialect::V2);
    loop {
        let page = walk.page(db, |parts| {
            let event = match parts.kind {
                "turn_begin" => Some(Event::TurnBegin),
                "turn_end" => Some(decode(parts).event),
                "update" if deep => Some(decode(parts).event),
                _ => None,
            };
            (parts.seq, parts.turn, parts.body.len(), event)
        })?;
        if page.is_empty() {
            break;
        }
        for (seq, turn, bytes, event) in page {
            (head.seq, head.turn, head.bytes) = (seq, turn, head.bytes + i64::try_from(bytes).unwrap_or(0));
            match event {
                Some(Event::TurnBegin) => head.running = true,
                Some(Event::TurnEnd { .. }) => head.running = false,
                Some(Event::Update(update)) => drop(story.apply(&update)),
                _ => {}
            }
        }
    }
    let known = Head { seq: stored, running, ..head };
    let unfinished = if deep { close(&story, head.running) } else { Vec::new() };
    Ok(Found { known, head, damage: walk.damage, unfinished })
}

/// What says that all that ran is over: the process that ran it is gone. Nothing of it is ever run again.
pub(super) fn close(story: &Transcript, running: bool) -> Vec<Event> {
    let mut updates: Vec<Update> = Vec::new();
    for item in story.items() {
        match item {
            Item::ToolCall(call) if !call.status.is_final() => {
                let content = "interrupted".into();
                let tool_call_id = call.id.clone();
                updates.push(ToolCallContentChunk { tool_call_id, content, ..Default::default() }.into());
                updates.push(ToolCallUpdate::new(call.id.clone()).status(ToolCallStatus::Failed).into());
            }
            Item::Compaction(compaction) if compaction.status == CompactionStatus::InProgress => {
                let (status, error) = (CompactionStatus::Failed, Patch::Set("interrupted".to_owned()));
                let compaction_id = compaction.id.clone();
                updates.push(CompactionUpdate { compaction_id, status, error, ..CompactionUpdate::default() }.into());
            }
            _ => {}
        }
    }
    for terminal in story.terminals().iter().filter(|terminal| terminal.exit_status.is_none()) {
        let exit_status = Patch::Set(ExitStatus::default());
        let terminal_id = terminal.id.clone();
        updates.push(TerminalUpdate { terminal_id, exit_status, ..TerminalUpdate::default() }.into());
    }
    if running && story.state().is_some_and(|state| !state.state.is_idle()) {
        updates.push(StateUpdate::from(State::idle(StopReason::Error)).into());
    }
    updates.into_iter().map(Event::Update).collect()
}
