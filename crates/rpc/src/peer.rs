//! A handle on the other side: call it, notify it, wait for its end.

use crate::connection::{CANCEL_METHOD, Shared};
use crate::{CallError, Cancel, Closed};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tieline_json::{Error, Reader, write_str, write_u64};
use tokio::sync::oneshot;

/// Takes the answer to a call, on the reader.
pub(crate) type Waiter = Box<dyn FnOnce(Result<&str, CallError>) + Send>;

/// A cloneable handle on the other side.
#[derive(Clone)]
pub struct Peer {
    shared: Arc<Shared>,
}

impl std::fmt::Debug for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Peer").field("closed", &self.is_closed()).finish_non_exhaustive()
    }
}

impl Peer {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Sends a notification when there is room; `params` writes a JSON object.
    pub async fn notify(&self, method: &str, params: impl FnOnce(&mut Vec<u8>)) -> Result<(), Closed> {
        self.shared.outbox.send(|out| write_call(out, None, method, params)).await
    }

    /// Waits until there is room for a message. For those who must check something between the wait and the sending.
    pub async fn room(&self) {
        self.shared.outbox.room().await;
    }

    /// Waits until the peer has taken nothing for this long, though senders wait for it.
    pub async fn stalled(&self, limit: Duration) {
        self.shared.outbox.stalled(limit).await;
    }

    /// Sends a notification at once, whatever is queued already. For the few that must not wait.
    pub fn notify_now(&self, method: &str, params: impl FnOnce(&mut Vec<u8>)) -> Result<(), Closed> {
        self.shared.outbox.push(|out| write_call(out, None, method, params))
    }

    /// Sends a request and gives something to await its result with. The request is queued when this returns.
    ///
    /// `read` reads the result, on the connection's reader.
    pub async fn call<T: Send + 'static>(
        &self,
        method: &str,
        params: impl FnOnce(&mut Vec<u8>),
        read: impl FnOnce(&mut Reader<'_>) -> Result<T, Error> + Send + 'static,
    ) -> Pending<T> {
        let (then, receiver) = reading(read);
        let id = self.call_then(method, params, then).await;
        Pending { receiver, withdraw: Some(Withdraw { peer: self.clone(), id, known: None }) }
    }

    /// Sends a request; `then` is run with the answer on the reader, in the order in which messages arrive. It is also run
    /// if the connection ends first. Returns the id of the request.
    pub async fn call_then(
        &self,
        method: &str,
        params: impl FnOnce(&mut Vec<u8>),
        then: impl FnOnce(Result<&str, CallError>) + Send + 'static,
    ) -> u64 {
        self.shared.outbox.room().await;
        self.call_now(method, params, then)
    }

    /// Like [`Self::call_then`], at once, whatever is queued already. For those who wait for [`Self::room`] themselves.
    pub fn call_now(
        &self,
        method: &str,
        params: impl FnOnce(&mut Vec<u8>),
        then: impl FnOnce(Result<&str, CallError>) + Send + 'static,
    ) -> u64 {
        let id = self.shared.machine().call(Box::new(then));
        let queued = self.shared.outbox.push(|out| write_call(out, Some(id), method, params));
        // After the call is registered, so that either the end of the connection sees it or we see the end.
        if queued.is_err() || self.shared.gone.is_cancelled() {
            self.settle(id, CallError::Closed);
        }
        id
    }

    fn settle(&self, id: u64, error: CallError) {
        let waiter = self.shared.machine().settle(id);
        if let Some(waiter) = waiter {
            waiter(Err(error));
        }
    }

    /// Withdraws a request of ours: nobody waits for its answer any more, and the peer is told.
    pub fn withdraw(&self, id: u64) {
        if self.shared.machine().settle(id).is_some() {
            self.tell_cancelled(id);
        }
    }

    /// Tells the peer that a request of ours is no longer wanted. The answer is still awaited.
    pub fn tell_cancelled(&self, id: u64) {
        let _ = self.notify_now(CANCEL_METHOD, |out| {
            out.extend_from_slice(b"{\"requestId\":");
            write_u64(out, id);
            out.push(b'}');
        });
    }

    /// Several calls and notifications in one array. Many peers can't take one: use it only where it is known to work.
    pub fn batch(&self) -> Batch {
        Batch { peer: self.clone(), entries: Vec::new(), calls: Vec::new() }
    }

    /// True once no more answers can come.
    pub fn is_closed(&self) -> bool {
        self.shared.gone.is_cancelled() || !self.shared.outbox.is_open()
    }

    /// Waits until the peer has gone away.
    pub async fn closed(&self) {
        tokio::select! {
            () = self.shared.gone.cancelled() => {}
            () = self.shared.outbox.ended() => {}
        }
    }

    /// Waits until nothing more can be written, because the peer stopped listening or we closed.
    pub async fn write_ended(&self) {
        self.shared.outbox.ended().await;
    }

    /// Waits until every request of the peer has been answered.
    pub async fn idle(&self) {
        self.shared.idle().await;
    }

