//! `tieline config permissions`: what would happen and why, which rules there are, and how one that was learned is taken back.

use crate::shared::{Failed, ListFormat, USAGE, bad_config, hanging, here, note};
use clap::Subcommand;
use serde::Serialize;
use tieline_client::config::{Config, Flags, Sources};
use tieline_client::permission::{Facts, Preset};
use tieline_client::sanitize::exact_line;
use tieline_host::roots::Roots;
use tieline_host::rules::{
    Action, Because, Decision, Engine, KEEPS_VERSIONS, Learned, Limits, Rule, Verdict, keeps_versions,
};

/// What to do.
#[derive(Subcommand)]
pub enum Command {
    /// Every rule that counts here and where it was written; those that were learned come with a number
    List {
        #[command(flatten)]
        format: ListFormat,
    },
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
        #[command(flatten)]
        format: ListFormat,
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
        Command::List { format } => list(&config, format),
        Command::Test { what, preset, format } => {
            let tested = test(&config, &sources, &what.join(" "), preset)?;
            Ok(format.print(&tested, |tested| tested.iter().map(Tested::text).collect()))
        }
        Command::Remove { which } => remove(config.permissions.learned.as_ref(), &which.join(" ")),
    }
}

/// Why files elsewhere are never touched.
const OUTSIDE: &str = "it is outside the workspace: no file there is read or changed for an agent, whatever the rules say; `exec --add-dir DIR` adds a folder";

fn wrong(why: impl Into<String>) -> Failed {
    (USAGE, why.into())
}

fn preset_of(config: &Config) -> Preset {
    config.permissions.default.unwrap_or_default()
}

/// A rule of the list. One that was learned has a number, by which it is taken back.
#[derive(Serialize)]
struct Listed {
    number: Option<usize>,
    decision: &'static str,
    rule: String,
    origin: String,
}

fn list(config: &Config, format: ListFormat) -> Result<String, Failed> {
    let row = |number: Option<usize>, decision: Decision, rule: &Rule| Listed {
        number,
        decision: decision.word(),
        rule: rule.to_string(),
        origin: rule.origin().unwrap_or("built in").to_owned(),
    };
    let mut rows: Vec<Listed> =
        config.permissions.rules.iter().map(|(decision, rule)| row(None, decision, rule)).collect();
    if let Some(learned) = &config.permissions.learned {
        let rules = learned.load().map_err(|error| wrong(error.to_string()))?;
        rows.extend(rules.iter().enumerate().map(|(at, (decision, rule))| row(Some(at + 1), decision, rule)));
    }
    Ok(format.print(&rows, |rows| {
        let preset = preset_of(config);
        let mut out = hanging(&format!("preset {preset}: "), preset.about());
        for Listed { number, decision, rule, origin } in rows {
            let (number, learned) =
                number.map_or_else(Default::default, |number| (number.to_string(), "learned: "));
            let line = exact_line(&format!("{decision} {rule}  # {learned}{origin}"));
            out += &hanging(&format!("{number:>3}  "), &line);
        }
        if rows.iter().any(|row| row.number.is_some()) {
            note(
                "a rule with a number was decided for always in this folder; to take it back: tieline config permissions remove NUMBER",
            );
        }
        out
    }))
}

/// What would happen, and why.
#[derive(Serialize)]
struct Tested {
    action: String,
    /// Whether it would happen in the sandbox.
    sandboxed: bool,
    outcome: &'static str,
    reasons: Vec<String>,
}

impl Tested {
    fn new(action: &str, sandboxed: bool, verdict: &Verdict) -> Self {
        Self { action: action.to_owned(), sandboxed, outcome: outcome(verdict.decision), reasons: reasons(verdict) }
    }

    fn text(&self) -> String {
        let Self { action, outcome, reasons, .. } = self;
        let place = if self.sandboxed { " (in the sandbox)" } else { "" };
        let nobody = if *outcome == "asked" { " (refused where nobody can be asked)" } else { "" };
        let head = format!("{action}{place}: {outcome}{nobody}\n");
        reasons.iter().fold(head, |text, reason| text + "  " + &exact_line(reason) + "\n")
    }
}

fn test(config: &Config, sources: &Sources, what: &str, preset: Option<Preset>) -> Result<Vec<Tested>, Failed> {
    let roots = Roots::new(&sources.cwd, [] as [&std::path::Path; 0]).map_err(|error| wrong(error.to_string()))?;
    let facts = Facts::of_line(what, &roots).map_err(wrong)?;
    let limits = Limits::handed_over().map_err(wrong)?;
    let engine = Engine::load(preset.unwrap_or(preset_of(config)), &config.permissions, &limits)
        .map_err(|error| wrong(error.to_string()))?;
    let line = facts.lines().first().cloned().unwrap_or_default();
    let plain = engine.judge(facts.subject());
    let mut tested = vec![Tested::new(&line, false, &plain)];
    let sandboxed = engine.judge(facts.clone().in_sandbox().subject());
    // The sandbox keeps commands from changing it, so that these run without that guard, and count as if there were no sandbox.
    let versions = |action: &Action| matches!(action, Action::Execute { command, .. } if keeps_versions(command));
    if facts.actions().iter().any(versions) {
        tested[0].reasons.push(KEEPS_VERSIONS.to_owned());
    } else if sandboxed.decision != plain.decision {
        tested.push(Tested::new(&line, true, &sandboxed));
    }
    let here = facts.actions().iter().all(|action| match action {
        Action::Read(at) | Action::Write(at) | Action::Delete(at) => at.is_inside(),
        Action::Move { from, to } => from.is_inside() && to.is_inside(),
        _ => true,
    });
    if !here && plain.decision < Decision::Deny {
        let asks = format!("an agent with tools of its own that asks first: {}", outcome(plain.decision));
        let reasons = [OUTSIDE.to_owned(), asks].into_iter().chain(reasons(&plain)).collect();
        tested = vec![Tested { action: line.clone(), sandboxed: false, outcome: "refused", reasons }];
    }
    for action in facts.actions() {
        let Action::Execute { command, .. } = action else { continue };
        for (name, rule) in engine.unseen(command, &roots) {
            let from = rule.origin().unwrap_or("built in");
            let why = format!("`{name}` is hidden from commands in the sandbox by the rule `deny {rule}`, {from}");
            for one in &mut tested {
                one.reasons.push(why.clone());
            }
        }
    }
    // Of what happens outside of the sandbox, which is told first.
    if let (Some((rule, why)), Some(first)) = (engine.wonder(facts.subject()), tested.first_mut()) {
        first.reasons.push(format!("the rule `allow {rule}` does not count here: {why}"));
    }
    Ok(tested)
}

fn outcome(decision: Decision) -> &'static str {
    match decision {
        Decision::Allow => "allowed",
        Decision::Ask => "asked",
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
