//! Scenarios for agents: each plays a client for one fresh process, and asserts checks along the way.

use crate::peer::{Choice, Peer, Settings, Stop, Turn, hello};
use crate::probes;
use crate::sheet::{Finding, Log, Sheet, Verdict};
use crate::table::{self, Check, Kind, Level};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tieline_schema::{Dialect, Dialects};
use tieline_trace::Side;
use tokio::sync::Semaphore;

#[allow(clippy::too_many_arguments)]
const fn check(
    id: &'static str,
    level: Level,
    dialects: Dialects,
    rules: &'static str,
    says: &'static str,
    source: &'static str,
    fix: &'static str,
) -> Check {
    Check { id, side: Some(Side::Agent), kind: Kind::Scenario, level, dialects, rules, says, source, fix }
}

use Level::{Must, Note, Should};
const ALL: Dialects = Dialects::ALL;
const INIT: &str = "ACP: initialization";
const SETUP: &str = "ACP: session setup";
const TURN: &str = "ACP: prompt turn";
const CANCEL: &str = "ACP: cancellation";
const PERMISSION: &str = "ACP: requesting permission";
const LIST: &str = "ACP: session list, delete, close";

/// What the scenarios for agents assert.
#[rustfmt::skip]
pub const CHECKS: &[Check] = &[
    check("agent-answers", Must, ALL, "V1-RPC-02", "Every request is answered.", "JSON-RPC 2.0", "Answer each request, also if it fails."),
    check("agent-lives", Must, ALL, "TR-ENV-01", "The agent does not end before its input does.", "ACP: transports", "Don't exit on a message that you can't use."),
    check("hello-echo", Must, ALL, "V1-INIT-03 V2-INIT-03", "A version that the agent speaks is answered as it was asked.", INIT, "Answer with the version of the request if you speak it."),
    check("hello-newer", Must, ALL, "V1-INIT-04 V2-INIT-04", "A version that the agent does not speak is answered with the newest that it does.", INIT, "Answer with your newest version, not with an error."),
    check("hello-broken", Must, ALL, "V1-INIT-09", "A version that is no number is refused.", INIT, "Answer -32602."),
    check("hello-needed", Note, ALL, "V1-INIT-15", "Requests before the hello are refused.", INIT, "Answer -32600 until `initialize` was answered."),
    check("turn-ends", Must, ALL, "V1-PROMPT-05 V2-PROMPT-04", "A prompt that needs no tool ends by itself.", TURN, "Answer the prompt (version 2: tell `idle`) when the model is done."),
    check("turn-said", Must, ALL, "V1-PROMPT-04", "What the model says is reported as `session/update`.", TURN, "Send `agent_message_chunk` while the model speaks."),
    check("turn-again", Must, ALL, "V1-PROMPT-14", "A session takes another prompt after a turn.", TURN, "Keep the session open."),
    check("turn-busy", Must, ALL, "V1-RPC-06", "Other requests are answered while a turn runs.", "JSON-RPC 2.0", "Don't read the next message only after the turn."),
    check("sessions-differ", Must, ALL, "V1-SESS-04 V2-SESS-02", "Sessions have ids of their own.", SETUP, "Make a new id for each session."),
    check("sessions-parallel", Must, ALL, "V1-PROMPT-17 V1-SESS-04", "Two sessions work at the same time.", SETUP, "Keep the turns of sessions apart."),
    check("cancel-answered", Must, ALL, "V1-CANCEL-05 V2-CANCEL-04", "A cancelled turn ends with `cancelled`.", CANCEL, "Stop, flush, and answer `cancelled` (version 2: `idle` with `cancelled`); never an error."),
    check("cancel-asked", Must, ALL, "V1-CANCEL-05 V1-CANCEL-06", "A turn that is cancelled while it asks ends with `cancelled`.", CANCEL, "Read `cancelled` of a question as the end of the turn."),
    check("cancel-then", Must, ALL, "V1-PROMPT-14", "A session takes another prompt after a cancel.", CANCEL, "Let go of the turn, not of the session."),
    check("cancel-idle", Should, ALL, "V1-CANCEL-09", "A cancel while nothing runs does not touch the next turn.", CANCEL, "Forget a cancel that finds no turn."),
    check("permission-allow", Must, ALL, "V1-PERM-01", "What was allowed is done.", PERMISSION, "Go on after the answer."),
    check("permission-reject", Must, ALL, "V1-PERM-05", "What was rejected is not done.", PERMISSION, "Run a tool only after an option that allows it."),
    check("permission-reject-turn", Must, ALL, "V1-PROMPT-10", "A rejected tool is no error of the prompt.", PERMISSION, "Tell the model, and go on; or end the turn with a stop reason."),
    check("permission-unknown", Should, ALL, "V1-PERM-05 V2-PERM-04", "An option that was never offered is no yes.", PERMISSION, "Read unknown options as a no."),
    check("tool-told", Should, ALL, "V1-TOOL-01 V2-TOOL-01", "A tool that is used is reported.", "ACP: tool calls", "Send `tool_call` (version 2: `tool_call_update`) as soon as the model asks for it."),
    check("tool-fails", Must, ALL, "V1-PROMPT-10", "A tool that fails is no error of the prompt.", "ACP: tool calls", "Mark the call as failed, tell the model, and go on."),
    check("content-link", Must, ALL, "V1-INIT-10 V2-INIT-09", "Links to resources are taken in prompts, whatever is offered.", "ACP: content", "Take `resource_link`."),
    check("content-refused", Should, Dialects::V2, "V2-PROMPT-02", "Content that the agent does not take is refused with -32602.", "ACP v2: prompt lifecycle", "Answer -32602."),
    check("content-refused-v1", Note, Dialects::OLD, "V1-PROMPT-03", "Content that the agent does not take is refused with -32602.", "ACP: content", "Answer -32602."),
    check("content-large", Should, ALL, "TR-STDIO-13", "A prompt of one MiB is taken.", "ACP: transports", "Read lines of any length that memory allows."),
    check("load-replays", Must, ALL, "V1-SESS-06 V2-SESS-05", "A loaded session replays what user and agent said, before the answer.", SETUP, "Send the whole conversation as updates, then answer."),
    check("load-goes-on", Must, ALL, "V1-SESS-08", "A loaded session takes prompts.", SETUP, "Restore the session before the answer."),
    check("load-unknown", Should, ALL, "V1-SESS-24 V2-SESS-17", "A session that nobody knows can't be loaded.", SETUP, "Answer -32002."),
    check("resume-goes-on", Must, ALL, "V1-SESS-15", "A resumed session takes prompts.", SETUP, "Restore the session before the answer."),
    check("list-has", Should, ALL, "V1-LIST-02", "A session with a turn is listed.", LIST, "List what can be taken up again."),
    check("list-folder", Must, ALL, "V1-LIST-03", "A list for a folder has only the sessions of that folder.", LIST, "Compare `cwd` exactly."),
    check("list-cursor", Should, ALL, "V1-LIST-05", "A cursor that nobody gave out is refused.", LIST, "Answer -32602."),
    check("close-answered", Must, ALL, "V1-SESS-18 V2-SESS-10", "A session can be closed.", LIST, "Answer `{}`."),
    check("close-cancels", Must, ALL, "V1-SESS-18 V2-SESS-10", "Closing a session cancels its turn, before the answer.", LIST, "Cancel as for `session/cancel`, then answer."),
    check("delete-gone", Must, ALL, "V1-LIST-09", "A deleted session is listed no more.", LIST, "Leave it out."),
    check("delete-unknown", Should, ALL, "V1-LIST-08", "Deleting what is not there succeeds.", LIST, "Answer `{}`."),
    check("offered-only", Must, ALL, "V1-ERR-02", "Methods that are not offered are refused with -32601.", INIT, "Offer what you have, and answer -32601 for the rest."),
    check("mode-set", Must, Dialects::V1, "V1-MODE-03", "Every mode that is offered can be set.", "ACP: session modes", "Answer `{}`."),
    check("mode-unknown", Should, Dialects::V1, "V1-MODE-02", "A mode that nobody offered is refused.", "ACP: session modes", "Answer -32602."),
    check("option-set", Must, ALL, "V1-CONF-04 V2-CONF-01", "An option that is set is answered with the whole list, in which it has its new value.", "ACP: session config options", "Answer with all options."),
    check("option-unknown", Should, ALL, "V1-CONF-11 V2-CONF-02", "An option that nobody offered is refused.", "ACP: session config options", "Answer -32602, and change nothing."),
    check("login-unknown", Should, ALL, "V1-AUTH-02", "A way to log in that nobody offered is refused.", "ACP: authentication", "Answer -32602."),
    check("end-exits", Should, ALL, "TR-END-03 TR-END-04", "The agent ends when its input does.", "ACP: transports", "Exit at the end of input, within five seconds."),
    check("end-code", Note, ALL, "TR-END-03", "It then exits with 0.", "ACP: transports", "Exit with 0."),
];

