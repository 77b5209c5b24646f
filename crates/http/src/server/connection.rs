//! One client over Streamable HTTP: which of its streams a message goes to, what waits there, what is kept of it, and its end.

use super::shares::Share;
use super::{Guest, Limits, Server};
use crate::look::{Look, Sight, look};
use crate::random_name;
use hyper::body::Bytes;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;
use tieline_rpc::sync::Lock;
use tieline_rpc::{Id, WriteMessages};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout_at};

/// Messages on their way to the agent; with the limit for a body this bounds their size.
const INBOX: usize = 4;
/// Events are given to a reader in pieces of about this size, in bytes.
const PIECE: usize = 64 << 10;
/// A connection whose hello was refused is kept for so long: its client has its name now and may say goodbye.
const REFUSED: Duration = Duration::from_secs(5);

/// Longer positions are none, in bytes.
const MAX_POSITION_BYTES: usize = 100;

/// A place among all clients, and one of its guest's.
pub(super) type Place = (OwnedSemaphorePermit, Share);

/// A client's connection.
pub(super) struct Connection {
    pub id: String,
    pub guest: Guest,
    pub limits: Limits,
    /// Begins the positions on our streams, so that those of another connection are not mistaken for ours.
    mark: String,
    state: Mutex<State>,
    /// What waits, of all connections, in bytes.
    all_waiting: Arc<AtomicUsize>,
    /// Rings when something has changed that somebody may wait for.
    bell: watch::Sender<()>,
}

struct State {
    inbox: Option<mpsc::Sender<Vec<u8>>>,
    hello: Option<(Id, oneshot::Sender<String>)>,
    streams: HashMap<Option<String>, Stream>,
    /// Requests of the client, and where their answers go.
    open: HashMap<Id, Route>,
    /// Requests of the agent, and their sessions.
    asked: HashMap<Id, String>,
    waiting_bytes: usize,
    kept_bytes: usize,
    readers: usize,
    /// When the last reader left, or the client was last heard of without one.
    quiet_since: Instant,
    grace: Duration,
    /// Held while the client is here.
    _place: Place,
}

#[derive(Clone)]
enum Route {
    Connection,
    Session(String),
    /// On the connection's stream, behind what was said on the session's.
    Behind(String),
}

#[derive(Default)]
struct Stream {
    queue: VecDeque<Event>,
    kept: VecDeque<Event>,
    /// How many were queued, and how many of them were given to a reader.
    put: u64,
    taken: u64,
    /// The last position that was given out.
    last: Option<String>,
    /// The last position that came from above, and how many events without one came behind it.
    base: Option<(String, u64)>,
    /// Where the client stopped reading on an earlier connection; and the same until the one above has asked for it.
    start: Option<String>,
    stopped: Option<String>,
    /// Which reader is the current one.
    turn: u64,
    has_reader: bool,
    waker: Option<Waker>,
    /// The agent spoke of the session, or a reader came.
    exists: bool,
    /// The client spoke of it, or the agent did.
    named: bool,
}

struct Event {
    position: String,
    text: String,
    /// Waits until so many events of this session were given to its reader, as long as it has one.
    behind: Option<(String, u64)>,
}

/// Why a message is not taken.
pub(super) enum Refused {
    /// The session in its header is not that of the request it answers.
    WrongSession,
    /// Too many open requests.
    TooMany,
    /// The agent takes nothing.
    Full,
    /// The connection has ended.
    Gone,
}

/// Why there is no stream.
pub(super) enum NoStream {
    /// It has a reader.
    Taken,
    /// There are too many that nobody knows.
    Unknown,
}

impl Connection {
    /// A connection that waits for the answer to `initialize`, and the end from which the agent reads.
    pub fn new(
        server: &Server,
        guest: Guest,
        hello: Id,
        place: Place,
    ) -> (Arc<Self>, mpsc::Receiver<Vec<u8>>, oneshot::Receiver<String>) {
        let (inbox, messages) = mpsc::channel(INBOX);
        let (tell, told) = oneshot::channel();
        let limits = *server.limits();
        let state = State {
            inbox: Some(inbox),
            hello: Some((hello, tell)),
            streams: HashMap::from([(None, Stream { exists: true, named: true, ..Stream::default() })]),
            open: HashMap::new(),
            asked: HashMap::new(),
            waiting_bytes: 0,
            kept_bytes: 0,
            readers: 0,
            quiet_since: Instant::now(),
            grace: limits.grace.max(limits.hello_time),
            _place: place,
        };
        let connection = Arc::new(Self {
            id: random_name::<16>(),
            guest,
            limits,
            mark: random_name::<4>(),
            state: Mutex::new(state),
            all_waiting: Arc::clone(&server.0.waiting),
            bell: watch::Sender::new(()),
        });
        tokio::spawn(watch_over(server.clone(), Arc::clone(&connection)));
        (connection, messages, told)
    }

