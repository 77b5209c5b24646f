//! One decision from the request to its record: the engine, then perhaps a person.

use super::{Event, Services};
use crate::permission::{
    Answer, By, Chosen, Engine, Facts, NOBODY, Question, Record, Ruling, Verdict, allow, exactly, refuse,
};
use crate::sanitize;
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
    /// The title of a call with which the same was allowed before.
    pub(super) before: Option<String>,
}

impl Case {
    /// The tool call that it is about.
    fn call(&self) -> Option<&str> {
        match &self.subject {
            Some(PermissionSubject::ToolCall(subject)) => Some(&subject.tool_call.tool_call_id),
            _ => None,
        }
    }
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
            self.services.tell(&Event::Decided(Box::new(record)));
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
                title: sanitize::exact_line(&case.title),
                call: case.call().map(str::to_owned),
                facts: facts.lines().to_vec(),
                digest: case.digest,
                ruling: Ruling::Cancelled,
                by: By::Cancel,
                option: None,
                note: None,
                hint: None,
                wanted: Vec::new(),
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
        // Also if the agent was told so: not every agent remembers.
        let engine = &self.inner.engine;
        let learned = match &answer {
            Answer::AllowAlways if chosen.allows => engine.learn(Decision::Allow, facts),
            Answer::RefuseAlways => engine.learn(Decision::Deny, facts),
            Answer::Option(_) if lasts(&chosen, offered) => {
                engine.learn(if chosen.allows { Decision::Allow } else { Decision::Deny }, facts)
            }
            _ => Vec::new(),
        };
        if chosen.allows {
            self.inner.grants.add(&case, facts);
        }
        let why = by.to_string();
        if let Some(record) = &mut open.record {
            let asked = matches!(by, By::Decider(_) | By::Policy(_) | By::Unclear(_));
            record.hint = engine.wonder(facts).filter(|_| asked && !chosen.allows);
            if by == By::Decider(NOBODY.to_owned()) && !chosen.allows {
                record.wanted = engine.missing(facts).iter().map(Rule::to_string).collect();
            }
            record.ruling = if chosen.allows { Ruling::Allowed } else { Ruling::Refused };
            record.by = by;
            record.option = chosen.outcome.chosen(offered).map(|option| option.option_id.clone());
            record.note.clone_from(&chosen.note);
            record.learned = learned.iter().map(Rule::to_string).collect();
            record.nobody = answer == Answer::Nobody;
        }
        if let Some(note) = &chosen.note {
            self.tell(&Event::Notice { session: Some(case.session.clone()), text: sanitize::exact_line(note) });
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
        if let Some(title) = &case.before {
            return (Answer::Allow, By::Before(title.clone()));
        }
        // One question at a time, in the order they came. What was answered meanwhile may settle this one too.
        let _turn = self.inner.asking.lock().await;
        if let Some(settled) = settled(engine, facts) {
            return settled;
        }
        let question = Question {
            session: case.session.clone(),
            method: case.method,
            title: case.title.clone(),
            description: case.description.clone(),
            facts: facts.lines().to_vec(),
            call: show().await,
            subject: case.subject.clone(),
            options: case.options.clone(),
            always: Engine::narrowest(facts).iter().map(Rule::to_string).collect(),
            because: engine.judge(facts).by,
            hint: engine.wonder(facts),
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
