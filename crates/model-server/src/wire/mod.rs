//! The wire formats: one file for each, with how a request is read and how an answer is written.

pub(crate) mod chat;
pub(crate) mod error;
pub(crate) mod gemini;
pub(crate) mod lists;
pub(crate) mod messages;
pub(crate) mod responses;

use crate::talk::{Asked, Format};
use serde_json::Value;
use std::hash::{DefaultHasher, Hash, Hasher};
use tieline_script::{Finish, Marks, Usage};

/// An answer, ready to be written in any format.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) serial: u64,
    pub(crate) model: String,
    pub(crate) parts: Vec<Part>,
    pub(crate) usage: Usage,
    pub(crate) stop: Finish,
    /// How many characters come at once.
    pub(crate) chunk: usize,
    /// See [`Asked::extra`].
    pub(crate) extra: bool,
    pub(crate) reasoning_field: String,
    pub(crate) marks: Marks,
}

impl Reply {
    pub(crate) fn calls(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Call { .. }))
    }

    /// All texts as one.
    pub(crate) fn text(&self) -> String {
        self.parts
            .iter()
            .filter_map(|part| if let Part::Text(text) = part { Some(text.as_str()) } else { None })
            .collect()
    }
}

/// A part of an answer.
#[derive(Debug, Clone)]
pub(crate) enum Part {
    Thought(String),
    /// A thought that nobody can read. Only Anthropic has them; elsewhere it is a thought like others.
    Redacted(String),
    Text(String),
    Call {
        id: String,
        name: String,
        arguments: String,
        free: bool,
    },
}

/// One event of a stream.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub(crate) name: Option<&'static str>,
    pub(crate) data: String,
    /// It carries a piece of the content.
    pub(crate) content: bool,
    /// It says why the answer ends.
    pub(crate) ends: bool,
}

impl Event {
    /// An event whose name is also the `type` in its data.
    pub(crate) fn typed(name: &'static str, data: Value) -> Self {
        Self::raw(Some(name), data.to_string())
    }

    pub(crate) fn data(data: &Value) -> Self {
        Self::raw(None, data.to_string())
    }

    pub(crate) fn raw(name: Option<&'static str>, data: impl Into<String>) -> Self {
        Self { name, data: data.into(), content: false, ends: false }
    }

    pub(crate) fn ends(mut self) -> Self {
        self.ends = true;
        self
    }

    pub(crate) fn content(mut self) -> Self {
        self.content = true;
        self
    }
}

/// The answer as a stream of events.
pub(crate) fn events(asked: &Asked, reply: &Reply) -> Vec<Event> {
    match asked.format {
        Format::Chat => chat::events(reply),
        Format::Responses => responses::events(reply),
        Format::Messages => messages::events(reply),
        Format::Gemini | Format::Other => gemini::events(reply),
    }
}

/// The answer in one piece.
pub(crate) fn whole(asked: &Asked, reply: &Reply) -> Value {
    match asked.format {
        Format::Chat => chat::whole(reply),
        Format::Responses => responses::whole(reply),
        Format::Messages => messages::whole(reply),
        Format::Gemini | Format::Other => gemini::whole(reply),
    }
}

/// Puts a value in place of every count of tokens.
pub(crate) fn figures(event: &mut Event, value: &Value) {
    fn replace(place: &mut Value, value: &Value) {
        match place {
            Value::Number(_) => *place = value.clone(),
            Value::Object(all) => all.values_mut().for_each(|place| replace(place, value)),
            _ => {}
        }
    }
    let Ok(mut data) = serde_json::from_str::<Value>(&event.data) else { return };
    for path in ["/usage", "/usageMetadata", "/message/usage", "/response/usage"] {
        if let Some(usage) = data.pointer_mut(path) {
            replace(usage, value);
            event.data = data.to_string();
        }
    }
}

/// A text in pieces of so many characters; one empty piece if it is empty.
pub(crate) fn pieces(text: &str, size: usize) -> Vec<&str> {
    let mut starts: Vec<_> = text.char_indices().map(|(at, _)| at).step_by(size.max(1)).collect();
    starts.push(text.len());
    match starts.len() {
        1 => vec![""],
        _ => starts.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect(),
    }
}

/// Stands for a vendor's proof that a thought, or the call that came of it, is the model's own.
pub(crate) fn signature(of: &str) -> String {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    format!("c2lnbmF0dXJl{:016x}", hasher.finish())
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_cut_between_characters() {
        assert_eq!(pieces("aüb🦀c", 2), ["aü", "b🦀", "c"]);
        assert_eq!(pieces("", 2), [""]);
        assert_eq!(pieces("abc", 9), ["abc"]);
    }
}
