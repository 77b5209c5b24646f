//! Where the providers of a session are. An address that the user named stays with the session, whatever model it goes on with: a key and
//! a conversation never go to another server because it was not named again.

use super::{Gone, Model};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use tieline_host::config;
use tieline_host::store::Store;

/// Finds a model by its id, at the address that was named for its provider.
pub type FindModel = Arc<dyn Fn(&str, Option<&str>) -> Result<Arc<dyn Model>, config::Error> + Send + Sync>;

/// The addresses that were named for the providers of a session, by their names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Addresses(BTreeMap<String, String>);

/// Who answered in a session, and where. Whoever goes on with it hands this over, for an agent that has lost it and for a login.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Kept {
    /// The id of the model.
    pub model: Option<String>,
    /// The addresses that were named, by the names of their providers.
    pub addresses: BTreeMap<String, String>,
}

impl Kept {
    /// What our agent itself has of a session, if it has that one still.
    pub async fn of_session(id: &str) -> Option<Self> {
        let path = Store::default_path().ok().filter(|path| path.exists())?;
        let store = tokio::task::spawn_blocking(move || Store::open_mended(&path)).await.ok()?.ok()?;
        let options: Value = store.session(&id.into()).await.ok()?.options?.parse().ok()?;
        let model = options["model"].as_str().map(str::to_owned);
        Some(Self { model, addresses: Addresses::stored(&options).0 })
    }
}

impl std::str::FromStr for Kept {
    type Err = serde_json::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        serde_json::from_str(text)
    }
}

/// Who answers in a session, and who could.
pub struct Choice {
    /// The model that the session was with; none if it is new.
    pub own: Option<Arc<dyn Model>>,
    /// All to choose from; the first is the one that is named now.
    pub models: Vec<Arc<dyn Model>>,
    /// Where they are.
    pub addresses: Addresses,
}

impl Addresses {
    /// Those that are stored with a session. Older versions kept one, for the provider of its model.
    fn stored(options: &Value) -> Self {
        let kept = |(name, url): (&String, &Value)| Some((name.clone(), url.as_str()?.to_owned()));
        let mut all: BTreeMap<_, _> = options["addresses"].as_object().into_iter().flatten().filter_map(kept).collect();
        if let (Some(id), Some(url)) = (options["model"].as_str(), options["base_url"].as_str()) {
            all.entry(provider_of(id).to_owned()).or_insert_with(|| url.to_owned());
        }
        Self(all)
    }

    /// What is stored of a session that is with this model.
    pub fn to_store(&self, model: &dyn Model) -> Value {
        json!({ "model": model.id(), "addresses": self.0 })
    }

    /// A model at the address that counts here.
    pub(crate) fn look_for(&self, id: &str, find: Option<&FindModel>) -> Result<Arc<dyn Model>, config::Error> {
        let nobody = || Err(config::Error::new("nobody here knows it."));
        let url = self.0.get(provider_of(id)).map(String::as_str);
        find.map_or_else(nobody, |find| find(id, url))
    }

    /// The same; one that can't be found says so when it is asked.
    fn find(&self, id: &str, find: Option<&FindModel>) -> Arc<dyn Model> {
        self.look_for(id, find).unwrap_or_else(|why| Arc::new(Gone::new(id, &why.to_string())))
    }
}

impl Choice {
    /// The models of a session with these stored options, among those that are known now. An address that is named now counts, then the
    /// one that was named earlier, then the provider's own. What the session has itself counts before what was handed over.
    pub fn of(known: &[Arc<dyn Model>], options: &Value, kept: &Kept, find: Option<&FindModel>) -> Self {
        let mut addresses = Addresses(kept.addresses.clone());
        addresses.0.extend(Addresses::stored(options).0);
        let named = known.iter().filter_map(|model| model.provider());
        let named = named.filter_map(|provider| Some((provider.name.clone(), provider.named_url()?)));
        addresses.0.extend(named);
        let elsewhere = |model: &dyn Model| {
            let provider = model.provider()?;
            (provider.named_url().is_none() && addresses.0.contains_key(&provider.name)).then_some(())
        };
        let placed = |model: &Arc<dyn Model>| match elsewhere(&**model) {
            Some(()) => addresses.find(model.id(), find),
            None => Arc::clone(model),
        };
        let mut models: Vec<_> = known.iter().map(placed).collect();
        let own = options["model"].as_str().or(kept.model.as_deref()).map(|id| {
            let there = models.iter().find(|model| model.id() == id).cloned();
            there.unwrap_or_else(|| {
                let model = addresses.find(id, find);
                models.push(Arc::clone(&model));
                model
            })
        });
        Self { own, models, addresses }
    }

    /// The one that answers first.
    pub fn answers(&self) -> Option<&Arc<dyn Model>> {
        self.own.as_ref().or(self.models.first())
    }
}

/// The part of a model's id that names its provider.
fn provider_of(id: &str) -> &str {
    id.split_once('/').map_or(id, |(provider, _)| provider)
}
