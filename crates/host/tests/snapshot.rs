//! Undoing turns, files and hunks, across restarts and with too little room.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};
use tieline_host::{
    files::{Expect, Files, Write},
    roots::Roots,
    snapshot::{Base, Kind, Limits, Snapshots, Undone, Unkept, Why},
};

const ANY: Write = Write::expecting(Expect::Any).with_parents();

struct World {
    _dir: tempfile::TempDir,
    root: PathBuf,
    store: PathBuf,
    files: Files,
    snapshots: Arc<Snapshots>,
}

impl World {
    fn new(limit: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        let (root, store) = (top.join("root"), top.join("state/snapshots"));
        fs::create_dir(&root).unwrap();
        let files = Files::new(Roots::new(&root, [] as [&str; 0]).unwrap());
        let snapshots = Snapshots::open(&store, limit).unwrap();
        Self { _dir: dir, root, store, files, snapshots }
    }

    fn restart(&mut self) {
        self.snapshots = Snapshots::open(&self.store, 1 << 20).unwrap();
    }

    fn write(&self, turn: &str, path: &str, text: &str) {
        let files = self.files.clone().with_journal(self.snapshots.begin(turn));
        files.write(&files.roots().resolve(path).unwrap(), text.as_bytes(), &ANY).unwrap();
    }

    fn delete(&self, turn: &str, path: &str) {
        let files = self.files.clone().with_journal(self.snapshots.begin(turn));
        files.delete(&files.roots().resolve(path).unwrap(), Expect::Any).unwrap();
    }

    fn put(&self, path: &str, text: &str) {
        fs::write(self.root.join(path), text).unwrap();
    }

    fn get(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.root.join(path)).ok()
    }

    fn changed(&self, turn: &str) -> Vec<(String, Kind, bool)> {
        let name = |path: &Path| path.strip_prefix(&self.root).unwrap().to_str().unwrap().to_owned();
        self.snapshots.changed(turn).iter().map(|file| (name(&file.path), file.kind, file.unkept.is_none())).collect()
    }

    fn undo(&self, turn: &str, force: bool) -> Undone {
        self.snapshots.undo(&self.files, turn, None, force)
    }

    fn blobs(&self) -> usize {
        fs::read_dir(self.store.join("blobs")).unwrap().count()
    }
}

#[test]
fn a_turn_is_undone_and_the_undo_too_after_restarts() {
    let mut world = World::new(1 << 20);
    world.put("edited", "old");
    world.put("deleted", "gone soon");
    fs::set_permissions(world.root.join("deleted"), fs::Permissions::from_mode(0o750)).unwrap();
    world.write("t1", "edited", "first");
    world.write("t1", "edited", "second");
    world.write("t1", "new/dir/added", "new");
    world.delete("t1", "deleted");
    world.write("t1", "brief", "comes");
    world.delete("t1", "brief");
    let expect = [
        ("edited".to_owned(), Kind::Modified, true),
        ("new/dir/added".to_owned(), Kind::Added, true),
        ("deleted".to_owned(), Kind::Deleted, true),
    ];
    assert_eq!(world.changed("t1"), expect);
    world.restart();
    assert_eq!(world.changed("t1"), expect);
    assert!(world.changed("t2").is_empty());

    let undone = world.undo("t1", false);
    assert_eq!((undone.restored.len(), undone.refused.len()), (3, 0), "{undone:?}");
    assert_eq!(world.get("edited").unwrap(), "old");
    assert_eq!(world.get("deleted").unwrap(), "gone soon");
    let mode = fs::metadata(world.root.join("deleted")).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o750);
    assert!(!world.root.join("new").exists(), "directories that were made are gone");
    assert!(world.changed("t1").is_empty());
    assert!(world.undo("t1", false).restored.is_empty(), "only once");

    world.restart();
    let redone = world.undo(&undone.turn.unwrap(), false);
    assert_eq!((redone.restored.len(), redone.refused.len()), (3, 0), "{redone:?}");
    assert_eq!(world.get("edited").unwrap(), "second");
    assert_eq!(world.get("deleted"), None);
    assert_eq!(world.get("new/dir/added").unwrap(), "new");
}

