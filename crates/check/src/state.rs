//! Laws that need a memory: who offered what, which sessions, turns and tool calls there are.

use crate::laws::{Asked, Fields, Judge};
use std::collections::{HashMap, HashSet};
use tieline_schema::{
    AgentCall, AgentCapabilities, AuthMethod, Change, ClientCall, ClientCapabilities, ConfigKind, ConfigOption,
    ConfigValue, ContentBlock, Dialect, Diff, ElicitMode, ElicitScope, InitializeResponse, McpServer, MessageKind,
    PermissionOutcome, PermissionRequest, PermissionResponse, PromptResponse, Raw, Replay, ResourceContents,
    SessionModes, SessionSetup, SetModeRequest, SetOptionRequest, State as Work, StopReason, ToolCallContent,
    ToolCallStatus, ToolCallUpdate, Update, from_base64, from_json, is_absolute,
};
use tieline_trace::Side;

/// So many sessions, and so many tool calls of one, are remembered.
const MAX_KNOWN: usize = 10_000;

/// Kinds of updates by dialect; what is in none of them is nobody's.
const UPDATES: [(&str, &str); 3] = [
    (
        "agent_message_chunk agent_thought_chunk available_commands_update config_option_update session_info_update tool_call_update usage_update user_message_chunk",
        "1 2-seed 2",
    ),
    ("compaction_summary_chunk compaction_update notice", "1 2"),
    ("current_mode_update plan tool_call", "1"),
];
const UPDATES_V2: [(&str, &str); 2] = [
    ("agent_message agent_thought plan_update tool_call_content_chunk user_message", "2-seed 2"),
    ("state_update terminal_output_chunk terminal_update", "2"),
];

#[derive(Debug, Default)]
pub(crate) struct State {
    client: ClientCapabilities,
    agent: Option<AgentCapabilities>,
    sessions: HashMap<String, Session>,
    /// Sessions that the agent spoke of before it named them.
    early: HashSet<String>,
    released: HashSet<String>,
    /// A request came before the hello.
    hurried: bool,
}

#[derive(Debug, Default)]
struct Session {
    /// It is open, and not only asked for.
    ready: bool,
    prompts: usize,
    /// A replay is under way.
    replays: usize,
    /// A session is being taken up without one.
    resumes: usize,
    /// Work was told of since the last prompt, and the state since the session is taken up.
    worked: bool,
    state_told: bool,
    calls: HashMap<String, Status>,
    /// Calls of the present turn.
    turn: HashSet<String>,
    users: HashSet<String>,
    /// The message that a prompt became, not reported yet.
    owed: Option<String>,
    options: Vec<ConfigOption>,
    modes: Option<SessionModes>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    Open,
    Finished,
}

impl Judge {
    fn session(&mut self, id: &str) -> Option<&mut Session> {
        self.state.sessions.get_mut(id)
    }

    fn opened(&mut self, id: &str) -> &mut Session {
        // A client that opens more than we remember is not judged by what we forgot.
        if self.state.sessions.len() >= MAX_KNOWN {
            self.state.sessions.clear();
            self.whole = false;
        }
        self.state.sessions.entry(id.to_owned()).or_default()
    }

    fn path(&mut self, side: Side, what: &str, path: &str) {
        if !self.shape {
            self.expect("path-absolute", side, is_absolute(path), || format!("{what}: {path:?} is not absolute"));
        }
    }

