//! Permission rules: what may happen at once, what is asked, what never happens.
//!
//! Rules look at facts (the resolved path, the words of a command, a host, a tool), never at titles. A rule that forbids
//! beats one that asks, which beats one that allows; their order means nothing. Rules that hold back match more readily
//! than rules that allow: in any case of letters, below a directory, in any command of a line. Still, a forbidden command
//! can be dressed up in ways no list foresees. The sandbox is the boundary; these rules decide when to ask.

mod action;
mod address;
mod config;
mod engine;
mod glob;
mod held;
mod hidden;
mod learned;
mod links;
mod preset;
mod rule;
mod runners;
mod shell;
mod versions;

pub use action::{Action, Confined, Host, Location};
pub use address::is_local;
pub use config::{BadConfig, Config};
pub use engine::{Engine, Keep, LEAVES_MODE, Limits, Says, Settings, Subject};
pub use hidden::hidden;
pub use learned::Learned;
pub use preset::Preset;
use rule::EXPOSED;
pub use rule::{BadRule, Rule, Topic};
pub use shell::CommandLine;
use shell::Word;
pub use versions::{KEEPS_VERSIONS, keeps_versions};

use std::fmt;

/// What to do about an action. The larger, the stricter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Decision {
    /// Do it.
    Allow,
    /// Ask the user. Where nobody can be asked, that is a no.
    Ask,
    /// Don't.
    Deny,
}

impl Decision {
    /// The word for it in configuration files.
    pub fn word(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

/// A decision and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The decision.
    pub decision: Decision,
    /// The reason.
    pub because: Because,
}

/// Where a decision comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Because {
    /// These rules. Several only where each allows one command of a line.
    Rules(Vec<Rule>),
    /// No rule.
    Default,
    /// No rule, or the preset allows no more than this.
    Preset(Preset),
    /// There are rules that hold commands back, and this command is not clear enough to tell whether they apply.
    Unclear(&'static str),
}

impl fmt::Display for Because {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rules(rules) => {
                let rules: Vec<&str> = rules.iter().map(Rule::text).collect();
                write!(f, "rule: {}", rules.join("; "))
            }
            Self::Default => f.write_str("no rule"),
            Self::Preset(preset) => write!(f, "preset {preset}"),
            Self::Unclear(why) => write!(f, "the command can't be checked against the rules: {why}"),
        }
    }
}

/// A set of rules, ready to decide.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    config: Config,
}

impl Rules {
    /// The rules of a configuration.
    pub fn new(config: Config) -> Self {
        Self { config }
    }

    /// The configuration they come from.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Whether rules allow it, whatever others say.
    pub(crate) fn allows(&self, action: &Action) -> bool {
        allowed(&self.config.allow.iter().collect::<Vec<_>>(), action)
    }

    /// Decides by the rules, otherwise by `default`.
    pub fn decide_or(&self, action: &Action, default: Decision) -> Verdict {
        let Config { allow, ask, deny } = &self.config;
        for (rules, decision) in [(deny, Decision::Deny), (ask, Decision::Ask)] {
            // The first by its text, so that the order doesn't show.
            if let Some(rule) = rules.iter().filter(|rule| rule.holds(action)).min_by_key(|rule| rule.text()) {
                return Verdict { decision, because: Because::Rules(vec![rule.clone()]) };
            }
        }
        let mut allow: Vec<&Rule> = allow.iter().collect();
        allow.sort_by_key(|rule| rule.text());
        if let Some(rules) = allowing(&allow, action) {
            let because = Because::Rules(rules.into_iter().cloned().collect());
            return Verdict { decision: Decision::Allow, because };
        }
        if let Action::Execute { command, .. } = action
            && default < Decision::Ask
        {
            let held = || deny.iter().chain(ask).any(|rule| rule.topic() == Topic::Commands);
            let why = if command.is_exposed() { Some(EXPOSED) } else { command.complex().filter(|_| held()) };
            if let Some(why) = why {
                return Verdict { decision: Decision::Ask, because: Because::Unclear(why) };
            }
        }
        Verdict { decision: default, because: Because::Default }
    }
}

impl Rules {
    /// Why a command is not allowed although a rule that allows seems to be meant for it: that rule, and the reason. For people who
    /// wonder.
    pub fn seems_allowed(&self, action: &Action) -> Option<(&Rule, String)> {
        let Action::Execute { command, .. } = action else { return None };
        let rules: Vec<&Rule> = self.config.allow.iter().collect();
        if allowed(&rules, action) {
            return None;
        }
        let rule = rules.iter().filter(|rule| rule.holds(action)).min_by_key(|rule| rule.text())?;
        if let Some(why) = command.complex() {
            return Some((rule, why.to_owned()));
        }
        if let Some(why) = rule.stops_at(action) {
            return Some((rule, why.to_owned()));
        }
        let allows =
            |words: &[Word]| rules.iter().any(|rule| rule.stops_at(action).is_none() && rule.allows_command(words));
        let Some(other) = command.words().iter().find(|words| !allows(words)) else {
            return Some((rule, "what follows a `cd` runs in another folder, where only `run *` counts".to_owned()));
        };
        let words: Vec<String> = other.iter().map(Word::quoted).collect();
        Some((rule, format!("no rule allows its part `{}`", words.join(" "))))
    }
}

/// The rules that together allow an action.
fn allowing<'a>(rules: &[&'a Rule], action: &Action) -> Option<Vec<&'a Rule>> {
    if let Some(rule) = rules.iter().find(|rule| rule.allows(action)) {
        return Some(vec![rule]);
    }
    let Action::Execute { command, .. } = action else { return None };
    if command.unread().is_some() || command.words().is_empty() {
        return None;
    }
    let mut found: Vec<&Rule> = Vec::new();
    let mut elsewhere = false;
    for words in command.words() {
        let counts = |rule: &&&Rule| rule.stops_at(action).is_none() && (!elsewhere || rule.is_for_any_words());
        let rule = *rules.iter().filter(counts).find(|rule| rule.allows_command(words))?;
        if !found.contains(&rule) {
            found.push(rule);
        }
        elsewhere |= goes_elsewhere(words);
    }
    Some(found)
}

/// Whether what follows a command in the same line runs in another folder.
fn goes_elsewhere(words: &[Word]) -> bool {
    words.first().is_some_and(|word| ["cd", "chdir", "pushd", "popd"].contains(&word.text.as_str()))
}

fn allowed(rules: &[&Rule], action: &Action) -> bool {
    allowing(rules, action).is_some()
}
