//! All sessions of a server: found, started, listed, deleted, ended; and the clients that are served.

use crate::front::Front;
use crate::room::Room;
use crate::watch::{Now, Watch};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tieline::agent::Server;
use tieline::rpc::sync::Lock as _;
use tieline::rpc::{Cancel, Transport};
use tieline::{Error, Result};
use tieline_client::agents::AgentSpec;
use tieline_client::journal::Journal;
use tieline_client::live::{Events, Failure, Link, Opening, Parts, Session, Setup, State};
use tieline_client::sanitize;
use tieline_host::store::{ListQuery, Shared};
use tieline_host::text::cut;
use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};

/// A cancelled turn gets this long to end in its own way.
const CANCEL_GRACE: Duration = Duration::from_mins(1);

/// Agents get this long to end their turns when the server stops; then they are killed.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);
/// How often it is looked whether all turns have ended.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// So many sessions are told again at once, in all and to one visitor.
const MAX_REPLAYS: usize = 16;
const MAX_REPLAYS_EACH: usize = 4;
/// As much of a name as is repeated, in characters.
const MAX_NAME_CHARS: usize = 60;

/// Starts what a session needs: whoever knows the configuration.
pub trait Launcher: Send + Sync + 'static {
    /// Prepares a session; nothing is started yet.
    fn launch(&self, wanted: Wanted) -> Pin<Box<dyn Future<Output = Result<Launched, Box<Failure>>> + Send + '_>>;
}

/// Which session a client wants.
#[derive(Debug, Default)]
pub struct Wanted {
    /// The name of the agent; the first of [`Settings::agents`] if there is none.
    pub agent: Option<String>,
    /// The folder; for a new session.
    pub cwd: PathBuf,
    /// More folders.
    pub roots: Vec<PathBuf>,
    /// The session to go on with.
    pub resume: Option<String>,
}

impl Wanted {
    /// A session that goes on.
    pub(crate) fn resuming(id: &str) -> Self {
        Self { resume: Some(id.to_owned()), ..Self::default() }
    }
}

/// A session that can be started.
pub struct Launched {
    /// Which agent, and how it is started.
    pub setup: Setup,
    /// Who answers it. Its questions must go to a [`tieline_client::live::Desk`].
    pub parts: Parts,
    /// Which session.
    pub opening: Opening,
}

/// What a server offers, and within which limits.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where a session works if its client has no folder here.
    pub folder: PathBuf,
    /// Sessions work in these folders and below, and nowhere else.
    pub roots: Vec<PathBuf>,
    /// The names of the agents.
    pub agents: Vec<String>,
    /// So many sessions are live at once.
    pub max_sessions: usize,
    /// So many of them were opened or woken by one visitor.
    pub max_sessions_each: usize,
    /// A session that nobody is on, and in which nothing happens, is let go after this time. It is in the journal.
    pub idle: Duration,
}

/// What a visitor may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Look on.
    Read,
    /// Open sessions, prompt and answer questions.
    Use,
    /// Delete sessions, too.
    Admin,
}

/// Who is served.
#[derive(Debug, Clone)]
pub struct Visitor {
    /// What others are told who it is.
    pub name: String,
    /// What it may do.
    pub role: Role,
}

/// All sessions. Clones are the same.
#[derive(Clone)]
pub struct Hub(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    launcher: Box<dyn Launcher>,
    journal: Journal,
    settings: Settings,
    rooms: Mutex<Rooms>,
    /// Held while a session is told again, by all and by each visitor: it is in memory until its client has taken it.
    replays: (Arc<Semaphore>, Mutex<HashMap<String, Arc<Semaphore>>>),
    stopping: Cancel,
    /// No prompt is taken in any more: the server is about to end.
    draining: Cancel,
    watch: Arc<Watch>,
    /// Held by each live session of an agent, by its name.
    agents: Mutex<HashMap<String, Arc<()>>>,
}

/// A session that was just started.
pub(crate) struct Started {
    pub(crate) live: Session,
    pub(crate) link: Link,
    pub(crate) events: Events,
    /// Held until it is over, see [`Inner::agents`].
    pub(crate) place: Arc<()>,
}

