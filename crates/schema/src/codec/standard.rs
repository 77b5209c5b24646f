//! How the types of the standard library stand on the wire, and JSON that is passed on as it came.

use super::read::{self, push};
use super::{Decode, Encode, Writer};
use std::collections::BTreeMap;
use std::num::{NonZeroU16, NonZeroU32};
use tieline_json::{Error, Raw, Reader, write_f64, write_i64, write_raw, write_str, write_u64};

impl Decode for String {
    fn decode(json: &mut Reader<'_>) -> Result<Self, Error> {
        json.string().map(std::borrow::Cow::into_owned)
    }
}

impl Encode for String {
    fn encode(&self, out: &mut Writer<'_>) {
        write_str(out.out, self);
    }
}

impl Encode for str {
    fn encode(&self, out: &mut Writer<'_>) {
        write_str(out.out, self);
    }
}

/// What points to a value is written like it.
macro_rules! pointers {
    ($($pointer:ty),*) => {$(
        impl<T: Encode + ?Sized> Encode for $pointer {
            fn encode(&self, out: &mut Writer<'_>) {
                (**self).encode(out);
            }

            fn is_absent(&self) -> bool {
                (**self).is_absent()
            }

            fn encode_item(&self, out: &mut Writer<'_>) {
                (**self).encode_item(out);
            }
        }
    )*};
}

pointers!(&T, Box<T>);

impl<T: Decode> Decode for Box<T> {
    fn decode(json: &mut Reader<'_>) -> Result<Self, Error> {
        T::decode(json).map(Box::new)
    }
}

impl Decode for bool {
    fn decode(json: &mut Reader<'_>) -> Result<Self, Error> {
        json.bool()
    }
}

impl Encode for bool {
    fn encode(&self, out: &mut Writer<'_>) {
        out.out.extend_from_slice(if *self { b"true" } else { b"false" });
    }
}

macro_rules! integers {
    ($($int:ty as $plain:ty => $write:ident),* $(,)?) => {$(
        impl Decode for $int {
            fn decode(json: &mut Reader<'_>) -> Result<Self, Error> {
                json.integer()
            }
        }

        impl Encode for $int {
            fn encode(&self, out: &mut Writer<'_>) {
                $write(out.out, <$plain>::from(*self).into());
            }
        }
    )*};
}

integers! {
    u16 as u16 => write_u64, u32 as u32 => write_u64, u64 as u64 => write_u64, i64 as i64 => write_i64,
    NonZeroU16 as u16 => write_u64, NonZeroU32 as u32 => write_u64,
}

impl Decode for f64 {
    fn decode(json: &mut Reader<'_>) -> Result<Self, Error> {
        let text = json.number()?;
        text.parse()
            .ok()
            .filter(|number: &f64| number.is_finite())
            .ok_or_else(|| Error::data("expected a number in range"))
    }
}

impl Encode for f64 {
    fn encode(&self, out: &mut Writer<'_>) {
        write_f64(out.out, *self);
    }
}

impl<T: Decode> Decode for Option<T> {
    fn decode(json: &mut Reader<'_>) -> Result<Self, Error> {
        if json.take_null()? { Ok(None) } else { T::decode(json).map(Some) }
    }
}

impl<T: Encode> Encode for Option<T> {
    fn encode(&self, out: &mut Writer<'_>) {
        match self {
            Some(value) => value.encode(out),
            None => out.out.extend_from_slice(b"null"),
        }
    }

    fn is_absent(&self) -> bool {
        self.is_none()
    }
}

impl<T: Decode> Decode for Vec<T> {
    fn decode(json: &mut Reader<'_>) -> Result<Self, Error> {
        let mut items = Vec::new();
        let mut array = json.array()?;
        while array.item(json)? {
            json.count_entry()?;
            let mark = json.mark();
            let item = T::decode(json).map_err(|error| error.inside(items.len().to_string()))?;
            push(&mut items, item);
            json.locate(mark, &(items.len() - 1));
        }
        Ok(items)
    }
}

impl<T: Encode> Encode for Vec<T> {
    fn encode(&self, out: &mut Writer<'_>) {
        out.array(self);
    }
}

impl<T: Decode> Decode for BTreeMap<String, T> {
    fn decode(json: &mut Reader<'_>) -> Result<Self, Error> {
        let mut map = BTreeMap::new();
        let mut object = json.object()?;
        while let Some(key) = object.key(json)? {
            json.count_entry()?;
            let value = read::strict(json, &key)?;
            map.insert(key.into_owned(), value);
        }
        Ok(map)
    }
}

impl<T: Encode> Encode for BTreeMap<String, T> {
    fn encode(&self, out: &mut Writer<'_>) {
        out.open();
        for (key, value) in self {
            write_str(out.out, key);
            out.out.push(b':');
            value.encode(out);
            out.out.push(b',');
        }
        out.close();
    }
}

impl Decode for Raw {
    fn decode(json: &mut Reader<'_>) -> Result<Self, Error> {
        json.keep()
    }
}

impl Encode for Raw {
    fn encode(&self, out: &mut Writer<'_>) {
        write_raw(out.out, self.get());
    }
}
