//! Puts files back, each only if nobody else changed it since.

use super::{
    Changed, Kind, MAX_SYNCED_FILES, Made, Snapshots, Unkept,
    base::{is_unknown, unknown},
    hunks::{Hunk, hunks, take_back},
    index::{Entry, Index, Turn},
    is_only_name, is_undo, place_of,
    walk::repository,
};
use crate::{
    files::{Expect, Files, Found, State, Version, Write, look_at_other},
    roots::{Error, Place, shown},
};
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fs::Metadata,
    path::{Path, PathBuf},
    sync::Arc,
};

/// What an undo did.
#[derive(Debug, Default)]
pub struct Undone {
    /// The files that are as they were before the turn.
    pub restored: Vec<PathBuf>,
    /// The files that were left alone.
    pub refused: Vec<Refused>,
    /// The turn under which this undo was recorded: undo it to have the changes back. `None` if nothing was changed.
    pub turn: Option<String>,
}

/// A file that was not put back.
#[derive(Debug, thiserror::Error)]
#[error("{}", .why.told(&shown(.path)))]
pub struct Refused {
    /// The whole path.
    pub path: PathBuf,
    /// The reason.
    pub why: Why,
}

/// Why a file was not put back.
#[derive(Debug)]
#[non_exhaustive]
pub enum Why {
    /// Nothing is known about it in that turn.
    NotRecorded,
    /// Somebody else changed it since the turn.
    ChangedSince,
    /// A later turn of the session changed it: that one has to be undone first.
    ChangedBy(String, Kind),
    /// Somebody else may have changed it during the turn, or since.
    Mixed,
    /// The old content is not there.
    NotKept(Unkept),
    /// It, and so many more files, are beyond what is remembered of one turn.
    Beyond(usize),
    /// What the turn moved there from where nobody looks would be gone.
    InTheWay,
    /// It would be gone for good: it is too large to be kept, and may be the only copy of something.
    OnlyCopy,
    /// It belongs to a repository that is gone, and would be all there is of it.
    Hollow,
    /// That change isn't there any more.
    NoSuchHunk,
    /// It could not be remembered how to have it again, so nothing was done.
    Unrecorded(String),
    /// It couldn't be done.
    Failed(Error),
}

impl Why {
    fn told(&self, path: &str) -> String {
        match self {
            Self::NotRecorded => format!("{path} was not changed in that turn"),
            Self::ChangedSince => format!("{path} changed again since that turn"),
            Self::ChangedBy(turn, Kind::Deleted) => format!("{path} was deleted by turn {turn}"),
            Self::ChangedBy(turn, _) => format!("{path} was changed again by turn {turn}"),
            Self::Mixed => format!("nobody can tell whether somebody else changed {path}, too"),
            Self::NotKept(why) => format!("{path} can't be put back: {why}"),
            Self::Beyond(0) => Self::NotKept(Unkept::Many).told(path),
            Self::Beyond(more) => format!("{path} and {more} more can't be put back: {}", Unkept::Many),
            Self::InTheWay => {
                format!("{path} can't be put back yet: what the turn moved there from where nobody looks is in the way")
            }
            Self::OnlyCopy => {
                format!("{path} was left where it is: it is too large to be kept, so nobody could have it again")
            }
            Self::Hollow => format!("{path} was not put back: its repository is gone, and can't be had again"),
            Self::NoSuchHunk => format!("{path} no longer has that change"),
            Self::Unrecorded(why) => format!("{path} was left alone: {why}"),
            Self::Failed(error) => error.to_string(),
        }
    }
}

impl From<Error> for Why {
    fn from(error: Error) -> Self {
        match error {
            Error::Changed(_) | Error::Exists(_) | Error::Raced(_) => Self::ChangedSince,
            error => Self::Failed(error),
        }
    }
}

/// A file before and now; `None` where it isn't there.
pub type Contents = (Option<Vec<u8>>, Option<Vec<u8>>);

/// About so many bytes of files are held at once by an undo.
const MAX_STEP_BYTES: usize = 64 << 20;

