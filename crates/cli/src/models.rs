//! `tieline models`: the providers, what one of them offers, and which servers run on this machine.

use crate::agent::configured;
use crate::shared::{Failed, bad_choice};
use clap::Args;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;
use tieline_client::config::{self, Config};
use tieline_client::sanitize;
use tieline_coder::model::choose;
use tieline_coder::model::provider::{self, Offered, PRESETS, Provider};
use tieline_coder::model::ways::line;

/// How long a list may take.
const TIME: Duration = Duration::from_mins(1);

/// The providers, or the models that one of them offers
///
/// Without a name: every provider, and whether there is a key for it. With one: its models, as `--model` takes them. Only
/// what you name is asked, and only `--local` looks for servers on this machine.
#[derive(Args)]
pub struct Arguments {
    /// List the models of this provider
    provider: Option<String>,

    /// Look for servers on this machine (Ollama, llama.cpp, LM Studio, vLLM) and list their models
    #[arg(long, conflicts_with = "provider")]
    local: bool,

    /// Reach the provider at this address instead
    #[arg(long, value_name = "URL", requires = "provider")]
    base_url: Option<String>,
}

/// Lists them.
pub fn run(arguments: Arguments) -> ExitCode {
    match text(arguments) {
        // A reader that goes away has seen enough.
        Ok(text) => match std::io::stdout().write_all(text.as_bytes()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        },
        Err((code, why)) => {
            let _ = writeln!(std::io::stderr(), "tieline models: {}", sanitize::line(&why));
            ExitCode::from(code)
        }
    }
}

fn text(arguments: Arguments) -> Result<String, Failed> {
    let config = configured(None)?;
    let http = choose::http(&config);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| (1, error.to_string()))?;
    let mut text = String::new();
    if arguments.local {
        for (server, found) in runtime.block_on(provider::local(&http, &config)) {
            let (title, url) = (&server.title, server.shown_url());
            match found {
                Ok(models) => {
                    let _ = writeln!(text, "{title} at {url}:");
                    lines(&mut text, &server.name, &models);
                }
                Err(_) => {
                    let _ = writeln!(text, "{title}: nothing at {url}");
                }
            }
        }
    } else if let Some(name) = arguments.provider {
        let name = name.split('/').next().unwrap_or_default();
        let provider = Provider::resolve(name, arguments.base_url.as_deref(), &config, http).map_err(bad_choice)?;
        let listed = runtime.block_on(async { tokio::time::timeout(TIME, provider.list()).await });
        let models = listed.map_err(|_| (1, format!("{name}: no answer in time")))?;
        lines(&mut text, name, &models.map_err(|error| (1, error.to_string()))?);
    } else {
        runtime.block_on(providers(&mut text, &config, &http)).map_err(bad_choice)?;
    }
    runtime.shutdown_timeout(Duration::from_millis(200));
    Ok(text)
}

fn lines(text: &mut String, provider: &str, models: &[Offered]) {
    // What a server says must not drive the terminal.
    let shown: Vec<String> = models.iter().map(|model| format!("{provider}/{}", sanitize::line(&model.name))).collect();
    let width = shown.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    for (name, model) in shown.iter().zip(models) {
        let _ = match model.context {
            0 => writeln!(text, "{name}"),
            context => writeln!(text, "{name:width$}  {context} tokens"),
        };
    }
}

async fn providers(text: &mut String, config: &Config, http: &tieline_coder::http::Http) -> Result<(), config::Error> {
    let own = config.providers.keys().map(String::as_str).filter(|name| provider::named(name).is_none());
    for name in PRESETS.iter().map(|preset| preset.name).chain(own) {
        let provider = Provider::resolve(name, None, config, http.clone())?;
        let state = match (provider.key_env(), provider.ready().await) {
            (None, _) => "no key needed".to_owned(),
            (Some(_), Ok(())) => "ready".to_owned(),
            (Some(env), Err(_)) => format!("no key: set {env}, or type: tieline agent login {name}"),
        };
        let _ = writeln!(
            text,
            "{name:12}  {:26}  {state}\n{:12}  {}",
            provider.title,
            "",
            line(&format!("{name}/{}", provider.example().as_deref().unwrap_or("MODEL")))
        );
    }
    text.push_str("\nTheir models: `tieline models NAME`. Servers on this machine: `tieline models --local`.\n");
    Ok(())
}