#[test]
fn a_file_that_changed_again_is_left_alone_unless_forced() {
    let world = World::new(1 << 20);
    for path in ["a", "b", "c"] {
        world.put(path, "old");
        world.write("t1", path, "ours");
    }
    world.put("a", "theirs");
    fs::remove_file(world.root.join("b")).unwrap();
    let undone = world.undo("t1", false);
    assert_eq!(undone.restored, [world.root.join("c")]);
    let refused: Vec<_> = undone.refused.iter().map(ToString::to_string).collect();
    let line = |name: &str| format!("{} changed again since that turn", world.root.join(name).display());
    assert_eq!(refused, [line("b"), line("a")]);
    assert_eq!(world.get("a").unwrap(), "theirs");
    // By hand back to what it was: nothing to do.
    world.put("b", "old");
    let forced = world.undo("t1", true);
    assert_eq!((forced.restored.len(), forced.refused.len()), (2, 0));
    assert_eq!(world.get("a").unwrap(), "old");
    // And what was overwritten is not lost.
    world.undo(&forced.turn.unwrap(), false);
    assert_eq!(world.get("a").unwrap(), "theirs");
}

#[test]
fn an_older_turn_waits_for_the_newer_one() {
    let world = World::new(1 << 20);
    world.put("a", "0");
    world.write("t1", "a", "1");
    world.write("t2", "a", "2");
    assert!(matches!(world.undo("t1", false).refused[0].why, Why::ChangedBy(..)));
    assert_eq!(world.undo("t2", false).restored.len(), 1);
    assert_eq!(world.undo("t1", false).restored.len(), 1);
    assert_eq!(world.get("a").unwrap(), "0");
}

#[test]
fn one_file_or_one_hunk() {
    let mut world = World::new(1 << 20);
    world.put("a", "1\n2\n3\n4\n5\n");
    world.put("b", "old");
    world.write("t", "a", "one\n2\n3\n4\nfive\n6\n");
    world.write("t", "b", "new");
    world.write("t", "c", "added\n");
    let undone = world.snapshots.undo(&world.files, "t", Some(&world.root.join("b")), false);
    assert_eq!(undone.restored.len(), 1);
    assert_eq!(world.get("b").unwrap(), "old");
    let none = world.snapshots.undo(&world.files, "t", Some(Path::new("x")), false);
    assert!(matches!(none.refused[0].why, Why::NotRecorded));

    let a = Path::new("a");
    let hunks = world.snapshots.hunks(&world.files, "t", a).unwrap();
    assert_eq!(hunks.len(), 2);
    world.restart();
    world.snapshots.undo_hunk(&world.files, "t", a, &hunks[1], false).unwrap();
    assert_eq!(world.get("a").unwrap(), "one\n2\n3\n4\n5\n");
    let again = world.snapshots.undo_hunk(&world.files, "t", a, &hunks[1], false).unwrap_err();
    assert!(matches!(again.why, Why::NoSuchHunk));
    world.put("a", "one\n2\n3\n4\n5\nmore\n");
    let changed = world.snapshots.undo_hunk(&world.files, "t", a, &hunks[0], false).unwrap_err();
    assert!(matches!(changed.why, Why::ChangedSince));
    world.snapshots.undo_hunk(&world.files, "t", a, &hunks[0], true).unwrap();
    assert_eq!(world.get("a").unwrap(), "1\n2\n3\n4\n5\nmore\n");

    let c = Path::new("c");
    let hunk = world.snapshots.hunks(&world.files, "t", c).unwrap().remove(0);
    world.snapshots.undo_hunk(&world.files, "t", c, &hunk, false).unwrap();
    assert_eq!(world.get("c"), None, "an added file without its only hunk is no file");
    assert_eq!(world.changed("t").len(), 1);
}

#[test]
fn too_little_room_drops_the_oldest_and_says_so() {
    let world = World::new(100);
    for name in ["a", "b", "c", "big"] {
        world.put(name, &name.repeat(40 / name.len()));
    }
    world.put("big", &"x".repeat(101));
    world.write("t1", "a", "1");
    world.write("t2", "b", "2");
    assert_eq!(world.blobs(), 2);
    world.write("t3", "c", "3");
    assert_eq!(world.blobs(), 2);
    assert_eq!(world.snapshots.turns(), ["t1", "t2", "t3"]);
    assert_eq!(["t1", "t2", "t3"].map(|turn| world.changed(turn)[0].2), [false, true, true]);
    assert_eq!(world.changed("t1"), [("a".to_owned(), Kind::Modified, false)]);
    assert!(matches!(world.undo("t1", true).refused[0].why, Why::NotKept(_)));
    // One that never fits doesn't push the others out for nothing; the turn that runs keeps what it has.
    world.write("t4", "big", "4");
    assert_eq!(world.changed("t4"), [("big".to_owned(), Kind::Modified, false)]);
    assert_eq!(world.changed("t3"), [("c".to_owned(), Kind::Modified, true)]);
    assert_eq!(world.undo("t3", false).restored.len(), 1);
}

