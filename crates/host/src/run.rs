//! Commands of the agent: started in a sandbox, listened to, timed, stopped with everything they started.
//!
//! ```no_run
//! # async fn example() -> std::io::Result<()> {
//! use tieline_host::{run::Request, sandbox::{Level, Policy}};
//!
//! let policy = Policy::new(Level::Workspace, ["/home/me/project"])?;
//! let mut command = Request::shell("cargo test", "/home/me/project", &policy).start().await?;
//! let mut seen = 0;
//! while let Some(news) = command.more(seen).await {
//!     seen = news.next;
//!     // Show `news.text`.
//! }
//! let outcome = command.outcome().await;
//! # Ok(()) }
//! ```

mod background;
mod environment;

pub use background::{Background, Entry};
pub use environment::{base_environment, is_secret};
pub use tieline_process::{Outcome, Output, Running, Size, Status, Stopped, View};

use crate::sandbox::Policy;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tieline_process::{Job, Setup, signal_name};
use tieline_schema::ExitStatus;

/// So much output is kept, unless the request says otherwise.
pub const KEEP: usize = 1 << 20;
/// No request can have more kept.
pub const KEEP_MOST: usize = 16 << 20;

/// Limits on a command, for each of its processes where it is not said otherwise. `None` is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How many processes there can be, all together; threads count too. The kernel does not hold root to it: of
    /// root's, processes are counted four times a second, and all are killed if there are too many.
    pub processes: Option<u64>,
    /// How long a file can become, in bytes.
    pub file: Option<u64>,
    /// How much memory they can have, all together, in bytes. Who takes more is killed, with a word.
    pub memory: Option<u64>,
}

impl Default for Limits {
    /// 4096 processes and threads, files of 4 GiB, half of the memory of the machine or of the container that we are in.
    fn default() -> Self {
        let number = |text: &str| text.split_ascii_whitespace().find_map(|word| word.parse::<u64>().ok());
        let read = |path| std::fs::read_to_string(path).ok();
        let machine = read("/proc/meminfo").as_deref().and_then(number).map(|kilobytes| kilobytes << 10);
        let container = read("/sys/fs/cgroup/memory.max").as_deref().and_then(number);
        let memory = machine.into_iter().chain(container).min().map(|bytes| bytes / 2);
        Self { processes: Some(4096), file: Some(4 << 30), memory }
    }
}

impl Limits {
    /// No limits.
    pub const NONE: Self = Self { processes: None, file: None, memory: None };
}

/// What to run, and how.
#[derive(Debug, Clone)]
pub struct Request {
    words: Vec<OsString>,
    folder: PathBuf,
    policy: Policy,
    pass: Vec<String>,
    set: Vec<(OsString, OsString)>,
    limits: Limits,
    keep: usize,
    time: Option<Duration>,
    grace: Duration,
    tty: Option<Size>,
}

impl Request {
    /// A program and its arguments. The program is a path, or a name that is looked up on `PATH`.
    pub fn words(
        words: impl IntoIterator<Item = impl Into<OsString>>,
        folder: impl Into<PathBuf>,
        policy: &Policy,
    ) -> Self {
        Self {
            words: words.into_iter().map(Into::into).collect(),
            folder: folder.into(),
            policy: policy.clone(),
            pass: Vec::new(),
            set: Vec::new(),
            limits: Limits::default(),
            keep: KEEP,
            time: None,
            grace: Duration::from_millis(300),
            tty: None,
        }
    }

    /// A line for the shell: bash if there is one, otherwise `/bin/sh`.
    pub fn shell(line: impl Into<OsString>, folder: impl Into<PathBuf>, policy: &Policy) -> Self {
        let bash = ["/bin/bash", "/usr/bin/bash"].into_iter().find(|path| Path::new(path).exists());
        Self::words([bash.unwrap_or("/bin/sh").into(), "-c".into(), line.into()], folder, policy)
    }

