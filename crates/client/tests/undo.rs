//! Undo for any agent: files changed by whatever means in a turn are found, told apart by who was asked, and put back.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::time::Duration;
use tieline::schema::{
    Diff, Items, Patch, PermissionRequest, PermissionSubject, ToolCallContent, ToolCallContentChunk, ToolCallStatus,
    ToolCallSubject, ToolCallUpdate, ToolKind, Update,
};
use tieline_client::journal::{Begin, Changed, HowAsked, HowChanged, Journal, Recording};
use tieline_client::live::Conversation;
use tieline_client::undo::{Limits, Report, Undo, Unkept, Watch, scan};

struct World {
    _folder: tempfile::TempDir,
    root: PathBuf,
    journal: Journal,
    recording: Recording,
    undo: Undo,
    limits: Limits,
    conversation: Conversation,
}

impl World {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        let root = top.join("project");
        std::fs::create_dir(&root).unwrap();
        let journal = Journal::open(top.join("state/journal.db")).unwrap();
        let begin = Begin { agent: "a".into(), cwd: root.to_string_lossy().into_owned(), ..Begin::default() };
        let recording = journal.begin(begin).await.unwrap();
        let undo = Undo::open(&journal, recording.entry()).unwrap();
        Self {
            _folder: folder,
            root,
            journal,
            recording,
            undo,
            limits: Limits::default(),
            conversation: Conversation::default(),
        }
    }

    fn put(&self, name: &str, text: &str) {
        let path = self.root.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn get(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.root.join(name)).ok()
    }

    async fn watch(&self, turn: u64) -> Watch {
        self.undo
            .watch(turn, scan(Some(&self.journal), [self.root.clone()], &[], self.limits), &self.conversation)
            .await
            .unwrap()
    }

    fn names(&self, report: &Report) -> Vec<(String, HowChanged, HowAsked, bool)> {
        let name = |changed: &Changed| {
            Path::new(&changed.path).strip_prefix(&self.root).unwrap().to_string_lossy().into_owned()
        };
        report
            .changed
            .iter()
            .map(|changed| (name(changed), changed.how, changed.asked, changed.unkept.is_none()))
            .collect()
    }
}

fn unasked(report: &Report) -> usize {
    report.changed.iter().filter(|changed| changed.asked == HowAsked::Never).count()
}

fn edit(id: &str, path: &Path) -> ToolCallUpdate {
    let locations = vec![tieline::Location::new(path.to_string_lossy(), 1)];
    let call = ToolCallUpdate::new(id).title(format!("Edit {id}")).kind(ToolKind::Edit);
    ToolCallUpdate { locations: Patch::Set(Items(locations)), ..call }
}

fn request(call: ToolCallUpdate) -> PermissionRequest {
    let subject = ToolCallSubject { tool_call: call, ..Default::default() };
    PermissionRequest { subject: Some(PermissionSubject::ToolCall(subject)), ..PermissionRequest::default() }
}

#[tokio::test]
async fn a_turn_is_found_and_put_back() {
    use HowAsked::Never;
    let world = World::new().await;
    for (name, text) in [("kept", "same\n"), ("changed", "one\ntwo\n"), ("gone", "bye\n"), ("deep/er", "x\n")] {
        world.put(name, text);
    }
    let watch = world.watch(1).await;
    world.put("changed", "one\n2\n");
    world.put("new/folder/file", "hello\n");
    std::fs::remove_file(world.root.join("gone")).unwrap();
    // Written anew with the same content: nothing changed.
    world.put("deep/er", "x\n");
    let report = watch.after().await.unwrap();
    let want = [
        ("changed".to_owned(), HowChanged::Modified, Never, true),
        ("gone".to_owned(), HowChanged::Deleted, Never, true),
        ("new/folder/file".to_owned(), HowChanged::Added, Never, true),
    ];
    assert_eq!(world.names(&report), want);
    assert_eq!(unasked(&report), 3);
    assert!(watch.uncovered().is_empty(), "{:?}", watch.uncovered());
    let diff = report.changed[0].diff.as_deref().unwrap();
    assert!(diff.contains("-two\n+2\n"), "{diff}");
    // First only said, then done.
    assert_eq!(world.undo.last_turn(None).as_deref(), Some("1"));
    assert_eq!(world.undo.preview("1", None, false).restored.len(), 3);
    assert_eq!(world.get("changed").unwrap(), "one\n2\n");
    let done = world.undo.undo("1", None, false);
    assert!(done.refused.is_empty(), "{:?}", done.refused);
    assert_eq!((world.get("changed").as_deref(), world.get("gone").as_deref()), (Some("one\ntwo\n"), Some("bye\n")));
    assert!(!world.root.join("new").exists());
    assert_eq!(world.undo.last_turn(None), None);
    // An undo can be undone.
    world.undo.undo(&done.turn.unwrap(), None, false);
    assert_eq!((world.get("changed").as_deref(), world.get("gone")), (Some("one\n2\n"), None));
    assert_eq!(world.get("new/folder/file").as_deref(), Some("hello\n"));
}

