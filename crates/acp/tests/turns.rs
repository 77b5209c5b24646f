//! A turn from prompt to stop, in every dialect: what is said, asked, done, cancelled, and in which order.

#![allow(clippy::unwrap_used)]

mod common;

use common::{SOON, Wire, agent_wire, agent_wire_with, hello, in_every_dialect, said, updates};
use serde_json::{Value, json};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tieline::agent::{Agent, Ask, Recorder, Server, Turn, from_fn};
use tieline::schema::{CommandSubject, Items, ToolCallContentChunk};
use tieline::{
    ContentBlock, Cost, Dialect, Diff, Error, MessageKind, Patch, PermissionOptionKind, PlanEntry, PlanStatus, Raw,
    Result, StopReason, ToolCallContent, ToolCallStatus, ToolCallUpdate, ToolKind, Update,
};

/// An agent that does what the prompt says.
fn agent() -> impl Agent {
    from_fn("actor", act)
}

async fn act(turn: Turn, prompt: Vec<ContentBlock>) -> Result<StopReason> {
    let text = prompt[0].as_text().unwrap_or_default().to_owned();
    match &*text {
        "say" => {
            turn.think("hm").await?;
            turn.say("one ").await?;
            turn.say(String::from("two")).await?;
            turn.usage(5, 10, Some(Cost { amount: 0.5, currency: "USD".into(), ..Cost::default() })).await?;
        }
        "plan" => {
            turn.plan(vec![PlanEntry::new("a", PlanStatus::InProgress), PlanEntry::new("b", PlanStatus::Pending)])
                .await?;
            turn.plan(vec![PlanEntry::new("a", PlanStatus::Completed)]).await?;
        }
        "tool" => {
            let diff = ToolCallContent::Diff(Diff::of("/tmp/x", Some("old\n".into()), "new\n"));
            let tool = turn
                .tool("Edit x")
                .id("call-1")
                .kind(ToolKind::Edit)
                .at("/tmp/x", Some(3))
                .input(Raw::new("{\"a\":1}").unwrap());
            let tool = tool.content(vec![diff]).start().await?;
            let decision = tool.ask(Vec::new()).await?;
            if !decision.is_allowed() {
                tool.fail("not allowed").await?;
                return Ok(StopReason::EndTurn);
            }
            tool.running().await?;
            tool.append("part one. ").await?;
            tool.append("part two.").await?;
            tool.complete().await?;
        }
        "command" => {
            let subject = CommandSubject { command: "rm x".into(), cwd: "/tmp".into(), ..CommandSubject::default() };
            let ask = Ask::command(subject).option("y", "Yes", PermissionOptionKind::AllowAlways).option(
                "n",
                "No",
                "_maybe".into(),
            );
            let decision = turn.ask(ask).await?;
            turn.say(format!("{} {:?}", decision.is_allowed(), decision.option_id())).await?;
        }
        "question" => {
            let decision = turn.ask(Ask::new("Really?").description("It is late.")).await?;
            turn.say(format!("{:?}", decision.option_id())).await?;
        }
        "unfinished" => drop(turn.tool("Left open").id("open-1").start().await?),
        "wait" => {
            turn.say("waiting").await?;
            turn.cancelled().await;
            turn.say("stopping").await?;
            return Err(Error::internal("an abort that looks like an error"));
        }
        "deaf" => {
            let _open = turn.tool("Deaf").id("deaf-1").start().await?;
            std::future::pending::<()>().await;
        }
        "fail" => return Err(Error::wire(-32077, "as told")),
        "panic" => panic!("on purpose"),
        "late" => {
            let late = turn.clone();
            tokio::spawn(async move {
                tokio::task::yield_now().await;
                while late.say("too late").await.is_ok() {
                    tokio::task::yield_now().await;
                }
            });
        }
        "refuse" => return Ok(StopReason::Refusal),
        "tokens" => return Ok(StopReason::MaxTokens),
        "requests" => return Ok(StopReason::MaxTurnRequests),
        "custom" => return Ok(StopReason::from("_custom")),
        other => turn.say(format!("you said {other}")).await?,
    }
    Ok(StopReason::EndTurn)
}

fn kinds(messages: &[Value]) -> Vec<String> {
    let name = |message: &Value| {
        let update = &message["params"]["update"];
        match (message["method"].as_str(), update["sessionUpdate"].as_str()) {
            (_, Some("state_update")) => format!("state {}", update["state"].as_str().unwrap()),
            (_, Some(kind)) => kind.to_owned(),
            (Some(method), _) => method.to_owned(),
            _ => "answer".to_owned(),
        }
    };
    messages.iter().map(name).collect()
}

async fn open(dialect: Dialect) -> (Wire, String) {
    let mut wire = agent_wire(agent());
    let session = wire.open(dialect).await;
    (wire, session)
}

