//! Commands with real processes: output, time, cancellation, and what is left when somebody dies.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[cfg(target_os = "linux")]
mod basics;
#[cfg(target_os = "linux")]
mod families;
#[cfg(target_os = "linux")]
#[path = "../harness/mod.rs"]
mod harness;
#[cfg(target_os = "linux")]
mod ways;

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
fn main() {
    tieline_process::init();
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.first().map(String::as_str) {
        Some("own") => families::own(&args[1], &args[2]),
        Some("flood") => basics::flood(&args[1]),
        _ => harness::run_all(&[basics::ALL, families::ALL].concat()),
    }
}
