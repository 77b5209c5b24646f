//! Opens a path below a directory handle, following no link on the way.
//!
//! On Linux the kernel does it in one call (`openat2`). Where that call is missing, a walk does the same, one name at a
//! time. Both refuse links outright: what a link means was settled before, when the path was resolved, so a link met here
//! was put there in between.

use rustix::{
    fd::{AsFd, BorrowedFd, OwnedFd},
    fs::{Mode, OFlags, openat},
    io::{Errno, Result},
};
use std::{
    ffi::OsStr,
    path::{Component, Path},
};

/// How paths are opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Never use `openat2`, but the walk that stands in for it on old kernels.
    pub portable: bool,
}

/// A directory that is only passed through; needs no right to list it where the system knows such handles.
#[cfg(target_os = "linux")]
pub(crate) const THROUGH: OFlags = OFlags::PATH.union(OFlags::DIRECTORY);
#[cfg(not(target_os = "linux"))]
pub(crate) const THROUGH: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);

/// A directory that can be listed, locked and flushed.
pub(crate) const LISTED: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);

/// A file to be read; never waits for the other end of a FIFO.
pub(crate) const READ: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

impl Options {
    /// Opens `path`, which has only plain names in it; the empty path is the directory itself. A link anywhere is
    /// [`Errno::LOOP`], a mount [`Errno::XDEV`].
    pub(crate) fn open(self, dir: BorrowedFd<'_>, path: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd> {
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        if path.as_os_str().is_empty() {
            return openat(dir, ".", flags, mode);
        }
        if !path.components().all(|part| matches!(part, Component::Normal(_))) {
            return Err(Errno::XDEV);
        }
        #[cfg(target_os = "linux")]
        if !self.portable {
            match openat2(dir, path, flags, mode) {
                // Not there, or not allowed by a filter; the walk gives the true answer.
                Err(Errno::NOSYS | Errno::PERM | Errno::INVAL | Errno::TOOBIG) => {}
                done => return done,
            }
        }
        walk(dir, path, flags, mode)
    }
}

#[cfg(target_os = "linux")]
fn openat2(dir: BorrowedFd<'_>, path: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd> {
    use rustix::fs::ResolveFlags as Resolve;
    // A mount can show any other directory under a root; one that is wanted can be a root of its own.
    let resolve = Resolve::BENEATH | Resolve::NO_MAGICLINKS | Resolve::NO_SYMLINKS | Resolve::NO_XDEV;
    let mut tries = 0;
    loop {
        // `AGAIN`: something was renamed meanwhile and the kernel couldn't vouch for the result.
        match rustix::fs::openat2(dir, path, flags - OFlags::NOFOLLOW, mode, resolve) {
            Err(Errno::AGAIN | Errno::INTR) if tries < 64 => tries += 1,
            done => return done,
        }
    }
}

fn walk(dir: BorrowedFd<'_>, path: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd> {
    let through = THROUGH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let mut here: Option<OwnedFd> = None;
    let mut names = path.iter().peekable();
    while let Some(name) = names.next() {
        let at = here.as_ref().map_or(dir, AsFd::as_fd);
        let flags = if names.peek().is_some() { through } else { flags };
        let next = step(at, name, flags, mode)?;
        here = Some(next);
    }
    here.ok_or(Errno::NOENT)
}

fn step(dir: BorrowedFd<'_>, name: &OsStr, flags: OFlags, mode: Mode) -> Result<OwnedFd> {
    let next = match openat(dir, name, flags, mode) {
        // Systems disagree on the answer for a link that must not be followed.
        Err(Errno::NOTDIR | Errno::MLINK) if rustix::fs::readlinkat(dir, name, Vec::new()).is_ok() => {
            return Err(Errno::LOOP);
        }
        done => done?,
    };
    if mount(dir)? != mount(next.as_fd())? {
        return Err(Errno::XDEV);
    }
    Ok(next)
}

/// What tells mounts apart: the mount's number where the kernel gives it, otherwise the device.
fn mount(fd: BorrowedFd<'_>) -> Result<(bool, u64)> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{AtFlags, StatxFlags};
        if let Ok(facts) = rustix::fs::statx(fd, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)
            && facts.stx_mask & StatxFlags::MNT_ID.bits() != 0
        {
            return Ok((true, facts.stx_mnt_id));
        }
    }
    #[allow(clippy::cast_sign_loss, clippy::unnecessary_cast, clippy::cast_lossless)]
    rustix::fs::fstat(fd).map(|facts| (false, facts.st_dev as u64))
}
