//! From an address to a connection: TCP, straight or through a proxy, and TLS on top where the address wants it.

use crate::error::{innermost, shown_host};
use crate::tls::Trust;
use crate::{HttpError, Phase, Proxy};
use http::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::rustls::pki_types::ServerName;
use tower_service::Service;

/// As much as a proxy may say before the tunnel is open, in bytes.
const MAX_HEAD_BYTES: usize = 8 * 1024;

/// Makes connections.
#[derive(Clone)]
pub struct Connector {
    tcp: HttpConnector,
    trust: Trust,
    /// Which proxy is asked.
    pub proxy: Proxy,
    limit: Duration,
    /// Where the server is, if that was found out before.
    at: Option<Arc<[SocketAddr]>>,
}

impl Connector {
    pub fn new(trust: Trust, proxy: Proxy, limit: Duration) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(Duration::from_secs(30)));
        // Several addresses of one name share the time.
        tcp.set_connect_timeout(Some(limit));
        Self { tcp, trust, proxy, limit, at: None }
    }

    /// The same for a server whose addresses are known. Nobody is asked for them again, and no proxy helps.
    pub fn at(&self, addresses: &[SocketAddr]) -> Self {
        Self { at: Some(addresses.into()), proxy: Proxy::default(), ..self.clone() }
    }

    /// A connection, within the time for that.
    pub async fn open(self, uri: Uri, whole: bool) -> Result<Stream, HttpError> {
        let (limit, host) = (self.limit, shown_host(&uri));
        tokio::time::timeout(limit, self.connect(uri, whole)).await.unwrap_or_else(|_| {
            let why = format!("not connected after {} s", limit.as_secs_f32());
            Err(HttpError::new(&host, Phase::Connect, why))
        })
    }

    async fn tcp(&mut self, uri: Uri) -> io::Result<TcpStream> {
        match self.at.clone() {
            Some(addresses) => direct(&addresses, self.limit).await,
            None => self.tcp.call(uri).await.map(TokioIo::into_inner).map_err(io::Error::other),
        }
    }

    async fn tls(&self, stream: Link, uri: &Uri) -> io::Result<Link> {
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        Ok(Box::new(self.trust.connector()?.connect(name, stream).await?))
    }

    /// A connection; through a proxy with a tunnel of its own if `whole`, as what is no HTTP needs it.
    async fn connect(mut self, uri: Uri, whole: bool) -> Result<Stream, HttpError> {
        let host = &shown_host(&uri);
        let fail = |phase| move |error: io::Error| HttpError::new(host, phase, innermost(&error));
        let secure = uri.scheme_str() == Some("https");
        let Some(proxy) = self.proxy.of(&uri) else {
            let tcp = self.tcp(uri.clone()).await.map_err(fail(Phase::Connect))?;
            let link =
                if secure { self.tls(Box::new(tcp), &uri).await.map_err(fail(Phase::Tls))? } else { Box::new(tcp) };
            return Ok(Stream { link, proxied: false });
        };
        let through = shown_host(proxy.uri());
        let wrong = |error: io::Error| HttpError::new(host, Phase::Proxy, format!("{through}: {}", innermost(&error)));
        let tcp = self.tcp(proxy.uri().clone()).await.map_err(&wrong)?;
        let mut link: Link = match proxy.uri().scheme_str() {
            Some("http") => Box::new(tcp),
            Some("https") => self.tls(Box::new(tcp), proxy.uri()).await.map_err(&wrong)?,
            _ => return Err(wrong(io::Error::other("only http:// and https:// proxies are supported"))),
        };
        if !secure && !whole {
            return Ok(Stream { link, proxied: true });
        }
        let auth = proxy.basic_auth().and_then(|auth| auth.to_str().ok());
        tunnel(&mut link, &uri, auth).await.map_err(&wrong)?;
        if !secure {
            return Ok(Stream { link, proxied: false });
        }
        Ok(Stream { link: self.tls(link, &uri).await.map_err(fail(Phase::Tls))?, proxied: false })
    }
}

/// The first address that answers. They share the time.
async fn direct(addresses: &[SocketAddr], limit: Duration) -> io::Result<TcpStream> {
    let share = limit / u32::try_from(addresses.len().max(1)).unwrap_or(1);
    let mut why = io::Error::other("no address");
    for address in addresses {
        match tokio::time::timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return stream.set_nodelay(true).map(|()| stream),
            Ok(Err(error)) => why = error,
            Err(_) => why = io::Error::other(format!("no answer after {} s", share.as_secs_f32())),
        }
    }
    Err(why)
}

/// Asks a proxy for a way through.
async fn tunnel(link: &mut Link, uri: &Uri, auth: Option<&str>) -> io::Result<()> {
    let target = format!("{}:{}", uri.host().unwrap_or_default(), crate::port(uri));
    let auth = auth.map_or_else(String::new, |auth| format!("Proxy-Authorization: {auth}\r\n"));
    link.write_all(format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{auth}\r\n").as_bytes()).await?;
    link.flush().await?;
    let mut head = Vec::new();
    // Byte by byte: what follows the head is not ours. It is short and comes once for each connection.
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() == MAX_HEAD_BYTES {
            return Err(io::Error::other("its answer to CONNECT is too long"));
        }
        head.push(link.read_u8().await.map_err(|_| io::Error::other("it hung up on CONNECT"))?);
    }
    let first = head.split(|&byte| byte == b'\r').next().unwrap_or_default();
    let why = match first.get(9..12) {
        Some([b'2', _, _]) if first.starts_with(b"HTTP/1.") => return Ok(()),
        Some(b"407") => "it wants a user name and a password (407); put them into the proxy's address".to_owned(),
        Some(code) if code.iter().all(u8::is_ascii_digit) => {
            format!("it answered CONNECT with {}", String::from_utf8_lossy(code))
        }
        _ => "its answer to CONNECT makes no sense".to_owned(),
    };
    Err(io::Error::other(why))
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Stream>;
    type Error = HttpError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, HttpError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), HttpError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let this = self.clone();
        Box::pin(async move { this.open(uri, false).await.map(TokioIo::new) })
    }
}

trait Both: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Both for T {}
type Link = Box<dyn Both>;

/// A connection, whatever it is made of.
pub struct Stream {
    link: Link,
    proxied: bool,
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        // A proxy is told the whole address in each request.
        Connected::new().proxy(self.proxied)
    }
}

impl AsyncRead for Stream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.link).poll_read(cx, buf)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.link).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.link).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.link).poll_shutdown(cx)
    }
}
