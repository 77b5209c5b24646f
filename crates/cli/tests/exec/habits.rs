//! All bad habits of real agents, played by one scripted agent: each by its number, and those that fit together in one turn.

use super::harness::{self, Done, Exec, Place, Row, alive, harmless, mark, wait};
use super::sessions::recorded;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use tieline::client::{Client, Session};
use tieline::schema::{Protocol, StopReason};

const ALL: &[&str] = &["1", "2-seed", "2"];
const V1: &[&str] = &["1"];
const V2: &[&str] = &["2"];
/// Where the answer to a prompt is the end of the turn.
const OLDER: &[&str] = &["1", "2-seed"];

/// The habits by number as `wire-quirks` counts them, and those of version 2 by name.
const ROWS: &[Row] = &[
    ("1", ALL, text_between_the_messages),
    ("2", ALL, errors_without_an_id),
    ("3", ALL, the_same_ids_on_both_sides),
    ("4", ALL, updates_before_the_session_has_a_name),
    ("5", ALL, updates_behind_the_answer),
    ("6", ALL, settings_and_the_prompt_told_again),
    ("7", ALL, calls_that_nobody_announced),
    ("8", ALL, a_history_behind_the_answer),
    ("9", ALL, empty_chunks),
    ("10", ALL, fields_that_nobody_knows),
    ("11", ALL, odd_shapes_and_long_lists),
    ("12", ALL, options_of_one_kind),
    ("13", ALL, requests_outside_the_protocol),
    ("14", V1, a_shell_line_as_command),
    ("15", V1, a_look_before_a_file_is_made),
    ("16", ALL, codes_of_their_own),
    ("17", ALL, a_model_that_failed),
    ("18", ALL, capabilities_that_are_lies),
    ("19", ALL, a_second_prompt),
    ("20", ALL, sessions_that_are_locked),
    ("21", ALL, agents_that_stay_and_leave_things_behind),
    ("codex", V2, work_before_the_prompt_is_answered),
    ("crow", V2, an_idle_without_a_turn_and_terminals_told_twice),
    ("claude", V2, terminals_and_messages_as_a_whole),
    ("subject", V2, questions_about_anything),
    ("option", V2, options_by_id_only),
    ("cancel", V2, an_idle_that_comes_last),
    ("error", V2, an_end_that_is_an_error),
    ("reason", OLDER, an_answer_without_a_reason),
    ("all", ALL, all_at_once),
];

#[test]
fn rows() {
    harness::rows(ROWS);
}

