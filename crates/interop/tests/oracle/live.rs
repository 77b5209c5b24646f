//! A conversation between our client and our agent that uses every method, with the wire under the eyes of the official types.

use crate::samples::UPDATES;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tieline::agent::{About, Agent, Ask, ClientHandle, Opened, Opening, Session, Turn};
use tieline::client::{AgentHandle, Client, Handler, Prompt};
use tieline::rpc::Direction as Way;
use tieline::schema::{
    AgentAuth, CommandSubject, ConfigCategory, CreateTerminalRequest, ElicitAction, ElicitMode, ElicitRequest,
    ElicitResponse, ElicitValue, ExitStatus, ListRequest, LoginEnv, METHODS, Marker, McpHttp, McpStdio,
    NewSessionRequest, ReadTextFileRequest, SelectOption, SelectOptions, TerminalAuth, TerminalCapabilities,
    TerminalOutputResponse, TerminalRequest, TerminalUpdate, WriteTextFileRequest, from_json,
};
use tieline::{
    AuthMethod, Command, ConfigOption, ConfigValue, ContentBlock, Cost, Dialect, Diff, Error, McpServer, Patch,
    PermissionOptionKind, PermissionOutcome, PermissionRequest, Protocol, Raw, Result, Severity, StopReason,
    ToolCallContent, ToolKind, Transport, Update,
};
use tieline_interop::oracle::{Direction, check_wire};

struct Rich;
struct Talk;

const FORM: &str = r#"{"type":"object","title":"F","properties":{"a":{"type":"string","enum":["x"]},"n":{"type":"integer","minimum":1}},"required":["a"]}"#;

impl Agent for Rich {
    type Session = Talk;

    fn about(&self) -> About {
        let mut about = About::new("rich", "1").remember();
        let can = &mut about.capabilities;
        (can.image, can.audio, can.embedded_context, can.additional_directories) = (true, true, true, true);
        (can.mcp_stdio, can.mcp_http, can.logout) = (true, true, true);
        let agent = AgentAuth { method_id: "key".into(), name: "Key".into(), ..AgentAuth::default() };
        let (args, env) = (vec!["--login".into()], LoginEnv::default());
        let terminal =
            TerminalAuth { method_id: "tty".into(), name: "Tty".into(), args, env, ..TerminalAuth::default() };
        about.auth_methods = vec![AuthMethod::Agent(agent), AuthMethod::Terminal(terminal)];
        about
    }

    async fn open(&self, opening: Opening) -> Result<Opened<Talk>> {
        opening.session.title("Early").await?;
        let choice = |id: &str| SelectOption { value: id.into(), name: id.to_uppercase(), ..SelectOption::default() };
        let mut mode =
            ConfigOption::select("mode", "Mode", "a", SelectOptions::Flat(vec![choice("a"), choice("b"), choice("c")]));
        mode.category = Some(ConfigCategory::Mode);
        let options = vec![mode, ConfigOption::boolean("loud", "Loud", false)];
        Ok(Opened::new(Talk).options(options).commands(vec![Command::new("show", "Shows.").with_input("what")]))
    }

    async fn extension(&self, _: String, params: Raw, client: ClientHandle) -> Result<Raw> {
        client.notify("_test/heard", &params).await?;
        client.call("_test/back", &params).await
    }
}

impl Session for Talk {
    async fn prompt(&self, turn: Turn, prompt: Vec<ContentBlock>) -> Result<StopReason> {
        match prompt.first().and_then(ContentBlock::as_text).unwrap_or_default() {
            "updates" => {
                for (_, text, _) in UPDATES {
                    let update: Update = from_json(text).map_err(Error::internal)?;
                    // The engine tells the state, and it was given a list of modes.
                    if !matches!(update, Update::State(_)) {
                        turn.update(update).await?;
                    }
                }
                turn.session().notice(Severity::Warning, "careful").await?;
                turn.usage(1, 2, Some(Cost { amount: 0.5, currency: "EUR".into(), ..Default::default() })).await?;
            }
            "tools" => tools(&turn).await?,
            "ask" => ask(&turn).await?,
            "elicit" => {
                let client = turn.client();
                client.elicit("Fill in", ElicitMode::Form(from_json(FORM).map_err(Error::internal)?)).await?;
                let page = ElicitMode::Url { elicitation_id: "e".into(), url: "https://x".into() };
                client.elicit("Visit", page).await?;
                client.elicitation_complete("e").await?;
                // Nobody waits for the answer any more, so the question is withdrawn.
                let nothing = BTreeMap::<String, u8>::new();
                let slow = client.call::<Raw>("_test/slow", &nothing);
                let _ = tokio::time::timeout(Duration::from_millis(20), slow).await;
            }
            "files" if turn.dialect() == Dialect::V1 => files(&turn.client()).await?,
            "hang" => drop(turn.ask(Ask::new("hang")).await?),
            "stop" => stop(&turn).await?,
            "fail" => return Err(Error::wire(-32001, "Rate limited")),
            _ => {
                for block in prompt {
                    turn.say(block).await?;
                }
            }
        }
        Ok(StopReason::MaxTokens)
    }
}

