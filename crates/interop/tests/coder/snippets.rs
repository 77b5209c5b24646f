//! What the documentation tells people to paste into their editors is well-formed, and starts the agent.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use tieline_interop::coder::{Place, tieline};
use tieline_interop::npm_peers;

const PAGE: &str = include_str!("../../../../docs/agent.md");

/// The fenced blocks of a language.
pub fn blocks(language: &str) -> Vec<&'static str> {
    let fence = format!("```{language}\n");
    PAGE.split(&*fence).skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
}

/// The folder of the program before all others on the path.
pub fn path() -> String {
    let folder = tieline().parent().unwrap().to_str().unwrap().to_owned();
    format!("{folder}:{}", std::env::var("PATH").unwrap())
}

/// Starts what an editor would start, with nothing but this in the environment, and opens a session.
#[track_caller]
fn starts(place: &Place, command: &Value, args: &Value, env: &[(&str, String)]) {
    let args = args.as_array().unwrap().iter().map(|word| word.as_str().unwrap());
    let mut child = Command::new("env")
        .arg(command.as_str().unwrap())
        .args(args)
        .env_clear()
        .env("PATH", path())
        .envs(env.iter().map(|(name, value)| (name, value)))
        .current_dir(place.project())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let cwd = place.project();
    for (id, method, params) in
        [(0, "initialize", json!({"protocolVersion": 1})), (1, "session/new", json!({"cwd": cwd, "mcpServers": []}))]
    {
        writeln!(stdin, "{}", json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).unwrap();
    }
    // The end of its input is the end of the agent, and so of its output.
    drop(stdin);
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let answers: Vec<Value> = lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
    assert!(child.wait().unwrap().success());
    let result = |id: u32| answers.iter().find(|answer| answer["id"] == id).map(|answer| &answer["result"]);
    assert_eq!(result(0).unwrap()["agentInfo"]["name"], "tieline", "{answers:?}");
    assert!(result(1).unwrap()["sessionId"].is_string(), "{answers:?}");
}

#[test]
fn zed_and_jetbrains() {
    let place = Place::default();
    let snippets: Vec<_> = blocks("json").into_iter().filter(|text| text.contains("agent_servers")).collect();
    assert_eq!(snippets.len(), 2);
    for text in snippets {
        let settings: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
        let server = &settings["agent_servers"]["Tieline"];
        assert_eq!(server["env"], json!({}), "{text}");
        starts(&place, &server["command"], &server["args"], &place.environment());
    }
}

#[test]
fn neovim() {
    let place = Place::default();
    let snippets = blocks("lua");
    assert_eq!(snippets.len(), 2);
    let mut seen = serde_json::Map::new();
    for text in snippets {
        place.write("init.lua", text);
        let mut node = Command::new("node");
        node.arg(npm_peers().join("lua.mjs")).arg(place.project().join("init.lua"));
        let output = place.at_home(node).output().unwrap();
        assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
        let Value::Object(setups) = serde_json::from_slice(&output.stdout).unwrap() else { panic!("{output:?}") };
        seen.extend(setups);
    }
    let companion = &seen["codecompanion"];
    let name = companion["interactions"]["chat"]["adapter"].as_str().unwrap();
    let line = companion["adapters"]["acp"][name]["commands"]["default"].as_array().unwrap();
    starts(&place, &line[0], &Value::from(&line[1..]), &place.environment());
    let avante = &seen["avante"];
    let provider = &avante["acp_providers"][avante["provider"].as_str().unwrap()];
    // avante.nvim hands over the path and what is named, nothing else.
    let home = provider["env"]["HOME"].as_str().unwrap().to_owned();
    assert_eq!(home, place.environment()[0].1);
    starts(&place, &provider["command"], &provider["args"], &[("HOME", home)]);
}
