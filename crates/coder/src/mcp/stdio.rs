//! A server that is our child process: lines on its standard streams, and nothing of it left when we end.

use super::entry::spec;
use super::link::Link;
use super::result::bounded;
use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde::de::IgnoredAny;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tieline::schema::McpStdio;
use tieline_process::ChildProcess;
use tieline_rpc::{Event, FrameReader, FrameWriter};

/// The longest message of a server, in bytes.
pub const MAX_MESSAGE_BYTES: usize = 16 << 20;
/// How long a server may take to read what was sent before its input is closed.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);

/// Why a connection is over when the output of a server is.
pub const ENDED: &str = "it has ended";

/// The streams of a server.
pub struct Pipe {
    reader: FrameReader,
    writer: FrameWriter,
    link: Arc<Link>,
}

/// Starts a server.
pub async fn start(server: &McpStdio, cwd: &Path, link: &Arc<Link>) -> io::Result<(Pipe, ChildProcess)> {
    let (pipes, child) = ChildProcess::spawn(&spec(server, cwd)).await?;
    let (reader, writer) = tieline::Transport::new(pipes.output, pipes.input).limit(MAX_MESSAGE_BYTES).open();
    Ok((Pipe { reader, writer, link: Arc::clone(link) }, child))
}

/// A message of a server; `None` for what is none. An answer that can't be read is told to those who wait for one.
pub fn parse(bytes: &[u8], link: &Link) -> Option<RxJsonRpcMessage<RoleClient>> {
    let Some(bounded) = bounded(bytes) else {
        tracing::warn!("a message of an MCP server had too many values");
        link.lose();
        return None;
    };
    match serde_json::from_slice(&bounded) {
        Ok(message) => Some(message),
        Err(error) => {
            // Some servers also print other things, which hurts nobody.
            let answer = is_answer(bytes);
            tracing::debug!(
                answer,
                line = error.line(),
                column = error.column(),
                "an MCP server sent what is no message"
            );
            if answer {
                link.lose();
            }
            None
        }
    }
}

/// Whether what can't be read seems to be an answer: other things, such as a log, hurt nobody.
fn is_answer(bytes: &[u8]) -> bool {
    #[derive(Default, serde::Deserialize)]
    #[serde(default)]
    struct Top {
        jsonrpc: Option<IgnoredAny>,
        id: Option<IgnoredAny>,
        result: Option<IgnoredAny>,
        error: Option<IgnoredAny>,
    }
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return false;
    }
    match serde_json::from_slice(bytes) {
        Ok(Top { jsonrpc, id, result, error }) => {
            jsonrpc.is_some() && id.is_some() && (result.is_some() || error.is_some())
        }
        // What is no JSON at all, or was cut off, is judged by its words.
        Err(_) => {
            let has = |word: &str| bytes.windows(word.len()).any(|part| part == word.as_bytes());
            has("\"jsonrpc\"") && has("\"id\"") && (has("\"result\"") || has("\"error\""))
        }
    }
}

impl Transport<RoleClient> for Pipe {
    type Error = io::Error;

    fn send(&mut self, message: TxJsonRpcMessage<RoleClient>) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let (writer, place) = (self.writer.clone(), self.link.place());
        async move {
            let _place = place.await;
            let text = serde_json::to_vec(&message)?;
            let sent = writer.send(|out| out.extend_from_slice(&text)).await;
            sent.map_err(|_| io::Error::new(io::ErrorKind::BrokenPipe, "the server takes nothing any more"))
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            // A server that never stops talking must not keep all others from their turn.
            tokio::task::yield_now().await;
            self.link.room().await;
            match self.reader.next().await {
                Event::Frame(at) | Event::Last(at) => {
                    if let Some(message) = parse(self.reader.bytes(at), &self.link) {
                        return Some(message);
                    }
                }
                Event::TooLong(_) => {
                    tracing::warn!("a message of an MCP server was over the limit");
                    self.link.lose();
                }
                Event::Broken(_) | Event::End(_) => {
                    self.link.end(ENDED);
                    return None;
                }
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, self.writer.close()).await;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_answers_are_missed() {
        for (line, answer) in [
            (r#"{"jsonrpc":"2.0","id":7,"result":{"content":[{]}}"#, true),
            (r#"{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","te"#, true),
            (r#"{"jsonrpc":"2.0","id":7,"error":"not an object"}"#, true),
            (r#"{"level":"error","id":7,"error":"a log"}"#, false),
            (r#"{"level":"info","sent":{"jsonrpc":"2.0","id":7,"result":{}}}"#, false),
            (r#"{"level":"info","sent":"{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}""#, false),
            (r#"{"jsonrpc":"2.0","method":7}"#, false),
            ("{not json}", false),
            ("Listening.", false),
        ] {
            let link = Link::default();
            let mut losses = link.losses();
            assert!(parse(line.as_bytes(), &link).is_none(), "{line}");
            assert_eq!(losses.has_changed().unwrap(), answer, "{line}");
            losses.mark_unchanged();
        }
    }
}