#[tokio::test]
async fn v1_prompt_04_06_v2_prompt_03_05_v2_state_01_02_updates_in_order() {
    in_every_dialect(|dialect| async move {
        let (mut wire, session) = open(dialect).await;
        let (stop, seen) = wire.turn(dialect, &session, "say").await;
        assert_eq!(stop, "end_turn", "V1-PROMPT-05");
        let chunks = ["agent_thought_chunk", "agent_message_chunk", "agent_message_chunk", "usage_update"];
        let expect: Vec<&str> = match dialect {
            Dialect::V1 => chunks.into_iter().chain(["answer"]).collect(),
            Dialect::V2Seed => ["user_message"].into_iter().chain(chunks).chain(["answer"]).collect(),
            Dialect::V2 => {
                ["answer", "user_message", "state running"].into_iter().chain(chunks).chain(["state idle"]).collect()
            }
        };
        assert_eq!(kinds(&seen), expect, "{dialect}");
        assert_eq!(said(&seen), "one two");
        let ids: Vec<_> = updates(&seen, "agent_message_chunk").iter().map(|u| u["messageId"].clone()).collect();
        assert!(ids[0].is_string() && ids[0] == ids[1], "V1-PROMPT-11, V2-MSG-01");
        assert_ne!(updates(&seen, "agent_thought_chunk")[0]["messageId"], ids[0], "V2-MSG-05");
        assert_eq!(updates(&seen, "usage_update")[0]["cost"]["currency"], "USD", "V1-PROMPT-13, V2-PROMPT-10");
        if dialect == Dialect::V2 {
            let user = updates(&seen, "user_message")[0];
            assert_eq!(user["messageId"], seen[0]["result"]["messageId"], "V2-PROMPT-03");
        }
        // V1-PROMPT-14: the session goes on.
        assert_eq!(said(&wire.turn(dialect, &session, "hi").await.1), "you said hi");
    })
    .await;
}

#[tokio::test]
async fn v1_prompt_08_v2_prompt_06_07_every_stop_reason() {
    in_every_dialect(|dialect| async move {
        let (mut wire, session) = open(dialect).await;
        for (prompt, reason) in [("refuse", "refusal"), ("tokens", "max_tokens"), ("requests", "max_turn_requests")] {
            assert_eq!(wire.turn(dialect, &session, prompt).await.0, reason);
        }
        let custom = wire.turn(dialect, &session, "custom").await.0;
        assert_eq!(custom, if dialect == Dialect::V1 { "end_turn" } else { "_custom" }, "{dialect}");
    })
    .await;
}

#[tokio::test]
async fn v1_plan_01_02_v2_plan_01_02_04_plans() {
    in_every_dialect(|dialect| async move {
        let (mut wire, session) = open(dialect).await;
        let (_, seen) = wire.turn(dialect, &session, "plan").await;
        let (kind, key) = match dialect {
            Dialect::V1 => ("plan", ""),
            Dialect::V2Seed => ("plan_update", "id"),
            Dialect::V2 => ("plan_update", "planId"),
        };
        let plans = updates(&seen, kind);
        assert_eq!(plans.len(), 2, "{dialect}");
        let plan = if dialect == Dialect::V1 { plans[0] } else { &plans[0]["plan"] };
        assert_eq!(plan["entries"].as_array().unwrap().len(), 2);
        assert_eq!(plan["entries"][0], json!({"content": "a", "priority": "medium", "status": "in_progress"}));
        if !key.is_empty() {
            assert_eq!((&plan[key], &plan["type"]), (&json!("main"), &json!("items")), "{dialect}");
        }
    })
    .await;
}

#[tokio::test]
async fn v1_tool_01_to_08_v2_tool_01_to_08_v1_perm_01_v2_perm_a_tool_call_with_permission() {
    in_every_dialect(|dialect| async move {
        let (mut wire, session) = open(dialect).await;
        let id = wire.prompt(&session, "tool").await;
        let (ask, before) = wire.request("session/request_permission").await;
        let first = if dialect == Dialect::V1 { "tool_call" } else { "tool_call_update" };
        let call = updates(&before, first)[0];
        assert_eq!(
            (&call["toolCallId"], &call["title"], &call["kind"]),
            (&json!("call-1"), &json!("Edit x"), &json!("edit")),
            "V1-TOOL-01, V2-TOOL-01/02"
        );
        assert_eq!(call["status"], "pending");
        assert_eq!(call["locations"], json!([{"path": "/tmp/x", "line": 3}]), "V1-TOOL-08/10, V2-TOOL-12");
        assert_eq!(call["rawInput"], json!({"a": 1}));
        let diff = &call["content"][0];
        if dialect == Dialect::V2 {
            assert_eq!(diff["changes"][0]["operation"], "modify", "V2-TOOL-14");
            assert!(diff["patch"]["text"].as_str().unwrap().contains("-old\n+new"), "V2-TOOL-15: {diff}");
            assert!(kinds(&before).contains(&"state requires_action".to_owned()), "V2-STATE-03, V2-PERM-10");
            assert_eq!(ask["params"]["subject"]["toolCall"]["toolCallId"], "call-1");
        } else {
            assert_eq!((&diff["oldText"], &diff["newText"]), (&json!("old\n"), &json!("new\n")), "V2-TOOL-13");
            assert_eq!(ask["params"]["toolCall"]["toolCallId"], "call-1");
        }
        let options: Vec<_> = ask["params"]["options"].as_array().unwrap().iter().map(|o| o["kind"].clone()).collect();
        assert_eq!(options, ["allow_once", "reject_once"], "V1-PERM-08");
        wire.reply(&ask, json!({"outcome": {"outcome": "selected", "optionId": "allow"}})).await;
        let (stop, seen) = wire.turn_end(dialect, id).await;
        assert_eq!(stop, "end_turn");
        let changes = updates(&seen, "tool_call_update");
        assert_eq!(changes[0]["status"], "in_progress", "V1-TOOL-03, V2-TOOL-08");
        assert_eq!(changes.last().unwrap()["status"], "completed", "V1-TOOL-04");
        if dialect == Dialect::V1 {
            // Told from time to time, and at the latest with the end.
            let full = changes.last().unwrap()["content"].as_array().unwrap();
            assert!(full.len() >= 2 && full[0]["type"] == "diff", "version 1 gets whole arrays: {full:?}");
        } else {
            assert_eq!(updates(&seen, "tool_call_content_chunk").len(), 2, "V2-TOOL-06");
        }
    })
    .await;
}

