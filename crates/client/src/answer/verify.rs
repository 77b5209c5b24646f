//! Reads a schema before it is used: every keyword is known and has the shape it must have, every reference leads somewhere.

use super::check::count;
use super::pattern;
use regex::Regex;
use serde_json::Value;
use std::collections::{HashMap, HashSet};

const TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];

/// What a keyword must be.
#[derive(Clone, Copy, PartialEq)]
enum Shape {
    /// Words about a value; they demand nothing.
    Note,
    /// For the whole schema, at its top.
    Top,
    /// Schemas that references lead to.
    Definitions,
    Reference,
    Format,
    Any,
    Bool,
    Types,
    List,
    Number,
    Positive,
    Count,
    Pattern,
    Names,
    NamesByName,
    Schema,
    Schemas,
    SchemasByName,
    SchemasByPattern,
}

/// Every keyword that is known.
const KEYWORDS: &[(Shape, &[&str])] = &[
    (Shape::Note, &["title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment"]),
    (Shape::Note, &["contentEncoding", "contentMediaType", "contentSchema"]),
    (Shape::Top, &["$schema", "$id"]),
    (Shape::Definitions, &["$defs", "definitions"]),
    (Shape::Reference, &["$ref"]),
    (Shape::Format, &["format"]),
    (Shape::Any, &["const"]),
    (Shape::Bool, &["uniqueItems"]),
    (Shape::Types, &["type"]),
    (Shape::List, &["enum"]),
    (Shape::Number, &["maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum"]),
    (Shape::Positive, &["multipleOf"]),
    (Shape::Count, &["maxLength", "minLength", "maxItems", "minItems", "maxContains", "minContains"]),
    (Shape::Count, &["maxProperties", "minProperties"]),
    (Shape::Pattern, &["pattern"]),
    (Shape::Names, &["required"]),
    (Shape::NamesByName, &["dependentRequired"]),
    (Shape::Schema, &["items", "contains", "additionalProperties", "propertyNames", "not", "if", "then", "else"]),
    (Shape::Schemas, &["allOf", "anyOf", "oneOf", "prefixItems"]),
    (Shape::SchemasByName, &["properties", "dependentSchemas"]),
    (Shape::SchemasByPattern, &["patternProperties"]),
];

fn shape_of(key: &str) -> Option<Shape> {
    KEYWORDS.iter().find(|(_, keys)| keys.contains(&key)).map(|(shape, _)| *shape)
}

/// What was found while a schema was read.
#[derive(Default)]
pub(super) struct Verified {
    pub(super) patterns: HashMap<String, Regex>,
    pub(super) formats: Vec<String>,
    /// The places that were read.
    places: HashSet<String>,
    /// The places that references lead to.
    wanted: Vec<String>,
    /// In older drafts a reference stands alone.
    alone: bool,
}

pub(super) fn verify(root: &Value) -> Result<Verified, String> {
    let mut verified = Verified::default();
    if let Some(draft) = root.get("$schema") {
        verified.alone = draft_of(draft)?;
    }
    verified.schema(root, "")?;
    while let Some(place) = verified.wanted.pop() {
        let target = root.pointer(&place).ok_or_else(|| format!("there is nothing at `#{place}`"))?;
        if !verified.places.contains(&place) {
            verified.schema(target, &place)?;
        }
    }
    Ok(verified)
}

/// Whether a reference stands alone in this draft.
fn draft_of(draft: &Value) -> Result<bool, String> {
    let name = draft.as_str().unwrap_or_default().trim_end_matches('#');
    match name {
        "https://json-schema.org/draft/2020-12/schema" | "https://json-schema.org/draft/2019-09/schema" => Ok(false),
        "http://json-schema.org/draft-07/schema" | "http://json-schema.org/draft-06/schema" => Ok(true),
        _ => Err(format!("the draft {draft} is not known here; 2020-12, 2019-09, 07 and 06 are")),
    }
}

impl Verified {
    fn schema(&mut self, schema: &Value, place: &str) -> Result<(), String> {
        self.places.insert(place.to_owned());
        match schema {
            Value::Bool(_) => Ok(()),
            Value::Object(keywords) => {
                if self.alone && keywords.contains_key("$ref") && keywords.keys().any(|key| is_demand(key)) {
                    return Err(format!("`$ref` at `#{place}` stands beside others, which this draft passes over"));
                }
                keywords.iter().try_for_each(|(key, value)| self.keyword(key, value, &format!("{place}/{}", step(key))))
            }
            _ => Err(format!("`#{place}` must be a schema: an object, true or false")),
        }
    }

