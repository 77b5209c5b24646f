//! Checks a value against a schema that was read before.

use super::verify::pointer;
use super::{Misfit, Schema, at};
use serde_json::{Map, Number, Value};
use tieline_host::text::cut;

/// How much of a place, or of what is wrong there, is told.
const MAX_TOLD_CHARS: usize = 300;

/// References that lead in a circle end here, long before the stack does.
const DEPTH: u32 = 300;
/// A check that takes more steps is given up.
const STEPS: u64 = 20_000_000;

type Fits = Result<(), Misfit>;

pub(super) fn check(schema: &Schema, value: &Value) -> Fits {
    let mut work = Work { schema, place: Vec::new(), depth: 0, steps: 0 };
    let fits = work.fits(&schema.root, value);
    // Whatever was found before, it was not all.
    if work.steps > STEPS || work.depth > DEPTH {
        Err(Misfit { place: String::new(), why: TOO_MUCH.into() })
    } else {
        fits
    }
}

const TOO_MUCH: &str = "can't be checked: that goes too deep, or takes too long";

struct Work<'s> {
    schema: &'s Schema,
    /// Where we are in the value.
    place: Vec<String>,
    depth: u32,
    steps: u64,
}

/// A number of things. `2.0` is one, too.
pub(super) fn count(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| {
        let number = value.as_f64().filter(|number| number.fract() == 0.0 && (0.0..9e15).contains(number))?;
        format!("{number:.0}").parse().ok()
    })
}

impl<'s> Work<'s> {
    fn misfit<T>(&self, why: impl Into<String>) -> Result<T, Misfit> {
        let place = self.place.iter().fold(String::new(), |place, step| place + "/" + step);
        Err(Misfit { place: cut(&place, MAX_TOLD_CHARS), why: cut(&why.into(), MAX_TOLD_CHARS) })
    }

    /// True if the work is too much.
    fn step(&mut self, more: u64) -> bool {
        self.steps = self.steps.saturating_add(more);
        self.steps > STEPS || self.depth > DEPTH
    }

    fn fits(&mut self, schema: &'s Value, value: &Value) -> Fits {
        self.depth += 1;
        if self.step(1) {
            // The depth stays, so that everything above gives up, too.
            return self.misfit(TOO_MUCH);
        }
        let fits = match schema {
            Value::Bool(false) => self.misfit("must not be there"),
            Value::Object(keywords) => self.object(keywords, value),
            _ => Ok(()),
        };
        if self.depth <= DEPTH {
            self.depth -= 1;
        }
        fits
    }

    fn inside(&mut self, step: impl Into<String>, schema: &'s Value, value: &Value) -> Fits {
        self.place.push(step.into());
        let fits = self.fits(schema, value);
        self.place.pop();
        fits
    }

    fn object(&mut self, keywords: &'s Map<String, Value>, value: &Value) -> Fits {
        if let Some(target) = keywords.get("$ref").and_then(Value::as_str)
            && let Some(target) = pointer(target).and_then(|pointer| at(&self.schema.root, &pointer))
        {
            self.fits(target, value)?;
        }
        self.any_value(keywords, value)?;
        match value {
            Value::Number(number) => self.number(keywords, number)?,
            Value::String(text) => self.text(keywords, text)?,
            Value::Array(items) => self.list(keywords, items)?,
            Value::Object(members) => self.members(keywords, members, value)?,
            Value::Null | Value::Bool(_) => {}
        }
        self.several(keywords, value)
    }

    fn any_value(&mut self, keywords: &Map<String, Value>, value: &Value) -> Fits {
        if let Some(types) = keywords.get("type") {
            let names = types.as_array().map_or(std::slice::from_ref(types), Vec::as_slice);
            if !names.iter().filter_map(Value::as_str).any(|name| is_a(value, name)) {
                let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
                return self.misfit(format!("is of the type {}, must be {}", type_of(value), names.join(" or ")));
            }
        }
        if let Some(Value::Array(choices)) = keywords.get("enum")
            && !choices.iter().any(|choice| same(choice, value))
        {
            return self.misfit(format!("must be one of {}", Value::from(choices.clone())));
        }
        match keywords.get("const") {
            Some(only) if !same(only, value) => self.misfit(format!("must be {only}")),
            _ => Ok(()),
        }
    }

