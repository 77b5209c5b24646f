//! What a snapshot directory remembers: turns, the files they touched, and the old contents by hash.

use super::{Kind, Unkept, unclear, weight};
use crate::{
    files::{Hash, State},
    roots::{Error, Result, shown},
    whole::{self, open_to_read, own_folder, read_own, sync_disk, write_own},
};
use rustix::fs::{AtFlags, Dir, Mode, OFlags};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::DeserializeOwned};
use std::{
    borrow::Borrow,
    cmp::Ordering,
    collections::{HashMap, HashSet},
    ffi::{OsStr, OsString},
    fs::{self, File},
    io::{self, Read as _, Write as _},
    os::unix::{
        ffi::{OsStrExt as _, OsStringExt as _},
        fs::MetadataExt as _,
    },
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

/// How long another process may take to change what is remembered.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Index {
    pub(super) format: u32,
    pub(super) turns: Vec<Turn>,
    /// What is said of an earlier one that was damaged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) damage: Option<String>,
    /// The file that says just this; `None` if no file does.
    #[serde(skip)]
    pub(super) stamp: Option<Stamp>,
}

/// Tells one file from another that took its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    inode: u64,
    size: u64,
    modified: Option<SystemTime>,
}

impl Stamp {
    fn of(meta: &fs::Metadata) -> Self {
        Self { inode: meta.ino(), size: meta.len(), modified: meta.modified().ok() }
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Turn {
    pub(super) id: String,
    pub(super) entries: Vec<Entry>,
    /// Folders that are gone since, or may be.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) folders: Vec<Folder>,
    /// What it changed beyond what can be remembered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) beyond: Vec<Beyond>,
}

/// So many files of a turn that is forgotten are still named.
const MAX_FORGOTTEN_NAMES: usize = 1000;

/// A file that can't be put back, for there were too many.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Beyond {
    /// The whole path.
    pub(super) path: Name,
    pub(super) kind: Kind,
}

impl Turn {
    fn new(id: String) -> Self {
        Self { id, entries: Vec::new(), folders: Vec::new(), beyond: Vec::new() }
    }

    /// Keeps what matters most if there is more than the limit, and only the names of the rest; true if there is a rest. `known` are
    /// the paths of the entries.
    pub(super) fn leave_out(&mut self, limit: usize, known: &HashMap<PathBuf, usize>) -> bool {
        if !self.beyond.is_empty() {
            self.beyond.retain(|beyond| !known.contains_key(&beyond.path.0));
        }
        if self.entries.len() <= limit {
            return false;
        }
        let mut order: Vec<usize> = (0..self.entries.len()).collect();
        order.sort_by_cached_key(|at| weight(&self.entries[*at].path.0, self.entries[*at].before));
        let out: HashSet<usize> = order.into_iter().skip(limit).collect();
        let mut at = 0;
        let beyond = &mut self.beyond;
        self.entries.retain(|entry| {
            let stays = !out.contains(&at);
            at += 1;
            if !stays && entry.in_effect() {
                beyond.push(entry.to_beyond());
            }
            stays
        });
        true
    }

    /// What is beyond the limit and still to be seen: of what was added, that which is there.
    pub(super) fn still_beyond(&self) -> impl Iterator<Item = &Beyond> {
        self.beyond.iter().filter(|beyond| beyond.kind != Kind::Added || beyond.path.0.symlink_metadata().is_ok())
    }
}

/// A folder as it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Folder {
    pub(super) root: Name,
    pub(super) path: Name,
    pub(super) mode: u32,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) root: Name,
    pub(super) path: Name,
    pub(super) before: State,
    pub(super) after: State,
    /// What was there between the first and the last change of the turn; there again if the last one didn't happen.
    pub(super) prior: Option<State>,
    /// Why it can't be put back, if it can't.
    #[serde(default)]
    pub(super) unkept: Option<Unkept>,
    /// The outermost of the directories made for it, relative to the root; older versions wrote all of them.
    pub(super) directories: Vec<Name>,
    pub(super) undone: bool,
    /// Somebody else changed it between two changes of the turn.
    #[serde(default)]
    pub(super) mixed: bool,
    /// What the turn did not make, but moved here from where nobody looks: an undo must not lose it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) moved: Option<State>,
}

impl Entry {
    pub(super) fn full_path(&self) -> PathBuf {
        self.root.0.join(&self.path.0)
    }

    fn to_beyond(&self) -> Beyond {
        Beyond { path: Name(self.full_path()), kind: Kind::of(self.before, self.after) }
    }

    pub(super) fn is(&self, path: &Path) -> bool {
        self.path.0 == path || self.full_path() == path
    }

