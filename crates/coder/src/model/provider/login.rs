//! The key of a provider: where it comes from, how users log in and out.

use super::{Provider, Secret};
use crate::model::ModelError;
use std::sync::{MutexGuard, PoisonError};
use tieline::schema::{AgentAuth, AuthMethod, TerminalAuth};

/// What the agent's own login method is called.
const BY_KEY: &str = "key";

/// What is known of the key.
#[derive(Clone)]
pub(super) enum KeyState {
    /// Look for it.
    Unknown,
    /// This is it.
    Known(Secret),
    /// The user logged out: what is in the environment does not count any more.
    Forgotten,
}

impl Provider {
    pub(super) fn state(&self) -> MutexGuard<'_, KeyState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The key: from the environment, from the file that the configuration names, or as the user typed it once.
    pub(crate) fn key(&self) -> Option<Secret> {
        let mut state = self.state();
        match &*state {
            KeyState::Known(key) => return Some(key.clone()),
            KeyState::Forgotten => return None,
            KeyState::Unknown => {}
        }
        let env = self.key_env.as_ref().and_then(|name| std::env::var(name).ok());
        let file = || std::fs::read_to_string(self.own.key_file.as_ref()?).ok();
        let typed = || match self.keys.get(&self.name) {
            Ok(key) => key,
            Err(why) => {
                tracing::warn!(why, "the stored keys can't be read");
                None
            }
        };
        let key = env.and_then(|key| Secret::new(&key)).or_else(|| Secret::new(&file()?)).or_else(typed)?;
        *state = KeyState::Known(key.clone());
        Some(key)
    }

    /// Whether requests can be made, as far as we know.
    pub fn ready(&self) -> Result<(), ModelError> {
        if self.needs_key && self.key().is_none() {
            return Err(ModelError::LoginNeeded(self.login_hint()));
        }
        Ok(())
    }

    /// What to type when the key is missing or wrong.
    pub(crate) fn login_hint(&self) -> String {
        let what = if self.key().is_some() { "refused the key" } else { "wants a key" };
        let env = self.key_env.as_ref().map_or_else(String::new, |env| format!(", or set {env}"));
        format!("{} {what}. Type `tieline agent login {}`{env}, then try again.", self.title, self.name)
    }

    /// The ways to log in.
    pub fn auth_methods(&self) -> Vec<AuthMethod> {
        if self.key_env.is_none() && self.own.key_file.is_none() {
            return Vec::new();
        }
        let env = self.key_env.as_deref().unwrap_or("the key file");
        vec![
            AuthMethod::Agent(AgentAuth {
                method_id: BY_KEY.into(),
                name: format!("{} key", self.title),
                description: Some(format!(
                    "Uses the key in {env} or the one that was stored by `tieline agent login`."
                )),
                ..AgentAuth::default()
            }),
            AuthMethod::Terminal(TerminalAuth {
                method_id: "terminal".into(),
                name: format!("Type a key for {}", self.title),
                description: Some("Asks for the key in a terminal and stores it for you alone.".into()),
                args: vec!["login".into(), self.name.clone()],
                ..TerminalAuth::default()
            }),
        ]
    }

    /// Looks for a key again, after a logout too.
    pub fn log_in(&self) -> Result<(), ModelError> {
        *self.state() = KeyState::Unknown;
        match self.key() {
            Some(_) => Ok(()),
            None => Err(ModelError::LoginNeeded(self.login_hint())),
        }
    }

    /// Forgets the key: the stored one for good, the one in the environment until the next login.
    pub fn log_out(&self) -> Result<(), String> {
        *self.state() = KeyState::Forgotten;
        self.keys.remove(&self.name).map(drop)
    }

    /// Stores a key.
    pub fn remember(&self, key: &Secret) -> Result<(), String> {
        self.keys.set(&self.name, key)?;
        *self.state() = KeyState::Known(key.clone());
        Ok(())
    }

    /// Uses a key without storing it.
    pub fn use_key(&self, key: Secret) {
        *self.state() = KeyState::Known(key);
    }

    /// The variable that its key is read from.
    pub fn key_env(&self) -> Option<&str> {
        self.key_env.as_deref()
    }
}
