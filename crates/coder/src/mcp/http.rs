//! A server over streamable HTTP: the library's transport on our own HTTP client.

use super::Limits;
use super::link::Link;
use super::remote::{REFUSAL, refusal, target};
use super::stdio::LONGEST;
use crate::http::http::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue};
use crate::http::http::{Method, Request, StatusCode, request::Builder};
use crate::http::{Body, Bytes, Http, HttpError, Phase, sse};
use futures_util::stream::{BoxStream, StreamExt as _, unfold};
use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::common::client_side_sse::ExponentialBackoff;
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError,
    StreamableHttpPostResponse,
};
use rmcp::transport::{StreamableHttpClientTransport, Transport};
use sse_stream::Sse;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tieline::schema::McpHttp;

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");
/// How often a stream of events that broke off is asked for again.
const RETRIES: usize = 5;
/// The longest pause before that.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// So often a server may forget our session before the whole connection is made anew.
const FORGOTTEN: usize = 20;

type Failure = StreamableHttpError<HttpError>;
type Headers = HashMap<HeaderName, HeaderValue>;

/// The way to a server. Nothing is sent yet.
pub fn open(server: &McpHttp, http: &Http, limits: Limits, link: &Arc<Link>) -> Result<Watched, String> {
    let (_, headers) = target(server)?;
    let mut config = StreamableHttpClientTransportConfig::with_uri(&*server.url);
    config.custom_headers = headers;
    config.max_sse_event_size = LONGEST;
    // A server that can't be reached any more is told apart below; for all else a few attempts are enough.
    let mut retries = ExponentialBackoff::default();
    (retries.max_times, retries.max_delay) = (Some(RETRIES), Some(LONGEST_PAUSE));
    config.retry_config = Arc::new(retries);
    // Whoever waits for an answer has a limit of his own.
    let http = http.times(limits.call.max(limits.start), None);
    let client = Wire { http, link: Arc::clone(link), forgotten: Arc::default() };
    let inner = StreamableHttpClientTransport::with_client(client, config);
    Ok(Watched { inner, link: Arc::clone(link) })
}

/// Our HTTP client as the library wants it.
#[derive(Clone)]
pub struct Wire {
    http: Http,
    link: Arc<Link>,
    /// So often the server forgot our session.
    forgotten: Arc<AtomicUsize>,
}

/// A request with the headers that all have.
fn request(method: Method, uri: &str, session: Option<&Arc<str>>, auth: Option<String>, headers: Headers) -> Builder {
    let mut builder = Request::builder().method(method).uri(uri);
    if let Some(auth) = auth {
        builder = builder.header("authorization", format!("Bearer {auth}"));
    }
    for (name, value) in headers {
        builder = builder.header(name, value);
    }
    match session {
        Some(session) => builder.header(SESSION, &**session),
        None => builder,
    }
}

impl Wire {
    async fn send(&self, builder: Builder, body: Vec<u8>) -> Result<crate::http::Response<Body>, Failure> {
        let request = builder.body(Bytes::from(body)).map_err(|_| unexpected("the request can't be written"))?;
        self.http.send(request).await.map_err(|error| {
            // Nobody is there any more: the connection is over, and a new one is tried.
            if error.phase == Phase::Connect {
                self.link.end(error.to_string());
            }
            StreamableHttpError::Client(error)
        })
    }

    /// The server has forgotten our session. The next request begins a new one; its tools may be others.
    fn expired(&self) -> Failure {
        if self.forgotten.fetch_add(1, Ordering::Relaxed) < FORGOTTEN {
            self.link.changed.notify_one();
        } else {
            self.link.end("it forgets every session");
        }
        StreamableHttpError::SessionExpired
    }
}

/// Whether a refusal means that the server does not know our session: most say 404, some say it in words.
fn is_forgotten(status: StatusCode, body: &str) -> bool {
    status == StatusCode::NOT_FOUND
        || (status == StatusCode::BAD_REQUEST && body.to_ascii_lowercase().contains("session"))
}

fn unexpected(why: impl Into<String>) -> Failure {
    StreamableHttpError::UnexpectedServerResponse(why.into().into())
}

