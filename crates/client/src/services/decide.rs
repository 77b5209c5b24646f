//! One decision from the request to its record: the engine, then perhaps a person.

use super::grants::{Seen, Shown};
use super::{Event, Services};
use crate::permission::{
    Answer, By, Chosen, Engine, Facts, Keep, Kept, NOBODY, Question, Record, Ruling, allow, exactly, kept_by, refuse,
};
use crate::sanitize;
use std::time::Instant;
use tieline::schema::{Meta, PermissionSubject, SessionId, ToolCallUpdate};
use tieline::{PermissionOption, PermissionOutcome};
use tieline_host::files::Hash;
use tieline_host::rules::{Action, Because, Confined, Decision, KEEPS_VERSIONS, Preset, Rule, Verdict, keeps_versions};

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
    fn call(&self) -> Option<&ToolCallUpdate> {
        match &self.subject {
            Some(PermissionSubject::ToolCall(subject)) => Some(&subject.tool_call),
            _ => None,
        }
    }
}

/// What was decided.
pub(super) struct Decided {
    pub(super) chosen: Chosen,
    /// Who decided, in words.
    pub(super) why: String,
    /// The changes that a person was shown.
    pub(super) seen: Vec<Seen>,
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

/// What would help where no option allows it.
const NO_OPTION: &str = "no flag helps: the agent offers no option of a kind that allows it (allow_once, allow_always), which only it \
    can mend; `tieline check agent` shows what it sends";
/// The same where one does, for ever.
const ONLY_LASTING: &str = "no flag helps: the agent only offers to allow it for ever, which a person has to choose";

impl Services {
    /// Waits until whoever watches has shown what came before a question.
    pub(super) async fn told_before_asking(&self, session: &SessionId) {
        if self.inner.person.name() != NOBODY {
            for observer in &self.inner.observers {
                observer.asking(session).await;
            }
        }
    }

