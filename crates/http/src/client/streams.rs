//! Streamable HTTP as one transport: messages go out as POST, one after the other; what comes on the event streams comes out as one.

use super::cookies::Jar;
use super::{Remote, status_told};
use crate::look::{Look, Sight, look};
use crate::socket::refusal;
use crate::{CONNECTION, LAST_EVENT, SESSION};
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{Method, Request, Response, StatusCode};
use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tieline_rpc::sync::Lock;
use tieline_rpc::{DEFAULT_LIMIT, Id, ReadMessages, Transport, WriteMessages};
use tieline_web::sse::Parser;
use tieline_web::{Body, Bytes, HttpError, Phase};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep, sleep_until, timeout};

/// Messages that wait to be read above.
const QUEUE: usize = 16;
/// A message waits so long for the one before it: a server that holds a request until its answer must not hold up a cancel.
const IN_ORDER: Duration = Duration::from_secs(2);
/// Requests under way at most; the next message waits.
const MAX_POSTS: usize = 16;
/// Questions of the agent whose sessions are remembered.
const MAX_ASKED: usize = 4096;
/// A message of a session waits so long for the session's stream.
const STREAM_TIME: Duration = Duration::from_secs(5);
/// A stream that was cut is opened again within this time; servers keep a connection for about as long.
const PATIENCE: Duration = Duration::from_secs(30);
const FIRST_WAIT: Duration = Duration::from_millis(250);
const LONGEST_WAIT: Duration = Duration::from_secs(15);
/// A server that is busy is asked so often.
const TRIES: usize = 5;
/// A stream on which signs of life come is cut when they stay out. Others may be silent for long.
const SILENCE: Duration = Duration::from_mins(1);
const LONG_SILENCE: Duration = Duration::from_mins(15);
/// The answer to a load comes on another stream than what it is about, so it is held back until that stream is quiet for so long …
const QUIET: Duration = Duration::from_millis(100);
/// … but no longer than this.
const QUIET_LIMIT: Duration = Duration::from_secs(5);
/// Saying goodbye takes no longer than this.
const GOODBYE: Duration = Duration::from_secs(2);

/// A transport that says nothing before its first message.
pub(super) fn transport(remote: Remote) -> Transport {
    let (up, messages) = mpsc::channel(QUEUE);
    let link = Arc::new(Link { remote, up, state: Mutex::default() });
    Transport::messages(Incoming(messages), Outgoing { link, posts: JoinSet::new() })
}

struct Incoming(mpsc::Receiver<io::Result<Vec<u8>>>);

impl ReadMessages for Incoming {
    async fn read(&mut self) -> io::Result<Option<Vec<u8>>> {
        self.0.recv().await.transpose()
    }
}

struct Link {
    remote: Remote,
    up: mpsc::Sender<io::Result<Vec<u8>>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    jar: Jar,
    connection: Option<HeaderValue>,
    /// Our requests that have no answer yet, and the sessions they speak of.
    open: HashMap<Id, Open>,
    /// When something last came on the stream of a session that is loaded.
    loading: HashMap<String, Instant>,
    /// The agent's requests, and their sessions.
    asked: HashMap<Id, String>,
    streams: HashMap<String, (watch::Receiver<Opened>, AbortHandle)>,
    /// Sessions whose stream the server refuses until they are taken up.
    late: HashSet<String>,
    /// The tasks that read streams; they end with this.
    readers: JoinSet<()>,
    lost: bool,
}

