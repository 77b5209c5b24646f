//! Agents that try to fill our memory: whatever they send, it follows a budget. `scripts/hard` runs it in full length.

use super::harness::{DIALECTS, Place};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Every way to flood, as `flood.py` knows them.
const WAYS: &str = "calls small_calls replaced huge many_blocks chunks raw_input raw_output raw_tree diffs many_diffs many_links questions long_questions titles paths metas plan \
    plans tiny two_messages messages whole_messages pictures strangers commands options usage terminals output small_terminals \
    notices compactions bad elsewhere reads";
/// What is run each time.
const SHORT: [(&str, &str, &str); 10] = [
    ("calls", "1", "text"),
    ("raw_output", "2-seed", "stream-json"),
    ("metas", "1", "json"),
    ("compactions", "2", "text"),
    ("huge", "1", "text"),
    ("reads", "1", "text"),
    ("many_diffs", "1", "text"),
    ("many_links", "2", "json"),
    ("questions", "1", "text"),
    ("long_questions", "2", "text"),
];

/// The most memory of a run while an agent sends so much, in MB.
fn peak(way: &str, dialect: &str, format: &str, megabytes: u64, thousands: u64) -> u64 {
    let place = Place::new();
    let (megabytes, thousands) = (megabytes.to_string(), thousands.to_string());
    let mut exec = place.exec(&["go", "--protocol", dialect, "--format", format, "--"]);
    let script = super::harness::script("flood.py");
    exec.command.args(["python3", &script, way, dialect, &megabytes, &thousands]);
    let err = std::fs::File::create(place.path("err")).unwrap();
    let mut child = exec.command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(err).spawn().unwrap();
    let (mut peak, start) = (0, Instant::now());
    let status = loop {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        peak = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0).max(peak);
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if start.elapsed() > Duration::from_mins(20) {
            let _ = child.kill();
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let err = std::fs::read(place.path("err")).unwrap();
    let end = String::from_utf8_lossy(&err[err.len().saturating_sub(500)..]).into_owned();
    assert!(status.success(), "{way} {dialect} {format}: {status} {end}");
    #[allow(clippy::print_stderr, reason = "the figures are what the long run is for")]
    {
        eprintln!("{way} in {dialect} as {format}: {} MB, {:.1} s", peak / 1024, start.elapsed().as_secs_f64());
    }
    peak / 1024
}

#[test]
fn memory_follows_a_budget_whatever_an_agent_sends() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let Some(megabytes) = number("TIELINE_FLOOD_MEGABYTES") else {
        // A tenth of the whole, against what a run takes by itself (some 50 MB as a debug build) and a rest for the budgets.
        for (way, dialect, format) in SHORT {
            // A text of several MB is held more than once while it is read and written.
            let limit = if ["huge", "reads"].contains(&way) { 200 } else { 130 };
            let peak = peak(way, dialect, format, 100, 5);
            assert!(peak < limit, "{way} in {dialect} as {format}: {peak} MB");
        }
        return;
    };
    let thousands = number("TIELINE_FLOOD_THOUSANDS").unwrap_or(megabytes / 10);
    let mut over = Vec::new();
    for (at, way) in WAYS.split_whitespace().enumerate() {
        for (number, dialect) in DIALECTS.into_iter().enumerate() {
            let format = ["text", "stream-json", "json", "acp"][(at + number) % 4];
            let peak = peak(way, dialect, format, megabytes, thousands);
            if peak >= 200 {
                over.push(format!("{way} in {dialect} as {format}: {peak} MB"));
            }
        }
    }
    assert!(over.is_empty(), "{over:#?}");
}
