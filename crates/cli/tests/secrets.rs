//! Thirty-five secrets are planted wherever people keep them, and must be found nowhere but with the provider they belong to.

#![allow(clippy::unwrap_used)]

mod common;
#[path = "common/server.rs"]
mod server;

#[path = "../../../scripts/skipped.rs"]
mod skipped;

use common::{Client, Place};
use serde_json::{Value, json};
use server::Models;
use skipped::skipped;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use tieline_model_server::{Answer, Call, Script};

/// Variables that hold one.
const VARIABLES: [&str; 21] = [
    "MY_SERVICE_KEY",
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "GEMINI_API_KEY",
    "GROQ_API_KEY",
    "MISTRAL_API_KEY",
    "DEEPSEEK_API_KEY",
    "OPENROUTER_API_KEY",
    "XAI_API_KEY",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "GITHUB_TOKEN",
    "NPM_TOKEN",
    "HF_TOKEN",
    "PGPASSWORD",
    "VAULT_TOKEN",
    "DATABASE_URL",
    "SENTRY_DSN",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
];

fn secret(number: usize) -> String {
    format!("hush{number:02}x{}", "abcdefgh")
}

/// All of them: 21 in variables, 3 typed keys, a key file, 3 headers, 2 addresses with a password; and 5 of MCP servers and
/// agents, which belong to these alone.
fn secrets() -> Vec<String> {
    (0..35).map(secret).collect()
}

/// A program that writes down what it was given, but for what is its own, and says things that are no message.
fn nosy(place: &Place) -> String {
    let path = place.folder.path().join("nosy");
    let seen = place.folder.path().join("seen.txt");
    let text = format!(
        "#!/bin/sh\n(env; tr '\\0' '\\n' < /proc/self/environ) | grep -v ^OWN= > {}\necho $OWN >&2\nexit 1\n",
        seen.display()
    );
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path.to_str().unwrap().to_owned()
}

/// MCP servers with secrets of their own: one writes down what it sees and ends, one says back all it was told as an error,
/// one works.
fn servers(place: &Place, near: &Near) -> Value {
    let bearer = |number| json!([{"name": "Authorization", "value": format!("Bearer {}", secret(number))}]);
    json!([
        {"name": "nosy", "command": nosy(place), "args": [], "env": [{"name": "OWN", "value": secret(30)}]},
        {"type": "http", "name": "far", "url": echo(), "headers": bearer(31)},
        {"type": "http", "name": "near", "url": near.url, "headers": bearer(34)},
    ])
}

/// An MCP server over HTTP that answers, and remembers what it was sent.
struct Near {
    url: String,
    heard: Arc<Mutex<String>>,
}

impl Near {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let heard = Arc::new(Mutex::new(String::new()));
        let log = heard.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let log = log.clone();
                std::thread::spawn(move || serve(&stream.unwrap(), &log));
            }
        });
        Self { url, heard }
    }

    /// It got its own header and nobody else's.
    fn check(&self) {
        let heard = self.heard.lock().unwrap();
        assert!(heard.contains(&secret(34)) && heard.contains("tools/list"), "{heard}");
        assert!(!(0..34).map(secret).any(|other| heard.contains(&other)), "{heard}");
    }
}

