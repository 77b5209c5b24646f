//! Judges messages with the official schema types: what they cannot read, or do not give back, is reported.

use agent_client_protocol_schema::{v1, v2};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The way a message travels. A response travels against its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the agent.
    ToAgent,
    /// From the agent to the client.
    ToClient,
}

/// What the JSON is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The `params` of a request.
    Request,
    /// The `result` of a request.
    Response,
    /// The `params` of a notification.
    Notification,
}

/// Checks a v1 message. `method` is the method of the request also for a response.
pub fn check_v1(direction: Direction, method: &str, kind: Kind, json: &Value) -> Result<(), String> {
    rewrite_v1(direction, method, kind, json).map(drop)
}

/// Checks a v2 message. `method` is the method of the request also for a response.
pub fn check_v2(direction: Direction, method: &str, kind: Kind, json: &Value) -> Result<(), String> {
    rewrite_v2(direction, method, kind, json).map(drop)
}

/// Checks a v1 message and gives it back as the official types write it.
pub fn rewrite_v1(direction: Direction, method: &str, kind: Kind, json: &Value) -> Result<Value, String> {
    find(V1, direction, method, kind).and_then(|judge| judge(json)).map_err(|e| format!("v1 {kind:?} of {method}: {e}"))
}

/// Checks a v2 message and gives it back as the official types write it.
pub fn rewrite_v2(direction: Direction, method: &str, kind: Kind, json: &Value) -> Result<Value, String> {
    find(V2, direction, method, kind).and_then(|judge| judge(json)).map_err(|e| format!("v2 {kind:?} of {method}: {e}"))
}

/// Checks every message of a recorded connection; the two directions may come in any order.
///
/// Error answers and extension methods (`_…`) have no type and are left out. Ids must not be used twice.
pub fn check_wire(version: u16, messages: &[(Direction, Value)]) -> Vec<String> {
    let check = if version == 1 { check_v1 } else { check_v2 };
    let asked = |answer: Direction, id: &Value| {
        let fits = |(way, m): &&(Direction, Value)| *way != answer && m["id"] == *id && m["method"].is_string();
        messages.iter().find(fits).and_then(|(_, m)| m["method"].as_str())
    };
    let mut complaints = Vec::new();
    for (way, message) in messages {
        let (method, kind, part) = match (message["method"].as_str(), message.get("id"), message.get("result")) {
            (Some(method), None, _) => (method, Kind::Notification, &message["params"]),
            (Some(method), Some(_), _) => (method, Kind::Request, &message["params"]),
            (None, Some(id), Some(result)) => {
                let Some(method) = asked(*way, id) else {
                    complaints.push(format!("an answer {way:?} to nothing: {message}"));
                    continue;
                };
                (method, Kind::Response, result)
            }
            (None, _, None) if message.get("error").is_some() => continue,
            _ => {
                complaints.push(format!("not a message {way:?}: {message}"));
                continue;
            }
        };
        if !method.starts_with('_') {
            complaints.extend(check(*way, method, kind, part).err());
        }
    }
    complaints
}

/// Gives the message back as the official types write it.
type Judge = fn(&Value) -> Result<Value, String>;

