//! Secrets in text: how they are hidden, and those that no line of the log may hold, whoever writes it: libraries log what a server says, and a server may say back what it was sent.

use std::borrow::Cow;
use std::sync::Mutex;
use tieline_rpc::sync::Lock as _;

/// So many are kept; the oldest go first, as their sessions did.
const MAX_VALUES: usize = 4096;

/// A shorter value is no secret.
pub const MIN_SECRET_BYTES: usize = 4;

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
    without(line, VALUES.locked().iter())
}

/// A text in which none of these secrets can be read: whoever was given one may print it. Those that are too short to be told from
/// other words stay.
#[must_use]
pub fn without<S: AsRef<str>>(text: &str, secrets: impl IntoIterator<Item = S>) -> Cow<'_, str> {
    let is_found = |secret: &S| secret.as_ref().len() >= MIN_SECRET_BYTES && text.contains(secret.as_ref());
    let mut found: Vec<S> = secrets.into_iter().filter(is_found).collect();
    // The longest first, so that no part of one is left.
    found.sort_by_key(|secret| std::cmp::Reverse(secret.as_ref().len()));
    found.into_iter().fold(Cow::Borrowed(text), |text, secret| text.replace(secret.as_ref(), "(hidden)").into())
}
