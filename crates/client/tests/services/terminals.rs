//! `terminal/…`: real commands in real terminals.

#[path = "../../../../scripts/skipped.rs"]
mod skipped;

use crate::harness::{block_on, processes_with, soon, unique};
use crate::setup::{Log, Project, Scene, in_session, in_version_1};
use serde_json::{Value, json};
use skipped::skipped;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tieline::Dialect;
use tieline_client::permission;
use tieline_client::sanitize;
use tieline_client::services::{Builder, Event};
use tieline_client::terminal::{Limits, Settings};
use tieline_host::run::Size;
use tieline_host::sandbox::{Level, Policy};

pub const ALL: &[(&str, fn())] = &[
    ("v1_term_02_04_06_14_a_command_from_start_to_end", v1_term_02_04_06_14_a_command_from_start_to_end),
    ("v1_term_05_output_is_cut_between_characters", v1_term_05_output_is_cut_between_characters),
    ("v1_term_07_08_09_kill_keeps_and_release_forgets", v1_term_07_08_09_kill_keeps_and_release_forgets),
    ("waits_kills_and_a_release_at_once_are_each_answered", waits_kills_and_a_release_at_once_are_each_answered),
    ("v1_term_10_output_is_watched_live", v1_term_10_output_is_watched_live),
    ("v1_term_12_the_folder_is_the_sessions_or_below", v1_term_12_the_folder_is_the_sessions_or_below),
    ("v1_term_15_terminals_end_with_their_session", v1_term_15_terminals_end_with_their_session),
    ("it_is_a_real_terminal_of_the_right_size", it_is_a_real_terminal_of_the_right_size),
    ("another_size_reaches_what_runs_and_what_comes", another_size_reaches_what_runs_and_what_comes),
    ("a_screen_full_of_sequences_is_shown_safely", a_screen_full_of_sequences_is_shown_safely),
    ("a_shell_line_without_arguments_runs", a_shell_line_without_arguments_runs),
    ("the_environment_is_a_short_list", the_environment_is_a_short_list),
    ("a_sandbox_holds_where_there_is_one", a_sandbox_holds_where_there_is_one),
    ("endless_output_is_bounded", endless_output_is_bounded),
    ("only_so_many_are_open_at_once", only_so_many_are_open_at_once),
    ("what_can_not_be_started_is_told", what_can_not_be_started_is_told),
    ("terminals_end_when_the_services_are_dropped", terminals_end_when_the_services_are_dropped),
    ("nothing_runs_where_a_root_was_replaced", nothing_runs_where_a_root_was_replaced),
];

fn all(services: Builder) -> Builder {
    services.engine(permission::Engine::new(permission::Preset::AllowAll, tieline_host::rules::Config::default()))
}

async fn create(scene: &mut Scene, params: Value) -> String {
    scene.result("terminal/create", params).await["terminalId"].as_str().unwrap().to_owned()
}

async fn sh(scene: &mut Scene, line: &str) -> String {
    create(scene, json!({"command": "bash", "args": ["-c", line]})).await
}

async fn wait(scene: &mut Scene, id: &str) -> Value {
    scene.result("terminal/wait_for_exit", json!({"terminalId": id})).await
}

async fn output(scene: &mut Scene, id: &str) -> Value {
    scene.result("terminal/output", json!({"terminalId": id})).await
}

/// Asks for the output until it is as wanted.
async fn output_until(scene: &mut Scene, id: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let start = Instant::now();
    loop {
        let shown = output(scene, id).await;
        if wanted(&shown) {
            return shown;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "the output stays {shown}");
    }
}

/// Runs a line to its end and gives its output.
async fn run(scene: &mut Scene, line: &str) -> String {
    let id = sh(scene, line).await;
    wait(scene, &id).await;
    let shown = output(scene, &id).await["output"].as_str().unwrap().to_owned();
    scene.result("terminal/release", json!({"terminalId": id})).await;
    shown
}

