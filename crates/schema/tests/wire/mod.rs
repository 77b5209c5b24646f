//! What the codec tests share: read a text, write it for a dialect, compare as JSON.
#![allow(dead_code, reason = "each test file uses a part")]

use serde_json::Value;
use tieline_schema::{Decode, Dialect, Encode, from_json, from_json_strict, to_json};

/// Parses JSON for comparison.
pub fn value(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in {text}"))
}

/// Reads or fails the test.
pub fn read<T: Decode>(text: &str) -> T {
    from_json(text).unwrap_or_else(|error| panic!("{error} in {text}"))
}

/// Reads `text` and expects it to be written as `expect`.
#[track_caller]
pub fn check<T: Decode + Encode>(text: &str, dialect: Dialect, expect: &str) {
    let written = to_json(&read::<T>(text), dialect);
    assert_eq!(value(&written), value(expect), "{text} in {dialect}");
}

/// Expects `text` to be written unchanged.
#[track_caller]
pub fn same<T: Decode + Encode>(text: &str, dialects: &[Dialect]) {
    for dialect in dialects {
        check::<T>(text, *dialect, text);
    }
}

/// Expects that reading fails at `path`.
#[track_caller]
pub fn refuse<T: Decode + std::fmt::Debug>(text: &str, path: &str) {
    match from_json::<T>(text) {
        Ok(value) => panic!("{text} was read as {value:?}"),
        Err(error) => assert_eq!(error.path(), path, "{error} in {text}"),
    }
}

/// Expects that a strict reader notes exactly these places.
#[track_caller]
pub fn deviates<T: Decode>(text: &str, paths: &[&str]) {
    let (_, deviations) = from_json_strict::<T>(text, None).unwrap_or_else(|error| panic!("{error} in {text}"));
    let found: Vec<String> = deviations.iter().map(tieline_schema::Error::path).collect();
    assert_eq!(found, paths, "{text}");
}
