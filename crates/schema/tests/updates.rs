//! Every update in every dialect: read from any, written for one.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use proptest::prelude::*;
use tieline_schema::*;

const V1: Dialect = Dialect::V1;
const SEED: Dialect = Dialect::V2Seed;
const V2: Dialect = Dialect::V2;

/// Reads an update and writes it for a dialect. `update` and `expect` stand without `"sessionUpdate":` quoting noise:
/// single quotes are double quotes.
#[track_caller]
fn check(update: &str, dialect: Dialect, expect: &str) {
    let update: Update = from_json(&update.replace('\'', "\"")).unwrap();
    assert_eq!(to_json(&update, dialect).replace('"', "'"), expect, "for {dialect}");
}

/// The same text in all dialects.
#[track_caller]
fn check_same(update: &str) {
    for dialect in Dialect::ALL {
        check(update, dialect, update);
    }
}

#[test]
fn messages() {
    // V1-PROMPT-11, V2-MSG-01: with and without an id. V2-MSG-07: either form for each speaker.
    for kind in ["user_message_chunk", "agent_message_chunk", "agent_thought_chunk"] {
        check_same(&format!("{{'sessionUpdate':'{kind}','content':{{'type':'text','text':'x'}}}}"));
        check_same(&format!(
            "{{'sessionUpdate':'{kind}','messageId':'m','content':{{'type':'text','text':'x'}},'_meta':{{}}}}"
        ));
    }
    for kind in ["user_message", "agent_message", "agent_thought"] {
        check_same(&format!("{{'sessionUpdate':'{kind}','messageId':'m'}}"));
        check_same(&format!("{{'sessionUpdate':'{kind}','messageId':'m','content':null,'_meta':null}}"));
        check_same(&format!("{{'sessionUpdate':'{kind}','messageId':'m','content':[{{'type':'text','text':'x'}}]}}"));
    }
    // The discriminator may come last.
    check(
        "{'content':{'text':'x','type':'text'},'messageId':'m','sessionUpdate':'agent_message_chunk'}",
        V2,
        "{'sessionUpdate':'agent_message_chunk','messageId':'m','content':{'type':'text','text':'x'}}",
    );
}

#[test]
fn tool_calls() {
    // V1-TOOL-06: the first word of version 1 names the defaults; other dialects get an upsert.
    let start = "{'sessionUpdate':'tool_call','toolCallId':'c','title':'T'}";
    let rest = "'toolCallId':'c','title':'T','kind':'other','status':'pending'}";
    check(start, V1, &format!("{{'sessionUpdate':'tool_call',{rest}"));
    check(start, SEED, &format!("{{'sessionUpdate':'tool_call_update',{rest}"));
    check(start, V2, &format!("{{'sessionUpdate':'tool_call_update',{rest}"));
    // V1-TOOL-01: `tool_call` needs a title.
    let bare = "{'sessionUpdate':'tool_call','toolCallId':'c','title':null}";
    check(
        bare,
        V1,
        "{'sessionUpdate':'tool_call','toolCallId':'c','title':'Tool call','kind':'other','status':'pending'}",
    );
    // V2-EXT-06: three states. V1-TOOL-11, AMB-10: any raw value.
    let patch = "{'sessionUpdate':'tool_call_update','toolCallId':'c','title':null,'kind':'edit','status':null,\
                 'content':[],'locations':[{'path':'/a','line':7}],'rawInput':7,'rawOutput':[{'a': 1}]}";
    check_same(patch);
    // V1-TOOL-12: the name is not known in seed-era v2; capabilities only in current v2.
    let named = "{'sessionUpdate':'tool_call_update','toolCallId':'c','name':'n','capabilities':{'cancel':{}}}";
    check(named, V1, "{'sessionUpdate':'tool_call_update','toolCallId':'c','name':'n'}");
    check(named, SEED, "{'sessionUpdate':'tool_call_update','toolCallId':'c'}");
    check(named, V2, named);
    // Statuses that older dialects don't have (V2-TOOL-11, AMB-08, AMB2-04), and kinds (V2-TOOL-09, AMB2-06).
    for (status, v1, seed) in [
        ("pending", "pending", "pending"),
        ("paused", "in_progress", "in_progress"),
        ("cancelled", "failed", "failed"),
        ("completed", "completed", "completed"),
        ("_odd", "in_progress", "_odd"),
    ] {
        let update = |status| format!("{{'sessionUpdate':'tool_call_update','toolCallId':'c','status':'{status}'}}");
        check(&update(status), V1, &update(v1));
        check(&update(status), SEED, &update(seed));
        check(&update(status), V2, &update(status));
    }
    for (kind, v1) in [("switch_mode", "switch_mode"), ("_odd", "other"), ("other", "other")] {
        let update = |kind| format!("{{'sessionUpdate':'tool_call_update','toolCallId':'c','kind':'{kind}'}}");
        check(&update(kind), V1, &update(v1));
        check(&update(kind), SEED, &update(kind));
        check(&update(kind), V2, &update(kind));
    }
    let chunk = "{'sessionUpdate':'tool_call_content_chunk','toolCallId':'c','content':{'type':'content','content':{'type':'text','text':'x'}}}";
    check_same(chunk);
}

