//! Two peers in memory, per dialect; and raw wires to our agent and to our client.

#![allow(dead_code, clippy::unwrap_used, clippy::missing_panics_doc)]

use serde_json::{Value, json};
use std::future::Future;
use std::time::Duration;
use tieline::agent::{Agent, Server};
use tieline::client::{AgentHandle, Client, Handler};
use tieline::{Dialect, Protocol, Transport};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};

/// How long a test waits for something that must come.
pub const SOON: Duration = Duration::from_secs(10);

/// Runs one scenario in every dialect.
pub async fn in_every_dialect<F: Future<Output = ()>>(scenario: impl Fn(Dialect) -> F) {
    for dialect in Dialect::ALL {
        tokio::time::timeout(SOON * 3, scenario(dialect))
            .await
            .unwrap_or_else(|_| panic!("{dialect}: the scenario hangs"));
    }
}

/// Our client connected to our agent in memory.
pub async fn pair(dialect: Dialect, agent: impl Agent, client: Client<impl Handler>) -> AgentHandle {
    let (near, far) = Transport::memory();
    tokio::spawn(Server::new(agent).serve(far));
    let agent = client.protocol(Protocol::Only(dialect)).connect(near).await.unwrap();
    assert_eq!(agent.dialect(), dialect);
    agent
}

/// A raw wire to one of our ends.
pub struct Wire {
    read: BufReader<ReadHalf<DuplexStream>>,
    write: Option<WriteHalf<DuplexStream>>,
    next_id: i64,
}

pub fn wire() -> (Wire, Transport) {
    let (near, far) = tokio::io::duplex(1 << 16);
    let (read, write) = tokio::io::split(near);
    (Wire { read: BufReader::new(read), write: Some(write), next_id: 0 }, Transport::stream(far).detect_framing())
}

/// A raw wire to our agent.
pub fn agent_wire(agent: impl Agent) -> Wire {
    agent_wire_with(Server::new(agent))
}

pub fn agent_wire_with<A: Agent>(server: Server<A>) -> Wire {
    let (wire, transport) = wire();
    tokio::spawn(server.serve(transport));
    wire
}

/// A hello in each dialect.
pub fn hello(dialect: Dialect) -> Value {
    match dialect {
        Dialect::V1 => {
            json!({"protocolVersion": 1, "clientInfo": {"name": "c", "version": "1"}, "clientCapabilities": {"fs": {"readTextFile": true, "writeTextFile": true}, "terminal": true, "elicitation": {"form": {}, "url": {}}, "auth": {"terminal": true}, "session": {"notices": {}, "compaction": {}, "configOptions": {"boolean": {}}}}})
        }
        Dialect::V2Seed => {
            json!({"protocolVersion": 2, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}})
        }
        Dialect::V2 => {
            json!({"protocolVersion": 2, "info": {"name": "c", "version": "1"}, "capabilities": {"elicitation": {"form": {}, "url": {}}, "auth": {"terminal": {}}}})
        }
    }
}

impl Wire {
    pub async fn send(&mut self, message: &Value) {
        self.line(&message.to_string()).await;
    }

    pub async fn line(&mut self, text: &str) {
        self.write.as_mut().unwrap().write_all(format!("{text}\n").as_bytes()).await.unwrap();
    }

    pub async fn get(&mut self) -> Value {
        let mut line = String::new();
        tokio::time::timeout(SOON, self.read.read_line(&mut line)).await.expect("a message in time").unwrap();
        assert!(!line.is_empty(), "the connection ended");
        serde_json::from_str(&line).unwrap()
    }

    /// Everything until the end of the stream.
    pub async fn rest(&mut self) -> Vec<Value> {
        let mut all = Vec::new();
        let mut line = String::new();
        while tokio::time::timeout(SOON, self.read.read_line(&mut line)).await.expect("the end in time").unwrap() > 0 {
            all.push(serde_json::from_str(&line).unwrap());
            line.clear();
        }
        all
    }

    pub fn hang_up(&mut self) {
        self.write = None;
    }

    pub async fn shut(&mut self) {
        if let Some(mut write) = self.write.take() {
            write.shutdown().await.unwrap();
        }
    }

