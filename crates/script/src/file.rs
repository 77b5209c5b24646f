//! Scripts from TOML files.

use crate::call::{Call, Wish};
use crate::error::ScriptError;
use crate::fault::{Fault, Late, Planned};
use crate::script::{Answer, Marks, Script, Turn, When};
use crate::step::{Finish, Flood, MAX_BYTES, MAX_PIECES, Say, Step, Usage};
use crate::update::Update;
use serde::Deserialize;
use serde_json::Value;
use std::time::Duration;
use toml::Spanned;

/// Says why a step can't be played, if it can't.
type Accepts<'a> = &'a dyn Fn(&Step) -> Result<(), String>;

/// Something wrong, and at which byte.
struct Flaw(usize, String);

/// A script as it stands in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawScript {
    context: Option<u64>,
    #[serde(default)]
    turn: Vec<Spanned<RawTurn>>,
    fallback: Option<Spanned<RawTurn>>,
    answer: Option<Vec<Spanned<RawAnswer>>>,

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
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTurn {
    prompt: Option<String>,
    steps: Option<Vec<Spanned<RawStep>>>,
    answer: Option<Vec<Spanned<RawAnswer>>>,
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
    #[serde(default)]
    chunk: usize,
    #[serde(default)]
    pace_ms: u64,
    #[serde(default)]
    faults: Vec<Spanned<RawFault>>,
}

impl Script {
    /// Reads a script of this name. `accepts` says which steps can be played; a mistake is told with its place.
    pub fn parse(name: &str, text: &str, accepts: Accepts<'_>) -> Result<Self, ScriptError> {
        let raw: RawScript = toml::from_str(text)
            .map_err(|error| ScriptError::at(name, text, error.span().map(|span| span.start), error.message()))?;
        Self::of(raw, accepts).map_err(|Flaw(at, message)| ScriptError::at(name, text, Some(at), &message))
    }

    fn of(raw: RawScript, accepts: Accepts<'_>) -> Result<Self, Flaw> {
        if raw.turn.is_empty() && raw.fallback.is_none() && raw.answer.is_none() {
            return Err(Flaw(0, "a scenario needs at least one `[[turn]]` or `[[answer]]`".into()));
        }
        if let Some(fallback) = raw.fallback.as_ref().filter(|fallback| fallback.get_ref().prompt.is_some()) {
            let message = "`fallback` can't have a `prompt`: it is for those that no turn matches";
            return Err(Flaw(fallback.span().start, message.into()));
        }
        if raw.in_order && !(raw.turn.is_empty() && raw.fallback.is_none()) {
            return Err(Flaw(0, "a script in order has no `[[turn]]`: write all answers as `[[answer]]`".into()));
        }
        let mut turns: Vec<Turn> = raw.turn.into_iter().map(|raw| turn(raw, accepts)).collect::<Result<_, _>>()?;
        if let Some(raw) = raw.answer {
            turns.push(Turn { prompt: None, answers: answers(raw, accepts)? });
        }
        let base = if raw.in_order { Self::in_order(Vec::new()) } else { Self::new(Vec::new()) };
        Ok(Self {
            context: raw.context.unwrap_or(base.context),
            turns,
            fallback: raw.fallback.map(|raw| turn(raw, accepts)).transpose()?,
            directives: raw.directives.unwrap_or(base.directives),
            side: raw.side.unwrap_or(base.side),
            key: raw.key,
            models: raw.models,
            folder: raw.folder,
            reasoning_field: raw.reasoning_field.unwrap_or(base.reasoning_field),
            marks: raw.marks,
            blind: raw.blind,
            compatible: raw.compatible,
            in_order: base.in_order,
        })
    }
}