    /// Decides. `show` gives the changes that a person is shown; it is only asked for if there is a question.
    pub(super) async fn decide(&self, case: Case, facts: &Facts, show: impl AsyncFnOnce() -> Shown) -> Decided {
        let (mut title, mut lines) = (case.title.clone(), facts.lines().to_vec());
        if let (Some(stored), Some(line)) = (facts.stored_line(), lines.first_mut()) {
            (title, *line) = (stored.clone(), stored);
        }
        let asked = Record::new(&case.session, case.method, &title, lines, case.digest);
        let asked = Record { call: case.call().map(|call| call.tool_call_id.clone()), ..asked };
        let mut open = Open { services: self, record: Some(asked) };
        let (answer, by, seen) = self.answer(&case, facts, show).await;
        let offered = &case.options[..];
        let is_question = case.method == "session/request_permission";
        let mut chosen = match &answer {
            Answer::Allow | Answer::AllowFor(_) if !is_question => yes(true),
            _ if !is_question => yes(false),
            Answer::Allow => allow(offered, false),
            Answer::AllowFor(keep) => allow(offered, *keep == Keep::Always),
            Answer::Refuse | Answer::Nobody | Answer::RefuseFor(_) => refuse(offered),
            Answer::Option(id) => exactly(offered, id),
        };
        let engine = &self.inner.engine;
        // The agent keeps it in its own way; not every agent does, so that it holds here for this run too.
        let by_agent = matches!(answer, Answer::Option(_)) && lasts(&chosen, offered);
        let keep = match &answer {
            Answer::AllowFor(keep) if chosen.allows => Some(*keep),
            Answer::RefuseFor(keep) => Some(*keep),
            Answer::Option(_) if by_agent => Some(Keep::Run),
            _ => None,
        };
        let mut rules = keep.map(|_| self.lasting(&case, facts)).unwrap_or_default();
        if by_agent {
            // Who picked an option has read what that one keeps, and no more is kept.
            let meant = chosen.outcome.chosen(offered).map(kept_by).unwrap_or_default();
            rules.retain(|rule| meant.is_empty() || meant.contains(&rule.to_string()));
        }
        let kept = keep.filter(|_| !rules.is_empty()).map(|keep| self.learn(&case, keep, chosen.allows, &rules));
        let kept = if by_agent { Some(Kept::ByAgent) } else { kept };
        if chosen.allows && is_question {
            let title = sanitize::exact_line(&case.title);
            self.inner.grants.add(&case.session, &title, &seen);
            if matches!(by, By::Decider(_)) && facts.subject().unclear.is_none() {
                self.inner.grants.add_command(&case.session, &title, facts.lines());
            }
        }
        let why = by.to_string();
        if !chosen.allows {
            tell_who(&mut chosen.outcome, &by);
        }
        if let Some(record) = &mut open.record {
            let asked = matches!(by, By::Decider(_) | By::Preset(_) | By::Unclear(_));
            let unclear = || match engine.judge(facts.subject()).because {
                Because::Unclear(why) => Some(why.to_owned()),
                _ => None,
            };
            record.hint = hint(engine, facts).or_else(unclear).filter(|_| asked && !chosen.allows);
            if by == By::Decider(NOBODY.to_owned()) && !chosen.allows && facts.stored_line().is_none() {
                record.wanted = engine.missing(facts.subject()).iter().map(Rule::to_string).collect();
            }
            record.ruling = if chosen.allows { Ruling::Allowed } else { Ruling::Refused };
            record.by = by;
            record.option = chosen.outcome.chosen(offered).map(|option| option.option_id.clone());
            record.note.clone_from(&chosen.note);
            record.learned = rules.iter().map(Rule::to_string).collect();
            record.kept = kept;
            record.nobody = answer == Answer::Nobody;
            record.no_way = match offered.iter().any(|option| option.kind.allows()) {
                _ if !is_question || chosen.allows => None,
                false => Some(NO_OPTION),
                true => Some(ONLY_LASTING).filter(|_| answer == Answer::Allow),
            };
        }
        if let Some(note) = &chosen.note {
            self.tell(&Event::Notice { session: Some(case.session.clone()), text: sanitize::exact_line(note) });
        }
        Decided { chosen, why, seen }
    }

    /// Makes an answer last. What can't be stored holds for this run, and that is said.
    fn learn(&self, case: &Case, keep: Keep, allows: bool, rules: &[Rule]) -> Kept {
        let engine = &self.inner.engine;
        let decision = if allows { Decision::Allow } else { Decision::Deny };
        match (engine.learn(keep, decision, rules), engine.stored().1, keep) {
            (Ok(()), Some(place), Keep::Always) => Kept::always(place),
            (Ok(()), ..) => Kept::RunEnds,
            (Err(error), ..) => {
                let text =
                    sanitize::exact_line(&format!("it is not kept for always, only until this run ends: {error}"));
                self.tell(&Event::Notice { session: Some(case.session.clone()), text });
                Kept::RunEnds
            }
        }
    }

    async fn answer(&self, case: &Case, facts: &Facts, show: impl AsyncFnOnce() -> Shown) -> (Answer, By, Vec<Seen>) {
        let engine = &self.inner.engine;
        let since = Instant::now();
        if let Some((answer, by)) = self.settled(case, facts) {
            return (answer, by, Vec::new());
        }
        if let Some(title) = &case.before {
            return (Answer::Allow, By::Before(title.clone()), Vec::new());
        }
        // What was answered meanwhile may settle this one too.
        let turn = self.inner.person.turn(self.watching.as_deref()).await;
        if let Some((answer, by)) = self.settled(case, facts) {
            return (answer, by, Vec::new());
        }
        let shown = show().await;
        let question = Question {
            session: case.session.clone(),
            method: case.method,
            title: case.title.clone(),
            description: case.description.clone(),
            facts: facts.lines().to_vec(),
            call: case.call().cloned(),
            changes: shown.diffs,
            subject: case.subject.clone(),
            options: case.options.clone(),
            lasting: self.lasting(case, facts).iter().map(Rule::to_string).collect(),
            always: engine.stored().1.map(Kept::always),
            because: By::of(&engine.judge(facts.subject())),
            hints: shown.hints.into_iter().chain(hint(engine, facts)).chain(versions(engine, facts)).collect(),
            since,
        };
        let who = self.inner.person.name();
        self.told_before_asking(&case.session).await;
        let answer = turn.decide(&question).await;
        // Who was not asked is not blamed.
        let name = if answer == Answer::Nobody { NOBODY } else { who };
        (answer, By::Decider(name.to_owned()), shown.seen)
    }

