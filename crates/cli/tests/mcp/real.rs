//! Real servers: their tools are called through permission, in every dialect and over every transport.

use super::common::{Client, DIALECTS, Place};
use super::model::{FORMATS, Models};
use super::servers::{Listening, everything, open, program, settle, stdio, which};
use serde_json::{Value, json};
use tieline_model_server::{Answer, Call, Script};

/// Calls tools of the server that has everything.
fn use_everything(client: &mut Client, place: &Place, way: &str) {
    assert_eq!(client.prompt("mcp everything echo {\"message\": \"hi there\"}\nresult"), "end_turn", "{way}");
    assert!(client.said().contains("Echo: hi there"), "{way}: {}", client.said());
    assert_eq!(client.asked.len(), 1, "{way}");
    assert!(client.asked[0].to_string().contains("mcp everything/echo"), "{way}: {}", client.asked[0]);
    client.prompt("mcp everything get-sum {\"a\": 20, \"b\": 22}\nresult");
    assert!(client.said().contains("42"), "{way}: {}", client.said());
    // What the server is asked with is checked by the server, and its refusal reaches the model.
    client.prompt("mcp everything get-sum {\"a\": \"x\"}\nresult");
    assert!(client.said().contains("Invalid arguments"), "{way}: {}", client.said());
    client.updates.clear();
    client.prompt("mcp everything get-tiny-image {}");
    client.prompt("mcp everything get-resource-links {\"count\": 2}");
    client.prompt("mcp everything get-resource-reference {\"resourceType\": \"Text\", \"resourceId\": 1}");
    client.prompt("mcp everything get-structured-content {\"location\": \"New York\"}");
    let shown = Value::from(client.updates.clone()).to_string();
    for part in
        ["\"type\":\"image\"", "image/png", "resource_link", "\"type\":\"resource\"", "rawOutput", "temperature"]
    {
        assert!(shown.contains(part), "{way}: {part} is not in {shown}");
    }
    client.updates.clear();
    client.prompt("mcp everything trigger-long-running-operation {\"duration\": 1, \"steps\": 4}\nresult");
    let shown = Value::from(client.updates.clone()).to_string();
    assert!(shown.contains("25 %") && shown.contains("50 %"), "{way}: no progress in {shown}");
    assert!(client.said().contains("operation completed"), "{way}: {}", client.said());
    client.prompt("mcp everything get-roots-list {}\nresult");
    assert!(client.said().contains(place.project().to_str().unwrap()), "{way}: {}", client.said());
}

#[test]
fn v1_sess_09_11_everything_over_standard_streams() {
    for dialect in DIALECTS {
        let place = Place::new();
        let mut client = Client::start(&place, dialect, &["--script", "puppet"]);
        open(&mut client, &place, &json!([everything()]));
        use_everything(&mut client, &place, dialect);
        assert!(client.hang_up().success());
    }
}

#[test]
fn models_of_every_format_call_tools_and_see_pictures() {
    for (at, (format, _, model)) in FORMATS.into_iter().enumerate() {
        let tool = |name: &str, arguments: Value| Call::named(format!("mcp__everything__{name}"), arguments);
        let resource = json!({"resourceType": "Text", "resourceId": 1});
        let answers = vec![
            Answer::call(tool("get-tiny-image", json!({}))),
            Answer::call(tool("get-resource-reference", resource)).and(tool("get-sum", json!({"a": 20, "b": 22}))),
            Answer::text("seen"),
        ];
        let models = Models::start(Script::new(answers).directives(false));
        let place = Place::new();
        let (name, url) = (format!("{format}/{model}"), models.url(format));
        let keys = [("OPENAI_API_KEY", "sk-1"), ("ANTHROPIC_API_KEY", "sk-2"), ("GEMINI_API_KEY", "sk-3")];
        let arguments = ["--model", &name, "--base-url", &url];
        let dialect = DIALECTS[at % DIALECTS.len()];
        let mut client = Client::start_with(&place, dialect, &arguments, &keys, json!({}));
        open(&mut client, &place, &json!([everything()]));
        assert_eq!(client.prompt("Look."), "end_turn", "{format}");
        assert_eq!(client.asked.len(), 3, "{format}: each is asked for");
        let bodies = models.bodies();
        assert!(bodies[0].to_string().contains("mcp__everything__get-tiny-image"), "{format}: it is offered");
        let last = bodies.last().unwrap().to_string();
        for part in ["iVBOR", "demo://resource", "42"] {
            assert!(last.contains(part), "{format}: {part} is not in {last}");
        }
    }
}

