//! The driver: runs the machine over a transport. Reads in order, hands calls to a service, routes answers to waiters.

use crate::machine::{Machine, Place, Ticket};
use crate::message::{Call, Message, Outcome, Outline, parse};
use crate::outbox::Outbox;
use crate::peer::{Peer, Waiter};
use crate::sync::{Lock, when};
use crate::transport::{Event, FrameReader, FrameWriter, Transport};
use crate::{CallError, Cancel, Error, Id, IdRule};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use tieline_json::Reader;
use tokio::sync::{Notify, oneshot};

/// The method that withdraws a request, in both directions.
pub const CANCEL_METHOD: &str = "$/cancel_request";

/// What stands above the connection and takes the peer's calls.
///
/// Both `request` and `notification` run on the reader, in the order of arrival, and must not block: they do the
/// bookkeeping that depends on order and spawn the rest.
pub trait Service: Send + Sync + 'static {
    /// A decoded call.
    type Call: Send + 'static;

    /// Reads the parameters of `method`; `Ok(None)` if there is no such method.
    fn decode(&self, method: &str, params: &mut Reader<'_>) -> Result<Option<Self::Call>, tieline_json::Error>;

    /// Takes a request. Dropping the responder answers it with an internal error.
    fn request(&self, call: Self::Call, responder: Responder);

    /// Takes a notification that came as so many bytes.
    fn notification(&self, call: Self::Call, bytes: usize);

    /// Which request ids are allowed at this moment.
    fn id_rule(&self) -> IdRule {
        IdRule::Liberal
    }

    /// Why a request can't be taken now, whatever it is; asked for requests that are unknown or can't be read.
    fn refusal(&self, _method: &str) -> Option<Error> {
        None
    }

    /// Something of the peer's was passed over; whoever is in charge should hear of it. May come in floods.
    fn dropped(&self, what: Dropped<'_>) {
        what.log();
    }

    /// True if later entries of a batch must wait for the answer to this method.
    fn is_lifecycle(&self, _method: &str) -> bool {
        false
    }

    /// Something to wait for before the next message is read, because what was read already is too much.
    fn pause(&self) -> Option<Pin<Box<dyn Future<Output = ()> + Send>>> {
        None
    }
}

/// What was passed over. Words about it may have a name in them that the peer made up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dropped<'a> {
    /// A line that is no message at all.
    Line(&'a [u8]),
    /// It was over a limit of ours, so that nobody has read it.
    Over(&'a str),
    /// It is not what it should be.
    Bad(&'a str),
}

impl Dropped<'_> {
    /// Writes it into the log; for those who have nobody else to tell.
    pub fn log(self) {
        match self {
            Self::Line(line) => tracing::warn!(bytes = line.len(), "a line that is no message was passed over"),
            Self::Over(what) | Self::Bad(what) => tracing::warn!(what, "passed over"),
        }
    }
}

/// So much of a name that the peer made up is told, in characters.
const MAX_TOLD_NAME: usize = 100;

/// Limits of a connection.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Arrays are refused as a whole, as today's official SDKs do.
    pub refuse_batches: bool,
    /// Longer arrays are refused as a whole.
    pub batch_entries: usize,
    /// The peer may have this many requests open at a time; more are answered with -32001.
    pub open_requests: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { refuse_batches: false, batch_entries: 1000, open_requests: 4096 }
    }
}

/// Why a connection ended.
#[derive(Debug)]
pub enum End {
    /// The peer closed its end.
    Eof,
    /// Reading failed.
    Failed(std::io::Error),
    /// The framing could not be followed any more.
    Broken(&'static str),
    /// We were told to stop.
    Stopped,
}

pub(crate) struct Shared {
    pub(crate) outbox: Arc<Outbox>,
    machine: Mutex<Machine<Waiter>>,
    limits: Limits,
    /// The reader has ended; no answer will come any more.
    pub(crate) gone: Cancel,
    idle: Notify,
    stop: Cancel,
}

impl Shared {
    pub(crate) fn machine(&self) -> MutexGuard<'_, Machine<Waiter>> {
        self.machine.locked()
    }

    /// Answers a request, or fills its slot in a batch.
    fn answer(&self, ticket: Ticket, body: impl FnOnce(&mut Vec<u8>)) {
        let mut machine = self.machine();
        let mut ticket = Some(ticket);
        let sent = self.outbox.push_if(|out| match ticket.take() {
            Some(ticket) => {
                let id = ticket.id.clone();
                machine.answer(ticket, out, |out| write_response(out, &id, body))
            }
            None => false,
        });
        if let (Err(_), Some(ticket)) = (sent, &ticket) {
            machine.forget(ticket);
        }
        if machine.is_idle() {
            self.idle.notify_waiters();
        }
    }

