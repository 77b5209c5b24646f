//! MCP servers of a session: which are connected, and what goes through them.

use crate::bench::{ALL, Bench, NOT_SEED, Row, V2, check, row};
use crate::common::{Client, Reply};
use crate::servers::{self, Listening, everything, stdio, which};
use serde_json::{Value, json};

/// The scripted server under a name: see `server.py`.
fn scripted(name: &str) -> Value {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/rules/server.py");
    stdio(name, &which("python3"), &[script], &[])
}

/// A puppet whose session has these servers.
fn puppet(b: &Bench, can: Value, servers: &Value) -> Client {
    let mut client = b.other(can, &["--script", "puppet"]);
    servers::open(&mut client, &b.place, servers);
    client.updates.clear();
    client
}

/// Calls a tool; gives what the model was told.
fn call(client: &mut Client, server: &str, tool: &str, arguments: &Value) -> String {
    client.updates.clear();
    assert_eq!(client.prompt(&format!("mcp {server} {tool} {arguments}\nresult")), "end_turn");
    client.said()
}

fn text(words: &str) -> Value {
    json!({"content": [{"type": "text", "text": words}]})
}

/// The questions that the client was asked.
fn questions(client: &Client) -> Vec<Value> {
    let asked = client.heard.iter().filter(|message| message["method"] == "elicitation/create");
    asked.map(|message| message["params"].clone()).collect()
}

/// The pages that the client was told to be done, as they were told.
fn done(client: &Client) -> Vec<Value> {
    let told = client.heard.iter().filter(|message| message["method"] == "elicitation/complete");
    told.map(|message| message["params"].clone()).collect()
}

/// A client that agrees to visit pages, and says more than that.
fn visitor(b: &Bench, servers: &Value) -> Client {
    let mut client = puppet(b, json!({"elicitation": {"form": {}, "url": {}}}), servers);
    client.serve = Some(Box::new(|message| {
        let accept = json!({"action": "accept", "content": {"token": "s3cret-token"}});
        (message["method"] == "elicitation/create").then_some(Reply::Result(accept))
    }));
    client
}

