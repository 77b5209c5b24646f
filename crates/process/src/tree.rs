//! A process and everything it started: found through `/proc` on Linux, through the process group elsewhere.

use crate::locked;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, test_kill_process_group, waitid};
use std::collections::HashMap;
use std::io;
use std::process::{Child, ExitStatus};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// A tree in which nobody new was found for so long, and that is not at rest, is killed as it is: one that sits in the
/// kernel can't be stopped at once. On a busy machine one that is about to fork may not run for a good part of a second, and
/// what it starts after the last look would get away.
const MAX_UNREST: Duration = Duration::from_secs(1);
/// A tree that grows all the time is killed as it is by then.
const MAX_GROWTH: Duration = Duration::from_secs(4);

/// A root process and what is known to descend from it.
///
/// Who was seen once stays known, also when its parent has died since and the link between them is gone.
pub(crate) struct Tree {
    child: Option<Child>,
    root: Pid,
    /// The root is a guardian: it is left alone, because it ends by itself when nothing is below it.
    spare_root: bool,
    /// There is no process table to read.
    blind: bool,
    group_told: bool,
    known: HashMap<i32, Member>,
}

struct Member {
    /// When it started, which tells it from a later process with the same number.
    start: u64,
    told: bool,
    frozen: bool,
}

/// One line of the process table.
struct Process {
    pid: i32,
    parent: i32,
    group: i32,
    session: i32,
    start: u64,
    dead: bool,
}

impl Tree {
    /// The tree below a child of ours that leads its own process group.
    pub(crate) fn of(child: Child, spare_root: bool) -> Self {
        let root = Pid::from_child(&child);
        Self { child: Some(child), ..Self::from(root, spare_root) }
    }

    /// The tree below this process, which stays out of it. Nobody gets lost if orphans come back to this process
    /// (`PR_SET_CHILD_SUBREAPER`, or process 1 of a namespace).
    #[cfg(all(target_os = "linux", feature = "supervisor"))]
    pub(crate) fn below_me() -> Self {
        Self::from(rustix::process::getpid(), true)
    }

    /// The tree below the program of a supervisor.
    #[cfg(all(target_os = "linux", feature = "supervisor"))]
    pub(crate) fn of_program(pid: i32) -> Option<Self> {
        Pid::from_raw(pid).map(|pid| Self::from(pid, false))
    }

    fn from(root: Pid, spare_root: bool) -> Self {
        let mut tree = Self { child: None, root, spare_root, blind: false, group_told: false, known: HashMap::new() };
        tree.add(root.as_raw_pid());
        tree.blind = tree.known.is_empty();
        tree
    }

    /// Counts a process in, whoever its parent is.
    pub(crate) fn add(&mut self, pid: i32) {
        if let Some(process) = table::entry(pid) {
            self.known.insert(pid, Member { start: process.start, told: false, frozen: false });
        }
    }

    /// Looks who belongs to the tree now. Gives the members that exist.
    fn look(&mut self) -> Vec<Process> {
        let mut all = table::read();
        let now: HashMap<i32, u64> = all.iter().map(|process| (process.pid, process.start)).collect();
        // A number that names another process by now says nothing any more. The dead stay: a group keeps its leader's number.
        self.known.retain(|pid, member| now.get(pid).is_none_or(|start| *start == member.start));
        loop {
            let before = self.known.len();
            for process in &all {
                let related =
                    [process.parent, process.group, process.session].iter().any(|id| self.known.contains_key(id));
                if related && !self.known.contains_key(&process.pid) {
                    self.known.insert(process.pid, Member { start: process.start, told: false, frozen: false });
                }
            }
            if self.known.len() == before {
                break;
            }
        }
        all.retain(|process| self.known.contains_key(&process.pid) && !self.is_spared(process.pid));
        all
    }

    fn is_spared(&self, pid: i32) -> bool {
        self.spare_root && pid == self.root.as_raw_pid()
    }

    /// Remembers who belongs to the tree now.
    pub(crate) fn remember(&mut self) {
        self.look();
    }

    /// Asks every member to end, each of them once: to many programs a second SIGTERM means "at once".
    pub(crate) fn ask_to_end(&mut self) {
        for process in self.look() {
            if let Some(member) = self.known.get_mut(&process.pid)
                && !std::mem::replace(&mut member.told, true)
            {
                send(&process, Signal::TERM);
            }
        }
        if self.blind && !std::mem::replace(&mut self.group_told, true) {
            let _ = kill_process_group(self.root, Signal::TERM);
        }
    }

