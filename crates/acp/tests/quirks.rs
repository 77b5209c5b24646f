//! What real agents do on the wire that no page says: our client survives all of it.

#![allow(clippy::unwrap_used)]

mod common;

use common::{SOON, Wire, open, wire};
use serde_json::{Value, json};
use tieline::client::{AgentHandle, Client, Refuse};
use tieline::{Dialect, Error, Protocol, StopReason, Update};

async fn connect(dialect: Dialect, client: Client<Refuse>) -> (Wire, AgentHandle) {
    let (mut wire, transport) = wire();
    let connecting = tokio::spawn(client.protocol(Protocol::Only(dialect)).connect(transport));
    let (request, _) = wire.request("initialize").await;
    let answer = match dialect {
        Dialect::V2 => {
            json!({"protocolVersion": 2, "info": {"name": "a", "version": "1"}, "capabilities": {"session": {}}})
        }
        Dialect::V2Seed => json!({"protocolVersion": 2, "capabilities": {"session": {}}}),
        Dialect::V1 => {
            json!({"protocolVersion": 1, "agentCapabilities": {"loadSession": true, "sessionCapabilities": {"resume": {}, "list": {}, "close": {}}}})
        }
    };
    wire.reply(&request, answer).await;
    (wire, connecting.await.unwrap().unwrap())
}

fn update(session: &str, update: Value) -> Value {
    json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": update}})
}

fn chunk(text: &str) -> Value {
    json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}})
}

