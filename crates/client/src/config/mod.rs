//! The configuration: files, variables and flags laid over each other, where each value came from, and what is trusted.
//!
//! Later wins: built in < `~/.config/tieline/config.toml` < `.tieline/config.toml` < `.tieline/config.local.toml` <
//! `TIELINE_…` variables < flags. Lists of rules add up instead. Files of a project can hold back, but not add commands,
//! servers or allow-rules, until the user trusts them: see [`trust`](Sources::trust).

mod error;
mod file;
mod keys;
mod layers;
mod schema;
mod sources;
mod trust;
mod value;

pub(crate) use error::did_you_mean;
pub use error::{Error, nearest};
pub use schema::schema;
pub use sources::Sources;
pub(crate) use trust::write_whole;
pub use value::{Value, resolve_all};

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;
use tieline::Protocol;
use tieline::rpc::framing::Framing;
use tieline::schema::{EnvVariable, HttpHeader, McpHttp, McpServer, McpStdio};
use tieline_host::rules;
use tieline_host::store::Retention;

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Tieline itself.
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
            Self::File(path, line) => write!(f, "{}:{line}", tieline_host::roots::shown(path)),
            Self::Variable(name) => write!(f, "${name}"),
            Self::Flag => f.write_str("flag"),
        }
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
}

/// The configuration as it counts now.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// The agent that is used unless another is named.
    pub agent: Option<String>,
    /// How `exec` prints.
    pub format: Option<String>,
    /// The agents by name.
    pub agents: BTreeMap<String, AgentEntry>,
    /// What may happen.
    pub permissions: Permissions,
    /// The MCP servers by name.
    pub mcp: BTreeMap<String, McpEntry>,
    /// How long sessions are kept.
    pub retention: Retention,
    /// What was left out because the project is not trusted; for the user, who can't be told otherwise.
    pub held_back: Vec<HeldBack>,
    /// Every value with its origin, in the order of the keys.
    shown: Vec<(String, String, Origin)>,
}

/// An agent as the configuration has it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AgentEntry {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Variables on top of ours.
    pub env: BTreeMap<String, Value>,
    /// Where it is started.
    pub cwd: Option<PathBuf>,
    /// The version of the protocol to ask for.
    pub protocol: Option<Protocol>,
    /// How messages are framed.
    pub framing: Option<Framing>,
    /// Where its command comes from.
    pub origin: Option<Origin>,
}

/// What may happen.
#[derive(Debug, Clone, Default)]
pub struct Permissions {
    /// Where no rule says anything: `ask`, `allow-reads`, `allow-edits`, `allow-all` or `deny-all`.
    pub default: Option<String>,
    /// The rules.
    pub rules: rules::Config,
}

/// An MCP server as the configuration has it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
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
    pub sse: bool,
    /// Only these tools, if there are any. This and what follows is for the built-in agent.
    pub tools: Vec<String>,
    /// Not these tools.
    pub without: Vec<String>,
    /// How long it may take to start, to answer a call or to report progress.
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
            let env = env.into_iter().map(|(name, value)| EnvVariable { name, value, meta: None }).collect();
            let server = McpStdio { name, command: command.clone(), args: args.to_vec(), env, meta: None };
            return Ok(McpServer::Stdio(server));
        };
        let headers = resolve_all(&self.headers).await.map_err(named)?;
        let headers = headers.into_iter().map(|(name, value)| HttpHeader { name, value, meta: None }).collect();
        let server = McpHttp { name, url, headers, meta: None };
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

    /// Every value with its origin: key, value, origin. Secrets are not among the values.
    pub fn shown(&self) -> &[(String, String, Origin)] {
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
