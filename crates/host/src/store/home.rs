//! Where sessions are kept: one set of calls with two homes, a file of this machine ([`Store`]) and a database that several machines
//! share ([`Postgres`](super::Postgres)).

use super::{
    Claim, Damage, Error, Event, Follow, Hit, ListQuery, NewSession, Opened, Page, Result, Retention, Session,
    SessionLog, Store, Stored,
};
use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tieline_schema::{Raw, SessionId, Update};

/// A call that is under way.
pub type Doing<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// A home of sessions. What each call promises is said at [`Store`].
pub trait Home: Debug + Send + Sync + 'static {
    /// Makes a session and opens it.
    fn create(&self, new: NewSession) -> Doing<'_, Box<dyn Log>>;
    /// Opens a session to go on with it. A turn that was never ended is ended now, as interrupted.
    fn open<'a>(&'a self, id: &'a SessionId, claim: Claim) -> Doing<'a, Opened<Box<dyn Log>>>;
    /// What is known of a session.
    fn session<'a>(&'a self, id: &'a SessionId) -> Doing<'a, Session>;
    /// A page of sessions, the one used last first.
    fn list(&self, query: ListQuery) -> Doing<'_, Page>;
    /// Sessions that a text may mean.
    fn matching<'a>(&'a self, text: &'a str, here: &'a str, limit: usize) -> Doing<'a, Vec<Session>>;
    /// Sessions in which an event of this kind happened.
    fn with_event<'a>(&'a self, kind: &'a str, cwd: Option<&'a str>, limit: usize) -> Doing<'a, Vec<Session>>;
    /// Sessions in whose title or turns all words of a text are found.
    fn search<'a>(&'a self, text: &'a str, limit: usize) -> Doing<'a, Vec<Hit>>;
    /// Changes what is known of a session. False if the user's own title stays.
    fn change<'a>(&'a self, id: &'a SessionId, change: Change) -> Doing<'a, bool>;
    /// Deletes a session that nobody else has open.
    fn delete<'a>(&'a self, id: &'a SessionId) -> Doing<'a, ()>;
    /// Deletes what is older or more than wanted. Says which sessions are gone.
    fn retain(&self, keep: Retention) -> Doing<'_, Vec<SessionId>>;
    /// A page of the events behind this one; empty if there are no more yet. With what is damaged there.
    fn page<'a>(&'a self, id: &'a SessionId, after: u64) -> Doing<'a, (Vec<Stored>, Option<Damage>)>;
    /// The event with which the turn begins that this event belongs to; 0 before the first turn.
    fn turn_start<'a>(&'a self, id: &'a SessionId, seq: u64) -> Doing<'a, u64>;
    /// What is known to be lost of a session, in words.
    fn lost<'a>(&'a self, id: &'a SessionId) -> Doing<'a, Option<String>>;
    /// Waits for more of a session: what is written in this process, and where the home is shared, by anybody.
    fn follow(&self, id: &SessionId) -> Follow;
    /// Waits until all that was handed over is kept; the last handle closes the home.
    fn close(self: Arc<Self>) -> Doing<'static, ()>;
    /// What there is beside this where several machines share the home.
    fn shared(&self) -> Option<&dyn Shared> {
        None
    }
}

/// A session that is open for writing. Nobody else can write to it until this is dropped.
pub trait Log: Debug + Send + Sync + 'static {
    /// The id of the session.
    fn id(&self) -> &SessionId;
    /// Stores events, all or none, behind all that was streamed before. Comes back with the seq of the last one when they are kept.
    fn append(&self, events: Vec<Event>) -> Doing<'_, u64>;
    /// Hands over an update that nobody has to wait for.
    fn stream(&self, update: Update) -> Doing<'_, ()>;
    /// Lets the session go, once all of it is kept.
    fn close(self: Box<Self>) -> Doing<'static, ()>;
}

/// What can be changed of a session beside its events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The title that its agent proposes. One that the user chose stays.
    Title(Option<String>),
    /// The title that the user chooses; `None` leaves the choice to the agent again.
    Name(Option<String>),
    /// Whatever else the caller wants to know of it.
    Meta(Raw),
}

