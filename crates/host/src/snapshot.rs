//! What files were before a turn changed them, and the way back: a turn, a file, or one place in a file.
//!
//! Nothing here knows of version control. Old contents lie in a directory of the caller's, once each, up to a limit; then
//! those of the oldest turns are dropped. A record is on disk before the change it is about happens, so it survives
//! whatever happens next.

mod base;
mod hunks;
mod index;
mod undo;
mod walk;

pub use base::{Base, Difference, Look};
pub use hunks::Hunk;
pub use undo::{Contents, Refused, Undone, Why};
pub use walk::Limits;

use crate::{
    files::{Files, Found, State},
    roots::{Error, Place, Result},
};
use index::{Disk, Entry, Index, Name};
use serde::{Deserialize, Serialize};
use std::{
    collections::HashSet,
    fs::File,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard},
    time::SystemTime,
};
use tieline_rpc::sync::Lock;

/// How many files are remembered in all; beyond that the oldest turns are forgotten.
const MAX_ENTRIES: usize = 5_000;

/// The snapshots of one session. Several processes may have them open: the agent that works, and the client that watches it.
#[derive(Debug)]
pub struct Snapshots {
    disk: Disk,
    limit: u64,
    index: Mutex<Index>,
}

/// Records the changes of one turn; give it to [`Files::with_journal`].
#[derive(Debug)]
pub struct Recorder {
    snapshots: Arc<Snapshots>,
    turn: String,
    /// The turns that there were when it began.
    known: HashSet<String>,
}

/// A change of one file, wherever it is now and whether or not its path still leads there.
#[derive(Debug)]
pub struct Made<'a> {
    /// The root, without links.
    pub root: PathBuf,
    /// The path below it.
    pub path: PathBuf,
    /// What was there.
    pub before: State,
    /// The content of that, if it is known.
    pub content: Option<&'a [u8]>,
    /// What is there now.
    pub after: State,
    /// Directories made for it, relative to the root, outermost first.
    pub directories: &'a [PathBuf],
    /// Somebody else changed it as well, so that it can't be put back without their part.
    pub mixed: bool,
}

impl<'a> Made<'a> {
    /// A change of what was found at a place.
    pub(crate) fn at(place: &Place, found: Option<&'a Found>, after: State) -> Self {
        let root = place.root();
        Self {
            root: root.real_path().unwrap_or(root.given_path()).to_path_buf(),
            path: place.relative().to_path_buf(),
            before: Found::state_of(found),
            content: found.and_then(|found| found.content.as_deref()),
            after,
            directories: &[],
            mixed: false,
        }
    }
}

/// How a turn changed a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// It wasn't there before.
    Added,
    /// It has another content.
    Modified,
    /// It is gone.
    Deleted,
}

impl Kind {
    /// What leads from one state to another.
    pub fn of(before: State, after: State) -> Self {
        match (before, after) {
            (State::Missing, _) => Self::Added,
            (_, State::Missing) => Self::Deleted,
            _ => Self::Modified,
        }
    }
}

/// A file that a turn changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// The whole path.
    pub path: PathBuf,
    /// How.
    pub kind: Kind,
    /// Whether it can be undone; false if the old content was dropped for want of room.
    pub kept: bool,
    /// Whether it was undone since, all of it.
    pub undone: bool,
}

impl Snapshots {
    /// Opens a directory of snapshots, made if it isn't there, that holds up to `limit` bytes of old contents. An index that
    /// can't be read is put aside as `index.damaged`.
    pub fn open(dir: impl Into<PathBuf>, limit: u64) -> Result<Arc<Self>> {
        let (disk, index) = Disk::open(dir.into())?;
        Ok(Arc::new(Self { disk, limit, index: Mutex::new(index) }))
    }

    /// Starts to record a turn, or goes on with one.
    pub fn begin(self: &Arc<Self>, turn: impl Into<String>) -> Arc<Recorder> {
        let known = self.turns().into_iter().collect();
        Arc::new(Recorder { snapshots: self.clone(), turn: turn.into(), known })
    }

    /// Goes on with the turn that somebody [announced](Self::announce), so that what both record is one turn; without that,
    /// starts this one.
    pub fn join(self: &Arc<Self>, turn: impl Into<String>) -> Arc<Recorder> {
        self.begin(self.disk.announced().unwrap_or_else(|| turn.into()))
    }

