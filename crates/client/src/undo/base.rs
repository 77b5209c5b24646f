//! Copies of the files of a folder as they are before a turn: one file that grows, and an index of what is where in it.
//!
//! A file that did not change since the last look is not read again.

use super::walk::{Facts, Limits, Walked, is_private, walk};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};
use tieline_host::files::{Hash, State};
use tieline_host::whole::{lock, write_whole};

/// How long another process may look at the same folder before we give up.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// How long the copies of a folder are kept after the last turn in it.
const KEEP_TIME: Duration = Duration::from_hours(24 * 30);

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
    files: BTreeMap<String, Seen>,
    folders: BTreeSet<String>,
}

/// A folder as it was before a turn.
#[derive(Debug)]
pub(super) struct Base {
    /// The folder, without links.
    pub(super) root: PathBuf,
    /// What is never looked at: our own state, and files that we write.
    pub(super) skip: Vec<PathBuf>,
    pub(super) limits: Limits,
    index: Index,
    pack: File,
    /// What is not covered, in words.
    pub(super) uncovered: BTreeSet<String>,
}

impl Base {
    /// Looks at a folder and copies what changed since the last look. Blocks for as long as the limits allow.
    pub(super) fn take(state: &Path, root: &Path, skip: Vec<PathBuf>, limits: Limits) -> io::Result<Self> {
        let until = Instant::now() + limits.time;
        let root = root.canonicalize()?;
        let dir = folder(state, &root);
        let _lock = lock(&dir.join("lock"), LOCK_TIMEOUT)?;
        let began = now();
        let mut index = load(&dir);
        let mut pack = open_pack(&dir, &mut index)?;
        let mut walked = walk(&root, &skip, &limits, until);
        let mut end = pack.seek(SeekFrom::End(0))?;
        let mut total = 0;
        let mut files = BTreeMap::new();
        let mut changed = false;
        for (name, facts) in std::mem::take(&mut walked.files) {
            let old = index.files.remove(&name);
            let same = old.as_ref().is_some_and(|old| old.facts == facts && !old.fresh);
            let mut kept = old.filter(|_| same).and_then(|old| old.kept);
            total += facts.size;
            if kept.is_none() {
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
                    None => drop(walked.uncovered.insert(format!("more than {} MiB of files", limits.total >> 20))),
                }
                changed = true;
            }
            files.insert(name, Seen { facts, kept, fresh: facts.is_fresh(began) });
        }
        changed |= !index.files.is_empty() || index.folders != walked.folders;
        let Walked { folders, cut, uncovered, .. } = walked;
        let generation =
            if changed { index.generation.wrapping_add(1).max(began.cast_unsigned()) } else { index.generation };
        let index = Index { format: 1, generation, began, cut, files, folders };
        save(&dir, &index)?;
        sweep(&dir);
        Ok(Self { root, skip, limits, index, pack, uncovered })
    }

    /// The last look at a folder, if nobody looked since.
    pub(super) fn last(state: &Path, root: &Path, generation: u64) -> io::Result<Option<Self>> {
        let root = root.canonicalize()?;
        let dir = folder(state, &root);
        let _lock = lock(&dir.join("lock"), LOCK_TIMEOUT)?;
        let index = load(&dir);
        if index.generation != generation || index.format != 1 {
            return Ok(None);
        }
        let pack = File::open(dir.join("pack"))?;
        let (skip, limits) = (vec![state.to_owned()], Limits::default());
        Ok(Some(Self { root, skip, limits, index, pack, uncovered: BTreeSet::new() }))
    }

    /// Names this look.
    pub(super) fn generation(&self) -> u64 {
        self.index.generation
    }

    /// When the look began.
    pub(super) fn began(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_nanos(self.index.began.max(0).cast_unsigned())
    }

    /// True if a file, or its absence, is covered by this look.
    pub(super) fn has(&self, name: &str) -> bool {
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
    pub(super) fn look(&self) -> BTreeMap<String, Facts> {
        walk(&self.root, &self.skip, &self.limits, Instant::now() + self.limits.time).files
    }

    /// True if a file is what it was, as far as its facts tell.
    pub(super) fn is_as_before(&self, name: &str, facts: Option<&Facts>) -> bool {
        self.index.files.get(name).map(|seen| &seen.facts) == facts
    }

    /// The content of a file now, if it is not too large and not nobody's business.
    pub(super) fn read(&self, name: &str) -> Option<Vec<u8>> {
        read(&self.root.join(name), self.limits.each).ok().filter(|_| !is_private(name))
    }

    /// What is different now.
    pub(super) fn differences(&self) -> Vec<Difference> {
        let now = self.look();
        let mut found = Vec::new();
        for (name, seen) in &self.index.files {
            // One that the walk does not show any more may only be ignored now. Behind a link it is another file.
            let facts = now.get(name).copied().or_else(|| {
                let path = self.root.join(name);
                let folder = path.parent()?;
                folder.canonicalize().ok().filter(|real| real == folder)?;
                let meta = std::fs::symlink_metadata(&path).ok().filter(Metadata::is_file)?;
                Some(Facts::of(&meta))
            });
            if facts == Some(seen.facts) && !seen.fresh {
                continue;
            }
            let new = facts.and_then(|_| self.read(name));
            let same = match (facts, &new, seen.kept) {
                (Some(_), Some(bytes), Some((_, hash))) => Hash::of(bytes) == hash,
                (Some(facts), _, None) => facts == seen.facts,
                _ => false,
            };
            if !same {
                let old = self.content(seen);
                let (before, after) = (state(Some(seen.facts), old.as_deref(), WAS), state(facts, new.as_deref(), IS));
                found.push(Difference { name: name.clone(), before, old, after, new, folders: Vec::new() });
            }
        }
        for (name, facts) in now {
            // What was there before but not shown then, such as what was ignored, is not new.
            if self.index.files.contains_key(&name) || facts.is_before(self.index.began) {
                continue;
            }
            let new = self.read(&name);
            // Where more files are than are looked at, it may have been there.
            let before = state(self.index.cut.then_some(facts), None, WAS);
            let folders = if before == State::Missing { self.new_folders(&name) } else { Vec::new() };
            found.push(Difference {
                name,
                before,
                old: None,
                after: state(Some(facts), new.as_deref(), IS),
                new,
                folders,
            });
        }
        found
    }

    /// The folders above a new file that are new as well, outermost first.
    fn new_folders(&self, name: &str) -> Vec<PathBuf> {
        let above = Path::new(name).ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty());
        let mut new: Vec<PathBuf> = above
            .filter(|folder| folder.to_str().is_some_and(|folder| !self.index.folders.contains(folder)))
            .map(Path::to_owned)
            .collect();
        new.reverse();
        new
    }
}

/// Stand for contents that are not known, before and now: they are like no other, and nothing is put back from them.
const WAS: &[u8] = b"?";
pub(super) const IS: &[u8] = b"??";

/// What a file is, by its facts and its content; `unknown` stands for a content that is not known.
pub(super) fn state(facts: Option<Facts>, content: Option<&[u8]>, unknown: &[u8]) -> State {
    match facts {
        None => State::Missing,
        Some(Facts { size, mode, .. }) => State::File { hash: Hash::of(content.unwrap_or(unknown)), size, mode },
    }
}

/// A file that is different now.
#[derive(Debug)]
pub(super) struct Difference {
    pub(super) name: String,
    pub(super) before: State,
    /// Its content then, if it was there and is known.
    pub(super) old: Option<Vec<u8>>,
    pub(super) after: State,
    /// Its content now, if it is there and is known.
    pub(super) new: Option<Vec<u8>>,
    /// The folders above it that are new as well.
    pub(super) folders: Vec<PathBuf>,
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
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
    let file =
        OpenOptions::new().read(true).custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed()).open(path)?;
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
    index.filter(|index| index.format == 1).unwrap_or_default()
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
