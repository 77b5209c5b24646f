//! A control group (version 2) for a child and everything that it starts: the kernel itself holds it to its memory and its CPU.

use super::MAX_THREADS_EACH;
use crate::Limits;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// CPU is shared out anew so often, in microseconds.
const CPU_PERIOD: u64 = 100_000;
/// What can be held in a group.
const CONTROLLERS: [&str; 3] = ["cpu", "memory", "pids"];
/// The group of this process itself: one that has groups below it can't have processes, too.
const OWN: &str = "tieline";
/// A group is gone a moment after its last process; so often it is tried, with a pause.
const REMOVALS: (u32, Duration) = (50, Duration::from_millis(20));

/// Where groups are made, and what can be held there; or why there can be none.
type Home = Result<(PathBuf, Vec<&'static str>), String>;

fn home() -> &'static Home {
    static HOME: OnceLock<Home> = OnceLock::new();
    HOME.get_or_init(|| {
        let place = own_group().ok_or("there is no cgroup v2 here")?;
        let known = fs::read_to_string(place.join("cgroup.controllers")).unwrap_or_default();
        let has = |name: &&str| known.split_whitespace().any(|known| known == *name);
        let held: Vec<_> = CONTROLLERS.into_iter().filter(has).collect();
        if held.is_empty() {
            return Err("cgroup v2 controls neither memory nor CPU here".to_owned());
        }
        open(&place, &held).map_err(|error| format!("no groups can be made in {}: {error}", place.display()))?;
        Ok((place, held))
    })
}

/// The folder of the group that this process is in.
fn own_group() -> Option<PathBuf> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    mounts.lines().find_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        let mut words = mount.split(' ').skip(3);
        let (root, at) = (words.next()?, words.next()?);
        let below = Path::new(own).strip_prefix(root).ok()?;
        kind.starts_with("cgroup2 ").then(|| Path::new(at).join(below))
    })
}

/// Makes room for groups: this process goes into one of its own. If others are beside it, the kernel refuses.
fn open(place: &Path, held: &[&str]) -> io::Result<()> {
    let (own, me) = (place.join(OWN), std::process::id().to_string());
    match fs::create_dir(&own) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => fs::write(own.join("cgroup.procs"), &me)?,
    }
    let wanted: Vec<_> = held.iter().map(|name| format!("+{name}")).collect();
    fs::write(place.join("cgroup.subtree_control"), wanted.join(" ")).inspect_err(|_| {
        let _ = fs::write(place.join("cgroup.procs"), me);
        let _ = fs::remove_dir(&own);
    })
}

/// What can't be held here as it should, in words.
pub fn unheld(limits: &Limits) -> Vec<String> {
    let holds = |what| home().as_ref().is_ok_and(|(_, held)| held.contains(&what));
    let why = || home().as_ref().err().map_or("the group may not control it", String::as_str);
    let mut words = Vec::new();
    if limits.cpu.is_some() && !holds("cpu") {
        words.push(format!("CPU is not limited: {}", why()));
    }
    if limits.memory.is_some() && !holds("memory") {
        words.push(format!("memory is looked at four times a second, so a short burst can go beyond: {}", why()));
    }
    words
}

/// A group. Dropping it removes it; that blocks for as long as something is in it, at most a second.
#[derive(Debug)]
pub(crate) struct Group(PathBuf);

impl Group {
    /// Makes one. `None` if there is nothing to hold, or nothing that holds.
    pub(crate) fn make(limits: &Limits) -> Option<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        if *limits == Limits::default() {
            return None;
        }
        let (place, held) = home().as_ref().ok()?;
        let group = Self(place.join(format!("child-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))));
        let made = fs::create_dir(&group.0).and_then(|()| group.limit(limits, held));
        made.inspect_err(|error| tracing::error!(%error, "a control group can't be made")).ok()?;
        Some(group)
    }

    fn limit(&self, limits: &Limits, held: &[&str]) -> io::Result<()> {
        let set = |controller, file: &str, value: u64| {
            if held.contains(&controller) { fs::write(self.0.join(file), value.to_string()) } else { Ok(()) }
        };
        if let Some(bytes) = limits.memory {
            set("memory", "memory.max", bytes)?;
            // Where there is no swap there may be no such file. Half a family is of no use.
            let _ = set("memory", "memory.swap.max", 0);
            let _ = set("memory", "memory.oom.group", 1);
        }
        if let Some(processes) = limits.processes {
            set("pids", "pids.max", processes.saturating_mul(MAX_THREADS_EACH))?;
        }
        match limits.cpu {
            Some(percent) if held.contains(&"cpu") => {
                let share = format!("{} {CPU_PERIOD}", percent.saturating_mul(CPU_PERIOD / 100));
                fs::write(self.0.join("cpu.max"), share)
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for _ in 0..REMOVALS.0 {
            match fs::remove_dir(&self.0) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => std::thread::sleep(REMOVALS.1),
                _ => return,
            }
        }
    }
}

/// This process, and all that it starts, goes into a group.
pub(super) fn join(group: &Path) -> io::Result<()> {
    fs::write(group.join("cgroup.procs"), "0")
}

/// Whether the kernel killed somebody in a group for its memory.
pub(super) fn ran_out(group: &Path) -> bool {
    let events = fs::read_to_string(group.join("memory.events")).unwrap_or_default();
    events.lines().any(|line| line.strip_prefix("oom_kill ").is_some_and(|count| count.trim() != "0"))
}
