//! What a provider offers, and which servers run on this machine.

use super::decode::counted;
use super::stream::MAX_ERROR_BYTES;
use super::trouble::Trouble;
use super::{Format, PRESETS, Provider, known};
use crate::http::Http;
use crate::model::ModelError;
use crate::model::ways::line;
use futures_util::future::join_all;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use strsim::levenshtein;
use tieline_host::config::Config;

/// As much of a list as is read, in bytes.
const MAX_LIST_BYTES: usize = 8 << 20;
/// How long a list may take that only helps to find a name.
const HINT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a server on this machine may take to list its models.
const LOCAL_TIMEOUT: Duration = Duration::from_secs(3);
/// So many names are compared at most.
const MAX_COMPARED: usize = 5000;
/// Longer names are not compared, in bytes.
const MAX_NAME_BYTES: usize = 120;

/// A model that a provider offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offered {
    /// Its name, as it goes behind the slash.
    pub name: String,
    /// Tokens that fit into its context; 0 if nobody says.
    pub context: u64,
}

impl Provider {
    /// The models that it offers, sorted by name.
    pub async fn list(&self) -> Result<Vec<Offered>, ModelError> {
        self.listed().await.map_err(|trouble| match trouble {
            // There is no model in the question, so it is the address.
            Trouble::Model => Trouble::Address.told(self, ""),
            trouble => trouble.told(self, "the list of models"),
        })
    }

    async fn listed(&self) -> Result<Vec<Offered>, Trouble> {
        let path = match self.format {
            Format::OpenaiChat | Format::OpenaiResponses => "/models",
            Format::Anthropic => "/v1/models?limit=1000",
            Format::Gemini => "/v1beta/models?pageSize=1000",
        };
        self.find_key(false).await;
        let request = self.request("GET", path)?;
        let mut answer = self.http.send(request).await.map_err(Trouble::of_http)?;
        let status = answer.status();
        if !status.is_success() {
            let body = answer.body_mut().start(MAX_ERROR_BYTES).await;
            return Err(Trouble::of_answer(status.as_u16(), None, &body));
        }
        let bytes = answer.body_mut().bytes(MAX_LIST_BYTES).await.map_err(Trouble::of_http)?;
        let value: Value = serde_json::from_slice(&bytes)
            .map_err(|_| Trouble::Other(format!("what is at `{}` is no list of models", self.shown_url())))?;
        let mut models: Vec<Offered> = offered(&value).collect();
        models.sort_by(|a, b| a.name.cmp(&b.name));
        models.dedup_by(|a, b| a.name == b.name);
        Ok(models)
    }

    /// What the user is told when there is no such model: what it may have been meant to be, and what to type.
    pub(super) async fn no_model(&self, model: &str) -> ModelError {
        let name = &self.name;
        let near = match tokio::time::timeout(HINT_TIMEOUT, self.listed()).await {
            Ok(Ok(models)) => nearest(model, &models).into_iter().map(str::to_owned).collect(),
            Ok(Err(Trouble::Model | Trouble::Address)) => {
                let why = format!("{name} has no model `{model}`, or {}", self.wrong_address());
                return ModelError::Failed(self.clean(&why));
            }
            _ => Vec::new(),
        };
        let place = self.place_flag();
        let hint = near.first().map(|first| {
            format!(" Did you mean `{}`? Type: {}", near.join("` or `"), line(&format!("{name}/{first}{place}")))
        });
        let hint = hint.unwrap_or_default();
        ModelError::Failed(
            self.clean(&format!(
                "{name} has no model `{model}`; `tieline models {name}{place}` lists what it has.{hint}"
            )),
        )
    }