    /// How many of the directories above it were made for it.
    pub(super) fn depth_made(&self) -> usize {
        let length = |Name(folder): &Name| folder.as_os_str().len();
        let outermost = self.directories.iter().map(length).min().unwrap_or(usize::MAX);
        self.path.0.ancestors().skip(1).take_while(|folder| folder.as_os_str().len() >= outermost).count()
    }

    /// Whether the turn made a difference that is still to be seen.
    pub(super) fn in_effect(&self) -> bool {
        !self.undone && !self.before.same_content(&self.after)
    }

    /// Whether `now` is something the turn left there.
    pub(super) fn ours(&self, now: &State) -> bool {
        self.after.same_content(now) || self.prior.is_some_and(|prior| prior.same_content(now))
    }

    fn blob(&self) -> Option<(Hash, u64)> {
        match self.before {
            State::File { hash, size, .. } | State::Link { hash, size } if self.unkept.is_none() => Some((hash, size)),
            _ => None,
        }
    }
}

impl Index {
    /// The turn with this id, made if it isn't there.
    pub(super) fn turn(&mut self, id: &str) -> usize {
        self.turns.iter().position(|turn| turn.id == id).unwrap_or_else(|| {
            self.turns.push(Turn::new(id.to_owned()));
            self.turns.len() - 1
        })
    }

    pub(super) fn blobs(&self) -> HashMap<Hash, u64> {
        self.turns.iter().flat_map(|turn| &turn.entries).filter_map(Entry::blob).collect()
    }

    /// Forgets the oldest turns until no more than `limit` files are remembered, but for some names; never this one, nor what it undoes or
    /// came about beside. Says which.
    pub(super) fn forget_oldest(&mut self, keep: &str, limit: usize) -> Vec<String> {
        let (of, turn) = (keep.rsplit_once("~undo").map(|(of, _)| of), keep.split('~').next().unwrap_or(keep));
        let beside = unclear(turn);
        let is_kept = |id: &str| [keep, turn, &beside].contains(&id) || of == Some(id);
        let mut forgot = Vec::new();
        while self.turns.iter().map(|turn| turn.entries.len()).sum::<usize>() > limit
            && let Some(oldest) = self.turns.iter_mut().find(|turn| !turn.entries.is_empty() && !is_kept(&turn.id))
        {
            let entries = std::mem::take(&mut oldest.entries).into_iter().filter(Entry::in_effect);
            oldest.beyond.extend(entries.take(MAX_FORGOTTEN_NAMES).map(|entry| entry.to_beyond()));
            oldest.folders.clear();
            forgot.push(oldest.id.clone());
        }
        forgot
    }

    /// Drops the contents of the oldest turns until `size` more bytes fit; never those of the turn at `keep`, and none if that
    /// does not help.
    pub(super) fn make_room(&mut self, keep: usize, size: u64, limit: u64) -> bool {
        let own: HashMap<_, _> = self.turns[keep].entries.iter().filter_map(Entry::blob).collect();
        if own.values().sum::<u64>().saturating_add(size) > limit {
            return false;
        }
        while self.blobs().values().sum::<u64>().saturating_add(size) > limit {
            let mut old = self.turns.iter_mut().enumerate().filter(|(at, _)| *at != keep).map(|(_, turn)| turn);
            let Some(turn) = old.find(|turn| turn.entries.iter().any(|entry| entry.blob().is_some())) else {
                return false;
            };
            let kept = turn.entries.iter_mut().filter(|entry| entry.blob().is_some());
            kept.for_each(|entry| entry.unkept = Some(Unkept::Room));
        }
        true
    }

    pub(super) fn entry(&mut self, turn: &str, path: &Path) -> Option<&mut Entry> {
        self.turns.iter_mut().find(|other| other.id == turn)?.entries.iter_mut().find(|entry| entry.is(path))
    }
}

/// The turns in a damaged index; of one that is not whole, the files that are. A turn whose name is lost gets another one.
fn readable_turns(text: &[u8]) -> Vec<Turn> {
    let mut turns: Vec<Turn> = Vec::new();
    // Whether what comes next belongs to the last turn.
    let (mut is_open, mut at) = (false, 0);
    while let Some(found) = text[at..].windows(2).position(|two| two == b"{\"") {
        at += found;
        let rest = &text[at..];
        if let Some((turn, length)) = first::<Turn>(rest) {
            turns.push(turn);
            (is_open, at) = (false, at + length);
        } else if let Some((entry, length)) = first::<Entry>(rest) {
            if !is_open {
                turns.push(Turn::new(format!("lost{}", turns.len() + 1)));
            }
            if let Some(turn) = turns.last_mut() {
                turn.entries.push(entry);
            }
            (is_open, at) = (true, at + length);
        } else {
            if let Some((id, _)) = rest.strip_prefix(b"{\"id\":").and_then(first::<String>) {
                turns.push(Turn::new(id));
                is_open = true;
            }
            at += 2;
        }
    }
    turns.retain(|turn| !turn.entries.is_empty());
    turns
}

