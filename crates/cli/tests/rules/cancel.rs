//! Cancelling: the turn, a question, a request.

use crate::bench::{ALL, Bench, CURRENT, NOT_SEED, Row, check, row};
use crate::common::Reply;
use serde_json::{Value, json};

/// A cancel ends the turn, and not with an error.
fn ends(b: &mut Bench, id: i64) {
    b.client.cancel();
    assert_eq!(b.client.end(id), "cancelled");
    assert!(b.client.heard.iter().all(|message| message.get("error").is_none()), "{:?}", b.client.heard.last());
}

pub const ROWS: &[Row] = &[
    row(&["V1-CANCEL-04", "V1-CANCEL-05", "V1-CANCEL-06", "V2-CANCEL-03", "V2-CANCEL-04", "V2-CANCEL-05"], ALL, |b| {
        // In a command that would take a day, while the user is asked, while the model thinks, and at once.
        b.client.choose = "allow_once";
        let id = b.client.begin(&format!("run exec sleep {}", b.mark(1)));
        b.client.until(|message| message["params"]["update"]["status"] == "in_progress");
        ends(b, id);
        crate::common::gone(&format!("sleep\0{}", b.mark(1)));
        b.client.serve = Some(Box::new(|_| Some(Reply::Silence)));
        let id = b.client.begin("write c.txt x");
        b.client.until(|message| message["method"] == "session/request_permission");
        ends(b, id);
        b.client.serve = None;
        let id = b.client.begin("say started\nwait");
        b.client.until_update("agent_message_chunk");
        ends(b, id);
        let id = b.client.begin("wait");
        ends(b, id);
        assert!(!b.place.project().join("c.txt").exists());
        assert_eq!(b.turn("say on"), "end_turn");
    }),
    row(&["V1-CANCEL-07", "V2-CANCEL-06"], ALL, |b| {
        let id = b.client.begin("run sleep 86406");
        b.client.until(|message| message["params"]["update"]["status"] == "in_progress");
        ends(b, id);
        let heard = b.client.heard.len();
        b.settle();
        assert_eq!(b.client.heard.len(), heard + 1, "{:?}", b.client.heard.last());
        assert_eq!(b.call()["status"], if b.is("2") { "cancelled" } else { "failed" });
    }),
    row(&["V1-CANCEL-09"], ALL, |b| {
        b.client.cancel();
        b.client.notify("session/cancel", json!({"sessionId": "nobody"}));
        b.settle();
        assert_eq!(b.client.heard.len(), 1, "{:?}", b.client.heard);
        assert_eq!(b.turn("say on"), "end_turn");
    }),
    row(&["V1-CANCEL-10", "V1-CANCEL-11", "V1-CANCEL-14", "V2-CANCEL-10"], NOT_SEED, |b| {
        let id = b.client.begin("say started\nwait");
        b.client.until_update("agent_message_chunk");
        b.client.notify("$/cancel_request", json!({"requestId": id}));
        if b.is("2") {
            // The prompt was answered before, so this comes too late and changes nothing.
            b.settle();
            b.client.cancel();
        }
        assert_eq!(b.client.end(id), "cancelled");
        b.settle();
        assert_eq!(b.client.heard.iter().filter(|message| message["id"] == id).count(), 1);
        if b.is("2") {
            // One that still waits is withdrawn.
            b.client.begin("say started\npause 200");
            b.client.until_update("agent_message_chunk");
            let second = b.client.begin("say never");
            b.client.notify("$/cancel_request", json!({"requestId": second}));
            assert_eq!(b.client.answer(second)["error"]["code"], -32800);
            assert!(!b.client.said().contains("never"));
        }
    }),
    row(&["V1-CANCEL-12"], ALL, |b| {
        // A conversation that takes a while to tell again.
        b.updates("flood 1000 4096");
        let session = b.client.session.clone();
        b.client.call("session/close", json!({"sessionId": session}));
        b.forget();
        let mut params = json!({"sessionId": session, "cwd": b.place.project(), "mcpServers": []});
        let mut load = "session/load";
        if b.is("2") {
            load = "session/resume";
            params["replayFrom"] = json!({"type": "start"});
        }
        // Nobody withdraws the load: it is the close that makes it pointless.
        let loading = b.client.ask(load, params);
        let closing = b.client.ask("session/close", json!({"sessionId": session}));
        let closed = b.client.answer(closing);
        assert!(closed.get("error").is_none(), "{closed}");
        let answers: Vec<&Value> = b.client.heard.iter().filter(|message| message["id"] == loading).collect();
        assert_eq!(answers.len(), 1, "answered once, and before the close");
        assert_eq!(answers[0]["error"]["code"], -32800, "{}", answers[0]);
        // Silence, and nothing is lost.
        let heard = b.client.heard.len();
        b.settle();
        assert_eq!(b.client.heard.len(), heard + 1, "{:?}", b.client.methods().last());
        b.forget();
        b.client.load(&session, &b.place.project());
        assert_eq!(b.client.said().len(), 1000 * 4096);
        assert_eq!(b.turn("say on"), "end_turn");
    }),
    row(&["V1-CANCEL-13"], NOT_SEED, |b| {
        b.client.serve = Some(Box::new(|_| Some(Reply::Silence)));
        let id = b.client.begin("write d.txt x");
        let asked = b.client.until(|message| message["method"] == "session/request_permission");
        // The agent's own request is not ours to withdraw; nobody knows the others.
        for other in [asked["id"].clone(), json!(4242), json!("nobody"), Value::Null] {
            if other != json!(id) {
                b.client.notify("$/cancel_request", json!({"requestId": other}));
            }
        }
        b.settle();
        let outcome = json!({"outcome": {"outcome": "selected", "optionId": "allow"}});
        b.client.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": outcome}));
        assert_eq!(b.client.end(id), "end_turn");
        assert_eq!(b.place.read("d.txt"), "x");
    }),
    row(&["V2-CANCEL-08", "V2-ELIC-04"], CURRENT, |b| {
        let offer = json!({"elicitation": {"form": {}}});
        let mut client = b.other(offer, &["--script", "puppet"]);
        for (work, method) in [
            ("write e.txt x", "session/request_permission"),
            ("call ask {\"question\": \"Why?\"}", "elicitation/create"),
        ] {
            client.serve = Some(Box::new(|_| Some(Reply::Silence)));
            let id = client.begin(work);
            let asked = client.until(|message| message["method"] == method);
            client.cancel();
            assert_eq!(client.end(id), "cancelled");
            let withdrawn = |message: &Value| {
                message["method"] == "$/cancel_request" && message["params"]["requestId"] == asked["id"]
            };
            assert!(client.heard.iter().any(withdrawn), "{method}: {:?}", client.methods());
            // A late yes changes nothing.
            let late = json!({"outcome": {"outcome": "selected", "optionId": "allow"}, "action": "accept"});
            client.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": late}));
        }
        client.serve = None;
        assert_eq!(client.prompt("say on"), "end_turn");
        assert!(!b.place.project().join("e.txt").exists());
    }),
];

#[test]
fn cancel() {
    check(ROWS);
}