    fn keyword(&mut self, key: &str, value: &Value, place: &str) -> Result<(), String> {
        let must = |fits: bool, what: &str| if fits { Ok(()) } else { Err(format!("`#{place}` must be {what}")) };
        let text = || value.as_str().ok_or_else(|| format!("`#{place}` must be a text"));
        match shape_of(key) {
            Some(Shape::Note | Shape::Any) => Ok(()),
            Some(Shape::Top) if !place[1..].contains('/') => Ok(()),
            None | Some(Shape::Top) => Err(format!("the keyword `{key}` (at `#{place}`) is not known here")),
            Some(Shape::Bool) => must(value.is_boolean(), "true or false"),
            Some(Shape::Types) => {
                let names = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
                let known = |name: &Value| name.as_str().is_some_and(|name| TYPES.contains(&name));
                must(!names.is_empty() && names.iter().all(known), "the name of a type, or a list of names")
            }
            Some(Shape::List) => must(value.is_array(), "a list"),
            Some(Shape::Number) => must(value.is_number(), "a number"),
            Some(Shape::Positive) => must(value.as_f64().is_some_and(|number| number > 0.0), "a number above 0"),
            Some(Shape::Count) => must(count(value).is_some(), "a whole number, 0 or more"),
            Some(Shape::Pattern) => self.pattern(text()?, place),
            Some(Shape::Names) => must(are_names(value), "a list of names"),
            Some(Shape::NamesByName) => {
                let fits = value.as_object().is_some_and(|map| map.values().all(are_names));
                must(fits, "an object with lists of names")
            }
            Some(Shape::Schema) if key == "items" && value.is_array() => {
                Err(format!("`#{place}` is a list; write it as `prefixItems`"))
            }
            Some(Shape::Schema) => self.schema(value, place),
            Some(Shape::Schemas) => {
                let list = value.as_array().map_or(&[][..], Vec::as_slice);
                must(!list.is_empty(), "a list of schemas")?;
                let mut list = list.iter().enumerate();
                list.try_for_each(|(number, one)| self.schema(one, &format!("{place}/{number}")))
            }
            Some(shape @ (Shape::SchemasByName | Shape::SchemasByPattern | Shape::Definitions)) => {
                must(value.is_object(), "an object")?;
                for (name, one) in value.as_object().into_iter().flatten() {
                    if shape == Shape::SchemasByPattern {
                        self.pattern(name, place)?;
                    }
                    self.schema(one, &format!("{place}/{}", step(name)))?;
                }
                Ok(())
            }
            Some(Shape::Reference) => {
                let text = text()?;
                let pointer = pointer(text).ok_or_else(|| {
                    format!("`#{place}` leads out of the file (`{text}`); only `#` and `#/…` can be used here")
                })?;
                self.wanted.push(pointer);
                Ok(())
            }
            Some(Shape::Format) => {
                let name = text()?;
                if !self.formats.iter().any(|known| known == name) {
                    self.formats.push(name.to_owned());
                }
                Ok(())
            }
        }
    }

    fn pattern(&mut self, text: &str, place: &str) -> Result<(), String> {
        if !self.patterns.contains_key(text) {
            let regex = pattern::compile(text).map_err(|why| format!("the pattern `{text}` at `#{place}`: {why}"))?;
            self.patterns.insert(text.to_owned(), regex);
        }
        Ok(())
    }
}

/// True for keywords that demand something beside a reference.
fn is_demand(key: &str) -> bool {
    use Shape::{Definitions, Format, Note, Reference, Top};
    !matches!(shape_of(key), Some(Definitions | Format | Note | Reference | Top))
}

fn are_names(value: &Value) -> bool {
    value.as_array().is_some_and(|names| names.iter().all(Value::is_string))
}

/// A name as a step of a JSON pointer.
fn step(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// The JSON pointer of a reference within the file.
pub(super) fn pointer(reference: &str) -> Option<String> {
    let fragment = reference.strip_prefix('#')?;
    if !(fragment.is_empty() || fragment.starts_with('/')) {
        return None;
    }
    percent_encoding::percent_decode_str(fragment).decode_utf8().ok().map(std::borrow::Cow::into_owned)
}
