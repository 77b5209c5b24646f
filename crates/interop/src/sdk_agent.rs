//! An interop agent on the official Rust SDK, for whatever transport.

use crate::vocabulary::{CALL_ID, CALL_RESULT, CALL_TITLE, Command, PLAN, THOUGHT, halves};
use agent_client_protocol::{Client, ConnectTo, Error, Result};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// A message of the conversation, kept for replay: id (v2) and text.
#[derive(Clone)]
enum Message {
    User(String, String),
    Agent(String, String),
}

/// A session. It stays listed after it was closed, so that it can be attached to again.
#[derive(Clone)]
struct Session {
    cwd: PathBuf,
    open: bool,
    history: Vec<Message>,
    /// Wakes the running turn when it is cancelled.
    cancel: Option<Arc<Notify>>,
    /// Counts cancellations, so that a held prompt notices one.
    cancelled: u64,
    /// Held by the running turn.
    turn: Arc<tokio::sync::Mutex<()>>,
}

/// All sessions of this process, and a counter for ids.
#[derive(Clone, Default)]
pub struct Sessions(Arc<Mutex<(HashMap<String, Session>, u64)>>);

impl Sessions {
    fn lock(&self) -> MutexGuard<'_, (HashMap<String, Session>, u64)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn id(&self, what: &str) -> String {
        let mut state = self.lock();
        state.1 += 1;
        format!("{what}-{}", state.1)
    }

    fn create(&self, cwd: &Path) -> String {
        let id = self.id("session");
        let session =
            Session { cwd: cwd.into(), open: true, history: vec![], cancel: None, cancelled: 0, turn: Arc::default() };
        self.lock().0.insert(id.clone(), session);
        id
    }

    /// Ids and directories, sorted.
    fn list(&self, cwd: Option<&Path>) -> Vec<(String, PathBuf)> {
        let state = self.lock();
        let fits = state.0.iter().filter(|(_, session)| cwd.is_none_or(|cwd| cwd == session.cwd));
        let mut list: Vec<_> = fits.map(|(id, session)| (id.clone(), session.cwd.clone())).collect();
        list.sort();
        list
    }

    fn with<T>(&self, id: &str, work: impl FnOnce(&mut Session) -> T) -> Option<T> {
        self.lock().0.get_mut(id).map(work)
    }

    fn find_open(&self, id: &str) -> Option<Session> {
        self.lock().0.get(id).filter(|session| session.open).cloned()
    }

    fn reopen(&self, id: &str) -> Option<Vec<Message>> {
        self.with(id, |session| {
            session.open = true;
            session.history.clone()
        })
    }

    fn remember(&self, id: &str, message: Message) {
        self.with(id, |session| session.history.push(message));
    }

    fn start(&self, id: &str) -> Arc<Notify> {
        let cancel = Arc::new(Notify::new());
        self.with(id, |session| session.cancel = Some(cancel.clone()));
        cancel
    }

    fn finish(&self, id: &str) {
        self.with(id, |session| session.cancel = None);
    }

    fn cancel(&self, id: &str) {
        self.with(id, |session| {
            session.cancelled += 1;
            if let Some(cancel) = &session.cancel {
                cancel.notify_one();
            }
        });
    }

    /// Cancels the running turn and waits for its end.
    async fn close(&self, id: &str) {
        self.cancel(id);
        let turn = self.with(id, |session| {
            session.open = false;
            session.turn.clone()
        });
        if let Some(turn) = turn {
            drop(turn.lock().await);
        }
    }
}

/// The words of an enum that the official types keep to themselves.
fn word<T: serde::de::DeserializeOwned>(word: &str) -> Result<T> {
    serde_json::from_value(word.into()).map_err(Error::into_internal_error)
}

pub mod v1 {
    //! It speaks version 1.

    use super::{
        Arc, CALL_ID, CALL_RESULT, CALL_TITLE, Client, Command, ConnectTo, Error, Message, Notify, PLAN, Result,
        Sessions, THOUGHT, halves, word,
    };
    use agent_client_protocol::v1::{ConnectionTo, Responder, schema as acp};
    use agent_client_protocol::{Agent, on_receive_notification, on_receive_request};