    /// What the user is told when there is nothing at the address.
    pub(super) fn wrong_address(&self) -> String {
        let (url, name) = (self.shown_url(), &self.name);
        let ends = |end: &str| url.ends_with(end);
        let hint = match self.format {
            Format::OpenaiChat | Format::OpenaiResponses if !url.contains("/v") => {
                " Most servers of this kind want `/v1` at its end."
            }
            Format::Anthropic | Format::Gemini if ends("/v1") || ends("/v1beta") => {
                " It must stop before `/v1`, which is added to it."
            }
            _ => "",
        };
        format!(
            "there is no model server at `{url}` (404). Check the address: `--base-url`, or `base_url` in [providers.{name}] of your \
             config.toml.{hint}"
        )
    }
}

/// The models whose names are most like one, best first.
fn nearest<'a>(wanted: &str, models: &'a [Offered]) -> Vec<&'a str> {
    let bare = |name: &str| name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    let wanted = bare(wanted);
    let fits = |name: &str| (1..=MAX_NAME_BYTES).contains(&name.len());
    let mut near: Vec<(usize, &str)> = Vec::new();
    for model in models.iter().take(MAX_COMPARED).filter(|_| fits(&wanted)) {
        let name = bare(&model.name);
        if !fits(&name) {
            continue;
        }
        // Routers put the maker before the name.
        let last = bare(model.name.rsplit('/').next().unwrap_or_default());
        let far = levenshtein(&wanted, &name).min(levenshtein(&wanted, &last));
        if far <= (wanted.len() / 4).max(2) || name.contains(&wanted) || wanted.contains(&name) {
            near.push((far, &model.name));
        }
    }
    near.sort_unstable();
    near.into_iter().take(3).map(|(_, name)| name).collect()
}

fn offered(value: &Value) -> impl Iterator<Item = Offered> {
    // OpenAI and Anthropic say `data`, Gemini says `models`, Together just gives the list.
    let list = value["data"].as_array().or_else(|| value["models"].as_array()).or_else(|| value.as_array());
    list.into_iter().flatten().filter_map(|model| {
        let talks = model["supportedGenerationMethods"].as_array();
        if talks.is_some_and(|methods| !methods.iter().any(|method| method == "generateContent")) {
            return None;
        }
        let name = model["id"].as_str().or_else(|| model["name"].as_str())?;
        let name = name.strip_prefix("models/").unwrap_or(name).to_owned();
        let keys = ["context_length", "context_window", "max_context_length", "max_model_len", "inputTokenLimit"];
        let told = keys.iter().find_map(|key| counted(&model[*key])).or_else(|| counted(&model["meta"]["n_ctx"]));
        let context = told.unwrap_or_else(|| known::known(&name).context);
        Some(Offered { name, context })
    })
}

/// Looks for servers at the usual places on this machine, and asks each what it has.
pub async fn local(http: &Http, config: &Config) -> Vec<(Arc<Provider>, Result<Vec<Offered>, ModelError>)> {
    let http = http.times(LOCAL_TIMEOUT, Some(LOCAL_TIMEOUT));
    let local = PRESETS.iter().filter(|preset| preset.key_env.is_none());
    let asking = local.filter_map(|preset| Provider::resolve(&preset.name, None, config, http.clone()).ok());
    let asking = asking.map(|provider| async move {
        let found = tokio::time::timeout(LOCAL_TIMEOUT, provider.list()).await;
        let found = found.unwrap_or_else(|_| Err(ModelError::Failed("no answer in time".into())));
        (provider, found)
    });
    join_all(asking).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_nearly_right_are_found() {
        let models = ["gpt-5.4", "gpt-5.4-mini", "claude-sonnet-5-5", "qwen/qwen3-coder", "llama"];
        let models: Vec<Offered> = models.iter().map(|name| Offered { name: (*name).into(), context: 0 }).collect();
        let check = |wanted: &str, expect: &[&str]| assert_eq!(nearest(wanted, &models), expect, "{wanted}");
        check("gpt5", &["gpt-5.4", "gpt-5.4-mini"]);
        check("claude-sonet-5.5", &["claude-sonnet-5-5"]);
        check("Qwen3-Coder", &["qwen/qwen3-coder"]);
        check("mistral-large", &[]);
        check("…", &[]);
    }
}
