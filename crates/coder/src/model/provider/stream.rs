//! One answer from start to end: send, try again where that helps, read the stream, pass on what comes.

use super::content;
use super::decode::Decode;
use super::trouble::Trouble;
use super::{Ask, Format, Remote, anthropic, gemini, openai_chat, openai_responses};
use crate::http::http::header::{CONTENT_TYPE, RETRY_AFTER};
use crate::http::{Bytes, Request, Response, sse};
use crate::model::{self, Event, ModelError, Report};
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};
use tieline::Severity;
use tokio::sync::mpsc::Sender;

/// As much of an error answer as is read.
const ERROR: usize = 64 * 1024;
/// How long we wait for what follows a complete answer.
const BEHIND: Duration = Duration::from_secs(5);
/// As much of an answer as is read.
const ANSWER: usize = 64 << 20;

type Out = Sender<Result<Event, ModelError>>;

/// Asks, and tries again while nothing has been said yet.
pub async fn run(remote: Remote, request: model::Request, out: Out) {
    let provider = &remote.provider;
    provider.find_key(false).await;
    let mut sent = Sent::new(&remote, &request);
    let patience = provider.patience;
    let mut tries = 0;
    loop {
        let mut said = false;
        let trouble = match once(&remote, &sent, &out, &mut said).await {
            Ok(()) => return,
            Err(trouble) => trouble,
        };
        match trouble {
            Trouble::Passing { why, after, .. }
                if !said && tries < patience.tries && after.is_none_or(|after| after <= patience.longest) =>
            {
                tries += 1;
                let wait = after.unwrap_or_else(|| {
                    patience.pause.saturating_mul(2u32.saturating_pow(tries - 1)).min(patience.longest)
                });
                let title = format!(
                    "{}: {} Trying again in {} s ({tries} of {}).",
                    provider.name,
                    sentence(&why),
                    wait.as_secs_f32().ceil(),
                    patience.tries
                );
                let notice = Report::Notice { severity: Severity::Warning, title: provider.clean(&title) };
                if out.send(Ok(Event::Report(notice))).await.is_err() {
                    return;
                }
                tokio::time::sleep(wait).await;
            }
            Trouble::Passing { why, after: Some(after), limited } if after > patience.longest => {
                let why = format!("{} It wants us to wait {} s; try again then.", sentence(&why), after.as_secs());
                let trouble = Trouble::Passing { why, after: Some(after), limited };
                let _ = out.send(Err(trouble.told(provider, &remote.model))).await;
                return;
            }
            // One picture must not make a whole session useless.
            Trouble::Picture { why, never } if sent.pictures => {
                if never {
                    remote.blind.store(true, Ordering::Relaxed);
                }
                sent = Sent::with(&remote, &request, true);
                let title =
                    format!("{}: the picture can't be sent, so the model is told of it in words. {why}", provider.name);
                let notice = Report::Notice { severity: Severity::Warning, title: provider.clean(&title) };
                if out.send(Ok(Event::Report(notice))).await.is_err() {
                    return;
                }
            }
            Trouble::Model => {
                let _ = out.send(Err(provider.no_model(&remote.model).await)).await;
                return;
            }
            trouble => {
                let _ = out.send(Err(trouble.told(provider, &remote.model))).await;
                return;
            }
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
    fn new(remote: &Remote, request: &model::Request) -> Self {
        Self::with(remote, request, remote.blind.load(Ordering::Relaxed))
    }

    fn with(remote: &Remote, request: &model::Request, blind: bool) -> Self {
        let provider = &remote.provider;
        let level = request.thought_level.as_deref().and_then(super::Level::named);
        let ask = Ask { provider, model: &remote.model, by: &remote.id, request, level, blind };
        let (path, body) = match provider.format {
            Format::OpenaiChat => openai_chat::request(&ask),
            Format::OpenaiResponses => openai_responses::request(&ask),
            Format::Anthropic => anthropic::request(&ask),
            Format::Gemini => gemini::request(&ask),
        };
        let pictures = !blind && content::has_pictures(&request.messages);
        Self { path, body: Bytes::from(body.to_string()), pictures }
    }
}

async fn once(remote: &Remote, sent: &Sent, out: &Out, said: &mut bool) -> Result<(), Trouble> {
    let provider = &remote.provider;
    let mut request = provider.request("POST", &sent.path)?;
    *request.body_mut() = sent.body.clone();
    request.headers_mut().insert(CONTENT_TYPE, crate::http::http::HeaderValue::from_static("application/json"));
    let mut answer = provider.http.send(request).await.map_err(Trouble::of_http)?;
    let status = answer.status();
    if !status.is_success() {
        let after = retry_after(&answer);
        let body = answer.body_mut().start(ERROR).await;
        let trouble = Trouble::of_answer(status.as_u16(), after.or_else(|| retry_delay(&body)), &body);
        return Err(if sent.pictures { trouble.of_pictures(status.as_u16(), &body) } else { trouble });
    }
    let kind = answer.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if kind.contains("application/json") || kind.contains("text/html") {
        let body = answer.body_mut().start(ERROR).await;
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
        Format::OpenaiChat => Box::new(openai_chat::Decoder::new(&remote.id)),
        Format::OpenaiResponses => Box::new(openai_responses::Decoder::new(&remote.id)),
        Format::Anthropic => Box::new(anthropic::Decoder::new(&remote.id)),
        Format::Gemini => Box::new(gemini::Decoder::new(&remote.id)),
    };
    match read(answer, &mut *decoder, out, said).await {
        // All was said; what went wrong behind it took nothing away.
        Err(trouble) if decoder.finished() => tracing::debug!(?trouble, "behind the end of an answer"),
        read => read?,
    }
    let mut events = Vec::new();
    let Some((finish, tokens)) = decoder.close(&mut events) else {
        return Err(Trouble::passing("the answer broke off before its end."));
    };
    let usage = tokens.map(|tokens| tokens.usage(&remote.known)).filter(|usage| usage.used > 0);
    events.extend(usage.map(Event::Usage));
    events.push(Event::Finish(finish));
    pass(events, out, said).await;
    Ok(())
}

async fn read(
    mut answer: Response<crate::http::Body>,
    decoder: &mut dyn Decode,
    out: &Out,
    said: &mut bool,
) -> Result<(), Trouble> {
    let mut parser = sse::Parser::default();
    let mut size = 0;
    let mut over = false;
    while !over {
        let chunk = answer.body_mut().chunk();
        let chunk = if decoder.finished() {
            // Figures may follow, but they are not worth a long wait.
            let Ok(chunk) = tokio::time::timeout(BEHIND, chunk).await else { return Ok(()) };
            chunk
        } else {
            chunk.await
        };
        match chunk.map_err(Trouble::of_http)? {
            Some(chunk) => {
                size += chunk.len();
                if size > ANSWER {
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
        let mut events = Vec::new();
        let mut result = Ok(());
        while let Some(event) = parser.event() {
            let event = event.map_err(|error| Trouble::Other(error.to_string()))?;
            match decoder.take(&event, &mut events) {
                Ok(false) => {}
                Ok(true) => {
                    over = true;
                    break;
                }
                Err(trouble) => {
                    result = Err(trouble);
                    break;
                }
            }
        }
        if !pass(events, out, said).await {
            return Ok(());
        }
        result?;
    }
    Ok(())
}

/// False if nobody listens any more.
async fn pass(events: Vec<Event>, out: &Out, said: &mut bool) -> bool {
    for event in events {
        *said = true;
        if out.send(Ok(event)).await.is_err() {
            return false;
        }
    }
    true
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

/// An empty request with everything a provider wants in its head.
impl super::Provider {
    pub(super) fn request(&self, method: &str, path: &str) -> Result<Request<Bytes>, Trouble> {
        use crate::http::http::header::{AUTHORIZATION, HeaderName, HeaderValue};
        let key = self.key();
        if key.is_none() && self.needs_key {
            return Err(Trouble::Key(String::new()));
        }
        self.protected().map_err(Trouble::Other)?;
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
        for (name, value) in &self.headers {
            headers.insert(name.clone(), value.clone());
        }
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