    /// An agent for one connection.
    pub fn agent(all: Sessions) -> impl ConnectTo<Client> {
        let (create, load, list, close, prompt, cancel) =
            (all.clone(), all.clone(), all.clone(), all.clone(), all.clone(), all);
        Agent
            .v1()
            .name("sdk-agent")
            .on_receive_request(
                async |_: acp::InitializeRequest, responder: Responder<acp::InitializeResponse>, _| {
                    responder.respond(hello())
                },
                on_receive_request!(),
            )
            .on_receive_request(
                async move |request: acp::NewSessionRequest, responder: Responder<acp::NewSessionResponse>, _| {
                    responder.respond(acp::NewSessionResponse::new(create.create(&request.cwd)))
                },
                on_receive_request!(),
            )
            .on_receive_request(
                async move |request: acp::LoadSessionRequest, responder: Responder<acp::LoadSessionResponse>, cx| {
                    let Some(history) = load.reopen(&request.session_id.0) else {
                        return responder.respond_with_error(unknown(&request.session_id));
                    };
                    replay(&cx, &request.session_id, history)?;
                    responder.respond(acp::LoadSessionResponse::new())
                },
                on_receive_request!(),
            )
            .on_receive_request(
                async move |request: acp::ListSessionsRequest, responder: Responder<acp::ListSessionsResponse>, _| {
                    let found = list.list(request.cwd.as_deref()).into_iter();
                    let infos = found.map(|(id, cwd)| acp::SessionInfo::new(id, cwd)).collect();
                    responder.respond(acp::ListSessionsResponse::new(infos))
                },
                on_receive_request!(),
            )
            .on_receive_request(
                async move |request: acp::CloseSessionRequest,
                            responder: Responder<acp::CloseSessionResponse>,
                            cx: ConnectionTo<Client>| {
                    let close = close.clone();
                    cx.spawn(async move {
                        close.close(&request.session_id.0).await;
                        responder.respond(acp::CloseSessionResponse::new())
                    })
                },
                on_receive_request!(),
            )
            .on_receive_request(
                async move |request: acp::PromptRequest,
                            responder: Responder<acp::PromptResponse>,
                            cx: ConnectionTo<Client>| {
                    // A turn must not hold up the dispatch loop.
                    let (sessions, worker) = (prompt.clone(), cx.clone());
                    let Some(session) = sessions.find_open(&request.session_id.0) else {
                        return responder.respond_with_error(unknown(&request.session_id));
                    };
                    let Ok(busy) = session.turn.try_lock_owned() else {
                        return responder.respond_with_error(Error::invalid_request().data("a turn is running"));
                    };
                    let cancelled = sessions.start(&request.session_id.0);
                    cx.spawn(async move {
                        let result = Turn { cx: worker, id: request.session_id.clone(), sessions: sessions.clone() }
                            .run(request.prompt.first(), &cancelled)
                            .await;
                        sessions.finish(&request.session_id.0);
                        responder.respond_with_result(result.map(acp::PromptResponse::new))?;
                        drop(busy);
                        Ok(())
                    })
                },
                on_receive_request!(),
            )
            .on_receive_notification(
                async move |cancelled: acp::CancelNotification, _| {
                    cancel.cancel(&cancelled.session_id.0);
                    Ok(())
                },
                on_receive_notification!(),
            )
    }

    fn hello() -> acp::InitializeResponse {
        let sessions = acp::SessionCapabilities::new()
            .list(acp::SessionListCapabilities::new())
            .close(acp::SessionCloseCapabilities::new());
        acp::InitializeResponse::new(agent_client_protocol::schema::ProtocolVersion::V1)
            .agent_capabilities(acp::AgentCapabilities::new().load_session(true).session_capabilities(sessions))
            .agent_info(acp::Implementation::new("sdk-agent", env!("CARGO_PKG_VERSION")))
    }

    fn unknown(id: &acp::SessionId) -> Error {
        Error::new(-32002, "Resource not found").data(serde_json::json!({ "sessionId": id }))
    }

