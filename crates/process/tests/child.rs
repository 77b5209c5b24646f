//! Child processes: how they start, what they say, how they end, and that nothing of them is left.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

#[path = "common/process.rs"]
mod process;

use process::{end_of_output, gone, line, pids, reaped, runs, sh, soon, spawn, with_text};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tieline_process::{Guard, ShutdownTimeouts, Spec, Status};

const SECOND: Duration = Duration::from_secs(1);

fn short() -> ShutdownTimeouts {
    ShutdownTimeouts { eof: Duration::from_millis(100), term: Duration::from_millis(100) }
}

#[tokio::test]
async fn tr_end_07_the_reason_has_status_and_stderr() {
    let (_transport, child) = spawn(&sh("echo one >&2; echo two >&2; exit 3")).await.unwrap();
    let (one, other) = tokio::join!(child.exit(), child.exit());
    assert_eq!(one, other);
    assert_eq!(one.status, Status::Code(3));
    assert_eq!(one.to_string(), "exited with status 3; last lines of stderr: one\ntwo");
    assert_eq!(child.exit().await, one, "asked again later");
    assert_eq!(child.stderr_tail(), "one\ntwo\n");
}

#[tokio::test]
async fn a_signal_is_named() {
    let (_transport, child) = spawn(&sh("kill -9 $$")).await.unwrap();
    assert_eq!(child.exit().await.to_string(), "was killed by SIGKILL");
}

#[tokio::test]
async fn tr_stdio_07_much_stderr_blocks_nobody_and_its_end_is_kept() {
    let script = "head -c 1048576 /dev/zero | tr '\\0' x >&2; echo the end >&2; echo done";
    let (transport, child) = spawn(&sh(script)).await.unwrap();
    let (mut reader, _writer) = transport.open();
    assert_eq!(line(&mut reader).await, "done");
    let reason = child.exit().await;
    assert_eq!(reason.stderr.len(), 64 * 1024);
    assert!(reason.stderr.starts_with("xxx") && reason.stderr.ends_with("xthe end\n"));
    assert!(reason.to_string().len() < 3000);
}

#[tokio::test]
async fn tr_end_09_lines_of_stderr_are_forwarded() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&seen);
    let spec = sh("printf 'a\\nb\\r\\nc' >&2").on_stderr(move |line| sink.lock().unwrap().push(line.to_owned()));
    let (_transport, child) = spawn(&spec).await.unwrap();
    child.exit().await;
    assert_eq!(*seen.lock().unwrap(), ["a", "b", "c"]);
}

#[tokio::test]
async fn what_cannot_be_started_is_named_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    // Written by another process: as long as one of ours has a file open for writing, it can't be run.
    let write = "echo hello >text; echo '#!/no/such/interpreter' >script; chmod 755 script";
    assert!(std::process::Command::new("sh").args(["-c", write]).current_dir(&folder).status().unwrap().success());
    let [text, script] = ["text", "script"].map(|name| folder.path().join(name).display().to_string());
    let missing = folder.path().join("missing").display().to_string();
    let here = folder.path().display().to_string();
    for (spec, expect) in [
        (Spec::new("no-such-program-xyz"), "can't start `no-such-program-xyz`: not found on PATH".to_owned()),
        (Spec::new(&missing), format!("can't start `{missing}`: there is no such file")),
        (Spec::new(&text), format!("can't start `{text}`: it is not executable")),
        (Spec::new(&here), format!("can't start `{here}`: it is a folder")),
        (Spec::new(&script), format!("can't start `{script}`: the interpreter that it names is missing")),
        (
            Spec::new("sh").current_dir(&missing),
            format!("can't start `sh`: its working directory `{missing}` does not exist"),
        ),
        (
            Spec::new("sh").current_dir(&text),
            format!("can't start `sh`: its working directory `{text}` is not a folder"),
        ),
        (
            Spec::new("sh").guard(Guard::Required),
            "can't start `sh`: it needs a guardian, but `tieline_process::init()` was not called at the start of `main`"
                .to_owned(),
        ),
    ] {
        assert_eq!(spawn(&spec).await.unwrap_err().to_string(), expect);
    }
}

