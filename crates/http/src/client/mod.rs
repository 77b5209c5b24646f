//! The client's side: an address becomes a [`Transport`].

mod cookies;
mod streams;

use crate::{PATH, socket};
use http::header::{COOKIE, HeaderMap, HeaderName, HeaderValue};
use http::{Request, StatusCode, Uri};
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tieline_rpc::sync::Lock;
use tieline_rpc::{DEFAULT_LIMIT, Transport};
use tieline_web::{Http, HttpError};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Error as SocketError;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

/// For the handshake of a WebSocket, once there is a connection.
const HANDSHAKE: Duration = Duration::from_secs(30);

/// Why an agent can't be reached.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The address makes no sense.
    #[error("{0}")]
    Address(String),
    /// A header can't be sent.
    #[error("the header {0} can't be sent")]
    Header(String),
    /// There is no connection.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// The server says no.
    #[error("{host}: {}", status_told(*.status))]
    Refused {
        /// The server.
        host: String,
        /// What it said.
        status: StatusCode,
    },
    /// The server does not speak WebSocket.
    #[error("{host}: no WebSocket: {why}")]
    Socket {
        /// The server.
        host: String,
        /// What is wrong.
        why: String,
    },
}

/// What a status means to who wanted to speak with an agent, and what to do.
fn status_told(status: StatusCode) -> String {
    let code = status.as_u16();
    match code {
        401 => "it wants a credential (401); give it one, such as the header `Authorization: Bearer …`".to_owned(),
        403 => "it does not let us in (403); check the credential and the address".to_owned(),
        404 => "there is no agent at this path (404); the usual one is /acp".to_owned(),
        301..=308 => format!("it sends us elsewhere ({code}), which is not followed; use that address"),
        _ => format!("it answered {status}"),
    }
}

/// An agent at an address: `http://`, `https://`, `ws://` or `wss://`.
#[derive(Clone)]
pub struct Remote {
    uri: Uri,
    is_socket: bool,
    headers: HeaderMap,
    http: Http,
    trouble: Trouble,
}

/// Why the last connection ended, where others can look it up.
type Trouble = Arc<Mutex<Ended>>;

#[derive(Default)]
struct Ended {
    why: Option<String>,
    /// The server refused us.
    status: Option<StatusCode>,
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").field("host", &self.host()).finish_non_exhaustive()
    }
}

/// True if this is an address of an agent, and not a name or a command.
pub fn is_address(text: &str) -> bool {
    let scheme = text.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    scheme.is_some_and(|scheme| ["http", "https", "ws", "wss"].contains(&&*scheme))
}

impl Remote {
    /// An agent at an address. Without a path `/acp` is meant. Nothing is opened yet.
    pub fn new(address: &str) -> Result<Self, Error> {
        let wrong = |why: &str| Error::Address(format!("the address of the agent {why}"));
        let uri: Uri = address.trim().parse().map_err(|_| wrong("makes no sense"))?;
        let (is_socket, scheme) = match uri.scheme_str().unwrap_or_default() {
            "http" => (false, "http"),
            "https" => (false, "https"),
            "ws" => (true, "http"),
            "wss" => (true, "https"),
            _ => return Err(wrong("must begin with http://, https://, ws:// or wss://")),
        };
        if uri.host().unwrap_or_default().is_empty() {
            return Err(wrong("has no host"));
        }
        let mut parts = uri.into_parts();
        parts.scheme = scheme.parse().ok();
        let path = parts.path_and_query.as_ref().map_or("", |path| path.as_str());
        if matches!(path, "" | "/") {
            parts.path_and_query = PATH.parse().ok();
        }
        let uri = Uri::from_parts(parts).map_err(|_| wrong("makes no sense"))?;
        Ok(Self { uri, is_socket, headers: HeaderMap::new(), http: Http::default(), trouble: Trouble::default() })
    }

