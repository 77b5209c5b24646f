//! The file system as a command sees it: read-only but for its own places, and without what is hidden.

use super::wire::Setup;
use super::{confine, secrets};
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, open, openat2};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount, mount_change, mount_remount, move_mount,
    open_tree,
};
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// What stands at a path.
enum Place {
    /// Nothing: it is hidden.
    Nothing,
    /// The devices that everybody needs.
    Devices(Vec<(&'static str, OwnedFd)>),
    /// What was there before, or somewhere else.
    Tree(OwnedFd),
    /// The same as before, if it is still there, to be made read-only.
    Guarded(OwnedFd),
}

/// The sockets of others, to be hidden. To be asked before the network namespace is left, which has the list.
pub(super) fn sockets(setup: &Setup) -> Vec<PathBuf> {
    let mut sockets = secrets::sockets();
    sockets.retain(|path| !setup.show.contains(path) && !setup.writable().any(|place| path.starts_with(&place.path)));
    sockets
}

/// How to take what is mounted somewhere, with all below it.
const CLONE: OpenTreeFlags = OpenTreeFlags::OPEN_TREE_CLONE
    .union(OpenTreeFlags::OPEN_TREE_CLOEXEC)
    .union(OpenTreeFlags::AT_EMPTY_PATH)
    .union(OpenTreeFlags::AT_RECURSIVE);

/// How often a name is looked at that goes away under our hands.
const TRIES: u32 = 16;

/// Builds it, in a mount namespace of our own.
pub(super) fn build(setup: &Setup, sockets: Vec<PathBuf>) -> io::Result<()> {
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).map_err(at("/"))?;
    // Everything is taken from the file system as it is, then put into the new one from the top down.
    let null = tree(open_path(Path::new("/dev/null"))?, "/dev/null")?;
    let mut places: Vec<(PathBuf, Place)> = Vec::new();
    let mut read_only: Vec<PathBuf> = Vec::new();
    let mut writable: Vec<PathBuf> = vec!["/dev/shm".into(), "/dev/pts".into()];
    for path in setup.hide.iter().chain(&sockets) {
        places.push((path.clone(), Place::Nothing));
        read_only.push(path.clone());
    }
    for root in setup.roots.iter().chain(&setup.caches) {
        places.push((root.path.clone(), Place::Tree(tree(confine::held(root)?, &root.path)?)));
    }
    writable.extend(setup.writable().map(|place| place.path.clone()));
    for path in &setup.show {
        places.push((path.clone(), Place::Tree(tree(open_path(path)?, path)?)));
        read_only.push(path.clone());
    }
    for path in &setup.protect {
        if let Some(tree) = while_there(path, |handle| open_tree(handle, c"", CLONE))? {
            places.push((path.clone(), Place::Guarded(tree)));
            read_only.push(path.clone());
        }
    }
    let mut devices = Vec::new();
    for name in confine::DEVICES {
        let path = Path::new("/dev").join(name);
        if let Ok(device) = open_path(&path) {
            devices.push((*name, tree(device, &path)?));
        }
    }
    places.push(("/dev".into(), Place::Devices(devices)));
    for folder in setup.temps() {
        places.push((folder.clone(), Place::Tree(tree(open_path(&setup.temp)?, &setup.temp)?)));
        writable.push(folder);
    }
    // The order is kept where the depth is the same, so that a root wins over a place that is hidden.
    places.sort_by_key(|(path, _)| path.components().count());
    for (path, place) in &places {
        put(path, place, &null).map_err(at(path))?;
    }
    lock(&writable, &read_only)
}

fn put(path: &Path, place: &Place, null: &OwnedFd) -> io::Result<()> {
    match place {
        Place::Nothing => match fs::symlink_metadata(path) {
            Ok(facts) if facts.is_dir() => empty(path, "mode=755,size=1m"),
            // Each is a mount of its own.
            Ok(_) => join(&tree(null, path)?, path),
            // Who could not see it before can't now.
            Err(_) => Ok(()),
        },
        Place::Devices(devices) => {
            empty(path, "mode=755,size=1m")?;
            for (name, device) in devices {
                fs::File::create(path.join(name))?;
                join(device, &path.join(name))?;
            }
            for (name, to) in [("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")] {
                std::os::unix::fs::symlink(format!("/proc/self/fd{to}"), path.join(name))?;
            }
            std::os::unix::fs::symlink("pts/ptmx", path.join("ptmx"))?;
            fs::create_dir(path.join("shm"))?;
            empty(&path.join("shm"), "mode=1777")?;
            fs::create_dir(path.join("pts"))?;
            let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
            Ok(mount("devpts", path.join("pts"), "devpts", flags, c"newinstance,ptmxmode=0666,mode=620")?)
        }
        Place::Tree(tree) => {
            if !path.exists() {
                // Something around it is hidden, or private.
                if let Some(parent) = path.parent() {
                    fs::create_dir_all(parent)?;
                }
                if FileType::from_raw_mode(fstat(tree)?.st_mode).is_dir() {
                    fs::create_dir(path)?;
                } else {
                    fs::File::create(path)?;
                }
            }
            join(tree, path)
        }
        Place::Guarded(tree) => {
            let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
            while_there(path, |target| move_mount(tree, c"", target, c"", flags)).map(|_| ())
        }
    }
}

/// Does something with what this name is; nothing if that is gone. If it goes in between, the name is looked at again:
/// something else may be there by now.
fn while_there<T>(path: &Path, mut work: impl FnMut(&OwnedFd) -> Result<T, Errno>) -> io::Result<Option<T>> {
    for _ in 0..TRIES {
        let Some(handle) = there(path)? else { return Ok(None) };
        match work(&handle) {
            Err(Errno::NOENT) => {}
            done => return done.map(Some).map_err(at(path)),
        }
    }
    Err(io::Error::other(format!("`{}` changes all the time", crate::roots::shown(path))))
}

/// A handle on just what this name is, or nothing if that is gone. Another program may put a link there at any moment; what
/// it leads to must neither be shown nor taken for what is protected.
fn there(path: &Path) -> io::Result<Option<OwnedFd>> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        Ok(handle) if FileType::from_raw_mode(fstat(&handle)?.st_mode).is_symlink() => Err(at(path)(Errno::LOOP)),
        Ok(handle) => Ok(Some(handle)),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(error) => Err(at(path)(error)),
    }
}

