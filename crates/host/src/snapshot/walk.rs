//! A walk over a folder that notes what tells one state of a file from another; bounded, and honest about it.
//!
//! What is near the top comes first, and before all else what runs by itself later, whatever an ignore file says. Folders that
//! `.gitignore` names are passed by. Which of these files count is settled by the walk before a turn; the one after it goes by
//! the same, so that nobody can hide what he does by writing one.

use crate::files::DIR_MODE;
use crate::later;
use crate::roots::shown;
use crate::sandbox::secrets::is_secret;
use crate::text::cut;
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsString;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// How much is looked at and kept.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// How many files are looked at in a folder; as many again of those that run by themselves later.
    pub files: usize,
    /// How many bytes a file may have to be kept.
    pub each: u64,
    /// How many bytes are kept in all for a folder.
    pub total: u64,
    /// How long the look before a turn may take. What is not kept by then is not.
    pub time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { files: 20_000, each: 1 << 20, total: 128 << 20, time: Duration::from_secs(3) }
    }
}

/// What tells one state of a file from another without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Stored", from = "Stored")]
pub struct Facts {
    pub(super) size: u64,
    pub(super) mtime: i64,
    pub(super) ctime: i64,
    pub(super) inode: u64,
    /// The kind of file and its permission bits.
    pub(super) mode: u32,
}

/// As they are written down, without names: there are thousands of them.
type Stored = (u64, i64, i64, u64, u32);

impl From<Facts> for Stored {
    fn from(facts: Facts) -> Self {
        let Facts { size, mtime, ctime, inode, mode } = facts;
        (size, mtime, ctime, inode, mode)
    }
}

impl From<Stored> for Facts {
    fn from((size, mtime, ctime, inode, mode): Stored) -> Self {
        Self { size, mtime, ctime, inode, mode }
    }
}

/// The times of files come from a clock that ticks, and may be this much behind the one that we read, in nanoseconds.
pub(super) const TICK: i64 = 100_000_000;

impl Facts {
    pub(super) fn of(meta: &Metadata) -> Self {
        let nanos = |seconds: i64, rest: i64| seconds.saturating_mul(1_000_000_000).saturating_add(rest);
        Self {
            size: meta.len(),
            mtime: nanos(meta.mtime(), meta.mtime_nsec()),
            ctime: nanos(meta.ctime(), meta.ctime_nsec()),
            inode: meta.ino(),
            mode: meta.mode() & 0o171_777,
        }
    }

    pub(super) fn is_file(&self) -> bool {
        self.mode & 0o170_000 == 0o100_000
    }

    pub(super) fn is_link(&self) -> bool {
        self.mode & 0o170_000 == 0o120_000
    }

    /// True if it changed so shortly before `time` that the next change may not show in its times.
    pub(super) fn is_fresh(&self, time: i64) -> bool {
        self.mtime.max(self.ctime) >= time.saturating_sub(TICK)
    }

    /// True if it was there before `time`, as far as its times tell.
    pub(super) fn is_before(&self, time: i64) -> bool {
        self.ctime < time.saturating_sub(TICK)
    }
}

/// Folders of keys: changes in them are seen, but nothing of them is copied or shown.
const KEYS: [&str; 6] = [".ssh", ".gnupg", ".aws", ".kube", ".docker", ".password-store"];

/// True for a file whose content is nobody's business.
pub(super) fn is_private(root: &Path, name: &Path) -> bool {
    name.iter().any(|part| KEYS.iter().any(|key| part == *key)) || is_secret(&root.join(name))
}

/// Folders in which a version control keeps its own data. Of them only what it runs, or takes programs from, is looked at: to
/// put back a part of the rest would break it.
const VERSION_CONTROL: [&str; 4] = [".git", ".hg", ".svn", ".jj"];
const SETTINGS: [&str; 6] = ["config", "config.worktree", "commondir", "gitdir", "hgrc", "config.toml"];
const HOOKS: [&str; 2] = ["hooks", "info"];
/// Folders of other repositories in one: of submodules, of work trees.
const REPOSITORIES: [&str; 3] = ["modules", "worktrees", "repo"];
const DATA: [&str; 4] = ["objects", "refs", "logs", "lfs"];
/// Without these a repository is none, and no version control takes one of them away by itself: it is noticed that they are gone.
const ESSENTIAL: [&str; 10] =
    ["objects", "refs", "HEAD", "store", "requires", "wc.db", "pristine", "repo", "op_store", "working_copy"];

