//! Each probe that other clients fail, with what ours must do about it.

use super::harness::{Place, alive, harmless, mark, wait};
use serde_json::{Value, json};

#[test]
fn escape_sequences_are_shown_harmlessly_counted_and_marked() {
    for dialect in ["1", "2-seed", "2"] {
        let place = Place::new();
        let done = place.agent("escapes", dialect, &[]).run().ends(0);
        assert!(harmless(&done.out) && harmless(&done.err), "{done:#?}");
        done.out_has("red").out_has(" done");
        done.err_has(
            "made harmless: 6 escape sequences removed, 2 control characters removed, 2 hidden characters shown",
        );
        assert!(!done.out.contains("owned") && done.out.contains("\\u{202e}"), "{done:#?}");
        // Programs get exactly what was said, but nothing that a terminal would obey.
        for format in ["json", "stream-json", "acp"] {
            let done = place.agent("escapes", dialect, &[]).format(format).run().ends(0);
            assert!(harmless(&done.out), "{dialect} {format}: {done:#?}");
        }
        let object = place.agent("escapes", dialect, &[]).format("json").run().object();
        assert!(object["text"].as_str().unwrap().starts_with("\u{1b}]0;owned\u{7}\u{1b}[31mred"), "{object}");
    }
}

#[test]
fn a_death_in_a_turn_names_phase_status_and_last_words() {
    for dialect in ["1", "2-seed", "2"] {
        let place = Place::new();
        let done = place.agent("crash", dialect, &[]).run().ends(1);
        done.out_has("half a sen").err_has("exited with status 3");
        done.err_has("reason: the disk caught fire").err_has("try: start it again");
        assert!(harmless(&done.err));
        let done = place.agent("crash", dialect, &[]).format("stream-json").run().ends(1);
        let events = done.events();
        let ends: Vec<_> = events.iter().filter(|event| event["type"] == "end").collect();
        assert_eq!((ends.len(), &events.last().unwrap()["type"]), (1, &json!("end")));
        let error = &ends[0]["error"];
        assert_eq!((&error["phase"], &error["exit"]), (&json!("turn"), &json!("exited with status 3")));
        assert!(error["stderr_tail"].to_string().contains("the disk caught fire"), "{error}");
        assert_eq!(ends[0]["text"], "half a sen");
        place.agent("killed", dialect, &[]).run().ends(1).err_has("killed by SIGKILL");
    }
}

#[test]
fn a_needed_login_lists_the_methods_and_the_chosen_one_is_run() {
    for dialect in ["1", "2-seed", "2"] {
        let place = Place::new();
        let done = place.agent("login", dialect, &[]).run().ends(6);
        done.err_has("browser")
            .err_has("In the browser")
            .err_has("key")
            .err_has("With a key")
            .err_has("--login browser");
        let object = place.agent("login", dialect, &[]).format("json").run().ends(6).object();
        let methods = &object["error"]["login_methods"];
        assert_eq!((&methods[0]["id"], &methods[1]["id"]), (&json!("browser"), &json!("key")));
        let done = place.agent("login", dialect, &["--login", "key"]).run().ends(0);
        done.out_has("Hello, world.");
        let method = if dialect == "2" { "auth/login" } else { "authenticate" };
        assert_eq!(done.sent(method).last().unwrap()["params"]["methodId"], "key");
        place.agent("login", dialect, &["--login", "nope"]).run().ends(6).err_has("nope");
        place.agent("login_fails", dialect, &["--login", "key"]).run().ends(6).err_has("wrong password");
        place.agent("login_in_vain", dialect, &["--login", "key"]).run().ends(6);
    }
}

#[test]
fn unknown_updates_are_one_line_and_kept_raw() {
    for dialect in ["1", "2-seed", "2"] {
        let place = Place::new();
        let done = place.agent("unknown_updates", dialect, &[]).run().ends(0);
        assert_eq!(done.out, "after\n");
        assert_eq!(done.err.lines().filter(|line| line.contains("weather_report")).count(), 1, "{done:#?}");
        let events = place.agent("unknown_updates", dialect, &[]).format("stream-json").run().events();
        let unknown = events.iter().find(|event| event["unknown"] == "weather_report").unwrap();
        assert_eq!(unknown["update"]["sunny"], true);
    }
}

