//! Asking the user for something: a form to fill in, or a web page to visit.

use crate::macros::{fields, record};
use crate::{Decode, Dialect, Encode, FormSchema, Meta, SessionId, Unknown, Writer, union};
use std::collections::BTreeMap;
use tieline_json::{Error, Kind, Raw, Reader, write_str};

/// Asks the user for something (`elicitation/create`).
#[derive(Debug, Clone, PartialEq)]
pub struct ElicitRequest {
    /// What is asked, for people.
    pub message: String,
    /// What it belongs to.
    pub scope: ElicitScope,
    /// How it is asked.
    pub mode: ElicitMode,
    /// Extensions (`_meta`).
    pub meta: Option<Meta>,
}

/// What an elicitation belongs to.
#[derive(Debug, Clone, PartialEq)]
pub enum ElicitScope {
    /// A session.
    Session {
        /// Which session.
        session_id: SessionId,
        /// The tool call that needs the answer.
        tool_call_id: Option<String>,
    },
    /// A request of the client that is still open: its id, as it came.
    Request(Raw),
}

impl ElicitScope {
    /// The session, if it is about one.
    pub fn session(&self) -> Option<&SessionId> {
        match self {
            Self::Session { session_id, .. } => Some(session_id),
            Self::Request(_) => None,
        }
    }
}

/// How something is asked.
#[derive(Debug, Clone, PartialEq)]
pub enum ElicitMode {
    /// A form. Never for secrets.
    Form(FormSchema),
    /// A web page. To accept it is only the consent to open it.
    Url {
        /// Names the elicitation in [`ElicitationComplete`].
        elicitation_id: String,
        /// The address, shown in full before it is opened.
        url: String,
    },
    /// A mode we don't know: the whole request, kept as it came.
    Other(Unknown),
}

impl ElicitMode {
    /// The mode as on the wire.
    pub fn name(&self) -> &str {
        match self {
            Self::Form(_) => "form",
            Self::Url { .. } => "url",
            Self::Other(unknown) => &unknown.tag,
        }
    }
}

impl Decode for ElicitRequest {
    fn decode(json: &mut Reader<'_>) -> Result<Self, Error> {
        let tag = union::tag(json, "mode")?.ok_or_else(|| Error::missing("mode"))?;
        let (form, page) = (tag == "form", tag == "url");
        let start = json.mark();
        fields!(json {
            "message" => message, strict;
            "sessionId" => session_id, strict;
            "toolCallId" => tool_call_id, lenient;
            "requestId" => request_id, request_scope;
            "requestedSchema" if form => schema, strict;
            "elicitationId" if page => elicitation_id, strict;
            "url" if page => url, strict;
            "_meta" => meta, lenient;
        });
        let scope = match (session_id, request_id) {
            (Some(session_id), _) => ElicitScope::Session { session_id, tool_call_id },
            (None, Some(id)) => ElicitScope::Request(id),
            (None, None) => return Err(Error::data("missing field `sessionId` or `requestId`")),
        };
        let mode = match &*tag {
            "form" => ElicitMode::Form(schema.ok_or_else(|| Error::missing("requestedSchema"))?),
            "url" => ElicitMode::Url {
                elicitation_id: elicitation_id.ok_or_else(|| Error::missing("elicitationId"))?,
                url: url.ok_or_else(|| Error::missing("url"))?,
            },
            other => {
                json.rewind(start);
                ElicitMode::Other(Unknown::keep(other, json)?)
            }
        };
        Ok(Self { message: message.ok_or_else(|| Error::missing("message"))?, scope, mode, meta })
    }
}

fn request_scope(json: &mut Reader<'_>) -> Result<Option<Raw>, Error> {
    match json.peek()? {
        Kind::String | Kind::Number | Kind::Null => json.keep().map(Some),
        _ => Err(Error::data("expected a request id").inside("requestId")),
    }
}

impl Encode for ElicitRequest {
    fn encode(&self, out: &mut Writer<'_>) {
        if let ElicitMode::Other(unknown) = &self.mode {
            return unknown.encode(out);
        }
        out.open();
        out.field("\"mode\":", self.mode.name());
        match &self.scope {
            ElicitScope::Session { session_id, tool_call_id } => {
                out.field("\"sessionId\":", session_id);
                out.field("\"toolCallId\":", tool_call_id);
            }
            ElicitScope::Request(id) => out.field("\"requestId\":", id),
        }
        out.field("\"message\":", &self.message);
        match &self.mode {
            ElicitMode::Form(schema) => out.field("\"requestedSchema\":", schema),
            ElicitMode::Url { elicitation_id, url } => {
                out.field("\"elicitationId\":", elicitation_id);
                out.field("\"url\":", url);
            }
            ElicitMode::Other(_) => {}
        }
        out.field("\"_meta\":", &self.meta);
        out.close();
    }
}