#[tokio::test]
async fn v1_perm_05_v2_perm_04_only_an_offered_allow_is_approval() {
    in_every_dialect(|dialect| async move {
        for outcome in [
            json!({"outcome": "selected", "optionId": "reject"}),
            json!({"outcome": "selected", "optionId": "no-such-option"}),
            json!({"outcome": "cancelled"}),
            json!({"outcome": "_later", "optionId": "allow"}),
        ] {
            let (mut wire, session) = open(dialect).await;
            let id = wire.prompt(&session, "tool").await;
            let (ask, _) = wire.request("session/request_permission").await;
            wire.reply(&ask, json!({"outcome": outcome})).await;
            let (stop, seen) = wire.turn_end(dialect, id).await;
            let changes = updates(&seen, "tool_call_update");
            assert_eq!(
                (&*stop, &changes.last().unwrap()["status"]),
                ("end_turn", &json!("failed")),
                "V1-PROMPT-10: {outcome}"
            );
        }
    })
    .await;
}

#[tokio::test]
async fn v2_perm_05_06_08_a_command_in_question() {
    in_every_dialect(|dialect| async move {
        let (mut wire, session) = open(dialect).await;
        let id = wire.prompt(&session, "command").await;
        let (ask, _) = wire.request("session/request_permission").await;
        let params = &ask["params"];
        if dialect == Dialect::V2 {
            assert_eq!(params["subject"], json!({"type": "command", "command": "rm x", "cwd": "/tmp"}));
            assert_eq!(params["title"], "Run `rm x`?");
            assert_eq!(params["options"][1]["kind"], "_maybe");
        } else {
            assert_eq!(params["toolCall"]["kind"], "execute", "{params}");
            assert_eq!(params["options"][1]["kind"], if dialect == Dialect::V1 { "reject_once" } else { "_maybe" });
        }
        wire.reply(&ask, json!({"outcome": {"outcome": "selected", "optionId": "n"}})).await;
        assert_eq!(said(&wire.turn_end(dialect, id).await.1), "false Some(\"n\")");
    })
    .await;
}

/// A question about no tool call is one where the dialect has no other words; it ends like every call.
#[tokio::test]
async fn a_question_about_nothing_in_particular_leaves_nothing_open() {
    in_every_dialect(|dialect| async move {
        let (mut wire, session) = open(dialect).await;
        let mut asked = Vec::new();
        for (answer, status) in [("allow", "completed"), ("reject", "failed"), ("", "failed")] {
            let id = wire.prompt(&session, "question").await;
            let (ask, mut seen) = wire.request("session/request_permission").await;
            if answer.is_empty() {
                wire.notify("session/cancel", json!({"sessionId": session})).await;
            } else {
                wire.reply(&ask, json!({"outcome": {"outcome": "selected", "optionId": answer}})).await;
            }
            seen.extend(wire.turn_end(dialect, id).await.1);
            let calls: Vec<&Value> = seen
                .iter()
                .map(|message| &message["params"]["update"])
                .filter(|update| update.get("toolCallId").is_some())
                .collect();
            if dialect == Dialect::V2 {
                assert!(calls.is_empty() && ask["params"].get("toolCall").is_none(), "{calls:?} {ask}");
                continue;
            }
            let call = &ask["params"]["toolCall"]["toolCallId"];
            assert!(calls.iter().all(|update| update["toolCallId"] == *call), "{calls:?}");
            assert_eq!(
                calls.last().map(|update| &update["status"]),
                Some(&json!(status)),
                "{dialect} {answer}: {calls:?}"
            );
            assert!(!asked.contains(call), "each question is a call of its own");
            asked.push(call.clone());
        }
    })
    .await;
}

struct Notes(std::sync::Mutex<Vec<String>>);

impl Recorder for Notes {
    fn record<'r>(&'r self, update: &'r Update) -> Pin<Box<dyn Future<Output = Result<()>> + Send + 'r>> {
        let note = match update {
            Update::Chunk(chunk) => format!("{:?} {}", chunk.kind, chunk.content.as_text().unwrap_or_default()),
            Update::ToolCall(call) => format!("{} {:?}", call.tool_call_id, call.status.set()),
            Update::SessionInfo(info) => format!("title {:?}", info.title.set()),
            Update::Usage(_) => return Box::pin(async { Err(Error::internal("the disk is full")) }),
            other => format!("{other:?}"),
        };
        self.0.lock().unwrap().push(note);
        Box::pin(async { Ok(()) })
    }
}