#[test]
fn v1_sess_12_everything_over_streamable_http() {
    let server = Listening::everything("streamableHttp");
    for dialect in DIALECTS {
        let place = Place::new();
        let mut client = Client::start(&place, dialect, &["--script", "puppet"]);
        open(&mut client, &place, &json!([server.entry("http", "/mcp")]));
        use_everything(&mut client, &place, dialect);
    }
}

#[test]
fn everything_over_server_sent_events() {
    let server = Listening::everything("sse");
    // Version 2 can't say that we take such servers; we take them all the same.
    for dialect in DIALECTS {
        let place = Place::new();
        let mut client = Client::start(&place, dialect, &["--script", "puppet"]);
        open(&mut client, &place, &json!([server.entry("sse", "/sse")]));
        use_everything(&mut client, &place, dialect);
    }
}

#[test]
fn what_is_promised() {
    let place = Place::new();
    let about = |dialect| Client::start_with(&place, dialect, &["--script", "hello"], &[], json!({})).hello.clone();
    assert_eq!(about("1")["agentCapabilities"]["mcpCapabilities"], json!({"http": true, "sse": true}));
    for dialect in ["2-seed", "2"] {
        assert_eq!(about(dialect)["capabilities"]["session"]["mcp"], json!({"http": {}, "stdio": {}}), "{dialect}");
    }
}

/// A turn that lasts until the client was told something.
fn until_told(client: &mut Client, words: &str) {
    let id = client.begin("wait");
    if !Value::from(client.updates.clone()).to_string().contains(words) {
        client.until(|message| message["params"]["update"].to_string().contains(words));
    }
    client.cancel();
    assert_eq!(client.end(id), "cancelled");
}

#[test]
fn a_server_that_goes_away_and_comes_back() {
    for (way, kind, path) in [("streamableHttp", "http", "/mcp"), ("sse", "sse", "/sse")] {
        let mut server = Listening::everything(way);
        let (port, entry) = (server.port, json!([server.entry(kind, path)]));
        for dialect in DIALECTS {
            let place = Place::new();
            let mut client = Client::start(&place, dialect, &["--script", "puppet"]);
            open(&mut client, &place, &entry);
            client.prompt("mcp everything echo {\"message\": \"one\"}\nresult");
            assert!(client.said().contains("Echo: one"), "{way} {dialect}: {}", client.said());
            client.updates.clear();
            drop(server);
            // The user hears of it before anything is called.
            until_told(&mut client, "MCP server `everything` is gone: ");
            client.updates.clear();
            assert_eq!(client.prompt("mcp everything echo {\"message\": \"two\"}\nresult"), "end_turn");
            let said = client.said();
            assert!(said.contains("The MCP server `everything` is gone: "), "{way} {dialect}: {said}");
            assert!(said.contains("It is being tried again.") && said.contains("connect"), "{way} {dialect}: {said}");
            client.prompt("/mcp");
            assert!(client.said().contains(" is gone and is tried again: "), "{way} {dialect}: {}", client.said());
            server = Listening::everything_on(way, port);
            until_told(&mut client, "MCP server `everything` is back, with ");
            client.prompt("mcp everything echo {\"message\": \"three\"}\nresult");
            assert!(client.said().contains("Echo: three"), "{way} {dialect}: {}", client.said());
            let heard = Value::from(client.heard.clone()).to_string();
            assert!(!heard.contains("hush-hush"), "{way} {dialect}");
        }
    }
}

