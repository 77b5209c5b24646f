//! What an agent may ask of a client. Everything has a default that refuses.

use super::handle::AgentHandle;
use crate::error::{Error, Result};
use std::future::Future;
use tieline_rpc::Dropped;
use tieline_schema::{
    CreateTerminalRequest, ElicitRequest, ElicitResponse, ExitStatus, PermissionOption, PermissionOptionKind,
    PermissionOutcome, PermissionRequest, Raw, ReadTextFileRequest, TerminalOutputResponse, TerminalRequest,
    WriteTextFileRequest,
};

/// Serves an agent's requests. Not every dialect has words for all of them: permission is asked for everywhere, files and terminals in
/// [`V1`](crate::Dialect::V1) and [`V2Seed`](crate::Dialect::V2Seed), forms and pages in `V1` and [`V2`](crate::Dialect::V2), extensions everywhere;
/// [the guide](crate::guide::dialects) has the table.
///
///  The engine has checked them: only what [`crate::ClientCapabilities`] offers comes here, paths
/// are absolute, lines count from 1. A future may be dropped when the agent or the user does not want the answer any more.
pub trait Handler: Send + Sync + 'static {
    /// It only passes on: methods that are not of the protocol, whatever they are called, and those for files and terminals go to
    /// [`Self::extension`] and [`Self::extension_notification`], too, once they are checked.
    const RELAYS: bool = false;

    /// Lets the user decide. What the agent said of the tool call before is filled in. When the turn is
    /// cancelled meanwhile, the engine answers for you.
    fn permission(&self, request: PermissionRequest) -> impl Future<Output = PermissionOutcome> + Send {
        async move { refuse(&request.options) }
    }

    /// Reads a text file, as the user sees it. Never asked for in current v2; see [`Client::offer`](super::Client::offer).
    fn read_text_file(&self, request: ReadTextFileRequest) -> impl Future<Output = Result<String>> + Send {
        async move { Err(Error::not_found(&request.path)) }
    }

    /// Writes a text file; creates it if needed. Never asked for in current v2.
    fn write_text_file(&self, request: WriteTextFileRequest) -> impl Future<Output = Result<()>> + Send {
        async move { Err(Error::not_found(&request.path)) }
    }

    /// Starts a command and returns the id of its terminal at once. Never asked for in current v2.
    fn create_terminal(&self, request: CreateTerminalRequest) -> impl Future<Output = Result<String>> + Send {
        let _ = request;
        async { Err(Error::method_not_found("terminal/create")) }
    }

    /// What the terminal shows so far.
    fn terminal_output(&self, request: TerminalRequest) -> impl Future<Output = Result<TerminalOutputResponse>> + Send {
        async move { Err(Error::not_found(&request.terminal_id)) }
    }

    /// Waits until the command ends.
    fn wait_for_terminal_exit(&self, request: TerminalRequest) -> impl Future<Output = Result<ExitStatus>> + Send {
        async move { Err(Error::not_found(&request.terminal_id)) }
    }

    /// Stops the command, keeps the terminal.
    fn kill_terminal(&self, request: TerminalRequest) -> impl Future<Output = Result<()>> + Send {
        async move { Err(Error::not_found(&request.terminal_id)) }
    }

    /// Stops the command and frees the terminal.
    fn release_terminal(&self, request: TerminalRequest) -> impl Future<Output = Result<()>> + Send {
        async move { Err(Error::not_found(&request.terminal_id)) }
    }

    /// Asks the user to fill in a form or to visit a page. Never asked for in seed-era v2.
    fn elicit(&self, request: ElicitRequest) -> impl Future<Output = Result<ElicitResponse>> + Send {
        let _ = request;
        async { Ok(ElicitResponse::default()) }
    }

    /// A page that was opened has done its work. Never told in seed-era v2. Unknown ids are to be
    /// ignored.
    fn elicitation_complete(&self, elicitation_id: String) -> impl Future<Output = ()> + Send {
        let _ = elicitation_id;
        async {}
    }

    /// Answers a request whose name starts with `_`. The connection lives as long as `agent` does: don't keep it.
    fn extension(&self, method: String, params: Raw, agent: AgentHandle) -> impl Future<Output = Result<Raw>> + Send {
        let _ = (params, agent);
        async move { Err(Error::method_not_found(&method)) }
    }

    /// Hears that something of the agent's was passed over: it can't be read, or is over a limit. On the reader, and perhaps in
    /// floods, so it must be quick.
    fn dropped(&self, what: Dropped<'_>) {
        what.log();
    }

    /// Hears a notification whose name starts with `_`.
    fn extension_notification(
        &self,
        method: String,
        params: Raw,
        agent: AgentHandle,
    ) -> impl Future<Output = ()> + Send {
        let _ = (method, params, agent);
        async {}
    }
}

/// A handler that refuses everything.
#[derive(Debug, Clone, Copy, Default)]
pub struct Refuse;

impl Handler for Refuse {}

/// The refusal among the offered options: once rather than for ever. `cancelled` only if none is offered.
pub fn refuse(options: &[PermissionOption]) -> PermissionOutcome {
    let of = |kind: &PermissionOptionKind| options.iter().find(|option| option.kind == *kind);
    of(&PermissionOptionKind::RejectOnce)
        .or_else(|| of(&PermissionOptionKind::RejectAlways))
        .map_or_else(PermissionOutcome::cancelled, |option| PermissionOutcome::selected(&*option.option_id))
}
