//! What files were before a turn changed them, and the way back: a turn, a file, or one place in a file.
//!
//! Nothing here knows of version control. Old contents lie in a directory of the caller's, once each, up to a limit; then
//! those of the oldest turns are dropped. A record is on disk before the change it is about happens, so it survives
//! whatever happens next.

mod base;
mod hunks;
mod index;
mod open;
mod undo;
mod walk;

pub use base::{Base, Difference, Left};
pub use hunks::Hunk;
pub use open::{Open, cut_off};
pub use undo::{Contents, Refused, Undone, Why};
pub use walk::{Facts, Limits, Look};

use crate::{
    files::{Files, Found, State},
    roots::{Error, Place, Result},
};
use index::{Beyond, Disk, Entry, Folder, Index, Name};
use serde::{Deserialize, Serialize};
use std::{
    collections::{HashMap, HashSet},
    fs::File,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
    time::SystemTime,
};
use tieline_rpc::sync::Lock;

/// How many files of one turn are remembered, as many as a look covers; of more, those that matter less are only known by name.
const MAX_TURN_ENTRIES: usize = 20_000;

/// How many files are remembered in all; beyond that the oldest turns are forgotten.
const MAX_ENTRIES: usize = 2 * MAX_TURN_ENTRIES;

/// Of more files at once not each one is made durable, but the file system, once.
const MAX_SYNCED_FILES: usize = 20;

/// The snapshots of one session. Several processes may have them open: the agent that works, and the client that watches it.
#[derive(Debug)]
pub struct Snapshots {
    /// Without one, all is forgotten with this.
    disk: Option<Disk>,
    limit: u64,
    index: Mutex<Index>,
    writes: AtomicU64,
    /// The turns that were forgotten since somebody asked.
    forgotten: Mutex<Vec<String>>,
}

/// Records the changes of one turn; give it to [`Files::with_journal`].
#[derive(Debug)]
pub struct Recorder {
    snapshots: Arc<Snapshots>,
    turn: String,
    /// The turns that there were when it began.
    known: HashSet<String>,
    /// Somebody else sees to it that what commands change is remembered.
    watched: bool,
    /// How the folders were before each command, as long as it runs.
    commands: Mutex<Vec<Vec<Base>>>,
    /// Held from the first command on, so that everybody sees that somebody is at work.
    at_work: Mutex<Option<File>>,
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
    /// The content of that, if it is known, or why not.
    pub content: std::result::Result<&'a [u8], Unkept>,
    /// What is there now.
    pub after: State,
    /// The outermost of the directories made for it, relative to the root. All would be as many paths as it is deep, for each file.
    pub directory: Option<&'a Path>,
    /// The modes of the directories above it that went with it, innermost first.
    pub gone: &'a [u32],
    /// Somebody else changed it as well, so that it can't be put back without their part.
    pub mixed: bool,
    /// What is there now was not made by the turn, but moved here, and there is no copy of it.
    pub moved: bool,
}

