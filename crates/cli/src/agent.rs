//! `tieline agent`: the built-in coding agent on standard input and output.

use crate::login;
use crate::shared::{Failed, USAGE, WRONG, bad_choice, bad_config, block_on, finish, note, print, table};
use clap::{Args, Subcommand};
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tieline::Protocol;
use tieline::agent::Server;
use tieline_client::config::{Config, Flags, Sources};
use tieline_client::journal::{FILE as JOURNAL, Journal};
use tieline_client::undo::{self, cut_off};
use tieline_coder::model::addresses::Kept;
use tieline_coder::model::choose;
use tieline_coder::model::offline::Offline;
use tieline_coder::model::script::{Script, Shipped, scenarios};
use tieline_coder::{Coder, ConfigurePermissions, Keep, Settings};
use tieline_host::rules::{Limits, Preset};
use tieline_host::sandbox::Level;
use tieline_rpc::sync::Lock as _;

/// A cancelled turn is over when its tools are; that takes milliseconds unless a disk does not answer.
const CANCEL_GRACE: Duration = Duration::from_secs(10);

const IN_ZED: &str = r#"In Zed, for example:

  "agent_servers": { "Tieline": { "command": "tieline", "args": ["agent"] } }"#;

/// What a person is told who types it.
const AT_A_TERMINAL: &str = r#"this is for clients: an editor starts it and talks to it in JSON over standard input and output.
To ask it something here, type:  tieline exec "list the files"
With a model, see:               tieline models
For an editor's settings, see:   tieline agent --help
To write the JSON yourself:      cat | tieline agent"#;

/// The coding agent, for any ACP client; with the model of your choice, or without a key and a network
///
/// Clients start it and talk to it over standard input and output. Nothing else is ever printed there.
#[derive(Args)]
#[command(after_help = IN_ZED, subcommand_value_name = "ACTION")]
pub struct Arguments {
    #[command(subcommand)]
    action: Option<Action>,

    /// Who answers: PROVIDER/MODEL (see `tieline models`), or `offline`, which follows plain instructions and is no language
    /// model; also from `TIELINE_MODEL` or your config.toml [default: offline]
    #[arg(long, value_name = "PROVIDER/MODEL")]
    model: Option<String>,

    /// Reach the provider at this address instead
    #[arg(long, value_name = "URL", global = true)]
    base_url: Option<String>,

    /// Who answered in the session that goes on, and where; our own client knows it
    #[arg(long, value_name = "JSON", global = true, hide = true, default_value = "{}")]
    kept: Kept,

    /// Play a scenario instead: the name of one that ships inside, a TOML file, or `list`
    #[arg(long, value_name = "NAME|FILE|list")]
    script: Option<String>,

    /// How freely a new session works: ask, plan (change nothing), edit, or auto [default: ask, or `default` of the
    /// [permissions] in config.toml]
    #[arg(long, value_parser = mode)]
    mode: Option<Preset>,

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

    /// Give each MCP server so many seconds to start
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3600))]
    mcp_timeout: u64,

    /// Give each call of an MCP tool so many seconds to answer or to report progress
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    mcp_call_timeout: u64,

    /// Remove sessions that were not used for N days; 0 keeps them for ever [default: 365, or `keep_days` in config.toml]
    #[arg(long, value_name = "N", conflicts_with = "no_store")]
    keep_days: Option<u64>,

    /// Keep only the N sessions used last; 0 keeps all [default: 5000, or `keep_count` in config.toml]
    #[arg(long, value_name = "N", conflicts_with = "no_store")]
    keep_count: Option<u64>,

    /// Speak only this version of the protocol: auto, 1, 2 or 2-seed
    #[arg(long, default_value = "auto")]
    protocol: Protocol,
}

/// What else it can do.
#[derive(Subcommand)]
enum Action {
    /// Ask for the key of a provider in this terminal, and store it for you alone
    Login(login::Arguments),
    /// Forget the stored key of a provider
    Logout {
        /// Which provider; by default the one of your model
        provider: Option<String>,
    },
}

/// The configuration that counts where we were started, with the model that was typed.
pub fn configured(model: Option<String>) -> Result<Config, Failed> {
    let folder = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    Config::load(&Sources::of(&folder), &Flags { model, ..Flags::default() }).map_err(bad_config)
}

