//! Our client with our agent in every dialect: turns, permission, files, terminals, forms, and the gates on both sides.

#![allow(clippy::unwrap_used)]

mod common;

use common::{SOON, in_every_dialect, pair};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tieline::agent::{Agent, Turn as AgentTurn, from_fn};
use tieline::client::{AgentHandle, Client, Handler};
use tieline::schema::{
    CreateTerminalRequest, ElicitAction, ElicitMode, ElicitRequest, ElicitResponse, ExitStatus, FormSchema, Item,
    ListRequest, McpHttp, McpServer, NewSessionRequest, ReadTextFileRequest, Replay, ResumeRequest, State,
    TerminalOutputResponse, TerminalRequest, WriteTextFileRequest,
};
use tieline::{
    ContentBlock, Dialect, Error, MessageKind, PermissionOutcome, PermissionRequest, Raw, Result, StopReason, ToolKind,
    Transcript, Update,
};
use tokio::sync::Notify;

/// A client that has one file, one terminal, and answers as it is told.
#[derive(Default, Clone)]
struct Desk {
    log: Arc<Mutex<Vec<String>>>,
    asked: Arc<Notify>,
    /// Permission is thought about for ever.
    undecided: bool,
    reject: bool,
}

impl Desk {
    fn note(&self, what: impl Into<String>) {
        self.log.lock().unwrap().push(what.into());
    }
}

impl Handler for Desk {
    async fn permission(&self, request: PermissionRequest) -> PermissionOutcome {
        self.note(format!("permission {}", request.title));
        self.asked.notify_one();
        if self.undecided {
            std::future::pending::<()>().await;
        }
        let wanted = request.options.iter().find(|option| option.kind.allows() != self.reject).unwrap();
        PermissionOutcome::selected(&*wanted.option_id)
    }

    async fn read_text_file(&self, request: ReadTextFileRequest) -> Result<String> {
        self.note(format!("read {} {:?} {:?}", request.path, request.line, request.limit));
        if request.path == "/missing" { Err(Error::not_found("/missing")) } else { Ok("unsaved text".into()) }
    }

    async fn write_text_file(&self, request: WriteTextFileRequest) -> Result<()> {
        self.note(format!("write {} {}", request.path, request.content));
        Ok(())
    }

    async fn create_terminal(&self, request: CreateTerminalRequest) -> Result<String> {
        self.note(format!("create {} {:?}", request.command, request.args));
        Ok(request.command)
    }

    async fn terminal_output(&self, request: TerminalRequest) -> Result<TerminalOutputResponse> {
        let exit_status =
            (request.terminal_id == "quick").then(|| ExitStatus { exit_code: Some(3), ..ExitStatus::default() });
        Ok(TerminalOutputResponse {
            output: "shown".into(),
            truncated: true,
            exit_status,
            ..TerminalOutputResponse::default()
        })
    }

    async fn wait_for_terminal_exit(&self, request: TerminalRequest) -> Result<ExitStatus> {
        if request.terminal_id == "slow" {
            std::future::pending::<()>().await;
        }
        Ok(ExitStatus { exit_code: Some(3), ..ExitStatus::default() })
    }

    async fn kill_terminal(&self, request: TerminalRequest) -> Result<()> {
        self.note(format!("kill {}", request.terminal_id));
        Ok(())
    }

    async fn release_terminal(&self, request: TerminalRequest) -> Result<()> {
        self.note(format!("release {}", request.terminal_id));
        self.asked.notify_one();
        Ok(())
    }

    async fn elicit(&self, request: ElicitRequest) -> Result<ElicitResponse> {
        self.note(format!("elicit {} {}", request.mode.name(), request.message));
        Ok(ElicitResponse { action: ElicitAction::Accept(BTreeMap::new()), ..ElicitResponse::default() })
    }

    async fn extension(&self, method: String, params: Raw, _: AgentHandle) -> Result<Raw> {
        if method == "_ping" { Ok(params) } else { Err(Error::method_not_found(&method)) }
    }
}

