//! Checks a value against a schema that was read before: one keyword after the other.

use super::{Misfit, Schema};
use crate::answer::verify::pointer;
use serde_json::{Map, Number, Value};
use std::cmp::Ordering;
use tieline_host::text::cut;

/// How much of a place, or of what is wrong there, is told.
const MAX_TOLD_CHARS: usize = 300;
/// References that lead in a circle end here, long before the stack does.
const MAX_DEPTH: u32 = 300;
/// A check that takes more steps is given up.
const MAX_STEPS: u64 = 20_000_000;

type Fits = Result<(), Misfit>;

pub(super) fn check(schema: &Schema, value: &Value) -> Fits {
    let mut work = Work { schema, place: Vec::new(), depth: 0, steps: 0 };
    let fits = work.fits(&schema.root, value);
    // Whatever was found before, it was not all.
    if work.is_too_much() { Err(Misfit { place: String::new(), why: TOO_MUCH.into() }) } else { fits }
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

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn map(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

impl<'s> Work<'s> {
    fn misfit<T>(&self, why: impl Into<String>) -> Result<T, Misfit> {
        let place = self.place.iter().fold(String::new(), |place, step| place + "/" + step);
        Err(Misfit { place: cut(&place, MAX_TOLD_CHARS), why: cut(&why.into(), MAX_TOLD_CHARS) })
    }

    /// A misfit unless all is well.
    fn must(&self, is_well: bool, why: impl FnOnce() -> String) -> Fits {
        if is_well { Ok(()) } else { self.misfit(why()) }
    }

    fn is_too_much(&self) -> bool {
        self.steps > MAX_STEPS || self.depth > MAX_DEPTH
    }

    fn fits(&mut self, schema: &'s Value, value: &Value) -> Fits {
        self.depth += 1;
        self.steps += 1;
        if self.is_too_much() {
            // The depth stays, so that everything above gives up, too.
            return self.misfit(TOO_MUCH);
        }
        let fits = match schema {
            Value::Bool(false) => self.misfit("must not be there"),
            Value::Object(keywords) => {
                keywords.iter().try_for_each(|(key, demand)| self.keyword(key, demand, keywords, value))
            }
            _ => Ok(()),
        };
        if self.depth <= MAX_DEPTH {
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

    /// How many of the schemas a value fits.
    fn fitting(&mut self, schemas: &'s Value, value: &Value) -> usize {
        list(schemas).iter().filter(|schema| self.fits(schema, value).is_ok()).count()
    }

    /// What one keyword demands of a value. Most are about values of one type, and others are as they like.
    fn keyword(&mut self, key: &str, demand: &'s Value, beside: &'s Map<String, Value>, value: &Value) -> Fits {
        match (key, value) {
            ("$ref", _) => match demand.as_str().and_then(pointer).and_then(|place| self.schema.root.pointer(&place)) {
                Some(target) => self.fits(target, value),
                None => Ok(()),
            },
            ("type", _) => {
                let names: Vec<&str> = demand.as_str().into_iter().chain(texts(demand)).collect();
                let why = || format!("is of the type {}, must be {}", type_of(value), names.join(" or "));
                self.must(names.iter().any(|name| is_a(value, name)), why)
            }
            ("enum", _) => {
                let found = list(demand).iter().any(|choice| same(choice, value));
                self.must(found, || format!("must be one of {demand}"))
            }
            ("const", _) => self.must(same(demand, value), || format!("must be {demand}")),
            ("maximum", Value::Number(is)) => self.bound(is, demand, "at most", Ordering::is_le),
            ("minimum", Value::Number(is)) => self.bound(is, demand, "at least", Ordering::is_ge),
            ("exclusiveMaximum", Value::Number(is)) => self.bound(is, demand, "less than", Ordering::is_lt),
            ("exclusiveMinimum", Value::Number(is)) => self.bound(is, demand, "more than", Ordering::is_gt),
            ("multipleOf", Value::Number(is)) => {
                let fits = demand.as_number().is_none_or(|step| is_multiple(is, step));
                self.must(fits, || format!("is {is}, must be a multiple of {demand}"))
            }
            ("minLength" | "maxLength", Value::String(text)) => {
                self.many(key, demand, text.chars().count(), "characters")
            }
            ("minItems" | "maxItems", Value::Array(items)) => self.many(key, demand, items.len(), "items"),
            ("minProperties" | "maxProperties", Value::Object(members)) => {
                self.many(key, demand, members.len(), "members")
            }
            ("pattern", Value::String(text)) => {
                let pattern = demand.as_str().unwrap_or_default();
                self.must(self.matches(pattern, text), || format!("does not match `{pattern}`"))
            }
            ("allOf", _) => list(demand).iter().try_for_each(|schema| self.fits(schema, value)),
            ("anyOf", _) => {
                let mut last = Ok(());
                let found = list(demand).iter().any(|schema| {
                    last = self.fits(schema, value);
                    last.is_ok()
                });
                match last {
                    Err(misfit) if !found => {
                        let many = list(demand).len();
                        self.misfit(format!("fits none of the {many} in `anyOf` (the last: {misfit})"))
                    }
                    _ => Ok(()),
                }
            }
            ("oneOf", _) => {
                let (fitting, many) = (self.fitting(demand, value), list(demand).len());
                self.must(fitting == 1, || format!("fits {fitting} of the {many} in `oneOf`, must fit one"))
            }
            ("not", _) => {
                let fits = self.fits(demand, value).is_ok();
                self.must(!fits, || "fits what it must not (`not`)".to_owned())
            }
            ("if", _) => {
                let way = if self.fits(demand, value).is_ok() { "then" } else { "else" };
                beside.get(way).map_or(Ok(()), |schema| self.fits(schema, value))
            }
            _ => self.parts(key, demand, beside, value),
        }
    }

    /// The same for keywords about the parts of a value.
    fn parts(&mut self, key: &str, demand: &'s Value, beside: &'s Map<String, Value>, value: &Value) -> Fits {
        match (key, value) {
            ("prefixItems", Value::Array(items)) => {
                let mut pairs = list(demand).iter().zip(items).enumerate();
                pairs.try_for_each(|(number, (schema, item))| self.inside(number.to_string(), schema, item))
            }
            ("items", Value::Array(items)) => {
                let first = beside.get("prefixItems").map_or(0, |first| list(first).len());
                let mut rest = items.iter().enumerate().skip(first);
                rest.try_for_each(|(number, item)| self.inside(number.to_string(), demand, item))
            }
            ("uniqueItems", Value::Array(items)) if *demand == Value::Bool(true) => self.unique(items),
            ("contains", Value::Array(items)) => {
                let fitting = items.iter().filter(|item| self.fits(demand, item).is_ok()).count() as u64;
                let of = |key| beside.get(key).and_then(count);
                let wanted = of("minContains").unwrap_or(1)..=of("maxContains").unwrap_or(u64::MAX);
                self.must(wanted.contains(&fitting), || format!("has {fitting} items that fit `contains`"))
            }
            ("required", Value::Object(members)) => match lacking(demand, members) {
                Some(name) => self.misfit(format!("lacks `{name}`")),
                None => Ok(()),
            },
            ("dependentRequired", Value::Object(members)) => {
                let lacks = |(name, needed): (&'s String, &'s Value)| Some((name, lacking(needed, members)?));
                match map(demand).filter(|(name, _)| members.contains_key(*name)).find_map(lacks) {
                    Some((name, lacking)) => self.misfit(format!("has `{name}` and lacks `{lacking}`")),
                    None => Ok(()),
                }
            }
            ("dependentSchemas", Value::Object(members)) => {
                let mut there = map(demand).filter(|(name, _)| members.contains_key(*name));
                there.try_for_each(|(_, schema)| self.fits(schema, value))
            }
            ("properties", Value::Object(members)) => {
                let mut named = map(demand).filter_map(|(name, schema)| Some((name, schema, members.get(name)?)));
                named.try_for_each(|(name, schema, member)| self.inside(name, schema, member))
            }
            ("patternProperties", Value::Object(members)) => members.iter().try_for_each(|(name, member)| {
                let named: Vec<_> = map(demand).filter(|(pattern, _)| self.matches(pattern, name)).collect();
                named.into_iter().try_for_each(|(_, schema)| self.inside(name, schema, member))
            }),
            ("additionalProperties", Value::Object(members)) => members.iter().try_for_each(|(name, member)| {
                let named = beside.get("properties").is_some_and(|named| named.get(name).is_some());
                let mut patterns = beside.get("patternProperties").into_iter().flat_map(map);
                let known = named || patterns.any(|(pattern, _)| self.matches(pattern, name));
                if known { Ok(()) } else { self.inside(name, demand, member) }
            }),
            ("propertyNames", Value::Object(members)) => {
                members.keys().try_for_each(|name| self.inside(name, demand, &Value::from(name.as_str())))
            }
            _ => Ok(()),
        }
    }

    fn bound(&self, is: &Number, demand: &Value, words: &str, fits: fn(Ordering) -> bool) -> Fits {
        let within = demand.as_number().is_none_or(|limit| fits(compare(is, limit)));
        self.must(within, || format!("is {is}, must be {words} {demand}"))
    }

    /// Checks how many there are.
    fn many(&self, key: &str, demand: &Value, there: usize, what: &str) -> Fits {
        let (there, limit) = (there as u64, count(demand).unwrap_or_default());
        let (fits, words) = if key.starts_with("min") { (there >= limit, "least") } else { (there <= limit, "most") };
        self.must(fits, || format!("has {there} {what}, must have at {words} {limit}"))
    }

    fn matches(&self, pattern: &str, text: &str) -> bool {
        self.schema.patterns.get(pattern).is_some_and(|regex| regex.is_match(text))
    }

    fn unique(&mut self, items: &[Value]) -> Fits {
        for (number, item) in items.iter().enumerate() {
            self.steps = self.steps.saturating_add(number as u64);
            if self.is_too_much() {
                return self.misfit(TOO_MUCH);
            }
            if let Some(before) = items[..number].iter().position(|before| same(before, item)) {
                return self.misfit(format!("has the same item twice, at {before} and {number}"));
            }
        }
        Ok(())
    }
}

fn texts(value: &Value) -> impl Iterator<Item = &str> {
    list(value).iter().filter_map(Value::as_str)
}

/// The first of the names that is not there.
fn lacking<'n>(names: &'n Value, members: &Map<String, Value>) -> Option<&'n str> {
    texts(names).find(|name| !members.contains_key(*name))
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
