//! One answer from start to end: send, try again where that helps, read the stream, pass on what comes.

use super::decode::Decode;
use super::trouble::Trouble;
use super::{Ask, Format, Remote, anthropic, gemini, openai_chat, openai_responses};
use crate::http::http::header::{CONTENT_TYPE, RETRY_AFTER};
use crate::http::{Bytes, Request, Response, sse};
use crate::model::{self, Event, ModelError, Report};
use std::time::Duration;
use tieline::Severity;
use tokio::sync::mpsc::Sender;

/// As much of an error answer as is read.
const ERROR: usize = 64 * 1024;
/// As much of an answer as is read.
const ANSWER: usize = 64 << 20;

type Out = Sender<Result<Event, ModelError>>;

/// Asks, and tries again while nothing has been said yet.
pub async fn run(remote: Remote, request: model::Request, out: Out) {
    let provider = &remote.provider;
    let level = request.thought_level.as_deref().and_then(super::Level::named);
    let ask = Ask { provider, model: &remote.model, by: &remote.id, request: &request, level };
    let (path, body) = match provider.format {
        Format::OpenaiChat => openai_chat::request(&ask),
        Format::OpenaiResponses => openai_responses::request(&ask),
        Format::Anthropic => anthropic::request(&ask),
        Format::Gemini => gemini::request(&ask),
    };
    let body = Bytes::from(body.to_string());
    let patience = provider.patience;
    let mut tries = 0;
    loop {
        let mut said = false;
        let trouble = match once(&remote, &path, &body, &out, &mut said).await {
            Ok(()) => return,
            Err(trouble) => trouble,
        };
        match trouble {
            Trouble::Passing { why, after }
                if !said && tries < patience.tries && after.is_none_or(|after| after <= patience.longest) =>
            {
                tries += 1;
                let wait = after.unwrap_or_else(|| {
                    patience.pause.saturating_mul(2u32.saturating_pow(tries - 1)).min(patience.longest)
                });
                let title = format!(
                    "{}: {why} Trying again in {} s ({tries} of {}).",
                    provider.name,
                    wait.as_secs_f32().ceil(),
                    patience.tries
                );
                let notice = Report::Notice { severity: Severity::Warning, title: provider.clean(&title) };
                if out.send(Ok(Event::Report(notice))).await.is_err() {
                    return;
                }
                tokio::time::sleep(wait).await;
            }
            Trouble::Passing { why, after: Some(after) } if after > patience.longest => {
                let why = format!("{why} It wants us to wait {} s; try again then.", after.as_secs());
                let _ = out.send(Err(Trouble::Other(why).told(provider, &remote.model))).await;
                return;
            }
            trouble => {
                let _ = out.send(Err(trouble.told(provider, &remote.model))).await;
                return;
            }
        }
    }
}

async fn once(remote: &Remote, path: &str, body: &Bytes, out: &Out, said: &mut bool) -> Result<(), Trouble> {
    let provider = &remote.provider;
    let mut request = provider.request("POST", path)?;
    *request.body_mut() = body.clone();
    request.headers_mut().insert(CONTENT_TYPE, crate::http::http::HeaderValue::from_static("application/json"));
    let mut answer = provider.http.send(request).await.map_err(Trouble::of_http)?;
    let status = answer.status();
    if !status.is_success() {
        let after = retry_after(&answer);
        let body = answer.body_mut().start(ERROR).await;
        return Err(Trouble::of_answer(status.as_u16(), after.or_else(|| retry_delay(&body)), &body));
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
        Format::OpenaiChat => Box::new(openai_chat::Decoder::default()),
        Format::OpenaiResponses => Box::new(openai_responses::Decoder::new(&remote.id)),
        Format::Anthropic => Box::new(anthropic::Decoder::new(&remote.id)),
        Format::Gemini => Box::new(gemini::Decoder::new(&remote.id)),
    };
    read(answer, &mut *decoder, out, said).await?;
    let mut events = Vec::new();
    let Some((finish, tokens)) = decoder.close(&mut events) else {
        return Err(Trouble::Passing { why: "the answer broke off before its end.".into(), after: None });
    };
    events.extend(tokens.map(|tokens| Event::Usage(tokens.usage(&remote.known))));
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
        match answer.body_mut().chunk().await.map_err(Trouble::of_http)? {
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

fn retry_after<T>(answer: &Response<T>) -> Option<Duration> {
    let header = |name: &str| answer.headers().get(name).and_then(|value| value.to_str().ok());
    let exact = header("retry-after-ms").and_then(|text| text.trim().parse().ok()).map(Duration::from_millis);
    let seconds = header(RETRY_AFTER.as_str()).and_then(|text| text.trim().parse::<f64>().ok());
    exact.or_else(|| Duration::try_from_secs_f64(seconds?).ok())
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
            return Err(Trouble::Key);
        }
        let wrong = |_| Trouble::Other(format!("the address `{}` is not right", self.shown_url()));
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base_url))
            .body(Bytes::new())
            .map_err(wrong)?;
        let headers = request.headers_mut();
        if let Some(key) = key {
            if !self.may_carry_key() {
                return Err(Trouble::Other(format!(
                    "the key would go over the network unprotected to {}; use an https address, or set `insecure = true` \
                     in [providers.{}]",
                    self.host(),
                    self.name
                )));
            }
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
