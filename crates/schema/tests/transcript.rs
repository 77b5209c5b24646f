//! The laws of the transcript: upserts, chunks, three states, replay.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use proptest::collection::vec;
use proptest::prelude::*;
use tieline_schema::*;

fn built(dialect: Dialect, updates: &[Update]) -> Transcript {
    let mut transcript = Transcript::new(dialect);
    for update in updates {
        transcript.apply(update);
    }
    transcript
}

/// Applies updates (single quotes are double quotes) and shows the items as `who id: content`.
#[track_caller]
fn check(dialect: Dialect, updates: &[&str], expect: &[&str]) {
    let updates: Vec<Update> = updates
        .iter()
        .map(|update| from_json(&format!("{{\"sessionUpdate\":{}}}", update.replace('\'', "\""))).unwrap())
        .collect();
    let shown: Vec<String> = built(dialect, &updates).items().iter().map(show).collect();
    assert_eq!(shown, expect);
}

fn show(item: &Item) -> String {
    let list = |content: &[ContentBlock]| {
        content.iter().map(|block| block.as_text().unwrap_or(block.tag())).collect::<Vec<_>>().join("|")
    };
    match item {
        Item::Message(message) => format!("{:?} {}: {}", message.kind, message.id, list(&message.content)),
        Item::ToolCall(call) => {
            let content: Vec<_> = call.content.iter().map(|item| item.as_text().unwrap_or("?")).collect();
            let title = call.title.as_deref().unwrap_or("-");
            format!("tool {}: {title} {} {} {}", call.id, call.kind, call.status, content.join("|"))
        }
        Item::Compaction(compaction) => {
            let error = compaction.error.as_deref().unwrap_or("-");
            format!("compaction {}: {} {error} {}", compaction.id, compaction.status, list(&compaction.summary))
        }
        Item::Other(unknown) => unknown.tag.to_string(),
    }
}

const SAY_A: &str = "'agent_message_chunk','messageId':'1','content':{'type':'text','text':'A'}";
const SAY_B: &str = "'agent_message_chunk','messageId':'1','content':{'type':'text','text':'B'}";
const IS_C: &str = "'agent_message','messageId':'1','content':[{'type':'text','text':'C'}]";

#[test]
fn v2_msg_02_to_05_messages() {
    for dialect in Dialect::ALL {
        // Chunks append to each other as text; a list replaces; a chunk appends to what is current.
        check(dialect, &[SAY_A, SAY_B], &["Agent 1: AB"]);
        check(dialect, &[IS_C, SAY_A], &["Agent 1: C|A"]);
        check(dialect, &[IS_C, SAY_A, SAY_B], &["Agent 1: C|AB"]);
        check(dialect, &[SAY_A, IS_C, SAY_B], &["Agent 1: C|B"]);
        check(dialect, &[SAY_A, "'agent_message','messageId':'1'"], &["Agent 1: A"]);
        check(dialect, &[SAY_A, "'agent_message','messageId':'1','content':null", SAY_B], &["Agent 1: B"]);
        check(dialect, &[SAY_A, "'agent_message','messageId':'1','content':[]"], &["Agent 1: "]);
        // Ids are separate for user, agent and thoughts; chunks of different ids may interleave.
        let think = "'agent_thought_chunk','messageId':'1','content':{'type':'text','text':'T'}";
        let other = "'agent_message_chunk','messageId':'2','content':{'type':'text','text':'X'}";
        check(dialect, &[SAY_A, think, other, SAY_B, think], &["Agent 1: AB", "Thought 1: TT", "Agent 2: X"]);
    }
}

#[test]
fn v1_prompt_12_chunks_without_ids() {
    let say = "'agent_message_chunk','content':{'type':'text','text':'a'}";
    let think = "'agent_thought_chunk','content':{'type':'text','text':'t'}";
    let call = "'tool_call','toolCallId':'c','title':'T'";
    let usage = "'usage_update','used':1,'size':2";
    check(Dialect::V1, &[say, say, think, say], &["Agent ~1: aa", "Thought ~2: t", "Agent ~3: a"]);
    check(Dialect::V1, &[say, call, say], &["Agent ~1: a", "tool c: T other pending ", "Agent ~3: a"]);
    // What has no place in the conversation does not break a run; neither does news of an older item.
    check(Dialect::V1, &[call, say, usage, call, say], &["tool c: T other pending ", "Agent ~2: aa"]);
    // A message with an id is not continued by a chunk without one.
    check(Dialect::V1, &[SAY_A, say], &["Agent 1: A", "Agent ~2: a"]);
    // The end of the work ends the run.
    check(Dialect::V1, &[say, "'state_update','state':'idle'", say], &["Agent ~1: a", "Agent ~2: a"]);
    let update: Update = from_json(&format!("{{\"sessionUpdate\":{}}}", say.replace('\'', "\""))).unwrap();
    let mut transcript = Transcript::new(Dialect::V1);
    transcript.apply(&update);
    transcript.end_run();
    assert_eq!(transcript.apply(&update), Some(1));
}

