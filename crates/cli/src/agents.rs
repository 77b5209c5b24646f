//! `tieline agents`: the agents that are known here, and how they come and go.

use crate::shared::{
    CONFIG, Failed, ListFormat, USAGE, WRONG, bad_choice, bad_config, finish, load_config, load_or_make_config, note,
    pair, table,
};
use clap::{Args, Subcommand, ValueHint};
use serde::Serialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tieline::Protocol;
use tieline_client::agents::{self, BUILT_IN, KNOWN, NewAgent, find_program, resolve};
use tieline_client::config::{Config, Sources, Value};
use tieline_client::sanitize;
use tieline_host::roots::shown;

/// Agents by name: list, add, remove, find, import
#[derive(Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Those of your configuration, the built-in one, and well-known ones
    List {
        #[command(flatten)]
        format: ListFormat,
    },
    /// Give an agent a name: tieline agents add mine -- my-agent --acp
    Add {
        /// Its name
        name: String,
        /// Set a variable for it
        #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
        env: Vec<(String, String)>,
        /// Set a variable for it to one of yours, taken when it is started
        #[arg(long, value_name = "NAME=VARIABLE", value_parser = pair)]
        env_from: Vec<(String, String)>,
        /// Start it in this folder
        #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
        cwd: Option<PathBuf>,
        /// Ask for this version of the protocol: auto, 1, 2 or 2-seed
        #[arg(long)]
        protocol: Option<Protocol>,
        /// Replace one of the same name
        #[arg(long)]
        replace: bool,
        /// The program and its arguments, after `--`
        #[arg(last = true, required = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
        command: Vec<String>,
    },
    /// Take an agent out of your configuration
    Remove {
        /// Its name
        name: String,
    },
    /// What a name starts, and where that comes from
    Which {
        /// Its name
        name: String,
        #[command(flatten)]
        format: ListFormat,
    },
    /// Add agents from the ACP registry's JSON, from Zed's settings or from acpx's configuration
    Import {
        /// The file, such as ~/.config/zed/settings.json
        #[arg(value_hint = ValueHint::FilePath)]
        file: PathBuf,
        /// Only these
        #[arg(long, value_name = "NAME")]
        only: Vec<String>,
        /// Replace those of the same names
        #[arg(long)]
        replace: bool,
        /// Only say what would be added
        #[arg(long)]
        dry_run: bool,
    },
}

/// Does what was asked.
pub fn run(arguments: Arguments) -> ExitCode {
    finish("agents", work(arguments.command))
}

fn work(command: Command) -> Result<String, Failed> {
    let makes = matches!(command, Command::Add { .. } | Command::Import { .. });
    let (sources, config) = if makes { load_or_make_config()? } else { load_config()? };
    match command {
        Command::List { format } => Ok(list(&config, format)),
        Command::Add { name, env, env_from, cwd, protocol, replace, command } => {
            let plain = env.into_iter().map(|(name, value)| (name, Value::Plain(value)));
            let taken = env_from.into_iter().map(|(name, from)| (name, Value::Env(from)));
            let env = plain.chain(taken).collect::<BTreeMap<_, _>>();
            let cwd = cwd.map(std::path::absolute).transpose().map_err(|error| (USAGE, error.to_string()))?;
            let agent = NewAgent { name: name.clone(), command, env, cwd, protocol, replace };
            let program = agent.command[0].clone();
            let there =
                agents::is_address(&program) || find_program(OsStr::new(&program), agent.cwd.as_deref()).is_ok();
            let path = agents::add(&sources, &[agent]).map_err(if sources.user.is_some() {
                bad_choice
            } else {
                bad_config
            })?;
            note(format_args!("added {name} to {}; check it with: tieline doctor {name}", path.display()));
            if !there {
                note(format_args!("there is no program `{}` yet", sanitize::exact_line(&program)));
            }
            Ok(String::new())
        }
        Command::Remove { name } => {
            if !config.agents.contains_key(&name) {
                let why = format!("there is no agent {name:?} of yours; `tieline agents list` shows those there are");
                return Err((WRONG, why));
            }
            let path = agents::remove(&sources, &name).map_err(bad_config)?;
            note(format_args!("removed {name} from {}", path.display()));
            Ok(String::new())
        }
        Command::Which { name, format } => which(&config, &name, format),
        Command::Import { file, only, replace, dry_run } => import(&sources, &config, &file, &only, replace, dry_run),
    }
}

/// An agent of the list. For one that is well known but not there, `install` says how it comes.
#[derive(Serialize)]
struct Listed {
    name: String,
    command: Vec<String>,
    origin: String,
    installed: bool,
    install: Option<&'static str>,
}