/// One request of a connection, answered as the streamable HTTP transport has it.
fn serve(stream: &TcpStream, log: &Mutex<String>) {
    let mut reader = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    while !head.ends_with("\r\n\r\n") {
        let from = head.len();
        if reader.read_line(&mut head).unwrap_or(0) == 0 {
            return;
        }
        if let Some(value) = head[from..].to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    log.lock().unwrap().extend([head.as_str(), &String::from_utf8_lossy(&body)]);
    let request: Value = serde_json::from_slice(&body).unwrap_or_default();
    let result = match request["method"].as_str() {
        Some("initialize") => {
            json!({"protocolVersion": request["params"]["protocolVersion"], "capabilities": {"tools": {}},
            "serverInfo": {"name": "near", "version": "1"}})
        }
        Some("tools/list") => json!({"tools": [{"name": "look", "inputSchema": {"type": "object"}}]}),
        _ => json!({}),
    };
    let (status, text) = match (head.starts_with("POST"), request.get("id")) {
        (true, Some(id)) => ("200 OK", json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string()),
        (true, None) => ("202 Accepted", String::new()),
        (false, _) => ("405 Method Not Allowed", String::new()),
    };
    let kind = if text.is_empty() { "" } else { "content-type: application/json\r\n" };
    let answer =
        format!("HTTP/1.1 {status}\r\n{kind}content-length: {}\r\nconnection: close\r\n\r\n{text}", text.len());
    let _ = (&*stream).write_all(answer.as_bytes());
}

/// Plants those that live in files.
fn plant(place: &Place, base_url: &str) {
    let folder = |name: &str| place.folder.path().join(name);
    std::fs::create_dir_all(folder("state/tieline")).unwrap();
    std::fs::create_dir_all(folder("config/tieline")).unwrap();
    let keys = format!("mine = '{}'\ngroq = '{}'\nother = '{}'\n", secret(21), secret(22), secret(23));
    std::fs::write(folder("state/tieline/keys.toml"), keys).unwrap();
    std::fs::write(folder("key"), secret(24)).unwrap();
    let config = format!(
        "[models]\nchoices = ['other/x']\n[providers.mine]\nbase_url = '{}'\nkey_env = 'MY_SERVICE_KEY'\n\
         headers = {{ x-team = '{}', cookie = '{}' }}\n\
         [providers.other]\nkey_file = '{}'\nbase_url = 'http://u:{}@127.0.0.1:1/v1'\nheaders = {{ x-other = '{}' }}\n",
        base_url.replace("://", &format!("://user:{}@", secret(28))),
        secret(25),
        secret(26),
        folder("key").display(),
        secret(29),
        secret(27)
    );
    std::fs::write(folder("config/tieline/config.toml"), config).unwrap();
}

fn variables() -> Vec<(&'static str, String)> {
    let value = |(at, name): (usize, &&'static str)| {
        let secret = secret(at);
        let value = match *name {
            "DATABASE_URL" => format!("postgres://me:{secret}@127.0.0.1/db"),
            "SENTRY_DSN" => format!("https://{secret}@127.0.0.1/1"),
            "HTTP_PROXY" | "HTTPS_PROXY" | "ALL_PROXY" => format!("http://me:{secret}@127.0.0.1:9"),
            _ => secret,
        };
        (*name, value)
    };
    VARIABLES.iter().enumerate().map(value).collect()
}

fn start(place: &Place, near: &Near, arguments: &[&str]) -> Client {
    let variables = variables();
    let mut variables: Vec<(&str, &str)> = variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let log = place.folder.path().join("log");
    variables.extend([("TIELINE_LOG", "trace"), ("TIELINE_LOG_FILE", log.to_str().unwrap())]);
    let can = json!({"session": {"notices": {}}});
    let mut client = Client::start_with(place, "1", arguments, &variables, can);
    let new = client.call("session/new", json!({"cwd": place.project(), "mcpServers": servers(place, near)}));
    client.session = new["sessionId"].as_str().unwrap().into();
    client
}

/// Everything that is kept below a folder, but for the files with the keys themselves.
fn kept(folder: &Path, all: &mut Vec<(String, Vec<u8>)>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        let planted = ["state/tieline/keys.toml", "config/tieline/config.toml", "/key", "/servers.json"];
        if planted.iter().any(|end| path.to_str().unwrap().ends_with(end)) {
            continue;
        }
        if path.is_dir() {
            kept(&path, all);
        } else {
            all.push((path.display().to_string(), std::fs::read(&path).unwrap_or_default()));
        }
    }
}

fn check(place: &Place, client: &Client, more: &str) {
    look(place, &[("what the client was told", &format!("{:?}", client.heard)), ("an answer", more)]);
}

