//! JSON text kept as it came: unknown variants, `rawInput`, `_meta`, and everything else we only pass on.

use crate::{Error, Reader};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;

/// One valid JSON value as text, byte for byte.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Raw(Box<str>);

impl Raw {
    /// Checks that `text` is one JSON value and keeps it.
    pub fn new(text: impl Into<Box<str>>) -> Result<Self, Error> {
        let text = text.into();
        let mut reader = Reader::new(&text);
        reader.skip()?;
        reader.end()?;
        Ok(Self(text))
    }

    /// Keeps text that a [`Reader`] has already walked over.
    pub(crate) fn trusted(text: &str) -> Self {
        Self(text.into())
    }

    /// Writes any serde value as JSON.
    pub fn of(value: &(impl Serialize + ?Sized)) -> Result<Self, serde_json::Error> {
        serde_json::to_string(value).map(|text| Self(text.into()))
    }

    /// The JSON text.
    pub fn get(&self) -> &str {
        &self.0
    }

    /// Reads the text as any serde value.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.0).or_else(|error| match whole_pairs(&self.0) {
            Some(text) => serde_json::from_str(&text),
            None => Err(error),
        })
    }

    /// True for `null`.
    pub fn is_null(&self) -> bool {
        &*self.0 == "null"
    }

    /// True for an object.
    pub fn is_object(&self) -> bool {
        self.0.trim_start().starts_with('{')
    }
}

/// The text with U+FFFD for each half of a surrogate pair, as [`Reader`] reads it; `None` if there is none. `serde_json` refuses
/// such halves.
pub fn whole_pairs(text: &str) -> Option<String> {
    let unit = |at: usize| {
        let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
        u16::from_str_radix(digits, 16).ok()
    };
    let (mut out, mut from, mut at) = (String::new(), 0, 0);
    while let Some(offset) = text[at..].find('\\') {
        at += offset;
        match unit(at) {
            Some(0xD800..=0xDBFF) if unit(at + 6).is_some_and(|low| (0xDC00..=0xDFFF).contains(&low)) => at += 12,
            Some(0xD800..=0xDFFF) => {
                out.push_str(&text[from..at]);
                out.push_str("\\ufffd");
                at += 6;
                from = at;
            }
            // The escaped character stands behind the backslash and is one byte in valid JSON.
            _ => at += 2,
        }
    }
    if from == 0 {
        return None;
    }
    out.push_str(&text[from..]);
    Some(out)
}

impl From<serde_json::Value> for Raw {
    fn from(value: serde_json::Value) -> Self {
        // Display of a Value is compact JSON and cannot fail.
        Self(value.to_string().into())
    }
}

impl From<&Raw> for serde_json::Value {
    fn from(raw: &Raw) -> Self {
        raw.parse().unwrap_or_default()
    }
}

impl fmt::Debug for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Raw {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &serde_json::value::RawValue = serde_json::from_str(&self.0).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl<'de> serde::Deserialize<'de> for Raw {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<serde_json::value::RawValue>::deserialize(deserializer)?;
        Ok(Self(raw.get().into()))
    }
}
