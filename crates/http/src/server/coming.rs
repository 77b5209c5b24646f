//! What a guest has sent of messages that are not whole yet: a share of the memory, and a time.

use super::Guest;
use super::shares::{Counts, Share};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tieline_rpc::sync::Lock as _;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

/// So much of a message is not counted, in bytes: buffers have that anyway.
const FREE_BYTES: usize = 64 << 10;
/// Room is taken in pieces of so many bytes.
const STEP_BYTES: usize = 1 << 20;

/// What stands before the words of a ping, in bytes.
const CONTROL_HEAD_BYTES: usize = 6;

/// The message that comes on one socket.
pub(crate) struct Coming {
    pub(super) counts: Arc<Counts>,
    pub(super) guest: Guest,
    /// So many bytes one guest may have on their way, and all together.
    pub(super) most: (usize, usize),
    /// So long it may take.
    pub(super) time: Duration,
    pub(super) state: Mutex<State>,
}

#[derive(Default)]
pub(super) struct State {
    bytes: usize,
    since: Option<Instant>,
    shares: Vec<Share>,
}

impl Coming {
    /// Some more came. False if there is no room for it.
    fn more(&self, bytes: usize) -> bool {
        let state = &mut *self.state.locked();
        state.bytes += bytes;
        if state.bytes > FREE_BYTES {
            state.since = state.since.or_else(|| Some(Instant::now()));
        }
        while state.bytes > FREE_BYTES + state.shares.len() * STEP_BYTES {
            let Some(share) = self.counts.take(&self.guest, STEP_BYTES, self.most) else { return false };
            state.shares.push(share);
        }
        true
    }

    /// Of what came, a ping or its answer was no part of it: a head, a mask and so many bytes.
    pub(crate) fn is_beside(&self, bytes: usize) {
        let state = &mut *self.state.locked();
        state.bytes = state.bytes.saturating_sub(CONTROL_HEAD_BYTES + bytes);
    }

    /// It is whole.
    pub(crate) fn is_whole(&self) {
        *self.state.locked() = State::default();
    }

    /// When it has to be whole.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.state.locked().since.map(|since| since + self.time)
    }
}

/// A socket whose messages are counted as they come.
pub(super) struct Counted<S> {
    pub(super) stream: S,
    pub(super) coming: Arc<Coming>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, into))?;
        let room = self.coming.more(into.filled().len() - before);
        Poll::Ready(if room { Ok(()) } else { Err(io::Error::other("too much is on its way")) })
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