async fn tools(turn: &Turn) -> Result<()> {
    let call = turn
        .tool("Edit")
        .name("edit")
        .kind(ToolKind::Edit)
        .at("/a", Some(3))
        .input(Raw::of(&[1]).map_err(Error::internal)?);
    let call = call.content(vec![ToolCallContent::Diff(Diff::of("/a", Some("x\n".into()), "y\n"))]).start().await?;
    call.running().await?;
    call.append("one").await?;
    call.append(ToolCallContent::Diff(Diff::of("/b", None, "new"))).await?;
    call.complete_with(vec!["all".into()], Some(Raw::of("out").map_err(Error::internal)?)).await?;
    turn.tool("Bad").start().await?.fail("no").await?;
    // Left open: the engine ends it.
    turn.tool("Open").start().await?.running().await
}

async fn ask(turn: &Turn) -> Result<()> {
    let command = CommandSubject { command: "ls".into(), cwd: "/w".into(), ..CommandSubject::default() };
    turn.ask(Ask::command(command).description("Lists")).await?;
    let odd = PermissionOptionKind::from("_maybe");
    turn.ask(Ask::new("Go on?").option("y", "Yes", PermissionOptionKind::AllowAlways).option("o", "Odd", odd)).await?;
    let call = turn.tool("Write").start().await?;
    call.ask(Vec::new()).await?;
    call.complete().await
}

async fn files(client: &ClientHandle) -> Result<()> {
    client.read_text_file("/a", Some(1), Some(2)).await?;
    client.write_text_file("/a", "x").await?;
    let request =
        CreateTerminalRequest { command: "ls".into(), args: vec!["-l".into()], ..CreateTerminalRequest::default() };
    let terminal = client.terminal(request.clone()).await?;
    terminal.kill().await?;
    terminal.finish(Duration::from_secs(5)).await?;
    // Dropped, which releases it.
    client.terminal(request).await.map(drop)
}

/// Waits until the client has stopped the call and the terminal, each on its own.
async fn stop(turn: &Turn) -> Result<()> {
    let call = turn.tool("Long").id("long").stoppable().start().await?;
    let stopped = turn.stoppable_terminal("screen");
    let capabilities = Patch::Set(TerminalCapabilities { cancel: Marker::Yes, ..Default::default() });
    turn.update(TerminalUpdate { terminal_id: "screen".into(), capabilities, ..TerminalUpdate::default() }).await?;
    call.stopped().await;
    stopped.cancelled().await;
    Ok(())
}

struct Host;

impl Handler for Host {
    async fn permission(&self, request: PermissionRequest) -> PermissionOutcome {
        if request.title == "hang" {
            return std::future::pending().await;
        }
        PermissionOutcome::selected(&*request.options[0].option_id)
    }

    async fn read_text_file(&self, _: ReadTextFileRequest) -> Result<String> {
        Ok("x\n".into())
    }

    async fn write_text_file(&self, _: WriteTextFileRequest) -> Result<()> {
        Ok(())
    }

    async fn create_terminal(&self, _: CreateTerminalRequest) -> Result<String> {
        Ok("t".into())
    }

    async fn terminal_output(&self, _: TerminalRequest) -> Result<TerminalOutputResponse> {
        let exit_status = Some(ExitStatus { exit_code: Some(1), ..ExitStatus::default() });
        Ok(TerminalOutputResponse { output: "x".into(), truncated: true, exit_status, ..Default::default() })
    }

    async fn wait_for_terminal_exit(&self, _: TerminalRequest) -> Result<ExitStatus> {
        Ok(ExitStatus { signal: Some("SIGKILL".into()), ..ExitStatus::default() })
    }

    async fn kill_terminal(&self, _: TerminalRequest) -> Result<()> {
        Ok(())
    }

    async fn release_terminal(&self, _: TerminalRequest) -> Result<()> {
        Ok(())
    }

    async fn elicit(&self, request: ElicitRequest) -> Result<ElicitResponse> {
        let content = match request.mode {
            ElicitMode::Form(_) => {
                [("a".into(), ElicitValue::Text("x".into())), ("n".into(), ElicitValue::Integer(1))].into()
            }
            _ => [].into(),
        };
        Ok(ElicitResponse { action: ElicitAction::Accept(content), meta: None })
    }

    async fn extension(&self, method: String, params: Raw, _: AgentHandle) -> Result<Raw> {
        if method == "_test/slow" { std::future::pending().await } else { Ok(params) }
    }
}

