//! Tries to get out of the workspace through every tool of the agent, in a mode where nobody stands in the way.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod common;
#[path = "../../host/tests/common/ways_out.rs"]
mod ways_out;

use common::{Client, Place};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// What stands in files outside. No call names it whole, so whoever says it has read it.
const SECRET: &str = "S3CRET-CONTENT\n";
/// A name outside that no call names.
const HIDDEN: &str = "hidden-name-Q7";
const ARGUMENTS: [&str; 5] = ["--script", "puppet", "--mode", "auto", "--no-store"];

struct World {
    place: Place,
    open: fs::File,
}

impl World {
    /// Not below `/tmp`: there, commands have a folder of their own, and would not even see the outside.
    fn new() -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let top = folder.path();
        for made in ["project/sub/deep", "project-evil", "extra", "outside/dir"] {
            fs::create_dir_all(top.join(made)).unwrap();
        }
        for secret in ["outside/secret", "outside/dir/secret", "project-evil/secret", "secret"] {
            fs::write(top.join(secret), SECRET).unwrap();
        }
        fs::write(top.join("outside").join(HIDDEN), SECRET).unwrap();
        for (file, text) in [("project/file", "fine\n"), ("project/sub/deep/file", "fine\n"), ("extra/file", "fine\n")]
        {
            fs::write(top.join(file), text).unwrap();
        }
        let open = fs::File::open(top.join("outside/secret")).unwrap();
        let place = Place { folder };
        let world = Self { place, open };
        ways_out::make(&world.at("project"), std::os::fd::AsRawFd::as_raw_fd(&world.open));
        symlink("../outside/secret", world.at("project/many60")).unwrap();
        fifo(&world.at("project/fifo"));
        world
    }

    fn at(&self, path: &str) -> PathBuf {
        self.place.folder.path().canonicalize().unwrap().join(path)
    }

    fn open(&self, dialect: &'static str) -> Client {
        let mut client = Client::start(&self.place, dialect, &ARGUMENTS);
        let params =
            json!({"cwd": self.place.project(), "additionalDirectories": [self.at("extra")], "mcpServers": []});
        client.session = client.call("session/new", params)["sessionId"].as_str().unwrap().into();
        client
    }

    /// Everything that is not in the workspace.
    fn others(&self) -> BTreeMap<PathBuf, String> {
        let mut found = BTreeMap::new();
        let mut todo = vec![self.at("outside"), self.at("project-evil")];
        while let Some(folder) = todo.pop() {
            found.insert(folder.clone(), String::new());
            for entry in fs::read_dir(&folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    todo.push(path);
                } else {
                    let text = fs::read_to_string(&path).unwrap();
                    found.insert(path, text);
                }
            }
        }
        found.insert(self.at("secret"), fs::read_to_string(self.at("secret")).unwrap());
        let names: Vec<_> = fs::read_dir(self.at("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        // The store and the configuration are beside it; nothing else may appear.
        let known = ["project", "project-evil", "extra", "outside", "secret", "state", "config"];
        assert!(names.iter().all(|name| known.iter().any(|known| name == *known)), "{names:?}");
        found
    }

    /// The attempts, and whether the name leads to a secret for whoever just opens it.
    fn attempts(&self) -> Vec<(&'static str, String, bool)> {
        let top = self.at("").to_str().unwrap().trim_end_matches('/').to_owned();
        let rel = |path: &str| path.to_owned();
        let abs = |path: &str| format!("{top}/{path}");
        vec![
            ("dot-dot", rel("../outside/secret"), true),
            ("dot, then dot-dot", rel("./../outside/secret"), true),
            ("down and up again", rel("sub/../../outside/secret"), true),
            ("with dots in between", rel("sub/./.././../outside/secret"), true),
            ("a file beside the root", rel("../secret"), true),
            ("a folder outside", rel("../outside"), false),
            ("dot-dot alone", rel(".."), false),
            ("up beyond the top", rel("../../../../../../../../../../../../etc/passwd"), false),
            ("whole path", abs("outside/secret"), true),
            ("whole path through the root and up", abs("project/../outside/secret"), true),
            ("a name that begins like the root", abs("project-evil/secret"), true),
            ("the same, relative", rel("../project-evil/secret"), true),
            ("out of the second root", abs("extra/../outside/secret"), true),
            ("two slashes", format!("/{top}/outside/secret"), true),
            ("a system file", rel("/etc/passwd"), false),
            ("the top of the system", rel("/"), false),
            ("magic link to the top", format!("/proc/self/root{top}/outside/secret"), true),
            ("magic link to a folder", rel("/proc/self/cwd"), false),
            ("magic link to a file", rel("/proc/self/fd/0"), false),
            ("magic link, by another name", rel("/dev/fd/0"), false),
            ("link to a file", rel("abs-file"), true),
            ("link to a folder", rel("abs-dir/secret"), true),
            ("link to a folder, itself", rel("abs-dir"), false),
            ("relative link to a file", rel("rel-file"), true),
            ("relative link to a folder", rel("rel-dir/secret"), true),
            ("relative link to a folder, deeper", rel("rel-dir/dir/secret"), true),
            ("link with a messy target", rel("messy"), true),
            ("three links in a row", rel("chain1"), true),
            ("links to a folder in a row", rel("hop1/secret"), true),
            ("link from deep down", rel("sub/deep/up/secret"), true),
            ("link to the parent", rel("up/outside/secret"), true),
            ("link to the top", rel("slash/etc/passwd"), false),
            ("link to the top and back", format!("slash{top}/outside/secret"), true),
            ("link to nothing yet", rel("dangling"), false),
            ("link to nothing yet, whole path", rel("dangling-abs"), false),
            ("link to no folder yet", rel("dangling-dir/new"), false),
            ("link to a link to nothing", rel("dangling-chain"), false),
            ("link to a name like the root", rel("prefix"), true),
            ("link into the second root and out", rel("through-extra"), true),
            ("link out of the second root", abs("extra/way-out"), true),
            ("link to a magic link", format!("proc-root{top}/outside/secret"), true),
            ("link to an open file", rel("proc-pid-fd"), true),
            ("link to an open file of its own", rel("proc-fd"), true),
            ("link to a magic link, /dev/fd", rel("dev-fd"), true),
            ("link to its own folder", rel("proc-cwd/secret"), false),
            ("link to the parent, deeper", rel("sub/top/outside/secret"), true),
            ("link through the root and up", rel("roundabout"), true),
            ("up from behind a link", rel("inlink/../../../outside/secret"), true),
            ("link to itself", rel("self"), false),
            ("links in a circle", rel("loop1/secret"), false),
            ("sixty links in a row", rel("many0"), false),
            ("zero byte", rel("file\0/../../outside/secret"), false),
            ("a line end in a name", rel("sub\n/../../outside/secret"), false),
            ("a line end behind", rel("../outside/secret\n"), false),
            ("a file as a folder", rel("file/../../outside/secret"), false),
            ("FIFO", rel("fifo"), false),
            ("wide dots", rel("\u{ff0e}\u{ff0e}/outside/secret"), false),
            ("two-dot leader", rel("\u{2025}/outside/secret"), false),
            ("slashes that are none", rel("..\u{2215}outside\u{2215}secret"), false),
            ("other case", rel("REL-DIR/secret"), false),
            ("back slashes", rel("..\\outside\\secret"), false),
            ("percent signs", rel("%2e%2e/outside/secret"), false),
            ("a home", rel("~/../outside/secret"), false),
            ("a URL", format!("file://{top}/outside/secret"), false),
        ]
    }
}

