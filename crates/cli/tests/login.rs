//! Logging in and out: refused sessions, keys from the environment, the file and a real keyring, a real terminal that shows
//! nothing.

#![allow(clippy::unwrap_used)]

mod common;
#[path = "common/keyring.rs"]
mod keyring;
#[path = "common/pty.rs"]
mod pty;
#[path = "common/server.rs"]
mod server;

use common::{Client, DIALECTS, NO_BUS, Place};
use keyring::Keyring;
use pty::Typed;
use serde_json::{Value, json};
use server::Models;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
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

/// Two providers that want a key: each refusal offers the ways of the one whose model was to answer, and they work as they stand.
#[test]
fn the_ways_to_log_in_are_those_of_the_provider_that_refused() {
    for dialect in DIALECTS {
        let place = Place::new();
        std::fs::create_dir_all(place.folder.path().join("config/tieline")).unwrap();
        let config = "[models]\nchoices = ['groq/g']\n";
        std::fs::write(place.folder.path().join("config/tieline/config.toml"), config).unwrap();
        let variables = [NONE[0], ("GROQ_API_KEY", "")];
        let mut client = Client::start_with(&place, dialect, &MODEL, &variables, terminal(dialect));
        let id = if dialect == "2" { "methodId" } else { "id" };
        let ids = |methods: &Value| {
            methods.as_array().unwrap().iter().map(|method| method[id].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        // The draft of June knows no logins in a terminal.
        let known = |names: &[&str]| -> Vec<String> {
            let fits = |name: &&&str| dialect != "2-seed" || name.starts_with("key");
            names.iter().filter(fits).map(|&name| name.to_owned()).collect()
        };
        let all = known(&["key", "terminal", "key-groq", "terminal-groq"]);
        assert_eq!(ids(&client.hello["authMethods"]), all, "{dialect}");
        let refused = new_session(&mut client, &place);
        let own = known(&["key", "terminal"]);
        assert_eq!(ids(&refused["error"]["data"]["authMethods"]), own, "{dialect}: {refused}");
        if dialect == "2-seed" {
            continue;
        }
        // Word by word: the program, its arguments, those of the method.
        for method in client.hello["authMethods"].as_array().unwrap().clone() {
            if method["type"] == "terminal" {
                let more = method["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap());
                let arguments: Vec<&str> = MODEL.into_iter().chain(["--no-store"]).chain(more).collect();
                // Nobody is to be asked whether that is a key.
                let (good, said) =
                    run(&place, NO_BUS, &arguments, &[("HTTPS_PROXY", "http://127.0.0.1:1")], "sk-typed\n");
                assert!(good && said.contains("could not be checked"), "{said}");
            }
        }
        let stored = std::fs::read_to_string(keys(&place)).unwrap();
        assert!(stored.contains("openai-chat = ") && stored.contains("groq = "), "{stored}");
        let login = if dialect == "2" { "auth/login" } else { "authenticate" };
        for method in ["key", "key-groq"] {
            client.call(login, json!({"methodId": method}));
        }
        let id = client.ask(login, json!({"methodId": "key-nobody"}));
        assert_eq!(client.answer(id)["error"]["code"], -32602, "{dialect}");
        assert!(new_session(&mut client, &place).get("error").is_none(), "{dialect}");
    }
}

/// `tieline agent login` or the like, with this on its standard input; gives what it said, and whether it worked.
fn run(place: &Place, bus: &str, arguments: &[&str], variables: &[(&str, &str)], input: &str) -> (bool, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tieline"))
        .arg("agent")
        .args(arguments)
        .env_remove("OPENAI_API_KEY")
        .env("XDG_CONFIG_HOME", place.folder.path().join("config"))
        .env("XDG_STATE_HOME", place.folder.path().join("state"))
        .env("DBUS_SESSION_BUS_ADDRESS", bus)
        .envs(variables.iter().copied())
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It may have ended without reading it.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let done = child.wait_with_output().unwrap();
    (done.status.success(), String::from_utf8(done.stderr).unwrap())
}

#[test]
fn what_is_stored_is_said_and_so_is_what_comes_first() {
    let place = Place::new();
    let (good, said) = run(&place, NO_BUS, &["logout", "openai-chat"], &[], "");
    assert!(good && said.contains("No key for OpenAI (chat completions) was stored."), "{said}");
    assert!(!place.folder.path().join("state").exists(), "nothing is made for nothing");
    let login = ["login", "openai-chat", "--no-check"];
    let (good, said) = run(&place, NO_BUS, &login, &[], "sk-1\n");
    assert!(good && said.contains("keys.toml, for you alone") && !said.contains("comes first"), "{said}");
    let (good, said) = run(&place, NO_BUS, &login, &[("OPENAI_API_KEY", "sk-env")], "sk-2\n");
    assert!(good && said.contains("the environment variable OPENAI_API_KEY is set and comes first"), "{said}");
    let (good, said) = run(&place, NO_BUS, &["logout", "openai-chat"], &[("OPENAI_API_KEY", "sk-env")], "");
    assert!(good && said.contains("forgotten. But the environment variable OPENAI_API_KEY is set"), "{said}");
    let (good, said) = run(&place, NO_BUS, &["login", "openai-chat", "--no-check", "--keyring"], &[], "sk-3\n");
    assert!(!good && said.contains("keyring") && said.contains("`--file`"), "{said}");
    let left = std::fs::read_to_string(keys(&place)).unwrap();
    assert!(!left.contains("sk-"), "{left}");
}

#[test]
fn two_logins_at_once_are_both_stored() {
    let place = Place::new();
    let names = ["openai-chat", "anthropic", "gemini", "groq", "mistral", "deepseek", "xai", "zai"];
    std::thread::scope(|scope| {
        for name in names {
            let place = &place;
            scope.spawn(move || assert!(run(place, NO_BUS, &["login", name, "--no-check"], &[], "sk-1").0));
        }
    });
    let stored = std::fs::read_to_string(keys(&place)).unwrap();
    assert!(names.iter().all(|name| stored.contains(&format!("{name} = "))), "{stored}");
}

#[test]
fn a_key_lives_in_the_keyring() {
    let place = Place::new();
    let Some(ring) = Keyring::start(place.folder.path()) else { return };
    let login =
        |more: &[&str], key: &str| run(&place, &ring.bus, &[&["login", "openai-chat"], more].concat(), &[], key);
    let (good, said) = login(&["--no-check"], "sk-ring");
    assert!(good && said.contains("Stored in your keyring."), "{said}");
    assert_eq!((ring.look_up("openai-chat").as_str(), keys(&place).exists()), ("sk-ring", false));

    // It is what the provider gets.
    let models = Models::start(Script::new(vec![Answer::text("Hello.")]).key("sk-ring"));
    let url = models.url("openai-chat");
    let variables: &[(&str, &str)] = &[NONE[0], ("DBUS_SESSION_BUS_ADDRESS", &ring.bus)];
    let mut client = Client::start_with(&place, "1", &[MODEL[0], MODEL[1], "--base-url", &url], variables, json!({}));
    client.session = new_session(&mut client, &place)["result"]["sessionId"].as_str().unwrap().into();
    assert_eq!(client.prompt("Hi."), "end_turn");
    drop(client);

    // One place at a time.
    let (good, said) = login(&["--no-check", "--file"], "sk-file");
    assert!(good && said.contains("keys.toml"), "{said}");
    assert_eq!(ring.look_up("openai-chat"), "");
    let (good, said) = login(&["--no-check", "--keyring"], "sk-ring");
    assert!(good && !std::fs::read_to_string(keys(&place)).unwrap().contains("sk-"), "{said}");

    // A logout of a client forgets it there too.
    let mut client = Client::start_with(&place, "1", &MODEL, variables, json!({}));
    assert!(new_session(&mut client, &place).get("error").is_none());
    client.call("logout", json!({}));
    assert_eq!(new_session(&mut client, &place)["error"]["code"], -32000);
    assert_eq!(ring.look_up("openai-chat"), "");
    drop(client);
    assert!(login(&["--no-check"], "sk-again").0);
    let (good, said) = run(&place, &ring.bus, &["logout", "openai-chat"], &[], "");
    assert!(good && said.contains("in your keyring is forgotten"), "{said}");
    assert_eq!(ring.look_up("openai-chat"), "");
}

#[test]
fn a_locked_keyring_holds_nobody_up() {
    let place = Place::new();
    let Some(ring) = Keyring::start(place.folder.path()) else { return };
    assert!(run(&place, &ring.bus, &["login", "openai-chat", "--no-check"], &[], "sk-ring").0);
    ring.lock();
    let variables: &[(&str, &str)] = &[NONE[0], ("DBUS_SESSION_BUS_ADDRESS", &ring.bus)];
    let mut client = Client::start_with(&place, "1", &MODEL, variables, json!({}));
    let refused = new_session(&mut client, &place)["error"].clone();
    assert_eq!(refused["code"], -32000);
    assert!(refused["message"].as_str().unwrap().contains("in your keyring, which is locked"), "{refused}");
    // There is no screen to unlock it on, so asking for that fails at once.
    let id = client.ask("authenticate", json!({"methodId": "key"}));
    let refused = client.answer(id)["error"].clone();
    assert_eq!(refused["code"], -32000);
    assert!(refused["message"].as_str().unwrap().contains("the keyring is locked"), "{refused}");
    let (good, said) = run(&place, &ring.bus, &["logout", "openai-chat"], &[], "");
    assert!(!good && said.contains("still there"), "{said}");
    let (good, said) = run(&place, &ring.bus, &["login", "openai-chat", "--no-check", "--keyring"], &[], "sk-2");
    assert!(!good && said.contains("nothing was stored"), "{said}");
    let (good, said) = run(&place, &ring.bus, &["login", "openai-chat", "--no-check"], &[], "sk-2");
    assert!(good && said.contains("That did not work") && said.contains("keys.toml"), "{said}");
    assert!(new_session(&mut client, &place).get("error").is_none(), "the one in the file is found without a login");
}

fn in_terminal(place: &Place, url: &str, typed: Typed<'_>) -> (String, Option<i32>, bool) {
    let (shown, status, echoes) = pty::log_in(place, &["--base-url", url, "login", "openai-chat"], typed);
    (shown, status.code(), echoes)
}

#[test]
fn a_terminal_login_shows_nothing_and_stores_the_key() {
    let models = Models::start(Script::new(vec![Answer::text("Hello.")]).key("sk-right"));
    let place = Place::new();
    let url = models.url("openai-chat");
    let (shown, code, echoes) = in_terminal(&place, &url, Typed::Bytes(b"sk-wrogn\x7f\x7fng\r"));
    assert!(code == Some(1) && shown.contains("refused this key; nothing was stored"), "{shown}");
    assert!(!keys(&place).exists() && echoes);
    let (shown, code, echoes) = in_terminal(&place, &url, Typed::Bytes(b"sk-\x03"));
    assert!(code == Some(1) && shown.contains("cancelled") && echoes, "{shown}");
    let (shown, code, echoes) = in_terminal(&place, &url, Typed::Bytes(b"nonsense\x15sk-right\r"));
    assert!(code == Some(0) && shown.contains("The key works") && echoes, "{shown}");
    assert!(!shown.contains("sk-right"), "{shown}");
    assert_eq!(std::fs::metadata(keys(&place)).unwrap().permissions().mode() & 0o777, 0o600);
    let arguments = [MODEL[0], MODEL[1], "--base-url", &url];
    let mut client = Client::start_with(&place, "1", &arguments, NONE, json!({}));
    client.session = new_session(&mut client, &place)["result"]["sessionId"].as_str().unwrap().into();
    assert_eq!(client.prompt("Hi."), "end_turn");
    let forget = Command::new(env!("CARGO_BIN_EXE_tieline"))
        .args(["agent", "logout", "openai-chat"])
        .env("XDG_STATE_HOME", place.folder.path().join("state"))
        .env("DBUS_SESSION_BUS_ADDRESS", NO_BUS)
        .output()
        .unwrap();
    assert!(forget.status.success());
    assert!(!std::fs::read_to_string(keys(&place)).unwrap().contains("sk-right"));
}

#[test]
fn a_signal_leaves_the_terminal_as_it_was() {
    let place = Place::new();
    for (name, code) in [("TERM", 143), ("INT", 130), ("HUP", 129), ("QUIT", 131)] {
        let (shown, ended, echoes) = in_terminal(&place, "http://127.0.0.1:1/v1", Typed::Signal(name));
        assert_eq!((ended, echoes), (Some(code), true), "{name}: {shown}");
        assert!(shown.contains("cancelled; nothing was stored"), "{shown}");
    }
    assert!(!keys(&place).exists());
}

/// `exec` runs the method that the agent advertises in its own terminal, starts the agent anew and goes on.
#[test]
fn a_client_logs_in_in_its_terminal_and_goes_on() {
    let place = Place::new();
    let steps = json!([["Key for OpenAI", 0, "sk-typed\r"]]);
    let done = Command::new("python3")
        .arg(format!("{}/tests/agents/at_terminal.py", env!("CARGO_MANIFEST_DIR")))
        .args([&steps.to_string(), env!("CARGO_BIN_EXE_tieline"), "exec", "Hi.", "--login", "terminal"])
        .args(MODEL)
        .current_dir(place.project())
        .env_remove("OPENAI_API_KEY")
        .env("HOME", place.folder.path())
        .env("XDG_CONFIG_HOME", place.folder.path().join("config"))
        .env("XDG_STATE_HOME", place.folder.path().join("state"))
        .env("DBUS_SESSION_BUS_ADDRESS", NO_BUS)
        // The provider itself is out of reach.
        .env("HTTPS_PROXY", "http://127.0.0.1:1")
        .output()
        .unwrap();
    let done: Value = serde_json::from_slice(&done.stdout).unwrap();
    let seen = done["seen"].as_str().unwrap();
    assert!(seen.contains("Stored in") && !seen.contains("sk-typed"), "{seen}");
    assert!(seen.contains("the proxy does not help"), "{seen}");
    assert!(std::fs::read_to_string(keys(&place)).unwrap().contains("sk-typed"));
}