async fn converse(agent: &AgentHandle) -> Result<()> {
    let v1 = agent.dialect() == Dialect::V1;
    agent.login("key").await?;
    let stdio = McpStdio { name: "s".into(), command: "/bin/s".into(), ..McpStdio::default() };
    let http = McpHttp { name: "h".into(), url: "https://h".into(), ..McpHttp::default() };
    let session = agent
        .open_with(NewSessionRequest {
            cwd: "/w".into(),
            additional_directories: vec!["/x".into()],
            mcp_servers: Some(vec![McpServer::Stdio(stdio), McpServer::Http(http)]),
            ..Default::default()
        })
        .await?;
    session.set_mode("b").await?;
    session.set_option("loud", ConfigValue::Bool(true)).await?;
    if v1 {
        // Our own client uses the option where there is one; other clients don't.
        let params = format!(r#"{{"sessionId":"{}","modeId":"c"}}"#, session.id());
        let write = |out: &mut Vec<u8>| out.extend_from_slice(params.as_bytes());
        let answer = agent.peer().call("session/set_mode", write, |json| json.keep().map(drop)).await;
        answer.await.map_err(|e| Error::Invalid(e.to_string()))?;
    }
    for text in ["updates", "tools", "ask", "elicit", "files"] {
        let (_, reason) = session.prompt(text).await?.text().await?;
        assert_eq!(reason, StopReason::MaxTokens, "{text}");
    }
    let link = r#"{"type":"resource_link","uri":"file:///a","name":"a","size":3}"#;
    let image = r#"{"type":"image","data":"AA==","mimeType":"image/png"}"#;
    let blocks = [link, image].map(|text| from_json(text).unwrap_or_default());
    session.prompt(Prompt(blocks.to_vec())).await?.text().await?;
    let failed = session.prompt("fail").await?.text().await;
    assert_eq!(failed.map_err(|error| error.code()), Err(Some(-32001)));

    let mut turn = session.prompt("hang").await?;
    while !matches!(session.state(), tieline::schema::State::RequiresAction) {
        let _ = tokio::time::timeout(Duration::from_millis(10), turn.next()).await;
    }
    turn.cancel().await?;
    assert_eq!(turn.text().await?.1, StopReason::Cancelled);
    if !v1 {
        let mut turn = session.prompt("stop").await?;
        while !matches!(turn.next().await, Some(Update::Terminal(_))) {}
        session.cancel_tool_call("long").await?;
        session.cancel_terminal("screen").await?;
        turn.text().await?;
    }

    let sent = BTreeMap::from([("n".to_owned(), 1)]);
    let echoed: BTreeMap<String, u8> = agent.call("_test/there", &sent).await?;
    assert_eq!(echoed, sent);
    let id = session.id().clone();
    assert_eq!(agent.list(ListRequest::default()).await?.sessions.len(), 1);
    drop(agent.resume(id.clone(), "/w").await?);
    session.close().await?;
    let again = agent.load(id.clone(), "/w").await?;
    again.prompt("hi").await?.text().await?;
    again.close().await?;
    agent.delete(id).await?;
    agent.logout().await
}

#[tokio::test]
async fn every_method_and_update_passes_on_the_wire() {
    for dialect in [Dialect::V1, Dialect::V2] {
        let wire = Arc::new(Mutex::new(Vec::new()));
        let (ours, theirs) = Transport::memory();
        let tapped = Arc::clone(&wire);
        let ours = ours.tap(move |way, frame| {
            let way = if way == Way::Out { Direction::ToAgent } else { Direction::ToClient };
            let message: Value = serde_json::from_slice(frame).expect("JSON");
            tapped.lock().expect("no panic elsewhere").push((way, message));
        });
        let server = tokio::spawn(tieline::agent::serve(Rich, theirs));
        let client = Client::new("rich", "1").protocol(Protocol::Only(dialect)).handler(Host).offer(|can| {
            (can.fs_read, can.fs_write, can.terminal, can.terminal_auth) = (true, true, true, true);
            (can.elicit_form, can.elicit_url) = (true, true);
            (can.boolean_options, can.notices, can.compaction) = (true, true, true);
        });
        let talk = async {
            let agent = client.connect(ours).await?;
            converse(&agent).await?;
            agent.close().await;
            Ok::<_, Error>(())
        };
        let done = tokio::time::timeout(Duration::from_secs(30), talk).await;
        let wire = std::mem::take(&mut *wire.lock().expect("no panic elsewhere"));
        let tail = &wire[wire.len().saturating_sub(6)..];
        assert_eq!(done, Ok(Ok(())), "{dialect}: {tail:?}");
        server.await.expect("no panic").expect("a good end");

        assert_eq!(check_wire(dialect.version(), &wire), [""; 0], "{dialect}");
        let errors: Vec<i64> = wire.iter().filter_map(|(_, m)| m["error"]["code"].as_i64()).collect();
        // The slow question was withdrawn, and only version 1 answers a failed prompt with an error.
        assert_eq!(errors, if dialect == Dialect::V1 { vec![-32800, -32001] } else { vec![-32800] }, "{dialect}");
        for method in METHODS.iter().filter(|method| method.dialects.has(dialect)) {
            let told = wire.iter().any(|(_, message)| message["method"] == method.name);
            assert!(told, "{} was not on the wire of {dialect}", method.name);
        }
    }
}
