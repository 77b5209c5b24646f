//! Whole messages instead of bytes: what a WebSocket, an HTTP stream or a channel brings and takes.

use std::future::Future;
use std::io;
use std::pin::Pin;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

/// Where whole messages come from, one at a time. For [`Transport::messages`](crate::Transport::messages).
pub trait ReadMessages: Send + 'static {
    /// The next message; `None` at the end. It must be safe to drop while it waits: no message may be lost by that.
    fn read(&mut self) -> impl Future<Output = io::Result<Option<Vec<u8>>>> + Send;
}

/// Where whole messages go. For [`Transport::messages`](crate::Transport::messages).
pub trait WriteMessages: Send + 'static {
    /// Sends one message: one JSON value, without a line break.
    fn write(&mut self, message: &[u8]) -> impl Future<Output = io::Result<()>> + Send;

    /// Nothing follows.
    fn close(&mut self) -> impl Future<Output = ()> + Send {
        async {}
    }
}

impl ReadMessages for mpsc::Receiver<Vec<u8>> {
    async fn read(&mut self) -> io::Result<Option<Vec<u8>>> {
        Ok(self.recv().await)
    }
}

impl WriteMessages for mpsc::Sender<Vec<u8>> {
    async fn write(&mut self, message: &[u8]) -> io::Result<()> {
        self.send(message.to_vec()).await.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A [`ReadMessages`] behind a pointer, so that a transport has one type.
pub(crate) trait AnyReader: Send {
    fn next(&mut self) -> Boxed<'_, io::Result<Option<Vec<u8>>>>;
}

impl<R: ReadMessages> AnyReader for R {
    fn next(&mut self) -> Boxed<'_, io::Result<Option<Vec<u8>>>> {
        Box::pin(self.read())
    }
}

/// A [`WriteMessages`] behind a pointer.
pub(crate) trait AnyWriter: Send {
    fn put<'a>(&'a mut self, message: &'a [u8]) -> Boxed<'a, io::Result<()>>;
    fn end(&mut self) -> Boxed<'_, ()>;
}

impl<W: WriteMessages> AnyWriter for W {
    fn put<'a>(&'a mut self, message: &'a [u8]) -> Boxed<'a, io::Result<()>> {
        Box::pin(self.write(message))
    }

    fn end(&mut self) -> Boxed<'_, ()> {
        Box::pin(self.close())
    }
}

/// What comes in. Whole messages are lines to what reads them.
pub(crate) enum Input {
    Bytes(Box<dyn AsyncRead + Send + Unpin>),
    Messages(Box<dyn AnyReader>),
}

impl Input {
    /// Appends what comes next; 0 at the end.
    pub(crate) async fn fill(&mut self, space: &mut Vec<u8>) -> io::Result<usize> {
        match self {
            Self::Bytes(bytes) => bytes.read_buf(space).await,
            Self::Messages(messages) => {
                let Some(message) = messages.next().await? else { return Ok(0) };
                append_line(space, &message);
                space.push(b'\n');
                Ok(message.len() + 1)
            }
        }
    }
}

/// What goes out. It is given lines.
pub(crate) enum Output {
    Bytes(Box<dyn AsyncWrite + Send + Unpin>),
    Messages(Box<dyn AnyWriter>),
}

impl Output {
    pub(crate) async fn put(&mut self, burst: &[u8]) -> io::Result<()> {
        match self {
            Self::Bytes(bytes) => {
                bytes.write_all(burst).await?;
                bytes.flush().await
            }
            Self::Messages(messages) => {
                for message in burst.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                    messages.put(message).await?;
                }
                Ok(())
            }
        }
    }

    pub(crate) async fn end(&mut self) {
        match self {
            Self::Bytes(bytes) => drop(bytes.shutdown().await),
            Self::Messages(messages) => messages.end().await,
        }
    }
}

/// Appends a message as one line: a raw line break is legal white space between the parts of a value.
pub(crate) fn append_line(out: &mut Vec<u8>, message: &[u8]) {
    let start = out.len();
    out.extend_from_slice(message);
    out[start..].iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
}
