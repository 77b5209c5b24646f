//! What a reader forgives, what it reports in strict mode, and what it never forgives.
#![allow(clippy::unwrap_used, reason = "tests")]

use tieline_schema::*;

const V2: Dialect = Dialect::V2;

/// Reads with leniency and lists what was forgiven.
#[track_caller]
fn forgiven(update: &str, expect: &str, deviations: &[&str]) {
    let (update, found) = from_json_strict::<Update>(&update.replace('\'', "\""), None).unwrap();
    assert_eq!(to_json(&update, V2).replace('"', "'"), expect);
    let found: Vec<_> = found.iter().map(ToString::to_string).collect();
    assert_eq!(found, deviations);
}

#[test]
fn v1_rpc_08_and_v2_ext_07_leniency() {
    let call = |rest: &str| format!("{{'sessionUpdate':'tool_call_update','toolCallId':'c'{rest}}}");
    // default-on-error
    for field in ["title", "name", "kind", "status", "content", "locations", "capabilities", "_meta"] {
        forgiven(
            &call(&format!(",'{field}':7")),
            &call(""),
            &[&format!(
                "{field}: expected {}",
                match field {
                    "content" | "locations" => "an array",
                    "capabilities" | "_meta" => "an object",
                    _ => "a string",
                }
            )],
        );
    }
    // skip-invalid-items
    forgiven(
        &call(",'locations':[7,{'path':'/a','line':0},{'line':1}]"),
        &call(",'locations':[{'path':'/a'}]"),
        &[
            "locations.0: expected an object",
            "locations.1.line: expected an integer in range",
            "locations.2: missing field `path`",
        ],
    );
    forgiven(
        &call(",'content':[{'type':'terminal'},{'type':'text','text':'x'}]"),
        &call(",'content':[{'type':'content','content':{'type':'text','text':'x'}}]"),
        &["content.0: missing field `terminalId`", "content.1: expected a content block inside `content`"],
    );
    forgiven(
        &call(",'content':[{'type':'diff','changes':[{'operation':'move','path':'/a'}],'patch':7}]"),
        &call(",'content':[{'type':'diff','changes':[]}]"),
        &["content.0.changes.0: missing field `oldPath`", "content.0.patch: expected an object"],
    );
    let message = "{'sessionUpdate':'agent_message','messageId':'m'";
    forgiven(&format!("{message},'content':'x'}}"), &format!("{message}}}"), &["content: expected an array"]);
    forgiven(
        &format!("{message},'content':[7]}}"),
        &format!("{message},'content':[]}}"),
        &["content.0: expected an object"],
    );
    forgiven(
        "{'sessionUpdate':'agent_message_chunk','messageId':7,'content':{'type':'text','text':'x','annotations':{'audience':7}},'_meta':[]}",
        "{'sessionUpdate':'agent_message_chunk','content':{'type':'text','text':'x','annotations':{}}}",
        &[
            "messageId: expected a string",
            "content.annotations.audience: expected an array",
            "_meta: expected an object",
        ],
    );
    forgiven(
        "{'sessionUpdate':'tool_call','toolCallId':'c'}",
        &call(",'kind':'other','status':'pending'"),
        &["missing field `title`"],
    );
}

#[test]
fn v1_rpc_08_lists_that_must_be_there() {
    for (list, update) in [
        ("entries", "plan"),
        ("availableCommands", "available_commands_update"),
        ("configOptions", "config_option_update"),
    ] {
        for value in ["null", "7", "{}"] {
            let json = format!("{{\"sessionUpdate\":\"{update}\",\"{list}\":{value}}}");
            let (_, found) = from_json_strict::<Update>(&json, None).unwrap();
            assert_eq!(found[0].to_string(), format!("{list}: expected an array"), "{json}");
        }
        let json = format!("{{\"sessionUpdate\":\"{update}\",\"{list}\":[7]}}");
        let (_, found) = from_json_strict::<Update>(&json, None).unwrap();
        assert_eq!(found[0].to_string(), format!("{list}.0: expected an object"));
        let missing = from_json::<Update>(&format!("{{\"sessionUpdate\":\"{update}\"}}")).unwrap_err();
        assert_eq!(missing.to_string(), format!("missing field `{list}`"));
    }
}

