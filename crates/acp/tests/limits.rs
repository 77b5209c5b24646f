//! Every limit that the guide says can be changed is changed by a test, and acts: here, or in the file that is named.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{Wire, hello, pair, wire};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tieline::agent::{About, Agent, Opened, Opening, Server, Session, Turn, from_fn};
use tieline::bridge::Bridge;
use tieline::client::{AgentHandle, Client, Handler};
use tieline::rpc::{Dropped, Limits};
use tieline::schema::{ListRequest, ListResponse};
use tieline::{ContentBlock, Dialect, Error, Protocol, Raw, Result, StopReason, Transport};
use tokio::time::{Instant, timeout};

/// The guide's table of limits.
const GUIDE: &str = include_str!("../src/guide/errors.md");
const HERE: &str = include_str!("limits.rs");
const PEERS: &str = include_str!("peers.rs");
const TURNS: &str = include_str!("turns.rs");

/// What can be changed, and who changes it.
const CHANGED: [(&str, &str, &str); 22] = [
    ("Bridge::cancel_grace", HERE, ".cancel_grace(SHORT)"),
    ("Bridge::hello_deadline", HERE, "Bridge::default().hello_deadline(SHORT)"),
    ("Client::budget", include_str!("client.rs"), ".budget(64 * 1024)"),
    ("Client::cancel_deadline", HERE, ".cancel_deadline(SHORT)"),
    ("Client::close_deadline", HERE, ".close_deadline(SHORT)"),
    ("Client::deadline", HERE, "Client::default().deadline(SHORT)"),
    ("Client::hello_deadline", HERE, "Client::default().hello_deadline(SHORT)"),
    ("Client::longest_update", HERE, ".longest_update(2000)"),
    ("Client::set_up_deadline", HERE, ".set_up_deadline(SHORT)"),
    ("Limits::batch_entries", include_str!("../../rpc/tests/batches.rs"), "batch_entries: 3"),
    ("Limits::open_requests", include_str!("../../rpc/tests/connection.rs"), "open_requests: 2"),
    ("Limits::unheard_bytes", HERE, "unheard_bytes: 1000"),
    ("Server::cancel_grace", TURNS, ".cancel_grace(Duration"),
    ("Server::close_grace", HERE, ".close_grace(SHORT)"),
    ("Server::deadline", PEERS, ".deadline(Duration"),
    ("Server::drain", TURNS, ".drain(Duration"),
    ("Server::sessions_per_page", PEERS, ".sessions_per_page(1)"),
    ("Server::waiting_prompts", PEERS, ".waiting_prompts(1)"),
    ("Spec::shutdown", include_str!("../../process/tests/child.rs"), ".shutdown(short())"),
    ("Transcript::with_output_limit", include_str!("../../schema/tests/transcript.rs"), ".with_output_limit("),
    ("Transport::limit", include_str!("../../rpc/tests/connection.rs"), ".limit(200)"),
    ("Transport::queue", HERE, ".queue(queue)"),
];

const SHORT: Duration = Duration::from_millis(20);

#[test]
fn every_limit_of_the_guide_is_changed_by_a_test() {
    let rows = GUIDE.lines().filter(|line| line.starts_with("| ") && line.contains("](crate::"));
    let named: BTreeSet<&str> = rows.filter_map(|row| row.split("[`").nth(1)?.split("`]").next()).collect();
    assert_eq!(named, CHANGED.iter().map(|(name, ..)| *name).collect());
    for (name, test, how) in CHANGED {
        assert!(test.contains(how), "{name} is not changed where it is said to be: {how}");
    }
}

/// An agent that never gets done with what it is asked.
struct Never {
    /// Not even with a new session.
    opens: bool,
}

impl Agent for Never {
    type Session = Self;

    fn about(&self) -> About {
        let mut about = About::new("never", "1");
        about.capabilities.list = true;
        about
    }

    async fn open(&self, _: Opening) -> Result<Opened<Self>> {
        if self.opens { Ok(Opened::new(Self { opens: true })) } else { std::future::pending().await }
    }

    async fn list(&self, _: ListRequest) -> Result<Option<ListResponse>> {
        std::future::pending().await
    }
}

impl Session for Never {
    async fn prompt(&self, _: Turn, _: Vec<ContentBlock>) -> Result<StopReason> {
        std::future::pending().await
    }

    async fn close(&self) {
        std::future::pending::<()>().await;
    }
}

fn is_short<T: std::fmt::Debug>(result: Result<T>) {
    assert!(matches!(result, Err(Error::TimedOut { after, .. }) if after == SHORT), "{result:?}");
}

