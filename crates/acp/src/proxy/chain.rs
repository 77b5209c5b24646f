//! The standard chain of proxies: a conductor starts us and stands on both sides of us, on one wire.
//!
//! What comes from the client comes as it is; what is meant for the agent, and what comes from it, is wrapped in `proxy/successor`. A conductor
//! says `proxy/initialize` instead of `initialize`. Ids need no translation: all requests that reach us are the conductor's, so their
//! ids are unlike, and each goes on with the id that it came with.

use super::Sender;
use super::parts::Parts;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use tieline_json::{Reader, write_str};
use tieline_rpc::sync::Lock;
use tieline_rpc::{Event, FrameReader, FrameWriter, Transport};
use tokio::sync::mpsc;

/// So many messages may wait between the wire and the proxy, each way.
const WAITING_MESSAGES: usize = 64;
/// So many requests may be open; more are not taken back to the side that asked.
const MAX_OPEN_REQUESTS: usize = 65_536;

/// The two sides of a proxy that a conductor started: the client's and the agent's, both over `wire`. Give them to [`run`](super::run).
///
/// ```no_run
/// use tieline::Transport;
/// use tieline::proxy::{self, Pass};
///
/// # async fn example() {
/// let (client, agent) = proxy::chain(Transport::stdio().detect_framing());
/// proxy::run(client, agent, |_| Pass::On).await;
/// # }
/// ```
pub fn chain(wire: Transport) -> (Transport, Transport) {
    let (reader, writer) = wire.open();
    let (to_client_side, client_in) = mpsc::channel(WAITING_MESSAGES);
    let (to_agent_side, agent_in) = mpsc::channel(WAITING_MESSAGES);
    let (client_out, from_client_side) = mpsc::channel(WAITING_MESSAGES);
    let (agent_out, from_agent_side) = mpsc::channel(WAITING_MESSAGES);
    let open = Arc::new(Mutex::new(Open::default()));
    let [read, client_writer] = [0, 1].map(|_| Arc::clone(&open));
    tokio::spawn(take_apart(reader, read, to_client_side, to_agent_side));
    tokio::spawn(bring_together(Sender::Client, from_client_side, writer.clone(), client_writer));
    tokio::spawn(bring_together(Sender::Agent, from_agent_side, writer, open));
    (Transport::messages(client_in, client_out), Transport::messages(agent_in, agent_out))
}

/// Requests that are not answered yet, by their id and the side that they belong to.
#[derive(Default)]
struct Open {
    /// Those that we sent to the conductor.
    sent: HashMap<String, Sender>,
    /// Those that the conductor sent to us.
    received: HashMap<String, Sender>,
    /// The conductor is of the time before the names were standard: `_proxy/…`.
    is_older: bool,
}

fn note(open: &mut HashMap<String, Sender>, id: &str, side: Sender) {
    if open.len() < MAX_OPEN_REQUESTS {
        open.insert(id.to_owned(), side);
    }
}

/// What comes from the conductor goes to the side that it is meant for.
async fn take_apart(
    mut reader: FrameReader,
    open: Arc<Mutex<Open>>,
    client: mpsc::Sender<Vec<u8>>,
    agent: mpsc::Sender<Vec<u8>>,
) {
    loop {
        let at = match reader.next().await {
            Event::Frame(at) | Event::Last(at) => at,
            Event::TooLong(_) => {
                tracing::warn!("a message over the size limit was not passed on");
                continue;
            }
            Event::Broken(_) | Event::End(_) => return,
        };
        let Ok(text) = std::str::from_utf8(reader.bytes(at)) else { continue };
        let Some((side, message)) = open_up(text, &mut open.locked()) else { continue };
        let to = if side == Sender::Client { &client } else { &agent };
        if to.send(message).await.is_err() {
            return;
        }
    }
}

fn open_up(text: &str, open: &mut Open) -> Option<(Sender, Vec<u8>)> {
    let parts = Parts::of(text)?;
    let Some(method) = parts.method.as_deref() else {
        return Some((open.sent.remove(parts.id?)?, text.into()));
    };
    let (side, message) = match method.strip_prefix('_').unwrap_or(method) {
        "proxy/successor" => {
            open.is_older = method.starts_with('_');
            let inner = Parts::of(parts.params?)?;
            (Sender::Agent, call(parts.id, inner.method.as_deref()?, inner.params))
        }
        "proxy/initialize" => {
            open.is_older = method.starts_with('_');
            (Sender::Client, call(parts.id, "initialize", parts.params))
        }
        // It withdraws a request that the conductor sent, on whichever side.
        "$/cancel_request" => {
            let side = withdrawn(parts.params).and_then(|id| open.received.get(id)).copied();
            return Some((side.unwrap_or(Sender::Client), text.into()));
        }
        _ => (Sender::Client, text.into()),
    };
    if let Some(id) = parts.id {
        note(&mut open.received, id, side);
    }
    Some((side, message))
}

fn withdrawn(params: Option<&str>) -> Option<&str> {
    let mut json = Reader::new(params?);
    let (mut object, mut id) = (json.object().ok()?, None);
    while let Some(key) = object.key(&mut json).ok()? {
        if key == "requestId" {
            id = Some(json.raw().ok()?);
        } else {
            json.skip().ok()?;
        }
    }
    id
}

/// What goes to one side goes to the conductor, who passes it on.
async fn bring_together(
    side: Sender,
    mut messages: mpsc::Receiver<Vec<u8>>,
    writer: FrameWriter,
    open: Arc<Mutex<Open>>,
) {
    while let Some(message) = messages.recv().await {
        let message =
            std::str::from_utf8(&message).ok().and_then(|text| wrap(side, text, &mut open.locked())).unwrap_or(message);
        if writer.send(|out| out.extend_from_slice(&message)).await.is_err() {
            break;
        }
    }
    // One side has ended, so the proxy has.
    writer.close().await;
}

/// `None` if it goes as it is.
fn wrap(side: Sender, text: &str, open: &mut Open) -> Option<Vec<u8>> {
    let parts = Parts::of(text)?;
    let Some(method) = &parts.method else {
        open.received.remove(parts.id?);
        return None;
    };
    if let Some(id) = parts.id {
        note(&mut open.sent, id, side);
    }
    if side == Sender::Client || method.starts_with("$/") {
        return None;
    }
    let mut inner = b"{\"method\":".to_vec();
    write_str(&mut inner, method);
    if let Some(params) = parts.params {
        inner.extend_from_slice(b",\"params\":");
        inner.extend_from_slice(params.as_bytes());
    }
    inner.push(b'}');
    let name = if open.is_older { "_proxy/successor" } else { "proxy/successor" };
    Some(call(parts.id, name, std::str::from_utf8(&inner).ok()))
}

/// A request, or without an id a notification.
fn call(id: Option<&str>, method: &str, params: Option<&str>) -> Vec<u8> {
    let mut out = b"{\"jsonrpc\":\"2.0\"".to_vec();
    if let Some(id) = id {
        out.extend_from_slice(b",\"id\":");
        out.extend_from_slice(id.as_bytes());
    }
    out.extend_from_slice(b",\"method\":");
    write_str(&mut out, method);
    if let Some(params) = params {
        out.extend_from_slice(b",\"params\":");
        out.extend_from_slice(params.as_bytes());
    }
    out.push(b'}');
    out
}