fn fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// Every tool that takes a path, called with this one.
fn calls(path: &str) -> Vec<(&'static str, Value)> {
    let diff = |old: &str| format!("--- {old}\n+++ {path}\n@@ -0,0 +1 @@\n+patched\n");
    vec![
        ("read", json!({"path": path})),
        ("list", json!({"path": path})),
        ("glob", json!({"path": path, "pattern": "**/*"})),
        ("glob", json!({"pattern": path})),
        ("glob", json!({"pattern": format!("{path}/**")})),
        ("grep", json!({"path": path, "pattern": "S.CRET.CON"})),
        ("grep", json!({"pattern": "S.CRET.CON", "glob": path})),
        ("edit", json!({"path": path, "edits": [{"old": "3CRET-CON", "new": "x"}]})),
        ("patch", json!({"patch": diff(path)})),
        ("patch", json!({"patch": diff("/dev/null")})),
        ("write", json!({"path": path, "content": "written"})),
        ("write", json!({"path": format!("{path}/new"), "content": "written"})),
        ("move", json!({"from": "file", "to": path})),
        ("move", json!({"from": path, "to": "stolen"})),
        ("delete", json!({"path": path})),
    ]
}

fn says_nothing(client: &Client, what: &str) {
    let heard = Value::from(client.updates.clone()).to_string() + &Value::from(client.asked.clone()).to_string();
    assert!(!heard.contains(SECRET.trim_end()), "{what}: what is outside was read");
    assert!(!heard.contains(HIDDEN), "{what}: what is outside was listed");
}

