//! Files of our own: written whole or not at all, for the user alone, and changed by one process at a time.

use std::fs::{DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How often a lock is asked for again.
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// Writes a file beside its place, makes it durable, and moves it there; folders are made. A link is followed, so that a file
/// kept elsewhere stays there, and the mode of a file that is there already is kept.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write(&std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()), bytes, true)
}

/// The same for a file in a folder of ours: a link there is replaced, and what it leads to stays as it is. Without
/// `durable` it is so only when the file system is made so.
pub fn write_own(path: &Path, bytes: &[u8], durable: bool) -> io::Result<()> {
    write(path, bytes, durable)
}

fn write(path: &Path, bytes: &[u8], durable: bool) -> io::Result<()> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let folder = path.parent().unwrap_or(Path::new("."));
    make_private(folder)?;
    let mut temp = path.as_os_str().to_owned();
    temp.push(format!(".{}-{}.tmp", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed)));
    let temp = PathBuf::from(temp);
    let write = || {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temp)?;
        if let Some(known) = std::fs::symlink_metadata(path).ok().filter(std::fs::Metadata::is_file) {
            file.set_permissions(known.permissions())?;
        }
        file.write_all(bytes)?;
        if !durable {
            return std::fs::rename(&temp, path);
        }
        file.sync_all()?;
        std::fs::rename(&temp, path)?;
        File::open(folder)?.sync_all()
    };
    write().inspect_err(|_| drop(std::fs::remove_file(&temp)))
}

/// Makes durable everything that was written on the disk of this folder: one wait for many files.
pub(crate) fn sync_disk(folder: &Path) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::fs::syncfs(File::open(folder)?)?;
    #[cfg(not(target_os = "linux"))]
    {
        let _ = folder;
        rustix::fs::sync();
    }
    Ok(())
}

/// Keeps other processes out until the result is dropped. `path` is a file that exists for this only; its folder is made.
/// Fails with `WouldBlock` if another one keeps us out for longer than `timeout`.
pub fn lock(path: &Path, timeout: Duration) -> io::Result<File> {
    make_private(path.parent().unwrap_or(Path::new(".")))?;
    let file = open_own(OpenOptions::new().write(true), path)?;
    let until = Instant::now() + timeout;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if Instant::now() < until => std::thread::sleep(LOCK_PAUSE),
            Err(TryLockError::WouldBlock) => {
                return Err(io::Error::new(io::ErrorKind::WouldBlock, "another process has been at it for too long"));
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

/// Opens a file at a place that the user has named, made if it is not there; for the user alone, also if it was there for others.
pub fn open_private(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let file = options.create(true).mode(0o600).open(path)?;
    // A pipe or a terminal stays as it is.
    if file.metadata()?.is_file() {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    Ok(file)
}

/// Opens a file of our own, made if it is not there. A link is refused: what it leads to is not ours.
pub(crate) fn open_own(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let file = options.create(true).mode(0o600).custom_flags(flags.bits().cast_signed()).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(not_ours("file", io::ErrorKind::InvalidInput)) }
}

/// Opens a file of our own to read it. What is no plain file is refused: a FIFO would be waited for.
pub(crate) fn open_to_read(path: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(not_ours("file", io::ErrorKind::InvalidInput)) }
}

/// The content of a file of our own.
pub(crate) fn read_own(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_to_read(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A folder of our own, made if it is not there. A link is refused (`NotADirectory`): in what it leads to nothing may be changed, let alone tidied up.
pub(crate) fn own_folder(path: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => Ok(()),
        Ok(_) => Err(not_ours("folder", io::ErrorKind::NotADirectory)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => make_private(path),
        Err(error) => Err(error),
    }
}

fn not_ours(what: &str, kind: io::ErrorKind) -> io::Error {
    io::Error::new(kind, format!("it is no {what} of Tieline's own but a link or something else; move it away"))
}

/// Makes a folder that only the user can look into, and those above it that are missing.
pub(crate) fn make_private(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_written_whole_through_links_and_keeps_its_mode() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("a/b"), dir.path().join("link"));
        write_whole(&file, b"one").unwrap();
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        write_whole(&link, b"two").unwrap();
        assert!(link.is_symlink());
        assert_eq!(std::fs::read(&file).unwrap(), b"two");
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(std::fs::read_dir(file.parent().unwrap()).unwrap().count(), 1, "nothing is left beside it");
        assert!(write_whole(&file.join("below"), b"").is_err());
    }

    #[test]
    fn a_lock_keeps_others_out_until_it_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x/lock");
        let held = lock(&path, Duration::ZERO).unwrap();
        assert_eq!(lock(&path, Duration::ZERO).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(held);
        lock(&path, Duration::ZERO).unwrap();
    }
}
