//! An undo of what turns of any agent did: huge files, folders with their modes, turns that others build on.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use rustix::fs::inotify;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tieline_host::files::Files;
use tieline_host::roots::Roots;
use tieline_host::snapshot::{Base, Kind, Limits, Snapshots, Undone, Why};

struct World {
    dir: tempfile::TempDir,
    root: PathBuf,
    files: Files,
    snapshots: Arc<Snapshots>,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap().join("root");
        fs::create_dir(&root).unwrap();
        let files = Files::new(Roots::new(&root, [] as [&str; 0]).unwrap());
        let snapshots = Snapshots::open(dir.path().join("state/undo/s"), 1 << 20).unwrap();
        Self { dir, root, files, snapshots }
    }

    fn put(&self, path: &str, text: &str) -> PathBuf {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    /// A turn of an agent that we only watch.
    fn turn(&self, turn: &str, work: impl FnOnce()) {
        self.turn_at(turn, SystemTime::now(), work);
    }

    /// The same, where all that was made before this moment is older than the turn.
    fn turn_at(&self, turn: &str, began: SystemTime, work: impl FnOnce()) {
        let state = self.dir.path().join("state");
        let limits = Limits { time: Duration::from_mins(1), ..Limits::default() };
        let base = Base::take(Some(&state), &self.root, Vec::new(), limits, began).unwrap();
        work();
        let found = base.differences().0;
        self.snapshots.begin(turn).made(found.iter().map(|one| one.made(&base)).collect()).unwrap();
    }

    fn undo(&self, turn: &str, force: bool) -> Undone {
        self.snapshots.undo(&self.files, turn, None, force)
    }
}

/// How many bytes this thread reads meanwhile.
fn read_by<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let count = || -> u64 {
        let text = fs::read_to_string("/proc/thread-self/io").unwrap();
        text.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap().parse().unwrap()
    };
    let before = count();
    let done = work();
    (done, count() - before)
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn a_huge_file_is_read_once_or_not_at_all_and_comes_last() {
    const HUGE: u64 = 4 << 20;
    let mut world = World::new();
    world.files = world.files.with_limits(tieline_host::files::Limits { text: 2 << 20, ..Default::default() });
    let [huge, small] = ["a", "b"].map(|name| world.put(name, "old"));
    let change = || {
        File::create(&huge).unwrap().set_len(HUGE).unwrap();
        fs::write(&small, "new").unwrap();
    };
    world.turn("1", change);
    let (done, bytes) = read_by(|| world.undo("1", false));
    assert_eq!((done.restored.len(), done.refused.len()), (2, 0), "{done:?}");
    assert!(bytes < HUGE * 3 / 2, "to know that nobody changed it since, it is read once: {bytes}");
    let order = world.snapshots.remembered(&done.turn.unwrap()).into_iter().map(|file| file.path);
    assert_eq!(order.collect::<Vec<_>>(), [small.clone(), huge.clone()]);
    assert_eq!([&huge, &small].map(|path| fs::read_to_string(path).unwrap()), ["old", "old"]);

    // One that has another size is another one. So it is for those who only look.
    world.turn("2", change);
    File::options().write(true).open(&huge).unwrap().set_len(HUGE * 8).unwrap();
    let (preview, bytes) = read_by(|| world.snapshots.preview(&world.files, "2", None, false));
    assert!(matches!(preview.refused[..], [ref one] if matches!(one.why, Why::ChangedSince)), "{preview:?}");
    assert!(bytes < 1 << 20, "{bytes}");
    let (shown, bytes) = read_by(|| world.snapshots.contents(&world.files, "2", &huge));
    assert!(shown.is_err() && bytes < 1 << 20, "{bytes}");
    let (done, bytes) = read_by(|| world.undo("2", false));
    assert_eq!((done.restored, done.refused.len()), (vec![small.clone()], 1));
    assert!(bytes < 1 << 20, "{bytes}");
    let (done, bytes) = read_by(|| world.undo("2", true));
    assert_eq!((done.restored, done.refused.len()), (vec![huge.clone()], 0));
    assert!(bytes < 1 << 20, "{bytes}");
    assert_eq!(fs::read_to_string(&huge).unwrap(), "old");
    // Nothing is known of what was there, so nothing else counts as that.
    let again = done.turn.unwrap();
    File::create(&huge).unwrap().set_len(HUGE * 2).unwrap();
    assert!(matches!(world.undo(&again, true).refused[..], [ref one] if matches!(one.why, Why::NotKept(_))));
}

