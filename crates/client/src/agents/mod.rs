//! Agents by name: the built-in one, those of the configuration, and well-known ones that are installed.

mod edit;
mod import;
mod known;
mod line;

pub use edit::{NewAgent, add, remove};
pub use import::{Imported, Source, import};
pub use known::{KNOWN, Known};
pub use line::{join_line, split_line};
pub use tieline::process::find_program;
pub use tieline_http::client::is_address;

use crate::config::{AgentEntry, Config, Error, Origin, Value, did_you_mean, resolve_all};
use crate::login::Launch;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use tieline::Protocol;
use tieline::process::Limits;
use tieline::rpc::framing::Framing;
use tieline::schema::Dialect;
use tieline_host::sandbox::Started;
use tieline_http::Remote;

/// The name of the agent inside this program.
pub const BUILT_IN: &str = "tieline";

/// Sent as `Authorization: Bearer …` to an agent that is named by its address alone.
pub const TOKEN_VARIABLE: &str = "TIELINE_AGENT_TOKEN";

/// What is needed to start an agent, or to reach one that runs elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AgentSpec {
    /// Its name; for a command line the name of the program.
    pub name: String,
    /// The program and its arguments, or an address as its only word.
    pub command: Vec<String>,
    /// Headers for every request to the address.
    pub headers: BTreeMap<String, Value>,
    /// Variables on top of ours.
    pub env: BTreeMap<String, Value>,
    /// Where it is started; elsewhere the session's folder counts.
    pub cwd: Option<PathBuf>,
    /// The version of the protocol to ask for, if someone said so.
    pub protocol: Option<Protocol>,
    /// How messages are framed.
    pub framing: Framing,
    /// What it may take, each time that it is started, with all that it starts.
    pub limits: Limits,
    /// So many of its sessions are live in a server.
    pub max_sessions: Option<u64>,
    /// Where its command comes from.
    pub origin: Origin,
}

impl AgentSpec {
    /// The agent inside this program, with more arguments for `tieline agent`.
    pub fn built_in(arguments: &[String]) -> Result<Self, Error> {
        let program = std::env::current_exe().map_err(|error| Error::new(format!("can't find myself: {error}")))?;
        let program = program.into_os_string().into_string();
        let program = program.map_err(|path| Error::new(format!("my own path is not text: {}", path.display())))?;
        let mut command = vec![program, "agent".to_owned()];
        command.extend_from_slice(arguments);
        let mut spec = Self { name: BUILT_IN.to_owned(), ..Self::plain(command, Origin::BuiltIn) };
        // It may be started in another folder, where a relative path would lead elsewhere.
        let named = std::env::var_os("TIELINE_CONFIG").filter(|path| !path.is_empty());
        if let Some(path) = named.and_then(|path| std::path::absolute(path).ok()?.into_os_string().into_string().ok()) {
            spec.env.insert("TIELINE_CONFIG".into(), Value::Plain(path));
        }
        Ok(spec)
    }

    /// An agent by its program and arguments.
    pub fn from_words(words: Vec<String>) -> Result<Self, Error> {
        match words.first() {
            Some(program) if !program.is_empty() => {
                // What is not there yet is nothing that it runs: such a word names what the agent is to make.
                let is_code = |(at, word): &(usize, &String)| *at == 0 || Path::new(word).exists();
                let command = words.iter().enumerate().filter(is_code).map(|(_, word)| word.clone()).collect();
                tieline_host::sandbox::starts(Started { command, ..Started::default() });
                Ok(Self::plain(words, Origin::Flag))
            }
            _ => Err(Error::new("no command was given; write it after `--`, such as: -- my-agent --acp")),
        }
    }

    fn plain(command: Vec<String>, origin: Origin) -> Self {
        let name = match Remote::new(&command[0]) {
            Ok(remote) => Some(remote.host()),
            Err(_) => Path::new(&command[0]).file_name().map(|name| name.to_string_lossy().into_owned()),
        };
        Self { name: name.unwrap_or_default(), command, origin, ..Self::default() }
    }