/// The names of the scenarios.
pub const SCENARIOS: [&str; 15] = [
    "probes",
    "hello",
    "turn",
    "sessions",
    "cancel",
    "cancel-question",
    "permission",
    "tools",
    "content",
    "load",
    "resume",
    "list",
    "close",
    "options",
    "end",
];

/// Where a scenario is played.
pub(crate) struct Stage {
    settings: Settings,
    dialect: Dialect,
    part: &'static str,
    folder: tempfile::TempDir,
    pub peer: Option<Peer>,
    sheet: Sheet,
    offers: Value,
    wanted: Arc<dyn Fn(&Check) -> bool + Send + Sync>,
}

/// What is judged, and how.
#[derive(Clone)]
pub struct Plan {
    /// How to reach the agent.
    pub settings: Settings,
    /// Which checks are wanted.
    pub wanted: Arc<dyn Fn(&Check) -> bool + Send + Sync>,
    /// How many processes at once.
    pub parallel: usize,
    /// Which scenarios; none: all.
    pub only: Vec<&'static str>,
    /// Told after each scenario.
    pub progress: Arc<dyn Fn(Dialect, &'static str) + Send + Sync>,
}

/// Judges an agent in one dialect.
pub async fn check_agent(plan: &Plan, dialect: Dialect) -> Sheet {
    let mut sheet = Sheet::new(Side::Agent, dialect);
    let places = Arc::new(Semaphore::new(plan.parallel.max(1)));
    let mut first = match Stage::new(plan, dialect, "start") {
        Ok(stage) => stage,
        Err(why) => {
            sheet.dead = Some(why);
            return sheet;
        }
    };
    match first.greeted().await {
        Ok(()) => first.done().await,
        Err(Stop::Skip(why)) if why.contains("does not speak") => sheet.unspoken = Some(why),
        Err(stop) => sheet.dead = Some(stop.said()),
    }
    if sheet.dead.is_some() || sheet.unspoken.is_some() {
        sheet.complete(&*plan.wanted);
        return sheet;
    }
    sheet.merge(first.sheet);
    let mut tasks = tokio::task::JoinSet::new();
    for part in SCENARIOS.into_iter().filter(|part| plan.only.is_empty() || plan.only.contains(part)) {
        let (plan, places) = (plan.clone(), places.clone());
        tasks.spawn(async move {
            let _place = places.acquire_owned().await;
            let sheet = match Stage::new(&plan, dialect, part) {
                Ok(stage) => stage.play().await,
                Err(_) => Sheet::new(Side::Agent, dialect),
            };
            (plan.progress)(dialect, part);
            sheet
        });
    }
    while let Some(done) = tasks.join_next().await {
        if let Ok(done) = done {
            sheet.merge(done);
        }
    }
    sheet.complete(&*plan.wanted);
    sheet
}

impl Stage {
    fn new(plan: &Plan, dialect: Dialect, part: &'static str) -> Result<Self, String> {
        let folder = tempfile::Builder::new().prefix("tieline-check-").tempdir().map_err(|error| error.to_string())?;
        std::fs::write(folder.path().join("a.txt"), "one\ntwo\nthree\n").map_err(|error| error.to_string())?;
        Ok(Self {
            settings: plan.settings.clone(),
            dialect,
            part,
            folder,
            peer: None,
            sheet: Sheet::new(Side::Agent, dialect),
            offers: json!({}),
            wanted: plan.wanted.clone(),
        })
    }

