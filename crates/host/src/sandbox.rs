//! How far a command can reach: levels, what the kernel gives to enforce them, and what is hidden and guarded.
//!
//! A command is not started directly: a supervisor restricts itself with namespaces, Landlock and seccomp, and then becomes the
//! command. It is our own executable, so `main` has to call [`tieline_process::init`].
//!
//! | | `read-only` | `workspace` | `off` |
//! |---|---|---|---|
//! | write below the roots | no | yes | yes |
//! | write to a private temporary folder, and to named caches | yes | yes | yes |
//! | write elsewhere, devices and `/proc` included | no | no | yes |
//! | read the system | yes | yes | yes |
//! | read other people's homes, keys, tokens, histories | no | no | yes |
//! | reach the network (only if [`Network::On`]) | no | no | yes |
//! | reach other programs: sockets, signals, tracing | no | no | yes |
//!
//! Two ways lead there. With namespaces, the command sees a file system of its own. Without them, Landlock guards the
//! real one and seccomp the sockets. What is there of Landlock and seccomp is always used on top. [`probe`] tells.

pub(crate) mod around;
mod available;
pub(crate) mod git;
mod guard;
pub(crate) mod named;
pub(crate) mod secrets;
mod started;

pub use available::{Available, Refused, probe};
pub use guard::{Guarded, Kept};
pub use started::{Started, reads, starts};

use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use tieline_process::{Pinned, Plan, Sandbox, Temp};

/// How much of the machine a command can change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub enum Level {
    /// It can write nothing that stays, but for named caches.
    #[default]
    ReadOnly,
    /// It can write below the roots.
    Workspace,
    /// It can do all that we can do.
    Off,
}

impl Level {
    /// All levels, the strictest one first.
    pub const ALL: [Self; 3] = [Self::ReadOnly, Self::Workspace, Self::Off];
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::ReadOnly => "read-only",
            Self::Workspace => "workspace",
            Self::Off => "off",
        })
    }
}

impl FromStr for Level {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|level| level.to_string() == text);
        found.ok_or_else(|| format!("there is no sandbox level `{text}`; there are read-only, workspace and off"))
    }
}

/// Whether a command can reach the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Network {
    /// It can't. Where there are namespaces, it has a loopback of its own.
    #[default]
    Off,
    /// It can.
    On,
}

/// Something the kernel offers to restrict a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mechanism {
    /// User, mount, process, network and IPC namespaces.
    Namespaces,
    /// Rules for files and signals.
    Landlock,
    /// A filter of system calls.
    Seccomp,
}

impl fmt::Display for Mechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Namespaces => "namespaces",
            Self::Landlock => "Landlock",
            Self::Seccomp => "seccomp",
        })
    }
}

/// How what runs by itself later is guarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Guard {
    None,
    /// As far as it can be.
    Some,
    /// A command is not started if anything of it can't be.
    Whole,
}

/// What a command may do: a level, and the exceptions from it. Cheap to clone; clones share one private temporary
/// folder, so that one command finds there what another one left.
#[derive(Debug, Clone)]
pub struct Policy {
    level: Level,
    network: Network,
    roots: Vec<Pinned>,
    caches: Vec<Pinned>,
    protect: Vec<PathBuf>,
    guard: Guard,
    denied: Option<guard::Denied>,
    memory: Arc<guard::Memory>,
    hide: Vec<PathBuf>,
    show: Vec<PathBuf>,
    without: Vec<Mechanism>,
    temp: Option<Arc<Temp>>,
}

