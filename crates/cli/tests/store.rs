//! The store through the agent: a full disk, damage, a session that is open elsewhere, how long sessions are kept.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod common;

#[path = "../../../scripts/skipped.rs"]
mod skipped;

use common::{Client, DIALECTS, Place, soon};
use serde_json::{Value, json};
use skipped::skipped;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const PUPPET: [&str; 4] = ["--script", "puppet", "--mode", "edit"];

/// An agent whose store and project are on small disks of their own.
struct Small {
    place: Place,
    client: Client,
}

impl Small {
    /// `None` where nobody may mount anything, which is said.
    fn open(dialect: &'static str) -> Option<Self> {
        let place = Place::new();
        let folder = place.folder.path().to_owned();
        fs::create_dir(folder.join("state")).unwrap();
        let mount = "mount -t tmpfs -o size=4m none \"$1/state\" && mount -t tmpfs -o size=4m none \"$1/project\"";
        let may = Command::new("unshare").args(["-rm", "sh", "-c", mount, "sh"]).arg(&folder).status();
        if !may.is_ok_and(|status| status.success()) {
            skipped("MOUNT", "this machine lets nobody mount a file system, so no disk can be full");
            return None;
        }
        let mut client = Client::start_as(&place, dialect, &PUPPET, &json!({}), |command| {
            let mut inside = Command::new("unshare");
            inside.args(["-rm", "sh", "-ec", &format!("{mount}; shift; exec \"$@\""), "sh"]).arg(&folder);
            inside.arg(command.get_program()).args(command.get_args());
            for (name, value) in command.get_envs() {
                inside.env(name, value.unwrap_or_default());
            }
            *command = inside;
        });
        let params = json!({"cwd": place.project(), "mcpServers": []});
        client.session = client.call("session/new", params)["sessionId"].as_str().unwrap().into();
        Some(Self { place, client })
    }

    /// A path as the agent sees it.
    fn seen(&self, name: &str) -> PathBuf {
        let root = format!("/proc/{}/root", self.client.child.id());
        Path::new(&root).join(self.place.folder.path().join(name).strip_prefix("/").unwrap())
    }

    /// Writes until nothing more fits.
    fn fill(&self, name: &str) {
        let mut size = 1 << 20;
        let mut file = fs::File::create(self.seen(name)).unwrap();
        while size > 0 {
            if std::io::Write::write_all(&mut file, &vec![b'x'; size]).is_err() {
                size /= 2;
            }
        }
    }

    fn free(&self, name: &str) {
        fs::remove_file(self.seen(name)).unwrap();
    }
}

