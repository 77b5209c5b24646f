//! The frames between us and an agent, the last ones, each with what it breaks of the protocol.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Instant;
use tieline::rpc::Direction;
use tieline::rpc::sync::Lock as _;
use tieline_check::{Breach, Judge};
use tieline_client::sanitize;
use tieline_trace::Side;

/// So many frames are kept.
const MAX_FRAMES: usize = 500;
/// So much of each, in bytes.
const MAX_FRAME_BYTES: usize = 2000;

/// In a longer frame long texts are cut before it is judged, in bytes: a judge takes a frame apart, and a huge one would be there several times.
const MAX_JUDGED_BYTES: usize = 256 << 10;
/// So much of each, in bytes.
const MAX_TEXT_BYTES: usize = 4096;

/// The last frames. Secrets are taken out before they come here.
#[derive(Debug)]
pub struct Log(Mutex<(VecDeque<Frame>, Judge, usize)>, Instant);

#[derive(Debug)]
struct Frame {
    millis: u128,
    mark: &'static str,
    text: String,
    breaches: Vec<String>,
}

impl Default for Log {
    fn default() -> Self {
        Self(Mutex::default(), Instant::now())
    }
}

impl Log {
    /// Takes a frame.
    pub fn push(&self, direction: Direction, json: &str) {
        let (frames, judge, count) = &mut *self.0.locked();
        let from = if direction == Direction::In { Side::Agent } else { Side::Client };
        let found = judge.frame(from, short(json).as_bytes()).into_iter().filter(Breach::is_must);
        let breaches: Vec<String> = found.map(|breach| format!("{}: {}", breach.law, breach.said)).collect();
        *count += breaches.len();
        let mark = if direction == Direction::In { "◀" } else { "▶" };
        let text = sanitize::clipped(json, MAX_FRAME_BYTES);
        frames.push_back(Frame { millis: self.1.elapsed().as_millis(), mark, text, breaches });
        if frames.len() > MAX_FRAMES {
            frames.pop_front();
        }
    }

    /// What is shown of them: a line for each, what it breaks below it.
    pub fn lines(&self) -> Vec<String> {
        let (frames, _, count) = &*self.0.locked();
        let mut lines = vec![format!("the last {} frames; breaches of the protocol: {}", frames.len(), count)];
        for frame in frames {
            lines.push(format!("{:>8} ms {} {}", frame.millis, frame.mark, frame.text));
            lines
                .extend(frame.breaches.iter().map(|breach| format!("             ✗ {}", sanitize::exact_line(breach))));
        }
        lines
    }
}

/// The same message with the beginnings of its long texts, if it is a huge one.
fn short(json: &str) -> Cow<'_, str> {
    if json.len() <= MAX_JUDGED_BYTES {
        return json.into();
    }
    let mut out = String::new();
    // Every other part is a text: a quote that ends one has an even number of backslashes before it.
    let (mut rest, mut is_text) = (json, false);
    while !rest.is_empty() {
        let ends = |(at, _): &(usize, &str)| !is_text || backslashes(&rest[..*at]).is_multiple_of(2);
        let end = rest.match_indices('"').find(ends).map_or(rest.len(), |(at, _)| at);
        let (part, behind) = rest.split_at(end);
        let mut cut = if is_text { part.floor_char_boundary(MAX_TEXT_BYTES) } else { part.len() };
        // No escape is cut: the longest has six characters.
        let escape = part[..cut].rfind('\\').filter(|at| cut < part.len() && cut - at < 6);
        if let Some(escape) = escape.filter(|at| backslashes(&part[..=*at]) % 2 == 1) {
            cut = escape;
        }
        out.push_str(&part[..cut]);
        let quote = behind.len().min(1);
        out.push_str(&behind[..quote]);
        (rest, is_text) = (&behind[quote..], !is_text);
    }
    out.into()
}

/// So many backslashes a text ends with.
fn backslashes(text: &str) -> usize {
    text.len() - text.trim_end_matches('\\').len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn a_huge_frame_is_judged_by_the_beginnings_of_its_texts() {
        let long = ["x".repeat(300_000), "\\\"é\u{1}\n".repeat(60_000), "\\".repeat(200_000), "😀\"".repeat(70_000)];
        for text in long {
            let frame = json!({"method": "say", "params": {"text": text, "more": ["a\"b\\", text, 7]}}).to_string();
            let cut = short(&frame);
            assert!(cut.len() < 10_000, "{}", cut.len());
            let value: Value = serde_json::from_str(&cut).unwrap_or_default();
            let begins = |value: &Value| value.as_str().is_some_and(|cut| !cut.is_empty() && text.starts_with(cut));
            assert!(begins(&value["params"]["text"]) && begins(&value["params"]["more"][1]), "{value}");
            assert_eq!((&value["method"], &value["params"]["more"][0]), (&json!("say"), &json!("a\"b\\")));
        }
        assert!(matches!(short("{\"a\": \"short\"}"), Cow::Borrowed(_)));
    }
}