    /// What the client asks or tells.
    pub(crate) fn client_says(&mut self, method: &str, call: AgentCall, asked: &mut Asked) {
        let hello = matches!(call, AgentCall::Initialize(_));
        if self.whole || self.state.hurried || !hello {
            let fine = hello || self.state.agent.is_some() || !self.whole && self.dialect.is_some();
            if !self.state.hurried {
                self.expect("hello-first", Side::Client, hello || fine, || {
                    format!("`{method}` before `initialize` was answered")
                });
            }
            self.state.hurried |= !fine;
        }
        match call {
            AgentCall::Initialize(hello) => {
                self.expect("hello-info", Side::Client, hello.info.is_some(), || {
                    "the client does not say who it is".into()
                });
                self.state.client = hello.capabilities;
            }
            AgentCall::NewSession(request) => {
                self.path(Side::Client, "cwd", &request.cwd);
                self.setup_request(&request.additional_directories, request.mcp_servers.as_deref());
            }
            AgentCall::Resume(request) => {
                let id = request.session_id.to_string();
                asked.session = Some(id.clone());
                asked.replay = request.replay != Replay::None;
                self.can(
                    "can-sessions",
                    method,
                    |agent| if method == "session/load" { agent.load } else { agent.resume },
                );
                self.path(Side::Client, "cwd", &request.cwd);
                self.setup_request(&request.additional_directories, request.mcp_servers.as_deref());
                let replays = asked.replay;
                let session = self.opened(&id);
                session.state_told = false;
                if replays {
                    session.replays += 1;
                    session.calls.clear();
                } else {
                    session.resumes += 1;
                }
            }
            AgentCall::List(request) => {
                self.can("can-sessions", method, |agent| agent.list);
                if let Some(cwd) = &request.cwd {
                    self.path(Side::Client, "cwd", cwd);
                }
            }
            AgentCall::Close(request) => {
                self.can("can-sessions", method, |agent| agent.close);
                asked.session = Some(request.session_id.to_string());
            }
            AgentCall::Delete(request) => {
                self.can("can-sessions", method, |agent| agent.delete);
                asked.session = Some(request.session_id.to_string());
            }
            AgentCall::Logout(_) => self.can("can-sessions", method, |agent| agent.logout),
            AgentCall::SetMode(request) => {
                asked.session = Some(request.session_id.to_string());
                self.mode_chosen(&request);
            }
            AgentCall::SetOption(request) => {
                asked.session = Some(request.session_id.to_string());
                self.option_chosen(&request);
            }
            AgentCall::Prompt(request) => {
                let id = request.session_id.to_string();
                self.client_names(method, &id);
                self.prompt_content(&request.prompt);
                if let Some(session) = self.session(&id) {
                    session.prompts += 1;
                    session.worked = false;
                    session.turn.clear();
                }
                asked.session = Some(id);
            }
            AgentCall::Cancel(request) => {
                let id = request.session_id.to_string();
                self.open(Side::Agent)
                    .filter(|open| open.session.as_ref() == Some(&id))
                    .for_each(|open| open.cancelled = true);
            }
            _ => {}
        }
    }

    fn mode_chosen(&mut self, request: &SetModeRequest) {
        let id = request.session_id.to_string();
        self.client_names("session/set_mode", &id);
        if let (false, Some(modes)) = (self.shape, self.session(&id).and_then(|session| session.modes.clone())) {
            let known = modes.available_modes.iter().any(|mode| mode.id == request.mode_id);
            self.expect("option-choice", Side::Client, known, || {
                format!("the mode {:?} was not named", request.mode_id)
            });
        }
    }

    fn option_chosen(&mut self, request: &SetOptionRequest) {
        let id = request.session_id.to_string();
        self.client_names("session/set_config_option", &id);
        let options = self.session(&id).map(|session| session.options.clone()).unwrap_or_default();
        if !self.shape && !options.is_empty() {
            let option = options.iter().find(|option| option.config_id == request.config_id);
            let value = match (option.map(|option| &option.kind), &request.value) {
                (Some(ConfigKind::Select(select)), ConfigValue::Id(value)) => {
                    select.options.iter().any(|one| one.value == *value)
                }
                (found, _) => found.is_some(),
            };
            self.expect("option-choice", Side::Client, value, || {
                format!("{:?} or its value was not named", request.config_id)
            });
        }
    }

    /// A session named by the client.
    fn client_names(&mut self, method: &str, id: &str) {
        if self.whole {
            let ready = self.session(id).is_some_and(|session| session.ready);
            self.expect("session-open", Side::Client, ready, || {
                format!("`{method}` names a session that is not open: {id:?}")
            });
        }
    }