/// Looks for every secret in everything that was written and said.
fn look(place: &Place, said: &[(&str, &str)]) {
    let mut all = Vec::new();
    kept(place.folder.path(), &mut all);
    let find = |name: &str| all.iter().find(|(path, bytes)| path.contains(name) && !bytes.is_empty());
    assert!(find("store.db").or_else(|| find("journal")).is_some(), "a store was written");
    let text =
        |name: &str| find(name).map(|(_, bytes)| String::from_utf8_lossy(bytes).into_owned()).unwrap_or_default();
    assert!(text("seen.txt").contains("PATH="), "the MCP server looked around");
    let log = text("/log");
    assert!(log.contains(" DEBUG ") && log.contains("tieline_web") && log.contains("turn{session="), "{log}");
    all.extend(said.iter().map(|(what, text)| ((*what).to_owned(), text.as_bytes().to_vec())));
    for secret in secrets() {
        let encoded = tieline::schema::to_base64(secret.as_bytes());
        for (place, bytes) in &all {
            let found = |what: &str| bytes.windows(what.len()).any(|part| part == what.as_bytes());
            assert!(!found(&secret) && !found(encoded.trim_end_matches('=')), "{secret} is in {place}");
        }
    }
}

#[test]
fn secrets_stay_out_of_children_stores_and_messages() {
    let look = "env | tee env.txt; tr '\\0' '\\n' < /proc/self/environ; cat \"$FOLDER\"/key \"$FOLDER\"/state/tieline/* \"$FOLDER\"/config/tieline/*";
    let (place, near) = (Place::new(), Near::start());
    let look = look.replace("$FOLDER", place.folder.path().to_str().unwrap());
    let answers = vec![Answer::call(Call::run(look)), Answer::text("Seen: {result}")];
    let models = Models::start(Script::new(answers).directives(false));
    plant(&place, &models.url("mine"));
    let mut client = start(&place, &near, &["--model", "mine/x", "--mode", "auto"]);
    assert_eq!(client.prompt("Look around."), "end_turn");
    let said = client.said();
    let ran = place.project().join("env.txt").exists();
    if ran {
        assert!(said.contains("PATH="), "{said}");
    } else {
        // Without a sandbox commands don't run at all.
        skipped("SANDBOX", &format!("there is no sandbox here, so the command did not run: {said}"));
    }
    // The provider gets the one key that is its own, and the headers.
    let asked = models.everything();
    assert!(asked.contains(&secret(0)) && asked.contains(&secret(25)), "{asked}");
    for stranger in (1..25).chain([27, 29]).map(secret) {
        assert!(!asked.contains(&stranger), "{stranger} went to a provider that it does not belong to");
    }
    near.check();
    check(&place, &client, &said);
}

#[test]
fn exec_writes_no_secret_down() {
    // In the first version the client runs the agent's commands.
    for (format, protocol) in [("text", "1"), ("json", "2"), ("stream-json", "2-seed"), ("acp", "1")] {
        let (place, near) = (Place::new(), Near::start());
        let folder = |name: &str| place.folder.path().join(name);
        let look_around = "env | tee env.txt; tr '\\0' '\\n' < /proc/self/environ";
        let answers = vec![Answer::call(Call::run(look_around)), Answer::text("Seen: {result}")];
        let models = Models::start(Script::new(answers).directives(false));
        plant(&place, &models.url("mine"));
        // An agent and a server of the user's own configuration, with secrets of their own.
        let own = format!(
            "[agents.own]\ncommand = ['{}', 'agent', '--model', 'mine/x', '--mode', 'auto']\nenv = {{ OWN_KEY = '{}' }}\n\
             [mcp.nosy]\ncommand = ['{}']\nenv = {{ OWN = '{}' }}\n\
             [mcp.far]\nurl = '{}'\nheaders = {{ Authorization = 'Bearer {}' }}\n\
             [mcp.near]\nurl = '{}'\nheaders = {{ Authorization = 'Bearer {}' }}\n",
            env!("CARGO_BIN_EXE_tieline"),
            secret(32),
            nosy(&place),
            secret(30),
            echo(),
            secret(31),
            near.url,
            secret(34)
        );
        let config = folder("config/tieline/config.toml");
        let known = std::fs::read_to_string(&config).unwrap();
        std::fs::write(&config, format!("{known}{own}")).unwrap();
        let more = json!({"mcpServers": {"more": {"command": "/nonexistent", "env": {"MORE": secret(33)}}}});
        std::fs::write(folder("servers.json"), more.to_string()).unwrap();
        let done = Command::new(env!("CARGO_BIN_EXE_tieline"))
            .args([
                "exec",
                "--agent",
                "own",
                "--allow-all",
                "--verbose",
                "--format",
                format,
                "--protocol",
                protocol,
                "Look around.",
            ])
            .arg("--trace")
            .arg(folder("trace.jsonl"))
            .arg("--mcp-config")
            .arg(folder("servers.json"))
            .current_dir(place.project())
            .envs(variables())
            .env("HOME", place.folder.path())
            .env("XDG_CONFIG_HOME", folder("config"))
            .env("XDG_STATE_HOME", folder("state"))
            .env("DBUS_SESSION_BUS_ADDRESS", common::NO_BUS)
            .env("TIELINE_LOG", "trace")
            .env("TIELINE_LOG_FILE", folder("log"))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        assert!(done.status.success(), "{format}: {out}{err}");
        assert!(models.everything().contains(&secret(0)), "the provider got its key");
        let trace = std::fs::read_to_string(folder("trace.jsonl")).unwrap();
        assert!(trace.contains("mcpServers") && trace.contains("(hidden)"), "{trace}");
        near.check();
        look(&place, &[("the output", &out), ("the standard error", &err)]);
    }
}

