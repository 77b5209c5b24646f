//! The real binary with models of providers: a whole task over each wire format, `tieline models`, and what is wrong with names.

#![allow(clippy::unwrap_used)]

mod common;
#[path = "common/server.rs"]
mod server;

use common::{Client, DIALECTS, Place};
use serde_json::{Value, json};
use server::{FORMATS, Models};
use std::process::Command;
use tieline_model_server::{Answer, Call, Fault, Script};

const KEY: &[(&str, &str)] = &[("OPENAI_API_KEY", "sk-1"), ("ANTHROPIC_API_KEY", "sk-2"), ("GEMINI_API_KEY", "sk-3")];

#[test]
fn a_failing_test_is_repaired_over_each_format() {
    for (at, (format, _, model)) in FORMATS.into_iter().enumerate() {
        let edits = json!([{"old": "$1 - $2", "new": "$1 + $2"}]);
        let edit = Call::named("edit", json!({"path": "add.sh", "edits": edits}));
        let answers = vec![
            Answer::new().think("The test first.").say("I run the test.").and(Call::run("sh test.sh")),
            Answer::new().say("It fails. I look.").and(Call::read("add.sh")).and(Call::read("test.sh")),
            Answer::call(edit.clone()).fault(Fault::Split),
            Answer::call(Call::run("sh test.sh")).fault_first(1, Fault::Status { code: 429, retry_after: Some(0) }),
            Answer::text("Repaired: {result}"),
        ];
        let models = Models::start(Script::new(answers).directives(false));
        let place = Place::new();
        place.write("add.sh", "echo $(($1 - $2))\n");
        place.write("test.sh", "[ \"$(sh add.sh 2 3)\" = 5 ] && echo passed || { echo FAILED; exit 1; }\n");
        let name = format!("{format}/{model}");
        let url = models.url(format);
        let arguments = ["--model", &name, "--base-url", &url, "--sandbox", "off", "--mode", "edit"];
        let dialect = DIALECTS[at % DIALECTS.len()];
        let mut client = Client::start_with(&place, dialect, &arguments, KEY, json!({}));
        let new = client.call("session/new", json!({"cwd": place.project(), "mcpServers": []}));
        client.session = new["sessionId"].as_str().unwrap().into();
        assert_eq!(client.prompt("Make the test pass."), "end_turn", "{format}");
        assert_eq!(place.read("add.sh"), "echo $(($1 + $2))\n", "{format}: {:?}", client.updates);
        let said = client.said();
        assert!(said.contains("I run the test.") && said.contains("passed"), "{format}: {said}");
        assert!(!client.asked.is_empty(), "{format}: commands are asked for");
        assert_eq!(models.bodies().len(), 6, "{format}");
    }
}

#[test]
fn model_and_level_change_in_a_session_and_last() {
    let models = Models::start(Script::in_order(vec![Answer::text("a"), Answer::text("b"), Answer::text("c")]));
    let place = Place::new();
    let config = format!(
        "[models]\ndefault = 'mine/one'\nchoices = ['mine/two']\n[providers.mine]\nbase_url = '{}'\n",
        models.url("mine")
    );
    std::fs::create_dir_all(place.folder.path().join("config/tieline")).unwrap();
    std::fs::write(place.folder.path().join("config/tieline/config.toml"), config).unwrap();
    let set = |client: &mut Client, id: &str, value: &str| {
        let params = json!({"sessionId": client.session, "configId": id, "value": value});
        client.call("session/set_config_option", params)["configOptions"].clone()
    };
    let now = |options: &Value, id: &str| {
        let option = options.as_array().unwrap().iter().find(|option| option["id"] == id);
        option.map_or(Value::Null, |option| option["currentValue"].clone())
    };
    let mut client = Client::open(&place, "1", &[]);
    client.prompt("x");
    let options = set(&mut client, "model", "mine/two");
    assert_eq!((now(&options, "model"), now(&options, "thought_level")), (json!("mine/two"), json!("default")));
    let options = set(&mut client, "thought_level", "low");
    assert_eq!(now(&options, "thought_level"), "low");
    client.prompt("y");
    let options = set(&mut client, "model", "offline");
    assert_eq!(now(&options, "thought_level"), Value::Null, "{options}");
    set(&mut client, "model", "mine/two");
    let session = client.session.clone();
    client.hang_up();
    let mut client = Client::start(&place, "1", &[]);
    let loaded = client.call("session/load", json!({"sessionId": session, "cwd": place.project(), "mcpServers": []}));
    assert_eq!(now(&loaded["configOptions"], "model"), "mine/two");
    assert_eq!(now(&loaded["configOptions"], "thought_level"), "low");
    client.session = session;
    client.prompt("z");
    let told = |body: &Value| (body["model"].clone(), body["reasoning_effort"].clone());
    let bodies: Vec<(Value, Value)> = models.bodies().iter().map(told).collect();
    let expect = [("one", Value::Null), ("two", json!("low")), ("two", json!("low"))];
    assert_eq!(bodies, expect.map(|(model, level)| (json!(model), level)));
}

fn tieline(place: &Place, arguments: &[&str]) -> (String, String, Option<i32>) {
    let output = Command::new(env!("CARGO_BIN_EXE_tieline"))
        .args(arguments)
        .env("XDG_CONFIG_HOME", place.folder.path().join("config"))
        .env("XDG_STATE_HOME", place.folder.path().join("state"))
        .env_remove("OPENAI_API_KEY")
        .env_remove("ANTHROPIC_API_KEY")
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr), output.status.code())
}