#[test]
fn unknown_content_kinds_and_nulls_get_a_placeholder() {
    for dialect in ["1", "2-seed", "2"] {
        let place = Place::new();
        let done = place.agent("unknown_content", dialect, &[]).run().ends(0);
        assert_eq!(done.out.trim(), "after");
        done.err_has("hologram").err_has("Strange").err_has("teleport").err_has("smell");
    }
}

#[test]
fn a_batch_is_taken_apart() {
    for dialect in ["1", "2-seed", "2"] {
        Place::new().agent("batch", dialect, &[]).run().ends(0).out_has("in a batch");
    }
}

#[test]
fn lines_that_are_no_messages_are_one_notice_each() {
    for dialect in ["1", "2-seed", "2"] {
        let place = Place::new();
        let done = place.agent("rubbish", dialect, &[]).run().ends(0);
        assert_eq!(done.out, "after\n");
        assert_eq!(done.err.lines().filter(|line| line.contains("npm WARN")).count(), 1, "{done:#?}");
        place.agent("rubbish_first", dialect, &[]).run().ends(0).err_has("Loading plugins");
        let object = place.agent("rubbish", dialect, &[]).format("json").run().object();
        assert_eq!(object["warnings"].as_array().unwrap().len(), 2, "{object}");
        // An update that can't be read is told of, too.
        place.agent("broken_update", dialect, &[]).run().ends(0).err_has("can't be read").out_has("after");
    }
}

#[test]
fn updates_behind_the_end_are_shown() {
    for dialect in ["1", "2-seed", "2"] {
        let place = Place::new();
        let done = place.agent("late", dialect, &[]).run().ends(0);
        done.out_has("before the end; after the end").err_has("after the end of its turn (late)");
        let done = place.agent("late", dialect, &[]).format("stream-json").run().ends(0);
        let events = done.events();
        assert!(events.iter().any(|event| event["type"] == "usage" && event["when"] == "late"), "{done:#?}");
        let texts: Vec<_> = events.iter().filter(|event| event["type"] == "text").map(|event| &event["when"]).collect();
        assert_eq!(texts, [&Value::Null, &json!("late")], "{done:#?}");
        assert_eq!(events.last().unwrap()["usage"], json!({"used": 5, "size": 9}));
    }
}

#[test]
fn a_refusal_without_an_offered_one_is_cancelled_and_explained() {
    for dialect in ["1", "2-seed", "2"] {
        let place = Place::new();
        let done = place.agent("only_allow", dialect, &["--deny-all"]).run().ends(5);
        assert_eq!(done.told(), json!({"outcome": "cancelled"}));
        done.err_has("no option that refuses was offered");
    }
}

#[test]
fn files_outside_the_project_are_refused_with_a_clear_code() {
    for path in ["/etc/passwd", "/proc/self/environ"] {
        let place = Place::new();
        let done = place.agent("read_file", "1", &[]).words(&[path]).run();
        let told = done.told();
        assert_eq!(told["error"]["code"], -32003, "{done:#?}");
        assert_eq!(told["error"]["data"]["reason"], "permission_denied", "{done:#?}");
    }
}

