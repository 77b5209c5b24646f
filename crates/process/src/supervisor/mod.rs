//! The supervisor of a program: our own executable, started again, which sees to it that nothing outlives us.
//!
//! Looking through the process table finds a program's descendants only as long as the links between them exist. A daemon
//! that forked twice has lost its link, and nobody looks at all when we are killed with `SIGKILL`. The supervisor covers
//! both: it holds a socket to us that closes when we die, however, and orphans below it become its children. For a sandbox it
//! restricts itself step by step before it starts the program.
//!
//! ```text
//! owner ──▶ first ─────────────▶ init ──▶ last ═▶ program     with namespaces: `init` is process 1 of its own
//! owner ──▶ first ──────────────────────▶ last ═▶ program     without: orphans below `first` become its children
//!           enters namespaces   watches    Landlock, seccomp
//! ```
//!
//! If the supervisor itself is killed with `SIGKILL`, a namespace ends with it. Without one, we end the program and what hangs
//! below it; only daemons that forked twice escape.

mod confine;
mod filter;
mod group;
mod link;
mod mounts;
mod namespaces;
mod watch;
mod wire;

pub(crate) use group::Group;
pub use group::unheld;
pub use link::probe;
pub(crate) use link::{Launched, Link, Streams, Supervisor, guard, launch};
pub(crate) use wire::{Message, Trouble, hear};

use crate::setup::Setup;
use crate::spec::explain;
use rustix::process::{Pid, Signal, ioctl_tiocsctty, set_parent_process_death_signal, setpgid, setsid};
use rustix::thread::set_no_new_privs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use watch::Reach;
use wire::{receive, receive_with, send};

/// The first argument of a supervisor: this, and its stage. Who kills all processes that have our name (`pkill -9 -f tieline`) must not
/// hit those who see to the end of the others, so our name is not in it.
const MARK: &str = "--child-supervisor=";

/// So many threads each process of a child may have on average, where the kernel counts threads.
const MAX_THREADS_EACH: u64 = 32;

static READY: AtomicBool = AtomicBool::new(false);

/// Lets this executable be a supervisor. To be called first thing in `main`, before there are threads.
///
/// If we were started as one, this does its work and never returns. Otherwise it only notes that programs can have one.
pub fn init() {
    let first = std::env::args_os().nth(1);
    if let Some(stage) = first.as_deref().and_then(|first| first.as_bytes().strip_prefix(MARK.as_bytes())) {
        let code = if tokio::runtime::Handle::try_current().is_ok() {
            // Called too late, inside a runtime. It works, but costs more, and there can be no namespaces.
            std::thread::scope(|scope| scope.spawn(|| run(stage)).join().unwrap_or(Ok(1)))
        } else {
            run(stage)
        };
        std::process::exit(code.unwrap_or(1));
    }
    READY.store(true, Ordering::Relaxed);
}

/// True if programs can have a supervisor: [`init`] was called.
pub fn is_ready() -> bool {
    READY.load(Ordering::Relaxed)
}

/// A supervisor at some stage, which talks to us through its standard input.
fn stage(name: &str, talk: OwnedFd) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg0("child-supervisor").arg(format!("{MARK}{name}")).env_clear().stdin(talk);
    command
}

fn run(stage: &[u8]) -> io::Result<i32> {
    let _ = rustix::thread::set_name(c"child-guard");
    // The program gets what it is to read later, and nobody to talk to.
    let talk = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    rustix::stdio::dup2_stdin(null()?)?;
    match stage {
        b"first" => first(talk),
        b"init" => init_of_namespace(talk),
        b"last" => last(&talk),
        _ => Ok(1),
    }
}

fn null() -> io::Result<std::fs::File> {
    std::fs::File::options().read(true).write(true).open("/dev/null")
}

/// Holds nothing of what the program works with: neither its output, whose end others wait for, nor its folder.
fn let_go() {
    if let Ok(null) = null() {
        let _ = rustix::stdio::dup2_stdout(&null);
        let _ = rustix::stdio::dup2_stderr(&null);
    }
    let _ = std::env::set_current_dir("/");
}

