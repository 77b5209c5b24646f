//! Reads the command line.

use std::path::PathBuf;
use std::time::Duration;

use crate::peers::Kind;
use crate::scenario::{self, Scenario};

pub const HELP: &str = "\
Measures ACP agents and clients over stdio and compares them with the official Rust SDK.

Usage: bench [OPTIONS]

  --only A,B             run only these scenarios (`client_fan` stands for all three)
  --reps N               repetitions of each scenario (default 5)
  --scale F              multiply the work of the scalable scenarios (default 1.0)
  --json FILE            also write every number to FILE
  --agent NAME=COMMAND   add an agent, or replace the one of that name
  --client NAME=COMMAND  add a client, or replace the one of that name
  --one-core             keep the driver and all peers on one core: steadier, but not how programs usually run
  --deadline SECONDS     kill a peer that takes longer for one repetition (default 120)
  --size NAME=BINARY     report the stripped size of a binary
  --crates NAME=PACKAGE  report how many crates a package needs; more words go to `cargo tree`
  --help                 show this text

Exit status: 0 when every run worked, 1 when a peer failed, 2 when an option is wrong.
";

/// What the user asked for.
pub enum Command {
    Run(Options),
    Help,
}

/// A peer given on the command line.
pub struct ExtraPeer {
    pub kind: Kind,
    pub name: String,
    pub command: Vec<String>,
}

pub struct Options {
    pub only: Vec<String>,
    pub reps: usize,
    pub scale: f64,
    pub json: Option<PathBuf>,
    pub extra: Vec<ExtraPeer>,
    pub one_core: bool,
    pub deadline: Duration,
    pub sizes: Vec<(String, String)>,
    pub crates: Vec<(String, String)>,
}

impl Options {
    /// Whether the scenario was selected.
    pub fn wants(&self, scenario: &Scenario) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| scenario.answers_to(name))
    }
}

/// Reads the arguments after the program's name.
pub fn parse(mut args: impl Iterator<Item = String>) -> Result<Command, String> {
    let mut options = Options {
        only: Vec::new(),
        reps: 5,
        scale: 1.0,
        json: None,
        extra: Vec::new(),
        one_core: false,
        deadline: Duration::from_mins(2),
        sizes: Vec::new(),
        crates: Vec::new(),
    };
    while let Some(flag) = args.next() {
        if flag == "--help" || flag == "-h" {
            return Ok(Command::Help);
        }
        if flag == "--one-core" {
            options.one_core = true;
            continue;
        }
        let known = ["only", "reps", "scale", "json", "agent", "client", "deadline", "size", "crates"];
        // `--flag=value` and `--flag value` mean the same.
        let (flag, glued) = match flag.split_once('=') {
            Some((flag, value)) => (flag.to_owned(), Some(value.to_owned())),
            None => (flag, None),
        };
        let Some(name) = flag.strip_prefix("--").filter(|name| known.contains(name)) else {
            return Err(format!("unknown option `{flag}`"));
        };
        let value = glued.or_else(|| args.next()).ok_or_else(|| format!("`{flag}` needs a value"))?;
        let wrong = |what: &str| format!("`{flag} {value}`: {what}");
        match name {
            "only" => options.only = only(&value).map_err(|what| wrong(&what))?,
            "reps" => options.reps = value.parse().ok().filter(|&n| n > 0).ok_or_else(|| wrong("not a count"))?,
            "scale" => options.scale = positive(&value).ok_or_else(|| wrong("not a positive number"))?,
            "json" => options.json = Some(PathBuf::from(value)),
            "deadline" => {
                options.deadline = positive(&value)
                    .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
                    .ok_or_else(|| wrong("not a positive number of seconds"))?;
            }
            "size" => options.sizes.push(pair(&value).ok_or_else(|| wrong("expected NAME=BINARY"))?),
            "crates" => options.crates.push(pair(&value).ok_or_else(|| wrong("expected NAME=PACKAGE"))?),
            _ => {
                let kind = if name == "agent" { Kind::Agent } else { Kind::Client };
                let (name, command) = pair(&value).ok_or_else(|| wrong("expected NAME=COMMAND"))?;
                let command = command.split_whitespace().map(str::to_owned).collect();
                options.extra.push(ExtraPeer { kind, name, command });
            }
        }
    }
    Ok(Command::Run(options))
}

/// A list of scenario names, each of which exists.
fn only(value: &str) -> Result<Vec<String>, String> {
    let all = scenario::all(1.0);
    let names: Vec<String> = value.split(',').map(|name| name.trim().to_owned()).collect();
    match names.iter().find(|name| !all.iter().any(|scenario| scenario.answers_to(name))) {
        None => Ok(names),
        Some(unknown) => {
            let known: Vec<&str> = all.iter().map(|scenario| scenario.name).collect();
            Err(format!("no scenario is called `{unknown}`; there are {}", known.join(", ")))
        }
    }
}

fn positive(value: &str) -> Option<f64> {
    value.parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0)
}

/// `NAME=REST`, neither of them blank.
fn pair(value: &str) -> Option<(String, String)> {
    let (name, rest) = value.split_once('=')?;
    let (name, rest) = (name.trim(), rest.trim());
    (!name.is_empty() && !rest.is_empty()).then(|| (name.to_owned(), rest.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(line: &[&str]) -> Result<Options, String> {
        match parse(line.iter().map(ToString::to_string))? {
            Command::Run(options) => Ok(options),
            Command::Help => Err("help".into()),
        }
    }

    #[test]
    fn good_options_are_read() {
        let options = options(&["--only", "startup,client_fan", "--reps=3", "--agent", "x=/bin/x -v"]).unwrap();
        assert_eq!(options.reps, 3);
        assert_eq!(options.extra[0].command, ["/bin/x", "-v"]);
        let chosen = scenario::all(1.0).iter().filter(|scenario| options.wants(scenario)).count();
        assert_eq!(chosen, 4);
    }

    #[test]
    fn wrong_options_are_refused() {
        for line in [
            &["--nope"][..],
            &["stray"],
            &["--reps"],
            &["--reps", "0"],
            &["--scale", "-1"],
            &["--scale", "nan"],
            &["--only", "startup,nope"],
            &["--agent", "no-command="],
            &["--client", "=command"],
            &["--deadline", "0"],
        ] {
            assert!(options(line).is_err(), "{line:?}");
        }
    }
}
