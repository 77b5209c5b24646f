//! Copies of the files of a folder as they are before a turn: one file that grows, and an index of what is where in it.
//!
//! A file that did not change since the last look is not read again.

use super::index::Name;
use super::walk::{
    Before, Facts, Ignores, Limits, Look, TICK, Walked, identity, ignore_of, is_private, repository, told, walk,
};
use super::{Made, Unkept, is_only_name};
use crate::files::{Hash, State};
use crate::whole::{lock, open_own, open_to_read, own_folder, read_own, write_own};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// How long another process may look at the same folder before we give up.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// How long the copies of a folder are kept after the last turn in it.
const KEEP_TIME: Duration = Duration::from_hours(24 * 30);

/// Which form of the index is read and written.
const FORMAT: u32 = 4;

/// The files of a look: what is where, and the copies. Both have a second name while a turn needs them.
const INDEX: &str = "index.json";
const PACK: &str = "pack";
/// So much of the copies is written at once.
const COPY_BYTES: usize = 1 << 20;
/// So long is the name of the folder for the looks at one root.
const NAME_CHARS: usize = 32;

/// The second names: the look stays as it is, whoever looks next.
#[derive(Debug)]
struct Held {
    path: PathBuf,
    keep: AtomicBool,
}

impl Held {
    fn new(dir: &Path) -> io::Result<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("held-{}-{}-{number}", nanos(SystemTime::now()), std::process::id());
        let held = Self { path: dir.join(name), keep: false.into() };
        std::fs::hard_link(dir.join(INDEX), &held.path)?;
        std::fs::hard_link(dir.join(PACK), held.pack())?;
        Ok(held)
    }

    fn pack(&self) -> PathBuf {
        self.path.with_extension(PACK)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.keep.load(Ordering::Relaxed) {
            let _ = std::fs::remove_file(&self.path);
            let _ = std::fs::remove_file(self.pack());
        }
    }
}

/// A file as it was.
#[derive(Debug, Serialize, Deserialize)]
struct Seen {
    facts: Facts,
    /// Its content: where it begins in the copies, and its hash; or why it is not there.
    kept: Result<(u64, Hash), Unkept>,
    /// True if its times can't be trusted to show the next change.
    fresh: bool,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Index {
    format: u32,
    /// When the look began, in nanoseconds since 1970.
    began: i64,
    cut: bool,
    #[serde(with = "pairs")]
    files: BTreeMap<Name, Seen>,
    /// The folders, and their modes.
    #[serde(with = "pairs")]
    folders: BTreeMap<Name, u32>,
    /// Folders that were not looked into.
    passed: BTreeSet<Name>,
    /// The essential parts of repositories, and their identities.
    #[serde(default, with = "pairs")]
    essential: BTreeMap<Name, (u64, u64)>,
}

/// A name that is no text can't be a key in JSON.
mod pairs {
    use super::{BTreeMap, Name};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<T: Serialize, S: Serializer>(all: &BTreeMap<Name, T>, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(all)
    }

    pub(super) fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
        from: D,
    ) -> Result<BTreeMap<Name, T>, D::Error> {
        Ok(Vec::deserialize(from)?.into_iter().collect())
    }
}

/// A folder as it was before a turn.
#[derive(Debug)]
pub struct Base {
    /// The folder, without links.
    pub root: PathBuf,
    /// What is never looked at: our own state, and files that we write.
    pub(super) skip: Vec<PathBuf>,
    limits: Limits,
    ignores: Ignores,
    index: Index,
    /// `None` if nothing can be kept.
    pack: Option<File>,
    /// What is kept of it for whoever finishes the turn, if we can't.
    held: Option<Held>,
    /// What is not covered, in words.
    pub uncovered: BTreeSet<String>,
}

