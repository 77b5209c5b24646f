//! A question of a session as a client of the protocol is asked it, and its answer.

use crate::log;
use crate::nodes::Command;
use crate::room::Room;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::Arc;
use tieline::Error;
use tieline::agent::{ClientHandle, SessionHandle};
use tieline::schema::{
    Dialect, ElicitAction, ElicitMode, ElicitRequest, ElicitResponse, ElicitScope, FormSchema, Meta, Patch,
    PermissionOption, PermissionOptionKind, PermissionOutcome, PermissionRequest, PermissionResponse,
    PermissionSubject, Raw, SessionId, ToolCallContent, ToolCallSubject, ToolCallUpdate, data_field, from_json,
    to_json,
};
use tieline_client::elicit::{Consent, Filled, Form, Page};
use tieline_client::live::{Asked, Reply, What};
use tieline_client::permission::{Answer, Question};

/// The options of a question that has none of its own.
const ALLOW: &str = "allow";
const REJECT: &str = "reject";

/// A question in the words of the protocol, as the log has it: the node that asks a client need not be the one with the agent.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Posed {
    /// `session/request_permission`.
    Permission(Raw),
    /// A form or a page.
    Elicit(Raw),
}

/// What a client answered, in the words of the protocol.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answered {
    Permission(Raw),
    /// It can't be asked, or answers rubbish.
    Nobody,
    Elicit(Raw),
}

impl Posed {
    /// The question for all who may answer; `None` for what no client is asked.
    pub(crate) fn of(asked: &Asked) -> Option<Self> {
        let elicit = |message: &str, mode| {
            // The session is filled in by whoever asks.
            let scope = ElicitScope::Session { session_id: SessionId::default(), tool_call_id: None };
            let request = ElicitRequest { message: message.to_owned(), scope, mode, meta: None };
            Raw::new(to_json(&request, Dialect::V2)).ok().map(Self::Elicit)
        };
        match &asked.what {
            What::Permission(question) => {
                let request = to_json(&request(question, asked.number), Dialect::V2);
                Raw::new(request).ok().map(Self::Permission)
            }
            What::Form(form) => elicit(&form.message, ElicitMode::Form(schema(form))),
            What::Page(Page { message, url, .. }) => {
                let elicitation_id = format!("page-{}", asked.number);
                elicit(message, ElicitMode::Url { elicitation_id, url: url.clone() })
            }
            What::Login(_) | What::Terminal(_) => None,
        }
    }

    /// Asks a client. `None` if it gives no answer: another one may.
    async fn ask(&self, client: &ClientHandle) -> Option<Answered> {
        match self {
            Self::Permission(request) => match client.request_permission(from_json(request.get()).ok()?).await {
                Ok(answer) => Raw::new(to_json(&answer, Dialect::V2)).ok().map(Answered::Permission),
                // Nobody waits for it for ever, and nothing is allowed.
                Err(error @ (Error::Wire(_) | Error::Unreadable(_))) => {
                    tracing::warn!(%error, "a client can't answer a question");
                    Some(Answered::Nobody)
                }
                // It is gone; another one may answer.
                Err(error) => {
                    tracing::debug!(%error, "a client did not answer a question");
                    None
                }
            },
            Self::Elicit(request) => {
                let ElicitRequest { message, mode, .. } = from_json(request.get()).ok()?;
                let answer = client.elicit(message, mode).await.ok()?;
                Raw::new(to_json(&answer, Dialect::V2)).ok().map(Answered::Elicit)
            }
        }
    }
}

/// Asks a client, and passes its answer on to whoever has the session.
pub(crate) async fn ask(
    room: Arc<Room>,
    question: log::Question,
    posed: Arc<Posed>,
    session: SessionHandle,
    by: String,
) {
    let Some(answer) = posed.ask(&session.client()).await else { return };
    if let Err(error) = room.call(Command::Answer { question, answer, by }).await {
        tracing::warn!(%error, "an answer to a question does not arrive");
    }
}

