//! Serving an agent: over any transport, or over standard input and output with everything a process needs to end well.

use super::Agent;
use super::dispatcher::Dispatcher;
use super::erased::AnyAgent;
use crate::error::{Error, Result};
use crate::work::Work;
use std::sync::Arc;
use std::time::Duration;
use tieline_rpc::{Connection, Direction, End, Limits, Peer, Tap, Transport};
use tieline_schema::Protocol;
use tokio::time::timeout;

/// Serves `agent` to one client until the client goes away.
pub async fn serve(agent: impl Agent, transport: Transport) -> Result<()> {
    Server::new(agent).serve(transport).await
}

/// Serves `agent` over standard input and output: the framing is the client's choice, and the end of input, SIGTERM and
/// SIGINT all lead to an orderly end.
#[cfg(feature = "stdio")]
pub async fn serve_stdio(agent: impl Agent) -> Result<()> {
    Server::new(agent).serve_stdio().await
}

/// An agent with settings, ready to be served.
#[derive(Debug)]
#[must_use]
pub struct Server<A> {
    agent: A,
    settings: Settings,
}

#[derive(Clone)]
pub(crate) struct Settings {
    pub(super) protocol: Protocol,
    pub(super) limits: Limits,
    pub(super) cancel_grace: Duration,
    drain: Duration,
    close_grace: Duration,
    pub(super) deadline: Duration,
    pub(super) waiting_prompts: usize,
    pub(super) sessions_per_page: usize,
    /// It stands for another agent: what it does not know is an extension, and what is withdrawn is dropped.
    pub(super) relays: bool,
    tap: Option<Tap>,
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings")
            .field("protocol", &self.protocol)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            protocol: Protocol::Auto,
            limits: Limits::default(),
            cancel_grace: Duration::from_secs(1),
            drain: Duration::from_secs(2),
            close_grace: Duration::from_millis(500),
            deadline: Duration::from_secs(30),
            waiting_prompts: 64,
            sessions_per_page: 100,
            relays: false,
            tap: None,
        }
    }
}

impl<A: Agent> Server<A> {
    /// The usual settings.
    pub fn new(agent: A) -> Self {
        Self { agent, settings: Settings::default() }
    }

    setters! {
        /// Speaks only this protocol instead of whatever the client speaks.
        protocol(protocol: Protocol) => settings.protocol = protocol;
        /// Limits of the connection.
        limits(limits: Limits) => settings.limits = limits;
        /// A handler that has not returned this long after a cancel is dropped; 1 second by default.
        cancel_grace(grace: Duration) => settings.cancel_grace = grace;
        /// Running turns may go on this long after the end of input; 2 seconds by default.
        drain(drain: Duration) => settings.drain = drain;
        /// At the end, sessions get this long to close, and what is left to be written half of it; half a second by default.
        close_grace(grace: Duration) => settings.close_grace = grace;
        /// How long the client may take for a file or a terminal, and a handler for a notification; 30 seconds by default.
        deadline(limit: Duration) => settings.deadline = limit;
        /// So many prompts of a session may wait for their turn (current v2), 64 by default; more are refused.
        waiting_prompts(most: usize) => settings.waiting_prompts = most;
        /// So many sessions are on one page of a list that the engine makes; 100 by default.
        sessions_per_page(most: usize) => settings.sessions_per_page = most.max(1);
        /// Lets `tap` see every message in both directions, over whatever it is served. It must be quick, and must not use the
        /// connection itself.
        tap(tap: impl Fn(Direction, &[u8]) + Send + Sync + 'static) => settings.tap = Some(Arc::new(tap));
    }

    /// Serves over any transport.
    pub async fn serve(self, transport: Transport) -> Result<()> {
        self.serve_until(transport, std::future::pending()).await
    }

    /// Serves over standard input and output. See [`serve_stdio`].
    #[cfg(feature = "stdio")]
    pub async fn serve_stdio(self) -> Result<()> {
        self.serve_until(Transport::stdio().detect_framing(), signal()).await
    }

    /// Serves until the client goes away or `stop` is done; then in good order.
    pub async fn serve_until(
        self,
        transport: Transport,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> Result<()> {
        self.settings.serve(Box::new(self.agent), transport, Box::pin(stop)).await
    }

    /// It stands for another agent.
    pub(crate) fn relaying(mut self) -> Self {
        self.settings.relays = true;
        self
    }
}

impl Settings {
    fn serve(
        self,
        agent: Box<dyn AnyAgent>,
        transport: Transport,
        stop: Work<'static, ()>,
    ) -> Work<'static, Result<()>> {
        Box::pin(self.run(agent, transport, stop))
    }

    async fn run(self, agent: Box<dyn AnyAgent>, transport: Transport, stop: Work<'static, ()>) -> Result<()> {
        let transport = match self.tap.clone() {
            Some(tap) => transport.tap(move |direction, frame| tap(direction, frame)),
            None => transport,
        };
        let (peer, connection) = Connection::open(transport, self.limits.clone());
        let dispatcher = Arc::new(Dispatcher::new(agent, peer.clone(), &self));
        // Also if this future is dropped, no turn goes on working for nobody.
        let _cancel = CancelOnDrop(&dispatcher);
        let run = connection.run(Arc::clone(&dispatcher));
        tokio::pin!(run);
        let end = tokio::select! {
            end = &mut run => Some(end),
            () = peer.write_ended() => None,
            () = stop => {
                peer.stop_reading();
                Some(run.await)
            }
        };
        let drain = match end {
            None => Duration::ZERO,
            Some(End::Stopped) => self.drain / 4,
            Some(_) => self.drain,
        };
        finish(&peer, &dispatcher, drain, &self).await;
        match end {
            Some(End::Eof | End::Stopped) => Ok(()),
            Some(End::Failed(error)) => Err(Error::Closed(format!("reading from the client failed: {error}"))),
            Some(End::Broken(why)) => Err(Error::Closed(format!("the client's messages can't be followed: {why}"))),
            None => Err(Error::Closed("the client stopped listening".into())),
        }
    }
}

struct CancelOnDrop<'d>(&'d Dispatcher);

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        self.0.cancel_all();
    }
}

/// Requests that were read get their answers; turns get some time, then they are cancelled; everything is written out.
async fn finish(peer: &Peer, dispatcher: &Dispatcher, drain: Duration, settings: &Settings) {
    let written = settings.close_grace / 2;
    let quiet = || async {
        peer.idle().await;
        dispatcher.idle().await;
    };
    if timeout(drain, quiet()).await.is_err() {
        dispatcher.cancel_all();
        peer.withdraw_all();
        let heard = async {
            tokio::select! {
                () = quiet() => {}
                // A client that does not read won't hear how it ends.
                () = peer.stalled(settings.close_grace) => {}
            }
        };
        let _ = timeout(settings.cancel_grace + written, heard).await;
    }
    let _ = timeout(settings.close_grace, dispatcher.close_all()).await;
    let _ = timeout(written, peer.close()).await;
}

/// Waits until this process is asked to end.
#[cfg(all(unix, feature = "signal", feature = "stdio"))]
pub(crate) async fn signal() {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut term), Ok(mut interrupt)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = term.recv() => {}
        _ = interrupt.recv() => {}
    }
}

#[cfg(all(not(unix), feature = "signal", feature = "stdio"))]
pub(crate) async fn signal() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}

#[cfg(all(not(feature = "signal"), feature = "stdio"))]
pub(crate) async fn signal() {
    std::future::pending::<()>().await;
}
