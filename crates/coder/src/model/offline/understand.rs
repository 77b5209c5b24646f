//! From a prompt to the steps it asks for.

use super::action::{Action, Place};
use super::attached::{At, Attached};
use super::blocks::{self, Segment};
use super::commands::{self, Mistake};
use super::sentences::sentence;
use super::split::{Piece, pieces};
use super::words::code;

/// More steps than this are refused as a whole.
pub const MOST_STEPS: usize = 50;

/// What became of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Understood {
    /// There is nothing in it.
    Nothing,
    /// These steps, in order.
    Steps {
        /// What is to be done.
        steps: Vec<Action>,
        /// Text around blocks that is no instruction.
        left_out: Vec<String>,
    },
    /// These parts are no instructions, so nothing is done.
    Unknown(Vec<String>),
    /// Something is missing; the text says what.
    Usage(String),
}

/// Finds out what a prompt asks for.
pub fn understand(prompt: &str, attached: &[Attached]) -> Understood {
    if prompt.trim().is_empty() {
        return Understood::Nothing;
    }
    let (steps, left_out) = match commands::commands(prompt) {
        Some(Ok(steps)) => (steps, Vec::new()),
        Some(Err(Mistake::Unknown(name))) => return Understood::Unknown(vec![name]),
        Some(Err(Mistake::Usage(text))) => return Understood::Usage(text),
        None if blocks::is_diff(prompt) => {
            (vec![Action::Patch { patch: super::files::ended(prompt.trim_start().to_owned()) }], Vec::new())
        }
        None => match free(prompt) {
            Ok(found) => found,
            Err(unknown) => return Understood::Unknown(unknown),
        },
    };
    let too_many = |count: usize| {
        Understood::Usage(format!("These are {count} steps; at most {MOST_STEPS} can be worked off at once."))
    };
    if steps.len() > MOST_STEPS {
        return too_many(steps.len());
    }
    match settle(steps, attached) {
        Ok(steps) if steps.len() > MOST_STEPS => too_many(steps.len()),
        Ok(steps) => Understood::Steps { steps, left_out },
        Err(text) => Understood::Usage(text),
    }
}

/// Blocks and sentences. With a block that says what to do, other text may be there too; without one it may not.
fn free(prompt: &str) -> Result<(Vec<Action>, Vec<String>), Vec<String>> {
    let mut steps = Vec::new();
    let mut unknown = Vec::new();
    let mut blocks = false;
    let mut found = blocks::segments(prompt).into_iter().peekable();
    while let Some(segment) = found.next() {
        match segment {
            Segment::Prose(prose) => {
                if let Some(Segment::Block { info, body }) = found.peek() {
                    if blocks::forbids(&prose) {
                        unknown.push(prose);
                        found.next();
                        continue;
                    }
                    let (rest, last) = last_line(&prose);
                    let (action, with_line) = blocks::action(info, body, last);
                    if let Some(action) = action {
                        let prose = if with_line { rest } else { prose.as_str() };
                        sentences(prose, &mut steps, &mut unknown);
                        steps.push(action);
                        blocks = true;
                        found.next();
                        continue;
                    }
                }
                sentences(&prose, &mut steps, &mut unknown);
            }
            Segment::Block { info, body } => match blocks::action(&info, &body, None).0 {
                Some(action) => {
                    steps.push(action);
                    blocks = true;
                }
                None => unknown.push(body),
            },
        }
    }
    if steps.is_empty() || (!blocks && !unknown.is_empty()) { Err(unknown) } else { Ok((steps, unknown)) }
}

fn last_line(prose: &str) -> (&str, Option<&str>) {
    let trimmed = prose.trim_end();
    let start = trimmed.rfind('\n').map_or(0, |at| at + 1);
    (trimmed.get(..start).unwrap_or_default(), trimmed.get(start..))
}

fn sentences(prose: &str, steps: &mut Vec<Action>, unknown: &mut Vec<String>) {
    for piece in pieces(prose) {
        match piece {
            Piece::Write { path, content } => steps.push(Action::Write { path, content }),
            Piece::Sentence(text) => match sentence(&text) {
                Some(actions) => steps.extend(actions),
                None => unknown.push(text),
            },
        }
    }
}

/// Says what "it" is: the file of the step before, or what is attached.
fn settle(steps: Vec<Action>, attached: &[Attached]) -> Result<Vec<Action>, String> {
    let mut settled: Vec<Action> = Vec::new();
    for mut step in steps {
        if step == Action::PatchIt {
            let Some(patch) = attached.iter().find_map(|found| found.text.clone()) else {
                return Err("There is no patch: put the diff behind `/patch`, or attach it.".to_owned());
            };
            step = Action::Patch { patch };
        }
        if step.place() != Some(&Place::It) {
            settled.push(step);
            continue;
        }
        if let Some(path) = settled.iter().rev().find_map(Action::leaves) {
            let path = path.to_owned();
            if let Some(place) = step.place_mut() {
                *place = Place::Named(path);
            }
            settled.push(step);
            continue;
        }
        match (&step, attached) {
            (_, []) => {
                let title = step.title().replace("the attached file", "…");
                return Err(format!("Which file? Nothing is attached, so name it: {}", code(&title)));
            }
            (Action::Read { .. } | Action::Count { .. } | Action::Outline { .. }, _) => {
                settled.extend(attached.iter().enumerate().map(|(number, found)| fill(&step, number, found)));
            }
            (_, [one]) => settled.push(fill(&step, 0, one)),
            _ => settled.push(step),
        }
    }
    Ok(settled)
}

fn fill(step: &Action, number: usize, found: &Attached) -> Action {
    let mut step = step.clone();
    match &found.at {
        At::Web(url) if found.text.is_none() && matches!(step, Action::Read { .. }) => {
            return Action::Fetch { url: url.clone() };
        }
        At::File { path, line: first, limit: count } => {
            if let Action::Read { line, limit, .. } = &mut step
                && line.is_none()
            {
                (*line, *limit) = (*first, *count);
            }
            if let Some(place) = step.place_mut() {
                *place = Place::Named(path.clone());
            }
        }
        _ => {
            if let Some(place) = step.place_mut() {
                *place = Place::Text(number);
            }
        }
    }
    step
}
