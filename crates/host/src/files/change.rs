//! Deletes and renames files, makes and removes directories, and looks at what is there before a change.

use super::{Expect, Files, Hash, State, Version, open_regular, read_file, temp::move_new};
use crate::roots::{Dir, Error, Place, Result, Root};
use crate::snapshot::{Made, Unkept};
use rustix::{
    fs::{AtFlags, Mode, RawMode, mkdirat, readlinkat, symlinkat, unlinkat},
    io::Errno,
};
use std::{
    ffi::OsStr,
    fs::{File, Metadata},
    os::unix::{ffi::OsStrExt as _, fs::MetadataExt as _},
    path::PathBuf,
};

/// What is kept of the mode of a directory: in it the bit of the group lends no rights, but says whose new files are.
pub(crate) const DIR_MODE: u32 = 0o3777;

/// A file that is there before a change.
pub(crate) struct Found {
    pub(crate) file: File,
    pub(crate) meta: Metadata,
    pub(crate) version: Version,
    /// What is in it, unless it is larger than the limit.
    pub(crate) content: Option<Vec<u8>>,
}

impl Found {
    pub(crate) fn mode(&self) -> u32 {
        self.meta.mode() & 0o1777
    }

    pub(crate) fn state(&self) -> State {
        State::File { hash: self.version.hash, size: self.version.size, mode: self.mode() }
    }

    /// The state and the content of what was looked for.
    pub(crate) fn state_of(found: Option<&Self>) -> State {
        found.map_or(State::Missing, Self::state)
    }
}

