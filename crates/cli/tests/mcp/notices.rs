//! What the user is told about servers and models, in every dialect, with clients that show notices and clients that don't.

use super::common::{Client, DIALECTS, Place};
use super::model::Models;
use super::servers::{self, bad};
use serde_json::{Value, json};
use tieline_model_server::{Answer, Fault, Script};

/// Every kind of client: dialect, what it can do, and whether it shows notices.
fn clients() -> [(&'static str, Value, bool); 4] {
    let [v1, seed, v2] = DIALECTS;
    let shows = json!({"session": {"notices": {}}});
    [(v1, json!({}), false), (v1, shows, true), (seed, json!({}), false), (v2, json!({}), true)]
}

/// What the user saw of a kind: the titles of notices, or the messages.
fn seen(client: &Client, notices: bool) -> Vec<String> {
    let wanted = if notices { "notice" } else { "agent_message_chunk" };
    let text = |update: &Value| {
        let text = if notices { &update["title"] } else { &update["content"]["text"] };
        text.as_str().unwrap_or_default().to_owned()
    };
    client.updates.iter().filter(|update| update["sessionUpdate"] == wanted).map(text).collect()
}

/// How often a text was seen in one kind, and in the other.
fn count(client: &Client, shows: bool, words: &str) -> (usize, usize) {
    let all = |notices| seen(client, notices).iter().filter(|text| text.contains(words)).count();
    (all(shows), all(!shows))
}

#[test]
fn v1_notice_01_every_client_sees_that_a_model_is_asked_again() {
    for (dialect, can, shows) in clients() {
        for code in [429, 503] {
            let answer = Answer::text("at last").fault_first(2, Fault::Status { code, retry_after: Some(0) });
            let models = Models::start(Script::new(vec![answer]).directives(false));
            let place = Place::new();
            let url = models.url("openai-chat");
            let arguments = ["--model", "openai-chat/gpt-4.1", "--base-url", &url];
            let mut client =
                Client::start_with(&place, dialect, &arguments, &[("OPENAI_API_KEY", "sk-1")], can.clone());
            client.new_session(&place, &json!([]));
            assert_eq!(client.prompt("Hello?"), "end_turn", "{dialect}");
            for try_again in ["(1 of 3)", "(2 of 3)"] {
                assert_eq!(count(&client, shows, try_again), (1, 0), "{dialect} {try_again}: {:?}", client.updates);
            }
            let said = client.said();
            assert!(said.ends_with("at last"), "{dialect}: {said}");
            // It is no part of the conversation: neither the model hears of it nor whoever loads the session.
            client.prompt("And now?");
            let asked = models.bodies().last().unwrap().to_string();
            assert!(asked.contains("at last") && !asked.contains("of 3)"), "{dialect}: {asked}");
            client.updates.clear();
            let session = client.session.clone();
            client.load(&session, &place.project());
            let told = Value::from(client.updates.clone()).to_string();
            assert!(told.contains("at last") && !told.contains("of 3)"), "{dialect}: {told}");
        }
    }
}

#[test]
fn every_client_sees_that_a_server_died_in_the_turn_in_which_it_did() {
    for (dialect, can, shows) in clients() {
        let place = Place::new();
        let mut client = Client::start_with(&place, dialect, &["--script", "puppet"], &[], can);
        servers::open(&mut client, &place, &json!([bad("plain", &[])]));
        client.updates.clear();
        // The turn goes on until the notice is there.
        let id = client.begin("say before\nmcp bad die {}\nwait");
        let gone = "MCP server `bad` is gone: it exited with status 9";
        client.until(|message| message["params"]["update"].to_string().contains(gone));
        client.cancel();
        assert_eq!(client.end(id), "cancelled", "{dialect}");
        assert_eq!(count(&client, shows, gone), (1, 0), "{dialect}: {:?}", client.updates);
        // It is a paragraph of its own also where messages are not told apart, as in version 1.
        assert!(
            shows || dialect != "1" || client.said().contains("before\n\nMCP server"),
            "{dialect}: {}",
            client.said()
        );
    }
}

#[test]
fn more_tools_than_a_model_is_told_of() {
    for (dialect, can, shows) in clients() {
        let place = Place::new();
        let mut client = Client::start_with(&place, dialect, &["--script", "puppet"], &[], can);
        let mut second = bad("many", &[]);
        second["name"] = json!("worse");
        servers::open(&mut client, &place, &json!([bad("many", &[]), second]));
        // Asked twice, told once.
        client.prompt("say one");
        client.prompt("mcp worse nothing {}\nresult");
        let words = "MCP server `worse`: 90 of its 100 tools are left out";
        assert_eq!(count(&client, shows, words), (1, 0), "{dialect}: {:?}", client.updates);
        let said = client.said();
        let known = said.rsplit("There are: ").next().unwrap();
        assert_eq!(known.matches("mcp__").count(), 110, "{dialect}: {known}");
        assert_eq!(count(&client, shows, "MCP server `bad`: 0"), (0, 0), "{dialect}");
    }
}
