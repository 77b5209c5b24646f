//! What the built-in agent can do beyond the rules: pictures, commands in the background, questions, plans, guides.

#![allow(clippy::unwrap_used)]

mod common;

#[path = "../../../scripts/skipped.rs"]
mod skipped;

use common::{Client, DIALECTS, Editor, FRAMINGS, Framing, Place, Reply};
use serde_json::{Value, json};
use skipped::skipped;

/// A picture of one black dot.
const DOT: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg==";

fn ways() -> impl Iterator<Item = (&'static str, Framing)> {
    DIALECTS.into_iter().flat_map(|dialect| FRAMINGS.map(|framing| (dialect, framing)))
}

/// A puppet with a session, for a client that offers this.
fn puppet(place: &Place, way: (&'static str, Framing), offers: &Value, mode: &str) -> Client {
    let mut client = Client::able(place, way, offers, &["--script", "puppet", "--mode", mode]);
    client.open_in(&place.project());
    client
}

fn decoded(base64: &str) -> Vec<u8> {
    let value = |byte: u8| {
        let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        alphabet.iter().position(|&known| known == byte).map(|at| u32::try_from(at).unwrap())
    };
    let digits: Vec<u32> = base64.bytes().filter_map(value).collect();
    let mut bytes = Vec::new();
    for four in digits.chunks(4) {
        let number = four.iter().fold(0, |number, digit| number << 6 | digit) << (6 * (4 - four.len()));
        bytes.extend(&number.to_be_bytes()[1..four.len()]);
    }
    bytes
}

#[test]
fn pictures_are_read_as_pictures() {
    for way in ways() {
        let place = Place::new();
        place.write_bytes("dot.png", &decoded(DOT));
        let mut client = puppet(&place, way, &json!({}), "ask");
        assert_eq!(client.prompt("read dot.png\ntold"), "end_turn", "{way:?}");
        // The model has the picture, and the user sees it.
        let picture = json!({"type": "image", "data": DOT, "mimeType": "image/png"});
        let said = client.said();
        let told = said.lines().find(|line| line.contains("\"image\"")).unwrap_or_else(|| panic!("{way:?}: {said}"));
        assert_eq!(serde_json::from_str::<Value>(told).unwrap(), picture, "{way:?}");
        let shown = client.updates.iter().find(|update| update["status"] == "completed").unwrap();
        assert_eq!(shown["content"], json!([{"type": "content", "content": picture}]), "{way:?}");
        // One in a prompt reaches the model too.
        client.updates.clear();
        let id = client.begin_with(json!([{"type": "text", "text": "told"}, picture]));
        assert_eq!(client.end(id), "end_turn", "{way:?}");
        assert!(client.said().contains(DOT), "{way:?}: {}", client.said());
    }
}

#[test]
fn commands_run_in_the_background_and_none_is_left() {
    for (at, way) in ways().enumerate() {
        let place = Place::new();
        let mut client = puppet(&place, way, &json!({}), "auto");
        let sleep = |number: usize| format!("9{}{at}{number}", std::process::id());
        let start = |number: usize| {
            let command = format!("echo begun {number}; sleep {} & exec sleep {}", sleep(number), sleep(number));
            format!("call run {}", json!({"command": command, "background": true}))
        };
        client.prompt(&format!("{}\n{}\n{}", start(1), start(2), start(3)));
        let running = |number: usize| common::runs(&format!("sleep\0{}", sleep(number)));
        let soon = std::time::Instant::now();
        while !client.said().contains("begun 1") {
            assert!(soon.elapsed() < common::SOON, "{way:?}: {}", client.said());
            assert_eq!(client.prompt("call output {\"id\": 1}\nresult"), "end_turn", "{way:?}");
        }
        assert!(client.said().contains("still runs") && running(1), "{way:?}: {}", client.said());
        // Stopped by the model, ended with the session, ended with the agent.
        client.updates.clear();
        client.prompt(
            "call stop {\"id\": \"1\"}\nresult\ncall output {\"id\": 1}\nresult\ncall output {\"id\": 9}\nresult",
        );
        let said = client.said();
        assert!(said.contains("no command 9") && !said.contains("still runs"), "{way:?}: {said}");
        common::gone(&format!("sleep\0{}", sleep(1)));
        assert!(running(2), "{way:?}: the other one goes on");
        let session = client.session.clone();
        client.call("session/close", json!({"sessionId": session}));
        common::gone(&format!("sleep\0{}", sleep(2)));
        common::gone(&format!("sleep\0{}", sleep(3)));
        client.open_in(&place.project());
        client.prompt(&start(4));
        assert!(client.hang_up().success(), "{way:?}");
        common::gone(&format!("sleep\0{}", sleep(4)));
    }
}

#[test]
fn a_scenario_works_with_commands_in_the_background() {
    let place = Place::new();
    let mut client = Client::open(&place, "1", &["--script", "background-command", "--mode", "auto"]);
    assert_eq!(client.prompt("go"), "end_turn");
    assert!(client.said().contains("looked at it and stopped it"), "{}", client.said());
    assert!(client.updates.iter().all(|update| update["status"] != "failed"), "{:?}", client.updates);
}

#[test]
fn the_user_is_asked_where_that_can_be() {
    for way in ways() {
        let place = Place::new();
        let offers = json!({"elicitation": {"form": {}}});
        let mut client = Client::able(&place, way, &offers, &["--script", "ask-user"]);
        client.open_in(&place.project());
        let mut answers = ["green", "Press me"].into_iter();
        client.serve = Some(Box::new(move |_| {
            let answer = answers.next()?;
            Some(Reply::Result(json!({"action": "accept", "content": {"answer": answer}})))
        }));
        assert_eq!(client.prompt("go"), "end_turn", "{way:?}");
        let said = client.said();
        if way.0 == "2-seed" {
            // That draft has no words for it.
            assert!(said.contains("so I take blue"), "{way:?}: {said}");
        } else {
            assert!(said.contains("You said: green") && said.contains("Thank you: Press me"), "{way:?}: {said}");
        }
    }
}

#[test]
fn leaving_plan_mode_asks() {
    for way in ways() {
        // What is chosen, and whether a file can be written then and asks first.
        for (choose, written, questions) in
            [("reject_once", false, 0), ("allow_once", true, 1), ("allow_always", true, 0)]
        {
            let place = Place::new();
            let mut client = puppet(&place, way, &json!({}), "plan");
            client.choose = choose;
            client.prompt("call switch_mode {\"mode\": \"edit\"}\nresult");
            assert_eq!(client.asked.len(), 1, "{way:?} {choose}");
            let kinds = client.asked[0]["options"].as_array().unwrap().iter().map(|option| option["kind"].clone());
            assert_eq!(kinds.collect::<Vec<_>>(), ["allow_always", "allow_once", "reject_once"], "{way:?}");
            assert!(written || client.said().contains("stay in this mode"), "{way:?}: {}", client.said());
            client.choose = "allow_once";
            client.prompt("write a.txt x");
            assert_eq!(place.project().join("a.txt").exists(), written, "{way:?} {choose}");
            assert_eq!(client.asked.len() - 1, questions, "{way:?} {choose}");
        }
    }
}

#[test]
fn the_reason_of_a_rejection_goes_back_to_the_model() {
    for way in ways() {
        let place = Place::new();
        let mut client = puppet(&place, way, &json!({}), "ask");
        let why = "Not today, please.";
        client.serve = Some(Box::new(move |_| {
            let outcome = json!({"outcome": "selected", "optionId": "reject", "_meta": {"reason": why}});
            Some(Reply::Result(json!({"outcome": outcome})))
        }));
        assert_eq!(client.prompt("write a.txt x\nresult"), "end_turn", "{way:?}");
        assert!(client.said().contains(why) && client.said().contains("rejected"), "{way:?}: {}", client.said());
        assert!(!place.project().join("a.txt").exists());
    }
}

#[test]
fn the_editor_is_used_where_it_offers_itself() {
    for framing in FRAMINGS {
        let place = Place::new();
        place.write("a.txt", "saved\n");
        let mut client = puppet(&place, ("1", framing), &Editor::offers(), "edit");
        let path = place.project().canonicalize().unwrap().join("a.txt");
        client.editor = Some(Editor::default());
        client.editor.as_mut().unwrap().unsaved.insert(path, "not saved yet\n".into());
        client.prompt("read a.txt\nresult");
        assert!(client.said().contains("not saved yet"), "{framing:?}: {}", client.said());
        client
            .prompt("call edit {\"path\": \"a.txt\", \"edits\": [{\"old\": \"not saved yet\", \"new\": \"changed\"}]}");
        assert_eq!(place.read("a.txt"), "changed\n", "{framing:?}");
        // Its terminal is part of the tool call from the moment it runs to the end.
        client.updates.clear();
        assert_eq!(client.prompt("run echo in a terminal\nresult"), "end_turn");
        assert!(client.said().contains("in a terminal"), "{framing:?}: {}", client.said());
        let shown: Vec<&Value> = client.updates.iter().filter(|update| update["content"].is_array()).collect();
        let terminal = json!([{"type": "terminal", "terminalId": "terminal-1"}]);
        assert!(shown.len() >= 2 && shown.iter().all(|update| update["content"] == terminal), "{shown:?}");
        assert!(!client.editor.as_ref().unwrap().has_terminals());
    }
}

#[test]
fn current_clients_see_terminals_and_structured_diffs() {
    for framing in FRAMINGS {
        let place = Place::new();
        place.write("a.txt", "one\n");
        let mut client = puppet(&place, ("2", framing), &json!({}), "auto");
        client.prompt("run echo first; sleep 0.3; printf 'sec\\303\\266nd'; exit 5");
        let of = |kind: &'static str| client.updates.iter().filter(move |update| update["sessionUpdate"] == kind);
        let opened = of("terminal_update").next().unwrap();
        assert!(opened["command"].as_str().unwrap().contains("echo first"), "{opened}");
        let chunks = of("terminal_output_chunk").flat_map(|chunk| decoded(chunk["data"].as_str().unwrap()));
        assert_eq!(String::from_utf8(chunks.collect()).unwrap(), "first\nsecönd");
        assert_eq!(of("terminal_update").next_back().unwrap()["exitStatus"]["exitCode"], 5);
        let content = json!([{"type": "terminal", "terminalId": opened["terminalId"]}]);
        assert!(of("tool_call_update").any(|update| update["content"] == content));
        client.updates.clear();
        client.prompt("write a.txt two\\n");
        let told = client.updates.iter().find(|update| update["title"].is_string() && update["content"].is_array());
        let diff = &told.unwrap()["content"][0];
        assert_eq!((&diff["type"], &diff["changes"][0]["operation"]), (&json!("diff"), &json!("modify")), "{diff}");
        let patch = diff["patch"]["text"].as_str().unwrap();
        assert!(patch.contains("\n-one\n+two\n"), "{patch}");
    }
}

#[test]
fn guides_and_commands_of_a_project() {
    for way in ways() {
        let place = Place::new();
        place.write("AGENTS.md", "Write British English.\n");
        place.write(".tieline/commands/greet.md", "# Greets someone\nsay Hello, $ARGUMENTS!\n");
        place.write(".tieline/commands/plain.md", "told\n");
        let mut client = Client::able(&place, way, &json!({}), &["--script", "puppet"]);
        let answer = client.open_in(&place.project());
        let offered = if way.0 == "2" { answer } else { client.until_update("available_commands_update") };
        let names = offered["availableCommands"].as_array().unwrap().iter().map(|command| &command["name"]);
        assert!(["greet", "plain"].iter().all(|name| names.clone().any(|known| known == name)), "{way:?}: {offered}");
        assert!(offered.to_string().contains("Greets someone"), "{way:?}");
        client.prompt("/greet Ada Lovelace");
        assert!(client.said().contains("Hello, Ada Lovelace!"), "{way:?}: {}", client.said());
        client.prompt("/plain");
        assert!(client.said().contains("Write British English."), "{way:?}: {}", client.said());
    }
}

#[test]
fn sound_is_refused_with_a_reason() {
    for way in ways() {
        let place = Place::new();
        let mut client = Client::silent(&place, way, &["--script", "puppet"]);
        let answer = client.call("initialize", common::hello(way.0, &json!({})));
        assert!(!answer.to_string().contains("\"audio\":{"), "{way:?}: {answer}");
        client.open_in(&place.project());
        let sound = json!({"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"});
        let params = json!({"sessionId": client.session, "prompt": [{"type": "text", "text": "say on"}, sound]});
        let error = client.fail("session/prompt", params);
        assert_eq!((&error["code"], error.to_string().contains("`audio`")), (&json!(-32602), true), "{way:?}: {error}");
        assert_eq!(client.prompt("say on"), "end_turn", "{way:?}");
    }
}

/// What a write would be asked for, a command can't do behind everybody's back.
#[test]
#[cfg(target_os = "linux")]
fn commands_are_kept_from_what_runs_later() {
    for dialect in DIALECTS {
        let place = Place::new();
        place.write(".git/config", "mine\n");
        place.write(".envrc", "mine\n");
        let mut client = puppet(&place, (dialect, Framing::Lines), &json!({}), "auto");
        client.choose = "allow_once";
        client.prompt("run echo x > .git/config; mkdir .git/hooks; echo x > .envrc; echo made > a.txt\nresult");
        if let Some(asked) = client.asked.first() {
            // Without namespaces they can't be protected, so each command is asked for.
            assert!(asked.to_string().contains("NOT protected"), "{dialect}: {asked}");
            return skipped("SANDBOX", "there are no namespaces, so nothing protects what runs by itself later");
        }
        assert_eq!(place.read("a.txt"), "made\n", "{dialect}: {}", client.said());
        assert_eq!((place.read(".git/config"), place.read(".envrc")), ("mine\n".into(), "mine\n".into()), "{dialect}");
        assert!(!common::exists(&place.project().join(".git/hooks")), "{dialect}");
        assert!(!client.said().contains("New while it ran"), "{dialect}: {}", client.said());
        // A name that was not there yet is told, to the model and to the user.
        client.updates.clear();
        client.prompt("run mkdir -p sub/.vscode; echo x > sub/.vscode/tasks.json\nresult");
        assert!(
            client.said().contains("New while it ran, and may run by itself later: sub/.vscode."),
            "{}",
            client.said()
        );
        let told = client.updates.iter().find(|update| update["status"] == "completed").unwrap();
        assert!(told["content"].to_string().contains("sub/.vscode"), "{dialect}: {told}");
        // The same in the background.
        client.updates.clear();
        client.prompt(&format!("call run {}", json!({"command": "echo x > .npmrc; sleep 0.1", "background": true})));
        common::soon("the file", || common::exists(&place.project().join(".npmrc")));
        // The user hears of it whether the model asks or not, and once: at the end of that turn or the begin of the next one.
        client.prompt("say on");
        client.prompt("say on");
        let told = |update: &&Value| update.to_string().contains("in the background: New while it ran, and may run");
        assert_eq!(client.updates.iter().filter(told).count(), 1, "{dialect}: {:?}", client.updates);
        client.prompt("call stop {\"id\": 1}\nresult");
        assert!(client.said().contains(".npmrc"), "{dialect}: {}", client.said());
        assert!(client.asked.is_empty(), "{dialect}: {:?}", client.asked);
        // Who has to change them says so, or is known to; then the user decides.
        client.prompt(&format!("call run {}", json!({"command": "echo new > .git/config", "unprotected": true})));
        assert_eq!((client.asked.len(), place.read(".git/config")), (1, "new\n".into()), "{dialect}");
        assert!(client.asked[0].to_string().contains("it may change .git"), "{dialect}: {}", client.asked[0]);
        client.prompt("run git init -q nested");
        assert_eq!(client.asked.len(), 2, "{dialect}: {:?}", client.asked);
        client.choose = "reject_once";
        client.prompt(&format!("call run {}", json!({"command": "echo x > .git/config", "unprotected": true})));
        assert_eq!((client.asked.len(), place.read(".git/config")), (3, "new\n".into()), "{dialect}");
    }
}

/// Where not all that runs later can be held, the command is asked for; and what was held before still is.
#[test]
#[cfg(target_os = "linux")]
fn a_flood_of_names_does_not_open_the_guard() {
    let place = Place::new();
    place.write(".git/config", "mine\n");
    place.write("sub/deep/er/.git/config", "mine\n");
    let mut client = puppet(&place, (DIALECTS[0], Framing::Lines), &json!({}), "auto");
    client.choose = "reject_once";
    client.prompt("run for i in $(seq 2100); do mkdir n$i && : > n$i/.envrc; done\nresult");
    if !common::exists(&place.project().join("n2100/.envrc")) {
        assert!(client.asked[0].to_string().contains("NOT protected"), "{:?}", client.asked);
        assert!(std::env::var_os("TIELINE_NEED_SANDBOX").is_none(), "there is no sandbox");
        eprintln!("!!! NOT TRIED, THERE IS NO WHOLE SANDBOX HERE");
        return;
    }
    client.asked.clear();
    client.prompt("run mkdir sub/deep/er/.git/hooks .git/hooks\nresult");
    assert_eq!(client.asked.len(), 1, "{}", client.said());
    assert!(client.asked[0].to_string().contains("there are more than 2048 such names"), "{:?}", client.asked);
    // Also if the user says yes, what was there before the flood is held.
    client.choose = "allow_once";
    client.prompt("run mkdir sub/deep/er/.git/hooks .git/hooks; echo x > open.txt\nresult");
    assert_eq!(place.read("open.txt"), "x\n", "{}", client.said());
    for path in [".git/hooks", "sub/deep/er/.git/hooks"] {
        assert!(!common::exists(&place.project().join(path)), "{path}: {}", client.said());
    }
}

/// A rule that forbids reading holds for commands, too.
#[test]
#[cfg(target_os = "linux")]
fn what_must_not_be_read_is_hidden_from_commands() {
    let place = Place::new();
    place.write(".tieline/rules.toml", "deny = [\"read **/.env\"]\n");
    place.write(".env", "SECRET\n");
    place.write("sub/.env", "SECRET\n");
    let mut client = puppet(&place, (DIALECTS[0], Framing::Lines), &json!({}), "auto");
    client.choose = "allow_once";
    for line in [
        "cat .env sub/.env",
        "ln .env x; cat x",
        "mv sub other; cat other/.env",
        "cat x other/.env",
        "grep -r SECRET .",
    ] {
        client.prompt(&format!("run {line}\nresult"));
        assert!(!client.said().contains("SECRET"), "{line}: {}", client.said());
    }
    assert_eq!(place.read(".env"), "SECRET\n");
    // What can't be looked at may be just that: nothing runs, whoever says yes, and nobody is asked for it.
    client.prompt(
        "run d=$(printf 'x%.0s' $(seq 200)); for i in $(seq 30); do mkdir $d && cd $d; done; : > made; ls\nresult",
    );
    assert!(client.said().contains("made"), "{}", client.said());
    client.asked.clear();
    for unprotected in [true, false] {
        let call = json!({"command": "echo it ran > ran.txt", "unprotected": unprotected});
        client.prompt(&format!("call run {call}\nresult"));
        assert!(client.said().contains("what a rule denies about files can't be held"), "{}", client.said());
    }
    assert!(client.asked.is_empty() && !common::exists(&place.project().join("ran.txt")), "{:?}", client.asked);
}

/// What was allowed for good with the guard around it is asked about again without it.
#[test]
#[cfg(target_os = "linux")]
fn an_always_for_a_guarded_command_is_for_that() {
    let place = Place::new();
    place.write(".git/config", "mine\n");
    let mut client = puppet(&place, (DIALECTS[0], Framing::Lines), &json!({}), "ask");
    client.choose = "allow_always";
    client.prompt("run cp new.txt .git/config\nresult");
    assert_eq!(client.asked.len(), 1, "{}", client.said());
    client.prompt("run cp new.txt .git/config\nresult");
    assert_eq!(client.asked.len(), 1, "the same again: {}", client.said());
    client.choose = "reject_once";
    client.prompt(&format!("call run {}", json!({"command": "cp new.txt .git/config", "unprotected": true})));
    assert_eq!(client.asked.len(), 2, "{}", client.said());
    assert_eq!(place.read(".git/config"), "mine\n");
}

/// What was allowed for good in a sandbox that did not hold all, or on purpose less, is asked about again with less around it.
#[test]
#[cfg(target_os = "linux")]
fn an_always_is_for_no_less_than_was_shown() {
    // The settings of git, the call, and whether the same call is asked for again.
    let gap = "[core]\n\thooksPath = not/there\n";
    let rows = [
        (gap, json!({"command": "touch one.txt"}), "run@sandbox", true),
        ("", json!({"command": "touch one.txt", "unprotected": true}), "run@unguarded", false),
        ("", json!({"command": "git commit -m x"}), "run@unguarded", false),
    ];
    for (settings, call, verb, again) in rows {
        let place = Place::new();
        place.write(".git/config", settings);
        let way = (DIALECTS[0], Framing::Lines);
        let mut client = puppet(&place, way, &json!({}), "ask");
        client.choose = "allow_always";
        client.prompt(&format!("call run {call}"));
        let asked = client.asked[0].to_string();
        if asked.contains("NOT protected") {
            assert!(std::env::var_os("TIELINE_NEED_SANDBOX").is_none(), "there is no sandbox");
            eprintln!("!!! NOT TRIED, THERE IS NO WHOLE SANDBOX HERE");
            return;
        }
        assert!(asked.contains(&format!(": {verb} ")), "{asked}");
        client.choose = "reject_once";
        client.prompt(&format!("call run {call}"));
        assert_eq!(client.asked.len(), if again { 2 } else { 1 }, "{call}: {:?}", client.asked);
        drop(client);
        // With less around it.
        let terminal = json!({"terminal": true});
        let unprotected = json!({"command": call["command"], "unprotected": true});
        for (offers, call, flags, expect) in [
            (json!({}), &call, &["--sandbox", "off"][..], 1),
            (terminal, &call, &[][..], usize::from(again)),
            (json!({}), &unprotected, &[], usize::from(again)),
        ] {
            let args = [&["--script", "puppet", "--mode", "ask"], flags].concat();
            let mut client = Client::able(&place, way, &offers, &args);
            client.open_in(&place.project());
            client.choose = "reject_once";
            client.prompt(&format!("call run {call}"));
            assert_eq!(client.asked.len(), expect, "{call} {offers} {flags:?}: {:?} {}", client.asked, client.said());
        }
    }
}
