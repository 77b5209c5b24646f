//! What rules match and what they don't.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use tieline_host::rules::{
    Action, Because, CommandLine, Config,
    Decision::{self, Allow, Ask, Deny},
    Engine, Host, Keep, Learned, Limits, Location, Preset, Rule, Rules, Settings, Subject, Topic, Verdict,
};

fn inside(path: &str) -> Location {
    Location::inside(PathBuf::from("/home/me/project").join(path), path.into(), true)
}

fn run(line: &str) -> Action {
    Action::Execute { command: CommandLine::parse(line), sandboxed: true }
}

fn rules(allow: &[&str], ask: &[&str], deny: &[&str]) -> Rules {
    let list = |list: &[&str]| list.iter().map(|rule| rule.parse().unwrap()).collect();
    Rules::new(Config { allow: list(allow), ask: list(ask), deny: list(deny) })
}

fn decide(rules: &Rules, action: &Action) -> Decision {
    rules.decide_or(action, Ask).decision
}

/// What the engine says with these rules and a preset.
fn decide_in(rules: &Rules, preset: Preset, action: &Action) -> Verdict {
    Engine::new(preset, rules.config().clone()).decide(action)
}

/// Whether one rule, alone, allows.
fn allows(rule: &str, action: &Action) -> bool {
    decide(&rules(&[rule], &[], &[]), action) == Allow
}

/// Whether one rule, alone, forbids.
fn denies(rule: &str, action: &Action) -> bool {
    decide(&rules(&[], &[], &[rule]), action) == Deny
}

#[test]
fn lines_are_taken_apart() {
    for (line, expect) in [
        ("git status", &[&["git", "status"][..]][..]),
        ("  git   status  ", &[&["git", "status"]]),
        ("a && b || c; d | e\nf", &[&["a"], &["b"], &["c"], &["d"], &["e"], &["f"]]),
        ("a &&\n b", &[&["a"], &["b"]]),
        ("a;\n\nb;", &[&["a"], &["b"]]),
        ("echo 'a b' \"c d\" e\\ f", &[&["echo", "a b", "c d", "e f"]]),
        ("echo 'it'\\''s' \"\\$x \\n\"", &[&["echo", "it's", "$x \\n"]]),
        ("echo '' \"\"", &[&["echo", "", ""]]),
        ("g'i't st\\\natus", &[&["git", "status"]]),
        ("echo '&& ; | $(x) `y` > z'", &[&["echo", "&& ; | $(x) `y` > z"]]),
        ("cargo test 2>&1", &[&["cargo", "test"]]),
        ("cargo test >/dev/null 2>&1", &[&["cargo", "test"]]),
        ("cargo test 2> /dev/null | tail -5", &[&["cargo", "test"], &["tail", "-5"]]),
        ("x </dev/null", &[&["x"]]),
        ("ls src/*.rs ~/x", &[&["ls", "src/*.rs", "~/x"]]),
        ("echo a#b x=y", &[&["echo", "a#b", "x=y"]]),
    ] {
        let line = CommandLine::parse(line);
        assert_eq!(line.complex(), None, "{line:?}");
        assert_eq!(line.commands().collect::<Vec<_>>(), expect, "{line:?}");
    }
}

