//! The permission engine: deny, ask, allow, then the policy; one for questions of the agent, for files and for terminals.
//!
//! Rules and policies look at [`Facts`], never at titles. What they leave open goes to a [`Decider`]: a person, or
//! [`Headless`] where there is none. Every decision becomes a [`Record`].

mod choice;
mod facts;
mod record;

pub(crate) use choice::exactly;
pub use choice::{Chosen, allow, refuse};
pub use facts::Facts;
pub(crate) use facts::{of_words, real};
pub use record::{By, Record, Ruling};
use tieline::rpc::sync::Lock;

use crate::{Future, sanitize};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};
use std::time::Instant;
use tieline::schema::{PermissionOption, PermissionSubject, SessionId, ToolCallUpdate};
use tieline_host::rules::{Action, Because, Config, Decision, Rule, Rules};

/// What happens where no rule says anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// Everything is asked, reading too.
    Ask,
    /// Reading in the workspace is allowed; the rest is asked.
    #[default]
    AllowReads,
    /// Changing files in the workspace is allowed too; the rest is asked.
    AllowEdits,
    /// Everything is allowed that no rule forbids or asks for.
    AllowAll,
    /// Everything is refused, whatever the rules allow.
    DenyAll,
}

impl Policy {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Ask, Self::AllowReads, Self::AllowEdits, Self::AllowAll, Self::DenyAll];

    /// The name, as in options of the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::AllowReads => "allow-reads",
            Self::AllowEdits => "allow-edits",
            Self::AllowAll => "allow-all",
            Self::DenyAll => "deny-all",
        }
    }

    fn default_for(self, action: &Action) -> Decision {
        let (inside, reads) = match action {
            Action::Read(path) => (path.is_inside(), true),
            Action::Write(path) | Action::Delete(path) => (path.is_inside(), false),
            Action::Move { from, to } => (from.is_inside() && to.is_inside(), false),
            Action::Execute { .. } | Action::Fetch(_) | Action::Mcp { .. } => (false, false),
        };
        match self {
            Self::AllowReads if inside && reads => Decision::Allow,
            Self::AllowEdits if inside => Decision::Allow,
            other => other.otherwise(),
        }
    }

    /// What happens to what can't be told.
    fn otherwise(self) -> Decision {
        match self {
            Self::AllowAll => Decision::Allow,
            Self::DenyAll => Decision::Deny,
            _ => Decision::Ask,
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Policy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = Self::ALL.map(Self::name).join(", ");
        let found = Self::ALL.into_iter().find(|policy| policy.name() == text);
        found.ok_or_else(|| format!("there is no policy `{text}`; there are {all}"))
    }
}

/// The rules that are built in. They take a while to make, so they are made once.
static PROTECTED: LazyLock<Config> = LazyLock::new(Config::protected);

/// What the engine says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Allow, ask or deny.
    pub decision: Decision,
    /// Where that comes from; meant for a decision that stands, so never a person.
    pub by: By,
}

/// The rules and the policy. What a person decides for always is added while it runs.
#[derive(Debug)]
pub struct Engine {
    policy: Policy,
    rules: Arc<Rules>,
    /// What was decided for always. It holds as long as the engine, also against rules that ask.
    learned: Mutex<Rules>,
}

impl Engine {
    /// A policy and the rules of the configuration. Unless everything is allowed, the rules that protect what runs by
    /// itself later (version control, editor and shell settings) come on top.
    pub fn new(policy: Policy, config: Config) -> Self {
        let config = if policy == Policy::AllowAll { config } else { config.and(PROTECTED.clone()) };
        Self { policy, rules: Arc::new(Rules::new(config)), learned: Mutex::default() }
    }