    /// The rules that an answer that lasts adds. Our agent would keep them for its sandbox only; that allows less.
    fn lasting(&self, case: &Case, facts: &Facts) -> Vec<Rule> {
        if facts.stored_line().is_some() {
            return Vec::new();
        }
        self.in_its_sandbox(case, facts).unwrap_or_else(|| Engine::narrowest(facts.subject()))
    }

    /// The same rules for the sandbox, as far as our agent says that it holds the command. Nobody knows what another one has around it.
    fn in_its_sandbox(&self, case: &Case, facts: &Facts) -> Option<Vec<Rule>> {
        let ways = [Confined::Guarded, Confined::Unguarded, Confined::ReadOnly].into_iter();
        ways.filter(|_| self.inner.ours).find_map(|way| {
            let held = Engine::narrowest(facts.clone().held_by(way).subject());
            let meant = held.iter().map(Rule::to_string).collect::<Vec<_>>();
            case.options.iter().any(|option| kept_by(option) == meant).then_some(held)
        })
    }

    /// What needs no question.
    fn settled(&self, case: &Case, facts: &Facts) -> Option<(Answer, By)> {
        let engine = &self.inner.engine;
        let verdict = engine.judge(facts.subject());
        let answer = match verdict.decision {
            Decision::Allow => Answer::Allow,
            Decision::Deny => Answer::Refuse,
            Decision::Ask => {
                // The very question that was answered for this run; whether there is a sandbox was the agent's word then, too.
                let rules = self.in_its_sandbox(case, facts).filter(|rules| engine.is_answered(rules))?;
                let because = Because::Rules(rules);
                return Some((Answer::Allow, By::of(&Verdict { decision: Decision::Allow, because })));
            }
        };
        Some((answer, By::of(&verdict)))
    }
}

/// Why a rule that seems to allow a command does not, in words.
fn hint(engine: &Engine, facts: &Facts) -> Option<String> {
    let (rule, why) = engine.wonder(facts.subject())?;
    Some(sanitize::exact_line(&format!("the rule `allow {rule}` does not count here: {why}")))
}

/// Why a command is asked about though the preset lets commands run in the sandbox.
fn versions(engine: &Engine, facts: &Facts) -> Option<String> {
    let changes = |action: &Action| matches!(action, Action::Execute { command, .. } if keeps_versions(command));
    (engine.preset() == Preset::Auto && facts.actions().iter().any(changes)).then(|| KEEPS_VERSIONS.to_owned())
}

/// Adds to a no who said it, so that the agent blames nobody who was not asked.
fn tell_who(outcome: &mut PermissionOutcome, by: &By) {
    let who = match by {
        By::Decider(name) if name == NOBODY => "nobody could be asked".to_owned(),
        By::Decider(_) => "person".to_owned(),
        by => by.to_string(),
    };
    if let PermissionOutcome::Selected(selected) = outcome {
        selected.meta = Some(Meta(serde_json::json!({ "decidedBy": who }).into()));
    }
}

fn yes(allows: bool) -> Chosen {
    Chosen { outcome: tieline::PermissionOutcome::cancelled(), allows, note: None }
}

/// Whether the agent itself was told that it is for always.
fn lasts(chosen: &Chosen, offered: &[PermissionOption]) -> bool {
    chosen.outcome.chosen(offered).is_some_and(|option| option.kind.as_str().ends_with("_always"))
}
