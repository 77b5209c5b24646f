//! Changing stored `_meta`: replaced as a whole, or key by key.

use crate::{Dialect, Meta, Patch};
use tieline_json::{Error, Raw, Reader, write_str};

/// Changes stored `_meta` as an upsert says. In current v2 an object changes the keys it names (`null` removes one), in the
/// older dialects it replaces everything.
pub(crate) fn patch_meta(stored: &mut Option<Meta>, patch: &Patch<Meta>, dialect: Dialect) {
    *stored = match patch {
        Patch::Keep => return,
        Patch::Clear => None,
        Patch::Set(meta) if dialect == Dialect::V2 => merged(stored.as_ref(), meta),
        Patch::Set(meta) => Some(meta.clone()),
    };
}

fn merged(stored: Option<&Meta>, patch: &Meta) -> Option<Meta> {
    let mut keys = Vec::new();
    for meta in stored.into_iter().chain([patch]) {
        // What is stored was read before, so it is an object and this does not fail.
        collect(meta, &mut keys).ok()?;
    }
    keys.retain(|(_, value)| *value != "null");
    if keys.is_empty() {
        return None;
    }
    let mut out = vec![b'{'];
    for (key, value) in keys {
        write_str(&mut out, &key);
        out.push(b':');
        out.extend_from_slice(value.as_bytes());
        out.push(b',');
    }
    out.pop();
    out.push(b'}');
    Raw::new(String::from_utf8(out).ok()?).ok().map(Meta)
}

fn collect<'a>(meta: &'a Meta, keys: &mut Vec<(String, &'a str)>) -> Result<(), Error> {
    let mut json = Reader::new(meta.0.get());
    let mut object = json.object()?;
    while let Some(key) = object.key(&mut json)? {
        let value = json.raw()?;
        match keys.iter_mut().find(|(known, _)| *known == key) {
            Some(known) => known.1 = value,
            None => keys.push((key.into_owned(), value)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::patch_meta;
    use crate::{Dialect, Meta, Patch};
    use tieline_json::Raw;

    /// `V2-MSG-06`, `AMB2-05`.
    #[test]
    fn patched_by_key_in_v2_and_replaced_before() {
        for (stored, patch, v2, old) in [
            ("", r#"{"a":1}"#, r#"{"a":1}"#, r#"{"a":1}"#),
            (r#"{"a":1,"b":{"c":2}}"#, r#"{"b":{"d":3}}"#, r#"{"a":1,"b":{"d":3}}"#, r#"{"b":{"d":3}}"#),
            (r#"{"a":1,"b":2}"#, r#"{"a":null}"#, r#"{"b":2}"#, r#"{"a":null}"#),
            (r#"{"a":1}"#, r#"{"a":null}"#, "", r#"{"a":null}"#),
            (r#"{"a":1}"#, "null", "", ""),
            (r#"{"a":1}"#, "", r#"{"a":1}"#, r#"{"a":1}"#),
        ] {
            let meta = |text: &str| Raw::new(text).ok().map(Meta);
            let patch = match patch {
                "" => Patch::Keep,
                "null" => Patch::Clear,
                text => meta(text).map_or(Patch::Keep, Patch::Set),
            };
            for (dialect, want) in [(Dialect::V2, v2), (Dialect::V2Seed, old), (Dialect::V1, old)] {
                let mut now = meta(stored);
                patch_meta(&mut now, &patch, dialect);
                assert_eq!(now, meta(want), "{stored} {patch:?} {dialect}");
            }
        }
    }
}