fn turn(raw: Spanned<RawTurn>, accepts: Accepts<'_>) -> Result<Turn, Flaw> {
    let at = raw.span().start;
    let raw = raw.into_inner();
    let answers = match (raw.steps, raw.answer) {
        (Some(raw), None) => vec![Answer { steps: steps(raw, accepts)?, ..Answer::default() }],
        (None, Some(raw)) => answers(raw, accepts)?,
        (Some(_), Some(_)) => return Err(Flaw(at, "a turn has either `steps` or `answer`, not both".into())),
        (None, None) => return Err(Flaw(at, "a turn needs `steps` or at least one `answer`".into())),
    };
    if answers.first().is_some_and(|answer| answer.when.retry) {
        return Err(Flaw(at, "the first `answer` can't have `when.retry`: nothing failed before it".into()));
    }
    Ok(Turn { prompt: raw.prompt, answers })
}

fn answers(raw: Vec<Spanned<RawAnswer>>, accepts: Accepts<'_>) -> Result<Vec<Answer>, Flaw> {
    let answer = |raw: Spanned<RawAnswer>| {
        let raw = raw.into_inner();
        let faults = raw.faults.into_iter().map(|raw| {
            let at = raw.span().start;
            raw.into_inner().planned().ok_or_else(|| Flaw(at, FAULT_KEYS.into()))
        });
        Ok(Answer {
            faults: faults.collect::<Result<_, _>>()?,
            steps: steps(raw.steps, accepts)?,
            when: raw.when,
            again: raw.again,
            chunk: raw.chunk,
            pace: Duration::from_millis(raw.pace_ms),
        })
    };
    raw.into_iter().map(answer).collect()
}

/// All steps of an answer.
fn steps(raw: Vec<Spanned<RawStep>>, accepts: Accepts<'_>) -> Result<Vec<Step>, Flaw> {
    let mut steps: Vec<Step> = Vec::with_capacity(raw.len());
    for step in raw {
        let at = step.span().start;
        if steps.last().is_some_and(Step::is_last) {
            return Err(Flaw(at, "no step can come here: the one before ends the answer".into()));
        }
        let step = step.into_inner().step().and_then(|step| accepts(&step).map(|()| step));
        steps.push(step.map_err(|message| Flaw(at, message))?);
    }
    Ok(steps)
}

/// A step as it stands in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawStep {
    text: Option<String>,
    think: Option<String>,
    redacted: Option<String>,
    call: Option<Names>,
    read: Option<String>,
    write: Option<String>,
    edit: Option<String>,
    run: Option<String>,
    usage: Option<Usage>,
    flood: Option<Flood>,
    #[serde(default, deserialize_with = "crate::update::read")]
    update: Option<Update>,
    finish: Option<Finish>,
    error: Option<String>,
    overflow: Option<bool>,
    login: Option<String>,
    stall: Option<bool>,
    cut: Option<bool>,

    pause_ms: Option<u64>,
    chunk: Option<usize>,
    times: Option<u64>,
    args: Option<toml::Value>,
    raw: Option<String>,
    id: Option<String>,
    huge: Option<usize>,
    content: Option<String>,
    old: Option<String>,
    new: Option<String>,
}

/// One name, or some of which the first that is offered counts.
#[derive(Deserialize)]
#[serde(untagged)]
enum Names {
    One(String),
    Some(Vec<String>),
}

const CALLS: [&str; 5] = ["call", "read", "write", "edit", "run"];

