//! Questions to the user by elicitation.

use crate::bench::{ALL, Bench, CURRENT, NOT_SEED, Row, check, row};
use crate::common::{Client, Reply};
use serde_json::{Value, json};

const ASK: &str = "call ask {\"question\": \"Which colour?\", \"options\": [\"blue\", \"lime\"]}\nresult";

/// Asks, and gives this reply once.
fn ask(b: &Bench, reply: Reply) -> (Client, Value) {
    let mut client = b.other(json!({"elicitation": {"form": {}}}), &["--script", "puppet", "--no-store"]);
    let mut reply = Some(reply);
    client.serve = Some(Box::new(move |_| reply.take()));
    assert_eq!(client.prompt(ASK), "end_turn");
    let asked = client.heard.iter().find(|message| message["method"] == "elicitation/create").unwrap().clone();
    (client, asked)
}

pub const ROWS: &[Row] = &[
    row(&["V1-ELIC-01", "V1-ELIC-02"], ALL, |b| {
        for offer in [
            json!({}),
            json!({"elicitation": {}}),
            json!({"elicitation": {"url": {}}}),
            json!({"elicitation": {"form": null}}),
        ] {
            let mut client = b.other(offer, &["--script", "puppet", "--no-store"]);
            assert_eq!(client.prompt(ASK), "end_turn");
            assert!(!client.methods().iter().any(|method| method == "elicitation/create"));
            // The model is told what to do instead.
            assert!(client.said().contains("Say your question"), "{}", client.said());
        }
    }),
    row(&["V1-ELIC-03", "V1-ELIC-13", "V2-ELIC-01", "V2-ELIC-02"], NOT_SEED, |b| {
        let (client, asked) = ask(b, Reply::Result(json!({"action": "accept", "content": {"answer": "lime"}})));
        assert!(client.said().contains("lime"), "{}", client.said());
        let params = &asked["params"];
        assert_eq!((&params["mode"], &params["sessionId"]), (&json!("form"), &json!(client.session)), "{params}");
        let schema = &params["requestedSchema"];
        assert_eq!(schema["type"], "object");
        let field = schema["properties"].as_object().unwrap().values().next().unwrap();
        assert_eq!((&field["type"], &field["enum"]), (&json!("string"), &json!(["blue", "lime"])), "{schema}");
    }),
    row(&["V1-ELIC-08"], NOT_SEED, |b| {
        for content in
            [json!({"answer": "purple"}), json!({"answer": 5}), json!({"other": "blue"}), json!({}), Value::Null]
        {
            let (client, _) = ask(b, Reply::Result(json!({"action": "accept", "content": content})));
            let failed = client.updates.iter().any(|update| update["status"] == "failed");
            assert!(failed && !client.said().contains("purple"), "{content}: {}", client.said());
        }
    }),
    row(&["V1-ELIC-09", "V1-ELIC-14"], NOT_SEED, |b| {
        for reply in [
            Reply::Result(json!({"action": "decline", "content": {"answer": "blue"}})),
            Reply::Result(json!({"action": "cancel", "content": {"answer": "blue"}})),
            Reply::Result(json!({"action": "cancel", "content": null})),
            Reply::Error(-32602, "no"),
        ] {
            let (client, _) = ask(b, reply);
            let failed = client.updates.iter().any(|update| update["status"] == "failed");
            assert!(failed && !client.said().contains("blue"), "{}", client.said());
        }
    }),
    row(&["V2-ELIC-03"], CURRENT, |b| {
        let (client, _) = ask(b, Reply::Result(json!({"action": "_odd", "content": {"answer": "blue"}})));
        assert!(!client.said().contains("blue") && client.said().contains("unanswered"), "{}", client.said());
    }),
];

#[test]
fn elicitation() {
    check(ROWS);
}
