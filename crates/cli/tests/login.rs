//! Logging in and out: refused sessions, keys from the environment and the file, a real terminal that shows nothing.

#![allow(clippy::unwrap_used)]

mod common;
#[path = "common/server.rs"]
mod server;

use common::{Client, DIALECTS, Place, SOON};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::LocalModes;
use serde_json::{Value, json};
use server::Models;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use tieline_model_server::{Answer, Script};

const MODEL: [&str; 2] = ["--model", "openai-chat/gpt-4.1"];
const NONE: &[(&str, &str)] = &[("OPENAI_API_KEY", "")];

fn new_session(client: &mut Client, place: &Place) -> Value {
    let id = client.ask("session/new", json!({"cwd": place.project(), "mcpServers": []}));
    client.answer(id)
}

fn keys(place: &Place) -> std::path::PathBuf {
    place.folder.path().join("state/tieline/keys.toml")
}

fn terminal(dialect: &str) -> Value {
    if dialect == "2" { json!({"auth": {"terminal": {}}}) } else { json!({"auth": {"terminal": true}}) }
}

#[test]
fn without_a_key_there_is_no_session_but_a_way_to_log_in() {
    for dialect in DIALECTS {
        let place = Place::new();
        let mut client = Client::start_with(&place, dialect, &MODEL, NONE, terminal(dialect));
        let id = if dialect == "2" { "methodId" } else { "id" };
        let refused = new_session(&mut client, &place);
        assert_eq!(refused["error"]["code"], -32000, "{dialect}: {refused}");
        let words = refused["error"]["message"].as_str().unwrap();
        assert!(words.contains("tieline agent login openai-chat") && words.contains("OPENAI_API_KEY"), "{words}");
        let methods = refused["error"]["data"]["authMethods"].as_array().unwrap().clone();
        assert_eq!(client.hello["authMethods"], json!(methods), "{dialect}");
        assert_eq!(methods[0][id], "key", "{dialect}: {methods:?}");
        if dialect != "2-seed" {
            assert_eq!(
                (&methods[1]["type"], &methods[1]["args"]),
                (&json!("terminal"), &json!(["login", "openai-chat"]))
            );
        }
        let (login, logout) = if dialect == "2" { ("auth/login", "auth/logout") } else { ("authenticate", "logout") };
        let id = client.ask(login, json!({"methodId": "key"}));
        assert_eq!(client.answer(id)["error"]["code"], -32000, "{dialect}: there is still no key");
        std::fs::create_dir_all(keys(&place).parent().unwrap()).unwrap();
        std::fs::write(keys(&place), "openai-chat = \"sk-typed\"\n").unwrap();
        client.call(login, json!({"methodId": "key"}));
        assert!(new_session(&mut client, &place).get("error").is_none(), "{dialect}");
        client.call(logout, json!({}));
        assert_eq!(new_session(&mut client, &place)["error"]["code"], -32000, "{dialect}: logged out");
        let left = std::fs::read_to_string(keys(&place)).unwrap();
        assert!(!left.contains("sk-typed"), "{left}");
    }
}

#[test]
fn a_logout_counts_for_a_key_in_the_environment_too() {
    let place = Place::new();
    let mut client = Client::start_with(&place, "1", &MODEL, &[("OPENAI_API_KEY", "sk-env")], json!({}));
    assert!(new_session(&mut client, &place).get("error").is_none());
    client.call("logout", json!({}));
    assert_eq!(new_session(&mut client, &place)["error"]["code"], -32000);
    client.call("authenticate", json!({"methodId": "key"}));
    assert!(new_session(&mut client, &place).get("error").is_none());
    let plain = &client.hello["authMethods"];
    assert_eq!(plain.as_array().unwrap().len(), 1, "no terminal methods for a client without terminals: {plain}");
}