    fn can(&mut self, law: &'static str, what: &str, can: impl Fn(&AgentCapabilities) -> bool) {
        if let Some(agent) = &self.state.agent {
            let can = can(agent);
            self.expect(law, Side::Client, can, || format!("the agent does not offer this: {what}"));
        }
    }

    fn setup_request(&mut self, folders: &[String], servers: Option<&[McpServer]>) {
        for folder in folders {
            self.path(Side::Client, "additionalDirectories", folder);
            self.can("can-mcp", "additionalDirectories", |agent| agent.additional_directories);
        }
        let v1 = self.dialect == Some(Dialect::V1);
        for server in servers.into_iter().flatten() {
            self.can("can-mcp", "an MCP server of this kind", |agent| match server {
                McpServer::Stdio(_) => v1 || agent.mcp_stdio,
                McpServer::Http(_) => agent.mcp_http,
                McpServer::Sse(_) => agent.mcp_sse,
                McpServer::Other(_) => true,
            });
        }
    }

    fn prompt_content(&mut self, blocks: &[ContentBlock]) {
        self.expect("prompt-empty", Side::Client, !blocks.is_empty(), || "an empty prompt".into());
        for block in blocks {
            let what = match block {
                ContentBlock::Image(_) => "image",
                ContentBlock::Audio(_) => "audio",
                ContentBlock::Resource(_) => "resource",
                _ => "text or a link",
            };
            self.can("can-prompt", what, |agent| match block {
                ContentBlock::Image(_) => agent.image,
                ContentBlock::Audio(_) => agent.audio,
                ContentBlock::Resource(_) => agent.embedded_context,
                _ => true,
            });
            self.content(Side::Client, block);
        }
    }

    fn content(&mut self, side: Side, block: &ContentBlock) {
        let data = match block {
            ContentBlock::Image(image) => &image.data,
            ContentBlock::Audio(audio) => &audio.data,
            ContentBlock::Resource(resource) => match &resource.resource {
                ResourceContents::Blob(blob) => &blob.blob,
                ResourceContents::Text(_) => return,
            },
            _ => return,
        };
        if !self.shape {
            self.expect("content-base64", side, from_base64(data).is_some(), || "content is not in base64".into());
        }
    }

