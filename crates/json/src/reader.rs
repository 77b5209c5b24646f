//! The cursor: walks over JSON text, checks it fully, and can go back to any value it has passed.
//!
//! The steps are kept out of line on purpose: every decoder is made of them, and copies of them would be most of a program.

mod text;

use crate::{Error, Raw};
use std::borrow::Cow;
use std::str::FromStr;
pub(crate) use text::special_at;

/// Arrays and objects may be nested this deep. Deeper input is refused, so that no input can exhaust the stack.
pub const MAX_DEPTH: u16 = 128;

/// So many entries of lists are made values of in one text. In memory an entry is many times as long as the shortest text of one.
pub const MAX_ENTRIES: usize = 1 << 17;

/// So much is told of a word that a closed list does not have.
const MAX_WORD_CHARS: usize = 40;

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
    closed: bool,
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

    /// Minds words that are not in the list of a closed one. Without this every word is right.
    #[must_use]
    pub fn closed(mut self, closed: bool) -> Self {
        self.closed = closed;
        self
    }

    /// Notes a word that a closed list does not have.
    #[cold]
    pub fn stray_word<'w>(&mut self, word: &str, list: impl Iterator<Item = &'w str>) {
        if self.closed {
            let (word, list): (String, Vec<&str>) = (word.chars().take(MAX_WORD_CHARS).collect(), list.collect());
            self.forgive(Error::data(format!("`{word}` is none of {}", list.join(", "))));
        }
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