    /// An error that answers nothing in particular.
    fn complain(&self, id: Option<&Id>, error: &Error) {
        let _ = self.outbox.push(|out| write_error(out, id, error));
    }

    pub(crate) async fn idle(&self) {
        when(&self.idle, || self.machine().is_idle().then_some(())).await;
    }

    pub(crate) fn stop(&self) {
        self.stop.cancel();
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Nobody can send any more: the writer writes what is queued and closes.
        self.outbox.close();
    }
}

fn write_response(out: &mut Vec<u8>, id: &Id, body: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    id.write(out);
    body(out);
    out.push(b'}');
}

fn write_error(out: &mut Vec<u8>, id: Option<&Id>, error: &Error) {
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    match id {
        Some(id) => id.write(out),
        None => out.extend_from_slice(b"null"),
    }
    out.extend_from_slice(b",\"error\":");
    error.write(out);
    out.push(b'}');
}

/// A connection whose reading has not started yet.
pub struct Connection {
    reader: FrameReader,
    shared: Arc<Shared>,
}

impl Connection {
    /// Opens a transport. Calls can be made at once; answers come when [`Self::run`] runs.
    pub fn open(transport: Transport, limits: Limits) -> (Peer, Self) {
        let (reader, FrameWriter { outbox }) = transport.open();
        let shared = Arc::new(Shared {
            outbox,
            machine: Mutex::new(Machine::new(limits.open_requests)),
            limits,
            gone: Cancel::default(),
            idle: Notify::new(),
            stop: Cancel::default(),
        });
        (Peer::new(Arc::clone(&shared)), Self { reader, shared })
    }

    /// Reads until the peer closes its end. Then every pending call of ours fails; requests of the peer that are still open
    /// can be answered on.
    pub async fn run<S: Service>(self, service: Arc<S>) -> End {
        let Self { mut reader, shared } = self;
        // However this ends (also when the future is dropped), nobody waits for ever.
        let mut gone = Gone { shared: Arc::clone(&shared), dropped: true };
        let end = Self::read(&mut reader, &shared, service).await;
        gone.dropped = false;
        end
    }

    async fn read<S: Service>(reader: &mut FrameReader, shared: &Arc<Shared>, service: Arc<S>) -> End {
        let desk = Arc::new(Desk { shared: Arc::clone(shared), service });
        loop {
            let ready = async {
                shared.outbox.hold_reader().await;
                if let Some(pause) = desk.service.pause() {
                    pause.await;
                }
            };
            tokio::select! {
                biased;
                () = ready => {}
                () = shared.stop.cancelled() => return End::Stopped,
            }
            let event = tokio::select! {
                biased;
                event = reader.next() => event,
                () = shared.stop.cancelled() => return End::Stopped,
            };
            match event {
                Event::Frame(at) => desk.frame(reader.bytes(at)),
                Event::Last(at) => desk.last(reader.bytes(at)),
                Event::TooLong(at) => desk.too_long(reader.bytes(at)),
                Event::Broken(why) => {
                    tracing::warn!(why, "the stream can't be followed any more");
                    shared.complain(None, &Error::parse().with("reason", why));
                    return End::Broken(why);
                }
                Event::End(None) => return End::Eof,
                Event::End(Some(error)) => return End::Failed(error),
            }
        }
    }
}

struct Gone {
    shared: Arc<Shared>,
    /// Reading did not end by itself: the owner has dropped the connection.
    dropped: bool,
}

impl Drop for Gone {
    fn drop(&mut self) {
        // The flag first: a call that comes in between sees it and withdraws itself.
        self.shared.gone.cancel();
        let waiters = self.shared.machine().abandon();
        for waiter in waiters {
            waiter(Err(CallError::Closed));
        }
        if self.dropped {
            self.shared.machine().withdraw_all();
            self.shared.outbox.close();
        }
    }
}

/// Where messages are judged and handed on.
struct Desk<S> {
    shared: Arc<Shared>,
    service: Arc<S>,
}

