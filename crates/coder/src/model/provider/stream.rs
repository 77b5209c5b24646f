//! One answer from start to end: send, try again where that helps, read the stream, pass on what comes.

use super::decode::{Answer, Decode};
use super::trouble::Trouble;
use super::{Ask, Format, Provider, Remote, anthropic, content, gemini, openai_chat, openai_responses};
use crate::http::http::header::{CONTENT_TYPE, RETRY_AFTER};
use crate::http::{Body, Bytes, Request, Response, sse};
use crate::model::{self, Event, ModelError, Report};
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};
use tieline_host::config::THOUGHT_LEVELS;
use tieline_script::Severity;
use tokio::sync::mpsc::Sender;

/// As much of an error answer as is read, in bytes.
pub(super) const MAX_ERROR_BYTES: usize = 64 * 1024;
/// How long we wait for what follows a complete answer.
const TRAILER_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest event of an answer, in bytes.
const MAX_EVENT_BYTES: usize = 32 << 20;
/// As much of an answer as is read, in bytes.
const MAX_ANSWER_BYTES: usize = 64 << 20;

/// Where an answer goes.
struct Out {
    sender: Sender<Result<Event, ModelError>>,
    /// Something was said.
    said: bool,
}

impl Out {
    /// Passes on what came. False if nobody listens any more.
    async fn pass(&mut self, events: &mut Vec<Event>) -> bool {
        for event in events.drain(..) {
            self.said = true;
            if self.sender.send(Ok(event)).await.is_err() {
                return false;
            }
        }
        true
    }

    /// Warns the user. False if nobody listens any more.
    async fn warn(&self, provider: &Provider, title: &str) -> bool {
        let notice = Report::Notice { severity: Severity::Warning, title: provider.clean(title) };
        self.sender.send(Ok(Event::Report(notice))).await.is_ok()
    }
}

/// Asks; what is wrong is the last thing that is told.
pub async fn run(remote: Remote, request: model::Request, sender: Sender<Result<Event, ModelError>>) {
    remote.provider.find_key(false).await;
    let mut out = Out { sender, said: false };
    if let Err(error) = patiently(&remote, &request, &mut out).await {
        let _ = out.sender.send(Err(error)).await;
    }
}

/// Asks, and tries again while nothing has been said yet.
async fn patiently(remote: &Remote, request: &model::Request, out: &mut Out) -> Result<(), ModelError> {
    let (provider, patience) = (&remote.provider, remote.provider.patience);
    let mut sent = Sent::new(remote, request, remote.blind.load(Ordering::Relaxed));
    let mut tries = 0;
    loop {
        let Err(trouble) = once(remote, &sent, out).await else { return Ok(()) };
        match trouble {
            Trouble::Passing { why, after: Some(after), limited } if after > patience.longest => {
                let why = format!("{} It wants us to wait {} s; try again then.", sentence(&why), after.as_secs());
                return Err(Trouble::Passing { why, after: Some(after), limited }.told(provider, &remote.model));
            }
            Trouble::Passing { why, after, .. } if !out.said && tries < patience.tries => {
                let doubled = patience.pause.saturating_mul(2u32.saturating_pow(tries)).min(patience.longest);
                let wait = after.unwrap_or(doubled);
                tries += 1;
                let title = format!(
                    "{}: {} Trying again in {} s ({tries} of {}).",
                    provider.name,
                    sentence(&why),
                    wait.as_secs_f32().ceil(),
                    patience.tries
                );
                if !out.warn(provider, &title).await {
                    return Ok(());
                }
                tokio::time::sleep(wait).await;
            }
            // One picture must not make a whole session useless.
            Trouble::Picture { why, never } if sent.pictures => {
                remote.blind.fetch_or(never, Ordering::Relaxed);
                sent = Sent::new(remote, request, true);
                let title =
                    format!("{}: the picture can't be sent, so the model is told of it in words. {why}", provider.name);
                if !out.warn(provider, &title).await {
                    return Ok(());
                }
            }
            Trouble::Model => return Err(provider.no_model(&remote.model).await),
            trouble => return Err(trouble.told(provider, &remote.model)),
        }
    }
}

