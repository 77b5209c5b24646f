//! What the kernel gives here, found out by trying, and which levels can be built from it.

use super::{Level, Mechanism, Network, Plan};
use std::fs;
use std::path::Path;
use std::sync::OnceLock;
use tieline_process::{Pinned, Sandbox, Setup};

/// The first version of Landlock that also guards against cutting files short.
const ENOUGH: u32 = 3;
/// The first one that keeps a command's signals and abstract sockets inside.
const SCOPED: u32 = 6;

/// Which mechanisms work here, or why they don't.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Available {
    /// User, mount, process, network and IPC namespaces.
    pub namespaces: Result<(), String>,
    /// Landlock, with the version of its interface.
    pub landlock: Result<u32, String>,
    /// System call filters.
    pub seccomp: Result<(), String>,
}

/// Finds out what works here, by trying it on a process of our own. The first call takes a few milliseconds, the others
/// give the same answer at once.
pub fn probe() -> &'static Available {
    static FOUND: OnceLock<Available> = OnceLock::new();
    static NOT_READY: OnceLock<Available> = OnceLock::new();
    let attempt = |plan: Plan| {
        let sandbox = Sandbox { plan, temp: Pinned::new(Path::new("/tmp")).ok(), ..Sandbox::default() };
        tieline_process::probe(&Setup { sandbox: Some(sandbox), ..Setup::default() })
    };
    let find = || Available {
        namespaces: attempt(Plan { namespaces: true, ..Plan::default() }).map(drop).map_err(|why| hint(&why)),
        landlock: attempt(Plan { landlock: true, ..Plan::default() }),
        seccomp: attempt(Plan { seccomp: true, ..Plan::default() }).map(drop),
    };
    // What was asked too early says why, and does not count for later.
    if tieline_process::is_ready() { FOUND.get_or_init(find) } else { NOT_READY.get_or_init(find) }
}

/// What is known to forbid namespaces, and how to allow them.
fn hint(why: &str) -> String {
    let is = |name: &str, value: &str| fs::read_to_string(name).is_ok_and(|text| text.trim() == value);
    let help = if is("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1") {
        "AppArmor forbids them; `sysctl kernel.apparmor_restrict_unprivileged_userns=0` or a profile for this program allows them"
    } else if is("/proc/sys/user/max_user_namespaces", "0") {
        "`sysctl user.max_user_namespaces=10000` allows them"
    } else if is("/proc/sys/kernel/unprivileged_userns_clone", "0") {
        "`sysctl kernel.unprivileged_userns_clone=1` allows them"
    } else {
        "a container may forbid them"
    };
    format!("{why} ({help})")
}

/// A level that can't be had here. Shown, it says why and what would help.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("sandbox level `{level}` can't be had here: {why}")]
pub struct Refused {
    /// What was asked for.
    pub level: Level,
    why: String,
}

impl Refused {
    pub(super) fn new(level: Level, why: impl Into<String>) -> Self {
        Self { level, why: why.into() }
    }
}

impl From<Refused> for std::io::Error {
    fn from(refused: Refused) -> Self {
        Self::new(std::io::ErrorKind::Unsupported, refused)
    }
}

impl Available {
    /// The levels that can be had, with the network off, the strictest one first.
    pub fn levels(&self) -> Vec<Level> {
        let can = |level: &Level| self.plan(*level, Network::Off, None, &[]).is_ok();
        Level::ALL.into_iter().filter(can).collect()
    }

    /// What enforces a level here, in a few words.
    pub fn how(&self) -> String {
        match self.plan(Level::Workspace, Network::Off, None, &[]) {
            Ok(plan) => how(plan, self),
            Err(refused) => refused.to_string(),
        }
    }

    /// Chooses mechanisms. `needs_namespaces` says for what nothing else will do.
    pub(super) fn plan(
        &self,
        level: Level,
        network: Network,
        needs_namespaces: Option<&str>,
        without: &[Mechanism],
    ) -> Result<Plan, Refused> {
        let why_not = |mechanism: Mechanism| {
            let missing = match mechanism {
                Mechanism::Namespaces => self.namespaces.as_ref().err(),
                Mechanism::Landlock => self.landlock.as_ref().err(),
                Mechanism::Seccomp => self.seccomp.as_ref().err(),
            };
            let off = without.contains(&mechanism).then_some("switched off");
            off.or(missing.map(String::as_str)).map(|why| format!("{mechanism}: {why}"))
        };
        if level == Level::Off {
            return Ok(Plan { unix_sockets: true, ..Plan::default() });
        }
        let namespaces = why_not(Mechanism::Namespaces);
        let seccomp = why_not(Mechanism::Seccomp);
        let version = self.landlock.as_ref().copied().unwrap_or(0);
        let mut landlock = why_not(Mechanism::Landlock);
        if namespaces.is_some() && landlock.is_none() && version < ENOUGH {
            landlock =
                Some(format!("Landlock: its version {version} can't keep files from being cut short; Linux 6.2 can"));
        }
        if let (Some(need), Some(why)) = (needs_namespaces, &namespaces) {
            return Err(Refused::new(level, format!("{need}, which needs namespaces. {why}")));
        }
        if namespaces.is_some() && (landlock.is_some() || seccomp.is_some()) {
            let whys: Vec<String> = [namespaces, landlock, seccomp].into_iter().flatten().collect();
            let help =
                "It needs namespaces, or Landlock and seccomp together: allow one of them, or choose level `off`";
            return Err(Refused::new(level, format!("{}. {help}", whys.join("; "))));
        }
        let scoped = landlock.is_none() && version >= SCOPED;
        if network == Network::On
            && !scoped
            && let Some(seccomp) = seccomp
        {
            let why = "with the network on, only Landlock ABI 6 or seccomp keep a command from the abstract sockets of others";
            return Err(Refused::new(level, format!("{why}. {seccomp}. Choose network off, or level `off`")));
        }
        Ok(Plan {
            namespaces: namespaces.is_none(),
            landlock: landlock.is_none(),
            seccomp: seccomp.is_none(),
            // Sockets with a path are hidden by namespaces only; those without by a network of one's own, or by Landlock.
            unix_sockets: namespaces.is_none() && (network == Network::Off || scoped),
        })
    }
}

