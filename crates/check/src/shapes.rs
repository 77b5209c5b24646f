//! Params that are right (`rules/shapes.txt`), and what is wrong with others, key by key.

use crate::table::dialects;
use serde_json::Value;
use std::collections::HashSet;
use std::sync::LazyLock;
use tieline_schema::{Dialect, Dialects};

/// Longer params are not taken apart.
const MAX_BYTES: usize = 64 * 1024;
/// So many items of a list are looked at one by one.
const MAX_ITEMS: usize = 16;

/// One row: an example.
pub(crate) struct Shape {
    method: &'static str,
    pub dialects: Dialects,
    text: &'static str,
    params: Value,
}

static SHAPES: LazyLock<Vec<Shape>> =
    LazyLock::new(|| include_str!("../rules/shapes.txt").lines().filter_map(Shape::parse).collect());

impl Shape {
    fn parse(line: &'static str) -> Option<Self> {
        let [known, method, text] = line.split(" | ").collect::<Vec<_>>().try_into().ok()?;
        Some(Self { method, dialects: dialects(known)?, text, params: serde_json::from_str(text).ok()? })
    }
}

/// The examples of this kind of update.
pub(crate) fn updates(tag: &str) -> impl Iterator<Item = &'static Shape> {
    SHAPES.iter().filter(move |shape| shape.params["update"]["sessionUpdate"] == tag)
}

/// All that `look` finds wrong with params, which may be only the first thing at once, and params that are right.
pub(crate) fn told(method: &str, dialect: Option<Dialect>, params: &str, look: impl Fn(&str) -> Vec<String>) -> String {
    let mut wrong = look(params);
    let params: Value = serde_json::from_str(params).ok().filter(|_| params.len() <= MAX_BYTES).unwrap_or_default();
    let spoken = |shape: &&Shape| dialect.is_none_or(|dialect| shape.dialects.has(dialect));
    let of_method = || SHAPES.iter().filter(|shape| shape.method == method).filter(spoken);
    let tag = &params["update"]["sessionUpdate"];
    let alike = of_method().find(|shape| shape.params["update"]["sessionUpdate"] == *tag);
    // A key alone among others that are right is to blame for whatever is wrong then.
    let mixed = alike.map(|shape| mix(&shape.params, &params)).unwrap_or_default();
    wrong.extend(mixed.iter().flat_map(|params| look(&params.to_string())));
    let mut seen = HashSet::new();
    wrong.retain(|what| seen.insert(what.clone()));
    let right = alike.or_else(|| of_method().next()).map(|shape| format!("; right is, for example: {}", shape.text));
    format!("`{method}`: {}{}", wrong.join("; "), right.unwrap_or_default())
}

/// The first value with one key of the second in the place of its own, for each key; of objects of one type key by key again, and of
/// lists item by item.
fn mix(right: &Value, other: &Value) -> Vec<Value> {
    let (Value::Object(right), Value::Object(other)) = (right, other) else {
        let (Value::Array(right), Value::Array(other)) = (right, other) else { return vec![other.clone()] };
        let Some(first) = right.first() else { return vec![other.clone().into()] };
        let items = other.iter().take(MAX_ITEMS).enumerate();
        let alone = |(at, item)| mix(first, item).into_iter().map(move |part| (at, part));
        let among = |(at, part)| Value::from([vec![first.clone(); at], vec![part]].concat());
        return items.flat_map(alone).map(among).collect();
    };
    if right.get("type") != other.get("type") {
        return vec![other.clone().into()];
    }
    let new = other.keys().filter(|key| !right.contains_key(*key));
    let mut all = Vec::new();
    for key in right.keys().chain(new) {
        let mut whole = right.clone();
        whole.remove(key);
        match (right.get(key), other.get(key)) {
            (_, None) => all.push(whole.into()),
            (ours, Some(theirs)) => {
                for part in mix(ours.unwrap_or(&Value::Null), theirs) {
                    whole.insert(key.clone(), part);
                    all.push(whole.clone().into());
                }
            }
        }
    }
    all
}
