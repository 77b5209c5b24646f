//! The messages the driver sends, and just enough reading of those it gets.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::process::{Failure, Running};

/// The id of the `initialize` request.
pub const INITIALIZE_ID: usize = 0;

const INITIALIZE: &str = concat!(
    r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"#,
    r#""clientCapabilities":{"fs":{"readTextFile":true,"writeTextFile":true},"terminal":true},"#,
    r#""clientInfo":{"name":"bench","version":"0.1.0"}}}"#,
    "\n"
);

/// A message from a peer, as far as the driver cares.
pub enum Incoming<'a> {
    Update,
    Request { id: &'a str, method: Cow<'a, str> },
    Answer { id: &'a str, result: &'a str },
    Other,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

/// Reads a line; an error answer is a failure.
pub fn incoming(line: &[u8]) -> Result<Incoming<'_>, Failure> {
    // Nearly all lines are updates with the method near the front. Reading those in full would make the driver
    // the slower side of the pipe.
    const UPDATE: &[u8] = br#""session/update""#;
    if line[..line.len().min(64)].windows(UPDATE.len()).any(|part| part == UPDATE) {
        return Ok(Incoming::Update);
    }
    let message: Envelope<'_> = serde_json::from_slice(line).map_err(|error| {
        let start = String::from_utf8_lossy(&line[..line.len().min(120)]);
        Failure::Wrong(format!("not a message: {error}: {start}"))
    })?;
    Ok(match message {
        Envelope { error: Some(error), .. } => {
            return Err(Failure::Wrong(format!("it answered with an error: {error}")));
        }
        Envelope { method: Some(method), id: Some(id), .. } => Incoming::Request { id: id.get(), method },
        Envelope { method: Some(method), .. } if method == "session/update" => Incoming::Update,
        Envelope { id: Some(id), result: Some(result), .. } => Incoming::Answer { id: id.get(), result: result.get() },
        _ => Incoming::Other,
    })
}

/// Reads on to the answer with this id: how many updates came before it, and its result.
pub fn answer(peer: &mut Running, id: usize) -> Result<(usize, String), Failure> {
    let expected = id.to_string();
    let mut updates = 0;
    loop {
        match incoming(peer.line()?)? {
            Incoming::Update => updates += 1,
            Incoming::Answer { id, result } if id == expected => return Ok((updates, result.to_owned())),
            _ => {}
        }
    }
}

/// Sends `initialize` and waits for the answer.
pub fn initialize(peer: &mut Running) -> Result<(), Failure> {
    peer.send(INITIALIZE.as_bytes())?;
    answer(peer, INITIALIZE_ID).map(drop)
}

/// A `session/new` line.
pub fn new_session(id: usize) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"session/new","params":{{"cwd":"/","mcpServers":[]}}}}"#) + "\n"
}

/// The session in the result of `session/new`.
pub fn session_of(result: &str) -> Result<String, Failure> {
    let value: Value = serde_json::from_str(result).unwrap_or_default();
    match value["sessionId"].as_str() {
        Some(session) => Ok(session.to_owned()),
        None => Err(Failure::Wrong(format!("no session in {result}"))),
    }
}

/// A `session/set_mode` line.
pub fn set_mode(id: usize, session: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"session/set_mode","params":{{"sessionId":"{session}","modeId":"code"}}}}"#
    ) + "\n"
}

/// A `session/prompt` line with one text block.
pub fn prompt(id: usize, session: &str, text: &str) -> String {
    let text = Value::from(text);
    format!(
        concat!(
            r#"{{"jsonrpc":"2.0","id":{},"method":"session/prompt","params":{{"sessionId":"{}","#,
            r#""prompt":[{{"type":"text","text":{}}}]}}}}"#,
            "\n"
        ),
        id, session, text
    )
}

/// The answer to a permission request.
pub fn allow(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"outcome":{{"outcome":"selected","optionId":"allow"}}}}}}"#)
        + "\n"
}

/// The text of an update line, which must be a message chunk.
pub fn chunk_text(line: &[u8]) -> Result<String, Failure> {
    let value: Value = serde_json::from_slice(line).unwrap_or_default();
    let update = &value["params"]["update"];
    match update["content"]["text"].as_str() {
        Some(text) if update["sessionUpdate"] == "agent_message_chunk" => Ok(text.to_owned()),
        _ => Err(Failure::Wrong(format!("not a message chunk: {value}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sent_lines_are_json() {
        let lines =
            [INITIALIZE.to_owned(), new_session(1), set_mode(2, "s"), prompt(3, "s", "a \"b\"\n"), allow("\"x\"")];
        for line in lines {
            assert!(serde_json::from_str::<Value>(&line).is_ok(), "{line}");
            assert_eq!(line.find('\n'), Some(line.len() - 1));
        }
    }

    #[test]
    fn an_update_is_seen_wherever_its_method_is() {
        let late = format!(r#"{{"jsonrpc":"2.0","params":{{"x":"{}"}},"method":"session/update"}}"#, "y".repeat(99));
        assert!(matches!(incoming(late.as_bytes()), Ok(Incoming::Update)));
        let answer = br#"{"jsonrpc":"2.0","id":4,"result":{}}"#;
        assert!(matches!(incoming(answer), Ok(Incoming::Answer { id: "4", result: "{}" })));
        assert!(incoming(br#"{"jsonrpc":"2.0","id":4,"error":{"code":1,"message":"no"}}"#).is_err());
    }
}
