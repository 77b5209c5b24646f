//! `_meta` beside everything that is said: trace context, and whatever else two implementations agree on.
//!
//! **Sent** with every request and notification: each handle ([`AgentHandle`](crate::client::AgentHandle),
//! [`client::Session`](crate::client::Session), [`ClientHandle`](crate::agent::ClientHandle), [`agent::Turn`](crate::agent::Turn),
//! [`SessionHandle`](crate::agent::SessionHandle)) has `with_meta`. What is said through the handle that it gives carries this
//! `_meta`, unless the caller gave another; its `answer_meta` is what came with the last answer.
//!
//! **Received**: in a handler, [`received`] is the `_meta` of the request that it works on, and [`answer`] sets that of its answer.
//! Both belong to the handler's own task, not to tasks that it starts. A client reads what comes beside an update with
//! [`client::Turn::update_meta`](crate::client::Turn::update_meta). Extensions have their `_meta` in their parameters.
//!
//! ```
//! use tieline::{Meta, Raw, StopReason, Transport, agent, client, meta};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> tieline::Result<()> {
//! let (near, far) = Transport::memory();
//! let echo = agent::from_fn("echo", |_turn, _prompt| async move {
//!     if let Some(trace) = meta::received() {
//!         meta::answer(trace);
//!     }
//!     Ok(StopReason::EndTurn)
//! });
//! tokio::spawn(agent::serve(echo, far));
//! let session = client::connect(near).await?.open("/").await?;
//! let trace = Meta(Raw::of(&serde_json::json!({"traceparent": "00-1-2-01"}))?);
//! let mut turn = session.with_meta(trace.clone()).prompt("Hi").await?;
//! while turn.next().await.is_some() {}
//! assert_eq!(turn.meta(), Some(trace));
//! # Ok(())
//! # }
//! ```

use std::any::Any;
use std::cell::RefCell;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use tieline_json::{Error, Reader};
use tieline_rpc::sync::Lock;
use tieline_schema::{Meta, data_field};
use tokio::task::futures::TaskLocalFuture;

/// One request that is being handled.
pub(crate) struct Exchange {
    received: Option<Meta>,
    answer: RefCell<Option<Meta>>,
    kept: RefCell<Option<Box<dyn Any + Send>>>,
}

tokio::task_local! {
    static EXCHANGE: Exchange;
}

/// The `_meta` of the request or notification that the handler works on which calls this.
pub fn received() -> Option<Meta> {
    EXCHANGE.try_with(|exchange| exchange.received.clone()).ok().flatten()
}

/// Sets the `_meta` of the answer that the handler gives which calls this. An error answer has none. In current v2 a prompt is
/// answered when [`Session::accept`](crate::agent::Session::accept) is done: what is set later goes with the state that ends the turn,
/// and [`client::Turn::meta`](crate::client::Turn::meta) is the same.
pub fn answer(meta: Meta) {
    // Outside a handler there is no answer.
    let _ = EXCHANGE.try_with(|exchange| exchange.answer.replace(Some(meta)));
}

/// Keeps a value until the answer that the handler gives which calls this is on its way: a permit for its memory, say. A client's
/// handlers of files and terminals can; elsewhere it is dropped with the handler.
pub fn keep_until_answered(value: impl Any + Send) {
    let _ = EXCHANGE.try_with(|exchange| exchange.kept.replace(Some(Box::new(value))));
}

/// What the handler wants to be kept.
pub(crate) fn kept() -> Option<Box<dyn Any + Send>> {
    EXCHANGE.try_with(|exchange| exchange.kept.take()).ok().flatten()
}

/// Runs a handler on what came with this `_meta`.
pub(crate) fn scope<F: Future>(received: Option<Meta>, handler: F) -> TaskLocalFuture<Exchange, F> {
    EXCHANGE.scope(Exchange { received, answer: RefCell::default(), kept: RefCell::default() }, handler)
}

/// What a handler that is done wants to go with the answer.
pub(crate) fn answer_of<F: Future>(handler: Pin<&mut TaskLocalFuture<Exchange, F>>) -> Option<Meta> {
    handler.take_value().and_then(|exchange| exchange.answer.into_inner())
}

/// What the handler that calls this wants to go with the answer.
pub(crate) fn taken() -> Option<Meta> {
    EXCHANGE.try_with(|exchange| exchange.answer.take()).ok().flatten()
}

/// The `_meta` that a handle sends with everything, and what came back.
#[derive(Clone, Default)]
pub(crate) struct Carried(Option<Arc<(Meta, Mutex<Option<Meta>>)>>);

impl Carried {
    pub(crate) fn new(meta: Meta) -> Self {
        Self(Some(Arc::new((meta, Mutex::default()))))
    }

    pub(crate) fn sent(&self) -> Option<&Meta> {
        self.0.as_ref().map(|carried| &carried.0)
    }

    /// Fills in the `_meta` of a call.
    pub(crate) fn fill(&self, slot: Option<&mut Option<Meta>>) {
        if let (Some(slot @ None), Some(meta)) = (slot, self.sent()) {
            *slot = Some(meta.clone());
        }
    }

    pub(crate) fn answered(&self) -> Option<Meta> {
        self.0.as_ref().and_then(|carried| carried.1.locked().clone())
    }

    /// Reads an answer as `read` does, and keeps its `_meta`.
    pub(crate) fn reading<T>(
        &self,
        read: impl FnOnce(&mut Reader<'_>) -> Result<T, Error> + Send + 'static,
    ) -> impl FnOnce(&mut Reader<'_>) -> Result<T, Error> + Send + 'static {
        let carried = self.0.clone();
        move |json: &mut Reader<'_>| {
            if let Some(carried) = carried {
                let mark = json.mark();
                *carried.1.locked() = json.keep().ok().and_then(|raw| data_field(&raw, "_meta"));
                json.rewind(mark);
            }
            read(json)
        }
    }
}