const COMPLEX: &[&str] = &[
    "",
    " \n ",
    "echo $(id)",
    "echo `id`",
    "echo \"$(id)\"",
    "echo \"`id`\"",
    "echo $HOME",
    "echo ${HOME}",
    "$CMD x",
    "\"$CMD\" x",
    "echo $'\\x41'",
    "echo $((1+1))",
    "a > file",
    "a >> file",
    "a >file",
    "a > /dev/nullx",
    "a > /dev/null/../x",
    "a >| f",
    "a &> f",
    "a >& f",
    "a <> f",
    "a < file",
    "a << E\nx\nE",
    "a <<< x",
    "a <(b)",
    "a >(b)",
    "a 2>f",
    "a 9>&3",
    "a & b",
    "a &",
    "a |& b",
    "(a)",
    "{ a; }",
    "a() { b; }",
    "echo {a,b}",
    "! a",
    "if a; then b; fi",
    "for x in y; do z; done",
    "while a; do b; done",
    "case a in b) c;; esac",
    "[[ a ]]",
    "[ a ]",
    "echo 'x",
    "echo \"x",
    "echo x\\",
    "a &&",
    "&& a",
    "a | ",
    "| a",
    "a && && b",
    "a;;b",
    "a || ; b",
    "eval x",
    "exec x",
    "source x",
    ". x",
    "command x",
    "builtin x",
    "trap x EXIT",
    "sh -c x",
    "bash x",
    "/bin/sh -c x",
    "zsh",
    "BASH -c x",
    "sudo x",
    "env x",
    "xargs rm",
    "nohup x",
    "timeout 1 x",
    "time x",
    "ssh h x",
    "find . -exec rm {} +",
    "find . -execdir rm x",
    "A=b c",
    "A+=b c",
    "A[0]=b c",
    "A=b",
    "# x",
    "a # b",
    "*",
    "*x a",
    "~/x a",
    "rm *",
    "rm ?x",
    "tar \"\"*",
    "a\rb",
    "a\u{200b} b",
    "a\u{a0}b",
    "a\u{2028}b",
    "a\u{1b}[2Jb",
    "'' a",
    "\"\"",
];

#[test]
fn what_is_not_plain_is_complex() {
    for &line in COMPLEX {
        let parsed = CommandLine::parse(line);
        assert!(parsed.complex().is_some(), "{line:?}: {parsed:?}");
        let action = run(line);
        for rule in ["run *", "run a *", "run echo *", "run sh", "run rm *", "run x *"] {
            if let Ok(rule) = rule.parse::<Rule>() {
                assert!(!allows(rule.text(), &action), "{line:?} by {rule}");
            }
        }
        if !line.trim().is_empty() {
            let exact = Rule::narrowest(&action).unwrap();
            assert_eq!(exact.text(), format!("run-exactly@sandbox {}", line.trim()));
            assert!(allows(exact.text(), &action), "{line:?}");
        }
    }
}