fn ask(talk: &UnixStream) -> io::Result<(Setup, Option<OwnedFd>)> {
    send(talk, &Message::Ask)?;
    be_told(talk)
}

/// What to run, and what it reads.
fn be_told(talk: &UnixStream) -> io::Result<(Setup, Option<OwnedFd>)> {
    match receive_with(talk)? {
        (Message::Setup(setup), input) => Ok((*setup, input)),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Tells the other side what went wrong.
fn told<T>(talk: &UnixStream, what: &str, result: io::Result<T>) -> io::Result<T> {
    result.inspect_err(|error| {
        let _ = send(talk, &Message::Failed(Trouble::new(false, error, format!("{what}: {error}"))));
    })
}

fn first(talk: UnixStream) -> io::Result<i32> {
    let (setup, input) = ask(&talk)?;
    if setup.limits[2] > 0 {
        // If the machine has no memory left, the command goes, not who started it.
        let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    }
    let Some(sandbox) = setup.sandbox.as_ref().filter(|sandbox| sandbox.plan.namespaces) else {
        return watch::run(talk, &setup, input, Reach::Tree);
    };
    let sockets = mounts::sockets(sandbox);
    told(&talk, "new namespaces", namespaces::enter(sandbox))?;
    send(&talk, &Message::Map)?;
    if receive(&talk)? != Message::Map {
        return Err(io::ErrorKind::InvalidData.into());
    }
    if !sandbox.network {
        told(&talk, "the loopback", namespaces::loopback())?;
    }
    told(&talk, "the file system", mounts::build(sandbox, &sockets))?;
    told(&talk, "capabilities", namespaces::pass_capabilities())?;
    let copy = talk.try_clone()?;
    let mut next = told(&talk, "the next stage", stage("init", copy.into()).spawn())?;
    drop((talk, input));
    let_go();
    Ok(next.wait()?.code().unwrap_or(1))
}

/// When this process ends, the kernel kills all others of the namespace.
fn init_of_namespace(talk: UnixStream) -> io::Result<i32> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let (setup, input) = ask(&talk)?;
    let sees = mounts::own_processes();
    watch::run(talk, &setup, input, Reach::Namespace { sees })
}

fn last(talk: &UnixStream) -> io::Result<i32> {
    let (setup, input) = be_told(talk)?;
    if setup.session {
        setsid()?;
    } else {
        setpgid(None::<Pid>, None::<Pid>)?;
    }
    if setup.tty {
        let output = io::stdout();
        told(talk, "its terminal", ioctl_tiocsctty(&output).map_err(io::Error::from))?;
        rustix::stdio::dup2_stdin(&output)?;
    } else if let Some(input) = &input {
        rustix::stdio::dup2_stdin(input)?;
    }
    drop(input);
    told(talk, "limits", confine::limit(&setup))?;
    if let Some(group) = &setup.group {
        told(talk, "its control group", group::join(group.as_ref()))?;
    }
    let mut version = 0;
    if let Some(sandbox) = &setup.sandbox {
        told(talk, "capabilities", confine::drop_capabilities())?;
        told(talk, "no new privileges", set_no_new_privs(true).map_err(io::Error::from))?;
        if sandbox.plan.landlock {
            version = told(talk, "Landlock", confine::landlock(sandbox))?;
        }
        if sandbox.plan.seccomp {
            told(talk, "seccomp", filter::apply(sandbox))?;
        }
    }
    let [program, args @ ..] = &setup.words[..] else {
        send(talk, &Message::Probed(version))?;
        return Ok(0);
    };
    let mut command = Command::new(program);
    command.args(args).env_clear().envs(setup.env.iter().map(|(name, value)| (name, value)));
    let failed = |error: &io::Error, text| send(talk, &Message::Failed(Trouble::new(true, error, text)));
    if let Err(error) = std::env::set_current_dir(&setup.folder) {
        failed(&error, format!("its folder `{}`: {error}", setup.folder.display()))?;
        return Ok(1);
    }
    let error = command.exec();
    failed(&error, explain(program, &setup.folder, &error, setup.sandbox.is_some()))?;
    Ok(1)
}
