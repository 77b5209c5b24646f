//! Rules that fit into a few lines each, on the wire.

#![allow(clippy::unwrap_used)]

mod common;

use common::{SOON, agent_wire, hello, in_every_dialect, open, pair, said, updates, wire};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tieline::agent::{Turn, from_fn};
use tieline::client::{Client, Handler};
use tieline::schema::{
    AgentAuth, ElicitMode, FormSchema, ListRequest, McpHttp, McpServer, NewSessionRequest, ResumeRequest, State,
    TerminalAuth,
};
use tieline::{
    AuthMethod, ContentBlock, Dialect, Error, PlanEntry, PlanStatus, Protocol, Raw, Result, Severity, StopReason,
    ToolCallContent, Transport, Update, agent, client,
};

async fn act(turn: Turn, prompt: Vec<ContentBlock>) -> Result<StopReason> {
    match prompt[0].as_text().unwrap_or_default() {
        "fail a tool" => {
            turn.tool("T").at("/a", Some(2)).start().await?.fail("the disk is full").await?;
        }
        "plans" => {
            turn.plan(vec![PlanEntry::new("a", PlanStatus::Pending), PlanEntry::new("b", PlanStatus::Pending)]).await?;
            turn.plan(vec![PlanEntry::new("c", PlanStatus::Completed)]).await?;
        }
        "early" => return Ok(StopReason::MaxTurnRequests),
        "notice" => turn.session().notice(Severity::Info, "Passing").await?,
        "form" => drop(turn.client().elicit("Name?", ElicitMode::Form(FormSchema::default())).await?),
        "form, cancelled" => {
            let client = turn.client();
            let asked = turn.unless_cancelled(client.elicit("Name?", ElicitMode::Form(FormSchema::default()))).await;
            assert!(matches!(asked, Err(Error::Cancelled)));
        }
        "pass on" => {
            for block in prompt.into_iter().skip(1) {
                turn.say(block).await?;
            }
        }
        text => turn.say(format!("echo {text}")).await?,
    }
    Ok(StopReason::EndTurn)
}

fn actor() -> impl agent::Agent {
    from_fn("actor", act).remember().about(|about| {
        let can = &mut about.capabilities;
        (can.image, can.embedded_context, can.mcp_http, can.additional_directories) = (true, true, true, true);
    })
}