// An agent that wants to hide what it does has these ways, and each is listed and put back.
#[tokio::test]
async fn nothing_that_matters_hides_from_the_list() {
    use std::os::unix::ffi::OsStrExt as _;
    let world = World::new().await;
    let strange = Path::new(std::ffi::OsStr::from_bytes(b"bad\xff"));
    let there = [
        (".git/config", "[core]\n"),
        (".git/info/exclude", ""),
        (".git/objects/ab", "data"),
        (".gitignore", "target/\n.env\n.vscode/\n.cargo/\nnode_modules/\n"),
        (".env", "KEY=1\n"),
        ("target/old", "built\n"),
        ("node_modules/a/b", "package\n"),
        ("src/deep/a", "a\n"),
    ];
    for (name, text) in there {
        world.put(name, text);
    }
    std::fs::write(world.root.join(strange), "old\n").unwrap();
    let elsewhere = world.root.with_file_name("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    std::fs::write(elsewhere.join("x"), "x\n").unwrap();
    // Times must be older than the look, as those of what is moved in from elsewhere usually are.
    tokio::time::sleep(Duration::from_millis(150)).await;
    let watch = world.watch(1).await;
    assert_eq!(watch.uncovered(), ["what .gitignore names: node_modules, target"]);
    for (name, text) in [
        (".git/hooks/pre-commit", "evil\n"),
        (".git/config", "[core]\npager = evil\n"),
        (".git/modules/sub/hooks/post-checkout", "evil\n"),
        (".git/info/exclude", "hidden-1\n"),
        (".git/objects/cd", "data"),
        ("hidden-1", "evil\n"),
        (".ignore", "*\n"),
        ("hidden-2", "evil\n"),
        ("sub/.gitignore", "*\n"),
        ("sub/hidden-3", "evil\n"),
        (".gitignore", "*\n"),
        (".vscode/tasks.json", "evil\n"),
        (".cargo/config.toml", "evil\n"),
        (".env", "KEY=2\n"),
        ("target/new", "built\n"),
    ] {
        world.put(name, text);
    }
    std::fs::write(world.root.join(strange), "new\n").unwrap();
    std::fs::rename(world.root.join("src"), world.root.join("lib")).unwrap();
    std::fs::rename(&elsewhere, world.root.join("moved")).unwrap();
    std::fs::remove_dir_all(world.root.join("node_modules")).unwrap();
    let report = watch.after().await.unwrap();
    let names: Vec<String> = world.names(&report).into_iter().map(|(name, ..)| name).collect();
    let want = [
        ".cargo/config.toml",
        ".env",
        ".git/config",
        ".git/hooks/pre-commit",
        ".git/info/exclude",
        ".git/modules/sub/hooks/post-checkout",
        ".gitignore",
        ".ignore",
        ".vscode/tasks.json",
        "bad\u{fffd}",
        "hidden-1",
        "hidden-2",
        "lib/deep/a",
        "moved/x",
        "node_modules",
        "src/deep/a",
        "sub/.gitignore",
        "sub/hidden-3",
    ];
    assert_eq!(names, want);
    assert_eq!(unasked(&report), want.len());
    let done = world.undo.undo("1", None, false);
    let left: Vec<String> = done.refused.iter().map(|one| one.path.display().to_string()).collect();
    // What was moved out of an ignored folder is not deleted where it is now.
    let want = ["node_modules", "moved/x"].map(|name| world.root.join(name).display().to_string());
    assert_eq!(left, want, "{:?}", done.refused);
    for (name, text) in there.iter().filter(|(name, _)| !name.starts_with("node_modules")) {
        assert_eq!(world.get(name).as_deref(), Some(*text), "{name}");
    }
    assert_eq!(std::fs::read(world.root.join(strange)).unwrap(), b"old\n");
    for gone in [".git/hooks/pre-commit", "lib", "sub", "hidden-1", "hidden-2", ".cargo/config.toml", ".ignore"] {
        assert!(!world.root.join(gone).exists(), "{gone}");
    }
}

#[tokio::test]
async fn each_awkward_path_stands_alone() {
    use std::os::unix::fs::{FileTypeExt as _, symlink};
    let world = World::new().await;
    let deep = format!("{}/x", vec!["d".repeat(200); 18].join("/"));
    let there =
        ["plain", "to-folder", "to-empty", "to-fifo", "to-link", "line\nbreak", "in-file/a", "in-link/b/c", &deep];
    for name in there {
        world.put(name, name);
    }
    let path = |name: &str| world.root.join(name);
    symlink("plain", path("link")).unwrap();
    symlink("loop-2", path("loop-1")).unwrap();
    symlink("loop-1", path("loop-2")).unwrap();
    let fifo = |name: &str| {
        rustix::fs::mknodat(rustix::fs::CWD, path(name), rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    };
    fifo("fifo");
    let watch = world.watch(1).await;
    for name in there {
        std::fs::remove_file(path(name)).unwrap();
    }
    std::fs::create_dir_all(path("to-folder/inside")).unwrap();
    world.put("to-folder/inside/new", "new");
    std::fs::create_dir(path("to-empty")).unwrap();
    fifo("to-fifo");
    let elsewhere = world.root.with_file_name("elsewhere");
    std::fs::create_dir_all(elsewhere.join("b")).unwrap();
    std::fs::write(elsewhere.join("b/c"), "theirs").unwrap();
    symlink(&elsewhere, path("to-link")).unwrap();
    std::fs::remove_dir(path("in-file")).unwrap();
    world.put("in-file", "file");
    std::fs::remove_dir_all(path("in-link")).unwrap();
    symlink(&elsewhere, path("in-link")).unwrap();
    std::fs::remove_file(path("link")).unwrap();
    world.put("link", "plain");
    std::fs::remove_file(path("loop-1")).unwrap();
    symlink("elsewhere", path("new-link")).unwrap();
    std::fs::remove_file(path("fifo")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(path("socket")).unwrap();
    let report = watch.after().await.unwrap();
    assert!(report.uncovered.is_empty(), "{report:?}");
    let done = world.undo.undo("1", None, false);
    // A FIFO has nothing that could be kept; everything else is as it was.
    let left: Vec<PathBuf> = done.refused.into_iter().map(|one| one.path).collect();
    assert_eq!(left, [path("fifo")]);
    for name in there {
        assert_eq!(world.get(name).as_deref(), Some(name));
    }
    assert_eq!(std::fs::read_link(path("link")).unwrap(), Path::new("plain"));
    assert_eq!(std::fs::read_link(path("loop-1")).unwrap(), Path::new("loop-2"));
    for gone in ["new-link", "socket"] {
        assert!(std::fs::symlink_metadata(path(gone)).is_err(), "{gone}");
    }
    // And back again: what an undo takes away can be had again, but for the socket and the FIFO.
    let done = world.undo.undo(&done.turn.unwrap(), None, false);
    assert!(std::fs::symlink_metadata(path("to-fifo")).is_ok_and(|meta| !meta.file_type().is_fifo()));
    assert_eq!(std::fs::read_link(path("new-link")).unwrap(), Path::new("elsewhere"));
    assert_eq!(std::fs::read_link(path("in-link")).unwrap(), elsewhere);
    assert_eq!(std::fs::read_to_string(elsewhere.join("b/c")).unwrap(), "theirs");
    assert_eq!(world.get("in-file").as_deref(), Some("file"));
    let left: Vec<PathBuf> = done.refused.into_iter().map(|one| one.path).collect();
    assert_eq!(left, [path("to-fifo"), path("socket")]);
}

#[tokio::test]
async fn what_changed_since_is_left_alone() {
    let world = World::new().await;
    world.put("a", "1\n");
    world.put("b", "1\n");
    let watch = world.watch(1).await;
    world.put("a", "2\n");
    world.put("b", "2\n");
    watch.after().await.unwrap();
    world.put("a", "mine\n");
    let preview = world.undo.preview("1", None, false);
    assert_eq!((preview.restored.len(), preview.refused.len()), (1, 1));
    let done = world.undo.undo("1", None, false);
    assert_eq!((done.restored.len(), done.refused.len()), (1, 1));
    assert_eq!((world.get("a").as_deref(), world.get("b").as_deref()), (Some("mine\n"), Some("1\n")));
    let done = world.undo.undo("1", Some(&world.root.join("a")), true);
    assert!(done.refused.is_empty());
    assert_eq!(world.get("a").as_deref(), Some("1\n"));
}

#[tokio::test]
async fn one_place_of_a_file_is_taken_back() {
    let world = World::new().await;
    world.put("a", "1\n2\n3\n4\n5\n");
    let watch = world.watch(1).await;
    world.put("a", "one\n2\n3\n4\nfive\n");
    watch.after().await.unwrap();
    let path = world.root.join("a");
    let hunks = world.undo.hunks("1", &path).unwrap();
    assert_eq!(hunks.len(), 2);
    world.undo.undo_hunk("1", &path, &hunks[1], false).unwrap();
    assert_eq!(world.get("a").as_deref(), Some("one\n2\n3\n4\n5\n"));
    world.undo.undo_hunk("1", &path, &hunks[1], false).unwrap_err();
    world.undo.undo("1", Some(&path), false);
    assert_eq!(world.get("a").as_deref(), Some("1\n2\n3\n4\n5\n"));
}

#[tokio::test]
async fn who_was_asked_is_told_apart() {
    let world = World::new().await;
    for name in ["asked", "said", "secret", "ours"] {
        world.put(name, "before\n");
    }
    let watch = world.watch(1).await;
    // One was asked about and allowed, one was only announced, one came without a word, one went through us.
    world.conversation.apply(&Update::ToolCall(Box::new(edit("t1", &world.root.join("asked")))));
    watch.allowed(&request(ToolCallUpdate::new("t1"))).await;
    let diff = Diff::of(world.root.join("said").to_string_lossy(), Some("before\n".into()), "after\n");
    world.conversation.apply(&Update::ToolCall(Box::new(ToolCallUpdate::new("t2").title("Quietly"))));
    let content =
        ToolCallContentChunk { tool_call_id: "t2".into(), content: ToolCallContent::Diff(diff), ..Default::default() };
    world.conversation.apply(&Update::ToolCallContent(Box::new(content)));
    watch.writing(&world.root.join("ours")).await;
    for name in ["asked", "said", "secret", "ours"] {
        world.put(name, "after\n");
    }
    let report = watch.after().await.unwrap();
    let found: Vec<(HowAsked, Option<&str>)> =
        report.changed.iter().map(|changed| (changed.asked, changed.tool.as_deref())).collect();
    let want = [
        (HowAsked::Asked, Some("Edit t1")),
        (HowAsked::Asked, None),
        (HowAsked::Never, Some("Quietly")),
        (HowAsked::Never, None),
    ];
    assert_eq!(found, want);
}

// An agent with its own tools gets one command allowed, and does other things before it, beside it and after it.
#[tokio::test]
async fn one_allowed_command_covers_what_changes_while_it_runs_and_nothing_else() {
    use HowAsked::{Command, Never};
    let world = World::new().await;
    for name in ["before", "twice", "late", "gone", "built", "gone early"] {
        world.put(name, "old\n");
    }
    let watch = world.watch(1).await;
    world.put("before", "by the agent\n");
    world.put("twice", "by the agent\n");
    std::fs::remove_file(world.root.join("gone early")).unwrap();
    watch.allowed(&request(ToolCallUpdate::new("t").kind(ToolKind::Execute))).await;
    // A second one that begins and ends meanwhile ends nothing.
    watch.command("terminal-1").await;
    watch.ended("terminal-1").await;
    for name in ["built", "made", "late", "twice"] {
        world.put(name, "by the command\n");
    }
    std::fs::remove_file(world.root.join("gone")).unwrap();
    watch.ended("t").await;
    world.put("late", "by the agent again\n");
    world.put("new", "by the agent\n");
    // What the next command changes again is still a command's.
    watch.command("terminal-2").await;
    world.put("made", "by another command\n");
    let report = watch.after().await.unwrap();
    let found: Vec<(String, HowAsked)> =
        world.names(&report).into_iter().map(|(name, _, asked, _)| (name, asked)).collect();
    let want = [
        ("before", Never),
        ("built", Command),
        ("gone", Command),
        ("gone early", Never),
        ("late", Never),
        ("made", Command),
        ("new", Never),
        ("twice", Never),
    ];
    assert_eq!(found, want.map(|(name, asked)| (name.to_owned(), asked)));
}

#[tokio::test]
async fn without_a_place_to_keep_anything_the_list_is_the_same() {
    let world = World::new().await;
    world.put("a", "old\n");
    world.put("gone", "old\n");
    let scanning = scan(None, [world.root.clone()], &[], world.limits);
    let undo = Undo::in_memory(&scanning).unwrap();
    let watch = undo.watch(1, scanning, &world.conversation).await.unwrap();
    world.put("a", "new\n");
    world.put("b", "new\n");
    std::fs::remove_file(world.root.join("gone")).unwrap();
    let report = watch.after().await.unwrap();
    let want = [("a", HowChanged::Modified), ("b", HowChanged::Added), ("gone", HowChanged::Deleted)];
    let want = want.map(|(name, how)| (name.to_owned(), how, HowAsked::Never, false));
    assert_eq!(world.names(&report), want);
    assert_eq!(report.unkept_text(&world.root), ["can't be undone (its old content could not be stored): a, b, gone"]);
}

// More files than an undo may write down one by one.
#[tokio::test]
async fn thousands_of_files_are_put_back_in_a_few_writes() {
    let world = World::new().await;
    for number in 0..1000 {
        world.put(&format!("d{}/f{number}", number % 50), "old\n");
    }
    let watch = world.watch(1).await;
    for number in 0..1000 {
        world.put(&format!("d{}/f{number}", number % 50), "new\n");
    }
    assert_eq!(watch.after().await.unwrap().changed.len(), 1000);
    let done = world.undo.undo("1", None, false);
    assert_eq!((done.restored.len(), done.refused.len()), (1000, 0));
    assert_eq!(world.get("d7/f907").as_deref(), Some("old\n"));
    let again = world.undo.undo(&done.turn.unwrap(), None, false);
    assert_eq!((again.restored.len(), world.get("d7/f907").as_deref()), (1000, Some("new\n")));
}

// An agent that touches thousands of files puts none of the person's beyond undo; what is beyond it is new, counted and said.
#[tokio::test]
async fn no_file_is_pushed_out_of_undo_by_many_others() {
    let mut world = World::new().await;
    // Everything is seen, however busy the machine is.
    (world.limits.files, world.limits.time) = (40_000, Duration::from_mins(1));
    for folder in ["aa", "new", "src", "zz/deep"] {
        std::fs::create_dir_all(world.root.join(folder)).unwrap();
    }
    let put_all = |text: &str| {
        for number in 0..10_100 {
            std::fs::write(world.root.join(format!("aa/{number}")), text).unwrap();
        }
        for name in ["src/main.rs", "zz/deep/last.txt"] {
            world.put(name, text);
        }
    };
    put_all("old");
    let watch = world.watch(1).await;
    put_all("new!");
    for number in 0..9_901 {
        std::fs::write(world.root.join(format!("new/{number}")), "x").unwrap();
    }
    let report = watch.after().await.unwrap();
    let unkept: Vec<_> = report.changed.iter().filter(|changed| changed.unkept.is_some()).collect();
    assert!(unkept.iter().all(|changed| (changed.how, changed.unkept) == (HowChanged::Added, Some(Unkept::Many))));
    let told = report.unkept_text(&world.root);
    let why = "can't be undone (more files were changed than are remembered): new/";
    assert!(unkept.len() == 3 && told.len() == 1 && told[0].starts_with(why), "{told:?}");
    let listed = world.undo.files("1");
    let beyond: Vec<_> = listed.iter().filter(|file| file.unkept == Some(Unkept::Many)).collect();
    assert_eq!((listed.len(), beyond.len()), (20_003, 3));
    for name in ["src/main.rs", "zz/deep/last.txt"] {
        let path = world.root.join(name);
        assert_eq!(world.undo.last_turn(Some(&path)).as_deref(), Some("1"));
        assert_eq!(world.undo.undo("1", Some(&path), false).restored, [path]);
        assert_eq!(world.get(name).as_deref(), Some("old"));
    }
    let one = world.undo.undo("1", Some(&beyond[0].path), false);
    assert_eq!((one.restored.len(), one.refused.len()), (0, 1));
    assert!(one.refused[0].to_string().ends_with("more files were changed than are remembered"));
    let all = world.undo.preview("1", None, false);
    assert_eq!((all.restored.len(), all.refused.len()), (19_998, 1));
    assert!(all.refused[0].to_string().contains(" and 2 more can't be put back: "), "{}", all.refused[0]);
    // What is beyond it and gone is no matter any more.
    for file in beyond {
        std::fs::remove_file(&file.path).unwrap();
    }
    assert!(world.undo.preview("1", None, false).refused.is_empty());
}

// The reason is the right one: too large is not changed since, and one that was made can be removed again.
#[tokio::test]
async fn large_files_are_told_apart() {
    let mut world = World::new().await;
    world.limits.each = 100;
    world.put("large", &"x".repeat(200));
    world.put("gone", &"x".repeat(200));
    let watch = world.watch(1).await;
    world.put("large", &"y".repeat(300));
    world.put("made", &"z".repeat(300));
    std::fs::remove_file(world.root.join("gone")).unwrap();
    let report = watch.after().await.unwrap();
    assert_eq!(report.unkept_text(&world.root), ["can't be undone (it was too large to be copied): gone, large"]);
    let done = world.undo.undo("1", None, false);
    let refused: Vec<String> = done.refused.iter().map(ToString::to_string).collect();
    assert_eq!(refused.len(), 2);
    assert!(refused.iter().all(|why| why.ends_with("can't be put back: it was too large to be copied")), "{refused:?}");
    assert_eq!((done.restored, world.get("made")), (vec![world.root.join("made")], None));
}

// Deeper than a path can say: not in silence.
#[tokio::test]
async fn what_is_too_deep_or_locked_is_said_after_the_turn() {
    let world = World::new().await;
    let watch = world.watch(1).await;
    let name = "n".repeat(250);
    let script = format!("for i in $(seq 20); do mkdir {name} && cd {name} || exit 1; done; echo x > hidden");
    let made = std::process::Command::new("bash").arg("-c").arg(&script).current_dir(&world.root).status().unwrap();
    assert!(made.success());
    let report = watch.after().await.unwrap();
    let unseen: Vec<&String> = report.unseen.iter().collect();
    assert!(
        matches!(&unseen[..], [one] if one.starts_with("folders with paths of more than 4,096 bytes: nnn")),
        "{unseen:?}"
    );
    let gone = std::process::Command::new("rm").arg("-rf").arg(world.root.join(&name)).status().unwrap();
    assert!(gone.success());
}

// The clock is paused, and stands while files are looked at: the question takes two seconds, the test none.
#[tokio::test(start_paused = true)]
async fn what_changes_while_a_question_stands_is_remembered_apart() {
    use HowAsked::{Never, Waiting};
    let world = World::new().await;
    for name in ["agent", "hand", "both", "mixed"] {
        world.put(name, "old\n");
    }
    let watch = world.watch(1).await;
    world.put("mixed", "by the agent\n");
    let question = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        for name in ["hand", "new", "both", "mixed"] {
            world.put(name, "by hand\n");
        }
    };
    watch.asking(Some("t"), question).await;
    world.put("agent", "by the agent\n");
    world.put("both", "by hand\nby the agent\n");
    let report = watch.after().await.unwrap();
    let names: Vec<_> = world.names(&report).into_iter().map(|(name, _, asked, _)| (name, asked)).collect();
    let want =
        [("agent", Never), ("both", Never), ("both", Waiting), ("hand", Waiting), ("mixed", Never), ("new", Waiting)];
    assert_eq!(names, want.map(|(name, asked)| (name.to_owned(), asked)));
    let done = world.undo.undo("1", None, false);
    assert_eq!(done.refused.iter().map(|one| &one.path).collect::<Vec<_>>(), [&world.root.join("mixed")]);
    let now = |name| world.get(name).unwrap_or_default();
    assert_eq!([now("agent"), now("both"), now("hand"), now("new")], ["old\n", "by hand\n", "by hand\n", "by hand\n"]);
    // Whoever it was, it can be had back, also what came before the agent's own part.
    let done = world.undo.undo(&world.undo.unclear(Some("1")).unwrap(), None, false);
    assert_eq!((done.restored.len(), done.refused.len()), (3, 0));
    assert_eq!([now("both"), now("hand"), now("new")], ["old\n", "old\n", ""]);
    // A rule that answers at once is no question, and while another tool is at work, nobody can say who it was.
    let watch = world.watch(2).await;
    watch.asking(Some("t"), async { world.put("hand", "at once\n") }).await;
    assert_eq!(watch.after().await.unwrap().changed.len(), 1);
    let watch = world.watch(3).await;
    let busy = ToolCallUpdate::new("other").title("Build").status(ToolCallStatus::InProgress);
    world.conversation.apply(&Update::ToolCall(Box::new(busy)));
    let question = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        world.put("hand", "built\n");
    };
    watch.asking(Some("t"), question).await;
    assert_eq!(watch.after().await.unwrap().changed.len(), 1);
    // A question that names no call is asked for one of those at work; of two, the other one is at work.
    let is_apart = async |turn: u64| {
        let watch = world.watch(turn).await;
        let question = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            world.put("hand", &format!("in turn {turn}\n"));
        };
        watch.asking(None, question).await;
        watch.after().await.unwrap().changed.iter().all(|changed| changed.asked == Waiting)
    };
    assert!(is_apart(4).await);
    let second = ToolCallUpdate::new("second").title("Test").status(ToolCallStatus::InProgress);
    world.conversation.apply(&Update::ToolCall(Box::new(second)));
    assert!(!is_apart(5).await);
}

