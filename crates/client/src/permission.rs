//! Permission in a client: what an agent asks becomes [`Facts`], the one engine judges them, a person decides what it leaves open.
//!
//! Rules and presets look at facts, never at titles. What they leave open goes to a [`Decider`]: a person, or [`Headless`]
//! where there is none. Every decision becomes a [`Record`].

mod choice;
mod facts;
mod record;

pub use choice::{Chosen, allow, refuse};
pub(crate) use choice::{exactly, kept_by};
pub use facts::Facts;
pub(crate) use facts::{MAX_PATHS, of_words, real};
pub(crate) use record::way_out;
pub use record::{By, Kept, Record, Ruling};
pub use tieline_host::rules::{Engine, Keep, Preset};

use crate::Future;
use std::time::Instant;
use tieline::schema::{Diff, PermissionOption, PermissionOptionKind, PermissionSubject, SessionId, ToolCallUpdate};

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
    /// The tool call it is about, in the agent's own words, its diffs included: they may be made up.
    pub call: Option<ToolCallUpdate>,
    /// What would change, against the files as they are. A yes covers just that.
    pub changes: Vec<Diff>,
    /// What it is about, if that is no tool call.
    pub subject: Option<PermissionSubject>,
    /// What can be answered; empty for files and terminals, where it is yes or no.
    pub options: Vec<PermissionOption>,
    /// The rules that an answer that lasts would add, in words.
    pub lasting: Vec<String>,
    /// What becomes of them if the answer is for always; `None` if there is no place to keep it.
    pub always: Option<Kept>,
    /// Why it is asked: the rule, or the preset.
    pub because: By,
    /// What to mind, in words that are safe to show: why a rule that seems to allow it does not, what is odd about a change.
    pub hints: Vec<String>,
    /// Since when it waits.
    pub since: Instant,
}

impl Question {
    /// Our own answers in the order in which they are numbered wherever a person is asked; the other options of the agent come behind
    /// them. The second no is the one whose reason follows.
    pub fn answers(&self) -> Vec<Answer> {
        let lasts = !self.lasting.is_empty();
        let stored = lasts && self.always.is_some();
        let all = [
            (true, Answer::Allow),
            (lasts, Answer::AllowFor(Keep::Run)),
            (stored, Answer::AllowFor(Keep::Always)),
            (true, Answer::Refuse),
            (true, Answer::Refuse),
            (stored, Answer::RefuseFor(Keep::Always)),
        ];
        all.into_iter().filter(|(there, _)| *there).map(|(_, answer)| answer).collect()
    }

    /// The options that say something else than yes, no, and what is kept here: the others are picked by those answers.
    pub fn other_options(&self) -> Vec<&PermissionOption> {
        let first = |kind| self.options.iter().position(|option| option.kind == kind);
        let ours = [first(PermissionOptionKind::AllowOnce), first(PermissionOptionKind::RejectOnce)];
        let lasts = self.always.is_some() && !self.lasting.is_empty();
        let same = |option: &PermissionOption| {
            let kept = kept_by(option);
            lasts
                && kept.iter().all(|rule| self.lasting.contains(rule))
                && self.lasting.iter().all(|rule| kept.contains(rule))
        };
        let others = self.options.iter().enumerate().filter(|(at, option)| !ours.contains(&Some(*at)) && !same(option));
        others.map(|(_, option)| option).collect()
    }

    /// What an option of the agent does, in our words. One that lasts holds here until the run ends, too, which is called `run`.
    pub fn option_words(&self, option: &PermissionOption, run: &str) -> String {
        let run = if self.lasting.is_empty() { String::new() } else { format!(" {run}") };
        match &option.kind {
            PermissionOptionKind::AllowOnce => "yes, once".to_owned(),
            PermissionOptionKind::AllowAlways => format!("yes{run}, and the agent keeps it"),
            PermissionOptionKind::RejectOnce => "no".to_owned(),
            PermissionOptionKind::RejectAlways => format!("no{run}, and the agent keeps it"),
            PermissionOptionKind::Other(_) => "neither yes nor no".to_owned(),
        }
    }
}

/// What a person, or who stands in for one, answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Yes, this time.
    Allow,
    /// Yes, and the same until this run ends or for always.
    AllowFor(Keep),
    /// No, this time.
    Refuse,
    /// No, and the same until this run ends or for always.
    RefuseFor(Keep),
    /// Exactly this one of the offered options.
    Option(String),
    /// No; and nobody was there to be asked.
    Nobody,
}

/// Decides what the rules leave open. A question that is not wanted any more is dropped with its future.
pub trait Decider: Send + Sync + 'static {
    /// Answers a question.
    fn decide<'a>(&'a self, question: &'a Question) -> Future<'a, Answer>;

    /// Who decides, for the record: `terminal`, say.
    fn name(&self) -> &'static str {
        "person"
    }

    /// So many questions may be open at once, forms and pages among them.
    fn at_once(&self) -> usize {
        1
    }
}

/// What to do where nobody can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnAsk {
    /// Refuse and go on.
    #[default]
    Deny,
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
            OnAsk::Fail => Answer::Nobody,
        };
        Box::pin(std::future::ready(answer))
    }

    fn name(&self) -> &'static str {
        NOBODY
    }
}
