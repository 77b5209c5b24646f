//! A whole script: turns, their answers, when an answer is chosen, and what a server has to know besides.

use crate::call::Call;
use crate::fault::{Fault, Planned};
use crate::fill::fits;
use crate::step::{Finish, Say, Step, Usage};
use serde::Deserialize;
use std::time::Duration;

/// How large a context is if the script does not say, in tokens.
const CONTEXT: u64 = 200_000;
/// What a request without tools is answered with, unless the script says otherwise.
const SIDE: &str = "A short answer.";

/// What a model does, prompt after prompt.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "the keys as they stand in a file")]
pub struct Script {
    /// How many tokens fit into the context; 0 is no limit.
    pub context: u64,
    /// What happens after which prompt.
    pub turns: Vec<Turn>,
    /// Played if no turn is left for a prompt.
    pub fallback: Option<Turn>,
    /// A server: the answers one after the other, whatever is asked.
    pub in_order: bool,
    /// A server: whether lines such as `model: say hello` in a prompt are followed.
    pub directives: bool,
    /// A server: what requests without tools are answered with.
    pub side: String,
    /// A server: only requests with this key are served.
    pub key: Option<String>,
    /// A server: only these models exist.
    pub models: Option<Vec<String>>,
    /// A server: where relative paths in calls start.
    pub folder: Option<String>,
    /// A server: the field of a chat completion that carries thoughts.
    pub reasoning_field: String,
    /// A server: how the calls of a chat completion are told apart.
    pub marks: Marks,
    /// A server: the models take no pictures.
    pub blind: bool,
    /// A server: one of the many that speak a format more loosely than its vendor.
    pub compatible: bool,
}

/// What happens after one prompt.
#[derive(Debug, Clone, Default)]
pub struct Turn {
    /// Which prompts it is for; none means all.
    pub prompt: Option<String>,
    /// The answers, in order.
    pub answers: Vec<Answer>,
}

impl Turn {
    /// Whether it is for this prompt.
    pub fn fits(&self, prompt: &str) -> bool {
        self.prompt.as_ref().is_none_or(|pattern| fits(pattern, prompt))
    }
}

impl Script {
    /// These answers, after whatever prompt.
    pub fn new(answers: Vec<Answer>) -> Self {
        Self {
            context: CONTEXT,
            turns: vec![Turn { prompt: None, answers }],
            fallback: None,
            in_order: false,
            directives: true,
            side: SIDE.into(),
            key: None,
            models: None,
            folder: None,
            reasoning_field: "reasoning_content".into(),
            marks: Marks::Both,
            blind: false,
            compatible: false,
        }
    }

    /// These answers one after the other, whatever is asked; also to requests without tools.
    ///
    /// An answer with a fault for the first attempts comes again until its faults are used up.
    pub fn in_order(answers: Vec<Answer>) -> Self {
        Self { in_order: true, directives: false, ..Self::new(answers) }
    }

    /// Other answers after a prompt that this pattern fits. The first turn that fits is taken.
    #[must_use]
    pub fn when(mut self, prompt: impl Into<String>, answers: Vec<Answer>) -> Self {
        let place = self.turns.iter().position(|turn| turn.prompt.is_none()).unwrap_or(self.turns.len());
        self.turns.insert(place, Turn { prompt: Some(prompt.into()), answers });
        self
    }

    /// What side requests are answered with.
    #[must_use]
    pub fn side(mut self, text: impl Into<String>) -> Self {
        self.side = text.into();
        self
    }

    /// Only requests with this key are served; others get the vendor's answer to a bad key.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Only these models exist; others get the vendor's answer to an unknown model. Without it every name is a model.
    #[must_use]
    pub fn models<T: Into<String>>(mut self, models: impl IntoIterator<Item = T>) -> Self {
        self.models = Some(models.into_iter().map(Into::into).collect());
        self
    }

    /// The folder that relative paths in calls start from. Some agents want absolute paths.
    #[must_use]
    pub fn folder(mut self, folder: impl Into<String>) -> Self {
        self.folder = Some(folder.into());
        self
    }

    /// The field of a chat completion that carries thoughts: `reasoning_content` (the default), `reasoning`, or
    /// `reasoning_details`, which come in pieces with a signature and have to go back as they were.
    #[must_use]
    pub fn reasoning_field(mut self, field: impl Into<String>) -> Self {
        self.reasoning_field = field.into();
        self
    }

    /// How the calls of a chat completion are told apart.
    #[must_use]
    pub fn marks(mut self, marks: Marks) -> Self {
        self.marks = marks;
        self
    }

    /// The models take no pictures, and requests that have some are refused.
    #[must_use]
    pub fn blind(mut self) -> Self {
        self.blind = true;
        self
    }