#[test]
fn a_key_that_is_refused_in_a_turn_leads_to_the_login() {
    for dialect in DIALECTS {
        let models = Models::start(Script::new(vec![Answer::text("in")]).key("sk-right"));
        let place = Place::new();
        let url = models.url("openai-chat");
        let arguments = [MODEL[0], MODEL[1], "--base-url", &url];
        let variables = &[("OPENAI_API_KEY", "sk-wrong")];
        let mut client = Client::start_with(&place, dialect, &arguments, variables, json!({}));
        client.session = new_session(&mut client, &place)["result"]["sessionId"].as_str().unwrap().into();
        let id = client.begin("x");
        let error = if dialect == "2" {
            let idle = client.until(|message| message["params"]["update"]["state"] == "idle");
            idle["params"]["update"]["error"].clone()
        } else {
            client.answer(id)["error"].clone()
        };
        assert_eq!(error["code"], -32000, "{dialect}: {error}");
        assert!(error["message"].as_str().unwrap().contains("refused the key"), "{error}");
        assert!(error["data"]["authMethods"].is_array(), "{dialect}: {error}");
    }
}

/// A process that does not outlive its test.
struct Login(Child);

impl Drop for Login {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `tieline agent login` in a terminal of its own; gives what the terminal showed.
fn in_terminal(place: &Place, url: &str, typed: &[u8]) -> (String, ExitStatus, bool) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let slave = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    let end = || Stdio::from(slave.try_clone().unwrap());
    let child = Command::new(env!("CARGO_BIN_EXE_tieline"))
        .args(["agent", "--base-url", url, "login", "openai-chat"])
        .env("XDG_CONFIG_HOME", place.folder.path().join("config"))
        .env("XDG_STATE_HOME", place.folder.path().join("state"))
        .stdin(end())
        .stdout(end())
        .stderr(end())
        .spawn()
        .unwrap();
    let mut child = Login(child);
    let mut master = File::from(master);
    let mut shown = Vec::new();
    let mut asked = false;
    let start = std::time::Instant::now();
    loop {
        let mut buffer = [0; 4096];
        let wait = rustix::time::Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
        let mut ready = [rustix::event::PollFd::new(&master, rustix::event::PollFlags::IN)];
        if rustix::event::poll(&mut ready, Some(&wait)).unwrap() > 0 {
            let count = master.read(&mut buffer).unwrap();
            shown.extend_from_slice(&buffer[..count]);
        } else if let Some(status) = child.0.try_wait().unwrap() {
            let echoes = rustix::termios::tcgetattr(&slave).unwrap().local_modes.contains(LocalModes::ECHO);
            return (String::from_utf8_lossy(&shown).into_owned(), status, echoes);
        }
        let silent = !rustix::termios::tcgetattr(&slave).unwrap().local_modes.contains(LocalModes::ECHO);
        if !asked && silent && String::from_utf8_lossy(&shown).contains("Key for OpenAI") {
            asked = true;
            master.write_all(typed).unwrap();
        }
        assert!(start.elapsed() < SOON, "{}", String::from_utf8_lossy(&shown));
    }
}

#[test]
fn a_terminal_login_shows_nothing_and_stores_the_key() {
    let models = Models::start(Script::new(vec![Answer::text("Hello.")]).key("sk-right"));
    let place = Place::new();
    let url = models.url("openai-chat");
    let (shown, status, echoes) = in_terminal(&place, &url, b"sk-wrogn\x7f\x7fng\r");
    assert!(!status.success() && shown.contains("refused this key; nothing was stored"), "{shown}");
    assert!(!keys(&place).exists() && echoes);
    let (shown, status, echoes) = in_terminal(&place, &url, b"sk-\x03");
    assert!(!status.success() && shown.contains("cancelled") && echoes, "{shown}");
    let (shown, status, echoes) = in_terminal(&place, &url, b"nonsense\x15sk-right\r");
    assert!(status.success() && shown.contains("The key works") && echoes, "{shown}");
    assert!(!shown.contains("sk-right"), "{shown}");
    assert_eq!(std::fs::metadata(keys(&place)).unwrap().permissions().mode() & 0o777, 0o600);
    let arguments = [MODEL[0], MODEL[1], "--base-url", &url];
    let mut client = Client::start_with(&place, "1", &arguments, NONE, json!({}));
    client.session = new_session(&mut client, &place)["result"]["sessionId"].as_str().unwrap().into();
    assert_eq!(client.prompt("Hi."), "end_turn");
    let forget = Command::new(env!("CARGO_BIN_EXE_tieline"))
        .args(["agent", "logout", "openai-chat"])
        .env("XDG_STATE_HOME", place.folder.path().join("state"))
        .output()
        .unwrap();
    assert!(forget.status.success());
    assert!(!std::fs::read_to_string(keys(&place)).unwrap().contains("sk-right"));
}
