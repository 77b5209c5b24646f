//! MCP: the servers of a session, their tools, and what the user is told about them.
//!
//! The client names the servers when it opens a session. They start side by side, in the background; their tools appear
//! when they are ready. A server that does not start, dies or hangs costs a notice, never the session.

mod desk;
mod elicit;
mod entry;
mod http;
mod link;
mod name;
mod notices;
mod remote;
mod result;
mod server;
mod sse;
mod stdio;
mod text;
mod tool;

pub use name::tool_name;

use crate::agent::Settings;
use crate::model::ToolSpec;
use crate::tools::Prepared;
use entry::Entry;
use notices::Notices;
use serde_json::Value;
use server::{Around, Phase, Server};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use text::{code, line};
use tieline::agent::SessionHandle;
use tieline::{McpServer, Severity};
use tokio::sync::watch;
use tokio::time::Instant;
use tool::Remote;

/// So long after a session was opened its turns wait for servers that are still starting.
const PATIENCE: Duration = Duration::from_secs(10);
/// As many servers as a session can have.
const MOST_SERVERS: usize = 32;
/// As many of their tools as the model is told of, all together.
const MOST_TOOLS: usize = 110;

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
    opened: Instant,
    _open: watch::Sender<()>,
}

impl Servers {
    /// Starts servers; does not wait for them.
    pub async fn start(
        servers: Vec<McpServer>,
        roots: Vec<PathBuf>,
        session: &SessionHandle,
        settings: &Settings,
    ) -> Self {
        let notices = Arc::new(Notices::new(session.clone()));
        let roots: Arc<[PathBuf]> = roots.into();
        let (open, closing) = watch::channel(());
        let mut all: Vec<Arc<Server>> = Vec::new();
        for entry in servers.into_iter().filter_map(Entry::of) {
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
        Self { all, notices, opened: Instant::now(), _open: open }
    }

    /// Waits for servers that are still starting, but only in the first seconds of a session.
    pub async fn settle(&self) {
        let all = async {
            for server in &self.all {
                server.settled().await;
            }
        };
        let _ = tokio::time::timeout_at(self.opened + PATIENCE, all).await;
    }

    /// What the user was not told yet.
    pub fn news(&self) -> Option<String> {
        self.notices.take()
    }

    /// The tools of all servers that work, for the model.
    pub fn specs(&self) -> Vec<ToolSpec> {
        let ready = self.all.iter().filter(|server| server.phase() == Phase::Ready);
        let spec = |tool: Arc<Remote>| ToolSpec {
            name: tool.name.clone(),
            description: tool.description.clone(),
            parameters: tool.schema.clone(),
        };
        ready.flat_map(|server| server.tools()).take(MOST_TOOLS).map(spec).collect()
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

    /// The tool that the model knows by this name; also one of a server that is gone, whose calls then say so.
    pub fn find(&self, name: &str) -> Option<Found> {
        self.all.iter().find_map(|server| {
            let tool = server.tools().into_iter().find(|tool| tool.name == name)?;
            Some(Found { server: Arc::clone(server), tool })
        })
    }

    /// The servers, how far they are, and their tools, for people.
    pub fn describe(&self) -> String {
        if self.all.is_empty() {
            return "This session has no MCP servers. The client names them when it opens a session.".into();
        }
        let mut text = String::new();
        for server in &self.all {
            let state = match server.phase() {
                Phase::Starting => "is starting".to_owned(),
                Phase::Ready => format!("is ready: {}", server.about()),
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