#[tokio::test]
async fn what_another_session_changes_is_that_sessions() {
    let world = World::new().await;
    let begin = Begin { agent: "b".into(), cwd: world.root.to_string_lossy().into_owned(), ..Begin::default() };
    let other = world.journal.begin(begin).await.unwrap();
    let theirs = Undo::open(&world.journal, other.entry()).unwrap();
    let conversation = Conversation::default();
    let scanning = || scan(Some(&world.journal), [world.root.clone()], &[], world.limits);
    for (turn, other_first) in [(1, true), (2, false)] {
        let (a, b) = (format!("a{turn}"), format!("b{turn}"));
        let watch = world.watch(turn).await;
        let second = theirs.watch(turn, scanning(), &conversation).await.unwrap();
        world.conversation.apply(&Update::ToolCall(Box::new(edit("a", &world.root.join(&a)))));
        conversation.apply(&Update::ToolCall(Box::new(edit("b", &world.root.join(&b)))));
        world.put(&a, "a\n");
        world.put(&b, "b\n");
        let (ours, other) = if other_first {
            let other = second.after().await.unwrap();
            (watch.after().await.unwrap(), other)
        } else {
            (watch.after().await.unwrap(), second.after().await.unwrap())
        };
        for (report, name, not, ends_first) in [(ours, &a, &b, !other_first), (other, &b, &a, other_first)] {
            let names: Vec<_> = world.names(&report).into_iter().map(|(name, _, asked, _)| (name, asked)).collect();
            let own = (name.clone(), HowAsked::Never);
            if ends_first {
                // Who ends first can't tell that it was the other one: it is listed, and an undo does not take it for certain.
                let mut want = [own, (not.clone(), HowAsked::Beside)];
                want.sort_by(|a, b| a.0.cmp(&b.0));
                assert_eq!(names, want);
                assert!(report.meanwhile.is_empty());
            } else {
                assert_eq!(names, [own]);
                assert_eq!(report.meanwhile.into_values().collect::<Vec<_>>(), [[world.root.join(not)]]);
            }
        }
    }
}