fn v1_term_02_04_06_14_a_command_from_start_to_end() {
    in_version_1(all, async |project, scene| {
        let gate = project.path("gate");
        let id = sh(scene, &format!("echo begun; until [ -e {gate} ]; do sleep 0.02; done; echo done; exit 7")).await;
        // It runs: its output is there as far as it goes, and there is no status yet.
        let shown = output_until(scene, &id, |shown| shown["output"] == "begun\n").await;
        assert!(shown.get("exitStatus").is_none_or(Value::is_null), "V1-TERM-04: {shown}");
        assert_eq!(shown["truncated"], false);
        // Three wait.
        let params = in_session(json!({"terminalId": id}));
        let mut ids = Vec::new();
        for _ in 0..3 {
            ids.push(scene.wire.ask("terminal/wait_for_exit", params.clone()).await);
        }
        std::fs::write(&gate, "").unwrap();
        let mut answers: Vec<Value> = Vec::new();
        while answers.len() < 3 {
            let message = scene.wire.get().await;
            assert!(ids.contains(&message["id"].as_i64().unwrap()));
            answers.push(message["result"].clone());
        }
        for answer in answers {
            assert_eq!(answer["exitCode"], 7, "V1-TERM-06");
            assert!(answer.get("signal").is_none_or(Value::is_null));
        }
        let shown = output(scene, &id).await;
        assert_eq!((&shown["output"], &shown["exitStatus"]["exitCode"]), (&json!("begun\ndone\n"), &json!(7)));
        // A signal has no code.
        let id = sh(scene, "kill -KILL $$").await;
        let exit = wait(scene, &id).await;
        assert_eq!(exit["signal"], "SIGKILL", "V1-TERM-14");
        assert!(exit.get("exitCode").is_none_or(Value::is_null), "V1-TERM-14: {exit}");
    });
}

fn v1_term_05_output_is_cut_between_characters() {
    in_version_1(all, async |_, scene| {
        // Each é is two bytes.
        for (limit, expect, truncated) in [
            (100, "aéééé", false),
            (9, "aéééé", false),
            (8, "éééé", true),
            (7, "ééé", true),
            (3, "é", true),
            (1, "", true),
            (0, "", true),
        ] {
            let params = json!({"command": "printf", "args": ["aéééé"], "outputByteLimit": limit});
            let id = create(scene, params).await;
            wait(scene, &id).await;
            let shown = output(scene, &id).await;
            assert_eq!((&shown["output"], &shown["truncated"]), (&json!(expect), &json!(truncated)), "limit {limit}");
        }
        // Bytes that are no text are bounded as text.
        let params = json!({"command": "printf", "args": ["\\377\\377\\377\\377"], "outputByteLimit": 7});
        let id = create(scene, params).await;
        wait(scene, &id).await;
        let shown = output(scene, &id).await;
        assert_eq!((&shown["output"], &shown["truncated"]), (&json!("\u{fffd}\u{fffd}"), &json!(true)));
    });
}

fn v1_term_07_08_09_kill_keeps_and_release_forgets() {
    in_version_1(all, async |_, scene| {
        let mark = unique();
        let id = sh(scene, &format!("echo {mark}; trap '' HUP; sleep 600; echo {mark}")).await;
        output_until(scene, &id, |shown| shown["output"] == format!("{mark}\n")).await;
        scene.result("terminal/kill", json!({"terminalId": id})).await;
        let shown = output(scene, &id).await;
        assert_eq!(shown["output"], format!("{mark}\n"), "V1-TERM-07");
        assert!(shown["exitStatus"]["signal"].is_string(), "{shown}");
        assert!(wait(scene, &id).await["signal"].is_string());
        assert!(processes_with(&mark).is_empty());
        // Once more is fine, also after the end.
        scene.result("terminal/kill", json!({"terminalId": id})).await;
        scene.result("terminal/release", json!({"terminalId": id})).await;
        for method in ["output", "wait_for_exit", "kill", "release"] {
            let error = scene.error(&format!("terminal/{method}"), json!({"terminalId": id})).await;
            assert_eq!(error["code"], -32002, "V1-TERM-08 {method}");
        }
        // What it showed can still be shown.
        let kept = scene.services.terminals().watch(&id).expect("V1-TERM-09");
        assert_eq!(kept.output(0).text, format!("{mark}\r\n"));
        // Release ends what runs, and who waits hears of it.
        let id = sh(scene, &format!("sleep 600; echo {mark}")).await;
        let waiting = scene.wire.ask("terminal/wait_for_exit", in_session(json!({"terminalId": id}))).await;
        scene.result("terminal/output", json!({"terminalId": id})).await;
        let release = scene.wire.ask("terminal/release", in_session(json!({"terminalId": id}))).await;
        let mut answered = Vec::new();
        while answered.len() < 2 {
            answered.push(scene.wire.get().await["id"].as_i64().unwrap());
        }
        answered.sort_unstable();
        assert_eq!(answered, [waiting, release]);
        tokio::task::block_in_place(|| {
            soon("the released command ends", Duration::from_secs(10), || processes_with(&mark).is_empty());
        });
        // A terminal belongs to its session.
        let id = sh(scene, "true").await;
        let code = scene.wire.code("terminal/output", json!({"sessionId": "other", "terminalId": id})).await;
        assert_eq!(code, -32002);
    });
}

