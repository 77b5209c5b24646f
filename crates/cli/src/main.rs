//! The `tieline` command: each sub-command is one file that joins parts of the libraries.

mod agent;
mod agents;
mod completions;
mod config;
mod diff;
mod doctor;
mod exec;
mod login;
mod man;
mod models;
mod sessions;
mod shared;
mod undo;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

const EXAMPLES: &str = "Examples:
  tieline doctor                          does the built-in agent work?
  tieline agents add mine -- my-agent     give an agent a name
  tieline sessions search panic           find what was said
  tieline diff                            what did the last session here change?
  tieline undo --dry-run                  what would be put back?

Settings: ~/.config/tieline/config.toml and .tieline/config.toml; see `tieline config path`.";

/// Tieline speaks the Agent Client Protocol (ACP): any client, any agent, any version.
#[derive(Parser)]
#[command(name = "tieline", version, arg_required_else_help = true, max_term_width = 100, after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Exec(Box<exec::Arguments>),
    Agent(agent::Arguments),
    Models(models::Arguments),
    Sessions(sessions::Arguments),
    Diff(diff::Arguments),
    Undo(undo::Arguments),
    Agents(agents::Arguments),
    Doctor(doctor::Arguments),
    Config(config::Arguments),
    Completions(completions::Arguments),
    Man(man::Arguments),
}

fn main() -> ExitCode {
    // We may have been started to guard a child process or to hold a command in its sandbox.
    tieline_rpc::guardian::init();
    tieline_host::sandbox::init();
    match Arguments::parse().command {
        Command::Exec(arguments) => exec::run(*arguments),
        Command::Agent(arguments) => agent::run(arguments),
        Command::Models(arguments) => models::run(arguments),
        Command::Sessions(arguments) => sessions::run(arguments),
        Command::Diff(arguments) => diff::run(arguments),
        Command::Undo(arguments) => undo::run(arguments),
        Command::Agents(arguments) => agents::run(arguments),
        Command::Doctor(arguments) => doctor::run(arguments),
        Command::Config(arguments) => config::run(arguments),
        Command::Completions(arguments) => completions::run(arguments),
        Command::Man(arguments) => man::run(arguments),
    }
}
