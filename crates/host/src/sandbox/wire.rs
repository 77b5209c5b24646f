//! What the owner and the stages of a launcher say to each other: messages in JSON, each behind its length.

use super::{Level, Network, Pinned, Plan};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// No message is longer.
const MAX_MESSAGE_BYTES: usize = 64 << 20;

/// One thing that is said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Message {
    /// From a stage: it asks what to do.
    Ask,
    /// To a stage: that is it.
    Setup(Box<Setup>),
    /// From the first stage: its user ids wait to be mapped. Back: done.
    Map,
    /// The command runs, as this process.
    Started(i32),
    /// It can't be started.
    Failed(Trouble),
    /// The answer to a probe: the version of Landlock.
    Probed(u32),
    /// To the supervisor: ask everything to end, and kill it after so many milliseconds.
    Stop(u32),
    /// It ended.
    Ended(Exit),
}

/// Length of what stands before a message.
pub(crate) const HEAD: usize = 4;

impl Message {
    /// As it goes over the socket.
    pub(crate) fn encode(&self) -> io::Result<Vec<u8>> {
        let mut out = vec![0; HEAD];
        serde_json::to_writer(&mut out, self)?;
        let length = (out.len() - HEAD) as u32;
        out[..HEAD].copy_from_slice(&length.to_le_bytes());
        Ok(out)
    }

    pub(crate) fn decode(bytes: &[u8]) -> io::Result<Self> {
        Ok(serde_json::from_slice(bytes)?)
    }
}

/// How many bytes follow.
pub(crate) fn length(head: [u8; HEAD]) -> io::Result<usize> {
    let length = u32::from_le_bytes(head) as usize;
    if length > MAX_MESSAGE_BYTES { Err(io::ErrorKind::InvalidData.into()) } else { Ok(length) }
}

pub(crate) fn send(mut to: impl Write, message: &Message) -> io::Result<()> {
    to.write_all(&message.encode()?)
}