#[test]
fn v1_rpc_08_and_v2_ext_07_leniency_of_smaller_updates() {
    forgiven(
        "{'sessionUpdate':'available_commands_update','availableCommands':[{'name':'n','description':'d','input':{}}]}",
        "{'sessionUpdate':'available_commands_update','availableCommands':[{'type':'command','name':'n','description':'d'}]}",
        &["availableCommands.0.input: missing field `hint`"],
    );
    forgiven(
        "{'sessionUpdate':'config_option_update','configOptions':[{'id':'x','name':'X','description':7,'category':7,'type':'select','currentValue':'a','options':[{'group':'g','name':'G','options':[7]}]}]}",
        "{'sessionUpdate':'config_option_update','configOptions':[{'configId':'x','name':'X','type':'select','currentValue':'a','options':[{'groupId':'g','name':'G','options':[]}]}]}",
        &[
            "configOptions.0.description: expected a string",
            "configOptions.0.category: expected a string",
            "configOptions.0.options.0.options.0: expected an object",
        ],
    );
    forgiven(
        "{'sessionUpdate':'session_info_update','title':7,'updatedAt':{}}",
        "{'sessionUpdate':'session_info_update'}",
        &["title: expected a string", "updatedAt: expected a string"],
    );
    forgiven(
        "{'sessionUpdate':'usage_update','used':1,'size':2,'cost':{'amount':1}}",
        "{'sessionUpdate':'usage_update','used':1,'size':2}",
        &["cost: missing field `currency`"],
    );
    forgiven(
        "{'sessionUpdate':'notice','severity':'info','title':'','description':7}",
        "{'sessionUpdate':'notice','severity':'info','title':''}",
        &["title: expected some text", "description: expected a string"],
    );
    forgiven(
        "{'sessionUpdate':'compaction_update','compactionId':'c','status':'failed','summary':7,'error':7}",
        "{'sessionUpdate':'compaction_update','compactionId':'c','status':'failed'}",
        &["summary: expected an array", "error: expected a string"],
    );
    // A malformed list of background work counts as not reported, not as shorter.
    forgiven(
        "{'sessionUpdate':'state_update','state':'idle','stopReason':7,'background':[{'type':'terminal'}]}",
        "{'sessionUpdate':'state_update','state':'idle'}",
        &["stopReason: expected a string", "background.0: missing field `terminalId`"],
    );
    forgiven(
        "{'sessionUpdate':'terminal_update','terminalId':'t','command':1,'cwd':1,'output':{},'exitStatus':{'exitCode':'x','signal':1},'size':{'cols':0,'rows':1},'capabilities':1}",
        "{'sessionUpdate':'terminal_update','terminalId':'t','exitStatus':{}}",
        &[
            "command: expected a string",
            "cwd: expected a string",
            "output: missing field `data`",
            "exitStatus.exitCode: expected a number",
            "exitStatus.signal: expected a string",
            "size.cols: expected an integer in range",
            "capabilities: expected an object",
        ],
    );
    forgiven(
        "{'sessionUpdate':'current_mode_update','modeId':'m'}",
        "{'sessionUpdate':'current_mode_update','currentModeId':'m'}",
        &["missing field `currentModeId`"],
    );
}

#[test]
fn v2_tool_18_broken_known_variants_fail() {
    for (update, what) in [
        ("{}", "missing field `sessionUpdate`"),
        ("{'sessionUpdate':7}", "sessionUpdate: expected a string"),
        ("7", "expected an object"),
        ("{'sessionUpdate':'agent_message_chunk'}", "missing field `content`"),
        ("{'sessionUpdate':'agent_message_chunk','content':{'type':'text'}}", "content: missing field `text`"),
        ("{'sessionUpdate':'agent_message'}", "missing field `messageId`"),
        ("{'sessionUpdate':'tool_call','title':'t'}", "missing field `toolCallId`"),
        ("{'sessionUpdate':'tool_call_update','toolCallId':7}", "toolCallId: expected a string"),
        (
            "{'sessionUpdate':'tool_call_content_chunk','toolCallId':'c','content':{'type':'diff','path':'/a'}}",
            "content: missing field `newText`",
        ),
        (
            "{'sessionUpdate':'tool_call_content_chunk','toolCallId':'c','content':{'type':'diff'}}",
            "content: missing field `changes`",
        ),
        (
            "{'sessionUpdate':'tool_call_content_chunk','toolCallId':'c','content':{'type':'diff','changes':7}}",
            "content.changes: expected an array",
        ),
        ("{'sessionUpdate':'plan_update','plan':{'type':'items','entries':[]}}", "plan: missing field `planId`"),
        ("{'sessionUpdate':'plan_update','plan':{'type':'_x'}}", "plan: missing field `planId`"),
        ("{'sessionUpdate':'usage_update','used':-1,'size':2}", "used: expected an integer in range"),
        ("{'sessionUpdate':'state_update'}", "missing field `state`"),
        ("{'sessionUpdate':'notice','title':'t'}", "missing field `severity`"),
        ("{'sessionUpdate':'compaction_update','compactionId':'c'}", "missing field `status`"),
        ("{'sessionUpdate':'current_mode_update'}", "missing field `currentModeId`"),
    ] {
        assert_eq!(from_json::<Update>(&update.replace('\'', "\"")).unwrap_err().to_string(), what, "{update}");
    }
}

/// Both names of a renamed key are read everywhere; strict reading says which one is not of the dialect.
#[test]
fn v1_strict_names_of_another_dialect_are_reported() {
    let options = |key: &str| {
        format!(
            r#"{{"sessionUpdate":"config_option_update","configOptions":[{{"type":"boolean","{key}":"b","name":"B","currentValue":true}}]}}"#
        )
    };
    let plan =
        |key: &str| format!(r#"{{"sessionUpdate":"plan_update","plan":{{"type":"items","{key}":"p","entries":[]}}}}"#);
    for (text, old, new) in [
        (options("id"), None, Some("configOptions.0.id: a name of another dialect")),
        (options("configId"), Some("configOptions.0.configId: a name of another dialect"), None),
        (plan("id"), None, Some("plan.id: a name of another dialect")),
        (plan("planId"), Some("plan.planId: a name of another dialect"), None),
    ] {
        for (dialect, expected) in
            [(None, None), (Some(Dialect::V1), old), (Some(Dialect::V2Seed), old), (Some(Dialect::V2), new)]
        {
            let (_, found) = from_json_strict::<Update>(&text, dialect).unwrap();
            let found: Vec<String> = found.iter().map(ToString::to_string).collect();
            assert_eq!(found, expected.into_iter().collect::<Vec<_>>(), "{dialect:?}: {text}");
        }
    }
}
