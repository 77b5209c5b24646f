//! Which answer a request gets.

use crate::call::make;
use crate::sample::sample;
use crate::talk::{Asked, call_id};
use crate::wire::{Part, Reply};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use tieline_script::{Answer, Facts, Fault, Finish, Script, ScriptError, Step, Turn, Usage, marked};

/// So many characters come at once, unless the script says otherwise.
const CHUNK: usize = 12;
/// What is said when a script has no answer left.
const NOTHING_LEFT: &str = "Done.";
/// More conversations than this are not remembered one by one.
const MEMORY: usize = 10_000;

/// Reads a script for the server. What only a scripted model inside an agent can do is refused.
pub fn script(name: &str, text: &str) -> Result<Script, ScriptError> {
    let inside = |what: &str| Err(format!("`{what}` is for scripted models: a model server can't do that"));
    let script = Script::parse(name, text, &|step| match step {
        Step::Update(_) => inside("update"),
        Step::Flood(_) => inside("flood"),
        Step::Pause(_) => inside("pause_ms"),
        Step::Say(say) if say.times != 1 || say.chunk > 0 || !say.pause.is_zero() => inside("times"),
        _ => Ok(()),
    })?;
    let inside = |turn: &Turn| turn.answers.iter().any(|answer| answer.again || !answer.when.is_always());
    if script.fallback.is_some() || script.turns.iter().any(inside) {
        let why =
            "`fallback`, `when` and `again` are for scripted models: a model server goes by the prompt and the rounds";
        return Err(ScriptError::new(name, why));
    }
    Ok(script)
}

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
    let mut faults: Vec<_> =
        answer.faults.iter().filter(|planned| planned.happens(attempt)).map(|planned| planned.fault.clone()).collect();
    let passing = answer.faults.iter().any(|planned| planned.first.is_some() && planned.happens(attempt));
    faults.extend(answer.steps.iter().find_map(broken));
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
    let directed = if script.directives { marked(asked.prompt()) } else { Vec::new() };
    let answers = if directed.is_empty() {
        if asked.tools.is_empty() {
            return (Answer::text(&script.side), Some(usize::MAX));
        }
        script.turns.iter().find(|turn| turn.fits(asked.prompt())).map(|turn| turn.answers.clone()).unwrap_or_default()
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

/// How a step that fails looks on the wire: behind all that was said before it.
fn broken(step: &Step) -> Option<Fault> {
    match step {
        Step::Stall => Some(Fault::Stall { after: usize::MAX, time: None }),
        Step::Cut => Some(Fault::Cut { after: usize::MAX }),
        Step::Overflow => Some(Fault::Overflow),
        Step::Error(_) => Some(Fault::Status { code: 500, retry_after: None }),
        Step::Login(_) => Some(Fault::Status { code: 401, retry_after: None }),
        _ => None,
    }
}

/// Fills in what depends on the request: tools, ids, placeholders.
fn ready(script: &Script, asked: &Asked, answer: &Answer, serial: u64) -> Reply {
    let facts = Facts { prompt: asked.prompt().to_owned(), result: asked.results(), told: asked.prompt().to_owned() };
    let (mut parts, mut usage, mut finish) = (Vec::new(), Usage::default(), Finish::Done);
    for (at, step) in answer.steps.iter().enumerate() {
        match step {
            Step::Say(say) => {
                let text = if say.fill { facts.fill(&say.text) } else { say.text.clone() };
                parts.push(if say.thought { Part::Thought(text) } else { Part::Text(text) });
            }
            Step::Redacted(data) => parts.push(Part::Redacted(data.clone())),
            Step::Call(call) => {
                let made = make(call, &asked.tools, script.folder.as_deref(), &facts);
                let id = call.id.clone().unwrap_or_else(|| call_id(asked.format, serial, at));
                parts.push(Part::Call { id, name: made.name, arguments: made.arguments, free: made.free });
            }
            Step::Usage(told) => usage = *told,
            Step::Finish(told) => finish = *told,
            Step::Update(_) | Step::Flood(_) | Step::Pause(_) => {
                parts.push(Part::Text("That is for scripted models: a model server can't do it.".into()));
            }
            Step::Stall | Step::Cut | Step::Overflow | Step::Error(_) | Step::Login(_) => {}
        }
    }
    Reply {
        serial,
        model: asked.model.clone(),
        parts,
        usage,
        stop: finish,
        chunk: if answer.chunk == 0 { CHUNK } else { answer.chunk },
        extra: asked.extra,
        reasoning_field: script.reasoning_field.clone(),
        marks: script.marks,
    }
}
