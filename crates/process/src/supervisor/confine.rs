//! The last steps before a command: Landlock, capabilities, limits.

use super::MAX_THREADS_EACH;
use crate::setup::{Pinned, Sandbox, Setup};
use landlock::{
    ABI, Access, AccessFs, BitFlags, LandlockStatus, PathBeneath, RestrictionStatus, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};
use rustix::fs::{Mode, OFlags, fstat, open};
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set, remove_capability_from_bounding_set,
    set_capabilities,
};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// The newest one that we know. An older kernel leaves out what it does not know; who makes the plan judges if
/// the rest is enough.
const NEWEST: ABI = ABI::V9;

/// Devices that hold nothing of anybody.
pub(super) const DEVICES: &[&str] = &["null", "zero", "full", "random", "urandom", "tty"];

/// What root keeps: it stays the master of files, whoever they belong to.
const KEPT: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID);

/// Restricts this process by Landlock. Gives the version that is in force.
pub(super) fn landlock(sandbox: &Sandbox) -> io::Result<u32> {
    let write = AccessFs::from_write(NEWEST);
    let read = AccessFs::from_read(NEWEST);
    // With namespaces, a command sees only what it may read.
    let handled = if sandbox.plan.namespaces { write } else { read | write };
    let mut rules = Ruleset::default()
        .handle_access(handled)
        .and_then(|rules| rules.scope(Scope::from_all(NEWEST)))
        .and_then(Ruleset::create)
        .map_err(io::Error::other)?;
    for place in &sandbox.writable {
        rules = allow(rules, Some(held(place)?), handled)?;
    }
    let devices = AccessFs::WriteFile | AccessFs::ReadFile | AccessFs::Truncate | AccessFs::IoctlDev;
    for name in DEVICES.iter().chain(&["ptmx", "pts"]) {
        rules = allow(rules, at(&Path::new("/dev").join(name)), devices & handled)?;
    }
    if sandbox.plan.namespaces {
        for folder in sandbox.temps() {
            rules = allow(rules, at(&folder), handled)?;
        }
        rules = allow(rules, at(Path::new("/dev/shm")), handled)?;
    } else {
        if let Some(temp) = &sandbox.temp {
            rules = allow(rules, Some(held(temp)?), handled)?;
        }
        let mut hidden = sandbox.hide.clone();
        hidden.push("/dev".into());
        let mut parts = carve(Path::new("/"), &hidden);
        for place in sandbox.places().map(|place| &place.path).chain(&sandbox.show) {
            // What is around it may be hidden, and something in it.
            let inside: Vec<PathBuf> = hidden.iter().filter(|path| !place.starts_with(path)).cloned().collect();
            parts.extend(carve(place, &inside));
        }
        for path in &parts {
            rules = allow(rules, at(path), read)?;
        }
    }
    let status = rules.restrict_self().map_err(io::Error::other)?;
    match status {
        RestrictionStatus { ruleset: RulesetStatus::NotEnforced, .. } => Err(io::ErrorKind::Unsupported.into()),
        RestrictionStatus { landlock: LandlockStatus::Available { effective_abi, kernel_abi }, .. } => {
            Ok(kernel_abi.map_or(effective_abi as u32, i32::cast_unsigned))
        }
        _ => Err(io::ErrorKind::Unsupported.into()),
    }
}

fn allow(rules: RulesetCreated, place: Option<OwnedFd>, access: BitFlags<AccessFs>) -> io::Result<RulesetCreated> {
    match place {
        Some(place) => rules.add_rule(PathBeneath::new(place, access)).map_err(io::Error::other),
        None => Ok(rules),
    }
}

/// What is not there needs no rule.
fn at(path: &Path) -> Option<OwnedFd> {
    open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()
}

/// A handle on exactly this folder.
pub(super) fn held(place: &Pinned) -> io::Result<OwnedFd> {
    let named = |why: &str| io::Error::other(format!("`{}` {why}", place.path.display()));
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let handle =
        open(&place.path, flags, Mode::empty()).map_err(|error| named(&format!("can't be opened: {error}")))?;
    let facts = fstat(&handle)?;
    if (facts.st_dev, facts.st_ino) != (place.device, place.inode) {
        return Err(named("is not the folder any more that it was"));
    }
    Ok(handle)
}

