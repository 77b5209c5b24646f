//! Prompts and turns, messages, states, content.

use crate::bench::{ALL, CURRENT, OLDER, Row, V1, V2, check, of, row};
use serde_json::{Value, json};
use std::collections::HashSet;

pub const ROWS: &[Row] = &[
    row(&["V1-PROMPT-03", "V2-PROMPT-12"], ALL, |b| {
        let audio = json!({"type": "audio", "data": "AAAA", "mimeType": "audio/wav"});
        for block in [audio, json!({"type": "_odd"})] {
            let params = b.named(json!({"prompt": [block]}));
            let error = b.client.fail("session/prompt", params);
            assert_eq!(error["code"], -32602, "{error}");
            assert!(error["data"]["reason"].as_str().unwrap().contains("takes no"), "{error}");
        }
        b.settle();
        assert!(b.client.updates.is_empty(), "{:?}", b.client.updates);
        b.updates("say on");
    }),
    row(&["V1-PROMPT-04"], ALL, |b| {
        b.updates("say a\nthink b\nplan A; B\nread a.txt\ncontext 1 2");
        let kinds = b.client.kinds();
        for start in ["agent_message_chunk", "agent_thought_chunk", "plan", "tool_call", "usage_update"] {
            assert!(kinds.iter().any(|kind| kind.starts_with(start)), "{start}: {kinds:?}");
        }
    }),
    row(&["V1-PROMPT-05", "V1-PROMPT-06", "V1-TOOL-13", "V2-PROMPT-05"], OLDER, |b| {
        let id = b.client.begin("say a\nread a.txt\nsay b");
        let answer = b.client.answer(id);
        assert_eq!(answer["result"]["stopReason"], "end_turn");
        let before = b.client.heard.len();
        b.settle();
        assert_eq!(b.client.heard.len(), before + 1, "nothing follows: {:?}", b.client.heard.last());
        assert_eq!(b.call()["status"], "completed");
    }),
    row(&["V2-PROMPT-03"], V2, |b| {
        b.updates("say a");
        let user = of(&b.client.updates, "user_message")[0].clone();
        assert_eq!(user["content"], json!([{"type": "text", "text": "say a"}]));
        let answer = b.client.heard.iter().find(|message| message.get("method").is_none()).unwrap();
        assert!(!b.is("2") || answer["result"]["messageId"] == user["messageId"], "{answer} {user}");
    }),
    row(&["V2-PROMPT-04"], V2, |b| {
        let id = b.client.begin("say started\nwait");
        b.client.until_update("agent_message_chunk");
        b.settle();
        let answered = b.client.heard.iter().any(|message| message["id"] == id);
        assert_eq!(answered, b.is("2"));
        b.client.cancel();
        assert_eq!(b.client.end(id), "cancelled");
    }),
    row(&["V1-PROMPT-07", "V1-PROMPT-08", "V2-PROMPT-06"], ALL, |b| {
        for stop in ["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"] {
            assert_eq!(b.turn(&format!("say a\nstop {stop}\nsay never")), stop);
            assert_eq!(b.client.said(), "a");
        }
        if b.is("1") {
            let stop = b.turn("stop _example.com/tired");
            assert!(
                ["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"].contains(&&*stop),
                "{stop}"
            );
        }
    }),
    row(&["V2-PROMPT-07"], V2, |b| {
        assert_eq!(b.turn("stop _example.com/tired"), "_example.com/tired");
    }),
    row(&["V1-PROMPT-09", "V2-PROMPT-09"], ALL, |b| {
        b.updates("read a.txt\nresult\nrun echo x$((40 + 2))\nresult");
        assert!(b.client.said().contains("three") && b.client.said().contains("x42"), "{}", b.client.said());
    }),
    row(&["V1-PROMPT-10"], ALL, |b| {
        b.updates("read nowhere.txt\nrun exit 3\ncall nothing {}\nsay on");
        let failed = b.calls().iter().filter(|update| update["status"] == "failed").count();
        assert_eq!((failed, b.client.said().as_str()), (3, "on"));
    }),
    row(&["V1-PROMPT-11", "V2-MSG-01"], ALL, |b| {
        b.updates("say a\nthink b\nsay c\nread a.txt\nsay d");
        let ids: Vec<String> = b
            .client
            .updates
            .iter()
            .filter(|update| update["sessionUpdate"].as_str().unwrap().ends_with("_chunk"))
            .map(|update| update["messageId"].as_str().expect("a message id").to_owned())
            .collect();
        assert_eq!((ids.len(), ids.iter().collect::<HashSet<_>>().len()), (4, 4), "{ids:?}");
        b.updates("flood 3 4");
        let ids: HashSet<String> =
            of(&b.client.updates, "agent_message_chunk").iter().map(|update| update["messageId"].to_string()).collect();
        assert_eq!(ids.len(), 1, "one message has one id");
    }),
    row(&["V2-MSG-07"], V2, |b| {
        b.updates("say in pieces\nupdate {\"sessionUpdate\": \"agent_message\", \"messageId\": \"w\", \"content\": [{\"type\": \"text\", \"text\": \"whole\"}]}");
        assert_eq!(of(&b.client.updates, "agent_message_chunk").len(), 1);
        assert_eq!(of(&b.client.updates, "agent_message")[0]["content"][0]["text"], "whole");
    }),
    row(&["V1-PROMPT-13", "V2-PROMPT-10"], ALL, |b| {
        b.updates("context 5 10");
        let usage = of(&b.client.updates, "usage_update")[0].clone();
        assert_eq!((&usage["used"], &usage["size"]), (&json!(5), &json!(10)));
        let mut client = b.other(json!({}), &["--script", "usage"]);
        for _ in 0..4 {
            client.prompt("go");
        }
        let paid: Vec<_> = client.updates.iter().filter(|update| update["cost"].is_object()).collect();
        assert!(!paid.is_empty());
        assert!(paid.iter().all(|update| update["cost"]["amount"].is_number() && update["cost"]["currency"] == "USD"));
    }),
    row(&["V1-PROMPT-15"], OLDER, |b| {
        let id = b.client.begin("say started\nwait");
        b.client.until_update("agent_message_chunk");
        let params = b.named(json!({"prompt": [{"type": "text", "text": "say x"}]}));
        let error = b.client.fail("session/prompt", params);
        assert_eq!((&error["code"], &error["data"]["reason"]), (&json!(-32600), &json!("turn_in_progress")), "{error}");
        b.client.cancel();
        assert_eq!(b.client.end(id), "cancelled");
    }),
    row(&["V1-PROMPT-17"], ALL, |b| {
        let first = b.client.begin("say started\nwait");
        b.client.until_update("agent_message_chunk");
        let session = b.client.session.clone();
        b.client.open_in(&b.place.project());
        assert_eq!(b.turn("say meanwhile"), "end_turn");
        b.client.session = session;
        b.client.cancel();
        assert_eq!(b.client.end(first), "cancelled");
    }),
    row(&["V2-PROMPT-11"], CURRENT, |b| {
        assert_eq!(b.turn("say a\nerror -32099 too bad"), "error");
        let answer = b.client.heard.iter().find(|message| message.get("method").is_none()).unwrap();
        assert!(answer["result"]["messageId"].is_string(), "{answer}");
        let idle = b.client.updates.last().unwrap();
        assert_eq!((&idle["error"]["code"], &idle["error"]["message"]), (&json!(-32099), &json!("too bad")), "{idle}");
    }),
    row(&["V2-STATE-01", "V2-STATE-02"], CURRENT, |b| {
        b.updates("say a\nread a.txt");
        let states: Vec<_> = of(&b.client.updates, "state_update").into_iter().cloned().collect();
        assert_eq!(states.len(), 2, "{states:?}");
        assert_eq!(states[0]["state"], "running");
        assert_eq!((&states[1]["state"], &states[1]["stopReason"]), (&json!("idle"), &json!("end_turn")));
        let place = |kind: &str| b.client.updates.iter().position(|update| update["sessionUpdate"] == kind).unwrap();
        assert!(place("state_update") < place("agent_message_chunk"));
        assert_eq!(b.client.updates.last().unwrap(), &states[1]);
    }),
    row(&["V2-STATE-03", "V2-PERM-10"], CURRENT, |b| {
        b.updates("write b.txt x");
        let states: Vec<_> =
            of(&b.client.updates, "state_update").iter().map(|update| update["state"].clone()).collect();
        assert_eq!(states, ["running", "requires_action", "running", "idle"]);
    }),
    row(&["V1-CONTENT-01", "V1-CONTENT-06"], ALL, |b| {
        let prompt = json!([
            {"type": "text", "text": "told"},
            {"type": "resource", "resource": {"uri": "file:///t", "text": "as text"}},
            {"type": "resource", "resource": {"uri": "file:///b", "blob": "AAEC"}},
        ]);
        let id = b.client.begin_with(prompt);
        assert_eq!(b.client.end(id), "end_turn");
        let said = b.client.said();
        assert!(said.contains("\"text\":\"as text\"") && said.contains("\"blob\":\"AAEC\""), "{said}");
        for resource in [json!({"uri": "file:///n"}), json!({"uri": "file:///n", "blob": 5})] {
            let params = b.named(json!({"prompt": [{"type": "resource", "resource": resource}]}));
            assert_eq!(b.client.fail("session/prompt", params)["code"], -32602);
        }
    }),
    row(&["V1-CONTENT-04"], V1, |b| {
        let mut client = b.other(json!({}), &["--script", "image-output"]);
        assert_eq!(client.prompt("go"), "end_turn");
        let image = client.updates.iter().find(|update| update["content"]["type"] == "image").unwrap();
        let data = image["content"]["data"].as_str().unwrap();
        let base64 = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte);
        assert!(data.len() % 4 == 0 && data.bytes().all(base64) && data.starts_with("iVBOR"), "{data}");
    }),
    row(&["V2-EXT-06"], V2, |b| {
        b.updates(
            "update {\"sessionUpdate\": \"tool_call_update\", \"toolCallId\": \"x\", \"title\": \"t\", \"kind\": null}",
        );
        let update = b.calls()[0].clone();
        assert_eq!(update["title"], "t");
        assert!(update.get("kind").is_some_and(Value::is_null) && update.get("content").is_none(), "{update}");
    }),
    row(&["V2-CANCEL-09"], CURRENT, |b| {
        b.updates("call run {\"command\": \"echo alive; exec sleep 6006\", \"background\": true}");
        let first = b.client.begin("say started\nwait");
        b.client.until_update("agent_message_chunk");
        let second = b.client.begin("say never");
        b.client.cancel();
        assert_eq!(b.client.answer(second)["error"]["code"], -32800);
        assert!(b.client.heard.iter().any(|message| message["id"] == first && message["result"].is_object()));
        // The command may say something at any time.
        if of(&b.client.updates, "state_update").last().unwrap()["state"] != "idle" {
            b.client.until(|message| message["params"]["update"]["state"] == "idle");
        }
        b.updates("call output {\"id\": 1}\nresult\ncall stop {\"id\": 1}");
        assert!(b.client.said().contains("still runs"), "{}", b.client.said());
    }),
];

#[test]
fn prompt() {
    check(ROWS);
}
