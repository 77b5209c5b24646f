//! Every rule for agents, shown by the built-in agent over standard input and output, in each dialect and framing.

#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/pty.rs"]
mod pty;
#[path = "../common/server.rs"]
mod server;
#[allow(dead_code, reason = "another test uses the rest")]
#[path = "../mcp/servers.rs"]
mod servers;

mod background;
mod bench;
mod cancel;
mod client;
mod commands;
mod elicitation;
mod errors;
mod extension;
mod initialize;
mod lists;
mod login;
mod mcp;
mod options;
mod permission;
mod plan;
mod prompt;
mod sessions;
mod tools;

use bench::Row;
use std::collections::BTreeSet;

const AREAS: &[&[Row]] = &[
    background::ROWS,
    cancel::ROWS,
    client::ROWS,
    commands::ROWS,
    elicitation::ROWS,
    errors::ROWS,
    extension::ROWS,
    initialize::ROWS,
    lists::ROWS,
    login::ROWS,
    mcp::ROWS,
    options::ROWS,
    permission::ROWS,
    plan::ROWS,
    prompt::ROWS,
    sessions::ROWS,
    tools::ROWS,
];

#[test]
fn every_rule_for_agents_is_here() {
    let table = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/rules.md")).unwrap();
    let rule = |line: &str| {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let ours = ["V1-", "V2-"].iter().any(|start| cells[0].starts_with(start));
        (ours && ["agent", "both"].contains(cells.get(2)?)).then(|| cells[0].to_owned())
    };
    let rules: BTreeSet<String> = table.lines().filter_map(rule).collect();
    assert!(rules.len() > 200, "docs/rules.md has only {} rules for agents", rules.len());
    let mut shown: BTreeSet<String> = BTreeSet::new();
    for row in AREAS.iter().flat_map(|rows| rows.iter()) {
        for id in row.ids {
            assert!(rules.contains(*id), "{id} is no rule for agents");
            let old = id.starts_with("V1-");
            assert!(row.on.iter().any(|dialect| old == (*dialect == "1")), "{id} is in none of its dialects");
            shown.insert((*id).to_owned());
        }
    }
    let missing: Vec<&String> = rules.iter().filter(|id| !shown.contains(*id)).collect();
    assert!(missing.is_empty(), "{} rules are shown nowhere: {missing:?}", missing.len());
}
