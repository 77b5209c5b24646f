//! Policies, rules and answers: safe where nobody can be asked, by kind and never by name.

use super::harness::{DIALECTS, Place};
use serde_json::{Value, json};
use std::process::Command;

/// An answer; a no says who decided.
fn outcome(option: &str, by: Option<&str>) -> Value {
    match by {
        Some(by) => json!({"outcome": "selected", "optionId": option, "_meta": {"decidedBy": by}}),
        None => json!({"outcome": "selected", "optionId": option}),
    }
}

const NOBODY: Option<&str> = Some("nobody could be asked");

#[test]
fn policies() {
    for (flags, answer, by, code) in [
        (&[][..], "no", NOBODY, 5),
        (&["--allow-reads"], "no", NOBODY, 5),
        (&["--allow-edits"], "no", NOBODY, 5),
        (&["--ask"], "no", NOBODY, 5),
        (&["--deny-all"], "no", Some("preset deny-all"), 5),
        (&["--allow-all"], "yes", None, 0),
        (&["--approve-all"], "yes", None, 0),
        (&["--allow", "run make *"], "yes", None, 0),
        (&["--allow", "run make *", "--deny", "run make all"], "no", Some("rule: deny run make all"), 5),
        (&["--allow-all", "--deny", "run make *"], "no", Some("rule: deny run make *"), 5),
        (&["--allow", "run cargo *"], "no", NOBODY, 5),
    ] {
        for dialect in DIALECTS {
            let done = Place::new().agent("ask_once", dialect, flags).run().ends(code);
            assert_eq!(done.told(), outcome(answer, by), "{dialect} {flags:?}: {done:#?}");
        }
    }
}

#[test]
fn options_are_chosen_by_kind_and_never_for_ever() {
    for dialect in DIALECTS {
        let done = Place::new().agent("two_allows", dialect, &["--allow-all"]).run().ends(0);
        assert_eq!(done.told(), outcome("a", None));
        let done = Place::new().agent("two_allows", dialect, &[]).run().ends(5);
        assert_eq!(done.told(), outcome("z", NOBODY));
    }
}

#[test]
fn edits_in_the_project_are_allowed_by_allow_edits_only() {
    for dialect in DIALECTS {
        let place = Place::new();
        place.write("notes.txt", "old\n");
        let done = place.agent("ask_edit", dialect, &[]).run().ends(5);
        assert_eq!((done.told(), place.read("notes.txt").unwrap()), (outcome("no", NOBODY), "old\n".to_owned()));
        let done = place.agent("ask_edit", dialect, &["--allow-edits"]).run().ends(0);
        assert_eq!((done.told(), place.read("notes.txt").unwrap()), (outcome("yes", None), "new\n".to_owned()));
    }
}

#[test]
fn writing_for_the_agent_follows_the_same_rules() {
    let place = Place::new();
    let done = place.agent("write_file", "1", &[]).words(&["sub/new.txt"]).run().ends(5);
    assert_eq!(done.told()["error"]["code"], -32003, "{done:#?}");
    assert_eq!(place.read("sub/new.txt"), None);
    let done = place.agent("write_file", "1", &["--allow-edits", "--format", "json"]).words(&["sub/new.txt"]).run();
    assert_eq!(place.read("sub/new.txt").unwrap(), "written\n");
    let object = done.ends(0).object();
    assert_eq!(object["changed_files"], json!([place.project().join("sub/new.txt")]), "{object}");
    assert_eq!(object["permissions"], json!({"allowed": 1, "denied": 0, "cancelled": 0}));
    let outside = place.project().with_file_name("elsewhere.txt");
    let done = place.agent("write_file", "1", &["--allow-all"]).words(&[outside.to_str().unwrap()]).run();
    assert!(!outside.exists());
    assert_eq!(done.told()["error"]["code"], -32003, "{done:#?}");
}