#[test]
fn the_same_content_is_kept_once() {
    let world = World::new(1 << 20);
    for name in ["a", "b", "c"] {
        world.put(name, "same");
        world.write("t", name, "other");
    }
    assert_eq!(world.blobs(), 1);
    assert_eq!(world.undo("t", false).restored.len(), 3);
}

#[test]
fn what_many_files_became_is_noted_in_one_write() {
    let world = World::new(1 << 20);
    let recorder = world.snapshots.begin("t");
    let names: Vec<String> = (0..60).map(|number| format!("f{number}")).collect();
    let places: Vec<_> = names.iter().map(|name| world.files.roots().resolve(name).unwrap()).collect();
    for place in &places {
        recorder.before(&world.files, place).unwrap();
    }
    names.iter().skip(1).for_each(|name| world.put(name, "made"));
    let before = world.snapshots.writes();
    assert!(recorder.after_all(&world.files, &places).is_empty());
    assert_eq!(world.snapshots.writes() - before, 1);
    assert_eq!(world.changed("t").len(), 59);
    assert_eq!(world.undo("t", false).restored.len(), 59);
}

#[test]
fn changes_by_others_are_noted_before_and_after() {
    let world = World::new(1 << 20);
    let recorder = world.snapshots.begin("t");
    world.put("a", "old");
    for (path, now) in [("a", "by a command"), ("b", "made by a command")] {
        let place = world.files.roots().resolve(path).unwrap();
        recorder.before(&world.files, &place).unwrap();
        world.put(path, now);
        assert!(world.changed("t").iter().all(|(name, ..)| name != path));
        recorder.after(&world.files, &place).unwrap();
    }
    assert_eq!(world.changed("t"), [("a".to_owned(), Kind::Modified, true), ("b".to_owned(), Kind::Added, true)]);
    assert_eq!(world.undo("t", false).restored.len(), 2);
    assert_eq!((world.get("a").unwrap(), world.get("b")), ("old".to_owned(), None));
}

#[test]
fn a_moved_file_goes_back() {
    let world = World::new(1 << 20);
    world.put("a", "text");
    let files = world.files.clone().with_journal(world.snapshots.begin("t"));
    let place = |path: &str| files.roots().resolve(path).unwrap();
    files.rename(&place("a"), &place("sub/b"), Expect::Any, true).unwrap();
    assert_eq!(world.changed("t").len(), 2);
    assert_eq!(world.undo("t", false).restored.len(), 2);
    assert_eq!(world.get("a").unwrap(), "text");
    assert!(!world.root.join("sub").exists());
}

#[test]
fn an_undo_follows_no_link() {
    let world = World::new(1 << 20);
    fs::create_dir(world.root.join("dir")).unwrap();
    world.put("dir/a", "old");
    world.write("t", "dir/a", "new");
    let outside = world.root.parent().unwrap().join("outside");
    fs::rename(world.root.join("dir"), &outside).unwrap();
    std::os::unix::fs::symlink(&outside, world.root.join("dir")).unwrap();
    assert_eq!(world.undo("t", true).refused.len(), 1);
    assert_eq!(fs::read_to_string(outside.join("a")).unwrap(), "new");
}

