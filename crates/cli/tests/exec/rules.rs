//! Every rule of the protocol that a client has to keep, shown with the binary itself, in each dialect that has the rule.
//!
//! A row names its rules, the dialects, and what is checked. What cannot concern a client of one turn stands in [`NOT_HERE`]
//! with the reason. A test sees to it that every rule for clients is in one or the other.

use super::harness::{self, Done, Place, Row, alive, harmless, lines, mark, wait};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const ALL: &[&str] = &["1", "2-seed", "2"];
const V1: &[&str] = &["1"];
const BOTH_V2: &[&str] = &["2-seed", "2"];
const V2: &[&str] = &["2"];

/// Rules, dialects, check.
const ROWS: &[Row] = &[
    (
        "V1-INIT-01 V1-INIT-06 V1-INIT-09 V1-INIT-13 V1-RPC-01 V1-SESS-01 V1-PROMPT-01 V1-EXT-01 V1-EXT-02 V1-EXT-05 \
         V2-INIT-01 V2-INIT-06 V2-INIT-11 V2-INIT-12 V2-SESS-01 V2-PROMPT-01 V2-EXT-01 V2-EXT-05 V2-PLAN-04 V2-BATCH-02",
        ALL,
        what_is_sent,
    ),
    ("V1-INIT-05 V2-INIT-05", ALL, another_version),
    ("V1-INIT-07 V1-INIT-08 V1-SESS-20 V1-SESS-17 V2-INIT-07 V2-SESS-13", ALL, an_agent_that_offers_nothing),
    ("V2-INIT-10", BOTH_V2, an_agent_without_sessions),
    ("V1-INIT-12 V1-PERM-02 V1-PERM-04 V2-PERM-03", ALL, permission_is_answered),
    ("V1-PERM-07 V2-PERM-07", ALL, the_call_in_the_question_counts),
    ("V2-PERM-09", V2, an_unknown_subject),
    (
        "V1-RPC-02 V1-RPC-03 V1-RPC-04 V1-RPC-05 V1-RPC-06 V1-RPC-07 V1-RPC-08 V1-RPC-10 V1-RPC-12 V1-EXT-03 V1-EXT-04 \
         V1-EXT-06 V1-CANCEL-13 V2-EXT-04 V2-EXT-07",
        ALL,
        odd_messages,
    ),
    ("V1-RPC-11 V2-EXT-03 V2-EXT-02", ALL, unknown_updates),
    ("V1-RPC-09 V1-ERR-01 V1-ERR-02 V1-ERR-03 V1-ERR-04 V1-ERR-07 V1-FS-05 V1-TOOL-08 V2-TOOL-12", V1, bad_requests),
    ("V1-CANCEL-10 V1-CANCEL-11 V1-CANCEL-12 V2-CANCEL-10", ALL, a_withdrawn_question),
    ("V1-AUTH-02 V1-AUTH-04 V1-AUTH-06 V1-AUTH-07 V1-AUTH-14 V2-AUTH-02 V2-AUTH-03 V2-AUTH-05", ALL, logging_in),
    ("V1-AUTH-11", V1, a_terminal_login_without_a_terminal),
    ("V1-SESS-05 V1-SESS-14 V2-SESS-03", ALL, taking_up_only_where_offered),
    ("V1-SESS-21 V1-SESS-22 V2-SESS-16 V1-PROMPT-14", ALL, taking_up_with_all_folders),
    ("V1-SESS-10 V2-SESS-14", ALL, servers_only_of_offered_kinds),
    (
        "V1-PROMPT-02 V1-CONTENT-03 V1-CONTENT-04 V1-CONTENT-06 V2-PROMPT-02 V2-PROMPT-13",
        ALL,
        content_only_of_offered_kinds,
    ),
    ("V1-PROMPT-12", V1, messages_by_runs),
    ("V2-MSG-02 V2-MSG-03 V2-MSG-04 V2-MSG-05 V2-MSG-06 V2-EXT-06", BOTH_V2, messages_by_id),
    ("V1-CANCEL-01 V1-CANCEL-08 V1-ERR-05 V2-CANCEL-01 V2-CANCEL-07", ALL, a_cancel_and_what_comes_after),
    ("V1-CANCEL-02 V2-CANCEL-02", ALL, a_cancel_with_unfinished_calls),
    ("V1-CANCEL-03 V1-PERM-03 V2-PERM-02", ALL, a_cancel_with_an_open_question),
    ("V1-PROMPT-16", ALL, a_refusal),
    (
        "V1-TOOL-05 V1-TOOL-06 V1-TOOL-07 V1-TOOL-11 V2-TOOL-03 V2-TOOL-04 V2-TOOL-05 V2-TOOL-07 V2-TOOL-11",
        ALL,
        tool_calls,
    ),
    ("V2-TOOL-10", ALL, unknown_content),
    ("V1-FS-03 V1-FS-04 V1-FS-06 V1-FS-07 V1-FS-08", V1, files),
    ("V1-FS-09", V1, files_that_are_not_offered),
    (
        "V1-TERM-02 V1-TERM-04 V1-TERM-05 V1-TERM-06 V1-TERM-07 V1-TERM-08 V1-TERM-12 V1-TERM-14 V1-TERM-15",
        V1,
        terminals,
    ),
    ("V1-TERM-09 V1-TERM-10", V1, embedded_terminals),
    ("V1-MODE-02 V1-CONF-06 V1-CONF-07 V1-CONF-09 V1-CONF-10 V2-CONF-04", ALL, options),
    ("V1-PLAN-03 V2-PLAN-03", ALL, plans),
    ("V1-CMD-02 V2-CMD-04", ALL, commands),
    ("V1-ERR-06", ALL, unknown_codes),
    ("V1-ELIC-11 V1-NOTICE-03 V1-COMPACT-03 V2-COMPACT-01", ALL, notices_and_compaction),
    ("V2-SESS-09 V2-STATE-04 V2-STATE-06 V2-PROMPT-08", V2, states),
    ("V2-TERMD-02 V2-TERMD-03 V2-TERMD-04 V2-TERMD-06 V2-TERMD-07", V2, terminals_of_the_agent),
    ("V2-BATCH-01", &["1", "2-seed"], batches),
];

