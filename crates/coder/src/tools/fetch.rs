//! `fetch`: a page or file from the web, up to a size.

use super::{Boxed, Output, Prepared, Scene, Tool, arguments, object};
use crate::workspace::blocking;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tieline::ToolKind;
use tieline_host::rules::{Action, Host};

/// As much as is read, in bytes.
const MOST: u64 = 1 << 20;
/// As much as the model is told, in characters.
const TOLD: usize = 40_000;
const TIME: Duration = Duration::from_secs(30);

pub struct Fetch;

#[derive(Deserialize)]
struct Input {
    url: String,
}

impl Tool for Fetch {
    fn name(&self) -> &'static str {
        "fetch"
    }

    fn description(&self) -> &'static str {
        "Gets a text from an http or https address, up to 1 MiB. Does not follow redirections; it tells where they lead."
    }

    fn schema(&self) -> Value {
        object(&[("url", "string".into(), "")])
    }

    fn kind(&self) -> ToolKind {
        ToolKind::Fetch
    }

    fn prepare(&self, input: Value, _: Arc<Scene>) -> Boxed<Result<Prepared, String>> {
        Box::pin(async move {
            let Input { url } = arguments(input)?;
            let host = Host::of_url(&url).ok_or("The address is not a plain http or https address.")?;
            let title = format!("Fetch {url}");
            let mut prepared =
                Prepared::new(title, move |_| async move { Output::of(blocking(move || get(&url)).await) });
            prepared.actions.push(Action::Fetch(host));
            Ok(prepared)
        })
    }
}

fn get(url: &str) -> Result<Output, String> {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .timeout_global(Some(TIME))
        .max_redirects(0)
        .http_status_as_error(false)
        .user_agent(concat!("tieline/", env!("CARGO_PKG_VERSION")))
        .build()
        .into();
    let mut answer = agent.get(url).call().map_err(|error| error.to_string())?;
    let status = answer.status().as_u16();
    let header = |name: &str| answer.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let kind = header("content-type").unwrap_or_default();
    if let Some(target) = header("location").filter(|_| (300..400).contains(&status)) {
        return Ok(Output::text(format!("It leads elsewhere ({status}): {target}")).raw(json!({ "status": status })));
    }
    let bytes = answer.body_mut().with_config().limit(MOST).read_to_vec().map_err(|error| error.to_string())?;
    let size = bytes.len();
    let Ok(text) = String::from_utf8(bytes) else {
        return Err(format!("It is no text ({kind}, {size} bytes)."));
    };
    let mut told: String = text.chars().take(TOLD).collect();
    if told.len() < text.len() {
        told.push_str("\n(cut here)");
    }
    let mut output = Output::text(told).raw(json!({ "status": status, "type": kind, "bytes": size }));
    output.failed = status >= 400;
    Ok(output)
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
        format!("http://{address}/")
    }

    #[test]
    fn answers() {
        let page = get(&serve("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi")).unwrap();
        assert_eq!((page.content[0].as_text(), page.failed), (Some("hi"), false));
        let moved = get(&serve("HTTP/1.1 302 Found\r\nlocation: http://elsewhere/\r\ncontent-length: 0\r\n\r\n"));
        assert!(moved.unwrap().content[0].as_text().unwrap().contains("http://elsewhere/"));
        assert!(get(&serve("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")).unwrap().failed);
        assert!(get(&serve("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n\r")).is_err());
        assert!(get("http://127.0.0.1:1/").is_err());
    }
}
