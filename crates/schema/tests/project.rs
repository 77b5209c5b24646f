//! What peers of each dialect are told.
#![allow(clippy::unwrap_used, reason = "tests")]

use tieline_schema::*;

const OPEN: Gates = Gates { boolean_options: true, notices: true, compaction: true, first_kinds: false, longest: None };

fn project(projector: &mut Projector, updates: &[Update]) -> Vec<Update> {
    let mut told = Vec::new();
    for update in updates {
        projector.update(update.clone(), &mut |update| told.push(update));
    }
    told
}

/// Reads an update without its wrapper; single quotes are double quotes.
fn read(update: &str) -> Update {
    from_json(&format!("{{\"sessionUpdate\":{}}}", update.replace('\'', "\""))).unwrap()
}

#[track_caller]
fn check_with(projector: &mut Projector, dialect: Dialect, updates: &[&str], expect: &[&str]) {
    let updates: Vec<Update> = updates.iter().map(|update| read(update)).collect();
    let told: Vec<String> = project(projector, &updates)
        .iter()
        .map(|update| to_json(update, dialect).replace('"', "'").replacen("{'sessionUpdate':", "", 1))
        .map(|text| text[..text.len() - 1].to_owned())
        .collect();
    assert_eq!(told, expect, "for {dialect}");
}

#[track_caller]
fn check(dialect: Dialect, updates: &[&str], expect: &[&str]) {
    check_with(&mut Projector::new(dialect), dialect, updates, expect);
}

fn say(id: &str, text: &str) -> String {
    format!("'agent_message_chunk','messageId':'{id}','content':{{'type':'text','text':'{text}'}}")
}

fn is(id: &str, texts: &[&str]) -> String {
    let blocks: Vec<String> = texts.iter().map(|text| format!("{{'type':'text','text':'{text}'}}")).collect();
    format!("'agent_message','messageId':'{id}','content':[{}]", blocks.join(","))
}

#[test]
fn v1_messages_are_told_in_chunks() {
    let v1 = Dialect::V1;
    // First content: a chunk per block. Extended: the rest. The same again: nothing. Chunks count too.
    check(v1, &[&is("m", &["a", "b"])], &[&say("m", "a"), &say("m", "b")]);
    check(v1, &[&is("m", &["ab"]), &is("m", &["abc", "d"])], &[&say("m", "ab"), &say("m", "c"), &say("m", "d")]);
    check(
        v1,
        &[&say("m", "a"), &say("m", "ä"), &is("m", &["aä", "c"])],
        &[&say("m", "a"), &say("m", "ä"), &say("m", "c")],
    );
    check(
        v1,
        &[&is("m", &["a", "b"]), &is("m", &["ab"]), "'agent_message','messageId':'m'"],
        &[&say("m", "a"), &say("m", "b")],
    );
    // Anything else is a new message that says what it replaces; later chunks go there.
    let replaced =
        |id: &str, text: &str, old: &str| format!("{},'_meta':{{'tieline/replaces':'{old}'}}", say(id, text));
    check(
        v1,
        &[
            &say("m", "abc"),
            &is("m", &["ab"]),
            &say("m", "c"),
            "'agent_message','messageId':'m','content':null",
            &say("m", "z"),
        ],
        &[
            &say("m", "abc"),
            &replaced("m~1", "ab", "m"),
            &say("m~1", "c"),
            &replaced("m~2", "", "m~1"),
            &say("m~2", "z"),
        ],
    );
    // Clearing what was never told tells nothing.
    check(v1, &["'agent_message','messageId':'m','content':[]"], &[]);
    // Other dialects know whole messages.
    for dialect in [Dialect::V2Seed, Dialect::V2] {
        check(dialect, &[&is("m", &["a"]), &is("m", &["b"])], &[&is("m", &["a"]), &is("m", &["b"])]);
    }
    // Version 1 unions are closed: an unknown block is not told.
    check(v1, &["'agent_message_chunk','content':{'type':'_x'}"], &[]);
}

#[test]
fn v1_user_messages_are_told_in_replay_only() {
    let user = "'user_message','messageId':'u','content':[{'type':'text','text':'a'},{'type':'text','text':'b'}]";
    let chunk =
        |text: &str| format!("'user_message_chunk','messageId':'u','content':{{'type':'text','text':'{text}'}}");
    check(Dialect::V1, &[user, &chunk("c")], &[]);
    let mut projector = Projector::new(Dialect::V1);
    projector.set_replaying(true);
    check_with(&mut projector, Dialect::V1, &[user, &chunk("c")], &[&chunk("a"), &chunk("b"), &chunk("c")]);
    // V2-PROMPT-03, AMB2-03
    check(Dialect::V2Seed, &[user], &[user]);
    check(Dialect::V2, &[user], &[user]);
}