    /// A server like one of the many that speak `OpenAI`'s formats and take more than it does: fields that it does not know, and
    /// several messages of one side in a row. Without it they are refused.
    #[must_use]
    pub fn compatible(mut self) -> Self {
        self.compatible = true;
        self
    }

    /// Whether lines such as `model: say hello` in a prompt are followed. On for [`Script::new`], off for [`Script::in_order`].
    #[must_use]
    pub fn directives(mut self, on: bool) -> Self {
        self.directives = on;
        self
    }
}

/// One answer of the model.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    /// What it does, in order.
    pub steps: Vec<Step>,
    /// When it is chosen.
    pub when: When,
    /// Played again and again as long as `when` fits.
    pub again: bool,
    /// A server: what goes wrong on the wire.
    pub faults: Vec<Planned>,
    /// A server: how many characters come at once; 0 is its default.
    pub chunk: usize,
    /// A server: the time before each piece of content.
    pub pace: Duration,
}

/// What the last tool results must be for an answer to be chosen. All that is given must hold.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct When {
    contains: Option<String>,
    lacks: Option<String>,
    error: Option<bool>,
    /// The answer before it failed, and the agent asks once more.
    #[serde(default)]
    pub retry: bool,
}

impl When {
    /// Whether these results, each with whether it is an error, are such ones.
    pub fn fits(&self, results: &[(String, bool)]) -> bool {
        let has = |pattern: &String| results.iter().any(|(text, _)| fits(pattern, text));
        self.contains.as_ref().is_none_or(has)
            && !self.lacks.as_ref().is_some_and(has)
            && self.error.is_none_or(|error| results.iter().any(|(_, failed)| *failed) == error)
    }

    /// Whether nothing is demanded.
    pub fn is_always(&self) -> bool {
        self.contains.is_none() && self.lacks.is_none() && self.error.is_none() && !self.retry
    }
}

impl Answer {
    /// An empty answer, to be filled.
    pub fn new() -> Self {
        Self::default()
    }

    /// An answer that is one text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new().say(text)
    }

    /// An answer that is one call.
    pub fn call(call: Call) -> Self {
        Self::new().and(call)
    }

    fn with(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    fn says(self, text: impl Into<String>, thought: bool) -> Self {
        self.with(Step::Say(Say { text: text.into(), thought, times: 1, fill: true, ..Say::default() }))
    }

    /// Says something. `{result}` stands for what the last tools gave back, `{prompt}` for the user's last words.
    #[must_use]
    pub fn say(self, text: impl Into<String>) -> Self {
        self.says(text, false)
    }

    /// Thinks something, in the way of the vendor.
    #[must_use]
    pub fn think(self, text: impl Into<String>) -> Self {
        self.says(text, true)
    }

    /// Thinks something that nobody can read; in formats other than Anthropic's a thought like others.
    #[must_use]
    pub fn redacted(self, data: impl Into<String>) -> Self {
        self.with(Step::Redacted(data.into()))
    }

    /// Calls a tool. Several calls in an answer are made in parallel.
    #[must_use]
    pub fn and(self, call: Call) -> Self {
        self.with(Step::Call(call))
    }

    /// How many tokens it took.
    #[must_use]
    pub fn usage(self, usage: Usage) -> Self {
        self.with(Step::Usage(usage))
    }

    /// Why it ends. Calls make [`Finish::Done`] a stop for tools.
    #[must_use]
    pub fn finish(self, finish: Finish) -> Self {
        self.with(Step::Finish(finish))
    }

    /// What goes wrong, each time.
    #[must_use]
    pub fn fault(mut self, fault: Fault) -> Self {
        self.faults.push(Planned { fault, first: None });
        self
    }

    /// What goes wrong at the first `attempts`, and not after them.
    #[must_use]
    pub fn fault_first(mut self, attempts: u32, fault: Fault) -> Self {
        self.faults.push(Planned { fault, first: Some(attempts) });
        self
    }

    /// How many characters come at once; 0 is the default of 12.
    #[must_use]
    pub fn chunk(mut self, characters: usize) -> Self {
        self.chunk = characters;
        self
    }

    /// The time before each piece of content.
    #[must_use]
    pub fn pace(mut self, pause: Duration) -> Self {
        self.pace = pause;
        self
    }

    /// Whether it calls a tool.
    pub fn calls(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::Call(_)))
    }

    /// True if it ends without being complete.
    pub fn fails(&self) -> bool {
        self.steps.last().is_some_and(Step::fails)
    }
}

/// What the pieces of a call in a chat completion carry, because not every server carries all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Marks {
    /// An id at first, and the number of the call always.
    #[default]
    Both,
    /// Only the id, at first.
    Id,
    /// Only the number.
    Index,
    /// Neither.
    None,
    /// An empty id, and the number 0 for every call.
    Same,
}
