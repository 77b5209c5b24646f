//! Servers that don't start, die, hang, flood or lie: each costs a notice and its tools, never the session.

use super::common::{Client, DIALECTS, Place, SOON, runs};
use super::servers::{self, bad, everything, stdio};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// An agent with one bad server that has started.
fn open(place: &Place, dialect: &'static str, way: &str, can: &Value) -> Client {
    let mut client = Client::start_with(place, dialect, &["--script", "puppet"], &[], can.clone());
    servers::open(&mut client, place, &json!([bad(way, &[("KEY", "its-secret-key"), ("MARK", "7731.4")])]));
    client
}

/// All that the client was told so far, as one text.
fn told(client: &Client) -> String {
    Value::from(client.updates.clone()).to_string()
}

/// Waits until something is true.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < SOON, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn v1_sess_26_a_server_that_does_not_start_costs_a_notice() {
    let no_such = stdio("gone", "/no/such/program", &[], &[("KEY", "its-secret-key")]);
    for (server, limit, words) in [
        (no_such, "60", vec!["MCP server `gone` could not be started", "there is no such file"]),
        (bad("quits", &[("KEY", "its-secret-key")]), "60", vec!["exited with status 3", "can't work with (hidden)"]),
        (bad("silent", &[]), "3", vec!["it did not answer within 3 s", "still thinking"]),
        (
            json!({"type": "http", "name": "h", "url": "http://127.0.0.1:1/mcp", "headers": []}),
            "60",
            vec!["can't connect"],
        ),
        (json!({"type": "http", "name": "h", "url": "nonsense", "headers": []}), "60", vec!["must begin with http"]),
    ] {
        for dialect in DIALECTS {
            let place = Place::new();
            let mut client = Client::start(&place, dialect, &["--script", "puppet", "--mcp-timeout", limit]);
            client.new_session(&place, &json!([server]));
            assert_eq!(client.prompt("say and yet it moves"), "end_turn");
            let told = told(&client);
            for word in words.iter().chain(&["The session goes on without it.", "and yet it moves"]) {
                assert!(told.contains(word), "{dialect}: {word:?} is not in {told}");
            }
            assert!(!told.contains("its-secret-key") && !told.contains("\\u001b"), "{dialect}: {told}");
            let notice = client.kinds().iter().any(|kind| kind == "notice_update" || kind == "notice");
            assert_eq!(notice, dialect == "2", "{dialect}: {:?}", client.kinds());
        }
    }
}

#[test]
fn a_session_does_not_wait_for_a_server_that_never_answers() {
    let place = Place::new();
    let mut client = Client::start(&place, "1", &["--script", "puppet", "--mcp-timeout", "3600"]);
    client.new_session(&place, &json!([bad("silent", &[])]));
    assert_eq!(client.prompt("say and yet it moves"), "end_turn");
    client.prompt("/mcp");
    assert!(client.said().contains("`bad` (stdio) is starting"), "{}", client.said());
    assert!(client.hang_up().success());
}

#[test]
fn a_call_that_is_never_answered_ends() {
    let place = Place::new();
    let mut client = Client::start(&place, "2", &["--script", "puppet", "--mcp-call-timeout", "1"]);
    servers::open(&mut client, &place, &json!([bad("plain", &[])]));
    client.prompt("mcp bad hang {}\nresult");
    assert!(client.said().contains("did not answer: nothing came for 1 s"), "{}", client.said());
    until("the server hears that nobody waits", || place.project().join("cancelled.txt").exists());
}

#[test]
fn a_server_that_hangs_costs_a_notice_and_is_started_again() {
    for dialect in DIALECTS {
        let place = Place::new();
        let mut client = Client::start(&place, dialect, &["--script", "puppet", "--mcp-call-timeout", "1"]);
        servers::open(&mut client, &place, &json!([bad("plain", &[])]));
        let id = client.begin("mcp bad freeze {}\nresult\nwait");
        let words = "MCP server `bad` is gone: it does not answer any more. It is started again.";
        client.until(|message| message["params"]["update"].to_string().contains(words));
        client.cancel();
        client.end(id);
        assert!(client.said().contains("did not answer: nothing came for 1 s"), "{dialect}: {}", client.said());
        servers::settle(&mut client);
        client.prompt("mcp bad ok {}\nresult");
        assert!(client.said().contains("all is well"), "{dialect}: {}", client.said());
    }
}

#[test]
fn a_server_that_dies_is_started_again_once() {
    let place = Place::new();
    let mut client = open(&place, "2", "plain", &json!({}));
    for round in 1..=2 {
        client.updates.clear();
        client.prompt("mcp bad ok {}\nresult");
        assert!(client.said().contains("all is well"), "{round}: {}", client.said());
        assert_eq!(client.prompt("mcp bad die {}\nresult"), "end_turn");
        let said = client.said();
        assert!(said.contains("The MCP server `bad` did not answer: it has ended"), "{round}: {said}");
        let again = if round == 1 { "It is started again." } else { "The session goes on without it." };
        if !told(&client).contains(again) {
            client.until(|message| message["params"].to_string().contains(again));
        }
        let told = told(&client);
        assert!(told.contains("is gone: it exited with status 9"), "{round}: {told}");
        assert!(told.contains("last words of a server with (hidden)"), "{round}: {told}");
        assert!(!told.contains("its-secret-key") && !told.contains("[31m"), "{round}: {told}");
    }
    client.updates.clear();
    client.prompt("mcp bad ok {}\nresult");
    assert!(client.said().contains("The MCP server `bad` can't be used: it exited with status 9"), "{}", client.said());
    client.prompt("/mcp");
    assert!(client.said().contains("`bad` (stdio) can't be used"), "{}", client.said());
}