    /// Ends it: the agent reads its end, the streams end behind what waits on them.
    pub fn end(&self) {
        let mut state = self.state.locked();
        state.inbox = None;
        state.hello = None;
        for stream in state.streams.values_mut() {
            stream.wake();
        }
        drop(state);
        self.bell.send_replace(());
    }

    /// Takes the client's hello to the agent. If it can't be taken, nobody will answer it.
    pub async fn greet(&self, text: String) {
        let inbox = self.state.locked().inbox.clone();
        if let Some(inbox) = inbox {
            drop(inbox.send(text.into_bytes()).await);
        }
    }

    /// Takes a message of the client to the agent.
    pub async fn receive(&self, text: String, sight: &Sight<'_>, header: Option<&str>) -> Result<(), Refused> {
        let inbox = self.note(sight, header)?;
        let send = inbox.send_timeout(text.into_bytes(), self.limits.take_time).await;
        send.map_err(|error| match error {
            mpsc::error::SendTimeoutError::Timeout(_) => Refused::Full,
            mpsc::error::SendTimeoutError::Closed(_) => Refused::Gone,
        })
        .inspect_err(|_| self.unnote(sight))
    }

    fn note(&self, sight: &Sight<'_>, header: Option<&str>) -> Result<mpsc::Sender<Vec<u8>>, Refused> {
        let state = &mut *self.state.locked();
        let inbox = state.inbox.clone().ok_or(Refused::Gone)?;
        state.quiet_since = Instant::now();
        for look in sight.looks() {
            if let (true, Some(id), Some(header)) = (look.is_response(), &look.id, header)
                && state.asked.get(id).is_some_and(|session| session != header)
            {
                return Err(Refused::WrongSession);
            }
        }
        if state.open.len() + sight.looks().len() > self.limits.open_requests.max(1) {
            return Err(Refused::TooMany);
        }
        let scope = sight.scope();
        for session in sight.named() {
            if state.streams.len() <= self.limits.streams {
                state.streams.entry(Some(session.to_owned())).or_default().named = true;
            }
        }
        for look in sight.looks() {
            let Some(id) = look.id.clone() else { continue };
            if look.is_response() {
                state.asked.remove(&id);
                continue;
            }
            let route = match scope {
                Some(session) if look.is("session/load") => Route::Behind(session.to_owned()),
                // Where it was asked: a client that names no session there has no stream for it yet.
                Some(_) if look.takes_up() && header.is_none() => Route::Connection,
                Some(session) => Route::Session(session.to_owned()),
                None => Route::Connection,
            };
            state.open.insert(id, route);
        }
        Ok(inbox)
    }

    fn unnote(&self, sight: &Sight<'_>) {
        let open = &mut self.state.locked().open;
        sight.looks().iter().filter_map(|look| look.id.as_ref()).for_each(|id| drop(open.remove(id)));
    }

    /// Puts a message of the agent where it belongs.
    fn put(&self, text: String) {
        let state = &mut *self.state.locked();
        let sight = look(&text).unwrap_or_else(|| Sight::One(Look::default()));
        if let (Some((id, _)), Sight::One(look)) = (&state.hello, &sight)
            && look.is_response()
            && look.id.as_ref() == Some(id)
            && let Some((_, tell)) = state.hello.take()
        {
            state.grace = if look.is_error { REFUSED } else { self.limits.grace };
            state.quiet_since = Instant::now();
            drop(tell.send(text));
            self.bell.send_replace(());
            return;
        }
        let mut route = None;
        for look in sight.looks() {
            if let Some(made) = &look.made {
                state.know(made, &self.limits);
            }
            let Some(id) = &look.id else { continue };
            if look.is_response() {
                route = state.open.remove(id).or(route);
            } else if let Some(session) = look.scope()
                && state.asked.len() < self.limits.open_requests
            {
                state.asked.insert(id.clone(), session.to_owned());
            }
        }
        if let Some(session) = sight.scope() {
            state.know(session, &self.limits);
            route = Some(Route::Session(session.to_owned()));
        }
        let (stream, behind) = match route {
            Some(Route::Session(session)) => (Some(session), None),
            Some(Route::Behind(session)) => {
                let put = state.streams.get(&Some(session.clone())).map_or(0, |stream| stream.put);
                (None, Some((session, put)))
            }
            Some(Route::Connection) | None => (None, None),
        };
        let position = sight.looks().last().and_then(|look| look.position.as_deref()).filter(|it| is_plain(it));
        let position = position.map(str::to_owned);
        self.queue(state, stream, position, text, behind);
    }