    /// What the agent asks or tells.
    pub(crate) fn agent_says(&mut self, method: &str, call: ClientCall, message: &Fields, asked: &mut Asked) {
        let offered = self.state.client.clone();
        match call {
            ClientCall::Update(notification) => {
                let id = notification.session_id.to_string();
                self.update_kind(message);
                self.agent_names(method, &id);
                self.update(&id, &notification.update, is_tool_call(message));
            }
            ClientCall::Permission(request) => {
                let id = request.session_id.to_string();
                self.agent_names(method, &id);
                self.question(&request, asked);
                asked.session = Some(id);
            }
            ClientCall::ReadTextFile(request) => {
                self.agent_names(method, request.session_id.as_ref());
                self.expect("can-files", Side::Agent, offered.fs_read, || format!("`{method}`, which was not offered"));
                self.path(Side::Agent, "path", &request.path);
            }
            ClientCall::WriteTextFile(request) => {
                self.agent_names(method, request.session_id.as_ref());
                self.expect("can-files", Side::Agent, offered.fs_write, || {
                    format!("`{method}`, which was not offered")
                });
                self.path(Side::Agent, "path", &request.path);
            }
            ClientCall::CreateTerminal(request) => {
                self.agent_names(method, request.session_id.as_ref());
                self.expect("can-terminal", Side::Agent, offered.terminal, || {
                    format!("`{method}`, which was not offered")
                });
                if let Some(cwd) = &request.cwd {
                    self.path(Side::Agent, "cwd", cwd);
                }
            }
            ClientCall::TerminalOutput(request)
            | ClientCall::WaitForTerminalExit(request)
            | ClientCall::KillTerminal(request)
            | ClientCall::ReleaseTerminal(request) => {
                self.agent_names(method, request.session_id.as_ref());
                self.expect("can-terminal", Side::Agent, offered.terminal, || {
                    format!("`{method}`, which was not offered")
                });
                let gone = self.state.released.contains(&request.terminal_id);
                self.expect("terminal-released", Side::Agent, !gone, || {
                    format!("`{method}` of a terminal that was released")
                });
                if method == "terminal/release" && self.state.released.len() < MAX_KNOWN {
                    self.state.released.insert(request.terminal_id);
                }
            }
            ClientCall::Elicit(request) => {
                let can = match request.mode {
                    ElicitMode::Form(_) => offered.elicit_form,
                    ElicitMode::Url { .. } => offered.elicit_url,
                    ElicitMode::Other(_) => true,
                };
                self.expect("can-elicit", Side::Agent, can, || {
                    format!("the mode `{}` was not offered", request.mode.name())
                });
                if let ElicitScope::Session { session_id, .. } = &request.scope {
                    self.agent_names(method, session_id.as_ref());
                }
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
            self.expect("session-named", Side::Agent, true, String::new);
            self.expect("session-early", Side::Agent, true, String::new);
        } else if self.open(Side::Client).any(|open| open.method == "session/new") {
            // It may be the one that is being opened; its answer tells.
            if self.state.early.len() < MAX_KNOWN {
                self.state.early.insert(id.to_owned());
            }
        } else {
            self.breach("session-named", Side::Agent, &format!("`{method}` names a session that nobody knows: {id:?}"));
        }
    }

    fn update_kind(&mut self, message: &Fields) {
        let Some(tag) = update_tag(message) else { return };
        let mut rows = UPDATES.iter().chain(&UPDATES_V2);
        let row = rows.find(|(names, _)| names.split(' ').any(|name| name == tag));
        let Some(dialect) = self.dialect else { return };
        let fine = tag.starts_with('_') || row.is_some_and(|(_, of)| of.split(' ').any(|name| name == dialect.name()));
        self.expect("update-known", Side::Agent, fine, || match row {
            None => format!("`session/update`: the kind `{tag}` does not exist"),
            Some(_) => format!("`session/update`: `{tag}` is an update that is not of version {dialect}"),
        });
    }

    fn update(&mut self, id: &str, update: &Update, announced: bool) {
        let offered = self.state.client.clone();
        self.in_turn(id, update);
        match update {
            Update::Chunk(chunk) => {
                self.expect("message-id", Side::Agent, chunk.message_id.is_some(), || {
                    "a piece of a message without `messageId`".into()
                });
                self.content(Side::Agent, &chunk.content);
                if chunk.kind == MessageKind::User {
                    self.user_message(id, chunk.message_id.as_deref());
                }
            }
            Update::Message(message) => {
                self.expect("message-id", Side::Agent, true, String::new);
                if message.kind == MessageKind::User {
                    self.user_message(id, Some(&message.message_id));
                }
            }
            Update::ToolCall(call) => self.tool_call(id, call, announced),
            Update::ToolCallContent(chunk) => self.tool_content(&chunk.content),
            Update::ConfigOptions(list) => self.options(Some(id), &list.options),
            Update::Commands(list) => self.commands(list.commands.iter().map(|command| command.name.as_str())),
            Update::Mode(mode) => {
                let modes = self.session(id).and_then(|session| session.modes.clone());
                if let (Some(modes), false) = (modes, self.shape) {
                    let known = modes.available_modes.iter().any(|one| one.id == mode.mode_id);
                    self.expect("mode-known", Side::Agent, known, || {
                        format!("the mode {:?} is none of the modes", mode.mode_id)
                    });
                }
            }
            Update::Notice(_) => {
                self.expect("can-update", Side::Agent, offered.notices, || "a notice, which was not offered".into());
            }
            Update::Compaction(_) | Update::CompactionSummary(_) => {
                self.expect("can-update", Side::Agent, offered.compaction, || {
                    "a compaction, which was not offered".into()
                });
            }
            Update::State(state) => self.state_told(id, &state.state),
            Update::Terminal(terminal) => {
                if let Some(cwd) = terminal.cwd.set() {
                    self.path(Side::Agent, "cwd", cwd);
                }
            }
            _ => {}
        }
    }

    /// Whether something of a turn or a replay comes while there is one.
    fn in_turn(&mut self, id: &str, update: &Update) {
        let what = match update {
            Update::Chunk(_) | Update::Message(_) => "a piece of a message",
            Update::ToolCall(_) | Update::ToolCallContent(_) => "a tool call",
            Update::Plan(_) => "a plan",
            _ => return,
        };
        let by_user = matches!(update, Update::Chunk(chunk) if chunk.kind == MessageKind::User)
            || matches!(update, Update::Message(message) if message.kind == MessageKind::User);
        if !self.whole {
            return;
        }
        let Some(session) = self.session(id) else { return };
        let (open, resumes) = (session.prompts + session.replays, session.resumes);
        // A session that is being taken up may be at work.
        if resumes == 0 {
            self.expect("turn-last", Side::Agent, open > 0, || format!("{what} while no prompt and no load is open"));
        } else if by_user && open == 0 {
            self.breach(
                "resume-silent",
                Side::Agent,
                "a message of the user while the session is taken up without a replay",
            );
        }
    }

    fn user_message(&mut self, id: &str, message: Option<&str>) {
        let Some(session) = self.session(id) else { return };
        if let Some(message) = message {
            if session.users.len() < MAX_KNOWN {
                session.users.insert(message.to_owned());
            }
            if session.owed.as_deref() == Some(message) {
                session.owed = None;
                self.expect("prompt-message", Side::Agent, true, String::new);
            }
        }
    }

    fn state_told(&mut self, id: &str, work: &Work) {
        let Some(session) = self.session(id) else { return };
        session.state_told = true;
        let replays = session.replays + session.resumes;
        match work {
            Work::Idle { stop_reason, .. } => {
                let (owed, worked, prompted) = (session.owed.take(), session.worked, session.prompts > 0);
                session.prompts = 0;
                if let Some(owed) = owed {
                    self.breach(
                        "prompt-message",
                        Side::Agent,
                        &format!("idle, and the message {owed:?} was not reported"),
                    );
                }
                if prompted && replays == 0 {
                    self.expect("state-told", Side::Agent, worked, || {
                        "idle after a prompt without having been told as running".into()
                    });
                }
                if let Some(reason) = stop_reason {
                    self.stop_reason(reason);
                }
            }
            _ => session.worked = true,
        }
    }

    fn stop_reason(&mut self, reason: &StopReason) {
        let other = match reason {
            StopReason::Other(text) => Some(text.to_string()),
            StopReason::Error if self.dialect != Some(Dialect::V2) => Some("error".to_owned()),
            _ => None,
        };
        self.expect("stop-reason", Side::Agent, other.is_none(), || format!("the reason {other:?} does not exist"));
        let own = other.as_ref().is_none_or(|text| text.starts_with('_'));
        self.expect("stop-reason-v2", Side::Agent, own, || format!("the reason {other:?} does not start with `_`"));
    }

    fn tool_call(&mut self, id: &str, call: &ToolCallUpdate, announced: bool) {
        for location in call.locations.set().into_iter().flat_map(|items| &items.0) {
            self.path(Side::Agent, "locations", &location.path);
        }
        for content in call.content.set().into_iter().flat_map(|items| &items.0) {
            self.tool_content(content);
        }
        let Some(session) = self.session(id) else { return };
        let known = session.calls.get(&call.tool_call_id).copied();
        let finished = call.status.set().is_some_and(|status| {
            matches!(status, ToolCallStatus::Completed | ToolCallStatus::Failed | ToolCallStatus::Cancelled)
        });
        if session.calls.len() < MAX_KNOWN {
            let now = if finished || known == Some(Status::Finished) { Status::Finished } else { Status::Open };
            session.calls.insert(call.tool_call_id.clone(), now);
            session.turn.insert(call.tool_call_id.clone());
        }
        if announced {
            self.expect("tool-unique", Side::Agent, known != Some(Status::Finished), || {
                format!("the id {:?} is that of a call that has ended", call.tool_call_id)
            });
        } else if self.whole {
            self.expect("tool-announced", Side::Agent, known.is_some(), || {
                format!("{:?} is updated and was never announced", call.tool_call_id)
            });
        }
        if known.is_none() {
            self.expect("tool-title", Side::Agent, call.title.set().is_some(), || {
                format!("{:?} starts without a title", call.tool_call_id)
            });
        }
    }

    fn tool_content(&mut self, content: &ToolCallContent) {
        match content {
            ToolCallContent::Content(content) => self.content(Side::Agent, &content.content),
            ToolCallContent::Diff(diff) => self.diff(diff),
            _ => {}
        }
    }

    fn diff(&mut self, diff: &Diff) {
        if let Some(texts) = &diff.texts {
            self.path(Side::Agent, "diff", &texts.path);
        }
        for change in &diff.changes {
            if let Change::File(change) = change {
                self.path(Side::Agent, "diff", &change.path);
            }
        }
    }

    fn question(&mut self, request: &PermissionRequest, asked: &mut Asked) {
        asked.options = request.options.iter().map(|option| option.option_id.clone()).collect();
        let ids: HashSet<&String> = asked.options.iter().collect();
        let fine = !ids.is_empty() && (self.shape || ids.len() == asked.options.len());
        self.expect("permission-options", Side::Agent, fine, || {
            if asked.options.is_empty() { "a question without options" } else { "two options with one id" }.to_owned()
        });
    }

    /// A question was answered.
    pub(crate) fn permitted(&mut self, asked: &Asked, answer: &PermissionResponse) {
        let chosen = match &answer.outcome {
            PermissionOutcome::Selected(selected) => Some(selected.option_id.clone()),
            _ => None,
        };
        if let Some(chosen) = &chosen {
            self.expect("permission-answer", Side::Client, self.shape || asked.options.contains(chosen), || {
                format!("the option {chosen:?} was not offered")
            });
        } else {
            self.expect("permission-answer", Side::Client, true, String::new);
        }
        if asked.cancelled {
            self.expect("permission-cancel", Side::Client, chosen.is_none(), || {
                "a question of a cancelled turn was answered with an option".into()
            });
        }
    }

    /// The hello was answered.
    pub(crate) fn settled(&mut self, answer: InitializeResponse) {
        self.expect("hello-info", Side::Agent, answer.info.is_some(), || "the agent does not say who it is".into());
        let terminal = self.state.client.terminal_auth;
        for method in &answer.auth_methods {
            let fine = terminal || !matches!(method, AuthMethod::Terminal(_));
            self.expect("can-login", Side::Agent, fine, || "a login in a terminal, which was not offered".into());
        }
        // Another agent answers, or the same one after another hello: what was before is over.
        if self.state.agent.is_some() {
            self.state = State { client: self.state.client.clone(), ..State::default() };
        }
        self.state.agent = Some(answer.capabilities);
        self.whole = true;
    }

    /// A prompt was answered.
    pub(crate) fn prompted(&mut self, asked: &Asked, answer: &PromptResponse) {
        if let Some(reason) = &answer.stop_reason {
            self.stop_reason(reason);
        }
        let current = self.dialect == Some(Dialect::V2);
        let Some(session) = asked.session.as_deref().and_then(|id| self.session(id)) else { return };
        if current {
            // The end of the work is told by its state.
            if let Some(message) = answer.message_id.as_ref().filter(|id| !session.users.contains(*id)) {
                session.owed = Some(message.clone());
            }
            return;
        }
        session.prompts = session.prompts.saturating_sub(1);
        let turn = std::mem::take(&mut session.turn);
        let mut open = turn.iter().filter(|id| session.calls.get(*id) == Some(&Status::Open));
        let open = open.next().cloned();
        if answer.stop_reason == Some(StopReason::EndTurn) && !turn.is_empty() {
            self.expect("tool-finished", Side::Agent, open.is_none(), || {
                format!("the turn ended, and the call {:?} did not", open.unwrap_or_default())
            });
        }
    }

    /// A request was answered with an error.
    pub(crate) fn refused(&mut self, _from: Side, asked: &Asked) {
        let current = self.dialect == Some(Dialect::V2);
        let Some(session) = asked.session.as_deref().and_then(|id| self.session(id)) else { return };
        match asked.method.as_str() {
            "session/prompt" if !current => session.prompts = session.prompts.saturating_sub(1),
            "session/load" | "session/resume" if asked.replay => session.replays = session.replays.saturating_sub(1),
            "session/resume" => session.resumes = session.resumes.saturating_sub(1),
            _ => {}
        }
    }

    /// A session was opened or taken up.
    pub(crate) fn set_up(&mut self, asked: &Asked, setup: SessionSetup) {
        let id = setup.session_id.as_ref().map(ToString::to_string).or_else(|| asked.session.clone());
        let Some(id) = id else { return };
        if self.state.early.remove(&id) {
            self.breach(
                "session-early",
                Side::Agent,
                "something was said about the session before its `session/new` was answered",
            );
        }
        let taken_up = asked.method != "session/new";
        let session = self.opened(&id);
        session.ready = true;
        let told = session.state_told;
        if taken_up && asked.replay {
            session.replays = session.replays.saturating_sub(1);
        } else if taken_up {
            session.resumes = session.resumes.saturating_sub(1);
            if self.whole {
                self.expect("resume-silent", Side::Agent, true, String::new);
            }
        }
        if taken_up && self.whole {
            self.expect("resume-state", Side::Agent, told, || {
                "the session was taken up and its state was not told".into()
            });
        }
        if let (Some(modes), false) = (&setup.modes, self.shape) {
            let known = modes.available_modes.iter().any(|mode| mode.id == modes.current_mode_id);
            self.expect("mode-known", Side::Agent, known, || {
                format!("the mode {:?} is none of the modes", modes.current_mode_id)
            });
        }
        let mut options = setup.config_options;
        if setup.mode_from_modes {
            options.remove(0);
        }
        self.options(Some(&id), &options);
        self.commands(setup.commands.iter().map(|command| command.name.as_str()));
        self.opened(&id).modes = setup.modes;
    }

    /// The options of a session were told.
    pub(crate) fn options(&mut self, session: Option<&str>, options: &[ConfigOption]) {
        let booleans = self.state.client.boolean_options;
        for option in options {
            match &option.kind {
                ConfigKind::Select(select) if !self.shape => {
                    let fine = select.options.iter().any(|one| one.value == select.current_value);
                    self.expect("option-value", Side::Agent, fine, || {
                        format!(
                            "{:?} has the value {:?}, which is none of its values",
                            option.config_id, select.current_value
                        )
                    });
                }
                ConfigKind::Boolean(_) => self
                    .expect("can-update", Side::Agent, booleans, || "a boolean option, which was not offered".into()),
                _ => {}
            }
        }
        if let Some(session) = session.and_then(|id| self.session(id)) {
            session.options = options.to_vec();
        }
    }

    fn commands<'n>(&mut self, names: impl Iterator<Item = &'n str>) {
        let mut seen = HashSet::new();
        for name in names.filter(|_| !self.shape).collect::<Vec<_>>() {
            let fine = !name.is_empty() && !name.contains(['/', ' ', '\t', '\n']) && seen.insert(name);
            self.expect("command-name", Side::Agent, fine, || format!("the name {name:?}"));
        }
    }
}

/// The kind of an update as it stands in the message.
fn update_tag(message: &Fields) -> Option<String> {
    let params: Fields = from_json(message.get("params")?.get()).ok()?;
    let update: Fields = from_json(params.get("update")?.get()).ok()?;
    from_json(update.get("sessionUpdate").map(Raw::get)?).ok()
}

fn is_tool_call(message: &Fields) -> bool {
    update_tag(message).is_some_and(|tag| tag == "tool_call")
}