/// The value at the beginning of a text, and how long it is.
fn first<T: DeserializeOwned>(text: &[u8]) -> Option<(T, usize)> {
    let mut values = serde_json::Deserializer::from_slice(text).into_iter::<T>();
    let value = values.next()?.ok()?;
    Some((value, values.byte_offset()))
}

/// The directory on disk. Everything in it is written whole or not at all.
#[derive(Debug)]
pub(super) struct Disk {
    dir: PathBuf,
}

impl Disk {
    pub(super) fn at(dir: &Path) -> Self {
        Self { dir: dir.to_path_buf() }
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The folder that all of this, and the copies of folders, is in.
    pub(super) fn state(&self) -> &Path {
        self.dir.ancestors().nth(2).unwrap_or(&self.dir)
    }

    /// The index, if it was written since.
    pub(super) fn changed_since(&self, since: SystemTime) -> Option<Index> {
        let written = fs::metadata(self.index()).and_then(|meta| meta.modified()).ok()?;
        self.load().filter(|_| written >= since)
    }

    /// Opens it and reads the index. A damaged one is put aside; what can be read of it counts.
    pub(super) fn open(dir: PathBuf) -> Result<(Self, Index)> {
        let disk = Self { dir };
        let failed = |error| Error::new(&disk.dir, "opening", error);
        // The folder of all sessions, this one's, and that of its contents: all of them ours, or nothing is touched.
        let folders = [disk.dir.parent().unwrap_or(&disk.dir), &disk.dir, &disk.contents()];
        let made = match folders.into_iter().try_for_each(own_folder) {
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Err(failed(error)),
            made => made.map_err(failed),
        };
        let alone = made.and_then(|()| disk.lock());
        if let Some(index) = disk.load() {
            // What can't be written can still be looked at. Contents that only a damaged index knew of stay, as it does.
            if alone.is_ok() && index.damage.is_none() {
                disk.tidy(&index);
            }
            return Ok((disk, index));
        }
        let _alone = alone?;
        let index = match open_to_read(&disk.index()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => disk.begun()?,
            file => disk.salvaged(file.map_err(|error| Error::new(&disk.index(), "reading", error))?)?,
        };
        Ok((disk, index))
    }

    /// The index where there is none: it was never written, or it is lost, and contents are still there that only it knew of.
    fn begun(&self) -> Result<Index> {
        let mut index = Index { format: 1, ..Index::default() };
        let names = fs::read_dir(self.contents()).into_iter().flatten().flatten().map(|entry| entry.file_name());
        let lost = names.filter(|name| name.to_str().is_some_and(is_content)).count();
        if lost > 0 {
            let path = shown(&self.index());
            let there = shown(&self.contents());
            index.damage = Some(format!(
                "{path}, the list of what can be undone, is gone: which files were changed is not known any more; {lost} old contents \
                 are still in {there}"
            ));
            self.save(&index)?;
        }
        Ok(index)
    }

    /// Writes the index if there is none yet.
    pub(super) fn save_first(&self, index: &Index) -> Result<()> {
        if self.index().exists() { Ok(()) } else { self.save(index) }
    }

    /// What can be read of a damaged index. The file is kept beside.
    fn salvaged(&self, mut damaged: File) -> Result<Index> {
        let (path, mut text) = (self.index(), Vec::new());
        let read = damaged.read_to_end(&mut text);
        let names = (1..).map(|number| self.dir.join(format!("index.damaged-{number}")));
        let aside = { names }.find(|name| !name.exists()).unwrap_or_default();
        fs::rename(&path, &aside).map_err(|error| Error::new(&aside, "putting aside", error))?;
        let turns = readable_turns(&text);
        let files: usize = turns.iter().map(|turn| turn.entries.len()).sum();
        let why = read.err().map(|error| format!(" ({error})")).unwrap_or_default();
        let damage = format!(
            "{}, the list of what can be undone, was damaged{why}: {files} changes of {} turns could be read, others are lost; the \
             damaged file is {}",
            shown(&path),
            turns.len(),
            shown(&aside)
        );
        let index = Index { format: 1, turns, damage: Some(damage), stamp: None };
        self.save(&index)?;
        Ok(index)
    }

    /// Keeps other processes from changing anything.
    pub(super) fn lock(&self) -> Result<File> {
        let path = self.dir.join("lock");
        whole::lock(&path, LOCK_TIMEOUT).map_err(|error| Error::new(&path, "locking", error))
    }

    /// The index as it is now, if it can be read.
    pub(super) fn load(&self) -> Option<Index> {
        let mut file = open_to_read(&self.index()).ok()?;
        let stamp = Stamp::of(&file.metadata().ok()?);
        let mut text = Vec::new();
        file.read_to_end(&mut text).ok()?;
        let index: Index = serde_json::from_slice(&text).ok()?;
        (index.format == 1).then_some(Index { stamp: Some(stamp), ..index })
    }

    /// The same, if it is another file than the one that this came from: it is never changed in place.
    pub(super) fn load_newer(&self, known: &Index) -> Option<Index> {
        let now = fs::metadata(self.index()).ok().map(|meta| Stamp::of(&meta));
        if now.is_some() && now == known.stamp { None } else { self.load() }
    }

    /// Says which turn is under way for as long as the file is held.
    pub(super) fn announce(&self, turn: &str) -> Result<File> {
        let path = self.dir.join("turn");
        let announce = || {
            let mut file = whole::lock(&path, LOCK_TIMEOUT)?;
            file.set_len(0)?;
            file.write_all(turn.as_bytes())?;
            Ok(file)
        };
        announce().map_err(|error: io::Error| Error::new(&path, "writing", error))
    }

    /// The turn that somebody says is under way.
    pub(super) fn announced(&self) -> Option<String> {
        let mut file = open_to_read(&self.dir.join("turn")).ok()?;
        // Only what is held is true: whoever wrote it may be gone.
        let held = matches!(file.try_lock_shared(), Err(fs::TryLockError::WouldBlock));
        let mut turn = String::new();
        (held && file.read_to_string(&mut turn).is_ok() && !turn.is_empty()).then_some(turn)
    }

    fn index(&self) -> PathBuf {
        self.dir.join("index.json")
    }

    fn blob(&self, hash: Hash) -> PathBuf {
        self.contents().join(hash.to_string())
    }

    fn contents(&self) -> PathBuf {
        self.dir.join("blobs")
    }

    pub(super) fn save(&self, index: &Index) -> Result<()> {
        let path = self.index();
        let text = serde_json::to_vec(index).map_err(|error| Error::new(&path, "writing", io::Error::other(error)))?;
        write_own(&path, &text, true).map_err(|error| Error::new(&path, "writing", error))
    }

    /// Keeps a content; in bulk it is durable only after [`Disk::sync`].
    pub(super) fn put(&self, hash: Hash, bytes: &[u8], bulk: bool) -> Result<()> {
        if self.get(hash).is_some() {
            return Ok(());
        }
        let path = self.blob(hash);
        let written = own_folder(&self.contents()).and_then(|()| write_own(&path, bytes, !bulk));
        written.map_err(|error| Error::new(&path, "writing", error))
    }

    /// Makes durable all that was written.
    pub(super) fn sync(&self) -> Result<()> {
        sync_disk(&self.dir).map_err(|error| Error::new(&self.dir, "saving", error))
    }

    /// A content, if it is there and whole.
    pub(super) fn get(&self, hash: Hash) -> Option<Vec<u8>> {
        read_own(&self.blob(hash)).ok().filter(|bytes| Hash::of(bytes) == hash)
    }

    /// Removes contents that nobody needs, and nothing that is not named like one: through a handle on our own folder, so that
    /// nothing else can take its place meanwhile.
    pub(super) fn tidy(&self, index: &Index) {
        let wanted: HashSet<String> = index.blobs().keys().map(Hash::to_string).collect();
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Ok(folder) = rustix::fs::open(self.contents(), flags, Mode::empty()) else { return };
        for entry in Dir::read_from(&folder).into_iter().flatten().flatten() {
            let name = entry.file_name().to_str().unwrap_or_default();
            if is_content(name) && !wanted.contains(name) {
                _ = rustix::fs::unlinkat(&folder, name, AtFlags::empty());
            }
        }
    }
}

/// Whether a content, or one that was not written to its end, has this name.
fn is_content(name: &str) -> bool {
    let (hash, rest) = name.split_once('.').unwrap_or((name, "tmp"));
    hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) && rest.split('.').next_back() == Some("tmp")
}

/// A path in the index: text where it is text, otherwise its bytes. In the order of its bytes: to compare paths part by part takes
/// several times as long, and there are thousands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name(pub(super) PathBuf);

impl Ord for Name {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.as_os_str().cmp(other.0.as_os_str())
    }
}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Borrow<OsStr> for Name {
    fn borrow(&self) -> &OsStr {
        self.0.as_os_str()
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Stored {
    Text(String),
    Bytes(Vec<u8>),
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        match self.0.to_str() {
            Some(text) => text.serialize(to),
            None => self.0.as_os_str().as_bytes().serialize(to),
        }
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        Ok(Self(match Stored::deserialize(from)? {
            Stored::Text(text) => text.into(),
            Stored::Bytes(bytes) => OsString::from_vec(bytes).into(),
        }))
    }
}
