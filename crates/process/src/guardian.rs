//! A small process between us and a child that ends the child's whole family when the child ends, or when we do.
//!
//! Looking through the process table finds a child's descendants only as long as the links between them exist. A daemon
//! that forked twice has lost its link, and nobody looks at all when we are killed with `SIGKILL`. The guardian covers
//! both: on Linux, orphans below it become its children, and it holds a socket to us that closes when we die, however.
//!
//! It is our own executable, started again. So `main` has to let it be one:
//!
//! ```no_run
//! tieline_process::guardian::init();
//! // Only now the arguments, the runtime, and the rest.
//! ```
//!
//! If the guardian itself is killed with `SIGKILL`, the child and what hangs below it are still ended by us; only daemons
//! that forked twice escape.

use std::sync::atomic::{AtomicBool, Ordering};

static READY: AtomicBool = AtomicBool::new(false);

/// Lets this executable be a guardian. To be called first thing in `main`.
///
/// If we were started as a guardian, this does its work and never returns. Otherwise it only notes that children can have
/// one. Does nothing on systems other than Linux.
pub fn init() {
    #[cfg(target_os = "linux")]
    {
        process::run_if_asked();
        READY.store(true, Ordering::Relaxed);
    }
}

/// True if children can have a guardian: this is Linux, and [`init`] was called.
pub fn is_ready() -> bool {
    READY.load(Ordering::Relaxed)
}

pub(crate) use link::{Failure, Link, start};

/// The first argument of a guardian: this, and the address to connect to.
#[cfg(target_os = "linux")]
const MARK: &str = "--tieline-guardian=";

/// Our end: starts a guardian, and hears from it.
#[cfg(target_os = "linux")]
mod link {
    use super::MARK;
    use crate::Status;
    use std::ffi::{OsStr, OsString};
    use std::fmt::Write;
    use std::io::{self, Read};
    use std::net::Shutdown;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command};
    use std::time::Duration;
    use tokio::io::AsyncReadExt;

    /// A guardian that has not answered by then is taken for dead.
    const PATIENCE: Duration = Duration::from_secs(10);

    /// Why there is no child.
    pub(crate) enum Failure {
        /// The guardian runs, but the program can't be started.
        Program(io::Error),
        /// There is no guardian.
        Guardian(io::Error),
    }

    /// A guardian that guards.
    pub(crate) struct Link {
        stream: UnixStream,
        program: i32,
    }

    impl Link {
        /// The number of the program's process.
        pub(crate) fn program(&self) -> i32 {
            self.program
        }

        /// Waits until the guardian tells how the program ended. `None` if it is gone without a word.
        pub(crate) fn last_word(&self) -> Option<Status> {
            let mut text = String::new();
            let mut byte = [0];
            while (&self.stream).read(&mut byte).ok()? == 1 && byte != *b"\n" {
                text.push(char::from(byte[0]));
            }
            let (word, number) = text.split_once(' ')?;
            let number = number.parse().ok()?;
            match word {
                "code" => Some(Status::Code(number)),
                "signal" => Some(Status::Signal(number)),
                _ => None,
            }
        }

        /// Lets the guardian end everything. It may still speak.
        pub(crate) fn release(&self) {
            let _ = self.stream.shutdown(Shutdown::Write);
        }
    }

    /// Starts a guardian for a program; `prepare` sets up what both have in common (streams, folder, environment).
    pub(crate) async fn start(
        program: &OsStr,
        args: &[OsString],
        prepare: impl FnOnce(&mut Command),
    ) -> Result<(Child, Link), Failure> {
        let (name, listener) = listen().map_err(Failure::Guardian)?;
        let mut command = Command::new("/proc/self/exe");
        command.arg0("tieline-guardian").arg(format!("{MARK}{name}")).arg(program).args(args);
        prepare(&mut command);
        let mut starting = Starting { child: Some(command.spawn().map_err(Failure::Guardian)?), connected: false };
        let hello = tokio::time::timeout(PATIENCE, starting.hello(&listener)).await;
        let (program, stream) = hello.unwrap_or_else(|_| Err(Failure::Guardian(io::ErrorKind::TimedOut.into())))?;
        match starting.child.take() {
            Some(child) => Ok((child, Link { stream, program })),
            None => Err(Failure::Guardian(io::ErrorKind::NotFound.into())),
        }
    }

    /// An address that nobody can guess. Others can see it though, so who connects is checked as well.
    fn listen() -> io::Result<(String, tokio::net::UnixListener)> {
        let mut random = [0; 16];
        std::fs::File::open("/dev/urandom")?.read_exact(&mut random)?;
        let mut name = String::from("tieline-");
        for byte in random {
            let _ = write!(name, "{byte:02x}");
        }
        let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
        listener.set_nonblocking(true)?;
        Ok((name, tokio::net::UnixListener::from_std(listener)?))
    }

    /// A guardian that has not answered yet. If that is given up, it ends.
    struct Starting {
        child: Option<Child>,
        /// Before, there is no program. After, the guardian ends with the connection, and takes the program with it.
        connected: bool,
    }

    impl Drop for Starting {
        fn drop(&mut self) {
            if let Some(mut child) = self.child.take() {
                if !self.connected {
                    let _ = child.kill();
                }
                let _ = std::thread::Builder::new().name("reaper".into()).spawn(move || child.wait());
            }
        }
    }

    impl Starting {
        /// Takes its call, and its word on the program.
        async fn hello(&mut self, listener: &tokio::net::UnixListener) -> Result<(i32, UnixStream), Failure> {
            let mut stream = self.accept(listener).await.map_err(Failure::Guardian)?;
            self.connected = true;
            let mut text = String::new();
            while !text.ends_with('\n') {
                let byte = stream.read_u8().await.map_err(Failure::Guardian)?;
                text.push(char::from(byte));
            }
            let word = text.trim_end().split_once(' ').and_then(|(word, number)| Some((word, number.parse().ok()?)));
            match word {
                Some(("pid", pid)) => {
                    let stream = stream.into_std().map_err(Failure::Guardian)?;
                    stream.set_nonblocking(false).map_err(Failure::Guardian)?;
                    Ok((pid, stream))
                }
                Some(("error", number)) => Err(Failure::Program(io::Error::from_raw_os_error(number))),
                _ => Err(Failure::Guardian(io::ErrorKind::InvalidData.into())),
            }
        }

        async fn accept(&mut self, listener: &tokio::net::UnixListener) -> io::Result<tokio::net::UnixStream> {
            let pid = self.child.as_ref().and_then(|child| i32::try_from(child.id()).ok());
            loop {
                tokio::select! {
                    call = listener.accept() => {
                        let (stream, _) = call?;
                        if pid.is_some() && stream.peer_cred().is_ok_and(|peer| peer.pid() == pid) {
                            return Ok(stream);
                        }
                    }
                    () = tokio::time::sleep(Duration::from_millis(50)) => {
                        if let Some(child) = &mut self.child && let Some(status) = child.try_wait()? {
                            return Err(io::Error::other(format!("it ended at once ({status})")));
                        }
                    }
                }
            }
        }
    }
}

