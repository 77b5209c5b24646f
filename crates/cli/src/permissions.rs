//! `tieline config permissions`: what would happen and why, which rules there are, and how one that was learned is taken back.

use crate::shared::{Failed, USAGE, bad_config, here, note};
use clap::Subcommand;
use std::fmt::Write as _;
use tieline_client::config::{Config, Flags, Sources};
use tieline_client::permission::{Facts, Preset};
use tieline_client::sanitize::exact_line;
use tieline_host::roots::Roots;
use tieline_host::rules::{Because, Decision, Engine, Learned, Limits, Rule, Verdict};

/// What to do.
#[derive(Subcommand)]
pub enum Command {
    /// Every rule that counts here and where it was written; those that were learned come with a number
    List,
    /// What would happen here, by which rule or preset, from which file and line
    #[command(
        after_help = "Examples:\n  tieline config permissions test 'run git push'\n  tieline config permissions test \
                            'read .env'\n  the others: write FILE, delete FILE, move OLD => NEW, fetch https://…, mcp SERVER/TOOL"
    )]
    Test {
        /// What would be done
        #[arg(value_name = "WHAT", required = true)]
        what: Vec<String>,
        /// With this preset instead of that of the configuration: ask, allow-reads, plan, allow-edits, auto, allow-all or deny-all
        #[arg(long)]
        preset: Option<Preset>,
    },
    /// Take back what was decided for always in this folder
    Remove {
        /// Its number in `list`, or the rule itself, such as 'allow write a.txt'
        #[arg(value_name = "NUMBER|RULE", required = true)]
        which: Vec<String>,
    },
}

/// Does it.
pub fn work(command: Command) -> Result<String, Failed> {
    let sources = Sources::of(&here()?);
    let config = Config::load(&sources, &Flags::default()).map_err(bad_config)?;
    config.permissions.notes.iter().for_each(|text| note(exact_line(text)));
    match command {
        Command::List => list(&config),
        Command::Test { what, preset } => test(&config, &sources, &what.join(" "), preset),
        Command::Remove { which } => remove(config.permissions.learned.as_ref(), &which.join(" ")),
    }
}

fn wrong(why: impl Into<String>) -> Failed {
    (USAGE, why.into())
}

fn preset_of(config: &Config) -> Preset {
    config.permissions.default.unwrap_or_default()
}

fn list(config: &Config) -> Result<String, Failed> {
    let preset = preset_of(config);
    let mut out = format!("preset {preset}: {}\n", preset.about());
    let mut row = |number: &str, decision: Decision, rule: &Rule, from: &str| {
        let line = format!("{} {rule}", decision.word());
        let _ = writeln!(out, "{number:>3}  {}  # {}", exact_line(&line), exact_line(from));
    };
    for (decision, rule) in config.permissions.rules.iter() {
        row("", decision, rule, rule.origin().unwrap_or("built in"));
    }
    if let Some(learned) = &config.permissions.learned {
        let rules = learned.load().map_err(|error| wrong(error.to_string()))?;
        for (at, (decision, rule)) in rules.iter().enumerate() {
            row(&(at + 1).to_string(), decision, rule, &format!("learned: {}", rule.origin().unwrap_or_default()));
        }
        if rules.iter().next().is_some() {
            note(
                "a rule with a number was decided for always in this folder; to take it back: tieline config permissions remove NUMBER",
            );
        }
    }
    Ok(out)
}

fn test(config: &Config, sources: &Sources, what: &str, preset: Option<Preset>) -> Result<String, Failed> {
    let roots = Roots::new(&sources.cwd, [] as [&std::path::Path; 0]).map_err(|error| wrong(error.to_string()))?;
    let facts = Facts::of_line(what, &roots).map_err(wrong)?;
    let limits = Limits::handed_over().map_err(wrong)?;
    let engine = Engine::load(preset.unwrap_or(preset_of(config)), &config.permissions, &limits)
        .map_err(|error| wrong(error.to_string()))?;
    let mut out = String::new();
    let plain = engine.judge(facts.subject());
    let mut say = |line: &str, verdict: &Verdict| {
        let _ = writeln!(out, "{line}: {}", outcome(verdict.decision));
        for reason in reasons(verdict) {
            let _ = writeln!(out, "  {}", exact_line(&reason));
        }
    };
    let line = facts.lines().first().cloned().unwrap_or_default();
    say(&line, &plain);
    let inside = facts.clone().in_sandbox();
    let sandboxed = engine.judge(inside.subject());
    if sandboxed.decision != plain.decision {
        say(&format!("{line} (in the sandbox)"), &sandboxed);
    }
    if let Some((rule, why)) = engine.wonder(facts.subject()) {
        let _ = writeln!(out, "  {}", exact_line(&format!("the rule `allow {rule}` does not count here: {why}")));
    }
    Ok(out)
}

fn outcome(decision: Decision) -> &'static str {
    match decision {
        Decision::Allow => "allowed",
        Decision::Ask => "asked (refused where nobody can be asked)",
        Decision::Deny => "refused",
    }
}

/// Why, one line each.
fn reasons(verdict: &Verdict) -> Vec<String> {
    match &verdict.because {
        Because::Rules(rules) => {
            let word = verdict.decision.word();
            let from =
                |rule: &Rule| rule.origin().unwrap_or("built in: it protects what runs by itself later").to_owned();
            rules.iter().map(|rule| format!("by the rule `{word} {rule}`, {}", from(rule))).collect()
        }
        Because::Preset(preset) => vec![format!("by the preset {preset}: {}", preset.about())],
        Because::Default => vec!["no rule says anything".to_owned()],
        Because::Unclear(why) => vec![format!("it can't be checked against the rules: {why}")],
    }
}

fn remove(learned: Option<&Learned>, which: &str) -> Result<String, Failed> {
    let Some(learned) = learned else { return Err(wrong("there is no place where something could have been kept")) };
    let rules = learned.load().map_err(|error| wrong(error.to_string()))?;
    let found = match which.parse::<usize>() {
        Ok(number) => number.checked_sub(1).and_then(|at| rules.iter().nth(at)),
        Err(_) => {
            rules.iter().find(|(decision, rule)| which == rule.text() || which == format!("{} {rule}", decision.word()))
        }
    };
    let Some((decision, rule)) = found else {
        let why = format!("nothing like `{which}` was decided for always in {}", learned.folder());
        return Err(wrong(format!("{why}; `tieline config permissions list` shows what was")));
    };
    let gone = learned.change(|config| {
        config.remove(decision, rule);
    });
    gone.map_err(|error| wrong(error.to_string()))?;
    Ok(exact_line(&format!("taken back: {} {rule}", decision.word())) + "\n")
}