    /// Queues an event. What has no stream goes to that of the connection.
    fn queue(
        &self,
        state: &mut State,
        session: Option<String>,
        position: Option<String>,
        text: String,
        behind: Option<(String, u64)>,
    ) {
        let key = Some(session).filter(|key| state.streams.get(key).is_some_and(|stream| stream.exists)).flatten();
        let Some(stream) = state.streams.get_mut(&key) else { return };
        stream.put += 1;
        let position = match (position, &mut stream.base) {
            (Some(position), base) => base.insert((position, 0)).0.clone(),
            (None, Some((base, count))) => {
                *count += 1;
                format!("{base}~{count}")
            }
            (None, None) => format!("{}.{}", self.mark, stream.put),
        };
        state.waiting_bytes += text.len();
        self.all_waiting.fetch_add(text.len(), Ordering::Relaxed);
        stream.queue.push_back(Event { position, text, behind });
        stream.wake();
    }

    /// Whether more may wait here. Where too much waits in all, who reads is not held up by those who don't.
    fn fits(&self, waiting: usize) -> bool {
        let Limits { waiting_bytes, all_waiting_bytes, connections, .. } = self.limits;
        let most = if self.all_waiting.load(Ordering::Relaxed) <= all_waiting_bytes {
            waiting_bytes
        } else {
            waiting_bytes.min(all_waiting_bytes / connections.max(1))
        };
        waiting <= most
    }

    /// Waits until there is room. If nothing is read for too long, the connection ends.
    async fn room(&self) -> io::Result<()> {
        let mut bell = self.bell.subscribe();
        let mut last = usize::MAX;
        let mut until = Instant::now() + self.limits.stall_time;
        loop {
            {
                let state = self.state.locked();
                if state.inbox.is_none() {
                    return Err(io::ErrorKind::BrokenPipe.into());
                }
                if self.fits(state.waiting_bytes) {
                    return Ok(());
                }
                if state.waiting_bytes < last {
                    until = Instant::now() + self.limits.stall_time;
                }
                last = state.waiting_bytes;
            }
            if timeout_at(until, bell.changed()).await.is_err() {
                tracing::warn!("a client reads nothing; its connection ends");
                self.end();
            }
        }
    }

    /// Gives a stream to a reader; the one before has its end. Says where the stream begins.
    pub fn open(&self, session: Option<&str>, last: Option<&str>, strict: bool) -> Result<(u64, String), NoStream> {
        let state = &mut *self.state.locked();
        let key = session.map(str::to_owned);
        if !state.streams.contains_key(&key) {
            let unknown = state.streams.values().filter(|stream| !stream.named).count();
            if unknown >= self.limits.unknown_streams || state.streams.len() > self.limits.streams {
                return Err(NoStream::Unknown);
            }
        }
        let stream = state.streams.entry(key).or_default();
        let key_is_new = session.is_some() && stream.put == 0;
        if stream.has_reader && strict {
            return Err(NoStream::Taken);
        }
        stream.exists = true;
        stream.turn += 1;
        if !std::mem::replace(&mut stream.has_reader, true) {
            state.readers += 1;
        }
        stream.wake();
        // What was sent behind that position goes out again. Who has seen nothing may have all, if all is kept.
        let all = stream.taken == stream.kept.len() as u64;
        let first = format!("{}.0", self.mark);
        let from = match last {
            Some(last) if all && (last == "0" || last == first || stream.start.as_deref() == Some(last)) => Some(0),
            Some(last) => stream.kept.iter().rposition(|event| event.position == last).map(|at| at + 1),
            None => None,
        };
        for event in stream.kept.drain(from.unwrap_or(stream.kept.len())..).rev() {
            stream.taken -= 1;
            state.kept_bytes -= event.text.len();
            state.waiting_bytes += event.text.len();
            self.all_waiting.fetch_add(event.text.len(), Ordering::Relaxed);
            stream.queue.push_front(event);
        }
        if from.is_some() {
            stream.last = stream.kept.back().map(|event| event.position.clone());
        } else if let Some(last) = last.filter(|last| key_is_new && is_plain(last)) {
            // It is from an earlier connection: what comes next is behind that, whatever was counted then.
            let base = last.split('~').next().unwrap_or_default();
            stream.base = Some((base.to_owned(), 0));
            (stream.start, stream.stopped) = (Some(last.to_owned()), Some(last.to_owned()));
        }
        let start = stream.last.clone().or_else(|| stream.start.clone()).unwrap_or(first);
        Ok((stream.turn, start))
    }