    fn number(&mut self, keywords: &Map<String, Value>, number: &Number) -> Fits {
        use std::cmp::Ordering::{Greater, Less};
        let of = |key: &str| keywords.get(key).and_then(Value::as_number);
        for (key, words, wrong) in [
            ("maximum", "at most", &[Greater][..]),
            ("minimum", "at least", &[Less]),
            ("exclusiveMaximum", "less than", &[Greater, std::cmp::Ordering::Equal]),
            ("exclusiveMinimum", "more than", &[Less, std::cmp::Ordering::Equal]),
        ] {
            if let Some(limit) = of(key)
                && wrong.contains(&compare(number, limit))
            {
                return self.misfit(format!("is {number}, must be {words} {limit}"));
            }
        }
        match of("multipleOf") {
            Some(step) if !is_multiple(number, step) => {
                self.misfit(format!("is {number}, must be a multiple of {step}"))
            }
            _ => Ok(()),
        }
    }

    fn text(&mut self, keywords: &Map<String, Value>, text: &str) -> Fits {
        self.many(keywords, ["minLength", "maxLength"], "characters", || text.chars().count())?;
        match keywords.get("pattern").and_then(Value::as_str) {
            Some(pattern) if !self.matches(pattern, text) => self.misfit(format!("does not match `{pattern}`")),
            _ => Ok(()),
        }
    }

    /// Checks how many there are.
    fn many(
        &self,
        keywords: &Map<String, Value>,
        [least, most]: [&str; 2],
        what: &str,
        there: impl Fn() -> usize,
    ) -> Fits {
        let of = |key| keywords.get(key).and_then(count);
        let (least, most) = (of(least), of(most));
        if least.is_none() && most.is_none() {
            return Ok(());
        }
        let there = there() as u64;
        if let Some(least) = least.filter(|least| there < *least) {
            return self.misfit(format!("has {there} {what}, must have at least {least}"));
        }
        match most.filter(|most| there > *most) {
            Some(most) => self.misfit(format!("has {there} {what}, must have at most {most}")),
            None => Ok(()),
        }
    }

    fn matches(&self, pattern: &str, text: &str) -> bool {
        self.schema.patterns.get(pattern).is_some_and(|regex| regex.is_match(text))
    }

    fn list(&mut self, keywords: &'s Map<String, Value>, items: &[Value]) -> Fits {
        self.many(keywords, ["minItems", "maxItems"], "items", || items.len())?;
        let first = keywords.get("prefixItems").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        for (number, item) in items.iter().enumerate() {
            if let Some(schema) = first.get(number).or_else(|| keywords.get("items")) {
                self.inside(number.to_string(), schema, item)?;
            }
        }
        if keywords.get("uniqueItems") == Some(&Value::Bool(true)) {
            for (number, item) in items.iter().enumerate() {
                if self.step(number as u64) {
                    return self.misfit(TOO_MUCH);
                }
                if let Some(before) = items[..number].iter().position(|before| same(before, item)) {
                    return self.misfit(format!("has the same item twice, at {before} and {number}"));
                }
            }
        }
        if let Some(schema) = keywords.get("contains") {
            let fitting = items.iter().filter(|item| self.fits(schema, item).is_ok()).count() as u64;
            let of = |key| keywords.get(key).and_then(count);
            let (least, most) = (of("minContains").unwrap_or(1), of("maxContains").unwrap_or(u64::MAX));
            if fitting < least || fitting > most {
                return self.misfit(format!("has {fitting} items that fit `contains`"));
            }
        }
        Ok(())
    }

