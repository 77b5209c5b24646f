//! An answer that a program will read: the JSON in a message, and whether it fits a JSON Schema.
//!
//! The keywords of draft 2020-12 that say something about a value are known, as far as a schema needs no other file. What is
//! not known is refused when the schema is read: nothing is passed over in silence.

mod check;
mod pattern;
mod verify;

use regex::Regex;
use serde_json::Value;
use std::collections::HashMap;
use std::fmt;

/// A longer answer is not looked at.
pub(crate) const LONGEST: usize = 16 * 1024 * 1024;

/// A JSON Schema that can be checked here.
#[derive(Debug, Clone)]
pub struct Schema {
    root: Value,
    patterns: HashMap<String, Regex>,
    formats: Vec<String>,
}

/// Why a value does not fit: where, and what should be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misfit {
    /// The place, as a JSON pointer; empty for the whole.
    pub place: String,
    /// What is wrong, in words.
    pub why: String,
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.place.is_empty() { "the whole" } else { &self.place };
        write!(f, "{place} {}", self.why)
    }
}

impl Schema {
    /// Reads a schema. Says what in it can't be used.
    pub fn parse(text: &str) -> Result<Self, String> {
        let root = serde_json::from_str(text).map_err(|error| format!("it is no JSON: {error}"))?;
        Self::new(root)
    }

    /// Takes a schema. Says what in it can't be used.
    pub fn new(root: Value) -> Result<Self, String> {
        let verified = verify::verify(&root)?;
        Ok(Self { root, patterns: verified.patterns, formats: verified.formats })
    }

    /// The formats that it names. They are words about a value, and are not checked.
    pub fn formats(&self) -> &[String] {
        &self.formats
    }

    /// Checks a value.
    pub fn check(&self, value: &Value) -> Result<(), Misfit> {
        check::check(self, value)
    }

    /// Checks a message: it must be one JSON value, with or without a fence around it.
    pub fn check_message(&self, text: &str) -> Result<Value, String> {
        let value = in_message(text).map_err(|why| format!("the answer is no JSON: {why}"))?;
        match self.check(&value) {
            Ok(()) => Ok(value),
            Err(misfit) => Err(format!("the answer does not fit the schema: {misfit}")),
        }
    }
}

/// The JSON value that a message is. A code fence around it is passed over; words around it are not.
pub fn in_message(text: &str) -> Result<Value, String> {
    let text = text.trim();
    if text.is_empty() {
        return Err("it is empty".into());
    }
    serde_json::from_str(unfenced(text).unwrap_or(text)).map_err(|error| error.to_string())
}

/// What is in the fence that the text is.
fn unfenced(text: &str) -> Option<&str> {
    let ticks = text.len() - text.trim_start_matches('`').len();
    let (first, rest) = text.split_once('\n')?;
    let (fence, language) = first.split_at(ticks);
    let fits = ticks >= 3 && matches!(language.trim(), "" | "json" | "JSON" | "jsonc" | "json5");
    rest.strip_suffix(fence).filter(|inner| fits && (inner.is_empty() || inner.ends_with('\n')))
}
