//! How one prompt ended, as far as is known: what its turn and its session's queue share.

use crate::error::{Error, Result};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use tieline_rpc::sync::Lock;
use tieline_schema::{Meta, StopReason};

/// The far end of one prompt.
#[derive(Debug, Default)]
pub(crate) struct TurnState {
    result: Mutex<Option<Result<StopReason>>>,
    pub(super) message_id: OnceLock<String>,
    /// The `_meta` of the answer or of the end.
    pub(super) meta: Mutex<Option<Meta>>,
    /// The request that carried the prompt.
    request: OnceLock<u64>,
    ended: AtomicBool,
}

impl TurnState {
    /// The id that the agent gave the prompt.
    pub(crate) fn message_id(&self) -> Option<&str> {
        self.message_id.get().map(String::as_str)
    }

    pub(crate) fn result(&self) -> Option<Result<StopReason>> {
        self.result.locked().clone()
    }

    pub(crate) fn sent_as(&self, request: u64) {
        let _ = self.request.set(request);
    }

    pub(crate) fn request(&self) -> Option<u64> {
        self.request.get().copied()
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Ended as far as its reader is concerned.
    pub(crate) fn detached() -> Arc<Self> {
        let result = Mutex::new(Some(Err(Error::TurnOver)));
        Arc::new(Self { result, ended: AtomicBool::new(true), ..Self::default() })
    }

    pub(super) fn finish(&self, result: Result<StopReason>) {
        self.result.locked().get_or_insert(result);
        self.ended.store(true, Ordering::Release);
    }
}

/// What became of a turn that nobody reads any more.
pub(crate) enum Abandoned {
    /// It has ended already.
    Over,
    /// The session works on it.
    Running,
    /// Another turn is before it.
    Waiting,
}