#[test]
fn a_server_of_the_project_that_dies_is_not_started_again() {
    let place = Place::new();
    let mut server = bad("plain", &[]);
    std::fs::copy(server["args"][0].as_str().unwrap(), place.project().join("bad.py")).unwrap();
    server["args"][0] = json!("bad.py");
    let mut client = Client::start(&place, "2", &["--script", "puppet"]);
    servers::open(&mut client, &place, &json!([server]));
    client.prompt("mcp bad die {}\nresult");
    let words = "It takes code from this folder";
    if !told(&client).contains(words) {
        client.until(|message| message["params"].to_string().contains(words));
    }
    client.prompt("/mcp");
    assert!(client.said().contains("`bad` (stdio) can't be used"), "{}", client.said());
}

#[test]
fn a_cancel_reaches_the_server_and_waits_for_nothing() {
    for dialect in DIALECTS {
        let place = Place::new();
        let mut client = open(&place, dialect, "plain", &json!({}));
        let id = client.begin("mcp bad hang {}");
        client.until(|message| message["params"].to_string().contains("in_progress"));
        client.cancel();
        // The server never answers.
        assert_eq!(client.end(id), "cancelled", "{dialect}");
        until("the server hears of it", || place.project().join("cancelled.txt").exists());
        until("with the number of the request", || place.read("cancelled.txt").contains("requestId"));
        client.prompt("mcp bad ok {}\nresult");
        assert!(client.said().contains("all is well"), "{dialect}: {}", client.said());
    }
}

#[test]
fn results_that_are_too_large_or_can_not_be_read() {
    let place = Place::new();
    let mut client = open(&place, "1", "noisy", &json!({}));
    for (tool, expect) in [
        ("huge", "could not be read, or was too long"),
        ("big", "(cut here: the whole text has 1048576 bytes)"),
        ("broken", "could not be read, or was too long"),
        ("odd", "answered with something else than a result"),
        ("refuse", "refused: not today, (hidden)"),
        ("chatty", "all is well"),
        ("ok", "all is well"),
    ] {
        client.updates.clear();
        assert_eq!(client.prompt(&format!("mcp bad {tool} {{}}\nresult")), "end_turn", "{tool}");
        let said = client.said();
        assert!(said.contains(expect), "{tool}: {}", said.chars().take(300).collect::<String>());
        assert!(said.len() < 60_000, "{tool}: {} bytes", said.len());
    }
}

#[test]
fn a_server_that_talks_all_the_time_holds_nobody_up() {
    let place = Place::new();
    let mut client = Client::start(&place, "2", &["--script", "puppet"]);
    servers::open(&mut client, &place, &json!([bad("flood", &[]), everything()]));
    for _ in 0..3 {
        client.updates.clear();
        client.prompt("mcp bad ok {}\nresult\nmcp everything echo {\"message\": \"still here\"}\nresult");
        let said = client.said();
        assert!(said.contains("all is well") && said.contains("Echo: still here"), "{said}");
    }
    assert!(client.hang_up().success());
}

#[test]
fn a_list_that_changes_all_the_time_is_told_once() {
    let place = Place::new();
    let mut client = open(&place, "2", "storm", &json!({}));
    for _ in 0..20 {
        client.prompt("mcp bad ok {}\nresult");
    }
    let storm = client.updates.iter().filter(|update| update.to_string().contains("1 tools are left out")).count();
    assert_eq!(storm, 1, "{:?}", client.kinds());
}

#[test]
fn what_is_too_long_in_a_stream_of_events_is_passed_over() {
    let server = servers::Listening::web("long");
    let place = Place::new();
    let mut client = Client::start(&place, "1", &["--script", "puppet"]);
    servers::open(&mut client, &place, &json!([server.entry("http", "/mcp")]));
    until("what follows is heard", || {
        client.updates.clear();
        client.prompt("mcp everything grown {}\nresult");
        client.said().contains("\"GET\": 1,")
    });
}

#[test]
fn a_session_that_a_server_forgets_is_begun_anew() {
    let server = servers::Listening::web("forgets");
    let place = Place::new();
    let mut client = Client::start(&place, "2", &["--script", "puppet"]);
    servers::open(&mut client, &place, &json!([server.entry("http", "/mcp")]));
    client.prompt("mcp everything forget {}\nresult\nmcp everything count {}\nresult");
    let said = client.said();
    assert!(said.contains("\"initialize\": 1}") && said.contains("\"initialize\": 2}"), "{said}");
    until("its tools are listed again", || {
        client.updates.clear();
        client.prompt("mcp everything after {}\nresult");
        client.said().contains("\"initialize\": 2}")
    });
}