/// Rules that cannot concern this client, or are shown elsewhere, and why.
const NOT_HERE: &[(&str, &str)] = &[
    ("V1-AUTH-09", "it never logs out"),
    (
        "V1-AUTH-12 V2-AUTH-07 V1-ELIC-05 V1-ELIC-06 V1-ELIC-07 V1-ELIC-14 V2-ELIC-01",
        "need a person: shown at a real terminal in terminal.rs",
    ),
    ("V1-SESS-13", "it has no tools of its own to offer"),
    ("V1-LIST-01 V1-LIST-04 V1-LIST-07", "it lists no sessions of the agent; it has the journal"),
    ("V1-FS-02", "it has no editor, so nothing is unsaved"),
    ("V1-CONTENT-02", "text goes to a terminal or a pipe as it is; Markdown is readable so"),
    ("V1-EXT-07 V1-EXT-08", "it passes no messages on"),
    ("V2-PROMPT-14", "it sends one prompt"),
    ("V2-TOOL-16", "it cancels turns, never single calls or terminals"),
];

#[test]
fn rows() {
    harness::rows(ROWS);
}

#[test]
fn every_rule_for_clients_is_in_a_row_or_has_a_reason() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/rules.md")).unwrap();
    let wanted: BTreeSet<&str> = page
        .lines()
        .filter_map(|line| {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let ours = matches!(*cells.get(3)?, "client" | "both") && !cells[1].starts_with("TR-");
            (ours && cells[1].contains('-')).then_some(cells[1])
        })
        .collect();
    // Those that need a person are named by the tests at the terminal.
    let people = include_str!("terminal.rs").to_lowercase().replace('_', "-");
    let ids =
        NOT_HERE.iter().filter(|(_, why)| why.contains("terminal.rs")).flat_map(|(ids, _)| ids.split_whitespace());
    for id in ids {
        let (family, number) = id.rsplit_once('-').unwrap();
        let named = people.lines().filter(|line| line.starts_with("fn ")).any(|line| {
            line.find(&family.to_lowercase()).is_some_and(|at| {
                let rest = line[at + family.len()..].trim_start_matches('-');
                rest.split('-').take_while(|word| word.parse::<u8>().is_ok()).any(|word| word == number)
            })
        });
        assert!(named, "no test at the terminal names {id}");
    }
    let rows = ROWS.iter().flat_map(|(ids, ..)| ids.split_whitespace());
    let mut listed: Vec<&str> = rows.chain(NOT_HERE.iter().flat_map(|(ids, _)| ids.split_whitespace())).collect();
    listed.sort_unstable();
    let all: BTreeSet<&str> = listed.iter().copied().collect();
    assert!(wanted.len() > 150, "{}", wanted.len());
    assert_eq!(all.len(), listed.len(), "a rule is listed twice");
    assert_eq!(wanted.difference(&all).collect::<Vec<_>>(), Vec::<&&str>::new(), "not covered");
    assert_eq!(all.difference(&wanted).collect::<Vec<_>>(), Vec::<&&str>::new(), "no such rule for clients");
}

