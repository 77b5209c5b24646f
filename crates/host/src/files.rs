//! Reads, lists and describes files at resolved places; changing them is in [`write`](Files::write) and its neighbours.

mod change;
mod temp;
mod version;
mod write;

pub(crate) use change::{DIR_MODE, Found, look_at_other};
pub use version::{Hash, Version};
pub use write::{Expect, State, Write, Written};

use crate::roots::{Dir, Error, Place, READ, Result, Roots};
use crate::snapshot::Recorder;
use rustix::{
    fs::{AtFlags, FileType, Mode, RawMode, readlinkat, statat},
    io::Errno,
};
use std::{
    ffi::{OsStr, OsString},
    fs::{File, Metadata},
    io::{Read as _, Seek as _},
    os::unix::{
        ffi::{OsStrExt as _, OsStringExt as _},
        fs::MetadataExt as _,
    },
    path::PathBuf,
    sync::Arc,
};

/// How much is read, written or listed at most. Each bound is itself still allowed.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of a text file that is read or of any file that is written.
    pub text: u64,
    /// Bytes of a file that is read as bytes, such as an image.
    pub bytes: u64,
    /// Entries of a directory.
    pub entries: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { text: 16 << 20, bytes: 20 << 20, entries: 10_000 }
    }
}

/// The files below the roots of a session. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Files {
    roots: Roots,
    limits: Limits,
    recorder: Option<Arc<Recorder>>,
    swept: Arc<temp::Swept>,
    /// What is done is made durable later, all at once.
    bulk: bool,
}

/// The bytes of a file and the version they are.
#[derive(Clone, Debug)]
pub struct Bytes {
    /// What is in the file.
    pub bytes: Vec<u8>,
    /// Which version that is.
    pub version: Version,
}

/// The text of a file and the version it is.
#[derive(Clone, Debug)]
pub struct Text {
    /// What is in the file.
    pub text: String,
    /// Which version that is.
    pub version: Version,
}

/// What an entry of a directory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A FIFO, device or socket.
    Special,
}

/// One entry of a directory.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its name.
    pub name: OsString,
    /// What it is; links are not followed.
    pub kind: EntryKind,
    /// Bytes in a regular file, otherwise 0.
    pub size: u64,
    /// Where a link says it leads.
    pub target: Option<PathBuf>,
}

/// A directory's entries by name.
#[derive(Clone, Debug)]
pub struct Listing {
    /// The entries, in the order of their bytes.
    pub entries: Vec<Entry>,
    /// Whether there are more than the limit allowed; which ones were left out is up to the file system.
    pub more: bool,
}

impl Files {
    /// The files below these roots, with the usual limits.
    pub fn new(roots: Roots) -> Self {
        Self { roots, limits: Limits::default(), recorder: None, swept: Arc::default(), bulk: false }
    }

    /// The same with other limits.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// The same, recording each change before it happens.
    #[must_use]
    pub fn with_journal(mut self, recorder: Arc<Recorder>) -> Self {
        self.recorder = Some(recorder);
        self
    }

    /// The same, but what is done is durable only after [`Files::sync_all`].
    pub(crate) fn in_bulk(&self, bulk: bool) -> Self {
        Self { bulk, ..self.clone() }
    }

    /// The same, below other roots.
    #[must_use]
    pub fn in_roots(&self, roots: Roots) -> Self {
        Self { roots, ..self.clone() }
    }

    /// The roots.
    pub fn roots(&self) -> &Roots {
        &self.roots
    }

    /// The limits.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Reads a whole file.
    pub fn read_bytes(&self, place: &Place) -> Result<Bytes> {
        read_up_to(place, self.limits.bytes)
    }

    /// The first bytes of a file, and how many it has; `None` if there is no file.
    pub fn read_start(&self, place: &Place, most: u64) -> Result<Option<(Vec<u8>, u64)>> {
        let (parent, name) = place.parent()?;
        let (file, facts) = match parent.open_through().and_then(|dir| open_regular(&dir, name, place)) {
            Err(Error::NotFound(_)) => return Ok(None),
            opened => opened?,
        };
        let mut bytes = Vec::new();
        file.take(most).read_to_end(&mut bytes).map_err(|error| place.error("reading", error))?;
        Ok(Some((bytes, facts.len())))
    }

