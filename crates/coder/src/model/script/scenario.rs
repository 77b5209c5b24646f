//! The form of a scenario: turns, their answers, and when an answer is chosen.

use super::step::{RawStep, Step};
use crate::model::ToolResult;
use serde::Deserialize;
use std::sync::Arc;
use toml::Spanned;

/// How large a context is if the scenario does not say.
const CONTEXT: u64 = 200_000;

/// Something wrong, and where.
#[derive(Debug)]
pub(super) struct Flaw {
    pub(super) at: usize,
    pub(super) message: String,
}

impl Flaw {
    fn new(at: usize, message: impl Into<String>) -> Self {
        Self { at, message: message.into() }
    }
}

/// A whole scenario.
#[derive(Debug)]
pub(super) struct Scenario {
    pub(super) context: u64,
    pub(super) turns: Vec<Turn>,
    /// Played if no turn is left for a prompt.
    pub(super) fallback: Option<Turn>,
}

/// A scenario as it stands in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawScenario {
    context: Option<u64>,
    #[serde(default)]
    turn: Vec<Spanned<RawTurn>>,
    fallback: Option<Spanned<RawTurn>>,
}

impl Scenario {
    pub(super) fn new(raw: RawScenario) -> Result<Self, Flaw> {
        if raw.turn.is_empty() && raw.fallback.is_none() {
            return Err(Flaw::new(0, "a scenario needs at least one `[[turn]]`"));
        }
        if let Some(fallback) = raw.fallback.as_ref().filter(|fallback| fallback.get_ref().prompt.is_some()) {
            let message = "`fallback` can't have a `prompt`: it is for those that no turn matches";
            return Err(Flaw::new(fallback.span().start, message));
        }
        Ok(Self {
            context: raw.context.unwrap_or(CONTEXT),
            turns: raw.turn.into_iter().map(Turn::new).collect::<Result<_, _>>()?,
            fallback: raw.fallback.map(Turn::new).transpose()?,
        })
    }
}

/// What happens after one prompt.
#[derive(Debug)]
pub(super) struct Turn {
    /// Which prompts it is for; none means all.
    pub(super) prompt: Option<String>,
    pub(super) answers: Vec<Answer>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTurn {
    prompt: Option<String>,
    steps: Option<Vec<Spanned<RawStep>>>,
    answer: Option<Vec<Spanned<RawAnswer>>>,
}

impl Turn {
    fn new(raw: Spanned<RawTurn>) -> Result<Self, Flaw> {
        let at = raw.span().start;
        let raw = raw.into_inner();
        let answers = match (raw.steps, raw.answer) {
            (Some(steps), None) => vec![Answer { steps: all(steps)?, when: When::default(), again: false }],
            (None, Some(answers)) => answers.into_iter().map(Answer::new).collect::<Result<Vec<_>, _>>()?,
            (Some(_), Some(_)) => return Err(Flaw::new(at, "a turn has either `steps` or `answer`, not both")),
            (None, None) => return Err(Flaw::new(at, "a turn needs `steps` or at least one `answer`")),
        };
        if answers.first().is_some_and(|answer| answer.when.retry) {
            let message = "the first `answer` can't have `when.retry`: nothing failed before it";
            return Err(Flaw::new(at, message));
        }
        Ok(Self { prompt: raw.prompt, answers })
    }
}

/// One answer of the model.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) steps: Arc<[Step]>,
    pub(super) when: When,
    /// Played again and again as long as `when` fits.
    pub(super) again: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawAnswer {
    #[serde(default)]
    when: When,
    #[serde(default)]
    again: bool,
    #[serde(default)]
    steps: Vec<Spanned<RawStep>>,
}

impl Answer {
    fn new(raw: Spanned<RawAnswer>) -> Result<Self, Flaw> {
        let raw = raw.into_inner();
        Ok(Self { steps: all(raw.steps)?, when: raw.when, again: raw.again })
    }

    /// True if it ends without being complete.
    pub(super) fn fails(&self) -> bool {
        self.steps.last().is_some_and(Step::fails)
    }
}

/// All steps of an answer.
fn all(raw: Vec<Spanned<RawStep>>) -> Result<Arc<[Step]>, Flaw> {
    let mut steps: Vec<Step> = Vec::with_capacity(raw.len());
    for step in raw {
        let at = step.span().start;
        if steps.last().is_some_and(Step::is_last) {
            return Err(Flaw::new(at, "no step can come here: the one before ends the answer"));
        }
        steps.push(Step::try_from(step.into_inner()).map_err(|message| Flaw::new(at, message))?);
    }
    Ok(steps.into())
}

/// What the last tool results must be for an answer to be chosen. All that is given must hold.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct When {
    contains: Option<String>,
    lacks: Option<String>,
    error: Option<bool>,
    /// The answer before it failed, and the agent asks once more.
    #[serde(default)]
    pub(super) retry: bool,
}

impl When {
    pub(super) fn fits(&self, results: &[ToolResult]) -> bool {
        let has = |pattern: &String| results.iter().any(|result| matches(pattern, &text_of(result)));
        self.contains.as_ref().is_none_or(has)
            && !self.lacks.as_ref().is_some_and(has)
            && self.error.is_none_or(|error| results.iter().any(|result| result.is_error) == error)
    }
}

/// The text of a result.
pub(super) fn text_of(result: &ToolResult) -> String {
    joined(&result.content)
}

/// All text of some content, a line break between the blocks.
pub(super) fn joined(content: &[tieline::ContentBlock]) -> String {
    content.iter().filter_map(|block| block.as_text()).collect::<Vec<_>>().join("\n")
}

/// True if the pieces of the pattern between its `*` stand in the text, in this order. Case does not matter.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.to_lowercase(), text.to_lowercase());
    let mut rest = text.as_str();
    pattern.split('*').all(|piece| match rest.split_once(piece) {
        Some((_, behind)) => {
            rest = behind;
            true
        }
        None => piece.is_empty(),
    })
}