impl Base {
    /// Looks at a folder and copies what changed since the last look. Blocks for as long as the limits allow. What changes after
    /// `began` is the doing of whoever starts meanwhile. Where nothing can be written, nothing is copied, and that is said.
    pub fn take(
        state: Option<&Path>,
        root: &Path,
        skip: Vec<PathBuf>,
        limits: Limits,
        began: SystemTime,
    ) -> io::Result<Self> {
        let until = Instant::now() + limits.time;
        let root = root.canonicalize()?;
        let dir = state.map(|state| folder(state, &root));
        let began = nanos(began);
        let open = |dir: &Path| {
            // The folder of all sessions, that of all looks, and the one of this root: all of them ours, or nothing is touched.
            dir.ancestors().skip(1).take(2).chain([dir]).try_for_each(own_folder)?;
            let lock = lock(&dir.join("lock"), LOCK_TIMEOUT)?;
            let mut index = load(&dir.join(INDEX)).unwrap_or_default();
            let (pack, end) = open_pack(dir, &mut index)?;
            Ok((lock, index, pack, end))
        };
        // What was seen last is read while the folder is looked at.
        let (opened, mut walked) = std::thread::scope(|scope| {
            let opening = scope.spawn(|| dir.as_deref().map(open).transpose());
            let walked = walk(&root, &skip, &limits, until, None);
            (opening.join().unwrap_or_else(|_| Err(io::Error::other("the last look can't be read"))), walked)
        });
        let mut trouble = opened.as_ref().err().map(|error: &io::Error| error.to_string());
        let (_lock, mut index, pack, mut end) = match opened.ok().flatten() {
            Some((lock, index, pack, end)) => (Some(lock), index, Some(pack), end),
            None => (None, Index::default(), None, 0),
        };
        let mut pack = pack.map(|pack| BufWriter::with_capacity(COPY_BYTES, pack));
        let mut total = 0;
        let mut files = BTreeMap::new();
        for (name, facts) in std::mem::take(&mut walked.files) {
            let old = index.files.remove(name.as_os_str());
            let name = PathBuf::from(name);
            if (began + 1..=nanos(SystemTime::now())).contains(&facts.ctime) {
                // It changed while we looked, perhaps by the agent that starts meanwhile: what it was, if that is known, counts.
                let unknown = Seen { facts: Facts { ctime: 0, ..facts }, kept: Err(Unkept::Unseen), fresh: true };
                files.insert(Name(name), old.unwrap_or(unknown));
                continue;
            }
            total += facts.size;
            let mut kept =
                old.filter(|old| old.facts == facts && !old.fresh).map_or(Err(Unkept::Unseen), |old| old.kept);
            if kept.is_err() && (facts.is_file() || facts.is_link()) {
                let works = trouble.is_none();
                let mut copy = |pack: &mut BufWriter<File>| {
                    let bytes = read_known(&root.join(&name), facts).map_err(|_| Unkept::Unreadable)?;
                    if let Err(error) = pack.write_all(&bytes) {
                        trouble = Some(error.to_string());
                        return Err(Unkept::Nowhere);
                    }
                    Ok((end, Hash::of(&bytes)))
                };
                kept = match &mut pack {
                    _ if is_private(&root, &name) => Err(Unkept::Private),
                    _ if facts.size > limits.each => Err(Unkept::Large),
                    _ if total > limits.total => Err(Unkept::Room),
                    _ if Instant::now() >= until => Err(Unkept::Late),
                    Some(pack) if works => copy(pack),
                    _ => Err(Unkept::Nowhere),
                };
                end += if kept.is_ok() { facts.size } else { 0 };
                walked.uncovered.extend(match kept {
                    Err(Unkept::Private) => Some("the content of keys, logins and histories".into()),
                    Err(Unkept::Large) => Some(format!("files larger than {} KiB", limits.each >> 10)),
                    Err(Unkept::Room) => Some(format!("more than {} MiB of files", limits.total >> 20)),
                    Err(Unkept::Late) => Some(format!("what could not be copied in {} s", limits.time.as_secs())),
                    Err(Unkept::Unreadable) => Some("files that can't be read".into()),
                    _ => None,
                });
            }
            files.insert(Name(name), Seen { facts, kept, fresh: facts.is_fresh(began) });
        }
        let pack = pack.map(|mut pack| {
            if let Err(error) = pack.flush() {
                trouble.get_or_insert(error.to_string());
            }
            pack.into_parts().0
        });
        // What is said to be there must be there.
        if let Some(pack) = pack.as_ref().filter(|_| trouble.is_some()) {
            let written = pack.metadata().map_or(0, |meta| meta.len());
            let is_there = |seen: &Seen| seen.kept.is_ok_and(|(at, _)| at + seen.facts.size <= written);
            let lost = files.values_mut().filter(|seen| seen.kept.is_ok() && !is_there(seen));
            lost.for_each(|seen| seen.kept = Err(Unkept::Nowhere));
        }
        let Walked { folders, passed, essential, ignores, cut, mut uncovered, .. } = walked;
        let folders = folders.into_iter().map(|(name, mode)| (Name(name), mode)).collect();
        let passed = passed.into_keys().map(Name).collect();
        let essential = essential.into_iter().map(|(name, identity)| (Name(name), identity)).collect();
        let index = Index { format: FORMAT, began, cut, files, folders, passed, essential };
        let mut held = None;
        if let Some(dir) = dir.filter(|_| pack.is_some()) {
            let saved = save(&dir, &index).and_then(|()| Held::new(&dir));
            trouble = trouble.or(saved.as_ref().err().map(ToString::to_string));
            held = saved.ok();
            sweep(&dir);
        }
        uncovered.extend(trouble.map(|why| format!("old contents of files, for they can't be stored: {why}")));
        Ok(Self { root, skip, limits, ignores, index, pack, held, uncovered })
    }

