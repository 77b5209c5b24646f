//! A walk over the files of a folder that notes what tells one state of a file from another; bounded, and honest about it.

use ignore::WalkBuilder;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How much is looked at and kept.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// How many files are looked at in a folder.
    pub files: usize,
    /// How many bytes a file may have to be kept.
    pub each: u64,
    /// How many bytes are kept in all for a folder.
    pub total: u64,
    /// How long the look before a turn may take. What is not kept by then is not.
    pub time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { files: 20_000, each: 1 << 20, total: 128 << 20, time: Duration::from_secs(3) }
    }
}

/// What tells one state of a file from another without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Facts {
    pub(super) size: u64,
    pub(super) mtime: i64,
    pub(super) ctime: i64,
    pub(super) inode: u64,
    pub(super) mode: u32,
}

/// The times of files come from a clock that ticks, and may be this much behind the one that we read, in nanoseconds.
const TICK: i64 = 100_000_000;

impl Facts {
    pub(super) fn of(meta: &Metadata) -> Self {
        let nanos = |seconds: i64, rest: i64| seconds.saturating_mul(1_000_000_000).saturating_add(rest);
        Self {
            size: meta.len(),
            mtime: nanos(meta.mtime(), meta.mtime_nsec()),
            ctime: nanos(meta.ctime(), meta.ctime_nsec()),
            inode: meta.ino(),
            mode: meta.mode() & 0o1777,
        }
    }

    /// True if it changed so shortly before `time` that the next change may not show in its times.
    pub(super) fn is_fresh(&self, time: i64) -> bool {
        self.mtime.max(self.ctime) >= time.saturating_sub(TICK)
    }

    /// True if it was there before `time`, as far as its times tell.
    pub(super) fn is_before(&self, time: i64) -> bool {
        self.ctime < time.saturating_sub(TICK)
    }
}

/// Folders of keys: changes in them are seen, but nothing of them is copied or shown.
const KEYS: [&str; 6] = [".ssh", ".gnupg", ".aws", ".kube", ".docker", ".password-store"];

/// True for a file whose content is nobody's business.
pub(super) fn is_private(name: &str) -> bool {
    name.split('/').any(|part| KEYS.contains(&part))
}

/// What a walk found.
#[derive(Debug, Default)]
pub(super) struct Walked {
    /// The files by their path below the folder.
    pub(super) files: BTreeMap<String, Facts>,
    /// The folders.
    pub(super) folders: BTreeSet<String>,
    /// True if there were more than allowed.
    pub(super) cut: bool,
    /// What was not looked at, in words.
    pub(super) uncovered: BTreeSet<String>,
}

/// Walks over a folder, without what version control ignores and without `skip`. Links are not followed.
pub(super) fn walk(root: &Path, skip: &[PathBuf], limits: &Limits, until: Instant) -> Walked {
    let mut walked = Walked::default();
    let skip = skip.to_owned();
    let walk = WalkBuilder::new(root)
        .hidden(false)
        .require_git(false)
        .follow_links(false)
        .filter_entry(move |entry| entry.file_name() != ".git" && skip.iter().all(|skip| entry.path() != skip))
        .sort_by_file_name(std::cmp::Ord::cmp)
        .build();
    for entry in walk {
        let Ok(entry) = entry else {
            walked.uncovered.insert("folders that can't be read".into());
            continue;
        };
        let Some(kind) = entry.file_type().filter(|_| entry.depth() > 0) else { continue };
        let Some(name) = entry.path().strip_prefix(root).ok().and_then(Path::to_str) else {
            walked.uncovered.insert("files whose names are not UTF-8".into());
            continue;
        };
        if kind.is_dir() {
            walked.folders.insert(name.to_owned());
            continue;
        }
        if entry.file_name() == ".gitignore" {
            walked.uncovered.insert("what .gitignore names".into());
        }
        if !kind.is_file() {
            continue;
        }
        if walked.files.len() >= limits.files {
            walked.cut = true;
            walked.uncovered.insert(format!("files beyond the first {}", limits.files));
            break;
        }
        if walked.files.len() % 256 == 0 && Instant::now() >= until {
            walked.cut = true;
            walked.uncovered.insert(format!("files that were not seen within {} s", limits.time.as_secs()));
            break;
        }
        // Gone in between: as if it had never been there.
        if let Ok(meta) = entry.metadata() {
            walked.files.insert(name.to_owned(), Facts::of(&meta));
        }
    }
    walked
}
