//! The seccomp filter: which kinds of sockets a command can have, and which system calls are none of its business.

use super::Network;
use super::wire::Setup;
use rustix::net::{AddressFamily, SocketType, socket};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
};
use std::collections::BTreeMap;
use std::io;

/// On x86-64, a call can also be made by a second number that has this bit.
#[cfg(target_arch = "x86_64")]
const NUMBERS: &[i64] = &[0, 0x4000_0000];
#[cfg(not(target_arch = "x86_64"))]
const NUMBERS: &[i64] = &[0];

/// Refused as if we were not allowed to.
const REFUSED: &[i64] = &[
    // They change what a path means.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_setns,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_mount_setattr,
    // It opens a file without a path.
    libc::SYS_open_by_handle_at,
    // Keys in the kernel are the user's, in every namespace.
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    // They look into the kernel or change it.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_quotactl,
    libc::SYS_syslog,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
];

/// Refused as if they did not exist, so that programs take another way. A ring makes calls, also for sockets, that no
/// filter sees.
const MISSING: &[i64] = &[libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register];

/// Filters this process from now on.
pub(super) fn apply(setup: &Setup) -> io::Result<()> {
    let mut refused: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    let rule = not_one_of(&families(setup)).map_err(io::Error::other)?;
    for bit in NUMBERS {
        refused.extend(REFUSED.iter().map(|call| (call | bit, Vec::new())));
        refused.insert(libc::SYS_socket | bit, vec![rule.clone()]);
        if !setup.plan.namespaces {
            // Limits of other processes, which it can see here.
            refused.insert(libc::SYS_prlimit64 | bit, vec![not_one_of(&[0]).map_err(io::Error::other)?]);
        }
    }
    let missing = NUMBERS.iter().flat_map(|bit| MISSING.iter().map(move |call| (call | bit, Vec::new())));
    install(refused, libc::EPERM)?;
    install(missing.collect(), libc::ENOSYS)?;
    // Better to look than to trust.
    match socket(AddressFamily::VSOCK, SocketType::STREAM, None) {
        Err(rustix::io::Errno::PERM) => Ok(()),
        _ => Err(io::Error::other("the filter has no effect")),
    }
}

/// The kinds of sockets that a command can have.
fn families(setup: &Setup) -> Vec<i32> {
    let mut families = Vec::new();
    if setup.plan.unix_sockets {
        families.push(libc::AF_UNIX);
    }
    // In a network namespace, these lead nowhere but to itself.
    if setup.network == Network::On || setup.plan.namespaces {
        families.extend([libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK]);
    }
    families
}

/// True if the first argument is none of these.
fn not_one_of(families: &[i32]) -> Result<SeccompRule, seccompiler::BackendError> {
    // With no family left, the rule must still have a condition, so it names one that does not exist.
    let names = families.iter().chain(families.is_empty().then_some(&0xffff));
    let conditions = names.map(|family| {
        SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, u64::from(family.cast_unsigned()))
    });
    SeccompRule::new(conditions.collect::<Result<_, _>>()?)
}

fn install(rules: BTreeMap<i64, Vec<SeccompRule>>, errno: i32) -> io::Result<()> {
    let arch: TargetArch = std::env::consts::ARCH.try_into().map_err(io::Error::other)?;
    let refuse = SeccompAction::Errno(errno.cast_unsigned());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch).map_err(io::Error::other)?;
    let program: BpfProgram = filter.try_into().map_err(io::Error::other)?;
    seccompiler::apply_filter(&program).map_err(io::Error::other)
}
