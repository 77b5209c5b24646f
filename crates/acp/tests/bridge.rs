//! A bridge between a client and an agent that both are raw wires, so that every word of either dialect is seen.

#![allow(clippy::unwrap_used, clippy::too_many_lines, reason = "tests")]

mod common;

use common::{SOON, Wire, hello, said, updates, wire};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use tieline::bridge::Bridge;
use tieline::{Dialect, Protocol, Result};
use tokio::task::JoinHandle;

/// Lists what can get lost.
const PAGE: &str = include_str!("../../../docs/bridge.md");

struct Ends {
    client: Wire,
    agent: Wire,
    lost: Arc<Mutex<Vec<String>>>,
    served: JoinHandle<Result<()>>,
}

/// What an agent of this dialect says of itself.
fn about(dialect: Dialect) -> Value {
    match dialect {
        Dialect::V1 => json!({"protocolVersion": 1, "agentInfo": {"name": "a", "version": "1"},
            "agentCapabilities": {"loadSession": true, "sessionCapabilities": {"close": {}}}, "authMethods": [{"id": "key", "name": "Key"}]}),
        Dialect::V2Seed => json!({"protocolVersion": 2, "agentInfo": {"name": "a", "version": "1"},
            "capabilities": {"session": {"load": {}, "close": {}}}, "authMethods": [{"id": "key", "name": "Key"}]}),
        Dialect::V2 => {
            json!({"protocolVersion": 2, "info": {"name": "a", "version": "1"}, "capabilities": {"session": {}},
            "authMethods": [{"type": "agent", "methodId": "key", "name": "Key"}]})
        }
    }
}

fn begin(bridge: Bridge, speaks: Dialect) -> Ends {
    let ((client, front), (agent, back)) = (wire(), wire());
    let lost = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&lost);
    let bridge =
        bridge.agent_protocol(Protocol::Only(speaks)).on_loss(move |what| told.lock().unwrap().push(what.into()));
    let served = tokio::spawn(bridge.serve(front, back));
    Ends { client, agent, lost, served }
}

/// A client and an agent with one session, `s`.
async fn open(theirs: Dialect, speaks: Dialect) -> Ends {
    let mut ends = begin(Bridge::default(), speaks);
    ends.greet(theirs, speaks).await;
    ends.new_session(json!({"sessionId": "s"})).await;
    ends
}

impl Ends {
    async fn greet(&mut self, theirs: Dialect, speaks: Dialect) {
        let id = self.client.ask("initialize", hello(theirs)).await;
        let (greeting, _) = self.agent.request("initialize").await;
        assert_eq!(greeting["params"]["protocolVersion"], speaks.version());
        self.agent.reply(&greeting, about(speaks)).await;
        let (answer, _) = self.client.answer(id).await;
        assert_eq!(answer["result"]["protocolVersion"], theirs.version(), "{answer}");
        let info = if theirs == Dialect::V2 { "info" } else { "agentInfo" };
        assert_eq!(answer["result"][info]["name"], "a");
    }

    /// Opens the session `s`; gives what the client is told.
    async fn new_session(&mut self, setup: Value) -> Value {
        let id = self.client.ask("session/new", json!({"cwd": "/tmp", "mcpServers": []})).await;
        let (opening, _) = self.agent.request("session/new").await;
        self.agent.reply(&opening, setup).await;
        let (answer, _) = self.client.answer(id).await;
        assert_eq!(answer["result"]["sessionId"], "s", "ids of sessions stay as they are");
        answer["result"].clone()
    }

    async fn update(&mut self, update: Value) {
        self.agent.notify("session/update", json!({"sessionId": "s", "update": update})).await;
    }

