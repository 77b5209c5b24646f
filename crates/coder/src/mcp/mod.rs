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
mod text;
mod tool;
mod trouble;

pub use name::tool_name;
pub use own::{Configure, Configured, Own, Usage};

use crate::agent::Settings;
use crate::model::ToolSpec;
use crate::notice::Notices;
use crate::tools::Prepared;
use entry::Entry;
use serde_json::Value;
use server::{Around, Phase, Server};
use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use text::{code, line};
use tieline::agent::SessionHandle;
use tieline::{McpServer, Severity};
use tieline_rpc::sync::Lock;
use tokio::sync::watch;
use tokio::time::Instant;
use tool::Remote;

/// So long after a session was opened its turns wait for servers that are still starting.
const PATIENCE: Duration = Duration::from_secs(10);
/// So long a turn waits for servers that were gone and are tried again.
const MOMENT: Duration = Duration::from_secs(2);
/// As many servers as a session can have.
const MOST_SERVERS: usize = 32;
/// As many of their tools as the model is told of, all together.
const MOST_TOOLS: usize = 110;

/// As many warnings about the configuration as are told.
const MOST_WARNINGS: usize = 5;
/// Of so many servers the model is told what they say about their use.
const MOST_INSTRUCTIONS: usize = 4;

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

/// A tool and its server.
pub struct Found {
    server: Arc<Server>,
    tool: Arc<Remote>,
}

impl Found {
    /// A call that is ready to run, or why it can't.
    pub fn prepare(&self, input: Value) -> Result<Prepared, String> {
        tool::prepare(&self.server, &self.tool, input)
    }
}

/// The servers of a session. They end when it is dropped.
pub struct Servers {
    all: Vec<Arc<Server>>,
    notices: Arc<Notices>,
    /// What the user was told last about tools that the model is not told of.
    told: Mutex<Vec<LeftOut>>,
    opened: Instant,
    _open: watch::Sender<()>,
}

/// A server with tools that the model is not told of.
#[derive(Clone, PartialEq, Eq)]
struct LeftOut {
    server: String,
    count: usize,
    of: usize,
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
        if let Some(configure) = &settings.servers {
            let named = entries.iter().map(|entry| entry.name.clone()).collect();
            let Configured { servers, warnings } = configure(roots.first().cloned().unwrap_or_default(), named).await;
            for warning in warnings.into_iter().take(MOST_WARNINGS) {
                notices.tell(Severity::Warning, warning, None).await;
            }
            for Own { name, server, usage } in servers {
                if !entries.iter().any(|entry| entry.name == name) {
                    entries.extend(server.and_then(Entry::of));
                }
                entries.iter_mut().filter(|entry| entry.name == name).for_each(|entry| entry.usage.clone_from(&usage));
            }
        }
        let roots: Arc<[PathBuf]> = roots.into();
        let (open, closing) = watch::channel(());
        let mut all: Vec<Arc<Server>> = Vec::new();
        for entry in entries {
            if all.len() == MOST_SERVERS || all.iter().any(|known| known.entry.name == entry.name) {
                let why = if all.len() == MOST_SERVERS { "there are too many" } else { "another one has its name" };
                let title = format!("MCP server {} is not used: {why}.", code(&entry.name));
                notices.tell(Severity::Warning, title, None).await;
                continue;
            }
            let (http, limits) = (settings.http.clone(), settings.mcp);
            let around = Around { roots: Arc::clone(&roots), session: session.clone(), http, limits };
            let server = Arc::new(Server::new(entry, around, Arc::clone(&notices)));
            tokio::spawn(Arc::clone(&server).keep(closing.clone()));
            all.push(server);
        }
        Self { all, notices, told: Mutex::default(), opened: Instant::now(), _open: open }
    }

    /// Waits for servers that are still starting, but only in the first seconds of a session; tries those again that are
    /// gone, and waits a moment for them.
    pub async fn settle(&self) {
        let all = async {
            for server in &self.all {
                server.settled().await;
            }
        };
        let _ = tokio::time::timeout_at(self.opened + PATIENCE, all).await;
        let gone: Vec<&Arc<Server>> = self.all.iter().filter(|server| server.poke()).collect();
        let all = async {
            for server in gone {
                server.settled().await;
            }
        };
        let _ = tokio::time::timeout(MOMENT, all).await;
    }

    /// The tools of all servers that work, as far as there is room and no two share a name; and what is left out.
    fn room(&self) -> (Vec<Arc<Remote>>, Vec<LeftOut>) {
        let (mut tools, mut names, mut left_out) = (Vec::new(), HashSet::new(), Vec::new());
        for server in self.all.iter().filter(|server| server.phase() == Phase::Ready) {
            let (all, before) = (server.tools(), tools.len());
            let of = all.len();
            for tool in all {
                if tools.len() < MOST_TOOLS && names.insert(tool.name.clone()) {
                    tools.push(tool);
                }
            }
            let count = of - (tools.len() - before);
            if count > 0 {
                left_out.push(LeftOut { server: server.entry.name.clone(), count, of });
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
        let told = {
            let mut told = self.told.locked();
            std::mem::replace(&mut *told, left_out.clone())
        };
        for LeftOut { server, count, of } in left_out.iter().filter(|one| !told.contains(one)) {
            let title = format!(
                "MCP server {}: {count} of its {of} tools are left out, because a model is told of at most {MOST_TOOLS} \
                 tools of MCP servers.",
                code(server)
            );
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
        let said = ready.map(|server| (code(&server.entry.name), server.instructions()));
        let mut all = String::new();
        for (name, text) in said.filter(|(_, text)| !text.is_empty()).take(MOST_INSTRUCTIONS) {
            let _ = write!(all, "\nThe MCP server {name} says about its tools:\n\n{text}\n");
        }
        all
    }

    /// The tool that the model knows by this name; otherwise one of a server that is gone, whose calls then say so.
    pub fn find(&self, name: &str) -> Option<Found> {
        let (ready, others): (Vec<_>, Vec<_>) = self.all.iter().partition(|server| server.phase() == Phase::Ready);
        ready.into_iter().chain(others).find_map(|server| {
            let tool = server.tools().into_iter().find(|tool| tool.name == name)?;
            Some(Found { server: Arc::clone(server), tool })
        })
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
                Phase::Ready => format!("is ready: {}", server.about()),
                Phase::Lost(why) => format!("is gone and is tried again: {why}"),
                Phase::Down(why) => format!("can't be used: {why}"),
            };
            let _ = writeln!(text, "- {} ({}) {state}", code(&server.entry.name), server.entry.kind());
            for tool in server.tools() {
                let _ = writeln!(text, "  - {}: {}", code(&tool.tool), line(&tool.description, 100));
            }
        }
        text.push_str("\nType `/mcp SERVER TOOL {json}` to call a tool.\n");
        text
    }
}