#[tokio::test]
async fn rubbish_lines_odd_errors_and_ids() {
    let (mut wire, agent) = connect(Dialect::V1, Client::default()).await;
    let session = open(&mut wire, &agent).await;
    wire.line("Welcome to the agent!").await;
    wire.line("").await;
    wire.line("\u{feff}").await;
    wire.line(r#"{"jsonrpc":"2.0","error":{"code":-32601,"message":"no id"}}"#).await;
    wire.line(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}"#).await;
    wire.line(r#"{"jsonrpc":"2.0","id":"77","result":{}}"#).await;
    // A request outside the protocol, with an id that overlaps ours: silence would hang the agent.
    wire.line(r#"{"jsonrpc":"2.0","id":0,"method":"craft/drainMidTurnQueue","params":{}}"#).await;
    wire.notify("qwen/notify/x", json!({})).await;
    wire.notify("_auth/status_update", json!({"x": 1})).await;
    assert_eq!(wire.answer(0).await.0["error"]["code"], -32601);
    let mut turn = session.prompt("hi").await.unwrap();
    let (prompt, _) = wire.request("session/prompt").await;
    wire.send(&update("s", json!({"sessionUpdate": "from_the_future", "x": [1]}))).await;
    wire.send(&update("s", json!({"sessionUpdate": "agent_message_chunk", "content": 7}))).await;
    wire.send(&update("s", json!({"no": "tag"}))).await;
    wire.send(&update("somebody else", chunk("not ours"))).await;
    wire.send(&update("s", json!({"content": {"text": "key order", "type": "text"}, "_meta": null, "sessionUpdate": "agent_message_chunk"}))).await;
    wire.send(&update("s", json!({"sessionUpdate": "tool_call_update", "toolCallId": "never announced", "status": "completed", "rawOutput": "text"}))).await;
    wire.reply(&prompt, json!({"stopReason": "end_turn", "usage": {"x": 1}})).await;
    let mut seen = Vec::new();
    while let Some(update) = turn.next().await {
        seen.push(update);
    }
    // The user's own message is made by the client.
    assert_eq!(seen.len(), 4, "{seen:?}");
    assert!(matches!(&seen[1], Update::Other(unknown) if &*unknown.tag == "from_the_future"), "V1-RPC-11");
    assert_eq!(turn.stop(), Ok(StopReason::EndTurn));
}

#[tokio::test]
async fn updates_before_the_session_is_answered_are_kept() {
    let (mut wire, agent) = connect(Dialect::V1, Client::default()).await;
    let opening = {
        let agent = agent.clone();
        tokio::spawn(async move { agent.open("/tmp").await })
    };
    let (request, _) = wire.request("session/new").await;
    wire.send(&update("s", json!({"sessionUpdate": "available_commands_update", "availableCommands": [{"name": "go", "description": "d"}]}))).await;
    wire.send(&update("s", chunk("early"))).await;
    wire.reply(&request, json!({"sessionId": "s"})).await;
    let session = opening.await.unwrap().unwrap();
    assert_eq!(session.commands()[0].name, "go");
    assert!(matches!(session.next().await, Some(Update::Commands(_))));
    assert!(matches!(session.next().await, Some(Update::Chunk(_))));
}

#[tokio::test]
async fn updates_after_the_turn_belong_to_the_session() {
    let (mut wire, agent) = connect(Dialect::V1, Client::default()).await;
    let session = open(&mut wire, &agent).await;
    let mut turn = session.prompt("hi").await.unwrap();
    let (prompt, _) = wire.request("session/prompt").await;
    wire.send(&update("s", chunk("in"))).await;
    wire.reply(&prompt, json!({"stopReason": "end_turn"})).await;
    wire.send(&update("s", json!({"sessionUpdate": "usage_update", "used": 1, "size": 2}))).await;
    common::own_message(&mut turn).await;
    assert!(matches!(turn.next().await, Some(Update::Chunk(_))));
    assert!(turn.next().await.is_none(), "the answer never overtakes and never lags");
    assert!(matches!(session.next().await, Some(Update::Usage(_))));
}

#[tokio::test]
async fn history_after_the_load_answer_and_null_results() {
    let (mut wire, agent) = connect(Dialect::V1, Client::default()).await;
    let loading = {
        let agent = agent.clone();
        tokio::spawn(async move { agent.load("old", "/tmp").await })
    };
    let (request, _) = wire.request("session/load").await;
    wire.reply(&request, Value::Null).await;
    wire.send(&update("old", chunk("history"))).await;
    let session = loading.await.unwrap().unwrap();
    assert!(matches!(session.next().await, Some(Update::Chunk(_))), "V1-RPC-07");
    let closing = tokio::spawn(async move { session.close().await });
    let (request, _) = wire.request("session/close").await;
    wire.send(&json!({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32002, "message": "gone"}})).await;
    assert_eq!(closing.await.unwrap(), Ok(()), "V2-SESS-11: not known means closed");
}

#[tokio::test]
async fn modes_without_options_are_an_option_here() {
    let (mut wire, agent) = connect(Dialect::V1, Client::default()).await;
    let opening = {
        let agent = agent.clone();
        tokio::spawn(async move { agent.open("/tmp").await })
    };
    let (request, _) = wire.request("session/new").await;
    let modes = json!({"currentModeId": "https://x/ask", "availableModes": [{"id": "https://x/ask", "name": "Ask"}, {"id": "code", "name": "Code"}]});
    wire.reply(&request, json!({"sessionId": "s", "modes": modes})).await;
    let session = opening.await.unwrap().unwrap();
    let value = |session: &tieline::client::Session| format!("{:?}", session.options()[0].value());
    assert!(value(&session).contains("https://x/ask"), "V1-CONF-09");
    let setting = async { session.set_mode("code").await };
    let answering = async {
        let (request, _) = wire.request("session/set_mode").await;
        assert_eq!(request["params"]["modeId"], "code");
        wire.reply(&request, json!({})).await;
    };
    assert_eq!(tokio::join!(setting, answering).0, Ok(()));
    assert!(value(&session).contains("code"));
    wire.send(&update("s", json!({"sessionUpdate": "current_mode_update", "modeId": "https://x/ask"}))).await;
    assert!(matches!(session.next().await, Some(Update::Mode(_))), "AMB-05");
    assert!(value(&session).contains("https://x/ask"));
}

#[tokio::test]
async fn a_permission_request_for_a_call_nobody_announced_is_refused_by_kind() {
    let (mut wire, agent) = connect(Dialect::V1, Client::default()).await;
    let session = open(&mut wire, &agent).await;
    let mut turn = session.prompt("hi").await.unwrap();
    let (prompt, _) = wire.request("session/prompt").await;
    let options = json!([
        {"optionId": "proceed_once", "name": "Yes", "kind": "allow_once"}, {"optionId": "proceed_always_tool", "name": "Yes", "kind": "allow_always"},
        {"optionId": "cancel", "name": "No", "kind": "reject_once"},
    ]);
    wire.send(&json!({"jsonrpc": "2.0", "id": 0, "method": "session/request_permission", "params": {"sessionId": "s", "toolCall": {"toolCallId": "c9"}, "options": options}})).await;
    let answer = wire.get().await;
    assert_eq!(
        answer["result"]["outcome"],
        json!({"outcome": "selected", "optionId": "cancel"}),
        "ids mean nothing, kinds do"
    );
    wire.reply(&prompt, json!({"stopReason": "end_turn"})).await;
    common::own_message(&mut turn).await;
    let Some(Update::ToolCall(call)) = turn.next().await else { panic!("V1-PERM-07: the call is made known") };
    assert_eq!(call.tool_call_id, "c9");
}

#[tokio::test]
async fn requests_the_client_did_not_offer() {
    let (mut wire, agent) = connect(Dialect::V1, Client::default().offer(|can| can.fs_read = true)).await;
    let _session = open(&mut wire, &agent).await;
    for (method, params, code) in [
        ("fs/write_text_file", json!({"sessionId": "s", "path": "/x", "content": ""}), -32601),
        ("terminal/create", json!({"sessionId": "s", "command": "ls"}), -32601),
        ("terminal/output", json!({"sessionId": "s", "terminalId": "t"}), -32601),
        ("fs/read_text_file", json!({"sessionId": "s", "path": "relative"}), -32602),
        ("fs/read_text_file", json!({"sessionId": "s", "path": "/x", "line": 0}), -32602),
        ("fs/read_text_file", json!({"sessionId": "s", "path": "/x", "line": -1}), -32602),
        (
            "elicitation/create",
            json!({"sessionId": "s", "message": "m", "mode": "form", "requestedSchema": {"type": "object", "properties": {}}}),
            -32602,
        ),
        ("_unknown", json!({}), -32601),
    ] {
        assert_eq!(wire.code(method, params.clone()).await, code, "V1-FS-05/08/09, V1-ELIC-01: {method} {params}");
    }
}

#[tokio::test]
async fn v2_orders_seen_in_the_wild() {
    // Prompt answered late, running and chunks first; an idle without a turn; commands before the session.
    let (mut wire, agent) = connect(Dialect::V2, Client::default()).await;
    let opening = {
        let agent = agent.clone();
        tokio::spawn(async move { agent.open("/tmp").await })
    };
    let (request, _) = wire.request("session/new").await;
    wire.send(&update("s", json!({"sessionUpdate": "state_update", "state": "idle"}))).await;
    wire.reply(&request, json!({"sessionId": "s"})).await;
    let session = opening.await.unwrap().unwrap();

    let mut turn = session.prompt("one").await.unwrap();
    let (prompt, _) = wire.request("session/prompt").await;
    wire.send(&update("s", json!({"sessionUpdate": "state_update", "state": "idle"}))).await;
    wire.send(&update("s", json!({"sessionUpdate": "state_update", "state": "running"}))).await;
    wire.send(&update(
        "s",
        json!({"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": {"type": "text", "text": "a"}}),
    ))
    .await;
    wire.reply(&prompt, json!({"messageId": "u"})).await;
    wire.send(&update("s", json!({"sessionUpdate": "state_update", "state": "_thinking_hard"}))).await;
    wire.send(&update("s", json!({"sessionUpdate": "usage_update", "used": 1, "size": 2}))).await;
    wire.send(&update("s", json!({"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"}))).await;
    let mut count = 0;
    while tokio::time::timeout(SOON, turn.next()).await.unwrap().is_some() {
        count += 1;
    }
    assert_eq!((count, turn.stop()), (7, Ok(StopReason::EndTurn)), "V2-STATE-04/06");

    // The whole turn before the answer: the SDKs promise no order.
    let mut turn = session.prompt("two").await.unwrap();
    let (prompt, _) = wire.request("session/prompt").await;
    wire.send(&update("s", json!({"sessionUpdate": "state_update", "state": "running"}))).await;
    wire.send(&update("s", json!({"sessionUpdate": "state_update", "state": "idle", "stopReason": "refusal"}))).await;
    wire.reply(&prompt, json!({"messageId": "u2"})).await;
    while tokio::time::timeout(SOON, turn.next()).await.unwrap().is_some() {}
    assert_eq!(turn.stop(), Ok(StopReason::Refusal));

    // V2-PROMPT-12: refused, not inserted; V2-STATE-05: background work while idle; then a turn that fails.
    let mut turn = session.prompt("three").await.unwrap();
    let (prompt, _) = wire.request("session/prompt").await;
    wire.send(&json!({"jsonrpc": "2.0", "id": prompt["id"], "error": {"code": -32602, "message": "no"}})).await;
    while turn.next().await.is_some() {}
    assert_eq!(turn.stop().unwrap_err().code(), Some(-32602));
    wire.send(&update("s", json!({"sessionUpdate": "agent_message_chunk", "messageId": "b", "content": {"type": "text", "text": "background"}}))).await;
    assert!(matches!(session.next().await, Some(Update::Chunk(_))));
    let mut turn = session.prompt("four").await.unwrap();
    let (prompt, _) = wire.request("session/prompt").await;
    wire.reply(&prompt, json!({"messageId": "u4"})).await;
    wire.send(&update("s", json!({"sessionUpdate": "state_update", "state": "idle", "stopReason": "error", "error": {"code": 1001, "message": "model down"}}))).await;
    while turn.next().await.is_some() {}
    assert_eq!(turn.stop().unwrap_err().code(), Some(1001), "V2-PROMPT-08");
}

#[tokio::test]
async fn a_prompt_result_of_the_other_dialect_is_understood() {
    // Version 1 that answers at once and tells states; version 2 that answers at the end.
    let (mut wire, agent) = connect(Dialect::V1, Client::default()).await;
    let session = open(&mut wire, &agent).await;
    let mut turn = session.prompt("x").await.unwrap();
    let (prompt, _) = wire.request("session/prompt").await;
    wire.send(&update("s", json!({"sessionUpdate": "state_update", "state": "running"}))).await;
    wire.reply(&prompt, json!({})).await;
    wire.send(&update("s", json!({"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"}))).await;
    while tokio::time::timeout(SOON, turn.next()).await.unwrap().is_some() {}
    assert_eq!(turn.stop(), Ok(StopReason::EndTurn));
    let (mut wire, agent) = connect(Dialect::V2, Client::default()).await;
    let session = open(&mut wire, &agent).await;
    let mut turn = session.prompt("x").await.unwrap();
    let (prompt, _) = wire.request("session/prompt").await;
    wire.reply(&prompt, json!({"stopReason": "max_tokens"})).await;
    while tokio::time::timeout(SOON, turn.next()).await.unwrap().is_some() {}
    assert_eq!(turn.stop(), Ok(StopReason::MaxTokens));
}

#[tokio::test]
async fn an_answer_without_a_reason_ends_the_turn_where_answers_do() {
    for (dialect, answer, ends) in [
        (Dialect::V1, json!({}), true),
        (Dialect::V1, json!({"messageId": "u"}), true),
        (Dialect::V1, json!({"stopReason": null, "usage": {}}), true),
        (Dialect::V2Seed, json!({}), true),
        (Dialect::V2, json!({}), false),
        (Dialect::V2, json!({"messageId": "u"}), false),
    ] {
        let (mut wire, agent) = connect(dialect, Client::default()).await;
        let session = open(&mut wire, &agent).await;
        // The next one is not held up either.
        for _ in 0..2 {
            let mut turn = session.prompt("x").await.unwrap();
            let (prompt, _) = wire.request("session/prompt").await;
            wire.reply(&prompt, answer.clone()).await;
            if !ends {
                let idle = json!({"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"});
                wire.send(&update("s", idle)).await;
            }
            while tokio::time::timeout(SOON, turn.next()).await.unwrap().is_some() {}
            match turn.stop() {
                Ok(reason) => assert!(!ends && reason == StopReason::EndTurn, "{dialect:?} {answer}"),
                Err(error) => assert!(ends && error.to_string().contains("stopReason"), "{dialect:?} {answer} {error}"),
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_never_answers_runs_into_the_deadline() {
    let (mut wire, agent) = connect(Dialect::V1, Client::default()).await;
    let error = agent.open("/tmp").await.unwrap_err();
    assert!(matches!(&error, Error::TimedOut { what, .. } if what == "session/new"), "{error}");
    let (_, _) = wire.request("session/new").await;
    assert_eq!(wire.get().await["method"], "$/cancel_request", "the request is withdrawn");
}

#[tokio::test]
async fn v2_prompt_14_a_prompt_taken_into_running_work_ends_with_it() {
    let (mut wire, agent) = connect(Dialect::V2, Client::default()).await;
    let session = open(&mut wire, &agent).await;
    let mut one = session.prompt("one").await.unwrap();
    let (first, _) = wire.request("session/prompt").await;
    wire.reply(&first, json!({"messageId": "u1"})).await;
    wire.send(&update("s", json!({"sessionUpdate": "state_update", "state": "running"}))).await;
    let mut two = session.prompt("two").await.unwrap();
    let (second, _) = wire.request("session/prompt").await;
    wire.reply(&second, json!({"messageId": "u2"})).await;
    wire.send(&update("s", json!({"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"}))).await;
    for turn in [&mut one, &mut two] {
        while tokio::time::timeout(SOON, turn.next()).await.expect("one idle ends both").is_some() {}
        assert_eq!(turn.stop(), Ok(StopReason::EndTurn));
    }
}

#[tokio::test]
async fn v2_prompt_14_it_is_told_when_a_prompt_is_taken_and_when_it_is_not() {
    let (mut wire, agent) = connect(Dialect::V2, Client::default()).await;
    let session = open(&mut wire, &agent).await;
    let mut one = session.prompt("one").await.unwrap();
    let (first, _) = wire.request("session/prompt").await;
    assert!(tokio::time::timeout(SOON / 200, one.taken()).await.is_err(), "it is not answered yet");
    wire.reply(&first, json!({"messageId": "u1"})).await;
    assert_eq!(tokio::time::timeout(SOON, one.taken()).await.unwrap(), Ok(()));
    // A refusal is told before the updates that stand before it are read.
    let two = session.prompt("two").await.unwrap();
    let (second, _) = wire.request("session/prompt").await;
    wire.send(&update("s", json!({"sessionUpdate": "state_update", "state": "running"}))).await;
    let refused = json!({"jsonrpc": "2.0", "id": second["id"], "error": {"code": -32600, "message": "busy"}});
    wire.send(&refused).await;
    assert_eq!(tokio::time::timeout(SOON, two.taken()).await.unwrap().unwrap_err().code(), Some(-32600));
    drop(two);
    wire.send(&update("s", json!({"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"}))).await;
    while tokio::time::timeout(SOON, one.next()).await.expect("the first one goes on").is_some() {}
    assert_eq!((one.stop(), tokio::time::timeout(SOON, one.taken()).await.unwrap()), (Ok(StopReason::EndTurn), Ok(())));
}

#[tokio::test]
async fn a_turn_that_is_over_or_waits_cancels_nobody_else() {
    let (mut wire, agent) = connect(Dialect::V2, Client::default()).await;
    let session = open(&mut wire, &agent).await;
    // Over, but its end was not read.
    let over = session.prompt("one").await.unwrap();
    let (first, _) = wire.request("session/prompt").await;
    wire.reply(&first, json!({"stopReason": "end_turn"})).await;
    while !session.state().is_idle() {
        tokio::task::yield_now().await;
    }
    let running = session.prompt("two").await.unwrap();
    drop(over);
    // Waiting behind another.
    drop(session.prompt("three").await.unwrap());
    let (_, _) = wire.request("session/prompt").await;
    let (third, _) = wire.request("session/prompt").await;
    let next = wire.get().await;
    assert_eq!((&next["method"], &next["params"]["requestId"]), (&json!("$/cancel_request"), &third["id"]), "{next}");
    assert_eq!(wire.code("_probe", json!({})).await, -32601, "and no session/cancel");
    drop(running);
    assert_eq!(wire.get().await["method"], "session/cancel");
}

#[tokio::test]
async fn a_load_that_fails_leaves_the_open_session_alone() {
    let (mut wire, agent) = connect(Dialect::V1, Client::default()).await;
    let session = open(&mut wire, &agent).await;
    let mut turn = session.prompt("work").await.unwrap();
    let (prompt, _) = wire.request("session/prompt").await;
    let loading = {
        let agent = agent.clone();
        tokio::spawn(async move { agent.load("s", "/tmp").await })
    };
    let (load, _) = wire.request("session/load").await;
    wire.send(&json!({"jsonrpc": "2.0", "id": load["id"], "error": {"code": -32600, "message": "busy"}})).await;
    assert_eq!(loading.await.unwrap().unwrap_err().code(), Some(-32600));
    wire.send(&update("s", chunk("still here"))).await;
    wire.reply(&prompt, json!({"stopReason": "end_turn"})).await;
    common::own_message(&mut turn).await;
    assert!(matches!(turn.next().await, Some(Update::Chunk(_))));
    assert!(turn.next().await.is_none());
    assert_eq!(turn.stop(), Ok(StopReason::EndTurn));
}

#[tokio::test]
async fn v1_cancel_03_a_question_that_crosses_the_cancel_is_answered_cancelled() {
    struct Undecided;
    impl tieline::client::Handler for Undecided {
        async fn permission(&self, _: tieline::PermissionRequest) -> tieline::PermissionOutcome {
            std::future::pending().await
        }
    }
    let (mut wire, transport) = wire();
    let connecting =
        tokio::spawn(Client::default().handler(Undecided).protocol(Protocol::Only(Dialect::V1)).connect(transport));
    let (request, _) = wire.request("initialize").await;
    wire.reply(&request, json!({"protocolVersion": 1})).await;
    let agent = connecting.await.unwrap().unwrap();
    let session = open(&mut wire, &agent).await;
    let turn = session.prompt("work").await.unwrap();
    turn.cancel().await.unwrap();
    let options = json!([{"optionId": "y", "name": "Yes", "kind": "allow_once"}]);
    let params = json!({"sessionId": "s", "toolCall": {"toolCallId": "c"}, "options": options});
    let id = wire.ask("session/request_permission", params).await;
    assert_eq!(wire.answer(id).await.0["result"]["outcome"]["outcome"], "cancelled");
}

/// Gemini CLI cannot make a file if reading the missing one fails; everybody else is told the truth.
#[tokio::test]
async fn a_missing_file_is_an_empty_one_for_gemini() {
    struct NoFiles;
    impl tieline::client::Handler for NoFiles {
        async fn read_text_file(&self, request: tieline::schema::ReadTextFileRequest) -> tieline::Result<String> {
            match request.path.as_str() {
                "/missing" => Err(Error::not_found(&request.path)),
                _ => Err(Error::internal("broken")),
            }
        }
    }
    let info = |name: &str| json!({"agentInfo": {"name": name, "version": "0.61.0"}});
    let logins = |ids: &[&str]| {
        let methods: Vec<Value> = ids.iter().map(|id| json!({"id": id, "name": id, "description": null})).collect();
        json!({"authMethods": methods})
    };
    // Up to 0.30 Gemini does not say its name; it is known by the ways to log in.
    let unnamed = logins(&["oauth-personal", "gemini-api-key", "vertex-ai"]);
    for (about, path, expect) in [
        (info("gemini-cli"), "/missing", json!({"content": ""})),
        (info("gemini-cli"), "/broken", json!(-32603)),
        (unnamed.clone(), "/missing", json!({"content": ""})),
        (unnamed, "/broken", json!(-32603)),
        (info("other"), "/missing", json!(-32002)),
        (logins(&["oauth-personal", "openai"]), "/missing", json!(-32002)),
        (json!({}), "/missing", json!(-32002)),
    ] {
        let (mut wire, transport) = wire();
        let client = Client::default().offer(|can| can.fs_read = true).handler(NoFiles);
        let connecting = tokio::spawn(client.protocol(Protocol::Only(Dialect::V1)).connect(transport));
        let (request, _) = wire.request("initialize").await;
        let mut answer = about.clone();
        answer["protocolVersion"] = json!(1);
        answer["agentCapabilities"] = json!({});
        wire.reply(&request, answer).await;
        let agent = connecting.await.unwrap().unwrap();
        let _session = open(&mut wire, &agent).await;
        let answer = wire.call("fs/read_text_file", json!({"sessionId": "s", "path": path})).await;
        assert_eq!(answer.get("result").unwrap_or(&answer["error"]["code"]), &expect, "{about} {path}");
    }
}