#[test]
fn commands() {
    for (rule, line, expect) in [
        ("run git status", "git status", true),
        ("run git status", "git  'status'", true),
        ("run git status", "git status -s", false),
        ("run git status", "git", false),
        ("run git status", "git statusx", false),
        ("run git status", "./git status", false),
        ("run git status", "/tmp/git status", false),
        ("run git status", "GIT status", false),
        ("run cargo test *", "cargo test", true),
        ("run cargo test *", "cargo test --all -- --nocapture", true),
        ("run cargo test *", "cargo testx", false),
        ("run cargo test *", "cargo", false),
        ("run cargo test *", "cargo test && cargo test -q", true),
        ("run cargo test *", "cargo test && rm -rf x", false),
        ("run cargo test *", "cargo test | sh", false),
        ("run cargo test *", "cargo test; id", false),
        ("run cargo test *", "cargo test\nid", false),
        ("run cargo test *", "cargo test > ~/.bashrc", false),
        ("run cargo test *", "cargo test $(id)", false),
        ("run cargo test *", "CARGO_TARGET_DIR=/ cargo test", false),
        ("run echo 'a b'", "echo \"a b\"", true),
        ("run echo 'a b'", "echo a b", false),
        ("run ls src/*.rs", "ls src/*.rs", true),
        ("run ls src/*.rs", "ls 'src/*.rs'", false),
        ("run ls 'src/*.rs'", "ls src/*.rs", false),
        ("run ls src/*.rs", "ls src/a.rs", false),
        ("run *", "anything at all", true),
        // What a rule itself says may run or write, but not what its `*` stands for.
        ("run git log *", "git log --oneline -p", true),
        ("run git log *", "git log --output=x", false),
        ("run git log --output=x", "git log --output=x", true),
        ("run make -C sub *", "make -C sub test -j4", true),
        ("run make -C sub *", "make -C sub -f x", false),
        ("run git grep *", "git grep -O id", false),
        ("run git -C x *", "git -C x log", true),
        ("run git -C x *", "git -C x -c a=b log", false),
        ("run git config *", "git config core.pager id", false),
        ("run sudo apt update", "sudo apt update", true),
        ("run sudo *", "sudo apt update", false),
        ("run npm test *", "npm test --script-shell=x", false),
        ("run sed -n 5p *", "sed -n 5p x", true),
        ("run-exactly a > b", "a > b", true),
        ("run-exactly a > b", " a > b\n", true),
        ("run-exactly a > b", "a  > b", false),
        ("run-exactly cargo test", "cargo test", true),
    ] {
        assert_eq!(allows(rule, &run(line)), expect, "{rule:?} {line:?}");
    }
    let two = rules(&["run a *", "run b"], &[], &[]);
    assert_eq!(decide(&two, &run("a x | b")), Allow);
    assert_eq!(decide(&two, &run("a x | b | c")), Ask);
    for (rule, line, expect) in [
        ("run git push", "git push", true),
        ("run git push", "git push -f origin", true),
        ("run git push", "git pushx", false),
        ("run git push", "git status && git push", true),
        ("run git push", "/usr/bin/git push", true),
        ("run git push", "GIT push", true),
        ("run git push", "sudo git push", true),
        ("run git push", "env A=b git push", true),
        ("run git push", "A=b git push", true),
        ("run git push", "echo $(git push)", true),
        ("run git push", "(git push)", true),
        ("run git push", "sh -c 'git push'", true),
        ("run git push", "sudo sh -c \"cd x; bash -c 'git push'\"", true),
        ("run git push", "if x; then git push; fi", true),
        ("run git push", "echo git push", false),
        ("run rm *", "find . -exec rm {} +", true),
        ("run sudo *", "sudo -u x id", true),
        ("run sudo *", "cd x && sudo id", true),
        ("run curl -o *", "curl -so x y", true),
        ("run git -c *", "git -C x -c a=b log", true),
        ("run *", "anything", true),
        ("run *", "$x", true),
    ] {
        assert_eq!(denies(rule, &run(line)), expect, "{rule:?} {line:?}");
    }
    assert!(denies("run-exactly a > b", &run("a   >  b")));
    let words = |words: &[&str]| Action::Execute { command: CommandLine::from_words(words), sandboxed: false };
    assert!(allows("run echo '$(x)'", &words(&["echo", "$(x)"])));
    assert!(allows("run echo *", &words(&["echo", "$(x) > y"])));
    assert!(!allows("run *", &words(&["sh", "-c", "x"])));
    assert!(!allows("run *", &words(&["x", "\u{202e}"])));
}

