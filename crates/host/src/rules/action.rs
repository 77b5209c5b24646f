//! What is about to happen, as facts that a rule can look at.

use super::address::name_of;
use super::shell::CommandLine;
use std::net::IpAddr;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// Something the agent wants to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Read a file or list a directory.
    Read(Location),
    /// Create or change a file.
    Write(Location),
    /// Delete a file.
    Delete(Location),
    /// Move a file.
    Move {
        /// From here.
        from: Location,
        /// To here.
        to: Location,
    },
    /// Run a command.
    Execute {
        /// The command.
        command: CommandLine,
        /// What holds it.
        confined: Confined,
    },
    /// Get something from the network.
    Fetch(Host),
    /// Call a tool of an MCP server.
    Mcp {
        /// The server's name in the configuration.
        server: String,
        /// The tool's name.
        tool: String,
    },
}

/// What holds a command, the least first. With a sandbox it is kept in the workspace and off the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confined {
    /// Nothing: there is no sandbox, or it runs in a client's terminal.
    #[default]
    No,
    /// A sandbox in which it may change what runs by itself later.
    Unguarded,
    /// A sandbox that keeps it from what runs by itself later, but not from all of it.
    Partly,
    /// A sandbox that keeps it from all of that.
    Guarded,
    /// A sandbox in which it can't write to the workspace.
    ReadOnly,
}

impl Confined {
    /// The words of rules that allow a command only with this around it, or more.
    const WORDS: [(Self, &str); 3] =
        [(Self::Guarded, "@sandbox"), (Self::Unguarded, "@unguarded"), (Self::ReadOnly, "@read-only")];

    /// A verb without such a word, and what the word asks for.
    pub(super) fn split(verb: &str) -> (&str, Self) {
        let found = Self::WORDS.iter().find_map(|(least, word)| Some((verb.strip_suffix(word)?, *least)));
        found.filter(|(verb, _)| verb.starts_with("run")).unwrap_or((verb, Self::No))
    }

    /// What a rule has to ask for so that it never allows a command with less around it than this. What can't be held differs from
    /// one time to the next, so of what is not held whole no rule can say it: it is asked for again until it is.
    pub(super) fn at_least(self) -> Self {
        if self == Self::Partly { Self::Guarded } else { self }
    }

    pub(super) fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(least, _)| *least == self).map_or("", |(_, word)| word)
    }
}

impl Action {
    /// The same, with each of its files by more names.
    pub(super) fn by_names(&self, names: impl Fn(&Location) -> Vec<PathBuf>) -> Self {
        let called = |at: &Location| at.clone().called(names(at));
        match self {
            Self::Read(at) => Self::Read(called(at)),
            Self::Write(at) => Self::Write(called(at)),
            Self::Delete(at) => Self::Delete(called(at)),
            Self::Move { from, to } => Self::Move { from: called(from), to: called(to) },
            other => other.clone(),
        }
    }

    /// Where the files are that it is about.
    pub(super) fn places(&self) -> impl Iterator<Item = &Location> {
        let (one, other) = match self {
            Self::Read(at) | Self::Write(at) | Self::Delete(at) => (Some(at), None),
            Self::Move { from, to } => (Some(from), Some(to)),
            Self::Execute { .. } | Self::Fetch(_) | Self::Mcp { .. } => (None, None),
        };
        one.into_iter().chain(other)
    }

    /// What goes with a folder that is deleted or moved, and where it goes: all that is in it, but no more than `most` of it.
    /// `None` if there is more, or it can't be read.
    pub(super) fn takes_along(&self, most: usize) -> Option<Vec<Location>> {
        let (from, to) = match self {
            Self::Delete(at) => (at, None),
            Self::Move { from, to } => (from, Some(to)),
            _ => return Some(Vec::new()),
        };
        let is_folder = |path: &Path| path.symlink_metadata().is_ok_and(|found| found.is_dir());
        let mut folders: Vec<PathBuf> = is_folder(&from.absolute).then(PathBuf::new).into_iter().collect();
        let mut found = Vec::new();
        while let Some(folder) = folders.pop() {
            for entry in from.absolute.join(&folder).read_dir().ok()? {
                let entry = entry.ok()?;
                let below = folder.join(entry.file_name());
                found.extend([Some(from), to].into_iter().flatten().map(|at| at.join(&below)));
                if found.len() > most {
                    return None;
                }
                folders.extend(entry.file_type().ok()?.is_dir().then_some(below));
            }
        }
        Some(found)
    }
}

