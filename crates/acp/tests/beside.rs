//! What an agent does beside its turns and without a prompt, and a session that is given up before it is open.

#![allow(clippy::unwrap_used)]

mod common;

use common::{agent_wire, in_every_dialect, said, updates};
use serde_json::{Value, json};
use tieline::agent::{About, Agent, Opened, Opening, Resuming, Session, Turn, from_fn};
use tieline::schema::{Background, Terminal};
use tieline::{ContentBlock, Dialect, Result, StopReason};

fn item(id: &str) -> Background {
    Background::Terminal(Terminal { terminal_id: id.into(), ..Default::default() })
}

async fn act(turn: Turn, prompt: Vec<ContentBlock>) -> Result<StopReason> {
    let session = turn.session();
    match prompt[0].as_text().unwrap() {
        "list" => session.background(vec![item("a")]).await?,
        "list two" => session.background(vec![item("a"), item("b")]).await?,
        "start" => {
            let started = session.start(vec!["own".into()]);
            turn.say(if started.is_ok() { "started" } else { "refused" }).await?;
        }
        text => turn.say(format!("{text}: {}", turn.is_own())).await?,
    }
    Ok(StopReason::EndTurn)
}

fn lists(messages: &[Value]) -> Vec<Value> {
    updates(messages, "state_update").iter().map(|state| state["background"].clone()).collect()
}

#[tokio::test]
async fn v2_state_07_every_state_has_the_whole_list() {
    in_every_dialect(|dialect| async move {
        let mut wire = agent_wire(from_fn("lister", act));
        let session = wire.open(dialect).await;
        let named = |ids: &[&str]| {
            json!(ids.iter().map(|id| json!({"type": "terminal", "terminalId": id})).collect::<Vec<_>>())
        };
        let (a, both) = (named(&["a"]), named(&["a", "b"]));
        for (text, expect) in [
            ("hi", vec![Value::Null, Value::Null]),
            ("list", vec![Value::Null, a.clone(), a.clone()]),
            ("list", vec![a.clone(), a.clone()]),
            ("list two", vec![a.clone(), both.clone(), both]),
        ] {
            let (_, seen) = wire.turn(dialect, &session, text).await;
            let expect = if dialect == Dialect::V2 { expect } else { Vec::new() };
            assert_eq!(lists(&seen), expect, "{dialect}: {text}");
        }
    })
    .await;
}

#[tokio::test]
async fn v2_state_08_work_that_nobody_asked_for() {
    in_every_dialect(|dialect| async move {
        let mut wire = agent_wire(from_fn("starter", act));
        let session = wire.open(dialect).await;
        let (_, seen) = wire.turn(dialect, &session, "start").await;
        if dialect != Dialect::V2 {
            assert_eq!(said(&seen), "refused");
            return;
        }
        assert_eq!(said(&seen), "started");
        let mut own = Vec::new();
        while own.last().is_none_or(|last: &Value| last["params"]["update"]["state"] != "idle") {
            own.push(wire.get().await);
        }
        assert_eq!(said(&own), "own: true");
        let kinds: Vec<&Value> = own.iter().map(|message| &message["params"]["update"]["sessionUpdate"]).collect();
        assert_eq!(kinds, ["state_update", "agent_message_chunk", "state_update"]);
        assert_eq!(said(&wire.turn(dialect, &session, "hi").await.1), "hi: false");
    })
    .await;
}

/// An agent that never finishes taking up a session.
struct Slow;
struct Idle;

impl Agent for Slow {
    type Session = Idle;

    fn about(&self) -> About {
        let mut about = About::new("slow", "1");
        let can = &mut about.capabilities;
        (can.load, can.resume, can.close, can.delete) = (true, true, true, true);
        about
    }

    async fn open(&self, _: Opening) -> Result<Opened<Idle>> {
        Ok(Opened::new(Idle))
    }

    async fn resume(&self, _: Resuming) -> Result<Opened<Idle>> {
        std::future::pending().await
    }
}

impl Session for Idle {
    async fn prompt(&self, _: Turn, _: Vec<ContentBlock>) -> Result<StopReason> {
        Ok(StopReason::EndTurn)
    }
}

#[tokio::test]
async fn v1_cancel_12_a_session_is_given_up_before_it_is_open() {
    in_every_dialect(|dialect| async move {
        let mut wire = agent_wire(Slow);
        wire.open(dialect).await;
        for stop in ["session/close", "session/delete", "$/cancel_request"] {
            let method = if dialect == Dialect::V2 { "session/resume" } else { "session/load" };
            let replay = json!({"type": "start"});
            let params = json!({"sessionId": "old", "cwd": "/tmp", "mcpServers": [], "replayFrom": replay});
            let load = wire.ask(method, params).await;
            let stopped = match stop {
                "$/cancel_request" => {
                    wire.notify(stop, json!({"requestId": load})).await;
                    None
                }
                _ => Some(wire.ask(stop, json!({"sessionId": "old"})).await),
            };
            assert_eq!(wire.answer(load).await.0["error"]["code"], -32800, "{dialect}: {stop}");
            if let Some(id) = stopped {
                let (answer, _) = wire.answer(id).await;
                assert!(answer.get("error").is_none(), "{dialect}: {answer}");
            }
        }
        let id = wire.ask("session/close", json!({"sessionId": "old"})).await;
        assert_eq!(
            wire.answer(id).await.0.get("error").is_some(),
            dialect != Dialect::V2,
            "{dialect}: nothing is open"
        );
    })
    .await;
}
