//! The process above a program: it tells the owner how the program ended, and ends whatever is below.

use super::wire::{Message, hear, receive, send, send_with};
use super::{group, let_go, stage};
use crate::Status;
use crate::setup::Setup;
use crate::tree::Tree;
use rustix::io::Errno;
use rustix::process::{
    DumpableBehavior, Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process_group, set_child_subreaper,
    set_dumpable_behavior, wait,
};
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::pin::pin;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, sleep};

/// What has not ended so long after the program counts as left over.
const SETTLE_TIME: Duration = Duration::from_millis(50);
/// While everything is to end, we look this often for those that came in between.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// What can't be killed by then (it may belong to another user, or sit in the kernel) is left.
const GIVE_UP_AFTER: Duration = Duration::from_secs(10);
/// Nothing happens by itself before the program ends.
const LONG_TIME: Duration = Duration::from_secs(3600);
/// So often we look how much memory is taken, and by how many.
const MEMORY_INTERVAL: Duration = Duration::from_millis(250);
/// So often in a row it may be too much without being sure, because processes come and go; then it counts.
const MAX_DOUBTS: u32 = 10;

/// Who is below us, and how we can end them.
#[derive(Clone, Copy)]
pub(super) enum Reach {
    /// We are process 1 of a namespace. When we go, all go.
    Namespace {
        /// `/proc` shows that namespace.
        sees: bool,
    },
    /// Orphans below us become our children.
    Tree,
}

/// Starts the last stage and stays until nothing is left of it. One thread: the runtime is there for the signals, because only
/// it can wait for them without unsafe code.
pub(super) fn run(owner: UnixStream, setup: &Setup, input: Option<OwnedFd>, reach: Reach) -> io::Result<i32> {
    if matches!(reach, Reach::Tree) {
        set_child_subreaper(Some(getpid()))?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    runtime.block_on(watch(owner, setup, input, reach))
}

async fn watch(owner: UnixStream, setup: &Setup, input: Option<OwnedFd>, reach: Reach) -> io::Result<i32> {
    // Before the program starts, so that no signal can come between.
    let mut ended = signal(SignalKind::child())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let (talk, theirs) = UnixStream::pair()?;
    let mut child = stage("last", theirs.into()).spawn()?;
    if setup.sandbox.is_some() {
        // Nobody below us may look into us.
        set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    }
    let_go();
    send_with(&talk, &Message::Setup(Box::new(setup.clone())), input.as_ref())?;
    drop(input);
    // The socket closes when the last stage becomes the program.
    match receive(&talk) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {}
        Err(error) => return Err(error),
        Ok(message) => {
            send(&owner, &message)?;
            let _ = child.wait();
            return Ok(1);
        }
    }
    drop(talk);
    let program = Pid::from_child(&child);
    send(&owner, &Message::Started(program.as_raw_pid()))?;
    owner.set_nonblocking(true)?;
    let (wishes, news) = tokio::net::UnixStream::from_std(owner)?.into_split();
    let sees = !matches!(reach, Reach::Namespace { sees: false });
    let mut watch = Watch {
        news,
        program,
        reach,
        tree: sees.then(Tree::below_me),
        grace: Duration::from_millis(setup.grace.into()),
        processes: setup.limits[0],
        memory: setup.limits[2],
        group: setup.group.clone(),
        names_limits: !setup.session,
        took: None,
        doubts: 0,
        gone: false,
        exited: None,
        counted: false,
        kill_at: None,
    };
    let mut wish = pin!(next(wishes));
    while watch.reap().await {
        let Some(rest) = watch.step().await else { break };
        tokio::select! {
            _ = ended.recv() => {}
            (said, wishes) = &mut wish, if !watch.gone => match said {
                Ok(Message::Stop(grace)) => {
                    watch.end_within(Duration::from_millis(grace.into()));
                    wish.set(next(wishes));
                }
                // The end of our owner, or of its interest.
                _ => {
                    watch.gone = true;
                    watch.end_within(watch.grace);
                }
            },
            _ = terminate.recv() => watch.end_within(watch.grace),
            _ = interrupt.recv() => watch.end_within(watch.grace),
            _ = hangup.recv() => watch.end_within(watch.grace),
            () = sleep(rest) => {}
        }
    }
    if watch.exited.is_some() && !watch.counted {
        watch.say(&Message::Left(0)).await;
    }
    Ok(0)
}

/// What the owner says next, and from where it will go on.
async fn next(mut wishes: OwnedReadHalf) -> (io::Result<Message>, OwnedReadHalf) {
    (hear(&mut wishes).await, wishes)
}