    fn replay(cx: &ConnectionTo<Client>, id: &acp::SessionId, history: Vec<Message>) -> Result<()> {
        for message in history {
            let update = match message {
                Message::User(_, text) => acp::SessionUpdate::UserMessageChunk(acp::ContentChunk::new(text.into())),
                Message::Agent(_, text) => acp::SessionUpdate::AgentMessageChunk(acp::ContentChunk::new(text.into())),
            };
            cx.send_notification(acp::SessionNotification::new(id.clone(), update))?;
        }
        Ok(())
    }

    struct Turn {
        cx: ConnectionTo<Client>,
        id: acp::SessionId,
        sessions: Sessions,
    }

    impl Turn {
        async fn run(&self, prompt: Option<&acp::ContentBlock>, cancelled: &Arc<Notify>) -> Result<acp::StopReason> {
            let Some(acp::ContentBlock::Text(prompt)) = prompt else {
                return Err(Error::invalid_params().data("the prompt must begin with text"));
            };
            self.sessions.remember(&self.id.0, Message::User(String::new(), prompt.text.clone()));
            let command = Command::parse(&prompt.text);
            tokio::select! {
                result = self.act(&command) => result.map(|()| acp::StopReason::EndTurn),
                () = cancelled.notified() => {
                    if command == Command::Tool {
                        self.call("failed", None)?;
                    }
                    Ok(acp::StopReason::Cancelled)
                }
            }
        }

        async fn act(&self, command: &Command) -> Result<()> {
            match command {
                Command::Say(text) => {
                    self.update(acp::SessionUpdate::AgentThoughtChunk(acp::ContentChunk::new(THOUGHT.into())))?;
                    let (first, second) = halves(text);
                    self.chunk(first)?;
                    self.chunk(second)?;
                    self.sessions.remember(&self.id.0, Message::Agent(String::new(), text.clone()));
                    Ok(())
                }
                Command::Tool => self.tool().await,
                Command::Plan => {
                    let entry = |(what, priority, status)| -> Result<_> {
                        Ok(acp::PlanEntry::new(what, word(priority)?, word(status)?))
                    };
                    let entries = PLAN.into_iter().map(entry).collect::<Result<_>>()?;
                    self.update(acp::SessionUpdate::Plan(acp::Plan::new(entries)))
                }
                Command::Wait => {
                    self.chunk("waiting")?;
                    std::future::pending().await
                }
                Command::Read(path) => {
                    let request = acp::ReadTextFileRequest::new(self.id.clone(), path);
                    let read = self.cx.send_request(request).block_task().await?;
                    self.say(&read.content)
                }
                Command::Write(path, text) => {
                    let request = acp::WriteTextFileRequest::new(self.id.clone(), path, text);
                    self.cx.send_request(request).block_task().await?;
                    self.say("written")
                }
                Command::Run(program, args) => self.terminal(program, args).await,
                Command::Fail => Err(Error::internal_error().data("told to fail")),
                Command::Unknown(text) => self.say(&format!("unknown prompt: {text}")),
            }
        }

        async fn tool(&self) -> Result<()> {
            self.update(acp::SessionUpdate::ToolCall(
                acp::ToolCall::new(CALL_ID, CALL_TITLE).kind(acp::ToolKind::Edit).status(acp::ToolCallStatus::Pending),
            ))?;
            let call = acp::ToolCallUpdate::new(CALL_ID, acp::ToolCallUpdateFields::new().title(CALL_TITLE));
            let options = vec![
                acp::PermissionOption::new("allow", "Allow", acp::PermissionOptionKind::AllowOnce),
                acp::PermissionOption::new("reject", "Reject", acp::PermissionOptionKind::RejectOnce),
            ];
            let request = acp::RequestPermissionRequest::new(self.id.clone(), call, options);
            match self.cx.send_request(request).block_task().await?.outcome {
                acp::RequestPermissionOutcome::Selected(chosen) if &*chosen.option_id.0 == "allow" => {
                    self.call("in_progress", None)?;
                    self.call("completed", Some(CALL_RESULT))
                }
                _ => self.call("failed", None),
            }
        }

