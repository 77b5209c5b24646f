//! A server over streamable HTTP: the library's transport on our own HTTP client.

use super::Limits;
use super::link::Link;
use super::remote::{self, Events, Headers, MAX_REFUSAL_BYTES, refusal, target};
use super::result::bounded;
use super::stdio::MAX_MESSAGE_BYTES;
use super::trouble::Trouble;
use crate::http::http::header::{ACCEPT, CONTENT_TYPE, HeaderName};
use crate::http::http::{Method, StatusCode, request::Builder};
use crate::http::{Body, Bytes, Http, HttpError, Phase, Response};
use futures_util::stream::{BoxStream, StreamExt as _, unfold};
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::common::client_side_sse::ExponentialBackoff;
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError,
    StreamableHttpPostResponse,
};
use sse_stream::Sse;
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tieline::schema::McpHttp;

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");
/// How often a stream of events that broke off is asked for again.
const MAX_RETRIES: usize = 5;
/// The longest pause before that.
const MAX_RETRY_PAUSE: Duration = Duration::from_secs(10);
/// So often a server may forget our session before the whole connection is made anew.
const MAX_FORGOTTEN: usize = 20;

type Failure = StreamableHttpError<HttpError>;

/// The way to a server. Nothing is sent yet.
pub fn open(
    server: &McpHttp,
    http: &Http,
    limits: Limits,
    link: &Arc<Link>,
) -> Result<StreamableHttpClientTransport<Wire>, Trouble> {
    let (_, headers) = target(server)?;
    let mut config = StreamableHttpClientTransportConfig::with_uri(&*server.url);
    config.custom_headers = headers;
    config.max_sse_event_size = MAX_MESSAGE_BYTES;
    // A server that can't be reached any more is told apart below; for all else a few attempts are enough.
    let mut retries = ExponentialBackoff::default();
    (retries.max_times, retries.max_delay) = (Some(MAX_RETRIES), Some(MAX_RETRY_PAUSE));
    config.retry_config = Arc::new(retries);
    // Whoever waits for an answer has a limit of his own.
    let http = http.times(limits.call.max(limits.start), None);
    let client = Wire { http, link: Arc::clone(link), forgotten: Arc::default() };
    Ok(StreamableHttpClientTransport::with_client(client, config))
}

/// Our HTTP client as the library wants it.
#[derive(Clone)]
pub struct Wire {
    http: Http,
    link: Arc<Link>,
    /// So often the server forgot our session.
    forgotten: Arc<AtomicUsize>,
}

/// A request of a session, if there is one yet.
fn request(method: Method, uri: &str, session: Option<&Arc<str>>, headers: &Headers) -> Builder {
    let builder = remote::request(method, uri, headers);
    match session {
        Some(session) => builder.header(SESSION, &**session),
        None => builder,
    }
}

impl Wire {
    async fn send(&self, builder: Builder, body: Vec<u8>) -> Result<Response<Body>, Failure> {
        let request = builder.body(Bytes::from(body)).map_err(|_| unexpected("the request can't be written"))?;
        self.http.send(request).await.map_err(|error| {
            // Nobody is there any more: the connection is over, and a new one is tried.
            if error.phase == Phase::Connect {
                self.link.end(error.to_string());
            }
            StreamableHttpError::Client(error)
        })
    }

    /// An answer that is none. If the server has forgotten our session, the next request begins a new one; its tools may be
    /// others.
    async fn refused(&self, mut answer: Response<Body>, in_session: bool) -> Failure {
        let (status, body) = (answer.status(), answer.body_mut().start(MAX_REFUSAL_BYTES).await);
        if !in_session || !is_forgotten(status, &body) {
            return unexpected(refusal(status, &body));
        }
        if self.forgotten.fetch_add(1, Ordering::Relaxed) < MAX_FORGOTTEN {
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

/// The events of a body, as the library wants them.
fn events(body: Body, link: &Arc<Link>) -> BoxStream<'static, Result<Sse, SseError>> {
    let link = Arc::clone(link);
    unfold(Some(Events::new(body, &link)), move |events| {
        let lost = Arc::clone(&link);
        async move {
            let mut events = events?;
            match events.next().await {
                Ok(Some(event)) => {
                    let filled = |text: String| (!text.is_empty()).then_some(text);
                    let (name, id, retry) = (filled(event.name), filled(event.id), events.retry());
                    // The library reads what is in it; nothing is what it passes over.
                    let data = match bounded(event.data.as_bytes()) {
                        Some(Cow::Borrowed(_)) => Some(event.data),
                        Some(Cow::Owned(cut)) => String::from_utf8(cut).ok(),
                        None => {
                            lost.lose();
                            None
                        }
                    };
                    Some((Ok(Sse { event: name, data, id, retry }), Some(events)))
                }
                Ok(None) => None,
                Err(error) => Some((Err(SseError::Body(error.into())), None)),
            }
        }
    })
    .boxed()
}

fn header(answer: &Response<Body>, name: &HeaderName) -> Option<String> {
    answer.headers().get(name)?.to_str().ok().map(str::to_owned)
}

impl StreamableHttpClient for Wire {
    type Error = HttpError;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _: Option<String>,
        custom_headers: Headers,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let wants_answer = matches!(message, ClientJsonRpcMessage::Request(_));
        let builder = request(Method::POST, &uri, session_id.as_ref(), &custom_headers)
            .header(ACCEPT, format!("{JSON}, {EVENTS}"))
            .header(CONTENT_TYPE, JSON);
        let mut answer = self.send(builder, serde_json::to_vec(&message)?).await?;
        let session = header(&answer, &SESSION);
        match answer.status() {
            StatusCode::ACCEPTED | StatusCode::NO_CONTENT => return Ok(StreamableHttpPostResponse::Accepted),
            status if !status.is_success() => return Err(self.refused(answer, session_id.is_some()).await),
            _ => {}
        }
        if header(&answer, &CONTENT_TYPE).is_some_and(|kind| kind.starts_with(EVENTS)) {
            return Ok(StreamableHttpPostResponse::Sse(events(answer.into_body(), &self.link), session));
        }
        let body = answer.body_mut().bytes(MAX_MESSAGE_BYTES).await.map_err(StreamableHttpError::Client)?;
        let body = bounded(&body).ok_or_else(|| unexpected("its answer has too many values"))?;
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
        _: Option<String>,
        custom_headers: Headers,
    ) -> Result<(), Failure> {
        let builder = request(Method::DELETE, &uri, Some(&session_id), &custom_headers);
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
        _: Option<String>,
        custom_headers: Headers,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failure> {
        let mut builder = request(Method::GET, &uri, session_id.as_ref(), &custom_headers);
        builder = builder.header(ACCEPT, EVENTS);
        if let Some(id) = last_event_id {
            builder = builder.header(LAST_EVENT, id);
        }
        let answer = self.send(builder, Vec::new()).await?;
        let kind = header(&answer, &CONTENT_TYPE);
        match answer.status() {
            StatusCode::METHOD_NOT_ALLOWED => Err(StreamableHttpError::ServerDoesNotSupportSse),
            status if !status.is_success() => Err(self.refused(answer, session_id.is_some()).await),
            _ if kind.as_ref().is_some_and(|kind| kind.starts_with(EVENTS)) => {
                Ok(events(answer.into_body(), &self.link))
            }
            _ => Err(StreamableHttpError::UnexpectedContentType(kind)),
        }
    }
}