    /// A look that is [held](Self::hold) under a name.
    pub(super) fn held(state: &Path, root: &Path, name: &str, skip: Vec<PathBuf>) -> io::Result<Self> {
        let held = Held { path: folder(state, root).join(name), keep: true.into() };
        let index = load(&held.path)?;
        let (pack, limits) = (Some(open_to_read(&held.pack())?), Limits::default());
        let (root, ignores, uncovered) = (root.to_owned(), Ignores::new(), BTreeSet::new());
        let mut base = Self { root, skip, limits, ignores, index, pack, held: Some(held), uncovered };
        let files = base.index.files.iter().filter(|(name, _)| name.0.ends_with(".gitignore"));
        let ignores = files.filter_map(|(name, seen)| {
            let folder = name.0.parent()?;
            Some((folder.to_owned(), ignore_of(&base.root.join(folder), &base.content(seen).ok()?)?))
        });
        base.ignores = ignores.collect();
        Ok(base)
    }

    /// Whether the look is kept when this is gone, until somebody says that it need not be. Gives what it is known by.
    pub(super) fn hold(&self, keep: bool) -> Option<String> {
        let held = self.held.as_ref()?;
        held.keep.store(keep, Ordering::Relaxed);
        held.path.file_name()?.to_str().map(str::to_owned)
    }

    /// When the look began.
    pub fn began(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_nanos(self.index.began.max(0).cast_unsigned())
    }

    /// True if a file, or its absence, is covered by this look.
    pub fn has(&self, name: &Path) -> bool {
        self.index.files.get(name.as_os_str()).is_some_and(|seen| seen.kept.is_ok())
    }

    /// The content of a file as it was, if it was kept and is whole.
    fn content(&self, seen: &Seen) -> Result<Vec<u8>, Unkept> {
        let (at, hash) = seen.kept?;
        let read = |pack: &File| {
            let mut bytes = vec![0; usize::try_from(seen.facts.size).ok()?];
            pack.read_exact_at(&mut bytes, at).ok()?;
            (Hash::of(&bytes) == hash).then_some(bytes)
        };
        self.pack.as_ref().and_then(read).ok_or(Unkept::Nowhere)
    }

