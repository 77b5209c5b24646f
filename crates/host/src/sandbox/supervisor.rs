//! The process above a command: it tells the owner how the command ended, and ends whatever is below.

use super::launcher::{let_go, stage};
use super::wire::{Exit, Message, Setup, receive, send};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    DumpableBehavior, Pid, PidfdFlags, Signal, WaitOptions, getpid, kill_process_group, pidfd_open,
    set_child_subreaper, set_dumpable_behavior, wait,
};
use std::io;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use tieline_process::Tree;

/// Orphans are reaped this often, if nothing else happens.
const REAP: Duration = Duration::from_millis(500);
/// What has not ended so long after the command counts as left over.
const SETTLE: Duration = Duration::from_millis(50);
/// What can't be killed by then is left; only the kernel can hold a process like that.
const GIVE_UP: Duration = Duration::from_secs(5);

/// Who is below us, and how we can end them.
#[derive(Clone, Copy)]
enum Reach {
    /// We are process 1 of a namespace. When we go, all go.
    Namespace {
        /// `/proc` shows that namespace.
        sees: bool,
    },
    /// Orphans below us become our children.
    Tree,
}

/// Starts the last stage and stays until nothing is left of it. `namespace` is there if we are process 1 of one, and tells
/// if we can see its processes.
pub(super) fn run(owner: &UnixStream, setup: &Setup, namespace: Option<bool>) -> io::Result<i32> {
    let reach = match namespace {
        Some(sees) => Reach::Namespace { sees },
        None => {
            set_child_subreaper(Some(getpid()))?;
            Reach::Tree
        }
    };
    let (talk, theirs) = UnixStream::pair()?;
    let child = stage("last", theirs.into()).spawn()?;
    let command = Pid::from_child(&child);
    // Nobody below us may look into us.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    let_go();
    send(&talk, &Message::Setup(Box::new(setup.clone())))?;
    // The socket closes when the last stage becomes the command.
    match receive(&talk) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {}
        Err(error) => return Err(error),
        Ok(message) => {
            send(owner, &message)?;
            end(reach);
            return Ok(1);
        }
    }
    drop(talk);
    send(owner, &Message::Started(command.as_raw_pid()))?;
    if let Some(Watched { signal, number, until }) = watch(owner, command, reach) {
        let leftovers = settle(owner, reach, until);
        let _ = send(owner, &Message::Ended(Exit { signal, number, leftovers }));
    }
    end(reach);
    Ok(0)
}

/// How a command ended, and until when what it started may take to do so.
struct Watched {
    signal: bool,
    number: i32,
    until: Option<Instant>,
}

/// Waits for the command. Gives nothing if the owner does not care any more.
fn watch(owner: &UnixStream, command: Pid, reach: Reach) -> Option<Watched> {
    let handle = pidfd_open(command, PidfdFlags::empty()).ok();
    let mut deadline: Option<Instant> = None;
    loop {
        if let Reaped::Command(signal, number) = reap(command) {
            return Some(Watched { signal, number, until: deadline });
        }
        let mut rest = if handle.is_some() { REAP } else { REAP / 20 };
        if let Some(deadline) = deadline {
            rest = rest.min(deadline.saturating_duration_since(Instant::now()));
            if rest.is_zero() {
                // The last word of the kernel on the command still counts.
                kill(reach, command);
                rest = Duration::from_millis(10);
            }
        }
        let mut events = vec![PollFd::new(owner, PollFlags::IN)];
        events.extend(handle.as_ref().map(|handle| PollFd::new(handle, PollFlags::IN)));
        let timeout = Timespec::try_from(rest).ok();
        match poll(&mut events, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return None,
        }
        if !events[0].revents().is_empty() {
            match receive(owner) {
                Ok(Message::Stop(grace)) => {
                    deadline = Some(Instant::now() + Duration::from_millis(grace.into()));
                    if grace > 0 {
                        ask_to_end(reach, command);
                    }
                }
                Ok(_) => {}
                Err(_) => return None,
            }
        }
    }
}

enum Reaped {
    Command(bool, i32),
    /// There are others.
    More,
    /// There is nothing below us any more.
    Nothing,
}

/// Takes every child that has ended.
fn reap(command: Pid) -> Reaped {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) if pid == command => {
                if let Some(code) = status.exit_status() {
                    return Reaped::Command(false, code);
                }
                if let Some(signal) = status.terminating_signal() {
                    return Reaped::Command(true, signal);
                }
            }
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => return Reaped::More,
            Err(_) => return Reaped::Nothing,
        }
    }
}

fn reap_others() -> bool {
    matches!(reap(getpid()), Reaped::More)
}

/// Waits a moment for those that are about to end, and longer for those that were asked to. Gives how many do not.
fn settle(owner: &UnixStream, reach: Reach, until: Option<Instant>) -> u32 {
    let moment = Instant::now() + SETTLE;
    let until = until.map_or(moment, |until| until.max(moment));
    while reap_others() {
        let mut news = [PollFd::new(owner, PollFlags::IN)];
        let said = poll(&mut news, Some(&Timespec::default())).is_ok_and(|count| count > 0);
        // The owner has nothing to say any more but that it is over.
        if Instant::now() > until || said {
            return match reach {
                Reach::Namespace { sees: false } => 1,
                _ => u32::try_from(Tree::below_me().count()).unwrap_or(u32::MAX),
            };
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    0
}

fn ask_to_end(reach: Reach, command: Pid) {
    match reach {
        Reach::Namespace { sees: false } => {
            let _ = kill_process_group(command, Signal::TERM);
        }
        _ => Tree::below_me().ask_to_end(),
    }
}

/// Kills what can be killed before we end.
fn kill(reach: Reach, command: Pid) {
    let _ = kill_process_group(command, Signal::KILL);
    if matches!(reach, Reach::Tree) {
        Tree::below_me().kill();
    }
}

fn end(reach: Reach) {
    // The end of a namespace's first process is the kernel's work.
    if matches!(reach, Reach::Tree) {
        let start = Instant::now();
        while reap_others() && start.elapsed() < GIVE_UP {
            Tree::below_me().kill();
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}
