//! The seccomp filter: which kinds of sockets a command can have, and which system calls are none of its business.

use crate::setup::Sandbox;
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
    libc::SYS_kexec_file_load,
    libc::SYS_fanotify_init,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_syslog,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
];

/// Refused as if they did not exist, so that programs take another way. A ring makes calls, also for sockets, that no
/// filter sees; the others have the mode of a new file, or the flags of a new process, where no filter looks.
const MISSING: &[i64] = &[
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_openat2,
    libc::SYS_clone3,
];

/// Calls that are newer than this table (from `setxattrat` on: `open_tree_attr`, `file_setattr` and what is still to come) do not
/// exist either: what they will do is not known. Their numbers are the same everywhere.
const UNKNOWN: std::ops::Range<i64> = 463..512;

/// Calls that make a namespace, and which argument tells. In one of its own a command would have all rights again, and the
/// kernel's most attacked parts before it.
const NAMESPACES: &[(i64, u8)] = &[(libc::SYS_clone, 0), (libc::SYS_unshare, 0)];

/// Refused where there is no namespace for them: what all processes of the machine share, without a file.
const SHARED: &[i64] = &[
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
];

/// Calls about a process, the first argument, which is zero for the one that calls. Others can be named where there is no namespace.
const ABOUT_PROCESSES: &[i64] = &[
    // Limits.
    libc::SYS_prlimit64,
    // What it runs on, and when.
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setattr,
    // Where its memory is.
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
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
        refused.extend(REFUSED.iter().map(|call| (call | bit, Vec::new())));
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
            // Other processes, which it can see here.
            let others = not_one_of(&[0]).map_err(io::Error::other)?;
            refused.extend(ABOUT_PROCESSES.iter().map(|call| (call | bit, vec![others.clone()])));
            for (call, user) in ABOUT_SEVERAL {
                let compare = |argument, how, value| {
                    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, how, value)
                        .and_then(|condition| SeccompRule::new(vec![condition]))
                };
                let another = compare(1, SeccompCmpOp::Ne, 0).map_err(io::Error::other)?;
                let all = compare(0, SeccompCmpOp::Eq, u64::from(*user)).map_err(io::Error::other)?;
                refused.insert(call | bit, vec![another, all]);
            }
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
