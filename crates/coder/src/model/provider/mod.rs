//! Models of providers on the network: who they are, how they are reached, and the four formats they speak.
//!
//! A request is one JSON value made by the format's `request`; an answer is a stream of events read by its `Decoder`. All
//! that they share (keys, retries, time limits, errors) is in `stream.rs` and here.

mod anthropic;
mod content;
mod decode;
mod gemini;
mod keyring;
mod keys;
pub mod known;
mod list;
mod login;
mod openai_chat;
mod openai_responses;
mod order;
mod schema;
mod stream;
mod trouble;

pub use keyring::Keyring;
pub use keys::{KeyError, Keys, Secret};
pub use known::{Format, PRESETS, Preset, named};
pub use list::{Offered, local};
pub use login::Place;

use super::{Model, ModelError, Ready, Reply, Request};
use crate::http::http::{HeaderName, HeaderValue, Uri};
use crate::http::{Http, is_local};
use known::Known;
use login::KeyState;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tieline::schema::to_base64;
use tieline_host::config::{Config, Error, ProviderEntry, THOUGHT_LEVELS, did_you_mean};
use tieline_host::rules::hidden;
use tieline_host::text::cut;
use tieline_host::unlogged;

/// As much of a provider's words as is shown, in characters.
const MAX_MESSAGE_CHARACTERS: usize = 600;

/// How long we wait for a provider, and how often.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// How often a request is tried again.
    pub tries: u32,
    /// The pause before the first time; it doubles.
    pub pause: Duration,
    /// A pause is never longer. A provider that wants more is not asked again.
    pub longest: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { tries: 3, pause: Duration::from_secs(1), longest: Duration::from_mins(1) }
    }
}

/// Everything about one request.
pub(crate) struct Ask<'a> {
    provider: &'a Provider,
    model: &'a str,
    by: &'a str,
    request: &'a Request,
    /// How hard it should think.
    level: Option<&'a str>,
    /// The model can't see: pictures are told in words.
    blind: bool,
}

/// Somebody who has models.
#[derive(Clone)]
pub struct Provider {
    /// What users type before the slash.
    pub name: String,
    /// What it is called.
    pub title: String,
    format: Format,
    base_url: String,
    /// It was named for this run or this session, and is not from the configuration.
    named: bool,
    key_env: Option<String>,
    own: ProviderEntry,
    needs_key: bool,
    headers: Vec<(HeaderName, HeaderValue)>,
    /// The way to it.
    pub http: Http,
    /// How long we wait for it.
    pub patience: Patience,
    /// The file that remembers its key.
    pub keys: Keys,
    /// It is not the one whose model answers first, so its ways to log in have other names.
    pub(super) beside: bool,
    state: Arc<Mutex<KeyState>>,
}

impl Provider {
    /// A provider by its name, from the table or the configuration, perhaps at another address.
    pub fn resolve(name: &str, base_url: Option<&str>, config: &Config, http: Http) -> Result<Arc<Self>, Error> {
        let key = format!("providers.{name}");
        let own = config.providers.get(name).cloned().unwrap_or_default();
        let preset = named(name);
        if preset.is_none() && !config.providers.contains_key(name) {
            return Err(Error::new(unknown(name, config)));
        }
        let format = own.format.as_deref().and_then(Format::named);
        let format = format.or(preset.map(|preset| preset.format)).unwrap_or(Format::OpenaiChat);
        let named_now = base_url.is_some();
        let url = base_url.map(str::to_owned).or_else(|| own.base_url.clone());
        let elsewhere = url.is_some();
        let url = url.or_else(|| preset.map(|preset| preset.base_url.clone()));
        let url = url.ok_or_else(|| {
            config.mistake(&key, format!("the provider `{name}` has no address; write base_url = \"https://…\""))
        })?;
        let base_url = url.trim_end_matches('/').to_owned();
        let plain = base_url.parse::<Uri>().ok().filter(|uri| matches!(uri.scheme_str(), Some("http" | "https")));
        if plain.as_ref().is_none_or(|uri| uri.host().is_none()) {
            return Err(Error::new(format!("The address of {name} must look like https://host/path.")));
        }
        let key_env = own.key_env.clone().or_else(|| preset.and_then(|preset| preset.key_env.clone()));
        let key_env = key_env.filter(|env| !env.is_empty());
        let mut headers = Vec::new();
        for (header, value) in &own.headers {
            // A name that is none may be the secret itself.
            let wrong = || config.mistake(&format!("{key}.headers"), "a header is not as it should be");
            let header = HeaderName::try_from(header).map_err(|_| wrong())?;
            let mut value = HeaderValue::try_from(value).map_err(|_| wrong())?;
            value.set_sensitive(true);
            headers.push((header, value));
        }
        // Somebody else's server at another address may want no key, or one in a header; unless the configuration says where it is.
        let is_told = own.key_env.as_ref().is_some_and(|env| !env.is_empty()) || own.key_file.is_some();
        let needs_key = key_env.is_some() && headers.is_empty() && (is_told || !elsewhere);
        let patience = Patience { tries: config.network.tries(), ..Patience::default() };
        let here = plain.and_then(|uri| uri.host().map(is_local)).unwrap_or_default();
        // A small machine reads a long prompt for minutes before it says a word.
        let idle = config.network.idle_seconds.unwrap_or(if here || key_env.is_none() { 900 } else { 90 });
        let idle = idle.clamp(1, 86_400);
        let http = http.times(Duration::from_secs(idle.max(300)), Some(Duration::from_secs(idle)));
        Ok(Arc::new(Self {
            name: name.to_owned(),
            title: preset.map_or_else(|| name.to_owned(), |preset| preset.title.clone()),
            format,
            base_url,
            named: named_now,
            key_env,
            own,
            needs_key,
            headers,
            http,
            patience,
            keys: Keys::default(),
            beside: false,
            state: Arc::new(Mutex::new(KeyState::Unknown)),
        }))
    }

