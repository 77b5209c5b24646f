//! What the agent asks and tells: updates, questions, files and terminals of the client.

use super::MAX_KNOWN;
use crate::laws::{Asked, Fields, Judge};
use crate::shapes::updates;
use tieline_schema::{
    Change, ClientCall, Dialect, Diff, ElicitMode, MessageKind, PermissionRequest, Raw, State as Work, StopReason,
    ToolCallContent, ToolCallStatus, ToolCallUpdate, Update, from_json,
};
use tieline_trace::Side;

impl Judge {
    /// What the agent asks or tells.
    pub(crate) fn agent_says(&mut self, method: &str, call: ClientCall, message: &Fields, asked: &mut Asked) {
        let client = self.state.client.clone();
        let offered = match method {
            "fs/read_text_file" => Some(("can-files", client.fs_read)),
            "fs/write_text_file" => Some(("can-files", client.fs_write)),
            _ => method.starts_with("terminal/").then_some(("can-terminal", client.terminal)),
        };
        if let Some((law, offered)) = offered {
            self.expect(law, offered, || format!("`{method}`, which was not offered"));
        }
        if let Some(session) = &asked.session {
            self.agent_names(method, session);
        }
        match call {
            ClientCall::Update(notification) => {
                let id = notification.session_id.to_string();
                let tag = update_tag(message);
                self.update_kind(tag.as_deref());
                self.agent_names(method, &id);
                self.update(&id, &notification.update, tag.as_deref() == Some("tool_call"));
            }
            ClientCall::Permission(request) => self.question(&request, asked),
            ClientCall::ReadTextFile(request) => self.path("path", &request.path),
            ClientCall::WriteTextFile(request) => self.path("path", &request.path),
            ClientCall::CreateTerminal(request) => {
                if let Some(cwd) = &request.cwd {
                    self.path("cwd", cwd);
                }
            }
            ClientCall::TerminalOutput(request)
            | ClientCall::WaitForTerminalExit(request)
            | ClientCall::KillTerminal(request)
            | ClientCall::ReleaseTerminal(request) => {
                let gone = self.state.released.contains(&request.terminal_id);
                self.expect("terminal-released", !gone, || format!("`{method}` of a terminal that was released"));
                if method == "terminal/release" && self.state.released.len() < MAX_KNOWN {
                    self.state.released.insert(request.terminal_id);
                }
            }
            ClientCall::Elicit(request) => {
                let can = match request.mode {
                    ElicitMode::Form(_) => client.elicit_form,
                    ElicitMode::Url { .. } => client.elicit_url,
                    ElicitMode::Other(_) => true,
                };
                self.expect("can-elicit", can, || format!("the mode `{}` was not offered", request.mode.name()));
            }
            _ => {}
        }
    }

    /// A session named by the agent.
    fn agent_names(&mut self, method: &str, id: &str) {
        if !self.whole {
            return;
        }
        if self.state.sessions.contains_key(id) {
            self.holds("session-named");
            self.holds("session-early");
        } else if self.open(Side::Client).any(|open| open.method == "session/new") {
            // It may be the one that is being opened; its answer tells.
            if self.state.early.len() < MAX_KNOWN {
                self.state.early.insert(id.to_owned());
            }
        } else if !self.open(Side::Client).any(|open| open.session.as_deref() == Some(id)) {
            // The client has not named it, either.
            self.breach("session-named", &format!("`{method}` names a session that nobody knows: {id:?}"));
        }
    }

    fn update_kind(&mut self, tag: Option<&str>) {
        let (Some(tag), Some(dialect)) = (tag, self.dialect) else { return };
        let fine = tag.starts_with('_') || updates(tag).any(|shape| shape.dialects.has(dialect));
        self.expect("update-known", fine, || match updates(tag).next() {
            None => format!("`session/update`: the kind `{tag}` does not exist"),
            Some(_) => format!("`session/update`: `{tag}` is an update that is not of version {dialect}"),
        });
    }

    fn update(&mut self, id: &str, update: &Update, announced: bool) {
        let offered = self.state.client.clone();
        self.in_turn(id, update);
        match update {
            Update::Chunk(chunk) => {
                let said = || "a piece of a message without `messageId`".into();
                self.expect("message-id", chunk.message_id.is_some(), said);
                self.content(&chunk.content);
                if chunk.kind == MessageKind::User {
                    self.user_message(id, chunk.message_id.as_deref());
                }
            }
            Update::Message(message) => {
                self.holds("message-id");
                if message.kind == MessageKind::User {
                    self.user_message(id, Some(&message.message_id));
                }
            }
            Update::ToolCall(call) => self.tool_call(id, call, announced),
            Update::ToolCallContent(chunk) => self.tool_content(&chunk.content),
            Update::ConfigOptions(list) => self.options(Some(id), &list.options),
            Update::Commands(list) => self.commands(list.commands.iter().map(|command| command.name.as_str())),
            Update::Mode(mode) => {
                let Some(session) = self.session(id).filter(|session| session.ready) else { return };
                // Modes may be among the options.
                if session.modes.is_some() || session.options.is_empty() {
                    let modes = session.modes.clone().unwrap_or_default();
                    self.mode(&modes, &mode.mode_id);
                }
            }
            Update::Notice(_) => {
                self.expect("can-update", offered.notices, || "a notice, which was not offered".into());
            }
            Update::Compaction(_) | Update::CompactionSummary(_) => {
                self.expect("can-update", offered.compaction, || "a compaction, which was not offered".into());
            }
            Update::State(state) => self.state_told(id, &state.state),
            Update::Terminal(terminal) => {
                if let Some(cwd) = terminal.cwd.set() {
                    self.path("cwd", cwd);
                }
            }
            _ => {}
        }
    }

