//! The part of the user's configuration file that is about models.

use super::presets::Format;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What the file says. Other tables of it belong to others.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// `[models]`
    pub models: Models,
    /// `[providers.NAME]`
    pub providers: BTreeMap<String, Own>,
    /// `[network]`
    pub network: Network,
}

/// `[models]`: which ones to use.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Models {
    /// The one to start with: `PROVIDER/MODEL`.
    pub default: Option<String>,
    /// Others to choose from in a session.
    pub choices: Vec<String>,
    /// How hard they should think: low, medium or high.
    pub thought_level: Option<String>,
}

/// `[providers.NAME]`: another provider, or other settings for one that we know.
#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Own {
    /// What it speaks.
    pub format: Option<Format>,
    /// Where it is.
    pub base_url: Option<String>,
    /// The variable that holds its key.
    pub key_env: Option<String>,
    /// A file that holds its key.
    pub key_file: Option<PathBuf>,
    /// More headers for each request.
    pub headers: BTreeMap<String, String>,
    /// Tokens that fit into the context of its models.
    pub context: Option<u64>,
    /// Models to choose from in a session.
    pub models: Vec<String>,
    /// A key may go over plain http to another machine.
    pub insecure: bool,
}

impl std::fmt::Debug for Own {
    /// Addresses and headers may hold secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Own").field("format", &self.format).field("models", &self.models).finish_non_exhaustive()
    }
}

/// `[network]`: how to reach them.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Network {
    /// A PEM file with certificates to trust besides the well-known ones.
    pub ca_file: Option<PathBuf>,
    /// A stream that is silent for so many seconds has ended.
    pub idle_seconds: Option<u64>,
    /// How often a request is tried again.
    pub tries: Option<u32>,
}

impl Settings {
    /// Reads a file; one that is not there says nothing. What is wrong is told by its line, never by its text.
    pub fn load(path: &Path) -> Result<Self, String> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if crate::config::is_missing(&error) => return Ok(Self::default()),
            Err(error) => return Err(format!("{}: {error}", path.display())),
        };
        Self::parse(&text).map_err(|why| format!("{}: {why}", path.display()))
    }

    /// Reads the text of a file.
    pub fn parse(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|error| crate::config::wrong(text, &error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read() {
        let text = "
            [agents.x]
            command = ['x']
            [models]
            default = 'anthropic/claude-sonnet-5-5'
            [providers.mine]
            format = 'openai-chat'
            base_url = 'https://models.example/v1'
            headers = { x-team = 'blue' }
            [network]
            ca_file = '/etc/ca.pem'
        ";
        let settings = Settings::parse(text).unwrap();
        assert_eq!(settings.models.default.as_deref(), Some("anthropic/claude-sonnet-5-5"));
        assert_eq!(settings.providers["mine"].format, Some(Format::OpenaiChat));
        let check = |text: &str, expect: &str| {
            let why = Settings::parse(text).unwrap_err();
            assert!(why.contains(expect) && !why.contains("hush"), "{why}");
        };
        check("[models]\ndefault = 1", "line 2: a value is of the wrong kind");
        check("[providers.x]\nkey = 'hush'", "unknown field `key`");
        check("[providers.x]\nbase_url = hush", "line 2: this is no TOML");
        check("[providers.x]\nformat = 'soap'", "line 2: this can't be chosen, expected one of `openai-chat`");
        check("[providers.x]\nformat = 'hush'", "can't be chosen");
        check("[providers.x]\nheaders = { a = 'hush', a = 'b' }", "line 2");
        check("[providers]\nx = 'hush'", "wrong kind");
        check("[providers.x]\nmodels = 'hush'", "wrong kind");
    }
}
