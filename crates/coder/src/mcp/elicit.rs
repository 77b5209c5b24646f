//! A question of a server, passed on to the user through the client.

use super::text::{clean, code};
use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction};
use serde_json::Value;
use tieline::agent::ClientHandle;
use tieline::schema::{Dialect, ElicitAction, ElicitMode, FormSchema, from_json, to_json};

/// As much of the question as is shown, in characters.
const QUESTION: usize = 2000;
/// The largest form, in bytes.
const FORM: usize = 64 << 10;

/// Asks the user, where the client can; declines otherwise.
pub async fn ask(client: &ClientHandle, server: &str, params: ElicitRequestParams) -> ElicitResult {
    let Some((message, mode)) = question(params) else { return ElicitResult::new(ElicitationAction::Decline) };
    // The user must know who asks.
    let message = format!("The MCP server {} asks: {}", code(server), clean(&message, QUESTION));
    let answer = match client.elicit(message, mode).await {
        Ok(answer) => answer,
        Err(error) => {
            tracing::debug!(%error, "an MCP server's question could not be asked");
            return ElicitResult::new(ElicitationAction::Decline);
        }
    };
    match answer.action {
        ElicitAction::Accept(values) => {
            let value = |(name, value)| {
                let value = serde_json::from_str(&to_json(&value, Dialect::V2)).unwrap_or(Value::Null);
                (name, value)
            };
            let values: serde_json::Map<String, Value> = values.into_iter().map(value).collect();
            ElicitResult::new(ElicitationAction::Accept).with_content(Value::Object(values))
        }
        ElicitAction::Decline => ElicitResult::new(ElicitationAction::Decline),
        _ => ElicitResult::new(ElicitationAction::Cancel),
    }
}

/// The question in the client's terms; `None` if there are none for it.
fn question(params: ElicitRequestParams) -> Option<(String, ElicitMode)> {
    match params {
        ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } => {
            let text = serde_json::to_string(&requested_schema).ok().filter(|text| text.len() <= FORM)?;
            let form: FormSchema = from_json(&text).ok()?;
            Some((message, ElicitMode::Form(form)))
        }
        ElicitRequestParams::UrlElicitationParams { message, url, elicitation_id, .. } => {
            // Nothing but web pages: other addresses may start programs.
            tieline_host::rules::Host::of_url(&url)?;
            Some((message, ElicitMode::Url { elicitation_id, url }))
        }
        _ => None,
    }
}
