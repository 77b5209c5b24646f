//! Prompts, permissions, files, client terminals and elicitations: shapes per dialect.

mod wire;

use tieline_schema::Dialect::{self, V1, V2, V2Seed};
use tieline_schema::{
    CancelToolCallRequest, CreateTerminalRequest, CreateTerminalResponse, ElicitAction, ElicitRequest, ElicitResponse,
    ElicitValue, ElicitationComplete, PermissionOutcome, PermissionRequest, PermissionResponse, PromptRequest,
    PromptResponse, ReadTextFileRequest, ReadTextFileResponse, StopReason, TerminalOutputResponse, TerminalRequest,
    WaitForTerminalExitResponse, WriteTextFileRequest, WriteTextFileResponse, to_json,
};
use wire::{check, deviates, read, refuse, same, value};

#[test]
fn prompt_answers_are_the_union() {
    same::<PromptRequest>(r#"{"sessionId":"s","prompt":[{"type":"text","text":"hi"}]}"#, &Dialect::ALL);
    let ended: PromptResponse = read(r#"{"stopReason":"max_tokens","usage":{"n": 1}}"#);
    assert_eq!(ended.stop_reason, Some(StopReason::MaxTokens));
    assert_eq!(to_json(&ended, V1), r#"{"stopReason":"max_tokens","usage":{"n": 1}}"#);
    let accepted: PromptResponse = read(r#"{"messageId":"m"}"#);
    assert_eq!((accepted.stop_reason.as_ref(), accepted.message_id.as_deref()), (None, Some("m")));
    same::<PromptResponse>(r#"{"messageId":"m"}"#, &[V2]);
    assert_eq!(read::<PromptResponse>("{}"), PromptResponse::default());
    // V1-PROMPT-08: version 1 has five reasons; V2-PROMPT-07: seed-era v2 has more.
    check::<PromptResponse>(r#"{"stopReason":"_budget"}"#, V1, r#"{"stopReason":"end_turn"}"#);
    same::<PromptResponse>(r#"{"stopReason":"_budget"}"#, &[V2Seed]);
    refuse::<PromptResponse>(r#"{"stopReason":5}"#, "stopReason");
    refuse::<PromptResponse>(r#"{"stopReason":null}"#, "stopReason");
    refuse::<PromptResponse>(r#"{"messageId":null}"#, "messageId");
    same::<CancelToolCallRequest>(r#"{"sessionId":"s","toolCallId":"t"}"#, &[V2]);
}

#[test]
fn v1_rpc_09_prompts_are_strict() {
    refuse::<PromptRequest>(r#"{"sessionId":"s"}"#, "");
    refuse::<PromptRequest>(r#"{"sessionId":"s","prompt":null}"#, "prompt");
    refuse::<PromptRequest>(r#"{"sessionId":"s","prompt":[{"type":"text"}]}"#, "prompt.0");
    refuse::<PromptRequest>(r#"{"sessionId":"s","prompt":[{"text":"no type"}]}"#, "prompt.0");
    // V2-EXT-02: an unknown block is kept.
    same::<PromptRequest>(r#"{"sessionId":"s","prompt":[{"type":"_x","y":1}]}"#, &[V2]);
}

const OPTIONS: &str =
    r#"[{"optionId":"y","name":"Yes","kind":"allow_once"},{"optionId":"n","name":"No","kind":"reject_once"}]"#;

#[test]
fn permissions_of_a_tool_call() {
    let old = format!(r#"{{"sessionId":"s","toolCall":{{"toolCallId":"t","title":"Read x"}},"options":{OPTIONS}}}"#);
    let new = format!(
        r#"{{"sessionId":"s","title":"Read x","subject":{{"type":"tool_call","toolCall":{{"toolCallId":"t","title":"Read x"}}}},"options":{OPTIONS}}}"#
    );
    for text in [&old, &new] {
        check::<PermissionRequest>(text, V1, &old);
        check::<PermissionRequest>(text, V2Seed, &old);
        check::<PermissionRequest>(text, V2, &new);
    }
    let bare = format!(r#"{{"sessionId":"s","toolCall":{{"toolCallId":"t"}},"options":{OPTIONS}}}"#);
    same::<PermissionRequest>(&bare, &[V1, V2Seed]);
    assert_eq!(read::<PermissionRequest>(&bare).title, "Permission required");
}

#[test]
fn v2_perm_06_the_question_survives_the_older_dialects() {
    let new = format!(
        r#"{{"sessionId":"s","title":"Really?","description":"It writes","subject":{{"type":"tool_call","toolCall":{{"toolCallId":"t","title":"Read x"}}}},
            "options":{OPTIONS},"_meta":{{"a":1}}}}"#
    );
    let old = format!(
        r#"{{"sessionId":"s","toolCall":{{"toolCallId":"t","title":"Read x"}},"options":{OPTIONS},
            "_meta":{{"a":1,"tieline.permission":{{"title":"Really?","description":"It writes"}}}}}}"#
    );
    check::<PermissionRequest>(&new, V1, &old);
    let back: PermissionRequest = read(&old);
    assert_eq!((&*back.title, back.description.as_deref()), ("Really?", Some("It writes")));
    // An empty title is filled in, a title that stays as it is (absent) is left alone.
    let cleared = new.replace(r#""title":"Read x""#, r#""title":"""#);
    assert!(to_json(&read::<PermissionRequest>(&cleared), V1).contains(r#""title":"Really?""#));
}

#[test]
fn v2_perm_08_commands_become_tool_calls() {
    let text = format!(
        r#"{{"sessionId":"s","title":"Run it?","subject":{{"type":"command","command":"rm x","cwd":"/w"}},"options":{OPTIONS}}}"#
    );
    same::<PermissionRequest>(&text, &[V2]);
    let request: PermissionRequest = read(&text);
    let call = value(&to_json(&request, V1))["toolCall"].clone();
    assert_eq!(call["title"], "Run it?");
    assert_eq!(call["kind"], "execute");
    assert_eq!(call["content"][0]["content"]["text"], "$ rm x\n(in /w)");
    assert_eq!(call["rawInput"], value(r#"{"command":"rm x","cwd":"/w"}"#));
    assert_eq!(call["toolCallId"], request.tool_call().tool_call_id.as_str());
    assert!(request.tool_call().tool_call_id.starts_with("permission-"));
    let known = text.replace(r#""cwd":"/w""#, r#""cwd":"/w","toolCallId":"t","terminalId":"term""#);
    same::<PermissionRequest>(&known, &[V2]);
    assert_eq!(read::<PermissionRequest>(&known).tool_call().tool_call_id, "t");
    refuse::<PermissionRequest>(&text.replace(r#","cwd":"/w""#, ""), "subject");
}

#[test]
fn v2_perm_09_other_subjects() {
    let none = format!(r#"{{"sessionId":"s","title":"Go on?","description":"d","options":{OPTIONS}}}"#);
    same::<PermissionRequest>(&none, &[V2]);
    assert_eq!(value(&to_json(&read::<PermissionRequest>(&none), V1))["toolCall"]["title"], "Go on?");
    let other =
        format!(r#"{{"sessionId":"s","title":"?","subject":{{"type":"_net","host": "x"}},"options":{OPTIONS}}}"#);
    assert!(to_json(&read::<PermissionRequest>(&other), V2).contains(r#""subject":{"type":"_net","host": "x"}"#));
    assert_eq!(value(&to_json(&read::<PermissionRequest>(&other), V2Seed))["toolCall"]["rawInput"]["host"], "x");
    check::<PermissionRequest>(
        &none.replace(r#""description":"d""#, r#""description":5,"subject":null"#),
        V2,
        &none.replace(r#""description":"d","#, ""),
    );
    deviates::<PermissionRequest>(&none.replace(r#""d""#, "5"), &["description"]);
}

#[test]
fn v1_rpc_09_permission_requests_are_strict() {
    let with = |options: &str| format!(r#"{{"sessionId":"s","title":"t","options":{options}}}"#);
    refuse::<PermissionRequest>(&with("null"), "options");
    refuse::<PermissionRequest>(&with(r#"[{"optionId":"y","name":"Yes"}]"#), "options.0");
    refuse::<PermissionRequest>(&with(r#"[{"optionId":"y","name":"Yes","kind":5}]"#), "options.0.kind");
    refuse::<PermissionRequest>(r#"{"sessionId":"s","options":[]}"#, "");
    refuse::<PermissionRequest>(r#"{"sessionId":"s","toolCall":{},"options":[]}"#, "toolCall");
    refuse::<PermissionRequest>(
        r#"{"sessionId":"s","title":"t","subject":{"type":"tool_call"},"options":[]}"#,
        "subject",
    );
}

#[test]
fn v2_perm_05_unknown_kinds_are_never_shown_as_approval() {
    let text = r#"{"sessionId":"s","title":"t","options":[{"optionId":"y","name":"Yes","kind":"_allow_hour"}]}"#;
    same::<PermissionRequest>(text, &[V2]);
    let kind = |dialect| value(&to_json(&read::<PermissionRequest>(text), dialect))["options"][0]["kind"].clone();
    assert_eq!(kind(V1), "reject_once");
    assert_eq!(kind(V2Seed), "_allow_hour");
    assert!(!read::<PermissionRequest>(text).options[0].kind.allows());
}

#[test]
fn v1_perm_02_outcomes_are_nested() {
    same::<PermissionResponse>(r#"{"outcome":{"outcome":"selected","optionId":"y"}}"#, &Dialect::ALL);
    same::<PermissionResponse>(r#"{"outcome":{"outcome":"cancelled"}}"#, &Dialect::ALL);
    refuse::<PermissionResponse>(r#"{"outcome":{"outcome":"selected"}}"#, "outcome");
    refuse::<PermissionResponse>(r#"{"outcome":"selected","optionId":"y"}"#, "outcome");
    // V1-PERM-05, V2-PERM-04: neither an unknown outcome nor an unknown option is an approval.
    let options = read::<PermissionRequest>(&format!(r#"{{"sessionId":"s","title":"t","options":{OPTIONS}}}"#)).options;
    assert_eq!(PermissionOutcome::selected("y").chosen(&options).map(|option| option.kind.allows()), Some(true));
    assert_eq!(PermissionOutcome::selected("z").chosen(&options), None);
    assert_eq!(PermissionOutcome::cancelled().chosen(&options), None);
    let later = r#"{"outcome":{"outcome":"_later","optionId":"y"}}"#;
    assert_eq!(read::<PermissionResponse>(later).outcome.chosen(&options), None);
    same::<PermissionResponse>(later, &[V2]);
    for old in [V1, V2Seed] {
        check::<PermissionResponse>(later, old, r#"{"outcome":{"outcome":"cancelled"}}"#);
    }
}

#[test]
fn files() {
    same::<ReadTextFileRequest>(r#"{"sessionId":"s","path":"/x","line":1,"limit":0}"#, &[V1]);
    check::<ReadTextFileRequest>(
        r#"{"sessionId":"s","path":"/x","line":null}"#,
        V1,
        r#"{"sessionId":"s","path":"/x"}"#,
    );
    refuse::<ReadTextFileRequest>(r#"{"sessionId":"s","path":"/x","line":-1}"#, "line");
    refuse::<ReadTextFileRequest>(r#"{"sessionId":"s","path":"/x","limit":"5"}"#, "limit");
    same::<ReadTextFileResponse>(r#"{"content":"a\nb"}"#, &[V1]);
    refuse::<ReadTextFileResponse>("null", "");
    same::<WriteTextFileRequest>(r#"{"sessionId":"s","path":"/x","content":""}"#, &[V1]);
    refuse::<WriteTextFileRequest>(r#"{"sessionId":"s","path":"/x"}"#, "");
    // AMB-02
    check::<WriteTextFileResponse>("{}", V1, "null");
    same::<WriteTextFileResponse>("null", &[V1]);
    same::<WriteTextFileResponse>(r#"{"_meta":{"a":1}}"#, &[V1]);
}

#[test]
fn client_terminals() {
    same::<CreateTerminalRequest>(
        r#"{"sessionId":"s","command":"c","args":["a"],"env":[{"name":"A","value":"1"}],"cwd":"/x","outputByteLimit":18446744073709551615}"#,
        &[V1],
    );
    check::<CreateTerminalRequest>(
        r#"{"sessionId":"s","command":"c","args":null,"env":null,"cwd":null,"outputByteLimit":null}"#,
        V1,
        r#"{"sessionId":"s","command":"c"}"#,
    );
    refuse::<CreateTerminalRequest>(r#"{"sessionId":"s","command":"c","args":[1]}"#, "args.0");
    refuse::<CreateTerminalRequest>(r#"{"sessionId":"s","command":"c","outputByteLimit":-1}"#, "outputByteLimit");
    same::<CreateTerminalResponse>(r#"{"terminalId":"t"}"#, &[V1]);
    same::<TerminalRequest>(r#"{"sessionId":"s","terminalId":"t"}"#, &Dialect::ALL);
    same::<TerminalOutputResponse>(r#"{"output":"x","truncated":false}"#, &[V1]);
    same::<TerminalOutputResponse>(r#"{"output":"x","truncated":true,"exitStatus":{"exitCode":0}}"#, &[V1]);
    deviates::<TerminalOutputResponse>(r#"{"output":"x","truncated":true,"exitStatus":5}"#, &["exitStatus"]);
    refuse::<TerminalOutputResponse>(r#"{"output":"x"}"#, "");
    // V1-TERM-14
    let signal: WaitForTerminalExitResponse = read(r#"{"exitCode":null,"signal":"SIGTERM"}"#);
    assert_eq!((signal.0.exit_code, signal.0.signal.as_deref()), (None, Some("SIGTERM")));
    assert_eq!(read::<WaitForTerminalExitResponse>("null"), WaitForTerminalExitResponse::default());
}

#[test]
fn v1_elic_03_forms() {
    let text = r#"{"mode":"form","sessionId":"s","toolCallId":"t","message":"m","requestedSchema":{"type":"object","title":"T","description":"D",
        "properties":{
            "z":{"type":"string","title":"Z","description":"d","minLength":1,"maxLength":9,"pattern":"^a","format":"email","default":"a"},
            "a":{"type":"string","enum":["x","y"]},
            "b":{"type":"string","oneOf":[{"const":"x","title":"X","description":"d"}]},
            "n":{"type":"number","minimum":0.5,"maximum":1.5,"default":1.25},
            "i":{"type":"integer","minimum":-1,"maximum":9,"default":3},
            "t":{"type":"boolean","default":true},
            "l":{"type":"array","minItems":1,"maxItems":2,"items":{"type":"string","enum":["x"]},"default":["x"]},
            "k":{"type":"array","items":{"anyOf":[{"const":"x","title":"X"}]}},
            "o":{"type":"array","items":{"type":"_color","y":1}},
            "u":{"type":"_color","y":1}},
        "required":["z"],"_meta":{"a":1}}}"#;
    same::<ElicitRequest>(text, &[V1, V2]);
    // The fields keep their order.
    let written = to_json(&read::<ElicitRequest>(text), V2);
    assert!(written.find(r#""z":"#) < written.find(r#""a":{"#));
    check::<ElicitRequest>(
        r#"{"mode":"form","requestId":7,"message":"m","requestedSchema":{}}"#,
        V1,
        r#"{"mode":"form","requestId":7,"message":"m","requestedSchema":{"type":"object","properties":{}}}"#,
    );
    // An unknown format is not told to version 1, which has a closed set.
    let format = r#"{"mode":"form","requestId":"7","message":"m","requestedSchema":{"type":"object","properties":{"a":{"type":"string","format":"_x"}}}}"#;
    same::<ElicitRequest>(format, &[V2]);
    check::<ElicitRequest>(format, V1, &format.replace(r#""_x""#, "null"));
}

#[test]
fn elicitation_modes_and_scopes() {
    let url = r#"{"mode":"url","requestId":12345678901234567890,"message":"m","elicitationId":"e","url":"https://x"}"#;
    same::<ElicitRequest>(url, &[V1, V2]);
    let other = r#"{"mode":"_voice","sessionId":"s","message":"m", "x":[1, 2]}"#;
    assert_eq!(to_json(&read::<ElicitRequest>(other), V2), other);
    let rows = [
        (r#"{"sessionId":"s","message":"m"}"#, ""),
        (r#"{"mode":"form","message":"m","requestedSchema":{}}"#, ""),
        (r#"{"mode":"form","sessionId":"s","message":"m"}"#, ""),
        (r#"{"mode":"form","sessionId":"s","requestedSchema":{}}"#, ""),
        (r#"{"mode":"url","sessionId":"s","message":"m","url":"u"}"#, ""),
        (r#"{"mode":"url","requestId":{},"message":"m","elicitationId":"e","url":"u"}"#, "requestId"),
        (
            r#"{"mode":"form","sessionId":"s","message":"m","requestedSchema":{"properties":7}}"#,
            "requestedSchema.properties",
        ),
        (
            r#"{"mode":"form","sessionId":"s","message":"m","requestedSchema":{"properties":{"a":{"type":"string","minLength":"1"}}}}"#,
            "requestedSchema.properties.a.minLength",
        ),
    ];
    for (text, path) in rows {
        refuse::<ElicitRequest>(text, path);
    }
    deviates::<ElicitRequest>(
        r#"{"mode":"form","sessionId":"s","toolCallId":5,"message":"m","requestedSchema":{"type":"array","title":1,
            "properties":{"a":{"type":"integer","default":"x","title":2}}}}"#,
        &[
            "toolCallId",
            "requestedSchema.type",
            "requestedSchema.title",
            "requestedSchema.properties.a.default",
            "requestedSchema.properties.a.title",
        ],
    );
    same::<ElicitationComplete>(r#"{"elicitationId":"e"}"#, &[V1, V2]);
}

#[test]
fn v1_elic_14_answers() {
    let text = r#"{"action":"accept","content":{"a":"x","b":1,"c":1.5,"d":true,"e":["x","y"],"f":{"g":null}}}"#;
    same::<ElicitResponse>(text, &[V2]);
    check::<ElicitResponse>(text, V1, &text.replace(r#","f":{"g":null}"#, ""));
    let ElicitAction::Accept(content) = read::<ElicitResponse>(text).action else { panic!("not accepted") };
    assert_eq!(content["b"], ElicitValue::Integer(1));
    assert_eq!(content["e"], ElicitValue::Choices(vec!["x".into(), "y".into()]));
    for text in [r#"{"action":"accept"}"#, r#"{"action":"accept","content":null}"#] {
        check::<ElicitResponse>(text, V2, r#"{"action":"accept"}"#);
    }
    check::<ElicitResponse>(r#"{"action":"decline","content":{"a":1}}"#, V2, r#"{"action":"decline"}"#);
    same::<ElicitResponse>(r#"{"action":"cancel","_meta":{"a":1}}"#, &[V1, V2]);
    // V2-ELIC-03
    assert!(matches!(read::<ElicitResponse>(r#"{"action":"_later"}"#).action, ElicitAction::Other(_)));
    same::<ElicitResponse>(r#"{"action":"_later","x":1}"#, &[V2]);
    refuse::<ElicitResponse>(r#"{"action":"accept","content":[]}"#, "content");
    refuse::<ElicitResponse>("{}", "");
}