        async fn terminal(&self, program: &str, args: &[String]) -> Result<()> {
            let request = acp::CreateTerminalRequest::new(self.id.clone(), program).args(args.to_vec());
            let terminal = self.cx.send_request(request).block_task().await?.terminal_id;
            let wait = acp::WaitForTerminalExitRequest::new(self.id.clone(), terminal.clone());
            self.cx.send_request(wait).block_task().await?;
            let output = acp::TerminalOutputRequest::new(self.id.clone(), terminal.clone());
            let output = self.cx.send_request(output).block_task().await?.output;
            let release = acp::ReleaseTerminalRequest::new(self.id.clone(), terminal);
            self.cx.send_request(release).block_task().await?;
            self.say(&output)
        }

        fn call(&self, status: &str, content: Option<&str>) -> Result<()> {
            let mut fields = acp::ToolCallUpdateFields::new().status(word::<acp::ToolCallStatus>(status)?);
            if let Some(content) = content {
                fields = fields.content(vec![content.into()]);
            }
            self.update(acp::SessionUpdate::ToolCallUpdate(acp::ToolCallUpdate::new(CALL_ID, fields)))
        }

        fn say(&self, text: &str) -> Result<()> {
            self.sessions.remember(&self.id.0, Message::Agent(String::new(), text.into()));
            self.chunk(text)
        }

        fn chunk(&self, text: &str) -> Result<()> {
            self.update(acp::SessionUpdate::AgentMessageChunk(acp::ContentChunk::new(text.into())))
        }

        fn update(&self, update: acp::SessionUpdate) -> Result<()> {
            self.cx.send_notification(acp::SessionNotification::new(self.id.clone(), update))
        }
    }
}

pub mod v2 {
    //! It speaks version 2.

    use super::{
        Arc, CALL_ID, CALL_RESULT, CALL_TITLE, Client, Command, ConnectTo, Error, Message, Notify, PLAN, Result,
        Session, Sessions, THOUGHT, halves, word,
    };
    use agent_client_protocol::v2::{ConnectionTo, Responder, schema as acp};
    use agent_client_protocol::{Agent, on_receive_notification, on_receive_request};

    /// An agent for one connection.
    pub fn agent(all: Sessions) -> impl ConnectTo<Client> {
        let (create, resume, list, close, prompt, cancel) =
            (all.clone(), all.clone(), all.clone(), all.clone(), all.clone(), all);
        Agent
            .v2()
            .name("sdk-agent")
            .on_receive_request(
                async |_: acp::InitializeRequest, responder: Responder<acp::InitializeResponse>, _| {
                    let version = agent_client_protocol::schema::ProtocolVersion::V2;
                    let info = acp::Implementation::new("sdk-agent", env!("CARGO_PKG_VERSION"));
                    let capabilities = acp::AgentCapabilities::new().session(acp::SessionCapabilities::new());
                    responder.respond(acp::InitializeResponse::new(version, info).capabilities(capabilities))
                },
                on_receive_request!(),
            )
            .on_receive_request(
                async move |request: acp::NewSessionRequest, responder: Responder<acp::NewSessionResponse>, _| {
                    responder.respond(acp::NewSessionResponse::new(create.create(request.cwd.as_ref())))
                },
                on_receive_request!(),
            )
            .on_receive_request(
                async move |request: acp::ResumeSessionRequest,
                            responder: Responder<acp::ResumeSessionResponse>,
                            cx: ConnectionTo<Client>| {
                    let whole = match &request.replay_from {
                        None => false,
                        Some(acp::ReplayFrom::Start(_)) => true,
                        Some(_) => return responder.respond_with_error(Error::invalid_params().data("replayFrom")),
                    };
                    let Some(history) = resume.reopen(&request.session_id.0) else {
                        return responder.respond_with_error(unknown(&request.session_id));
                    };
                    let running = resume.with(&request.session_id.0, |s| s.cancel.is_some()).unwrap_or_default();
                    let turn = Turn { cx, id: request.session_id, sessions: resume.clone() };
                    if whole {
                        turn.replay(history)?;
                    }
                    turn.state(if running { running_state() } else { idle(None) })?;
                    responder.respond(acp::ResumeSessionResponse::new())
                },
                on_receive_request!(),
            )
            .on_receive_request(
                async move |request: acp::ListSessionsRequest, responder: Responder<acp::ListSessionsResponse>, _| {
                    let found = list.list(request.cwd.as_ref().map(AsRef::as_ref)).into_iter();
                    let infos = found.map(|(id, cwd)| acp::SessionInfo::new(id, cwd)).collect();
                    responder.respond(acp::ListSessionsResponse::new(infos))
                },
                on_receive_request!(),
            )
            .on_receive_request(
                async move |request: acp::CloseSessionRequest,
                            responder: Responder<acp::CloseSessionResponse>,
                            cx: ConnectionTo<Client>| {
                    let close = close.clone();
                    cx.spawn(async move {
                        close.close(&request.session_id.0).await;
                        responder.respond(acp::CloseSessionResponse::new())
                    })
                },
                on_receive_request!(),
            )
            .on_receive_request(
                async move |request: acp::PromptRequest,
                            responder: Responder<acp::PromptResponse>,
                            cx: ConnectionTo<Client>| {
                    let Some(session) = prompt.find_open(&request.session_id.0) else {
                        return responder.respond_with_error(unknown(&request.session_id));
                    };
                    let turn = Turn { cx: cx.clone(), id: request.session_id, sessions: prompt.clone() };
                    cx.spawn(async move { turn.run(request.prompt, session, responder).await })
                },
                on_receive_request!(),
            )
            .on_receive_notification(
                async move |cancelled: acp::CancelSessionNotification, _| {
                    cancel.cancel(&cancelled.session_id.0);
                    Ok(())
                },
                on_receive_notification!(),
            )
    }

