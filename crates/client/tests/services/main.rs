//! The services of a client, asked by a scripted agent: over memory and as a child process, in every dialect.

#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs, reason = "tests")]

mod agent;
#[path = "../../../acp/tests/common/mod.rs"]
mod common;
mod elicit;
mod evasions;
mod files;
mod grants;
#[path = "../../../host/tests/harness/mod.rs"]
mod harness;
mod login;
mod permission;
mod process;
mod setup;
mod terminals;

fn main() {
    tieline::process::init();
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["agent", ..] => agent::run(&args[1..]),
        ["log-in", folder] => login::log_in(folder),
        _ => harness::run_all(
            &[
                files::ALL,
                grants::ALL,
                terminals::ALL,
                permission::ALL,
                evasions::ALL,
                elicit::ALL,
                login::ALL,
                process::ALL,
            ]
            .concat(),
        ),
    }
}
