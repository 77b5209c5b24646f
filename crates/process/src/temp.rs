//! A private temporary folder that goes with its owner, even if the owner had no time to tidy up.

use crate::setup::Pinned;
use rustix::fs::{Access, FlockOperation, Mode, OFlags, access, flock, open};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::{SystemTime, UNIX_EPOCH};

const PREFIX: &str = "tieline-run-";

/// A folder that only we can enter, with one inside that everybody could use.
#[derive(Debug)]
pub struct Temp {
    outer: PathBuf,
    inner: Pinned,
    /// As long as it is held, others leave the folder alone.
    _lock: OwnedFd,
}

impl Temp {
    /// A new one.
    pub fn new() -> io::Result<Self> {
        Self::outside(&[])
    }

    /// A new one that is not below these folders if that can be had: who can write there could put something else in its place.
    pub fn outside(folders: &[&Path]) -> io::Result<Self> {
        static SWEPT: Once = Once::new();
        let usual = std::env::temp_dir().canonicalize()?;
        let others = ["/tmp", "/var/tmp", "/dev/shm"].iter().filter_map(|path| Path::new(path).canonicalize().ok());
        let is_outside = |place: &PathBuf| {
            let below = folders.iter().any(|folder| place.starts_with(folder));
            !below && access(place, Access::WRITE_OK | Access::EXEC_OK).is_ok()
        };
        let place = std::iter::once(usual.clone()).chain(others).find(is_outside).unwrap_or(usual);
        SWEPT.call_once(|| sweep(&place));
        let seed = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos());
        for attempt in 0..100 {
            let outer = place.join(format!("{PREFIX}{}-{:x}", std::process::id(), seed + attempt));
            match fs::DirBuilder::new().mode(0o700).create(&outer) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(error),
            }
            let lock = lock(&outer)?;
            let inner = outer.join("tmp");
            fs::create_dir(&inner)?;
            fs::set_permissions(&inner, fs::Permissions::from_mode(0o1777))?;
            return Ok(Self { inner: Pinned::new(&inner)?, outer, _lock: lock });
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// The folder to use.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// The same, and not another one that is called so by now.
    pub fn pinned(&self) -> &Pinned {
        &self.inner
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        remove(&self.outer);
    }
}

fn lock(folder: &Path) -> io::Result<OwnedFd> {
    let handle = open(folder, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    flock(&handle, FlockOperation::NonBlockingLockExclusive)?;
    Ok(handle)
}

/// Removes what owners left that were killed.
fn sweep(place: &Path) {
    let me = rustix::process::geteuid().as_raw();
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        let ours = entry.file_name().to_string_lossy().starts_with(PREFIX)
            && entry.metadata().is_ok_and(|facts| facts.is_dir() && facts.uid() == me)
            // A moment passes between making and locking it.
            && entry.metadata().and_then(|facts| facts.modified()).is_ok_and(|time| {
                time.elapsed().is_ok_and(|age| age.as_secs() > 60)
            });
        if ours && let Ok(_lock) = lock(&entry.path()) {
            remove(&entry.path());
        }
    }
}

/// Commands may have left folders that can't be written to.
fn remove(folder: &Path) {
    if fs::remove_dir_all(folder).is_err() {
        open_up(folder);
        let _ = fs::remove_dir_all(folder);
    }
}

fn open_up(folder: &Path) {
    let _ = fs::set_permissions(folder, fs::Permissions::from_mode(0o700));
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&entry.path());
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn goes_with_its_owner() {
        let temp = Temp::new().unwrap();
        let stubborn = temp.path().join("a/b");
        fs::create_dir_all(&stubborn).unwrap();
        fs::write(stubborn.join("file"), "x").unwrap();
        fs::set_permissions(&stubborn, fs::Permissions::from_mode(0o500)).unwrap();
        let outer = temp.outer.clone();
        assert!(lock(&outer).is_err(), "the sweeper keeps off");
        drop(temp);
        assert!(!outer.exists());
    }
}