#[tokio::test]
async fn arguments_folder_and_environment() {
    let folder = tempfile::tempdir().unwrap();
    let script = "printf '%s\\n' \"$1\" \"$PWD\" \"${HOME-none}\" \"$ADDED\" \"${GONE-none}\"";
    let path = std::env::var_os("PATH").unwrap();
    let spec = sh(script)
        .args(["sh", "an; $argument"])
        .current_dir(folder.path())
        .env("ADDED", "yes")
        .env("GONE", "x")
        .env_remove("GONE");
    let home = std::env::var("HOME").unwrap_or("none".into());
    for (spec, home) in [(spec.clone(), &*home), (spec.env("PATH", path).env_clear(), "none")] {
        // Without a guardian in this program, this is the same as none.
        let (transport, _child) = spawn(&spec.guard(Guard::IfPossible)).await.unwrap();
        let (mut reader, _writer) = transport.open();
        let here = folder.path().canonicalize().unwrap().display().to_string();
        for expect in ["an; $argument", &here, home, "yes", "none"] {
            assert_eq!(line(&mut reader).await, expect);
        }
    }
}

#[tokio::test]
async fn tr_end_01_the_end_of_input_is_enough_for_most() {
    let (transport, child) = spawn(&sh("cat; exit 4")).await.unwrap();
    let (mut reader, writer) = transport.open();
    writer.send(|out| out.extend_from_slice(b"hello")).await.unwrap();
    assert_eq!(line(&mut reader).await, "hello");
    writer.close().await;
    let start = Instant::now();
    assert_eq!(child.shutdown().await.status, Status::Code(4));
    assert!(start.elapsed() < 2 * SECOND);
    reaped(child.id(), SECOND);
    assert_eq!(child.shutdown().await.status, Status::Code(4), "once more");
}

#[tokio::test]
async fn tr_end_02_who_ignores_everything_is_killed() {
    for (script, status) in [
        ("echo ready; exec sleep 1000", Status::Signal(15)),
        ("trap '' TERM; echo ready; while :; do sleep 1; done", Status::Signal(9)),
        ("trap 'exit 7' TERM; echo ready; while :; do sleep 0.01; done", Status::Code(7)),
    ] {
        let shutdown = ShutdownTimeouts { term: Duration::from_millis(400), ..short() };
        let (transport, child) = spawn(&sh(script).shutdown(shutdown)).await.unwrap();
        let (mut reader, writer) = transport.open();
        assert_eq!(line(&mut reader).await, "ready");
        writer.close().await;
        let start = Instant::now();
        assert_eq!(child.shutdown().await.status, status);
        assert!(start.elapsed() < 2 * SECOND);
        reaped(child.id(), SECOND);
    }
}

#[tokio::test]
async fn tr_end_02_who_has_stopped_reading_is_killed() {
    let (transport, child) = spawn(&sh("exec sleep 1000").shutdown(short())).await.unwrap();
    let (_reader, writer) = transport.open();
    writer.send(|out| out.resize(1 << 20, b'x')).await.unwrap();
    let (reason, ()) = tokio::join!(child.shutdown(), writer.close());
    assert_eq!(reason.status, Status::Signal(15));
}

/// Starts a grandchild in a session of its own, one that ignores SIGTERM, and one in the same group.
const FAMILY: &str = "setsid sleep 1000 & echo $!
    setsid sh -c 'trap \"\" TERM; echo $$; while :; do sleep 1; done' &
    sleep 1000 & echo $!
    cat";

