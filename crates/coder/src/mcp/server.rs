//! One server from its start to its end: connected, its tools listed and listed again. A process that dies is started
//! again once; a server on the network that goes away is tried again for a while, and then whenever a turn begins.

use super::desk::Desk;
use super::entry::{Entry, started};
use super::link::Link;
use super::tool::{Listing, MAX_PAGES, MAX_TOOLS, Remote};
use super::trouble::{Trouble, in_words, last_words, refused};
use super::{Limits, http, own, sse, stdio};
use crate::http::Http;
use crate::notice::Notices;
use crate::text::{clean, code, line};
use rmcp::model::PaginatedRequestParams;
use rmcp::service::RunningService;
use rmcp::transport::IntoTransport;
use rmcp::{Peer, RoleClient};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tieline::agent::SessionHandle;
use tieline::{McpServer, Severity};
use tieline_host::text::counted;
use tieline_host::unlogged;
use tieline_process::ChildProcess;
use tieline_rpc::sync::Lock;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout};

/// How long a server may take to list its tools again.
const LIST_TIMEOUT: Duration = Duration::from_secs(30);
/// So long is waited between two listings: a server may say all the time that its list has changed.
const LIST_PAUSE: Duration = Duration::from_millis(250);
/// So long is waited for the end of a process whose streams have ended.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);
/// How long the end of a connection may take before its process is ended.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// So many seconds are waited before each attempt to reach a server on the network that went away.
const REMOTE_RETRY_SECONDS: [u64; 9] = [0, 1, 2, 4, 8, 15, 30, 30, 30];
/// A process that dies is started once more, at once.
const CHILD_RETRY_SECONDS: [u64; 1] = [0];
/// A connection that held so long was a good one: after it all attempts are there again.
const STEADY_TIME: Duration = Duration::from_mins(1);

/// As much of a server's instructions as the model is told, in characters.
const MAX_INSTRUCTION_CHARACTERS: usize = 600;

/// How far a server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// It is being started.
    Starting,
    /// It works.
    Ready,
    /// It went away, this is why, and it is tried again.
    Lost(String),
    /// It can't be used, and this is why.
    Down(String),
}

/// What is around a server: the session and the ways out of it.
#[derive(Clone)]
pub struct Around {
    /// The folders of the session; the first is its working directory.
    pub roots: Arc<[PathBuf]>,
    /// The way to the user.
    pub session: SessionHandle,
    /// The way to the network.
    pub http: Http,
    /// How long things may take.
    pub limits: Limits,
    /// What the user has to know.
    pub notices: Arc<Notices>,
}

/// One server of a session.
pub struct Server {
    /// What it is.
    pub entry: Entry,
    /// What is around it.
    pub around: Around,
    phase: watch::Sender<Phase>,
    /// It should be tried again now.
    wake: Notify,
    state: Mutex<State>,
}

/// What a server said last.
#[derive(Default)]
pub struct State {
    connection: Option<(Peer<RoleClient>, Arc<Link>)>,
    /// Its tools.
    pub tools: Vec<Arc<Remote>>,
    /// Who it says it is.
    pub about: String,
    /// How it wants to be used, as it says.
    pub instructions: String,
    /// The user knows that so many tools are left out.
    told: usize,
}

struct Connection {
    running: RunningService<RoleClient, Desk>,
    link: Arc<Link>,
    child: Option<ChildProcess>,
}

impl Server {
    /// A server that is not started yet.
    pub fn new(entry: Entry, mut around: Around) -> Self {
        if let Some(limit) = entry.own.timeout {
            around.limits = Limits { start: limit, call: limit };
        }
        let phase = watch::Sender::new(Phase::Starting);
        Self { entry, around, phase, wake: Notify::new(), state: Mutex::default() }
    }

