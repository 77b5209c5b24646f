//! What commands have no business to read: keys, tokens, histories, other people's homes, and the sockets of services.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// Below the home folder.
const IN_HOME: &[&str] = &[
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".pgpass",
    ".my.cnf",
    ".vault-token",
    ".git-credentials",
    ".password-store",
    ".docker/config.json",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".gem/credentials",
    ".m2/settings.xml",
    ".gradle/gradle.properties",
    ".subversion/auth",
    ".terraform.d/credentials.tfrc.json",
    ".config/gcloud",
    ".config/gh",
    ".config/glab-cli",
    ".config/hub",
    ".config/git/credentials",
    ".config/op",
    ".config/rclone",
    ".config/sops",
    ".config/tieline",
    ".claude/.credentials.json",
    ".codex/auth.json",
    ".gemini/oauth_creds.json",
    ".local/share/keyrings",
    ".local/state/tieline",
    ".mozilla",
    ".thunderbird",
    ".config/google-chrome",
    ".config/chromium",
    ".bash_history",
    ".zsh_history",
    ".python_history",
    ".psql_history",
    ".mysql_history",
];

/// Elsewhere.
const IN_SYSTEM: &[&str] = &[
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/sudoers.d",
    "/etc/ssl/private",
    "/etc/ssh",
    "/etc/krb5.keytab",
    "/run/secrets",
    "/var/run/secrets",
];

/// Services that would do for a command what it can't do itself.
const SERVICES: &[&str] = &[
    "/run/containerd",
    "/run/crio",
    "/run/dbus",
    "/run/docker.sock",
    "/run/libvirt",
    "/run/podman",
    "/run/user",
    "/var/lib/incus/unix.socket",
    "/var/run/docker.sock",
    "/var/snap/lxd/common/lxd/unix.socket",
    "/tmp/.X11-unix",
];

/// What is hidden, without links and sorted: the built-in list and `more`, except for what is shown, and for folders
/// that are to be worked in.
pub(super) fn hidden(more: &[PathBuf], show: &[PathBuf], keep: &[&Path]) -> Vec<PathBuf> {
    let home = env::home_dir();
    let mut named: Vec<PathBuf> = IN_SYSTEM.iter().chain(SERVICES).map(PathBuf::from).collect();
    if let Some(home) = &home {
        named.extend(IN_HOME.iter().map(|path| home.join(path)));
    }
    // Our own keys and sessions, wherever they are.
    let base = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    named.extend(["XDG_STATE_HOME", "XDG_CONFIG_HOME"].into_iter().filter_map(base).map(|base| base.join("tieline")));
    named.extend(env::var_os("TIELINE_CONFIG").and_then(|path| std::path::absolute(path).ok()));
    named.extend(other_homes(home.as_deref()));
    let mut all: BTreeSet<PathBuf> = named.iter().chain(more).filter_map(|path| path.canonicalize().ok()).collect();
    all.retain(|path| !show.contains(path) && !keep.contains(&&**path) && path != Path::new("/"));
    all.into_iter().collect()
}

fn other_homes(own: Option<&Path>) -> Vec<PathBuf> {
    let own = own.and_then(|home| home.canonicalize().ok());
    // A package manager may live in a home of its own. It counts as system if we use it.
    let path = env::var_os("PATH").unwrap_or_default();
    let used: Vec<PathBuf> = env::split_paths(&path).filter_map(|folder| folder.canonicalize().ok()).collect();
    let homes = fs::read_dir("/home").into_iter().flatten().flatten().map(|entry| entry.path());
    homes
        .chain([PathBuf::from("/root")])
        .filter(|home| own.as_ref().is_none_or(|own| !own.starts_with(home)))
        .filter(|home| !used.iter().any(|folder| folder.starts_with(home)))
        .collect()
}

/// Sockets that somebody listens on: those the kernel lists, and those below `/run`, which may come from outside a
/// container.
pub(super) fn sockets() -> Vec<PathBuf> {
    let mut all = BTreeSet::new();
    let table = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    for line in table.lines().skip(1) {
        if let Some(at) = line.find(" /") {
            all.extend(Path::new(&line[at + 1..]).canonicalize().ok());
        }
    }
    look(Path::new("/run"), 3, &mut all);
    all.into_iter().collect()
}

fn look(folder: &Path, depth: usize, all: &mut BTreeSet<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_socket() {
            all.insert(entry.path());
        } else if kind.is_dir() && depth > 0 {
            look(&entry.path(), depth - 1, all);
        }
    }
}

/// What can be read if `hidden` can't: the largest files and folders below `top` that hold nothing hidden.
pub(super) fn carve(top: &Path, hidden: &[PathBuf]) -> Vec<PathBuf> {
    if hidden.iter().any(|path| top.starts_with(path)) {
        return Vec::new();
    }
    if !hidden.iter().any(|path| path.starts_with(top)) {
        return vec![top.to_owned()];
    }
    let mut parts = Vec::new();
    for entry in fs::read_dir(top).into_iter().flatten().flatten() {
        // A link counts where it leads to.
        if entry.file_type().is_ok_and(|kind| !kind.is_symlink()) {
            parts.extend(carve(&entry.path(), hidden));
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

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
