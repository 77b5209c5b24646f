//! One request: who asks, what for, and the answer. The numbers in the tests are those of the rules.

// A refusal is an answer as any other, and no larger.
#![allow(clippy::result_large_err)]

use super::coming::{Coming, Counted};
use super::connection::{self, Connection, NoStream, Refused, Writer};
use super::events::Events;
use super::shares::Caller;
use super::who::{self, Place};
use super::{Arrival, Guest, Server, Streams};
use crate::look::{Sight, look};
use crate::{CONNECTION, LAST_EVENT, SESSION, random_name, socket};
use http::header::{self, HeaderValue};
use http::request::Parts;
use http::{HeaderMap, HeaderName, Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Body as _, Bytes, Incoming};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::sync::Arc;
use tieline_rpc::Transport;
use tieline_rpc::sync::Lock;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;

type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// Longer names are no names of ours, in bytes.
const MAX_NAME_BYTES: usize = 1024;
/// How long somebody waits who came at a bad time, in seconds.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("1");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

const METHODS: &str = "GET, POST, DELETE, OPTIONS";
const ALLOWED: &str =
    "content-type, accept, authorization, acp-connection-id, acp-session-id, acp-protocol-version, last-event-id";
const EXPOSED: &str = "acp-connection-id, acp-session-id";

/// Answers a request.
pub(super) async fn answer(server: &Server, request: Request<Incoming>, place: Place, caller: &Arc<Caller>) -> Answer {
    let rules = &server.0.rules;
    let (head, body) = request.into_parts();
    if !who::host_is_ours(&head, rules, place) {
        return told(StatusCode::FORBIDDEN, "the server is not asked for by this name");
    }
    let Ok(origin) = who::page_origin(&head, rules, place).map(|origin: Option<&HeaderValue>| origin.cloned()) else {
        return told(StatusCode::FORBIDDEN, "pages of this origin may not ask");
    };
    let mut answer = route(server, head, body, place, caller).await;
    let headers = answer.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if let Some(origin) = origin {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
    }
    headers.append(header::VARY, HeaderValue::from_static("origin"));
    answer
}

async fn route(server: &Server, head: Parts, body: Incoming, place: Place, caller: &Arc<Caller>) -> Answer {
    let rules = &server.0.rules;
    if head.uri.path() != rules.path {
        return match server.0.gate.page(&head) {
            Some(page) => page.map(|body| Full::new(body).boxed_unsync()),
            None => told(StatusCode::NOT_FOUND, "there is nothing here"),
        };
    }
    if head.method == Method::OPTIONS {
        let mut answer = empty(StatusCode::NO_CONTENT);
        let headers = answer.headers_mut();
        headers.insert(header::ALLOW, HeaderValue::from_static(METHODS));
        headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(METHODS));
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(ALLOWED));
        return answer;
    }
    if !matches!(head.method, Method::GET | Method::POST | Method::DELETE) {
        let mut answer = told(StatusCode::METHOD_NOT_ALLOWED, "GET, POST and DELETE are");
        answer.headers_mut().insert(header::ALLOW, HeaderValue::from_static(METHODS));
        return answer;
    }
    let Some(guest) = who::admit(&head, rules, place, &*server.0.gate) else {
        let mut answer = told(StatusCode::UNAUTHORIZED, "a credential is needed: Authorization: Bearer …");
        answer.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        return answer;
    };
    if server.is_stopping() {
        return later("the server stops");
    }
    let most = server.limits().guest_sockets;
    if !caller.belongs(&guest, &server.0.guest_sockets, most, &server.0.strangers) {
        let mut answer = busy(StatusCode::TOO_MANY_REQUESTS, "this token has all the sockets that it may have");
        answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        return answer;
    }
    let done = match head.method {
        Method::POST => post(server, &head, body, guest).await,
        Method::DELETE => delete(server, &head, &guest),
        _ if wants_socket(&head) => upgrade(server, head, guest).await,
        _ => get(server, &head, &guest),
    };
    done.unwrap_or_else(|refused| refused)
}