/// A file that may be put back: where it is, what is there now and its content, what was there before, how many folders are
/// missing above it.
struct Seen {
    place: Place,
    now: State,
    there: std::result::Result<Vec<u8>, Unkept>,
    version: Option<Version>,
    content: Vec<u8>,
    missing: usize,
    /// The modes of the folders that may go with it, innermost first.
    gone: Vec<u32>,
}

impl Seen {
    /// What will have happened when it is put back.
    fn made<'a>(&'a self, entry: &'a Entry) -> Made<'a> {
        let makes = self.missing > 0 && entry.before != State::Missing;
        let directory = entry.path.0.ancestors().nth(self.missing).filter(|_| makes);
        let content = self.there.as_deref().map_err(|why| *why);
        let at = Made::at(&self.place, None, entry.before);
        Made { before: self.now, content, directory, gone: &self.gone, ..at }
    }
}

impl Snapshots {
    /// Puts back every file that the turn changed, or one of them. A file that somebody else changed since, or in between, is
    /// left alone and named, unless `force`. The undo is itself recorded and can be undone.
    pub fn undo(self: &Arc<Self>, files: &Files, turn: &str, only: Option<&Path>, force: bool) -> Undone {
        let (mut done, entries) = self.wanted(turn, only);
        let undo = self.undo_turn(turn);
        let files = &files.in_bulk(entries.len() > MAX_SYNCED_FILES);
        let mut left: Vec<&Entry> = entries.iter().rev().collect();
        // What may have to be read for long comes last.
        left.sort_by_key(|entry| file_size(&entry.after).filter(|size| *size > files.limits().text));
        let modes = self.folder_modes(turn);
        let mut made_folders = BTreeMap::new();
        let mut put_back: HashMap<PathBuf, State> = HashMap::new();
        loop {
            let mut refused = Vec::new();
            let before = put_back.len();
            let (mut seen, mut bytes, mut folders) = (Vec::new(), 0, HashSet::new());
            let mut rest = left.into_iter().peekable();
            while let Some(entry) = rest.next() {
                match self.look_at(files, turn, entry, force, &mut folders) {
                    Ok(Some(one)) => {
                        bytes += one.content.len() + one.there.as_ref().map_or(0, Vec::len);
                        seen.push((entry, one));
                    }
                    Ok(None) => drop(put_back.insert(entry.full_path(), entry.before)),
                    Err(why) => refused.push((entry, why)),
                }
                // All that is to be changed is recorded in one step, unless it is too much to be held.
                if rest.peek().is_some() && bytes < MAX_STEP_BYTES {
                    continue;
                }
                bytes = 0;
                let made = seen.iter().map(|(entry, one)| one.made(entry)).collect();
                let recorded = self.record(&undo, made, false);
                for (entry, one) in seen.drain(..) {
                    let restored = match &recorded {
                        Ok(()) => make_folders(files, entry, &one, &modes, &mut made_folders)
                            .and_then(|()| restore(files, entry, &one)),
                        Err(error) => Err(Why::Unrecorded(error.to_string())),
                    };
                    match restored {
                        Ok(()) => drop(put_back.insert(entry.full_path(), entry.before)),
                        Err(why) => refused.push((entry, why)),
                    }
                }
            }
            // What stood in the way of one may be gone with another, such as a file where there was a folder.
            left = refused.iter().map(|(entry, _)| *entry).collect();
            if left.is_empty() || put_back.len() == before {
                let refused = refused.into_iter().map(|(entry, why)| Refused { path: entry.full_path(), why });
                done.refused.extend(refused);
                break;
            }
        }
        // Only now that they are full: one that nobody may write to is one of them, perhaps. The innermost first.
        for (path, folder) in made_folders.into_iter().rev() {
            let set = Files::set_dir_mode(&folder, modes[&path]);
            done.refused.extend(set.err().map(|error| Refused { path, why: error.into() }));
        }
        done.restored = entries.iter().rev().map(Entry::full_path).filter(|path| put_back.contains_key(path)).collect();
        let marked = self.change(|index| {
            // As long as that is not durable, nothing says that it was done.
            files.sync_all().map_err(|error| Error::new(Path::new("/"), "saving", error))?;
            mark(index, turn, &put_back);
            // What was recorded and then not done was no change.
            let at = index.turn(&undo);
            index.turns[at].entries.retain(|entry| put_back.contains_key(&entry.full_path()));
            index.turns.retain(|turn| turn.id != undo || !turn.entries.is_empty());
            Ok(false)
        });
        if let (Err(error), false) = (marked, done.restored.is_empty()) {
            let path = error.path().to_path_buf();
            done.refused.push(Refused { path, why: Why::Failed(error) });
        }
        done.turn = self.lock().turns.iter().any(|turn| turn.id == undo).then_some(undo);
        done
    }