/// What an answer means for a question that stands; `None` if that is nothing.
pub(crate) fn reply(asked: &Asked, answer: &Answered) -> Option<Reply> {
    match (&asked.what, answer) {
        (What::Permission(question), Answered::Permission(answer)) => {
            let answer: PermissionResponse = from_json(answer.get()).ok()?;
            of_outcome(question, &answer.outcome).map(Reply::Permission)
        }
        (What::Permission(_), Answered::Nobody) => Some(Reply::Permission(Answer::Nobody)),
        (What::Form(_), Answered::Elicit(answer)) => {
            Some(Reply::Form(match from_json::<ElicitResponse>(answer.get()).ok()?.action {
                ElicitAction::Accept(values) => Filled::Accept(values.into_iter().collect()),
                ElicitAction::Decline => Filled::Decline,
                _ => Filled::Cancel,
            }))
        }
        (What::Page(_), Answered::Elicit(answer)) => {
            Some(Reply::Page(match from_json::<ElicitResponse>(answer.get()).ok()?.action {
                ElicitAction::Accept(_) => Consent::Accept,
                ElicitAction::Decline => Consent::Decline,
                _ => Consent::Cancel,
            }))
        }
        _ => None,
    }
}

/// The tool call that a question is about.
pub(crate) fn call_id(question: &Question, number: u64) -> String {
    question.call.as_ref().map_or_else(|| format!("question-{number}"), |call| call.tool_call_id.clone())
}

/// The question in the words of the protocol. What would change is shown against the files as they are, not as the agent says.
fn request(question: &Question, number: u64) -> PermissionRequest {
    let mut call = question.call.clone().unwrap_or_else(|| ToolCallUpdate::new(call_id(question, number)));
    if call.title.set().is_none() {
        call.title = Patch::Set(question.title.clone());
    }
    if !question.changes.is_empty() {
        let changes = question.changes.iter().cloned().map(ToolCallContent::Diff);
        call.content = Patch::Set(changes.collect::<Vec<_>>().into());
    }
    // What is known comes before what the agent says, which may be long.
    let known = question.facts.iter().chain(&question.hints);
    let lines: Vec<String> = known.chain(&question.description).cloned().collect();
    let apart = json!({ "tieline": { "facts": question.facts, "hints": question.hints,
        "said": question.description.as_deref().unwrap_or_default(), "checked": !question.changes.is_empty() } });
    PermissionRequest {
        title: question.title.clone(),
        description: (!lines.is_empty()).then(|| lines.join("\n")),
        subject: Some(PermissionSubject::ToolCall(ToolCallSubject { tool_call: call, ..Default::default() })),
        options: options(question),
        meta: Some(Meta(apart.into())),
        ..PermissionRequest::default()
    }
}

fn options(question: &Question) -> Vec<PermissionOption> {
    if !question.options.is_empty() {
        return question.options.clone();
    }
    let option = |id: &str, name: &str, kind| PermissionOption {
        option_id: id.into(),
        name: name.into(),
        kind,
        ..PermissionOption::default()
    };
    vec![
        option(ALLOW, "Allow", PermissionOptionKind::AllowOnce),
        option(REJECT, "Reject", PermissionOptionKind::RejectOnce),
    ]
}

/// What an outcome answers. A client that gave up has answered nothing: another one may.
fn of_outcome(question: &Question, outcome: &PermissionOutcome) -> Option<Answer> {
    let PermissionOutcome::Selected(selected) = outcome else { return None };
    let chosen = options(question).into_iter().find(|option| option.option_id == selected.option_id);
    // What was not offered allows nothing.
    let Some(chosen) = chosen else { return Some(Answer::Refuse) };
    Some(match &*chosen.option_id {
        ALLOW if question.options.is_empty() => Answer::Allow,
        _ if !chosen.kind.allows() && !by_person(selected.meta.as_ref()) => Answer::Nobody,
        REJECT if question.options.is_empty() => Answer::Refuse,
        _ => Answer::Option(chosen.option_id),
    })
}

/// Whether a no is a person's, as far as the client says.
fn by_person(meta: Option<&Meta>) -> bool {
    let by: Option<String> = meta.and_then(|meta| data_field(&meta.0, "decidedBy"));
    by.is_none_or(|by| by == "person")
}

fn schema(form: &Form) -> FormSchema {
    FormSchema {
        title: form.title.clone(),
        description: form.description.clone(),
        properties: form.fields.iter().map(|field| (field.name.clone(), field.schema.clone())).collect(),
        required: form.fields.iter().filter(|field| field.required).map(|field| field.name.clone()).collect(),
        meta: None,
    }
}