/// Where a file is, with all links followed, and the other names that lead to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    absolute: PathBuf,
    relative: Option<PathBuf>,
    in_cwd: bool,
    /// Whole paths: as it was given, and with each link on the way followed. What holds back counts by any of them.
    names: Vec<PathBuf>,
    /// All folders from which a relative pattern that holds back is taken.
    bases: Arc<[PathBuf]>,
}

impl Location {
    /// In a root: the whole path, the path below the root, and whether that root is the working directory.
    pub fn inside(absolute: PathBuf, relative: PathBuf, in_cwd: bool) -> Self {
        Self { absolute, relative: Some(relative), in_cwd, names: Vec::new(), bases: Arc::default() }
    }

    /// Outside every root.
    pub fn outside(absolute: PathBuf) -> Self {
        Self { absolute, relative: None, in_cwd: false, names: Vec::new(), bases: Arc::default() }
    }

    /// The same below several folders, the roots of a session by all their names.
    #[must_use]
    pub fn below(self, bases: Arc<[PathBuf]>) -> Self {
        Self { bases, ..self }
    }

    /// The same, which other whole paths lead to.
    #[must_use]
    pub fn called(mut self, names: impl IntoIterator<Item = PathBuf>) -> Self {
        for name in names {
            if name != self.absolute && !self.names.contains(&name) {
                self.names.push(name);
            }
        }
        self
    }

    /// The folders from which a relative pattern that holds back is taken.
    pub(super) fn bases(&self) -> &Arc<[PathBuf]> {
        &self.bases
    }

    /// All whole paths that lead to it, the one without links first.
    pub(super) fn names(&self) -> impl Iterator<Item = &Path> {
        std::iter::once(&*self.absolute).chain(self.names.iter().map(PathBuf::as_path))
    }

    /// Whether it is in a root.
    pub fn is_inside(&self) -> bool {
        self.relative.is_some()
    }

    /// The whole path.
    pub fn absolute(&self) -> &Path {
        &self.absolute
    }

    /// The path below the root it is in.
    pub fn relative(&self) -> Option<&Path> {
        self.relative.as_deref()
    }

    /// The root it is in.
    pub(super) fn root(&self) -> Option<&Path> {
        self.absolute.ancestors().nth(self.relative.as_ref()?.components().count())
    }

    /// The path below the working directory, if it is in there.
    pub fn in_cwd(&self) -> Option<&Path> {
        self.relative.as_deref().filter(|_| self.in_cwd)
    }

    /// A name below it.
    pub(super) fn join(&self, below: &Path) -> Self {
        let relative = self.relative.as_ref().map(|path| path.join(below));
        let names = self.names.iter().map(|name| name.join(below)).collect();
        Self { absolute: self.absolute.join(below), relative, in_cwd: self.in_cwd, names, bases: self.bases.clone() }
    }

    /// Whether the path is what it says: absolute, without `.` and `..`.
    pub(crate) fn is_clean(&self) -> bool {
        let plain =
            |path: &Path| path.components().all(|part| matches!(part, Component::Normal(_) | Component::RootDir));
        self.absolute.is_absolute() && plain(&self.absolute) && self.relative.as_deref().is_none_or(plain)
    }
}

/// The server in a web address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    pub(crate) secure: bool,
    pub(crate) name: String,
    pub(crate) port: u16,
}

impl Host {
    /// An address that names this server and nothing else.
    pub fn url(&self) -> String {
        let scheme = if self.secure { "https" } else { "http" };
        let name = if self.name.contains(':') && !self.name.starts_with('[') {
            format!("[{}]", self.name)
        } else {
            self.name.clone()
        };
        format!("{scheme}://{name}:{}/", self.port)
    }