#[test]
fn models_are_listed() {
    let models = Models::start(Script::new(vec![]).models(["small", "large"]));
    let place = Place::new();
    for (format, ..) in FORMATS {
        let (out, err, code) = tieline(&place, &["models", format, "--base-url", &models.url(format)]);
        assert_eq!(code, Some(0), "{format}: {err}");
        assert!(
            out.contains(&format!("{format}/small")) && out.contains(&format!("{format}/large")),
            "{format}: {out}"
        );
    }
    let (out, ..) = tieline(&place, &["models"]);
    for words in ["anthropic", "tieline agent login openai", "OPENAI_API_KEY", "ollama", "no key needed"] {
        assert!(out.contains(words), "{words}: {out}");
    }
}

#[test]
fn local_servers_are_found_on_request() {
    let models = Models::start(Script::new(vec![]).models(["tiny"]));
    let place = Place::new();
    let nothing = "http://127.0.0.1:1/v1";
    let config = format!(
        "[providers.ollama]\nbase_url = '{}'\n[providers.llamacpp]\nbase_url = '{nothing}'\n[providers.lmstudio]\nbase_url = \
         '{nothing}'\n[providers.vllm]\nbase_url = '{nothing}'\n",
        models.url("ollama")
    );
    std::fs::create_dir_all(place.folder.path().join("config/tieline")).unwrap();
    std::fs::write(place.folder.path().join("config/tieline/config.toml"), config).unwrap();
    let (out, err, code) = tieline(&place, &["models", "--local"]);
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains("Ollama at") && out.contains("ollama/tiny") && out.contains("vLLM: nothing at"), "{out}");
}

#[test]
fn what_is_wrong_is_told_with_what_to_type() {
    let place = Place::new();
    let check = |arguments: &[&str], expect: &str| {
        let (_, err, code) = tieline(&place, arguments);
        assert!(code != Some(0) && err.contains(expect), "{arguments:?}: {code:?} {err}");
    };
    check(&["agent", "--model", "gpt-5"], "write PROVIDER/MODEL");
    check(&["agent", "--model", "nobody/x"], "There is no provider `nobody`");
    let set =
        Command::new(env!("CARGO_BIN_EXE_tieline")).arg("agent").env("TIELINE_MODEL", "noone/x").output().unwrap();
    assert!(String::from_utf8_lossy(&set.stderr).contains("There is no provider `noone`"));
    check(&["agent", "--base-url", "http://x"], "--model PROVIDER/MODEL");
    check(&["agent", "login"], "tieline agent login anthropic");
    check(&["models", "openai"], "tieline agent login openai");
    check(&["models", "ollama", "--base-url", "http://127.0.0.1:1/v1"], "127.0.0.1:1: can't connect");
    std::fs::create_dir_all(place.folder.path().join("config/tieline")).unwrap();
    std::fs::write(place.folder.path().join("config/tieline/config.toml"), "[models]\nmodel = 'x'\n").unwrap();
    check(&["agent"], "config.toml:2: unknown key `models.model`");
}

/// The lines that the documentation offers for copying: the title, variables, words behind `tieline exec`.
fn documented() -> Vec<(String, Vec<String>, Vec<String>)> {
    let text = include_str!("../../../docs/models.md");
    let rows = text.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix("` |")?.split_once(" | `"));
    let row = |(title, line): (&str, &str)| {
        let (before, after) = line.split_once("tieline exec").unwrap();
        // What to do comes last; the rest is handed to the agent.
        let after = after.split(" \"").next().unwrap();
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        (title.to_owned(), words(before), words(after))
    };
    rows.filter(|(_, line)| line.contains("tieline exec --model")).map(row).collect()
}

#[test]
fn the_line_for_each_provider_starts_a_session() {
    let place = Place::new();
    let lines = documented();
    for preset in tieline_coder::model::provider::PRESETS.iter() {
        let (name, key) = (format!("{}/", preset.name), preset.key_env.as_ref().map(|key| format!("{key}=…")));
        let fits = |(_, variables, words): &&(String, Vec<String>, Vec<String>)| {
            words.get(1).is_some_and(|model| model.starts_with(&name))
                && key.as_ref().is_none_or(|key| variables.contains(key))
        };
        assert!(lines.iter().any(|line| fits(&line)), "{} has no line, or its key is wrong there", preset.name);
    }
    for (title, variables, words) in lines {
        let variables: Vec<(&str, &str)> =
            variables.iter().map(|word| (word.split_once('=').unwrap().0, "sk-test")).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut client = Client::start_with(&place, "1", &words, &variables, json!({}));
        let new = client.call("session/new", json!({"cwd": place.project(), "mcpServers": []}));
        let options = new["configOptions"].as_array().unwrap_or_else(|| panic!("{title}: {new}"));
        let model = options.iter().find(|option| option["id"] == "model").unwrap();
        assert_eq!(model["currentValue"], words[1], "{title}");
    }
}

#[test]
fn names_of_models_can_not_drive_the_terminal() {
    let models = Models::start(Script::new(vec![]).models(["a\u{202e}b", "c\u{1b}[2Jd\u{7}", "e\nf", "g\u{200b}h"]));
    let place = Place::new();
    for (format, ..) in FORMATS {
        let (out, err, code) = tieline(&place, &["models", format, "--base-url", &models.url(format)]);
        assert_eq!(code, Some(0), "{format}: {err}");
        assert_eq!(out.lines().count(), 4, "{format}: {out:?}");
        let hidden = |c: &char| (c.is_control() && *c != '\n') || matches!(c, '\u{202e}' | '\u{200b}');
        assert_eq!(out.chars().find(hidden), None, "{format}: {out:?}");
        assert!(out.contains("a\\u{202e}b") && out.contains("cd"), "{format}: {out}");
    }
}
