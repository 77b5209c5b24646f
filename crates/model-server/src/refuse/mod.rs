//! What the vendors refuse, in their words: headers, fields, tools, and conversations that are not in order.

mod chat;
mod gemini;
mod messages;
mod picture;
mod responses;
mod schema;

use crate::server::Recorded;
use crate::talk::{Asked, Format};
use serde_json::{Map, Value};
use tieline_script::Script;

/// Why a request is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    pub(crate) message: String,
    /// `OpenAI` formats: the field that is wrong.
    pub(crate) param: Option<String>,
    /// `OpenAI` formats: a word for programs.
    pub(crate) code: Option<&'static str>,
}

impl<T: Into<String>> From<T> for Refusal {
    fn from(message: T) -> Self {
        Self { status: 400, message: message.into(), param: None, code: None }
    }
}

impl Refusal {
    fn of(param: impl Into<String>, code: Option<&'static str>, message: impl Into<String>) -> Self {
        Self { param: Some(param.into()), code, ..Self::from(message) }
    }

    fn status(status: u16, message: &str) -> Self {
        Self { status, ..Self::from(message) }
    }
}

type Checked = Result<(), Refusal>;

/// Refuses what the vendor of this format would.
pub(crate) fn check(asked: &Asked, request: &Recorded, script: &Script) -> Checked {
    let body = &request.body;
    let kind = request.header("content-type").unwrap_or("none");
    if !kind.starts_with("application/json") {
        return Err(Refusal::of(
            "",
            Some("unsupported_content_type"),
            format!(
                "Unsupported content type: '{kind}'. This API method only accepts 'application/json' requests, but you \
                 specified the header 'Content-Type: {kind}'. Please try again with a supported content type."
            ),
        ));
    }
    match asked.format {
        Format::Messages => messages::headers(request)?,
        Format::Gemini => gemini::headers(request)?,
        _ => {}
    }
    if !body.is_object() {
        return Err("We could not parse the JSON body of your request.".into());
    }
    if asked.model.is_empty() {
        return Err(match asked.format {
            Format::Messages => "model: Field required".into(),
            Format::Responses => missing("model"),
            _ => "you must provide a model parameter".into(),
        });
    }
    match asked.format {
        Format::Chat => chat::check(body, script)?,
        Format::Responses => responses::check(body, script)?,
        Format::Messages => messages::check(body, request.header("anthropic-beta").is_some())?,
        Format::Gemini | Format::Other => gemini::check(body, &asked.model)?,
    }
    schema::check(asked.format, body)?;
    picture::check(asked.format, body, script.blind)
}

/// The fields of an object that are not among the known ones, a list with blanks between.
fn unknown<'a>(object: &'a Value, known: &str) -> Option<&'a str> {
    let strange = |key: &&String| !known.split(' ').any(|known| known == key.as_str());
    object.as_object()?.keys().find(strange).map(String::as_str)
}

/// Whether a text is made of letters, digits and these characters, and has between one and `most` of them.
fn is_name(text: &str, others: &str, most: usize) -> bool {
    (1..=most).contains(&text.len()) && text.chars().all(|c| c.is_ascii_alphanumeric() || others.contains(c))
}

/// The kind of a value, as an error calls it.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// `OpenAI`: a field that has to be there.
fn missing(param: &str) -> Refusal {
    Refusal::of(param, Some("missing_required_parameter"), format!("Missing required parameter: '{param}'."))
}

/// `OpenAI`: a field has a value of another kind.
fn wrong_type(param: &str, wanted: &str, found: &Value) -> Refusal {
    let found = kind(found);
    Refusal::of(
        param,
        Some("invalid_type"),
        format!("Invalid type for '{param}': expected {wanted}, but got {found} instead."),
    )
}

/// `OpenAI`: a list without anything in it.
fn empty_list(param: &str) -> Refusal {
    Refusal::of(
        param,
        Some("empty_array"),
        format!(
            "Invalid '{param}': empty array. Expected an array with minimum length 1, but got an empty array instead."
        ),
    )
}

/// `OpenAI`: a text that is too long.
fn at_most(param: &str, text: &str, most: usize) -> Checked {
    let length = text.chars().count();
    if length <= most {
        return Ok(());
    }
    Err(Refusal::of(
        param,
        Some("string_above_max_length"),
        format!(
            "Invalid '{param}': string too long. Expected a string with maximum length {most}, but got a string with length \
             {length} instead."
        ),
    ))
}

/// `OpenAI`: the name of a tool.
fn tool_name(param: &str, name: &Value) -> Checked {
    let Some(name) = name.as_str() else { return Err(missing(param)) };
    at_most(param, name, 64)?;
    if is_name(name, "_-", 64) {
        return Ok(());
    }
    Err(Refusal::of(
        param,
        Some("invalid_value"),
        format!(
            "Invalid '{param}': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'."
        ),
    ))
}

/// `OpenAI`: a list of tools that is too short or too long.
fn tool_count(body: &Map<String, Value>) -> Checked {
    const MAX_TOOLS: usize = 128;
    match body.get("tools") {
        Some(Value::Array(tools)) if tools.is_empty() => Err(empty_list("tools")),
        Some(Value::Array(tools)) if tools.len() > MAX_TOOLS => Err(Refusal::of(
            "tools",
            Some("array_above_max_length"),
            format!(
                "Invalid 'tools': array too long. Expected an array with maximum length {MAX_TOOLS}, but got an array with \
                 length {} instead.",
                tools.len()
            ),
        )),
        None | Some(Value::Null | Value::Array(_)) => Ok(()),
        Some(other) => Err(wrong_type("tools", "an array of objects", other)),
    }
}

/// `OpenAI`: whether a model thinks. Others refuse what is about thinking; a name that nobody knows may be either.
fn never_thinks(model: &str) -> bool {
    model.starts_with("gpt-4") || model.starts_with("gpt-3") || model.contains("-chat")
}