    /// The files as they are now.
    pub fn look(&self) -> Look {
        self.walk().files
    }

    fn walk(&self) -> Walked {
        let knew = |name: &Path| self.index.files.contains_key(name.as_os_str());
        let before = Before { ignores: &self.ignores, knew: &knew };
        walk(&self.root, &self.skip, &self.limits, Instant::now() + self.limits.time, Some(before))
    }

    /// What changed between two looks: the path below the folder, what it was left as and its content, and whether it was
    /// as in this one before.
    pub fn between(&self, before: &Look, now: &Look) -> Vec<(PathBuf, State, Option<Vec<u8>>, bool)> {
        let until = Instant::now() + self.limits.time;
        let left = |name: &OsString| {
            let path = Path::new(name);
            let (state, content) = self.now(path, now.get(name).copied(), until);
            (path.to_owned(), state, content.ok(), self.first(path) == before.get(name).copied())
        };
        changed_names(before, now).map(left).collect()
    }

    /// Notes what changed between two looks, unless it had changed before in another way than is noted.
    pub fn follow(&self, before: &Look, now: &Look, left: &mut Left) {
        for name in changed_names(before, now) {
            let path = self.root.join(name);
            let was = before.get(name).copied();
            if left.get(&path).copied().unwrap_or_else(|| self.first(name.as_ref())) == was {
                left.insert(path, now.get(name).copied());
            } else {
                left.remove(&path);
            }
        }
    }

    fn first(&self, name: &Path) -> Option<Facts> {
        self.index.files.get(name.as_os_str()).map(|seen| seen.facts)
    }

    /// What a file is now, and its content, or why that is not known.
    fn now(&self, name: &Path, facts: Option<Facts>, until: Instant) -> (State, Result<Vec<u8>, Unkept>) {
        let Some(facts) = facts else { return (State::Missing, Ok(Vec::new())) };
        let path = self.root.join(name);
        let (hash, content) = match read(&path, self.limits.each) {
            Ok(bytes) if is_private(&self.root, name) => (Hash::of(&bytes), Err(Unkept::Private)),
            Ok(bytes) => (Hash::of(&bytes), Ok(bytes)),
            Err(_) if !facts.is_file() => (unknown(), Err(Unkept::Special)),
            Err(_) => match open(&path).and_then(|file| Hash::of_reader(Until { file, until })) {
                Ok((hash, _)) => (hash, Err(Unkept::Large)),
                Err(error) if error.kind() == io::ErrorKind::TimedOut => (unknown(), Err(Unkept::Huge)),
                Err(_) => (unknown(), Err(Unkept::Unreadable)),
            },
        };
        (state(facts, hash), content)
    }

