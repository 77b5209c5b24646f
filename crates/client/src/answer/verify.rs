//! Reads a schema before it is used: every keyword is known and has the shape it must have, every reference leads somewhere.

use super::{at, pattern};
use regex::Regex;
use serde_json::{Map, Value};
use std::collections::{HashMap, HashSet};

const TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];
/// Words about a value; they demand nothing.
const NOTES: [&str; 12] = [
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "$comment",
    "contentEncoding",
    "contentMediaType",
    "contentSchema",
    "format",
];

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
        let target = at(root, &place).ok_or_else(|| format!("there is nothing at `#{place}`"))?;
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
        let must = |what: &str| format!("`#{place}` must be {what}");
        match key {
            "type" => {
                let names = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
                let known = |name: &Value| name.as_str().is_some_and(|name| TYPES.contains(&name));
                if names.is_empty() || !names.iter().all(known) {
                    return Err(must("the name of a type, or a list of names"));
                }
            }
            "enum" if value.is_array() => {}
            "enum" => return Err(must("a list")),
            "const" => {}
            "multipleOf" if value.as_f64().is_some_and(|number| number > 0.0) => {}
            "multipleOf" => return Err(must("a number above 0")),
            "maximum" | "minimum" | "exclusiveMaximum" | "exclusiveMinimum" if value.is_number() => {}
            "maximum" | "minimum" | "exclusiveMaximum" | "exclusiveMinimum" => return Err(must("a number")),
            "maxLength" | "minLength" | "maxItems" | "minItems" | "maxProperties" | "minProperties" | "maxContains"
            | "minContains" => {
                super::check::count(value).ok_or_else(|| must("a whole number, 0 or more"))?;
            }
            "uniqueItems" if value.is_boolean() => {}
            "uniqueItems" => return Err(must("true or false")),
            "pattern" => {
                let text = value.as_str().ok_or_else(|| must("a text"))?;
                self.pattern(text, place)?;
            }
            "required" => {
                names(value).ok_or_else(|| must("a list of names"))?;
            }
            "dependentRequired" => {
                let all = value.as_object().is_some_and(|map| map.values().all(|list| names(list).is_some()));
                all.then_some(()).ok_or_else(|| must("an object with lists of names"))?;
            }
            "items" if value.is_array() => return Err(format!("`#{place}` is a list; write it as `prefixItems`")),
            "items" | "contains" | "additionalProperties" | "propertyNames" | "not" | "if" | "then" | "else" => {
                self.schema(value, place)?;
            }
            "allOf" | "anyOf" | "oneOf" | "prefixItems" => {
                let list = value.as_array().filter(|list| !list.is_empty()).ok_or_else(|| must("a list of schemas"))?;
                for (number, one) in list.iter().enumerate() {
                    self.schema(one, &format!("{place}/{number}"))?;
                }
            }
            "properties" | "patternProperties" | "dependentSchemas" | "$defs" | "definitions" => {
                let map: &Map<String, Value> = value.as_object().ok_or_else(|| must("an object"))?;
                for (name, one) in map {
                    if key == "patternProperties" {
                        self.pattern(name, place)?;
                    }
                    self.schema(one, &format!("{place}/{}", step(name)))?;
                }
            }
            "$ref" => {
                let text = value.as_str().ok_or_else(|| must("a text"))?;
                let pointer = pointer(text).ok_or_else(|| {
                    format!("`#{place}` leads out of the file (`{text}`); only `#` and `#/…` can be used here")
                })?;
                self.wanted.push(pointer);
            }
            "$schema" | "$id" if !place[1..].contains('/') => {}
            "format" => {
                let name = value.as_str().ok_or_else(|| must("a text"))?;
                if !self.formats.iter().any(|known| known == name) {
                    self.formats.push(name.to_owned());
                }
            }
            note if NOTES.contains(&note) => {}
            _ => return Err(format!("the keyword `{key}` (at `#{place}`) is not known here")),
        }
        Ok(())
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
    !matches!(key, "$ref" | "$schema" | "$id" | "$defs" | "definitions") && !NOTES.contains(&key)
}

fn names(value: &Value) -> Option<Vec<&str>> {
    value.as_array()?.iter().map(Value::as_str).collect()
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
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut rest = fragment.as_bytes();
    while let [byte, after @ ..] = rest {
        rest = after;
        if *byte == b'%' {
            let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &rest[2..];
        } else {
            bytes.push(*byte);
        }
    }
    String::from_utf8(bytes).ok()
}
