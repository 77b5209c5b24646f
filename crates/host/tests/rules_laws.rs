//! The laws that hold for all rules and all actions.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use std::path::PathBuf;
use tieline_host::rules::{
    Action, CommandLine, Config, Confined,
    Decision::{Allow, Ask, Deny},
    Engine, Host, Location, Preset, Rule, Rules, Verdict,
};

fn inside(path: &str) -> Location {
    Location::inside(PathBuf::from("/home/me/project").join(path), path.into(), true)
}

/// Whether one rule, alone, allows.
fn allows(rule: &str, action: &Action) -> bool {
    let rules = Rules::new(Config { allow: vec![rule.parse().unwrap()], ..Config::default() });
    rules.decide_or(action, Ask).decision == Allow
}

fn any_rule() -> impl Strategy<Value = Rule> {
    let path = "(read|write|delete|move) (/home/me/project/)?(\\*\\*/)?[ab](/[ab*])?(/\\*\\*)?";
    let command = "run (a|b|git)( [ab])?( \\*)?|run \\*|run-exactly (a|a b|a && b|\\$a)";
    let other = "fetch (\\*|a\\.b|\\*\\.b)|mcp (a|\\*)/(a|\\*)";
    prop_oneof![path, command, other].prop_map(|text| text.parse().unwrap())
}

fn any_action() -> impl Strategy<Value = Action> {
    let place = || {
        ("[abAB](/[ab]){0,2}", 0..3).prop_map(|(path, kind)| match kind {
            0 => inside(&path),
            1 => Location::inside(format!("/extra/{path}").into(), path.into(), false),
            _ => Location::outside(format!("/{path}").into()),
        })
    };
    let line = "(a|b|git|sh|sudo)( [ab]){0,2}((;| &&| \\|) (a|git|\\$a)( [ab])?){0,2}( > a| \\$\\(a\\)| \\*)?";
    prop_oneof![
        place().prop_map(Action::Read),
        place().prop_map(Action::Write),
        place().prop_map(Action::Delete),
        (place(), place()).prop_map(|(from, to)| Action::Move { from, to }),
        (line, prop::sample::select(vec![Confined::No, Confined::Unguarded, Confined::Guarded, Confined::ReadOnly]))
            .prop_map(|(line, confined)| Action::Execute { command: CommandLine::parse(&line), confined }),
        "https?://(a\\.)?[ab]\\.b(:8)?".prop_map(|url| Action::Fetch(Host::of_url(&url).unwrap())),
        ("[ab]", "[ab]").prop_map(|(server, tool)| Action::Mcp { server, tool }),
    ]
}

fn any_config() -> impl Strategy<Value = Config> {
    let list = || prop::collection::vec(any_rule(), 0..4);
    (list(), list(), list()).prop_map(|(allow, ask, deny)| Config { allow, ask, deny })
}

const MODES: [Preset; 7] = Preset::ALL;

