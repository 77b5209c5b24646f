//! Something said while the agent works, at once: by the way that the agent has, which is known before.

use super::link::Result;
use super::session::{Queued, Seat, Session};
use super::{Event, Part, State, When};
use crate::login::words;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::time::Duration;
use tieline::client::{Session as AgentSession, Turn};
use tieline::rpc::sync::Lock;
use tieline::schema::{Dialect, MessageKind, StopReason, Update};
use tokio::time::timeout;

/// How long an agent gets to take a prompt into its turn by the extension.
const STEER_TIMEOUT: Duration = Duration::from_secs(10);
/// An agent that does not read is given nothing more; what it says is not read meanwhile.
const GIVE_TIMEOUT: Duration = Duration::from_secs(1);

/// How a prompt gets to an agent that works.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Now {
    /// The turn is cancelled, and then it is sent.
    #[default]
    Interrupt,
    /// The agent takes it into the turn by the extension `_session/steering`.
    Steer,
    /// It is a second prompt, as current v2 has it: the agent takes it in when it can, and says so then.
    Join,
}

impl Now {
    /// What it means, before it is done.
    pub fn words(self) -> &'static str {
        match self {
            Self::Interrupt => "stops this turn, then sends",
            Self::Steer => "joins this turn (steering)",
            Self::Join => "joins this turn: the agent takes it in when it can",
        }
    }

    /// The way for this prompt: the extension takes only text.
    #[must_use]
    pub fn of(self, parts: &[Part]) -> Self {
        let text = parts.iter().all(|part| matches!(part, Part::Text(_)));
        if self == Self::Steer && !text { Self::Interrupt } else { self }
    }
}

impl Session {
    /// How a prompt gets to the agent while it works, as far as the agent has told. Agents of version 1 are never sent a second
    /// prompt blindly, and our own takes it only behind the turn, which is not now.
    pub fn now(&self) -> Now {
        let seat = &self.0;
        let Some(agent) = seat.link.agent() else { return Now::Interrupt };
        let own = seat.link.setup().agent.is_built_in();
        if agent.dialect() == Dialect::V2 && !own && !seat.doing.locked().takes_none {
            return Now::Join;
        }
        let meta = agent.about().meta.as_ref().and_then(|meta| serde_json::from_str::<Value>(meta.0.get()).ok());
        let steers = meta.and_then(|meta| meta.pointer("/steering/supported")?.as_bool()).unwrap_or_default();
        if steers { Now::Steer } else { Now::Interrupt }
    }

    /// Sends something that waits at once, by the way that [`Self::now`] tells. Gives what there is to say; of a prompt that is
    /// given to the agent [`Event::Given`] tells.
    pub async fn send_now(&self, number: u64) -> Option<String> {
        let mut parts = Vec::new();
        self.edit_queue(|queue| {
            if let Some(at) = queue.iter().position(|queued| queued.number == number)
                && let Some(queued) = queue.remove(at)
            {
                parts.clone_from(&queued.parts);
                queue.push_front(queued);
            }
        });
        match self.now().of(&parts) {
            _ if parts.is_empty() => return Some("it is sent already".into()),
            Now::Join if self.state() != State::Cancelling => {
                self.0.doing.locked().give = true;
                self.0.wake.notify_waiters();
            }
            Now::Steer => return Some(self.steer(number, &parts).await.into()),
            _ => {
                self.cancel().await;
                self.revive();
            }
        }
        None
    }

    async fn steer(&self, number: u64, parts: &[Part]) -> &'static str {
        let text = |part: &Part| match part {
            Part::Text(text) => Some(json!({"type": "text", "text": text})),
            _ => None,
        };
        let parameters =
            json!({"sessionId": self.id().to_string(), "prompt": parts.iter().filter_map(text).collect::<Vec<_>>()});
        let Some(agent) = self.0.link.agent() else { return "the agent is gone; it waits on" };
        let answer = timeout(STEER_TIMEOUT, agent.call::<Value>("_session/steering", &parameters)).await;
        if !matches!(&answer, Ok(Ok(answer)) if answer["outcome"] != "failed") {
            return "the agent did not take it; it waits on";
        }
        self.edit_queue(|queue| queue.retain(|other| other.number != number));
        // The extension has the agent say nothing of it: what was said is written down and told as such here.
        let words =
            parts.iter().filter_map(|part| if let Part::Text(text) = part { Some(text.as_str()) } else { None });
        for words in words {
            let said = self.0.take(Update::text(MessageKind::User, None, words), When::Turn).await;
            if said.is_err() {
                return "the agent is gone";
            }
        }
        "the agent took it into the turn"
    }
}