impl<'a> Made<'a> {
    /// A change of what was found at a place.
    pub(crate) fn at(place: &Place, found: Option<&'a Found>, after: State) -> Self {
        let root = place.root();
        Self {
            root: root.real_path().unwrap_or(root.given_path()).to_path_buf(),
            path: place.relative().to_path_buf(),
            before: Found::state_of(found),
            content: found.map_or(Ok(&[]), |found| found.content.as_deref().ok_or(Unkept::Large)),
            after,
            directory: None,
            gone: &[],
            mixed: false,
            moved: false,
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

/// Why a change can't be undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Unkept {
    /// The file was too large.
    #[error("it was too large to be copied")]
    Large,
    /// What is there now is too large to be known again.
    #[error("it is so large that nobody can tell whether it changes again")]
    Huge,
    /// It is a key, a login or a history, or in a folder of them.
    #[error("nothing is copied of keys, logins and histories")]
    Private,
    /// There is no room, or there was none.
    #[error("there was no room for its old content")]
    Room,
    /// The turn, or those since, changed more files than can be remembered.
    #[error("more files were changed than are remembered")]
    Many,
    /// Its copy is gone or damaged.
    #[error("the copy of its old content is gone, damaged or can't be read")]
    Lost,
    /// Nothing can be written where old contents are kept.
    #[error("its old content could not be stored")]
    Nowhere,
    /// It could not be copied in time.
    #[error("it could not be copied in time")]
    Late,
    /// It could not be read.
    #[error("it could not be read")]
    Unreadable,
    /// It was the turn itself that had left it so.
    #[error("the turn had changed it before")]
    Between,
    /// It was not looked at before the turn.
    #[error("it was not looked at before the turn")]
    Unseen,
    /// It was there before the turn, elsewhere.
    #[error("the turn did not make it, but moved it here from where nobody looks")]
    Moved,
    /// It is no file, no folder and no link.
    #[error("it was a FIFO, a socket or a device, or a folder that is not looked into")]
    Special,
    /// It is what a version control keeps, and another or nothing is in its place.
    #[error("the repository's own data is gone, and no copy of it is kept")]
    Repository,
}

/// A file that a turn changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// The whole path.
    pub path: PathBuf,
    /// How.
    pub kind: Kind,
    /// Why it can't be undone, if it can't.
    pub unkept: Option<Unkept>,
    /// Whether it was undone since, all of it.
    pub undone: bool,
}

impl Snapshots {
    /// Opens a directory of snapshots, made if it isn't there, that holds up to `limit` bytes of old contents. An index that
    /// is damaged is put aside, what can be read of it counts, and [`Snapshots::damage`] says so.
    pub fn open(dir: impl Into<PathBuf>, limit: u64) -> Result<Arc<Self>> {
        let (disk, index) = Disk::open(dir.into())?;
        Ok(Arc::new(Self {
            disk: Some(disk),
            limit,
            index: Mutex::new(index),
            writes: AtomicU64::new(0),
            forgotten: Mutex::default(),
        }))
    }

    /// Snapshots without a directory: it is known what changed, but nothing can be put back.
    pub fn in_memory() -> Arc<Self> {
        Arc::new(Self {
            disk: None,
            limit: 0,
            index: Mutex::default(),
            writes: AtomicU64::new(0),
            forgotten: Mutex::default(),
        })
    }

    /// What is lost because the index was damaged once, and where the damaged file is, for people.
    pub fn damage(&self) -> Option<String> {
        self.index.locked().damage.clone()
    }

    /// How often the whole index was written from here: what is done for many files should not write it for each.
    pub fn writes(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
    }

    /// Starts to record a turn, or goes on with one.
    pub fn begin(self: &Arc<Self>, turn: impl Into<String>) -> Arc<Recorder> {
        let known = self.turns().into_iter().collect();
        let (snapshots, turn) = (self.clone(), turn.into());
        let (watched, commands, at_work) = (self.announced().is_some(), Mutex::default(), Mutex::default());
        Arc::new(Recorder { snapshots, turn, known, watched, commands, at_work })
    }

    /// Goes on with the turn that somebody [announced](Self::announce), so that what both record is one turn; without that,
    /// starts this one.
    pub fn join(self: &Arc<Self>, turn: impl Into<String>) -> Arc<Recorder> {
        self.begin(self.announced().unwrap_or_else(|| turn.into()))
    }

    /// The folder that all sessions are kept in, if nobody else watches what this one changes.
    pub fn unwatched(&self) -> Option<&Path> {
        self.disk.as_ref().filter(|disk| disk.announced().is_none()).map(Disk::state)
    }

    fn announced(&self) -> Option<String> {
        self.disk.as_ref().and_then(Disk::announced)
    }

    /// Tells whoever else records here which turn is under way, until the result is dropped.
    pub fn announce(&self, turn: &str) -> Result<Option<File>> {
        self.disk.as_ref().map(|disk| disk.announce(turn)).transpose()
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
        let Some(turn) = index.turns.iter().find(|other| other.id == turn) else { return Vec::new() };
        let changed = |entry: &Entry| {
            let after = if entry.undone { entry.prior.unwrap_or(entry.after) } else { entry.after };
            let kind = Kind::of(entry.before, after);
            let path = entry.full_path();
            let is_moved = entry.moved.is_some_and(|moved| moved.same_content(&after)) && is_only_name(&path);
            Changed { path, kind, unkept: entry.unkept.or(is_moved.then_some(Unkept::Moved)), undone: entry.undone }
        };
        let entries = turn.entries.iter().filter(|entry| entry.undone || entry.in_effect()).map(changed);
        let beyond = turn.still_beyond().map(|Beyond { path: Name(path), kind }| Changed {
            path: path.clone(),
            kind: *kind,
            unkept: Some(Unkept::Many),
            undone: false,
        });
        entries.chain(beyond).collect()
    }

