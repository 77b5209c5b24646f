//! Why a file operation was refused, in words for the person and as facts for the program.

use super::shown;
use rustix::io::Errno;
use std::{
    io,
    path::{Path, PathBuf},
};

/// The outcome of a file operation.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a file operation was refused or failed. Paths are as the caller named them, or the real ones.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The path, or a link on the way, leads out of every root.
    #[error("{} is outside the workspace ({})", shown(.path), .roots.iter().map(|root| shown(root)).collect::<Vec<_>>().join(", "))]
    Outside {
        /// The path that was asked for.
        path: PathBuf,
        /// The directories that are allowed.
        roots: Vec<PathBuf>,
    },
    /// The path crosses into another mounted file system below a root.
    #[error("{} is on another mounted file system; add that directory to the session to use it", shown(.0))]
    OtherMount(PathBuf),
    /// Nothing is there.
    #[error("{} does not exist", shown(.0))]
    NotFound(PathBuf),
    /// Something is there although nothing was expected.
    #[error("{} already exists", shown(.0))]
    Exists(PathBuf),
    /// A directory where a file was expected.
    #[error("{} is a directory", shown(.0))]
    IsDirectory(PathBuf),
    /// A file where a directory was expected.
    #[error("a part of {} is not a directory", shown(.0))]
    NotDirectory(PathBuf),
    /// A FIFO, device, socket or link where a regular file was expected.
    #[error("{} is not a regular file but {kind}", shown(.path))]
    NotRegular {
        /// The path.
        path: PathBuf,
        /// What is there instead, in words.
        kind: &'static str,
    },
    /// More bytes than the limit allows.
    #[error("{} is too large: {size} bytes, the limit is {limit} bytes", shown(.path))]
    TooLarge {
        /// The path.
        path: PathBuf,
        /// The size that was seen, at least.
        size: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// The file is no UTF-8 text.
    #[error("{} is not UTF-8 text (byte {at})", shown(.path))]
    NotText {
        /// The path.
        path: PathBuf,
        /// Where the first wrong byte is.
        at: usize,
    },
    /// The file is not the version that the caller knows.
    #[error("{} changed since it was read; read it again", shown(.0))]
    Changed(PathBuf),
    /// The file may not be written.
    #[error("{} is read-only", shown(.0))]
    ReadOnly(PathBuf),
    /// The file has other names, which a write would separate from it.
    #[error("{} is one of {links} hard links to the same file; a write would separate it", shown(.path))]
    HardLinked {
        /// The path.
        path: PathBuf,
        /// How many names it has.
        links: u64,
    },
    /// The path was changed by someone while it was being opened. Trying again is fine.
    #[error("{} was changed while it was being opened", shown(.0))]
    Raced(PathBuf),
    /// The path can't be one: empty, too long, a zero byte, too many links.
    #[error("{:?} can't be used as a path: {why}", shown(.path))]
    BadPath {
        /// The path.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The operating system said no.
    #[error("{doing} {}: {source}", shown(.path))]
    Io {
        /// The path.
        path: PathBuf,
        /// What was being done.
        doing: &'static str,
        /// The answer.
        source: io::Error,
    },
}

impl Error {
    /// The error for an answer of the operating system.
    pub(crate) fn new(path: &Path, doing: &'static str, source: impl Into<io::Error>) -> Self {
        let source = source.into();
        let path = path.to_path_buf();
        match Errno::from_io_error(&source) {
            Some(Errno::NOENT) => Self::NotFound(path),
            Some(Errno::EXIST | Errno::NOTEMPTY) => Self::Exists(path),
            Some(Errno::ISDIR) => Self::IsDirectory(path),
            Some(Errno::NOTDIR) => Self::NotDirectory(path),
            Some(Errno::LOOP | Errno::AGAIN) => Self::Raced(path),
            Some(Errno::XDEV) => Self::OtherMount(path),
            Some(Errno::ROFS) => Self::ReadOnly(path),
            Some(Errno::NAMETOOLONG) => Self::BadPath { path, why: "the name is too long" },
            Some(Errno::NXIO | Errno::NODEV) => Self::NotRegular { path, kind: "a special file" },
            _ => Self::Io { path, doing, source },
        }
    }

    /// The path that it is about.
    pub fn path(&self) -> &Path {
        match self {
            Self::OtherMount(path)
            | Self::NotFound(path)
            | Self::Exists(path)
            | Self::IsDirectory(path)
            | Self::NotDirectory(path)
            | Self::Changed(path)
            | Self::ReadOnly(path)
            | Self::Raced(path)
            | Self::Outside { path, .. }
            | Self::NotRegular { path, .. }
            | Self::TooLarge { path, .. }
            | Self::NotText { path, .. }
            | Self::HardLinked { path, .. }
            | Self::BadPath { path, .. }
            | Self::Io { path, .. } => path,
        }
    }
}