    /// Reads a whole text file.
    pub fn read_text(&self, place: &Place) -> Result<Text> {
        let Bytes { bytes, version } = read_up_to(place, self.limits.text)?;
        let text = String::from_utf8(bytes)
            .map_err(|error| Error::NotText { path: place.real_path(), at: error.utf8_error().valid_up_to() })?;
        Ok(Text { text, version })
    }

    /// Which version is there now; `None` if there is no file.
    pub fn version(&self, place: &Place) -> Result<Option<Version>> {
        self.look(place).map(|found| found.map(|found| found.version))
    }

    /// Lists a directory.
    pub fn list(&self, place: &Place) -> Result<Listing> {
        let dir = place.open_dir()?;
        let failed = |error: Errno| place.error("listing", error);
        let mut listing = Listing { entries: Vec::new(), more: false };
        for entry in rustix::fs::Dir::read_from(dir.handle()).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            if listing.entries.len() == self.limits.entries {
                listing.more = true;
                break;
            }
            // Gone in between: as if it had never been there.
            if let Ok(facts) = statat(dir.handle(), name, AtFlags::SYMLINK_NOFOLLOW) {
                let kind = match FileType::from_raw_mode(facts.st_mode) {
                    FileType::RegularFile => EntryKind::File,
                    FileType::Directory => EntryKind::Directory,
                    FileType::Symlink => EntryKind::Link,
                    _ => EntryKind::Special,
                };
                let size = if kind == EntryKind::File { u64::try_from(facts.st_size).unwrap_or(0) } else { 0 };
                let target = (kind == EntryKind::Link)
                    .then(|| readlinkat(dir.handle(), name, Vec::new()).ok())
                    .flatten()
                    .map(|target| PathBuf::from(OsString::from_vec(target.into_bytes())));
                listing.entries.push(Entry { name: name.to_owned(), kind, size, target });
            }
        }
        listing.entries.sort_by(|a, b| a.name.as_bytes().cmp(b.name.as_bytes()));
        Ok(listing)
    }
}

fn read_up_to(place: &Place, limit: u64) -> Result<Bytes> {
    let (parent, name) = place.parent()?;
    let dir = parent.open_through()?;
    let (file, _) = open_regular(&dir, name, place)?;
    read_file(&file, place, limit).map(|(read, _)| read)
}

/// Opens a regular file in a directory; anything else is refused without waiting for it, normally without opening it.
fn open_regular(dir: &Dir, name: &OsStr, place: &Place) -> Result<(File, Metadata)> {
    let failed = |error: Errno| place.error("opening", error);
    let facts = statat(dir.handle(), name, AtFlags::SYMLINK_NOFOLLOW).map_err(failed)?;
    must_be_regular(FileType::from_raw_mode(facts.st_mode), place)?;
    let file = dir.open(name, READ, Mode::empty()).map_err(failed)?;
    let meta = file.metadata().map_err(|error| place.error("opening", error))?;
    must_be_regular(FileType::from_raw_mode(meta.mode() as RawMode), place)?;
    Ok((file, meta))
}

fn must_be_regular(kind: FileType, place: &Place) -> Result<()> {
    let kind = match kind {
        FileType::RegularFile => return Ok(()),
        FileType::Directory => return Err(Error::IsDirectory(place.real_path())),
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Unknown => "a special file",
    };
    Err(Error::NotRegular { path: place.real_path(), kind })
}

/// Reads an open file, again if it changes meanwhile.
fn read_file(file: &File, place: &Place, limit: u64) -> Result<(Bytes, Metadata)> {
    let failed = |error| place.error("reading", error);
    let too_large = |size| Error::TooLarge { path: place.real_path(), size, limit };
    for _ in 0..3 {
        let before = file.metadata().map_err(failed)?;
        if before.len() > limit {
            return Err(too_large(before.len()));
        }
        let mut bytes = Vec::with_capacity(before.len() as usize);
        let mut reader = file;
        reader.rewind().map_err(failed)?;
        reader.take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() as u64 > limit {
            return Err(too_large(bytes.len() as u64));
        }
        let after = file.metadata().map_err(failed)?;
        if version::same(&before, &after) {
            let version = Version::new(Hash::of(&bytes), bytes.len() as u64, &after);
            return Ok((Bytes { bytes, version }, after));
        }
    }
    Err(Error::Changed(place.real_path()))
}