enum Entry {
    /// Asked in that direction: method, params, result.
    Call(Direction, &'static str, Judge, Judge),
    /// Told in that direction.
    Tell(Direction, &'static str, Judge),
    /// Told both ways.
    Both(&'static str, Judge),
}

fn find(table: &[Entry], direction: Direction, method: &str, kind: Kind) -> Result<Judge, String> {
    let mut elsewhere = false;
    for entry in table {
        let (name, fits) = match *entry {
            Entry::Call(to, name, params, result) => (
                name,
                match kind {
                    Kind::Request if to == direction => Some(params),
                    Kind::Response if to != direction => Some(result),
                    _ => None,
                },
            ),
            Entry::Tell(to, name, params) => (name, (kind == Kind::Notification && to == direction).then_some(params)),
            Entry::Both(name, params) => (name, (kind == Kind::Notification).then_some(params)),
        };
        if name == method {
            match fits {
                Some(judge) => return Ok(judge),
                None => elsewhere = true,
            }
        }
    }
    Err(if elsewhere { format!("the method is not a {kind:?} {direction:?}") } else { "unknown method".into() })
}

fn judge<T: DeserializeOwned + Serialize>(json: &Value) -> Result<Value, String> {
    let parsed: T = serde_json::from_value(json.clone()).map_err(|e| format!("cannot be read: {e}"))?;
    let again = serde_json::to_value(&parsed).map_err(|e| format!("cannot be written: {e}"))?;
    compare("", json, &again)?;
    Ok(again)
}

/// Results that are allowed to be nothing at all.
fn judge_empty<T: DeserializeOwned + Serialize>(json: &Value) -> Result<Value, String> {
    if json.is_null() { Ok(Value::Null) } else { judge::<T>(json) }
}

/// Absent, null, empty and "no" say the same; so do the two defaults that v1 does not write.
fn says_nothing(key: &str, value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.iter().all(|(key, value)| says_nothing(key, value)),
        Value::String(text) => matches!((key, text.as_str()), ("kind", "other") | ("status", "pending")),
        Value::Bool(true) | Value::Number(_) => false,
    }
}

fn compare(at: &str, before: &Value, after: &Value) -> Result<(), String> {
    match (before, after) {
        (Value::Object(old), Value::Object(new)) => {
            for (key, value) in old {
                match new.get(key) {
                    Some(kept) => compare(&format!("{at}/{key}"), value, kept)?,
                    None if says_nothing(key, value) => {}
                    None => return Err(format!("{at}/{key} is lost: {value}")),
                }
            }
            match new.iter().find(|(key, value)| !old.contains_key(*key) && !says_nothing(key, value)) {
                Some((key, value)) => Err(format!("{at}/{key} appeared: {value}")),
                None => Ok(()),
            }
        }
        (Value::Array(old), Value::Array(new)) => {
            if old.len() != new.len() {
                return Err(format!("{at} has {} items after {}", new.len(), old.len()));
            }
            old.iter().zip(new).enumerate().try_for_each(|(i, (old, new))| compare(&format!("{at}/{i}"), old, new))
        }
        (Value::Number(old), Value::Number(new)) if old.as_f64() == new.as_f64() => Ok(()),
        _ if before == after => Ok(()),
        _ => {
            let key = at.rsplit('/').next().unwrap_or_default();
            // A null where the type keeps an empty value, or the other way round.
            if (before.is_null() || after.is_null()) && says_nothing(key, before) && says_nothing(key, after) {
                return Ok(());
            }
            Err(format!("{at} changed from {before} to {after}"))
        }
    }
}

use Direction::{ToAgent, ToClient};
use Entry::{Both, Call, Tell};

const V1: &[Entry] = &[
    Call(ToAgent, "initialize", judge::<v1::InitializeRequest>, judge::<v1::InitializeResponse>),
    Call(ToAgent, "authenticate", judge::<v1::AuthenticateRequest>, judge_empty::<v1::AuthenticateResponse>),
    Call(ToAgent, "logout", judge_empty::<v1::LogoutRequest>, judge_empty::<v1::LogoutResponse>),
    Call(ToAgent, "session/new", judge::<v1::NewSessionRequest>, judge::<v1::NewSessionResponse>),
    Call(ToAgent, "session/load", judge::<v1::LoadSessionRequest>, judge_empty::<v1::LoadSessionResponse>),
    Call(ToAgent, "session/resume", judge::<v1::ResumeSessionRequest>, judge_empty::<v1::ResumeSessionResponse>),
    Call(ToAgent, "session/list", judge_empty::<v1::ListSessionsRequest>, judge::<v1::ListSessionsResponse>),
    Call(ToAgent, "session/delete", judge::<v1::DeleteSessionRequest>, judge_empty::<v1::DeleteSessionResponse>),
    Call(ToAgent, "session/close", judge::<v1::CloseSessionRequest>, judge_empty::<v1::CloseSessionResponse>),
    Call(ToAgent, "session/set_mode", judge::<v1::SetSessionModeRequest>, judge_empty::<v1::SetSessionModeResponse>),
    Call(
        ToAgent,
        "session/set_config_option",
        judge::<v1::SetSessionConfigOptionRequest>,
        judge::<v1::SetSessionConfigOptionResponse>,
    ),
    Call(ToAgent, "session/prompt", judge::<v1::PromptRequest>, judge::<v1::PromptResponse>),
    Tell(ToAgent, "session/cancel", judge::<v1::CancelNotification>),
    Tell(ToClient, "session/update", judge::<v1::SessionNotification>),
    Call(
        ToClient,
        "session/request_permission",
        judge::<v1::RequestPermissionRequest>,
        judge::<v1::RequestPermissionResponse>,
    ),
    Call(ToClient, "fs/read_text_file", judge::<v1::ReadTextFileRequest>, judge::<v1::ReadTextFileResponse>),
    Call(ToClient, "fs/write_text_file", judge::<v1::WriteTextFileRequest>, judge_empty::<v1::WriteTextFileResponse>),
    Call(ToClient, "terminal/create", judge::<v1::CreateTerminalRequest>, judge::<v1::CreateTerminalResponse>),
    Call(ToClient, "terminal/output", judge::<v1::TerminalOutputRequest>, judge::<v1::TerminalOutputResponse>),
    Call(
        ToClient,
        "terminal/wait_for_exit",
        judge::<v1::WaitForTerminalExitRequest>,
        judge::<v1::WaitForTerminalExitResponse>,
    ),
    Call(ToClient, "terminal/kill", judge::<v1::KillTerminalRequest>, judge_empty::<v1::KillTerminalResponse>),
    Call(ToClient, "terminal/release", judge::<v1::ReleaseTerminalRequest>, judge_empty::<v1::ReleaseTerminalResponse>),
    Call(ToClient, "elicitation/create", judge::<v1::CreateElicitationRequest>, judge::<v1::CreateElicitationResponse>),
    Tell(ToClient, "elicitation/complete", judge::<v1::CompleteElicitationNotification>),
    Both("$/cancel_request", judge::<v1::CancelRequestNotification>),
];

const V2: &[Entry] = &[
    Call(ToAgent, "initialize", judge::<v2::InitializeRequest>, judge::<v2::InitializeResponse>),
    Call(ToAgent, "auth/login", judge::<v2::LoginAuthRequest>, judge_empty::<v2::LoginAuthResponse>),
    Call(ToAgent, "auth/logout", judge_empty::<v2::LogoutAuthRequest>, judge_empty::<v2::LogoutAuthResponse>),
    Call(ToAgent, "session/new", judge::<v2::NewSessionRequest>, judge::<v2::NewSessionResponse>),
    Call(ToAgent, "session/resume", judge::<v2::ResumeSessionRequest>, judge_empty::<v2::ResumeSessionResponse>),
    Call(ToAgent, "session/list", judge_empty::<v2::ListSessionsRequest>, judge::<v2::ListSessionsResponse>),
    Call(ToAgent, "session/delete", judge::<v2::DeleteSessionRequest>, judge_empty::<v2::DeleteSessionResponse>),
    Call(ToAgent, "session/close", judge::<v2::CloseSessionRequest>, judge_empty::<v2::CloseSessionResponse>),
    Call(
        ToAgent,
        "session/set_config_option",
        judge::<v2::SetSessionConfigOptionRequest>,
        judge::<v2::SetSessionConfigOptionResponse>,
    ),
    Call(ToAgent, "session/prompt", judge::<v2::PromptRequest>, judge::<v2::PromptResponse>),
    Call(ToAgent, "tool_call/cancel", judge::<v2::CancelToolCallRequest>, judge_empty::<v2::CancelToolCallResponse>),
    Call(ToAgent, "terminal/cancel", judge::<v2::CancelTerminalRequest>, judge_empty::<v2::CancelTerminalResponse>),
    Tell(ToAgent, "session/cancel", judge::<v2::CancelSessionNotification>),
    Tell(ToClient, "session/update", judge::<v2::UpdateSessionNotification>),
    Call(
        ToClient,
        "session/request_permission",
        judge::<v2::RequestPermissionRequest>,
        judge::<v2::RequestPermissionResponse>,
    ),
    Call(ToClient, "elicitation/create", judge::<v2::CreateElicitationRequest>, judge::<v2::CreateElicitationResponse>),
    Tell(ToClient, "elicitation/complete", judge::<v2::CompleteElicitationNotification>),
    Both("$/cancel_request", judge::<v2::CancelRequestNotification>),
];

#[cfg(test)]
mod tests {
    use super::Kind::{Notification, Request, Response};
    use super::*;
    use serde_json::json;

    #[test]
    fn v1_messages_pass() {
        let update = |update: Value| json!({ "sessionId": "s", "update": update });
        for (direction, method, kind, message) in [
            (
                ToAgent,
                "initialize",
                Request,
                json!({ "protocolVersion": 1, "clientCapabilities": {
                    "fs": { "readTextFile": true, "writeTextFile": true }, "terminal": true },
                    "clientInfo": { "name": "c", "version": "1" } }),
            ),
            (
                ToClient,
                "initialize",
                Response,
                json!({ "protocolVersion": 1, "agentCapabilities": { "loadSession": true,
                    "promptCapabilities": { "image": true }, "sessionCapabilities": { "list": {}, "close": {} } },
                    "authMethods": [{ "id": "login", "name": "Log in", "description": null }] }),
            ),
            (
                ToAgent,
                "session/new",
                Request,
                json!({ "cwd": "/w", "mcpServers": [
                    { "name": "m", "command": "/bin/m", "args": ["a"], "env": [{ "name": "K", "value": "v" }] },
                    { "type": "http", "name": "h", "url": "http://h", "headers": [] }] }),
            ),
            (
                ToAgent,
                "session/prompt",
                Request,
                json!({ "sessionId": "s", "prompt": [
                    { "type": "text", "text": "hi" },
                    { "type": "resource_link", "uri": "file:///a", "name": "a", "size": 3 },
                    { "type": "resource", "resource": { "uri": "file:///a", "text": "x" } }] }),
            ),
            (ToClient, "session/prompt", Response, json!({ "stopReason": "max_turn_requests" })),
            (
                ToClient,
                "session/update",
                Notification,
                update(json!({ "sessionUpdate": "tool_call", "toolCallId": "c", "title": "t", "kind": "other",
                    "status": "pending", "rawInput": { "a": [1, 2.5, null] },
                    "locations": [{ "path": "/a", "line": 1 }] })),
            ),
            (
                ToClient,
                "session/update",
                Notification,
                update(json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed",
                    "content": [{ "type": "diff", "path": "/a", "oldText": "a", "newText": "b" },
                        { "type": "terminal", "terminalId": "t" }] })),
            ),
            (
                ToClient,
                "session/update",
                Notification,
                update(json!({ "sessionUpdate": "usage_update", "used": 5, "size": 10,
                    "cost": { "amount": 1, "currency": "EUR" } })),
            ),
            (
                ToClient,
                "session/request_permission",
                Request,
                json!({ "sessionId": "s", "toolCall": { "toolCallId": "c" },
                    "options": [{ "optionId": "a", "name": "A", "kind": "allow_once" }] }),
            ),
            (
                ToAgent,
                "session/request_permission",
                Response,
                json!({ "outcome": { "outcome": "selected", "optionId": "a" } }),
            ),
            (ToAgent, "fs/write_text_file", Response, Value::Null),
            (
                ToAgent,
                "terminal/output",
                Response,
                json!({ "output": "x", "truncated": false, "exitStatus": { "exitCode": 0, "signal": null } }),
            ),
            (ToAgent, "session/cancel", Notification, json!({ "sessionId": "s" })),
            (ToAgent, "$/cancel_request", Notification, json!({ "requestId": "7" })),
        ] {
            check_v1(direction, method, kind, &message).unwrap();
        }
    }

