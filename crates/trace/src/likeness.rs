//! Whether a live message is the recorded one: ids, session ids and paths are mapped by first sight. No I/O.

use crate::filter::is_id;
use crate::foreign::micros;
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use tieline_json::cut;

/// So many ids are remembered.
const MAX_IDS: usize = 100_000;
/// So much of a value is told.
const MAX_TOLD_CHARS: usize = 100;

type Object = serde_json::Map<String, Value>;

/// What stands for what: recorded on the left, live on the right.
#[derive(Debug, Default, Clone)]
pub(crate) struct Likeness {
    ids: HashMap<String, String>,
    /// Ids that the played side has said: who names another one means another thing.
    ours: HashSet<String>,
    paths: Vec<(String, String)>,
}

impl Likeness {
    /// From now on this recorded path is that one.
    pub(crate) fn learn_path(&mut self, recorded: &str, live: &str) {
        let (mut one, mut other) = (recorded.trim_end_matches('/'), live.trim_end_matches('/'));
        // What both end with is no difference: the folder above is what has moved.
        while let (Some((above, name)), Some((other_above, other_name))) =
            (one.rsplit_once('/'), other.rsplit_once('/'))
            && name == other_name
            && !above.is_empty()
            && !other_above.is_empty()
        {
            (one, other) = (above, other_above);
        }
        if one.len() > 1 && one != other {
            self.paths.push((one.to_owned(), other.to_owned()));
            self.paths.sort_by_key(|(recorded, _)| std::cmp::Reverse(recorded.len()));
        }
    }

    /// The played side says this, as it was recorded: the ids in it are not to be given other meanings.
    pub(crate) fn says(&mut self, key: &str, value: &Value) {
        match value {
            Value::String(text) if is_id(key) && self.ours.len() < MAX_IDS => drop(self.ours.insert(text.clone())),
            Value::Array(items) => items.iter().for_each(|item| self.says(key, item)),
            Value::Object(object) => object.iter().for_each(|(key, value)| self.says(key, value)),
            _ => {}
        }
    }

    /// The recorded text as it is said now.
    pub(crate) fn text(&self, recorded: &str) -> String {
        if let Some(live) = self.ids.get(recorded) {
            return live.clone();
        }
        let Some((from, to)) = self.paths.iter().find(|(from, _)| recorded.contains(from.as_str())) else {
            return recorded.to_owned();
        };
        recorded.replace(from.as_str(), to)
    }

    /// The recorded value as it is said now.
    pub(crate) fn translate(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => self.text(text).into(),
            Value::Array(items) => items.iter().map(|item| self.translate(item)).collect(),
            Value::Object(object) => object.iter().map(|(key, value)| (key.clone(), self.translate(value))).collect(),
            value => value.clone(),
        }
    }

    /// How a live value differs from the recorded one, below `place`; what is seen for the first time is learned.
    pub(crate) fn compare(&mut self, recorded: &Value, live: &Value, place: &str, found: &mut Vec<String>) {
        match (recorded, live) {
            (Value::Object(recorded), Value::Object(live)) => self.compare_objects(recorded, live, place, found),
            (Value::Array(recorded), Value::Array(live)) if recorded.len() == live.len() => {
                for (at, (recorded, live)) in recorded.iter().zip(live).enumerate() {
                    self.compare(recorded, live, &format!("{place}[{at}]"), found);
                }
            }
            (Value::String(recorded), Value::String(live)) if self.is_like(recorded, live, place) => {}
            (Value::Number(_), Value::Number(_)) if is_duration(place) => {}
            _ if recorded == live => {}
            _ => found.push(format!("{place}: recorded {}, live {}", told(&self.translate(recorded)), told(live))),
        }
    }

    fn compare_objects(&mut self, recorded: &Object, live: &Object, place: &str, found: &mut Vec<String>) {
        let new = live.keys().filter(|key| !recorded.contains_key(*key));
        for key in recorded.keys().chain(new) {
            let place = if place.is_empty() { key.to_owned() } else { format!("{place}.{key}") };
            match (there(recorded, key), there(live, key)) {
                (Some(recorded), Some(live)) => self.compare(recorded, live, &place, found),
                (Some(recorded), None) => found.push(format!("{place}: recorded {}, not there live", told(recorded))),
                (None, Some(live)) => found.push(format!("{place}: not in the recording, live {}", told(live))),
                (None, None) => {}
            }
        }
    }

    fn is_like(&mut self, recorded: &str, live: &str, place: &str) -> bool {
        if self.text(recorded) == live {
            return true;
        }
        let key = place.rsplit('.').next().unwrap_or(place);
        let known = self.ids.contains_key(recorded) || self.ours.contains(recorded);
        if is_id(key) && !known && self.ids.len() < MAX_IDS {
            self.ids.insert(recorded.to_owned(), live.to_owned());
            return true;
        }
        let path = |text: &str| text.strip_prefix("file://").unwrap_or(text).starts_with('/') && !text.contains('\n');
        if path(recorded) && path(live) && !self.paths.iter().any(|(from, _)| recorded.contains(from.as_str())) {
            self.learn_path(recorded, live);
            return true;
        }
        micros(recorded).is_some() && micros(live).is_some()
    }
}

/// A value that counts. Extensions are nobody's business but theirs. What is null is as good as not there.
fn there<'o>(object: &'o Object, key: &str) -> Option<&'o Value> {
    object.get(key).filter(|value| key != "_meta" && !value.is_null())
}

/// Whether a number at this place says how long something took.
fn is_duration(place: &str) -> bool {
    let key = place.rsplit('.').next().unwrap_or(place).to_ascii_lowercase();
    ["seconds", "duration", "durationms", "duration_ms", "elapsed", "elapsedms", "elapsed_ms"].contains(&&*key)
}

/// A value for people, cut if it is long.
pub(crate) fn told(value: &Value) -> String {
    cut(&value.to_string(), MAX_TOLD_CHARS)
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
            &["gone: recorded 2, not there live", "list[1].a: recorded 1, live 2", "new: not in the recording, live 3"],
        );
        likeness.says("params", &json!({"options": [{"optionId": "yes"}, {"optionId": "no"}]}));
        let mut found = Vec::new();
        likeness.compare(&json!({"optionId": "yes"}), &json!({"optionId": "no"}), "result.outcome", &mut found);
        assert_eq!(found, ["result.outcome.optionId: recorded \"yes\", live \"no\""]);
        assert_eq!(
            likeness.translate(&json!({"sessionId": "a", "uri": "file:///home/me/q"})),
            json!({"sessionId": "b", "uri": "file:///tmp/x/q"})
        );
    }
}
