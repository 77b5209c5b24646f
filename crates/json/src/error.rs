//! What can be wrong with a JSON text: it is not JSON, or it is JSON of another shape than wanted.

use std::fmt;

/// Why a value could not be read. Says where and what was wanted, never what was found: input is not echoed, but for the start of a word
/// that a closed list does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error(Box<Inner>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Inner {
    fault: Fault,
    at: usize,
    /// Keys and indexes from the innermost outwards, joined when shown.
    path: Vec<String>,
    what: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Syntax,
    TooMuch(&'static str),
    Data,
}

impl Error {
    /// The text is not JSON at byte `at`.
    #[cold]
    pub fn syntax(at: usize, what: &str) -> Self {
        Self(Box::new(Inner { fault: Fault::Syntax, at, path: Vec::new(), what: what.to_owned() }))
    }

    /// The text is nested deeper than we read.
    #[cold]
    pub fn too_deep(at: usize) -> Self {
        Self::too_much(at, "nested too deeply")
    }

    /// The text has more entries in lists than we read.
    #[cold]
    pub fn too_many(at: usize) -> Self {
        Self::too_much(at, "too many entries")
    }

    fn too_much(at: usize, what: &'static str) -> Self {
        Self(Box::new(Inner { fault: Fault::TooMuch(what), at, path: Vec::new(), what: what.to_owned() }))
    }

    /// The text is JSON, but not what was wanted.
    #[cold]
    pub fn data(what: impl Into<String>) -> Self {
        Self(Box::new(Inner { fault: Fault::Data, at: 0, path: Vec::new(), what: what.into() }))
    }

    /// A required key is missing.
    #[cold]
    pub fn missing(key: &str) -> Self {
        Self::data(format!("missing field `{key}`"))
    }

    /// Adds the key or index that leads to the faulty value. Called from the inside outwards.
    #[cold]
    #[must_use]
    pub fn inside(mut self, step: impl Into<String>) -> Self {
        self.0.path.push(step.into());
        self
    }

    /// True if the text is not JSON at all (or too much to tell).
    pub fn is_syntax(&self) -> bool {
        self.0.fault != Fault::Data
    }

    /// Why the text is more than we read, if that is the reason: it is nested too deeply, or has too many entries.
    pub fn too_much_of(&self) -> Option<&'static str> {
        if let Fault::TooMuch(what) = self.0.fault { Some(what) } else { None }
    }

    /// Where the fault is, like `prompt.0.type`; empty at the root.
    pub fn path(&self) -> String {
        let mut path = String::new();
        for step in self.0.path.iter().rev() {
            if !path.is_empty() {
                path.push('.');
            }
            path.push_str(step);
        }
        path
    }

    /// What was wanted, without the place.
    pub fn what(&self) -> &str {
        &self.0.what
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(what) = self.too_much_of() {
            return write!(f, "{what} (at byte {})", self.0.at);
        }
        if self.is_syntax() {
            return write!(f, "not JSON at byte {}: {}", self.0.at, self.0.what);
        }
        match self.path() {
            path if path.is_empty() => f.write_str(&self.0.what),
            path => write!(f, "{path}: {}", self.0.what),
        }
    }
}

impl std::error::Error for Error {}