/// What was kept can be looked at on a disk that is full, also what is only in the log beside the store, if somebody has it open.
#[test]
fn sessions_are_listed_and_shown_on_a_full_disk() {
    let place = Place::new();
    let folder = place.folder.path();
    fs::create_dir_all(folder.join("state")).unwrap();
    let script = r#"
        mount -t tmpfs -o size=4m none "$XDG_STATE_HOME" || { echo no mount; exit 0; }
        "$TIELINE" exec -s kept --allow-all "create a.txt with one" > first 2>&1
        dd if=/dev/zero of="$XDG_STATE_HOME/ballast" bs=1k 2> /dev/null
        "$TIELINE" sessions list; echo "list $?"
        "$TIELINE" sessions show kept; echo "show $?"
        "$TIELINE" diff kept --names; echo "diff $?"
        "$TIELINE" sessions rename kept other; echo "rename $?"
        rm "$XDG_STATE_HOME/ballast"
        "$TIELINE" sessions list 2>&1 | grep full; echo "list again $?""#;
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-c", &format!("{{ {script}\n}} 2>&1")]).current_dir(place.project());
    command.env("TIELINE", env!("CARGO_BIN_EXE_tieline")).env("HOME", folder).env_remove("XDG_CONFIG_HOME");
    let output = command.env("XDG_STATE_HOME", folder.join("state")).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() || text.contains("no mount") {
        skipped("MOUNT", "this machine lets nobody mount a file system, so no disk can be full");
        return;
    }
    let full = "the disk is full: ";
    let list = text.split("list 0").next().unwrap();
    assert!(list.contains(full) && list.contains("kept") && list.contains("free some space"), "{text}");
    for part in ["show 0", "create a.txt with one", "a.txt\ndiff 0", "rename 1", "list again 1"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_full_disk_under_the_files_is_told_and_changes_nothing() {
    let Some(mut small) = Small::open("1") else { return };
    assert_eq!(small.client.prompt("write a.txt old"), "end_turn");
    small.fill("project/ballast");
    let text = "new".repeat(100_000);
    let write = format!("call write {}\nresult", json!({"path": "a.txt", "content": text}));
    assert_eq!(small.client.prompt(&write), "end_turn");
    let said = small.client.said();
    assert!(said.to_lowercase().contains("no space"), "{said}");
    assert_eq!(fs::read_to_string(small.seen("project/a.txt")).unwrap(), "old");
    let left: Vec<_> = fs::read_dir(small.seen("project")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
    small.free("project/ballast");
    assert_eq!(small.client.prompt(&write), "end_turn");
    assert_eq!(fs::read_to_string(small.seen("project/a.txt")).unwrap(), text);
}

#[test]
fn a_full_disk_under_the_store_refuses_and_recovers() {
    for dialect in DIALECTS {
        let Some(mut small) = Small::open(dialect) else { return };
        assert_eq!(small.client.prompt("say first\nwrite a.txt one"), "end_turn");
        small.fill("state/ballast");
        // So long that what was left free inside the file can't hold it.
        let long = "x".repeat(1 << 20);
        let session = small.client.session.clone();
        let prompt = json!([{"type": "text", "text": "write b.txt two"}, {"type": "text", "text": long}]);
        let id = small.client.ask("session/prompt", json!({"sessionId": session, "prompt": prompt}));
        let answer = small.client.answer(id);
        let why = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(why.contains("disk is full"), "{dialect}: {answer}");
        assert!(!small.seen("project/b.txt").exists(), "{dialect}: nothing was done");
        small.free("state/ballast");
        assert_eq!(small.client.prompt("say second\nwrite b.txt two"), "end_turn", "{dialect}");
        assert!(small.seen("project/b.txt").exists());
        // And in the middle of a turn.
        small.fill("state/ballast");
        let id = small.client.begin("flood 200 20000\nwrite c.txt three");
        let stop = small.client.end(id);
        assert_ne!(stop, "end_turn", "{dialect}");
        assert!(!small.seen("project/c.txt").exists(), "{dialect}: nothing was done without a record");
        small.free("state/ballast");
        assert_eq!(small.client.prompt("say third"), "end_turn", "{dialect}");
        // All of it is still there when it is loaded.
        small.client.call("session/close", json!({"sessionId": session}));
        small.client.updates.clear();
        let answer = small.client.try_load(&session, &small.place.project());
        assert!(answer.get("error").is_none(), "{dialect}: {answer}");
        let said = small.client.said();
        let all = ["first", "second", "third"].map(|word| said.find(word));
        assert!(all.iter().all(Option::is_some) && all.is_sorted(), "{dialect}: {all:?}");
    }
}

/// The store, with everything in its main file and nothing in the log beside it.
fn one_file(place: &Place) -> PathBuf {
    let path = place.folder.path().join("state/store.db");
    let db = rusqlite::Connection::open(&path).unwrap();
    db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    db.close().unwrap();
    path
}

#[test]
fn a_damaged_store_loads_what_comes_before_the_damage_and_says_so() {
    for dialect in DIALECTS {
        let place = Place::new();
        let mut client = Client::open(&place, dialect, &PUPPET);
        let session = client.session.clone();
        for turn in 1..=6 {
            assert_eq!(client.prompt(&format!("say turn-{turn}-word ")), "end_turn");
        }
        assert!(client.hang_up().success());
        let path = one_file(&place);
        let mut bytes = fs::read(&path).unwrap();
        let word = b"turn-4-word";
        let found: Vec<usize> =
            (0..bytes.len() - word.len()).filter(|at| &bytes[*at..*at + word.len()] == word).collect();
        assert!(!found.is_empty());
        for at in found {
            bytes[at] ^= 1;
        }
        fs::write(&path, bytes).unwrap();
        let mut client = Client::start(&place, dialect, &PUPPET);
        let answer = client.try_load(&session, &place.project());
        assert!(answer.get("error").is_none(), "{dialect}: {answer}");
        let heard = Value::from(client.updates.clone()).to_string();
        let kept = (1..=6).filter(|turn| client.said().contains(&format!("turn-{turn}-word"))).count();
        assert_eq!(kept, 3, "{dialect}: {}", client.said());
        assert!(heard.contains("is lost"), "{dialect}: {heard}");
        assert_eq!(client.prompt("say again"), "end_turn", "{dialect}: it goes on");
        assert!(client.hang_up().success());
        // What was said since is there as well.
        let mut client = Client::start(&place, dialect, &PUPPET);
        client.try_load(&session, &place.project());
        assert!(client.said().contains("turn-3-word") && client.said().contains("again"), "{dialect}");
    }
}

#[test]
fn a_store_that_is_no_store_is_named() {
    let place = Place::new();
    assert!(Client::open(&place, "1", &PUPPET).hang_up().success());
    let path = one_file(&place);
    fs::write(&path, "this is no database. ".repeat(1000)).unwrap();
    let mut client = Client::start(&place, "1", &PUPPET);
    let id = client.ask("session/new", json!({"cwd": place.project(), "mcpServers": []}));
    let answer = client.answer(id);
    let why = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(why.contains("damaged") && why.contains("--no-store"), "{answer}");
}

#[test]
fn a_session_is_open_in_one_process_at_a_time() {
    for dialect in DIALECTS {
        let place = Place::new();
        let mut first = Client::open(&place, dialect, &PUPPET);
        let session = first.session.clone();
        assert_eq!(first.prompt("say mine"), "end_turn");
        let mut second = Client::start(&place, dialect, &PUPPET);
        let answer = second.try_load(&session, &place.project());
        let why = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(why.contains(&format!("process {}", first.child.id())), "{dialect}: {answer}");
        assert_eq!(answer["error"]["code"], -32004, "{dialect}");
        let id = second.ask("session/delete", json!({"sessionId": session}));
        assert!(second.answer(id).get("error").is_some(), "{dialect}: nor deleted");
        assert_eq!(first.prompt("say still mine"), "end_turn", "{dialect}");
        // A process that was killed holds nothing.
        first.kill();
        let answer = second.try_load(&session, &place.project());
        assert!(answer.get("error").is_none(), "{dialect}: {answer}");
        assert!(second.said().contains("still mine"), "{dialect}");
    }
}

/// Makes sessions, the last of which stays open in the client that is given back.
fn sessions(place: &Place, count: usize) -> (Vec<String>, Client) {
    let mut client = Client::start(place, "1", &PUPPET);
    let mut ids = Vec::new();
    for at in 0..count {
        let params = json!({"cwd": place.project(), "mcpServers": []});
        client.session = client.call("session/new", params)["sessionId"].as_str().unwrap().into();
        client.prompt(&format!("write {at}.txt x"));
        ids.push(client.session.clone());
        if at + 1 < count {
            client.call("session/close", json!({"sessionId": client.session}));
        }
    }
    (ids, client)
}

fn listed(place: &Place, arguments: &[&str]) -> Vec<String> {
    let mut client = Client::start(place, "1", &[&PUPPET[..], arguments].concat());
    let list = client.call("session/list", json!({}));
    let mut ids: Vec<String> =
        list["sessions"].as_array().unwrap().iter().map(|one| one["sessionId"].as_str().unwrap().into()).collect();
    ids.reverse();
    ids
}

fn snapshots(place: &Place) -> usize {
    fs::read_dir(place.folder.path().join("state/undo")).unwrap().count()
}

/// As if nobody had used a session for so many days.
fn age(place: &Place, session: &str, days: i64) {
    let db = rusqlite::Connection::open(place.folder.path().join("state/store.db")).unwrap();
    let sql = "UPDATE session SET updated = updated - ?2 WHERE id = ?1";
    assert_eq!(db.execute(sql, rusqlite::params![session, days * 24 * 3600 * 1000]).unwrap(), 1);
}

/// What is listed at last: old sessions go beside the work, and not before it.
fn becomes(place: &Place, flags: &[&str], wanted: &[impl AsRef<str>]) {
    let wanted: Vec<&str> = wanted.iter().map(AsRef::as_ref).collect();
    soon(&format!("{wanted:?} with {flags:?}"), || listed(place, flags) == wanted);
}

#[test]
fn old_sessions_are_removed_when_the_agent_starts() {
    let place = Place::new();
    let (ids, holder) = sessions(&place, 5);
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let [old, ancient, young, younger, open] = ids[..] else { panic!("five") };
    for (id, days) in [(old, 31), (ancient, 4000), (young, 29), (open, 4000)] {
        age(&place, id, days);
    }
    // A year is the default: only one is older. The one that is open stays, however old.
    becomes(&place, &[], &[old, young, younger, open]);
    becomes(&place, &["--keep-days", "0"], &[old, young, younger, open]);
    soon("what belongs to it is gone, too", || snapshots(&place) == 4);
    becomes(&place, &["--keep-days", "30"], &[young, younger, open]);
    becomes(&place, &["--keep-count", "2"], &[younger, open]);
    becomes(&place, &["--keep-count", "1"], &[open]);
    drop(holder);
    becomes(&place, &["--keep-days", "30"], &[""; 0]);
    soon("nothing is left", || snapshots(&place) == 0);
}

#[test]
fn the_configuration_says_how_long_sessions_are_kept() {
    let place = Place::new();
    let (ids, holder) = sessions(&place, 3);
    drop(holder);
    age(&place, &ids[0], 31);
    let folder = place.folder.path().join("config/tieline");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("config.toml"), "[sessions]\nkeep_days = 30\n").unwrap();
    becomes(&place, &["--keep-days", "90"], &ids);
    becomes(&place, &[], &ids[1..]);
    fs::write(folder.join("config.toml"), "[sessions]\nkeep_count = 1\n").unwrap();
    becomes(&place, &[], &ids[2..]);
    fs::write(folder.join("config.toml"), "[sessions]\nkeep_forever = true\n").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tieline"));
    let refused = command.arg("agent").env("XDG_CONFIG_HOME", place.folder.path().join("config")).output().unwrap();
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(14), "{why}");
    assert!(why.contains("config.toml") && why.contains("keep_forever"), "{why}");
}
