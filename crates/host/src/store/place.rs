//! Where the store lives, who may read it, and how its folder and file come to be.

use super::{Error, Result};
use crate::whole;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// The file name of the store.
const FILE: &str = "store.db";

/// `$XDG_STATE_HOME/tieline/store.db`, or `~/.local/state/tieline/store.db`.
pub(super) fn default_path(env: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf> {
    // A relative path counts as not set; so the base directory specification says.
    let absolute = |name: &str| env(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/state")))
        .ok_or(Error::NoHome)?;
    Ok(state.join("tieline").join(FILE))
}

/// Makes folder and file, for the user alone. The lock that comes back keeps other processes from doing the same; drop it
/// when the file has its layout.
///
/// A file that exists is never opened here: closing it would drop the locks that this process has on it.
pub(super) fn prepare(path: &Path) -> Result<File> {
    let failed = |error: std::io::Error| Error::open(path, error);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    make_folder(folder).map_err(failed)?;
    if is_network(folder) {
        return Err(Error::Network(path.to_owned()));
    }
    let lock = lock(path)?;
    match make_file(path) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::AlreadyExists => narrow(path),
        Err(error) => return Err(failed(error)),
    }
    Ok(lock)
}

/// True for a file that is there and can't be written, or whose folder, log or lock can't.
pub(super) fn is_read_only(path: &Path) -> bool {
    let refused = |path: &Path| rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_err();
    let beside = ["-wal", "-shm", ".lock"].map(|end| beside(path, end));
    let is_refused_beside = beside.iter().any(|path| path.exists() && refused(path));
    path.is_file() && (refused(path) || path.parent().is_some_and(refused) || is_refused_beside)
}

/// Where a link leads: that is where `SQLite` keeps the log, too.
pub(super) fn real(path: &Path) -> PathBuf {
    let link = Some(path).filter(|path| path.is_symlink());
    link.and_then(|link| fs::canonicalize(link).ok()).unwrap_or_else(|| path.to_owned())
}

/// Keeps other processes from making or changing the file until it is dropped.
pub(super) fn lock(path: &Path) -> Result<File> {
    whole::lock(&beside(path, ".lock"), super::schema::LOCK_TIMEOUT).map_err(|error| Error::open(path, error))
}

/// A new, empty file that only the user may read.
pub(super) fn make_file(path: &Path) -> std::io::Result<()> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map(drop)
}

/// The same path with something behind its name.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Takes rights of others away from our own folder, which may come from an older day or a careless copy.
pub(super) fn narrow_folder(path: &Path) {
    if let Some(folder) = path.parent() {
        narrow(folder);
    }
}

fn make_folder(folder: &Path) -> std::io::Result<()> {
    let known = folder.ancestors().find(|above| above.exists()).unwrap_or(folder);
    whole::make_private(folder)?;
    // A new folder is only there for good when the one above it is on the disk. Some can't be opened; that must do.
    for above in folder.ancestors().skip(1).take_while(|above| above.starts_with(known)) {
        let _ = File::open(above).and_then(|above| above.sync_all());
    }
    Ok(())
}

/// Takes the rights of others away.
fn narrow(path: &Path) {
    let Ok(known) = fs::metadata(path) else { return };
    let mode = known.permissions().mode();
    if mode & 0o077 != 0 {
        // Whoever is not the owner can't, and need not.
        let _ = fs::set_permissions(path, fs::Permissions::from_mode(mode & 0o7700));
    }
}

/// True for NFS and the file systems of Windows servers.
#[cfg(target_os = "linux")]
fn is_network(folder: &Path) -> bool {
    const KINDS: [u64; 4] = [0x6969, 0xff53_4d42, 0xfe53_4d42, 0x517b];
    #[allow(clippy::cast_sign_loss, clippy::unnecessary_cast, clippy::useless_conversion)]
    rustix::fs::statfs(folder).is_ok_and(|found| KINDS.contains(&(found.f_type as u64 & 0xffff_ffff)))
}

#[cfg(not(target_os = "linux"))]
fn is_network(_: &Path) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_path() {
        for (state, home, want) in [
            (Some("/s"), Some("/h"), Ok("/s/tieline/store.db")),
            (None, Some("/h"), Ok("/h/.local/state/tieline/store.db")),
            (Some("relative"), Some("/h"), Ok("/h/.local/state/tieline/store.db")),
            (Some(""), Some("/h"), Ok("/h/.local/state/tieline/store.db")),
            (None, None, Err(Error::NoHome)),
            (None, Some(""), Err(Error::NoHome)),
        ] {
            let env = |name: &str| if name == "HOME" { home } else { state }.map(OsString::from);
            assert_eq!(default_path(env), want.map(PathBuf::from), "{state:?} {home:?}");
        }
        assert!(Error::NoHome.to_string().contains("HOME"));
    }
}
