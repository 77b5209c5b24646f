//! Which project files the user trusts: their paths, and a hash of what they said then.

use super::Error;
use crate::files::Hash;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

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

/// Writes a file of ours beside its place and then moves it there; folders are made.
pub(super) fn write_whole(path: &Path, text: &[u8]) -> std::io::Result<()> {
    // Through a link, so that a file kept elsewhere stays there.
    let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let temp = PathBuf::from(name);
    let mut options = std::fs::OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut write = || {
        let mut file = options.write(true).create(true).truncate(true).open(&temp)?;
        if let Ok(known) = std::fs::metadata(&path) {
            file.set_permissions(known.permissions())?;
        }
        file.write_all(text)?;
        file.sync_all()?;
        std::fs::rename(&temp, &path)
    };
    let written = write();
    if written.is_err() {
        let _ = std::fs::remove_file(&temp);
    }
    written
}
