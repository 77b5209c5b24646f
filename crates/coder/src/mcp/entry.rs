//! A server as the client or the configuration names it: how it is reached, and which of its words are secrets.

use std::fmt;
use std::path::Path;
use std::time::Duration;
use tieline::McpServer;
use tieline::schema::{HttpHeader, McpStdio};
use tieline_host::config::McpEntry;
use tieline_host::run::base_environment;
use tieline_host::sandbox::Started;
use tieline_host::unlogged;
use tieline_process::{Guard, ShutdownTimeouts, Spec};

/// How long a server is given to end by itself, and then to end when it is told to.
const ENDING: ShutdownTimeouts = ShutdownTimeouts { eof: Duration::from_secs(1), term: Duration::from_secs(1) };

/// A server that a session uses. Its values are never printed.
#[derive(Clone)]
pub struct Entry {
    /// What people, rules and tool names call it.
    pub name: String,
    /// How it is reached.
    pub server: McpServer,
    /// How it is used.
    pub own: McpEntry,
}

impl fmt::Debug for Entry {
    /// Without arguments, environment and headers, which may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").field("name", &self.name).field("kind", &self.kind()).finish_non_exhaustive()
    }
}

impl Entry {
    /// The entry of a session's setup; `None` for a kind that we don't know.
    pub fn of(server: McpServer) -> Option<Self> {
        let name = match &server {
            McpServer::Stdio(stdio) => stdio.name.clone(),
            McpServer::Http(http) | McpServer::Sse(http) => http.name.clone(),
            McpServer::Other(_) => return None,
        };
        Some(Self { name, server, own: McpEntry::default() })
    }

    /// Whether it is reached over the network.
    pub fn is_remote(&self) -> bool {
        !matches!(self.server, McpServer::Stdio(_))
    }

    /// What kind of connection it is, for people.
    pub fn kind(&self) -> &'static str {
        match self.server {
            McpServer::Stdio(_) => "stdio",
            McpServer::Sse(_) => "sse",
            McpServer::Http(_) | McpServer::Other(_) => "http",
        }
    }

    /// The values that belong to it alone.
    pub fn secrets(&self) -> Vec<&str> {
        let values: Vec<&str> = match &self.server {
            McpServer::Stdio(server) => server.env.iter().map(|one| one.value.as_str()).collect(),
            McpServer::Http(server) | McpServer::Sse(server) => server.headers.iter().flat_map(parts).collect(),
            McpServer::Other(_) => Vec::new(),
        };
        values.into_iter().filter(|value| value.len() >= unlogged::MIN_SECRET_BYTES).collect()
    }

    /// A text in which none of its secrets can be read: a server may print what it was given.
    pub fn without_secrets(&self, text: &str) -> String {
        unlogged::without(text, self.secrets()).into_owned()
    }
}

/// A header's value, and what follows a word such as `Bearer` in it.
fn parts(header: &HttpHeader) -> impl Iterator<Item = &str> {
    std::iter::once(header.value.as_str()).chain(header.value.split_once(' ').map(|(_, rest)| rest))
}

/// The same for the sandbox, which keeps commands from it.
pub fn started(server: &McpStdio) -> Started {
    let command = std::iter::once(&server.command).chain(&server.args).cloned().collect();
    let env = server.env.iter().map(|variable| (variable.name.clone(), variable.value.clone())).collect();
    Started { command, env, cwd: None }
}

/// What to start. The server gets the short list of our variables and its own, nothing else.
pub fn spec(server: &McpStdio, cwd: &Path) -> Spec {
    let mut spec = Spec::new(&server.command)
        .args(&server.args)
        .current_dir(cwd)
        .env_clear()
        .guard(Guard::IfPossible)
        .shutdown(ENDING);
    for (name, value) in base_environment() {
        spec = spec.env(name, value);
    }
    for variable in &server.env {
        spec = spec.env(&variable.name, &variable.value);
    }
    spec
}

#[cfg(test)]
mod tests {
    use super::*;
    use tieline::schema::{EnvVariable, McpHttp};

    #[test]
    fn secrets_are_hidden() {
        let variable =
            |value: &str| EnvVariable { name: "TOKEN".into(), value: value.into(), ..EnvVariable::default() };
        let stdio = McpStdio { name: "s".into(), env: vec![variable("s3cret"), variable("1")], ..McpStdio::default() };
        let entry = Entry::of(McpServer::Stdio(stdio)).unwrap();
        assert_eq!(entry.without_secrets("key s3cret in 1 line"), "key (hidden) in 1 line");
        assert!(!format!("{entry:?}").contains("s3cret"));
        let header =
            HttpHeader { name: "Authorization".into(), value: "Bearer abcdef".into(), ..HttpHeader::default() };
        let http = McpHttp { name: "h".into(), headers: vec![header], ..McpHttp::default() };
        let entry = Entry::of(McpServer::Http(http)).unwrap();
        assert_eq!(entry.without_secrets("Bearer abcdef, abcdef"), "(hidden), (hidden)");
    }
}