#[test]
fn v2_msg_01_every_message_has_an_id() {
    let bare = "'agent_message_chunk','content':{'type':'text','text':'a'}";
    let think = "'agent_thought_chunk','content':{'type':'text','text':'a'}";
    let call = "'tool_call_update','toolCallId':'c'";
    check(Dialect::V1, &[bare, bare], &[bare, bare]);
    for dialect in [Dialect::V2Seed, Dialect::V2] {
        let thought = think.replace("'content'", "'messageId':'~2','content'");
        check(
            dialect,
            &[bare, bare, think, bare, call, bare],
            &[&say("~1", "a"), &say("~1", "a"), &thought, &say("~3", "a"), call, &say("~4", "a")],
        );
    }
    let mut projector = Projector::new(Dialect::V2);
    check_with(&mut projector, Dialect::V2, &[bare], &[&say("~1", "a")]);
    projector.end_run();
    check_with(&mut projector, Dialect::V2, &[bare], &[&say("~2", "a")]);
}

#[test]
fn v1_tool_calls_are_announced_once() {
    check(
        Dialect::V1,
        &[
            "'tool_call_update','toolCallId':'c','title':'T','status':'pending'",
            "'tool_call_update','toolCallId':'c','status':'in_progress'",
            "'tool_call','toolCallId':'c','title':'T'",
        ],
        &[
            "'tool_call','toolCallId':'c','title':'T','status':'pending'",
            "'tool_call_update','toolCallId':'c','status':'in_progress'",
            "'tool_call_update','toolCallId':'c','title':'T','kind':'other','status':'pending'",
        ],
    );
    check(
        Dialect::V1,
        &["'tool_call_update','toolCallId':'c','kind':'read'"],
        &["'tool_call','toolCallId':'c','title':'Tool call','kind':'read'"],
    );
    // null means unchanged there, so it is said in another way, or not at all.
    check(
        Dialect::V1,
        &[
            "'tool_call_update','toolCallId':'c','title':'T'",
            "'tool_call_update','toolCallId':'c','title':null,'kind':null,'status':null,'content':null,'locations':null,'rawInput':null,'name':null,'_meta':null",
        ],
        &[
            "'tool_call','toolCallId':'c','title':'T'",
            "'tool_call_update','toolCallId':'c','title':'Tool call','kind':'other','status':'pending','content':[],'locations':[]",
        ],
    );
    // What version 1 has no word for is told in `_meta` too.
    check(
        Dialect::V1,
        &[
            "'tool_call_update','toolCallId':'c','title':'T','status':'paused'",
            "'tool_call_update','toolCallId':'c','capabilities':{'cancel':{}}",
            "'tool_call_update','toolCallId':'c','rawOutput':null",
            "'tool_call_update','toolCallId':'c','status':'cancelled'",
        ],
        &[
            "'tool_call','toolCallId':'c','title':'T','status':'in_progress','_meta':{'tieline/status':'paused'}",
            "'tool_call_update','toolCallId':'c','status':'failed','_meta':{'tieline/status':'cancelled'}",
        ],
    );
    // Other dialects get upserts as they are.
    let nulls = "'tool_call_update','toolCallId':'c','title':null,'status':null";
    check(Dialect::V2Seed, &[nulls], &[nulls]);
    check(Dialect::V2, &[nulls], &[nulls]);
}

fn text(text: &str) -> String {
    format!("{{'type':'content','content':{{'type':'text','text':'{text}'}}}}")
}

fn chunk(item: &str) -> String {
    format!("'tool_call_content_chunk','toolCallId':'c','content':{item}")
}

fn holds(items: &[&str]) -> String {
    format!("'tool_call_update','toolCallId':'c','content':[{}]", items.join(","))
}

