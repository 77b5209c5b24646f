//! `fetch`: a page or file from the web, up to a size.

use super::{Output, Prepared, Tool, ToolContext, ToolError, Type, argument, html, ready};
use crate::http::http::header::{CONTENT_TYPE, LOCATION};
use crate::http::{Bytes, Http, Request, Uri, join};
use crate::permission::{FINAL, Verdict};
use crate::report::Call;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tieline::ToolKind;
use tieline_host::rules::{Action, Because, Decision, Host, is_local};

/// As much as is read, in bytes.
const MAX_BYTES: usize = 1 << 20;
/// As much as the model is told, in characters.
const MAX_CHARS: usize = 40_000;
/// So many redirections are followed.
const MAX_REDIRECTIONS: usize = 5;
/// How long one server may take.
const SERVER_TIMEOUT: Duration = Duration::from_secs(30);

pub const FETCH: Tool = Tool::new(
    "fetch",
    ToolKind::Fetch,
    "Gets a text from an http or https address, up to 1 MiB. Web pages come as plain text.",
    &[("url", Type::Text, "")],
    |input, ctx| ready(prepare(&input, ctx)),
);

fn prepare(input: &Value, ctx: Arc<ToolContext>) -> Result<Prepared, ToolError> {
    let url: String = argument(input, "url")?;
    let host = host_of(&url)?;
    let mut prepared = Prepared::new(format!("Fetch {url}"), move |call| async move { get(&ctx, &call, url).await });
    prepared.actions.push(Action::Fetch(host));
    Ok(prepared)
}

fn host_of(url: &str) -> Result<Host, ToolError> {
    Host::of_url(url).ok_or_else(|| "The address is not a plain http or https address.".into())
}

/// Gets an address and where it leads to. Another server is another question for the rules.
async fn get(ctx: &ToolContext, call: &Call, mut url: String) -> Result<Output, ToolError> {
    for _ in 0..=MAX_REDIRECTIONS {
        let http = way(ctx, call, &url).await?;
        // The user may take longer to answer a question than a server to answer us.
        let step = tokio::time::timeout(SERVER_TIMEOUT, one(&http, &url)).await;
        match step.map_err(|_| format!("It took more than {} s.", SERVER_TIMEOUT.as_secs()))?? {
            Step::Done(output) => return Ok(output),
            Step::On(next) => {
                let host = host_of(&next)?;
                if host != host_of(&url)? {
                    allow(ctx, call, host, &format!("{url} leads to {next}")).await?;
                }
                url = next;
            }
        }
    }
    Err(format!("It leads on more than {MAX_REDIRECTIONS} times.").into())
}

/// Asks the rules, and where they say so the user, about one more server.
async fn allow(ctx: &ToolContext, call: &Call, host: Host, note: &str) -> Result<(), ToolError> {
    match ctx.permissions.check(call, &[Action::Fetch(host)], Some(note)).await {
        Ok(Verdict::Allowed(_)) => Ok(()),
        Ok(Verdict::Refused(why, _)) => Err(format!("{note}. {why} {FINAL}").into()),
        Ok(Verdict::Cancelled) | Err(_) => Err(format!("{note}. That was not allowed.").into()),
    }
}

/// The way to a server. A name can lead anywhere, so the rules are asked about the addresses that it has, and exactly these
/// are used. What a proxy finds, it does not tell us.
async fn way(ctx: &ToolContext, call: &Call, url: &str) -> Result<Http, ToolError> {
    let Some(found) = ctx.http.find(&parsed(url)?).await? else {
        return Ok(ctx.http.clone());
    };
    let host = host_of(url)?;
    // Everybody knows where this is.
    let is_here = host.name() == "localhost" || host.name().ends_with(".localhost");
    let mut seen = vec![host.clone()];
    for address in found.iter().map(SocketAddr::ip) {
        let there = host.at(address);
        if seen.contains(&there) {
            continue;
        }
        seen.push(there.clone());
        let verdict = ctx.permissions.engine.decide(&Action::Fetch(there.clone()));
        let named = matches!(verdict.because, Because::Rules(_)) && verdict.decision != Decision::Allow;
        let near = is_local(address);
        if named || (near && !is_here) {
            let nearby = if near { ", this machine or its own network" } else { "" };
            allow(ctx, call, there, &format!("{} is at {address}{nearby}", host.name())).await?;
        }
    }
    Ok(ctx.http.at(&found))
}

fn parsed(url: &str) -> Result<Uri, ToolError> {
    url.parse().map_err(|error| format!("The address is not right: {error}").into())
}

enum Step {
    Done(Output),
    On(String),
}

async fn one(http: &Http, url: &str) -> Result<Step, ToolError> {
    let uri = parsed(url)?;
    let request = Request::get(&uri)
        .header("accept", "text/html, text/*;q=0.9, */*;q=0.5")
        .body(Bytes::new())
        .map_err(|error| format!("The address is not right: {error}"))?;
    let mut answer = http.send(request).await?;
    let status = answer.status();
    let header = |name| answer.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let kind = header(CONTENT_TYPE).unwrap_or_default();
    if let Some(target) = header(LOCATION).filter(|_| status.is_redirection()) {
        let next = join(&uri, &target).ok_or("It leads to an address that makes no sense.")?;
        return Ok(Step::On(next.to_string()));
    }
    let bytes = answer.body_mut().bytes(MAX_BYTES).await?;
    let size = bytes.len();
    let Ok(text) = String::from_utf8(bytes) else {
        return Err(format!("It is no text ({kind}, {size} bytes).").into());
    };
    let text = if html::is_page(&kind, &text) { html::text_of(&text) } else { text };
    let mut told: String = text.chars().take(MAX_CHARS).collect();
    if told.len() < text.len() {
        told.push_str("\n(cut here)");
    }
    let raw = json!({ "status": status.as_u16(), "type": kind, "bytes": size, "url": url });
    let mut output = Output::text(told).raw(raw);
    output.failed = status.is_client_error() || status.is_server_error();
    Ok(Step::Done(output))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    /// Answers one request.
    fn serve(answer: &'static str) -> String {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(answer.as_bytes());
        });
        format!("http://{address}/a/b?c")
    }

    async fn page(answer: &'static str) -> Result<Output, String> {
        match one(&Http::default(), &serve(answer)).await.map_err(|error| error.to_string())? {
            Step::Done(output) => Ok(output),
            Step::On(next) => Err(format!("to {next}")),
        }
    }

    #[tokio::test]
    async fn answers() {
        let said = page("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi").await.unwrap();
        assert_eq!((said.content[0].as_text(), said.failed), (Some("hi"), false));
        let said =
            page("HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 9\r\n\r\n<p>hi</p>").await.unwrap();
        assert_eq!(said.content[0].as_text(), Some("hi\n"));
        let moved = page("HTTP/1.1 302 Found\r\nlocation: http://elsewhere/\r\ncontent-length: 0\r\n\r\n").await;
        assert_eq!(moved.err().as_deref(), Some("to http://elsewhere/"));
        assert!(page("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n").await.unwrap().failed);
        assert!(page("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n\r").await.is_err());
        let large = "HTTP/1.1 200 OK\r\ncontent-length: 2000000\r\n\r\n";
        assert!(page(large).await.is_err());
        let Err(why) = one(&Http::default(), "http://127.0.0.1:1/").await else { panic!("an answer") };
        let why = why.to_string();
        assert!(why.starts_with("127.0.0.1:1: can't connect"), "{why}");
    }
}
