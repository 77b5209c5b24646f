//! A long message as several that say the same: a text in it is parted, and is never there as a whole beside them.

use std::ops::Range;

/// A longer message may be taken in parts, in bytes.
pub(crate) const MAX_WHOLE_BYTES: usize = 1 << 20;
/// Each part has so many bytes of the text, as they stand in the message.
const PART_BYTES: usize = 64 << 10;
/// A character that is written as two escapes.
const MAX_ESCAPE_BYTES: usize = 12;

/// A message whose text is taken in parts.
pub(crate) struct Parts {
    before: Vec<u8>,
    /// What is left of the text, the last byte first: what is taken of it is at the end, where a vector can give memory back.
    text: Vec<u8>,
    behind: Vec<u8>,
}

impl Parts {
    pub(crate) fn new(mut message: Vec<u8>, text: Range<usize>) -> Self {
        let behind = message.split_off(text.end);
        message.reverse();
        let mut before = message.split_off(text.len());
        before.reverse();
        Self { before, text: message, behind }
    }
}

impl Iterator for Parts {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        let mut part = self.before.clone();
        // With the longest escape behind it.
        part.extend(self.text.iter().rev().take(PART_BYTES + MAX_ESCAPE_BYTES));
        let end = end_of_part(&part[self.before.len()..], PART_BYTES);
        part.truncate(self.before.len() + end);
        part.extend_from_slice(&self.behind);
        self.text.truncate(self.text.len() - end);
        self.text.shrink_to_fit();
        (end > 0).then_some(part)
    }
}

/// Where the first part of a text in JSON ends: at most so many bytes and an escape; whole characters and whole escapes.
fn end_of_part(text: &[u8], most: usize) -> usize {
    let mut at = 0;
    while at < most {
        let here = &text[at..];
        let Some(escape) = memchr::memchr(b'\\', &here[..here.len().min(most - at)]) else { break };
        at += escape;
        at += match &text[at..] {
            // Two halves of one character.
            [b'\\', b'u', b'd' | b'D', b'8' | b'9' | b'a' | b'b' | b'A' | b'B', _, _, b'\\', b'u', ..] => {
                MAX_ESCAPE_BYTES
            }
            [b'\\', b'u', ..] => 6,
            _ => 2,
        };
    }
    let mut end = at.max(most).min(text.len());
    // Of a character that is cut all comes with the next part.
    while end > at && text.get(end).is_some_and(|byte| byte & 0xc0 == 0x80) {
        end -= 1;
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_says_the_same_in_parts() {
        for text in ["a", "line\\n", "\\\\\\\"", "é😀", "\\u0001x", "\\ud83d\\uDE00", "x\\ud83d"] {
            let whole = "x".to_owned() + &text.repeat((3 << 20) / text.len());
            let message = format!("[1, \"{whole}\", 2]");
            let parts = Parts::new(message.into_bytes(), 5..5 + whole.len()).collect::<Vec<_>>();
            assert!(parts.len() >= 12, "{text}: {}", parts.len());
            let mut said = String::new();
            for part in parts {
                assert!(part.len() < PART_BYTES + 50);
                let (_, text, _): (u8, String, u8) = read(&part);
                said += &text;
            }
            let (_, wanted, _) = read(format!("[1, \"{whole}\", 2]").as_bytes());
            assert_eq!(said, wanted, "{text}");
        }
    }

    fn read(json: &[u8]) -> (u8, String, u8) {
        let text = std::str::from_utf8(json).unwrap_or_default();
        let mut json = tieline_json::Reader::new(text);
        let read = |json: &mut tieline_json::Reader<'_>| -> Result<_, tieline_json::Error> {
            let mut array = json.array()?;
            array.item(json)?;
            let first = json.integer()?;
            array.item(json)?;
            let text = json.string()?.into_owned();
            array.item(json)?;
            Ok((first, text, json.integer()?))
        };
        read(&mut json).unwrap_or_default()
    }
}