#[tokio::test]
async fn v1_rpc_01_04_10_v1_err_01_03_07_every_answer_is_well_formed() {
    in_every_dialect(|dialect| async move {
        let mut wire = agent_wire(actor());
        let mut params = hello(dialect);
        params["surprise"] = json!({"unknown": [1]});
        wire.result("initialize", params).await;
        for (method, params, code) in [
            ("session/new", json!({"cwd": "/tmp", "mcpServers": [], "extra": 1}), None),
            ("session/new", json!({"cwd": "x"}), Some(-32602)),
            ("session/prompt", json!({}), Some(-32602)),
            (
                "session/prompt",
                json!({"sessionId": "x", "prompt": []}),
                Some(if dialect == Dialect::V2 { -32602 } else { -32002 }),
            ),
            ("no/such", json!({}), Some(-32601)),
        ] {
            let answer = wire.call(method, params.clone()).await;
            assert_eq!(answer["jsonrpc"], "2.0");
            assert_eq!(answer["error"]["code"].as_i64(), code, "{dialect} {method} {params}: {answer}");
            if code.is_some() {
                assert!(answer["error"]["message"].is_string() && answer.get("result").is_none());
                let length = answer.to_string().len();
                assert!(length < 400, "a short reason: {answer}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn v1_err_03_bad_input_is_never_echoed() {
    let mut wire = agent_wire(actor());
    let secret = "s3cret".repeat(2000);
    wire.line(&format!("{{\"jsonrpc\": {secret}")).await;
    assert!(wire.get().await.to_string().len() < 200);
    wire.result("initialize", hello(Dialect::V1)).await;
    let answer = wire.call("session/new", json!({"cwd": [secret], "mcpServers": []})).await;
    assert!(!answer.to_string().contains("s3cret"), "{answer}");
}

#[tokio::test]
async fn v1_init_06_11_12_v2_init_02_03_the_agreed_version_holds() {
    in_every_dialect(|dialect| async move {
        let agent = pair(dialect, actor(), Client::default()).await;
        assert_eq!((agent.dialect(), agent.about().protocol_version), (dialect, dialect.version()));
        let session = agent.open("/tmp").await.unwrap();
        for n in 0..3 {
            let (text, _) = session.prompt(format!("{n}")).await.unwrap().text().await.unwrap();
            assert_eq!(text, format!("echo {n}"), "new, prompt and updates work in {dialect}");
        }
    })
    .await;
}

#[tokio::test]
async fn v1_init_08_v2_init_07_every_mix_of_capabilities_works() {
    for (client, agent) in [
        (json!(null), json!(null)),
        (json!({}), json!({})),
        (
            json!({"fs": null, "terminal": "yes", "elicitation": 5}),
            json!({"session": {"prompt": null, "mcp": {"http": false}}}),
        ),
        (json!({"fs": {"readTextFile": 1}}), json!({"session": {"delete": null, "prompt": {"image": {}}}})),
    ] {
        let mut wire = agent_wire(actor());
        wire.result("initialize", json!({"protocolVersion": 1, "clientCapabilities": client})).await;
        let session = wire.new_session().await;
        assert_eq!(wire.turn(Dialect::V1, &session, "x").await.0, "end_turn");
        let (mut wire, transport) = common::wire();
        let connecting = tokio::spawn(Client::default().connect(transport));
        let (request, _) = wire.request("initialize").await;
        let info = json!({"name": "a", "version": "1"});
        wire.reply(&request, json!({"protocolVersion": 2, "info": info, "capabilities": agent})).await;
        let connected = connecting.await.unwrap().unwrap();
        let has = agent["session"].is_object();
        assert_eq!(connected.capabilities().session, has, "{agent}");
        assert_eq!(connected.capabilities().image, agent["session"]["prompt"]["image"].is_object());
        if !has {
            assert!(matches!(connected.open("/tmp").await, Err(Error::Unsupported(_))), "V2-INIT-10");
        }
    }
}

#[tokio::test]
async fn v1_auth_01_06_11_logins_are_offered_and_not_needed() {
    let methods = || {
        vec![
            AuthMethod::Agent(AgentAuth { method_id: "key".into(), name: "Key".into(), ..AgentAuth::default() }),
            AuthMethod::Terminal(TerminalAuth {
                method_id: "tty".into(),
                name: "TTY".into(),
                ..TerminalAuth::default()
            }),
        ]
    };
    in_every_dialect(|dialect| async move {
        let actor = from_fn("actor", act).about(|about| about.auth_methods = methods());
        let agent = pair(dialect, actor, Client::default().offer(|can| can.terminal_auth = true)).await;
        // A list of methods proves nothing: the session opens without a login.
        let session = agent.open("/tmp").await.unwrap();
        assert_eq!(session.prompt("x").await.unwrap().text().await.unwrap().0, "echo x");
        agent.login("key").await.unwrap();
        assert!(matches!(agent.login("nothing").await, Err(Error::Invalid(_))));
        if dialect != Dialect::V2Seed {
            assert_eq!(agent.auth_methods().len(), 2);
            assert!(matches!(agent.login("tty").await, Err(Error::Invalid(_))), "V1-AUTH-11");
        }
    })
    .await;
    let mut wire = agent_wire(from_fn("actor", act).about(|about| about.auth_methods = methods()));
    wire.result("initialize", hello(Dialect::V1)).await;
    assert_eq!(wire.code("authenticate", json!({"methodId": "tty"})).await, -32602, "and the agent refuses it too");
}

#[tokio::test]
async fn v1_sess_13_22_25_v1_list_04_07_what_the_client_sends_for_sessions() {
    in_every_dialect(|dialect| async move {
        let agent = pair(dialect, actor(), Client::default()).await;
        let own_tools =
            McpServer::Http(McpHttp { name: "mine".into(), url: "http://localhost:1".into(), ..McpHttp::default() });
        let request = NewSessionRequest {
            cwd: "/does/not/exist".into(),
            additional_directories: vec!["/a".into()],
            mcp_servers: Some(vec![own_tools]),
            ..NewSessionRequest::default()
        };
        let id = agent.open_with(request).await.unwrap().id().clone();
        let listed = agent.list(ListRequest::default()).await.unwrap();
        assert_eq!((&*listed.sessions[0].additional_directories[0], listed.next_cursor), ("/a", None));
        // The complete list each time: nothing is inferred from before.
        let again = ResumeRequest { session_id: id, cwd: "/does/not/exist".into(), ..ResumeRequest::default() };
        agent.resume_with(again).await.unwrap();
        assert!(
            agent.list(ListRequest::default()).await.unwrap().sessions[0].additional_directories.is_empty(),
            "{dialect}"
        );
    })
    .await;
}

#[tokio::test]
async fn v1_prompt_01_07_v2_prompt_01_v1_tool_09_10_v1_plan_04_small_turns() {
    in_every_dialect(|dialect| async move {
        let mut wire = agent_wire(actor());
        assert_eq!(
            wire.code("session/prompt", json!({"sessionId": "x", "prompt": [{"type": "text", "text": "x"}]})).await,
            -32600
        );
        let session = wire.open(dialect).await;
        assert_eq!(wire.turn(dialect, &session, "early").await.0, "max_turn_requests");
        let (_, seen) = wire.turn(dialect, &session, "fail a tool").await;
        let all = serde_json::to_string(&seen).unwrap();
        assert!(all.contains("the disk is full") && all.contains("\"/a\""), "{dialect}: {all}");
        let (_, seen) = wire.turn(dialect, &session, "plans").await;
        let kind = if dialect == Dialect::V1 { "plan" } else { "plan_update" };
        let sizes: Vec<usize> = updates(&seen, kind)
            .iter()
            .map(|u| if dialect == Dialect::V1 { u["entries"].clone() } else { u["plan"]["entries"].clone() })
            .map(|entries| entries.as_array().unwrap().len())
            .collect();
        assert_eq!(sizes, [2, 1], "entries come, go and change");
    })
    .await;
}

#[tokio::test]
async fn v1_notice_02_notices_are_not_told_again() {
    for dialect in [Dialect::V1, Dialect::V2] {
        let mut wire = agent_wire(actor());
        let session = wire.open(dialect).await;
        let (_, seen) = wire.turn(dialect, &session, "notice").await;
        assert_eq!(updates(&seen, "notice").len(), 1);
        let (method, params) = match dialect {
            Dialect::V2 => {
                ("session/resume", json!({"sessionId": session, "cwd": "/tmp", "replayFrom": {"type": "start"}}))
            }
            _ => ("session/load", json!({"sessionId": session, "cwd": "/tmp", "mcpServers": []})),
        };
        let id = wire.ask(method, params).await;
        let (_, told) = wire.answer(id).await;
        assert!(updates(&told, "notice").is_empty(), "{told:?}");
    }
}

#[tokio::test]
async fn v1_content_05_06_v1_ext_07_08_content_and_meta_go_through_untouched() {
    in_every_dialect(|dialect| async move {
        let mut wire = agent_wire(actor());
        let session = wire.open(dialect).await;
        let meta = json!({"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "x.example": {"n": 9_007_199_254_740_993_u64}});
        let blocks = [
            json!({"type": "image", "data": "AA==", "mimeType": "image/png", "_meta": meta}),
            json!({"type": "resource", "resource": {"uri": "file:///t", "text": "t", "_meta": meta}, "annotations": {"audience": ["user"], "priority": 0.5}}),
            json!({"type": "resource", "resource": {"uri": "file:///b", "blob": "AAEC", "mimeType": "a/b"}}),
            json!({"type": "resource_link", "uri": "u", "name": "n", "size": 5, "_meta": meta}),
        ];
        let mut prompt = vec![json!({"type": "text", "text": "pass on"})];
        prompt.extend(blocks.clone());
        let id = wire.ask("session/prompt", json!({"sessionId": session, "prompt": prompt})).await;
        let (_, seen) = wire.turn_end(dialect, id).await;
        let passed: Vec<Value> = updates(&seen, "agent_message_chunk").iter().map(|u| u["content"].clone()).collect();
        assert_eq!(passed, blocks, "{dialect}");
    })
    .await;
}

#[tokio::test]
async fn v1_err_05_v1_cancel_10_12_v2_cancel_10_withdrawn_requests_are_answered_once() {
    struct Slow(Arc<AtomicUsize>);
    impl Handler for Slow {
        async fn read_text_file(&self, _: tieline::schema::ReadTextFileRequest) -> Result<String> {
            self.0.fetch_add(1, Ordering::SeqCst);
            std::future::pending().await
        }
    }
    let (mut wire, transport) = wire();
    let calls = Arc::new(AtomicUsize::new(0));
    let handler = Slow(Arc::clone(&calls));
    let connecting = tokio::spawn(
        Client::default()
            .handler(handler)
            .offer(|can| can.fs_read = true)
            .protocol(Protocol::Only(Dialect::V1))
            .connect(transport),
    );
    let (request, _) = wire.request("initialize").await;
    wire.reply(&request, json!({"protocolVersion": 1})).await;
    let agent = connecting.await.unwrap().unwrap();
    let _session = open(&mut wire, &agent).await;
    let id = wire.ask("fs/read_text_file", json!({"sessionId": "s", "path": "/x"})).await;
    wire.notify("$/cancel_request", json!({"requestId": id})).await;
    let (answer, _) = wire.answer(id).await;
    assert_eq!((&answer["error"]["code"], &answer["error"]["message"]), (&json!(-32800), &json!("Request cancelled")));
    // Once more for an id that is done, and for one that never was: nothing comes.
    wire.notify("$/cancel_request", json!({"requestId": id})).await;
    wire.notify("$/cancel_request", json!({"requestId": 999})).await;
    assert_eq!(wire.code("_probe", json!({})).await, -32601);
}

#[tokio::test]
async fn v1_fs_08_v1_term_12_v1_elic_11_what_reaches_a_handler() {
    struct Files;
    impl Handler for Files {
        async fn read_text_file(&self, request: tieline::schema::ReadTextFileRequest) -> Result<String> {
            Ok(if request.limit == Some(0) { String::new() } else { "text".into() })
        }
        async fn create_terminal(&self, request: tieline::schema::CreateTerminalRequest) -> Result<String> {
            // Without a directory the session's is meant; that is the handler's to fill in.
            assert!(request.cwd.is_none_or(|cwd| cwd.starts_with('/')));
            Ok("t1".into())
        }
    }
    let (mut wire, transport) = wire();
    let client =
        Client::default().handler(Files).offer(|can| (can.fs_read, can.terminal, can.elicit_url) = (true, true, true));
    let connecting = tokio::spawn(client.protocol(Protocol::Only(Dialect::V1)).connect(transport));
    let (request, _) = wire.request("initialize").await;
    wire.reply(&request, json!({"protocolVersion": 1})).await;
    let agent = connecting.await.unwrap().unwrap();
    let _session = open(&mut wire, &agent).await;
    assert_eq!(wire.code("fs/read_text_file", json!({"sessionId": "s", "path": "/x", "line": 0})).await, -32602);
    assert_eq!(
        wire.result("fs/read_text_file", json!({"sessionId": "s", "path": "/x", "limit": 0})).await["content"],
        ""
    );
    assert_eq!(wire.code("terminal/create", json!({"sessionId": "s", "command": "ls", "cwd": "here"})).await, -32602);
    assert_eq!(wire.result("terminal/create", json!({"sessionId": "s", "command": "ls"})).await["terminalId"], "t1");
    wire.notify("elicitation/complete", json!({"elicitationId": "never heard of"})).await;
    assert_eq!(wire.code("_probe", json!({})).await, -32601, "and the connection lives");
}

#[tokio::test]
async fn v2_elic_02_04_forms_and_their_withdrawal() {
    for dialect in [Dialect::V1, Dialect::V2] {
        let mut wire = agent_wire(actor());
        let session = wire.open(dialect).await;
        let id = wire.prompt(&session, "form, cancelled").await;
        let (form, _) = wire.request("elicitation/create").await;
        assert_eq!(form["params"]["requestedSchema"]["type"], "object", "V2-ELIC-02: {form}");
        assert!(form["params"]["requestedSchema"]["properties"].is_object());
        wire.notify("session/cancel", json!({"sessionId": session})).await;
        let (stop, seen) = wire.turn_end(dialect, id).await;
        assert_eq!(stop, "cancelled");
        let withdrawn = |m: &Value| m["method"] == "$/cancel_request" && m["params"]["requestId"] == form["id"];
        assert_eq!(seen.iter().any(withdrawn), dialect == Dialect::V2, "V2-ELIC-04");
    }
}

#[tokio::test]
async fn v2_sess_09_a_new_session_is_idle_until_told_otherwise() {
    in_every_dialect(|dialect| async move {
        let agent = pair(dialect, actor(), Client::default()).await;
        assert!(agent.open("/tmp").await.unwrap().state().is_idle());
    })
    .await;
    // And what was told before the answer stands.
    let (mut wire, transport) = wire();
    let connecting = tokio::spawn(Client::default().protocol(Protocol::Only(Dialect::V2)).connect(transport));
    let (request, _) = wire.request("initialize").await;
    wire.reply(
        &request,
        json!({"protocolVersion": 2, "info": {"name": "a", "version": "1"}, "capabilities": {"session": {}}}),
    )
    .await;
    let agent = connecting.await.unwrap().unwrap();
    let opening = tokio::spawn(async move { agent.open("/tmp").await });
    let (request, _) = wire.request("session/new").await;
    wire.notify(
        "session/update",
        json!({"sessionId": "s", "update": {"sessionUpdate": "state_update", "state": "running"}}),
    )
    .await;
    wire.reply(&request, json!({"sessionId": "s"})).await;
    assert_eq!(opening.await.unwrap().unwrap().state(), State::Running);
}

#[tokio::test]
async fn v2_ext_01_05_v2_perm_01_v1_ext_01_nothing_of_ours_outside_meta() {
    // Every key that our agent writes in a turn is one of the protocol's; the oracle tests check the same with the
    // official types.
    let known = ["jsonrpc", "id", "method", "params", "result", "sessionId", "update", "messageId", "stopReason"];
    in_every_dialect(|dialect| async move {
        let mut wire = agent_wire(actor());
        let session = wire.open(dialect).await;
        let (_, seen) = wire.turn(dialect, &session, "x").await;
        for message in &seen {
            let mut keys: Vec<&String> = message.as_object().unwrap().keys().collect();
            keys.extend(message["params"].as_object().into_iter().flat_map(|params| params.keys()));
            keys.extend(message["result"].as_object().into_iter().flat_map(|result| result.keys()));
            assert!(keys.iter().all(|key| known.contains(&key.as_str())), "{dialect}: {message}");
        }
        assert_eq!(said(&seen), "echo x");
    })
    .await;
}

#[tokio::test]
async fn v2_batch_01_02_batches_are_taken_and_lifecycle_calls_never_sent_in_one() {
    in_every_dialect(|dialect| async move {
        // Our client never puts a call into an array by itself.
        let (near, far) = Transport::memory();
        let near = near.tap(|_, frame| assert!(!frame.starts_with(b"["), "{}", String::from_utf8_lossy(frame)));
        tokio::spawn(agent::serve(actor(), far));
        let agent = Client::default().protocol(Protocol::Only(dialect)).connect(near).await.unwrap();
        let session = agent.open("/tmp").await.unwrap();
        session.prompt("x").await.unwrap().text().await.unwrap();
        // And our agent takes one from whoever sends it.
        let mut wire = agent_wire(actor());
        wire.result("initialize", hello(dialect)).await;
        wire.line(r#"[{"jsonrpc":"2.0","id":"a","method":"session/list"},{"jsonrpc":"2.0","method":"_n"},7]"#).await;
        let array = wire.get().await;
        assert_eq!(
            (array.as_array().unwrap().len(), &array[0]["id"], &array[1]["error"]["code"]),
            (2, &json!("a"), &json!(-32600))
        );
    })
    .await;
}

#[tokio::test]
async fn tr_cust_01_02_03_tr_stdio_02_09_any_two_way_channel_will_do() {
    in_every_dialect(|dialect| async move {
        let (near, far) = tokio::net::UnixStream::pair().unwrap();
        tokio::spawn(agent::serve(actor(), Transport::stream(far)));
        let agent = Client::default().protocol(Protocol::Only(dialect)).connect(Transport::stream(near)).await.unwrap();
        let session = agent.open("/tmp").await.unwrap();
        let text = "UTF-8: é 😀 \u{0} \u{1b}[31m \u{202e}";
        let (back, _) = session.prompt(text).await.unwrap().text().await.unwrap();
        assert_eq!(back, format!("echo {text}"), "{dialect}");
    })
    .await;
}

#[tokio::test]
async fn tr_cl_04_tr_stdio_05_the_client_keeps_its_framing_and_sends_only_messages() {
    use tieline::rpc::framing::{Decoder, Framing, Step};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let (near, mut far) = tokio::io::duplex(1 << 16);
    let connecting = tokio::spawn(
        Client::default()
            .framing(Framing::Headers)
            .protocol(Protocol::Only(Dialect::V1))
            .connect(Transport::stream(near)),
    );
    let mut decoder = Decoder::new(Some(Framing::Headers), 1 << 20);
    let request: Value = loop {
        match decoder.step() {
            Step::Need => assert!(far.read_buf(decoder.space()).await.unwrap() > 0),
            Step::Frame(at) => break serde_json::from_slice(&decoder.bytes()[at]).unwrap(),
            other => panic!("{other:?}"),
        }
    };
    let body = json!({"jsonrpc": "2.0", "id": request["id"], "result": {"protocolVersion": 1}}).to_string();
    far.write_all(format!("Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes()).await.unwrap();
    let agent = tokio::time::timeout(SOON, connecting).await.unwrap().unwrap().unwrap();
    assert_eq!(agent.dialect(), Dialect::V1);
}

#[tokio::test]
async fn v1_term_11_a_terminal_is_embedded_before_its_release() {
    struct One;
    impl Handler for One {
        async fn create_terminal(&self, _: tieline::schema::CreateTerminalRequest) -> Result<String> {
            Ok("t1".into())
        }
        async fn release_terminal(&self, _: tieline::schema::TerminalRequest) -> Result<()> {
            Ok(())
        }
    }
    let actor = from_fn("terminal", |turn: Turn, _| async move {
        let request = tieline::schema::CreateTerminalRequest { command: "ls".into(), ..Default::default() };
        let terminal = turn.client().terminal(request).await?;
        let tool = turn.tool("Run ls").content(vec![terminal.as_content()]).start().await?;
        terminal.release().await?;
        tool.complete().await?;
        Ok(StopReason::EndTurn)
    });
    let agent = pair(Dialect::V1, actor, Client::default().handler(One).offer(|can| can.terminal = true)).await;
    let session = agent.open("/tmp").await.unwrap();
    let mut turn = session.prompt("go").await.unwrap();
    common::own_message(&mut turn).await;
    let Some(Update::ToolCall(call)) = turn.next().await else { panic!("the call comes first") };
    assert!(matches!(&call.content.set().unwrap()[0], ToolCallContent::Terminal(t) if t.terminal_id == "t1"));
    while turn.next().await.is_some() {}
}

#[tokio::test]
async fn unused_raw_results_are_still_json() {
    let agent = pair(Dialect::V1, actor(), Client::default()).await;
    assert_eq!(agent.call::<Raw>("_x", &json!({})).await.unwrap_err().code(), Some(-32601));
    let error = client::spawn(Vec::<String>::new()).await.unwrap_err();
    assert!(matches!(error, Error::Start(_)), "{error}");
}
