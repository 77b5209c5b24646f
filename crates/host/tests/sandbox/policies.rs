//! What is told, what is refused, and folders in odd places.

#[path = "../../../../scripts/skipped.rs"]
mod skipped;

use crate::harness::block_on;
use skipped::skipped;
use std::fs;
use std::path::Path;
use tieline_host::run::Request;
use tieline_host::sandbox::{Level, Mechanism, Network, Policy, probe};

pub const ALL: &[(&str, fn())] = &[
    ("what_is_there_is_told", what_is_there_is_told),
    ("what_cannot_be_had_is_refused", what_cannot_be_had_is_refused),
    ("another_folder_in_its_place_is_not_the_root", another_folder_in_its_place_is_not_the_root),
    ("the_temporary_folder_is_private_and_shared_by_a_policy", the_temporary_folder_is_private_and_shared_by_a_policy),
    ("roots_in_odd_places_work", roots_in_odd_places_work),
    ("what_runs_later_is_read_only", what_runs_later_is_read_only),
    ("guarding_shows_nothing_that_is_hidden", guarding_shows_nothing_that_is_hidden),
    ("what_is_not_guarded_is_said", what_is_not_guarded_is_said),
    ("names_that_come_and_go_do_no_harm", names_that_come_and_go_do_no_harm),
];

fn what_is_there_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let available = probe();
    println!("{available:?}: {}", available.how());
    if available.levels() != Level::ALL {
        return skipped("SANDBOX", &format!("not every level of the sandbox is here: {}", available.how()));
    }
    let root = folder.path().canonicalize().unwrap();
    let check = |policy: Policy, expect: String| assert_eq!(policy.describe().unwrap(), expect);
    let how = available.how();
    let workspace = Policy::new(Level::Workspace, [&root]).unwrap();
    check(
        workspace.clone(),
        format!(
            "sandbox workspace: writes only below {} and to a private temporary folder; network off ({how})",
            root.display()
        ),
    );
    check(
        Policy::new(Level::ReadOnly, [&root]).unwrap().network(Network::On),
        format!("sandbox read-only: writes only to a private temporary folder; network on ({how})"),
    );
    check(
        Policy::new(Level::Off, [&root]).unwrap().network(Network::Off),
        "sandbox off: the command can do everything that you can do".into(),
    );
    assert!(Policy::new(Level::Workspace, ["/"]).is_err());
    assert!(Policy::new(Level::Workspace, ["/no/such/folder"]).unwrap_err().to_string().contains("/no/such/folder"));
}

fn what_cannot_be_had_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    fs::create_dir(root.join(".git")).unwrap();
    let policy = || Policy::new(Level::Workspace, [&root]).unwrap().without(Mechanism::Namespaces);
    let check = |policy: Policy, expect: &str| {
        let refused = policy.check().unwrap_err().to_string();
        assert!(refused.starts_with("sandbox level `workspace` can't be had here: "), "{refused}");
        assert!(refused.contains(expect), "{refused}");
        assert!(policy.describe().is_err());
        // It is refused, not weakened.
        let touch = root.join("touched");
        let started = block_on(Request::words(["touch".as_ref(), touch.as_os_str()], &root, &policy).start());
        assert!(started.unwrap_err().to_string().contains(expect));
        assert!(!touch.exists());
    };
    check(
        policy().without(Mechanism::Landlock),
        "Landlock: switched off. It needs namespaces, or Landlock and seccomp together",
    );
    check(policy().without(Mechanism::Seccomp), "seccomp: switched off");
    check(policy().protect(root.join(".git")), ".git` is to be protected, which needs namespaces");
    check(policy().hide(root.join(".git")), ".git` is to be hidden inside a writable folder");
}

async fn sh(line: &str, folder: &Path, policy: &Policy) -> (bool, String) {
    let command = Request::shell(line, folder, policy).start().await.unwrap();
    let outcome = command.outcome().await;
    (outcome.is_success(), command.output(0).to_string())
}

fn another_folder_in_its_place_is_not_the_root() {
    block_on(async {
        for without in [&[][..], &[Mechanism::Namespaces]] {
            let folder = tempfile::tempdir().unwrap();
            let (root, other) = (folder.path().join("root"), folder.path().join("other"));
            fs::create_dir(&root).unwrap();
            fs::create_dir(&other).unwrap();
            let policy = Policy::new(Level::Workspace, [&root]).unwrap();
            let policy = without.iter().fold(policy, |policy, mechanism| policy.without(*mechanism));
            assert!(sh("touch a", &root, &policy).await.0);
            fs::rename(&root, folder.path().join("moved")).unwrap();
            std::os::unix::fs::symlink(&other, &root).unwrap();
            let error = Request::shell("touch b", &root, &policy).start().await.unwrap_err().to_string();
            assert!(error.contains("its sandbox: "), "{error}");
            fs::remove_file(&root).unwrap();
            fs::rename(&other, &root).unwrap();
            let error = Request::shell("touch b", &root, &policy).start().await.unwrap_err().to_string();
            assert!(error.contains("is not the folder any more that it was"), "{error}");
        }
    });
}

