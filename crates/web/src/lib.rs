//! The one way out to HTTP servers: models, MCP servers, the `fetch` tool and remote agents all go through it.
//!
//! HTTP/1.1 over TCP or TLS, through a proxy where the environment names one. Every wait has a limit, and an error says
//! which server, at which step, and what to do; never an address with a password, never a header.

mod body;
mod connect;
mod error;
pub mod sse;
mod tls;

pub use body::Body;
pub use connect::Stream;

pub use error::{HttpError, Phase, innermost};
pub use http::{self, Request, Response, Uri};
pub use hyper::body::Bytes;
pub use tls::Trust;

use connect::Connector;
use http::header::{AUTHORIZATION, HeaderValue, PROXY_AUTHORIZATION, USER_AGENT};
use http_body_util::Full;
use hyper_util::client::legacy::Client;
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Who we say we are.
const AGENT: HeaderValue = HeaderValue::from_static(concat!("tieline/", env!("CARGO_PKG_VERSION")));

/// How long each step may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// From nothing to a connection that can be used: TCP, proxy and TLS together.
    pub connect: Duration,
    /// From there to the head of the answer.
    pub head: Duration,
    /// Between two pieces of the body; `None` for streams that may be silent for as long as they like.
    pub idle: Option<Duration>,
}

impl Default for Times {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { connect: seconds(10), head: seconds(90), idle: Some(seconds(90)) }
    }
}

/// How the client reaches others.
#[derive(Clone, Default)]
pub struct Options {
    /// A PEM file with certificates to trust besides the well-known ones.
    pub ca_file: Option<PathBuf>,
    /// How long each step may take.
    pub times: Times,
    /// Which proxy, for what; by default none.
    pub proxy: Proxy,
    /// Where [`Http::find`] finds these names, without asking anybody.
    pub known: Vec<(String, IpAddr)>,
}

impl Options {
    /// As the environment says: `SSL_CERT_FILE`, `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY`, the last four also
    /// in lower case.
    pub fn from_env() -> Self {
        let ca_file = std::env::var_os("SSL_CERT_FILE").filter(|path| !path.is_empty()).map(PathBuf::from);
        Self { ca_file, proxy: Proxy(Some(Arc::new(Matcher::from_env()))), ..Self::default() }
    }
}

/// Which proxy is asked for which address. It may hold a password, so it is never shown.
#[derive(Clone, Default)]
pub struct Proxy(Option<Arc<Matcher>>);

impl Proxy {
    /// One proxy for everything but the hosts in `except`, which is written as in `NO_PROXY`.
    pub fn all(address: &str, except: &str) -> Self {
        Self(Some(Arc::new(Matcher::builder().all(address.to_owned()).no(except.to_owned()).build())))
    }

    /// The proxy for an address. What is on this machine is never asked for through one.
    fn of(&self, uri: &Uri) -> Option<hyper_util::client::proxy::matcher::Intercept> {
        if is_local(uri.host().unwrap_or_default()) { None } else { self.0.as_ref()?.intercept(uri) }
    }
}

/// A client. Clones share its connections.
#[derive(Clone)]
pub struct Http {
    client: Client<Connector, Full<Bytes>>,
    connector: Connector,
    times: Times,
    known: Arc<[(String, IpAddr)]>,
}

impl Default for Http {
    fn default() -> Self {
        Self::new(Options::from_env())
    }
}

impl Http {
    /// A client with these options. Nothing is opened or read yet.
    pub fn new(options: Options) -> Self {
        let Options { ca_file, times, proxy, known } = options;
        let connector = Connector::new(tls::Trust::new(ca_file), proxy, times.connect);
        Self { client: client(connector.clone()), connector, times, known: known.into() }
    }

    /// Where a server is, asked once. `None` if a proxy is asked to find it.
    pub async fn find(&self, uri: &Uri) -> Result<Option<Vec<SocketAddr>>, HttpError> {
        if self.connector.proxy.of(uri).is_some() {
            return Ok(None);
        }
        let name = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        let port = port(uri);
        let known = self.known.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
        let mut found: Vec<SocketAddr> = known.map(|(_, address)| SocketAddr::new(*address, port)).collect();
        if found.is_empty() {
            let fail = |why: String| HttpError::new(&error::shown_host(uri), Phase::Connect, why);
            let asked = tokio::time::timeout(self.times.connect, tokio::net::lookup_host((name, port))).await;
            let asked = asked.map_err(|_| fail("its address was not found in time".into()))?;
            found = asked.map_err(|error| fail(error.to_string()))?.collect();
        }
        Ok(Some(found))
    }

    /// The same client for a server that is at these addresses and nowhere else.
    #[must_use]
    pub fn at(&self, addresses: &[SocketAddr]) -> Self {
        let connector = self.connector.at(addresses);
        Self { client: client(connector.clone()), connector, ..self.clone() }
    }

    /// The same client with other limits for the answer. The limit for connecting stays.
    #[must_use]
    pub fn times(&self, head: Duration, idle: Option<Duration>) -> Self {
        Self { times: Times { head, idle, ..self.times }, ..self.clone() }
    }

    /// A connection of one's own to a server, secure if the address begins with `https`; for what is no HTTP after its first words.
    pub async fn connect(&self, uri: &Uri) -> Result<Stream, HttpError> {
        self.connector.clone().open(uri.clone(), true).await
    }

    /// The head of a request as it is sent: the address is checked, a user name and a password in it become a header.
    pub fn prepare<B>(request: &mut Request<B>) -> Result<(), HttpError> {
        let host = error::shown_host(request.uri());
        plain(request).map_err(|why| HttpError::new(&host, Phase::Address, why))?;
        request.headers_mut().entry(USER_AGENT).or_insert(AGENT);
        Ok(())
    }

