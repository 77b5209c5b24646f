//! Finds the place in a scenario from the conversation alone, so that a loaded session goes on where it was.

use crate::editor_prompts;
use crate::model::Message;
use tieline::ContentBlock;
use tieline_script::{Answer, Script, Turn};

/// A conversation as far as a script looks at it.
pub(super) struct View {
    /// What the user said, oldest first.
    pub(super) prompts: Vec<String>,
    /// What came of each answer since the last prompt: the results, and whether each is an error.
    pub(super) rounds: Vec<Vec<(String, bool)>>,
}

impl View {
    pub(super) fn of(messages: &[Message]) -> Self {
        let mut view = Self { prompts: Vec::new(), rounds: Vec::new() };
        for message in messages {
            match message {
                Message::User(content) => {
                    view.prompts.push(editor_prompts::words(content));
                    view.rounds.clear();
                }
                Message::Assistant { .. } => view.rounds.push(Vec::new()),
                Message::Results(results) => {
                    if let Some(last) = view.rounds.last_mut() {
                        *last = results.iter().map(|result| (joined(&result.content), result.is_error)).collect();
                    }
                }
            }
        }
        view
    }

    /// The results that the next answer is about.
    pub(super) fn results(&self) -> &[(String, bool)] {
        self.rounds.last().map(Vec::as_slice).unwrap_or_default()
    }

    /// The prompt of this turn.
    pub(super) fn prompt(&self) -> &str {
        self.prompts.last().map_or("", String::as_str)
    }
}

/// All text of some content, a line break between the blocks.
fn joined(content: &[ContentBlock]) -> String {
    content.iter().filter_map(|block| block.as_text()).collect::<Vec<_>>().join("\n")
}

/// The turn for the last prompt and its number; the fallback has none.
pub(super) fn turn<'s>(scenario: &'s Script, prompts: &[String]) -> Option<(Option<usize>, &'s Turn)> {
    let turns = &scenario.turns;
    let mut used = vec![false; turns.len()];
    let mut place = None;
    for prompt in prompts {
        let fits = |turn: &Turn| turn.fits(prompt);
        place = turns.iter().zip(&used).position(|(turn, used)| !used && fits(turn));
        if place.is_none() && scenario.fallback.is_none() {
            place = turns.iter().position(fits);
            if place.is_some() {
                // All that fit were played: it starts over.
                used.fill(false);
            }
        }
        if let Some(used) = place.and_then(|place| used.get_mut(place)) {
            *used = true;
        }
    }
    match place {
        Some(place) => turns.get(place).map(|turn| (Some(place), turn)),
        None => scenario.fallback.as_ref().map(|turn| (None, turn)),
    }
}

/// The answer after these rounds; none if the turn has no more.
pub(super) fn answer(answers: &[Answer], rounds: &[Vec<(String, bool)>]) -> Option<usize> {
    let mut from = 0;
    let mut chosen = None;
    for round in 0..=rounds.len() {
        let results = round.checked_sub(1).and_then(|before| rounds.get(before)).map(Vec::as_slice).unwrap_or_default();
        let mut place = from + answers.get(from..)?.iter().position(|answer| fits(answer, results))?;
        while round < rounds.len() && recovers(answers, place) {
            // A failed answer is not part of the conversation.
            place += 1;
        }
        from = if answers.get(place)?.again { place } else { place + 1 };
        chosen = Some(place);
    }
    chosen
}

fn fits(answer: &Answer, results: &[(String, bool)]) -> bool {
    !answer.when.retry && answer.when.fits(results)
}

/// True if the answer fails and another is there for when the agent asks once more.
pub(super) fn recovers(answers: &[Answer], place: usize) -> bool {
    answers.get(place).is_some_and(Answer::fails) && answers.get(place + 1).is_some_and(|next| next.when.retry)
}