#[test]
fn v1_tool_content_is_told_whole() {
    let (a, b) = (&*text("a"), &*text("b"));
    check(
        Dialect::V1,
        &[
            &chunk(a),
            &chunk(b),
            &holds(&[b]),
            &chunk(a),
            "'tool_call_update','toolCallId':'c','status':'completed'",
            &chunk(b),
        ],
        &[
            &format!("'tool_call','toolCallId':'c','title':'Tool call','content':[{a}]"),
            &holds(&[a, b]),
            &holds(&[b]),
            &holds(&[b, a]),
            "'tool_call_update','toolCallId':'c','status':'completed'",
        ],
    );
    check(Dialect::V2Seed, &[&chunk(a), &chunk(b)], &[&chunk(a), &chunk(b)]);
    // Held back until flushed, or until there is more to say.
    let mut lazy = Projector::new(Dialect::V1).throttled();
    check_with(
        &mut lazy,
        Dialect::V1,
        &[&holds(&[]), &chunk(a), &chunk(b)],
        &["'tool_call','toolCallId':'c','title':'Tool call','content':[]"],
    );
    assert!(lazy.is_stale());
    let mut told = Vec::new();
    lazy.flush(&mut |update| told.push(update));
    assert_eq!(told, [read(&holds(&[a, b]))]);
    let done = "'tool_call_update','toolCallId':'c','status':'failed'";
    let want = format!("'tool_call_update','toolCallId':'c','status':'failed','content':[{a},{b},{a}]");
    check_with(&mut lazy, Dialect::V1, &[&chunk(a), done], &[&want]);
    assert!(!lazy.is_stale());
}

#[test]
fn display_terminals_become_text() {
    let terminal = "{'type':'terminal','terminalId':'t'}";
    let command = "'terminal_update','terminalId':'t','command':'ls'";
    let output = "'terminal_output_chunk','terminalId':'t','data':'G1szMW1hCg=='";
    let exit = "'terminal_update','terminalId':'t','exitStatus':{'exitCode':1}";
    let shown = |body: &str| text(&format!("```\\n{body}\\n```"));
    let first = |item: &str| format!("'tool_call','toolCallId':'c','title':'Tool call','content':[{item}]");
    let updates = [command, &holds(&[terminal]), output, exit];
    let (one, two, three) = (shown("$ ls\\n"), shown("$ ls\\na"), shown("$ ls\\na\\n[exit code 1]"));
    check(Dialect::V1, &updates, &[&first(&one), &holds(&[&two]), &holds(&[&three])]);
    check(Dialect::V2Seed, &updates, &[&holds(&[&one]), &holds(&[&two]), &holds(&[&three])]);
    check(Dialect::V2, &updates, &updates);
    // In version 1 a terminal that we know nothing of is the client's own.
    check(Dialect::V1, &[&holds(&[terminal])], &[&first(terminal)]);
    // V2-TERMD-02: reference and updates in any order.
    check(Dialect::V1, &[&holds(&[terminal]), command], &[&first(terminal), &holds(&[&one])]);
    // Text that looks like a fence stays inside.
    check(
        Dialect::V2Seed,
        &[&holds(&[terminal]), "'terminal_output_chunk','terminalId':'t','data':'YGBgYA=='"],
        &[&holds(&[&text("[terminal t]")]), &holds(&[&text("`````\\n````\\n`````")])],
    );
}

#[test]
fn diffs_become_texts() {
    let change = |path: &str| format!("{{'operation':'delete','path':'{path}'}}");
    let diff = format!("{{'type':'diff','changes':[{},{}]}}", change("/a"), change("/b"));
    let want = [text("Deleted /a"), text("Deleted /b")];
    check(Dialect::V2Seed, &[&chunk(&diff)], &[&chunk(&want[0]), &chunk(&want[1])]);
    check(Dialect::V2Seed, &[&holds(&[&diff])], &[&holds(&[&want[0], &want[1]])]);
    check(Dialect::V2, &[&chunk(&diff)], &[&chunk(&diff)]);
}

#[test]
fn v1_has_one_plan() {
    let entry =
        |content: &str, status: &str| format!("{{'content':'{content}','priority':'medium','status':'{status}'}}");
    let plan = |id: &str, entries: &[&str]| {
        format!("'plan_update','plan':{{'type':'items','planId':'{id}','entries':[{}]}}", entries.join(","))
    };
    let v1 = |entries: &[&str]| format!("'plan','entries':[{}]", entries.join(","));
    let (a, b, c) = (entry("a", "pending"), entry("b", "completed"), entry("c", "cancelled"));
    let gone = entry("c (cancelled)", "completed");
    check(
        Dialect::V1,
        &[
            &plan("p", &[&a]),
            &plan("q", &[&b, &c]),
            &plan("p", &[]),
            "'plan_update','plan':{'type':'_x','planId':'q'}",
            "'plan_update','plan':{'type':'_x','planId':'r'}",
        ],
        &[
            &v1(&[&a]),
            &v1(&[&entry("p:", "pending"), &a, &entry("q:", "completed"), &b, &gone]),
            &v1(&[&b, &gone]),
            &v1(&[]),
        ],
    );
    check(Dialect::V2Seed, &[&plan("p", &[&c])], &[&plan("p", &[&gone]).replace("planId", "id")]);
    check(Dialect::V2, &[&plan("p", &[&c])], &[&plan("p", &[&c])]);
}

