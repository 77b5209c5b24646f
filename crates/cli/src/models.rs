//! `tieline models`: the providers, what one of them offers, and which servers run on this machine.

use crate::agent::configured;
use crate::shared::{Failed, ListFormat, WRONG, bad_choice, block_on, finish};
use clap::Args;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Duration;
use tieline_client::{config::Config, sanitize};
use tieline_coder::http::Http;
use tieline_coder::model::choose;
use tieline_coder::model::provider::{self, Offered, PRESETS, Provider};
use tieline_coder::model::ways::line;

/// How long a list may take.
const LIST_TIMEOUT: Duration = Duration::from_mins(1);
const FOOTER: &str = "\nTheir models: `tieline models NAME`\nServers on this machine: `tieline models --local`\n";

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

    #[command(flatten)]
    format: ListFormat,
}

/// Lists them.
pub fn run(arguments: Arguments) -> ExitCode {
    let format = arguments.format;
    let listed = block_on(list(arguments)).map(|(text, rows)| format.print(&rows, |_| text));
    finish("models", listed.map_err(|(code, why)| (code, sanitize::line(&why))))
}

/// What is listed, for people and for programs.
async fn list(arguments: Arguments) -> Result<(String, Vec<Value>), Failed> {
    let config = configured(None)?;
    let http = choose::http(&config);
    let (mut text, mut rows) = (String::new(), Vec::new());
    if arguments.local {
        for (server, found) in provider::local(&http, &config).await {
            let (title, url) = (&server.title, server.shown_url());
            if let Ok(models) = found {
                let _ = writeln!(text, "{title} at {url}:");
                offered(&server.name, &models, &mut text, &mut rows);
            } else {
                let _ = writeln!(text, "{title}: nothing at {url}");
            }
        }
    } else if let Some(name) = arguments.provider {
        let name = name.split('/').next().unwrap_or_default();
        let provider = Provider::resolve(name, arguments.base_url.as_deref(), &config, http).map_err(bad_choice)?;
        let listed = tokio::time::timeout(LIST_TIMEOUT, provider.list()).await;
        let models = listed.map_err(|_| (WRONG, format!("{name}: no answer in time")))?;
        let mut models = models.map_err(|error| (WRONG, error.to_string()))?;
        // A server need not list what it takes.
        for own in provider.configured() {
            if models.iter().all(|model| model.name != *own) {
                models.push(Offered { name: own.clone(), context: 0 });
            }
        }
        offered(name, &models, &mut text, &mut rows);
    } else {
        providers(&config, &http, &mut text, &mut rows).await?;
    }
    Ok((text, rows))
}

fn offered(provider: &str, models: &[Offered], text: &mut String, rows: &mut Vec<Value>) {
    // What a server says must not drive the terminal.
    let shown: Vec<String> = models.iter().map(|model| format!("{provider}/{}", sanitize::line(&model.name))).collect();
    let width = shown.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    for (name, model) in shown.iter().zip(models) {
        let _ = match model.context {
            0 => writeln!(text, "{name}"),
            context => writeln!(text, "{name:width$}  {context} tokens"),
        };
        let context = (model.context > 0).then_some(model.context);
        rows.push(json!({ "model": format!("{provider}/{}", model.name), "context": context }));
    }
}

async fn providers(config: &Config, http: &Http, text: &mut String, rows: &mut Vec<Value>) -> Result<(), Failed> {
    let own = config.providers.keys().filter(|name| provider::named(name).is_none());
    for name in PRESETS.iter().map(|preset| &preset.name).chain(own) {
        let provider = Provider::resolve(name, None, config, http.clone()).map_err(bad_choice)?;
        let (key_env, ready) = (provider.key_env(), provider.ready().await.is_ok());
        let title = if provider.title == *name { String::new() } else { format!(" ({})", provider.title) };
        let state = match key_env {
            None => ": no key needed".to_owned(),
            Some(_) if ready => ": ready".to_owned(),
            Some(env) => format!("\n  no key: set {env}, or type: tieline agent login {name}"),
        };
        let example = line(&format!("{name}/{}", provider.example().as_deref().unwrap_or("MODEL")));
        let _ = writeln!(text, "{name}{title}{state}\n  {example}");
        rows.push(json!({
            "name": name,
            "title": provider.title,
            "ready": ready,
            "key_env": key_env,
            "models": provider.configured(),
            "example": example,
        }));
    }
    text.push_str(FOOTER);
    Ok(())
}