fn the_temporary_folder_is_private_and_shared_by_a_policy() {
    block_on(async {
        for without in [&[][..], &[Mechanism::Namespaces]] {
            for level in [Level::ReadOnly, Level::Workspace] {
                let folder = tempfile::tempdir().unwrap();
                let new = || {
                    let policy = Policy::new(level, [folder.path()]).unwrap();
                    without.iter().fold(policy, |policy, mechanism| policy.without(*mechanism))
                };
                let (one, two) = (new(), new());
                assert!(sh("echo hello > $TMPDIR/note", folder.path(), &one).await.0);
                assert_eq!(sh("cat $TMPDIR/note", folder.path(), &one).await, (true, "hello\n".into()));
                assert!(!sh("cat $TMPDIR/note", folder.path(), &two).await.0);
                assert!(!Path::new("/tmp/note").exists());
            }
        }
    });
}

fn roots_in_odd_places_work() {
    block_on(async {
        let odd = |place: &str| tempfile::Builder::new().prefix("a b\tc").tempdir_in(place).unwrap();
        // Below what is private, below what is hidden, with something hidden or protected in it.
        for place in ["/tmp", "/dev/shm"] {
            let folder = odd(place);
            let root = folder.path().join("in/ner");
            fs::create_dir_all(root.join(".git")).unwrap();
            fs::write(root.join(".git/config"), "x").unwrap();
            fs::write(root.join("secret"), "x").unwrap();
            fs::write(folder.path().join("around"), "x").unwrap();
            let policy = Policy::new(Level::Workspace, [&root]).unwrap();
            let policy = policy.hide(folder.path()).hide(root.join("secret")).protect(root.join(".git"));
            let check = async |line: &str, expect: bool| {
                let (did, said) = sh(line, &root, &policy).await;
                assert_eq!(did, expect, "{place}: {line}: {said}");
            };
            check("echo x > file && cat file && mkdir d && touch d/x && rm -r d", true).await;
            check("cat .git/config", true).await;
            check("echo x > .git/config", false).await;
            check("touch .git/new", false).await;
            check("mv .git away", false).await;
            check("grep x secret", false).await;
            check("cat ../../around", false).await;
            // What is around it is private, so this may work, but nobody sees it.
            sh("touch ../new ../../new", &root, &policy).await;
            assert!(!folder.path().join("in/new").exists() && !folder.path().join("new").exists());
            assert!(root.join("file").exists());
            let shown = policy.clone().show(root.join("secret"));
            assert!(sh("cat secret", &root, &shown).await.0);
        }
        // A root that is the temporary folder itself.
        for level in [Level::ReadOnly, Level::Workspace] {
            let policy = Policy::new(level, ["/tmp"]).unwrap();
            let file = odd("/tmp");
            let name = file.path().join("x");
            let (did, said) = sh(&format!("touch '{}'", name.display()), Path::new("/tmp"), &policy).await;
            assert_eq!(did, level == Level::Workspace, "{said}");
            assert!(sh("touch $TMPDIR/x", Path::new("/tmp"), &policy).await.0);
        }
    });
}

fn what_runs_later_is_read_only() {
    block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for path in [".git/hooks/x", ".git/config", ".envrc", "deep/er/.git/config", ".github/workflows/ci.yml", "real"]
        {
            fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            fs::write(root.join(path), "before").unwrap();
        }
        std::os::unix::fs::symlink("real", root.join(".profile")).unwrap();
        let policy = Policy::new(Level::Workspace, [&root]).unwrap().guard();
        if !policy.guards() {
            println!("SKIPPED: {}", policy.describe().unwrap());
            return;
        }
        assert!(policy.describe().unwrap().contains("; .git, .envrc and the like are read-only; network"));
        let before = policy.guarded();
        for line in [
            "echo x > .git/config",
            "echo x > .git/hooks/pre-commit",
            "echo x > .git/hooks/x",
            "mkdir .git/hooks/y",
            "echo x > .git/commondir",
            "mv .git away",
            "rm -rf .git || rm .git/config",
            "chmod 777 .git/hooks/x",
            "echo x >> .envrc",
            "rm .envrc",
            "mv .envrc x",
            "ln -f real .envrc",
            "echo x > new; mv -f new .envrc",
            "echo x > deep/er/.git/config",
            "echo x > .github/workflows/more.yml",
            "echo x > .profile",
            "mount -o remount,rw .git",
            "umount .envrc",
        ] {
            let (did, said) = sh(line, &root, &policy).await;
            assert!(!did, "{line}: {said}");
        }
        for path in [".git/hooks/x", ".git/config", ".envrc", "deep/er/.git/config", ".github/workflows/ci.yml", "real"]
        {
            assert_eq!(fs::read_to_string(root.join(path)).unwrap(), "before", "{path}");
        }
        let made =
            |policy: &Policy| policy.guarded().since(&before).iter().map(|path| path.to_path_buf()).collect::<Vec<_>>();
        assert_eq!(made(&policy), Vec::<std::path::PathBuf>::new());
        // Reading goes on, and so does work beside them.
        let (did, said) =
            sh("cat .git/config .envrc && echo x > src && mv src deep/ && rm deep/src", &root, &policy).await;
        assert!(did, "{said}");
        // A name that was not there yet can't be guarded; it is found afterwards.
        for line in ["echo x > sub.envrc && mkdir sub && mv sub.envrc sub/.envrc", "ln -sfn src .profile"] {
            assert!(sh(line, &root, &policy).await.0, "{line}");
        }
        assert_eq!(made(&policy), [root.join(".profile"), root.join("sub/.envrc")]);
        // Without the guard it is as before.
        let open = Policy::new(Level::Workspace, [&root]).unwrap();
        assert!(!open.guards() && sh("echo x > .envrc", &root, &open).await.0);
    });
}

