//! Whether a live message is the recorded one: ids, session ids and paths are mapped by first sight. No I/O.

use crate::filter::is_id;
use crate::foreign::micros;
use serde_json::Value;
use std::collections::HashMap;
use tieline_json::cut;

/// So many ids are remembered.
const MAX_IDS: usize = 100_000;
/// Names of numbers that say how long something took, in small letters.
const DURATIONS: [&str; 7] = ["seconds", "duration", "durationms", "duration_ms", "elapsed", "elapsedms", "elapsed_ms"];
/// So much of a value is told.
const MAX_TOLD_CHARS: usize = 100;

/// What stands for what: recorded on the left, live on the right.
#[derive(Debug, Default, Clone)]
pub(crate) struct Likeness {
    ids: HashMap<String, String>,
    paths: Vec<(String, String)>,
}

impl Likeness {
    /// From now on this recorded path is that one.
    pub(crate) fn learn_path(&mut self, recorded: &str, live: &str) {
        let (recorded, live) = (recorded.trim_end_matches('/'), live.trim_end_matches('/'));
        // What both end with is no difference: the folder above is what has moved, if there is one.
        let names = recorded.rsplit('/').zip(live.rsplit('/'));
        let same: usize = names.take_while(|(one, other)| one == other).map(|(name, _)| name.len() + 1).sum();
        let above = |path: &str| path[..path.len().saturating_sub(same)].to_owned();
        let mut moved = [(above(recorded), above(live)), (recorded.to_owned(), live.to_owned())].into_iter();
        self.paths.extend(moved.find(|(one, other)| one.len() > 1 && one != other));
        self.paths.sort_by_key(|(recorded, _)| std::cmp::Reverse(recorded.len()));
    }

    /// The recorded path that is another one now, and is in this text.
    fn path_in(&self, recorded: &str) -> Option<&(String, String)> {
        self.paths.iter().find(|(path, _)| recorded.contains(path.as_str()))
    }

    /// The recorded text as it is said now.
    pub(crate) fn text(&self, recorded: &str) -> String {
        match (self.ids.get(recorded), self.path_in(recorded)) {
            (Some(live), _) => live.clone(),
            (None, Some((path, live))) => recorded.replace(path.as_str(), live),
            (None, None) => recorded.to_owned(),
        }
    }

    /// Makes of a recorded value of the played side what is said now. An id in it is not to be given another meaning later: who
    /// then names another one means another thing.
    pub(crate) fn say(&mut self, key: &str, value: &mut Value) {
        match value {
            Value::String(text) => {
                if is_id(key) && self.ids.len() < MAX_IDS {
                    self.ids.entry(text.clone()).or_insert_with(|| text.clone());
                }
                *text = self.text(text);
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.say(key, item)),
            Value::Object(object) => {
                // The id of a message names nothing but its answer.
                let is_message = object.contains_key("jsonrpc");
                let parts = object.iter_mut().filter(|(key, _)| !is_message || *key != "id");
                parts.for_each(|(key, value)| self.say(key, value));
            }
            _ => {}
        }
    }

    /// How a live value differs from the recorded one, below `place`; what is seen for the first time is learned. What is null is as
    /// good as not there, and extensions are nobody's business but theirs.
    pub(crate) fn compare(&mut self, recorded: &Value, live: &Value, place: &str, found: &mut Vec<String>) {
        let key = place.rsplit('.').next().unwrap_or(place);
        match (recorded, live) {
            (Value::Object(old), Value::Object(new)) => {
                let new = new.keys().filter(|key| !old.contains_key(*key));
                for key in old.keys().chain(new).filter(|key| *key != "_meta") {
                    let place = if place.is_empty() { key.to_owned() } else { format!("{place}.{key}") };
                    self.compare(&recorded[key], &live[key], &place, found);
                }
            }
            (Value::Array(recorded), Value::Array(live)) if recorded.len() == live.len() => {
                for (at, (recorded, live)) in recorded.iter().zip(live).enumerate() {
                    self.compare(recorded, live, &format!("{place}[{at}]"), found);
                }
            }
            (Value::Number(_), Value::Number(_)) if DURATIONS.contains(&&*key.to_ascii_lowercase()) => {}
            (Value::String(recorded), Value::String(live)) if self.is_like(recorded, live, key) => {}
            (Value::String(recorded), _) => found.push(differs(place, &self.text(recorded).into(), live)),
            _ if recorded == live => {}
            _ => found.push(differs(place, recorded, live)),
        }
    }

