//! What child process to start, and how; and what to say if it can't be started.

use crate::child::Started;
use crate::stderr::OnLine;
use crate::supervisor;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// Whether a child gets a guardian, which ends everything that it started also when we are killed. See [`crate::init`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Guard {
    /// None: descendants are looked for when the child is ended.
    #[default]
    Off,
    /// One if possible; otherwise the child is started without.
    IfPossible,
    /// One, or the child is not started.
    Required,
}

/// What a child may take together with everything that it starts. Held by its guardian ([`Guard`]), and by the kernel where it can have a
/// control group (version 2); [`crate::unheld`] tells what can't be held here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// Processes; with more of them, all are killed.
    pub processes: Option<u64>,
    /// Bytes of memory; with more, all are killed.
    pub memory: Option<u64>,
    /// CPU, in percent of one core; they don't get more.
    pub cpu: Option<u64>,
}

/// How long a child is given at each step of its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShutdownTimeouts {
    /// From the end of its input to SIGTERM.
    pub eof: Duration,
    /// From SIGTERM to SIGKILL. Also what descendants get that outlive the child.
    pub term: Duration,
}

impl Default for ShutdownTimeouts {
    fn default() -> Self {
        Self { eof: Duration::from_secs(5), term: Duration::from_secs(2) }
    }
}

/// What to start, and how. No shell comes in between.
#[derive(Clone)]
#[must_use]
pub struct Spec {
    pub(crate) program: OsString,
    pub(crate) args: Vec<OsString>,
    pub(crate) folder: Option<PathBuf>,
    clear: bool,
    env: Vec<(OsString, Option<OsString>)>,
    pub(crate) guard: Guard,
    pub(crate) limits: Limits,
    pub(crate) shutdown: ShutdownTimeouts,
    pub(crate) on_stderr: Option<OnLine>,
    #[cfg(unix)]
    pub(crate) stderr: Option<Arc<std::os::fd::OwnedFd>>,
}

impl fmt::Debug for Spec {
    /// Without the environment, which may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spec")
            .field("program", &self.program)
            .field("args", &self.args)
            .field("folder", &self.folder)
            .field("guard", &self.guard)
            .finish_non_exhaustive()
    }
}