    /// The prompt that the agent gets, answered if its dialect wants that now.
    async fn prompted(&mut self, speaks: Dialect) -> Value {
        let (prompt, _) = self.agent.request("session/prompt").await;
        if speaks == Dialect::V2 {
            self.agent.reply(&prompt, json!({"messageId": "u1"})).await;
            let words = &prompt["params"]["prompt"];
            self.update(json!({"sessionUpdate": "user_message", "messageId": "u1", "content": words})).await;
            self.update(json!({"sessionUpdate": "state_update", "state": "running"})).await;
        }
        prompt
    }

    /// The agent ends its turn.
    async fn end(&mut self, speaks: Dialect, prompt: &Value, reason: &str) {
        if speaks == Dialect::V2 {
            self.update(json!({"sessionUpdate": "state_update", "state": "idle", "stopReason": reason})).await;
        } else {
            self.agent.reply(prompt, json!({"stopReason": reason})).await;
        }
    }

    fn lost(&self) -> Vec<String> {
        self.lost.lock().unwrap().clone()
    }
}

fn chunk(text: &str) -> Value {
    json!({"sessionUpdate": "agent_message_chunk", "messageId": "m1", "content": {"type": "text", "text": text}})
}

/// A question in the words of its dialect.
fn question(speaks: Dialect) -> Value {
    let options = json!([{"optionId": "y", "name": "Yes", "kind": "allow_once"}, {"optionId": "n", "name": "No", "kind": "reject_once"}]);
    if speaks == Dialect::V2 {
        json!({"sessionId": "s", "title": "Really?", "options": options, "subject": {"type": "tool_call", "toolCall": {"toolCallId": "t"}}})
    } else {
        json!({"sessionId": "s", "options": options, "toolCall": {"toolCallId": "t"}})
    }
}

async fn in_every_pair<F: Future<Output = ()>>(scenario: impl Fn(Dialect, Dialect) -> F) {
    for theirs in Dialect::ALL {
        for speaks in Dialect::ALL {
            tokio::time::timeout(SOON * 3, scenario(theirs, speaks))
                .await
                .unwrap_or_else(|_| panic!("{theirs} before {speaks}: the scenario hangs"));
        }
    }
}

