//! `tieline man`: the manual pages.

use crate::shared::{USAGE, WRONG, finish};
use clap::{Args, CommandFactory as _};
use std::process::ExitCode;

/// The manual page of a command, for `man -l -`
#[derive(Args)]
pub struct Arguments {
    /// The command, such as `sessions list`; without it the page of `tieline` itself
    command: Vec<String>,
}

/// Prints it.
pub fn run(arguments: Arguments) -> ExitCode {
    finish("man", page(&arguments.command))
}

fn page(names: &[String]) -> Result<String, (u8, String)> {
    let mut command = crate::Arguments::command();
    command.build();
    let mut title = "tieline".to_owned();
    for name in names {
        let next = command.find_subcommand(name).cloned();
        command = next.ok_or_else(|| {
            (USAGE, format!("there is no command `{title} {name}`").replace("tieline tieline", "tieline"))
        })?;
        title = format!("{title}-{name}");
    }
    let mut text = Vec::new();
    let page = clap_mangen::Man::new(command).title(title).manual("Tieline manual");
    let page = page.source(concat!("tieline ", env!("CARGO_PKG_VERSION")));
    page.render(&mut text).map_err(|error| (WRONG, error.to_string()))?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}