    /// What an undo of the turn, or of one file in it, would do now. Changes nothing.
    pub fn preview(&self, files: &Files, turn: &str, only: Option<&Path>, force: bool) -> Undone {
        let (mut done, entries) = self.wanted(turn, only);
        let mut folders = HashSet::new();
        for entry in entries.iter().rev() {
            let path = entry.full_path();
            match self.look_at(files, turn, entry, force, &mut folders) {
                Ok(_) => done.restored.push(path),
                Err(why) => done.refused.push(Refused { path, why }),
            }
        }
        done
    }

    /// The places in which a text file differs from what it was before the turn.
    pub fn hunks(&self, files: &Files, turn: &str, path: &Path) -> std::result::Result<Vec<Hunk>, Refused> {
        let texts = self.find(files, turn, path).and_then(|(entry, _, found)| self.texts(&entry, found));
        texts.map(|(old, now)| hunks(&old, &now)).map_err(|why| Refused { path: path.to_path_buf(), why })
    }

    /// What a file was before the turn, and what it is now.
    pub fn contents(&self, files: &Files, turn: &str, path: &Path) -> std::result::Result<Contents, Refused> {
        let both = self.find(files, turn, path).and_then(|(entry, _, found)| self.both(&entry, found));
        both.map_err(|why| Refused { path: path.to_path_buf(), why })
    }

    /// Takes back one of the [`Snapshots::hunks`]. Refused if the file changed since the turn in another way, unless
    /// `force`, and in any case if the hunk isn't there as it was. Returns the turn that records it.
    pub fn undo_hunk(
        self: &Arc<Self>,
        files: &Files,
        turn: &str,
        path: &Path,
        hunk: &Hunk,
        force: bool,
    ) -> std::result::Result<String, Refused> {
        let undo = self.undo_turn(turn);
        let work = || {
            let (entry, place, found) = self.find(files, turn, path)?;
            let now = Found::state_of(found.as_ref());
            let version = found.as_ref().map(|found| found.version);
            if !force && !entry.ours(&now) {
                return Err(Why::ChangedSince);
            }
            check_moved(&entry, &place, &now, true)?;
            let (old, new) = self.texts(&entry, found)?;
            let text = take_back(&old, &new, hunk).ok_or(Why::NoSuchHunk)?;
            let recorded = files.clone().with_journal(self.begin(&*undo));
            if text.is_empty() && entry.before == State::Missing {
                recorded.delete(&place, expect(version))?;
            } else {
                let mode = match (now, entry.before) {
                    (State::Missing, State::File { mode, .. }) => Some(mode),
                    _ => None,
                };
                recorded.write(&place, text.as_bytes(), &how(version, mode))?;
            }
            let after = Found::state_of(files.look(&place)?.as_ref());
            Ok(self.change(|index| {
                mark(index, turn, &HashMap::from([(entry.full_path(), after)]));
                Ok(false)
            })?)
        };
        work().map_err(|why| Refused { path: path.to_path_buf(), why })?;
        Ok(undo)
    }

    /// The files of a turn that an undo is about.
    fn wanted(&self, turn: &str, only: Option<&Path>) -> (Undone, Vec<Entry>) {
        let mut done = Undone::default();
        let entries: Vec<Entry> = {
            let index = self.lock();
            let turns = || index.turns.iter().filter(|other| other.id == turn);
            let beyond = turns().flat_map(Turn::still_beyond).map(|beyond| &beyond.path.0);
            let mut beyond = beyond.filter(|path| only.is_none_or(|only| only == path.as_path()));
            // There may be thousands: one stands for all.
            let (first, more) = (beyond.next().cloned(), beyond.count());
            done.refused = first.into_iter().map(|path| Refused { path, why: Why::Beyond(more) }).collect();
            let entries = turns().flat_map(|turn| &turn.entries);
            entries.filter(|entry| entry.in_effect() && only.is_none_or(|path| entry.is(path))).cloned().collect()
        };
        if let (Some(path), true, true) = (only, entries.is_empty(), done.refused.is_empty()) {
            done.refused.push(Refused { path: path.to_path_buf(), why: Why::NotRecorded });
        }
        (done, entries)
    }

