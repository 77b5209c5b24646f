//! From a command to an agent that has answered the hello.

use super::handler_hooks::Hooked;
use super::{Ending, Failure, Phase, Plan};
use crate::agents::{AgentSpec, find_program};
use crate::login::Launch;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tieline::client::{AgentHandle, Client};
use tieline::process::{ChildProcess, Guard, ShutdownTimeouts};
use tieline::rpc::{Direction, Transport};

/// How long an agent gets to end by itself, and to end when asked.
const LADDER: ShutdownTimeouts = ShutdownTimeouts { eof: Duration::from_secs(3), term: Duration::from_secs(2) };
/// A longer update is cut, in bytes: it is held several times while it is written down and shown.
const MAX_UPDATE_BYTES: usize = 8 << 20;

/// Looks for the program of an agent. A path is meant from where the user is, not from the session's folder.
pub(super) fn find(agent: &AgentSpec) -> Result<PathBuf, Box<Failure>> {
    let program = agent.command.first().map(String::as_str).unwrap_or_default();
    let Some(found) = find_program(OsStr::new(program), agent.cwd.as_deref()) else {
        let path = agent.cwd.as_deref().unwrap_or(Path::new("")).join(program);
        let why = if !program.contains(std::path::is_separator) {
            "not found on PATH"
        } else if path.is_dir() {
            "it is a folder"
        } else if path.exists() {
            "it is not executable"
        } else {
            "there is no such file"
        };
        let failure = Failure::new(Ending::NotStarted, Phase::Find, format!("can't start `{program}`: {why}"));
        return Err(failure.hint("check the spelling; `tieline agents list` shows the agents that are known here"));
    };
    std::path::absolute(&found).map_err(|error| Failure::new(Ending::NotStarted, Phase::Find, error.to_string()))
}

/// How the program is started.
pub(super) async fn launch(plan: &Plan, program: PathBuf) -> Result<Launch, Box<Failure>> {
    let launch = plan.agent.launch(&plan.cwd).await;
    let mut launch = launch.map_err(|error| Failure::new(Ending::Config, Phase::Start, error.to_string()))?;
    launch.program = program.into();
    launch.env.extend(plan.env.iter().map(|(name, value)| (name.into(), value.into())));
    Ok(launch)
}

/// Starts the program.
pub(super) async fn start(plan: &Plan, launch: &Launch) -> Result<(Transport, ChildProcess), Box<Failure>> {
    let mut spec = launch.spec().guard(Guard::IfPossible).shutdown(LADDER);
    if let Some(on_stderr) = plan.on_stderr.clone() {
        spec = spec.on_stderr(move |line| on_stderr(line));
    }
    let (pipes, child) = ChildProcess::spawn(&spec).await.map_err(|error| {
        Failure::new(Ending::NotStarted, Phase::Start, error.to_string())
            .hint("run the command by hand to see what it says")
    })?;
    Ok((Transport::new(pipes.output, pipes.input), child))
}

/// Says hello.
pub(super) async fn greet(plan: &Plan, hooked: Hooked, transport: Transport) -> tieline::Result<AgentHandle> {
    let (offer, heard, frames) = (plan.offer.clone(), hooked.idle.clone(), Arc::clone(&hooked.frames));
    Client::new("tieline", env!("CARGO_PKG_VERSION"))
        .handler(hooked)
        .offer(|capabilities| *capabilities = offer)
        .protocol(plan.protocol)
        .framing(plan.framing)
        .longest_update(MAX_UPDATE_BYTES)
        // The run has deadlines of its own.
        .hello_deadline(plan.start_limit)
        .set_up_deadline(plan.start_limit)
        .tap(move |direction, frame| {
            if direction == Direction::In {
                heard.seen();
            }
            frames.see(direction, frame);
        })
        .connect(transport)
        .await
}