/// Tool content inside an update.
fn holding(items: &str) -> String {
    format!("{{'sessionUpdate':'tool_call_update','toolCallId':'c','content':[{items}]}}")
}

#[test]
fn tool_content() {
    // AMB-07: a bare block is wrapped.
    let wrapped = holding("{'type':'content','content':{'type':'text','text':'x'}}");
    check(&holding("{'type':'text','text':'x'}"), V1, &wrapped);
    check(&wrapped, V2, &wrapped);
    // V2-TOOL-10: unknown content is kept; version 1 has no form for it.
    let odd = holding("{'type':'_table','rows': [1]}");
    check(&odd, V2, &odd);
    check(&odd, SEED, &odd);
    check(&odd, V1, &holding(""));
    // Nor has it one for an unknown block in a known item.
    let odd = holding("{'type':'content','content':{'type':'_chart','x': 1}}");
    check(&odd, V2, &odd);
    check(&odd, SEED, &odd);
    check(&odd, V1, &holding(""));
    // Seed-era v2 has no terminals.
    let terminal = holding("{'type':'terminal','terminalId':'t'}");
    check(&terminal, V1, &terminal);
    check(&terminal, V2, &terminal);
    check(&terminal, SEED, &holding("{'type':'content','content':{'type':'text','text':'[terminal t]'}}"));
}