/// What several nodes need of a home that they share: commands for whoever has a session, and whether the home can be reached.
pub trait Shared: Send + Sync {
    /// Gives a command to whoever has a session, and waits for its answer.
    fn ask<'a>(&'a self, id: &'a SessionId, command: String, limit: Duration) -> Doing<'a, Answer>;
    /// The next commands for sessions that are open here; each comes once, and only while the session is ours.
    fn commands(&self) -> Doing<'_, Vec<Command>>;
    /// Answers a command.
    fn answer(&self, command: i64, answer: String) -> Doing<'_, ()>;
    /// Waits until a session that is open here is not ours any more, and says why.
    fn taken_away(&self, id: &SessionId) -> Pin<Box<dyn Future<Output = Error> + Send>>;
    /// Since when the home can't be reached; nothing if it can.
    fn unreachable(&self) -> Option<Duration>;
}

/// What became of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It was answered so.
    Given(String),
    /// Nobody has the session, and nobody got the command.
    Nobody,
    /// Whoever has the session took it and is gone, or never took it within the limit.
    None(&'static str),
}

/// A command for a session that is open here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// By which it is answered.
    pub number: i64,
    /// The session.
    pub session: SessionId,
    /// What is wanted.
    pub body: String,
}

impl Log for SessionLog {
    fn id(&self) -> &SessionId {
        self.id()
    }

    fn append(&self, events: Vec<Event>) -> Doing<'_, u64> {
        Box::pin(self.append(events))
    }

    fn stream(&self, update: Update) -> Doing<'_, ()> {
        Box::pin(self.stream(update))
    }

    fn close(self: Box<Self>) -> Doing<'static, ()> {
        Box::pin((*self).close())
    }
}

impl Home for Store {
    fn create(&self, new: NewSession) -> Doing<'_, Box<dyn Log>> {
        Box::pin(async { Ok(Box::new(self.create(new).await?) as Box<dyn Log>) })
    }

    fn open<'a>(&'a self, id: &'a SessionId, claim: Claim) -> Doing<'a, Opened<Box<dyn Log>>> {
        Box::pin(async move {
            let Opened { log, damage, lost, interrupted } = self.open_session(id, claim).await?;
            Ok(Opened { log: Box::new(log) as Box<dyn Log>, damage, lost, interrupted })
        })
    }

    fn session<'a>(&'a self, id: &'a SessionId) -> Doing<'a, Session> {
        Box::pin(self.session(id))
    }

    fn list(&self, query: ListQuery) -> Doing<'_, Page> {
        Box::pin(self.list(query))
    }

    fn matching<'a>(&'a self, text: &'a str, here: &'a str, limit: usize) -> Doing<'a, Vec<Session>> {
        Box::pin(self.matching(text, here, limit))
    }

    fn with_event<'a>(&'a self, kind: &'a str, cwd: Option<&'a str>, limit: usize) -> Doing<'a, Vec<Session>> {
        Box::pin(self.with_event(kind, cwd, limit))
    }

    fn search<'a>(&'a self, text: &'a str, limit: usize) -> Doing<'a, Vec<Hit>> {
        Box::pin(self.search(text, limit))
    }

    fn change<'a>(&'a self, id: &'a SessionId, change: Change) -> Doing<'a, bool> {
        Box::pin(async move {
            match change {
                Change::Title(title) => self.set_title(id, title.as_deref()).await,
                Change::Name(name) => self.rename(id, name.as_deref()).await.map(|()| true),
                Change::Meta(meta) => self.set_meta(id, meta).await.map(|()| true),
            }
        })
    }

    fn delete<'a>(&'a self, id: &'a SessionId) -> Doing<'a, ()> {
        Box::pin(self.delete(id))
    }

    fn retain(&self, keep: Retention) -> Doing<'_, Vec<SessionId>> {
        Box::pin(self.retain(keep))
    }

    fn page<'a>(&'a self, id: &'a SessionId, after: u64) -> Doing<'a, (Vec<Stored>, Option<Damage>)> {
        Box::pin(async move {
            let mut replay = self.load(id).after(after);
            let page = replay.next().await?.unwrap_or_default();
            Ok((page, replay.damage().cloned()))
        })
    }

    fn turn_start<'a>(&'a self, id: &'a SessionId, seq: u64) -> Doing<'a, u64> {
        Box::pin(self.turn_start(id, seq))
    }

    fn lost<'a>(&'a self, id: &'a SessionId) -> Doing<'a, Option<String>> {
        Box::pin(self.lost(id))
    }

    fn follow(&self, id: &SessionId) -> Follow {
        self.follow(id)
    }

    fn close(self: Arc<Self>) -> Doing<'static, ()> {
        Box::pin(Arc::unwrap_or_clone(self).close())
    }
}
