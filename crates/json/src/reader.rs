//! The cursor: walks over JSON text, checks it fully, and can go back to any value it has passed.
//!
//! The steps are kept out of line on purpose: every decoder is made of them, and copies of them would be most of a program.

use crate::{Error, Raw};
use std::borrow::Cow;
use std::str::FromStr;

/// Arrays and objects may be nested this deep. Deeper input is refused, so that no input can exhaust the stack.
pub const MAX_DEPTH: u16 = 128;

/// So many entries of lists are made values of in one text. In memory an entry is many times as long as the shortest text of one.
pub const MAX_ENTRIES: usize = 1 << 17;

/// What kind of value comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `{`
    Object,
    /// `[`
    Array,
    /// `"`
    String,
    /// A digit or `-`
    Number,
    /// `true` or `false`
    Bool,
    /// `null`
    Null,
}

/// A place to go back to.
#[derive(Debug, Clone, Copy)]
pub struct Mark {
    pos: usize,
    depth: u16,
    noted: usize,
}

/// Which of the two names of a renamed key is right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Names {
    /// The one it has now.
    New,
    /// The one it had before.
    Old,
}

/// A cursor over one JSON text.
#[derive(Debug, Default)]
pub struct Reader<'a> {
    text: &'a str,
    pos: usize,
    depth: u16,
    deviations: Option<Vec<Error>>,
    names: Option<Names>,
    watch: Watch,
    entries: usize,
    half_pair: bool,
}

/// A key that may come again in the object that is being read. See [`Reader::watch`].
#[derive(Debug, Clone, Copy, Default)]
pub struct Watch {
    key: &'static str,
    depth: u16,
    again: bool,
}

/// The inside of an array or object: knows whether a comma is due.
#[derive(Debug)]
#[must_use]
pub struct Sequence {
    first: bool,
}

impl<'a> Reader<'a> {
    /// Starts at the beginning of `text`.
    pub fn new(text: &'a str) -> Self {
        Self { text, ..Self::default() }
    }

    /// Starts a reader that remembers everything it forgives; ask with [`Self::deviations`].
    pub fn strict(text: &'a str) -> Self {
        Self { deviations: Some(Vec::new()), ..Self::new(text) }
    }

    /// Minds the names of renamed keys too. Without this both are right.
    #[must_use]
    pub fn minding(mut self, names: Names) -> Self {
        self.names = Some(names);
        self
    }

    /// Notes it if a renamed key has the other one of its names.
    pub fn renamed(&mut self, key: &str, names: Names) {
        if self.names.is_some_and(|right| right != names) {
            self.forgive(Error::data("a name of another dialect").inside(key));
        }
    }

    /// What was forgiven so far (always empty unless made by [`Self::strict`]).
    pub fn deviations(&self) -> &[Error] {
        self.deviations.as_deref().unwrap_or_default()
    }

    /// True if half of a surrogate pair was read or passed over, so that U+FFFD stands for it.
    pub fn has_half_pair(&self) -> bool {
        self.half_pair
    }

    /// Another entry of a list is to be made a value of. Refused if those are too many.
    pub fn count_entry(&mut self) -> Result<(), Error> {
        self.entries += 1;
        if self.entries > MAX_ENTRIES { Err(Error::too_many(self.pos)) } else { Ok(()) }
    }

    /// Notes that something malformed was read as absent.
    #[inline(never)]
    pub fn forgive(&mut self, error: Error) {
        if let Some(list) = &mut self.deviations {
            list.push(error);
        }
    }

    /// Puts a path step, a key or an index, in front of what was forgiven since `mark`.
    #[inline]
    pub fn locate(&mut self, mark: Mark, step: &dyn std::fmt::Display) {
        if self.deviations.is_some() {
            self.locate_each(mark, step);
        }
    }

    #[cold]
    fn locate_each(&mut self, mark: Mark, step: &dyn std::fmt::Display) {
        for item in self.deviations.iter_mut().flatten().skip(mark.noted) {
            *item = item.clone().inside(step.to_string());
        }
    }

    /// Remembers this place.
    pub fn mark(&self) -> Mark {
        Mark { pos: self.pos, depth: self.depth, noted: self.deviations.as_ref().map_or(0, Vec::len) }
    }

    /// Goes back to a place.
    #[inline(never)]
    pub fn rewind(&mut self, mark: Mark) {
        self.pos = mark.pos;
        self.depth = mark.depth;
        if let Some(list) = &mut self.deviations {
            list.truncate(mark.noted);
        }
    }