    /// Whether something of a turn or a replay comes while there is one.
    fn in_turn(&mut self, id: &str, update: &Update) {
        let (what, by_user) = match update {
            Update::Chunk(chunk) => ("a piece of a message", chunk.kind == MessageKind::User),
            Update::Message(message) => ("a piece of a message", message.kind == MessageKind::User),
            Update::ToolCall(_) | Update::ToolCallContent(_) => ("a tool call", false),
            Update::Plan(_) => ("a plan", false),
            _ => return,
        };
        if !self.whole {
            return;
        }
        let Some(session) = self.session(id) else { return };
        let (open, resumes, quiet) = (session.prompts + session.replays, session.resumes, session.quiet);
        // A session that is being taken up may be at work, and an agent may have something to say about another request.
        if resumes == 0 && (open > 0 || quiet) {
            self.expect("turn-last", open > 0, || format!("{what} after the end of the turn or the load"));
        } else if resumes > 0 && by_user && open == 0 {
            self.breach("resume-silent", "a message of the user while the session is taken up without a replay");
        }
    }

    fn user_message(&mut self, id: &str, message: Option<&str>) {
        let (Some(session), Some(message)) = (self.session(id), message) else { return };
        if session.users.len() < MAX_KNOWN {
            session.users.insert(message.to_owned());
        }
        if session.owed.as_deref() == Some(message) {
            session.owed = None;
            self.holds("prompt-message");
        }
    }

    fn state_told(&mut self, id: &str, work: &Work) {
        let Some(session) = self.session(id) else { return };
        session.state_told = true;
        let replays = session.replays + session.resumes;
        match work {
            Work::Idle { stop_reason, .. } => {
                let (owed, worked, prompted) = (session.owed.take(), session.worked, session.prompts > 0);
                let cancelled = session.cancelled || !prompted;
                session.prompts = 0;
                if let Some(owed) = owed {
                    self.breach("prompt-message", &format!("idle, and the message {owed:?} was not reported"));
                }
                if prompted && replays == 0 {
                    let said = || "idle after a prompt without having been told as running".into();
                    self.expect("state-told", worked, said);
                }
                if let Some(reason) = stop_reason {
                    self.stop_reason(reason, cancelled);
                }
            }
            _ => session.worked = true,
        }
    }

    /// `cancelled`: there is a reason to say so.
    pub(super) fn stop_reason(&mut self, reason: &StopReason, cancelled: bool) {
        if self.alone && *reason == StopReason::Cancelled && !cancelled {
            let said = "the turn ended with `cancelled`, and nobody has cancelled it";
            self.breach("stop-reason", said);
            self.breach("stop-reason-v2", said);
        }
        let other = match reason {
            StopReason::Other(text) => text.to_string(),
            StopReason::Error if self.dialect != Some(Dialect::V2) => "error".to_owned(),
            _ => String::new(),
        };
        self.expect("stop-reason", other.is_empty(), || format!("the reason {other:?} does not exist"));
        let own = other.is_empty() || other.starts_with('_');
        self.expect("stop-reason-v2", own, || format!("the reason {other:?} does not start with `_`"));
    }

    fn tool_call(&mut self, id: &str, call: &ToolCallUpdate, announced: bool) {
        for location in call.locations.set().into_iter().flat_map(|items| &items.0) {
            self.path("locations", &location.path);
        }
        for content in call.content.set().into_iter().flat_map(|items| &items.0) {
            self.tool_content(content);
        }
        let Some(session) = self.session(id) else { return };
        let id = &call.tool_call_id;
        let known = session.calls.get(id).copied();
        let ended = known == Some(true);
        if session.calls.len() < MAX_KNOWN {
            let status = call.status.set();
            session.calls.insert(id.clone(), status.map_or(ended, ToolCallStatus::is_final));
            session.turn.insert(id.clone());
        }
        if announced {
            self.expect("tool-unique", !ended, || format!("the id {id:?} is that of a call that has ended"));
        } else if self.whole {
            self.expect("tool-announced", known.is_some(), || format!("{id:?} is updated and was never announced"));
        }
        if known.is_none() {
            self.expect("tool-title", call.title.set().is_some(), || format!("{id:?} starts without a title"));
        }
    }

    fn tool_content(&mut self, content: &ToolCallContent) {
        match content {
            ToolCallContent::Content(content) => self.content(&content.content),
            ToolCallContent::Diff(diff) => self.diff(diff),
            _ => {}
        }
    }

    fn diff(&mut self, diff: &Diff) {
        if let Some(texts) = &diff.texts {
            self.path("diff", &texts.path);
        }
        for change in &diff.changes {
            if let Change::File(change) = change {
                self.path("diff", &change.path);
            }
        }
    }

    fn question(&mut self, request: &PermissionRequest, asked: &mut Asked) {
        let options = request.options.iter();
        asked.options = options.map(|option| (option.option_id.clone(), option.kind.allows())).collect();
        let fine = !request.options.is_empty() && (self.shape || asked.options.len() == request.options.len());
        let said = if asked.options.is_empty() { "a question without options" } else { "two options with one id" };
        self.expect("permission-options", fine, || said.to_owned());
    }
}

/// The kind of an update as it stands in the message.
fn update_tag(message: &Fields) -> Option<String> {
    let params: Fields = from_json(message.get("params")?.get()).ok()?;
    let update: Fields = from_json(params.get("update")?.get()).ok()?;
    from_json(update.get("sessionUpdate").map(Raw::get)?).ok()
}