    /// Whether a file is of a repository that the turn took away: nothing else of it can be put back.
    fn would_be_hollow(&self, turn: &str, path: &Path) -> bool {
        let gone = repository(path).filter(|own| own.symlink_metadata().is_err());
        gone.is_some_and(|own| {
            let essential = |file: &Changed| file.unkept == Some(Unkept::Repository) && file.path.starts_with(own);
            self.remembered(turn).iter().any(essential)
        })
    }

    /// Where a file is and which version of it, if it may be put back; no place if it is as it was. `folders` are those that were
    /// looked at for others.
    fn look_at(
        &self,
        files: &Files,
        turn: &str,
        entry: &Entry,
        force: bool,
        folders: &mut HashSet<PathBuf>,
    ) -> std::result::Result<Option<Seen>, Why> {
        let place = place_of(files, &entry.full_path())?;
        // What is large is only read if that can tell something: as long as it was, or as the turn left it.
        let known = |meta: &Metadata| {
            let states = [Some(entry.before), Some(entry.after), entry.prior];
            let wanted = if force { 1 } else { states.len() };
            let same = states
                .iter()
                .take(wanted)
                .flatten()
                .any(|state| !is_unknown(state) && file_size(state) == Some(meta.len()));
            (!same).then(unknown)
        };
        let (now, there, version) = match files.look_knowing(&place, known) {
            // A folder is nothing that was kept; one that is not empty will be in the way of a file.
            Err(Error::IsDirectory(_)) => (State::Missing, Ok(Vec::new()), None),
            Err(Error::NotRegular { .. }) => {
                let (now, target) = look_at_other(&place)?;
                (now, target.ok_or(Unkept::Special), None)
            }
            found => match found? {
                None => (State::Missing, Ok(Vec::new()), None),
                Some(found) => (found.state(), found.content.ok_or(Unkept::Large), Some(found.version)),
            },
        };
        if !is_unknown(&now) && entry.before.same_content(&now) {
            return Ok(None);
        }
        // Nobody can say more of what is not known.
        let content = self.before(entry)?.unwrap_or_default();
        if !force && self.would_be_hollow(turn, &entry.full_path()) {
            return Err(Why::Hollow);
        }
        check_moved(entry, &place, &now, there.is_ok())?;
        // What the turn had moved here is out of the way: nothing is lost if what was here before comes back.
        let is_free = entry.moved.is_some_and(|moved| entry.after.same_content(&moved)) && now == State::Missing;
        if !force && !is_free && (entry.mixed || is_unknown(&entry.after)) {
            return Err(Why::Mixed);
        }
        if !force && !is_free && (is_unknown(&now) || !entry.ours(&now)) {
            let later = self.later(turn, entry, &now);
            return Err(later.map_or(Why::ChangedSince, |(turn, kind)| Why::ChangedBy(turn, kind)));
        }
        if !force && entry.before == State::Missing && there == Err(Unkept::Large) {
            return Err(Why::OnlyCopy);
        }
        let above = entry.path.0.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty());
        // Where one is, those around it are.
        let missing = above.take_while(|folder| !entry.root.0.join(folder).is_dir()).count();
        let made = above_of(&place).take(if entry.before == State::Missing { entry.depth_made() } else { 0 });
        let new = made.take_while(|folder| folders.insert(folder.real_path()));
        let gone = new.map_while(|folder| Files::dir_mode(&folder).ok()).collect();
        Ok(Some(Seen { place, now, there, version, content, missing, gone }))
    }

    /// The later turn that left a file as it is now, and how.
    fn later(&self, turn: &str, entry: &Entry, now: &State) -> Option<(String, Kind)> {
        let index = self.lock();
        let later = index.turns.iter().rev().take_while(|later| later.id != turn).filter(|later| !is_undo(&later.id));
        let is_it = |of: &Entry| of.path == entry.path && of.root == entry.root;
        let left = |of: &&Entry| is_it(of) && of.in_effect() && of.after.same_content(now);
        let mut found = later.map(|later| (later, later.entries.iter().find(left)));
        found.find_map(|(later, of)| Some((later.id.clone(), Kind::of(of?.before, of?.after))))
    }

    /// The modes of the folders that went with a turn, by their whole paths.
    fn folder_modes(&self, turn: &str) -> HashMap<PathBuf, u32> {
        let index = self.lock();
        let folders = index.turns.iter().filter(|other| other.id == turn).flat_map(|turn| &turn.folders);
        folders.map(|folder| (folder.root.0.join(&folder.path.0), folder.mode)).collect()
    }

    /// The text before the turn and the text now; a missing file is an empty text.
    fn texts(&self, entry: &Entry, now: Option<Found>) -> std::result::Result<(String, String), Why> {
        let text = |bytes: Option<Vec<u8>>| {
            let wrong = |at| Error::NotText { path: entry.full_path(), at };
            String::from_utf8(bytes.unwrap_or_default()).map_err(|error| wrong(error.utf8_error().valid_up_to()))
        };
        let (old, now) = self.both(entry, now)?;
        Ok((text(old)?, text(now)?))
    }

    fn both(&self, entry: &Entry, now: Option<Found>) -> std::result::Result<Contents, Why> {
        let now = now.map(|Found { content, version, .. }| {
            let (path, size) = (entry.full_path(), version.size);
            content.ok_or(Error::TooLarge { path, size, limit: self.limit })
        });
        Ok((self.before(entry)?, now.transpose()?))
    }

    /// The content before the turn; `None` if there was no file.
    pub(super) fn before(&self, entry: &Entry) -> std::result::Result<Option<Vec<u8>>, Why> {
        if let Some(why) = entry.unkept {
            return Err(Why::NotKept(why));
        }
        match entry.before {
            State::Missing => Ok(None),
            State::Other => Err(Why::NotKept(Unkept::Special)),
            State::File { hash, .. } | State::Link { hash, .. } => {
                let content = self.disk.as_ref().and_then(|disk| disk.get(hash));
                content.map(Some).ok_or(Why::NotKept(Unkept::Lost))
            }
        }
    }

    /// What is known of a file in a turn, where it is, and what is there now.
    fn find(&self, files: &Files, turn: &str, path: &Path) -> std::result::Result<(Entry, Place, Option<Found>), Why> {
        let entry = self.lock().entry(turn, path).cloned().ok_or(Why::NotRecorded)?;
        if let State::Link { .. } | State::Other = entry.before {
            return Err(Error::NotRegular { path: entry.full_path(), kind: "a link or a special file" }.into());
        }
        let place = place_of(files, &entry.full_path())?;
        // Of what is too large to be shown or compared nothing is read.
        let found = files.look_knowing(&place, |_| Some(unknown()))?;
        Ok((entry, place, found))
    }

    /// The name under which the next undo of a turn is remembered: one that no turn has yet.
    pub fn undo_turn(&self, turn: &str) -> String {
        let index = self.lock();
        let mut number = 1;
        loop {
            let id = format!("{turn}~undo{number}");
            if index.turns.iter().all(|turn| turn.id != id) {
                return id;
            }
            number += 1;
        }
    }
}

