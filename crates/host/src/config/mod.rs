//! The configuration: files, variables and flags laid over each other, where each value came from, and what is trusted.
//!
//! Later wins: built in < `~/.config/tieline/config.toml` < `.tieline/config.toml` < `.tieline/config.local.toml` <
//! `TIELINE_…` variables < flags. Lists of rules add up instead. Files of a project can hold back, but not add commands,
//! servers or allow-rules, until the user trusts them: see [`trust`](Sources::trust).

mod edit;
mod error;
mod file;
mod keys;
mod layers;
mod permissions;
mod schema;
mod sources;
mod trust;
mod value;

pub use error::{Error, did_you_mean, nearest};
pub use file::is_absent;
pub use keys::{MODEL_FORMATS, THOUGHT_LEVELS};
pub use schema::schema;
pub use sources::Sources;
pub use value::{Value, resolve_all};

use crate::rules;
use crate::sandbox::Started;
use crate::store::Retention;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tieline_rpc::framing::Framing;
use tieline_schema::{EnvVariable, HttpHeader, McpHttp, McpServer, McpStdio, Protocol};

const DAY: Duration = Duration::from_hours(24);

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Origin {
    /// Tieline itself.
    #[default]
    BuiltIn,
    /// A line of a file.
    File(PathBuf, usize),
    /// A variable.
    Variable(&'static str),
    /// A flag.
    Flag,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn => f.write_str("built in"),
            Self::File(path, line) => write!(f, "{}:{line}", crate::roots::shown(path)),
            Self::Variable(name) => write!(f, "${name}"),
            Self::Flag => f.write_str("flag"),
        }
    }
}

impl Serialize for Origin {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A value that counts, as it may be shown: what may be secret is `…`.
#[derive(Debug, Clone, Serialize)]
pub struct Shown {
    /// The key as it is written in a file.
    pub key: String,
    /// The value.
    pub value: serde_json::Value,
    /// Where it comes from.
    pub origin: Origin,
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}", self.key, layers::written(&self.value))
    }
}

/// What flags say. Each is a key of the configuration in words.
#[derive(Debug, Clone, Default)]
pub struct Flags {
    /// The agent's name.
    pub agent: Option<String>,
    /// The format.
    pub format: Option<String>,
    /// What happens where no rule says anything.
    pub default: Option<String>,
    /// The model of the built-in agent.
    pub model: Option<String>,
}

/// The configuration as it counts now. The names of its fields are those of the keys.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Config {
    /// The agent that is used unless another is named.
    pub agent: Option<String>,
    /// How `exec` prints.
    pub format: Option<String>,
    /// The agents by name.
    pub agents: BTreeMap<String, AgentEntry>,
    /// What may happen.
    pub permissions: rules::Settings,
    /// The MCP servers by name.
    pub mcp: BTreeMap<String, McpEntry>,
    /// Which models the built-in agent uses.
    pub models: Models,
    /// The model providers by name: others, or other settings for those that are known.
    pub providers: BTreeMap<String, ProviderEntry>,
    /// How models are reached.
    pub network: Network,
    sessions: Sessions,
    /// How long sessions are kept.
    #[serde(skip)]
    pub retention: Retention,
    /// What was left out because the project is not trusted; for the user, who can't be told otherwise.
    #[serde(skip)]
    pub held_back: Vec<HeldBack>,
    /// Every value with its origin, in the order of the keys.
    #[serde(skip)]
    shown: Vec<Shown>,
}

/// An agent as the configuration has it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub struct AgentEntry {
    /// The program and its arguments; empty if there is an address.
    pub command: Vec<String>,
    /// Its address.
    pub url: Option<String>,
    /// Headers for every request to it.
    pub headers: BTreeMap<String, Value>,
    /// Variables on top of ours.
    pub env: BTreeMap<String, Value>,
    /// Where it is started.
    pub cwd: Option<PathBuf>,
    /// The version of the protocol to ask for.
    #[serde(deserialize_with = "protocol")]
    pub protocol: Option<Protocol>,
    /// How messages are framed.
    #[serde(deserialize_with = "framing")]
    pub framing: Option<Framing>,
    /// So many of its sessions are live in a server.
    pub max_sessions: Option<u64>,
    /// So many processes it may have with all that it starts.
    pub max_processes: Option<u64>,
    /// So much memory, in MiB.
    pub max_memory: Option<u64>,
    /// So much CPU, in percent of one core.
    pub max_cpu: Option<u64>,
    /// Where its command comes from.
    #[serde(skip)]
    pub origin: Option<Origin>,
}