fn guarding_shows_nothing_that_is_hidden() {
    block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        fs::create_dir_all(root.join(".ssh")).unwrap();
        fs::write(root.join(".ssh/key"), "secret").unwrap();
        fs::write(folder.path().join("outside"), "secret").unwrap();
        std::os::unix::fs::symlink(folder.path().join("outside"), root.join(".envrc")).unwrap();
        let policy = Policy::new(Level::Workspace, [&root]).unwrap().guard().hide(root.join(".ssh"));
        let policy = policy.hide(folder.path().join("outside"));
        if !policy.guards() {
            println!("SKIPPED: {}", policy.describe().unwrap());
            return;
        }
        for line in ["grep secret .ssh/key", "grep secret .envrc"] {
            let (did, said) = sh(line, &root, &policy).await;
            assert!(!did, "{line}: {said}");
        }
        assert_eq!(fs::read_to_string(folder.path().join("outside")).unwrap(), "secret");
    });
}

fn what_is_not_guarded_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let policy = |level| Policy::new(level, [folder.path()]).unwrap().guard();
    let weak = policy(Level::Workspace).without(Mechanism::Namespaces);
    match weak.describe() {
        Ok(told) => assert!(told.contains(".git, .envrc and the like are NOT protected"), "{told}"),
        Err(refused) => println!("SKIPPED: {refused}"),
    }
    assert!(!weak.guards());
    assert!(policy(Level::ReadOnly).guards() && !policy(Level::Off).guards());
    // Too much to look at is told, and what is near is found first.
    fs::write(folder.path().join(".envrc"), "").unwrap();
    let whole = policy(Level::Workspace).guarded();
    assert!(whole.is_whole());
    for number in 0..2049 {
        fs::create_dir(folder.path().join(number.to_string())).unwrap();
        fs::write(folder.path().join(format!("{number}/.envrc")), "").unwrap();
    }
    fs::remove_file(folder.path().join(".envrc")).unwrap();
    fs::create_dir(folder.path().join(".envrc")).unwrap();
    let part = policy(Level::Workspace).guarded();
    assert!(!part.is_whole());
    assert!(part.since(&whole).contains(&&*folder.path().canonicalize().unwrap().join(".envrc")));
}

/// Other programs work in the same folder while a command is started.
fn names_that_come_and_go_do_no_harm() {
    use std::sync::atomic::{AtomicBool, Ordering};
    struct Stop<'a>(&'a AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let top = folder.path().canonicalize().unwrap();
    let root = top.join("root");
    fs::create_dir(&root).unwrap();
    fs::write(top.join("outside"), "secret").unwrap();
    let policy = Policy::new(Level::Workspace, [&root]).unwrap().guard().hide(top.join("outside"));
    if !policy.guards() {
        println!("SKIPPED: {}", policy.describe().unwrap());
        return;
    }
    let stop = AtomicBool::new(false);
    let name = root.join(".envrc");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                fs::write(&name, "mine").unwrap();
                std::thread::yield_now();
                fs::remove_file(&name).unwrap();
                std::os::unix::fs::symlink(top.join("outside"), &name).unwrap();
                std::thread::yield_now();
                fs::remove_file(&name).unwrap();
            }
        });
        let _stop = Stop(&stop);
        let mut started = 0;
        for _ in 0..40 {
            let request = Request::shell("cat .envrc 2> /dev/null; true", &root, &policy);
            let ran = block_on(async {
                let running = request.start().await?;
                running.outcome().await;
                Ok::<_, std::io::Error>(running.output(0).to_string())
            });
            match ran {
                Ok(said) => {
                    assert!(!said.contains("secret"), "{said}");
                    started += 1;
                }
                // Refused, rather than shown what the link leads to.
                Err(error) => {
                    let why = error.to_string();
                    assert!(why.contains("symbolic link") || why.contains("changes all the time"), "{why}");
                }
            }
        }
        assert!(started > 0);
    });
    assert!(fs::symlink_metadata(&name).is_err(), "nothing was made in its place");
}
