//! What both ways over HTTP share: the address, the headers of the entry, the events of a stream, and how a refusal is told.

use super::link::Link;
use super::stdio::MAX_MESSAGE_BYTES;
use super::trouble::Trouble;
use crate::http::http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderName, HeaderValue};
use crate::http::http::request::Builder;
use crate::http::http::{Method, StatusCode, Uri};
use crate::http::{Body, HttpError, Request, Response, sse};
use std::collections::HashMap;
use std::sync::Arc;
use tieline::schema::McpHttp;

/// As much of a refusal as is told, in bytes.
pub const MAX_REFUSAL_BYTES: usize = 300;

/// The headers of an entry.
pub type Headers = HashMap<HeaderName, HeaderValue>;

/// A request with the headers of an entry.
pub fn request(method: Method, uri: &str, headers: &Headers) -> Builder {
    headers
        .iter()
        .fold(Request::builder().method(method).uri(uri), |builder, (name, value)| builder.header(name, value))
}

/// An answer, unless it is a refusal.
pub async fn accepted(mut answer: Response<Body>) -> Result<Response<Body>, Trouble> {
    let status = answer.status();
    if status.is_success() {
        return Ok(answer);
    }
    Err(refusal(status, &answer.body_mut().start(MAX_REFUSAL_BYTES).await).into())
}

/// The events of a body.
pub struct Events {
    body: Body,
    parser: sse::Parser,
    link: Arc<Link>,
}

impl Events {
    /// Reads a body.
    pub fn new(body: Body, link: &Arc<Link>) -> Self {
        Self { body, parser: sse::Parser::new(MAX_MESSAGE_BYTES), link: Arc::clone(link) }
    }

    /// The next event; `None` at the end. Safe to drop while waiting: nothing read is lost.
    pub async fn next(&mut self) -> Result<Option<sse::Event>, HttpError> {
        loop {
            match self.parser.event() {
                Some(Ok(event)) => return Ok(Some(event)),
                // Passed over: if the stream broke off here, the server would send it again, for ever.
                Some(Err(sse::TooLong)) => self.link.lose(),
                None => match self.body.chunk().await? {
                    Some(chunk) => self.parser.push(&chunk),
                    None => return Ok(None),
                },
            }
        }
    }

    /// How long the server wants us to wait before we connect again, in milliseconds.
    pub fn retry(&self) -> Option<u64> {
        self.parser.retry()
    }
}

/// The address and the headers of an entry, or what is wrong with them. Never repeats a value.
pub fn target(server: &McpHttp) -> Result<(Uri, Headers), Trouble> {
    let uri: Uri = server.url.parse().map_err(|_| "its address is not right")?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host().is_none() {
        return Err("its address must begin with http:// or https://".into());
    }
    let mut headers = HashMap::new();
    for header in &server.headers {
        let bad = || format!("its header `{}` is not right", crate::text::line(&header.name, 40));
        let name = HeaderName::try_from(&header.name).map_err(|_| bad())?;
        let mut value = HeaderValue::try_from(&header.value).map_err(|_| bad())?;
        value.set_sensitive(true);
        // These belong to the connection.
        if ![ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, HOST].contains(&name) && !is_ours(&name) {
            headers.insert(name, value);
        }
    }
    Ok((uri, headers))
}

/// Headers of the protocol itself.
fn is_ours(name: &HeaderName) -> bool {
    ["mcp-session-id", "mcp-protocol-version", "last-event-id"].contains(&name.as_str())
}

/// A refusal in words.
pub fn refusal(status: StatusCode, body: &str) -> String {
    let hint = match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            "; it wants a login: put its token into the entry's headers"
        }
        StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => {
            "; check the address and whether it is `http` or `sse`"
        }
        _ => "",
    };
    let body = crate::text::line(body, MAX_REFUSAL_BYTES);
    let said = if body.is_empty() { String::new() } else { format!(" ({body})") };
    format!("it answered with {}{hint}{said}", status.as_u16())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tieline::schema::HttpHeader;

    #[test]
    fn targets() {
        let check = |url: &str, headers: &[(&str, &str)]| {
            let header = |(name, value): &(&str, &str)| HttpHeader {
                name: (*name).into(),
                value: (*value).into(),
                ..Default::default()
            };
            let headers = headers.iter().map(header).collect();
            target(&McpHttp { name: "s".into(), url: url.into(), headers, ..Default::default() })
        };
        assert!(
            check("ftp://a/", &[]).is_err() && check("not an address", &[]).is_err() && check("/path", &[]).is_err()
        );
        let bad = check("http://a/", &[("X-Key", "secret\n")]).unwrap_err().why;
        assert!(bad.contains("X-Key") && !bad.contains("secret"), "{bad}");
        let (uri, headers) =
            check("https://a:1/mcp", &[("X-Key", "k"), ("Host", "b"), ("Mcp-Session-Id", "1")]).unwrap();
        assert_eq!((uri.path(), headers.len()), ("/mcp", 1));
        assert!(headers.values().all(HeaderValue::is_sensitive));
        assert!(refusal(StatusCode::UNAUTHORIZED, "no\u{1b}[31m").contains("token"));
    }
}
