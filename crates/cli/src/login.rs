//! `tieline agent login` and `logout`: asks for the key of a provider without showing it, and forgets it again.

use crate::agent::configured;
use crate::shared::{Failed, USAGE, WRONG, bad_choice, block_on, counted, note};
use clap::Args;
use rustix::termios::{self, LocalModes, OptionalActions, Termios};
use std::io::{IsTerminal as _, Read as _, Write as _};
use std::time::Duration;
use tieline_client::sanitize;
use tieline_coder::model::ModelError;
use tieline_coder::model::addresses::Kept;
use tieline_coder::model::choose;
use tieline_coder::model::provider::{Keyring, Keys, Place, Provider, Secret};
use tieline_coder::model::ways;
use tokio::signal::unix::{SignalKind, signal};

/// Longer than any key.
const MAX_KEY_BYTES: usize = 16 * 1024;
/// How long the provider may take to look at a key.
const CHECK_TIMEOUT: Duration = Duration::from_secs(20);
const CANCELLED: &str = "cancelled; nothing was stored";

#[derive(Args)]
pub struct Arguments {
    /// Which provider; by default the one of your model
    provider: Option<String>,

    /// Keep the key in your keyring, and nowhere else if that fails [default: the keyring if there is one that works]
    #[arg(long, conflicts_with = "file")]
    keyring: bool,

    /// Keep the key in a file that only you can read, even if there is a keyring
    #[arg(long)]
    file: bool,

    /// Store the key without asking the provider whether it is right
    #[arg(long)]
    no_check: bool,
}

type Done = Result<(), Failed>;

/// The provider that is meant: as typed, or the one of the model; and whether it is that of the model.
fn provider(
    named: Option<String>,
    model: Option<String>,
    base_url: Option<&str>,
    kept: &Kept,
) -> Result<(std::sync::Arc<Provider>, bool), Failed> {
    let config = configured(model)?;
    let usual = config.models.default.as_deref().and_then(|model| Some(model.split_once('/')?.0));
    let missing = || (USAGE, "name a provider, for example `tieline agent login anthropic`".into());
    let name = named.or(usual.map(str::to_owned)).ok_or_else(missing)?;
    // A key is tried where the session is that it is wanted for.
    let base_url = base_url.or(kept.addresses.get(&name).map(String::as_str));
    let provider = Provider::resolve(&name, base_url, &config, choose::http(&config)).map_err(bad_choice)?;
    Ok((provider, usual == Some(&name)))
}

/// Asks for a key, checks it and stores it.
pub fn log_in(arguments: Arguments, model: Option<String>, base_url: Option<&str>, kept: &Kept) -> Done {
    let (provider, is_usual) = provider(arguments.provider.clone(), model, base_url, kept)?;
    block_on(async move {
        let place = place(&arguments).await?;
        let typed = if std::io::stdin().is_terminal() {
            hidden(&format!("Key for {} (it is not shown while you type): ", provider.title)).await?
        } else {
            let mut text = String::new();
            let read = std::io::stdin().take(MAX_KEY_BYTES as u64).read_to_string(&mut text);
            read.map_err(|error| (WRONG, format!("the key can't be read: {error}")))?;
            text.lines().next().unwrap_or_default().to_owned()
        };
        let key = Secret::new(&typed).ok_or((USAGE, "that is no key; nothing was stored".into()))?;
        let mut model = provider.example();
        if !arguments.no_check {
            provider.use_key(key.clone());
            let listed = tokio::time::timeout(CHECK_TIMEOUT, provider.list()).await;
            match listed.unwrap_or_else(|_| Err(ModelError::Failed("no answer in time".into()))) {
                Ok(models) => {
                    let count = counted(models.len(), "model");
                    note(format!("The key works: {} has {count}.", provider.title));
                    let offered = |model: &String| models.iter().any(|one| one.name == *model);
                    let first = models.first().map(|first| sanitize::line(&first.name));
                    model = model.filter(offered).or(first);
                }
                Err(ModelError::LoginNeeded(_)) => {
                    return Err((WRONG, format!("{} refused this key; nothing was stored", provider.title)));
                }
                Err(error) => note(format!("The key could not be checked: {error}")),
            }
        }
        let place = keep(&provider, &key, place, arguments.keyring).await?;
        note(format!("Stored in {place}."));
        if let Some(first) = provider.comes_first() {
            note(format!("But {first} and comes first; the stored key counts when it is gone."));
        }
        let place = provider.place_flag();
        match model {
            // Your own model answers; which of its models the provider lists first does not matter.
            _ if is_usual && place.is_empty() => note("Now type: tieline exec \"what to do\""),
            Some(model) => {
                let model = format!("{}/{model}", provider.name);
                let chat = if place.is_empty() { format!(", or in a chat: /model {model}") } else { String::new() };
                note(format!("Now type: {}{chat}", ways::line(&format!("{model}{place}"))));
            }
            None => note(format!("Its models: tieline models {}{place}", provider.name)),
        }
        Ok(())
    })
}

