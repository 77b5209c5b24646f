//! `_meta` on every request, answer and notification, in both directions, in every dialect.

#![allow(clippy::unwrap_used)]

mod common;

use common::{in_every_dialect, pair};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tieline::agent::{About, Agent, Ask, ClientHandle, Opened, Opening, Resuming, Session, Turn};
use tieline::client::{Client, Handler, refuse};
use tieline::schema::{
    AgentAuth, ConfigCategory, CreateTerminalRequest, ElicitMode, ElicitRequest, ElicitResponse, ExitStatus,
    ListRequest, ListResponse, NewSessionRequest, ReadTextFileRequest, Replay, ResumeRequest, SelectOption,
    SelectOptions, TerminalOutputResponse, TerminalRequest, WriteTextFileRequest,
};
use tieline::{
    AuthMethod, ConfigOption, ConfigValue, ContentBlock, Dialect, Meta, PermissionOutcome, PermissionRequest, Raw,
    Result, SessionId, StopReason, ToolCallUpdate, Update, meta,
};

fn mark(what: &str) -> Meta {
    Meta(Raw::of(&json!({"trace": what})).unwrap())
}

fn mirrored(what: &str) -> Option<Meta> {
    Some(Meta(Raw::of(&json!({"back": {"trace": what}})).unwrap()))
}

/// What every handler here does: its answer carries what came with the request.
fn mirror() {
    if let Some(received) = meta::received() {
        meta::answer(Meta(Raw::of(&json!({"back": received.0.parse::<Value>().unwrap()})).unwrap()));
    }
}

/// What came where no answer goes back.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<Heard>>>);

