//! A test that can't do its work here says so, where the summary of `scripts/test` finds it, and fails where it was promised.

#![allow(clippy::print_stdout)]

use std::io::Write as _;

/// Says that a test was skipped. With `TIELINE_NEED_…` of that name set it fails instead.
pub fn skipped(need: &str, why: &str) {
    assert!(std::env::var_os(format!("TIELINE_NEED_{need}")).is_none(), "this was to be tested here: {why}");
    println!("SKIPPED: {why}");
    if let Some(path) = std::env::var_os("TIELINE_SKIPPED") {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
        file.and_then(|mut file| writeln!(file, "{need}: {why}")).expect("the list of what was skipped");
    }
}
