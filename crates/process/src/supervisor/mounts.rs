//! The file system as a command sees it: read-only but for its own places, and without what is hidden.

use super::confine;
use crate::setup::Sandbox;
use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, ResolveFlags, fstat, open, openat, openat2, readlinkat};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount, mount_change, mount_remount, move_mount,
    open_tree,
};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// What stands at a path.
enum Place {
    /// Nothing: it is hidden.
    Nothing,
    /// Nothing but the way to what is below it.
    Way,
    /// What is in this folder, but for what is hidden and what comes later. A mask on a name falls off when the name comes to mean
    /// something else; here the folder itself is ours.
    Walled(OwnedFd),
    /// The devices that everybody needs.
    Devices(Vec<(&'static str, OwnedFd)>),
    /// What was there before, or somewhere else.
    Tree(OwnedFd),
    /// The same as before, but nobody can give it another name.
    Pinned,
    /// The same as before, but read-only.
    Guarded,
}

/// The sockets of others, to be hidden. To be asked before the network namespace is left, which has the list.
pub(super) fn sockets(sandbox: &Sandbox) -> Vec<PathBuf> {
    // As the kernel lists them: by the names that they were bound to, from where the process was then.
    let table = fs::read("/proc/net/unix").unwrap_or_default();
    let names = table.split(|byte| *byte == b'\n').skip(1).filter_map(socket_name);
    let (absolute, relative): (BTreeSet<&Path>, BTreeSet<&Path>) = names.partition(|name| name.is_absolute());
    let mut folders: BTreeSet<PathBuf> =
        absolute.iter().filter_map(|name| name.parent()?.canonicalize().ok()).collect();
    if !relative.is_empty() {
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        let places: BTreeSet<PathBuf> =
            processes.filter_map(|process| fs::read_link(process.path().join("cwd")).ok()).collect();
        let all = places.iter().flat_map(|place| relative.iter().map(|name| place.join(name)));
        let there = all.filter(|name| fs::metadata(name).is_ok_and(|facts| facts.file_type().is_socket()));
        folders.extend(there.filter_map(|name| name.parent()?.canonicalize().ok()));
    }
    let own = |folder: &&PathBuf| sandbox.writable.iter().any(|place| folder.starts_with(&place.path));
    let folders = folders.iter().filter(|folder| sandbox.sees(folder) && !own(folder));
    // Whatever they are called by now.
    let entries = folders.flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten());
    let sockets = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_socket()));
    let mut sockets: Vec<PathBuf> = sockets.map(|entry| entry.path()).collect();
    sockets.retain(|path| !sandbox.show.contains(path));
    sockets
}

/// What follows the address of a socket, five numbers of fixed width, and the one of its inode. Not one without a file.
fn socket_name(line: &[u8]) -> Option<&Path> {
    let numbers = line.iter().position(|byte| *byte == b':')? + " 00000000 00000000 00000000 0000 00 ".len();
    let inode = line.get(numbers + 1..)?.trim_ascii_start();
    let name = inode.get(inode.iter().position(|byte| *byte == b' ')? + 1..)?;
    (!name.starts_with(b"@")).then(|| Path::new(OsStr::from_bytes(name)))
}

/// How to take what is mounted somewhere, with all below it.
const CLONE: OpenTreeFlags = OpenTreeFlags::OPEN_TREE_CLONE
    .union(OpenTreeFlags::OPEN_TREE_CLOEXEC)
    .union(OpenTreeFlags::AT_EMPTY_PATH)
    .union(OpenTreeFlags::AT_RECURSIVE);

/// How often a name is looked at that goes away under our hands.
const MAX_MOUNT_TRIES: u32 = 16;

/// A folder with more entries gets no walls: each is a mount.
const MAX_WALLED: usize = 2000;

