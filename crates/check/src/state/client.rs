//! What the client asks and tells, held against what the agent offered.

use crate::laws::{Asked, Judge};
use tieline_schema::{
    AgentCall, AgentCapabilities, ConfigKind, ConfigValue, ContentBlock, Dialect, McpServer, Replay, SetModeRequest,
    SetOptionRequest,
};
use tieline_trace::Side;

/// Looks whether an agent offers something.
type Offers = fn(&AgentCapabilities) -> bool;

/// What an agent has to offer before a method may be called.
pub(crate) const OPTIONAL: [(&str, Offers); 7] = [
    ("session/load", |agent| agent.load),
    ("session/resume", |agent| agent.resume),
    ("session/list", |agent| agent.list),
    ("session/close", |agent| agent.close),
    ("session/delete", |agent| agent.delete),
    ("logout", |agent| agent.logout),
    ("auth/logout", |agent| agent.logout),
];

impl Judge {
    /// What the client asks or tells.
    pub(crate) fn client_says(&mut self, method: &str, call: AgentCall, asked: &mut Asked) {
        let hello = matches!(call, AgentCall::Initialize(_));
        if !self.state.hurried && (self.whole || !hello) {
            let fine = hello || self.state.agent.is_some() || !self.whole && self.dialect.is_some();
            self.expect("hello-first", fine, || format!("`{method}` before `initialize` was answered"));
            self.state.hurried = !fine;
        }
        if let Some((_, offers)) = OPTIONAL.iter().find(|(name, _)| *name == method) {
            asked.unoffered = !self.can("can-sessions", method, offers);
        }
        match call {
            AgentCall::Initialize(hello) => {
                self.expect("hello-info", hello.info.is_some(), || "the client does not say who it is".into());
                self.state.client = hello.capabilities;
            }
            AgentCall::NewSession(request) => {
                self.setup_request(&request.cwd, &request.additional_directories, request.mcp_servers.as_deref());
            }
            AgentCall::Resume(request) => {
                let id = request.session_id.to_string();
                asked.replay = request.replay != Replay::None;
                self.setup_request(&request.cwd, &request.additional_directories, request.mcp_servers.as_deref());
                let replays = asked.replay;
                let session = self.opened(&id);
                (session.state_told, session.cancelled) = (false, true);
                if replays {
                    session.replays += 1;
                    session.calls.clear();
                } else {
                    session.resumes += 1;
                }
            }
            AgentCall::List(request) => {
                if let Some(cwd) = &request.cwd {
                    self.path("cwd", cwd);
                }
            }
            AgentCall::Close(request) | AgentCall::Delete(request) => {
                self.state.cancelled(Some(request.session_id.as_ref()));
            }
            AgentCall::SetMode(request) => self.mode_chosen(&request),
            AgentCall::SetOption(request) => self.option_chosen(&request),
            AgentCall::Prompt(request) => {
                let id = request.session_id.to_string();
                self.client_names(method, &id);
                self.prompt_content(&request.prompt);
                if let Some(session) = self.session(&id) {
                    // One that is refused leaves the work that goes on as it is.
                    session.worked &= session.prompts > 0;
                    session.cancelled &= session.prompts > 0;
                    session.prompts += 1;
                    session.turn.clear();
                }
            }
            AgentCall::Cancel(request) => {
                let id = request.session_id.to_string();
                self.state.cancelled(Some(&id));
                for open in self.open(Side::Agent).filter(|open| open.session.as_ref() == Some(&id)) {
                    open.cancelled = true;
                }
            }
            _ => {}
        }
        if let Some(session) = asked.session.as_deref().and_then(|id| self.session(id)) {
            session.quiet = false;
        }
    }

    fn mode_chosen(&mut self, request: &SetModeRequest) {
        let id = request.session_id.to_string();
        self.client_names("session/set_mode", &id);
        if let Some(modes) = self.session(&id).and_then(|session| session.modes.clone()) {
            let known = modes.available_modes.iter().any(|mode| mode.id == request.mode_id);
            self.expect("option-choice", known, || format!("the mode {:?} was not named", request.mode_id));
        }
    }

    fn option_chosen(&mut self, request: &SetOptionRequest) {
        let id = request.session_id.to_string();
        self.client_names("session/set_config_option", &id);
        let options = self.session(&id).map(|session| session.options.clone()).unwrap_or_default();
        if !options.is_empty() {
            let option = options.iter().find(|option| option.config_id == request.config_id);
            let value = match (option.map(|option| &option.kind), &request.value) {
                (Some(ConfigKind::Select(select)), ConfigValue::Id(value)) => {
                    select.options.iter().any(|one| one.value == *value)
                }
                (found, _) => found.is_some(),
            };
            self.expect("option-choice", value, || format!("{:?} or its value was not named", request.config_id));
        }
    }

    /// A session named by the client.
    fn client_names(&mut self, method: &str, id: &str) {
        if self.whole {
            let ready = self.session(id).is_some_and(|session| session.ready);
            self.expect("session-open", ready, || format!("`{method}` names a session that is not open: {id:?}"));
        }
    }

    /// Whether the agent takes this; one that has not said hello is not asked.
    fn can(&mut self, law: &'static str, what: &str, can: impl Fn(&AgentCapabilities) -> bool) -> bool {
        let can = self.state.agent.as_ref().map(can);
        if let Some(can) = can {
            self.expect(law, can, || format!("the agent does not offer this: {what}"));
        }
        can != Some(false)
    }

    fn setup_request(&mut self, cwd: &str, folders: &[String], servers: Option<&[McpServer]>) {
        self.path("cwd", cwd);
        for folder in folders {
            self.path("additionalDirectories", folder);
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
        self.expect("prompt-empty", !blocks.is_empty(), || "an empty prompt".into());
        for block in blocks {
            let (what, takes): (_, Offers) = match block {
                ContentBlock::Image(_) => ("image", |agent| agent.image),
                ContentBlock::Audio(_) => ("audio", |agent| agent.audio),
                ContentBlock::Resource(_) => ("resource", |agent| agent.embedded_context),
                _ => ("text or a link", |_| true),
            };
            self.can("can-prompt", what, takes);
            self.content(block);
        }
    }
}
