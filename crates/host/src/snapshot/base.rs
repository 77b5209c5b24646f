//! Copies of the files of a folder as they are before a turn: one file that grows, and an index of what is where in it.
//!
//! A file that did not change since the last look is not read again.

use super::index::Name;
use super::walk::{Before, Facts, Ignores, Limits, Walked, ignore_of, is_private, walk};
use crate::files::{Hash, State};
use crate::whole::{lock, write_whole};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// How long another process may look at the same folder before we give up.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// How long the copies of a folder are kept after the last turn in it.
const KEEP_TIME: Duration = Duration::from_hours(24 * 30);

/// Which form of the index is read and written.
const FORMAT: u32 = 2;

/// A file as it was.
#[derive(Debug, Serialize, Deserialize)]
struct Seen {
    facts: Facts,
    /// Its content: where it begins in the copies, and its hash. `None` if it is not kept.
    kept: Option<(u64, Hash)>,
    /// True if its times can't be trusted to show the next change.
    fresh: bool,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Index {
    format: u32,
    /// Changes whenever anything in it does.
    generation: u64,
    /// When the look began, in nanoseconds since 1970.
    began: i64,
    cut: bool,
    #[serde(with = "pairs")]
    files: BTreeMap<Name, Seen>,
    folders: BTreeSet<Name>,
    /// Folders that were not looked into.
    passed: BTreeSet<Name>,
}

/// A name that is no text can't be a key in JSON.
mod pairs {
    use super::{BTreeMap, Name, Seen};
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(files: &BTreeMap<Name, Seen>, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(files)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<Name, Seen>, D::Error> {
        Ok(Vec::deserialize(from)?.into_iter().collect())
    }
}

/// A folder as it was before a turn.
#[derive(Debug)]
pub struct Base {
    /// The folder, without links.
    pub root: PathBuf,
    /// What is never looked at: our own state, and files that we write.
    skip: Vec<PathBuf>,
    limits: Limits,
    ignores: Ignores,
    index: Index,
    pack: File,
    /// What is not covered, in words.
    pub uncovered: BTreeSet<String>,
}

impl Base {
    /// Looks at a folder and copies what changed since the last look. Blocks for as long as the limits allow. What changes after
    /// `began` is the doing of whoever starts meanwhile.
    pub fn take(state: &Path, root: &Path, skip: Vec<PathBuf>, limits: Limits, began: SystemTime) -> io::Result<Self> {
        let until = Instant::now() + limits.time;
        let root = root.canonicalize()?;
        let dir = folder(state, &root);
        let _lock = lock(&dir.join("lock"), LOCK_TIMEOUT)?;
        let began = nanos(began);
        let mut index = load(&dir);
        let mut pack = open_pack(&dir, &mut index)?;
        let mut walked = walk(&root, &skip, &limits, until, None);
        let mut end = pack.seek(SeekFrom::End(0))?;
        let mut total = 0;
        let mut files = BTreeMap::new();
        let mut changed = false;
        for (name, facts) in std::mem::take(&mut walked.files) {
            let old = index.files.remove(name.as_path());
            if (began + 1..=nanos(SystemTime::now())).contains(&facts.ctime) {
                // It changed while we looked, perhaps by the agent that starts meanwhile: what it was, if that is known, counts.
                let unknown = Seen { facts: Facts { ctime: 0, ..facts }, kept: None, fresh: true };
                changed |= old.is_none();
                files.insert(Name(name), old.unwrap_or(unknown));
                continue;
            }
            let same = old.as_ref().is_some_and(|old| old.facts == facts && !old.fresh);
            let mut kept = old.filter(|_| same).and_then(|old| old.kept);
            total += facts.size;
            if kept.is_none() && (facts.is_file() || facts.is_link()) {
                let fits =
                    !is_private(&name) && facts.size <= limits.each && total <= limits.total && Instant::now() < until;
                match fits.then(|| read(&root.join(&name), limits.each)) {
                    Some(Ok(bytes)) if bytes.len() as u64 == facts.size => {
                        pack.write_all(&bytes)?;
                        kept = Some((end, Hash::of(&bytes)));
                        end += bytes.len() as u64;
                    }
                    Some(_) => drop(walked.uncovered.insert("files that can't be read".into())),
                    None if is_private(&name) => drop(walked.uncovered.insert("the content of folders of keys".into())),
                    None if facts.size > limits.each => {
                        walked.uncovered.insert(format!("files larger than {} KiB", limits.each >> 10));
                    }
                    None if total > limits.total => {
                        walked.uncovered.insert(format!("more than {} MiB of files", limits.total >> 20));
                    }
                    None => {
                        walked.uncovered.insert(format!("what could not be copied in {} s", limits.time.as_secs()));
                    }
                }
                changed = true;
            }
            files.insert(Name(name), Seen { facts, kept, fresh: facts.is_fresh(began) });
        }
        let Walked { folders, passed, ignores, cut, uncovered, .. } = walked;
        let folders: BTreeSet<Name> = folders.into_iter().map(Name).collect();
        changed |= !index.files.is_empty() || index.folders != folders;
        let generation =
            if changed { index.generation.wrapping_add(1).max(began.cast_unsigned()) } else { index.generation };
        let passed = passed.into_keys().map(Name).collect();
        let index = Index { format: FORMAT, generation, began, cut, files, folders, passed };
        save(&dir, &index)?;
        sweep(&dir);
        Ok(Self { root, skip, limits, ignores, index, pack, uncovered })
    }

