//! The first exchange with a client: the dialect is chosen, and what each side can do is known from here on.

use super::client::ClientHandle;
use super::dispatcher::Inner;
use super::negotiated::Negotiated;
use super::session_writer::reply;
use crate::error::{Error, Result};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tieline_rpc::Responder;
use tieline_schema::{
    AuthMethod, ClientCapabilities, Dialect, ErrorData, HelloKeys, InitializeRequest, InitializeResponse, Protocol,
    Refusal, choose,
};

impl Inner {
    /// Answers a hello. Gives the client if it was understood.
    pub(super) async fn greet(&self, request: InitializeRequest, responder: Responder) -> Option<ClientHandle> {
        let answer = match self.agent.hello(request.clone()).await {
            Ok(()) => self.initialize(request),
            Err(error) => Err(error),
        };
        match answer {
            Ok((answer, negotiated)) => {
                reply(responder, &answer, negotiated.dialect);
                Some(self.client(negotiated))
            }
            Err(error) => {
                responder.fail_now(&error.to_wire());
                None
            }
        }
    }

    /// The dialect is chosen here, once.
    fn initialize(&self, request: InitializeRequest) -> Result<(InitializeResponse, Arc<Negotiated>)> {
        let mut state = self.state();
        if let Some(before) = &state.negotiated {
            // Current v2 allows another try before anything else was asked.
            let again = before.dialect == Dialect::V2 && self.settled.get().is_none() && request.protocol_version >= 2;
            if !again {
                return Err(Error::invalid_request("already_initialized"));
            }
        }
        let mut chosen = choose(&request, self.settings.protocol).map_err(|refusal| refused(&refusal))?;
        let for_tools = self.settings.protocol == Protocol::Auto && self.about().prefer_client_tools;
        if for_tools && chosen.dialect == Dialect::V2 && request.capabilities.has_tools() {
            let v1 = Protocol::Only(Dialect::V1);
            chosen = choose(&request, v1).map_err(|refusal| refused(&refusal))?;
        }
        let dialect = chosen.dialect;
        let mut capabilities = request.capabilities;
        let mut not_in_dialect = ClientCapabilities::default();
        if dialect == Dialect::V2 {
            // A client that speaks several versions offers these too, but current v2 has no words to ask for them.
            not_in_dialect = capabilities.take_tools();
        }
        let mut auth_methods = self.about().auth_methods.clone();
        // The seed-era draft has no such methods, whatever the client says.
        let terminal = capabilities.terminal_auth && dialect != Dialect::V2Seed;
        auth_methods.retain(|method| terminal || !matches!(method, AuthMethod::Terminal(_)));
        let answer = InitializeResponse {
            protocol_version: chosen.version,
            info: Some(self.about().info.clone()),
            capabilities: self.about().capabilities.clone(),
            auth_methods: auth_methods.clone(),
            meta: self.about().meta.clone(),
            keys: HelloKeys { old_capabilities: chosen.legacy_keys, ..HelloKeys::default() },
            ..InitializeResponse::default()
        };
        self.exact_ids.store(dialect == Dialect::V2, Ordering::Relaxed);
        let deadline = self.settings.deadline;
        let negotiated =
            Arc::new(Negotiated { dialect, capabilities, not_in_dialect, info: request.info, auth_methods, deadline });
        state.negotiated = Some(Arc::clone(&negotiated));
        Ok((answer, negotiated))
    }
}

fn refused(refusal: &Refusal) -> Error {
    let code = refusal.code();
    let data = match refusal {
        Refusal::BadInfo(error) => return Error::invalid_params(error),
        Refusal::Unsupported { requested, supported } => ErrorData::Versions { requested: *requested, supported },
    };
    let mut error = tieline_rpc::Error::new(code.0, code.message().unwrap_or_default());
    error.data = data.to_raw(Dialect::V2);
    Error::Wire(error)
}
