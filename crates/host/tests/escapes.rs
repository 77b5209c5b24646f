//! Tries to get out of the workspace, by every road we know of, reading and writing.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "common/ways_out.rs"]
mod ways_out;

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs,
    os::unix::{
        ffi::OsStrExt as _,
        fs::{FileTypeExt as _, symlink},
        io::AsRawFd as _,
        net::UnixListener,
    },
    path::{Path, PathBuf},
};
use tieline_host::{
    files::{Expect, Files, Write},
    roots::{Error, Options, Place, Roots},
};

const SECRET: &[u8] = b"SECRET";
const BOTH: [Options; 2] = [Options { portable: false }, Options { portable: true }];

struct World {
    _dir: tempfile::TempDir,
    top: PathBuf,
    _open: fs::File,
    _socket: UnixListener,
    magic: String,
}

/// What must come of an attempt.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Outside,
    BadPath,
    NotRegular,
    NotDirectory,
    /// The name means nothing special: whatever happens, happens in the workspace.
    Inside,
}
use Fate::{BadPath, Inside, NotDirectory, NotRegular, Outside};

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        for made in ["root/sub/deep", "root-evil", "extra", "outside/dir"] {
            fs::create_dir_all(top.join(made)).unwrap();
        }
        for secret in ["outside/secret", "outside/dir/secret", "root-evil/secret", "secret"] {
            fs::write(top.join(secret), SECRET).unwrap();
        }
        for (file, text) in [("root/file", "fine"), ("root/sub/deep/file", "fine"), ("extra/file", "fine")] {
            fs::write(top.join(file), text).unwrap();
        }
        let open = fs::File::open(top.join("outside/secret")).unwrap();
        let fd = open.as_raw_fd();
        let magic = format!("/proc/{}/fd/{fd}", std::process::id());
        ways_out::make(&top.join("root"), fd);
        symlink("file", top.join("root/many60")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, top.join("root/fifo"), rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
        let socket = UnixListener::bind(top.join("root/socket")).unwrap();
        Self { _dir: dir, top, _open: open, _socket: socket, magic }
    }

    fn roots(&self, options: Options) -> Roots {
        Roots::with(self.top.join("root"), [self.top.join("extra")], options).unwrap()
    }

    /// Everything that is not in the workspace.
    fn others(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = BTreeMap::new();
        let mut todo: Vec<_> = ["outside", "root-evil"].map(|dir| self.top.join(dir)).into();
        while let Some(dir) = todo.pop() {
            found.insert(dir.clone(), Vec::new());
            for entry in fs::read_dir(&dir).unwrap() {
                let entry = entry.unwrap();
                if entry.file_type().unwrap().is_dir() {
                    todo.push(entry.path());
                } else {
                    found.insert(entry.path(), fs::read(entry.path()).unwrap());
                }
            }
        }
        let names: Vec<_> = fs::read_dir(&self.top).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names.len(), 5, "{names:?}");
        found.insert(self.top.join("secret"), fs::read(self.top.join("secret")).unwrap());
        found
    }

    fn attempts(&self) -> Vec<(&'static str, Vec<u8>, Fate)> {
        let top = self.top.to_str().unwrap();
        let abs = |path: &str| format!("{top}/{path}").into_bytes();
        let rel = |path: &str| path.as_bytes().to_vec();
        vec![
            ("dot-dot", rel("../outside/secret"), Outside),
            ("dot, then dot-dot", rel("./../outside/secret"), Outside),
            ("down and up again", rel("sub/../../outside/secret"), Outside),
            ("with dots in between", rel("sub/./.././../outside/secret"), Outside),
            ("up beyond the top of the system", rel("../../../../../../../../../../../../etc/passwd"), Outside),
            ("dot-dot alone", rel(".."), Outside),
            ("a file beside the root", rel("../secret"), Outside),
            ("whole path of another directory", abs("outside/secret"), Outside),
            ("whole path through the root and up", abs("root/../outside/secret"), Outside),
            ("whole path, deeper and up", abs("root/sub/../../outside/secret"), Outside),
            ("a name that begins like the root", abs("root-evil/secret"), Outside),
            ("the same, relative", rel("../root-evil/secret"), Outside),
            ("out of the second root", abs("extra/../outside/secret"), Outside),
            ("two slashes", format!("/{top}/outside/secret").into_bytes(), Outside),
            ("a system file", rel("/etc/passwd"), Outside),
            ("the top of the system", rel("/"), Outside),
            ("magic link to the top", format!("/proc/self/root{top}/outside/secret").into_bytes(), Outside),
            ("magic link to an open file", rel(&self.magic), Outside),
            ("link, whole path to a file", rel("abs-file"), Outside),
            ("link, whole path to a directory", rel("abs-dir/secret"), Outside),
            ("link, relative to a file", rel("rel-file"), Outside),
            ("link, relative to a directory", rel("rel-dir/secret"), Outside),
            ("link to a directory, deeper", rel("rel-dir/dir/secret"), Outside),
            ("link with a messy target", rel("messy"), Outside),
            ("three links in a row", rel("chain1"), Outside),
            ("links to a directory in a row", rel("hop1/secret"), Outside),
            ("link from deep down", rel("sub/deep/up/secret"), Outside),
            ("link to the parent", rel("up/outside/secret"), Outside),
            ("link to the parent, deeper", rel("sub/top/outside/secret"), Outside),
            ("link to the top of the system", rel("slash/etc/passwd"), Outside),
            ("the same, and back", format!("slash{top}/outside/secret").into_bytes(), Outside),
            ("link to nothing yet", rel("dangling"), Outside),
            ("link to nothing yet, whole path", rel("dangling-abs"), Outside),
            ("link to no directory yet", rel("dangling-dir/new"), Outside),
            ("link to a link to nothing", rel("dangling-chain"), Outside),
            ("link to a name that begins like the root", rel("prefix"), Outside),
            ("link through the root and up", rel("roundabout"), Outside),
            ("link into the second root and out of that", rel("through-extra"), Outside),
            ("link out of the second root", abs("extra/way-out"), Outside),
            ("link to a magic link: top", format!("proc-root{top}/outside/secret").into_bytes(), Outside),
            ("link to a magic link: working directory", rel("proc-cwd/Cargo.toml"), Outside),
            ("link to a magic link: open file", rel("proc-fd"), Outside),
            ("link to a magic link: open file by process", rel("proc-pid-fd"), Outside),
            ("link to a magic link: /dev/fd", rel("dev-fd"), Outside),
            ("up from behind a link", rel("inlink/../../../outside/secret"), Outside),
            ("whole path, up from behind a link", abs("root/inlink/../../../outside/secret"), Outside),
            ("link to itself", rel("self"), BadPath),
            ("two links in a circle", rel("loop1/secret"), BadPath),
            ("sixty links in a row", rel("many0"), BadPath),
            ("zero byte", rel("file\0/../../outside/secret"), BadPath),
            ("nothing", rel(""), BadPath),
            ("a name too long", "x".repeat(256).into_bytes(), BadPath),
            ("a file as a directory", rel("file/../../outside/secret"), NotDirectory),
            ("FIFO", rel("fifo"), NotRegular),
            ("socket", rel("socket"), NotRegular),
            ("wide dots", rel("\u{ff0e}\u{ff0e}/outside/secret"), Inside),
            ("dot leaders", rel("\u{2024}\u{2024}/outside/secret"), Inside),
            ("two-dot leader", rel("\u{2025}/outside/secret"), Inside),
            ("slashes that are none", rel("..\u{2215}outside\u{2215}secret"), Inside),
            ("wide slashes", rel("..\u{ff0f}outside\u{ff0f}secret"), Inside),
            ("invisible between the dots", rel(".\u{200b}./outside/secret"), Inside),
            ("direction change", rel("\u{202e}terces/edistuo/.."), Inside),
            ("combining dot", rel(".\u{307}/outside/secret"), Inside),
            ("percent signs", rel("%2e%2e/outside/secret"), Inside),
            ("backslashes", rel("..\\outside\\secret"), Inside),
            ("bytes that are no UTF-8", b"\xc0\xae\xc0\xae/outside/secret".to_vec(), Inside),
            ("dots and a space", rel(".. /outside/secret"), Inside),
            ("three dots", rel(".../outside/secret"), Inside),
            ("home", rel("~/../outside/secret"), Inside),
            ("variable", rel("$HOME/secret"), Inside),
            ("web address", format!("file://{top}/outside/secret").into_bytes(), Inside),
            ("a path too long", "d/".repeat(3000).into_bytes(), BadPath),
            ("a path of just the longest kind", ("d".repeat(254) + "/").repeat(16).into_bytes(), Inside),
        ]
    }
}