#[test]
fn a_server_that_dies_in_the_middle_of_a_call() {
    for (way, kind, path) in [("streamableHttp", "http", "/mcp"), ("sse", "sse", "/sse")] {
        let server = Listening::everything(way);
        let place = Place::new();
        let mut client = Client::start(&place, "2", &["--script", "puppet"]);
        open(&mut client, &place, &json!([server.entry(kind, path)]));
        client.updates.clear();
        let id = client
            .begin("mcp everything trigger-long-running-operation {\"duration\": 3600, \"steps\": 36000}\nresult");
        client.until(|message| message["params"]["update"].to_string().contains("0 %"));
        drop(server);
        assert_eq!(client.end(id), "end_turn", "{way}");
        assert!(client.said().contains("The MCP server `everything` did not answer: "), "{way}: {}", client.said());
    }
}

#[test]
fn a_server_that_is_not_there_yet_is_used_once_it_is() {
    let server = Listening::everything("streamableHttp");
    let (port, entry) = (server.port, json!([server.entry("http", "/mcp")]));
    drop(server);
    let place = Place::new();
    let mut client = Client::start(&place, "1", &["--script", "puppet"]);
    client.new_session(&place, &entry);
    client.prompt("say on");
    assert!(client.said().contains("could not be reached") && client.said().contains("on"), "{}", client.said());
    let _server = Listening::everything_on("streamableHttp", port);
    until_told(&mut client, "MCP server `everything` is there now, with ");
    client.prompt("mcp everything echo {\"message\": \"one\"}\nresult");
    assert!(client.said().contains("Echo: one"), "{}", client.said());
}

#[test]
fn files_through_permission() {
    for dialect in DIALECTS {
        let place = Place::new();
        place.write("a.txt", "first line\n");
        let mut client = Client::start(&place, dialect, &["--script", "puppet"]);
        let folder = place.project();
        let folder = folder.to_str().unwrap();
        let script = program("server-filesystem");
        let server = stdio("files", &which("node"), &[script.to_str().unwrap(), folder], &[]);
        open(&mut client, &place, &json!([server]));
        client.prompt(&format!("mcp files read_text_file {{\"path\": \"{folder}/a.txt\"}}\nresult"));
        assert!(client.said().contains("first line"), "{dialect}: {}", client.said());
        let write = format!("mcp files write_file {{\"path\": \"{folder}/b.txt\", \"content\": \"new\"}}");
        client.choose = "reject_once";
        client.prompt(&write);
        assert!(!place.project().join("b.txt").exists(), "{dialect}");
        client.choose = "allow_once";
        client.prompt(&write);
        assert_eq!((place.read("b.txt"), client.asked.len()), ("new".into(), 3), "{dialect}");
    }
}

#[test]
fn the_user_is_asked_for_a_server() {
    for (dialect, can) in [("1", json!({"elicitation": {"form": {}}})), ("2", json!({"elicitation": {"form": {}}}))] {
        let place = Place::new();
        let mut client = Client::start_with(&place, dialect, &["--script", "puppet"], &[], can.clone());
        open(&mut client, &place, &json!([everything()]));
        client.fill = json!({"action": "accept", "content": {"name": "Ada Lovelace", "check": true, "integer": 7}});
        client.prompt("mcp everything trigger-elicitation-request {}\nresult");
        assert_eq!(client.forms.len(), 1, "{dialect}: {}", client.said());
        let form = client.forms[0].to_string();
        assert!(form.contains("The MCP server `everything` asks: "), "{dialect}: {form}");
        assert!(form.contains("Your full, legal name"), "{dialect}: {form}");
        let said = client.said();
        assert!(said.contains("Ada Lovelace") && said.contains('7'), "{dialect}: {said}");
        client.fill = json!({"action": "decline"});
        client.prompt("mcp everything trigger-elicitation-request {}\nresult");
        assert!(client.said().contains("declined"), "{dialect}: {}", client.said());
    }
    // A client that can't ask: the server knows, and has no such tool.
    let place = Place::new();
    let mut client = Client::start(&place, "1", &["--script", "puppet"]);
    open(&mut client, &place, &json!([everything()]));
    client.prompt("mcp everything trigger-elicitation-request {}\nresult");
    assert!(client.said().contains("There is no tool"), "{}", client.said());
}

