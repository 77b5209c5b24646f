//! One server from its start to its end: connected, its tools listed and listed again, started again once if it dies.

use super::desk::Desk;
use super::entry::{Entry, Way};
use super::link::Link;
use super::notices::Notices;
use super::text::{clean, code, line};
use super::tool::{Listing, Remote};
use super::{Limits, http, sse, stdio};
use crate::http::Http;
use rmcp::model::PaginatedRequestParams;
use rmcp::service::RunningService;
use rmcp::transport::IntoTransport;
use rmcp::{Peer, RoleClient, ServiceError};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tieline::Severity;
use tieline::agent::SessionHandle;
use tieline_rpc::ChildProcess;
use tokio::sync::watch;
use tokio::time::timeout;

/// How long a server may take to list its tools again.
const LIST: Duration = Duration::from_secs(30);
/// So long is waited between two listings: a server may say all the time that its list has changed.
const OFTEN: Duration = Duration::from_millis(250);
/// So long is waited for the end of a process whose streams have ended.
const EXIT: Duration = Duration::from_secs(1);
/// How long the end of a connection may take before its process is ended.
const CLOSE: Duration = Duration::from_secs(1);
/// As much of a process's last words as is shown, in lines and in characters.
const LAST_WORDS: (usize, usize) = (8, 1000);

/// As much of a server's instructions as the model is told, in characters.
const INSTRUCTIONS: usize = 600;

/// How far a server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// It is being started.
    Starting,
    /// It works.
    Ready,
    /// It can't be used, and this is why.
    Down(String),
}

/// What is around a server: the session and the ways out of it.
pub struct Around {
    /// The folders of the session; the first is its working directory.
    pub roots: Arc<[PathBuf]>,
    /// The way to the user.
    pub session: SessionHandle,
    /// The way to the network.
    pub http: Http,
    /// How long things may take.
    pub limits: Limits,
}

/// One server of a session.
pub struct Server {
    /// What it is.
    pub entry: Entry,
    /// What is around it.
    pub around: Around,
    notices: Arc<Notices>,
    phase: watch::Sender<Phase>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    connection: Option<(Peer<RoleClient>, Arc<Link>)>,
    tools: Vec<Arc<Remote>>,
    /// Who it says it is.
    about: String,
    /// How it wants to be used, as it says.
    instructions: String,
}

struct Connection {
    running: RunningService<RoleClient, Desk>,
    link: Arc<Link>,
    child: Option<ChildProcess>,
}

/// Why a server can't be used: one line, and what its process said last.
struct Trouble {
    why: String,
    said: Option<String>,
}

impl From<String> for Trouble {
    fn from(why: String) -> Self {
        Self { why, said: None }
    }
}

