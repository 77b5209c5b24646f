//! What is kept of a frame: all of it, all but secrets, or only its shape.

use crate::Side;
use crate::pieces::body;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use tieline_json::{Raw, Reader};
use tieline_rpc::framing::Framing;
use tieline_schema::is_absolute;

/// What stands in the place of a secret.
const HIDDEN: &str = "(hidden)";
/// So many secrets are looked for in later text, and so many ids get a name of their own.
const MAX_SECRETS: usize = 1000;
const MAX_NAMES: usize = 100_000;
/// No key of the protocol is longer.
const MAX_KEY_BYTES: usize = 64;
/// Shorter values are not looked for elsewhere: they would be found everywhere.
const MIN_SECRET_BYTES: usize = 6;
/// Names of keys, without `-` and `_`, that end like this hold secrets.
const SECRET_NAMES: &str = "apikey accesstoken authtoken refreshtoken bearertoken secret password passphrase authorization credentials privatekey";
/// Keys whose value is a word of the protocol, and so part of the shape.
const WORDS: &str =
    "jsonrpc method sessionUpdate type status kind stopReason role outcome operation state priority category audience";
/// Below these keys nothing is a word of the protocol; `data` is what is told of an error.
const FREE: [&str; 4] = ["rawInput", "rawOutput", "_meta", "data"];

/// A byte order mark, which is no part of a message.
const BOM: &str = "\u{feff}";

/// What is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kept {
    /// Every byte.
    #[default]
    Exact,
    /// All but the values of headers, variables and keys.
    Redacted,
    /// Keys, methods, kinds, types and lengths; no values.
    Shape,
}

/// A message without the values of headers, variables and keys. What has none of them comes back as it is.
pub fn redact(json: &str) -> Cow<'_, str> {
    // Nothing is built for a message without any: it may be huge. A key with escapes may be any.
    let is_json = Reader::new(json).skip().is_ok();
    if is_json && !json.contains("\\u") && !json.split('"').any(|text| is_secret_group(text) || is_secret_name(text)) {
        return json.into();
    }
    let Some(mut value) = parse(json) else { return Value::from(HIDDEN).to_string().into() };
    if Filter::new(Kept::Redacted).hide(&mut value, false) { value.to_string().into() } else { json.into() }
}

/// The message, if it is one. A byte order mark is passed over, and half a surrogate pair is read as U+FFFD, as everywhere else.
pub fn parse(json: &str) -> Option<Value> {
    Raw::new(json.strip_prefix(BOM).unwrap_or(json)).ok()?.parse().ok()
}

/// Takes out of frames what is not to be kept.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    pub(crate) kept: Kept,
    /// What was hidden so far, to be found again in other places.
    secrets: Vec<String>,
    /// Ids, and keys that are not of the protocol, by their number.
    ids: HashMap<String, usize>,
    keys: HashMap<String, usize>,
    /// Requests of implementations, by who asked and their id, until they are answered.
    foreign: HashSet<(Side, String)>,
    /// The message is one of those, or answers one.
    is_foreign: bool,
}

/// The number of a text, by first sight; 0 if there are too many.
fn number(known: &mut HashMap<String, usize>, text: &str) -> usize {
    let next = known.len() + 1;
    if next <= MAX_NAMES && !known.contains_key(text) {
        known.insert(text.to_owned(), next);
    }
    known.get(text).copied().unwrap_or(0)
}

impl Filter {
    pub(crate) fn new(kept: Kept) -> Self {
        Self { kept, ..Self::default() }
    }