/// What a session tells is seen by its recorder first, and what can't be recorded is not told.
#[tokio::test]
async fn everything_that_is_told_can_be_recorded() {
    in_every_dialect(|dialect| async move {
        let notes = Arc::new(Notes(Vec::new().into()));
        let recorder = Arc::clone(&notes);
        let agent = from_fn("recorded", move |turn: Turn, _| {
            let recorder = Arc::clone(&recorder);
            async move {
                turn.session().record_to(recorder);
                turn.think("hm").await?;
                turn.say("yes").await?;
                turn.update_unrecorded(Update::text(MessageKind::Agent, None, "passing")).await?;
                turn.session().title("Title").await?;
                drop(turn.tool("Left open").id("open-1").start().await?);
                turn.end_calls(ToolCallStatus::Cancelled).await?;
                assert!(turn.usage(1, 2, None).await.is_err());
                // What the turn leaves open is ended by the engine.
                drop(turn.tool("Left open").id("open-2").start().await?);
                Ok(StopReason::EndTurn)
            }
        });
        let mut wire = agent_wire(agent);
        let session = wire.open(dialect).await;
        let (_, seen) = wire.turn(dialect, &session, "go").await;
        assert_eq!(said(&seen), "yespassing");
        assert!(updates(&seen, "usage_update").is_empty(), "{seen:?}");
        let expect = [
            "Thought hm",
            "Agent yes",
            "title Some(\"Title\")",
            "open-1 Some(Pending)",
            "open-1 Some(Cancelled)",
            "open-2 Some(Pending)",
            "open-2 Some(Failed)",
        ];
        assert_eq!(*notes.0.lock().unwrap(), expect, "{dialect}");
    })
    .await;
}

#[tokio::test]
async fn a_turn_that_is_over_asks_nothing() {
    in_every_dialect(|dialect| async move {
        let (tell, mut told) = tokio::sync::mpsc::channel(1);
        let late = from_fn("late", move |turn: Turn, _| {
            let tell = tell.clone();
            async move {
                tokio::spawn(async move {
                    while turn.say("on").await.is_ok() {
                        tokio::task::yield_now().await;
                    }
                    let _ = tell.send(turn.ask(Ask::new("Really?")).await).await;
                });
                Ok(StopReason::EndTurn)
            }
        });
        let mut wire = agent_wire(late);
        let session = wire.open(dialect).await;
        wire.turn(dialect, &session, "go").await;
        let answer = tokio::time::timeout(SOON, told.recv()).await.expect("no question is left open");
        assert_eq!(answer, Some(Err(Error::TurnOver)), "{dialect}");
    })
    .await;
}

#[tokio::test]
async fn v1_cancel_05_06_07_v2_cancel_03_to_06_a_cancel_is_never_an_error() {
    in_every_dialect(|dialect| async move {
        let (mut wire, session) = open(dialect).await;
        let id = wire.prompt(&session, "wait").await;
        // Right behind the prompt: it must find its turn.
        wire.notify("session/cancel", json!({"sessionId": session})).await;
        let (stop, seen) = wire.turn_end(dialect, id).await;
        assert_eq!(stop, "cancelled", "{dialect}");
        assert!(said(&seen).ends_with("stopping"), "late updates come before the confirmation");
        // V1-CANCEL-09: nothing runs, an unknown session.
        wire.notify("session/cancel", json!({"sessionId": session})).await;
        wire.notify("session/cancel", json!({"sessionId": "nobody"})).await;
        assert_eq!(wire.turn(dialect, &session, "refuse").await.0, "refusal");
    })
    .await;
}

#[tokio::test]
async fn v1_cancel_04_v2_cancel_08_a_cancel_ends_the_wait_for_permission() {
    in_every_dialect(|dialect| async move {
        let (mut wire, session) = open(dialect).await;
        let id = wire.prompt(&session, "tool").await;
        let (ask, _) = wire.request("session/request_permission").await;
        wire.notify("session/cancel", json!({"sessionId": session})).await;
        let (stop, seen) = wire.turn_end(dialect, id).await;
        assert_eq!(stop, "cancelled");
        let withdrawn: Vec<_> = seen.iter().filter(|m| m["method"] == "$/cancel_request").collect();
        // Elsewhere it is the client's to answer what it cancelled.
        assert_eq!(withdrawn.len(), usize::from(dialect == Dialect::V2), "{withdrawn:?}");
        assert!(withdrawn.iter().all(|m| m["params"]["requestId"] == ask["id"]));
        let status = updates(&seen, "tool_call_update").last().unwrap()["status"].clone();
        assert!(status == "failed" || status == "cancelled", "{status}");
        // A late answer is harmless.
        wire.reply(&ask, json!({"outcome": {"outcome": "selected", "optionId": "allow"}})).await;
        assert_eq!(wire.turn(dialect, &session, "say").await.0, "end_turn");
    })
    .await;
}