/// Which models the built-in agent uses.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Models {
    /// The one to start with: `PROVIDER/MODEL`, or `offline`.
    pub default: Option<String>,
    /// Others to choose from in a session.
    pub choices: Vec<String>,
    /// How hard they should think: one of [`THOUGHT_LEVELS`].
    pub thought_level: Option<String>,
}

/// A model provider as the configuration has it.
#[derive(Clone, Default, Deserialize)]
#[serde(default)]
pub struct ProviderEntry {
    /// What it speaks: one of [`MODEL_FORMATS`].
    pub format: Option<String>,
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

impl fmt::Debug for ProviderEntry {
    /// Addresses and headers may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderEntry")
            .field("format", &self.format)
            .field("models", &self.models)
            .finish_non_exhaustive()
    }
}

/// How models are reached.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Network {
    /// A PEM file with certificates to trust besides the well-known ones.
    pub ca_file: Option<PathBuf>,
    /// A model that is silent for so many seconds has failed.
    pub idle_seconds: Option<u64>,
    tries: Option<u64>,
}

impl Network {
    /// How often a request is tried again.
    pub fn tries(&self) -> u32 {
        u32::try_from(self.tries.unwrap_or(keys::TRIES)).unwrap_or(u32::MAX)
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(default)]
struct Sessions {
    keep_days: u64,
    keep_count: u64,
}

impl Default for Sessions {
    fn default() -> Self {
        Self { keep_days: keys::KEEP_DAYS, keep_count: keys::KEEP_COUNT }
    }
}

impl Sessions {
    fn retention(&self) -> Retention {
        Retention::default().days(self.keep_days).count(self.keep_count)
    }
}

/// An MCP server as the configuration has it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub struct McpEntry {
    /// The program and its arguments; empty if there is an address.
    pub command: Vec<String>,
    /// Variables for it.
    pub env: BTreeMap<String, Value>,
    /// Its address.
    pub url: Option<String>,
    /// Headers for every request.
    pub headers: BTreeMap<String, Value>,
    /// True for server-sent events.
    #[serde(rename = "transport", deserialize_with = "is_sse")]
    pub sse: bool,
    /// Only these tools, if there are any. This and what follows is for the built-in agent.
    pub tools: Vec<String>,
    /// Not these tools.
    pub without: Vec<String>,
    /// How long it may take to start, to answer a call or to report progress.
    #[serde(deserialize_with = "seconds")]
    pub timeout: Option<Duration>,
}

impl McpEntry {
    /// Whether it says how the server is reached. Otherwise it is about a server that somebody else names.
    pub fn is_whole(&self) -> bool {
        !self.command.is_empty() || self.url.is_some()
    }

    /// Whether it says how the server is used.
    fn is_used(&self) -> bool {
        !self.tools.is_empty() || !self.without.is_empty() || self.timeout.is_some()
    }

    /// The server as agents are told of it, with its secrets.
    pub async fn server(&self, name: &str) -> Result<McpServer, Error> {
        let named = |error: Error| Error::new(format!("the MCP server `{name}`: {error}"));
        let name = name.to_owned();
        let Some(url) = self.url.clone() else {
            let (command, args) = self.command.split_first().ok_or_else(|| named(Error::new("it has no command")))?;
            let env = resolve_all(&self.env).await.map_err(named)?;
            let env = env.into_iter().map(|(name, value)| EnvVariable { name, value, ..Default::default() }).collect();
            let server = McpStdio { name, command: command.clone(), args: args.to_vec(), env, ..Default::default() };
            return Ok(McpServer::Stdio(server));
        };
        let headers = resolve_all(&self.headers).await.map_err(named)?;
        let headers =
            headers.into_iter().map(|(name, value)| HttpHeader { name, value, ..Default::default() }).collect();
        let server = McpHttp { name, url, headers, ..Default::default() };
        Ok(if self.sse { McpServer::Sse(server) } else { McpServer::Http(server) })
    }
}