fn check_fate(what: &str, fate: Fate, error: &Error) {
    let right = match fate {
        Outside => matches!(error, Error::Outside { roots, .. } if roots.len() == 2),
        BadPath => matches!(error, Error::BadPath { .. }),
        NotRegular => matches!(error, Error::NotRegular { .. }),
        NotDirectory => matches!(error, Error::NotDirectory(_)),
        Inside => !matches!(error, Error::Outside { .. }),
    };
    assert!(right, "{what}: {fate:?}, but {error:?}");
    assert!(!error.to_string().is_empty());
}

/// Runs one operation and sees that it is refused as it should be, or stays inside.
fn attempt<T>(
    what: &str,
    fate: Fate,
    place: Result<Place, Error>,
    root: &Path,
    operation: impl FnOnce(&Place) -> Result<T, Error>,
) -> Option<T> {
    if let Ok(place) = &place {
        assert!(place.real_path().starts_with(root), "{what}: {place:?}");
    }
    match place.and_then(|place| operation(&place)) {
        Ok(done) => {
            assert!(matches!(fate, Inside), "{what}: should have been refused ({fate:?})");
            Some(done)
        }
        Err(error) => {
            check_fate(what, fate, &error);
            None
        }
    }
}

#[test]
fn no_road_leads_out() {
    for options in BOTH {
        let world = World::new();
        let files = Files::new(world.roots(options));
        let before = world.others();
        let attempts = world.attempts();
        assert!(attempts.len() >= 60, "{}", attempts.len());
        let root = world.top.join("root");
        for (what, path, fate) in &attempts {
            let path = Path::new(OsStr::from_bytes(path));
            let find = || files.roots().resolve(path);
            if let Some(read) = attempt(what, *fate, find(), &root, |place| files.read_bytes(place)) {
                assert_ne!(read.bytes, SECRET, "{what}");
            }
            if let Some(read) = attempt(what, *fate, find(), &root, |place| files.read_text(place)) {
                assert_ne!(read.text.as_bytes(), SECRET, "{what}");
            }
            let write = Write::expecting(Expect::Any).with_parents();
            attempt(what, *fate, find(), &root, |place| files.write(place, b"written", &write));
            assert_eq!(world.others(), before, "{what}: write");
        }
        // Nothing of the rest may touch the outside either, whatever it says.
        for (what, path, _) in &attempts {
            let path = Path::new(OsStr::from_bytes(path));
            let stays = |place: Result<Place, Error>| {
                place.ok().filter(|place| {
                    assert!(place.real_path().starts_with(&root), "{what}: {place:?}");
                    true
                })
            };
            if let Some(place) = stays(files.roots().resolve(path)) {
                _ = files.list(&place);
                _ = files.create_dirs(&place);
                _ = files.version(&place);
            }
            if let Ok(place) = files.roots().resolve_entry(path) {
                assert!(place.real_path().starts_with(&world.top), "{what}: {place:?}");
                let file = files.roots().resolve("file").unwrap();
                _ = files.rename(&file, &place, Expect::Any, true);
                _ = files.delete(&place, Expect::Any);
                _ = files.remove_empty_dir(&place);
                fs::write(root.join("file"), "fine").unwrap();
            }
            _ = files.roots().open_dir(path);
            assert_eq!(world.others(), before, "{what}");
        }
        assert!(fs::metadata(root.join("socket")).unwrap().file_type().is_socket());
    }
}