    /// The policy.
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// The rules of the configuration.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    fn learned(&self) -> MutexGuard<'_, Rules> {
        self.learned.locked()
    }

    /// Judges what is about to happen: the strictest of what its parts get.
    pub fn judge(&self, facts: &Facts) -> Verdict {
        let (rules, learned) = (&self.rules, self.learned());
        let mut verdict = Verdict { decision: Decision::Allow, by: By::Policy(self.policy) };
        let mut stricter = |decision: Decision, by: By| {
            if decision > verdict.decision || (decision == verdict.decision && matches!(verdict.by, By::Policy(_))) {
                verdict = Verdict { decision, by };
            }
        };
        for action in facts.actions() {
            let default = self.policy.default_for(action);
            let mut one = rules.decide_or(action, default);
            let said = learned.decide_or(action, one.decision);
            if matches!(
                (said.decision, one.decision),
                (Decision::Deny, Decision::Allow | Decision::Ask) | (Decision::Allow, Decision::Ask)
            ) {
                one = said;
            }
            stricter(one.decision, self.by(one.decision, &one.because));
        }
        for action in facts.mentioned() {
            // Only told in passing: rules can hold it back, but nothing follows from it otherwise.
            let one = rules.decide_or(&action, Decision::Allow);
            if one.decision > Decision::Allow {
                stricter(one.decision, self.by(one.decision, &one.because));
            }
        }
        // Whoever said `always` is not asked again, even if something is mentioned that a rule asks about.
        let always = |action: &Action| learned.decide_or(action, Decision::Ask).decision == Decision::Allow;
        if verdict.decision == Decision::Ask && !facts.actions().is_empty() && facts.actions().iter().all(always) {
            let by = learned.decide_or(&facts.actions()[0], Decision::Ask).because;
            verdict = Verdict { decision: Decision::Allow, by: self.by(Decision::Allow, &by) };
        }
        let mut stricter = |decision: Decision, by: By| {
            if decision > verdict.decision {
                verdict = Verdict { decision, by };
            }
        };
        if !facts.is_understood() {
            stricter(self.policy.otherwise(), By::Policy(self.policy));
        }
        if self.policy == Policy::DenyAll && verdict.decision < Decision::Deny {
            verdict = Verdict { decision: Decision::Deny, by: By::Policy(self.policy) };
        }
        verdict
    }

    fn by(&self, decision: Decision, because: &Because) -> By {
        let word = match decision {
            Decision::Allow => "allow",
            Decision::Ask => "ask",
            Decision::Deny => "deny",
        };
        match because {
            Because::Rules(rules) => {
                let rules: Vec<_> = rules.iter().map(|rule| format!("{word} {rule}")).collect();
                By::Rule(rules.join("; "))
            }
            Because::Unclear(why) => By::Unclear((*why).to_owned()),
            Because::Default | Because::Mode => By::Policy(self.policy),
        }
    }

    /// The rules that say what is about to happen and as little else as possible; none if no rules can.
    pub fn narrowest(facts: &Facts) -> Vec<Rule> {
        let rules: Option<Vec<Rule>> = facts.actions().iter().map(Rule::narrowest).collect();
        rules.filter(|_| facts.is_understood()).unwrap_or_default()
    }

    /// Makes what was decided last: gives the rules that were added, or nothing if no rule can say it.
    pub fn learn(&self, decision: Decision, facts: &Facts) -> Vec<Rule> {
        let rules = Self::narrowest(facts);
        let mut learned = self.learned();
        let mut config = learned.config().clone();
        for rule in &rules {
            config.add(decision, rule.clone());
        }
        *learned = Rules::new(config);
        rules
    }

    /// The rules that would allow it if they were in the configuration; none if that takes more than rules.
    pub(crate) fn missing(&self, facts: &Facts) -> Vec<Rule> {
        // Nobody types more of them.
        if facts.actions().len() > 10 {
            return Vec::new();
        }
        let rules = Self::narrowest(facts);
        let mut config = self.rules.config().clone();
        for rule in &rules {
            config.add(Decision::Allow, rule.clone());
        }
        let with = Self { policy: self.policy, rules: Arc::new(Rules::new(config)), learned: Mutex::default() };
        if with.judge(facts).decision == Decision::Allow { rules } else { Vec::new() }
    }

    /// Why a rule that seems to allow a command does not, in words.
    pub fn wonder(&self, facts: &Facts) -> Option<String> {
        let (rule, why) = facts.actions().iter().find_map(|action| self.rules.seems_allowed(action))?;
        Some(sanitize::exact_line(&format!("the rule `allow {rule}` does not count here: {why}")))
    }
}

/// What a person is asked.
#[derive(Debug, Clone)]
pub struct Question {
    /// Which session.
    pub session: SessionId,
    /// The method that asks: `session/request_permission`, `fs/…` or `terminal/create`.
    pub method: &'static str,
    /// The agent's own words; to be shown as such, and made safe first.
    pub title: String,
    /// More of them.
    pub description: Option<String>,
    /// What would happen, one line each, safe to show. Empty if the agent does not say.
    pub facts: Vec<String>,
    /// The tool call it is about, with its diffs.
    pub call: Option<ToolCallUpdate>,
    /// What it is about, if that is no tool call.
    pub subject: Option<PermissionSubject>,
    /// What can be answered; empty for files and terminals, where it is yes or no.
    pub options: Vec<PermissionOption>,
    /// The rules that an answer for always would add, in words. They hold as long as the services.
    pub always: Vec<String>,
    /// Why it is asked: the rule, or the policy.
    pub because: By,
    /// Why a rule that seems to allow it does not, in words that are safe to show.
    pub hint: Option<String>,
    /// Since when it waits.
    pub since: Instant,
}

/// What a person, or who stands in for one, answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Yes, this time.
    Allow,
    /// Yes, and the same from now on.
    AllowAlways,
    /// No, this time.
    Refuse,
    /// No, and the same from now on.
    RefuseAlways,
    /// Exactly this one of the offered options.
    Option(String),
    /// No; and nobody was there to be asked.
    Nobody,
}

/// Decides what the rules leave open. A question that is not wanted any more is dropped with its future.
pub trait Decider: Send + Sync + 'static {
    /// Answers a question. Only one is open at a time.
    fn decide<'a>(&'a self, question: &'a Question) -> Future<'a, Answer>;

    /// Who decides, for the record: `terminal`, say.
    fn name(&self) -> &'static str {
        "person"
    }
}

/// What to do where nobody can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnAsk {
    /// Refuse and go on.
    #[default]
    Deny,
    /// Allow and go on.
    Allow,
    /// Refuse, and say so in a way that ends the run: [`Record::nobody`] is set.
    Fail,
}

/// The name of the decider where there is no person.
pub const NOBODY: &str = "nobody";

/// The decider where there is no person.
#[derive(Debug, Clone, Copy, Default)]
pub struct Headless {
    /// What it answers.
    pub on_ask: OnAsk,
}

impl Decider for Headless {
    fn decide<'a>(&'a self, _: &'a Question) -> Future<'a, Answer> {
        let answer = match self.on_ask {
            OnAsk::Deny => Answer::Refuse,
            OnAsk::Allow => Answer::Allow,
            OnAsk::Fail => Answer::Nobody,
        };
        Box::pin(std::future::ready(answer))
    }

    fn name(&self) -> &'static str {
        NOBODY
    }
}
