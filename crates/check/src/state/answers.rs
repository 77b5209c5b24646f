//! What was answered, and what that changes: the hello, sessions, prompts, questions.

use super::State;
use crate::laws::{Asked, Judge};
use tieline_schema::{
    AuthMethod, Dialect, InitializeResponse, PermissionOutcome, PermissionResponse, PromptResponse, SessionSetup,
    StopReason,
};

impl Judge {
    /// A question was answered.
    pub(crate) fn permitted(&mut self, asked: &Asked, answer: &PermissionResponse) {
        let chosen = match &answer.outcome {
            PermissionOutcome::Selected(selected) => Some(selected.option_id.clone()),
            _ => None,
        };
        let allows = chosen.as_ref().and_then(|chosen| asked.options.get(chosen));
        // An agent may take a no for a cancel.
        if allows != Some(&true) {
            self.state.cancelled(asked.session.as_deref());
        }
        let fine = self.shape || chosen.is_none() || allows.is_some();
        let said = || format!("the option {:?} was not offered", chosen.as_deref().unwrap_or_default());
        self.expect("permission-answer", fine, said);
        if asked.cancelled {
            let said = || "a question of a cancelled turn was answered with an option".into();
            self.expect("permission-cancel", chosen.is_none(), said);
        }
    }

    /// The hello was answered.
    pub(crate) fn settled(&mut self, answer: InitializeResponse) {
        // What counts is the key of the version that is spoken.
        let old = self.dialect.is_some_and(|dialect| dialect != Dialect::V2);
        let named = answer.info.is_some() && (!old || answer.keys.old_info);
        self.expect("hello-info", named, || match answer.info {
            Some(_) => "the agent says who it is in `info`, which is of version 2 only".into(),
            None => "the agent does not say who it is".into(),
        });
        let terminal = self.state.client.terminal_auth;
        for method in &answer.auth_methods {
            let fine = terminal || !matches!(method, AuthMethod::Terminal(_));
            self.expect("can-login", fine, || "a login in a terminal, which was not offered".into());
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
            let cancelled = asked.session.as_deref().and_then(|id| self.session(id)).is_none_or(|it| it.cancelled);
            self.stop_reason(reason, cancelled);
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
        session.quiet = true;
        let turn = std::mem::take(&mut session.turn);
        let mut open = turn.iter().filter(|id| session.calls.get(*id) == Some(&false));
        let open = open.next().cloned();
        if answer.stop_reason == Some(StopReason::EndTurn) && !turn.is_empty() {
            self.expect("tool-finished", open.is_none(), || {
                format!(
                    "at the end of the turn the call {:?} is neither completed nor failed",
                    open.unwrap_or_default()
                )
            });
        }
    }

    /// A request was answered with an error.
    pub(crate) fn refused(&mut self, asked: &Asked) {
        if ["session/request_permission", "elicitation/create"].contains(&&*asked.method) {
            self.state.cancelled(asked.session.as_deref());
        }
        let Some(session) = asked.session.as_deref().and_then(|id| self.session(id)) else { return };
        match asked.method.as_str() {
            "session/prompt" => session.prompts = session.prompts.saturating_sub(1),
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
            self.breach("session-early", "something was said about the session before its `session/new` was answered");
        }
        let taken_up = asked.method != "session/new";
        let session = self.opened(&id);
        session.ready = true;
        let told = session.state_told;
        if taken_up && asked.replay {
            session.replays = session.replays.saturating_sub(1);
            session.quiet = true;
        } else if taken_up {
            session.resumes = session.resumes.saturating_sub(1);
            if self.whole {
                self.holds("resume-silent");
            }
        }
        if taken_up && self.whole {
            self.expect("resume-state", told, || "the session was taken up and its state was not told".into());
        }
        if let Some(modes) = &setup.modes {
            self.mode(modes, &modes.current_mode_id);
        }
        let mut options = setup.config_options;
        if setup.mode_from_modes {
            options.remove(0);
        }
        self.options(Some(&id), &options);
        self.commands(setup.commands.iter().map(|command| command.name.as_str()));
        self.opened(&id).modes = setup.modes;
    }
}