    /// The server of an `http` or `https` address. `None` for anything that two programs might read differently: user
    /// names, backslashes, spaces, names that are not plain ASCII, numbers instead of a name or address.
    pub fn of_url(url: &str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let secure = match scheme.to_ascii_lowercase().as_str() {
            "https" => true,
            "http" => false,
            _ => return None,
        };
        let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
        if url.chars().any(|c| c.is_control() || c == ' ' || c == '\\') {
            return None;
        }
        let (name, port) = match authority.rsplit_once(':') {
            Some((name, port)) if !port.contains(']') => {
                (name, if port.bytes().all(|byte| byte.is_ascii_digit()) { port.parse().ok()? } else { return None })
            }
            _ => (authority, if secure { 443 } else { 80 }),
        };
        let name = name.to_ascii_lowercase();
        let name = name.strip_suffix('.').unwrap_or(&name);
        host_name(name).map(|name| Self { secure, name, port })
    }

    /// The same server by its address.
    #[must_use]
    pub fn at(&self, address: IpAddr) -> Self {
        Self { name: name_of(address), ..*self }
    }

    /// Its name, or its address: an IPv6 address in brackets, one that only stands for an IPv4 address as that one.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// True if nobody on the way can read along: `https`, or a server on this machine.
    pub fn is_private(&self) -> bool {
        let name = self.name.trim_matches(['[', ']']);
        let here = name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
        self.secure || here
    }

    pub(crate) fn default_port(&self) -> u16 {
        if self.secure { 443 } else { 80 }
    }
}

/// A name of plain letters, an IPv4 address in four parts, or an IPv6 address in brackets; in lower case. `None` for
/// anything else. An address has one name, however it is written.
pub(crate) fn host_name(name: &str) -> Option<String> {
    if let Some(address) = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return address.parse::<std::net::Ipv6Addr>().ok().map(|address| name_of(address.into()));
    }
    is_plain(name).then(|| name.to_owned())
}

fn is_plain(name: &str) -> bool {
    let label = |part: &str| {
        !part.is_empty()
            && part.len() <= 63
            && part.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_'))
    };
    if name.len() > 253 || !name.split('.').all(label) {
        return false;
    }
    // `0x7f.1`, `2130706433`: some programs read these as addresses.
    let last = name.rsplit('.').next().unwrap_or_default();
    let number = last.bytes().all(|byte| byte.is_ascii_digit()) || last.starts_with("0x");
    !number || name.parse::<std::net::Ipv4Addr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts() {
        for (url, expect) in [
            ("https://docs.rs/serde", Some(("docs.rs", 443))),
            ("HTTPS://Docs.RS.?q", Some(("docs.rs", 443))),
            ("http://localhost:8080", Some(("localhost", 8080))),
            ("http://127.0.0.1/", Some(("127.0.0.1", 80))),
            ("https://[::1]:9/x", Some(("[::1]", 9))),
            ("https://[::1]", Some(("[::1]", 443))),
            ("https://[0:0::0:1]", Some(("[::1]", 443))),
            ("http://[::ffff:127.0.0.1]:8", Some(("127.0.0.1", 8))),
            ("http://[::FFFF:7f00:1]:8", Some(("127.0.0.1", 8))),
            ("http://[fe80::1%eth0]/", None),
            ("http://127.1/", None),
            ("http://127.0.0.1./", Some(("127.0.0.1", 80))),
            ("https://docs.rs@evil.example/", None),
            ("https://user:pw@docs.rs/", None),
            ("https://docs.rs\\@evil.example/", None),
            ("https://docs.rs\t.evil.example/", None),
            ("https://docs.rs%2eevil.example/", None),
            ("https://d\u{43e}cs.rs/", None),
            ("https://0x7f.1/", None),
            ("https://2130706433/", None),
            ("https://0177.0.0.1/", None),
            ("https://docs.rs:+443/", None),
            ("https://docs.rs:99999/", None),
            ("https:///docs.rs", None),
            ("ftp://docs.rs/", None),
            ("file:///etc/passwd", None),
            ("docs.rs", None),
        ] {
            let host = Host::of_url(url);
            assert_eq!(host.as_ref().map(|host| (host.name.as_str(), host.port)), expect, "{url}");
        }
    }
}