    async fn play(mut self) -> Sheet {
        let played = match self.part {
            "probes" => probes::play(&mut self).await,
            "hello" => self.hello().await,
            "turn" => self.turn().await,
            "sessions" => self.sessions().await,
            "cancel" => self.cancel().await,
            "cancel-question" => self.cancel_question().await,
            "permission" => self.permission().await,
            "tools" => self.tools().await,
            "content" => self.content().await,
            "load" => self.load().await,
            "resume" => self.resume().await,
            "list" => self.list().await,
            "close" => self.close().await,
            "options" => self.options().await,
            _ => self.end().await,
        };
        match played {
            Ok(()) => {}
            Err(Stop::Gone(why)) => self.add("agent-lives", Verdict::Broken, &why),
            Err(Stop::Late(why)) => self.add("agent-answers", Verdict::Broken, &why),
            Err(Stop::Skip(why)) => self.skip(&why),
        }
        self.done().await;
        self.sheet
    }

    pub fn wants(&self, check: &Check) -> bool {
        check.applies(Side::Agent, self.dialect) && (self.wanted)(check)
    }

    /// Everything of this part that was not looked at yet, for this reason.
    fn skip(&mut self, why: &str) {
        for id in part_checks(self.part) {
            self.add(id, Verdict::NotExercised, why);
        }
    }

    async fn greeted(&mut self) -> Result<(), Stop> {
        let offers = self.offers.clone();
        self.peer = Some(Peer::greeted(&self.settings, self.dialect, self.folder.path(), offers).await?);
        Ok(())
    }

    pub async fn ready(&mut self) -> Result<Value, Stop> {
        self.greeted().await?;
        self.peer()?.open().await
    }

    pub fn peer(&mut self) -> Result<&mut Peer, Stop> {
        self.peer.as_mut().ok_or_else(|| Stop::Skip("there is no agent".into()))
    }

    /// Ends the agent, and lets the laws look at what was said.
    pub async fn done(&mut self) {
        if let Some(mut peer) = self.peer.take() {
            peer.finish().await;
            peer.judged(&mut self.sheet, self.part);
            for id in ["agent-answers", "agent-lives"] {
                self.sheet.add_some(peer.finding(id, Verdict::Holds, "", self.part));
            }
        }
    }

    pub fn add(&mut self, id: &'static str, verdict: Verdict, said: &str) {
        let finding = match &self.peer {
            Some(peer) => peer.finding(id, verdict, said, self.part),
            None => table::find(id).map(|check| Finding {
                check,
                verdict,
                said: said.to_owned(),
                part: self.part.to_owned(),
                log: Log::default(),
                frame: 0,
            }),
        };
        self.sheet.add_some(finding);
    }

    pub fn expect(&mut self, id: &'static str, holds: bool, said: impl FnOnce() -> String) {
        if holds {
            self.add(id, Verdict::Holds, "");
        } else {
            self.add(id, Verdict::Broken, &said());
        }
    }