    /// Tells whoever else records here which turn is under way, until the result is dropped.
    pub fn announce(&self, turn: &str) -> Result<File> {
        self.disk.announce(turn)
    }

    /// The turns that are remembered, oldest first.
    pub fn turns(&self) -> Vec<String> {
        self.lock().turns.iter().map(|turn| turn.id.clone()).collect()
    }

    /// The files a turn changed, in the order it first touched them. Those that were undone, or are as they were, are not
    /// among them.
    pub fn changed(&self, turn: &str) -> Vec<Changed> {
        self.remembered(turn).into_iter().filter(|changed| !changed.undone).collect()
    }

    /// The files a turn changed, also those that were undone since.
    pub fn remembered(&self, turn: &str) -> Vec<Changed> {
        let index = self.lock();
        let entries = index.turns.iter().filter(|other| other.id == turn).flat_map(|turn| &turn.entries);
        let changed = |entry: &Entry| {
            let after = if entry.undone { entry.prior.unwrap_or(entry.after) } else { entry.after };
            let kind = Kind::of(entry.before, after);
            Changed { path: entry.full_path(), kind, kept: entry.kept, undone: entry.undone }
        };
        entries.filter(|entry| entry.undone || entry.in_effect()).map(changed).collect()
    }

    /// What a file was before a turn changed it, and its content, if that is known.
    pub fn before_turn(&self, turn: &str, path: &Path) -> Option<(State, Option<Vec<u8>>)> {
        let entry = self.lock().entry(turn, path).cloned()?;
        self.before(&entry).ok().map(|content| (entry.before, content))
    }

    /// Whether what a turn changed in a file was undone since, all of it.
    pub fn is_undone(&self, turn: &str, path: &Path) -> bool {
        self.lock().entry(turn, path).is_some_and(|entry| entry.undone)
    }

    /// What is remembered now: another process may have added to it.
    fn lock(&self) -> MutexGuard<'_, Index> {
        let mut index = self.index.locked();
        if let Some(now) = self.disk.load_newer(&index) {
            *index = now;
        }
        index
    }

    /// Changes what is remembered, alone among all processes. The work says whether contents were dropped.
    fn change(&self, work: impl FnOnce(&mut Index) -> Result<bool>) -> Result<()> {
        let _alone = self.disk.lock()?;
        let mut index = self.lock();
        // Whatever comes of it, no file says this yet.
        index.stamp = None;
        let dropped = work(&mut index)?;
        self.disk.save(&index)?;
        if dropped {
            self.disk.tidy(&index);
        }
        Ok(())
    }

    /// `ours`: what is there now came about through the turn.
    fn record(&self, turn: &str, change: Made<'_>, ours: bool) -> Result<()> {
        self.change(|index| self.note(index, turn, change, ours))
    }

    /// Adds a change to the index; true if old contents were dropped for it.
    fn note(&self, index: &mut Index, turn: &str, change: Made<'_>, ours: bool) -> Result<bool> {
        let path = change.root.join(&change.path);
        let mut dropped = false;
        let count: usize = index.turns.iter().map(|turn| turn.entries.len()).sum();
        if count >= MAX_ENTRIES
            && let Some(oldest) = index.turns.iter().position(|other| other.id != turn)
        {
            index.turns.remove(oldest);
            dropped = true;
        }
        let at = index.turn(turn);
        let directories = change.directories.iter().cloned().map(Name);
        if let Some(entry) = index.turns[at].entries.iter_mut().find(|entry| entry.full_path() == path) {
            entry.mixed |=
                change.mixed || !ours && !entry.ours(&change.before) && !entry.before.same_content(&change.before);
            entry.prior = Some(entry.after);
            entry.after = change.after;
            entry.undone = false;
            entry.directories.extend(directories);
        } else {
            let kept = match (change.before, change.content) {
                (State::Missing, _) => true,
                (State::File { hash, .. } | State::Link { hash, .. }, Some(content)) => {
                    let before: HashSet<_> = index.blobs().into_keys().collect();
                    let fits = index.make_room(at, hash, content.len() as u64, self.limit);
                    dropped |= index.blobs().len() < before.len();
                    // Before a change, one that can't be remembered is not made. Afterwards it only can't be undone.
                    match fits.then(|| self.disk.put(hash, content)) {
                        Some(Err(error)) if !ours => return Err(error),
                        put => put.is_some_and(|put| put.is_ok()),
                    }
                }
                _ => false,
            };
            index.turns[at].entries.push(Entry {
                root: Name(change.root),
                path: Name(change.path),
                before: change.before,
                after: change.after,
                prior: None,
                kept,
                directories: directories.collect(),
                undone: false,
                mixed: change.mixed,
            });
        }
        Ok(dropped)
    }
}

