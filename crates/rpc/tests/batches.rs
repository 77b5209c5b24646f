//! Every batch rule of the user's transport page, as bytes: 23 cases through a real connection.

#![allow(clippy::unwrap_used)]

mod common;

use common::{start, start_with};
use tieline_rpc::{IdRule, Limits};

const INVALID: &str = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid Request"}}"#;
const PARSE: &str = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}"#;

fn unknown(id: &str, method: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"Method not found","data":{{"method":"{method}"}}}}}}"#
    )
}

async fn check_with(rule: IdRule, limits: Limits, case: &str, input: &str, expect: &[String]) {
    let mut wire = start_with(rule, limits, |t| t);
    assert_eq!(wire.answers(input).await, expect, "{case}: {input}");
}

#[tokio::test]
async fn tr_bat_01_to_20_the_byte_cases() {
    let one = |text: &str| vec![text.to_owned()];
    let list = |entries: &[&str]| vec![format!("[{}]", entries.join(","))];
    let (x, y) = (unknown("1", "_x"), unknown("1", "_y"));
    let cases: Vec<(&str, String, Vec<String>)> = vec![
        ("B1", r#"{"jsonrpc":"2.0","method":"#.into(), one(PARSE)),
        ("B2", r#"[{"jsonrpc":"2.0","id":1,"method":"echo"},{"jsonrpc""#.into(), one(PARSE)),
        ("B3", "[]".into(), one(INVALID)),
        ("B4", "[1]".into(), list(&[INVALID])),
        ("B5", "[1,2,3]".into(), list(&[INVALID; 3])),
        ("B6", r#"[{"jsonrpc":"2.0","method":"note","params":{}},{"jsonrpc":"2.0","method":"_n"}]"#.into(), vec![]),
        ("B7", r#"[{"jsonrpc":"2.0","id":7,"method":"_none"}]"#.into(), list(&[&unknown("7", "_none")])),
        (
            "B8",
            r#"[{"jsonrpc":"2.0","id":"a","method":"_x"},{"jsonrpc":"2.0","method":"_n"},{"foo":1},{"jsonrpc":"2.0","id":2,"method":"_y"}]"#
                .into(),
            list(&[&unknown("\"a\"", "_x"), INVALID, &unknown("2", "_y")]),
        ),
        ("B9", r#"[[],[{"jsonrpc":"2.0","id":1,"method":"_x"}]]"#.into(), list(&[INVALID; 2])),
        ("B10", r#"[{"jsonrpc":"2.0","id":5,"result":{}}]"#.into(), vec![]),
        ("B11", r#"[{"jsonrpc":"2.0","id":5,"result":{}},{"jsonrpc":"2.0","id":6,"method":"_x"}]"#.into(), list(&[&unknown("6", "_x")])),
        ("B12", r#"[{"jsonrpc":"2.0","id":5,"result":1,"error":{"code":1,"message":"x"}}]"#.into(), vec![]),
        ("B13", r#"[{"jsonrpc":"2.0","id":1,"method":"_x"},{"jsonrpc":"2.0","id":1,"method":"_y"}]"#.into(), list(&[&x, &y])),
        ("B14", r#"[{"jsonrpc":"2.0","id":null,"method":"_x"}]"#.into(), list(&[&unknown("null", "_x")])),
        ("B15", r#"[{"jsonrpc":"2.0","id":1.5,"method":"_x"}]"#.into(), list(&[&unknown("1.5", "_x")])),
        ("B16", r#"[{"jsonrpc":"2.0","id":"1","method":"_x"}]"#.into(), list(&[&unknown("\"1\"", "_x")])),
        ("B17", r#"[{"jsonrpc":"2.0","id":{},"method":"_x"}]"#.into(), list(&[INVALID])),
        ("B18", r#"[{"jsonrpc":"1.0","id":1,"method":"_x"}]"#.into(), list(&[INVALID])),
        ("B19", r#"[{"jsonrpc":"2.0","method":"_n"},5]"#.into(), list(&[INVALID])),
        ("B20", r#"[{"jsonrpc":"2.0","id":1,"method":"_x","params":"s"}]"#.into(), list(&[INVALID])),
        ("B23", "5".into(), one(INVALID)),
        ("B23", "\"x\"".into(), one(INVALID)),
        ("B23", "null".into(), one(INVALID)),
        // The same ids and mistakes outside a batch.
        ("single", r#"{"jsonrpc":"2.0","id":null,"method":"_x"}"#.into(), one(&unknown("null", "_x"))),
        ("single", r#"{"jsonrpc":"1.0","id":1,"method":"_x"}"#.into(), one(INVALID)),
        ("single", r#"{"id":1}"#.into(), one(INVALID)),
    ];
    for (case, input, expect) in cases {
        check_with(IdRule::Liberal, Limits::default(), case, &input, &expect).await;
    }
    for (case, input) in [
        ("B14 v2", r#"[{"jsonrpc":"2.0","id":null,"method":"_x"}]"#),
        ("B15 v2", r#"[{"jsonrpc":"2.0","id":1.5,"method":"_x"}]"#),
    ] {
        check_with(IdRule::Exact, Limits::default(), case, input, &list(&[INVALID])).await;
    }
}

#[tokio::test]
async fn b21_tr_bat_13_lifecycle_entries_run_in_order() {
    let mut wire = start();
    let seen = wire
        .answers(r#"[{"jsonrpc":"2.0","id":0,"method":"initialize"},{"jsonrpc":"2.0","id":1,"method":"echo"},{"jsonrpc":"2.0","id":2,"method":"initialize"},{"jsonrpc":"2.0","id":3,"method":"echo","params":{"a":1}}]"#)
        .await;
    // The probe may overtake the array: what follows the array does not wait for it.
    let mut rest = seen;
    while !rest.iter().any(|line| line.starts_with('[')) {
        rest.push(wire.get().await);
    }
    assert_eq!(
        rest.last().unwrap(),
        r#"[{"jsonrpc":"2.0","id":0,"result":"ready"},{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","id":2,"result":"ready"},{"jsonrpc":"2.0","id":3,"result":{"a":1}}]"#
    );
    let log = wire.service.log.lock().unwrap().clone();
    let order: Vec<_> = log.iter().filter(|name| *name != "echo" || log.len() > 4).map(String::as_str).collect();
    assert_eq!(order.iter().filter(|name| **name == "initialize").count(), 2);
    let first_init = log.iter().position(|n| n == "initialize").unwrap();
    assert_eq!(first_init, 0, "the first lifecycle entry is registered on the reader: {log:?}");
}

#[tokio::test]
async fn b22_tr_bat_18_updates_are_not_held_for_the_array() {
    let mut wire = start();
    wire.line(r#"[{"jsonrpc":"2.0","id":1,"method":"initialize"},{"jsonrpc":"2.0","id":2,"method":"slow"}]"#).await;
    assert_eq!(wire.get().await, r#"{"jsonrpc":"2.0","method":"initialized","params":{}}"#);
    // TR-BAT-20: a request of a running batch can be withdrawn, its answer still joins the array.
    // Its entry starts only after the one before it is answered, so try until it is open.
    loop {
        wire.line(r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":2}}"#).await;
        if let Some(array) = wire.probe().await.pop() {
            assert_eq!(
                array,
                r#"[{"jsonrpc":"2.0","id":1,"result":"ready"},{"jsonrpc":"2.0","id":2,"error":{"code":-32800,"message":"Request cancelled"}}]"#
            );
            return;
        }
    }
}

#[tokio::test]
async fn tr_bat_15_responses_in_a_batch_reach_their_calls() {
    let mut wire = start();
    wire.line(r#"{"jsonrpc":"2.0","id":9,"method":"ask"}"#).await;
    assert_eq!(wire.get().await, r#"{"jsonrpc":"2.0","id":1,"method":"question","params":{}}"#);
    wire.line(r#"[{"jsonrpc":"2.0","id":1,"result":"yes"},{"jsonrpc":"2.0","method":"note"}]"#).await;
    assert_eq!(wire.get().await, r#"{"jsonrpc":"2.0","id":9,"result":"yes"}"#);
}

#[tokio::test]
async fn tr_bat_19_long_arrays_are_refused_whole() {
    let entry = r#"{"jsonrpc":"2.0","id":1,"method":"echo"}"#;
    let array = |n: usize| format!("[{}]", vec![entry; n].join(","));
    let limits = || Limits { batch_entries: 3, ..Limits::default() };
    check_with(IdRule::Liberal, limits(), "over", &array(4), &[INVALID.to_owned()]).await;
    let whole = format!("[{}]", [r#"{"jsonrpc":"2.0","id":1,"result":{}}"#; 3].join(","));
    check_with(IdRule::Liberal, limits(), "at", &array(3), &[whole]).await;
}

#[tokio::test]
async fn tr_bat_22_the_strict_switch_refuses_every_array() {
    let limits = || Limits { refuse_batches: true, ..Limits::default() };
    for input in
        ["[]", "[1]", r#"[{"jsonrpc":"2.0","id":1,"method":"echo"}]"#, r#"[{"jsonrpc":"2.0","method":"note"}]"#]
    {
        check_with(IdRule::Liberal, limits(), "strict", input, &[INVALID.to_owned()]).await;
    }
}

#[tokio::test]
async fn tr_bat_21_a_batch_is_dropped_with_its_connection() {
    let mut wire = start();
    wire.line(r#"[{"jsonrpc":"2.0","id":1,"method":"echo"},{"jsonrpc":"2.0","id":2,"method":"slow"}]"#).await;
    wire.probe().await;
    wire.service.peer.close().await;
    assert_eq!(wire.get().await, "");
}

#[tokio::test]
async fn tr_end_04_a_batch_right_before_the_end_of_input_is_answered() {
    let mut wire = start();
    wire.line(r#"[{"jsonrpc":"2.0","id":0,"method":"initialize"},{"jsonrpc":"2.0","id":1,"method":"echo"}]"#).await;
    let rest = wire.finish().await;
    assert!(
        rest.contains(r#"[{"jsonrpc":"2.0","id":0,"result":"ready"},{"jsonrpc":"2.0","id":1,"result":{}}]"#),
        "{rest}"
    );
}

#[tokio::test]
async fn calls_of_a_batch_that_is_not_sent_do_not_wait_for_ever() {
    let wire = start();
    let mut batch = wire.service.peer.batch();
    let call = batch.call("a", |out| out.extend_from_slice(b"{}"), common::keep);
    drop(batch);
    assert!(call.await.is_err());
}
