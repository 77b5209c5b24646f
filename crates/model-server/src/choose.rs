//! Which answer a request gets.

use crate::directive;
use crate::fault::Fault;
use crate::sample::sample;
use crate::script::{Answer, NOTHING_LEFT, Piece, Script};
use crate::talk::{Asked, call_id};
use crate::wire::{Part, Reply};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// So many characters come at once, unless the script says otherwise.
const CHUNK: usize = 12;
/// More conversations than this are not remembered one by one.
const MEMORY: usize = 10_000;

/// What the server remembers between requests.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// The number of the last answer; part of ids, so that they are never used twice.
    serial: u64,
    /// How often the same place in a conversation was asked for.
    attempts: HashMap<u64, u32>,
    /// The next answer of a plain sequence.
    next: usize,
}

/// An answer and how it goes wrong this time.
#[derive(Debug)]
pub(crate) struct Chosen {
    pub(crate) reply: Reply,
    pub(crate) faults: Vec<Fault>,
    pub(crate) pace: std::time::Duration,
}

/// Chooses the answer and makes it ready.
pub(crate) fn choose(script: &Script, memory: &mut Memory, asked: &Asked) -> Chosen {
    let (answer, place) = if script.in_order { (in_order(script, memory), None) } else { by_place(script, asked) };
    let key = place.map_or_else(|| hash(&memory.next), |place| hash(&(place, asked.prompt(), asked.said.len())));
    if memory.attempts.len() > MEMORY {
        memory.attempts.clear();
    }
    let count = memory.attempts.entry(key).or_default();
    let attempt = *count;
    *count += 1;
    let faults: Vec<_> =
        answer.faults.iter().filter(|planned| planned.happens(attempt)).map(|planned| planned.fault.clone()).collect();
    let passing = answer.faults.iter().any(|planned| planned.first.is_some() && planned.happens(attempt));
    if script.in_order && !passing {
        memory.next += 1;
    }
    memory.serial += 1;
    Chosen { reply: ready(script, asked, &answer, memory.serial), faults, pace: answer.pace }
}

fn in_order(script: &Script, memory: &Memory) -> Answer {
    let answers = script.turns.iter().flat_map(|turn| &turn.answers);
    answers.into_iter().nth(memory.next).cloned().unwrap_or_else(|| Answer::text(NOTHING_LEFT))
}

fn by_place(script: &Script, asked: &Asked) -> (Answer, Option<usize>) {
    let place = asked.rounds();
    // Whoever wants JSON of a certain shape asks something beside the conversation.
    if let Some(schema) = &asked.schema {
        return (Answer::text(sample(schema).to_string()), Some(place));
    }
    let directed = if script.directives { directive::answers(asked.prompt()) } else { Vec::new() };
    let answers = if directed.is_empty() {
        if asked.tools.is_empty() {
            return (Answer::text(&script.side), Some(usize::MAX));
        }
        let fits = |when: &Option<String>| when.as_ref().is_none_or(|when| asked.prompt().contains(when.as_str()));
        script.turns.iter().find(|turn| fits(&turn.when)).map(|turn| turn.answers.clone()).unwrap_or_default()
    } else {
        directed
    };
    let answer = answers.into_iter().nth(place).unwrap_or_else(|| Answer::text(NOTHING_LEFT));
    // Whoever offers no tools gets no calls.
    if asked.tools.is_empty() && answer.calls() {
        return (Answer::text(&script.side), Some(usize::MAX));
    }
    (answer, Some(place))
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Fills in what depends on the request: tools, ids, placeholders.
fn ready(script: &Script, asked: &Asked, answer: &Answer, serial: u64) -> Reply {
    let fill = |text: &String| {
        let text = text.replace("{prompt}", asked.prompt());
        if text.contains("{result}") { text.replace("{result}", &asked.results()) } else { text }
    };
    let parts = answer.pieces.iter().enumerate().map(|(at, piece)| match piece {
        Piece::Text(text) => Part::Text(fill(text)),
        Piece::Thought(text) => Part::Thought(fill(text)),
        Piece::Redacted(data) => Part::Redacted(data.clone()),
        Piece::Call(call) => {
            let made = call.make(&asked.tools, script.folder.as_deref());
            Part::Call {
                id: call_id(asked.format, serial, at),
                name: made.name,
                arguments: made.arguments,
                free: made.free,
            }
        }
    });
    Reply {
        serial,
        model: asked.model.clone(),
        parts: parts.collect(),
        usage: answer.usage,
        stop: answer.stop,
        chunk: if answer.chunk == 0 { CHUNK } else { answer.chunk },
        extra: asked.extra,
        reasoning_field: script.reasoning_field.clone(),
        marks: script.marks,
    }
}