/// A new, empty folder over another one.
fn empty(path: &Path, options: &str) -> io::Result<()> {
    let options = std::ffi::CString::new(options)?;
    Ok(mount("tmpfs", path, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, &*options)?)
}

fn open_path(path: &Path) -> io::Result<OwnedFd> {
    open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map_err(at(path))
}

/// A copy of what is mounted at and below a handle, which belongs nowhere yet.
fn tree(handle: impl AsFd, name: impl AsRef<Path>) -> io::Result<OwnedFd> {
    open_tree(handle, c"", CLONE).map_err(at(name.as_ref()))
}

fn join(tree: &OwnedFd, path: &Path) -> io::Result<()> {
    Ok(move_mount(tree, c"", CWD, path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?)
}

/// Makes every mount read-only that is not in a writable place.
fn lock(writable: &[PathBuf], read_only: &[PathBuf]) -> io::Result<()> {
    let table = fs::read("/proc/self/mountinfo")?;
    for line in table.split(|byte| *byte == b'\n') {
        let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        let (Some(path), Some(options)) = (fields.get(4), fields.get(5)) else { continue };
        let path = unescape(path);
        // The closest place around it decides.
        let closest = |places: &[PathBuf]| {
            let around = places.iter().filter(|place| path.starts_with(place));
            around.map(|place| place.components().count()).max()
        };
        if closest(writable) > closest(read_only) {
            continue;
        }
        let flags = options.split(|byte| *byte == b',').fold(MountFlags::BIND | MountFlags::RDONLY, |all, option| {
            all | match option {
                b"nosuid" => MountFlags::NOSUID,
                b"nodev" => MountFlags::NODEV,
                b"noexec" => MountFlags::NOEXEC,
                b"noatime" => MountFlags::NOATIME,
                b"nodiratime" => MountFlags::NODIRATIME,
                b"relatime" => MountFlags::RELATIME,
                b"nosymfollow" => MountFlags::NOSYMFOLLOW,
                _ => MountFlags::empty(),
            }
        });
        match mount_remount(&path, flags, c"") {
            // Some lie under another one, or where nobody can go.
            Ok(()) | Err(Errno::NOENT | Errno::ACCESS | Errno::INVAL | Errno::NOTDIR) => {}
            Err(error) => return Err(at(&path)(error)),
        }
    }
    Ok(())
}

/// Blanks and the like are written as octal numbers.
fn unescape(bytes: &[u8]) -> PathBuf {
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((byte, tail)) = rest.split_first() {
        rest = tail;
        let code = tail.get(..3).and_then(|code| std::str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 8).ok()) {
            Some(code) if *byte == b'\\' => {
                out.push(code);
                rest = &tail[3..];
            }
            _ => out.push(*byte),
        }
    }
    std::ffi::OsString::from_vec(out).into()
}

/// The processes of the new namespace in place of all of them. False if that is not to be had, as in some containers.
pub(super) fn own_processes() -> bool {
    let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("proc", "/proc", "proc", flags, None).is_ok()
}

fn at<E: Into<io::Error>>(path: impl AsRef<Path>) -> impl FnOnce(E) -> io::Error {
    move |error| {
        let error = error.into();
        let path = String::from_utf8_lossy(path.as_ref().as_os_str().as_bytes()).into_owned();
        io::Error::new(error.kind(), format!("`{path}`: {error}"))
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn odd_paths_in_the_table_are_read() {
        let check = |text: &str, expect: &str| assert_eq!(super::unescape(text.as_bytes()).to_str(), Some(expect));
        check("/plain", "/plain");
        check("/a\\040b\\134c", "/a b\\c");
        check("/end\\04", "/end\\04");
    }
}
