//! What is asked of files whatever a rule or preset says: what git would run, secrets, other names of denied ones.

use std::fs;
use std::path::{Path, PathBuf};
use tieline_host::rules::{
    Action, Because, Config,
    Decision::{self, Allow, Ask, Deny},
    Engine, Keep, Location, Preset, Subject,
};

/// Makes files, with what is in them.
fn make(top: &Path, files: &[(&str, &str)]) {
    for (path, text) in files {
        let path = top.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

fn below(root: &Path, path: &str) -> Location {
    Location::inside(root.join(path), path.into(), true)
}

#[test]
fn what_git_would_run_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let engine = Engine::new(Preset::AllowEdits, Config::default());
    let check = |path: &str, expect: Decision| {
        let (place, other) = (below(&root, path), below(&root, "other"));
        for action in [
            Action::Write(place.clone()),
            Action::Delete(place.clone()),
            Action::Move { from: place.clone(), to: other.clone() },
            Action::Move { from: other, to: place },
        ] {
            assert_eq!(engine.decide(&action).decision, expect, "{action:?}");
        }
    };
    // A repository that is not called so, made file by file in any order.
    for (path, expect) in [("x/HEAD", Ask), ("x/head", Ask), ("x/config", Allow), ("x/hooks/pre-commit", Allow)] {
        check(path, expect);
    }
    make(&root, &[("x/HEAD", "ref: refs/heads/main")]);
    for path in [
        "config",
        "CONFIG",
        "hooks/pre-commit",
        "commondir",
        "refs/a",
        "objects/a",
        "config.worktree",
        "worktrees/w/gitdir",
    ] {
        check(&format!("x/{path}"), Ask);
    }
    for path in ["x/readme", "x/src/config", "y/config", "y/refs/a", "HEAD.md", "Head/index.js"] {
        check(path, Allow);
    }
    // Git takes a link that leads nowhere for a `HEAD` as well.
    fs::create_dir(root.join("z")).unwrap();
    std::os::unix::fs::symlink("refs/heads/main", root.join("z/HEAD")).unwrap();
    check("z/config", Ask);
    // What settings name, in a repository around it.
    let settings = "[core]\n fsmonitor = tools/watch\n sshCommand = ssh -F tools/ssh\n pager = \"less | tools/page\"\n hooksPath = h\n\
        [filter \"a\"]\n clean = sh tools/clean %f\n[diff]\n external = ./tools/diff\n[gpg]\n program = tools/../tools/gpg\n\
        [alias]\n a = \"!sh -c '\\\"$(git rev-parse --show-toplevel)/tools/top\\\"'\"\n b = log src/plain\n\
        [credential]\n helper = !tools/none-yet get\n[new \"thing\"]\n unheard = python3 tools/odd.py\n[include]\n path = ../more\n\
        [blame]\n ignoreRevsFile = revs\n[user]\n name = plain\n[remote \"o\"]\n url = ../none/such\n fetch = +refs/heads/*:refs/remotes/o/*\n";
    make(&root, &[("w/.git/config", settings), ("w/more", "[core]\neditor = tools/edit -x\n")]);
    let named = ["watch", "ssh", "page", "clean", "diff", "gpg", "top", "odd.py", "edit"];
    for name in named {
        make(&root, &[(&format!("w/tools/{name}"), "")]);
    }
    make(&root, &[("w/src/plain", ""), ("w/plain", ""), ("w/revs", ""), ("w/real/run", ""), ("w/h/x", "")]);
    std::os::unix::fs::symlink("../real/run", root.join("w/h/pre-push")).unwrap();
    for name in named {
        check(&format!("w/tools/{name}"), Ask);
    }
    for (path, expect) in [
        ("w/more", Ask),
        ("w/h/pre-commit", Ask),
        ("w/real/run", Ask),
        ("w/tools/none-yet", Ask),
        ("w/tools/other", Allow),
        ("w/src/plain", Allow),
        ("w/plain", Allow),
        ("w/revs", Allow),
        ("w/none/such", Allow),
        ("w/refs/heads/main", Allow),
    ] {
        check(path, expect);
    }
    // Who said `always` is not asked again, and who allows everything is not asked at all.
    let action = Action::Write(below(&root, "w/tools/watch"));
    let why = engine.decide(&action).because;
    assert!(
        matches!(&why, Because::Rules(rules) if rules[0].origin().is_some_and(|why| why.contains("git"))),
        "{why:?}"
    );
    engine.learn(Keep::Run, Allow, &Engine::narrowest(Subject::of(std::slice::from_ref(&action)))).unwrap();
    assert_eq!(engine.decide(&action).decision, Allow);
    assert_eq!(
        Engine::new(Preset::AllowAll, Config::default()).decide(&Action::Write(below(&root, "x/config"))).decision,
        Allow
    );
}

#[test]
fn secrets_are_asked_for_whatever_the_root_is() {
    let home = std::env::home_dir().unwrap();
    let engine = Engine::new(Preset::Auto, Config::default());
    let check = |path: PathBuf, expect: Decision| {
        for root in path.ancestors().skip(1) {
            let below = path.strip_prefix(root).unwrap().to_owned();
            let action = Action::Read(Location::inside(path.clone(), below, true));
            assert_eq!(engine.decide(&action).decision, expect, "{action:?}");
        }
    };
    for name in
        [".ssh", ".ssh/id_rsa", ".SSH/id_rsa", ".netrc", ".aws/credentials", ".config/gh/hosts.yml", ".codex/auth.json"]
    {
        for home in [&home, Path::new("/home/somebody"), Path::new("/root")] {
            check(home.join(name), Ask);
        }
    }
    check(home.join(".local/state/tieline/keys.toml"), Ask);
    check("/etc/shadow".into(), Ask);
    for name in ["notes", ".bashrc", "project/.ssh/config", "project/.netrc", ".aws-notes", ".codex/config.toml"] {
        check(home.join(name), Allow);
    }
    // To move one is to read it.
    let moved = Action::Move { from: below(&home, ".netrc"), to: below(&home, "x") };
    assert_eq!(engine.decide(&moved).decision, Ask);
}

/// What is denied by the name of a link is not free when a command has removed the link, or made it lead elsewhere.
#[test]
fn what_a_link_led_to_stays_denied() {
    for (rule, link, to, file) in [
        ("read **/.env", ".env", "config/dev", "config/dev"),
        ("read deep/.env", "deep/.env", "../config/dev", "config/dev"),
        ("read alias/**", "alias", "config", "config/dev"),
        ("write keep", "keep", "config/dev", "config/dev"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        make(&root, &[("config/dev", "SECRET"), ("other/dev", "open"), ("deep/x", "")]);
        let deny = vec![rule.parse().unwrap()];
        let engine = Engine::new(Preset::Auto, Config { deny, ..Config::default() });
        std::os::unix::fs::symlink(to, root.join(link)).unwrap();
        // A new rule has all links looked for again.
        let again = |text: &str| engine.learn(Keep::Run, Allow, &[text.parse().unwrap()]).unwrap();
        let kept =
            |path: &str| engine.keeper(std::slice::from_ref(&root)).and_then(|(.., says)| says(&root.join(path)));
        let before = kept(file);
        assert!(before.is_some(), "{rule}");
        fs::remove_file(root.join(link)).unwrap();
        again("run a");
        assert_eq!(kept(file), before, "{rule}");
        std::os::unix::fs::symlink("other/dev", root.join("elsewhere")).unwrap();
        fs::rename(root.join("elsewhere"), root.join(link)).unwrap();
        again("run b");
        assert_eq!((kept(file), kept("other/free")), (before, None), "{rule}");
    }
}

#[test]
fn another_name_of_a_file_is_denied_as_well() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    make(&root, &[("a/.env", "SECRET"), ("keys/deep/one", "SECRET"), ("free", ""), ("plain", "")]);
    for (from, to) in [("a/.env", "spare"), ("keys/deep/one", "src/two"), ("free", "free-two")] {
        fs::create_dir_all(root.join(to).parent().unwrap()).unwrap();
        fs::hard_link(root.join(from), root.join(to)).unwrap();
    }
    for preset in [Preset::Auto, Preset::AllowAll] {
        let deny = ["read **/.env", "read keys/**"].map(|rule| rule.parse().unwrap()).into();
        let engine = Engine::new(preset, Config { deny, ..Config::default() });
        for (path, expect) in [
            ("spare", Deny),
            ("src/two", Deny),
            ("a/.env", Deny),
            ("free", Allow),
            ("free-two", Allow),
            ("plain", Allow),
        ] {
            let read = engine.decide(&Action::Read(below(&root, path))).decision;
            assert_eq!(read, expect, "{preset} {path}");
        }
        let moved = Action::Move { from: below(&root, "spare"), to: below(&root, "x") };
        assert_eq!(engine.decide(&moved).decision, Deny);
    }
}
