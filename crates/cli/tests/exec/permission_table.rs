//! What happens to each kind of action by flags and modes: every cell of one table, against the binary, in every dialect.

use super::harness::{DIALECTS, Done, Place};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::sync::Mutex;
use tieline_model_server::{ModelServer, builtin};

const TABLE: &str = include_str!("permission_table.txt");
const PAGE: &str = include_str!("../../../../docs/permissions.md");
const KINDS: [&str; 8] = ["read", "write", "edit", "move", "delete", "run", "fetch", "mcp"];
/// So many runs at a time: each is a few processes that mostly wait.
const WORKERS: usize = 4;

/// Where a column begins; flags stand before them.
const FLAGS_WIDTH: usize = 29;

struct Row {
    built_in: bool,
    flags: &'static str,
    outcomes: Vec<&'static str>,
    code: i32,
}

fn rows() -> Vec<Row> {
    let mut built_in = false;
    let mut rows = Vec::new();
    for line in TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (flags, outcomes) = line.split_at(FLAGS_WIDTH);
        let mut outcomes: Vec<&str> = outcomes.split_whitespace().collect();
        let code = outcomes.pop().unwrap();
        if code == "exit" {
            assert_eq!(outcomes, KINDS);
            built_in = flags.trim() == "the built-in agent";
        } else {
            assert!(
                outcomes.len() == KINDS.len()
                    && outcomes.iter().all(|cell| ["done", "done*", "asked", "refused"].contains(cell))
            );
            rows.push(Row { built_in, flags: flags.trim(), outcomes, code: code.parse().unwrap() });
        }
    }
    rows
}

/// The table as Markdown.
fn page() -> String {
    let mut page = String::new();
    let mut last = None;
    for row in rows() {
        if last.replace(row.built_in) != Some(row.built_in) {
            let who = if row.built_in { "the built-in agent" } else { "agents of others" };
            let _ = write!(page, "\n| {who} | {} | exit |\n|{}\n", KINDS.join(" | "), "---|".repeat(KINDS.len() + 2));
        }
        let flags = row.flags.split(' ').map(|word| match word {
            "ALLOW" | "DENY" => format!("--{} RULE", word.to_lowercase()),
            _ => word.to_owned(),
        });
        let flags = flags.collect::<Vec<_>>().join(" ");
        let flags = if flags.starts_with('(') || flags.starts_with('`') {
            flags
        } else {
            // Flags are code, and a rule is already.
            flags
                .split(" `")
                .enumerate()
                .map(|(at, part)| if at == 0 { format!("`{part}`") } else { format!("`{part}") })
                .collect::<Vec<_>>()
                .join(" ")
        };
        let _ = writeln!(page, "| {flags} | {} | {} |", row.outcomes.join(" | "), row.code);
    }
    page
}

#[test]
fn the_page_shows_the_table() {
    let page = page();
    assert!(PAGE.contains(&page), "docs/permissions.md lacks this table:\n{page}");
}

#[test]
fn every_cell_is_true() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let server = runtime.block_on(ModelServer::start(builtin("directives").unwrap())).unwrap();
    let url = &server.url();
    let rows = rows();
    let runs: Vec<(&Row, &str)> = rows.iter().flat_map(|row| DIALECTS.map(|dialect| (row, dialect))).collect();
    let (queue, wrong) = (Mutex::new(runs.into_iter()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().unwrap().next();
                    let Some((row, dialect)) = next else { break };
                    let (outcomes, done) =
                        if row.built_in { ours(row, dialect, url) } else { theirs(row, dialect, url) };
                    let expected = row.outcomes.iter().map(|cell| match *cell {
                        "done*" if dialect == "2-seed" => "asked",
                        cell => cell.trim_end_matches('*'),
                    });
                    if !outcomes.iter().copied().eq(expected) || done.code != Some(row.code) {
                        let code = done.code.unwrap_or(-1);
                        let who = if row.built_in { "built-in" } else { "other" };
                        wrong
                            .lock()
                            .unwrap()
                            .push(format!("{who} {dialect} {:28} {outcomes:?} {code}\n{}", row.flags, done.err));
                    }
                }
            });
        }
    });
    let mut wrong = wrong.into_inner().unwrap();
    wrong.sort();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The flags of a row, with a rule for each kind of action where it says so.
fn flags(row: &Row, url: &str) -> Vec<String> {
    let address = url.split_once("://").unwrap().1;
    let rules = [
        "read r.txt".to_owned(),
        "write w.txt".into(),
        "write e.txt".into(),
        "move m.txt => n.txt".into(),
        "delete d.txt".into(),
        "run touch ran.txt".into(),
        format!("fetch http://{address}"),
        "mcp s/give".into(),
    ];
    let mut flags = Vec::new();
    for word in row.flags.split(' ').filter(|_| !row.flags.starts_with('(')) {
        match word {
            "ALLOW" | "DENY" => {
                let flag = format!("--{}", word.to_lowercase());
                flags.extend(rules.iter().flat_map(|rule| [flag.clone(), rule.clone()]));
            }
            _ => flags.push(word.to_owned()),
        }
    }
    flags
}

fn place() -> Place {
    let place = Place::new();
    for (name, text) in [("r.txt", "readable\n"), ("e.txt", "old\n"), ("m.txt", "moving\n"), ("d.txt", "old\n")] {
        place.write(name, text);
    }
    place
}

