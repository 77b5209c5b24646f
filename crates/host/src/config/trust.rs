//! Which project files the user trusts: their paths, and a hash of what they said then.

use super::Error;
use crate::files::Hash;
use crate::whole::write_whole;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// What is remembered.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Trusted {
    files: BTreeMap<String, String>,
}

impl Trusted {
    /// Reads what is remembered; nothing if that can't be read.
    pub(super) fn load(path: Option<&Path>) -> Self {
        let text = path.and_then(|path| std::fs::read(path).ok());
        text.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
    }

    /// True if this very text was trusted at this place.
    pub(super) fn has(&self, path: &Path, text: &str) -> bool {
        self.files.get(&name(path)) == Some(&Hash::of(text.as_bytes()).to_string())
    }

    /// True if another text was trusted at this place.
    pub(super) fn knew(&self, path: &Path) -> bool {
        self.files.contains_key(&name(path))
    }

    pub(super) fn add(&mut self, path: &Path, text: &str) {
        self.files.insert(name(path), Hash::of(text.as_bytes()).to_string());
    }

    pub(super) fn remove(&mut self, path: &Path) -> bool {
        self.files.remove(&name(path)).is_some()
    }

    /// Writes it whole or not at all.
    pub(super) fn save(&self, path: &Path) -> Result<(), Error> {
        let failed = |error: &std::io::Error| Error::io(path, "remembering what is trusted", error);
        let text = serde_json::to_vec_pretty(self).map_err(|error| failed(&std::io::Error::other(error)))?;
        write_whole(path, &text).map_err(|error| failed(&error))
    }
}

fn name(path: &Path) -> String {
    let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    crate::roots::shown(&real)
}
