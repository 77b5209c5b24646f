//! The scenarios in which the peer is a client and takes in what the flood agent sends.

use std::time::Duration;

use serde::Deserialize;

use crate::process::{Failure, Running};
use crate::scenario::Sample;

/// What a client prints about itself: only it knows when its session was open and its last update counted.
#[derive(Deserialize)]
struct Report {
    updates: usize,
    bytes: usize,
    secs: f64,
    cpu: f64,
    peak_kib: f64,
}

/// Runs a client on a prompt that makes the agent send `count` updates of `size` bytes.
pub fn run(
    command: &[String],
    flood: &str,
    prompt: &str,
    (count, size): (usize, usize),
    deadline: Duration,
) -> Result<Sample, Failure> {
    let mut command = command.to_vec();
    command.extend([prompt.to_owned(), flood.to_owned()]);
    let output = Running::start(&command, deadline)?.output()?;
    let line = output.lines().last().unwrap_or_default();
    let report: Report =
        serde_json::from_str(line).map_err(|error| Failure::Wrong(format!("no report in {line:?}: {error}")))?;
    if (report.updates, report.bytes) != (count, count * size) {
        let seen = format!("it saw {} updates and {} bytes", report.updates, report.bytes);
        return Err(Failure::Wrong(format!("{seen} instead of {count} and {}", count * size)));
    }
    let wall = Duration::try_from_secs_f64(report.secs)
        .map_err(|error| Failure::Wrong(format!("{} seconds: {error}", report.secs)))?;
    Ok(Sample {
        cpu_us: report.cpu * 1e6 / count as f64,
        wall,
        ops: count,
        peak_mib: report.peak_kib / 1024.0,
        threads: None,
        first_ms: None,
    })
}