/// A session, or the place of one that is started.
type Cell = Arc<OnceCell<Arc<Room>>>;

/// The sessions that live.
#[derive(Default)]
struct Rooms {
    /// By id, and who had it opened or woken; a cell is empty while its session is started.
    known: HashMap<String, (String, Cell)>,
    /// Who waits for new ones that have no id yet.
    coming: Vec<String>,
}

/// Held while a session is told again.
pub(crate) struct Replay {
    _held: (Option<OwnedSemaphorePermit>, Option<OwnedSemaphorePermit>),
}

/// A place for a session that is started.
struct Coming<'a>(&'a Hub, String);

impl Drop for Coming<'_> {
    fn drop(&mut self) {
        let coming = &mut self.0.0.rooms.locked().coming;
        if let Some(at) = coming.iter().position(|name| *name == self.1) {
            coming.swap_remove(at);
        }
    }
}

impl Hub {
    /// A hub without sessions.
    pub fn new(launcher: impl Launcher, journal: Journal, settings: Settings) -> Self {
        let (launcher, rooms) = (Box::new(launcher), Mutex::default());
        let (stopping, draining, watch) = (Cancel::default(), Cancel::default(), Arc::default());
        let replays = (Arc::new(Semaphore::new(MAX_REPLAYS)), Mutex::default());
        let agents = Mutex::default();
        Self(Arc::new(Inner { launcher, journal, settings, rooms, replays, stopping, draining, watch, agents }))
    }

