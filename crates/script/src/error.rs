//! What is wrong with a scenario, told so that its author finds the place.

use std::fmt;

/// Why a scenario can't be played.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptError {
    /// The file or the name of the scenario.
    source: String,
    /// Line and column, counted from 1.
    place: Option<(usize, usize)>,
    /// The key, as far as it is known.
    key: Option<String>,
    message: String,
}

impl ScriptError {
    /// A mistake that has no place.
    pub fn new(source: impl Into<String>, message: impl Into<String>) -> Self {
        Self { source: source.into(), place: None, key: None, message: message.into() }
    }

    /// A mistake at this byte of the text: names line, column and key.
    pub fn at(source: &str, text: &str, at: Option<usize>, message: &str) -> Self {
        let mut told = Self::new(source, message);
        let Some(before) = at.and_then(|at| text.get(..at)) else { return told };
        let column = before.chars().rev().take_while(|&c| c != '\n').count() + 1;
        told.place = Some((before.matches('\n').count() + 1, column));
        told.key = key_before(before).filter(|key| !message.contains(&format!("`{key}`")));
        told
    }

    /// The line of the mistake, counted from 1, if it has one.
    pub fn line(&self) -> Option<usize> {
        self.place.map(|(line, _)| line)
    }
}

/// The key whose value starts behind `text`.
fn key_before(text: &str) -> Option<String> {
    let text = text.trim_end().strip_suffix('=')?.trim_end();
    let start = text.rfind(|c: char| !(c.is_alphanumeric() || "_-.".contains(c))).map_or(0, |at| at + 1);
    // The character in front may be longer than one byte.
    let key = text.get(start..).or_else(|| text.split_whitespace().next_back())?;
    (!key.is_empty()).then(|| key.to_owned())
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "scenario {}", self.source)?;
        if let Some((line, column)) = self.place {
            write!(f, ", line {line}, column {column}")?;
        }
        if let Some(key) = &self.key {
            write!(f, ", key `{key}`")?;
        }
        write!(f, ": {}", self.message)
    }
}

impl std::error::Error for ScriptError {}