/// What a plan uses, and what it leaves open.
pub(super) fn how(plan: Plan, available: &Available) -> String {
    let version = available.landlock.as_ref().copied().unwrap_or(0);
    let parts = [
        plan.namespaces.then(|| "namespaces".to_owned()),
        plan.landlock.then(|| format!("Landlock ABI {version}")),
        plan.seccomp.then(|| "seccomp".to_owned()),
    ];
    let mut text = parts.into_iter().flatten().collect::<Vec<_>>().join(" + ");
    if !plan.seccomp {
        text.push_str("; it can leave files that lend your rights to others");
    }
    if !plan.namespaces {
        text.push_str("; it can change modes and times of your other files");
        if version < SCOPED {
            text.push_str(", and send signals to your other programs");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(namespaces: bool, landlock: u32, seccomp: bool) -> Available {
        let is = |yes: bool| if yes { Ok(()) } else { Err("no".to_owned()) };
        let landlock = if landlock > 0 { Ok(landlock) } else { Err("no".into()) };
        Available { namespaces: is(namespaces), landlock, seccomp: is(seccomp) }
    }

    /// `how`, for the network off; and if Unix sockets can be had, for the network off and on.
    #[test]
    fn what_is_built_from_what_there_is() {
        let check = |available: Available, how_expected: Option<&str>, sockets: (bool, bool)| {
            let plan = |network| available.plan(Level::Workspace, network, None, &[]);
            let found = plan(Network::Off).ok().map(|plan| how(plan, &available));
            assert_eq!(found.as_deref(), how_expected);
            let unix = |network| plan(network).is_ok_and(|plan| plan.unix_sockets);
            assert_eq!((unix(Network::Off), unix(Network::On)), sockets, "{available:?}");
        };
        check(given(true, 7, true), Some("namespaces + Landlock ABI 7 + seccomp"), (true, true));
        check(given(true, 1, true), Some("namespaces + Landlock ABI 1 + seccomp"), (true, false));
        let lends = "namespaces; it can leave files that lend your rights to others";
        check(given(true, 0, false), Some(lends), (true, false));
        let open = "it can change modes and times of your other files";
        check(given(false, 7, true), Some(&format!("Landlock ABI 7 + seccomp; {open}")), (false, false));
        check(
            given(false, 3, true),
            Some(&format!("Landlock ABI 3 + seccomp; {open}, and send signals to your other programs")),
            (false, false),
        );
        check(given(false, 2, true), None, (false, false));
        check(given(false, 7, false), None, (false, false));
        check(given(false, 0, true), None, (false, false));
        check(given(false, 0, false), None, (false, false));
    }

    #[test]
    fn refusals_say_why_and_what_helps() {
        let check = |available: Available, need, without: &[Mechanism], expect: &str| {
            let refused = available.plan(Level::Workspace, Network::Off, need, without).unwrap_err();
            assert_eq!(refused.to_string(), format!("sandbox level `workspace` can't be had here: {expect}"));
        };
        let help = "It needs namespaces, or Landlock and seccomp together: allow one of them, or choose level `off`";
        check(given(false, 0, true), None, &[], &format!("namespaces: no; Landlock: no. {help}"));
        check(
            given(true, 7, true),
            None,
            &[Mechanism::Namespaces, Mechanism::Seccomp],
            &format!("namespaces: switched off; seccomp: switched off. {help}"),
        );
        let refused = given(true, 5, false).plan(Level::Workspace, Network::On, None, &[]).unwrap_err().to_string();
        assert!(refused.ends_with("seccomp: no. Choose network off, or level `off`"), "{refused}");
        check(
            given(false, 7, true),
            Some("`/x/.git` is to be protected"),
            &[],
            "`/x/.git` is to be protected, which needs namespaces. namespaces: no",
        );
        assert_eq!(given(false, 0, false).levels(), [Level::Off]);
        assert_eq!(given(true, 0, false).levels(), Level::ALL);
    }
}
