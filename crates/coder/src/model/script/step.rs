//! The steps of an answer, as they stand in a scenario.

use super::update::RawUpdate;
use crate::model::{Finish, ModelError, Report, Usage};
use serde::Deserialize;
use serde_json::Value;
use std::time::Duration;

/// More than this in one text or piece is a slip of the pen.
pub(super) const MAX_BYTES: usize = 64 << 20;
/// More pieces than this as well.
pub(super) const MAX_PIECES: u64 = 10_000_000;

/// One thing that a model does.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    /// Says or thinks something.
    Say(Say),
    /// Wants to use a tool.
    Call(Call),
    /// Tells how much was used.
    Usage(Usage),
    /// Waits.
    Pause(Duration),
    /// Says very much.
    Flood(Flood),
    /// Makes the agent report something.
    Report(Report),
    /// Waits until nobody wants the answer any more.
    Stall,
    /// Ends without being complete.
    Cut,
    /// Fails.
    Error(ModelError),
    /// Is complete.
    Finish(Finish),
}

#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Say {
    pub(super) text: String,
    pub(super) thought: bool,
    /// How many characters come at once; 0 means all.
    pub(super) chunk: usize,
    /// How often the text is said.
    pub(super) times: u64,
    /// Waits so long before each piece.
    pub(super) pause: Duration,
    /// Fill in placeholders.
    pub(super) fill: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Call {
    pub(super) id: Option<String>,
    pub(super) name: String,
    pub(super) arguments: Arguments,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Arguments {
    /// Values, whose placeholders are filled in.
    Json(Value),
    /// Exactly this text.
    Raw(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Flood {
    pub(super) pieces: u64,
    pub(super) size: usize,
}

impl Flood {
    pub(super) fn check(self) -> Result<Self, String> {
        if self.pieces > MAX_PIECES || self.size > MAX_BYTES {
            return Err(format!("`flood` can have {MAX_PIECES} `pieces` of `size` {MAX_BYTES} at most"));
        }
        Ok(self)
    }
}

impl Step {
    /// True if nothing can come after it.
    pub(super) fn is_last(&self) -> bool {
        matches!(self, Self::Finish(_) | Self::Report(Report::Stop(_) | Report::Fail { .. })) || self.fails()
    }

    /// True if the answer is never complete.
    pub(super) fn fails(&self) -> bool {
        matches!(self, Self::Stall | Self::Cut | Self::Error(_))
    }
}

/// A step as it stands in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawStep {
    text: Option<String>,
    think: Option<String>,
    call: Option<String>,
    usage: Option<RawUsage>,
    flood: Option<Flood>,
    update: Option<RawUpdate>,
    finish: Option<String>,
    error: Option<String>,
    overflow: Option<bool>,
    login: Option<String>,
    stall: Option<bool>,
    cut: Option<bool>,

    pause_ms: Option<u64>,
    chunk: Option<usize>,
    times: Option<u64>,
    args: Option<toml::Table>,
    raw: Option<String>,
    id: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawUsage {
    used: u64,
    cost: Option<f64>,
}

const KINDS: &str = "`text`, `think`, `call`, `usage`, `flood`, `update`, `finish`, `error`, `overflow`, `login`, \
                     `stall`, `cut` or `pause_ms`";

impl TryFrom<RawStep> for Step {
    type Error = String;

    fn try_from(mut raw: RawStep) -> Result<Self, String> {
        let kinds = raw.kinds();
        let kind = match (kinds.as_slice(), raw.pause_ms) {
            (&[kind], _) => kind,
            ([], Some(_)) => "pause_ms",
            ([], None) => return Err(format!("a step needs one of {KINDS}")),
            (many, _) => return Err(format!("a step does one thing, but this one has `{}`", many.join("`, `"))),
        };
        raw.check_extras(kind)?;
        raw.step(kind)
    }
}

impl RawStep {
    /// The kinds of step that this one is; a good one has just one.
    fn kinds(&self) -> Vec<&'static str> {
        [
            ("text", self.text.is_some()),
            ("think", self.think.is_some()),
            ("call", self.call.is_some()),
            ("usage", self.usage.is_some()),
            ("flood", self.flood.is_some()),
            ("update", self.update.is_some()),
            ("finish", self.finish.is_some()),
            ("error", self.error.is_some()),
            ("overflow", self.overflow.is_some()),
            ("login", self.login.is_some()),
            ("stall", self.stall.is_some()),
            ("cut", self.cut.is_some()),
        ]
        .into_iter()
        .filter_map(|(name, given)| given.then_some(name))
        .collect()
    }

    /// Refuses keys that say nothing about this kind of step.
    fn check_extras(&self, kind: &str) -> Result<(), String> {
        let extras: [(&str, bool, &[&str]); 6] = [
            ("chunk", self.chunk.is_some(), &["text", "think"]),
            ("times", self.times.is_some(), &["text", "think"]),
            ("pause_ms", self.pause_ms.is_some(), &["text", "think", "pause_ms"]),
            ("args", self.args.is_some(), &["call"]),
            ("raw", self.raw.is_some(), &["call"]),
            ("id", self.id.is_some(), &["call"]),
        ];
        match extras.iter().find(|(_, given, with)| *given && !with.contains(&kind)) {
            Some((key, _, with)) => {
                Err(format!("`{key}` does not go with `{kind}`, only with `{}`", with.join("`, `")))
            }
            None => Ok(()),
        }
    }

    fn step(&mut self, kind: &str) -> Result<Step, String> {
        if let Some(no) = [("overflow", self.overflow), ("stall", self.stall), ("cut", self.cut)]
            .into_iter()
            .find_map(|(key, value)| (value == Some(false)).then_some(key))
        {
            return Err(format!("`{no}` can only be true; leave the step out instead"));
        }
        Ok(match kind {
            "text" | "think" => Step::Say(self.say(kind == "think")?),
            "call" => Step::Call(self.call()?),
            "stall" => Step::Stall,
            "cut" => Step::Cut,
            "overflow" => Step::Error(ModelError::Overflow),
            "error" => Step::Error(ModelError::Failed(self.error.take().unwrap_or_default())),
            "login" => Step::Error(ModelError::LoginNeeded(self.login.take().unwrap_or_default())),
            "finish" => Step::Finish(finish(self.finish.as_deref().unwrap_or_default())?),
            _ => match (self.usage.take(), self.flood, self.update.take()) {
                (Some(usage), ..) => Step::Usage(Usage { used: usage.used, cost: usage.cost }),
                (_, Some(flood), _) => Step::Flood(flood.check()?),
                (.., Some(update)) => Step::Report(update.report()?),
                _ => Step::Pause(self.pause()),
            },
        })
    }

    fn pause(&self) -> Duration {
        Duration::from_millis(self.pause_ms.unwrap_or_default())
    }

    fn say(&mut self, thought: bool) -> Result<Say, String> {
        let text = self.text.take().or(self.think.take()).unwrap_or_default();
        let times = self.times.unwrap_or(1);
        if usize::try_from(times).ok().and_then(|times| text.len().checked_mul(times)).is_none_or(|all| all > MAX_BYTES)
            || times > MAX_PIECES
        {
            return Err(format!("`times` makes this too much: {MAX_BYTES} bytes and {MAX_PIECES} times at most"));
        }
        Ok(Say { text, thought, chunk: self.chunk.unwrap_or_default(), times, pause: self.pause(), fill: true })
    }

    fn call(&mut self) -> Result<Call, String> {
        let arguments = match (self.args.take(), self.raw.take()) {
            (Some(_), Some(_)) => return Err("a `call` has either `args` or `raw`, not both".into()),
            (_, Some(raw)) => Arguments::Raw(raw),
            (args, None) => Arguments::Json(to_json(toml::Value::Table(args.unwrap_or_default()))),
        };
        Ok(Call { id: self.id.take(), name: self.call.take().unwrap_or_default(), arguments })
    }
}

fn finish(name: &str) -> Result<Finish, String> {
    Ok(match name {
        "done" => Finish::Done,
        "max_tokens" => Finish::MaxTokens,
        "refusal" => Finish::Refusal,
        other => return Err(format!("`finish` is `done`, `max_tokens` or `refusal`, not `{other}`")),
    })
}

/// The same value in JSON. A date becomes text; a number that JSON does not have becomes null.
pub(super) fn to_json(value: toml::Value) -> Value {
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
