//! What an agent can ask of its client: files, terminals, forms, extensions. Only what the client offers.

use super::negotiated::Negotiated;
use super::terminal::Terminal;
use crate::error::{Error, Result};
use crate::meta::Carried;
use crate::request::{self, absolute, offered, within};
use crate::wire;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use std::time::Duration;
use tieline_rpc::{Cancel, Peer};
use tieline_schema::{
    ClientCall, ClientCapabilities, CreateTerminalRequest, CreateTerminalResponse, Decode, Dialect, ElicitMode,
    ElicitRequest, ElicitResponse, ElicitScope, ElicitationComplete, Implementation, Meta, PermissionRequest,
    PermissionResponse, ReadTextFileRequest, ReadTextFileResponse, SessionId, WriteTextFileRequest,
    WriteTextFileResponse,
};

/// A handle on the client.
#[derive(Clone)]
pub struct ClientHandle {
    peer: Peer,
    negotiated: Arc<Negotiated>,
    session: Option<SessionId>,
    /// The turn that it belongs to: a client that cancels it knows what that means for its questions.
    turn: Option<Cancel>,
    carried: Carried,
}

impl std::fmt::Debug for ClientHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientHandle").field("info", &self.negotiated.info).finish_non_exhaustive()
    }
}

impl ClientHandle {
    pub(crate) fn new(peer: Peer, negotiated: Arc<Negotiated>, session: Option<SessionId>) -> Self {
        Self { peer, negotiated, session, turn: None, carried: Carried::default() }
    }

    pub(super) fn carrying(self, carried: Carried) -> Self {
        Self { carried, ..self }
    }

    /// The same client; what is asked or told through this handle carries this `_meta`, also by its terminals.
    #[must_use]
    pub fn with_meta(&self, meta: Meta) -> Self {
        self.clone().carrying(Carried::new(meta))
    }

    /// The `_meta` of the last answer to what was asked through this handle; only of one that [`Self::with_meta`] gave.
    pub fn answer_meta(&self) -> Option<Meta> {
        self.carried.answered()
    }

    /// How long the client may take for a file or a terminal: [`super::Server::deadline`].
    pub(super) fn deadline(&self) -> Option<Duration> {
        Some(self.negotiated.deadline)
    }

    /// The same during a turn. What the turn asked is not withdrawn one by one once the client has cancelled it; only
    /// current v2 wants that.
    pub(crate) fn during(mut self, turn: &Cancel) -> Self {
        self.turn = (self.dialect() != Dialect::V2).then(|| turn.clone());
        self
    }

    /// Who the client is, if it said so.
    pub fn info(&self) -> Option<&Implementation> {
        self.negotiated.info.as_ref()
    }

    /// What the client offers, as far as the dialect has words for it: in current v2 neither files nor terminals.
    pub fn capabilities(&self) -> &ClientCapabilities {
        &self.negotiated.capabilities
    }

    /// The dialect the client speaks.
    pub fn dialect(&self) -> Dialect {
        self.negotiated.dialect
    }

    /// Waits until the client is gone.
    pub async fn closed(&self) {
        self.peer.closed().await;
    }

    /// Reads a text file as the user sees it, unsaved changes included. `line` counts from 1.
    ///
    /// V1 and seed-era v2, where offered. Current v2 has no files: [`Error::NotInDialect`]; see [`super::About::prefer_client_tools`].
    pub async fn read_text_file(&self, path: &str, line: Option<u32>, limit: Option<u32>) -> Result<String> {
        self.tool(|can| can.fs_read, "reading files")?;
        absolute(path)?;
        if line == Some(0) {
            return Err(Error::Invalid("lines count from 1".into()));
        }
        let request =
            ReadTextFileRequest { session_id: self.session()?, path: path.into(), line, limit, ..Default::default() };
        let answer: ReadTextFileResponse = self.ask(ClientCall::ReadTextFile(request), self.deadline()).await?;
        Ok(answer.content)
    }

    /// Writes a text file; creates it if needed. In the same dialects as [`Self::read_text_file`].
    pub async fn write_text_file(&self, path: &str, content: impl Into<String>) -> Result<()> {
        self.tool(|can| can.fs_write, "writing files")?;
        absolute(path)?;
        let content = content.into();
        let request =
            WriteTextFileRequest { session_id: self.session()?, path: path.into(), content, ..Default::default() };
        self.ask::<WriteTextFileResponse>(ClientCall::WriteTextFile(request), self.deadline()).await.map(drop)
    }

