//! Every kind of JSON text is judged as JSON-RPC and the id rules say.

#![allow(clippy::unwrap_used)]

use tieline_rpc::message::{Call, Message, Outcome, parse};
use tieline_rpc::{Id, IdRule};

fn decode(method: &str, json: &mut tieline_json::Reader<'_>) -> Result<Option<String>, tieline_json::Error> {
    match method {
        "raw" => json.raw().map(|text| Some(text.to_owned())),
        "name" => {
            let mut name = None;
            let mut object = json.object()?;
            while let Some(key) = object.key(json)? {
                if key == "name" { name = Some(json.string()?.into_owned()) } else { json.skip()? }
            }
            name.map(Some).ok_or_else(|| tieline_json::Error::missing("name"))
        }
        _ => Ok(None),
    }
}

fn show(text: &str, rule: IdRule) -> String {
    let call = |call: Call<String>| match call {
        Call::Known(params) => format!("known {params}"),
        Call::Unknown => "unknown".into(),
        Call::Bad(error) => format!("bad: {error}"),
    };
    match parse(text, rule, &decode) {
        Message::Request { id, method, call: c } => format!("request {id} {method} {}", call(c)),
        Message::Notification { method, call: c } => format!("notification {method} {}", call(c)),
        Message::Response { id, outcome } => {
            let id = id.map_or("?".into(), |id: Id| id.to_string());
            match outcome {
                Ok(Outcome::Result(text)) => format!("result {id} {text}"),
                Ok(Outcome::Error(text)) => format!("error {id} {text}"),
                Err(_) => format!("malformed response {id}"),
            }
        }
        Message::Batch(entries) => format!("batch {}", entries.join(" | ")),
        Message::Invalid => "invalid".into(),
        Message::Unparsable => "unparsable".into(),
        Message::TooMuch(id, _) => format!("too deep {}", id.map_or("?".into(), |id| id.to_string())),
    }
}

fn check(text: &str, expect: &str) {
    assert_eq!(show(text, IdRule::Liberal), expect, "{text}");
}

