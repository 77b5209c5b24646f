//! Answers that must fit a schema: the same verdicts as a well-known validator, and what can't be checked is refused.

#![allow(clippy::unwrap_used)]
#![recursion_limit = "512"]

use serde_json::{Value, json};
use std::io::Write;
use std::process::{Command, Stdio};
use tieline_client::answer::{Schema, in_message};

const PACKAGE: &str = r#"{"private": true, "type": "module", "dependencies": {"ajv": "8.17.1"}}"#;
/// Reads pairs of schemas and values, and says for each whether it fits.
const JUDGE: &str = r#"
import Ajv2020 from "ajv/dist/2020.js";
import { readFileSync } from "node:fs";
const [schemas, values] = JSON.parse(readFileSync(0, "utf8"));
const ajv = new Ajv2020.default({ strict: false, validateFormats: false, logger: false });
console.log(JSON.stringify(schemas.map((schema) => {
  const fits = ajv.compile(schema);
  return values.map((value) => fits(value));
})));
"#;

fn schemas() -> Vec<Value> {
    let list = json!([
        true, false, {},
        {"type": "integer"}, {"type": "number"}, {"type": "string"}, {"type": "null"}, {"type": "boolean"},
        {"type": "array"}, {"type": "object"}, {"type": ["string", "null"]},
        {"enum": [1, "a", null, [1, 2], {"a": 1.0}]}, {"const": 1}, {"const": {"a": 1}}, {"const": 0},
        {"const": false}, {"const": [true]},
        {"multipleOf": 2}, {"multipleOf": 0.5}, {"multipleOf": 0.0001}, {"maximum": 3}, {"minimum": 1.5},
        {"exclusiveMaximum": 3}, {"exclusiveMinimum": 1}, {"maximum": 9_007_199_254_740_991_u64},
        {"maxLength": 2}, {"minLength": 2}, {"pattern": "^a"}, {"pattern": "^\\d+$"}, {"pattern": "^\\w{2}$"},
        {"pattern": "^.$"}, {"pattern": "\\s"}, {"pattern": "^[^a-c\\d]+$"}, {"pattern": "^(a|b)+$"}, {"pattern": "\\bb\\b"},
        {"pattern": "^\\S\\D$"}, {"pattern": "[\\W_]"},
        {"items": {"type": "integer"}}, {"prefixItems": [{"type": "integer"}, {"type": "string"}]},
        {"prefixItems": [true], "items": false}, {"prefixItems": [{"const": 1}], "items": {"type": "integer"}},
        {"minItems": 2}, {"maxItems": 1}, {"uniqueItems": true}, {"uniqueItems": false},
        {"contains": {"const": 1}}, {"contains": {"type": "integer"}, "minContains": 2},
        {"contains": {"type": "integer"}, "maxContains": 1}, {"contains": {"const": 9}, "minContains": 0},
        {"properties": {"a": {"type": "integer"}}}, {"required": ["a"]}, {"required": ["a", "b"]},
        {"properties": {"a": true}, "additionalProperties": false}, {"additionalProperties": {"type": "string"}},
        {"patternProperties": {"^a": {"type": "integer"}}, "additionalProperties": false},
        {"properties": {"b": {"type": "string"}}, "patternProperties": {"^a": true}, "additionalProperties": {"const": 1}},
        {"minProperties": 1}, {"maxProperties": 1}, {"propertyNames": {"maxLength": 1}}, {"propertyNames": false},
        {"dependentRequired": {"a": ["b"]}}, {"dependentSchemas": {"a": {"required": ["b"], "maxProperties": 2}}},
        {"allOf": [{"type": "integer"}, {"minimum": 2}]}, {"anyOf": [{"type": "integer"}, {"minLength": 2}]},
        {"oneOf": [{"type": "integer"}, {"minimum": 2}]}, {"not": {"type": "integer"}}, {"not": {}},
        {"if": {"type": "integer"}, "then": {"minimum": 2}, "else": {"type": "string"}},
        {"if": {"type": "integer"}, "then": false}, {"if": {"type": "string"}, "else": {"type": "array"}}, {"then": false},
        {"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"type": "integer"}}},
        {"$ref": "#/$defs/a%25b", "maximum": 2, "$defs": {"a%b": {"type": "number"}}},
        {"$defs": {"tree": {"type": "object", "properties": {"a": {"$ref": "#/$defs/tree"}}, "additionalProperties": false}},
         "$ref": "#/$defs/tree"},
        {"type": "array", "items": {"$ref": "#"}},
        {"properties": {"a": {"type": "integer"}, "b": {"$ref": "#/properties/a"}}},
        {"title": "t", "description": "d", "default": 1, "examples": [1], "$comment": "c", "format": "date"},
        {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "https://example.com/x", "type": "object"},
    ]);
    list.as_array().unwrap().clone()
}

fn values() -> Vec<Value> {
    let list = json!([
        null, true, false, 0, -0.0, 1, 1.0, 1.5, 2, 3, -1, 4.5, 0.0075, 0.000_751, "", "a", "ab", "abc", "b", "é", "😀", "😀😀", "12", "1٢", "a b", "\n", "\u{a0}", "\u{feff}", "a\u{2028}", "d!", "_",
        [], [1], [1, 1.0], [1, "a"], ["a", 1], [1, 2, 3], [[], [[]]], [{"a": 1}, {"a": 1.0}], [0, false], [1, true], [[1], [true]],
        {}, {"a": 1}, {"a": 1.0}, {"a": "x"}, {"b": 1}, {"b": "x"}, {"a": 1, "b": 2}, {"a": 1, "b": 2, "c": 3}, {"a": {}},
        {"a": {"a": {}}}, {"a": {"b": {}}}, {"ab": 1}, {"ab": "x"}, {"a": 1, "b": "x"},
    ]);
    list.as_array().unwrap().clone()
}

#[test]
fn verdicts_are_those_of_ajv() {
    let folder = tieline_npm::install("npm-ajv", &[("package.json", PACKAGE), ("judge.mjs", JUDGE)]);
    let mut node = Command::new("node");
    node.arg(folder.join("judge.mjs")).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut node = node.spawn().unwrap();
    let pairs = json!([schemas(), values()]).to_string();
    node.stdin.take().unwrap().write_all(pairs.as_bytes()).unwrap();
    let output = node.wait_with_output().unwrap();
    assert!(output.status.success());
    let verdicts: Vec<Vec<bool>> = serde_json::from_slice(&output.stdout).unwrap();
    let (mut fitting, mut others) = (0, 0);
    for (schema, verdicts) in schemas().iter().zip(&verdicts) {
        let ours = Schema::new(schema.clone()).unwrap_or_else(|why| panic!("{schema}: {why}"));
        for (value, verdict) in values().iter().zip(verdicts) {
            let fits = ours.check(value);
            assert_eq!(fits.is_ok(), *verdict, "{schema} and {value}: {fits:?}");
            *(if *verdict { &mut fitting } else { &mut others }) += 1;
        }
    }
    assert!(fitting > 1000 && others > 1000, "{fitting} {others}");
}

#[test]
fn large_numbers_are_exact() {
    let fits = |schema: Value, value: Value| Schema::new(schema).unwrap().check(&value).is_ok();
    let (even, odd) = (9_007_199_254_740_992_u64, 9_007_199_254_740_993_u64);
    assert!(fits(json!({"multipleOf": 2}), json!(even)) && !fits(json!({"multipleOf": 2}), json!(odd)));
    assert!(!fits(json!({"const": even}), json!(odd)) && !fits(json!({"maximum": even}), json!(odd)));
    assert!(fits(json!({"multipleOf": 2}), json!(1e300)) && !fits(json!({"multipleOf": 0.123_456_789}), json!(1e308)));
    assert!(!fits(json!({"enum": []}), json!(1)));
}

#[test]
fn what_can_not_be_checked_is_refused() {
    for (schema, named) in [
        (json!({"unevaluatedProperties": false}), "`unevaluatedProperties`"),
        (json!({"properties": {"a": {"typ": "string"}}}), "`typ` (at `#/properties/a/typ`)"),
        (json!({"x-mine": 1}), "`x-mine`"),
        (json!({"$dynamicRef": "#a"}), "`$dynamicRef`"),
        (json!({"dependencies": {}}), "`dependencies`"),
        (json!({"items": [true]}), "prefixItems"),
        (json!({"$ref": "other.json"}), "leads out of the file"),
        (json!({"$ref": "#a"}), "leads out of the file"),
        (json!({"$ref": "#/$defs/a"}), "nothing at `#/$defs/a`"),
        (json!({"properties": {"$id": {"$id": "x"}}}), "`$id`"),
        (json!({"examples": [{"typ": 1}], "$ref": "#/examples/0"}), "`typ`"),
        (json!({"pattern": "(?=a)"}), "no look-around"),
        (json!({"pattern": "(a)\\1"}), "`\\1`"),
        (json!({"pattern": "("}), "pattern"),
        (json!({"patternProperties": {"(?!a)": true}}), "no look-around"),
        (json!({"type": "text"}), "`#/type`"),
        (json!({"type": []}), "`#/type`"),
        (json!({"maxLength": -1}), "`#/maxLength`"),
        (json!({"multipleOf": 0}), "`#/multipleOf`"),
        (json!({"required": [1]}), "`#/required`"),
        (json!({"anyOf": []}), "`#/anyOf`"),
        (json!({"properties": {"a": 1}}), "`#/properties/a`"),
        (json!({"$schema": "http://json-schema.org/draft-04/schema#"}), "draft"),
        (
            json!({"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#/$defs/a", "type": "null", "$defs": {"a": true}}),
            "`$ref`",
        ),
        (json!([]), "must be a schema"),
    ] {
        let why = Schema::new(schema.clone()).map(drop).unwrap_err();
        assert!(why.contains(named), "{schema}: {why}");
    }
    assert!(Schema::parse("{").unwrap_err().contains("no JSON"));
}

#[test]
fn a_schema_without_an_end_is_given_up() {
    let endless = Schema::new(json!({"$ref": "#"})).unwrap();
    assert!(endless.check(&json!(1)).unwrap_err().why.contains("too deep"));
    // Also where a misfit would be welcome.
    let not = Schema::new(json!({"not": {"$ref": "#/$defs/a"}, "$defs": {"a": {"$ref": "#/$defs/a"}}})).unwrap();
    assert!(not.check(&json!(1)).unwrap_err().why.contains("too deep"));
    let wide = json!({"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}, {"$ref": "#/$defs/b"}, false]},
        "b": {"allOf": [{"not": {"$ref": "#/$defs/a"}}, {"not": {"$ref": "#/$defs/a"}}]}}, "$ref": "#/$defs/a"});
    assert!(Schema::new(wide).unwrap().check(&json!(1)).unwrap_err().why.contains("too deep"));
}

