//! What both sides do alike before and while they ask the other one.

use crate::error::{Error, Result};
use crate::meta::Carried;
use crate::wire;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::time::Duration;
use tieline_rpc::{CallError, Peer};
use tieline_schema::{AgentCapabilities, ContentBlock, Dialect, McpServer, Raw, is_absolute};

/// Refuses to ask for what the other side does not offer.
pub(crate) fn offered(offered: bool, what: &str) -> Result<()> {
    if offered { Ok(()) } else { Err(Error::Unsupported(what.to_owned())) }
}

/// Refuses a path that means nothing to the other side.
pub(crate) fn absolute(path: &str) -> Result<()> {
    if is_absolute(path) { Ok(()) } else { Err(Error::Invalid(format!("`{path}` is not an absolute path"))) }
}

/// Whether an agent takes such a block in a prompt; nobody says so of one that is not known.
pub(crate) fn takes_block(can: &AgentCapabilities, block: &ContentBlock) -> bool {
    match block {
        ContentBlock::Text(_) | ContentBlock::ResourceLink(_) => true,
        ContentBlock::Image(_) => can.image,
        ContentBlock::Audio(_) => can.audio,
        ContentBlock::Resource(_) => can.embedded_context,
        ContentBlock::Other(_) => false,
    }
}

/// Whether an agent can reach such an MCP server; nobody says so of one that is not known.
pub(crate) fn reaches_server(can: &AgentCapabilities, server: &McpServer) -> bool {
    match server {
        McpServer::Stdio(_) => can.mcp_stdio,
        McpServer::Http(_) => can.mcp_http,
        McpServer::Sse(_) => can.mcp_sse,
        McpServer::Other(_) => false,
    }
}

/// Waits for an answer, at most so long. The wait for room counts, too: a peer that does not read must not hang us.
pub(crate) async fn within<T>(
    limit: Option<Duration>,
    work: impl Future<Output = Result<T, CallError>>,
) -> Result<T, CallError> {
    match limit {
        Some(limit) => tokio::time::timeout(limit, work).await.unwrap_or(Err(CallError::TimedOut)),
        None => work.await,
    }
}

/// Calls an extension of the other side.
pub(crate) async fn call_extension<T: DeserializeOwned>(
    peer: &Peer,
    (dialect, carried): (Dialect, &Carried),
    method: &str,
    params: &(impl Serialize + ?Sized),
) -> Result<T> {
    let params = extension(method, params)?;
    let pending = peer.call(method, wire::write(&params, dialect), carried.reading(wire::keep)).await;
    let raw: Raw = pending.await.map_err(|error| Error::of_call(error, method, Duration::ZERO))?;
    raw.parse().map_err(|error| Error::Unreadable(format!("{method}: {error}")))
}

/// Tells the other side something of one's own.
pub(crate) async fn notify_extension(
    peer: &Peer,
    dialect: Dialect,
    method: &str,
    params: &(impl Serialize + ?Sized),
) -> Result<()> {
    let params = extension(method, params)?;
    Ok(peer.notify(method, wire::write(&params, dialect)).await?)
}

/// Checks the name of an extension and turns its parameters into JSON.
fn extension(method: &str, params: &(impl Serialize + ?Sized)) -> Result<Raw> {
    if !method.starts_with('_') {
        return Err(Error::Invalid(format!("the name of an extension starts with `_`: {method}")));
    }
    let raw = Raw::of(params).map_err(|error| Error::Invalid(format!("{method}: {error}")))?;
    match raw.get() {
        "null" => Raw::new("{}").map_err(|error| Error::Invalid(error.to_string())),
        text if text.starts_with('{') => Ok(raw),
        _ => Err(Error::Invalid(format!("{method}: parameters are an object"))),
    }
}
