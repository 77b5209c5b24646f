//! The fixed scenario of the interop clients: one step per prompt, one JSON line per step.

use crate::vocabulary::{CALL_RESULT, CALL_TITLE, PLAN, THOUGHT};
use serde::Serialize;
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tieline::Dialect;

/// How long one step may take.
pub const STEP_DEADLINE: Duration = Duration::from_secs(10);
/// How long a `wait` turn runs at most before it is cancelled.
pub const CANCEL_AFTER: Duration = Duration::from_millis(200);

/// The variable with the folder of the session, if it is not to be one that ends with the scenario.
pub const FOLDER: &str = "INTEROP_FOLDER";
/// The variable with a session of an earlier scenario in that folder: it is taken up on this connection, and nothing else is done.
pub const SESSION: &str = "INTEROP_SESSION";

const SAID: &str = "hello from the client, größer als ASCII";

/// What the agent said about itself in `initialize`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hello {
    /// The version in the answer.
    pub protocol: u16,
    /// The name in the answer, or nothing.
    pub agent: String,
    /// `session/list` may be called.
    pub list: bool,
    /// `session/load` (v1) or `session/resume` with replay (v2) may be called.
    pub replay: bool,
    /// `session/close` may be called.
    pub close: bool,
}

/// What the client does during a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum How {
    /// Answer a permission request with the `allow_once` option.
    #[default]
    Allow,
    /// Answer a permission request with the `reject_once` option.
    Reject,
    /// Cancel the turn after its first update, or after [`CANCEL_AFTER`].
    Cancel,
}

/// What the client saw of one turn or of one replay.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Seen {
    /// Why the turn ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<String>,
    /// The code of the JSON-RPC error that ended the turn, or that came with the stop reason `error`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<i64>,
    /// The agent's text, all messages joined.
    pub text: String,
    /// The agent's thoughts, joined.
    pub thoughts: String,
    /// The user's text as the agent reported it, joined.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub user: String,
    /// The number of `agent_message_chunk` updates.
    pub chunks: usize,
    /// The number of `agent_thought_chunk` updates.
    pub thought_chunks: usize,
    /// The title of the tool call.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// The kind of the tool call.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// The statuses of the tool call in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub statuses: Vec<String>,
    /// The text content of the tool call.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub content: String,
    /// The options of the permission requests, as `id:kind`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub asked: Vec<String>,
    /// The plan entries, as `content:priority:status`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub plan: Vec<String>,
    /// The states of a v2 session in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub states: Vec<String>,
    /// In v2: the prompt's answer and the reported user message have the same id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub same_id: Option<bool>,
}

/// A client under test, connected to an agent.
#[allow(async_fn_in_trait)]
pub trait Driver {
    /// Sends `initialize` with every capability the client has.
    async fn initialize(&mut self) -> Result<Hello, String>;
    /// Opens a session and keeps its id.
    async fn open(&mut self, cwd: &Path) -> Result<String, String>;
    /// Runs one turn to its end. A JSON-RPC error of the prompt goes into [`Seen::error`].
    async fn prompt(&mut self, text: &str, how: How) -> Result<Seen, String>;
    /// Lists the sessions of that directory.
    async fn list(&mut self, cwd: &Path) -> Result<Vec<String>, String>;
    /// Closes the session.
    async fn close(&mut self) -> Result<(), String>;
    /// Takes this session for the one that was opened.
    fn adopt(&mut self, session: &str);
    /// Attaches to the session again with its whole history.
    async fn replay(&mut self, cwd: &Path) -> Result<Seen, String>;
}

/// Runs the scenario and prints its lines to `out`; tells whether every expectation was met.
pub async fn run(driver: &mut impl Driver, dialect: Dialect, out: &mut impl Write) -> bool {
    let mut report = Report { out, ok: true };
    if let Err(message) = steps(driver, dialect, &mut report).await {
        report.complain(&message);
    }
    report.done()
}

/// Prints that the scenario could not even start.
pub fn fail(message: &str, out: &mut impl Write) {
    let mut report = Report { out, ok: true };
    report.complain(message);
    report.done();
}

async fn within<T>(step: &str, work: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    match tokio::time::timeout(STEP_DEADLINE, work).await {
        Ok(result) => result.map_err(|e| format!("{step}: {e}")),
        Err(_) => Err(format!("{step}: nothing within {} s", STEP_DEADLINE.as_secs())),
    }
}