/// The built-in agent tries all of it in one turn, as a model tells it.
fn ours(row: &Row, dialect: &str, url: &str) -> (Vec<&'static str>, Done) {
    let place = place();
    let tools = [
        json!(["read", {"path": "r.txt"}]),
        json!(["write", {"path": "w.txt", "content": "new\n"}]),
        json!(["edit", {"path": "e.txt", "edits": [{"old": "old", "new": "new"}]}]),
        json!(["move", {"from": "m.txt", "to": "n.txt"}]),
        json!(["delete", {"path": "d.txt"}]),
        json!(["run", {"command": "touch ran.txt"}]),
        json!(["fetch", {"url": format!("{url}/v1/models")}]),
    ];
    let calls = tools.iter().map(|call| format!("model: call {} {}", call[0].as_str().unwrap(), call[1]));
    let calls =
        calls.chain(["model: mcp s give {\"content\": [{\"type\": \"text\", \"text\": \"given\"}]}".to_owned()]);
    let prompt = calls.collect::<Vec<_>>().join("\n");
    let server = format!("{}/tests/rules/server.py", env!("CARGO_MANIFEST_DIR"));
    let servers = json!({"mcpServers": {"s": {"command": "python3", "args": [server]}}});
    let config = place.path("mcp.json");
    std::fs::write(&config, servers.to_string()).unwrap();
    let exec = place.exec(&[&prompt, "--protocol", dialect, "--format", "stream-json"]);
    let exec = exec.args(&["--model", "openai-chat/gpt-4.1", "--base-url", &format!("{url}/v1")]);
    let exec = exec.args(&["--env", "OPENAI_API_KEY=key", "--mcp-config", config.to_str().unwrap()]);
    let flags = flags(row, url);
    let done = exec.args(&flags.iter().map(String::as_str).collect::<Vec<_>>()).run();
    let mut calls: Vec<(String, Value)> = Vec::new();
    for event in done.events().into_iter().filter(|event| event["type"] == "tool") {
        let id = event["id"].as_str().unwrap().to_owned();
        match calls.iter_mut().find(|(known, _)| *known == id) {
            Some(call) => call.1 = event,
            None => calls.push((id, event)),
        }
    }
    let outcomes: Vec<&str> = calls
        .iter()
        .map(|(_, call)| match call["status"].as_str() {
            Some("completed") => "done",
            _ if call.to_string().contains("nobody could be asked") => "asked",
            _ if call.to_string().contains("Not allowed (") => "refused",
            _ => "failed",
        })
        .collect();
    // What is done can be seen, and what is not, not.
    let there = |name: &str, text: &str| place.read(name).as_deref() == Some(text);
    let seen = [
        (1, there("w.txt", "new\n")),
        (2, there("e.txt", "new\n")),
        (3, there("n.txt", "moving\n")),
        (4, place.read("d.txt").is_none()),
        (5, place.read("ran.txt").is_some()),
    ];
    for (at, seen) in seen {
        assert_eq!(outcomes.get(at) == Some(&"done"), seen, "{dialect} {} {}: {}", row.flags, KINDS[at], done.out);
    }
    (outcomes, done)
}

/// An agent of others asks about all of it in one turn.
fn theirs(row: &Row, dialect: &str, url: &str) -> (Vec<&'static str>, Done) {
    let place = place();
    let diff = |path: &str, old: Value, new: Value| match dialect {
        "2" => {
            let operation = if old.is_null() { "add" } else { "modify" };
            json!([{"type": "diff", "changes": [{"operation": operation, "path": path, "fileType": "text"}]}])
        }
        _ => json!([{"type": "diff", "path": path, "oldText": old, "newText": new}]),
    };
    let calls = [
        json!({"kind": "read", "locations": [{"path": "CWD/r.txt"}]}),
        json!({"kind": "edit", "locations": [{"path": "CWD/w.txt"}], "content": diff("CWD/w.txt", Value::Null, json!("new\n"))}),
        json!({"kind": "edit", "locations": [{"path": "CWD/e.txt"}], "content": diff("CWD/e.txt", json!("old\n"), json!("new\n"))}),
        json!({"kind": "move", "locations": [{"path": "CWD/m.txt"}, {"path": "CWD/n.txt"}]}),
        json!({"kind": "delete", "locations": [{"path": "CWD/d.txt"}]}),
        json!({"kind": "execute", "rawInput": {"command": "touch ran.txt"}}),
        json!({"kind": "fetch", "rawInput": {"url": format!("{url}/v1/models")}}),
        json!({"kind": "other", "name": "mcp__s__give"}),
    ];
    let requests = calls.into_iter().enumerate().map(|(at, mut call)| {
        call["toolCallId"] = format!("c{at}").into();
        call["title"] = KINDS[at].into();
        json!(["permission", {"title": KINDS[at], "call": call}])
    });
    let requests = Value::from(requests.collect::<Vec<_>>()).to_string();
    let flags = flags(row, url);
    let exec = place.agent("requests", dialect, &flags.iter().map(String::as_str).collect::<Vec<_>>());
    let done = exec.words(&[&requests]).run();
    let answers = done.told();
    let outcomes = answers.as_array().unwrap().iter().map(|answer| match answer["_meta"]["decidedBy"].as_str() {
        None if answer["optionId"] == "yes" => "done",
        Some("nobody could be asked") => "asked",
        Some(_) if answer["optionId"] == "no" => "refused",
        _ => "failed",
    });
    (outcomes.collect(), done)
}