    /// What is kept of something whole that comes from here; `None` if it may not be kept at all.
    pub(crate) fn keep(&mut self, from: Side, bytes: Vec<u8>) -> Option<Vec<u8>> {
        if self.kept == Kept::Exact || from == Side::Exit {
            return Some(bytes);
        }
        let (body, headers) = body(&bytes);
        let Some(mut value) = std::str::from_utf8(body).ok().filter(|_| from.talks()).and_then(parse) else {
            // Something that was meant as a message may hold anything.
            let meant = from.talks() && matches!(body.first(), Some(b'{' | b'['));
            return if meant { None } else { self.text(&bytes) };
        };
        if self.kept == Kept::Shape {
            match &mut value {
                Value::Array(batch) => batch.iter_mut().for_each(|message| self.message(from, message)),
                message => self.message(from, message),
            }
        } else if !self.hide(&mut value, false) {
            return Some(bytes);
        }
        let mut out = Vec::new();
        let framing = if headers { Framing::Headers } else { Framing::Lines };
        let mark = if body.starts_with(BOM.as_bytes()) { BOM } else { "" };
        framing.write(&mut out, |out| out.extend_from_slice(format!("{mark}{value}").as_bytes()));
        Some(out)
    }

    /// Drops every value of a message; of a method of an implementation the keys, too.
    fn message(&mut self, from: Side, message: &mut Value) {
        let (id, method) = (message["id"].to_string(), message["method"].as_str());
        let own = method.is_some_and(|method| method.starts_with('_'));
        self.is_foreign = own || method.is_none() && self.foreign.remove(&(from.other(), id.clone()));
        if own && self.foreign.len() < MAX_NAMES {
            self.foreign.insert((from, id));
        }
        self.shape("", message, false, false);
    }

    /// A key as it is kept: those of the protocol as they are.
    fn key(&mut self, key: String, free: bool) -> String {
        if !free && key.len() <= MAX_KEY_BYTES && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            return key;
        }
        format!("key#{}", number(&mut self.keys, &key))
    }

    /// What is kept of text that is no message.
    fn text(&self, text: &[u8]) -> Option<Vec<u8>> {
        if self.kept == Kept::Shape {
            return text.trim_ascii().is_empty().then(|| text.to_vec());
        }
        let text = String::from_utf8_lossy(text);
        Some(self.without_secrets(&text).unwrap_or(text.into_owned()).into_bytes())
    }

    /// The text with everything hidden that was a secret before; `None` if there is nothing to hide.
    fn without_secrets(&self, text: &str) -> Option<String> {
        let found = self.secrets.iter().any(|secret| text.contains(secret));
        found.then(|| self.secrets.iter().fold(text.to_owned(), |text, secret| text.replace(secret, HIDDEN)))
    }

    /// Hides secrets; true if there were any.
    fn hide(&mut self, value: &mut Value, secret: bool) -> bool {
        match value {
            Value::Object(object) => {
                let named = object.contains_key("name") && object.contains_key("value");
                object.iter_mut().fold(false, |changed, (key, value)| {
                    let inside = secret && (!named || key == "value") || is_secret_group(key);
                    self.hide(value, inside || value.is_string() && is_secret_name(key)) | changed
                })
            }
            Value::Array(items) => items.iter_mut().fold(false, |changed, item| self.hide(item, secret) | changed),
            Value::Null => false,
            Value::String(text) if !secret => {
                let clean = self.without_secrets(text);
                clean.map(|clean| *text = clean).is_some()
            }
            value if secret && *value != HIDDEN => {
                if let Value::String(text) = value
                    && text.len() >= MIN_SECRET_BYTES
                    && self.secrets.len() < MAX_SECRETS
                    && !self.secrets.contains(text)
                {
                    self.secrets.push(std::mem::take(text));
                }
                *value = HIDDEN.into();
                true
            }
            _ => false,
        }
    }

    /// Drops every value. `free`: no word of the protocol is below here; `able`: these are capabilities, whose yes and no are kept.
    fn shape(&mut self, key: &str, value: &mut Value, free: bool, able: bool) {
        match value {
            Value::Object(object) => {
                let whole = std::mem::take(object);
                // What an implementation has added is its own from here on, but for its name.
                let tag = |key: &str| !free && (key == "sessionUpdate" || key == "type");
                let own =
                    whole.iter().any(|(key, value)| tag(key) && value.as_str().is_some_and(|it| it.starts_with('_')));
                for (key, mut value) in whole {
                    let hidden = free || own && !tag(&key);
                    let foreign = self.is_foreign && (key == "params" || key == "result");
                    let free = hidden || foreign || FREE.contains(&&*key);
                    self.shape(&key, &mut value, free, able || key.ends_with("apabilities"));
                    object.insert(self.key(key, hidden), value);
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.shape(key, item, free, able)),
            Value::Null => {}
            Value::Bool(yes) => *yes &= able && !free,
            Value::Number(_) if !free && matches!(key, "id" | "code" | "protocolVersion") => {}
            // Lines are counted from one, sizes are not below zero: the sign is what the protocol can be judged by.
            Value::Number(number) => {
                let sign = number.as_f64().filter(|_| !free).map_or(0, |it| i8::from(it > 0.0) - i8::from(it < 0.0));
                *value = if number.is_f64() { f64::from(sign).into() } else { sign.into() };
            }
            Value::String(text) if !free && WORDS.split(' ').any(|word| word == key) && is_word(text) => {}
            Value::String(text) if is_id(key) => *text = format!("id#{}", number(&mut self.ids, text)),
            // A path that must be absolute still is.
            Value::String(text) => *text = format!("{}<{}>", if is_absolute(text) { "/" } else { "" }, text.len()),
        }
    }
}

