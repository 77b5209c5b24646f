//! The seccomp filter: which kinds of sockets a command can have, and which system calls are none of its business.

use crate::setup::Sandbox;
use rustix::net::{AddressFamily, SocketType, socket};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
};
use std::collections::BTreeMap;
use std::io;

/// The numbers of system calls.
macro_rules! calls {
    ($($name:ident)*) => { &[$(libc::$name),*] };
}

/// On x86-64, a call can also be made by a second number that has this bit.
#[cfg(target_arch = "x86_64")]
const NUMBERS: &[i64] = &[0, 0x4000_0000];
#[cfg(not(target_arch = "x86_64"))]
const NUMBERS: &[i64] = &[0];

/// Refused like the next ones; only this processor has them.
#[cfg(target_arch = "x86_64")]
const PORTS: &[i64] = calls![SYS_iopl SYS_ioperm];
#[cfg(not(target_arch = "x86_64"))]
const PORTS: &[i64] = &[];

/// Refused as if we were not allowed to.
const REFUSED: &[i64] = calls![
    // They change what a path means.
    SYS_mount SYS_umount2 SYS_pivot_root SYS_setns SYS_open_tree SYS_move_mount SYS_fsopen SYS_fspick SYS_fsconfig
    SYS_fsmount SYS_mount_setattr
    // It opens a file without a path.
    SYS_open_by_handle_at
    // Keys in the kernel are the user's, in every namespace.
    SYS_add_key SYS_request_key SYS_keyctl
    // They look into the kernel or change it.
    SYS_bpf SYS_perf_event_open SYS_userfaultfd SYS_init_module SYS_finit_module SYS_delete_module SYS_kexec_load
    SYS_kexec_file_load SYS_fanotify_init SYS_reboot SYS_swapon SYS_swapoff SYS_acct SYS_settimeofday SYS_clock_settime
    SYS_clock_adjtime SYS_adjtimex SYS_quotactl SYS_quotactl_fd SYS_syslog
];

/// Refused as if they did not exist, so that programs take another way. A ring makes calls, also for sockets, that no
/// filter sees; the others have the mode of a new file, or the flags of a new process, where no filter looks.
const MISSING: &[i64] = calls![
    SYS_io_uring_setup SYS_io_uring_enter SYS_io_uring_register SYS_openat2 SYS_clone3
];

/// Calls that are newer than this table (from `setxattrat` on: `open_tree_attr`, `file_setattr` and what is still to come) do not
/// exist either: what they will do is not known. Their numbers are the same everywhere.
const UNKNOWN: std::ops::Range<i64> = 463..512;

/// Calls that make a namespace, and which argument tells. In one of its own a command would have all rights again, and the
/// kernel's most attacked parts before it.
const NAMESPACES: &[(i64, u8)] = &[(libc::SYS_clone, 0), (libc::SYS_unshare, 0)];

/// Refused where there is no namespace for them: what all processes of the machine share, without a file.
const SHARED: &[i64] = calls![
    SYS_shmget SYS_shmat SYS_shmctl SYS_msgget SYS_msgsnd SYS_msgrcv SYS_msgctl SYS_semget SYS_semop SYS_semtimedop
    SYS_semctl SYS_mq_open SYS_mq_unlink
];

/// Calls about a process, the first argument, which is zero for the one that calls. In a namespace there are none but its own, and the one
/// that watches them, which is the first; elsewhere all others can be named.
const ABOUT_PROCESSES: &[i64] = calls![
    // Limits.
    SYS_prlimit64
    // What it runs on, and when.
    SYS_sched_setaffinity SYS_sched_setscheduler SYS_sched_setparam SYS_sched_setattr
    // Where its memory is.
    SYS_migrate_pages SYS_move_pages
];

/// Calls about one process, its group, or a user, by the first argument; the second is zero for the one that calls. With the value of
/// the first that means all processes of a user.
const ABOUT_SEVERAL: &[(i64, u32)] = &[(libc::SYS_setpriority, 2), (libc::SYS_ioprio_set, 3)];

