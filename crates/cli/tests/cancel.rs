//! A cancel is answered `cancelled` at once, whatever the agent waits for at that moment.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod common;

use common::{Client, DIALECTS, Place, Reply, is_marked};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Everything that the agent waits for here takes much longer than this, or for ever. The goal is a second.
const BOUND: Duration = Duration::from_secs(8);

/// A turn that waits, and how to see that it does.
struct Phase {
    name: &'static str,
    prompt: String,
    mode: &'static str,
    can: Value,
    waits: fn(&Value) -> bool,
    dialects: &'static [&'static str],
}

fn method(message: &Value, name: &str) -> bool {
    message["method"] == name
}

fn phases(mark: &str, server: &str) -> Vec<Phase> {
    let phase = |name, prompt: &str, waits| Phase {
        name,
        prompt: prompt.into(),
        mode: "auto",
        can: json!({}),
        waits,
        dialects: &DIALECTS,
    };
    let old: &'static [&'static str] = &["1", "2-seed"];
    let said = |message: &Value| message.to_string().contains("waiting-now");
    // As text, or in the base64 of a terminal.
    let printed = |message: &Value| {
        let update = &message["params"]["update"];
        update["content"].to_string().contains("waiting-now") || update["data"].to_string().contains("d2FpdGluZy1ub3")
    };
    let runs = |message: &Value| message["params"]["update"]["status"] == "in_progress";
    let stubborn = format!(
        "call run {}",
        json!({"command": format!("trap '' TERM INT HUP; setsid sh -c \"trap '' TERM; sleep 900.{mark}\" & \
               echo waiting-now; while :; do sleep 900.{mark}; done")})
    );
    vec![
        phase("a model that says nothing", "say waiting-now\nwait", said),
        phase("a model that is slow", "say waiting-now\npause 600000", said),
        phase("a command that ignores every signal", &stubborn, printed),
        phase("a command that floods", "run yes waiting-now", printed),
        phase("a page that does not come", &format!("call fetch {}", json!({"url": server})), runs),
        Phase {
            mode: "ask",
            ..phase("a permission that nobody gives", "write a.txt x", |m| method(m, "session/request_permission"))
        },
        Phase {
            can: json!({"fs": {"readTextFile": true, "writeTextFile": true}}),
            dialects: old,
            ..phase("a file that the client does not read", "read a.txt", |m| method(m, "fs/read_text_file"))
        },
        Phase {
            can: json!({"fs": {"readTextFile": false, "writeTextFile": true}}),
            dialects: old,
            ..phase("a file that the client does not write", "write a.txt x", |m| method(m, "fs/write_text_file"))
        },
        Phase {
            can: json!({"terminal": true}),
            dialects: old,
            mode: "ask",
            ..phase("a terminal that does not come", "run echo x", |m| method(m, "terminal/create"))
        },
        Phase {
            can: json!({"elicitation": {"form": {}}}),
            dialects: &["1", "2"],
            ..phase("a question that nobody answers", "call ask {\"question\":\"why?\"}", |m| {
                method(m, "elicitation/create")
            })
        },
    ]
}

#[test]
fn in_every_phase() {
    let mark = format!("375{}", std::process::id());
    // It takes connections and never says a word.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("http://{}/", silent.local_addr().unwrap());
    let mut longest = Duration::ZERO;
    for phase in phases(&mark, &server) {
        for dialect in phase.dialects {
            let place = Place::new();
            let what = format!("{} in {dialect}", phase.name);
            let arguments = ["--script", "puppet", "--mode", phase.mode];
            let mut client = Client::start_as(&place, dialect, &arguments, &phase.can, |_| ());
            let params = json!({"cwd": place.project(), "mcpServers": []});
            client.session = client.call("session/new", params)["sessionId"].as_str().unwrap().into();
            // A permission that is asked for on the way is given, unless it is the one that is waited for.
            let last = phase.name.contains("permission");
            client.choose = if last { "" } else { "allow_once" };
            let ask = |message: &Value| method(message, "session/request_permission");
            client.serve = Some(Box::new(move |message| (!ask(message)).then_some(Reply::Silence)));
            let id = client.begin(&phase.prompt);
            client.until(|message| (phase.waits)(message));
            let start = Instant::now();
            client.cancel();
            client.choose = "";
            assert_eq!(client.end(id), "cancelled", "{what}");
            let took = start.elapsed();
            assert!(took < BOUND, "{what}: {took:?}");
            longest = longest.max(took);
            eprintln!("{:>5} ms  {what}", took.as_millis());
            // The turn is over for good: every call has ended, nothing runs on, and the next turn works.
            let mut calls = std::collections::BTreeMap::new();
            for update in &client.updates {
                if let (Some(id), Some(status)) = (update["toolCallId"].as_str(), update["status"].as_str()) {
                    calls.insert(id.to_owned(), status.to_owned());
                }
            }
            let open = |status: &String| ["pending", "in_progress"].contains(&&**status);
            assert!(!calls.values().any(open), "{what}: {calls:?}");
            // At once: the answer says that nothing is written any more.
            assert!(!is_marked(&format!("sleep\x00900.{mark}")), "{what}: something runs on");
            assert!(!common::exists(&place.project().join("a.txt")), "{what}: nothing was written");
            assert_eq!(client.prompt("say next"), "end_turn", "{what}");
            assert!(client.said().ends_with("next"), "{what}");
            assert!(client.hang_up().success(), "{what}");
        }
    }
    eprintln!("the longest took {longest:?}");
}

#[test]
fn a_cancel_without_a_turn_and_a_second_one_are_nothing() {
    for dialect in DIALECTS {
        let place = Place::new();
        let mut client = Client::open(&place, dialect, &["--script", "puppet"]);
        client.cancel();
        assert_eq!(client.prompt("say one"), "end_turn", "{dialect}");
        let id = client.begin("say waiting-now\nwait");
        client.until(|message| message.to_string().contains("waiting-now"));
        client.cancel();
        client.cancel();
        assert_eq!(client.end(id), "cancelled", "{dialect}");
        assert_eq!(client.prompt("say two"), "end_turn", "{dialect}");
    }
}