/// A request of ours.
struct Open {
    session: Option<String>,
    loads: bool,
    closes: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Opened {
    Waiting,
    Yes,
    No,
}

/// What became of a POST.
enum Sent {
    Yes,
    /// Only this message failed.
    Failed(String),
    /// There is no connection any more.
    Lost(String),
}

struct Outgoing {
    link: Arc<Link>,
    posts: JoinSet<()>,
}

impl WriteMessages for Outgoing {
    async fn write(&mut self, message: &[u8]) -> io::Result<()> {
        let text = String::from_utf8(message.to_vec()).map_err(io::Error::other)?;
        if self.link.state.locked().lost {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        if self.posts.len() >= MAX_POSTS {
            self.posts.join_next().await;
        }
        while self.posts.try_join_next().is_some() {}
        let (link, (sent, done)) = (Arc::clone(&self.link), oneshot::channel::<()>());
        self.posts.spawn(async move {
            link.send(text).await;
            drop(sent);
        });
        let _ = timeout(IN_ORDER, done).await;
        Ok(())
    }

    async fn close(&mut self) {
        let _ = timeout(GOODBYE, async { while self.posts.join_next().await.is_some() {} }).await;
        self.link.goodbye().await;
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        // Readers hold the link, and it holds them.
        self.link.state.locked().readers.abort_all();
    }
}

impl Link {
    fn request(&self, method: Method, session: Option<&str>) -> Request<Bytes> {
        let state = self.state.locked();
        let mut request = Request::new(Bytes::new());
        *request.method_mut() = method;
        *request.uri_mut() = self.remote.uri.clone();
        *request.headers_mut() = self.remote.headers(&state.jar);
        if let Some(connection) = &state.connection {
            request.headers_mut().insert(CONNECTION, connection.clone());
        }
        if let Some(session) = session.and_then(|session| HeaderValue::from_str(session).ok()) {
            request.headers_mut().insert(SESSION, session);
        }
        request
    }

    async fn ask(&self, request: Request<Bytes>) -> Result<Response<Body>, HttpError> {
        let answer = self.remote.http.send(request).await?;
        self.state.locked().jar.take(answer.headers());
        Ok(answer)
    }

    async fn post(&self, text: &str, session: Option<&str>) -> Result<Response<Body>, HttpError> {
        let mut request = self.request(Method::POST, session);
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        *request.body_mut() = Bytes::from(text.to_owned());
        self.ask(request).await
    }

    /// The end, with the reason.
    async fn lose(&self, why: String) {
        if std::mem::replace(&mut self.state.locked().lost, true) {
            return;
        }
        tracing::warn!(why, "the connection to the agent is lost");
        self.remote.trouble.locked().why = Some(why.clone());
        let _ = self.up.send(Err(io::Error::new(io::ErrorKind::ConnectionAborted, why))).await;
    }

    /// Sends one message, and sees to what comes of it.
    async fn send(self: Arc<Self>, text: String) {
        let Some(sight) = look(&text) else { return };
        let sent = match &sight {
            Sight::One(one) if one.is("initialize") && one.is_request() => self.initialize(&text).await,
            _ => self.message(&text, &sight).await,
        };
        match sent {
            Sent::Yes => {}
            Sent::Lost(why) => self.lose(why).await,
            // The agent would wait for it for ever.
            Sent::Failed(why) if sight.looks().iter().any(Look::is_response) => self.lose(why).await,
            Sent::Failed(why) => {
                for id in sight.looks().iter().filter(|look| look.is_request()).filter_map(|look| look.id.as_ref()) {
                    self.state.locked().open.remove(id);
                    let why = why.replace(['"', '\\'], "'");
                    let _ = self.up.send(Ok(refusal(Some(id), -32000, &why).into_bytes())).await;
                }
            }
        }
    }

