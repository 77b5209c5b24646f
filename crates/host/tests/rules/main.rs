//! What rules match and what they don't.
#![allow(clippy::unwrap_used)]

mod commands;
mod files;

use std::path::PathBuf;
use tieline_host::rules::{
    Action, Because, CommandLine, Config, Confined,
    Decision::{self, Allow, Ask, Deny},
    Engine, Host, Keep, Learned, Limits, Location, Preset, Rule, Rules, Settings, Subject, Topic, Verdict,
};

fn inside(path: &str) -> Location {
    Location::inside(PathBuf::from("/home/me/project").join(path), path.into(), true)
}

fn run(line: &str) -> Action {
    Action::Execute { command: CommandLine::parse(line), confined: Confined::Guarded }
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
    let unsafe_run = Action::Execute { command: CommandLine::parse("x"), confined: Confined::No };
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
        let action = Action::Execute { command: CommandLine::parse(line), confined: Confined::Guarded };
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

/// Whoever sends a line of megabytes neither stops us nor passes a rule.
#[test]
fn a_line_without_end_is_judged_as_far_as_it_goes() {
    let engine = |rules: &str| Engine::new(Preset::AllowAll, Config::parse(rules).unwrap());
    let held = engine("deny = ['run git push *']");
    let judge = |engine: &Engine, action: &Action| engine.judge(Subject::of(std::slice::from_ref(action))).decision;
    let since = std::time::Instant::now();
    let parts = ["env -S env ", "git -C x ", "git x;", "xargs env nice ", "$(", "'x'", "-c='"];
    for part in parts {
        let long = part.repeat((1 << 20) / part.len());
        let words = Action::Execute { command: CommandLine::from_words(long.split(' ')), confined: Confined::No };
        for action in [run(&long), words, run(&format!("sh -c \"{}\"", &long[..60_000]))] {
            assert!(judge(&held, &action) >= Ask, "{part}");
            assert!(!allows("run *", &action), "{part}");
        }
        assert_eq!(judge(&held, &run(&format!("git push; {long}"))), Deny, "{part}");
        assert_eq!(judge(&engine(""), &run(&long)), Allow, "{part}");
    }
    // Quotes in quotes are not looked into again and again.
    let nested = (0..4).fold("git x;".repeat(500), |text, _| format!("-c={}", CommandLine::from_words([text]).text()));
    assert!(judge(&held, &run(&format!("sh {nested}"))) >= Ask);
    // A machine that is busy has its time; it took minutes for one of them.
    assert!(since.elapsed() < std::time::Duration::from_mins(1), "{:?}", since.elapsed());
}

/// What a person allowed for good with the sandbox around it does not run with less around it.
#[test]
fn an_always_covers_what_was_shown() {
    use Confined::{Guarded, No, Partly, ReadOnly, Unguarded};
    let action = |line: &str, confined| Action::Execute { command: CommandLine::parse(line), confined };
    // What was shown, the word in the rule, and where that allows it.
    let rows: [(Confined, &str, &[Confined]); 5] = [
        (No, "", &[No, Unguarded, Partly, Guarded, ReadOnly]),
        (Unguarded, "@unguarded", &[Unguarded, Partly, Guarded, ReadOnly]),
        // What is missing may be another thing the next time.
        (Partly, "@sandbox", &[Guarded, ReadOnly]),
        (Guarded, "@sandbox", &[Guarded, ReadOnly]),
        (ReadOnly, "@read-only", &[ReadOnly]),
    ];
    for line in ["cargo test", "cargo test && ls", "echo $HOME > x", "make 2> /dev/null", "git commit -m x"] {
        for (shown, word, allowed) in rows {
            let learned = Rule::narrowest(&action(line, shown)).unwrap();
            let verb = learned.text().split(' ').next().unwrap();
            assert_eq!(verb.trim_start_matches("run").trim_start_matches("-exactly"), word, "{learned:?}");
            for confined in [No, Unguarded, Partly, Guarded, ReadOnly] {
                let decide =
                    |config: Config| Rules::new(config).decide_or(&action(line, confined), Decision::Ask).decision;
                let allow = Config { allow: vec![learned.clone()], ..Config::default() };
                let expect = if allowed.contains(&confined) { Decision::Allow } else { Decision::Ask };
                assert_eq!(decide(allow), expect, "{line}: {shown:?} {confined:?}");
                // A no counts everywhere.
                let deny = Config { deny: vec![learned.clone()], ..Config::default() };
                assert_eq!(decide(deny), Decision::Deny, "{line}: {shown:?} {confined:?}");
            }
        }
    }
    for text in ["read@sandbox x", "fetch@sandbox x", "run@sandbox", "run@other x", "read@read-only x", "run@unguarded"]
    {
        assert!(text.parse::<Rule>().is_err(), "{text}");
    }
}