    /// What is different now, and what of it can't be told because it could not be looked at, in words.
    pub fn differences(&self) -> (Vec<Difference>, BTreeSet<String>) {
        let Walked { files: now, passed, cut, folders: still, .. } = self.walk();
        let until = Instant::now() + self.limits.time;
        let mut found = Vec::new();
        let is_same = |name: &Path, known: (u64, u64)| {
            std::fs::symlink_metadata(self.root.join(name)).is_ok_and(|meta| identity(&meta) == known)
        };
        let broken = self.index.essential.iter().filter(|(name, known)| !is_same(&name.0, **known));
        let broken: Vec<&Path> = broken.map(|(name, _)| name.0.as_path()).collect();
        // What a repository that is gone had in it is not put back, so it stays where it was moved.
        let lost: HashSet<&Path> = broken.iter().filter_map(|name| repository(name)).collect();
        let stays =
            |name: &Path| repository(name).is_some_and(|own| lost.contains(own) && !self.root.join(own).exists());
        let kept = self.index.files.iter().filter(|(name, seen)| seen.kept.is_ok() && !stays(&name.0));
        let kept: HashSet<u64> = kept.map(|(_, seen)| seen.facts.inode).collect();
        let is_gone = |name: &Path| {
            let here = || std::fs::symlink_metadata(self.root.join(name)).is_ok_and(|meta| meta.is_dir());
            !still.contains_key(name) && !here()
        };
        let gone = self.index.folders.iter().filter(|(name, _)| is_gone(&name.0));
        let gone: HashMap<&Path, u32> = gone.map(|(name, mode)| (name.0.as_path(), *mode)).collect();
        let mut add = |name: &Path, was: State, old: Result<Vec<u8>, Unkept>, facts: Option<Facts>, folder| {
            let (after, new) = self.now(name, facts, until);
            // What was not made here would be gone with an undo, unless that keeps a copy.
            let moved = (was == State::Missing || new == Err(Unkept::Large)) && self.was_elsewhere(name, facts, &kept);
            if !was.same_content(&after) {
                let above = name.ancestors().skip(1).map_while(|above| gone.get(above).copied());
                let (name, new, gone) = (name.to_owned(), new.ok(), above.collect());
                found.push(Difference { name, before: was, old, after, new, folder, gone, facts, moved });
            }
        };
        for (name, seen) in &self.index.files {
            let name = &name.0;
            // One that the walk does not show any more may only be beyond its limits. Behind a link it is another file.
            let facts = now.get(name.as_os_str()).copied().or_else(|| {
                let path = self.root.join(name);
                let folder = path.parent()?;
                folder.canonicalize().ok().filter(|real| real == folder)?;
                let meta = std::fs::symlink_metadata(&path).ok().filter(|meta| !meta.is_dir())?;
                Some(Facts::of(&meta))
            });
            let same = facts == Some(seen.facts);
            if !same || (seen.fresh && seen.kept.is_ok()) {
                let hash = seen.kept.map_or_else(|_| Hash::of(WAS), |(_, hash)| hash);
                add(name, state(seen.facts, hash), self.content(seen), facts, None);
            }
        }
        for (name, facts) in &now {
            if self.index.files.contains_key(name.as_os_str()) {
                continue;
            }
            let name = Path::new(name);
            // Where not everything was looked at, it may have been there.
            let perhaps = self.index.cut || name.ancestors().any(|above| self.index.passed.contains(above.as_os_str()));
            if !perhaps {
                add(name, State::Missing, Ok(Vec::new()), Some(*facts), self.new_folder(name));
            } else if !facts.is_before(self.index.began) {
                add(name, state(*facts, Hash::of(WAS)), Err(Unkept::Unseen), Some(*facts), None);
            }
        }
        // Of a folder that was not looked into it is only known whether it is there.
        let gone = |name: &&Name| !std::fs::symlink_metadata(self.root.join(&name.0)).is_ok_and(|meta| meta.is_dir());
        for name in self.index.passed.iter().filter(gone) {
            add(&name.0, State::Other, Err(Unkept::Special), None, None);
        }
        for name in broken {
            add(name, State::Other, Err(Unkept::Repository), None, None);
        }
        let new = passed.iter().filter(|(name, why)| why.hides() && !self.index.passed.contains(name.as_os_str()));
        let mut unseen = told(new);
        unseen.extend((cut && !self.index.cut).then(|| "files beyond the limits".to_owned()));
        (found, unseen)
    }

    /// True if a file was made before the turn, and there is no copy of it under any name that it had.
    fn was_elsewhere(&self, name: &Path, facts: Option<Facts>, kept: &HashSet<u64>) -> bool {
        let Some(facts) = facts.filter(|facts| facts.is_file() && !kept.contains(&facts.inode)) else { return false };
        let made = std::fs::symlink_metadata(self.root.join(name)).and_then(|meta| meta.created());
        // Where that is not known, as some file systems have it, the turn made it.
        made.is_ok_and(|made| nanos(made) < self.index.began.saturating_sub(TICK)) && facts.size > 0
    }

