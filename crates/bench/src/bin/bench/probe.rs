//! Reads CPU time, memory and threads of a running process from `/proc`.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use tieline_bench::status_number;

/// How long a process may stay busy after its last answer before it is measured anyway.
const SETTLE: Duration = Duration::from_millis(250);

/// Nanoseconds in one clock tick: `/proc` always counts in hundredths of a second.
const TICK_NS: u64 = 10_000_000;

/// One look at a process.
#[derive(Clone, Copy)]
pub struct Reading {
    pub cpu_ns: u64,
    pub peak_mib: f64,
    pub threads: usize,
}

/// Looks at a process once all its threads sleep.
///
/// The kernel brings a thread's time up to date when the thread stops running. A thread that still runs would
/// be read with up to one scheduler tick missing, which is more than a small agent needs to start.
pub fn read(pid: u32) -> Option<Reading> {
    let start = Instant::now();
    while !all_sleep(pid)? && start.elapsed() < SETTLE {
        sleep(Duration::from_micros(100));
    }
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    Some(Reading {
        // The sum over threads is exact but forgets threads that have ended; the process total has both but is
        // coarse. The larger one is never further off than two ticks, and exact when no thread has ended.
        cpu_ns: thread_ns(pid)?.max(process_ns(pid)?),
        peak_mib: status_number(&status, "VmHWM:")? as f64 / 1024.0,
        threads: usize::try_from(status_number(&status, "Threads:")?).ok()?,
    })
}

/// The fields of a `stat` file from the state on; the name before them may hold spaces.
fn stat(path: &str) -> Option<Vec<String>> {
    let text = fs::read_to_string(path).ok()?;
    let (_, fields) = text.rsplit_once(')')?;
    Some(fields.split_whitespace().map(str::to_owned).collect())
}

/// The directories of the threads of a process.
fn threads(pid: u32) -> Option<Vec<String>> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    Some(entries.flatten().map(|entry| entry.path().to_string_lossy().into_owned()).collect())
}

fn all_sleep(pid: u32) -> Option<bool> {
    // A thread that ended between the two reads has no state and does not run either.
    let states = threads(pid)?.into_iter().filter_map(|thread| stat(&format!("{thread}/stat")));
    Some(states.into_iter().all(|fields| fields.first().is_none_or(|state| state != "R")))
}

/// Time of the threads that exist now.
fn thread_ns(pid: u32) -> Option<u64> {
    let times = threads(pid)?.into_iter().filter_map(|thread| {
        let text = fs::read_to_string(format!("{thread}/schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    });
    Some(times.sum())
}

/// Time of the whole process, in whole ticks.
fn process_ns(pid: u32) -> Option<u64> {
    let fields = stat(&format!("/proc/{pid}/stat"))?;
    // utime and stime are fields 14 and 15 of the file; the state, field 3, is the first here.
    let ticks = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    Some((ticks(14)? + ticks(15)?) * TICK_NS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleeping_child_is_read() {
        let mut child = std::process::Command::new("sleep").arg("30").spawn().unwrap();
        sleep(Duration::from_millis(50));
        let reading = read(child.id()).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(reading.cpu_ns > 0 && reading.cpu_ns < 1_000_000_000);
        assert_eq!(reading.threads, 1);
        assert!(reading.peak_mib > 0.0);
    }
}
