//! A message as its parts, each of them a piece of the text, so that one can be replaced and all others stay as they are.

use std::borrow::Cow;
use tieline_json::{Kind, Reader};

/// What a JSON-RPC object says. For a repeated key the last one counts.
#[derive(Default)]
pub(super) struct Parts<'m> {
    pub(super) id: Option<&'m str>,
    pub(super) method: Option<Cow<'m, str>>,
    pub(super) params: Option<&'m str>,
    pub(super) result: Option<&'m str>,
}

impl<'m> Parts<'m> {
    /// `None` if it is no object, or can't be read to its end.
    pub(super) fn of(text: &'m str) -> Option<Self> {
        let mut json = Reader::new(text);
        let mut parts = Self::default();
        let mut object = json.object().ok()?;
        while let Some(key) = object.key(&mut json).ok()? {
            match &*key {
                "id" => parts.id = Some(json.raw().ok()?),
                "method" if json.peek().ok()? == Kind::String => parts.method = Some(json.string().ok()?),
                "params" => parts.params = Some(json.raw().ok()?),
                "result" => parts.result = Some(json.raw().ok()?),
                _ => json.skip().ok()?,
            }
        }
        json.end().ok()?;
        Some(parts)
    }

    /// The text with another value in place of the params, or of the result of an answer.
    pub(super) fn with(&self, text: &str, value: &[u8]) -> Vec<u8> {
        let (place, name) = if self.method.is_some() { (self.params, "params") } else { (self.result, "result") };
        match place {
            Some(old) => {
                // A part is a piece of the text, so this is where it begins in it.
                let at = old.as_ptr().addr() - text.as_ptr().addr();
                [&text.as_bytes()[..at], value, &text.as_bytes()[at + old.len()..]].concat()
            }
            None => {
                let end = text.rfind('}').unwrap_or(text.len());
                [&text.as_bytes()[..end], format!(",\"{name}\":").as_bytes(), value, &text.as_bytes()[end..]].concat()
            }
        }
    }
}

/// The entries of a batch; `None` if it is none.
pub(super) fn entries(text: &str) -> Option<Vec<&str>> {
    let mut json = Reader::new(text);
    if json.peek().ok()? != Kind::Array {
        return None;
    }
    let (mut entries, mut array) = (Vec::new(), json.array().ok()?);
    while array.item(&mut json).ok()? {
        entries.push(json.raw().ok()?);
    }
    json.end().ok()?;
    Some(entries)
}

/// An answer to the request with this id.
pub(super) fn answer(id: &str, key: &str, value: &[u8]) -> Vec<u8> {
    [format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"{key}\":").as_bytes(), value, b"}"].concat()
}
