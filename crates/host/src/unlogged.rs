//! Values that no line of the log may hold, whoever writes it: libraries log what a server says, and a server may say back what it was sent.

use std::borrow::Cow;
use std::sync::Mutex;
use tieline_rpc::sync::Lock as _;

/// So many are kept; the oldest go first, as their sessions did.
const MAX_VALUES: usize = 4096;

static VALUES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// From now on none of these is in a line of the log, neither as it is nor as it is printed between quotes.
pub fn keep_out<'a>(values: impl IntoIterator<Item = &'a str>) {
    let mut known = VALUES.locked();
    for value in values {
        for form in [value.to_owned(), value.escape_debug().to_string()] {
            if !known.contains(&form) {
                known.push(form);
            }
        }
    }
    let above = known.len().saturating_sub(MAX_VALUES);
    known.drain(..above);
}

/// A line without them.
#[must_use]
pub fn masked(line: &str) -> Cow<'_, str> {
    let known = VALUES.locked();
    let mut found: Vec<&String> = known.iter().filter(|value| line.contains(value.as_str())).collect();
    // The longest first, so that no part of one is left.
    found.sort_by_key(|value| std::cmp::Reverse(value.len()));
    found.into_iter().fold(Cow::Borrowed(line), |line, value| line.replace(value.as_str(), "(hidden)").into())
}