    /// The turns that can't be undone any more, for too many files were changed since; each is said once.
    pub fn forgotten(&self) -> Vec<String> {
        std::mem::take(&mut *self.forgotten.locked())
    }

    /// What a file was before a turn changed it, and its content, if that is known.
    pub fn before_turn(&self, turn: &str, path: &Path) -> Option<(State, Option<Vec<u8>>)> {
        let entry = self.lock().entry(turn, path).cloned()?;
        self.before(&entry).ok().map(|content| (entry.before, content))
    }

    /// What is remembered now: another process may have added to it.
    fn lock(&self) -> MutexGuard<'_, Index> {
        let mut index = self.index.locked();
        if let Some(now) = self.disk.as_ref().and_then(|disk| disk.load_newer(&index)) {
            *index = now;
        }
        index
    }

    /// Changes what is remembered, alone among all processes. The work says whether contents were dropped.
    fn change(&self, work: impl FnOnce(&mut Index) -> Result<bool>) -> Result<()> {
        let _alone = self.disk.as_ref().map(Disk::lock).transpose()?;
        let mut index = self.lock();
        // Whatever comes of it, no file says this yet.
        index.stamp = None;
        let dropped = work(&mut index)?;
        let Some(disk) = &self.disk else { return Ok(()) };
        self.writes.fetch_add(1, Ordering::Relaxed);
        disk.save(&index)?;
        if dropped {
            disk.tidy(&index);
        }
        Ok(())
    }

    /// `ours`: what is there now came about through the turn.
    fn record(&self, turn: &str, changes: Vec<Made<'_>>, ours: bool) -> Result<()> {
        self.change(|index| self.note(index, turn, changes, ours))
    }

    /// Adds changes to the index; true if old contents were dropped for them.
    fn note(&self, index: &mut Index, turn: &str, mut changes: Vec<Made<'_>>, ours: bool) -> Result<bool> {
        if let Some(disk) = &self.disk {
            // From now on its absence says that somebody deleted it.
            disk.save_first(index)?;
        }
        let forgotten = index.forget_oldest(turn, MAX_ENTRIES.saturating_sub(changes.len()));
        let mut dropped = !forgotten.is_empty();
        self.forgotten.locked().extend(forgotten);
        let at = index.turn(turn);
        let mut known: HashMap<PathBuf, usize> =
            index.turns[at].entries.iter().enumerate().map(|(number, entry)| (entry.full_path(), number)).collect();
        let mut blobs = index.blobs();
        let mut used: u64 = blobs.values().sum();
        let bulk = changes.len() > MAX_SYNCED_FILES;
        let wanted: u64 = changes.iter().filter_map(|change| change.content.ok()).map(|text| text.len() as u64).sum();
        if index.turns[at].entries.len() + changes.len() > MAX_TURN_ENTRIES || used.saturating_add(wanted) > self.limit
        {
            // Not all of them fit, perhaps: what matters comes first.
            changes.sort_by_cached_key(|change| weight(&change.path, change.before));
        }
        let mut gone: HashSet<(PathBuf, PathBuf)> =
            index.turns[at].folders.iter().map(|folder| (folder.root.0.clone(), folder.path.0.clone())).collect();
        for change in changes {
            let path = change.root.join(&change.path);
            let directories = change.directory.map(Path::to_path_buf).map(Name);
            for (folder, mode) in change.path.ancestors().skip(1).zip(change.gone) {
                // Those around one that is known are known as well.
                if !gone.insert((change.root.clone(), folder.to_path_buf())) {
                    break;
                }
                let (root, path) = (Name(change.root.clone()), Name(folder.to_path_buf()));
                index.turns[at].folders.push(Folder { root, path, mode: *mode });
            }
            if let Some(entry) = known.get(&path).map(|number| &mut index.turns[at].entries[*number]) {
                entry.mixed |=
                    change.mixed || !ours && !entry.ours(&change.before) && !entry.before.same_content(&change.before);
                entry.prior = Some(entry.after);
                entry.after = change.after;
                entry.moved = change.moved.then_some(change.after).or(entry.moved);
                entry.undone = false;
                entry.directories.extend(directories);
                continue;
            }
            let unkept = match (change.before, change.content, &self.disk) {
                (State::Missing, Ok(_), _) => None,
                (State::Other, Err(Unkept::Repository), _) => Some(Unkept::Repository),
                (State::Other, ..) => Some(Unkept::Special),
                (_, Err(why), _) => Some(why),
                (_, _, None) => Some(Unkept::Nowhere),
                (State::File { hash, .. } | State::Link { hash, .. }, Ok(content), Some(disk)) => {
                    let size = content.len() as u64;
                    let mut fits = blobs.contains_key(&hash) || used.saturating_add(size) <= self.limit;
                    if !fits && index.make_room(at, size, self.limit) {
                        (fits, dropped, blobs) = (true, true, index.blobs());
                        used = blobs.values().sum();
                    }
                    // Before a change, one that can't be remembered is not made. Afterwards it only can't be undone.
                    match fits.then(|| disk.put(hash, content, bulk)) {
                        Some(Err(error)) if !ours => return Err(error),
                        Some(Err(_)) => Some(Unkept::Nowhere),
                        None => Some(Unkept::Room),
                        Some(Ok(())) => {
                            used += if blobs.insert(hash, size).is_none() { size } else { 0 };
                            None
                        }
                    }
                }
            };
            known.insert(path, index.turns[at].entries.len());
            index.turns[at].entries.push(Entry {
                root: Name(change.root),
                path: Name(change.path),
                before: change.before,
                after: change.after,
                prior: None,
                unkept,
                directories: directories.into_iter().collect(),
                undone: false,
                mixed: change.mixed,
                moved: change.moved.then_some(change.after),
            });
        }
        dropped |= index.turns[at].leave_out(MAX_TURN_ENTRIES, &known);
        if let Some(disk) = self.disk.as_ref().filter(|_| bulk) {
            disk.sync()?;
        }
        Ok(dropped)
    }
}