/// A method, and the `_meta` that came with it.
type Heard = (&'static str, Option<Meta>);

impl Log {
    fn note(&self, what: &'static str, meta: Option<Meta>) {
        self.0.lock().unwrap().push((what, meta));
    }

    async fn has(&self, what: &'static str, meta: &Meta) {
        let entry = (what, Some(meta.clone()));
        let noted = async {
            while !self.0.lock().unwrap().contains(&entry) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        let noted = tokio::time::timeout(common::SOON, noted).await;
        assert!(noted.is_ok(), "{what} did not come with {meta:?}: {:?}", self.0.lock().unwrap());
    }
}

struct Mirror(Log);
struct Conversation(Log);

impl Agent for Mirror {
    type Session = Conversation;

    fn about(&self) -> About {
        let mut about = About::new("mirror", "1");
        about.meta = Some(mark("about"));
        let method = AgentAuth { method_id: "key".into(), name: "Key".into(), ..AgentAuth::default() };
        about.auth_methods = vec![AuthMethod::Agent(method)];
        let can = &mut about.capabilities;
        (can.load, can.list, can.resume, can.close, can.delete, can.logout) = (true, true, true, true, true, true);
        about
    }

    async fn initialized(&self, client: ClientHandle) {
        assert_eq!(client.info().unwrap().name, "c");
        self.0.note("initialized", meta::received());
    }

    async fn open(&self, opening: Opening) -> Result<Opened<Conversation>> {
        assert_eq!(opening.meta, meta::received());
        opening.session.with_meta(mark("outside")).title("A title").await?;
        mirror();
        let choice = |id: &str| SelectOption { value: id.into(), name: id.to_uppercase(), ..SelectOption::default() };
        let mut mode = ConfigOption::select("mode", "Mode", "a", SelectOptions::Flat(vec![choice("a"), choice("b")]));
        mode.category = Some(ConfigCategory::Mode);
        let options = vec![mode, ConfigOption::boolean("loud", "Loud", false)];
        Ok(Opened::new(Conversation(self.0.clone())).options(options))
    }

    async fn resume(&self, resuming: Resuming) -> Result<Opened<Conversation>> {
        self.open(resuming.into()).await
    }

    async fn list(&self, _: ListRequest) -> Result<Option<ListResponse>> {
        mirror();
        Ok(None)
    }

    async fn delete(&self, _: SessionId) -> Result<()> {
        mirror();
        Ok(())
    }

    async fn login(&self, _: String, client: ClientHandle) -> Result<()> {
        assert!(client.info().is_some());
        mirror();
        Ok(())
    }

    async fn logout(&self, _: ClientHandle) -> Result<()> {
        mirror();
        Ok(())
    }
}

impl Session for Conversation {
    async fn accept(&self, _: &str, _: &[ContentBlock]) -> Result<()> {
        mirror();
        Ok(())
    }

    async fn prompt(&self, turn: Turn, prompt: Vec<ContentBlock>) -> Result<StopReason> {
        mirror();
        match prompt[0].as_text().unwrap() {
            "cancel" => {
                turn.cancelled().await;
                self.0.note("cancel", turn.cancel_meta());
            }
            "stop" => {
                let tool = turn.tool("Slow").id("slow").stoppable().start().await?;
                tool.stopped().await;
                tool.complete().await?;
            }
            _ => ask_everything(&turn).await?,
        }
        Ok(StopReason::EndTurn)
    }

    async fn set_option(&self, _: String, _: ConfigValue) -> Result<Option<Vec<ConfigOption>>> {
        mirror();
        Ok(None)
    }

    async fn close(&self) {
        mirror();
        self.0.note("close", meta::received());
    }
}

/// Everything that an agent can ask and tell during a turn.
async fn ask_everything(turn: &Turn) -> Result<()> {
    turn.with_meta(mark("say")).say("words").await?;
    turn.with_meta(mark("plan")).plan(Vec::new()).await?;
    turn.with_meta(mark("tool")).tool("A tool").start().await?.complete().await?;
    turn.say("bare").await?;
    let asking = turn.with_meta(mark("permission"));
    asking.ask(Ask::about(ToolCallUpdate::new("call").title("Do it"))).await?;
    assert_eq!(asking.answer_meta(), mirrored("permission"));
    turn.ask(Ask::about(ToolCallUpdate::new("call")).meta(mark("ask"))).await?;
    let client = |what: &str| turn.client().with_meta(mark(what));
    if turn.client().capabilities().fs_read {
        let reading = client("read");
        reading.read_text_file("/x", None, None).await?;
        assert_eq!(reading.answer_meta(), mirrored("read"));
        let writing = client("write");
        writing.write_text_file("/x", "y").await?;
        assert_eq!(writing.answer_meta(), mirrored("write"));
        let running = client("terminal");
        let terminal = running.terminal(CreateTerminalRequest { command: "x".into(), ..Default::default() }).await?;
        assert_eq!(running.answer_meta(), mirrored("terminal"));
        assert_eq!(terminal.output().await?.meta, mirrored("terminal"));
        assert_eq!(terminal.wait().await?.meta, mirrored("terminal"));
        terminal.kill().await?;
        terminal.release().await?;
    }
    if turn.client().capabilities().elicit_url {
        let asking = client("elicit");
        let page = || ElicitMode::Url { elicitation_id: "e".into(), url: "https://example.org".into() };
        assert_eq!(asking.elicit("Look", page()).await?.meta, mirrored("elicit"));
        client("complete").elicitation_complete("e").await?;
    }
    Ok(())
}

struct Person(Log);

impl Handler for Person {
    async fn permission(&self, request: PermissionRequest) -> PermissionOutcome {
        assert_eq!(request.meta, meta::received());
        self.0.note("permission", request.meta);
        mirror();
        refuse(&request.options)
    }

    async fn read_text_file(&self, _: ReadTextFileRequest) -> Result<String> {
        mirror();
        Ok(String::new())
    }

    async fn write_text_file(&self, _: WriteTextFileRequest) -> Result<()> {
        mirror();
        Ok(())
    }

    async fn create_terminal(&self, _: CreateTerminalRequest) -> Result<String> {
        mirror();
        Ok("t".into())
    }

    async fn terminal_output(&self, _: TerminalRequest) -> Result<TerminalOutputResponse> {
        mirror();
        Ok(TerminalOutputResponse::default())
    }

    async fn wait_for_terminal_exit(&self, _: TerminalRequest) -> Result<ExitStatus> {
        mirror();
        Ok(ExitStatus::default())
    }

    async fn kill_terminal(&self, _: TerminalRequest) -> Result<()> {
        self.0.note("kill", meta::received());
        Ok(())
    }

    async fn release_terminal(&self, _: TerminalRequest) -> Result<()> {
        self.0.note("release", meta::received());
        Ok(())
    }

    async fn elicit(&self, _: ElicitRequest) -> Result<ElicitResponse> {
        mirror();
        Ok(ElicitResponse::default())
    }

    async fn elicitation_complete(&self, _: String) {
        self.0.note("complete", meta::received());
    }
}

#[tokio::test]
async fn everywhere() {
    in_every_dialect(|dialect| async move {
        let (heard, asked) = (Log::default(), Log::default());
        let client = Client::new("c", "1").handler(Person(asked.clone())).meta(mark("hello")).offer(|can| {
            (can.fs_read, can.fs_write, can.terminal, can.elicit_form, can.elicit_url) = (true, true, true, true, true);
        });
        let agent = pair(dialect, Mirror(heard.clone()), client).await;
        assert_eq!(agent.about().meta, Some(mark("about")), "{dialect}");
        heard.has("initialized", &mark("hello")).await;

        let handle = |what: &str| agent.with_meta(mark(what));
        let session = handle("open").open("/").await.unwrap();
        assert_eq!(session.meta().cloned(), mirrored("open"), "{dialect}");
        assert!(matches!(session.next().await, Some(Update::SessionInfo(_))), "{dialect}");
        assert_eq!(session.update_meta(), Some(mark("outside")), "{dialect}");
        let given = NewSessionRequest { cwd: "/".into(), meta: Some(mark("given")), ..Default::default() };
        let other = handle("not this").open_with(given).await.unwrap();
        assert_eq!(other.meta().cloned(), mirrored("given"), "{dialect}");
        for replay in [Replay::None, Replay::Start] {
            let request = ResumeRequest { session_id: "s".into(), cwd: "/".into(), replay, ..Default::default() };
            let resumed = handle("resume").resume_with(request).await.unwrap();
            assert_eq!(resumed.meta().cloned(), mirrored("resume"), "{dialect}");
        }
        let listing = handle("list");
        assert_eq!(listing.list(ListRequest::default()).await.unwrap().meta, mirrored("list"), "{dialect}");
        let deleting = handle("delete");
        deleting.delete("s").await.unwrap();
        assert_eq!(deleting.answer_meta(), mirrored("delete"), "{dialect}");
        let login = handle("login");
        login.login("key").await.unwrap();
        assert_eq!(login.answer_meta(), mirrored("login"), "{dialect}");
        login.logout().await.unwrap();
        assert_eq!(login.answer_meta(), mirrored("login"), "{dialect}: logout");

        let setting = session.with_meta(mark("option"));
        setting.set_option("loud", true).await.unwrap();
        assert_eq!(setting.answer_meta(), mirrored("option"), "{dialect}");
        let setting = session.with_meta(mark("mode"));
        setting.set_mode("b").await.unwrap();
        assert_eq!(setting.answer_meta(), mirrored("mode"), "{dialect}");

        let mut turn = session.with_meta(mark("prompt")).prompt("everything").await.unwrap();
        let mut beside = Vec::new();
        while let Some(update) = turn.next().await {
            match update {
                Update::State(state) if state.state.is_idle() => {
                    assert_eq!(state.meta, mirrored("prompt"), "{dialect}");
                }
                Update::Chunk(_) | Update::Plan(_) | Update::ToolCall(_) => beside.push(turn.update_meta()),
                _ => {}
            }
        }
        turn.stop().unwrap_or_else(|error| panic!("{dialect}: {error}"));
        assert_eq!(turn.meta(), mirrored("prompt"), "{dialect}");
        let said: Vec<_> =
            ["say", "plan", "tool", "tool"].map(|what| Some(mark(what))).into_iter().chain([None]).collect();
        assert_eq!(beside[..5], said, "{dialect}");
        asked.has("permission", &mark("permission")).await;
        asked.has("permission", &mark("ask")).await;
        if dialect == Dialect::V1 {
            asked.has("kill", &mark("terminal")).await;
            asked.has("release", &mark("terminal")).await;
        }
        if dialect != Dialect::V2Seed {
            asked.has("complete", &mark("complete")).await;
        }

        let turn = session.prompt("cancel").await.unwrap();
        session.with_meta(mark("cancel")).cancel().await.unwrap();
        assert_eq!(turn.text().await.unwrap().1, StopReason::Cancelled, "{dialect}");
        heard.has("cancel", &mark("cancel")).await;

        let closing = session.with_meta(mark("close"));
        closing.close().await.unwrap();
        heard.has("close", &mark("close")).await;
    })
    .await;
}

/// Only current v2 has words for stopping one thing.
#[tokio::test]
async fn stopping_one_thing() {
    let agent = pair(Dialect::V2, Mirror(Log::default()), Client::new("c", "1")).await;
    let session = agent.open("/").await.unwrap();
    let mut turn = session.prompt("stop").await.unwrap();
    while !matches!(turn.next().await.unwrap(), Update::ToolCall(_)) {}
    // The engine answers this by itself: what it got goes no further, and its answer has none.
    let stopping = session.with_meta(mark("stop"));
    stopping.cancel_tool_call("slow").await.unwrap();
    assert_eq!(stopping.answer_meta(), None);
    turn.text().await.unwrap();
}

/// Without a handler around it there is nothing to read, and nothing to set.
#[tokio::test]
async fn outside_a_handler() {
    assert_eq!(meta::received(), None);
    meta::answer(mark("nobody"));
    assert_eq!(meta::received(), None);
}