/// Where there are no guardians.
#[cfg(not(target_os = "linux"))]
mod link {
    use crate::Status;
    use std::ffi::{OsStr, OsString};
    use std::io;
    use std::process::{Child, Command};

    pub(crate) enum Failure {
        #[allow(dead_code)]
        Program(io::Error),
        Guardian(io::Error),
    }

    pub(crate) enum Link {}

    impl Link {
        pub(crate) fn program(&self) -> i32 {
            match *self {}
        }

        pub(crate) fn last_word(&self) -> Option<Status> {
            match *self {}
        }

        pub(crate) fn release(&self) {
            match *self {}
        }
    }

    pub(crate) async fn start(
        _: &OsStr,
        _: &[OsString],
        _: impl FnOnce(&mut Command),
    ) -> Result<(Child, Link), Failure> {
        Err(Failure::Guardian(io::ErrorKind::Unsupported.into()))
    }
}

/// The other end: the guardian itself.
#[cfg(target_os = "linux")]
mod process {
    use super::MARK;
    use crate::Status;
    use crate::tree::Tree;
    use rustix::process::{WaitOptions, getpid, getppid, set_child_subreaper, wait};
    use std::ffi::{OsStr, OsString};
    use std::io;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::net::{SocketAddr, UnixStream};
    use std::os::unix::process::CommandExt;
    use std::process::Command;
    use std::time::Duration;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::signal::unix::{Signal, SignalKind, signal};
    use tokio::time::{Instant, sleep};

    /// Between asking everybody to end and killing them.
    const GRACE: Duration = Duration::from_secs(1);
    /// What can't be killed by then (it may belong to another user) is left.
    const GIVE_UP: Duration = Duration::from_secs(10);