    /// Says hello. Each one makes a connection of its own; the one before is given up.
    async fn initialize(self: &Arc<Self>, text: &str) -> Sent {
        self.goodbye().await;
        let answer = match self.post(text, None).await {
            Ok(answer) => answer,
            Err(error) => return Sent::Lost(error.to_string()),
        };
        let status = answer.status();
        let connection = answer.headers().get(CONNECTION).cloned();
        if !status.is_success() {
            return Sent::Lost(self.remote.refused(status).to_string());
        }
        let body = match answer.into_body().bytes(DEFAULT_LIMIT).await {
            Ok(body) => body,
            Err(error) => return Sent::Lost(error.to_string()),
        };
        let said = std::str::from_utf8(&body).ok().and_then(look);
        let Some(Sight::One(said)) = said.filter(|said| said.looks().iter().all(Look::is_response)) else {
            return Sent::Lost(format!("{}: its answer to initialize is no JSON-RPC", self.remote.host()));
        };
        if let Some(connection) = connection {
            self.state.locked().connection = Some(connection);
            if !said.is_error {
                self.read_stream(None);
            }
        } else if !said.is_error {
            return Sent::Lost(format!("{}: its answer to initialize has no Acp-Connection-Id", self.remote.host()));
        }
        drop(said);
        let _ = self.up.send(Ok(body)).await;
        Sent::Yes
    }

    async fn message(self: &Arc<Self>, text: &str, sight: &Sight<'_>) -> Sent {
        let session = self.scope(sight);
        if let Some(session) = &session {
            self.stream_of(session).await;
        }
        {
            let mut state = self.state.locked();
            for look in sight.looks().iter().filter(|look| look.is_request()) {
                if let Some(id) = &look.id {
                    let (session, loads) = (look.scope().map(str::to_owned), look.is("session/load"));
                    let closes = look.is("session/close") || look.is("session/delete");
                    if let (Some(session), true) = (&session, loads) {
                        state.loading.insert(session.clone(), Instant::now());
                    }
                    state.open.insert(id.clone(), Open { session, loads, closes });
                }
            }
        }
        let mut header = session.as_deref();
        let takes_up = matches!(sight, Sight::One(one) if one.takes_up());
        for _ in 0..TRIES {
            let answer = match self.post(text, header).await {
                Ok(answer) => answer,
                // Nothing was sent yet.
                Err(error) if error.phase != Phase::Head => return Sent::Lost(error.to_string()),
                Err(error) => {
                    let why =
                        format!("{error} It is not known whether the last message arrived, so it is not sent again.");
                    return Sent::Lost(why);
                }
            };
            let status = answer.status();
            let told = || format!("{}: {}", self.remote.host(), status_told(status));
            let wait = answer.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
            match status {
                _ if status.is_success() => return Sent::Yes,
                // Some know a session only when it is taken up, and take it up only without its name.
                StatusCode::NOT_FOUND | StatusCode::FORBIDDEN if takes_up && header.is_some() => header = None,
                StatusCode::TOO_MANY_REQUESTS => self.wait(wait.unwrap_or(1)).await,
                // With a time to wait it says that it did not take the message.
                StatusCode::SERVICE_UNAVAILABLE if wait.is_some() => self.wait(wait.unwrap_or(1)).await,
                StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::NOT_FOUND | StatusCode::GONE => {
                    self.remote.refused(status);
                    return Sent::Lost(format!("{}: the connection is gone ({})", self.remote.host(), status.as_u16()));
                }
                _ => return Sent::Failed(told()),
            }
        }
        Sent::Failed(format!("{}: it is busy", self.remote.host()))
    }

    async fn wait(&self, seconds: u64) {
        sleep(Duration::from_secs(seconds).min(LONGEST_WAIT)).await;
    }

    /// The session that a message belongs to; an answer belongs where the question did.
    fn scope(&self, sight: &Sight<'_>) -> Option<String> {
        if let Some(session) = sight.scope() {
            return Some(session.to_owned());
        }
        let mut state = self.state.locked();
        let answers = sight.looks().iter().filter(|look| look.is_response()).filter_map(|look| look.id.as_ref());
        let sessions: Vec<Option<String>> = answers.map(|id| state.asked.remove(id)).collect();
        let first = sessions.first().cloned().flatten();
        first.filter(|first| sessions.iter().all(|session| session.as_ref() == Some(first)))
    }