#[test]
fn version_2_has_neither_files_nor_terminals_of_the_client() {
    for dialect in ["2-seed", "2"] {
        let place = Place::new();
        place.write("a.txt", "hello\n");
        let path = place.project().join("a.txt").display().to_string();
        let calls: [(&str, &str); 3] =
            [("read_file", &path), ("write_file", "new.txt"), ("terminal", r#"{"command": "touch made"}"#)];
        for (behaviour, word) in calls {
            let done = place.agent(behaviour, dialect, &["--allow-all"]).words(&[word]).run().ends(0);
            assert_eq!(done.told()["error"]["code"], -32601, "{dialect} {behaviour}: {done:#?}");
        }
        assert_eq!((place.read("new.txt"), place.read("made")), (None, None), "{dialect}");
    }
}

#[test]
fn a_terminal_is_one_and_has_a_size() {
    let place = Place::new();
    let command = r#"{"command": "sh", "args": ["-c", "test -t 0 && test -t 1 && stty size; exit 3"]}"#;
    let done = place.agent("terminal", "1", &["--allow-all"]).words(&[command]).run().ends(0);
    let told = done.told();
    assert_eq!((&told["exit"]["exitCode"], told["exit"].get("signal")), (&json!(3), None), "{done:#?}");
    assert_eq!(told["output"]["output"], "24 80\n", "{done:#?}");
    assert_eq!(told["gone"], -32002);
}

#[test]
fn nothing_that_an_agent_started_is_left() {
    for dialect in ["1", "2"] {
        let (place, mark) = (Place::new(), mark("orphan"));
        place.agent("orphan", dialect, &[]).words(&[&mark]).run().ends(0).out_has("left something behind");
        wait("the end of what was left behind", || !alive(&mark));
    }
}

#[test]
fn an_edit_is_shown_as_a_diff() {
    for dialect in ["1", "2-seed", "2"] {
        let place = Place::new();
        place.write("notes.txt", "old\n");
        let done = place.agent("ask_edit", dialect, &["--allow-edits"]).run().ends(0);
        done.err_has("-old").err_has("+new");
        assert_eq!(place.read("notes.txt").unwrap(), "new\n");
    }
}

#[test]
fn sixty_megabytes_in_one_message_take_less_than_two_hundred() {
    const MEASURE: &str = "import resource, subprocess, sys
code = subprocess.run(sys.argv[1:], stdin=subprocess.DEVNULL).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
sys.exit(code)";
    // As the agent makes it: whole pieces of lines, and a rest.
    let line = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXY";
    let (piece, size) = ((line.len() + 2) * 16384, 60_000_000);
    let expect = format!("{line}\n").repeat(16384 * (size / piece)) + &"x".repeat(size % piece);
    for format in ["text", "quiet", "json", "stream-json", "acp"] {
        let place = Place::new();
        let mut command = std::process::Command::new("python3");
        place.surround(&mut command);
        command.args(["-c", MEASURE, env!("CARGO_BIN_EXE_tieline"), "exec", "go", "--format", format, "--"]);
        command.args(["python3", &super::harness::script("agent.py"), "huge", "1", &size.to_string()]);
        let done = command.current_dir(place.project()).output().unwrap();
        let err = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.success(), "{format}: {err}");
        let out = String::from_utf8(done.stdout).unwrap();
        let values = || out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let came: Vec<String> = match format {
            "text" | "quiet" => vec![out.strip_suffix('\n').unwrap().to_owned()],
            "json" => values().map(|object| object["text"].as_str().unwrap().to_owned()).collect(),
            "stream-json" => {
                let texts = |kind: &str| {
                    values()
                        .filter(|event| event["type"] == kind)
                        .map(|event| event["text"].as_str().unwrap().to_owned())
                        .collect()
                };
                vec![texts("text"), texts("end")]
            }
            _ => values()
                .filter_map(|frame| frame["params"]["update"]["content"]["text"].as_str().map(str::to_owned))
                .collect(),
        };
        assert!(!came.is_empty() && came.iter().all(|text| *text == expect), "{format}: the text is another one");
        let kilobytes: u64 = err.lines().last().unwrap().parse().unwrap();
        assert!(kilobytes < 200_000, "{format}: {kilobytes} KB");
    }
}

#[test]
fn an_agent_that_ignores_the_cancel_is_ended_visibly() {
    for dialect in ["1", "2"] {
        let (place, mark) = (Place::new(), mark("deaf"));
        let run = place.agent("deaf", dialect, &[]).env("MARK", &mark).start();
        run.until_out("working");
        run.signal("INT");
        let done = run.done().ends(130);
        done.err_has("asked to stop").err_has("did not heed the cancel").err_has("interrupted");
        assert_eq!(done.sent("session/cancel").len(), 0, "it never reads again");
        wait("the end of the agent", || !alive(&mark));
    }
}
