//! What the owner and the stages of a launcher say to each other: frames of a tag, a length and bytes.

use super::{Level, Network, Pinned, Plan};
use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// No frame is longer.
const LONGEST: usize = 16 << 20;

/// What a frame is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Tag {
    /// To a stage: the [`Setup`]. From a stage: it asks for it.
    Setup = b's',
    /// From the first stage: its user ids wait to be mapped. Back: done.
    Map = b'm',
    /// The command runs. Holds its process number.
    Started = b'o',
    /// It can't be started. Holds a [`Trouble`].
    Failed = b'e',
    /// The answer to a probe, as text.
    Probed = b'i',
    /// To the supervisor: ask everything to end, and kill it after so many milliseconds.
    Stop = b't',
    /// It ended. Holds an [`Exit`].
    Ended = b'x',
}

impl Tag {
    fn of(byte: u8) -> io::Result<Self> {
        use Tag::{Ended, Failed, Map, Probed, Setup, Started, Stop};
        let all = [Setup, Map, Started, Failed, Probed, Stop, Ended];
        all.into_iter().find(|tag| *tag as u8 == byte).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

/// Length of what stands before the bytes.
pub(crate) const HEAD: usize = 5;

pub(crate) fn frame(tag: Tag, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEAD + bytes.len());
    out.push(tag as u8);
    out.extend((bytes.len() as u32).to_le_bytes());
    out.extend(bytes);
    out
}

/// The tag of a frame, and how many bytes follow.
pub(crate) fn head(bytes: [u8; HEAD]) -> io::Result<(Tag, usize)> {
    let [tag, length @ ..] = bytes;
    let length = u32::from_le_bytes(length) as usize;
    if length > LONGEST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok((Tag::of(tag)?, length))
}

pub(crate) fn send(mut to: impl Write, tag: Tag, bytes: &[u8]) -> io::Result<()> {
    to.write_all(&frame(tag, bytes))
}

/// The next frame. Fails with `UnexpectedEof` when the other side is gone.
pub(crate) fn receive(mut from: impl Read) -> io::Result<(Tag, Vec<u8>)> {
    let mut start = [0; HEAD];
    from.read_exact(&mut start)?;
    let (tag, length) = head(start)?;
    let mut bytes = vec![0; length];
    from.read_exact(&mut bytes)?;
    Ok((tag, bytes))
}

/// What a launcher has to do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Setup {
    pub(crate) plan: Plan,
    pub(crate) level: Level,
    pub(crate) network: Network,
    /// The first ones are writable in level `workspace`.
    pub(crate) roots: Vec<Pinned>,
    /// Always writable.
    pub(crate) caches: Vec<Pinned>,
    /// Read-only, also inside what is writable.
    pub(crate) protect: Vec<PathBuf>,
    /// Not to be read.
    pub(crate) hide: Vec<PathBuf>,
    /// To be read although something around it is hidden.
    pub(crate) show: Vec<PathBuf>,
    pub(crate) temp: PathBuf,
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
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Writer::default();
        let flags = [
            self.plan.namespaces,
            self.plan.landlock,
            self.plan.seccomp,
            self.plan.unix_sockets,
            self.network == Network::On,
            self.tty,
        ];
        out.bytes(&flags.map(u8::from));
        out.bytes(&[self.level as u8]);
        for list in [&self.roots, &self.caches] {
            out.number(list.len() as u64);
            for Pinned { path, device, inode } in list {
                out.bytes(path.as_os_str().as_bytes());
                out.number(*device);
                out.number(*inode);
            }
        }
        for list in [&self.protect, &self.hide, &self.show] {
            out.list(list.iter().map(|path| path.as_os_str()));
        }
        out.bytes(self.temp.as_os_str().as_bytes());
        out.bytes(self.folder.as_os_str().as_bytes());
        out.list(self.words.iter().map(OsString::as_os_str));
        out.list(self.env.iter().flat_map(|(name, value)| [name.as_os_str(), value.as_os_str()]));
        for limit in self.limits {
            out.number(limit);
        }
        out.0
    }

    pub(crate) fn decode(bytes: &[u8]) -> io::Result<Self> {
        let mut from = Reader(bytes);
        let flags: [u8; 6] = from.bytes()?.try_into().map_err(|_| io::ErrorKind::InvalidData)?;
        let [namespaces, landlock, seccomp, unix_sockets, network, tty] = flags.map(|flag| flag == 1);
        let level = match from.bytes()? {
            [0] => Level::ReadOnly,
            [1] => Level::Workspace,
            [2] => Level::Off,
            _ => return Err(io::ErrorKind::InvalidData.into()),
        };
        Ok(Self {
            plan: Plan { namespaces, landlock, seccomp, unix_sockets },
            level,
            network: if network { Network::On } else { Network::Off },
            roots: from.pinned()?,
            caches: from.pinned()?,
            protect: from.paths()?,
            hide: from.paths()?,
            show: from.paths()?,
            temp: from.path()?,
            folder: from.path()?,
            words: from.list()?,
            env: {
                let mut flat = from.list()?.into_iter();
                std::iter::from_fn(|| Some((flat.next()?, flat.next()?))).collect()
            },
            limits: [from.number()?, from.number()?, from.number()?],
            tty,
        })
    }

    /// What the command may write to.
    pub(crate) fn writable(&self) -> impl Iterator<Item = &Pinned> {
        let roots = if self.level == Level::Workspace { &self.roots[..] } else { &[] };
        roots.iter().chain(&self.caches)
    }

    /// Where the command has its private temporary folder; the first one is the one to tell it.
    pub(crate) fn temps(&self) -> Vec<PathBuf> {
        let free = |path: &PathBuf| !self.roots.iter().chain(&self.caches).any(|place| place.path == *path);
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Trouble {
    /// The command itself, not what is around it.
    pub(crate) program: bool,
    pub(crate) errno: i32,
    pub(crate) text: String,
}

impl Trouble {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![u8::from(self.program)];
        out.extend(self.errno.to_le_bytes());
        out.extend(self.text.as_bytes());
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Self {
        match bytes {
            [program, a, b, c, d, text @ ..] => Self {
                program: *program == 1,
                errno: i32::from_le_bytes([*a, *b, *c, *d]),
                text: String::from_utf8_lossy(text).into_owned(),
            },
            _ => Self { program: false, errno: 0, text: "the launcher said something odd".into() },
        }
    }
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exit {
    pub(crate) signal: bool,
    /// Exit status, or signal.
    pub(crate) number: i32,
    /// So many processes outlived it, and were killed.
    pub(crate) leftovers: u32,
}

impl Exit {
    pub(crate) fn encode(self) -> Vec<u8> {
        let mut out = vec![u8::from(self.signal)];
        out.extend(self.number.to_le_bytes());
        out.extend(self.leftovers.to_le_bytes());
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (signal, rest) = bytes.split_first()?;
        let (number, rest) = rest.split_first_chunk()?;
        let leftovers = u32::from_le_bytes(rest.try_into().ok()?);
        Some(Self { signal: *signal == 1, number: i32::from_le_bytes(*number), leftovers })
    }
}

#[derive(Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn number(&mut self, number: u64) {
        self.0.extend(number.to_le_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend(bytes);
    }

    fn list<'a>(&mut self, list: impl Iterator<Item = &'a OsStr>) {
        let items: Vec<_> = list.collect();
        self.number(items.len() as u64);
        for item in items {
            self.bytes(item.as_bytes());
        }
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> io::Result<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(io::ErrorKind::InvalidData)?;
        self.0 = rest;
        Ok(bytes)
    }

    fn number(&mut self) -> io::Result<u64> {
        let bytes = self.take(8)?;
        Ok(u64::from_le_bytes(bytes.try_into().map_err(|_| io::ErrorKind::InvalidData)?))
    }

    fn bytes(&mut self) -> io::Result<&'a [u8]> {
        let length = self.number()?;
        self.take(length as usize)
    }

    fn path(&mut self) -> io::Result<PathBuf> {
        Ok(Path::new(OsStr::from_bytes(self.bytes()?)).to_owned())
    }

    fn list(&mut self) -> io::Result<Vec<OsString>> {
        (0..self.number()?).map(|_| Ok(OsString::from_vec(self.bytes()?.to_vec()))).collect()
    }

    fn paths(&mut self) -> io::Result<Vec<PathBuf>> {
        Ok(self.list()?.into_iter().map(PathBuf::from).collect())
    }

    fn pinned(&mut self) -> io::Result<Vec<Pinned>> {
        (0..self.number()?)
            .map(|_| Ok(Pinned { path: self.path()?, device: self.number()?, inode: self.number()? }))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setup_comes_back_as_it_was() {
        let pinned = |path: &str| Pinned { path: path.into(), device: 7, inode: u64::MAX };
        let setup = Setup {
            plan: Plan { namespaces: true, landlock: false, seccomp: true, unix_sockets: true },
            level: Level::Workspace,
            network: Network::On,
            roots: vec![pinned("/a"), pinned("/b c")],
            caches: vec![pinned("/cache")],
            protect: vec!["/a/.git".into()],
            hide: vec!["/home/x/.ssh".into(), OsString::from_vec(vec![b'/', 0xff]).into()],
            show: vec![],
            temp: "/tmp/x".into(),
            folder: "/a".into(),
            words: vec!["sh".into(), "-c".into(), "".into()],
            env: vec![("A".into(), "".into()), ("B".into(), "x=y".into())],
            limits: [1, 2, 3],
            tty: true,
        };
        let bytes = setup.encode();
        assert_eq!(Setup::decode(&bytes).unwrap(), setup);
        for cut in 0..bytes.len() {
            assert!(Setup::decode(&bytes[..cut]).is_err(), "cut at {cut}");
        }
        assert_eq!(Setup::decode(&Setup::default().encode()).unwrap(), Setup::default());
    }

    #[test]
    fn frames_come_back_as_they_were() {
        let exit = Exit { signal: true, number: 9, leftovers: 3 };
        let (tag, bytes) = receive(&frame(Tag::Ended, &exit.encode())[..]).unwrap();
        assert_eq!((tag, Exit::decode(&bytes)), (Tag::Ended, Some(exit)));
        let trouble = Trouble { program: true, errno: 2, text: "é".into() };
        assert_eq!(Trouble::decode(&trouble.encode()), trouble);
        assert!(receive(&b"s\xff\xff\xff\xff"[..]).is_err());
        assert!(receive(&b"?\0\0\0\0"[..]).is_err());
    }
}