/// Whether a text under this key names something.
pub(crate) fn is_id(key: &str) -> bool {
    key == "id" || key.ends_with("Id")
}

/// Whether everything below this key is hidden.
fn is_secret_group(key: &str) -> bool {
    key == "env" || key == "headers"
}

fn is_secret_name(key: &str) -> bool {
    // Names are short; a text is not.
    let key = &key[key.floor_char_boundary(key.len().saturating_sub(MAX_KEY_BYTES))..];
    let plain: String = key.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    plain == "token" || SECRET_NAMES.split(' ').any(|name| plain.ends_with(name))
}

/// Such as `session/update`, `agent_message_chunk`, `2.0`.
fn is_word(text: &str) -> bool {
    text.len() <= 64 && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_/$.-".contains(&byte))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(json: &str, expect: &str) {
        let parse = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        assert_eq!(parse(&redact(json)), parse(expect));
    }

    #[test]
    fn values_of_headers_variables_and_keys_are_hidden() {
        check(
            r#"{"a":{"env":[{"name":"K","value":"s3cret"}],"headers":[{"name":"Authorization","value":"Bearer x"}]}}"#,
            r#"{"a":{"env":[{"name":"K","value":"(hidden)"}],"headers":[{"name":"Authorization","value":"(hidden)"}]}}"#,
        );
        check(r#"{"env":{"K":"s3cret"},"args":["x"]}"#, r#"{"env":{"K":"(hidden)"},"args":["x"]}"#);
        check(
            r#"{"env":["K=s3cret"],"headers":[["A","s3cret"]]}"#,
            r#"{"env":["(hidden)"],"headers":[["(hidden)","(hidden)"]]}"#,
        );
        check(
            r#"{"env":{"PIN":1234,"no":null,"deep":{"a":["s3cret"]}},"cwd":"/"}"#,
            r#"{"env":{"PIN":"(hidden)","no":null,"deep":{"a":["(hidden)"]}},"cwd":"/"}"#,
        );
        let said = json!({"text": "say \"env\" or not"}).to_string();
        check(&said, &said);
        check(
            r#"{"apiKey":"s3cret","access_token":"s3cret","token":"x","inputTokens":7,"progressToken":"p"}"#,
            r#"{"apiKey":"(hidden)","access_token":"(hidden)","token":"(hidden)","inputTokens":7,"progressToken":"p"}"#,
        );
        // What has no secrets is not touched, not even its blanks.
        assert!(matches!(redact(r#"{ "a" : 1 }"#), Cow::Borrowed(_)));
        // What can't be read is not kept.
        assert_eq!(redact("{\"env\":\"s3cret"), "\"(hidden)\"");
    }

    #[test]
    fn a_secret_is_hidden_wherever_it_comes_again() {
        let mut filter = Filter::new(Kept::Redacted);
        let frame = filter.keep(Side::Client, b"{\"env\":{\"K\":\"s3cret-key\"},\"text\":1}\n".into()).unwrap();
        assert!(frame.ends_with(b"\n"));
        let later = filter.keep(Side::Agent, b"{\"text\":\"it is s3cret-key.\"}\n".into()).unwrap();
        assert_eq!(later, b"{\"text\":\"it is (hidden).\"}\n");
        assert_eq!(filter.keep(Side::Stderr, b"using s3cret-key\n".into()).unwrap(), b"using (hidden)\n");
        assert_eq!(filter.keep(Side::Agent, b"{\"env\":{\"K\":\"s3cr".into()), None);
    }

    #[test]
    fn a_shape_has_no_value_and_can_still_be_judged() {
        let mut filter = Filter::new(Kept::Shape);
        let mut shape = |value: Value| -> Value {
            let framed = format!("Content-Length: 1\r\n\r\n{value}");
            let kept = filter.keep(Side::Client, framed.into_bytes()).unwrap();
            serde_json::from_slice(body(&kept).0).unwrap()
        };
        assert_eq!(
            shape(json!({"jsonrpc": "2.0", "id": 7, "method": "session/prompt", "params": {"sessionId": "abc",
                "prompt": [{"type": "text", "text": "my secret", "annotations": {"priority": 0.7}}], "on": true}})),
            json!({"jsonrpc": "2.0", "id": 7, "method": "session/prompt", "params": {"sessionId": "id#1",
                "prompt": [{"type": "text", "text": "<9>", "annotations": {"priority": 1.0}}], "on": false}}),
        );
        assert_eq!(
            shape(json!({"method": "session/update", "params": {"sessionId": "abc", "cwd": "/my/place", "update": {
                "sessionUpdate": "tool_call", "toolCallId": "def", "kind": "my words", "line": 12,
                "rawInput": {"id": 5, "my key is this": {"kind": "secret"}, "type": "secret"}}}})),
            json!({"method": "session/update", "params": {"sessionId": "id#1", "cwd": "/<9>", "update": {
                "sessionUpdate": "tool_call", "toolCallId": "id#2", "kind": "<8>", "line": 1,
                "rawInput": {"key#1": 0, "key#3": {"key#2": "<6>"}, "key#4": "<6>"}}}}),
        );
        assert_eq!(
            shape(
                json!({"result": {"protocolVersion": 2, "agentCapabilities": {"loadSession": true, "_meta": {"x": true}}}})
            ),
            json!({"result": {"protocolVersion": 2, "agentCapabilities": {"loadSession": true, "_meta": {"key#5": false}}}}),
        );
        // What implementations have of their own has neither keys nor words that we know.
        assert_eq!(
            shape(
                json!({"id": 8, "method": "_acme/x", "params": {"/home/me/pay.py": [{"status": "secret", "type": "acme"}]}})
            ),
            json!({"id": 8, "method": "_acme/x", "params": {"key#7": [{"key#6": "<6>", "key#4": "<4>"}]}}),
        );
        assert_eq!(
            shape(
                json!({"params": {"a/b": 1, "update": {"project": true, "sessionUpdate": "_acme", "status": "secret"}}})
            ),
            json!({"params": {"key#8": 1, "update": {"key#9": false, "sessionUpdate": "_acme", "key#6": "<6>"}}}),
        );
        let answer = filter.keep(Side::Agent, br#"{"id":8,"result":{"project":"p","type":"acme"}}"#.into()).unwrap();
        let expect = json!({"id": 8, "result": {"key#9": "<1>", "key#4": "<4>"}});
        assert_eq!(serde_json::from_slice::<Value>(&answer).unwrap(), expect);
        let answer =
            filter.keep(Side::Agent, br#"{"id":9,"error":{"code":-1,"data":{"type":"acme"}}}"#.into()).unwrap();
        let expect = json!({"id": 9, "error": {"code": -1, "data": {"key#4": "<4>"}}});
        assert_eq!(serde_json::from_slice::<Value>(&answer).unwrap(), expect);
        assert_eq!(filter.keep(Side::Agent, b"npm WARN secret\n".into()), None);
    }
}