/// The value of a header that is a name; `Err` if it is none.
fn name<'a>(headers: &'a HeaderMap, key: &HeaderName) -> Result<Option<&'a str>, Answer> {
    let mut values = headers.get_all(key).iter();
    let Some(value) = values.next() else { return Ok(None) };
    match value.to_str() {
        Ok(text) if !text.is_empty() && text.len() <= MAX_NAME_BYTES && values.next().is_none() => Ok(Some(text)),
        _ => Err(told(StatusCode::BAD_REQUEST, &format!("{key} makes no sense"))),
    }
}

/// The connection that the request names.
fn connection(server: &Server, head: &Parts, guest: &Guest) -> Result<Arc<Connection>, Answer> {
    let id = name(&head.headers, &CONNECTION)?;
    let id = id.ok_or_else(|| told(StatusCode::BAD_REQUEST, "Acp-Connection-Id is missing"))?;
    let found = server.connection(id, guest);
    found.ok_or_else(|| told(StatusCode::NOT_FOUND, "there is no such connection; say initialize again"))
}

async fn post(server: &Server, head: &Parts, body: Incoming, guest: Guest) -> Result<Answer, Answer> {
    let bad = |why: &str| told(StatusCode::BAD_REQUEST, why);
    let kind = head.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json") {
        return Err(told(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Content-Type must be application/json"));
    }
    let text = whole(server, &guest, body).await?;
    let Ok(text) = String::from_utf8(text) else { return Err(bad("the body is not UTF-8")) };
    let Some(sight) = look(&text) else { return Err(bad("the body is not a JSON-RPC message")) };
    let rules = &server.0.rules;
    if rules.strict && matches!(sight, Sight::Batch(_)) {
        return Err(told(StatusCode::NOT_IMPLEMENTED, "batches are not supported"));
    }
    if let Sight::One(message) = &sight
        && message.is("initialize")
        && let Some(id) = message.id.clone()
    {
        if head.headers.contains_key(CONNECTION) {
            return Err(bad("initialize makes a new connection; Acp-Connection-Id does not belong there"));
        }
        return initialize(server, text.clone(), id, guest).await;
    }
    let connection = connection(server, head, &guest)?;
    // What is about messages belongs to the connection, whatever its header says.
    let about_messages = sight.looks().iter().all(|look| look.method.as_ref().is_some_and(|m| m.starts_with("$/")));
    let session = name(&head.headers, &SESSION)?.filter(|_| !about_messages);
    if let Some(session) = session
        && sight.named().any(|named| named != session)
    {
        return Err(bad("Acp-Session-Id and the session of the message differ"));
    }
    if rules.strict && session.is_none() && sight.named().next().is_some() {
        return Err(bad("Acp-Session-Id is missing"));
    }
    let mut named = sight.named().chain(session);
    if named.any(|session| session.len() > MAX_NAME_BYTES) {
        return Err(bad("the session's name is too long"));
    }
    if sight.named().chain(session).any(|session| !server.0.gate.may_see(&guest, session)) {
        return Err(told(StatusCode::NOT_FOUND, "there is no such session"));
    }
    match connection.receive(text.clone(), &sight, session).await {
        Ok(()) => Ok(empty(StatusCode::ACCEPTED)),
        Err(Refused::WrongSession) => Err(bad("Acp-Session-Id is not that of the request this answers")),
        Err(Refused::TooMany) => Err(busy(StatusCode::TOO_MANY_REQUESTS, "too many requests have no answer yet")),
        Err(Refused::Full) => Err(later("the agent takes nothing now")),
        Err(Refused::Gone) => Err(told(StatusCode::NOT_FOUND, "the connection has ended; say initialize again")),
    }
}

/// The whole body, within its limits.
async fn whole(server: &Server, guest: &Guest, body: Incoming) -> Result<Vec<u8>, Answer> {
    let limits = server.limits();
    let large = || told(StatusCode::PAYLOAD_TOO_LARGE, &format!("a body has at most {} bytes", limits.body_bytes));
    if body.size_hint().lower() > limits.body_bytes as u64 {
        return Err(large());
    }
    let size = body.size_hint().upper().map_or(limits.body_bytes, |size| size as usize);
    let room = server.0.coming.take(guest, size, (limits.guest_coming_bytes, limits.all_coming_bytes));
    let _room = room.ok_or_else(|| busy(StatusCode::TOO_MANY_REQUESTS, "too much is on its way"))?;
    match timeout(limits.body_time, Limited::new(body, limits.body_bytes).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes().into()),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => Err(large()),
        Ok(Err(_)) => Err(told(StatusCode::BAD_REQUEST, "the body broke off")),
        Err(_) => Err(told(StatusCode::REQUEST_TIMEOUT, "the body took too long")),
    }
}