impl Spec {
    /// A program: a path, or a name that is looked up on `PATH`.
    pub fn new(program: impl Into<OsString>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            folder: None,
            clear: false,
            env: Vec::new(),
            guard: Guard::default(),
            limits: Limits::default(),
            shutdown: ShutdownTimeouts::default(),
            on_stderr: None,
            #[cfg(unix)]
            stderr: None,
        }
    }

    /// Adds an argument.
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds arguments.
    pub fn args(mut self, args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Runs it in this folder.
    pub fn current_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }

    /// Sets a variable of its environment.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), Some(value.into())));
        self
    }

    /// Takes a variable out of its environment.
    pub fn env_remove(mut self, name: impl Into<OsString>) -> Self {
        self.env.push((name.into(), None));
        self
    }

    /// Gives it none of our variables, only those set with [`Self::env`], before or after this.
    pub fn env_clear(mut self) -> Self {
        self.clear = true;
        self
    }

    /// Says whether it gets a guardian.
    pub fn guard(mut self, guard: Guard) -> Self {
        self.guard = guard;
        self
    }

    /// What it may take. It needs a guardian then.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        if limits != Limits::default() {
            self.guard = Guard::Required;
        }
        self
    }

    /// How long it is given at each step of its end.
    pub fn shutdown(mut self, shutdown: ShutdownTimeouts) -> Self {
        self.shutdown = shutdown;
        self
    }

    /// Gets each line of its standard error; very long ones come in pieces. Must be quick.
    pub fn on_stderr(mut self, line: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.on_stderr = Some(Arc::new(line));
        self
    }

    /// Gives it this as its standard error, for as long as this lives. Then nobody else reads it: no line is forwarded, no tail kept.
    #[cfg(unix)]
    pub fn stderr(mut self, to: std::os::fd::OwnedFd) -> Self {
        self.stderr = Some(Arc::new(to));
        self
    }

    /// Finds what would not be found, or not be named well, by starting it.
    pub(crate) fn check(&self) -> io::Result<()> {
        if let Some(folder) = &self.folder
            && !folder.is_dir()
        {
            let why = if folder.exists() { "is not a folder" } else { "does not exist" };
            let why = format!("its working directory `{}` {why}", folder.display());
            return Err(self.error(io::ErrorKind::NotFound, why));
        }
        if self.guard == Guard::Required && !supervisor::is_ready() {
            let why = if cfg!(all(target_os = "linux", feature = "supervisor")) {
                "it needs a guardian, but `tieline_process::init()` was not called at the start of `main`"
            } else {
                "it needs a guardian, which only Linux has, with the feature `supervisor`"
            };
            return Err(self.error(io::ErrorKind::Unsupported, why));
        }
        Ok(())
    }

    /// All of its environment.
    pub(crate) fn environment(&self) -> Vec<(OsString, OsString)> {
        let mut all: BTreeMap<OsString, OsString> =
            if self.clear { BTreeMap::new() } else { std::env::vars_os().collect() };
        for (name, value) in &self.env {
            match value {
                Some(value) => all.insert(name.clone(), value.clone()),
                None => all.remove(name),
            };
        }
        all.into_iter().collect()
    }

    /// An error that names the program and says what is wrong with it.
    pub(crate) fn error(&self, kind: io::ErrorKind, why: impl fmt::Display) -> io::Error {
        io::Error::new(kind, format!("can't start `{}`: {why}", self.program.display()))
    }

    /// Starts it, with nobody between us.
    pub(crate) fn start(&self) -> io::Result<Started> {
        let mut command = Command::new(&self.program);
        command.args(&self.args).env_clear().envs(self.environment());
        let folder = self.folder.as_deref();
        if let Some(folder) = folder {
            command.current_dir(folder);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        #[cfg(unix)]
        if let Some(stderr) = &self.stderr {
            command.stderr(stderr.try_clone()?);
        }
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.spawn().map_err(|error| {
            self.error(error.kind(), explain(&self.program, folder.unwrap_or(Path::new("")), &error, false))
        })?;
        let errors = child.stderr.take();
        match (child.stdin.take(), child.stdout.take()) {
            (Some(input), Some(output)) => Ok(Started { child, link: None, input, output, errors }),
            _ => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }
}

/// Where a program is: a path as it stands (relative ones in `folder`), a name on `PATH`; or why it can't be run.
pub fn find_program(program: &OsStr, folder: Option<&Path>) -> Result<PathBuf, &'static str> {
    if is_name(program) {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut places = std::env::split_paths(&path).map(|folder| folder.join(program));
        return places.find(|path| is_program(path)).ok_or("not found on PATH");
    }
    let path = folder.unwrap_or(Path::new("")).join(program);
    match () {
        () if is_program(&path) => Ok(path),
        () if path.is_dir() => Err("it is a folder"),
        () if path.exists() => Err("it is not executable"),
        () => Err("there is no such file"),
    }
}

fn is_name(program: &OsStr) -> bool {
    !program.to_string_lossy().contains(std::path::is_separator)
}

fn is_program(path: &Path) -> bool {
    let Ok(found) = std::fs::metadata(path) else { return false };
    #[cfg(unix)]
    let runs = std::os::unix::fs::PermissionsExt::mode(&found.permissions()) & 0o111 != 0;
    #[cfg(not(unix))]
    let runs = true;
    found.is_file() && runs
}

/// Why a program can't be started, in words.
pub(crate) fn explain(program: &OsStr, folder: &Path, error: &io::Error, sandboxed: bool) -> String {
    let named = is_name(program);
    let full = folder.join(program);
    let why = match error.kind() {
        io::ErrorKind::NotFound if named => "not found on PATH",
        io::ErrorKind::NotFound if full.exists() => "the interpreter that it names is missing",
        io::ErrorKind::NotFound => "there is no such file",
        io::ErrorKind::PermissionDenied if full.is_dir() && !named => "it is a folder",
        io::ErrorKind::PermissionDenied if sandboxed => "it is not executable, or the sandbox does not show it",
        // So it is, too, if a folder of PATH may not be looked into.
        io::ErrorKind::PermissionDenied => find_program(program, Some(folder)).err().unwrap_or("it is not executable"),
        io::ErrorKind::ArgumentListTooLong => "the command line is too long",
        _ => return error.to_string(),
    };
    why.to_owned()
}
