//! The forms of elicitations: a small part of JSON Schema, with the fields in their order.

use crate::codec::read;
use crate::macros::{fields, open_enum, record, tagged};
use crate::{Decode, Encode, Meta, Unknown, Writer, union};
use tieline_json::{Error, Reader, write_str};

/// A form. On the wire an object schema.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FormSchema {
    /// The heading.
    pub title: Option<String>,
    /// What the form is for.
    pub description: Option<String>,
    /// The fields by name, in the order they came.
    pub properties: Vec<(String, FormField)>,
    /// The fields that must be filled in.
    pub required: Vec<String>,
    /// Extensions (`_meta`).
    pub meta: Option<Meta>,
}

impl FormSchema {
    /// The field of this name.
    pub fn field(&self, name: &str) -> Option<&FormField> {
        self.properties.iter().find(|(key, _)| key == name).map(|(_, field)| field)
    }
}

impl Decode for FormSchema {
    fn decode(json: &mut Reader<'_>) -> Result<Self, Error> {
        fields!(json {
            "type" => _is_object, object_type;
            "title" => title, lenient;
            "description" => description, lenient;
            "properties" => properties, form_fields;
            "required" => required, whole;
            "_meta" => meta, lenient;
        });
        Ok(Self { title, description, properties, required, meta })
    }
}

/// A form can only be an object; version 1 forgives anything here.
fn object_type(json: &mut Reader<'_>) -> Result<bool, Error> {
    let is_object = json.raw()? == "\"object\"";
    if !is_object {
        json.forgive(Error::data("expected `object`").inside("type"));
    }
    Ok(is_object)
}

fn form_fields(json: &mut Reader<'_>) -> Result<Vec<(String, FormField)>, Error> {
    let mut fields: Vec<(String, FormField)> = Vec::new();
    let mut object = json.object().map_err(|error| error.inside("properties"))?;
    while let Some(key) = object.key(json)? {
        let mark = json.mark();
        let field = read::strict(json, &key).map_err(|error: Error| error.inside("properties"))?;
        json.locate(mark, &"properties");
        fields.retain(|(name, _)| *name != key);
        fields.push((key.into_owned(), field));
    }
    Ok(fields)
}

impl Encode for FormSchema {
    fn encode(&self, out: &mut Writer<'_>) {
        out.key("{\"type\":\"object\",");
        out.field("\"title\":", &self.title);
        out.field("\"description\":", &self.description);
        out.key("\"properties\":");
        out.open();
        for (name, field) in &self.properties {
            write_str(out.out, name);
            out.key(":");
            field.encode(out);
            out.key(",");
        }
        out.close();
        out.key(",");
        if !self.required.is_empty() {
            out.field("\"required\":", &self.required);
        }
        out.field("\"_meta\":", &self.meta);
        out.close();
    }
}

tagged! {
    /// One field of a form.
    FormField by "type" {
        /// Text, or one choice.
        Text(TextField) = "string";
        /// A number.
        Number(NumberField) = "number";
        /// A whole number.
        Integer(IntegerField) = "integer";
        /// Yes or no.
        Boolean(BooleanField) = "boolean";
        /// Several choices.
        Choices(ChoicesField) = "array";
    }
}

record! {
    /// Text, or one choice.
    TextField {
        /// The label.
        title: Option<String> => "title", lenient;
        /// What is wanted.
        description: Option<String> => "description", lenient;
        /// The fewest characters.
        min_length: Option<u32> => "minLength", strict;
        /// The most characters.
        max_length: Option<u32> => "maxLength", strict;
        /// A regular expression (ECMA-262) that the text must match.
        pattern: Option<String> => "pattern", strict;
        /// What the text stands for.
        format: Option<TextFormat> => "format", strict;
        /// What it holds at first.
        default: Option<String> => "default", lenient;
        /// The choices, without titles.
        choices: Option<Vec<String>> => "enum", strict;
        /// The choices, with titles.
        titled_choices: Option<Vec<Choice>> => "oneOf", strict;
    }
}

open_enum! {
    /// What a text stands for. An unknown format is only a note; version 1 is not told.
    TextFormat, default Uri, null {
        /// A mail address.
        Email = "email";
        /// A URI.
        Uri = "uri";
        /// A date.
        Date = "date";
        /// A date with a time.
        DateTime = "date-time";
    }
}

record! {
    /// One choice with a title.
    Choice {
        /// The value.
        value: String => "const", required;
        /// The label.
        title: String => "title", required;
        /// What it means.
        description: Option<String> => "description", lenient;
    }
}

record! {
    /// A number.
    NumberField {
        /// The label.
        title: Option<String> => "title", lenient;
        /// What is wanted.
        description: Option<String> => "description", lenient;
        /// The smallest.
        minimum: Option<f64> => "minimum", strict;
        /// The largest.
        maximum: Option<f64> => "maximum", strict;
        /// What it holds at first.
        default: Option<f64> => "default", lenient;
    }
}

record! {
    /// A whole number.
    IntegerField {
        /// The label.
        title: Option<String> => "title", lenient;
        /// What is wanted.
        description: Option<String> => "description", lenient;
        /// The smallest.
        minimum: Option<i64> => "minimum", strict;
        /// The largest.
        maximum: Option<i64> => "maximum", strict;
        /// What it holds at first.
        default: Option<i64> => "default", lenient;
    }
}

record! {
    /// Yes or no.
    BooleanField {
        /// The label.
        title: Option<String> => "title", lenient;
        /// What is wanted.
        description: Option<String> => "description", lenient;
        /// What it holds at first.
        default: Option<bool> => "default", lenient;
    }
}

record! {
    /// Several choices.
    ChoicesField {
        /// The label.
        title: Option<String> => "title", lenient;
        /// What is wanted.
        description: Option<String> => "description", lenient;
        /// The fewest choices.
        min_items: Option<u64> => "minItems", strict;
        /// The most choices.
        max_items: Option<u64> => "maxItems", strict;
        /// What can be chosen.
        items: ChoiceItems => "items", required;
        /// What is chosen at first.
        default: Vec<String> => "default", rare_list;
    }
}

/// What can be chosen.
#[derive(Debug, Clone, PartialEq)]
pub enum ChoiceItems {
    /// Texts.
    Plain(PlainItems),
    /// Texts with titles.
    Titled(TitledItems),
    /// Something else, kept as it came.
    Other(Unknown),
}

record! {
    /// Texts to choose from.
    PlainItems {
        /// The texts.
        choices: Vec<String> => "enum", required;
    }
}

record! {
    /// Texts with titles to choose from.
    TitledItems {
        /// The choices.
        choices: Vec<Choice> => "anyOf", required;
    }
}

impl Default for ChoiceItems {
    fn default() -> Self {
        Self::Plain(PlainItems::default())
    }
}

impl Decode for ChoiceItems {
    fn decode(json: &mut Reader<'_>) -> Result<Self, Error> {
        match union::tag(json, "type")?.as_deref() {
            None => TitledItems::decode(json).map(Self::Titled),
            Some("string") => PlainItems::decode(json).map(Self::Plain),
            Some(other) => Unknown::keep(other, json).map(Self::Other),
        }
    }
}

impl Encode for ChoiceItems {
    fn encode(&self, out: &mut Writer<'_>) {
        match self {
            Self::Plain(items) => out.tagged("{\"type\":\"string\",", items),
            Self::Titled(items) => out.object(items),
            Self::Other(unknown) => unknown.encode(out),
        }
    }
}
