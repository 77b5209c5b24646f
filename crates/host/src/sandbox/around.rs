//! What lies around the roots and leads elsewhere: settings of the home and of the folders above that run by themselves later, and
//! the links in them.

use super::{Pinned, guard, named};
use crate::later;
use crate::roots::promise;
use std::collections::{BTreeSet, VecDeque};
use std::env;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tieline_rpc::sync::Lock as _;

/// No more entries are looked at, the nearest ones first.
const MAX_ENTRIES: usize = 20_000;
/// So deep in the home folders lie that have such names in them: `.local/share`.
const MAX_FOLDERS_AROUND: usize = 2;
/// So deep below what runs by itself later links are looked for.
pub(super) const STEPS_TO_SETTINGS: usize = 4;
/// So long what lies around the roots is not looked at again: no command can change it.
pub(super) const HOLDS: Duration = Duration::from_secs(10);

/// The place that a variable names, if it does.
pub(super) fn place(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// What runs by itself later in the home and in the folders above the roots.
pub(super) fn settings(roots: &[Pinned]) -> Vec<PathBuf> {
    let above = roots.iter().flat_map(|root| root.path.ancestors().skip(1)).map(Path::to_owned);
    let homes = env::home_dir().into_iter().chain(place("ZDOTDIR"));
    let mut folders: BTreeSet<PathBuf> = above.chain(homes).collect();
    folders.remove(Path::new("/"));
    let mut all = Vec::new();
    for folder in folders.into_iter().filter(|folder| roots.iter().all(|root| !folder.starts_with(&root.path))) {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        scan(&folder, &name, MAX_FOLDERS_AROUND, &mut all);
    }
    for (variable, name) in [("XDG_CONFIG_HOME", ".config"), ("XDG_DATA_HOME", "share")] {
        if let Some(folder) = place(variable) {
            scan(&folder, name, 0, &mut all);
        }
    }
    all.extend(named::ways(roots));
    all
}

/// Adds what counts in a folder that is called so, or stands for one that is, and in those in it that may hold more.
fn scan(folder: &Path, around: &str, steps: usize, all: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten().take(MAX_ENTRIES) {
        let (name, path) = (entry.file_name().to_string_lossy().into_owned(), entry.path());
        if later::is_guarded(around, &name) {
            all.push(path);
        } else if steps > 0 && later::is_around(&name) {
            // Whatever comes to be in it later counts where it leads to.
            all.extend(entry.file_type().is_ok_and(|kind| kind.is_symlink()).then(|| path.clone()));
            scan(&path, &name, steps - 1, all);
        }
    }
}

/// The links at and some steps below these, the nearest first. Who links settings or keys links a file or a folder near the top.
/// Also files with several names: these themselves, and if they are wanted all that are found.
pub(super) fn links(tops: Vec<PathBuf>, steps: usize, several_names: bool) -> Vec<(PathBuf, fs::Metadata)> {
    let mut all = Vec::new();
    let mut left = MAX_ENTRIES;
    let mut todo: VecDeque<(PathBuf, usize)> = tops.into_iter().map(|top| (top, 0)).collect();
    while let Some((path, depth)) = todo.pop_front() {
        let Ok(facts) = fs::symlink_metadata(&path) else { continue };
        if facts.is_symlink() || (facts.is_file() && facts.nlink() > 1) {
            all.push((path, facts));
        } else if facts.is_dir() && depth < steps && !guard::is_history(&path) {
            for entry in fs::read_dir(&path).into_iter().flatten().flatten().take(left) {
                left -= 1;
                if several_names || entry.file_type().is_ok_and(|kind| !kind.is_file()) {
                    todo.push_back((entry.path(), depth + 1));
                }
            }
        }
    }
    all
}

/// Whether a setting of the home that runs by itself later leads to this path, without links, or around it.
pub(crate) fn leads_to(path: &Path) -> bool {
    static KNOWN: Mutex<Option<(Instant, Vec<PathBuf>)>> = Mutex::new(None);
    let mut known = KNOWN.locked();
    let fresh = known.take().filter(|(when, _)| when.elapsed() < HOLDS);
    let (_, places) = known.insert(fresh.unwrap_or_else(|| {
        let links = links(settings(&[]), STEPS_TO_SETTINGS, false).into_iter().filter(|(_, facts)| facts.is_symlink());
        (
            Instant::now(),
            links.filter_map(|(link, _)| promise(&link.parent()?.join(fs::read_link(&link).ok()?))).collect(),
        )
    }));
    places.iter().any(|place| path.starts_with(place))
}
