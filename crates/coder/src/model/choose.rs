//! Who answers: the model that the user names, and the others to choose from.

use super::offline::Offline;
use super::provider::{PRESETS, Provider, Settings};
use super::{Model, provider};
use crate::http::{Http, Options};
use std::collections::HashMap;
use std::sync::Arc;

/// The models of an agent.
pub struct Chosen {
    /// The first one answers unless the user chooses another.
    pub models: Vec<Arc<dyn Model>>,
    /// Whose the first one is; `None` if it needs nobody.
    pub provider: Option<Arc<Provider>>,
}

/// A client as the environment and the configuration want it.
pub fn http(settings: &Settings) -> Http {
    let mut options = Options::from_env();
    options.ca_file = settings.network.ca_file.clone().or(options.ca_file);
    Http::new(options)
}

/// Takes `PROVIDER/MODEL` apart.
pub fn split(name: &str) -> Result<(&str, &str), String> {
    match name.split_once('/') {
        Some((provider, model)) if !provider.is_empty() && !model.is_empty() => Ok((provider, model)),
        _ => {
            let preset = provider::named(name.trim_end_matches('/')).or(PRESETS.first());
            let example = preset.map_or_else(String::new, |preset| format!("{}/{}", preset.name, preset.example));
            Err(format!(
                "`{name}` is no model. Type `offline`, or PROVIDER/MODEL such as `{example}`; `tieline models` lists them."
            ))
        }
    }
}

/// The models for an agent. `name` is what the user wants: `offline` or `PROVIDER/MODEL`.
pub fn choose(name: &str, base_url: Option<&str>, settings: &Settings, http: &Http) -> Result<Chosen, String> {
    if let Some(level) = &settings.models.thought_level
        && !provider::LEVELS.contains(&level.as_str())
    {
        let levels = provider::LEVELS.join(", ");
        return Err(format!("[models] thought_level in your config.toml must be one of: {levels}."));
    }
    let offline: Arc<dyn Model> = Arc::new(Offline::new());
    let mut known = HashMap::new();
    let mut named = |name: &str, base_url, first: bool| -> Result<(Arc<Provider>, String), String> {
        let (provider, model) = split(name)?;
        let found = match known.get(provider) {
            Some(found) => Arc::clone(found),
            None => {
                let found = Provider::resolve(provider, base_url, settings, http.clone())?;
                if first { found } else { found.beside() }
            }
        };
        known.insert(provider.to_owned(), Arc::clone(&found));
        Ok((found, model.to_owned()))
    };
    let mut models: Vec<Arc<dyn Model>> = Vec::new();
    let mut provider = None;
    if name == "offline" {
        if base_url.is_some() {
            return Err("--base-url goes with a provider: add `--model PROVIDER/MODEL`.".into());
        }
        models.push(Arc::clone(&offline));
    } else {
        let (found, model) = named(name, base_url, true)?;
        models.push(Arc::new(found.model(&model)));
        models.extend(found.configured().iter().map(|model| Arc::new(found.model(model)) as Arc<dyn Model>));
        provider = Some(found);
    }
    for choice in &settings.models.choices {
        let wrong = |why| format!("[models] choices in your config.toml: {why}");
        match choice.as_str() {
            "offline" => {}
            choice => {
                let (found, model) = named(choice, None, false).map_err(wrong)?;
                models.push(Arc::new(found.model(&model)));
            }
        }
    }
    models.push(offline);
    let mut seen = std::collections::HashSet::new();
    models.retain(|model| seen.insert(model.id().to_owned()));
    Ok(Chosen { models, provider })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_to_models() {
        let settings =
            Settings::parse("[models]\nchoices = ['groq/a', 'offline']\n[providers.openai]\nmodels = ['m', 'n']");
        let settings = settings.unwrap();
        let http = Http::new(Options::default());
        let ids = |name: &str, url| {
            let chosen = choose(name, url, &settings, &http)?;
            let ids: Vec<String> = chosen.models.iter().map(|model| model.id().to_owned()).collect();
            Ok::<_, String>((ids.join(" "), chosen.provider.map(|provider| provider.shown_url())))
        };
        assert_eq!(ids("offline", None).unwrap(), ("offline groq/a".into(), None));
        let (all, url) = ids("openai/m", Some("http://u:p@127.0.0.1:9/v1/")).unwrap();
        assert_eq!((all.as_str(), url.as_deref()), ("openai/m openai/n groq/a offline", Some("http://127.0.0.1:9/v1")));
        assert_eq!(ids("openrouter/qwen/qwen3", None).unwrap().0, "openrouter/qwen/qwen3 groq/a offline");
        for (name, expect) in [("gpt", "no model"), ("nobody/x", "no provider `nobody`"), ("openai/", "openai/gpt")] {
            let why = ids(name, None).unwrap_err();
            assert!(why.contains(expect), "{why}");
        }
        let wrong = Settings::parse("[models]\nthought_level = 'much'").unwrap();
        assert!(choose("offline", None, &wrong, &http).err().unwrap().contains("default, low, medium, high"));
        assert!(ids("openai/x", Some("ftp://x")).unwrap_err().contains("https://"));
    }
}