impl RawStep {
    /// The kinds of step that this one is; a good one has just one.
    fn kinds(&self) -> Vec<&'static str> {
        let all = [
            ("text", self.text.is_some()),
            ("think", self.think.is_some()),
            ("redacted", self.redacted.is_some()),
            ("call", self.call.is_some()),
            ("read", self.read.is_some()),
            ("write", self.write.is_some()),
            ("edit", self.edit.is_some()),
            ("run", self.run.is_some()),
            ("usage", self.usage.is_some()),
            ("flood", self.flood.is_some()),
            ("update", self.update.is_some()),
            ("finish", self.finish.is_some()),
            ("error", self.error.is_some()),
            ("overflow", self.overflow.is_some()),
            ("login", self.login.is_some()),
            ("stall", self.stall.is_some()),
            ("cut", self.cut.is_some()),
        ];
        all.into_iter().filter_map(|(name, given)| given.then_some(name)).collect()
    }

    fn kind(&self) -> Result<&'static str, String> {
        match (self.kinds().as_slice(), self.pause_ms) {
            (&[kind], _) => Ok(kind),
            ([], Some(_)) => Ok("pause_ms"),
            ([], None) => Err("a step needs one of `text`, `think`, `redacted`, `call`, `read`, `write`, `edit`, `run`, \
                               `usage`, `flood`, `update`, `finish`, `error`, `overflow`, `login`, `stall`, `cut` or `pause_ms`"
                .into()),
            (many, _) => Err(format!("a step does one thing, but this one has `{}`", many.join("`, `"))),
        }
    }

    /// Refuses keys that say nothing about this kind of step.
    fn check_extras(&self, kind: &str) -> Result<(), String> {
        let extras: [(&str, bool, &[&str]); 10] = [
            ("chunk", self.chunk.is_some(), &["text", "think"]),
            ("times", self.times.is_some(), &["text", "think"]),
            ("pause_ms", self.pause_ms.is_some(), &["text", "think", "pause_ms"]),
            ("args", self.args.is_some(), &["call"]),
            ("raw", self.raw.is_some(), &["call"]),
            ("id", self.id.is_some(), &CALLS),
            ("huge", self.huge.is_some(), &CALLS),
            ("content", self.content.is_some(), &["write"]),
            ("old", self.old.is_some(), &["edit"]),
            ("new", self.new.is_some(), &["edit"]),
        ];
        match extras.iter().find(|(_, given, with)| *given && !with.contains(&kind)) {
            Some((key, _, with)) => {
                Err(format!("`{key}` does not go with `{kind}`, only with `{}`", with.join("`, `")))
            }
            None => Ok(()),
        }
    }

    fn step(mut self) -> Result<Step, String> {
        let kind = self.kind()?;
        self.check_extras(kind)?;
        if let Some(no) = [("overflow", self.overflow), ("stall", self.stall), ("cut", self.cut)]
            .into_iter()
            .find_map(|(key, value)| (value == Some(false)).then_some(key))
        {
            return Err(format!("`{no}` can only be true; leave the step out instead"));
        }
        let pause = Duration::from_millis(self.pause_ms.unwrap_or_default());
        Ok(match kind {
            "text" | "think" => Step::Say(self.say(kind == "think", pause)?),
            "stall" => Step::Stall,
            "cut" => Step::Cut,
            "overflow" => Step::Overflow,
            "error" => Step::Error(self.error.unwrap_or_default()),
            "login" => Step::Login(self.login.unwrap_or_default()),
            "finish" => Step::Finish(self.finish.unwrap_or_default()),
            "redacted" => Step::Redacted(self.redacted.unwrap_or_default()),
            kind if CALLS.contains(&kind) => Step::Call(self.call()?),
            _ => match (self.usage, self.flood, self.update) {
                (Some(usage), ..) => Step::Usage(usage),
                (_, Some(flood), _) => Step::Flood(flood.check()?),
                (.., Some(update)) => Step::Update(update),
                _ => Step::Pause(pause),
            },
        })
    }

    fn say(&mut self, thought: bool, pause: Duration) -> Result<Say, String> {
        let text = self.text.take().or(self.think.take()).unwrap_or_default();
        let times = self.times.unwrap_or(1);
        if usize::try_from(times).ok().and_then(|times| text.len().checked_mul(times)).is_none_or(|all| all > MAX_BYTES)
            || times > MAX_PIECES
        {
            return Err(format!("`times` makes this too much: {MAX_BYTES} bytes and {MAX_PIECES} times at most"));
        }
        Ok(Say { text, thought, chunk: self.chunk.unwrap_or_default(), times, pause, fill: true })
    }

    fn call(self) -> Result<Call, String> {
        let wish = if let Some(path) = self.read {
            Wish::Read { path }
        } else if let Some(command) = self.run {
            Wish::Run { command }
        } else if let Some(path) = self.write {
            Wish::Write { path, content: self.content.unwrap_or_default() }
        } else if let Some(path) = self.edit {
            let (Some(old), Some(new)) = (self.old, self.new) else {
                return Err("`edit` needs `old` and `new`".into());
            };
            Wish::Edit { path, old, new }
        } else {
            let names = match self.call {
                Some(Names::One(name)) => vec![name],
                Some(Names::Some(names)) => names,
                None => Vec::new(),
            };
            match (self.args, self.raw, names.first()) {
                (_, _, None) => return Err("`call` needs a name".into()),
                (Some(_), Some(_), _) => return Err("a `call` has either `args` or `raw`, not both".into()),
                (_, Some(text), Some(name)) => Wish::Raw { name: name.clone(), text },
                (args, None, _) => {
                    let arguments = args.unwrap_or_else(|| toml::Value::Table(toml::Table::new()));
                    Wish::Named { names, arguments: to_json(arguments) }
                }
            }
        };
        Ok(Call { wish, id: self.id, huge: self.huge.unwrap_or_default() })
    }
}