#[tokio::test]
async fn a_turn_with_a_question_comes_whole_and_in_order() {
    in_every_pair(|theirs, speaks| async move {
        let pair = format!("{theirs} before {speaks}");
        let mut ends = open(theirs, speaks).await;
        let id = ends.client.prompt("s", "Do it").await;
        let prompt = ends.prompted(speaks).await;
        assert_eq!(prompt["params"]["prompt"][0]["text"], "Do it");
        let first = if speaks == Dialect::V1 { "tool_call" } else { "tool_call_update" };
        let words: Vec<String> = (0..200).map(|number| format!("{number} ")).collect();
        for word in &words {
            ends.update(chunk(word)).await;
        }
        ends.update(json!({"sessionUpdate": first, "toolCallId": "t", "title": "Edit", "kind": "edit", "status": "pending"})).await;
        let asked = ends.agent.ask("session/request_permission", question(speaks)).await;
        let (asks, before) = ends.client.request("session/request_permission").await;
        // Whatever was said before the question comes before it.
        assert_eq!(said(&before), words.concat(), "{pair}");
        let told = if theirs == Dialect::V1 { "tool_call" } else { "tool_call_update" };
        assert_eq!(updates(&before, told)[0]["title"], "Edit", "{pair}");
        let users = updates(&before, "user_message");
        assert_eq!(users.len(), usize::from(theirs != Dialect::V1), "{pair}: once, and not at all in version 1");
        if theirs == Dialect::V2 {
            assert_eq!(asks["params"]["subject"]["toolCall"]["toolCallId"], "t", "{pair}");
            let states = updates(&before, "state_update");
            let states: Vec<_> = states.iter().filter_map(|state| state["state"].as_str()).collect();
            assert_eq!(states, ["running", "requires_action"], "{pair}");
        } else {
            assert_eq!(asks["params"]["toolCall"]["toolCallId"], "t", "{pair}");
            assert_eq!(updates(&before, "state_update").len(), 0, "{pair}");
        }
        ends.client.reply(&asks, json!({"outcome": {"outcome": "selected", "optionId": "y"}})).await;
        let (answer, _) = ends.agent.answer(asked).await;
        assert_eq!(answer["result"]["outcome"]["optionId"], "y", "{pair}");
        let diff = match speaks {
            Dialect::V2 => json!({"type": "diff", "changes": [{"operation": "add", "path": "/f", "fileType": "text"}],
                "patch": {"format": "git_patch", "text": "diff --git /f /f\nnew file mode 100644\n--- /dev/null\n+++ /f\n@@ -0,0 +1 @@\n+new\n"}}),
            _ => json!({"type": "diff", "path": "/f", "oldText": null, "newText": "new\n"}),
        };
        ends.update(json!({"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed", "content": [diff]})).await;
        ends.update(json!({"sessionUpdate": "usage_update", "used": 5, "size": 10})).await;
        ends.update(json!({"sessionUpdate": "_of_tomorrow", "x": 1})).await;
        ends.end(speaks, &prompt, "max_tokens").await;
        let (reason, after) = ends.client.turn_end(theirs, id).await;
        assert_eq!(reason, "max_tokens", "{pair}");
        let done: Vec<_> = updates(&after, "tool_call_update").into_iter().filter(|call| call["status"] == "completed").collect();
        let shown = &done[0]["content"][0];
        if theirs == Dialect::V2 {
            assert_eq!((&shown["changes"][0]["operation"], &shown["changes"][0]["path"]), (&json!("add"), &json!("/f")), "{pair}");
            assert!(shown["patch"]["text"].as_str().unwrap().contains("+new"), "{pair}: {shown}");
        } else {
            assert_eq!((&shown["path"], &shown["newText"]), (&json!("/f"), &json!("new\n")), "{pair}: {shown}");
        }
        assert_eq!(updates(&after, "usage_update")[0]["used"], 5, "{pair}");
        assert_eq!(updates(&after, "_of_tomorrow").len(), usize::from(theirs != Dialect::V1), "{pair}");
        let lost = ends.lost();
        for what in &lost {
            assert!(PAGE.contains(&format!("| {what} |")), "docs/bridge.md does not say: {what}");
        }
        let has = |part: &str| lost.iter().any(|what| what.contains(part));
        assert_eq!(has("of a kind that version 1"), theirs == Dialect::V1, "{pair}: {lost:?}");
        assert_eq!(has("as patches"), theirs != Dialect::V2 && speaks == Dialect::V2, "{pair}: {lost:?}");
        assert_eq!(has("files and terminals"), theirs == Dialect::V1 && speaks != Dialect::V1, "{pair}: {lost:?}");
    })
    .await;
}

#[tokio::test]
async fn a_cancel_reaches_the_agent_and_its_end_the_client() {
    in_every_pair(|theirs, speaks| async move {
        let pair = format!("{theirs} before {speaks}");
        let mut ends = open(theirs, speaks).await;
        let id = ends.client.prompt("s", "Wait").await;
        let prompt = ends.prompted(speaks).await;
        let first = if speaks == Dialect::V1 { "tool_call" } else { "tool_call_update" };
        ends.update(json!({"sessionUpdate": first, "toolCallId": "t", "title": "Run", "status": "in_progress"})).await;
        let asked = ends.agent.ask("session/request_permission", question(speaks)).await;
        let (asks, _) = ends.client.request("session/request_permission").await;
        ends.client.notify("session/cancel", json!({"sessionId": "s"})).await;
        // The question is answered for a client that does not: the turn is cancelled.
        let (answer, before) = ends.agent.answer(asked).await;
        assert_eq!(answer["result"]["outcome"]["outcome"], "cancelled", "{pair}");
        let cancelled = before.iter().any(|message| message["method"] == "session/cancel");
        if !cancelled {
            let message = ends.agent.get().await;
            assert_eq!(message["method"], "session/cancel", "{pair}");
        }
        if theirs != Dialect::V2 {
            ends.client.reply(&asks, json!({"outcome": {"outcome": "cancelled"}})).await;
        }
        ends.update(chunk("last words")).await;
        ends.end(speaks, &prompt, "cancelled").await;
        let (reason, seen) = ends.client.turn_end(theirs, id).await;
        assert_eq!((reason.as_str(), said(&seen).as_str()), ("cancelled", "last words"), "{pair}");
        let status = if theirs == Dialect::V2 { "cancelled" } else { "failed" };
        let ended = updates(&seen, "tool_call_update").iter().any(|call| call["status"] == status);
        assert!(ended, "{pair}: a call that the agent left open ends with the turn: {seen:?}");
    })
    .await;
}