#[test]
fn the_user_is_sent_to_a_page_for_a_server() {
    let place = Place::new();
    let can = json!({"elicitation": {"form": {}, "url": {}}});
    let mut client = Client::start_with(&place, "1", &["--script", "puppet"], &[], can.clone());
    open(&mut client, &place, &json!([everything()]));
    client.fill = json!({"action": "accept"});
    client.prompt("mcp everything trigger-url-elicitation {\"url\": \"https://example.com/login\"}\nresult");
    assert_eq!(client.forms.len(), 1, "{}", client.said());
    assert_eq!(
        (&client.forms[0]["mode"], &client.forms[0]["url"]),
        (&json!("url"), &json!("https://example.com/login"))
    );
    // An address that would start a program is not shown to anybody.
    client.prompt("mcp everything trigger-url-elicitation {\"url\": \"file:///etc/passwd\"}\nresult");
    assert_eq!(client.forms.len(), 1, "{}", client.said());
}

#[test]
fn a_server_gets_its_own_variables_and_none_of_our_secrets() {
    let place = Place::new();
    let secrets =
        [("OPENAI_API_KEY", "planted-1"), ("SOMETHING_ELSE", "planted-2"), ("AWS_SECRET_ACCESS_KEY", "planted-3")];
    let mut client = Client::start_with(&place, "1", &["--script", "puppet"], &secrets, json!({}));
    let mut server = everything();
    server["env"] = json!([{"name": "OWN_TOKEN", "value": "its-own"}]);
    open(&mut client, &place, &json!([server]));
    client.prompt("mcp everything get-env {}\nresult");
    let said = client.said();
    assert!(said.contains("its-own") && said.contains("\"PATH\""), "{said}");
    assert!(!said.contains("planted"), "{said}");
}

#[test]
fn commands_of_the_user() {
    for arguments in [&["--script", "puppet"][..], &[]] {
        let place = Place::new();
        let mut client = Client::start(&place, "1", arguments);
        open(&mut client, &place, &json!([everything()]));
        client.prompt("/mcp");
        let said = client.said();
        assert!(said.contains("`everything` (stdio) is ready") && said.contains("`get-sum`"), "{said}");
        client.prompt("/mcp everything get-sum {\"a\": 1, \"b\": 2}");
        assert!(client.said().contains("The sum of 1 and 2 is 3"), "{}", client.said());
        assert_eq!(client.asked.len(), 1, "also what the user types is asked for: the tool is the server's");
        client.prompt("/mcp everything nothing");
        assert!(client.said().contains("There is no tool `mcp__everything__nothing`"), "{}", client.said());
        client.prompt("/mcp everything");
        assert!(client.said().contains("`/mcp SERVER TOOL {json}`"), "{}", client.said());
    }
    let place = Place::new();
    let mut client = Client::open(&place, "1", &[]);
    client.prompt("/mcp");
    assert!(client.said().contains("no MCP servers"), "{}", client.said());
    client.prompt("/help");
    assert!(client.said().contains("/mcp"), "{}", client.said());
}

#[test]
fn v1_sess_15_v2_sess_15_a_session_has_the_servers_that_it_is_taken_up_with() {
    for (dialect, method) in [("1", "session/load"), ("2", "session/resume")] {
        let place = Place::new();
        let mut client = Client::start(&place, dialect, &["--script", "puppet"]);
        open(&mut client, &place, &json!([everything()]));
        client.prompt("mcp everything echo {\"message\": \"once\"}\nresult");
        assert!(client.said().contains("Echo: once"), "{dialect}: {}", client.said());
        let id = client.session.clone();
        drop(client);
        for servers in [json!([]), json!([everything()])] {
            let mut client = Client::start(&place, dialect, &["--script", "puppet"]);
            client.call(method, json!({"sessionId": id, "cwd": place.project(), "mcpServers": servers}));
            client.session.clone_from(&id);
            settle(&mut client);
            client.updates.clear();
            client.prompt("mcp everything echo {\"message\": \"again\"}\nresult");
            let there = servers != json!([]);
            let expect = if there { "Echo: again" } else { "There is no tool" };
            assert!(client.said().contains(expect), "{dialect}: {}", client.said());
        }
    }
}
