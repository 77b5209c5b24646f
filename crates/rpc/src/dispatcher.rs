//! What becomes of a message: calls go to the service, answers to those who wait for them, rubbish is complained about.

use crate::connection::{CANCEL_METHOD, Shared};
use crate::machine::Place;
use crate::message::{Call, Message, Outcome, Outline, parse};
use crate::responder::{Responder, write_error};
use crate::service::{Dropped, Service};
use crate::{CallError, Error, Id};
use std::sync::{Arc, OnceLock};
use tieline_json::Reader;
use tokio::sync::oneshot;

/// So much of a name that the peer made up is told, in characters.
const MAX_TOLD_NAME: usize = 100;

/// Where messages are judged and handed on.
pub(crate) struct Dispatcher<S> {
    pub(crate) shared: Arc<Shared>,
    pub(crate) service: Arc<S>,
}

impl<S: Service> Dispatcher<S> {
    fn parse<'a>(&self, text: &'a str) -> Message<'a, S::Call> {
        parse(text, self.service.id_rule(), &|method, params| {
            // Handled here, not above: its parameters are read when it is carried out.
            if method == CANCEL_METHOD { Ok(None) } else { self.service.decode(method, params) }
        })
    }

    pub(crate) fn frame(self: &Arc<Self>, frame: &[u8]) {
        let Ok(text) = std::str::from_utf8(frame) else { return self.unparsable(frame) };
        match self.parse(text) {
            Message::Batch(entries) => self.batch(&entries),
            Message::Unparsable => self.unparsable(frame),
            message => self.message(message, text, Place::Alone, None),
        }
    }

    fn unparsable(&self, frame: &[u8]) {
        self.service.dropped(Dropped::Line(frame));
        self.shared.complain(None, &Error::parse());
    }

    /// A call that was not carried out, and why.
    fn bad_call(&self, method: &str, why: std::fmt::Arguments<'_>) {
        let name: String = method.chars().take(MAX_TOLD_NAME).collect();
        self.service.dropped(Dropped::Bad(&format!("`{name}`: {why}")));
    }

    /// The last line had no line end: it counts only if it can be read.
    pub(crate) fn last(self: &Arc<Self>, frame: &[u8]) {
        if std::str::from_utf8(frame).is_ok_and(|text| !matches!(self.parse(text), Message::Unparsable)) {
            self.frame(frame);
        } else {
            self.service.dropped(Dropped::Line(frame));
        }
    }

    pub(crate) fn too_long(&self, head: &[u8]) {
        let head = match std::str::from_utf8(head) {
            Ok(text) => text,
            Err(error) => std::str::from_utf8(&head[..error.valid_up_to()]).unwrap_or_default(),
        };
        let Outline { id, is_response, .. } = Outline::of(head);
        self.service.dropped(Dropped::Over("a message over the size limit"));
        if is_response {
            // Never answered; and the call that waits for it must not wait in vain.
            return self.response(id, Err(tieline_json::Error::data("over the size limit")));
        }
        self.shared.complain(id.as_ref(), &Error::invalid_request().with("reason", "message_too_large"));
    }

    /// Handles one message. `done` is dropped when a request has been answered.
    fn message(&self, message: Message<'_, S::Call>, text: &str, place: Place, done: Option<oneshot::Sender<()>>) {
        match message {
            Message::Request { id, method, call } => self.request(id, &method, call, place, done),
            Message::Notification { method, call } => match call {
                _ if method == CANCEL_METHOD => self.cancel(text),
                Call::Known(call) => self.service.notification(call, text.len()),
                // By convention these may be ignored by whoever does not know them.
                Call::Unknown if method.starts_with("$/") => tracing::debug!(%method, "a notification nobody knows"),
                Call::Unknown => self.bad_call(&method, format_args!("there is no such notification")),
                Call::Bad(error) => self.bad_call(&method, format_args!("it can't be read: {error}")),
            },
            Message::Response { id, outcome } => self.response(id, outcome),
            Message::Batch(_) | Message::Invalid | Message::Unparsable => {
                self.service.dropped(Dropped::Bad("JSON that is no message"));
                self.refuse(None, &Error::invalid_request(), place);
            }
            Message::TooMuch(id, what) => {
                self.service.dropped(Dropped::Over(&format!("a message with {what}")));
                self.refuse(id, &Error::invalid_request().with("reason", &what.replace(' ', "_")), place);
            }
        }
    }

    fn request(&self, id: Id, method: &str, call: Call<S::Call>, place: Place, done: Option<oneshot::Sender<()>>) {
        let admitted = self.shared.machine().admit(id, place);
        let ticket = match admitted {
            Ok(ticket) => ticket,
            Err(ticket) => {
                let error = overloaded();
                return self.shared.answer(ticket, |out| write_error(out, &error));
            }
        };
        let responder =
            Responder { shared: Arc::clone(&self.shared), ticket: Some(ticket), cancel: OnceLock::new(), _done: done };
        match call {
            Call::Known(call) => self.service.request(call, responder),
            Call::Unknown => {
                let error = self.service.refusal(method).unwrap_or_else(|| Error::method_not_found(method));
                responder.fail_now(&error);
            }
            Call::Bad(error) => {
                let error = self.service.refusal(method).unwrap_or_else(|| Error::invalid_params(error));
                responder.fail_now(&error);
            }
        }
    }

    /// Answers something that is no request.
    fn refuse(&self, id: Option<Id>, error: &Error, place: Place) {
        let id = id.unwrap_or(Id::Text("null".into()));
        let mut machine = self.shared.machine();
        let (Ok(ticket) | Err(ticket)) = machine.admit(id, place);
        drop(machine);
        self.shared.answer(ticket, |out| write_error(out, error));
    }

    fn response(&self, id: Option<Id>, outcome: Result<Outcome<'_>, tieline_json::Error>) {
        let waiter = id.as_ref().and_then(|id| self.shared.machine().answered(id));
        let Some(waiter) = waiter else {
            // What waits for it would only be told that nothing came.
            if let Some(Id::Text(text)) = &id
                && text.starts_with('"')
            {
                let text: String = text.chars().take(MAX_TOLD_NAME).collect();
                let what = format!("an answer with the id {text}: what was asked has a number");
                self.service.dropped(Dropped::Bad(&what));
            }
            return tracing::debug!(id = ?id, "an answer nobody waits for");
        };
        waiter(match outcome {
            Ok(Outcome::Result(text)) => Ok(text),
            Ok(Outcome::Error(text)) => Err(CallError::Answered(Error::read(text))),
            Err(error) => Err(CallError::Unreadable(error)),
        });
    }

    fn cancel(&self, text: &str) {
        match cancelled_id(text) {
            Ok(Some(id)) => self.shared.machine().withdraw(&id),
            _ => tracing::debug!("a cancellation without a request id"),
        }
    }

    /// Takes an array: entries run side by side, answers are gathered into one array.
    fn batch(self: &Arc<Self>, entries: &[&str]) {
        let limits = &self.shared.limits;
        if limits.refuse_batches || entries.is_empty() || entries.len() > limits.batch_entries {
            let what = format!("a batch of {} messages", entries.len());
            self.service.dropped(if entries.is_empty() { Dropped::Bad(&what) } else { Dropped::Over(&what) });
            return self.shared.complain(None, &Error::invalid_request());
        }
        let batch = self.shared.machine().open_batch();
        for (index, entry) in entries.iter().enumerate() {
            let Some(wait) = self.entry(entry, batch) else { continue };
            let rest: Vec<Box<str>> = entries[index + 1..].iter().map(|entry| (*entry).into()).collect();
            if rest.is_empty() {
                break;
            }
            // A lifecycle entry: what follows in the array waits for it, what follows the array does not.
            let dispatcher = Arc::clone(self);
            tokio::spawn(async move { dispatcher.rest_of_batch(wait, rest, batch).await });
            return;
        }
        self.seal(batch);
    }

    async fn rest_of_batch(self: Arc<Self>, mut wait: oneshot::Receiver<()>, rest: Vec<Box<str>>, batch: u64) {
        let _ = (&mut wait).await;
        for entry in rest {
            if let Some(wait) = self.entry(&entry, batch) {
                let _ = wait.await;
            }
        }
        self.seal(batch);
    }

    /// Handles one entry. Gives something to wait for if it is a lifecycle request.
    fn entry(self: &Arc<Self>, text: &str, batch: u64) -> Option<oneshot::Receiver<()>> {
        let message = self.parse(text);
        let (place, lifecycle) = match &message {
            Message::Notification { .. } | Message::Response { .. } => (Place::Alone, false),
            Message::Request { method, .. } => (self.shared.machine().slot(batch), self.service.is_lifecycle(method)),
            _ => (self.shared.machine().slot(batch), false),
        };
        let (done, wait) = lifecycle.then(oneshot::channel).unzip();
        self.message(message, text, place, done);
        wait
    }

    fn seal(&self, batch: u64) {
        let mut machine = self.shared.machine();
        if self.shared.outbox.push_if(|out| machine.seal(batch, out)).is_err() {
            machine.drop_batch(batch);
        }
        if machine.is_idle() {
            self.shared.idle.notify_all();
        }
    }
}

#[cold]
fn overloaded() -> Error {
    let data = tieline_json::Raw::new(r#"{"reason":"overloaded","retryAfter":1}"#).ok();
    Error { data, ..Error::new(-32001, "Too many open requests") }
}

/// The id that a `$/cancel_request` names.
fn cancelled_id(text: &str) -> Result<Option<Id>, tieline_json::Error> {
    let mut json = Reader::new(text);
    let mut object = json.object()?;
    while let Some(key) = object.key(&mut json)? {
        if key != "params" {
            json.skip()?;
            continue;
        }
        let mut params = json.object()?;
        while let Some(key) = params.key(&mut json)? {
            if key == "requestId" {
                return Id::read(&mut json).map(Some);
            }
            json.skip()?;
        }
    }
    Ok(None)
}
