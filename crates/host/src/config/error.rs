//! What is wrong with a configuration, in words for the person who has to mend it.

use std::fmt;
use std::path::{Path, PathBuf};

/// A configuration that can't be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// The file, if it is about one.
    pub path: Option<PathBuf>,
    /// The line in it, counted from 1.
    pub line: Option<usize>,
    /// What is wrong, and what to type.
    pub why: String,
}

impl Error {
    /// Something that no file is to blame for.
    pub fn new(why: impl Into<String>) -> Self {
        Self { path: None, line: None, why: why.into() }
    }

    /// Something in a file.
    pub fn at(path: &Path, line: impl Into<Option<usize>>, why: impl Into<String>) -> Self {
        Self { path: Some(path.to_owned()), line: line.into(), why: why.into() }
    }

    /// A file that the system did not give or take.
    pub fn io(path: &Path, doing: &str, error: &std::io::Error) -> Self {
        Self::at(path, None, format!("{doing} failed: {error}"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.path, self.line) {
            (Some(path), Some(line)) => write!(f, "{}:{line}: {}", crate::roots::shown(path), self.why),
            (Some(path), None) => write!(f, "{}: {}", crate::roots::shown(path), self.why),
            _ => f.write_str(&self.why),
        }
    }
}

impl std::error::Error for Error {}

/// The candidate that looks most like `word`, if one does.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    let far = ((word.chars().count() + 1) / 3).max(1);
    let near = candidates.into_iter().filter(|name| *name != "*").map(|name| {
        let begins = !word.is_empty() && name.to_lowercase().starts_with(&word);
        let distance = if begins { 1 } else { strsim::damerau_levenshtein(&word, &name.to_lowercase()) };
        (distance, name.len().abs_diff(word.len()), name)
    });
    near.filter(|(distance, ..)| *distance <= far).min().map(|(.., name)| name)
}

/// The same as the end of a sentence: `; did you mean …?`, or nothing.
pub fn did_you_mean<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, candidates).map(|name| format!("; did you mean `{name}`?")).unwrap_or_default()
}
