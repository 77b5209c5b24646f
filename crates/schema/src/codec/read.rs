//! How fields are read. The record macro picks one of these by the word behind the field.

use super::{Decode, Error, Kind, Reader};

/// A malformed value fails the whole message.
#[inline(never)]
pub fn strict<T: Decode>(json: &mut Reader<'_>, key: &str) -> Result<T, Error> {
    let mark = json.mark();
    let value = T::decode(json).map_err(|error| error.inside(key))?;
    json.locate(mark, &key);
    Ok(value)
}

/// A malformed value counts as absent.
#[inline(never)]
pub fn lenient<T: Decode + Default>(json: &mut Reader<'_>, key: &str) -> Result<T, Error> {
    let mark = json.mark();
    match T::decode(json) {
        Ok(value) => {
            json.locate(mark, &key);
            Ok(value)
        }
        Err(error) if error.is_syntax() => Err(error),
        Err(error) => {
            json.rewind(mark);
            json.skip()?;
            json.forgive(error.inside(key));
            Ok(T::default())
        }
    }
}

/// A list in which a malformed item fails the message; `null` counts as empty.
#[inline(never)]
pub fn whole<T: Decode>(json: &mut Reader<'_>, key: &str) -> Result<Vec<T>, Error> {
    if json.take_null()? { Ok(Vec::new()) } else { strict(json, key) }
}

/// A list whose malformed items are dropped; `null` or anything else but an array counts as empty.
#[inline(never)]
pub fn list<T: Decode>(json: &mut Reader<'_>, key: &str) -> Result<Vec<T>, Error> {
    let mark = json.mark();
    if json.peek()? != Kind::Array {
        if json.peek()? != Kind::Null {
            json.forgive(Error::data("expected an array").inside(key));
        }
        json.skip()?;
        return Ok(Vec::new());
    }
    let items = items(json)?;
    json.locate(mark, &key);
    Ok(items)
}

/// A text that should not be empty; if it is, that is a deviation.
pub fn wording(json: &mut Reader<'_>, key: &str) -> Result<String, Error> {
    let text: String = strict(json, key)?;
    if text.is_empty() {
        json.forgive(Error::data("expected some text").inside(key));
    }
    Ok(text)
}

/// A list that must be there. Like [`list`], but `null` is a deviation.
#[inline(never)]
pub fn required_list<T: Decode>(json: &mut Reader<'_>, key: &str) -> Result<Vec<T>, Error> {
    if json.peek()? == Kind::Null {
        json.forgive(Error::data("expected an array").inside(key));
    }
    list(json, key)
}

/// The items of an array, without the malformed ones.
#[inline(never)]
pub fn items<T: Decode>(json: &mut Reader<'_>) -> Result<Vec<T>, Error> {
    let mut items = Vec::new();
    let mut array = json.array()?;
    let mut index = 0;
    while array.item(json)? {
        json.count_entry()?;
        let mark = json.mark();
        match T::decode(json) {
            Ok(item) => {
                json.locate(mark, &index);
                push(&mut items, item);
            }
            Err(error) if error.is_syntax() => return Err(error),
            Err(error) => {
                json.rewind(mark);
                json.skip()?;
                json.forgive(error.inside(index.to_string()));
            }
        }
        index += 1;
    }
    Ok(items)
}

/// Most lists on the wire have one item, and items are large: no room is made for three more.
pub(super) fn push<T>(items: &mut Vec<T>, item: T) {
    if items.is_empty() {
        items.reserve_exact(1);
    }
    items.push(item);
}
