//! `tieline completions`: what makes a shell complete our commands and options.

use crate::shared::print;
use clap::{Args, CommandFactory as _};
use clap_complete::Shell;
use std::process::ExitCode;

const HOW: &str = "For example:

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
    clap_complete::generate(arguments.shell, &mut crate::Arguments::command(), "tieline", &mut text);
    print(&String::from_utf8_lossy(&text))
}