    fn unknown(id: &acp::SessionId) -> Error {
        acp::Error::session_not_found(id.clone()).into()
    }

    fn running_state() -> acp::StateUpdate {
        acp::StateUpdate::Running(acp::RunningStateUpdate::new())
    }

    fn idle(reason: Option<acp::StopReason>) -> acp::StateUpdate {
        acp::StateUpdate::Idle(acp::IdleStateUpdate::new().stop_reason(reason))
    }

    struct Turn {
        cx: ConnectionTo<Client>,
        id: acp::SessionId,
        sessions: Sessions,
    }

    impl Turn {
        /// A prompt waits for the turn before it; it is answered when it is inserted.
        async fn run(
            &self,
            prompt: Vec<acp::ContentBlock>,
            session: Session,
            responder: Responder<acp::PromptResponse>,
        ) -> Result<()> {
            let _turn = session.turn.lock().await;
            let epoch = self.sessions.with(&self.id.0, |now| now.cancelled);
            if epoch != Some(session.cancelled) {
                return responder.respond_with_error(Error::request_cancelled());
            }
            let Some(acp::ContentBlock::Text(text)) = prompt.first() else {
                return responder.respond_with_error(Error::invalid_params().data("the prompt must begin with text"));
            };
            let command = Command::parse(&text.text);
            let cancelled = self.sessions.start(&self.id.0);
            let message = self.sessions.id("user");
            self.sessions.remember(&self.id.0, Message::User(message.clone(), text.text.clone()));
            responder.respond(acp::PromptResponse::new(message.as_str()))?;
            self.update(acp::SessionUpdate::UserMessage(acp::UserMessage::new(message).content(prompt)))?;
            self.state(running_state())?;
            let reason = self.work(&command, &cancelled).await?;
            self.sessions.finish(&self.id.0);
            self.state(idle(Some(reason)))
        }

        async fn work(&self, command: &Command, cancelled: &Arc<Notify>) -> Result<acp::StopReason> {
            tokio::select! {
                result = self.act(command) => Ok(match result {
                    Ok(()) => acp::StopReason::EndTurn,
                    Err(e) => {
                        let error = acp::Error::new(i32::from(e.code), e.message);
                        acp::StopReason::Error(acp::ErrorStopReason::new().error(error))
                    }
                }),
                // The permission request that is left behind here is withdrawn by the SDK.
                () = cancelled.notified() => {
                    if *command == Command::Tool {
                        self.call("cancelled", None)?;
                    }
                    Ok(acp::StopReason::Cancelled)
                }
            }
        }

