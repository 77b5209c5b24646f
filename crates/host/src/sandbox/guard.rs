//! What runs by itself later, and what must not be read, found below the roots: so that a command can't change or read it, and
//! that it is said where that can't be had.

use super::{Pinned, around, git, named, secrets};
use crate::later;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tieline_rpc::sync::Lock as _;

/// No more entries are looked at, so that a huge folder does not hold up its commands.
const MAX_ENTRIES: usize = 400_000;
/// No more entries are looked at where links lead out of the roots, the nearest ones first.
const MAX_OUTSIDE: usize = 20_000;
/// No more folders are remembered from one look to the next.
const MAX_FOLDERS: usize = 60_000;
/// No more names are held, with the folders around them: each is a mount.
const MAX_NAMES: usize = 2048;
/// No look takes longer. What was read is remembered, so that the next one gets further.
const MAX_TIME: Duration = Duration::from_secs(5);
/// The system follows no more links for one path.
const MAX_LINKS: usize = 40;
/// A folder that changed so shortly before it was read, in seconds, may change again without a sign of it.
const UNSETTLED: i64 = 2;
/// Packages of others: what git would run there counts, the rest is theirs, and has to be replaced by commands.
const PACKAGES: &str = "node_modules";

/// What a rule keeps commands from doing to a file or folder. What comes first includes what follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kept {
    /// It is not there for them.
    Hidden,
    /// They can't change it, and nothing in it.
    ReadOnly,
    /// They can't delete or move it. What is in it is asked about again.
    InPlace,
}

type Says = dyn Fn(&Path) -> Option<Kept> + Send + Sync;

/// Tells of each path in the workspace what no command may do to it.
#[derive(Clone)]
pub(super) struct Denied {
    pub(super) says: Arc<Says>,
    /// The most that it may say of anything below the roots.
    pub(super) most: Option<Kept>,
    /// Another one says something else.
    pub(super) version: u64,
}

impl fmt::Debug for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Denied")
    }
}

/// What earlier looks found, so that the next one is quick, and that new names push out none of the old ones.
#[derive(Debug, Default)]
pub(super) struct Memory(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// Of what was denied.
    version: Option<u64>,
    folders: HashMap<PathBuf, Folder>,
    names: BTreeSet<PathBuf>,
    around: Option<(Instant, Around)>,
}

/// What lies around the roots, runs by itself later and may lead into them.
#[derive(Debug, Default, Clone)]
struct Around {
    ways: Vec<PathBuf>,
    several_names: Vec<Identity>,
}

impl Around {
    /// These, and what is found at and below them.
    fn new(mut ways: Vec<PathBuf>, all_names: bool) -> Self {
        let mut several_names = Vec::new();
        for (path, facts) in around::links(ways.clone(), around::STEPS_TO_SETTINGS, all_names) {
            if facts.is_symlink() {
                ways.push(path);
            } else {
                several_names.push((facts.dev(), facts.ino()));
            }
        }
        Self { ways, several_names }
    }
}

/// How a folder is held that is looked into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Held {
    /// Not as a whole.
    Not,
    /// With all that is in it, because it runs by itself later. Only what a rule keeps from commands counts in it.
    Guarded,
    /// The same because a rule says so. Only what must not be read counts in it.
    ReadOnly,
}

/// What of a folder counts, as long as it is the same.
#[derive(Debug, Clone, Default)]
struct Folder {
    /// Device, inode, and when it was changed.
    state: (u64, u64, i64, i64),
    settled: bool,
    entries: usize,
    folders: Vec<(Held, OsString)>,
    names: Vec<OsString>,
    kept: Vec<(Kept, OsString)>,
    /// What is at their ends may change although this folder does not.
    links: Vec<OsString>,
    repository: bool,
}

/// The names that run by themselves later (`.git`, `.envrc` and the like), as they were at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guarded {
    /// What each of them is, and when it was changed.
    found: Found,
    /// To be made read-only, without links.
    pub(super) hold: Vec<PathBuf>,
    /// To be hidden.
    pub(super) denied: Vec<PathBuf>,
    /// To be made read-only because a rule says so, whatever else is guarded.
    pub(super) unchanged: Vec<PathBuf>,
    /// To be kept where it is.
    pub(super) in_place: Vec<PathBuf>,
    gap: Option<String>,
    /// What could not be looked at and is not held as a whole, so that nobody knows whether a rule denies something there.
    pub(super) unseen: Option<String>,
    /// Seconds, as the file system counts them.
    at: i64,
}