#[test]
fn every_habit_that_the_agent_plays_has_a_row() {
    let script = std::fs::read_to_string(harness::script("habits.py")).unwrap();
    let played: BTreeSet<&str> = script.split("@habit(\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let rows: BTreeSet<&str> = ROWS.iter().map(|(number, ..)| *number).filter(|number| *number != "all").collect();
    assert_eq!(played, rows);
    assert!((1..=21).all(|number| played.contains(number.to_string().as_str())), "{played:?}");
}

/// A turn with an agent of these habits.
fn turn(place: &Place, habits: &str, dialect: &str, flags: &[&str], words: &[&str]) -> Exec {
    let exec = place.exec(&["go", "--protocol", dialect]).args(flags).env("AGENT_STATE", place.path("home"));
    exec.words(&["python3", &harness::script("habits.py"), habits, dialect]).words(words)
}

fn alone(habit: &str, dialect: &str, flags: &[&str]) -> Done {
    turn(&Place::new(), habit, dialect, flags, &[]).run()
}

/// The same where it is said who decided.
fn refused(option: &str) -> Value {
    json!({"outcome": "selected", "optionId": option, "_meta": {"decidedBy": "nobody could be asked"}})
}

fn outcome(option: &str) -> Value {
    json!({"outcome": "selected", "optionId": option})
}

fn text_between_the_messages(dialect: &str) {
    let done = alone("1", dialect, &[]).ends(0);
    done.err_has("no message: Loading plugins").err_has("something is deprecated");
    assert!(harmless(&done.err) && done.told() == json!({}), "{done:#?}");
    // Empty lines are nothing to tell of.
    let object = alone("1", dialect, &["--format", "json"]).ends(0).object();
    assert_eq!(object["warnings"].as_array().unwrap().len(), 2, "{object}");
}

fn errors_without_an_id(dialect: &str) {
    assert_eq!(alone("2", dialect, &[]).ends(0).told(), json!({}));
}

fn the_same_ids_on_both_sides(dialect: &str) {
    let done = alone("3", dialect, &[]).ends(0);
    let told = done.told();
    let prompt = done.sent("session/prompt")[0]["id"].as_u64().unwrap();
    assert_eq!(told["3"], json!(vec![-32601; prompt as usize + 1]), "{done:#?}");
}

fn updates_before_the_session_has_a_name(dialect: &str) {
    let done = alone("4", dialect, &[]).ends(0);
    assert_eq!(done.told(), json!({}), "what came too early is no answer");
    let object = alone("4", dialect, &["--format", "json"]).ends(0).object();
    assert_eq!((&object["usage"], &object["text"]), (&json!({"used": 1, "size": 100}), &json!("{}")), "{object}");
}

fn updates_behind_the_answer(dialect: &str) {
    let place = Place::new();
    let done = turn(&place, "5", dialect, &["--format", "stream-json"], &[]).run().ends(0);
    assert_eq!(done.events().last().unwrap()["usage"], json!({"used": 7, "size": 100}), "{done:#?}");
    assert!(done.events().iter().any(|event| event["type"] == "usage" && event["when"] == "late"), "{done:#?}");
    assert_eq!(recorded(&place)[0].title.as_deref(), Some("Habits"));
}

fn settings_and_the_prompt_told_again(dialect: &str) {
    let done = alone("6", dialect, &[]).ends(0);
    assert_eq!(done.told(), json!({}), "the prompt is no part of the answer");
}

fn calls_that_nobody_announced(dialect: &str) {
    let done = alone("7", dialect, &["--allow-all"]).ends(0);
    assert_eq!(done.told()["7"], outcome("yes"));
    done.err_has("A call out of nowhere").err_has("Heard of late").err_has("An endless one");
    let done = alone("7", dialect, &[]).ends(5);
    assert_eq!(done.told()["7"], refused("no"), "nothing is known of it, so it is not allowed");
}

fn a_history_behind_the_answer(dialect: &str) {
    let place = Place::new();
    // Version 1 can resume and load; what resumes may tell the history all the same.
    let ways: &[&[&str]] = if dialect == "1" { &[&[], &["resume"]] } else { &[&[]] };
    for words in ways {
        turn(&place, "8", dialect, &["-s", "old"], words).run().ends(0);
        let done = turn(&place, "8", dialect, &["-s", "old", "--format", "stream-json"], words).run().ends(0);
        let end = done.events().pop().unwrap();
        assert_eq!((&end["text"], &end["session"]["resumed"]), (&json!("{}"), &json!(true)), "{done:#?}");
        assert!(!done.out.contains("long ago") && !done.out.contains("An old call"), "{done:#?}");
        let shown = place.tieline(&["sessions", "show", "last"]).run().ends(0);
        assert!(!shown.out.contains("what was answered"), "the journal has it from the first time: {shown:#?}");
    }
}

fn empty_chunks(dialect: &str) {
    assert_eq!(alone("9", dialect, &[]).ends(0).told(), json!({}));
}

fn fields_that_nobody_knows(dialect: &str) {
    let place = Place::new();
    turn(&place, "10", dialect, &[], &[]).run().ends(0).err_has("Named");
    assert_eq!(turn(&place, "10", dialect, &["-c"], &[]).run().ends(0).told(), json!({}));
}

fn odd_shapes_and_long_lists(dialect: &str) {
    let place = Place::new();
    let done = turn(&place, "11", dialect, &["--model", "m317"], &[]).run().ends(0);
    assert_eq!(done.sent("session/set_config_option")[0]["params"]["value"], "m317");
    done.err_has("Bare").err_has("Raw");
    if dialect != "2" {
        done.err_has("+new");
    }
    // All commands came through, and a session is taken up that says nothing of itself.
    let done = turn(&place, "11", dialect, &["-c", "--format", "stream-json"], &[]).run().ends(0);
    assert_eq!(done.events().last().unwrap()["session"]["resumed"], true);
    let done = turn(&place, "11", dialect, &["--format", "stream-json"], &[]).run().ends(0);
    let commands = done.events().iter().find_map(|event| event["update"]["availableCommands"].as_array().map(Vec::len));
    assert_eq!(commands, Some(360), "{done:#?}");
}

fn options_of_one_kind(dialect: &str) {
    assert_eq!(alone("12", dialect, &["--allow-all"]).ends(0).told()["12"], outcome("cancel"), "by kind, not by id");
    assert_eq!(alone("12", dialect, &[]).ends(5).told()["12"], refused("proceed_once"));
}

fn requests_outside_the_protocol(dialect: &str) {
    assert_eq!(alone("13", dialect, &[]).ends(0).told()["13"], -32601);
}

fn a_shell_line_as_command(dialect: &str) {
    assert_eq!(alone("14", dialect, &["--allow-all"]).ends(0).told()["14"], json!(["one\ntwo\n", true]));
    assert_eq!(alone("14", dialect, &[]).ends(5).told()["14"], -32003);
}

fn a_look_before_a_file_is_made(dialect: &str) {
    // A missing file is a real error whose words let Gemini go on, and the file can be made.
    let place = Place::new();
    let done = turn(&place, "15", dialect, &["--allow-edits"], &[]).run().ends(0);
    assert_eq!(done.told()["15"], json!([-32002, true, true]));
    assert_eq!(place.read("new.txt").unwrap(), "new\n");
    assert_eq!(alone("15", dialect, &[]).ends(5).told()["15"][2], false);
}

fn codes_of_their_own(dialect: &str) {
    for code in ["-32603", "400", "1001", "-31002", "-32003"] {
        let done = turn(&Place::new(), "16", dialect, &["--format", "json"], &[code]).run().ends(1);
        let error = &done.object()["error"];
        assert_eq!(error["rpc_code"].to_string(), code, "{done:#?}");
        assert!(error["message"].as_str().unwrap().contains("API key not valid"), "{done:#?}");
    }
    // Whatever the code is for a session that the agent does not know: it is lost.
    for code in ["-32002", "-32602", "-32603"] {
        let place = Place::new();
        turn(&place, "16", dialect, &["-s", "x"], &[code]).run().ends(1);
        let done = turn(&place, "16", dialect, &["-s", "x"], &[code]).run().ends(8);
        done.err_has("does not have the session").err_has("no such thing");
        assert_eq!(done.sent("session/new").len(), 1, "{done:#?}");
    }
}

fn a_model_that_failed(dialect: &str) {
    let place = Place::new();
    let ends = |words: &[&str], code: i32| turn(&place, "17", dialect, &[], words).run().ends(code);
    ends(&["error"], 1).err_has("the model can't be reached");
    ends(&["text"], 0).out_has("Error: the model can't be reached");
    // An end with nothing at all is an end; that there was nothing is said.
    ends(&["nothing"], 0).err_has("without a word");
    let done = turn(&place, "17", dialect, &["-q"], &["nothing"]).run().ends(0);
    done.err_has("without a word");
    let object = turn(&place, "17", dialect, &["-F", "json"], &["nothing"]).run().ends(0).object();
    assert!(object["warnings"].to_string().contains("without a word"), "{object}");
    ends(&["text", "max_tokens"], 11);
    ends(&["rejected"], 5).err_has("Do it: not done");
    // Older Codex calls that cancelled.
    ends(&["rejected", "cancelled"], 5);
}

fn an_answer_without_a_reason(dialect: &str) {
    alone("reason", dialect, &["--timeout", "60"]).ends(1).err_has("missing field `stopReason`");
}

fn capabilities_that_are_lies(dialect: &str) {
    let place = Place::new();
    let done = turn(&place, "18", dialect, &["--model", "large"], &[]).run().ends(0);
    assert_eq!(done.sent("session/close").len(), 1, "{done:#?}");
    // In version 1 it says that it resumes, and can only load.
    let done = turn(&place, "18", dialect, &["-c", "--format", "json"], &[]).run().ends(0);
    assert_eq!(done.object()["session"]["resumed"], true);
    let asked = done.sent("session/resume").len();
    assert_eq!(asked, usize::from(dialect != "2-seed"), "{done:#?}");
}

fn a_second_prompt(dialect: &str) {
    // Two runs of ours never prompt one session at the same time.
    let place = Place::new();
    turn(&place, "19", dialect, &["-s", "x"], &["cancels"]).run();
    let open = turn(&place, "19", dialect, &["-s", "y"], &["never"]).start();
    open.until_out("working");
    turn(&place, "19", dialect, &["-s", "y"], &["never"]).run().ends(1).err_has("is open in");
    open.signal("INT");
    let done = open.done();
    assert_eq!(done.sent("session/prompt").len(), 2, "one of each session: {done:#?}");
    // Another client may have done so: the first prompt is cancelled, fails, or is never answered.
    let done = turn(&place, "19", dialect, &[], &["cancels"]).run().ends(1);
    done.err_has("was cancelled, but nobody asked for that").out_has("working");
    turn(&place, "19", dialect, &[], &["errors"]).run().ends(1).err_has("another prompt came");
    let done = turn(&place, "19", dialect, &["--timeout", "10s"], &["never"]).run().ends(3);
    done.out_has("working").err_has("--timeout");
    // The library: before version 2 a second prompt is not even sent; then it is queued, or refused alone.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (session, _agent) = session(dialect, "queued").await;
        let first = session.prompt("one").await.unwrap();
        let second = session.prompt("two").await;
        if dialect != "2" {
            assert!(second.unwrap_err().to_string().contains("a turn is running"));
            return;
        }
        let (text, stop) = first.text().await.unwrap();
        assert_eq!((text.starts_with("working; "), stop), (true, StopReason::EndTurn));
        assert_eq!(second.unwrap().text().await.unwrap().1, StopReason::EndTurn);
        let (session, _agent) = self::session(dialect, "refused").await;
        let first = session.prompt("one").await.unwrap();
        let second = session.prompt("two").await.unwrap();
        assert_eq!(first.text().await.unwrap().1, StopReason::EndTurn);
        assert_eq!(second.text().await.unwrap_err().code(), Some(-32600));
    });
}