    /// Sends a header with every request. It may be a secret, so it is never shown.
    pub fn header(mut self, name: &str, value: &str) -> Result<Self, Error> {
        let wrong = || Error::Header(name.to_owned());
        let key = HeaderName::try_from(name).map_err(|_| wrong())?;
        let mut value = HeaderValue::try_from(value).map_err(|_| wrong())?;
        value.set_sensitive(true);
        self.headers.append(key, value);
        Ok(self)
    }

    /// Goes out with this client, which knows proxies and certificates.
    #[must_use]
    pub fn http(mut self, http: Http) -> Self {
        self.http = http;
        self
    }

    /// The server: its name and port, nothing else of the address.
    pub fn host(&self) -> String {
        let host = self.uri.host().unwrap_or_default();
        format!("{host}:{}", tieline_web::port(&self.uri))
    }

    /// Why the last connection that was opened has ended, if not in good order. Shared by clones.
    pub fn trouble(&self) -> Option<String> {
        self.trouble.locked().why.clone()
    }

    /// The status by which the server refused the last connection, at its beginning or later.
    pub fn refusal(&self) -> Option<StatusCode> {
        self.trouble.locked().status
    }

    fn refused(&self, status: StatusCode) -> Error {
        self.trouble.locked().status = Some(status);
        Error::Refused { host: self.host(), status }
    }

    /// Opens the way. Over HTTP nothing is said before the first message; a server that can't be reached ends the transport then,
    /// with the reason.
    ///
    /// A message that may have arrived is never sent again.
    pub async fn connect(&self) -> Result<Transport, Error> {
        *self.trouble.locked() = Ended::default();
        if self.is_socket { self.socket().await } else { Ok(streams::transport(self.clone())) }
    }

    async fn socket(&self) -> Result<Transport, Error> {
        let host = self.host();
        let wrong = |why: String| Error::Socket { host: host.clone(), why };
        // The scheme of the handshake's own request is the socket's.
        let mut parts = self.uri.clone().into_parts();
        let mut plain = Request::builder().uri(&self.uri).body(()).map_err(|error| wrong(error.to_string()))?;
        Http::prepare(&mut plain)?;
        parts.authority = plain.uri().authority().cloned();
        parts.scheme = if self.uri.scheme_str() == Some("https") { "wss" } else { "ws" }.parse().ok();
        let uri = Uri::from_parts(parts).map_err(|error| wrong(error.to_string()))?;
        let mut request = uri.into_client_request().map_err(|error| wrong(error.to_string()))?;
        for (name, value) in plain.headers().iter().chain(&self.headers) {
            // A cookie or a subprotocol of the configuration stands for itself.
            request.headers_mut().append(name.clone(), value.clone());
        }
        // No subprotocol is offered: some servers choose none, and then the handshake would have failed.
        let stream = self.http.connect(&self.uri).await?;
        let config = Some(socket::config(DEFAULT_LIMIT));
        let handshake = tokio_tungstenite::client_async_with_config(request, stream, config);
        let socket = match timeout(HANDSHAKE, handshake).await {
            Ok(Ok((socket, _))) => socket,
            Ok(Err(SocketError::Http(answer))) => return Err(self.refused(answer.status())),
            Ok(Err(error)) => return Err(wrong(error.to_string())),
            Err(_) => return Err(wrong(format!("no answer after {} s", HANDSHAKE.as_secs()))),
        };
        let trouble = Arc::clone(&self.trouble);
        let ended = move |why: String| trouble.locked().why = Some(format!("{host}: {why}"));
        Ok(socket::transport(socket, watch::channel(false).1, None, ended))
    }

    /// The headers of every request over HTTP.
    fn headers(&self, jar: &cookies::Jar) -> HeaderMap {
        let mut headers = self.headers.clone();
        if let Some(cookies) = jar.header() {
            headers.append(COOKIE, cookies);
        }
        headers
    }
}