pub const ROWS: &[Row] = &[
    row(&["V1-SESS-09", "V1-SESS-11"], ALL, |b| {
        let mut client = puppet(b, json!({}), &json!([scripted("one"), everything(), scripted("two")]));
        for server in ["one", "two"] {
            let said = call(&mut client, server, "give", &text(&format!("from {server}")));
            assert!(said.contains(&format!("from {server}")), "{said}");
        }
        let said = call(&mut client, "everything", "get-sum", &json!({"a": 20, "b": 22}));
        assert!(said.contains("42"), "{said}");
    }),
    row(&["V1-SESS-12"], ALL, |b| {
        let server = Listening::everything("streamableHttp");
        let mut client = puppet(b, json!({}), &json!([server.entry("http", "/mcp")]));
        let said = call(&mut client, "everything", "echo", &json!({"message": "over the network"}));
        assert!(said.contains("Echo: over the network"), "{said}");
        let mcp = if b.is("1") { "/agentCapabilities/mcpCapabilities/http" } else { "/capabilities/session/mcp/http" };
        let offered = client.hello.pointer(mcp).unwrap();
        assert!(offered == &json!(true) || offered.is_object(), "{offered}");
    }),
    row(&["V2-SESS-15"], V2, |b| {
        let mut client = puppet(b, json!({}), &json!([scripted("kept"), scripted("left")]));
        for server in ["kept", "left"] {
            let said = call(&mut client, server, "give", &text("here"));
            assert!(said.contains("here"), "{server}: {said}");
        }
        let session = client.session.clone();
        client.call("session/close", json!({"sessionId": session}));
        for (servers, kept) in [(json!([scripted("kept")]), true), (json!([]), false)] {
            let params = json!({"sessionId": session, "cwd": b.place.project(), "mcpServers": servers});
            client.call("session/resume", params);
            servers::settle(&mut client);
            let said = call(&mut client, "kept", "give", &text("still here"));
            assert_eq!(said.contains("still here"), kept, "{said}");
            let said = call(&mut client, "left", "give", &text("still here"));
            assert!(said.contains("There is no tool"), "{said}");
        }
    }),
    row(&["V1-CONTENT-05"], ALL, |b| {
        let note = json!({"audience": ["user"], "priority": 0.5});
        let blocks = json!([
            {"type": "text", "text": "  as *it* is\n\t", "annotations": note},
            {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"},
            {"type": "audio", "data": "AAEC", "mimeType": "audio/wav"},
            {"type": "resource_link", "uri": "file:///a b", "name": "a", "title": "A", "description": "d", "mimeType": "text/plain", "size": 7},
            {"type": "resource", "resource": {"uri": "x://t", "mimeType": "text/x", "text": "ä\n"}},
            {"type": "resource", "resource": {"uri": "x://b", "blob": "AAEC"}},
        ]);
        let mut client = puppet(b, json!({}), &json!([scripted("one")]));
        call(&mut client, "one", "give", &json!({"content": blocks}));
        let told =
            client.updates.iter().rev().find_map(|update| update["content"].as_array().filter(|list| list.len() == 6));
        let told: Vec<&Value> = told.unwrap().iter().map(|item| &item["content"]).collect();
        assert_eq!(told, blocks.as_array().unwrap().iter().collect::<Vec<_>>());
    }),
    row(&["V2-EXT-03"], V2, |b| {
        let blocks = json!([{"type": "text", "text": "known"}, {"type": "hologram", "depth": 3}, {"type": "_mine"}]);
        let mut client = puppet(b, json!({}), &json!([scripted("one")]));
        let said = call(&mut client, "one", "give", &json!({"content": blocks}));
        let calls = crate::bench::calls(&client.updates);
        let shown = calls.iter().map(|call| call["content"].to_string()).collect::<String>();
        for part in ["known", "unknown kind: `hologram`", "unknown kind: `_mine`"] {
            assert!(said.contains(part) && shown.contains(part), "{part}: {said} {shown}");
        }
        assert!(!shown.contains("\"type\":\"hologram\""), "{shown}");
        if b.is("2") {
            // What a newer client may answer to a question is told as what it is for us: no answer.
            let mut client = b.other(json!({"elicitation": {"form": {}}}), &["--script", "puppet", "--no-store"]);
            client.fill = json!({"action": "_snooze", "until": "tomorrow"});
            client.prompt("call ask {\"question\": \"Which colour?\"}\nresult");
            assert!(client.said().contains("unanswered"), "{}", client.said());
        }
    }),
    row(&["V1-ELIC-10"], NOT_SEED, |b| {
        let mut client = visitor(b, &json!([scripted("one"), scripted("two")]));
        let visit = |server: &str| json!({"id": "login", "url": format!("https://example.com/{server}")});
        // Two servers that know nothing of each other name their pages alike; so does one for a call that can't go on.
        for server in ["one", "two"] {
            let said = call(&mut client, server, "page", &visit(server));
            assert!(said.contains("accept"), "{said}");
        }
        let said = call(&mut client, "two", "needs_page", &json!({"id": "again", "url": "https://example.com/again"}));
        assert!(said.contains("Call the tool again"), "{said}");
        let asked = questions(&client);
        let urls: Vec<&str> = asked.iter().map(|one| one["url"].as_str().unwrap()).collect();
        assert_eq!(urls, ["https://example.com/one", "https://example.com/two", "https://example.com/again"]);
        assert!(asked.iter().all(|one| one["mode"] == "url" && one["sessionId"] == json!(client.session)), "{asked:?}");
        let mut ids: Vec<String> = asked.iter().map(|one| one["elicitationId"].as_str().unwrap().into()).collect();
        let told = ids.clone();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), 3, "{told:?}");
        // Each is done once, under the name that the client knows; nobody speaks for another server.
        let mut expect = Vec::new();
        for (server, id, at) in [
            ("two", "nobody", None),
            ("one", "again", None),
            ("two", "login", Some(1)),
            ("two", "login", None),
            ("two", "again", Some(2)),
            ("one", "login", Some(0)),
        ] {
            call(&mut client, server, "done", &json!({"id": id}));
            expect.extend(at.map(|at: usize| json!({"elicitationId": told[at]})));
            while done(&client).len() < expect.len() {
                client.until(|message| message["method"] == "elicitation/complete");
            }
            assert_eq!(done(&client), expect);
        }
    }),
    row(&["V1-ELIC-12"], NOT_SEED, |b| {
        let mut client = visitor(b, &json!([scripted("one")]));
        for url in [
            "https://me:hush@example.com/",
            "https://example.com/?access_token=hush",
            "https://example.com/?a=1&api_key=hush",
            "https://example.com/#password=hush",
            "http://example.com/login",
        ] {
            let said = call(&mut client, "one", "page", &json!({"id": "x", "url": url}));
            assert!(said.contains("decline"), "{url}: {said}");
            call(&mut client, "one", "needs_page", &json!({"id": "x", "url": url}));
            assert!(questions(&client).is_empty(), "{url}");
        }
        for url in ["https://example.com/authorize?client_id=a&state=b", "http://127.0.0.1:9/login"] {
            // The server hears of the consent and of nothing else.
            let said = call(&mut client, "one", "page", &json!({"id": "x", "url": url}));
            assert!(said.contains("{\"action\": \"accept\"}") && !said.contains("s3cret"), "{url}: {said}");
            call(&mut client, "one", "done", &json!({"id": "x"}));
        }
        assert_eq!(questions(&client).len(), 2);
        while done(&client).len() < 2 {
            client.until(|message| message["method"] == "elicitation/complete");
        }
        assert!(done(&client).iter().all(|told| told.as_object().unwrap().len() == 1), "{:?}", done(&client));
    }),
    row(&["V1-ELIC-04"], NOT_SEED, |b| {
        let mut client = puppet(b, json!({"elicitation": {"form": {}, "url": {}}}), &json!([scripted("one")]));
        client.fill = json!({"action": "accept", "content": {"answer": "blue", "word": "blue"}});
        for question in ["What is your password?", "Paste the API key", "GITHUB_TOKEN?", "Your one-time code, please"] {
            client.updates.clear();
            client.prompt(&format!("call ask {}\nresult", json!({"question": question})));
            assert!(client.said().contains("never asked for in a form"), "{question}: {}", client.said());
            let form = json!({"message": question, "properties": {"word": {"type": "string"}}});
            let said = call(&mut client, "one", "form", &form);
            assert!(said.contains("decline"), "{question}: {said}");
        }
        for field in [json!({"api_key": {"type": "string"}}), json!({"x": {"type": "string", "title": "Password"}})] {
            let said = call(&mut client, "one", "form", &json!({"message": "Who are you?", "properties": field}));
            assert!(said.contains("decline"), "{field}: {said}");
        }
        assert!(client.forms.is_empty(), "{:?}", client.forms);
        // Other things may be asked, also about secrets.
        client.prompt("call ask {\"question\": \"Which colour?\"}");
        client.prompt("call ask {\"question\": \"Where is the password kept?\", \"options\": [\"blue\", \"green\"]}");
        call(&mut client, "one", "form", &json!({"message": "Why?", "properties": {"word": {"type": "string"}}}));
        assert_eq!(client.forms.len(), 3);
    }),
];

#[test]
fn mcp() {
    check(ROWS);
}