/// A request as it is sent.
struct Sent {
    path: String,
    body: Bytes,
    /// There are pictures in it.
    pictures: bool,
}

impl Sent {
    fn new(remote: &Remote, request: &model::Request, blind: bool) -> Self {
        let provider = &remote.provider;
        let level = request.thought_level.as_deref().filter(|level| THOUGHT_LEVELS.contains(level));
        let ask = Ask { provider, model: &remote.model, by: &remote.id, request, level, blind };
        let (path, mut body) = match provider.format {
            Format::OpenaiChat => openai_chat::request(&ask),
            Format::OpenaiResponses => openai_responses::request(&ask),
            Format::Anthropic => anthropic::request(&ask),
            Format::Gemini => gemini::request(&ask),
        };
        // What has no value is not said.
        if let Some(body) = body.as_object_mut() {
            body.retain(|_, value| !value.is_null());
        }
        let pictures = !blind && content::has_pictures(&request.messages);
        Self { path, body: Bytes::from(body.to_string()), pictures }
    }
}

async fn once(remote: &Remote, sent: &Sent, out: &mut Out) -> Result<(), Trouble> {
    let provider = &remote.provider;
    let mut request = provider.request("POST", &sent.path)?;
    *request.body_mut() = sent.body.clone();
    request.headers_mut().insert(CONTENT_TYPE, crate::http::http::HeaderValue::from_static("application/json"));
    let mut answer = provider.http.send(request).await.map_err(Trouble::of_http)?;
    let status = answer.status();
    if !status.is_success() {
        let after = retry_after(&answer);
        let body = answer.body_mut().start(MAX_ERROR_BYTES).await;
        let trouble = Trouble::of_answer(status.as_u16(), after.or_else(|| retry_delay(&body)), &body);
        return Err(if sent.pictures { trouble.of_pictures(status.as_u16(), &body) } else { trouble });
    }
    let kind = answer.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if kind.contains("application/json") || kind.contains("text/html") {
        let body = answer.body_mut().start(MAX_ERROR_BYTES).await;
        return Err(match Trouble::of_answer(400, None, &body) {
            Trouble::Other(_) => Trouble::Other(format!(
                "{} answered without a stream. Is `{}` the right address?",
                provider.host(),
                provider.shown_url()
            )),
            trouble => trouble,
        });
    }
    let mut decoder: Box<dyn Decode> = match provider.format {
        Format::OpenaiChat => Box::new(openai_chat::Decoder::default()),
        Format::OpenaiResponses => Box::new(openai_responses::Decoder::default()),
        Format::Anthropic => Box::new(anthropic::Decoder::default()),
        Format::Gemini => Box::new(gemini::Decoder),
    };
    let mut told = Answer::default();
    match read(answer.into_body(), &mut *decoder, &mut told, out).await {
        // All was said; what went wrong behind it took nothing away.
        Err(trouble) if told.finish.is_some() => tracing::debug!(?trouble, "behind the end of an answer"),
        read => read?,
    }
    decoder.end(&mut told);
    let Some(finish) = told.close(&remote.id) else {
        return Err(Trouble::passing("the answer broke off before its end."));
    };
    let usage = told.tokens.map(|tokens| tokens.usage(&remote.known)).filter(|usage| usage.used > 0);
    told.out.extend(usage.map(Event::Usage));
    told.out.push(Event::Finish(finish));
    out.pass(&mut told.out).await;
    Ok(())
}