/// Names, what each of them is, and when it was changed.
type Found = BTreeMap<PathBuf, (Identity, i64)>;
/// Device and inode.
type Identity = (u64, u64);
/// Files that have several names, and what a rule keeps commands from doing to them; none if they run by themselves later.
type Linked = BTreeMap<Identity, Option<Kept>>;

impl Guarded {
    /// False if something can't be guarded; a command that is to be kept from all of it has to be asked for.
    pub fn is_whole(&self) -> bool {
        self.gap.is_none()
    }

    /// What can't be guarded, and why.
    pub fn gap(&self) -> Option<&str> {
        self.gap.as_deref()
    }

    /// Whether a change of this path by another program takes a guard or a mask off in a command that runs: the kernel lets go of what is
    /// mounted on a name when the name comes to mean another file.
    pub fn holds(&self, path: &Path) -> bool {
        let lists = [&self.hold, &self.denied, &self.unchanged, &self.in_place];
        lists.into_iter().flatten().any(|place| path.starts_with(place) || place.starts_with(path))
    }

    /// What a rule forbids to do to a file, by this or another of its names.
    pub(crate) fn keeps(&self, path: &Path) -> Option<Kept> {
        let held = |list: &[PathBuf]| list.iter().any(|place| path.starts_with(place));
        let read_only = || held(&self.unchanged).then_some(Kept::ReadOnly);
        held(&self.denied).then_some(Kept::Hidden).or_else(read_only)
    }

    /// Whether a rule forbids to read something at or below a path.
    pub(crate) fn hides_below(&self, path: &Path) -> bool {
        self.denied.iter().any(|place| place.starts_with(path) || path.starts_with(place))
    }

    /// What is new, or another one, since an earlier look.
    pub fn since(&self, before: &Self) -> Vec<&Path> {
        let new = |path: &PathBuf, (is, changed): &(Identity, i64)| match before.found.get(path) {
            Some((was, _)) => was != is,
            None => before.is_whole() || *changed >= before.at,
        };
        self.found.iter().filter(|(path, entry)| new(path, entry)).map(|(path, _)| path.as_path()).collect()
    }
}

/// What must stay where it is, so that nothing below it gets another name.
pub(super) fn pins<'a>(paths: impl Iterator<Item = &'a PathBuf>, roots: &[Pinned]) -> Vec<PathBuf> {
    let mut all = BTreeSet::new();
    for path in paths {
        let inside = |folder: &Path| roots.iter().any(|root| folder.starts_with(&root.path) && folder != root.path);
        all.extend(path.ancestors().skip(1).take_while(|folder| inside(folder)).map(Path::to_owned));
    }
    all.into_iter().collect()
}

/// One look at all roots.
struct Look<'a> {
    roots: &'a [Pinned],
    denied: Option<&'a Denied>,
    before: &'a HashMap<PathBuf, Folder>,
    folders: HashMap<PathBuf, Folder>,
    /// In the order in which they are held.
    names: Vec<PathBuf>,
    kept: Vec<(Kept, PathBuf)>,
    repositories: Vec<PathBuf>,
    around: Around,
    gap: Option<String>,
    unseen: Option<String>,
    /// A folder of our own that can't be looked into: what is in it may have other names.
    closed: Option<PathBuf>,
    begin: Instant,
    at: i64,
}

/// Looks below these folders. Links are not followed. The names of the roots themselves come first, then those that earlier looks
/// found, then the others, the nearest ones first.
pub(super) fn look(roots: &[Pinned], memory: &Memory, denied: Option<&Denied>) -> Guarded {
    let mut known = memory.0.locked();
    let version = denied.map(|denied| denied.version);
    if known.version != version {
        known.version = version;
        known.folders.clear();
    }
    let fresh = known.around.take().filter(|(when, _)| when.elapsed() < around::HOLDS);
    let around = fresh.unwrap_or_else(|| (Instant::now(), Around::new(around::settings(roots), false)));
    known.around = Some(around.clone());
    let at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs().cast_signed());
    let mut look = Look {
        roots,
        denied,
        before: &known.folders,
        folders: HashMap::new(),
        names: Vec::new(),
        kept: Vec::new(),
        repositories: Vec::new(),
        around: around.1,
        gap: None,
        unseen: None,
        closed: None,
        begin: Instant::now(),
        at,
    };
    for root in roots {
        look.names.extend(later::names().filter(|name| !name.contains('*')).map(|name| root.path.join(name)));
    }
    look.names.extend(known.names.iter().cloned());
    look.walk();
    let guarded = look.judge();
    known.folders = look.folders;
    if guarded.is_whole() || known.names.is_empty() {
        known.names = guarded.found.keys().cloned().collect();
    }
    guarded
}

