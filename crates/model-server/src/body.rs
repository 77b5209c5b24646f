//! The body of an answer that plays its acts, one at a time.

use crate::play::Act;
use bytes::Bytes;
use hyper::body::{Body, Frame};
use std::collections::VecDeque;
use std::future::Future;
use std::io::{Error, ErrorKind};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::time::{Sleep, sleep};

/// Writes, waits and cuts in the order of its acts.
#[derive(Debug)]
pub(crate) struct Played {
    acts: VecDeque<Act>,
    pause: Option<Pin<Box<Sleep>>>,
    /// The last thing was a write: what was written goes out before the next act.
    wrote: bool,
}

impl Played {
    pub(crate) fn new(acts: VecDeque<Act>) -> Self {
        Self { acts, pause: None, wrote: false }
    }
}

impl Body for Played {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let this = self.get_mut();
        loop {
            if let Some(pause) = &mut this.pause {
                ready!(pause.as_mut().poll(cx));
                this.pause = None;
            }
            if std::mem::take(&mut this.wrote) {
                // Hyper flushes when the body has nothing to give; so each piece is a write of its own.
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            match this.acts.pop_front() {
                None => return Poll::Ready(None),
                Some(Act::Write(bytes)) => {
                    this.wrote = true;
                    return Poll::Ready(Some(Ok(Frame::data(bytes))));
                }
                Some(Act::Wait(time)) => this.pause = Some(Box::pin(sleep(time))),
                Some(Act::Cut) => {
                    return Poll::Ready(Some(Err(Error::new(
                        ErrorKind::ConnectionAborted,
                        "the script cuts the answer",
                    ))));
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.acts.is_empty()
    }
}
