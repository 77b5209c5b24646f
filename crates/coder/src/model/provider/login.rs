//! The key of a provider: where it comes from, how users log in and out.

use super::{KeyError, Keyring, Provider, Secret};
use crate::model::ModelError;
use std::sync::MutexGuard;
use tieline::schema::{AgentAuth, AuthMethod, TerminalAuth};
use tieline_host::text::cut_line;
use tieline_rpc::sync::Lock;

/// What the ways to log in are called: the agent does it, or its program in a terminal.
const METHODS: [&str; 2] = ["key", "terminal"];

/// What is known of the key.
#[derive(Clone)]
pub(super) enum KeyState {
    /// Look for it.
    Unknown,
    /// This is it, and where it was.
    Known(Secret, Source),
    /// There is none; perhaps we know why.
    Missing(Option<KeyError>),
    /// The user logged out: what is in the environment does not count any more.
    Forgotten,
}

/// Where a key was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// In its variable.
    Variable,
    /// In the file that the configuration names.
    KeyFile,
    /// In our own file or the keyring, or somebody gave it to us.
    Stored,
}

/// Where a key is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In our own file.
    File,
    /// In the keyring.
    Keyring,
}

impl Provider {
    pub(super) fn state(&self) -> MutexGuard<'_, KeyState> {
        self.state.locked()
    }

    /// The key, if it has been found.
    pub(super) fn key(&self) -> Option<Secret> {
        match &*self.state() {
            KeyState::Known(key, _) => Some(key.clone()),
            _ => None,
        }
    }

    /// Looks for a key, unless that was done before. `again` also looks if there was none then.
    pub(super) async fn find_key(&self, again: bool) -> Option<Secret> {
        match &*self.state() {
            KeyState::Known(key, _) => return Some(key.clone()),
            KeyState::Missing(_) if !again => return None,
            KeyState::Forgotten => return None,
            KeyState::Missing(_) | KeyState::Unknown => {}
        }
        self.look(false).await
    }

    /// Looks for a key in every place, and remembers what came of it. This is the order that counts. The keyring is the last,
    /// because a person may have to unlock it; `unlock` says that one may be asked to.
    async fn look(&self, unlock: bool) -> Option<Secret> {
        let mut trouble = None;
        let mut note = |found: Result<Option<Secret>, KeyError>| {
            found.unwrap_or_else(|why| {
                trouble = Some(why);
                None
            })
        };
        let mut found = self.variable().map(|key| (key, Source::Variable));
        if found.is_none() {
            found = note(self.key_file()).map(|key| (key, Source::KeyFile));
        }
        if found.is_none() {
            found = note(self.keys.get(&self.name)).map(|key| (key, Source::Stored));
        }
        if found.is_none()
            && self.takes_keys()
            && let Ok(keyring) = Keyring::find()
        {
            let key = match keyring.get(&self.name, unlock).await {
                Err(KeyError::Locked) if !unlock => Err(KeyError::Failed(LOCKED.into())),
                // Most likely there is none at all, which is nothing to bother people with.
                Err(KeyError::NoKeyring(why)) => {
                    tracing::debug!(why, "the keyring can't be asked");
                    Ok(None)
                }
                key => key,
            };
            found = note(key).map(|key| (key, Source::Stored));
        }
        if let (None, Some(why)) = (&found, &trouble) {
            tracing::warn!(provider = self.name, %why, "a place of keys can't be read");
        }
        let key = found.as_ref().map(|(key, _)| key.clone());
        *self.state() = found.map_or(KeyState::Missing(trouble), |(key, source)| KeyState::Known(key, source));
        key
    }

    /// The key in the environment.
    fn variable(&self) -> Option<Secret> {
        Secret::new(&std::env::var(self.key_env.as_ref()?).ok()?)
    }

    /// The key in the file that the configuration names.
    fn key_file(&self) -> Result<Option<Secret>, KeyError> {
        let Some(path) = &self.own.key_file else { return Ok(None) };
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|error| KeyError::Failed(format!("{}: {error}", path.display())))?;
        let empty = || KeyError::Failed(format!("there is no key in {}", path.display()));
        Secret::new(&text).map(Some).ok_or_else(empty)
    }

    /// The file that the configuration names for its key.
    pub(crate) fn key_file_path(&self) -> Option<&std::path::Path> {
        self.own.key_file.as_deref()
    }

    /// Whether it is somebody who could want a key.
    fn takes_keys(&self) -> bool {
        self.key_env.is_some() || self.own.key_file.is_some()
    }

    /// Whether requests can be made, as far as we know. Nobody is asked to unlock anything.
    pub async fn ready(&self) -> Result<(), ModelError> {
        if self.needs_key && self.find_key(true).await.is_none() {
            return Err(ModelError::LoginNeeded(self.login_hint("")));
        }
        Ok(())
    }

    /// What to type when the key is missing or wrong, with what the provider said about it.
    pub(super) fn login_hint(&self, said: &str) -> String {
        let (title, name, said) = (&self.title, &self.name, self.said(said));
        let login = format!("tieline agent login {name}{}", self.place_flag());
        let env = self.key_env.as_deref();
        let way = env.map_or_else(|| format!("Type: {login}"), |env| format!("Set {env}, or type: {login}"));
        match &*self.state() {
            // What is stored would not count, so a login would not help.
            KeyState::Known(_, Source::Variable) => {
                let env = env.unwrap_or_default();
                format!(
                    "{title} refused the key in {env}{said}. Set it to one that works, or type: unset {env}; {login}"
                )
            }
            KeyState::Known(_, Source::KeyFile) => {
                let file = self.own.key_file.as_ref().map(|file| file.display().to_string()).unwrap_or_default();
                let env = env.map_or_else(String::new, |env| format!(" {env} counts first if it is set."));
                format!("{title} refused the key in {file}{said}. Put one there that works.{env}")
            }
            KeyState::Known(..) => format!("{title} refused the key{said}. {way}"),
            KeyState::Missing(Some(why)) => format!("{title} wants a key: {why}. {way}"),
            _ => format!("{title} wants a key{said}. {way}"),
        }
    }

    /// The words of the provider as a short part of a sentence.
    fn said(&self, words: &str) -> String {
        let words = cut_line(&self.clean(words), MAX_QUOTED_CHARACTERS);
        // A page or a piece of JSON helps nobody.
        if words.is_empty() || words.starts_with(['<', '{', '[']) {
            return String::new();
        }
        format!(" (it says: {})", words.trim_end_matches('.'))
    }

    /// The ids of the ways to log in.
    pub(crate) fn method_ids(&self) -> [String; 2] {
        METHODS.map(|id| if self.beside { format!("{id}-{}", self.name) } else { id.to_owned() })
    }

    /// The ways to log in.
    pub fn auth_methods(&self) -> Vec<AuthMethod> {
        if !self.takes_keys() {
            return Vec::new();
        }
        let env = self.key_env.as_deref().unwrap_or("the key file");
        let [by_key, in_terminal] = self.method_ids();
        vec![
            AuthMethod::Agent(AgentAuth {
                method_id: by_key,
                name: format!("{} key", self.title),
                description: Some(format!(
                    "Uses the key in {env}, or the one that `tieline agent login` stored in a file or your keyring."
                )),
                ..AgentAuth::default()
            }),
            AuthMethod::Terminal(TerminalAuth {
                method_id: in_terminal,
                name: format!("Type a key for {}", self.title),
                description: Some("Asks for the key in a terminal and stores it for you alone.".into()),
                args: vec!["login".into(), self.name.clone()],
                ..TerminalAuth::default()
            }),
        ]
    }

    /// Looks for a key again, after a logout too. A person may be asked to unlock the keyring.
    pub async fn log_in(&self) -> Result<(), ModelError> {
        match self.look(true).await {
            Some(_) => Ok(()),
            None => Err(ModelError::LoginNeeded(self.login_hint(""))),
        }
    }

    /// Forgets the key: the stored one for good, the one in the environment until the next login. Says where one was stored.
    pub async fn log_out(&self) -> Result<Vec<Place>, KeyError> {
        *self.state() = KeyState::Forgotten;
        let mut places = Vec::new();
        if self.keys.remove(&self.name)? {
            places.push(Place::File);
        }
        if self.takes_keys()
            && let Ok(keyring) = Keyring::working().await
            && keyring.remove(&self.name).await?
        {
            places.push(Place::Keyring);
        }
        Ok(places)
    }

    /// Stores a key in one place, and no longer in the other.
    pub async fn remember(&self, key: &Secret, place: Place) -> Result<(), KeyError> {
        let keyring = Keyring::find();
        if place == Place::File {
            self.keys.set(&self.name, key)?;
            // The one in the file counts first, so one that is left behind does no harm.
            if let Ok(keyring) = keyring {
                let _ = keyring.remove(&self.name).await;
            }
        } else {
            keyring?.set(&self.name, key).await?;
            self.keys.remove(&self.name)?;
        }
        self.use_key(key.clone());
        Ok(())
    }

    /// Uses a key without storing it.
    pub fn use_key(&self, key: Secret) {
        *self.state() = KeyState::Known(key, Source::Stored);
    }

    /// The variable that its key is read from.
    pub fn key_env(&self) -> Option<&str> {
        self.key_env.as_deref()
    }

    /// What counts before a stored key, in words: a variable that is set, or a file that the configuration names.
    pub fn comes_first(&self) -> Option<String> {
        if self.variable().is_some() {
            return self.key_env.as_ref().map(|name| format!("the environment variable {name} is set"));
        }
        self.key_file().ok()??;
        Some(format!("{} holds a key", self.own.key_file.as_ref()?.display()))
    }
}

const LOCKED: &str = "it is in your keyring, which is locked; unlock it or log in with the method `key`";
/// As much of a provider's words as is repeated in a sentence of ours, in characters.
const MAX_QUOTED_CHARACTERS: usize = 160;
