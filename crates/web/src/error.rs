//! What can go wrong on the way to a server, told with the host, the step and what to do.

use std::error::Error as _;

/// The step at which it went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Phase {
    /// The address makes no sense.
    Address,
    /// No connection.
    Connect,
    /// The proxy does not let us through.
    Proxy,
    /// No trust.
    Tls,
    /// The head of the answer.
    Head,
    /// The body of the answer.
    Body,
    /// The body is larger than the caller wants.
    Size,
}

impl Phase {
    /// What happened at this step, and what to check.
    fn told(self, why: &str) -> String {
        match self {
            Self::Address => why.to_owned(),
            Self::Connect => {
                format!("can't connect: {why}. Check the address and the network, and whether the server runs.")
            }
            Self::Proxy => {
                format!("the proxy does not help: {why}. Check HTTPS_PROXY, HTTP_PROXY and NO_PROXY.")
            }
            Self::Tls => format!(
                "no secure connection: {why}. If your network has its own certificates, name their PEM file in \
                 SSL_CERT_FILE."
            ),
            Self::Head => format!("no answer: {why}."),
            Self::Body => format!("the answer broke off: {why}."),
            Self::Size => format!("the answer is too large: {why}."),
        }
    }
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{host}: {}", .phase.told(.why))]
pub struct HttpError {
    /// The server: name and port, nothing else of the address.
    pub host: String,
    /// The step.
    pub phase: Phase,
    /// What happened.
    pub why: String,
}

impl HttpError {
    /// An error at a step.
    pub(super) fn new(host: &str, phase: Phase, why: impl Into<String>) -> Self {
        Self { host: host.to_owned(), phase, why: why.into() }
    }

    pub(super) fn of_client(host: &str, error: &hyper_util::client::legacy::Error) -> Self {
        let mut cause = error.source();
        while let Some(source) = cause {
            if let Some(ours) = source.downcast_ref::<Self>() {
                return ours.clone();
            }
            cause = source.source();
        }
        let phase = if error.is_connect() { Phase::Connect } else { Phase::Head };
        Self::new(host, phase, innermost(error))
    }
}

/// The last cause in a chain: the others only repeat what step it was.
pub fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}

/// The host and port of an address, and nothing else of it.
pub(super) fn shown_host(uri: &http::Uri) -> String {
    let host = uri.host().unwrap_or("?");
    match uri.port_u16() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}