async fn steps<W: Write>(driver: &mut impl Driver, dialect: Dialect, report: &mut Report<'_, W>) -> Result<(), String> {
    let own = tempfile::tempdir().map_err(|e| format!("no temporary directory: {e}"))?;
    let folder = std::env::var_os(FOLDER).map_or_else(|| own.path().to_owned(), PathBuf::from);
    // Some systems reach their temporary directory through a link.
    let dir = folder.canonicalize().map_err(|e| format!("{}: {e}", folder.display()))?;

    let hello = within("initialize", driver.initialize()).await?;
    report.line(&json!({ "step": "initialize", "protocol": hello.protocol, "agent": hello.agent }));
    report.expect("initialize", "the protocol version", &hello.protocol, &dialect.version());
    if hello.protocol != dialect.version() {
        return Err("initialize: the rest makes no sense in another version".into());
    }
    if let Ok(session) = std::env::var(SESSION) {
        driver.adopt(&session);
        return taken_up(driver, dialect, &dir, report).await;
    }
    let session = within("new", driver.open(&dir)).await?;
    report.line(&json!({ "step": "new", "session": session }));
    report.expect("new", "a session id that is empty", &session.is_empty(), &false);

    prompts(driver, dialect, report).await?;
    if dialect == Dialect::V1 {
        client_tools(driver, &dir, report).await?;
    }

    let seen = within("fail", driver.prompt("fail", How::Allow)).await?;
    report.seen("fail", &seen);
    report.expect("fail", "the error code", &seen.error, &Some(-32603));
    report.expect("fail", "the stop reason", &seen.stop, &(dialect == Dialect::V2).then(|| "error".to_owned()));

    sessions(driver, dialect, &hello, &session, &dir, report).await
}

async fn prompts<W: Write>(
    driver: &mut impl Driver,
    dialect: Dialect,
    report: &mut Report<'_, W>,
) -> Result<(), String> {
    let seen = within("say", driver.prompt(&format!("say {SAID}"), How::Allow)).await?;
    report.turn("say", dialect, &seen, "end_turn");
    report.expect("say", "the text", &seen.text.as_str(), &SAID);
    report.expect("say", "the thoughts", &seen.thoughts.as_str(), &THOUGHT);
    // A server may join pieces that come right behind each other.
    let chunks = if std::env::var_os(FOLDER).is_some() { seen.chunks.clamp(1, 2) } else { 2 };
    let expect = (chunks, 1);
    report.expect("say", "the number of message and thought chunks", &(seen.chunks, seen.thought_chunks), &expect);
    if dialect != Dialect::V1 {
        report.expect("say", "the reported user message", &seen.user, &format!("say {SAID}"));
    }

    for (step, how, statuses, content) in [
        ("tool_allow", How::Allow, &["pending", "in_progress", "completed"][..], CALL_RESULT),
        ("tool_reject", How::Reject, &["pending", "failed"][..], ""),
    ] {
        let seen = within(step, driver.prompt("tool", how)).await?;
        report.turn(step, dialect, &seen, "end_turn");
        report.expect(step, "the title", &seen.title.as_str(), &CALL_TITLE);
        report.expect(step, "the kind", &seen.kind.as_str(), &"edit");
        report.expect(step, "the options", &seen.asked.join(" ").as_str(), &"allow:allow_once reject:reject_once");
        let shown: Vec<&str> = seen.statuses.iter().map(String::as_str).collect();
        report.expect(step, "the statuses", &shown.as_slice(), &statuses);
        report.expect(step, "the content", &seen.content.as_str(), &content);
        if dialect == Dialect::V2 {
            report.expect(step, "requires_action", &seen.states.iter().any(|s| s == "requires_action"), &true);
        }
    }

    let seen = within("plan", driver.prompt("plan", How::Allow)).await?;
    report.turn("plan", dialect, &seen, "end_turn");
    let plan: Vec<String> = PLAN.iter().map(|(what, priority, status)| format!("{what}:{priority}:{status}")).collect();
    report.expect("plan", "the entries", &seen.plan, &plan);

    let seen = within("wait", driver.prompt("wait", How::Cancel)).await?;
    report.turn("wait", dialect, &seen, "cancelled");
    Ok(())
}

