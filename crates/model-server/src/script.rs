//! What the server says: scripts, their answers, and the pieces of an answer.

use crate::call::Call;
use crate::fault::{Fault, Planned};
use std::time::Duration;

/// What a request without tools is answered with, unless the script says otherwise.
const SIDE: &str = "A short answer.";
/// What is said when a script has no answer left.
pub(crate) const NOTHING_LEFT: &str = "Done.";

/// What the server answers, request after request.
///
/// The place in the script is read from the request itself: the answer with number *n* goes to a conversation with *n* rounds of
/// tool calls since the last words of the user. So requests can be repeated, and several conversations can run at once.
/// Requests that offer no tools (titles, quota checks, summaries) are side requests: they get a short fixed text.
/// [`Script::in_order`] makes a plain sequence instead.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "the keys as they stand in a file")]
pub struct Script {
    pub(crate) turns: Vec<Turn>,
    pub(crate) in_order: bool,
    pub(crate) directives: bool,
    pub(crate) side: String,
    pub(crate) key: Option<String>,
    pub(crate) models: Option<Vec<String>>,
    pub(crate) folder: Option<String>,
    pub(crate) reasoning_field: String,
    pub(crate) marks: Marks,
    pub(crate) blind: bool,
    pub(crate) compatible: bool,
}

/// The answers to the prompts that fit.
#[derive(Debug, Clone)]
pub(crate) struct Turn {
    pub(crate) when: Option<String>,
    pub(crate) answers: Vec<Answer>,
}

impl Script {
    /// These answers, by their place in the conversation, after whatever prompt.
    pub fn new(answers: Vec<Answer>) -> Self {
        Self {
            turns: vec![Turn { when: None, answers }],
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

    /// Other answers after a prompt that contains `text`. The first turn that fits is taken.
    #[must_use]
    pub fn when(mut self, text: impl Into<String>, answers: Vec<Answer>) -> Self {
        let place = self.turns.iter().position(|turn| turn.when.is_none()).unwrap_or(self.turns.len());
        self.turns.insert(place, Turn { when: Some(text.into()), answers });
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
    pub(crate) pieces: Vec<Piece>,
    pub(crate) usage: Usage,
    pub(crate) stop: Stop,
    pub(crate) faults: Vec<Planned>,
    pub(crate) chunk: usize,
    pub(crate) pace: Duration,
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

    /// Says something. `{result}` stands for what the last tools gave back, `{prompt}` for the user's last words.
    #[must_use]
    pub fn say(mut self, text: impl Into<String>) -> Self {
        self.pieces.push(Piece::Text(text.into()));
        self
    }

    /// Thinks something, in the way of the vendor.
    #[must_use]
    pub fn think(mut self, text: impl Into<String>) -> Self {
        self.pieces.push(Piece::Thought(text.into()));
        self
    }

    /// Thinks something that nobody can read; in formats other than Anthropic's a thought like others.
    #[must_use]
    pub fn redacted(mut self, data: impl Into<String>) -> Self {
        self.pieces.push(Piece::Redacted(data.into()));
        self
    }

    /// Calls a tool. Several calls in an answer are made in parallel.
    #[must_use]
    pub fn and(mut self, call: Call) -> Self {
        self.pieces.push(Piece::Call(call));
        self
    }

    /// How many tokens it took.
    #[must_use]
    pub fn usage(mut self, usage: Usage) -> Self {
        self.usage = usage;
        self
    }

    /// Why it ends. Calls make [`Stop::End`] a stop for tools.
    #[must_use]
    pub fn stop(mut self, stop: Stop) -> Self {
        self.stop = stop;
        self
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

    pub(crate) fn calls(&self) -> bool {
        self.pieces.iter().any(|piece| matches!(piece, Piece::Call(_)))
    }
}

/// A part of an answer.
#[derive(Debug, Clone)]
pub(crate) enum Piece {
    Text(String),
    Thought(String),
    Redacted(String),
    Call(Call),
}

/// What the pieces of a call in a chat completion carry, because not every server carries all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize)]
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

/// How many tokens an answer took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Usage {
    /// Tokens of the request, all of them.
    pub input: u64,
    /// Tokens of the answer, thoughts included.
    pub output: u64,
    /// How many of the input came from a cache.
    pub cached: u64,
    /// How many of the output were thoughts.
    pub reasoning: u64,
}

impl Default for Usage {
    fn default() -> Self {
        Self { input: 120, output: 24, cached: 0, reasoning: 0 }
    }
}

/// Why an answer ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stop {
    /// It is complete.
    #[default]
    End,
    /// The limit of tokens is reached.
    Length,
    /// The model refuses. `OpenAI` formats carry the text as a refusal.
    Refusal,
    /// A filter of the provider took the rest away.
    Filter,
}
