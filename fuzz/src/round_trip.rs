//! Reading and writing: what a dialect can say survives a way over its wire.

use serde_json::Value;
use std::fmt::Debug;
use tieline_rpc::IdRule;
use tieline_rpc::message::{Call, Message, Outcome, parse};
use tieline_schema::{
    AgentCall, ClientCall, CreateTerminalResponse, Decode, Dialect, Done, ElicitResponse, Encode, InitializeResponse,
    ListResponse, PermissionOutcome, PromptResponse, ReadTextFileResponse, SessionSetup, SetOptionResponse,
    TerminalOutputResponse, WaitForTerminalExitResponse, from_json, to_json,
};

/// `data` is one JSON-RPC message: a call of either side, or an answer.
pub fn check(data: &[u8], dialect: Dialect) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match parse(text, IdRule::Liberal, &|method, params| AgentCall::decode(method, params)) {
        Message::Request { call: Call::Known(call), .. } | Message::Notification { call: Call::Known(call), .. } => {
            let name = call.wire_name(dialect).map(str::to_owned);
            calls(call, name, dialect, AgentCall::decode);
        }
        Message::Response { outcome: Ok(Outcome::Result(text)), .. } => answers(text, dialect),
        _ => {}
    }
    match parse(text, IdRule::Liberal, &|method, params| ClientCall::decode(method, params)) {
        Message::Request { call: Call::Known(call), .. } | Message::Notification { call: Call::Known(call), .. } => {
            let name = call.wire_name(dialect).map(str::to_owned);
            calls(call, name, dialect, ClientCall::decode);
        }
        _ => {}
    }
}

type Read<C> = fn(&str, &mut tieline_json::Reader<'_>) -> Result<Option<C>, tieline_json::Error>;

/// A call that `dialect` has a name for.
fn calls<C: Encode + PartialEq + Debug>(call: C, name: Option<String>, dialect: Dialect, read: Read<C>) {
    let Some(name) = name else { return };
    let read = |text: &str| {
        let mut json = tieline_json::Reader::new(text);
        read(&name, &mut json).and_then(|call| json.end().map(|()| call))
    };
    stable(&call, dialect, |text| match read(text) {
        Ok(Some(call)) => call,
        other => panic!("{name} in {dialect}: {text} was read as {other:?}"),
    });
}

/// An answer, tried as every type there is.
fn answers(text: &str, dialect: Dialect) {
    fn one<T: Decode + Encode + PartialEq + Debug>(text: &str, dialect: Dialect) {
        if let Ok(answer) = from_json::<T>(text) {
            stable(&answer, dialect, |text| {
                from_json(text).unwrap_or_else(|error| panic!("{error} in {dialect}: {text}, from {answer:?}"))
            });
        }
    }
    one::<InitializeResponse>(text, dialect);
    one::<SessionSetup>(text, dialect);
    one::<ListResponse>(text, dialect);
    one::<PromptResponse>(text, dialect);
    one::<SetOptionResponse>(text, dialect);
    one::<PermissionOutcome>(text, dialect);
    one::<ReadTextFileResponse>(text, dialect);
    one::<CreateTerminalResponse>(text, dialect);
    one::<TerminalOutputResponse>(text, dialect);
    one::<WaitForTerminalExitResponse>(text, dialect);
    one::<ElicitResponse>(text, dialect);
    one::<Done>(text, dialect);
}

/// The first writing may say less than what was read (the dialect has no words for it). From then on nothing changes.
fn stable<T: Encode + PartialEq + Debug>(first: &T, dialect: Dialect, read: impl Fn(&str) -> T) {
    let written = to_json(first, dialect);
    assert!(!written.contains('\n') && !written.contains('\r'), "a raw line break would split a frame: {written}");
    if let Err(error) = serde_json::from_str::<Value>(&written) {
        assert!(super::json::is_limit(&error), "{error}: {written}");
    }
    let second = read(&written);
    let again = to_json(&second, dialect);
    assert_eq!(written, again, "written twice in {dialect}, from {first:?}");
    assert_eq!(second, read(&again), "read twice in {dialect}");
}