    /// The text from `mark` to here, without white space in front.
    pub fn since(&self, mark: Mark) -> &'a str {
        self.text[mark.pos..self.pos].trim_start()
    }

    /// The kind of the next value.
    #[inline(never)]
    pub fn peek(&mut self) -> Result<Kind, Error> {
        self.white();
        match self.byte() {
            Some(b'{') => Ok(Kind::Object),
            Some(b'[') => Ok(Kind::Array),
            Some(b'"') => Ok(Kind::String),
            Some(b'-' | b'0'..=b'9') => Ok(Kind::Number),
            Some(b't' | b'f') => Ok(Kind::Bool),
            Some(b'n') => Ok(Kind::Null),
            _ => Err(self.fault("a value was expected")),
        }
    }

    /// Enters an object.
    pub fn object(&mut self) -> Result<Sequence, Error> {
        self.enter(Kind::Object, "expected an object")
    }

    /// Enters an array.
    pub fn array(&mut self) -> Result<Sequence, Error> {
        self.enter(Kind::Array, "expected an array")
    }

    /// Reads a string; borrowed from the text when it has no escapes.
    #[inline(never)]
    pub fn string(&mut self) -> Result<Cow<'a, str>, Error> {
        self.want(Kind::String, "expected a string")?;
        self.string_here()
    }

    /// Reads a number as its text.
    #[inline(never)]
    pub fn number(&mut self) -> Result<&'a str, Error> {
        self.want(Kind::Number, "expected a number")?;
        self.number_here()
    }

    /// Reads an integer that fits `T`.
    pub fn integer<T: FromStr>(&mut self) -> Result<T, Error> {
        let text = self.number()?;
        text.parse().map_err(|_| Error::data("expected an integer in range"))
    }

    /// Reads `true` or `false`.
    #[inline(never)]
    pub fn bool(&mut self) -> Result<bool, Error> {
        self.want(Kind::Bool, "expected true or false")?;
        let value = self.byte() == Some(b't');
        self.word(if value { "true" } else { "false" })?;
        Ok(value)
    }

    /// Reads `null`.
    #[inline(never)]
    pub fn null(&mut self) -> Result<(), Error> {
        self.want(Kind::Null, "expected null")?;
        self.word("null")
    }

    /// Reads `null` if that is what comes, and says so.
    #[inline(never)]
    pub fn take_null(&mut self) -> Result<bool, Error> {
        let null = self.peek()? == Kind::Null;
        if null {
            self.word("null")?;
        }
        Ok(null)
    }

    /// Passes over the next value, checking it, and returns its text.
    #[inline(never)]
    pub fn raw(&mut self) -> Result<&'a str, Error> {
        self.white();
        let start = self.pos;
        self.skip()?;
        Ok(&self.text[start..self.pos])
    }

    /// Like [`Self::raw`], kept.
    #[inline(never)]
    pub fn keep(&mut self) -> Result<Raw, Error> {
        self.raw().map(Raw::trusted)
    }

    /// Watches for a key of the object that was entered last, which was read already. Gives what was watched before.
    pub fn watch(&mut self, key: &'static str) -> Watch {
        std::mem::replace(&mut self.watch, Watch { key, depth: self.depth, again: false })
    }

    /// Ends that; true if the key came again.
    pub fn unwatch(&mut self, before: Watch) -> bool {
        std::mem::replace(&mut self.watch, before).again
    }

    /// Takes the key as one that came again, because the object is not read key by key.
    pub fn doubt(&mut self) {
        if self.watch.depth == self.depth {
            self.watch.again = true;
        }
    }

    /// Passes over the value of a key that nobody wants.
    #[inline(never)]
    pub fn pass(&mut self, key: &str) -> Result<(), Error> {
        if self.watch.depth == self.depth && self.watch.key == key {
            self.watch.again = true;
        }
        self.skip()
    }

    /// Passes over the next value, checking it.
    #[inline(never)]
    pub fn skip(&mut self) -> Result<(), Error> {
        match self.peek()? {
            Kind::Object => {
                let mut object = self.object()?;
                while object.skip_key(self)? {
                    self.skip()?;
                }
                Ok(())
            }
            Kind::Array => {
                let mut array = self.array()?;
                while array.item(self)? {
                    self.skip()?;
                }
                Ok(())
            }
            Kind::String => self.skip_string(),
            Kind::Number => self.number_here().map(drop),
            Kind::Bool => self.bool().map(drop),
            Kind::Null => self.word("null"),
        }
    }

    /// Passes over the next value however deep it is: only strings and brackets are looked at, the rest is not checked.
    pub fn skip_unread(&mut self) -> Result<(), Error> {
        if !matches!(self.peek()?, Kind::Object | Kind::Array) {
            return self.skip();
        }
        let mut open = 0_usize;
        loop {
            match self.byte() {
                Some(b'{' | b'[') => open += 1,
                Some(b'}' | b']') => open -= 1,
                Some(b'"') => {
                    self.skip_string()?;
                    continue;
                }
                Some(_) => {}
                None => return Err(self.fault("the text ends too early")),
            }
            self.pos += 1;
            if open == 0 {
                return Ok(());
            }
        }
    }

    /// Makes sure that nothing but white space is left.
    pub fn end(&mut self) -> Result<(), Error> {
        self.white();
        if self.pos == self.text.len() { Ok(()) } else { Err(self.fault("more text after the value")) }
    }

    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.pos).copied()
    }

    fn white(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.byte() {
            self.pos += 1;
        }
    }

    #[cold]
    fn fault(&self, what: &str) -> Error {
        Error::syntax(self.pos, what)
    }

    fn want(&mut self, kind: Kind, what: &str) -> Result<(), Error> {
        if self.peek()? == kind { Ok(()) } else { Err(Error::data(what)) }
    }

    #[inline(never)]
    fn enter(&mut self, kind: Kind, what: &str) -> Result<Sequence, Error> {
        self.want(kind, what)?;
        if self.depth >= MAX_DEPTH {
            return Err(Error::too_deep(self.pos));
        }
        self.depth += 1;
        self.pos += 1;
        Ok(Sequence { first: true })
    }

    fn word(&mut self, word: &str) -> Result<(), Error> {
        if self.text.as_bytes()[self.pos..].starts_with(word.as_bytes()) {
            self.pos += word.len();
            Ok(())
        } else {
            Err(self.fault("a value was expected"))
        }
    }

    fn number_here(&mut self) -> Result<&'a str, Error> {
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
    fn string_here(&mut self) -> Result<Cow<'a, str>, Error> {
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
                    // Ask for the rest of a long string at once: growing step by step copies megabytes.
                    if out.capacity() - out.len() < 64 {
                        let rest = self.text.len() - at;
                        out.reserve(rest.min(out.len().max(64 * 1024)).max(64));
                    }
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
    fn skip_string(&mut self) -> Result<(), Error> {
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

impl Sequence {
    /// In an object: the next key, or `None` at the end. The value must be read before the next call.
    #[inline(never)]
    pub fn key<'a>(&mut self, reader: &mut Reader<'a>) -> Result<Option<Cow<'a, str>>, Error> {
        if !self.advance(reader, b'}')? {
            return Ok(None);
        }
        reader.quote()?;
        let key = reader.string_here()?;
        reader.colon()?;
        Ok(Some(key))
    }

    /// In an array: true if another value follows.
    #[inline(never)]
    pub fn item(&mut self, reader: &mut Reader<'_>) -> Result<bool, Error> {
        self.advance(reader, b']')
    }

    fn skip_key(&mut self, reader: &mut Reader<'_>) -> Result<bool, Error> {
        if !self.advance(reader, b'}')? {
            return Ok(false);
        }
        reader.quote()?;
        reader.skip_string()?;
        reader.colon()?;
        Ok(true)
    }

    fn advance(&mut self, reader: &mut Reader<'_>, close: u8) -> Result<bool, Error> {
        reader.white();
        if reader.byte() == Some(close) {
            reader.pos += 1;
            reader.depth -= 1;
            return Ok(false);
        }
        if self.first {
            self.first = false;
        } else if reader.byte() == Some(b',') {
            reader.pos += 1;
            reader.white();
            if reader.byte() == Some(close) {
                return Err(reader.fault("a comma before the end"));
            }
        } else {
            return Err(reader.fault("a comma or the end was expected"));
        }
        Ok(true)
    }
}

impl Reader<'_> {
    fn quote(&mut self) -> Result<(), Error> {
        if self.byte() == Some(b'"') { Ok(()) } else { Err(self.fault("a key was expected")) }
    }

    fn colon(&mut self) -> Result<(), Error> {
        self.white();
        if self.byte() != Some(b':') {
            return Err(self.fault("a colon was expected"));
        }
        self.pos += 1;
        Ok(())
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
