//! One conversation, seen from the client.

use super::handle::Shared;
use super::turn::Turn;
use super::update_queue::UpdateQueue;
use crate::error::{Error, Result};
use crate::meta::Carried;
use crate::options::{fitted, set_value};
use crate::request::absolute;
use crate::wire::{self, new_id};
use std::sync::Arc;
use std::time::Duration;
use tieline_schema::{
    AgentCall, CancelToolCallRequest, Command, ConfigOption, ConfigValue, ContentBlock, Decode, Dialect, Done, Items,
    Message, MessageKind, Meta, Patch, PromptRequest, PromptResponse, SessionId, SessionRequest, SetModeRequest,
    SetOptionRequest, SetOptionResponse, State, TerminalRequest, Update, mode_option,
};

/// One conversation. Dropping it forgets it here; the agent keeps it. See [`Session::close`].
pub struct Session {
    pub(crate) core: Arc<Core>,
    carried: Carried,
}

pub(crate) struct Core {
    pub(crate) id: SessionId,
    pub(crate) queue: Arc<UpdateQueue>,
    pub(crate) shared: Arc<Shared>,
    /// Version 1 agents may have modes without the option that stands for them.
    pub(crate) modes_only: bool,
    /// The `_meta` of the answer that opened it.
    pub(crate) meta: Option<Meta>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Session").field(&self.core.id).finish()
    }
}

/// What a prompt can be made of.
#[derive(Debug, Clone, Default)]
pub struct Prompt(pub Vec<ContentBlock>);

impl From<&str> for Prompt {
    fn from(text: &str) -> Self {
        Self(vec![text.into()])
    }
}

impl From<String> for Prompt {
    fn from(text: String) -> Self {
        Self(vec![text.into()])
    }
}

impl From<ContentBlock> for Prompt {
    fn from(block: ContentBlock) -> Self {
        Self(vec![block])
    }
}

impl From<Vec<ContentBlock>> for Prompt {
    fn from(blocks: Vec<ContentBlock>) -> Self {
        Self(blocks)
    }
}

impl Session {
    pub(crate) fn new(core: Core) -> Self {
        Self { core: Arc::new(core), carried: Carried::default() }
    }

    /// The same session; what is asked or told through this one carries this `_meta`.
    #[must_use]
    pub fn with_meta(&self, meta: Meta) -> Self {
        Self { core: Arc::clone(&self.core), carried: Carried::new(meta) }
    }

    /// The same session, once more.
    pub(crate) fn share(&self) -> Self {
        Self { core: Arc::clone(&self.core), carried: Carried::default() }
    }

    /// Updates that come from now on are not for this one.
    pub(crate) fn release(&self) {
        self.core.shared.dispatcher.release(&self.core.id, &self.core.queue);
    }

    /// The `_meta` of the last answer to what was asked through this one, but prompts ([`Turn::meta`]); only of one that
    /// [`Self::with_meta`] gave.
    pub fn answer_meta(&self) -> Option<Meta> {
        self.carried.answered()
    }

    /// The `_meta` of the agent's answer when the session was opened or taken up.
    pub fn meta(&self) -> Option<&Meta> {
        self.core.meta.as_ref()
    }

    /// The id that the agent gave it.
    pub fn id(&self) -> &SessionId {
        &self.core.id
    }

    /// Says something to the agent. When this returns, the prompt is on its way: a cancel can't overtake it.
    pub async fn prompt(&self, prompt: impl Into<Prompt>) -> Result<Turn> {
        let core = &self.core;
        let Prompt(prompt) = prompt.into();
        core.shared.check_prompt(&prompt)?;
        let after = core.shared.deadlines.cancel;
        if core.queue.is_abandoned() && tokio::time::timeout(after, core.queue.idle()).await.is_err() {
            return Err(Error::TimedOut { what: "the end of a cancelled turn".into(), after });
        }
        // The only wait, before anything is registered: a caller that gives up here leaves nothing behind.
        core.shared.peer.room().await;
        let said = (core.shared.dialect == Dialect::V1).then(|| Message {
            kind: MessageKind::User,
            message_id: new_id("user"),
            content: Patch::Set(Items(prompt.clone())),
            ..Message::default()
        });
        let state = core.queue.begin(core.shared.dialect == Dialect::V2, said)?;
        let turn = Turn::new(Arc::clone(core), Arc::clone(&state), self.carried.clone());
        let call = AgentCall::Prompt(PromptRequest {
            session_id: core.id.clone(),
            prompt,
            meta: self.carried.sent().cloned(),
            ..Default::default()
        });
        let (queue, ends) = (Arc::clone(&core.queue), core.shared.dialect != Dialect::V2);
        let then = move |answer: std::result::Result<&str, _>| {
            let answer = answer.and_then(|text| {
                PromptResponse::decode(&mut tieline_json::Reader::new(text)).map_err(tieline_rpc::CallError::Unreadable)
            });
            let answer = answer.map_err(|error| Error::of_call(error, "session/prompt", Duration::ZERO));
            queue.answered(&state, answer, ends);
        };
        let request = core.shared.peer.call_now("session/prompt", wire::write(&call, core.shared.dialect), then);
        turn.sent_as(request);
        Ok(turn)
    }

    /// Asks the agent to stop what it is doing.
    pub async fn cancel(&self) -> Result<()> {
        self.core.cancel(&self.carried).await
    }