#[test]
fn v2_tool_13_and_14_diffs() {
    let old = holding("{'type':'diff','path':'/f','oldText':'a\\nb\\n','newText':'a\\nc\\n'}");
    check(&old, V1, &old);
    check(&old, SEED, &old);
    let patch = "diff --git /f /f\\n--- /f\\n+++ /f\\n@@ -1,2 +1,2 @@\\n a\\n-b\\n+c\\n";
    let new = holding(&format!(
        "{{'type':'diff','changes':[{{'operation':'modify','path':'/f','fileType':'text'}}],'patch':{{'format':'git_patch','text':'{patch}'}}}}"
    ));
    check(&old, V2, &new);
    check(&new, V2, &new);
    check(&new, V1, &old);
    // A new file has no old text, not even an empty one.
    let added = holding("{'type':'diff','path':'/f','newText':'a'}");
    check(&added, V1, &added);
    let patch = "diff --git /f /f\\nnew file mode 100644\\n--- /dev/null\\n+++ /f\\n@@ -0,0 +1,1 @@\\n+a\\n\\\\ No newline at end of file\\n";
    let new = holding(&format!(
        "{{'type':'diff','changes':[{{'operation':'add','path':'/f','fileType':'text'}}],'patch':{{'format':'git_patch','text':'{patch}'}}}}"
    ));
    check(&added, V2, &new);
    check(&new, SEED, &added);
    // Several files become several items; a deleted file has an empty new text; V2-TOOL-15: without a patch there is a line.
    let patch = "diff --git /a /a\\ndeleted file mode 100644\\n--- /a\\n+++ /dev/null\\n@@ -1 +0,0 @@\\n-x\\n\
                 diff --git /b /c\\nsimilarity index 100%\\nrename from /b\\nrename to /c\\n";
    let many = holding(&format!(
        "{{'type':'diff','changes':[{{'operation':'delete','path':'/a'}},{{'operation':'move','oldPath':'/b','path':'/c'}},\
         {{'operation':'modify','path':'/d','fileType':'binary'}},{{'operation':'_x','y':1}}],'patch':{{'format':'git_patch','text':'{patch}'}}}}"
    ));
    check(&many, V2, &many);
    let line = |text: &str| format!("{{'type':'content','content':{{'type':'text','text':'{text}'}}}}");
    let want = [
        "{'type':'diff','path':'/a','oldText':'x\\n','newText':''}",
        &line("Moved /b to /c"),
        &line("Modified /d (binary)"),
        &line("Changed files in a way this client does not know."),
    ];
    check(&many, V1, &holding(&want.join(",")));
    // The same from code: a file that goes, and one that moves.
    for (old, lines) in [("x\n", "--- \"/a\\tb\"\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-x\n"), ("", "")] {
        let gone = Diff::deleted("/a\tb", old);
        let head = "diff --git \"/a\\tb\" \"/a\\tb\"\ndeleted file mode 100644\n";
        assert_eq!(gone.patch().unwrap().text, format!("{head}{lines}"));
        assert!(to_json(&ToolCallContent::Diff(gone.clone()), V2).contains("\"operation\":\"delete\""));
        assert!(to_json(&ToolCallContent::Diff(gone), V1).contains("\"newText\":\"\""));
    }
    let moved = ToolCallContent::Diff(Diff::moved("/a", "/b"));
    assert!(to_json(&moved, V2).contains(r#""changes":[{"operation":"move","oldPath":"/a","path":"/b"}]"#));
}

#[test]
fn plans() {
    let entries = "'entries':[{'content':'x','priority':'high','status':'pending'}]";
    // V1-PLAN-03, V2-PLAN-02, V2-PLAN-04, AMB2-08: one plan, three wire forms.
    let v1 = format!("{{'sessionUpdate':'plan',{entries}}}");
    let seed = format!("{{'sessionUpdate':'plan_update','plan':{{'type':'items','id':'main',{entries}}}}}");
    let v2 = format!("{{'sessionUpdate':'plan_update','plan':{{'type':'items','planId':'main',{entries}}}}}");
    for form in [&v1, &seed, &v2] {
        check(form, V1, &v1);
        check(form, SEED, &seed);
        check(form, V2, &v2);
    }
    // The new name wins.
    let both = "{'sessionUpdate':'plan_update','plan':{'id':'old','type':'items','planId':'new','entries':[]}}";
    check(both, SEED, "{'sessionUpdate':'plan_update','plan':{'type':'items','id':'new','entries':[]}}");
    // V2-PLAN-03: unknown plans are kept with their id; unknown words are kept or closed.
    let odd = "{'sessionUpdate':'plan_update','plan':{'type':'_tree','planId':'p','root': {}}}";
    check(odd, V2, odd);
    // In another dialect the id gets the name it has there.
    check(odd, SEED, "{'sessionUpdate':'plan_update','plan':{'id':'p','type':'_tree','planId':'p','root': {}}}");
    let Update::Plan(update) = from_json(&odd.replace('\'', "\"")).unwrap() else { panic!() };
    assert_eq!(update.plan.id(), "p");
    let entry = |priority: &str, status: &str| {
        format!("{{'sessionUpdate':'plan','entries':[{{'content':'x','priority':'{priority}','status':'{status}'}}]}}")
    };
    check(&entry("_p", "cancelled"), V1, &entry("medium", "completed"));
    check(&entry("_p", "_s"), V1, &entry("medium", "pending"));
}

#[test]
fn commands() {
    // V2-CMD-03: `type` is only written in current v2, and read in all.
    let old = "{'sessionUpdate':'available_commands_update','availableCommands':[{'name':'n','description':'d','input':{'hint':'h'}}]}";
    let new = "{'sessionUpdate':'available_commands_update','availableCommands':[{'type':'command','name':'n','description':'d','input':{'type':'text','hint':'h'}}]}";
    for form in [old, new] {
        check(form, V1, old);
        check(form, SEED, old);
        check(form, V2, new);
    }
    let odd = "{'sessionUpdate':'available_commands_update','availableCommands':[{'type':'_macro','name':'n','description':'d','keys': 1}]}";
    check(odd, V2, odd);
    check(
        odd,
        V1,
        "{'sessionUpdate':'available_commands_update','availableCommands':[{'name':'n','description':'d'}]}",
    );
    let input = "{'sessionUpdate':'available_commands_update','availableCommands':[{'name':'n','description':'d','input':{'type':'_f','x': 1}}]}";
    check(input, SEED, input);
    check(
        input,
        V1,
        "{'sessionUpdate':'available_commands_update','availableCommands':[{'name':'n','description':'d'}]}",
    );
}

#[test]
fn options() {
    let update = |options: &str| format!("{{'sessionUpdate':'config_option_update','configOptions':[{options}]}}");
    // V2-CONF-05, V1-CONF-08: a mode is an option.
    let old = update(
        "{'id':'m','name':'M','category':'mode','type':'select','currentValue':'a','options':[{'group':'g','name':'G','options':[{'value':'a','name':'A','description':'d'}]}]}",
    );
    let new = update(
        "{'configId':'m','name':'M','category':'mode','type':'select','currentValue':'a','options':[{'groupId':'g','name':'G','options':[{'value':'a','name':'A','description':'d'}]}]}",
    );
    for form in [&old, &new] {
        check(form, V1, &old);
        check(form, SEED, &old);
        check(form, V2, &new);
    }
    // V1-CONF-06, V1-CONF-10, V2-CONF-04: categories are open everywhere.
    let flat = update("{'id':'m','name':'M','category':'_c','type':'select','currentValue':'a','options':[]}");
    check(&flat, V1, &flat);
    // V1-CONF-03: seed-era v2 has no switches.
    let switch = update("{'id':'b','name':'B','type':'boolean','currentValue':true}");
    check(&switch, V1, &switch);
    check(
        &switch,
        SEED,
        &update(
            "{'id':'b','name':'B','type':'select','currentValue':'true','options':[{'value':'true','name':'On'},{'value':'false','name':'Off'}]}",
        ),
    );
    // V1-CONF-07: other types are dropped in version 1, kept elsewhere.
    let odd = update("{'configId':'o','name':'O','type':'_slider','max': 9}");
    check(&odd, V1, &update(""));
    check(&odd, SEED, &update("{'id':'o','configId':'o','name':'O','type':'_slider','max': 9}"));
    check(&odd, V2, &odd);
}

#[test]
fn option_values() {
    for (json, value, v1, seed, v2) in [
        ("{'value':'a'}", "a".into(), "{'value':'a'}", "{'value':'a'}", "{'type':'id','value':'a'}"),
        ("{'type':'id','value':'a'}", "a".into(), "{'value':'a'}", "{'value':'a'}", "{'type':'id','value':'a'}"),
        (
            "{'value':true}",
            true.into(),
            "{'type':'boolean','value':true}",
            "{'value':'true'}",
            "{'type':'boolean','value':true}",
        ),
        (
            "{'type':'_n','value':7}",
            ConfigValue::Other { tag: "_n".into(), value: Raw::new("7").unwrap() },
            "{'type':'_n','value':7}",
            "{'value':7}",
            "{'type':'_n','value':7}",
        ),
    ] {
        let read: ConfigValue = from_json(&json.replace('\'', "\"")).unwrap();
        assert_eq!(read, value, "{json}");
        for (dialect, want) in [(V1, v1), (SEED, seed), (V2, v2)] {
            assert_eq!(to_json(&value, dialect).replace('"', "'"), want);
        }
    }
    for (json, what) in [
        ("{'type':'id','value':true}", "value: expected a string"),
        ("{'type':'boolean','value':'a'}", "value: expected true or false"),
        ("{'value':7}", "value: expected a string, true or false"),
        ("{'type':'id'}", "missing field `value`"),
    ] {
        assert_eq!(from_json::<ConfigValue>(&json.replace('\'', "\"")).unwrap_err().to_string(), what);
    }
    let odd: ConfigValue = from_json(r#"{"type":"_x","value":"a"}"#).unwrap();
    assert_eq!(odd.clone().settle(V1), "a".into());
    assert_eq!(odd.clone().settle(V2), odd);
    assert_eq!(ConfigValue::from("true").as_bool(), Some(true));
}

#[test]
fn the_rest() {
    // AMB-05: both key names of the mode.
    let mode = "{'sessionUpdate':'current_mode_update','currentModeId':'m'}";
    check(mode, V1, mode);
    check("{'sessionUpdate':'current_mode_update','modeId':'m'}", V1, mode);
    check("{'modeId':'x','currentModeId':'m','sessionUpdate':'current_mode_update'}", V1, mode);
    // V1-LIST-10
    check_same("{'sessionUpdate':'session_info_update','title':'T','updatedAt':null}");
    // V1-PROMPT-13, V2-PROMPT-10
    check_same(
        "{'sessionUpdate':'usage_update','used':1,'size':18446744073709551615,'cost':{'amount':0.25,'currency':'USD'}}",
    );
    check_same("{'sessionUpdate':'usage_update','used':1,'size':2,'cost':null}");
    // V1-NOTICE-03: severities are open, also in version 1. V2-NOTICE-01, V1-COMPACT-03, V2-COMPACT-01.
    check_same("{'sessionUpdate':'notice','severity':'_odd','title':'t','description':'d'}");
    check_same("{'sessionUpdate':'compaction_update','compactionId':'c','status':'_odd','summary':null,'error':'e'}");
    check_same("{'sessionUpdate':'compaction_summary_chunk','compactionId':'c','content':{'type':'text','text':'x'}}");
    // V2-STATE-01 … 07
    for state in [
        "{'sessionUpdate':'state_update','state':'running'}",
        "{'sessionUpdate':'state_update','state':'requires_action','background':[]}",
        "{'sessionUpdate':'state_update','state':'idle'}",
        "{'sessionUpdate':'state_update','state':'idle','stopReason':'end_turn'}",
        "{'sessionUpdate':'state_update','state':'idle','stopReason':'_odd','background':[{'type':'tool_call','toolCallId':'c'},{'type':'_x','y': 1}]}",
        "{'sessionUpdate':'state_update','state':'idle','stopReason':'error','error':{'code':-32603,'message':'m','data':{'a': 1}}}",
        "{'sessionUpdate':'state_update', 'state':'_dreaming', 'deep':true}",
    ] {
        check(state, V2, state);
    }
    // V2-TERMD-06: an empty exit status is an exit status.
    check_same(
        "{'sessionUpdate':'terminal_update','terminalId':'t','command':'ls','cwd':'/','output':{'data':'aGk='},'exitStatus':{},'size':{'cols':80,'rows':24},'capabilities':{'cancel':{}}}",
    );
    check_same(
        "{'sessionUpdate':'terminal_update','terminalId':'t','command':null,'output':null,'exitStatus':{'exitCode':-1,'signal':'TERM'}}",
    );
    check_same("{'sessionUpdate':'terminal_output_chunk','terminalId':'t','data':'aGk='}");
}

#[test]
fn v2_ext_02_unknown_updates_survive_byte_for_byte() {
    check_same("{ 'a' : [1, 2.50,{}] ,'sessionUpdate':'_x', 'b':'\\u00e4' }");
    check_same("{'sessionUpdate':'plan_removed','planId':'p'}");
}

#[test]
fn v2_prompt_07_stop_reasons() {
    for (reason, v1, seed) in [
        ("end_turn", "end_turn", "end_turn"),
        ("max_tokens", "max_tokens", "max_tokens"),
        ("max_turn_requests", "max_turn_requests", "max_turn_requests"),
        ("refusal", "refusal", "refusal"),
        ("cancelled", "cancelled", "cancelled"),
        ("error", "end_turn", "end_turn"),
        ("_odd", "end_turn", "_odd"),
    ] {
        let reason = StopReason::from(reason);
        assert_eq!(to_json(&reason, V1), format!("\"{v1}\""));
        assert_eq!(to_json(&reason, SEED), format!("\"{seed}\""));
        assert_eq!(to_json(&reason, V2), format!("\"{reason}\""));
    }
}

#[test]
fn a_text_chunk_is_written_like_its_notification() {
    for kind in [MessageKind::User, MessageKind::Agent, MessageKind::Thought] {
        for id in [None, Some("m\"1")] {
            let chunk = TextChunk { session_id: "s\n", kind, message_id: id, text: "a\u{7}\"ä" };
            let whole = SessionNotification {
                session_id: "s\n".into(),
                update: Update::text(kind, id.map(str::to_owned), "a\u{7}\"ä"),
                ..Default::default()
            };
            assert_eq!(to_json(&chunk, V1), to_json(&whole, V1));
            assert_eq!(from_json::<SessionNotification>(&to_json(&chunk, V2)).unwrap(), whole);
        }
    }
}

proptest! {
    #[test]
    fn v2_reads_back_what_it_writes(update in common::update()) {
        let text = to_json(&update, V2);
        let (back, deviations) = from_json_strict::<Update>(&text, None).unwrap();
        prop_assert_eq!(&back, &update, "{}", text);
        prop_assert!(deviations.iter().all(|deviation| deviation.what() == "expected some text"), "{:?}", deviations);
    }

    #[test]
    fn older_dialects_read_back_what_they_write(update in common::update(), dialect in 0..2usize) {
        let dialect = Dialect::ALL[dialect];
        let once: Update = from_json(&to_json(&update, dialect)).unwrap();
        let again: Update = from_json(&to_json(&once, dialect)).unwrap();
        prop_assert_eq!(again, once);
    }

    #[test]
    fn cut_or_changed_text_never_panics(update in common::update(), at in any::<prop::sample::Index>(), with in "[{}\\[\\]\",:7n]") {
        let mut text = to_json(&update, V2);
        let at = at.index(text.len());
        if text.is_char_boundary(at) {
            let _ = from_json::<Update>(&text[..at]);
            text.insert_str(at, &with);
            let _ = from_json::<Update>(&text);
        }
    }
}