/// Gives up what a command does not need, for good.
pub(super) fn drop_capabilities() -> io::Result<()> {
    let ours = capabilities(None)?.permitted;
    if ours.is_empty() {
        return Ok(());
    }
    clear_ambient_capability_set()?;
    for capability in CapabilitySet::all().iter().filter(|capability| !KEPT.contains(*capability)) {
        match remove_capability_from_bounding_set(capability) {
            // The kernel is older than this capability.
            Ok(()) | Err(rustix::io::Errno::INVAL) => {}
            // What we could not give to ourselves, we can't give away either; it is lost below.
            Err(rustix::io::Errno::PERM) if !ours.contains(CapabilitySet::SETPCAP) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let kept = if rustix::process::geteuid().is_root() { KEPT & ours } else { CapabilitySet::empty() };
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    Ok(set_capabilities(None, sets)?)
}

/// Limits on processes and on the size of files. That on memory is for all processes together, which no such limit can say.
pub(super) fn limit(setup: &Setup) -> io::Result<()> {
    let [mut processes, file, _] = setup.limits;
    if processes > 0 && !setup.sandbox.as_ref().is_some_and(|sandbox| sandbox.plan.namespaces) {
        // One that we talk to is a program of some size.
        let each = if setup.session { 1 } else { MAX_THREADS_EACH };
        // Outside a namespace of its own, all processes of the user count.
        processes = processes.saturating_mul(each).saturating_add(threads_of_user());
    }
    for (resource, most) in
        [(Resource::Nproc, processes), (Resource::Fsize, file)].into_iter().filter(|(_, most)| *most > 0)
    {
        let hard = rustix::process::getrlimit(resource).maximum;
        let most = Some(hard.map_or(most, |hard| hard.min(most)));
        setrlimit(resource, Rlimit { current: most, maximum: most })?;
    }
    Ok(())
}

fn threads_of_user() -> u64 {
    let me = rustix::process::getuid().as_raw();
    let count = |text: String| {
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let owner = field("Uid:")?.split_ascii_whitespace().next()?.parse::<u32>().ok()?;
        let threads = field("Threads:")?.parse::<u64>().ok()?;
        (owner == me).then_some(threads)
    };
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| count(std::fs::read_to_string(entry.path().join("status")).ok()?)).sum()
}

/// What can be read if `hidden` can't: the largest files and folders below `top` that hold nothing hidden.
fn carve(top: &Path, hidden: &[PathBuf]) -> Vec<PathBuf> {
    if hidden.iter().any(|path| top.starts_with(path)) {
        return Vec::new();
    }
    if !hidden.iter().any(|path| path.starts_with(top)) {
        return vec![top.to_owned()];
    }
    let mut parts = Vec::new();
    for entry in std::fs::read_dir(top).into_iter().flatten().flatten() {
        // A link counts where it leads to.
        if entry.file_type().is_ok_and(|kind| !kind.is_symlink()) {
            parts.extend(carve(&entry.path(), hidden));
        }
    }
    parts
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn carving_leaves_out_exactly_what_is_hidden() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        for path in ["a/1", "a/2", "b/c/secret", "b/c/open", "b/d/x"] {
            let path = top.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        std::os::unix::fs::symlink(top.join("b/c/secret"), top.join("link")).unwrap();
        let check = |hidden: &[&str], expect: &[&str]| {
            let hidden: Vec<_> = hidden.iter().map(|path| top.join(path)).collect();
            let mut parts = carve(&top, &hidden);
            parts.sort();
            assert_eq!(parts, expect.iter().map(|path| top.join(path)).collect::<Vec<_>>());
        };
        check(&["b/c/secret"], &["a", "b/c/open", "b/d"]);
        check(&["b"], &["a"]);
        check(&["a", "b/c"], &["b/d"]);
        check(&["elsewhere"], &["a", "b"]);
        assert_eq!(carve(&top, &[]), std::slice::from_ref(&top));
        assert!(carve(&top, std::slice::from_ref(&top)).is_empty());
    }
}
