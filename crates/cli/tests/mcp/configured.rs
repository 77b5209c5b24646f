//! Servers of the configuration: started in every session besides the client's, each name once, a project's once it is
//! trusted.

use super::common::{Client, DIALECTS, Place};
use super::servers::{bad, open, settle, which};
use serde_json::json;
use std::path::Path;
use std::process::{Command, Output};

/// A server of `bad.py` that writes a line to `started.txt` each time it is started, as a table of the configuration.
fn table(name: &str, place: &Place, more: &str) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/bad.py");
    let line = format!("echo {name} >> {}; exec {} {script} plain", started(place), which("python3"));
    format!("[mcp.{name}]\ncommand = [\"sh\", \"-c\", {line:?}]\n{more}\n")
}

fn started(place: &Place) -> String {
    place.folder.path().join("started.txt").to_str().unwrap().to_owned()
}

/// The servers that were started so far.
fn starts(place: &Place) -> Vec<String> {
    let text = std::fs::read_to_string(started(place)).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// The user's configuration.
fn configure(place: &Place, text: &str) {
    let folder = place.folder.path().join("config/tieline");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.toml"), text).unwrap();
}

fn start(place: &Place, dialect: &'static str) -> Client {
    Client::start_with(place, dialect, &["--script", "puppet"], &[], json!({}))
}

/// Runs `tieline` in the project.
fn tieline(place: &Place, arguments: &[&str]) -> Output {
    let at = |name: &str| place.folder.path().join(name);
    Command::new(Path::new(env!("CARGO_BIN_EXE_tieline")))
        .args(arguments)
        .current_dir(place.project())
        .env("XDG_CONFIG_HOME", at("config"))
        .env("XDG_STATE_HOME", at("state"))
        .output()
        .unwrap()
}

#[test]
fn servers_of_the_configuration_are_there_besides_the_clients() {
    for dialect in DIALECTS {
        let place = Place::new();
        configure(&place, &table("own", &place, "tools = [\"ok\", \"gr*\", \"nope\"]\nwithout = [\"grow\"]"));
        let mut client = start(&place, dialect);
        open(&mut client, &place, &json!([bad("plain", &[])]));
        client.prompt("mcp own ok {}\nresult");
        client.prompt("mcp bad die {}\nresult");
        let said = client.said();
        assert!(said.contains("all is well") && said.contains("did not answer: it has ended"), "{dialect}: {said}");
        assert_eq!(client.asked.len(), 2, "{dialect}: also these are asked for");
        // Only the tools that are wanted.
        client.updates.clear();
        client.prompt("mcp own die {}\nresult\nmcp own grow {}\nresult");
        let said = client.said();
        assert!(said.contains("There is no tool `mcp__own__die`"), "{dialect}: {said}");
        assert!(said.contains("There is no tool `mcp__own__grow`"), "{dialect}: {said}");
        // A name that fits nothing may be a slip of the pen.
        let heard = json!(client.heard).to_string();
        assert!(heard.contains("MCP server `own` has no tool that fits `nope`"), "{dialect}: {heard}");
        assert_eq!(starts(&place), ["own"], "{dialect}");
    }
}

#[test]
fn what_the_client_names_wins_and_is_started_once() {
    let place = Place::new();
    configure(&place, &(table("bad", &place, "without = [\"die\"]") + "[mcp.other]\ntimeout = 20\n"));
    let mut client = start(&place, "2");
    let mut other = bad("plain", &[]);
    other["name"] = json!("other");
    open(&mut client, &place, &json!([bad("plain", &[]), other]));
    client.prompt("mcp bad ok {}\nresult\nmcp bad die {}\nresult\nmcp other hang {}\nresult");
    let said = client.said();
    assert!(starts(&place).is_empty(), "the configuration's is not started: {said}");
    // How it is used counts for it all the same.
    assert!(said.contains("all is well") && said.contains("There is no tool `mcp__bad__die`"), "{said}");
    assert!(said.contains("nothing came for 20 s"), "{said}");
}

#[test]
fn exec_passes_them_on_and_none_is_started_twice() {
    let place = Place::new();
    configure(&place, &(table("first", &place, "") + &table("second", &place, "without = [\"die\"]")));
    let prompt = "mcp first ok {}\nresult\nmcp second ok {}\nresult\nmcp second die {}\nresult";
    let arguments = ["exec", "--allow-all", prompt, "--"];
    let agent = [env!("CARGO_BIN_EXE_tieline"), "agent", "--script", "puppet"];
    let done = tieline(&place, &[&arguments[..], &agent[..]].concat());
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{out}{err}");
    assert_eq!(out.matches("all is well").count(), 2, "{out}{err}");
    assert!(out.contains("There is no tool `mcp__second__die`"), "{out}{err}");
    let mut all = starts(&place);
    all.sort();
    assert_eq!(all, ["first", "second"], "{out}{err}");
}

#[test]
fn a_projects_servers_count_once_it_is_trusted() {
    for dialect in DIALECTS {
        let place = Place::new();
        place.write(".tieline/config.toml", &table("theirs", &place, ""));
        let mut client = start(&place, dialect);
        client.new_session(&place, &json!([]));
        client.prompt("/mcp");
        let heard = json!(client.heard).to_string();
        assert!(heard.contains("`mcp.theirs.command` does not count"), "{dialect}: {heard}");
        assert!(heard.contains("tieline config trust") && heard.contains("no MCP servers"), "{dialect}: {heard}");
        assert!(starts(&place).is_empty(), "{dialect}");
        assert!(tieline(&place, &["config", "trust"]).status.success(), "{dialect}");
        client.new_session(&place, &json!([]));
        settle(&mut client);
        client.prompt("mcp theirs ok {}\nresult");
        assert!(client.said().contains("all is well"), "{dialect}: {}", client.said());
        assert_eq!(starts(&place), ["theirs"], "{dialect}");
    }
}

#[test]
fn a_variable_that_is_not_set_costs_a_notice() {
    let place = Place::new();
    configure(&place, "[mcp.x]\nurl = \"http://127.0.0.1:1/\"\nheaders = { A = { env = \"NOT_SET_AT_ALL\" } }\n");
    let mut client = start(&place, "1");
    client.new_session(&place, &json!([]));
    assert_eq!(client.prompt("say on"), "end_turn");
    assert!(client.said().contains("NOT_SET_AT_ALL is not set") && client.said().contains("on"), "{}", client.said());
}