    /// Words that make the agent do something.
    fn words(&mut self, what: &str) -> Result<String, Stop> {
        let folder = self.peer()?.folder.to_string_lossy().into_owned();
        let prompts = &self.peer()?.prompts;
        let words = match what {
            "say" => &prompts.say,
            "read" => &prompts.read,
            "write" => &prompts.write,
            "wait" => &prompts.wait,
            _ => &prompts.fail,
        };
        let words = words.as_ref().map(|words| words.replace("{cwd}", &folder));
        words.ok_or_else(|| {
            Stop::Skip(format!("no prompt is known for `{what}`: give one with --prompts, or use --model-server"))
        })
    }

    async fn say(&mut self) -> Result<Turn, Stop> {
        let words = self.words("say")?;
        self.peer()?.prompt(&words).await
    }

    async fn hello(&mut self) -> Result<(), Stop> {
        let start = |stage: &Self| (stage.settings.clone(), stage.dialect, stage.folder.path().to_owned());
        let (settings, dialect, folder) = start(self);
        // In the words of all versions: nobody knows which one is answered.
        let mut params = hello(Dialect::V2, &json!({}));
        params["clientInfo"] = params["info"].clone();
        params["clientCapabilities"] = json!({});
        params["protocolVersion"] = 999.into();
        self.peer = Some(Peer::start(&settings, dialect, &folder).await?);
        let reply = self.peer()?.call("initialize", params.clone()).await?;
        let version = reply.result()["protocolVersion"].as_u64();
        self.expect("hello-newer", version.is_some_and(|version| (1..999).contains(&version)), || {
            reply.message.to_string()
        });
        self.done().await;
        if let Some(version) = version {
            params["protocolVersion"] = version.into();
            self.peer = Some(Peer::start(&settings, dialect, &folder).await?);
            let reply = self.peer()?.call("initialize", params.clone()).await?;
            let echo = reply.result()["protocolVersion"].as_u64();
            self.expect("hello-echo", echo == Some(version), || {
                format!("{version} was its newest, and now: {}", reply.message)
            });
            self.done().await;
        }
        self.peer = Some(Peer::start(&settings, dialect, &folder).await?);
        params["protocolVersion"] = "one".into();
        let reply = self.peer()?.call("initialize", params).await?;
        self.expect("hello-broken", reply.code().is_some(), || reply.message.to_string());
        self.done().await;
        self.peer = Some(Peer::start(&settings, dialect, &folder).await?);
        let reply = self.peer()?.call("session/new", json!({"cwd": folder, "mcpServers": []})).await?;
        self.expect("hello-needed", reply.code().is_some(), || reply.message.to_string());
        // What it says without having agreed on anything is not judged.
        if let Some(mut peer) = self.peer.take() {
            peer.finish().await;
        }
        Ok(())
    }

    async fn turn(&mut self) -> Result<(), Stop> {
        self.ready().await?;
        let turn = self.say().await?;
        let ended = ["end_turn", "refusal", "max_tokens", "max_turn_requests"].contains(&&*turn.stop);
        self.expect("turn-ends", ended, || format!("it stopped with {:?}", turn.stop));
        let said = turn
            .updates
            .iter()
            .any(|update| matches!(update["sessionUpdate"].as_str(), Some("agent_message_chunk" | "agent_message")));
        self.expect("turn-said", said || turn.stop != "end_turn", || "nothing was said".into());
        let again = self.say().await?;
        self.expect("turn-again", again.stop == turn.stop, || format!("the second turn stopped with {:?}", again.stop));
        Ok(())
    }

    async fn sessions(&mut self) -> Result<(), Stop> {
        self.ready().await?;
        let first = self.peer()?.session.clone();
        self.peer()?.open().await?;
        let second = self.peer()?.session.clone();
        self.expect("sessions-differ", first != second, || format!("both are {first:?}"));
        let (wait, say) = (self.words("wait")?, self.words("say")?);
        let one = self.peer()?.begin(&wait).await?;
        self.work_seen().await?;
        self.peer()?.session.clone_from(&first);
        let turn = match self.peer()?.prompt(&say).await {
            Ok(turn) => turn,
            Err(Stop::Skip(why) | Stop::Late(why)) => {
                self.expect("sessions-parallel", false, || format!("while another session works: {why}"));
                return Ok(());
            }
            Err(stop) => return Err(stop),
        };
        self.expect("sessions-parallel", turn.stop != "error", || "the prompt of the other session failed".into());
        self.peer()?.session.clone_from(&second);
        self.peer()?.cancel().await?;
        let _ = self.peer()?.end(one).await;
        Ok(())
    }

    /// Waits until a turn is surely under way.
    async fn work_seen(&mut self) -> Result<(), Stop> {
        let is_work = |message: &Value| {
            let kind = message["params"]["update"]["sessionUpdate"].as_str().unwrap_or_default();
            kind.starts_with("agent_message") || kind == "tool_call" || kind.starts_with("tool_call_")
        };
        if !self.peer()?.turn().updates.iter().any(|update| is_work(&json!({"params": {"update": update}}))) {
            let seen = self.peer()?.until("the turn does not begin", is_work).await;
            seen.map_err(|stop| match stop {
                Stop::Late(why) => Stop::Skip(why),
                stop => stop,
            })?;
        }
        Ok(())
    }