#[test]
fn a_rule_that_holds_back_is_not_passed_by_other_words_for_the_same() {
    for (rule, lines) in [
        (
            "run git push *",
            &[
                "git -C . push",
                "git --no-pager push origin",
                "git -c a=b push",
                "git --git-dir .git --work-tree=. push",
                "git -C push push",
                "git --namespace x -C y -p push",
                "/usr/bin/git -C . 'pu'sh",
                "git pus?",
                "git p* x",
                "env X=1 git -C . push",
                "X=1 git -C . push",
                "command git --no-pager push",
                "nice -n 5 git -C . push",
                "timeout 5 git -C . push",
                "sudo -u me git -C . push",
                "/usr/lib/git-core/git-push origin",
                "git >x push",
                "git x<y push",
                "cd x && git -C y push",
                "sh -c 'git -C . push'",
                "python3 -c \"import os; os.system('git -C . push')\"",
                "npx git push",
                "./wrapper git push",
            ][..],
        ),
        ("run git push --force *", &["git push origin main --force", "git push --forc", "git -C . push --force=x"]),
        (
            "run npm publish *",
            &["npm --silent publish", "npm pub", "npm -s publ x", "npm --tag x publish", "npm -- publish"],
        ),
        (
            "run cargo publish",
            &[
                "cargo -q publish",
                "cargo +stable publish",
                "cargo +stable -Z x publish",
                "rustup run stable cargo publish",
            ],
        ),
        ("run docker push *", &["docker --debug push x", "docker -H tcp://x push y", "docker --config=x push y"]),
        ("run kubectl delete *", &["kubectl -n x delete pod y", "kubectl --context x -n delete delete y"]),
        (
            "run kubectl -n prod delete *",
            &["kubectl delete pod x -n prod", "kubectl -nprod delete x", "kubectl delete x -n=prod"],
        ),
        ("run kubectl delete pod *", &["kubectl -n delete delete pod x"]),
        ("run rm -rf *", &["rm -fr x", "rm -r -f x", "rm x -rf", "rm -rvf x", "/bin/rm -f x -r"]),
        ("run git clean -fdx", &["git clean -xdf", "git -C . clean -d -f -x ."]),
        ("run curl *", &["docker run x curl y", "uv run curl y", "npx curl"]),
    ] {
        for line in lines {
            assert!(denies(rule, &run(line)), "{rule:?} {line:?}");
        }
    }
    for (rule, line) in [
        ("run git push *", "git commit -m push"),
        ("run git push *", "git stash push"),
        ("run git push *", "git log --oneline"),
        ("run git push *", "git add src/*.rs"),
        ("run git push *", "echo git push"),
        ("run git push *", "grep -r git push"),
        ("run git push --force *", "git push origin main"),
        ("run npm publish *", "npm test"),
        ("run rm *", "git rm x"),
        ("run rm -rf *", "rm -r x"),
        ("run curl *", "apt install curl"),
        ("run kubectl -n prod delete *", "kubectl -n test delete x"),
    ] {
        assert!(!denies(rule, &run(line)), "{rule:?} {line:?}");
    }
    // However many words there are, and whatever they might mean.
    let long = run(&format!("git {}", "-C push git ".repeat(20_000)));
    assert!(!denies("run git push git push x", &long));
}

#[test]
fn paths() {
    let extra = Location::inside("/extra/src/a".into(), "src/a".into(), false);
    let outside = Location::outside("/etc/.env".into());
    let odd = Location::outside("/etc/../home/x".into());
    for (rule, path, allow, deny) in [
        ("read src/a", inside("src/a"), true, true),
        ("read src/a", inside("src/ab"), false, false),
        ("read src/a", inside("SRC/A"), false, true),
        ("read src", inside("src/a"), false, true),
        ("read src/", inside("src/a/b"), true, true),
        ("read src/*", inside("src/a"), true, true),
        ("read src/*", inside("src/a/b"), false, true),
        ("read src/**", inside("src/a/b"), true, true),
        ("read **/.env", inside("x/.env"), true, true),
        ("read **/.env", inside(".env"), true, true),
        ("read **/.env", outside.clone(), false, true),
        ("read src/a", extra.clone(), false, true),
        ("read /extra/**", extra.clone(), true, true),
        ("read /home/me/project/src/a", inside("src/a"), true, true),
        ("read **", outside.clone(), false, true),
        ("read /**", outside, true, true),
        ("read /**", odd, false, true),
        ("read **", extra, false, true),
        ("read {a,b}.rs", inside("b.rs"), true, true),
    ] {
        assert_eq!(allows(rule, &Action::Read(path.clone())), allow, "{rule:?} {path:?}");
        assert_eq!(denies(rule, &Action::Read(path.clone())), deny, "{rule:?} {path:?}");
        assert!(!allows(rule, &Action::Write(path.clone())));
    }
    let moved = |from, to| Action::Move { from: inside(from), to: inside(to) };
    assert!(allows("move src/**", &moved("src/a", "src/b")));
    assert!(!allows("move src/**", &moved("src/a", "b")));
    assert!(allows("move a => b", &moved("a", "b")) && !allows("move a => b", &moved("b", "a")));
    for rule in ["move src/**", "delete src/**", "write src/**", "write b", "read src/a"] {
        assert!(denies(rule, &moved("src/a", "b")), "{rule}");
    }
    assert!(denies("write a", &Action::Delete(inside("a"))));
    let protected = Rules::new(Config::protected().and(rules(&["write **"], &[], &[]).config().clone()));
    for path in [".git/config", "sub/.git/hooks/pre-commit", ".GIT/config", ".vscode/tasks.json", ".git", ".envrc"] {
        let verdict = decide_in(&protected, Preset::Auto, &Action::Write(inside(path)));
        assert_eq!(verdict.decision, Ask, "{path}");
    }
    assert_eq!(decide_in(&protected, Preset::AllowReads, &Action::Write(inside("src/git"))).decision, Allow);
}

