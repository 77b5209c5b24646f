//! The cursor accepts exactly what `serde_json` accepts, and reads the same values.

use proptest::prelude::*;
use serde_json::Value;
use tieline_json::{Kind, Raw, Reader, write_f64, write_i64, write_raw, write_str};

fn read(json: &mut Reader<'_>) -> Result<Value, tieline_json::Error> {
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
        Kind::Number => serde_json::from_str(json.number()?).map_err(|e| tieline_json::Error::data(e.to_string()))?,
        Kind::Bool => Value::Bool(json.bool()?),
        Kind::Null => {
            json.null()?;
            Value::Null
        }
    })
}

fn whole(text: &str) -> Result<Value, tieline_json::Error> {
    let mut json = Reader::new(text);
    let value = read(&mut json)?;
    json.end()?;
    Ok(value)
}

fn skips(text: &str) -> bool {
    let mut json = Reader::new(text);
    json.skip().and_then(|()| json.end()).is_ok()
}

fn check(text: &str) {
    // Half of a surrogate pair is U+FFFD for us and an error for serde_json.
    let theirs = Raw::new(text).map_or_else(|_| serde_json::from_str::<Value>(text), |raw| raw.parse());
    let ours = whole(text);
    // serde_json refuses numbers that overflow f64 and counts nesting slightly differently; both are limits, not syntax.
    let limit = |e: &serde_json::Error| e.to_string().contains("out of range") || e.to_string().contains("recursion");
    match (&ours, &theirs) {
        (Ok(a), Ok(b)) => assert_eq!(a, b, "{text:?}"),
        (Err(_), Err(_)) => {}
        (_, Err(e)) if limit(e) => {}
        _ => panic!("{text:?}: ours {ours:?}, serde_json {theirs:?}"),
    }
    if !matches!(&theirs, Err(e) if limit(e)) {
        assert_eq!(skips(text), ours.is_ok(), "{text:?}");
    }
}

#[test]
fn by_hand() {
    for text in [
        "",
        " ",
        "null",
        "nul",
        "true",
        "falsee",
        "0",
        "-0",
        "01",
        "1.",
        ".5",
        "1e5",
        "1e",
        "1E+2",
        "-",
        "--1",
        "\"",
        "\"\\\"",
        "\"a\\u00e9\\ud83d\\ude00\"",
        "\"\\ud83d\"",
        "\"\\ude00\"",
        "\"\\u12\"",
        "\"\\x\"",
        "\"\n\"",
        "\"\u{7f}\"",
        "[]",
        "[,]",
        "[1,]",
        "[1 2]",
        "{}",
        "{\"a\":1,}",
        "{a:1}",
        "{\"a\" 1}",
        "{\"a\":1 \"b\":2}",
        "[1]]",
        "{\"a\":1,\"a\":2}",
        " [ 1 , {} ] ",
        "12345678901234567890123",
        "\"\\/\\b\\f\\n\\r\\t\"",
        "\u{feff}1",
        "{\"k\":{\"k\":[null,true,false]}}",
    ] {
        check(text);
    }
}

#[test]
fn half_a_surrogate_pair_is_a_replacement_character() {
    for (text, read) in [
        (r#""\ud83d""#, "\u{fffd}"),
        (r#""\ude00""#, "\u{fffd}"),
        (r#""a\ud83dz""#, "a\u{fffd}z"),
        (r#""\ud83d\n""#, "\u{fffd}\n"),
        (r#""\ud83d\u0041""#, "\u{fffd}A"),
        (r#""\ud83d\ud83d\ude00""#, "\u{fffd}\u{1f600}"),
        (r#""\\ud83d""#, "\\ud83d"),
        (r#""\\\ud83d""#, "\\\u{fffd}"),
        (r#""\ud83d\ude00""#, "\u{1f600}"),
    ] {
        assert_eq!(whole(text).unwrap(), Value::String(read.into()), "{text}");
        assert_eq!(Raw::new(text).unwrap().parse::<Value>().unwrap(), Value::String(read.into()), "{text}");
        assert!(skips(text), "{text}");
    }
    assert!(whole(r#""\ud83d\u00""#).is_err() && whole(r#""\ud83""#).is_err());
}

#[test]
fn deep_nesting_is_refused_without_a_crash() {
    for n in [128, 129, 100_000] {
        let text = "[".repeat(n) + &"]".repeat(n);
        assert_eq!(skips(&text), n <= 128);
        let text = "{\"a\":".repeat(n) + "1" + &"}".repeat(n);
        assert_eq!(skips(&text), n <= 128);
    }
}

#[test]
fn raw_keeps_text_and_never_writes_a_line_break() {
    let raw = Raw::new("{ \"a\":\n [1.50,\r\n 12345678901234567890123] }").unwrap();
    assert_eq!(raw.get(), "{ \"a\":\n [1.50,\r\n 12345678901234567890123] }");
    let mut out = Vec::new();
    write_raw(&mut out, raw.get());
    assert_eq!(out, b"{ \"a\":  [1.50,   12345678901234567890123] }");
    assert!(Raw::new("{").is_err() && Raw::new("1 2").is_err());
}

#[test]
fn numbers_are_written_exactly() {
    for n in [0, 1, -1, i64::MAX, i64::MIN, 9, 10, 99, 100] {
        let mut out = Vec::new();
        write_i64(&mut out, n);
        assert_eq!(String::from_utf8(out).unwrap(), n.to_string());
    }
    for n in [0.045, 1.0, -2.5, 1e-9, 1e21] {
        let mut out = Vec::new();
        write_f64(&mut out, n);
        assert_eq!(serde_json::from_slice::<f64>(&out).unwrap().to_bits(), n.to_bits());
    }
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".*".prop_map(Value::String),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(".*", inner, 0..5).prop_map(|m| Value::Object(m.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1500) })]

    #[test]
    fn valid_json_reads_the_same(value in json(), pretty in any::<bool>()) {
        check(&if pretty { serde_json::to_string_pretty(&value).unwrap() } else { value.to_string() });
    }

    #[test]
    fn near_json_is_judged_the_same(value in json(), at in any::<prop::sample::Index>(), with in "[\\[\\]{}\":,0-9eE+\\-. \\\\untrfalsx\\u{1f}é]{0,2}") {
        let mut text = value.to_string();
        let mut at = at.index(text.len());
        while !text.is_char_boundary(at) { at -= 1; }
        let end = at + text[at..].chars().next().map_or(0, char::len_utf8);
        text.replace_range(at..end, &with);
        check(&text);
    }

    #[test]
    fn strings_survive_writing(text in "(?s).*") {
        let mut out = Vec::new();
        write_str(&mut out, &text);
        prop_assert_eq!(&serde_json::from_slice::<String>(&out).unwrap(), &text);
        prop_assert_eq!(String::from_utf8(out).unwrap(), serde_json::to_string(&text).unwrap());
    }
}