/// A session with an agent that has habit 19, through the library.
async fn session(dialect: &str, form: &str) -> (Session, tieline::client::AgentHandle) {
    let protocol = Protocol::Only(dialect.parse().unwrap());
    let command = ["python3".to_owned(), harness::script("habits.py"), "19".into(), dialect.into(), form.into()];
    let agent = Client::new("test", "1").protocol(protocol).spawn(command).await.unwrap();
    (agent.open("/").await.unwrap(), agent)
}

fn sessions_that_are_locked(dialect: &str) {
    // A lock that ends with the session: it is closed, so the next run finds it free.
    let place = Place::new();
    turn(&place, "20", dialect, &["-s", "x"], &["session"]).run().ends(0);
    turn(&place, "20", dialect, &["-s", "x"], &["session"]).run().ends(0);
    // While another process has it, it is neither lost nor replaced.
    let place = Place::new();
    turn(&place, "20", dialect, &["-s", "x"], &["process"]).run().ends(0);
    let file = std::fs::File::options().write(true).open(place.path("home").join("s1")).unwrap();
    file.lock().unwrap();
    for flags in [&["-s", "x"][..], &["-s", "x", "--on-lost", "new"]] {
        let done = turn(&place, "20", dialect, flags, &["process"]).run().ends(1);
        done.err_has("another process has the session").err_has("in use");
        assert_eq!((done.sent("session/new").len(), done.sent("session/prompt").len()), (1, 1), "{done:#?}");
    }
    drop(file);
    turn(&place, "20", dialect, &["-s", "x"], &["process"]).run().ends(0);
    assert_eq!(recorded(&place)[0].turns, 2);
    // One that never had a prompt is not kept: that is said.
    let place = Place::new();
    turn(&place, "20", dialect, &["-s", "x", "--model", "none"], &["fresh"]).run().ends(2);
    turn(&place, "20", dialect, &["-s", "x"], &["fresh"]).run().ends(8).err_has("does not have the session");
}