    /// The outermost folder above a new file that is new as well.
    fn new_folder(&self, name: &Path) -> Option<PathBuf> {
        let above = name.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty());
        let new = above.take_while(|folder| !self.index.folders.contains_key(folder.as_os_str()));
        new.last().map(Path::to_owned)
    }
}

/// Stand for contents that are not known, before and now: they are like no other, and nothing is put back from them.
const WAS: &[u8] = b"?";
const IS: &[u8] = b"??";

/// True for a file that is too large to be known again.
pub(super) fn is_unknown(state: &State) -> bool {
    matches!(state, State::File { hash, .. } if *hash == unknown())
}

/// What stands for the hash of such a file.
pub(super) fn unknown() -> Hash {
    Hash::of(IS)
}

/// What a file is, by its facts and its content.
fn state(facts: Facts, hash: Hash) -> State {
    let (size, mode) = (facts.size, facts.mode & 0o1777);
    match facts {
        facts if facts.is_file() => State::File { hash, size, mode },
        facts if facts.is_link() => State::Link { hash, size },
        _ => State::Other,
    }
}

/// What some have left in files, by their whole paths; none where they deleted one.
pub type Left = BTreeMap<PathBuf, Option<Facts>>;

fn changed_names<'a>(before: &'a Look, now: &'a Look) -> impl Iterator<Item = &'a OsString> {
    let names: BTreeSet<&OsString> = before.keys().chain(now.keys()).collect();
    names.into_iter().filter(|name| before.get(*name) != now.get(*name))
}

/// A file that is different now.
#[derive(Debug, Clone)]
pub struct Difference {
    /// The path below the folder.
    pub name: PathBuf,
    /// What was there.
    pub before: State,
    /// Its content then, or why it can't be put back. That of a link is where it leads.
    pub old: Result<Vec<u8>, Unkept>,
    /// What is there.
    pub after: State,
    /// Its content now, if it is there and is known.
    pub new: Option<Vec<u8>>,
    /// The outermost folder above it that is new as well.
    pub folder: Option<PathBuf>,
    /// The modes of the folders above it that are gone, innermost first.
    pub gone: Vec<u32>,
    /// What tells this state from others; none if it is gone.
    pub facts: Option<Facts>,
    /// What is there was not made meanwhile, but moved here from where nobody looks.
    pub moved: bool,
}

impl Difference {
    /// Why it can't be undone as it is, if it can't.
    pub fn unkept(&self, base: &Base) -> Option<Unkept> {
        let is_moved = || self.moved && is_only_name(&base.root.join(&self.name));
        self.old.as_ref().err().copied().or_else(|| is_moved().then_some(Unkept::Moved))
    }

    /// The change that led to it, below the folder of a look.
    pub fn made(&self, base: &Base) -> Made<'_> {
        Made {
            root: base.root.clone(),
            path: self.name.clone(),
            before: self.before,
            content: self.old.as_deref().map_err(|why| *why),
            after: self.after,
            directory: self.folder.as_deref(),
            gone: &self.gone,
            mixed: false,
            moved: self.moved,
        }
    }
}

/// A file that is read for a limited time.
struct Until {
    file: File,
    until: Instant,
}

impl io::Read for Until {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if Instant::now() < self.until { self.file.read(buffer) } else { Err(io::ErrorKind::TimedOut.into()) }
    }
}

fn nanos(time: SystemTime) -> i64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

fn folder(state: &Path, root: &Path) -> PathBuf {
    use std::os::unix::ffi::OsStrExt as _;
    state.join("undo/base").join(&Hash::of(root.as_os_str().as_bytes()).to_string()[..NAME_CHARS])
}

