//! Slash commands.

use crate::bench::{ALL, CURRENT, Row, V1, V2, check, of, row};
use serde_json::{Value, json};
use std::collections::HashSet;

pub const ROWS: &[Row] = &[
    row(&["V1-CMD-01", "V2-CMD-01"], ALL, |b| {
        b.updates("commands");
        let told =
            of(&b.client.updates, "available_commands_update")[0]["availableCommands"].as_array().unwrap().clone();
        assert!(told.len() > 10 && told.iter().any(|command| command["name"] == "say"), "{told:?}");
        b.updates("/say hello");
        assert_eq!(b.client.said(), "hello");
    }),
    row(&["V1-CMD-03"], ALL, |b| {
        let prompt = json!([{"type": "text", "text": "/help"}, {"type": "text", "text": "and more"}]);
        let id = b.client.begin_with(prompt);
        assert_eq!(b.client.end(id), "end_turn");
        assert!(b.client.said().contains("/undo"), "{}", b.client.said());
        b.forget();
        // In another place it is just text.
        let prompt = json!([{"type": "text", "text": "say on"}, {"type": "text", "text": "/help"}]);
        let id = b.client.begin_with(prompt);
        assert_eq!(b.client.end(id), "end_turn");
        assert!(!b.client.said().contains("/undo"), "{}", b.client.said());
    }),
    row(&["V1-CMD-04"], V1, |b| {
        b.forget();
        b.client.open_in(&b.place.project());
        assert!(b.client.updates.is_empty(), "{:?}", b.client.updates);
        b.client.until_update("available_commands_update");
    }),
    row(&["V2-CMD-02", "V2-CMD-03"], CURRENT, |b| {
        let commands = b.client.open_in(&b.place.project())["availableCommands"].as_array().unwrap().clone();
        let names: HashSet<&str> = commands.iter().map(|command| command["name"].as_str().unwrap()).collect();
        assert!(names.len() == commands.len() && names.len() > 3);
        assert!(names.iter().all(|name| !name.contains('/') && !name.contains(char::is_whitespace)));
        assert!(commands.iter().all(|command| command["type"] == "command"));
        let inputs: Vec<&Value> = commands.iter().filter_map(|command| command.get("input")).collect();
        assert!(!inputs.is_empty() && inputs.iter().all(|input| input["type"] == "text"), "{inputs:?}");
    }),
    row(&["V2-CMD-01"], V2, |b| {
        b.updates("commands");
        b.updates("update {\"sessionUpdate\": \"available_commands_update\", \"availableCommands\": []}");
        assert_eq!(of(&b.client.updates, "available_commands_update")[0]["availableCommands"], json!([]));
    }),
];

#[test]
fn commands() {
    check(ROWS);
}
