//! Standard input and output as a transport: without a thread hop where the kernel allows it.

use crate::Transport;
use tokio::io::{AsyncRead, AsyncWrite};

/// Bytes that come in.
pub type ByteInput = Box<dyn AsyncRead + Send + Unpin>;
/// Bytes that go out.
pub type ByteOutput = Box<dyn AsyncWrite + Send + Unpin>;

pub(crate) fn open() -> Transport {
    let (input, output) = streams();
    Transport::new(input, output)
}

/// This process's own standard input and output, for whoever passes on bytes and not frames; otherwise as [`Transport::stdio`].
pub fn streams() -> (ByteInput, ByteOutput) {
    let (input, output) = direct();
    let input = input.unwrap_or_else(|| Box::new(tokio::io::stdin()));
    let output = output.unwrap_or_else(|| Box::new(tokio::io::stdout()));
    (input, output)
}

#[cfg(not(unix))]
fn direct() -> (Option<ByteInput>, Option<ByteOutput>) {
    (None, None)
}

#[cfg(unix)]
fn direct() -> (Option<ByteInput>, Option<ByteOutput>) {
    use std::os::fd::AsFd;
    let input = std::io::stdin().as_fd().try_clone_to_owned().ok().and_then(unix::input).or_else(unix::by_thread);
    let output = std::io::stdout().as_fd().try_clone_to_owned().ok().and_then(unix::output);
    (input, output)
}

#[cfg(unix)]
mod unix {
    use super::{ByteInput, ByteOutput};
    use std::fs::File;
    use std::os::fd::{AsFd, AsRawFd, OwnedFd};
    use std::os::unix::fs::{FileTypeExt, MetadataExt};
    use std::os::unix::net::UnixStream;
    use tokio::net::unix::pipe;

    enum Kind {
        Pipe,
        Socket,
    }

    /// The same pipe, opened once more: only we see that it does not block. Linux alone can do that.
    fn again<T>(fd: &OwnedFd, open: impl FnOnce(&pipe::OpenOptions, String) -> std::io::Result<T>) -> Option<T> {
        // To open anything else, a terminal say, could have effects of its own.
        let is_pipe = File::from(fd.try_clone().ok()?).metadata().ok()?.file_type().is_fifo();
        let path = (is_pipe && cfg!(target_os = "linux")).then(|| format!("/proc/self/fd/{}", fd.as_raw_fd()))?;
        open(&pipe::OpenOptions::new(), path).ok()
    }

    /// What the descriptor is, if it can be used without blocking. Non-blocking is a property of the open file, which
    /// standard error may share (`2>&1`): then others would see their writes fail, so we leave it alone.
    fn kind(fd: &OwnedFd) -> Option<Kind> {
        let meta = File::from(fd.try_clone().ok()?).metadata().ok()?;
        let stderr = std::io::stderr().as_fd().try_clone_to_owned().ok().and_then(|fd| File::from(fd).metadata().ok());
        if stderr.is_some_and(|stderr| (stderr.dev(), stderr.ino()) == (meta.dev(), meta.ino())) {
            return None;
        }
        if meta.file_type().is_fifo() {
            Some(Kind::Pipe)
        } else if meta.file_type().is_socket() {
            Some(Kind::Socket)
        } else {
            None
        }
    }

    fn socket(fd: OwnedFd) -> Option<tokio::net::UnixStream> {
        let stream = UnixStream::from(fd);
        // A socket of another family would not answer this.
        stream.local_addr().ok()?;
        stream.set_nonblocking(true).ok()?;
        tokio::net::UnixStream::from_std(stream).ok()
    }

    pub(super) fn input(fd: OwnedFd) -> Option<ByteInput> {
        if let Some(pipe) = again(&fd, pipe::OpenOptions::open_receiver) {
            return Some(Box::new(pipe));
        }
        Some(match kind(&fd)? {
            Kind::Pipe => Box::new(pipe::Receiver::from_owned_fd(fd).ok()?),
            Kind::Socket => Box::new(socket(fd)?),
        })
    }

    /// For a terminal or a file: a thread copies. Tokio's own standard input would hold up the end of the program until the
    /// next line is typed.
    pub(super) fn by_thread() -> Option<ByteInput> {
        let (ours, mut theirs) = UnixStream::pair().ok()?;
        let input = socket(ours.into())?;
        std::thread::Builder::new()
            .name("stdin".into())
            .spawn(move || {
                let _ = std::io::copy(&mut std::io::stdin().lock(), &mut theirs);
            })
            .ok()?;
        Some(Box::new(input))
    }

    pub(super) fn output(fd: OwnedFd) -> Option<ByteOutput> {
        if let Some(pipe) = again(&fd, pipe::OpenOptions::open_sender) {
            return Some(Box::new(pipe));
        }
        Some(match kind(&fd)? {
            Kind::Pipe => Box::new(pipe::Sender::from_owned_fd(fd).ok()?),
            Kind::Socket => Box::new(socket(fd)?),
        })
    }
}