    async fn cancel(&mut self) -> Result<(), Stop> {
        self.ready().await?;
        self.peer()?.cancel().await?;
        let turn = self.say().await?;
        self.expect("cancel-idle", turn.stop != "cancelled", || "the turn after it was cancelled".into());
        let wait = self.words("wait")?;
        let id = self.peer()?.begin(&wait).await?;
        self.work_seen().await?;
        let busy = self.peer()?.canary().await;
        self.expect("turn-busy", busy.is_ok(), || "no answer to another request while a turn runs".into());
        self.peer()?.cancel().await?;
        match self.peer()?.end(id).await {
            Ok(turn) => {
                self.expect("cancel-answered", turn.stop == "cancelled", || format!("it stopped with {:?}", turn.stop));
            }
            Err(Stop::Skip(why)) => {
                self.expect("cancel-answered", false, || why);
                return Ok(());
            }
            Err(stop) => return Err(stop),
        }
        let turn = self.say().await?;
        self.expect("cancel-then", !["error", "cancelled"].contains(&&*turn.stop), || {
            format!("it stopped with {:?}", turn.stop)
        });
        Ok(())
    }

    async fn cancel_question(&mut self) -> Result<(), Stop> {
        self.ready().await?;
        let write = self.words("write")?;
        self.peer()?.choice = Choice::Silence;
        let id = self.peer()?.begin(&write).await?;
        let asked =
            self.peer()?.until("nothing is asked", |message| message["method"] == "session/request_permission").await;
        let Ok(asked) = asked else { return Err(Stop::Skip("the agent did not ask for permission".into())) };
        self.peer()?.cancel().await?;
        let outcome = json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"outcome": {"outcome": "cancelled"}}});
        self.peer()?.send(&outcome.to_string()).await?;
        match self.peer()?.end(id).await {
            Ok(turn) => {
                self.expect("cancel-asked", turn.stop == "cancelled", || format!("it stopped with {:?}", turn.stop));
            }
            Err(Stop::Skip(why)) => self.expect("cancel-asked", false, || why),
            Err(stop) => return Err(stop),
        }
        let made = self.folder.path().join("made.txt").exists();
        self.expect("permission-reject", !made, || "the file was written although the question was cancelled".into());
        Ok(())
    }

    async fn permission(&mut self) -> Result<(), Stop> {
        for (choice, id) in [
            (Choice::Reject, "permission-reject"),
            (Choice::Unknown, "permission-unknown"),
            (Choice::Allow, "permission-allow"),
        ] {
            let _ = std::fs::remove_file(self.folder.path().join("made.txt"));
            self.ready().await?;
            let write = self.words("write")?;
            self.peer()?.choice = choice;
            let turn = self.peer()?.prompt(&write).await?;
            if !turn.asked.iter().any(|message| message["method"] == "session/request_permission") {
                return Err(Stop::Skip("the agent did not ask for permission".into()));
            }
            let made = self.folder.path().join("made.txt").exists();
            let allowed = choice == Choice::Allow;
            self.expect(id, made == allowed, || {
                if made { "the file was written" } else { "the file was not written" }.into()
            });
            if choice == Choice::Reject {
                self.expect("permission-reject-turn", turn.stop != "error", || "the prompt failed".into());
            }
            self.done().await;
        }
        Ok(())
    }

    async fn tools(&mut self) -> Result<(), Stop> {
        // Files are offered here, and nowhere else.
        self.offers = json!({"fs": {"readTextFile": true, "writeTextFile": true}});
        self.ready().await?;
        let is_call = |turn: &Turn| {
            turn.updates
                .iter()
                .any(|update| update["sessionUpdate"].as_str().is_some_and(|kind| kind.starts_with("tool_call")))
        };
        if let Ok(read) = self.words("read") {
            self.peer()?.prompt(&read).await?;
        }
        let fail = self.words("fail")?;
        let turn = self.peer()?.prompt(&fail).await?;
        self.expect("tool-fails", turn.stop != "error", || "the prompt failed".into());
        let write = self.words("write")?;
        let turn = self.peer()?.prompt(&write).await?;
        // Only what was done is known to have been a tool.
        if self.folder.path().join("made.txt").exists() {
            self.expect("tool-told", is_call(&turn), || "a file was written, and no tool call was reported".into());
        } else {
            self.add("tool-told", Verdict::NotExercised, "the file was not written");
        }
        Ok(())
    }

    async fn content(&mut self) -> Result<(), Stop> {
        self.ready().await?;
        let say = self.words("say")?;
        let link = format!("file://{}", self.folder.path().join("a.txt").display());
        let text = json!({"type": "text", "text": say});
        let prompt = json!({"prompt": [text, {"type": "resource_link", "uri": link, "name": "a.txt"}]});
        let reply = self.peer()?.call_in("session/prompt", prompt).await.map_err(late_turn)?;
        self.expect("content-link", reply.is_ok(), || reply.message["error"].to_string());
        self.settle(&reply.message).await?;
        let kinds = [
            ("image", "session/prompt/image", "promptCapabilities/image"),
            ("audio", "session/prompt/audio", "promptCapabilities/audio"),
        ];
        let none = kinds.into_iter().find(|(_, v2, v1)| self.peer.as_ref().is_some_and(|peer| !peer.offers(v2, v1)));
        for id in ["content-refused", "content-refused-v1"] {
            let Some((kind, ..)) = none else {
                self.add(id, Verdict::NotApplicable, "the agent takes all content");
                continue;
            };
            if table::find(id).is_some_and(|check| !check.dialects.has(self.dialect)) {
                continue;
            }
            let prompt = json!({"prompt": [text, {"type": kind, "data": "AAAA", "mimeType": format!("{kind}/x")}]});
            let reply = self.peer()?.call_in("session/prompt", prompt).await.map_err(late_turn)?;
            self.expect(id, reply.code() == Some(-32602), || {
                format!("`{kind}` was not offered, and this came back: {}", reply.message)
            });
            self.settle(&reply.message).await?;
        }
        // A model may find it too long, which is an answer.
        let filler = format!("{say}\n{}", "x".repeat(1 << 20));
        self.peer()?.begin(&filler).await?;
        let lives = self.peer()?.canary().await;
        self.expect("content-large", lives.is_ok(), || "nothing was answered after it".into());
        Ok(())
    }

    /// In current version 2 the work goes on after the answer.
    async fn settle(&mut self, answer: &Value) -> Result<(), Stop> {
        if self.dialect == Dialect::V2 && answer.get("result").is_some() {
            let id = answer["id"].as_i64().unwrap_or_default();
            self.peer()?.end(id).await?;
        }
        Ok(())
    }

    fn loads(&mut self) -> Result<(bool, bool), Stop> {
        let current = self.dialect == Dialect::V2;
        let peer = self.peer()?;
        Ok((
            current || peer.offers("session/load", "loadSession"),
            current || peer.offers("session/resume", "sessionCapabilities/resume"),
        ))
    }

    async fn load(&mut self) -> Result<(), Stop> {
        self.ready().await?;
        if !self.loads()?.0 {
            self.not_applicable("the agent does not offer to load sessions");
            return Ok(());
        }
        let words = self.words("say")?;
        let (turn, session) = self.again(true).await?;
        let heard = &self.peer()?.turn().updates;
        let who = |start: &str| {
            heard.iter().any(|update| update["sessionUpdate"].as_str().is_some_and(|kind| kind.starts_with(start)))
        };
        let (user, agent) = (who("user_message"), who("agent_message"));
        // What it says about its own troubles is no part of the conversation.
        let said = turn.updates.iter().any(|update| {
            let text = update["content"]["text"].as_str().or(update["content"][0]["text"].as_str());
            update["sessionUpdate"].as_str().is_some_and(|kind| kind.starts_with("agent_message"))
                && text.is_some_and(|text| text.contains("hello"))
        });
        self.expect("load-replays", user && (agent || !said), || {
            format!("user: {user}, agent: {agent}, after the prompt {words:?}")
        });
        self.peer()?.session = session;
        let turn = self.say().await?;
        self.expect("load-goes-on", turn.stop != "error", || "the prompt failed".into());
        let reply = self.take_up("tieline-check-no-such-session", true).await?;
        self.expect("load-unknown", reply.code().is_some(), || reply.message.to_string());
        Ok(())
    }

    /// A session with a turn, taken up again: by another process, or by the same one if its sessions end with it.
    async fn again(&mut self, replay: bool) -> Result<(Turn, String), Stop> {
        let turn = self.say().await?;
        let session = self.peer()?.session.clone();
        self.done().await;
        self.greeted().await?;
        if self.take_up(&session, replay).await?.is_ok() {
            return Ok((turn, session));
        }
        self.peer()?.open().await?;
        let turn = self.say().await?;
        let session = self.peer()?.session.clone();
        if self.dialect == Dialect::V2 || self.peer()?.offers("session/close", "sessionCapabilities/close") {
            self.peer()?.call_in("session/close", json!({})).await?;
        }
        self.peer()?.forget();
        let taken = self.take_up(&session, replay).await?;
        if taken.is_ok() {
            return Ok((turn, session));
        }
        Err(Stop::Skip(format!("a session of before could not be taken up: {}", taken.message["error"])))
    }

    async fn take_up(&mut self, session: &str, replay: bool) -> Result<crate::peer::Reply, Stop> {
        let current = self.dialect == Dialect::V2;
        let peer = self.peer()?;
        let mut params = json!({"sessionId": session, "cwd": peer.folder, "mcpServers": []});
        if replay && current {
            params["replayFrom"] = json!({"type": "start"});
        }
        peer.call(if replay && !current { "session/load" } else { "session/resume" }, params).await
    }

    async fn resume(&mut self) -> Result<(), Stop> {
        self.ready().await?;
        if !self.loads()?.1 {
            self.not_applicable("the agent does not offer to resume sessions");
            return Ok(());
        }
        let (_, session) = self.again(false).await?;
        self.peer()?.session = session;
        let turn = self.say().await?;
        self.expect("resume-goes-on", turn.stop != "error", || "the prompt failed".into());
        Ok(())
    }

    async fn list(&mut self) -> Result<(), Stop> {
        self.ready().await?;
        let current = self.dialect == Dialect::V2;
        if !current && !self.peer()?.offers("session/list", "sessionCapabilities/list") {
            self.not_applicable("the agent does not offer to list sessions");
            return Ok(());
        }
        self.say().await?;
        let (session, folder) = (self.peer()?.session.clone(), self.peer()?.folder.clone());
        let ids = |reply: &crate::peer::Reply| -> Vec<(String, String)> {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let sessions = reply.result()["sessions"].as_array().cloned().unwrap_or_default();
            sessions.iter().map(|one| (text(&one["sessionId"]), text(&one["cwd"]))).collect()
        };
        let reply = self.peer()?.call("session/list", json!({"cwd": folder})).await?;
        let listed = ids(&reply);
        self.expect("list-has", listed.iter().any(|(id, _)| *id == session), || {
            format!("{session:?} is not among {} sessions", listed.len())
        });
        let foreign = listed.iter().find(|(_, cwd)| std::path::Path::new(cwd) != folder);
        self.expect("list-folder", reply.is_ok() && foreign.is_none(), || {
            format!("{foreign:?} is of another folder; {}", reply.message["error"])
        });
        let reply = self.peer()?.call("session/list", json!({"cursor": "tieline-check-no-such-cursor"})).await?;
        self.expect("list-cursor", reply.code().is_some(), || reply.message.to_string());
        if self.peer()?.offers("session/delete", "sessionCapabilities/delete") {
            let reply = self.peer()?.call_in("session/delete", json!({})).await?;
            let left = ids(&self.peer()?.call("session/list", json!({"cwd": folder})).await?);
            let gone = reply.is_ok() && !left.iter().any(|(id, _)| *id == session);
            self.expect("delete-gone", gone, || format!("still listed, or: {}", reply.message["error"]));
            let reply = self.peer()?.call_in("session/delete", json!({})).await?;
            self.expect("delete-unknown", reply.is_ok(), || reply.message["error"].to_string());
        } else {
            for id in ["delete-gone", "delete-unknown"] {
                self.add(id, Verdict::NotApplicable, "the agent does not offer to delete sessions");
            }
        }
        Ok(())
    }

    async fn close(&mut self) -> Result<(), Stop> {
        self.ready().await?;
        let current = self.dialect == Dialect::V2;
        if !current && !self.peer()?.offers("session/close", "sessionCapabilities/close") {
            self.not_applicable("the agent does not offer to close sessions");
            return Ok(());
        }
        let reply = self.peer()?.call_in("session/close", json!({})).await?;
        self.expect("close-answered", reply.is_ok(), || reply.message["error"].to_string());
        self.peer()?.open().await?;
        let wait = self.words("wait")?;
        let id = self.peer()?.begin(&wait).await?;
        self.work_seen().await?;
        let session = self.peer()?.session.clone();
        let close = self.peer()?.ask("session/close", json!({"sessionId": session})).await?;
        let turn = self.peer()?.end(id).await;
        match turn {
            Ok(turn) => self
                .expect("close-cancels", turn.stop == "cancelled", || format!("the turn stopped with {:?}", turn.stop)),
            Err(Stop::Skip(why)) => self.expect("close-cancels", false, || why),
            Err(stop) => return Err(stop),
        }
        let _ = self.peer()?.canary().await?;
        let _ = close;
        Ok(())
    }

    async fn options(&mut self) -> Result<(), Stop> {
        let setup = self.ready().await?;
        let unknown = json!({"modeId": "tieline-check-no-such-mode"});
        match setup["modes"]["availableModes"].as_array() {
            Some(modes) if self.dialect == Dialect::V1 => {
                let mut failed = None;
                // Back to the first in the end.
                for mode in modes.iter().chain(modes.first()) {
                    let reply = self.peer()?.call_in("session/set_mode", json!({"modeId": mode["id"]})).await?;
                    failed = failed.or((!reply.is_ok()).then(|| format!("{}: {}", mode["id"], reply.message["error"])));
                }
                self.expect("mode-set", failed.is_none(), || failed.unwrap_or_default());
                let reply = self.peer()?.call_in("session/set_mode", unknown).await?;
                self.expect("mode-unknown", reply.code().is_some(), || reply.message.to_string());
            }
            _ => {
                for id in ["mode-set", "mode-unknown"] {
                    self.add(id, Verdict::NotApplicable, "the session has no modes");
                }
            }
        }
        let key = if self.dialect == Dialect::V2 { "configId" } else { "id" };
        let select =
            setup["configOptions"].as_array().and_then(|all| all.iter().find(|one| one["type"] == "select")).cloned();
        let typed = |mut params: Value, current: bool| {
            if current {
                params["type"] = "id".into();
            }
            params
        };
        let current = self.dialect == Dialect::V2;
        if let Some(option) = select {
            let values = option["options"].as_array().cloned().unwrap_or_default();
            let flat: Vec<&Value> = values
                .iter()
                .flat_map(|one| one["options"].as_array().map_or_else(|| vec![one], |all| all.iter().collect()))
                .collect();
            let value = flat.iter().map(|one| &one["value"]).find(|value| **value != option["currentValue"]).cloned();
            let value = value.unwrap_or_else(|| option["currentValue"].clone());
            let params = typed(json!({"configId": option[key], "value": value}), current);
            let reply = self.peer()?.call_in("session/set_config_option", params).await?;
            let list = reply.result()["configOptions"].as_array().cloned().unwrap_or_default();
            let now = list.iter().find(|one| one[key] == option[key]).map(|one| one["currentValue"].clone());
            let whole = list.len() >= setup["configOptions"].as_array().map_or(0, Vec::len);
            self.expect("option-set", now.as_ref() == Some(&value) && whole, || {
                format!("{} was set to {value}: {}", option[key], reply.message)
            });
            let params = typed(json!({"configId": "tieline-check-no-such-option", "value": "x"}), current);
            let reply = self.peer()?.call_in("session/set_config_option", params).await?;
            self.expect("option-unknown", reply.code().is_some(), || reply.message.to_string());
        } else {
            for id in ["option-set", "option-unknown"] {
                self.add(id, Verdict::NotApplicable, "the session has no options");
            }
        }
        self.login().await?;
        self.offered_only().await
    }

    async fn login(&mut self) -> Result<(), Stop> {
        let methods = self.peer()?.hello["authMethods"].as_array().map_or(0, Vec::len);
        if methods == 0 {
            self.add("login-unknown", Verdict::NotApplicable, "the agent has no login");
            return Ok(());
        }
        let method = if self.dialect == Dialect::V2 { "auth/login" } else { "authenticate" };
        let reply = self.peer()?.call(method, json!({"methodId": "tieline-check-no-such-login"})).await?;
        self.expect("login-unknown", reply.code().is_some(), || reply.message.to_string());
        Ok(())
    }

    async fn offered_only(&mut self) -> Result<(), Stop> {
        let optional = [
            ("session/load", "session/load", "loadSession"),
            ("session/resume", "session/resume", "sessionCapabilities/resume"),
            ("session/list", "session/list", "sessionCapabilities/list"),
            ("session/close", "session/close", "sessionCapabilities/close"),
            ("session/delete", "session/delete", "sessionCapabilities/delete"),
            ("logout", "auth/logout", "auth/logout"),
        ];
        let mut any = false;
        for (method, v2, v1) in optional {
            // Current version 2 promises most of them.
            if self.dialect == Dialect::V2 && method != "session/delete" || self.peer()?.offers(v2, v1) {
                continue;
            }
            any = true;
            let folder = self.peer()?.folder.clone();
            let session = self.peer()?.session.clone();
            let reply =
                self.peer()?.call(method, json!({"sessionId": session, "cwd": folder, "mcpServers": []})).await?;
            self.expect("offered-only", reply.code() == Some(-32601), || {
                format!("`{method}` is not offered, and this came back: {}", reply.message)
            });
        }
        if !any {
            self.add("offered-only", Verdict::NotApplicable, "the agent offers all of them");
        }
        Ok(())
    }

    async fn end(&mut self) -> Result<(), Stop> {
        self.ready().await?;
        self.peer()?.canary().await?;
        let begun = Instant::now();
        let status = self.peer()?.finish().await;
        let took = begun.elapsed();
        let in_time = took < Duration::from_secs(5);
        self.expect("end-exits", status.is_some() && in_time, || {
            format!("it had not ended after {} s", took.as_secs())
        });
        if let Some(status) = status {
            self.expect("end-code", status == tieline_process::Status::Code(0), || format!("it {status}"));
        }
        Ok(())
    }

    fn not_applicable(&mut self, why: &str) {
        for id in part_checks(self.part) {
            self.add(id, Verdict::NotApplicable, why);
        }
    }
}