    /// Withdraws every request the peer has open, as if it had asked for that.
    pub fn withdraw_all(&self) {
        self.shared.machine().withdraw_all();
    }

    /// Stops reading; answers can still be sent.
    pub fn stop_reading(&self) {
        self.shared.stop();
    }

    /// Stops reading, sends what is queued, and closes our end.
    pub async fn close(&self) {
        self.shared.stop();
        self.shared.outbox.close();
        self.shared.outbox.ended().await;
    }
}

type Answer<T> = oneshot::Receiver<Result<T, CallError>>;

/// What takes an answer and reads it, and where that is to be had.
fn reading<T: Send + 'static>(
    read: impl FnOnce(&mut Reader<'_>) -> Result<T, Error> + Send + 'static,
) -> (impl FnOnce(Result<&str, CallError>) + Send + 'static, Answer<T>) {
    let (sender, receiver) = oneshot::channel();
    let then = move |answer: Result<&str, CallError>| {
        let read = |text| read(&mut Reader::new(text)).map_err(CallError::Unreadable);
        let _ = sender.send(answer.and_then(read));
    };
    (then, receiver)
}

fn write_call(out: &mut Vec<u8>, id: Option<u64>, method: &str, params: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",");
    if let Some(id) = id {
        out.extend_from_slice(b"\"id\":");
        write_u64(out, id);
        out.push(b',');
    }
    out.extend_from_slice(b"\"method\":");
    write_str(out, method);
    out.extend_from_slice(b",\"params\":");
    params(out);
    out.push(b'}');
}

/// A call that waits for its answer. Dropping it withdraws the request.
pub struct Pending<T> {
    receiver: Answer<T>,
    withdraw: Option<Withdraw>,
}

impl<T> Pending<T> {
    /// Waits at most this long. After that the request is withdrawn.
    pub async fn within(self, limit: Duration) -> Result<T, CallError> {
        tokio::time::timeout(limit, self).await.unwrap_or(Err(CallError::TimedOut))
    }

    /// The same, but if it is dropped once this is cancelled, the peer is not told: it knows.
    #[must_use]
    pub fn unless(mut self, known: Cancel) -> Self {
        if let Some(withdraw) = &mut self.withdraw {
            withdraw.known = Some(known);
        }
        self
    }

    /// The id of the request.
    pub fn id(&self) -> Option<u64> {
        self.withdraw.as_ref().map(|withdraw| withdraw.id)
    }
}

impl<T> Future for Pending<T> {
    type Output = Result<T, CallError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = std::task::ready!(Pin::new(&mut self.receiver).poll(context));
        if let Some(mut withdraw) = self.withdraw.take() {
            withdraw.id = 0;
        }
        Poll::Ready(answer.unwrap_or(Err(CallError::Closed)))
    }
}

struct Withdraw {
    peer: Peer,
    /// Zero once there is nothing to withdraw.
    id: u64,
    /// Once this is cancelled, the peer knows that the answer is not wanted.
    known: Option<Cancel>,
}

impl Drop for Withdraw {
    fn drop(&mut self) {
        if self.id == 0 {
            return;
        }
        if self.known.as_ref().is_some_and(Cancel::is_cancelled) {
            self.peer.shared.machine().settle(self.id);
        } else {
            self.peer.withdraw(self.id);
        }
    }
}

/// Calls and notifications that go out as one array.
pub struct Batch {
    peer: Peer,
    entries: Vec<u8>,
    /// The calls in it, until it is sent.
    calls: Vec<u64>,
}

impl Batch {
    /// Adds a notification.
    pub fn notify(&mut self, method: &str, params: impl FnOnce(&mut Vec<u8>)) {
        self.comma();
        write_call(&mut self.entries, None, method, params);
    }

    /// Adds a request.
    pub fn call<T: Send + 'static>(
        &mut self,
        method: &str,
        params: impl FnOnce(&mut Vec<u8>),
        read: impl FnOnce(&mut Reader<'_>) -> Result<T, Error> + Send + 'static,
    ) -> Pending<T> {
        let (then, receiver) = reading(read);
        let id = self.peer.shared.machine().call(Box::new(then));
        self.calls.push(id);
        self.comma();
        write_call(&mut self.entries, Some(id), method, params);
        Pending { receiver, withdraw: Some(Withdraw { peer: self.peer.clone(), id, known: None }) }
    }

    /// Sends the array. An empty one is not sent.
    pub async fn send(mut self) -> Result<(), Closed> {
        if self.entries.is_empty() {
            return Ok(());
        }
        let entries = std::mem::take(&mut self.entries);
        let sent = self.peer.shared.outbox.send(|out| {
            out.push(b'[');
            out.extend_from_slice(&entries);
            out.push(b']');
        });
        sent.await?;
        if !self.peer.shared.gone.is_cancelled() {
            self.calls.clear();
        }
        Ok(())
    }

    fn comma(&mut self) {
        if !self.entries.is_empty() {
            self.entries.push(b',');
        }
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        // Calls that were not sent, or whose answers can't come any more.
        for id in &self.calls {
            self.peer.settle(*id, CallError::Closed);
        }
    }
}