fn turn(behaviour: &str, dialect: &str, flags: &[&str], words: &[&str]) -> Done {
    Place::new().agent(behaviour, dialect, flags).words(words).run()
}

fn what_is_sent(dialect: &str) {
    let done = turn("hello", dialect, &[], &[]).ends(0);
    assert!(done.log.iter().all(|message| message["jsonrpc"] == "2.0" && message.is_object()), "{done:#?}");
    let methods: Vec<&str> = done.log.iter().filter_map(|message| message["method"].as_str()).collect();
    assert_eq!(methods[..3], ["initialize", "session/new", "session/prompt"], "{done:#?}");
    assert_eq!(methods.iter().filter(|method| **method == "initialize").count(), 1);
    let hello = &done.log[0]["params"];
    let (version, who, can) = match dialect {
        "1" => (1, "clientInfo", "clientCapabilities"),
        "2-seed" => (2, "clientInfo", "capabilities"),
        _ => (2, "info", "capabilities"),
    };
    assert_eq!(hello["protocolVersion"], version);
    assert_eq!(hello[who]["name"], "tieline", "{hello}");
    assert!(hello[who]["version"].is_string() && hello[can].is_object(), "{hello}");
    assert!(done.sent("session/new")[0]["params"]["cwd"].as_str().unwrap().starts_with('/'));
    let known = [
        "sessionId",
        "prompt",
        "cwd",
        "mcpServers",
        "additionalDirectories",
        "protocolVersion",
        "info",
        "capabilities",
        "clientInfo",
        "clientCapabilities",
        "_meta",
    ];
    for message in &done.log {
        let keys = message["params"].as_object().into_iter().flat_map(|params| params.keys());
        assert!(keys.into_iter().all(|key| known.contains(&key.as_str())), "{message}");
    }
}

fn another_version(dialect: &str) {
    let done = turn("other_version", dialect, &[], &[]).ends(1);
    done.err_has("version 77").err_has("--protocol");
    assert!(done.sent("session/new").is_empty());
}

fn an_agent_that_offers_nothing(dialect: &str) {
    let place = Place::new();
    std::fs::create_dir(place.path("other")).unwrap();
    let done = place.agent("setup", dialect, &["--add-dir", "../other"]).words(&["bare"]).run().ends(0);
    assert_eq!(done.told().get("additionalDirectories"), None, "{done:#?}");
    // In current v2 every agent with sessions can close them.
    assert_eq!(done.sent("session/close").is_empty(), dialect != "2", "{done:#?}");
    done.err_has("other");
    assert_eq!(turn("setup", dialect, &[], &[]).ends(0).sent("session/close").len(), 1);
}

fn an_agent_without_sessions(dialect: &str) {
    let done = turn("hello", dialect, &[], &["no-session"]).ends(1);
    done.err_has("does not offer sessions");
    assert!(done.sent("session/new").is_empty());
}

fn permission_is_answered(dialect: &str) {
    let answers: Vec<Value> = ["--allow-all", "--deny-all"]
        .iter()
        .map(|flag| {
            let done = turn("ask_once", dialect, &[flag], &[]);
            done.log.iter().find(|message| message["result"]["outcome"].is_object()).unwrap()["result"].clone()
        })
        .collect();
    assert_eq!(answers[0], json!({"outcome": {"outcome": "selected", "optionId": "yes"}}));
    let by = json!({"decidedBy": "preset deny-all"});
    assert_eq!(answers[1], json!({"outcome": {"outcome": "selected", "optionId": "no", "_meta": by}}));
}

fn the_call_in_the_question_counts(dialect: &str) {
    let events = turn("ask_once", dialect, &["--format", "stream-json"], &[]).events();
    assert!(events.iter().any(|event| event["type"] == "tool" && event["title"] == "Do it"), "{events:#?}");
    turn("only_allow", dialect, &[], &[]).err_has("Do it");
}