    /// What waits for this reader, as events; the end if it has been replaced or the connection has ended.
    pub fn take(&self, session: Option<&str>, turn: u64, waker: &Waker) -> Poll<Option<Bytes>> {
        let state = &mut *self.state.locked();
        let key = session.map(str::to_owned);
        let Some(stream) = state.streams.get(&key).filter(|stream| stream.turn == turn) else {
            return Poll::Ready(None);
        };
        let held = |event: &Event| {
            let Some((session, put)) = &event.behind else { return false };
            state.inbox.is_some()
                && state.streams.get(&Some(session.clone())).is_some_and(|of| of.has_reader && of.taken < *put)
        };
        let mut bytes = 0;
        let ready = stream.queue.iter().take_while(|event| {
            let fits = bytes < PIECE && !held(event);
            bytes += event.text.len();
            fits
        });
        let ready = ready.count();
        if ready == 0 {
            if state.inbox.is_none() {
                return Poll::Ready(None);
            }
            if let Some(stream) = state.streams.get_mut(&key) {
                stream.waker = Some(waker.clone());
            }
            return Poll::Pending;
        }
        let Some(stream) = state.streams.get_mut(&key) else { return Poll::Ready(None) };
        let mut out = String::new();
        for event in stream.queue.drain(..ready) {
            out.extend(["id: ", &event.position, "\ndata: ", &event.text, "\n\n"]);
            state.waiting_bytes -= event.text.len();
            self.all_waiting.fetch_sub(event.text.len(), Ordering::Relaxed);
            state.kept_bytes += event.text.len();
            stream.last = Some(event.position.clone());
            stream.taken += 1;
            stream.kept.push_back(event);
        }
        while state.kept_bytes > self.limits.kept_bytes
            && let Some(old) = stream.kept.pop_front()
        {
            state.kept_bytes -= old.text.len();
        }
        self.moved(state);
        Poll::Ready(Some(out.into()))
    }

    /// A reader has gone.
    pub fn reader_left(&self, session: Option<&str>, turn: u64) {
        let state = &mut *self.state.locked();
        let key = session.map(str::to_owned);
        let Some(stream) = state.streams.get_mut(&key).filter(|stream| stream.turn == turn && stream.has_reader) else {
            return;
        };
        stream.has_reader = false;
        state.readers -= 1;
        state.quiet_since = Instant::now();
        // Nobody knows this session; its place can be another's.
        if !stream.named && stream.queue.is_empty() {
            state.streams.remove(&key);
        }
        self.moved(state);
    }

    /// Wakes who may go on now: an answer that waits for a session's stream, the agent that waits for room.
    fn moved(&self, state: &mut State) {
        if let Some(stream) = state.streams.get_mut(&None) {
            stream.wake();
        }
        self.bell.send_replace(());
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.all_waiting.fetch_sub(self.state.locked().waiting_bytes, Ordering::Relaxed);
    }
}

impl Stream {
    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl State {
    /// The agent spoke of a session.
    fn know(&mut self, session: &str, limits: &Limits) {
        if let Some(stream) = self.streams.get_mut(&Some(session.to_owned())) {
            (stream.exists, stream.named) = (true, true);
        } else if self.streams.len() <= limits.streams {
            let stream = Stream { exists: true, named: true, ..Stream::default() };
            self.streams.insert(Some(session.to_owned()), stream);
        }
    }
}

/// Ends a connection that nobody reads, and forgets one that has ended.
async fn watch_over(server: Server, connection: Arc<Connection>) {
    let mut bell = connection.bell.subscribe();
    loop {
        let until = {
            let state = connection.state.locked();
            if state.inbox.is_none() {
                break;
            }
            (state.readers == 0).then(|| state.quiet_since + state.grace)
        };
        let due = async {
            match until {
                Some(until) => sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = bell.changed() => {}
            () = due => {
                let state = connection.state.locked();
                let over = state.readers == 0 && state.quiet_since + state.grace <= Instant::now();
                drop(state);
                if over {
                    connection.end();
                }
            }
        }
    }
    server.forget(&connection.id);
}

/// The streams of a client, for what it says beside its messages. Clones are the same.
#[derive(Clone)]
pub struct Streams(pub(super) Arc<Connection>);

impl std::fmt::Debug for Streams {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Streams").finish_non_exhaustive()
    }
}

impl Streams {
    /// The last event that the client says it has of a session from an earlier connection; told once.
    pub fn stopped(&self, session: &str) -> Option<String> {
        self.0.state.locked().streams.get_mut(&Some(session.to_owned()))?.stopped.take()
    }
}

/// Whether a text can be a position: nothing in it ends a line.
fn is_plain(text: &str) -> bool {
    !text.is_empty() && text.len() <= MAX_POSITION_BYTES && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// The agent's way to the client.
pub(super) struct Writer(pub Arc<Connection>);

impl WriteMessages for Writer {
    async fn write(&mut self, message: &[u8]) -> io::Result<()> {
        let text = String::from_utf8(message.to_vec()).map_err(io::Error::other)?;
        self.0.put(text);
        self.0.room().await
    }

    async fn close(&mut self) {
        self.0.end();
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.0.end();
    }
}