impl Files {
    /// What is there, with its content if that is within the limit. A larger file is read for its hash alone, which takes seconds
    /// for each gigabyte, unless `known` can tell it.
    pub(crate) fn inspect(
        &self,
        dir: &Dir,
        name: &OsStr,
        place: &Place,
        known: impl FnOnce(&Metadata) -> Option<Hash>,
    ) -> Result<Option<Found>> {
        let (file, meta) = match open_regular(dir, name, place) {
            Ok(opened) => opened,
            Err(Error::NotFound(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        if meta.len() > self.limits.text {
            let known = known(&meta).map(|hash| Ok((hash, meta.len())));
            let read = known.unwrap_or_else(|| Hash::of_reader(&file));
            let (hash, size) = read.map_err(|error| place.error("reading", error))?;
            return Ok(Some(Found { version: Version::new(hash, size, &meta), file, meta, content: None }));
        }
        let (read, meta) = read_file(&file, place, self.limits.text)?;
        Ok(Some(Found { file, meta, version: read.version, content: Some(read.bytes) }))
    }

    /// What is at a place; a missing directory on the way is nothing, too.
    pub(crate) fn look(&self, place: &Place) -> Result<Option<Found>> {
        self.look_knowing(place, |_| None)
    }

    /// The same, where the hash of a file over the limit may be [known](Files::inspect).
    pub(crate) fn look_knowing(
        &self,
        place: &Place,
        known: impl FnOnce(&Metadata) -> Option<Hash>,
    ) -> Result<Option<Found>> {
        let (parent, name) = place.parent()?;
        match parent.open_through().and_then(|dir| self.inspect(&dir, name, place, known)) {
            Err(Error::NotFound(_)) => Ok(None),
            done => done,
        }
    }

    /// Removes a link or something else that is no file and no folder.
    pub(crate) fn remove_other(&self, place: &Place, expect: State) -> Result<()> {
        let (now, target) = look_at_other(place)?;
        if !now.same_content(&expect) {
            return Err(Error::Changed(place.real_path()));
        }
        let content = target.as_deref().ok_or(Unkept::Special);
        self.tell(Made { before: now, content, ..Made::at(place, None, State::Missing) })?;
        let (parent, name) = place.parent()?;
        let dir = parent.open_dir()?;
        unlinkat(dir.handle(), name, AtFlags::empty()).map_err(|error| place.error("deleting", error))?;
        self.sync(&dir, place)
    }

    /// Makes a link where nothing is, and missing directories.
    pub(crate) fn link(&self, place: &Place, target: &[u8]) -> Result<()> {
        let (parent, name) = place.parent()?;
        let (dir, made) = ensure_dir(&parent)?;
        let after = State::Link { hash: Hash::of(target), size: target.len() as u64 };
        self.tell(Made { directory: made.first().map(PathBuf::as_path), ..Made::at(place, None, after) })?;
        symlinkat(OsStr::from_bytes(target), dir.handle(), name).map_err(|error| place.error("writing", error))?;
        self.sync(&dir, place)
    }

    /// Deletes a regular file.
    pub fn delete(&self, place: &Place, expect: Expect) -> Result<()> {
        let (parent, name) = place.parent()?;
        let dir = parent.open_dir()?;
        let found = self.inspect(&dir, name, place, |meta| expect.knows(meta))?;
        expect.check(found.as_ref(), place)?;
        let found = found.ok_or_else(|| Error::NotFound(place.real_path()))?;
        self.tell(Made::at(place, Some(&found), State::Missing))?;
        if !found.still_at(&dir, name) {
            return Err(Error::Changed(place.real_path()));
        }
        unlinkat(dir.handle(), name, AtFlags::empty()).map_err(|error| place.error("deleting", error))?;
        self.sync(&dir, place)
    }

    /// Renames a regular file to where nothing is, making missing directories on request. Both places may be in different
    /// roots of the same file system.
    pub fn rename(&self, from: &Place, to: &Place, expect: Expect, parents: bool) -> Result<()> {
        let ((from_parent, from_name), (to_parent, to_name)) = (from.parent()?, to.parent()?);
        let from_dir = from_parent.open_dir()?;
        let found = self.inspect(&from_dir, from_name, from, |meta| expect.knows(meta))?;
        expect.check(found.as_ref(), from)?;
        let found = found.ok_or_else(|| Error::NotFound(from.real_path()))?;
        let (to_dir, made) = if parents { ensure_dir(&to_parent)? } else { (to_parent.open_dir()?, Vec::new()) };
        if rustix::fs::statat(to_dir.handle(), to_name, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
            return Err(Error::Exists(to.real_path()));
        }
        self.tell(Made::at(from, Some(&found), State::Missing))?;
        self.tell(Made { directory: made.first().map(PathBuf::as_path), ..Made::at(to, None, found.state()) })?;
        if !found.still_at(&from_dir, from_name) {
            return Err(Error::Changed(from.real_path()));
        }
        move_new((&from_dir, from_name), (&to_dir, to_name)).map_err(|error| to.error("renaming to", error))?;
        self.sync(&to_dir, to)?;
        self.sync(&from_dir, from)
    }

    /// Makes durable what changed in a directory, unless [all at once](Files::in_bulk) is.
    pub(super) fn sync(&self, dir: &Dir, place: &Place) -> Result<()> {
        if self.bulk { Ok(()) } else { sync(dir, place) }
    }

    /// Makes durable all that was done in bulk.
    pub(crate) fn sync_all(&self) -> std::io::Result<()> {
        let mut roots = self.roots().list().filter(|_| self.bulk).filter_map(Root::real_path);
        roots.try_for_each(crate::whole::sync_disk)
    }

    /// Makes a directory and those on the way that are missing; returns which ones, relative to the root.
    pub fn create_dirs(&self, place: &Place) -> Result<Vec<PathBuf>> {
        ensure_dir(place).map(|(_, made)| made)
    }

    /// Makes a directory that only the user may enter; what it may be later is [said](Files::set_dir_mode) when it is filled.
    pub(crate) fn make_private_dir(&self, place: &Place) -> Result<()> {
        let (parent, name) = place.parent()?;
        let dir = parent.open_dir()?;
        mkdirat(dir.handle(), name, Mode::from_raw_mode(0o700)).map_err(|error| place.error("creating", error))?;
        self.sync(&dir, place)
    }

    /// The permission bits of a directory.
    pub(crate) fn dir_mode(place: &Place) -> Result<u32> {
        let facts = rustix::fs::fstat(place.open_dir()?.handle()).map_err(|error| place.error("looking up", error))?;
        #[allow(clippy::useless_conversion, reason = "of 16 bits on macOS")]
        Ok(u32::from(facts.st_mode) & DIR_MODE)
    }

    /// Gives a directory its permission bits.
    pub(crate) fn set_dir_mode(place: &Place, mode: u32) -> Result<()> {
        let mode = Mode::from_raw_mode((mode & DIR_MODE) as RawMode);
        rustix::fs::fchmod(place.open_dir()?.handle(), mode).map_err(|error| place.error("setting the mode of", error))
    }

    /// Removes a directory that is empty.
    pub fn remove_empty_dir(&self, place: &Place) -> Result<()> {
        let (parent, name) = place.parent()?;
        let dir = parent.open_dir()?;
        unlinkat(dir.handle(), name, AtFlags::REMOVEDIR).map_err(|error| place.error("removing", error))?;
        self.sync(&dir, place)
    }
}

/// What is at a place where no file and no folder is: a link, with where it leads, or something else.
pub(crate) fn look_at_other(place: &Place) -> Result<(State, Option<Vec<u8>>)> {
    let (parent, name) = place.parent()?;
    match readlinkat(parent.open_through()?.handle(), name, Vec::new()) {
        Ok(target) => {
            let target = target.into_bytes();
            Ok((State::Link { hash: Hash::of(&target), size: target.len() as u64 }, Some(target)))
        }
        Err(Errno::INVAL) => Ok((State::Other, None)),
        Err(error) => Err(place.error("looking up", error)),
    }
}

/// Opens a directory, made if it isn't there; also which ones were made.
pub(crate) fn ensure_dir(place: &Place) -> Result<(Dir, Vec<PathBuf>)> {
    let mut made = Vec::new();
    match place.open_dir() {
        Err(Error::NotFound(_)) => {}
        done => return Ok((done?, made)),
    }
    let mut dir = place.root_dir()?;
    for name in place.relative() {
        match mkdirat(dir.handle(), name, Mode::from_raw_mode(0o777)) {
            Ok(()) => {
                made.push(dir.place().relative().join(name));
                sync(&dir, place)?;
            }
            Err(Errno::EXIST) => {}
            Err(error) => return Err(place.error("creating", error)),
        }
        dir = dir.open_dir(name)?;
    }
    Ok((dir, made))
}

fn sync(dir: &Dir, place: &Place) -> Result<()> {
    rustix::fs::fsync(dir.handle()).map_err(|error| place.error("saving", error))
}
