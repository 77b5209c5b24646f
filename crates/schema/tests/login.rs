//! Auth methods and MCP servers: the exact form per dialect, the union on reading.

mod wire;

use tieline_schema::Dialect::{V1, V2, V2Seed};
use tieline_schema::{
    AuthMethod, ErrorCode, ErrorData, InitializeResponse, LoginRequest, McpServer, data_field, to_json,
};
use wire::{check, deviates, read, refuse, same};

#[test]
fn v1_auth_14_v2_auth_01_agent_methods() {
    let v1 = r#"{"id":"m","name":"M","description":"d","_meta":{"x":1}}"#;
    let seed = r#"{"type":"agent","id":"m","name":"M","description":"d","_meta":{"x":1}}"#;
    let v2 = r#"{"type":"agent","methodId":"m","name":"M","description":"d","_meta":{"x":1}}"#;
    for text in [v1, seed, v2, r#"{"id":"old","methodId":"m","name":"M","description":"d","_meta":{"x":1}}"#] {
        for (dialect, expect) in [(V1, v1), (V2Seed, seed), (V2, v2)] {
            check::<AuthMethod>(text, dialect, expect);
        }
    }
}

#[test]
fn terminal_methods() {
    let v1 = r#"{"type":"terminal","id":"m","name":"M","args":["--login"],"env":{"A":"1","B":"2"}}"#;
    let v2 = r#"{"type":"terminal","methodId":"m","name":"M","args":["--login"],
        "env":[{"name":"A","value":"1"},{"name":"B","value":"2"}]}"#;
    for text in [v1, v2] {
        check::<AuthMethod>(text, V1, v1);
        check::<AuthMethod>(text, V2, v2);
    }
    check::<AuthMethod>(
        r#"{"type":"terminal","id":"m","name":"M","args":null,"env":null}"#,
        V2,
        r#"{"type":"terminal","methodId":"m","name":"M"}"#,
    );
    refuse::<AuthMethod>(r#"{"type":"terminal","id":"m","name":"M","args":[1]}"#, "args.0");
    refuse::<AuthMethod>(r#"{"type":"terminal","id":"m","name":"M","env":{"A":1}}"#, "env.A");
    refuse::<AuthMethod>(r#"{"type":"terminal","name":"M"}"#, "");
}

#[test]
fn v2_auth_05_unknown_methods_are_kept() {
    let text = r#"{"type":"_sso", "methodId":"m", "name":"M", "issuer":{"a":[1 ,2]}}"#;
    let method: AuthMethod = read(text);
    assert_eq!((method.kind(), method.id(), method.name()), ("_sso", "m", "M"));
    assert_eq!(to_json(&method, V2), text);
    assert_eq!(to_json(&method, V2Seed), text.replacen('{', r#"{"id":"m","#, 1));
    // Version 1 would take it for a login by the agent.
    let answer: InitializeResponse = read(&format!(r#"{{"protocolVersion":1,"authMethods":[{text}]}}"#));
    assert!(to_json(&answer, V1).contains(r#""authMethods":[]"#));
    assert!(to_json(&answer, V2).contains("_sso"));
    refuse::<AuthMethod>(r#"{"type":"_sso","methodId":"m"}"#, "");
}

#[test]
fn malformed_methods_are_dropped() {
    let text = r#"{"protocolVersion":1,"authMethods":[{"id":"a","name":"A"},{"id":5},7,{"id":"b","name":"B","description":3}]}"#;
    let answer: InitializeResponse = read(text);
    assert_eq!(answer.auth_methods.iter().map(AuthMethod::id).collect::<Vec<_>>(), ["a", "b"]);
    deviates::<InitializeResponse>(text, &["authMethods.1.id", "authMethods.2", "authMethods.3.description"]);
}

#[test]
fn v1_auth_03_login_required() {
    let methods = [read::<AuthMethod>(r#"{"id":"m","name":"M"}"#), read(r#"{"type":"_x","id":"n","name":"N"}"#)];
    let data = ErrorData::AuthRequired(&methods).to_raw(V1).unwrap();
    assert_eq!(data.get(), r#"{"reason":"auth_required","authMethods":[{"id":"m","name":"M"}]}"#);
    assert_eq!(data_field::<String>(&data, "reason").as_deref(), Some("auth_required"));
    assert_eq!(data_field::<Vec<AuthMethod>>(&data, "authMethods").map(|list| list.len()), Some(1));
    assert_eq!(data_field::<String>(&data, "none"), None);
    assert_eq!(ErrorCode::AUTH_REQUIRED.message(), Some("Authentication required"));
    same::<LoginRequest>(r#"{"methodId":"m"}"#, &[V1, V2Seed, V2]);
    refuse::<LoginRequest>(r#"{"methodId":null}"#, "methodId");
}

#[test]
fn mcp_servers() {
    let v1 = r#"{"name":"n","command":"/c","args":["a"],"env":[{"name":"A","value":"1"}]}"#;
    let v2 = r#"{"type":"stdio","name":"n","command":"/c","args":["a"],"env":[{"name":"A","value":"1"}]}"#;
    for text in [v1, v2] {
        check::<McpServer>(text, V1, v1);
        check::<McpServer>(text, V2Seed, v2);
        check::<McpServer>(text, V2, v2);
    }
    // What one dialect leaves out, another requires.
    let bare = r#"{"type":"stdio","name":"n","command":"/c"}"#;
    check::<McpServer>(bare, V1, r#"{"name":"n","command":"/c","args":[],"env":[]}"#);
    check::<McpServer>(bare, V2Seed, r#"{"type":"stdio","name":"n","command":"/c","args":[],"env":[]}"#);
    for kind in ["http", "sse"] {
        let text =
            format!(r#"{{"type":"{kind}","name":"n","url":"https://x","headers":[{{"name":"A","value":"1"}}]}}"#);
        same::<McpServer>(&text, &[V1, V2Seed, V2]);
        assert_eq!(read::<McpServer>(&text).kind(), kind);
    }
    check::<McpServer>(
        r#"{"type":"http","name":"n","url":"u","headers":null}"#,
        V2,
        r#"{"type":"http","name":"n","url":"u","headers":[]}"#,
    );
    let other = r#"{"type":"_pipe","path":"\u002fx"}"#;
    assert_eq!(to_json(&read::<McpServer>(other), V2), other);
}

#[test]
fn v1_rpc_09_mcp_servers_are_strict() {
    refuse::<McpServer>(r#"{"name":"n"}"#, "");
    refuse::<McpServer>(r#"{"name":"n","command":"/c","args":[1]}"#, "args.0");
    refuse::<McpServer>(r#"{"name":"n","command":"/c","env":{"A":"1"}}"#, "env");
    refuse::<McpServer>(r#"{"type":"http","name":"n"}"#, "");
    refuse::<McpServer>(r#"{"type":"http","name":"n","url":"u","headers":[{"name":"A"}]}"#, "headers.0");
    refuse::<McpServer>(r#"{"type":7,"name":"n","command":"/c"}"#, "type");
}
