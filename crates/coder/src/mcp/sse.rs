//! A server over the older HTTP with server-sent events: one stream of events from it, a POST for each message to it.

use super::Limits;
use super::link::Link;
use super::remote::{Events, Headers, accepted, request, target};
use super::stdio::parse;
use super::trouble::Trouble;
use crate::http::http::Method;
use crate::http::http::header::{ACCEPT, CONTENT_TYPE};
use crate::http::{Bytes, Http, Uri, join, port};
use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use std::io;
use std::sync::Arc;
use tieline::schema::McpHttp;

/// As many events as are read before the one that says where to post.
const MAX_FIRST_EVENTS: usize = 16;

/// The way to a server.
pub struct SseTransport {
    http: Http,
    post: Uri,
    headers: Headers,
    /// `None` once it is closed.
    events: Option<Events>,
    link: Arc<Link>,
}

/// Opens the stream and waits until the server has said where messages go.
pub async fn open(server: &McpHttp, http: &Http, limits: Limits, link: &Arc<Link>) -> Result<SseTransport, Trouble> {
    let (uri, headers) = target(server)?;
    let http = http.times(limits.start, None);
    let request = request(Method::GET, &server.url, &headers).header(ACCEPT, "text/event-stream");
    let request = request.body(Bytes::new()).map_err(|error| error.to_string())?;
    let answer = accepted(http.send(request).await.map_err(|error| error.to_string())?).await?;
    let mut events = Events::new(answer.into_body(), link);
    for _ in 0..MAX_FIRST_EVENTS {
        let event = events.next().await.map_err(|error| error.to_string())?.ok_or("it closed the connection")?;
        if event.name == "endpoint" {
            let post = endpoint(&uri, event.data.trim()).ok_or("it wants messages sent to another server")?;
            return Ok(SseTransport { http, post, headers, events: Some(events), link: Arc::clone(link) });
        }
    }
    Err("it does not say where messages go; it may be `http`, not `sse`".into())
}

/// Where messages go, seen from the address of the stream. Never to another server: our headers may hold secrets.
fn endpoint(base: &Uri, said: &str) -> Option<Uri> {
    let server = |uri: &Uri| (uri.scheme().cloned(), uri.host().map(str::to_owned), port(uri));
    join(base, said).filter(|uri| server(uri) == server(base))
}

impl Transport<RoleClient> for SseTransport {
    type Error = io::Error;

    fn send(&mut self, message: TxJsonRpcMessage<RoleClient>) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let http = self.http.clone();
        let request = request(Method::POST, &self.post.to_string(), &self.headers);
        let request = request.header(CONTENT_TYPE, "application/json");
        let place = self.link.place();
        async move {
            let _place = place.await;
            let body = Bytes::from(serde_json::to_vec(&message)?);
            let request = request.body(body).map_err(io::Error::other)?;
            let answer = http.send(request).await.map_err(io::Error::other)?;
            accepted(answer).await.map(drop).map_err(io::Error::other)
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let why = loop {
            // A server that never stops talking must not keep all others from their turn.
            tokio::task::yield_now().await;
            self.link.room().await;
            let Some(events) = &mut self.events else { return None };
            match events.next().await {
                Ok(Some(event)) if matches!(&*event.name, "" | "message") => {
                    if let Some(message) = parse(event.data.as_bytes(), &self.link) {
                        return Some(message);
                    }
                }
                Ok(Some(_)) => {}
                Ok(None) => break "it closed the connection".to_owned(),
                Err(error) => break error.to_string(),
            }
        };
        self.events = None;
        self.link.end(why);
        None
    }

    async fn close(&mut self) -> io::Result<()> {
        self.events = None;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_stay_with_their_server() {
        for (base, said, expect) in [
            ("http://a:1/sse", "/message?sessionId=1", Some("http://a:1/message?sessionId=1")),
            ("http://a:1/x/sse", "message?id=1", Some("http://a:1/x/message?id=1")),
            ("http://a:1/sse", "http://a:1/m", Some("http://a:1/m")),
            ("https://a/sse", "https://a:443/m", Some("https://a:443/m")),
            ("http://a:1/sse", "http://a:2/m", None),
            ("http://a:1/sse", "https://a:1/m", None),
            ("http://a:1/sse", "http://b/m", None),
            ("http://a:1/sse", "//b/m", None),
            ("http://a:1/sse", "/m?next=http://b", Some("http://a:1/m?next=http://b")),
            ("http://a:1/sse", "@b/m", Some("http://a:1/@b/m")),
            ("http://a:1/sse", "/\u{7f} x", None),
        ] {
            let base = base.parse().unwrap();
            assert_eq!(endpoint(&base, said).map(|uri| uri.to_string()).as_deref(), expect, "{said}");
        }
    }
}
