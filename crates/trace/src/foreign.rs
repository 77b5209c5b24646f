//! What a line of a recording says, of ours and of others: the conductor's trace, acpx's logs, Zed's copied JSON, and our own trace of before.
//!
//! | format | looks like |
//! |---|---|
//! | `exec --trace` of before | `{"time":"2026-…Z","direction":"to_agent","frame":{…}}`, or `text` for what is no message |
//! | conductor | `{"type":"request","ts":0.25,"from":"Client","to":"Agent","id":1,"method":"…","params":{…}}` |
//! | acpx, flows | `{"seq":1,"at":"2026-…Z","direction":"outbound","message":{…}}` |
//! | acpx, sessions | the message alone, without time and direction |
//! | Zed | an array of `{"_direction":"outgoing","_type":"request","id":1,"method":"…","params":{…}}` |

use crate::{Event, Side};
use serde::Deserialize as _;
use serde_json::{Value, json};
use tieline_schema::{Direction, find};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// So many requests without an answer are remembered.
const MAX_PENDING: usize = 10_000;

/// Reads entries.
#[derive(Debug, Default)]
pub(crate) struct Foreign {
    /// The first time, if times are of the calendar.
    start: Option<u64>,
    /// Requests without an answer: who asked, and the id. For messages without a direction.
    pending: Vec<(Side, String)>,
    /// What did not go between client and agent.
    pub(crate) left_out: usize,
}

impl Foreign {
    /// The event of an entry, none if it did not go between client and agent; `None` if the entry is of no known kind.
    pub(crate) fn read(&mut self, entry: &Value) -> Option<Vec<Event>> {
        if let Ok(event) = Event::deserialize(entry) {
            return Some(vec![event]);
        }
        let word = |key: &str| entry[key].as_str().unwrap_or_default();
        let (at, by_client, text) = if matches!(word("direction"), "to_agent" | "from_agent" | "outbound" | "inbound") {
            let at = entry.get("time").or(entry.get("at")).and_then(Value::as_str).and_then(micros);
            let at = at.map_or(0, |at| at.saturating_sub(*self.start.get_or_insert(at)));
            let message = entry.get("frame").or(entry.get("message")).map(Value::to_string);
            let text = message.or_else(|| entry["text"].as_str().map(str::to_owned))?;
            (at, matches!(word("direction"), "to_agent" | "outbound"), text)
        } else if !entry["_direction"].is_null() {
            let params = &entry["params"];
            let is_error = params["code"].is_i64() && params["message"].is_string();
            (0, word("_direction") == "outgoing", message(word("_type"), entry, params, is_error)?)
        } else if entry["ts"].is_number() && entry["from"].is_string() {
            let client = |key: &str| word(key).eq_ignore_ascii_case("client");
            if !(client("from") || client("to")) || entry["protocol"] == "mcp" {
                self.left_out += 1;
                return Some(Vec::new());
            }
            #[allow(clippy::cast_sign_loss)]
            let at = (entry["ts"].as_f64()?.max(0.0) * 1e6) as u64;
            let content = entry.get("params").or(entry.get("payload")).unwrap_or(&Value::Null);
            (at, client("from"), message(word("type"), entry, content, entry["is_error"] == true)?)
        } else if entry["jsonrpc"] == "2.0" {
            (0, self.guess(entry) == Side::Client, entry.to_string())
        } else {
            return None;
        };
        let from = if by_client { Side::Client } else { Side::Agent };
        Some(vec![Event { at, from, raw: text + "\n", ..Event::default() }])
    }

    /// Who sent a message, by its method, or by whose question it answers.
    fn guess(&mut self, message: &Value) -> Side {
        let id = message.get("id").map(Value::to_string);
        let Some(method) = message["method"].as_str() else {
            // The same id may be open on both sides; the last question is the first to be answered, as a rule.
            let asked = self.pending.iter().rposition(|(_, asked)| Some(asked) == id.as_ref());
            return asked.map_or(Side::Agent, |at| self.pending.remove(at).0.other());
        };
        let from = match find(method).map(|method| method.direction) {
            Some(Direction::ToAgent) => Side::Client,
            _ => Side::Agent,
        };
        if let Some(id) = id
            && self.pending.len() < MAX_PENDING
        {
            self.pending.push((from, id));
        }
        from
    }
}

/// A message put together again from an entry that has its parts.
fn message(kind: &str, entry: &Value, content: &Value, is_error: bool) -> Option<String> {
    let (id, method) = (&entry["id"], &entry["method"]);
    let message = match kind {
        "request" => json!({"jsonrpc": "2.0", "id": id, "method": method, "params": content}),
        "notification" => json!({"jsonrpc": "2.0", "method": method, "params": content}),
        "response" if is_error => json!({"jsonrpc": "2.0", "id": id, "error": content}),
        "response" => json!({"jsonrpc": "2.0", "id": id, "result": content}),
        _ => return None,
    };
    Some(message.to_string())
}

/// Microseconds since 1970 of a time such as `2026-11-17T01:02:03.456Z`.
pub(crate) fn micros(text: &str) -> Option<u64> {
    let time = OffsetDateTime::parse(text, &Rfc3339).ok()?;
    u64::try_from(time.unix_timestamp_nanos() / 1000).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        assert_eq!(micros("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(micros("2026-11-17T01:02:03.456Z"), Some(1_794_877_323_456_000));
        assert_eq!(micros("2024-02-29T23:59:59.000001Z"), Some(1_709_251_199_000_001));
        for wrong in ["", "Z", "2026-13-01T00:00:00Z", "2026-1-1", "0000-01-01T00:00:00Z", "2026-01-01T00:00:00.éZ"] {
            assert_eq!(micros(wrong), None, "{wrong}");
        }
    }
}
