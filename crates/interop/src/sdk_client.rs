//! An interop client on the official Rust SDK, whatever the transport is.

use crate::scenario::{self, CANCEL_AFTER, Driver, Hello, How, Seen};
use agent_client_protocol::{Agent, Client, ConnectTo, Error, Result};
use serde::Serialize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tieline::Dialect;
use tokio::sync::Notify;

/// Runs the scenario against an agent, however it is reached, and tells on stdout how it went; true if all of it went well.
pub async fn run(version: &str, agent: impl ConnectTo<Client> + 'static) -> Result<bool> {
    let ran = match version {
        "1" => v1::run(agent).await,
        "2" => v2::run(agent).await,
        _ => Err(Error::invalid_params().data("the version is 1 or 2")),
    };
    if let Err(error) = &ran {
        scenario::fail(&format!("the connection failed: {error}"), &mut std::io::stdout());
    }
    ran
}

/// What the handlers share with the scenario.
#[derive(Clone, Default)]
struct Shared {
    state: Arc<Mutex<State>>,
    changed: Arc<Notify>,
}

#[derive(Default)]
struct State {
    seen: Seen,
    how: How,
    updates: usize,
    /// In v2: the turn has begun, and it has ended.
    active: bool,
    idle: bool,
    /// In v2: the messages by id, in order of appearance, and the id of the user's.
    texts: Vec<(String, String)>,
    user_id: Option<String>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, how: How) {
        *self.lock() = State { how, ..State::default() };
    }

    fn change(&self, work: impl FnOnce(&mut State)) {
        work(&mut self.lock());
        self.changed.notify_waiters();
    }

    async fn until(&self, ready: impl Fn(&State) -> bool) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if ready(&self.lock()) {
                return;
            }
            changed.await;
        }
    }

    /// Waits for the moment to cancel.
    async fn until_cancel(&self, ready: impl Fn(&State) -> bool) {
        let _ = tokio::time::timeout(CANCEL_AFTER, self.until(ready)).await;
    }

    fn take(&self) -> Seen {
        let mut state = self.lock();
        let mut seen = std::mem::take(&mut state.seen);
        seen.text.extend(state.texts.drain(..).map(|(_, text)| text));
        seen
    }
}

/// How the wire spells a value.
fn word(value: impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        other => format!("{other:?}"),
    }
}

fn tell(Error { code, message, data, .. }: Error) -> String {
    let data = data.map(|data| format!(" {data}")).unwrap_or_default();
    format!("{message} ({}){data}", i32::from(code))
}

mod v1 {
    use super::{
        Agent, Client, ConnectTo, Dialect, Driver, Error, Hello, How, Result, Seen, Shared, scenario, tell, word,
    };
    use crate::terminals::{Exit, Terminals};
    use agent_client_protocol::schema::ProtocolVersion;
    use agent_client_protocol::v1::{ConnectionTo, Responder, schema as acp};
    use agent_client_protocol::{on_receive_notification, on_receive_request};
    use std::path::Path;