/// The same value in JSON. A date becomes text; a number that JSON does not have becomes null.
fn to_json(value: toml::Value) -> Value {
    match value {
        toml::Value::String(text) => Value::String(text),
        toml::Value::Integer(number) => number.into(),
        toml::Value::Float(number) => number.into(),
        toml::Value::Boolean(yes) => yes.into(),
        toml::Value::Datetime(date) => Value::String(date.to_string()),
        toml::Value::Array(items) => items.into_iter().map(to_json).collect(),
        toml::Value::Table(table) => {
            Value::Object(table.into_iter().map(|(key, value)| (key, to_json(value))).collect())
        }
    }
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

const FAULT_KEYS: &str = "a fault needs one of `split`, `cut`, `stall`, `slow_ms`, `status`, `overflow`, `overflow_after`, `stream_error`, \
                          `malformed`, `unfinished`, `late`, `figures`, `keep_alive`";

impl RawFault {
    fn planned(self) -> Option<Planned> {
        let time = self.time_ms.map(Duration::from_millis);
        let flags = [
            (self.split, Fault::Split),
            (self.overflow, Fault::Overflow),
            (self.unfinished, Fault::Unfinished),
            (self.keep_alive, Fault::KeepAlive),
        ];
        let flag = flags.into_iter().find_map(|(on, fault)| on.then_some(fault));
        let fault = flag
            .or(self.cut.map(|after| Fault::Cut { after }))
            .or(self.stall.map(|after| Fault::Stall { after, time }))
            .or(self.slow_ms.map(|ms| Fault::Slow(Duration::from_millis(ms))))
            .or(self.status.map(|code| Fault::Status { code, retry_after: self.retry_after }))
            .or(self.stream_error.map(|code| Fault::StreamError { after: self.after, code }))
            .or(self.malformed.map(|after| Fault::Malformed { after }))
            .or(self.overflow_after.map(|after| Fault::OverflowLater { after }))
            .or(self.late.map(Fault::Late))
            .or(self.figures.map(Fault::Figures))?;
        Some(Planned { fault, first: self.first })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_told() {
        for (text, part) in [
            ("[[answers]]", "unknown field `answers`"),
            ("[[answer]]\nsteps = [{ text = \"a\", run = \"b\" }]", "line 2, column 10: a step does one thing"),
            ("[[answer]]\nsteps = [{ edit = \"a\" }]", "`edit` needs `old` and `new`"),
            ("[[answer]]\nfaults = [{ after = 1 }]", "line 2, column 11: a fault needs one of `split`"),
            ("in_order = true\n[[turn]]\nprompt = \"x\"\nanswer = []", "no `[[turn]]`"),
            ("[[answer]]\nsteps = [{ stall = true }]", "not here"),
        ] {
            let accepts = |step: &Step| if *step == Step::Stall { Err("not here".into()) } else { Ok(()) };
            let error = Script::parse("x", text, &accepts).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
