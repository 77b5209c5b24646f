//! Permission rules: what may happen at once, what is asked, what never happens.
//!
//! Rules look at facts (the resolved path, the words of a command, a host, a tool), never at titles. A rule that forbids
//! beats one that asks, which beats one that allows; their order means nothing. Rules that hold back match more readily
//! than rules that allow: in any case of letters, below a directory, in any command of a line. Still, a forbidden command
//! can be dressed up in ways no list foresees. The sandbox is the boundary; these rules decide when to ask.

mod action;
mod address;
mod config;
mod glob;
mod hidden;
mod rule;
mod runners;
mod shell;

pub use action::{Action, Host, Location};
pub use address::is_local;
pub use config::{BadConfig, Config};
pub use hidden::hidden;
pub use rule::{BadRule, Rule};
pub use shell::CommandLine;
use shell::Word;

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

/// How freely the agent works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Reads in the workspace; asks for everything else.
    Ask,
    /// Changes no file, whatever the rules allow; asks before each command; calls MCP tools only where a rule allows it.
    Plan,
    /// Also changes files in the workspace.
    Edit,
    /// Also runs commands that a sandbox keeps in the workspace.
    Auto,
}

impl Mode {
    /// What happens where no rule says anything.
    pub fn default_for(self, action: &Action) -> Decision {
        let inside = match action {
            Action::Read(path) | Action::Write(path) | Action::Delete(path) => path.is_inside(),
            Action::Move { from, to } => from.is_inside() && to.is_inside(),
            Action::Execute { sandboxed, .. } => *sandboxed,
            Action::Fetch(_) | Action::Mcp { .. } => false,
        };
        let free = match action {
            Action::Read(_) => true,
            Action::Execute { .. } => self == Self::Auto,
            _ => matches!(self, Self::Edit | Self::Auto),
        };
        // What a tool of a server does nobody knows, whatever the server says about it.
        if self == Self::Plan && matches!(action, Action::Mcp { .. }) {
            return Decision::Deny;
        }
        if inside && free { Decision::Allow } else { Decision::Ask }.max(self.at_least(action))
    }

    /// What no rule can loosen.
    fn at_least(self, action: &Action) -> Decision {
        match (self, action) {
            (Self::Plan, Action::Write(_) | Action::Delete(_) | Action::Move { .. }) => Decision::Deny,
            (Self::Plan, Action::Execute { .. }) => Decision::Ask,
            _ => Decision::Allow,
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
    /// No rule; the mode's default.
    Default,
    /// The mode allows no more than this.
    Mode,
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
            Self::Mode => f.write_str("the mode"),
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

    /// Decides for a mode: by the rules, otherwise by the mode's default, and never more loosely than the mode allows.
    pub fn decide(&self, action: &Action, mode: Mode) -> Verdict {
        let default = mode.default_for(action);
        let verdict = self.decide_or(action, default);
        // A rule that asks holds back; only one that allows loosens what the mode refuses.
        let allow: Vec<&Rule> = self.config.allow.iter().collect();
        let least = if default == Decision::Deny && !allowed(&allow, action) { default } else { mode.at_least(action) };
        if verdict.decision < least || (least == Decision::Deny && verdict.because == Because::Default) {
            return Verdict { decision: least, because: Because::Mode };
        }
        verdict
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
            && let Some(why) = command.complex()
            && default < Decision::Ask
            && deny.iter().chain(ask).any(Rule::is_about_commands)
        {
            return Verdict { decision: Decision::Ask, because: Because::Unclear(why) };
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
        let other = command.words().iter().find(|words| !rules.iter().any(|rule| rule.allows_command(words)))?;
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
    if command.complex().is_some() || command.words().is_empty() {
        return None;
    }
    let mut found: Vec<&Rule> = Vec::new();
    for words in command.words() {
        let rule = *rules.iter().find(|rule| rule.allows_command(words))?;
        if !found.contains(&rule) {
            found.push(rule);
        }
    }
    Some(found)
}

fn allowed(rules: &[&Rule], action: &Action) -> bool {
    allowing(rules, action).is_some()
}
