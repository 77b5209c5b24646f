//! One decision from the request to its record: the engine, then perhaps a person.

use super::{Event, Services};
use crate::permission::{Answer, By, Chosen, Engine, Facts, Question, Record, Ruling, Verdict, allow, exactly, refuse};
use std::time::{Instant, SystemTime};
use tieline::PermissionOption;
use tieline::schema::{PermissionSubject, SessionId, ToolCallUpdate};
use tieline_host::files::Hash;
use tieline_host::rules::{Decision, Rule};

/// What is to be decided.
pub(super) struct Case {
    pub(super) session: SessionId,
    pub(super) method: &'static str,
    pub(super) title: String,
    pub(super) description: Option<String>,
    pub(super) subject: Option<PermissionSubject>,
    pub(super) options: Vec<PermissionOption>,
    pub(super) digest: Hash,
}

/// What was decided.
pub(super) struct Decided {
    pub(super) chosen: Chosen,
    /// Who decided, in words.
    pub(super) why: String,
}

/// A question that is dropped before it was answered was cancelled, and is recorded so.
struct Open<'s> {
    services: &'s Services,
    record: Option<Record>,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if let Some(record) = self.record.take() {
            self.services.tell(&Event::Decided(record));
        }
    }
}

impl Services {
    /// Decides. `show` gives the tool call that a person is shown; it is only asked for if there is a question.
    pub(super) async fn decide(
        &self,
        case: Case,
        facts: &Facts,
        show: impl AsyncFnOnce() -> Option<ToolCallUpdate>,
    ) -> Decided {
        let mut open = Open {
            services: self,
            record: Some(Record {
                session: case.session.as_str().to_owned(),
                method: case.method,
                facts: facts.lines().to_vec(),
                digest: case.digest,
                ruling: Ruling::Cancelled,
                by: By::Cancel,
                option: None,
                note: None,
                learned: Vec::new(),
                nobody: false,
                at: SystemTime::now(),
            }),
        };
        let (answer, by) = self.answer(&case, facts, show).await;
        let offered = &case.options[..];
        let is_question = case.method == "session/request_permission";
        let chosen = match &answer {
            Answer::Allow | Answer::AllowAlways if !is_question => yes(true),
            _ if !is_question => yes(false),
            Answer::Allow => allow(offered, false),
            Answer::AllowAlways => allow(offered, true),
            Answer::Refuse | Answer::Nobody => refuse(offered, false),
            Answer::RefuseAlways => refuse(offered, true),
            Answer::Option(id) => exactly(offered, id),
        };
        let learned = match &answer {
            Answer::AllowAlways if chosen.allows && !lasts(&chosen, offered) => {
                self.inner.engine.learn(Decision::Allow, facts)
            }
            Answer::RefuseAlways if !lasts(&chosen, offered) => self.inner.engine.learn(Decision::Deny, facts),
            _ => Vec::new(),
        };
        let why = by.to_string();
        if let Some(record) = &mut open.record {
            record.ruling = if chosen.allows { Ruling::Allowed } else { Ruling::Refused };
            record.by = by;
            record.option = chosen.outcome.chosen(offered).map(|option| option.option_id.clone());
            record.note.clone_from(&chosen.note);
            record.learned = learned.iter().map(Rule::to_string).collect();
            record.nobody = answer == Answer::Nobody;
        }
        if let Some(note) = &chosen.note {
            self.tell(&Event::Notice { session: Some(case.session.clone()), text: crate::sanitize::line(note) });
        }
        Decided { chosen, why }
    }

    async fn answer(
        &self,
        case: &Case,
        facts: &Facts,
        show: impl AsyncFnOnce() -> Option<ToolCallUpdate>,
    ) -> (Answer, By) {
        let engine = &self.inner.engine;
        let since = Instant::now();
        if let Some(settled) = settled(engine, facts) {
            return settled;
        }
        // One question at a time, in the order they came. What was answered meanwhile may settle this one too.
        let _turn = self.inner.asking.lock().await;
        if let Some(settled) = settled(engine, facts) {
            return settled;
        }
        let rules: Option<Vec<Rule>> = facts.actions().iter().map(Rule::narrowest).collect();
        let rules = rules.filter(|_| facts.is_understood()).unwrap_or_default();
        let question = Question {
            session: case.session.clone(),
            method: case.method,
            title: case.title.clone(),
            description: case.description.clone(),
            facts: facts.lines().to_vec(),
            call: show().await,
            subject: case.subject.clone(),
            options: case.options.clone(),
            always: rules.iter().map(Rule::to_string).collect(),
            because: engine.judge(facts).by,
            since,
        };
        let decider = &self.inner.decider;
        (decider.decide(&question).await, By::Decider(decider.name().to_owned()))
    }
}

/// What needs no question.
fn settled(engine: &Engine, facts: &Facts) -> Option<(Answer, By)> {
    let Verdict { decision, by } = engine.judge(facts);
    match decision {
        Decision::Allow => Some((Answer::Allow, by)),
        Decision::Deny => Some((Answer::Refuse, by)),
        Decision::Ask => None,
    }
}

fn yes(allows: bool) -> Chosen {
    Chosen { outcome: tieline::PermissionOutcome::cancelled(), allows, note: None }
}

/// Whether the agent itself was told that it is for always.
fn lasts(chosen: &Chosen, offered: &[PermissionOption]) -> bool {
    chosen.outcome.chosen(offered).is_some_and(|option| option.kind.as_str().ends_with("_always"))
}