    pub async fn run(agent: impl ConnectTo<Client> + 'static) -> Result<bool> {
        let shared = Shared::default();
        let (updates, asked) = (shared.clone(), shared.clone());
        let terminals = Terminals::default();
        let (create, output, wait, kill, release) =
            (terminals.clone(), terminals.clone(), terminals.clone(), terminals.clone(), terminals);
        Client
            .v1()
            .name("sdk-client")
            .on_receive_notification(
                async move |told: acp::SessionNotification, _| {
                    updates.change(|state| {
                        state.updates += 1;
                        apply(&mut state.seen, told.update);
                    });
                    Ok(())
                },
                on_receive_notification!(),
            )
            .on_receive_request(
                async move |ask: acp::RequestPermissionRequest, r: Responder<acp::RequestPermissionResponse>, _| {
                    let outcome = decide(&asked, ask);
                    r.respond(acp::RequestPermissionResponse::new(outcome))
                },
                on_receive_request!(),
            )
            .on_receive_request(
                async |ask: acp::ReadTextFileRequest, r: Responder<acp::ReadTextFileResponse>, _| {
                    let read = std::fs::read_to_string(&ask.path).map_err(Error::into_internal_error);
                    r.respond_with_result(read.map(acp::ReadTextFileResponse::new))
                },
                on_receive_request!(),
            )
            .on_receive_request(
                async |ask: acp::WriteTextFileRequest, r: Responder<acp::WriteTextFileResponse>, _| {
                    let wrote = std::fs::write(&ask.path, ask.content).map_err(Error::into_internal_error);
                    r.respond_with_result(wrote.map(|()| acp::WriteTextFileResponse::new()))
                },
                on_receive_request!(),
            )
            .on_receive_request(
                async move |ask: acp::CreateTerminalRequest, r: Responder<acp::CreateTerminalResponse>, _| match create
                    .create(&ask.command, &ask.args, ask.cwd.as_deref())
                {
                    Ok(id) => r.respond(acp::CreateTerminalResponse::new(id)),
                    Err(e) => r.respond_with_error(Error::internal_error().data(e)),
                },
                on_receive_request!(),
            )
            .on_receive_request(
                async move |ask: acp::TerminalOutputRequest, r: Responder<acp::TerminalOutputResponse>, _| {
                    let output = output.output(&ask.terminal_id.0).map(|(text, exit)| {
                        acp::TerminalOutputResponse::new(text, false).exit_status(exit.map(status))
                    });
                    r.respond_with_result(output.ok_or_else(no_terminal))
                },
                on_receive_request!(),
            )
            .on_receive_request(
                async move |ask: acp::WaitForTerminalExitRequest,
                            r: Responder<acp::WaitForTerminalExitResponse>,
                            cx: ConnectionTo<Agent>| {
                    let wait = wait.clone();
                    cx.spawn(async move {
                        let exit = wait.wait(&ask.terminal_id.0).await.ok_or_else(no_terminal);
                        r.respond_with_result(exit.map(|exit| acp::WaitForTerminalExitResponse::new(status(exit))))
                    })
                },
                on_receive_request!(),
            )
            .on_receive_request(
                async move |ask: acp::KillTerminalRequest, r: Responder<acp::KillTerminalResponse>, _| {
                    let killed = kill.kill(&ask.terminal_id.0).ok_or_else(no_terminal);
                    r.respond_with_result(killed.map(|()| acp::KillTerminalResponse::new()))
                },
                on_receive_request!(),
            )
            .on_receive_request(
                async move |ask: acp::ReleaseTerminalRequest, r: Responder<acp::ReleaseTerminalResponse>, _| {
                    let released = release.release(&ask.terminal_id.0).ok_or_else(no_terminal);
                    r.respond_with_result(released.map(|()| acp::ReleaseTerminalResponse::new()))
                },
                on_receive_request!(),
            )
            .connect_with(agent, async move |cx: ConnectionTo<Agent>| {
                let mut peer = Peer { cx, shared, session: "".into() };
                Ok(scenario::run(&mut peer, Dialect::V1, &mut std::io::stdout()).await)
            })
            .await
    }

    fn no_terminal() -> Error {
        Error::new(-32002, "Resource not found").data("no such terminal")
    }

    fn status(exit: Exit) -> acp::TerminalExitStatus {
        acp::TerminalExitStatus::new().exit_code(exit)
    }

    fn decide(shared: &Shared, ask: acp::RequestPermissionRequest) -> acp::RequestPermissionOutcome {
        let mut state = shared.lock();
        let wanted = match state.how {
            How::Allow => acp::PermissionOptionKind::AllowOnce,
            How::Reject => acp::PermissionOptionKind::RejectOnce,
            How::Cancel => return acp::RequestPermissionOutcome::Cancelled,
        };
        state.seen.asked.extend(ask.options.iter().map(|o| format!("{}:{}", o.option_id.0, word(o.kind))));
        match ask.options.into_iter().find(|o| o.kind == wanted) {
            Some(o) => acp::RequestPermissionOutcome::Selected(acp::SelectedPermissionOutcome::new(o.option_id)),
            None => acp::RequestPermissionOutcome::Cancelled,
        }
    }

    fn text(block: &acp::ContentBlock) -> &str {
        match block {
            acp::ContentBlock::Text(text) => &text.text,
            _ => "[not text]",
        }
    }

