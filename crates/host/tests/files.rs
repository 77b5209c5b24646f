//! Reading, writing, deleting, renaming and listing, up to the limits and against other writers.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::{
    fs,
    os::unix::{
        ffi::OsStrExt as _,
        fs::{MetadataExt as _, PermissionsExt as _},
    },
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
};
use tieline_host::{
    files::{EntryKind, Expect, Files, Limits, Version, Write},
    roots::{Error, Place, Roots},
};

const NEW: Write = Write::expecting(Expect::New);
const ANY: Write = Write::expecting(Expect::Any);

struct World {
    _dir: tempfile::TempDir,
    root: PathBuf,
    files: Files,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let files = Files::new(Roots::new(&root, [] as [&str; 0]).unwrap());
        Self { _dir: dir, root, files }
    }

    fn place(&self, path: impl AsRef<std::path::Path>) -> Place {
        self.files.roots().resolve(path).unwrap()
    }

    fn put(&self, path: &str, text: &str) -> Version {
        fs::write(self.root.join(path), text).unwrap();
        self.files.version(&self.place(path)).unwrap().unwrap()
    }

    fn get(&self, path: &str) -> String {
        fs::read_to_string(self.root.join(path)).unwrap()
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(&self.root).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

#[test]
fn what_was_read_is_what_is_replaced() {
    let world = World::new();
    world.put("file", "one\ntwo\n");
    let place = world.place("file");
    let read = world.files.read_text(&place).unwrap();
    assert_eq!(read.text, "one\ntwo\n");
    let known = Write::expecting(Expect::Version(read.version));
    let written = world.files.write(&place, b"mine\n", &known).unwrap();
    assert!(!written.created);
    assert_eq!(written.version, world.files.version(&place).unwrap().unwrap());
    assert_eq!(world.get("file"), "mine\n");
    // The version that was read is gone.
    assert!(matches!(world.files.write(&place, b"again", &known), Err(Error::Changed(_))));
    // Touched, but the same content: fine.
    let version = world.put("file", "mine\n");
    world.files.write(&place, b"next", &Write::expecting(Expect::Version(written.version))).unwrap();
    assert_ne!(version.hash, world.files.version(&place).unwrap().unwrap().hash);
    // Changed by someone, same length.
    world.put("file", "NEXT");
    let next = Write::expecting(Expect::Version(world.files.read_bytes(&place).unwrap().version));
    world.put("file", "next");
    assert!(matches!(world.files.write(&place, b"x", &next), Err(Error::Changed(_))));
    // Deleted by someone.
    fs::remove_file(world.root.join("file")).unwrap();
    assert!(matches!(world.files.write(&place, b"x", &next), Err(Error::Changed(_))));
    // Made by someone.
    world.put("file", "theirs");
    assert!(matches!(world.files.write(&place, b"x", &NEW), Err(Error::Exists(_))));
    assert_eq!(world.get("file"), "theirs");
    assert_eq!(world.names(), ["file"], "no litter");
}

#[test]
fn nobody_elses_version_is_ever_lost() {
    let world = World::new();
    let place = world.place("file");
    world.put("file", "0");
    let stop = AtomicBool::new(false);
    // Each side replaces only what it has seen, so the number grows by one each time, or an update was lost.
    let count = |files: &Files| {
        let mut done = 0;
        while !stop.load(Relaxed) {
            let Ok(read) = files.read_bytes(&place) else { continue };
            let next = String::from_utf8(read.bytes).unwrap().parse::<u64>().unwrap() + 1;
            let write = Write::expecting(Expect::Version(read.version));
            match files.write(&place, next.to_string().as_bytes(), &write) {
                Ok(_) => done += 1,
                Err(Error::Changed(_) | Error::Raced(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
        done
    };
    let other = Files::new(world.files.roots().clone());
    let (ours, theirs) = thread::scope(|scope| {
        let one = scope.spawn(|| count(&world.files));
        let two = scope.spawn(|| count(&other));
        thread::sleep(std::time::Duration::from_secs(1));
        stop.store(true, Relaxed);
        (one.join().unwrap(), two.join().unwrap())
    });
    assert_eq!(world.get("file").parse::<u64>().unwrap(), ours + theirs);
    assert!(ours > 0 && theirs > 0);
    assert_eq!(world.names(), ["file"], "no litter");
}

#[test]
fn mode_and_attributes_are_kept() {
    let world = World::new();
    for mode in [0o644, 0o755, 0o600, 0o664, 0o200] {
        world.put("file", &format!("{mode}"));
        fs::set_permissions(world.root.join("file"), fs::Permissions::from_mode(mode)).unwrap();
        let place = world.place("file");
        if world.files.write(&place, b"new", &ANY).is_ok() {
            assert_eq!(fs::metadata(world.root.join("file")).unwrap().mode() & 0o7777, mode);
        }
        fs::set_permissions(world.root.join("file"), fs::Permissions::from_mode(0o644)).unwrap();
    }
    // Rights that go with a trusted content don't go with a new one.
    fs::set_permissions(world.root.join("file"), fs::Permissions::from_mode(0o6755)).unwrap();
    world.files.write(&world.place("file"), b"other", &ANY).unwrap();
    assert_eq!(fs::metadata(world.root.join("file")).unwrap().mode() & 0o7777, 0o755);
    let file = fs::File::open(world.root.join("file")).unwrap();
    if rustix::fs::fsetxattr(&file, "user.note", b"kept", rustix::fs::XattrFlags::empty()).is_ok() {
        world.files.write(&world.place("file"), b"third", &ANY).unwrap();
        let mut value = [0; 8];
        let size = rustix::fs::getxattr(world.root.join("file"), "user.note", &mut value).unwrap();
        assert_eq!(&value[..size], b"kept");
    }
    // A new file gets what the process's mask gives, or what is asked for.
    world.files.write(&world.place("new"), b"", &NEW).unwrap();
    fs::write(world.root.join("usual"), "").unwrap();
    let mode = |name: &str| fs::metadata(world.root.join(name)).unwrap().mode() & 0o7777;
    assert_eq!(mode("new"), mode("usual"));
    world.files.write(&world.place("script"), b"", &Write { mode: Some(0o755), ..NEW }).unwrap();
    assert_eq!(mode("script"), 0o755);
}

#[test]
fn owner_is_kept_where_allowed() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let world = World::new();
    world.put("file", "x");
    std::os::unix::fs::chown(world.root.join("file"), Some(1234), Some(4321)).unwrap();
    world.files.write(&world.place("file"), b"y", &ANY).unwrap();
    let meta = fs::metadata(world.root.join("file")).unwrap();
    assert_eq!((meta.uid(), meta.gid()), (1234, 4321));
}

#[test]
fn read_only_files_stay() {
    let world = World::new();
    world.put("file", "old");
    fs::set_permissions(world.root.join("file"), fs::Permissions::from_mode(0o444)).unwrap();
    assert!(matches!(world.files.write(&world.place("file"), b"new", &ANY), Err(Error::ReadOnly(_))));
    assert_eq!(world.get("file"), "old");
    assert_eq!(world.names(), ["file"]);
}

#[test]
fn limits_are_exact() {
    let world = World::new();
    let limit = 16 << 20;
    assert_eq!(world.files.limits().text, limit);
    let place = world.place("big");
    for (size, fits) in [(limit - 1, true), (limit, true), (limit + 1, false)] {
        let bytes = vec![b'x'; size as usize];
        fs::write(world.root.join("big"), &bytes).unwrap();
        let read = world.files.read_text(&place);
        match &read {
            Ok(read) => assert!(fits && read.text.len() as u64 == size),
            Err(Error::TooLarge { size: seen, limit: named, .. }) => assert!(!fits && *seen == size && *named == limit),
            Err(error) => panic!("{error}"),
        }
        fs::remove_file(world.root.join("big")).unwrap();
        let write = world.files.write(&place, &bytes, &NEW);
        assert_eq!(write.is_ok(), fits, "{size}");
        assert_eq!(world.root.join("big").exists(), fits);
    }
    let text = Error::TooLarge { path: "a".into(), size: 17, limit: 16 }.to_string();
    assert_eq!(text, "a is too large: 17 bytes, the limit is 16 bytes");
    // Bytes have a limit of their own.
    let files = world.files.clone().with_limits(Limits { text: 1, bytes: 3, entries: 2 });
    for (text, fits) in [("ab", true), ("abc", true), ("abcd", false)] {
        world.put("small", text);
        assert_eq!(files.read_bytes(&world.place("small")).is_ok(), fits, "{text}");
        assert!(files.read_text(&world.place("small")).is_err());
        assert!(files.write(&world.place("small"), b"x", &ANY).is_err(), "the old content is too large to be kept");
    }
    // And so have directories.
    world.put("a", "");
    let listed = files.list(&world.place(".")).unwrap();
    assert_eq!((listed.entries.len(), listed.more), (2, false));
    world.put("b", "");
    let listed = files.list(&world.place(".")).unwrap();
    assert_eq!((listed.entries.len(), listed.more), (2, true));
}

#[test]
fn only_text_is_text() {
    let world = World::new();
    fs::write(world.root.join("file"), b"ab\xff").unwrap();
    let read = world.files.read_text(&world.place("file"));
    assert!(matches!(read, Err(Error::NotText { at: 2, .. })));
    assert_eq!(world.files.read_bytes(&world.place("file")).unwrap().bytes, b"ab\xff");
    assert!(matches!(world.files.read_bytes(&world.place(".")), Err(Error::IsDirectory(_))));
    assert!(matches!(world.files.read_bytes(&world.place("none")), Err(Error::NotFound(_))));
    assert!(matches!(world.files.list(&world.place("file")), Err(Error::NotDirectory(_))));
}

#[test]
fn odd_names_are_just_names() {
    let world = World::new();
    let long = "x".repeat(255);
    let deep = vec!["d".repeat(100); 30].join("/");
    for name in [
        long.as_bytes(),
        deep.as_bytes(),
        "naïve – 文件 😀.rs".as_bytes(),
        "e\u{301} is not é".as_bytes(),
        "a\u{200b}b\u{202e}c".as_bytes(),
        b" leading and trailing ",
        b"new\nline\ttab",
        b"\xff\xfe no UTF-8",
        b"-rf",
        b"*?[a]{b}$(c)`d`",
        b"back\\slash",
        b".tieline-tmp-not-ours",
    ] {
        let name = std::ffi::OsStr::from_bytes(name);
        let place = world.place(name);
        world.files.write(&place, b"content", &NEW.with_parents()).unwrap();
        assert_eq!(fs::read(world.root.join(name)).unwrap(), b"content", "{name:?}");
        let read = world.files.read_bytes(&place).unwrap();
        world.files.write(&place, b"more", &Write::expecting(Expect::Version(read.version))).unwrap();
        let moved = world.place("moved");
        world.files.rename(&place, &moved, Expect::Any, false).unwrap();
        assert_eq!(world.get("moved"), "more");
        world.files.delete(&moved, Expect::Any).unwrap();
        assert!(!world.root.join(name).exists());
    }
}

#[test]
fn delete_and_rename_want_what_they_know() {
    let world = World::new();
    let version = world.put("a", "1");
    world.put("b", "2");
    world.put("a", "changed");
    let (a, b) = (world.place("a"), world.place("b"));
    let known = Expect::Version(version);
    assert!(matches!(world.files.delete(&a, known), Err(Error::Changed(_))));
    assert!(matches!(world.files.rename(&a, &world.place("c"), known, false), Err(Error::Changed(_))));
    assert!(matches!(world.files.rename(&a, &b, Expect::Any, false), Err(Error::Exists(_))));
    assert!(matches!(world.files.rename(&a, &world.place("d/e"), Expect::Any, false), Err(Error::NotFound(_))));
    world.files.rename(&a, &world.place("d/e"), Expect::Any, true).unwrap();
    assert_eq!(world.get("d/e"), "changed");
    assert!(matches!(world.files.delete(&a, Expect::Any), Err(Error::NotFound(_))));
    assert!(matches!(world.files.delete(&world.place("d"), Expect::Any), Err(Error::IsDirectory(_))));
    assert!(matches!(world.files.remove_empty_dir(&world.place("d")), Err(Error::Exists(_))));
    std::os::unix::fs::symlink("b", world.root.join("link")).unwrap();
    let link = world.files.roots().resolve_entry("link").unwrap();
    assert!(matches!(world.files.delete(&link, Expect::Any), Err(Error::NotRegular { .. })));
    world.files.delete(&b, Expect::Version(world.files.version(&b).unwrap().unwrap())).unwrap();
    assert_eq!(world.names(), ["d", "link"]);
}

#[test]
fn lists_what_is_there() {
    let world = World::new();
    world.put("b", "12");
    fs::create_dir(world.root.join("a")).unwrap();
    std::os::unix::fs::symlink("b", world.root.join("c")).unwrap();
    let listed = world.files.list(&world.place(".")).unwrap();
    let found: Vec<_> =
        listed.entries.iter().map(|entry| (entry.name.to_str().unwrap(), entry.kind, entry.size)).collect();
    assert_eq!(found, [("a", EntryKind::Directory, 0), ("b", EntryKind::File, 2), ("c", EntryKind::Link, 0)]);
    assert_eq!(listed.entries[2].target.as_deref(), Some(std::path::Path::new("b")));
}

#[test]
fn leftovers_are_swept_but_not_from_under_a_writer() {
    let world = World::new();
    let left = world.root.join(".tieline-tmp-0123456789abcdef");
    let others = [".tieline-tmp-0123456789abcdeg", ".tieline-tmp-0123456789abcdef0", "tieline-tmp-0123456789abcdef"];
    for other in others {
        world.put(other, "not ours");
    }
    fs::write(&left, "half").unwrap();
    // Another process is writing in this directory.
    let busy = fs::File::open(&world.root).unwrap();
    rustix::fs::flock(&busy, rustix::fs::FlockOperation::LockShared).unwrap();
    world.files.write(&world.place("file"), b"1", &ANY).unwrap();
    assert!(left.exists());
    drop(busy);
    world.files.write(&world.place("file"), b"2", &ANY).unwrap();
    assert!(!left.exists());
    assert_eq!(world.names().len(), 4);
}

#[test]
fn writing_what_is_there_changes_nothing() {
    let world = World::new();
    let version = world.put("file", "same");
    let written = world.files.write(&world.place("file"), b"same", &ANY).unwrap();
    assert_eq!(written.version, version);
}