    /// Kills every member. They are stopped first, so that none of them can slip away by forking.
    pub(crate) fn kill(&mut self) {
        let start = Instant::now();
        // On a busy machine a round of looks may take long; that is no reason to give up on those found in it.
        let mut last = start;
        // Who is in the middle of a fork when it is told to stop still gets its child. So we look on until everybody
        // stands still and one more look finds nobody new.
        let mut still = false;
        while last.elapsed() < MAX_UNREST && start.elapsed() < MAX_GROWTH {
            let members = self.look();
            let mut news = false;
            for process in &members {
                if let Some(member) = self.known.get_mut(&process.pid)
                    && !std::mem::replace(&mut member.frozen, true)
                {
                    news = true;
                    send(process, Signal::STOP);
                }
            }
            if still && !news {
                break;
            }
            if news {
                last = Instant::now();
            }
            still = !news && members.iter().all(|process| process.dead || table::stands_still(process.pid));
            if !still && !news {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        // The youngest first. If a parent went first, the kernel would let a group go on in which somebody is stopped and that nobody
        // is left to look after; who then ignores the hangup that comes with it could still fork.
        let mut members = self.look();
        members.sort_unstable_by_key(|process| std::cmp::Reverse((process.start, process.pid)));
        for process in &members {
            send(process, Signal::KILL);
        }
        if self.spare_root {
            // A guardian that somebody stopped must go on now, to reap and to end.
            if let Some(root) = table::entry(self.root.as_raw_pid())
                && self.known.get(&root.pid).is_some_and(|member| member.start == root.start)
            {
                send(&root, Signal::CONT);
            }
        } else if self.child.is_some() || self.blind {
            let _ = kill_process_group(self.root, Signal::KILL);
        }
    }

    /// How many members live.
    pub(crate) fn count(&mut self) -> usize {
        self.look().iter().filter(|process| !process.dead).count()
    }

    /// How much memory the members take together, in bytes, and whether that is sure. What they share is counted once only if it
    /// would be over the limit otherwise: that takes longer to find out. They are looked at one after the other: if one comes or goes
    /// meanwhile, the shares of the others become smaller or larger, and what all of them share may count more than once.
    #[cfg(all(target_os = "linux", feature = "supervisor"))]
    pub(crate) fn memory(&mut self, limit: u64) -> (u64, bool) {
        let taken = |members: Vec<Process>| -> Vec<(i32, u64, u64)> {
            let members = members.into_iter().map(|process| (process.pid, process.start, table::memory(process.pid)));
            members.filter(|(.., bytes)| *bytes > 0).collect()
        };
        let who =
            |members: &[(i32, u64, u64)]| -> Vec<_> { members.iter().map(|(pid, start, _)| (*pid, *start)).collect() };
        let members = taken(self.look());
        let most = members.iter().map(|(.., bytes)| bytes).sum();
        if most <= limit {
            return (most, true);
        }
        let own = members.iter().map(|(pid, ..)| table::own_memory(*pid)).sum();
        let mut after = who(&taken(self.look()));
        let mut before = who(&members);
        before.sort_unstable();
        after.sort_unstable();
        (own, before == after)
    }

    /// True while a member lives.
    pub(crate) fn lives(&mut self) -> bool {
        self.count() > 0 || (self.blind && test_kill_process_group(self.root).is_ok())
    }
}

/// Waits until the root has ended, and reaps it.
pub(crate) fn wait(tree: &Mutex<Tree>) -> io::Result<ExitStatus> {
    let root = locked(tree).root;
    // It is not reaped yet, so its number still means it and its group.
    while matches!(waitid(WaitId::Pid(root), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT), Err(Errno::INTR)) {}
    let mut tree = locked(tree);
    tree.remember();
    match tree.child.take() {
        Some(mut child) => child.wait(),
        None => Err(io::ErrorKind::NotFound.into()),
    }
}

/// Sends a signal to exactly this process, never to a later one with the same number.
#[cfg(target_os = "linux")]
fn send(process: &Process, signal: Signal) {
    use rustix::process::{PidfdFlags, kill_process, pidfd_open, pidfd_send_signal};
    let Some(pid) = Pid::from_raw(process.pid) else { return };
    let handle = pidfd_open(pid, PidfdFlags::empty());
    if table::entry(process.pid).is_none_or(|now| now.start != process.start) {
        return;
    }
    let _ = match handle {
        Ok(handle) => pidfd_send_signal(handle, signal),
        // An old kernel, or a filter that knows no such call.
        Err(_) => kill_process(pid, signal),
    };
}

#[cfg(not(target_os = "linux"))]
fn send(_: &Process, _: Signal) {}

#[cfg(target_os = "linux")]
mod table {
    use super::Process;

    /// Every process that we may see.
    pub(super) fn read() -> Vec<Process> {
        let Ok(folder) = std::fs::read_dir("/proc") else { return Vec::new() };
        folder.filter_map(|file| file.ok()?.file_name().to_str()?.parse().ok().and_then(entry)).collect()
    }

    /// True if no thread of a process runs: they are stopped, or have ended.
    pub(super) fn stands_still(pid: i32) -> bool {
        let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return true };
        threads.flatten().all(|thread| match std::fs::read(thread.path().join("stat")) {
            Ok(bytes) => state(&bytes).is_none_or(|state| matches!(state, b'T' | b't' | b'Z' | b'X' | b'x')),
            Err(_) => true,
        })
    }

    /// The state is the letter after the name, which stands in brackets.
    fn state(bytes: &[u8]) -> Option<u8> {
        let end = bytes.iter().rposition(|byte| *byte == b')')?;
        bytes.get(end + 2).copied()
    }

    /// What a process takes in memory, in bytes, with what it shares with others.
    #[cfg(feature = "supervisor")]
    pub(super) fn memory(pid: i32) -> u64 {
        sum(pid, "status", ["RssAnon:", "RssShmem:", "VmSwap:"])
    }

    /// The same with its part of what it shares. Who hides that is counted as if nothing were shared.
    #[cfg(feature = "supervisor")]
    pub(super) fn own_memory(pid: i32) -> u64 {
        match sum(pid, "smaps_rollup", ["Pss_Anon:", "Pss_Shmem:", "SwapPss:"]) {
            0 => memory(pid),
            own => own,
        }
    }

    /// The sum of some fields, which are in kilobytes.
    #[cfg(feature = "supervisor")]
    fn sum(pid: i32, file: &str, fields: [&str; 3]) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
        let value = |line: &str| {
            fields.iter().find_map(|field| line.strip_prefix(field)?.split_whitespace().next()?.parse().ok())
        };
        text.lines().filter_map(value).map(|kilobytes: u64| kilobytes << 10).sum()
    }