fn an_unknown_subject(dialect: &str) {
    let done = Place::new()
        .exec(&["go", "--protocol", dialect])
        .words(&["python3", &super::harness::script("habits.py"), "subject", dialect])
        .run();
    assert_eq!(done.told()["subject"]["optionId"], "no");
}

fn odd_messages(dialect: &str) {
    let done = turn("odd_rpc", dialect, &[], &[]).ends(0);
    done.out_has("said; ").out_has("[-32601, -32601]");
    // Nothing but those two requests was answered.
    let answers = done.log.iter().filter(|message| message.get("method").is_none()).count();
    assert_eq!(answers, 2, "{done:#?}");
    turn("strange_requests", dialect, &[], &[]).ends(0).out_has("[-32601, -32601, -32601]");
}

fn unknown_updates(dialect: &str) {
    let done = turn("unknown_updates", dialect, &["--format", "stream-json"], &[]).ends(0);
    assert!(done.events().iter().any(|event| event["update"]["sunny"] == true), "{done:#?}");
}

fn bad_requests(dialect: &str) {
    let done = turn("bad_requests", dialect, &["--allow-all"], &[]).ends(0);
    assert_eq!(done.told(), json!([-32602, -32602, -32602, -32002, -32602]), "{done:#?}");
    let errors: Vec<_> = done.log.iter().filter(|message| message.get("error").is_some()).collect();
    assert!(
        errors.iter().all(|error| error.to_string().len() < 400 && !error.to_string().contains("panic")),
        "{errors:?}"
    );
}

fn a_withdrawn_question(dialect: &str) {
    let done = turn("withdrawn", dialect, &["--deny-all"], &[]);
    // Once: as withdrawn, or as decided just before.
    let answers: Vec<_> = done.log.iter().filter(|message| message.get("method").is_none()).collect();
    assert_eq!(answers.len(), 1, "{done:#?}");
    assert_eq!(done.told()["outcome"]["outcome"], "cancelled", "{done:#?}");
}

fn logging_in(dialect: &str) {
    let method = if dialect == "2" { "auth/login" } else { "authenticate" };
    let done = turn("login", dialect, &["--login", "key"], &[]).ends(0);
    assert_eq!(done.sent(method)[0]["params"]["methodId"], "key");
    assert_eq!(done.sent("session/new").len(), 2, "asked, logged in, asked again");
    assert!(done.sent("logout").is_empty() && done.sent("auth/logout").is_empty());
    assert!(turn("login", dialect, &["--login", "other"], &[]).ends(6).sent(method).is_empty());
    // Methods alone mean nothing.
    let done = turn("login_at_load", dialect, &["--login", "key"], &[]).ends(0);
    assert!(done.sent(method).is_empty());
}

fn a_terminal_login_without_a_terminal(dialect: &str) {
    let place = Place::new();
    let token = place.path("token").display().to_string();
    let done = place.agent("terminal_login", dialect, &["--login", "shell"]).words(&[&token]).run().ends(6);
    assert!(done.sent("authenticate").is_empty() && done.sent("auth/login").is_empty());
}

fn taking_up_only_where_offered(dialect: &str) {
    let place = Place::new();
    place.agent("hello", dialect, &["-s", "x"]).run().ends(0);
    let done = place.agent("hello", dialect, &["-s", "x"]).words(&["bare"]).run();
    if dialect == "2" {
        // There it comes with sessions.
        assert_eq!(done.ends(0).sent("session/resume").len(), 1);
    } else {
        let done = done.ends(8);
        assert!(done.sent("session/load").is_empty() && done.sent("session/resume").is_empty());
    }
}

fn taking_up_with_all_folders(dialect: &str) {
    let place = Place::new();
    std::fs::create_dir(place.path("other")).unwrap();
    place.agent("hello", dialect, &["-s", "x", "--add-dir", "../other"]).run().ends(0);
    let told = place.agent("setup", dialect, &["-s", "x"]).run().ends(0).told();
    assert_eq!(told["additionalDirectories"], json!([place.path("other")]), "{told}");
    assert_eq!((&told["cwd"], &told["sessionId"]), (&json!(place.project()), &json!("s1")));
}