    fn of_entry(name: &str, entry: &AgentEntry) -> Self {
        let origin = entry.origin.clone().unwrap_or_default();
        Self {
            name: name.to_owned(),
            env: entry.env.clone(),
            cwd: entry.cwd.clone(),
            protocol: entry.protocol,
            framing: entry.framing.unwrap_or_default(),
            headers: entry.headers.clone(),
            limits: limits(entry.max_processes, entry.max_memory, entry.max_cpu),
            max_sessions: entry.max_sessions.filter(|most| *most > 0),
            ..Self::plain(entry.url.as_ref().map_or_else(|| entry.command.clone(), |url| vec![url.clone()]), origin)
        }
    }

    /// Its address, if it runs elsewhere.
    pub fn address(&self) -> Option<&str> {
        match &self.command[..] {
            [word] if is_address(word) => Some(word),
            _ => None,
        }
    }

    /// The way to an agent that runs elsewhere, with its secrets.
    pub async fn remote(&self, address: &str) -> Result<Remote, Error> {
        let wrong = |error: tieline_http::client::Error| Error::new(error.to_string());
        let mut remote = Remote::new(address).map_err(wrong)?;
        for (name, value) in resolve_all(&self.headers).await? {
            remote = remote.header(&name, &value).map_err(wrong)?;
        }
        let token = std::env::var(TOKEN_VARIABLE).ok().filter(|token| !token.is_empty());
        if let (Some(token), Origin::Flag) = (token, &self.origin) {
            remote = remote.header("Authorization", &format!("Bearer {token}")).map_err(wrong)?;
        }
        Ok(remote)
    }

    /// True for the agent inside this program.
    pub fn is_built_in(&self) -> bool {
        self.name == BUILT_IN && self.origin == Origin::BuiltIn
    }

    /// The version to ask for: what was said, otherwise 1 for the agents of others and the newest for ours.
    pub fn protocol_or_default(&self) -> Protocol {
        let usual = if self.is_built_in() { Protocol::Auto } else { Protocol::Only(Dialect::V1) };
        self.protocol.unwrap_or(usual)
    }

    /// How it is started, with its secrets; a login in a terminal starts the same.
    pub async fn launch(&self, folder: &Path) -> Result<Launch, Error> {
        let (program, args) = self.command.split_first().ok_or_else(|| Error::new("the agent has no command"))?;
        let env = resolve_all(&self.env).await?.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        let folder = Some(self.cwd.clone().unwrap_or_else(|| folder.to_owned()));
        Ok(Launch { env, folder, ..Launch::new(program, args) })
    }
}

/// Limits as people write them: processes, MiB, percent of one core; zero is none.
pub fn limits(processes: Option<u64>, memory: Option<u64>, cpu: Option<u64>) -> Limits {
    let some = |limit: Option<u64>| limit.filter(|limit| *limit > 0);
    let memory = some(memory).map(|memory| memory.saturating_mul(1 << 20));
    Limits { processes: some(processes), memory, cpu: some(cpu) }
}

/// Finds an agent by name: the configuration first, then the built-in one, then well-known ones that are installed.
pub fn resolve(config: &Config, name: &str) -> Result<AgentSpec, Error> {
    let name = name.strip_prefix('@').unwrap_or(name);
    if is_address(name) {
        return AgentSpec::from_words(vec![name.to_owned()]);
    }
    if let Some(entry) = config.agents.get(name) {
        return Ok(AgentSpec::of_entry(name, entry));
    }
    if name == BUILT_IN {
        return AgentSpec::built_in(&[]);
    }
    if let Some(known) = KNOWN.iter().find(|known| known.name == name) {
        if find_program(OsStr::new(known.command[0]), None).is_ok() {
            return Ok(known.spec());
        }
        return Err(Error::new(format!(
            "{} is not installed: there is no `{}` on PATH; type: {}",
            known.title, known.command[0], known.install
        )));
    }
    // One that a project brings counts only when it is trusted.
    let key = format!("agents.{name}.");
    if let Some(held) = config.held_back.iter().find(|held| held.key.starts_with(&key)) {
        return Err(Error::new(format!("the agent {name:?} can't be used yet: {held}")));
    }
    let names = config.agents.keys().map(String::as_str).chain([BUILT_IN]).chain(KNOWN.iter().map(|known| known.name));
    let hint = match did_you_mean(name, names) {
        hint if hint.is_empty() => "; `tieline agents list` shows those there are".to_owned(),
        hint => hint,
    };
    Err(Error::new(format!("there is no agent {name:?}{hint}")))
}