#[test]
fn folders_come_back_with_their_modes() {
    let world = World::new();
    let [inner, locked] = ["private/inner/file", "locked/file"].map(|path| world.put(path, "old"));
    let folders = [("private", 0o700), ("private/inner", 0o2750), ("locked", 0o555)];
    let folders = folders.map(|(name, mode)| (world.root.join(name), mode));
    for (path, mode) in &folders {
        set_mode(path, *mode);
    }
    let same = || folders.iter().for_each(|(path, expect)| assert_eq!(mode(path), *expect, "{path:?}"));
    world.turn("1", || {
        set_mode(&folders[2].0, 0o755);
        fs::remove_dir_all(&folders[0].0).unwrap();
        fs::remove_dir_all(&folders[2].0).unwrap();
        // In the way, and gone before the folder can be made.
        std::os::unix::fs::symlink("elsewhere", &folders[0].0).unwrap();
    });
    let done = world.undo("1", false);
    assert_eq!((done.restored.len(), done.refused.len()), (3, 0), "{done:?}");
    same();
    assert_eq!([inner, locked].map(|path| fs::read_to_string(path).unwrap()), ["old", "old"]);
}

#[test]
fn a_folder_that_an_undo_removed_comes_back_with_its_mode() {
    let world = World::new();
    let folder = world.root.join("made");
    world.turn("1", || {
        world.put("made/file", "new");
        set_mode(&folder, 0o700);
    });
    let undone = world.undo("1", false);
    assert!(!folder.exists());
    let redone = world.undo(&undone.turn.unwrap(), false);
    assert_eq!((redone.restored.len(), mode(&folder)), (1, 0o700), "{redone:?}");
    assert!(world.undo(&redone.turn.unwrap(), false).refused.is_empty());
    assert!(!folder.exists());
}

/// How often the folder of this name in another one is opened meanwhile.
fn opened_by<T>(folder: &Path, name: &str, work: impl FnOnce() -> T) -> (T, usize) {
    use inotify::{CreateFlags, ReadFlags, Reader, WatchFlags};
    let watch = inotify::init(CreateFlags::NONBLOCK).unwrap();
    // The same twice is told once, so that it is also told when one is closed.
    inotify::add_watch(&watch, folder, WatchFlags::OPEN | WatchFlags::CLOSE).unwrap();
    let done = work();
    let (mut room, mut count) = ([std::mem::MaybeUninit::uninit(); 4096], 0);
    let mut events = Reader::new(watch, &mut room);
    while let Ok(event) = events.next() {
        assert!(!event.events().contains(ReadFlags::QUEUE_OVERFLOW));
        let is_it = event.file_name().is_some_and(|found| found.to_bytes() == name.as_bytes());
        count += usize::from(is_it && event.events().contains(ReadFlags::OPEN));
    }
    (done, count)
}

// Each file has all folders above it to be made or removed: neither is done, nor written down, once for each file.
#[test]
fn a_deep_tree_is_undone_folder_by_folder() {
    const DEPTH: usize = 100;
    let world = World::new();
    let folder = |depth: usize| world.root.join("d/".repeat(depth));
    world.turn("1", || {
        for depth in 1..=DEPTH {
            fs::create_dir(folder(depth)).unwrap();
            fs::write(folder(depth).join("f"), "x").unwrap();
        }
        set_mode(&folder(DEPTH / 2), 0o750);
    });
    let index = || fs::metadata(world.dir.path().join("state/undo/s/index.json")).unwrap().len();
    assert!(index() < 100_000, "{} bytes", index());
    let (done, opened) = opened_by(&world.root, "d", || world.undo("1", false));
    assert_eq!((done.restored.len(), done.refused.len(), folder(1).exists()), (DEPTH, 0, false));
    assert!(opened < 20, "opened {opened} times");
    let (done, opened) = opened_by(&world.root, "d", || world.undo(&done.turn.unwrap(), false));
    assert_eq!((done.restored.len(), done.refused.len(), mode(&folder(DEPTH / 2))), (DEPTH, 0, 0o750));
    assert!((1..=DEPTH).all(|depth| folder(depth).join("f").exists()));
    assert!(opened < 20, "opened {opened} times");
    // The same for a turn that removes it.
    world.turn("2", || fs::remove_dir_all(folder(1)).unwrap());
    assert!(index() < 300_000, "{} bytes", index());
    let done = world.undo("2", false);
    assert_eq!((done.restored.len(), done.refused.len(), mode(&folder(DEPTH / 2))), (DEPTH, 0, 0o750));
}

