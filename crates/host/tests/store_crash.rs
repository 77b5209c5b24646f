//! Several processes and sudden ends: what was acknowledged is there, whoever is killed.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "common/mod.rs"]
mod common;

#[cfg(target_os = "linux")]
#[path = "../../../scripts/skipped.rs"]
mod skipped;

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
#[path = "common/roles.rs"]
mod roles;

#[cfg(target_os = "linux")]
fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|arg| arg == "role") {
        return tests::block_on(roles::play(&args[1], args[2].as_ref()));
    }
    let wanted: Vec<&String> = args.iter().filter(|arg| !arg.starts_with('-')).collect();
    let chosen = |name: &str| wanted.is_empty() || wanted.iter().any(|wanted| name.contains(&***wanted));
    let mut failed = 0;
    for (name, test) in tests::ALL.iter().filter(|(name, _)| chosen(name)) {
        let well = std::panic::catch_unwind(test).is_ok();
        failed += i32::from(!well);
        println!("test {name} ... {}", if well { "ok" } else { "FAILED" });
    }
    println!("\ntest result: {}. {failed} failed", if failed == 0 { "ok" } else { "FAILED" });
    std::process::exit(i32::from(failed > 0));
}

#[cfg(target_os = "linux")]
mod tests {
    use crate::common::{Place, new, said};
    use rustix::process::{Pid, Signal, kill_process};
    use std::collections::{BTreeMap, BTreeSet};
    use std::io::{BufRead, BufReader, Read, Write};
    use std::path::Path;
    use std::process::{Child, ChildStdout, Command, Stdio};
    use std::time::{Duration, Instant};
    use tieline_host::store::{Claim, Error, Event, ListQuery, State, Store};
    use tieline_schema::{Dialect, Item, SessionId, Transcript};

    pub const ALL: &[(&str, fn())] = &[
        ("killed_at_any_point_nothing_acknowledged_is_lost", killed_at_any_point),
        ("a_session_of_another_process_is_refused", a_session_of_another_process_is_refused),
        ("who_slept_through_a_take_over_cannot_write", who_slept_through_a_take_over_cannot_write),
        ("many_processes_take_one_session_from_each_other", many_processes_take_one_session),
        ("many_processes_write_at_once", many_processes_write_at_once),
        ("a_full_disk_refuses_and_recovers", a_full_disk_refuses_and_recovers),
        ("a_limit_on_files_refuses_and_recovers", a_limit_on_files_refuses_and_recovers),
        ("a_disk_that_cannot_be_written_is_named", a_disk_that_cannot_be_written_is_named),
    ];

    pub fn block_on(test: impl Future<Output = ()>) {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
    }