#[test]
fn hosts_and_tools() {
    let fetch = |url: &str| Action::Fetch(Host::of_url(url).unwrap());
    for (rule, url, allow, deny) in [
        ("fetch docs.rs", "https://docs.rs/x", true, true),
        ("fetch docs.rs", "http://docs.rs/x", true, true),
        ("fetch docs.rs", "https://evil.docs.rs", false, false),
        ("fetch docs.rs", "https://docs.rs:8443", false, true),
        ("fetch docs.rs:8443", "https://docs.rs:8443", true, true),
        ("fetch https://docs.rs", "http://docs.rs", false, false),
        ("fetch *.example.com", "https://a.b.example.com", true, true),
        ("fetch *.example.com", "https://example.com", false, false),
        ("fetch *.example.com", "https://evilexample.com", false, false),
        ("fetch *", "https://anything.example", true, true),
        ("fetch 127.0.0.1", "http://127.0.0.2", false, true),
        ("fetch 127.0.0.1", "http://0.0.0.0:8080", false, true),
        ("fetch 127.0.0.1", "http://[::1]", false, true),
        ("fetch 127.0.0.1", "http://[::ffff:127.0.0.1]", true, true),
        ("fetch localhost", "http://127.0.0.1", false, true),
        ("fetch localhost", "http://[::]", false, true),
        ("fetch localhost", "http://x.localhost.", false, true),
        ("fetch localhost:80", "http://127.0.0.1:81", false, false),
        ("fetch localhost", "http://10.0.0.1", false, false),
    ] {
        assert_eq!(allows(rule, &fetch(url)), allow, "{rule} {url}");
        assert_eq!(denies(rule, &fetch(url)), deny, "{rule} {url}");
    }
    let mcp = |server: &str, tool: &str| Action::Mcp { server: server.into(), tool: tool.into() };
    assert!(allows("mcp github/get", &mcp("github", "get")) && !allows("mcp github/get", &mcp("github", "GET")));
    assert!(denies("mcp github/get", &mcp("github", "GET")));
    assert!(allows("mcp github/*", &mcp("github", "x")) && !allows("mcp github/*", &mcp("other", "x")));
    assert_eq!(Rule::narrowest(&mcp("a", "*")), None);
    assert_eq!(Rule::narrowest(&mcp("a/b", "c")), None);
}