/// Something a project file says that does not count yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldBack {
    /// The key.
    pub key: String,
    /// Where it is.
    pub origin: Origin,
    /// True if the file was trusted before and has changed since.
    pub changed: bool,
}

impl fmt::Display for HeldBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = if self.changed { "changed since it was trusted" } else { "is not trusted" };
        write!(
            f,
            "{}: `{}` does not count, because the file {why}; read it, then type: tieline config trust",
            self.origin, self.key
        )
    }
}

impl Config {
    /// Loads the configuration that counts in a folder.
    pub fn load(sources: &Sources, flags: &Flags) -> Result<Self, Error> {
        layers::load(sources, flags)
    }

    /// The configuration that a single text makes; mistakes are blamed on `path`.
    pub fn parse(text: &str, path: &Path) -> Result<Self, Error> {
        layers::parse(text, path)
    }

    /// What it has us start: no command of an agent may change that.
    fn note_commands(&self) {
        let agents = self.agents.values().map(|agent| (&agent.command, &agent.env, &agent.headers, agent.cwd.clone()));
        let servers = self.mcp.values().map(|server| (&server.command, &server.env, &server.headers, None));
        for (command, env, headers, cwd) in agents.chain(servers) {
            for value in env.values().chain(headers.values()) {
                if let Value::Command(command) = value {
                    crate::sandbox::starts(Started {
                        command: command.clone(),
                        cwd: cwd.clone(),
                        ..Started::default()
                    });
                }
            }
            // Such as `PYTHONSTARTUP = "tools/start.py"`. What a program prints is a secret, and no name of a file.
            let value = |value: &Value| match value {
                Value::Command(_) => None,
                Value::Plain(text) => Some(text.clone()),
                Value::Env(name) => std::env::var(name).ok(),
            };
            let env = env.iter().filter_map(|(name, text)| Some((name.clone(), value(text)?))).collect();
            crate::sandbox::starts(Started { command: command.clone(), env, cwd });
        }
    }

    /// Where the value of a key comes from, if somebody said it.
    pub fn origin(&self, key: &str) -> Option<&Origin> {
        self.shown.iter().find(|one| one.key == key).map(|one| &one.origin)
    }

    /// A mistake at a key, or at the first of a table, with the place where somebody said it.
    pub fn mistake(&self, key: &str, why: impl Into<String>) -> Error {
        let is_at = |known: &str| known.strip_prefix(key).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        let said = |origin: &Origin| *origin != Origin::BuiltIn;
        let found = self.shown.iter().find(|one| is_at(&one.key) && said(&one.origin));
        match found.map(|one| &one.origin) {
            Some(Origin::File(path, line)) => Error::at(path, *line, why),
            Some(Origin::Variable(name)) => Error::new(format!("${name}: {}", why.into())),
            _ => Error::new(why),
        }
    }

    /// The same with another model, which stands in no file.
    #[must_use]
    pub fn with_model(mut self, model: &str) -> Self {
        self.models.default = Some(model.to_owned());
        let said = self.shown.iter_mut().filter(|one| one.key == "models.default");
        said.for_each(|one| one.origin = Origin::Flag);
        self
    }

    /// Every value with its origin, in the order of the keys.
    pub fn shown(&self) -> &[Shown] {
        &self.shown
    }

    /// The MCP servers as agents are told of them.
    pub async fn mcp_servers(&self) -> Result<Vec<McpServer>, Error> {
        let mut servers = Vec::with_capacity(self.mcp.len());
        for (name, entry) in self.mcp.iter().filter(|(_, entry)| entry.is_whole()) {
            servers.push(entry.server(name).await?);
        }
        Ok(servers)
    }
}

/// True for names that an agent can have.
pub fn is_agent_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.len() <= 64
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

fn protocol<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Protocol>, D::Error> {
    String::deserialize(from).map(|text| text.parse().ok())
}

fn framing<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Framing>, D::Error> {
    String::deserialize(from).map(|text| Some(if text == "lines" { Framing::Lines } else { Framing::Headers }))
}

fn is_sse<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    String::deserialize(from).map(|text| text == "sse")
}

fn seconds<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    u64::deserialize(from).map(|seconds| (seconds > 0).then(|| Duration::from_secs(seconds).min(DAY)))
}