    /// Passes more variables of our environment on, by name or by the start of a name and `*`. Never what looks like a
    /// secret.
    #[must_use]
    pub fn pass(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.pass.extend(names.into_iter().map(Into::into));
        self
    }

    /// Sets a variable, whatever it is called.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.set.push((name.into(), value.into()));
        self
    }

    /// Sets limits.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Keeps so many bytes of the end of its output; 1 MiB unless said, at most 16 MiB.
    #[must_use]
    pub fn keep(mut self, bytes: usize) -> Self {
        self.keep = bytes.min(KEEP_MOST);
        self
    }

    /// Stops it after this time.
    #[must_use]
    pub fn timeout(mut self, time: Duration) -> Self {
        self.time = Some(time);
        self
    }

    /// How long it has between being asked to end and being killed; 300 ms unless said.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Gives it a terminal of this size: what it reads, what it writes, and what controls it. Nothing is ever typed there.
    #[must_use]
    pub fn tty(mut self, size: Size) -> Self {
        self.tty = Some(size);
        self
    }

    /// The command in one line, for people.
    pub fn line(&self) -> String {
        match &self.words[..] {
            [_, option, line] if option == "-c" => line.to_string_lossy().into_owned(),
            words => words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" "),
        }
    }

    /// Starts it. Needs a runtime with time and I/O. What is below the roots may change in between; then it is looked at again.
    ///
    /// Fails with an error that says what is wrong: with the program, with its folder, or with the sandbox, which is
    /// never weaker than asked for.
    pub async fn start(self) -> io::Result<Running> {
        if self.words.first().is_none_or(|program| program.is_empty()) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "can't run nothing"));
        }
        let job = Job {
            line: self.line(),
            keep: self.keep,
            time: self.time,
            grace: self.grace,
            tty: self.tty,
            temp: self.policy.temp(),
        };
        Running::start(job, move || self.setup()).await
    }

    fn setup(&self) -> io::Result<Setup> {
        let sandbox = self.policy.sandbox()?;
        let mut env: BTreeMap<_, _> = environment::allowed(std::env::vars_os(), &self.pass).into_iter().collect();
        let temp = sandbox.as_ref().and_then(|sandbox| sandbox.temps().into_iter().next());
        let temp = temp.map(|temp| (OsString::from("TMPDIR"), temp.into()));
        env.extend(temp.into_iter().chain(self.set.iter().cloned()));
        Ok(Setup {
            words: self.words.clone(),
            env: env.into_iter().collect(),
            folder: std::path::absolute(&self.folder)?,
            limits: [self.limits.processes, self.limits.file, self.limits.memory].map(Option::unwrap_or_default),
            group: None,
            session: true,
            tty: self.tty.is_some(),
            grace: 0,
            sandbox,
        })
    }
}

/// How a command ended, in the words of the protocol. After a signal there is no code; if nobody could tell, there is neither.
pub fn exit_status(end: Status) -> ExitStatus {
    let (exit_code, signal) = match end {
        Status::Code(code) => (Some(code.into()), None),
        Status::Signal(number) => (None, Some(signal_name(number).unwrap_or_else(|| number.to_string()))),
        _ => (None, None),
    };
    ExitStatus { exit_code, signal, ..ExitStatus::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn v1_term_14_a_signal_leaves_no_code() {
        for (end, code, signal) in [
            (Status::Code(0), Some(0), None),
            (Status::Code(127), Some(127), None),
            (Status::Signal(9), None, Some("SIGKILL")),
            (Status::Signal(15), None, Some("SIGTERM")),
            (Status::Signal(31), None, Some("SIGSYS")),
            (Status::Signal(40), None, Some("40")),
            (Status::Unknown, None, None),
        ] {
            let status = exit_status(end);
            assert_eq!((status.exit_code, status.signal.as_deref()), (code, signal), "{end:?}");
        }
    }
}
