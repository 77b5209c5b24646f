//! The envelope, ids, leniency, error codes, and batches.

use crate::bench::{ALL, Row, V2, check, row};
use crate::common::{Reply, hello};
use crate::server::Models;
use serde_json::{Value, json};
use tieline_model_server::{Answer, Fault, Script};

pub const ROWS: &[Row] = &[
    row(&["V1-RPC-01"], ALL, |b| {
        b.turn("say hi\nwrite b.txt x\nread nowhere");
        b.client.fail("session/nothing", json!({}));
        assert!(b.client.heard.len() > 5 && b.client.heard.iter().all(|message| message["jsonrpc"] == "2.0"));
    }),
    row(&["V1-RPC-02"], ALL, |b| {
        let list = |id: Value| json!({"jsonrpc": "2.0", "id": id, "method": "session/list", "params": {}});
        b.client.send(&list(json!("text")));
        b.client.send(&list(json!(9_007_199_254_740_993_i64)));
        b.client.send(&json!({"jsonrpc": "2.0", "id": "bad", "method": "session/nothing"}));
        let mut answers = 0;
        b.client.until(|message| {
            answers += usize::from(message.get("method").is_none());
            answers == 3
        });
        b.settle();
        for id in [json!("text"), json!(9_007_199_254_740_993_i64), json!("bad")] {
            let answers: Vec<_> = b.client.heard.iter().filter(|message| message["id"] == id).collect();
            assert_eq!(answers.len(), 1, "{id}: {answers:?}");
            assert!(answers[0].get("result").is_some() != answers[0].get("error").is_some());
        }
    }),
    row(&["V1-RPC-03"], ALL, |b| {
        b.client.notify("session/cancel", json!({"sessionId": 5}));
        b.client.notify("session/cancel", json!([5]));
        b.client.notify("session/nothing", json!({}));
        b.client.notify("session/list", json!({}));
        b.client.notify("$/nothing", json!({}));
        b.settle();
        assert_eq!(b.client.heard.len(), 1, "{:?}", b.client.heard);
    }),
    row(&["V1-RPC-04"], ALL, |b| {
        let error = b.client.fail("session/nothing", json!({}));
        assert!(error["code"].is_i64() && error["message"].is_string(), "{error}");
        assert!(error.as_object().unwrap().keys().all(|key| ["code", "message", "data"].contains(&key.as_str())));
    }),
    row(&["V1-RPC-05"], ALL, |b| {
        // The agent's question and our request have one id at the same time.
        b.client.serve = Some(Box::new(|_| Some(Reply::Silence)));
        let prompt = b.client.begin("write b.txt x");
        let asked = b.client.until(|message| message["method"] == "session/request_permission");
        let same = json!({"jsonrpc": "2.0", "id": asked["id"], "method": "session/list", "params": {}});
        b.client.send(&same);
        b.client.until(|message| message["id"] == asked["id"] && message["result"]["sessions"].is_array());
        let outcome = json!({"outcome": {"outcome": "selected", "optionId": "allow"}});
        b.client.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": outcome}));
        assert_eq!(b.client.end(prompt), "end_turn");
        assert_eq!(b.place.read("b.txt"), "x");
        let nothing = json!({"jsonrpc": "2.0", "id": null, "method": "session/list", "params": {}});
        b.client.send(&nothing);
        // Current v2 has no null ids.
        let answer = b.client.until(|message| message.get("method").is_none() && message["id"].is_null());
        assert_eq!(answer["error"]["code"] == -32600, b.is("2"), "{answer}");
    }),
    row(&["V1-RPC-06"], ALL, |b| {
        let id = b.client.begin("say started\nwait");
        b.client.until_update("agent_message_chunk");
        b.settle();
        let value = if b.is("2") { json!({"type": "id", "value": "plan"}) } else { json!({"value": "plan"}) };
        let mut params = b.named(value);
        params["configId"] = "mode".into();
        b.client.call("session/set_config_option", params);
        b.client.cancel();
        assert_eq!(b.client.end(id), "cancelled");
    }),
    row(&["V1-RPC-07"], ALL, |b| {
        for message in [
            json!({"jsonrpc": "2.0", "id": "n", "method": "session/list", "params": null}),
            json!({"jsonrpc": "2.0", "id": "n", "method": "session/list"}),
        ] {
            b.client.send(&message);
            let answer = b.client.until(|message| message["id"] == "n");
            assert!(answer["result"]["sessions"].is_array(), "{answer}");
        }
        if b.is("1") {
            // The editor answers a write with null.
            let offers = json!({"fs": {"readTextFile": true, "writeTextFile": true}});
            let mut client = b.other(offers, &["--script", "puppet", "--mode", "edit"]);
            client.editor = Some(crate::common::Editor::default());
            assert_eq!(client.prompt("write null.txt x"), "end_turn");
            assert_eq!(b.place.read("null.txt"), "x");
            assert!(client.updates.iter().any(|update| update["status"] == "completed"));
        }
    }),
    row(&["V1-RPC-08", "V2-EXT-07"], ALL, |b| {
        let mut params = hello(b.dialect, &json!({"elicitation": 5, "fs": [], "auth": "x"}));
        params["_meta"] = json!("odd");
        let mut client = b.silent(&["--script", "puppet"]);
        client.call("initialize", params);
        let cwd = b.place.project();
        let answer = client.call("session/new", json!({"cwd": cwd, "mcpServers": null, "additionalDirectories": null}));
        client.session = answer["sessionId"].as_str().unwrap().into();
        let block =
            json!({"type": "text", "text": "say on", "annotations": {"audience": ["user", 5], "priority": "x"}});
        let id = client.begin_with(json!([block]));
        assert_eq!(client.end(id), "end_turn");
        assert_eq!(client.said(), "on");
    }),
    row(&["V1-RPC-09", "V2-TOOL-18"], ALL, |b| {
        let cwd = b.place.project();
        for prompt in
            [json!("x"), json!([5]), json!([{"type": "text"}]), json!([{"type": "image", "data": "AA=="}]), json!([{}])]
        {
            let params = b.named(json!({"prompt": prompt}));
            assert_eq!(b.client.fail("session/prompt", params)["code"], -32602, "{prompt}");
        }
        for params in [
            json!({"cwd": 5, "mcpServers": []}),
            json!({"mcpServers": []}),
            json!({"cwd": "relative", "mcpServers": []}),
            json!({"cwd": cwd, "mcpServers": 5}),
            json!({"cwd": cwd, "mcpServers": [{"name": 5}]}),
        ] {
            assert_eq!(b.client.fail("session/new", params.clone())["code"], -32602, "{params}");
        }
        assert_eq!(b.client.fail("session/prompt", json!({"sessionId": 5, "prompt": []}))["code"], -32602);
    }),
    row(&["V1-RPC-10"], ALL, |b| {
        let cwd = b.place.project();
        let answer = b.client.call("session/new", json!({"cwd": cwd, "mcpServers": [], "colour": "red"}));
        let params = json!({"sessionId": answer["sessionId"], "prompt": [{"type": "text", "text": "say on", "size": 5}], "x": 1});
        let id = b.client.ask("session/prompt", params);
        assert_eq!(b.client.end(id), "end_turn");
    }),
    row(&["V1-RPC-11", "V1-RPC-12"], ALL, |b| {
        b.client.notify("session/update", json!({"sessionId": "x", "update": {"sessionUpdate": "nobody_knows"}}));
        b.client.send(&json!({"jsonrpc": "2.0", "id": 424_242, "result": {}}));
        b.client.send(&json!({"jsonrpc": "2.0", "id": "nobody", "error": {"code": -1, "message": "x"}}));
        b.settle();
        assert_eq!(b.client.heard.len(), 1, "{:?}", b.client.heard);
    }),
    row(&["V1-ERR-01", "V1-ERR-02", "V1-ERR-03", "V1-ERR-04"], ALL, |b| {
        let cwd = b.place.project();
        let mut errors = vec![
            (-32601, b.client.fail("session/nothing", json!({}))),
            (-32601, b.client.fail("authenticate", json!({"methodId": "x"}))),
            (-32601, b.client.fail("logout", json!({}))),
            (-32602, b.client.fail("session/new", json!({"cwd": "relative", "mcpServers": []}))),
            (-32602, b.client.fail("session/list", json!({"cursor": "s3cret-cursor"}))),
            (-32002, b.client.fail("session/resume", json!({"sessionId": "nobody", "cwd": cwd}))),
            (-32600, b.client.fail("initialize", hello(b.dialect, &json!({})))),
        ];
        b.client.send_text("{\"jsonrpc\": \"2.0\", s3cret");
        errors.push((-32700, b.client.until(|message| message["error"].is_object())["error"].clone()));
        b.client.send_text("{\"jsonrpc\": \"2.0\", \"id\": 77}");
        errors.push((-32600, b.client.until(|message| message["error"].is_object())["error"].clone()));
        for (code, error) in errors {
            assert_eq!(error["code"], code, "{error}");
            let text = error.to_string();
            assert!(error["message"].as_str().is_some_and(|text| !text.is_empty() && text.len() < 300), "{text}");
            assert!(![".rs:", "panick", "s3cret", "src/"].iter().any(|leak| text.contains(leak)), "{text}");
        }
        b.settle();
    }),
    row(&["V1-ERR-05"], ALL, |b| {
        let id = b.client.begin("run sleep 30");
        b.client.until(|message| message["params"]["update"]["status"] == "in_progress");
        b.client.cancel();
        assert_eq!(b.client.end(id), "cancelled");
        assert!(b.client.heard.iter().all(|message| message.get("error").is_none()));
    }),
    row(&["V1-ERR-08"], ALL, |b| {
        for (wait, retried) in [(Some(0), true), (Some(3600), false)] {
            let limit = Fault::Status { code: 429, retry_after: wait };
            let models = Models::start(Script::new(vec![Answer::text("never").fault(limit)]));
            let url = models.url("openai-chat");
            let arguments = ["--model", "openai-chat/gpt-4.1", "--base-url", &url, "--no-store"];
            let mut client = b.agent(&b.place, &json!({}), &arguments, &[]);
            client.open_in(&b.place.project());
            let id = client.begin("Hi.");
            let error = if b.is("2") {
                client.end(id);
                client.updates.last().unwrap()["error"].clone()
            } else {
                client.answer(id)["error"].clone()
            };
            assert!((-32099..=-32001).contains(&error["code"].as_i64().unwrap()), "{error}");
            assert_eq!(error["data"], json!({"reason": "rate_limited", "retryAfter": wait}), "{error}");
            // Only after it was tried again, where the provider's wish can be met.
            assert_eq!(models.bodies().len() > 1, retried);
        }
    }),
    row(&["V1-ERR-07"], ALL, |b| {
        let list = b.client.call("session/list", json!({}))["sessions"].clone();
        let cwd = b.place.project();
        b.client.fail("session/new", json!({"cwd": cwd, "mcpServers": [{"name": 5}]}));
        b.client.fail("session/new", json!({"cwd": cwd, "mcpServers": [], "additionalDirectories": ["relative"]}));
        assert_eq!(b.client.call("session/list", json!({}))["sessions"], list);
        // A write whose arguments are wrong asks nobody and changes nothing.
        b.turn("call write {\"path\": \"bad.txt\"}");
        assert!(b.client.asked.is_empty() && !b.place.project().join("bad.txt").exists());
        assert_eq!(b.call()["status"], "failed");
    }),
    row(&["V2-BATCH-01", "V2-BATCH-02"], V2, |b| {
        let list = |id: Value| json!({"jsonrpc": "2.0", "id": id, "method": "session/list", "params": {}});
        let cancel = json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "x"}});
        b.client.send(&json!([list(json!("a")), cancel, 5, list(json!("b"))]));
        let answer = b.client.until(Value::is_array);
        let ids: Vec<&Value> = answer.as_array().unwrap().iter().map(|one| &one["id"]).collect();
        assert_eq!(ids, [&json!("a"), &Value::Null, &json!("b")], "{answer}");
        b.client.send(&json!([]));
        let answer = b.client.until(|message| message["error"].is_object());
        assert_eq!(answer["error"]["code"], -32600);
        b.client.send(&json!([cancel]));
        b.forget();
        b.turn("say hi\nwrite b.txt x\nread a.txt");
        assert!(b.client.heard.iter().all(Value::is_object), "the agent sends no batches of its own");
    }),
];

#[test]
fn errors() {
    check(ROWS);
}
