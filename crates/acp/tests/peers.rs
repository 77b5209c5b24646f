//! Handlers know their peer, and what limits and watches a connection can be set.

#![allow(clippy::unwrap_used)]

mod common;

use common::{agent_wire_with, in_every_dialect, pair};
use serde_json::json;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tieline::agent::{About, Agent, ClientHandle, Opened, Opening, Server, Session, Turn, from_fn};
use tieline::client::{AgentHandle, Client, Handler};
use tieline::rpc::Direction;
use tieline::schema::ReadTextFileRequest;
use tieline::{ContentBlock, Dialect, Error, Raw, Result, StopReason, Transport};

/// Asks back whatever it is asked.
struct Asking(AtomicUsize);
struct Nothing;

impl Agent for Asking {
    type Session = Nothing;

    fn about(&self) -> About {
        About::new("asking", "1")
    }

    async fn initialized(&self, client: ClientHandle) {
        let _ = client.notify("_ready", &json!({"dialect": client.dialect().to_string()})).await;
    }

    async fn open(&self, _: Opening) -> Result<Opened<Nothing>> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(Opened::new(Nothing))
    }

    async fn extension(&self, _: String, params: Raw, client: ClientHandle) -> Result<Raw> {
        client.call("_back", &params.parse::<serde_json::Value>()?).await
    }

    async fn extension_notification(&self, _: String, params: Raw, client: ClientHandle) {
        let _ = client.notify("_told", &params.parse::<serde_json::Value>().unwrap()).await;
    }
}

impl Session for Nothing {
    async fn prompt(&self, _: Turn, _: Vec<ContentBlock>) -> Result<StopReason> {
        Ok(StopReason::EndTurn)
    }
}

#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<String>>>);

impl Handler for Told {
    async fn extension(&self, method: String, params: Raw, agent: AgentHandle) -> Result<Raw> {
        // The handler may ask the agent while the agent waits for it.
        let name = agent.info().map(|info| info.name.clone());
        assert!(agent.open("/").await.is_ok());
        Ok(Raw::of(&json!({"method": method, "params": params.parse::<serde_json::Value>()?, "agent": name}))?)
    }

    async fn extension_notification(&self, method: String, params: Raw, agent: AgentHandle) {
        self.0.lock().unwrap().push(format!("{method} {} {}", params.get(), agent.dialect()));
    }
}

#[tokio::test]
async fn handlers_know_their_peer() {
    in_every_dialect(|dialect| async move {
        let told = Told::default();
        let asking = Arc::new(Asking(AtomicUsize::new(0)));
        // One agent for several connections.
        for opened in 1..3 {
            let agent = pair(dialect, Arc::clone(&asking), Client::new("c", "1").handler(told.clone())).await;
            let answer: serde_json::Value = agent.call("_forth", &json!({"x": 1})).await.unwrap();
            assert_eq!(answer, json!({"method": "_back", "params": {"x": 1}, "agent": "asking"}), "{dialect}");
            assert_eq!(asking.0.load(Ordering::SeqCst), opened, "{dialect}");
            agent.notify("_tell", &json!({"y": 2})).await.unwrap();
            let all = async {
                while told.0.lock().unwrap().len() < 2 * opened {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            };
            tokio::time::timeout(common::SOON, all).await.unwrap();
            let heard = told.0.lock().unwrap().clone();
            assert!(heard.contains(&format!("_ready {{\"dialect\":\"{dialect}\"}} {dialect}")), "{heard:?}");
            assert!(heard.contains(&format!("_told {{\"y\":2}} {dialect}")), "{heard:?}");
        }
    })
    .await;
}

/// A request of the agent that comes before its answer to the hello waits for it, and ends with it.
#[tokio::test]
async fn an_agent_that_asks_too_early() {
    for fails in [false, true] {
        let (mut wire, transport) = common::wire();
        let connecting = tokio::spawn(Client::new("c", "1").handler(Told::default()).connect(transport));
        let (hello, _) = wire.request("initialize").await;
        wire.send(&json!({"jsonrpc": "2.0", "id": 7, "method": "_early", "params": {}})).await;
        if fails {
            wire.send(&json!({"jsonrpc": "2.0", "id": hello["id"], "error": {"code": -32603, "message": "no"}})).await;
            assert!(connecting.await.unwrap().is_err());
            continue;
        }
        wire.reply(&hello, json!({"protocolVersion": 1})).await;
        let agent = connecting.await.unwrap().unwrap();
        let (open, _) = wire.request("session/new").await;
        wire.reply(&open, json!({"sessionId": "s"})).await;
        assert_eq!(wire.answer(7).await.0["result"]["method"], "_early");
        drop(agent);
    }
}

#[tokio::test]
async fn a_server_can_be_watched() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let tap = Arc::clone(&seen);
    let quick = from_fn("quick", |_, _| async { Ok(StopReason::EndTurn) });
    let server = Server::new(quick).tap(move |way, frame| {
        tap.lock().unwrap().push((way, String::from_utf8_lossy(frame).into_owned()));
    });
    let mut wire = agent_wire_with(server);
    wire.open(Dialect::V1).await;
    let seen = seen.lock().unwrap();
    let saw = |way: Direction, what: &str| seen.iter().any(|(of, frame)| *of == way && frame.contains(what));
    assert!(saw(Direction::In, "session/new") && saw(Direction::Out, "sessionId"), "{seen:?}");
}

/// Answers nothing.
struct Slow;

impl Handler for Slow {
    async fn read_text_file(&self, _: ReadTextFileRequest) -> Result<String> {
        std::future::pending().await
    }
}

#[tokio::test]
async fn an_agents_own_deadline_can_be_set() {
    let reader = from_fn("reader", |turn, _| async move {
        match turn.client().read_text_file("/x", None, None).await {
            Err(Error::TimedOut { after, .. }) if after == Duration::from_millis(20) => Ok(StopReason::EndTurn),
            other => Err(Error::internal(format!("{other:?}"))),
        }
    });
    let (near, far) = Transport::memory();
    tokio::spawn(Server::new(reader).deadline(Duration::from_millis(20)).serve(far));
    let client = Client::new("c", "1").handler(Slow).offer(|can| can.fs_read = true);
    let agent = client.protocol(tieline::Protocol::Only(Dialect::V1)).connect(near).await.unwrap();
    let session = agent.open("/").await.unwrap();
    assert_eq!(session.prompt("go").await.unwrap().text().await.unwrap().1, StopReason::EndTurn);
}

#[tokio::test]
async fn prompts_that_wait_and_pages_can_be_limited() {
    let patient = from_fn("patient", |turn, _| async move {
        turn.cancelled().await;
        Ok(StopReason::EndTurn)
    });
    let mut wire = agent_wire_with(Server::new(patient.remember()).waiting_prompts(1).sessions_per_page(1));
    let session = wire.open(Dialect::V2).await;
    for _ in 0..2 {
        wire.prompt(&session, "wait").await;
    }
    let third = wire.prompt(&session, "one too many").await;
    assert_eq!(wire.answer(third).await.0["error"]["code"], -32600);
    wire.new_session().await;
    let page = wire.result("session/list", json!({})).await;
    assert_eq!((page["sessions"].as_array().unwrap().len(), &page["nextCursor"]), (1, &json!("1")));
}
