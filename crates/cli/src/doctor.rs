//! `tieline doctor`: every step from finding an agent's command to a finished turn, with times and what to type.

use crate::shared::{Failed, WRONG, block_on, failed, hanging, here, load_config, print};
use clap::Args;
use std::process::ExitCode;
use std::time::Duration;
use tieline::Protocol;
use tieline_client::agents::{AgentSpec, BUILT_IN, join_line, resolve};
use tieline_client::doctor::{Diagnosis, Finding, Options, Status, check};
use tieline_client::{export, sanitize};

/// Check an agent, step by step, and say what to type if something is wrong
///
/// Finds the command, starts it, says hello, looks whether login is needed, opens a session in an empty folder (in this one, if the
/// agent is at an address), asks for one word and ends it. The exit code is 0 if all went well, 7 if it could not be started or
/// does not speak the protocol, 6 if login is needed, 3 if it took
/// too long, otherwise 1.
#[derive(Args)]
pub struct Arguments {
    /// The agent; without it the one that is used unless another is named
    agent: Option<String>,

    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Ask nothing of the model: stop after the session is open
    #[arg(long)]
    no_prompt: bool,

    /// How long the agent may be silent in the turn, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=3600))]
    turn_timeout: u64,

    /// How long everything before the turn may take, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,

    /// Ask for this version of the protocol: auto, 1, 2 or 2-seed
    #[arg(long)]
    protocol: Option<Protocol>,

    /// A program and its arguments instead of a name, after `--`
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "agent")]
    command: Vec<String>,
}

/// Checks.
pub fn run(arguments: Arguments) -> ExitCode {
    let json = arguments.json;
    match block_on(work(arguments)) {
        Ok(diagnosis) => {
            if json {
                let value = serde_json::to_value(&diagnosis).unwrap_or_default();
                print(&(export::json_text(&value) + "\n"));
            } else if diagnosis.exit_code == 0 {
                let (agent, command) = (sanitize::line(&diagnosis.agent), join_line(&diagnosis.command));
                let odd = diagnosis.steps.iter().any(|step| step.status == Status::Odd);
                print(&if odd {
                    format!("\n{agent} answers, but not as it should; to see why: tieline check agent -- {command}\n")
                } else {
                    format!("\n{agent} works.\n")
                });
            }
            ExitCode::from(diagnosis.exit_code)
        }
        Err(why) => failed("doctor", &why),
    }
}

async fn work(arguments: Arguments) -> Result<Diagnosis, Failed> {
    let (_, config) = load_config()?;
    let agent = if arguments.command.is_empty() {
        let name = arguments.agent.or(config.agent.clone()).unwrap_or_else(|| BUILT_IN.to_owned());
        match resolve(&config, &name) {
            Ok(agent) => agent,
            // One that is known but not installed is what the check is for.
            Err(error) => match tieline_client::agents::KNOWN.iter().find(|known| known.name == name) {
                Some(known) => known.spec(),
                None => return Err((7, error.to_string())),
            },
        }
    } else {
        let agent = AgentSpec::from_words(arguments.command).map_err(|error| (WRONG, error.to_string()))?;
        // Its words may name files from here.
        AgentSpec { cwd: Some(here()?), ..agent }
    };
    let patience = Duration::from_secs(arguments.timeout);
    let turn = Duration::from_secs(arguments.turn_timeout);
    let options = Options { patience, turn, ask: !arguments.no_prompt, protocol: arguments.protocol };
    if !arguments.json {
        print(&format!("{}: {}\n\n", sanitize::line(&agent.name), join_line(&agent.command)));
    }
    let tell = |finding: &Finding| {
        if !arguments.json {
            print(&line(finding));
        }
    };
    Ok(check(&agent, &options, tell).await)
}

fn line(finding: &Finding) -> String {
    let mark = match finding.status {
        Status::Good => "ok",
        Status::Odd => "odd",
        Status::Bad => "FAIL",
        Status::Skipped => "-",
    };
    let took = match finding.status {
        Status::Skipped => String::new(),
        _ => format!("{} ms", finding.took.as_millis()),
    };
    let first = format!("  {mark:4}  {:10}  {took:>9}  ", finding.step);
    let mut text = hanging(&first, &finding.detail);
    if let Some(fix) = &finding.fix {
        text += &hanging(&format!("{:31}→ ", ""), fix);
    }
    text
}
