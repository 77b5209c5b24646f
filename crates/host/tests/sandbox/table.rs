//! Every deed at every level, enforced in every way, for root and for an ordinary user.

use crate::harness::{as_nobody, block_on, is_root, me, unique};
use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;
use std::process::Command;
use tieline_host::run::{Request, Status};
use tieline_host::sandbox::{Level, Mechanism, Network, Policy, probe};

pub const ALL: &[(&str, fn())] =
    &[("the_table_holds", the_table_holds), ("the_table_holds_for_nobody", the_table_holds_for_nobody)];

/// Who can do it.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Who {
    Nobody,
    All,
    /// Not at level `read-only`.
    Workspace,
    /// Only at level `off`.
    Off,
    /// Only with the network on, or at level `off`.
    Networked,
    /// As `All`, but it needs namespaces.
    Namespaced,
    /// As `Workspace`, but it needs namespaces.
    NamespacedWorkspace,
    /// Nothing but namespaces keeps it from it.
    Unguarded,
}
use Who::{All, Namespaced, NamespacedWorkspace, Networked, Nobody, Off, Unguarded, Workspace};

/// A deed; on what, where `@` names the base folder of the test; who can do it; what keeps the others from it, with
/// namespaces and without.
type Row = (&'static str, &'static str, Who, &'static str, &'static str);

#[rustfmt::skip]
const TABLE: &[Row] = &[
    ("write",    "@/root/new",            Workspace,  "read-only mount",        "Landlock write rights"),
    ("append",   "@/root/file",           Workspace,  "read-only mount",        "Landlock WriteFile"),
    ("truncate", "@/root/file",           Workspace,  "read-only mount",        "Landlock Truncate"),
    ("rename",   "@/root/old",            Workspace,  "read-only mount",        "Landlock MakeReg, RemoveFile"),
    ("write",    "@/root/link-out",       Off,        "read-only mount",        "Landlock rights are those of the target"),
    ("write",    "@/outside/new",         Off,        "read-only mount",        "Landlock MakeReg"),
    ("append",   "@/outside/file",        Off,        "read-only mount",        "Landlock WriteFile"),
    ("truncate", "@/outside/file",        Off,        "read-only mount",        "Landlock Truncate"),
    ("chmod",    "@/outside/file",        Unguarded,  "read-only mount",        "nothing, and `describe` says so"),
    ("remove",   "@/outside/gone",        Off,        "read-only mount",        "Landlock RemoveFile"),
    ("write",    "@/cache/new",           All,        "a mount of its own",     "a Landlock rule"),
    ("write",    "/tmp/tieline-own",      Namespaced, "a private folder there", "Landlock MakeReg; TMPDIR is elsewhere"),
    ("write",    "/dev/null",             All,        "bound into a new /dev",  "a Landlock rule"),
    ("write",    "/dev/shm/tieline-own",  Namespaced, "a new tmpfs",            "Landlock MakeReg"),
    ("write",    "/proc/self/comm",       Off,        "read-only /proc",        "Landlock WriteFile"),
    ("write",    "/proc/self/oom_score_adj", Off,     "read-only /proc",        "Landlock WriteFile"),
    ("read",     "/etc/passwd",           All,        "",                       "a Landlock rule"),
    ("read",     "/proc/self/status",     All,        "",                       "a Landlock rule"),
    ("read",     "@/outside/file",        All,        "",                       "a Landlock rule"),
    ("read",     "@/home/notes",          All,        "",                       "a Landlock rule for each part of the home"),
    ("read",     "@/home/.ssh/id",        Off,        "an empty mount over it", "no Landlock rule"),
    ("read",     "@/home/.netrc",         Off,        "/dev/null mounted on it","no Landlock rule"),
    ("read",     "@/home/link-to-ssh/id", Off,        "an empty mount over it", "no Landlock rule"),
    ("read",     "@/neighbour/diary",     Off,        "an empty mount over it", "no Landlock rule"),
    ("read",     "/proc/1/environ",       Nobody,     "a PID namespace",        "Landlock: no tracing of what is outside"),
    ("tcp",      "TCP",                   Networked,  "network namespace",      "seccomp: no AF_INET"),
    ("udp",      "UDP",                   Networked,  "network namespace",      "seccomp: no AF_INET"),
    ("packet",   "-",                     Nobody,     "seccomp; no CAP_NET_RAW","seccomp: no AF_PACKET"),
    ("loopback", "-",                     Namespaced, "its own loopback",       "seccomp: no AF_INET"),
    ("unix",     "@/outside/socket",      Off,        "/dev/null mounted on it","seccomp: no AF_UNIX"),
    ("abstract", "ABSTRACT",              Off,        "network namespace, Landlock scope", "seccomp: no AF_UNIX"),
    ("own-unix", "@/root/socket",         NamespacedWorkspace, "read-only mount", "seccomp: no AF_UNIX"),
    ("pair",     "-",                     All,        "",                       ""),
    ("signal",   "OWNER",                 Off,        "PID namespace",          "Landlock scope"),
    ("trace",    "OWNER",                 Off,        "PID and user namespace", "Landlock: no tracing of what is outside"),
    ("mount",    "/mnt",                  Nobody,     "no CAP_SYS_ADMIN",       "Landlock, seccomp"),
    ("umount",   "@/home/.ssh",           Nobody,     "no CAP_SYS_ADMIN",       "Landlock, seccomp"),
    ("nested",   "@/home/.ssh",           Nobody,     "inherited mounts are locked", "Landlock, seccomp"),
];

