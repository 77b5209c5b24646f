//! Envelopes and batches: every text has one class, and every request gets one answer.

use super::json::is_limit;
use serde_json::Value;
use tieline_rpc::machine::{Machine, Place, Ticket};
use tieline_rpc::message::{Call, Message, parse};
use tieline_rpc::{Id, IdRule};
use tieline_schema::AgentCall;

/// The first byte says in which order the requests of a batch are answered.
pub fn target(data: &[u8]) {
    let Some((order, text)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    for rule in [IdRule::Liberal, IdRule::Exact] {
        let message = judge(text, rule);
        if let Message::Batch(entries) = &message {
            batch(entries, rule, usize::from(*order));
        }
    }
}

fn read(text: &str, rule: IdRule) -> Message<'_, AgentCall> {
    parse(text, rule, &|method, params| AgentCall::decode(method, params))
}

/// Classifies, and compares with a slow reading of the same rules.
fn judge(text: &str, rule: IdRule) -> Message<'_, AgentCall> {
    let message = read(text, rule);
    let theirs = match serde_json::from_str::<Value>(text) {
        Err(error) if is_limit(&error) => return message,
        theirs => theirs.ok(),
    };
    let class = match &message {
        Message::Unparsable => "unparsable",
        Message::Batch(_) => "batch",
        Message::Invalid => "invalid",
        Message::TooMuch(..) => return message,
        Message::Response { .. } => "response",
        Message::Notification { .. } => "notification",
        Message::Request { .. } => "request",
    };
    let expected = expected(theirs.as_ref(), rule);
    // A method that is no JSON at all is still taken for one of a wrong kind: refused either way.
    let lenient = (class, expected) == ("invalid", "unparsable") && text.contains("meth");
    if !expected.is_empty() && !lenient {
        assert_eq!(class, expected, "{text}");
    }
    if let (Message::Request { id, call, .. }, Some(value)) = (&message, &theirs) {
        let mut out = Vec::new();
        id.write(&mut out);
        assert_eq!(serde_json::from_slice::<Value>(&out).ok().as_ref(), value.get("id"), "the id goes back as it came");
        if value["params"].is_array() {
            assert!(matches!(call, Call::Bad(_)), "parameters by position");
        }
    }
    message
}

fn expected(value: Option<&Value>, rule: IdRule) -> &'static str {
    let object = match value {
        None => return "unparsable",
        Some(Value::Array(_)) => return "batch",
        Some(Value::Object(object)) => object,
        Some(_) => return "invalid",
    };
    let Some(method) = object.get("method") else {
        return if object.contains_key("result") || object.contains_key("error") { "response" } else { "invalid" };
    };
    let params_ok = matches!(object.get("params"), None | Some(Value::Object(_) | Value::Array(_) | Value::Null));
    if object.get("jsonrpc") != Some(&Value::from("2.0")) || !method.is_string() || !params_ok {
        return "invalid";
    }
    match object.get("id") {
        None => "notification",
        Some(Value::String(_)) => "request",
        Some(Value::Number(number)) if rule == IdRule::Liberal || number.is_i64() || number.is_u64() => "request",
        // A whole number may also be written as 1.0 or 1e3; a float that rounds cannot tell.
        Some(Value::Number(_)) => "",
        Some(Value::Null) if rule == IdRule::Liberal => "request",
        Some(_) => "invalid",
    }
}

/// Runs a batch through the bookkeeping: one answer for each entry that wants one, in its place, in one array or none.
fn batch(entries: &[&str], rule: IdRule, order: usize) {
    let mut machine: Machine<()> = Machine::new(64);
    let number = machine.open_batch();
    let mut out = Vec::new();
    let mut due: Vec<Ticket> = Vec::new();
    let mut ids = Vec::new();
    for entry in entries {
        let id = match judge(entry, rule) {
            Message::Notification { .. } | Message::Response { .. } => continue,
            Message::Request { id, .. } | Message::TooMuch(Some(id), _) => id,
            Message::TooMuch(None, _) | Message::Batch(_) | Message::Invalid => Id::Text("null".into()),
            Message::Unparsable => panic!("an entry of an array that was read is JSON"),
        };
        let place = machine.slot(number);
        assert_ne!(place, Place::Alone);
        ids.push(id.to_string());
        let (Ok(ticket) | Err(ticket)) = machine.admit(id, place);
        // Some are answered at once, the others after the array was read.
        if (order + ids.len()).is_multiple_of(3) {
            assert!(!answer(&mut machine, ticket, &mut out), "nothing goes out before the array was read");
        } else {
            due.push(ticket);
        }
    }
    let mut sent = machine.seal(number, &mut out);
    while !due.is_empty() {
        assert!(!sent, "the array goes out when the last answer is there, not before");
        let ticket = due.remove(order % due.len());
        sent = answer(&mut machine, ticket, &mut out);
    }
    assert_eq!(machine.open_requests(), 0);
    assert_eq!(sent, !ids.is_empty(), "an array goes out if and only if an answer is due");
    let expect = if ids.is_empty() { String::new() } else { format!("[{}]", ids.join(",")) };
    assert_eq!(String::from_utf8_lossy(&out), expect, "one answer each, in the order of the requests");
}

fn answer(machine: &mut Machine<()>, ticket: Ticket, out: &mut Vec<u8>) -> bool {
    let id = ticket.id.clone();
    machine.answer(ticket, out, |out| out.extend_from_slice(id.to_string().as_bytes()))
}
