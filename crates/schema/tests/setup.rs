//! Opening, listing and changing sessions: shapes per dialect, what is required, what is forgiven.

mod wire;

use tieline_schema::Dialect::{self, V1, V2, V2Seed};
use tieline_schema::{
    ConfigValue, Done, ListRequest, ListResponse, LoadAnswer, NewSessionRequest, OrNull, Replay, ResumeRequest,
    SessionModes, SessionRequest, SessionSetup, SetModeRequest, SetOptionRequest, SetOptionResponse, is_absolute,
    mode_option, to_json,
};
use wire::{check, deviates, read, refuse, same, value};

const MODES: &str = r#"{"currentModeId":"ask","availableModes":[{"id":"ask","name":"Ask","description":"d"},{"id":"code","name":"Code"}]}"#;
const MODE_V1: &str = r#"{"id":"mode","name":"Mode","category":"mode","type":"select","currentValue":"ask",
    "options":[{"value":"ask","name":"Ask","description":"d"},{"value":"code","name":"Code"}]}"#;
const MODE_V2: &str = r#"{"configId":"mode","name":"Mode","category":"mode","type":"select","currentValue":"ask",
    "options":[{"value":"ask","name":"Ask","description":"d"},{"value":"code","name":"Code"}]}"#;

#[test]
fn amb_12_missing_servers_can_be_told_from_null() {
    let missing: NewSessionRequest = read(r#"{"cwd":"/x"}"#);
    assert_eq!(missing.mcp_servers, None);
    let null: NewSessionRequest = read(r#"{"cwd":"/x","mcpServers":null,"additionalDirectories":null}"#);
    assert_eq!(null.mcp_servers, Some(Vec::new()));
    assert_eq!(
        read::<ResumeRequest>(r#"{"sessionId":"s","cwd":"/x","mcpServers":null}"#).mcp_servers,
        Some(Vec::new())
    );
    // Where the key is required it is written.
    check::<NewSessionRequest>(r#"{"cwd":"/x"}"#, V1, r#"{"cwd":"/x","mcpServers":[]}"#);
    check::<NewSessionRequest>(r#"{"cwd":"/x"}"#, V2Seed, r#"{"cwd":"/x","mcpServers":[]}"#);
    check::<NewSessionRequest>(r#"{"cwd":"/x"}"#, V2, r#"{"cwd":"/x"}"#);
    let full =
        r#"{"cwd":"/x","additionalDirectories":["/y"],"mcpServers":[{"name":"n","command":"/c","args":[],"env":[]}]}"#;
    same::<NewSessionRequest>(full, &[V1]);
}

#[test]
fn v1_rpc_09_setup_requests_are_strict() {
    refuse::<NewSessionRequest>(r#"{"mcpServers":[]}"#, "");
    refuse::<NewSessionRequest>(r#"{"cwd":5,"mcpServers":[]}"#, "cwd");
    refuse::<NewSessionRequest>(r#"{"cwd":"/x","mcpServers":{}}"#, "mcpServers");
    refuse::<NewSessionRequest>(r#"{"cwd":"/x","mcpServers":[{"name":"n"}]}"#, "mcpServers.0");
    refuse::<NewSessionRequest>(r#"{"cwd":"/x","additionalDirectories":["/y",1]}"#, "additionalDirectories.1");
    refuse::<ResumeRequest>(r#"{"cwd":"/x"}"#, "");
    refuse::<ResumeRequest>(r#"{"sessionId":"s"}"#, "");
    refuse::<SessionRequest>(r#"{"sessionId":null}"#, "sessionId");
    refuse::<SetModeRequest>(r#"{"sessionId":"s"}"#, "");
    refuse::<ListRequest>(r#"{"cwd":5}"#, "cwd");
    refuse::<ListRequest>(r#"{"cursor":5}"#, "cursor");
}

#[test]
fn v2_sess_05_to_07_replay() {
    let start = r#"{"sessionId":"s","cwd":"/x","replayFrom":{"type":"start"}}"#;
    assert_eq!(read::<ResumeRequest>(start).replay, Replay::Start);
    same::<ResumeRequest>(start, &[V2]);
    for old in [V1, V2Seed] {
        check::<ResumeRequest>(start, old, r#"{"sessionId":"s","cwd":"/x","mcpServers":[]}"#);
    }
    for none in [r#"{"sessionId":"s","cwd":"/x"}"#, r#"{"sessionId":"s","cwd":"/x","replayFrom":null}"#] {
        assert_eq!(read::<ResumeRequest>(none).replay, Replay::None);
    }
    let other = r#"{"sessionId":"s","cwd":"/x","replayFrom":{"type":"_turn","n": 3}}"#;
    assert!(matches!(read::<ResumeRequest>(other).replay, Replay::Unknown(_)));
    assert_eq!(to_json(&read::<ResumeRequest>(other), V2), other);
    refuse::<ResumeRequest>(r#"{"sessionId":"s","cwd":"/x","replayFrom":{}}"#, "replayFrom");
    refuse::<ResumeRequest>(r#"{"sessionId":"s","cwd":"/x","replayFrom":"start"}"#, "replayFrom");
}

#[test]
fn v1_mode_01_modes_become_an_option_and_back() {
    let text = format!(r#"{{"sessionId":"s","modes":{MODES}}}"#);
    let setup: SessionSetup = read(&text);
    assert!(setup.mode_from_modes);
    assert_eq!(setup.config_options.len(), 1);
    same::<SessionSetup>(&text, &[V1]);
    check::<SessionSetup>(&text, V2Seed, &format!(r#"{{"sessionId":"s","configOptions":[{MODE_V1}]}}"#));
    check::<SessionSetup>(&text, V2, &format!(r#"{{"sessionId":"s","configOptions":[{MODE_V2}]}}"#));
    // V1-CONF-08: version 1 gets both.
    let both = format!(r#"{{"sessionId":"s","modes":{MODES},"configOptions":[{MODE_V1}]}}"#);
    let option_only = format!(r#"{{"sessionId":"s","configOptions":[{MODE_V2}]}}"#);
    check::<SessionSetup>(&option_only, V1, &both);
    // V1-CONF-09: a real mode option is preferred.
    assert!(!read::<SessionSetup>(&both).mode_from_modes);
    same::<SessionSetup>(&both, &[V1]);
}

#[test]
fn mode_options_need_the_category_and_a_list() {
    let setup: SessionSetup = read(
        r#"{"configOptions":[
            {"configId":"a","name":"A","category":"model","type":"select","currentValue":"x","options":[{"value":"x","name":"X"}]},
            {"configId":"b","name":"B","category":"mode","type":"boolean","currentValue":true},
            {"configId":"c","name":"C","category":"mode","type":"select","currentValue":"y",
             "options":[{"groupId":"g","name":"G","options":[{"value":"y","name":"Y"},{"value":"z","name":"Z"}]}]}]}"#,
    );
    let option = mode_option(&setup.config_options).unwrap();
    assert_eq!(option.config_id, "c");
    let modes = SessionModes::from_option(option).unwrap();
    assert_eq!(modes.current_mode_id, "y");
    assert_eq!(modes.available_modes.iter().map(|mode| &*mode.id).collect::<Vec<_>>(), ["y", "z"]);
    assert_eq!(SessionModes::from_option(&setup.config_options[1]), None);
}

#[test]
fn v2_sess_18_commands_are_in_the_answer_of_current_v2_only() {
    let text = r#"{"sessionId":"s","availableCommands":[{"type":"command","name":"n","description":"d"}]}"#;
    same::<SessionSetup>(text, &[V2]);
    check::<SessionSetup>(text, V1, r#"{"sessionId":"s"}"#);
    check::<SessionSetup>(text, V2Seed, r#"{"sessionId":"s"}"#);
}

#[test]
fn v1_rpc_08_answers_forgive() {
    let text = format!(
        r#"{{"sessionId":"s","configOptions":[1,{MODE_V1}],"modes":{{"currentModeId":5}},"availableCommands":{{}},"_meta":7}}"#
    );
    let setup: SessionSetup = read(&text);
    assert_eq!((setup.config_options.len(), setup.modes, setup.commands.len()), (1, None, 0));
    deviates::<SessionSetup>(&text, &["configOptions.0", "modes.currentModeId", "availableCommands", "_meta"]);
    let nulls = r#"{"sessionId":"s","configOptions":null,"modes":null,"availableCommands":null,"_meta":null}"#;
    check::<SessionSetup>(nulls, V2, r#"{"sessionId":"s"}"#);
    deviates::<SessionModes>(
        r#"{"currentModeId":"a","availableModes":[{"id":"a"},{"id":"b","name":"B","description":1}]}"#,
        &["availableModes.0", "availableModes.1.description"],
    );
    refuse::<SessionSetup>(r#"{"sessionId":5}"#, "sessionId");
    refuse::<SessionSetup>(r#"{"sessionId":null}"#, "sessionId");
}

#[test]
fn amb_03_load_answers_null_or_an_object() {
    assert!(read::<SessionSetup>("null").is_empty());
    let empty = SessionSetup::default();
    assert_eq!(to_json(&LoadAnswer(&empty), V1), "null");
    assert_eq!(to_json(&empty, V1), "{}");
    let modes: SessionSetup = read(&format!(r#"{{"modes":{MODES}}}"#));
    assert_eq!(value(&to_json(&LoadAnswer(&modes), V1)), value(&format!(r#"{{"modes":{MODES}}}"#)));
}

#[test]
fn v1_rpc_07_null_is_an_empty_answer() {
    for text in ["null", "{}", r#"{"x":1}"#] {
        check::<Done>(text, V1, "{}");
    }
    same::<Done>(r#"{"_meta":{"a":1}}"#, &Dialect::ALL);
    refuse::<Done>("[]", "");
    assert_eq!(read::<OrNull<ListRequest>>("null").0, ListRequest::default());
}

#[test]
fn lists() {
    same::<ListRequest>(r#"{"cwd":"/x","cursor":""}"#, &Dialect::ALL);
    check::<ListRequest>(r#"{"cwd":null,"cursor":null}"#, V2, "{}");
    let full = r#"{"sessions":[{"sessionId":"s","cwd":"/x","additionalDirectories":["/y"],"title":"t","updatedAt":"2026-01-01T00:00:00Z"}],"nextCursor":"c"}"#;
    same::<ListResponse>(full, &Dialect::ALL);
    // V1-LIST-02: an array even when there is nothing.
    check::<ListResponse>(r#"{"sessions":null}"#, V1, r#"{"sessions":[]}"#);
    deviates::<ListResponse>(
        r#"{"sessions":[{"sessionId":"s"},{"sessionId":"s","cwd":"/x","title":1,"updatedAt":2,"additionalDirectories":[3]}],"nextCursor":4}"#,
        &["sessions.0", "sessions.1.title", "sessions.1.updatedAt", "sessions.1.additionalDirectories.0", "nextCursor"],
    );
    refuse::<ListResponse>("{}", "");
}

#[test]
fn set_option_with_and_without_type() {
    let id = |text: &str| assert_eq!(read::<SetOptionRequest>(text).value, ConfigValue::Id("x".into()));
    id(r#"{"sessionId":"s","configId":"c","value":"x"}"#);
    id(r#"{"sessionId":"s","configId":"c","type":"id","value":"x"}"#);
    let text = r#"{"sessionId":"s","configId":"c","type":"id","value":"x"}"#;
    check::<SetOptionRequest>(text, V1, r#"{"sessionId":"s","configId":"c","value":"x"}"#);
    check::<SetOptionRequest>(text, V2Seed, r#"{"sessionId":"s","configId":"c","value":"x"}"#);
    same::<SetOptionRequest>(text, &[V2]);
    let boolean = r#"{"sessionId":"s","configId":"c","type":"boolean","value":true}"#;
    same::<SetOptionRequest>(boolean, &[V1, V2]);
    check::<SetOptionRequest>(r#"{"value":true,"configId":"c","sessionId":"s"}"#, V2, boolean);
    let other = r#"{"sessionId":"s","configId":"c","type":"_range","value":{"a":[1]}}"#;
    same::<SetOptionRequest>(other, &[V2]);
    refuse::<SetOptionRequest>(r#"{"sessionId":"s","configId":"c","type":"boolean","value":"x"}"#, "value");
    refuse::<SetOptionRequest>(r#"{"sessionId":"s","configId":"c","value":{}}"#, "value");
    refuse::<SetOptionRequest>(r#"{"sessionId":"s","configId":"c"}"#, "");
    // V1-CONF-04: the whole list.
    check::<SetOptionResponse>(
        &format!(r#"{{"configOptions":[{MODE_V1}]}}"#),
        V2,
        &format!(r#"{{"configOptions":[{MODE_V2}]}}"#),
    );
    refuse::<SetOptionResponse>("{}", "");
    same::<SetModeRequest>(r#"{"sessionId":"s","modeId":"m"}"#, &[V1]);
    same::<SessionRequest>(r#"{"sessionId":"s","_meta":{"a":1}}"#, &Dialect::ALL);
}

#[test]
fn v1_sess_01_absolute_paths() {
    let yes = ["/", "/x", "//x", r"C:\", r"c:\x", "C:/x", r"\\server\share", r"\\?\C:\x", "/ä b"];
    let no = [
        "",
        "x",
        "./x",
        "../x",
        "~",
        "C:",
        "C:x",
        r"\x",
        r"\\",
        r"\\\x",
        "1:/x",
        "file:///x",
        "c://x",
        "http://x",
        "/x\0",
    ];
    for path in yes {
        assert!(is_absolute(path), "{path}");
    }
    for path in no {
        assert!(!is_absolute(path), "{path}");
    }
}
