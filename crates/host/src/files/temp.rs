//! Temporary files beside their target: made, put in its place, and swept up after a crash.

use super::{Found, Hash, version};
use crate::roots::{Dir, Error, Place, Result};
use rustix::{
    fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, RenameFlags, flock, statat, unlinkat},
    io::Errno,
};
use std::{
    collections::HashSet,
    ffi::OsStr,
    fs::File,
    io::Seek as _,
    os::unix::{ffi::OsStrExt as _, fs::MetadataExt as _},
    sync::Mutex,
    time::Duration,
};
use tieline_rpc::sync::Lock;

/// How the name of every temporary file begins; 16 hexadecimal digits follow.
const PREFIX: &str = ".tieline-tmp-";

/// The directories in which leftovers were looked for.
#[derive(Debug, Default)]
pub(crate) struct Swept(Mutex<HashSet<(u64, u64)>>);

impl Swept {
    /// To be called before a temporary file is made. Writers of all processes share a lock on the directory; who gets it
    /// alone knows that every temporary file in there was left by a writer that is gone. The lock ends with the handle.
    pub(crate) fn enter(&self, dir: &Dir) {
        #[allow(clippy::cast_sign_loss, clippy::unnecessary_cast, clippy::cast_lossless)]
        let id = rustix::fs::fstat(dir.handle()).map(|facts| (facts.st_dev as u64, facts.st_ino as u64));
        if let Ok(id) = id
            && !self.0.locked().contains(&id)
            && flock(dir.handle(), FlockOperation::NonBlockingLockExclusive).is_ok()
        {
            sweep(dir);
            self.0.locked().insert(id);
        }
        // Another process may be sweeping. Someone who holds the lock for long is not one of us.
        for _ in 0..50 {
            match flock(dir.handle(), FlockOperation::NonBlockingLockShared) {
                Err(Errno::WOULDBLOCK) => std::thread::sleep(Duration::from_millis(2)),
                _ => return,
            }
        }
    }
}

fn sweep(dir: &Dir) {
    let Ok(entries) = rustix::fs::Dir::read_from(dir.handle()) else { return };
    let me = rustix::process::geteuid().as_raw();
    for entry in entries.flatten() {
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if is_temp(name)
            && let Ok(facts) = statat(dir.handle(), name, AtFlags::SYMLINK_NOFOLLOW)
            && FileType::from_raw_mode(facts.st_mode) == FileType::RegularFile
            && facts.st_uid == me
        {
            _ = unlinkat(dir.handle(), name, AtFlags::empty());
        }
    }
}

/// Whether a name is one of ours.
pub(crate) fn is_temp(name: &OsStr) -> bool {
    name.as_bytes()
        .strip_prefix(PREFIX.as_bytes())
        .is_some_and(|rest| rest.len() == 16 && rest.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')))
}

/// A temporary file; removed when dropped.
pub(crate) struct Temp<'a> {
    dir: &'a Dir,
    name: String,
    pub(crate) file: File,
}

impl<'a> Temp<'a> {
    /// Makes one with exactly this mode before the process's mask is applied.
    pub(crate) fn new(dir: &'a Dir, mode: u32) -> std::io::Result<Self> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR;
        #[allow(clippy::unnecessary_cast)]
        let mode = Mode::from_raw_mode(mode as rustix::fs::RawMode);
        for _ in 0..16 {
            let mut random = [0; 8];
            getrandom::fill(&mut random).map_err(|error| std::io::Error::other(error.to_string()))?;
            let name = format!("{PREFIX}{:016x}", u64::from_le_bytes(random));
            match dir.open(OsStr::new(&name), flags, mode) {
                Ok(file) => return Ok(Self { dir, name, file }),
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Errno::EXIST.into())
    }

    /// Puts it where nothing is.
    pub(crate) fn put_new(&self, name: &OsStr, place: &Place) -> Result<()> {
        let dir = self.dir.handle();
        move_new((self.dir, OsStr::new(&self.name)), (self.dir, name)).map_err(|error| match error {
            // The temporary file is gone, or the directory is.
            Errno::NOENT if statat(dir, &*self.name, AtFlags::SYMLINK_NOFOLLOW).is_err() => {
                Error::Raced(place.real_path())
            }
            error => place.error("creating", error),
        })
    }

    /// Puts it in the place of `old`, if that is still there as it was.
    pub(crate) fn replace(&self, name: &OsStr, old: &Found, place: &Place) -> Result<()> {
        let dir = self.dir.handle();
        let changed = || Error::Changed(place.real_path());
        if !old.still_at(self.dir, name) {
            return Err(changed());
        }
        // Exchanged rather than overwritten: so a version that slipped in at the last moment can be put back.
        let exchange = || rustix::fs::renameat_with(dir, &*self.name, dir, name, RenameFlags::EXCHANGE);
        match exchange() {
            Ok(()) if old.still_at(self.dir, OsStr::new(&self.name)) => Ok(()),
            Ok(()) => {
                exchange().map_err(|error| place.error("putting back", error))?;
                Err(changed())
            }
            Err(Errno::NOENT) => Err(changed()),
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                rustix::fs::renameat(dir, &*self.name, dir, name).map_err(|error| place.error("writing", error))
            }
            Err(error) => Err(place.error("writing", error)),
        }
    }
}

impl Drop for Temp<'_> {
    fn drop(&mut self) {
        _ = unlinkat(self.dir.handle(), &*self.name, AtFlags::empty());
    }
}

impl Found {
    /// Whether the entry is this file and nothing was written to it since.
    pub(crate) fn still_at(&self, dir: &Dir, name: &OsStr) -> bool {
        let same_file = statat(dir.handle(), name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|facts| {
            #[allow(clippy::cast_sign_loss, clippy::unnecessary_cast, clippy::cast_lossless)]
            let id = (facts.st_dev as u64, facts.st_ino as u64);
            id == (self.meta.dev(), self.meta.ino())
        });
        same_file && self.file.metadata().is_ok_and(|now| version::same(&self.meta, &now)) && self.same_content()
    }

    /// Clocks of file systems are coarse: two writes may carry the same time.
    fn same_content(&self) -> bool {
        let mut file = &self.file;
        self.content.is_none()
            || file.rewind().is_ok() && Hash::of_reader(file).is_ok_and(|(hash, _)| hash == self.version.hash)
    }
}

/// Renames, but never over something that is there.
pub(crate) fn move_new(from: (&Dir, &OsStr), to: (&Dir, &OsStr)) -> rustix::io::Result<()> {
    let (from_dir, to_dir) = (from.0.handle(), to.0.handle());
    match rustix::fs::renameat_with(from_dir, from.1, to_dir, to.1, RenameFlags::NOREPLACE) {
        // Not on this file system: a second name is as strict.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
            rustix::fs::linkat(from_dir, from.1, to_dir, to.1, AtFlags::empty())?;
            unlinkat(from_dir, from.1, AtFlags::empty())
        }
        done => done,
    }
}