/// Ends a connection whose client went away before its hello was answered.
struct Unanswered<'a>(&'a Connection);

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// A place for one more client.
fn place_for(server: &Server, guest: &Guest) -> Result<connection::Place, Answer> {
    let own = server.0.guest_places.take(guest, 1, (server.limits().guest_connections, usize::MAX));
    let own =
        own.ok_or_else(|| busy(StatusCode::TOO_MANY_REQUESTS, "this token has all the connections that it may have"))?;
    let all = server.0.places.clone().try_acquire_owned().map_err(|_| later("there are too many connections"))?;
    Ok((all, own))
}

async fn initialize(server: &Server, text: String, id: tieline_rpc::Id, guest: Guest) -> Result<Answer, Answer> {
    let place = place_for(server, &guest)?;
    let (connection, messages, told_hello) = Connection::new(server, guest.clone(), id, place);
    let name = connection.id.clone();
    server.0.connections.locked().insert(name.clone(), connection.clone());
    let unanswered = Unanswered(&connection);
    let transport = Transport::messages(messages, Writer(connection.clone()));
    let streams = Some(Streams(connection.clone()));
    let arrival = Arrival { id: name.clone(), guest, transport, streams };
    let hello = async {
        server.0.arrivals.send(arrival).await.map_err(|_| later("the server stops"))?;
        connection.greet(text).await;
        told_hello.await.map_err(|_| told(StatusCode::BAD_GATEWAY, "the agent has gone"))
    };
    let hello = timeout(server.limits().hello_time, hello).await;
    let hello =
        hello.map_err(|_| told(StatusCode::GATEWAY_TIMEOUT, "the agent did not answer initialize in time"))??;
    std::mem::forget(unanswered);
    let mut answer = Response::new(Full::new(Bytes::from(hello)).boxed_unsync());
    answer.headers_mut().insert(header::CONTENT_TYPE, JSON);
    if let Ok(name) = HeaderValue::from_str(&name) {
        answer.headers_mut().insert(CONNECTION, name);
    }
    Ok(answer)
}

fn get(server: &Server, head: &Parts, guest: &Guest) -> Result<Answer, Answer> {
    let accepts = |kind: &str| {
        let kind = kind.split(';').next().unwrap_or_default().trim();
        kind.eq_ignore_ascii_case("text/event-stream") || kind == "*/*" || kind == "text/*"
    };
    if !who::list(&head.headers, &header::ACCEPT, ',').any(accepts) {
        return Err(told(StatusCode::NOT_ACCEPTABLE, "Accept must have text/event-stream"));
    }
    let connection = connection(server, head, guest)?;
    let session = name(&head.headers, &SESSION)?;
    let unknown = || told(StatusCode::NOT_FOUND, "there is no such session");
    if session.is_some_and(|session| !server.0.gate.may_see(guest, session)) {
        return Err(unknown());
    }
    // One that makes no sense is as good as none.
    let last_event = name(&head.headers, &LAST_EVENT).ok().flatten();
    let (turn, start) = connection.open(session, last_event, server.0.rules.strict).map_err(|error| match error {
        NoStream::Taken => told(StatusCode::CONFLICT, "the stream has a reader"),
        NoStream::Unknown => unknown(),
    })?;
    let events = Events::new(connection.clone(), session.map(str::to_owned), turn, &start);
    let mut answer = Response::new(events.boxed_unsync());
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(answer)
}