/// The prompts of a turn that runs: the one that is read, and those that were given to the agent meanwhile.
pub(super) struct Reading {
    pub(super) turn: Turn,
    /// What the turn is of, if that was given and is not known to be taken.
    open: Option<Queued>,
    pub(super) given: VecDeque<Given>,
    /// Why the ones before stopped.
    stop: Option<tieline::Result<StopReason>>,
}

/// One that was given.
pub(super) struct Given {
    queued: Queued,
    turn: Turn,
    taken: bool,
}

impl Reading {
    pub(super) fn new(turn: Turn) -> Self {
        Self { turn, open: None, given: VecDeque::new(), stop: None }
    }
}

/// Waits for the next answer to one that was given.
pub(super) async fn answer(all: &mut VecDeque<Given>) -> (Queued, tieline::Result<()>) {
    let Some(at) = all.iter().position(|given| !given.taken) else { return std::future::pending().await };
    let given = &mut all[at];
    let answer = given.turn.taken().await;
    given.taken = true;
    let queued = given.queued.clone();
    if answer.is_err() {
        all.remove(at);
    }
    (queued, answer)
}

impl Seat {
    /// Gives the first of what waits to the agent, which works.
    pub(super) async fn give(&self, session: &AgentSession, reading: &mut Reading) -> Result<()> {
        let (Some(agent), Some(queued)) = (self.link.agent(), {
            let mut doing = self.doing.locked();
            doing.unwritten = true;
            let queued = doing.queue.pop_front();
            doing.given.extend(queued.clone());
            queued
        }) else {
            return Ok(());
        };
        match timeout(GIVE_TIMEOUT, session.prompt(self.blocks(&agent, &queued.parts))).await {
            Ok(Ok(turn)) => {
                reading.given.push_back(Given { queued, turn, taken: false });
                self.tell(Event::Given(Ok(()))).await
            }
            Ok(Err(error)) => self.taken((queued, Err(error))).await,
            Err(_) => self.put_back(queued, "it does not read".into()).await,
        }
    }

    /// The agent has answered what it was given: if that was no, it waits again, and nothing is given to it so any more.
    pub(super) async fn taken(&self, (queued, answer): (Queued, tieline::Result<()>)) -> Result<()> {
        let Err(error) = answer else {
            let mut doing = self.doing.locked();
            doing.given.retain(|other| other.number != queued.number);
            doing.unwritten = true;
            return Ok(());
        };
        self.doing.locked().takes_none |= error.code().is_some_and(|code| code != tieline::WireError::cancelled().code);
        self.put_back(queued, words(&error)).await
    }

    async fn put_back(&self, queued: Queued, why: String) -> Result<()> {
        {
            let mut doing = self.doing.locked();
            doing.given.retain(|other| other.number != queued.number);
            doing.queue.push_front(queued);
            doing.unwritten = true;
            // Whoever stops the turn hears of that, and of what waits.
            if doing.cancelling {
                return Ok(());
            }
        }
        self.tell(Event::Given(Err(why))).await
    }

    /// The turn that was read is over: goes on with the next one that was given, or gives why the last one stopped.
    pub(super) async fn over(&self, reading: &mut Reading) -> Result<Option<tieline::Result<StopReason>>> {
        let stop = reading.turn.stop();
        match (reading.open.take(), &stop) {
            (Some(queued), Err(error)) if reading.turn.message_id().is_none() => {
                self.taken((queued, Err(error.clone()))).await?;
            }
            (open, _) => {
                if let Some(queued) = open {
                    self.taken((queued, Ok(()))).await?;
                }
                reading.stop = Some(stop);
            }
        }
        let Some(Given { queued, turn, taken }) = reading.given.pop_front() else {
            return Ok(reading.stop.take().or_else(|| Some(reading.turn.stop())));
        };
        (reading.turn, reading.open) = (turn, (!taken).then_some(queued));
        Ok(None)
    }
}
