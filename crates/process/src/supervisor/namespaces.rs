//! New namespaces for a launcher, and the ids of users in them.

use crate::setup::Sandbox;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, sendto, socket_with};
use rustix::thread::{
    CapabilitySet, CapabilitySets, UnshareFlags, capabilities, configure_capability_in_ambient_set, set_capabilities,
};
use std::fs;
use std::io;
use std::path::Path;

/// Moves this process, which must have one thread, into new namespaces; that of processes counts for its children.
pub(super) fn enter(sandbox: &Sandbox) -> io::Result<()> {
    let mut flags = UnshareFlags::NEWUSER | UnshareFlags::NEWNS | UnshareFlags::NEWPID | UnshareFlags::NEWIPC;
    if !sandbox.network {
        flags |= UnshareFlags::NEWNET;
    }
    // It is deprecated for what it does with the flag FILES, which is not there.
    #[expect(deprecated)]
    Ok(rustix::thread::unshare(flags)?)
}

/// Gives a process that is in a new user namespace the ids that it had before. To be called by its owner.
pub(super) fn map(process: u32) -> io::Result<()> {
    let place = Path::new("/proc").join(process.to_string());
    if rustix::process::geteuid().is_root() && map_all(&place).is_ok() {
        return Ok(());
    }
    // Nobody but the user. It can keep its groups then, but not change them.
    fs::write(place.join("setgroups"), "deny")?;
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    fs::write(place.join("uid_map"), format!("{user} {user} 1"))?;
    fs::write(place.join("gid_map"), format!("{group} {group} 1"))
}

/// Everybody, as far as we know them: root works with files that belong to others.
fn map_all(place: &Path) -> io::Result<()> {
    for name in ["gid_map", "uid_map"] {
        let ours = fs::read_to_string(Path::new("/proc/self").join(name))?;
        let same = ours.lines().filter_map(|line| match line.split_ascii_whitespace().collect::<Vec<_>>()[..] {
            [first, _, count] => Some(format!("{first} {first} {count}\n")),
            _ => None,
        });
        fs::write(place.join(name), same.collect::<String>())?;
    }
    Ok(())
}

/// Lets the next stage have what it needs to finish, whoever the user is.
pub(super) fn pass_capabilities() -> io::Result<()> {
    let needed = CapabilitySet::SYS_ADMIN | CapabilitySet::SETPCAP;
    let ours = capabilities(None)?;
    set_capabilities(None, CapabilitySets { inheritable: ours.inheritable | needed, ..ours })?;
    for capability in needed.iter() {
        configure_capability_in_ambient_set(capability, true)?;
    }
    Ok(())
}

/// Switches on the loopback of a new network namespace, so that a command can talk to itself.
pub(super) fn loopback() -> io::Result<()> {
    // No protocol means routing, which is also about devices.
    const NEW_LINK: u16 = 16;
    const REQUEST_AND_ACKNOWLEDGE: u16 = 1 | 4;
    const UP: u32 = 1;
    let kernel = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    let mut message = Vec::with_capacity(32);
    message.extend(32_u32.to_ne_bytes());
    message.extend(NEW_LINK.to_ne_bytes());
    message.extend(REQUEST_AND_ACKNOWLEDGE.to_ne_bytes());
    message.extend([1_u32, 0].map(u32::to_ne_bytes).concat());
    // Any family, any type; device 1; the flags, and which of them count.
    message.extend([0_u32, 1, UP, UP].map(u32::to_ne_bytes).concat());
    sendto(&kernel, &message, SendFlags::empty(), &netlink::SocketAddrNetlink::new(0, 0))?;
    let mut answer = [0_u8; 64];
    let (length, _) = recv(&kernel, &mut answer, RecvFlags::empty())?;
    match answer.get(16..20).and_then(|bytes| bytes.try_into().ok()).map(i32::from_ne_bytes) {
        Some(0) if length >= 20 => Ok(()),
        Some(error) => Err(io::Error::from_raw_os_error(-error)),
        None => Err(io::ErrorKind::InvalidData.into()),
    }
}
