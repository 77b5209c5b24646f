//! `session/attach` and `session/detach`, a proposal: a client joins a session that lives, and leaves it without an end.
//!
//! To an agent that offers it, joining is taking up a session: what the client wants is in the `_meta` of [`Resuming`](super::Resuming),
//! as `attach`.

use super::ClientHandle;
use super::dispatcher::Inner;
use crate::error::{Error, Result};
use tieline_json::{Reader, write_str};
use tieline_schema::{AgentCall, Meta, Raw, Replay, ResumeRequest, SessionId, data_field};

pub(super) const ATTACH: &str = "session/attach";
pub(super) const DETACH: &str = "session/detach";

/// One of the two calls.
pub(super) fn read(method: &str, params: &mut Reader<'_>) -> Result<Option<AgentCall>, tieline_json::Error> {
    if method == DETACH {
        return Ok(Some(AgentCall::Extension { method: method.into(), params: params.keep()? }));
    }
    if method != ATTACH {
        return Ok(None);
    }
    let params: Raw = params.keep()?;
    let session_id: String =
        data_field(&params, "sessionId").ok_or_else(|| tieline_json::Error::missing("sessionId"))?;
    // Everything is told unless something else is wanted.
    let history: Option<String> = data_field(&params, "historyPolicy");
    let replay = if history.is_none_or(|history| history == "full") { Replay::Start } else { Replay::None };
    let meta = Raw::new(format!("{{\"attach\":{}}}", params.get())).ok().map(Meta);
    // Where it works is the session's to know.
    let (cwd, mcp_servers) = ("/".to_owned(), Some(Vec::new()));
    let session_id = session_id.into();
    Ok(Some(AgentCall::Resume(Box::new(ResumeRequest {
        session_id,
        cwd,
        mcp_servers,
        replay,
        meta,
        ..Default::default()
    }))))
}

/// One object with the fields of two; the second may be null.
pub(super) fn joined(more: &str, answer: &[u8]) -> Vec<u8> {
    let inner = more.trim().strip_prefix('{').and_then(|more| more.strip_suffix('}')).unwrap_or_default();
    match answer.strip_prefix(b"{") {
        Some(rest) if !inner.is_empty() => {
            let comma: &[u8] = if rest.starts_with(b"}") { b"" } else { b"," };
            [b"{", inner.as_bytes(), comma, rest].concat()
        }
        Some(_) => answer.to_vec(),
        None => [b"{", inner.as_bytes(), b"}"].concat(),
    }
}

impl ClientHandle {
    /// Tells something in the session for which the protocol has no kind of update, in every dialect. Only for a client that asked for it,
    /// as one does by `session/attach`: others may not bear it.
    pub async fn update_of_proposal(&self, update: &Raw) -> Result<()> {
        let session = self.session()?;
        let params = |out: &mut Vec<u8>| {
            out.extend_from_slice(b"{\"sessionId\":");
            write_str(out, &session);
            out.extend_from_slice(b",\"update\":");
            out.extend_from_slice(update.get().as_bytes());
            out.push(b'}');
        };
        Ok(self.peer().notify("session/update", params).await?)
    }
}

impl Inner {
    /// Leaves a session, which goes on. Gives the answer.
    pub(super) async fn detach(&self, params: &Raw) -> Result<Vec<u8>> {
        let id: String = data_field(params, "sessionId").ok_or_else(|| Error::invalid_params("missing `sessionId`"))?;
        let live = self.live(&SessionId::from(&*id))?;
        if live.is_running() {
            return Err(Error::invalid_request("turn_in_progress"));
        }
        live.leave().await;
        self.state().sessions.remove(live.writer.id());
        self.let_go(&live);
        let mut answer = b"{\"sessionId\":".to_vec();
        write_str(&mut answer, &id);
        answer.extend_from_slice(b",\"status\":\"detached\"}");
        Ok(answer)
    }
}
