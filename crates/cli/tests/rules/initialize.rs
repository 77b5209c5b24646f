//! The hello: versions, capabilities, names.

use crate::bench::{ALL, CURRENT, NOT_SEED, OLDER, Row, V1, V2, check, row};
use crate::common::{Editor, hello};
use serde_json::{Value, json};

fn known(object: &Value, keys: &[&str]) {
    for key in object.as_object().unwrap().keys() {
        assert!(keys.contains(&key.as_str()), "`{key}` in {object}");
    }
}

pub const ROWS: &[Row] = &[
    row(&["V1-INIT-02", "V1-INIT-03", "V2-INIT-02", "V2-INIT-03"], ALL, |b| {
        let answer = b.silent(&[]).call("initialize", hello(b.dialect, &json!({})));
        assert_eq!(answer["protocolVersion"], if b.is("1") { 1 } else { 2 });
        let key = if b.is("1") { "agentCapabilities" } else { "capabilities" };
        assert!(answer[key].is_object(), "{answer}");
    }),
    row(&["V1-INIT-04", "V2-INIT-04"], ALL, |b| {
        let ask = |version: u32, arguments: &[&str]| {
            let mut params = hello(b.dialect, &json!({}));
            params["protocolVersion"] = version.into();
            let mut client = b.silent(arguments);
            let id = client.ask("initialize", params);
            client.answer(id)
        };
        match b.dialect {
            // The newest that we speak, not an error.
            "1" => {
                assert_eq!(ask(0, &[])["result"]["protocolVersion"], 1);
                assert_eq!(ask(999, &["--protocol", "1"])["result"]["protocolVersion"], 1);
                assert_eq!(ask(999, &[])["result"]["protocolVersion"], 2);
            }
            "2-seed" => assert_eq!(ask(7, &[])["result"]["protocolVersion"], 2),
            _ => {
                assert_eq!(ask(7, &[])["result"]["protocolVersion"], 2);
                let error = ask(1, &["--protocol", "2"])["error"].clone();
                assert_eq!((&error["code"], &error["data"]["requested"]), (&json!(-32022), &json!(1)), "{error}");
                assert_eq!(error["data"]["supported"], json!([2]));
            }
        }
    }),
    row(&["V1-INIT-06"], OLDER, |b| {
        b.client.fail("initialize", hello("2", &json!({})));
        b.updates("read a.txt\nplan A; B");
        let kinds = b.client.kinds();
        let old = if b.is("1") { ["tool_call", "plan"] } else { ["tool_call_update", "plan_update"] };
        assert!(old.iter().all(|kind| kinds.iter().any(|k| k == kind)), "{kinds:?}");
        assert!(!kinds.iter().any(|kind| kind == "state_update"), "{kinds:?}");
    }),
    row(&["V1-INIT-07", "V2-INIT-07"], ALL, |b| {
        let nothing = [
            json!({}),
            json!({"fs": null, "terminal": null, "elicitation": null}),
            json!({"fs": {"readTextFile": false}, "terminal": false, "elicitation": {"form": null}}),
        ];
        for capabilities in nothing {
            let mut client = b.other(capabilities, &["--script", "puppet", "--mode", "auto", "--no-store"]);
            let work = "read a.txt\nwrite b.txt x\nrun true\ncall ask {\"question\": \"Why?\"}";
            assert_eq!(client.prompt(work), "end_turn");
            let others: Vec<_> = client.methods().into_iter().filter(|method| method != "session/update").collect();
            assert!(others.is_empty(), "{others:?}");
        }
    }),
    row(&["V1-INIT-08"], V1, |b| {
        for mix in 0..16 {
            let bit = |at: u32| mix >> at & 1 == 1;
            let form = if bit(3) { json!({"form": {}}) } else { Value::Null };
            let fs = json!({"readTextFile": bit(0), "writeTextFile": bit(1)});
            let offers = json!({"fs": fs, "terminal": bit(2), "elicitation": form});
            let mut client = b.other(offers, &["--script", "puppet", "--mode", "edit", "--no-store"]);
            client.editor = Some(Editor::default());
            let work = "read a.txt\nwrite b.txt x\nrun echo ran\nresult\ncall ask {\"question\": \"Why?\"}";
            assert_eq!(client.prompt(work), "end_turn", "{mix}");
            assert!(client.said().contains("ran"), "{mix}: {}", client.said());
            let used = client.editor.take().unwrap();
            assert_eq!(used.count("fs/read_text_file") > 0, bit(0), "{mix}");
            assert_eq!(used.count("fs/write_text_file") > 0, bit(1), "{mix}");
            assert_eq!(used.count("terminal/create") > 0, bit(2), "{mix}");
            assert_eq!(client.methods().iter().any(|method| method == "elicitation/create"), bit(3), "{mix}");
        }
    }),
    row(&["V1-INIT-09"], ALL, |b| {
        for version in [json!("1"), json!(1.5), json!(-1), json!(70000), json!(null), json!([1])] {
            let mut params = hello(b.dialect, &json!({}));
            params["protocolVersion"] = version;
            assert_eq!(b.silent(&[]).fail("initialize", params)["code"], -32602);
        }
        assert_eq!(b.silent(&[]).fail("initialize", json!({}))["code"], -32602);
    }),
    row(&["V1-INIT-10", "V2-INIT-09"], ALL, |b| {
        let link = json!({"type": "resource_link", "uri": "file:///a.txt", "name": "a"});
        let id = b.client.begin_with(json!([{"type": "text", "text": "told"}, link]));
        assert_eq!(b.client.end(id), "end_turn");
        assert!(b.client.said().contains("file:///a.txt"), "{}", b.client.said());
    }),
    row(&["V1-INIT-11", "V2-INIT-08"], ALL, |b| {
        // A session is there already.
        let id = b.client.begin("say started\nwait");
        b.client.until_update("agent_message_chunk");
        b.client.cancel();
        assert_eq!(b.client.end(id), "cancelled");
        if b.is("2") {
            let session = b.client.session.clone();
            let params = b.named(json!({"cwd": b.place.project()}));
            assert!(b.client.call("session/list", json!({}))["sessions"].is_array());
            b.client.call("session/close", json!({"sessionId": session}));
            b.client.call("session/resume", params);
        }
    }),
    row(&["V1-INIT-14", "V2-INIT-06"], ALL, |b| {
        let answer = b.silent(&[]).call("initialize", hello(b.dialect, &json!({})));
        let who = &answer[if b.is("2") { "info" } else { "agentInfo" }];
        assert!(who["name"] == "tieline" && who["version"].is_string(), "{answer}");
        if b.is("2") {
            let params = json!({"protocolVersion": 2, "info": {"name": 5}, "capabilities": {}});
            assert_eq!(b.silent(&[]).fail("initialize", params)["code"], -32602);
        }
    }),
    row(&["V1-INIT-15"], ALL, |b| {
        let mut client = b.silent(&[]);
        client.notify("session/cancel", json!({"sessionId": "x"}));
        let error = client.fail("session/new", json!({"cwd": b.place.project(), "mcpServers": []}));
        assert_eq!(error["code"], -32600);
        assert_eq!(client.heard.len(), 1, "{:?}", client.heard);
        client.call("initialize", hello(b.dialect, &json!({})));
        client.open_in(&b.place.project());
    }),
    row(&["V1-INIT-16"], OLDER, |b| {
        let mut client = b.silent(&[]);
        client.call("initialize", hello(b.dialect, &json!({})));
        assert_eq!(client.fail("initialize", hello(b.dialect, &json!({})))["code"], -32600);
        client.open_in(&b.place.project());
    }),
    row(&["V1-INIT-17"], ALL, |b| {
        let answer = b.silent(&[]).call("initialize", hello(b.dialect, &json!({})));
        assert!(answer["authMethods"].is_array(), "{answer}");
    }),
    row(&["V2-INIT-11"], CURRENT, |b| {
        let mut client = b.silent(&["--script", "puppet"]);
        client.call("initialize", hello("2", &json!({})));
        assert_eq!(client.fail("initialize", hello("1", &json!({})))["code"], -32600);
        client.call("initialize", hello("2", &json!({"elicitation": {"form": {}}})));
        client.open_in(&b.place.project());
        assert_eq!(client.fail("initialize", hello("2", &json!({})))["code"], -32600);
        // The last one counts.
        client.prompt("call ask {\"question\": \"Why?\"}");
        assert!(client.methods().iter().any(|method| method == "elicitation/create"));
    }),
    row(&["V1-EXT-05"], V1, |b| {
        // Whatever is there besides the protocol's own is in `_meta`.
        let can = b.silent(&[]).call("initialize", hello("1", &json!({})))["agentCapabilities"].clone();
        known(&can, &["loadSession", "promptCapabilities", "mcpCapabilities", "sessionCapabilities", "auth", "_meta"]);
        known(&can["promptCapabilities"], &["image", "audio", "embeddedContext", "_meta"]);
        let session = "list resume close delete additionalDirectories _meta";
        known(&can["sessionCapabilities"], &session.split(' ').collect::<Vec<_>>());
    }),
    row(&["V2-INIT-12"], V2, |b| {
        let answer = b.silent(&[]).call("initialize", hello(b.dialect, &json!({})));
        known(&answer["capabilities"], &["session", "auth", "_meta"]);
        let session = "prompt mcp load list resume close delete additionalDirectories _meta";
        known(&answer["capabilities"]["session"], &session.split(' ').collect::<Vec<_>>());
        known(&answer["capabilities"]["session"]["prompt"], &["image", "audio", "embeddedContext", "_meta"]);
    }),
    row(&["V1-AUTH-10", "V2-AUTH-06"], NOT_SEED, |b| {
        let answer = b.silent(&[]).call("initialize", hello(b.dialect, &json!({})));
        let methods = answer["authMethods"].as_array().unwrap();
        assert!(methods.iter().all(|method| method["type"] != "terminal"), "{answer}");
    }),
];

#[test]
fn initialize() {
    check(ROWS);
}
