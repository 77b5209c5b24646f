//! A server on loopback with an agent behind it, for the tests.
#![allow(dead_code)]

use std::net::SocketAddr;
use std::time::Duration;
use tieline::agent::{self, Agent, Ask};
use tieline::client::{AgentHandle, Client, Handler};
use tieline::{
    ContentBlock, Dialect, PermissionOptionKind, PermissionOutcome, PermissionRequest, Protocol, StopReason,
};
use tieline_http::server::{Arrival, Gate, Guest, Listener, Rules, Tokens, Visitor};
use tieline_http::{Remote, Server};
use tieline_web::{Http, Options};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

pub const TOKEN: &str = "s3cret";

/// Lets everybody in.
pub struct Open;

impl Gate for Open {
    fn admit(&self, _: &Visitor<'_>) -> Option<Guest> {
        Some(Guest("anybody".into()))
    }
}

pub struct Running {
    pub server: Server,
    pub address: SocketAddr,
}

impl Drop for Running {
    fn drop(&mut self) {
        let server = self.server.clone();
        tokio::spawn(async move { server.stop(Duration::from_secs(1)).await });
    }
}

impl Running {
    pub fn url(&self, scheme: &str) -> String {
        format!("{scheme}://{}/acp", self.address)
    }

    /// A client of it; nothing of the environment counts.
    pub fn remote(&self, scheme: &str) -> Remote {
        Remote::new(&self.url(scheme)).unwrap().http(Http::new(Options::default()))
    }
}

/// A server whose clients are taken by `each`.
pub async fn start<F>(rules: Rules, gate: impl Gate, each: F) -> Running
where
    F: Fn(Arrival) + Send + 'static,
{
    let (arrivals, mut arrived) = mpsc::channel(8);
    let server = Server::new(rules, gate, arrivals);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let listening = server.clone();
    tokio::spawn(async move { listening.listen(Listener::Tcp(listener)).await });
    tokio::spawn(async move {
        while let Some(arrival) = arrived.recv().await {
            each(arrival);
        }
    });
    Running { server, address }
}

/// A server that gives each client an agent of its own.
pub async fn with_agent<A: Agent>(rules: Rules, gate: impl Gate, agent: fn() -> A) -> Running {
    start(rules, gate, move |arrival| {
        tokio::spawn(agent::serve(agent(), arrival.transport));
    })
    .await
}

pub fn tokens() -> Tokens {
    Tokens::default().with("me", TOKEN)
}

/// Asks, counts, or waits to be cancelled.
pub fn asker() -> impl Agent {
    agent::from_fn("asker", |turn, prompt| async move {
        let text: String = prompt.iter().filter_map(ContentBlock::as_text).collect();
        if text == "wait" {
            turn.say("waiting").await?;
            turn.cancelled().await;
            return Ok(StopReason::Cancelled);
        }
        let ask = Ask::new("Write").option("y", "Yes", PermissionOptionKind::AllowOnce);
        turn.say(if turn.ask(ask).await?.is_allowed() { "yes" } else { "no" }).await?;
        for number in 0..200 {
            turn.say(format!(" {number}")).await?;
        }
        Ok(StopReason::EndTurn)
    })
    .remember()
}

struct Person;

impl Handler for Person {
    async fn permission(&self, request: PermissionRequest) -> PermissionOutcome {
        let yes = request.options.iter().find(|option| option.kind == PermissionOptionKind::AllowOnce);
        yes.map_or_else(PermissionOutcome::cancelled, |option| PermissionOutcome::selected(&*option.option_id))
    }
}

pub async fn reach(remote: &Remote, dialect: Dialect) -> AgentHandle {
    let client = Client::new("c", "1").handler(Person).protocol(Protocol::Only(dialect));
    client.connect(remote.connect().await.unwrap()).await.unwrap()
}

/// What it says.
pub fn expected() -> String {
    (0..200).fold("yes".to_owned(), |text, number| format!("{text} {number}"))
}