/// The events of a body.
fn events(body: Body, most: usize, link: Arc<Link>) -> BoxStream<'static, Result<Sse, SseError>> {
    unfold(Some((body, sse::Parser::new(most), link)), move |state| async move {
        let (mut body, mut parser, link) = state?;
        loop {
            match parser.event() {
                Some(Ok(event)) => {
                    let filled = |text: String| (!text.is_empty()).then_some(text);
                    let sse = Sse {
                        event: filled(event.name),
                        data: Some(event.data),
                        id: filled(event.id),
                        retry: parser.retry(),
                    };
                    return Some((Ok(sse), Some((body, parser, link))));
                }
                // Passed over: if the stream broke off here, the server would send it again, for ever.
                Some(Err(sse::TooLong)) => {
                    link.lose();
                    continue;
                }
                None => {}
            }
            match body.chunk().await {
                Ok(Some(chunk)) => parser.push(&chunk),
                Ok(None) => return None,
                Err(error) => return Some((Err(SseError::Body(error.into())), None)),
            }
        }
    })
    .boxed()
}

impl StreamableHttpClient for Wire {
    type Error = HttpError;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let wants_answer = matches!(message, ClientJsonRpcMessage::Request(_));
        let builder = request(Method::POST, &uri, session_id.as_ref(), auth_header, custom_headers)
            .header(ACCEPT, format!("{JSON}, {EVENTS}"))
            .header(CONTENT_TYPE, JSON);
        let mut answer = self.send(builder, serde_json::to_vec(&message)?).await?;
        let status = answer.status();
        let header =
            |name: HeaderName| answer.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let (kind, session) = (header(CONTENT_TYPE).unwrap_or_default(), header(SESSION));
        match status {
            StatusCode::ACCEPTED | StatusCode::NO_CONTENT => return Ok(StreamableHttpPostResponse::Accepted),
            status if !status.is_success() => {
                let body = answer.body_mut().start(REFUSAL).await;
                let forgotten = session_id.is_some() && is_forgotten(status, &body);
                return Err(if forgotten { self.expired() } else { unexpected(refusal(status, &body)) });
            }
            _ => {}
        }
        if kind.starts_with(EVENTS) {
            return Ok(StreamableHttpPostResponse::Sse(
                events(answer.into_body(), LONGEST, Arc::clone(&self.link)),
                session,
            ));
        }
        let body = answer.body_mut().bytes(LONGEST).await.map_err(StreamableHttpError::Client)?;
        match serde_json::from_slice::<ServerJsonRpcMessage>(&body) {
            Ok(message) => Ok(StreamableHttpPostResponse::Json(message, session)),
            // What is said about a notification does not matter.
            Err(_) if !wants_answer => Ok(StreamableHttpPostResponse::Accepted),
            Err(_) => Err(unexpected("its answer is not that of an MCP server; check the address")),
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<(), Failure> {
        let builder = request(Method::DELETE, &uri, Some(&session_id), auth_header, custom_headers);
        let answer = self.send(builder, Vec::new()).await?;
        match answer.status() {
            StatusCode::METHOD_NOT_ALLOWED => Err(StreamableHttpError::ServerDoesNotSupportDeleteSession),
            status if status.is_success() => Ok(()),
            status => Err(unexpected(refusal(status, ""))),
        }
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failure> {
        let mut builder = request(Method::GET, &uri, session_id.as_ref(), auth_header, custom_headers);
        builder = builder.header(ACCEPT, EVENTS);
        if let Some(id) = last_event_id {
            builder = builder.header(LAST_EVENT, id);
        }
        let mut answer = self.send(builder, Vec::new()).await?;
        let kind = answer.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        match answer.status() {
            StatusCode::METHOD_NOT_ALLOWED => Err(StreamableHttpError::ServerDoesNotSupportSse),
            status if status.is_success() && kind.starts_with(EVENTS) => {
                Ok(events(answer.into_body(), LONGEST, Arc::clone(&self.link)))
            }
            status if status.is_success() => Err(StreamableHttpError::UnexpectedContentType(Some(kind.to_owned()))),
            status => {
                let body = answer.body_mut().start(REFUSAL).await;
                let forgotten = session_id.is_some() && is_forgotten(status, &body);
                Err(if forgotten { self.expired() } else { unexpected(refusal(status, &body)) })
            }
        }
    }
}

/// The library's transport, and word to all others when it has ended.
pub struct Watched {
    inner: StreamableHttpClientTransport<Wire>,
    link: Arc<Link>,
}

impl Transport<RoleClient> for Watched {
    type Error = <StreamableHttpClientTransport<Wire> as Transport<RoleClient>>::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        Transport::<RoleClient>::send(&mut self.inner, message)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let message = Transport::<RoleClient>::receive(&mut self.inner).await;
        if message.is_none() {
            self.link.end("the connection was closed");
        }
        message
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        Transport::<RoleClient>::close(&mut self.inner).await
    }
}
