//! Logging in and out, with a provider that wants a key.

use crate::bench::{ALL, Bench, CURRENT, NOT_SEED, Row, V2, check, row};
use crate::common::{Client, Place};
use crate::pty;
use crate::server::Models;
use serde_json::{Value, json};
use tieline_model_server::{Answer, Script};

const MODEL: [&str; 2] = ["--model", "openai-chat/gpt-4.1"];

/// An agent whose provider wants a key, for a client that has a terminal; its key file holds this.
fn agent(b: &Bench, place: &Place, key: &str) -> Client {
    write_key(place, key);
    let can = if b.is("2") { json!({"auth": {"terminal": {}}}) } else { json!({"auth": {"terminal": true}}) };
    b.agent(place, &can, &MODEL, &[("OPENAI_API_KEY", "")])
}

fn write_key(place: &Place, key: &str) {
    let file = place.folder.path().join("state/tieline/keys.toml");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, if key.is_empty() { String::new() } else { format!("openai-chat = \"{key}\"\n") }).unwrap();
}

/// What logging in and out is called.
fn names(b: &Bench) -> (&'static str, &'static str) {
    if b.is("2") { ("auth/login", "auth/logout") } else { ("authenticate", "logout") }
}

fn methods(client: &Client) -> Vec<Value> {
    client.hello["authMethods"].as_array().unwrap().clone()
}

/// What opens a session, and what takes this one up again.
fn gated(b: &Bench, place: &Place, session: &str) -> [(&'static str, Value); 2] {
    let new = json!({"cwd": place.project(), "mcpServers": []});
    let mut again = json!({"sessionId": session, "cwd": place.project(), "mcpServers": []});
    if b.is("2") {
        again["replayFrom"] = json!({"type": "start"});
    }
    [("session/new", new), (if b.is("2") { "session/resume" } else { "session/load" }, again)]
}

/// A session that exists, made while there was a key.
fn old_session(b: &Bench, place: &Place) -> String {
    let mut client = agent(b, place, "sk-some");
    client.open_in(&place.project());
    let session = client.session.clone();
    client.call("session/close", json!({"sessionId": session}));
    session
}

pub const ROWS: &[Row] = &[
    row(&["V1-AUTH-01", "V1-AUTH-03", "V1-AUTH-05", "V2-AUTH-01"], ALL, |b| {
        let place = Place::new();
        let session = old_session(b, &place);
        let mut client = agent(b, &place, "");
        let methods = methods(&client);
        assert!(!methods.is_empty());
        let id = if b.is("2") { "methodId" } else { "id" };
        for method in &methods {
            assert!([id, "name"].iter().all(|key| method[*key].is_string()), "{method}");
            assert!(b.is("1") || method["type"].is_string(), "{method}");
        }
        for (method, params) in gated(b, &place, &session) {
            let error = client.fail(method, params);
            assert_eq!(
                (&error["code"], &error["data"]["reason"]),
                (&json!(-32000), &json!("auth_required")),
                "{method}"
            );
            assert_eq!(error["data"]["authMethods"], json!(methods), "{method}");
        }
        // The first of them is for the agent itself; it works as soon as there is a key.
        let login = names(b).0;
        let method = json!({"methodId": methods[0][id]});
        assert_eq!(client.fail(login, method.clone())["code"], -32000);
        write_key(&place, "sk-some");
        assert_eq!(client.call(login, method), json!({}));
        for (method, params) in gated(b, &place, &session) {
            client.call(method, params);
        }
        assert_eq!(client.fail(login, json!({"methodId": "nobody"}))["code"], -32602);
    }),
    row(&["V2-AUTH-04"], CURRENT, |b| {
        let place = Place::new();
        let mut client = agent(b, &place, "sk-some");
        assert!(!methods(&client).is_empty());
        client.call("auth/login", json!({"methodId": "key"}));
        assert_eq!(client.call("auth/logout", json!({})), json!({}));
        // Without methods there is neither.
        assert!(b.client.hello["authMethods"].as_array().is_none_or(Vec::is_empty));
        for (method, params) in [("auth/login", json!({"methodId": "key"})), ("auth/logout", json!({}))] {
            assert_eq!(b.client.fail(method, params)["code"], -32601, "{method}");
        }
    }),
    row(&["V2-AUTH-05"], V2, |b| {
        let place = Place::new();
        let known = if b.is("2") { &["agent", "terminal"][..] } else { &["agent"][..] };
        for method in methods(&agent(b, &place, "")) {
            let kind = method["type"].as_str().unwrap();
            assert!(kind.starts_with('_') || known.contains(&kind), "{method}");
        }
    }),
    row(&["V1-AUTH-08", "V2-AUTH-08"], ALL, |b| {
        let place = Place::new();
        let session = old_session(b, &place);
        let mut client = agent(b, &place, "sk-some");
        let (login, logout) = names(b);
        client.open_in(&place.project());
        assert_eq!(client.call(logout, json!({})), json!({}));
        for (method, params) in gated(b, &place, &session) {
            assert_eq!(client.fail(method, params)["code"], -32000, "{method}");
        }
        // The key is not in the file any more, so another one has to be given.
        assert_eq!(client.fail(login, json!({"methodId": "key"}))["code"], -32000);
        write_key(&place, "sk-other");
        client.call(login, json!({"methodId": "key"}));
        for (method, params) in gated(b, &place, &session) {
            client.call(method, params);
        }
    }),
    row(&["V1-AUTH-13"], NOT_SEED, |b| {
        let models = Models::start(Script::new(vec![Answer::text("in")]).key("sk-right"));
        let place = Place::new();
        let client = agent(b, &place, "");
        let method = methods(&client).into_iter().find(|method| method["type"] == "terminal").unwrap();
        let args: Vec<&str> = method["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap()).collect();
        // As a client does it: the agent's own program and arguments, then these.
        let url = models.url("openai-chat");
        let arguments = [&MODEL[..], &["--base-url", &url], &args].concat();
        let (shown, status, _) = pty::log_in(&place, &arguments, pty::Typed::Bytes(b"sk-wrong\r"));
        assert!(!status.success(), "{shown}");
        let (shown, status, _) = pty::log_in(&place, &arguments, pty::Typed::Bytes(b"sk-right\r"));
        assert!(status.success(), "{shown}");
        let mut client =
            b.agent(&place, &json!({}), &[&MODEL[..], &["--base-url", &url]].concat(), &[("OPENAI_API_KEY", "")]);
        client.open_in(&place.project());
        assert_eq!((client.prompt("Hi."), client.said()), ("end_turn".into(), "in".into()));
    }),
];

#[test]
fn login() {
    check(ROWS);
}