fn waits_kills_and_a_release_at_once_are_each_answered() {
    const CALLS: [&str; 6] = ["wait_for_exit", "kill", "release", "wait_for_exit", "output", "kill"];
    in_version_1(all, async |_, scene| {
        let mark = unique();
        for first in 0..CALLS.len() {
            let id = sh(scene, &format!("sleep 600; echo {mark}")).await;
            // In every order in which they follow each other, all in one breath.
            let mut open = Vec::new();
            for at in 0..CALLS.len() {
                let call = CALLS[(first + at) % CALLS.len()];
                let number = scene.wire.ask(&format!("terminal/{call}"), in_session(json!({"terminalId": id}))).await;
                open.push((number, call));
            }
            let mut released = 0;
            while !open.is_empty() {
                let message = scene.wire.get().await;
                let number = message["id"].as_i64().unwrap();
                let at = open.iter().position(|(id, _)| *id == number).expect("each is answered once");
                let (_, call) = open.remove(at);
                let code = &message["error"]["code"];
                assert!(code.is_null() || *code == -32002, "{first} {call}: {message}");
                released += usize::from(call == "release" && code.is_null());
                // Who heard of an end heard of none that the command made itself. One that was killed before it had
                // begun has no signal to tell of.
                if call == "wait_for_exit" && code.is_null() {
                    assert!(
                        message["result"].is_object() && message["result"]["exitCode"].is_null(),
                        "{first}: {message}"
                    );
                }
            }
            assert_eq!(released, 1, "{first}");
            assert_eq!(scene.error("terminal/output", json!({"terminalId": id})).await["code"], -32002);
        }
        tokio::task::block_in_place(|| {
            soon("the commands end", Duration::from_secs(30), || processes_with(&mark).is_empty());
        });
    });
}

fn v1_term_10_output_is_watched_live() {
    let log = Arc::new(Log::default());
    in_version_1(
        |services| all(services).observer(log.clone()),
        async |project, scene| {
            let gate = project.path("gate");
            let id = sh(scene, &format!("echo one; until [ -e {gate} ]; do sleep 0.02; done; echo two")).await;
            let view = scene.services.terminals().watch(&id).unwrap();
            let first = view.more(0).await.unwrap();
            assert_eq!(first.text, "one\r\n");
            std::fs::write(&gate, "").unwrap();
            let second = view.more(first.next).await.unwrap();
            assert_eq!(second.text, "two\r\n");
            assert!(view.more(second.next).await.is_none());
            wait(scene, &id).await;
            let ended = || {
                let events = log.0.lock().unwrap();
                events
                    .iter()
                    .any(|event| matches!(event, Event::TerminalEnded { exit, .. } if exit.exit_code == Some(0)))
            };
            tokio::task::block_in_place(|| soon("the end is told", Duration::from_secs(10), ended));
            let events = log.0.lock().unwrap();
            assert!(
                events.iter().any(|event| matches!(event, Event::TerminalStarted { terminal, .. } if *terminal == id))
            );
        },
    );
}

fn another_size_reaches_what_runs_and_what_comes() {
    in_version_1(all, async |_, scene| {
        let id = sh(scene, "trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.02; done").await;
        let view = scene.services.terminals().watch(&id).unwrap();
        let first = view.more(0).await.unwrap();
        assert_eq!(first.text, "ready\r\n");
        scene.services.terminals().resize(Size { columns: 44, rows: 12 });
        assert_eq!(view.more(first.next).await.unwrap().text, "12 44\r\n");
        let id = sh(scene, "stty size").await;
        wait(scene, &id).await;
        assert_eq!(output(scene, &id).await["output"], "12 44\n");
    });
}

fn v1_term_12_the_folder_is_the_sessions_or_below() {
    in_version_1(all, async |project, scene| {
        let sub = project.root.join("sub");
        std::fs::create_dir(&sub).unwrap();
        std::os::unix::fs::symlink(&project.outside, project.root.join("link")).unwrap();
        let pwd = async |scene: &mut Scene, cwd: Value| {
            let id = create(scene, json!({"command": "pwd", "cwd": cwd})).await;
            wait(scene, &id).await;
            output(scene, &id).await["output"].as_str().unwrap().trim().to_owned()
        };
        assert_eq!(pwd(scene, Value::Null).await, project.root.to_str().unwrap());
        assert_eq!(pwd(scene, json!(sub)).await, sub.to_str().unwrap());
        for (cwd, code) in [
            (json!("sub"), -32602),
            (json!(project.outside), -32003),
            (json!(project.path("link")), -32003),
            (json!(project.path("sub/../../outside")), -32003),
            (json!(project.path("missing")), -32002),
            (json!(project.file("file", "")), -32602),
        ] {
            let error = scene.error("terminal/create", json!({"command": "pwd", "cwd": cwd})).await;
            assert_eq!(error["code"], code, "{cwd}: {error}");
        }
    });
}

