//! What the owner and the stages of a supervisor say to each other: messages in JSON, each behind its length.

use crate::Status;
use crate::setup::Setup;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};
use serde::{Deserialize, Serialize};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use tokio::io::{AsyncRead, AsyncReadExt};

/// No message is longer.
const MAX_MESSAGE_BYTES: usize = 64 << 20;
/// Length of what stands before a message.
const LENGTH_BYTES: usize = 4;

/// One thing that is said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Message {
    /// From a stage: it asks what to do.
    Ask,
    /// To a stage: that is it. What the program reads may come with it.
    Setup(Box<Setup>),
    /// From the first stage: its user ids wait to be mapped. Back: done.
    Map,
    /// The program runs, as this process.
    Started(i32),
    /// It can't be started.
    Failed(Trouble),
    /// The answer to a probe: the version of Landlock.
    Probed(u32),
    /// To the supervisor: ask everything to end, and kill it after so many milliseconds.
    Stop(u32),
    /// The program and what it started took more memory than they have, or are too many, and are killed.
    Full,
    /// The program ended.
    Exited(Status),
    /// After that: so many processes outlived it, and are ended now.
    Left(u32),
}

impl Message {
    /// As it goes over the socket.
    pub(crate) fn encode(&self) -> io::Result<Vec<u8>> {
        let mut out = vec![0; LENGTH_BYTES];
        serde_json::to_writer(&mut out, self)?;
        let length = (out.len() - LENGTH_BYTES) as u32;
        out[..LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
        Ok(out)
    }
}

/// A place for so many bytes.
fn room(length: u32) -> io::Result<Vec<u8>> {
    let length = length as usize;
    if length > MAX_MESSAGE_BYTES { Err(io::ErrorKind::InvalidData.into()) } else { Ok(vec![0; length]) }
}

pub(crate) fn send(to: &UnixStream, message: &Message) -> io::Result<()> {
    send_with(to, message, None)
}

/// Sends a message, and a file that the other side is to have as well.
pub(crate) fn send_with(mut to: &UnixStream, message: &Message, file: Option<&OwnedFd>) -> io::Result<()> {
    let bytes = message.encode()?;
    let files = file.map(AsFd::as_fd);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !files.as_slice().is_empty() {
        control.push(SendAncillaryMessage::ScmRights(files.as_slice()));
    }
    let sent = sendmsg(to, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL)?;
    to.write_all(&bytes[sent..])
}

pub(crate) fn receive(from: &UnixStream) -> io::Result<Message> {
    receive_with(from).map(|(message, _)| message)
}

/// The next message, and the file that came with it. Fails with `UnexpectedEof` when the other side is gone.
pub(crate) fn receive_with(mut from: &UnixStream) -> io::Result<(Message, Option<OwnedFd>)> {
    let mut head = [0; LENGTH_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let came = recvmsg(from, &mut [IoSliceMut::new(&mut head)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    if came.bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let file = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    from.read_exact(&mut head[came.bytes..])?;
    let mut bytes = room(u32::from_le_bytes(head))?;
    from.read_exact(&mut bytes)?;
    Ok((serde_json::from_slice(&bytes)?, file))
}

/// The same for those who have something else to wait for. Not to be dropped in the middle.
pub(crate) async fn hear(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Message> {
    let mut bytes = room(from.read_u32_le().await?)?;
    from.read_exact(&mut bytes).await?;
    Ok(serde_json::from_slice(&bytes)?)
}

/// Why a program could not be started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Trouble {
    /// The program itself, not what is around it.
    pub(crate) program: bool,
    pub(crate) errno: i32,
    pub(crate) text: String,
}

impl Trouble {
    pub(crate) fn new(program: bool, error: &io::Error, text: String) -> Self {
        Self { program, errno: error.raw_os_error().unwrap_or(0), text }
    }

    /// Whether what was to be held is not where it was any more.
    pub(crate) fn is_stale(&self) -> bool {
        self.errno == rustix::io::Errno::STALE.raw_os_error()
    }

    pub(crate) fn kind(&self) -> io::ErrorKind {
        io::Error::from_raw_os_error(self.errno).kind()
    }
}

impl From<io::Error> for Trouble {
    /// Something around the program.
    fn from(error: io::Error) -> Self {
        Self::new(false, &error, error.to_string())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::setup::{Pinned, Plan, Sandbox};
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt as _;

    /// What is made of these bytes.
    fn receive(bytes: &[u8]) -> io::Result<Message> {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        ours.write_all(bytes).unwrap();
        drop(ours);
        super::receive(&theirs)
    }

    #[test]
    fn messages_come_back_as_they_were() {
        let pinned = |path: &str| Pinned { path: path.into(), device: 7, inode: u64::MAX };
        let odd = || OsString::from_vec(vec![b'/', 0xff, 0xc3, 0xa9]);
        let sandbox = Sandbox {
            plan: Plan { namespaces: true, landlock: false, seccomp: true, unix_sockets: true },
            network: true,
            writable: vec![pinned("/a"), pinned("/b c")],
            readable: vec![Pinned { path: odd().into(), device: 1, inode: 2 }],
            protect: vec!["/a/.git".into()],
            pin: vec!["/a".into()],
            hide: vec!["/home/é/.ssh".into(), odd().into()],
            show: vec![],
            temp: Some(Pinned { path: "/tmp/x".into(), device: 1, inode: 2 }),
        };
        let setup = Setup {
            words: vec!["sh".into(), "-c".into(), "".into(), odd()],
            env: vec![("A".into(), "".into()), ("B".into(), odd())],
            folder: odd().into(),
            limits: [1, 2, 3],
            group: Some(odd()),
            session: true,
            tty: true,
            grace: 7,
            sandbox: Some(sandbox),
        };
        for message in [
            Message::Setup(Box::new(setup)),
            Message::Setup(Box::default()),
            Message::Ask,
            Message::Failed(Trouble { program: true, errno: 2, text: "é".into() }),
            Message::Exited(Status::Signal(9)),
            Message::Left(3),
        ] {
            let bytes = message.encode().unwrap();
            assert_eq!(receive(&bytes).unwrap(), message);
            for cut in 0..bytes.len() {
                assert!(receive(&bytes[..cut]).is_err(), "cut at {cut}");
            }
        }
        assert!(receive(b"\xff\xff\xff\xff").is_err());
        assert!(receive(b"\x03\0\0\0\"?\"").is_err());
    }

    #[test]
    fn a_file_comes_with_its_message() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut reader, writer) = io::pipe().unwrap();
        send_with(&ours, &Message::Ask, Some(&writer.into())).unwrap();
        send(&ours, &Message::Map).unwrap();
        let (message, file) = receive_with(&theirs).unwrap();
        assert_eq!(message, Message::Ask);
        std::fs::File::from(file.unwrap()).write_all(b"hello").unwrap();
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "hello");
        assert!(matches!(receive_with(&theirs).unwrap(), (Message::Map, None)));
    }
}