impl Policy {
    /// A level, and the folders that are the workspace. They must exist, and are known by what they are now, not by
    /// name. The network is off, unless the level is.
    pub fn new(level: Level, roots: impl IntoIterator<Item = impl AsRef<Path>>) -> io::Result<Self> {
        let roots = roots.into_iter().map(|root| Pinned::new(root.as_ref())).collect::<io::Result<Vec<_>>>()?;
        if level != Level::Off && roots.iter().any(|root| root.path == Path::new("/")) {
            let why = format!("the whole system can't be a root at sandbox level `{level}`");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        if level == Level::Workspace {
            secrets::make_own(&roots);
        }
        let mut policy = Self {
            level,
            network: if level == Level::Off { Network::On } else { Network::Off },
            roots,
            caches: Vec::new(),
            protect: Vec::new(),
            guard: Guard::None,
            denied: None,
            memory: Arc::default(),
            hide: Vec::new(),
            show: Vec::new(),
            without: Vec::new(),
            temp: None,
        };
        policy.take_temp()?;
        Ok(policy)
    }

    /// Lets commands reach the network, or not. At level `off`, they always can.
    #[must_use]
    pub fn network(mut self, network: Network) -> Self {
        if self.level != Level::Off {
            self.network = network;
        }
        self
    }

    /// Makes a folder outside the roots writable, say a cache of downloads. It must exist.
    pub fn cache(mut self, folder: impl AsRef<Path>) -> io::Result<Self> {
        self.caches.push(Pinned::new(folder.as_ref())?);
        self.take_temp()?;
        Ok(self)
    }

    /// Has a private temporary folder where no command can reach it by another way.
    fn take_temp(&mut self) -> io::Result<()> {
        let places: Vec<&Path> = self.roots.iter().chain(&self.caches).map(|place| &*place.path).collect();
        let within = |temp: &Arc<Temp>| places.iter().any(|place| temp.path().starts_with(place));
        if self.level != Level::Off && self.temp.as_ref().is_none_or(within) {
            self.temp = Some(Arc::new(Temp::outside(&places)?));
        }
        Ok(())
    }

    /// Makes a file or folder read-only although it is below a root. Needs namespaces, and covers what exists when a
    /// command starts.
    #[must_use]
    pub fn protect(mut self, path: impl Into<PathBuf>) -> Self {
        self.protect.push(path.into());
        self
    }

    /// Makes what runs by itself later read-only wherever it is below the roots: `.git`, `.envrc` and the like, as
    /// [`crate::later`] names them, and where git looks for hooks. Where there are no namespaces this can't be had, and
    /// [`Policy::guards`] and [`Policy::describe`] say so. What else can't be held [`Policy::guarded`] tells; what is new after a
    /// command, too.
    #[must_use]
    pub fn guard(mut self) -> Self {
        self.guard = Guard::Some;
        self
    }

    /// As [`Policy::guard`], but no command is started if something can't be held.
    #[must_use]
    pub fn guard_whole(mut self) -> Self {
        self.guard = Guard::Whole;
        self
    }

    /// Keeps commands from what this says of below the roots, which is `most` at most. It is asked for each path that is found there,
    /// but for what is below a folder that is hidden. Answers are remembered for the same `version`. Needs namespaces if
    /// there is such a path. What can't be looked into is held as a whole, or no command is started.
    #[must_use]
    pub fn deny(
        mut self,
        version: u64,
        most: impl Into<Option<Kept>>,
        says: impl Fn(&Path) -> Option<Kept> + Send + Sync + 'static,
    ) -> Self {
        self.denied = Some(guard::Denied { says: Arc::new(says), most: most.into(), version });
        self
    }

    /// Hides one more file or folder.
    #[must_use]
    pub fn hide(mut self, path: impl Into<PathBuf>) -> Self {
        self.hide.push(path.into());
        self
    }

    /// Shows a file or folder that is hidden otherwise, by itself or by what is around it.
    #[must_use]
    pub fn show(mut self, path: impl Into<PathBuf>) -> Self {
        self.show.push(path.into());
        self
    }

    /// Does without something that the kernel may offer.
    #[must_use]
    pub fn without(mut self, mechanism: Mechanism) -> Self {
        self.without.push(mechanism);
        self
    }

    /// The level.
    pub fn level(&self) -> Level {
        self.level
    }

    /// Whether commands are kept from what runs by itself later.
    pub fn guards(&self) -> bool {
        match self.level {
            Level::ReadOnly => true,
            Level::Workspace => self.guard != Guard::None && self.plan().is_ok_and(|plan| plan.namespaces),
            Level::Off => false,
        }
    }

    /// Whether something below the roots may be kept from commands by a rule.
    pub fn denies(&self) -> bool {
        self.denied.is_some()
    }

    /// What runs by itself later below the roots, as it is now. Reads folders.
    pub fn guarded(&self) -> Guarded {
        guard::look(&self.roots, &self.memory, self.denied.as_ref())
    }

    /// The same for a command that is about to be started. Fails if not all could be looked at and a rule may deny something there.
    pub fn looked(&self) -> Result<Guarded, Refused> {
        let found = self.guarded();
        let most = self.denied.as_ref().and_then(|denied| denied.most);
        let counts = most.is_some_and(|most| most == Kept::Hidden || self.level == Level::Workspace);
        match &found.unseen {
            Some(why) if counts && self.level != Level::Off => {
                Err(Refused::new(self.level, format!("what a rule denies about files can't be held: {why}")))
            }
            _ => Ok(found),
        }
    }

    /// Tells if this can be had here, and if not, why and what would help.
    pub fn check(&self) -> Result<(), Refused> {
        self.plan().map(|_| ())
    }

    /// What a command can do under this policy and what enforces it, in one line for people who have to decide.
    pub fn describe(&self) -> Result<String, Refused> {
        let plan = self.plan()?;
        if self.level == Level::Off {
            return Ok("sandbox off: the command can do everything that you can do".into());
        }
        let roots = if self.level == Level::Workspace { &self.roots[..] } else { &[] };
        let mut places: Vec<_> =
            roots.iter().chain(&self.caches).map(|place| place.path.display().to_string()).collect();
        places.push("a private temporary folder".into());
        let places = match places.split_last() {
            Some((last, [])) => format!("to {last}"),
            Some((last, rest)) => format!("below {} and to {last}", rest.join(", ")),
            None => String::new(),
        };
        let network = if self.network == Network::On { "on" } else { "off" };
        let how = available::how(plan, probe());
        let guard = match (self.level, self.guard != Guard::None, plan.namespaces) {
            (Level::Workspace, true, true) => "; .git, .envrc and the like are read-only",
            (Level::Workspace, true, false) => "; .git, .envrc and the like are NOT protected: that needs namespaces",
            _ => "",
        };
        Ok(format!("sandbox {}: writes only {places}{guard}; network {network} ({how})", self.level))
    }

    fn plan(&self) -> Result<Plan, Refused> {
        self.plan_with(&self.hidden())
    }

    fn plan_with(&self, hidden: &secrets::Hidden) -> Result<Plan, Refused> {
        let need = self.needs_namespaces(&hidden.hide);
        probe().plan(self.level, self.network, need.as_deref(), &self.without)
    }

    /// Landlock can only add rights on the way down, never take them away.
    fn needs_namespaces(&self, hidden: &[PathBuf]) -> Option<String> {
        if let Some(path) = self.protect.first() {
            return Some(format!("`{}` is to be protected", path.display()));
        }
        let roots = if self.level == Level::Workspace { &self.roots[..] } else { &[] };
        let places = || roots.iter().chain(&self.caches);
        let inside = hidden.iter().find(|path| places().any(|place| path.starts_with(&place.path)) && path.exists())?;
        Some(format!("`{}` is to be hidden inside a writable folder", inside.display()))
    }

    fn hidden(&self) -> secrets::Hidden {
        let keep: Vec<&Path> = self.roots.iter().chain(&self.caches).map(|place| &*place.path).collect();
        secrets::hidden(&self.hide, &real(&self.show), &keep)
    }

    /// What a supervisor is told of it. Nothing at level `off`.
    pub(crate) fn sandbox(&self) -> Result<Option<Sandbox>, Refused> {
        if self.level == Level::Off {
            return Ok(None);
        }
        let hidden = self.hidden();
        let mut sandbox = Sandbox {
            plan: self.plan_with(&hidden)?,
            network: self.network == Network::On,
            writable: self.caches.clone(),
            protect: real(&self.protect),
            hide: hidden.hide,
            show: hidden.show,
            temp: self.temp.as_ref().map(|temp| temp.pinned().clone()),
            ..Sandbox::default()
        };
        self.look(&mut sandbox)?;
        for root in &self.roots {
            let denied = self.denied.as_ref().and_then(|denied| (denied.says)(&root.path));
            let writable = self.level == Level::Workspace && denied != Some(Kept::ReadOnly);
            let roots = if writable { &mut sandbox.writable } else { &mut sandbox.readable };
            roots.push(root.clone());
        }
        Ok(Some(sandbox))
    }

    /// Adds what is found below the roots.
    fn look(&self, sandbox: &mut Sandbox) -> Result<(), Refused> {
        let guard = self.guard != Guard::None && self.level == Level::Workspace && sandbox.plan.namespaces;
        if sandbox.plan.namespaces {
            // What is hidden would be seen by another name as soon as a folder around it had one.
            let places = if self.level == Level::Workspace { &self.roots[..] } else { &[] };
            let places: Vec<Pinned> = places.iter().chain(&self.caches).cloned().collect();
            let there = sandbox.hide.iter().filter(|path| path.symlink_metadata().is_ok());
            sandbox.pin = guard::pins(there, &places);
        }
        if !guard && self.denied.is_none() {
            return Ok(());
        }
        let found = self.looked()?;
        if let (Guard::Whole, true, Some(gap)) = (self.guard, self.level == Level::Workspace, found.gap()) {
            return Err(Refused::new(self.level, format!("what runs by itself later can't be protected: {gap}")));
        }
        // A level without writing needs no more for what must not be changed.
        let unchanged = if self.level == Level::Workspace { &found.unchanged[..] } else { &[] };
        let in_place = if self.level == Level::Workspace { &found.in_place[..] } else { &[] };
        let unread = found.denied.first().map(|path| (path, "read"));
        let first = unread.or(unchanged.iter().chain(in_place).next().map(|path| (path, "changed")));
        if let (Some((path, how)), false) = (first, sandbox.plan.namespaces) {
            let path = crate::roots::shown(path);
            return Err(Refused::new(self.level, format!("`{path}` must not be {how}, which needs namespaces")));
        }
        // What is hidden must stay so.
        let hidden = |path: &PathBuf| {
            let around = |place: &&PathBuf| path.starts_with(place);
            let inside = |place: &PathBuf| self.roots.iter().any(|root| place.starts_with(&root.path));
            sandbox.hide.iter().filter(around).any(inside)
        };
        let hold = if guard { &found.hold[..] } else { &[] };
        let hold: Vec<PathBuf> = hold.iter().filter(|path| !hidden(path)).cloned().collect();
        if self.level == Level::Workspace {
            let all = hold.iter().chain(&found.denied).chain(unchanged).chain(in_place);
            sandbox.pin.extend(guard::pins(all, &self.roots));
            sandbox.pin.extend(in_place.iter().filter(|path| !path.is_symlink()).cloned());
            sandbox.pin.sort();
            sandbox.pin.dedup();
        }
        sandbox.protect.extend(hold);
        sandbox.protect.extend_from_slice(unchanged);
        sandbox.hide.extend_from_slice(&found.denied);
        Ok(())
    }

    /// Keeps the private temporary folder until dropped.
    pub(crate) fn temp(&self) -> Option<Arc<Temp>> {
        self.temp.clone()
    }
}

/// The paths of those that exist, without links.
fn real(paths: &[PathBuf]) -> Vec<PathBuf> {
    paths.iter().filter_map(|path| path.canonicalize().ok()).collect()
}