fn agents_that_stay_and_leave_things_behind(dialect: &str) {
    let (place, mark) = (Place::new(), mark("habit"));
    turn(&place, "21", dialect, &[], &[]).env("MARK", &mark).run().ends(0).out_has("{}");
    wait("the end of the agent and its child", || !alive(&mark));
}

fn work_before_the_prompt_is_answered(dialect: &str) {
    let done = alone("codex", dialect, &[]).ends(0);
    assert_eq!(done.told(), json!({}), "the user's words are no answer");
    done.err_has("info Just so you know").err_has("chunk").err_has("$ echo chunk");
}

fn an_idle_without_a_turn_and_terminals_told_twice(dialect: &str) {
    let done = alone("crow", dialect, &[]).ends(0);
    assert_eq!(done.told(), json!({}));
    done.err_has("$ echo one").err_has("Run: cancelled");
    assert_eq!(done.err.lines().filter(|line| line.trim() == "one").count(), 1, "shown once: {done:#?}");
}

fn terminals_and_messages_as_a_whole(dialect: &str) {
    let done = alone("claude", dialect, &[]).ends(0);
    done.err_has("$ echo whole\n  whole\n").err_has("resource_link content is not shown");
    assert_eq!(
        alone("claude", dialect, &["-F", "json"]).ends(0).object()["text"],
        "three parts\n\n{}",
        "the half was replaced"
    );
}

