//! The launcher: our own executable, started again, which restricts itself step by step and then becomes the command.
//!
//! ```text
//! owner ──▶ first ─────────────▶ init ──▶ last ═▶ command     with namespaces: `init` is process 1 of its own
//! owner ──▶ first ──────────────────────▶ last ═▶ command     without: orphans below `first` become its children
//!           enters namespaces   supervises   Landlock, seccomp
//! ```
//!
//! Whoever supervises holds a socket to the owner. If that closes, however it comes, everything ends.

use super::wire::{Message, Setup, Trouble, receive, send};
use super::{Level, confine, filter, mounts, namespaces, supervisor};
use rustix::process::{Signal, ioctl_tiocsctty, set_parent_process_death_signal, setsid};
use rustix::thread::set_no_new_privs;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

/// The first argument of a launcher: this, and its stage.
const MARK: &str = "--tieline-sandbox=";

static READY: AtomicBool = AtomicBool::new(false);

/// Lets this executable be a launcher. To be called first thing in `main`, before there are threads.
///
/// If we were started as a launcher, this does its work and never returns. Otherwise it only notes that commands can be
/// started.
pub fn init() {
    let first = std::env::args_os().nth(1);
    if let Some(stage) = first.as_deref().and_then(|first| first.as_bytes().strip_prefix(MARK.as_bytes())) {
        std::process::exit(run(stage).unwrap_or(1));
    }
    READY.store(true, Ordering::Relaxed);
}

pub(super) fn is_ready() -> bool {
    READY.load(Ordering::Relaxed)
}

/// A launcher at some stage, which talks to us through its standard input.
pub(super) fn stage(name: &str, talk: OwnedFd) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg0("tieline-sandbox").arg(format!("{MARK}{name}")).env_clear().stdin(talk);
    command
}

fn run(stage: &[u8]) -> io::Result<i32> {
    let _ = rustix::thread::set_name(c"tieline-sandbox");
    // The command gets nothing to read, and nobody to talk to.
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

/// Holds nothing of what the command works with: neither its output, whose end others wait for, nor its folder.
pub(super) fn let_go() {
    if let Ok(null) = null() {
        let _ = rustix::stdio::dup2_stdout(&null);
        let _ = rustix::stdio::dup2_stderr(&null);
    }
    let _ = std::env::set_current_dir("/");
}

fn ask(talk: &UnixStream) -> io::Result<Setup> {
    send(talk, &Message::Ask)?;
    be_told(talk)
}

fn be_told(talk: &UnixStream) -> io::Result<Setup> {
    match receive(talk)? {
        Message::Setup(setup) => Ok(*setup),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Tells the other side what went wrong.
fn told<T>(talk: &UnixStream, what: &str, result: io::Result<T>) -> io::Result<T> {
    result.inspect_err(|error| {
        let trouble =
            Trouble { program: false, errno: error.raw_os_error().unwrap_or(0), text: format!("{what}: {error}") };
        let _ = send(talk, &Message::Failed(trouble));
    })
}

fn first(talk: UnixStream) -> io::Result<i32> {
    let setup = ask(&talk)?;
    if !setup.plan.namespaces {
        return supervisor::run(&talk, &setup, None);
    }
    let sockets = mounts::sockets(&setup);
    told(&talk, "new namespaces", namespaces::enter(&setup))?;
    send(&talk, &Message::Map)?;
    if receive(&talk)? != Message::Map {
        return Err(io::ErrorKind::InvalidData.into());
    }
    if setup.network == super::Network::Off {
        told(&talk, "the loopback", namespaces::loopback())?;
    }
    told(&talk, "the file system", mounts::build(&setup, &sockets))?;
    told(&talk, "capabilities", namespaces::pass_capabilities())?;
    let copy = talk.try_clone()?;
    let mut next = told(&talk, "the next stage", stage("init", copy.into()).spawn())?;
    drop(talk);
    let_go();
    Ok(next.wait()?.code().unwrap_or(1))
}

/// When this process ends, the kernel kills all others of the namespace.
fn init_of_namespace(talk: UnixStream) -> io::Result<i32> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let setup = ask(&talk)?;
    let sees = mounts::own_processes();
    supervisor::run(&talk, &setup, Some(sees))
}

fn last(talk: &UnixStream) -> io::Result<i32> {
    let setup = be_told(talk)?;
    // A session of its own, so that it has no hold on our terminal.
    setsid()?;
    if setup.tty {
        let output = io::stdout();
        told(talk, "its terminal", ioctl_tiocsctty(&output).map_err(io::Error::from))?;
        rustix::stdio::dup2_stdin(&output)?;
    }
    told(talk, "limits", confine::limit(&setup))?;
    let mut version = 0;
    if setup.level != Level::Off {
        told(talk, "capabilities", confine::drop_capabilities())?;
        told(talk, "no new privileges", set_no_new_privs(true).map_err(io::Error::from))?;
        if setup.plan.landlock {
            version = told(talk, "Landlock", confine::landlock(&setup))?;
        }
        if setup.plan.seccomp {
            told(talk, "seccomp", filter::apply(&setup))?;
        }
    }
    let [program, args @ ..] = &setup.words[..] else {
        send(talk, &Message::Probed(version))?;
        return Ok(0);
    };
    let mut command = Command::new(program);
    command.args(args).env_clear().envs(setup.env.iter().map(|(name, value)| (name, value)));
    let failed = |text: &str, error: &io::Error| {
        let errno = error.raw_os_error().unwrap_or(0);
        send(talk, &Message::Failed(Trouble { program: true, errno, text: text.into() }))
    };
    if let Err(error) = std::env::set_current_dir(&setup.folder) {
        failed(&format!("its folder `{}`: {error}", setup.folder.display()), &error)?;
        return Ok(1);
    }
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let error = command.exec();
    failed(&explain(program, &error), &error)?;
    Ok(1)
}

fn explain(program: &OsStr, error: &io::Error) -> String {
    let named = !program.as_bytes().contains(&b'/');
    match error.kind() {
        io::ErrorKind::NotFound if named => "not found on PATH".into(),
        io::ErrorKind::NotFound => "there is no such file, or the interpreter that it names is missing".into(),
        io::ErrorKind::PermissionDenied => "it is not executable, or the sandbox does not show it".into(),
        io::ErrorKind::ArgumentListTooLong => "the command line is too long".into(),
        _ => error.to_string(),
    }
}
