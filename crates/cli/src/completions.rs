//! `tieline completions`: what makes a shell complete our commands and options.

use crate::shared::{load_config, print};
use clap::builder::PossibleValuesParser;
use clap::{Arg, Args, Command, CommandFactory as _};
use clap_complete::Shell;
use std::collections::BTreeSet;
use std::process::ExitCode;
use tieline_client::agents::{BUILT_IN, KNOWN};

const HOW: &str = "Agents are completed by the names that are known now; make it again when you add one. For example:

  tieline completions bash > ~/.local/share/bash-completion/completions/tieline
  tieline completions zsh > ~/.zfunc/_tieline
  tieline completions fish > ~/.config/fish/completions/tieline.fish";

/// Completions for a shell
#[derive(Args)]
#[command(after_help = HOW)]
pub struct Arguments {
    /// The shell
    #[arg(value_parser = clap::builder::EnumValueParser::<Shell>::new())]
    shell: Shell,
}

/// Prints them.
pub fn run(arguments: Arguments) -> ExitCode {
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut with_agents(crate::Arguments::command()), "tieline", &mut text);
    print(&String::from_utf8_lossy(&text))
}

/// The names of agents are values like any other, here only: elsewhere a command line can stand in their place.
fn with_agents(command: Command) -> Command {
    let configured = load_config().map(|(_, config)| config.agents.keys().cloned().collect()).unwrap_or_default();
    let known = KNOWN.iter().map(|known| known.name.to_owned()).chain([BUILT_IN.to_owned()]);
    // The program ends when they are printed.
    let names: BTreeSet<&'static str> = known.chain::<Vec<String>>(configured).map(|name| &*name.leak()).collect();
    let offer = |arg: Arg| arg.value_parser(PossibleValuesParser::new(&names));
    let mut command = command;
    for (path, arg) in [
        (&["exec"][..], "agent"),
        (&["doctor"], "agent"),
        (&["sessions", "list"], "agent"),
        (&["agents", "which"], "name"),
        (&["agents", "remove"], "name"),
    ] {
        command = at(command, path, &|command| command.mut_arg(arg, offer));
    }
    command
}

fn at(command: Command, path: &[&str], change: &dyn Fn(Command) -> Command) -> Command {
    match path {
        [] => change(command),
        [name, rest @ ..] => command.mut_subcommand(name, |inner| at(inner, rest, change)),
    }
}
