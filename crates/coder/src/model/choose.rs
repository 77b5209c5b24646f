//! Who answers: the model that the user names, and the others to choose from.

use super::offline::Offline;
use super::provider::{PRESETS, Provider};
use super::{Model, provider};
use crate::http::{Http, Options};
use std::collections::HashMap;
use std::sync::Arc;
use tieline_host::config::{Config, Error};

/// A client as the environment and the configuration want it.
pub fn http(config: &Config) -> Http {
    let mut options = Options::from_env();
    options.ca_file = config.network.ca_file.clone().or(options.ca_file);
    Http::new(options)
}

/// Takes `PROVIDER/MODEL` apart.
fn split<'a>(name: &'a str, config: &Config) -> Result<(&'a str, &'a str), Error> {
    match name.split_once('/') {
        Some((provider, model)) if !provider.is_empty() && !model.is_empty() => Ok((provider, model)),
        _ => {
            let (bare, mut meant) = (name.trim_end_matches('/'), Vec::new());
            if let Some(preset) = provider::named(bare) {
                meant.push(format!("{bare}/{}", preset.example));
            } else if let Some(model) = config.providers.get(bare).and_then(|own| own.models.first()) {
                meant.push(format!("{bare}/{model}"));
            } else {
                meant = makers(bare, config);
            }
            let hint = match &meant[..] {
                [first, second, ..] => format!("Did you mean `{first}` or `{second}`?"),
                [first] => format!("Did you mean `{first}`?"),
                [] => {
                    let example = PRESETS.first().map(|preset| format!("{}/{}", preset.name, preset.example));
                    format!("An example is `{}`.", example.unwrap_or_default())
                }
            };
            Err(Error::new(format!(
                "`{name}` is no model: write PROVIDER/MODEL, or `offline`. {hint} Providers and models: tieline models"
            )))
        }
    }
}

/// Who may have a model of this name: providers of the configuration that name it, and those whose models begin with the same word.
fn makers(model: &str, config: &Config) -> Vec<String> {
    let own = config.providers.iter().filter(|(_, own)| own.models.iter().any(|known| known == model));
    let word = |name: &str| name.chars().take_while(char::is_ascii_alphabetic).collect::<String>().to_ascii_lowercase();
    let begins = |example: &str| {
        let example = example.rsplit('/').next().unwrap_or_default();
        !word(model).is_empty() && word(example) == word(model)
    };
    let known = PRESETS.iter().filter(|preset| begins(&preset.example)).map(|preset| preset.name.as_str());
    own.map(|(name, _)| name.as_str()).chain(known).map(|provider| format!("{provider}/{model}")).collect()
}

/// Looks for mistakes in what the configuration says of models and providers.
pub fn check(config: &Config) -> Result<(), Error> {
    let models = config.models.default.iter().map(|name| ("models.default", name));
    for (key, name) in models.chain(config.models.choices.iter().map(|name| ("models.choices", name))) {
        if name == "offline" {
            continue;
        }
        let (provider, _) = split(name, config).map_err(|error| config.mistake(key, error.why))?;
        if provider::named(provider).is_none() && !config.providers.contains_key(provider) {
            return Err(config.mistake(key, provider::unknown(provider, config)));
        }
    }
    config.providers.keys().try_for_each(|name| Provider::resolve(name, None, config, Http::default()).map(drop))
}

