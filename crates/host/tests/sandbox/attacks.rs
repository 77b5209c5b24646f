//! What a hostile command tries against the guard and the masks, from its side.

use crate::harness::{as_nobody, block_on, is_root, me, soon};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tieline_host::rules::{Config, Engine, Preset};
use tieline_host::run::{Request, Running};
use tieline_host::sandbox::{Kept, Level, Mechanism, Policy};

pub const ALL: &[(&str, fn())] =
    &[("attacks_fail", attacks_fail), ("attacks_fail_for_nobody", attacks_fail_for_nobody)];

type Attack = (&'static str, fn(&Path));

/// The flag of a new user namespace.
const NEW_USER: u64 = 0x1000_0000;

/// Each gets an empty folder of its own with a home in it, as the home of this process.
const ATTACKS: &[Attack] = &[
    ("the_guard_is_not_overflowed_by_files", the_guard_is_not_overflowed_by_files),
    ("the_guard_is_not_overflowed_by_names", the_guard_is_not_overflowed_by_names),
    ("a_folder_that_cannot_be_read_hides_nothing", a_folder_that_cannot_be_read_hides_nothing),
    ("what_is_guarded_cannot_be_moved_out_of_the_way", what_is_guarded_cannot_be_moved_out_of_the_way),
    ("hooks_are_guarded_where_git_looks_for_them", hooks_are_guarded_where_git_looks_for_them),
    ("links_in_what_is_guarded_are_followed", links_in_what_is_guarded_are_followed),
    ("what_runs_later_by_other_names_is_guarded", what_runs_later_by_other_names_is_guarded),
    ("secrets_that_come_later_are_not_seen", secrets_that_come_later_are_not_seen),
    ("sockets_that_come_later_are_not_reached", sockets_that_come_later_are_not_reached),
    ("homes_and_logins_of_others_are_hidden", homes_and_logins_of_others_are_hidden),
    ("what_is_denied_is_not_read", what_is_denied_is_not_read),
    ("what_is_denied_is_held_inside_what_is_guarded", what_is_denied_is_held_inside_what_is_guarded),
    ("what_must_not_change_is_not_changed", what_must_not_change_is_not_changed),
    ("no_file_is_left_that_lends_rights", no_file_is_left_that_lends_rights),
    ("no_call_is_made_that_is_none_of_its_business", no_call_is_made_that_is_none_of_its_business),
    ("other_processes_are_left_alone_without_namespaces", other_processes_are_left_alone_without_namespaces),
    ("the_watcher_is_left_alone", the_watcher_is_left_alone),
    ("what_is_denied_is_not_read_through_links", what_is_denied_is_not_read_through_links),
    ("names_in_links_are_guarded", names_in_links_are_guarded),
    ("what_a_repository_above_runs_is_guarded", crate::around::what_a_repository_above_runs_is_guarded),
    (
        "settings_of_the_home_that_lead_into_the_root_are_guarded",
        crate::around::settings_of_the_home_that_lead_into_the_root_are_guarded,
    ),
    ("keys_that_are_links_are_hidden_where_they_lead", crate::around::keys_that_are_links_are_hidden_where_they_lead),
    ("secrets_that_variables_name_are_hidden", crate::around::secrets_that_variables_name_are_hidden),
    ("what_variables_name_is_guarded", crate::around::what_variables_name_is_guarded),
    ("what_we_start_ourselves_is_guarded", crate::around::what_we_start_ourselves_is_guarded),
    (
        "what_is_denied_is_not_read_in_a_folder_that_is_closed",
        crate::closed::what_is_denied_is_not_read_in_a_folder_that_is_closed,
    ),
    (
        "another_name_of_what_is_in_a_closed_folder_is_not_read",
        crate::closed::another_name_of_what_is_in_a_closed_folder_is_not_read,
    ),
    ("a_root_that_is_closed_frees_nothing", crate::closed::a_root_that_is_closed_frees_nothing),
    ("what_must_not_change_is_kept_in_a_closed_folder", crate::closed::what_must_not_change_is_kept_in_a_closed_folder),
    ("what_is_too_deep_to_be_looked_at_is_not_read", crate::closed::what_is_too_deep_to_be_looked_at_is_not_read),
    ("the_private_folder_is_not_replaced", crate::around::the_private_folder_is_not_replaced),
    ("sockets_by_relative_names_are_not_reached", crate::around::sockets_by_relative_names_are_not_reached),
];

fn attacks_fail() {
    in_new_process(|program| Command::new(program));
}

fn attacks_fail_for_nobody() {
    if is_root() {
        in_new_process(as_nobody);
    } else {
        println!("(we are an ordinary user already)");
    }
}

fn in_new_process(command: impl Fn(&Path) -> Command) {
    let top = tempfile::tempdir_in(if is_root() { "/var/lib" } else { env!("CARGO_TARGET_TMPDIR") }).unwrap();
    fs::set_permissions(top.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = top.path().join("test");
    fs::copy(me(), &program).unwrap();
    let wanted = std::env::var("TIELINE_ATTACK").unwrap_or_default();
    let mut failed = Vec::new();
    for (name, _) in ATTACKS.iter().filter(|(name, _)| name.contains(&wanted)) {
        let base = top.path().join(name);
        fs::create_dir_all(base.join("home")).unwrap();
        if is_root() {
            assert!(Command::new("chown").args(["-R", "65534:65534"]).arg(&base).status().unwrap().success());
        }
        let mut command = command(&program);
        let command = command.arg("attack").arg(name).arg(&base).env("HOME", base.join("home"));
        if !command.env("PATH", "/usr/bin:/bin").status().unwrap().success() {
            failed.push(*name);
        }
    }
    assert!(failed.is_empty(), "{failed:?}");
}

pub fn attack(name: &str, base: &Path) {
    let base = base.canonicalize().unwrap();
    if !Policy::new(Level::Workspace, [&base]).unwrap().guard().guards() {
        crate::without_sandbox(name);
        return;
    }
    let (_, attack) = ATTACKS.iter().find(|(other, _)| *other == name).unwrap();
    attack(&base);
}

/// Makes files, with what is in them.
pub fn make(top: &Path, files: &[(&str, &str)]) {
    for (path, text) in files {
        let path = top.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

pub fn guarded(root: &Path) -> Policy {
    Policy::new(Level::Workspace, [root]).unwrap().guard()
}

async fn start(line: &str, folder: &Path, policy: &Policy) -> Running {
    Request::shell(line, folder, policy).start().await.unwrap()
}

pub async fn sh(line: &str, folder: &Path, policy: &Policy) -> (bool, String) {
    let command = start(line, folder, policy).await;
    let outcome = command.outcome().await;
    (outcome.is_success(), command.output(0).to_string())
}

/// Runs a line in a folder, for a process with another environment.
pub fn run(root: &Path, line: &str) {
    let policy = Policy::new(Level::ReadOnly, [root]).unwrap();
    println!("{}", block_on(sh(line, root, &policy)).1);
}

/// Runs lines in a folder one after the other, as the commands of one session, for a process with another environment.
pub fn lines(root: &Path, lines: &[String]) {
    let policy = guarded(root);
    block_on(async {
        for line in lines {
            match Request::shell(line, root, &policy).start().await {
                Ok(command) => {
                    command.outcome().await;
                    println!("{}", command.output(0));
                }
                Err(error) => println!("{error}"),
            }
        }
    });
}

/// Tries a deed in a folder, for a process with another environment, and says whether it would have been asked for.
pub fn plant(root: &Path, line: &str) {
    let policy = guarded(root);
    println!("{}", if policy.guarded().is_whole() { "whole" } else { "asked" });
    held(line, root, &policy);
}

/// The attack runs without a question only if the guard is whole; then it must fail.
pub fn held(line: &str, root: &Path, policy: &Policy) {
    if policy.guarded().is_whole() {
        let (did, said) = block_on(sh(line, root, policy));
        assert!(!did, "{line}: {said}");
    }
}

fn the_guard_is_not_overflowed_by_files(base: &Path) {
    let root = base.join("root");
    make(&root, &[(".git/config", ""), (".envrc", ""), (".vscode/tasks.json", ""), ("sub/deep/.git/config", "")]);
    let policy = guarded(&root);
    assert!(policy.guarded().is_whole());
    let (did, said) =
        block_on(sh("mkdir z; cd z; seq 2000 | xargs touch; cd ..; seq 21000 | xargs touch", &root, &policy));
    assert!(did, "{said}");
    for path in [".git/hooks", ".git/new", ".vscode/new", "sub/deep/.git/hooks"] {
        held(&format!("mkdir {path}"), &root, &policy);
    }
    held("echo x > .envrc", &root, &policy);
    // Whatever else there is, the names of the root itself are held, also for a policy that has seen nothing before.
    for policy in [policy, guarded(&root)] {
        for line in ["mkdir .git/hooks", "echo x > .envrc", "touch .vscode/new", "mv .git away"] {
            let (did, said) = block_on(sh(line, &root, &policy));
            assert!(!did, "{line}: {said}");
        }
    }
}

fn the_guard_is_not_overflowed_by_names(base: &Path) {
    let root = base.join("root");
    make(&root, &[(".git/config", ""), ("sub/deep/er/.git/config", "")]);
    let policy = guarded(&root);
    assert!(policy.guarded().is_whole());
    for count in [600, 2500] {
        let fill = format!("for i in $(seq {count}); do mkdir -p n$i && : > n$i/.envrc; done");
        let (did, said) = block_on(sh(&fill, &root, &policy));
        assert!(did, "{said}");
        held("mkdir sub/deep/er/.git/hooks", &root, &policy);
        held("mkdir .git/hooks", &root, &policy);
        // What was there before the flood is not pushed out by it.
        for line in ["mkdir sub/deep/er/.git/hooks", "mkdir .git/hooks"] {
            let (did, said) = block_on(sh(line, &root, &policy));
            assert!(!did, "{count}: {line}: {said}");
        }
    }
    assert!(!policy.guarded().is_whole(), "so many can't be held, and it is said");
}

fn a_folder_that_cannot_be_read_hides_nothing(base: &Path) {
    let root = base.join("root");
    make(&root, &[("sub/.git/config", "")]);
    let policy = guarded(&root);
    block_on(sh("chmod 000 sub", &root, &policy));
    held("chmod 700 sub && mkdir sub/.git/hooks", &root, &policy);
    fs::set_permissions(root.join("sub"), fs::Permissions::from_mode(0o755)).unwrap();
    // A path too long to be named.
    let deep =
        "d=$(printf 'x%.0s' $(seq 200)); for i in $(seq 30); do mkdir $d && cd $d; done; mkdir .git && : > .git/config";
    let (did, said) = block_on(sh(deep, &root, &policy));
    assert!(did, "{said}");
    let plant = "d=$(printf 'x%.0s' $(seq 200)); for i in $(seq 30); do cd $d; done; mkdir .git/hooks";
    held(plant, &root, &policy);
    let (did, said) = block_on(sh("rm -rf xxx*", &root, &policy));
    assert!(did, "{said}");
}

fn what_is_guarded_cannot_be_moved_out_of_the_way(base: &Path) {
    let root = base.join("root");
    make(&root, &[(".github/workflows/ci.yml", "x"), (".cargo/config.toml", "x"), ("sub/deep/.git/config", "x")]);
    let policy = guarded(&root);
    for (path, one, two) in [
        (".github/workflows/ci.yml", "mv .github x", "echo evil > x/workflows/ci.yml && mv x .github"),
        (".cargo/config.toml", "mv .cargo x", "echo evil > x/config.toml && mv x .cargo"),
        ("sub/deep/.git/config", "mv sub/deep x", "echo evil > x/.git/config && mv x sub/deep"),
    ] {
        block_on(sh(one, &root, &policy));
        block_on(sh(two, &root, &policy));
        assert_eq!(fs::read_to_string(root.join(path)).unwrap(), "x", "{path}");
    }
    // While one command moves it to and fro, another one is started.
    block_on(async {
        let mover = start("while :; do mv sub other; mv other sub; done", &root, &policy).await;
        for _ in 0..20 {
            if let Ok(other) =
                Request::shell("echo evil > sub/deep/.git/config; echo evil > other/deep/.git/config", &root, &policy)
                    .start()
                    .await
            {
                other.outcome().await;
            }
        }
        mover.stop();
        mover.outcome().await;
    });
    let found = fs::read_to_string(root.join("sub/deep/.git/config"))
        .or_else(|_| fs::read_to_string(root.join("other/deep/.git/config")));
    assert_eq!(found.unwrap(), "x");
}

fn hooks_are_guarded_where_git_looks_for_them(base: &Path) {
    let repository =
        [("HEAD", "ref: refs/heads/main\n"), ("objects/x", ""), ("refs/x", ""), ("config", "[core]\n bare = true\n")];
    let check = |name: &str, files: &[(&str, &str)], line: &str| {
        let root = base.join(name);
        make(&root, files);
        held(line, &root, &guarded(&root));
    };
    for (number, config) in [
        "[core]\n\thooksPath = tools/hooks\n",
        "[CORE] HooksPath=tools/hooks # here\n",
        "[core]\n hooksPath = \"tools\\\n/hooks\"\n",
        "[include]\n path = ../more\n",
        "[includeIf \"gitdir:nowhere\"]\n path = ../more\n",
    ]
    .iter()
    .enumerate()
    {
        let more = ("more", "[core]\nhooksPath = tools/hooks\n");
        check(
            &format!("path-{number}"),
            &[(".git/config", config), more, ("tools/hooks/x", "")],
            "echo x > tools/hooks/pre-commit",
        );
        // The folder does not exist yet.
        check(
            &format!("absent-{number}"),
            &[(".git/config", config), more],
            "mkdir -p tools/hooks && echo x > tools/hooks/pre-commit",
        );
    }
    check("included", &[(".git/config", "[include]\npath = ../more\n"), ("more", "")], "echo x > more");
    check(
        "worktree",
        &[(".git/config.worktree", "[core]\nhooksPath = hooks\n"), ("hooks/x", "")],
        "echo x > hooks/pre-commit",
    );
    check("named", &[(".githooks/x", "")], "echo x > .githooks/pre-commit");
    // Programs that settings name.
    for (number, setting) in [
        "[core]\nfsmonitor = tools/run",
        "[core]\nsshCommand = sh -c './tools/run'",
        "[filter \"x\"]\nclean = python3 tools/run %f",
        "[diff]\nexternal = tools/run",
        "[alias]\nst = \"!f() { tools/run; }; f\"",
        "[gpg \"ssh\"]\nprogram = ./tools/../tools/run",
        "[credential]\nhelper = !tools/run get",
        "[hook \"x\"]\ncommand = \"\\\"$(git rev-parse --show-toplevel)/tools/run\\\"\"",
    ]
    .iter()
    .enumerate()
    {
        let name = format!("program-{number}");
        check(&name, &[(".git/config", setting), ("tools/run", "")], "echo x > tools/run");
        check(&name, &[], "mv tools t && mkdir tools && echo x > tools/run");
        // A folder before `..` can be replaced, so that is asked for.
        assert_eq!(guarded(&base.join(name)).guarded().is_whole(), !setting.contains(".."), "{setting}");
        // It is not there yet. What follows the program in a line may be anything.
        if ["= tools/run", "= ./tools", "= !tools"].iter().any(|begin| setting.contains(begin)) {
            check(&format!("no-program-{number}"), &[(".git/config", setting)], "mkdir tools && echo x > tools/run");
        }
    }
    // A repository that is not called so: beside a file `.git` that names it, of a submodule, and without a work tree.
    let within =
        |folder: &str| repository.iter().map(|(name, text)| (format!("{folder}/{name}"), *text)).collect::<Vec<_>>();
    for (name, folder, extra) in [
        ("bare", "some.git", None),
        ("bare-deep", "a/b/c", None),
        ("separate", ".bare", Some((".git", "gitdir: ./.bare\n"))),
    ] {
        let files = within(folder);
        let mut files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        files.extend(extra);
        check(name, &files, &format!("mkdir {folder}/hooks"));
        check(name, &files, &format!("echo x > {folder}/config"));
        check(name, &files, &format!("mv {folder} x && echo x > x/config"));
    }
    // The root is the repository itself.
    check("itself", &repository, "echo x > config");
    check("itself", &repository, "mkdir hooks");
    // A work tree of another repository in the workspace, whose own settings name the hooks.
    let root = base.join("linked");
    let files = within("main/store");
    make(&root, &files.iter().map(|(path, text)| (path.as_str(), *text)).collect::<Vec<_>>());
    make(
        &root,
        &[
            ("main/store/config", "[core]\nhooksPath = hooks-of-all\n"),
            ("main/store/worktrees/w/commondir", "../..\n"),
            ("main/store/worktrees/w/HEAD", "ref: x\n"),
            ("w/hooks-of-all/x", ""),
        ],
    );
    fs::write(root.join("w/.git"), format!("gitdir: {}/main/store/worktrees/w\n", root.display())).unwrap();
    held("echo x > w/hooks-of-all/pre-commit", &root, &guarded(&root));
}

fn links_in_what_is_guarded_are_followed(base: &Path) {
    // The name of the case, links with what they say, how the attack goes, and whether it is held without a question.
    type Links = [(&'static str, &'static str)];
    let cases: &[(&str, &Links, &str, bool)] = &[
        ("hook", &[(".git/hooks/pre-commit", "../../scripts/run")], "echo evil >> scripts/run", true),
        ("moved", &[(".git/hooks/pre-commit", "../../scripts/run")], "mv scripts x && cp -r x scripts", true),
        ("folder", &[(".git/hooks", "../scripts")], "echo evil > scripts/pre-commit", true),
        ("path", &[("hooks/pre-commit", "../scripts/run")], "echo evil >> scripts/run", true),
        ("editor", &[(".vscode/tasks.json", "../scripts/run")], "echo evil >> scripts/run", true),
        ("deep", &[(".vscode/a/b", "../../scripts/run")], "echo evil >> scripts/run", true),
        ("around", &[(".github/workflows/x.yml", "../../scripts/run")], "echo evil >> scripts/run", true),
        ("settings", &[(".git/more", "../scripts/run")], "echo evil >> scripts/run", true),
        (
            "chain",
            &[(".vscode/x", "y"), (".vscode/y", "../scripts"), ("scripts/z", "../src/lib")],
            "echo x >> src/lib",
            true,
        ),
        ("loop", &[(".vscode/x", "x"), (".vscode/y", "."), (".vscode/z", "../.vscode/none")], "mv .vscode x", true),
        ("outside", &[(".vscode/x", "/usr/bin/env")], "mv .vscode x", true),
        ("absent", &[(".git/hooks/pre-push", "../../scripts/new")], "echo evil > scripts/new", false),
        ("second", &[(".vscode/x", "../to/run"), ("to", "scripts")], "rm to && cp -r src to", false),
        ("root", &[(".vscode/x", "..")], "echo evil > scripts/run", false),
        ("back", &[(".vscode/x", "../src/../scripts/run")], "mv src x && ln -s x/sub src", false),
    ];
    for (name, links, line, silent) in cases {
        let root = base.join(name);
        make(
            &root,
            &[
                (".git/config", "[core]\nhooksPath = hooks\n"),
                ("hooks/x", ""),
                (".vscode/x.json", ""),
                ("scripts/run", "before"),
                ("src/lib", "before"),
            ],
        );
        for (at, to) in *links {
            fs::create_dir_all(root.join(at).parent().unwrap()).unwrap();
            std::os::unix::fs::symlink(to, root.join(at)).unwrap();
        }
        let policy = guarded(&root);
        assert_eq!(policy.guarded().is_whole(), *silent, "{name}: {:?}", policy.guarded().gap());
        held(line, &root, &policy);
        let (did, said) = block_on(sh("echo x > src/new && echo x > made", &root, &policy));
        assert!(did, "{name}: what nothing leads to can be changed: {said}");
    }
    // Another name of the same file.
    let root = base.join("twin");
    make(&root, &[(".git/hooks/x", ""), ("scripts/run", "before")]);
    fs::hard_link(root.join("scripts/run"), root.join(".git/hooks/pre-commit")).unwrap();
    held("echo evil >> scripts/run", &root, &guarded(&root));
    std::os::unix::fs::symlink("../scripts/run", root.join(".git/x")).unwrap();
    fs::remove_file(root.join(".git/hooks/pre-commit")).unwrap();
    fs::hard_link(root.join("scripts/run"), root.join("twin")).unwrap();
    held("echo evil >> twin", &root, &guarded(&root));
    // Ways to hooks that can be made to lead elsewhere.
    for (name, way) in [("dots", "./sub/../hh"), ("link", "link/none"), ("link-in", "link-in/hooks")] {
        let root = base.join(format!("way-{name}"));
        make(&root, &[("sub/x", ""), ("hh/x", "")]);
        make(&root, &[(".git/config", &format!("[core]\nhooksPath = {way}\n")), (".git/hooks/x", "")]);
        std::os::unix::fs::symlink("/usr", root.join("link")).unwrap();
        std::os::unix::fs::symlink(".git", root.join("link-in")).unwrap();
        assert!(!guarded(&root).guarded().is_whole(), "{way}");
    }
}

fn what_runs_later_by_other_names_is_guarded(base: &Path) {
    let root = base.join("root");
    let names = [
        ".pre-commit-config.yaml",
        "lefthook.yml",
        ".lefthook.yml",
        ".husky/pre-commit",
        ".githooks/pre-push",
        ".overcommit.yml",
        ".github/actions/x/action.yml",
        ".gitlab-ci.yml",
        "Jenkinsfile",
        ".forgejo/workflows/x.yml",
        ".opencode/x",
        ".qwen/x",
        ".mise.toml",
        ".devcontainer.json",
        "x.code-workspace",
        ".yarnrc.yml",
        ".pnpmfile.cjs",
        ".dir-locals.el",
        ".exrc",
        ".venv/pyvenv.cfg",
        "env/pyvenv.cfg",
    ];
    make(&root, &names.map(|name| (name, "before")));
    let policy = guarded(&root);
    for name in names {
        held(&format!("echo x > {name}"), &root, &policy);
    }
    // What is work, and runs only when somebody asks for it, stays writable.
    make(&root, &[("Makefile", ""), ("package.json", "{}"), ("build.rs", "")]);
    let (did, said) = block_on(sh("echo x > Makefile && echo x > package.json && echo x > build.rs", &root, &policy));
    assert!(did, "{said}");
    // In other people's packages only what git would run counts; those have to be replaced.
    make(&root, &[("node_modules/x/.github/workflows/ci.yml", ""), ("node_modules/y/.git/config", "")]);
    let (did, said) = block_on(sh("rm -r node_modules/x", &root, &policy));
    assert!(did, "{said}");
    held("echo x > node_modules/y/.git/config", &root, &policy);
}

fn secrets_that_come_later_are_not_seen(base: &Path) {
    let home = base.join("home");
    let root = home.join("work/root");
    fs::create_dir_all(&root).unwrap();
    make(
        &home,
        &[
            (".git-credentials", "old"),
            (".kube/config", "old"),
            (".config/x", "x"),
            (".local/share/x", "x"),
            ("notes", "mine"),
            (".gitconfig", "set"),
        ],
    );
    let names = [
        ".git-credentials",
        ".kube/config",
        ".netrc",
        ".ssh/id",
        ".config/gh/hosts.yml",
        ".docker/config.json",
        ".local/share/keyrings/k",
        ".npmrc",
    ];
    for level in [Level::ReadOnly, Level::Workspace] {
        for path in names.iter().skip(2) {
            let _ = fs::remove_file(home.join(path));
        }
        let policy = Policy::new(level, [&root]).unwrap();
        let line = format!(
            "echo ready; while ! [ -e {0}/go ]; do sleep 0.02; done; cd {1}; cat notes .gitconfig .config/x; cat {2} 2>/dev/null",
            root.display(),
            home.display(),
            names.join(" ")
        );
        let said = block_on(async {
            let command = start(&line, &root, &policy).await;
            soon("it runs", Duration::from_secs(10), || command.output(0).to_string().contains("ready"));
            for name in names {
                // As programs do it: a new file in the place of the old one.
                make(&home, &[("new", "SECRET")]);
                fs::create_dir_all(home.join(name).parent().unwrap()).unwrap();
                fs::rename(home.join("new"), home.join(name)).unwrap();
            }
            fs::write(root.join("go"), "").unwrap();
            command.outcome().await;
            command.output(0).to_string()
        });
        fs::remove_file(root.join("go")).unwrap();
        assert!(said.contains("mine") && said.contains("set"), "{said}");
        assert!(!said.contains("SECRET") && !said.contains("old"), "{level}: {said}");
    }
}

fn sockets_that_come_later_are_not_reached(base: &Path) {
    let (root, daemon) = (base.join("root"), base.join("daemon"));
    fs::create_dir_all(&root).unwrap();
    fs::create_dir_all(&daemon).unwrap();
    fs::write(daemon.join("notes"), "mine").unwrap();
    let mut places = vec![daemon.join("socket")];
    if is_root() {
        places.push(PathBuf::from("/run").join(format!("tieline-{}.socket", std::process::id())));
    }
    let old = UnixListener::bind(&places[0]).unwrap();
    let policy = Policy::new(Level::Workspace, [&root]).unwrap();
    let tries: Vec<String> =
        places.iter().map(|place| format!("{} try unix {}", me().display(), place.display())).collect();
    let line = format!(
        "echo ready; while ! [ -e go ]; do sleep 0.02; done; cat {}/notes; {}; true",
        daemon.display(),
        tries.join("; ")
    );
    block_on(async {
        let command = start(&line, &root, &policy).await;
        soon("it runs", Duration::from_secs(10), || command.output(0).to_string().contains("ready"));
        // The daemon is started again, and another one for the first time.
        drop(old);
        let _ = fs::remove_file(&places[0]);
        let new: Vec<UnixListener> = places.iter().map(|place| UnixListener::bind(place).unwrap()).collect();
        fs::write(root.join("go"), "").unwrap();
        command.outcome().await;
        let said = command.output(0).to_string();
        assert!(said.contains("mine"), "what is beside it can be read: {said}");
        for (listener, place) in new.iter().zip(&places) {
            listener.set_nonblocking(true).unwrap();
            let reached = listener.accept().is_ok();
            let _ = fs::remove_file(place);
            assert!(!reached, "{}: {said}", place.display());
        }
    });
}

/// Histories and logins of agents and others, in a home.
const LOGINS: &str = "
    .mcp-auth/x/tokens.json .circleci/cli.yml .travis/config.yml .slack/credentials.json .config/linode-cli
    .runpod/config.toml .config/earthengine/credentials .config/fabric/.env .config/shell_gpt/.sgptrc
    .config/mods/mods.yml .vast_api_key .config/JetBrains/x/c.kdbx .config/protonmail/x
    .claude/.credentials.json .claude.json .codex/auth.json .gemini/oauth_creds.json .qwen/oauth_creds.json
    .local/share/opencode/auth.json .config/goose/secrets.yaml .config/cursor/auth.json
    .config/github-copilot/apps.json .copilot/config.json .local/share/amp/secrets.json .factory/auth.json
    .continue/config.json .config/containers/auth.json .local/share/fish/fish_history .config/BraveSoftware/x
    .pulumi/credentials.json .databrickscfg .ollama/id_ed25519 .config/wireguard/wg0.conf .step/secrets/key
    .cloudflared/cert.pem .authinfo .msmtprc .config/stripe/config.toml .config/.wrangler/config/default.toml
    .dbt/profiles.yml .hex/hex.config .local/share/gem/credentials .vault_pass
    .config/Code/User/globalStorage/state.vscdb .cursor/mcp.json .viminfo .local/state/nvim/shada/main.shada
    .config/nushell/history.txt .local/state/bash/history .ipython/profile_default/history.sqlite Passwords.kdbx
    Documents/mine.KDBX .claude/history.jsonl .claude/projects/x/y.jsonl .claude/file-history/x
    .claude/paste-cache/x .claude/shell-snapshots/x .claude/todos/x .gemini/tmp/x/logs.json .qwen/tmp/x/logs.json
    .aider.chat.history.md .aider.input.history .aider/oauth-keys.env .iflow/x .grok/x .forge/x .pi/agent/auth.json
    .openhands/x .kilocode/x .codebuddy/x .rovodev/x .warp/x .config/Windsurf/x .plandex-home-v2/x
    .config/manicode/x .letta/x .var/app/org.mozilla.firefox/x .vnc/passwd .config/borg/keys/x
    .config/kdeconnect/privateKey.pem .sbt/.credentials .ivy2/.credentials .lein/credentials.clj .aliyun/config.json
    .doppler/x .clasprc.json .local/share/uv/credentials/x .local/share/jupyter/runtime/kernel.json .duckdb_history
    .mongodb/mongosh/x .local/share/xonsh/x";

fn homes_and_logins_of_others_are_hidden(base: &Path) {
    let home = base.join("home");
    let root = base.join("root");
    fs::create_dir_all(&root).unwrap();
    let names: Vec<&str> = LOGINS.split_whitespace().collect();
    make(&home, &names.iter().map(|name| (*name, "SECRET")).collect::<Vec<_>>());
    make(&home, &[(".codex/config.toml", "open"), (".claude/CLAUDE.md", "open")]);
    let policy = Policy::new(Level::ReadOnly, [&root]).unwrap();
    let (_, said) = block_on(sh(
        &format!("cd {}; cat {}; cat .codex/config.toml", home.display(), names.join(" ")),
        &root,
        &policy,
    ));
    assert!(!said.contains("SECRET") && said.contains("open"), "{said}");
    // A home that is not the one of `HOME`: another one of the same user, with programs in it that are on `PATH`.
    if rustix::process::geteuid().is_root() {
        let diary = tempfile::Builder::new().prefix(".tieline-test").tempdir_in("/root").unwrap();
        make(
            diary.path(),
            &[("diary", "SECRET"), ("tools/bin/hello", "#!/bin/sh\necho hello\n"), ("tools/x", "SECRET")],
        );
        let programs = diary.path().join("tools/bin");
        fs::set_permissions(programs.join("hello"), fs::Permissions::from_mode(0o755)).unwrap();
        let line = format!("cat {0}/diary {0}/tools/x; ls -a /root; {0}/tools/bin/hello", diary.path().display());
        let mut command = Command::new(me());
        let path = format!("{}:/usr/bin:/bin", programs.display());
        let said = command.arg("run").arg(&root).arg(line).env("PATH", path).output().unwrap().stdout;
        let said = String::from_utf8_lossy(&said).into_owned();
        assert!(!said.contains("SECRET") && !said.contains(".bash") && said.contains("hello"), "{said}");
    }
    // A home that is made while a command runs, where homes are.
    if is_root() && rustix::process::geteuid().is_root() {
        let other = tempfile::Builder::new().prefix("tieline-new").tempdir_in("/home").unwrap();
        let name = other.path().to_owned();
        drop(other);
        let line = format!(
            "echo ready; while ! [ -e {}/go ]; do sleep 0.02; done; cat {}/diary",
            root.display(),
            name.display()
        );
        let said = block_on(async {
            let command = start(&line, &root, &policy).await;
            soon("it runs", Duration::from_secs(10), || command.output(0).to_string().contains("ready"));
            make(&name, &[("diary", "SECRET")]);
            fs::write(root.join("go"), "").unwrap();
            command.outcome().await;
            command.output(0).to_string()
        });
        fs::remove_dir_all(&name).unwrap();
        assert!(!said.contains("SECRET"), "{said}");
    }
}

fn what_is_denied_is_not_read(base: &Path) {
    let root = base.join("root");
    let files =
        [(".env", "SECRET"), ("a/b/.env", "SECRET"), ("keys/one", "SECRET"), ("conf/pw", "SECRET"), ("open", "seen")];
    make(&root, &files);
    let denied = |path: &Path| {
        let it = path.ends_with(".env") || path.ends_with("keys") || path.ends_with("conf/pw");
        it.then_some(Kept::Hidden)
    };
    for level in [Level::ReadOnly, Level::Workspace] {
        let policy = Policy::new(level, [&root]).unwrap().deny(1, Kept::Hidden, denied).guard();
        for line in [
            "cat .env a/b/.env keys/one conf/pw",
            "ln .env x; cat x",
            "ln -s .env y; cat y; cp .env z; cat z; mv .env m; cat m",
            "mv a/b a/c; cat a/c/.env; mv conf other; cat other/pw; mv keys k2; cat k2/one",
            // What the command before could move or link is seen by the next one.
            "cat x m a/c/.env other/pw k2/one",
            "cat /proc/self/root/$PWD/.env; cat ./a/../.env; tar c . | grep -a SECRET; grep -r SECRET .",
        ] {
            let (_, said) = block_on(sh(line, &root, &policy));
            assert!(!said.contains("SECRET"), "{level} {line}: {said}");
        }
        assert_eq!(block_on(sh("cat open", &root, &policy)).1, "seen");
    }
    // Another name of the same file, made before it had a name that is denied.
    make(&root, &[("plain", "SECRET")]);
    let policy = Policy::new(Level::Workspace, [&root]).unwrap().deny(1, Kept::Hidden, denied);
    assert!(block_on(sh("ln plain spare", &root, &policy)).0);
    fs::create_dir(root.join("later")).unwrap();
    fs::rename(root.join("plain"), root.join("later/.env")).unwrap();
    let (_, said) = block_on(sh("cat spare later/.env", &root, &policy));
    assert!(!said.contains("SECRET"), "{said}");
    // The same for what is in a folder that is denied.
    fs::hard_link(root.join("keys/one"), root.join("third")).unwrap();
    let (_, said) = block_on(sh("cat third", &root, &policy));
    assert!(!said.contains("SECRET"), "{said}");
    // Other rules count at once.
    let policy = policy.deny(2, Kept::Hidden, |path: &Path| path.ends_with("open").then_some(Kept::Hidden));
    assert!(!block_on(sh("cat open", &root, &policy)).1.contains("seen"));
    // Where it can't be had, nothing runs.
    let policy = policy.without(tieline_host::sandbox::Mechanism::Namespaces);
    let error = block_on(Request::shell("cat open", &root, &policy).start()).unwrap_err().to_string();
    assert!(error.contains("must not be read, which needs namespaces"), "{error}");
}

/// Links below the root lead out of it, and a rule denies what they lead to by the name that it has there.
fn what_is_denied_is_not_read_through_links(base: &Path) {
    let (home, root) = (base.join("home"), base.join("home/q"));
    make(&home, &[("shared.env", "SECRET"), ("out/.env", "SECRET"), ("out/a/b", "SECRET"), ("out2/.env", "SECRET")]);
    make(&home, &[("out2/open", "seen"), ("q/open", "seen"), ("q/real", "SECRET")]);
    for (at, to) in [
        (".env", "../shared.env"),
        ("sub/.env", "../../out/.env"),
        ("secrets", "../out"),
        ("lnk", "../out2"),
        ("x/.env", "../real"),
    ] {
        fs::create_dir_all(root.join(at).parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(to, root.join(at)).unwrap();
    }
    fs::hard_link(root.join("real"), root.join("again")).unwrap();
    for (rules, more) in [
        ("deny = ['read **/.env', 'read secrets/**']", "cat sub/.env lnk/.env ~/out2/.env x/.env real again"),
        ("deny = ['read .env', 'read secrets']", "true"),
    ] {
        for level in [Level::ReadOnly, Level::Workspace] {
            let engine = Engine::new(Preset::Auto, Config::parse(rules).unwrap());
            let (version, most, says) = engine.keeper(std::slice::from_ref(&root)).unwrap();
            let policy = Policy::new(level, [&root]).unwrap().deny(version, most, says);
            for line in ["cat .env ~/shared.env", "cat secrets/a/b ~/out/a/b secrets/../out/a/b", more] {
                let (_, said) = block_on(sh(line, &root, &policy));
                assert!(!said.contains("SECRET"), "{level} {rules} {line}: {said}");
            }
            let (_, said) = block_on(sh("cat open lnk/open", &root, &policy));
            assert_eq!(said, "seenseen", "{level} {rules}");
        }
    }
    // What can't be hidden is asked for.
    std::os::unix::fs::symlink("/usr", root.join("sub/keys")).unwrap();
    let denied = |path: &Path| path.ends_with("keys").then_some(Kept::Hidden);
    let policy = Policy::new(Level::Workspace, [&root]).unwrap().deny(1, Kept::Hidden, denied);
    let found = policy.guarded();
    assert!(found.gap().is_some_and(|gap| gap.contains("too much")), "{:?}", found.gap());
    assert!(block_on(sh("ls", &root, &policy)).0);
}

/// Names of two parts of which the first is a link, at the top of the root and below.
fn names_in_links_are_guarded(base: &Path) {
    for (name, link, to) in [("top", ".cargo", "cg"), ("below", "sub/.cargo", "../cg")] {
        let root = base.join(name);
        make(&root, &[("sub/x", ""), ("cg/other", "")]);
        let before = guarded(&root).guarded();
        assert!(before.is_whole(), "{:?}", before.gap());
        make(&root, &[("cg/config.toml", "x")]);
        std::os::unix::fs::symlink(to, root.join(link)).unwrap();
        let policy = guarded(&root);
        let found = policy.guarded();
        let new = root.join(link).join("config.toml");
        assert!(found.since(&before).contains(&new.as_path()), "{name}: it is told as new");
        assert!(!found.is_whole(), "{name}: it is asked for");
        // Who says yes has it run, and what can be held is.
        let (did, said) = block_on(sh("echo evil > cg/config.toml", &root, &policy));
        assert!(!did, "{name}: {said}");
        let (did, said) = block_on(sh("echo hello > cg/other && cat cg/config.toml", &root, &policy));
        assert!(did, "{name}: {said}");
    }
}

fn what_is_denied_is_held_inside_what_is_guarded(base: &Path) {
    const FOLDERS: &[&str] = &[
        "plain",
        ".devcontainer",
        ".vscode",
        ".idea",
        ".claude",
        ".direnv",
        ".husky",
        ".github/workflows",
        ".git",
        ".git/sub",
        ".git/objects/ab",
        ".git/refs/heads",
        ".hg/store/data",
        ".config/git",
        ".ssh",
        ".yarn/plugins",
        "gradle/wrapper",
        "sub/.devcontainer/deep",
        ".tieline",
        "node_modules/x/.git",
        "frozen/in",
        "bare.git/hooks",
    ];
    let root = base.join("root");
    for folder in FOLDERS {
        let files = [".env", "pw/one", "keep", "stay"].map(|name| format!("{folder}/{name}"));
        make(&root, &files.each_ref().map(|path| (path.as_str(), "SECRET")));
    }
    make(
        &root,
        &[("bare.git/HEAD", ""), ("bare.git/objects/x", ""), ("bare.git/refs/x", ""), ("plain/other", "SECRET")],
    );
    // Another name of a denied file where git keeps its own.
    fs::hard_link(root.join("plain/.env"), root.join(".git/spare")).unwrap();
    let denied = |path: &Path| match path.file_name()?.to_str()? {
        ".env" | "pw" => Some(Kept::Hidden),
        "keep" | "frozen" => Some(Kept::ReadOnly),
        "stay" => Some(Kept::InPlace),
        _ => None,
    };
    let all = |name: &str| FOLDERS.iter().map(|folder| format!("{folder}/{name}")).collect::<Vec<_>>().join(" ");
    for level in [Level::ReadOnly, Level::Workspace] {
        for guard in [true, false] {
            let policy = Policy::new(level, [&root]).unwrap().deny(1, Kept::Hidden, denied);
            let policy = if guard { policy.guard() } else { policy };
            for line in [
                format!("cat {} {} .git/spare", all(".env"), all("pw/one")),
                "mv .vscode x; cat x/.env; mv x .vscode; mv .github/workflows y; cat y/.env".to_owned(),
                "for i in .vscode .git sub/.devcontainer; do ln $i/.env $i/l; cat $i/l; tar c $i/pw $i/.env | tr -d '\\0'; done"
                    .to_owned(),
            ] {
                let (_, said) = block_on(sh(&line, &root, &policy));
                assert!(!said.contains("SECRET"), "{level} {guard} {line}: {said}");
            }
            // Also where what runs later may be changed, what a rule keeps is kept.
            block_on(sh(
                &format!("rm -f {} {}; for i in {}; do echo new > $i; done", all("keep"), all("stay"), all("keep")),
                &root,
                &policy,
            ));
            for path in all("keep").split_whitespace().chain(all("stay").split_whitespace()) {
                assert_eq!(fs::read_to_string(root.join(path)).unwrap_or_default(), "SECRET", "{level} {guard} {path}");
            }
        }
    }
}

fn what_must_not_change_is_not_changed(base: &Path) {
    let root = base.join("root");
    make(
        &root,
        &[
            ("keep", "old"),
            ("a/b/keep", "old"),
            ("fixed/x", "old"),
            ("d/stay", "old"),
            ("d/go", "old"),
            ("open", "old"),
        ],
    );
    let denied = |path: &Path| match path.file_name()?.to_str()? {
        "keep" | "fixed" => Some(Kept::ReadOnly),
        "stay" => Some(Kept::InPlace),
        _ => None,
    };
    let policy = Policy::new(Level::Workspace, [&root]).unwrap().deny(1, Kept::Hidden, denied);
    for line in [
        "echo new > keep; echo new >> a/b/keep; echo new > fixed/x; echo new > fixed/y",
        "rm -f keep a/b/keep d/stay; rm -rf fixed d",
        "mv keep k; mv fixed f; mv a c; mv a/b a/c; mv d/stay d/s; mv d e; cp open keep; mv open keep; ln -f open keep",
        "ln keep spare; echo new > spare; chmod 777 keep; truncate -s0 keep; sed -i s/old/new/ keep a/b/keep",
        "cp -r a new; rm -r a; mv new a",
    ] {
        block_on(sh(line, &root, &policy));
        for path in ["keep", "a/b/keep", "fixed/x", "d/stay"] {
            assert_eq!(fs::read_to_string(root.join(path)).unwrap_or_default(), "old", "{path} after {line}");
        }
        assert!(!root.join("fixed/y").exists());
    }
    // What only has to stay can be changed, and all else is free.
    assert!(block_on(sh("printf new > d/stay; printf new > made; rm -f d/go", &root, &policy)).0);
    assert_eq!(fs::read_to_string(root.join("d/stay")).unwrap(), "new");
    assert!(root.join("made").exists() && !root.join("d/go").exists());
    // Another name of the same file.
    fs::hard_link(root.join("keep"), root.join("twin")).unwrap();
    block_on(sh("echo new > twin", &root, &policy));
    assert_eq!(fs::read_to_string(root.join("keep")).unwrap(), "old");
    // The whole folder.
    let policy = policy.deny(2, Kept::ReadOnly, |_: &Path| Some(Kept::ReadOnly));
    block_on(sh("echo new > more; echo new > open", &root, &policy));
    assert!(!root.join("more").exists());
    // Where it can't be had, nothing runs.
    let policy = policy.deny(3, Kept::Hidden, denied).without(tieline_host::sandbox::Mechanism::Namespaces);
    let error = block_on(Request::shell("true", &root, &policy).start()).unwrap_err().to_string();
    assert!(error.contains("must not be changed, which needs namespaces"), "{error}");
}

fn no_file_is_left_that_lends_rights(base: &Path) {
    let root = base.join("root");
    fs::create_dir_all(&root).unwrap();
    let policy = Policy::new(Level::Workspace, [&root]).unwrap();
    for deed in [
        "setuid-chmod",
        "setuid-fchmod",
        "setuid-open",
        "setuid-tmpfile",
        "setuid-openat2",
        "setuid-mknod",
        "setuid-creat",
        "setcap",
    ] {
        let _ = fs::remove_file(root.join("file"));
        fs::write(root.join("file"), "").unwrap();
        fs::set_permissions(root.join("file"), fs::Permissions::from_mode(0o644)).unwrap();
        let (did, said) =
            block_on(sh(&format!("{} try {deed} {}/file", me().display(), root.display()), &root, &policy));
        for entry in fs::read_dir(&root).unwrap() {
            let entry = entry.unwrap();
            let mode = entry.metadata().unwrap().mode();
            assert_eq!(mode & 0o6000, 0, "{deed} {did}: {} {mode:o} {said}", entry.path().display());
        }
        assert!(!did, "{deed}: {said}");
    }
    for line in [
        "chmod u+s file",
        "chmod g+s file",
        "chmod 4755 file",
        "cp -p /usr/bin/su x; stat -c %a x | grep -q '^[4-7]...$'",
        "install -m 4755 file y; test -u y",
    ] {
        let (did, said) = block_on(sh(line, &root, &policy));
        assert!(!did, "{line}: {said}");
    }
    // What has nothing to do with it still works.
    let (did, said) =
        block_on(sh("chmod 1777 . && chmod 755 file && mkdir -m 755 d && cp -p file z && touch t", &root, &policy));
    assert!(did, "{said}");
}

fn no_call_is_made_that_is_none_of_its_business(base: &Path) {
    let root = base.join("root");
    fs::create_dir_all(&root).unwrap();
    let policy = Policy::new(Level::Workspace, [&root]).unwrap();
    let (clone, unshare, kexec) = if cfg!(target_arch = "x86_64") { (56, 272, 320) } else { (220, 97, 294) };
    // The number, the first argument, and what the kernel has to say. Some of these it may not know itself.
    let mut calls = vec![
        (clone, NEW_USER | 0x11, "EPERM"),
        (unshare, NEW_USER, "EPERM"),
        (unshare, NEW_USER | 0x2_0000, "EPERM"),
        (428, 0, "EPERM"),
        (442, 0, "EPERM"),
        (443, 0, "EPERM"),
        (kexec, 0, "EPERM"),
        (435, 0, "ENOSYS"),
        (437, 0, "ENOSYS"),
    ];
    // `setxattrat`, `open_tree_attr`, `file_setattr`, and what nobody has thought of yet.
    calls.extend([463, 464, 465, 466, 467, 468, 469, 470, 480, 500].map(|number| (number, 0, "ENOSYS")));
    for bit in if cfg!(target_arch = "x86_64") { &[0, 0x4000_0000][..] } else { &[0] } {
        for (number, first, expect) in &calls {
            let call = number | bit;
            let line = format!(
                "perl -MErrno -e 'exit 9 if syscall({call}, {first}, 0, 0, 0, 0) >= 0; print(join \" \", grep {{ $!{{$_}} }} keys %!)'"
            );
            let (did, said) = block_on(sh(&line, &root, &policy));
            assert!(did && said.split_whitespace().any(|name| name == *expect), "{number} {bit:x} {first:x}: {said}");
        }
    }
    let (did, said) = block_on(sh("unshare -U true || unshare -r true", &root, &policy));
    assert!(!did, "{said}");
    // What has nothing to do with it still works: processes, threads, descriptors of its own.
    let (did, said) =
        block_on(sh("perl -e 'exit(fork() ? (wait, $? >> 8)[1] : 0)' && (true & wait) && ls | cat", &root, &policy));
    assert!(did, "{said}");
}

/// The first process of a sandbox watches over memory and processes; nobody below it may keep it from that.
fn the_watcher_is_left_alone(base: &Path) {
    let root = base.join("root");
    fs::create_dir_all(&root).unwrap();
    let policy = Policy::new(Level::Workspace, [&root]).unwrap();
    for line in [
        "prlimit --pid 1 --nofile=0:0",
        "prlimit --pid 1 --as=1:1",
        "renice -n 19 -p 1",
        "renice -n 19 -u $(id -u)",
        "ionice -c 3 -p 1",
        "taskset -p 1 1",
        "chrt -i -p 0 1",
    ] {
        let (did, said) = block_on(sh(line, &root, &policy));
        assert!(!did && !said.contains("not found"), "{line}: {said}");
    }
    let own =
        "prlimit --nofile=99 true && prlimit --pid $$ --nofile=99 && renice -n 3 -p $$ && taskset -p 1 $$ && nice true";
    let (did, said) = block_on(sh(own, &root, &policy));
    assert!(did, "{said}");
}

/// Without namespaces the other processes of the machine, and what they share, can be named, and not be touched.
fn other_processes_are_left_alone_without_namespaces(base: &Path) {
    let root = base.join("root");
    fs::create_dir_all(&root).unwrap();
    let policy = Policy::new(Level::Workspace, [&root]).unwrap().without(Mechanism::Namespaces);
    if policy.check().is_err() || !cfg!(target_arch = "x86_64") {
        return;
    }
    let us = u64::from(std::process::id());
    let calls: &[(&str, u64, [u64; 3])] = &[
        ("setpriority", 141, [0, us, 19]),
        ("setpriority of a group", 141, [1, us, 19]),
        ("setpriority of a user", 141, [2, 0, 19]),
        ("ioprio_set", 251, [1, us, 3 << 13]),
        ("ioprio_set of a user", 251, [3, 0, 3 << 13]),
        ("sched_setaffinity", 203, [us, 0, 0]),
        ("sched_setscheduler", 144, [us, 3, 0]),
        ("sched_setparam", 142, [us, 0, 0]),
        ("sched_setattr", 314, [us, 0, 0]),
        ("migrate_pages", 256, [us, 0, 0]),
        ("prlimit", 302, [us, 7, 0]),
        ("shmget", 29, [4711, 4096, 0o1666]),
        ("shmat", 30, [0, 0, 0]),
        ("msgget", 68, [4711, 0o1666, 0]),
        ("semget", 64, [4711, 1, 0o1666]),
        ("mq_open", 240, [0, 0, 0]),
    ];
    for bit in [0, 0x4000_0000] {
        for (name, number, [a, b, c]) in calls {
            let call = number | bit;
            let line = format!(
                "perl -MErrno -e 'exit 9 if syscall({call}, {a}, {b}, {c}, 0, 0) >= 0; print(join \" \", grep {{ $!{{$_}} }} keys %!)'"
            );
            let (did, said) = block_on(sh(&line, &root, &policy));
            assert!(did && said.split_whitespace().any(|name| name == "EPERM"), "{name} {bit:x}: {said}");
        }
    }
    let (did, said) = block_on(sh("nice -n 3 true && taskset 1 true && perl -e 'fork; wait'", &root, &policy));
    assert!(did, "{said}");
}

/// How long a command takes that does nothing, in a folder: for people who compare. The lowest of each row counts.
pub fn measure(root: &Path) {
    block_on(async {
        for (name, policy) in
            [("workspace", Policy::new(Level::Workspace, [root]).unwrap()), ("workspace, guarded", guarded(root))]
        {
            let mut times = Vec::new();
            for _ in 0..50 {
                let begin = std::time::Instant::now();
                let command = Request::words(["/bin/true"], root, &policy).start().await.unwrap();
                command.outcome().await;
                times.push(begin.elapsed().as_micros());
            }
            times.sort_unstable();
            println!("{name}: lowest {} µs, median {} µs", times[0], times[25]);
        }
    });
}
