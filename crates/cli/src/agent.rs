//! `tieline agent`: the built-in coding agent on standard input and output.

use clap::Args;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tieline::Protocol;
use tieline::agent::Server;
use tieline_coder::model::offline::Offline;
use tieline_coder::model::script::{Script, scenarios};
use tieline_coder::{Coder, Keep, Settings, mode_named};
use tieline_host::sandbox::Level;

const IN_ZED: &str = r#"In Zed, for example:

  "agent_servers": { "Tieline": { "command": "tieline", "args": ["agent"] } }"#;

/// The coding agent, for any ACP client; needs no key and no network
///
/// Clients start it and talk to it over standard input and output. Nothing else is ever printed there.
#[derive(Args)]
#[command(after_help = IN_ZED)]
pub struct Arguments {
    /// Who answers: `offline` follows plain instructions and is no language model
    #[arg(long, value_name = "NAME", default_value = "offline", value_parser = ["offline"])]
    model: String,

    /// Play a scenario instead: the name of one that ships inside, a TOML file, or `list`
    #[arg(long, value_name = "NAME|FILE|list")]
    script: Option<String>,

    /// How freely a new session works: ask, plan (change nothing), edit, or auto
    #[arg(long, default_value = "ask", value_parser = ["ask", "plan", "edit", "auto"])]
    mode: String,

    /// Ask the model at most N times in one turn
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    max_requests: u32,

    /// How far commands reach: read-only, workspace (write only there, no network), or off
    #[arg(long, value_name = "LEVEL", default_value = "workspace")]
    sandbox: Level,

    /// Keep no sessions: nothing is stored, nothing can be loaded or undone later
    #[arg(long, conflicts_with = "store")]
    no_store: bool,

    /// Keep sessions in this file instead of your state folder
    #[arg(long, value_name = "PATH")]
    store: Option<PathBuf>,

    /// Speak only this version of the protocol: auto, 1, 2 or 2-seed
    #[arg(long, default_value = "auto")]
    protocol: Protocol,
}

/// Serves until the client goes away.
pub fn run(arguments: Arguments) -> ExitCode {
    if arguments.script.as_deref() == Some("list") {
        return list();
    }
    match serve(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err((code, why)) => {
            let _ = writeln!(std::io::stderr(), "tieline agent: {why}");
            ExitCode::from(code)
        }
    }
}

fn serve(arguments: Arguments) -> Result<(), (u8, String)> {
    let mut settings = match &arguments.script {
        Some(name) => Settings::new(script(name).map_err(|why| (2, why))?),
        None => Settings::new(Offline::new()),
    };
    settings.mode = mode_named(&arguments.mode).ok_or((2, format!("there is no mode `{}`", arguments.mode)))?;
    settings.max_requests = arguments.max_requests;
    settings.sandbox = arguments.sandbox;
    settings.keep = match (arguments.no_store, arguments.store) {
        (true, _) => Keep::Nothing,
        (false, Some(path)) => Keep::At(path),
        (false, None) => Keep::Default,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| (1, error.to_string()))?;
    let served = runtime.block_on(Server::new(Coder::new(settings)).protocol(arguments.protocol).serve_stdio());
    // Work that blocks must not keep us here.
    runtime.shutdown_timeout(std::time::Duration::from_millis(200));
    served.map_err(|error| (1, error.to_string()))
}

/// A scenario by its name, or from a file.
fn script(name: &str) -> Result<Script, String> {
    let known = scenarios().iter().any(|scenario| scenario.name == name);
    if !known && (Path::new(name).exists() || name.contains(['/', '.'])) {
        return Script::from_file(name).map_err(|error| error.to_string());
    }
    Script::named(name).map_err(|error| error.to_string())
}

fn list() -> ExitCode {
    let mut text = String::new();
    let width = scenarios().iter().map(|scenario| scenario.name.len()).max().unwrap_or(0);
    for scenario in scenarios() {
        let _ = writeln!(text, "{:width$}  {}", scenario.name, scenario.description);
    }
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