fn late_turn(stop: Stop) -> Stop {
    match stop {
        Stop::Late(why) => Stop::Skip(why),
        stop => stop,
    }
}

/// What a scenario asserts.
pub(crate) fn part_checks(part: &str) -> &'static [&'static str] {
    match part {
        "hello" => &["hello-newer", "hello-echo", "hello-broken", "hello-needed"],
        "turn" => &["turn-ends", "turn-said", "turn-again"],
        "sessions" => &["sessions-differ", "sessions-parallel"],
        "cancel" => &["cancel-idle", "turn-busy", "cancel-answered", "cancel-then"],
        "cancel-question" => &["cancel-asked"],
        "permission" => &["permission-reject", "permission-unknown", "permission-allow", "permission-reject-turn"],
        "tools" => &["tool-told", "tool-fails"],
        "content" => &["content-link", "content-refused", "content-refused-v1", "content-large"],
        "load" => &["load-replays", "load-goes-on", "load-unknown"],
        "resume" => &["resume-goes-on"],
        "list" => &["list-has", "list-folder", "list-cursor", "delete-gone", "delete-unknown"],
        "close" => &["close-answered", "close-cancels"],
        "options" => &["mode-set", "mode-unknown", "option-set", "option-unknown", "login-unknown", "offered-only"],
        "end" => &["end-exits", "end-code"],
        _ => &[],
    }
}