    fn apply(seen: &mut Seen, update: acp::SessionUpdate) {
        match update {
            acp::SessionUpdate::UserMessageChunk(chunk) => seen.user.push_str(text(&chunk.content)),
            acp::SessionUpdate::AgentMessageChunk(chunk) => {
                seen.chunks += 1;
                seen.text.push_str(text(&chunk.content));
            }
            acp::SessionUpdate::AgentThoughtChunk(chunk) => {
                seen.thought_chunks += 1;
                seen.thoughts.push_str(text(&chunk.content));
            }
            acp::SessionUpdate::ToolCall(call) => {
                seen.title = call.title;
                seen.kind = word(call.kind);
                seen.statuses.push(word(call.status));
                seen.content = call.content.iter().map(content).collect();
            }
            acp::SessionUpdate::ToolCallUpdate(call) => {
                if let Some(title) = call.fields.title {
                    seen.title = title;
                }
                if let Some(kind) = call.fields.kind {
                    seen.kind = word(kind);
                }
                seen.statuses.extend(call.fields.status.map(word));
                if let Some(items) = call.fields.content {
                    seen.content = items.iter().map(content).collect();
                }
            }
            acp::SessionUpdate::Plan(plan) => {
                let entry = |e: acp::PlanEntry| format!("{}:{}:{}", e.content, word(e.priority), word(e.status));
                seen.plan = plan.entries.into_iter().map(entry).collect();
            }
            _ => {}
        }
    }

    fn content(item: &acp::ToolCallContent) -> &str {
        match item {
            acp::ToolCallContent::Content(content) => text(&content.content),
            _ => "[not content]",
        }
    }

    struct Peer {
        cx: ConnectionTo<Agent>,
        shared: Shared,
        session: acp::SessionId,
    }

    impl Driver for Peer {
        async fn initialize(&mut self) -> Result<Hello, String> {
            let fs = acp::FileSystemCapabilities::new().read_text_file(true).write_text_file(true);
            let request = acp::InitializeRequest::new(ProtocolVersion::V1)
                .client_capabilities(acp::ClientCapabilities::new().fs(fs).terminal(true))
                .client_info(acp::Implementation::new("sdk-client", env!("CARGO_PKG_VERSION")));
            let answer = self.cx.send_request(request).block_task().await.map_err(tell)?;
            let can = answer.agent_capabilities;
            Ok(Hello {
                protocol: answer.protocol_version.as_u16(),
                agent: answer.agent_info.map(|info| info.name).unwrap_or_default(),
                list: can.session_capabilities.list.is_some(),
                replay: can.load_session,
                close: can.session_capabilities.close.is_some(),
            })
        }

        async fn open(&mut self, cwd: &Path) -> Result<String, String> {
            let request = acp::NewSessionRequest::new(cwd);
            self.session = self.cx.send_request(request).block_task().await.map_err(tell)?.session_id;
            Ok(self.session.to_string())
        }

        fn adopt(&mut self, session: &str) {
            self.session = session.to_owned().into();
        }

        async fn prompt(&mut self, text: &str, how: How) -> Result<Seen, String> {
            self.shared.begin(how);
            let asked = self.cx.send_request(acp::PromptRequest::new(self.session.clone(), vec![text.into()]));
            if how == How::Cancel {
                self.shared.until_cancel(|state| state.updates > 0).await;
                let cancel = acp::CancelNotification::new(self.session.clone());
                self.cx.send_notification(cancel).map_err(tell)?;
            }
            let answer = asked.block_task().await;
            let mut seen = self.shared.take();
            match answer {
                Ok(answer) => seen.stop = Some(word(answer.stop_reason)),
                Err(e) => seen.error = Some(i32::from(e.code).into()),
            }
            Ok(seen)
        }

        async fn list(&mut self, cwd: &Path) -> Result<Vec<String>, String> {
            let request = acp::ListSessionsRequest::new().cwd(cwd.to_owned());
            let answer = self.cx.send_request(request).block_task().await.map_err(tell)?;
            Ok(answer.sessions.into_iter().map(|info| info.session_id.to_string()).collect())
        }

        async fn close(&mut self) -> Result<(), String> {
            let request = acp::CloseSessionRequest::new(self.session.clone());
            self.cx.send_request(request).block_task().await.map(drop).map_err(tell)
        }

        async fn replay(&mut self, cwd: &Path) -> Result<Seen, String> {
            self.shared.begin(How::Allow);
            let request = acp::LoadSessionRequest::new(self.session.clone(), cwd);
            self.cx.send_request(request).block_task().await.map_err(tell)?;
            Ok(self.shared.take())
        }
    }
}

mod v2 {
    use super::{
        Agent, Client, ConnectTo, Dialect, Driver, Hello, How, Result, Seen, Shared, State, scenario, tell, word,
    };
    use agent_client_protocol::schema::{MaybeUndefined, ProtocolVersion};
    use agent_client_protocol::v2::{ConnectionTo, InitializeOutcome, Responder, schema as acp};
    use agent_client_protocol::{on_receive_notification, on_receive_request};
    use std::path::Path;

