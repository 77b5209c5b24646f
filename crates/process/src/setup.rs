//! What a command is, and how far it can reach: what a supervisor is told, and who starts one without.

use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A program, and how it is held.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Setup {
    /// Program and arguments. None: this is a probe.
    pub words: Vec<OsString>,
    /// Its environment, all of it.
    pub env: Vec<(OsString, OsString)>,
    /// Where it runs.
    #[serde(with = "path")]
    pub folder: PathBuf,
    /// Processes, bytes of a file, bytes of memory of all processes together. Zero: no limit.
    pub limits: [u64; 3],
    /// The control group that it goes into.
    pub group: Option<OsString>,
    /// It has a session of its own, so that it has no hold on our terminal.
    pub session: bool,
    /// Its output is a terminal, which is also what it reads from and what controls it.
    pub tty: bool,
    /// What outlives the program, or us, has so many milliseconds to end when it is asked to.
    pub grace: u32,
    /// What keeps it from the rest of the machine.
    pub sandbox: Option<Sandbox>,
}

impl Setup {
    /// What there is left to know inside a file system that is built already.
    #[cfg(target_os = "linux")]
    pub(crate) fn inside(&self) -> Self {
        let mut inside = self.clone();
        if let Some(sandbox) = inside.sandbox.as_mut().filter(|sandbox| sandbox.plan.namespaces) {
            for paths in [&mut sandbox.hide, &mut sandbox.show, &mut sandbox.protect, &mut sandbox.pin] {
                paths.clear();
            }
        }
        inside
    }
}

/// Which mechanisms hold a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[allow(clippy::struct_excessive_bools)]
pub struct Plan {
    /// User, mount, process, network and IPC namespaces.
    pub namespaces: bool,
    /// Rules for files and signals.
    pub landlock: bool,
    /// A filter of system calls.
    pub seccomp: bool,
    /// Unix sockets can be had, because those of others are out of reach.
    pub unix_sockets: bool,
}

/// How far a program can reach.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Sandbox {
    /// What enforces it.
    pub plan: Plan,
    /// It can reach the network.
    pub network: bool,
    /// It can write there.
    pub writable: Vec<Pinned>,
    /// It works there, but can't write.
    pub readable: Vec<Pinned>,
    /// Read-only, also inside what is writable.
    #[serde(with = "paths")]
    pub protect: Vec<PathBuf>,
    /// Folders around those, and around what is hidden in the roots, which can't be moved.
    #[serde(with = "paths")]
    pub pin: Vec<PathBuf>,
    /// Not to be read. Some may not exist yet.
    #[serde(with = "paths")]
    pub hide: Vec<PathBuf>,
    /// To be read although something around it is hidden.
    #[serde(with = "paths")]
    pub show: Vec<PathBuf>,
    /// Its private temporary folder.
    pub temp: Option<Pinned>,
}

impl Sandbox {
    /// Whether a place is seen: the closest of what is hidden and what is shown around it decides.
    #[cfg(target_os = "linux")]
    pub(crate) fn sees(&self, path: &Path) -> bool {
        let closest = |places: &mut dyn Iterator<Item = &Path>| {
            places.filter(|place| path.starts_with(place)).map(|place| place.components().count()).max()
        };
        let mut shown = self.show.iter().map(PathBuf::as_path).chain(self.places().map(|place| &*place.path));
        closest(&mut self.hide.iter().map(PathBuf::as_path)) <= closest(&mut shown)
    }

    /// What the program works in.
    pub(crate) fn places(&self) -> impl Iterator<Item = &Pinned> {
        self.readable.iter().chain(&self.writable)
    }

    /// Where the program has its private temporary folder; the first one is the one to tell it.
    pub fn temps(&self) -> Vec<PathBuf> {
        let free = |path: &PathBuf| !self.places().any(|place| place.path == *path);
        let usual = ["/tmp", "/var/tmp"].iter().filter_map(|path| Path::new(path).canonicalize().ok());
        let mut all: Vec<PathBuf> = if self.plan.namespaces { usual.filter(free).collect() } else { Vec::new() };
        all.dedup();
        if all.is_empty() {
            all.extend(self.temp.iter().map(|temp| temp.path.clone()));
        }
        all
    }
}

/// A folder as it was when it was named. Another one in its place is not it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pinned {
    /// Where it is, without links.
    #[serde(with = "path")]
    pub path: PathBuf,
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

impl Pinned {
    /// The folder that has this name now.
    pub fn new(path: &Path) -> io::Result<Self> {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("`{}`: {error}", path.display()));
        let full = path.canonicalize().map_err(named)?;
        let facts = full.metadata().map_err(named)?;
        if !facts.is_dir() {
            return Err(named(io::ErrorKind::NotADirectory.into()));
        }
        Ok(Self { path: full, device: facts.dev(), inode: facts.ino() })
    }
}

/// A path as text of which each character is a byte: most are short then, and none is lost.
mod path {
    use super::{Deserialize, OsString, Path, PathBuf};
    use serde::{Deserializer, Serializer};
    use std::os::unix::ffi::{OsStrExt, OsStringExt};

    pub(super) fn text(path: &Path) -> String {
        path.as_os_str().as_bytes().iter().copied().map(char::from).collect()
    }

    pub(super) fn read(text: String) -> PathBuf {
        OsString::from_vec(text.chars().filter_map(|c| u8::try_from(c).ok()).collect()).into()
    }

    pub(super) fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&text(path))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
        String::deserialize(from).map(read)
    }
}

/// Several of them.
mod paths {
    use super::{Deserialize, PathBuf, path};
    use serde::{Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(paths: &[PathBuf], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(paths.iter().map(|path| path::text(path)))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<PathBuf>, D::Error> {
        Ok(Vec::<String>::deserialize(from)?.into_iter().map(path::read).collect())
    }
}
