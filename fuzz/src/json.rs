//! The JSON cursor against `serde_json`: the same texts are accepted, and they mean the same.

use serde_json::Value;
use tieline_json::{Error, Kind, Raw, Reader, write_raw, write_str};

/// Any bytes; what is not UTF-8 is none of the cursor's business.
pub fn target(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    agree(text);
    written(text);
}

/// True if `serde_json` refuses a text for a limit of its own (number range, nesting), not because it isn't JSON.
pub fn is_limit(error: &serde_json::Error) -> bool {
    let error = error.to_string();
    error.contains("out of range") || error.contains("recursion")
}

/// What `serde_json` reads, with U+FFFD for halves of surrogate pairs.
fn forgiving(text: &str) -> Result<Value, serde_json::Error> {
    Raw::new(text).map_or_else(|_| serde_json::from_str(text), |raw| raw.parse())
}

fn agree(text: &str) {
    let theirs = forgiving(text);
    if theirs.as_ref().is_err_and(is_limit) {
        return;
    }
    let mut json = Reader::new(text);
    let ours = read(&mut json).and_then(|value| json.end().map(|()| value));
    match (&ours, &theirs) {
        (Ok(ours), Ok(theirs)) => assert_eq!(ours, theirs),
        (Err(_), Err(_)) => {}
        _ => panic!("{text:?}: ours {ours:?}, serde_json {theirs:?}"),
    }
    let mut json = Reader::new(text);
    assert_eq!(json.skip().and_then(|()| json.end()).is_ok(), theirs.is_ok(), "skipping {text:?}");
    if let Ok(raw) = Raw::new(text) {
        let mut out = Vec::new();
        write_raw(&mut out, raw.get());
        assert!(!out.contains(&b'\n') && !out.contains(&b'\r'), "a raw line break would split a frame");
        assert_eq!(forgiving(std::str::from_utf8(&out).unwrap_or_default()).ok(), theirs.ok());
    }
}

fn written(text: &str) {
    let mut out = Vec::new();
    write_str(&mut out, text);
    assert_eq!(serde_json::from_slice::<String>(&out).ok().as_deref(), Some(text));
    assert!(!out.contains(&b'\n'));
}

fn read(json: &mut Reader<'_>) -> Result<Value, Error> {
    Ok(match json.peek()? {
        Kind::Object => {
            let mut map = serde_json::Map::new();
            let mut object = json.object()?;
            while let Some(key) = object.key(json)? {
                map.insert(key.into_owned(), read(json)?);
            }
            Value::Object(map)
        }
        Kind::Array => {
            let mut list = Vec::new();
            let mut array = json.array()?;
            while array.item(json)? {
                list.push(read(json)?);
            }
            Value::Array(list)
        }
        Kind::String => Value::String(json.string()?.into_owned()),
        Kind::Number => serde_json::from_str(json.number()?).map_err(|error| Error::data(error.to_string()))?,
        Kind::Bool => Value::Bool(json.bool()?),
        Kind::Null => json.null().map(|()| Value::Null)?,
    })
}