    pub async fn run(agent: impl ConnectTo<Client> + 'static) -> Result<bool> {
        let shared = Shared::default();
        let (updates, asked) = (shared.clone(), shared.clone());
        Client
            .v2()
            .name("sdk-client")
            .on_receive_notification(
                async move |told: acp::UpdateSessionNotification, _| {
                    updates.change(|state| {
                        state.updates += 1;
                        apply(state, told.update);
                    });
                    Ok(())
                },
                on_receive_notification!(),
            )
            .on_receive_request(
                async move |ask: acp::RequestPermissionRequest, r: Responder<acp::RequestPermissionResponse>, _| {
                    let outcome = decide(&asked, ask);
                    r.respond(acp::RequestPermissionResponse::new(outcome))
                },
                on_receive_request!(),
            )
            .connect_with(agent, async move |cx: ConnectionTo<Agent>| {
                let mut peer = Peer { cx, shared, session: "".into() };
                Ok(scenario::run(&mut peer, Dialect::V2, &mut std::io::stdout()).await)
            })
            .await
    }

    fn decide(shared: &Shared, ask: acp::RequestPermissionRequest) -> acp::RequestPermissionOutcome {
        let mut state = shared.lock();
        let cancelled = || acp::CancelledPermissionOutcome::new().into();
        let wanted = match state.how {
            How::Allow => acp::PermissionOptionKind::AllowOnce,
            How::Reject => acp::PermissionOptionKind::RejectOnce,
            How::Cancel => return cancelled(),
        };
        state.seen.asked.extend(ask.options.iter().map(|o| format!("{}:{}", o.option_id.0, word(&o.kind))));
        match ask.options.into_iter().find(|o| o.kind == wanted) {
            Some(o) => acp::RequestPermissionOutcome::Selected(acp::SelectedPermissionOutcome::new(o.option_id)),
            None => cancelled(),
        }
    }

    fn text(block: &acp::ContentBlock) -> &str {
        match block {
            acp::ContentBlock::Text(text) => &text.text,
            _ => "[not text]",
        }
    }

    fn texts(blocks: &[acp::ContentBlock]) -> String {
        blocks.iter().map(text).collect()
    }

    fn apply(state: &mut State, update: acp::SessionUpdate) {
        match update {
            acp::SessionUpdate::UserMessage(message) => {
                state.user_id = Some(message.message_id.to_string());
                if let MaybeUndefined::Value(blocks) = message.content {
                    state.seen.user.push_str(&texts(&blocks));
                }
            }
            acp::SessionUpdate::UserMessageChunk(chunk) => {
                state.user_id = Some(chunk.message_id.to_string());
                state.seen.user.push_str(text(&chunk.content));
            }
            acp::SessionUpdate::AgentMessageChunk(chunk) => {
                state.seen.chunks += 1;
                message(state, &chunk.message_id).push_str(text(&chunk.content));
            }
            acp::SessionUpdate::AgentMessage(told) => match told.content {
                MaybeUndefined::Value(blocks) => *message(state, &told.message_id) = texts(&blocks),
                MaybeUndefined::Null => message(state, &told.message_id).clear(),
                MaybeUndefined::Undefined => {}
            },
            acp::SessionUpdate::AgentThoughtChunk(chunk) => {
                state.seen.thought_chunks += 1;
                state.seen.thoughts.push_str(text(&chunk.content));
            }
            acp::SessionUpdate::ToolCallUpdate(call) => tool(&mut state.seen, call),
            acp::SessionUpdate::PlanUpdate(acp::PlanUpdate { plan: acp::PlanUpdateContent::Items(plan), .. }) => {
                let entry = |e: acp::PlanEntry| format!("{}:{}:{}", e.content, word(e.priority), word(e.status));
                state.seen.plan = plan.entries.into_iter().map(entry).collect();
            }
            acp::SessionUpdate::StateUpdate(now) => foreground(state, now),
            _ => {}
        }
    }