    /// The last look at a folder, if nobody looked since.
    pub fn last(state: &Path, root: &Path, generation: u64) -> io::Result<Option<Self>> {
        let root = root.canonicalize()?;
        let dir = folder(state, &root);
        let _lock = lock(&dir.join("lock"), LOCK_TIMEOUT)?;
        let index = load(&dir);
        if index.generation != generation || index.format != FORMAT {
            return Ok(None);
        }
        let pack = File::open(dir.join("pack"))?;
        let (skip, limits) = (vec![state.to_owned()], Limits::default());
        let mut base = Self { root, skip, limits, ignores: Ignores::new(), index, pack, uncovered: BTreeSet::new() };
        let files = base.index.files.iter().filter(|(name, _)| name.0.ends_with(".gitignore"));
        let ignores = files.filter_map(|(name, seen)| {
            let folder = name.0.parent()?;
            Some((folder.to_owned(), ignore_of(&base.root.join(folder), &base.content(seen)?)?))
        });
        base.ignores = ignores.collect();
        Ok(Some(base))
    }

    /// Names this look.
    pub fn generation(&self) -> u64 {
        self.index.generation
    }

    /// When the look began.
    pub fn began(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_nanos(self.index.began.max(0).cast_unsigned())
    }

    /// True if a file, or its absence, is covered by this look.
    pub fn has(&self, name: &Path) -> bool {
        self.index.files.get(name).is_some_and(|seen| seen.kept.is_some())
    }

    /// The content of a file as it was, if it was kept and is whole.
    fn content(&self, seen: &Seen) -> Option<Vec<u8>> {
        let (at, hash) = seen.kept?;
        let mut bytes = vec![0; usize::try_from(seen.facts.size).ok()?];
        self.pack.read_exact_at(&mut bytes, at).ok()?;
        (Hash::of(&bytes) == hash).then_some(bytes)
    }

    /// The files as they are now.
    pub fn look(&self) -> Look {
        let knew = |name: &Path| self.index.files.contains_key(name);
        let before = Before { ignores: &self.ignores, knew: &knew };
        Look(walk(&self.root, &self.skip, &self.limits, Instant::now() + self.limits.time, Some(before)).files)
    }

    /// What changed between two looks: the path below the folder, what it was left as and its content, and whether it was
    /// as in this one before.
    pub fn between(&self, before: &Look, now: &Look) -> Vec<(PathBuf, State, Option<Vec<u8>>, bool)> {
        let names: BTreeSet<&PathBuf> = before.0.keys().chain(now.0.keys()).collect();
        let changed = names.into_iter().filter(|name| before.0.get(*name) != now.0.get(*name));
        let left = |name: &PathBuf| {
            let (facts, content) = (now.0.get(name).copied(), now.0.get(name).and_then(|_| self.read(name)));
            let untouched = self.index.files.get(name.as_path()).map(|seen| &seen.facts) == before.0.get(name);
            (name.clone(), state_now(facts, content.as_deref()), content, untouched)
        };
        changed.map(left).collect()
    }

    /// The content of a file now, or where a link leads, if it is not too large and not nobody's business.
    fn read(&self, name: &Path) -> Option<Vec<u8>> {
        read(&self.root.join(name), self.limits.each).ok().filter(|_| !is_private(name))
    }

    /// What is different now.
    pub fn differences(&self) -> Vec<Difference> {
        let now = self.look().0;
        let mut found = Vec::new();
        for (name, seen) in &self.index.files {
            let name = &name.0;
            // One that the walk does not show any more may only be beyond its limits. Behind a link it is another file.
            let facts = now.get(name).copied().or_else(|| {
                let path = self.root.join(name);
                let folder = path.parent()?;
                folder.canonicalize().ok().filter(|real| real == folder)?;
                let meta = std::fs::symlink_metadata(&path).ok().filter(|meta| !meta.is_dir())?;
                Some(Facts::of(&meta))
            });
            if facts == Some(seen.facts) && !seen.fresh {
                continue;
            }
            let new = facts.and_then(|_| self.read(name));
            let before = state(Some(seen.facts), seen.kept.map_or_else(|| Hash::of(WAS), |(_, hash)| hash));
            let after = state_now(facts, new.as_deref());
            if !before.same_content(&after) && (seen.kept.is_some() || facts != Some(seen.facts)) {
                let old = self.content(seen);
                found.push(Difference { name: name.clone(), before, old, after, new, folders: Vec::new() });
            }
        }
        for (name, facts) in now {
            if self.index.files.contains_key(name.as_path()) {
                continue;
            }
            // Where not everything was looked at, it may have been there.
            let perhaps = self.index.cut || name.ancestors().any(|above| self.index.passed.contains(above));
            if perhaps && facts.is_before(self.index.began) {
                continue;
            }
            let new = self.read(&name);
            let before = state(perhaps.then_some(facts), Hash::of(WAS));
            let folders = if before == State::Missing { self.new_folders(&name) } else { Vec::new() };
            let after = state_now(Some(facts), new.as_deref());
            found.push(Difference { name, before, old: None, after, new, folders });
        }
        // Of a folder that was not looked into it is only known whether it is there.
        let gone = |name: &&Name| !std::fs::symlink_metadata(self.root.join(&name.0)).is_ok_and(|meta| meta.is_dir());
        for name in self.index.passed.iter().filter(gone) {
            let (name, before, after) = (name.0.clone(), State::Other, State::Missing);
            found.push(Difference { name, before, old: None, after, new: None, folders: Vec::new() });
        }
        found
    }