fn agent() -> impl Agent {
    from_fn("actor", act).remember()
}

async fn act(turn: AgentTurn, prompt: Vec<ContentBlock>) -> Result<StopReason> {
    let text = prompt[0].as_text().unwrap_or_default().to_owned();
    let client = turn.client();
    match &*text {
        "tool" => {
            let tool = turn.tool("Edit").id("c1").kind(ToolKind::Edit).start().await?;
            let allowed = tool.ask(Vec::new()).await?.is_allowed();
            tool.running().await?;
            tool.append("done").await?;
            if allowed { tool.complete().await? } else { tool.fail("no").await? }
        }
        "files" => {
            turn.say(client.read_text_file("/a/b", Some(2), Some(5)).await?).await?;
            client.write_text_file("/a/c", "text").await?;
            let missing = client.read_text_file("/missing", None, None).await.unwrap_err();
            turn.say(format!(" {:?}", missing.code())).await?;
            assert!(
                matches!(client.read_text_file("relative", None, None).await, Err(Error::Invalid(_))),
                "V1-TOOL-08"
            );
            assert!(matches!(client.read_text_file("/x", Some(0), None).await, Err(Error::Invalid(_))));
        }
        "terminal" => {
            let request = |command: &str| CreateTerminalRequest {
                command: command.into(),
                args: vec!["a".into()],
                ..CreateTerminalRequest::default()
            };
            let done = client.terminal(request("quick")).await?.finish(SOON).await?;
            turn.say(format!(
                "{} {} {:?} {}",
                done.output,
                done.truncated,
                done.exit.unwrap().exit_code,
                done.timed_out
            ))
            .await?;
            let late = client.terminal(request("slow")).await?.finish(Duration::from_millis(20)).await?;
            turn.say(format!(" {}", late.timed_out)).await?;
            drop(client.terminal(request("dropped")).await?);
        }
        "elicit" => {
            let answer = client.elicit("Name?", ElicitMode::Form(FormSchema::default())).await?;
            turn.say(format!("{:?}", answer.action)).await?;
        }
        "wait" => {
            turn.say("working").await?;
            turn.cancelled().await;
        }
        "fail" => return Err(Error::wire(-32077, "as told")),
        "ping" => {
            let pong: serde_json::Value = client.call("_ping", &serde_json::json!({"a": [1, 2]})).await?;
            turn.say(pong.to_string()).await?;
        }
        "flood" => {
            for n in 0..20_000 {
                turn.say(format!("{n},")).await?;
            }
        }
        other => turn.say(format!("echo {other}")).await?,
    }
    Ok(StopReason::EndTurn)
}

fn able(desk: Desk) -> Client<Desk> {
    Client::new("test", "1").handler(desk).offer(|can| {
        (can.fs_read, can.fs_write, can.terminal) = (true, true, true);
        (can.elicit_form, can.elicit_url) = (true, true);
    })
}

#[tokio::test]
async fn a_turn_ends_for_its_reader_in_every_dialect() {
    in_every_dialect(|dialect| async move {
        let agent = pair(dialect, agent(), able(Desk::default())).await;
        let session = agent.open("/tmp").await.unwrap();
        let mut turn = session.prompt("hi").await.unwrap();
        assert!(matches!(turn.stop(), Err(Error::Invalid(_))));
        let mut view = Transcript::new(dialect);
        while let Some(update) = turn.next().await {
            view.apply(&update);
        }
        assert_eq!(turn.stop(), Ok(StopReason::EndTurn));
        assert!(turn.next().await.is_none());
        assert!(session.state().is_idle());
        let (text, stop) = session.prompt("again").await.unwrap().text().await.unwrap();
        assert_eq!((&*text, stop), ("echo again", StopReason::EndTurn));
    })
    .await;
}

