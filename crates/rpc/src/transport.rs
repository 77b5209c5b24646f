//! A transport is two ends: one yields frames, into the other frames are encoded. Every way to get one is a function here.

use crate::framing::{BOM, Decoder, Framing, Step};
use crate::messages::{Input, Output, ReadMessages, WriteMessages, append_line};
use crate::outbox::{DEFAULT_QUEUE, Outbox};
use crate::sync::Lock;
use std::any::Any;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncRead, AsyncWrite};

/// Messages longer than this are refused, unless [`Transport::limit`] says otherwise.
pub const DEFAULT_LIMIT: usize = 64 * 1024 * 1024;

/// Which way a frame goes, seen from us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the peer.
    In,
    /// To the peer.
    Out,
}

/// Sees every frame in both directions. Must be quick, because frames wait for it, and must not use the connection itself.
pub type Tap = Arc<dyn Fn(Direction, &[u8]) + Send + Sync>;

/// A way to and from a peer, not yet in use.
#[must_use]
pub struct Transport {
    input: Input,
    output: Output,
    framing: Option<Framing>,
    limit: usize,
    queue: usize,
    taps: Vec<Tap>,
    keep: Vec<Box<dyn Any + Send + Sync>>,
}

impl std::fmt::Debug for Transport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transport").field("framing", &self.framing).field("limit", &self.limit).finish_non_exhaustive()
    }
}

impl Transport {
    /// Over any two byte streams, one message per line.
    pub fn new(
        input: impl AsyncRead + Send + Unpin + 'static,
        output: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        Self::over(Input::Bytes(Box::new(input)), Output::Bytes(Box::new(output)))
    }

    /// Over whole messages: a WebSocket, an HTTP stream, two channels. There is no framing then.
    ///
    /// ```
    /// use tieline_rpc::Transport;
    /// use tokio::sync::mpsc;
    ///
    /// let (to_us, from_peer) = mpsc::channel::<Vec<u8>>(16);
    /// let (to_peer, from_us) = mpsc::channel::<Vec<u8>>(16);
    /// let transport = Transport::messages(from_peer, to_peer);
    /// # drop((to_us, from_us, transport));
    /// ```
    pub fn messages(source: impl ReadMessages, sink: impl WriteMessages) -> Self {
        Self::over(Input::Messages(Box::new(source)), Output::Messages(Box::new(sink)))
    }

    fn over(input: Input, output: Output) -> Self {
        let (framing, limit, queue) = (Some(Framing::Lines), DEFAULT_LIMIT, DEFAULT_QUEUE);
        Self { input, output, framing, limit, queue, taps: Vec::new(), keep: Vec::new() }
    }

    /// Over one two-way byte stream, such as a socket.
    pub fn stream(io: impl AsyncRead + AsyncWrite + Send + 'static) -> Self {
        let (input, output) = tokio::io::split(io);
        Self::new(input, output)
    }

    /// Two transports that are joined in memory.
    pub fn memory() -> (Self, Self) {
        let (one, other) = tokio::io::duplex(64 * 1024);
        (Self::stream(one), Self::stream(other))
    }

    /// Over this process's own standard input and output.
    ///
    /// Pipes and sockets are used without a thread in between; for anything else (a terminal, a file) tokio's blocking
    /// pool does the reading and writing. Nothing else may write to standard output after this.
    #[cfg(feature = "stdio")]
    pub fn stdio() -> Self {
        crate::stdio::open()
    }

    /// Uses this framing, both ways. The default is [`Framing::Lines`].
    pub fn framing(mut self, framing: Framing) -> Self {
        self.framing = Some(framing);
        self
    }

    /// Takes the framing from the peer's first line and answers in kind. What agents do.
    pub fn detect_framing(mut self) -> Self {
        self.framing = None;
        self
    }

    /// Refuses messages longer than this many bytes.
    pub fn limit(mut self, bytes: usize) -> Self {
        self.limit = bytes;
        self
    }

    /// Lets `tap` see every frame.
    pub fn tap(mut self, tap: impl Fn(Direction, &[u8]) + Send + Sync + 'static) -> Self {
        self.taps.push(Arc::new(tap));
        self
    }

    /// Senders wait while so many bytes wait to be written; 64 KiB by default. What may not wait (answers to rubbish) has 8 MiB, or as
    /// much if this is more; then reading stops.
    pub fn queue(mut self, bytes: usize) -> Self {
        self.queue = bytes.max(1);
        self
    }

    /// Keeps `thing` (a child process, say) until the transport's reading end is dropped.
    pub fn keep(mut self, thing: impl Any + Send + Sync) -> Self {
        self.keep.push(Box::new(thing));
        self
    }

    /// Starts the writer and gives the two ends.
    pub fn open(mut self) -> (FrameReader, FrameWriter) {
        if matches!(self.input, Input::Messages(_)) {
            self.framing = Some(Framing::Lines);
        }
        let outbox = Arc::new(Outbox::new(self.framing.unwrap_or_default(), self.taps.clone(), self.queue));
        let writer = Arc::clone(&outbox);
        tokio::spawn(async move { writer.run(self.output).await });
        let reader = FrameReader {
            input: self.input,
            decoder: Decoder::new(self.framing, self.limit),
            detecting: self.framing.is_none(),
            outbox: Arc::clone(&outbox),
            taps: self.taps,
            ended: false,
            _keep: self.keep,
        };
        (reader, FrameWriter { outbox })
    }
}

/// Joins two transports: what comes in on one goes out on the other, frame by frame, until either ends. Each side keeps its
/// own framing, so this also converts between framings.
pub async fn join(one: Transport, other: Transport) {
    relay(one, other, |_, _, _| true).await;
}