    /// Sees to it that a session has its stream, unless the server does not want that yet.
    async fn stream_of(self: &Arc<Self>, session: &str) {
        let known = {
            let state = self.state.locked();
            if state.late.contains(session) {
                return;
            }
            state.streams.get(session).map(|(opened, _)| opened.clone())
        };
        let mut opened = known.unwrap_or_else(|| self.read_stream(Some(session.to_owned())));
        let _ = timeout(STREAM_TIME, opened.wait_for(|opened| *opened != Opened::Waiting)).await;
    }

    /// Reads a stream from now on.
    fn read_stream(self: &Arc<Self>, session: Option<String>) -> watch::Receiver<Opened> {
        let (tell, opened) = watch::channel(Opened::Waiting);
        let link = Arc::clone(self);
        let mut state = self.state.locked();
        let name = session.clone();
        let reader = state.readers.spawn(async move { link.follow(session, tell).await });
        if let Some(session) = name {
            state.late.remove(&session);
            state.streams.insert(session, (opened.clone(), reader));
        }
        opened
    }

    /// One stream, opened again when it is cut.
    async fn follow(self: Arc<Self>, session: Option<String>, opened: watch::Sender<Opened>) {
        let mut parser = Parser::new(DEFAULT_LIMIT);
        let (mut last, mut wait, mut until) = (String::new(), FIRST_WAIT, None);
        let mut from = String::new();
        loop {
            let why = match self.open_stream(session.as_deref(), &from).await {
                Ok(body) => {
                    opened.send_replace(Opened::Yes);
                    parser = Parser::new(DEFAULT_LIMIT);
                    let end = self.drink(body, &mut parser, session.as_deref()).await;
                    if !parser.last_id().is_empty() {
                        parser.last_id().clone_into(&mut last);
                    }
                    (wait, until) = (FIRST_WAIT, None);
                    match end {
                        // Nothing can be missing.
                        Ok(()) => "it ended".to_owned(),
                        Err(why) if last.is_empty() && !self.state.locked().open.is_empty() => {
                            let why = format!("{why} The server can't go on where it stopped.");
                            return self.lose(why).await;
                        }
                        Err(why) => why,
                    }
                }
                Err(Ok(status)) => match (status.as_u16(), &session) {
                    (403 | 404, Some(session)) if *opened.borrow() == Opened::Waiting => {
                        let mut state = self.state.locked();
                        state.streams.remove(session);
                        state.late.insert(session.clone());
                        drop(state);
                        opened.send_replace(Opened::No);
                        return;
                    }
                    (409 | 429 | 500..=599, _) => format!("it answered {status}"),
                    _ => return self.lose(self.remote.refused(status).to_string()).await,
                },
                Err(Err(error)) => error.to_string(),
            };
            // Nothing came of it: from its beginning.
            from = if last.is_empty() { "0".to_owned() } else { last.clone() };
            let until = *until.get_or_insert_with(|| Instant::now() + PATIENCE);
            if Instant::now() >= until {
                return self.lose(why).await;
            }
            tracing::warn!(why, "a stream of the agent broke off; it is opened again");
            let asked = parser.retry().map(Duration::from_millis).map(|asked| asked.min(LONGEST_WAIT));
            sleep(jitter(asked.unwrap_or(wait))).await;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }

    async fn open_stream(&self, session: Option<&str>, last: &str) -> Result<Body, Result<StatusCode, HttpError>> {
        let mut request = self.request(Method::GET, session);
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        if let (false, Ok(last)) = (last.is_empty(), HeaderValue::from_str(last)) {
            request.headers_mut().insert(LAST_EVENT, last);
        }
        let silence = if last.is_empty() { LONG_SILENCE } else { SILENCE };
        let answer = self.remote.http.times(SILENCE, Some(silence)).send(request).await.map_err(Err)?;
        self.state.locked().jar.take(answer.headers());
        if answer.status() == StatusCode::OK { Ok(answer.into_body()) } else { Err(Ok(answer.status())) }
    }

    /// Reads a stream to its end: a proper one, or one for a reason.
    async fn drink(self: &Arc<Self>, mut body: Body, parser: &mut Parser, session: Option<&str>) -> Result<(), String> {
        while let Some(chunk) = body.chunk().await.map_err(|error| error.to_string())? {
            parser.push(&chunk);
            while let Some(event) = parser.event() {
                match event {
                    Ok(event) if event.name.is_empty() || event.name == "message" => {
                        self.take(event.data, session).await;
                    }
                    Ok(_) => {}
                    Err(_) => tracing::warn!("a message over the size limit was passed over"),
                }
            }
        }
        Ok(())
    }

    /// Takes a message in, and opens the streams of sessions it makes.
    async fn take(self: &Arc<Self>, text: String, stream: Option<&str>) {
        let (loaded, closed) = look(&text).map(|sight| self.note(&sight, stream)).unwrap_or_default();
        if let Some(session) = loaded {
            self.until_quiet(&session).await;
        }
        let _ = self.up.send(Ok(text.into_bytes())).await;
        // A server may leave it open and tell nothing on it any more, even if the session is taken up again.
        let closed = closed.and_then(|session| self.state.locked().streams.remove(&session));
        if let Some((_, reader)) = closed {
            reader.abort();
        }
    }

    /// What there is to know of a message; gives the session whose load it answers on another stream, and the one that it says is
    /// closed.
    fn note(self: &Arc<Self>, sight: &Sight<'_>, stream: Option<&str>) -> (Option<String>, Option<String>) {
        let (mut fresh, mut loaded, mut closed) = (HashSet::new(), None, None);
        let mut state = self.state.locked();
        if let Some(heard) = stream.and_then(|session| state.loading.get_mut(session)) {
            *heard = Instant::now();
        }
        for look in sight.looks() {
            let Some(id) = &look.id else { continue };
            if look.is_response() {
                let open = state.open.remove(id);
                let session = open.as_ref().and_then(|open| open.session.clone());
                if open.as_ref().is_some_and(|open| open.loads && stream.is_none()) {
                    loaded.clone_from(&session);
                }
                if open.is_some_and(|open| open.closes && !look.is_error) {
                    closed.clone_from(&session);
                }
                fresh.extend(session.filter(|session| !look.is_error && state.late.contains(session)));
                let made = look.made.as_deref().filter(|made| !state.streams.contains_key(*made));
                fresh.extend(made.map(str::to_owned));
            } else if let Some(session) = look.scope()
                && state.asked.len() < MAX_ASKED
            {
                state.asked.insert(id.clone(), session.to_owned());
            }
        }
        drop(state);
        for session in fresh {
            self.read_stream(Some(session));
        }
        (loaded, closed)
    }

    /// Waits until what a session was loaded with has come.
    async fn until_quiet(&self, session: &str) {
        let limit = Instant::now() + QUIET_LIMIT;
        let mut quiet = Instant::now() + QUIET;
        while Instant::now() < quiet.min(limit) {
            sleep_until(quiet.min(limit)).await;
            let heard = self.state.locked().loading.get(session).copied();
            quiet = heard.map_or(quiet, |heard| quiet.max(heard + QUIET));
        }
        self.state.locked().loading.remove(session);
    }

    /// Gives the connection up, if there is one.
    async fn goodbye(&self) {
        let had = {
            let mut state = self.state.locked();
            state.readers.abort_all();
            state.streams.clear();
            state.late.clear();
            state.connection.is_some() && !state.lost
        };
        if had {
            let _ = timeout(GOODBYE, self.ask(self.request(Method::DELETE, None))).await;
        }
        self.state.locked().connection = None;
    }
}

/// A time between its half and the whole, so that not all come back at once.
fn jitter(time: Duration) -> Duration {
    let part = u8::from_str_radix(&crate::random_name::<1>(), 16).unwrap_or(0);
    time / 2 + time / 2 * u32::from(part) / 255
}