fn servers_only_of_offered_kinds(dialect: &str) {
    let place = Place::new();
    place.write("mcp.json", r#"{"mcpServers": {"old": {"type": "sse", "url": "https://example.org"}}}"#);
    let done = place.agent("hello", dialect, &["--mcp-config", "mcp.json"]).run().ends(1);
    done.err_has("MCP servers of the kind");
    assert!(done.sent("session/new").is_empty(), "{done:#?}");
}

fn content_only_of_offered_kinds(dialect: &str) {
    let place = Place::new();
    place.write("a.txt", "text\n");
    std::fs::write(place.project().join("dot.gif"), b"GIF89a").unwrap();
    let told = place.agent("echo", dialect, &["-f", "a.txt", "-i", "dot.gif"]).run().ends(0).told();
    assert!(told[1]["type"] == "resource_link" && told[2]["type"] == "resource_link", "{told}");
    let told = place.agent("echo", dialect, &["-f", "a.txt", "-i", "dot.gif"]).words(&["embed", "image"]).run().told();
    assert_eq!((&told[1]["resource"]["text"], &told[2]["data"]), (&json!("text\n"), &json!("R0lGODlh")), "{told}");
    assert!(told[1]["resource"].get("blob").is_none());
}

fn messages_by_runs(dialect: &str) {
    let object = turn("messages", dialect, &["--format", "json"], &[]).ends(0).object();
    assert_eq!(object["text"], "one two\n\nthree four");
}

fn messages_by_id(dialect: &str) {
    let object = turn("messages", dialect, &["--format", "json"], &[]).ends(0).object();
    assert_eq!(object["text"], "one two\n\nthree four");
}

fn a_cancel_and_what_comes_after(dialect: &str) {
    let place = Place::new();
    let run = place.agent("late_cancel", dialect, &["--format", "stream-json"]).start();
    run.until_out("working");
    run.signal("INT");
    let done = run.done().ends(130);
    let end = done.events().pop().unwrap();
    assert!(end["text"].as_str().unwrap().ends_with(", late") && end["stop_reason"] == "cancelled", "{done:#?}");
    assert!(done.events().iter().any(|event| event["title"] == "Late"), "{done:#?}");
}

fn a_cancel_with_unfinished_calls(dialect: &str) {
    let place = Place::new();
    let run = place.agent("unfinished", dialect, &["--format", "stream-json"]).start();
    run.until_out("working");
    run.signal("INT");
    // The agent does not say another word.
    let done = run.done().ends(130);
    let cancelled = |event: &&Value| event["type"] == "tool" && event["status"] == "cancelled";
    let events = done.events();
    let ids: Vec<_> = events.iter().filter(cancelled).map(|event| &event["id"]).collect();
    assert_eq!(ids, ["c1", "c2"], "{done:#?}");
}

fn a_refusal(dialect: &str) {
    let done = turn("refusal", dialect, &[], &[]).ends(10);
    done.err_has("the agent refused").err_has("no part of the conversation any more");
}

fn a_cancel_with_an_open_question(dialect: &str) {
    // Nobody answers this one: the rule leaves it open, and the person is the test.
    let place = Place::new();
    let mut command = std::process::Command::new("python3");
    place.surround(&mut command);
    let steps = json!([["n no", 200, "\u{3}"]]).to_string();
    command.args([&super::harness::script("at_terminal.py"), &steps, env!("CARGO_BIN_EXE_tieline"), "exec", "go"]);
    command.args([
        "--protocol",
        dialect,
        "--",
        "python3",
        &super::harness::script("agent.py"),
        "waits_asking",
        dialect,
    ]);
    command.current_dir(place.project()).output().unwrap();
    let log = std::fs::read_to_string(place.path("log")).unwrap();
    assert!(log.contains(r#""outcome": "cancelled""#), "{log}");
}

fn tool_calls(dialect: &str) {
    let events = turn("tools", dialect, &["--format", "stream-json"], &[]).ends(0).events();
    let calls: Vec<&Value> = events.iter().filter(|event| event["type"] == "tool").collect();
    assert_eq!((&calls[0]["kind"], &calls[0]["status"]), (&json!("other"), &json!("pending")));
    assert_eq!((&calls[1]["files"], calls[1]["content"].as_array().unwrap().len()), (&json!(["/a", "/b"]), 2));
    assert_eq!((&calls[2]["files"], &calls[2]["title"]), (&json!(["/c"]), &json!("First")), "replaced, and kept");
    let last = calls.last().unwrap();
    let pieces = if dialect == "1" { 2 } else { 3 };
    assert_eq!((&last["status"], last["content"].as_array().unwrap().len()), (&json!("completed"), pieces));
    // In version 1 `null` leaves the title alone, later it unsets it.
    assert_eq!(last["title"], if dialect == "1" { json!("First") } else { Value::Null });
    let napping = calls[calls.len() - 2];
    assert_eq!(napping["kind"], "_invented", "{napping}");
}

fn unknown_content(dialect: &str) {
    turn("unknown_content", dialect, &[], &[]).ends(0).err_has("hologram").err_has("smell");
    let done = turn("unknown_content", dialect, &["--format", "acp"], &[]).ends(0);
    done.out_has("coffee");
}

fn files(dialect: &str) {
    let place = Place::new();
    place.write("lines.txt", &lines(1..101));
    let told = place.agent("files", dialect, &["--allow-edits"]).run().told();
    let ten = lines(10..15);
    assert_eq!(told["reads"], json!([ten, "", "", "line 99\nline 100\n", -32602]), "{told}");
    assert_eq!(told["missing"], -32002);
    assert_eq!((&told["relative"], &told["outside"], &told["made"]), (&json!(-32602), &json!(-32003), &json!(true)));
    assert_eq!(place.read("new/deep/file.txt").unwrap(), "x");
}

fn files_that_are_not_offered(dialect: &str) {
    let place = Place::new();
    let done = place.agent("read_file", dialect, &["--no-fs"]).words(&["/x"]).run();
    assert_eq!(done.told()["error"]["code"], -32601);
}

fn terminals(dialect: &str) {
    let (place, mark) = (Place::new(), mark("terminals"));
    let done = place.agent("terminals", dialect, &["--allow-all"]).env("MARK", &mark).run().ends(0);
    let told = done.told();
    assert_eq!(told["early"], Value::Null, "{told}");
    assert_eq!(told["exits"][0], told["exits"][1]);
    assert!(told["exits"][0]["exitCode"].is_null() && told["exits"][0]["signal"].is_string(), "{told}");
    assert_eq!(told["after"], "begun\n");
    assert_eq!(told["gone"], json!([-32002, -32002, -32002, -32002]));
    assert_eq!(told["short"], json!(["ééééé", true]), "{told}");
    assert_eq!((&told["folder"], &told["relative"]), (&json!(true), &json!(-32602)));
    wait("the end of the terminals", || !alive(&mark));
}

fn embedded_terminals(dialect: &str) {
    let command = r#"{"command": "sh", "args": ["-c", "echo out of the terminal"]}"#;
    turn("terminal", dialect, &["--allow-all"], &[command]).ends(0).err_has("  out of the terminal");
}

fn options(dialect: &str) {
    let done = turn("settings", dialect, &["--mode", "auto"], &[]).ends(0);
    assert_eq!(done.sent("session/set_config_option").len(), 1, "options before modes: {done:#?}");
    let done = turn("settings", dialect, &["--mode", "fly"], &[]).ends(2);
    assert!(done.sent("session/set_mode").is_empty() && done.sent("session/set_config_option").is_empty());
}

fn plans(dialect: &str) {
    let done = turn("plans", dialect, &[], &[]).ends(0);
    let second = &done.err[done.err.rfind("plan\n").unwrap()..];
    assert!(second.contains("Second") && !second.contains("First"), "{done:#?}");
}

fn commands(dialect: &str) {
    let place = Place::new();
    let exec = place.exec(&["/explain  this ", "--protocol", dialect]);
    let done = exec.words(&["python3", &super::harness::script("agent.py"), "echo", dialect]).run().ends(0);
    assert_eq!(done.told()[0]["text"], "/explain  this ");
}

fn unknown_codes(dialect: &str) {
    let done = turn("error", dialect, &["--format", "json"], &["12345"]).ends(1);
    assert_eq!(done.object()["error"]["rpc_code"], 12345, "{done:#?}");
}

fn notices_and_compaction(dialect: &str) {
    turn("notices", dialect, &[], &[]).ends(0).out_has("noticed").err_has("Mind the gap");
}

fn states(dialect: &str) {
    let object = turn("states", dialect, &["--format", "json"], &[]).ends(0).object();
    assert_eq!((&object["text"], &object["stop_reason"]), (&json!("still here"), &json!("_tired")));
}

fn terminals_of_the_agent(dialect: &str) {
    let done = turn("display", dialect, &[], &[]).ends(0);
    done.err_has("héllo").err_has("$ show");
    assert!(harmless(&done.err), "{done:#?}");
}

fn batches(dialect: &str) {
    turn("batch", dialect, &[], &[]).ends(0).out_has("in a batch");
}