    pub(super) fn entry(pid: i32) -> Option<Process> {
        let bytes = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
        parse(pid, &bytes)
    }

    /// The name stands in brackets and may hold anything, brackets too.
    fn parse(pid: i32, bytes: &[u8]) -> Option<Process> {
        let end = bytes.iter().rposition(|byte| *byte == b')')?;
        let rest = std::str::from_utf8(bytes.get(end + 1..)?).ok()?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let number = |at: usize| fields.get(at)?.parse::<i32>().ok();
        Some(Process {
            pid,
            dead: matches!(*fields.first()?, "Z" | "X" | "x"),
            parent: number(1)?,
            group: number(2)?,
            session: number(3)?,
            start: fields.get(19)?.parse().ok()?,
        })
    }

    #[cfg(test)]
    mod tests {
        #[test]
        fn odd_names_do_not_confuse_the_reader() {
            let line = b"42 (a) S 1 (b\n) R 7 8 9 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 12345 1 2\n";
            let process = super::parse(42, line).expect("readable");
            assert_eq!((process.parent, process.group, process.session, process.start), (7, 8, 9, 12345));
            assert!(!process.dead);
            assert_eq!(super::state(line), Some(b'R'));
            assert!(super::parse(42, b"42 (cut off").is_none());
        }
    }
}

/// Without a table that can be read, the process group has to do.
#[cfg(not(target_os = "linux"))]
mod table {
    use super::Process;

    pub(super) fn read() -> Vec<Process> {
        Vec::new()
    }

    pub(super) fn entry(_: i32) -> Option<Process> {
        None
    }

    pub(super) fn stands_still(_: i32) -> bool {
        true
    }
}
