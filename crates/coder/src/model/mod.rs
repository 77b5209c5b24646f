//! What a model is: it gets a conversation and a list of tools, and streams what it wants to say and do.
//!
//! A model is one small trait, so that the offline interpreter, a script and a provider on the network all drive the same
//! turn loop.

pub mod addresses;
pub mod choose;
pub mod offline;
pub mod provider;
pub mod script;
pub mod ways;

pub use tieline_script::Update as Report;
pub use ways::ways;

use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use tieline::{ContentBlock, Raw};
use tokio::sync::mpsc;

/// Whether a model can be asked, once that is known.
pub type Ready<'a> = std::pin::Pin<Box<dyn Future<Output = Result<(), ModelError>> + Send + 'a>>;

/// Something that answers a conversation.
pub trait Model: Send + Sync + 'static {
    /// The id under which users choose it, such as `offline`.
    fn id(&self) -> &str;

    /// What people are shown.
    fn name(&self) -> &str;

    /// How many tokens fit into its context; 0 if it has no such limit.
    fn context_size(&self) -> u64 {
        0
    }

    /// The values of the `thought_level` option that it takes; none if it does not think.
    fn thought_levels(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether it could be asked now, or what the user has to do first.
    fn ready(&self) -> Ready<'_> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Whose it is: who users log in to. Nobody's, if it needs no login.
    fn provider(&self) -> Option<&Arc<provider::Provider>> {
        None
    }

    /// Starts an answer. Work ends when the reply is dropped.
    fn reply(&self, request: Request) -> Reply;
}

/// What a model is asked.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// Who it is and how it should work.
    pub system: String,
    /// The conversation so far, oldest first; the last message is the user's or tool results.
    pub messages: Vec<Message>,
    /// What it may use.
    pub tools: Vec<ToolSpec>,
    /// At most this many tokens in the answer.
    pub max_tokens: Option<u64>,
    /// How hard it should think: a value of the `thought_level` option.
    pub thought_level: Option<String>,
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// What the user said.
    User(Vec<ContentBlock>),
    /// What the model said and wanted done.
    Assistant {
        /// What it said.
        text: String,
        /// What it thought.
        thought: String,
        /// What it wanted done, in order.
        calls: Vec<ToolRequest>,
        /// What the model wants to see again and only it understands, such as signatures of its thoughts.
        kept: Option<Raw>,
    },
    /// What came of it, in the order of the calls.
    Results(Vec<ToolResult>),
}

/// A tool that the model wants to use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolRequest {
    /// Ties the result to the call.
    pub id: String,
    /// Which tool; may be one that does not exist.
    pub name: String,
    /// Its arguments as JSON text; may be malformed, because models do that.
    pub arguments: String,
}

/// What came of a tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The id of the call.
    pub id: String,
    /// Which tool.
    pub name: String,
    /// What the model is told.
    #[serde(with = "crate::history::blocks")]
    pub content: Vec<ContentBlock>,
    /// It did not work.
    pub is_error: bool,
}

/// A tool as the model is told about it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    /// Its name.
    pub name: String,
    /// What it does and when to use it.
    pub description: String,
    /// The JSON schema of its arguments.
    pub parameters: Raw,
}

/// A piece of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// Text for the user.
    Text(String),
    /// A thought.
    Thought(String),
    /// A tool it wants to use. Several may come; they belong together.
    Call(ToolRequest),
    /// How much was used so far.
    Usage(Usage),
    /// Something to give back to the model with this answer. The last one counts.
    Keep(Raw),
    /// Something that is no model output. Only scripted models send it, but for notices.
    Report(Report),
    /// The answer is complete. Nothing comes after it.
    Finish(Finish),
}

/// Why an answer is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// It said all it wanted, or wants its calls carried out.
    Done,
    /// It ran out of tokens.
    MaxTokens,
    /// It does not want to go on.
    Refusal,
}

/// How much was used.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the context in use after this answer.
    pub used: u64,
    /// Money spent for this answer in US dollars, where known.
    pub cost: Option<f64>,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ModelError {
    /// The conversation does not fit into the context any more.
    #[error(
        "the conversation does not fit into the model's context any more. Begin a new session, or choose a model with a larger context."
    )]
    Overflow,
    /// The user has to log in first.
    #[error("{0}")]
    LoginNeeded(String),
    /// Too much was asked of the provider.
    #[error("{why}")]
    RateLimited {
        /// What it said.
        why: String,
        /// When it may be asked again, if it said so.
        after: Option<Duration>,
    },
    /// The provider does not take this request, as often as it is sent.
    #[error("{0}")]
    Refused(String),
    /// Anything else, told so that a person knows what to do.
    #[error("{0}")]
    Failed(String),
}

impl ModelError {
    /// What the client is told. The engine adds the ways to log in: those of the model's provider.
    pub(crate) fn told(self, model: &dyn Model) -> tieline::Error {
        match (self, model.provider()) {
            (Self::LoginNeeded(why), Some(provider)) => tieline::Error::login_needed(why, &provider.method_ids()),
            (Self::LoginNeeded(why), None) => tieline::Error::wire(-32000, why),
            (error, _) => tieline::Error::wire(-32603, error.to_string()),
        }
    }
}

/// The model of an older session that can't be found any more. It says so to whoever asks it.
pub(crate) struct Gone {
    id: String,
    name: String,
    why: String,
}

impl Gone {
    pub(crate) fn new(id: &str, why: &str) -> Self {
        let words = format!(
            "this session was with `{id}`, which can't be used now: {} Name another, such as `--model offline`; \
             `tieline models` lists them",
            why.trim_end()
        );
        Self { id: id.to_owned(), name: format!("{id} (can't be used)"), why: words }
    }
}

impl Model for Gone {
    fn id(&self) -> &str {
        &self.id
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn reply(&self, _: Request) -> Reply {
        Reply::of(vec![Err(ModelError::Failed(self.why.clone()))])
    }
}

/// An answer as it comes.
pub struct Reply {
    events: mpsc::Receiver<Result<Event, ModelError>>,
    task: tokio::task::AbortHandle,
}

impl Reply {
    /// Runs `work` in a task of its own; what it sends is the answer.
    pub fn start<W>(work: impl FnOnce(mpsc::Sender<Result<Event, ModelError>>) -> W) -> Self
    where
        W: Future<Output = ()> + Send + 'static,
    {
        let (sender, events) = mpsc::channel(32);
        Self { events, task: tokio::spawn(work(sender)).abort_handle() }
    }

    /// An answer that is known as a whole.
    pub fn of(pieces: Vec<Result<Event, ModelError>>) -> Self {
        Self::start(move |sender| async move {
            for piece in pieces {
                if sender.send(piece).await.is_err() {
                    return;
                }
            }
        })
    }

    /// The next piece. `None` if the answer ended without [`Event::Finish`]: it was cut off.
    pub async fn next(&mut self) -> Option<Result<Event, ModelError>> {
        self.events.recv().await
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        self.task.abort();
    }
}