    /// The next update outside a turn; `None` once the connection has ended. While a [`Turn`] is read, updates go there.
    pub async fn next(&self) -> Option<Update> {
        self.core.queue.next().await
    }

    /// The next update outside a turn if it is there already. What a load replays is there when the load returns.
    pub fn try_next(&self) -> Option<Update> {
        self.core.queue.try_next()
    }

    /// The `_meta` beside the update that was read last, here or by a turn.
    pub fn update_meta(&self) -> Option<Meta> {
        self.core.queue.update_meta()
    }

    /// What the session is doing, in every dialect.
    pub fn state(&self) -> State {
        self.core.queue.state()
    }

    /// Its options as they are now. Modes of a version 1 agent are an option too.
    pub fn options(&self) -> Vec<ConfigOption> {
        self.core.queue.options()
    }

    /// Its commands as they are now.
    pub fn commands(&self) -> Vec<Command> {
        self.core.queue.commands()
    }

    /// Changes an option and gives the new list.
    pub async fn set_option(&self, id: &str, value: impl Into<ConfigValue>) -> Result<Vec<ConfigOption>> {
        let core = &self.core;
        let mut options = self.options();
        let value = fitted(&options, id, value.into());
        if !set_value(&mut options, id, &value) {
            return Err(Error::Invalid(format!("no option `{id}` with this value")));
        }
        let is_mode = mode_option(&options).is_some_and(|option| option.config_id == id);
        if let (true, true, ConfigValue::Id(mode_id)) = (is_mode, core.modes_only, &value) {
            let request =
                SetModeRequest { session_id: core.id.clone(), mode_id: mode_id.clone(), ..Default::default() };
            core.shared.ask::<Done>(AgentCall::SetMode(request), &self.carried).await?;
        } else {
            let request = SetOptionRequest { session_id: core.id.clone(), config_id: id.into(), value, meta: None };
            let queue = Arc::clone(&core.queue);
            let limit = Some(core.shared.deadlines.quick);
            // On the reader, so that an update right behind the answer is not undone by it.
            let answer = core.shared.ask_reading(AgentCall::SetOption(request), limit, &self.carried, move |json| {
                let answer = SetOptionResponse::decode(json)?;
                queue.set_options(answer.config_options.clone());
                Ok(answer.config_options)
            });
            match answer.await {
                Ok(options) => return Ok(options),
                // Some agents forget the list; the change was accepted all the same.
                Err(Error::Unreadable(why)) => tracing::warn!(why, "the agent did not tell its options"),
                Err(error) => return Err(error),
            }
        }
        core.queue.set_options(options.clone());
        Ok(options)
    }

    /// Changes the mode.
    pub async fn set_mode(&self, mode: &str) -> Result<()> {
        let id = mode_option(&self.options()).map(|option| option.config_id.clone());
        let id = id.ok_or_else(|| Error::Unsupported("modes".into()))?;
        self.set_option(&id, ConfigValue::Id(mode.to_owned())).await.map(drop)
    }

    /// Stops one tool call that says it can be stopped (current v2).
    pub async fn cancel_tool_call(&self, tool_call_id: impl Into<String>) -> Result<()> {
        let (session_id, tool_call_id) = (self.core.id.clone(), tool_call_id.into());
        let request = CancelToolCallRequest { session_id, tool_call_id, ..Default::default() };
        self.core.shared.ask::<Done>(AgentCall::CancelToolCall(request), &self.carried).await.map(drop)
    }

    /// Stops one terminal that says it can be stopped (current v2).
    pub async fn cancel_terminal(&self, terminal_id: impl Into<String>) -> Result<()> {
        let (session_id, terminal_id) = (self.core.id.clone(), terminal_id.into());
        let request = TerminalRequest { session_id, terminal_id, ..Default::default() };
        self.core.shared.ask::<Done>(AgentCall::CancelTerminal(request), &self.carried).await.map(drop)
    }

    /// Closes the session at the agent, which cancels what runs. An agent that does not know it any more has closed it.
    pub async fn close(&self) -> Result<()> {
        let core = &self.core;
        if !core.shared.about.capabilities.close {
            return Err(Error::Unsupported("closing sessions".into()));
        }
        core.queue.cancel_asks();
        let call = AgentCall::Close(SessionRequest::from(core.id.clone()));
        let answer = core.shared.ask::<Done>(call, &self.carried).await;
        core.shared.dispatcher.forget(&core.id);
        match answer {
            Err(error) if error.code() != Some(-32002) => Err(error),
            _ => Ok(()),
        }
    }
}

impl Core {
    pub(crate) async fn cancel(&self, carried: &Carried) -> Result<()> {
        self.queue.cancel_asks();
        let mut call = AgentCall::Cancel(SessionRequest::from(self.id.clone()));
        carried.fill(call.meta_mut());
        Ok(self.shared.peer.notify("session/cancel", wire::write(&call, self.shared.dialect)).await?)
    }

    pub(crate) fn cancel_now(&self) {
        self.queue.cancel_asks();
        let call = AgentCall::Cancel(SessionRequest::from(self.id.clone()));
        let _ = self.shared.peer.notify_now("session/cancel", wire::write(&call, self.shared.dialect));
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        if self.queue.disclaim() {
            self.shared.dispatcher.release(&self.id, &self.queue);
        }
    }
}

/// A working directory or root, checked before it is sent.
pub(crate) fn check_paths<'p>(paths: impl IntoIterator<Item = &'p String>) -> Result<()> {
    paths.into_iter().try_for_each(|path| absolute(path))
}
