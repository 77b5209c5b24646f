//! Sessions: new, load, resume, close, their directories and servers.

use crate::bench::{ALL, Bench, CURRENT, NOT_SEED, Row, V1, V2, check, of, row};
use serde_json::{Value, json};
use std::collections::HashSet;

/// Closes the session and loads it; what was heard is only of the load.
fn again(b: &mut Bench) -> String {
    let session = b.client.session.clone();
    b.client.call("session/close", json!({"sessionId": session}));
    b.forget();
    b.client.load(&session, &b.place.project());
    session
}

pub const ROWS: &[Row] = &[
    row(&["V1-SESS-02", "V1-SESS-23"], ALL, |b| {
        b.updates("run pwd\nresult");
        let cwd = b.place.project().canonicalize().unwrap();
        assert!(b.client.said().contains(cwd.to_str().unwrap()), "{}", b.client.said());
        let more = b.place.folder.path().join("more");
        std::fs::create_dir_all(&more).unwrap();
        std::fs::write(more.join("m.txt"), "far away").unwrap();
        let params = json!({"cwd": cwd, "mcpServers": [], "additionalDirectories": [more]});
        b.client.session = b.client.call("session/new", params)["sessionId"].as_str().unwrap().into();
        b.updates(&format!("read a.txt\nresult\nread {}\nresult", more.join("m.txt").display()));
        assert!(b.client.said().contains("two") && b.client.said().contains("far away"), "{}", b.client.said());
    }),
    row(&["V1-SESS-03"], ALL, |b| {
        std::fs::write(b.place.folder.path().join("secret"), "s3cret").unwrap();
        b.updates("read ../secret\nresult\nwrite ../secret x");
        assert!(!Value::from(b.client.heard.clone()).to_string().contains("s3cret"));
        assert_eq!(std::fs::read_to_string(b.place.folder.path().join("secret")).unwrap(), "s3cret");
    }),
    row(&["V1-SESS-04", "V2-SESS-02"], ALL, |b| {
        let first = b.client.session.clone();
        b.updates("say only here");
        b.client.open_in(&b.place.project());
        assert_ne!(b.client.session, first);
        b.updates("told");
        assert!(!b.client.said().contains("only here"), "{}", b.client.said());
    }),
    row(&["V1-SESS-06", "V1-SESS-07", "V1-SESS-08", "V2-SESS-05"], ALL, |b| {
        b.updates("say hello\nread a.txt\nthink so");
        b.updates("say bye");
        let session = again(b);
        let answer = b.client.heard.iter().position(|message| message.get("method").is_none()).unwrap();
        let told = &b.client.heard[..answer];
        assert!(told.iter().all(|message| message["params"]["sessionId"] == *session));
        let all = Value::from(told.to_vec()).to_string();
        for part in ["say hello", "hello", "completed", "so", "say bye"] {
            assert!(all.contains(part), "{part}: {all}");
        }
        if b.is("1") {
            assert_eq!(of(&b.client.updates, "user_message_chunk").len(), 2);
        } else {
            let users: Vec<_> =
                of(&b.client.updates, "user_message").into_iter().map(|user| &user["messageId"]).collect();
            assert_eq!(users.iter().map(ToString::to_string).collect::<HashSet<_>>().len(), 2, "{users:?}");
        }
        b.updates("say again");
        assert_eq!(b.client.said(), "again");
    }),
    row(&["V1-SESS-15", "V2-SESS-06"], ALL, |b| {
        b.updates("say hello");
        let params = b.named(json!({"cwd": b.place.project()}));
        let session = b.client.session.clone();
        b.client.call("session/close", json!({"sessionId": session}));
        b.forget();
        b.client.call("session/resume", params);
        b.settle();
        let told = Value::from(b.client.heard.clone()).to_string();
        assert!(!told.contains("hello") && !told.contains("_message"), "{told}");
        b.updates("say on");
    }),
    row(&["V1-SESS-16"], V1, |b| {
        let params = b.named(json!({"cwd": b.place.project(), "mcpServers": []}));
        for method in ["session/load", "session/resume"] {
            let answer = b.client.call(method, params.clone());
            assert!(answer["modes"]["currentModeId"] == "ask" && answer["configOptions"].is_array(), "{answer}");
        }
    }),
    row(&["V1-SESS-18", "V2-SESS-10"], ALL, |b| {
        let prompt = b.client.begin("run sleep 31");
        b.client.until(|message| message["params"]["update"]["status"] == "in_progress");
        let params = b.named(json!({}));
        let close = b.client.ask("session/close", params.clone());
        let answer = b.client.answer(close);
        assert_eq!(answer["result"], json!({}));
        let ended = b.client.heard.iter().any(|message| {
            let update = &message["params"]["update"];
            let idle = update["state"] == "idle" && update["stopReason"] == "cancelled";
            idle || message["id"] == prompt && message["result"]["stopReason"] == "cancelled"
        });
        assert!(ended, "{:?}", b.client.heard);
        let before = b.client.heard.len();
        b.settle();
        assert_eq!(b.client.heard.len(), before + 1, "silence");
        assert_eq!(
            b.client.fail("session/prompt", {
                let mut p = params;
                p["prompt"] = json!([{"type": "text", "text": "say x"}]);
                p
            })["code"],
            -32002
        );
    }),
    row(&["V1-SESS-19", "V2-SESS-11"], ALL, |b| {
        let params = json!({"sessionId": "nobody"});
        if b.is("2") {
            assert_eq!(b.client.call("session/close", params), json!({}));
        } else {
            assert_eq!(b.client.fail("session/close", params)["code"], -32002);
        }
    }),
    row(&["V1-SESS-24", "V2-SESS-17"], ALL, |b| {
        let cwd = b.place.project();
        let load = if b.is("2") { "session/resume" } else { "session/load" };
        let option = json!({"sessionId": "nobody", "configId": "mode", "type": "id", "value": "ask"});
        for (method, params) in [
            ("session/prompt", json!({"sessionId": "nobody", "prompt": [{"type": "text", "text": "x"}]})),
            ("session/set_config_option", option),
            (load, json!({"sessionId": "nobody", "cwd": cwd, "mcpServers": [], "replayFrom": {"type": "start"}})),
        ] {
            let error = b.client.fail(method, params);
            assert_eq!(error["code"], -32002, "{method}");
            assert!(!b.is("2") || error["data"]["sessionId"] == "nobody", "{method}: {error}");
        }
        b.forget();
        b.client.notify("session/cancel", json!({"sessionId": "nobody"}));
        b.settle();
        assert_eq!(b.client.heard.len(), 1);
    }),
    row(&["V1-SESS-25"], ALL, |b| {
        b.client.open_in(&b.place.folder.path().join("not/there"));
        b.updates("read a.txt\nsay on");
        assert_eq!((b.call()["status"].as_str(), b.client.said().as_str()), (Some("failed"), "on"));
        // A file is never a directory.
        b.place.write("a file", "");
        let file = b.place.project().join("a file");
        let both = [(file.clone(), json!([])), (b.place.project(), json!([file]))];
        for (cwd, more) in both {
            let params = json!({"cwd": cwd, "additionalDirectories": more, "mcpServers": []});
            let error = b.client.fail("session/new", params);
            assert_eq!(
                (&error["code"], error.to_string().contains("is no directory")),
                (&json!(-32602), true),
                "{error}"
            );
        }
    }),
    row(&["V1-SESS-26"], V1, |b| {
        let server = json!({"name": "gone", "command": "/nowhere/server", "args": [], "env": []});
        let mut client = b.other(json!({"session": {"notices": {}}}), &["--script", "puppet"]);
        let params = json!({"cwd": b.place.project(), "mcpServers": [server]});
        client.session = client.call("session/new", params)["sessionId"].as_str().unwrap().into();
        assert_eq!(client.prompt("say on"), "end_turn");
        assert!(client.kinds().iter().any(|kind| kind == "notice"), "{:?}", client.kinds());
    }),
    row(&["V2-SESS-04"], CURRENT, |b| {
        assert!(b.client.call("session/list", json!({}))["sessions"].is_array());
        let params = b.named(json!({"cwd": b.place.project()}));
        b.client.call("session/close", params.clone());
        b.client.call("session/resume", params);
    }),
    row(&["V2-SESS-07"], CURRENT, |b| {
        for cursor in [json!({"type": "middle"}), json!({"type": 5}), json!("start")] {
            let params = b.named(json!({"cwd": b.place.project(), "replayFrom": cursor}));
            assert_eq!(b.client.fail("session/resume", params)["code"], -32602, "{cursor}");
        }
    }),
    row(&["V2-SESS-08"], CURRENT, |b| {
        b.updates("say hello");
        again(b);
        let answer = b.client.heard.iter().position(|message| message.get("method").is_none()).unwrap();
        let last = &b.client.heard[answer - 1]["params"]["update"];
        assert_eq!((&last["sessionUpdate"], &last["state"]), (&json!("state_update"), &json!("idle")), "{last}");
    }),
    row(&["V2-SESS-12"], CURRENT, |b| {
        let first = b.client.begin("say started\nwait");
        b.client.until_update("agent_message_chunk");
        let second = b.client.begin("say never");
        let params = b.named(json!({}));
        b.client.call("session/close", params);
        let answer = |id: i64| b.client.heard.iter().find(|message| message["id"] == id).unwrap();
        assert!(answer(first)["result"]["messageId"].is_string());
        assert_eq!(answer(second)["error"]["code"], -32800);
        assert!(!b.client.said().contains("never"));
    }),
    row(&["V2-SESS-18"], CURRENT, |b| {
        let new = b.client.open_in(&b.place.project());
        let params = b.named(json!({"cwd": b.place.project()}));
        for answer in [new, b.client.call("session/resume", params)] {
            assert!(answer["configOptions"].is_array() && answer["availableCommands"].is_array(), "{answer}");
        }
    }),
    row(&["V1-NOTICE-01"], NOT_SEED, |b| {
        for (offer, count) in [(json!({}), 0), (json!({"session": {"notices": {}}}), 3)] {
            let mut client = b.other(offer, &["--script", "notice"]);
            assert_eq!(client.prompt("go"), "end_turn");
            let heard = of(&client.updates, "notice").len();
            assert_eq!(heard, if b.is("2") { 3 } else { count });
        }
    }),
    row(&["V1-NOTICE-02", "V2-NOTICE-01"], NOT_SEED, |b| {
        let mut client = b.other(json!({"session": {"notices": {}}}), &["--script", "notice"]);
        assert_eq!(client.prompt("go"), "end_turn");
        client.updates.clear();
        let session = client.session.clone();
        client.load(&session, &b.place.project());
        assert!(!client.updates.is_empty() && of(&client.updates, "notice").is_empty(), "{:?}", client.kinds());
    }),
    row(&["V1-COMPACT-01", "V1-COMPACT-02"], V1, |b| {
        let mut client = b.other(json!({}), &["--script", "compaction"]);
        assert_eq!(client.prompt("go"), "end_turn");
        assert!(!client.kinds().iter().any(|kind| kind.starts_with("compaction")));
        let offers = json!({"session": {"compaction": {}}});
        let mut client = b.other(offers.clone(), &["--script", "compaction"]);
        client.prompt("go");
        let mine = |update: &&Value| update["compactionId"] == "script-compaction-1";
        let seen: Vec<&Value> = client.updates.iter().filter(mine).collect();
        let marks: Vec<&str> = seen.iter().map(|update| update["status"].as_str().unwrap_or("chunk")).collect();
        assert_eq!(marks, ["in_progress", "chunk", "chunk", "completed"]);
        let mut client = b.other(offers, &["--script", "puppet"]);
        for _ in 0..12 {
            client.prompt("say more words, so that there is something to make shorter");
        }
        client.updates.clear();
        client.prompt("/compact");
        let all: Vec<&Value> = client.updates.iter().filter(|u| u["compactionId"].is_string()).collect();
        assert_eq!(all.first().unwrap()["status"], "in_progress", "{all:?}");
        assert_eq!(all.last().unwrap()["status"], "completed");
        assert!(all.iter().all(|update| update["compactionId"] == all[0]["compactionId"]));
    }),
    row(&["V2-EXT-02", "V2-TOOL-10", "V2-PLAN-03"], V2, |b| {
        let updates = [
            json!({"sessionUpdate": "_odd", "a": [1, {"b": null}]}),
            json!({"sessionUpdate": "tool_call_update", "toolCallId": "x", "title": "t", "content": [{"type": "_odd", "z": 1.50}]}),
            json!({"sessionUpdate": "plan_update", "plan": {"type": "_odd", "planId": "p", "id": "p", "steps": 3}}),
        ];
        let prompt: Vec<String> = updates.iter().map(|update| format!("update {update}")).collect();
        b.updates(&prompt.join("\n"));
        let live: Vec<Value> = ["_odd", "tool_call_update", "plan_update"]
            .iter()
            .map(|kind| of(&b.client.updates, kind)[0].clone())
            .collect();
        again(b);
        for (kind, live) in ["_odd", "tool_call_update", "plan_update"].iter().zip(live) {
            let told = of(&b.client.updates, kind);
            assert!(told.iter().any(|update| **update == live), "{kind}: {live} in {told:?}");
        }
        assert_eq!(of(&b.client.updates, "_odd")[0], &updates[0]);
    }),
];

#[test]
fn sessions() {
    check(ROWS);
}