/// Builds it, in a mount namespace of our own.
pub(super) fn build(sandbox: &Sandbox, sockets: &[PathBuf]) -> io::Result<()> {
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).map_err(at("/"))?;
    // Everything is taken from the file system as it is, then put into the new one from the top down. What stays writable is
    // taken first; all the rest is made read-only, and so is each copy of it.
    let mut places: Vec<(PathBuf, Place)> = Vec::new();
    let mut free: Vec<(PathBuf, Place)> = Vec::new();
    for place in &sandbox.writable {
        free.push((place.path.clone(), Place::Tree(tree(confine::held(place)?, &place.path)?)));
    }
    if let Some(temp) = &sandbox.temp {
        for folder in sandbox.temps() {
            free.push((folder, Place::Tree(tree(confine::held(temp)?, &temp.path)?)));
        }
    }
    lock()?;
    let null = tree(open_path(Path::new("/dev/null"))?, "/dev/null")?;
    let walls = Walls::new(sandbox, sockets);
    for path in sandbox.hide.iter().chain(sockets).filter(|path| !walls.around(path)) {
        places.push((path.clone(), Place::Nothing));
    }
    for path in &walls.folders {
        places.push((path.clone(), Place::Walled(open_path(path)?)));
    }
    for place in &sandbox.readable {
        places.push((place.path.clone(), Place::Tree(tree(confine::held(place)?, &place.path)?)));
    }
    for path in sandbox.show.iter().filter(|path| !walls.folders.contains(*path)) {
        places.push((path.clone(), Place::Tree(tree(open_path(path)?, path)?)));
    }
    places.extend(sandbox.pin.iter().map(|path| (path.clone(), Place::Pinned)));
    places.extend(sandbox.protect.iter().map(|path| (path.clone(), Place::Guarded)));
    let mut devices = Vec::new();
    for name in confine::DEVICES {
        let path = Path::new("/dev").join(name);
        if let Ok(device) = open_path(&path) {
            devices.push((*name, tree(device, &path)?));
        }
    }
    places.push(("/dev".into(), Place::Devices(devices)));
    places.extend(free);
    // What is written beside a root that lies below a private folder would be lost: that fails, as it does beside any root.
    let temps = sandbox.temps();
    for root in sandbox.places() {
        let temp = temps.iter().filter(|temp| root.path.starts_with(temp)).max_by_key(|temp| temp.components().count());
        let way = temp.and_then(|temp| Some(temp.join(root.path.strip_prefix(temp).ok()?.components().next()?)));
        if let Some(way) = way.filter(|way| places.iter().all(|(path, _)| path != way)) {
            places.push((way, Place::Way));
        }
    }
    // The order is kept where the depth is the same, so that a root wins over a place that is hidden.
    places.sort_by_key(|(path, _)| path.components().count());
    let below: Vec<(PathBuf, OwnedFd)> =
        sandbox.places().map(|place| Ok((place.path.clone(), confine::held(place)?))).collect::<io::Result<_>>()?;
    let mut new = New { null, walls: &walls, below, ours: Vec::new() };
    for (path, place) in &places {
        new.put(path, place).map_err(at(path))?;
    }
    for path in &new.ours {
        let flags = MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
        mount_remount(path, flags, c"").map_err(at(path))?;
    }
    Ok(())
}

/// Folders of which a command sees what is there when it starts, without what is hidden.
struct Walls<'a> {
    folders: BTreeSet<PathBuf>,
    hidden: BTreeSet<&'a Path>,
}

impl<'a> Walls<'a> {
    fn new(sandbox: &'a Sandbox, sockets: &'a [PathBuf]) -> Self {
        let hidden: BTreeSet<&Path> = sandbox.hide.iter().chain(sockets).map(PathBuf::as_path).collect();
        let temps = sandbox.temps();
        let mut folders: BTreeSet<PathBuf> = BTreeSet::new();
        for path in &hidden {
            let Some(folder) = path.parent().filter(|folder| !folders.contains(*folder)) else { continue };
            // There is too much in `/etc`, and only root can read what is hidden there.
            let system = folder == Path::new("/")
                || ["/dev", "/etc", "/proc", "/sys"].iter().any(|place| folder.starts_with(place));
            let ours = sandbox.places().map(|place| &place.path).chain(&temps).any(|place| folder.starts_with(place));
            // A folder that is there stays there, more or less.
            if system || ours || !sandbox.sees(folder) || path.is_dir() {
                continue;
            }
            if fs::read_dir(folder).is_ok_and(|entries| entries.take(MAX_WALLED + 1).count() <= MAX_WALLED) {
                folders.insert(folder.to_owned());
            }
        }
        Self { folders, hidden }
    }

