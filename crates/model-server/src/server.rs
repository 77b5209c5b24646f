//! The server: it listens, keeps its connections, and remembers what it was asked.

use crate::choose::Memory;
use crate::service;
use crate::talk::Format;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::Value;
use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tieline_script::Script;
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};

/// More requests than this are not kept; the oldest go first.
const KEPT: usize = 4096;
/// A client that does not finish its request line and headers in this time is let go.
const HEADER_PATIENCE: Duration = Duration::from_secs(30);
/// The pause after the system refused a connection, for example for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A request as it came.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    /// The wire format; [`Format::Other`] if it is no question to a model.
    pub format: Format,
    /// The path with its query.
    pub path: String,
    /// The headers in their order, names in small letters; keys included.
    pub headers: Vec<(String, String)>,
    /// The body; `null` if there is none or it is not JSON.
    pub body: Value,
}

impl Recorded {
    /// The value of a header, by its name in small letters.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// What the connections share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) script: Script,
    memory: Mutex<Memory>,
    requests: Mutex<VecDeque<Recorded>>,
    log: Option<Log>,
}

type LogFn = Box<dyn Fn(&Recorded) + Send + Sync>;

/// Called for each request.
struct Log(LogFn);

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Log")
    }
}

impl Shared {
    pub(crate) fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn record(&self, recorded: Recorded) {
        if let Some(Log(log)) = &self.log {
            log(&recorded);
        }
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        if requests.len() == KEPT {
            requests.pop_front();
        }
        requests.push_back(recorded);
    }
}

/// A running server. It ends, with all its connections, when this is dropped.
#[derive(Debug)]
pub struct ModelServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

impl ModelServer {
    /// Starts on a free port of 127.0.0.1.
    pub async fn start(script: Script) -> io::Result<Self> {
        Self::start_on(0, script).await
    }

    /// Starts on this port of 127.0.0.1; 0 is any free one.
    pub async fn start_on(port: u16, script: Script) -> io::Result<Self> {
        Self::listen(port, script, None).await
    }

    /// Starts on this port, and hands each request to `log` as it comes.
    pub async fn start_logged(
        port: u16,
        script: Script,
        log: impl Fn(&Recorded) + Send + Sync + 'static,
    ) -> io::Result<Self> {
        Self::listen(port, script, Some(Log(Box::new(log)))).await
    }

    async fn listen(port: u16, script: Script, log: Option<Log>) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared { script, memory: Mutex::default(), requests: Mutex::default(), log });
        let task = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Ok(Self { address, shared, task })
    }

    /// `http://127.0.0.1:PORT`, without a path. Base addresses with and without `/v1` work.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What was asked so far, in order.
    pub fn requests(&self) -> Vec<Recorded> {
        self.shared.requests.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    // Dropped with the task, and the connections with it.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    // Pieces of an answer go out one by one.
                    let _ = stream.set_nodelay(true);
                    let shared = Arc::clone(&shared);
                    connections.spawn(async move {
                        let service = service_fn(move |request| service::answer(Arc::clone(&shared), request));
                        let mut http = http1::Builder::new();
                        http.timer(TokioTimer::new()).header_read_timeout(HEADER_PATIENCE);
                        // A connection that breaks is the client's affair, or what the script wants.
                        let _ = http.serve_connection(TokioIo::new(stream), service).await;
                    });
                }
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}