    /// The folders above a new file that are new as well, outermost first.
    fn new_folders(&self, name: &Path) -> Vec<PathBuf> {
        let above = name.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty());
        let mut new: Vec<PathBuf> =
            above.filter(|folder| !self.index.folders.contains(*folder)).map(Path::to_owned).collect();
        new.reverse();
        new
    }
}

/// Stand for contents that are not known, before and now: they are like no other, and nothing is put back from them.
const WAS: &[u8] = b"?";
const IS: &[u8] = b"??";

fn state_now(facts: Option<Facts>, content: Option<&[u8]>) -> State {
    state(facts, Hash::of(content.unwrap_or(IS)))
}

/// What a file is, by its facts and its content.
fn state(facts: Option<Facts>, hash: Hash) -> State {
    let Some(facts) = facts else { return State::Missing };
    let (size, mode) = (facts.size, facts.mode & 0o1777);
    match facts {
        facts if facts.is_file() => State::File { hash, size, mode },
        facts if facts.is_link() => State::Link { hash, size },
        _ => State::Other,
    }
}

/// The files of a folder at one moment.
#[derive(Debug)]
pub struct Look(BTreeMap<PathBuf, Facts>);

/// A file that is different now.
#[derive(Debug)]
pub struct Difference {
    /// The path below the folder.
    pub name: PathBuf,
    /// What was there.
    pub before: State,
    /// Its content then, if it was there and is known. That of a link is where it leads.
    pub old: Option<Vec<u8>>,
    /// What is there.
    pub after: State,
    /// Its content now, if it is there and is known.
    pub new: Option<Vec<u8>>,
    /// The folders above it that are new as well.
    pub folders: Vec<PathBuf>,
}

fn nanos(time: SystemTime) -> i64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

fn folder(state: &Path, root: &Path) -> PathBuf {
    use std::os::unix::ffi::OsStrExt as _;
    state.join("undo/base").join(&Hash::of(root.as_os_str().as_bytes()).to_string()[..32])
}

/// Removes the copies of folders in which nobody worked for long.
fn sweep(mine: &Path) {
    let old = |dir: &Path| {
        let touched = std::fs::metadata(dir.join("index.json")).and_then(|meta| meta.modified());
        touched.is_ok_and(|time| time.elapsed().is_ok_and(|age| age > KEEP_TIME))
    };
    let beside = mine.parent().and_then(|above| std::fs::read_dir(above).ok());
    for dir in beside.into_iter().flatten().flatten().map(|entry| entry.path()).filter(|dir| dir != mine && old(dir)) {
        let lock = File::open(dir.join("lock"));
        if lock.is_ok_and(|lock| lock.try_lock().is_ok()) {
            let _ = std::fs::remove_dir_all(&dir);
        }
    }
}

fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    // What was a file a moment ago may be a FIFO now: nobody waits for its other end.
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let opened = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path);
    let file = match opened {
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

fn load(dir: &Path) -> Index {
    let text = std::fs::read(dir.join("index.json")).ok();
    let index: Option<Index> = text.and_then(|text| serde_json::from_slice(&text).ok());
    index.filter(|index| index.format == FORMAT).unwrap_or_default()
}

fn save(dir: &Path, index: &Index) -> io::Result<()> {
    let text = serde_json::to_vec(index).map_err(io::Error::other)?;
    write_whole(&dir.join("index.json"), &text)
}

/// Opens the copies to add to them. If most of them are of no use any more, begins a new file; those who read the old one
/// still have it.
fn open_pack(dir: &Path, index: &mut Index) -> io::Result<File> {
    let path = dir.join("pack");
    let known = std::fs::metadata(&path).map_or(0, |meta| meta.len());
    let used: u64 = index.files.values().filter(|seen| seen.kept.is_some()).map(|seen| seen.facts.size).sum();
    if known > used.saturating_mul(2).saturating_add(16 << 20) || (known < used) {
        let _ = std::fs::remove_file(&path);
        index.files.values_mut().for_each(|seen| seen.kept = None);
    }
    OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(&path)
}