// The built-in agent has sessions that only its own store knows: they can't be named as the place to undo something.
#[tokio::test]
async fn what_a_session_changes_that_the_journal_does_not_know_is_the_agents_or_may_be() {
    let mut world = World::new().await;
    let agents = Journal::open(world.journal.path().with_file_name("store.db")).unwrap();
    let cwd = world.root.to_string_lossy().into_owned();
    let begin = || Begin { agent: "b".into(), cwd: cwd.clone(), ..Begin::default() };
    for (turn, is_ours, how) in [(1, false, HowAsked::Beside), (2, true, HowAsked::Never)] {
        let inner = agents.begin(begin()).await.unwrap();
        if is_ours {
            world.recording.moved(inner.id().to_string(), false).await.unwrap();
            world.undo = Undo::open(&world.journal, world.recording.entry()).unwrap();
        }
        world.put("a", "old");
        let watch = world.watch(turn).await;
        let undo = Undo::open(&agents, inner.entry()).unwrap();
        let scanning = scan(Some(&agents), [world.root.clone()], &[], world.limits);
        let second = undo.watch(1, scanning, &Conversation::default()).await.unwrap();
        world.put("a", "new");
        assert_eq!(second.after().await.unwrap().changed.len(), 1);
        let report = watch.after().await.unwrap();
        assert_eq!(report.meanwhile_text(&world.root), [] as [&str; 0]);
        assert_eq!(world.names(&report), [("a".to_owned(), HowChanged::Modified, how, true)]);
        let turn = if is_ours { turn.to_string() } else { world.undo.unclear(None).unwrap() };
        assert_eq!(world.undo.undo(&turn, None, false).refused.len(), 0);
        assert_eq!(world.get("a").as_deref(), Some("old"));
    }
}