#[test]
fn roads_that_stay_inside_are_open() {
    for options in BOTH {
        let world = World::new();
        let root = world.top.join("root");
        for (link, target) in [
            ("in-rel", "sub/deep/file".into()),
            ("in-abs", root.join("sub/deep/file")),
            ("in-dir", "sub/deep".into()),
            ("to-extra", world.top.join("extra/file")),
            ("to-extra-rel", "../extra".into()),
            ("new-rel", "sub/new".into()),
        ] {
            symlink::<PathBuf, _>(target, root.join(link)).unwrap();
        }
        let files = Files::new(world.roots(options));
        let top = world.top.to_str().unwrap();
        for (path, real) in [
            ("file".to_owned(), "root/file"),
            ("./sub//deep/./file".to_owned(), "root/sub/deep/file"),
            ("sub/../file".to_owned(), "root/file"),
            (format!("{top}/root/file"), "root/file"),
            (format!("{top}/extra/file"), "extra/file"),
            ("../extra/file".to_owned(), "extra/file"),
            ("../root/file".to_owned(), "root/file"),
            ("sub/../../extra/file".to_owned(), "extra/file"),
            ("in-rel".to_owned(), "root/sub/deep/file"),
            ("in-abs".to_owned(), "root/sub/deep/file"),
            ("in-dir/file".to_owned(), "root/sub/deep/file"),
            ("in-dir/../deep/file".to_owned(), "root/sub/deep/file"),
            ("to-extra".to_owned(), "extra/file"),
            ("to-extra-rel/file".to_owned(), "extra/file"),
            ("up/extra/file".to_owned(), "extra/file"),
            ("many40".to_owned(), "root/file"),
        ] {
            let place = files.roots().resolve(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
            assert_eq!(place.real_path(), world.top.join(real), "{path}");
            assert_eq!(files.read_bytes(&place).unwrap().bytes, b"fine", "{path}");
        }
        let place = files.roots().resolve("new-rel").unwrap();
        files.write(&place, b"new", &Write::expecting(Expect::New)).unwrap();
        assert_eq!(fs::read(root.join("sub/new")).unwrap(), b"new");
        assert!(fs::symlink_metadata(root.join("new-rel")).unwrap().is_symlink(), "a link stays a link");
    }
}

#[test]
fn a_link_that_appears_after_the_check_is_refused() {
    for options in BOTH {
        let world = World::new();
        let root = world.top.join("root");
        let files = Files::new(world.roots(options));
        let before = world.others();
        let file = files.roots().resolve("file").unwrap();
        let inner = files.roots().resolve("sub/deep/file").unwrap();
        let new = files.roots().resolve("sub/new/new").unwrap();
        fs::remove_file(root.join("file")).unwrap();
        symlink("../outside/secret", root.join("file")).unwrap();
        fs::rename(root.join("sub"), root.join("sub2")).unwrap();
        symlink("../outside", root.join("sub")).unwrap();
        let write = Write::expecting(Expect::Any).with_parents();
        for place in [&file, &inner, &new] {
            assert!(files.read_bytes(place).is_err());
            assert!(files.write(place, b"x", &write).is_err());
            assert!(files.delete(place, Expect::Any).is_err());
            assert!(files.list(place).is_err());
            assert!(files.create_dirs(place).is_err());
            assert!(files.rename(&files.roots().resolve("sub2/deep/file").unwrap(), place, Expect::Any, true).is_err());
        }
        assert!(matches!(files.read_bytes(&inner), Err(Error::Raced(_))));
        assert_eq!(world.others(), before);
    }
}

#[test]
fn another_mount_is_refused_unless_it_is_a_root() {
    if !Path::new("/proc/self/stat").exists() || !Path::new("/dev/null").exists() {
        return;
    }
    for options in BOTH {
        let files = Files::new(Roots::with("/", [] as [&str; 0], options).unwrap());
        for path in ["/proc/self/environ", "/proc/version", "/proc/1/root/etc/passwd"] {
            let read = files.roots().resolve(path).and_then(|place| files.read_bytes(&place));
            assert!(matches!(read, Err(Error::OtherMount(_))), "{path}: {read:?}");
        }
        let files = Files::new(Roots::with("/proc", ["/dev"], options).unwrap());
        let version = files.roots().resolve("/proc/version").unwrap();
        assert!(!files.read_bytes(&version).unwrap().bytes.is_empty(), "size 0, but content");
        let null = files.roots().resolve("/dev/null").unwrap();
        assert!(matches!(files.read_bytes(&null), Err(Error::NotRegular { .. })));
    }
}

#[test]
fn a_hard_link_is_not_written_through() {
    let world = World::new();
    let root = world.top.join("root");
    fs::hard_link(world.top.join("outside/secret"), root.join("hard")).unwrap();
    let files = Files::new(world.roots(Options::default()));
    let place = files.roots().resolve("hard").unwrap();
    let mut write = Write::expecting(Expect::Any);
    assert!(matches!(files.write(&place, b"x", &write), Err(Error::HardLinked { links: 2, .. })));
    write.hard_links = true;
    files.write(&place, b"x", &write).unwrap();
    assert_eq!(fs::read(root.join("hard")).unwrap(), b"x");
    assert_eq!(fs::read(world.top.join("outside/secret")).unwrap(), SECRET);
}

#[test]
fn a_root_may_come_later_and_is_then_that_directory() {
    let world = World::new();
    let late = world.top.join("root/late");
    let roots = Roots::new(&late, [] as [&str; 0]).unwrap();
    let files = Files::new(roots.clone());
    assert!(matches!(roots.resolve("file"), Err(Error::NotFound(_))));
    fs::create_dir(&late).unwrap();
    fs::write(late.join("file"), "first").unwrap();
    let place = roots.resolve("file").unwrap();
    assert!(roots.list().next().unwrap().still_there());
    fs::rename(&late, world.top.join("root/moved")).unwrap();
    fs::create_dir(&late).unwrap();
    fs::write(late.join("file"), "second").unwrap();
    assert_eq!(files.read_bytes(&place).unwrap().bytes, b"first");
    assert!(!roots.list().next().unwrap().still_there());
    // A link in the place of one that is to come chooses nothing.
    let later = world.top.join("root/later");
    let roots = Roots::new(&later, [] as [&str; 0]).unwrap();
    symlink("../outside", &later).unwrap();
    assert!(matches!(roots.resolve("secret"), Err(Error::Changed(_))));
    assert!(matches!(roots.resolve(later.join("secret")), Err(Error::Changed(_))));
    assert!(matches!(Roots::new("relative", [] as [&str; 0]), Err(Error::BadPath { .. })));
}