impl Server {
    /// A server that is not started yet.
    pub fn new(entry: Entry, around: Around, notices: Arc<Notices>) -> Self {
        let phase = watch::Sender::new(Phase::Starting);
        Self { entry, around, notices, phase, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How far it is.
    pub fn phase(&self) -> Phase {
        self.phase.borrow().clone()
    }

    /// Waits until it works or is known not to.
    pub async fn settled(&self) {
        let _ = self.phase.subscribe().wait_for(|phase| *phase != Phase::Starting).await;
    }

    /// Its tools, as it listed them last.
    pub fn tools(&self) -> Vec<Arc<Remote>> {
        self.state().tools.clone()
    }

    /// Who it says it is.
    pub fn about(&self) -> String {
        self.state().about.clone()
    }

    /// How it wants to be used, as it says.
    pub fn instructions(&self) -> String {
        self.state().instructions.clone()
    }

    /// The way to it, or why there is none.
    pub fn connection(&self) -> Result<(Peer<RoleClient>, Arc<Link>), String> {
        let name = code(&self.entry.name);
        match (self.phase(), &self.state().connection) {
            (Phase::Ready, Some((peer, link))) => Ok((peer.clone(), Arc::clone(link))),
            (Phase::Down(why), _) => Err(format!("The MCP server {name} can't be used: {why}")),
            _ => Err(format!("The MCP server {name} is still starting. Try again a little later.")),
        }
    }

    /// Starts it and sees to it until `closing` says that the session is over, or until it is of no use any more.
    pub async fn keep(self: Arc<Self>, mut closing: watch::Receiver<()>) {
        let mut again = true;
        loop {
            let connected = tokio::select! {
                connected = self.connect() => connected,
                _ = closing.changed() => return,
            };
            let connection = match connected {
                Ok(connection) => connection,
                Err(trouble) => return self.down("could not be started", trouble, false).await,
            };
            let Some(trouble) = self.attend(connection, &mut closing).await else { return };
            self.down("is gone", trouble, again).await;
            if !again {
                return;
            }
            again = false;
        }
    }

    /// It can't be used now; the user is told.
    async fn down(&self, what: &str, trouble: Trouble, again: bool) {
        let secret = |text: &str| self.entry.without_secrets(text);
        let why = line(&secret(&trouble.why), 300);
        self.state().connection = None;
        self.phase.send_replace(if again { Phase::Starting } else { Phase::Down(why.clone()) });
        let then = if again { "It is started again." } else { "The session goes on without it." };
        let title = format!("MCP server {} {what}: {why}. {then}", code(&self.entry.name));
        let said = trouble.said.filter(|said| !said.is_empty()).map(|said| secret(&said));
        self.notices.tell(Severity::Warning, title, said).await;
    }

    /// Connects and lists the tools.
    async fn connect(&self) -> Result<Connection, Trouble> {
        let link = Arc::new(Link::default());
        let Around { http, limits, .. } = &self.around;
        let limit = limits.start;
        let late = || format!("it did not answer within {} s", limit.as_secs());
        match &self.entry.way {
            Way::Stdio(server) => {
                let cwd = self.around.roots.first().cloned().unwrap_or_default();
                let (pipe, child) =
                    stdio::start(server, &cwd, &link).await.map_err(|error| Trouble::from(error.to_string()))?;
                match timeout(limit, self.hello(pipe, &link)).await {
                    Ok(Ok(running)) => Ok(Connection { running, link, child: Some(child) }),
                    Ok(Err(why)) => {
                        // If it has ended, that says more than that its streams did.
                        let why = match timeout(EXIT, child.exit()).await {
                            Ok(reason) => format!("it {}", reason.status),
                            Err(_) => why,
                        };
                        Err(Trouble { why, said: Some(last_words(&child)) })
                    }
                    Err(_) => Err(Trouble { why: late(), said: Some(last_words(&child)) }),
                }
            }
            Way::Http(server) => {
                let transport = http::open(server, http, *limits, &link)?;
                let running = timeout(limit, self.hello(transport, &link)).await.map_err(|_| late())??;
                Ok(Connection { running, link, child: None })
            }
            Way::Sse(server) => {
                let connect = async { self.hello(sse::open(server, http, *limits, &link).await?, &link).await };
                let running = timeout(limit, connect).await.map_err(|_| late())??;
                Ok(Connection { running, link, child: None })
            }
        }
    }

    /// The handshake, and the first list of tools.
    async fn hello<T, E, A>(&self, transport: T, link: &Arc<Link>) -> Result<RunningService<RoleClient, Desk>, String>
    where
        T: IntoTransport<RoleClient, E, A>,
        E: std::error::Error + Send + Sync + 'static,
    {
        let desk = Desk {
            name: self.entry.name.clone(),
            roots: Arc::clone(&self.around.roots),
            session: self.around.session.clone(),
            link: Arc::clone(link),
            asking: tokio::sync::Mutex::default(),
            pages: Mutex::default(),
        };
        let running = rmcp::serve_client(desk, transport).await.map_err(|error| in_words(&error))?;
        let peer = running.peer();
        let listing = self.list(peer).await?;
        let about = peer.peer_info().and_then(|info| info.server_info.clone()).map_or_else(String::new, |info| {
            line(&format!("{} {}", info.title.unwrap_or(info.name), info.version), 80)
        });
        let instructions = peer.peer_info().and_then(|info| info.instructions.clone()).unwrap_or_default();
        let instructions = clean(&instructions, INSTRUCTIONS);
        let connection = Some((peer.clone(), Arc::clone(link)));
        *self.state() = State { connection, tools: listing.tools, about, instructions };
        self.phase.send_replace(Phase::Ready);
        self.leave_out(listing.left_out).await;
        Ok(running)
    }

    /// The tools that it has now.
    async fn list(&self, peer: &Peer<RoleClient>) -> Result<Listing, String> {
        let mut listing = Listing::default();
        if peer.peer_info().is_some_and(|info| info.capabilities.tools.is_none()) {
            return Ok(listing);
        }
        let mut cursor = None;
        while listing.wants_more() {
            let mut page = PaginatedRequestParams::default();
            page.cursor = cursor.take();
            let page = peer.list_tools(Some(page)).await.map_err(|error| refused(&error))?;
            listing.take(&self.entry.name, page.tools);
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        Ok(listing)
    }

    async fn leave_out(&self, count: usize) {
        if count > 0 {
            let name = code(&self.entry.name);
            let title = format!(
                "MCP server {name}: {count} tools are left out, because there are too many or they are too large."
            );
            self.notices.tell(Severity::Warning, title, None).await;
        }
    }

    /// Sees to a server that works. Gives the reason when it has ended; `None` when the session has.
    async fn attend(&self, mut connection: Connection, closing: &mut watch::Receiver<()>) -> Option<Trouble> {
        let link = Arc::clone(&connection.link);
        loop {
            tokio::select! {
                () = link.changed.notified() => {
                    match timeout(LIST, self.list(connection.running.peer())).await {
                        Ok(Ok(listing)) => {
                            self.state().tools = listing.tools;
                            self.leave_out(listing.left_out).await;
                        }
                        Ok(Err(why)) => tracing::debug!(%why, "the tools could not be listed again"),
                        Err(_) => tracing::debug!("the tools could not be listed again in time"),
                    }
                    tokio::time::sleep(OFTEN).await;
                }
                () = link.ended() => break,
                _ = closing.changed() => {
                    let _ = connection.running.close_with_timeout(CLOSE).await;
                    if let Some(child) = &connection.child {
                        child.shutdown().await;
                    }
                    return None;
                }
            }
        }
        let Some(child) = &connection.child else { return Some(Trouble::from("the connection was closed".to_owned())) };
        let why = match timeout(EXIT, child.exit()).await {
            Ok(reason) => format!("it {}", reason.status),
            Err(_) => "it closed its output".to_owned(),
        };
        Some(Trouble { why, said: Some(last_words(child)) })
    }
}

/// The last lines of a process's standard error, safe to show.
fn last_words(child: &ChildProcess) -> String {
    let tail = child.stderr_tail();
    let (lines, characters) = LAST_WORDS;
    let mut last: Vec<String> =
        tail.lines().rev().map(|text| clean(text, 200)).filter(|text| !text.trim().is_empty()).take(lines).collect();
    last.reverse();
    clean(&last.join("\n"), characters)
}

/// Why a connection did not come about, without the messages that were exchanged.
fn in_words(error: &rmcp::service::ClientInitializeError) -> String {
    use rmcp::service::ClientInitializeError as Error;
    match error {
        Error::JsonRpcError(error) => format!("it refused the connection: {}", error.message),
        Error::ConnectionClosed(_) => "it closed the connection".to_owned(),
        Error::TransportError { error, .. } => deepest(error.error.as_ref()),
        Error::ExpectedInitResponse(_)
        | Error::ExpectedInitResult(_)
        | Error::ConflictInitResponseId(..)
        | Error::UncorrelatedErrorResponse { .. } => "its first answer is not that of an MCP server".to_owned(),
        _ => "it speaks no version of MCP that is known here".to_owned(),
    }
}

/// Why a request was not answered.
pub fn refused(error: &ServiceError) -> String {
    match error {
        ServiceError::McpError(error) => error.message.to_string(),
        ServiceError::TransportSend(error) => deepest(error.error.as_ref()),
        ServiceError::TransportClosed => "the connection was closed".to_owned(),
        ServiceError::UnexpectedResponse => "the answer does not fit the request".to_owned(),
        error => error.to_string(),
    }
}

/// The innermost cause: the outer ones repeat it, or name parts of ours.
fn deepest(error: &(dyn std::error::Error + 'static)) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}