#[test]
fn no_tool_reads_or_writes_outside() {
    let world = World::new();
    let attempts = world.attempts();
    for (what, path, leads) in &attempts {
        let name = world.place.project().join(path);
        // Whoever reads a FIFO waits.
        let there = !path.ends_with("fifo") && fs::read_to_string(name).is_ok_and(|text| text == SECRET);
        assert_eq!(there, *leads, "{what}: a name that leads out leads there for others, or there is nothing to test");
    }
    let before = world.others();
    let mut clients = common::DIALECTS.map(|dialect| world.open(dialect));
    let mut count = 0;
    for (at, (what, path, _)) in attempts.iter().enumerate() {
        let client = &mut clients[at % 3];
        let calls = calls(path);
        count += calls.len();
        let lines: Vec<String> = calls.iter().map(|(tool, input)| format!("call {tool} {input}\nresult")).collect();
        assert_eq!(client.prompt(&lines.join("\n")), "end_turn", "{what}");
        assert_eq!(world.others(), before, "{what}");
        says_nothing(client, what);
        client.updates.clear();
        // What was moved or written inside is as it was for the next one.
        for (file, text) in [("project/file", "fine\n"), ("extra/file", "fine\n")] {
            fs::write(world.at(file), text).unwrap();
        }
        let _ = fs::remove_file(world.at("project/stolen"));
    }
    eprintln!("{} names, {count} calls: nothing outside was read or written", attempts.len());
    assert!(attempts.len() >= 40);
}

#[test]
fn the_tools_do_work_inside() {
    let world = World::new();
    let mut client = world.open("1");
    fs::write(world.at("project/sub/mine"), SECRET).unwrap();
    for (prompt, expect) in [
        ("call read {\"path\":\"sub/mine\"}", SECRET.trim_end()),
        ("call read {\"path\":\"inlink/file\"}", "fine"),
        ("call read {\"path\":\"../extra/file\"}", "fine"),
        ("call list {\"path\":\"sub\"}", "mine"),
        ("call glob {\"pattern\":\"**/mine\"}", "sub/mine"),
        ("call grep {\"pattern\":\"S.CRET\"}", "sub/mine:1"),
        ("call edit {\"path\":\"sub/mine\",\"edits\":[{\"old\":\"3CRET-CON\",\"new\":\"x\"}]}", "Written: sub/mine"),
        ("call patch {\"patch\":\"--- file\\n+++ file\\n@@ -0,0 +1 @@\\n+patched\\n\"}", "Patched: file"),
        ("call write {\"path\":\"sub/new/new\",\"content\":\"x\"}", "Written: sub/new/new"),
        ("call move {\"from\":\"sub/mine\",\"to\":\"stolen\"}", "Moved"),
        ("call delete {\"path\":\"stolen\"}", "Deleted"),
        ("run echo x > sub/out && cat sub/out", "status 0"),
    ] {
        let before = client.said().len();
        client.prompt(&format!("{prompt}\nresult"));
        assert!(client.said()[before..].contains(expect), "{prompt}: {}", &client.said()[before..]);
    }
}

#[test]
fn no_command_writes_outside() {
    let world = World::new();
    let before = world.others();
    let mut client = world.open("1");
    let attempts = world.attempts();
    let paths = attempts.iter().filter(|(_, path, _)| !path.contains(['\0', '\n']) && !path.ends_with("fifo"));
    for (what, path, _) in paths {
        let path = format!("'{path}'");
        let script = format!(
            "echo x > {path}; echo x >> {path}; touch {path}; truncate -s 1 {path}; chmod 600 {path}; mkdir {path}/new; \
             ln -f {path} hard && echo x > hard; mv {path} stolen; cp file {path}; ln -s x {path}/link; echo over"
        );
        // Links and files of the workspace may go; deleting the workspace itself is not the point.
        client.prompt(&format!("run {script}\nresult"));
        assert!(client.said().ends_with("status 0)") || client.said().contains("over"), "{what}: {}", client.said());
        assert_eq!(world.others(), before, "{what}");
    }
    for script in [
        "cd .. && echo x > secret",
        "cd / && echo x > \"$OLDPWD/../secret\"",
        "mount -o remount,rw / ; echo x > ../secret",
        "umount -l .. ; echo x > ../secret",
        "unshare -rm sh -c 'mount -o remount,rw /; echo x > ../secret'",
        "nsenter -t 1 -m sh -c 'echo x > /nsentered'",
        "chroot /proc/1/root sh -c 'echo x > /chrooted'",
        "for fd in /proc/self/fd/*; do echo x > $fd/../../outside/secret; done",
        "setsid sh -c 'sleep 0.1; echo x > ../secret' & sleep 0.3",
        "python3 -c 'open(\"../secret\",\"w\").write(\"x\")'",
    ] {
        client.prompt(&format!("run {script}\nresult"));
        assert_eq!(world.others(), before, "{script}");
    }
    assert!(!Path::new("/nsentered").exists() && !Path::new("/chrooted").exists());
}

