//! Files that the client reads and writes for an agent, kept below the roots of its session.

use std::path::{Path, PathBuf};
use tieline::{Error, Raw, WireError};
use tieline_host::files::{Expect, Files, Text, Write, Written};
use tieline_host::roots::{self, Place, Roots};
use tieline_host::rules::Location;
use tieline_host::text;

/// So much is told of why something is denied: a path in it may be of any length.
const MAX_TOLD_CHARACTERS: usize = 2000;

/// Text that is on a screen and not saved yet. What it gives is what the agent reads.
pub trait Unsaved: Send + Sync + 'static {
    /// The text of a file (a whole path without links) as the user sees it; `None` if it is as on disk.
    fn text(&self, path: &Path) -> Option<String>;
}

/// What to do about a path that is outside the roots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Outside {
    /// Refuse it.
    #[default]
    Refuse,
    /// Judge it like any other: rules can allow it, otherwise it is asked.
    Ask,
}

/// A file that may be used, and the files it is among.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) files: Files,
    pub(crate) place: Place,
    /// It is not below a root of the session.
    pub(crate) outside: bool,
    /// The path as the agent gave it.
    given: PathBuf,
}

impl Target {
    /// Finds out what a path means. One outside the roots is found only if `outside` says so.
    pub(crate) fn find(files: &Files, path: &str, outside: Outside) -> roots::Result<Self> {
        match files.roots().resolve(path) {
            Ok(place) => Ok(Self { files: files.clone(), place, outside: false, given: path.into() }),
            Err(roots::Error::Outside { .. }) if outside == Outside::Ask => Self::find_outside(files, path),
            Err(error) => Err(error),
        }
    }

    /// The folder of the file is a root for this one file.
    fn find_outside(files: &Files, path: &str) -> roots::Result<Self> {
        let real = crate::permission::real(Path::new(path));
        let bad = |why| roots::Error::BadPath { path: PathBuf::from(path), why };
        let parent = real.parent().ok_or_else(|| bad("it has no name"))?;
        let parent = parent.ancestors().find(|folder| folder.is_dir()).ok_or_else(|| bad("its folder is not there"))?;
        let around = Roots::new(parent, [] as [&Path; 0])?;
        let place = around.resolve(&real)?;
        Ok(Self { files: files.in_roots(around), place, outside: true, given: path.into() })
    }

    /// What rules look at.
    pub(crate) fn location(&self) -> Location {
        if self.outside {
            Location::outside(self.place.real_path()).called([self.given.clone()])
        } else {
            self.place.location()
        }
    }

    /// Reads lines of a text, counted from 1.
    pub(crate) fn read(&self, line: Option<u32>, limit: Option<u32>) -> roots::Result<String> {
        self.whole().map(|text| lines_of(text.text, line, limit))
    }

    /// The whole text and which version it is.
    pub(crate) fn whole(&self) -> roots::Result<Text> {
        self.files.read_text(&self.place)
    }

    /// Writes the whole text; creates the file and its folders if need be.
    pub(crate) fn write(&self, content: &str, expect: Expect) -> roots::Result<Written> {
        let how = Write::expecting(expect).with_parents();
        self.files.write(&self.place, content.as_bytes(), &how)
    }
}

/// Some lines of a text, the first one counted from 1, with their line ends.
pub(crate) fn lines_of(text: String, line: Option<u32>, limit: Option<u32>) -> String {
    if line.unwrap_or(1) <= 1 && limit.is_none() {
        return text;
    }
    let skip = line.unwrap_or(1).saturating_sub(1) as usize;
    let take = limit.map_or(usize::MAX, |limit| limit as usize);
    text.split_inclusive('\n').skip(skip).take(take).collect()
}

/// -32003 with the reason `permission_denied`, and in words why.
pub(crate) fn denied(cause: &str, why: &str) -> Error {
    let why = text::cut(why, MAX_TOLD_CHARACTERS);
    let data = serde_json::json!({ "reason": "permission_denied", "cause": cause, "detail": why });
    Error::Wire(WireError::new(-32003, "Permission denied").data(Raw::of(&data).unwrap_or_else(|_| data.into())))
}

/// What an agent is told when a file can't be had.
pub(crate) fn told(error: &roots::Error, path: &str) -> Error {
    match error {
        roots::Error::Outside { .. } | roots::Error::OtherMount(_) => denied("outside_workspace", &error.to_string()),
        roots::Error::ReadOnly(_) | roots::Error::HardLinked { .. } => denied("not_writable", &error.to_string()),
        // Some agents look for `ENOENT` before they dare to create a file.
        roots::Error::NotFound(_) => Error::Wire(
            WireError::new(-32002, "Resource not found: ENOENT, no such file or directory").with("uri", path),
        ),
        roots::Error::Changed(_) | roots::Error::Raced(_) => Error::Wire(
            WireError::new(-32603, "The file changed meanwhile; try again").with("reason", &error.to_string()),
        ),
        roots::Error::Io { .. } => Error::Wire(WireError::internal().with("reason", &error.to_string())),
        other => Error::invalid_params(other),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn lines() {
        for (text, line, limit, want) in [
            ("a\nb\nc", Some(1), None, "a\nb\nc"),
            ("a\nb\nc\n", Some(2), Some(1), "b\n"),
            ("a\r\nb\r\n", None, Some(1), "a\r\n"),
            ("a\nb\n", Some(0), Some(9), "a\nb\n"),
            ("a\nb\n", Some(3), None, ""),
            ("a\nb\n", Some(u32::MAX), Some(u32::MAX), ""),
            ("a\n", Some(1), Some(0), ""),
            ("", None, None, ""),
        ] {
            assert_eq!(super::lines_of(text.into(), line, limit), want, "{text:?} {line:?} {limit:?}");
        }
    }
}
