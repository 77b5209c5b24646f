//! What was agreed with the client at `initialize`, and what follows from it for everything it is told.

use crate::error::Error;
use std::time::Duration;
use tieline_schema::{
    AuthMethod, ClientCapabilities, Dialect, ErrorCode, ErrorData, Gates, Implementation, Projector, SHORT_LINE,
};

/// What was agreed at `initialize`.
#[derive(Debug, Clone)]
pub(crate) struct Negotiated {
    pub(crate) dialect: Dialect,
    pub(crate) capabilities: ClientCapabilities,
    /// What the client offers in other dialects: files and terminals, if this one has no words for them.
    pub(crate) not_in_dialect: ClientCapabilities,
    pub(crate) info: Option<Implementation>,
    /// The ways to log in that the client was told.
    pub(crate) auth_methods: Vec<AuthMethod>,
    /// How long the client may take for what needs nobody to think.
    pub(crate) deadline: Duration,
}

/// Clients of version 1 that are known to read lines of any length.
const READ_LONG_LINES: [&str; 4] = ["tieline", "zed", "CodeCompanion.nvim", "acpx"];

impl Negotiated {
    /// How long an update may be, in bytes of JSON; `None` if that does not matter.
    pub(crate) fn longest(&self) -> Option<usize> {
        let knows = |info: &Implementation| READ_LONG_LINES.contains(&info.name.as_str());
        (self.dialect == Dialect::V1 && !self.info.as_ref().is_some_and(knows)).then_some(SHORT_LINE)
    }

    /// What the client is told of an error. One that asks for a login says how.
    pub(crate) fn to_wire(&self, error: &Error) -> tieline_rpc::Error {
        let mut wire = error.to_wire();
        if wire.code != ErrorCode::AUTH_REQUIRED.0 {
            return wire;
        }
        let ids: Option<Vec<String>> = wire.data.as_ref().and_then(|data| data.parse().ok());
        if let Some(ids) = ids {
            let named = |method: &&AuthMethod| ids.iter().any(|id| id == method.id());
            let methods: Vec<AuthMethod> = self.auth_methods.iter().filter(named).cloned().collect();
            wire.data = ErrorData::AuthRequired(&methods).to_raw(self.dialect);
        } else if *error == Error::auth_required() || wire.data.is_none() {
            wire.data = ErrorData::AuthRequired(&self.auth_methods).to_raw(self.dialect);
        }
        wire
    }

    /// What turns updates into what this client can be told.
    pub(crate) fn projector(&self) -> Projector {
        let can = &self.capabilities;
        let gates = Gates {
            boolean_options: can.boolean_options,
            notices: can.notices,
            compaction: can.compaction,
            // The first clients did not say who they are.
            first_kinds: self.dialect == Dialect::V1 && self.info.is_none(),
            longest: self.longest(),
        };
        Projector::new(self.dialect).with_gates(gates).throttled()
    }
}
