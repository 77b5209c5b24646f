//! Commands that a user can call by name at the start of a prompt.

use crate::macros::{fields, record};
use crate::{Decode, Dialect, Encode, Meta, Unknown, Writer, union};
use tieline_json::{Error, Reader};

/// A command such as `/plan`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Command {
    /// What the user types behind the slash.
    pub name: String,
    /// What it does.
    pub description: String,
    /// What may follow the name; `None` if nothing.
    pub input: Option<CommandInput>,
    /// For a kind of command we don't know: the whole object. Current v2 gets it back byte for byte, the others get a
    /// plain command of this name and description.
    pub other: Option<Unknown>,
    /// Extensions (`_meta`).
    pub meta: Option<Meta>,
}

impl Command {
    /// A command without input.
    pub fn new(name: impl Into<String>, description: impl Into<String>) -> Self {
        Self { name: name.into(), description: description.into(), ..Self::default() }
    }

    /// The same command, taking any text behind its name.
    #[must_use]
    pub fn with_input(mut self, hint: impl Into<String>) -> Self {
        self.input = Some(CommandInput::Text(TextInput { hint: hint.into(), ..Default::default() }));
        self
    }
}

/// What may follow a command's name.
#[derive(Debug, Clone, PartialEq)]
pub enum CommandInput {
    /// All text behind the name.
    Text(TextInput),
    /// A kind we don't know, kept as it came.
    Other(Unknown),
}

record! {
    /// Free text behind a command's name.
    TextInput {
        /// Shown while nothing is typed yet.
        hint: String => "hint", required;
    }
}

impl Decode for Command {
    fn decode(json: &mut Reader<'_>) -> Result<Self, Error> {
        let tag = union::tag(json, "type")?;
        let start = json.mark();
        fields!(json {
            "name" => name, strict;
            "description" => description, strict;
            "input" => input, lenient;
            "_meta" => meta, lenient;
        });
        let name = name.ok_or_else(|| Error::missing("name"))?;
        let description = description.ok_or_else(|| Error::missing("description"))?;
        let mut other = None;
        if let Some(tag) = tag.filter(|tag| tag != "command") {
            json.rewind(start);
            other = Some(Unknown::keep(&tag, json)?);
        }
        Ok(Self { name, description, input, other, meta })
    }
}

impl Encode for Command {
    fn encode(&self, out: &mut Writer<'_>) {
        let newest = out.dialect == Dialect::V2;
        if let (true, Some(other)) = (newest, &self.other) {
            return other.encode(out);
        }
        out.open();
        if newest {
            out.key("\"type\":\"command\",");
        }
        out.field("\"name\":", &self.name);
        out.field("\"description\":", &self.description);
        match &self.input {
            // Version 1 knows text only.
            Some(CommandInput::Other(_)) if out.dialect == Dialect::V1 => {}
            input => out.field("\"input\":", input),
        }
        out.field("\"_meta\":", &self.meta);
        out.close();
    }
}

impl Decode for CommandInput {
    fn decode(json: &mut Reader<'_>) -> Result<Self, Error> {
        match union::tag(json, "type")? {
            Some(tag) if tag != "text" => Unknown::keep(&tag, json).map(Self::Other),
            _ => TextInput::decode(json).map(Self::Text),
        }
    }
}

impl Encode for CommandInput {
    fn encode(&self, out: &mut Writer<'_>) {
        match self {
            Self::Text(text) if out.dialect == Dialect::V2 => out.tagged("{\"type\":\"text\",", text),
            Self::Text(text) => out.object(text),
            Self::Other(unknown) => unknown.encode(out),
        }
    }
}
