//! What a command can do at each level, tried by a real process; and what is refused.

#![cfg_attr(not(target_os = "linux"), allow(unused))]
#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[cfg(target_os = "linux")]
mod around;
#[cfg(target_os = "linux")]
mod attacks;
#[cfg(target_os = "linux")]
mod closed;
#[cfg(target_os = "linux")]
mod deeds;
#[cfg(target_os = "linux")]
#[path = "../harness/mod.rs"]
mod harness;
#[cfg(target_os = "linux")]
mod policies;
#[cfg(target_os = "linux")]
mod table;

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
fn main() {
    tieline_process::init();
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.first().map(String::as_str) {
        Some("try") => std::process::exit(deeds::attempt(&args[1], &args[2])),
        Some("table") => table::table(std::path::Path::new(&args[1])),
        Some("measure") => attacks::measure(std::path::Path::new(&args[1])),
        Some("run") => attacks::run(std::path::Path::new(&args[1]), &args[2]),
        Some("lines") => attacks::lines(std::path::Path::new(&args[1]), &args[2..]),
        Some("plant") => attacks::plant(std::path::Path::new(&args[1]), &args[2]),
        Some("start") => around::start(std::path::Path::new(&args[1]), std::path::Path::new(&args[2]), &args[3]),
        Some("attack") => attacks::attack(&args[1], std::path::Path::new(&args[2])),
        _ => harness::run_all(&[table::ALL, policies::ALL, attacks::ALL].concat()),
    }
}

/// Says that something could not be tried for want of a sandbox. Where one is needed, that is a failure.
#[cfg(target_os = "linux")]
pub fn without_sandbox(what: &str) {
    let why = tieline_host::sandbox::probe().how();
    println!("\n!!! NOT TRIED, THERE IS NO WHOLE SANDBOX HERE: {what} ({why})\n");
    assert!(std::env::var_os("TIELINE_NEED_SANDBOX").is_none(), "TIELINE_NEED_SANDBOX is set");
}
