//! What both ways over HTTP share: the address, the headers of the entry, and how a refusal is told.

use crate::http::http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderName, HeaderValue};
use crate::http::http::{StatusCode, Uri};
use std::collections::HashMap;
use tieline::schema::McpHttp;

/// As much of a refusal as is told, in bytes.
pub const REFUSAL: usize = 300;

/// The address and the headers of an entry, or what is wrong with them. Never repeats a value.
pub fn target(server: &McpHttp) -> Result<(Uri, HashMap<HeaderName, HeaderValue>), String> {
    let uri: Uri = server.url.parse().map_err(|_| "its address is not right".to_owned())?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host().is_none() {
        return Err("its address must begin with http:// or https://".into());
    }
    let mut headers = HashMap::new();
    for header in &server.headers {
        let bad = || format!("its header `{}` is not right", super::text::line(&header.name, 40));
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
    let body = super::text::line(body, REFUSAL);
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
            let header =
                |(name, value): &(&str, &str)| HttpHeader { name: (*name).into(), value: (*value).into(), meta: None };
            let headers = headers.iter().map(header).collect();
            target(&McpHttp { name: "s".into(), url: url.into(), headers, meta: None })
        };
        assert!(
            check("ftp://a/", &[]).is_err() && check("not an address", &[]).is_err() && check("/path", &[]).is_err()
        );
        let bad = check("http://a/", &[("X-Key", "secret\n")]).unwrap_err();
        assert!(bad.contains("X-Key") && !bad.contains("secret"), "{bad}");
        let (uri, headers) =
            check("https://a:1/mcp", &[("X-Key", "k"), ("Host", "b"), ("Mcp-Session-Id", "1")]).unwrap();
        assert_eq!((uri.path(), headers.len()), ("/mcp", 1));
        assert!(headers.values().all(HeaderValue::is_sensitive));
        assert!(refusal(StatusCode::UNAUTHORIZED, "no\u{1b}[31m").contains("token"));
    }
}