/// The folder of a version control that a path is in.
pub(super) fn repository(path: &Path) -> Option<&Path> {
    let is_one = |above: &&Path| above.file_name().is_some_and(|name| VERSION_CONTROL.iter().any(|own| name == *own));
    path.ancestors().skip(1).find(is_one)
}

/// What tells one of the essential parts of a repository from another in its place: of a file nothing, for it is written anew all the time.
pub(super) fn identity(meta: &Metadata) -> (u64, u64) {
    let made = meta.created().ok().and_then(|made| made.duration_since(SystemTime::UNIX_EPOCH).ok());
    // Wrapping is fine: it is only compared.
    let made =
        made.map_or(0, |made| made.as_secs().wrapping_mul(1_000_000_000).wrapping_add(made.subsec_nanos().into()));
    if meta.is_dir() { (meta.ino(), made) } else { (0, 0) }
}

/// So much of a name is told, in characters.
const MAX_NAME_CHARS: usize = 100;

/// Why a folder was not looked into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Passed {
    Ignored,
    Unreadable,
    Mounted,
    TooDeep,
}

impl Passed {
    fn words(self) -> &'static str {
        match self {
            Self::Ignored => "what .gitignore names",
            Self::Unreadable => "folders that can't be read",
            Self::Mounted => "other file systems",
            Self::TooDeep => "folders with paths of more than 4,096 bytes",
        }
    }

    /// True if it would be looked into, could it be.
    pub(super) fn hides(self) -> bool {
        self != Self::Ignored
    }
}

/// What was passed by in words, each kind with a few names.
pub(super) fn told<'a>(passed: impl Iterator<Item = (&'a PathBuf, &'a Passed)>) -> BTreeSet<String> {
    let mut kinds: BTreeMap<Passed, Vec<&PathBuf>> = BTreeMap::new();
    for (name, why) in passed {
        kinds.entry(*why).or_default().push(name);
    }
    let words = |(kind, names): (Passed, Vec<&PathBuf>)| {
        let more = if names.len() > 3 { format!(" and {} more", names.len() - 3) } else { String::new() };
        // The root has no name below itself.
        let name =
            |name: &Path| if name.as_os_str().is_empty() { ".".into() } else { cut(&shown(name), MAX_NAME_CHARS) };
        let told: Vec<String> = names.iter().take(3).map(|path| name(path)).collect();
        format!("{}: {}{more}", kind.words(), told.join(", "))
    };
    kinds.into_iter().map(words).collect()
}

/// The files of a folder at one moment, by their path below it, in the order of its bytes.
pub type Look = BTreeMap<OsString, Facts>;

/// What a walk found.
#[derive(Debug, Default)]
pub(super) struct Walked {
    /// The files, links and others by their path below the folder.
    pub(super) files: Look,
    /// The folders, and their modes.
    pub(super) folders: BTreeMap<PathBuf, u32>,
    /// Folders that were not looked into.
    pub(super) passed: BTreeMap<PathBuf, Passed>,
    /// The essential parts of repositories, and their identities.
    pub(super) essential: BTreeMap<PathBuf, (u64, u64)>,
    /// What `.gitignore` says, by folder.
    pub(super) ignores: Ignores,
    /// True if there were more than allowed.
    pub(super) cut: bool,
    /// What was not looked at, in words.
    pub(super) uncovered: BTreeSet<String>,
}

pub(super) type Ignores = BTreeMap<PathBuf, Gitignore>;

/// The walk before a turn, for the one after it.
pub(super) struct Before<'a> {
    pub(super) ignores: &'a Ignores,
    /// Whether it saw a file.
    pub(super) knew: &'a dyn Fn(&Path) -> bool,
}

/// The longest `.gitignore` that counts. What a longer one names is looked at.
const MAX_IGNORE_BYTES: u64 = 256 << 10;

/// What a `.gitignore` in `folder` says.
pub(super) fn ignore_of(folder: &Path, text: &[u8]) -> Option<Gitignore> {
    let mut rules = GitignoreBuilder::new(folder);
    for line in String::from_utf8_lossy(text).lines() {
        // A line that makes no sense names nothing.
        let _ = rules.add_line(None, line);
    }
    rules.build().ok().filter(|_| text.len() as u64 <= MAX_IGNORE_BYTES)
}

fn read_ignore(folder: &Path) -> Option<Gitignore> {
    let path = folder.join(".gitignore");
    std::fs::symlink_metadata(&path).ok().filter(|meta| meta.is_file() && meta.len() <= MAX_IGNORE_BYTES)?;
    ignore_of(folder, &std::fs::read(&path).ok()?)
}