#[test]
fn deny_beats_ask_beats_allow_and_modes_have_the_last_word() {
    let set =
        rules(&["write src/**", "run cargo *"], &["write src/lib.rs"], &["write src/secret/**", "run cargo publish *"]);
    for (action, expect) in [
        (Action::Write(inside("src/a")), Allow),
        (Action::Write(inside("src/lib.rs")), Ask),
        (Action::Write(inside("src/secret/a")), Deny),
        (run("cargo build"), Allow),
        (run("cargo publish"), Deny),
    ] {
        assert_eq!(decide_in(&set, Preset::AllowReads, &action).decision, expect, "{action:?}");
        let plan = decide_in(&set, Preset::Plan, &action);
        assert!(plan.decision >= if matches!(action, Action::Write(_)) { Deny } else { Ask }, "{action:?}");
    }
    let none = Rules::default();
    let outside = Location::outside("/etc/passwd".into());
    let unsafe_run = Action::Execute { command: CommandLine::parse("x"), sandboxed: false };
    for (action, expect) in [
        (Action::Read(inside("a")), [Allow, Allow, Allow, Allow]),
        (Action::Read(outside.clone()), [Ask, Ask, Ask, Ask]),
        (Action::Write(inside("a")), [Ask, Deny, Allow, Allow]),
        (Action::Write(outside), [Ask, Deny, Ask, Ask]),
        (run("x"), [Ask, Ask, Ask, Allow]),
        (unsafe_run, [Ask, Ask, Ask, Ask]),
        (Action::Fetch(Host::of_url("https://a.b").unwrap()), [Ask, Ask, Ask, Ask]),
        (Action::Mcp { server: "a".into(), tool: "b".into() }, [Ask, Deny, Ask, Ask]),
    ] {
        let got = [Preset::AllowReads, Preset::Plan, Preset::AllowEdits, Preset::Auto]
            .map(|mode| decide_in(&none, mode, &action).decision);
        assert_eq!(got, expect, "{action:?}");
    }
    // In plan mode a rule lets an MCP tool through; one that asks does not.
    let tool = Action::Mcp { server: "a".into(), tool: "b".into() };
    for (allow, ask, expect) in
        [(&["mcp a/b"][..], &[][..], Allow), (&[], &["mcp a/b"], Deny), (&["mcp a/*"], &["mcp */b"], Ask)]
    {
        assert_eq!(decide_in(&rules(allow, ask, &[]), Preset::Plan, &tool).decision, expect);
    }
    // What can't be checked against a rule that holds back is asked.
    let verdict = decide_in(&rules(&[], &[], &["run git push"]), Preset::Auto, &run("$x push"));
    assert!(matches!(verdict.because, Because::Unclear(_)) && verdict.decision == Ask);
}

#[test]
fn configurations() {
    let config = Config::parse("allow = ['run cargo test *']\ndeny = [\"read **/.env\"]\n").unwrap();
    assert!(config.clone().without_allow().allow.is_empty());
    let mut config = config;
    let rule: Rule = "write a".parse().unwrap();
    assert!(config.add(Allow, rule.clone()) && !config.add(Allow, rule.clone()));
    assert!(config.remove(Allow, &rule) && !config.remove(Allow, &rule));
    for (bad, why) in [
        ("denied = []", "denied"),
        ("allow = ['run a $x']", "could never match"),
        ("allow = ['run a && b']", "one command"),
        ("allow = ['write ']", "empty"),
        ("allow = ['write ../x']", ".."),
        ("allow = ['write a[']", "a["),
        ("allow = ['fly away']", "unknown verb"),
        ("allow = ['fetch user@host']", "host"),
        ("allow = ['mcp x']", "SERVER/TOOL"),
        ("allow = 'write x'", "sequence"),
    ] {
        let error = Config::parse(bad).unwrap_err().to_string();
        assert!(error.contains(why), "{bad}: {error}");
    }
}

#[test]
fn narrowest_rules_are_shown_as_they_are() {
    for (action, expect) in [
        (Action::Write(inside("src/main.rs")), "write src/main.rs"),
        (Action::Write(inside("a[1]*.rs")), "write a[[]1[]][*].rs"),
        (Action::Read(inside(" a ")), "read [ ]a[ ]"),
        (Action::Read(inside("a\\b")), "read a[\\]b"),
        (Action::Read(inside("!{a,b}-^")), "read ![{]a,b[}]-^"),
        (Action::Delete(Location::outside("/tmp/x".into())), "delete /tmp/x"),
        (Action::Move { from: inside("a"), to: inside("b") }, "move a => b"),
        (run("cargo   test --all"), "run@sandbox cargo test --all"),
        (run("echo 'a b' c"), "run@sandbox echo 'a b' c"),
        (run("a && b"), "run-exactly@sandbox a && b"),
        (run("a '*'"), "run@sandbox a '*'"),
        (Action::Fetch(Host::of_url("https://Docs.rs/x").unwrap()), "fetch https://docs.rs"),
        (Action::Mcp { server: "s".into(), tool: "t".into() }, "mcp s/t"),
    ] {
        assert_eq!(Rule::narrowest(&action).unwrap().text(), expect);
    }
    assert_eq!(Rule::narrowest(&Action::Read(inside("../x"))), None);
}

