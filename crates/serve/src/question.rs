//! A question of a session as a client of the protocol is asked it, and its answer.

use crate::watch::{self, Watch};
use std::sync::Arc;
use tieline::Error;
use tieline::agent::SessionHandle;
use tieline::schema::{
    ElicitAction, ElicitMode, FormSchema, Meta, Patch, PermissionOption, PermissionOptionKind, PermissionOutcome,
    PermissionRequest, PermissionSubject, ToolCallContent, ToolCallSubject, ToolCallUpdate, data_field,
};
use tieline_client::elicit::{Consent, Filled, Form, Page};
use tieline_client::live::{Asked, Reply, What};
use tieline_client::permission::{Answer, Question};

/// The options of a question that has none of its own.
const ALLOW: &str = "allow";
const REJECT: &str = "reject";

/// Asks a client, and answers for it. If its answer is the one that counts, that is written down.
pub(crate) async fn ask(asked: Arc<Asked>, session: SessionHandle, name: String, watch: Arc<Watch>) {
    let client = session.client();
    let reply = match &asked.what {
        What::Permission(question) => match client.request_permission(request(question, asked.number)).await {
            Ok(answer) => of_outcome(question, &answer.outcome).map(Reply::Permission),
            // It can't be asked, or answers rubbish: nobody waits for it for ever, and nothing is allowed.
            Err(error @ (Error::Wire(_) | Error::Unreadable(_))) => {
                tracing::warn!(%error, "a client can't answer a question");
                Some(Reply::Permission(Answer::Nobody))
            }
            // It is gone; another one may answer.
            Err(error) => {
                tracing::debug!(%error, "a client did not answer a question");
                None
            }
        },
        What::Form(form) => {
            let answer = client.elicit(form.message.clone(), ElicitMode::Form(schema(form))).await;
            answer.ok().map(|answer| {
                Reply::Form(match answer.action {
                    ElicitAction::Accept(values) => Filled::Accept(values.into_iter().collect()),
                    ElicitAction::Decline => Filled::Decline,
                    _ => Filled::Cancel,
                })
            })
        }
        What::Page(Page { message, url, .. }) => {
            let mode = ElicitMode::Url { elicitation_id: format!("page-{}", asked.number), url: url.clone() };
            let answer = client.elicit(message.clone(), mode).await;
            answer.ok().map(|answer| {
                Reply::Page(match answer.action {
                    ElicitAction::Accept(_) => Consent::Accept,
                    ElicitAction::Decline => Consent::Decline,
                    _ => Consent::Cancel,
                })
            })
        }
        What::Login(_) | What::Terminal(_) => None,
    };
    let Some(reply) = reply else { return };
    let word = watch::word(&reply);
    if asked.reply(reply) {
        watch.answered(&name, session.id(), &asked, &word);
    }
}

/// The question in the words of the protocol. What would change is shown against the files as they are, not as the agent says.
fn request(question: &Question, number: u64) -> PermissionRequest {
    let mut call = question.call.clone().unwrap_or_else(|| ToolCallUpdate::new(format!("question-{number}")));
    if call.title.set().is_none() {
        call.title = Patch::Set(question.title.clone());
    }
    if !question.changes.is_empty() {
        let changes = question.changes.iter().cloned().map(ToolCallContent::Diff);
        call.content = Patch::Set(changes.collect::<Vec<_>>().into());
    }
    let known = question.facts.iter().chain(&question.hints).cloned();
    let lines: Vec<String> = question.description.iter().cloned().chain(known).collect();
    PermissionRequest {
        title: question.title.clone(),
        description: (!lines.is_empty()).then(|| lines.join("\n")),
        subject: Some(PermissionSubject::ToolCall(ToolCallSubject { tool_call: call, ..Default::default() })),
        options: options(question),
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