fn delete(server: &Server, head: &Parts, guest: &Guest) -> Result<Answer, Answer> {
    let connection = connection(server, head, guest)?;
    server.forget(&connection.id);
    connection.end();
    Ok(empty(StatusCode::ACCEPTED))
}

fn wants_socket(head: &Parts) -> bool {
    who::list(&head.headers, &header::UPGRADE, ',').any(|name| name.eq_ignore_ascii_case("websocket"))
}

async fn upgrade(server: &Server, mut head: Parts, guest: Guest) -> Result<Answer, Answer> {
    let is = |name: &HeaderName, value: &str| {
        who::list(&head.headers, name, ',').any(|part| part.eq_ignore_ascii_case(value))
    };
    let key = head.headers.get(header::SEC_WEBSOCKET_KEY).filter(|key| key.len() == 24).cloned();
    let (Some(key), true) = (key, is(&header::CONNECTION, "upgrade")) else {
        return Err(told(StatusCode::BAD_REQUEST, "this is no handshake for a WebSocket"));
    };
    if !is(&header::SEC_WEBSOCKET_VERSION, "13") {
        let mut answer = told(StatusCode::UPGRADE_REQUIRED, "WebSockets have version 13");
        answer.headers_mut().insert(header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
        return Err(answer);
    }
    let place = place_for(server, &guest)?;
    let room = server.0.arrivals.clone().reserve_owned();
    let room = timeout(server.limits().take_time, room).await.ok().and_then(Result::ok);
    let room = room.ok_or_else(|| later("nobody takes new connections now"))?;
    let chosen = who::chosen(&head.headers);
    let Some(upgrade) = head.extensions.remove::<hyper::upgrade::OnUpgrade>() else {
        return Err(told(StatusCode::BAD_REQUEST, "this connection can't become a WebSocket"));
    };
    let id = random_name::<16>();
    let mut answer = empty(StatusCode::SWITCHING_PROTOCOLS);
    let headers = answer.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    let accept = derive_accept_key(key.as_bytes());
    for (key, value) in [(header::SEC_WEBSOCKET_ACCEPT, accept.as_str()), (CONNECTION, id.as_str())] {
        headers.insert(key, HeaderValue::from_str(value).map_err(|_| empty(StatusCode::INTERNAL_SERVER_ERROR))?);
    }
    if let Some(chosen) = chosen {
        headers.insert(header::SEC_WEBSOCKET_PROTOCOL, chosen);
    }
    let server = server.clone();
    let (stop, open) = (server.0.stop.subscribe(), server.0.sockets.subscribe());
    tokio::spawn(async move {
        let Ok(Ok(stream)) = timeout(server.limits().head_time, upgrade).await else { return };
        let limits = server.limits();
        let coming = Arc::new(Coming {
            counts: Arc::clone(&server.0.coming),
            guest: guest.clone(),
            most: (limits.guest_coming_bytes, limits.all_coming_bytes),
            time: limits.body_time,
            state: std::sync::Mutex::default(),
        });
        let stream = Counted { stream: TokioIo::new(stream), coming: Arc::clone(&coming) };
        let config = Some(socket::config(limits.message_bytes));
        let stream = WebSocketStream::from_raw_socket(stream, Role::Server, config).await;
        let transport =
            socket::transport(stream, stop, Some(coming), |_| {}).keep((place, std::sync::Mutex::new(open)));
        room.send(Arrival { id, guest, transport, streams: None });
    });
    Ok(answer)
}

fn empty(status: StatusCode) -> Answer {
    let mut answer = Response::new(Full::default().boxed_unsync());
    *answer.status_mut() = status;
    answer
}

/// An answer in words. What the peer sent is not repeated.
fn told(status: StatusCode, why: &str) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(format!("{why}\n"))).boxed_unsync());
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    answer
}

fn busy(status: StatusCode, why: &str) -> Answer {
    let mut answer = told(status, why);
    answer.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER);
    answer
}

fn later(why: &str) -> Answer {
    busy(StatusCode::SERVICE_UNAVAILABLE, why)
}
