//! A small harness for tests that start themselves again, so that they need their own `main`.

#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Runs the tests whose names hold the first argument that is no option.
pub fn run_all(tests: &[(&str, fn())]) {
    let filter = std::env::args().skip(1).find(|arg| !arg.starts_with('-')).unwrap_or_default();
    if std::env::args().any(|arg| arg == "--list") {
        for (name, _) in tests {
            println!("{name}: test");
        }
        return;
    }
    let mut failed = 0;
    for (name, test) in tests.iter().filter(|(name, _)| name.contains(&filter)) {
        let start = Instant::now();
        let result = std::panic::catch_unwind(test);
        let word = if result.is_ok() { "ok" } else { "FAILED" };
        println!("test {name} ... {word} ({} ms)", start.elapsed().as_millis());
        failed += usize::from(result.is_err());
    }
    if failed > 0 {
        println!("{failed} failed");
        std::process::exit(1);
    }
}

pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap().block_on(future)
}

pub fn me() -> PathBuf {
    std::env::current_exe().unwrap()
}

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A command that runs as nobody, if we are root.
pub fn as_nobody(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]).arg(program);
    command
}

/// Waits until something is so.
pub fn soon(what: &str, within: Duration, mut so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !so() {
        assert!(start.elapsed() < within, "not within {within:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The processes, zombies left out, whose command line holds a text.
pub fn processes_with(text: &str) -> Vec<u32> {
    let holds = |pid: &u32| {
        std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| String::from_utf8_lossy(&line).contains(text))
    };
    let numbers =
        std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter(holds).filter(|pid| *pid != std::process::id()).collect()
}

/// A text that nobody else has.
pub fn unique() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static LAST: AtomicU32 = AtomicU32::new(0);
    format!("mark-{}-{}", std::process::id(), LAST.fetch_add(1, Ordering::Relaxed))
}