impl Recorder {
    /// Notes a change that is about to happen; when this returns, the record is safe.
    pub(crate) fn changing(&self, change: Made<'_>) -> Result<()> {
        self.snapshots.record(&self.turn, vec![change], false)
    }

    /// The turn it records.
    pub fn turn(&self) -> &str {
        &self.turn
    }

    /// Notes changes that something else has made already, all in one step. What an undo put back meanwhile is remembered as
    /// that undo, and not again.
    pub fn made(&self, mut changes: Vec<Made<'_>>) -> Result<()> {
        if changes.is_empty() {
            return Ok(());
        }
        self.snapshots.change(|index| {
            let undone: HashMap<PathBuf, State> = self.undone_in(index).into_iter().collect();
            let put_back = |path: &Path, now: &State| undone.get(path).is_some_and(|after| after.same_content(now));
            changes.retain(|change| !put_back(&change.root.join(&change.path), &change.after));
            let at = index.turn(&self.turn);
            let entries = &mut index.turns[at].entries;
            let facts = |entry: &Entry| (entry.full_path(), entry.clone());
            let known: HashMap<PathBuf, Entry> = entries.iter().map(facts).collect();
            let mut replaced = HashSet::new();
            for change in &mut changes {
                let path = change.root.join(&change.path);
                let Some(Entry { before, mixed, after, unkept, .. }) = known.get(&path) else { continue };
                // What was noted on the way may be too young: a command of the same turn had changed the file before. What the
                // turn itself had left is no older than that. What could not be stored then perhaps can be now.
                let is_younger = !before.same_content(&change.before) && !after.same_content(&change.before);
                let is_lost = *unkept == Some(Unkept::Nowhere) && before.same_content(&change.before);
                if change.content.is_ok() && (is_younger || is_lost) {
                    change.mixed |= mixed;
                    replaced.insert(path);
                }
            }
            entries.retain(|entry| !replaced.contains(&entry.full_path()));
            self.snapshots.note(index, &self.turn, changes, true)
        })
    }

    /// Looks at the folders before a command, unless somebody else watches the turn. Blocks. Gives what it is known by.
    pub fn before_command(&self, files: &Files) -> usize {
        let disk = self.snapshots.disk.as_ref().filter(|_| !self.watched);
        let take = |(disk, root): (&Disk, &Path)| {
            Base::take(Some(disk.state()), root, Vec::new(), Limits::default(), SystemTime::now()).ok()
        };
        let roots = files.roots().list().filter_map(|root| disk.zip(root.real_path()));
        let before = roots.filter_map(take).collect();
        let mut commands = self.commands.locked();
        commands.push(before);
        let mut at_work = self.at_work.locked();
        *at_work = at_work.take().or_else(|| disk?.announce(&self.turn).ok());
        self.mark(&commands);
        commands.len() - 1
    }

