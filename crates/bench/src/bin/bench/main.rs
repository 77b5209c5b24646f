//! Measures ACP agents and clients over stdio and prints how they compare with the official Rust SDK.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "printing is what this program is for")]
#![allow(clippy::cast_precision_loss, reason = "counts and times here are far below 2^52")]

mod agents;
mod clients;
mod options;
mod peers;
mod probe;
mod process;
mod report;
mod scenario;
mod size;
mod wire;

use std::io::Write;
use std::process::ExitCode;

use options::{Command, Options};
use peers::Peer;
use scenario::{Sample, Scenario};

/// What one peer did in one scenario.
struct Outcome {
    scenario: usize,
    peer: usize,
    samples: Vec<Sample>,
    failures: Vec<String>,
}

fn main() -> ExitCode {
    let options = match options::parse(std::env::args().skip(1)) {
        Ok(Command::Run(options)) => options,
        Ok(Command::Help) => {
            print!("{}", options::HELP);
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("bench: {error}\nTry `bench --help`.");
            return ExitCode::from(2);
        }
    };
    match measure(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs everything and prints it; false when a peer failed.
fn measure(options: &Options) -> Result<bool, String> {
    if options.one_core {
        process::stay_on_one_core().map_err(|error| format!("cannot stay on one core: {error}"))?;
    }
    process::kill_children_on_signals().map_err(|error| format!("cannot watch for signals: {error}"))?;
    // Opened first: a wrong path should not show up after minutes of work.
    let json = match &options.json {
        Some(path) => Some(std::fs::File::create(path).map_err(|error| format!("{}: {error}", path.display()))?),
        None => None,
    };
    let (peers, missing) = peers::find(options)?;
    for note in &missing {
        eprintln!("{note}");
    }
    let scenarios: Vec<Scenario> =
        scenario::all(options.scale).into_iter().filter(|scenario| options.wants(scenario)).collect();
    let flood = peers::beside("flood-agent")?;
    let outcomes = run(options, &scenarios, &peers, &flood.to_string_lossy());
    let sizes = size::measure(&options.sizes, &options.crates);

    let report = report::Report { options, scenarios: &scenarios, peers: &peers, outcomes: &outcomes };
    let mut text = report.markdown(&missing);
    text.push_str(&size::markdown(&sizes));
    std::io::stdout().write_all(text.as_bytes()).map_err(|error| format!("cannot print: {error}"))?;
    if let Some(file) = json {
        serde_json::to_writer_pretty(file, &report.json(&sizes)).map_err(|error| format!("cannot write: {error}"))?;
    }
    Ok(outcomes.iter().all(|outcome| outcome.failures.is_empty()) && sizes.iter().all(size::Size::is_complete))
}

/// Runs every scenario; repetitions alternate between the peers, so that slow noise hits all of them.
fn run(options: &Options, scenarios: &[Scenario], peers: &[Peer], flood: &str) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    for (index, scenario) in scenarios.iter().enumerate() {
        let mut rows: Vec<Outcome> = (0..peers.len())
            .filter(|&peer| peers[peer].kind == scenario.kind())
            .map(|peer| Outcome { scenario: index, peer, samples: Vec::new(), failures: Vec::new() })
            .collect();
        for repetition in 1..=options.reps * scenario.more_reps {
            for row in &mut rows {
                let peer = &peers[row.peer];
                // A peer that fails once, fails again: its other scenarios may still be worth the time.
                if !row.failures.is_empty() {
                    continue;
                }
                let label = format!("{} {} {repetition}", scenario.name, peer.name);
                match scenario.run(&peer.command, flood, options.deadline) {
                    Ok(sample) => {
                        eprintln!("{label}: {} us CPU/op", report::number(sample.cpu_us));
                        row.samples.push(sample);
                    }
                    Err(failure) => {
                        eprintln!("{label}: FAILED: {failure}");
                        row.failures.push(failure.to_string());
                    }
                }
            }
        }
        outcomes.append(&mut rows);
    }
    outcomes
}
