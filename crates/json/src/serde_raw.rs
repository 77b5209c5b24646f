//! Raw JSON in any format that serde knows, and back.

use crate::{Error, Kind, MAX_DEPTH, Raw, Reader, write_f64, write_i64, write_str, write_u64};
use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde::ser::{Error as _, SerializeMap, SerializeSeq};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// JSON for any format that serde knows, and for what serde holds in buffers of its own (`flatten`). A [`Raw`] goes through serde byte
/// for byte, but only through `serde_json`. Here the order of keys and the value of numbers stay, spaces don't.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Portable(pub Raw);

impl Serialize for Portable {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Value(self.0.get()).serialize(serializer)
    }
}

/// The text of one value.
struct Value<'t>(&'t str);

impl Serialize for Value<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut json = Reader::new(self.0);
        match told(json.peek())? {
            Kind::Null => serializer.serialize_unit(),
            Kind::Bool => serializer.serialize_bool(told(json.bool())?),
            Kind::String => serializer.serialize_str(&told(json.string())?),
            Kind::Number => {
                let text = told(json.number())?;
                match (text.parse(), text.parse()) {
                    (Ok(number), _) => serializer.serialize_u64(number),
                    (_, Ok(number)) => serializer.serialize_i64(number),
                    _ => serializer.serialize_f64(text.parse().map_err(S::Error::custom)?),
                }
            }
            Kind::Array => {
                let mut items = told(json.array())?;
                let mut list = serializer.serialize_seq(None)?;
                while told(items.item(&mut json))? {
                    list.serialize_element(&Value(told(json.raw())?))?;
                }
                list.end()
            }
            Kind::Object => {
                let mut fields = told(json.object())?;
                let mut map = serializer.serialize_map(None)?;
                while let Some(key) = told(fields.key(&mut json))? {
                    map.serialize_entry(&key, &Value(told(json.raw())?))?;
                }
                map.end()
            }
        }
    }
}

fn told<T, E: serde::ser::Error>(read: Result<T, Error>) -> Result<T, E> {
    read.map_err(E::custom)
}

impl<'de> Deserialize<'de> for Portable {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut out = Vec::new();
        Text { out: &mut out, depth: 0 }.deserialize(deserializer)?;
        let text = String::from_utf8(out).map_err(D::Error::custom)?;
        Raw::new(text).map(Portable).map_err(D::Error::custom)
    }
}

/// Writes whatever a format holds as JSON text.
struct Text<'o> {
    out: &'o mut Vec<u8>,
    depth: u16,
}

impl Text<'_> {
    fn inside<E: serde::de::Error>(&mut self) -> Result<Text<'_>, E> {
        if self.depth >= MAX_DEPTH {
            return Err(E::custom("nested too deeply"));
        }
        Ok(Text { out: self.out, depth: self.depth + 1 })
    }

    fn close(&mut self, bracket: u8) {
        if self.out.last() == Some(&b',') {
            self.out.pop();
        }
        self.out.push(bracket);
    }
}

impl<'de> DeserializeSeed<'de> for Text<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Text<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything that JSON can say")
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.out.extend_from_slice(if value { b"true" } else { b"false" });
        Ok(())
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        write_u64(self.out, value);
        Ok(())
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        write_i64(self.out, value);
        Ok(())
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<(), E> {
        if !value.is_finite() {
            return Err(E::custom("expected a number in range"));
        }
        write_f64(self.out, value);
        Ok(())
    }

    fn visit_str<E>(self, value: &str) -> Result<(), E> {
        write_str(self.out, value);
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.out.extend_from_slice(b"null");
        Ok(())
    }

    fn visit_none<E>(self) -> Result<(), E> {
        self.out.extend_from_slice(b"null");
        Ok(())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
        self.out.push(b'[');
        while items.next_element_seed(self.inside()?)?.is_some() {
            self.out.push(b',');
        }
        self.close(b']');
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut fields: A) -> Result<(), A::Error> {
        self.out.push(b'{');
        while let Some(key) = fields.next_key::<String>()? {
            write_str(self.out, &key);
            self.out.push(b':');
            fields.next_value_seed(self.inside()?)?;
            self.out.push(b',');
        }
        self.close(b'}');
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn goes_through_other_values_unchanged() {
        for text in [
            "null",
            "true",
            r#""a\u00e9\n""#,
            "18446744073709551615",
            "-9223372036854775808",
            "1.5",
            "[]",
            "{}",
            r#"{"z":[1,{"a":null}],"a":{"y":"","x":[[]]}}"#,
        ] {
            let portable = Portable(Raw::new(text).unwrap());
            let written = serde_json::to_string(&portable).unwrap();
            assert_eq!(serde_json::from_str::<Portable>(&written).unwrap().0.get(), written, "{text}");
            let tree: serde_json::Value = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::from_str::<serde_json::Value>(&written).unwrap(), tree);
            assert_eq!(serde_json::to_value(serde_json::from_value::<Portable>(tree.clone()).unwrap()).unwrap(), tree);
        }
        // In the order of the author, which a map of serde_json does not keep.
        let portable: Portable = serde_json::from_str(r#" {"z" : 1, "a" : [ 2 ] } "#).unwrap();
        assert_eq!(portable.0.get(), r#"{"z":1,"a":[2]}"#);
        assert_eq!(serde_json::to_string(&portable).unwrap(), portable.0.get());
        let deep = "[".repeat(200) + &"]".repeat(200);
        assert!(serde_json::from_str::<Portable>(&deep).is_err());
    }
}