/// The next message. Fails with `UnexpectedEof` when the other side is gone.
pub(crate) fn receive(mut from: impl Read) -> io::Result<Message> {
    let mut head = [0; HEAD];
    from.read_exact(&mut head)?;
    let mut bytes = vec![0; length(head)?];
    from.read_exact(&mut bytes)?;
    Message::decode(&bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// What a launcher has to do.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Setup {
    pub(crate) plan: Plan,
    pub(crate) level: Level,
    pub(crate) network: Network,
    /// The first ones are writable in level `workspace`.
    pub(crate) roots: Vec<Pinned>,
    /// Always writable.
    pub(crate) caches: Vec<Pinned>,
    /// Read-only, also inside what is writable.
    #[serde(with = "paths")]
    pub(crate) protect: Vec<PathBuf>,
    /// Folders around those, and around what is hidden in the roots, which can't be moved.
    #[serde(with = "paths")]
    pub(crate) pin: Vec<PathBuf>,
    /// Not to be read. Some may not exist yet.
    #[serde(with = "paths")]
    pub(crate) hide: Vec<PathBuf>,
    /// To be read although something around it is hidden.
    #[serde(with = "paths")]
    pub(crate) show: Vec<PathBuf>,
    #[serde(with = "path")]
    pub(crate) temp: PathBuf,
    #[serde(with = "path")]
    pub(crate) folder: PathBuf,
    /// Program and arguments. None: this is a probe.
    pub(crate) words: Vec<OsString>,
    pub(crate) env: Vec<(OsString, OsString)>,
    /// Processes, bytes of a file, bytes of memory. Zero: no limit.
    pub(crate) limits: [u64; 3],
    /// Its output is a terminal, which is also what it reads from and what controls it.
    pub(crate) tty: bool,
}

impl Setup {
    /// What there is left to know inside a file system that is built already.
    pub(crate) fn inside(&self) -> Self {
        let mut inside = self.clone();
        if self.plan.namespaces {
            for paths in [&mut inside.hide, &mut inside.show, &mut inside.protect, &mut inside.pin] {
                paths.clear();
            }
        }
        inside
    }

    /// What the command may write to.
    pub(crate) fn writable(&self) -> impl Iterator<Item = &Pinned> {
        let roots = if self.level == Level::Workspace { &self.roots[..] } else { &[] };
        roots.iter().chain(&self.caches)
    }

    /// Whether a place is seen: the closest of what is hidden and what is shown around it decides.
    pub(crate) fn sees(&self, path: &Path) -> bool {
        let closest = |places: &mut dyn Iterator<Item = &Path>| {
            places.filter(|place| path.starts_with(place)).map(|place| place.components().count()).max()
        };
        let mut shown = self.show.iter().map(PathBuf::as_path).chain(self.places().map(|place| &*place.path));
        closest(&mut self.hide.iter().map(PathBuf::as_path)) <= closest(&mut shown)
    }

    /// What the command works in.
    pub(crate) fn places(&self) -> impl Iterator<Item = &Pinned> {
        self.roots.iter().chain(&self.caches)
    }

    /// Where the command has its private temporary folder; the first one is the one to tell it.
    pub(crate) fn temps(&self) -> Vec<PathBuf> {
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

/// Why a command could not be started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Trouble {
    /// The command itself, not what is around it.
    pub(crate) program: bool,
    pub(crate) errno: i32,
    pub(crate) text: String,
}

impl Trouble {
    /// Whether what was to be held is not where it was any more.
    pub(crate) fn is_stale(&self) -> bool {
        self.errno == rustix::io::Errno::STALE.raw_os_error()
    }
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Exit {
    pub(crate) signal: bool,
    /// Exit status, or signal.
    pub(crate) number: i32,
    /// So many processes outlived it, and were killed.
    pub(crate) leftovers: u32,
}

/// A path as text, which is short, or as bytes if it is no text.
pub(super) mod path {
    use super::{Deserialize, OsString, Path, PathBuf, Serialize};
    use serde::{Deserializer, Serializer};

    #[derive(Deserialize)]
    #[serde(untagged)]
    pub(super) enum Either {
        Text(PathBuf),
        Bytes(OsString),
    }

    impl From<Either> for PathBuf {
        fn from(either: Either) -> Self {
            match either {
                Either::Text(path) => path,
                Either::Bytes(bytes) => bytes.into(),
            }
        }
    }

    /// The same way out.
    #[derive(Serialize)]
    #[serde(untagged)]
    pub(super) enum Borrowed<'a> {
        Text(&'a str),
        Bytes(&'a std::ffi::OsStr),
    }

    impl<'a> From<&'a Path> for Borrowed<'a> {
        fn from(path: &'a Path) -> Self {
            path.to_str().map_or(Self::Bytes(path.as_os_str()), Self::Text)
        }
    }

    pub(crate) fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
        Borrowed::from(path).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
        Either::deserialize(from).map(PathBuf::from)
    }
}

/// Several of them.
mod paths {
    use super::path::{Borrowed, Either};
    use super::{Deserialize, PathBuf};
    use serde::{Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(paths: &[PathBuf], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(paths.iter().map(|path| Borrowed::from(path.as_path())))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<PathBuf>, D::Error> {
        Ok(Vec::<Either>::deserialize(from)?.into_iter().map(PathBuf::from).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt as _;

    #[test]
    fn messages_come_back_as_they_were() {
        let pinned = |path: &str| Pinned { path: path.into(), device: 7, inode: u64::MAX };
        let odd = || OsString::from_vec(vec![b'/', 0xff]);
        let setup = Setup {
            plan: Plan { namespaces: true, landlock: false, seccomp: true, unix_sockets: true },
            level: Level::Workspace,
            network: Network::On,
            roots: vec![pinned("/a"), pinned("/b c")],
            caches: vec![Pinned { path: odd().into(), device: 1, inode: 2 }],
            protect: vec!["/a/.git".into()],
            pin: vec!["/a".into()],
            hide: vec!["/home/x/.ssh".into(), odd().into()],
            show: vec![],
            temp: "/tmp/x".into(),
            folder: odd().into(),
            words: vec!["sh".into(), "-c".into(), "".into(), odd()],
            env: vec![("A".into(), "".into()), ("B".into(), odd())],
            limits: [1, 2, 3],
            tty: true,
        };
        for message in [
            Message::Setup(Box::new(setup)),
            Message::Setup(Box::default()),
            Message::Ask,
            Message::Failed(Trouble { program: true, errno: 2, text: "é".into() }),
            Message::Ended(Exit { signal: true, number: 9, leftovers: 3 }),
        ] {
            let bytes = message.encode().unwrap();
            assert_eq!(receive(&bytes[..]).unwrap(), message);
            for cut in 0..bytes.len() {
                assert!(receive(&bytes[..cut]).is_err(), "cut at {cut}");
            }
        }
        assert!(receive(&b"\xff\xff\xff\xff"[..]).is_err());
        assert!(receive(&b"\x03\0\0\0\"?\""[..]).is_err());
    }
}