fn v1_term_15_terminals_end_with_their_session() {
    in_version_1(all, async |_, scene| {
        let mark = unique();
        // One that tries to get away: its own session, no input, deaf to the hang-up.
        let line = format!(
            "setsid -f bash -c 'trap \"\" HUP TERM; sleep 600; echo {mark}' </dev/null >/dev/null 2>&1; sleep 600; echo {mark}"
        );
        let id = sh(scene, &line).await;
        tokio::task::block_in_place(|| {
            soon("both run", Duration::from_secs(10), || processes_with(&mark).len() >= 2);
        });
        scene.services.end_session(&"other".into());
        output(scene, &id).await;
        scene.services.end_session(&"s".into());
        assert_eq!(scene.error("terminal/output", json!({"terminalId": id})).await["code"], -32002);
        tokio::task::block_in_place(|| {
            soon("nothing is left", Duration::from_secs(10), || processes_with(&mark).is_empty());
        });
    });
}

fn it_is_a_real_terminal_of_the_right_size() {
    let settings = Settings { size: Size { columns: 101, rows: 37 }, ..Settings::default() };
    in_version_1(
        |services| all(services).terminal_settings(settings),
        async |_, scene| {
            assert_eq!(run(scene, "test -t 0 && test -t 1 && test -t 2 && stty size").await, "37 101\n");
            assert_eq!(run(scene, "echo $TERM; tput cols 2>/dev/null || echo 101").await, "xterm-256color\n101\n");
            // It controls its command: job control works, and `/dev/tty` is this one.
            let shown = run(scene, "set -m; true & wait; echo yes >/dev/tty").await;
            assert!(shown.contains("Done") && shown.ends_with("yes\n"), "{shown}");
        },
    );
}

fn a_screen_full_of_sequences_is_shown_safely() {
    in_version_1(all, async |_, scene| {
        // What an editor writes: another screen, the cursor about, colours, a title, a line written over.
        let line = r"printf '\033[?1049h\033[2J\033[H\033]0;title\007~\033[37;1H\033[7mNORMAL\033[0m\r10%%\r\033[K99%%\033[?1049l\n'";
        let id = sh(scene, line).await;
        wait(scene, &id).await;
        let shown = output(scene, &id).await["output"].as_str().unwrap().to_owned();
        assert!(shown.contains("\x1b[?1049h"), "the agent gets what was written: {shown:?}");
        assert_eq!(sanitize::text(&shown), "~NORMAL␍10%␍99%\n");
        let view = scene.services.terminals().watch(&id).unwrap();
        assert_eq!(sanitize::text(&view.output(0).text), "~NORMAL␍10%␍99%\n");
    });
}

fn a_shell_line_without_arguments_runs() {
    in_version_1(all, async |_, scene| {
        let id = create(scene, json!({"command": "echo one && echo two | tr o 0"})).await;
        assert_eq!(wait(scene, &id).await["exitCode"], 0);
        assert_eq!(output(scene, &id).await["output"], "one\ntw0\n");
    });
}

fn the_environment_is_a_short_list() {
    let settings = Settings { pass: vec!["PASSED_*".into()], ..Settings::default() };
    in_version_1(
        |services| all(services).terminal_settings(settings),
        async |_, scene| {
            // Whatever we have ourselves: nothing but the list and what the agent sets.
            let params =
                json!({"command": "env", "env": [{"name": "MINE", "value": "a b"}, {"name": "TERM", "value": "dumb"}]});
            let id = create(scene, params).await;
            wait(scene, &id).await;
            let shown = output(scene, &id).await["output"].as_str().unwrap().to_owned();
            assert!(
                shown.contains("MINE=a b\n") && shown.contains("TERM=dumb\n") && shown.contains("PATH="),
                "{shown}"
            );
            let known = "PATH HOME USER LOGNAME SHELL LANG LANGUAGE TERM COLORTERM NO_COLOR TZ TMPDIR CARGO_HOME RUSTUP_HOME \
            RUSTUP_TOOLCHAIN MINE PWD SHLVL _";
            for name in shown.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name) {
                assert!(
                    known.split_whitespace().any(|known| known == name) || name.starts_with("LC_"),
                    "{name} got through"
                );
            }
            for name in ["", "A=B", "A\u{0}"] {
                let params = json!({"command": "env", "env": [{"name": name, "value": ""}]});
                assert_eq!(scene.error("terminal/create", params).await["code"], -32602, "{name:?}");
            }
        },
    );
}