async fn read(mut body: Body, decoder: &mut dyn Decode, told: &mut Answer, out: &mut Out) -> Result<(), Trouble> {
    let mut parser = sse::Parser::new(MAX_EVENT_BYTES);
    let mut size = 0;
    let mut over = false;
    while !over {
        let chunk = if told.finish.is_some() {
            // Figures may follow, but they are not worth a long wait.
            let Ok(chunk) = tokio::time::timeout(TRAILER_TIMEOUT, body.chunk()).await else { return Ok(()) };
            chunk
        } else {
            body.chunk().await
        };
        match chunk.map_err(Trouble::of_http)? {
            Some(chunk) => {
                size += chunk.len();
                if size > MAX_ANSWER_BYTES {
                    return Err(Trouble::Other("the answer is longer than anybody wants".into()));
                }
                parser.push(&chunk);
            }
            None => {
                // Some servers forget the empty line behind the last event.
                parser.push(b"\n\n");
                over = true;
            }
        }
        let mut result = Ok(false);
        while let (Ok(false), Some(event)) = (&result, parser.event()) {
            let event = event.map_err(|error| Trouble::Other(error.to_string()))?;
            result = decoder.take(&event, told);
        }
        // What came before something went wrong was still said.
        if !out.pass(&mut told.out).await {
            return Ok(());
        }
        over |= result?;
    }
    Ok(())
}

/// A text with an end, so that another one can follow it.
fn sentence(text: &str) -> String {
    let text = text.trim_end();
    let ended = text.ends_with(['.', '!', '?', '…']);
    if ended { text.to_owned() } else { format!("{text}.") }
}

fn retry_after<T>(answer: &Response<T>) -> Option<Duration> {
    let header = |name: &str| answer.headers().get(name).and_then(|value| value.to_str().ok());
    let exact = header("retry-after-ms").and_then(|text| text.trim().parse().ok()).map(Duration::from_millis);
    let said = || {
        let text = header(RETRY_AFTER.as_str())?.trim();
        text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).or_else(|| until(text))
    };
    exact.or_else(said)
}

/// How long it is until a date such as `Sun, 06 Nov 1994 08:49:37 GMT`.
fn until(date: &str) -> Option<Duration> {
    let date = httpdate::parse_http_date(date).ok()?;
    Some(date.duration_since(SystemTime::now()).unwrap_or_default())
}

/// Gemini says it in the error itself: `"retryDelay": "7s"`.
fn retry_delay(body: &str) -> Option<Duration> {
    let rest = &body[body.find("\"retryDelay\"")? + 12..];
    let value = rest.split('"').nth(1)?.strip_suffix('s')?;
    Duration::try_from_secs_f64(value.parse().ok()?).ok()
}

impl Provider {
    /// An empty request with everything a provider wants in its head.
    pub(super) fn request(&self, method: &str, path: &str) -> Result<Request<Bytes>, Trouble> {
        use crate::http::http::header::{AUTHORIZATION, HeaderName, HeaderValue};
        let key = self.key();
        if key.is_none() && self.needs_key {
            return Err(Trouble::Key(String::new()));
        }
        self.protected().map_err(|error| Trouble::Other(error.to_string()))?;
        let wrong = |_| Trouble::Other(format!("the address `{}` is not right", self.shown_url()));
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base_url))
            .body(Bytes::new())
            .map_err(wrong)?;
        let headers = request.headers_mut();
        if let Some(key) = key {
            let (name, value) = match self.format {
                Format::OpenaiChat | Format::OpenaiResponses => (AUTHORIZATION, format!("Bearer {}", key.expose())),
                Format::Anthropic => (HeaderName::from_static("x-api-key"), key.expose().to_owned()),
                Format::Gemini => (HeaderName::from_static("x-goog-api-key"), key.expose().to_owned()),
            };
            if let Ok(mut value) = HeaderValue::try_from(value) {
                value.set_sensitive(true);
                headers.insert(name, value);
            }
        }
        if self.format == Format::Anthropic {
            headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
        }
        headers.extend(self.headers.iter().cloned());
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read() {
        let later = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(100));
        assert!(until(&later).is_some_and(|time| (98..=100).contains(&time.as_secs())), "{later}");
        for (date, expect) in
            [("Sun, 06 Nov 1994 08:49:37 GMT", Some(Duration::ZERO)), ("Sun, 06 Nix 1994", None), ("soon", None)]
        {
            assert_eq!(until(date), expect, "{date}");
        }
    }

    #[test]
    fn texts_have_an_end() {
        for (text, expect) in [("a", "a."), ("a. ", "a."), ("a!", "a!"), ("429: busy", "429: busy.")] {
            assert_eq!(sentence(text), expect);
        }
    }
}