    fn members(&mut self, keywords: &'s Map<String, Value>, members: &Map<String, Value>, value: &Value) -> Fits {
        self.many(keywords, ["minProperties", "maxProperties"], "members", || members.len())?;
        let missing = |names: &Value| {
            let names = names.as_array().into_iter().flatten().filter_map(Value::as_str);
            names.filter(|name| !members.contains_key(*name)).map(str::to_owned).next()
        };
        if let Some(name) = keywords.get("required").and_then(missing) {
            return self.misfit(format!("lacks `{name}`"));
        }
        for (name, needed) in keywords.get("dependentRequired").and_then(Value::as_object).into_iter().flatten() {
            if let Some(lacking) = missing(needed).filter(|_| members.contains_key(name)) {
                return self.misfit(format!("has `{name}` and lacks `{lacking}`"));
            }
        }
        for (name, schema) in keywords.get("dependentSchemas").and_then(Value::as_object).into_iter().flatten() {
            if members.contains_key(name) {
                self.fits(schema, value)?;
            }
        }
        let map = |key: &str| keywords.get(key).and_then(Value::as_object);
        let (named, patterned) = (map("properties"), map("patternProperties"));
        for (name, member) in members {
            if let Some(schema) = keywords.get("propertyNames") {
                self.inside(name, schema, &Value::from(name.as_str()))?;
            }
            let mut known = false;
            if let Some(schema) = named.and_then(|named| named.get(name)) {
                known = true;
                self.inside(name, schema, member)?;
            }
            for (pattern, schema) in patterned.into_iter().flatten() {
                if self.matches(pattern, name) {
                    known = true;
                    self.inside(name, schema, member)?;
                }
            }
            if let Some(schema) = keywords.get("additionalProperties").filter(|_| !known) {
                self.inside(name, schema, member)?;
            }
        }
        Ok(())
    }

    fn several(&mut self, keywords: &'s Map<String, Value>, value: &Value) -> Fits {
        let list = |key: &str| keywords.get(key).and_then(Value::as_array);
        for schema in list("allOf").into_iter().flatten() {
            self.fits(schema, value)?;
        }
        if let Some(schemas) = list("anyOf") {
            let mut found = Ok(());
            for schema in schemas {
                found = self.fits(schema, value);
                if found.is_ok() {
                    break;
                }
            }
            if let Err(misfit) = found {
                return self.misfit(format!("fits none of the {} in `anyOf` (the last: {misfit})", schemas.len()));
            }
        }
        if let Some(schemas) = list("oneOf") {
            let fitting = schemas.iter().filter(|schema| self.fits(schema, value).is_ok()).count();
            if fitting != 1 {
                return self.misfit(format!("fits {fitting} of the {} in `oneOf`, must fit one", schemas.len()));
            }
        }
        if let Some(schema) = keywords.get("not")
            && self.fits(schema, value).is_ok()
        {
            return self.misfit("fits what it must not (`not`)");
        }
        if let Some(condition) = keywords.get("if") {
            let way = if self.fits(condition, value).is_ok() { "then" } else { "else" };
            if let Some(schema) = keywords.get(way) {
                self.fits(schema, value)?;
            }
        }
        Ok(())
    }
}

fn is_a(value: &Value, name: &str) -> bool {
    match name {
        "integer" => value.as_number().is_some_and(is_whole),
        "number" => value.is_number(),
        name => type_of(value) == name,
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn is_whole(number: &Number) -> bool {
    whole(number).is_some() || number.as_f64().is_some_and(|number| number.fract() == 0.0)
}

/// The number, if it is written as a whole one.
fn whole(number: &Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}

fn compare(one: &Number, other: &Number) -> std::cmp::Ordering {
    match (whole(one), whole(other)) {
        (Some(one), Some(other)) => one.cmp(&other),
        _ => one.as_f64().partial_cmp(&other.as_f64()).unwrap_or(std::cmp::Ordering::Equal),
    }
}

fn is_multiple(number: &Number, step: &Number) -> bool {
    if let (Some(number), Some(step)) = (whole(number), whole(step)) {
        return number % step == 0;
    }
    let (number, step) = (number.as_f64().unwrap_or_default(), step.as_f64().unwrap_or(1.0));
    let times = number / step;
    // Beyond this every quotient looks whole.
    if times.abs() < 9e15 { times.fract() == 0.0 } else { number % step == 0.0 }
}

/// True if two values are the same; `1` and `1.0` are.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => compare(one, other).is_eq(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(key, value)| other.get(key).is_some_and(|other| same(value, other)))
        }
        _ => one == other,
    }
}
