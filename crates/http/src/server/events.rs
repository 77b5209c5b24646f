//! The body of an event stream: what waits for its reader, one event for each message, and a sign of life in between.

use super::connection::Connection;
use hyper::body::{Body, Bytes, Frame};
use std::convert::Infallible;
use std::future::Future as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::time::{Instant, Sleep, sleep};

/// The events of one stream, for one reader.
pub(super) struct Events {
    connection: Arc<Connection>,
    session: Option<String>,
    /// Which reader of the stream this is.
    turn: u64,
    /// What is said first.
    first: Option<Bytes>,
    alive: Pin<Box<Sleep>>,
}

impl Events {
    /// Takes the stream over. `start` is the position of what came before, said at once: a stream that is cut before its
    /// first event can go on as well.
    pub fn new(connection: Arc<Connection>, session: Option<String>, turn: u64, start: &str) -> Self {
        let alive = Box::pin(sleep(connection.limits.keep_alive));
        Self { connection, session, turn, first: Some(format!("id: {start}\n\n").into()), alive }
    }
}

impl Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = &mut *self;
        let every = this.connection.limits.keep_alive;
        let next = match this.first.take() {
            Some(first) => Poll::Ready(Some(first)),
            None => this.connection.take(this.session.as_deref(), this.turn, cx.waker()),
        };
        if next.is_pending() {
            if this.alive.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            this.alive.as_mut().reset(Instant::now() + every);
            // A clock that is set again must be asked again.
            let _ = this.alive.as_mut().poll(cx);
            return Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b":\n\n")))));
        }
        this.alive.as_mut().reset(Instant::now() + every);
        next.map(|data| data.map(|data| Ok(Frame::data(data))))
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.connection.reader_left(self.session.as_deref(), self.turn);
    }
}
