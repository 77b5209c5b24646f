//! Asking the user before something is done.

use super::tool::ToolCallBuilder;
use super::turn::Turn;
use crate::error::{Error, Result};
use crate::wire::new_id;
use tieline_schema::{
    ClientCall, CommandSubject, Dialect, Meta, PermissionOption, PermissionOptionKind, PermissionOutcome,
    PermissionRequest, PermissionResponse, PermissionSubject, ToolCallStatus, ToolCallSubject, ToolCallUpdate,
    fit_call,
};

/// So many bytes of a question are left for what is not the call.
const BYTES_AROUND_CALL: usize = 8 << 10;

/// A question to the user.
#[derive(Debug, Clone)]
#[must_use]
pub struct Ask {
    title: Option<String>,
    description: Option<String>,
    subject: Option<PermissionSubject>,
    options: Vec<PermissionOption>,
    meta: Option<Meta>,
}

impl Ask {
    /// A question about nothing in particular.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: Some(title.into()), description: None, subject: None, options: Vec::new(), meta: None }
    }

    /// May this tool call run? The client applies the update before it shows the question.
    pub fn about(call: ToolCallUpdate) -> Self {
        let title = call.title.set().cloned();
        let subject = Some(PermissionSubject::ToolCall(ToolCallSubject { tool_call: call, ..Default::default() }));
        Self { title, description: None, subject, options: Vec::new(), meta: None }
    }

    /// May this command run?
    pub fn command(subject: CommandSubject) -> Self {
        let title = Some(format!("Run `{}`?", subject.command));
        let subject = Some(PermissionSubject::Command(subject));
        Self { title, description: None, subject, options: Vec::new(), meta: None }
    }

    setters! {
        /// The question itself.
        title(title: impl Into<String>) => title = Some(title.into());
        /// More about it.
        description(description: impl Into<String>) => description = Some(description.into());
        /// What the user can choose. Without this: allow once, reject once.
        options(options: Vec<PermissionOption>) => options = options;
        /// Extensions (`_meta`).
        meta(meta: Meta) => meta = Some(meta);
    }

    /// Adds a choice.
    pub fn option(mut self, id: &str, name: &str, kind: PermissionOptionKind) -> Self {
        self.options.push(PermissionOption { option_id: id.into(), name: name.into(), kind, ..Default::default() });
        self
    }
}

/// What the user decided.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// One of the options was chosen. Its `meta` is what the client added to the choice or to the answer, if anything.
    Chosen(PermissionOption),
    /// The turn was cancelled, or the answer was none of the options: not allowed.
    Cancelled,
}

impl Decision {
    /// True if an option was chosen that allows it. Nothing else counts as approval.
    pub fn is_allowed(&self) -> bool {
        matches!(self, Self::Chosen(option) if option.kind.allows())
    }

    /// The id of the chosen option.
    pub fn option_id(&self) -> Option<&str> {
        match self {
            Self::Chosen(option) => Some(&option.option_id),
            Self::Cancelled => None,
        }
    }
}

pub(crate) async fn ask(turn: &Turn, mut question: Ask) -> Result<Decision> {
    if question.options.is_empty() {
        question = question.option("allow", "Allow", PermissionOptionKind::AllowOnce);
        question = question.option("reject", "Reject", PermissionOptionKind::RejectOnce);
    }
    let request = PermissionRequest {
        session_id: turn.session_id().clone(),
        title: question.title.unwrap_or_else(|| "Permission required".into()),
        description: question.description,
        subject: question.subject,
        options: question.options.clone(),
        meta: question.meta,
    };
    Ok(decide(put(turn, request).await?, question.options))
}

/// Puts a question to the client, in a form that it knows. A turn that is cancelled is an answer, too.
pub(crate) async fn put(turn: &Turn, mut request: PermissionRequest) -> Result<PermissionResponse> {
    let shared = &turn.shared;
    let cancelled = || PermissionResponse { outcome: PermissionOutcome::cancelled(), ..Default::default() };
    shared.writer.lock().admit(Some(shared.number))?;
    if turn.is_cancelled() {
        return Ok(cancelled());
    }
    let options = request.options.clone();
    let made_up = match &request.subject {
        Some(PermissionSubject::ToolCall(_)) => false,
        Some(PermissionSubject::Command(command)) => command.tool_call_id.is_none(),
        _ => true,
    };
    // Elsewhere there are only questions about tool calls, so it is one: it begins here, and ends with the answer.
    let mut own_call = None;
    if made_up && turn.dialect() != Dialect::V2 {
        let tool_call = ToolCallUpdate { tool_call_id: new_id("call"), ..request.tool_call() };
        own_call = Some(ToolCallBuilder::of(turn.clone(), tool_call.clone()).start().await?);
        request.subject = Some(PermissionSubject::ToolCall(ToolCallSubject { tool_call, ..Default::default() }));
    }
    if let (Some(PermissionSubject::ToolCall(subject)), Some(longest)) =
        (&mut request.subject, shared.writer.negotiated.longest())
    {
        fit_call(&mut subject.tool_call, longest - BYTES_AROUND_CALL);
    }
    let (client, call) = (turn.client(), ClientCall::Permission(Box::new(request)));
    let asking = Asking::new(turn);
    // Cancelled while the user thinks: stop waiting. That drops the call, which withdraws the question.
    let answer = tokio::select! {
        biased;
        () = turn.cancelled() => Ok(None),
        answer = client.ask::<PermissionResponse>(call, None) => answer.map(Some),
    };
    drop(asking);
    let answer = match answer {
        Ok(Some(answer)) => answer,
        // Nobody is left to decide.
        Ok(None) | Err(Error::Closed(_)) => return Ok(cancelled()),
        Err(error) => return Err(error),
    };
    if let Some(call) = own_call {
        let status = match answer.outcome.chosen(&options) {
            None => ToolCallStatus::Cancelled,
            Some(option) if option.kind.allows() => ToolCallStatus::Completed,
            Some(_) => ToolCallStatus::Failed,
        };
        call.update(ToolCallUpdate::default().status(status)).await?;
    }
    Ok(answer)
}

/// While this lives, the client is told that the turn waits for the user.
struct Asking<'t>(&'t Turn);

impl<'t> Asking<'t> {
    fn new(turn: &'t Turn) -> Self {
        turn.shared.writer.asking(turn.shared.number, true);
        Self(turn)
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        // After a cancel the next state is idle.
        if !self.0.is_cancelled() {
            self.0.shared.writer.asking(self.0.shared.number, false);
        }
    }
}

fn decide(answer: PermissionResponse, options: Vec<PermissionOption>) -> Decision {
    let Some(mut option) = answer.outcome.chosen(&options).cloned() else { return Decision::Cancelled };
    // What the client adds to the choice, such as the user's reason.
    let of_choice = match answer.outcome {
        PermissionOutcome::Selected(selected) => selected.meta,
        _ => None,
    };
    if let Some(meta) = of_choice.or(answer.meta) {
        option.meta = Some(meta);
    }
    Decision::Chosen(option)
}
