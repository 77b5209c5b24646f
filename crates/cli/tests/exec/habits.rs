//! All bad habits of real agents, played by one scripted agent in one turn.

use super::harness::{Exec, Place, alive, mark, wait};
use serde_json::json;

fn habits(place: &Place, dialect: &str, flags: &[&str]) -> Exec {
    let exec = place.exec(&["go", "--protocol", dialect]).args(flags);
    exec.words(&["python3", &super::harness::script("habits.py"), dialect])
}

#[test]
fn the_habits_of_version_1_are_survived() {
    let (place, mark) = (Place::new(), mark("habits"));
    let done = habits(&place, "1", &["--allow-all"]).env("MARK", &mark).run().ends(0);
    let told = done.told();
    assert_eq!(told["7"], json!({"outcome": "selected", "optionId": "yes"}));
    assert_eq!(told["12"], json!({"outcome": "selected", "optionId": "cancel"}), "by kind, not by id");
    assert_eq!(told["13"], -32601);
    assert_eq!(told["14"], json!(["one\ntwo\n", true]));
    // A missing file is a real error whose words let Gemini go on, and the file can be made.
    assert_eq!(told["15"], json!([-32002, true, true]));
    assert_eq!(place.read("new.txt").unwrap(), "new\n");
    done.err_has("Loading plugins").err_has("A call out of nowhere").err_has("Bad: failed").err_has("+new");
    wait("the end of what was left behind", || !alive(&mark));
    // The prompt that was told again is not part of the answer, and late updates count.
    let object = habits(&place, "1", &["--allow-all", "--format", "json"]).run().ends(0).object();
    assert_eq!(object["usage"], json!({"used": 7, "size": 100}));
    assert!(object["text"].as_str().unwrap().starts_with('{'), "{object}");
}

#[test]
fn the_habits_of_version_1_are_safe_by_default() {
    let place = Place::new();
    let done = habits(&place, "1", &[]).run().ends(5);
    let told = done.told();
    assert_eq!(told["7"]["optionId"], "no");
    assert_eq!(told["12"]["optionId"], "proceed_once");
    assert_eq!(told["14"], -32003);
    assert_eq!(told["15"][2], false);
}

#[test]
fn the_habits_of_version_2_are_survived() {
    let place = Place::new();
    let done = habits(&place, "2", &["--allow-all"]).run().ends(0);
    let told = done.told();
    assert_eq!(told["permission"]["optionId"], "yes");
    assert_eq!(told["unknown subject"]["optionId"], "yes");
    done.err_has("Just so you know").err_has("$ echo one").err_has("Run: cancelled");
    let done = habits(&place, "2", &[]).run().ends(5);
    assert_eq!(done.told()["permission"]["optionId"], "no");
    assert_eq!(done.told()["unknown subject"]["optionId"], "no");
}

#[test]
fn codes_that_mean_an_error_or_a_lost_session() {
    // 16: any code will do. 17: an end with nothing at all is an end.
    for code in ["-32603", "400", "1001", "-31002", "-32003"] {
        let done = Place::new().agent("error", "1", &["--format", "json"]).words(&[code]).run().ends(1);
        assert_eq!(done.object()["error"]["rpc_code"].to_string(), code, "{done:#?}");
    }
    Place::new().agent("nothing", "1", &[]).run().ends(0);
}

#[test]
fn an_agent_that_does_not_end_is_ended() {
    let (place, mark) = (Place::new(), mark("stays"));
    place.agent("stays", "1", &[]).env("MARK", &mark).run().ends(0).out_has("Hello, world.");
    wait("the end of the agent", || !alive(&mark));
}
