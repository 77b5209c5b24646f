//! The answer to a request of the peer: given once, by whoever has the responder, and by its drop if nobody did.

use crate::connection::Shared;
use crate::machine::Ticket;
use crate::{Cancel, Error, Id};
use std::sync::{Arc, OnceLock};
use tokio::sync::oneshot;

/// The right and the duty to answer one request of the peer.
pub struct Responder {
    pub(crate) shared: Arc<Shared>,
    pub(crate) ticket: Option<Ticket>,
    pub(crate) cancel: OnceLock<Cancel>,
    /// Dropped with the responder: what waits for the answer in a batch goes on.
    pub(crate) _done: Option<oneshot::Sender<()>>,
}

impl Responder {
    /// Raised when the peer withdraws the request. It must be answered all the same.
    pub fn cancel(&self) -> &Cancel {
        self.cancel.get_or_init(|| match &self.ticket {
            Some(ticket) => self.shared.machine().cancel(ticket),
            None => Cancel::default(),
        })
    }

    /// The id of the request.
    pub fn id(&self) -> Option<&Id> {
        self.ticket.as_ref().map(|ticket| &ticket.id)
    }

    /// Answers with a result, when there is room for it; `body` writes the JSON value.
    pub async fn reply(self, body: impl FnOnce(&mut Vec<u8>)) {
        self.shared.outbox.room().await;
        self.reply_now(body);
    }

    /// Answers with an error, when there is room for it.
    pub async fn fail(self, error: &Error) {
        self.shared.outbox.room().await;
        self.fail_now(error);
    }

    /// Answers with a result at once.
    pub fn reply_now(mut self, body: impl FnOnce(&mut Vec<u8>)) {
        self.take(|out| {
            out.extend_from_slice(b",\"result\":");
            body(out);
        });
    }

    /// Answers with an error at once.
    pub fn fail_now(mut self, error: &Error) {
        self.take(|out| write_error(out, error));
    }

    fn take(&mut self, body: impl FnOnce(&mut Vec<u8>)) {
        if let Some(ticket) = self.ticket.take() {
            self.shared.answer(ticket, body);
        }
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        if self.ticket.is_some() {
            tracing::error!("a request was dropped without an answer");
            self.take(|out| write_error(out, &Error::internal()));
        }
    }
}

pub(crate) fn write_error(out: &mut Vec<u8>, error: &Error) {
    out.extend_from_slice(b",\"error\":");
    error.write(out);
}