/// Where a key is to be kept: as typed, or in the keyring if there is one that answers.
async fn place(arguments: &Arguments) -> Result<Place, Failed> {
    if arguments.file {
        return Ok(Place::File);
    }
    match Keyring::working().await {
        Ok(_) => Ok(Place::Keyring),
        Err(why) if arguments.keyring => Err((WRONG, format!("{why}; `--file` keeps the key in a file"))),
        Err(_) => Ok(Place::File),
    }
}

/// Keeps a key; in the file if the keyring does not want it, unless that `must` be. Says where it is.
async fn keep(provider: &Provider, key: &Secret, place: Place, must: bool) -> Result<String, Failed> {
    if place == Place::Keyring {
        note("Storing it in your keyring. If that is locked, it asks you now; you have one minute.");
        match provider.remember(key, Place::Keyring).await {
            Ok(()) => return Ok("your keyring".into()),
            Err(why) if must => return Err((WRONG, format!("{why}; nothing was stored"))),
            Err(why) => note(format!("That did not work: {why}.")),
        }
    }
    provider.remember(key, Place::File).await.map_err(|why| (WRONG, why.to_string()))?;
    let file = Keys::default().path().map(|path| path.display().to_string()).unwrap_or_default();
    Ok(format!("{file}, for you alone"))
}

/// Forgets a key.
pub fn log_out(named: Option<String>, model: Option<String>) -> Done {
    let (provider, _) = provider(named, model, None, &Kept::default())?;
    let places = block_on(async { provider.log_out().await.map_err(|why| (WRONG, why.to_string())) })?;
    let title = &provider.title;
    let told = match places[..] {
        [] => format!("No key for {title} was stored."),
        [Place::File] => format!("The key for {title} is forgotten."),
        [Place::Keyring] => format!("The key for {title} in your keyring is forgotten."),
        _ => format!("The keys for {title} in your keyring and in the file are forgotten."),
    };
    let still =
        provider.comes_first().map_or_else(String::new, |first| format!(" But {first}, and that still counts."));
    note(format!("{told}{still}"));
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

/// Asks for a line in the terminal and reads it without showing it. Signals that would end us, and Ctrl-C, which is read here, put the
/// terminal right first.
async fn hidden(question: &str) -> Result<String, Failed> {
    let wrong = |error: &dyn std::fmt::Display| (WRONG, format!("the terminal can't be silenced: {error}"));
    let stdin = rustix::stdio::stdin();
    // Before the terminal is silent, so that none comes too early.
    let mut hangup = signal(SignalKind::hangup()).map_err(|error| wrong(&error))?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(|error| wrong(&error))?;
    let mut quit = signal(SignalKind::quit()).map_err(|error| wrong(&error))?;
    let mut terminate = signal(SignalKind::terminate()).map_err(|error| wrong(&error))?;
    let before = Before(termios::tcgetattr(stdin).map_err(|error| wrong(&error))?);
    let mut silent = before.0.clone();
    silent.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG);
    termios::tcsetattr(stdin, OptionalActions::Flush, &silent).map_err(|error| wrong(&error))?;
    // Only now: what is typed in answer must not be seen.
    let _ = write!(std::io::stderr(), "{question}");
    let (sender, typed) = tokio::sync::oneshot::channel();
    // A thread of its own: nobody can wake it, so nobody may wait for it.
    std::thread::spawn(move || drop(sender.send(line())));
    let code = tokio::select! {
        typed = typed => return typed.unwrap_or_else(|_| Err(CANCELLED.into())).map_err(|why| (WRONG, why)),
        _ = hangup.recv() => 129,
        _ = interrupt.recv() => 130,
        _ = quit.recv() => 131,
        _ = terminate.recv() => 143,
    };
    Err((code, CANCELLED.into()))
}

/// What was typed, up to the end of a line.
fn line() -> Result<String, String> {
    let mut typed = Vec::new();
    for byte in std::io::stdin().lock().bytes() {
        match byte.map_err(|error| error.to_string())? {
            b'\r' | b'\n' => return String::from_utf8(typed).map_err(|_| "that is no key; nothing was stored".into()),
            3 | 4 | 26 => break,
            8 | 127 => drop(typed.pop()),
            21 => typed.clear(),
            byte if typed.len() < MAX_KEY_BYTES => typed.push(byte),
            _ => {}
        }
    }
    Err(CANCELLED.into())
}