#[tokio::test]
async fn v1_perm_02_07_v2_perm_07_permission_is_the_handlers_decision() {
    in_every_dialect(|dialect| async move {
        for reject in [false, true] {
            let desk = Desk { reject, ..Desk::default() };
            let agent = pair(dialect, agent(), able(desk.clone())).await;
            let session = agent.open("/tmp").await.unwrap();
            let mut turn = session.prompt("tool").await.unwrap();
            let mut view = Transcript::new(dialect);
            while let Some(update) = turn.next().await {
                view.apply(&update);
            }
            let call = view.tool_call("c1").unwrap();
            assert_eq!(call.status.as_str(), if reject { "failed" } else { "completed" }, "{dialect}");
            assert_eq!(desk.log.lock().unwrap().len(), 1);
        }
    })
    .await;
}

#[tokio::test]
async fn v1_cancel_03_v1_perm_03_v2_perm_02_a_cancel_answers_open_questions() {
    in_every_dialect(|dialect| async move {
        let desk = Desk { undecided: true, ..Desk::default() };
        let agent = pair(dialect, agent(), able(desk.clone())).await;
        let session = agent.open("/tmp").await.unwrap();
        let mut turn = session.prompt("tool").await.unwrap();
        desk.asked.notified().await;
        assert_eq!(session.state(), State::RequiresAction);
        turn.cancel().await.unwrap();
        while turn.next().await.is_some() {}
        assert_eq!(turn.stop(), Ok(StopReason::Cancelled), "{dialect}");
    })
    .await;
}

#[tokio::test]
async fn v1_cancel_01_08_v2_cancel_01_07_cancel_right_behind_the_prompt() {
    in_every_dialect(|dialect| async move {
        let agent = pair(dialect, agent(), able(Desk::default())).await;
        let session = agent.open("/tmp").await.unwrap();
        let mut turn = session.prompt("wait").await.unwrap();
        session.cancel().await.unwrap();
        while turn.next().await.is_some() {}
        assert_eq!(turn.stop(), Ok(StopReason::Cancelled), "sent before returned");
    })
    .await;
}

#[tokio::test]
async fn dropping_a_turn_cancels_it_and_the_next_prompt_waits_for_that() {
    in_every_dialect(|dialect| async move {
        let agent = pair(dialect, agent(), able(Desk::default())).await;
        let session = agent.open("/tmp").await.unwrap();
        drop(session.prompt("wait").await.unwrap());
        let (text, stop) = session.prompt("next").await.unwrap().text().await.unwrap();
        assert_eq!((&*text, stop), ("echo next", StopReason::EndTurn), "{dialect}");
    })
    .await;
}

#[tokio::test]
async fn a_second_prompt_is_refused_or_queued_as_the_dialect_says() {
    in_every_dialect(|dialect| async move {
        let agent = pair(dialect, agent(), able(Desk::default())).await;
        let session = agent.open("/tmp").await.unwrap();
        let first = session.prompt("one").await.unwrap();
        let second = session.prompt("two").await;
        if dialect == Dialect::V2 {
            assert_eq!(first.text().await.unwrap().0, "echo one");
            assert_eq!(second.unwrap().text().await.unwrap().0, "echo two");
        } else {
            assert!(matches!(second, Err(Error::Invalid(_))), "{dialect}");
            assert_eq!(first.text().await.unwrap().0, "echo one");
        }
    })
    .await;
}

#[tokio::test]
async fn v1_err_06_errors_of_a_turn_reach_the_reader() {
    in_every_dialect(|dialect| async move {
        let agent = pair(dialect, agent(), able(Desk::default())).await;
        let session = agent.open("/tmp").await.unwrap();
        let error = session.prompt("fail").await.unwrap().text().await.unwrap_err();
        assert_eq!(error.code(), Some(-32077), "{dialect}: {error}");
        assert_eq!(session.prompt("x").await.unwrap().text().await.unwrap().0, "echo x");
    })
    .await;
}