/// Calls that set a mode, and which argument that is.
const MODES: &[(i64, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, 1),
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (libc::SYS_fchmodat2, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, 1),
    (libc::SYS_mknodat, 2),
];

/// Calls that set a mode only if they make a file: which argument tells, and the mode is the next one.
const OPENS: &[(i64, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 1),
    (libc::SYS_openat, 2),
];

/// A file with one of these lends the rights of its owner or group to whoever runs it.
const LENDING: [u32; 2] = [libc::S_ISUID, libc::S_ISGID];

/// Filters this process from now on.
pub(super) fn apply(sandbox: &Sandbox) -> io::Result<()> {
    let mut refused: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    let rule = not_one_of(&families(sandbox)).map_err(io::Error::other)?;
    for bit in NUMBERS {
        refused.extend(REFUSED.iter().chain(PORTS).map(|call| (call | bit, Vec::new())));
        refused.insert(libc::SYS_socket | bit, vec![rule.clone()]);
        for (call, mode) in MODES {
            let rules = LENDING.map(|lends| SeccompRule::new(vec![has(*mode, lends)?])).into_iter();
            refused.insert(call | bit, rules.collect::<Result<_, _>>().map_err(io::Error::other)?);
        }
        for (call, flags) in NAMESPACES {
            let rule = has(*flags, libc::CLONE_NEWUSER.cast_unsigned()).and_then(|user| SeccompRule::new(vec![user]));
            refused.insert(call | bit, vec![rule.map_err(io::Error::other)?]);
        }
        for (call, flags) in OPENS {
            let makes = [libc::O_CREAT, libc::O_TMPFILE & !libc::O_DIRECTORY].map(i32::cast_unsigned);
            let both = makes.into_iter().flat_map(|makes| LENDING.map(|lends| (makes, lends)));
            let rules = both.map(|(makes, lends)| SeccompRule::new(vec![has(*flags, makes)?, has(flags + 1, lends)?]));
            refused.insert(call | bit, rules.collect::<Result<_, _>>().map_err(io::Error::other)?);
        }
        if !sandbox.plan.namespaces {
            refused.extend(SHARED.iter().map(|call| (call | bit, Vec::new())));
        }
        let compare = |argument, how, value| {
            SeccompCondition::new(argument, SeccompCmpArgLen::Dword, how, value)
                .and_then(|condition| SeccompRule::new(vec![condition]))
                .map_err(io::Error::other)
        };
        let (how, whom) = if sandbox.plan.namespaces { (SeccompCmpOp::Eq, 1) } else { (SeccompCmpOp::Ne, 0) };
        let others = compare(0, how.clone(), whom)?;
        refused.extend(ABOUT_PROCESSES.iter().map(|call| (call | bit, vec![others.clone()])));
        for (call, user) in ABOUT_SEVERAL {
            let all = compare(0, SeccompCmpOp::Eq, u64::from(*user))?;
            refused.insert(call | bit, vec![compare(1, how.clone(), whom)?, all]);
        }
    }
    let missing = MISSING.iter().copied().chain(UNKNOWN);
    let missing = missing.flat_map(|call| NUMBERS.iter().map(move |bit| (call | bit, Vec::new())));
    install(refused, libc::EPERM)?;
    install(missing.collect(), libc::ENOSYS)?;
    // Better to look than to trust.
    match socket(AddressFamily::VSOCK, SocketType::STREAM, None) {
        Err(rustix::io::Errno::PERM) => Ok(()),
        _ => Err(io::Error::other("the filter has no effect")),
    }
}

/// True if an argument has this bit.
fn has(argument: u8, bit: u32) -> Result<SeccompCondition, seccompiler::BackendError> {
    let bit = u64::from(bit);
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(bit), bit)
}

/// The kinds of sockets that a command can have.
fn families(sandbox: &Sandbox) -> Vec<i32> {
    let mut families = Vec::new();
    if sandbox.plan.unix_sockets {
        families.push(libc::AF_UNIX);
    }
    // In a network namespace, these lead nowhere but to itself.
    if sandbox.network || sandbox.plan.namespaces {
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