/// Removes the copies of folders in which nobody worked for long, and what was held here by somebody who did not get further.
fn sweep(mine: &Path) {
    let old = |path: &Path| {
        let touched = std::fs::metadata(path).and_then(|meta| meta.modified());
        touched.is_ok_and(|time| time.elapsed().is_ok_and(|age| age > KEEP_TIME))
    };
    let entries = |dir: &Path| std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let name = |dir: &Path| dir.file_name().and_then(|name| Some(name.to_str()?.len())) == Some(NAME_CHARS);
    let others = mine.parent().map(entries).into_iter().flatten().filter(|dir| dir != mine && name(dir));
    for dir in others.filter(|dir| old(&dir.join(INDEX))) {
        let lock = File::open(dir.join("lock"));
        if lock.is_ok_and(|lock| lock.try_lock().is_ok()) {
            let _ = std::fs::remove_dir_all(&dir);
        }
    }
    let held = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("held-"));
    for path in entries(mine).filter(|path| held(path) && path.extension().is_none() && old(path)) {
        drop(Held { path, keep: false.into() });
    }
}

fn open(path: &Path) -> io::Result<File> {
    // What was a file a moment ago may be a FIFO now: nobody waits for its other end.
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)
}

/// The content of a file or link that was just looked at, if it is still as long. One read tells: of anything else than that file
/// there is more or less, and nobody waits for it.
fn read_known(path: &Path, facts: Facts) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if facts.is_link() {
        bytes = std::fs::read_link(path)?.into_os_string().into_vec();
    } else {
        let size = usize::try_from(facts.size).map_err(|_| io::ErrorKind::FileTooLarge)?;
        bytes.resize(size + 1, 0);
        let mut file = open(path)?;
        let mut end = 0;
        while end < bytes.len() {
            match file.read(&mut bytes[end..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => match read? {
                    0 => break,
                    count => end += count,
                },
            }
            // All of it in one go is all there is.
            if end == size {
                break;
            }
        }
        bytes.truncate(end);
    }
    if bytes.len() as u64 == facts.size { Ok(bytes) } else { Err(io::ErrorKind::InvalidData.into()) }
}

fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let file = match open(path) {
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
            return std::fs::read_link(path).map(|target| target.into_os_string().into_vec());
        }
        opened => opened?,
    };
    let meta = file.metadata()?;
    if !meta.is_file() || meta.len() > limit {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut bytes = Vec::with_capacity(usize::try_from(meta.len()).unwrap_or(0));
    file.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 == meta.len() { Ok(bytes) } else { Err(io::ErrorKind::InvalidData.into()) }
}

fn load(path: &Path) -> io::Result<Index> {
    let index: Index = serde_json::from_slice(&read_own(path)?)?;
    if index.format == FORMAT { Ok(index) } else { Err(io::ErrorKind::InvalidData.into()) }
}

fn save(dir: &Path, index: &Index) -> io::Result<()> {
    let text = serde_json::to_vec(index).map_err(io::Error::other)?;
    write_own(&dir.join(INDEX), &text, true)
}

/// Opens the copies to add to them. If most of them are of no use any more, begins a new file; those who read the old one
/// still have it.
fn open_pack(dir: &Path, index: &mut Index) -> io::Result<(File, u64)> {
    let path = dir.join(PACK);
    let known = std::fs::metadata(&path).map_or(0, |meta| meta.len());
    let used: u64 = index.files.values().filter(|seen| seen.kept.is_ok()).map(|seen| seen.facts.size).sum();
    if known > used.saturating_mul(2).saturating_add(16 << 20) || (known < used) {
        let _ = std::fs::remove_file(&path);
        index.files.values_mut().for_each(|seen| seen.kept = Err(Unkept::Unseen));
    }
    let mut pack = open_own(OpenOptions::new().read(true).append(true), &path)?;
    let end = pack.seek(SeekFrom::End(0))?;
    Ok((pack, end))
}