struct Watch {
    news: OwnedWriteHalf,
    program: Pid,
    reach: Reach,
    /// Not there if we can't see who is below us.
    tree: Option<Tree>,
    grace: Duration,
    /// The kernel holds everybody to this number but root. Zero is no limit.
    processes: u64,
    /// In bytes; zero is no limit.
    memory: u64,
    /// The control group that the program is in.
    group: Option<OsString>,
    /// What it took too much of is told as how it ended.
    names_limits: bool,
    took: Option<Status>,
    /// How often in a row it seemed to be too much.
    doubts: u32,
    /// Nobody cares any more.
    gone: bool,
    /// When the program ended.
    exited: Option<Instant>,
    /// The owner knows what outlived it.
    counted: bool,
    /// Everything was asked to end, and is killed then.
    kill_at: Option<Instant>,
}

impl Watch {
    async fn say(&mut self, message: &Message) {
        if let Ok(bytes) = message.encode() {
            let _ = self.news.write_all(&bytes).await;
        }
    }

    /// Takes every child that has ended. False if there are none any more, so that nothing is below us.
    async fn reap(&mut self) -> bool {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == self.program => {
                    if let Some(status) = ended(status) {
                        self.exited = Some(Instant::now());
                        let status = self.verdict(status);
                        self.say(&Message::Exited(status)).await;
                    }
                }
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
    }

    /// Asks everything to end, and has it killed after a while; not later than was said before.
    fn end_within(&mut self, grace: Duration) {
        let at = Instant::now() + grace;
        self.kill_at = Some(self.kill_at.map_or(at, |before| before.min(at)));
        if !grace.is_zero() {
            self.ask_to_end();
        }
    }

    /// Asks those who were not asked yet.
    fn ask_to_end(&mut self) {
        match &mut self.tree {
            Some(tree) => tree.ask_to_end(),
            None => drop(kill_process_group(self.program, Signal::TERM)),
        }
    }

    /// Does what is due. Gives how long nothing else is, or nothing if it is over.
    async fn step(&mut self) -> Option<Duration> {
        let now = Instant::now();
        if let Some(exited) = self.exited.filter(|_| !self.counted) {
            // A moment for those that are about to end, and longer for those that were asked to.
            let until = self.kill_at.unwrap_or(exited).max(exited + SETTLE_TIME);
            if now < until && !self.gone {
                return Some(until - now);
            }
            let left = self.tree.as_mut().map_or(1, Tree::count);
            self.counted = true;
            self.say(&Message::Left(u32::try_from(left).unwrap_or(u32::MAX))).await;
            if self.kill_at.is_none() {
                self.end_within(self.grace);
            }
        }
        if self.kill_at.is_none() && (self.memory > 0 || self.processes > 0) {
            self.took = self.takes_too_much();
            if self.took.is_none() {
                return Some(if self.doubts > 0 { LOOK_INTERVAL } else { MEMORY_INTERVAL });
            }
            self.say(&Message::Full).await;
            self.end_within(Duration::ZERO);
        }
        match self.kill_at {
            None => Some(LONG_TIME),
            Some(at) if now < at => {
                if self.exited.is_none() || self.counted {
                    self.ask_to_end();
                }
                Some(LOOK_INTERVAL.min(at - now))
            }
            Some(at) => {
                let all_go_with_us = matches!(self.reach, Reach::Namespace { .. }) && (self.counted || self.gone);
                if all_go_with_us || now > at + GIVE_UP_AFTER {
                    return None;
                }
                self.kill();
                Some(LOOK_INTERVAL)
            }
        }
    }

    /// What all together have more of than they may: memory, or processes.
    fn takes_too_much(&mut self) -> Option<Status> {
        let tree = self.tree.as_mut()?;
        let many = self.processes > 0 && u64::try_from(tree.count()).is_ok_and(|count| count > self.processes);
        if many || self.memory == 0 {
            return many.then_some(Status::TooMany);
        }
        let (bytes, is_sure) = tree.memory(self.memory);
        self.doubts = if bytes > self.memory { self.doubts + 1 } else { 0 };
        (self.doubts > 0 && (is_sure || self.doubts > MAX_DOUBTS)).then_some(Status::OutOfMemory)
    }

    /// How the program ended, and why if that was a limit.
    fn verdict(&self, status: Status) -> Status {
        let killed = status == Status::Signal(Signal::KILL.as_raw());
        let ran_out = || self.group.as_ref().is_some_and(|group| group::ran_out(Path::new(group)));
        match self.took {
            _ if !self.names_limits => status,
            None if killed && ran_out() => Status::OutOfMemory,
            took => took.unwrap_or(status),
        }
    }

    /// Kills what can be killed before we end.
    fn kill(&mut self) {
        if self.exited.is_none() {
            // It is not reaped yet, so its number still means it and its group.
            let _ = kill_process_group(self.program, Signal::KILL);
        }
        if let (Reach::Tree, Some(tree)) = (self.reach, &mut self.tree) {
            tree.kill();
        }
    }
}

/// How a process ended, if it did.
fn ended(status: WaitStatus) -> Option<Status> {
    status.exit_status().map(Status::Code).or_else(|| status.terminating_signal().map(Status::Signal))
}