/// Whatever stands in the place of our folders and files: nothing is deleted, changed or added where it leads.
#[test]
fn links_in_the_store_lead_nowhere() {
    use std::os::unix::fs::symlink;
    let aged = SystemTime::now() - Duration::from_hours(400 * 24);
    for name in ["", "blobs", "index.json", "lock", "turn", "pack"] {
        let mut world = World::new(1 << 20);
        world.write("one", "a.txt", "before");
        world.write("two", "a.txt", "after");
        drop(std::mem::replace(&mut world.snapshots, Snapshots::in_memory()));
        let decoy = world.root.parent().unwrap().join("decoy");
        fs::create_dir(&decoy).unwrap();
        // Things of others, also such as look like ours.
        let hash = "0".repeat(64);
        for thing in ["passwd", "index.json", "lock", "turn", "pack", "held-1-2-3", &hash] {
            fs::write(decoy.join(thing), "theirs").unwrap();
            fs::File::open(decoy.join(thing)).unwrap().set_modified(aged).unwrap();
        }
        symlink("passwd", decoy.join("link")).unwrap();
        let seen = || {
            let mut seen: Vec<_> = fs::read_dir(&decoy).unwrap().map(|entry| entry.unwrap().path()).collect();
            seen.sort();
            seen.into_iter().map(|path| (fs::read(&path).ok(), path)).collect::<Vec<_>>()
        };
        let before = seen();
        let place = if name.is_empty() { world.store.clone() } else { world.store.join(name) };
        let target = if matches!(name, "" | "blobs") { decoy.clone() } else { decoy.join(name) };
        if place.is_dir() {
            fs::rename(&place, world.root.parent().unwrap().join("real")).unwrap();
        } else {
            let _ = fs::remove_file(&place);
        }
        symlink(target, &place).unwrap();
        if let Ok(snapshots) = Snapshots::open(&world.store, 1 << 20) {
            world.snapshots = snapshots;
            let _announced = world.snapshots.announce("three");
            let _ = world.snapshots.undo(&world.files, "two", None, true);
            let files = world.files.clone().with_journal(world.snapshots.begin("three"));
            let _ = files.write(&files.roots().resolve("a.txt").unwrap(), b"more", &ANY);
        }
        assert_eq!(seen(), before, "{name:?}");
    }
    // The copies of folders, too.
    for name in ["undo", "undo/base", "lock", "pack", "index.json"] {
        let dir = tempfile::tempdir().unwrap();
        let (state, root, decoy) = (dir.path().join("state"), dir.path().join("root"), dir.path().join("decoy"));
        for folder in [&state, &root, &decoy, &decoy.join("project"), &decoy.join("base"), &decoy.join("base/project")]
        {
            fs::create_dir(folder).unwrap();
        }
        let things = ["project", "base/project", ""];
        let things: Vec<PathBuf> = things
            .iter()
            .flat_map(|folder| ["index.json", "lock", "pack"].map(|name| decoy.join(folder).join(name)))
            .collect();
        for thing in &things {
            fs::write(thing, "theirs").unwrap();
            fs::File::open(thing).unwrap().set_modified(aged).unwrap();
        }
        fs::write(root.join("a.txt"), "some").unwrap();
        let look = || drop(Base::take(Some(&state), &root, Vec::new(), Limits::default(), SystemTime::now()));
        look();
        let place = match name {
            "undo" | "undo/base" => state.join(name),
            name => fs::read_dir(state.join("undo/base")).unwrap().next().unwrap().unwrap().path().join(name),
        };
        let gone = if place.is_dir() { fs::remove_dir_all(&place) } else { fs::remove_file(&place) };
        gone.unwrap();
        symlink(if place.starts_with(state.join("undo/base/")) { decoy.join(name) } else { decoy.clone() }, &place)
            .unwrap();
        look();
        fs::write(root.join("a.txt"), "more").unwrap();
        look();
        for thing in &things {
            assert_eq!(fs::read(thing).ok().as_deref(), Some(&b"theirs"[..]), "{name}: {}", thing.display());
        }
        let count = |folder: &Path| fs::read_dir(folder).unwrap().count();
        assert_eq!((count(&decoy), count(&decoy.join("project"))), (5, 3), "{name}: nothing is added");
    }
}