/// What the user did.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ElicitResponse {
    /// What the user did.
    pub action: ElicitAction,
    /// Extensions (`_meta`).
    pub meta: Option<Meta>,
}

/// What the user did with an elicitation.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum ElicitAction {
    /// Filled in the form, or agreed to open the page.
    Accept(BTreeMap<String, ElicitValue>),
    /// Said no.
    Decline,
    /// Went away without an answer.
    #[default]
    Cancel,
    /// An action we don't know: the whole answer, kept. Handled like [`Self::Cancel`].
    Other(Unknown),
}

impl Decode for ElicitResponse {
    fn decode(json: &mut Reader<'_>) -> Result<Self, Error> {
        let tag = union::tag(json, "action")?.ok_or_else(|| Error::missing("action"))?;
        let accept = tag == "accept";
        let start = json.mark();
        fields!(json {
            "content" if accept => content, strict;
            "_meta" => meta, lenient;
        });
        let action = match &*tag {
            "accept" => ElicitAction::Accept(content.flatten().unwrap_or_default()),
            "decline" => ElicitAction::Decline,
            "cancel" => ElicitAction::Cancel,
            other => {
                json.rewind(start);
                ElicitAction::Other(Unknown::keep(other, json)?)
            }
        };
        Ok(Self { action, meta })
    }
}

impl Encode for ElicitResponse {
    fn encode(&self, out: &mut Writer<'_>) {
        let name = match &self.action {
            ElicitAction::Accept(_) => "accept",
            ElicitAction::Decline => "decline",
            ElicitAction::Cancel => "cancel",
            ElicitAction::Other(unknown) => return unknown.encode(out),
        };
        out.open();
        out.field("\"action\":", name);
        if let ElicitAction::Accept(content) = &self.action
            && !content.is_empty()
        {
            out.key("\"content\":");
            out.open();
            // Version 1 has no form for other values.
            let v1 = out.dialect == Dialect::V1;
            for (name, value) in content.iter().filter(|(_, value)| !(v1 && matches!(value, ElicitValue::Other(_)))) {
                write_str(out.out, name);
                out.key(":");
                value.encode(out);
                out.key(",");
            }
            out.close();
            out.key(",");
        }
        out.field("\"_meta\":", &self.meta);
        out.close();
    }
}

/// One value of a filled-in form.
#[derive(Debug, Clone, PartialEq)]
pub enum ElicitValue {
    /// Text, or one choice.
    Text(String),
    /// A whole number.
    Integer(i64),
    /// A number.
    Number(f64),
    /// Yes or no.
    Bool(bool),
    /// Several choices.
    Choices(Vec<String>),
    /// Something else, kept as it came.
    Other(Raw),
}

impl Decode for ElicitValue {
    fn decode(json: &mut Reader<'_>) -> Result<Self, Error> {
        let mark = json.mark();
        let read = match json.peek()? {
            Kind::String => String::decode(json).map(Self::Text),
            Kind::Bool => json.bool().map(Self::Bool),
            Kind::Array => Vec::decode(json).map(Self::Choices),
            Kind::Number => i64::decode(json).map(Self::Integer).or_else(|_| {
                json.rewind(mark);
                f64::decode(json).map(Self::Number)
            }),
            Kind::Object | Kind::Null => json.keep().map(Self::Other),
        };
        read.or_else(|error| {
            if error.is_syntax() {
                return Err(error);
            }
            json.rewind(mark);
            json.keep().map(Self::Other)
        })
    }
}

impl Encode for ElicitValue {
    fn encode(&self, out: &mut Writer<'_>) {
        match self {
            Self::Text(text) => text.encode(out),
            Self::Integer(number) => number.encode(out),
            Self::Number(number) => number.encode(out),
            Self::Bool(yes) => yes.encode(out),
            Self::Choices(choices) => choices.encode(out),
            Self::Other(raw) => raw.encode(out),
        }
    }
}

record! {
    /// The page of a url elicitation did its work (`elicitation/complete`).
    ElicitationComplete {
        /// Which elicitation. An unknown one is ignored.
        elicitation_id: String => "elicitationId", required;
    }
}
