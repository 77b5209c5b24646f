//! Finding the discriminator of a tagged object, and keeping kinds we don't know.

use crate::{Encode, Writer};
use std::borrow::Cow;
use tieline_json::{Error, Kind, Mark, Raw, Reader, Sequence, write_raw, write_str};

/// A tagged object of a kind we don't know: the tag, and the whole text as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unknown {
    /// The value of the discriminator.
    pub tag: Box<str>,
    /// The whole object.
    pub raw: Raw,
}

impl Unknown {
    /// Keeps the next value.
    pub fn keep(tag: &str, json: &mut Reader<'_>) -> Result<Self, Error> {
        Ok(Self { tag: tag.into(), raw: json.keep()? })
    }
}

impl Unknown {
    /// Writes the object with a key that the dialect wants, in front if it came without it. With it, nothing changes.
    pub(crate) fn encode_with(&self, key: &str, value: &str, out: &mut Writer<'_>) {
        let mut json = Reader::new(self.raw.get());
        if has_key(&mut json, key).unwrap_or(true) {
            return self.encode(out);
        }
        out.out.push(b'{');
        write_str(out.out, key);
        out.out.push(b':');
        write_str(out.out, value);
        out.out.push(b',');
        // It has a discriminator, so there is something behind the brace.
        write_raw(out.out, self.raw.get().get(1..).unwrap_or("}"));
    }
}

impl Encode for Unknown {
    fn encode(&self, out: &mut Writer<'_>) {
        self.raw.encode(out);
    }
}

/// A tagged object that was entered.
pub struct Open<'a> {
    /// The value of the discriminator.
    pub tag: Cow<'a, str>,
    /// Where the object begins.
    pub start: Mark,
    /// The fields behind the discriminator if it comes first, else all fields.
    pub fields: Sequence,
}

/// Reads a tagged object. Peers write the discriminator first, and then nothing is read twice. If it comes again, the last one
/// counts, as for every other key.
pub(crate) fn read<'a, T>(
    json: &mut Reader<'a>,
    name: &'static str,
    variant: impl Fn(&mut Reader<'a>, Open<'a>) -> Result<T, Error>,
) -> Result<T, Error> {
    let start = json.mark();
    let mut fields = json.object()?;
    if fields.key(json)?.is_some_and(|key| key == name) && json.peek()? == Kind::String {
        let tag = json.string()?;
        let before = json.watch(name);
        let value = variant(json, Open { tag, start, fields });
        if !json.unwatch(before) && value.is_ok() {
            return value;
        }
    }
    json.rewind(start);
    let tag = tag(json, name)?.ok_or_else(|| Error::missing(name))?;
    let fields = json.object()?;
    variant(json, Open { tag, start, fields })
}

/// Looks for the discriminator of the object that comes next and leaves the cursor where it was. The values beside it are passed
/// over twice and never copied.
pub fn tag<'a>(json: &mut Reader<'a>, name: &str) -> Result<Option<Cow<'a, str>>, Error> {
    let mark = json.mark();
    let mut object = json.object()?;
    let mut found = Ok(None);
    while let Some(key) = object.key(json)? {
        if key != name {
            json.skip()?;
        } else if json.peek()? == Kind::String {
            found = Ok(Some(json.string()?));
        } else {
            json.skip()?;
            found = Err(Error::data("expected a string").inside(name));
        }
    }
    json.rewind(mark);
    found
}

/// Notes a kind that a closed union does not have.
#[cold]
pub(crate) fn stray(json: &mut Reader<'_>, name: &str, kind: &str, known: &[&str]) {
    let mark = json.mark();
    json.stray_word(kind, known.iter().copied());
    json.locate(mark, &name);
}

/// True if the object that comes next has this key. Moves the cursor.
pub(crate) fn has_key(json: &mut Reader<'_>, wanted: &str) -> Result<bool, Error> {
    let mut object = json.object()?;
    while let Some(key) = object.key(json)? {
        if key == wanted {
            return Ok(true);
        }
        json.skip()?;
    }
    Ok(false)
}
