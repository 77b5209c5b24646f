//! The end of an output that may be endless, readable from any position by any number of readers.

use std::collections::VecDeque;
use std::fmt;

/// A stretch of a command's output.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Output {
    /// The text. What is not UTF-8 is replaced.
    pub text: String,
    /// So many bytes before it were asked for, but are not kept any more.
    pub dropped: u64,
    /// So many lines of the whole output ended before the text, if something is missing.
    pub dropped_lines: u64,
    /// Where to read on.
    pub next: u64,
}

impl fmt::Display for Output {
    /// The text; if something before it is missing, it says so first.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.dropped > 0 {
            writeln!(f, "[… {} bytes, {} lines left out …]", self.dropped, self.dropped_lines)?;
        }
        f.write_str(&self.text)
    }
}

/// Keeps the last bytes.
#[derive(Debug)]
pub(crate) struct Ring {
    bytes: VecDeque<u8>,
    /// How many bytes there were before those kept.
    before: u64,
    /// How many lines ended in them.
    lines_before: u64,
    limit: usize,
    over: bool,
}

impl Ring {
    pub(crate) fn new(limit: usize) -> Self {
        Self { bytes: VecDeque::new(), before: 0, lines_before: 0, limit, over: false }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let kept = &bytes[bytes.len().saturating_sub(self.limit)..];
        let drop = (self.bytes.len() + kept.len()).saturating_sub(self.limit);
        let ends = |byte: &u8| *byte == b'\n';
        let gone = self.bytes.drain(..drop).filter(ends).count();
        let passed = bytes[..bytes.len() - kept.len()].iter().filter(|byte| ends(byte)).count();
        self.lines_before += (gone + passed) as u64;
        self.bytes.extend(kept);
        self.before += (drop + bytes.len() - kept.len()) as u64;
    }

    /// There will be no more.
    pub(crate) fn close(&mut self) {
        self.over = true;
    }

    /// How many bytes there were in all.
    pub(crate) fn total(&self) -> u64 {
        self.before + self.bytes.len() as u64
    }

    /// What there is from a position on. A character that is not complete yet waits; one that was cut is left out.
    pub(crate) fn read(&self, from: u64) -> Output {
        let mut start = from.saturating_sub(self.before).min(self.bytes.len() as u64) as usize;
        if from < self.before {
            let is_rest = |at: usize| self.bytes.get(at).is_some_and(|byte| byte & 0xc0 == 0x80);
            start = (0..4).find(|at| !is_rest(*at)).unwrap_or(0);
        }
        let mut bytes: Vec<u8> = self.bytes.range(start..).copied().collect();
        if !self.over {
            bytes.truncate(bytes.len() - unfinished(&bytes));
        }
        let at = self.before + start as u64;
        let next = at + bytes.len() as u64;
        let text =
            String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        let dropped = at.saturating_sub(from);
        // Who reads on does not learn how many of them were before `from`; the count is for who reads from the beginning.
        let dropped_lines = if dropped > 0 { self.lines_before } else { 0 };
        Output { text, dropped, dropped_lines, next: next.max(from.min(self.total())) }
    }
}

/// How many bytes at the end are the start of a character.
pub(crate) fn unfinished(bytes: &[u8]) -> usize {
    for back in 1..=bytes.len().min(3) {
        let tail = &bytes[bytes.len() - back..];
        if tail[0] & 0xc0 != 0x80 {
            let cut = std::str::from_utf8(tail).is_err_and(|error| error.error_len().is_none());
            return if cut { back } else { 0 };
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(ring: &Ring, from: u64, text: &str, dropped: u64, next: u64) {
        let read = Output { dropped_lines: 0, ..ring.read(from) };
        assert_eq!(read, Output { text: text.into(), dropped, next, dropped_lines: 0 }, "from {from} of {ring:?}");
    }

    #[test]
    fn the_end_is_kept_and_the_cut_is_between_characters() {
        let mut ring = Ring::new(8);
        check(&ring, 0, "", 0, 0);
        ring.push("aé".as_bytes());
        check(&ring, 0, "aé", 0, 3);
        check(&ring, 1, "é", 0, 3);
        check(&ring, 3, "", 0, 3);
        check(&ring, 99, "", 0, 3);
        ring.push("ééé".as_bytes());
        check(&ring, 0, "éééé", 1, 9);
        ring.push(b"x");
        // Half a character went; its other half is not shown.
        check(&ring, 0, "éééx", 3, 10);
        ring.push("0123456789€".as_bytes());
        check(&ring, 0, "56789€", 15, 23);
        check(&ring, 15, "56789€", 0, 23);
        assert_eq!(ring.total(), 23);
        assert_eq!(ring.read(0).to_string(), "[… 15 bytes, 0 lines left out …]\n56789€");
    }

    #[test]
    fn half_a_character_waits_for_the_rest_but_not_for_ever() {
        let mut ring = Ring::new(100);
        ring.push(b"a\xe2\x82");
        check(&ring, 0, "a", 0, 1);
        ring.push(b"\xac");
        check(&ring, 1, "€", 0, 4);
        ring.push(b"\xffz\xf0\x9f");
        check(&ring, 4, "\u{fffd}z", 0, 6);
        ring.close();
        check(&ring, 6, "\u{fffd}", 0, 8);
    }

    #[test]
    fn any_bytes_in_any_pieces_are_read_as_a_whole() {
        let all: Vec<u8> = "a€é😀\n".bytes().chain([0xff, 0x80, 0xe2]).cycle().take(400).collect();
        for size in 1..9 {
            let mut ring = Ring::new(1000);
            let (mut text, mut seen) = (String::new(), 0);
            for piece in all.chunks(size) {
                ring.push(piece);
                let news = ring.read(seen);
                assert_eq!(news.dropped, 0);
                seen = news.next;
                text += &news.text;
            }
            ring.close();
            text += &ring.read(seen).text;
            assert_eq!(text, String::from_utf8_lossy(&all));
        }
    }

    #[test]
    fn lines_that_are_gone_are_counted() {
        let mut ring = Ring::new(8);
        for number in 1..=9 {
            ring.push(format!("{number}\n").as_bytes());
        }
        ring.push(b"10\n11\n12");
        let read = ring.read(0);
        assert_eq!((read.text.as_str(), read.dropped_lines), ("10\n11\n12", 9));
        assert_eq!(ring.read(18).dropped_lines, 0);
    }
}
