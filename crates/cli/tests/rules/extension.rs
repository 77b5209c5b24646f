//! Extensions and `_meta`.

use crate::bench::{ALL, Row, V1, check, row};
use crate::common::hello;
use serde_json::{Value, json};

pub const ROWS: &[Row] = &[
    row(&["V1-EXT-03", "V1-EXT-04", "V2-EXT-04"], ALL, |b| {
        let error = b.client.fail("_example.com/hello", json!({"a": 1}));
        assert_eq!(error["code"], -32601);
        b.forget();
        b.client.notify("_example.com/hello", json!({"a": 1}));
        b.settle();
        assert_eq!(b.client.heard.len(), 1, "{:?}", b.client.heard);
    }),
    row(&["V1-EXT-06"], ALL, |b| {
        let meta = json!({"example.com/odd": [1, {"a": null}]});
        let mut params = hello(b.dialect, &json!({"_meta": meta}));
        params["_meta"] = meta.clone();
        let mut client = b.silent(&["--script", "puppet"]);
        client.call("initialize", params);
        let new = json!({"cwd": b.place.project(), "mcpServers": [], "_meta": meta});
        client.session = client.call("session/new", new)["sessionId"].as_str().unwrap().into();
        let params = json!({"sessionId": client.session, "prompt": [{"type": "text", "text": "say on", "_meta": meta}], "_meta": meta});
        let id = client.ask("session/prompt", params);
        assert_eq!((client.end(id).as_str(), client.said().as_str()), ("end_turn", "on"));
    }),
    row(&["V1-EXT-07", "V1-EXT-08"], V1, |b| {
        let meta = json!({"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tracestate": "a=b", "baggage": "c=d", "other": [1.50, null]});
        let id = b.client.begin_with(json!([{"type": "text", "text": "say on", "_meta": meta}]));
        assert_eq!(b.client.end(id), "end_turn");
        let session = b.client.session.clone();
        b.client.call("session/close", json!({"sessionId": session}));
        b.forget();
        b.client.load(&session, &b.place.project());
        let told = b.client.updates.iter().find(|update| update["sessionUpdate"] == "user_message_chunk").unwrap();
        assert_eq!(told["content"]["_meta"], meta, "{told}");
        // What an update brings along goes on with it.
        b.updates(&format!(
            "update {}",
            json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "x"}, "_meta": meta})
        ));
        assert!(
            b.client.updates.iter().any(|update| update["_meta"] == meta),
            "{:?}",
            Value::from(b.client.updates.clone())
        );
    }),
];

#[test]
fn extension() {
    check(ROWS);
}