    /// What it said last.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.locked()
    }

    /// How far it is.
    pub fn phase(&self) -> Phase {
        self.phase.borrow().clone()
    }

    /// Waits until it works or is known not to.
    pub async fn settled(&self) {
        let _ = self.phase.subscribe().wait_for(|phase| *phase != Phase::Starting).await;
    }

    /// The way to it, or why there is none.
    pub fn connection(&self) -> Result<(Peer<RoleClient>, Arc<Link>), Trouble> {
        let name = code(&self.entry.name);
        match (self.phase(), &self.state().connection) {
            (Phase::Ready, Some((peer, link))) => Ok((peer.clone(), Arc::clone(link))),
            (Phase::Down(why), _) => Err(format!("The MCP server {name} can't be used: {why}").into()),
            (Phase::Lost(why), _) => {
                Err(format!("The MCP server {name} is gone: {why} It is being tried again.").into())
            }
            _ => Err(format!("The MCP server {name} is still starting. Try again a little later.").into()),
        }
    }

    /// Tries a server on the network again that is gone. True if there is something to wait for.
    pub fn poke(&self) -> bool {
        let gone = self.entry.is_remote()
            && self.phase.send_if_modified(|phase| {
                let gone = matches!(phase, Phase::Lost(_) | Phase::Down(_));
                if gone {
                    *phase = Phase::Starting;
                }
                gone
            });
        if gone {
            self.wake.notify_one();
        }
        gone
    }

    /// Starts it and sees to it until `closing` says that the session is over, or until it is of no use any more.
    pub async fn keep(self: Arc<Self>, mut closing: watch::Receiver<()>) {
        let remote = self.entry.is_remote();
        let waits = if remote { &REMOTE_RETRY_SECONDS[..] } else { &CHILD_RETRY_SECONDS };
        let mut left = waits.iter();
        // Whether it ever worked, whether the user knows that it is gone, and that it is given up.
        let (mut worked, mut missed, mut given_up) = (false, false, false);
        loop {
            let connected = tokio::select! {
                connected = self.connect() => connected,
                _ = closing.changed() => return,
            };
            let (what, trouble) = match connected {
                Ok(connection) => {
                    if missed && remote {
                        self.back(if worked { "is back" } else { "is there now" }).await;
                    }
                    if given_up {
                        left = waits.iter();
                    }
                    (worked, given_up) = (true, false);
                    let since = Instant::now();
                    let Some(trouble) = self.attend(connection, &mut closing).await else { return };
                    if remote && since.elapsed() >= STEADY_TIME {
                        left = waits.iter();
                    }
                    missed = false;
                    ("is gone", trouble)
                }
                Err(trouble) if worked && remote => ("is still gone", trouble),
                Err(trouble) => (if remote { "could not be reached" } else { "could not be started" }, trouble),
            };
            // What never worked is not waited for.
            let changed = worked && !given_up && self.may_be_another().await;
            let next = if worked && !given_up && !changed { left.next() } else { None };
            // While it is tried nothing is said: the user knows.
            let tell = !missed || (next.is_none() && !given_up);
            self.down(what, trouble, next.is_some(), changed, tell).await;
            (missed, given_up) = (true, next.is_none());
            if given_up && !remote {
                return;
            }
            tokio::select! {
                () = sleep(Duration::from_secs(next.copied().unwrap_or_default())), if next.is_some() => {}
                () = self.wake.notified() => {}
                _ = closing.changed() => return,
            }
        }
    }

    /// Whether what would be started now may be other code than at the begin of the session, because a command of the session can write
    /// where it comes from. Not all that a program loads can be known, so it need not have changed.
    async fn may_be_another(&self) -> bool {
        let McpServer::Stdio(server) = &self.entry.server else { return false };
        let (started, roots) = (started(server), Arc::clone(&self.around.roots));
        tokio::task::spawn_blocking(move || started.takes_code_from(&roots)).await.unwrap_or(true)
    }

    /// It can't be used now; the user is told if there is something new to tell.
    async fn down(&self, what: &str, trouble: Trouble, again: bool, changed: bool, tell: bool) {
        let secret = |text: &str| self.entry.without_secrets(text);
        let why = line(&secret(&trouble.why), 300);
        self.state().connection = None;
        if tell {
            let then = match (again, self.entry.is_remote()) {
                (true, true) => "It is being tried again.",
                (true, false) => "It is started again.",
                (false, _) if changed => {
                    "It takes code from this folder, where a command may have changed it, so it is not started again by itself: \
                     begin a new session if you want it."
                }
                (false, _) => "The session goes on without it.",
            };
            let dot = if why.ends_with('.') { "" } else { "." };
            let title = format!("MCP server {} {what}: {why}{dot} {then}", code(&self.entry.name));
            let said = trouble.said.filter(|said| !said.is_empty()).map(|said| secret(&said));
            self.around.notices.tell(Severity::Warning, title, said).await;
        }
        // Last of all, so that whoever waits for it finds the user told.
        self.phase.send_replace(match (again, self.entry.is_remote()) {
            (true, true) => Phase::Lost(why),
            (true, false) => Phase::Starting,
            (false, _) => Phase::Down(why),
        });
    }

    /// It is there again; the user is told.
    async fn back(&self, what: &str) {
        let count = counted(self.state().tools.len(), "tool");
        let title = format!("MCP server {} {what}, with {count}.", code(&self.entry.name));
        self.around.notices.tell(Severity::Info, title, None).await;
    }

    /// Connects and lists the tools.
    async fn connect(&self) -> Result<Connection, Trouble> {
        let link = Arc::new(Link::default());
        // The library logs what a server says, and it may say back what it was sent.
        unlogged::keep_out(self.entry.secrets());
        let Around { http, limits, .. } = &self.around;
        let limit = limits.start;
        let late = || format!("it did not answer within {} s", limit.as_secs());
        let running = match &self.entry.server {
            McpServer::Stdio(server) => {
                let cwd = self.around.roots.first().cloned().unwrap_or_default();
                let started = stdio::start(server, &cwd, &link).await;
                let (pipe, child) = started.map_err(|error| Trouble::from(error.to_string()))?;
                let why = match timeout(limit, self.hello(pipe, &link)).await {
                    Ok(Ok(running)) => return Ok(Connection { running, link, child: Some(child) }),
                    // If it has ended, that says more than that its streams did.
                    Ok(Err(trouble)) => ended(&child).await.unwrap_or(trouble.why),
                    Err(_) => late(),
                };
                return Err(Trouble { why, said: Some(last_words(&child)) });
            }
            McpServer::Sse(server) => {
                let connect = async { self.hello(sse::open(server, http, *limits, &link).await?, &link).await };
                timeout(limit, connect).await.map_err(|_| late())??
            }
            McpServer::Http(server) => {
                let transport = http::open(server, http, *limits, &link)?;
                timeout(limit, self.hello(transport, &link)).await.map_err(|_| late())??
            }
            McpServer::Other(_) => return Err("it is of an unknown kind".into()),
        };
        Ok(Connection { running, link, child: None })
    }

    /// The handshake, and the first list of tools.
    async fn hello<T, E, A>(&self, transport: T, link: &Arc<Link>) -> Result<RunningService<RoleClient, Desk>, Trouble>
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
        };
        let running = rmcp::serve_client(desk, transport).await.map_err(|error| in_words(&error))?;
        let peer = running.peer();
        let listing = self.list(peer).await?;
        let about = peer.peer_info().and_then(|info| info.server_info.clone()).map_or_else(String::new, |info| {
            line(&format!("{} {}", info.title.unwrap_or(info.name), info.version), 80)
        });
        let instructions = peer.peer_info().and_then(|info| info.instructions.clone()).unwrap_or_default();
        let instructions = clean(&instructions, MAX_INSTRUCTION_CHARACTERS);
        let known: Vec<String> =
            listing.tools.iter().map(|tool| tool.tool.clone()).chain(listing.unwanted.iter().cloned()).collect();
        let missed: Vec<String> = own::misses(&self.entry.own, &known).into_iter().map(code).collect();
        let connection = Some((peer.clone(), Arc::clone(link)));
        {
            let mut state = self.state();
            let told = state.told;
            *state = State { connection, tools: listing.tools, about, instructions, told };
        }
        self.phase.send_replace(Phase::Ready);
        self.leave_out(listing.left_out).await;
        if !missed.is_empty() && listing.left_out == 0 {
            let name = code(&self.entry.name);
            let title = format!("MCP server {name} has no tool that fits {} of your configuration.", missed.join(", "));
            self.around.notices.tell(Severity::Warning, title, None).await;
        }
        Ok(running)
    }

    /// The tools that it has now.
    async fn list(&self, peer: &Peer<RoleClient>) -> Result<Listing, Trouble> {
        let mut listing = Listing::default();
        if peer.peer_info().is_some_and(|info| info.capabilities.tools.is_none()) {
            return Ok(listing);
        }
        let mut page = PaginatedRequestParams::default();
        for _ in 0..MAX_PAGES {
            let found = peer.list_tools(Some(page.clone())).await.map_err(|error| refused(&error))?;
            found.tools.into_iter().for_each(|tool| listing.take(&self.entry, tool));
            page.cursor = found.next_cursor.filter(|_| listing.tools.len() < MAX_TOOLS);
            if page.cursor.is_none() {
                break;
            }
        }
        Ok(listing)
    }

    /// Says that tools are left out, but not again for every list: a server may change it all the time.
    async fn leave_out(&self, count: usize) {
        {
            let told = &mut self.state().told;
            if count == 0 || count < told.saturating_mul(2) {
                return;
            }
            *told = count;
        }
        let name = code(&self.entry.name);
        let title =
            format!("MCP server {name}: {count} tools are left out, because there are too many or they are too large.");
        self.around.notices.tell(Severity::Warning, title, None).await;
    }

    /// Lists the tools again whenever they change, but not too often.
    async fn follow(&self, peer: &Peer<RoleClient>, link: &Link) {
        loop {
            link.changed.notified().await;
            match timeout(LIST_TIMEOUT, self.list(peer)).await {
                Ok(Ok(listing)) => {
                    self.state().tools = listing.tools;
                    self.leave_out(listing.left_out).await;
                }
                Ok(Err(why)) => tracing::debug!(%why, "the tools could not be listed again"),
                Err(_) => tracing::debug!("the tools could not be listed again in time"),
            }
            sleep(LIST_PAUSE).await;
        }
    }

    /// Sees to a server that works. Gives the reason when it has ended; `None` when the session has.
    async fn attend(&self, connection: Connection, closing: &mut watch::Receiver<()>) -> Option<Trouble> {
        let Connection { running, link, child } = connection;
        let (peer, cancel) = (running.peer().clone(), running.cancellation_token());
        let mut running = pin!(running.waiting());
        let why = tokio::select! {
            biased;
            why = link.ended() => why,
            _ = &mut running => {
                link.end("the connection was closed");
                link.ended().await
            }
            _ = closing.changed() => {
                cancel.cancel();
                let _ = timeout(CLOSE_TIMEOUT, running).await;
                if let Some(child) = &child {
                    child.shutdown().await;
                }
                return None;
            }
            () = self.follow(&peer, &link) => return None,
        };
        let Some(child) = &child else { return Some(Trouble::from(why)) };
        // If it has ended, that says more than that its streams did.
        let why = match ended(child).await {
            Some(status) => status,
            None => {
                child.shutdown().await;
                if why == stdio::ENDED { "it closed its output".to_owned() } else { why }
            }
        };
        Some(Trouble { why, said: Some(last_words(child)) })
    }
}

/// How a process ended whose streams did, if it does soon.
async fn ended(child: &ChildProcess) -> Option<String> {
    timeout(EXIT_TIMEOUT, child.exit()).await.ok().map(|reason| format!("it {}", reason.status))
}