#[test]
fn a_server_that_asks_and_never_listens_fills_no_memory() {
    let place = Place::new();
    let mut client = Client::start(&place, "2", &["--script", "puppet", "--mcp-timeout", "8"]);
    client.new_session(&place, &json!([bad("deaf", &[])]));
    client.prompt("say still here");
    let told = told(&client);
    assert!(told.contains("it did not answer within 8 s") && told.contains("still here"), "{told}");
    assert!(client.memory() < 24 << 10, "{} KiB", client.memory());
}

#[test]
fn a_list_that_changes() {
    let place = Place::new();
    let mut client = open(&place, "1", "plain", &json!({}));
    client.prompt("mcp bad grown {}\nresult");
    assert!(client.said().contains("There is no tool `mcp__bad__grown`"), "{}", client.said());
    client.prompt("mcp bad grow {}");
    until("the tool appears", || {
        client.updates.clear();
        client.prompt("mcp bad grown {}\nresult");
        client.said().contains("grown indeed")
    });
}

#[test]
fn lists_without_end_and_odd_names() {
    let place = Place::new();
    let mut client = open(&place, "1", "many", &json!({}));
    let said = client.said();
    assert!(said.contains("tools are left out"), "{said}");
    assert_eq!(said.matches("`tool-").count(), 100, "{said}");
    client.prompt("mcp bad tool-0-7 {}\nresult");
    assert!(client.said().contains("grown indeed"), "{}", client.said());

    let mut client = open(&place, "2", "names", &json!({}));
    client.prompt("mcp bad dup {}\nresult\nmcp bad ok {}\nresult");
    assert!(client.said().contains("grown indeed") && client.said().contains("all is well"), "{}", client.said());
    client.prompt("/mcp");
    let said = client.said();
    assert!(said.contains("`evil`") && said.contains("`a b/c`"), "{said}");
    assert!(!said.contains('\u{1b}') && !said.contains('\u{202e}') && said.len() < 10_000, "{said}");
}

#[test]
fn questions_of_servers() {
    let place = Place::new();
    let can = json!({"elicitation": {"form": {}}});
    let mut client = open(&place, "1", "asks", &can);
    client.fill = json!({"action": "accept", "content": {"word": "swordfish"}});
    client.prompt("mcp bad ask {}\nresult");
    assert!(client.said().contains("swordfish"), "{}", client.said());
    // Only the question that belongs to a call was passed on, and it says who asks.
    assert_eq!(client.forms.len(), 1, "{:?}", client.forms);
    assert_eq!(client.forms[0]["message"], "The MCP server `bad` asks: Which word?");
    // Five at once: who comes while one stands is declined. They may happen to come one after the other.
    let declined = (0..10).any(|_| {
        client.updates.clear();
        client.prompt("mcp bad crowd {}\nresult");
        let said = client.said();
        assert!(said.contains("\"accept\""), "{said}");
        said.contains("\"decline\"")
    });
    assert!(declined, "one at a time");
    client.updates.clear();
    client.prompt("mcp bad sample {}\nresult");
    assert!(client.said().contains("-32601"), "the model is not for servers: {}", client.said());
    // A client that shows no forms.
    let mut client = open(&place, "1", "plain", &json!({}));
    client.prompt("mcp bad ask {}\nresult");
    assert!(client.said().contains("\"decline\"") && client.forms.is_empty(), "{}", client.said());
}

#[test]
fn nothing_of_a_server_is_left() {
    let place = Place::new();
    let mut client = open(&place, "1", "family", &json!({}));
    client.prompt("mcp bad ok {}\nresult");
    assert!(client.said().contains("all is well"), "{}", client.said());
    assert!(runs("sleep\x007731.4"));
    let session = client.session.clone();
    client.call("session/close", json!({"sessionId": session}));
    until("the server ends with its session", || !runs("sleep\x007731.4"));

    let mut client = open(&place, "1", "family", &json!({}));
    client.prompt("mcp bad ok {}\nresult");
    assert!(runs("sleep\x007731.4"));
    assert!(client.hang_up().success());
    until("the server ends with the agent", || !runs("sleep\x007731.4"));

    let mut client = open(&place, "1", "family", &json!({}));
    client.prompt("mcp bad ok {}\nresult");
    assert!(runs("sleep\x007731.4"));
    // Killed, not asked.
    drop(client);
    until("the server ends with an agent that was killed", || !runs("sleep\x007731.4"));
}

#[test]
fn two_servers_of_one_name() {
    let place = Place::new();
    let mut client = Client::start(&place, "1", &["--script", "puppet"]);
    servers::open(&mut client, &place, &json!([bad("plain", &[]), bad("plain", &[])]));
    client.prompt("mcp bad ok {}\nresult");
    let said = client.said();
    assert!(said.contains("is not used: another one has its name") && said.contains("all is well"), "{said}");
}