#[test]
fn what_can_be_read_of_a_damaged_index_can_be_undone() {
    let mut world = World::new(1 << 20);
    let index = world.store.join("index.json");
    let whole = || {
        for (turn, file) in [("1", "a"), ("1", "b"), ("2", "c"), ("3", "d")] {
            world.put(file, "old");
            world.write(turn, file, "new");
        }
        fs::read(&index).unwrap()
    };
    let whole = whole();
    // Where turn 3 begins, and where the second file of turn 1 does.
    let place = |text: &str| whole.windows(text.len()).position(|part| part == text.as_bytes()).unwrap();
    let (third, second) = (place(r#"{"id":"3""#), place(r#""path":"b""#));
    let mut holed = whole.clone();
    holed[second..second + 8].fill(0);
    let mut nameless = whole.clone();
    nameless[place(r#"{"id":"2""#)..][..9].fill(b'x');
    for (number, (damaged, turns, files)) in [
        (whole[..third + 20].to_vec(), &["1", "2"][..], 3),
        (whole[..whole.len() - 2].to_vec(), &["1", "2", "3"], 4),
        (holed, &["1", "2", "3"], 3),
        (nameless, &["1", "lost2", "3"], 4),
        (b"{".to_vec(), &[], 0),
    ]
    .into_iter()
    .enumerate()
    {
        fs::write(&index, &damaged).unwrap();
        world.restart();
        assert_eq!(world.snapshots.turns(), turns, "{number}");
        let aside = world.store.join(format!("index.damaged-{}", number + 1));
        assert_eq!(fs::read(&aside).unwrap(), damaged);
        let told = world.snapshots.damage().unwrap();
        let parts = ["index.json", &*format!("{files} changes"), &aside.to_string_lossy()].map(str::to_owned);
        assert!(parts.iter().all(|part| told.contains(part)), "{told}");
        for turn in turns {
            for file in world.snapshots.undo(&world.files, turn, None, false).restored {
                assert_eq!(fs::read_to_string(&file).unwrap(), "old");
                fs::write(file, "new").unwrap();
            }
        }
        world.restart();
        assert_eq!(world.snapshots.damage(), Some(told), "it is said as long as something may be missing");
    }
    world.put("a", "old");
    world.write("t", "a", "new");
    world.write("t", "a", "newer");
    // A damaged content is as good as none.
    let blob = fs::read_dir(world.store.join("blobs")).unwrap().map(|entry| entry.unwrap().path());
    blob.for_each(|path| fs::write(path, "wrong").unwrap());
    assert!(matches!(world.undo("t", true).refused[0].why, Why::NotKept(_)));
    assert_eq!(fs::metadata(&world.store).unwrap().permissions().mode() & 0o077, 0);
}

#[test]
fn what_others_wrote_between_two_changes_of_a_turn_is_not_undone() {
    let world = World::new(1 << 20);
    world.put("a", "first");
    world.write("t", "a", "by the turn");
    world.put("a", "by the turn, and by the user");
    world.write("t", "a", "by the turn, and by the user, and by the turn");
    let done = world.snapshots.undo(&world.files, "t", None, false);
    assert!(matches!(done.refused[..], [tieline_host::snapshot::Refused { why: Why::Mixed, .. }]), "{done:?}");
    assert_eq!(world.get("a").as_deref(), Some("by the turn, and by the user, and by the turn"));
    assert_eq!(world.snapshots.undo(&world.files, "t", None, true).restored.len(), 1, "unless it must be");
    assert_eq!(world.get("a").as_deref(), Some("first"));
    // A client that writes for us is no other.
    let recorder = world.snapshots.begin("c");
    let place = world.files.roots().resolve("a").unwrap();
    for text in ["by the client", "and again"] {
        recorder.before(&world.files, &place).unwrap();
        world.put("a", text);
        recorder.after(&world.files, &place).unwrap();
    }
    assert_eq!(world.snapshots.undo(&world.files, "c", None, false).restored.len(), 1);
    assert_eq!(world.get("a").as_deref(), Some("first"));
}

// An agent is started while the folder is still looked at, and may be at work before its files were seen.
#[test]
fn what_changes_while_a_folder_is_looked_at_is_a_change() {
    let world = World::new(1 << 20);
    for name in ["known", "kept"] {
        fs::write(world.root.join(name), "old").unwrap();
    }
    let take = |began| Base::take(Some(&world.store), &world.root, Vec::new(), Limits::default(), began).unwrap();
    std::thread::sleep(Duration::from_millis(20));
    drop(take(SystemTime::now()));
    let began = SystemTime::now();
    // The clock of a file system ticks.
    std::thread::sleep(Duration::from_millis(20));
    for name in ["known", "new"] {
        fs::write(world.root.join(name), "new").unwrap();
    }
    let found = take(began).differences();
    let found: Vec<_> = found.0.iter().map(|one| (one.name.to_str().unwrap(), one.old.as_deref())).collect();
    assert_eq!(found, [("known", Ok(&b"old"[..])), ("new", Err(&Unkept::Unseen))]);
}