#[tokio::test]
async fn p1_the_whole_family_is_gone_after_shutdown() {
    // On a busy machine it may take a while to see the end of its input.
    let shutdown = ShutdownTimeouts { term: short().term, ..ShutdownTimeouts::default() };
    let (transport, child) = spawn(&sh(FAMILY).shutdown(shutdown)).await.unwrap();
    let (mut reader, writer) = transport.open();
    let family = pids(&mut reader, 3).await;
    assert!(family.iter().all(|pid| runs(*pid)));
    writer.close().await;
    // The program itself ends with its input; what it leaves behind does not.
    assert_eq!(child.shutdown().await.status, Status::Code(0));
    gone(&family, Duration::ZERO);
}

#[tokio::test]
async fn p1_the_whole_family_is_gone_after_drop() {
    let (transport, child) = spawn(&sh(FAMILY)).await.unwrap();
    let (mut reader, _writer) = transport.open();
    let family = pids(&mut reader, 3).await;
    let (id, start) = (child.id(), Instant::now());
    drop(child);
    assert!(start.elapsed() < 5 * SECOND, "{:?}", start.elapsed());
    gone(&family, SECOND);
    reaped(id, SECOND);
}

#[tokio::test]
async fn p1_a_tree_that_keeps_forking_does_not_escape() {
    let sleep = format!("sleep 1000.125{}", std::process::id());
    let script =
        format!("trap '' HUP; echo ready; f() {{ while :; do setsid {sleep} & sleep 0.005; done; }}; f & f & f");
    let (transport, child) = spawn(&sh(&script)).await.unwrap();
    let (mut reader, _writer) = transport.open();
    assert_eq!(line(&mut reader).await, "ready");
    soon(5 * SECOND, "many are there", || with_text(&sleep).len() > 20);
    drop(child);
    // One that escaped would sleep on; a busy machine only needs longer.
    soon(20 * SECOND, "none is left", || with_text(&sleep).iter().all(|pid| !runs(*pid)));
}

#[tokio::test]
async fn p1_what_shares_the_group_ends_with_a_program_that_crashes() {
    let (transport, child) = spawn(&sh("sleep 1000 & echo $!; kill -9 $$")).await.unwrap();
    let (mut reader, _writer) = transport.open();
    let family = pids(&mut reader, 1).await;
    assert_eq!(child.exit().await.status, Status::Signal(9));
    gone(&family, SECOND);
    end_of_output(&mut reader, SECOND).await;
}

#[tokio::test]
async fn p2_output_ends_with_the_program_even_if_others_hold_the_pipe() {
    let (transport, child) = spawn(&sh("setsid sleep 1000 & echo $!")).await.unwrap();
    let (mut reader, _writer) = transport.open();
    let stray = pids(&mut reader, 1).await;
    end_of_output(&mut reader, 2 * SECOND).await;
    assert_eq!(child.exit().await.status, Status::Code(0));
    // Nobody could have seen this one in time. That takes a guardian.
    let stray = rustix::process::Pid::from_raw(stray[0].cast_signed()).unwrap();
    let _ = rustix::process::kill_process(stray, rustix::process::Signal::KILL);
}

#[test]
fn a_child_is_reaped_also_when_the_runtime_is_gone() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (transport, child) = runtime.block_on(spawn(&sh("exec sleep 1000"))).unwrap();
    drop(runtime);
    assert!(runs(child.id()));
    let id = child.id();
    drop(child);
    reaped(id, SECOND);
    drop(transport);
}

#[tokio::test]
async fn p1_many_rounds_leave_nothing_behind() {
    let sleep = format!("sleep 1000.25{}", std::process::id());
    let spec = sh(&format!("setsid {sleep} & echo ready; cat")).shutdown(short());
    for round in 0..100 {
        let (transport, child) = spawn(&spec).await.unwrap();
        let (mut reader, writer) = transport.open();
        assert_eq!(line(&mut reader).await, "ready");
        if round % 2 == 0 {
            writer.close().await;
            child.shutdown().await;
        }
        drop((reader, child));
    }
    // One that escaped would sleep on; a busy machine only needs longer.
    soon(20 * SECOND, "none is left", || with_text(&sleep).iter().all(|pid| !runs(*pid)));
}