impl<S: Service> Desk<S> {
    fn parse<'a>(&self, text: &'a str) -> Message<'a, S::Call> {
        parse(text, self.service.id_rule(), &|method, params| {
            // Handled here, not above: its parameters are read when it is carried out.
            if method == CANCEL_METHOD { Ok(None) } else { self.service.decode(method, params) }
        })
    }

    fn frame(self: &Arc<Self>, frame: &[u8]) {
        let Ok(text) = std::str::from_utf8(frame) else { return self.unparsable(frame) };
        match self.parse(text) {
            Message::Batch(entries) => self.batch(&entries),
            Message::Unparsable => self.unparsable(frame),
            message => drop(self.message(message, text, Place::Alone)),
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
    fn last(self: &Arc<Self>, frame: &[u8]) {
        if std::str::from_utf8(frame).is_ok_and(|text| !matches!(self.parse(text), Message::Unparsable)) {
            self.frame(frame);
        } else {
            self.service.dropped(Dropped::Line(frame));
        }
    }

    fn too_long(&self, head: &[u8]) {
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

    /// Handles one message. The receiver resolves when a request has been answered.
    fn message(
        self: &Arc<Self>,
        message: Message<'_, S::Call>,
        text: &str,
        place: Place,
    ) -> Option<oneshot::Receiver<()>> {
        match message {
            Message::Request { id, method, call } => return self.request(id, &method, call, place),
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
        None
    }

    fn request(
        self: &Arc<Self>,
        id: Id,
        method: &str,
        call: Call<S::Call>,
        place: Place,
    ) -> Option<oneshot::Receiver<()>> {
        let admitted = self.shared.machine().admit(id, place);
        let (ticket, cancel) = match admitted {
            Ok(admitted) => admitted,
            Err(ticket) => {
                let error = overloaded();
                self.shared.answer(ticket, |out| write_outcome(out, &error));
                return None;
            }
        };
        let (done, wait) = oneshot::channel();
        let responder = Responder { shared: Arc::clone(&self.shared), ticket: Some(ticket), cancel, _done: done };
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
        Some(wait)
    }

    /// Answers something that is no request.
    fn refuse(&self, id: Option<Id>, error: &Error, place: Place) {
        let id = id.unwrap_or(Id::Text("null".into()));
        let mut machine = self.shared.machine();
        let ticket = match machine.admit(id, place) {
            Ok((ticket, _)) | Err(ticket) => ticket,
        };
        drop(machine);
        self.shared.answer(ticket, |out| write_outcome(out, error));
    }

    fn response(&self, id: Option<Id>, outcome: Result<Outcome<'_>, tieline_json::Error>) {
        let waiter = id.as_ref().and_then(|id| self.shared.machine().answered(id));
        let Some(waiter) = waiter else {
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
            let desk = Arc::clone(self);
            tokio::spawn(async move { desk.rest_of_batch(wait, rest, batch).await });
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
        let wait = self.message(message, text, place);
        wait.filter(|_| lifecycle)
    }

    fn seal(&self, batch: u64) {
        let mut machine = self.shared.machine();
        if self.shared.outbox.push_if(|out| machine.seal(batch, out)).is_err() {
            machine.drop_batch(batch);
        }
        if machine.is_idle() {
            self.shared.idle.notify_waiters();
        }
    }
}

#[cold]
fn overloaded() -> Error {
    let data = tieline_json::Raw::new(r#"{"reason":"overloaded","retryAfter":1}"#).ok();
    Error { data, ..Error::new(-32001, "Too many open requests") }
}

fn write_outcome(out: &mut Vec<u8>, error: &Error) {
    out.extend_from_slice(b",\"error\":");
    error.write(out);
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

/// The right and the duty to answer one request of the peer.
pub struct Responder {
    shared: Arc<Shared>,
    ticket: Option<Ticket>,
    cancel: Cancel,
    /// Dropped with the responder: whoever waits for the answer goes on.
    _done: oneshot::Sender<()>,
}

impl Responder {
    /// Raised when the peer withdraws the request. It must be answered all the same.
    pub fn cancel(&self) -> &Cancel {
        &self.cancel
    }

    /// The id of the request.
    pub fn id(&self) -> Option<&Id> {
        self.ticket.as_ref().map(|ticket| &ticket.id)
    }

    /// Answers with a result, when there is room for it; `body` writes the JSON value.
    pub async fn reply(mut self, body: impl FnOnce(&mut Vec<u8>)) {
        self.shared.outbox.room().await;
        self.take(|out| {
            out.extend_from_slice(b",\"result\":");
            body(out);
        });
    }

    /// Answers with an error, when there is room for it.
    pub async fn fail(mut self, error: &Error) {
        self.shared.outbox.room().await;
        self.take(|out| write_outcome(out, error));
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
        self.take(|out| write_outcome(out, error));
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
            self.take(|out| write_outcome(out, &Error::internal()));
        }
    }
}