#[test]
fn a_path_that_nothing_has_is_no_rule() {
    for text in ["read ~/.ssh/**", "write src//x", "move ~ => a"] {
        assert!(text.parse::<Rule>().is_err(), "{text}");
    }
    for text in ["read /etc/", "read src/", "read a~", "read **/~x"] {
        assert!(text.parse::<Rule>().is_ok(), "{text}");
    }
}

#[test]
fn a_forbidden_command_is_found_behind_any_sign() {
    let rules = Rules::new(Config::parse("deny = [\"run rm *\"]").unwrap());
    for line in ["sh -c 'true&&rm'", "sh -c 'true|rm'", "bash -c '(rm)'", "sh -c '`rm`'", "env sh -c 'true;rm'"] {
        let action = Action::Execute { command: CommandLine::parse(line), sandboxed: true };
        assert_eq!(decide_in(&rules, Preset::Auto, &action).decision, Decision::Deny, "{line}");
    }
}

/// An engine with what was learned kept in a folder.
fn engine(home: &std::path::Path, preset: Preset, rules: &str, limits: &Limits) -> Engine {
    let learned = Some(Learned::new(home, std::path::Path::new("/home/me/project")));
    let settings = Settings { rules: Config::parse(rules).unwrap(), learned, ..Settings::default() };
    Engine::load(preset, &settings, limits).unwrap()
}

#[test]
fn deny_wins_over_presets_learned_allows_and_the_sandbox() {
    let home = tempfile::tempdir().unwrap();
    let deny =
        Limits { deny: vec!["read **/.env".parse().unwrap(), "run make *".parse().unwrap()], ..Limits::default() };
    for preset in Preset::ALL {
        for (rules, limits) in [
            ("deny = ['read **/.env', 'run make *']", Limits::default()),
            ("allow = ['read **', 'run make *']", deny.clone()),
        ] {
            let engine = engine(home.path(), preset, rules, &limits);
            for action in [Action::Read(inside("sub/.env")), run("make all")] {
                engine.learn(Keep::Always, Allow, &[Rule::narrowest(&action).unwrap()]).unwrap();
                engine.learn(Keep::Run, Allow, &[Rule::narrowest(&action).unwrap()]).unwrap();
                assert_eq!(engine.decide(&action).decision, Deny, "{preset} {action:?}");
                assert_eq!(engine.judge(Subject::of(&[action])).decision, Deny);
            }
        }
    }
}

