//! A web page that an agent wants a person to visit: its whole address, its host, and what is odd about it.

use crate::sanitize;
use tieline::schema::{ElicitRequest, SessionId};

/// A page to visit. All texts are safe to show, `url` too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The agent that asks.
    pub agent: String,
    /// Which session, if it belongs to one.
    pub session: Option<SessionId>,
    /// Why, in the agent's words.
    pub message: String,
    /// The whole address. It has only plain characters, so it is also what is opened.
    pub url: String,
    /// The host in it, to be shown clearly.
    pub host: String,
    /// What a person should know before they agree.
    pub warnings: Vec<String>,
}

impl Page {
    /// The page of a request. `None` if no person should be asked to open such an address: another scheme than `http` and
    /// `https`, no host, or characters that an address can't have.
    pub(crate) fn of(request: &ElicitRequest, url: &str, agent: &str) -> Option<Self> {
        let (host, warnings) = look(url)?;
        Some(Self {
            agent: sanitize::exact_line(agent),
            session: request.scope.session().cloned(),
            message: sanitize::exact(&request.message),
            url: url.to_owned(),
            host,
            warnings,
        })
    }
}

/// The host of an address, and what is odd about it.
fn look(url: &str) -> Option<(String, Vec<String>)> {
    let (scheme, rest) = url.split_once("://")?;
    let secure = match scheme.to_ascii_lowercase().as_str() {
        "https" => true,
        "http" => false,
        _ => return None,
    };
    if !url.bytes().all(|byte| byte.is_ascii_graphic()) || url.contains('\\') {
        return None;
    }
    let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
    let mut warnings = Vec::new();
    let host = match authority.rsplit_once('@') {
        Some((_, host)) => {
            warnings.push(format!("what stands before the `@` is not the host; the host is {host}"));
            host
        }
        None => authority,
    };
    let name = match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => name,
        _ => host,
    };
    if name.is_empty() {
        return None;
    }
    let local = matches!(name, "localhost" | "127.0.0.1" | "[::1]");
    if !secure && !local {
        warnings.push("the connection is not encrypted (http)".into());
    }
    if name.split('.').any(|label| label.to_ascii_lowercase().starts_with("xn--")) {
        warnings.push("the host has letters of other scripts (punycode); it may look like another one".into());
    }
    if name.parse::<std::net::Ipv4Addr>().is_ok() && !local {
        warnings.push("the host is a number, not a name".into());
    }
    Some((host.to_owned(), warnings))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn v1_elic_06_07_addresses_are_looked_at() {
        for (url, expect) in [
            ("https://example.com/login?x=1", Some(("example.com", 0))),
            ("HTTPS://Example.com", Some(("Example.com", 0))),
            ("http://localhost:8080/cb", Some(("localhost:8080", 0))),
            ("http://example.com/", Some(("example.com", 1))),
            ("https://xn--pple-43d.com/", Some(("xn--pple-43d.com", 1))),
            ("https://good.com@evil.example/", Some(("evil.example", 1))),
            ("https://10.0.0.1/", Some(("10.0.0.1", 1))),
            ("https://\u{430}pple.com/", None),
            ("https://a b/", None),
            ("https://a\u{202e}b/", None),
            ("https://good.com\\@evil/", None),
            ("javascript:alert(1)", None),
            ("file:///etc/passwd", None),
            ("https://", None),
            ("https:///x", None),
        ] {
            let found = look(url);
            assert_eq!(found.as_ref().map(|(host, warnings)| (&**host, warnings.len())), expect, "{url}: {found:?}");
        }
    }
}
