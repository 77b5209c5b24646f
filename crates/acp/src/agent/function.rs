//! The smallest agent: one function that takes a turn and a prompt.

use super::{About, Agent, Opened, Opening, Session, Turn};
use crate::error::Result;
use std::future::Future;
use std::sync::Arc;
use tieline_schema::{ContentBlock, StopReason};

/// An agent made of one function. See [`from_fn`].
#[derive(Debug)]
pub struct FnAgent<F> {
    about: About,
    function: Arc<F>,
}

/// One conversation of an [`FnAgent`].
#[derive(Debug)]
pub struct FnSession<F>(Arc<F>);

/// Makes an agent of a function that works on one prompt.
///
/// ```
/// use tieline::{StopReason, agent};
///
/// let echo = agent::from_fn("echo", |turn, prompt| async move {
///     for block in prompt {
///         turn.say(block).await?;
///     }
///     Ok(StopReason::EndTurn)
/// });
/// # let _ = echo;
/// ```
pub fn from_fn<F, W>(name: &str, function: F) -> FnAgent<F>
where
    F: Fn(Turn, Vec<ContentBlock>) -> W + Send + Sync + 'static,
    W: Future<Output = Result<StopReason>> + Send + 'static,
{
    // Its own version is not known here; `about` can say it.
    FnAgent { about: About::new(name, "0.0.0"), function: Arc::new(function) }
}

impl<F> FnAgent<F> {
    /// Says more about the agent.
    #[must_use]
    pub fn about(mut self, change: impl FnOnce(&mut About)) -> Self {
        change(&mut self.about);
        self
    }

    /// Lets the engine keep the sessions in memory, over all connections to which this agent is served (as an `Arc`). See
    /// [`About::remember_in`].
    #[must_use]
    pub fn remember(mut self) -> Self {
        self.about = self.about.remember();
        self
    }
}

impl<F, W> Agent for FnAgent<F>
where
    F: Fn(Turn, Vec<ContentBlock>) -> W + Send + Sync + 'static,
    W: Future<Output = Result<StopReason>> + Send + 'static,
{
    type Session = FnSession<F>;

    fn about(&self) -> About {
        self.about.clone()
    }

    async fn open(&self, _: Opening) -> Result<Opened<Self::Session>> {
        Ok(Opened::new(FnSession(Arc::clone(&self.function))))
    }
}

impl<F, W> Session for FnSession<F>
where
    F: Fn(Turn, Vec<ContentBlock>) -> W + Send + Sync + 'static,
    W: Future<Output = Result<StopReason>> + Send + 'static,
{
    fn prompt(&self, turn: Turn, prompt: Vec<ContentBlock>) -> impl Future<Output = Result<StopReason>> + Send {
        (self.0)(turn, prompt)
    }
}