    #[test]
    fn v2_messages_pass() {
        let update = |update: Value| json!({ "sessionId": "s", "update": update });
        for (direction, method, kind, message) in [
            (
                ToAgent,
                "initialize",
                Request,
                json!({ "protocolVersion": 2, "info": { "name": "c", "version": "1" },
                    "capabilities": { "elicitation": { "form": {} } } }),
            ),
            (
                ToAgent,
                "session/resume",
                Request,
                json!({ "sessionId": "s", "cwd": "/w", "replayFrom": { "type": "start" } }),
            ),
            (ToClient, "session/prompt", Response, json!({ "messageId": "m" })),
            (
                ToClient,
                "session/update",
                Notification,
                update(json!({ "sessionUpdate": "state_update", "state": "idle", "stopReason": "error",
                    "error": { "code": -32603, "message": "no" } })),
            ),
            (
                ToClient,
                "session/update",
                Notification,
                update(json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c", "title": "t",
                    "status": "_mine", "content": [{ "type": "_custom", "deep": { "a": 1 } }] })),
            ),
            (
                ToClient,
                "session/update",
                Notification,
                update(json!({ "sessionUpdate": "plan_update", "plan": { "type": "items", "planId": "p",
                    "entries": [{ "content": "x", "priority": "high", "status": "cancelled" }] } })),
            ),
            (
                ToClient,
                "session/update",
                Notification,
                update(json!({ "sessionUpdate": "_unheard_of", "anything": [1, { "b": null }] })),
            ),
            (
                ToClient,
                "session/request_permission",
                Request,
                json!({ "sessionId": "s", "title": "May I?",
                    "subject": { "type": "tool_call", "toolCall": { "toolCallId": "c" } },
                    "options": [{ "optionId": "a", "name": "A", "kind": "allow_once" }] }),
            ),
            (ToAgent, "session/cancel", Notification, json!({ "sessionId": "s", "_meta": { "k": 1 } })),
            (ToAgent, "tool_call/cancel", Request, json!({ "sessionId": "s", "toolCallId": "c" })),
        ] {
            check_v2(direction, method, kind, &message).unwrap();
        }
    }

    #[test]
    fn a_wire_is_judged_by_the_ids() {
        let good = [
            (ToClient, json!({ "id": 1, "result": { "stopReason": "end_turn" } })),
            (
                ToClient,
                json!({ "id": 1, "method": "terminal/kill", "params": { "sessionId": "s", "terminalId": "t" } }),
            ),
            (ToAgent, json!({ "id": 1, "method": "session/prompt", "params": { "sessionId": "s", "prompt": [] } })),
            (ToAgent, json!({ "id": 1, "error": { "code": -32603, "message": "no" } })),
            (ToAgent, json!({ "method": "_mine" })),
        ];
        assert_eq!(check_wire(1, &good), [""; 0]);
        let bad = [(ToClient, json!({ "id": 1, "result": {} })), (ToAgent, json!({ "id": 2 }))];
        assert_eq!(check_wire(1, &bad).len(), 2);
        assert_eq!(check_wire(2, &good[..3]).len(), 2);
    }

    #[test]
    fn wrong_messages_are_reported() {
        let v1 = |direction, method, kind, message| check_v1(direction, method, kind, &message).unwrap_err();
        let v2 = |direction, method, kind, message| check_v2(direction, method, kind, &message).unwrap_err();
        assert!(v1(ToAgent, "session/nonsense", Request, json!({})).contains("unknown method"));
        assert!(v1(ToClient, "session/prompt", Request, json!({})).contains("not a Request"));
        assert!(v1(ToAgent, "session/prompt", Request, json!({ "sessionId": "s" })).contains("cannot be read"));
        assert!(v1(ToClient, "session/prompt", Response, json!({ "messageId": "m" })).contains("cannot be read"));
        let lost = v1(ToAgent, "session/cancel", Notification, json!({ "sessionId": "s", "extra": 1 }));
        assert!(lost.contains("/extra is lost"), "{lost}");
        // The types read a malformed optional field as absent: that is a loss too.
        let call = json!({ "sessionUpdate": "tool_call", "toolCallId": "c", "title": "t", "kind": 7 });
        let lost = v1(ToClient, "session/update", Notification, json!({ "sessionId": "s", "update": call }));
        assert!(lost.contains("/update/kind is lost"), "{lost}");
        // A malformed item of a lenient list is dropped by the types.
        let fewer = v1(ToClient, "session/list", Response, json!({ "sessions": [{ "sessionId": "s" }] }));
        assert!(fewer.contains("/sessions"), "{fewer}");
        assert!(v2(ToAgent, "initialize", Request, json!({ "protocolVersion": 2 })).contains("cannot be read"));
        assert!(v2(ToAgent, "session/load", Request, json!({})).contains("unknown method"));
        assert!(v2(ToClient, "session/prompt", Response, json!({})).contains("cannot be read"));
        let update = json!({ "sessionId": "s", "update": { "sessionUpdate": "plan_update",
            "plan": { "type": "items", "id": "p", "entries": [] } } });
        assert!(v2(ToClient, "session/update", Notification, update).contains("cannot be read"));
    }
}