    fn message<'a>(state: &'a mut State, id: &acp::MessageId) -> &'a mut String {
        let id = id.to_string();
        let at = state.texts.iter().position(|(known, _)| *known == id).unwrap_or(state.texts.len());
        if at == state.texts.len() {
            state.texts.push((id, String::new()));
        }
        &mut state.texts[at].1
    }

    fn tool(seen: &mut Seen, call: acp::ToolCallUpdate) {
        if let MaybeUndefined::Value(title) = call.title {
            seen.title = title;
        }
        if let MaybeUndefined::Value(kind) = call.kind {
            seen.kind = word(kind);
        }
        if let MaybeUndefined::Value(status) = call.status {
            seen.statuses.push(word(status));
        }
        if let MaybeUndefined::Value(items) = call.content {
            let content = |item: &acp::ToolCallContent| match item {
                acp::ToolCallContent::Content(content) => text(&content.content).to_owned(),
                _ => "[not content]".to_owned(),
            };
            seen.content = items.iter().map(content).collect();
        }
    }

    /// An idle before any work is only a snapshot; an unknown state counts as work.
    fn foreground(state: &mut State, now: acp::StateUpdate) {
        let name = match now {
            acp::StateUpdate::Idle(idle) => {
                if state.active {
                    state.idle = true;
                    if let Some(acp::StopReason::Error(failure)) = &idle.stop_reason {
                        state.seen.error = failure.error.as_ref().map(|e| i32::from(e.code).into());
                    }
                    state.seen.stop = serde_json::to_value(idle)
                        .ok()
                        .and_then(|idle| Some(idle.get("stopReason")?.as_str()?.to_owned()));
                }
                "idle"
            }
            acp::StateUpdate::Running(_) => "running",
            acp::StateUpdate::RequiresAction(_) => "requires_action",
            _ => "unknown",
        };
        state.active |= name != "idle";
        state.seen.states.push(name.into());
    }

    struct Peer {
        cx: ConnectionTo<Agent>,
        shared: Shared,
        session: acp::SessionId,
    }

    impl Driver for Peer {
        async fn initialize(&mut self) -> Result<Hello, String> {
            let info = acp::Implementation::new("sdk-client", env!("CARGO_PKG_VERSION"));
            let request = acp::InitializeRequest::new(ProtocolVersion::V2, info);
            let InitializeOutcome::Initialized(answer) =
                self.cx.send_initialize(request).block_task().await.map_err(tell)?
            else {
                return Err("the agent does not speak version 2".into());
            };
            let sessions = answer.capabilities.session.is_some();
            Ok(Hello {
                protocol: answer.protocol_version.as_u16(),
                agent: answer.info.name,
                list: sessions,
                replay: sessions,
                close: sessions,
            })
        }

        async fn open(&mut self, cwd: &Path) -> Result<String, String> {
            let request = acp::NewSessionRequest::new(cwd);
            self.session = self.cx.send_request(request).block_task().await.map_err(tell)?.session_id;
            Ok(self.session.to_string())
        }

        fn adopt(&mut self, session: &str) {
            self.session = session.to_owned().into();
        }

        async fn prompt(&mut self, text: &str, how: How) -> Result<Seen, String> {
            self.shared.begin(how);
            let asked = self.cx.send_request(acp::PromptRequest::new(self.session.clone(), vec![text.into()]));
            if how == How::Cancel {
                // Before the work has begun the prompt itself would be withdrawn.
                self.shared.until_cancel(|state| state.active).await;
                let cancel = acp::CancelSessionNotification::new(self.session.clone());
                self.cx.send_notification(cancel).map_err(tell)?;
            }
            let id = asked.block_task().await.map_err(tell)?.message_id.to_string();
            self.shared.until(|state| state.idle).await;
            let same = self.shared.lock().user_id.as_ref() == Some(&id);
            let mut seen = self.shared.take();
            seen.same_id = Some(same);
            Ok(seen)
        }

        async fn list(&mut self, cwd: &Path) -> Result<Vec<String>, String> {
            let request = acp::ListSessionsRequest::new().cwd(cwd);
            let answer = self.cx.send_request(request).block_task().await.map_err(tell)?;
            Ok(answer.sessions.into_iter().map(|info| info.session_id.to_string()).collect())
        }

        async fn close(&mut self) -> Result<(), String> {
            let request = acp::CloseSessionRequest::new(self.session.clone());
            self.cx.send_request(request).block_task().await.map(drop).map_err(tell)
        }

        async fn replay(&mut self, cwd: &Path) -> Result<Seen, String> {
            self.shared.begin(How::Allow);
            let start = acp::ReplayFrom::Start(acp::ReplayFromStart::new());
            let request = acp::ResumeSessionRequest::new(self.session.clone(), cwd).replay_from(start);
            self.cx.send_request(request).block_task().await.map_err(tell)?;
            Ok(self.shared.take())
        }
    }
}