    /// Who watches over it. To be said before it is used.
    #[must_use]
    pub fn watched(mut self, watch: Watch) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            inner.watch = Arc::new(watch);
        }
        self
    }

    pub(crate) fn watch(&self) -> &Arc<Watch> {
        &self.0.watch
    }

    /// What is true of its sessions now.
    pub(crate) fn now(&self) -> Now {
        let live: Vec<_> = self.rooms().iter().filter_map(|room| room.seat()).collect();
        let questions = live.iter().map(|seat| seat.live.questions().len()).sum();
        let away = self.0.journal.shared().and_then(Shared::unreachable).unwrap_or_default();
        Now { sessions: live.len(), questions, away, ..Now::default() }
    }

    fn rooms(&self) -> Vec<Arc<Room>> {
        self.0.rooms.locked().known.values().filter_map(|(_, cell)| cell.get().cloned()).collect()
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.0.draining.is_cancelled()
    }

    /// Takes in no prompts any more, and waits until no turn runs or the time is over. Clients stay meanwhile.
    pub async fn drain(&self, limit: Duration) {
        self.0.draining.cancel();
        let at_rest =
            |room: &Arc<Room>| matches!(room.state(), None | Some(State::Idle | State::Lost | State::Opening));
        let rest = async {
            while !self.rooms().iter().all(at_rest) {
                sleep(LOOK_EVERY).await;
            }
        };
        let _ = timeout(limit, rest).await;
    }

    /// What it offers.
    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    pub(crate) fn journal(&self) -> &Journal {
        &self.0.journal
    }

    /// Serves a client until it goes away or the hub is stopped. Its sessions stay.
    pub async fn serve(&self, transport: Transport, visitor: Visitor) -> Result<()> {
        self.serve_until(transport, visitor, Cancel::default(), |_| None).await
    }

    /// As [`Self::serve`], or until `over`; for a client that may say beside its messages what it knows of a session: `stopped` gives
    /// the last position that it got, once.
    pub(crate) async fn serve_until(
        &self,
        transport: Transport,
        visitor: Visitor,
        over: Cancel,
        stopped: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> Result<()> {
        let front = Front::new(self.clone(), visitor, over.clone(), Box::new(stopped));
        let stopping = self.0.stopping.clone();
        let stop = async move {
            tokio::select! {
                () = over.cancelled() => {}
                () = stopping.cancelled() => {}
            }
        };
        Server::new(front).cancel_grace(CANCEL_GRACE).serve_until(transport, stop).await
    }

    /// Lets all clients and sessions go, in good order.
    pub async fn stop(&self) {
        self.0.stopping.cancel();
        let rooms: Vec<_> =
            self.0.rooms.locked().known.drain().filter_map(|(_, (_, room))| room.get().cloned()).collect();
        let ends = rooms.into_iter().map(|room| tokio::spawn(async move { room.end(STOP_TIMEOUT).await }));
        for end in ends.collect::<Vec<_>>() {
            let _ = end.await;
        }
        if self.0.journal.shared().is_some()
            && let Err(error) = self.0.journal.clone().close().await
        {
            tracing::warn!(%error, "sessions are not let go");
        }
    }

    /// Waits until one more session may be told again to this visitor.
    pub(crate) async fn replay(&self, name: &str) -> Replay {
        let each = || Arc::new(Semaphore::new(MAX_REPLAYS_EACH));
        let own = Arc::clone(self.0.replays.1.locked().entry(name.to_owned()).or_insert_with(each));
        let own = own.acquire_owned().await;
        Replay { _held: (own.ok(), Arc::clone(&self.0.replays.0).acquire_owned().await.ok()) }
    }

    /// Opens a new session.
    pub(crate) async fn open(&self, wanted: Wanted, name: &str) -> Result<Arc<Room>> {
        self.allowed(std::iter::once(&wanted.cwd).chain(&wanted.roots))?;
        // A client names an agent that is offered, and nothing else: a command line or an address would be run or dialled here.
        if let Some(agent) = wanted.agent.as_ref().filter(|agent| !self.0.settings.agents.contains(agent)) {
            let why = format!("this server offers no agent `{}`", sanitize::exact_line(&cut(agent, MAX_NAME_CHARS)));
            return Err(Error::invalid_params(why));
        }
        let coming = {
            let rooms = &mut *self.0.rooms.locked();
            self.room_for_one_more(rooms, name)?;
            rooms.coming.push(name.to_owned());
            Coming(self, name.to_owned())
        };
        let room = self.start(wanted).await?;
        let cell = Arc::new(OnceCell::new_with(Some(Arc::clone(&room))));
        self.0.rooms.locked().known.insert(room.id().to_owned(), (name.to_owned(), cell));
        drop(coming);
        self.forget_when_over(&room);
        Ok(room)
    }

    /// The session of this id: as it lives, or taken up from the journal.
    /// With several nodes it may live at another one; `wakes` says whether one that sleeps is woken.
    pub(crate) async fn find(&self, id: &str, name: &str, wakes: bool) -> Result<Arc<Room>> {
        let known = self.0.rooms.locked().known.get(id).cloned();
        let cell = match known {
            Some((_, cell)) => cell,
            None => {
                self.entry(id).await?;
                let rooms = &mut *self.0.rooms.locked();
                if !rooms.known.contains_key(id) {
                    self.room_for_one_more(rooms, name)?;
                }
                Arc::clone(&rooms.known.entry(id.to_owned()).or_insert_with(|| (name.to_owned(), Arc::default())).1)
            }
        };
        let start = || async {
            let elsewhere = self.holder(id).await.is_some();
            if !elsewhere && !wakes {
                return Err(Error::wire(-32603, "this token may not wake a session that sleeps"));
            }
            let started = if elsewhere { None } else { Some(self.start(Wanted::resuming(id)).await) };
            let room = match started {
                Some(Ok(room)) => room,
                // Another node was faster.
                Some(Err(error)) if self.holder(id).await.is_none() => return Err(error),
                _ => Room::elsewhere(self, id),
            };
            self.forget_when_over(&room);
            Ok(room)
        };
        let found = cell.get_or_try_init(start).await.cloned();
        if found.is_err() {
            self.0.rooms.locked().known.remove(id);
        }
        found
    }

    /// The session of this id, if it is live.
    pub(crate) fn live(&self, id: &str) -> Option<Arc<Room>> {
        self.0.rooms.locked().known.get(id)?.1.get().cloned()
    }

    /// A session of the journal, if it works where this server may.
    pub(crate) async fn entry(&self, id: &str) -> Result<tieline_client::journal::Entry> {
        let entry = self.journal().entry(id).await.map_err(|_| Error::unknown_session(id))?;
        self.allowed(std::iter::once(Path::new(&entry.cwd)).chain(entry.directories.iter().map(Path::new)))?;
        Ok(entry)
    }

    /// The sessions of the journal that this server may show, the one used last first.
    pub(crate) async fn list(&self, query: ListQuery) -> Result<(Vec<tieline_client::journal::Entry>, Option<String>)> {
        let (entries, next) = self.journal().list(query).await.map_err(Error::internal)?;
        let shown = entries.into_iter().filter(|entry| self.allowed([Path::new(&entry.cwd)]).is_ok());
        Ok((shown.collect(), next))
    }

    async fn start(&self, wanted: Wanted) -> Result<Arc<Room>> {
        let started = self.launch(wanted).await?;
        let room = Room::new(self);
        room.sit(started, self.0.settings.idle).await.map_err(|why| failed(&why))?;
        Ok(room)
    }

    /// Starts what a session needs.
    pub(crate) async fn launch(&self, wanted: Wanted) -> Result<Started> {
        if self.is_draining() {
            return Err(Error::wire(-32603, "this server is about to end; try again in a moment"));
        }
        let Launched { setup, parts, opening } = self.0.launcher.launch(wanted).await.map_err(|why| failed(&why))?;
        let place = self.place_with(&setup.agent)?;
        let link = Link::new(setup, parts);
        let (live, events) = link.open(opening, Vec::new());
        Ok(Started { live, link, events, place })
    }

    /// A place among the sessions of an agent.
    fn place_with(&self, agent: &AgentSpec) -> Result<Arc<()>> {
        let mut agents = self.0.agents.locked();
        let place = Arc::clone(agents.entry(agent.name.clone()).or_default());
        // The table and this one hold it, too.
        let live = Arc::strong_count(&place) as u64 - 2;
        match agent.max_sessions.filter(|most| live >= *most) {
            Some(most) => {
                let why = format!("the agent {} has {most} sessions here, which is its limit; close one", agent.name);
                Err(Error::wire(-32603, why))
            }
            None => Ok(place),
        }
    }

    fn forget_when_over(&self, room: &Arc<Room>) {
        let (hub, room) = (Arc::downgrade(&self.0), Arc::clone(room));
        tokio::spawn(async move {
            room.ended().await;
            if let Some(hub) = hub.upgrade() {
                Self(hub).forget(&room);
            }
        });
    }

    /// A session that is over is not found any more.
    pub(crate) fn forget(&self, room: &Arc<Room>) {
        let known = &mut self.0.rooms.locked().known;
        // Another one may have taken its place.
        if known.get(room.id()).and_then(|(_, cell)| cell.get()).is_some_and(|known| Arc::ptr_eq(known, room)) {
            known.remove(room.id());
        }
    }

    fn room_for_one_more(&self, rooms: &Rooms, name: &str) -> Result<()> {
        let Settings { max_sessions: most, max_sessions_each: each, .. } = self.0.settings;
        let owners = || rooms.known.values().map(|(owner, _)| owner).chain(&rooms.coming);
        let why = if owners().count() >= most {
            format!("this server has {most} sessions open, which is its limit; close one first")
        } else if owners().filter(|owner| *owner == name).count() >= each {
            format!("you have {each} sessions open, which is your share; close one first")
        } else {
            return Ok(());
        };
        Err(Error::wire(-32603, why))
    }

    /// An error for a folder that is none of ours. Links are followed: what counts is where they lead.
    pub(crate) fn allowed<'p>(&self, folders: impl IntoIterator<Item = impl AsRef<Path> + 'p>) -> Result<()> {
        for folder in folders {
            let folder = folder.as_ref();
            let real = folder.canonicalize().ok().filter(|real| real.is_dir());
            if !real.is_some_and(|real| self.0.settings.roots.iter().any(|root| real.starts_with(root))) {
                let why = format!("`{}` is no folder of this server", sanitize::line(&folder.to_string_lossy()));
                return Err(Error::invalid_params(why));
            }
        }
        Ok(())
    }
}

/// What went wrong, as a client is told it.
pub(crate) fn failed(failure: &Failure) -> Error {
    let hint = failure.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
    Error::wire(-32603, format!("{}{hint}", failure.message))
}