#[tokio::test]
async fn a_handler_that_ignores_a_cancel_is_dropped() {
    in_every_dialect(|dialect| async move {
        let mut wire = agent_wire_with(Server::new(agent()).cancel_grace(Duration::from_millis(50)));
        let session = wire.open(dialect).await;
        let id = wire.prompt(&session, "deaf").await;
        wire.notify("session/cancel", json!({"sessionId": session})).await;
        let (stop, seen) = wire.turn_end(dialect, id).await;
        assert_eq!(stop, "cancelled");
        let last = updates(&seen, "tool_call_update").last().unwrap()["status"].clone();
        assert_eq!(last, if dialect == Dialect::V2 { "cancelled" } else { "failed" }, "open calls get a final status");
    })
    .await;
}

#[tokio::test]
async fn v1_cancel_14_withdrawing_the_prompt_cancels_the_turn() {
    for dialect in [Dialect::V1, Dialect::V2Seed] {
        let (mut wire, session) = open(dialect).await;
        let id = wire.prompt(&session, "wait").await;
        wire.notify("$/cancel_request", json!({"requestId": id})).await;
        assert_eq!(wire.turn_end(dialect, id).await.0, "cancelled");
    }
}

#[tokio::test]
async fn v1_tool_04_unfinished_calls_get_a_final_status() {
    in_every_dialect(|dialect| async move {
        let (mut wire, session) = open(dialect).await;
        let (_, seen) = wire.turn(dialect, &session, "unfinished").await;
        let last = updates(&seen, "tool_call_update").last().copied().cloned().unwrap();
        assert_eq!((&last["toolCallId"], &last["status"]), (&json!("open-1"), &json!("failed")));
    })
    .await;
}

#[tokio::test]
async fn v2_prompt_11_v1_err_04_errors_and_panics_end_the_turn_and_leak_nothing() {
    in_every_dialect(|dialect| async move {
        let (mut wire, session) = open(dialect).await;
        for (prompt, code) in [("fail", -32077), ("panic", -32603)] {
            let id = wire.prompt(&session, prompt).await;
            let error = if dialect == Dialect::V2 {
                let (stop, seen) = wire.turn_end(dialect, id).await;
                assert_eq!(stop, "error", "AMB2-09");
                assert!(seen[0]["result"]["messageId"].is_string(), "the prompt itself was accepted");
                updates(&seen, "state_update").last().unwrap()["error"].clone()
            } else {
                wire.answer(id).await.0["error"].clone()
            };
            assert_eq!(error["code"], code, "{dialect}: {error}");
            assert!(!error.to_string().contains("on purpose"), "{error}");
        }
        assert_eq!(wire.turn(dialect, &session, "say").await.0, "end_turn", "the session lives on");
    })
    .await;
}

#[tokio::test]
async fn v1_prompt_06_v1_tool_13_nothing_of_a_turn_comes_after_its_end() {
    in_every_dialect(|dialect| async move {
        let (mut wire, session) = open(dialect).await;
        wire.turn(dialect, &session, "late").await;
        wire.result("session/prompt", json!({"sessionId": session, "prompt": [{"type": "text", "text": "x"}]})).await;
        let id = wire.ask("_ping", json!({})).await;
        let (_, before) = wire.answer(id).await;
        assert!(!said(&before).contains("too late"), "{before:?}");
    })
    .await;
}

#[tokio::test]
async fn v1_prompt_15_v2_prompt_14_a_second_prompt_is_refused_or_queued() {
    in_every_dialect(|dialect| async move {
        let (mut wire, session) = open(dialect).await;
        let first = wire.prompt(&session, "wait").await;
        let second = wire.prompt(&session, "second").await;
        if dialect == Dialect::V2 {
            let third = wire.prompt(&session, "third").await;
            // V2-CANCEL-09: a cancel also covers what is not inserted yet.
            wire.notify("session/cancel", json!({"sessionId": session})).await;
            // The answers may come in any order; the first turn's end is last.
            let (stop, seen) = wire.turn_end(dialect, first).await;
            let answer = |id: i64| seen.iter().find(|m| m["id"] == json!(id)).unwrap();
            assert!(answer(first)["result"]["messageId"].is_string());
            for id in [second, third] {
                assert_eq!(answer(id)["error"]["code"], -32800, "V2-SESS-12");
            }
            assert_eq!(stop, "cancelled");
        } else {
            let (refused, _) = wire.answer(second).await;
            assert_eq!(refused["error"]["code"], -32600);
            assert_eq!(refused["error"]["data"]["reason"], "turn_in_progress");
            wire.notify("session/cancel", json!({"sessionId": session})).await;
            assert_eq!(wire.answer(first).await.0["result"]["stopReason"], "cancelled");
        }
    })
    .await;
}

#[tokio::test]
async fn v2_prompt_14_queued_prompts_run_in_order() {
    let (mut wire, session) = open(Dialect::V2).await;
    let ids =
        [wire.prompt(&session, "one").await, wire.prompt(&session, "two").await, wire.prompt(&session, "three").await];
    let mut all = Vec::new();
    for id in ids {
        all.extend(wire.turn_end(Dialect::V2, id).await.1);
    }
    assert_eq!(said(&all), "you said oneyou said twoyou said three");
    let idle = updates(&all, "state_update").iter().filter(|u| u["state"] == "idle").count();
    assert_eq!(idle, 3);
}

