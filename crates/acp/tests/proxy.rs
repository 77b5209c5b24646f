//! What stands between a client and an agent: in every dialect and framing, alone and in a conductor's chain.

#![allow(clippy::unwrap_used)]

mod common;

use common::{SOON, in_every_dialect};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use tieline::agent::Ask;
use tieline::client::{AgentHandle, Client};
use tieline::proxy::{self, Pass, Passing, Sender};
use tieline::rpc::framing::Framing;
use tieline::schema::{AgentCall, ClientCall, SessionSetup, Update};
use tieline::{Dialect, Error, Protocol, Raw, StopReason, Transport, WireError, agent};
use tokio::sync::mpsc;

fn echo() -> impl tieline::agent::Agent {
    agent::from_fn("echo", |turn, prompt| async move {
        for block in prompt {
            turn.say(block).await?;
        }
        Ok(StopReason::EndTurn)
    })
}

async fn through(
    dialect: Dialect,
    framing: Framing,
    each: impl FnMut(&mut Passing<'_>) -> Pass + Send + 'static,
) -> AgentHandle {
    let (client, near) = Transport::memory();
    let (far, agent) = Transport::memory();
    tokio::spawn(agent::serve(echo(), agent.detect_framing()));
    tokio::spawn(proxy::run(near.detect_framing(), far.framing(framing), each));
    // The client speaks the other framing than the agent, so that both are in play.
    let other = if framing == Framing::Lines { Framing::Headers } else { Framing::Lines };
    let program = Client::new("c", "1").protocol(Protocol::Only(dialect)).framing(other);
    tokio::time::timeout(SOON, program.connect(client)).await.unwrap().unwrap()
}

#[tokio::test]
async fn a_prompt_is_logged_and_rewritten_and_the_answer_too() {
    in_every_dialect(|dialect| async move {
        for framing in [Framing::Lines, Framing::Headers] {
            let log: Arc<Mutex<Vec<String>>> = Arc::default();
            let seen = Arc::clone(&log);
            let agent = through(dialect, framing, move |message| {
                if let Some(AgentCall::Prompt(mut prompt)) = message.call_to_agent() {
                    assert_eq!(message.dialect(), Some(dialect));
                    prompt.prompt.push(" and more".into());
                    message.rewrite(&prompt);
                }
                if let Some(ClientCall::Update(mut told)) = message.call_to_client()
                    && let Update::Chunk(chunk) = &mut told.update
                    && chunk.content.as_text() == Some("secret")
                {
                    chunk.content = "public".into();
                    message.rewrite(&told);
                }
                if message.is_answer() {
                    seen.lock().unwrap().push(message.method().unwrap_or("?").to_owned());
                    if message.method() == Some("session/new") {
                        assert!(message.result::<SessionSetup>().is_some());
                    }
                }
                Pass::On
            })
            .await;
            let session = agent.open("/").await.unwrap();
            let (said, _) = session.prompt("secret").await.unwrap().text().await.unwrap();
            assert_eq!(said, "public and more", "{dialect} {framing:?}");
            let log = log.lock().unwrap();
            assert_eq!(log[..2], ["initialize", "session/new"], "{dialect}");
            assert!(!log.contains(&"?".to_owned()), "{log:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_request_is_answered_or_refused_in_between() {
    in_every_dialect(|dialect| async move {
        let agent = through(dialect, Framing::Lines, |message| match message.method() {
            Some("_greet") if message.is_request() => Pass::Answer(Raw::of("hello").unwrap()),
            Some("session/prompt") if message.is_request() => Pass::Refuse(WireError::new(-32050, "not today")),
            _ => Pass::On,
        })
        .await;
        let session = agent.open("/").await.unwrap();
        let answer: String = agent.call("_greet", &json!({})).await.unwrap();
        assert_eq!(answer, "hello");
        let error = session.prompt("hi").await.unwrap().text().await.unwrap_err();
        assert!(matches!(&error, Error::Wire(wire) if wire.code == -32050), "{dialect}: {error}");
    })
    .await;
}

/// Who sent a message, and its method.
type Seen = (Sender, Option<String>);

/// What is not touched goes on byte for byte, whatever it is.
#[tokio::test]
async fn what_is_not_touched_goes_on_as_it_is() {
    let (to_proxy, from_client) = mpsc::channel::<Vec<u8>>(16);
    let (to_client, mut at_client) = mpsc::channel::<Vec<u8>>(16);
    let (from_agent, at_proxy) = mpsc::channel::<Vec<u8>>(16);
    let (to_agent, mut at_agent) = mpsc::channel::<Vec<u8>>(16);
    let (near, far) = (Transport::messages(from_client, to_client), Transport::messages(at_proxy, to_agent));
    let methods: Arc<Mutex<Vec<Seen>>> = Arc::default();
    let seen = Arc::clone(&methods);
    tokio::spawn(proxy::run(near, far, move |message| {
        seen.lock().unwrap().push((message.from(), message.method().map(str::to_owned)));
        match (message.method(), message.is_answer()) {
            (Some("_drop"), _) => Pass::HoldBack,
            (Some("_change"), false) => {
                message.rewrite_json(&Raw::of(&json!({"new": true})).unwrap());
                Pass::On
            }
            _ => Pass::On,
        }
    }));
    let odd = [
        r#"{ "jsonrpc":"2.0" ,"id":1.50, "method":"_x","params":{"_meta":{"traceparent":"00-ab"},"n":1e400},"extra":[1, 2]}"#,
        r#"{"id":"s","method":"nobody/knows","jsonrpc":"2.0"}"#,
        r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1.50}}"#,
        r#"[ {"jsonrpc":"2.0","id":2,"method":"_a"} , {"jsonrpc":"2.0","method":"_b"}]"#,
        "rubbish",
        "[]",
        r#"{"jsonrpc":"2.0","id":1,"#,
    ];
    for text in odd {
        to_proxy.send(text.into()).await.unwrap();
        assert_eq!(String::from_utf8(at_agent.recv().await.unwrap()).unwrap(), text);
        from_agent.send(text.into()).await.unwrap();
        assert_eq!(String::from_utf8(at_client.recv().await.unwrap()).unwrap(), text);
    }
    // Of a batch, what is held back or rewritten; everything else of it stays as it is.
    to_proxy
        .send(
            r#"[{"jsonrpc":"2.0","method":"_drop"},{"id": 7,"method":"_keep"},{"id":8,"method":"_change","x":0}]"#
                .into(),
        )
        .await
        .unwrap();
    let batch = String::from_utf8(at_agent.recv().await.unwrap()).unwrap();
    assert_eq!(batch, r#"[{"id": 7,"method":"_keep"},{"id":8,"method":"_change","x":0,"params":{"new":true}}]"#);
    // The answer to it is known by its method, and only the answer from the other side.
    from_agent.send(r#"{"jsonrpc":"2.0","id":8,"result":{}}"#.into()).await.unwrap();
    at_client.recv().await.unwrap();
    assert_eq!(methods.lock().unwrap().last().unwrap(), &(Sender::Agent, Some("_change".to_owned())));
    // A frame of which nothing is left does not go on.
    to_proxy.send(r#"[{"method":"_drop"}]"#.into()).await.unwrap();
    to_proxy.send(r#"{"method":"_last"}"#.into()).await.unwrap();
    assert_eq!(at_agent.recv().await.unwrap(), br#"{"method":"_last"}"#);
}

/// A conductor with one proxy: the client and the agent are behind the same wire.
async fn conduct(older: bool, mut client: Wire, mut agent: Wire, mut wire: Wire) {
    let name = |name: &str| if older { format!("_{name}") } else { name.to_owned() };
    let (mut next, mut asked) = (100, std::collections::HashMap::new());
    loop {
        tokio::select! {
            message = client.1.recv() => {
                let Some(message) = message else { return };
                let mut message: Value = serde_json::from_slice(&message).unwrap();
                if message["method"] == "initialize" { message["method"] = name("proxy/initialize").into(); }
                // A conductor has ids of its own.
                if message.get("method").is_some() && message.get("id").is_some() {
                    next += 1;
                    asked.insert(next, ("client", message["id"].clone()));
                    message["id"] = next.into();
                }
                wire.0.send(message.to_string().into()).await.unwrap();
            }
            message = agent.1.recv() => {
                let Some(message) = message else { return };
                let message: Value = serde_json::from_slice(&message).unwrap();
                let out = if message.get("method").is_some() {
                    let mut out = json!({"jsonrpc": "2.0", "method": name("proxy/successor"), "params": {"method": message["method"], "params": message["params"]}});
                    if message.get("id").is_some() {
                        next += 1;
                        asked.insert(next, ("agent", message["id"].clone()));
                        out["id"] = next.into();
                    }
                    out
                } else {
                    message
                };
                wire.0.send(out.to_string().into()).await.unwrap();
            }
            message = wire.1.recv() => {
                let Some(message) = message else { return };
                let mut message: Value = serde_json::from_slice(&message).unwrap();
                let method = message["method"].as_str().map(str::to_owned);
                match method.as_deref() {
                    Some(method) if method == name("proxy/successor") => {
                        let params = message["params"].take();
                        message["method"] = params["method"].clone();
                        message["params"] = params["params"].clone();
                        assert_ne!(message["method"], name("proxy/initialize"));
                        agent.0.send(message.to_string().into()).await.unwrap();
                    }
                    Some(_) => client.0.send(message.to_string().into()).await.unwrap(),
                    None => {
                        let (side, id) = asked.remove(&message["id"].as_i64().unwrap()).unwrap();
                        message["id"] = id;
                        let to = if side == "client" { &client.0 } else { &agent.0 };
                        to.send(message.to_string().into()).await.unwrap();
                    }
                }
            }
        }
    }
}

struct Wire(mpsc::Sender<Vec<u8>>, mpsc::Receiver<Vec<u8>>);

fn wire() -> (Wire, Transport) {
    let (to, from_us) = mpsc::channel(16);
    let (to_us, from) = mpsc::channel(16);
    (Wire(to, from), Transport::messages(from_us, to_us))
}

#[tokio::test]
async fn a_conductors_chain() {
    in_every_dialect(|dialect| async move {
        for older in [false, true] {
            let ((client_wire, client), (agent_wire, agent), (proxy_wire, proxied)) = (wire(), wire(), wire());
            tokio::spawn(conduct(older, client_wire, agent_wire, proxy_wire));
            tokio::spawn(agent::serve(asking(), agent));
            let (near, far) = proxy::chain(proxied);
            tokio::spawn(proxy::run(near, far, |message| {
                if let Some(AgentCall::Prompt(mut prompt)) = message.call_to_agent() {
                    prompt.prompt.push(" and more".into());
                    message.rewrite(&prompt);
                }
                Pass::On
            }));
            let program = Client::new("c", "1").protocol(Protocol::Only(dialect));
            let agent = tokio::time::timeout(SOON, program.connect(client)).await.unwrap().unwrap();
            let session = agent.open("/").await.unwrap();
            let (said, _) = session.prompt("hello").await.unwrap().text().await.unwrap();
            assert_eq!(said, "hello and more, and nobody allowed it", "{dialect} {older}");
        }
    })
    .await;
}

/// Says everything again and asks the client for something, which nobody allows.
fn asking() -> impl tieline::agent::Agent {
    agent::from_fn("asking", |turn, prompt| async move {
        for block in prompt {
            turn.say(block).await?;
        }
        let answer = turn.ask(Ask::new("May I?")).await?;
        if !answer.is_allowed() {
            turn.say(", and nobody allowed it").await?;
        }
        Ok(StopReason::EndTurn)
    })
}