#[tokio::test]
async fn v1_fs_01_09_v1_term_01_03_13_files_and_terminals_where_offered() {
    let desk = Desk::default();
    let agent_handle = pair(Dialect::V1, agent(), able(desk.clone())).await;
    let session = agent_handle.open("/tmp").await.unwrap();
    assert_eq!(session.prompt("files").await.unwrap().text().await.unwrap().0, "unsaved text Some(-32002)");
    assert_eq!(session.prompt("terminal").await.unwrap().text().await.unwrap().0, "shown true Some(3) false true");
    desk.asked.notified().await;
    tokio::time::timeout(SOON, async {
        while desk.log.lock().unwrap().iter().filter(|line| line.starts_with("release")).count() < 3 {
            desk.asked.notified().await;
        }
    })
    .await
    .expect("every terminal is released");
    let log = desk.log.lock().unwrap().clone();
    assert_eq!(log[0], "read /a/b Some(2) Some(5)");
    assert_eq!(log[1], "write /a/c text");
    let slow: Vec<_> = log.iter().filter(|line| line.contains("slow")).collect();
    assert_eq!(slow, ["create slow [\"a\"]", "kill slow", "release slow"], "V1-TERM-13");
    assert!(log.contains(&"release dropped".to_owned()), "V1-TERM-03");
    // Where it is not offered, the agent is told so without a call.
    in_every_dialect(|dialect| async move {
        let desk = Desk::default();
        let agent = pair(dialect, agent(), Client::new("bare", "1").handler(desk.clone())).await;
        let session = agent.open("/tmp").await.unwrap();
        for prompt in ["files", "terminal", "elicit"] {
            let error = session.prompt(prompt).await.unwrap().text().await.unwrap_err();
            assert_eq!(error.code(), Some(-32603), "{dialect} {prompt}: {error}");
        }
        assert!(desk.log.lock().unwrap().is_empty(), "{dialect}");
    })
    .await;
}

#[tokio::test]
async fn v1_elic_01_02_v2_elic_01_forms_where_offered() {
    for dialect in [Dialect::V1, Dialect::V2] {
        let desk = Desk::default();
        let agent = pair(dialect, agent(), able(desk.clone())).await;
        let session = agent.open("/tmp").await.unwrap();
        assert_eq!(session.prompt("elicit").await.unwrap().text().await.unwrap().0, "Accept({})");
        assert_eq!(*desk.log.lock().unwrap(), ["elicit form Name?"]);
    }
}