#[test]
fn v2_tool_03_to_07_tool_calls() {
    let new = "'tool_call_update','toolCallId':'c'";
    let full = "'tool_call_update','toolCallId':'c','title':'T','kind':'read','status':'completed','content':[{'type':'content','content':{'type':'text','text':'A'}}]";
    let chunk =
        "'tool_call_content_chunk','toolCallId':'c','content':{'type':'content','content':{'type':'text','text':'B'}}";
    let nulls = "'tool_call_update','toolCallId':'c','title':null,'kind':null,'status':null,'content':null,'locations':null,'rawInput':null";
    let empty = "'tool_call_update','toolCallId':'c','content':[]";
    for dialect in Dialect::ALL {
        check(dialect, &[new], &["tool c: - other pending "]);
        check(dialect, &[chunk], &["tool c: - other pending B"]);
        check(dialect, &[full, new], &["tool c: T read completed A"]);
        check(dialect, &[full, chunk, chunk], &["tool c: T read completed A|B|B"]);
        check(dialect, &[chunk, full], &["tool c: T read completed A"]);
        check(dialect, &[full, empty], &["tool c: T read completed "]);
    }
    // V1-TOOL-05, V1-TOOL-12: there null means unchanged.
    check(Dialect::V1, &[full, nulls], &["tool c: T read completed A"]);
    check(Dialect::V2Seed, &[full, nulls], &["tool c: - other pending "]);
    check(Dialect::V2, &[full, nulls], &["tool c: - other pending "]);
    // V1-TOOL-06 and V1-TOOL-07: defaults, and updates of unknown calls.
    check(Dialect::V1, &["'tool_call','toolCallId':'c','title':'T'"], &["tool c: T other pending "]);
    check(Dialect::V1, &["'tool_call_update','toolCallId':'c','status':'failed'"], &["tool c: - other failed "]);
}

#[test]
fn v1_cancel_02_and_v2_cancel_02_unfinished_calls() {
    let update = |id: &str, status: &str| Update::from(ToolCallUpdate::new(id).status(status.into()));
    let mut transcript = built(
        Dialect::V2,
        &[update("a", "pending"), update("b", "in_progress"), update("c", "completed"), update("d", "_odd")],
    );
    transcript.cancel_pending();
    let statuses = |transcript: &Transcript| {
        ["a", "b", "c", "d"].map(|id| transcript.tool_call(id).unwrap().status.to_string()).join(" ")
    };
    assert_eq!(statuses(&transcript), "cancelled cancelled completed cancelled");
    // V2-CANCEL-07: what comes later still counts.
    transcript.apply(&update("a", "failed"));
    assert_eq!(statuses(&transcript), "failed cancelled completed cancelled");
}

#[test]
fn v1_plan_03_and_v2_plan_01_to_03_plans() {
    let plan = |json: &str| from_json::<Update>(&json.replace('\'', "\"")).unwrap();
    let one = plan("{'sessionUpdate':'plan','entries':[{'content':'a','priority':'low','status':'pending'}]}");
    let two = plan("{'sessionUpdate':'plan_update','plan':{'type':'items','planId':'p','entries':[]}}");
    let odd = plan("{'sessionUpdate':'plan_update','plan':{'type':'_x','planId':'main'}}");
    let transcript = built(Dialect::V2, &[one.clone(), two.clone()]);
    assert_eq!(transcript.plans().iter().map(Plan::id).collect::<Vec<_>>(), ["main", "p"]);
    assert_eq!(transcript.plans()[0].entries().len(), 1);
    let transcript = built(Dialect::V2, &[one, two, odd]);
    assert_eq!(transcript.plans().len(), 2);
    assert!(matches!(transcript.plans()[0], Plan::Other { .. }));
}