/// A server that says back all it was told, as an error: first one that passes, then one that stays.
fn echo() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for (at, stream) in listener.incoming().enumerate() {
            let mut stream = stream.unwrap();
            let mut buffer = vec![0; 1 << 16];
            let count = stream.read(&mut buffer).unwrap_or(0);
            let head = String::from_utf8_lossy(&buffer[..count]).into_owned();
            let head = head.split("\r\n\r\n").next().unwrap_or_default().to_owned();
            let status = if at % 2 == 0 { 500 } else { 400 };
            let body = json!({"error": {"message": head}}).to_string();
            let answer = format!(
                "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    format!("http://{address}/v1")
}

#[test]
fn errors_and_notices_repeat_no_secret() {
    let (place, near) = (Place::new(), Near::start());
    plant(&place, &echo());
    let mut client = start(&place, &near, &["--model", "mine/x"]);
    let end = client.prompt("Hello?");
    assert!(end.contains("400") && end.contains("(hidden)"), "{end}");
    let notice = |start: &str| {
        let told = client.updates.iter().filter(|update| update["sessionUpdate"] == "notice");
        told.filter(|update| update["title"].as_str().unwrap().starts_with(start)).count()
    };
    assert_eq!((notice("mine: 500"), notice("MCP server")), (1, 2), "{:?}", client.updates);
    check(&place, &client, &end);
}

#[test]
fn what_is_wrong_with_files_is_told_without_their_text() {
    let place = Place::new();
    plant(&place, "http://127.0.0.1:1/v1");
    let folder = |name: &str| place.folder.path().join(name);
    for (file, text) in [
        ("config/tieline/config.toml", format!("[providers.mine]\nkey = '{}'\n", secret(1))),
        ("config/tieline/config.toml", format!("[providers.mine]\nbase_url = {}\n", secret(2))),
        ("config/tieline/config.toml", format!("[providers.mine]\nheaders = '{}'\n", secret(3))),
        ("config/tieline/config.toml", format!("[providers.mine]\nbase_url = 'x://{}@y'\n", secret(4))),
        (
            "config/tieline/config.toml",
            format!("[providers.mine]\nbase_url = 'http://h'\nheaders = {{ a = \"{}\\n\" }}", secret(5)),
        ),
    ] {
        std::fs::write(folder(file), text).unwrap();
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_tieline"))
            .args(["agent", "--model", "mine/x"])
            .env("XDG_CONFIG_HOME", folder("config"))
            .env("XDG_STATE_HOME", folder("state"))
            .stdin(std::process::Stdio::null())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && !said.is_empty(), "{file}");
        assert!(!said.contains("hush"), "{said}");
    }
}