#[tokio::test]
async fn what_is_not_covered_is_said_and_what_is_named_is_covered_all_the_same() {
    let mut world = World::new().await;
    world.limits = Limits { each: 100, files: 50, total: 10_000, time: Duration::from_mins(1) };
    world.put(".gitignore", "ignored\ntarget/\n");
    world.put("ignored", "before\n");
    world.put("target/out", "before\n");
    world.put("large", &"x".repeat(200));
    let watch = world.watch(1).await;
    world.conversation.apply(&Update::ToolCall(Box::new(edit("t", &world.root.join("ignored")))));
    watch.allowed(&request(ToolCallUpdate::new("t"))).await;
    world.put("ignored", "after\n");
    world.put("target/out", "after\n");
    world.put("large", &"y".repeat(201));
    // Now it is ignored too, and must not seem to be gone.
    world.put(".gitignore", "ignored\ntarget/\nlarge\n");
    let report = watch.after().await.unwrap();
    assert_eq!(watch.uncovered(), ["files larger than 0 KiB", "what .gitignore names: target"]);
    let want = [
        (".gitignore".to_owned(), HowChanged::Modified, HowAsked::Never, true),
        ("ignored".to_owned(), HowChanged::Modified, HowAsked::Asked, true),
        ("large".to_owned(), HowChanged::Modified, HowAsked::Never, false),
    ];
    assert_eq!(world.names(&report), want);
    let done = world.undo.undo("1", None, false);
    assert_eq!((done.restored.len(), done.refused.len()), (2, 1));
    assert_eq!(world.get("ignored").as_deref(), Some("before\n"));
    // More files than are looked at: said, and nothing is called new that may have been there.
    world.limits.files = 1;
    let watch = world.watch(2).await;
    world.put("zzz", "?");
    let report = watch.after().await.unwrap();
    assert!(watch.uncovered().contains(&"files beyond the first 1".to_owned()), "{:?}", watch.uncovered());
    assert!(report.changed.iter().all(|changed| changed.how != HowChanged::Added));
}