#[test]
fn what_is_not_offered_is_not_served() {
    let place = Place::new();
    place.write("a.txt", "hello\n");
    let path = place.project().join("a.txt").display().to_string();
    let done = place.agent("read_file", "1", &["--no-fs"]).words(&[&path]).run();
    assert_eq!(done.told()["error"]["code"], -32601, "{done:#?}");
    assert_eq!(done.sent("initialize")[0]["params"]["clientCapabilities"]["fs"]["readTextFile"], false, "{done:#?}");
    let done = place.agent("terminal", "1", &["--no-terminal", "--allow-all"]).words(&[r#"{"command":"true"}"#]).run();
    assert_eq!(done.told()["error"]["code"], -32601, "{done:#?}");
    // Forms need a person, so they are not offered to scripts.
    let done = place.agent("elicit", "1", &[]).run();
    assert_eq!(done.told()["error"]["code"], -32602, "{done:#?}");
}

#[test]
fn what_was_changed_without_asking_is_listed() {
    for dialect in DIALECTS {
        let place = Place::new();
        let done = place.agent("unasked", dialect, &[]).run().ends(0);
        done.err_has("changed without asking").err_has("sneaky.txt");
        std::fs::remove_file(place.project().join("sneaky.txt")).unwrap();
        let object = place.agent("unasked", dialect, &["--format", "json"]).run().ends(0).object();
        assert_eq!(object["unasked_files"], json!([place.project().join("sneaky.txt")]), "{object}");
        assert_eq!(object["changed_files"], object["unasked_files"]);
    }
}

#[test]
fn the_built_in_agent_asks_like_any_other() {
    let place = Place::new();
    place.write("a.txt", "hello\n");
    place.exec(&["delete a.txt"]).run().ends(5).err_has("refused");
    assert_eq!(place.read("a.txt").unwrap(), "hello\n");
    place.exec(&["delete a.txt", "--allow-edits"]).run().ends(0);
    assert_eq!(place.read("a.txt"), None);
}

#[test]
fn the_built_in_agent_writes_and_runs_in_every_protocol() {
    for protocol in ["auto", "1", "2-seed", "2"] {
        let place = Place::new();
        let with = ["--protocol", protocol, "--allow-all"];
        place.exec(&[&["/write b.txt some text"][..], &with].concat()).run().ends(0);
        assert_eq!(place.read("b.txt").unwrap().trim_end(), "some text", "{protocol}");
        place.exec(&[&["/replace some more b.txt"][..], &with].concat()).run().ends(0);
        assert_eq!(place.read("b.txt").unwrap().trim_end(), "more text", "{protocol}");
        place.exec(&[&["/run cat b.txt"][..], &with].concat()).run().ends(0).out_has("more text");
    }
}

/// What an agent that makes these requests is answered.
fn asked(flags: &[&str], dialect: &str, requests: &Value) -> super::harness::Done {
    Place::new().agent("requests", dialect, flags).words(&[&requests.to_string()]).run()
}

#[test]
fn a_refusal_says_what_it_was_and_how_to_allow_it() {
    let ask = |call: Value| json!([["permission", {"title": "Do the thing", "call": call}]]);
    let run =
        |line: &str| ask(json!({"toolCallId": "c1", "title": "Run", "kind": "execute", "rawInput": {"command": line}}));
    for dialect in DIALECTS {
        let title = if dialect == "2" { "Do the thing" } else { "Do magic" };
        let vague = ask(json!({"toolCallId": "c1", "title": "Do magic", "kind": "other"}));
        let done = asked(&[], dialect, &vague).ends(5);
        done.err_has(&format!("refused: {title} (nobody could be asked; to allow it: --allow-all)"));
        let done = asked(&[], dialect, &run("make all")).ends(5);
        done.err_has("refused: run make all (nobody could be asked; to allow it: --allow 'run make all')");
    }
    let edit = ask(json!({"toolCallId": "c1", "title": "Edit", "kind": "edit", "locations": [{"path": "CWD/a.txt"}]}));
    asked(&[], "1", &edit).err_has("to allow it: --allow-edits or --allow 'write a.txt'");
    // A rule that asks is answered by an exact one on the command line, and not loosened by a pattern.
    let edit =
        ask(json!({"toolCallId": "c1", "title": "Edit", "kind": "edit", "locations": [{"path": "CWD/.git/config"}]}));
    let exact = "--allow 'write .git/config'";
    asked(&[], "1", &edit).ends(5).err_has(&format!("to allow it: {exact}"));
    asked(&["--allow", "write .git/config"], "1", &edit).ends(0);
    asked(&["--allow", "write **"], "1", &edit).ends(5);
}

// What is remembered for an undo is written anew for each file, so that many refusals would hold up the end of the run.
#[test]
fn nothing_is_remembered_of_a_write_that_is_refused() {
    let write = |name: String| json!(["fs/write_text_file", {"path": format!("CWD/{name}"), "content": "x"}]);
    let place = Place::new();
    let refused = (0..30).map(|number| write(format!("sub/{number}/.envrc")));
    let requests = Value::from(refused.chain([write("made.txt".into())]).collect::<Vec<_>>());
    let done = place.agent("requests", "1", &["--allow-edits"]).words(&[&requests.to_string()]).run();
    assert_eq!(done.err.matches("refused: write sub/").count(), 30, "{done:#?}");
    let remembered = |name: &str| {
        let found = Command::new("grep").args(["-rho", "--include=index.json", name]).arg(place.path("")).output();
        String::from_utf8(found.unwrap().stdout).unwrap().lines().count()
    };
    assert_eq!((remembered("made.txt\""), remembered(".envrc")), (1, 0));
}

#[test]
fn it_is_said_why_a_rule_that_seems_to_fit_does_not_count() {
    let run = |line: &str| json!([["permission", {"call": {"toolCallId": "c1", "title": "Run", "kind": "execute", "rawInput": {"command": line}}}]]);
    for (line, why) in [
        ("make all $(evil)", "it has a variable or substitution"),
        ("make all > out", "it redirects to or from a file"),
        ("make all | tee x", "no rule allows its part `tee x`"),
    ] {
        let done = asked(&["--allow", "run make *"], "1", &run(line)).ends(5);
        done.err_has(&format!("the rule `allow run make *` does not count here: {why}"));
    }
    let done = asked(&["--allow", "run cargo *"], "1", &run("make all $(evil)")).ends(5);
    assert!(!done.err.contains("does not count"), "{done:#?}");
}

#[test]
fn nothing_is_allowed_in_a_session_that_is_not_open() {
    for dialect in DIALECTS {
        let call = json!({"toolCallId": "c1", "title": "Run", "kind": "execute", "rawInput": {"command": "make"}});
        let options = json!([{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]);
        let subject = json!({"type": "tool_call", "toolCall": call});
        let params =
            json!({"sessionId": "other", "title": "x", "toolCall": call, "subject": subject, "options": options});
        let done = asked(&["--allow-all"], dialect, &json!([["session/request_permission", params]]));
        assert_eq!(done.told()[0]["code"], -32002, "{dialect}: {done:#?}");
    }
}

#[test]
fn rules_of_the_configuration_count_and_a_project_can_only_hold_back() {
    let place = Place::new();
    std::fs::create_dir_all(place.path("config").join("tieline")).unwrap();
    let config = "[permissions]\nallow = [\"run make *\"]\n";
    std::fs::write(place.path("config").join("tieline/config.toml"), config).unwrap();
    place.agent("ask_once", "1", &[]).run().ends(0);
    place.write(".tieline/config.toml", "[permissions]\ndeny = [\"run make *\"]\n");
    place.agent("ask_once", "1", &[]).run().ends(5);
    place.write(".tieline/config.toml", "[permissions]\nallow = [\"run make *\"]\ndefault = \"allow-all\"\n");
    std::fs::remove_file(place.path("config").join("tieline/config.toml")).unwrap();
    place.agent("ask_once", "1", &[]).run().ends(5).err_has("tieline config trust");
}
