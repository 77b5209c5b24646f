//! A question of a server, passed on to the user through the client.

use super::pages::{self, Pages};
use crate::text::{clean, code};
use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction};
use serde_json::Value;
use tieline::agent::ClientHandle;
use tieline::schema::{Dialect, ElicitAction, ElicitMode, FormSchema, from_json, to_json};
use tieline_host::secret;

/// As much of the question as is shown, in characters.
const MAX_QUESTION_CHARACTERS: usize = 2000;
/// The largest form, in bytes.
const MAX_FORM_BYTES: usize = 64 << 10;
/// As many pages as the user is sent to for one call.
const MAX_PAGES: usize = 3;

/// The code of an error that says which pages the user has to visit before a call can work.
pub const PAGE_NEEDED: i32 = -32042;

/// Asks the user, where the client can; declines otherwise.
pub async fn ask(client: &ClientHandle, server: &str, pages: &Pages, params: ElicitRequestParams) -> ElicitResult {
    let Some((message, mode)) = question(params, pages) else { return ElicitResult::new(ElicitationAction::Decline) };
    // The user must know who asks.
    let message = format!("The MCP server {} asks: {}", code(server), clean(&message, MAX_QUESTION_CHARACTERS));
    let page = match &mode {
        ElicitMode::Url { elicitation_id, .. } => Some(elicitation_id.clone()),
        _ => None,
    };
    let answer = match client.elicit(message, mode).await {
        Ok(answer) => answer.action,
        Err(error) => {
            tracing::debug!(%error, "an MCP server's question could not be asked");
            ElicitAction::Decline
        }
    };
    match (answer, page) {
        // Only the consent to go there; what the user does there is between them and the server.
        (ElicitAction::Accept(_), Some(_)) => ElicitResult::new(ElicitationAction::Accept),
        (ElicitAction::Accept(values), None) => {
            let value = |(name, value)| {
                let value = serde_json::from_str(&to_json(&value, Dialect::V2)).unwrap_or(Value::Null);
                (name, value)
            };
            let values: serde_json::Map<String, Value> = values.into_iter().map(value).collect();
            ElicitResult::new(ElicitationAction::Accept).with_content(Value::Object(values))
        }
        (answer, page) => {
            if let Some(page) = page {
                pages.forget(&page);
            }
            let declined = answer == ElicitAction::Decline;
            ElicitResult::new(if declined { ElicitationAction::Decline } else { ElicitationAction::Cancel })
        }
    }
}

/// The question in the client's terms; `None` if there are none for it, or if it must not be asked.
fn question(params: ElicitRequestParams, pages: &Pages) -> Option<(String, ElicitMode)> {
    match params {
        ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } => {
            let text = serde_json::to_string(&requested_schema).ok().filter(|text| text.len() <= MAX_FORM_BYTES)?;
            let form: FormSchema = from_json(&text).ok()?;
            secret::asked_by(&message, &form).is_none().then_some((message, ElicitMode::Form(form)))
        }
        ElicitRequestParams::UrlElicitationParams { message, url, elicitation_id, .. } => {
            let elicitation_id = pages::is_fit(&url).then(|| pages.open(&elicitation_id))?;
            Some((message, ElicitMode::Url { elicitation_id, url }))
        }
        _ => None,
    }
}

/// A call needs the user to visit pages first: sends them there, and gives what the model is told.
pub async fn visit(client: &ClientHandle, server: &str, pages: &Pages, data: Option<Value>) -> String {
    let name = code(server);
    let wanted = data.and_then(|data| Some(data.get("elicitations")?.as_array()?.clone())).unwrap_or_default();
    let wanted = wanted.into_iter().filter_map(|one| serde_json::from_value::<ElicitRequestParams>(one).ok());
    let is_page = |one: &ElicitRequestParams| matches!(one, ElicitRequestParams::UrlElicitationParams { .. });
    let mut agreed = false;
    for page in wanted.filter(is_page).take(MAX_PAGES) {
        agreed = ask(client, server, pages, page).await.action == ElicitationAction::Accept;
        if !agreed {
            break;
        }
    }
    if agreed {
        return format!(
            "The MCP server {name} needs the user to do something on a web page first. The user has agreed to open it. \
             Call the tool again when the user says that it is done."
        );
    }
    format!(
        "The MCP server {name} needs the user to do something on a web page first, and that page was not opened: the \
         user did not want to, or this client can't open pages, or the address is not safe."
    )
}
