//! Reading and writing values: the two traits, the three-state field, and how strictly a field is read.

use crate::{Dialect, Dialects};
use tieline_json::{Error, Kind, Names, Raw, Reader, Sequence};

/// Something that can be read from JSON. Reading takes the union of all dialects.
pub trait Decode: Sized {
    /// Reads one value.
    fn decode(json: &mut Reader<'_>) -> Result<Self, Error>;
}

/// An object that can be read from the middle, such as behind a discriminator.
pub trait DecodeFields: Decode {
    /// Reads the fields that are left.
    fn decode_fields(json: &mut Reader<'_>, fields: Sequence) -> Result<Self, Error>;
}

impl<T: DecodeFields> DecodeFields for Box<T> {
    fn decode_fields(json: &mut Reader<'_>, fields: Sequence) -> Result<Self, Error> {
        T::decode_fields(json, fields).map(Box::new)
    }
}

/// Something that can be written as JSON, exactly as a dialect wants it.
pub trait Encode {
    /// Writes one value.
    fn encode(&self, out: &mut Writer<'_>);

    /// True if an object leaves this value's key out.
    fn is_absent(&self) -> bool {
        false
    }

    /// Writes the value into a list, with the comma behind it. A value that has no form in the dialect writes nothing, one
    /// that needs several items there writes them all.
    fn encode_item(&self, out: &mut Writer<'_>) {
        self.encode(out);
        out.out.push(b',');
    }
}

/// An object whose fields can be written behind others, such as a discriminator.
pub trait Record: Encode {
    /// Writes the fields, each followed by a comma, without the braces.
    fn encode_fields(&self, out: &mut Writer<'_>);
}

impl<T: Record> Record for Box<T> {
    fn encode_fields(&self, out: &mut Writer<'_>) {
        (**self).encode_fields(out);
    }
}

/// Where values are written to, and for which dialect.
#[derive(Debug)]
pub struct Writer<'b> {
    /// The buffer that values are appended to.
    pub out: &'b mut Vec<u8>,
    /// Whose wire form is written.
    pub dialect: Dialect,
}

impl Writer<'_> {
    /// Opens an object.
    pub fn open(&mut self) {
        self.out.push(b'{');
    }

    /// Closes an object (drops the comma behind the last field).
    pub fn close(&mut self) {
        self.finish(b'}');
    }

    /// Writes `"key":` ready for a value. `quoted` has the quotes and the colon already.
    #[inline(never)]
    pub fn key(&mut self, quoted: &'static str) {
        self.out.extend_from_slice(quoted.as_bytes());
    }

    /// Writes one field with its comma, unless its value is absent.
    #[inline(never)]
    pub fn field<T: Encode + ?Sized>(&mut self, quoted: &'static str, value: &T) {
        if !value.is_absent() {
            self.key(quoted);
            value.encode(self);
            self.out.push(b',');
        }
    }

    /// Writes a whole object from its fields.
    pub fn object<T: Record + ?Sized>(&mut self, record: &T) {
        self.open();
        record.encode_fields(self);
        self.close();
    }

    /// Writes an object with a discriminator in front.
    pub fn tagged<T: Record + ?Sized>(&mut self, tag: &'static str, record: &T) {
        self.out.extend_from_slice(tag.as_bytes());
        record.encode_fields(self);
        self.close();
    }

    /// Writes an array.
    pub fn array<T: Encode>(&mut self, items: impl IntoIterator<Item = T>) {
        self.out.push(b'[');
        for item in items {
            item.encode_item(self);
        }
        self.finish(b']');
    }

    /// True if the dialect is in the set.
    pub fn speaks(&self, dialects: Dialects) -> bool {
        dialects.has(self.dialect)
    }

    #[inline(never)]
    fn finish(&mut self, close: u8) {
        if self.out.last() == Some(&b',') {
            self.out.pop();
        }
        self.out.push(close);
    }
}

/// Writes `value` as `dialect` wants it.
pub fn to_json<T: Encode + ?Sized>(value: &T, dialect: Dialect) -> String {
    let mut out = Vec::new();
    value.encode(&mut Writer { out: &mut out, dialect });
    // Everything we write is UTF-8: it came from `str`s.
    String::from_utf8(out).unwrap_or_default()
}

/// Reads `text` leniently: the union of all dialects, malformed optional fields count as absent.
pub fn from_json<T: Decode>(text: &str) -> Result<T, Error> {
    let mut json = Reader::new(text);
    let value = T::decode(&mut json)?;
    json.end()?;
    Ok(value)
}

/// Reads `text` and also says everything that leniency forgave; with a dialect also names that are not of that dialect.
pub fn from_json_strict<T: Decode>(text: &str, dialect: Option<Dialect>) -> Result<(T, Vec<Error>), Error> {
    let mut json = Reader::strict(text);
    if let Some(dialect) = dialect {
        json = json.minding(if dialect == Dialect::V2 { Names::New } else { Names::Old });
    }
    let value = T::decode(&mut json)?;
    json.end()?;
    Ok((value, json.deviations().to_vec()))
}

/// The three states of a field in an upsert: leave it, unset it, replace it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Patch<T> {
    /// The key is absent: nothing changes.
    #[default]
    Keep,
    /// The key is `null`: the field goes back to its default.
    Clear,
    /// The key has a value: it replaces what was there.
    Set(T),
}

impl<T> Patch<T> {
    /// The new value, if there is one.
    pub fn set(&self) -> Option<&T> {
        match self {
            Patch::Set(value) => Some(value),
            _ => None,
        }
    }