    /// Sends a request and waits for the head of the answer, whatever its status is. Redirections are not followed.
    pub async fn send(&self, mut request: Request<Bytes>) -> Result<Response<Body>, HttpError> {
        let host = error::shown_host(request.uri());
        let fail = |phase, why: String| HttpError::new(&host, phase, why);
        Self::prepare(&mut request)?;
        if request.uri().scheme_str() == Some("http")
            && let Some(auth) = self.connector.proxy.of(request.uri()).and_then(|proxy| proxy.basic_auth().cloned())
        {
            request.headers_mut().insert(PROXY_AUTHORIZATION, auth);
        }
        tracing::debug!(host, method = %request.method(), "request");
        // The connector has its own limit, so that a slow connect is told from a slow answer.
        let limit = self.times.connect + self.times.head;
        let answer = match tokio::time::timeout(limit, self.client.request(request.map(Full::new))).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => return Err(HttpError::of_client(&host, &error)),
            Err(_) => return Err(fail(Phase::Head, format!("no answer after {} s", limit.as_secs_f32()))),
        };
        tracing::debug!(host, status = answer.status().as_u16(), "answer");
        Ok(answer.map(|body| Body::new(body, host, self.times.idle)))
    }
}

/// Whether a host is this machine: by its address, or by the one name that nobody else can have.
pub fn is_local(host: &str) -> bool {
    let host = host.trim_matches(['[', ']']);
    let address = host.parse::<IpAddr>().map(|address| address.to_canonical());
    host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

/// What an address means that is seen from another one, such as that of a redirection; `None` if it makes no sense.
pub fn join(base: &Uri, target: &str) -> Option<Uri> {
    let origin = format!("{}://{}", base.scheme_str()?, base.authority()?);
    let is_scheme = |(scheme, _): (&str, &str)| !scheme.is_empty() && scheme.chars().all(|c| c.is_ascii_alphanumeric());
    let whole = match target.as_bytes() {
        _ if target.split_once("://").is_some_and(is_scheme) => target.to_owned(),
        [b'/', b'/', ..] => format!("{}:{target}", base.scheme_str()?),
        [b'/', ..] => format!("{origin}{target}"),
        [b'?', ..] => format!("{origin}{}{target}", base.path()),
        _ => format!("{origin}{}/{target}", base.path().rsplit_once('/').map_or("", |(folder, _)| folder)),
    };
    whole.parse().ok()
}

/// The port of an address.
pub fn port(uri: &Uri) -> u16 {
    uri.port_u16().unwrap_or(if uri.scheme_str() == Some("https") { 443 } else { 80 })
}

fn client(connector: Connector) -> Client<Connector, Full<Bytes>> {
    Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(Duration::from_mins(1))
        .pool_max_idle_per_host(4)
        .build(connector)
}

/// Checks the address, and moves a user name and password from it into a header.
fn plain<B>(request: &mut Request<B>) -> Result<(), &'static str> {
    let uri = request.uri();
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err("the address must begin with http:// or https://");
    }
    let Some(authority) = uri.authority() else { return Err("the address has no host") };
    let Some((user, host)) = authority.as_str().rsplit_once('@') else { return Ok(()) };
    let decoded: Vec<u8> = percent_encoding::percent_decode_str(user).collect();
    let mut value =
        HeaderValue::try_from(format!("Basic {}", tieline_schema::to_base64(&decoded))).map_err(|_| "bad")?;
    value.set_sensitive(true);
    let mut parts = uri.clone().into_parts();
    parts.authority = Some(host.parse().map_err(|_| "the address has no host")?);
    *request.uri_mut() = Uri::from_parts(parts).map_err(|_| "the address is not right")?;
    request.headers_mut().entry(AUTHORIZATION).or_insert(value);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_joined() {
        for (base, target, expect) in [
            ("https://h:1/a/b?c", "http://x/y", "http://x/y"),
            ("https://h:1/a/b?c", "//x/y", "https://x/y"),
            ("https://h:1/a/b?c", "/y", "https://h:1/y"),
            ("https://h:1/a/b?c", "y", "https://h:1/a/y"),
            ("https://h:1/a/b?c", "?y", "https://h:1/a/b?y"),
            // An address in what is asked for makes it no other server.
            ("https://h:1/a/b?c", "/login?next=https://x/", "https://h:1/login?next=https://x/"),
            ("https://h:1/a/b?c", "login?next=https://x/", "https://h:1/a/login?next=https://x/"),
            ("https://h", "y", "https://h/y"),
        ] {
            let joined = join(&base.parse().unwrap(), target).unwrap();
            assert_eq!(joined.to_string(), expect, "{base} {target}");
        }
        assert!(join(&"https://h".parse().unwrap(), "/a b").is_none());
    }

    #[test]
    fn this_machine_is_known_by_its_address() {
        for host in ["127.0.0.1", "127.9.8.7", "[::1]", "::1", "[::ffff:127.0.0.1]", "localhost", "LocalHost"] {
            assert!(is_local(host), "{host}");
        }
        for host in [
            "localhost.evil.com",
            "evil.localhost",
            "127.0.0.1.evil.com",
            "0127.0.0.1",
            "127.1",
            "10.0.0.1",
            "192.168.0.1",
            "[::2]",
            "[fe80::1]",
            "0.0.0.0",
            "",
        ] {
            assert!(!is_local(host), "{host}");
        }
    }
}