    fn is_like(&mut self, recorded: &str, live: &str, key: &str) -> bool {
        if self.text(recorded) == live {
            return true;
        }
        if is_id(key) && !self.ids.contains_key(recorded) && self.ids.len() < MAX_IDS {
            self.ids.insert(recorded.to_owned(), live.to_owned());
            return true;
        }
        let path = |text: &str| text.strip_prefix("file://").unwrap_or(text).starts_with('/') && !text.contains('\n');
        if path(recorded) && path(live) && self.path_in(recorded).is_none() {
            self.learn_path(recorded, live);
            return true;
        }
        micros(recorded).is_some() && micros(live).is_some()
    }
}

/// How a value differs.
pub(crate) fn differs(place: &str, recorded: &Value, live: &Value) -> String {
    let colon = if place.is_empty() { "" } else { ": " };
    format!("{place}{colon}recorded {}, live {}", told(recorded), told(live))
}

/// A value for people, cut if it is long.
pub(crate) fn told(value: &Value) -> String {
    if value.is_null() { "nothing".to_owned() } else { cut(&value.to_string(), MAX_TOLD_CHARS) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn ids_paths_and_times_are_alike_by_first_sight_and_stay_so() {
        let mut likeness = Likeness::default();
        let mut check = |recorded: Value, live: Value, expect: &[&str]| {
            let mut found = Vec::new();
            likeness.compare(&recorded, &live, "", &mut found);
            // The order of keys is not what is asked here.
            found.sort();
            assert_eq!(found, expect);
        };
        check(
            json!({"sessionId": "a", "cwd": "/home/me/p"}),
            json!({"sessionId": "b", "cwd": "/tmp/x/p", "_meta": 1}),
            &[],
        );
        check(
            json!({"sessionId": "a", "path": "/home/me/p/f"}),
            json!({"sessionId": "b", "path": "/tmp/x/p/f", "x": null}),
            &[],
        );
        check(json!({"sessionId": "a"}), json!({"sessionId": "c"}), &["sessionId: recorded \"b\", live \"c\""]);
        check(json!({"at": "2026-01-01T00:00:00Z"}), json!({"at": "2027-01-01T00:00:00.5Z"}), &[]);
        check(json!({"seconds": 0.5, "durationMs": 3}), json!({"seconds": 1, "durationMs": 7}), &[]);
        check(json!({"text": "in /home/me/p/f"}), json!({"text": "in /tmp/x/p/f"}), &[]);
        check(
            json!({"list": [1, {"a": 1}], "gone": 2}),
            json!({"list": [1, {"a": 2}], "new": 3}),
            &["gone: recorded 2, live nothing", "list[1].a: recorded 1, live 2", "new: recorded nothing, live 3"],
        );
        likeness.say("params", &mut json!({"options": [{"optionId": "yes"}, {"optionId": "no"}]}));
        let mut found = Vec::new();
        likeness.compare(&json!({"optionId": "yes"}), &json!({"optionId": "no"}), "result.outcome", &mut found);
        assert_eq!(found, ["result.outcome.optionId: recorded \"yes\", live \"no\""]);
        let mut said = json!({"jsonrpc": "2.0", "id": "r", "params": {"sessionId": "a", "uri": "file:///home/me/q"}});
        likeness.say("", &mut said);
        let expect = json!({"jsonrpc": "2.0", "id": "r", "params": {"sessionId": "b", "uri": "file:///tmp/x/q"}});
        assert_eq!(said, expect);
        // The id of a message is no name.
        likeness.compare(&json!({"sessionId": "r"}), &json!({"sessionId": "s"}), "", &mut found);
        assert_eq!(found.len(), 1);
    }
}