    /// Starts a command in a terminal of the client. The session is filled in. In the same dialects as [`Self::read_text_file`].
    pub async fn terminal(&self, request: CreateTerminalRequest) -> Result<Terminal> {
        self.tool(|can| can.terminal, "terminals")?;
        if let Some(cwd) = &request.cwd {
            absolute(cwd)?;
        }
        let session_id = self.session()?;
        let request = CreateTerminalRequest { session_id: session_id.clone(), ..request };
        let client = self.clone();
        // In a task of its own: if nobody waits for it any more, the terminal is released as soon as it is there.
        let task = tokio::spawn(async move {
            let call = ClientCall::CreateTerminal(Box::new(request));
            let answer: CreateTerminalResponse = client.ask(call, client.deadline()).await?;
            Ok(Terminal::new(client, session_id, answer.terminal_id))
        });
        task.await.unwrap_or_else(|panic| Err(Error::internal(panic)))
    }

    /// Asks the user for permission outside a turn of this client, for agents that several clients share; in a turn there is
    /// [`super::Turn::ask`]. The session is filled in. The older dialects are asked about a tool call; one is made up if the subject is
    /// something else. Who stops waiting withdraws the question.
    pub async fn request_permission(&self, request: PermissionRequest) -> Result<PermissionResponse> {
        let request = PermissionRequest { session_id: self.session()?, ..request };
        self.ask(ClientCall::Permission(Box::new(request)), None).await
    }

    /// Asks the user to fill in a form or to visit a page. The session is filled in.
    ///
    /// V1 and current v2, where offered; never in seed-era v2.
    pub async fn elicit(&self, message: impl Into<String>, mode: ElicitMode) -> Result<ElicitResponse> {
        let can = match &mode {
            ElicitMode::Form(_) => self.capabilities().elicit_form,
            ElicitMode::Url { .. } => self.capabilities().elicit_url,
            ElicitMode::Other(_) => false,
        };
        offered(can, &format!("elicitation by {}", mode.name()))?;
        let scope = ElicitScope::Session { session_id: self.session()?, tool_call_id: None };
        let request = ElicitRequest { message: message.into(), scope, mode, meta: None };
        self.ask(ClientCall::Elicit(Box::new(request)), None).await
    }

    /// Tells the client that a page it opened has done its work. Seed-era v2 has no pages: there it does nothing.
    pub async fn elicitation_complete(&self, elicitation_id: impl Into<String>) -> Result<()> {
        let mut call = ClientCall::ElicitationComplete(ElicitationComplete {
            elicitation_id: elicitation_id.into(),
            ..ElicitationComplete::default()
        });
        self.carried.fill(call.meta_mut());
        let Some(method) = call.wire_name(self.dialect()) else { return Ok(()) };
        Ok(self.peer.notify(method, wire::write(&call, self.dialect())).await?)
    }

    /// Calls an extension method of the client; its name starts with `_`.
    pub async fn call<T: DeserializeOwned>(&self, method: &str, params: &(impl Serialize + ?Sized)) -> Result<T> {
        request::call_extension(&self.peer, (self.dialect(), &self.carried), method, params).await
    }

    /// Sends an extension notification to the client; its name starts with `_`.
    pub async fn notify(&self, method: &str, params: &(impl Serialize + ?Sized)) -> Result<()> {
        request::notify_extension(&self.peer, self.dialect(), method, params).await
    }

    /// The connection itself.
    pub(crate) fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Sends a request of the protocol. A caller that stops waiting withdraws it.
    pub(crate) async fn ask<T: Decode + Send + 'static>(
        &self,
        mut call: ClientCall,
        limit: Option<Duration>,
    ) -> Result<T> {
        let dialect = self.dialect();
        self.carried.fill(call.meta_mut());
        let Some(method) = call.wire_name(dialect) else {
            let way_out = "ask only where `dialect` says that it can be said";
            return Err(Error::NotInDialect { what: "what was asked", dialect, way_out });
        };
        let work = async {
            let read = self.carried.reading(|json| T::decode(json));
            let pending = self.peer.call(method, wire::write(&call, dialect), read).await;
            match &self.turn {
                Some(turn) => pending.unless(turn.clone()).await,
                None => pending.await,
            }
        };
        within(limit, work).await.map_err(|error| Error::of_call(error, method, limit.unwrap_or_default()))
    }

    /// Refuses to ask for a file or a terminal that is not offered, or that can't be asked for.
    fn tool(&self, can: impl Fn(&ClientCapabilities) -> bool, what: &'static str) -> Result<()> {
        let dialect = self.dialect();
        if dialect == Dialect::V2 {
            let way_out = if can(&self.negotiated.not_in_dialect) {
                "the client serves them in version 1, which `About::prefer_client_tools` or `Server::protocol` chooses"
            } else {
                "the client has to offer them in version 1; until then use the disk and processes of your own"
            };
            return Err(Error::NotInDialect { what, dialect, way_out });
        }
        offered(can(self.capabilities()), what)
    }

    pub(super) fn session(&self) -> Result<SessionId> {
        self.session.clone().ok_or_else(|| Error::Invalid("this needs a session".into()))
    }
}
