//! What the owner and the stages of a supervisor say to each other: messages in JSON, each behind its length.

use crate::Status;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
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
    /// The program and what it started took more memory than they have, and are killed.
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

/// A program, and how it is held.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Setup {
    /// Program and arguments. None: this is a probe.
    pub words: Vec<OsString>,
    /// Its environment, all of it.
    pub env: Vec<(OsString, OsString)>,
    /// Where it runs.
    #[serde(with = "path")]
    pub folder: PathBuf,
    /// Processes, bytes of a file, bytes of memory of all processes together. Zero: no limit.
    pub limits: [u64; 3],
    /// It has a session of its own, so that it has no hold on our terminal.
    pub session: bool,
    /// Its output is a terminal, which is also what it reads from and what controls it.
    pub tty: bool,
    /// What outlives the program, or us, has so many milliseconds to end when it is asked to.
    pub grace: u32,
    /// What keeps it from the rest of the machine.
    pub sandbox: Option<Sandbox>,
}

impl Setup {
    /// What there is left to know inside a file system that is built already.
    pub(crate) fn inside(&self) -> Self {
        let mut inside = self.clone();
        if let Some(sandbox) = inside.sandbox.as_mut().filter(|sandbox| sandbox.plan.namespaces) {
            for paths in [&mut sandbox.hide, &mut sandbox.show, &mut sandbox.protect, &mut sandbox.pin] {
                paths.clear();
            }
        }
        inside
    }
}

/// Which mechanisms hold a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[allow(clippy::struct_excessive_bools)]
pub struct Plan {
    /// User, mount, process, network and IPC namespaces.
    pub namespaces: bool,
    /// Rules for files and signals.
    pub landlock: bool,
    /// A filter of system calls.
    pub seccomp: bool,
    /// Unix sockets can be had, because those of others are out of reach.
    pub unix_sockets: bool,
}

/// How far a program can reach.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Sandbox {
    /// What enforces it.
    pub plan: Plan,
    /// It can reach the network.
    pub network: bool,
    /// It can write there.
    pub writable: Vec<Pinned>,
    /// It works there, but can't write.
    pub readable: Vec<Pinned>,
    /// Read-only, also inside what is writable.
    #[serde(with = "paths")]
    pub protect: Vec<PathBuf>,
    /// Folders around those, and around what is hidden in the roots, which can't be moved.
    #[serde(with = "paths")]
    pub pin: Vec<PathBuf>,
    /// Not to be read. Some may not exist yet.
    #[serde(with = "paths")]
    pub hide: Vec<PathBuf>,
    /// To be read although something around it is hidden.
    #[serde(with = "paths")]
    pub show: Vec<PathBuf>,
    /// Its private temporary folder.
    #[serde(with = "path")]
    pub temp: PathBuf,
}

impl Sandbox {
    /// Whether a place is seen: the closest of what is hidden and what is shown around it decides.
    pub(crate) fn sees(&self, path: &Path) -> bool {
        let closest = |places: &mut dyn Iterator<Item = &Path>| {
            places.filter(|place| path.starts_with(place)).map(|place| place.components().count()).max()
        };
        let mut shown = self.show.iter().map(PathBuf::as_path).chain(self.places().map(|place| &*place.path));
        closest(&mut self.hide.iter().map(PathBuf::as_path)) <= closest(&mut shown)
    }

    /// What the program works in.
    pub(crate) fn places(&self) -> impl Iterator<Item = &Pinned> {
        self.readable.iter().chain(&self.writable)
    }

    /// Where the program has its private temporary folder; the first one is the one to tell it.
    pub fn temps(&self) -> Vec<PathBuf> {
        let free = |path: &PathBuf| !self.places().any(|place| place.path == *path);
        let usual = ["/tmp", "/var/tmp"].iter().filter_map(|path| Path::new(path).canonicalize().ok());
        let mut all: Vec<PathBuf> = if self.plan.namespaces { usual.filter(free).collect() } else { Vec::new() };
        all.dedup();
        if all.is_empty() {
            all.push(self.temp.clone());
        }
        all
    }
}

/// A folder as it was when it was named. Another one in its place is not it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pinned {
    /// Where it is, without links.
    #[serde(with = "path")]
    pub path: PathBuf,
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

impl Pinned {
    /// The folder that has this name now.
    pub fn new(path: &Path) -> io::Result<Self> {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("`{}`: {error}", path.display()));
        let full = path.canonicalize().map_err(named)?;
        let facts = full.metadata().map_err(named)?;
        if !facts.is_dir() {
            return Err(named(io::ErrorKind::NotADirectory.into()));
        }
        Ok(Self { path: full, device: facts.dev(), inode: facts.ino() })
    }
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

/// A path as text of which each character is a byte: most are short then, and none is lost.
mod path {
    use super::{Deserialize, OsString, Path, PathBuf};
    use serde::{Deserializer, Serializer};
    use std::os::unix::ffi::{OsStrExt, OsStringExt};

    pub(super) fn text(path: &Path) -> String {
        path.as_os_str().as_bytes().iter().copied().map(char::from).collect()
    }

    pub(super) fn read(text: String) -> PathBuf {
        OsString::from_vec(text.chars().filter_map(|c| u8::try_from(c).ok()).collect()).into()
    }

    pub(super) fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&text(path))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
        String::deserialize(from).map(read)
    }
}

/// Several of them.
mod paths {
    use super::{Deserialize, PathBuf, path};
    use serde::{Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(paths: &[PathBuf], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(paths.iter().map(|path| path::text(path)))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<PathBuf>, D::Error> {
        Ok(Vec::<String>::deserialize(from)?.into_iter().map(path::read).collect())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
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
            temp: "/tmp/x".into(),
        };
        let setup = Setup {
            words: vec!["sh".into(), "-c".into(), "".into(), odd()],
            env: vec![("A".into(), "".into()), ("B".into(), odd())],
            folder: odd().into(),
            limits: [1, 2, 3],
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