/// What the engine says with these rules and a preset.
fn decide_in(rules: &Rules, preset: Preset, action: &Action) -> Verdict {
    Engine::new(preset, rules.config().clone()).decide(action)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_deny_or_ask_more_never_allows_more(config in any_config(), rule in any_rule(), action in any_action()) {
        for list in [Deny, Ask] {
            let mut more = config.clone();
            more.add(list, rule.clone());
            let (less, more) = (Rules::new(config.clone()), Rules::new(more));
            for mode in MODES {
                prop_assert!(decide_in(&more, mode, &action).decision >= decide_in(&less, mode, &action).decision);
            }
        }
    }

    #[test]
    fn an_allow_more_never_forbids_more(config in any_config(), rule in any_rule(), action in any_action()) {
        let mut more = config.clone();
        more.add(Allow, rule);
        for mode in MODES {
            let (less, more) = (Rules::new(config.clone()), Rules::new(more.clone()));
            prop_assert!(decide_in(&more, mode, &action).decision <= decide_in(&less, mode, &action).decision);
        }
    }

    #[test]
    fn order_means_nothing(config in any_config(), action in any_action(), seed: u64) {
        let shuffle = |rules: &[Rule]| {
            let mut rules = rules.to_vec();
            let by = rules.len().max(1);
            rules.rotate_left(seed as usize % by);
            if seed & 8 == 0 { rules.reverse(); }
            rules
        };
        let other = Config { allow: shuffle(&config.allow), ask: shuffle(&config.ask), deny: shuffle(&config.deny) };
        for mode in MODES {
            let (one, two) = (Rules::new(config.clone()), Rules::new(other.clone()));
            prop_assert_eq!(decide_in(&one, mode, &action), decide_in(&two, mode, &action));
        }
    }

    #[test]
    fn a_complex_command_is_never_allowed_by_a_prefix(rules in prop::collection::vec(any_rule(), 0..6), line in "\\PC{0,12}|[a-c $`'\"&|;<>(){}\\\\\n*~#!=]{0,16}") {
        let command = CommandLine::parse(&line);
        let complex = command.complex().is_some();
        let text = command.text().to_owned();
        let allow: Vec<Rule> = rules.into_iter().filter(|rule| rule.text() != format!("run-exactly {text}")).collect();
        let rules = Rules::new(Config { allow, ..Config::default() });
        let verdict = rules.decide_or(&Action::Execute { command, confined: Confined::Guarded }, Ask);
        prop_assert!(!complex || verdict.decision == Ask, "{line:?}");
    }

    #[test]
    fn the_narrowest_rule_allows_it_and_says_the_same_again(action in any_action(), other in any_action()) {
        if let Some(rule) = Rule::narrowest(&action) {
            prop_assert!(allows(rule.text(), &action));
            // Whatever else it allows is the same thing.
            if allows(rule.text(), &other) {
                prop_assert_eq!(Rule::narrowest(&other), Some(rule));
            }
        } else {
            let command = matches!(action, Action::Execute { .. });
            prop_assert!(!command);
        }
    }

    #[test]
    fn a_path_is_allowed_by_its_own_rule_only(one in "[a!*?\\[\\]{},\\\\^ -]{1,5}", two in "[a!*?\\[\\]{},\\\\^ -]{1,5}") {
        let rule = Rule::narrowest(&Action::Write(inside(&one))).unwrap();
        prop_assert!(allows(rule.text(), &Action::Write(inside(&one))));
        prop_assert_eq!(allows(rule.text(), &Action::Write(inside(&two))), one == two);
    }

    #[test]
    fn words_survive_quoting(words in prop::collection::vec("[a-zA-Z0-9 '\"$`*?~\\\\|&;<>(){}#!=\\[\\]-]{0,6}", 1..4)) {
        let command = CommandLine::from_words(&words);
        let again = CommandLine::parse(command.text());
        if again.complex().is_none() {
            let found: Vec<Vec<&str>> = again.commands().collect();
            prop_assert_eq!(found, vec![words.iter().map(String::as_str).collect::<Vec<_>>()]);
        }
    }
}

/// What real shells make of a line that we take for one plain command must be what we take it for.
#[cfg(unix)]
mod shells {
    use super::*;
    use std::process::{Command, Stdio};

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn shells_see_the_same_words(rest in "([ab \\n\t'\"\\\\]|[;&|<>$`(){}*?\\[~#!=,:@%^+-]|/dev/null|2>&1|\\PC){0,12}") {
            let line = format!("printf '<%s>' {rest}");
            let command = CommandLine::parse(&line);
            let commands: Vec<Vec<&str>> = command.commands().collect();
            // What files and homes there are is not our matter.
            let plain = !rest.contains(['*', '?', '[', '~', '\0']);
            let quiet = !rest.contains(['>', '<']);
            if command.complex().is_none() && commands.len() == 1 && plain && quiet {
                // Without arguments, `printf` prints its format once.
                let expect = format!("<{}>", commands[0][2..].join("><"));
                let dir = tempfile::tempdir().unwrap();
                for shell in ["sh", "bash"] {
                    let run = Command::new(shell).arg("-c").arg(&line).current_dir(dir.path()).stdin(Stdio::null()).output();
                    let Ok(run) = run else { continue };
                    prop_assert_eq!(String::from_utf8_lossy(&run.stdout), &*expect, "{} {:?}", shell, line);
                    prop_assert!(run.stderr.is_empty() && run.status.success(), "{shell} {line:?}");
                }
                prop_assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
            }
        }
    }
}