#[tokio::test]
async fn v1_prompt_17_sessions_work_side_by_side() {
    in_every_dialect(|dialect| async move {
        let (mut wire, one) = open(dialect).await;
        let two = wire.new_session().await;
        assert_ne!(one, two, "V1-SESS-04, V2-SESS-02");
        let waiting = wire.prompt(&one, "wait").await;
        assert_eq!(wire.turn(dialect, &two, "say").await.0, "end_turn", "V1-RPC-06");
        wire.notify("session/cancel", json!({"sessionId": one})).await;
        assert_eq!(wire.turn_end(dialect, waiting).await.0, "cancelled");
    })
    .await;
}

#[tokio::test]
async fn v1_prompt_02_03_v1_content_v2_prompt_02_13_prompt_blocks_are_checked() {
    in_every_dialect(|dialect| async move {
        let (mut wire, session) = open(dialect).await;
        let prompt = |blocks: Value| json!({"sessionId": session, "prompt": blocks});
        for block in [
            json!({"type": "image", "data": "AA==", "mimeType": "image/png"}),
            json!({"type": "audio", "data": "AA==", "mimeType": "audio/wav"}),
            json!({"type": "resource", "resource": {"uri": "file:///x", "text": "t"}}),
            json!({"type": "_own", "x": 1}),
            json!({"type": "text"}),
            json!({"text": "no type"}),
            json!(5),
        ] {
            assert_eq!(wire.code("session/prompt", prompt(json!([block]))).await, -32602, "{dialect}: {block}");
        }
        assert_eq!(wire.code("session/prompt", json!({"sessionId": session})).await, -32602, "V1-RPC-09");
        if dialect == Dialect::V2 {
            assert_eq!(wire.code("session/prompt", prompt(json!([]))).await, -32602, "V2-PROMPT-13");
        }
        // V1-INIT-10, V2-INIT-09, V1-CONTENT-01: text and links always.
        let link = json!([{"type": "text", "text": "say"}, {"type": "resource_link", "uri": "file:///x", "name": "x"}]);
        let id = wire.ask("session/prompt", prompt(link)).await;
        assert_eq!(wire.turn_end(dialect, id).await.0, "end_turn");
    })
    .await;
}

#[tokio::test]
async fn blocks_that_are_offered_are_taken() {
    in_every_dialect(|dialect| async move {
        let agent = from_fn("count", |turn: Turn, prompt: Vec<ContentBlock>| async move {
            turn.say(prompt.iter().map(ContentBlock::tag).collect::<Vec<_>>().join(",")).await?;
            Ok(StopReason::EndTurn)
        })
        .about(|about| {
            let can = &mut about.capabilities;
            (can.image, can.audio, can.embedded_context) = (true, true, true);
        });
        let mut wire = agent_wire(agent);
        let session = wire.open(dialect).await;
        let blocks = json!([
            {"type": "image", "data": "AA==", "mimeType": "image/png"}, {"type": "audio", "data": "AA==", "mimeType": "audio/wav"},
            {"resource": {"uri": "file:///x", "text": "t"}, "type": "resource"}, {"type": "resource", "resource": {"uri": "u", "blob": "AA=="}},
        ]);
        let id = wire.ask("session/prompt", json!({"sessionId": session, "prompt": blocks})).await;
        assert_eq!(said(&wire.turn_end(dialect, id).await.1), "image,audio,resource,resource", "V1-CONTENT-04/06");
    })
    .await;
}

#[tokio::test]
async fn v2_tool_16_17_one_tool_call_can_be_stopped() {
    let agent = from_fn("stoppable", |turn: Turn, _| async move {
        let tool = turn.tool("Long").id("long-1").stoppable().start().await?;
        tool.stopped().await;
        tool.update(ToolCallUpdate::default().status(ToolCallStatus::Cancelled)).await?;
        Ok(StopReason::EndTurn)
    });
    let mut wire = agent_wire(agent);
    let session = wire.open(Dialect::V2).await;
    let id = wire.prompt(&session, "go").await;
    loop {
        let update = wire.get().await["params"]["update"].clone();
        if update["toolCallId"] == "long-1" {
            assert!(update["capabilities"]["cancel"].is_object());
            break;
        }
    }
    let unknown = json!({"sessionId": session, "toolCallId": "nothing"});
    assert_eq!(wire.code("tool_call/cancel", unknown).await, -32602);
    wire.result("tool_call/cancel", json!({"sessionId": session, "toolCallId": "long-1"})).await;
    let (stop, seen) = wire.turn_end(Dialect::V2, id).await;
    assert_eq!((&*stop, &updates(&seen, "tool_call_update")[0]["status"]), ("end_turn", &json!("cancelled")));
    assert_eq!(
        wire.code("tool_call/cancel", json!({"sessionId": session, "toolCallId": "long-1"})).await,
        -32602,
        "finished"
    );
}