    pub(super) fn run_if_asked() {
        let mut args = std::env::args_os().skip(1);
        let Some(first) = args.next() else { return };
        let Some(name) = first.as_bytes().strip_prefix(MARK.as_bytes()) else { return };
        let Some(program) = args.next() else { return };
        let args: Vec<OsString> = args.collect();
        let code = if tokio::runtime::Handle::try_current().is_ok() {
            // Called too late, inside a runtime. It works, but costs more.
            std::thread::scope(|scope| scope.spawn(|| guard(name, &program, &args)).join().unwrap_or(Ok(1)))
        } else {
            guard(name, &program, &args)
        };
        std::process::exit(code.unwrap_or(1));
    }

    /// One thread. The runtime is there for the signals: only it can wait for them without unsafe code.
    fn guard(name: &[u8], program: &OsStr, args: &[OsString]) -> io::Result<i32> {
        let _ = std::fs::write("/proc/self/comm", "tieline-guard");
        set_child_subreaper(Some(getpid()))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        runtime.block_on(async {
            let mut guardian = Guardian::connect(name)?;
            let status = guardian.guard(program, args).await;
            Ok(match status {
                Some(Status::Code(code)) => code,
                Some(Status::Signal(number)) => 128 + number,
                _ => 1,
            })
        })
    }

    struct Guardian {
        owner: tokio::net::UnixStream,
        ended: Signal,
        program: i32,
        status: Option<Status>,
    }

    impl Guardian {
        fn connect(name: &[u8]) -> io::Result<Self> {
            let ended = signal(SignalKind::child())?;
            let owner = UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?)?;
            owner.set_nonblocking(true)?;
            let owner = tokio::net::UnixStream::from_std(owner)?;
            // Nobody else may pose as our owner.
            if owner.peer_cred()?.pid() != getppid().map(rustix::process::Pid::as_raw_pid) {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            Ok(Self { owner, ended, program: 0, status: None })
        }

        async fn guard(&mut self, program: &OsStr, args: &[OsString]) -> Option<Status> {
            // Before the program starts, so that no signal can come between.
            let (Ok(mut terminate), Ok(mut interrupt), Ok(mut hangup)) =
                (signal(SignalKind::terminate()), signal(SignalKind::interrupt()), signal(SignalKind::hangup()))
            else {
                return None;
            };
            match Command::new(program).args(args).process_group(0).spawn() {
                Ok(child) => self.program = child.id().cast_signed(),
                Err(error) => {
                    self.say("error", error.raw_os_error().unwrap_or(0)).await;
                    return None;
                }
            }
            let_go();
            self.say("pid", self.program).await;
            let mut byte = [0];
            while self.status.is_none() {
                tokio::select! {
                    _ = self.ended.recv() => {
                        self.reap().await;
                    }
                    // There is nothing to read: this is the end of our owner, or of its interest.
                    _ = self.owner.read(&mut byte) => break,
                    _ = terminate.recv() => break,
                    _ = interrupt.recv() => break,
                    _ = hangup.recv() => break,
                }
            }
            self.end_all().await;
            self.status
        }

        async fn say(&mut self, word: &str, number: i32) {
            let _ = self.owner.write_all(format!("{word} {number}\n").as_bytes()).await;
        }

        /// Takes every child that has ended. False if there are no children any more, so nothing is below us.
        async fn reap(&mut self) -> bool {
            loop {
                match wait(WaitOptions::NOHANG) {
                    Ok(Some((pid, status))) if pid.as_raw_pid() == self.program => {
                        let (word, number) = match (status.exit_status(), status.terminating_signal()) {
                            (Some(code), _) => ("code", code),
                            (None, Some(number)) => ("signal", number),
                            (None, None) => continue,
                        };
                        self.status = Some(if word == "code" { Status::Code(number) } else { Status::Signal(number) });
                        self.say(word, number).await;
                    }
                    Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
                    Ok(None) => return true,
                    Err(_) => return false,
                }
            }
        }

        async fn end_all(&mut self) {
            let mut tree = Tree::below_me();
            let start = Instant::now();
            while self.reap().await && start.elapsed() < GIVE_UP {
                if start.elapsed() < GRACE {
                    tree.ask_to_end();
                } else {
                    tree.kill();
                }
                tokio::select! {
                    _ = self.ended.recv() => {}
                    () = sleep(Duration::from_millis(20)) => {}
                }
            }
        }
    }

    /// Holds nothing of what the program works with: neither its streams, whose end others wait for, nor its folder.
    fn let_go() {
        if let Ok(null) = std::fs::File::options().read(true).write(true).open("/dev/null") {
            let _ = rustix::stdio::dup2_stdin(&null);
            let _ = rustix::stdio::dup2_stdout(&null);
            let _ = rustix::stdio::dup2_stderr(&null);
        }
        let _ = std::env::set_current_dir("/");
    }
}
