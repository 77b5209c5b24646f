//! Clients of the protocol's first year: they don't say who they are, log an error for kinds of updates that came later, and
//! those in Python end at a line of 64 KiB.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{agent_wire, updates};
use serde_json::{Value, json};
use tieline::agent;
use tieline::schema::{SessionInfoUpdate, UsageUpdate};
use tieline::{Diff, Patch, PlanEntry, PlanStatus, StopReason, ToolCallContent};

/// asyncio's reader ends at a longer line.
const LONGEST_LINE: usize = 64 * 1024;

/// Tells everything that there is, and much of it.
async fn talkative(turn: agent::Turn) -> tieline::Result<StopReason> {
    turn.say("ü\u{1}".repeat(100_000)).await?;
    turn.plan(vec![PlanEntry::new("one", PlanStatus::Pending)]).await?;
    turn.usage(1, 2, None).await?;
    turn.update(SessionInfoUpdate { title: Patch::Set("title".into()), ..SessionInfoUpdate::default() }).await?;
    let lines = |last: &str| "a line\n".repeat(30_000) + last;
    let diff = Diff::of("/p/a", Some(lines("old\n")), lines("new\n"));
    let call = turn.tool("Edit a").content(vec![ToolCallContent::Diff(diff)]).start().await?;
    call.ask(Vec::new()).await?;
    call.append("x".repeat(300_000)).await?;
    call.complete_with(vec!["y".repeat(300_000).into()], None).await?;
    turn.update(UsageUpdate { used: 2, size: 3, ..UsageUpdate::default() }).await?;
    Ok(StopReason::EndTurn)
}

async fn heard(hello: Value) -> Vec<Value> {
    let mut wire = agent_wire(agent::from_fn("talkative", |turn, _| talkative(turn)));
    wire.result("initialize", hello).await;
    let session = wire.new_session().await;
    let id = wire.prompt(&session, "go").await;
    let (asked, mut all) = wire.request("session/request_permission").await;
    all.push(asked.clone());
    wire.reply(&asked, json!({"outcome": {"outcome": "selected", "optionId": "allow"}})).await;
    let (answer, rest) = wire.answer(id).await;
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    all.extend(rest);
    all
}

fn said(all: &[Value]) -> String {
    updates(all, "agent_message_chunk").iter().map(|update| update["content"]["text"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_client_without_a_name_gets_the_first_kinds_in_short_lines() {
    let all = heard(json!({"protocolVersion": 1, "clientCapabilities": {}})).await;
    for message in &all {
        assert!(message.to_string().len() < LONGEST_LINE, "{}", &message.to_string()[..200]);
    }
    for kind in ["usage_update", "session_info_update", "config_option_update"] {
        assert!(updates(&all, kind).is_empty(), "{kind}");
    }
    assert_eq!(updates(&all, "plan").len(), 1);
    assert_eq!(said(&all), "ü\u{1}".repeat(100_000), "every word comes, in pieces");
    let call = updates(&all, "tool_call")[0].to_string();
    assert!(call.contains("old\\n") && call.contains("new\\n"), "the change itself is seen");
    assert!(
        updates(&all, "tool_call_update").last().unwrap().to_string().contains("cut to fit: 16384 of 300000 bytes")
    );
}

#[tokio::test]
async fn a_client_that_is_known_gets_all_of_it() {
    let info = json!({"name": "zed", "version": "1"});
    let all = heard(json!({"protocolVersion": 1, "clientCapabilities": {}, "clientInfo": info})).await;
    assert_eq!(updates(&all, "agent_message_chunk").len(), 1);
    assert_eq!((updates(&all, "usage_update").len(), updates(&all, "session_info_update").len()), (2, 1));
    let last = updates(&all, "tool_call_update").last().unwrap().to_string();
    assert!(last.len() > 300_000 && !last.contains("cut to fit"));
}
