//! What is told, what is refused, and folders in odd places.

use crate::harness::block_on;
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
];

fn what_is_there_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let available = probe();
    println!("{available:?}: {}", available.how());
    if available.levels() != Level::ALL {
        println!("SKIPPED: {}", available.how());
        return;
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
