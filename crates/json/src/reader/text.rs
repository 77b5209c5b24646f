//! Strings and numbers: where they end, and what their escapes stand for.

use super::Reader;
use crate::Error;
use std::borrow::Cow;

impl<'a> Reader<'a> {
    pub(super) fn number_here(&mut self) -> Result<&'a str, Error> {
        let start = self.pos;
        if self.byte() == Some(b'-') {
            self.pos += 1;
        }
        if self.byte() == Some(b'0') {
            self.pos += 1;
        } else {
            self.digits()?;
        }
        if self.byte() == Some(b'.') {
            self.pos += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.byte() {
            self.pos += 1;
            if let Some(b'+' | b'-') = self.byte() {
                self.pos += 1;
            }
            self.digits()?;
        }
        Ok(&self.text[start..self.pos])
    }

    fn digits(&mut self) -> Result<(), Error> {
        let start = self.pos;
        while let Some(b'0'..=b'9') = self.byte() {
            self.pos += 1;
        }
        if self.pos > start { Ok(()) } else { Err(self.fault("a digit was expected")) }
    }

    /// The cursor is on the opening quote.
    pub(super) fn string_here(&mut self) -> Result<Cow<'a, str>, Error> {
        let bytes = self.text.as_bytes();
        let start = self.pos + 1;
        let at = special_at(bytes, start);
        match bytes.get(at) {
            Some(b'"') => {
                self.pos = at + 1;
                Ok(Cow::Borrowed(&self.text[start..at]))
            }
            Some(b'\\') => self.unescape(start, at),
            _ => {
                self.pos = at;
                Err(self.fault("a string is not closed or holds a control character"))
            }
        }
    }

    /// Copies a string with escapes, of which the first is at `at`.
    fn unescape(&mut self, start: usize, mut at: usize) -> Result<Cow<'a, str>, Error> {
        let bytes = self.text.as_bytes();
        let mut out = String::with_capacity((at - start) * 2 + 16);
        let mut from = start;
        loop {
            out.push_str(&self.text[from..at]);
            self.pos = at;
            match bytes.get(at) {
                Some(b'"') => {
                    self.pos = at + 1;
                    return Ok(Cow::Owned(out));
                }
                Some(b'\\') => {
                    out.push(self.escape()?);
                    from = self.pos;
                    at = special_at(bytes, from);
                }
                _ => return Err(self.fault("a string is not closed or holds a control character")),
            }
        }
    }

    /// Reads one escape; the cursor is on the backslash.
    fn escape(&mut self) -> Result<char, Error> {
        self.pos += 1;
        let byte = self.byte();
        self.pos += 1;
        Ok(match byte {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode(),
            _ => return Err(self.fault("an unknown escape")),
        })
    }

    /// Half of a surrogate pair becomes U+FFFD: `JSON.stringify` of older engines writes such halves where a text was cut, and
    /// the rest of the message is good.
    fn unicode(&mut self) -> Result<char, Error> {
        let first = self.hex4()?;
        let mut code = first;
        if (0xD800..=0xDBFF).contains(&first) && self.text.as_bytes()[self.pos..].starts_with(b"\\u") {
            let before = self.pos;
            self.pos += 2;
            let second = self.hex4()?;
            if (0xDC00..=0xDFFF).contains(&second) {
                code = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
            } else {
                self.pos = before;
            }
        }
        Ok(char::from_u32(code).unwrap_or_else(|| {
            self.half_pair = true;
            char::REPLACEMENT_CHARACTER
        }))
    }

    fn hex4(&mut self) -> Result<u32, Error> {
        let digits = self.text.as_bytes().get(self.pos..self.pos + 4);
        let mut code = 0;
        for digit in digits.ok_or_else(|| self.fault("four hex digits were expected"))? {
            let value = char::from(*digit).to_digit(16).ok_or_else(|| self.fault("four hex digits were expected"))?;
            code = code * 16 + value;
        }
        self.pos += 4;
        Ok(code)
    }

    /// Passes over a string without copying it. Escapes are checked as strictly as when reading.
    pub(super) fn skip_string(&mut self) -> Result<(), Error> {
        let bytes = self.text.as_bytes();
        let mut from = self.pos + 1;
        loop {
            self.pos = special_at(bytes, from);
            match self.byte() {
                Some(b'"') => {
                    self.pos += 1;
                    return Ok(());
                }
                Some(b'\\') => {
                    self.escape()?;
                    from = self.pos;
                }
                _ => return Err(self.fault("a string is not closed or holds a control character")),
            }
        }
    }
}

/// The first byte at or after `from` that ends a plain run in a string: a quote, a backslash or a control character.
/// Looks at eight bytes at a time.
pub(crate) fn special_at(bytes: &[u8], from: usize) -> usize {
    const ONES: u64 = u64::MAX / 255;
    const HIGHS: u64 = ONES * 0x80;
    let mut at = from.min(bytes.len());
    while let Some(chunk) = bytes.get(at..at + 8) {
        let word = u64::from_le_bytes([chunk[0], chunk[1], chunk[2], chunk[3], chunk[4], chunk[5], chunk[6], chunk[7]]);
        let quote = word ^ (ONES * 0x22);
        let slash = word ^ (ONES * 0x5c);
        // The classic "has a zero byte" and "has a byte below 0x20" tests; the lowest mark is always a true one.
        let hit = (word.wrapping_sub(ONES * 0x20) & !word)
            | (quote.wrapping_sub(ONES) & !quote)
            | (slash.wrapping_sub(ONES) & !slash);
        let hit = hit & HIGHS;
        if hit != 0 {
            return at + (hit.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    while at < bytes.len() && !matches!(bytes[at], b'"' | b'\\' | 0..=0x1f) {
        at += 1;
    }
    at
}
