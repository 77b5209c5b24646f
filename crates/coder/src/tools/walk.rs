//! The walk that `glob` and `grep` share: files below a folder, through directory handles, without what is ignored.

use globset::GlobMatcher;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use std::ffi::OsStr;
use std::iter::successors;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tieline_host::files::{EntryKind, Files};
use tieline_host::roots::{self, Place};

/// A walk ends when it has found so many files.
const MAX_FILES: usize = 200_000;
/// A longer list of what to ignore is not read.
const MAX_LIST_BYTES: u64 = 1 << 20;

/// Stops a walk in another thread when the call is dropped.
#[derive(Default)]
pub struct Stop(pub Arc<AtomicBool>);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The lists of what to ignore that hold in a folder: those of the folders above it first, its own last.
type Ignored = Arc<Vec<Arc<[Gitignore]>>>;

/// The nearest list that names a path decides.
fn hides(ignored: &[Arc<[Gitignore]>], path: &Path, folder: bool) -> bool {
    let lists = ignored.iter().rev().flat_map(|lists| lists.iter());
    lists.map(|list| list.matched(path, folder)).find(|found| !found.is_none()).is_some_and(|found| found.is_ignore())
}

/// Files below a folder, in the order of their paths, without what version control ignores. Links are not followed, and
/// each folder is opened by its handle: whoever swaps one for a link meanwhile gets nothing walked but its name.
pub fn walk(files: &Files, top: &Place, glob: Option<&GlobMatcher>, stop: &AtomicBool) -> Vec<Place> {
    let start = top.real_path();
    let fits = |place: &Place| {
        let path = place.real_path();
        let below = path.strip_prefix(&start).unwrap_or(&path);
        glob.is_none_or(|glob| glob.is_match(below) || below.as_os_str().is_empty())
    };
    let mut found = Vec::new();
    let above: Vec<Place> = successors(top.parent_folder(), Place::parent_folder).collect();
    let ignored: Ignored = Arc::new(above.iter().rev().map(|folder| lists(files, folder)).collect());
    let mut todo = vec![(top.clone(), true, ignored)];
    while let Some((place, folder, mut ignored)) = todo.pop() {
        if stop.load(Ordering::Relaxed) || found.len() >= MAX_FILES {
            break;
        }
        if !folder {
            found.extend(fits(&place).then_some(place));
            continue;
        }
        let listing = match files.list(&place) {
            Ok(listing) => listing,
            // A file that was asked for by name.
            Err(roots::Error::NotDirectory(_)) if place.relative() == top.relative() => return vec![place],
            Err(_) => continue,
        };
        Arc::make_mut(&mut ignored).push(lists(files, &place));
        for entry in listing.entries.into_iter().rev() {
            let inner = place.join(&entry.name);
            let folder = entry.kind == EntryKind::Directory;
            let wanted = folder || entry.kind == EntryKind::File;
            if wanted && entry.name != ".git" && !hides(&ignored, &inner.real_path(), folder) {
                todo.push((inner, folder, Arc::clone(&ignored)));
            }
        }
    }
    found
}

/// The lists in a folder, the one that counts most first.
fn lists(files: &Files, folder: &Place) -> Arc<[Gitignore]> {
    [&[".ignore"][..], &[".gitignore"], &[".git", "info", "exclude"]]
        .iter()
        .filter_map(|names| {
            let place = names.iter().fold(folder.clone(), |place, name| place.join(OsStr::new(name)));
            let bytes = files.read_bytes(&place).ok()?.bytes;
            if bytes.len() as u64 > MAX_LIST_BYTES {
                return None;
            }
            let mut list = GitignoreBuilder::new(folder.real_path());
            for line in String::from_utf8_lossy(&bytes).lines() {
                // A line that can't be understood ignores nothing.
                let _ = list.add_line(None, line);
            }
            list.build().ok()
        })
        .collect()
}
