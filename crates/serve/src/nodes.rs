//! Several servers on one store: what a node wants of a session that another one has, and how the one that has it obeys.

use crate::hub::{Hub, failed};
use crate::log::Question;
use crate::question::Answered;
use crate::room::Room;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tieline::schema::{ConfigOption, ConfigValue, ContentBlock, Dialect, Raw, data_field, from_json, to_json};
use tieline::{Error, Result};
use tieline_host::store::{Answer, Holder, State};
use tokio::time::sleep;

/// The node that has a session answers within this time. It may have to start an agent first.
const ANSWER_TIMEOUT: Duration = Duration::from_mins(2);
/// How often a session that another node has is looked at, and the inbox again behind an error.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// One of this node that is being let go is waited for so many looks.
const MAX_LOOKS: usize = 10;

/// What is wanted of whoever has a session.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Command {
    /// Its options and commands.
    Facts,
    /// A prompt comes: take it in.
    Accept { name: String },
    /// A prompt that was taken in.
    Prompt { name: String, content: Raw },
    /// A prompt is not wanted any more.
    Withdraw { name: String },
    /// The turn that runs is not.
    Cancel,
    /// Somebody's answer to a question.
    Answer { question: Question, answer: Answered, by: String },
    /// Another value for an option.
    SetOption { id: String, value: Value },
    /// Nobody is on it elsewhere: let it go.
    Close,
}

/// A value for an option, on its way.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Value {
    Id(String),
    Bool(bool),
    Other(String, Raw),
}

impl From<ConfigValue> for Value {
    fn from(value: ConfigValue) -> Self {
        match value {
            ConfigValue::Id(id) => Self::Id(id),
            ConfigValue::Bool(on) => Self::Bool(on),
            ConfigValue::Other { tag, value } => Self::Other(tag, value),
        }
    }
}

impl From<Value> for ConfigValue {
    fn from(value: Value) -> Self {
        match value {
            Value::Id(id) => Self::Id(id),
            Value::Bool(on) => Self::Bool(on),
            Value::Other(tag, value) => Self::Other { tag, value },
        }
    }
}

impl Command {
    /// Whether an agent is started for it.
    fn wakes(&self) -> bool {
        matches!(self, Self::Accept { .. } | Self::Prompt { .. } | Self::SetOption { .. })
    }
}

/// The options and commands of a session, as they are sent.
pub(crate) type Facts = (Vec<ConfigOption>, Vec<tieline::schema::Command>);

pub(crate) fn blocks(content: &[ContentBlock]) -> Raw {
    raw(to_json(&content.to_vec(), Dialect::V2))
}

fn raw(text: String) -> Raw {
    // It was just written.
    Raw::new(text).unwrap_or_else(|_| Raw::from(serde_json::Value::Null))
}

fn read<T: tieline::schema::Decode>(raw: &Raw) -> Result<T> {
    from_json(raw.get()).map_err(Error::internal)
}

/// How an answer is written down for the other node.
fn written(answer: Result<Raw>) -> String {
    match answer {
        Ok(value) => format!("{{\"ok\":{value}}}"),
        Err(Error::Wire(error)) => json!({ "code": error.code, "error": error.message }).to_string(),
        Err(error) => json!({ "code": -32603, "error": error.to_string() }).to_string(),
    }
}

fn understood(text: String) -> Result<Raw> {
    let text = Raw::new(text).map_err(Error::internal)?;
    if let Some(words) = data_field::<String>(&text, "error") {
        return Err(Error::wire(data_field::<i64>(&text, "code").unwrap_or(-32603), words));
    }
    Ok(data_field(&text, "ok").unwrap_or_else(|| raw("null".to_owned())))
}

impl Room {
    /// Has something done by whoever has the session: here, at another node, or here from now on if nobody has it.
    pub(crate) async fn call(self: &Arc<Self>, command: Command) -> Result<Raw> {
        if self.seat().is_some() {
            return self.obey(command).await;
        }
        let body = serde_json::to_string(&command).map_err(Error::internal)?;
        loop {
            if self.seat().is_some() {
                return self.obey(command).await;
            }
            let shared = self.journal.shared().ok_or_else(|| Error::wire(-32603, self.why()))?;
            let asked = shared.ask(&self.id().into(), body.clone(), ANSWER_TIMEOUT).await;
            match asked.map_err(|error| Error::wire(-32603, error.to_string()))? {
                Answer::Given(answer) => return understood(answer),
                Answer::None(why) => return Err(Error::wire(-32603, why)),
                Answer::Nobody if command.wakes() => self.take_over().await?,
                Answer::Nobody => return Err(Error::wire(-32603, "the session sleeps; the next prompt wakes it")),
            }
        }
    }

    /// The session goes on here, if nobody has it. No error if another node was faster.
    pub(crate) async fn take_over(self: &Arc<Self>) -> Result<()> {
        let _one = self.taking.lock().await;
        let Some(hub) = self.hub.upgrade().map(Hub) else { return Err(Error::wire(-32603, self.why())) };
        if self.seat().is_some() {
            return Ok(());
        }
        match hub.sit(self).await {
            Err(error) if hub.holder(self.id()).await.is_none() => Err(error),
            _ => Ok(()),
        }
    }

