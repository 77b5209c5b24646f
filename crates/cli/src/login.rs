//! `tieline agent login` and `logout`: asks for the key of a provider without showing it, and forgets it again.

use crate::agent::{settings, wanted};
use clap::Args;
use rustix::termios::{self, LocalModes, OptionalActions, Termios};
use std::io::{IsTerminal as _, Read as _, Write as _};
use std::time::Duration;
use tieline_coder::model::ModelError;
use tieline_coder::model::choose;
use tieline_coder::model::provider::{Provider, Secret};

/// Longer than any key.
const MOST: usize = 16 * 1024;
/// How long the provider may take to look at a key.
const TIME: Duration = Duration::from_secs(20);

#[derive(Args)]
pub struct Arguments {
    /// Which provider; by default the one of your model
    provider: Option<String>,

    /// Store the key without asking the provider whether it is right
    #[arg(long)]
    no_check: bool,
}

type Done = Result<(), (u8, String)>;

/// The provider that is meant: as typed, or the one of the model.
fn provider(
    named: Option<String>,
    model: Option<String>,
    base_url: Option<&str>,
) -> Result<std::sync::Arc<Provider>, (u8, String)> {
    let wrong = |why| (2, why);
    let settings = settings().map_err(wrong)?;
    let name = match named {
        Some(name) => name,
        None => match wanted(model, &settings).split_once('/') {
            Some((name, _)) => name.to_owned(),
            None => return Err((2, "name a provider, for example `tieline agent login anthropic`".into())),
        },
    };
    let http = choose::http(&settings);
    Provider::resolve(&name, base_url, &settings, http).map_err(wrong)
}

/// Asks for a key, checks it and stores it.
pub fn log_in(arguments: Arguments, model: Option<String>, base_url: Option<&str>) -> Done {
    let provider = provider(arguments.provider, model, base_url)?;
    let say = |words: &str| {
        let _ = writeln!(std::io::stderr(), "{words}");
    };
    let typed = if std::io::stdin().is_terminal() {
        let _ = write!(std::io::stderr(), "Key for {} (it is not shown while you type): ", provider.title);
        hidden().map_err(|why| (1, why))?
    } else {
        let mut text = String::new();
        let read = std::io::stdin().take(MOST as u64).read_to_string(&mut text);
        read.map_err(|error| (1, format!("the key can't be read: {error}")))?;
        text.lines().next().unwrap_or_default().to_owned()
    };
    let key = Secret::new(&typed).ok_or((2, "that is no key; nothing was stored".into()))?;
    if !arguments.no_check {
        provider.use_key(key.clone());
        match check(&provider) {
            Ok(count) => say(&format!("The key works: {} has {count} models.", provider.title)),
            Err(ModelError::LoginNeeded(_)) => {
                return Err((1, format!("{} refused this key; nothing was stored", provider.title)));
            }
            Err(error) => say(&format!("The key could not be checked: {error}")),
        }
    }
    provider.remember(&key).map_err(|why| (1, why))?;
    say(&format!("Stored. Start with `tieline agent --model {}/MODEL`.", provider.name));
    Ok(())
}

fn check(provider: &Provider) -> Result<usize, ModelError> {
    let failed = |error: std::io::Error| ModelError::Failed(error.to_string());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let listed = runtime.block_on(async { tokio::time::timeout(TIME, provider.list()).await });
    let listed = listed.unwrap_or_else(|_| Err(ModelError::Failed("no answer in time".into())));
    runtime.shutdown_timeout(Duration::from_millis(200));
    listed.map(|models| models.len())
}

/// Forgets a key.
pub fn log_out(named: Option<String>, model: Option<String>) -> Done {
    let provider = provider(named, model, None)?;
    provider.log_out().map_err(|why| (1, why))?;
    let env = provider.key_env().filter(|name| std::env::var_os(name).is_some());
    let still = env.map_or_else(String::new, |name| format!(" The one in {name} is still there."));
    let _ = writeln!(std::io::stderr(), "The stored key for {} is forgotten.{still}", provider.title);
    Ok(())
}

/// The terminal as it was.
struct Before(Termios);

impl Drop for Before {
    fn drop(&mut self) {
        let _ = termios::tcsetattr(rustix::stdio::stdin(), OptionalActions::Flush, &self.0);
        let _ = writeln!(std::io::stderr());
    }
}

/// Reads a line from the terminal without showing it. Ctrl-C is read too, so that the terminal is put right again.
fn hidden() -> Result<String, String> {
    let wrong = |error: rustix::io::Errno| format!("the terminal can't be silenced: {error}");
    let stdin = rustix::stdio::stdin();
    let before = Before(termios::tcgetattr(stdin).map_err(wrong)?);
    let mut quiet = before.0.clone();
    quiet.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG);
    termios::tcsetattr(stdin, OptionalActions::Flush, &quiet).map_err(wrong)?;
    let mut typed = Vec::new();
    for byte in std::io::stdin().lock().bytes() {
        match byte.map_err(|error| error.to_string())? {
            b'\r' | b'\n' => return String::from_utf8(typed).map_err(|_| "that is no key; nothing was stored".into()),
            3 | 4 | 26 => break,
            8 | 127 => drop(typed.pop()),
            21 => typed.clear(),
            byte if typed.len() < MOST => typed.push(byte),
            _ => {}
        }
    }
    Err("cancelled; nothing was stored".into())
}
