//! `tieline config`: what counts here and where it comes from, where the files are, and which project is trusted.

use crate::permissions;
use crate::shared::{Failed, ListFormat, bad_config, finish, here, load_config, note};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::process::ExitCode;
use tieline_client::config::{Origin, Shown, Sources, schema};
use tieline_client::{export, sanitize};

/// The configuration: what counts here, where it comes from, and which project is trusted
#[derive(Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Every value that counts here; secrets are not shown
    Show {
        /// Also where each comes from
        #[arg(long)]
        origin: bool,
        #[command(flatten)]
        format: ListFormat,
    },
    /// The files that are looked at, in their order
    Path {
        #[command(flatten)]
        format: ListFormat,
    },
    /// The JSON Schema of a file, for editors, or of what `tieline exec` prints
    Schema {
        /// The output of `tieline exec` in this format instead
        #[arg(long, value_name = "FORMAT", value_parser = ["json", "stream-json"])]
        output: Option<String>,
    },
    /// The permission rules: which there are, what would happen and why, and how one that was learned is taken back
    Permissions {
        #[command(subcommand)]
        command: permissions::Command,
    },
    /// Let this project's files add commands, MCP servers and allow-rules, until they change
    Trust {
        /// No more
        #[arg(long)]
        remove: bool,
    },
}

const EXEC_JSON: &str = include_str!("../schema/exec-json.schema.json");
const EXEC_STREAM: &str = include_str!("../schema/exec-stream-json.schema.json");

/// Does what was asked.
pub fn run(arguments: Arguments) -> ExitCode {
    finish("config", work(arguments.command))
}

fn work(command: Command) -> Result<String, Failed> {
    match command {
        Command::Show { origin, format } => show(origin, format),
        Command::Path { format } => paths(format),
        Command::Schema { output: None } => Ok(export::json_text(&schema()) + "\n"),
        Command::Schema { output: Some(format) } => {
            Ok(if format == "json" { EXEC_JSON } else { EXEC_STREAM }.to_owned())
        }
        Command::Trust { remove } => trust(remove),
        Command::Permissions { command } => permissions::work(command),
    }
}

fn show(origin: bool, format: ListFormat) -> Result<String, Failed> {
    let (_, config) = load_config()?;
    if config.shown().iter().all(|one| one.origin == Origin::BuiltIn) {
        note("nothing is configured here; `tieline config path` says where the files would be");
    }
    let line = |one: &Shown| {
        let from = if origin { format!("  # {}", one.origin) } else { String::new() };
        sanitize::exact_line(&format!("{one}{from}")) + "\n"
    };
    Ok(format.print(config.shown(), |all| all.iter().map(line).collect()))
}

fn paths(format: ListFormat) -> Result<String, Failed> {
    let sources = Sources::of(&here()?);
    let files = sources.user.iter().cloned().chain(sources.project_files());
    let files = files.map(|path| json!({"path": tieline_host::roots::shown(&path), "there": path.exists()}));
    if sources.user.is_none() {
        note("there is no place for your own file: neither XDG_CONFIG_HOME nor HOME is set to an absolute path");
    }
    let mark = |one: &Value| if one["there"] == true { "" } else { "  (not there)" };
    let line = |one: &Value| format!("{}{}\n", one["path"].as_str().unwrap_or_default(), mark(one));
    Ok(format.print(&files.collect::<Vec<_>>(), |files| files.iter().map(line).collect()))
}

fn trust(remove: bool) -> Result<String, Failed> {
    let sources = Sources::of(&here()?);
    let done = if remove { sources.distrust() } else { sources.trust() }.map_err(bad_config)?;
    let verb = if remove { "no longer trusted" } else { "trusted until it changes" };
    for path in &done {
        note(format_args!("{verb}: {}", tieline_host::roots::shown(path)));
    }
    if done.is_empty() {
        note("nothing here was trusted");
    }
    Ok(String::new())
}