/// The models for an agent: first the one that the configuration wants, which answers unless the user chooses another.
pub fn choose(base_url: Option<&str>, config: &Config, http: &Http) -> Result<Vec<Arc<dyn Model>>, Error> {
    check(config)?;
    let offline: Arc<dyn Model> = Arc::new(Offline::new());
    let mut known = HashMap::new();
    let mut named = |name: &str, base_url, first: bool| -> Result<(Arc<Provider>, String), Error> {
        let (provider, model) = split(name, config)?;
        let found = match known.get(provider) {
            Some(found) => Arc::clone(found),
            None => {
                let mut found = Provider::resolve(provider, base_url, config, http.clone())?;
                Arc::make_mut(&mut found).beside = !first;
                found
            }
        };
        known.insert(provider.to_owned(), Arc::clone(&found));
        Ok((found, model.to_owned()))
    };
    let mut models: Vec<Arc<dyn Model>> = Vec::new();
    let name = config.models.default.as_deref().unwrap_or("offline");
    if name == "offline" {
        if base_url.is_some() {
            return Err(Error::new("--base-url goes with a provider: add `--model PROVIDER/MODEL`."));
        }
        models.push(Arc::clone(&offline));
    } else {
        let (found, model) = named(name, base_url, true)?;
        models.push(Arc::new(found.model(&model)));
        models.extend(found.configured().iter().map(|model| Arc::new(found.model(model)) as Arc<dyn Model>));
    }
    for choice in config.models.choices.iter().filter(|choice| *choice != "offline") {
        let (found, model) = named(choice, None, false)?;
        models.push(Arc::new(found.model(&model)));
    }
    models.push(offline);
    let mut seen = std::collections::HashSet::new();
    models.retain(|model| seen.insert(model.id().to_owned()));
    Ok(models)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use tieline_host::config::MODEL_FORMATS;

    #[test]
    fn names_lead_to_models() {
        let text = "[models]\nchoices = ['groq/a', 'offline']\n[providers.openai]\nmodels = ['m', 'n']";
        let config = Config::parse(text, Path::new("config.toml")).unwrap();
        let ids = |name: &str, url| {
            let mut config = config.clone();
            config.models.default = Some(name.into());
            let chosen = choose(url, &config, &Http::default()).map_err(|error| error.to_string())?;
            let ids: Vec<String> = chosen.iter().map(|model| model.id().to_owned()).collect();
            Ok::<_, String>((ids.join(" "), chosen[0].provider().map(|provider| provider.shown_url())))
        };
        assert_eq!(ids("offline", None).unwrap(), ("offline groq/a".into(), None));
        let (all, url) = ids("openai/m", Some("http://u:p@127.0.0.1:9/v1/")).unwrap();
        assert_eq!((all.as_str(), url.as_deref()), ("openai/m openai/n groq/a offline", Some("http://127.0.0.1:9/v1")));
        assert_eq!(ids("openrouter/qwen/qwen3", None).unwrap().0, "openrouter/qwen/qwen3 groq/a offline");
        for (name, expect) in [("gpt", "no model"), ("nobody/x", "no provider `nobody`"), ("openai/", "openai/gpt")] {
            let why = ids(name, None).unwrap_err();
            assert!(why.contains(expect), "{why}");
        }
        assert!(ids("openai/x", Some("ftp://x")).unwrap_err().contains("https://"));
        assert!(MODEL_FORMATS.iter().all(|name| provider::Format::named(name).is_some()));
    }

    #[test]
    fn mistakes_have_a_line() {
        for (text, expect) in [
            ("[models]\ndefault = 'gpt-5.4'", "config.toml:2: `gpt-5.4` is no model"),
            ("[models]\ndefault = 'gpt-4.1'", "Did you mean `openai/gpt-4.1` or `openai-chat/gpt-4.1`?"),
            ("[models]\ndefault = 'claude-opus-9'", "Did you mean `anthropic/claude-opus-9`?"),
            ("[models]\ndefault = 'anthropic'", "Did you mean `anthropic/claude-sonnet-5-5`?"),
            ("[models]\ndefault = 'x'\n[providers.mine]\nmodels = ['x']", "Did you mean `mine/x`?"),
            ("[models]\ndefault = 'zzz'", "An example is `anthropic/"),
            ("[models]\nchoices = ['openai/x', 'nobody/x']", "config.toml:2: There is no provider `nobody`"),
            ("[providers.mine]\nmodels = ['x']", "config.toml:2: the provider `mine` has no address"),
        ] {
            let config = Config::parse(text, Path::new("config.toml")).unwrap();
            let why = check(&config).unwrap_err().to_string();
            assert!(why.contains(expect), "{why}");
        }
    }
}
