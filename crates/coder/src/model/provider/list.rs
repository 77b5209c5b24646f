//! What a provider offers, and which servers run on this machine.

use super::presets::PRESETS;
use super::trouble::Trouble;
use super::{Format, Provider, Settings, known};
use crate::http::Http;
use crate::model::ModelError;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// As much of a list as is read.
const MOST: usize = 8 << 20;

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
        let path = match self.format {
            Format::OpenaiChat | Format::OpenaiResponses => "/models",
            Format::Anthropic => "/v1/models?limit=1000",
            Format::Gemini => "/v1beta/models?pageSize=1000",
        };
        let told = |trouble: Trouble| match trouble {
            // There is no model in the question, so it is the address.
            Trouble::Model => ModelError::Failed(format!(
                "{} has no list of models at `{}`. Check the address.",
                self.name,
                self.shown_url()
            )),
            trouble => trouble.told(self, ""),
        };
        let request = self.request("GET", path).map_err(told)?;
        let mut answer = self.http.send(request).await.map_err(|error| told(Trouble::of_http(error)))?;
        let status = answer.status();
        if !status.is_success() {
            let body = answer.body_mut().start(64 * 1024).await;
            return Err(told(Trouble::of_answer(status.as_u16(), None, &body)));
        }
        let bytes = answer.body_mut().bytes(MOST).await.map_err(|error| told(Trouble::of_http(error)))?;
        let value: Value = serde_json::from_slice(&bytes)
            .map_err(|_| told(Trouble::Other(format!("what is at `{}` is no list of models", self.shown_url()))))?;
        let mut models: Vec<Offered> = offered(&value).collect();
        models.sort_by(|a, b| a.name.cmp(&b.name));
        models.dedup_by(|a, b| a.name == b.name);
        Ok(models)
    }
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
        let told = keys.iter().find_map(|key| model[*key].as_u64()).or_else(|| model["meta"]["n_ctx"].as_u64());
        let context = told.unwrap_or_else(|| known::known(&name).context);
        Some(Offered { name, context })
    })
}

/// Looks for servers at the usual places on this machine, and asks each what it has.
pub async fn local(http: &Http, settings: &Settings) -> Vec<(Arc<Provider>, Result<Vec<Offered>, ModelError>)> {
    let mut asking = tokio::task::JoinSet::new();
    let time = Duration::from_secs(3);
    for (at, preset) in PRESETS.iter().filter(|preset| preset.is_local()).enumerate() {
        let http = http.times(time, Some(time));
        let Ok(provider) = Provider::resolve(preset.name, None, settings, http) else { continue };
        asking.spawn(async move {
            let found = tokio::time::timeout(time, provider.list()).await;
            let found = found.unwrap_or_else(|_| Err(ModelError::Failed("no answer in time".into())));
            (at, provider, found)
        });
    }
    let mut all = Vec::new();
    while let Some(done) = asking.join_next().await {
        all.extend(done.ok());
    }
    all.sort_by_key(|(at, ..)| *at);
    all.into_iter().map(|(_, provider, found)| (provider, found)).collect()
}