async fn client_tools<W: Write>(
    driver: &mut impl Driver,
    dir: &Path,
    report: &mut Report<'_, W>,
) -> Result<(), String> {
    let (source, target) = (dir.join("read.txt"), dir.join("written.txt"));
    let content = "first line\nsecond line, ünïcode\n";
    std::fs::write(&source, content).map_err(|e| format!("read: {e}"))?;
    let seen = within("read", driver.prompt(&format!("read {}", source.display()), How::Allow)).await?;
    report.turn("read", Dialect::V1, &seen, "end_turn");
    report.expect("read", "the text", &seen.text.as_str(), &content);

    let text = "two words";
    let seen = within("write", driver.prompt(&format!("write {} {text}", target.display()), How::Allow)).await?;
    report.turn("write", Dialect::V1, &seen, "end_turn");
    report.expect("write", "the text", &seen.text.as_str(), &"written");
    let written = std::fs::read_to_string(&target).unwrap_or_else(|e| format!("no file: {e}"));
    report.expect("write", "the file", &written.as_str(), &text);

    let seen = within("run", driver.prompt("run echo from the terminal", How::Allow)).await?;
    report.turn("run", Dialect::V1, &seen, "end_turn");
    report.expect("run", "the output", &seen.text.trim_end(), &"from the terminal");
    Ok(())
}

async fn sessions<W: Write>(
    driver: &mut impl Driver,
    dialect: Dialect,
    hello: &Hello,
    session: &str,
    dir: &Path,
    report: &mut Report<'_, W>,
) -> Result<(), String> {
    if hello.list {
        let listed = within("list", driver.list(dir)).await?;
        report.line(&json!({ "step": "list", "sessions": listed }));
        report.expect("list", "the session", &listed.iter().any(|id| id == session), &true);
    } else {
        report.skipped("list");
    }
    if hello.close {
        within("close", driver.close()).await?;
        report.line(&json!({ "step": "close" }));
    } else {
        report.skipped("close");
    }
    if !hello.replay {
        report.skipped("replay");
        return Ok(());
    }
    taken_up(driver, dialect, dir, report).await
}

/// A session that was there before is told again, and goes on.
async fn taken_up<W: Write>(
    driver: &mut impl Driver,
    dialect: Dialect,
    dir: &Path,
    report: &mut Report<'_, W>,
) -> Result<(), String> {
    let seen = within("replay", driver.replay(dir)).await?;
    report.seen("replay", &seen);
    report.expect("replay", "the user's first prompt", &seen.user.contains(&format!("say {SAID}")), &true);
    report.expect("replay", "the agent's first answer", &seen.text.contains(SAID), &true);
    if dialect == Dialect::V2 {
        report.expect("replay", "the last state", &seen.states.last().map(String::as_str), &Some("idle"));
    }
    let seen = within("again", driver.prompt("say again", How::Allow)).await?;
    report.turn("again", dialect, &seen, "end_turn");
    report.expect("again", "the text", &seen.text.as_str(), &"again");
    Ok(())
}

struct Report<'a, W> {
    out: &'a mut W,
    ok: bool,
}

impl<W: Write> Report<'_, W> {
    fn line(&mut self, line: &Value) {
        // A reader that has gone away is noticed by its own deadline.
        let _ = writeln!(self.out, "{line}").and_then(|()| self.out.flush());
    }

    fn seen(&mut self, step: &str, seen: &Seen) {
        let mut line = json!({ "step": step });
        if let (Value::Object(line), Ok(Value::Object(fields))) = (&mut line, serde_json::to_value(seen)) {
            line.extend(fields);
        }
        self.line(&line);
    }

    fn skipped(&mut self, step: &str) {
        self.line(&json!({ "step": step, "skipped": true }));
    }

    /// Prints a turn and checks what every turn has in common.
    fn turn(&mut self, step: &str, dialect: Dialect, seen: &Seen, reason: &str) {
        self.seen(step, seen);
        self.expect(step, "the error", &seen.error, &None);
        self.expect(step, "the stop reason", &seen.stop.as_deref(), &Some(reason));
        if dialect == Dialect::V2 {
            self.expect(step, "the last state", &seen.states.last().map(String::as_str), &Some("idle"));
            self.expect(step, "the id of the user message", &seen.same_id, &Some(true));
        }
    }

    fn expect<T: PartialEq + std::fmt::Debug>(&mut self, step: &str, what: &str, got: &T, want: &T) {
        if got != want {
            self.complain(&format!("{step}: {what} is {got:?}, expected {want:?}"));
        }
    }

    fn complain(&mut self, message: &str) {
        self.ok = false;
        let _ = writeln!(std::io::stderr(), "{message}");
    }

    fn done(&mut self) -> bool {
        self.line(&json!({ "step": "done", "ok": self.ok }));
        self.ok
    }
}