#[test]
fn what_a_later_turn_deleted_or_changed_is_told_with_that_turn() {
    let world = World::new();
    let file = world.put("folder/file", "old");
    world.turn("1", || fs::write(&file, "first").unwrap());
    world.turn("2", || fs::write(&file, "second").unwrap());
    let refused = |turn: &str| {
        let mut done = world.undo(turn, false);
        (done.refused.pop().unwrap().why, fs::read_to_string(&file).ok())
    };
    let (why, now) = refused("1");
    assert!(matches!(&why, Why::ChangedBy(turn, Kind::Modified) if turn == "2"), "{why:?}");
    assert_eq!(now.as_deref(), Some("second"));
    world.turn("3", || fs::remove_dir_all(world.root.join("folder")).unwrap());
    for turn in ["1", "2"] {
        let (why, now) = refused(turn);
        assert!(matches!(&why, Why::ChangedBy(turn, Kind::Deleted) if turn == "3"), "{why:?}");
        assert_eq!(now, None);
    }
    // One after the other, the last first, all of it comes back.
    for (turn, text) in [("3", "second"), ("2", "first"), ("1", "old")] {
        assert_eq!(world.undo(turn, false).restored.len(), 1, "{turn}");
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
    }
    // Or at once, whoever changed it since.
    world.turn("4", || fs::write(&file, "fourth").unwrap());
    world.turn("5", || fs::remove_dir_all(world.root.join("folder")).unwrap());
    assert_eq!(world.undo("4", true).restored, std::slice::from_ref(&file));
    assert_eq!(fs::read_to_string(&file).unwrap(), "old");
    // Somebody else is nobody's turn.
    world.turn("6", || fs::write(&file, "sixth").unwrap());
    fs::remove_file(&file).unwrap();
    let (why, _) = refused("6");
    assert!(matches!(why, Why::ChangedSince), "{why:?}");
}

#[test]
fn what_a_turn_moved_over_a_file_stays_and_the_file_comes_back_when_the_way_is_free() {
    let world = World::new();
    world.put(".gitignore", "hidden/\n");
    let big = world.root.join("hidden/big");
    let [moved, linked] = ["moved", "linked"].map(|name| world.put(name, "precious"));
    world.put("hidden/big", &"b".repeat(1_100_000));
    world.turn_at("1", SystemTime::now() + Duration::from_secs(1), || {
        fs::remove_file(&linked).unwrap();
        fs::hard_link(&big, &linked).unwrap();
        fs::rename(&big, &moved).unwrap();
    });
    let large = |path: &Path| fs::metadata(path).unwrap().len() == 1_100_000;
    // Of two names one can go: nothing is lost with it. The last one can't, whatever is said.
    let done = world.undo("1", false);
    assert_eq!((done.restored.len(), done.refused.len()), (1, 1), "{done:?}");
    let last = done.refused[0].path.clone();
    for force in [false, true] {
        let done = world.undo("1", force);
        assert!(matches!(done.refused[..], [ref one] if matches!(one.why, Why::InTheWay)), "{done:?}");
        assert!(large(&last) && world.snapshots.changed("1")[0].unkept.is_some());
    }
    let away = world.root.join("away");
    fs::rename(&last, &away).unwrap();
    let preview = world.snapshots.preview(&world.files, "1", None, false);
    assert_eq!((preview.restored.len(), preview.refused.len()), (1, 0), "{preview:?}");
    let done = world.undo("1", false);
    assert_eq!((done.restored, done.refused.len()), (vec![last], 0));
    assert_eq!([&moved, &linked].map(|path| fs::read_to_string(path).unwrap()), ["precious", "precious"]);
    assert!(large(&away));
}

#[test]
fn a_folder_of_empty_folders_in_the_place_of_a_file_goes_and_one_with_a_file_stays() {
    let world = World::new();
    let [hollow, full] = ["hollow", "full"].map(|name| world.put(name, "precious"));
    world.turn("1", || {
        for file in [&hollow, &full] {
            fs::remove_file(file).unwrap();
            fs::create_dir_all(file.join("a/b/c")).unwrap();
            fs::create_dir_all(file.join("d")).unwrap();
        }
        world.put("hollow/a/made", "by the turn");
    });
    // Somebody else's, and not looked at.
    world.put("full/a/b/mine", "mine");
    for force in [false, true] {
        let done = world.undo("1", force);
        assert_eq!(done.refused.len(), 1, "{done:?}");
        assert_eq!(fs::read_to_string(full.join("a/b/mine")).unwrap(), "mine");
        assert!(full.join("d").is_dir());
    }
    assert_eq!(fs::read_to_string(&hollow).unwrap(), "precious");
    fs::remove_file(full.join("a/b/mine")).unwrap();
    assert_eq!(world.undo("1", false).restored, std::slice::from_ref(&full));
    assert_eq!(fs::read_to_string(&full).unwrap(), "precious");
}
