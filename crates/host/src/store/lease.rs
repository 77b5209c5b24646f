//! Who has a session open: a process of this machine, known by its id and its start time.

use std::collections::BTreeSet;
use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::{Mutex, MutexGuard, OnceLock};

use super::Time;
use tieline_rpc::sync::Lock;

/// A process that has a session open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Its process id.
    pub pid: u32,
    /// When it was started, in the ticks of its machine; 0 where that is not known.
    pub start: u64,
    /// The name of its machine.
    pub host: String,
    /// Which run of that machine it belongs to; empty where that is not known.
    pub boot: String,
    /// Which process ids it means: containers have their own. Empty where that is not known.
    pub space: String,
    /// When it opened the session.
    pub since: Time,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} on {} since {}", self.pid, self.host, self.since)
    }
}

impl Holder {
    /// This process.
    pub fn me() -> Self {
        static ME: OnceLock<Holder> = OnceLock::new();
        let pid = std::process::id();
        let mut me = ME
            .get_or_init(|| Self {
                pid,
                start: start_time(pid).unwrap_or(0),
                host: host_name(),
                boot: read("/proc/sys/kernel/random/boot_id"),
                space: pid_space(),
                since: Time::now(),
            })
            .clone();
        me.since = Time::now();
        me
    }

    /// True if both are the same process.
    pub fn is(&self, other: &Self) -> bool {
        (self.pid, self.start, &self.host, &self.boot, &self.space)
            == (other.pid, other.start, &other.host, &other.boot, &other.space)
    }

    /// False only if the process is surely gone. One on another machine or in another container can't be seen from here.
    pub fn may_live(&self) -> bool {
        let me = Self::me();
        if self.host == me.host && self.boot != me.boot {
            // The machine was started again since.
            return false;
        }
        if self.host != me.host || self.space != me.space {
            return true;
        }
        match start_time(self.pid) {
            Some(start) => self.start == 0 || start == self.start,
            None => !cfg!(target_os = "linux") && runs(self.pid),
        }
    }
}

/// When a process was started, in ticks since its machine was. None if there is no such process, or only its remains.
#[cfg(target_os = "linux")]
fn start_time(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name is in parentheses and may hold anything, so count from its end.
    let mut fields = stat.get(stat.rfind(')')? + 1..)?.split_ascii_whitespace();
    if matches!(fields.next()?, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

#[cfg(not(target_os = "linux"))]
fn start_time(_: u32) -> Option<u64> {
    None
}

fn runs(pid: u32) -> bool {
    use rustix::process::{Pid, test_kill_process};
    let Some(pid) = Pid::from_raw(pid.cast_signed()) else { return false };
    // Not being allowed to ask means that there is one.
    test_kill_process(pid) != Err(rustix::io::Errno::SRCH)
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).map(|text| text.trim().to_owned()).unwrap_or_default()
}

fn pid_space() -> String {
    std::fs::read_link("/proc/self/ns/pid").map(|link| link.to_string_lossy().into_owned()).unwrap_or_default()
}

/// The right to write to a session: a random number that the session's row repeats. Another number there means that the
/// right is lost, so a process that slept through a take-over can't write any more.
#[derive(Debug)]
pub(super) struct Token(i64);

/// The tokens of this process. A row that names this process and a token that is not here was left over.
fn live() -> MutexGuard<'static, BTreeSet<i64>> {
    static LIVE: Mutex<BTreeSet<i64>> = Mutex::new(BTreeSet::new());
    LIVE.locked()
}

impl Token {
    pub(super) fn new() -> Self {
        let token = RandomState::new().build_hasher().finish().cast_signed();
        live().insert(token);
        Self(token)
    }

    pub(super) fn get(&self) -> i64 {
        self.0
    }

    /// True if this process writes with that token.
    pub(super) fn is_live(token: i64) -> bool {
        live().contains(&token)
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        live().remove(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_lives() {
        let me = Holder::me();
        assert!(me.may_live() && me.is(&Holder::me()));
        let with = |change: fn(&mut Holder)| {
            let mut holder = Holder::me();
            change(&mut holder);
            holder.may_live()
        };
        assert!(with(|h| h.host = "elsewhere".into()), "another machine can't be asked");
        assert!(with(|h| h.space = "pid:[1]".into()), "nor another container");
        assert!(!with(|h| h.boot = "before".into()), "the machine was started again");
        if cfg!(target_os = "linux") {
            assert!(!with(|h| h.start += 1), "the number was given to another process");
            assert!(!with(|h| h.pid = 4_000_000_000), "no such process");
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn remains_of_a_process_are_dead() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while start_time(child.id()).is_some() {
            assert!(std::time::Instant::now() < deadline);
            std::thread::yield_now();
        }
        child.wait().unwrap();
    }

    #[test]
    fn tokens_end_with_their_owner() {
        let token = Token::new();
        let number = token.get();
        assert!(Token::is_live(number));
        drop(token);
        assert!(!Token::is_live(number));
    }
}