#[test]
fn tr_env_01_rows() {
    check("{\"jsonrpc\":", "unparsable");
    check("{} x", "unparsable");
    check("[1, {\"a\":2}]", "batch 1 | {\"a\":2}");
    check("[1, {\"a\":2}", "unparsable");
    for text in ["5", "\"x\"", "null", "true", "{}", "{\"id\":1}", "{\"jsonrpc\":\"2.0\",\"id\":1}"] {
        check(text, "invalid");
    }
    check(r#"{"jsonrpc":"2.0","id":5,"result":{}}"#, "result 5 {}");
    check(r#"{"id":5,"result":null}"#, "result 5 null");
    check(r#"{"jsonrpc":"2.0","id":5,"error":{"code":1}}"#, r#"error 5 {"code":1}"#);
    check(r#"{"jsonrpc":"2.0","id":5,"error":null,"result":1}"#, "result 5 1");
    check(r#"{"jsonrpc":"2.0","error":{"code":1}}"#, r#"error ? {"code":1}"#);
    check(r#"{"jsonrpc":"2.0","id":5,"result":1,"error":{}}"#, "malformed response 5");
    check(r#"{"jsonrpc":"1.0","id":1,"method":"raw"}"#, "invalid");
    check(r#"{"id":1,"method":"raw"}"#, "invalid");
    check(r#"{"jsonrpc":2.0,"id":1,"method":"raw"}"#, "invalid");
    check(r#"{"jsonrpc":"2.0","id":1,"method":7}"#, "invalid");
    check(r#"{"jsonrpc":"2.0","id":1,"method":[}"#, "unparsable");
    check(r#"{"jsonrpc":"2.0","id":1,"method":"raw","params":"s"}"#, "invalid");
    check(r#"{"jsonrpc":"2.0","method":"raw","params":{"a":1}}"#, r#"notification raw known {"a":1}"#);
    check(r#"{"jsonrpc":"2.0","id":1,"method":"none"}"#, "request 1 none unknown");
    check(r#"{"jsonrpc":"2.0","id":1,"method":"name","params":{}}"#, "request 1 name bad: missing field `name`");
    check(r#"{"jsonrpc":"2.0","id":1,"method":"name","params":{"name":5}}"#, "request 1 name bad: expected a string");
    check(
        r#"{"jsonrpc":"2.0","id":1,"method":"raw","params":[1]}"#,
        "request 1 raw bad: parameters by position are not used here",
    );
    check(r#"{"jsonrpc":"2.0","id":1,"method":"raw","params":null}"#, "request 1 raw known {}");
    check(r#"{"jsonrpc":"2.0","id":1,"method":"raw"}"#, "request 1 raw known {}");
}

#[test]
fn key_order_does_not_matter() {
    check(r#"{"params":{"name":"n"},"id":"a","method":"name","jsonrpc":"2.0"}"#, "request \"a\" name known n");
    check(r#"{"result":{"x":1},"id":7,"jsonrpc":"2.0"}"#, "result 7 {\"x\":1}");
    check(
        " {\"jsonrpc\" : \"2.0\" ,\r\n \"method\":\"raw\", \"params\": { }, \"extra\":[] } ",
        "notification raw known { }",
    );
}

#[test]
fn tr_env_04_last_key_wins() {
    check(r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"raw"}"#, "request 2 raw known {}");
    check(
        r#"{"jsonrpc":"2.0","id":1,"method":"name","params":{"name":"a"},"method":"raw"}"#,
        r#"request 1 raw known {"name":"a"}"#,
    );
    check(r#"{"jsonrpc":"2.0","id":1,"method":"name","params":{},"params":{"name":"b"}}"#, "request 1 name known b");
    check(
        r#"{"jsonrpc":"1.0","jsonrpc":"2.0","id":1,"method":"raw","params":1,"params":{}}"#,
        "request 1 raw known {}",
    );
}

#[test]
fn bad_parameters_do_not_hide_bad_json() {
    check(r#"{"jsonrpc":"2.0","id":1,"method":"name","params":{"name":5},"#, "unparsable");
    check(r#"{"jsonrpc":"2.0","id":1,"method":"name","params":{"name":5,}}"#, "unparsable");
    check(r#"{"jsonrpc":"2.0","id":1,"method":"none","params":{"a":}}"#, "unparsable");
}

#[test]
fn ids_by_rule() {
    for (id, liberal, exact) in [
        ("1", true, true),
        ("\"\"", true, true),
        ("null", true, false),
        ("1.5", true, false),
        ("1.0", true, true),
        ("true", false, false),
        ("[]", false, false),
        ("{}", false, false),
        ("123456789012345678901234567890", true, true),
    ] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"none"}}"#);
        let expect = |yes| if yes { format!("request {id} none unknown") } else { "invalid".into() };
        assert_eq!(show(&text, IdRule::Liberal), expect(liberal));
        assert_eq!(show(&text, IdRule::Exact), expect(exact));
    }
}

#[test]
fn deep_nesting_keeps_the_id() {
    let deep = "[".repeat(300) + &"]".repeat(300);
    check(&format!(r#"{{"jsonrpc":"2.0","id":9,"method":"raw","params":{{"a":{deep}}}}}"#), "too deep 9");
    check(&format!(r#"{{"params":{{"a":{deep}}},"id":9}}"#), "too deep 9");
    check(&deep, "too deep ?");
    // A response fails the call it names, a notification wants no answer: neither is a request.
    check(&format!(r#"{{"jsonrpc":"2.0","id":9,"result":{deep}}}"#), "malformed response 9");
    check(&format!(r#"{{"jsonrpc":"2.0","error":{deep},"id":"]"}}"#), "malformed response \"]\"");
    check(
        &format!(r#"{{"jsonrpc":"2.0","params":{{"a":{deep}}},"method":"raw"}}"#),
        "notification raw bad: nested too deeply (at byte 157)",
    );
}
