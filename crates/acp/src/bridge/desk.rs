//! What the agent asks of its client, asked of ours.

use super::line::Line;
use super::{MAX_TOLD, Shared, pass};
use crate::agent::ClientHandle;
use crate::agent::permission::put;
use crate::client::{AgentHandle, Handler, refuse};
use crate::error::Result;
use crate::{meta, wire};
use std::sync::Arc;
use tieline_rpc::Dropped;
use tieline_rpc::sync::Lock as _;
use tieline_schema::{
    ClientCall, ElicitRequest, ElicitResponse, PermissionOutcome, PermissionRequest, PermissionResponse, Raw,
    SessionId, Severity, data_field,
};

/// So much is told of a line that is no message.
const MAX_HEAD_BYTES: usize = 80;

/// Serves the agent with what the client serves.
pub(super) struct Desk(pub(super) Arc<Shared>);

impl Desk {
    /// The client, behind everything that the agent told in this session before.
    async fn client(&self, session: Option<SessionId>) -> Result<ClientHandle> {
        match session.and_then(|session| self.0.line(&session).ok()) {
            Some(line) => {
                line.queue.reached().await;
                Ok(line.session.client())
            }
            None => self.0.client().await,
        }
    }

    async fn permission_of(&self, request: PermissionRequest) -> Result<PermissionResponse> {
        let client = self.client(Some(request.session_id.clone())).await?;
        let turn = self.0.line(&request.session_id)?.turn.locked().as_ref().map(|open| open.turn.clone());
        match turn {
            Some(turn) => put(&turn, request).await,
            None => client.ask(ClientCall::Permission(Box::new(request)), None).await,
        }
    }
}

impl Handler for Desk {
    const RELAYS: bool = true;

    async fn permission(&self, request: PermissionRequest) -> PermissionOutcome {
        let options = request.options.clone();
        match self.permission_of(request).await {
            Ok(answer) => {
                answer.meta.into_iter().for_each(meta::answer);
                answer.outcome
            }
            // Nobody has allowed it.
            Err(error) => {
                tracing::warn!(%error, "the client did not answer a question");
                refuse(&options)
            }
        }
    }

    async fn elicit(&self, request: ElicitRequest) -> Result<ElicitResponse> {
        let session = request.scope.session().cloned();
        self.client(session).await?.ask(ClientCall::Elicit(Box::new(request)), None).await
    }

    fn dropped(&self, what: Dropped<'_>) {
        let what = match what {
            Dropped::Line(line) => {
                let head = String::from_utf8_lossy(&line[..line.len().min(MAX_HEAD_BYTES)]);
                format!("a line of the agent's that is no message: {head}")
            }
            Dropped::Over(what) | Dropped::Bad(what) => format!("what the agent said wrong: {what}"),
        };
        // Nobody knows which session it was for.
        if self.0.told.locked().len() < MAX_TOLD && self.0.tell(&what) {
            let lines: Vec<Arc<Line>> = self.0.lines.locked().values().cloned().collect();
            tokio::spawn(async move {
                for line in lines {
                    let _ = line.session.notice(Severity::Warning, format!("Not passed on: {what}")).await;
                }
            });
        }
    }

    async fn elicitation_complete(&self, elicitation_id: String) {
        if let Ok(client) = self.0.client().await {
            let client = meta::received().map_or_else(|| client.clone(), |meta| client.with_meta(meta));
            let _ = client.elicitation_complete(elicitation_id).await;
        }
    }

    async fn extension(&self, method: String, params: Raw, _: AgentHandle) -> Result<Raw> {
        // Who asks waits as long as it wants to: if it withdraws the request, so do we.
        pass(self.client(data_field(&params, "sessionId")).await?.peer(), &method, params).await
    }

    async fn extension_notification(&self, method: String, params: Raw, _: AgentHandle) {
        if let Ok(client) = self.0.client().await {
            let _ = client.peer().notify(&method, wire::write(&params, client.dialect())).await;
        }
    }
}
