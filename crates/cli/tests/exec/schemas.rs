//! What is printed for programs is what the shipped schemas say: many runs, judged by a validator of others.

use super::harness::Place;
use super::limits::limited;
use serde_json::{Value, json};
use std::io::Write;
use std::process::{Command, Stdio};

const PACKAGE: &str = r#"{"private": true, "type": "module", "dependencies": {"ajv": "8.17.1"}}"#;
const JUDGE: &str = r#"
import Ajv2020 from "ajv/dist/2020.js";
import { readFileSync } from "node:fs";
const { schema, values } = JSON.parse(readFileSync(0, "utf8"));
const fits = new Ajv2020.default({ strict: true, strictTypes: false, allErrors: false, discriminator: false }).compile(schema);
const wrong = values.flatMap((value, at) => (fits(value) ? [] : [{ at, errors: fits.errors.slice(-3) }]));
console.log(JSON.stringify(wrong));
"#;

/// What ajv says is wrong with these.
fn judged(schema: &Value, values: &[Value]) -> Vec<Value> {
    let folder = tieline_npm::install("npm-ajv", &[("package.json", PACKAGE), ("judge-output.mjs", JUDGE)]);
    let mut node = Command::new("node");
    node.arg(folder.join("judge-output.mjs")).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut node = node.spawn().unwrap();
    let input = json!({"schema": schema, "values": values}).to_string();
    node.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = node.wait_with_output().unwrap();
    assert!(output.status.success());
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The schema as the binary prints it.
fn printed(place: &Place, format: &str) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tieline"));
    command.args(["config", "schema", "--output", format]).current_dir(place.project());
    place.surround(&mut command);
    let done = command.output().unwrap();
    assert!(done.status.success(), "{done:?}");
    serde_json::from_slice(&done.stdout).unwrap()
}

/// The same schema without room for keys that it does not name.
fn closed(schema: Value) -> Value {
    match schema {
        Value::Object(map) => {
            let mut map: serde_json::Map<_, _> = map.into_iter().map(|(key, value)| (key, closed(value))).collect();
            if map.get("type").is_some_and(|kind| *kind == "object" || *kind == json!(["object", "null"])) {
                map.insert("additionalProperties".into(), false.into());
            }
            Value::Object(map)
        }
        Value::Array(list) => list.into_iter().map(closed).collect(),
        other => other,
    }
}

/// Behaviour and flags of the scripted agent, in a dialect.
const RUNS: &[(&str, &str, &[&str])] = &[
    ("hello", "1", &[]),
    ("hello", "2", &[]),
    ("unknown_updates", "1", &[]),
    ("unknown_content", "1", &[]),
    ("rubbish", "1", &[]),
    ("late", "1", &[]),
    ("plans", "2", &[]),
    ("plans", "1", &[]),
    ("tools", "2", &[]),
    ("messages", "2", &[]),
    ("notices", "2", &[]),
    ("display", "2", &[]),
    ("early_updates", "1", &[]),
    ("crash", "1", &[]),
    ("login", "1", &[]),
    ("dies_at_start", "1", &[]),
    ("ask_once", "1", &[]),
    ("ask_once", "1", &["--on-ask", "fail"]),
    ("ask_edit", "1", &["--allow-edits"]),
    ("unasked", "1", &[]),
    ("elicit", "1", &[]),
    ("files", "1", &["--allow-all"]),
    ("terminals", "1", &["--allow-all"]),
    ("deaf", "1", &["--timeout", "2s"]),
    ("refusal", "1", &[]),
    ("max_tokens", "1", &[]),
    ("hello", "1", &["--resume", "nothing"]),
    ("hello", "1", &["--no-such-flag"]),
    ("hello", "1", &["--no-record"]),
];

fn values(format: &str) -> Vec<Value> {
    let mut values = Vec::new();
    for (behaviour, dialect, flags) in RUNS {
        let place = Place::new();
        place.write("notes.txt", "old\n");
        place.write("lines.txt", &super::harness::lines(0..20));
        values.extend(place.agent(behaviour, dialect, flags).format(format).run().events());
    }
    let place = Place::new();
    place.write("schema.json", "true");
    let limits: [(&str, &[&str], &[&str]); 4] = [
        ("spends", &["--max-cost", "0.5"], &["5:0.75", "waits"]),
        ("silent", &["--idle-timeout", "1s"], &[]),
        ("breaks", &["--strict"], &["field"]),
        ("answers", &["--output-schema", "schema.json"], &["{\"a\": null}"]),
    ];
    for (behaviour, flags, words) in limits {
        values.extend(limited(&place, behaviour, "1", flags, words).format(format).run().events());
    }
    values
}

fn check(format: &str) -> Vec<Value> {
    let schema = printed(&Place::new(), format);
    let values = values(format);
    let wrong = judged(&closed(schema.clone()), &values);
    let told: Vec<_> = wrong.iter().map(|one| (one, &values[one["at"].as_u64().unwrap() as usize])).collect();
    assert!(wrong.is_empty(), "{told:#?}");
    // The validator would have seen it: each value with one key spoiled is refused.
    let spoiled: Vec<Value> = values
        .iter()
        .map(|value| {
            let mut value = value.clone();
            value["v"] = 2.into();
            value
        })
        .collect();
    assert_eq!(judged(&schema, &spoiled).len(), values.len());
    values
}

#[test]
fn json() {
    let values = check("json");
    assert!(values.len() > 30 && values.iter().any(|value| value["answer"].is_object()), "{}", values.len());
}

#[test]
fn stream_json() {
    let values = check("stream-json");
    // Every kind of event that the schema names has been seen.
    let schema = printed(&Place::new(), "stream-json");
    for event in schema["oneOf"].as_array().unwrap() {
        let kind = &event["properties"]["type"]["const"];
        // That one needs a person, and a run for programs has none.
        let seen = kind == "elicitation" || values.iter().any(|value| value["type"] == *kind);
        assert!(seen, "{kind} was never seen");
    }
}