    pub async fn notify(&mut self, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params})).await;
    }

    /// Sends a request without waiting; gives its id.
    pub async fn ask(&mut self, method: &str, params: Value) -> i64 {
        self.next_id += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": self.next_id, "method": method, "params": params})).await;
        self.next_id
    }

    /// Waits for the answer to `id`; what came before it is given too.
    pub async fn answer(&mut self, id: i64) -> (Value, Vec<Value>) {
        let mut before = Vec::new();
        loop {
            let message = self.get().await;
            if message.get("method").is_none() && message["id"] == json!(id) {
                return (message, before);
            }
            before.push(message);
        }
    }

    /// Sends a request and gives its result or error object.
    pub async fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params).await;
        self.answer(id).await.0
    }

    /// The result of a request that must work.
    pub async fn result(&mut self, method: &str, params: Value) -> Value {
        let answer = self.call(method, params.clone()).await;
        assert!(answer.get("error").is_none(), "{method} {params}: {answer}");
        answer["result"].clone()
    }

    /// The error code of a request that must fail.
    pub async fn code(&mut self, method: &str, params: Value) -> i64 {
        let answer = self.call(method, params.clone()).await;
        answer["error"]["code"].as_i64().unwrap_or_else(|| panic!("{method} {params} should fail: {answer}"))
    }

    /// Initializes and opens a session; gives its id.
    pub async fn open(&mut self, dialect: Dialect) -> String {
        self.result("initialize", hello(dialect)).await;
        self.new_session().await
    }

    pub async fn new_session(&mut self) -> String {
        self.result("session/new", json!({"cwd": "/tmp", "mcpServers": []})).await["sessionId"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    /// Sends a prompt and reads to the end of the turn, in any dialect. Gives the stop reason and the messages.
    pub async fn turn(&mut self, dialect: Dialect, session: &str, text: &str) -> (String, Vec<Value>) {
        let id = self.prompt(session, text).await;
        self.turn_end(dialect, id).await
    }

    pub async fn prompt(&mut self, session: &str, text: &str) -> i64 {
        self.ask("session/prompt", json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]})).await
    }

    pub async fn turn_end(&mut self, dialect: Dialect, id: i64) -> (String, Vec<Value>) {
        let mut seen = Vec::new();
        loop {
            let message = self.get().await;
            let update = &message["params"]["update"];
            let reason = if dialect == Dialect::V2 {
                (update["sessionUpdate"] == "state_update" && update["state"] == "idle")
                    .then(|| update["stopReason"].clone())
            } else {
                (message["id"] == json!(id) && message.get("method").is_none())
                    .then(|| message["result"]["stopReason"].clone())
            };
            seen.push(message.clone());
            if let Some(reason) = reason {
                return (reason.as_str().unwrap_or("none").to_owned(), seen);
            }
        }
    }

    /// Answers a request of our end.
    pub async fn reply(&mut self, request: &Value, result: Value) {
        self.send(&json!({"jsonrpc": "2.0", "id": request["id"], "result": result})).await;
    }

    /// The next request of our end with this method; what came before it is given too.
    pub async fn request(&mut self, method: &str) -> (Value, Vec<Value>) {
        let mut before = Vec::new();
        loop {
            let message = self.get().await;
            if message["method"] == method && message.get("id").is_some() {
                return (message, before);
            }
            before.push(message);
        }
    }
}

/// Reads the user's own message, which comes first in every turn.
pub async fn own_message(turn: &mut tieline::client::Turn) -> tieline::schema::Message {
    match turn.next().await {
        Some(tieline::Update::Message(message)) if message.kind == tieline::MessageKind::User => message,
        other => panic!("not the user's own message: {other:?}"),
    }
}

/// The updates of one kind among messages.
pub fn updates<'m>(messages: &'m [Value], kind: &str) -> Vec<&'m Value> {
    messages
        .iter()
        .map(|message| &message["params"]["update"])
        .filter(|update| update["sessionUpdate"] == kind)
        .collect()
}

/// The text of all agent chunks among messages.
pub fn said(messages: &[Value]) -> String {
    updates(messages, "agent_message_chunk").iter().filter_map(|update| update["content"]["text"].as_str()).collect()
}

/// Opens the session `s` of a client whose agent we play.
pub async fn open(wire: &mut Wire, agent: &AgentHandle) -> tieline::client::Session {
    let opening = {
        let agent = agent.clone();
        tokio::spawn(async move { agent.open("/tmp").await })
    };
    let (request, _) = wire.request("session/new").await;
    wire.reply(&request, json!({"sessionId": "s", "models": {"currentModelId": "m"}})).await;
    opening.await.unwrap().unwrap()
}
