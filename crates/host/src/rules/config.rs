//! Rules as they stand in a configuration file.

use super::{Decision, rule::Rule};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Arc;

/// Three lists of rules. In TOML:
///
/// ```toml
/// allow = ["write src/**", "run cargo test *", "run git status"]
/// ask = ["write **/Cargo.toml"]
/// deny = ["read **/.env", "run git push *"]
/// ```
///
/// A list or rule that isn't understood is an error: a rule that silently does nothing is worse than none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// What may happen at once.
    #[serde(default)]
    pub allow: Vec<Rule>,
    /// What is asked, even if a rule allows it.
    #[serde(default)]
    pub ask: Vec<Rule>,
    /// What never happens.
    #[serde(default)]
    pub deny: Vec<Rule>,
}

/// A configuration that can't be read; the text says where and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadConfig(String);

impl BadConfig {
    pub(super) fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

impl Config {
    /// Reads TOML.
    pub fn parse(text: &str) -> Result<Self, BadConfig> {
        toml::from_str(text).map_err(|error| {
            // Not the line itself, which the parser would show: a rule may name what nobody else should read.
            let line =
                error.span().map_or(0, |span| text.get(..span.start).unwrap_or_default().matches('\n').count() + 1);
            BadConfig(format!("line {line}: {}", error.message()))
        })
    }

    /// Rules that ask before changing what runs by itself later: version control, editor and shell settings, hooks.
    pub fn protected() -> Self {
        // A rule that holds back writing also holds back deleting and moving.
        let rules = crate::later::names().filter_map(|path| format!("write **/{path}").parse().ok());
        let ask = rules.collect();
        Self { ask, ..Self::default() }
    }

    /// Only what holds back: all that a folder that isn't trusted may say.
    #[must_use]
    pub fn without_allow(mut self) -> Self {
        self.allow.clear();
        self
    }

    /// Says for which project they were written.
    pub(crate) fn written_for(&mut self, project: &Arc<Path>) {
        for rule in self.allow.iter_mut().chain(&mut self.ask).chain(&mut self.deny) {
            *rule = rule.clone().written_for(Arc::clone(project));
        }
    }

    /// Both together.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.allow.extend(other.allow);
        self.ask.extend(other.ask);
        self.deny.extend(other.deny);
        self
    }

    /// Adds a rule; false if it is there already.
    pub fn add(&mut self, decision: Decision, rule: Rule) -> bool {
        let list = self.list(decision);
        let new = !list.contains(&rule);
        if new {
            list.push(rule);
        }
        new
    }

    /// Removes a rule; false if it isn't there.
    pub fn remove(&mut self, decision: Decision, rule: &Rule) -> bool {
        let list = self.list(decision);
        let before = list.len();
        list.retain(|other| other != rule);
        list.len() < before
    }

    /// All rules with what they say, the strictest first.
    pub fn iter(&self) -> impl Iterator<Item = (Decision, &Rule)> {
        let lists = [(Decision::Deny, &self.deny), (Decision::Ask, &self.ask), (Decision::Allow, &self.allow)];
        lists.into_iter().flat_map(|(decision, rules)| rules.iter().map(move |rule| (decision, rule)))
    }

    fn list(&mut self, decision: Decision) -> &mut Vec<Rule> {
        match decision {
            Decision::Allow => &mut self.allow,
            Decision::Ask => &mut self.ask,
            Decision::Deny => &mut self.deny,
        }
    }
}