/// Serves until the client goes away.
pub fn run(arguments: Arguments) -> ExitCode {
    if arguments.script.as_deref() == Some("list") {
        return list();
    }
    let (model, kept) = (arguments.model.clone(), arguments.kept.clone());
    let base_url = arguments.base_url.as_deref();
    let done = match arguments.action {
        Some(Action::Login(login)) => login::log_in(login, model, base_url, &kept),
        Some(Action::Logout { provider }) => login::log_out(provider, model),
        None if std::io::stdin().is_terminal() => Err((USAGE, AT_A_TERMINAL.to_owned())),
        None => serve(arguments),
    };
    finish("agent", done.map(|()| String::new()))
}

fn serve(arguments: Arguments) -> Result<(), Failed> {
    let config = configured(arguments.model)?;
    let mut settings = match &arguments.script {
        Some(name) => Settings::new(script(name).map_err(|why| (USAGE, why))?),
        None => chosen(&config, arguments.base_url.as_deref())?,
    };
    settings.kept = arguments.kept;
    settings.mode = arguments.mode;
    settings.permissions = Some(permissions(config.permissions.notes));
    settings.limits = Limits::handed_over().map_err(|why| (USAGE, why))?;
    settings.max_requests = arguments.max_requests;
    settings.sandbox = arguments.sandbox;
    settings.mcp.start = Duration::from_secs(arguments.mcp_timeout);
    settings.mcp.call = Duration::from_secs(arguments.mcp_call_timeout);
    settings.own_servers = true;
    settings.keep = match (arguments.no_store, arguments.store) {
        (true, _) => Keep::Nothing,
        (false, Some(path)) => Keep::At(path),
        (false, None) => Keep::Default,
    };
    settings.before_turn = Some(Arc::new(|store| Box::pin(async move { settle(&store).await })));
    settings.retention = config.retention;
    if let Some(days) = arguments.keep_days {
        settings.retention = settings.retention.days(days);
    }
    if let Some(count) = arguments.keep_count {
        settings.retention = settings.retention.count(count);
    }
    let server = Server::new(Coder::new(settings)).protocol(arguments.protocol).cancel_grace(CANCEL_GRACE);
    block_on(async { server.serve_stdio().await.map_err(|error| (WRONG, error.to_string())) })
}

/// Finishes turns that were cut off before the agent works on.
async fn settle(store: &Path) {
    if !cut_off(store).is_empty()
        && let Ok(journal) = Journal::open(store.join(JOURNAL))
    {
        undo::settle(&journal).await;
    }
}

/// The settings for the model that the user wants.
fn chosen(config: &Config, base_url: Option<&str>) -> Result<Settings, Failed> {
    let own = |key: &str| ["models.", "providers.", "network."].iter().any(|table| key.starts_with(table));
    config.held_back.iter().filter(|held| own(&held.key)).for_each(note);
    let http = choose::http(config);
    let mut settings = Settings::new(Offline::new());
    settings.models = choose::choose(base_url, config, &http).map_err(bad_choice)?;
    settings.http = http.clone();
    settings.thought_level.clone_from(&config.models.thought_level);
    let config = config.clone();
    settings.find = Some(Arc::new(move |id, base_url| {
        Ok(choose::choose(base_url, &config.clone().with_model(id), &http)?.swap_remove(0))
    }));
    Ok(settings)
}

fn mode(id: &str) -> Result<Preset, String> {
    let known = Preset::ALL.map(Preset::mode).join(", ");
    Preset::of_mode(id).ok_or_else(|| format!("there are {known}"))
}

/// What the configuration says about permission where a session works. The first session tells what was found at the start.
fn permissions(notes: Vec<String>) -> ConfigurePermissions {
    let notes = Mutex::new(notes);
    Arc::new(move |cwd| {
        let mut settings = Config::load(&Sources::of(cwd), &Flags::default())?.permissions;
        settings.notes.splice(..0, std::mem::take(&mut *notes.locked()));
        Ok(settings)
    })
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
    let row = |one: &Shipped| vec![one.name.to_owned(), one.description.to_owned()];
    print(&table(&scenarios().iter().map(row).collect::<Vec<_>>()))
}
