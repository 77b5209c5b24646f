//! What a hostile command tries with folders that can't be looked into, or not to the end.

use crate::attacks::make;
use crate::harness::{block_on, is_root};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use tieline_host::run::Request;
use tieline_host::sandbox::{Kept, Level, Policy};

/// Modes of a folder that can be entered or listed, but not both, or neither.
const CLOSED: &[u32] = &[0o311, 0o444, 0o000];

/// To root all of them are open.
fn closed() -> &'static [u32] {
    if is_root() { &CLOSED[..1] } else { CLOSED }
}

fn denied(path: &Path) -> Option<Kept> {
    match path.file_name()?.to_str()? {
        ".env" | "secret" => Some(Kept::Hidden),
        _ => None,
    }
}

fn kept(path: &Path) -> Option<Kept> {
    (path.file_name()? == "keep").then_some(Kept::ReadOnly)
}

fn set(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// What a command says, or why it does not run.
fn try_sh(line: &str, root: &Path, policy: &Policy) -> Result<String, String> {
    block_on(async {
        let command = Request::shell(line, root, policy).start().await.map_err(|error| error.to_string())?;
        command.outcome().await;
        Ok(command.output(0).to_string())
    })
}

pub fn what_is_denied_is_not_read_in_a_folder_that_is_closed(base: &Path) {
    for (number, mode) in closed().iter().enumerate() {
        for closed in ["a", "a/b", "secret", "secret/in", ".git", ".git/sub", "."] {
            let root = base.join(format!("{number}{}", closed.replace('/', "-")));
            let files = ["a/b/.env", "a/.env", "secret/in/one", "secret/two", ".git/sub/.env", ".git/.env", ".env"];
            make(&root, &files.map(|path| (path, "SECRET")));
            let folder = if closed == "." { root.clone() } else { root.join(closed) };
            // By a command, or by somebody before.
            let ways = [
                (true, Level::Workspace, true),
                (false, Level::Workspace, true),
                (false, Level::Workspace, false),
                (false, Level::ReadOnly, true),
            ];
            for (by_command, level, guard) in ways {
                let policy = Policy::new(level, [&root]).unwrap().deny(1, Kept::Hidden, denied);
                let policy = if guard { policy.guard() } else { policy };
                if by_command {
                    let _ = try_sh(&format!("chmod {mode:o} {closed}"), &root, &policy);
                } else {
                    set(&folder, *mode);
                }
                let all = files.join(" ");
                let read = format!("cat {all}; chmod 755 {closed}; cat {all}; mv a x; cat x/b/.env; grep -r S .");
                let said = try_sh(&read, &root, &policy);
                let case = format!("{mode:o} {closed} {by_command} {level} {guard}");
                assert!(!said.as_ref().is_ok_and(|said| said.contains("SECRET")), "{case}: {said:?}");
                if closed == "." && !is_root() {
                    assert!(said.clone().is_err_and(|why| why.contains("can't be looked at")), "{case}: {said:?}");
                } else {
                    // The rest can be worked with.
                    assert!(said.is_ok(), "{case}: {said:?}");
                }
                set(&folder, 0o755);
            }
        }
    }
}

pub fn another_name_of_what_is_in_a_closed_folder_is_not_read(base: &Path) {
    for (name, mode, inner) in [("deny", 0o311, "a/.env"), ("deep", 0o000, "secret/in/x"), ("guard", 0o311, "a/.git/x")]
    {
        let root = base.join(name);
        make(&root, &[(inner, "SECRET"), ("other/open", "seen")]);
        fs::hard_link(root.join(inner), root.join("other/twin")).unwrap();
        let policy = Policy::new(Level::Workspace, [&root]).unwrap().guard();
        let folder = root.join(inner).parent().unwrap().to_owned();
        let folder = if name == "guard" { root.join("a") } else { folder };
        set(&folder, mode);
        if name == "guard" {
            // It runs by itself later, and without a rule that is asked for.
            crate::attacks::held("echo evil > other/twin", &root, &policy);
        } else {
            let policy = policy.deny(1, Kept::Hidden, denied);
            let said = try_sh("cat other/twin", &root, &policy);
            assert!(!said.as_ref().is_ok_and(|said| said.contains("SECRET")), "{name}: {said:?}");
        }
        set(&folder, 0o755);
        assert_eq!(fs::read_to_string(root.join("other/twin")).unwrap(), "SECRET");
    }
}

pub fn a_root_that_is_closed_frees_nothing(base: &Path) {
    for (number, mode) in closed().iter().enumerate() {
        for added in [false, true] {
            let root = base.join(format!("{number}{added}"));
            let files = ["d/keep", "n/.git/config", "n/.envrc", "p/.vscode/tasks.json"];
            make(&root, &files.map(|path| (path, "old")));
            fs::create_dir_all(root.join("more")).unwrap();
            let cwd = if added { base.join("home") } else { root.clone() };
            let top = root.display();
            let change = format!(
                "chmod 755 {top}; for i in {}; do echo evil > {top}/$i; rm -f {top}/$i; done; mkdir {top}/n/.git/hooks",
                files.join(" ")
            );
            for rules in [true, false] {
                let roots = if added { vec![&cwd, &root] } else { vec![&root] };
                let policy = Policy::new(Level::Workspace, roots).unwrap().guard();
                let policy = if rules { policy.deny(1, Kept::ReadOnly, kept) } else { policy };
                set(&root, *mode);
                // Without a rule it is asked for.
                if rules || policy.guarded().is_whole() {
                    let said = try_sh(&change, &cwd, &policy);
                    assert!(is_root() || said.is_err(), "{mode:o} {added}: {said:?}");
                }
                set(&root, 0o755);
                for path in &files[usize::from(!rules)..] {
                    assert_eq!(
                        fs::read_to_string(root.join(path)).unwrap_or_default(),
                        "old",
                        "{mode:o} {added} {path}"
                    );
                }
                assert!(!root.join("n/.git/hooks").exists());
            }
        }
    }
}

pub fn what_must_not_change_is_kept_in_a_closed_folder(base: &Path) {
    for (number, mode) in closed().iter().enumerate() {
        for guard in [true, false] {
            let root = base.join(format!("{number}{guard}"));
            make(&root, &[("a/b/keep", "old"), (".git/keep", "old"), ("open", "")]);
            let policy = Policy::new(Level::Workspace, [&root]).unwrap().deny(1, Kept::ReadOnly, kept);
            let policy = if guard { policy.guard() } else { policy };
            for folder in ["a", "a/b", ".git"] {
                set(&root.join(folder), *mode);
                let said = try_sh(
                    "chmod 755 a a/b .git; for i in a/b/keep .git/keep; do echo new > $i; rm -f $i; done; mv a c; rm -rf c .git",
                    &root,
                    &policy,
                );
                assert!(said.is_ok(), "{mode:o} {folder} {guard}: {said:?}");
                set(&root.join(folder), 0o755);
                for path in ["a/b/keep", ".git/keep"] {
                    let text = fs::read_to_string(root.join(path)).unwrap_or_default();
                    assert_eq!(text, "old", "{mode:o} {folder} {guard} {path}");
                }
            }
        }
    }
}

/// What is too much to be looked at, or too deep, is not read where a rule denies something.
pub fn what_is_too_deep_to_be_looked_at_is_not_read(base: &Path) {
    let root = base.join("root");
    make(&root, &[("open", "seen")]);
    let policy = Policy::new(Level::Workspace, [&root]).unwrap().guard();
    let deep = "d=$(printf 'x%.0s' $(seq 200)); for i in $(seq 30); do mkdir -p $d && cd $d; done; echo SECRET > .env";
    try_sh(deep, &root, &policy).unwrap();
    let policy = policy.deny(1, Kept::Hidden, denied);
    for level in [Level::Workspace, Level::ReadOnly] {
        let policy = if level == Level::Workspace {
            policy.clone()
        } else {
            Policy::new(level, [&root]).unwrap().deny(1, Kept::Hidden, denied)
        };
        let said =
            try_sh("d=$(printf 'x%.0s' $(seq 200)); for i in $(seq 30); do cd $d; done; cat .env", &root, &policy);
        assert!(said.clone().is_err_and(|why| why.contains("can't be looked at")), "{said:?}");
    }
    let free = Policy::new(Level::Workspace, [&root]).unwrap();
    try_sh("rm -rf xxx*", &root, &free).unwrap();
}