    /// One of its models.
    pub fn model(self: &Arc<Self>, name: &str) -> Remote {
        let mut known = known::known(name);
        known.context = self.own.context.unwrap_or(known.context);
        Remote {
            id: format!("{}/{name}", self.name),
            name: format!("{name} ({})", self.title),
            model: name.to_owned(),
            known,
            blind: Arc::default(),
            provider: Arc::clone(self),
        }
    }

    /// A model to start with: the first that the configuration names, or the one of the table.
    pub fn example(&self) -> Option<String> {
        let preset = || named(&self.name).map(|preset| preset.example.clone());
        self.own.models.first().cloned().or_else(preset)
    }

    /// The models that the configuration names for it.
    pub fn configured(&self) -> &[String] {
        &self.own.models
    }

    /// The host it is at.
    fn host(&self) -> String {
        self.base_url.parse::<Uri>().ok().and_then(|uri| uri.host().map(str::to_owned)).unwrap_or_default()
    }

    /// Its address in parts: the scheme, the user and password if there are any, and the rest.
    fn address(&self) -> (&str, Option<&str>, &str) {
        let (scheme, rest) = self.base_url.split_once("://").unwrap_or_default();
        let end = rest.find('/').unwrap_or(rest.len());
        match rest[..end].rfind('@') {
            Some(at) => (scheme, Some(&rest[..at]), &rest[at + 1..]),
            None => (scheme, None, rest),
        }
    }

    /// Its address without a password.
    pub fn shown_url(&self) -> String {
        let (scheme, _, rest) = self.address();
        format!("{scheme}://{rest}")
    }

    /// The address that was named for it, to be kept with a session; a password in it is nothing to keep.
    pub fn named_url(&self) -> Option<String> {
        self.named.then(|| self.shown_url())
    }

    /// Whether it is not where everybody finds it.
    pub fn is_elsewhere(&self) -> bool {
        self.named || named(&self.name).is_some_and(|preset| preset.base_url != self.base_url)
    }

    /// What a line to type ends with so that it leads to the same place.
    pub fn place_flag(&self) -> String {
        self.named_url().map_or_else(String::new, |url| format!(" --base-url {url}"))
    }

    /// Whether nothing that is secret could be read on the way, or the user does not mind.
    fn protected(&self) -> Result<(), ModelError> {
        let (scheme, login, _) = self.address();
        if !scheme.eq_ignore_ascii_case("http") || self.own.insecure || is_local(&self.host()) {
            return Ok(());
        }
        let secret = |name: &HeaderName| {
            let name = name.as_str();
            name == "cookie" || ["auth", "key", "token", "secret"].iter().any(|part| name.contains(part))
        };
        if login.is_none() && self.key().is_none() && !self.headers.iter().any(|(name, _)| secret(name)) {
            return Ok(());
        }
        Err(ModelError::Failed(format!(
            "The key would go over the network unprotected to {}. Use an https address, or set `insecure = true` in \
             [providers.{}] of your config.toml.",
            self.host(),
            self.name
        )))
    }

    /// Makes a text from outside fit to be shown: short, on one line, and without anything that is secret.
    pub(crate) fn clean(&self, text: &str) -> String {
        let text: String = text.chars().map(|c| if hidden(c) { ' ' } else { c }).collect();
        let key = self.key().map(|key| key.expose().to_owned());
        let headers = self.headers.iter().filter_map(|(_, value)| value.to_str().ok().map(str::to_owned));
        let (_, login, _) = self.address();
        let password = login.and_then(|login| login.split_once(':')).map(|(_, password)| password.to_owned());
        // As it goes out in a header.
        let encoded = login.map(|login| to_base64(&percent_encoding::percent_decode_str(login).collect::<Vec<u8>>()));
        let text = unlogged::without(&text, headers.chain(key).chain(encoded).chain(password));
        // Only now, so that no part of a secret is left at the end.
        cut(&text, MAX_MESSAGE_CHARACTERS)
    }
}

/// What to say of a provider that nobody knows.
pub(crate) fn unknown(name: &str, config: &Config) -> String {
    let names = || PRESETS.iter().map(|preset| preset.name.as_str()).chain(config.providers.keys().map(String::as_str));
    let hint = did_you_mean(name, names());
    let end = if hint.is_empty() { "." } else { "" };
    format!(
        "There is no provider `{name}`{hint}{end} There are: {}. Others go into [providers.NAME] of your config.toml.",
        names().collect::<Vec<_>>().join(", ")
    )
}

/// A model of a provider.
#[derive(Clone)]
pub struct Remote {
    id: String,
    name: String,
    model: String,
    known: Known,
    /// It said that it takes no pictures.
    blind: Arc<AtomicBool>,
    provider: Arc<Provider>,
}

impl Model for Remote {
    fn id(&self) -> &str {
        &self.id
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn context_size(&self) -> u64 {
        self.known.context
    }

    fn thought_levels(&self) -> &'static [&'static str] {
        THOUGHT_LEVELS
    }

    fn ready(&self) -> Ready<'_> {
        Box::pin(async {
            self.provider.ready().await?;
            self.provider.protected()
        })
    }

    fn provider(&self) -> Option<&Arc<Provider>> {
        Some(&self.provider)
    }

    fn reply(&self, request: Request) -> Reply {
        let this = self.clone();
        Reply::start(move |sender| stream::run(this, request, sender))
    }
}
