//! What a live session tells: owned events in one bounded channel for each session, to be read from any task.

use super::notes::Asked;
use super::{AgentFacts, Changed, Failure, News, Phase, SessionFacts, State};
use crate::services;
use std::sync::Arc;
use tieline::schema::{Dialect, MessageKind, StopReason, ToolCallItem, Update, to_json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::task::JoinHandle;

/// So many events wait to be read; the session waits with them.
const MAX_UNREAD: usize = 256;
/// So many bytes they take; a longer one waits alone.
const MAX_UNREAD_BYTES: u32 = 1 << 20;

/// What comes, in order. It is in the journal and in the transcript when it is told.
#[derive(Debug)]
pub enum Event {
    /// A step begins.
    Phase(Phase),
    /// The agent's process runs, under this number.
    Started(u32),
    /// The agent answered the hello.
    Agent(AgentFacts),
    /// The session is open, or open again.
    Session(SessionFacts),
    /// It was there before, and goes on with what was chosen then, in words: the mode, the model.
    GoesOn(String),
    /// Somebody said something.
    Said {
        /// Who: the user, the agent to the user, or to itself.
        kind: MessageKind,
        /// Which of their messages, counted from 0; see [`super::Conversation::text`].
        number: usize,
        /// What.
        news: News,
        /// When it came.
        when: When,
    },
    /// Any other update.
    Update {
        /// The update.
        update: Box<Update>,
        /// The tool call that it changed, as it is now.
        tool: Option<Arc<ToolCallItem>>,
        /// When it came.
        when: When,
    },
    /// Something was decided or done for the agent.
    Note(services::Event),
    /// Something is odd.
    Warning(String),
    /// A person is about to be asked by others. To be told, or dropped, when all is shown that came before the question.
    Asking(oneshot::Sender<()>),
    /// A person is asked, through a [`super::Desk`].
    Asked(Arc<Asked>),
    /// A question is answered, or not wanted any more: its number.
    Settled(u64),
    /// What the session is doing is another thing now.
    State(State),
    /// A prompt left the queue and is sent: its number.
    Begun(u64),
    /// A prompt was given to the agent while it works, by [`super::Session::send_now`]; or why it did not take it, in words: then it
    /// waits again.
    Given(Result<(), String>),
    /// A turn is over.
    Ended {
        /// Why it stopped, or what went wrong.
        stop: Result<StopReason, Box<Failure>>,
        /// The files that it changed, unless the session is [`super::Opening::once`].
        changed: Vec<Changed>,
        /// What there is to say about it.
        remarks: Vec<String>,
    },
    /// The agent is gone or could not be had. The next prompt, or [`super::Session::revive`], tries again.
    Lost(Box<Failure>),
    /// The session is closed. Nothing comes behind it.
    Closed,
}

/// When an update came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// Before the first prompt.
    Before,
    /// In a turn.
    Turn,
    /// After a turn had ended.
    Late,
}

/// Nobody reads any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gone;

/// Reads what a session tells. Dropping it ends the session here.
#[derive(Debug)]
pub struct Events {
    receiver: mpsc::Receiver<(Event, OwnedSemaphorePermit)>,
    room: Arc<Semaphore>,
    /// What the event takes that was read last.
    read: Option<OwnedSemaphorePermit>,
    pub(super) task: Option<JoinHandle<()>>,
}

impl Events {
    /// The next event; `None` when nothing comes any more.
    pub async fn next(&mut self) -> Option<Event> {
        self.read = None;
        let (event, room) = self.receiver.recv().await?;
        self.read = Some(room);
        Some(event)
    }

    /// Reads no more, and waits until the session has ended.
    pub async fn end(mut self) {
        let task = self.task.take();
        drop(self);
        if let Some(task) = task {
            let _ = task.await;
        }
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.room.close();
    }
}

#[derive(Debug)]
pub(super) struct Sender {
    sender: mpsc::Sender<(Event, OwnedSemaphorePermit)>,
    room: Arc<Semaphore>,
}

pub(super) fn channel() -> (Sender, Events) {
    let (sender, receiver) = mpsc::channel(MAX_UNREAD);
    let room = Arc::new(Semaphore::new(MAX_UNREAD_BYTES as usize));
    (Sender { sender, room: Arc::clone(&room) }, Events { receiver, room, read: None, task: None })
}

impl Sender {
    /// Waits until there is room.
    pub(super) async fn send(&self, event: Event) -> Result<(), Gone> {
        let bytes = match &event {
            Event::Said { news: News::More(text) | News::Fresh(text) | News::Instead(text), .. } => text.len(),
            Event::Update { update, .. } => to_json(update, Dialect::V2).len(),
            _ => 1,
        };
        let bytes = u32::try_from(bytes).unwrap_or(MAX_UNREAD_BYTES).clamp(1, MAX_UNREAD_BYTES);
        let room = Arc::clone(&self.room).acquire_many_owned(bytes).await.map_err(|_| Gone)?;
        self.sender.send((event, room)).await.map_err(|_| Gone)
    }

    /// Waits until nobody reads any more.
    pub(super) async fn closed(&self) {
        self.sender.closed().await;
    }
}
