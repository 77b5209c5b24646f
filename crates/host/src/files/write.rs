//! Writes a file as a whole: after a crash at any point it is the old one or the new one.

use super::{Files, Found, Hash, Version, change::ensure_dir, temp::Temp};
use crate::roots::{Dir, Error, Place, Result};
use crate::snapshot::Made;
use rustix::{
    fs::{Access, AtFlags, Mode, RawMode, XattrFlags, accessat},
    io::Errno,
    process::{Gid, Uid},
};
use serde::{Deserialize, Serialize};
use std::{
    ffi::{CStr, OsStr},
    fs::{File, Metadata},
    io::Write as _,
    os::unix::fs::MetadataExt as _,
    path::PathBuf,
};

/// What the caller thinks is there now. If it is wrong, nothing is changed.
#[derive(Clone, Copy, Debug)]
pub enum Expect {
    /// Nothing; the file is new.
    New,
    /// This version.
    Version(Version),
    /// Whatever.
    Any,
}

/// How to write.
#[derive(Clone, Copy, Debug)]
pub struct Write {
    /// What must be there before.
    pub expect: Expect,
    /// Make missing directories on the way.
    pub parents: bool,
    /// Write although the file has other names, which keep the old content, or is read-only.
    pub hard_links: bool,
    /// The permission bits. `None` keeps those of the old file, or takes the usual ones for a new file.
    pub mode: Option<u32>,
}

impl Write {
    /// Writes if the file is as expected; makes no directories.
    pub const fn expecting(expect: Expect) -> Self {
        Self { expect, parents: false, hard_links: false, mode: None }
    }

    /// The same, making missing directories.
    #[must_use]
    pub const fn with_parents(mut self) -> Self {
        self.parents = true;
        self
    }
}

/// What a write did.
#[derive(Clone, Debug)]
pub struct Written {
    /// The version that is there now.
    pub version: Version,
    /// Whether there was no file before.
    pub created: bool,
}

/// What is at a place: the part of it that undoing needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Nothing.
    Missing,
    /// A regular file.
    File {
        /// The hash of its content.
        hash: Hash,
        /// How many bytes it has.
        size: u64,
        /// Its permission bits.
        mode: u32,
    },
    /// A symbolic link. Its content is where it leads.
    Link {
        /// The hash of that.
        hash: Hash,
        /// How many bytes it has.
        size: u64,
    },
    /// Something else, of which nothing can be kept: a FIFO, a socket, a device, a folder that was not looked into.
    Other,
}

impl State {
    /// Whether both are nothing, or the same kind of thing with the same content.
    pub fn same_content(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Missing, Self::Missing) | (Self::Other, Self::Other) => true,
            (Self::File { hash, .. }, Self::File { hash: other, .. })
            | (Self::Link { hash, .. }, Self::Link { hash: other, .. }) => hash == other,
            _ => false,
        }
    }
}

impl Expect {
    /// The hash of a file that is still the one that is expected, as far as its size, time and number tell.
    pub(crate) fn knows(&self, meta: &Metadata) -> Option<Hash> {
        match self {
            Self::Version(known) if Version::new(known.hash, meta.len(), meta) == *known => Some(known.hash),
            _ => None,
        }
    }

    pub(crate) fn check(&self, found: Option<&Found>, place: &Place) -> Result<()> {
        match (self, found) {
            (Self::Any, _) | (Self::New, None) => Ok(()),
            (Self::Version(known), Some(found)) if known.same_content(&found.version) => Ok(()),
            (Self::New, Some(_)) => Err(Error::Exists(place.real_path())),
            (Self::Version(_), _) => Err(Error::Changed(place.real_path())),
        }
    }
}