/// One of the two sides of a [`relay`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The first transport.
    One,
    /// The second.
    Other,
}

/// Sends frames of one's own to the two sides of a [`relay`]. Clones send to the same two.
#[derive(Clone)]
pub struct Relay {
    one: FrameWriter,
    other: FrameWriter,
}

impl Relay {
    /// Sends a message to one side, behind what is on its way there.
    pub fn send(&self, to: Side, message: &[u8]) -> Result<(), crate::Closed> {
        self.to(to).outbox.push(|out| append_line(out, message))
    }

    fn to(&self, side: Side) -> &FrameWriter {
        match side {
            Side::One => &self.one,
            Side::Other => &self.other,
        }
    }
}

/// Joins two transports as [`join`] does, with something in between: `each` sees every frame and the side that it comes from, may rewrite
/// it, holds it back with `false`, and can send others.
pub async fn relay<F>(one: Transport, other: Transport, each: F)
where
    F: FnMut(Side, &mut Vec<u8>, &Relay) -> bool + Send,
{
    let (mut one_in, one_out) = one.open();
    let (mut other_in, other_out) = other.open();
    let (relay, each) = (Relay { one: one_out, other: other_out }, Mutex::new(each));
    tokio::select! {
        () = pump(Side::One, &mut one_in, &relay, &each) => {}
        () = pump(Side::Other, &mut other_in, &relay, &each) => {}
    }
    relay.one.close().await;
    relay.other.close().await;
}

async fn pump<F>(side: Side, from: &mut FrameReader, relay: &Relay, each: &Mutex<F>)
where
    F: FnMut(Side, &mut Vec<u8>, &Relay) -> bool + Send,
{
    let to = relay.to(if side == Side::One { Side::Other } else { Side::One });
    let mut frame = Vec::new();
    loop {
        match from.next().await {
            Event::Frame(at) | Event::Last(at) => {
                frame.clear();
                frame.extend_from_slice(from.bytes(at));
                let pass = each.locked()(side, &mut frame, relay);
                if pass && to.outbox.send(|out| append_line(out, &frame)).await.is_err() {
                    return;
                }
            }
            Event::TooLong(_) => tracing::warn!("a message over the size limit was not passed on"),
            Event::Broken(why) => {
                tracing::warn!(why, "the stream can't be followed any more");
                return;
            }
            Event::End(_) => return,
        }
    }
}

/// What comes from the reading end. Ranges are looked up with [`FrameReader::bytes`] before the next call.
#[derive(Debug)]
pub enum Event {
    /// One message.
    Frame(Range<usize>),
    /// The last line, which had no line end: a message only if it can be read.
    Last(Range<usize>),
    /// A message over the limit is passed over; this is how it starts.
    TooLong(Range<usize>),
    /// The stream can't be followed any more.
    Broken(&'static str),
    /// The peer closed its end, or reading failed.
    End(Option<io::Error>),
}

/// The reading end.
pub struct FrameReader {
    input: Input,
    decoder: Decoder,
    detecting: bool,
    outbox: Arc<Outbox>,
    taps: Vec<Tap>,
    ended: bool,
    _keep: Vec<Box<dyn Any + Send + Sync>>,
}

impl FrameReader {
    /// The next frame. Safe to drop while waiting: nothing read is lost.
    pub async fn next(&mut self) -> Event {
        loop {
            let step = self.decoder.step();
            if self.detecting
                && let Some(framing) = self.decoder.framing()
            {
                self.detecting = false;
                self.outbox.set_framing(framing);
            }
            match step {
                Step::Frame(at) => {
                    self.show(&at);
                    return Event::Frame(at);
                }
                Step::TooLong(at) => return Event::TooLong(at),
                Step::Broken(why) => return Event::Broken(why),
                Step::Need => {}
            }
            if self.ended {
                return Event::End(None);
            }
            let error = match self.input.fill(self.decoder.space()).await {
                Ok(0) => None,
                Ok(_) => continue,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => Some(error),
            };
            self.ended = true;
            if error.is_some() {
                return Event::End(error);
            }
            if let Some(at) = self.decoder.rest() {
                self.show(&at);
                return Event::Last(at);
            }
        }
    }

    /// The bytes of an event.
    pub fn bytes(&self, at: Range<usize>) -> &[u8] {
        &self.decoder.bytes()[at]
    }

    /// The bytes of a frame, taken out of the buffer: without a copy of them if it is a long one.
    pub(crate) fn take(&mut self, at: Range<usize>) -> Vec<u8> {
        self.decoder.take(at)
    }

    fn show(&self, at: &Range<usize>) {
        let bytes = self.decoder.bytes();
        // Who looks on sees what came: a byte order mark, which is passed over, too.
        let mark = if bytes[..at.start].ends_with(BOM) { BOM.len() } else { 0 };
        for tap in &self.taps {
            tap(Direction::In, &bytes[at.start - mark..at.end]);
        }
    }
}

/// The writing end. Clones share one buffer.
#[derive(Clone)]
pub struct FrameWriter {
    pub(crate) outbox: Arc<Outbox>,
}

impl FrameWriter {
    /// Queues one message when there is room; `body` writes it, without any line break.
    pub async fn send(&self, body: impl FnOnce(&mut Vec<u8>)) -> Result<(), crate::Closed> {
        self.outbox.send(body).await
    }

    /// Takes nothing more and waits until everything queued is written (or can't be).
    pub async fn close(&self) {
        self.outbox.close();
        self.outbox.ended().await;
    }
}