fn a_sandbox_holds_where_there_is_one() {
    let probe = Policy::new(Level::Workspace, [std::env::temp_dir()]).unwrap();
    if let Err(refused) = probe.check() {
        return skipped("SANDBOX", &format!("there is no sandbox here: {refused}"));
    }
    let settings = Settings { sandbox: Level::Workspace, ..Settings::default() };
    in_version_1(
        |services| all(services).terminal_settings(settings),
        async |project, scene| {
            let outside = project.outside.join("made").display().to_string();
            let shown =
                run(scene, &format!("test -t 0 && echo in > inside; echo out 2>/dev/null > {outside} || echo held"))
                    .await;
            assert!(shown.ends_with("held\n"), "{shown}");
            assert_eq!(std::fs::read_to_string(project.path("inside")).unwrap(), "in\n");
            assert!(!project.outside.join("made").exists());
        },
    );
}

fn endless_output_is_bounded() {
    in_version_1(all, async |_, scene| {
        let params = json!({"command": "yes", "args": ["0123456789"], "outputByteLimit": 1000});
        let id = create(scene, params).await;
        let shown = output_until(scene, &id, |shown| shown["truncated"] == true).await;
        assert!(shown["output"].as_str().unwrap().len() <= 1000);
        scene.result("terminal/kill", json!({"terminalId": id})).await;
        let shown = output(scene, &id).await;
        assert!(shown["output"].as_str().unwrap().len() <= 1000 && shown["truncated"] == true);
        scene.result("terminal/release", json!({"terminalId": id})).await;
    });
}

fn only_so_many_are_open_at_once() {
    let limits = Limits { open: 3, released: 1, ..Limits::default() };
    let settings = Settings { limits, ..Settings::default() };
    in_version_1(
        |services| all(services).terminal_settings(settings),
        async |_, scene| {
            let mut ids = Vec::new();
            for _ in 0..3 {
                ids.push(sh(scene, "true").await);
            }
            let error = scene.error("terminal/create", json!({"command": "true"})).await;
            assert_eq!(error["code"], -32001, "{error}");
            assert!(error["data"]["reason"].as_str().unwrap().contains("release one"), "{error}");
            scene.result("terminal/release", json!({"terminalId": ids[0]})).await;
            ids.push(sh(scene, "true").await);
            scene.result("terminal/release", json!({"terminalId": ids[1]})).await;
            assert!(scene.services.terminals().watch(&ids[0]).is_none(), "only so many released ones are kept");
            assert!(scene.services.terminals().watch(&ids[1]).is_some());
        },
    );
}

fn what_can_not_be_started_is_told() {
    in_version_1(all, async |project, scene| {
        for (command, word) in [
            ("no-such-program-here".to_owned(), "PATH"),
            (project.path("missing"), "no such file"),
            (project.file("plain", "text"), "executable"),
        ] {
            let error = scene.error("terminal/create", json!({"command": command})).await;
            assert!(error["data"]["reason"].as_str().unwrap().contains(word), "{command}: {error}");
        }
        assert_eq!(scene.error("terminal/create", json!({"command": ""})).await["code"], -32603);
    });
}

fn terminals_end_when_the_services_are_dropped() {
    block_on(async {
        let project = Project::new();
        let mark = unique();
        let mut scene = Scene::new(&project, all(project.services()).build(), Dialect::V1).await;
        sh(&mut scene, &format!("sleep 600; echo {mark}")).await;
        tokio::task::block_in_place(|| soon("it runs", Duration::from_secs(10), || !processes_with(&mark).is_empty()));
        drop(scene);
        tokio::task::block_in_place(|| soon("it ends", Duration::from_secs(10), || processes_with(&mark).is_empty()));
    });
}

fn nothing_runs_where_a_root_was_replaced() {
    in_version_1(all, async |project, scene| {
        scene.result("terminal/create", json!({"command": "true"})).await;
        std::fs::rename(&project.root, project.root.with_extension("moved")).unwrap();
        std::os::unix::fs::symlink(&project.outside, &project.root).unwrap();
        let line = json!({"command": "touch", "args": ["made"]});
        let error = scene.error("terminal/create", line).await;
        assert!(error.to_string().contains("changed"), "{error}");
        std::fs::remove_file(&project.root).unwrap();
        std::fs::rename(project.root.with_extension("moved"), &project.root).unwrap();
        assert!(!project.outside.join("made").exists());
    });
}