#[tokio::test]
async fn a_session_is_told_again_however_long_and_is_not_closed_for_that() {
    in_every_pair(|theirs, speaks| async move {
        let pair = format!("{theirs} before {speaks}");
        let mut ends = open(theirs, speaks).await;
        let (method, params) = match theirs {
            Dialect::V2 => ("session/resume", json!({"sessionId": "s", "cwd": "/tmp", "replayFrom": {"type": "start"}})),
            _ => ("session/load", json!({"sessionId": "s", "cwd": "/tmp", "mcpServers": []})),
        };
        let id = ends.client.ask(method, params).await;
        let load = if speaks == Dialect::V2 { "session/resume" } else { "session/load" };
        let (loading, before) = ends.agent.request(load).await;
        assert!(before.is_empty(), "{pair}: it stays open at the agent: {before:?}");
        // Twice as much as the bridge keeps in memory.
        let long = "x".repeat(1 << 20);
        let mut client = ends.client;
        let reading = tokio::spawn(async move { (client.answer(id).await, client) });
        for _ in 0..16 {
            ends.agent.notify("session/update", json!({"sessionId": "s", "update": chunk(&long)})).await;
        }
        let commands = json!([{"name": "go", "description": "Goes"}]);
        ends.agent.notify("session/update", json!({"sessionId": "s", "update": {"sessionUpdate": "available_commands_update", "availableCommands": commands}})).await;
        ends.agent.reply(&loading, json!({})).await;
        let ((answer, told), _) = reading.await.unwrap();
        assert!(answer.get("error").is_none(), "{pair}: {answer}");
        assert_eq!(said(&told).len(), 16 << 20, "{pair}: before the answer");
    })
    .await;
}