    /// Remembers which looks are needed if we are killed.
    fn mark(&self, commands: &[Vec<Base>]) {
        let Some(disk) = self.snapshots.disk.as_ref().filter(|_| !self.watched) else { return };
        if commands.iter().all(Vec::is_empty) {
            Open::close(disk.dir(), []);
        } else if let Err(error) = Open::new(&*self.turn, commands.iter().flatten()).write(disk.dir()) {
            tracing::warn!(%error, "what commands change can't be undone if we are killed");
        }
    }

    /// A command is over: notes what changed while it ran. Blocks.
    pub fn after_command(&self, number: usize) -> Result<()> {
        let before = self.commands.locked().get_mut(number).map(std::mem::take).unwrap_or_default();
        let note = |base: &Base| self.made(base.differences().0.iter().map(|one| one.made(base)).collect());
        let noted = before.iter().try_for_each(note);
        self.mark(&self.commands.locked());
        for base in &before {
            base.hold(false);
        }
        noted
    }

    /// The turn is over: notes what changed while commands ran that are not over, or were cut off. Blocks.
    pub fn end(&self) -> Result<()> {
        let count = self.commands.locked().len();
        let noted = (0..count).try_for_each(|number| self.after_command(number));
        self.at_work.locked().take();
        noted
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
        self.snapshots.record(&self.turn, vec![change], ours)
    }

    /// Notes what files are after that, all in one step. Gives what could not be noted.
    pub fn after_all<'p>(&self, files: &Files, places: impl IntoIterator<Item = &'p Place>) -> Vec<Error> {
        let (mut errors, mut looked) = (Vec::new(), Vec::new());
        for place in places {
            match files.look(place) {
                // What was there is remembered already, and no contents are held here: there may be thousands.
                Ok(found) => looked.push((place, Found::state_of(found.as_ref()))),
                Err(error) => errors.push(error),
            }
        }
        let made = |(place, state): (&Place, State)| {
            let content = if state == State::Missing { Ok(&[][..]) } else { Err(Unkept::Unseen) };
            Made { before: state, content, ..Made::at(place, None, state) }
        };
        errors.extend(self.snapshots.record(&self.turn, looked.into_iter().map(made).collect(), true).err());
        errors
    }
}

/// Whether a turn of this name is what an undo is remembered as.
pub fn is_undo(turn: &str) -> bool {
    turn.contains("~undo")
}

/// The name under which is remembered what changed during a turn, through it or through somebody else.
pub fn unclear(turn: &str) -> String {
    format!("{turn}{UNCLEAR}")
}

/// Whether a turn of this name is what is remembered of changes that may be somebody else's.
pub fn is_unclear(turn: &str) -> bool {
    turn.ends_with(UNCLEAR)
}

const UNCLEAR: &str = "~meanwhile";

/// What the session of a folder of snapshots left in files, and in which turn, if anything was recorded there since.
pub fn left_since(dir: &Path, since: SystemTime) -> Vec<(PathBuf, State, String)> {
    let index = Disk::at(dir).changed_since(since);
    let turns = index.into_iter().flat_map(|index| index.turns);
    let left = |turn: index::Turn| {
        let left = |entry: Entry| (entry.full_path(), entry.after, turn.id.clone());
        turn.entries.into_iter().map(left).collect::<Vec<_>>()
    };
    turns.flat_map(left).collect()
}

/// Whether a turn is [announced](Snapshots::announce) in a folder of snapshots.
pub fn is_under_way(dir: &Path) -> bool {
    Disk::at(dir).announced().is_some()
}

/// What a change counts for, the least first: what somebody had comes before what is new, and what is near the top before the rest.
fn weight(path: &Path, before: State) -> (bool, usize) {
    (before == State::Missing, path.components().count())
}

/// Whether a file is gone with this name.
fn is_only_name(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|meta| meta.is_file() && meta.nlink() == 1)
}

/// The place an entry is about, if its path still leads there without a link.
fn place_of(files: &Files, path: &Path) -> Result<Place> {
    let place = files.roots().resolve_entry(path)?;
    if place.real_path() == path { Ok(place) } else { Err(Error::Changed(path.to_path_buf())) }
}