impl Recorder {
    /// Notes a change that is about to happen; when this returns, the record is safe.
    pub(crate) fn changing(&self, change: Made<'_>) -> Result<()> {
        self.snapshots.record(&self.turn, change, false)
    }

    /// The turn it records.
    pub fn turn(&self) -> &str {
        &self.turn
    }

    /// Notes changes that something else has made already, all in one step. What an undo put back meanwhile is remembered as
    /// that undo, and not again.
    pub fn made(&self, changes: Vec<Made<'_>>) -> Result<()> {
        self.snapshots.change(|index| {
            let undone = self.undone_in(index);
            let mut dropped = false;
            for mut change in changes {
                let path = change.root.join(&change.path);
                if undone.iter().any(|(known, after)| *known == path && after.same_content(&change.after)) {
                    continue;
                }
                // What was noted on the way may be too young: a command of the same turn had changed the file before.
                if let Some(entry) = index.entry(&self.turn, &path)
                    && (change.content.is_some() || change.before == State::Missing)
                    && !entry.before.same_content(&change.before)
                {
                    change.mixed |= entry.mixed;
                    let at = index.turn(&self.turn);
                    index.turns[at].entries.retain(|entry| entry.full_path() != path);
                }
                dropped |= self.snapshots.note(index, &self.turn, change, true)?;
            }
            Ok(dropped)
        })
    }

    /// What undos have put back since it began: the files, and what they left there.
    pub fn undone(&self) -> Vec<(PathBuf, State)> {
        self.undone_in(&self.snapshots.lock())
    }

    fn undone_in(&self, index: &Index) -> Vec<(PathBuf, State)> {
        let undos = index.turns.iter().filter(|turn| is_undo(&turn.id) && !self.known.contains(&turn.id));
        undos.flat_map(|turn| &turn.entries).map(|entry| (entry.full_path(), entry.after)).collect()
    }

    /// Notes what a file is before something else than [`Files`] changes it, such as the client or a command.
    pub fn before(&self, files: &Files, place: &Place) -> Result<()> {
        self.note(files, place, false)
    }

    /// Notes what the file is after that.
    pub fn after(&self, files: &Files, place: &Place) -> Result<()> {
        self.note(files, place, true)
    }

    fn note(&self, files: &Files, place: &Place, ours: bool) -> Result<()> {
        let found = files.look(place)?;
        let change = Made::at(place, found.as_ref(), Found::state_of(found.as_ref()));
        self.snapshots.record(&self.turn, change, ours)
    }
}

/// Whether a turn of this name is what an undo is remembered as.
pub fn is_undo(turn: &str) -> bool {
    turn.contains("~undo")
}

/// What the session of a folder of snapshots left in files, if anything was recorded there since.
pub fn left_since(dir: &Path, since: SystemTime) -> Vec<(PathBuf, State)> {
    let index = Disk::at(dir).changed_since(since);
    let entries = index.into_iter().flat_map(|index| index.turns).flat_map(|turn| turn.entries);
    entries.map(|entry| (entry.full_path(), entry.after)).collect()
}

/// Whether a turn is [announced](Snapshots::announce) in a folder of snapshots.
pub fn is_under_way(dir: &Path) -> bool {
    Disk::at(dir).announced().is_some()
}

/// The place an entry is about, if its path still leads there without a link.
fn place_of(files: &Files, path: &Path) -> Result<Place> {
    let place = files.roots().resolve_entry(path)?;
    if place.real_path() == path { Ok(place) } else { Err(Error::Changed(path.to_path_buf())) }
}
