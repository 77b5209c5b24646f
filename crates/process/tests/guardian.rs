//! Guardians: whatever dies, and however, nothing of a child's family is left.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[cfg(target_os = "linux")]
#[path = "common/process.rs"]
mod process;

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
fn main() {
    // A guardian has no environment, so its parent tells it by a file.
    if tests::late_mark(std::os::unix::process::parent_id()).exists() {
        process::block_on(async { tieline_process::init() });
    }
    tieline_process::init();
    let mut args = std::env::args().skip(1);
    if args.next().as_deref() == Some("owner") {
        return process::block_on(tests::own(&args.next().unwrap()));
    }
    process::run_all(tests::ALL);
}

#[cfg(target_os = "linux")]
mod tests {
    use crate::process::{block_on, end_of_output, gone, line, pids, reaped, runs, sh, soon, spawn, with_text};
    use rustix::process::{Pid, Signal, kill_process};
    use std::io::BufRead;
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};
    use tieline_process::{Guard, Limits, ShutdownTimeouts, Spec, Status};
    use tieline_rpc::Event;

    const SECOND: Duration = Duration::from_secs(1);

    pub const ALL: &[(&str, fn())] = &[
        ("p1_all_are_gone_when_the_owner_is_killed", p1_all_are_gone_when_the_owner_is_killed),
        ("p1_all_are_gone_after_shutdown", p1_all_are_gone_after_shutdown),
        ("p1_all_are_gone_after_drop", p1_all_are_gone_after_drop),
        ("p1_all_are_gone_when_the_program_ends", p1_all_are_gone_when_the_program_ends),
        ("p1_all_are_gone_when_the_guardian_is_asked_to_end", p1_all_are_gone_when_the_guardian_is_asked_to_end),
        ("p1_the_tree_is_gone_when_the_guardian_is_killed", p1_the_tree_is_gone_when_the_guardian_is_killed),
        ("tr_end_02_who_ignores_everything_is_killed", tr_end_02_who_ignores_everything_is_killed),
        ("status_and_signal_come_through", status_and_signal_come_through),
        ("what_cannot_be_started_is_named", what_cannot_be_started_is_named),
        ("arguments_folder_and_environment", arguments_folder_and_environment),
        ("streams_run_at_full_speed", streams_run_at_full_speed),
        ("a_start_that_is_given_up_leaves_nothing", a_start_that_is_given_up_leaves_nothing),
        ("who_takes_too_much_is_ended_with_all_that_it_started", who_takes_too_much_is_ended_with_all_that_it_started),
        ("a_guardian_is_small", a_guardian_is_small),
        ("init_inside_a_runtime_works_too", init_inside_a_runtime_works_too),
    ];

    /// If this file is there, `init` is called inside a runtime by children of this process.
    pub fn late_mark(parent: u32) -> std::path::PathBuf {
        std::env::temp_dir().join(format!("tieline-late-{parent}"))
    }

    fn guarded(script: &str) -> Spec {
        sh(script).guard(Guard::Required)
    }

    fn signal(pid: u32, signal: Signal) {
        kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), signal).unwrap();
    }

    /// Tells its guardian, itself, a child in its own session, a daemon that forked twice, one that ignores SIGTERM.
    const FAMILY: &str = "echo $PPID; echo $$
        setsid sleep 1000 & echo $!
        (setsid sleep 1000 </dev/null >/dev/null 2>&1 & echo $!)
        (setsid sh -c 'trap \"\" TERM; echo $$; exec >/dev/null 2>&1; while :; do sleep 1; done' </dev/null &)
        cat";

    /// The role of an owner: has a child, tells what it tells, and waits.
    pub async fn own(script: &str) {
        let (transport, _child) = spawn(&guarded(script)).await.unwrap();
        let (mut reader, _writer) = transport.open();
        while let Event::Frame(at) = reader.next().await {
            println!("{}", String::from_utf8_lossy(reader.bytes(at)));
        }
    }

    fn p1_all_are_gone_when_the_owner_is_killed() {
        for _ in 0..5 {
            let mut owner = Command::new("/proc/self/exe")
                .args(["owner", FAMILY])
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let lines = std::io::BufReader::new(owner.stdout.take().unwrap()).lines();
            let family: Vec<u32> = lines.take(5).map(|line| line.unwrap().parse().unwrap()).collect();
            assert!(family.iter().all(|pid| runs(*pid)), "{family:?}");
            owner.kill().unwrap();
            // A bound for a busy machine; it is over in milliseconds.
            gone(&family, 15 * SECOND);
            owner.wait().unwrap();
        }
    }

    fn who_takes_too_much_is_ended_with_all_that_it_started() {
        let memory = Limits { memory: Some(64 << 20), ..Limits::default() };
        let processes = Limits { processes: Some(20), ..Limits::default() };
        // The first tells its number before anything can be too much.
        let first = "setsid sleep 1000 & echo $!;";
        let eat = |size: u32| format!("{first} python3 -c 'import sys; x = bytearray({size} << 20); sys.stdin.read()'");
        let fork = |count: u32| format!("{first} for i in $(seq {count}); do setsid sleep 1000 & done; cat");
        // Together they take too much, not each of them.
        let share = "python3 -c 'x = bytearray(30 << 20); import time; time.sleep(1000)' &";
        let share = format!("{first} {share} {share} {share} cat");
        for (limits, script, expect) in [
            (memory, eat(200), Status::OutOfMemory),
            (memory, share, Status::OutOfMemory),
            (memory, eat(20), Status::Code(0)),
            (processes, fork(300), Status::TooMany),
            (processes, fork(10), Status::Code(0)),
            (Limits { processes: Some(20), ..memory }, fork(300), Status::TooMany),
        ] {
            block_on(async {
                let (transport, child) = spawn(&sh(&script).limits(limits)).await.unwrap();
                let (mut reader, writer) = transport.open();
                let family = pids(&mut reader, 1).await;
                if expect == Status::Code(0) {
                    // It is looked at four times a second.
                    let ended = tokio::time::timeout(SECOND, child.exit()).await;
                    assert!(ended.is_err(), "{script}: {ended:?}");
                    writer.close().await;
                }
                let ended = tokio::time::timeout(30 * SECOND, child.exit()).await.expect("it is ended");
                assert_eq!(ended.status, expect, "{script}");
                gone(&family, 15 * SECOND);
            });
        }
    }

    fn p1_all_are_gone_after_shutdown() {
        block_on(async {
            let (transport, child) = spawn(&guarded(FAMILY)).await.unwrap();
            let (mut reader, writer) = transport.open();
            let family = pids(&mut reader, 5).await;
            assert_eq!(child.id(), family[1], "it is the program that is named, not its guardian");
            writer.close().await;
            assert_eq!(child.shutdown().await.status, Status::Code(0));
            gone(&family, Duration::ZERO);
        });
    }

    fn p1_all_are_gone_after_drop() {
        block_on(async {
            let (transport, child) = spawn(&guarded(FAMILY)).await.unwrap();
            let (mut reader, _writer) = transport.open();
            let family = pids(&mut reader, 5).await;
            let start = Instant::now();
            drop(child);
            assert!(start.elapsed() < SECOND / 2, "{:?}", start.elapsed());
            gone(&family, 2 * SECOND);
            reaped(family[0], SECOND);
        });
    }

    fn p1_all_are_gone_when_the_program_ends() {
        block_on(async {
            let script = FAMILY.replace("cat", "sleep 0.1; echo oops >&2; exit 5");
            let (transport, child) = spawn(&guarded(&script)).await.unwrap();
            let (mut reader, _writer) = transport.open();
            let family = pids(&mut reader, 5).await;
            // One of them ignores SIGTERM, so the guardian stays a moment. Output ends all the same: it holds none of it.
            end_of_output(&mut reader, SECOND / 2).await;
            let reason = child.exit().await;
            assert_eq!(reason.to_string(), "exited with status 5; last lines of stderr: oops");
            assert!(runs(family[4]), "the end is known before all is cleared away");
            gone(&family, 2 * SECOND);
            reaped(family[0], SECOND);
        });
    }

    fn p1_all_are_gone_when_the_guardian_is_asked_to_end() {
        block_on(async {
            let (transport, child) = spawn(&guarded(FAMILY)).await.unwrap();
            let (mut reader, _writer) = transport.open();
            let family = pids(&mut reader, 5).await;
            signal(family[0], Signal::TERM);
            // The shell waits for `cat`, which is ended as well.
            assert_eq!(child.exit().await.status, Status::Signal(15));
            gone(&family, 2 * SECOND);
        });
    }

    fn p1_the_tree_is_gone_when_the_guardian_is_killed() {
        block_on(async {
            let script = "echo $PPID; echo $$; setsid sleep 1000 & echo $!; sleep 1000 & echo $!; cat";
            let (transport, child) = spawn(&guarded(script)).await.unwrap();
            let (mut reader, _writer) = transport.open();
            let family = pids(&mut reader, 4).await;
            signal(family[0], Signal::KILL);
            assert_eq!(child.exit().await.status, Status::Unknown);
            gone(&family, 2 * SECOND);
        });
    }

    fn tr_end_02_who_ignores_everything_is_killed() {
        block_on(async {
            let step = Duration::from_millis(100);
            let spec = guarded("trap '' TERM; echo $PPID; while :; do sleep 1; done");
            let (transport, child) = spawn(&spec.shutdown(ShutdownTimeouts { eof: step, term: step })).await.unwrap();
            let (mut reader, writer) = transport.open();
            let guardian = pids(&mut reader, 1).await[0];
            writer.close().await;
            let start = Instant::now();
            assert_eq!(child.shutdown().await.status, Status::Signal(9));
            assert!(start.elapsed() < SECOND);
            reaped(guardian, SECOND);
        });
    }

    fn status_and_signal_come_through() {
        block_on(async {
            for (script, status) in [
                ("exit 0", Status::Code(0)),
                ("exit 3", Status::Code(3)),
                ("exit 255", Status::Code(255)),
                ("kill -9 $$", Status::Signal(9)),
                ("kill -15 $$", Status::Signal(15)),
            ] {
                let (_transport, child) = spawn(&guarded(script)).await.unwrap();
                assert_eq!(child.exit().await.status, status, "{script}");
            }
        });
    }

    fn what_cannot_be_started_is_named() {
        block_on(async {
            for guard in [Guard::Required, Guard::IfPossible] {
                for (spec, expect) in [
                    (Spec::new("no-such-program-xyz"), "can't start `no-such-program-xyz`: not found on PATH"),
                    (Spec::new("/dev/null"), "can't start `/dev/null`: it is not executable"),
                    (
                        Spec::new("sh").current_dir("/no/such/folder"),
                        "can't start `sh`: its working directory `/no/such/folder` does not exist",
                    ),
                ] {
                    let error = spawn(&spec.guard(guard)).await.unwrap_err();
                    assert_eq!(error.to_string(), expect);
                }
            }
        });
    }

    fn arguments_folder_and_environment() {
        block_on(async {
            let folder = tempfile::tempdir().unwrap();
            let spec = guarded("printf '%s\\n' \"$1\" \"$PWD\"; env | sort").args(["sh", "--an; $argument"]);
            let spec = spec.current_dir(folder.path()).env_clear().env("ADDED", "yes").env("PATH", "/usr/bin:/bin");
            let (transport, child) = spawn(&spec).await.unwrap();
            let (mut reader, _writer) = transport.open();
            let here = folder.path().canonicalize().unwrap().display().to_string();
            assert_eq!([line(&mut reader).await, line(&mut reader).await], ["--an; $argument", &*here]);
            let mut env = Vec::new();
            while let Event::Frame(at) = reader.next().await {
                env.push(String::from_utf8(reader.bytes(at).to_vec()).unwrap());
            }
            // The shell adds these itself.
            env.retain(|line| !["PWD=", "OLDPWD=", "_=", "SHLVL="].iter().any(|own| line.starts_with(own)));
            assert_eq!(env, ["ADDED=yes", "PATH=/usr/bin:/bin"]);
            assert_eq!(child.exit().await.status, Status::Code(0));
        });
    }

    fn streams_run_at_full_speed() {
        block_on(async {
            let spec = Spec::new("cat").guard(Guard::Required);
            let (transport, child) = spawn(&spec).await.unwrap();
            let (mut reader, writer) = transport.open();
            let text = vec![b'x'; 100_000];
            let start = Instant::now();
            let send = async {
                for _ in 0..100 {
                    writer.send(|out| out.extend_from_slice(&text)).await.unwrap();
                }
                writer.close().await;
            };
            let receive = async {
                let mut bytes = 0;
                while let Event::Frame(at) = reader.next().await {
                    bytes += at.len();
                }
                bytes
            };
            let ((), bytes) = tokio::join!(send, receive);
            assert_eq!(bytes, 10_000_000);
            assert!(start.elapsed() < 3 * SECOND, "{:?}", start.elapsed());
            assert_eq!(child.exit().await.status, Status::Code(0));
        });
    }

    fn a_start_that_is_given_up_leaves_nothing() {
        let sleep = format!("sleep 1000.5{}", std::process::id());
        block_on(async {
            for wait in 0..20 {
                let spec = guarded(&format!("setsid {sleep} & cat"));
                let _ = tokio::time::timeout(Duration::from_micros(wait * 400), spawn(&spec)).await;
            }
        });
        soon(2 * SECOND, "none is left", || with_text(&sleep).is_empty());
    }

    fn a_guardian_is_small() {
        block_on(async {
            let (transport, _child) = spawn(&guarded("echo $PPID; cat")).await.unwrap();
            let (mut reader, _writer) = transport.open();
            let guardian = pids(&mut reader, 1).await[0];
            let status = std::fs::read_to_string(format!("/proc/{guardian}/status")).unwrap();
            let number = |key: &str| -> u32 {
                let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
                line.split_whitespace().next().unwrap().parse().unwrap()
            };
            assert_eq!(number("Threads:"), 1);
            assert!(number("RssAnon:") < 1024, "{status}");
            let streams: Vec<_> =
                (0..3).map(|n| std::fs::read_link(format!("/proc/{guardian}/fd/{n}")).unwrap()).collect();
            assert!(streams.iter().all(|stream| stream.as_os_str() == "/dev/null"), "{streams:?}");
            // Who kills all that has our name does not kill those who see to the end of the others.
            for file in ["cmdline", "comm"] {
                let name = std::fs::read_to_string(format!("/proc/{guardian}/{file}")).unwrap();
                assert!(!name.contains("tieline"), "{name}");
            }
        });
    }

    fn init_inside_a_runtime_works_too() {
        block_on(async {
            let mark = late_mark(std::process::id());
            std::fs::write(&mark, "").unwrap();
            let (_transport, child) = spawn(&guarded("exit 9")).await.unwrap();
            std::fs::remove_file(&mark).unwrap();
            assert_eq!(child.exit().await.status, Status::Code(9));
        });
    }
}