#[test]
fn misfits_say_where() {
    let schema = Schema::new(json!({"properties": {"list": {"items": {"required": ["name"]}}}})).unwrap();
    let misfit = schema.check(&json!({"list": [{"name": 1}, {}]})).unwrap_err();
    assert_eq!(misfit.to_string(), "/list/1 lacks `name`");
    assert_eq!(
        Schema::new(json!({"type": "array"})).unwrap().check(&json!({})).unwrap_err().to_string(),
        "the whole is of the type object, must be array"
    );
}

#[test]
fn json_is_found_in_a_fence_but_not_among_words() {
    for text in [
        "{\"a\": 1}",
        " \n{\"a\":1}\n",
        "```json\n{\"a\": 1}\n```",
        "```\n{\"a\": 1}\n```\n",
        "````json\n{\"a\":1}\n````",
    ] {
        assert_eq!(in_message(text).unwrap(), json!({"a": 1}), "{text}");
    }
    assert_eq!(in_message("\"```\"").unwrap(), json!("```"));
    for text in [
        "",
        "Here: {\"a\": 1}",
        "{\"a\": 1} done",
        "```python\n{}\n```",
        "```json\n{}",
        "```json {} ```",
        "{\"a\": 1}{}",
        "Here:\n```json\n{}\n```",
        "```json\n{}\n```\nDone.",
    ] {
        assert!(in_message(text).is_err(), "{text}");
    }
}