    /// Whether a name is kept out by its folder.
    fn around(&self, path: &Path) -> bool {
        path.parent().is_some_and(|folder| self.folders.contains(folder))
    }
}

/// The new file system, as it grows.
struct New<'a> {
    null: OwnedFd,
    walls: &'a Walls<'a>,
    /// The roots in the old one, which is read-only by now.
    below: Vec<(PathBuf, OwnedFd)>,
    /// Made by us, to be closed in the end.
    ours: Vec<PathBuf>,
}

impl New<'_> {
    fn put(&mut self, path: &Path, place: &Place) -> io::Result<()> {
        match place {
            Place::Nothing => match fs::symlink_metadata(path) {
                Ok(facts) if facts.is_dir() => self.empty(path),
                // Each is a mount of its own.
                Ok(_) => join(&tree(&self.null, path)?, path),
                // Who could not see it before can't now.
                Err(_) => Ok(()),
            },
            Place::Way => {
                make_place(path, true)?;
                self.empty(path)
            }
            Place::Walled(real) => self.wall(path, real),
            Place::Devices(devices) => self.devices(path, devices),
            Place::Tree(tree) => {
                make_place(path, FileType::from_raw_mode(fstat(tree)?.st_mode).is_dir())?;
                join(tree, path)
            }
            Place::Pinned => while_there(path, |target| {
                let same = open_tree(target, c"", CLONE)?;
                move_mount(&same, c"", target, c"", ONTO)
            }),
            Place::Guarded => {
                let root = self.below.iter().filter(|(root, _)| path.starts_with(root));
                let root = root.max_by_key(|(root, _)| root.components().count());
                while_there(path, |target| {
                    let old = match root {
                        Some((root, handle)) => {
                            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                            let name = path.strip_prefix(root).unwrap_or(path);
                            openat2(handle, name, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?
                        }
                        None => return Ok(()),
                    };
                    let (old_facts, facts) = (fstat(&old)?, fstat(target)?);
                    if (old_facts.st_dev, old_facts.st_ino) != (facts.st_dev, facts.st_ino) {
                        return Err(Errno::NOENT);
                    }
                    move_mount(open_tree(&old, c"", CLONE)?, c"", target, c"", ONTO)
                })
            }
        }
    }

    /// A new, empty folder over another one.
    fn empty(&mut self, path: &Path) -> io::Result<()> {
        empty(path, c"mode=755,size=4m")?;
        self.ours.push(path.to_owned());
        Ok(())
    }

    fn wall(&mut self, path: &Path, real: &OwnedFd) -> io::Result<()> {
        make_place(path, true)?;
        // In a folder with walls around it, there is an empty one already.
        if !self.walls.around(path) {
            self.empty(path)?;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        for entry in Dir::new(openat(real, c".", flags, Mode::empty())?)? {
            let entry = entry?;
            let name = entry.file_name();
            let here = path.join(OsStr::from_bytes(name.to_bytes()));
            if matches!(name.to_bytes(), b"." | b"..") || self.walls.hidden.contains(&*here) {
                continue;
            }
            if self.walls.folders.contains(&here) {
                fs::create_dir(&here)?;
                continue;
            }
            if entry.file_type() == FileType::Symlink {
                if let Ok(to) = readlinkat(real, name, Vec::new()) {
                    std::os::unix::fs::symlink(OsStr::from_bytes(to.to_bytes()), &here)?;
                }
                continue;
            }
            // Otherwise it is gone, or was never ours to see.
            let flags = CLONE.difference(OpenTreeFlags::AT_EMPTY_PATH) | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
            let Ok(tree) = open_tree(real, name, flags) else { continue };
            let kind = FileType::from_raw_mode(fstat(&tree)?.st_mode);
            if kind.is_dir() || kind.is_file() {
                make_place(&here, kind.is_dir())?;
                join(&tree, &here)?;
            }
        }
        Ok(())
    }

    fn devices(&mut self, path: &Path, devices: &[(&'static str, OwnedFd)]) -> io::Result<()> {
        self.empty(path)?;
        for (name, device) in devices {
            fs::File::create(path.join(name))?;
            join(device, &path.join(name))?;
        }
        for (name, to) in [("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")] {
            std::os::unix::fs::symlink(format!("/proc/self/fd{to}"), path.join(name))?;
        }
        std::os::unix::fs::symlink("pts/ptmx", path.join("ptmx"))?;
        fs::create_dir(path.join("shm"))?;
        // It is memory, too.
        empty(&path.join("shm"), c"mode=1777,size=25%")?;
        fs::create_dir(path.join("pts"))?;
        let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
        Ok(mount("devpts", path.join("pts"), "devpts", flags, c"newinstance,ptmxmode=0666,mode=620")?)
    }
}

/// Something to mount on. It is not there if what is around it is hidden, or private.
fn make_place(path: &Path, folder: bool) -> io::Result<()> {
    let make = || if folder { fs::create_dir(path) } else { fs::File::create_new(path).map(drop) };
    match (make(), path.parent()) {
        (Err(error), Some(parent)) if error.kind() == io::ErrorKind::NotFound => {
            fs::create_dir_all(parent)?;
            make()
        }
        // A file system that can't be written to says so first.
        (Err(_), _) if path.exists() => Ok(()),
        (done, _) => done,
    }
}

/// How to put a copy onto a handle.
const ONTO: MoveMountFlags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH.union(MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH);

/// Does something with what this name is. If it goes in between, the name is looked at again: something else may be there by now.
/// If it is gone, what was to be held may be somewhere else, and all has to be looked at anew.
fn while_there(path: &Path, mut work: impl FnMut(&OwnedFd) -> Result<(), Errno>) -> io::Result<()> {
    for _ in 0..MAX_MOUNT_TRIES {
        let Some(handle) = there(path)? else { return Err(Errno::STALE.into()) };
        match work(&handle) {
            Err(Errno::NOENT) => {}
            done => return Ok(done?),
        }
    }
    Err(Errno::STALE.into())
}

/// A handle on just what this name is, or nothing if that is gone. Another program may put a link there at any moment; what
/// it leads to must neither be shown nor taken for what is protected.
fn there(path: &Path) -> io::Result<Option<OwnedFd>> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        Ok(handle) if FileType::from_raw_mode(fstat(&handle)?.st_mode).is_symlink() => Err(Errno::LOOP.into()),
        Ok(handle) => Ok(Some(handle)),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn empty(path: &Path, options: &std::ffi::CStr) -> io::Result<()> {
    Ok(mount("tmpfs", path, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, options)?)
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

/// Makes every mount read-only.
fn lock() -> io::Result<()> {
    let table = fs::read("/proc/self/mountinfo")?;
    for line in table.split(|byte| *byte == b'\n') {
        let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        let (Some(path), Some(options)) = (fields.get(4), fields.get(5)) else { continue };
        let path = unescape(path);
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
        match error.raw_os_error() {
            // The owner looks again, so it has to be told apart.
            Some(number) if number == Errno::STALE.raw_os_error() => error,
            _ => io::Error::new(error.kind(), format!("`{path}`: {error}")),
        }
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

    #[test]
    fn names_of_sockets_are_read_from_the_table() {
        let check = |rest: &str, expect: Option<&str>| {
            let line = format!("0000000072627dfe: 00000003 00000000 00000000 0001 03 {rest}");
            assert_eq!(super::socket_name(line.as_bytes()).and_then(|name| name.to_str()), expect, "{rest}");
        };
        check("60245", None);
        check("60245 /run/a b", Some("/run/a b"));
        check("   12 ./x", Some("./x"));
        check("123456789  x", Some(" x"));
        check("60245 @abstract", None);
    }
}
