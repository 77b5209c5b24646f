//! Permission rules for tools of servers.

use super::common::{Client, Place};
use super::servers::{everything, open};
use serde_json::json;

#[test]
fn always_means_this_tool_of_this_server() {
    let place = Place::new();
    let mut client = Client::start(&place, "1", &["--script", "puppet"]);
    open(&mut client, &place, &json!([everything()]));
    client.choose = "allow_always";
    client.prompt("mcp everything echo {\"message\": \"a\"}");
    client.prompt("mcp everything echo {\"message\": \"b\"}\nresult");
    assert_eq!(client.asked.len(), 1, "the second time nobody is asked");
    assert!(client.said().contains("Echo: b"), "{}", client.said());
    client.choose = "reject_always";
    client.prompt("mcp everything get-sum {\"a\": 1, \"b\": 1}");
    assert_eq!(client.asked.len(), 2, "another tool is another matter, also if it says that it only reads");
    client.prompt("mcp everything get-sum {\"a\": 1, \"b\": 1}\nresult");
    assert_eq!(client.asked.len(), 2);
    assert!(client.said().contains("mcp everything/get-sum"), "{}", client.said());
    client.prompt("/rules");
    assert!(client.said().contains("allow `mcp everything/echo`"), "{}", client.said());
    // In plan mode only what a rule allows; nobody is asked.
    let session = client.session.clone();
    client.call("session/set_mode", json!({"sessionId": session, "modeId": "plan"}));
    client.prompt("mcp everything echo {\"message\": \"planned\"}\nresult");
    assert!(client.said().contains("Echo: planned"), "{}", client.said());
    client.prompt("mcp everything get-env {}\nresult");
    assert!(client.said().contains("Not allowed (the session is in the mode plan)"), "{}", client.said());
    assert_eq!(client.asked.len(), 2);
}

#[test]
fn rules_of_the_user_know_servers_and_tools() {
    let place = Place::new();
    let folder = place.folder.path().join("config/tieline");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("rules.toml"), "allow = ['mcp everything/*']\ndeny = ['mcp */get-env']\n").unwrap();
    let mut client = Client::start(&place, "2", &["--script", "puppet"]);
    open(&mut client, &place, &json!([everything()]));
    client.prompt("mcp everything echo {\"message\": \"x\"}\nresult");
    client.prompt("mcp everything get-env {}\nresult");
    assert!(client.said().contains("Echo: x") && client.said().contains("Not allowed"), "{}", client.said());
    assert!(client.asked.is_empty());
}
