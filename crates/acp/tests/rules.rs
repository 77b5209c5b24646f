//! `docs/rules.md` tells the truth: every rule has a row, and every test that a row names exists.
#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

use std::collections::HashMap;
use std::path::Path;

/// Rules that no test shows yet. `scripts/rules` takes out what is tested by now; nothing may be added.
const GAPS: &[&str] = &[];

/// Who keeps a rule that the library cannot keep on its own.
const OWNERS: &[&str] = &["coding agent", "terminal client", "HTTP"];

struct Row {
    id: String,
    tested: String,
}

fn root() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn rows() -> Vec<Row> {
    let text = std::fs::read_to_string(root().join("docs/rules.md")).unwrap();
    let mut rows = Vec::new();
    for line in text.lines().filter(|line| ["| TR-", "| V1-", "| V2-"].iter().any(|start| line.starts_with(start))) {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [id, says, who, tested] = cells[..] else { panic!("not four cells: {line}") };
        assert!(![id, says, who, tested].contains(&""), "an empty cell: {line}");
        assert!(["agent", "client", "both"].contains(&who), "{id}: who is `{who}`?");
        rows.push(Row { id: id.into(), tested: tested.into() });
    }
    rows
}

#[test]
fn every_row_names_tests_that_exist_or_an_owner() {
    let mut sources: HashMap<String, String> = HashMap::new();
    for Row { id, tested } in rows() {
        if OWNERS.contains(&&*tested) {
            continue;
        }
        if tested == "—" {
            assert!(GAPS.contains(&&*id), "{id} has no test and is no known gap");
            continue;
        }
        for test in tested.split("; ") {
            let parts = test.trim_matches('`').split_once("`: `");
            let (file, name) = parts.unwrap_or_else(|| panic!("{id}: `{test}` is neither a test nor an owner"));
            let source = sources.entry(file.into()).or_insert_with(|| {
                std::fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{id}: {file}: {error}"))
            });
            assert!(source.contains(&format!("fn {name}(")), "{id}: {file} has no test `{name}`; run scripts/rules");
        }
    }
}

#[test]
fn known_gaps_are_gaps() {
    let rows = rows();
    for gap in GAPS {
        let row = rows.iter().find(|row| row.id == *gap).unwrap_or_else(|| panic!("there is no rule {gap}"));
        assert_eq!(row.tested, "—", "{gap} is no gap any more; run scripts/rules");
    }
}

#[test]
fn no_rule_was_lost() {
    let mut last: HashMap<String, u32> = HashMap::new();
    for Row { id, .. } in rows() {
        let (family, number) = id.rsplit_once('-').unwrap();
        let last = last.entry(family.into()).or_default();
        assert_eq!(number.parse::<u32>().unwrap(), *last + 1, "the rule before {id} is missing or out of order");
        *last += 1;
    }
    let all: u32 = last.values().sum();
    assert_eq!((last.len(), all), (45, 428), "rules were added or lost: change these numbers only on purpose");
}
