//! The directories a session may touch, held as handles, and the one way from a path to a file in them.
//!
//! A path is used in two steps. [`Roots::resolve`] finds out what it means: which root, and which path below it once all
//! links are followed. The [`Place`] it returns has no link in it, so it is what permission rules look at. Opening a place
//! follows no link at all: if someone puts one there in between, the open fails. So what was checked is what is opened, and
//! neither `..`, a link, a rename nor a mount leads out of a root.

mod error;
mod open;
mod shown;

pub use error::{Error, Result};
pub use open::Options;
pub(crate) use open::{LISTED, READ, THROUGH};
pub use shown::shown;

use crate::rules::Location;
use rustix::{
    fd::{AsFd, BorrowedFd, OwnedFd},
    fs::{Mode, OFlags, readlinkat},
    io::Errno,
};
use std::{
    collections::VecDeque,
    ffi::{OsStr, OsString},
    fs::{self, File},
    os::unix::{
        ffi::{OsStrExt as _, OsStringExt as _},
        fs::MetadataExt as _,
    },
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

/// As many links as Linux follows in one path.
const MAX_LINKS: usize = 40;

/// As many bytes as Linux takes in one path.
const MAX_PATH: usize = 4095;

/// The working directory of a session and its additional directories.
#[derive(Clone, Debug)]
pub struct Roots {
    roots: Arc<[Arc<Root>]>,
    options: Options,
}

/// One allowed directory. It is opened at once, or as soon as it is there, and from then on is that very directory,
/// whatever its name becomes.
#[derive(Debug)]
pub struct Root {
    given: PathBuf,
    /// Where it will be, if it isn't there at first. So nobody can put a link there and choose the root.
    promised: Option<PathBuf>,
    primary: bool,
    pinned: OnceLock<Pinned>,
}

#[derive(Debug)]
struct Pinned {
    handle: OwnedFd,
    real: PathBuf,
}

/// A path with no links in it, below a root. Whether something is there is another question.
#[derive(Clone, Debug)]
pub struct Place {
    root: Arc<Root>,
    relative: PathBuf,
    options: Options,
    /// All roots of the session.
    roots: Arc<[Arc<Root>]>,
    /// Whole paths with links in them that led here.
    names: Vec<PathBuf>,
}

/// An open directory below a root.
#[derive(Debug)]
pub struct Dir {
    handle: OwnedFd,
    place: Place,
}

impl Roots {
    /// The roots of a session: the working directory first. All must be absolute. None has to exist yet; one that
    /// doesn't is opened when it is first needed.
    pub fn new<P: AsRef<Path>>(cwd: impl AsRef<Path>, additional: impl IntoIterator<Item = P>) -> Result<Self> {
        Self::with(cwd, additional, Options::default())
    }

    /// Like [`Roots::new`], with options.
    pub fn with<P: AsRef<Path>>(
        cwd: impl AsRef<Path>,
        additional: impl IntoIterator<Item = P>,
        options: Options,
    ) -> Result<Self> {
        let mut roots = vec![Root::new(cwd.as_ref(), true)?];
        for path in additional {
            roots.push(Root::new(path.as_ref(), false)?);
        }
        Ok(Self { roots: roots.into_iter().map(Arc::new).collect(), options })
    }

    /// The roots; the first is the working directory.
    pub fn list(&self) -> impl Iterator<Item = &Root> {
        self.roots.iter().map(|root| &**root)
    }

    /// What a path means: absolute in a root, or relative to the working directory, with every link followed. A part that
    /// doesn't exist yet is taken as it is.
    pub fn resolve(&self, path: impl AsRef<Path>) -> Result<Place> {
        self.follow(path.as_ref(), true)
    }

    /// Like [`Roots::resolve`], but a link at the very end stands for itself.
    pub fn resolve_entry(&self, path: impl AsRef<Path>) -> Result<Place> {
        self.follow(path.as_ref(), false)
    }

    /// Opens a directory.
    pub fn open_dir(&self, path: impl AsRef<Path>) -> Result<Dir> {
        self.resolve(path)?.open_dir()
    }

    fn outside(&self, path: &Path) -> Error {
        let roots = self.list().map(|root| root.real_path().unwrap_or(root.given_path()).to_path_buf());
        Error::Outside { path: path.to_path_buf(), roots: roots.collect() }
    }

    /// Which root a path belongs to by its name alone, and what is left of it.
    fn locate(&self, path: &Path) -> Result<(Arc<Root>, VecDeque<OsString>)> {
        let bad = |why| Error::BadPath { path: path.to_path_buf(), why };
        if path.as_os_str().is_empty() {
            return Err(bad("it is empty"));
        }
        if path.as_os_str().as_bytes().contains(&0) {
            return Err(bad("it contains a zero byte"));
        }
        let cwd = self.roots.first().ok_or_else(|| self.outside(path))?;
        if !path.is_absolute() {
            cwd.pin()?;
            return Ok((cwd.clone(), names(path.as_os_str())));
        }
        let mut best: Option<(usize, &Arc<Root>, &Path)> = None;
        for root in self.roots.iter() {
            let real = root.pin().ok().map(|pinned| pinned.real.as_path());
            for base in [Some(root.given.as_path()), real].into_iter().flatten() {
                let depth = base.components().count();
                if let Ok(rest) = path.strip_prefix(base)
                    && best.is_none_or(|(other, ..)| depth > other)
                {
                    best = Some((depth, root, rest));
                }
            }
        }
        let (_, root, rest) = best.ok_or_else(|| self.outside(path))?;
        root.pin()?;
        Ok((root.clone(), names(rest.as_os_str())))
    }

    /// Where `..` leads from a root: perhaps into another one.
    fn climb(&self, root: &Root, mut rest: VecDeque<OsString>) -> Option<(Arc<Root>, VecDeque<OsString>)> {
        let mut base = root.real_path()?.parent()?;
        while rest.front().is_some_and(|name| name == "..") {
            rest.pop_front();
            base = base.parent()?;
        }
        self.locate(&base.join(rest.into_iter().collect::<PathBuf>())).ok()
    }

    fn follow(&self, path: &Path, follow_last: bool) -> Result<Place> {
        let (mut root, mut todo) = self.locate(path)?;
        let mut done: Vec<(OsString, OwnedFd)> = Vec::new();
        let mut links = 0;
        let mut names_so_far: Vec<PathBuf> = Vec::new();
        let place = |root: Arc<Root>, done: Vec<(OsString, OwnedFd)>, rest: VecDeque<OsString>, names| {
            let relative: PathBuf = done.into_iter().map(|(name, _)| name).chain(rest).collect();
            if relative.as_os_str().len() > MAX_PATH {
                return Err(Error::BadPath { path: path.to_path_buf(), why: "it is too long" });
            }
            Ok(Place { root, relative, options: self.options, roots: self.roots.clone(), names })
        };
        while let Some(name) = todo.pop_front() {
            if name == ".." {
                if done.pop().is_none() {
                    (root, todo) = self.climb(&root, todo).ok_or_else(|| self.outside(path))?;
                }
                continue;
            }
            let here = match done.last() {
                Some((_, handle)) => handle.as_fd(),
                None => root.pin()?.handle.as_fd(),
            };
            let last = todo.is_empty();
            match readlinkat(here, &name, Vec::new()) {
                Ok(target) if !last || follow_last => {
                    links += 1;
                    if links > MAX_LINKS {
                        return Err(Error::BadPath { path: path.to_path_buf(), why: "it has too many links" });
                    }
                    // A name that rules may be about. What is before `..` is none.
                    if todo.iter().all(|name| name != "..") {
                        let above = done.iter().map(|(name, _)| name).chain([&name]).chain(&todo);
                        let top = root.real_path().unwrap_or(&root.given);
                        names_so_far.push(top.join(above.collect::<PathBuf>()));
                    }
                    let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
                    let mut names = if target.is_absolute() {
                        let (other, names) = self.locate(&target).map_err(|_| self.outside(path))?;
                        root = other;
                        done.clear();
                        names
                    } else {
                        names(target.as_os_str())
                    };
                    names.append(&mut todo);
                    todo = names;
                }
                Err(Errno::NOENT) if todo.iter().any(|name| name == "..") => {
                    return Err(Error::NotFound(path.to_path_buf()));
                }
                Ok(_) | Err(Errno::NOENT) => {
                    todo.push_front(name);
                    return place(root, done, todo, names_so_far);
                }
                Err(Errno::INVAL) if last => {
                    todo.push_front(name);
                    return place(root, done, todo, names_so_far);
                }
                Err(Errno::INVAL) => {
                    let next = self.options.open(here, Path::new(&name), THROUGH, Mode::empty());
                    done.push((name, next.map_err(|error| Error::new(path, "opening", error))?));
                }
                Err(error) => return Err(Error::new(path, "looking up", error)),
            }
        }
        place(root, done, todo, names_so_far)
    }
}

/// The names in a path, with `..` but without `.` and empty ones.
fn names(path: &OsStr) -> VecDeque<OsString> {
    let parts = path.as_bytes().split(|&byte| byte == b'/');
    parts.filter(|part| !part.is_empty() && *part != b".").map(|part| OsStr::from_bytes(part).to_owned()).collect()
}

/// The real path of something that is only partly there.
pub(crate) fn promise(path: &Path) -> Option<PathBuf> {
    let there = path.ancestors().find_map(|part| Some((part, fs::canonicalize(part).ok()?)))?;
    Some(there.1.join(path.strip_prefix(there.0).ok()?))
}

impl Root {
    fn new(path: &Path, primary: bool) -> Result<Self> {
        if !path.is_absolute() {
            return Err(Error::BadPath { path: path.to_path_buf(), why: "a workspace directory must be absolute" });
        }
        let mut root = Self { given: path.to_path_buf(), promised: None, primary, pinned: OnceLock::new() };
        if root.pin().is_err() {
            root.promised = promise(path);
        }
        Ok(root)
    }

    fn pin(&self) -> Result<&Pinned> {
        if let Some(pinned) = self.pinned.get() {
            return Ok(pinned);
        }
        let failed = |error| Error::new(&self.given, "opening", error);
        let flags = THROUGH | OFlags::CLOEXEC;
        let handle = rustix::fs::open(&self.given, flags, Mode::empty()).map_err(|error| failed(error.into()))?;
        let real = fs::canonicalize(&self.given).map_err(failed)?;
        let mine = rustix::fs::fstat(&handle).map_err(|error| failed(error.into()))?;
        let other = fs::symlink_metadata(&real).map_err(failed)?;
        #[allow(clippy::cast_sign_loss, clippy::unnecessary_cast, clippy::cast_lossless)]
        if (mine.st_dev as u64, mine.st_ino as u64) != (other.dev(), other.ino()) {
            return Err(Error::Raced(self.given.clone()));
        }
        if self.promised.as_ref().is_some_and(|promised| *promised != real) {
            return Err(Error::Changed(self.given.clone()));
        }
        Ok(self.pinned.get_or_init(|| Pinned { handle, real }))
    }

    /// The path as the session named it.
    pub fn given_path(&self) -> &Path {
        &self.given
    }

    /// The path without links, at the time the root was first used. `None` while it can't be opened.
    pub fn real_path(&self) -> Option<&Path> {
        self.pin().ok().map(|pinned| pinned.real.as_path())
    }

    /// Whether it is the session's working directory.
    pub fn is_cwd(&self) -> bool {
        self.primary
    }

    /// Whether its path still leads to the directory that is held. False after someone moved or replaced it.
    pub fn still_there(&self) -> bool {
        let Ok(pinned) = self.pin() else { return false };
        let (Ok(mine), Ok(there)) = (rustix::fs::fstat(&pinned.handle), rustix::fs::stat(&pinned.real)) else {
            return false;
        };
        (mine.st_dev, mine.st_ino) == (there.st_dev, there.st_ino)
    }
}

impl Place {
    /// The root it is in.
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// The path below the root; empty for the root itself.
    pub fn relative(&self) -> &Path {
        &self.relative
    }

    /// The whole path, for display and for the record. Opening goes through the root's handle instead.
    pub fn real_path(&self) -> PathBuf {
        let root = self.root.real_path().unwrap_or(self.root.given_path());
        if self.relative.as_os_str().is_empty() { root.to_path_buf() } else { root.join(&self.relative) }
    }

    /// What permission rules look at: where it is, and by which names. Those that hold back count by each of them, from each root.
    pub fn location(&self) -> Location {
        let real = self.real_path();
        let both = self.roots.iter().filter_map(|root| Some((root.given_path(), root.real_path()?)));
        let linked: Vec<(&Path, &Path)> = both.filter(|(given, real)| given != real).collect();
        let mut names = self.names.clone();
        for name in self.names.iter().chain([&real]) {
            let below = linked.iter().filter_map(|(given, top)| Some(given.join(name.strip_prefix(top).ok()?)));
            names.extend(below);
        }
        let tops = self.roots.iter().filter_map(|root| root.real_path());
        let bases = tops.chain(linked.iter().map(|(given, _)| *given)).map(Path::to_owned).collect();
        Location::inside(real, self.relative.clone(), self.root.primary).called(names).below(bases)
    }

    /// Opens it as a directory.
    pub fn open_dir(&self) -> Result<Dir> {
        let handle = self.open(&self.relative, LISTED, Mode::empty());
        Ok(Dir { handle: handle.map_err(|error| self.error("opening", error))?, place: self.clone() })
    }

    /// The root it is in, opened.
    pub(crate) fn root_dir(&self) -> Result<Dir> {
        Self { relative: PathBuf::new(), names: Vec::new(), ..self.clone() }.open_dir()
    }

    /// Opens it as a directory that is only passed through.
    pub(crate) fn open_through(&self) -> Result<Dir> {
        let handle = self.open(&self.relative, THROUGH, Mode::empty());
        Ok(Dir { handle: handle.map_err(|error| self.error("opening", error))?, place: self.clone() })
    }

    /// A plain name in this directory. If it is a link, it stands for itself.
    #[must_use]
    pub fn join(&self, name: &OsStr) -> Self {
        let names = self.names.iter().map(|other| other.join(name)).collect();
        Self { relative: self.relative.join(name), names, ..self.clone() }
    }

    /// The directory that holds it; `None` for the root itself.
    #[must_use]
    pub fn parent_folder(&self) -> Option<Self> {
        self.parent().ok().map(|(parent, _)| parent)
    }

    /// The directory that holds it, and its name in there.
    pub(crate) fn parent(&self) -> Result<(Self, &OsStr)> {
        match (self.relative.parent(), self.relative.file_name()) {
            // What leads to a file need not lead to its folder.
            (Some(parent), Some(name)) => {
                Ok((Self { relative: parent.to_path_buf(), names: Vec::new(), ..self.clone() }, name))
            }
            _ => Err(Error::IsDirectory(self.real_path())),
        }
    }

    pub(crate) fn error(&self, doing: &'static str, error: impl Into<std::io::Error>) -> Error {
        Error::new(&self.real_path(), doing, error)
    }

    fn open(&self, path: &Path, flags: OFlags, mode: Mode) -> rustix::io::Result<OwnedFd> {
        let pinned = self.root.pin().map_err(|_| Errno::NOENT)?;
        self.options.open(pinned.handle.as_fd(), path, flags, mode)
    }
}

impl Dir {
    /// The handle. It can be listed and is good for calls that take a directory and a plain name.
    pub fn handle(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }

    /// Where it is.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Opens a directory in it, following no link.
    pub(crate) fn open_dir(&self, name: &OsStr) -> Result<Self> {
        let place = self.place.join(name);
        let handle = self.open(name, LISTED, Mode::empty()).map_err(|error| place.error("opening", error))?;
        Ok(Self { handle: handle.into(), place })
    }

    /// Opens an entry, following no link.
    pub(crate) fn open(&self, name: &OsStr, flags: OFlags, mode: Mode) -> rustix::io::Result<File> {
        self.place.options.open(self.handle(), Path::new(name), flags, mode).map(File::from)
    }
}

impl From<Dir> for OwnedFd {
    fn from(dir: Dir) -> Self {
        dir.handle
    }
}
