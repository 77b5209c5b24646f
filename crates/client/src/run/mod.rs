//! One turn without a screen: the agent is found, started and greeted, a session is opened, a prompt is sent, and whatever
//! happens there is exactly one [`Outcome`].
//!
//! Nothing is printed here. A [`Watch`] sees what comes, in order; it decides what people and programs are shown.

mod control;
mod drive;
mod frames;
mod handler_hooks;
mod journal_writer;
mod judge;
mod launch;
mod limits;
mod notes;
mod outcome;
mod phase;
mod prompt;
mod record;
mod said;
mod session;

pub use control::run;
pub use frames::Frames;
pub(crate) use frames::NO_MESSAGE;
pub use judge::Judge;
pub use limits::{Budget, Reached};
pub use notes::Notes;
pub use outcome::{AgentFacts, Changed, Ending, Failure, Outcome, Permissions, SessionFacts};
pub use phase::Phase;
pub use prompt::{Part, read};
pub use said::{News, Said};
pub(crate) use session::LOG_IN_FIRST;

use crate::agents::AgentSpec;
use crate::answer::Schema;
use crate::journal::{Journal, Recording};
use crate::login;
use crate::services::{self, Services};
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tieline::rpc::framing::Framing;
use tieline::schema::{ClientCapabilities, McpServer, MessageKind, Protocol, ToolCallItem, Update};

/// Takes a line of an agent's standard error.
pub type OnLine = Arc<dyn Fn(&str) + Send + Sync>;

/// What to run.
#[derive(Default)]
pub struct Plan {
    /// The agent.
    pub agent: AgentSpec,
    /// Variables for the agent, on top of its own.
    pub env: Vec<(String, String)>,
    /// Gets each line of the agent's standard error.
    pub on_stderr: Option<OnLine>,
    /// The working directory of the session; an absolute path.
    pub cwd: PathBuf,
    /// More directories that the agent may use.
    pub roots: Vec<PathBuf>,
    /// Files that are written for the user meanwhile: not the agent's doing.
    pub ours: Vec<PathBuf>,
    /// MCP servers for the agent.
    pub mcp: Vec<McpServer>,
    /// What to say. Nothing: the run ends when the session is open.
    pub prompt: Vec<Part>,
    /// The mode to switch to first.
    pub mode: Option<String>,
    /// The model to switch to first.
    pub model: Option<String>,
    /// Options to set first.
    pub options: Vec<(String, String)>,
    /// The way to log in, if that is needed.
    pub login: Option<String>,
    /// Which protocol to ask for.
    pub protocol: Protocol,
    /// How messages are framed.
    pub framing: Framing,
    /// What the agent may ask of us.
    pub offer: ClientCapabilities,
    /// How long everything may take up to the prompt.
    pub start_limit: Duration,
    /// How long the whole run may take.
    pub limit: Option<Duration>,
    /// How long the agent may be silent in the turn.
    pub idle_limit: Option<Duration>,
    /// What the turn may cost.
    pub budget: Budget,
    /// Where the session is written down.
    pub journal: Option<Journal>,
    /// The session to go on with, if it is not a new one.
    pub recording: Option<Recording>,
    /// What the user calls the session.
    pub name: Option<String>,
    /// What to do if the agent has lost the session.
    pub on_lost: OnLost,
    /// What the last message must fit.
    pub schema: Option<Schema>,
    /// True if the agent was given by its command and has no name of its own.
    pub by_command: bool,
    /// What the journal calls the agent; sessions are told apart by it.
    pub key: String,
    /// True if the agent's program may be started on the user's terminal, for a login.
    pub terminal_login: bool,
    /// True if the agent is to delete the session at the end, if it can.
    pub forget: bool,
}

/// What to do with a session that the agent has lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnLost {
    /// End, and say so.
    #[default]
    Fail,
    /// Go on in a new one.
    New,
    /// Go on in a new one, and give the agent a record of what was said.
    HandOver,
}

/// Who helps a run.
pub struct Parts {
    /// Answer the agent's requests.
    pub services: Services,
    /// Hears what was decided and done for the agent, and what is odd.
    pub notes: Notes,
    /// Sees the frames.
    pub frames: Arc<Frames>,
    /// Lets a person choose how to log in.
    pub chooser: Option<Arc<dyn login::Chooser>>,
}

/// Why a run has to stop early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The user pressed Ctrl-C.
    Interrupt,
    /// We were told to end.
    Terminate,
}

/// What comes, in order.
#[derive(Debug)]
pub enum Event<'e> {
    /// The agent's process runs, under this number.
    Started(u32),
    /// The agent answered the hello.
    Agent(&'e AgentFacts),
    /// The session is open.
    Session(&'e SessionFacts),
    /// It was there before, and goes on with what was chosen then, in words: the mode, the model.
    GoesOn(&'e str),
    /// The agent said something.
    Said {
        /// The agent to the user, or to itself.
        kind: MessageKind,
        /// What.
        news: News<'e>,
        /// When it came.
        when: When,
    },
    /// Any other update.
    Update {
        /// The update.
        update: &'e Update,
        /// The tool call that it changed, as it is now.
        tool: Option<&'e ToolCallItem>,
        /// When it came.
        when: When,
    },
    /// Something was decided or done for the agent.
    Note(&'e services::Event),
    /// Something is odd.
    Warning(&'e str),
}

/// When an update came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// Before the prompt.
    Before,
    /// In the turn.
    Turn,
    /// After the turn had ended.
    Late,
}

/// News that can't wait: where the run is, and how it is being stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// A phase begins.
    Phase(Phase),
    /// Nothing has happened for so long.
    Waiting(Phase, Duration),
    /// The agent was asked to stop.
    Cancelling(Ending),
    /// The agent did not stop in time (or the user insists), so its process is ended.
    Ending,
    /// The process is killed.
    Killing,
}

/// Nobody reads the output any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gone;

impl From<Gone> for Box<Failure> {
    fn from(_: Gone) -> Self {
        Failure::new(Ending::OutputClosed, Phase::Turn, "nobody reads the output any more")
    }
}

/// Sees a run.
pub trait Watch {
    /// Takes the next event. May wait until there is room for what it makes of it.
    fn see(&self, event: Event<'_>) -> impl Future<Output = Result<(), Gone>>;

    /// Hears news at once, also while [`Self::see`] waits. Must not wait itself.
    fn hear(&self, progress: Progress);
}