#[tokio::test(start_paused = true)]
async fn deadlines_of_a_client() {
    let (_nobody, transport) = wire();
    is_short(Client::default().hello_deadline(SHORT).connect(transport).await);
    let agent = pair(Dialect::V1, Never { opens: false }, Client::default().set_up_deadline(SHORT)).await;
    is_short(agent.open("/").await);
    let agent = pair(Dialect::V1, Never { opens: true }, Client::default().deadline(SHORT)).await;
    is_short(agent.list(ListRequest::default()).await);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_turn_that_does_not_end() {
    let (near, far) = Transport::memory();
    tokio::spawn(Server::new(Never { opens: true }).cancel_grace(Duration::from_secs(60)).serve(far));
    let client = Client::default().protocol(Protocol::Only(Dialect::V1)).cancel_deadline(SHORT);
    let session = client.connect(near).await.unwrap().open("/").await.unwrap();
    drop(session.prompt("one").await.unwrap());
    is_short(session.prompt("two").await);
}

/// Our client, connected to a raw wire.
async fn connect(client: Client<impl Handler>, queue: usize) -> (Wire, AgentHandle) {
    let (mut wire, transport) = wire();
    let connecting = tokio::spawn(client.protocol(Protocol::Only(Dialect::V1)).connect(transport.queue(queue)));
    let (request, _) = wire.request("initialize").await;
    wire.reply(&request, json!({"protocolVersion": 1, "agentCapabilities": {}})).await;
    (wire, connecting.await.unwrap().unwrap())
}

/// More than a pipe takes.
fn long() -> Value {
    json!({"text": "x".repeat(1 << 20)})
}

#[tokio::test(start_paused = true)]
async fn what_is_left_to_be_written_at_the_end() {
    let (_wire, agent) = connect(Client::default().close_deadline(SHORT), 1 << 16).await;
    agent.notify("_long", &long()).await.unwrap();
    let start = Instant::now();
    agent.close().await;
    assert!(start.elapsed() < SHORT * 2, "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn sessions_that_do_not_close() {
    let (mut wire, transport) = wire();
    let served = tokio::spawn(Server::new(Never { opens: true }).close_grace(SHORT).drain(SHORT).serve(transport));
    wire.open(Dialect::V1).await;
    let start = Instant::now();
    wire.shut().await;
    served.await.unwrap().unwrap();
    assert!(start.elapsed() < SHORT * 10, "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn senders_wait_where_they_are_told_to() {
    // The pipe is full after the first one; then so much may wait, and no more.
    for (queue, waits) in [(1000, true), (1 << 20, false)] {
        let (_wire, agent) = connect(Client::default(), queue).await;
        agent.notify("_long", &long()).await.unwrap();
        tokio::task::yield_now().await;
        agent.notify("_a", &json!({"text": "x".repeat(2000)})).await.unwrap();
        let second = timeout(SHORT, agent.notify("_b", &json!({}))).await;
        assert_eq!(second.is_err(), waits, "{queue}");
    }
}

/// Hears what was dropped, and nothing ever to its end.
#[derive(Clone, Default)]
struct Deaf(Arc<Mutex<Vec<String>>>);

impl Handler for Deaf {
    fn dropped(&self, what: Dropped<'_>) {
        self.0.lock().unwrap().push(format!("{what:?}"));
    }

    async fn extension_notification(&self, _: String, _: Raw, _: AgentHandle) {
        std::future::pending::<()>().await;
    }
}

#[tokio::test(start_paused = true)]
async fn notifications_that_nobody_hears_and_updates_that_are_too_long() {
    let limits = Limits { unheard_bytes: 1000, ..Limits::default() };
    let deaf = Deaf::default();
    let client = Client::default().handler(deaf.clone()).limits(limits).longest_update(2000);
    let (mut wire, agent) = connect(client, 1 << 16).await;
    let opening = tokio::spawn(async move { (agent.open("/").await, agent) });
    let (request, _) = wire.request("session/new").await;
    wire.reply(&request, json!({"sessionId": "s"})).await;
    let (session, agent) = opening.await.unwrap();
    let session = session.unwrap();
    // It is cut, and the client is told.
    let update = json!({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "x".repeat(5000)});
    wire.notify("session/update", json!({"sessionId": "s", "update": update})).await;
    assert!(session.next().await.is_some());
    assert!(deaf.0.lock().unwrap()[0].contains("too long"), "{:?}", deaf.0);
    // One is being heard, and another is too much: nothing more is read until they are given up.
    for _ in 0..2 {
        wire.notify("_news", json!({"text": "x".repeat(900)})).await;
    }
    let asking = tokio::spawn(async move { agent.call::<Value>("_ask", &json!({})).await });
    let (request, _) = wire.request("_ask").await;
    let start = Instant::now();
    wire.reply(&request, json!({})).await;
    asking.await.unwrap().unwrap();
    assert!(start.elapsed() >= Duration::from_secs(29), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_bridge_waits_as_long_as_it_is_told() {
    let ((mut client, front), (_nobody, back)) = (wire(), wire());
    tokio::spawn(Bridge::default().hello_deadline(SHORT).serve(front, back));
    let start = Instant::now();
    let asked = client.ask("initialize", hello(Dialect::V1)).await;
    assert!(client.answer(asked).await.0["error"].is_object());
    assert!(start.elapsed() < SHORT * 3, "{:?}", start.elapsed());

    let deaf = from_fn("deaf", |_turn, _| std::future::pending::<Result<StopReason>>());
    let ((mut client, front), (near, far)) = (wire(), Transport::memory());
    tokio::spawn(Server::new(deaf).cancel_grace(Duration::from_secs(60)).serve(far));
    let bridge = Bridge::default().agent_protocol(Protocol::Only(Dialect::V1));
    tokio::spawn(bridge.cancel_grace(SHORT).serve(front, near));
    let session = client.open(Dialect::V1).await;
    let prompt = client.prompt(&session, "go").await;
    let start = Instant::now();
    client.notify("session/cancel", json!({"sessionId": session})).await;
    assert_eq!(client.answer(prompt).await.0["result"]["stopReason"], "cancelled");
    assert!(start.elapsed() < SHORT * 3, "{:?}", start.elapsed());
}