/// The ignore files that count in a folder, innermost first.
#[derive(Debug)]
struct Rules {
    own: Gitignore,
    above: Option<Arc<Self>>,
}

impl Rules {
    /// Those above a folder, up to the repository that it is in.
    fn above(root: &Path) -> Option<Arc<Self>> {
        let is_top = |folder: &&Path| folder.join(".git").exists();
        if is_top(&root) {
            return None;
        }
        let top = root.ancestors().find(is_top)?;
        let between = root.ancestors().skip(1).take_while(|folder| folder.starts_with(top)).collect::<Vec<_>>();
        let ignores = between.into_iter().rev().filter_map(read_ignore);
        ignores.fold(None, |above, own| Some(Arc::new(Self { own, above })))
    }

    fn ignores(&self, path: &Path, is_dir: bool) -> bool {
        match self.own.matched(path, is_dir) {
            Match::Ignore(_) => true,
            Match::Whitelist(_) => false,
            Match::None => self.above.as_ref().is_some_and(|above| above.ignores(path, is_dir)),
        }
    }
}

/// How a folder is looked at.
#[derive(Debug, Clone)]
enum How {
    /// But for what is ignored.
    Plain(Option<Arc<Rules>>),
    /// All of it: it runs by itself later.
    Whole,
    /// It is ignored, but names in it may run by themselves later.
    OnlyLater,
    /// It is a version control's own; true below a folder of repositories.
    Repository(bool),
}

/// Walks over a folder, without `skip`. Links are not followed, and other file systems not entered.
pub(super) fn walk(
    root: &Path,
    skip: &[PathBuf],
    limits: &Limits,
    until: Instant,
    before: Option<Before<'_>>,
) -> Walked {
    let device = std::fs::metadata(root).map_or(0, |meta| meta.dev());
    let mut walk = Walk { root, skip, limits, until, before, device, count: 0, walked: Walked::default() };
    let mut todo = VecDeque::from([(PathBuf::new(), How::Plain(Rules::above(root)))]);
    while let Some((folder, how)) = todo.pop_front() {
        if walk.folder(folder, how, &mut todo).is_none() {
            walk.cut(format!("files that were not seen within {} s", limits.time.as_secs()));
            break;
        }
    }
    walk.walked.uncovered.extend(told(walk.walked.passed.iter()));
    walk.walked
}

struct Walk<'a> {
    root: &'a Path,
    skip: &'a [PathBuf],
    limits: &'a Limits,
    until: Instant,
    before: Option<Before<'a>>,
    device: u64,
    /// How many entries were seen.
    count: usize,
    walked: Walked,
}