impl Files {
    /// Writes a whole file. The content is made durable under another name and then takes its place in one step.
    pub fn write(&self, place: &Place, bytes: &[u8], how: &Write) -> Result<Written> {
        let size = bytes.len() as u64;
        if size > self.limits.text {
            return Err(Error::TooLarge { path: place.real_path(), size, limit: self.limits.text });
        }
        let (parent, name) = place.parent()?;
        let (dir, new_folder) = match how.expect {
            Expect::Any | Expect::New if how.parents => ensure_dir(&parent)?,
            _ => (parent.open_dir()?, Vec::new()),
        };
        self.swept.enter(&dir);
        let old = self.inspect(&dir, name, place, |meta| how.expect.knows(meta))?;
        how.expect.check(old.as_ref(), place)?;
        let hash = Hash::of(bytes);
        let created = old.is_none();
        if let Some(old) = &old {
            may_replace(&dir, name, old, place, how.hard_links)?;
            if old.version.hash == hash && how.mode.is_none_or(|mode| mode & 0o1777 == old.mode()) {
                return Ok(Written { version: old.version, created });
            }
            // What can't be kept is not written over, but by an undo, which says so.
            if old.content.is_none() && !how.hard_links {
                let (size, limit) = (old.version.size, self.limits.text);
                return Err(Error::TooLarge { path: place.real_path(), size, limit });
            }
        }
        // What lets a program run with another's rights is not for content that someone else wrote.
        let mode = how.mode.map(|mode| mode & 0o1777).or(old.as_ref().map(Found::mode));
        let after = State::File { hash, size, mode: mode.unwrap_or(0o644) };
        self.tell(Made {
            directory: new_folder.first().map(PathBuf::as_path),
            ..Made::at(place, old.as_ref(), after)
        })?;
        let failed = |error: std::io::Error| place.error("writing", error);
        let mut temp = Temp::new(&dir, if mode.is_some() { 0o600 } else { 0o666 }).map_err(failed)?;
        temp.file.write_all(bytes).map_err(failed)?;
        if let Some(old) = &old {
            keep_owner(&old.file, &temp.file);
        }
        if let Some(mode) = mode {
            let mode = Mode::from_raw_mode(mode as RawMode);
            rustix::fs::fchmod(&temp.file, mode).map_err(|error| failed(error.into()))?;
        }
        if let Some(old) = &old {
            keep_attributes(&old.file, &temp.file);
        }
        if !self.bulk {
            temp.file.sync_all().map_err(failed)?;
        }
        match &old {
            None => temp.put_new(name, place)?,
            Some(old) => temp.replace(name, old, place)?,
        }
        let meta = temp.file.metadata().map_err(failed)?;
        drop(temp);
        self.sync(&dir, place)?;
        Ok(Written { version: Version::new(hash, size, &meta), created })
    }

    /// Records a change before it happens. If that fails, it does not happen.
    pub(crate) fn tell(&self, change: Made<'_>) -> Result<()> {
        self.recorder.as_ref().map_or(Ok(()), |recorder| recorder.changing(change))
    }
}

fn may_replace(dir: &Dir, name: &OsStr, old: &Found, place: &Place, hard_links: bool) -> Result<()> {
    let links = old.meta.nlink();
    if hard_links {
        // What takes the place of the file is what was there, and whoever changed the file may have locked it.
        return Ok(());
    }
    // The first is for the superuser, whom the second never stops.
    if old.meta.mode() & 0o222 == 0 {
        return Err(Error::ReadOnly(place.real_path()));
    }
    match accessat(dir.handle(), name, Access::WRITE_OK, AtFlags::empty()) {
        Err(Errno::ACCESS | Errno::PERM | Errno::ROFS) => return Err(Error::ReadOnly(place.real_path())),
        Err(error) => return Err(place.error("writing", error)),
        Ok(()) => {}
    }
    if links > 1 {
        return Err(Error::HardLinked { path: place.real_path(), links });
    }
    Ok(())
}

fn keep_owner(old: &File, new: &File) {
    let (Ok(old), Ok(made)) = (old.metadata(), new.metadata()) else { return };
    if (old.uid(), old.gid()) != (made.uid(), made.gid()) {
        let (uid, gid) = (Uid::from_raw(old.uid()), Gid::from_raw(old.gid()));
        // The group alone is worth having where the owner can't be.
        let _ = rustix::fs::fchown(new, Some(uid), Some(gid)).or_else(|_| rustix::fs::fchown(new, None, Some(gid)));
    }
}

/// Copies access lists, labels and the user's own attributes as far as the system lets us.
fn keep_attributes(old: &File, new: &File) {
    let mut names = vec![0u8; 1 << 16];
    let Ok(count) = rustix::fs::flistxattr(old, &mut names[..]) else { return };
    for name in
        names[..count].split_inclusive(|&byte| byte == 0).filter_map(|name| CStr::from_bytes_with_nul(name).ok())
    {
        let text = name.to_bytes();
        let wanted = text.starts_with(b"user.")
            || matches!(text, b"system.posix_acl_access" | b"security.selinux")
            || cfg!(target_vendor = "apple");
        let mut value = vec![0u8; 1 << 16];
        if wanted && let Ok(count) = rustix::fs::fgetxattr(old, name, &mut value[..]) {
            _ = rustix::fs::fsetxattr(new, name, &value[..count], XattrFlags::empty());
        }
    }
}
