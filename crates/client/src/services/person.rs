//! The one way to a person: whatever is asked goes through here, in turn, and whoever watches the files hears that it stands.

use crate::Future;
use crate::elicit::Elicitor;
use crate::permission::{Answer, Decider, NOBODY, Question};
use crate::undo::Watch;
use std::sync::Arc;
use tieline::schema::{ElicitRequest, ElicitResponse, ElicitScope, PermissionSubject, SessionId};
use tokio::sync::{Semaphore, SemaphorePermit};

/// Knows who watches the files of a session.
pub(crate) trait Watching: Send + Sync {
    /// The watch over the turn that runs, if there is one; of the only session if none is named.
    fn watch<'a>(&'a self, session: Option<&'a SessionId>) -> Future<'a, Option<Arc<Watch>>>;
}

/// Who is asked. Nobody else has them.
pub(super) struct Person {
    decider: Arc<dyn Decider>,
    elicitor: Elicitor,
    /// Held while a person is asked: as many as may be at once.
    asking: Semaphore,
}

impl Person {
    pub(super) fn new(decider: Arc<dyn Decider>, elicitor: Elicitor) -> Self {
        Self { asking: Semaphore::new(decider.at_once()), decider, elicitor }
    }

    /// True while a person is asked something.
    pub(super) fn is_asked(&self) -> bool {
        self.asking.available_permits() < self.decider.at_once()
    }

    /// Who decides, for the record.
    pub(super) fn name(&self) -> &'static str {
        self.decider.name()
    }

    /// Why nobody is asked this, safe to show.
    pub(super) fn refusal(&self, request: &ElicitRequest, agent: &str, ours: bool) -> Option<String> {
        self.elicitor.refusal(request, agent, ours)
    }

    /// A page did its work.
    pub(super) fn complete(&self, id: &str) {
        self.elicitor.complete(id);
    }

    /// Waits until something may be asked: one question at a time, or as many as who decides can have, in the order they came.
    pub(super) async fn turn<'p>(&'p self, watching: Option<&'p dyn Watching>) -> Turn<'p> {
        Turn { person: self, watching, _one: self.asking.acquire().await.ok() }
    }
}

/// The right to ask something.
pub(super) struct Turn<'p> {
    person: &'p Person,
    watching: Option<&'p dyn Watching>,
    _one: Option<SemaphorePermit<'p>>,
}

impl Turn<'_> {
    /// Asks for permission.
    pub(super) async fn decide(&self, question: &Question) -> Answer {
        let decider = &self.person.decider;
        if decider.name() == NOBODY {
            return decider.decide(question).await;
        }
        let call = match &question.subject {
            Some(PermissionSubject::ToolCall(subject)) => Some(&*subject.tool_call.tool_call_id),
            Some(PermissionSubject::Command(subject)) => subject.tool_call_id.as_deref(),
            _ => None,
        };
        self.stands(Some(&question.session), call, decider.decide(question)).await
    }

    /// Asks for what a form or a page is about.
    pub(super) async fn elicit(&self, request: &ElicitRequest, agent: &str) -> ElicitResponse {
        let (session, call) = match &request.scope {
            ElicitScope::Session { session_id, tool_call_id, .. } => (Some(session_id), tool_call_id.as_deref()),
            ElicitScope::Request(_) => (None, None),
        };
        self.stands(session, call, self.person.elicitor.answer(request, agent)).await
    }

    /// What changes until there is an answer may be the person's doing.
    async fn stands<T>(
        &self,
        session: Option<&SessionId>,
        call: Option<&str>,
        question: impl std::future::Future<Output = T>,
    ) -> T {
        let watch = match self.watching {
            Some(watching) => watching.watch(session).await,
            None => None,
        };
        match watch {
            Some(watch) => watch.asking(call, question).await,
            None => question.await,
        }
    }
}