#[tokio::test]
async fn v1_ext_01_extension_calls_of_an_agent() {
    in_every_dialect(|dialect| async move {
        let agent = pair(dialect, agent(), able(Desk::default())).await;
        let session = agent.open("/tmp").await.unwrap();
        assert_eq!(session.prompt("ping").await.unwrap().text().await.unwrap().0, "{\"a\":[1,2]}");
        let error = agent.call::<Raw>("_nothing", &()).await.unwrap_err();
        assert_eq!(error.code(), Some(-32601));
        assert!(matches!(agent.call::<Raw>("no_underscore", &()).await, Err(Error::Invalid(_))), "V1-EXT-02");
        assert!(matches!(agent.notify("_list", &[1]).await, Err(Error::Invalid(_))));
        agent.notify("_fine", &()).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn the_client_sends_nothing_that_the_agent_did_not_offer() {
    in_every_dialect(|dialect| async move {
        let bare = from_fn("bare", |_, _| async { Ok(StopReason::EndTurn) });
        let agent = pair(dialect, bare, Client::default()).await;
        let refused =
            |result: Result<()>, what: &str| assert!(matches!(result, Err(Error::Unsupported(_))), "{dialect} {what}");
        refused(
            agent
                .open_with(NewSessionRequest {
                    cwd: "/".into(),
                    additional_directories: vec!["/a".into()],
                    ..NewSessionRequest::default()
                })
                .await
                .map(drop),
            "V1-SESS-20",
        );
        let http = McpServer::Http(McpHttp { name: "h".into(), url: "http://h".into(), ..McpHttp::default() });
        refused(
            agent
                .open_with(NewSessionRequest {
                    cwd: "/".into(),
                    mcp_servers: Some(vec![http]),
                    ..NewSessionRequest::default()
                })
                .await
                .map(drop),
            "V1-SESS-10",
        );
        refused(agent.delete("x").await, "V1-LIST-01");
        if dialect != Dialect::V2 {
            refused(agent.load("x", "/").await.map(drop), "V1-SESS-05, V2-SESS-03");
            refused(agent.resume("x", "/").await.map(drop), "V1-SESS-14");
            refused(agent.list(ListRequest::default()).await.map(drop), "V1-LIST-01");
            refused(agent.open("/").await.unwrap().close().await, "V1-SESS-17");
        }
        refused(agent.logout().await, "V1-AUTH-07, V2-AUTH-03");
        assert!(matches!(agent.login("x").await, Err(Error::Invalid(_))), "V1-AUTH-02");
        assert!(matches!(agent.open("relative").await, Err(Error::Invalid(_))), "V1-SESS-01");
        let session = agent.open("/").await.unwrap();
        let image = ContentBlock::Image(tieline::schema::Image {
            data: "AA==".into(),
            mime_type: "image/png".into(),
            ..Default::default()
        });
        refused(session.prompt(image).await.map(drop), "V1-PROMPT-02, V2-PROMPT-02");
        assert!(matches!(session.prompt(Vec::new()).await, Err(Error::Invalid(_))), "V2-PROMPT-13");
        assert!(matches!(session.set_mode("x").await, Err(Error::Unsupported(_))), "V1-MODE-02");
        assert!(matches!(session.set_option("x", "y").await, Err(Error::Invalid(_))));
    })
    .await;
}

#[tokio::test]
async fn load_resume_list_close_delete_from_the_client() {
    in_every_dialect(|dialect| async move {
        let agent = pair(dialect, agent(), able(Desk::default())).await;
        let session = agent.open("/tmp").await.unwrap();
        let id = session.id().clone();
        session.prompt("remember me").await.unwrap().text().await.unwrap();
        session.close().await.unwrap();
        let listed = agent.list(ListRequest::default()).await.unwrap();
        assert_eq!(listed.sessions[0].session_id, id);
        let session = agent.load(id.clone(), "/tmp").await.unwrap();
        let mut view = Transcript::new(dialect);
        while !view.items().iter().any(|item| format!("{item:?}").contains("echo remember me")) {
            let update = tokio::time::timeout(SOON, session.next()).await.expect("the history comes").unwrap();
            view.apply(&update);
        }
        assert!(format!("{:?}", view.items()).contains("\"remember me\""), "{dialect}: the user's words too");
        drop(session);
        let session = agent.resume(id.clone(), "/tmp").await.unwrap();
        assert_eq!(session.prompt("more").await.unwrap().text().await.unwrap().0, "echo more");
        agent.delete(id.clone()).await.unwrap();
        assert!(agent.list(ListRequest::default()).await.unwrap().sessions.is_empty());
        assert_eq!(agent.load(id, "/tmp").await.unwrap_err().code(), Some(-32002));
    })
    .await;
}

#[tokio::test]
async fn a_conversation_longer_than_the_budget_is_told_again() {
    in_every_dialect(|dialect| async move {
        let agent = pair(dialect, agent(), able(Desk::default()).budget(64 * 1024)).await;
        let session = agent.open("/tmp").await.unwrap();
        let session_id = session.id().clone();
        let long = "word ".repeat(40_000);
        for _ in 0..3 {
            session.prompt(long.as_str()).await.unwrap().text().await.unwrap();
        }
        session.close().await.unwrap();
        let mut told = 0;
        let request =
            ResumeRequest { session_id, cwd: "/tmp".into(), replay: Replay::Start, ..ResumeRequest::default() };
        // A client of version 1 that nobody knows is told in pieces, which may end within a word.
        let loaded = agent.resume_telling(request, |update| told += format!("{update:?}").matches('w').count());
        let session = tokio::time::timeout(SOON, loaded).await.expect("it ends").unwrap();
        assert!(told >= 6 * 40_000, "{dialect}: {told}");
        assert!(session.try_next().is_none(), "{dialect}: what was told is not there twice");
        assert_eq!(session.prompt("more").await.unwrap().text().await.unwrap().0, "echo more");
    })
    .await;
}

/// The task that hears and the reader that takes the answer read one queue, on two threads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_told_again_comes_in_its_order() {
    in_every_dialect(|dialect| async move {
        let agent = pair(dialect, agent(), able(Desk::default())).await;
        let session = agent.open("/tmp").await.unwrap();
        let session_id = session.id().clone();
        for number in 0..20 {
            session.prompt(format!("number {number}")).await.unwrap().text().await.unwrap();
        }
        session.close().await.unwrap();
        for round in 0..200 {
            let (session_id, replay) = (session_id.clone(), Replay::Start);
            let request = ResumeRequest { session_id, cwd: "/tmp".into(), replay, ..ResumeRequest::default() };
            let mut told = Transcript::new(dialect);
            let loaded = agent.resume_telling(request, |update| {
                told.apply(&update);
            });
            let session = tokio::time::timeout(SOON, loaded).await.expect("it ends").unwrap();
            let words = |item: &Item| match item {
                Item::Message(message) => Some(message.text()),
                _ => None,
            };
            let said: Vec<String> = told.items().iter().filter_map(words).collect();
            let expect: Vec<String> =
                (0..20).flat_map(|number| [format!("number {number}"), format!("echo number {number}")]).collect();
            assert_eq!(said, expect, "{dialect}, round {round}");
            session.close().await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn a_slow_reader_gets_everything_within_the_budget() {
    in_every_dialect(|dialect| async move {
        let agent = pair(dialect, agent(), able(Desk::default()).budget(64 * 1024)).await;
        let session = agent.open("/tmp").await.unwrap();
        let mut turn = session.prompt("flood").await.unwrap();
        let mut text = String::new();
        let mut updates = 0;
        while let Some(update) = turn.next().await {
            if let Update::Chunk(chunk) = update
                && chunk.kind == MessageKind::Agent
            {
                text.push_str(chunk.content.as_text().unwrap());
                updates += 1;
                if updates % 100 == 0 {
                    tokio::task::yield_now().await;
                }
            }
        }
        let expect = (0..20_000).map(|n| format!("{n},")).collect::<Vec<_>>().concat();
        assert_eq!(text, expect, "{dialect}: merged perhaps, but whole and in order");
    })
    .await;
}

#[tokio::test]
async fn tr_end_07_everything_fails_when_the_agent_goes() {
    in_every_dialect(|dialect| async move {
        let (near, far) = tieline::Transport::memory();
        let server = tokio::spawn(tieline::agent::serve(agent(), far));
        let agent = Client::default().protocol(tieline::Protocol::Only(dialect)).connect(near).await.unwrap();
        let session = agent.open("/tmp").await.unwrap();
        let mut turn = session.prompt("wait").await.unwrap();
        while let Some(update) = turn.next().await {
            if matches!(update, Update::Chunk(_)) {
                break;
            }
        }
        server.abort();
        while turn.next().await.is_some() {}
        assert!(matches!(turn.stop(), Err(Error::Closed(_))), "{dialect}: {:?}", turn.stop());
        assert!(matches!(agent.open("/tmp").await, Err(Error::Closed(_))));
        assert!(matches!(agent.closed().await, Error::Closed(_)));
        assert!(session.next().await.is_none());
    })
    .await;
}