impl Walk<'_> {
    fn cut(&mut self, what: String) {
        self.walked.cut = true;
        self.walked.uncovered.insert(what);
    }

    /// Looks at one folder; those in it are to be done next. `None` if there is no time left.
    fn folder(&mut self, folder: PathBuf, how: How, todo: &mut VecDeque<(PathBuf, How)>) -> Option<()> {
        let full = self.root.join(&folder);
        let entries = match std::fs::read_dir(&full) {
            Ok(entries) => entries,
            Err(error) => {
                let too_deep = error.kind() == std::io::ErrorKind::InvalidFilename;
                self.walked.passed.insert(folder, if too_deep { Passed::TooDeep } else { Passed::Unreadable });
                return Some(());
            }
        };
        let around = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut found: Vec<(bool, OsString, Metadata)> = Vec::new();
        for entry in entries.flatten() {
            self.count += 1;
            if self.count.is_multiple_of(256) && Instant::now() >= self.until {
                return None;
            }
            let name = entry.file_name();
            let later = later::is_guarded(&around, &name.to_string_lossy());
            let room = if later { 2 * self.limits.files } else { self.limits.files };
            // Beyond the limit only folders count, for what may be in them that runs by itself later.
            let full = self.walked.files.len() >= room && entry.file_type().is_ok_and(|kind| !kind.is_dir());
            if full || found.len() >= room {
                self.cut(format!("files beyond the first {}", self.limits.files));
            } else if let Ok(meta) = entry.metadata() {
                // Otherwise gone in between: as if it had never been there.
                found.push((!later, name, meta));
            }
        }
        found.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
        let how = match how {
            How::Plain(above) => How::Plain(self.rules(&folder, above, &found)),
            how => how,
        };
        for (not_later, name, meta) in found {
            let path = folder.join(&name);
            let text = name.to_string_lossy();
            if self.skip.iter().any(|skip| skip.ends_with(&name) && *skip == full.join(&name)) {
                continue;
            }
            // Work trees of a repository come and go.
            let is_essential = ESSENTIAL.contains(&&*text) && !path.iter().any(|part| part == "worktrees");
            if matches!(how, How::Repository(_)) && is_essential && self.walked.essential.len() < self.limits.files {
                self.walked.essential.insert(path.clone(), identity(&meta));
            }
            if meta.is_dir() {
                self.below(&how, &path, &text, !not_later, &meta, todo);
            } else {
                self.file(&how, path, &text, !not_later, &meta);
            }
        }
        Some(())
    }

    /// The ignore files that count in a folder: those of before the turn, where there was one.
    fn rules(
        &mut self,
        folder: &Path,
        above: Option<Arc<Rules>>,
        found: &[(bool, OsString, Metadata)],
    ) -> Option<Arc<Rules>> {
        let own = match &self.before {
            Some(before) => before.ignores.get(folder).cloned(),
            None => found
                .iter()
                .find(|(_, name, _)| name == ".gitignore")
                .and_then(|_| read_ignore(&self.root.join(folder)))
                .inspect(|own| drop(self.walked.ignores.insert(folder.to_owned(), own.clone()))),
        };
        match own {
            Some(own) => Some(Arc::new(Rules { own, above })),
            None => above,
        }
    }

    /// Sees to it that a folder is looked into in its turn, if it is.
    fn below(
        &mut self,
        how: &How,
        path: &Path,
        name: &str,
        later: bool,
        meta: &Metadata,
        todo: &mut VecDeque<(PathBuf, How)>,
    ) {
        let is = |names: &[&str]| names.iter().any(|known| name.eq_ignore_ascii_case(known));
        let next = match how {
            How::Repository(_) if is(&HOOKS) => Some(How::Whole),
            How::Repository(inner) if is(&REPOSITORIES) || (*inner && !is(&DATA)) => Some(How::Repository(true)),
            How::Repository(_) => return,
            _ if is(&VERSION_CONTROL) => Some(How::Repository(false)),
            How::Whole => Some(How::Whole),
            _ if later => Some(How::Whole),
            How::OnlyLater => return,
            How::Plain(Some(rules)) if rules.ignores(&self.root.join(path), true) => {
                later::is_around(name).then_some(How::OnlyLater)
            }
            How::Plain(_) => Some(how.clone()),
        };
        match next {
            _ if meta.dev() != self.device => drop(self.walked.passed.insert(path.to_owned(), Passed::Mounted)),
            None => drop(self.walked.passed.insert(path.to_owned(), Passed::Ignored)),
            Some(next) => {
                self.walked.folders.insert(path.to_owned(), meta.mode() & DIR_MODE);
                if matches!(next, How::Plain(_)) {
                    todo.push_back((path.to_owned(), next));
                } else {
                    todo.push_front((path.to_owned(), next));
                }
            }
        }
    }

    fn file(&mut self, how: &How, path: PathBuf, name: &str, later: bool, meta: &Metadata) {
        let (wanted, first) = match how {
            How::Repository(_) => (SETTINGS.contains(&name) || HOOKS.contains(&name), true),
            // Git brings examples of hooks, and never runs them under this name.
            How::Whole => (!name.ends_with(".sample"), true),
            How::OnlyLater => (later, true),
            How::Plain(rules) => {
                // What is ignored and new was built. What was there may be all there is of it.
                let ignores = |rules: &Arc<Rules>| rules.ignores(&self.root.join(&path), false);
                let knew = self.before.as_ref().is_none_or(|before| (before.knew)(&path));
                (later || knew || !rules.as_ref().is_some_and(ignores), later)
            }
        };
        if !wanted {
            return;
        }
        if self.walked.files.len() >= if first { 2 * self.limits.files } else { self.limits.files } {
            self.cut(format!("files beyond the first {}", self.limits.files));
        } else {
            self.walked.files.insert(path.into_os_string(), Facts::of(meta));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Passed, told};
    use std::path::PathBuf;

    #[test]
    fn a_root_that_cannot_be_read_is_named() {
        let passed = [(PathBuf::new(), Passed::Unreadable), ("sub".into(), Passed::Unreadable)];
        let told = told(passed.iter().map(|(name, why)| (name, why)));
        assert_eq!(Vec::from_iter(told), ["folders that can't be read: ., sub"]);
    }
}
