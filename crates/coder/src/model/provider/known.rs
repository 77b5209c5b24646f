//! What is known of providers and models: who they are (`providers.toml`), and how large and dear their models are (`models.toml`).

use crate::model::Usage;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// What is known of a model. Prices are US dollars for a million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Known {
    /// Tokens that fit into its context; 0 if that is not known.
    pub context: u64,
    /// For what it reads.
    pub input: Option<f64>,
    /// For what it reads from a cache.
    pub cached: Option<f64>,
    /// For what it reads and puts into a cache.
    pub written: Option<f64>,
    /// For what it writes, thoughts included.
    pub output: Option<f64>,
    /// The prices hold for requests of up to so many tokens.
    pub up_to: Option<u64>,
}

/// How a provider's requests and answers are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Format {
    /// `OpenAI` chat completions, which many others speak, too.
    OpenaiChat,
    /// `OpenAI` responses.
    OpenaiResponses,
    /// Anthropic messages.
    Anthropic,
    /// Gemini.
    Gemini,
}

impl Format {
    /// The one that a configuration calls so.
    pub fn named(name: &str) -> Option<Self> {
        serde_json::from_value(name.into()).ok()
    }
}

/// A provider that we know.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preset {
    /// What users type before the slash.
    pub name: String,
    /// What it is called.
    pub title: String,
    /// What it speaks.
    pub format: Format,
    /// Where it is.
    pub base_url: String,
    /// The variable that holds its key. None: it runs on this machine and wants no key.
    pub key_env: Option<String>,
    /// A model to start with.
    pub example: String,
}

/// The providers; those on this machine last.
pub static PRESETS: LazyLock<Vec<Preset>> = LazyLock::new(|| table(include_str!("providers.toml"), "providers"));
static MODELS: LazyLock<BTreeMap<String, Known>> = LazyLock::new(|| table(include_str!("models.toml"), "models"));

/// The one table of a file that is part of us. Tests read them, so nobody ever misses it.
fn table<T: DeserializeOwned + Default>(text: &str, key: &str) -> T {
    let mut file: BTreeMap<String, T> = toml::from_str(text).unwrap_or_default();
    file.remove(key).unwrap_or_default()
}

/// The provider of this name.
pub fn named(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}

/// What is known of a model: by the longest name in the table that its name begins with. Routers put the maker before it.
pub fn known(model: &str) -> Known {
    let name = model.rsplit('/').next().unwrap_or_default();
    let fits = |known: &&String| {
        name.strip_prefix(known.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '@', ':', '.']))
    };
    let best = MODELS.keys().filter(fits).max_by_key(|known| known.len());
    best.and_then(|best| MODELS.get(best)).copied().unwrap_or_default()
}

/// The tokens of one answer, each counted once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tokens {
    /// Read, and not from a cache.
    pub input: u64,
    /// Read from a cache.
    pub cached: u64,
    /// Read and put into a cache.
    pub written: u64,
    /// Written, thoughts included.
    pub output: u64,
}

impl Tokens {
    /// Tokens in the context after the answer, and the cost where all prices are known.
    pub fn usage(&self, known: &Known) -> Usage {
        let read = self.input.saturating_add(self.cached).saturating_add(self.written);
        Usage { used: read.saturating_add(self.output), cost: self.cost(known, read) }
    }

    #[allow(clippy::cast_precision_loss, reason = "tokens are not that many")]
    fn cost(&self, known: &Known, read: u64) -> Option<f64> {
        if known.up_to.is_some_and(|most| read > most) {
            return None;
        }
        let (input, output) = (known.input?, known.output?);
        let part = |tokens: u64, price: f64| tokens as f64 * price / 1e6;
        Some(
            part(self.input, input)
                + part(self.cached, known.cached.unwrap_or(input))
                + part(self.written, known.written.unwrap_or(input))
                + part(self.output, output),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit() {
        assert!(!MODELS.is_empty() && named("vllm").is_some());
        let check = |model: &str, context: u64| assert_eq!(known(model).context, context, "{model}");
        check("claude-sonnet-4-5-20250929", 200_000);
        check("claude-sonnet-5-5", 1_000_000);
        check("anthropic/claude-haiku-4.5", 0);
        check("openai/gpt-5.4-2026-03-01", 400_000);
        check("gpt-4.1-mini", 1_047_576);
        check("gpt-4.10", 0);
        check("qwen3-coder", 0);
        assert_eq!((known("gpt-5.4-nano").input, known("gpt-5.4").input), (None, Some(2.5)));
    }

    #[test]
    fn costs_add_up() {
        let known = known("claude-opus-5-5");
        let tokens = Tokens { input: 1000, cached: 10_000, written: 2000, output: 500 };
        let usage = tokens.usage(&known);
        assert_eq!(usage.used, 13_500);
        assert!((usage.cost.unwrap() - (0.004 + 0.002 + 0.01 + 0.01)).abs() < 1e-12);
        let many = Tokens { input: 200_001, ..Tokens::default() };
        assert_eq!(many.usage(&super::known("gemini-2.5-pro")).cost, None);
        assert_eq!(tokens.usage(&Known::default()).cost, None);
    }
}
