//! What tests with real processes share: scripts, lines, waiting for an end, and a runner for tests with their own `main`.

#![allow(dead_code, clippy::unwrap_used, clippy::print_stdout)]

use std::path::Path;
use std::time::{Duration, Instant};
use tieline_process::{ChildProcess, Spec};
use tieline_rpc::{Event, FrameReader, Transport};

/// A shell script as a child.
pub fn sh(script: &str) -> Spec {
    Spec::new("sh").arg("-c").arg(script)
}

/// Starts it, and reads and writes lines.
pub async fn spawn(spec: &Spec) -> std::io::Result<(Transport, ChildProcess)> {
    let (pipes, child) = ChildProcess::spawn(spec).await?;
    Ok((Transport::new(pipes.output, pipes.input), child))
}

/// The next line of a child, which must come.
pub async fn line(reader: &mut FrameReader) -> String {
    match tokio::time::timeout(Duration::from_secs(10), reader.next()).await.expect("a line in time") {
        Event::Frame(at) => String::from_utf8(reader.bytes(at).to_vec()).unwrap(),
        other => panic!("a line was expected, not {other:?}"),
    }
}

/// Reads numbers of processes, one per line.
pub async fn pids(reader: &mut FrameReader, count: usize) -> Vec<u32> {
    let mut pids = Vec::new();
    for _ in 0..count {
        pids.push(line(reader).await.parse().unwrap());
    }
    pids
}

/// Waits for the end of a child's output, which must come within the limit.
pub async fn end_of_output(reader: &mut FrameReader, limit: Duration) {
    let end = tokio::time::timeout(limit, reader.next()).await.expect("the end of output in time");
    assert!(matches!(end, Event::End(None)), "{end:?}");
}

/// True while the process runs. One that only waits to be reaped does not.
pub fn runs(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit_once(')').unwrap().1.starts_with(" Z"))
}

/// Waits until this is so, at most that long.
pub fn soon(limit: Duration, what: &str, so: impl Fn() -> bool) {
    let start = Instant::now();
    while !so() {
        assert!(start.elapsed() < limit, "not within {limit:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub fn gone(pids: &[u32], limit: Duration) {
    soon(limit, &format!("{pids:?} are gone"), || !pids.iter().any(|pid| runs(*pid)));
}

/// Waits until the process is not even a zombie.
pub fn reaped(pid: u32, limit: Duration) {
    soon(limit, &format!("{pid} is reaped"), || !Path::new(&format!("/proc/{pid}")).exists());
}

/// Every process whose command line holds the text.
pub fn with_text(text: &str) -> Vec<u32> {
    let table = std::fs::read_dir("/proc").unwrap();
    let pids = table.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let holds = |pid: &u32| {
        std::fs::read(format!("/proc/{pid}/cmdline"))
            .is_ok_and(|line| String::from_utf8_lossy(&line).replace('\0', " ").contains(text))
    };
    pids.filter(|pid| *pid != std::process::id() && holds(pid)).collect()
}

/// Runs tests one after the other. Arguments that are no options choose those whose name holds one of them.
pub fn run_all(tests: &[(&str, fn())]) {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let chosen = |name: &str| wanted.is_empty() || wanted.iter().any(|wanted| name.contains(&**wanted));
    let mut failed = 0;
    for (name, test) in tests.iter().filter(|(name, _)| chosen(name)) {
        let well = std::panic::catch_unwind(test).is_ok();
        failed += i32::from(!well);
        println!("test {name} ... {}", if well { "ok" } else { "FAILED" });
    }
    println!("\ntest result: {}. {failed} failed", if failed == 0 { "ok" } else { "FAILED" });
    std::process::exit(i32::from(failed > 0));
}

/// Runs a test with all that children need.
pub fn block_on(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
}