#[test]
fn v2_termd_02_03_04_06_terminals() {
    let chunk = |data: &str| {
        Update::from(TerminalOutputChunk { terminal_id: "t".into(), data: data.into(), ..Default::default() })
    };
    let snapshot = |data: &str| {
        let output = Patch::Set(TerminalOutput { data: data.into(), ..Default::default() });
        Update::from(TerminalUpdate { terminal_id: "t".into(), output, ..TerminalUpdate::default() })
    };
    // Each chunk is base64 of its own; a character may be cut between two.
    let mut transcript = built(Dialect::V2, &[chunk("ww=="), chunk("pA=="), chunk("!")]);
    assert_eq!(transcript.terminal("t").unwrap().output(), "ä".as_bytes());
    assert!(transcript.items().is_empty());
    transcript.apply(&snapshot("aGk="));
    assert_eq!(transcript.terminal("t").unwrap().output(), b"hi");
    assert_eq!(transcript.terminal("t").unwrap().exit_status, None);
    transcript.apply(&from_json(r#"{"sessionUpdate":"terminal_update","terminalId":"t","exitStatus":{}}"#).unwrap());
    assert_eq!(transcript.terminal("t").unwrap().exit_status, Some(ExitStatus::default()));
    // Old output goes when there is too much.
    let mut small = Transcript::new(Dialect::V2).with_output_limit(5);
    for _ in 0..9 {
        small.apply(&chunk("YWJj"));
    }
    assert_eq!(small.terminal("t").unwrap().output(), b"bcabc");
}

#[test]
fn v2_compact_01_and_v1_compact_03_compactions() {
    let start = "'compaction_update','compactionId':'k','status':'in_progress'";
    let chunk = "'compaction_summary_chunk','compactionId':'k','content':{'type':'text','text':'s'}";
    let done = "'compaction_update','compactionId':'k','status':'completed','error':null";
    let fail = "'compaction_update','compactionId':'k','status':'failed','summary':null,'error':'e'";
    for dialect in Dialect::ALL {
        check(dialect, &[start, SAY_A, chunk, chunk, done], &["compaction k: completed - s|s", "Agent 1: A"]);
        check(dialect, &[start, chunk, fail], &["compaction k: failed e "]);
        check(dialect, &[chunk], &["compaction k: in_progress - s"]);
    }
}

#[test]
fn session_things() {
    let update = |json: &str| from_json::<Update>(&json.replace('\'', "\"")).unwrap();
    let mut transcript = built(
        Dialect::V1,
        &[
            update("{'sessionUpdate':'session_info_update','title':'T','updatedAt':'now'}"),
            update("{'sessionUpdate':'session_info_update','title':null}"),
            update("{'sessionUpdate':'usage_update','used':1,'size':2,'cost':{'amount':1,'currency':'EUR'}}"),
            update("{'sessionUpdate':'usage_update','used':3,'size':4}"),
            update("{'sessionUpdate':'notice','severity':'info','title':'n'}"),
            update(
                "{'sessionUpdate':'config_option_update','configOptions':[{'id':'m','name':'M','category':'mode','type':'select','currentValue':'a','options':[]}]}",
            ),
        ],
    );
    assert_eq!((transcript.info().title.as_deref(), transcript.info().updated_at.as_deref()), (None, Some("now")));
    let usage = transcript.usage().unwrap();
    assert_eq!((usage.used, usage.cost.as_ref().map(|cost| &*cost.currency)), (3, Some("EUR")));
    assert!(transcript.items().is_empty());
    // V1-MODE-04, V1-CONF-08: mode and mode option stay in step.
    assert_eq!(transcript.mode(), Some("a"));
    transcript.apply(&update("{'sessionUpdate':'current_mode_update','currentModeId':'b'}"));
    assert_eq!(transcript.mode(), Some("b"));
    assert_eq!(transcript.options()[0].value(), Some("b".into()));
    // V2-STATE-06: an unknown state is not idle.
    transcript.apply(&update("{'sessionUpdate':'state_update','state':'_odd'}"));
    assert!(!transcript.state().unwrap().state.is_idle());
}

fn dialect() -> impl Strategy<Value = Dialect> {
    prop::sample::select(Dialect::ALL.to_vec())
}

fn chunk(id: &str, block: ContentBlock) -> Update {
    Chunk { message_id: Some(id.into()), content: block, ..Chunk::default() }.into()
}

fn whole(id: &str, blocks: &[ContentBlock]) -> Update {
    Message { message_id: id.into(), content: Patch::Set(Items(blocks.to_vec())), ..Message::default() }.into()
}

fn content(transcript: &Transcript, id: &str) -> Vec<ContentBlock> {
    transcript.message(MessageKind::Agent, id).unwrap().content.clone()
}

proptest! {
    #[test]
    fn v2_msg_03_a_chunk_appends(before in vec(common::update(), 0..6), list in vec(common::block(), 0..4), more in common::block()) {
        let mut transcript = built(Dialect::V2, &before);
        transcript.apply(&whole("x", &list));
        transcript.apply(&chunk("x", more.clone()));
        let mut want = list;
        want.push(more);
        prop_assert_eq!(content(&transcript, "x"), want);
    }

    #[test]
    fn v2_msg_02_a_list_replaces(before in vec(common::update(), 0..9), list in vec(common::block(), 0..4), dialect in dialect()) {
        let mut transcript = built(dialect, &before);
        transcript.apply(&whole("x", &list));
        prop_assert_eq!(content(&transcript, "x"), list);
        transcript.apply(&Message { message_id: "x".into(), ..Message::default() }.into());
        transcript.apply(&Message { message_id: "x".into(), content: Patch::Clear, ..Message::default() }.into());
        prop_assert!(content(&transcript, "x").is_empty());
    }

    #[test]
    fn text_in_pieces_is_the_same_text(text in "\\PC{0,20}", cuts in vec(any::<prop::sample::Index>(), 0..5), dialect in dialect()) {
        let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).filter(|at| text.is_char_boundary(*at)).collect();
        at.extend([0, text.len()]);
        at.sort_unstable();
        let pieces: Vec<Update> = at.windows(2).map(|pair| chunk("x", text[pair[0]..pair[1]].into())).collect();
        prop_assert_eq!(built(dialect, &pieces), built(dialect, &[chunk("x", text.as_str().into())]));
    }

    #[test]
    fn v2_msg_05_ids_do_not_disturb_each_other(updates in vec(common::update(), 0..14), dialect in dialect()) {
        // Each message and tool call is what its own updates alone make of it.
        let all = built(dialect, &updates);
        for item in all.items() {
            let own: Vec<Update> = updates.iter().filter(|update| match (item, update) {
                (Item::Message(m), Update::Chunk(u)) => u.kind == m.kind && u.message_id.as_ref() == Some(&m.id),
                (Item::Message(m), Update::Message(u)) => u.kind == m.kind && u.message_id == m.id,
                (Item::ToolCall(c), Update::ToolCall(u)) => u.tool_call_id == c.id,
                (Item::ToolCall(c), Update::ToolCallContent(u)) => u.tool_call_id == c.id,
                (Item::Compaction(c), Update::Compaction(u)) => u.compaction_id == c.id,
                (Item::Compaction(c), Update::CompactionSummary(u)) => u.compaction_id == c.id,
                _ => false,
            }).cloned().collect();
            if !own.is_empty() {
                let alone = built(dialect, &own);
                prop_assert_eq!(alone.items(), std::slice::from_ref(item));
            }
        }
    }

    #[test]
    fn v2_sess_05_a_snapshot_rebuilds_the_transcript(updates in vec(common::update(), 0..20), dialect in dialect()) {
        let transcript = built(dialect, &updates);
        let snapshot = transcript.to_updates();
        prop_assert_eq!(&built(dialect, &snapshot), &transcript);
        // Also when it went over the wire.
        let sent: Vec<Update> = snapshot.iter().map(|update| from_json(&to_json(update, Dialect::V2)).unwrap()).collect();
        prop_assert_eq!(&built(dialect, &sent), &transcript);
    }

    #[test]
    fn applied_twice_in_a_row_an_upsert_changes_nothing(updates in vec(common::update(), 0..9), call in common::tool_call(), message in common::message(), dialect in dialect()) {
        for update in [Update::from(call), message.into()] {
            let mut once = built(dialect, &updates);
            once.apply(&update);
            let mut twice = once.clone();
            twice.apply(&update);
            prop_assert_eq!(once, twice);
        }
    }
}
