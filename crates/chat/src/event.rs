//! What happens to the chat: keys, what sessions tell, what the work found. Owned, one after the other.

use crate::{AgentChoice, pick};
use crossterm::event::{KeyEvent, MouseEvent};
use std::path::PathBuf;
use std::sync::Arc;
use tieline::schema::{Command, ConfigOption};
use tieline_client::live::{self, Conversation, Failure, Now, Queued};

/// Names a tab for as long as the chat runs.
pub type TabId = u64;

/// One thing that happened.
#[derive(Debug)]
pub enum Event {
    /// A key was pressed.
    Key(KeyEvent),
    /// Text was pasted.
    Paste(String),
    /// The mouse was moved, pressed or turned.
    Mouse(MouseEvent),
    /// The screen has another size.
    Resize,
    /// A moment that the state waited for has come.
    Tick,
    /// We are told to end: by a signal, or because the terminal is gone.
    Stop,
    /// A session tells something.
    Live(TabId, Box<live::Event>),
    /// A session is there to be opened: what is known of it.
    Opened(TabId, Box<OpenedFacts>),
    /// It can't be.
    NotOpened(TabId, Box<Failure>),
    /// What waits is another thing now.
    Queue(TabId, Waits),
    /// What can be chosen in a session.
    About(TabId, Box<About>),
    /// Something to say in passing.
    Told(String),
    /// What a picker was waiting for.
    Found(pick::Picker),
    /// A text to read, with its title.
    Read(String, Vec<String>),
    /// The text that came back from the editor.
    Edited(String),
    /// A picture from the clipboard, or why there is none.
    Picture(TabId, Result<PathBuf, String>),
    /// The list of files is there that a composer waits for.
    Woken,
    /// What came in a terminal that we run for an agent, by its id.
    Output(TabId, String, String),
    /// What a shell command has printed so far, with its line: for the remark at this place; true if it is over.
    Ran(TabId, usize, String, bool),
}

/// What is known of a session before its agent runs.
#[derive(Debug)]
pub struct OpenedFacts {
    /// What the agent is called.
    pub agent: String,
    /// Where it works.
    pub cwd: PathBuf,
    /// Its transcript.
    pub conversation: Conversation,
    /// The agents that were found, for the first screen.
    pub agents: Arc<[AgentChoice]>,
    /// True if the session was there before.
    pub resumed: bool,
    /// Where history and drafts are kept.
    pub state: Option<PathBuf>,
    /// What the draft is called.
    pub draft: String,
    /// To be called when something changed that no event tells.
    pub wake: Wake,
}

/// Something to be called, from any thread.
#[derive(Clone)]
pub struct Call<T>(pub Arc<dyn Fn() -> T + Send + Sync>);

impl<T> std::fmt::Debug for Call<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Call")
    }
}

/// Calls the loop.
pub type Wake = Call<()>;
/// What waits in a session, asked for when it is taken in: an answer from before may have been overtaken.
pub type Waits = Call<Vec<Queued>>;

impl From<Vec<Queued>> for Waits {
    fn from(queue: Vec<Queued>) -> Self {
        Self(Arc::new(move || queue.clone()))
    }
}

/// What can be chosen and typed in a session, and what "send now" means there.
#[derive(Debug, Default, Clone)]
pub struct About {
    /// Modes, models and other options.
    pub options: Vec<ConfigOption>,
    /// Commands that begin with a slash.
    pub commands: Vec<Command>,
    /// How a prompt gets to the agent while it works.
    pub now: Now,
}
