//! Modes and session options.

use crate::bench::{ALL, Bench, Row, V1, V2, check, of, row};
use serde_json::{Value, json};

/// The parameters that set an option.
fn set(b: &Bench, id: &str, value: &str) -> Value {
    let mut params = b.named(json!({"configId": id, "value": value}));
    if b.is("2") {
        params["type"] = "id".into();
    }
    params
}

/// An option whose value is one of its choices.
fn valid(option: &Value) {
    let now = &option["currentValue"];
    assert!(option["options"].as_array().unwrap().iter().any(|choice| choice["value"] == *now), "{option}");
}

pub const ROWS: &[Row] = &[
    row(&["V1-MODE-01", "V1-CONF-01", "V1-CONF-02", "V1-CONF-08", "V1-CONF-10"], V1, |b| {
        let answer = b.client.open_in(&b.place.project());
        let modes: Vec<&Value> =
            answer["modes"]["availableModes"].as_array().unwrap().iter().map(|mode| &mode["id"]).collect();
        assert_eq!(modes, ["ask", "plan", "edit", "auto"]);
        assert_eq!(answer["modes"]["currentModeId"], "ask");
        let options = answer["configOptions"].as_array().unwrap();
        assert!(!options.is_empty());
        for option in options {
            valid(option);
            let category = option["category"].as_str().unwrap();
            assert!(
                category.starts_with('_') || ["mode", "model", "model_config", "thought_level"].contains(&category)
            );
        }
        assert_eq!((&options[0]["id"], &options[0]["category"]), (&json!("mode"), &json!("mode")));
    }),
    row(&["V1-MODE-03"], V1, |b| {
        let idle = b.named(json!({"modeId": "plan"}));
        assert_eq!(b.client.call("session/set_mode", idle), json!({}));
        let id = b.client.begin("say started\nwait");
        b.client.until_update("agent_message_chunk");
        let busy = b.named(json!({"modeId": "edit"}));
        assert_eq!(b.client.call("session/set_mode", busy), json!({}));
        let nobody = b.named(json!({"modeId": "nobody"}));
        assert_eq!(b.client.fail("session/set_mode", nobody)["code"], -32602);
        b.client.cancel();
        b.client.end(id);
        b.updates("write m.txt x");
        assert!(b.client.asked.is_empty(), "the mode holds");
    }),
    row(&["V1-MODE-04", "V1-CONF-05"], ALL, |b| {
        b.updates("mode edit");
        if b.is("1") {
            assert_eq!(of(&b.client.updates, "current_mode_update")[0]["currentModeId"], "edit");
        }
        let told = of(&b.client.updates, "config_option_update")[0]["configOptions"].as_array().unwrap();
        assert_eq!(told.len(), 2, "all of them: {told:?}");
        assert_eq!(told[0]["currentValue"], "edit");
    }),
    row(&["V1-MODE-05"], ALL, |b| {
        b.client.choose = "reject_once";
        b.updates("call switch_mode {\"mode\": \"auto\"}\nrun echo out > s.txt");
        assert_eq!(b.client.asked.len(), 2);
        assert!(!b.place.project().join("s.txt").exists());
        b.client.choose = "allow_once";
        b.updates("call switch_mode {\"mode\": \"auto\"}\nrun echo out");
        assert_eq!(b.client.asked.len(), 1, "{:?}", b.client.asked);
        assert_eq!(b.calls()[0]["kind"], "switch_mode");
    }),
    row(&["V1-CONF-03"], V1, |b| {
        for (offer, kinds) in [(json!({}), false), (json!({"session": {"configOptions": {"boolean": {}}}}), true)] {
            let mut client = b.other(offer, &["--script", "config-options"]);
            for _ in 0..3 {
                client.prompt("go");
            }
            let all = Value::from(client.updates.clone()).to_string();
            assert_eq!(all.contains("\"boolean\""), kinds, "{all}");
        }
    }),
    row(&["V1-CONF-04", "V2-CONF-01", "V2-CONF-03"], ALL, |b| {
        let all = set(b, "mode", "plan");
        let all = b.client.call("session/set_config_option", all)["configOptions"].clone();
        assert_eq!(all.as_array().unwrap().len(), 2, "{all}");
        all.as_array().unwrap().iter().for_each(valid);
        assert_eq!(all[0]["currentValue"], "plan");
    }),
    row(&["V1-CONF-11", "V2-CONF-02"], ALL, |b| {
        for (id, value) in [("mode", "nobody"), ("nobody", "ask"), ("model", "nobody")] {
            let params = set(b, id, value);
            assert_eq!(b.client.fail("session/set_config_option", params)["code"], -32602, "{id} {value}");
        }
        let mut odd = set(b, "mode", "ask");
        (odd["type"], odd["value"]) = (json!("boolean"), json!(true));
        assert_eq!(b.client.fail("session/set_config_option", odd)["code"], -32602);
        assert!(b.client.updates.is_empty());
        b.updates("write o.txt x");
        assert_eq!(b.client.asked.len(), 1, "the mode is still `ask`");
    }),
    row(&["V2-CONF-05"], V2, |b| {
        let answer = b.client.open_in(&b.place.project());
        let categories: Vec<&Value> =
            answer["configOptions"].as_array().unwrap().iter().map(|option| &option["category"]).collect();
        assert_eq!(categories, ["mode", "model"]);
        assert!(answer.get("modes").is_none());
        b.updates("mode edit");
        assert!(of(&b.client.updates, "current_mode_update").is_empty());
    }),
];

#[test]
fn options() {
    check(ROWS);
}
