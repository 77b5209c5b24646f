//! MCP: the servers of a session, their tools, and what the user is told about them.
//!
//! The client names the servers when it opens a session, and the configuration may name more. They start side by side,
//! in the background; their tools appear when they are ready. A server that does not start, dies or hangs costs a notice, never the session.

mod desk;
mod elicit;
mod entry;
mod http;
mod link;
mod name;
mod own;
mod pages;
mod remote;
mod result;
mod server;
mod sse;
mod stdio;
mod tool;
mod trouble;

pub use name::tool_name;

use crate::agent::Settings;
use crate::model::ToolSpec;
use crate::notice::Notices;
use crate::text::{code, line};
use crate::tools::{Prepared, ToolError};
use entry::Entry;
use futures_util::future::join_all;
use serde_json::Value;
use server::{Around, Phase, Server};
use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tieline::agent::SessionHandle;
use tieline::{McpServer, Severity};
use tieline_rpc::sync::Lock;
use tokio::sync::watch;
use tokio::time::Instant;
use tool::Remote;

/// So long after a session was opened its turns wait for servers that are still starting.
const START_TIMEOUT: Duration = Duration::from_secs(10);
/// So long a turn waits for servers that were gone and are tried again.
const RETRY_TIMEOUT: Duration = Duration::from_secs(2);
/// As many servers as a session can have.
const MAX_SERVERS: usize = 32;
/// As many of their tools as the model is told of, all together.
const MAX_TOOLS: usize = 110;
/// As many warnings about the configuration as are told.
const MAX_WARNINGS: usize = 5;
/// Of so many servers the model is told what they say about their use.
const MAX_INSTRUCTIONS: usize = 4;

/// How long servers may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// To start and to list the tools.
    pub start: Duration,
    /// To answer a call, or to report how far it is.
    pub call: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { start: Duration::from_secs(30), call: Duration::from_mins(5) }
    }
}

/// The servers of a session. They end when it is dropped.
pub struct Servers {
    all: Vec<Arc<Server>>,
    notices: Arc<Notices>,
    /// What the user was told last about tools that the model is not told of.
    told: Mutex<Vec<String>>,
    opened: Instant,
    _open: watch::Sender<()>,
}

impl Servers {
    /// Starts servers: those of the client, and those of the configuration whose names are still free. Does not wait
    /// for them.
    pub async fn start(
        servers: Vec<McpServer>,
        roots: Vec<PathBuf>,
        session: &SessionHandle,
        notices: Arc<Notices>,
        settings: &Settings,
    ) -> Self {
        let mut entries: Vec<Entry> = servers.into_iter().filter_map(Entry::of).collect();
        if settings.own_servers {
            let warnings = own::add(&mut entries, roots.first().cloned().unwrap_or_default()).await;
            for warning in warnings.into_iter().take(MAX_WARNINGS) {
                notices.tell(Severity::Warning, warning, None).await;
            }
        }
        for entry in &entries {
            if let McpServer::Stdio(server) = &entry.server {
                tieline_host::sandbox::starts(entry::started(server));
            }
        }
        let (open, closing) = watch::channel(());
        let around = Around {
            roots: roots.into(),
            session: session.clone(),
            http: settings.http.clone(),
            limits: settings.mcp,
            notices: Arc::clone(&notices),
        };
        let mut all: Vec<Arc<Server>> = Vec::new();
        for entry in entries {
            if all.len() == MAX_SERVERS || all.iter().any(|known| known.entry.name == entry.name) {
                let why = if all.len() == MAX_SERVERS { "there are too many" } else { "another one has its name" };
                let title = format!("MCP server {} is not used: {why}.", code(&entry.name));
                notices.tell(Severity::Warning, title, None).await;
                continue;
            }
            let server = Arc::new(Server::new(entry, around.clone()));
            tokio::spawn(Arc::clone(&server).keep(closing.clone()));
            all.push(server);
        }
        Self { all, notices, told: Mutex::default(), opened: Instant::now(), _open: open }
    }

