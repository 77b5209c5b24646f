//! The links below the roots, so that a file is known by all names that lead to it: what a rule denies by the name of a link it denies by
//! every other name as well, to who reads and to commands alike.

use super::Rule;
use crate::roots::promise;
use std::collections::{HashMap, HashSet, VecDeque};
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// No more entries are looked at. The nearest come first.
const MAX_ENTRIES: usize = 400_000;
/// No look takes longer.
const MAX_TIME: Duration = Duration::from_secs(2);
/// No more links are kept.
const MAX_LINKS: usize = 20_000;
/// No more of what they led to is remembered.
const MAX_SEEN: usize = 2 * MAX_LINKS;
/// No more names of one file are looked at, over no more links.
const MAX_NAMES: usize = 64;
const MAX_STEPS: usize = 4;

/// What links lead to, and the links.
#[derive(Debug, Default)]
pub(super) struct Links(HashMap<PathBuf, Vec<PathBuf>>);

impl Links {
    /// The links below these folders, and those that rules themselves go through, wherever they are.
    pub(super) fn find<'r>(folders: &[PathBuf], rules: impl Iterator<Item = &'r Rule>) -> Self {
        let mut links = Self::default();
        for begin in rules.flat_map(|rule| rule.begins(folders)) {
            if let Some(real) = promise(&begin) {
                links.add(begin, real);
            }
        }
        let (begun, mut left) = (Instant::now(), MAX_ENTRIES);
        let tops: HashSet<PathBuf> = folders.iter().filter_map(|folder| folder.canonicalize().ok()).collect();
        let is_inner = |top: &Path| top.ancestors().skip(1).any(|outer| tops.contains(outer));
        let mut todo: VecDeque<PathBuf> = tops.iter().filter(|top| !is_inner(top)).cloned().collect();
        while let Some(folder) = todo.pop_front() {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                if left == 0 || links.0.len() >= MAX_LINKS || begun.elapsed() > MAX_TIME {
                    return links;
                }
                left -= 1;
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() && !entry.path().ends_with(".git/objects") => {
                        todo.push_back(entry.path());
                    }
                    Ok(kind) if kind.is_symlink() => {
                        let path = entry.path();
                        if let Some(real) = followed(&path) {
                            links.add(path, real);
                        }
                    }
                    _ => {}
                }
            }
        }
        links
    }

    /// Adds what was seen before, and remembers what is new: a file that a rule denies by the name of a link is not free when the link is
    /// gone. What was seen first is never pushed out.
    pub(super) fn remember(&mut self, seen: &mut Self) {
        for (real, links) in &self.0 {
            if seen.0.len() < MAX_SEEN || seen.0.contains_key(real) {
                links.iter().take(MAX_NAMES).for_each(|link| seen.add(link.clone(), real.clone()));
            }
        }
        for (real, links) in &seen.0 {
            for link in links {
                self.add(link.clone(), real.clone());
            }
        }
    }

    fn add(&mut self, link: PathBuf, real: PathBuf) {
        if link != real {
            let links = self.0.entry(real).or_default();
            if !links.contains(&link) {
                links.push(link);
            }
        }
    }

    /// The other names of what is at a path without links.
    pub(super) fn names(&self, real: &Path) -> Vec<PathBuf> {
        let mut names: Vec<PathBuf> = Vec::new();
        let mut last = vec![real.to_owned()];
        for _ in 0..MAX_STEPS {
            let mut next = Vec::new();
            for path in &last {
                for above in path.ancestors().filter(|above| self.0.contains_key(*above)) {
                    let below = path.strip_prefix(above).unwrap_or(Path::new(""));
                    let plain = |link: &PathBuf| if above == path { link.clone() } else { link.join(below) };
                    next.extend(self.0[above].iter().map(plain));
                }
            }
            next.retain(|name| name != real && !names.contains(name));
            next.truncate(MAX_NAMES.saturating_sub(names.len()));
            if next.is_empty() {
                break;
            }
            names.extend(next.iter().cloned());
            last = next;
        }
        names
    }
}

impl Hash for Links {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let mut all: Vec<_> = self.0.iter().collect();
        all.sort_unstable();
        all.hash(hasher);
    }
}

/// Where a link leads, also if nothing is there yet.
fn followed(link: &Path) -> Option<PathBuf> {
    link.canonicalize().ok().or_else(|| promise(&link.parent()?.join(fs::read_link(link).ok()?)))
}
