//! An echo agent on the official Rust SDK, written as its documentation shows.

use std::sync::atomic::{AtomicUsize, Ordering};

use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    AgentCapabilities, ContentBlock, ContentChunk, InitializeRequest, InitializeResponse, NewSessionRequest,
    NewSessionResponse, PermissionOption, PermissionOptionKind, PromptRequest, PromptResponse,
    RequestPermissionRequest, SessionId, SessionNotification, SessionUpdate, SetSessionModeRequest,
    SetSessionModeResponse, StopReason, TextContent, ToolCallUpdate, ToolCallUpdateFields,
};
use agent_client_protocol::{Agent, Client, Error, Result, Stdio, on_receive_request};
use tieline_bench::{Task, session_id, text};

/// One message chunk with this text.
fn chunk(session: &SessionId, text: &str) -> SessionNotification {
    let content = ContentChunk::new(ContentBlock::Text(TextContent::new(text)));
    SessionNotification::new(session.clone(), SessionUpdate::AgentMessageChunk(content))
}

/// A question with two answers, as an agent asks before it edits a file.
fn question(session: &SessionId) -> RequestPermissionRequest {
    let call = ToolCallUpdate::new("call-1", ToolCallUpdateFields::new().title("Edit file"));
    let allow = PermissionOption::new("allow", "Allow", PermissionOptionKind::AllowOnce);
    let reject = PermissionOption::new("reject", "Reject", PermissionOptionKind::RejectOnce);
    RequestPermissionRequest::new(session.clone(), call, vec![allow, reject])
}

async fn turn(client: &ConnectionTo<Client>, request: PromptRequest) -> Result<PromptResponse> {
    let session = request.session_id;
    let task = match request.prompt.first() {
        Some(ContentBlock::Text(block)) => Task::parse(&block.text),
        _ => None,
    };
    match task {
        Some(Task::Stream { count, size }) => {
            let body = text(size);
            for _ in 0..count {
                client.send_notification(chunk(&session, &body))?;
            }
        }
        Some(Task::Drip { count, size, pause }) => {
            let body = text(size);
            for _ in 0..count {
                client.send_notification(chunk(&session, &body))?;
                tokio::time::sleep(pause).await;
            }
        }
        Some(Task::Perm { count }) => {
            for _ in 0..count {
                client.send_request(question(&session)).block_task().await?;
            }
        }
        Some(Task::Len(length)) => client.send_notification(chunk(&session, &length.to_string()))?,
        Some(Task::Fan { .. }) | None => return Err(Error::invalid_params()),
    }
    Ok(PromptResponse::new(StopReason::EndTurn))
}

#[tokio::main]
async fn main() -> Result<()> {
    let opened = AtomicUsize::new(0);
    Agent
        .v1()
        .name("sdk-agent")
        .on_receive_request(
            async move |request: InitializeRequest, responder, _client| {
                let answer = InitializeResponse::new(request.protocol_version);
                responder.respond(answer.agent_capabilities(AgentCapabilities::new()))
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |_request: NewSessionRequest, responder, _client| {
                let number = opened.fetch_add(1, Ordering::Relaxed) + 1;
                responder.respond(NewSessionResponse::new(session_id(number)))
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |_request: SetSessionModeRequest, responder, _client| {
                responder.respond(SetSessionModeResponse::new())
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: PromptRequest, responder, client: ConnectionTo<Client>| {
                // A handler must not wait for the client: the SDK reads no further until it returns.
                let connection = client.clone();
                client.spawn(async move {
                    let answer = turn(&connection, request).await;
                    responder.respond_with_result(answer)
                })
            },
            on_receive_request!(),
        )
        .connect_to(Stdio::new())
        .await
}