    fn role(role: &str, path: &Path) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.arg("role").arg(role).arg(path).stdin(Stdio::piped()).stdout(Stdio::piped());
        command
    }

    fn start(role_name: &str, path: &Path) -> (Child, BufReader<ChildStdout>) {
        let mut child = role(role_name, path).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        (child, out)
    }

    fn line(out: &mut BufReader<ChildStdout>) -> String {
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn signal(child: &Child, signal: Signal) {
        kill_process(Pid::from_raw(child.id().cast_signed()).unwrap(), signal).unwrap();
    }

    /// Different each time; the seed is printed.
    struct Dice(u64);

    impl Dice {
        fn new() -> Self {
            let given = std::env::var("STORE_SEED").ok().and_then(|seed| seed.parse().ok());
            let seed = given.unwrap_or_else(|| u64::from(std::process::id()) << 20 | 1);
            println!("STORE_SEED={seed}");
            Self(seed)
        }

        fn roll(&mut self, below: u64) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0 % below
        }
    }

    /// 40 kills, or as many as `STORE_KILLS` says.
    fn killed_at_any_point() {
        let kills = std::env::var("STORE_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(40);
        let place = Place::new();
        let mut dice = Dice::new();
        // The last number that each session acknowledged.
        let mut known: BTreeMap<String, u64> = BTreeMap::new();
        let (mut acknowledged, mut interrupted) = (0, 0);
        for round in 0..kills {
            let (mut child, mut out) = start("writer", &place.path);
            // Every third one is killed while it opens the store, the others while they write.
            let mut first = String::new();
            if round % 3 != 0 {
                first = line(&mut out);
                assert!(first.contains(' '), "{first}");
            }
            let end = Instant::now() + Duration::from_micros(dice.roll(if round % 3 == 0 { 40_000 } else { 250_000 }));
            while Instant::now() < end {
                std::thread::sleep(Duration::from_micros(200));
            }
            child.kill().unwrap();
            let mut rest = String::new();
            out.read_to_string(&mut rest).unwrap();
            child.wait().unwrap();
            // The last line may be cut; then it was not said.
            let whole = rest.rsplit_once('\n').map_or("", |(whole, _)| whole);
            for line in std::iter::once(first.as_str()).chain(whole.lines()) {
                let words: Vec<&str> = line.split(' ').collect();
                match words[..] {
                    ["ack", session, number] => {
                        acknowledged += 1;
                        known.insert(session.to_owned(), number.parse().unwrap());
                    }
                    ["closed", _] => interrupted += 1,
                    ["deleted", _] | [""] => {}
                    _ => panic!("{line}"),
                }
            }
            block_on(inspect(&place.path, &known, round));
        }
        println!("{kills} kills, {acknowledged} acknowledgements, {interrupted} turns found interrupted, none lost");
        assert!(acknowledged > kills);
        block_on(closed_at_the_end(&place.path));
    }

    async fn inspect(path: &Path, known: &BTreeMap<String, u64>, round: u64) {
        let store = Store::open(path).unwrap();
        assert_eq!(store.integrity().await.unwrap(), [""; 0], "round {round}");
        for (session, last) in known {
            let mut replay = store.load(&session.as_str().into());
            let events = replay.all().await.unwrap();
            assert!(replay.damage().is_none());
            let mut number = 0;
            for (stored, seq) in events.iter().zip(1..) {
                assert_eq!(stored.seq, seq);
                if let Event::Other { body, .. } = &stored.event {
                    number += 1;
                    assert_eq!(body.get(), number.to_string(), "round {round}: a gap or a double");
                }
            }
            assert!(number >= *last, "round {round}: {session} acknowledged {last} and has {number}");
        }
        store.close().await.unwrap();
    }

    /// Whoever opens a session finds nothing running.
    async fn closed_at_the_end(path: &Path) {
        let store = Store::open(path).unwrap();
        for session in store.list(ListQuery::default()).await.unwrap().sessions {
            let opened = store.open_session(&session.id, Claim::IfFree).await.unwrap();
            assert!(opened.damage.is_none());
            let (mut open, mut talk) = (false, Transcript::new(Dialect::V2));
            for stored in store.load(&session.id).all().await.unwrap() {
                match stored.event {
                    Event::TurnBegin => {
                        assert!(!open, "a turn began in another one at {}", stored.seq);
                        open = true;
                    }
                    Event::TurnEnd { .. } => open = false,
                    Event::Update(update) => drop(talk.apply(&update)),
                    _ => {}
                }
            }
            assert!(!open);
            for item in talk.items() {
                assert!(!matches!(item, Item::ToolCall(call) if !call.status.is_final()));
            }
        }
    }

    fn a_session_of_another_process_is_refused() {
        let place = Place::new();
        let (mut child, mut out) = start("holder", &place.path);
        let id: SessionId = line(&mut out).into();
        block_on(async {
            let store = place.store();
            let refused = store.open_session(&id, Claim::IfFree).await.unwrap_err();
            let Error::InUse { holder, .. } = &refused else { panic!("{refused}") };
            assert_eq!(holder.pid, child.id());
            assert!(holder.start > 0 && !holder.host.is_empty());
            assert!(refused.to_string().contains(&format!("process {}", child.id())), "{refused}");
            assert!(matches!(store.delete(&id).await, Err(Error::InUse { .. })));
            // Reading and listing need no lease.
            assert_eq!(store.load(&id).all().await.unwrap().len(), 2);
            assert_eq!(store.session(&id).await.unwrap().state, State::Running);
            // Killed and not even buried: it is free.
            child.kill().unwrap();
            let deadline = Instant::now() + Duration::from_secs(10);
            while store.session(&id).await.unwrap().state == State::Running {
                assert!(Instant::now() < deadline);
                std::thread::sleep(Duration::from_millis(1));
            }
            assert_eq!(store.session(&id).await.unwrap().state, State::Interrupted);
            let opened = store.open_session(&id, Claim::IfFree).await.unwrap();
            assert!(opened.interrupted);
        });
        child.wait().unwrap();
    }

    fn who_slept_through_a_take_over_cannot_write() {
        let place = Place::new();
        let (mut child, mut out) = start("holder", &place.path);
        let id: SessionId = line(&mut out).into();
        signal(&child, Signal::STOP);
        block_on(async {
            let store = place.store();
            assert!(matches!(store.open_session(&id, Claim::IfFree).await, Err(Error::InUse { .. })));
            let opened = store.open_session(&id, Claim::TakeOver).await.unwrap();
            assert!(opened.interrupted);
            signal(&child, Signal::CONT);
            writeln!(child.stdin.as_mut().unwrap(), "append").unwrap();
            let said_by_child = line(&mut out);
            assert!(said_by_child.contains("was taken over by process"), "{said_by_child}");
            opened.log.append(vec![said("mine")]).await.unwrap();
            let events = store.load(&id).all().await.unwrap();
            assert!(!events.iter().any(|stored| stored.event == said("late")));
            assert_eq!(store.integrity().await.unwrap(), [""; 0]);
        });
        child.kill().unwrap();
        child.wait().unwrap();
    }

    fn many_processes_take_one_session() {
        let place = Place::new();
        block_on(async {
            let store = place.store();
            let mut session = new("/w");
            session.id = Some("fought-over".into());
            store.create(session).await.unwrap().close().await.unwrap();
        });
        let mut dice = Dice::new();
        let mut children: Vec<_> = (0..6).map(|_| start("fighter", &place.path)).collect();
        for _ in 0..20 {
            let (child, _) = &children[dice.roll(6) as usize];
            signal(child, Signal::STOP);
            std::thread::sleep(Duration::from_millis(dice.roll(15)));
            signal(child, Signal::CONT);
        }
        let mut acknowledged = BTreeSet::new();
        for (child, out) in &mut children {
            let mut all = String::new();
            out.read_to_string(&mut all).unwrap();
            assert!(child.wait().unwrap().success(), "{all}");
            acknowledged.extend(all.lines().map(str::to_owned));
        }
        block_on(async {
            let store = place.store();
            let mut stored = BTreeSet::new();
            for (event, seq) in store.load(&"fought-over".into()).all().await.unwrap().into_iter().zip(1..) {
                assert_eq!(event.seq, seq);
                if let Event::Model(body) = event.event {
                    assert!(stored.insert(body.get().trim_matches('"').to_owned()));
                }
            }
            println!("{} acknowledged by 6 processes", acknowledged.len());
            assert!(acknowledged.len() > 6);
            assert!(acknowledged.is_subset(&stored));
            assert_eq!(store.integrity().await.unwrap(), [""; 0]);
        });
    }

    /// They also all make the file at the same moment.
    fn many_processes_write_at_once() {
        let place = Place::new();
        let children: Vec<_> = (0..8).map(|_| start("crowd", &place.path)).collect();
        for (mut child, mut out) in children {
            let mut all = String::new();
            out.read_to_string(&mut all).unwrap();
            assert!(child.wait().unwrap().success() && all == "done\n", "{all}");
        }
        block_on(async {
            let store = place.store();
            let page = store.list(ListQuery { limit: 100, ..ListQuery::default() }).await.unwrap();
            assert_eq!(page.sessions.len(), 40);
            assert!(page.sessions.iter().all(|session| session.events == 10));
            assert_eq!(store.integrity().await.unwrap(), [""; 0]);
        });
    }

    /// Runs a shell script with the program and a folder, and says what came out.
    fn script(script: &str, folder: &Path) -> (bool, String) {
        let done = Command::new("unshare")
            .args(["-rm", "sh", "-ec", script, "sh"])
            .arg(std::env::current_exe().unwrap())
            .arg(folder)
            .output();
        match done {
            Ok(done) => {
                let both = [done.stdout, done.stderr].concat();
                (done.status.success(), String::from_utf8_lossy(&both).into_owned())
            }
            Err(error) => (false, format!("NO MOUNT {error}")),
        }
    }

    fn judge((well, out): (bool, String)) {
        if out.contains("NO MOUNT") {
            crate::skipped::skipped("MOUNT", &format!("this machine lets nobody mount a file system: {out}"));
            return;
        }
        assert!(well && out.ends_with("well\n"), "{out}");
    }

    fn a_full_disk_refuses_and_recovers() {
        let folder = tempfile::tempdir().unwrap();
        judge(script(
            "mount -t tmpfs -o size=4m none \"$2\" || { echo NO MOUNT; exit 1; }; exec \"$1\" role full \"$2/store.db\"",
            folder.path(),
        ));
    }

    fn a_limit_on_files_refuses_and_recovers() {
        let place = Place::new();
        let done = Command::new("sh")
            .args(["-c", "trap '' XFSZ; ulimit -S -f 4096; exec \"$1\" role limited \"$2\"", "sh"])
            .arg(std::env::current_exe().unwrap())
            .arg(&place.path)
            .output()
            .unwrap();
        judge((done.status.success(), String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned()));
    }

    fn a_disk_that_cannot_be_written_is_named() {
        let folder = tempfile::tempdir().unwrap();
        judge(script(
            "mount -t tmpfs -o size=4m none \"$2\" || { echo NO MOUNT; exit 1; }
             \"$1\" role once \"$2/store.db\"; mount -o remount,ro none \"$2\"
             \"$1\" role denied \"$2/store.db\"; exec \"$1\" role denied \"$2/new/store.db\"",
            folder.path(),
        ));
    }
}