fn list(config: &Config, format: ListFormat) -> String {
    let is_there = |program: &str, cwd: Option<&Path>| find_program(OsStr::new(program), cwd).is_ok();
    let mut listed = vec![Listed {
        name: BUILT_IN.into(),
        command: vec!["tieline".into(), "agent".into()],
        origin: "built in".into(),
        installed: true,
        install: None,
    }];
    for spec in config.agents.keys().filter_map(|name| resolve(config, name).ok()) {
        let installed = is_there(&spec.command[0], spec.cwd.as_deref());
        let (name, command, origin) = (spec.name, spec.command, spec.origin.to_string());
        listed.push(Listed { name, command, origin, installed, install: None });
    }
    for known in KNOWN.iter().filter(|known| !config.agents.contains_key(known.name)) {
        let installed = is_there(known.command[0], None);
        listed.push(Listed {
            name: known.name.into(),
            command: known.command.iter().map(ToString::to_string).collect(),
            origin: if installed { "on PATH".to_owned() } else { format!("not installed: {}", known.install) },
            installed,
            install: (!installed).then_some(known.install),
        });
    }
    format.print(&listed, |listed| {
        let head = ["NAME", "COMMAND", "FROM"].map(str::to_owned).to_vec();
        let row = |one: &Listed| vec![one.name.clone(), agents::join_line(&one.command), one.origin.clone()];
        let mut text = table(&std::iter::once(head).chain(listed.iter().map(row)).collect::<Vec<_>>());
        if let Some(agent) = &config.agent {
            let _ = writeln!(text, "\nUsed unless another is named: {agent}");
        }
        text
    })
}

/// What a name starts. No secret is among the variables.
fn which(config: &Config, name: &str, format: ListFormat) -> Result<String, Failed> {
    let spec = resolve(config, name).map_err(|error| (WRONG, error.to_string()))?;
    let found = match spec.address() {
        // Where it runs is known there.
        Some(_) => Some(std::path::PathBuf::from(&spec.name)),
        None => find_program(OsStr::new(&spec.command[0]), spec.cwd.as_deref()).ok(),
    };
    let Some(program) = found else {
        let program = sanitize::exact_line(&spec.command[0]);
        return Err((7, format!("`{program}` can't be found; type: tieline doctor {name}")));
    };
    let (program, cwd) = (shown(&program), spec.cwd.as_deref().map(shown));
    let (origin, protocol) = (spec.origin.to_string(), spec.protocol_or_default().to_string());
    let env: BTreeMap<&String, String> = spec.env.iter().map(|(name, value)| (name, value.to_string())).collect();
    let found = json!({
        "name": spec.name, "program": program, "command": spec.command, "origin": origin, "protocol": protocol,
        "cwd": cwd, "env": env,
    });
    Ok(format.print(&[found], |_| {
        let command = agents::join_line(&spec.command);
        let known = [("program", program), ("command", command), ("from", origin), ("protocol", protocol)];
        let variable = |(name, value)| ("variable", sanitize::exact_line(&format!("{name} = {value}")));
        let rows = known.into_iter().chain(cwd.map(|cwd| ("folder", cwd))).chain(env.iter().map(variable));
        table(&rows.map(|(name, value)| vec![name.to_owned(), value]).collect::<Vec<_>>())
    }))
}

fn import(
    sources: &Sources,
    config: &Config,
    file: &Path,
    only: &[String],
    replace: bool,
    dry_run: bool,
) -> Result<String, Failed> {
    let shown = shown(file);
    let text = std::fs::read_to_string(file).map_err(|error| (USAGE, format!("{shown}: {error}")))?;
    let mut found = agents::import(&text).map_err(|error| (CONFIG, format!("{shown}: {error}")))?;
    if !only.is_empty() {
        if let Some(missing) = only.iter().find(|name| found.agents.iter().all(|agent| agent.name != **name)) {
            let why = found.skipped.iter().find(|(name, _)| name == missing).map(|(_, why)| format!(": {why}"));
            return Err((USAGE, format!("{shown} has no agent `{missing}` to add{}", why.unwrap_or_default())));
        }
        found.agents.retain(|agent| only.contains(&agent.name));
        found.skipped.clear();
    }
    for (name, why) in &found.skipped {
        note(format_args!("left out {}: {}", sanitize::exact_line(name), sanitize::exact_line(why)));
    }
    found.agents.iter_mut().for_each(|agent| agent.replace = replace);
    let (known, new): (Vec<_>, Vec<_>) = found
        .agents
        .into_iter()
        .partition(|agent| !replace && config.agents.contains_key(&agent.name) || agent.name == BUILT_IN);
    for agent in &known {
        note(format_args!("left out {}: there is one already; --replace replaces it", agent.name));
    }
    if new.iter().any(|agent| matches!(agent.command[0].as_str(), "npx" | "uvx")) {
        note("some start through npx or uvx, which download the package when they are first started");
    }
    let mut out = String::new();
    for agent in &new {
        let verb = if dry_run { "would add" } else { "added" };
        let _ = writeln!(out, "{verb} {}: {}", agent.name, agents::join_line(&agent.command));
    }
    if !dry_run && !new.is_empty() {
        agents::add(sources, &new).map_err(bad_config)?;
    }
    Ok(out)
}