        async fn act(&self, command: &Command) -> Result<()> {
            match command {
                Command::Say(text) => {
                    let thought = acp::ContentChunk::new(THOUGHT.into(), self.sessions.id("thought"));
                    self.update(acp::SessionUpdate::AgentThoughtChunk(thought))?;
                    let (first, second) = halves(text);
                    let message = self.sessions.id("agent");
                    self.chunk(&message, first)?;
                    self.chunk(&message, second)?;
                    self.sessions.remember(&self.id.0, Message::Agent(message, text.clone()));
                    Ok(())
                }
                Command::Tool => self.tool().await,
                Command::Plan => {
                    let entry = |(what, priority, status)| -> Result<_> {
                        Ok(acp::PlanEntry::new(what, word(priority)?, word(status)?))
                    };
                    let entries = PLAN.into_iter().map(entry).collect::<Result<_>>()?;
                    let plan = acp::PlanUpdateContent::Items(acp::PlanItems::new("plan-1", entries));
                    self.update(acp::SessionUpdate::PlanUpdate(acp::PlanUpdate::new(plan)))
                }
                Command::Wait => {
                    self.chunk(&self.sessions.id("agent"), "waiting")?;
                    std::future::pending().await
                }
                Command::Fail => Err(Error::internal_error()),
                other => {
                    let text = format!("unknown prompt: {other:?}");
                    let message = self.sessions.id("agent");
                    self.sessions.remember(&self.id.0, Message::Agent(message.clone(), text.clone()));
                    self.chunk(&message, &text)
                }
            }
        }

        async fn tool(&self) -> Result<()> {
            let call = acp::ToolCallUpdate::new(CALL_ID).title(CALL_TITLE).kind(acp::ToolKind::Edit);
            self.update(acp::SessionUpdate::ToolCallUpdate(call.clone().status(acp::ToolCallStatus::Pending)))?;
            let options = vec![
                acp::PermissionOption::new("allow", "Allow", acp::PermissionOptionKind::AllowOnce),
                acp::PermissionOption::new("reject", "Reject", acp::PermissionOptionKind::RejectOnce),
            ];
            let subject = acp::RequestPermissionSubject::ToolCall(Box::new(acp::ToolCallPermissionSubject::new(call)));
            let request =
                acp::RequestPermissionRequest::new(self.id.clone(), "Allow the edit?", options).subject(subject);
            let asked = self.cx.send_request(request);
            self.state(acp::StateUpdate::RequiresAction(acp::RequiresActionStateUpdate::new()))?;
            let answer = asked.block_task().await?;
            self.state(running_state())?;
            match answer.outcome {
                acp::RequestPermissionOutcome::Selected(chosen) if &*chosen.option_id.0 == "allow" => {
                    self.call("in_progress", None)?;
                    self.call("completed", Some(CALL_RESULT))
                }
                _ => self.call("failed", None),
            }
        }

        fn call(&self, status: &str, content: Option<&str>) -> Result<()> {
            let mut call = acp::ToolCallUpdate::new(CALL_ID).status(word::<acp::ToolCallStatus>(status)?);
            if let Some(content) = content {
                call = call.content(vec![content.into()]);
            }
            self.update(acp::SessionUpdate::ToolCallUpdate(call))
        }

        fn replay(&self, history: Vec<Message>) -> Result<()> {
            for message in history {
                self.update(match message {
                    Message::User(id, text) => {
                        acp::SessionUpdate::UserMessage(acp::UserMessage::new(id).content(vec![text.into()]))
                    }
                    Message::Agent(id, text) => {
                        acp::SessionUpdate::AgentMessage(acp::AgentMessage::new(id).content(vec![text.into()]))
                    }
                })?;
            }
            Ok(())
        }

        fn chunk(&self, message: &str, text: &str) -> Result<()> {
            self.update(acp::SessionUpdate::AgentMessageChunk(acp::ContentChunk::new(text.into(), message)))
        }

        fn state(&self, state: acp::StateUpdate) -> Result<()> {
            self.update(acp::SessionUpdate::StateUpdate(state))
        }

        fn update(&self, update: acp::SessionUpdate) -> Result<()> {
            self.cx.send_notification(acp::UpdateSessionNotification::new(self.id.clone(), update))
        }
    }
}
