//! A peer's process: lines in and out, a deadline for all of it, and a sure end.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::probe::{self, Reading};

/// Why a run of a peer gave no numbers.
#[derive(Debug)]
pub enum Failure {
    /// It was killed at its deadline.
    Late(Duration),
    /// It did something else than it should.
    Wrong(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Late(deadline) => write!(f, "killed after {} s without an end", deadline.as_secs_f64()),
            Self::Wrong(what) => f.write_str(what),
        }
    }
}

/// How long a peer may take to leave after its input has ended.
const GRACE: Duration = Duration::from_secs(1);

/// The children that run now. An id is removed in the same step that reaps it, so it is never stale.
static LIVE: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

fn live() -> MutexGuard<'static, Vec<Pid>> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps this thread, and with it every thread and child it starts from now on, on the last core it may use.
pub fn stay_on_one_core() -> io::Result<()> {
    let allowed = sched_getaffinity(None)?;
    let mut one = CpuSet::new();
    if let Some(core) = (0..CpuSet::MAX_CPU).rev().find(|&core| allowed.is_set(core)) {
        one.set(core);
    }
    Ok(sched_setaffinity(None, &one)?)
}

/// Kills all children and leaves when the driver is told to stop.
pub fn kill_children_on_signals() -> io::Result<()> {
    let mut signals = signal_hook::iterator::Signals::new([SIGHUP, SIGINT, SIGTERM])?;
    thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            // Held until the exit, so that no further child can start.
            let live = live();
            for &pid in live.iter() {
                let _ = kill_process_group(pid, Signal::KILL);
            }
            std::process::exit(128 + signal);
        }
    });
    Ok(())
}

/// A running peer. Dropping it kills it.
pub struct Running {
    child: Child,
    pid: Pid,
    pub stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    line: Vec<u8>,
    deadline: Duration,
    late: Arc<AtomicBool>,
    /// Ends the watchdog when dropped.
    watchdog: Option<Sender<()>>,
}

impl Running {
    /// Starts a peer that is killed when it still runs at the deadline.
    pub fn start(command: &[String], deadline: Duration) -> Result<Self, Failure> {
        let cannot = |what: &dyn fmt::Display| Failure::Wrong(format!("cannot start {command:?}: {what}"));
        let (program, args) = command.split_first().ok_or_else(|| cannot(&"no command"))?;
        let mut known = live();
        let mut child = Command::new(program)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // A group of its own, so that its own children go with it.
            .process_group(0)
            .spawn()
            .map_err(|error| cannot(&error))?;
        let pid = Pid::from_child(&child);
        known.push(pid);
        drop(known);
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let stdout = stdout.ok_or_else(|| cannot(&"no output"))?;
        let (watchdog, alarm) = mpsc::channel();
        let late = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&late);
        thread::spawn(move || {
            if alarm.recv_timeout(deadline) == Err(RecvTimeoutError::Timeout) {
                flag.store(true, Ordering::SeqCst);
                let known = live();
                if known.contains(&pid) {
                    // Its pipes close with it, which ends whatever wait the driver is in.
                    let _ = kill_process_group(pid, Signal::KILL);
                }
            }
        });
        let stdout = BufReader::with_capacity(1 << 20, stdout);
        Ok(Self { child, pid, stdin, stdout, line: Vec::new(), deadline, late, watchdog: Some(watchdog) })
    }

    /// Turns an I/O error into what it means for the run.
    fn failed(&self, what: &str) -> Failure {
        if self.late.load(Ordering::SeqCst) { Failure::Late(self.deadline) } else { Failure::Wrong(what.to_owned()) }
    }

    /// Sends bytes.
    pub fn send(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let result = match &mut self.stdin {
            Some(stdin) => stdin.write_all(bytes),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        };
        result.map_err(|error| self.failed(&format!("cannot write to it: {error}")))
    }

    /// Sends bytes from a thread, for when the peer may answer before it has read them all.
    pub fn send_aside(&mut self, bytes: Vec<u8>) -> thread::JoinHandle<io::Result<ChildStdin>> {
        let stdin = self.stdin.take();
        thread::spawn(move || {
            let mut stdin = stdin.ok_or(io::ErrorKind::BrokenPipe)?;
            stdin.write_all(&bytes)?;
            Ok(stdin)
        })
    }

    /// Takes the input back from the thread of `send_aside`.
    pub fn sent(&mut self, writer: thread::JoinHandle<io::Result<ChildStdin>>) -> Result<(), Failure> {
        match writer.join() {
            Ok(Ok(stdin)) => self.stdin = Some(stdin),
            _ => return Err(self.failed("cannot write to it")),
        }
        Ok(())
    }

    /// The next line it sends, without the newline.
    pub fn line(&mut self) -> Result<&[u8], Failure> {
        self.line.clear();
        match self.stdout.read_until(b'\n', &mut self.line) {
            Ok(_) if self.line.pop() == Some(b'\n') => Ok(&self.line),
            Ok(_) => Err(self.failed("it closed its output")),
            Err(error) => Err(self.failed(&format!("cannot read from it: {error}"))),
        }
    }

    /// Whether a whole line is here already.
    pub fn has_line(&self) -> bool {
        self.stdout.buffer().contains(&b'\n')
    }

    /// CPU, memory and threads at this moment.
    pub fn read(&self) -> Result<Reading, Failure> {
        probe::read(self.child.id()).ok_or_else(|| self.failed("it ended before it was measured"))
    }

    /// Ends its input and returns everything it still prints.
    pub fn output(mut self) -> Result<String, Failure> {
        drop(self.stdin.take());
        let mut text = String::new();
        let read = self.stdout.read_to_string(&mut text);
        if read.is_err() || self.late.load(Ordering::SeqCst) {
            return Err(self.failed("its output is not text"));
        }
        self.finish();
        Ok(text)
    }

    /// Ends its input and gives it a moment to leave by itself.
    pub fn finish(mut self) {
        drop(self.stdin.take());
        let start = Instant::now();
        while !self.reap() && start.elapsed() < GRACE {
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Whether it has ended.
    fn reap(&mut self) -> bool {
        let mut known = live();
        let ended = !matches!(self.child.try_wait(), Ok(None));
        if ended {
            known.retain(|&pid| pid != self.pid);
        }
        ended
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.watchdog.take());
        let mut known = live();
        if known.contains(&self.pid) {
            let _ = kill_process_group(self.pid, Signal::KILL);
            let _ = self.child.wait();
            known.retain(|&pid| pid != self.pid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str, deadline: Duration) -> Running {
        Running::start(&["sh".into(), "-c".into(), script.into()], deadline).unwrap()
    }

    #[test]
    fn a_hanging_peer_is_killed() {
        let start = Instant::now();
        // The grandchild holds the pipe open: only a kill of the whole group ends the wait.
        let mut peer = sh("sleep 60 & wait", Duration::from_millis(100));
        assert!(matches!(peer.line(), Err(Failure::Late(_))));
        assert!(start.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn a_peer_that_does_not_read_is_killed() {
        let mut peer = sh("sleep 60", Duration::from_millis(100));
        assert!(matches!(peer.send(&vec![b'x'; 1 << 20]), Err(Failure::Late(_))));
    }

    #[test]
    fn a_peer_that_ends_is_no_timeout() {
        let mut peer = sh("echo one", Duration::from_mins(1));
        assert_eq!(peer.line().unwrap(), b"one");
        assert!(matches!(peer.line(), Err(Failure::Wrong(_))));
        assert!(Running::start(&["/nonexistent/peer".into()], Duration::from_secs(1)).is_err());
    }
}