#[test]
fn what_is_handed_over_only_holds_back() {
    let home = tempfile::tempdir().unwrap();
    let actions = [
        Action::Read(inside("a")),
        Action::Read(Location::outside("/etc/passwd".into())),
        Action::Write(inside("a")),
        Action::Delete(inside("a")),
        run("x"),
        Action::Fetch(Host::of_url("https://a.b").unwrap()),
        Action::Mcp { server: "a".into(), tool: "b".into() },
    ];
    for preset in Preset::ALL {
        for limit in Preset::ALL {
            let limits = Limits { presets: vec![limit], ..Limits::default() };
            let (free, held) =
                (engine(home.path(), preset, "", &Limits::default()), engine(home.path(), preset, "", &limits));
            for action in &actions {
                let (own, both) = (free.decide(action).decision, held.decide(action).decision);
                assert_eq!(
                    both,
                    own.max(engine(home.path(), limit, "", &Limits::default()).decide(action).decision).max(own)
                );
                assert!(limit != Preset::DenyAll || both == Deny, "{preset} {action:?}");
            }
        }
    }
    let text =
        Limits { presets: vec![Preset::DenyAll], deny: vec!["read x".parse().unwrap()], ask: Vec::new() }.to_json();
    assert_eq!(text, r#"{"presets":["deny-all"],"deny":["read x"]}"#);
    assert!(serde_json::from_str::<Limits>(r#"{"allow":["read x"]}"#).is_err());
}

#[test]
fn what_is_learned_is_kept_by_folder_and_can_be_taken_back() {
    let home = tempfile::tempdir().unwrap();
    let write = Action::Write(inside("a.txt"));
    let rule = Rule::narrowest(&write).unwrap();
    let first = engine(home.path(), Preset::AllowReads, "", &Limits::default());
    first.learn(Keep::Run, Allow, std::slice::from_ref(&rule)).unwrap();
    assert_eq!(first.decide(&write).decision, Allow);
    // Only for that run.
    let second = engine(home.path(), Preset::AllowReads, "", &Limits::default());
    assert_eq!(second.decide(&write).decision, Ask);
    second.learn(Keep::Always, Allow, std::slice::from_ref(&rule)).unwrap();
    let third = engine(home.path(), Preset::AllowReads, "ask = ['write a.txt']", &Limits::default());
    let verdict = third.decide(&write);
    let Because::Rules(rules) = &verdict.because else { panic!("{verdict:?}") };
    assert!(verdict.decision == Allow && rules[0].origin().unwrap().ends_with("learned.toml:4"), "{rules:?}");
    // Another folder has not learned it, and what is taken back elsewhere counts no more here.
    let other = Learned::new(home.path(), std::path::Path::new("/home/me/other"));
    assert_eq!(other.load().unwrap(), Config::default());
    second.forget(Allow, &rule).unwrap();
    assert_eq!((second.decide(&write).decision, third.decide(&write).decision), (Ask, Ask));
    std::fs::write(home.path().join("learned.toml"), "['/home/me/project']\nallow = ['fly']\n").unwrap();
    let error = Learned::new(home.path(), std::path::Path::new("/home/me/project")).load().unwrap_err().to_string();
    assert!(error.contains("line 2") && error.contains("verb"), "{error}");
}

#[test]
fn what_cannot_be_told_is_asked_where_a_rule_forbids_something_of_its_kind() {
    for (topic, expect) in [(Some(Topic::Commands), Ask), (None, Ask), (Some(Topic::Files), Allow)] {
        let engine = Engine::new(Preset::AllowAll, Config::parse("deny = ['run rm *']").unwrap());
        let subject = Subject { unclear: Some(topic), ..Subject::of(&[]) };
        assert_eq!(engine.judge(subject).decision, expect, "{topic:?}");
    }
}

/// What a person allowed for good with the sandbox around it does not run without it.
#[test]
fn an_always_covers_what_was_shown() {
    let action = |line: &str, sandboxed| Action::Execute { command: CommandLine::parse(line), sandboxed };
    for line in ["cargo test", "cargo test && ls", "echo $HOME > x", "make 2> /dev/null"] {
        let learned = Rule::narrowest(&action(line, true)).unwrap();
        assert!(learned.text().contains("@sandbox "), "{learned:?}");
        let decide =
            |config: Config, sandboxed| Rules::new(config).decide_or(&action(line, sandboxed), Decision::Ask).decision;
        let allow = || Config { allow: vec![learned.clone()], ..Config::default() };
        assert_eq!((decide(allow(), true), decide(allow(), false)), (Decision::Allow, Decision::Ask), "{line}");
        // A no counts everywhere.
        let deny = || Config { deny: vec![learned.clone()], ..Config::default() };
        assert_eq!((decide(deny(), true), decide(deny(), false)), (Decision::Deny, Decision::Deny), "{line}");
        // Given without the sandbox, or written by hand, it covers both.
        let free = Rule::narrowest(&action(line, false)).unwrap();
        assert!(!free.text().contains("@sandbox"), "{free:?}");
        let allow = || Config { allow: vec![free.clone()], ..Config::default() };
        assert_eq!((decide(allow(), true), decide(allow(), false)), (Decision::Allow, Decision::Allow), "{line}");
    }
    for text in ["read@sandbox x", "fetch@sandbox x", "run@sandbox", "run@other x"] {
        assert!(text.parse::<Rule>().is_err(), "{text}");
    }
}

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
