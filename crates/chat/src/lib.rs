//! A terminal chat for any agent of the Agent Client Protocol: a screen on the live sessions of `tieline-client`.
//!
//! What happens is an [`event::Event`]; [`state::State::handle`] takes it and says what is to be done as [`effect::Effect`]s; the
//! screen is a function of the state. [`run`] joins these to a terminal and to sessions, which an [`Opener`] prepares.

mod app;
pub mod ask;
pub mod compose;
pub mod effect;
pub mod event;
pub mod form;
pub mod keys;
pub mod list;
pub mod pick;
pub mod rows;
mod screen;
pub mod state;
pub mod tab;
mod text;
pub mod view;
mod work;

pub use app::run;
pub use rows::terminal::shown_size;

use std::path::PathBuf;
use tieline_client::Future;
use tieline_client::journal::Journal;
use tieline_client::live::{Failure, Link, Opening, Part};
use tieline_client::sanitize;

/// Which session is wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Which {
    /// The agent by its name or command; the usual one if it is left out.
    pub agent: Option<String>,
    /// What to go on with.
    pub session: Go,
}

/// What to go on with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Go {
    /// What the command line says; later a new one.
    #[default]
    Start,
    /// A new session.
    New,
    /// The session with this id.
    On(String),
}

/// A session that is ready to be opened.
pub struct Ready {
    /// Its agent.
    pub link: Link,
    /// How it is opened.
    pub opening: Opening,
    /// The frames, as they come.
    pub frames: std::sync::Arc<Log>,
    /// Something to say first.
    pub prompt: Vec<Part>,
}

/// An agent that can be chosen.
#[derive(Debug, Clone)]
pub struct AgentChoice {
    /// What it is called here.
    pub name: String,
    /// What people call it, or its command.
    pub about: String,
    /// True if its program is there.
    pub found: bool,
}

/// Prepares sessions: agent, folder, rules, journal.
pub trait Opener: Send + Sync + 'static {
    /// Prepares one. The questions of its agent must go to the desk of its notes.
    fn open(&self, which: Which) -> Future<'_, Result<Ready, Box<Failure>>>;

    /// What the agent of the first tab is called, if its session is a new one: then the screen need not wait for it to say what can be done.
    fn first(&self) -> Option<String>;

    /// The agents that can be chosen.
    fn agents(&self) -> Vec<AgentChoice>;

    /// Where sessions are kept, if they are.
    fn journal(&self) -> Option<Journal>;

    /// The folder that the user is in.
    fn folder(&self) -> PathBuf;
}

pub use traffic::Log;
mod traffic;

/// The words of the first minute: what can be typed, how a model is named, which agents are here.
pub(crate) fn welcome(agent: &str, agents: &[AgentChoice]) -> Vec<String> {
    let others = agents.iter().filter(|choice| choice.found && choice.name != agent).map(|choice| choice.name.as_str());
    let others: Vec<_> = others.collect();
    let others = if others.is_empty() {
        "Other agents (Claude, Codex, Gemini, …) are used once they are installed: `tieline agents list`.".to_owned()
    } else {
        format!("Found here, too: {}. F4 opens one in a new tab.", others.join(", "))
    };
    let model = if agent == tieline_client::agents::BUILT_IN {
        "Without a model: try `help`. For one: `tieline agent login anthropic` in a shell, then `/model anthropic/claude-sonnet-5-5` here; F3 shows who answers, `tieline models` all ways.".to_owned()
    } else {
        format!("You talk to {}. F3 chooses its model and its mode, if it has some.", sanitize::line(agent))
    };
    vec![
        "Type what is to be done and press Enter. @ names a file, / a command, ! runs a line of yours; ? shows all keys.".into(),
        model,
        others,
    ]
}