impl Look<'_> {
    fn gap(&mut self, why: impl FnOnce() -> String) {
        if self.gap.is_none() {
            self.gap = Some(why());
        }
    }

    /// A gap in which there may be anything.
    fn unseen(&mut self, why: impl FnOnce() -> String) {
        if self.unseen.is_none() {
            let why = why();
            self.gap(|| why.clone());
            self.unseen = Some(why);
        }
    }

    /// Nobody knows what is in a folder, so nothing in it may change, its mode included; and if a rule denies to read something, it
    /// is not there at all: who may enter a folder without listing it can still read what it knows the name of.
    fn closed(&mut self, path: PathBuf, held: Held) {
        match self.denied.and_then(|denied| denied.most) {
            Some(Kept::Hidden) => self.kept.push((Kept::Hidden, path.clone())),
            Some(_) if held != Held::ReadOnly => self.kept.push((Kept::ReadOnly, path.clone())),
            _ => {}
        }
        if held == Held::Not {
            self.names.push(path);
        }
    }

    /// Notes a folder that can't be looked into if it is our own: only then a command can have made it so.
    fn note_closed(&mut self, path: &Path, facts: &fs::Metadata) {
        if facts.uid() == rustix::process::geteuid().as_raw() {
            self.closed.get_or_insert_with(|| path.to_owned());
        }
    }

    fn walk(&mut self) {
        let mut left = MAX_ENTRIES;
        let mut todo: VecDeque<(PathBuf, Held)> =
            self.roots.iter().map(|root| (root.path.clone(), Held::Not)).collect();
        // What is held as a whole comes last, so that it takes no room from what is not.
        let mut inner: VecDeque<(PathBuf, Held)> = VecDeque::new();
        let mut outside: VecDeque<PathBuf> = VecDeque::new();
        while let Some((path, held)) = todo.pop_front().or_else(|| inner.pop_front()) {
            if self.begin.elapsed() > MAX_TIME || self.folders.len() == MAX_FOLDERS {
                return self.unseen(|| "the folder is too large to look at all of it".into());
            }
            let folder = match self.folder(&path, held, left) {
                Ok(Some(folder)) => folder,
                Ok(None) => return self.unseen(|| "the folder is too large to look at all of it".into()),
                // It is gone.
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => continue,
                Err(error) => {
                    match fs::symlink_metadata(&path) {
                        Ok(facts) if error.kind() == ErrorKind::PermissionDenied && !self.is_root(&path) => {
                            self.note_closed(&path, &facts);
                            self.closed(path, held);
                        }
                        _ => self.unseen(|| format!("`{}` can't be looked at: {error}", crate::roots::shown(&path))),
                    }
                    continue;
                }
            };
            left -= folder.entries;
            for (held, name) in &folder.folders {
                let next = if *held == Held::Not { &mut todo } else { &mut inner };
                next.push_back((path.join(name), *held));
            }
            self.names.extend(folder.names.iter().map(|name| path.join(name)));
            self.kept.extend(folder.kept.iter().map(|(how, name)| (*how, path.join(name))));
            for name in &folder.links {
                let link = path.join(name);
                self.look_through(&link, held);
                // Nothing is followed where no rule denies to read anything.
                if self.denied.is_some_and(|denied| denied.most == Some(Kept::Hidden)) {
                    outside.extend(link.canonicalize().ok().filter(|real| self.can_hide_outside(real)));
                }
            }
            if folder.repository {
                self.repositories.push(path.clone());
            }
            self.folders.insert(path, folder);
        }
        self.walk_outside(outside);
    }

    /// Names of two parts of which the first is a link.
    fn look_through(&mut self, link: &Path, held: Held) {
        let around = link.file_name().unwrap_or_default().to_string_lossy();
        if held != Held::Not || !later::is_around(&around) || link.components().any(|part| part.as_os_str() == PACKAGES)
        {
            return;
        }
        let entries = fs::read_dir(link).into_iter().flatten().flatten().take(MAX_OUTSIDE);
        let names = entries.filter(|entry| later::is_guarded(&around, &entry.file_name().to_string_lossy()));
        self.names.extend(names.map(|entry| link.join(entry.file_name())));
    }

    /// Whether what a link leads to, out of the roots, can be hidden.
    fn can_hide_outside(&self, real: &Path) -> bool {
        !self.writable(real) && !self.is_root(real) && !secrets::is_wide(real)
    }

    /// Finds what a rule denies to read by the name that it has through a link.
    fn walk_outside(&mut self, mut todo: VecDeque<PathBuf>) {
        let Some(says) = self.denied.map(|denied| &denied.says) else { return };
        let (mut left, mut seen) = (MAX_OUTSIDE, BTreeSet::new());
        while let Some(path) = todo.pop_front() {
            if !seen.insert(path.clone()) {
                continue;
            }
            left -= 1;
            if left == 0 || self.begin.elapsed() > MAX_TIME {
                return self.gap(|| "links lead to more than can be looked at for what must not be read".into());
            }
            let hidden = says(&path) == Some(Kept::Hidden);
            let entries = fs::symlink_metadata(&path).is_ok_and(|facts| facts.is_dir()).then(|| fs::read_dir(&path));
            match entries {
                Some(Ok(entries)) if !hidden => todo.extend(entries.flatten().take(left).map(|entry| entry.path())),
                // Who may enter it without listing it may read what is in it.
                Some(Err(_)) => self.kept.push((Kept::Hidden, path)),
                _ if hidden => self.kept.push((Kept::Hidden, path)),
                _ => {}
            }
        }
    }

    /// What is in a folder, from before if it did not change. Nothing if that is too much.
    fn folder(&self, path: &Path, held: Held, left: usize) -> io::Result<Option<Folder>> {
        let facts = fs::symlink_metadata(path)?;
        let state = (facts.dev(), facts.ino(), facts.ctime(), facts.ctime_nsec());
        if let Some(folder) = self.before.get(path).filter(|folder| folder.settled && folder.state == state) {
            return Ok((folder.entries <= left).then(|| folder.clone()));
        }
        let around = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let packages = path.components().any(|part| part.as_os_str() == PACKAGES);
        let settled = (self.at - facts.ctime()).abs() > UNSETTLED;
        let mut folder = Folder { state, settled, ..Folder::default() };
        let mut marks: Vec<OsString> = Vec::new();
        // Who can list a folder without entering it knows names, and nothing of what they are.
        fs::symlink_metadata(path.join("."))?;
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            if folder.entries == left {
                return Ok(None);
            }
            folder.entries += 1;
            let kind = entry.file_type()?;
            let name = entry.file_name();
            if ["HEAD", "objects", "refs", "commondir"].iter().any(|mark| *name == **mark) {
                marks.push(name.clone());
            }
            let how = self.denied.and_then(|denied| (denied.says)(&path.join(&name)));
            let how = how.filter(|how| held != Held::ReadOnly || *how == Kept::Hidden);
            folder.kept.extend(how.map(|how| (how, name.clone())));
            if kind.is_symlink() {
                folder.links.push(name.clone());
            }
            let text = name.to_string_lossy();
            let guarded =
                || if packages { text.eq_ignore_ascii_case(".git") } else { later::is_guarded(&around, &text) };
            if how == Some(Kept::Hidden) {
                continue;
            }
            let held = match held {
                Held::Not if guarded() => {
                    folder.names.push(name.clone());
                    Held::Guarded
                }
                Held::Not | Held::Guarded if how == Some(Kept::ReadOnly) => Held::ReadOnly,
                held => held,
            };
            // A mask can be put on what is read-only.
            if kind.is_dir() && (held == Held::Not || self.denied.is_some()) {
                folder.folders.push((held, name));
            }
        }
        folder.repository = held == Held::Not && git::is_repository(|mark| marks.iter().any(|name| name == mark));
        Ok(Some(folder))
    }

    /// What is to be done about what was found.
    fn judge(&mut self) -> Guarded {
        let mut found = Found::new();
        let mut hold: Vec<PathBuf> = Vec::new();
        let mut linked = Linked::new();
        let mut gits: Vec<(PathBuf, PathBuf)> = Vec::new();
        for path in std::mem::take(&mut self.repositories) {
            if self.is_root(&path) {
                self.gap(|| "the folder itself is a repository of git".into());
            }
            gits.push((path.clone(), path.clone()));
            self.names.push(path);
        }
        for root in self.roots {
            if git::is_part(&root.path) {
                self.gap(|| "the folder itself is part of a repository of git".into());
            }
            let above = root.path.ancestors().skip(1).map(|folder| (folder.join(".git"), folder.to_owned()));
            gits.extend(above.filter(|(git, _)| git.exists()));
        }
        let (names, mut seen) = (std::mem::take(&mut self.names), BTreeSet::new());
        for path in names {
            if !seen.insert(path.clone()) {
                continue;
            }
            let Ok(facts) = fs::symlink_metadata(&path) else { continue };
            if found.len() >= MAX_NAMES {
                self.gap(|| format!("there are more than {MAX_NAMES} such names"));
                break;
            }
            found.insert(path.clone(), ((facts.dev(), facts.ino()), facts.ctime()));
            if facts.is_file() && facts.nlink() > 1 {
                linked.insert((facts.dev(), facts.ino()), None);
            }
            if path.file_name().is_some_and(|name| name.eq_ignore_ascii_case(".git"))
                && let Some(around) = path.parent()
            {
                gits.push((path.clone(), around.to_owned()));
            }
            let real = path.canonicalize().ok();
            if facts.is_symlink() || real.as_ref() != Some(&path) {
                // What it leads to can be held, but not the link itself.
                self.gap(|| format!("`{}` is a link, or in one", crate::roots::shown(&path)));
                hold.extend(real);
            } else {
                hold.push(path);
            }
        }
        let [mut denied, mut unchanged, mut in_place] = self.judge_kept(&mut linked);
        self.lead(&gits, &mut found, &mut hold, &mut linked);
        for (path, how) in self.other_names(&linked) {
            let list = match how {
                Some(Kept::Hidden) => &mut denied,
                Some(_) => &mut unchanged,
                None => &mut hold,
            };
            list.push(path);
        }
        denied.retain(|path| self.writable(path) || self.can_hide_outside(path));
        hold.retain(|path| self.writable(path));
        unchanged.retain(|path| self.writable(path));
        for list in [&mut hold, &mut denied, &mut unchanged] {
            list.sort();
            list.dedup();
            // The outer one holds what is in it.
            list.dedup_by(|path, outer| path.starts_with(&*outer));
        }
        let outside = |path: &PathBuf, lists: &[&Vec<PathBuf>]| {
            lists.iter().all(|list| !list.iter().any(|outer| path.starts_with(outer)))
        };
        unchanged.retain(|path| outside(path, &[&denied]));
        hold.retain(|path| outside(path, &[&denied, &unchanged]));
        in_place.retain(|path| self.writable(path) && outside(path, &[&denied, &unchanged]));
        let all: Vec<&PathBuf> = hold.iter().chain(&denied).chain(&unchanged).chain(&in_place).collect();
        if all.len() + pins(all.iter().copied(), self.roots).len() > MAX_NAMES {
            self.gap(|| format!("there are more than {MAX_NAMES} such names"));
        }
        Guarded {
            found,
            hold,
            denied,
            unchanged,
            in_place,
            gap: self.gap.take(),
            unseen: self.unseen.take(),
            at: self.at,
        }
    }

    /// What a rule keeps from commands, without links: what is hidden, what must not be changed, and what stays where it is.
    fn judge_kept(&mut self, linked: &mut Linked) -> [Vec<PathBuf>; 3] {
        let (mut denied, mut unchanged, mut in_place) = (Vec::new(), Vec::new(), Vec::new());
        for (how, path) in std::mem::take(&mut self.kept) {
            let Ok(facts) = fs::symlink_metadata(&path) else { continue };
            let real = if facts.is_symlink() { path.canonicalize().ok() } else { Some(path.clone()) };
            if let Some(real) = real.as_ref().filter(|_| how != Kept::InPlace) {
                self.several_names(real, how, linked);
            }
            if let Some(wide) =
                real.as_ref().filter(|real| how == Kept::Hidden && real.is_dir() && secrets::is_wide(real))
            {
                let [path, wide] = [&path, wide].map(|path| crate::roots::shown(path));
                self.gap(|| {
                    format!("`{path}` must not be read, and leads to `{wide}`, which is too much to be hidden")
                });
            }
            if facts.is_symlink() && how != Kept::Hidden {
                self.gap(|| format!("`{}` must not be changed, and is a link", crate::roots::shown(&path)));
            }
            let list = match how {
                Kept::Hidden => &mut denied,
                Kept::ReadOnly => &mut unchanged,
                Kept::InPlace => &mut in_place,
            };
            list.extend(real);
        }
        [denied, unchanged, in_place]
    }

    fn is_root(&self, path: &Path) -> bool {
        self.roots.iter().any(|root| root.path == path)
    }

    /// Whether a path is inside a root.
    fn writable(&self, path: &Path) -> bool {
        self.roots.iter().any(|root| path.starts_with(&root.path)) && !self.is_root(path)
    }

    /// Where git looks for hooks and settings besides its own folder, and what links in all that is held lead to.
    fn lead(&mut self, gits: &[(PathBuf, PathBuf)], found: &mut Found, hold: &mut Vec<PathBuf>, linked: &mut Linked) {
        hold.retain(|path| self.writable(path));
        let mut todo = hold.clone();
        let global = git::globals();
        for (git, work_tree) in gits {
            let led = git::look(git, work_tree, &global);
            if led.unclear {
                self.gap(|| format!("the settings of `{}` can't be read", crate::roots::shown(git)));
            }
            todo.extend(led.paths.iter().filter_map(|path| self.follow(path, hold)));
            let outside = led.paths.into_iter().filter(|path| !self.writable(path)).collect();
            let Around { ways, several_names } = Around::new(outside, true);
            self.around.ways.extend(ways);
            self.around.several_names.extend(several_names);
        }
        let Around { ways, several_names } = std::mem::take(&mut self.around);
        linked.extend(several_names.into_iter().map(|is| (is, None)));
        todo.extend(ways.iter().filter_map(|path| self.follow(path, hold)));
        let (must, there) = named::started(self.roots);
        for path in there.iter().chain(&must) {
            if let Ok(facts) = path.metadata()
                && facts.is_file()
                && facts.nlink() > 1
            {
                linked.entry((facts.dev(), facts.ino())).or_default();
            }
            if let Ok(real) = path.canonicalize()
                && let Ok(facts) = real.metadata()
                && self.writable(&real)
            {
                found.insert(real, ((facts.dev(), facts.ino()), facts.ctime()));
            }
            let next = self.follow(path, hold);
            // Of all the programs of packages only those count that are named.
            todo.extend(next.filter(|next| !next.ends_with("node_modules/.bin")));
        }
        let mut left = MAX_ENTRIES;
        while let Some(path) = todo.pop() {
            left -= 1;
            if left == 0 || self.begin.elapsed() > MAX_TIME {
                return self.gap(|| "what is guarded is too large to look at all of it".into());
            }
            let Ok(facts) = fs::symlink_metadata(&path) else { continue };
            if facts.is_symlink() {
                todo.extend(self.follow(&path, hold));
            } else if facts.is_dir() && !is_history(&path) {
                let entries = fs::read_dir(&path).into_iter().flatten().flatten();
                todo.extend(entries.take(left).map(|entry| entry.path()));
            } else if facts.is_file() && facts.nlink() > 1 {
                linked.entry((facts.dev(), facts.ino())).or_default();
            }
        }
    }

    /// Notes the files at and below what a rule keeps from commands that have other names as well.
    fn several_names(&mut self, top: &Path, how: Kept, linked: &mut Linked) {
        let mut left = MAX_ENTRIES;
        let mut todo = vec![top.to_owned()];
        while let Some(path) = todo.pop() {
            left -= 1;
            if left == 0 || self.begin.elapsed() > MAX_TIME {
                return self.unseen(|| "what a rule denies is too large to find all names of it".into());
            }
            let Ok(facts) = fs::symlink_metadata(&path) else { continue };
            if facts.is_dir() {
                match fs::read_dir(&path) {
                    Ok(entries) => todo.extend(entries.flatten().take(left).map(|entry| entry.path())),
                    Err(_) => self.note_closed(&path, &facts),
                }
            } else if facts.is_file() && facts.nlink() > 1 {
                let known = linked.entry((facts.dev(), facts.ino())).or_default();
                *known = if *known == Some(Kept::Hidden) { *known } else { Some(how) };
            }
        }
    }

    /// Holds what a path leads to, and says what that is if it was not held before. It is a gap if a command can make the path
    /// lead elsewhere: by a link, or a folder before `..`, that is not held itself, or by making what is not there.
    fn follow(&mut self, path: &Path, hold: &mut Vec<PathBuf>) -> Option<PathBuf> {
        let parts = |path: &Path| path.components().rev().map(|part| part.as_os_str().to_owned()).collect::<Vec<_>>();
        let (mut at, mut todo, mut links) = (PathBuf::new(), parts(path), 0);
        let fixed = |at: &Path| !self.writable(at) || hold.iter().any(|outer| at.starts_with(outer));
        let why = loop {
            let Some(part) = todo.pop() else {
                break if self.is_root(&at) { "leads to the folder itself" } else { "" };
            };
            if part == ".." {
                // What is around something held stays where it is, too.
                if !fixed(&at) && !hold.iter().any(|inner| inner.starts_with(&at)) {
                    break "leads through a folder that can be replaced";
                }
                at.pop();
            } else if part != "." {
                at.push(part);
                match fs::symlink_metadata(&at) {
                    Ok(facts) if facts.is_symlink() && !fixed(&at) => break "leads through a link",
                    Ok(facts) if facts.is_symlink() => {
                        links += 1;
                        let to = fs::read_link(&at).ok().filter(|_| links <= MAX_LINKS)?;
                        at.pop();
                        todo.extend(parts(&to));
                    }
                    Ok(_) => {}
                    Err(_) if fixed(&at) => return None,
                    Err(_) => break "leads to what is not there yet",
                }
            }
        };
        let real = path.canonicalize().ok().filter(|real| !fixed(real));
        if !why.is_empty() {
            self.gap(|| format!("`{}`, where programs look for what they run, {why}", crate::roots::shown(path)));
        }
        hold.extend(real.clone());
        real
    }

    /// Other names of the same files below the roots.
    fn other_names(&mut self, linked: &Linked) -> Vec<(PathBuf, Option<Kept>)> {
        let mut all = Vec::new();
        if linked.is_empty() && self.closed.is_none() {
            return all;
        }
        // What git keeps is held with all its names, but can be read.
        let denies = linked.values().any(Option::is_some) || self.closed.is_some();
        // How many names of a file were found and how many it has, where some may be in a folder that is closed.
        let mut counted: BTreeMap<Identity, (u64, u64, PathBuf)> = BTreeMap::new();
        let mut left = MAX_ENTRIES;
        let mut todo: Vec<PathBuf> = self.roots.iter().map(|root| root.path.clone()).collect();
        while let Some(folder) = todo.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                left -= 1;
                if left == 0 || self.begin.elapsed() > MAX_TIME {
                    self.unseen(|| "the folder is too large to find all names of one file".into());
                    return all;
                }
                let Ok(kind) = entry.file_type() else { continue };
                if kind.is_dir() && (denies || entry.file_name() != OsStr::new(".git")) {
                    todo.push(entry.path());
                    continue;
                }
                if kind.is_file()
                    && self.closed.is_some()
                    && let Ok(facts) = entry.metadata()
                    && facts.nlink() > 1
                {
                    let new = || (0, facts.nlink(), entry.path());
                    counted.entry((facts.dev(), facts.ino())).or_insert_with(new).0 += 1;
                }
                if kind.is_file() && linked.keys().any(|(_, inode)| *inode == entry.ino()) {
                    let path = entry.path();
                    all.extend(identity(&path).and_then(|is| linked.get(&is)).map(|how| (path, *how)));
                }
            }
        }
        if let Some(closed) = self.closed.take()
            && let Some((.., path)) = counted.values().find(|(found, has, _)| found < has)
        {
            let [path, closed] = [path, &closed].map(|path| crate::roots::shown(path));
            self.unseen(|| {
                format!("`{path}` has another name, which may be in `{closed}`, and that can't be looked at")
            });
        }
        all
    }
}

fn identity(path: &Path) -> Option<Identity> {
    fs::symlink_metadata(path).ok().map(|facts| (facts.dev(), facts.ino()))
}

/// Whether a folder is what a version control keeps there for itself, or of packages: much, and none of it is run by itself.
pub(super) fn is_history(path: &Path) -> bool {
    let of_git = ["objects", "refs", "logs"].iter().any(|name| path.ends_with(name));
    of_git && path.with_file_name("HEAD").exists()
        || [".hg/store", ".svn/pristine", ".jj/repo", PACKAGES].iter().any(|name| path.ends_with(name))
}