#[tokio::test]
async fn only_what_changed_is_copied_again() {
    let world = World::new().await;
    world.put("a", &"a".repeat(10_000));
    world.put("b", &"b".repeat(10_000));
    // Times must be old enough to be trusted.
    let old = std::time::SystemTime::now() - Duration::from_mins(1);
    for name in ["a", "b"] {
        std::fs::File::open(world.root.join(name)).unwrap().set_modified(old).unwrap();
    }
    tokio::time::sleep(Duration::from_millis(150)).await;
    let pack = || {
        let base = std::fs::read_dir(world.journal.path().with_file_name("undo").join("base")).unwrap();
        base.flatten().map(|entry| std::fs::metadata(entry.path().join("pack")).unwrap().len()).sum::<u64>()
    };
    world.watch(1).await.after().await.unwrap();
    assert_eq!(pack(), 20_000);
    world.watch(2).await.after().await.unwrap();
    assert_eq!(pack(), 20_000);
    world.put("a", "short");
    world.watch(3).await.after().await.unwrap();
    assert_eq!(pack(), 20_005);
}

#[tokio::test]
async fn a_turn_that_was_cut_off_is_settled() {
    let world = World::new().await;
    world.put("a", "1\n");
    assert!(world.undo.settle(&world.recording).await.unwrap().is_none());
    // Its process is killed: nobody looks again.
    drop(world.watch(1).await);
    world.put("a", "2\n");
    let (turn, report) = world.undo.settle(&world.recording).await.unwrap().unwrap();
    assert_eq!((&*turn, report.changed.len()), ("1", 1));
    assert!(world.undo.settle(&world.recording).await.unwrap().is_none());
    world.undo.undo("1", None, false);
    assert_eq!(world.get("a").as_deref(), Some("1\n"));
    // Whoever looks in between, and however often.
    drop(world.watch(2).await);
    world.put("a", "3\n");
    scan_again(&world).await;
    scan_again(&world).await;
    let (_, report) = world.undo.settle(&world.recording).await.unwrap().unwrap();
    assert_eq!((report.changed.len(), report.uncovered.len()), (1, 0), "{report:?}");
    world.undo.undo("2", None, false);
    assert_eq!(world.get("a").as_deref(), Some("1\n"));
    // Nothing is left of it.
    let base = std::fs::read_dir(world.journal.path().with_file_name("undo").join("base")).unwrap().flatten().next();
    let held = std::fs::read_dir(base.unwrap().path()).unwrap().flatten();
    let held = held.filter(|entry| entry.file_name().to_string_lossy().starts_with("held-")).count();
    assert_eq!(held, 2, "an index and copies of the last one; who looked then had settled the first one");
    // A record that can't be read is no reason to stop, and is said once.
    std::fs::write(world.journal.undo_folder(world.recording.id()).join("open.json"), "{").unwrap();
    assert!(world.undo.settle(&world.recording).await.unwrap_err().to_string().contains("is not known"));
    assert!(world.undo.settle(&world.recording).await.unwrap().is_none());
}