fn questions_about_anything(dialect: &str) {
    let told = alone("subject", dialect, &["--allow-all"]).ends(0).told();
    assert_eq!(told, json!({"command": outcome("yes"), "subject": outcome("yes")}));
    let told = alone("subject", dialect, &["--allow", "run make *"]).ends(0).told();
    assert_eq!(told, json!({"command": outcome("yes"), "subject": refused("no")}));
    let told = alone("subject", dialect, &[]).ends(5).told();
    assert_eq!(told, json!({"command": refused("no"), "subject": refused("no")}));
}

fn options_by_id_only(dialect: &str) {
    let done = alone("option", dialect, &["--mode", "auto", "--model", "large"]).ends(0);
    assert_eq!(done.sent("session/set_config_option").len(), 2, "{done:#?}");
}

fn an_idle_that_comes_last(dialect: &str) {
    let place = Place::new();
    let run = turn(&place, "cancel", dialect, &["-F", "stream-json"], &[]).start();
    run.until_out("working");
    run.signal("INT");
    let end = run.done().ends(130).events().pop().unwrap();
    assert_eq!((&end["text"], &end["stop_reason"]), (&json!("working; and gone"), &json!("cancelled")));
    assert_eq!(end["usage"], json!({"used": 9, "size": 100}));
}

fn an_end_that_is_an_error(dialect: &str) {
    let done = turn(&Place::new(), "error", dialect, &["-F", "json"], &["99"]).run().ends(1);
    let object = done.object();
    assert_eq!((&object["error"]["rpc_code"], &object["text"]), (&json!(-32099), &json!("so far; ")));
    assert!(object["error"]["message"].as_str().unwrap().contains("the model is overloaded"), "{object}");
}

fn all_at_once(dialect: &str) {
    let (place, mark) = (Place::new(), mark("habits"));
    let flags = ["--allow-all", "--model", if dialect == "1" { "m3" } else { "m4" }];
    let done = turn(&place, "all", dialect, &flags, &[]).env("MARK", &mark).run().ends(0);
    let told: Value = serde_json::from_str(done.out.lines().last().unwrap()).unwrap();
    assert_eq!((&told["7"], &told["12"], &told["13"]), (&outcome("yes"), &outcome("cancel"), &json!(-32601)));
    assert_eq!(told.get("15").is_some(), dialect == "1");
    assert_eq!(told.get("subject").is_some(), dialect == "2");
    wait("the end of what was left behind", || !alive(&mark));
    // And once more, with what was said.
    let done = turn(&place, "all", dialect, &["-c", "--format", "json"], &[]).run().ends(5);
    let object = done.object();
    assert_eq!((&object["session"]["resumed"], &object["usage"]), (&json!(true), &json!({"used": 7, "size": 100})));
    assert!(object["text"].as_str().unwrap().ends_with('}'), "{object}");
}
