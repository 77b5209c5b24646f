//! The `tieline` command: each sub-command is one file that joins parts of the libraries.

mod agent;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Tieline speaks the Agent Client Protocol (ACP): any client, any agent, any version.
#[derive(Parser)]
#[command(name = "tieline", version, arg_required_else_help = true, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Agent(agent::Arguments),
}

fn main() -> ExitCode {
    // We may have been started to guard a child process or to hold a command in its sandbox.
    tieline_rpc::guardian::init();
    tieline_host::sandbox::init();
    match Arguments::parse().command {
        Command::Agent(arguments) => agent::run(arguments),
    }
}