// Killed when a turn's changes are remembered, but the journal was not told; or was, and the turn is still open.
#[tokio::test]
async fn a_turn_that_the_journal_was_not_told_of_is_settled() {
    for is_told in [false, true] {
        let world = World::new().await;
        world.put("a", "1\n");
        let recording = world.recording;
        let id = recording.id().clone();
        recording.prompt(&[]).await.unwrap();
        let scanning = scan(Some(&world.journal), [world.root.clone()], &[], world.limits);
        let watch = world.undo.watch(1, scanning, &world.conversation).await.unwrap();
        std::fs::write(world.root.join("a"), "2\n").unwrap();
        let report = watch.judge().await.unwrap();
        if is_told {
            recording.changes(&report.changed).await.unwrap();
        }
        drop((watch, recording, world.undo));
        let told = tieline_client::undo::settle(&world.journal).await;
        assert!(told.len() == 1 && told[0].contains("counts as its doing: a"), "{is_told}: {told:?}");
        assert!(tieline_client::undo::settle(&world.journal).await.is_empty(), "{is_told}: once");
        let changed = world.journal.changed(Some(&world.root)).await.unwrap();
        assert!(changed.iter().any(|entry| entry.id == id), "{is_told}: {changed:?}");
        let story = world.journal.story(&id).await.unwrap();
        assert_eq!(story.turns.iter().map(|turn| turn.changes.len()).sum::<usize>(), 1, "{is_told}");
        let undo = Undo::open(&world.journal, &story.entry).unwrap();
        undo.undo(&undo.last_turn(None).unwrap(), None, false);
        assert_eq!(std::fs::read_to_string(world.root.join("a")).unwrap(), "1\n", "{is_told}");
    }
}