    /// Waits for servers that are still starting, but only in the first seconds of a session; tries those again that are
    /// gone, and waits a moment for them.
    pub async fn settle(&self) {
        let settled = join_all(self.all.iter().map(|server| server.settled()));
        let _ = tokio::time::timeout_at(self.opened + START_TIMEOUT, settled).await;
        let gone = self.all.iter().filter(|server| server.poke()).map(|server| server.settled());
        let _ = tokio::time::timeout(RETRY_TIMEOUT, join_all(gone)).await;
    }

    /// The tools of all servers that work, as far as there is room and no two share a name; and what the user is told of what is left out.
    fn room(&self) -> (Vec<Arc<Remote>>, Vec<String>) {
        let (mut tools, mut names, mut left_out) = (Vec::new(), HashSet::new(), Vec::new());
        for server in self.all.iter().filter(|server| server.phase() == Phase::Ready) {
            let all = server.state().tools.clone();
            let (of, before) = (all.len(), tools.len());
            for tool in all {
                if tools.len() < MAX_TOOLS && names.insert(tool.name.clone()) {
                    tools.push(tool);
                }
            }
            let count = of - (tools.len() - before);
            if count > 0 {
                left_out.push(format!(
                    "MCP server {}: {count} of its {of} tools are left out, because a model is told of at most {MAX_TOOLS} \
                     tools of MCP servers.",
                    code(&server.entry.name)
                ));
            }
        }
        (tools, left_out)
    }

    /// The names of the tools that the model is told of.
    pub fn names(&self) -> Vec<String> {
        self.room().0.iter().map(|tool| tool.name.clone()).collect()
    }

    /// The tools of all servers that work, for the model. The user hears which are left out.
    pub async fn offer(&self) -> Vec<ToolSpec> {
        let (tools, left_out) = self.room();
        let told = std::mem::replace(&mut *self.told.locked(), left_out.clone());
        for title in left_out.into_iter().filter(|title| !told.contains(title)) {
            self.notices.tell(Severity::Warning, title, None).await;
        }
        let spec = |tool: Arc<Remote>| ToolSpec {
            name: tool.name.clone(),
            description: tool.description.clone(),
            parameters: tool.schema.clone(),
        };
        tools.into_iter().map(spec).collect()
    }

    /// What the servers that work say about their use, for the model.
    pub fn instructions(&self) -> String {
        let ready = self.all.iter().filter(|server| server.phase() == Phase::Ready);
        let said = ready.map(|server| (code(&server.entry.name), server.state().instructions.clone()));
        let mut all = String::new();
        for (name, text) in said.filter(|(_, text)| !text.is_empty()).take(MAX_INSTRUCTIONS) {
            let _ = write!(all, "\nThe MCP server {name} says about its tools:\n\n{text}\n");
        }
        all
    }

    /// A call of the tool that the model knows by this name, ready to run, or why it can't; otherwise of one of a server that is
    /// gone, whose calls then say so. `None` if there is no such tool.
    pub fn prepare(&self, name: &str, input: Value) -> Option<Result<Prepared, ToolError>> {
        let (ready, others): (Vec<_>, Vec<_>) = self.all.iter().partition(|server| server.phase() == Phase::Ready);
        let (server, tool) = ready
            .into_iter()
            .chain(others)
            .find_map(|server| Some((server, server.state().tools.iter().find(|tool| tool.name == name)?.clone())))?;
        Some(tool::prepare(server, &tool, input))
    }

    /// The servers, how far they are, and their tools, for people.
    pub fn describe(&self) -> String {
        if self.all.is_empty() {
            return "This session has no MCP servers. The client names them when it opens a session, or your config.toml does."
                .into();
        }
        let mut text = String::new();
        for server in &self.all {
            let state = match server.phase() {
                Phase::Starting => "is starting".to_owned(),
                Phase::Ready => format!("is ready: {}", server.state().about),
                Phase::Lost(why) => format!("is gone and is tried again: {why}"),
                Phase::Down(why) => format!("can't be used: {why}"),
            };
            let _ = writeln!(text, "- {} ({}) {state}", code(&server.entry.name), server.entry.kind());
            for tool in &server.state().tools {
                let about = line(&tool.description, 100);
                let about = if about.is_empty() { about } else { format!(": {about}") };
                let _ = writeln!(text, "  - {}{about}", code(&tool.tool));
            }
        }
        text.push_str("\nType `/mcp SERVER TOOL {json}` to call a tool.\n");
        text
    }
}
