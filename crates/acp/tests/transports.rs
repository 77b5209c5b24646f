//! Transports that are no bytes, and what stands between two of them.

#![allow(clippy::unwrap_used)]

mod common;

use common::{SOON, in_every_dialect};
use std::sync::{Arc, Mutex};
use tieline::client::Client;
use tieline::rpc::{Side, relay};
use tieline::{Dialect, Protocol, StopReason, Transport, agent};
use tokio::sync::mpsc;

fn echo() -> impl tieline::agent::Agent {
    agent::from_fn("echo", |turn, prompt| async move {
        for block in prompt {
            turn.say(block).await?;
        }
        Ok(StopReason::EndTurn)
    })
}

/// Two ends of whole messages, with a look at what goes to the agent.
fn messages() -> (Transport, Transport) {
    let (to_agent, at_agent) = mpsc::channel::<Vec<u8>>(4);
    let (to_client, at_client) = mpsc::channel::<Vec<u8>>(4);
    (Transport::messages(at_client, to_agent), Transport::messages(at_agent, to_client))
}

async fn say(transport: Transport, dialect: Dialect, words: &str) -> String {
    let agent = Client::new("c", "1").protocol(Protocol::Only(dialect)).connect(transport).await.unwrap();
    let session = agent.open("/").await.unwrap();
    let (said, stop) = session.prompt(words).await.unwrap().text().await.unwrap();
    assert_eq!(stop, StopReason::EndTurn);
    said
}

#[tokio::test]
async fn a_turn_over_whole_messages() {
    in_every_dialect(|dialect| async move {
        let (near, far) = messages();
        let served = tokio::spawn(agent::serve(echo(), far));
        assert_eq!(say(near, dialect, "one\ntwo").await, "one\ntwo");
        // The client is gone, so the agent comes to its end.
        tokio::time::timeout(SOON, served).await.unwrap().unwrap().unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_message_with_line_breaks_between_its_parts_is_one_message() {
    let (to_agent, at_agent) = mpsc::channel::<Vec<u8>>(4);
    let (to_client, mut at_client) = mpsc::channel::<Vec<u8>>(4);
    tokio::spawn(agent::serve(echo(), Transport::messages(at_agent, to_client)));
    let hello = "{\n \"jsonrpc\": \"2.0\",\r\n \"id\": 7,\n \"method\": \"initialize\", \"params\": {\"protocolVersion\": 1}\n}";
    to_agent.send(Vec::new()).await.unwrap();
    to_agent.send(hello.into()).await.unwrap();
    let answer = tokio::time::timeout(SOON, at_client.recv()).await.unwrap().unwrap();
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.contains("\"id\":7") && answer.contains("protocolVersion") && !answer.contains('\n'), "{answer}");
}

/// Rewrites what is said, holds something back, and says something of its own; between lines and whole messages.
#[tokio::test]
async fn what_stands_between_can_rewrite_hold_back_and_add() {
    in_every_dialect(|dialect| async move {
        let (client, middle_client) = Transport::memory();
        let (middle_agent, far) = messages();
        tokio::spawn(agent::serve(echo(), far));
        let seen: Arc<Mutex<Vec<Side>>> = Arc::default();
        let kept = Arc::clone(&seen);
        tokio::spawn(relay(middle_client, middle_agent, move |from, frame, relay| {
            kept.lock().unwrap().push(from);
            let text = String::from_utf8(frame.clone()).unwrap();
            if text.contains("\"_note/hidden\"") {
                return false;
            }
            if text.contains("session/prompt") {
                // The agent has no such method and must not answer a notification.
                relay.send(Side::Other, br#"{"jsonrpc":"2.0","method":"_note/hello","params":{}}"#).unwrap();
                *frame = text.replace("secret", "public").into_bytes();
            }
            true
        }));
        assert_eq!(say(client, dialect, "a secret").await, "a public");
        let seen = seen.lock().unwrap();
        assert!(seen.contains(&Side::One) && seen.contains(&Side::Other));
    })
    .await;
}