    /// True if nothing changes.
    pub fn is_keep(&self) -> bool {
        matches!(self, Patch::Keep)
    }

    /// Takes `null` as if nothing was said, which is what it means in version 1.
    pub(crate) fn ignore_null(&mut self) {
        if matches!(self, Patch::Clear) {
            *self = Patch::Keep;
        }
    }

    /// Says the default in place of `null`.
    pub(crate) fn spell_out_null(&mut self)
    where
        T: Default,
    {
        if matches!(self, Patch::Clear) {
            *self = Patch::Set(T::default());
        }
    }

    /// Puts a later patch on top of this one.
    pub fn merge(&mut self, later: Patch<T>) {
        if !later.is_keep() {
            *self = later;
        }
    }
}

impl<T> From<T> for Patch<T> {
    fn from(value: T) -> Self {
        Patch::Set(value)
    }
}

impl<T: Decode> Decode for Patch<T> {
    fn decode(json: &mut Reader<'_>) -> Result<Self, Error> {
        if json.take_null()? { Ok(Patch::Clear) } else { T::decode(json).map(Patch::Set) }
    }
}

impl<T: Encode> Encode for Patch<T> {
    fn encode(&self, out: &mut Writer<'_>) {
        match self {
            Patch::Set(value) => value.encode(out),
            Patch::Keep | Patch::Clear => out.out.extend_from_slice(b"null"),
        }
    }

    fn is_absent(&self) -> bool {
        self.is_keep()
    }
}

pub mod read;
mod standard;

/// A list whose malformed items are dropped; what upserts use inside a [`Patch`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Items<T>(pub Vec<T>);

impl<T: Decode> Decode for Items<T> {
    fn decode(json: &mut Reader<'_>) -> Result<Self, Error> {
        read::items(json).map(Items)
    }
}

impl<T: Encode> Encode for Items<T> {
    fn encode(&self, out: &mut Writer<'_>) {
        self.0.encode(out);
    }
}

impl<T> From<Vec<T>> for Items<T> {
    fn from(items: Vec<T>) -> Self {
        Items(items)
    }
}

impl<T> std::ops::Deref for Items<T> {
    type Target = Vec<T>;

    fn deref(&self) -> &Vec<T> {
        &self.0
    }
}

/// What an implementation adds to an object: a JSON object under `_meta`, passed on as it came.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Meta(pub Raw);

impl Decode for Meta {
    fn decode(json: &mut Reader<'_>) -> Result<Self, Error> {
        if json.peek()? == Kind::Object { json.keep().map(Meta) } else { Err(Error::data("expected an object")) }
    }
}

impl Encode for Meta {
    fn encode(&self, out: &mut Writer<'_>) {
        self.0.encode(out);
    }
}

/// A capability marker: in version 2 an object says yes, in version 1 some are booleans.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Marker {
    /// Absent, null or false.
    #[default]
    No,
    /// `true` or an object without extensions.
    Yes,
    /// An object that holds more than nothing (such as `_meta`), kept.
    With(Raw),
}

impl From<bool> for Marker {
    fn from(yes: bool) -> Self {
        if yes { Marker::Yes } else { Marker::No }
    }
}

impl Decode for Marker {
    fn decode(json: &mut Reader<'_>) -> Result<Self, Error> {
        Ok(match json.peek()? {
            Kind::Null => {
                json.null()?;
                Marker::No
            }
            Kind::Bool => json.bool()?.into(),
            Kind::Object => {
                let raw = json.keep()?;
                if raw.get().len() == 2 { Marker::Yes } else { Marker::With(raw) }
            }
            _ => return Err(Error::data("expected an object or true")),
        })
    }
}

impl Encode for Marker {
    fn encode(&self, out: &mut Writer<'_>) {
        match self {
            Marker::No => out.out.extend_from_slice(b"null"),
            Marker::Yes => out.out.extend_from_slice(b"{}"),
            Marker::With(raw) => raw.encode(out),
        }
    }

    fn is_absent(&self) -> bool {
        *self == Marker::No
    }
}

/// Stands for the fields that a record may get in a later version. It is there to make `..` necessary, and is nothing.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct More(());