#[tokio::test]
async fn v1_ext_02_03_04_v2_ext_04_extensions() {
    struct Extended;
    struct Nothing;
    impl tieline::agent::Session for Nothing {
        async fn prompt(&self, turn: Turn, _: Vec<ContentBlock>) -> Result<StopReason> {
            let answer: Value = turn.client().call("_ask/client", &json!({"q": 1})).await?;
            turn.client().notify("_told", &answer).await?;
            turn.say(answer.to_string()).await?;
            Ok(StopReason::EndTurn)
        }
    }
    impl Agent for Extended {
        type Session = Nothing;
        fn about(&self) -> tieline::agent::About {
            tieline::agent::About::new("extended", "1")
        }
        async fn open(&self, _: tieline::agent::Opening) -> Result<tieline::agent::Opened<Nothing>> {
            Ok(tieline::agent::Opened::new(Nothing))
        }
        async fn extension(&self, method: String, params: Raw, _: tieline::agent::ClientHandle) -> Result<Raw> {
            if method == "_echo" { Ok(params) } else { Err(Error::method_not_found(&method)) }
        }
    }
    in_every_dialect(|dialect| async move {
        let mut wire = agent_wire(Extended);
        let session = wire.open(dialect).await;
        assert_eq!(
            wire.result("_echo", json!({"big": 9_007_199_254_740_993_u64})).await["big"],
            9_007_199_254_740_993_u64,
            "TR-ENV-05"
        );
        let unknown = wire.call("_none", json!({})).await;
        assert_eq!((&unknown["error"]["code"], &unknown["error"]["data"]["method"]), (&json!(-32601), &json!("_none")));
        wire.notify("_unknown_notification", json!({})).await;
        let id = wire.prompt(&session, "x").await;
        let (ask, _) = wire.request("_ask/client").await;
        wire.reply(&ask, json!({"a": 2})).await;
        let (_, seen) = wire.turn_end(dialect, id).await;
        assert!(seen.iter().any(|m| m["method"] == "_told" && m["params"]["a"] == 2));
    })
    .await;
}