/// The bytes that a file has.
fn file_size(state: &State) -> Option<u64> {
    if let State::File { size, .. } = state { Some(*size) } else { None }
}

/// Refuses what would lose a file that the turn moved here: the same, or one that can't be kept, under its only name.
fn check_moved(entry: &Entry, place: &Place, now: &State, is_kept: bool) -> std::result::Result<(), Why> {
    let is_there = |moved: State| file_size(now).is_some() && (!is_kept || moved.same_content(now));
    match entry.before {
        _ if !entry.moved.is_some_and(is_there) || !is_only_name(&place.real_path()) => Ok(()),
        State::Missing => Err(Why::NotKept(Unkept::Moved)),
        _ => Err(Why::InTheWay),
    }
}

/// The folders above a place, innermost first.
fn above_of(place: &Place) -> impl Iterator<Item = Place> {
    std::iter::successors(place.parent_folder(), Place::parent_folder)
        .filter(|folder| !folder.relative().as_os_str().is_empty())
}

/// Makes the folders that are missing above a file and whose modes are known, for the user alone until they are full.
fn make_folders(
    files: &Files,
    entry: &Entry,
    seen: &Seen,
    modes: &HashMap<PathBuf, u32>,
    made: &mut BTreeMap<PathBuf, Place>,
) -> std::result::Result<(), Why> {
    if entry.before == State::Missing {
        return Ok(());
    }
    let missing = above_of(&seen.place).take(seen.missing).map(|folder| (folder.real_path(), folder));
    let missing: Vec<_> = missing.take_while(|(path, _)| !made.contains_key(path)).collect();
    for (path, folder) in missing.into_iter().rev().filter(|(path, _)| modes.contains_key(path)) {
        match files.make_private_dir(&folder) {
            Ok(()) => drop(made.insert(path, folder)),
            Err(Error::Exists(_)) => {}
            // A file is in the way, perhaps, that goes with another one.
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Removes a folder, if there is one, in which there is nothing but empty folders; any other stays as it is.
fn remove_hollow_dir(files: &Files, folder: &Path) {
    let hollow = || -> Option<Vec<PathBuf>> {
        let mut found = vec![folder.to_path_buf()];
        let mut next = 0;
        while let Some(folder) = found.get(next) {
            let inside = std::fs::read_dir(folder).ok()?.map(|entry| {
                let entry = entry.ok()?;
                entry.file_type().ok()?.is_dir().then(|| entry.path())
            });
            let inside = inside.collect::<Option<Vec<_>>>()?;
            found.extend(inside);
            next += 1;
        }
        Some(found)
    };
    for folder in hollow().into_iter().flatten().rev() {
        // Whatever comes into one of them meanwhile stays, and so do those around it.
        if let Ok(place) = place_of(files, &folder) {
            _ = files.remove_empty_dir(&place);
        }
    }
}

fn restore(files: &Files, entry: &Entry, seen: &Seen) -> std::result::Result<(), Why> {
    let Seen { place, now, version, content, .. } = seen;
    // The other name may have gone with another file of this undo.
    check_moved(entry, place, now, seen.there.is_ok())?;
    match now {
        State::Link { .. } | State::Other => files.remove_other(place, *now)?,
        State::File { .. } if !matches!(entry.before, State::File { .. }) => {
            files.delete(place, expect(*version))?;
        }
        State::Missing => remove_hollow_dir(files, &place.real_path()),
        State::File { .. } => {}
    }
    match entry.before {
        State::Missing => {
            // Those that aren't empty stay, and so do those around them.
            let mut made = above_of(place).take(entry.depth_made());
            _ = made.try_for_each(|folder| files.remove_empty_dir(&folder));
        }
        State::File { mode, .. } => {
            files.write(place, content, &how(*version, Some(mode)))?;
        }
        State::Link { .. } => files.link(place, content)?,
        State::Other => return Err(Why::NotKept(Unkept::Special)),
    }
    Ok(())
}

/// Notes what files are after an undo of a turn: whether that turn's change is still to be seen, and, if it was itself an
/// undo, the change of the turn that it had undone.
fn mark(index: &mut Index, turn: &str, now: &HashMap<PathBuf, State>) {
    let turns = std::iter::successors(Some(turn), |turn| turn.rsplit_once("~undo").map(|(of, _)| of));
    for turn in turns {
        let known = index.turns.iter_mut().filter(|known| known.id == turn);
        for entry in known.flat_map(|turn| &mut turn.entries) {
            if let Some(now) = now.get(&entry.full_path()) {
                entry.prior = Some(entry.after);
                entry.after = *now;
                entry.undone = entry.before.same_content(now);
            }
        }
    }
}

fn expect(version: Option<Version>) -> Expect {
    version.map_or(Expect::New, Expect::Version)
}

fn how(version: Option<Version>, mode: Option<u32>) -> Write {
    Write { expect: expect(version), parents: true, hard_links: true, mode }
}