#[test]
fn a_hard_link_is_not_written_through() {
    let world = World::new();
    fs::hard_link(world.at("outside/secret"), world.at("project/hard")).unwrap();
    let before = world.others();
    let mut client = world.open("1");
    for (tool, input) in calls("hard").into_iter().filter(|(tool, _)| ["edit", "patch", "write"].contains(tool)) {
        client.prompt(&format!("call {tool} {input}\nresult"));
        assert_eq!(world.others(), before, "{tool}");
    }
    assert!(client.said().contains("link"), "{}", client.said());
}

#[test]
fn a_root_that_is_replaced_leads_nowhere_else() {
    let world = World::new();
    let before = world.others();
    let mut client = world.open("1");
    let calls: Vec<String> = ["secret", "dir/secret", "new"]
        .iter()
        .flat_map(|path| calls(path))
        .map(|(tool, input)| format!("call {tool} {input}\nresult"))
        .collect();
    let id = client.begin(&format!(
        "read file\nsay go\npause 300\n{}\nrun echo x > secret\nresult\ncall write {}\nsay done",
        calls.join("\n"),
        json!({"path": "late", "content": "late"})
    ));
    client.until(|message| message.to_string().contains("\"go\""));
    fs::rename(world.place.project(), world.at("extra/moved")).unwrap();
    symlink("outside", world.place.project()).unwrap();
    assert_eq!(client.end(id), "end_turn");
    assert!(client.said().contains("done") && client.said().contains("replaced"), "{}", client.said());
    says_nothing(&client, "a root that was replaced");
    assert_eq!(fs::read_to_string(world.at("extra/moved/late")).unwrap(), "late", "the folder that was opened stays");
    fs::remove_file(world.place.project()).unwrap();
    fs::rename(world.at("extra/moved"), world.place.project()).unwrap();
    assert_eq!(world.others(), before);
}

/// Files that the agent reads by itself: the project's rules, its commands, its guide, its lists of what to ignore.
#[test]
fn nothing_that_is_read_by_itself_leads_out() {
    for what in ["link", "fifo"] {
        let world = World::new();
        let project = world.place.project();
        fs::create_dir_all(project.join(".tieline/commands")).unwrap();
        for name in ["AGENTS.md", ".gitignore", ".ignore", ".tieline/commands/x.md", ".tieline/rules.toml"] {
            if what == "fifo" {
                fifo(&project.join(name));
            } else {
                symlink(world.at("outside/secret"), project.join(name)).unwrap();
            }
        }
        let mut client = Client::start(&world.place, "1", &ARGUMENTS);
        let id = client.ask("session/new", json!({"cwd": project, "mcpServers": []}));
        // Nobody trusts the file: what can't be read of it stops nobody.
        let answer = client.answer(id);
        assert!(answer["result"].is_object(), "{what}: {answer}");
        assert!(!answer.to_string().contains(SECRET.trim_end()), "{what}: {answer}");
        fs::remove_file(project.join(".tieline/rules.toml")).unwrap();
        client.session =
            client.call("session/new", json!({"cwd": project, "mcpServers": []}))["sessionId"].as_str().unwrap().into();
        assert_eq!(client.prompt("call glob {\"pattern\":\"file\"}\nresult"), "end_turn", "{what}");
        assert!(client.said().contains("sub/deep/file"), "{what}: {}", client.said());
        says_nothing(&client, what);
    }
}