// As on a disk that is full: the turn is over, and nothing can be written down of it, or not all.
#[tokio::test]
async fn what_could_not_be_remembered_is_settled_later() {
    let world = World::new().await;
    world.put("a", "1\n");
    let folder = world.journal.undo_folder(world.recording.id());
    for (turn, name) in [(1, "index.json"), (2, "blobs")] {
        let watch = world.watch(turn).await;
        world.put("a", "2\n");
        let (path, aside) = (folder.join(name), folder.join("aside"));
        let was_there = std::fs::rename(&path, &aside).is_ok();
        match name {
            "blobs" => std::fs::write(&path, "").unwrap(),
            _ => std::fs::create_dir_all(path.join("in the way")).unwrap(),
        }
        let report = watch.after().await.unwrap();
        assert_eq!(report.changed[0].unkept, Some(Unkept::Nowhere), "{name}");
        assert!(report.uncovered[0].ends_with("`tieline undo` tries again when there is room"), "{name}: {report:?}");
        drop(watch);
        assert!(
            !world.undo.settle(&world.recording).await.unwrap().unwrap().1.uncovered.is_empty(),
            "{name}: there is still no room"
        );
        let _ = std::fs::remove_file(&path).or_else(|_| std::fs::remove_dir_all(&path));
        assert!(!was_there || std::fs::rename(&aside, &path).is_ok());
        let (settled, report) = world.undo.settle(&world.recording).await.unwrap().unwrap();
        assert_eq!((settled, report.changed[0].unkept, report.uncovered.len()), (turn.to_string(), None, 0), "{name}");
        assert!(world.undo.settle(&world.recording).await.unwrap().is_none(), "{name}");
        world.undo.undo(&turn.to_string(), None, false);
        assert_eq!(world.get("a").as_deref(), Some("1\n"), "{name}");
    }
}

async fn scan_again(world: &World) {
    let begin = Begin { agent: "b".into(), cwd: world.root.to_string_lossy().into_owned(), ..Begin::default() };
    let other = world.journal.begin(begin).await.unwrap();
    let undo = Undo::open(&world.journal, other.entry()).unwrap();
    drop(
        undo.watch(1, scan(Some(&world.journal), [world.root.clone()], &[], world.limits), &world.conversation)
            .await
            .unwrap(),
    );
}

#[tokio::test]
async fn keys_are_watched_but_never_copied() {
    let world = World::new().await;
    world.put(".ssh/id", "s3cret\n");
    let watch = world.watch(1).await;
    world.put(".ssh/id", "stolen\n");
    world.put(".ssh/new", "t0ken\n");
    let report = watch.after().await.unwrap();
    assert_eq!(unasked(&report), 2);
    assert!(report.changed.iter().all(|changed| changed.diff.is_none()), "{report:?}");
    assert!(watch.uncovered().contains(&"the content of keys, logins and histories".to_owned()), "{report:?}");
    // Nothing of it lies anywhere.
    let mut folders = vec![world.journal.path().parent().unwrap().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            if entry.path().is_dir() {
                folders.push(entry.path());
                continue;
            }
            let bytes = std::fs::read(entry.path()).unwrap();
            let found = ["s3cret", "stolen", "t0ken"]
                .iter()
                .any(|part| bytes.windows(part.len()).any(|piece| piece == part.as_bytes()));
            assert!(!found, "{}", entry.path().display());
        }
    }
}

#[tokio::test]
async fn copies_of_folders_that_nobody_works_in_go() {
    let world = World::new().await;
    world.put("a", "1\n");
    let base = world.journal.path().with_file_name("undo").join("base");
    // Named as such copies are; what is not is none of ours.
    let (old, young, other) = ("0".repeat(32), "1".repeat(32), "somebody's".to_owned());
    for (name, age) in [(&old, 40), (&young, 1), (&other, 40)] {
        let folder = base.join(name);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("lock"), "").unwrap();
        let index = std::fs::File::create(folder.join("index.json")).unwrap();
        index.set_modified(std::time::SystemTime::now() - Duration::from_hours(24 * age)).unwrap();
    }
    world.watch(1).await.after().await.unwrap();
    assert!(!base.join(old).exists() && base.join(young).exists() && base.join(other).exists());
}
