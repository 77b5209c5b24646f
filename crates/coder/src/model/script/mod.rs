//! A model that plays a scenario: any behaviour of a model, on demand and always the same.
//!
//! A scenario is a TOML file of turns; `docs/scenarios.md` describes it. Where a scenario stands is read from the
//! conversation, not remembered, so a loaded session goes on where it was.

mod pick;
mod play;
mod shipped;

pub use shipped::{Shipped, scenarios};
pub use tieline_script::ScriptError;

use crate::model::{Message, Model, Reply, Request};
use pick::View;
use play::Performance;
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use tieline_rpc::sync::Lock;
use tieline_script::{Script as Scenario, Step, directed};

/// No scenario needs a larger file, in bytes.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// A scenario that can be played.
#[derive(Debug)]
pub struct Script {
    id: String,
    name: String,
    /// Where the answers come from; without one it is the prompt that says what to do.
    scenario: Option<Box<Scenario>>,
    /// How many calls were made.
    calls: AtomicU64,
    /// Answers that wait for the agent to ask once more: by turn, the round and the answer.
    retries: Mutex<HashMap<Option<usize>, (usize, usize)>>,
}

impl Script {
    /// A scenario that ships inside.
    pub fn named(name: &str) -> Result<Self, ScriptError> {
        if name == shipped::PUPPET {
            return Ok(Self::new(name, None));
        }
        let Some(text) = shipped::text(name) else {
            let names: Vec<_> = scenarios().iter().map(|shipped| shipped.name).collect();
            return Err(ScriptError::new(name, format!("there is no such scenario; there are: {}", names.join(", "))));
        };
        Self::from_toml(name, text)
    }

    /// A scenario from a file. The file name without its ending is the name of the scenario.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, ScriptError> {
        let path = path.as_ref();
        let shown = path.display().to_string();
        let mut text = String::new();
        let read = File::open(path).and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text));
        match read {
            Err(error) => return Err(ScriptError::new(shown, format!("can't read the file: {error}"))),
            Ok(size) if size as u64 > MAX_FILE_BYTES => {
                return Err(ScriptError::new(shown, format!("the file has more than {MAX_FILE_BYTES} bytes")));
            }
            Ok(_) => {}
        }
        let name = path.file_stem().map_or_else(|| shown.clone(), |stem| stem.to_string_lossy().into_owned());
        Self::parse(&name, &shown, &text)
    }

    /// A scenario of this name from its text.
    pub fn from_toml(name: &str, text: &str) -> Result<Self, ScriptError> {
        Self::parse(name, name, text)
    }

    fn parse(name: &str, source: &str, text: &str) -> Result<Self, ScriptError> {
        let accepts = |step: &Step| match step {
            Step::Update(report) => play::check(report),
            _ => Ok(()),
        };
        let scenario = Scenario::parse(source, text, &accepts)?;
        let wire = |turn: &tieline_script::Turn| turn.answers.iter().any(|answer| !answer.faults.is_empty());
        if scenario.turns.iter().chain(&scenario.fallback).any(wire) {
            return Err(ScriptError::new(source, "`faults` are for the model server: a scripted model has no wire"));
        }
        Ok(Self::new(name, Some(Box::new(scenario))))
    }

    fn new(name: &str, scenario: Option<Box<Scenario>>) -> Self {
        Self {
            id: format!("script:{name}"),
            name: format!("Script {name}"),
            scenario,
            calls: AtomicU64::new(0),
            retries: Mutex::default(),
        }
    }

    /// The steps of the next answer; no steps if the turn has no more answers.
    fn next(&self, view: &View) -> Vec<Step> {
        if let Some(scenario) = &self.scenario {
            return self.answer(scenario, view);
        }
        let answer = directed(view.prompt()).into_iter().nth(view.rounds.len()).unwrap_or_default();
        if answer.faults.is_empty() {
            return answer.steps;
        }
        vec![Step::say("Faults of the wire are for the model server: a scripted model has none.\n")]
    }

    fn answer(&self, scenario: &Scenario, view: &View) -> Vec<Step> {
        let Some((number, turn)) = pick::turn(scenario, &view.prompts) else {
            return vec![Step::say(format!("{} has no turn for this prompt.", self.name))];
        };
        let round = view.rounds.len();
        let mut retries = self.retries.locked();
        let retry = retries.remove(&number).filter(|(failed, _)| round == *failed || round == failed + 1);
        let place = retry.map(|(_, answer)| answer).or_else(|| pick::answer(&turn.answers, &view.rounds));
        let Some((place, answer)) = place.and_then(|place| Some((place, turn.answers.get(place)?))) else {
            return Vec::new();
        };
        if pick::recovers(&turn.answers, place) {
            retries.insert(number, (round, place + 1));
        }
        answer.steps.clone()
    }

    /// Takes numbers for the calls of an answer, higher than all before; gives the first.
    fn number_calls(&self, messages: &[Message], steps: &[Step]) -> u64 {
        let numbers = messages.iter().flat_map(|message| match message {
            Message::Assistant { calls, .. } => calls.as_slice(),
            _ => &[],
        });
        let highest = numbers.filter_map(|call| call.id.strip_prefix("call_")?.parse::<u64>().ok()).max();
        self.calls.fetch_max(highest.unwrap_or_default(), Ordering::Relaxed);
        let count = steps.iter().filter(|step| matches!(step, Step::Call(_))).count();
        self.calls.fetch_add(count as u64, Ordering::Relaxed).wrapping_add(1)
    }
}

impl Model for Script {
    fn id(&self) -> &str {
        &self.id
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn context_size(&self) -> u64 {
        self.scenario.as_ref().map_or(0, |scenario| scenario.context)
    }

    fn reply(&self, request: Request) -> Reply {
        let view = View::of(&request.messages);
        let steps = self.next(&view);
        let first_call = self.number_calls(&request.messages, &steps);
        let performance = Performance { steps, facts: play::facts(&view, &request), first_call };
        Reply::start(|out| async move { drop(performance.run(&out).await) })
    }
}
