//! What runs by itself later, found below the roots: so that a command can't change it, or that a change is told.

use super::Pinned;
use crate::rules::protected_names;
use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// No more entries are looked at, so that a huge folder does not hold up its commands.
const ENTRIES: usize = 20_000;
/// No more names are guarded: each is a mount.
const NAMES: usize = 500;

/// The names that run by themselves later (`.git`, `.envrc` and the like), as they were at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guarded {
    found: BTreeMap<PathBuf, Entry>,
    whole: bool,
    /// Seconds, as the file system counts them.
    at: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    device: u64,
    inode: u64,
    changed: i64,
    link: bool,
}

impl Guarded {
    /// Looks below these folders, the nearest names first. Links are not followed.
    pub(super) fn look(roots: &[Pinned]) -> Self {
        let names: Vec<Vec<&str>> = protected_names().map(|name| name.split('/').collect()).collect();
        let at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs().cast_signed());
        let mut guarded = Self { found: BTreeMap::new(), whole: true, at };
        let mut todo: VecDeque<PathBuf> = roots.iter().map(|root| root.path.clone()).collect();
        let mut left = ENTRIES;
        while let Some(folder) = todo.pop_front() {
            let around = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                if left == 0 || guarded.found.len() == NAMES {
                    guarded.whole = false;
                    return guarded;
                }
                left -= 1;
                let name = entry.file_name();
                let name = name.to_string_lossy();
                let meant = |wanted: &[&str]| match wanted {
                    [one] => name.eq_ignore_ascii_case(one),
                    [folder, one] => name.eq_ignore_ascii_case(one) && around.eq_ignore_ascii_case(folder),
                    _ => false,
                };
                let Ok(kind) = entry.file_type() else { continue };
                if names.iter().any(|wanted| meant(wanted)) {
                    // Not followed.
                    let Ok(facts) = entry.metadata() else { continue };
                    let (device, inode, changed) = (facts.dev(), facts.ino(), facts.ctime());
                    guarded.found.insert(entry.path(), Entry { device, inode, changed, link: kind.is_symlink() });
                } else if kind.is_dir() {
                    todo.push_back(entry.path());
                }
            }
        }
        guarded
    }

    /// False if there was too much to look at; names far down are not guarded then.
    pub fn is_whole(&self) -> bool {
        self.whole
    }

    /// What is new, or another one, since an earlier look.
    pub fn since(&self, before: &Self) -> Vec<&Path> {
        let new = |path: &PathBuf, entry: &Entry| match before.found.get(path) {
            Some(other) => (other.device, other.inode) != (entry.device, entry.inode),
            None => before.whole || entry.changed >= before.at,
        };
        self.found.iter().filter(|(path, entry)| new(path, entry)).map(|(path, _)| path.as_path()).collect()
    }

    /// What has to be made read-only: for a link what it leads to, if that could be written at all.
    pub(super) fn paths(&self, roots: &[Pinned], hidden: &[PathBuf]) -> Vec<PathBuf> {
        let writable = |path: &PathBuf| roots.iter().any(|root| path.starts_with(&root.path) && *path != root.path);
        // What is hidden must stay so.
        let seen = |path: &PathBuf| !hidden.iter().any(|place| path.starts_with(place));
        let real = |(path, entry): (&PathBuf, &Entry)| {
            if entry.link { path.canonicalize().ok() } else { Some(path.clone()) }
        };
        self.found.iter().filter_map(real).filter(writable).filter(seen).collect()
    }
}
