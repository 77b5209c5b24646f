//! Scripts from TOML files.

use crate::call::Call;
use crate::fault::{Fault, Late};
use crate::script::{Answer, Marks, Script, Stop, Usage};
use serde::Deserialize;
use serde_json::Value;
use std::fmt;
use std::time::Duration;

/// A script that cannot be used, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadScript(String);

impl fmt::Display for BadScript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadScript {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawScript {
    #[serde(default)]
    in_order: bool,
    directives: Option<bool>,
    side: Option<String>,
    key: Option<String>,
    models: Option<Vec<String>>,
    folder: Option<String>,
    reasoning_field: Option<String>,
    #[serde(default)]
    marks: Marks,
    #[serde(default)]
    blind: bool,
    #[serde(default)]
    compatible: bool,
    #[serde(default)]
    answer: Vec<RawAnswer>,
    #[serde(default)]
    turn: Vec<RawTurn>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTurn {
    when: String,
    answer: Vec<RawAnswer>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawAnswer {
    #[serde(default)]
    steps: Vec<RawStep>,
    usage: Option<Usage>,
    #[serde(default)]
    stop: Stop,
    #[serde(default)]
    chunk: usize,
    #[serde(default)]
    pace_ms: u64,
    #[serde(default)]
    faults: Vec<RawFault>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct RawStep {
    text: Option<String>,
    think: Option<String>,
    redacted: Option<String>,
    call: Option<Names>,
    args: Option<Value>,
    raw: Option<String>,
    write: Option<String>,
    content: Option<String>,
    edit: Option<String>,
    old: Option<String>,
    new: Option<String>,
    read: Option<String>,
    run: Option<String>,
    huge: usize,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Names {
    One(String),
    Some(Vec<String>),
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
#[expect(clippy::struct_excessive_bools, reason = "the keys as they stand in a file")]
struct RawFault {
    split: bool,
    cut: Option<usize>,
    stall: Option<usize>,
    slow_ms: Option<u64>,
    status: Option<u16>,
    overflow: bool,
    overflow_after: Option<usize>,
    late: Option<Late>,
    figures: Option<Value>,
    stream_error: Option<u16>,
    malformed: Option<usize>,
    unfinished: bool,
    keep_alive: bool,
    // Further keys of the above.
    retry_after: Option<u64>,
    time_ms: Option<u64>,
    after: usize,
    first: Option<u32>,
}

impl Script {
    /// Reads a script. `docs/model-server.md` tells what can be in it.
    pub fn parse(text: &str) -> Result<Self, BadScript> {
        let raw: RawScript = toml::from_str(text).map_err(|error| BadScript(error.to_string()))?;
        if raw.in_order && !raw.turn.is_empty() {
            return Err(BadScript("a script in order has no `[[turn]]`: write all answers as `[[answer]]`".into()));
        }
        let answers = answers(raw.answer)?;
        let mut script = if raw.in_order { Self::in_order(answers) } else { Self::new(answers) };
        for turn in raw.turn {
            script = script.when(turn.when, self::answers(turn.answer)?);
        }
        script.directives = raw.directives.unwrap_or(script.directives);
        script.side = raw.side.unwrap_or(script.side);
        script.reasoning_field = raw.reasoning_field.unwrap_or(script.reasoning_field);
        script.marks = raw.marks;
        script.blind = raw.blind;
        script.compatible = raw.compatible;
        script.key = raw.key;
        script.models = raw.models;
        script.folder = raw.folder;
        Ok(script)
    }
}

fn answers(raw: Vec<RawAnswer>) -> Result<Vec<Answer>, BadScript> {
    let one = |(at, raw): (usize, RawAnswer)| answer(raw).map_err(|bad| BadScript(format!("answer {}: {bad}", at + 1)));
    raw.into_iter().enumerate().map(one).collect()
}

fn answer(raw: RawAnswer) -> Result<Answer, BadScript> {
    let mut answer = Answer::new()
        .stop(raw.stop)
        .chunk(raw.chunk)
        .pace(Duration::from_millis(raw.pace_ms))
        .usage(raw.usage.unwrap_or_default());
    for (at, raw) in raw.steps.into_iter().enumerate() {
        answer = step(answer, raw).map_err(|bad| BadScript(format!("step {}: {bad}", at + 1)))?;
    }
    for (at, raw) in raw.faults.into_iter().enumerate() {
        let first = raw.first;
        let fault = fault(&raw).ok_or_else(|| BadScript(format!("fault {}: {FAULT_KEYS}", at + 1)))?;
        answer = if let Some(first) = first { answer.fault_first(first, fault) } else { answer.fault(fault) };
    }
    Ok(answer)
}

const STEP_KEYS: &str = "it needs exactly one of `text`, `think`, `redacted`, `call`, `write`, `edit`, `read`, `run`";
const FAULT_KEYS: &str = "it needs one of `split`, `cut`, `stall`, `slow_ms`, `status`, `overflow`, `overflow_after`, `stream_error`, `malformed`, \
                          `unfinished`, `late`, `figures`, `keep_alive`";

fn step(answer: Answer, raw: RawStep) -> Result<Answer, BadScript> {
    let bad = |text: &str| Err(BadScript(text.into()));
    if let Some(data) = raw.redacted {
        return Ok(answer.redacted(data));
    }
    let call = match (raw.call, raw.write, raw.edit, raw.read, raw.run, raw.text, raw.think) {
        (None, None, None, None, None, Some(text), None) => return Ok(answer.say(text)),
        (None, None, None, None, None, None, Some(text)) => return Ok(answer.think(text)),
        (Some(names), None, None, None, None, None, None) => {
            let names = match names {
                Names::One(name) => vec![name],
                Names::Some(names) => names,
            };
            match (raw.raw, names.first()) {
                (Some(text), Some(name)) => Call::raw(name, text),
                (None, Some(_)) => Call::any(names, raw.args.unwrap_or_else(|| serde_json::json!({}))),
                (_, None) => return bad("`call` needs a name"),
            }
        }
        (None, Some(path), None, None, None, None, None) => Call::write(path, raw.content.unwrap_or_default()),
        (None, None, Some(path), None, None, None, None) => match (raw.old, raw.new) {
            (Some(old), Some(new)) => Call::edit(path, old, new),
            _ => return bad("`edit` needs `old` and `new`"),
        },
        (None, None, None, Some(path), None, None, None) => Call::read(path),
        (None, None, None, None, Some(command), None, None) => Call::run(command),
        _ => return bad(STEP_KEYS),
    };
    Ok(answer.and(call.huge(raw.huge)))
}

fn fault(raw: &RawFault) -> Option<Fault> {
    let time = raw.time_ms.map(Duration::from_millis);
    if raw.split {
        return Some(Fault::Split);
    }
    let flags =
        [(raw.overflow, Fault::Overflow), (raw.unfinished, Fault::Unfinished), (raw.keep_alive, Fault::KeepAlive)];
    if let Some((_, fault)) = flags.into_iter().find(|(on, _)| *on) {
        return Some(fault);
    }
    None.or(raw.cut.map(|after| Fault::Cut { after }))
        .or(raw.stall.map(|after| Fault::Stall { after, time }))
        .or(raw.slow_ms.map(|ms| Fault::Slow(Duration::from_millis(ms))))
        .or(raw.status.map(|code| Fault::Status { code, retry_after: raw.retry_after }))
        .or(raw.stream_error.map(|code| Fault::StreamError { after: raw.after, code }))
        .or(raw.malformed.map(|after| Fault::Malformed { after }))
        .or(raw.overflow_after.map(|after| Fault::OverflowLater { after }))
        .or(raw.late.map(Fault::Late))
        .or(raw.figures.clone().map(Fault::Figures))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, part: &str) {
        let error = Script::parse(text).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }

    #[test]
    fn mistakes_are_told() {
        check("[[answers]]", "unknown field `answers`");
        check("[[answer]]\nsteps = [{ text = \"a\", run = \"b\" }]", "answer 1: step 1: it needs exactly one of");
        check("[[answer]]\nsteps = [{ edit = \"a\" }]", "`edit` needs `old` and `new`");
        check("[[answer]]\nfaults = [{ after = 1 }]", "answer 1: fault 1: it needs one of `split`");
        check("in_order = true\n[[turn]]\nwhen = \"x\"\nanswer = []", "no `[[turn]]`");
    }
}
