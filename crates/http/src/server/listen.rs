//! Sockets: TCP with or without TLS, Unix; HTTP/1.1 and HTTP/2 on each of them, a limit for their number and for those that dawdle.

use super::request::answer;
use super::shares::Caller;
use super::who::Place;
use super::{Limits, Server};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, crypto};

/// A listener that fails (no more files, say) is tried again after this.
const AGAIN: Duration = Duration::from_millis(100);
/// Requests at once on one HTTP/2 socket: each stream of events is one.
const MAX_H2_STREAMS: u32 = 256;
/// The head of a request, in bytes.
const MAX_HEAD_BYTES: usize = 64 << 10;

/// A certificate with its key.
#[derive(Clone)]
pub struct Secure(TlsAcceptor);

impl std::fmt::Debug for Secure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secure").finish_non_exhaustive()
    }
}

impl Secure {
    /// Reads a chain of certificates and the key of its first, both in PEM form.
    pub fn from_files(certificates: &Path, key: &Path) -> io::Result<Self> {
        let wrong = |path: &Path, why: &dyn std::fmt::Display| io::Error::other(format!("{}: {why}", path.display()));
        let chain = std::fs::read(certificates).map_err(|error| wrong(certificates, &error))?;
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&chain).collect();
        let chain = chain.map_err(|error| wrong(certificates, &error))?;
        let secret = std::fs::read(key).map_err(|error| wrong(key, &error))?;
        let secret = PrivateKeyDer::from_pem_slice(&secret).map_err(|error| wrong(key, &error))?;
        let mut config = ServerConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_no_client_auth()
            .with_single_cert(chain, secret)
            .map_err(|error| wrong(certificates, &error))?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self(TlsAcceptor::from(Arc::new(config))))
    }
}

/// Where clients come in.
#[derive(Debug)]
#[non_exhaustive]
pub enum Listener {
    /// Over TCP.
    Tcp(TcpListener),
    /// Over TCP with TLS.
    Tls(TcpListener, Secure),
    /// Over a socket of the file system, whose mode decides who may.
    #[cfg(unix)]
    Unix(tokio::net::UnixListener),
}

/// Takes sockets until the server stops.
pub(super) async fn run(server: &Server, listener: Listener) {
    let sockets = Arc::new(Semaphore::new(server.limits().sockets));
    let mut stop = server.0.stop.subscribe();
    loop {
        let Ok(place) = Arc::clone(&sockets).acquire_owned().await else { return };
        let accepted = tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            accepted = accept(&listener) => accepted,
        };
        let (socket, bound) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "no socket could be taken");
                sleep(AGAIN).await;
                continue;
            }
        };
        let (server, held) = (server.clone(), server.0.sockets.subscribe());
        tokio::spawn(async move {
            let caller = server.0.strangers.come(server.limits().strangers);
            tokio::select! {
                () = answer_on(&server, socket, bound, &caller) => {}
                () = caller.over.cancelled() => tracing::debug!("a socket on which nobody was let in made room for others"),
            }
            server.0.strangers.leave(&caller);
            drop((place, held));
        });
    }
}

async fn answer_on(server: &Server, socket: Socket, bound: Option<std::net::IpAddr>, caller: &Arc<Caller>) {
    match socket {
        Socket::Tls(tcp, secure) => match timeout(server.limits().head_time, secure.0.accept(tcp)).await {
            Ok(Ok(stream)) => serve(server, stream, Place { bound, secure: true }, caller).await,
            Ok(Err(error)) => tracing::debug!(%error, "no TLS"),
            Err(_) => tracing::debug!("no TLS in time"),
        },
        Socket::Tcp(tcp) => serve(server, tcp, Place { bound, secure: false }, caller).await,
        #[cfg(unix)]
        Socket::Unix(unix) => serve(server, unix, Place { bound, secure: false }, caller).await,
    }
}

enum Socket {
    Tcp(TcpStream),
    Tls(TcpStream, Secure),
    #[cfg(unix)]
    Unix(tokio::net::UnixStream),
}

async fn accept(listener: &Listener) -> io::Result<(Socket, Option<std::net::IpAddr>)> {
    let (Listener::Tcp(tcp) | Listener::Tls(tcp, _)) = listener else {
        #[cfg(unix)]
        if let Listener::Unix(unix) = listener {
            return Ok((Socket::Unix(unix.accept().await?.0), None));
        }
        return Err(io::ErrorKind::Unsupported.into());
    };
    let (stream, _) = tcp.accept().await?;
    stream.set_nodelay(true)?;
    let bound = stream.local_addr()?.ip();
    Ok(match listener {
        Listener::Tls(_, secure) => (Socket::Tls(stream, secure.clone()), Some(bound)),
        _ => (Socket::Tcp(stream), Some(bound)),
    })
}

async fn serve<S>(server: &Server, stream: S, place: Place, caller: &Arc<Caller>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let asked = Arc::new(AtomicBool::new(false));
    let service = service_fn(|request| {
        asked.store(true, Ordering::Relaxed);
        let (server, caller) = (server.clone(), Arc::clone(caller));
        async move { Ok::<_, std::convert::Infallible>(answer(&server, request, place, &caller).await) }
    });
    let builder = builder(server.limits());
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    tokio::pin!(connection);
    // Which version it speaks is found out without a clock.
    let dawdles = async {
        sleep(server.limits().head_time).await;
        if asked.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
    };
    tokio::pin!(dawdles);
    let mut stop = server.0.stop.subscribe();
    tokio::select! {
        done = &mut connection => return ended(done),
        () = dawdles => return,
        _ = stop.wait_for(|stop| *stop) => {}
    }
    connection.as_mut().graceful_shutdown();
    ended(connection.await);
}

fn ended(done: Result<(), Box<dyn std::error::Error + Send + Sync>>) {
    if let Err(error) = done {
        tracing::debug!(%error, "a socket ended");
    }
}

fn builder(limits: &Limits) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(limits.head_time).max_buf_size(MAX_HEAD_BYTES);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_H2_STREAMS)
        .max_header_list_size(MAX_HEAD_BYTES as u32)
        .keep_alive_interval(crate::PING_EVERY)
        .keep_alive_timeout(crate::PING_EVERY);
    builder
}