    /// Does what a command wants. The session is here.
    pub(crate) async fn obey(self: &Arc<Self>, command: Command) -> Result<Raw> {
        let seat = self.seat().ok_or_else(|| Error::wire(-32603, self.why()))?;
        let done = || raw("null".to_owned());
        match command {
            Command::Facts => {
                let (options, commands) = seat.facts();
                let (options, commands) = (to_json(&options, Dialect::V2), to_json(&commands, Dialect::V2));
                Ok(raw(format!("{{\"options\":{options},\"commands\":{commands}}}")))
            }
            Command::Accept { name } => self.accept(&name).await.map(|()| done()),
            Command::Prompt { name, content } => self.prompt(&seat, name, read(&content)?).await.map(|()| done()),
            Command::Withdraw { name } => {
                self.withdraw(&seat, name).await;
                Ok(done())
            }
            Command::Cancel => {
                seat.live.cancel().await;
                Ok(done())
            }
            Command::Answer { question, answer, by } => {
                self.answer(&seat, &question, &answer, &by);
                Ok(done())
            }
            Command::SetOption { id, value } => {
                let options = seat.set_option(&id, value.into()).await?;
                Ok(raw(to_json(&options, Dialect::V2)))
            }
            Command::Close if self.close_behind(None) => {
                self.ended().await;
                Ok(done())
            }
            Command::Close => Err(Error::wire(-32603, "somebody is on this session")),
        }
    }

    /// The options and commands of the session, wherever it is. One that sleeps has none to tell.
    pub(crate) async fn facts(self: &Arc<Self>) -> Result<Facts> {
        if let Some(seat) = self.seat() {
            return Ok(seat.facts());
        }
        let Ok(told) = self.call(Command::Facts).await else { return Ok(Facts::default()) };
        let part = |name: &str| data_field::<Raw>(&told, name).ok_or_else(|| Error::internal("half an answer"));
        Ok((read(&part("options")?)?, read(&part("commands")?)?))
    }

    /// Gives an option another value, wherever the session is.
    pub(crate) async fn set_option(self: &Arc<Self>, id: String, value: ConfigValue) -> Result<Vec<ConfigOption>> {
        match self.seat() {
            Some(seat) => seat.set_option(&id, value).await,
            None => read(&self.call(Command::SetOption { id, value: value.into() }).await?),
        }
    }

    /// Somebody here waits for the end of a prompt.
    fn waits(&self) -> bool {
        self.prompts.load(Relaxed) > 0
    }

    /// Looks after a session that another node has: it ends with its last client here, and goes on here if its owner was lost in a turn
    /// and somebody looks on, or with a prompt that was not begun.
    pub(crate) async fn look_after(self: Arc<Self>) {
        loop {
            tokio::select! {
                () = self.ended() => return,
                () = sleep(LOOK_EVERY) => {}
            }
            if self.seat().is_some() {
                return;
            }
            if self.people() == 0 && self.close_behind(None) {
                return self.end_here();
            }
            match self.journal.entry(self.id()).await {
                Err(error) if error.is_no_session() => return self.end_here(),
                Ok(entry) if entry.state == State::Interrupted || entry.holder.is_none() && self.waits() => {
                    tracing::warn!(session = self.id(), "its node is lost; the session goes on here");
                    if let Err(error) = self.take_over().await {
                        tracing::warn!(session = self.id(), %error, "a session can't be taken over");
                    }
                }
                // Without the database nothing is known, and nothing can be done.
                _ => {}
            }
        }
    }
}

impl Hub {
    /// Who has a session, if it is another process than this.
    pub(crate) async fn holder(&self, id: &str) -> Option<Holder> {
        self.journal().shared()?;
        for _ in 0..MAX_LOOKS {
            let holder = self.journal().entry(id).await.ok()?.holder.clone()?;
            if !holder.is(&Holder::me()) {
                return Some(holder);
            }
            // It is being let go here.
            sleep(LOOK_EVERY / 5).await;
        }
        None
    }

    /// Obeys what other nodes want of the sessions that are here, until it is dropped.
    pub(crate) async fn obey_others(self) {
        let Some(shared) = self.journal().shared() else { return };
        loop {
            let commands = match shared.commands().await {
                Ok(commands) => commands,
                Err(error) => {
                    tracing::warn!(%error, "what other nodes want is not known");
                    sleep(LOOK_EVERY).await;
                    continue;
                }
            };
            for command in commands {
                let hub = self.clone();
                tokio::spawn(async move {
                    let obeyed = async {
                        let wanted: Command = serde_json::from_str(&command.body).map_err(Error::internal)?;
                        let room = hub.find(&command.session, "another node", true).await?;
                        if room.seat().is_none() {
                            room.take_over().await?;
                        }
                        room.obey(wanted).await
                    };
                    let answer = written(obeyed.await);
                    if let Some(shared) = hub.journal().shared()
                        && let Err(error) = shared.answer(command.number, answer).await
                    {
                        tracing::warn!(%error, "another node can't be answered");
                    }
                });
            }
        }
    }

    /// Why clients should go to another node, if they should.
    pub(crate) fn unwell(&self) -> Option<String> {
        if self.is_draining() {
            return Some("this node is being drained\n".to_owned());
        }
        let since = self.journal().shared()?.unreachable()?;
        Some(format!("the database can't be reached for {} s\n", since.as_secs()))
    }

    async fn sit(&self, room: &Arc<Room>) -> Result<()> {
        let started = self.launch(crate::hub::Wanted::resuming(room.id())).await?;
        room.sit(started, self.settings().idle).await.map_err(|why| failed(&why))
    }
}
