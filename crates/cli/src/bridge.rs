//! `tieline bridge`: a client of one version of the protocol in front of an agent of another.

use crate::shared::{WRONG, block_on, note};
use clap::Args;
use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::process::ExitCode;
use tieline::bridge::Bridge;
use tieline::{Error, Protocol};
use tieline_client::sanitize;
use tieline_process::{Guard, Spec};

/// As a shell says that a command could not be started.
const NOT_STARTED: u8 = 127;

/// Let a client of one version of the protocol work with an agent of another
///
/// Put `tieline bridge --` in front of the agent's command in the settings of any client: the client goes on in its version, the agent
/// in its own. What can't be said in the other version is told once, here and to the client; docs/bridge.md lists it all.
/// At a terminal, where no client is, the agent's command runs as it is: that is how clients let you log in.
#[derive(Args)]
pub struct Arguments {
    /// Ask the agent for this version: auto (the client's if the agent speaks it, else what it speaks), 1, 2 or 2-seed
    #[arg(long, value_name = "VERSION", default_value = "auto")]
    agent_protocol: Protocol,

    /// Refuse what would lose something, with an error that says what
    #[arg(long)]
    lossless: bool,

    /// The agent: a program and its arguments, after `--`
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Bridges.
pub fn run(arguments: Arguments) -> ExitCode {
    let mut words = arguments.command.into_iter();
    let program = words.next().unwrap_or_default();
    if std::io::stdin().is_terminal() && std::io::stdout().is_terminal() {
        return alone(program, words.collect());
    }
    let bridge = Bridge::default()
        .agent_protocol(arguments.agent_protocol)
        .lossless(arguments.lossless)
        .on_loss(|what| note(format_args!("tieline bridge: not passed on: {}", sanitize::line(what))));
    let spec = Spec::new(program).args(words).guard(Guard::IfPossible).on_stderr(|line| note(line));
    let served = block_on(async {
        bridge.serve_stdio(&spec).await.map_err(|error| {
            let code = if matches!(error, Error::Start(_)) { NOT_STARTED } else { WRONG };
            (code, error.to_string())
        })
    });
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err((code, why)) => {
            note(format_args!("tieline bridge: {why}"));
            ExitCode::from(code)
        }
    }
}

/// Runs the agent's command in this terminal.
fn alone(program: OsString, words: Vec<OsString>) -> ExitCode {
    let mut command = std::process::Command::new(&program);
    command.args(words);
    #[cfg(unix)]
    let failed = std::os::unix::process::CommandExt::exec(&mut command);
    #[cfg(not(unix))]
    let failed = match command.status() {
        Ok(status) => return ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(WRONG)),
        Err(error) => error,
    };
    note(format_args!("tieline bridge: {}: {failed}", program.to_string_lossy()));
    ExitCode::from(NOT_STARTED)
}