#[tokio::test]
async fn unknown_variants_and_content_survive_in_version_2() {
    let agent = from_fn("raw", |turn: Turn, _| async move {
        let block = tieline::schema::from_json::<ContentBlock>(r#"{"type":"_chart","data":[1.50,2]}"#).unwrap();
        turn.say(block.clone()).await?;
        let chunk = ToolCallContentChunk { tool_call_id: "t".into(), content: block.into(), ..Default::default() };
        turn.update(ToolCallUpdate::new("t").title("T").kind(ToolKind::from("_dance"))).await?;
        turn.update(chunk).await?;
        let items = Items(vec![]);
        turn.update(ToolCallUpdate { content: Patch::Set(items), ..ToolCallUpdate::new("t") }).await?;
        Ok(StopReason::EndTurn)
    });
    let mut wire = agent_wire(agent);
    let session = wire.open(Dialect::V2).await;
    let (_, seen) = wire.turn(Dialect::V2, &session, "x").await;
    assert_eq!(
        updates(&seen, "agent_message_chunk")[0]["content"],
        json!({"type": "_chart", "data": [1.50, 2]}),
        "V2-EXT-02, V2-TOOL-10"
    );
    assert_eq!(updates(&seen, "tool_call_update")[0]["kind"], "_dance", "V2-TOOL-09");
    assert_eq!(updates(&seen, "tool_call_update")[1]["content"], json!([]), "V2-TOOL-05");
}

#[tokio::test]
async fn tr_bat_13_18_batches_with_turns() {
    for dialect in [Dialect::V1, Dialect::V2Seed] {
        let mut wire = agent_wire(agent());
        let hi = hello(dialect);
        wire.send(&json!([{"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hi}, {"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": {"cwd": "/tmp", "mcpServers": []}}])).await;
        let answers = wire.get().await;
        let session = answers[1]["result"]["sessionId"].as_str().unwrap().to_owned();
        wire.send(&json!([{"jsonrpc": "2.0", "id": 3, "method": "session/prompt", "params": {"sessionId": session, "prompt": [{"type": "text", "text": "say"}]}}, {"jsonrpc": "2.0", "id": 4, "method": "_none"}])).await;
        let mut before = Vec::new();
        let array = loop {
            let message = wire.get().await;
            if message.is_array() {
                break message;
            }
            before.push(message);
        };
        assert_eq!(said(&before), "one two", "updates stream at once");
        assert_eq!(
            (&array[0]["result"]["stopReason"], &array[1]["error"]["code"]),
            (&json!("end_turn"), &json!(-32601))
        );
    }
}

#[tokio::test]
async fn tr_end_03_04_the_end_of_input_lets_turns_finish_or_cancels_them() {
    for dialect in [Dialect::V1, Dialect::V2Seed] {
        let (wire, transport) = common::wire();
        let mut wire = wire;
        let served = tokio::spawn(Server::new(agent()).drain(Duration::from_millis(100)).serve(transport));
        let session = wire.open(dialect).await;
        let asking = wire.prompt(&session, "tool").await;
        wire.request("session/request_permission").await;
        let two = wire.new_session().await;
        let waiting = wire.prompt(&two, "wait").await;
        let three = wire.new_session().await;
        let quick = wire.prompt(&three, "say").await;
        wire.shut().await;
        let rest = wire.rest().await;
        let stop = |id: i64| {
            rest.iter()
                .find(|m| m["id"] == json!(id) && m.get("method").is_none())
                .map(|m| m["result"]["stopReason"].clone())
        };
        assert_eq!(stop(quick), Some(json!("end_turn")), "requests that were read are answered: {rest:?}");
        assert_eq!(stop(waiting), Some(json!("cancelled")));
        assert_eq!(stop(asking), Some(json!("end_turn")), "nobody can decide any more: not allowed");
        assert_eq!(tokio::time::timeout(SOON, served).await.unwrap().unwrap(), Ok(()));
    }
}

#[tokio::test]
async fn v2_prompt_12_a_prompt_that_is_not_accepted_was_never_there() {
    struct Full;
    impl tieline::agent::Session for Full {
        async fn accept(&self, message_id: &str, prompt: &[ContentBlock]) -> Result<()> {
            assert!(!message_id.is_empty());
            if prompt[0].as_text() == Some("too much") { Err(Error::wire(-32050, "the disk is full")) } else { Ok(()) }
        }
        async fn prompt(&self, turn: Turn, _: Vec<ContentBlock>) -> Result<StopReason> {
            turn.say("fine").await?;
            Ok(StopReason::EndTurn)
        }
    }
    struct Maker;
    impl Agent for Maker {
        type Session = Full;
        fn about(&self) -> tieline::agent::About {
            tieline::agent::About::new("full", "1")
        }
        async fn open(&self, _: tieline::agent::Opening) -> Result<tieline::agent::Opened<Full>> {
            Ok(tieline::agent::Opened::new(Full))
        }
    }
    in_every_dialect(|dialect| async move {
        let mut wire = agent_wire(Maker);
        let session = wire.open(dialect).await;
        let id = wire.prompt(&session, "too much").await;
        let (refused, before) = wire.answer(id).await;
        assert_eq!((&refused["error"]["code"], before.len()), (&json!(-32050), 0), "{dialect}: nothing else is told");
        assert_eq!(said(&wire.turn(dialect, &session, "x").await.1), "fine", "and the next prompt works");
    })
    .await;
}

/// The same transcript code serves every dialect: what the user said comes once, before anything that the agent does.
#[tokio::test]
async fn the_users_own_message_comes_first_and_once() {
    in_every_dialect(|dialect| async move {
        let agent = common::pair(
            dialect,
            from_fn("a", |turn, _| async move {
                turn.say("Yes?").await?;
                Ok(StopReason::EndTurn)
            }),
            tieline::client::Client::default(),
        )
        .await;
        let session = agent.open("/tmp").await.unwrap();
        let mut transcript = tieline::Transcript::new(dialect);
        for _ in 0..2 {
            let mut turn = session.prompt("Hello").await.unwrap();
            let mut first = None;
            while let Some(update) = turn.next().await {
                if first.is_none() && !matches!(update, Update::State(_)) {
                    first = Some(update.clone());
                }
                transcript.apply(&update);
            }
            let Some(Update::Message(own)) = first else { panic!("{dialect}: {first:?}") };
            assert!(own.kind == MessageKind::User && !own.message_id.is_empty(), "{dialect}: {own:?}");
            if let Some(id) = turn.message_id() {
                assert_eq!(id, own.message_id, "{dialect}");
            }
        }
        let said: Vec<String> = transcript
            .items()
            .iter()
            .map(|item| match item {
                tieline::schema::Item::Message(message) => format!("{:?} {}", message.kind, message.text()),
                other => panic!("{dialect}: {other:?}"),
            })
            .collect();
        assert_eq!(said, ["User Hello", "Agent Yes?", "User Hello", "Agent Yes?"], "{dialect}");
    })
    .await;
}

/// Some agents of version 1 say the prompt back, whole or in pieces; it is there already. Other words of the user are not touched.
#[tokio::test]
async fn an_echo_is_told_once() {
    let (mut wire, transport) = common::wire();
    let connecting = tokio::spawn(tieline::client::connect(transport));
    let (request, _) = wire.request("initialize").await;
    wire.reply(&request, json!({"protocolVersion": 1})).await;
    let agent = connecting.await.unwrap().unwrap();
    let session = common::open(&mut wire, &agent).await;
    let mut turn = session.prompt("Say hello").await.unwrap();
    let (prompt, _) = wire.request("session/prompt").await;
    for text in ["Say hello\n", "Say ", "hello", "(the hook adds this)"] {
        let update = json!({"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": text}});
        wire.notify("session/update", json!({"sessionId": "s", "update": update})).await;
    }
    wire.reply(&prompt, json!({"stopReason": "end_turn"})).await;
    common::own_message(&mut turn).await;
    let Some(Update::Chunk(chunk)) = turn.next().await else { panic!("what is no echo is told") };
    assert_eq!(chunk.content.as_text(), Some("(the hook adds this)"));
    assert!(turn.next().await.is_none());
}