#[tokio::test]
async fn options_modes_and_logins_in_the_words_of_each() {
    in_every_pair(|theirs, speaks| async move {
        let pair = format!("{theirs} before {speaks}");
        let mut ends = begin(Bridge::default(), speaks);
        ends.greet(theirs, speaks).await;
        let choices = json!([{"value": "ask", "name": "Ask"}, {"value": "code", "name": "Code"}]);
        let setup = match speaks {
            // An agent of the first year: modes and no options.
            Dialect::V1 => json!({"sessionId": "s", "modes": {"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "code", "name": "Code"}]}}),
            Dialect::V2Seed => json!({"sessionId": "s", "configOptions": [{"id": "mode", "name": "Mode", "category": "mode", "type": "select", "currentValue": "ask", "options": choices}]}),
            Dialect::V2 => json!({"sessionId": "s", "configOptions": [{"configId": "mode", "name": "Mode", "category": "mode", "type": "select", "currentValue": "ask", "options": choices}]}),
        };
        let shown = ends.new_session(setup).await;
        let (key, id) = match theirs {
            Dialect::V2 => ("configId", "mode"),
            _ => ("id", "mode"),
        };
        assert_eq!(shown["configOptions"][0][key], id, "{pair}: {shown}");
        assert_eq!(shown["modes"]["currentModeId"], if theirs == Dialect::V1 { json!("ask") } else { Value::Null }, "{pair}");
        let (method, params) = match theirs {
            Dialect::V1 => ("session/set_mode", json!({"sessionId": "s", "modeId": "code"})),
            Dialect::V2Seed => ("session/set_config_option", json!({"sessionId": "s", "configId": "mode", "value": "code"})),
            Dialect::V2 => ("session/set_config_option", json!({"sessionId": "s", "configId": "mode", "type": "id", "value": "code"})),
        };
        let id = ends.client.ask(method, params).await;
        if speaks == Dialect::V1 {
            let (asked, _) = ends.agent.request("session/set_mode").await;
            assert_eq!(asked["params"]["modeId"], "code", "{pair}");
            ends.agent.reply(&asked, json!({})).await;
        } else {
            let (asked, _) = ends.agent.request("session/set_config_option").await;
            assert_eq!(asked["params"]["value"], "code", "{pair}");
            let key = if speaks == Dialect::V2 { "configId" } else { "id" };
            ends.agent.reply(&asked, json!({"configOptions": [{key: "mode", "name": "Mode", "category": "mode", "type": "select", "currentValue": "code", "options": choices}]})).await;
        }
        let (answer, _) = ends.client.answer(id).await;
        assert!(answer.get("error").is_none(), "{pair}: {answer}");
        let (login, key) = if theirs == Dialect::V2 { ("auth/login", "methodId") } else { ("authenticate", "methodId") };
        let id = ends.client.ask(login, json!({key: "key"})).await;
        let (asked, _) = ends.agent.request(if speaks == Dialect::V2 { "auth/login" } else { "authenticate" }).await;
        assert_eq!(asked["params"]["methodId"], "key", "{pair}");
        ends.agent.reply(&asked, json!({})).await;
        assert!(ends.client.answer(id).await.0.get("error").is_none(), "{pair}");
    })
    .await;
}

#[tokio::test]
async fn what_nobody_knows_goes_through_as_it_is() {
    in_every_pair(|theirs, speaks| async move {
        let pair = format!("{theirs} before {speaks}");
        let mut ends = open(theirs, speaks).await;
        for method in ["_vendor/thing", "session/fork"] {
            let params = json!({"sessionId": "s", "deep": [1, {"two": null}], "_meta": {"t": 1}});
            let id = ends.client.ask(method, params.clone()).await;
            let (asked, _) = ends.agent.request(method).await;
            assert_eq!(asked["params"], params, "{pair}");
            ends.agent.reply(&asked, json!({"odd": true})).await;
            assert_eq!(ends.client.answer(id).await.0["result"], json!({"odd": true}), "{pair}");
            let id = ends.agent.ask(method, params.clone()).await;
            let (asked, _) = ends.client.request(method).await;
            assert_eq!(asked["params"], params, "{pair}");
            ends.client
                .send(
                    &json!({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -7, "message": "No", "data": [1]}}),
                )
                .await;
            let error = &ends.agent.answer(id).await.0["error"];
            assert_eq!((&error["code"], &error["data"]), (&json!(-7), &json!([1])), "{pair}");
        }
        ends.agent.notify("_tick", json!({"n": 1})).await;
        let tick = ends.client.get().await;
        assert_eq!((&tick["method"], &tick["params"]), (&json!("_tick"), &json!({"n": 1})), "{pair}");
        // What is withdrawn on one side is withdrawn on the other.
        let id = ends.client.ask("_slow", json!({})).await;
        let (slow, _) = ends.agent.request("_slow").await;
        ends.client.notify("$/cancel_request", json!({"requestId": id})).await;
        let gone = ends.agent.get().await;
        assert_eq!(
            (&gone["method"], &gone["params"]["requestId"]),
            (&json!("$/cancel_request"), &slow["id"]),
            "{pair}"
        );
        assert_eq!(ends.client.answer(id).await.0["error"]["code"], -32800, "{pair}");
        let id = ends.agent.ask("_slow", json!({})).await;
        let (slow, _) = ends.client.request("_slow").await;
        ends.agent.notify("$/cancel_request", json!({"requestId": id})).await;
        let gone = ends.client.get().await;
        assert_eq!(
            (&gone["method"], &gone["params"]["requestId"]),
            (&json!("$/cancel_request"), &slow["id"]),
            "{pair}"
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_end_of_one_side_is_the_end_of_the_other() {
    in_every_pair(|theirs, speaks| async move {
        let pair = format!("{theirs} before {speaks}");
        let mut ends = open(theirs, speaks).await;
        let id = ends.client.prompt("s", "Die").await;
        ends.prompted(speaks).await;
        ends.update(chunk("…")).await;
        drop(ends.agent);
        let seen = ends.client.rest().await;
        assert_eq!(said(&seen), "…", "{pair}");
        let failed = match theirs {
            Dialect::V2 => updates(&seen, "state_update").iter().any(|state| state["stopReason"] == "error"),
            _ => seen.iter().any(|message| message["id"] == json!(id) && message.get("error").is_some()),
        };
        assert!(failed, "{pair}: {seen:?}");
        assert!(ends.served.await.unwrap().is_err(), "{pair}: an agent that leaves first is an error");

        let mut ends = open(theirs, speaks).await;
        ends.client.prompt("s", "Wait").await;
        ends.prompted(speaks).await;
        ends.client.hang_up();
        drop(ends.client);
        ends.agent.rest().await;
        ends.served.await.unwrap().unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_lossless_bridge_refuses_in_words() {
    // The client offers files; an agent of version 2 could never ask for them.
    let mut ends = begin(Bridge::default().lossless(true), Dialect::V2);
    let id = ends.client.ask("initialize", hello(Dialect::V1)).await;
    let (greeting, _) = ends.agent.request("initialize").await;
    ends.agent.reply(&greeting, about(Dialect::V2)).await;
    let (answer, _) = ends.client.answer(id).await;
    assert!(answer["error"]["message"].as_str().unwrap().contains("files and terminals"), "{answer}");
    ends.agent.rest().await;
    assert!(ends.served.await.unwrap().is_err());

    // A client of version 2 may take up any session, which this agent can't.
    let poor = json!({"protocolVersion": 1, "agentCapabilities": {}, "authMethods": []});
    for lossless in [true, false] {
        let mut ends = begin(Bridge::default().lossless(lossless), Dialect::V1);
        let id = ends.client.ask("initialize", hello(Dialect::V2)).await;
        let (greeting, _) = ends.agent.request("initialize").await;
        ends.agent.reply(&greeting, poor.clone()).await;
        let (answer, _) = ends.client.answer(id).await;
        assert_eq!(answer["error"]["message"].to_string().contains("sessions of before"), lossless, "{answer}");
        assert_eq!(ends.lost().len(), usize::from(!lossless), "{:?}", ends.lost());
        assert!(ends.lost().iter().all(|what| PAGE.contains(&format!("| {what} |"))), "{:?}", ends.lost());
    }

    // Nothing is lost until something is.
    let mut ends = begin(Bridge::default().lossless(true), Dialect::V2);
    let id = ends.client.ask("initialize", json!({"protocolVersion": 1, "clientCapabilities": {}})).await;
    let (greeting, _) = ends.agent.request("initialize").await;
    assert_eq!(greeting["params"]["info"]["name"], "unknown");
    ends.agent.reply(&greeting, about(Dialect::V2)).await;
    ends.client.answer(id).await;
    ends.new_session(json!({"sessionId": "s"})).await;
    let id = ends.client.prompt("s", "Go").await;
    let prompt = ends.prompted(Dialect::V2).await;
    ends.update(chunk("fine")).await;
    ends.update(json!({"sessionUpdate": "_of_tomorrow"})).await;
    let stop = ends.agent.get().await;
    assert_eq!(stop["method"], "session/cancel", "the agent need not go on");
    ends.end(Dialect::V2, &prompt, "cancelled").await;
    let (answer, before) = ends.client.answer(id).await;
    assert_eq!(said(&before), "fine");
    assert!(answer["error"]["message"].as_str().unwrap().contains("updates and content"), "{answer}");
}

#[tokio::test]
async fn what_the_agent_says_wrong_is_told_and_a_flood_of_it_is_not() {
    let mut ends = open(Dialect::V2, Dialect::V1).await;
    let id = ends.client.prompt("s", "Go").await;
    let prompt = ends.prompted(Dialect::V1).await;
    ends.agent.line("npm WARN deprecated").await;
    ends.update(json!({"sessionUpdate": "agent_message_chunk", "content": "no"})).await;
    for number in 0..100 {
        ends.agent.line(&format!("again {number}")).await;
    }
    ends.end(Dialect::V1, &prompt, "end_turn").await;
    let (_, seen) = ends.client.turn_end(Dialect::V2, id).await;
    assert!(updates(&seen, "notice")[0]["title"].to_string().contains("npm WARN"), "{seen:?}");
    let lost = ends.lost();
    assert!(lost[0].ends_with("no message: npm WARN deprecated") && lost[1].contains("it can't be read"), "{lost:?}");
    assert_eq!(lost.len(), 20);
}

#[tokio::test]
async fn a_new_client_before_an_old_agent_that_lacks_much() {
    let mut ends = begin(Bridge::default(), Dialect::V1);
    let id = ends.client.ask("initialize", hello(Dialect::V2)).await;
    let (greeting, _) = ends.agent.request("initialize").await;
    let can = &greeting["params"]["clientCapabilities"];
    assert_eq!(
        (&can["fs"]["readTextFile"], &can["terminal"], &can["session"]["notices"]),
        (&json!(false), &json!(false), &json!({}))
    );
    ends.agent
        .reply(&greeting, json!({"protocolVersion": 1, "agentCapabilities": {"loadSession": true}, "authMethods": []}))
        .await;
    ends.client.answer(id).await;
    ends.new_session(json!({"sessionId": "s"})).await;
    // Its sessions are listed as far as they are known here.
    let listed = ends.client.result("session/list", json!({})).await;
    assert_eq!(listed["sessions"][0]["sessionId"], "s");
    // Taken up without being told again.
    let id = ends.client.ask("session/resume", json!({"sessionId": "s", "cwd": "/tmp"})).await;
    let (loading, _) = ends.agent.request("session/load").await;
    ends.update(chunk("old words")).await;
    ends.agent.reply(&loading, json!(null)).await;
    let (_, before) = ends.client.answer(id).await;
    assert_eq!(said(&before), "");
    // The prompt is answered at once; that the agent refuses it is told as the end of the turn.
    let id = ends.client.prompt("s", "Go").await;
    let (answer, _) = ends.client.answer(id).await;
    assert!(answer["result"]["messageId"].is_string());
    let second = ends.client.prompt("s", "Behind").await;
    let (prompt, _) = ends.agent.request("session/prompt").await;
    ends.agent.notify("session/update", json!({"sessionId": "s", "update": {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "a"}}})).await;
    let null = json!({"sessionUpdate": "tool_call_update", "toolCallId": "t", "title": "T", "kind": null, "content": null, "locations": null});
    ends.update(null).await;
    ends.agent
        .send(&json!({"jsonrpc": "2.0", "id": prompt["id"], "error": {"code": -32000, "message": "Log in"}}))
        .await;
    let (reason, seen) = ends.client.turn_end(Dialect::V2, id).await;
    assert_eq!(reason, "error");
    let error = &updates(&seen, "state_update").last().unwrap()["error"];
    assert_eq!(error["code"], -32000, "{error}");
    assert!(updates(&seen, "agent_message_chunk")[0]["messageId"].is_string(), "an id is made up");
    let call = updates(&seen, "tool_call_update")[0];
    assert!(call.get("content").is_none() && call.get("kind").is_none(), "`null` said nothing: {call}");
    // The one that waited is put to the agent now.
    let (prompt, _) = ends.agent.request("session/prompt").await;
    assert_eq!(prompt["params"]["prompt"][0]["text"], "Behind");
    ends.end(Dialect::V1, &prompt, "end_turn").await;
    assert_eq!(ends.client.turn_end(Dialect::V2, second).await.0, "end_turn");
    // Closing is not offered there: it is forgotten here.
    ends.client.result("session/close", json!({"sessionId": "s"})).await;
    assert_eq!(
        ends.client.code("session/prompt", json!({"sessionId": "s", "prompt": [{"type": "text", "text": "x"}]})).await,
        -32002
    );
}

#[tokio::test]
async fn files_and_terminals_of_the_client_serve_an_agent_of_the_same_version() {
    let mut ends = open(Dialect::V1, Dialect::V1).await;
    ends.client.prompt("s", "Read").await;
    ends.prompted(Dialect::V1).await;
    for (method, params, result) in [
        (
            "fs/read_text_file",
            json!({"sessionId": "s", "path": "/f", "line": 2}),
            json!({"content": "text", "_meta": {"m": 1}}),
        ),
        ("fs/write_text_file", json!({"sessionId": "s", "path": "/f", "content": "new"}), json!({})),
        ("terminal/create", json!({"sessionId": "s", "command": "ls", "args": ["-l"]}), json!({"terminalId": "t1"})),
        ("terminal/output", json!({"sessionId": "s", "terminalId": "t1"}), json!({"output": "x", "truncated": false})),
        ("terminal/wait_for_exit", json!({"sessionId": "s", "terminalId": "t1"}), json!({"exitCode": 3})),
        ("terminal/kill", json!({"sessionId": "s", "terminalId": "t1"}), json!({})),
        ("terminal/release", json!({"sessionId": "s", "terminalId": "t1"}), json!({})),
        (
            "elicitation/create",
            json!({"sessionId": "s", "mode": "form", "message": "Who?", "requestedSchema": {"type": "object", "properties": {}}}),
            json!({"action": "decline"}),
        ),
    ] {
        let id = ends.agent.ask(method, params.clone()).await;
        let (asked, _) = ends.client.request(method).await;
        for (key, value) in params.as_object().unwrap() {
            assert_eq!(&asked["params"][key], value, "{method}");
        }
        ends.client.reply(&asked, result.clone()).await;
        let (answer, _) = ends.agent.answer(id).await;
        for (key, value) in result.as_object().unwrap() {
            assert_eq!(&answer["result"][key], value, "{method}: {answer}");
        }
    }
}

/// The client hangs up with a turn under way and reads nothing of it: there is nobody to wait for, however patient a bridge is with agents.
#[tokio::test(start_paused = true)]
async fn a_client_that_reads_nothing_does_not_keep_the_bridge() {
    for (theirs, speaks) in [(Dialect::V1, Dialect::V1), (Dialect::V2, Dialect::V1), (Dialect::V1, Dialect::V2)] {
        let mut ends = open(theirs, speaks).await;
        ends.client.prompt("s", "Go").await;
        ends.prompted(speaks).await;
        // More than the wire to the client and our buffer take.
        for _ in 0..40 {
            ends.update(chunk(&"word ".repeat(2000))).await;
        }
        ends.client.shut().await;
        let over = tokio::time::timeout(SOON, &mut ends.served).await;
        assert!(over.is_ok(), "{theirs} before {speaks}: the bridge is still there");
    }
}