/// Ways to enforce a level: without these.
const WAYS: &[&[Mechanism]] = &[
    &[],
    &[Mechanism::Namespaces],
    &[Mechanism::Landlock],
    &[Mechanism::Seccomp],
    &[Mechanism::Landlock, Mechanism::Seccomp],
];

fn the_table_holds() {
    table_in_new_process(|program| Command::new(program));
}

fn the_table_holds_for_nobody() {
    if is_root() {
        table_in_new_process(as_nobody);
    } else {
        println!("(we are an ordinary user already)");
    }
}

/// In a process of its own, which has another home.
fn table_in_new_process(command: impl FnOnce(&Path) -> Command) {
    // Not below `/tmp`, which is private in the sandbox.
    let base = tempfile::tempdir_in(if is_root() { "/var/lib" } else { env!("CARGO_TARGET_TMPDIR") }).unwrap();
    let base = base.path();
    for folder in ["root", "outside", "cache", "home/.ssh", "neighbour"] {
        fs::create_dir_all(base.join(folder)).unwrap();
    }
    for file in ["home/notes", "home/.ssh/id", "home/.netrc", "neighbour/diary"] {
        fs::write(base.join(file), "x").unwrap();
    }
    std::os::unix::fs::symlink("../outside/new", base.join("root/link-out")).unwrap();
    std::os::unix::fs::symlink(".ssh", base.join("home/link-to-ssh")).unwrap();
    if is_root() {
        assert!(Command::new("chown").args(["-R", "65534:65534"]).arg(base).status().unwrap().success());
    }
    let program = base.join("test");
    fs::copy(me(), &program).unwrap();
    fs::set_permissions(base, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut command = command(&program);
    let status = command.arg("table").arg(base).env("HOME", base.join("home")).env("PATH", "/usr/bin:/bin").status();
    assert!(status.unwrap().success());
}

/// Tries everything at every level in every way.
pub fn table(base: &Path) {
    block_on(async {
        let user = if is_root() { "root" } else { "an ordinary user" };
        println!("for {user}: {}", probe().how());
        let mut wrong = Vec::new();
        for without in WAYS {
            for (level, network) in [
                (Level::ReadOnly, Network::Off),
                (Level::Workspace, Network::Off),
                (Level::Workspace, Network::On),
                (Level::Off, Network::On),
            ] {
                if level == Level::Off && !without.is_empty() {
                    continue;
                }
                let policy = without
                    .iter()
                    .fold(Policy::new(level, [base.join("root")]).unwrap().network(network), |policy, mechanism| {
                        policy.without(*mechanism)
                    });
                let policy = policy.cache(base.join("cache")).unwrap().hide(base.join("neighbour"));
                if network == Network::On && without.len() == 2 {
                    let refused = policy.check().unwrap_err().to_string();
                    assert!(refused.contains("abstract sockets of others"), "{refused}");
                    continue;
                }
                match policy.describe() {
                    Ok(text) => println!("  {text}"),
                    // Only if the machine does not have it.
                    Err(refused) => {
                        let here = probe();
                        assert!(
                            here.namespaces.is_err() || here.landlock.is_err() || here.seccomp.is_err(),
                            "{refused}"
                        );
                        println!("  SKIPPED: {refused}");
                        continue;
                    }
                }
                for row in TABLE {
                    wrong.extend(check(base, &policy, network, without, row).await);
                }
            }
        }
        assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
    });
}

async fn check(
    base: &Path,
    policy: &Policy,
    network: Network,
    without: &[Mechanism],
    (deed, on, who, namespaces, landlock): &Row,
) -> Option<String> {
    let level = policy.level();
    let spaces = !without.contains(&Mechanism::Namespaces);
    let mut expect = match who {
        Nobody => false,
        All => true,
        Workspace => level != Level::ReadOnly,
        Off => level == Level::Off,
        Networked => network == Network::On,
        Namespaced => level == Level::Off || spaces,
        Unguarded => level == Level::Off || !spaces,
        NamespacedWorkspace => level == Level::Off || (level == Level::Workspace && spaces),
    };
    // What only root can do is done by root where nothing keeps it from it.
    if level == Level::Off && is_root() && ["packet", "mount", "nested"].contains(deed)
        || (level == Level::Off && *on == "/proc/1/environ" && is_root())
    {
        return None;
    }
    if *deed == "umount" && level == Level::Off {
        return None;
    }
    if *deed == "loopback" && network == Network::On {
        expect = true;
    }
    // With the network on, only Landlock tells abstract sockets apart. Without it, there are no Unix sockets.
    if network == Network::On && level != Level::Off && without.contains(&Mechanism::Landlock) && *deed == "own-unix" {
        expect = false;
    }
    let world = World::new(base);
    let on = on.replace('@', base.to_str().unwrap());
    let on = match &*on {
        "TCP" => world.tcp.local_addr().unwrap().to_string(),
        "UDP" => world.udp.local_addr().unwrap().to_string(),
        "ABSTRACT" => world.name.clone(),
        "OWNER" => std::process::id().to_string(),
        _ => on,
    };
    let program = me();
    let words = [program.to_str().unwrap(), "try", deed, &on];
    let request = Request::words(words, base.join("root"), policy);
    let command = match request.start().await {
        Ok(command) => command,
        Err(error) => return Some(format!("{deed} {on}: {error}")),
    };
    let outcome = command.outcome().await;
    let did = outcome.end == Status::Code(0);
    let said = command.output(0).text;
    let _ = fs::remove_file("/tmp/tieline-own");
    let _ = fs::remove_file("/dev/shm/tieline-own");
    // What the other side saw counts, not what the command believes.
    let mut buffer = [0; 8];
    let seen = match *deed {
        "tcp" => world.tcp.accept().is_ok(),
        "udp" => world.udp.recv(&mut buffer).is_ok(),
        "unix" => world.unix.accept().is_ok(),
        "abstract" => world.nameless.accept().is_ok(),
        _ => did,
    };
    let strange = !matches!(outcome.end, Status::Code(0 | 1));
    // A command may believe that it sent something that nobody got.
    if seen == expect && (did == seen || *deed == "udp") && !strange {
        return None;
    }
    let by = if spaces { namespaces } else { landlock };
    let text =
        format!("{level} {network:?} without {without:?}: {deed} {on}: did {did}, seen {seen}, expected {expect}");
    Some(format!("{text} (by {by}); {outcome}; {said}"))
}

/// What there is outside, made anew for each deed.
struct World {
    tcp: TcpListener,
    udp: UdpSocket,
    unix: UnixListener,
    nameless: UnixListener,
    name: String,
}

impl World {
    fn new(base: &Path) -> Self {
        for (file, text) in [("root/file", "x"), ("root/old", "x"), ("outside/file", "x"), ("outside/gone", "x")] {
            fs::write(base.join(file), text).unwrap();
        }
        for file in ["root/new", "root/old-moved", "outside/new", "cache/new", "root/socket", "outside/socket"] {
            let _ = fs::remove_file(base.join(file));
        }
        let name = unique();
        let world = Self {
            tcp: TcpListener::bind("127.0.0.1:0").unwrap(),
            udp: UdpSocket::bind("127.0.0.1:0").unwrap(),
            unix: UnixListener::bind(base.join("outside/socket")).unwrap(),
            nameless: UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap(),
            name,
        };
        world.tcp.set_nonblocking(true).unwrap();
        world.udp.set_nonblocking(true).unwrap();
        world.unix.set_nonblocking(true).unwrap();
        world.nameless.set_nonblocking(true).unwrap();
        world
    }
}