/// `TIELINE_RACE_SECONDS=60` makes it long.
#[test]
fn a_race_of_renames_leads_nothing_out() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let top = folder.path().to_owned();
    for made in ["project/a/b", "outside/b"] {
        fs::create_dir_all(top.join(made)).unwrap();
    }
    for (file, text) in [("project/a/b/file", "inside\n"), ("outside/b/file", SECRET), ("outside/file", SECRET)] {
        fs::write(top.join(file), text).unwrap();
    }
    fs::write(top.join("outside").join(HIDDEN), SECRET).unwrap();
    for (link, target) in [("swap", "../outside"), ("a/swap", "../../outside/b"), ("a/b/swap", "../../../outside/file")]
    {
        symlink(target, top.join("project").join(link)).unwrap();
    }
    let place = Place { folder };
    let end = Instant::now() + Duration::from_secs_f64(common::number("TIELINE_RACE_SECONDS", 2.0));
    let swap = |path: &str, one: &'static str| {
        // By a handle: a swapper that went through a swapped name would itself carry things out.
        let dir = fs::File::open(top.join(path)).unwrap();
        move || {
            let mut swaps = 0_u64;
            while Instant::now() < end {
                use rustix::fs::{RenameFlags, renameat_with};
                renameat_with(&dir, one, &dir, "swap", RenameFlags::EXCHANGE).unwrap();
                swaps += 1;
                // A moment in which the others may get through.
                if swaps.is_multiple_of(16) {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            swaps
        }
    };
    let work = |name: &'static str| {
        let mut lines = Vec::new();
        for path in ["a/b/file", "a/../a/b/file"] {
            lines.push(format!("call read {}", json!({"path": path})));
            lines.push(format!("call edit {}", json!({"path": path, "edits": [{"old": "3CRET-CON", "new": "x"}]})));
        }
        for path in [format!("a/b/{name}"), format!("a/{name}"), format!("a/b/{name}-dir/{name}")] {
            lines.push(format!("call write {}", json!({"path": path, "content": "x"})));
            lines.push(format!("call move {}", json!({"from": path, "to": format!("{path}-2")})));
            lines.push(format!("call delete {}", json!({"path": format!("{path}-2")})));
        }
        lines.push("call delete {\"path\":\"a/file\"}".into());
        for path in ["a", "a/b", "."] {
            lines.push(format!("call list {}", json!({"path": path})));
            lines.push(format!("call glob {}", json!({"path": path, "pattern": "**/*"})));
            lines.push(format!("call grep {}", json!({"path": path, "pattern": "S.CRET.CON"})));
        }
        let prompt: Vec<String> = lines.iter().map(|line| format!("{line}\nresult")).collect();
        let (place, prompt, calls) = (&place, prompt.join("\n"), lines.len());
        move || {
            let mut client = Client::open(place, "1", &["--script", "puppet", "--mode", "auto", "--no-store"]);
            let (mut done, mut read, mut written) = (0, 0, 0);
            while Instant::now() < end {
                assert_eq!(client.prompt(&prompt), "end_turn");
                says_nothing(&client, "a race");
                let said = client.said();
                read += said.matches("inside").count();
                written += said.matches("Written:").count();
                done += calls;
                client.updates.clear();
            }
            (done, read, written)
        }
    };
    let outside = || {
        let names = |folder: &str| {
            let mut names: Vec<_> =
                fs::read_dir(top.join(folder)).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            names
        };
        assert_eq!(names("outside"), ["b", "file", HIDDEN]);
        assert_eq!(names("outside/b"), ["file"]);
        for file in ["outside/file", "outside/b/file"] {
            assert_eq!(fs::read_to_string(top.join(file)).unwrap(), SECRET);
        }
    };
    let (swaps, done) = std::thread::scope(|scope| {
        let swappers =
            [swap("project", "a"), swap("project/a", "b"), swap("project/a/b", "file")].map(|swap| scope.spawn(swap));
        let workers = ["one", "two"].map(|name| scope.spawn(work(name)));
        while Instant::now() < end {
            std::thread::sleep(Duration::from_millis(50));
            outside();
        }
        let swaps: u64 = swappers.into_iter().map(|one| one.join().unwrap()).sum();
        (swaps, workers.map(|one| one.join().unwrap()))
    });
    outside();
    let [one, two] = done;
    let (calls, read, written) = (one.0 + two.0, one.1 + two.1, one.2 + two.2);
    eprintln!("{swaps} swaps, {calls} calls, {read} reads and {written} writes inside, none outside");
    assert!(swaps > 100 && calls > 0 && read + written > 0, "too quiet to mean anything");
}