#[test]
fn v1_mode_and_option_are_both_told() {
    let options = |id: &str, value: &str| {
        format!(
            "'config_option_update','configOptions':[{{'{id}':'m','name':'M','category':'mode','type':'select','currentValue':'{value}','options':[]}}]"
        )
    };
    let mode = |value: &str| format!("'current_mode_update','currentModeId':'{value}'");
    check(
        Dialect::V1,
        &[&options("id", "a"), &options("id", "a"), &mode("b"), &mode("b")],
        &[&mode("a"), &options("id", "a"), &options("id", "a"), &mode("b"), &options("id", "b"), &mode("b")],
    );
    check(Dialect::V2Seed, &[&mode("x"), &options("id", "a"), &mode("b")], &[&options("id", "a"), &options("id", "b")]);
    check(Dialect::V2, &[&options("id", "a"), &mode("b")], &[&options("configId", "a"), &options("configId", "b")]);
    // Options that an answer carried are known.
    let mut projector = Projector::new(Dialect::V1);
    let Update::ConfigOptions(update) = read(&options("id", "a")) else { panic!() };
    projector.set_options(update.options.clone());
    check_with(&mut projector, Dialect::V1, &[&options("id", "a")], &[&options("id", "a")]);
}

#[test]
fn gates_of_version_1() {
    // V1-NOTICE-01, V1-COMPACT-01, V1-CONF-03
    let notice = "'notice','severity':'info','title':'t'";
    let compaction = "'compaction_update','compactionId':'k','status':'completed'";
    let summary = "'compaction_summary_chunk','compactionId':'k','content':{'type':'text','text':'s'}";
    let switch = "'config_option_update','configOptions':[{'id':'b','name':'B','type':'boolean','currentValue':false}]";
    let list = "'config_option_update','configOptions':[{'id':'b','name':'B','type':'select','currentValue':'false','options':[{'value':'true','name':'On'},{'value':'false','name':'Off'}]}]";
    let all = [notice, compaction, summary, switch];
    check(Dialect::V1, &all, &[list]);
    check_with(&mut Projector::new(Dialect::V1).with_gates(OPEN), Dialect::V1, &all, &all);
    check_with(&mut Projector::new(Dialect::V2Seed).with_gates(OPEN), Dialect::V2Seed, &all, &[list]);
    let newest = switch.replace("'id'", "'configId'");
    check(Dialect::V2, &all, &[notice, compaction, summary, &newest]);
    // Version 1 unions are closed, and no notice is without a title.
    let odd = [
        "'notice','severity':'info','title':''",
        "'compaction_summary_chunk','compactionId':'k','content':{'type':'_x'}",
    ];
    check_with(&mut Projector::new(Dialect::V1).with_gates(OPEN), Dialect::V1, &odd, &[]);
    let summary =
        "'compaction_update','compactionId':'k','status':'failed','summary':[{'type':'_x'},{'type':'text','text':'s'}]";
    let want = "'compaction_update','compactionId':'k','status':'failed','summary':[{'type':'text','text':'s'}]";
    check_with(&mut Projector::new(Dialect::V1).with_gates(OPEN), Dialect::V1, &[summary], &[want]);
    // State, terminals and unknown updates have no form in version 1.
    let odd = ["'state_update','state':'running'", "'terminal_output_chunk','terminalId':'t','data':''", "'_x','y':1"];
    check(Dialect::V1, &odd, &[]);
    check(Dialect::V2Seed, &odd, &[odd[2]]);
    check(Dialect::V2, &odd, &odd);
}

#[test]
fn nulls_of_a_version_1_agent_change_nothing() {
    let update = read("'tool_call_update','toolCallId':'c','title':null,'content':null,'status':'failed'");
    let want = read("'tool_call_update','toolCallId':'c','status':'failed'");
    assert_eq!(update.clone().heard_from(Dialect::V1), want);
    assert_eq!(update.clone().heard_from(Dialect::V2), update);
}
